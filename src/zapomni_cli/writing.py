"""Commands that write: add, update, pin."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from zapomni_cli.options import (
    chosen,
    cites_option,
    examples,
    expires_option,
    global_option,
    json_option,
    label_options,
    near_kind,
    redact_option,
    when_option,
)
from zapomni_cli.output import (
    count_of,
    day,
    fit_install,
    is_terminal,
    one_line,
    print_json,
    progress_bar,
    short_id,
)
from zapomni_cli.reading import print_memory
from zapomni_cli.runtime import read_stdin, with_engine, with_observations
from zapomni_core.adapters.documents import read_document
from zapomni_core.engine import ZapomniEngine
from zapomni_core.exceptions import (
    EmbeddingError,
    ProcessingError,
    ValidationError,
    ZapomniError,
)
from zapomni_core.infra.projects import find_repository
from zapomni_core.interfaces import (
    AddMemoryRequest,
    AddMemoryResponse,
    UpdatedMemory,
    UpdateMemoryRequest,
)
from zapomni_db.models import MemoryRecord

__all__ = ["add", "fill_vectors", "pin", "update"]


@click.command(
    epilog=examples(
        'zapomni add "The build needs Node 22; 24 breaks the icons."',
        'zapomni add "Use uv, not pip." --global --tag tooling --kind preference',
        "git log -1 --format=%B | zapomni add - --source git",
        "zapomni add --file docs/setup.md --file paper.pdf --tag manual",
        'zapomni add "Tokens expire after an hour." --cites src/auth.py:check_token',
        'zapomni add "Never merge to main this week: release freeze." --expires 7d',
    )
)
@click.argument("text", nargs=-1)
@click.option(
    "--file",
    "files",
    multiple=True,
    type=click.Path(path_type=Path),
    help="A text, Markdown, HTML, PDF or DOCX file; repeatable.",
)
@label_options
@global_option
@click.option("--pin", "pinned", is_flag=True, help="Pin it: listed first.")
@click.option("--key", "idempotency_key", help="The same key again keeps nothing twice.")
@click.option("--supersedes", metavar="ID", help="The memory this one replaces.")
@click.option("--parent", help="The conversation or document it is a part of.")
@click.option("--position", type=int, help="Its place in its parent.")
@redact_option
@cites_option
@when_option
@expires_option
@json_option
def add(text: tuple[str, ...], files: tuple[Path, ...], *, as_json: bool, **labels: Any) -> None:
    """Add a memory from a text or files.

    TEXT may be - to read standard input. Inside a repository it belongs to that project, unless
    --project or --global says else; elsewhere it is global. The same text in the same project is
    stored once. In a pipe the ids come alone, one a line. What looks like a secret is reported by
    its kind, and masked with --redact. If it resembles current memories of the project, they are
    shown with the command that says it replaces them. PDF, DOCX and HTML files need the extra
    `docs`:
    pip install 'zapomni[docs]'.
    """
    if bool(text) == bool(files):
        raise click.UsageError("Give a TEXT (or - for standard input) or --file, not both.")
    given = {**chosen(labels), "folder": str(Path.cwd())}
    if given.pop("everywhere", False):
        if "project" in given:
            raise click.UsageError("Give --project or --global, not both.")
        given["project"] = "*"
    if files:
        _add_files(files, given, as_json=as_json)
    else:
        words = read_stdin() if text == ("-",) else " ".join(text)
        request = AddMemoryRequest(text=words, **given)
        with_engine(lambda engine: _add_text(engine, request, as_json=as_json))


async def _add_text(engine: ZapomniEngine, request: AddMemoryRequest, *, as_json: bool) -> None:
    if request.supersedes:
        whole = await engine.memories.complete_id(request.supersedes)
        request = request.model_copy(update={"supersedes": whole})
    response = await engine.add_memory(request)
    if as_json:
        print_json(response.model_dump(mode="json"))
    else:
        _print_added(response, request.kind)
    if response.pending_vectors:
        await fill_vectors(engine)


def _print_added(response: AddMemoryResponse, kind: str, name: str = "") -> None:
    if is_terminal():
        verb = "Added" if response.status == "created" else "Already stored:"
        passages = f" ({count_of(response.chunks_created, 'passage')})"
        size = passages if response.chunks_created else ""
        click.echo(f"{verb} {f'{name}: ' if name else ''}{short_id(response.memory_id)}{size}")
    else:
        click.echo(response.memory_id)
    # That it was stored before, the line above says.
    if response.notice and not (response.status == "duplicate" and is_terminal()):
        click.echo(response.notice, err=True)
    if near := near_kind(kind):
        click.echo(
            f"Its kind is {one_line(kind, 40)!r}. If that is a typing error: "
            f"zapomni update {short_id(response.memory_id)} --kind {near}",
            err=True,
        )
    for one in response.similar:
        click.echo(f"Similar, {day(one.occurred_at)}: {one_line(one.text)}", err=True)
        click.echo(
            f"  If it is replaced: zapomni update {short_id(response.memory_id)} --supersedes "
            f"{short_id(one.memory_id)}",
            err=True,
        )


async def fill_vectors(engine: ZapomniEngine) -> None:
    """Make missing vectors while the user watches; the text is stored whatever happens."""
    try:
        # A program that reads our output may use the id.
        sys.stdout.flush()
        with progress_bar("Making vectors") as report:
            await engine.memories.fill_pending(report)
    except EmbeddingError:
        # Why there are no vectors was said when the text was stored.
        return
    except asyncio.CancelledError:
        click.echo("The text is stored. `zapomni models reembed` makes its vectors.", err=True)
        raise


def _add_files(files: Sequence[Path], labels: dict[str, Any], *, as_json: bool) -> None:
    if len(files) > 1 and labels.keys() & {"idempotency_key", "supersedes", "position"}:
        raise click.UsageError("--key, --supersedes and --position go with one file only.")

    async def work(engine: ZapomniEngine) -> list[ZapomniError]:
        done: list[tuple[Path, AddMemoryResponse | ZapomniError]] = []
        with progress_bar("Adding files") as report:
            for number, path in enumerate(files, 1):
                done.append((path, await _add_file(engine, path, labels)))
                report(number, len(files))
        added = [(path, one) for path, one in done if isinstance(one, AddMemoryResponse)]
        failed = [(path, one) for path, one in done if isinstance(one, ZapomniError)]
        for path, response in () if as_json else added:
            _print_added(response, labels.get("kind", ""), str(path))
        for path, error in failed:
            click.echo(f"{path}: {fit_install(error.message)}", err=True)
        if as_json:
            print_json(
                {
                    "added": [
                        {"file": str(path), **one.model_dump(mode="json")} for path, one in added
                    ],
                    "failed": [
                        {"file": str(path), "error": one.message, "error_code": one.error_code}
                        for path, one in failed
                    ],
                }
            )
        if any(response.pending_vectors for _, response in added):
            await fill_vectors(engine)
        return [error for _, error in failed]

    if failed := with_engine(work):
        wrong_input = all(error.error_code.startswith("VAL_") for error in failed)
        click.get_current_context().exit(2 if wrong_input else 1)


async def _add_file(
    engine: ZapomniEngine, path: Path, labels: dict[str, Any]
) -> AddMemoryResponse | ZapomniError:
    """Add a file; return what was wrong with it if it cannot be added: the others still can."""
    try:
        document = read_document(path)
        metadata = {**document.metadata, "format": document.kind, **labels.get("metadata", {})}
        defaults = {"kind": "document", "source": _source_of(path)}
        return await engine.add_memory(
            AddMemoryRequest(**{**defaults, **labels, "text": document.text, "metadata": metadata})
        )
    except (ProcessingError, ValidationError) as error:
        return error


def _source_of(path: Path) -> str:
    """Return where a file is in the repository around it; elsewhere its name alone."""
    real = path.resolve()
    found = find_repository(str(real.parent))
    return real.relative_to(found[0]).as_posix() if found else path.name


@click.command(
    epilog=examples(
        'zapomni update ID --text "We deploy on Wednesdays."',
        "zapomni update ID --project shop --tag deploy --tag rules",
        "zapomni update ID --no-tags",
        "zapomni update ID --supersedes OLD_ID",
    )
)
@click.argument("memory_id", metavar="ID")
@click.option("--text", help="The new text; - reads standard input.")
@click.option("--file", type=click.Path(path_type=Path), help="Take the new text from a file.")
@label_options
@global_option
@click.option("--no-tags", is_flag=True, help="Take all tags away.")
@click.option(
    "--supersedes", multiple=True, metavar="ID", help="A memory that it replaces; repeatable."
)
@redact_option
@cites_option
@expires_option
@json_option
def update(memory_id: str, *, as_json: bool, **options: Any) -> None:
    """Change a memory.

    What is not given stays as it is. Tags, metadata and citations given replace the old ones.
    """
    given = chosen(options)
    if {"text", "file"} <= given.keys() or {"tags", "no_tags"} <= given.keys():
        raise click.UsageError("Give --text or --file, and --tag or --no-tags, not both.")
    if not given:
        raise click.UsageError("Say what to change, such as --text or --tag.")
    changes = dict(given)
    if changes.pop("everywhere", False):
        if "project" in changes:
            raise click.UsageError("Give --project or --global, not both.")
        changes["project"] = "*"
    if changes.pop("no_tags", False):
        changes["tags"] = []
    if changes.get("text") == "-":
        changes["text"] = read_stdin()
    if path := changes.pop("file", None):
        try:
            changes["text"] = read_document(path).text
        except ProcessingError as error:
            raise click.ClickException(f"{path}: {fit_install(error.message)}") from error
    request = UpdateMemoryRequest(memory_id=memory_id, folder=str(Path.cwd()), **changes)
    record = with_engine(lambda engine: _update(engine, request))
    _print_changed(record, "Changed", as_json=as_json)
    if record.notice:
        click.echo(record.notice, err=True)


async def _update(engine: ZapomniEngine, request: UpdateMemoryRequest) -> UpdatedMemory:
    whole = engine.memories.complete_id
    ids = {"memory_id": await whole(request.memory_id)}
    older = {"supersedes": [await whole(one) for one in request.supersedes or ()] or None}
    return await engine.update_memory(request.model_copy(update={**ids, **older}))


def _print_changed(record: MemoryRecord, verb: str, *, as_json: bool) -> None:
    if as_json:
        print_memory(record, as_json=True)
    else:
        click.echo(f"{verb} {short_id(record.memory_id)}" if is_terminal() else record.memory_id)


@click.command(
    epilog=examples("zapomni pin ID", "zapomni pin ID --off", "zapomni pin --observation 42")
)
@click.argument("memory_id", metavar="ID")
@click.option("--observation", is_flag=True, help="The ID is an observation's.")
@click.option("--off", is_flag=True, help="Unpin it.")
@json_option
def pin(memory_id: str, *, observation: bool, off: bool, as_json: bool) -> None:
    """Pin a memory, or unpin it with --off.

    Pinned memories come first in `zapomni list`. Pinned observations stay for ever.
    """
    if observation:
        pinned = not off
        number = int(memory_id) if memory_id.isascii() and memory_id.isdigit() else -1
        with_observations(lambda observations: observations.pin(number, pinned=pinned))
        if as_json:
            print_json({"id": number, "pinned": pinned})
        else:
            verb = "Pinned" if pinned else "Unpinned"
            click.echo(f"{verb} {number}" if is_terminal() else str(number))
        return
    request = UpdateMemoryRequest(memory_id=memory_id, pinned=not off)
    record = with_engine(lambda engine: _update(engine, request))
    _print_changed(record, "Unpinned" if off else "Pinned", as_json=as_json)
