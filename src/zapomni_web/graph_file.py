"""The graph as one page that needs nothing else: no server, no network, no other file."""

from __future__ import annotations

import base64
import hashlib
from collections import Counter
from datetime import datetime
from typing import NamedTuple

from markupsafe import Markup

from zapomni_core.modules.graph import GraphPicture
from zapomni_web.app import environment, read_static
from zapomni_web.drawing import SHAPES, can_draw, draw, look_of

__all__ = ["GraphFile", "render_graph"]

# The one function of the pages' own script that the drawing needs.
_ALL = "const all = (selector, root = document) => [...root.querySelectorAll(selector)];\n"


class GraphFile(NamedTuple):
    """A page, and how much of it is drawn."""

    html: str
    entities: int
    relationships: int


def render_graph(picture: GraphPicture, made_at: datetime) -> GraphFile:
    """Return the page. Its policy allows its own script and style, by their hashes, and no more."""
    static = read_static()
    script = _ALL + static["graph.js"].decode()
    style = static["zapomni.css"].decode()
    rows = {one.entity_id: f"e{number}" for number, one in enumerate(picture.entities)}
    drawn = picture.drawn
    # A row leads back to what is said about it; a node leads to its row.
    hrefs = {entity_id: f"#{row}" for entity_id, row in rows.items()}
    drawing = None
    if can_draw() and drawn.entities:
        drawing = draw(drawn.entities, drawn.relationships, hrefs=hrefs)
    types = Counter(one.type for one in picture.entities)
    html = (
        environment()
        .get_template("graph_file.html")
        .render(
            policy="; ".join(
                (
                    "default-src 'none'",
                    f"script-src '{_hash(script)}'",
                    f"style-src '{_hash(style)}'",
                    "base-uri 'none'",
                    "form-action 'none'",
                )
            ),
            script=Markup(script),  # noqa: S704 - our own file
            style=Markup(style),  # noqa: S704
            picture=picture,
            drawing=drawing,
            rows=rows,
            shapes=SHAPES,
            types=[(name, *look_of(name), count) for name, count in types.most_common()],
            made_at=made_at,
        )
    )
    if drawing is None:
        return GraphFile(html, 0, 0)
    return GraphFile(html, len(drawn.entities), len(drawn.relationships))


def _hash(text: str) -> str:
    digest = hashlib.sha256(text.encode()).digest()
    return f"sha256-{base64.b64encode(digest).decode()}"
