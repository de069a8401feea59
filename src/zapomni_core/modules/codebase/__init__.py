"""Reads a repository: its files, their symbols and chunks, and who calls whom."""

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
from zapomni_core.modules.codebase._tree import Limits, SourceTree

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
]
