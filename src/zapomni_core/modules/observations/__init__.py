"""Observations: what agents did, from a hook's event to the context of the next session.

A hook process imports this for every event: what an ordinary event does not need is imported when
it is used.
"""

from zapomni_core.modules.observations.extraction import (
    ACTIONS,
    Event,
    NewObservation,
    extract,
    hash_event,
    make_row,
)
from zapomni_core.modules.observations.hosts import (
    HOOKS_REVISION,
    HOSTS,
    PayloadError,
    detect_host,
    read_event,
)
from zapomni_core.modules.observations.spool import (
    SPOOL_FOLDER,
    SpoolFullError,
    drain,
    is_waiting,
    set_aside_row,
    spool_row,
    spool_state,
)
from zapomni_core.modules.observations.text import clean_row, strip_injected

TYPE_CHECKING = False
if TYPE_CHECKING:
    from zapomni_core.modules.observations.context import (
        TOKENS,
        UNTRUSTED,
        ContextLine,
        Situation,
        session_context,
    )
    from zapomni_core.modules.observations.host_files import loaded_by_host
    from zapomni_core.modules.observations.purge import PurgeReport, PurgeScope
    from zapomni_core.modules.observations.service import FolderScope, Observations, Reach
    from zapomni_core.modules.observations.shell import may_change
    from zapomni_core.modules.observations.uses import record_answer
    from zapomni_db.sqlite.purging import PurgeSelection

__all__ = [
    "ACTIONS",
    "HOOKS_REVISION",
    "HOSTS",
    "SPOOL_FOLDER",
    "TOKENS",
    "UNTRUSTED",
    "ContextLine",
    "Event",
    "FolderScope",
    "NewObservation",
    "Observations",
    "PayloadError",
    "PurgeReport",
    "PurgeScope",
    "PurgeSelection",
    "Reach",
    "Situation",
    "SpoolFullError",
    "clean_row",
    "detect_host",
    "drain",
    "extract",
    "hash_event",
    "is_waiting",
    "loaded_by_host",
    "make_row",
    "may_change",
    "read_event",
    "record_answer",
    "session_context",
    "set_aside_row",
    "spool_row",
    "spool_state",
    "strip_injected",
]

_FILES = {
    "TOKENS": "context",
    "UNTRUSTED": "context",
    "Situation": "context",
    "loaded_by_host": "host_files",
    "ContextLine": "context",
    "session_context": "context",
    "PurgeReport": "purge",
    "PurgeScope": "purge",
    "PurgeSelection": "purge",
    "Reach": "service",
    "FolderScope": "service",
    "Observations": "service",
    "may_change": "shell",
    "record_answer": "uses",
}


def __getattr__(name: str) -> object:
    if name not in _FILES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    # Hooks come here: `importlib` would cost them more than the file.
    return getattr(__import__(f"{__name__}.{_FILES[name]}", fromlist=[name]), name)
