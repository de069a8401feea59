"""What a page is made of: what it is asked for, what it shows, and what a change does."""

from __future__ import annotations

import json
import secrets
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlencode

from starlette.requests import Request

from zapomni_core.engine import ZapomniEngine
from zapomni_core.exceptions import ValidationError
from zapomni_core.settings import Settings
from zapomni_core.shared.dates import parse_when

if TYPE_CHECKING:
    from datetime import datetime

    from zapomni_core.workflows.check_health import CheckResult
    from zapomni_web.guard import Visitor
    from zapomni_web.live import Live

__all__ = [
    "Changes",
    "Confirm",
    "Done",
    "MissingPageError",
    "PageRequest",
    "PageView",
    "Site",
    "address",
    "to_json",
]

Undo = Callable[[], Awaitable[str]]
"""Takes a change back, and returns what to say about it."""
# So many changes can be undone from the page; `zapomni history` knows the others.
MOST_CHANGES = 200


class MissingPageError(Exception):
    """There is no such page, or nothing is there any more; the message says what to do."""


@dataclass(frozen=True)
class PageView:
    """What a page shows.

    Attributes:
        template: The name of a file in `templates/`.
        title: The page's one heading, and its name in a tab.
        data: What the template shows; `.json` gives the same, as the command with `--json` does.
        command: The arguments of the `zapomni` command that gives the same.
        more: Also given to the template, but not a part of `.json`.
        live: What the page is about, of which others may change something meanwhile:
            `memories`, `observations`, `tasks`.
        status: Of the answer.
    """

    template: str
    title: str
    data: Any
    command: Sequence[str] = ()
    more: Mapping[str, Any] = field(default_factory=dict)
    live: str = ""
    status: int = 200


@dataclass(frozen=True)
class Confirm:
    """A question before a change. The form it shows sends `fields` to the address it is under.

    Attributes:
        title: What is to be done.
        thing: What it is done to, in the user's words: a title, the beginning of a text.
        explanation: What it means.
        button: What to do, as a verb and its object.
        back: Where `Cancel` leads.
        fields: Sent along.
        is_dangerous: Whether it takes something away.
    """

    title: str
    thing: str
    explanation: str
    button: str
    back: str
    fields: Mapping[str, str] = field(default_factory=dict)
    is_dangerous: bool = False


@dataclass(frozen=True)
class Done:
    """A change that was made: what it was, the page to show next, and how to take it back."""

    message: str
    to: str
    undo: Undo | None = None
    after_undo: str = ""
    """The page to show after that, if it is another one."""


class Changes:
    """The changes made on this page, so that each can be shown once more and undone."""

    def __init__(self) -> None:
        self._made: dict[str, Done] = {}

    def add(self, done: Done) -> str:
        """Remember a change; return its id."""
        name = secrets.token_urlsafe(9)
        self._made[name] = done
        while len(self._made) > MOST_CHANGES:
            del self._made[next(iter(self._made))]
        return name

    def get(self, name: str) -> Done | None:
        """Return a change, if it is known."""
        return self._made.get(name)

    async def undo(self, name: str) -> Done:
        """Take a change back, once.

        Raises:
            MissingPageError: It is not known, or was undone.
        """
        done = self._made.get(name)
        if done is None or done.undo is None:
            raise MissingPageError("There is nothing to undo here, or it was undone already.")
        message = await done.undo()
        self._made[name] = Done(done.message, done.to)
        return Done(message, done.after_undo or done.to)


@dataclass
class Site:
    """All that pages share."""

    engine: ZapomniEngine
    settings: Settings
    live: Live
    project: str = ""
    """The project of `--project`: what pages show unless they are asked for another one."""
    read_only: bool = False
    works: bool = False
    """Whether tasks, backups and missing vectors are done in the background, from the first change
    on: a page that only reads loads no model."""
    changes: Changes = field(default_factory=Changes)
    last_checks: tuple[datetime, list[CheckResult]] | None = None
    """When every check of `zapomni doctor` was run last from the page, and how they went."""

    def begin_work(self) -> None:
        """Begin background work, as the other doors that stay open do."""
        if self.works:
            self.engine.start_background_work()


class PageRequest:
    """What a page or a change was asked for.

    Attributes:
        site: What pages share.
        engine: The engine.
        path: The parts of the address, by name.
        form: The fields of a POST, by name.
    """

    def __init__(self, site: Site, request: Request) -> None:
        self.site = site
        self.engine = site.engine
        self.path: dict[str, str] = dict(request.path_params)
        visitor: Visitor = request.scope["visitor"]
        self.csrf = visitor.csrf
        self.form = visitor.form
        self.url = request.url
        self._query = request.query_params

    def get(self, name: str, default: str = "") -> str:
        """Return a parameter of the address."""
        return self._query.get(name, default).strip()

    def get_all(self, name: str) -> list[str]:
        """Return a parameter that may be given several times."""
        return [value.strip() for value in self._query.getlist(name) if value.strip()]

    def get_int(self, name: str, default: int, most: int = 1_000_000) -> int:
        """Return a parameter that is a number from 0 on."""
        given = self.get(name)
        if not given:
            return default
        if not (given.isascii() and given.isdigit() and int(given[:9]) <= most):
            raise ValidationError(f"{name} must be a number from 0 to {most}", "VAL_003")
        return int(given)

    def get_time(self, name: str) -> datetime | None:
        """Return a parameter or field that is a date, or how long ago: `2026-01-31`, `7d`."""
        given = self.get(name) or self.field(name).strip()
        if not given:
            return None
        try:
            return parse_when(given)
        except (ValueError, OverflowError) as error:
            raise ValidationError(
                f"{name}: use a date (2026-01-31), a time (2026-01-31T14:00) or how long ago "
                "(24h, 7d, 2w)",
                "VAL_004",
            ) from error

    @property
    def project(self) -> str:
        """The project asked for, as `SearchRequest` has it: `*` means all of them."""
        return self.get("project") or self.site.project or "*"

    def field(self, name: str, default: str = "") -> str:
        """Return a field of the form."""
        return self.form.get(name, [default])[0]

    def here(self, **changes: str | Sequence[str] | None) -> str:
        """Return the address of this page with some parameters changed; None or "" removes one."""
        kept = [
            (name, value)
            for name, value in self._query.multi_items()
            if name not in changes and name not in ("done", "page")
        ]
        for name, value in changes.items():
            values = [value] if isinstance(value, str) else value or []
            kept += [(name, one) for one in values if one]
        path = self.url.path
        return f"{path}?{urlencode(kept)}" if kept else path


def address(*parts: str | int, **query: str | int | None) -> str:
    """Return an address of the site: `address("m", memory_id)` is `/m/…`, all of it quoted."""
    path = "/" + "/".join(quote(str(part), safe="") for part in parts)
    given = {name: str(value) for name, value in query.items() if value not in (None, "")}
    return f"{path}?{urlencode(given)}" if given else path


def to_json(data: Any) -> str:
    """Return data as a JSON document; models and times are written as commands write them."""
    return json.dumps(data, ensure_ascii=True, default=_encode, indent=1)


def _encode(value: Any) -> Any:
    if hasattr(value, "model_dump"):
        return value.model_dump(mode="json")
    if hasattr(value, "_asdict"):
        return value._asdict()
    if hasattr(value, "__dataclass_fields__"):
        return {name: getattr(value, name) for name in value.__dataclass_fields__}
    return str(value)
