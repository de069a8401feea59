(class name: (_) @name body: (_)? @body) @definition.class
(module name: (_) @name body: (_)? @body) @definition.namespace
(method name: (_) @name body: (_)? @body) @definition.function
(singleton_method name: (_) @name body: (_)? @body) @definition.function
(assignment left: (constant) @name) @definition.constant

(comment) @comment

(call) @invocation
(superclass (_) @inherit)
((call method: (identifier) @_include arguments: (argument_list (_) @inherit))
  (#match? @_include "^(include|extend|prepend)$"))
((call
  method: (identifier) @_require
  arguments: (argument_list (string (string_content) @module))) @import @star
  (#match? @_require "^require"))

(assignment left: [(identifier) (instance_variable)] @bind right: (_) @value)
(method_parameters (identifier) @parameter)
