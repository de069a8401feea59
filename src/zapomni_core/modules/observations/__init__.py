"""Observations: what agents did, from a hook's event to the context of the next session.

A hook process imports this for every event: what an ordinary event does not need is imported when
it is used.
"""

from zapomni_core.modules.observations.extraction import ACTIONS, Event, NewObservation, extract
from zapomni_core.modules.observations.spool import (
    SPOOL_FOLDER,
    SpoolFullError,
    drain,
    is_waiting,
    set_aside_row,
    spool_row,
    spool_state,
)
from zapomni_core.modules.observations.text import clean_row

TYPE_CHECKING = False
if TYPE_CHECKING:
    from zapomni_core.modules.observations.context import (
        UNTRUSTED,
        ContextLine,
        explain_context,
        session_context,
    )

__all__ = [
    "ACTIONS",
    "SPOOL_FOLDER",
    "UNTRUSTED",
    "ContextLine",
    "Event",
    "NewObservation",
    "SpoolFullError",
    "clean_row",
    "drain",
    "explain_context",
    "extract",
    "is_waiting",
    "session_context",
    "set_aside_row",
    "spool_row",
    "spool_state",
]

_FILES = {
    "UNTRUSTED": "context",
    "ContextLine": "context",
    "explain_context": "context",
    "session_context": "context",
}


def __getattr__(name: str) -> object:
    if name not in _FILES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"{__name__}.{_FILES[name]}"), name)
