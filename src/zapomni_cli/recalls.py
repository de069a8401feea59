"""`zapomni recalls`: what was given to agents and people, and what of it was used."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import click

from zapomni_cli.options import chosen, examples, json_option, page_options, since_options
from zapomni_cli.output import (
    Card,
    count_of,
    day,
    is_terminal,
    one_line,
    print_cards,
    print_json,
    print_table,
)
from zapomni_cli.runtime import read_settings, with_observations
from zapomni_core.infra.recall_log import recall_log
from zapomni_core.modules.observations import Observations
from zapomni_core.shared.validation import validate_page
from zapomni_db.recall_models import OCCASIONS, LoggedRecall, RecallFilter, name_project

__all__ = ["recalls"]

QUERY_CHARS = 100


@click.command(
    epilog=examples(
        "zapomni recalls",
        "zapomni recalls --session 5f2c --json",
        "zapomni recalls --how prompt --unused --since 7d",
        "zapomni recalls --item 4711",
    )
)
@click.option("--session", help="Only this session; the beginning of its id is enough.")
@click.option("--project", help="Only this project: its key or its name.")
@click.option("--how", type=click.Choice(OCCASIONS), help="Only recalls of this occasion.")
@click.option("--item", metavar="ID", help="Only where this memory or observation was given.")
@click.option("--used/--unused", default=None, help="Only where something was used, or nothing.")
@since_options
@page_options(default=20)
@json_option
def recalls(  # noqa: PLR0913 - every option is an argument
    session: str | None,
    project: str | None,
    how: str | None,
    item: str | None,
    since: datetime | None,
    until: datetime | None,
    limit: int,
    offset: int,
    *,
    used: bool | None,
    as_json: bool,
) -> None:
    """List what was given, and what of it was used.

    To agents and to people, newest first. A session is given memories at its start, with a prompt
    or after a failure; the others were asked for, by a tool or a command. An item counts as used if
    it was opened, cited or named in the agent's answer after it was given. Questions are stored
    without secrets, for as long as the setting recall_retention_days says; `zapomni stats` sums up
    the tokens. In a pipe each line is: number, time, occasion, client, session, project, tokens,
    items used, items, question.
    """
    validate_page(limit, offset)
    settings = read_settings()

    async def find(observations: Observations) -> tuple[list[str] | None, dict[str, str]]:
        keys = await observations.everywhere(str(Path.cwd()))
        if project is not None:
            keys = await observations.project_keys(project)
        elif keys is not None:
            keys.append("")  # Outside of any project.
        return keys, {one.key: one.name for one in await observations.projects()}

    keys, names = with_observations(find, settings)
    filters = RecallFilter(
        session=session,
        projects=keys,
        how=how,
        item=None if item is None else item.removeprefix("#"),
        since=None if since is None else int(since.timestamp()),
        until=None if until is None else int(until.timestamp()),
        used=used,
        limit=limit,
        offset=offset,
    )
    found = recall_log(settings).list_recalls(filters)
    if as_json:
        print_json([one.to_json(names) for one in found])
    elif not found:
        given = chosen({"session": session, "project": project, "how": how, "item": item})
        some = "No recall passes these filters." if given or used is not None else NOTHING
        click.echo(some, err=True)
    elif is_terminal():
        print_cards([_card(one, names) for one in found])
    else:
        print_table(_fields(one, names) for one in found)


NOTHING = "Nothing was recalled yet. `zapomni init` connects agents; `zapomni search` counts, too."


def _card(recall: LoggedRecall, names: dict[str, str]) -> Card:
    used = sum(item.used_at is not None for item in recall.items)
    items = f"{count_of(len(recall.items), 'item')}, {used} used"
    about = (_when(recall), recall.how, recall.client, name_project(recall.project, names))
    session = f"session {recall.session[:8]}" if recall.session else ""
    title = one_line(recall.query, QUERY_CHARS) or f"Without a question: {recall.how}"
    return Card(title, (*about, session, items, count_of(recall.tokens, "token")))


def _fields(recall: LoggedRecall, names: dict[str, str]) -> tuple[str, ...]:
    project = name_project(recall.project, names)
    ids = ",".join(item.id for item in recall.items)
    taken = ",".join(item.id for item in recall.items if item.used_at is not None)
    about = (_when(recall), recall.how, recall.client, recall.session, project)
    return (str(recall.id), *about, str(recall.tokens), taken, ids, recall.query)


def _when(recall: LoggedRecall) -> str:
    return day(datetime.fromtimestamp(recall.at, UTC))
