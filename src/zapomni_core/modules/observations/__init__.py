"""What one hook event says: at most one observation. Standard library only, and little of it."""

from zapomni_core.modules.observations._event import ACTIONS, Event, Observation
from zapomni_core.modules.observations._extract import extract
from zapomni_core.modules.observations._injected import strip_injected
from zapomni_core.modules.observations._text import clean_row

__all__ = ["ACTIONS", "Event", "Observation", "clean_row", "extract", "strip_injected"]
