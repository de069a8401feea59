"""The languages we read: which files are theirs, and how their trees are to be understood.

What a grammar calls a function, a call or an import is in `queries/<language>.scm`. The
captures mean the same in every language:

    @definition.<kind>  a symbol; with it @name, and where there are such @body, @receiver, @returns
    @wrapper, @wrapped  decorators or an `export` around a definition belong to its symbol
    @doc, @comment      what documents the symbol it is in, or the one after it
    @call               what is called; @invocation the whole call, where no node is just that
    @inherit @decorate  a base class, a decorator; @inheriting, whose base if it is not around it
    @import             with @module and @imported, or both in one @path; @alias, @star for all;
                        @tree where one statement imports as it is written: `a::{b, c as d}`
    @bind @parameter    a name, with @value, @type, @element or @enter saying what it is;
                        @property is a parameter that becomes a field
    @return, @yield     what a function hands out
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from importlib.resources import files
from importlib.util import find_spec
from typing import TYPE_CHECKING

from zapomni_core.exceptions import ProcessingError

if TYPE_CHECKING:
    import tree_sitter

__all__ = [
    "CLASS_LIKE",
    "LANGUAGES",
    "LEAVES",
    "Language",
    "language_of",
    "load_grammar",
    "require_grammar",
]


CLASS_LIKE = frozenset({"class", "interface", "struct", "enum", "trait"})
"""Kinds of symbols that have members."""
LEAVES = frozenset({"constant", "variable", "field"})
"""Kinds of symbols that contain no others."""


@dataclass(frozen=True)
class Language:
    """One language: its files, its grammar, and what the resolver must know of it."""

    name: str
    grammar: str
    """The grammar's module, and the function in it if it is not `language`."""
    suffixes: str
    names: str = ""
    """Whole file names, in lower case."""
    interpreters: str = ""
    """What its scripts have behind `#!`."""
    queries: tuple[str, ...] = ()
    """Files of queries, if not one of its own name."""
    chains: dict[str, str] = field(default_factory=dict)
    """How an expression's node becomes a chain: its fields (#0 is the first child), joined by
    dots, and what is done to them; `!` for a value of the language itself."""
    selves: frozenset[str] = frozenset({"this"})
    """How a method calls its own instance or class."""
    parent: str = "super"
    """How it calls what its class inherits from."""
    implicit_self: bool = False
    """Whether a bare name may be a member of the class around it."""
    shared: str = ""
    """Whose top-level names need no import: "folder" for files in the same folder, "everywhere"."""


_MEMBER_CALLS = {"parenthesized_expression": "#0", "await_expression": "#0"}
_SCRIPT = {
    **_MEMBER_CALLS,
    "member_expression": "object.property",
    "call_expression": "function()",
    "new_expression": "constructor()",
    "subscript_expression": "object[]",
    "as_expression": "#0",
    "satisfies_expression": "#0",
    "non_null_expression": "#0",
    "ternary_expression": "consequence|alternative",
    "nested_type_identifier": "module.name",
    "generic_type": "name",
}
_C = {
    **_MEMBER_CALLS,
    "field_expression": "argument.field",
    "call_expression": "function()",
    "subscript_expression": "argument[]",
    "pointer_expression": "argument",
    "qualified_identifier": "scope.name",
    "template_function": "name",
    "template_type": "name",
    "new_expression": "type()",
    "conditional_expression": "consequence|alternative",
}

_TABLE = (
    Language(
        "python",
        "tree_sitter_python",
        ".py .pyi .pyw",
        interpreters="python pypy",
        chains={
            "attribute": "object.attribute",
            "call": "function()",
            "subscript": "value[]",
            "await": "#0",
            "parenthesized_expression": "#0",
            "conditional_expression": "#0|#2",
            "boolean_operator": "left|right",
            "named_expression": "value",
            "list": "*#0",
            "list_comprehension": "*body",
            "generator_expression": "*body",
            **dict.fromkeys(
                """string concatenated_string integer float true false dictionary set tuple
                dictionary_comprehension set_comprehension comparison_operator not_operator
                lambda binary_operator""".split(),
                "!",
            ),
        },
        selves=frozenset({"self", "cls"}),
    ),
    Language(
        "javascript",
        "tree_sitter_javascript",
        ".js .jsx .mjs .cjs",
        interpreters="node deno bun",
        queries=("javascript", "ecmascript"),
        chains=_SCRIPT,
    ),
    Language(
        "typescript",
        "tree_sitter_typescript:language_typescript",
        ".ts .mts .cts",
        queries=("javascript", "typescript"),
        chains=_SCRIPT,
    ),
    Language(
        "tsx",
        "tree_sitter_typescript:language_tsx",
        ".tsx",
        queries=("javascript", "typescript"),
        chains=_SCRIPT,
    ),
    Language(
        "go",
        "tree_sitter_go",
        ".go",
        chains={
            **_MEMBER_CALLS,
            "selector_expression": "operand.field",
            "call_expression": "function()",
            "index_expression": "operand[]",
            "unary_expression": "operand",
            "composite_literal": "type()",
            "type_assertion_expression": "operand",
            "pointer_type": "#0",
            "generic_type": "type",
            "qualified_type": "package.name",
            "type_instantiation_expression": "type",
        },
        selves=frozenset(),
        shared="folder",
    ),
    Language(
        "rust",
        "tree_sitter_rust",
        ".rs",
        chains={
            **_MEMBER_CALLS,
            "field_expression": "value.field",
            "call_expression": "function()",
            "scoped_identifier": "path.name",
            "scoped_type_identifier": "path.name",
            "generic_function": "function",
            "generic_type": "type",
            "index_expression": "#0[]",
            "try_expression": "#0",
            "reference_expression": "value",
            "struct_expression": "name()",
        },
        selves=frozenset({"self", "Self"}),
        parent="",
    ),
    Language(
        "java",
        "tree_sitter_java",
        ".java",
        chains={
            **_MEMBER_CALLS,
            "method_invocation": "object.name()",
            "object_creation_expression": "type()",
            "field_access": "object.field",
            "array_access": "array[]",
            "scoped_type_identifier": "#0.#1",
            "generic_type": "#0",
            "ternary_expression": "consequence|alternative",
        },
        implicit_self=True,
        shared="folder",
    ),
    Language("c", "tree_sitter_c", ".c .h", chains=_C, shared="everywhere"),
    Language(
        "cpp",
        "tree_sitter_cpp",
        ".cc .cpp .cxx .c++ .hh .hpp .hxx .ipp .inl .cu .cuh",
        queries=("c", "cpp"),
        chains=_C,
        implicit_self=True,
        shared="everywhere",
    ),
    Language(
        "csharp",
        "tree_sitter_c_sharp",
        ".cs",
        chains={
            **_MEMBER_CALLS,
            "member_access_expression": "expression.name",
            "invocation_expression": "function()",
            "object_creation_expression": "type()",
            "element_access_expression": "expression[]",
            "conditional_access_expression": "condition.#-1",
            "member_binding_expression": "name",
            "qualified_name": "qualifier.name",
            "generic_name": "#0",
            "conditional_expression": "consequence|alternative",
        },
        parent="base",
        implicit_self=True,
        shared="everywhere",
    ),
    Language(
        "ruby",
        "tree_sitter_ruby",
        ".rb .rake .gemspec .ru",
        names="rakefile gemfile",
        interpreters="ruby",
        chains={
            "call": "receiver.method()",
            "scope_resolution": "scope.name",
            "element_reference": "object[]",
            "parenthesized_statements": "#0",
        },
        selves=frozenset({"self"}),
        implicit_self=True,
        shared="everywhere",
    ),
    Language(
        "php",
        "tree_sitter_php:language_php",
        ".php .phtml",
        interpreters="php",
        chains={
            **_MEMBER_CALLS,
            "member_call_expression": "object.name()",
            "nullsafe_member_call_expression": "object.name()",
            "scoped_call_expression": "scope.name()",
            "function_call_expression": "function()",
            "member_access_expression": "object.name",
            "nullsafe_member_access_expression": "object.name",
            "object_creation_expression": "#0()",
            "variable_name": "#0",
            "qualified_name": "#-1",
            "subscript_expression": "#0[]",
        },
        selves=frozenset({"this", "self", "static"}),
        parent="parent",
        shared="everywhere",
    ),
    Language(
        "kotlin",
        "tree_sitter_kotlin",
        ".kt .kts",
        chains={
            "call_expression": "#0()",
            "navigation_expression": "#0.#1",
            "unary_expression": "argument",
            "indexing_expression": "#0[]",
            "parenthesized_expression": "#0",
            "user_type": "#0",
            "constructor_invocation": "#0",
        },
        implicit_self=True,
        shared="folder",
    ),
    Language(
        "swift",
        "tree_sitter_swift",
        ".swift",
        chains={
            "call_expression": "#0()",
            "navigation_expression": "target.suffix",
            "navigation_suffix": "suffix",
            "try_expression": "expr",
            "await_expression": "expr",
            "postfix_expression": "target",
            "tuple_expression": "value",
            "user_type": "#0",
        },
        selves=frozenset({"self", "Self"}),
        implicit_self=True,
        shared="everywhere",
    ),
    Language(
        "scala",
        "tree_sitter_scala",
        ".scala .sc .sbt",
        chains={
            **_MEMBER_CALLS,
            "field_expression": "value.field",
            "call_expression": "function()",
            "generic_function": "function",
            "instance_expression": "#0()",
            "generic_type": "type",
            "stable_type_identifier": "#0.#1",
        },
        implicit_self=True,
        shared="folder",
    ),
    Language(
        "lua",
        "tree_sitter_lua",
        ".lua",
        interpreters="lua luajit",
        chains={
            "dot_index_expression": "table.field",
            "method_index_expression": "table.method",
            "bracket_index_expression": "table[]",
            "function_call": "name()",
            "parenthesized_expression": "#0",
        },
        selves=frozenset({"self"}),
    ),
    Language(
        "bash",
        "tree_sitter_bash",
        ".sh .bash .zsh .ksh",
        names=".bashrc .bash_profile .profile .zshrc",
        interpreters="bash sh zsh ksh dash",
        shared="everywhere",
    ),
    Language(
        "sql",
        "tree_sitter_sql",
        ".sql .ddl .psql",
        chains={"object_reference": "schema.name"},
        shared="everywhere",
    ),
    Language("markdown", "tree_sitter_markdown", ".md .markdown .mdx .mkd"),
    Language("toml", "tree_sitter_toml", ".toml", names="pipfile"),
    Language("yaml", "tree_sitter_yaml", ".yaml .yml"),
    Language("json", "tree_sitter_json", ".json .jsonc .json5"),
)
LANGUAGES = {language.name: language for language in _TABLE}

_BY_SUFFIX = {suffix: lang.name for lang in _TABLE for suffix in lang.suffixes.split()}
_BY_NAME = {name: lang.name for lang in _TABLE for name in lang.names.split()}
_BY_INTERPRETER = {name: lang.name for lang in _TABLE for name in lang.interpreters.split()}
_SHEBANG = re.compile(rb"#![ \t]*\S*?(?:\benv(?:[ \t]+-\S+)*[ \t]+)?([a-z]++)[\d.]*+(?:\s|\Z)")
_CPP_HEADER = re.compile(rb"^[ \t]*+(?:class|namespace|template|using)\b|::", re.MULTILINE)


def language_of(path: str, data: bytes) -> str:
    """Return the language of a file, "text" if we know no grammar for it."""
    name = path.rpartition("/")[2].lower()
    found = _BY_NAME.get(name) or _BY_SUFFIX.get(f".{name.rpartition('.')[2]}")
    if found == "c" and name.endswith(".h") and _CPP_HEADER.search(data):
        return "cpp"
    if not found and "." not in name and (shebang := _SHEBANG.match(data[:200])):
        found = _BY_INTERPRETER.get(shebang[1].decode())
    return found or "text"


# --- Loads the grammars, which come with the extra `code` -----------------------------


def require_grammar(name: str) -> None:
    """Make sure that a language can be parsed.

    Raises:
        ProcessingError: The extra `code` is not installed (CODE_003).
    """
    if not _is_installed("tree_sitter") or not _is_installed(_module(name)[0]):
        raise ProcessingError(
            "Reading code needs an extra library; install it with: pip install 'zapomni[code]'",
            "CODE_003",
        )


@cache
def load_grammar(name: str) -> tuple[tree_sitter.Language, tree_sitter.Query]:
    """Return a language's grammar and query."""
    import tree_sitter

    module, function = _module(name)
    tongue = tree_sitter.Language(getattr(import_module(module), function)())
    folder = files(__package__) / "queries"
    queries = LANGUAGES[name].queries or (name,)
    source = "\n".join((folder / f"{query}.scm").read_text(encoding="utf-8") for query in queries)
    return tongue, tree_sitter.Query(tongue, source)


def _module(name: str) -> tuple[str, str]:
    module, _, function = LANGUAGES[name].grammar.partition(":")
    return module, function or "language"


@cache
def _is_installed(module: str) -> bool:
    return find_spec(module) is not None
