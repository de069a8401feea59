"""Errors of the core layer, and the whole lower tree under one roof.

ZapomniError
└── CoreError
    ├── ProcessingError          PROC_001..004
    ├── EmbeddingError           EMB_001..005   transient unless the model itself is missing
    ├── ExtractionError          EXTR_001..003  transient
    ├── SearchError              SEARCH_001..003
    ├── CacheError               CACHE_001      never retried: go on without the cache
    ├── ConfigurationError       CONF_001..002
    └── CircuitBreakerOpenError  CIRCUIT_001
"""

from __future__ import annotations

from typing import Any

from zapomni_db.exceptions import (
    DatabaseConnectionError,
    DatabaseError,
    DatabaseTimeoutError,
    EntityNotFoundError,
    NotFoundError,
    QueryError,
    SchemaError,
    TransactionError,
    ValidationError,
    ZapomniError,
)

__all__ = [
    "CacheError",
    "CircuitBreakerOpenError",
    "ConfigurationError",
    "CoreError",
    "DatabaseConnectionError",
    "DatabaseError",
    "DatabaseTimeoutError",
    "EmbeddingError",
    "EntityNotFoundError",
    "ExtractionError",
    "NotFoundError",
    "ProcessingError",
    "QueryError",
    "SchemaError",
    "SearchError",
    "TransactionError",
    "ValidationError",
    "ZapomniError",
]


class CoreError(ZapomniError):
    """A core operation failed."""


class ProcessingError(CoreError):
    """A text or document could not be processed.

    Error codes:
        PROC_001: Chunking failed.
        PROC_002: Text extraction failed.
        PROC_003: Unknown or unsupported document format.
        PROC_004: Storing many failed when some of them were stored.
        EXPORT_001: Another process is working in the export folder.
        SYNC_001: The remote of a repository cannot be reached, or refuses.
        SYNC_002: Anyone can read the remote.
        SYNC_003: Memories that would be pushed seem to contain secrets.
        SYNC_004: Git is missing, fails, or cannot merge a file that is not Zapomni's.
        CODE_003: The parsers of code are not installed.
        CODE_004: The process that parses code could not be started.
    """

    default_code = "PROC_001"


class EmbeddingError(CoreError):
    """An embedding could not be made.

    Error codes:
        EMB_001: The embedding service cannot be reached.
        EMB_002: The embedding service timed out.
        EMB_003: The answer has the wrong shape or dimension.
        EMB_004: The model is missing or its file is damaged.
        EMB_005: The model does not belong to the vectors already stored.
    """

    default_code = "EMB_001"
    is_transient = True

    # Trying again cannot install a model or change which vectors are stored.
    _permanent_codes = frozenset({"EMB_004", "EMB_005"})

    def __init__(self, message: str, *args: Any, **kwargs: Any) -> None:
        super().__init__(message, *args, **kwargs)
        self.is_transient = self.error_code not in self._permanent_codes


class ExtractionError(CoreError):
    """Entities or relationships could not be extracted.

    Error codes:
        EXTR_001: Entity extraction failed.
        EXTR_002: Relationship detection failed.
        EXTR_003: The language model's answer could not be read.
    """

    default_code = "EXTR_001"
    is_transient = True


class SearchError(CoreError):
    """A search failed.

    Error codes:
        SEARCH_001: Vector search failed.
        SEARCH_002: Word search failed.
        SEARCH_003: Reranking failed.
    """

    default_code = "SEARCH_001"


class CacheError(CoreError):
    """A cache failed; the caller goes on without it.

    Error codes:
        CACHE_001: It cannot be reached, or does not answer in time.
    """

    default_code = "CACHE_001"


class ConfigurationError(CoreError):
    """A setting is unknown or has an impossible value.

    Error codes:
        CONF_001: Unknown setting.
        CONF_002: Invalid value.
    """

    default_code = "CONF_001"


class CircuitBreakerOpenError(CoreError):
    """The service failed too often lately and is being left alone for a while.

    Error codes:
        CIRCUIT_001: It was not asked.
    """

    default_code = "CIRCUIT_001"
