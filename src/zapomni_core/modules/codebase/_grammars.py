"""Loads the grammars, which come with the extra `code`."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from importlib.resources import files
from importlib.util import find_spec
from typing import TYPE_CHECKING

from zapomni_core.exceptions import ProcessingError
from zapomni_core.modules.codebase._languages import LANGUAGES

if TYPE_CHECKING:
    import tree_sitter

__all__ = ["load_grammar", "require_grammar"]


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
