"""The recall log as the engine's own processes use it: written in batches, in the background.

A recall is answered first and written about a second later, by another thread: the log neither
slows a search nor stops it. What cannot be written is dropped.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from zapomni_core.settings import Settings

if TYPE_CHECKING:
    # What writes is imported by the thread that writes: no answer waits for it.
    from zapomni_core.shared.redaction import Redactor
    from zapomni_db.recall_models import (
        AskedQuestion,
        LoggedRecall,
        RecallFilter,
        RecallTotals,
    )
    from zapomni_db.sqlite.recalls import Recall, RecallUse

__all__ = ["RecallLog", "RecalledItem", "count_tokens", "recall_log"]

# Recalls of this time are written together.
BATCH_SECONDS = 1.0
# How long the background waits for another writer.
WAIT_SECONDS = 1.0
# More would wait only if the disk does not answer.
MOST_WAITING = 1_000


class RecalledItem(NamedTuple):
    """A memory or an observation as it was given."""

    memory_id: str = ""
    observation_id: int | None = None
    tokens: int = 0
    evidence: float | None = None

    @property
    def row(self) -> tuple[str, str, int, float | None]:
        """Id, kind, tokens and evidence, as the log has them."""
        if self.observation_id is None:
            return self.memory_id, "memory", self.tokens, self.evidence
        return str(self.observation_id), "observation", self.tokens, self.evidence


class _Given(NamedTuple):
    """A recall that waits to be written."""

    moment: float
    how: str
    query: str
    items: Sequence[RecalledItem]
    client: str
    folder: str

    def row(self, home: str) -> Recall:
        from zapomni_db.sqlite.recalls import Recall

        project = _project_key(self.folder, home)
        items = [item.row for item in self.items]
        return Recall(self.moment, self.client, "", project, self.how, self.query, items)


class _Opened(NamedTuple):
    """Items that were opened; it waits to be written."""

    moment: float
    items: Sequence[RecalledItem]

    def row(self, home: str) -> RecallUse:
        del home
        from zapomni_db.sqlite.recalls import RecallUse

        ids = [item.row[0] for item in self.items]
        return RecallUse(self.moment, "", "opened", ids)


def count_tokens(text: str) -> int:
    """Return about how many tokens a text costs an agent: its bytes as JSON, by four."""
    size = len(json.dumps(text, ensure_ascii=False).encode("utf-8", "replace"))
    return -(-size // 4)


def recall_log(settings: Settings) -> RecallLog:
    """Return this process's log for a home folder."""
    return _log_of(settings.home, settings.recall_retention_days)


@cache
def _log_of(home: Path, days: int) -> RecallLog:
    return RecallLog(home, days)


class RecallLog:
    """What was given to agents and people.

    Args:
        home: The home folder.
        days: How long recalls are kept; 0: for ever.
    """

    def __init__(self, home: Path, days: int) -> None:
        self._home = str(home)
        self._days = days
        self._lock = threading.Lock()
        self._writing = threading.Lock()
        self._waiting: list[_Given | _Opened] = []
        self._timer: threading.Timer | None = None
        self._redactor: Redactor | None = None
        self._environments: list[dict[str, str]] = []
        self._is_swept = False

    def learn(self, environ: Mapping[str, str]) -> None:
        """Mask the secrets of another process's environment in queries, too."""
        with self._lock:
            self._environments.append(dict(environ))

    def add(
        self, how: str, query: str, items: Iterable[RecalledItem], *, client: str, folder: str
    ) -> None:
        """Note what was given; the project is that of the folder."""
        given = list(items)
        if given:
            self._append(_Given(time.time(), how, query, given, client, folder))

    def use(self, items: Iterable[RecalledItem]) -> None:
        """Note that items were opened; it counts for those that were given before."""
        opened = list(items)
        if opened:
            self._append(_Opened(time.time(), opened))

    def _append(self, entry: _Given | _Opened) -> None:
        with self._lock:
            if len(self._waiting) < MOST_WAITING:
                self._waiting.append(entry)
            if self._timer is None:
                self._timer = threading.Timer(BATCH_SECONDS, self.flush)
                self._timer.daemon = True
                self._timer.start()

    def flush(self) -> None:
        """Write what waits. Never raises."""
        with self._lock:
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None
            # Something was found there; a home folder that was removed since is not made again.
            if not self._waiting or not Path(self._home).is_dir():
                self._waiting = []
                return
            waiting, self._waiting = self._waiting, []
            # Taken by a write alone: secrets that were learned before count for later questions.
            environments, self._environments = self._environments, []
        from zapomni_db.sqlite.recalls import record_batch, sweep_recalls

        with self._writing:
            if self._redactor is None:
                # Not for those who only search: the answer is given by now.
                from zapomni_core.infra.capture_key import load_redactor

                self._redactor = load_redactor(self._home)
            redactor = self._redactor
            for environ in environments:
                redactor.learn(environ)
            rows = [entry.row(self._home) for entry in waiting]
            record_batch(self._home, rows, redactor.redact, wait=WAIT_SECONDS)
            if not self._is_swept:
                self._is_swept = True
                sweep_recalls(self._home, self._days, time.time())

    # --- Reading ------------------------------------------------------------------------

    def list_recalls(self, filters: RecallFilter) -> list[LoggedRecall]:
        """Return recalls with their items, newest first."""
        from zapomni_db.sqlite import recall_reads

        return recall_reads.list_recalls(Path(self._home), filters)

    def count_recalls(self, hidden: Sequence[str] = (), days: int = 7) -> RecallTotals:
        """Return how much was given, and the tokens of so many latest days and of sessions.

        Sessions of hidden projects are not listed.
        """
        from zapomni_db.sqlite import recall_reads

        return recall_reads.count_recalls(Path(self._home), hidden, days)

    def read_questions(self, projects: Sequence[str] | None = None) -> list[AskedQuestion]:
        """Return the questions whose answers were used, newest first."""
        from zapomni_db.sqlite import recall_reads

        return recall_reads.read_questions(Path(self._home), projects)


@cache
def _project_key(folder: str, home: str) -> str:
    from zapomni_core.infra.projects import project_of

    return project_of(folder, str(Path(home, "roots.json"))).key
