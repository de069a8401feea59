"""What reading a repository yields: files, symbols, chunks, and who refers to whom.

Lines count from 1 and include the last one. Bytes are offsets into the file's UTF-8 text
(`SourceFile.data`), the end not included. A symbol is known in its repository by its file's path
and its qualified name, which no other symbol of that file has.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping, Sequence
from functools import partial
from typing import Literal, NamedTuple, Protocol

from zapomni_db.symbols import Symbol, SymbolKind

__all__ = [
    "Binding",
    "BindingKind",
    "Definition",
    "EdgeKind",
    "FactSource",
    "Facts",
    "FileEntry",
    "Import",
    "ParsedFile",
    "Reference",
    "ReferenceKind",
    "Repository",
    "Skipped",
    "Snapshot",
    "SourceChunk",
    "SourceFile",
    "Symbol",
    "SymbolEdge",
    "SymbolId",
    "SymbolKind",
    "mentioned_names",
    "pack_facts",
    "unpack_facts",
]


ReferenceKind = Literal["call", "inherit", "decorate", "use"]
EdgeKind = Literal["call", "inherit", "decorate", "use", "register", "override"]
BindingKind = Literal["value", "type", "element", "enter"]


# --- Files ------------------------------------------------------------------------------


class FileEntry(NamedTuple):
    """A file worth reading. The same stamp as last time means the same contents."""

    path: str
    """Relative to the root, with `/` on every system."""
    size: int
    stamp: str
    """Changes whenever the file does: its inode, size and times."""


class Skipped(NamedTuple):
    """A file or folder left out, and why."""

    path: str
    reason: str


class SourceFile(NamedTuple):
    """A file as it was read, once and whole."""

    path: str
    stamp: str
    content_hash: str
    """Of the bytes on disk."""
    data: bytes
    """UTF-8, whatever the encoding on disk."""


# --- The contents of a file --------------------------------------------------------------


class SourceChunk(NamedTuple):
    """A passage to be found: part of a symbol, the whole of it, or small neighbours together."""

    text: str
    """The exact text in the file."""
    context: str
    """Path, qualified name and signature on a line of their own: to be embedded before the text."""
    symbol: int
    start_line: int
    end_line: int
    start_byte: int
    end_byte: int


class ParsedFile(NamedTuple):
    """Everything read from one file."""

    path: str
    language: str
    """"text" when no grammar knows it."""
    lines: int
    content_hash: str
    symbols: tuple[Symbol, ...]
    chunks: tuple[SourceChunk, ...]
    packed_facts: str
    """Its facts as text: who stores a file has no need to look into them."""
    mentions: tuple[str, ...]
    """The names its edges depend on."""
    has_errors: bool
    """Whether part of it is not valid in its language; the rest was read all the same."""

    @property
    def facts(self) -> Facts:
        """What it says about others."""
        return unpack_facts(self.packed_facts)


# --- What it says about the rest of the repository ---------------------------------------

# Expressions are kept as chains: names joined by dots, `()` for a call, `[]` for a subscript, `!`
# for a literal and `?` for what is none of these. `self.session.get(url).json` is the chain
# `self.session.get().json`.


class Import(NamedTuple):
    """`from module import name as alias`; name "" imports the module itself, "*" all of it."""

    scope: int
    module: str
    name: str
    alias: str
    """The name it has in this file."""
    exported: bool = False
    """Whether a script hands it on: `export { name } from module`."""


class Binding(NamedTuple):
    """What is known about a name of a scope: what it is assigned, or of which type it is."""

    scope: int
    name: str
    """`x`, `self.x` for an attribute of the instance, `return` or `yield` for what comes out of a
    function, `export.x` for what a script exports as `x`."""
    kind: BindingKind
    """`value`: it is what the chain says. `element`: one of those. `enter`: what a `with` makes
    of it. `type`: an instance of the type written there, word for word."""
    value: str
    """"" when it cannot be said; the name hides others of the same name all the same."""


class Reference(NamedTuple):
    """A call, a base class, a decorator or a name that is used as a value, as it is written."""

    scope: int
    """The symbol it is in; of a base class, the class itself."""
    kind: ReferenceKind
    target: str
    """A chain; its last name is what is called."""
    line: int


class Definition(NamedTuple):
    """As much of a symbol as others need in order to refer to it."""

    name: str
    qualified_name: str
    kind: SymbolKind
    parent: int
    decorators: tuple[str, ...]
    line: int


class Facts(NamedTuple):
    """What the call graph needs to know of a file; small, and kept so that no file is read twice.

    `pack_facts` and `unpack_facts` turn it into text and back.
    """

    language: str
    definitions: tuple[Definition, ...]
    imports: tuple[Import, ...]
    bindings: tuple[Binding, ...]
    references: tuple[Reference, ...]


# There are hundreds of thousands of them: made like this, each takes a quarter of the time.
_binding = partial(tuple.__new__, Binding)
_import = partial(tuple.__new__, Import)
_reference = partial(tuple.__new__, Reference)


def pack_facts(facts: Facts) -> str:
    """Write facts as text."""
    return json.dumps(facts, ensure_ascii=False, separators=(",", ":"))


def unpack_facts(text: str) -> Facts:
    """Read what `pack_facts` wrote."""
    language, definitions, imports, bindings, references = json.loads(text)
    return Facts(
        language,
        tuple([Definition(a, b, c, d, tuple(e), f) for a, b, c, d, e, f in definitions]),
        tuple(map(_import, imports)),
        tuple(map(_binding, bindings)),
        tuple(map(_reference, references)),
    )


# --- The call graph ---------------------------------------------------------------------


class SymbolId(NamedTuple):
    """A symbol of the repository."""

    path: str
    qualified_name: str


class SymbolEdge(NamedTuple):
    """One symbol refers to another.

    It calls it, inherits from it, is decorated by it, overrides it, uses it as a value (passes it
    on, puts it into a table), or registers it: by a decorator, whose name is given.
    """

    kind: EdgeKind
    caller: SymbolId
    callee: SymbolId | None
    """None when it is not known which symbol of the repository is meant, if any."""
    name: str
    """The last name of what is written there."""
    strength: float
    """How sure it is: 1.0 by scope or import, less by inferred type, 0.5 because no other symbol
    has this name, 0.1 for a name alone."""
    line: int


class FactSource(Protocol):
    """A state of a repository, as far as looking names up needs it."""

    def paths(self) -> Collection[str]:
        """Return the paths of all files; asked `in` often."""
        ...

    def facts(self, path: str) -> Facts | None:
        """Return what a file says, None if there is no such file."""
        ...

    def named(self, name: str) -> Sequence[SymbolId]:
        """Return the symbols of this bare name."""
        ...


class Repository(FactSource, Protocol):
    """What is asked about a repository. `Snapshot` answers from memory, a store from its tables."""

    def mentioning(self, name: str) -> Collection[str]:
        """Return the paths of the files whose `mentioned_names` hold this one."""
        ...


# --- A repository in memory, and what its files depend on -----------------------------


_WORD = re.compile(r"[^\W\d]\w*")


def mentioned_names(facts: Facts) -> frozenset[str]:
    """Return the names a file's edges depend on."""
    texts = [reference.target for reference in facts.references]
    texts += [binding.value for binding in facts.bindings]
    for one in facts.imports:
        texts += [one.module, one.name]
    inheriting = {one.scope for one in facts.references if one.kind == "inherit"}
    texts += [one.name for one in facts.definitions if one.parent in inheriting]
    return frozenset(_WORD.findall(" ".join(texts)))


class Snapshot:
    """A repository in memory; implements `Repository`."""

    def __init__(self, facts: Mapping[str, Facts]) -> None:
        self._facts = facts
        self._named: dict[str, list[SymbolId]] = {}
        self._mentioning: dict[str, set[str]] = {}
        for path, one in facts.items():
            for definition in one.definitions[1:]:
                symbol = SymbolId(path, definition.qualified_name)
                self._named.setdefault(definition.name, []).append(symbol)

    def paths(self) -> Collection[str]:
        """Return the paths of all files."""
        return self._facts.keys()

    def facts(self, path: str) -> Facts | None:
        """Return what a file says."""
        return self._facts.get(path)

    def named(self, name: str) -> Sequence[SymbolId]:
        """Return the symbols of this name."""
        return self._named.get(name, ())

    def mentioning(self, name: str) -> Collection[str]:
        """Return the files that mention this name."""
        if not self._mentioning:
            for path, one in self._facts.items():
                for mentioned in mentioned_names(one):
                    self._mentioning.setdefault(mentioned, set()).add(path)
        return self._mentioning.get(name, ())
