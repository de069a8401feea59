"""`zapomni code`: search indexed code, outline files, show symbols, callers and callees."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

import click

from zapomni_cli.options import examples, json_option
from zapomni_cli.output import (
    clean,
    count_of,
    day,
    is_terminal,
    one_line,
    print_json,
    print_table,
)
from zapomni_cli.runtime import with_engine
from zapomni_core.modules.codebase import (
    CallsRequest,
    CallsResponse,
    CodeHit,
    CodeSearchRequest,
    FolderRequest,
    OutlineRequest,
    SymbolRequest,
    SymbolResponse,
)
from zapomni_db.code_models import CodeEdge, CodeSymbol, FileEdit

__all__ = ["code"]

F = TypeVar("F", bound=Callable[..., Any])

PASSAGE_LINES = 6
LINE_CHARS = 120
PROMPT_CHARS = 300


@click.group(
    epilog=examples(
        "zapomni index",
        'zapomni code search "where is the token checked"',
        "zapomni code outline src/auth.py",
        "zapomni code symbol Session.get --history",
        "zapomni code callers check_token",
    )
)
def code() -> None:
    """Search code; show outlines, symbols and callers.

    `zapomni index` reads a repository first. A NAME may be a name (check_token), the end of a
    qualified one (Session.get), path:name or an id. What is shown is the file as it is now.
    """


def _scope_options(command: F) -> F:
    for option in (
        click.option("--all", "everywhere", is_flag=True, help="In every indexed repository."),
        click.option("--repo", default="", help="A repository's folder, name or project."),
    ):
        command = option(command)
    return command


def _scope(repo: str, *, everywhere: bool) -> dict[str, str]:
    if repo and everywhere:
        raise click.UsageError("Give --repo or --all, not both.")
    return {"repository": "*" if everywhere else repo, "folder": str(Path.cwd())}


# --- Searching ----------------------------------------------------------------------------


@code.command(
    epilog=examples(
        'zapomni code search "retry with backoff"',
        "zapomni code search parseHeader --language python --kind function",
        "zapomni code search timeout --path src/net --json",
    )
)
@click.argument("query", nargs=-1, required=True)
@click.option("--path", default="", help="Only this file or folder; the end of a path is enough.")
@click.option("--language", default="", help="Only this language: python, go, typescript, ...")
@click.option("--kind", default="", help="Only such symbols: function, method, class, section, ...")
@click.option("--limit", default=10, show_default=True, help="How many to show.")
@_scope_options
@json_option
def search(
    query: tuple[str, ...],
    *,
    path: str,
    language: str,
    kind: str,
    limit: int,
    repo: str,
    everywhere: bool,
    as_json: bool,
) -> None:
    """Find code by words, by parts of identifiers and by meaning.

    Looks in the repository the current folder lies in, or in all if it lies in none. In a pipe
    each line is: score, path:first-last line, kind, name, the passage, separated by tabs.
    """
    request = CodeSearchRequest(
        query=" ".join(query),
        path=path,
        language=language,
        kind=kind,
        limit=limit,
        **_scope(repo, everywhere=everywhere),
    )
    found = with_engine(lambda engine: engine.code.search(request))
    if as_json:
        print_json(found.model_dump(mode="json"))
        return
    if found.notice:
        click.echo(found.notice, err=True)
    if not found.hits:
        click.echo("Nothing found. Ask in other words, or with fewer filters.", err=True)
    elif is_terminal():
        print_table(((f"{hit.score:.2f}", _hit(hit)) for hit in found.hits), spaced=True)
    else:
        print_table(
            (f"{hit.score:.4f}", _place(hit), hit.kind, hit.name, hit.text) for hit in found.hits
        )


def _place(hit: CodeHit) -> str:
    return f"{hit.path}:{hit.start_line}-{hit.end_line}"


def _hit(hit: CodeHit) -> str:
    lines = [clean(line)[:LINE_CHARS] for line in hit.text.splitlines()]
    shown = lines[:PASSAGE_LINES]
    more = [f"… {count_of(len(lines) - len(shown), 'more line')}"] if lines[len(shown) :] else []
    return "\n".join([f"{_place(hit)}  {hit.kind} {hit.name}".rstrip(), *shown, *more])


# --- One file, one symbol -----------------------------------------------------------------


@code.command(epilog=examples("zapomni code files", "zapomni code files src --repo shop --json"))
@click.argument("folder", default="")
@click.option("--repo", default="", help="A repository's folder, name or project.")
@json_option
def files(folder: str, *, repo: str, as_json: bool) -> None:
    """List the files and folders of an indexed repository.

    Those in FOLDER, by default in its root. In a pipe each line is: path, language, lines, symbols,
    separated by tabs; of a folder, which ends with a slash, its files and lines.
    """
    request = FolderRequest(path=folder, repository=repo, folder=str(Path.cwd()))
    found = with_engine(lambda engine: engine.code.list_files(request))
    if as_json:
        print_json(found.model_dump(mode="json"))
        return
    print_table(
        (f"{one.path}/", "", count_of(one.lines, "line"), count_of(one.files, "file"))
        for one in found.folders
    )
    print_table(
        (one.path, one.language, count_of(one.lines, "line"), count_of(one.symbols, "symbol"))
        for one in found.files
    )


@code.command(
    epilog=examples("zapomni code outline src/auth.py", "zapomni code outline auth.py --json")
)
@click.argument("path")
@_scope_options
@json_option
def outline(path: str, *, repo: str, everywhere: bool, as_json: bool) -> None:
    """Show a file's symbols in order.

    In a pipe each line is: first line, last line, kind, qualified name, signature, separated by
    tabs.
    """
    request = OutlineRequest(path=path, **_scope(repo, everywhere=everywhere))
    found = with_engine(lambda engine: engine.code.get_outline(request))
    if as_json:
        print_json(found.model_dump(mode="json"))
        return
    if found.candidates:
        click.echo("Several files have this path:", err=True)
        print_table([candidate] for candidate in found.candidates)
        return
    _say_state(found.state)
    if is_terminal():
        width = max((len(str(symbol.end_line)) for symbol in found.symbols), default=1)
        for symbol in found.symbols[1:]:
            indent = "  " * max(symbol.depth - 1, 0)
            head = one_line(symbol.signature or f"{symbol.kind} {symbol.name}", LINE_CHARS)
            click.echo(f"{symbol.start_line:>{width}}  {indent}{head}")
    else:
        print_table(
            (str(one.start_line), str(one.end_line), one.kind, one.qualified_name, one.signature)
            for one in found.symbols[1:]
        )


def _say_state(state: str) -> None:
    notices = {
        "changed": "It has changed since it was indexed; this is how it is now.",
        "gone": "It is no longer in the file; this is how it was indexed.",
    }
    if state in notices:
        click.echo(notices[state], err=True)


@code.command(
    epilog=examples(
        "zapomni code symbol Session.get",
        "zapomni code symbol src/auth.py:check_token",
        "zapomni code symbol check_token --history",
    )
)
@click.argument("name", metavar="NAME")
@click.option("--history", is_flag=True, help="Show its edits, their reasons, and what failed.")
@_scope_options
@json_option
def symbol(name: str, *, history: bool, repo: str, everywhere: bool, as_json: bool) -> None:
    """Show a symbol's exact source, as it is in the file now.

    In a pipe the source comes alone.
    """
    request = SymbolRequest(name=name, history=history, **_scope(repo, everywhere=everywhere))
    found = with_engine(lambda engine: engine.code.get_symbol(request))
    if as_json:
        print_json(found.model_dump(mode="json"))
    elif found.symbol is None:
        _print_candidates(found.candidates)
    else:
        _print_symbol(found, found.symbol, history=history)


def _print_symbol(found: SymbolResponse, one: CodeSymbol, *, history: bool) -> None:
    _say_state(found.state)
    if is_terminal():
        name = one.qualified_name or one.name
        where = f"{one.path}:{one.start_line}-{one.end_line}"
        click.echo(click.style(one_line(f"{where}  {one.kind} {name}  id {one.id}"), bold=True))
        click.echo(clean(found.source))
    else:
        click.echo(found.source.encode())
    if not history:
        return
    if not found.edits:
        click.echo("No agent was seen editing it.", err=True)
    elif found.edits_of_file:
        click.echo("No edit names it; these are its file's:", err=True)
    print_table(
        (day(datetime.fromtimestamp(edit.timestamp, UTC)), _edit(edit)) for edit in found.edits
    )


def _edit(edit: FileEdit) -> str:
    lines = [f"#{edit.observation_id}  {edit.host}  session {edit.session_id}"]
    if edit.prompt:
        lines.append(f"asked: {one_line(edit.prompt, PROMPT_CHARS)}")
    lines.append(f"did: {one_line(edit.content, PROMPT_CHARS)}")
    lines += [
        f"then failed: {one_line(failure.content, PROMPT_CHARS)} (#{failure.observation_id})"
        for failure in edit.failures
    ]
    return "\n".join(lines)


def _print_candidates(candidates: Iterable[CodeSymbol]) -> None:
    click.echo("Several are meant; give path:name or an id:", err=True)
    print_table(
        (str(one.id), one.kind, f"{one.path}:{one.start_line}", one.qualified_name)
        for one in candidates
    )


# --- Calls --------------------------------------------------------------------------------


def _calls_options(command: F) -> F:
    limit = click.option("--limit", default=50, show_default=True, help="How many to show.")
    for option in (json_option, _scope_options, limit, click.argument("name", metavar="NAME")):
        command = option(command)
    return command


@code.command(
    epilog=examples("zapomni code callers check_token", "zapomni code callers Session.get --json")
)
@_calls_options
def callers(name: str, *, limit: int, repo: str, everywhere: bool, as_json: bool) -> None:
    """Show what refers to a symbol.

    That is what calls it, inherits from it, overrides it, is decorated by it or uses it by name
    (passes it on, puts it into a table), and which decorator registers it. The surest come first:
    1.00 by scope or import, less by inferred type, 0.10 where only the name is the same. In a pipe
    each line is: strength, kind, path:line, who, separated by tabs.
    """
    request = CallsRequest(name=name, limit=limit, **_scope(repo, everywhere=everywhere))
    found = with_engine(lambda engine: engine.code.find_callers(request))
    _print_calls(found, _caller, as_json=as_json)


@code.command(
    epilog=examples("zapomni code callees check_token", "zapomni code callees Session --json")
)
@_calls_options
def callees(name: str, *, limit: int, repo: str, everywhere: bool, as_json: bool) -> None:
    """Show what a symbol refers to, in the order of its lines.

    That is what it calls, inherits from, overrides, is decorated by or uses by name.

    In a pipe each line is: strength, kind, path:line, whom, separated by tabs.
    """
    request = CallsRequest(name=name, limit=limit, **_scope(repo, everywhere=everywhere))
    found = with_engine(lambda engine: engine.code.find_callees(request))
    _print_calls(
        found,
        lambda edge: edge.name if edge.callee is None else _named(edge.callee),
        as_json=as_json,
    )


def _caller(edge: CodeEdge) -> str:
    return _named(edge.caller) + (f" by @{edge.name}" if edge.kind == "register" else "")


def _named(one: CodeSymbol) -> str:
    return f"{one.path}:{one.qualified_name}" if one.qualified_name else one.path


def _print_calls(found: CallsResponse, other: Callable[[CodeEdge], str], *, as_json: bool) -> None:
    if as_json:
        print_json(found.model_dump(mode="json"))
        return
    if found.symbol is None:
        _print_candidates(found.candidates)
        return
    if not found.edges:
        click.echo("None that is known.", err=True)
    print_table(
        (f"{edge.strength:.2f}", edge.kind, f"{edge.caller.path}:{edge.line}", other(edge))
        for edge in found.edges
    )
    if found.more:
        click.echo(f"There are more than {len(found.edges)}; see them with --limit.", err=True)


# --- What is indexed ----------------------------------------------------------------------


@code.command(name="list", epilog=examples("zapomni code list", "zapomni code list --json"))
@json_option
def list_repositories(*, as_json: bool) -> None:
    """List what was indexed.

    In a pipe each line is: folder, files, lines, symbols, when, separated by tabs.
    """
    found = with_engine(lambda engine: engine.code.list_repositories())
    if as_json:
        print_json([one.model_dump(mode="json") for one in found])
    elif not found:
        click.echo("Nothing is indexed. `zapomni index PATH` reads a repository.", err=True)
    print_table(
        (
            one.root,
            count_of(one.files, "file"),
            count_of(one.lines, "line"),
            count_of(one.symbols, "symbol"),
            day(one.indexed_at) if one.indexed_at else "not finished",
        )
        for one in (() if as_json else found)
    )


@code.command(epilog=examples("zapomni code forget ~/src/shop"))
@click.argument("repository", metavar="REPOSITORY")
@json_option
def forget(repository: str, *, as_json: bool) -> None:
    """Take a repository out of the index.

    Nothing in its folder is touched. If it is being indexed, that is stopped first.

    REPOSITORY is its folder, name or project. `zapomni index` reads it again.
    """
    done = with_engine(lambda engine: engine.code.forget(repository, str(Path.cwd())))
    if as_json:
        print_json(done.model_dump(mode="json"))
    else:
        click.echo(f"Forgot {count_of(done.files, 'file')} of {one_line(done.name)}.")
