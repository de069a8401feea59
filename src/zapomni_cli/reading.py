"""Commands that read: search, get, list."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import click

from zapomni_cli.observations import observation_filters, search_observations, without_filters
from zapomni_cli.options import chosen, examples, filter_options, json_option, page_options
from zapomni_cli.output import (
    clean,
    day,
    is_terminal,
    one_line,
    print_json,
    print_pairs,
    print_table,
)
from zapomni_cli.runtime import with_engine
from zapomni_core.interfaces import ListRequest, SearchRequest, SearchResult
from zapomni_db.models import MemoryRecord, MemorySummary

__all__ = ["get", "list_memories", "print_memory", "search"]

PASSAGE_CHARS = 300
PREVIEW_CHARS = 80
ID = "6f1c2a9e-1f0a-4a53-9d43-0f6f3c1b8a77"


@click.command(
    epilog=examples(
        'zapomni search "why did we leave MySQL"',
        "zapomni search deploy --project shop --tag decision --since 30d",
        'zapomni search "retry policy" --json',
        'zapomni search "retry policy" --explain',
        "zapomni search pytest --in observations --failed",
    )
)
@click.argument("query", nargs=-1, required=True)
@click.option(
    "--in",
    "where",
    type=click.Choice(["memories", "observations"]),
    default="memories",
    show_default=True,
    help="What is kept, or what agents did.",
)
@filter_options
@observation_filters
@page_options(default=10)
@click.option("--no-graph", is_flag=True, help="Leave the knowledge graph out of it.")
@click.option("--explain", is_flag=True, help="Say what spoke for each memory.")
@json_option
def search(
    query: tuple[str, ...],
    limit: int,
    offset: int,
    *,
    where: str,
    no_graph: bool,
    explain: bool,
    as_json: bool,
    **filters: Any,
) -> None:
    """Find memories by meaning and by words.

    Ask in your own words: what is found need not contain them. Each hit is the best passage
    of one memory; `zapomni get ID` shows the rest. Scores compare within one answer only. In
    a pipe each line is: score, id, time, kind, project, tags, passage, separated by tabs.

    Observations are found by AND, OR, NOT, "a phrase" and prefix*, in the current project unless
    --project or --all says else. In a pipe each line is: id, time, type, file, session, preview.
    """
    if where == "observations":
        search_observations(" ".join(query), limit, offset, as_json=as_json, filters=filters)
        return
    request = SearchRequest(
        query=" ".join(query),
        limit=limit,
        offset=offset,
        filters=chosen(without_filters(filters)),
        graph=not no_graph,
        explain=explain,
    )
    response = with_engine(lambda engine: engine.search_memory(request))
    if as_json:
        print_json(response.model_dump(mode="json"))
        return
    if response.notice:
        click.echo(response.notice, err=True)
    if not response.results:
        click.echo("Nothing found. Ask in other words, or with fewer filters.", err=True)
    elif is_terminal():
        print_table((f"{hit.score:.2f}", _passage(hit)) for hit in response.results)
    else:
        print_table(_hit_fields(hit) for hit in response.results)


def _passage(hit: SearchResult) -> str:
    lines = [one_line(hit.text, PASSAGE_CHARS), _about(hit)]
    if hit.explanation:
        lines.append(_why(hit.explanation))
    return "\n".join(lines)


def _why(explanation: dict[str, Any]) -> str:
    """Say what spoke for a hit in one line, what counted most first."""
    spoke = {**explanation["arms"], **explanation["boosts"]}
    weights = explanation["weights"]
    told = [f"{name} {value:g}" for name, value in spoke.items() if value]
    shared = ", ".join(f"{name} {weight:g}" for name, weight in weights.items() if weight)
    return f"because: {', '.join(told)}; weights: {shared}"


def _about(memory: SearchResult | MemorySummary) -> str:
    labels = (day(memory.created_at), memory.kind, memory.project)
    tags = (f"#{tag}" for tag in memory.tags)
    words = (*labels, *tags, "pinned" if memory.pinned else "", memory.memory_id)
    return "  ".join(one_line(word) for word in words if word)


def _hit_fields(hit: SearchResult) -> tuple[str, ...]:
    labels = (hit.kind, hit.project, ",".join(hit.tags))
    why = (_why(hit.explanation),) if hit.explanation else ()
    return (f"{hit.score:.4f}", hit.memory_id, hit.created_at.isoformat(), *labels, hit.text, *why)


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

    In a pipe the text comes alone, exactly as it was kept.
    """
    record = with_engine(lambda engine: engine.get_memory(memory_id))
    if as_json or is_terminal():
        print_memory(record, as_json=as_json)
    else:
        # As bytes: a text keeps its own line ends.
        click.echo(record.text.encode(), nl=False)


def print_memory(record: MemoryRecord, *, as_json: bool) -> None:
    """Print a memory with all that is known about it."""
    if as_json:
        print_json(record.model_dump(mode="json"))
        return
    known = record.model_dump(exclude={"memory_id", "preview", "text"})
    print_pairs([("id", record.memory_id), *((name, _shown(v)) for name, v in known.items() if v)])
    click.echo()
    click.echo(clean(record.text))


def _shown(value: Any) -> str:
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
@page_options(default=20)
@json_option
def list_memories(limit: int, offset: int, *, as_json: bool, **filters: Any) -> None:
    """List memories, pinned first, then newest.

    In a pipe each line is: id, time, kind, project, tags, pinned, beginning of the text,
    separated by tabs.
    """
    request = ListRequest(limit=limit, offset=offset, filters=chosen(filters))
    page = with_engine(lambda engine: engine.list_memories(request))
    if as_json:
        print_json(page.model_dump(mode="json"))
        return
    if not page.items:
        click.echo("No memories here. Keep one with `zapomni add`.", err=True)
    elif is_terminal():
        print_table([_listed(item)] for item in page.items)
    else:
        print_table(_list_fields(item) for item in page.items)
    more = page.total - offset - len(page.items)
    if page.items and more > 0:
        click.echo(f"{more} more; see them with --offset {offset + limit}.", err=True)


def _listed(item: MemorySummary) -> str:
    return f"{one_line(item.preview, PREVIEW_CHARS)}\n{_about(item)}"


def _list_fields(item: MemorySummary) -> tuple[str, ...]:
    pinned = "pinned" if item.pinned else ""
    labels = (item.kind, item.project, ",".join(item.tags), pinned)
    return (item.memory_id, item.created_at.isoformat(), *labels, item.preview)
