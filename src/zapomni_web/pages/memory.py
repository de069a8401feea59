"""A memory: what it says, where it comes from, what became of it, and how to correct it."""

from __future__ import annotations

import asyncio
import difflib
import re
from collections.abc import Sequence
from typing import Any, NamedTuple

from markupsafe import Markup

from zapomni_core.exceptions import NotFoundError, ZapomniError
from zapomni_core.interfaces import AddMemoryRequest, SearchRequest, UpdateMemoryRequest
from zapomni_core.shared.unseen import escape_controls
from zapomni_core.workflows.trash import TRASH_DAYS
from zapomni_db.code_models import CheckedCitation
from zapomni_db.graph_models import MemoryVersion
from zapomni_db.models import KINDS, MemoryRecord
from zapomni_db.recall_models import RecallFilter
from zapomni_web.drawing import draw_memory
from zapomni_web.page import Confirm, Done, PageRequest, PageView, address
from zapomni_web.text import render_markdown

__all__ = ["edit", "name_of", "show"]

# A page shows so much of a text at once: rendered, it stays below 80 KB.
PART = 30_000
NAME_CHARS = 80
QUERY_CHARS = 500
CANDIDATES = 10
SOURCE_LINES = 40
# What an edit changes, in the order of the form.
_TEXTS = ("text", "kind", "project", "source")


class Version(NamedTuple):
    """One version of a memory, and how it differs from the one before."""

    number: int
    version: MemoryVersion
    changes: list[tuple[str, str, str]]
    """Name, old value and new value of each field that changed."""
    diff: Markup
    is_current: bool
    can_restore: bool


class CitedCode(NamedTuple):
    """A citation with the code as it is now."""

    citation: CheckedCitation
    source: str
    first_line: int


def name_of(record: MemoryRecord) -> str:
    """Return what to call a memory: its first line, or the first sentence of a long one."""
    first = next((line.strip("#*->` ") for line in record.text.splitlines() if line.strip()), "")
    shown = " ".join(first.split()) or record.memory_id
    if len(shown) <= NAME_CHARS:
        return shown
    sentence = re.match(r".{12,}?[.!?;](?=\s)", shown[:NAME_CHARS])
    if sentence:
        return sentence[0].rstrip(";")
    return f"{shown[:NAME_CHARS].rpartition(' ')[0] or shown[:NAME_CHARS]}…"


async def show(asked: PageRequest) -> PageView:
    """Show a memory with all that is known about it."""
    engine = asked.engine
    record = await engine.get_memory(asked.path["id"])
    memory_id = record.memory_id
    citations = await engine.citations.get(memory_id)
    history = await engine.get_history(memory_id)
    own = [one for one in history if one.memory_id == memory_id]
    start = asked.get_int("from", 0, len(record.text))
    part = record.text[start : start + PART]
    end = start + len(part)
    raw = asked.get("view") == "raw"
    said = await engine.graph.read_memory(memory_id)
    recalls = await asyncio.to_thread(
        engine.recalls.list_recalls, RecallFilter(item=memory_id, limit=10)
    )
    chain = await _chain(asked, record, history)
    near = await engine.projects.name(
        list((await engine.storage.get_summaries(list(said.neighbors))).values())
    )
    return PageView(
        "memory.html",
        name_of(record),
        {
            **record.model_dump(mode="json"),
            "citations": [one.model_dump(mode="json") for one in citations],
        },
        ["zapomni", "get", memory_id],
        {
            "memory": record,
            "part": part,
            "rendered": None if raw else render_markdown(part),
            "raw": raw,
            "start": start,
            "end": end,
            "next_part": asked.here(**{"from": str(end)}) if end < len(record.text) else "",
            "previous_part": asked.here(**{"from": str(max(0, start - PART))}) if start else "",
            "rendered_href": asked.here(view=None),
            "raw_href": asked.here(view="raw"),
            "versions": _versions(own),
            "cited": [await _with_code(asked, one) for one in citations],
            "said": said,
            "recalls": recalls,
            "chain": chain,
            "drawing": draw_memory(memory_id, said, near),
            "neighbors": [(one, said.neighbors[one.memory_id]) for one in near],
            "cautions": record.cautions(),
        },
        live="memories",
    )


async def _chain(
    asked: PageRequest, record: MemoryRecord, history: Sequence[MemoryVersion]
) -> list[dict[str, Any]]:
    """Return the memories that this one replaced or that replaced it, oldest first."""
    latest = {one.memory_id: one for one in history}
    if len(latest) < 2:
        return []
    known = await asked.engine.storage.get_summaries(list(latest))
    chain = [
        {
            "id": memory_id,
            "name": (one.text.strip().splitlines() or [memory_id])[0][:NAME_CHARS],
            "at": known[memory_id].occurred_at,
            "is_this": memory_id == record.memory_id,
            "superseded_by": one.superseded_by,
        }
        for memory_id, one in latest.items()
        if memory_id in known
    ]
    return sorted(chain, key=lambda one: one["at"])


async def _with_code(asked: PageRequest, one: CheckedCitation) -> CitedCode:
    """Return a citation with the source of its symbol as it is in the file now."""
    if not one.symbol or one.status == "gone":
        return CitedCode(one, "", 0)
    from zapomni_core.modules.codebase import SymbolRequest

    place = one.now or f"{one.path}:{one.symbol}"
    try:
        found = await asked.engine.code.get_symbol(
            SymbolRequest(name=place, repository=one.repository)
        )
    except ZapomniError:
        return CitedCode(one, "", 0)
    if found.symbol is None:
        return CitedCode(one, "", 0)
    lines = found.source.splitlines()
    more = [f"… {len(lines) - SOURCE_LINES} more lines"] if len(lines) > SOURCE_LINES else []
    return CitedCode(one, "\n".join([*lines[:SOURCE_LINES], *more]), found.symbol.start_line)


# --- History ----------------------------------------------------------------------------


def _versions(own: Sequence[MemoryVersion]) -> list[Version]:
    """Return the versions, newest first, each with what it changed."""
    shown = []
    last = len(own) - 1
    for number, version in enumerate(own):
        before = own[number - 1] if number else None
        changes = []
        diff = Markup()
        if before is not None:
            changes = [
                (name, _shown(before.fields.get(name)), _shown(value))
                for name, value in version.fields.items()
                if value != before.fields.get(name)
            ]
            diff = _diff(before.text, version.text)
        is_current = number == last
        shown.append(
            Version(number + 1, version, changes, diff, is_current, can_restore=not is_current)
        )
    return shown[::-1]


def _shown(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(map(str, value)) or "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return str(value) if value not in (None, "", {}) else "none"


_LINES = {
    "+": Markup("<ins>{}</ins>"),
    "-": Markup("<del>{}</del>"),
    " ": Markup("<span>{}</span>"),
}


def _diff(old: str, new: str) -> Markup:
    """Return the lines that differ, with two lines around them."""
    if old == new:
        return Markup()
    lines = difflib.unified_diff(old[:PART].splitlines(), new[:PART].splitlines(), lineterm="", n=2)
    pieces = []
    for number, line in enumerate(lines):
        if number < 2:
            continue  # the names of two files
        if line.startswith("@@"):
            pieces.append(Markup('<span class="gap">⋯</span>'))
        else:
            pieces.append(_LINES[line[0]].format(escape_controls(line[1:]) or " "))
    return Markup("").join(pieces)


# --- Changes ----------------------------------------------------------------------------


async def edit(asked: PageRequest) -> PageView:
    """Show the form that changes a memory."""
    record = await asked.engine.get_memory(asked.path["id"])
    return PageView(
        "memory_edit.html",
        f"Edit: {name_of(record)}",
        record,
        ["zapomni", "update", record.memory_id, "--text", "-"],
        {"memory": record, "kinds": KINDS},
    )


async def save(asked: PageRequest) -> Done:
    """PageChange what the form says."""
    engine = asked.engine
    before = await engine.get_memory(asked.path["id"])
    given = {name: asked.field(name) for name in _TEXTS if name in asked.form}
    changes: dict[str, Any] = {
        name: value
        for name, value in given.items()
        # What cannot be seen is shown as escapes: who leaves them as they are changes nothing.
        if value.strip() != escape_controls(str(getattr(before, name))).strip()
    }
    if "project" in changes:
        changes["project"] = changes["project"].strip() or "*"
    if "tags" in asked.form:
        changes |= {"tags": tags} if (tags := _tags(asked)) != before.tags else {}
    if not changes:
        return Done("Nothing was changed.", address("m", before.memory_id))
    await engine.update_memory(UpdateMemoryRequest(memory_id=before.memory_id, **changes))
    return Done(
        f"Changed {', '.join(changes)} of “{name_of(before)}”.",
        address("m", before.memory_id),
        _back_to(asked, before, changes),
    )


def _back_to(asked: PageRequest, before: MemoryRecord, changes: dict[str, Any]) -> Any:
    """Return what gives a memory the values back that it had."""
    old = {
        name: (before.project_key or "*") if name == "project" else getattr(before, name)
        for name in changes
    }

    async def undo() -> str:
        await asked.engine.update_memory(UpdateMemoryRequest(memory_id=before.memory_id, **old))
        return f"“{name_of(before)}” is as it was."

    return undo


async def pin(asked: PageRequest) -> Done:
    """Pin a memory, or unpin it."""
    return await _switch(asked, "pinned", on=asked.field("on") == "1")


async def _switch(asked: PageRequest, name: str, *, on: bool) -> Done:
    before = await asked.engine.get_memory(asked.path["id"])
    changes = {name: on}
    await asked.engine.update_memory(UpdateMemoryRequest(memory_id=before.memory_id, **changes))
    words = {
        ("pinned", True): "Pinned",
        ("pinned", False): "Unpinned",
        ("trusted", True): "Trusted",
        ("trusted", False): "No longer trusted:",
    }
    return Done(
        f"{words[name, on]} “{name_of(before)}”.",
        address("m", before.memory_id),
        _back_to(asked, before, changes),
    )


async def ask_trust(asked: PageRequest) -> Confirm:
    """Ask before sessions are given a memory from elsewhere, or no longer."""
    record = await asked.engine.get_memory(asked.path["id"])
    if record.trusted:
        return Confirm(
            "Withdraw trust?",
            name_of(record),
            "It is still found by a search, but no session is given it unasked.",
            "Withdraw trust",
            address("m", record.memory_id),
            {"on": "0"},
        )
    return Confirm(
        "Trust this memory?",
        name_of(record),
        f"It came from {record.origin or 'an unknown origin'}. If you trust it, sessions may be "
        "given it unasked, as what you added yourself.",
        "Trust it",
        address("m", record.memory_id),
        {"on": "1"},
    )


async def trust(asked: PageRequest) -> Done:
    """Trust a memory, or withdraw that."""
    return await _switch(asked, "trusted", on=asked.field("on") == "1")


async def ask_forget(asked: PageRequest) -> Confirm:
    """Ask before a memory is forgotten."""
    record = await asked.engine.get_memory(asked.path["id"])
    return Confirm(
        "Forget this memory?",
        name_of(record),
        f"It goes to the trash, with its history and what was read in it. For {TRASH_DAYS} days it "
        "can be brought back as it was; then it is deleted.",
        "Forget it",
        address("m", record.memory_id),
        is_dangerous=True,
    )


async def forget(asked: PageRequest) -> Done:
    """Forget a memory."""
    record = await asked.engine.get_memory(asked.path["id"])
    batch = await asked.engine.trash.put([record.memory_id], "page")

    async def undo() -> str:
        await asked.engine.trash.undo(batch.batch)
        return f"“{name_of(record)}” is back."

    back = address("m", record.memory_id)
    return Done(f"Forgot “{name_of(record)}”.", address("search"), undo, back)


async def _version(asked: PageRequest, given: str) -> tuple[MemoryRecord, MemoryVersion]:
    record = await asked.engine.get_memory(asked.path["id"])
    history = await asked.engine.get_history(record.memory_id)
    own = [one for one in history if one.memory_id == record.memory_id]
    if not (given.isascii() and given.isdigit() and 1 <= int(given[:9]) <= len(own)):
        raise NotFoundError("The memory has no such version.")
    return record, own[int(given) - 1]


async def ask_restore(asked: PageRequest) -> Confirm:
    """Ask before a memory becomes again what it was."""
    number = asked.get("version")
    record, version = await _version(asked, number)
    return Confirm(
        "Restore this version?",
        name_of(record),
        f"Text and labels become what they were on {version.valid_from.astimezone():%Y-%m-%d}. "
        "What they are now stays in the history.",
        f"Restore version {number}",
        address("m", record.memory_id),
        {"version": number},
    )


async def restore(asked: PageRequest) -> Done:
    """Give a memory the text and labels of an earlier version."""
    before, version = await _version(asked, asked.field("version"))
    wanted = {"text": version.text, **version.fields}
    # The names of projects are shown; memories carry keys.
    if wanted.get("project") == before.project:
        wanted.pop("project")
    known = UpdateMemoryRequest.model_fields
    changes = {
        name: value
        for name, value in wanted.items()
        if name in known and value is not None and value != getattr(before, name)
    }
    if "project" in changes:
        changes["project"] = changes["project"] or "*"
    if not changes:
        return Done("It is so already.", address("m", before.memory_id))
    await asked.engine.update_memory(UpdateMemoryRequest(memory_id=before.memory_id, **changes))
    return Done(
        f"Restored version {asked.field('version')} of “{name_of(before)}”.",
        address("m", before.memory_id),
        _back_to(asked, before, changes),
    )


async def replace(asked: PageRequest) -> PageView:
    """Show newer memories, of which one may replace this one, the most alike first."""
    engine = asked.engine
    record = await engine.get_memory(asked.path["id"])
    query = asked.get("q") or record.text[:QUERY_CHARS]
    found = await engine.search_memory(
        SearchRequest(query=query, limit=50, within="memories", filters={"project": "*"})
    )
    # One that was stored before cannot replace it.
    newer = [
        one
        for one in found.results
        if one.created_at > record.created_at and one.memory_id != record.memory_id
    ][:CANDIDATES]
    return PageView(
        "memory_replace.html",
        "What replaces it?",
        newer,
        ["zapomni", "update", "NEWER_ID", "--supersedes", record.memory_id],
        {"memory": record, "name": name_of(record), "newer": newer, "words": asked.get("q")},
    )


async def ask_supersede(asked: PageRequest) -> Confirm:
    """Name both before one replaces the other."""
    record = await asked.engine.get_memory(asked.path["id"])
    by = await asked.engine.get_memory(asked.get("by"))
    return Confirm(
        "Replaced by a newer memory?",
        name_of(record),
        f"It is replaced by “{name_of(by)}” and no longer found, except in history and as of an "
        "earlier date.",
        "Mark as replaced",
        address("m", record.memory_id),
        {"by": by.memory_id},
    )


async def supersede(asked: PageRequest) -> Done:
    """Let a newer memory replace this one."""
    record = await asked.engine.get_memory(asked.path["id"])
    by = await asked.engine.get_memory(asked.field("by"))
    await asked.engine.update_memory(
        UpdateMemoryRequest(memory_id=by.memory_id, supersedes=[record.memory_id])
    )

    async def undo() -> str:
        await asked.engine.trash.unlink(record.memory_id, by.memory_id)
        return f"“{name_of(record)}” is current again."

    return Done(
        f"“{name_of(record)}” is replaced by “{name_of(by)}”.",
        address("m", record.memory_id),
        undo,
    )


# --- A new one --------------------------------------------------------------------------


async def new(asked: PageRequest) -> PageView:
    """Show the form for a new memory; `text`, `kind`, `project` and `source` fill it in.

    So does `observation`: its text, its project, and its session as the source.
    """
    given = {name: asked.get(name) for name in _TEXTS}
    if number := asked.get_int("observation", 0, 1 << 53):
        observations = asked.engine.observations
        for one in await observations.get([number]):
            name = (await observations.names()).get(one.project, one.project)
            given |= {
                "text": escape_controls(one.content),
                "project": name,
                "source": f"session {one.session_id}",
            }
    if not given["project"] and asked.project != "*":
        given["project"] = asked.project
    return PageView(
        "memory_new.html",
        "Add a memory",
        given,
        ["zapomni", "add", "-"],
        {"given": given, "kinds": KINDS},
    )


async def add(asked: PageRequest) -> Done:
    """Store the text of the form."""
    request = AddMemoryRequest(
        text=asked.field("text"),
        kind=asked.field("kind").strip() or "note",
        project=asked.field("project").strip() or "*",
        source=asked.field("source").strip(),
        tags=_tags(asked),
    )
    added = await asked.engine.add_memory(request)
    to = address("m", added.memory_id)
    if added.status != "created":
        return Done(added.notice or "It is stored already.", to)
    similar = "".join(f" It resembles “{one.text[:NAME_CHARS]}”." for one in added.similar[:1])

    async def undo() -> str:
        await asked.engine.trash.put([added.memory_id], "page")
        return "It is in the trash."

    return Done(f"Stored. {added.notice or ''}{similar}".strip(), to, undo, address("trash"))


def _tags(asked: PageRequest) -> list[str]:
    return [tag.strip() for tag in asked.field("tags").split(",") if tag.strip()]
