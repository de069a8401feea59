(class_declaration name: (identifier) @name body: (_)? @body) @definition.class
(record_declaration name: (identifier) @name) @definition.class
(struct_declaration name: (identifier) @name body: (_)? @body) @definition.struct
(interface_declaration name: (identifier) @name body: (_) @body) @definition.interface
(enum_declaration name: (identifier) @name body: (_) @body) @definition.enum
(namespace_declaration name: (_) @name body: (_) @body) @definition.namespace
(delegate_declaration name: (identifier) @name) @definition.type
(method_declaration
  returns: (_) @returns name: (identifier) @name body: (_)? @body) @definition.function
(constructor_declaration name: (identifier) @name body: (_)? @body) @definition.function
(local_function_statement name: (identifier) @name body: (_) @body) @definition.function
(property_declaration
  type: (_) @returns name: (identifier) @name accessors: (_)? @body) @definition.field
(field_declaration
  (variable_declaration (variable_declarator name: (identifier) @name))) @definition.field

(comment) @comment

(invocation_expression function: (_) @call)
(object_creation_expression type: (_) @call)
(base_list [(identifier) (qualified_name) (generic_name)] @inherit)
(attribute name: (_) @decorate)

(using_directive !name [(identifier) (qualified_name)] @module) @import @star
(using_directive name: (identifier) @alias (qualified_name) @path) @import

(field_declaration
  (variable_declaration type: (_) @type (variable_declarator name: (identifier) @bind)))
(property_declaration type: (_) @type name: (identifier) @bind)
(local_declaration_statement
  (variable_declaration
    type: (implicit_type)
    (variable_declarator name: (identifier) @bind (_) @value)))
(local_declaration_statement
  (variable_declaration
    type: [(identifier) (generic_name) (qualified_name) (nullable_type)] @type
    (variable_declarator name: (identifier) @bind)))
(parameter type: (_) @type name: (identifier) @parameter)
(foreach_statement type: (_) @type left: (identifier) @bind)
(return_statement (_) @return)
