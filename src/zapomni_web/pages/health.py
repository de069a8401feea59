"""Whether everything works: what `zapomni doctor` checks, what takes room, and what waits."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import NamedTuple

from zapomni_core.workflows.check_health import CheckResult, check_machine
from zapomni_web.page import Done, PageRequest, PageView, address
from zapomni_web.text import show_bytes

__all__ = ["check", "show"]

TONES = {"ok": "good", "warning": "warn", "failed": "bad", "skipped": ""}
FILES_SHOWN = 6
SMALL_BYTES = 10_000


class ShownCheck(NamedTuple):
    """A check with the commands of its remedy taken out, to be copied."""

    check: CheckResult
    tone: str
    commands: list[str]


class FileSize(NamedTuple):
    """What takes room, compared with the largest."""

    name: str
    percent: float
    size: str


async def show(asked: PageRequest) -> PageView:
    """Show the quick checks as they are now, the others as they were when they were run."""
    health = asked.engine.health
    now = await health.check_quickly()
    sizes = await health.measure()
    quick = {one.name for one in now}
    last = asked.site.last_checks
    slow = [one for one in last[1] if one.name not in quick] if last else []
    problems = [one for one in [*now, *slow] if one.status in ("failed", "warning")]
    largest = max((size for _, size in sizes.files), default=1)
    return PageView(
        "health.html",
        "Health",
        {
            "ok": all(one.status != "failed" for one in problems),
            "checks": [*now, *slow],
            "checked_at": last[0] if last else None,
            "stored": sizes.stats,
            "captured": {
                **sizes.captured._asdict(),
                "hosts": [host._asdict() for host in sizes.captured.hosts],
            },
            "spool": sizes.spool,
            "files": dict(sizes.files),
        },
        ["zapomni", "doctor"],
        {
            "failed": sum(one.status == "failed" for one in problems),
            "warnings": sum(one.status == "warning" for one in problems),
            "problems": [_shown(one) for one in problems],
            "fine": [_shown(one) for one in [*now, *slow] if one not in problems],
            "checked_at": last[0] if last else None,
            "files": [
                FileSize(name, round(100 * size / largest, 1), show_bytes(size))
                for name, size in sizes.files[:FILES_SHOWN]
                if size >= SMALL_BYTES
            ],
            "total": show_bytes(sum(size for _, size in sizes.files)),
            "home": str(asked.site.settings.home),
            "stats": sizes.stats,
            "captured": sizes.captured,
            "spool": sizes.spool,
        },
        live="memories observations",
    )


async def check(asked: PageRequest) -> Done:
    """Run every check, as `zapomni doctor` does: it adds a probe memory and deletes it."""
    results = [*check_machine(asked.site.settings)]
    results += [one async for one in asked.engine.health.check()]
    asked.site.last_checks = datetime.now(UTC), results
    failed = sum(one.status == "failed" for one in results)
    if failed:
        return Done(f"{failed} of {len(results)} checks failed.", address("health"))
    return Done(f"Ran {len(results)} checks: all is well.", address("health"))


def _shown(check: CheckResult) -> ShownCheck:
    return ShownCheck(check, TONES[check.status], re.findall("`([^`]+)`", check.fix))
