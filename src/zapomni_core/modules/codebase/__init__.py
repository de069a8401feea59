"""Reads a repository: its files, their symbols and passages, and the calls between them."""

from typing import TYPE_CHECKING

from zapomni_core.shared.lazy import lazy_names

if TYPE_CHECKING:
    from zapomni_core.modules.codebase.callgraph import Resolver, affected_paths
    from zapomni_core.modules.codebase.citations import Citations
    from zapomni_core.modules.codebase.models import (
        Binding,
        BindingKind,
        Definition,
        Facts,
        FileEntry,
        Import,
        ParsedFile,
        Reference,
        ReferenceKind,
        Repository,
        Skipped,
        Snapshot,
        SourceChunk,
        SourceFile,
        Symbol,
        SymbolEdge,
        SymbolId,
        SymbolKind,
        mentioned_names,
        pack_facts,
        unpack_facts,
    )
    from zapomni_core.modules.codebase.parser import ASTChunker, CodeParser, first_characters
    from zapomni_core.modules.codebase.schemas import (
        CallsRequest,
        CallsResponse,
        CitingMemory,
        CodeFolder,
        CodeHit,
        CodeSearchRequest,
        CodeSearchResponse,
        FolderRequest,
        FolderResponse,
        IndexRequest,
        OutlineRequest,
        OutlineResponse,
        StaleMemory,
        SymbolRequest,
        SymbolResponse,
    )
    from zapomni_core.modules.codebase.service import CodeMemory
    from zapomni_core.modules.codebase.tree import SourceTree, TreeLimits, content_hash

__all__ = [
    "ASTChunker",
    "Binding",
    "BindingKind",
    "CallsRequest",
    "CallsResponse",
    "Citations",
    "CitingMemory",
    "CodeFolder",
    "CodeHit",
    "CodeMemory",
    "CodeParser",
    "CodeSearchRequest",
    "CodeSearchResponse",
    "Definition",
    "Facts",
    "FileEntry",
    "FolderRequest",
    "FolderResponse",
    "Import",
    "IndexRequest",
    "OutlineRequest",
    "OutlineResponse",
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
    "StaleMemory",
    "Symbol",
    "SymbolEdge",
    "SymbolId",
    "SymbolKind",
    "SymbolRequest",
    "SymbolResponse",
    "TreeLimits",
    "affected_paths",
    "content_hash",
    "first_characters",
    "mentioned_names",
    "pack_facts",
    "unpack_facts",
]

# The process that parses starts in a third of the time without the rest.
__getattr__ = lazy_names(
    __name__,
    {
        "models": "Binding BindingKind Definition SymbolEdge Facts FileEntry Import ParsedFile "
        "Reference ReferenceKind Repository Skipped Snapshot SourceChunk SourceFile "
        "Symbol SymbolId SymbolKind mentioned_names pack_facts unpack_facts",
        "parser": "ASTChunker CodeParser first_characters",
        "callgraph": "Resolver affected_paths",
        "citations": "Citations",
        "schemas": "CallsRequest CallsResponse CitingMemory CodeFolder CodeHit CodeSearchRequest "
        "CodeSearchResponse FolderRequest FolderResponse IndexRequest OutlineRequest "
        "OutlineResponse StaleMemory SymbolRequest SymbolResponse",
        "service": "CodeMemory",
        "tree": "TreeLimits SourceTree content_hash",
    },
)
