"""The graph as it holds now, as text for other programs: GraphML, Cytoscape, Cypher, JSON-LD.

Written piece by piece: a graph of any size needs the memory of one page. What came from memories is
escaped as each format asks for; none of it can become markup, a key or a statement.
"""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple
from xml.sax.saxutils import escape, quoteattr

from zapomni_core.exceptions import ValidationError
from zapomni_core.modules.graph.reading import FACT_TYPES, RELATED
from zapomni_core.modules.graph.schemas import (
    GraphPicture,
    GraphViewResponse,
    ViewedRelationship,
)
from zapomni_db.graph_models import Edge, EdgeKey, EdgeQuery, Entity
from zapomni_db.interfaces import StorageProvider

__all__ = ["FORMATS", "export_graph", "list_graph"]


PAGE = 500
ALL_EDGES = 10_000_000
# A page of more rows opens slowly.
MOST_ENTITIES, MOST_RELATIONSHIPS = 3000, 5000


class _Link(NamedTuple):
    """A relationship with its best sentence."""

    source: str
    target: str
    fields: dict[str, Any]


@dataclass(frozen=True)
class _Format:
    """How a graph is written: the text around and between nodes and links, and of each of them."""

    opening: str
    node: Callable[[dict[str, Any]], str]
    between: str
    link: Callable[[_Link], str]
    closing: str
    separator: str = ""
    """What parts two nodes or two links."""


async def export_graph(
    storage: StorageProvider, name: str, hidden: Sequence[str]
) -> AsyncIterator[str]:
    """Yield the text, piece by piece, without what memories of hidden projects say.

    Raises:
        ValidationError: There is no such format.
    """
    if name not in FORMATS:
        raise ValidationError(f"There is no such format; there are {', '.join(FORMATS)}", "VAL_003")
    written = FORMATS[name]
    yield written.opening
    separator = ""
    async for page in _pages(storage, hidden):
        for entity in page:
            fields = entity.model_dump(
                include={"name", "type", "description", "confidence", "mentions"}
            )
            yield separator + written.node(
                {"id": entity.entity_id, **fields, "aliases": entity.aliases}
            )
            separator = written.separator
    yield written.between
    if written.between:
        separator = ""
    async for page in _pages(storage, hidden):
        for link in await _links_from(storage, page, hidden):
            yield separator + written.link(link)
            separator = written.separator
    yield written.closing


async def _pages(storage: StorageProvider, hidden: Sequence[str]) -> AsyncIterator[list[Entity]]:
    after: str | None = None
    while page := await storage.list_entities(after, PAGE, hidden):
        yield page
        after = page[-1].entity_id


async def _links_from(
    storage: StorageProvider, page: Sequence[Entity], hidden: Sequence[str]
) -> list[_Link]:
    ids = {entity.entity_id for entity in page}
    query = EdgeQuery(limit=ALL_EDGES, hidden=list(hidden), nodes=True)
    edges = await storage.get_edges(sorted(ids), query)
    own = sorted(
        (edge for edge in edges if edge.key.source_id in ids),
        key=lambda one: (one.key.type == RELATED, one.key),
    )
    sentences = await storage.get_evidence([edge.key for edge in own], None, 1, hidden)
    links = []
    for edge in own:
        fields: dict[str, Any] = {
            "type": edge.key.type,
            "strength": round(edge.strength, 4),
            "support": edge.support,
        }
        for best in sentences[edge.key]:
            fields |= {
                "evidence": best.text,
                "memory_id": best.memory_id,
                "valid_from": _day(best.valid_from),
                "valid_to": _day(best.valid_to),
            }
        given = {name: value for name, value in fields.items() if value is not None}
        links.append(_Link(edge.key.source_id, edge.key.target_id, given))
    return links


async def list_graph(
    storage: StorageProvider, drawn: GraphViewResponse, hidden: Sequence[str]
) -> GraphPicture:
    """Return the entities and relationships that a reader looks for, as far as a page has room.

    Dates, addresses and the like are no entities of their own there.
    """
    entities = [
        entity
        async for page in _pages(storage, hidden)
        for entity in page
        if entity.type not in FACT_TYPES
    ]
    names = {entity.entity_id: entity.name for entity in entities}
    found: dict[EdgeKey, Edge] = {}
    for start in range(0, len(entities), PAGE):
        ids = [entity.entity_id for entity in entities[start : start + PAGE]]
        query = EdgeQuery(limit=ALL_EDGES, hidden=list(hidden))
        edges = await storage.get_edges(ids, query)
        found |= {edge.key: edge for edge in edges if names.keys() >= set(edge.key[:2])}
    order = sorted(found.values(), key=lambda one: (one.key.type == RELATED, -one.weight, one.key))
    shown = order[:MOST_RELATIONSHIPS]
    named = sorted(entities, key=lambda one: (-one.mentions, one.name, one.entity_id))
    # What a relationship leads to is on the page.
    ends = {end for edge in shown for end in edge.key[:2]}
    ends |= {one.entity_id for one in drawn.entities}
    kept = [one for one in named if one.entity_id in ends]
    others = [one for one in named if one.entity_id not in ends]
    kept += others[: max(0, MOST_ENTITIES - len(kept))]
    relationships = []
    for start in range(0, len(shown), PAGE):
        keys = [edge.key for edge in shown[start : start + PAGE]]
        sentences = await storage.get_evidence(keys, None, 1, hidden)
        relationships += [
            ViewedRelationship(
                source_id=edge.key.source_id,
                source=names[edge.key.source_id],
                type=edge.key.type,
                target_id=edge.key.target_id,
                target=names[edge.key.target_id],
                strength=round(edge.strength, 4),
                support=edge.support,
                evidence=sentences[edge.key],
            )
            for edge in shown[start : start + PAGE]
        ]
    return GraphPicture(
        drawn=drawn,
        entities=kept,
        relationships=relationships,
        entities_left_out=len(entities) - len(kept),
        relationships_left_out=len(order) - len(shown),
    )


def _day(moment: datetime | None) -> str | None:
    return None if moment is None else moment.isoformat()


# --- GraphML ----------------------------------------------------------------------------

_KEYS = {
    "node": {
        "name": "string",
        "type": "string",
        "description": "string",
        "confidence": "double",
        "mentions": "int",
        "aliases": "string",
    },
    "edge": {
        "type": "string",
        "strength": "double",
        "support": "int",
        "evidence": "string",
        "memory_id": "string",
        "valid_from": "string",
        "valid_to": "string",
    },
}
# XML knows no way to write these.
_NOT_IN_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def _graphml_opening() -> str:
    keys = "".join(
        f'<key id="{part}_{name}" for="{part}" attr.name="{name}" attr.type="{kind}"/>\n'
        for part, names in _KEYS.items()
        for name, kind in names.items()
    )
    return (
        '<?xml version="1.0" encoding="UTF-8"?>\n'
        '<graphml xmlns="http://graphml.graphdrawing.org/xmlns">\n'
        f'{keys}<graph id="zapomni" edgedefault="directed">\n'
    )


def _graphml_node(fields: dict[str, Any]) -> str:
    data = _data("node", {**fields, "aliases": json.dumps(fields["aliases"], ensure_ascii=False)})
    return f"<node id={_attribute(fields['id'])}>{data}</node>\n"


def _graphml_link(link: _Link) -> str:
    ends = f"source={_attribute(link.source)} target={_attribute(link.target)}"
    return f"<edge {ends}>{_data('edge', link.fields)}</edge>\n"


def _data(part: str, fields: dict[str, Any]) -> str:
    return "".join(
        f'<data key="{part}_{name}">{escape(_xml(fields[name]))}</data>'
        for name in _KEYS[part]
        if name in fields
    )


def _attribute(value: str) -> str:
    return quoteattr(_xml(value))


def _xml(value: Any) -> str:
    # A reader turns a carriage return into a line end; better we do it.
    return _NOT_IN_XML.sub("\ufffd", str(value)).replace("\r\n", "\n").replace("\r", "\n")


# --- JSON -------------------------------------------------------------------------------


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _cytoscape_link(link: _Link) -> str:
    key = "\t".join((link.source, link.target, link.fields["type"]))
    ends = {"id": key, "source": link.source, "target": link.target}
    return _json({"data": {**ends, **link.fields}})


_CONTEXT = {
    "@vocab": "https://schema.org/",
    "Relationship": "urn:zapomni:Relationship",
    "entityType": "urn:zapomni:entityType",
    "relationshipType": "urn:zapomni:relationshipType",
    "confidence": "urn:zapomni:confidence",
    "mentions": "urn:zapomni:mentions",
    "strength": "urn:zapomni:strength",
    "support": "urn:zapomni:support",
    "evidence": "urn:zapomni:evidence",
    "memory": {"@id": "urn:zapomni:memory", "@type": "@id"},
    "source": {"@id": "urn:zapomni:source", "@type": "@id"},
    "target": {"@id": "urn:zapomni:target", "@type": "@id"},
}
_JSONLD_NAMES = {
    "type": "relationshipType",
    "valid_from": "validFrom",
    "valid_to": "validThrough",
}


def _jsonld_node(fields: dict[str, Any]) -> str:
    return _json(
        {
            "@id": _urn("entity", fields["id"]),
            "@type": "Thing",
            "name": fields["name"],
            "entityType": fields["type"],
            "alternateName": fields["aliases"],
            "description": fields["description"],
            "confidence": fields["confidence"],
            "mentions": fields["mentions"],
        }
    )


def _jsonld_link(link: _Link) -> str:
    ends = {"source": _urn("entity", link.source), "target": _urn("entity", link.target)}
    fields = {_JSONLD_NAMES.get(name, name): value for name, value in link.fields.items()}
    if "memory_id" in fields:
        fields["memory"] = _urn("memory", fields.pop("memory_id"))
    return _json({"@type": "Relationship", **ends, **fields})


def _urn(kind: str, name: str) -> str:
    from urllib.parse import quote

    return f"urn:zapomni:{kind}:{quote(name, safe='')}"


# --- Cypher -----------------------------------------------------------------------------


def _cypher_node(fields: dict[str, Any]) -> str:
    return f"MERGE (e:Entity {{id: {_literal(fields['id'])}}}) SET e += {_map(fields)};\n"


def _cypher_link(link: _Link) -> str:
    # FalkorDB knows no escape between backticks; the property has the type as it is.
    kind = re.sub(r"\W", "_", link.fields["type"])
    return (
        f"MATCH (a:Entity {{id: {_literal(link.source)}}}), "
        f"(b:Entity {{id: {_literal(link.target)}}}) "
        f"MERGE (a)-[r:`{kind}`]->(b) SET r += {_map(link.fields)};\n"
    )


def _map(fields: dict[str, Any]) -> str:
    return "{" + ", ".join(f"{name}: {_literal(value)}" for name, value in fields.items()) + "}"


def _literal(value: Any) -> str:
    if isinstance(value, list):
        return "[" + ", ".join(map(_literal, value)) + "]"
    if not isinstance(value, str):
        return json.dumps(value)
    return "'" + value.translate(_CYPHER_ESCAPES) + "'"


# One statement stays one line. FalkorDB reads no \u escapes, and ends a text at NUL.
_CYPHER_ESCAPES = str.maketrans(
    {"\\": "\\\\", "'": "\\'", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\0": "\ufffd"}
)


FORMATS: dict[str, _Format] = {
    "graphml": _Format(
        _graphml_opening(), _graphml_node, "", _graphml_link, "</graph>\n</graphml>\n"
    ),
    "cytoscape": _Format(
        '{"elements": {"nodes": [\n',
        lambda fields: _json({"data": fields}),
        '\n], "edges": [\n',
        _cytoscape_link,
        "\n]}}\n",
        ",\n",
    ),
    "cypher": _Format("", _cypher_node, "", _cypher_link, ""),
    "jsonld": _Format(
        f'{{"@context": {_json(_CONTEXT)}, "@graph": [\n',
        _jsonld_node,
        "",
        _jsonld_link,
        "\n]}\n",
        ",\n",
    ),
}
