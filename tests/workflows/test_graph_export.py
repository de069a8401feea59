"""The graph for other programs: what is written is read back, whatever the names are."""

from __future__ import annotations

import json
import re
from urllib.parse import unquote
from xml.etree import ElementTree as ET

import pytest

from graph_builders import day, entity, learn, stated
from zapomni_cli.graph_export import FORMATS as OFFERED
from zapomni_core.engine import create_engine
from zapomni_core.exceptions import ValidationError
from zapomni_core.modules.graph import export as exporting
from zapomni_core.settings import load_settings

pytestmark = pytest.mark.anyio

# Every way a name has ever broken a file.
NASTY = [
    "plain",
    "O'Brien \\' } ) DETACH DELETE n //",
    '"quoted" <b>&amp;</b> ]]> <!-- -->',
    "line\nbreak\rand\ttab",
    "nul\0 bell\x07 \x1b[31m \x85 \ufffe",
    "пароль 密码 🧠 \U0010ffff \u2028 \u202e",
    "`back`ticks` $param {brace: 1}",
    "'; MATCH (n) DELETE n; //",
]
TYPE = "USES`]->(x) DELETE x //\n'\""


@pytest.fixture
async def engine(anyio_backend):
    async with await create_engine(load_settings(embedder="none")) as opened:
        yield opened


@pytest.fixture
async def nasty(engine):
    nodes = [entity(name, entity_id=f"id-{n}", description=name) for n, name in enumerate(NASTY)]
    links = [
        stated(name, nodes[n], TYPE, nodes[(n + 1) % len(nodes)], valid_from=day(2024, 1))
        for n, name in enumerate(NASTY)
    ]
    await engine.storage.store_entities(nodes, links)
    return engine


async def written(engine, name: str) -> str:
    return "".join([piece async for piece in engine.graph.export(name)])


def in_xml(text: str) -> str:
    """What of a text XML can carry."""
    kept = re.sub("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]", "\ufffd", text)
    return kept.replace("\r\n", "\n").replace("\r", "\n")


async def test_graphml_is_read_back(nasty):
    root = ET.fromstring(await written(nasty, "graphml"))
    space = "{http://graphml.graphdrawing.org/xmlns}"

    def values(element):
        return {d.get("key"): d.text or "" for d in element.findall(f"{space}data")}

    nodes = {node.get("id"): values(node) for node in root.iter(f"{space}node")}
    assert {n: v["node_name"] for n, v in nodes.items()} == {
        f"id-{n}": in_xml(name) for n, name in enumerate(NASTY)
    }
    edges = [(e.get("source"), e.get("target"), values(e)) for e in root.iter(f"{space}edge")]
    assert len(edges) == len(NASTY)
    source, target, fields = edges[0]
    assert (source, target, fields["edge_type"]) == ("id-0", "id-1", in_xml(TYPE))
    assert fields["edge_valid_from"].startswith("2024-01-01")
    declared = {key.get("id") for key in root.iter(f"{space}key")}
    assert declared >= {key for _, _, f in edges for key in f}


async def test_cytoscape_is_read_back(nasty):
    elements = json.loads(await written(nasty, "cytoscape"))["elements"]
    assert [node["data"]["name"] for node in elements["nodes"]] == NASTY
    edges = [edge["data"] for edge in elements["edges"]]
    assert {(e["source"], e["target"]) for e in edges} == {
        (f"id-{n}", f"id-{(n + 1) % len(NASTY)}") for n in range(len(NASTY))
    }
    assert {e["type"] for e in edges} == {TYPE}
    assert len({e["id"] for e in edges}) == len(edges)


async def test_jsonld_is_read_back(nasty):
    document = json.loads(await written(nasty, "jsonld"))
    things = [node for node in document["@graph"] if node["@type"] == "Thing"]
    links = [node for node in document["@graph"] if node["@type"] == "Relationship"]
    assert [thing["name"] for thing in things] == NASTY
    assert {link["source"] for link in links} == {thing["@id"] for thing in things}
    assert {link["relationshipType"] for link in links} == {TYPE}
    assert unquote(things[0]["@id"]) == "urn:zapomni:entity:id-0"


# A literal, a name in backticks, or anything else that stands outside of both.
_CYPHER = re.compile(r"'(?:[^'\\]|\\.)*'|`(?:[^`]|``)*`|[^'`]+")


async def test_every_cypher_statement_is_one_line_and_nothing_escapes_its_literal(nasty):
    text = await written(nasty, "cypher")
    lines = text.split("\n")
    assert lines.pop() == ""
    assert len(lines) == 2 * len(NASTY)
    names = []
    for line in lines:
        parts = _CYPHER.findall(line)
        assert "".join(parts) == line
        outside = "".join(part for part in parts if part[0] not in "'`")
        assert "DELETE" not in outside
        assert outside.count(";") == 1
        literals = [_value(part) for part in parts if part[0] == "'"]
        if line.startswith("MERGE"):
            names.append(literals[2])
        else:
            (kind,) = (part[1:-1] for part in parts if part[0] == "`")
            assert re.fullmatch(r"\w+", kind)
            assert TYPE in literals
    assert names == [name.replace("\0", "\ufffd") for name in NASTY]


def _value(literal: str) -> str:
    escapes = {"n": "\n", "r": "\r", "t": "\t"}
    return re.sub(r"\\(.)", lambda m: escapes.get(m[1], m[1]), literal[1:-1])


async def test_pages_follow_each_other_without_gaps(nasty, monkeypatch):
    whole = {name: await written(nasty, name) for name in exporting.FORMATS}
    monkeypatch.setattr(exporting, "PAGE", 3)
    for name, text in whole.items():
        assert await written(nasty, name) == text


async def test_an_empty_graph_is_a_valid_file(engine):
    assert len(ET.fromstring(await written(engine, "graphml"))) > 0
    assert json.loads(await written(engine, "cytoscape"))["elements"] == {"nodes": [], "edges": []}
    assert json.loads(await written(engine, "jsonld"))["@graph"] == []
    assert await written(engine, "cypher") == ""


async def test_merged_and_ended_things_are_not_exported(engine):
    nodes = [entity("Redis"), entity("Valkey"), entity("Shop")]
    ended = stated("was", nodes[2], "USES", nodes[0], valid_to=day(2020, 1))
    await engine.storage.store_entities(nodes, [ended])
    await engine.graph.merge("Valkey", "Redis")

    elements = json.loads(await written(engine, "cytoscape"))["elements"]

    assert [n["data"]["name"] for n in elements["nodes"]] == ["Redis", "Shop"]
    assert elements["nodes"][0]["data"]["aliases"] == ["Valkey"]
    assert elements["edges"] == []


async def test_a_relationship_leads_to_the_memory_that_states_it(engine):
    memory_id = await learn(
        engine.storage, "Shop uses Redis", ["Shop", "Redis"], [("Shop", "USES", "Redis")]
    )
    *_, link = json.loads(await written(engine, "jsonld"))["@graph"]
    assert (link["memory"], link["evidence"]) == (
        f"urn:zapomni:memory:{memory_id}",
        "Shop uses Redis",
    )
    assert f"memory_id: '{memory_id}'" in await written(engine, "cypher")


async def test_an_unknown_format_is_refused(engine):
    with pytest.raises(ValidationError, match="graphml"):
        await written(engine, "dot")
    assert list(exporting.FORMATS) == OFFERED
