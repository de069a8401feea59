; What C++ has beyond C.

(class_specifier name: (_) @name body: (_) @body) @definition.class
(namespace_definition name: (_) @name body: (_) @body) @definition.namespace
(alias_declaration name: (type_identifier) @name) @definition.type
(function_definition
  type: (_) @returns
  declarator: (reference_declarator (function_declarator declarator: (_) @name))
  body: (_) @body) @definition.function
(function_definition
  !type
  declarator: (function_declarator declarator: (_) @name)
  body: (_) @body) @definition.function
(template_declaration [(class_specifier) (function_definition) (struct_specifier)] @wrapped)
  @wrapper

(new_expression type: (_) @call)
(base_class_clause [(type_identifier) (qualified_identifier) (template_type)] @inherit)

(parameter_declaration
  type: (_) @type
  declarator: (reference_declarator (identifier) @parameter))
(for_range_loop type: (_) @type declarator: (identifier) @bind)
(return_statement (_) @return)
