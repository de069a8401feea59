(class_declaration name: (identifier) @name body: (_) @body) @definition.class
(record_declaration name: (identifier) @name body: (_) @body) @definition.class
(interface_declaration name: (identifier) @name body: (_) @body) @definition.interface
(annotation_type_declaration name: (identifier) @name body: (_) @body) @definition.interface
(enum_declaration name: (identifier) @name body: (_) @body) @definition.enum
(method_declaration
  type: (_) @returns name: (identifier) @name body: (_)? @body) @definition.function
(constructor_declaration name: (identifier) @name body: (_) @body) @definition.function
(field_declaration declarator: (variable_declarator name: (identifier) @name)) @definition.field
(enum_constant name: (identifier) @name) @definition.constant

(line_comment) @comment
(block_comment) @comment

(method_invocation) @invocation
(object_creation_expression type: (_) @call)
(superclass (_) @inherit)
(super_interfaces (type_list (_) @inherit))
(extends_interfaces (type_list (_) @inherit))
(modifiers [(annotation name: (_) @decorate) (marker_annotation name: (_) @decorate)])

(import_declaration (scoped_identifier) @path . ";") @import
(import_declaration (scoped_identifier) @module . (asterisk) @star) @import

(field_declaration type: (_) @type declarator: (variable_declarator name: (identifier) @bind))
(local_variable_declaration
  type: (_) @type
  declarator: (variable_declarator name: (identifier) @bind value: (_)? @value))
(formal_parameter type: (_) @type name: (identifier) @parameter)
(enhanced_for_statement type: (_) @type name: (identifier) @bind)
(resource type: (_) @type name: (identifier) @bind)
(return_statement (_) @return)
