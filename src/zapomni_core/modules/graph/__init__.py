"""The knowledge graph: entities and relationships found in memories, without any model."""

from typing import TYPE_CHECKING

from zapomni_core.shared.lazy import lazy_names

if TYPE_CHECKING:
    from zapomni_core.modules.graph.build import build_graph
    from zapomni_core.modules.graph.export import FORMATS
    from zapomni_core.modules.graph.extraction import (
        Extraction,
        ExtractionModel,
        GraphExtractor,
        RuleExtractor,
    )
    from zapomni_core.modules.graph.names import load_gazetteer
    from zapomni_core.modules.graph.schemas import (
        BuildGraphRequest,
        GraphViewRequest,
        GraphViewResponse,
        MemoryReading,
        MemoryStatement,
        MergeResponse,
        PathStep,
        RelatedEntity,
        RelatedRequest,
        RelatedResponse,
        ViewedEntity,
        ViewedRelationship,
    )
    from zapomni_core.modules.graph.service import KnowledgeGraph

__all__ = [
    "FORMATS",
    "BuildGraphRequest",
    "Extraction",
    "ExtractionModel",
    "GraphExtractor",
    "GraphViewRequest",
    "GraphViewResponse",
    "KnowledgeGraph",
    "MemoryReading",
    "MemoryStatement",
    "MergeResponse",
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
        "build": "build_graph",
        "export": "FORMATS",
        "extraction": "Extraction ExtractionModel GraphExtractor RuleExtractor",
        "names": "load_gazetteer",
        "schemas": "BuildGraphRequest GraphViewRequest GraphViewResponse MemoryReading "
        "MemoryStatement MergeResponse PathStep RelatedEntity RelatedRequest RelatedResponse "
        "ViewedEntity ViewedRelationship",
        "service": "KnowledgeGraph",
    },
)
