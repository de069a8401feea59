"""`zapomni graph export`."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import datetime
from importlib import import_module
from pathlib import Path
from typing import IO

import click

from zapomni_cli.options import examples, json_option
from zapomni_cli.output import count_of, fit_install, print_json
from zapomni_cli.runtime import read_settings, with_engine
from zapomni_core.engine import ZapomniEngine
from zapomni_core.exceptions import ValidationError
from zapomni_core.infra.places import note_export

__all__ = ["export"]

FORMATS = ["graphml", "cytoscape", "cypher", "jsonld"]


@click.command(
    epilog=examples(
        "zapomni graph export --format graphml --to graph.graphml",
        "zapomni graph export --format cypher | cypher-shell",
        "zapomni graph export --html graph.html",
    )
)
@click.option("--format", "name", type=click.Choice(FORMATS), help="By default graphml.")
@click.option("--to", "path", type=click.Path(path_type=Path), help="The file to write.")
@click.option("--html", type=click.Path(path_type=Path), help="Write a page in one file.")
@click.option("--force", is_flag=True, help="Replace a file that is there.")
@json_option
def export(
    name: str | None, path: Path | None, html: Path | None, *, force: bool, as_json: bool
) -> None:
    """Write the graph for other programs, or as a page.

    graphml for Gephi and yEd, cytoscape (JSON) for Cytoscape, cypher for Neo4j and FalkorDB,
    jsonld for the semantic web. Without --to it is written to standard output.

    --html writes a drawing and tables into one file that loads nothing else and needs no network.
    """
    if html is not None and (name or path):
        raise click.UsageError("--html FILE needs neither --format nor --to.")
    target = html or path
    if as_json and target is None:
        raise click.UsageError("--json reports what was written; give --to FILE or --html FILE.")
    if target is not None and target.exists() and not force:
        raise ValidationError("There is a file of this name; say --force to replace it", "VAL_003")
    settings = read_settings()
    counts: dict[str, int] = {}

    async def write(engine: ZapomniEngine) -> None:
        with _opened(target) as file:
            async for piece in engine.graph.export(name or FORMATS[0], str(Path.cwd())):
                file.write(piece.encode())

    async def write_page(engine: ZapomniEngine) -> None:
        picture = await engine.graph.get_picture(str(Path.cwd()))
        # By name: the doors do not import each other, and this one only uses the other's page.
        page = import_module("zapomni_web.graph_file").render_graph(
            picture, datetime.now().astimezone()
        )
        with _opened(target) as file:
            file.write(page.html.encode())
        counts.update(
            entities=len(picture.entities),
            relationships=len(picture.relationships),
            drawn_entities=page.entities,
            drawn_relationships=page.relationships,
            entities_left_out=picture.entities_left_out,
            relationships_left_out=picture.relationships_left_out,
        )

    with_engine(write if html is None else write_page, settings)
    if target is None:
        return
    note_export(settings, target, "graph")
    size = target.stat().st_size
    if as_json:
        kind = name or FORMATS[0] if html is None else "html"
        print_json({"file": str(target), "format": kind, "bytes": size, **counts})
        return
    click.echo(f"Wrote {target} ({size:,} bytes).")
    if not counts:
        return
    entities = count_of(counts["entities"], "entity", "entities")
    click.echo(
        f"{entities} and {count_of(counts['relationships'], 'relationship')}; drawn: "
        f"{counts['drawn_entities']} and {counts['drawn_relationships']}; left out: "
        f"{counts['entities_left_out']} and {counts['relationships_left_out']}."
    )
    if counts["entities"] and not counts["drawn_entities"]:
        click.echo(
            fit_install("The page has tables only: pip install 'zapomni[ui]' to draw."), err=True
        )


@contextmanager
def _opened(path: Path | None) -> Iterator[IO[bytes]]:
    """Give a file that is there whole or not at all, readable by its owner only."""
    if path is None:
        yield sys.stdout.buffer
        return
    handle, written = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            yield file
        Path(written).replace(path)
    except BaseException:
        with suppress(OSError):
            Path(written).unlink()
        raise
