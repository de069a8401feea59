"""The knowledge graph: entities and relationships found in memories, without any model."""

from typing import TYPE_CHECKING

from zapomni_core.shared.lazy import lazy_names

if TYPE_CHECKING:
    from zapomni_core.modules.graph.build import (
        Extraction,
        ExtractionModel,
        GraphExtractor,
        RuleExtractor,
        build_graph,
    )
    from zapomni_core.modules.graph.export import FORMATS
    from zapomni_core.modules.graph.names import load_gazetteer
    from zapomni_core.modules.graph.reading import FACT_TYPES
    from zapomni_core.modules.graph.schemas import (
        BuildGraphRequest,
        CardMemory,
        EndedRelationship,
        EntityCard,
        GraphPicture,
        GraphViewRequest,
        GraphViewResponse,
        MemoryReading,
        MemoryStatement,
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
    from zapomni_core.modules.graph.service import KnowledgeGraph

__all__ = [
    "FACT_TYPES",
    "FORMATS",
    "BuildGraphRequest",
    "CardMemory",
    "EndedRelationship",
    "EntityCard",
    "Extraction",
    "ExtractionModel",
    "GraphExtractor",
    "GraphPicture",
    "GraphViewRequest",
    "GraphViewResponse",
    "KnowledgeGraph",
    "MemoryReading",
    "MemoryStatement",
    "MergeResponse",
    "PathRequest",
    "PathResponse",
    "PathStep",
    "RelatedEntity",
    "RelatedRequest",
    "RelatedResponse",
    "RuleExtractor",
    "ViewedEntity",
    "ViewedRelationship",
    "build_graph",
    "load_gazetteer",
]

# The rules take longer to load than all the rest, and most commands need none of them.
__getattr__ = lazy_names(
    __name__,
    {
        "build": "Extraction ExtractionModel GraphExtractor RuleExtractor build_graph",
        "export": "FORMATS",
        "names": "load_gazetteer",
        "reading": "FACT_TYPES",
        "schemas": "BuildGraphRequest CardMemory EndedRelationship EntityCard GraphPicture "
        "GraphViewRequest GraphViewResponse MemoryReading MemoryStatement MergeResponse "
        "PathRequest PathResponse PathStep RelatedEntity RelatedRequest RelatedResponse "
        "ViewedEntity ViewedRelationship",
        "service": "KnowledgeGraph",
    },
)
