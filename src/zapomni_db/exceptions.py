"""Every error Zapomni raises on purpose descends from ZapomniError.

    ZapomniError
    ├── ValidationError               VAL_001..004   the input is wrong; never retried
    ├── NotFoundError                 MEM_001        no memory has this id; TASK_001: no task;
    │   │                             CODE_001..002  no such symbol, file or repository
    │   └── EntityNotFoundError       GRAPH_001      no entity has this name or id
    ├── DatabaseError                 DB_001..003
    │   ├── DatabaseConnectionError   CONN_001..008  transient
    │   ├── QueryError                QUERY_001..004 transient only when it timed out
    │   │   └── DatabaseTimeoutError  QUERY_002      transient
    │   ├── TransactionError          TXN_001..003   transient
    │   └── SchemaError               SCHEMA_001..005 structural; never retried
    ├── CoreError                     (zapomni_core.exceptions)
    └── MCPError                      (zapomni_mcp.exceptions)

Messages name what is wrong and what to do. They never carry stored text, metadata values,
paths or connection strings: those may end up in a log line or in front of a model.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from contextvars import ContextVar
from typing import Any

__all__ = [
    "DatabaseConnectionError",
    "DatabaseError",
    "DatabaseTimeoutError",
    "EntityNotFoundError",
    "NotFoundError",
    "QueryError",
    "SchemaError",
    "TransactionError",
    "ValidationError",
    "ZapomniError",
    "correlation_id",
]

correlation_id: ContextVar[str | None] = ContextVar("zapomni_correlation_id", default=None)
"""The id of the operation under way. It lives in the leaf so that every layer's errors carry it."""


class ZapomniError(Exception):
    """Base of all errors Zapomni raises on purpose.

    Attributes:
        message: What happened, in words a user can act on.
        error_code: Stable code for programs, such as "VAL_003".
        details: Safe context: counts, limits, field names; never contents.
        correlation_id: The operation this error belongs to.
        original_exception: The error that caused this one, if any.
        is_transient: Whether trying again may help.
    """

    default_code = "ERR_UNKNOWN"
    is_transient: bool = False

    def __init__(
        self,
        message: str,
        error_code: str | None = None,
        details: dict[str, Any] | None = None,
        correlation_id: str | None = None,
        original_exception: BaseException | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.error_code = error_code or self.default_code
        self.details = details or {}
        self.correlation_id = correlation_id or _current_operation()
        self.original_exception = original_exception

    def to_dict(self) -> dict[str, Any]:
        """Serialize for logs.

        The cause is named by its type alone: a driver's own message may quote values or paths.
        """
        cause = self.original_exception
        return {
            "error": type(self).__name__,
            "message": self.message,
            "error_code": self.error_code,
            "details": self.details,
            "correlation_id": self.correlation_id,
            "original_error": type(cause).__name__ if cause is not None else None,
        }


def _current_operation() -> str:
    return correlation_id.get() or str(uuid.uuid4())


class ValidationError(ZapomniError):
    """The input is invalid.

    Error codes:
        VAL_001: A required field is missing or empty.
        VAL_002: A field has the wrong type.
        VAL_003: A value is out of range.
        VAL_004: A value has the wrong format.
    """

    default_code = "VAL_004"


class NotFoundError(ZapomniError):
    """No memory has this id, or no task, or there is no merge to undo, or no such code.

    Attributes:
        near: Names that are like it. Stored text: for the user, never for a log.

    Error codes:
        CODE_001: No indexed symbol or file has this name.
        CODE_002: The repository was not indexed.
        GRAPH_002: No merge to undo.
        IMPORT_001: Unknown import.
        MEM_001: Unknown memory id.
        REVIEW_001: Unknown item of the inbox.
        TASK_001: Unknown task id.
        TRASH_001: The batch is not in the trash.
    """

    default_code = "MEM_001"

    def __init__(self, message: str, *args: Any, near: Sequence[str] = (), **kwargs: Any) -> None:
        super().__init__(message, *args, **kwargs)
        self.near = list(near)


class EntityNotFoundError(NotFoundError):
    """No entity of the graph has this name or id.

    Error codes:
        GRAPH_001: Unknown entity.
    """

    default_code = "GRAPH_001"

    def __init__(self, message: str, near: Sequence[str] = (), **kwargs: Any) -> None:
        super().__init__(message, near=near, **kwargs)


class DatabaseError(ZapomniError):
    """A storage operation failed.

    Error codes:
        DB_001: No more is known.
        DB_002: The disk, or a server's memory, is full.
        DB_003: The disk reported an error.
    """

    default_code = "DB_001"


class DatabaseConnectionError(DatabaseError):
    """The database cannot be opened or reached.

    Error codes:
        CONN_001: Refused, missing or unreadable.
        CONN_002: Timed out while connecting.
        CONN_003: Authentication or permission failed.
        CONN_004: Connection pool exhausted.
        CONN_005: The server would forget what it acknowledges (not transient).
        CONN_006: The server of this machine is not running.
        CONN_007: What answers at the address is no FalkorDB server, or TLS failed (not transient).
        CONN_008: The database file was removed or replaced while it was in use.
    """

    default_code = "CONN_001"
    is_transient = True


class QueryError(DatabaseError):
    """A query failed.

    Error codes:
        QUERY_001: Syntax error.
        QUERY_002: Timed out (the only transient one).
        QUERY_003: Index not found.
        QUERY_004: Constraint violated.
    """

    default_code = "QUERY_001"

    def __init__(self, message: str, *args: Any, is_timeout: bool = False, **kwargs: Any) -> None:
        super().__init__(message, *args, **kwargs)
        self.is_transient = is_timeout


class DatabaseTimeoutError(QueryError):
    """A storage operation took longer than allowed."""

    default_code = "QUERY_002"

    def __init__(self, message: str, *args: Any, **kwargs: Any) -> None:
        super().__init__(message, *args, is_timeout=True, **kwargs)


class TransactionError(DatabaseError):
    """A transaction could not be completed; nothing of it was kept.

    Error codes:
        TXN_001: Rollback failed.
        TXN_002: Deadlock, or the database stayed locked.
        TXN_003: Transaction timed out.
    """

    default_code = "TXN_002"
    is_transient = True


class SchemaError(DatabaseError):
    """The database's structure does not fit this program.

    Error codes:
        SCHEMA_001: Index creation failed.
        SCHEMA_002: Constraint creation failed.
        SCHEMA_003: Migration failed, or the database is from a newer version.
        SCHEMA_004: The file is damaged or not a Zapomni database.
        SCHEMA_005: The server is no FalkorDB server, or too old a one.
    """

    default_code = "SCHEMA_001"
