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

(comment) @comment

; What they refer to

(call_expression function: (_) @call)
(new_expression constructor: (_) @call)
(class_declaration decorator: (decorator (_) @decorate))

(import_statement
  (import_clause (identifier) @alias)
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
(export_statement "*" @star source: (string (string_fragment) @module)) @import
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

; What names stand for

(variable_declarator name: (identifier) @bind value: (_) @value)
(assignment_expression left: [(identifier) (member_expression)] @bind right: (_) @value)
(for_in_statement left: (identifier) @bind right: (_) @element)
(return_statement (_) @return)
