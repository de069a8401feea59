"""The embedders and the embedding cache that the settings name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zapomni_core.exceptions import ConfigurationError
from zapomni_core.interfaces import Embedder
from zapomni_core.settings import Settings

if TYPE_CHECKING:
    from zapomni_db.cache.redis_cache import RedisCache

__all__ = ["build_cache", "build_embedders"]


def build_embedders(settings: Settings) -> list[Embedder]:
    """Return the embedders that the settings name, in the order they are tried."""
    if settings.embedder == "none":
        return []
    from zapomni_core.adapters.local_embedder import LocalEmbedder

    local: list[Embedder] = [LocalEmbedder(settings.models_path)]
    return local if settings.embedder == "local" else [_build_configured(settings), *local]


def _build_configured(settings: Settings) -> Embedder:
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
