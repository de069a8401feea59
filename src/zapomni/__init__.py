"""Zapomni for Python programs: `open` the memory, and use it. See docs/python.md.

Importing this package costs next to nothing: a name is imported when it is first used.
"""

TYPE_CHECKING = False  # as type checkers understand it: importing `typing` would double the cost

if TYPE_CHECKING:
    from zapomni._open import EngineOpening, open  # noqa: A004 - as in gzip
    from zapomni._sync import (
        SyncCitations,
        SyncCode,
        SyncEngine,
        SyncGraph,
        SyncMemories,
        SyncObservations,
        SyncTasks,
        SyncTrash,
        open_sync,
    )
    from zapomni_core.engine import ZapomniEngine
    from zapomni_core.exceptions import (
        CacheError,
        CircuitBreakerOpenError,
        ConfigurationError,
        CoreError,
        DatabaseConnectionError,
        DatabaseError,
        DatabaseTimeoutError,
        EmbeddingError,
        EntityNotFoundError,
        ExtractionError,
        NotFoundError,
        ProcessingError,
        QueryError,
        SchemaError,
        SearchError,
        TransactionError,
        ValidationError,
        ZapomniError,
    )
    from zapomni_core.interfaces import (
        AddMemoryRequest,
        AddMemoryResponse,
        ListRequest,
        Replacement,
        SearchRequest,
        SearchResponse,
        SearchResult,
        SimilarMemory,
        UpdatedMemory,
        UpdateMemoryRequest,
    )
    from zapomni_core.modules.codebase import (
        CallsRequest,
        CallsResponse,
        Citations,
        CitingMemory,
        CodeFolder,
        CodeHit,
        CodeMemory,
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
    from zapomni_core.modules.graph import (
        BuildGraphRequest,
        CardMemory,
        EndedRelationship,
        EntityCard,
        GraphPicture,
        GraphViewRequest,
        GraphViewResponse,
        KnowledgeGraph,
        MergeResponse,
        PathRequest,
        PathResponse,
        PathStep,
        RelatedEntity,
        RelatedRequest,
        RelatedResponse,
        ViewedEntity,
        ViewedRelationship,
    )
    from zapomni_core.modules.memories import Memories
    from zapomni_core.modules.observations import (
        FolderScope,
        Observations,
        PurgeReport,
        PurgeSelection,
    )
    from zapomni_core.scheduler.task_manager import TaskManager
    from zapomni_core.settings import Settings
    from zapomni_core.workflows.trash import ForgetSelection, Trash, TrashBatch
    from zapomni_db.code_models import (
        CheckedCitation,
        CodeEdge,
        CodeRepository,
        CodeSymbol,
        FileEdit,
        FileSummary,
    )
    from zapomni_db.graph_models import Entity, EntityQuery, Evidence, GraphStats, MemoryVersion
    from zapomni_db.models import MemoryFilter, MemoryPage, MemoryRecord, MemoryStats, TaskStatus
    from zapomni_db.observation_models import (
        Failure,
        KnownProject,
        Observation,
        ObservationPreview,
        ObservationQuery,
        SessionStory,
        SessionSummary,
        Timeline,
    )

    __version__: str

__all__ = [
    "AddMemoryRequest",
    "AddMemoryResponse",
    "BuildGraphRequest",
    "CacheError",
    "CallsRequest",
    "CallsResponse",
    "CardMemory",
    "CheckedCitation",
    "CircuitBreakerOpenError",
    "Citations",
    "CitingMemory",
    "CodeEdge",
    "CodeFolder",
    "CodeHit",
    "CodeMemory",
    "CodeRepository",
    "CodeSearchRequest",
    "CodeSearchResponse",
    "CodeSymbol",
    "ConfigurationError",
    "CoreError",
    "DatabaseConnectionError",
    "DatabaseError",
    "DatabaseTimeoutError",
    "EmbeddingError",
    "EndedRelationship",
    "EngineOpening",
    "Entity",
    "EntityCard",
    "EntityNotFoundError",
    "EntityQuery",
    "Evidence",
    "ExtractionError",
    "Failure",
    "FileEdit",
    "FileSummary",
    "FolderRequest",
    "FolderResponse",
    "FolderScope",
    "ForgetSelection",
    "GraphPicture",
    "GraphStats",
    "GraphViewRequest",
    "GraphViewResponse",
    "IndexRequest",
    "KnowledgeGraph",
    "KnownProject",
    "ListRequest",
    "Memories",
    "MemoryFilter",
    "MemoryPage",
    "MemoryRecord",
    "MemoryStats",
    "MemoryVersion",
    "MergeResponse",
    "NotFoundError",
    "Observation",
    "ObservationPreview",
    "ObservationQuery",
    "Observations",
    "OutlineRequest",
    "OutlineResponse",
    "PathRequest",
    "PathResponse",
    "PathStep",
    "ProcessingError",
    "PurgeReport",
    "PurgeSelection",
    "QueryError",
    "RelatedEntity",
    "RelatedRequest",
    "RelatedResponse",
    "Replacement",
    "SchemaError",
    "SearchError",
    "SearchRequest",
    "SearchResponse",
    "SearchResult",
    "SessionStory",
    "SessionSummary",
    "Settings",
    "SimilarMemory",
    "StaleMemory",
    "SymbolRequest",
    "SymbolResponse",
    "SyncCitations",
    "SyncCode",
    "SyncEngine",
    "SyncGraph",
    "SyncMemories",
    "SyncObservations",
    "SyncTasks",
    "SyncTrash",
    "TaskManager",
    "TaskStatus",
    "Timeline",
    "TransactionError",
    "Trash",
    "TrashBatch",
    "UpdateMemoryRequest",
    "UpdatedMemory",
    "ValidationError",
    "ViewedEntity",
    "ViewedRelationship",
    "ZapomniEngine",
    "ZapomniError",
    "__version__",
    "open",
    "open_sync",
]

# Where the names are, the cheapest file to import first.
_PLACES = (
    "zapomni_core.exceptions",
    "zapomni_core.settings",
    "zapomni_core.interfaces",
    "zapomni_core.modules.codebase",
    "zapomni_core.modules.graph",
    "zapomni_core.modules.memories",
    "zapomni_core.modules.observations",
    "zapomni_db.code_models",
    "zapomni_db.graph_models",
    "zapomni_db.models",
    "zapomni_db.observation_models",
    "zapomni_core.scheduler.task_manager",
    "zapomni_core.workflows.trash",
    "zapomni_core.engine",
    "zapomni._open",
    "zapomni._sync",
)


# Not for type checkers: they would take every misspelt name for one that exists.
if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        """Import a name when it is first used (PEP 562)."""
        from importlib import import_module, metadata

        if name == "__version__":
            return metadata.version("zapomni")
        if name in __all__:
            for place in _PLACES:
                module = import_module(place)
                if name in module.__all__:
                    globals()[name] = value = getattr(module, name)
                    return value
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
