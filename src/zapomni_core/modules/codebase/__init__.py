"""Reads a repository: its files, their symbols and passages, and who calls whom."""

from zapomni_core.modules.codebase._changes import affected_paths
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
    pack_facts,
    unpack_facts,
)
from zapomni_core.modules.codebase._process import CodeParser
from zapomni_core.modules.codebase._resolve import Resolver
from zapomni_core.modules.codebase._snapshot import Snapshot, mentioned_names
from zapomni_core.modules.codebase._text import ASTChunker, first_characters
from zapomni_core.modules.codebase._tree import Limits, SourceTree, content_hash

__all__ = [
    "ASTChunker",
    "Binding",
    "BindingKind",
    "CodeParser",
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
    "Resolver",
    "Skipped",
    "Snapshot",
    "SourceChunk",
    "SourceFile",
    "SourceTree",
    "Symbol",
    "SymbolId",
    "SymbolKind",
    "affected_paths",
    "content_hash",
    "first_characters",
    "mentioned_names",
    "pack_facts",
    "unpack_facts",
]
