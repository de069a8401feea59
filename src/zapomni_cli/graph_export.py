"""`zapomni graph export`."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

import click

from zapomni_cli.options import examples, json_option
from zapomni_cli.output import print_json
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
    )
)
@click.option("--format", "name", type=click.Choice(FORMATS), default="graphml", show_default=True)
@click.option("--to", "path", type=click.Path(path_type=Path), help="The file to write.")
@click.option("--force", is_flag=True, help="Replace a file that is there.")
@json_option
def export(name: str, path: Path | None, *, force: bool, as_json: bool) -> None:
    """Write the graph for other programs, as it holds now.

    graphml for Gephi and yEd, cytoscape (JSON) for Cytoscape, cypher for Neo4j and FalkorDB,
    jsonld for the semantic web. Without --to it goes to standard output.
    """
    if as_json and path is None:
        raise click.UsageError("--json reports what was written; give --to FILE.")
    if path is not None and path.exists() and not force:
        raise ValidationError("There is a file of this name; say --force to replace it", "VAL_003")

    async def write(engine: ZapomniEngine) -> None:
        with _opened(path) as file:
            async for piece in engine.graph.export(name, str(Path.cwd())):
                file.write(piece.encode())

    settings = read_settings()
    with_engine(write, settings)
    if path is None:
        return
    note_export(settings, path, "graph")
    size = path.stat().st_size
    if as_json:
        print_json({"file": str(path), "format": name, "bytes": size})
    else:
        click.echo(f"Wrote {path} ({size:,} bytes).")


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
