"""Drawing a part of the graph: where each entity is, which shape it has and whose name fits."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from zapomni_core.modules.graph import (
    FACT_TYPES,
    MemoryReading,
    ViewedEntity,
    ViewedRelationship,
)
from zapomni_db.graph_models import Evidence
from zapomni_db.models import MemorySummary
from zapomni_web.page import address

__all__ = [
    "SHAPES",
    "Drawing",
    "DrawnEdge",
    "DrawnNode",
    "can_draw",
    "draw",
    "draw_memory",
    "look_of",
]

# These say no more than that two are named together.
FAINT_TYPES = {"RELATED_TO", "MENTIONS"}
# Each type has its shape and its color, so that neither is needed to tell it from the others.
LOOKS = {
    "PERSON": ("circle", 1),
    "ORG": ("square", 2),
    "PLACE": ("drop", 3),
    "TECHNOLOGY": ("hexagon", 4),
    "PACKAGE": ("diamond", 6),
    "VERSION": ("ring", 6),
    "FILE": ("page", 7),
    "CODE": ("diamond", 4),
    "COMMAND": ("triangle", 5),
    "ERROR": ("cross", 8),
    "DATE": ("bar", 7),
    "REFERENCE": ("flag", 2),
    "URL": ("pentagon", 1),
    "CONCEPT": ("star", 3),
    "MEMORY": ("note", 2),
    "DECISION": ("flag", 5),
    "COMPONENT": ("hexagon", 5),
    "SERVICE": ("hexagon", 3),
    "SELF": ("circle", 2),
}
OTHER = ("dot", 0)
# In a box from -10 to 10.
SHAPES = {
    "circle": "M-9 0A9 9 0 1 1 9 0A9 9 0 1 1-9 0Z",
    "dot": "M-6 0A6 6 0 1 1 6 0A6 6 0 1 1-6 0Z",
    "ring": "M-9 0A9 9 0 1 1 9 0A9 9 0 1 1-9 0ZM-4 0A4 4 0 1 0 4 0A4 4 0 1 0-4 0Z",
    "square": "M-8-8H8V8H-8Z",
    "bar": "M-10-5H10V5H-10Z",
    "diamond": "M0-10L10 0L0 10L-10 0Z",
    "hexagon": "M-10 0L-5-8.7H5L10 0L5 8.7H-5Z",
    "pentagon": "M0-10L9.5-3.1L5.9 8.1H-5.9L-9.5-3.1Z",
    "triangle": "M0-10L9.5 8H-9.5Z",
    "drop": "M0 10L-7-2A7 7 0 1 1 7-2Z",
    "page": "M-7-9H3L8-4V9H-7Z",
    "cross": "M-9-5L-5-9L0-4L5-9L9-5L4 0L9 5L5 9L0 4L-5 9L-9 5L-4 0Z",
    "star": "M0-10L2.6-3.4L9.5-3.1L4.2 1.3L5.9 8.1L0 4.3L-5.9 8.1L-4.2 1.3L-9.5-3.1L-2.6-3.4Z",
    "flag": "M-8-9H9L4-2L9 5H-8Z",
    "note": "M-9-8H9V3L4 8H-9Z",
}
# The same graph is drawn the same every time.
SEED, ROUNDS = 7, 400
# How far nodes push each other away, and how little being named together draws them to each other.
PUSH, FAINT = 2.2, 0.2
SPACE, MARGIN = 92.0, 60.0
# Of a letter at the size of names, on average.
LETTER, LINE = 7.0, 17.0
NAME_CHARS, SENTENCE_CHARS = 26, 180
# Around a memory.
MOST_NEAR = 60
# Sentences are in the drawing for so many pairs; the table has all of them.
WITH_SENTENCE = 160


_Box = tuple[float, float, float, float]
"""Left, top, right and bottom."""


class DrawnNode(NamedTuple):
    """An entity at its place."""

    entity: ViewedEntity
    href: str
    x: int
    y: int
    size: float
    shape: str
    color: int
    name: str
    name_x: int
    """Where its name begins, or ends if it is on the left."""
    is_named: bool
    """Whether its name overlaps no other: those of the others are shown when one comes near."""
    is_center: bool


class DrawnEdge(NamedTuple):
    """A line between two entities, for all their relationships."""

    source: int
    target: int
    x1: int
    y1: int
    x2: int
    y2: int
    title: str
    sentence: str
    is_typed: bool


class Drawing(NamedTuple):
    """All of it, in a box from 0 to width and height."""

    width: int
    height: int
    nodes: list[DrawnNode]
    edges: list[DrawnEdge]
    shapes: dict[str, str]
    """The shapes that it has, and their outlines."""


def look_of(kind: str) -> tuple[str, int]:
    """Return the shape and the number of the color of a type."""
    return LOOKS.get(kind, OTHER)


def can_draw() -> bool:
    """Return whether what places the nodes is installed."""
    import importlib.util

    return importlib.util.find_spec("rustworkx") is not None


def draw(
    entities: Sequence[ViewedEntity],
    relationships: Iterable[ViewedRelationship],
    center: str = "",
    hrefs: Mapping[str, str] | None = None,
) -> Drawing:
    """Place entities so that related ones are close to each other.

    A node leads to what is around its entity, or to where `hrefs` says by its id.
    """
    numbers = {one.entity_id: number for number, one in enumerate(entities)}
    pairs: dict[tuple[int, int], list[ViewedRelationship]] = {}
    pulls: dict[tuple[int, int], float] = {}
    for one in relationships:
        source, target = numbers[one.source_id], numbers[one.target_id]
        pair = min(source, target), max(source, target)
        pairs.setdefault(pair, []).append(one)
        pulls[pair] = max(pulls.get(pair, 0.0), FAINT if one.type in FAINT_TYPES else 1.0)
    places, width, height = _place(len(entities), pulls)
    nodes = _name(entities, places, center, hrefs or {})
    edges: list[DrawnEdge] = []
    for (source, target), stated in pairs.items():
        said = [one for one in stated if one.evidence] if len(edges) < WITH_SENTENCE else []
        edges.append(
            DrawnEdge(
                source,
                target,
                *places[source],
                *places[target],
                title="; ".join(
                    f"{one.source} {one.type.replace('_', ' ').lower()} {one.target}"
                    for one in stated[:3]
                ),
                sentence=_cut(said[0].evidence[0].text, SENTENCE_CHARS) if said else "",
                is_typed=any(one.type not in FAINT_TYPES for one in stated),
            )
        )
    shapes = {node.shape: SHAPES[node.shape] for node in nodes}
    # Faint lines first: those that say something are drawn over them.
    return Drawing(width, height, nodes, sorted(edges, key=lambda one: one.is_typed), shapes)


def draw_memory(
    memory_id: str, said: MemoryReading, near: Sequence[MemorySummary]
) -> Drawing | None:
    """Draw what a memory mentions, how that is related, and other memories about the same.

    None if that says no more than a list of names, or cannot be drawn here.
    """
    if not (said.statements or near) or not can_draw():
        return None
    named = [one for one in said.entities if one.type not in FACT_TYPES]
    entities = named[: MOST_NEAR - 1 - len(near)]
    ids = {one.name: one.entity_id for one in entities}
    known = set(ids.values())
    memories = {memory_id: "this memory", **{one.memory_id: one.preview for one in near}}
    shared = {memory_id: [one.name for one in entities], **said.neighbors}
    lines = [
        _line(one, memories[one], "MENTIONS", ids[mentioned], mentioned)
        for one in memories
        for mentioned in shared.get(one, ())
        if mentioned in ids
    ]
    lines += [
        _line(one.source_id, one.source, one.type, one.target_id, one.target, one.text)
        for one in said.statements
        if one.source_id in known and one.target_id in known
    ]
    degrees = Counter(end for line in lines for end in (line.source_id, line.target_id))
    nodes = [(one, text, "MEMORY", 0) for one, text in memories.items()]
    nodes += [(one.entity_id, one.name, one.type, one.mentions) for one in entities]
    return draw(
        [
            ViewedEntity(
                entity_id=one,
                name=text,
                type=kind,
                mentions=mentions,
                degree=degrees[one],
                distance=0,
            )
            for one, text, kind, mentions in nodes
        ],
        lines,
        memory_id,
        {one: address("m", one) for one in memories},
    )


def _line(
    source_id: str, source: str, kind: str, target_id: str, target: str, text: str = ""
) -> ViewedRelationship:
    said = Evidence(
        text=text,
        memory_id=None,
        chunk_id=None,
        strength=1.0,
        source="",
        said_at=None,
        valid_from=None,
        valid_to=None,
    )
    return ViewedRelationship(
        source_id=source_id,
        source=_cut(source, NAME_CHARS),
        type=kind,
        target_id=target_id,
        target=target,
        strength=1.0,
        support=1,
        evidence=[said] if text else [],
    )


def _place(
    count: int, pulls: Mapping[tuple[int, int], float]
) -> tuple[list[tuple[int, int]], int, int]:
    """Return the place of each node, and the size of the whole: groups next to each other."""
    import rustworkx

    graph = rustworkx.PyGraph(multigraph=False)
    graph.add_nodes_from(range(count))
    graph.add_edges_from([(*pair, pull) for pair, pull in pulls.items()])
    groups: list[list[int]] = sorted(
        (sorted(one) for one in rustworkx.connected_components(graph)), key=_by_size
    )
    boxes = []
    for group in groups:
        part = graph.subgraph(group)
        apart = PUSH / math.sqrt(len(group))
        found = rustworkx.spring_layout(part, k=apart, num_iter=ROUNDS, weight_fn=float, seed=SEED)
        side = SPACE * math.sqrt(len(group) - 1) if len(group) > 1 else 0.0
        boxes.append(_fit([(x, y) for x, y in (found[i] for i in range(len(group)))], side))
    row = max([math.sqrt(sum((w + 150) * (h + 60) for _, w, h in boxes)) * 1.45, 560.0])
    places = [(0, 0)] * count
    left, top, tallest, widest = 0.0, 0.0, 0.0, 0.0
    for group, (points, width, height) in zip(groups, boxes, strict=True):
        if left and left + width > row:
            left, top, tallest = 0.0, top + tallest + MARGIN, 0.0
        for number, (x, y) in zip(group, points, strict=True):
            places[number] = (round(left + x + MARGIN), round(top + y + MARGIN / 1.5))
        left += width + MARGIN * 2.4
        tallest = max(tallest, height)
        widest = max(widest, left - MARGIN * 2.4)
    return places, round(widest + MARGIN * 2.6), round(top + tallest + MARGIN * 1.4)


def _by_size(group: Sequence[int]) -> tuple[int, int]:
    return -len(group), group[0]


def _fit(
    points: Sequence[tuple[float, float]], side: float
) -> tuple[list[tuple[float, float]], float, float]:
    """Scale points into a box that is half as wide again as it is high."""
    xs, ys = [x for x, _ in points], [y for _, y in points]
    wide, high = max(xs) - min(xs), max(ys) - min(ys)
    if high > wide:
        xs, ys, wide, high = ys, xs, high, wide
    across = side * 1.35 / wide if wide else 0.0
    down = side / high if high > wide / 8 else across
    scaled = [((x - min(xs)) * across, (y - min(ys)) * down) for x, y in zip(xs, ys, strict=True)]
    return scaled, wide * across, high * down


def _name(
    entities: Sequence[ViewedEntity],
    places: Sequence[tuple[int, int]],
    center: str,
    hrefs: Mapping[str, str],
) -> list[DrawnNode]:
    """Give nodes their size, and names to those that have room, the best connected first."""
    most = max((one.degree for one in entities), default=1) or 1
    sizes = [
        1.7 if one.entity_id == center else round(0.75 + 0.7 * math.sqrt(one.degree / most), 2)
        for one in entities
    ]
    taken = [
        (x - 8 * size, y - 8 * size, x + 8 * size, y + 8 * size)
        for (x, y), size in zip(places, sizes, strict=True)
    ]
    nodes: dict[int, DrawnNode] = {}
    order = sorted(
        range(len(entities)),
        key=lambda i: (entities[i].entity_id != center, -entities[i].degree, i),
    )
    for number in order:
        entity, (x, y), size = entities[number], places[number], sizes[number]
        is_center = entity.entity_id == center
        name = _cut(entity.name, NAME_CHARS)
        long, away = LETTER * len(name), 10 * size + 3
        # On the right, else on the left.
        name_x, is_named = round(away), False
        for begin, at in ((x + away, away), (x - away - long, -away)):
            box = (begin, y - LINE / 2, begin + long, y + LINE / 2)
            if begin > 0 and not any(_overlap(box, other) for other in taken):
                taken.append(box)
                name_x, is_named = round(at), True
                break
        shape, color = look_of(entity.type)
        href = hrefs.get(entity.entity_id) or address("graph", entity=entity.entity_id)
        nodes[number] = DrawnNode(
            entity, href, x, y, size, shape, color, name, name_x, is_named or is_center, is_center
        )
    return [nodes[number] for number in range(len(entities))]


def _overlap(one: _Box, other: _Box) -> bool:
    return one[0] < other[2] and other[0] < one[2] and one[1] < other[3] and other[1] < one[3]


def _cut(text: str, limit: int) -> str:
    shown = " ".join(text.split())
    return shown if len(shown) <= limit else f"{shown[: limit - 1].rstrip()}…"
