"""The settings of retention, read without pydantic. Standard library only: hooks import this."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypedDict

__all__ = ["RetentionLimits", "read_limits", "read_recall_days"]


class RetentionLimits(TypedDict):
    """The arguments of `zapomni_db.sqlite.purging.sweep`."""

    retention_days: dict[str, int]
    max_bytes: int


def read_limits(home: str, environ: Mapping[str, str]) -> RetentionLimits:
    """Read what `Settings` calls observation_retention_days and observations_max_mb.

    Raises:
        ValueError: A value is impossible: nothing must be deleted by it.
        OSError: config.toml cannot be read.
    """
    config = _read_config(home)
    days: Any = environ.get("ZAPOMNI_OBSERVATION_RETENTION_DAYS")
    days = config.get("observation_retention_days", {}) if days is None else json.loads(days)
    megabytes = environ.get("ZAPOMNI_OBSERVATIONS_MAX_MB", config.get("observations_max_mb", 512))
    if not isinstance(days, dict) or any(type(n) is not int or n < 0 for n in days.values()):
        raise ValueError("observation_retention_days")
    if int(megabytes) < 1:
        raise ValueError("observations_max_mb")
    return {"retention_days": days, "max_bytes": int(megabytes) * 1_000_000}


def read_recall_days(home: str, environ: Mapping[str, str]) -> int:
    """Read what `Settings` calls recall_retention_days; it raises what `read_limits` does."""
    given = environ.get("ZAPOMNI_RECALL_RETENTION_DAYS")
    days = int(_read_config(home).get("recall_retention_days", 365) if given is None else given)
    if days < 0:
        raise ValueError("recall_retention_days")
    return days


def _read_config(home: str) -> dict[str, Any]:
    file = Path(home, "config.toml")
    return tomllib.loads(file.read_text(encoding="utf-8")) if file.exists() else {}
