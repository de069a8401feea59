(function_definition name: (word) @name body: (_) @body) @definition.function
(program (declaration_command (variable_assignment name: (variable_name) @name)) @definition.variable)
(program (variable_assignment name: (variable_name) @name) @definition.variable)

(comment) @comment

(command name: (command_name (word) @call))
((command name: (command_name (word) @_source) argument: (word) @module) @import @star
  (#match? @_source "^(source|[.])$"))
