"""The graph: what memories say about whom and what, drawn and as a table, and how to correct it."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import NamedTuple

from zapomni_core.exceptions import EntityNotFoundError, ValidationError
from zapomni_core.interfaces import ListRequest
from zapomni_core.modules.graph import (
    BuildGraphRequest,
    GraphViewRequest,
    GraphViewResponse,
    PathRequest,
    PathResponse,
    ViewedEntity,
)
from zapomni_db.graph_models import Entity, EntityQuery
from zapomni_web.drawing import SHAPES, can_draw, draw, look_of
from zapomni_web.page import Confirm, Done, PageRequest, PageView, address

__all__ = ["show"]

FIRST_LIMIT, MORE, MOST = 100, 100, 300
ROWS = 60
DEPTHS = (1, 2, 3)
DAY_SECONDS = 86_400


class TypeOfEntity(NamedTuple):
    """A line of the legend; its link shows this type alone, or all again."""

    name: str
    shape: str
    color: int
    entities: int
    href: str
    is_chosen: bool


async def show(asked: PageRequest) -> PageView:
    """Show what is around an entity, or the best connected part of the graph."""
    depth = asked.get_int("depth", 1, 3)
    limit = asked.get_int("limit", FIRST_LIMIT, MOST)
    request = GraphViewRequest(
        entity=asked.get("entity"),
        depth=max(depth, 1),
        opened=asked.get_all("open")[:MOST],
        types=asked.get_all("type"),
        as_of=_end_of_day(asked.get_time("as_of")),
        limit=max(limit, 1),
    )
    near: list[str] = []
    try:
        view = await asked.engine.graph.get_view(request)
    except EntityNotFoundError as error:
        # What is not in the graph may be there at another time.
        view = GraphViewResponse(notice="No entity has this name or id, or not at that time.")
        near = error.near
    as_table = asked.get("view") == "table" or not can_draw()
    offset = asked.get_int("offset", 0)
    center = view.entity.entity_id if view.entity else ""
    drawn = None if as_table else draw(view.entities, view.relationships, center)
    title = view.entity.name if view.entity else "Graph"
    return PageView(
        "graph.html",
        title,
        view,
        _command(request, view.entity),
        {
            "asked": request,
            "as_of": asked.get("as_of"),
            "drawing": drawn,
            "can_draw": can_draw(),
            "is_empty": not view.entities
            and not view.candidates
            and not (request.entity or request.types or request.as_of),
            "near": near,
            "depths": DEPTHS,
            "legend": _legend(asked, view.entities),
            "shapes": SHAPES,
            "rows": view.relationships[offset : offset + ROWS],
            "entity_rows": view.entities[offset : offset + ROWS],
            "words": _words(view, offset),
            "previous_rows": asked.here(offset=str(max(0, offset - ROWS))) if offset else "",
            "next_rows": asked.here(offset=str(offset + ROWS))
            if len(view.relationships) > offset + ROWS
            else "",
            "drawing_href": asked.here(view=None, offset=None),
            "table_href": asked.here(view="table", offset=None),
            "more_href": asked.here(limit=str(min(MOST, request.limit + MORE)))
            if view.more and request.limit < MOST
            else "",
            "all_href": asked.here(entity=None, open=None, depth=None),
            "now_href": asked.here(as_of=None),
            "alike": await _alike(asked, view.entity),
            "days": await _days(asked, request.as_of),
        },
        live="memories tasks",
    )


async def path(asked: PageRequest) -> PageView:
    """Show how two entities are connected, or ask which two."""
    request = PathRequest(
        source=asked.get("source"),
        target=asked.get("target"),
        as_of=_end_of_day(asked.get_time("as_of")),
    )
    near: list[str] = []
    found = PathResponse()
    if request.source and request.target:
        try:
            found = await asked.engine.graph.find_path(request)
        except EntityNotFoundError as error:
            found = PathResponse(notice="One of these names or ids is not in the graph.")
            near = error.near
    names = [
        one.name if one else given
        for one, given in ((found.source, request.source), (found.target, request.target))
    ]
    command = ["zapomni", "graph", "path", *(["--as-of", asked.get("as_of")] * bool(request.as_of))]
    return PageView(
        "graph_path.html",
        " and ".join(filter(None, names)) if found.steps else "A connection",
        found,
        [*command, "--", request.source, request.target] if all(names) else (),
        {"names": names, "near": near, "memories": {one.memory_id: one for one in found.memories}},
        live="memories",
    )


def _end_of_day(moment: datetime | None) -> datetime | None:
    """Return the end of a day that was given without a time: what was said on it counts."""
    if moment is None or (moment.hour, moment.minute, moment.second) != (0, 0, 0):
        return moment
    return moment.replace(hour=23, minute=59, second=59)


def _command(request: GraphViewRequest, entity: Entity | None) -> list[str]:
    command = ["zapomni", "graph", "relationships", "--limit", str(request.limit)]
    if request.depth != 1:
        command += ["--depth", str(request.depth)]
    for one in request.types:
        command += ["--type", one]
    for one in request.opened:
        command += ["--open", one]
    if request.as_of:
        command += ["--as-of", f"{request.as_of:%Y-%m-%dT%H:%M:%S}"]
    name = entity.entity_id if entity else request.entity
    return [*command, "--", name] if name else command


def _words(view: GraphViewResponse, offset: int) -> str:
    if not view.relationships:
        return ""
    last = min(offset + ROWS, len(view.relationships))
    return f"{offset + 1} to {last} of {len(view.relationships)}"


def _legend(asked: PageRequest, entities: list[ViewedEntity]) -> list[TypeOfEntity]:
    counts: dict[str, int] = dict.fromkeys(asked.get_all("type"), 0)
    for one in entities:
        counts[one.type] = counts.get(one.type, 0) + 1
    chosen = set(asked.get_all("type"))
    return [
        TypeOfEntity(
            name,
            *look_of(name),
            count,
            asked.here(type=sorted(chosen ^ {name})),
            name in chosen,
        )
        for name, count in sorted(counts.items(), key=lambda pair: (-pair[1], pair[0]))
    ]


async def _alike(asked: PageRequest, entity: Entity | None) -> list[Entity]:
    """Return entities that may be the same as this one, by their names."""
    if entity is None or asked.site.read_only:
        return []
    words = [entity.name, *sorted(entity.name.split(), key=len, reverse=True)[:2]]
    found: dict[str, Entity] = {}
    for text in dict.fromkeys(words):
        query = EntityQuery(text=text, types=[entity.type], limit=6)
        found |= {one.entity_id: one for one in await asked.engine.graph.find_entities(query)}
    return [one for i, one in found.items() if i != entity.entity_id][:6]


async def _days(asked: PageRequest, as_of: datetime | None) -> dict[str, int]:
    """Return the range of the slider in days since 1970: from the oldest memory until today."""
    today = int(datetime.now(UTC).timestamp() // DAY_SECONDS)
    total = (await asked.engine.list_memories(ListRequest(limit=1))).total
    oldest = today
    if total:
        page = await asked.engine.list_memories(ListRequest(limit=1, offset=total - 1))
        for one in page.items:
            oldest = int(one.occurred_at.timestamp() // DAY_SECONDS)
    now = today if as_of is None else int(as_of.timestamp() // DAY_SECONDS)
    return {"first": min(oldest, now, today - 1), "last": today, "now": min(now, today)}


# --- Changes ----------------------------------------------------------------------------


async def build(asked: PageRequest) -> Done:
    """Begin to read what was not read yet."""
    await asked.engine.graph.build(BuildGraphRequest())
    return Done(
        "Memories are being read into the graph. This page says when something has changed.",
        address("graph"),
    )


async def _entity(asked: PageRequest, name: str) -> Entity:
    view = await asked.engine.graph.get_view(GraphViewRequest(entity=name, limit=1))
    if view.entity is None:
        ids = ", ".join(f"{one.entity_id} ({one.type})" for one in view.candidates)
        raise ValidationError(f"Several entities have this name; give an id: {ids}", "VAL_004")
    return view.entity


async def ask_merge(asked: PageRequest) -> Confirm:
    """Ask before two entities become one."""
    source, into = [await _entity(asked, asked.get(name)) for name in ("source", "into")]
    return Confirm(
        "Merge these entities?",
        f"{source.name} is {into.name}",
        "Whatever was read about the first counts as said about the second, also in memories to "
        "come. Nothing is lost: they can be parted again at any time.",
        f"Merge {source.name} into {into.name}",
        address("graph", entity=source.entity_id),
        {"source": source.entity_id, "into": into.entity_id},
    )


async def merge(asked: PageRequest) -> Done:
    """Let two entities be one."""
    made = await asked.engine.graph.merge(asked.field("source"), asked.field("into"))

    async def undo() -> str:
        await asked.engine.graph.undo(made.source_id)
        return f"{made.source} and {made.target} are two again."

    return Done(
        f"{made.source} is {made.target} from now on.",
        address("graph", entity=made.target_id),
        undo,
        address("graph", entity=made.source_id),
    )


async def ask_part(asked: PageRequest) -> Confirm:
    """Ask before a merge is undone."""
    view = await asked.engine.graph.get_view(GraphViewRequest(entity=asked.get("entity"), limit=1))
    part = asked.get("part")
    if view.entity is None or part not in view.merged:
        raise ValidationError("This was not merged into that entity.", "VAL_004")
    return Confirm(
        "Part these entities?",
        f"{view.merged[part]} is not {view.entity.name}",
        "What was read about each counts for itself again, and rules do not merge them once more.",
        f"Part {view.merged[part]}",
        address("graph", entity=view.entity.entity_id),
        {"part": part},
    )


async def part(asked: PageRequest) -> Done:
    """Undo a merge."""
    made = await asked.engine.graph.undo(asked.field("part"))

    async def undo() -> str:
        await asked.engine.graph.merge(made.source_id, made.target_id)
        return f"{made.source} is {made.target} again."

    to = address("graph", entity=made.target_id)
    return Done(f"{made.source} and {made.target} are two.", to, undo)
