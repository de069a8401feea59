(class_declaration name: (name) @name body: (_) @body) @definition.class
(interface_declaration name: (name) @name body: (_) @body) @definition.interface
(trait_declaration name: (name) @name body: (_) @body) @definition.trait
(enum_declaration name: (name) @name body: (_) @body) @definition.enum
(function_definition
  name: (name) @name return_type: (_)? @returns body: (_) @body) @definition.function
(method_declaration
  name: (name) @name return_type: (_)? @returns body: (_)? @body) @definition.function
(const_declaration (const_element . (name) @name)) @definition.constant
(property_declaration (property_element name: (variable_name (name) @name))) @definition.field

(comment) @comment

(function_call_expression function: (_) @call)
(member_call_expression) @invocation
(nullsafe_member_call_expression) @invocation
(scoped_call_expression) @invocation
(object_creation_expression . [(name) (qualified_name)] @call)
(base_clause (_) @inherit)
(class_interface_clause (_) @inherit)
(use_declaration [(name) (qualified_name)] @inherit)
(attribute . (_) @decorate)

(namespace_use_clause [(qualified_name) (name)] @path alias: (name)? @alias) @import
(namespace_use_declaration
  (namespace_name) @module
  body: (namespace_use_group
    (namespace_use_clause . (name) @imported alias: (name)? @alias))) @import
(require_once_expression (string (string_content) @module)) @import @star
(require_expression (string (string_content) @module)) @import @star
(include_expression (string (string_content) @module)) @import @star

(property_declaration type: (_) @type (property_element name: (variable_name (name) @bind)))
(property_promotion_parameter type: (_)? @type name: (variable_name (name) @property))
(simple_parameter type: (_)? @type name: (variable_name (name) @parameter))
(assignment_expression
  left: [(variable_name) (member_access_expression)] @bind right: (_) @value)
(return_statement (_) @return)
