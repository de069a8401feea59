"""Reads a repository: its files, their symbols and passages, and who calls whom."""

from zapomni_core.modules.codebase._facts import pack_facts, unpack_facts
from zapomni_core.modules.codebase._models import (
    Binding,
    BindingKind,
    Definition,
    Edge,
    Facts,
    FileEntry,
    Import,
    ParsedFile,
    Reference,
    ReferenceKind,
    Repository,
    Skipped,
    SourceChunk,
    SourceFile,
    Symbol,
    SymbolId,
    SymbolKind,
)
from zapomni_core.modules.codebase._parse import parse
from zapomni_core.modules.codebase._tree import Limits, SourceTree, content_hash

__all__ = [
    "Binding",
    "BindingKind",
    "Definition",
    "Edge",
    "Facts",
    "FileEntry",
    "Import",
    "Limits",
    "ParsedFile",
    "Reference",
    "ReferenceKind",
    "Repository",
    "Skipped",
    "SourceChunk",
    "SourceFile",
    "SourceTree",
    "Symbol",
    "SymbolId",
    "SymbolKind",
    "content_hash",
    "pack_facts",
    "parse",
    "unpack_facts",
]
