"""Where the entities of a drawing are: the same every time, in the box, names apart."""

from __future__ import annotations

import random

from zapomni_core.modules.graph import ViewedEntity, ViewedRelationship
from zapomni_web.drawing import LOOKS, SHAPES, draw, look_of


def entity(number: int) -> ViewedEntity:
    return ViewedEntity(
        entity_id=str(number),
        name=f"Entity {number}",
        type="PERSON",
        mentions=1,
        degree=1 + number % 7,
        distance=0,
    )


def relationship(source: int, target: int, kind: str = "USES") -> ViewedRelationship:
    return ViewedRelationship(
        source_id=str(source),
        source=f"Entity {source}",
        type=kind,
        target_id=str(target),
        target=f"Entity {target}",
        strength=1.0,
        support=1,
        evidence=[],
    )


def graph(count: int):
    chance = random.Random(5)
    lines = [relationship(i, chance.randrange(i)) for i in range(1, count - 20)]
    return [entity(i) for i in range(count)], lines


def test_three_hundred_entities_are_in_the_box_and_no_two_names_overlap():
    drawing = draw(*graph(300))

    assert len({(one.x, one.y) for one in drawing.nodes}) > 290
    assert all(0 < one.x < drawing.width and 0 < one.y < drawing.height for one in drawing.nodes)
    named = [one for one in drawing.nodes if one.is_named]
    assert len(named) > 100
    for one in named:
        same_line = [b for b in named if abs(b.y - one.y) < 12 and b.name_x > 0 < one.name_x]
        assert not any(0 < b.x - one.x < 40 for b in same_line)


def test_the_same_graph_is_drawn_the_same():
    assert draw(*graph(80)) == draw(*graph(80))


def test_relationships_of_one_pair_are_one_line_and_typed_ones_are_drawn_last():
    both = [relationship(0, 1), relationship(1, 0, "RELATED_TO"), relationship(1, 2, "RELATED_TO")]

    drawing = draw([entity(i) for i in range(3)], both, center="1")

    assert [one.is_typed for one in drawing.edges] == [False, True]
    assert drawing.edges[1].title == "Entity 0 uses Entity 1; Entity 1 related to Entity 0"
    assert [one.is_center for one in drawing.nodes] == [False, True, False]


def test_one_entity_alone_and_none_are_drawn():
    assert len(draw([entity(0)], []).nodes) == 1
    assert draw([], []).nodes == []


def test_every_type_differs_from_the_others_by_its_shape_and_color():
    assert len(set(LOOKS.values())) == len(LOOKS)
    assert {shape for shape, _ in LOOKS.values()} <= SHAPES.keys()
    assert look_of("SOMETHING_NEW")[0] in SHAPES
