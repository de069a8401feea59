(function_declaration name: (_) @name body: (_)? @body) @definition.function
(assignment_statement
  (variable_list name: (_) @name)
  (expression_list value: (function_definition body: (_)? @body))) @definition.function
(chunk
  (variable_declaration
    (assignment_statement (variable_list name: (identifier) @name))) @definition.variable)

(comment) @comment

(function_call name: (_) @call)
((assignment_statement
  (variable_list name: (identifier) @alias)
  (expression_list
    value: (function_call
      name: (identifier) @_require
      arguments: (arguments (string content: (string_content) @module))))) @import
  (#eq? @_require "require"))

(assignment_statement
  (variable_list . name: (identifier) @bind)
  (expression_list . value: (_) @value))
(parameters name: (identifier) @parameter)
