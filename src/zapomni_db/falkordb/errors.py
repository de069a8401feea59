"""Translating the server's errors; its own messages may quote a statement and its values."""

from __future__ import annotations

import ssl

from redis.exceptions import (
    AuthenticationError,
    AuthorizationError,
    InvalidResponse,
    NoPermissionError,
    OutOfMemoryError,
    ReadOnlyError,
    RedisError,
    ResponseError,
)
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import TimeoutError as RedisTimeoutError

from zapomni_db.exceptions import (
    DatabaseConnectionError,
    DatabaseError,
    DatabaseTimeoutError,
    QueryError,
    SchemaError,
    TransactionError,
)

__all__ = [
    "absent_graph",
    "is_absent_graph",
    "is_exhausted",
    "is_unreachable",
    "pool_exhausted",
    "translate",
    "unreachable",
]

_REFUSALS = (AuthenticationError, AuthorizationError, NoPermissionError)


def is_refusal(error: BaseException) -> bool:
    """Return whether the server refused the user, the password or a permission.

    On a unix socket redis-py wraps a refusal as a failed connection.
    """
    return isinstance(error, _REFUSALS) or isinstance(error.__cause__, _REFUSALS)


def is_unreachable(error: BaseException) -> bool:
    """Return whether the server was not reached, or its answer was lost: a retry may help."""
    if is_refusal(error) or _tls_failure(error) is not None:
        return False
    return isinstance(error, RedisConnectionError | RedisTimeoutError)


def _tls_failure(error: BaseException) -> ssl.SSLError | None:
    """Return the TLS error; a connection that was only cut is none."""
    cause = error.__cause__ or error.__context__
    if isinstance(cause, ssl.SSLEOFError | ssl.SSLZeroReturnError):
        return None
    return cause if isinstance(cause, ssl.SSLError) else None


def is_exhausted(error: BaseException) -> bool:
    """Return whether all connections of the pool are in use."""
    return isinstance(error, RedisConnectionError) and "No connection available" in str(error)


def pool_exhausted(operation: str, error: BaseException) -> DatabaseConnectionError:
    return DatabaseConnectionError(
        f"Database error during {operation}: every connection of the pool stayed in use. "
        "Try again when other operations have finished, or allow more connections (pool_size).",
        "CONN_004",
        original_exception=error,
    )


def absent_graph() -> ResponseError:
    """Return the server's error for a graph that does not exist: an empty graph is not ours."""
    return ResponseError("Invalid graph operation on empty key")


def is_absent_graph(error: RedisError) -> bool:
    """Return whether there is no graph of this name."""
    return "empty key" in str(error)


def unreachable(operation: str, error: BaseException, retries: int) -> DatabaseConnectionError:
    # redis-py wraps the system's error, whose type is more precise.
    cause = error.__cause__ or error.__context__ or error
    return DatabaseConnectionError(
        f"Database error during {operation}: connection failed after {retries} retries: "
        f"{type(cause).__name__}. Check that the FalkorDB server runs (`zapomni db status`), "
        "host and port; a server with TLS is addressed with falkordbs://.",
        "CONN_002" if isinstance(error, RedisTimeoutError) else "CONN_001",
        details={"retries": retries},
        original_exception=error,
    )


def translate(operation: str, error: RedisError) -> DatabaseError:
    """Return our error for an error of the server; none of these is worth a retry."""
    translated = _translate(f"Database error during {operation}: ", operation, error)
    translated.original_exception = error
    return translated


def _translate(prefix: str, operation: str, error: RedisError) -> DatabaseError:
    message = str(error)
    if isinstance(error, InvalidResponse):
        return _impostor(
            prefix + "what answers at this address is no FalkorDB server. Check host and port; "
            "a server with TLS is addressed with falkordbs://."
        )
    if (tls := _tls_failure(error)) is not None:
        if isinstance(tls, ssl.SSLCertVerificationError):
            return _impostor(
                prefix + "the server's certificate is not trusted, or not valid for this host. "
                "Name the certificate to trust with ?ca=/path/ca.pem."
            )
        return _impostor(
            prefix + "what answers at this address does not use TLS. Check host and port; "
            "a server without TLS is addressed with falkordb://."
        )
    if is_refusal(error):
        refused = DatabaseConnectionError(
            prefix + "the server refused the user name or password, or does not allow this user "
            "a command that is needed.",
            "CONN_003",
        )
        refused.is_transient = False
        return refused
    if isinstance(error, ReadOnlyError):
        return DatabaseError(
            prefix + "write permission denied, the server is a read-only replica. "
            "Connect to the server it copies."
        )
    if isinstance(error, OutOfMemoryError):
        return DatabaseError(
            prefix + "the server has reached its memory limit; nothing was written. "
            "Raise maxmemory, or delete something.",
            "DB_002",
        )
    if message.startswith("MISCONF"):
        return DatabaseError(
            prefix + "the server cannot write to its disk; nothing was written. "
            "Free some space on it, or check it.",
            "DB_002",
        )
    if "constraint violation" in message:
        rejected = TransactionError(
            f"Transaction error during {operation}: commit failed: a constraint was violated; "
            "nothing was written.",
            "TXN_002",
        )
        rejected.is_transient = False
        return rejected
    if "timed out" in message:
        return DatabaseTimeoutError(prefix + "the server aborted the query, it took too long.")
    if is_absent_graph(error):
        return SchemaError(
            prefix
            + "the graph is missing: another client deleted it, or the server lost its data.",
            "SCHEMA_004",
        )
    if message.startswith("WRONGTYPE"):
        return SchemaError(
            prefix + "the graph's name is taken by other data of the server. Choose another name.",
            "SCHEMA_004",
        )
    return QueryError(prefix + "the server refused the statement.", "QUERY_001")


def _impostor(message: str) -> DatabaseConnectionError:
    error = DatabaseConnectionError(message, "CONN_007")
    error.is_transient = False
    return error
