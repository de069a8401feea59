; What JavaScript's grammar names otherwise than TypeScript's.

(class_declaration name: (identifier) @name body: (_) @body) @definition.class
(class_body
  (field_definition
    property: (_) @name
    value: [(arrow_function body: (_) @body) (function_expression body: (_) @body)])
  @definition.function)
(class_heritage [(identifier) (member_expression) (call_expression)] @inherit)
(field_definition property: [(property_identifier) (private_property_identifier)] @bind value: (_) @value)
(formal_parameters (identifier) @parameter)
