"""`zapomni backup` and `zapomni restore`: copies of everything that is stored, and the way back."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Mapping
from pathlib import Path

import click

from zapomni_cli.options import examples, json_option
from zapomni_cli.output import (
    Card,
    count_of,
    day,
    is_terminal,
    print_cards,
    print_json,
    print_table,
)
from zapomni_cli.runtime import naming, read_settings
from zapomni_core.exceptions import ConfigurationError
from zapomni_core.infra.encryption import is_encrypted, require_encryption
from zapomni_core.settings import Settings
from zapomni_core.workflows.backup import back_up, find_backup, list_backups
from zapomni_core.workflows.backup import restore as put_back

__all__ = ["backup", "restore"]

# What a user counts; --json has every table.
_NOUNS = {
    "memories": ("memory", "memories"),
    "chunks": ("passage", ""),
    "observations": ("observation", ""),
    "sessions": ("session", ""),
}


@click.command(
    epilog=examples(
        "zapomni backup",
        "zapomni backup --to /media/usb --keep 5",
        "zapomni backup --compact",
        "zapomni backup --encrypt --to /media/cloud",
    )
)
@click.option(
    "--to",
    type=click.Path(file_okay=False, path_type=Path),
    help="Folder for the copy; default: backups in ZAPOMNI_HOME.",
)
@click.option(
    "--keep",
    type=click.IntRange(1),
    metavar="N",
    help="Delete all but the N newest copies that were made by this command in that folder.",
)
@click.option("--compact", is_flag=True, help="Leave out free space in the file.")
@click.option("--encrypt", is_flag=True, help="Encrypt the copy with a passphrase.")
@json_option
def backup(
    *, to: Path | None, keep: int | None, compact: bool, encrypt: bool, as_json: bool
) -> None:
    """Copy everything that is stored, at any time.

    The copy is one file, checked before it gets its name, readable by you alone. Do not copy
    zapomni.db yourself while anything runs: most of it may still be in the log next to it.

    The passphrase of --encrypt is asked for, or is in ZAPOMNI_BACKUP_PASSPHRASE or in the file that
    ZAPOMNI_BACKUP_PASSPHRASE_FILE names. Without it nothing in the copy can be read again. Needs
    `pip install 'zapomni[encrypt]'`.

    Copies are also made by themselves: before the database is upgraded, before `zapomni models
    reembed` switches models, before `zapomni restore`, and once a day by `zapomni serve`. Of the
    daily ones the last 7 days and 4 weeks stay.
    """
    settings = read_settings()
    folder = to.expanduser().absolute() if to else None
    passphrase = None
    if encrypt:
        require_encryption()  # before anything is asked
        passphrase = _read_passphrase(settings, confirm=True)
    made = asyncio.run(
        back_up(settings, to=folder, keep=keep, compact=compact, passphrase=passphrase)
    )
    if made is None:
        raise click.ClickException("Nothing is stored yet, so there is nothing to back up.")
    if as_json:
        print_json(
            {
                "path": str(made.path),
                "size_bytes": made.size_bytes,
                "tables": made.tables,
                "server_path": made.server_path and str(made.server_path),
                "server_tables": made.server_tables,
                "server_changed": made.server_changed,
                "removed": [str(path) for path in made.removed],
            }
        )
        return
    click.echo(str(made.path))
    click.echo(f"{_counted(made.tables)}; {made.size_bytes / 1e6:.1f} MB, checked.", err=True)
    if made.server_path is not None:
        click.echo(f"From the server: {_counted(made.server_tables)}.", err=True)
    if made.server_changed:
        click.echo("Memories changed on the server meanwhile; each is as it was read.", err=True)
    for path in made.removed:
        click.echo(f"Deleted the older {path.name}.", err=True)


@click.command(
    epilog=examples(
        "zapomni restore",
        "zapomni restore zapomni-20261116T090210Z-manual.db",
        "zapomni restore /media/usb/zapomni-20261116T090210Z-manual.db --yes",
    )
)
@click.argument("file", required=False)
@click.option("--yes", is_flag=True, help="Do not ask.")
@json_option
def restore(*, file: str | None, yes: bool, as_json: bool) -> None:
    """Replace everything that is stored by a backup.

    Without FILE it lists the backups there are. FILE is a path, or the name of one of these. What
    is stored now is copied first, so that a restore can be taken back by another one. Agents may
    continue: they see the restored memories from their next call on.
    """
    settings = read_settings()
    if file is None:
        _list(settings, as_json=as_json)
        return
    with naming(Path(file)):
        path = find_backup(settings, file)
    if not yes:
        click.confirm(f"Replace everything that is stored by {path.name}?", abort=True, err=True)
    passphrase = _read_passphrase(settings, confirm=False) if is_encrypted(path) else None
    with naming(path):
        done = asyncio.run(put_back(settings, path, passphrase))
    if as_json:
        before = done.before and str(done.before)
        print_json(
            {
                "tables": done.tables,
                "server_tables": done.server_tables,
                "before": before,
                "problems": done.problems,
            }
        )
    else:
        click.echo(f"Restored {_counted(done.tables)}.")
        if done.server_tables is not None:
            click.echo(f"On the server: {_counted(done.server_tables)}.")
        elif settings.server is not None:
            click.echo("The server's memories are unchanged: this backup has none.", err=True)
        if done.before is not None:
            click.echo(f"What was there before: {done.before}", err=True)
        for name, problem in done.problems.items():
            click.echo(f"{name}: {problem}. Run `zapomni doctor`.", err=True)
    if done.problems:
        click.get_current_context().exit(1)


def _read_passphrase(settings: Settings, *, confirm: bool) -> str:
    """Return the passphrase of the environment or of a file, or ask; never from arguments."""
    if given := settings.backup_passphrase.get_secret_value():
        return given
    if settings.backup_passphrase_file is not None:
        try:
            lines = settings.backup_passphrase_file.expanduser().read_text("utf-8").splitlines()
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigurationError(
                "The file that backup_passphrase_file names cannot be read",
                "CONF_002",
                original_exception=error,
            ) from error
        if lines and lines[0]:
            return lines[0]
        raise ConfigurationError("The file that backup_passphrase_file names is empty", "CONF_002")
    if not sys.stdin.isatty():
        raise ConfigurationError(
            "A passphrase is needed: set ZAPOMNI_BACKUP_PASSPHRASE or "
            "ZAPOMNI_BACKUP_PASSPHRASE_FILE, or run this on a terminal",
            "CONF_002",
        )
    asked: str = click.prompt("Passphrase", hide_input=True, confirmation_prompt=confirm, err=True)
    return asked


def _list(settings: Settings, *, as_json: bool) -> None:
    found = list_backups(settings)
    if as_json:
        print_json(
            [
                {"path": str(b.path), "made_at": b.made_at.isoformat(), "reason": b.reason}
                for b in found
            ]
        )
    elif found:
        rows = [
            (b.path.name, b.reason, day(b.made_at), f"{b.path.stat().st_size / 1e6:.1f} MB")
            for b in found
        ]
        if is_terminal():
            print_cards([Card(name, about) for name, *about in rows])
        else:
            print_table(rows)
    else:
        click.echo("There is no backup yet. `zapomni backup` makes one.", err=True)


def _counted(tables: Mapping[str, int]) -> str:
    parts = [count_of(tables[t], *n) for t, n in _NOUNS.items() if t in tables]
    return ", ".join(parts)
