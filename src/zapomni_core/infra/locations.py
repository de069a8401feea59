"""Where observations live, whatever holds the memories."""

from __future__ import annotations

from pathlib import Path

from zapomni_core.exceptions import ConfigurationError
from zapomni_core.settings import Settings

__all__ = ["observations_path"]


def observations_path(settings: Settings) -> Path:
    """Return the local file hooks write to: capture never waits for a server."""
    try:
        return settings.database_path
    except ConfigurationError:
        return settings.home / "zapomni.db"
