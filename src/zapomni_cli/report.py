"""`zapomni doctor --report`: what a bug report needs, in one file without any stored text."""

from __future__ import annotations

import json
import os
import platform
import re
import sqlite3
import sys
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path
from typing import Any

import click

from zapomni_cli.init import list_connections, list_outdated
from zapomni_cli.output import print_json
from zapomni_cli.runtime import read_settings, with_engine, with_observations
from zapomni_core.exceptions import ConfigurationError, ZapomniError
from zapomni_core.modules.observations import spool_state
from zapomni_core.settings import Settings, explain_settings
from zapomni_core.shared.addresses import DEFAULT_GRAPH
from zapomni_core.workflows.check_health import CheckResult

__all__ = ["write_report"]

# Settings whose values are words of our own, never a path, an address or a name.
PLAIN_SETTINGS = frozenset(["embedder", "extractor", "trust", "log_level"])
_NAME = re.compile(r"[\w.-]+")
_PATH = re.compile(r"(?<![\w:/.])~?/[^\s,;:'\"`)]+")
_ADDRESS = re.compile(r"\w+://[^\s,;'\"`)]+")


def write_report(results: Sequence[CheckResult], file: str) -> None:
    """Write the report; `-` is standard output.

    It has versions, counts, states and settings that are words or numbers of our own. It has no
    text, no project, no path and no address.
    """
    try:
        settings = read_settings()
    except ConfigurationError:
        settings = None  # One of the checks says so.
    private = _private_words(settings)
    report: dict[str, Any] = {
        "versions": _versions(),
        "checks": [
            {
                "name": one.name,
                "status": one.status,
                "detail": _mask(one.detail, private),
                "fix": _mask(one.fix, private),
            }
            for one in results
        ],
    }
    if settings is not None:
        report |= {
            "settings": _settings(settings),
            "counts": _counts(settings),
            "hosts": list_connections(settings),
            "outdated_hooks": list_outdated(),
            "spool": {name: spool_state(str(settings.home))[name] for name in ("waiting", "bad")},
        }
    if file == "-":
        print_json(report)
        return
    try:
        handle = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        raise click.UsageError("This file exists: give the name of a new one.") from None
    except OSError as error:
        raise click.ClickException(f"The report cannot be written: {error.strerror}.") from error
    with os.fdopen(handle, "w", encoding="utf-8") as out:
        json.dump(report, out, indent=2, default=str)
        out.write("\n")
    click.echo(f"Wrote {file}. It has no text of yours; read it before you share it.")


def _versions() -> dict[str, str]:
    found = {
        "zapomni": version("zapomni"),
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "sqlite": sqlite3.sqlite_version,
        "encoding": sys.getfilesystemencoding(),
    }
    for requirement in requires("zapomni") or []:
        name = _NAME.match(requirement)
        try:
            found |= {name[0]: version(name[0])} if name else {}
        except PackageNotFoundError:
            continue  # an extra that is not installed
    return found


def _settings(settings: Settings) -> dict[str, Any]:
    """Return the settings that are set: where, and the value if it can say nothing about anyone."""
    return {
        one.name: {
            "from": one.origin,
            "value": one.value if _is_plain(one.name, one.value) else "set",
        }
        for one in explain_settings(settings)
        if one.origin != "default"
    }


def _is_plain(name: str, value: object) -> bool:
    return name in PLAIN_SETTINGS or isinstance(value, int | float)


def _counts(settings: Settings) -> dict[str, Any]:
    try:
        stats = with_engine(lambda engine: engine.memories.get_stats(), settings).model_dump()
        observed = with_observations(lambda observations: observations.usage(), settings)
    except ZapomniError as error:
        return {"error_code": error.error_code}
    kept = {name: value for name, value in stats.items() if isinstance(value, int | float)}
    return {**kept, "engine": stats["engine"], "observations_by_host": observed["hosts"]}


def _private_words(settings: Settings | None) -> list[str]:
    """Return what this user chose or is called, the longest first: folders, addresses, models."""
    words = {str(Path.home()), Path.home().name, str(Path.cwd()), platform.node()}
    for one in explain_settings(settings) if settings is not None else ():
        values = one.value if isinstance(one.value, list) else [one.value]
        if not _is_plain(one.name, one.value) and one.origin != "default":
            words |= {str(value) for value in values} | {Path(str(value)).name for value in values}
    if settings is not None:
        words.add(str(settings.home))
        if server := settings.server:
            words |= {str(server), server.host, server.graph} - {DEFAULT_GRAPH}
    return sorted((word for word in words if len(word) > 2), key=len, reverse=True)


def _mask(text: str, private: Sequence[str]) -> str:
    """Return what a check says without what is private, paths and addresses."""
    for word in private:
        text = re.sub(rf"(?<!\w){re.escape(word)}(?!\w)", "<private>", text)
    return _PATH.sub("<path>", _ADDRESS.sub("<address>", text))
