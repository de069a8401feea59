"""Check that everything works, and name a remedy for whatever does not.

`check_machine` needs no database; `Health` checks what an open engine has.
"""

from __future__ import annotations

import asyncio
import os
import platform
import shutil
import sqlite3
import stat
import uuid
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from zapomni_core.adapters.embedders import build_cache, build_embedders
from zapomni_core.adapters.model_files import (
    FILES,
    MODEL,
    MULTILINGUAL,
    MULTILINGUAL_LARGE,
    LocalModel,
    verify_model,
)
from zapomni_core.exceptions import ZapomniError
from zapomni_core.infra.error_messages import sanitize_error_for_user
from zapomni_core.infra.sharing import ShareKey, describe_process
from zapomni_core.infra.synced_folders import find_syncing_program
from zapomni_core.interfaces import AddMemoryRequest, ModelEmbedder, SearchRequest
from zapomni_core.modules.memories import Memories, ask_cache
from zapomni_core.modules.observations import SPOOL_FOLDER, Observations, spool_state
from zapomni_core.settings import Settings
from zapomni_core.workflows.backup import list_backups
from zapomni_core.workflows.repair import find_database_damage
from zapomni_db.interfaces import StorageProvider
from zapomni_db.models import EmbeddingSpace, MemoryStats
from zapomni_db.observation_models import CaptureOverview

if TYPE_CHECKING:
    from zapomni_core.workflows.add_memory import MemoryWriter
    from zapomni_core.workflows.search_everything import Searcher

__all__ = [
    "REPAIR",
    "CheckResult",
    "Health",
    "SharedState",
    "StoredSizes",
    "check_machine",
    "explain_closed_database",
    "read_shared_process",
]

ENOUGH_SPACE = 200_000_000
PROBE_PROJECT = "zapomni-doctor"
# Daily backups are made while an agent or a page runs: after a weekend there may be none.
BACKUP_IS_OLD = timedelta(days=4)
REPAIR = (
    "Run `zapomni doctor --repair`: it restores a backup or saves what can be read, and keeps the "
    "damaged file."
)
PULL = "Run `zapomni models pull`. Until then search works by words only."


@dataclass(frozen=True)
class CheckResult:
    """One check: how it went, what was found, and what to do about it.

    A warning needs attention and breaks nothing.
    """

    name: str
    status: Literal["ok", "warning", "failed", "skipped"]
    detail: str = ""
    fix: str = ""


@dataclass(frozen=True)
class StoredSizes:
    """How much is stored, and what waits."""

    stats: MemoryStats
    captured: CaptureOverview
    spool: dict[str, int]
    files: list[tuple[str, int]]
    """What takes room in the home folder, in bytes, the largest first."""


@dataclass(frozen=True)
class SharedState:
    """What is known of the process that agents share; `process` is its own description."""

    words: str
    process: dict[str, Any] | None = None
    is_silent: bool = False


def check_machine(settings: Settings) -> Iterator[CheckResult]:
    """Check what needs no database."""
    yield _check_versions()
    yield _check_space(settings)
    yield _check_place(settings)
    yield _check_spool(settings)
    yield _check_shared_process()


async def explain_closed_database(settings: Settings, error: ZapomniError) -> CheckResult:
    """Return why the database does not open, and what to do."""
    result = _failure("database", error)
    if error.error_code == "SCHEMA_004" and (damage := await find_database_damage(settings)):
        return CheckResult("database", "failed", "; ".join(damage.problems), REPAIR)
    if error.error_code not in ("CONN_001", "CONN_002") or settings.server is None:
        return result
    fix = "Check that the server runs and that ZAPOMNI_STORAGE names it."
    return replace(result, detail=f"{settings.server}: {error.message}", fix=fix)


class Health:
    """Checks of an open engine.

    Args:
        settings: The user's.
        storage: The store of memories.
        memories: Made of it.
        observations: What agents did.
        writer: Adds the probe memory.
        searcher: Finds it again.
    """

    def __init__(
        self,
        settings: Settings,
        storage: StorageProvider,
        memories: Memories,
        observations: Observations,
        writer: MemoryWriter,
        searcher: Searcher,
    ) -> None:
        self._settings = settings
        self._storage = storage
        self._memories = memories
        self._observations = observations
        self._writer = writer
        self._searcher = searcher

    async def check_quickly(self) -> list[CheckResult]:
        """Run the checks that read little, write nothing and load no model."""
        found = await asyncio.to_thread(lambda: list(check_machine(self._settings)))
        found.append(self._opened())
        found.append(_check_modes(self._settings))
        found.append(await asyncio.to_thread(_check_backups, self._settings))
        found.append(await self._check_pending())
        return found

    async def check(self) -> AsyncIterator[CheckResult]:
        """Run every check of an open database; the cheapest come first."""
        settings = self._settings
        yield self._opened()
        yield _check_modes(settings)
        yield await asyncio.to_thread(_check_backups, settings)
        integrity = await self._check_integrity()
        yield integrity
        yield await asyncio.to_thread(_check_model, settings)
        yield await _check_embedder(settings)
        yield await _check_cache(settings)
        if integrity.status == "ok":
            yield await self._check_loop()
            yield await self._check_digest()
        else:
            yield CheckResult("probe memory", "skipped", "nothing is written to a damaged database")
        yield await self._check_pending()

    async def measure(self) -> StoredSizes:
        """Count what is stored, what waits, and what takes room."""
        home = self._settings.home
        return StoredSizes(
            await self._memories.get_stats(),
            await self._observations.capture(),
            spool_state(str(home)),
            await asyncio.to_thread(_measure_folder, home),
        )

    def _opened(self) -> CheckResult:
        server = self._settings.server
        where = "" if server is None else f"{server} "
        return CheckResult("database", "ok", f"{where}opens, and its version fits")

    async def _check_digest(self) -> CheckResult:
        """Bring what hooks read of memories up to date."""
        try:
            count = await self._memories.digest.rebuild()
        except ZapomniError as error:
            return _failure("digest", error)
        memories = _count(count, "memory", "memories")
        return CheckResult("digest", "ok", f"{memories} may be given to new sessions")

    async def _check_integrity(self) -> CheckResult:
        try:
            problems = await self._storage.check_integrity()
        except ZapomniError as error:
            result = _failure("integrity", error)
            if error.error_code == "SCHEMA_004" and (
                damage := await find_database_damage(self._settings)
            ):
                return replace(result, detail="; ".join(damage.problems), fix=REPAIR)
            return result
        if problems:
            detail = "; ".join(f"{name}: {problem}" for name, problem in problems.items())
            if self._settings.server is None and (
                damage := await find_database_damage(self._settings)
            ):
                return CheckResult("integrity", "failed", "; ".join(damage.problems), REPAIR)
            fix = "Restore a backup of the database, or report this with the line above."
            return CheckResult("integrity", "failed", detail, fix)
        return CheckResult("integrity", "ok", "the database is sound")

    async def _check_loop(self) -> CheckResult:
        """Add, find, read and delete a probe memory."""
        name, token = "probe memory", uuid.uuid4().hex
        request = AddMemoryRequest(text=f"A probe of the doctor: {token}.", project=PROBE_PROJECT)
        memory_id = ""
        try:
            memory_id = (await self._writer.add([request]))[0].memory_id
            query = SearchRequest(query=token, filters={"project": PROBE_PROJECT})
            found = await self._searcher.answer(query)
            record = await self._memories.get(memory_id)
            await self._memories.delete(memory_id)
        except ZapomniError as error:
            if memory_id:
                with suppress(ZapomniError):
                    await self._memories.delete(memory_id)
            return _failure(name, error)
        if record.text != request.text or memory_id not in [hit.memory_id for hit in found.results]:
            fix = "Report this: what was stored did not come back."
            return CheckResult(name, "failed", "stored, but not found or not the same", fix)
        return CheckResult(name, "ok", "stored, found, read and deleted")

    async def _check_pending(self) -> CheckResult:
        try:
            stats = await self._memories.get_stats()
        except ZapomniError as error:
            return _failure("vectors", error)
        if self._settings.embedder == "none":
            return CheckResult("vectors", "skipped", "the embedder is none")
        if stats.notice:
            fix = "Run `zapomni models reembed`, or set ZAPOMNI_EMBEDDER back."
            return CheckResult("vectors", "failed", f"{stats.notice} (EMB_005)", fix)
        if pending := stats.pending_vectors:
            detail = f"{pending} passages are found by words only"
            return CheckResult("vectors", "failed", detail, "Run `zapomni models reembed`.")
        detail = ". ".join(filter(None, ("every passage has one", stats.languages)))
        return CheckResult("vectors", "ok", detail)


def _count(number: int, singular: str, plural: str = "") -> str:
    return f"{number} {singular if number == 1 else plural or singular + 's'}"


def _failure(name: str, error: ZapomniError) -> CheckResult:
    shown = sanitize_error_for_user(error, error.correlation_id)
    detail = f"{shown['error']} ({shown['error_code']})"
    return CheckResult(name, "failed", detail, shown["suggested_action"])


def read_shared_process() -> SharedState:
    """Ask the process that agents with this command's settings share."""
    key = ShareKey(os.environ)
    if not key.wanted:
        return SharedState("off: every agent has one of its own")
    try:
        found = describe_process(key, 5)
    except (OSError, ValueError):
        return SharedState("does not answer", is_silent=True)
    if found is None:
        return SharedState("none runs; the next agent starts it")
    model = "model loaded" if found["model_loaded"] else "model not loaded"
    agents = f"{found['connections']} connected"
    return SharedState(f"process {found['pid']}, {agents}, {model}", found)


def _check_backups(settings: Settings) -> CheckResult:
    """Check that there is a copy of everything that is not old."""
    made = list_backups(settings)
    fix = "Run `zapomni backup`. Once a day one is made while an agent or the page is open."
    if not made:
        return CheckResult("backups", "warning", "none yet", fix)
    age = datetime.now(UTC) - made[0].made_at
    detail = f"{len(made)}, the newest from {made[0].made_at.astimezone():%Y-%m-%d %H:%M}"
    if age > BACKUP_IS_OLD:
        return CheckResult("backups", "warning", detail, fix)
    return CheckResult("backups", "ok", detail)


def _measure_folder(home: Path) -> list[tuple[str, int]]:
    """Return what is directly in a folder with its bytes, the largest first."""
    sizes: dict[str, int] = {}
    for path in home.iterdir() if home.is_dir() else ():
        with suppress(OSError):
            inside = path.rglob("*") if path.is_dir() and not path.is_symlink() else (path,)
            bytes_ = sum(one.lstat().st_size for one in inside if one.is_file())
            sizes[path.name + ("/" if path.is_dir() else "")] = bytes_
    return sorted(((name, size) for name, size in sizes.items() if size), key=lambda one: -one[1])


def _check_versions() -> CheckResult:
    found = (
        f"zapomni {version('zapomni')}, Python {platform.python_version()}, "
        f"SQLite {sqlite3.sqlite_version}"
    )
    connection = sqlite3.connect(":memory:")
    try:
        connection.execute("CREATE VIRTUAL TABLE probe USING fts5(text)")
    except sqlite3.OperationalError:
        fix = "Use a Python whose SQLite has FTS5, such as the one from python.org."
        return CheckResult("versions", "failed", f"{found} without FTS5", fix)
    finally:
        connection.close()
    return CheckResult("versions", "ok", found)


def _check_space(settings: Settings) -> CheckResult:
    folder = settings.observations_path.parent
    while not folder.exists():
        folder = folder.parent
    free = shutil.disk_usage(folder).free
    detail = f"{free / 1e9:.1f} GB free"
    if free < ENOUGH_SPACE:
        fix = "Free some space, or move the folder and set ZAPOMNI_HOME."
        return CheckResult("disk space", "failed", detail, fix)
    return CheckResult("disk space", "ok", detail)


def _check_place(settings: Settings) -> CheckResult:
    """Check that no program copies the open database to other machines."""
    for folder in dict.fromkeys((settings.home, settings.observations_path.parent)):
        if program := find_syncing_program(folder):
            fix = (
                f"A database that {program} copies while it is written is damaged sooner or later. "
                "Move the folder and set ZAPOMNI_HOME; to share memories, use `zapomni sync`."
            )
            return CheckResult("place", "failed", f"the folder is synced by {program}", fix)
    return CheckResult("place", "ok", "no program syncs the folder")


def _check_spool(settings: Settings) -> CheckResult:
    """Check that what hooks captured has reached the database."""
    state = spool_state(str(settings.home))
    detail = f"{_count(state['waiting'], 'event')} waiting"
    folder = settings.home / SPOOL_FOLDER
    if state["dropped"]:
        detail += f", {state['dropped']} dropped because it was full"
        fix = f"What waits is stored once the database works; then delete {folder}/dropped."
        return CheckResult("spool", "failed", detail, fix)
    if state["bad"]:
        detail += f", {state['bad']} put aside because no database takes them"
        fix = f"Capture continues without them; read and delete what is in {folder}/bad."
        return CheckResult("spool", "failed", detail, fix)
    return CheckResult("spool", "ok", detail)


def _check_shared_process() -> CheckResult:
    """Check that the process that agents share answers."""
    state = read_shared_process()
    if not state.is_silent:
        return CheckResult("shared process", "ok", state.words)
    pattern = f"zapomni_mcp.shared_process {ShareKey(os.environ).folder()}/"
    fix = (
        f'Run `pkill -KILL -f "{pattern}"`. Nothing stored is lost; the next agent starts another '
        "one. Until then new agents are served without it."
    )
    return CheckResult("shared process", "failed", state.words, fix)


def _check_modes(settings: Settings) -> CheckResult:
    """Check that no other user of this machine can read the memories."""
    if os.name != "posix":
        return CheckResult("file modes", "skipped", "not a POSIX system")
    if settings.allow_open_home:
        return CheckResult("file modes", "skipped", "ZAPOMNI_ALLOW_OPEN_HOME accepts them")
    open_to_others = [
        path for path in _private_paths(settings) if stat.S_IMODE(path.stat().st_mode) & 0o077
    ]
    if open_to_others:
        fix = f"Run `chmod -R go-rwx '{settings.observations_path.parent}'`."
        return CheckResult("file modes", "failed", "others may read your memories", fix)
    return CheckResult("file modes", "ok", "only you can read your memories")


def _private_paths(settings: Settings) -> Iterator[Path]:
    database = settings.observations_path
    parts = (database, Path(f"{database}-wal"), Path(f"{database}-shm"))
    # A folder the user chose may hold other things and be open for a reason.
    folders = (settings.home,) if database.parent == settings.home else ()
    for path in (*folders, *parts, settings.local_server_folder):
        if path.exists():
            yield path


def _check_model(settings: Settings) -> CheckResult:
    if settings.embedder != "local":
        return CheckResult("model files", "skipped", f"the embedder is {settings.embedder}")
    found = []
    for model in (LocalModel(MODEL, FILES), MULTILINGUAL, MULTILINGUAL_LARGE):
        states = verify_model(settings.models_path, model.files, model.name)
        if model.files is not FILES and set(states.values()) == {"missing"}:
            continue
        wrong = [f"{name} is {state}" for name, state in states.items() if state != "ok"]
        if wrong:
            fix = PULL if model.files is FILES else model.files[0].hint
            return CheckResult("model files", "failed", "; ".join(wrong), fix)
        found.append(model.name)
    return CheckResult("model files", "ok", f"{', '.join(found)}, every byte checked")


async def _check_embedder(settings: Settings) -> CheckResult:
    embedders: list[ModelEmbedder] = []
    try:
        embedders = build_embedders(settings)
        if not embedders:
            return CheckResult("embedder", "skipped", "none: search works by words only")
        vector = await embedders[0].embed_query("Does it answer?")
        space = await embedders[0].space()
    except ZapomniError as error:
        return _failure("embedder", error)
    finally:
        for embedder in embedders:
            await embedder.close()
    detail = f"{embedders[0].name} answers: {space.model}, {len(vector)} dimensions"
    return CheckResult("embedder", "ok", detail)


async def _check_cache(settings: Settings) -> CheckResult:
    """Ask the cache a question: no other call would show that it is dead."""
    cache = build_cache(settings)
    if cache is None:
        return CheckResult("cache", "skipped", "none is configured")
    try:
        question = cache.get(EmbeddingSpace(model="doctor", dimension=1), ["Does it answer?"])
        await ask_cache(question)
    except ZapomniError as error:
        fix = "Check that the Redis runs and that ZAPOMNI_CACHE names it. Nothing is lost."
        return CheckResult("cache", "failed", f"{error.message} ({error.error_code})", fix)
    finally:
        await cache.close()
    return CheckResult("cache", "ok", "the Redis answers")
