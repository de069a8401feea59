"""Import and export: what other programs keep here, what was imported, and copies of everything."""

from __future__ import annotations

from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from zapomni_core.exceptions import NotFoundError
from zapomni_core.interfaces import UpdateMemoryRequest
from zapomni_core.workflows.backup import back_up
from zapomni_core.workflows.import_sources import FoundSource, ImportRequest
from zapomni_web.page import Confirm, Done, MissingPageError, PageRequest, PageView, address
from zapomni_web.text import show_bytes

__all__ = [
    "ask_start",
    "ask_trust",
    "ask_undo",
    "make_backup",
    "preview",
    "show",
    "start",
    "trust",
    "undo",
]

COPIES = 8
REASONS = 12
PERIODS = {"": "Everything", "365d": "The last year", "90d": "The last 90 days", "30d": "30 days"}


class ShownSource(NamedTuple):
    """A source on the page."""

    source: FoundSource
    title: str
    records: str
    size: str
    soon: str
    """What its program will delete, and when."""


class ShownBatch(NamedTuple):
    """An import that was made, or that runs."""

    id: str
    title: str
    state: str
    started_at: int
    kept: str
    has_memories: bool
    can_undo: bool


async def show(asked: PageRequest) -> PageView:
    """Show what can be imported, what was, and the backups and exports there are."""
    engine = asked.engine
    found = await engine.imports.list_sources(str(Path.cwd()))
    titles = {one.name: _title(one) for one in found}
    batches = await engine.imports.list_batches()
    copies = await engine.exports.list_copies()
    backups = [one for one in copies if one.kind == "backup"]
    exports = [one for one in copies if one.kind != "backup"]
    running = [
        one
        for one in await engine.tasks.list_tasks(limit=20)
        if one.task_type == "import_source" and one.status in ("pending", "running")
    ]
    return PageView(
        "imports.html",
        "Import and export",
        [asdict(one) for one in found],
        ["zapomni", "import"],
        {
            "sources": [_shown(one) for one in found],
            "batches": [
                ShownBatch(
                    one.id,
                    titles.get(one.source, one.source),
                    one.state,
                    one.started_at,
                    count_kept(one.counts),
                    bool(one.counts.get("memories")),
                    one.state != "undone",
                )
                for one in batches
            ],
            "running": running,
            "backups": [(one, show_bytes(one.bytes)) for one in backups[:COPIES]],
            "more_backups": max(0, len(backups) - COPIES),
            "exports": [(one, show_bytes(one.bytes)) for one in exports],
        },
        live="tasks",
    )


def _shown(found: FoundSource) -> ShownSource:
    size = show_bytes(found.bytes)
    return ShownSource(found, _title(found), _records(found), size, _soon(found))


def _title(found: FoundSource) -> str:
    return found.title[:1].upper() + found.title[1:]


def _records(found: FoundSource) -> str:
    number = found.records or found.files
    return f"{number:,} record{'' if number == 1 else 's'}"


def _soon(found: FoundSource) -> str:
    if not found.deleted_soon or found.next_deletion is None:
        return ""
    days = max(0, (found.next_deletion - datetime.now(UTC)).days)
    when = "today" if not days else f"in {days} day{'s' if days > 1 else ''}"
    return f"{found.deleted_soon} deleted within a week, the oldest {when}"


def count_kept(counts: dict[str, Any]) -> str:
    """Return what an import stored, in words."""
    observations, memories = counts.get("observations", 0), counts.get("memories", 0)
    parts = [
        f"{observations:,} observation{'' if observations == 1 else 's'}",
        f"{memories:,} {'memory' if memories == 1 else 'memories'}",
    ]
    return " and ".join(parts)


# --- One source ---------------------------------------------------------------------------


async def _find(asked: PageRequest) -> FoundSource:
    found = await asked.engine.imports.list_sources(str(Path.cwd()))
    for one in found:
        if one.name == asked.path["source"]:
            return one
    raise MissingPageError("There is nothing of this source on this machine.")


def _request(asked: PageRequest) -> ImportRequest:
    since = asked.get_time("since")
    seconds = int(since.timestamp()) if since else 0
    return ImportRequest(asked.path["source"], since=seconds, folder=str(Path.cwd()))


async def preview(asked: PageRequest) -> PageView:
    """Read everything of a source and show what an import would store; nothing is stored."""
    source = await _find(asked)
    report = await asked.engine.imports.preview(_request(asked))
    since = asked.get("since")
    reasons = sorted(report.skipped.items(), key=lambda one: -one[1])
    return PageView(
        "import_preview.html",
        f"Import: {_title(source)}",
        {**asdict(report), "dry_run": True},
        [
            *("zapomni", "import", source.name, "--dry-run"),
            *((f"--since={since}",) if since else ()),
        ],
        {
            "source": source,
            "records": _records(source),
            "size": show_bytes(source.bytes),
            "soon": _soon(source),
            "report": report,
            "kept": count_kept(asdict(report)),
            "reasons": reasons[:REASONS],
            "periods": [
                (label, asked.here(since=value or None), since == value)
                for value, label in PERIODS.items()
            ],
            "start": address("import", source.name, "start", since=since),
        },
    )


async def ask_start(asked: PageRequest) -> Confirm:
    """Name the source before it is imported."""
    source = await _find(asked)
    since = asked.get("since")
    _request(asked)  # A wrong date is said before anything is asked.
    limited = f", not older than {since}" if since else ""
    return Confirm(
        "Import this?",
        f"{_title(source)}: {_records(source)}, {show_bytes(source.bytes)}{limited}",
        "A backup is made first. Secrets are masked, nothing is imported twice, and memories wait "
        "for your trust before a session is given them. It runs in the background and can be "
        "taken back.",
        "Import it",
        address("import", source.name, since=since),
        {"since": since},
    )


async def start(asked: PageRequest) -> Done:
    """Queue the import of a source."""
    source = await _find(asked)
    request = _request(asked)
    task_id = await asked.engine.imports.submit(request)

    async def take_back() -> str:
        status = await asked.engine.tasks.cancel_task(task_id)
        batch = (status.result or {}).get("batch")
        if status.status == "completed" and batch:
            undone = await asked.engine.imports.undo(batch)
            return f"Removed {count_kept(asdict(undone))}."
        return "The import was cancelled. What it stored is listed below, and can be removed."

    return Done(f"Importing in the background: {_title(source)}.", address("import"), take_back)


# --- What was imported ----------------------------------------------------------------------


async def _batch(asked: PageRequest) -> tuple[str, str]:
    """Return what to call a batch, and what it stored."""
    for one in await asked.engine.imports.list_batches():
        if one.id == asked.path["id"]:
            return f"{one.source}, {one.id}", count_kept(one.counts)
    raise NotFoundError("No import has this id.", "IMPORT_001")


async def ask_undo(asked: PageRequest) -> Confirm:
    """Name what an import stored before it is removed."""
    name, kept = await _batch(asked)
    return Confirm(
        "Remove what this import stored?",
        f"{name}: {kept}",
        "Its memories go to the trash for 30 days, its observations are deleted. It can be "
        "imported again, as long as its program keeps it.",
        "Remove it",
        address("import"),
        is_dangerous=True,
    )


async def undo(asked: PageRequest) -> Done:
    """Remove what an import stored."""
    done = await asked.engine.imports.undo(asked.path["id"])
    return Done(f"Removed {count_kept(asdict(done))}.", address("import"))


async def ask_trust(asked: PageRequest) -> Confirm:
    """Say how many memories sessions will be given."""
    name, _ = await _batch(asked)
    waiting = await asked.engine.imports.list_untrusted(asked.path["id"])
    return Confirm(
        "Trust the memories of this import?",
        f"{name}: {len(waiting)} {'memory' if len(waiting) == 1 else 'memories'} not trusted yet",
        "Sessions may be given them unasked, as what you added yourself. Each can also be decided "
        "by itself in the review.",
        "Trust them",
        address("import"),
    )


async def trust(asked: PageRequest) -> Done:
    """Let sessions be given the memories of an import."""
    waiting = await asked.engine.imports.list_untrusted(asked.path["id"])
    await asked.engine.imports.trust(asked.path["id"])

    async def distrust() -> str:
        for memory_id in waiting:
            try:
                await asked.engine.update_memory(
                    UpdateMemoryRequest(memory_id=memory_id, trusted=False)
                )
            except NotFoundError:
                continue  # It was deleted meanwhile.
        return "They wait for your trust again."

    number = len(waiting)
    words = "memory is" if number == 1 else "memories are"
    return Done(f"{number} {words} trusted now.", address("import"), distrust)


# --- Copies -----------------------------------------------------------------------------------


async def make_backup(asked: PageRequest) -> Done:
    """Copy everything that is stored."""
    made = await back_up(asked.site.settings)
    if made is None:
        return Done("Nothing is stored yet, so there is nothing to back up.", address("import"))
    size = show_bytes(made.size_bytes)
    return Done(f"Made and checked {made.path.name}, {size}.", address("import"))
