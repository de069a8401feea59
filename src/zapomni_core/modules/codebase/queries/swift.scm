(class_declaration
  declaration_kind: ["class" "actor" "extension"]
  name: (_) @name
  body: (_) @body) @definition.class
(class_declaration declaration_kind: "struct" name: (_) @name body: (_) @body) @definition.struct
(class_declaration declaration_kind: "enum" name: (_) @name body: (_) @body) @definition.enum
(protocol_declaration name: (_) @name body: (_) @body) @definition.interface
(function_declaration name: (simple_identifier) @name body: (_)? @body) @definition.function
(protocol_function_declaration name: (simple_identifier) @name) @definition.function
(init_declaration "init" @name body: (_)? @body) @definition.function
(typealias_declaration name: (type_identifier) @name) @definition.type
(source_file
  (property_declaration name: (pattern (simple_identifier) @name)) @definition.variable)
(class_body
  (property_declaration name: (pattern (simple_identifier) @name)) @definition.field)

(comment) @comment
(multiline_comment) @comment

(call_expression . (_) @call)
(inheritance_specifier inherits_from: (_) @inherit)

(property_declaration
  name: (pattern (simple_identifier) @bind)
  (type_annotation (_) @type))
(property_declaration name: (pattern (simple_identifier) @bind) value: (_) @value)
(parameter name: (simple_identifier) @parameter (user_type) @type)
(function_declaration (user_type) @returns)
