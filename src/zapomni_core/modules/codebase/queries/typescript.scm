; What TypeScript has beyond JavaScript, or names otherwise.

(class_declaration name: (_) @name body: (_) @body) @definition.class
(abstract_class_declaration name: (_) @name body: (_) @body) @definition.class
(interface_declaration name: (_) @name body: (_) @body) @definition.interface
(enum_declaration name: (_) @name body: (_) @body) @definition.enum
(type_alias_declaration name: (_) @name) @definition.type
(internal_module name: (_) @name body: (_) @body) @definition.namespace
(module name: (_) @name body: (_) @body) @definition.namespace
(function_signature name: (_) @name) @definition.function
(method_signature name: (_) @name) @definition.function
(abstract_method_signature name: (_) @name) @definition.function
(public_field_definition
  name: (_) @name
  value: [(arrow_function body: (_) @body) (function_expression body: (_) @body)])
  @definition.function
(property_signature name: (_) @name) @definition.field

(export_statement decorator: (decorator (_) @decorate))
(class_heritage (extends_clause value: (_) @inherit))
(class_heritage (implements_clause (_) @inherit))
(extends_type_clause type: (_) @inherit)

(public_field_definition name: (_) @bind type: (type_annotation (_) @type)? value: (_)? @value)
(property_signature name: (_) @bind type: (type_annotation (_) @type))
(variable_declarator name: (identifier) @bind type: (type_annotation (_) @type))
(required_parameter
  (accessibility_modifier)
  pattern: (identifier) @property
  type: (type_annotation (_) @type))
(required_parameter pattern: (identifier) @parameter type: (type_annotation (_) @type)?)
(optional_parameter pattern: (identifier) @parameter type: (type_annotation (_) @type)?)
(function_declaration return_type: (type_annotation (_) @returns))
(method_definition return_type: (type_annotation (_) @returns))
(arrow_function return_type: (type_annotation (_) @returns))
