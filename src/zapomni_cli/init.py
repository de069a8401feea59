"""`zapomni init`: connects the agents on this machine, and disconnects them again."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from zapomni_cli.host_setup.files import diff
from zapomni_cli.host_setup.hosts import HOSTS, Host, hosts_of, server_command
from zapomni_cli.host_setup.plans import (
    Plan,
    apply,
    has_older_hooks,
    plan_install,
    plan_uninstall,
)
from zapomni_cli.host_setup.records import Records, load_records
from zapomni_cli.options import examples, json_option
from zapomni_cli.output import clean, count_of, print_json
from zapomni_core.settings import Settings, load_settings

__all__ = ["init", "list_connections", "list_outdated"]


@click.command(
    epilog=examples(
        "zapomni init --dry-run",
        "zapomni init",
        "zapomni init --host claude-code --host codex --yes",
        "zapomni init --verify",
        "zapomni init --uninstall",
    )
)
@click.option(
    "--host",
    "names",
    multiple=True,
    type=click.Choice(HOSTS),
    help="Only this host, found or not; repeatable.",
)
@click.option("--dry-run", is_flag=True, help="Show what would change, and change nothing.")
@click.option("--verbose", is_flag=True, help="Show every line that would change.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.option("--uninstall", is_flag=True, help="Take back what init wrote.")
@click.option("--verify", "trying", is_flag=True, help="Try out what is connected; change nothing.")
@json_option
def init(
    *,
    names: tuple[str, ...],
    dry_run: bool,
    verbose: bool,
    yes: bool,
    uninstall: bool,
    trying: bool,
    as_json: bool,
) -> None:
    """Connect the agents on this machine.

    Finds Claude Code, Codex, Gemini CLI, Cursor, Windsurf, VS Code, Claude Desktop, opencode,
    Copilot CLI, Qwen Code, Cline, Roo Code, Zed, Goose, Junie, Kiro and Amp, shows what it would
    change (every line of it with --verbose), asks, and registers the MCP server and the hooks in
    your user settings. Every file is first copied in its own folder; nothing is ever written into
    a project. Running it again changes nothing that is right already. At the end it names what
    earlier sessions are on this machine, and offers to import them.

    With --verify it starts the server of each connected host exactly as the host is configured to,
    asks for its tools, sends a test event through the host's hook, reads it back and removes it.
    It exits with 1 if anything is wrong, and says what to do.
    """
    if trying:
        if dry_run or yes or uninstall:
            raise click.UsageError("--verify goes with --host and --json only.")
        _verify(names, as_json=as_json)
        return
    settings = load_settings()
    records = load_records(settings.home / "init.json")
    hosts = _chosen_hosts(names, everyone=uninstall)
    make = plan_uninstall if uninstall else plan_install
    plans = [make(host, records) for host in hosts]
    if not as_json:
        _show(plans, uninstall=uninstall, verbose=verbose)
    if any(not plan.is_empty for plan in plans) and not dry_run:
        if not yes:
            _ask(uninstall=uninstall)
        _carry_out(plans, records)
        if not as_json:
            _report(plans, uninstall=uninstall)
    if as_json:
        print_json({"dry_run": dry_run, "hosts": [_as_json(plan) for plan in plans]})
    elif not dry_run and not uninstall:
        _offer_import(asking=not yes and sys.stdin.isatty())
    if any(plan.problem for plan in plans):
        click.get_current_context().exit(1)


def _offer_import(*, asking: bool) -> None:
    """Say what earlier sessions are on this machine, and import them if the user wants to."""
    from zapomni_cli.importing import describe_found, run_import
    from zapomni_cli.runtime import with_engine
    from zapomni_core.workflows.import_sources import has_sources

    home = str(Path.home())
    if not has_sources(home):
        return
    found = with_engine(lambda engine: engine.imports.list_sources(home))
    new = [one for one in found if one.new_files]
    for one in new:
        click.echo(f"Found {describe_found(one)}")
    if new and asking and click.confirm("Import now?", default=True, err=True):
        for one in new:
            run_import(one.name, yes=True)
    elif new:
        click.echo(
            "Import with: " + ", ".join(f"zapomni import {one.name}" for one in new), err=True
        )


def _chosen_hosts(names: Sequence[str], *, everyone: bool) -> list[Host]:
    from zapomni_cli.record import hook_command

    hosts = hosts_of(Path.home(), os.environ, server_command(), hook_command())
    if names:
        return [hosts[name] for name in dict.fromkeys(names)]
    found = [host for host in hosts.values() if everyone or host.is_here]
    if not found:
        raise click.ClickException(
            "No agent was found on this machine. Install one, or name it: "
            f"zapomni init --host {HOSTS[0]}. docs/hosts.md shows how to connect any other."
        )
    return found


def _verify(names: Sequence[str], *, as_json: bool) -> None:
    from zapomni_cli.host_setup.verify import is_configured, verify
    from zapomni_cli.runtime import read_settings

    hosts = _chosen_hosts(names, everyone=False)
    tried = [host for host in hosts if names or is_configured(host)]
    if not tried:
        raise click.ClickException("No agent is connected. Connect them with: zapomni init")
    settings = read_settings()
    found = {}
    for host in tried:
        found[host.name] = checks = verify(host, settings)
        if as_json:
            continue
        click.secho(host.title, bold=True)
        for check in checks:
            state = click.style("ok  ", fg="green") if check.ok else click.style("FAIL", fg="red")
            click.echo(f"  {state}  {check.name}: {clean(check.detail)}")
            if check.fix:
                click.echo(f"        {clean(check.fix)}")
    if as_json:
        print_json({name: [asdict(check) for check in checks] for name, checks in found.items()})
    if not all(check.ok for checks in found.values() for check in checks):
        click.get_current_context().exit(1)


def list_connections(settings: Settings) -> dict[str, bool]:
    """Return the hosts found on this machine, and whether each is connected."""
    from zapomni_cli.record import hook_command

    records = load_records(settings.home / "init.json")
    hosts = hosts_of(Path.home(), os.environ, server_command(), hook_command())
    plans = [plan_install(host, records) for host in hosts.values() if host.is_here]
    return {plan.host.name: plan.is_empty and not plan.problem for plan in plans}


def list_outdated() -> list[str]:
    """Return the hosts whose hooks another version of Zapomni, or one in another place, wrote."""
    from zapomni_cli.record import hook_command

    hosts = hosts_of(Path.home(), os.environ, server_command(), hook_command())
    return [host.name for host in hosts.values() if host.is_here and has_older_hooks(host)]


def _ask(*, uninstall: bool) -> None:
    if not sys.stdin.isatty():
        raise click.UsageError("There is no terminal to ask on; give --yes to go ahead.")
    verb = "Take this back?" if uninstall else "Connect?"
    click.confirm(verb, abort=True, err=True)


def _carry_out(plans: Sequence[Plan], records: Records) -> None:
    for plan in plans:
        if not plan.is_empty and not plan.problem:
            apply(plan, records)


def _show(plans: Sequence[Plan], *, uninstall: bool, verbose: bool) -> None:
    for plan in plans:
        if uninstall and plan.is_empty and not plan.problem:
            continue
        click.secho(plan.host.title, bold=True)
        if plan.problem:
            click.echo(f"  {clean(plan.problem)}")
        elif plan.is_empty:
            click.echo("  Connected already.")
        for note in plan.notes:
            click.echo(f"  {clean(note)}")
        for edit in plan.edits:
            lines = diff(edit.path, edit.before, edit.after).splitlines()
            if verbose:
                for line in lines:
                    click.secho(f"  {clean(line)}", fg={"+": "green", "-": "red"}.get(line[:1]))
            else:
                click.echo(f"  {_role(plan.host, edit.path):<6}  {_summarize(edit.path, lines)}")
        for command in plan.commands:
            click.echo(f"  server  $ {clean(' '.join(command))}")
    if uninstall and all(plan.is_empty and not plan.problem for plan in plans):
        click.echo("Nothing of Zapomni is there to take back.")
    if not verbose and any(plan.edits for plan in plans):
        click.echo(
            "The server gives agents tools; hooks record their work and give sessions context.\n"
            "Every line that changes: --verbose."
        )


def _role(host: Host, path: Path) -> str:
    """Return what of Zapomni is in a file of a host."""
    if path == host.server_file:
        return "both" if path == host.hook_file else "server"
    return "hooks"


def _summarize(path: Path, changed: Sequence[str]) -> str:
    """Return in one line how much of a file changes, of the lines of its diff."""
    added, removed = (
        sum(line.startswith(sign) and not line.startswith(sign * 3) for line in changed)
        for sign in "+-"
    )
    home = str(Path.home())
    name = str(path).replace(home, "~", 1) if str(path).startswith(home + "/") else str(path)
    counts = [
        f"{number} lines {verb}" if number != 1 else f"1 line {verb}"
        for number, verb in ((added, "added"), (removed, "removed"))
        if number
    ]
    return clean(f"{name}: {', '.join(counts) or 'changed'}")


def _report(plans: Sequence[Plan], *, uninstall: bool) -> None:
    done = [plan for plan in plans if not plan.is_empty and not plan.problem]
    if done:
        verb = "Disconnected" if uninstall else "Connected"
        names = ", ".join(plan.host.title for plan in done)
        click.echo(f"{verb} {names}.")
    for plan in [] if uninstall else done:
        click.echo(f"{plan.host.title}: {plan.host.note}")
    copies = [copy for plan in plans for copy in plan.backups]
    if copies:
        click.echo(f"{count_of(len(copies), 'copy', 'copies')} of what was there before:")
        for copy in copies:
            click.echo(f"  {copy}")
    for plan in plans:
        if plan.problem and not plan.is_empty:
            click.echo(f"{plan.host.title}: {clean(plan.problem)}", err=True)
    if not uninstall and {"archive-v0", "environments-v2"} & set(Path(sys.prefix).parts):
        click.echo(
            "This Zapomni runs from uvx's cache, which may be emptied. Install it with "
            "`uv tool install zapomni`, then run `zapomni init` again.",
            err=True,
        )
    if not uninstall and "ZAPOMNI_HOME" in os.environ:
        click.echo(
            "ZAPOMNI_HOME is set here. Set it where your agents are started too, or they use "
            "~/.zapomni.",
            err=True,
        )


def _as_json(plan: Plan) -> dict[str, Any]:
    return {
        "host": plan.host.name,
        "found": plan.host.is_here,
        "files": [
            {
                "path": str(edit.path),
                "action": _action(edit.before, edit.after),
                "diff": diff(edit.path, edit.before, edit.after),
            }
            for edit in plan.edits
        ],
        "commands": plan.commands,
        "backups": [str(copy) for copy in plan.backups],
        "notes": plan.notes,
        "next_step": plan.host.note if plan.installing and not plan.is_empty else None,
        "problem": plan.problem or None,
    }


def _action(before: str | None, after: str | None) -> str:
    if before is None:
        return "create"
    return "delete" if after is None else "change"
