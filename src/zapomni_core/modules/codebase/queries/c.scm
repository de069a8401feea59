(function_definition
  type: (_) @returns
  declarator: (function_declarator declarator: (_) @name)
  body: (_) @body) @definition.function
(function_definition
  type: (_) @returns
  declarator: (pointer_declarator declarator: (function_declarator declarator: (_) @name))
  body: (_) @body) @definition.function
(struct_specifier name: (_) @name body: (_) @body) @definition.struct
(union_specifier name: (_) @name body: (_) @body) @definition.struct
(enum_specifier name: (_) @name body: (_) @body) @definition.enum
(type_definition declarator: (type_identifier) @name) @definition.type
(preproc_function_def name: (identifier) @name) @definition.macro
(preproc_def name: (identifier) @name value: (_)) @definition.constant
(translation_unit
  (declaration declarator: (init_declarator declarator: (identifier) @name)) @definition.variable)

(comment) @comment

(call_expression function: (_) @call)
(preproc_include path: (string_literal (string_content) @module)) @import @star

(field_declaration type: (_) @type declarator: (field_identifier) @bind)
(field_declaration
  type: (_) @type
  declarator: (pointer_declarator declarator: (field_identifier) @bind))
(parameter_declaration type: (_) @type declarator: (identifier) @parameter)
(parameter_declaration
  type: (_) @type
  declarator: (pointer_declarator declarator: (identifier) @parameter))
(declaration type: (_) @type declarator: (identifier) @bind)
(declaration
  type: (_) @type
  declarator: (init_declarator declarator: (identifier) @bind value: (_) @value))
(declaration type: (_) @type declarator: (pointer_declarator declarator: (identifier) @bind))
(declaration
  type: (_) @type
  declarator: (init_declarator
    declarator: (pointer_declarator declarator: (identifier) @bind)
    value: (_) @value))
