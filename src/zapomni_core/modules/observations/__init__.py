"""What one hook event says: at most one observation. Standard library only, and little of it."""

from zapomni_core.modules.observations._event import ACTIONS, Event, Observation
from zapomni_core.modules.observations._extract import extract

__all__ = ["ACTIONS", "Event", "Observation", "extract"]
