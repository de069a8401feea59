(create_table (object_reference) @name) @definition.table
(create_view . (_)* (object_reference) @name) @definition.view
(create_materialized_view (object_reference) @name) @definition.view
(create_function . (_)* (object_reference) @name (function_body)? @body) @definition.function
(create_trigger . (_)* . (keyword_trigger) . (object_reference) @name) @definition.function
(create_type (object_reference) @name) @definition.type

(comment) @comment
(marginalia) @comment

(invocation (object_reference) @call)
