(class_definition name: (_) @name body: (_)? @body) @definition.class
(object_definition name: (_) @name body: (_)? @body) @definition.class
(trait_definition name: (_) @name body: (_)? @body) @definition.trait
(enum_definition name: (_) @name body: (_) @body) @definition.enum
(function_definition
  name: (_) @name return_type: (_)? @returns body: (_) @body) @definition.function
(function_declaration name: (_) @name return_type: (_)? @returns) @definition.function
(type_definition name: (_) @name) @definition.type
(template_body (val_definition pattern: (identifier) @name) @definition.field)
(template_body (var_definition pattern: (identifier) @name) @definition.field)
(compilation_unit (val_definition pattern: (identifier) @name) @definition.variable)

(comment) @comment
(block_comment) @comment

(call_expression function: (_) @call)
(instance_expression . (_) @call)
(extends_clause [(type_identifier) (generic_type) (stable_type_identifier)] @inherit)
(annotation name: (_) @decorate)

(import_declaration) @import @tree

(class_parameter name: (identifier) @property type: (_) @type)
(parameter name: (identifier) @parameter type: (_) @type)
(val_definition pattern: (identifier) @bind type: (_)? @type value: (_)? @value)
(var_definition pattern: (identifier) @bind type: (_)? @type value: (_)? @value)
