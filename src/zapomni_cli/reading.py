"""Commands that read: search, get, list."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from shutil import get_terminal_size
from typing import Any, Literal

import click

from zapomni_cli.observations import (
    all_option,
    observation_filters,
    print_if_unknown,
    search_observations,
    without_filters,
)
from zapomni_cli.options import (
    chosen,
    examples,
    filter_options,
    json_option,
    near_kind,
    page_options,
)
from zapomni_cli.output import (
    Card,
    clean,
    day,
    is_terminal,
    one_line,
    print_cards,
    print_json,
    print_pairs,
    print_table,
    short_id,
)
from zapomni_cli.runtime import log_recall, with_engine
from zapomni_core.engine import ZapomniEngine
from zapomni_core.infra.recall_log import RecalledItem, count_tokens
from zapomni_core.interfaces import ListRequest, SearchRequest, SearchResponse, SearchResult
from zapomni_db.code_models import CheckedCitation
from zapomni_db.models import MemoryRecord, MemorySummary

__all__ = ["chosen_filters", "citation_line", "get", "list_memories", "print_memory", "search"]

PASSAGE_CHARS = 300
# Of a hit when no hit is close.
DISTANT_CHARS = 80
# A text of this length is its own title: people read two lines at a glance.
TITLE_CHARS = 150
CODE_LINES = 8
ID = "6f1c2a9e-1f0a-4a53-9d43-0f6f3c1b8a77"


@click.command(
    epilog=examples(
        'zapomni search "why did we leave MySQL"',
        "zapomni search deploy --project shop --tag decision --since 30d",
        'zapomni search "retry policy" --json',
        'zapomni search "retry policy" --explain',
        'zapomni search "database" --as-of 2026-03-31',
        "zapomni search pytest --in observations --failed",
    )
)
@click.argument("query", nargs=-1, required=True)
@click.option(
    "--in",
    "where",
    type=click.Choice(["everything", "memories", "observations"]),
    default="everything",
    show_default=True,
    help="Memories, observations, or both and code ranked together.",
)
@filter_options
@all_option
@observation_filters
@page_options(default=10)
@click.option("--no-graph", is_flag=True, help="Leave the knowledge graph out of it.")
@click.option("--beside", is_flag=True, help="Also show the passages before and after each hit.")
@click.option("--explain", is_flag=True, help="Show why each hit ranked, arm by arm.")
@click.option(
    "--fusion",
    type=click.Choice(["weighted", "rrf"]),
    default="weighted",
    show_default=True,
    help="How rankings become one: by weighted scores, or by reciprocal ranks.",
)
@json_option
def search(  # noqa: PLR0913 - every option is an argument
    query: tuple[str, ...],
    limit: int,
    offset: int,
    *,
    where: Literal["everything", "memories", "observations"],
    beside: bool,
    no_graph: bool,
    explain: bool,
    fusion: Literal["weighted", "rrf"],
    as_json: bool,
    **filters: Any,
) -> None:
    """Search memories, what agents did, and code.

    By meaning and by words: what is found need not contain the words of the question. Inside a
    repository this project and global memories answer, and it is said how many memories of other
    projects have the words; --all asks them too. Each hit is the best passage of one memory;
    `zapomni get ID` shows the rest. A hit numbered like #4711 is something an agent did; `zapomni
    timeline 4711` shows what happened around it. Scores compare within one answer only; the
    evidence of a hit (strong, weak or none) says how sure it is that it answers. On a terminal hits
    without evidence are listed below the others, in a line each.

    A memory that cites code says whether that is unchanged: fresh, changed, moved or gone.
    A memory that others say is replaced ranks below what replaced it and says by what. Files of
    indexed repositories are memories of kind code. In a pipe each line is: score, id, time, kind,
    project, tags, passage, what replaced it and citations if there are any, separated by tabs.

    With --in observations words are asked for by AND, OR, NOT, "a phrase" and prefix*, in the
    current project unless --project or --all says else. In a pipe each line is: id, time, type,
    file, session, preview.
    """
    if where == "observations":
        search_observations(" ".join(query), limit, offset, as_json=as_json, filters=filters)
        return
    request = SearchRequest(
        query=" ".join(query),
        limit=limit,
        offset=offset,
        filters=chosen_filters(without_filters(filters)),
        folder=str(Path.cwd()),
        within=where,
        fusion=fusion,
        graph=not no_graph,
        explain=explain,
        beside=beside,
    )
    response = with_engine(lambda engine: engine.search_memory(request))
    if as_json:
        print_json(response.model_dump(mode="json"))
    else:
        project = "*" if filters.get("every_project") else filters.get("project")
        _print_hits(response, offset, filters.get("kind"), project)
    log_recall(
        request.query,
        [
            RecalledItem(hit.memory_id, hit.observation_id, count_tokens(hit.text), hit.evidence)
            for hit in response.results
        ],
    )


def _print_hits(
    response: SearchResponse, offset: int, kind: str | None, project: str | None
) -> None:
    for said in filter(None, (response.correction(), response.notice)):
        click.echo(one_line(said), err=True)
    if not response.results:
        ways = "or with fewer filters" if project else "with fewer filters, or with --all"
        click.echo(f"Nothing found. Ask in other words, {ways}.", err=True)
        print_if_unknown(project)
        if kind and (near := near_kind(kind)):
            click.echo(
                f"No {one_line(kind, 40)!r} was found: did you mean --kind {near}?", err=True
            )
        _print_elsewhere(response.elsewhere)
        return
    if response.nothing_close:
        click.echo("Nothing close. The nearest, shortened:", err=True)
    if is_terminal():
        _print_for_people(response)
    else:
        print_table(_hit_fields(hit, response.nothing_close) for hit in response.results)
    following = offset + response.count
    if response.more or response.total > following:
        among = f"more than {response.total}" if response.more else f"{response.total}"
        click.echo(f"{following} of {among}; see more with --offset {following}.", err=True)
    _print_elsewhere(response.elsewhere)


def chosen_filters(options: dict[str, Any]) -> dict[str, Any]:
    """Return the filters that were given; --all is a project of `*`."""
    filters = chosen(options)
    if filters.pop("every_project", False):
        if "project" in filters:
            raise click.UsageError("Give --project or --all, not both.")
        filters["project"] = "*"
    return filters


def _print_elsewhere(number: int) -> None:
    if number:
        click.echo(f"{number} more in other projects: --all", err=True)


def _print_for_people(response: SearchResponse) -> None:
    """Print what answers; what only shares words or a subject with the question, in a line each."""
    likely = len(response.results)
    if not (response.nothing_close or response.results[0].explanation):
        while likely and response.results[likely - 1].evidence_word == "none":
            likely -= 1
    chars = DISTANT_CHARS if response.nothing_close else PASSAGE_CHARS
    print_cards([_card(hit, chars) for hit in response.results[:likely]])
    if unlikely := response.results[likely:]:
        click.echo(click.style("\nLess likely:", dim=True))
        room = get_terminal_size().columns - len("12345678  ")
        print_table((_hit_id(hit), one_line(_split_title(hit)[0], room)) for hit in unlikely)


def _card(hit: SearchResult, chars: int) -> Card:
    title, rest = _split_title(hit)
    if chars == DISTANT_CHARS and not hit.explanation:
        return Card(one_line(title, chars), _about(hit, _hit_id(hit)), word=hit.evidence_word)
    if hit.kind == "code":
        passages = rest.splitlines()[:CODE_LINES]
    else:
        passages = [one_line(text, chars) for text in (hit.before, rest, hit.after) if text]
    why = [f"score {hit.score:.2f}, {_why(hit.explanation)}"] if hit.explanation else []
    cites = [f"cites {citation_line(one)}" for one in hit.citations]
    replaced = [one_line(hit.replaced.line())] if hit.replaced else []
    about = _about(hit, _hit_id(hit))
    return Card(title, about, [*passages, *replaced, *cites, *why], hit.evidence_word)


def _split_title(hit: SearchResult) -> tuple[str, str]:
    """Return what a hit is called, and what of its passage does not repeat that."""
    text = hit.text.strip()
    line, _, body = text.partition("\n")
    named = hit.metadata.get("title") or (hit.source if hit.kind in ("document", "code") else "")
    if isinstance(named, str) and named:
        if hit.kind == "code" or (line.startswith("#") and body):
            return one_line(f"{named} · {line.lstrip('# ')}", TITLE_CHARS), body
        return one_line(named, TITLE_CHARS), text
    line = line.lstrip("# ")
    sentence = re.match(r".+?[.!?](?=\s)", line)
    if sentence is not None and len(line) > TITLE_CHARS:
        line, body = sentence[0], text[text.index(sentence[0]) + sentence.end() :]
    if len(line) <= TITLE_CHARS:
        return one_line(line), body.strip()
    # A long sentence: its beginning, then how it continues.
    end = line.rfind(" ", 0, TITLE_CHARS)
    end = end if end > 0 else TITLE_CHARS
    return f"{one_line(line[:end])} …", f"… {line[end:].strip()} {body}".strip()


def _hit_id(hit: SearchResult) -> str:
    return short_id(hit.memory_id) or f"#{hit.observation_id}"


def _why(explanation: dict[str, Any]) -> str:
    """Return why a hit ranked, in one line: score and rank in each arm, what was added."""
    from zapomni_core.modules.memories import ARM_ALIASES  # loaded by the search

    arms = explanation["arms"].items()
    spoke = [f"{n} {a['score']:g} (#{a['rank']})" for n, a in arms if n not in ARM_ALIASES]
    spoke += [f"{name} {value:g}" for name, value in explanation["boosts"].items() if value]
    turns = ", ".join(
        f"{name} {value:g}" for name, value in explanation.get("turn_order", {}).items() if value
    )
    weights = explanation["weights"].items()
    shared = ", ".join(f"{name} {weight:g}" for name, weight in weights if weight)
    signals = {**explanation["evidence"]}
    calibration = signals.pop("calibration", "words")
    sure = ", ".join(f"{name} {value:g}" for name, value in signals.items())
    evidence = f"evidence by {calibration}{': ' if sure else ''}{sure}"
    order = f"among turns: {turns}; " if turns else ""
    return f"because: {', '.join(spoke)}; weights: {shared}; {order}{evidence}"


def _about(item: SearchResult | MemorySummary, item_id: str) -> tuple[str, ...]:
    # Which repository and language code is from is in its path.
    labels = [] if item.kind == "code" else [f"#{tag}" for tag in item.tags]
    source = f"from {item.source}" if item.source and item.kind != "code" else ""
    when = day(item.occurred_at).partition(" ")[0]
    pinned = "pinned" if item.pinned else ""
    return (item_id, when, item.kind, item.project, source, *labels, pinned, *item.cautions())


def _hit_fields(hit: SearchResult, nothing_close: bool) -> tuple[str, ...]:
    labels = (hit.kind, hit.project, ",".join(hit.tags))
    why = (_why(hit.explanation),) if hit.explanation else ()
    cites = ("; ".join(citation_line(one) for one in hit.citations),) if hit.citations else ()
    passage = "\n".join(text for text in (hit.before, hit.text, hit.after) if text)
    if nothing_close:
        passage = one_line(hit.text, DISTANT_CHARS)
    moment = hit.occurred_at.isoformat()
    replaced = (hit.replaced.line(),) if hit.replaced else ()
    return (f"{hit.score:.4f}", _hit_id(hit), moment, *labels, passage, *replaced, *cites, *why)


@click.command(
    epilog=examples(
        f"zapomni get {ID}",
        f"zapomni get {ID} > notes.md",
        f"zapomni get {ID} --json",
    )
)
@click.argument("memory_id", metavar="ID")
@json_option
def get(memory_id: str, *, as_json: bool) -> None:
    """Show a memory whole.

    The first eight characters of an id are enough, here and wherever a command takes one. In a
    pipe the text comes alone, exactly as you added it.
    """

    async def read(engine: ZapomniEngine) -> tuple[MemoryRecord, list[CheckedCitation]]:
        whole = await engine.memories.complete_id(memory_id)
        return await engine.get_memory(whole), await engine.citations.get(whole)

    record, citations = with_engine(read)
    if as_json or is_terminal():
        print_memory(record, citations, as_json=as_json)
    else:
        # As bytes: a text keeps its own line ends.
        click.echo(record.text.encode(), nl=False)
    item = RecalledItem(record.memory_id, tokens=count_tokens(record.text))
    log_recall("", [item], opened=[item])


def print_memory(
    record: MemoryRecord, citations: Sequence[CheckedCitation] = (), *, as_json: bool
) -> None:
    """Print a memory with all that is known about it."""
    if as_json:
        cited = [one.model_dump(mode="json") for one in citations]
        print_json({**record.model_dump(mode="json"), "citations": cited})
        return
    known = record.model_dump(exclude={"memory_id", "project_key", "preview", "text"})
    cites = [("cites", citation_line(one)) for one in citations]
    shown = [(_LABELS.get(name, name), _shown(value)) for name, value in known.items() if value]
    print_pairs([("id", record.memory_id), *shown, *cites])
    click.echo()
    click.echo(clean(record.text))


_LABELS = {
    "occurred_at": "from",
    "created_at": "added",
    "updated_at": "changed",
    "expires_at": "expires",
    "superseded_by": "replaced by",
    "idempotency_key": "key",
    "length": "characters",
    "chunk_count": "passages",
}


def citation_line(one: CheckedCitation) -> str:
    """Say in one line what a memory cites and what became of it."""
    now = f", now {one.now}" if one.now else ""
    content = ", reworded" if one.content == "reworded" else ""
    what = f" ({one.what})" if one.what else ""
    return one_line(f"{one.cites}: {one.status}{content}{now}{what}")


def _shown(value: Any) -> str:
    if isinstance(value, bool):
        return "yes"  # What is not so is left out.
    if isinstance(value, datetime):
        return day(value)
    return ", ".join(value) if isinstance(value, list) else str(value)


@click.command(
    name="list",
    epilog=examples(
        "zapomni list",
        "zapomni list --project shop --since 7d",
        "zapomni list --pinned --json",
    ),
)
@filter_options
@all_option
@page_options(default=20)
@json_option
def list_memories(limit: int, offset: int, *, as_json: bool, **filters: Any) -> None:
    """List memories, pinned first, then newest.

    Inside a repository, those of this project and global ones; --all lists every project's. Files
    of indexed repositories are left out; --kind code lists them.

    In a pipe each line is: id, time, kind, project, tags, pinned, beginning of the text,
    separated by tabs.
    """
    request = ListRequest(
        limit=limit, offset=offset, filters=chosen_filters(filters), folder=str(Path.cwd())
    )
    page = with_engine(lambda engine: engine.list_memories(request))
    if as_json:
        print_json(page.model_dump(mode="json"))
        return
    if not page.items:
        click.echo("No memories here. Add one with `zapomni add`.", err=True)
        print_if_unknown(filters.get("project"))
    elif is_terminal():
        print_cards(
            [
                Card(
                    one_line(one.preview.lstrip("# "), TITLE_CHARS),
                    _about(one, short_id(one.memory_id)),
                )
                for one in page.items
            ]
        )
    else:
        print_table(_list_fields(item) for item in page.items)
    more = page.total - offset - len(page.items)
    if page.items and more > 0:
        click.echo(f"{more} more; see them with --offset {offset + limit}.", err=True)
    _print_elsewhere(page.elsewhere)


def _list_fields(item: MemorySummary) -> tuple[str, ...]:
    pinned = "pinned" if item.pinned else ""
    labels = (item.kind, item.project, ",".join(item.tags), pinned)
    return (item.memory_id, item.created_at.isoformat(), *labels, item.preview)
