"""The embedders and the embedding cache that the settings name, and embedders of other makes."""

from __future__ import annotations

from collections.abc import Sequence
from inspect import isawaitable
from pathlib import Path
from typing import TYPE_CHECKING, cast

from zapomni_core.exceptions import ConfigurationError, EmbeddingError, ZapomniError
from zapomni_core.interfaces import Embedder, ModelEmbedder
from zapomni_core.settings import Settings
from zapomni_db.models import EmbeddingSpace

if TYPE_CHECKING:
    from zapomni_core.adapters.multilingual import MultilingualEmbedder
    from zapomni_db.cache.redis_cache import RedisCache

__all__ = ["adapt_embedder", "build_cache", "build_embedders", "build_second"]


def build_embedders(settings: Settings) -> list[ModelEmbedder]:
    """Return the embedders that the settings name, in the order they are tried."""
    if settings.embedder == "none":
        return []
    from zapomni_core.adapters.local_embedder import LocalEmbedder

    local: list[ModelEmbedder] = [LocalEmbedder(settings.models_path)]
    return local if settings.embedder == "local" else [_build_configured(settings), *local]


def build_second(settings: Settings) -> MultilingualEmbedder | None:
    """Return what reads the languages that the local model does not; its files may be missing."""
    if settings.embedder == "none":
        return None
    from zapomni_core.adapters.multilingual import MultilingualEmbedder

    return MultilingualEmbedder(settings.models_path)


def _build_configured(settings: Settings) -> ModelEmbedder:
    model = settings.embedding_model
    timeout = settings.embed_timeout_seconds
    if settings.embedder == "ollama":
        from zapomni_core.adapters.ollama import OllamaEmbedder

        return OllamaEmbedder(settings.ollama_host, model or "nomic-embed-text", timeout)
    if settings.embedder == "openai":
        from zapomni_core.adapters.openai import OpenAIEmbedder

        if not settings.openai_base_url:
            raise ConfigurationError(
                "The embedder openai needs the address of its server: set "
                "ZAPOMNI_OPENAI_BASE_URL, such as http://127.0.0.1:8080/v1",
                "CONF_002",
            )
        key = settings.openai_api_key.get_secret_value()
        model = model or "text-embedding-3-small"
        return OpenAIEmbedder(settings.openai_base_url, model, key, timeout)
    if settings.embedder == "folder":
        from zapomni_core.adapters.folder_embedder import FolderEmbedder

        if not model:
            raise ConfigurationError(
                "The embedder folder needs the folder of a sentence encoder: set "
                "ZAPOMNI_EMBEDDING_MODEL to it.",
                "CONF_002",
            )
        return FolderEmbedder(Path(model).expanduser().absolute())
    from zapomni_core.adapters.sentence_transformers import SentenceTransformersEmbedder

    return SentenceTransformersEmbedder(model or "all-MiniLM-L6-v2")


def build_cache(settings: Settings) -> RedisCache | None:
    """Return the cache that the settings name.

    Raises:
        ConfigurationError: Its address is invalid, or redis-py is missing.
    """
    url = settings.cache.get_secret_value()
    if not url:
        return None
    try:
        from zapomni_db.cache.redis_cache import RedisCache

        return RedisCache(url)
    except ImportError as error:
        raise ConfigurationError(
            "The setting cache needs redis-py: pip install 'zapomni[redis]'", "CONF_002"
        ) from error
    except ValueError:
        # Its own message may quote the address, password and all.
        raise ConfigurationError(
            "The setting cache must be an address such as redis://host:6379/0, "
            "rediss://user:password@host:6379/0 or unix:///run/redis.sock",
            "CONF_002",
        ) from None


def adapt_embedder(embedder: Embedder) -> ModelEmbedder:
    """Return an embedder that knows its model, whatever class with `async embed(texts)` is given.

    Its model is named by its attribute `model_id`, `model` or `name`, else by its class; its
    dimension is its attribute `dimension`, else that of its first vector.
    """
    if all(hasattr(embedder, name) for name in ("name", "model_id", "space", "embed_query")):
        return cast("ModelEmbedder", embedder)
    return _PlainEmbedder(embedder)


class _PlainEmbedder:
    """Adapts a class that has no more than `async embed(texts)`."""

    def __init__(self, embedder: Embedder) -> None:
        self._embedder = embedder
        named = (getattr(embedder, attribute, None) for attribute in ("model_id", "model", "name"))
        known = (name for name in named if isinstance(name, str) and name)
        self.name = self.model_id = next(known, type(embedder).__name__)
        dimension = getattr(embedder, "dimension", None)
        self._dimension = dimension if isinstance(dimension, int) else 0

    async def space(self) -> EmbeddingSpace:
        if not self._dimension:
            self._dimension = len((await self.embed(["dimension"]))[0])
        return EmbeddingSpace(model=self.model_id, dimension=self._dimension)

    async def embed(self, texts: Sequence[str]) -> list[list[float]]:
        try:
            made = await self._embedder.embed(list(texts))
        except ZapomniError:
            raise
        except Exception as error:
            raise EmbeddingError(
                f"The embedder {self.name} failed.", "EMB_001", original_exception=error
            ) from error
        from zapomni_core.adapters.remote_embedder import unit_vectors

        vectors = unit_vectors([list(map(float, v)) for v in made], len(texts), self.name)
        if self._dimension and vectors and len(vectors[0]) != self._dimension:
            raise EmbeddingError(
                f"The embedder {self.name} changed the length of its vectors.", "EMB_003"
            )
        return vectors

    async def embed_query(self, text: str) -> list[float]:
        return (await self.embed([text]))[0]

    async def close(self) -> None:
        close = getattr(self._embedder, "close", None)
        closing = close() if close is not None else None
        if isawaitable(closing):
            await closing
