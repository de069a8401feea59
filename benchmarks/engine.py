"""An engine over a store and an embedder of the benchmark's own."""

from __future__ import annotations

from pathlib import Path

from zapomni_core.adapters.chunkers import SemanticChunker
from zapomni_core.adapters.tokenizer import LazyTokenizer
from zapomni_core.engine import ZapomniEngine
from zapomni_core.interfaces import ModelEmbedder
from zapomni_core.modules.memories import EmbeddingChain
from zapomni_core.scheduler.task_manager import TaskManager
from zapomni_core.settings import load_settings
from zapomni_db.interfaces import StorageProvider
from zapomni_db.sqlite.code import SqliteCode
from zapomni_db.sqlite.tasks import SqliteTasks


def engine_over(storage: StorageProvider, embedder: ModelEmbedder, local: Path) -> ZapomniEngine:
    """Build an engine whose tasks and code are in the file `local`."""
    settings = load_settings({}, home=local.parent)
    tokenizer = LazyTokenizer(settings.models_path)
    return ZapomniEngine(
        storage,
        SemanticChunker(tokenizer, settings.chunk_size, settings.chunk_overlap),
        EmbeddingChain([embedder], storage.get_embeddings),
        tasks=TaskManager(SqliteTasks(local)),
        settings=settings,
        code=SqliteCode(local),
    )
