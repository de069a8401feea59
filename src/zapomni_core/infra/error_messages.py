"""Messages for users when something fails: what happened, what to do, code and correlation id.

Only ValidationError and ConfigurationError speak in their own words, for those are written for
users and name nothing but fields and limits. Everything else gets the words below: a message
from further down may carry a path, an address or a value.
"""

from __future__ import annotations

import errno

from zapomni_core.exceptions import (
    CacheError,
    CircuitBreakerOpenError,
    ConfigurationError,
    CoreError,
    DatabaseConnectionError,
    DatabaseError,
    DatabaseTimeoutError,
    EmbeddingError,
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

__all__ = ["sanitize_error_for_user"]

# What happened, what to do. {message} is replaced by the error's own message.
_UNKNOWN = (
    "Something unexpected went wrong.",
    "Try again. If it happens again, run `zapomni doctor` and report the correlation id.",
)

_BY_CLASS: dict[type[BaseException], tuple[str, str]] = {
    ValidationError: ("The input is invalid: {message}", "Correct the input and try again."),
    NotFoundError: (
        "There is no memory with this id. It may have been deleted.",
        "Search for the memory to find its id.",
    ),
    DatabaseError: ("The database reported a failure.", "Try again, then run `zapomni doctor`."),
    DatabaseConnectionError: (
        "The database cannot be opened or reached.",
        "Run `zapomni doctor`: it says what is wrong and what to do.",
    ),
    QueryError: ("The database could not answer.", "Try again, then run `zapomni doctor`."),
    DatabaseTimeoutError: (
        "The database took too long to answer.",
        "Try again in a moment: another program may be writing.",
    ),
    TransactionError: (
        "The change could not be completed, so nothing of it was kept.",
        "Try again in a moment: another program may be writing, or the disk may be full.",
    ),
    SchemaError: (
        "The database's structure does not fit this version of Zapomni.",
        "Run `zapomni doctor` to see what is wrong.",
    ),
    CoreError: ("The operation failed.", "Try again, then run `zapomni doctor`."),
    ProcessingError: (
        "The text could not be processed; nothing was stored.",
        "Try again. If it happens again, report the error code.",
    ),
    EmbeddingError: (
        "The embedding could not be made. The embedding service may be unavailable.",
        "Try again in a moment. With Ollama, check that it is running: `ollama list`.",
    ),
    ExtractionError: (
        "Entities and relationships could not be found in the text.",
        "Try again in a moment.",
    ),
    SearchError: ("The search failed.", "Try again, then run `zapomni doctor`."),
    CacheError: (
        "The cache is not available. Nothing is lost; answers may be slower.",
        "Try again in a moment.",
    ),
    ConfigurationError: (
        "A setting is wrong: {message}",
        "Correct the environment variable or config.toml, then start again.",
    ),
    CircuitBreakerOpenError: (
        "A service failed several times and is left alone for a while.",
        "Wait a minute and try again. With Ollama, check that it is running: `ollama list`.",
    ),
}

_BY_CODE: dict[str, tuple[str, str]] = {
    "DB_002": (
        "The disk or the server's memory is full. Nothing stored is lost.",
        "Free some space and try again.",
    ),
    "DB_003": ("The disk reported an error.", "Check the disk, then run `zapomni doctor`."),
    "CONN_003": (
        "Access to the database was denied.",
        (
            "Check that you may read and write Zapomni's home folder and that its disk is not "
            "read-only, or that user and password in ZAPOMNI_STORAGE are right."
        ),
    ),
    "CONN_004": (
        "Too many operations use the database at once.",
        "Try again when some of them have finished.",
    ),
    "CONN_005": (
        "The FalkorDB server keeps no append-only file: what it acknowledges is lost when it dies.",
        (
            "Send it `CONFIG SET appendonly yes` and put `appendonly yes` into its configuration. "
            "Or accept the loss with ZAPOMNI_ALLOW_VOLATILE=true."
        ),
    ),
    "CONN_006": (
        "The FalkorDB server of this machine is not running.",
        "Start it with `zapomni db up`.",
    ),
    "CONN_007": (
        "What answers at the address of the database is no FalkorDB server, or TLS failed.",
        (
            "Check host and port in ZAPOMNI_STORAGE. Use falkordbs:// for a server with TLS, "
            "falkordb:// for one without; ?ca=/path/ca.pem names a certificate to trust."
        ),
    ),
    "CONN_002": (
        "The database server did not answer in time.",
        "Check that it runs, and host and port in ZAPOMNI_STORAGE. Then try again.",
    ),
    "QUERY_003": (
        "An index of the graph is missing, so it cannot be searched by words.",
        "Copy the memories into a new graph with `zapomni db copy`; docs/falkordb.md shows how.",
    ),
    "CONN_008": (
        "The database file was removed or replaced while it was in use. Nothing was stored.",
        "Try again; if the home folder is meant to be elsewhere, set ZAPOMNI_HOME and restart.",
    ),
    "SCHEMA_003": (
        "The database was written by another version of Zapomni, or could not be upgraded.",
        "Install the newest version: `pip install --upgrade zapomni`.",
    ),
    "SCHEMA_004": (
        "The database is damaged, or it is not a Zapomni database.",
        "Run `zapomni doctor`. If it confirms the damage, restore a backup.",
    ),
    "SCHEMA_005": (
        "The server is no FalkorDB server, or too old a one for Zapomni.",
        "Start one with `zapomni db up`, or upgrade yours; docs/falkordb.md says to which version.",
    ),
    "PROC_003": (
        "This document format is not supported.",
        "Give plain text, Markdown, HTML, PDF or DOCX; PDF and DOCX need `zapomni[docs]`.",
    ),
    "PROC_004": (
        "The database failed when some of the memories were stored.",
        "Add them again: what is stored already is not stored twice.",
    ),
    "EXPORT_001": (
        "Another process is working in the export folder.",
        "Try again when it is done.",
    ),
    "SYNC_001": (
        "{message}",
        "Run `git fetch` or `git push` in that folder to see what git says. Then sync again.",
    ),
    "SYNC_002": (
        "{message}",
        "Make the remote private, or give --yes if everyone may read these memories.",
    ),
    "SYNC_003": (
        "{message}",
        "Mask them (`zapomni update ID --redact`), forget them, or give --yes if they are none.",
    ),
    "SYNC_004": (
        "{message}",
        "Run `git status` in that folder to see what is the matter. Then sync again.",
    ),
    "EMB_001": (
        "The embedding service cannot be reached.",
        "Check that Ollama is running: `ollama list`. Then try again.",
    ),
    "EMB_002": (
        "The embedding service took too long to answer.",
        "Try again in a moment, or raise ZAPOMNI_EMBED_TIMEOUT_SECONDS.",
    ),
    "EMB_003": (
        "The embedding service gave vectors of the wrong shape.",
        "Check the setting embedding_model.",
    ),
    "EMB_004": (
        "The embedding model is missing or its file is damaged. Search by words still works.",
        "Run `zapomni models pull`. With Ollama: `ollama pull` and the model's name.",
    ),
    "EMB_005": (
        "The stored vectors were made by another embedding model.",
        "Run `zapomni models reembed`, or set embedding_model back.",
    ),
    "CODE_001": (
        "There is no symbol or file with this name in the index.",
        "Search for it: `zapomni code search`. If it is new, index the repository again.",
    ),
    "CODE_002": (
        "This repository is not in the index.",
        "See what is: `zapomni code list`. Index it: `zapomni index PATH`.",
    ),
    "CODE_003": (
        "The parsers that read code are not installed.",
        "Install them: `pip install 'zapomni[code]'`.",
    ),
    "CODE_004": (
        "The process that parses code could not be started.",
        "Close some programs and try again, then run `zapomni doctor`.",
    ),
    "GRAPH_001": (
        "There is no entity with this name or id in the graph.",
        "Search for it: `zapomni graph entities`. If a memory names it, build the graph first.",
    ),
    "GRAPH_002": (
        "There is no merge to undo.",
        "Name the entity that was merged; `zapomni graph entities --json` shows its merged_ids.",
    ),
    "IMPORT_001": (
        "There is no import with this id, or it was undone.",
        "List the imports to find its id: `zapomni import --batches`.",
    ),
    "REVIEW_001": (
        "Nothing in the inbox has this id.",
        "List what waits to find its id: `zapomni review --json`.",
    ),
    "TASK_001": (
        "There is no task with this id. Tasks that ended a month ago are forgotten.",
        "List the tasks to find its id: `zapomni tasks`.",
    ),
    "TRASH_001": (
        "This batch is not in the trash: it was emptied, or there was none.",
        "List what is in the trash: `zapomni forget --trash`.",
    ),
    "TXN_001": (
        "A change failed and could not be undone at once. Nothing of it is kept.",
        "Try again, then run `zapomni doctor`.",
    ),
    "TXN_003": (
        "The server gave the change up because it took too long. Nothing of it was kept.",
        "Store less at once, or raise TIMEOUT_MAX of the server.",
    ),
}


def sanitize_error_for_user(error: BaseException, correlation_id: str) -> dict[str, str]:
    """Return `error`, `error_code`, `suggested_action` and `correlation_id`, safe to show."""
    code, own_words = "UNKNOWN", ""
    happened, action = _UNKNOWN
    if isinstance(error, ZapomniError):
        code, own_words = error.error_code, error.message
        happened, action = _BY_CODE.get(code) or next(
            (_BY_CLASS[cls] for cls in type(error).__mro__ if cls in _BY_CLASS), _UNKNOWN
        )
    elif isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
        code = "DB_002"
        happened, action = _BY_CODE[code]
    return {
        "error": happened.replace("{message}", own_words).strip(),
        "error_code": code,
        "suggested_action": action,
        "correlation_id": correlation_id,
    }
