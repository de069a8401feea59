"""Working out what has to change for a host, and doing it."""

from __future__ import annotations

import os
import shutil
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

from zapomni_cli.host_setup import entries
from zapomni_cli.host_setup.files import UnfitFileError, back_up, read, replace
from zapomni_cli.host_setup.hosts import MARK, Host
from zapomni_cli.host_setup.records import ABSENT, FileRecord, Records, fingerprint

__all__ = ["Edit", "Plan", "apply", "has_older_hooks", "plan_install", "plan_uninstall"]

COMMAND_TIMEOUT = 60


@dataclass(frozen=True)
class Edit:
    """A file's text before and after; None where there is no file."""

    path: Path
    before: str | None
    after: str | None


@dataclass
class Plan:
    """What to do for one host.

    Attributes:
        host: The host.
        installing: Whether to connect it or to disconnect it.
        edits: Files to change, before the commands run.
        commands: The host's own commands to run.
        way: How the server is registered, if it has to be: "command" or "file".
        notes: What the user should know.
        problem: Why nothing, or not all, was or can be done.
        backups: Copies made of files before they were changed.
    """

    host: Host
    installing: bool
    edits: list[Edit] = field(default_factory=list)
    commands: list[list[str]] = field(default_factory=list)
    way: str = ""
    notes: list[str] = field(default_factory=list)
    problem: str = ""
    backups: list[Path] = field(default_factory=list)

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to do."""
        return not self.edits and not self.commands


def plan_install(host: Host, records: Records) -> Plan:
    """Work out how to connect a host. Changes nothing."""
    plan = Plan(host, installing=True)
    texts: dict[Path, str | None] = {}
    try:
        if (
            host.hook_file
            and host.name == "claude-code"
            and entries.has_plugin(read(host.hook_file))
        ):
            plan.notes.append("The plugin is installed; it brings the server and the hooks.")
            return plan
        _plan_server(plan, records, texts)
        if host.hook_file:
            text = texts.get(host.hook_file, read(host.hook_file))
            if not entries.has_hooks(text, host):
                texts[host.hook_file] = entries.add_hooks(text, host)
        _plan_scripts(host, texts)
    except (OSError, UnfitFileError) as error:
        return _refused(host, error, installing=True)
    plan.edits = [Edit(path, read(path), text) for path, text in texts.items()]
    return plan


def _plan_scripts(host: Host, texts: dict[Path, str | None]) -> None:
    for path, script in host.scripts.items():
        before = read(path)
        if before is not None and MARK not in before:
            raise UnfitFileError(f"{path} was not written by zapomni")
        if before != script:
            texts[path] = script


def has_older_hooks(host: Host) -> bool:
    """Return whether hooks of ours are there, but not those that would be written now."""
    try:
        text = host.hook_file and read(host.hook_file)
        if text and entries.remove_hooks(text, host) != text:
            return not entries.has_hooks(text, host)
        scripts = {path: read(path) or "" for path in host.scripts}
    except (OSError, UnfitFileError):
        return False  # The plan says what is wrong.
    return any(MARK in found for found in scripts.values()) and scripts != host.scripts


def _plan_server(plan: Plan, records: Records, texts: dict[Path, str | None]) -> None:
    host, file = plan.host, plan.host.server_file
    present = entries.find_server(read(file), host)
    if present is not None and entries.is_our_server(present, host):
        return
    if present is not None and host.name not in records.servers:
        program = present.get("command")
        if not isinstance(program, str) or shutil.which(program):
            plan.notes.append(
                "It has a server named zapomni that was set up by hand; left as it is."
            )
            return
    if command := host.add_command():
        forget = host.remove_command() if present is not None else None
        plan.way, plan.commands = "command", [*([forget] if forget else []), command]
    else:
        plan.way = "file"
        texts[file] = entries.add_server(read(file), host)


def plan_uninstall(host: Host, records: Records) -> Plan:
    """Work out how to take back what was written for a host. Changes nothing."""
    plan = Plan(host, installing=False)
    texts: dict[Path, str | None] = {}
    try:
        present = entries.find_server(read(host.server_file), host)
        ours = present is not None and (
            host.name in records.servers or entries.is_our_server(present, host)
        )
        if ours:
            by_command = records.servers.get(host.name) == "command"
            forget = host.remove_command() if by_command else None
            if forget:
                plan.commands = [forget]
            else:
                text = read(host.server_file)
                texts[host.server_file] = entries.remove_server(text or "", host)
        if host.hook_file:
            before = read(host.hook_file)
            text = texts.get(host.hook_file, before)
            if text and (cut := entries.remove_hooks(text, host)) != text:
                texts[host.hook_file] = cut
        texts |= {path: None for path in host.scripts if MARK in (read(path) or "")}
        plan.edits = [_restoration(path, text, host, records) for path, text in texts.items()]
        if any(_is_without_server(edit, host) for edit in plan.edits):
            # The file gets back what it had: nothing is left for the host to do.
            plan.commands = []
    except (OSError, UnfitFileError) as error:
        return _refused(host, error, installing=False)
    return plan


def _is_without_server(edit: Edit, host: Host) -> bool:
    return edit.path == host.server_file and entries.find_server(edit.after, host) is None


def _restoration(path: Path, cut: str | None, host: Host, records: Records) -> Edit:
    """Restore the original if it was not changed since, else remove only our entries."""
    before = read(path)
    record = records.files.get(str(path))
    if record is None or before is None or cut is None:
        return Edit(path, before, cut)
    if record.written == fingerprint(before) and record.original is not None:
        if record.original == ABSENT:
            return Edit(path, before, None)
        original = read(Path(record.original))
        if original is not None:
            return Edit(path, before, original)
    gone = record.created and entries.has_nothing_else(cut, host)
    return Edit(path, before, None if gone else cut)


def _refused(host: Host, error: Exception, *, installing: bool) -> Plan:
    why = os.strerror(error.errno or 0) if isinstance(error, OSError) else str(error)
    touched = dict.fromkeys([host.server_file, host.hook_file, *host.scripts])
    files = " or ".join(str(file) for file in touched if file)
    problem = f"{files} cannot be changed safely: {why}. Nothing was changed."
    return Plan(host, installing=installing, problem=problem)


def apply(plan: Plan, records: Records) -> None:
    """Carry a plan out; what could not be done is said in its `problem`."""
    try:
        for edit in plan.edits:
            _write(plan, edit, records)
        if plan.commands:
            _run_commands(plan, records)
            _remember_commands(plan, records)
        if plan.way:
            records.servers[plan.host.name] = plan.way
        elif not plan.installing:
            records.servers.pop(plan.host.name, None)
    except (OSError, UnfitFileError) as error:
        why = os.strerror(error.errno or 0) if isinstance(error, OSError) else str(error)
        plan.problem = f"It could not be finished: {why}."
    finally:
        records.save()


def _write(plan: Plan, edit: Edit, records: Records) -> None:
    if read(edit.path) != edit.before:
        raise UnfitFileError(f"{edit.path} was just changed by another program; run this again")
    name = str(edit.path)
    previous = records.files.get(name)
    unchanged = (
        previous is not None
        and edit.before is not None
        and previous.written == fingerprint(edit.before)
    )
    original = previous.original if previous and unchanged else None
    if edit.before is None:
        original = ABSENT
    elif original is None or (original != ABSENT and not Path(original).exists()):
        copy = back_up(edit.path)
        plan.backups.append(copy)
        original = str(copy) if plan.installing and _is_free_of_ours(edit, plan.host) else None
    replace(edit.path, edit.after)
    if plan.installing and edit.after is not None:
        created = edit.before is None or bool(previous and previous.created)
        records.files[name] = FileRecord(fingerprint(edit.after), original, created)
    elif not plan.installing:
        records.files.pop(name, None)
        if original and edit.after == read(Path(original)):
            # The file is the copy again.
            Path(original).unlink(missing_ok=True)


def _is_free_of_ours(edit: Edit, host: Host) -> bool:
    text = edit.before
    if text is None:
        return True
    if edit.path in host.scripts:
        return False
    if edit.path == host.server_file and entries.find_server(text, host) is not None:
        return False
    return edit.path != host.hook_file or entries.remove_hooks(text, host) == text


def _run_commands(plan: Plan, records: Records) -> None:
    host = plan.host
    outputs = [_run(command) for command in plan.commands]
    text = read(host.server_file)
    present = entries.find_server(text, host)
    if plan.installing:
        if present is not None and entries.is_our_server(present, host):
            return
        plan.way = "file"
        edit = Edit(host.server_file, text, entries.add_server(text, host))
    else:
        if present is None:
            return
        edit = Edit(host.server_file, text, entries.remove_server(text or "", host))
    # The host's own command did not do it: its file is changed as for a host without one.
    plan.notes.append(f"`{host.program} mcp` did not work ({outputs[-1]}); its file was changed.")
    plan.edits.append(edit)
    _write(plan, edit, records)


def _remember_commands(plan: Plan, records: Records) -> None:
    """Count what the host's command did to a file that we wrote too as ours."""
    name = str(plan.host.server_file)
    if plan.installing and (record := records.files.get(name)):
        text = read(plan.host.server_file) or ""
        records.files[name] = FileRecord(fingerprint(text), record.original, record.created)


def _run(command: list[str]) -> str:
    """Run a host's command and return what it said last, or how it ended."""
    try:
        done = subprocess.run(  # noqa: S603 - the host's own program, found on PATH
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=COMMAND_TIMEOUT,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return type(error).__name__
    said = (done.stderr or done.stdout).decode(errors="replace").strip().splitlines()
    return said[-1][:200] if said else f"exit code {done.returncode}"
