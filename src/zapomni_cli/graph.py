"""`zapomni graph`: build, explore, correct and export the knowledge graph."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

import click

from zapomni_cli.graph_export import export
from zapomni_cli.options import examples, json_option, page_options
from zapomni_cli.output import (
    count_of,
    day,
    is_terminal,
    one_line,
    print_json,
    print_pairs,
    print_table,
)
from zapomni_cli.runtime import with_engine
from zapomni_cli.tasks import background_option, carry_out, print_queued
from zapomni_core.modules.graph import (
    BuildGraphRequest,
    GraphViewRequest,
    PathStep,
    RelatedEntity,
    RelatedRequest,
    RelatedResponse,
)
from zapomni_core.shared.dates import parse_when
from zapomni_db.graph_models import Entity, EntityQuery, Evidence

__all__ = ["graph"]

NAME_CHARS = 60
SENTENCE_CHARS = 160


def _when(_ctx: click.Context, _param: click.Parameter, value: str | None) -> datetime | None:
    try:
        return None if value is None else parse_when(value)
    except ValueError:
        raise click.BadParameter(
            "use a date (2026-01-31), a time (2026-01-31T14:00) or how long ago (24h, 7d, 2w)"
        ) from None


as_of_option = click.option(
    "--as-of", callback=_when, help="What held then: 2026-01-31, 24h, 7d, 2w ago. Default: now."
)
type_option = click.option("--type", "types", multiple=True, help="Only this type; repeatable.")


@click.group(
    epilog=examples(
        "zapomni graph build",
        "zapomni graph entities postgres",
        "zapomni graph related PostgreSQL --depth 2",
        "zapomni graph show PostgreSQL",
    )
)
def graph() -> None:
    """Ask the knowledge graph: entities in memories and how they relate.

    People, organizations, technologies, files and more are found in the memories' texts by rules,
    on this machine; every one of them and every relationship leads back to the sentences that
    name it. A NAME may be a name, an alias or an id.
    """


# --- Building ---------------------------------------------------------------------------


@graph.command(
    epilog=examples(
        "zapomni graph build",
        "zapomni graph build --project shop",
        "zapomni graph build ID ID --background",
    )
)
@click.argument("memory_ids", metavar="[ID]...", nargs=-1)
@click.option("--project", help="Only memories of this project.")
@background_option
@json_option
def build(
    memory_ids: tuple[str, ...], project: str | None, *, background: bool, as_json: bool
) -> None:
    """Read memories into the graph: all, a project's, or those with these IDs.

    Only what was not read before is read: after new or changed memories run it again. It may be
    stopped at any time and resumes where it was.
    """
    request = BuildGraphRequest(project=project, memory_ids=list(memory_ids) or None)

    status = carry_out(
        lambda engine: engine.graph.build(request, str(Path.cwd())),
        "Reading memories",
        background=background,
    )
    if as_json:
        print_json(status.model_dump(mode="json"))
    elif background:
        print_queued(status)
    else:
        done = status.result
        click.echo(
            f"Read {count_of(done['passages_read'], 'passage')}: "
            f"{count_of(done['entities_added'], 'new entity', 'new entities')}, "
            f"{count_of(done['relationships_added'], 'new relationship')}."
        )
        if done["notice"]:
            click.echo(done["notice"], err=True)


@graph.command(epilog=examples("zapomni graph status", "zapomni graph status --json"))
@json_option
def status(*, as_json: bool) -> None:
    """Count entities, relationships and what is still unread."""
    found = with_engine(lambda engine: engine.graph.get_status())
    if as_json:
        print_json(found.model_dump(mode="json"))
        return
    kinds = {"entity_types": found.entity_types, "relationship_types": found.relationship_types}
    counts = found.model_dump(exclude=set(kinds))
    pairs = [(name.replace("_", " "), number) for name, number in counts.items()]
    for part in kinds.values():
        pairs += [(f"  {name}", number) for name, number in part.items()]
    print_pairs(pairs)
    if found.unread_passages:
        click.echo("`zapomni graph build` reads what is unread.", err=True)


# --- Looking ----------------------------------------------------------------------------


@graph.command(
    epilog=examples(
        "zapomni graph entities",
        "zapomni graph entities kube --type TECHNOLOGY",
        "zapomni graph entities --as-of 2026-03-31 --json",
    )
)
@click.argument("text", nargs=-1)
@type_option
@as_of_option
@page_options(default=20)
@json_option
def entities(
    text: tuple[str, ...],
    types: tuple[str, ...],
    as_of: datetime | None,
    limit: int,
    offset: int,
    *,
    as_json: bool,
) -> None:
    """Find entities by name, alias or part of a name; without TEXT the most mentioned.

    In a pipe each line is: id, type, mentions, name, aliases, separated by tabs.
    """
    query = EntityQuery(
        text=" ".join(text), types=list(types), as_of=as_of, limit=limit, offset=offset
    )
    found = with_engine(lambda engine: engine.graph.find_entities(query, str(Path.cwd())))
    if as_json:
        print_json([entity.model_dump(mode="json") for entity in found])
    elif found:
        _print_entities(found)
    else:
        click.echo("No entities. `zapomni graph build` reads memories into the graph.", err=True)


def _print_entities(found: Sequence[Entity]) -> None:
    print_table(
        (
            entity.entity_id,
            entity.type,
            str(entity.mentions),
            one_line(entity.name, None if not is_terminal() else NAME_CHARS),
            ", ".join(one_line(alias, NAME_CHARS) for alias in entity.aliases),
        )
        for entity in found
    )


def _related_options(command: click.decorators.FC) -> click.decorators.FC:
    types = click.option("--type", "types", multiple=True, help="Only such ones; repeatable.")
    for option in (json_option, as_of_option, types, click.argument("name", metavar="NAME")):
        command = option(command)
    return command


@graph.command(
    epilog=examples(
        "zapomni graph related PostgreSQL",
        "zapomni graph related Anna --type WORKS_AT --as-of 2026-03-31",
        "zapomni graph related PostgreSQL --depth 3 --limit 50 --json",
    )
)
@_related_options
@click.option("--depth", default=2, show_default=True, help="How many steps: 1, 2 or 3.")
@click.option("--limit", default=20, show_default=True, help="How many to show.")
def related(
    name: str,
    types: tuple[str, ...],
    as_of: datetime | None,
    depth: int,
    limit: int,
    *,
    as_json: bool,
) -> None:
    """Show what is related to an entity, how, and which sentence says so.

    In a pipe each line is: distance, score, id, type, name, the way, the sentence, the memory's
    id, separated by tabs.
    """
    found = _look(name, types, as_of, depth, limit, as_json=as_json)
    if found is None:
        return
    if is_terminal():
        print_table((f"{hit.score:.2f}", _hit(hit)) for hit in found.related)
    else:
        print_table(_hit_fields(hit) for hit in found.related)


def _look(
    name: str,
    types: Sequence[str],
    as_of: datetime | None,
    depth: int,
    limit: int,
    *,
    as_json: bool,
) -> RelatedResponse | None:
    """Ask, and show all answers but the usual one."""
    request = RelatedRequest(entity=name, types=list(types), as_of=as_of, depth=depth, limit=limit)
    found = with_engine(lambda engine: engine.graph.get_related(request, str(Path.cwd())))
    if as_json:
        print_json(found.model_dump(mode="json"))
        return None
    if found.notice:
        click.echo(found.notice, err=True)
    if found.entity is None:
        _print_entities(found.candidates)
        return None
    return found


def _hit(hit: RelatedEntity) -> str:
    lines = [f"{one_line(hit.name, NAME_CHARS)}  {hit.type}  {hit.entity_id}", _way(hit)]
    sentence = _sentence(hit)
    if sentence is not None:
        lines.append(f"{one_line(sentence.text, SENTENCE_CHARS)}  {_source(sentence)}")
    return "\n".join(lines)


def _hit_fields(hit: RelatedEntity) -> tuple[str, ...]:
    sentence = _sentence(hit)
    said = ("", "") if sentence is None else (sentence.text, sentence.memory_id or "")
    return (
        str(hit.distance),
        f"{hit.score:.4f}",
        *(hit.entity_id, hit.type, hit.name, _way(hit)),
        *said,
    )


def _way(hit: RelatedEntity) -> str:
    first = hit.path[0]
    words = [one_line(first.source if first.forward else first.target, NAME_CHARS)]
    for step in hit.path:
        end = step.target if step.forward else step.source
        words += [_arrow(step), one_line(end, NAME_CHARS)]
    return " ".join(words)


def _arrow(step: PathStep) -> str:
    return f"─{step.type}→" if step.forward else f"←{step.type}─"


def _sentence(hit: RelatedEntity) -> Evidence | None:
    return next(iter(hit.path[-1].evidence), None)


def _source(sentence: Evidence) -> str:
    said = "" if sentence.said_at is None else day(sentence.said_at)
    return "  ".join(part for part in (said, sentence.memory_id or "") if part)


@graph.command(
    epilog=examples("zapomni graph show PostgreSQL", "zapomni graph show Anna --as-of 2026-03-31")
)
@_related_options
@click.option("--depth", default=2, show_default=True, help="How many steps: 1, 2 or 3.")
@click.option("--limit", default=25, show_default=True, help="How many to draw.")
def show(
    name: str,
    types: tuple[str, ...],
    as_of: datetime | None,
    depth: int,
    limit: int,
    *,
    as_json: bool,
) -> None:
    """Draw what is around an entity as a tree."""
    found = _look(name, types, as_of, depth, limit, as_json=as_json)
    if found is None:
        return
    from rich.console import Console
    from rich.text import Text
    from rich.tree import Tree

    assert found.entity is not None
    root = Tree(Text(f"{one_line(found.entity.name, NAME_CHARS)} ({found.entity.type})"))
    drawn = {found.entity.entity_id: root}
    for hit in found.related:
        branch = root
        # What leads to it may be beyond the limit: then it is drawn here.
        for step in hit.path:
            end_id, end = (
                (step.target_id, step.target) if step.forward else (step.source_id, step.source)
            )
            if end_id not in drawn:
                drawn[end_id] = branch.add(Text(f"{_arrow(step)} {one_line(end, NAME_CHARS)}"))
            branch = drawn[end_id]
    console = Console() if is_terminal() else Console(width=120)
    console.print(root)


@graph.command(
    epilog=examples(
        "zapomni graph relationships",
        "zapomni graph relationships PostgreSQL --depth 2",
        "zapomni graph relationships --type PERSON --type ORG --as-of 2026-03-31 --json",
    )
)
@click.argument("name", metavar="[NAME]", default="")
@click.option("--type", "types", multiple=True, help="Only entities of this type; repeatable.")
@as_of_option
@click.option("--depth", default=1, show_default=True, help="How many steps: 1, 2 or 3.")
@click.option("--limit", default=100, show_default=True, help="Between how many entities, to 300.")
@click.option("--open", "opened", multiple=True, metavar="ID", help="Also those of this entity.")
@json_option
def relationships(
    name: str,
    types: tuple[str, ...],
    as_of: datetime | None,
    depth: int,
    limit: int,
    opened: tuple[str, ...],
    *,
    as_json: bool,
) -> None:
    """List relationships between the best connected entities, or of those around NAME.

    Those that say how come first, then those that are only named together. In a pipe each line
    is: who, how, whom, the sentence, the memory's id, separated by tabs.
    """
    request = GraphViewRequest(
        entity=name,
        depth=depth,
        opened=list(opened),
        types=list(types),
        as_of=as_of,
        limit=limit,
    )
    found = with_engine(lambda engine: engine.graph.get_view(request, str(Path.cwd())))
    if as_json:
        print_json(found.model_dump(mode="json"))
        return
    if found.notice:
        click.echo(found.notice, err=True)
    if found.candidates:
        _print_entities(found.candidates)
        return
    chars = NAME_CHARS if is_terminal() else None
    print_table(
        (
            one_line(one.source, chars),
            one.type,
            one_line(one.target, chars),
            *_said(next(iter(one.evidence), None)),
        )
        for one in found.relationships
    )
    if found.more:
        click.echo(f"{count_of(found.more, 'more entity', 'more entities')}: --limit.", err=True)
    if found.unread:
        click.echo("`zapomni graph build` reads what is unread.", err=True)


def _said(sentence: Evidence | None) -> tuple[str, str]:
    if sentence is None:
        return "", ""
    chars = SENTENCE_CHARS if is_terminal() else None
    return one_line(sentence.text, chars), sentence.memory_id or ""


# --- Merging ----------------------------------------------------------------------------


@graph.command(
    epilog=examples("zapomni graph merge 'A. Smith' 'Anna Smith'", "zapomni graph merge ID ID")
)
@click.argument("source", metavar="NAME")
@click.argument("target", metavar="INTO")
@json_option
def merge(source: str, target: str, *, as_json: bool) -> None:
    """Merge one entity into another, also in texts to come.

    Nothing is lost: `zapomni graph undo` parts them again.
    """
    done = with_engine(lambda engine: engine.graph.merge(source, target, str(Path.cwd())))
    if as_json:
        print_json(done.model_dump(mode="json"))
    else:
        names = (one_line(done.source, NAME_CHARS), one_line(done.target, NAME_CHARS))
        click.echo("{} is {} from now on.".format(*names))


@graph.command(epilog=examples("zapomni graph undo", "zapomni graph undo 'A. Smith'"))
@click.argument("name", metavar="[NAME]", required=False)
@json_option
def undo(name: str | None, *, as_json: bool) -> None:
    """Undo a merge: the newest one, or the newest of NAME.

    What rules merged by themselves needs a NAME, and they will not merge it again.
    """
    done = with_engine(lambda engine: engine.graph.undo(name, str(Path.cwd())))
    if as_json:
        print_json(done.model_dump(mode="json"))
    else:
        names = (one_line(done.source, NAME_CHARS), one_line(done.target, NAME_CHARS))
        click.echo("{} and {} are two again.".format(*names))


graph.add_command(export)
