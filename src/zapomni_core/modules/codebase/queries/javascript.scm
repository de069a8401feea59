; Definitions

(function_declaration name: (identifier) @name body: (_) @body) @definition.function
(generator_function_declaration name: (identifier) @name body: (_) @body) @definition.function
(class_body (method_definition name: (_) @name body: (_) @body) @definition.function)
(lexical_declaration
  (variable_declarator
    name: (identifier) @name
    value: [(arrow_function body: (_) @body) (function_expression body: (_) @body)]))
  @definition.function
(variable_declaration
  (variable_declarator
    name: (identifier) @name
    value: [(arrow_function body: (_) @body) (function_expression body: (_) @body)]))
  @definition.function
(expression_statement
  (assignment_expression
    left: (member_expression property: (property_identifier) @name)
    right: [(arrow_function body: (_) @body) (function_expression body: (_) @body)]))
  @definition.function
(program (lexical_declaration (variable_declarator name: (identifier) @name)) @definition.variable)
(program (variable_declaration (variable_declarator name: (identifier) @name)) @definition.variable)
(program
  (export_statement
    declaration: (lexical_declaration
      (variable_declarator name: (identifier) @name)) @definition.variable))
(export_statement declaration: (_) @wrapped) @wrapper
(export_statement
  "default" @name
  value: [(arrow_function body: (_) @body) (function_expression !name body: (_) @body)])
  @definition.function
(export_statement "default" @name value: (class !name body: (_) @body)) @definition.class

(comment) @comment

; What they refer to

(call_expression function: (_) @call)
(new_expression constructor: (_) @call)
(class_declaration decorator: (decorator (_) @decorate))

; Names that are used as values

(arguments [(identifier) (member_expression)] @use)
(pair value: [(identifier) (member_expression)] @use)
(object (shorthand_property_identifier) @use)
(array [(identifier) (member_expression)] @use)
(spread_element [(identifier) (member_expression)] @use)
(variable_declarator value: [(identifier) (member_expression)] @use)
(assignment_expression right: [(identifier) (member_expression)] @use)
(assignment_pattern right: [(identifier) (member_expression)] @use)
(return_statement [(identifier) (member_expression)] @use)
(arrow_function body: [(identifier) (member_expression)] @use)
(ternary_expression [(identifier) (member_expression)] @use)
(binary_expression operator: ["instanceof" "||" "&&" "??"] right: (identifier) @use)

(import_statement
  (import_clause (identifier) @default)
  source: (string (string_fragment) @module)) @import
(import_statement
  (import_clause (namespace_import (identifier) @alias))
  source: (string (string_fragment) @module)) @import
(import_statement
  (import_clause
    (named_imports (import_specifier name: (_) @imported alias: (identifier)? @alias)))
  source: (string (string_fragment) @module)) @import
(export_statement
  (export_clause (export_specifier name: (_) @imported alias: (_)? @alias))
  source: (string (string_fragment) @module)) @import
(export_statement
  (namespace_export (_) @alias)
  source: (string (string_fragment) @module)) @import
(export_statement . "export" . "*" @star . "from" source: (string (string_fragment) @module)) @import
((variable_declarator
  name: (identifier) @alias
  value: (call_expression
    function: (identifier) @_require
    arguments: (arguments (string (string_fragment) @module)))) @import
  (#eq? @_require "require"))
((variable_declarator
  name: (object_pattern (shorthand_property_identifier_pattern) @imported)
  value: (call_expression
    function: (identifier) @_require
    arguments: (arguments (string (string_fragment) @module)))) @import
  (#eq? @_require "require"))

; What is exported by which name

(export_statement
  (export_clause (export_specifier name: (_) @exported alias: (_)? @export))
  !source)
(export_statement "default" @default value: (_) @exported)
(export_statement "default" @default declaration: (_ name: (_) @exported))
((assignment_expression left: (member_expression) @export right: (_) @exported)
  (#match? @export "^(module[.])?exports([.]|$)"))
((assignment_expression
  left: (member_expression) @_exports
  right: (object (shorthand_property_identifier) @exported))
  (#eq? @_exports "module.exports"))
((assignment_expression
  left: (member_expression) @_exports
  right: (object (pair key: (property_identifier) @export value: (_) @exported)))
  (#eq? @_exports "module.exports"))

; What names stand for

(variable_declarator name: (identifier) @bind value: (_) @value)
(assignment_expression left: [(identifier) (member_expression)] @bind right: (_) @value)
(for_in_statement left: (identifier) @bind right: (_) @element)
(return_statement (_) @return)
