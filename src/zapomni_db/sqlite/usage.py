"""What captured observations take, and what each host delivered. Standard library only."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from typing import Any, Final, LiteralString

from zapomni_db.sqlite.observation_reads import ACTIVE_SESSION

__all__ = ["OBSERVATION_BYTES", "usage"]

# 250 stands for a row's numbers, its hash and its lines in the indexes.
OBSERVATION_BYTES: Final[LiteralString] = (
    "(250 + length(CAST(content AS BLOB)) + coalesce(length(CAST(metadata AS BLOB)), 0)"
    " + 2 * coalesce(length(CAST(file_path AS BLOB)), 0))"
)
COUNTERS: Final = ("redacted", "spooled", "drained", "lost")


def usage(connection: sqlite3.Connection) -> dict[str, Any]:
    """Count observations, their bytes by type, and what each host delivered."""
    by_type = {
        obs_type: {"count": count, "bytes": int(size)}
        for obs_type, count, size in connection.execute(
            "SELECT obs_type, count(*), total("
            + OBSERVATION_BYTES
            + ") FROM observations GROUP BY obs_type ORDER BY 3 DESC, obs_type"
        )
    }
    pinned = connection.execute("SELECT count(*) FROM observations WHERE pinned = 1").fetchone()[0]
    sessions = connection.execute(
        "SELECT count(*) FROM sessions s WHERE " + ACTIVE_SESSION
    ).fetchone()[0]
    hosts: dict[str, dict[str, Any]] = {}
    for host, count, last_at in connection.execute(
        "SELECT host, count(*), max(timestamp) FROM observations GROUP BY host ORDER BY host"
    ):
        hosts[host] = {"observations": count, "last_at": last_at}
    for host, name, value, last_at in connection.execute(
        "SELECT host, name, value, last_at FROM capture_counters WHERE host <> '' ORDER BY host"
    ):
        counters = hosts.setdefault(host, {"observations": 0, "last_at": None})
        counters[name] = value
        if name == "captured" and last_at is not None:
            counters["last_at"] = max(last_at, counters["last_at"] or 0)
    return {
        "total": sum(entry["count"] for entry in by_type.values()),
        "pinned": pinned,
        "sessions": sessions,
        "bytes": sum(entry["bytes"] for entry in by_type.values()),
        "by_type": by_type,
        "hosts": hosts,
        **{name: _counter(hosts, name) for name in COUNTERS},
    }


def _counter(hosts: Mapping[str, Mapping[str, Any]], name: str) -> int:
    return sum(counters.get(name, 0) for counters in hosts.values())
