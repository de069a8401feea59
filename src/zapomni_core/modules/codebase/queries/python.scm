; Definitions

(function_definition
  name: (identifier) @name
  return_type: (type)? @returns
  body: (block) @body) @definition.function

(class_definition name: (identifier) @name body: (block) @body) @definition.class

(module (expression_statement (assignment left: (identifier) @name)) @definition.variable)

(class_definition
  body: (block (expression_statement (assignment left: (identifier) @name)) @definition.field))

(decorated_definition definition: (_) @wrapped) @wrapper

; What documents them

(comment) @comment

(function_definition body: (block . (expression_statement (string (string_content) @doc))))
(class_definition body: (block . (expression_statement (string (string_content) @doc))))
(module . (comment)* . (expression_statement (string (string_content) @doc)))

; What they refer to

(call function: (_) @call)
(decorator (_) @decorate)
(class_definition
  superclasses: (argument_list [(identifier) (attribute) (subscript) (call)] @inherit))

; Names that are used as values

(call arguments: (argument_list [(identifier) (attribute)] @use))
(keyword_argument value: [(identifier) (attribute)] @use)
(pair value: [(identifier) (attribute)] @use)
(list [(identifier) (attribute)] @use)
(tuple [(identifier) (attribute)] @use)
(set [(identifier) (attribute)] @use)
(expression_list [(identifier) (attribute)] @use)
(assignment right: [(identifier) (attribute)] @use)
(return_statement [(identifier) (attribute)] @use)
(default_parameter value: [(identifier) (attribute)] @use)
(typed_default_parameter value: [(identifier) (attribute)] @use)
(raise_statement [(identifier) (attribute)] @use)
(except_clause value: [(identifier) (attribute)] @use)
(except_clause value: (as_pattern . [(identifier) (attribute)] @use))
(conditional_expression [(identifier) (attribute)] @use)
(boolean_operator [(identifier) (attribute)] @use)

(import_statement name: (dotted_name) @module) @import
(import_statement
  name: (aliased_import name: (dotted_name) @module alias: (identifier) @alias)) @import
(import_from_statement module_name: (_) @module name: (dotted_name) @imported) @import
(import_from_statement
  module_name: (_) @module
  name: (aliased_import name: (dotted_name) @imported alias: (identifier) @alias)) @import
(import_from_statement module_name: (_) @module (wildcard_import) @imported) @import

; What names stand for

(assignment
  left: [(identifier) (attribute)] @bind
  type: (type)? @type
  right: (_)? @value)
(assignment left: [(pattern_list (identifier) @bind) (tuple_pattern (identifier) @bind)])
(named_expression name: (identifier) @bind value: (_) @value)
(for_statement left: (identifier) @bind right: (_) @element)
(for_statement left: (pattern_list (identifier) @bind))
(for_in_clause left: (identifier) @bind right: (_) @element)
(for_in_clause left: (pattern_list (identifier) @bind))
(with_item value: (as_pattern (_) @enter alias: (as_pattern_target (identifier) @bind)))
(except_clause value: (as_pattern (_) @type alias: (as_pattern_target (identifier) @bind)))

(parameters (identifier) @parameter)
(parameters (typed_parameter . (identifier) @parameter type: (type) @type))
(parameters (typed_default_parameter name: (identifier) @parameter type: (type) @type))
(parameters (default_parameter name: (identifier) @parameter value: (_) @value))

(return_statement (_) @return)
(yield (_) @yield)
