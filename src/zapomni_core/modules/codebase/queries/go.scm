(function_declaration
  name: (identifier) @name result: (_)? @returns body: (_)? @body) @definition.function
(method_declaration
  receiver: (parameter_list (parameter_declaration type: (_) @receiver))
  name: (field_identifier) @name
  result: (_)? @returns
  body: (_)? @body) @definition.function
(type_declaration
  (type_spec name: (type_identifier) @name type: (struct_type (_) @body))) @definition.struct
(type_declaration
  (type_spec name: (type_identifier) @name type: (interface_type) @body)) @definition.interface
(type_declaration (type_spec name: (type_identifier) @name)) @definition.type
(type_declaration (type_alias name: (type_identifier) @name)) @definition.type
(interface_type (method_elem name: (field_identifier) @name) @definition.function)
(source_file (const_declaration (const_spec name: (identifier) @name) @definition.constant))
(source_file (var_declaration (var_spec name: (identifier) @name) @definition.variable))

(comment) @comment

(call_expression function: (_) @call)
(struct_type (field_declaration_list (field_declaration !name type: (_) @inherit)))
(import_spec
  name: (package_identifier)? @alias
  path: (interpreted_string_literal (interpreted_string_literal_content) @module)) @import
(import_spec
  name: (dot) @star
  path: (interpreted_string_literal (interpreted_string_literal_content) @module)) @import

(field_declaration name: (field_identifier) @bind type: (_) @type)
(parameter_declaration name: (identifier) @parameter type: (_) @type)
(variadic_parameter_declaration name: (identifier) @parameter)
(var_spec name: (identifier) @bind type: (_)? @type value: (expression_list . (_) @value)?)
(short_var_declaration
  left: (expression_list . (identifier) @bind)
  right: (expression_list . (_) @value))
(short_var_declaration left: (expression_list (_) . (identifier) @bind))
(assignment_statement
  left: (expression_list . (identifier) @bind)
  right: (expression_list . (_) @value))
(range_clause
  left: (expression_list (_) . (identifier) @bind)
  right: (_) @element)
(return_statement (expression_list . (_) @return))
