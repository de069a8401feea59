"""`zapomni graph`: build, explore, correct and export the knowledge graph."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

import click

from zapomni_cli.graph_export import export
from zapomni_cli.options import examples, json_option, page_options
from zapomni_cli.output import (
    Card,
    clean,
    count_of,
    day,
    is_terminal,
    one_line,
    print_cards,
    print_json,
    print_pairs,
    print_table,
    short_id,
    wrap,
)
from zapomni_cli.runtime import with_engine
from zapomni_cli.tasks import background_option, carry_out, print_queued
from zapomni_core.modules.graph import (
    BuildGraphRequest,
    CardMemory,
    EndedRelationship,
    GraphViewRequest,
    PathRequest,
    PathResponse,
    PathStep,
    RelatedEntity,
    RelatedRequest,
    RelatedResponse,
)
from zapomni_core.shared.dates import parse_when
from zapomni_core.workflows.entity_cards import CitingCard, EntityReport
from zapomni_db.graph_models import Entity, EntityQuery, Evidence
from zapomni_db.observation_models import AskedIn, SessionWork, WorkCommit

__all__ = ["graph"]

NAME_CHARS = 60
SENTENCE_CHARS = 160
TITLE_CHARS = 80
FAR_SHOWN = 6


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
        "zapomni graph path Anna PostgreSQL",
    )
)
def graph() -> None:
    """Ask the knowledge graph: entities and how they relate.

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
    """Read memories into the graph.

    All memories, those of a project, or those with these IDs. Only what was not read before is
    read: after new or changed memories run it again. It may be stopped at any time and resumes
    where it was.
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
    """Find entities by name, alias or part of a name.

    Without TEXT, the most mentioned. In a pipe each line is: id, type, mentions, name, aliases,
    separated by tabs.
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
        click.echo("No entities here. `zapomni graph build` reads memories that are new.", err=True)


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
    """Show what is related to an entity, and how.

    Each with the sentence that says so.

    In a pipe each line is: distance, score, id, type, name, the way, the sentence, the memory's
    id, separated by tabs.
    """
    found = _look(name, types, as_of, depth, limit, as_json=as_json)
    if found is None:
        return
    if is_terminal():
        print_cards([_hit(hit) for hit in found.related])
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


def _hit(hit: RelatedEntity) -> Card:
    sentence = _sentence(hit)
    body = [_way(hit), *([] if sentence is None else [_quoted(sentence)])]
    return Card(one_line(hit.name, NAME_CHARS), (hit.type, f"{hit.score:.2f}"), body)


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


def _arrow(step: PathStep | EndedRelationship) -> str:
    kind = one_line(step.type, NAME_CHARS)
    return f"─{kind}→" if step.forward else f"←{kind}─"


def _sentence(hit: RelatedEntity) -> Evidence | None:
    return next(iter(hit.path[-1].evidence), None)


@graph.command(
    epilog=examples(
        "zapomni graph show PostgreSQL",
        "zapomni graph show Anna --as-of 2026-03-31",
        "zapomni graph show src/auth.py",
    )
)
@_related_options
@click.option("--depth", default=2, show_default=True, help="How many steps: 1, 2 or 3.")
@click.option("--limit", default=25, show_default=True, help="How many related ones.")
def show(
    name: str,
    types: tuple[str, ...],
    as_of: datetime | None,
    depth: int,
    limit: int,
    *,
    as_json: bool,
) -> None:
    """Show a card of an entity.

    What it is, since when, how it relates, and what changed. Each relationship comes with a
    sentence that states it, its date and its memory's id, of which a terminal shows the beginning;
    `zapomni get` takes it.

    NAME may also be a file of this project or an indexed symbol that no memory names. Of a file, a
    symbol or a decision the card shows which memories cite it and what sessions did about it: what
    was asked for, what had failed, whether it passed, what was committed. That is read from this
    machine's own file and is in no export.
    """
    request = RelatedRequest(entity=name, types=list(types), as_of=as_of, depth=depth, limit=limit)
    found = with_engine(lambda engine: engine.cards.show(request, str(Path.cwd())))
    if as_json:
        print_json(found.model_dump(mode="json"))
        return
    if found.entity is None:
        click.echo(found.notice, err=True)
        _print_entities(found.candidates)
        return
    _print_head(found, found.entity)
    _print_part("Relationships", [_relationship(step) for step in found.relationships])
    _print_part("Changed", [_ended(one) for one in found.ended])
    _print_part("Further away", _far(found))
    _print_part("Done in sessions", [_work(one) for one in found.work])
    _print_part("Commits", [_commit(one) for one in found.commits])
    cited = {one.memory_id for one in found.cited_by}
    _print_part("Cited by", [_memory(one, found.sessions) for one in found.cited_by])
    others = [one for one in found.memories if one.memory_id not in cited]
    _print_part("Memories", [_memory(one, found.sessions) for one in others])
    _print_part("Files", [one_line(path, SENTENCE_CHARS) for path in found.files])


def _print_head(card: EntityReport, entity: Entity) -> None:
    click.echo(
        f"{click.style(one_line(entity.name, NAME_CHARS), bold=True)}  {one_line(entity.type)}"
    )
    if card.place is not None and card.place.kind == "symbol":
        where = one_line(f"{card.place.path}:{card.place.start_line}")
        click.echo(f"{where}  {one_line(card.place.signature, SENTENCE_CHARS)}".rstrip())
    if entity.aliases:
        click.echo(f"also {', '.join(one_line(alias, NAME_CHARS) for alias in entity.aliases)}")
    if entity.description:
        click.echo(one_line(entity.description, SENTENCE_CHARS))
    dates = []
    if card.first_mentioned and card.last_mentioned:
        dates = [f"first {_date(card.first_mentioned)}", f"last {_date(card.last_mentioned)}"]
    mentions = count_of(entity.mentions, "mention") if entity.mentions else "No memory names it."
    click.echo(", ".join([mentions, *dates]))
    if not entity.mentions and not (card.work or card.commits or card.cited_by):
        click.echo("No memory cites it, and no session was seen editing it.")


def _print_part(title: str, lines: Sequence[str]) -> None:
    if lines:
        click.echo()
        click.echo(click.style(title, bold=True))
        for line in lines:
            first, *more = clean(line).split("\n")
            click.echo(wrap(first, "  ", "      "))
            for one in more:
                click.echo(wrap(one, "      "))


def _relationship(step: PathStep) -> str:
    end = step.target if step.forward else step.source
    how = "named with" if step.type == "RELATED_TO" else _arrow(step)
    line = f"{how} {one_line(end, NAME_CHARS)}"
    return "\n".join([line, *(_quoted(one) for one in step.evidence[:1])])


def _quoted(sentence: Evidence) -> str:
    said = "" if sentence.said_at is None else _date(sentence.said_at)
    about = "  ".join(part for part in (said, short_id(sentence.memory_id or "")) if part)
    return f"{one_line(sentence.text, SENTENCE_CHARS)}  {about}".rstrip()


def _ended(one: EndedRelationship) -> str:
    end = one.target if one.forward else one.source
    spans = [
        f"{word} {_date(moment)}"
        for word, moment in (("from", one.evidence.valid_from), ("until", one.evidence.valid_to))
        if moment
    ]
    line = f"{_arrow(one)} {one_line(end, NAME_CHARS)} {' '.join(spans)}"
    if one.replaced_by:
        line += f"; now {', '.join(one_line(name, NAME_CHARS) for name in one.replaced_by)}"
    return f"{line}\n{_quoted(one.evidence)}"


def _far(card: EntityReport) -> list[str]:
    return [_way(hit) for hit in card.related if hit.distance > 1][:FAR_SHOWN]


def _work(one: SessionWork) -> str:
    when = day(datetime.fromtimestamp(one.first_at, UTC))
    names = ", ".join(one_line(Path(path).name, NAME_CHARS) for path in one.files[:3])
    head = f"{when}  {one.host}  session {one.session_id[:8]}  {names}"
    lines = [f"{head}  {count_of(one.edits, 'edit')}"]
    lines += [f"asked: {one_line(prompt, SENTENCE_CHARS)}" for prompt in one.prompts]
    for label, step in (
        ("after it failed", one.failure),
        ("passed", one.passed),
        ("failed after", one.failed_after),
    ):
        if step is not None:
            text = f"{step.command}: {step.message}" if step.message else step.command
            lines.append(f"{label}: {one_line(text, SENTENCE_CHARS)} (#{step.id})")
    lines += [f"committed: {_commit(commit)}" for commit in one.commits]
    return "\n".join(lines)


def _commit(one: WorkCommit) -> str:
    moment = _date(datetime.fromtimestamp(one.timestamp, UTC))
    words = (moment, one.commit[:10], one_line(one.subject, TITLE_CHARS), one_line(one.author, 40))
    return "  ".join(word for word in words if word)


def _memory(one: CardMemory, sessions: Mapping[str, AskedIn] | None = None) -> str:
    kind = "" if one.kind == "note" else one.kind
    words = [
        _date(one.occurred_at),
        short_id(one.memory_id),
        kind,
        one_line(one.title, TITLE_CHARS),
    ]
    if isinstance(one, CitingCard) and one.status != "fresh":
        words.append(f"({one.status})")
    line = "  ".join(word for word in words if word)
    session = (sessions or {}).get(one.memory_id)
    if session is None:
        return line
    asked = f": {one_line(session.prompt, SENTENCE_CHARS)}" if session.prompt else ""
    return f"{line}\nin session {session.session_id[:8]} of {session.host}{asked}"


def _date(moment: datetime) -> str:
    return day(moment)[:10]


@graph.command(
    epilog=examples(
        "zapomni graph path Sentry Redis",
        "zapomni graph path 'Anna Berger' PostgreSQL --as-of 2026-03-31",
    )
)
@click.argument("source", metavar="FROM")
@click.argument("target", metavar="TO")
@as_of_option
@json_option
def path(source: str, target: str, as_of: datetime | None, *, as_json: bool) -> None:
    """Explain how two entities are connected, step by step.

    The shortest way that convinces: relationships that say how are preferred, and those that many
    sentences state. In a pipe each line is: who, how, whom, the sentence, its date, the memory's
    id, separated by tabs; the relationship is in its own direction.
    """
    request = PathRequest(source=source, target=target, as_of=as_of)
    found = with_engine(lambda engine: engine.graph.find_path(request, str(Path.cwd())))
    if as_json:
        print_json(found.model_dump(mode="json"))
        return
    if found.notice:
        click.echo(found.notice, err=True)
    if found.candidates:
        _print_entities(found.candidates)
    elif is_terminal():
        _print_path(found)
    else:
        print_table(_step_fields(step) for step in found.steps)


def _print_path(found: PathResponse) -> None:
    if not found.steps or found.source is None or found.target is None:
        return
    ends = (found.source, found.target)
    title = " and ".join(one_line(one.name, NAME_CHARS) for one in ends)
    click.echo(click.style(f"{title}: {count_of(len(found.steps), 'step')}", bold=True))
    for number, step in enumerate(found.steps, 1):
        source, target = (one_line(one, NAME_CHARS) for one in (step.source, step.target))
        how = "is named with" if step.type == "RELATED_TO" else f"─{one_line(step.type)}→"
        lines = [f"{source} {how} {target}", *map(_quoted, step.evidence)]
        click.echo(wrap(lines[0], f"{number}. "))
        for line in lines[1:]:
            click.echo(wrap(line, "   "))
    _print_part("Memories", [_memory(one) for one in found.memories])


def _step_fields(step: PathStep) -> tuple[str, ...]:
    said = next(iter(step.evidence), None)
    about = ("", "", "")
    if said is not None:
        moment = "" if said.said_at is None else _date(said.said_at)
        about = (said.text, moment, said.memory_id or "")
    return (step.source, step.type, step.target, *about)


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
    """List relationships, the best connected entities first.

    With NAME, those around it. Those that say how come first, then those that are only named
    together. In a pipe each line is: who, how, whom, the sentence, the memory's id, separated by
    tabs.
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
    return one_line(sentence.text, chars), short_id(sentence.memory_id or "")


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
