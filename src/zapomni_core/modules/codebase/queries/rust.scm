(function_item
  name: (identifier) @name return_type: (_)? @returns body: (_) @body) @definition.function
(impl_item
  type: (_) @receiver
  body: (declaration_list
    (function_item
      name: (identifier) @name
      return_type: (_)? @returns
      body: (_) @body) @definition.function))
(impl_item
  type: (_) @receiver
  body: (declaration_list (const_item name: (identifier) @name) @definition.constant))
(function_signature_item
  name: (identifier) @name return_type: (_)? @returns) @definition.function
(struct_item name: (type_identifier) @name body: (_)? @body) @definition.struct
(union_item name: (type_identifier) @name body: (_) @body) @definition.struct
(enum_item name: (type_identifier) @name body: (_) @body) @definition.enum
(trait_item name: (type_identifier) @name body: (_) @body) @definition.trait
(type_item name: (type_identifier) @name) @definition.type
(const_item name: (identifier) @name) @definition.constant
(static_item name: (identifier) @name) @definition.constant
(macro_definition name: (identifier) @name) @definition.macro
(mod_item name: (identifier) @name body: (_) @body) @definition.namespace

(line_comment) @comment
(block_comment) @comment
(attribute_item) @comment

(call_expression function: (_) @call)
(macro_invocation macro: (_) @call)
(impl_item trait: (_) @inherit type: (_) @inheriting)
(trait_item bounds: (trait_bounds (_) @inherit))

(use_declaration argument: (_) @tree) @import
(mod_item name: (identifier) @module !body) @import

(field_declaration name: (field_identifier) @bind type: (_) @type)
(parameter pattern: (identifier) @parameter type: (_) @type)
(let_declaration pattern: (identifier) @bind type: (_)? @type value: (_)? @value)
(for_expression pattern: (identifier) @bind value: (_) @element)
