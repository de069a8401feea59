(class_declaration "class" name: (identifier) @name (class_body)? @body) @definition.class
(class_declaration "interface" name: (identifier) @name (class_body)? @body) @definition.interface
(object_declaration name: (identifier) @name (class_body)? @body) @definition.class
(class_declaration name: (identifier) @name (enum_class_body) @body) @definition.enum
(function_declaration
  name: (identifier) @name
  [(user_type) (nullable_type)]? @returns
  (function_body)? @body) @definition.function
(source_file
  (property_declaration (variable_declaration . (identifier) @name)) @definition.variable)
(class_body
  (property_declaration (variable_declaration . (identifier) @name)) @definition.field)
(type_alias type: (identifier) @name) @definition.type

(line_comment) @comment
(block_comment) @comment

(call_expression . (_) @call)
(delegation_specifier [(user_type) (constructor_invocation (user_type))] @inherit)
(annotation [(user_type) (constructor_invocation)] @decorate)

(import (qualified_identifier) @path (identifier)? @alias) @import

(class_parameter (identifier) @property [(user_type) (nullable_type)] @type)
(parameter (identifier) @parameter [(user_type) (nullable_type)] @type)
(property_declaration
  (variable_declaration . (identifier) @bind [(user_type) (nullable_type)] @type))
(property_declaration (variable_declaration . (identifier) @bind .) . (_) @value)
(return_expression (_) @return)
