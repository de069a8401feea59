"""`zapomni record`: one hook event from standard input into the database, in milliseconds.

Standard library only, and as little of it as possible; whatever happens, the agent's session goes
on: nothing on standard output but the context of a new session and what a prompt or a failure
brings back, nothing on standard error but the reason of exit code 1 or 2, never a traceback.
"""
# pathlib would cost a hook milliseconds:
# ruff: noqa: PTH100, PTH111, PTH116, PTH118, PTH119, PTH120, PTH123

from __future__ import annotations

import _signal  # type: ignore[import-not-found] # `signal` itself would load enum
import _thread  # and `threading` more than a hook needs
import os
import sys
import time

from zapomni_core.infra.capture_key import capture_key
from zapomni_core.infra.projects import Project, project_of
from zapomni_core.modules.observations import (
    HOOKS_REVISION,
    HOSTS,
    NewObservation,
    PayloadError,
    SpoolFullError,
    detect_host,
    drain,
    extract,
    hash_event,
    is_waiting,
    make_row,
    read_event,
    set_aside_row,
    spool_row,
)
from zapomni_core.shared.hashing import keyed_hash
from zapomni_core.shared.privacy import PrivatePaths, has_private, strip_private
from zapomni_core.shared.quick_json import loads
from zapomni_core.shared.quick_re import use_programs
from zapomni_core.shared.redaction import Redactor
from zapomni_db.sqlite.observations_write import (
    NewerSchemaError,
    claim_context,
    connect_for_capture,
    count_lost,
    find_first_failure,
    is_damaged,
    store_captured,
)
from zapomni_db.sqlite.project_folders import is_excluded, project_for

TYPE_CHECKING = False
if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Mapping, Sequence
    from typing import Any

    from zapomni_core.modules.observations import ContextLine, Event

__all__ = ["hook_command", "main"]

MAX_INPUT = 32 * 1024 * 1024
# A megabyte of `[],` becomes twenty in memory.
MAX_VALUES = 1_000_000
# Seconds a hook may take, and at a session's end, where hosts kill after 1.5 s; the last part of
# it is for leaving the event in the spool.
LIMIT, LAST_LIMIT, GRACE = 2.0, 1.0, 0.3
# After the first, an input that is whole is read though it was not closed; the second ends it all.
READ_LIMITS = (0.4, 1.5)
# No system has longer paths; walking up a longer one would take for ever.
MAX_PATH = 4096

STORED, REFUSED, DAMAGED = 0, 1, 2

# The settings of config.toml that a hook reads.
HOOK_SETTINGS = (b"private_paths", b"storage", b"trust", b"context_tokens")

# Hosts that take the context of a session as JSON; the others take plain text.
_JSON_CONTEXT = frozenset(["claude-code", "codex", "gemini", "qwen"])
_NAMED_CONTEXT = {"copilot": "additionalContext", "cursor": "additional_context"}
# Starts after which a session no longer has what it was given, and hosts that drop it on resuming.
_LOSSES = frozenset(["clear", "compact"])
_FORGETFUL = frozenset(["copilot", "gemini", "opencode", "qwen"])
_NO_CONTEXT = frozenset(["cline", "windsurf"])
# Hosts that take no text back with a prompt, and those that take one with a failed tool; the others
# are given it with the next prompt.
_NONE_AT_PROMPT = frozenset(["cline", "cursor", "windsurf"])
_AT_FAILURE = frozenset(["claude-code", "codex", "copilot", "gemini", "opencode", "qwen"])


def hook_command(host: str | None = None) -> list[str]:
    """Return the command line a host should run for each event."""
    program = os.path.join(os.path.dirname(os.path.abspath(__file__)), "hook.py")
    command = [sys.executable, "-I", "-S", program]
    return [*command, "--host", host] if host else command


class _LateError(Exception):
    """The time for reading is over."""


class _Job:
    """What is known of the event at any moment, for the watcher who may have to leave with it."""

    __slots__ = (
        "config",
        "event",
        "home",
        "observation",
        "outdated",
        "project",
        "redactor",
        "row",
        "started",
    )

    def __init__(self, started: float, *, outdated: bool) -> None:
        self.started = started
        self.outdated = outdated
        self.home = ""
        self.config: dict[str, Any] = {}
        self.event: Event | None = None  # as long as nothing of it is stored
        self.observation: NewObservation | None = None
        self.project: Project | None = None
        self.redactor: Redactor | None = None
        self.row: dict[str, Any] | None = None


def main(argv: Sequence[str], *, in_time: bool = False, installed: bool = False) -> int:
    """Record one event.

    Args:
        argv: What follows `zapomni record`.
        in_time: End the process when the time limit is reached, the event left in the spool.
        installed: `zapomni init` registered the caller; one that names no set of hooks is old.

    Returns:
        0 stored, waiting or ignored; 1 refused (malformed, incomplete, nowhere to store it); 2 the
        database is damaged, and no host called: for hosts 2 means to stop the agent.
    """
    try:
        return _record(argv, in_time=in_time, installed=installed)
    except (PayloadError, UnicodeDecodeError) as error:
        what = error if isinstance(error, PayloadError) else "the input is not UTF-8"
        return _complain(f"event refused: {what}", REFUSED)
    except KeyboardInterrupt:
        return REFUSED
    except SpoolFullError:
        return _complain("event not stored: the spool is full; run: zapomni doctor", REFUSED)
    except Exception as error:  # noqa: BLE001 - an agent's session must not see a traceback
        return _complain(f"event not stored: {type(error).__name__}", REFUSED)


def _complain(message: str, code: int) -> int:
    if sys.stderr is not None:
        sys.stderr.write(f"zapomni record: {message}\n")
    return code


def _record(argv: Sequence[str], *, in_time: bool, installed: bool) -> int:
    given, revision = _options(argv)
    if revision is None:
        revision = 0 if installed else HOOKS_REVISION
    job = _Job(time.monotonic(), outdated=revision < HOOKS_REVISION)
    data = _read_input(in_time=in_time)
    payload = _parse(data)
    if has_private(data):
        payload = strip_private(payload)
    host = given or detect_host(payload)
    by_host = given is not None or host != "generic"
    event = job.event = read_event(payload, host)
    home = os.path.expanduser(os.environ.get("ZAPOMNI_HOME") or "~/.zapomni")
    home = job.home = os.path.abspath(home)
    found = _stat(home)
    if found and (found.st_mode & 0o077 or found.st_uid != os.geteuid()):
        _secure(home)
    use_programs(home)
    config = job.config = _config(home)
    if event is not None:
        private = PrivatePaths(_private_patterns(config, os.environ))
        if private.concern(event.data):
            event = job.event = None
    if in_time:
        limit = LAST_LIMIT if event and event.action == "session_end" else LIMIT
        _thread.start_new_thread(_leave_in_time, (job, limit - GRACE))
    if event is None and not is_waiting(home):
        return STORED
    key = capture_key(home)
    redactor = job.redactor = Redactor(os.environ, key)
    project = None
    if event is not None:
        event.cwd = event.cwd[:MAX_PATH]
        observation = job.observation = extract(event, redactor, key)
        if observation is None:
            job.event = None
        project = job.project = project_of(event.cwd, os.path.join(home, "roots.json"))
        if observation is not None:
            said: tuple[str, ...] = ()
            if not event.event_id:
                # Without an id of the host, an event is all it said and the second it came.
                said = (keyed_hash(data, key, 16), str(event.timestamp or int(time.time())))
            event_hash = hash_event(event, key, *said)
            job.row = _row(config, event, observation, project, redactor, event_hash)
    problem = _store(job, redactor, event, project)
    if problem and event and event.action == "session_start":
        _print_text(event, problem)
    if problem == DAMAGE and not by_host:
        return _complain("the database is damaged; run: zapomni doctor", DAMAGED)
    return STORED


def _leave_in_time(job: _Job, seconds: float) -> None:
    """Wait for the limit, then leave the event in the spool and end the process.

    A thread rather than a signal: Python runs a signal's handler only between its own
    instructions, and a slow disk or a lock keeps it inside of SQLite.
    """
    time.sleep(max(0.0, job.started + seconds - time.monotonic()))
    done, code = _thread.allocate_lock(), [REFUSED]
    done.acquire()

    def leave() -> None:
        try:
            if job.event is not None:
                spool_row(job.home, job.row or _unfinished_row(job, job.event), durable=False)
            code[0] = STORED
        finally:
            done.release()

    # The disk that made us late may be the spool's too.
    _thread.start_new_thread(leave, ())
    if not done.acquire(timeout=GRACE) or code[0]:
        _complain("event not stored: no time left", REFUSED)
    os._exit(code[0])


def _unfinished_row(job: _Job, event: Event) -> dict[str, Any]:
    """Return a row of what is known so far: that something happened, if not what."""
    key = os.urandom(32)
    redactor = job.redactor or Redactor(os.environ, key)
    name = event.tool_name or event.action
    observation = job.observation or NewObservation("tool_other", f"{name[:100]}: not read in time")
    observation.content = redactor.redact(observation.content)[0]
    cwd = event.cwd[:MAX_PATH]
    project = job.project or Project(cwd, os.path.basename(cwd))
    return _row(job.config, event, observation, project, redactor, key[:16].hex())


def _options(argv: Sequence[str]) -> tuple[str | None, int | None]:
    """Return the host and the set of hooks that the arguments name."""
    host, revision = None, None
    words = list(argv)
    while words:
        name, _, value = words.pop(0).partition("=")
        value = value or (words.pop(0) if words else "")
        if name == "--host" and value in HOSTS:
            host = value
        elif name == "--hooks" and value.isdecimal() and len(value) < 10:
            revision = int(value)
        else:
            raise PayloadError(f"usage: zapomni record [--host {'|'.join(HOSTS)}] < event.json")
    return host, revision


def _read_input(*, in_time: bool) -> bytes:
    """Return standard input, or what there is of it when a host forgets to close it."""
    if sys.stdin is None or sys.stdin.isatty():
        raise PayloadError("a JSON object is expected on standard input")
    chunks: list[bytes] = []
    waited = 0.0
    # Without timers (Windows) reading waits for the end.
    for limit in READ_LIMITS if in_time and hasattr(_signal, "setitimer") else (0.0,):
        if _read_until(limit - waited, chunks):
            return b"".join(chunks)
        waited = limit
        data = b"".join(chunks)
        try:
            _parse(data)
        except (PayloadError, UnicodeDecodeError):
            continue
        return data
    raise PayloadError("standard input was not closed in time")


def _read_until(seconds: float, chunks: list[bytes]) -> bool:
    """Add what is read to the chunks; return whether that is all. Zero seconds mean any time."""
    stream: Any = sys.stdin.buffer
    size = sum(map(len, chunks))
    try:
        try:
            if seconds:
                _signal.signal(_signal.SIGALRM, _late)
                _signal.setitimer(_signal.ITIMER_REAL, seconds)
            while chunk := stream.read1(1 << 18):
                chunks.append(chunk)
                size += len(chunk)
                if size > MAX_INPUT:
                    raise PayloadError("the event is too large")
        finally:
            if seconds:
                _signal.setitimer(_signal.ITIMER_REAL, 0)
    except _LateError:
        return False
    return True


def _late(*_: object) -> None:
    raise _LateError


def _parse(data: bytes) -> dict[str, Any]:
    if data.count(b",") + data.count(b"[") + data.count(b"{") > MAX_VALUES:
        import re

        # Inside of strings they cost nothing: count those outside.
        scan = re.compile(rb'(?:[^",\[{]++|"(?:[^"\\]++|\\.)*+")*+[,\[{]', re.DOTALL).match
        position = values = 0
        while found := scan(data, position):
            position, values = found.end(), values + 1
            if values > MAX_VALUES:
                raise PayloadError("the event has too many values")
    try:
        # As "utf-8-sig" reads it, whose module need not be loaded for that.
        payload = loads(data.removeprefix(b"\xef\xbb\xbf").decode())
    except UnicodeDecodeError:
        raise
    except (ValueError, RecursionError):
        raise PayloadError("the input is not a JSON object") from None
    if not isinstance(payload, dict):
        raise PayloadError("the input is not a JSON object")
    return payload


def _stat(path: str) -> os.stat_result | None:
    try:
        return os.stat(path)
    except OSError:
        return None


def _secure(home: str) -> None:
    """Close the home folder to others, unless the user accepts that it is open."""
    from zapomni_core.exceptions import ConfigurationError
    from zapomni_core.infra.home import secure_home

    # Not from config.toml: in a folder of another user that is theirs, too.
    accepted = os.environ.get("ZAPOMNI_ALLOW_OPEN_HOME", "").lower()
    allow_open = accepted in ("true", "1", "yes", "on", "t", "y")
    try:
        if warning := secure_home(home, allow_open=allow_open):
            _complain(warning, STORED)
    except ConfigurationError:
        raise PayloadError("the home folder belongs to another user") from None


def _private_patterns(config: Mapping[str, Any], environ: Mapping[str, str]) -> list[str]:
    """Read the setting `private_paths` as `Settings` does."""
    given: Any = environ.get("ZAPOMNI_PRIVATE_PATHS")
    if given is None:
        given = config.get("private_paths", [])
    if isinstance(given, str):
        given = given.split(os.pathsep)
    return [one for one in given if isinstance(one, str)] if isinstance(given, list) else []


def _config(home: str) -> dict[str, Any]:
    """Return the settings of config.toml; none if there are none that concern a hook."""
    try:
        with open(os.path.join(home, "config.toml"), "rb") as stream:
            data = stream.read()
    except OSError:
        return {}
    # To load the parser costs half as much as all the rest. A name may be written with escapes.
    if b"\\" not in data and not any(name in data for name in HOOK_SETTINGS):
        return {}
    import tomllib

    try:
        return tomllib.loads(data.decode())
    except ValueError:
        return {}


def _database_path(home: str, config: Mapping[str, Any], environ: Mapping[str, str]) -> str:
    """Follow the setting `storage` if it names a file; captures always stay on this machine."""
    storage = environ.get("ZAPOMNI_STORAGE") or str(config.get("storage") or "")
    scheme, separator, rest = storage.partition("://")
    if storage not in ("", "sqlite") and not separator:
        return os.path.abspath(os.path.expanduser(storage))
    if scheme == "sqlite" and rest.startswith("/"):
        return "/" + rest.lstrip("/")
    return os.path.join(home, "zapomni.db")


def _row(
    config: Mapping[str, Any],
    event: Event,
    observation: NewObservation,
    project: Project,
    redactor: Redactor,
    event_hash: str,
) -> dict[str, Any]:
    return make_row(
        event,
        observation,
        project,
        redactor,
        event_hash,
        folder="" if _trusts_all(config) else project.root,
        moment=event.timestamp or int(time.time()),
    )


def _context_tokens(config: Mapping[str, Any], default: int) -> int:
    """Read the setting `context_tokens` as `Settings` does; the default if it is out of range."""
    given = os.environ.get("ZAPOMNI_CONTEXT_TOKENS") or config.get("context_tokens")
    try:
        tokens = int(given) if given else default
    except (TypeError, ValueError):
        return default
    return tokens if 200 <= tokens <= 2400 else default


def _trusts_all(config: Mapping[str, Any]) -> bool:
    return (os.environ.get("ZAPOMNI_TRUST") or config.get("trust")) == "all"


def _store(job: _Job, redactor: Redactor, event: Event | None, project: Project | None) -> str:
    """Store what waits, then the new row; return what is wrong with the database, if anything."""
    connection, problem, home, row = None, "", job.home, job.row
    try:
        connection = connect_for_capture(_database_path(home, job.config, os.environ))
        drain(connection, home, redactor)
        if row is not None and store_captured(connection, [row])[1]:
            set_aside_row(home, row)
            count_lost(connection, 1, int(time.time()))
    except Exception as error:  # noqa: BLE001 - whatever it is, the event must not be lost
        if row is not None:
            spool_row(home, row)
        problem = _problem(error)
    job.event = None
    if connection is not None:
        try:
            if event and project and event.action == "session_start" and not problem:
                problem = _print_context(connection, job, event, project)
            elif event and project and row and (event.action == "prompt" or row["signature"]):
                _print_recall(connection, job, event, project)
            elif event and event.action == "session_end":
                _tidy_up(connection, home)
            elif event and project and event.action == "reply":
                _record_answer(connection, home, event, project)
        finally:
            connection.close()
    return problem


def _tidy_up(connection: sqlite3.Connection, home: str) -> None:
    """Once a day, let go what is past its time.

    A busy database keeps it for another day, and so does a setting that cannot be read: nothing
    must go that the user meant to keep.
    """
    import sqlite3

    from zapomni_cli.retention import read_limits, read_recall_days
    from zapomni_db.sqlite.purging import is_sweep_due, sweep
    from zapomni_db.sqlite.recalls import sweep_recalls

    try:
        if is_sweep_due(connection, int(time.time())):
            limits = read_limits(home, os.environ)
            sweep(connection, int(time.time()), max_rows=500, **limits)
            sweep_recalls(home, read_recall_days(home, os.environ), time.time())
    except (sqlite3.Error, OSError, ValueError):
        return


def _record_answer(
    connection: sqlite3.Connection, home: str, event: Event, project: Project
) -> None:
    """Count what the session was given and its agent's answer used."""
    from zapomni_core.modules.observations import record_answer

    message = str(event.data.get("text") or "")
    record_answer(connection, home, event.host, event.session_id, project.key, message, time.time())


OUTDATED = (
    "Zapomni's hooks in this host are those of an older version. Ask the user to run: zapomni init"
)
DAMAGE = (
    "Zapomni cannot recall anything: its database is damaged. New events wait in the spool. "
    "Ask the user to run: zapomni doctor"
)
NEWER = (
    "Zapomni cannot recall anything: its database was made by a newer Zapomni. New events wait in "
    "the spool. Ask the user to update Zapomni: this hook is an older one."
)


def _problem(error: Exception) -> str:
    """Return what a user has to know about an error; nothing if it passes by itself."""
    if isinstance(error, NewerSchemaError):
        return NEWER
    # Our own errors carry what SQLite said.
    cause = getattr(error, "original_exception", None)
    return DAMAGE if is_damaged(error) or (cause is not None and is_damaged(cause)) else ""


def _print_context(
    connection: sqlite3.Connection, job: _Job, event: Event, project: Project
) -> str:
    """Give a session its context, once; return what is wrong if the database is.

    A resumed session still has what it was given, in most hosts; one that was compacted or cleared
    has not.
    """
    if event.host in _NO_CONTEXT:
        return ""
    source = str(event.data.get("source") or "startup")
    try:
        from zapomni_core.infra.git import changed_files
        from zapomni_core.modules.observations import (
            TOKENS,
            Situation,
            loaded_by_host,
            session_context,
        )

        folder = "" if _trusts_all(job.config) else project.root
        facts = (project.key, folder, project.identity, project.main)
        key, trusted = project_for(connection, *facts)
        start = Situation(
            key,
            project.branch,
            changed_files(project.root),
            source,
            event.session_id,
            trusted,
            loaded_by_host(event.host, project.root),
            project.root,
            job.home,
        )
        tokens = _context_tokens(job.config, TOKENS)
        text, lines = session_context(connection, start, tokens)
        lost = source in _LOSSES or (source == "resume" and event.host in _FORGETFUL)
        if text and job.row and not claim_context(connection, job.row, lost=lost):
            text, lines = "", []
        if job.outdated and source == "startup":
            text = f"{text}\n{OUTDATED}" if text else OUTDATED
    except Exception as error:  # noqa: BLE001 - a session must start with or without its memories
        return _problem(error)
    _print_text(event, text)
    if text and lines:
        _log_recall(job, event, key, lines)
    return ""


def _log_recall(job: _Job, event: Event, project: str, lines: Sequence[ContextLine]) -> None:
    """Note what the session was given, so that it is not given again and its use is seen."""
    from zapomni_db.sqlite.recalls import Recall, record_recall

    items = [
        (
            str(line.id),
            "memory" if isinstance(line.id, str) else "observation",
            (len(line.summary) + len(str(line.id)) + 30) // 4,
            None,
        )
        for line in lines
    ]
    given = Recall(time.time(), event.host, event.session_id, project, "session_start", "", items)
    if job.redactor is not None:
        record_recall(job.home, given, job.redactor.redact)


def _print_recall(
    connection: sqlite3.Connection, job: _Job, event: Event, project: Project
) -> None:
    """Give a session what memory has about its prompt, or about its failure; mostly nothing."""
    row, redactor, at_prompt = job.row, job.redactor, event.action == "prompt"
    if row is None or redactor is None:
        return
    if event.host in _NONE_AT_PROMPT if at_prompt else event.host not in _AT_FAILURE:
        return
    try:
        folder = "" if _trusts_all(job.config) else project.root
        key, trusted = project_for(connection, project.key, folder, project.identity, project.main)
        if not trusted or not (at_prompt or _is_worth_recalling(connection, job.home, key, row)):
            return
        # A question that is recalled for is noted: of an excluded project nothing is.
        if is_excluded(connection, project.key, folder):
            return
        from zapomni_core.workflows import recall_unasked

        asker = recall_unasked.make_asker(
            connection, job.home, event.host, row["session_id"], key, event.cwd, redactor
        )
        if asker is None:
            return
        texts = []
        if not at_prompt:
            texts.append(
                recall_unasked.recall_for_failure(
                    connection, asker, row["signature"], row["event_hash"]
                )
            )
        elif event.host not in _AT_FAILURE:
            texts.append(recall_unasked.recall_for_failure(connection, asker))
        if at_prompt:
            content = row["content"]
            texts.append(recall_unasked.recall_for_prompt(connection, asker, content, os.environ))
    except Exception:  # noqa: BLE001 - a prompt is answered with or without memories
        return
    _print_text(event, "\n\n".join(filter(None, texts)))


def _is_worth_recalling(
    connection: sqlite3.Connection, home: str, project: str, row: Mapping[str, Any]
) -> bool:
    """Return whether a failure has happened before and its session was not given that yet.

    A command fails again and again while it is being repaired: what follows costs more.
    """
    first = find_first_failure(connection, project, row)
    if first is None:
        return False
    from zapomni_db.sqlite.recalls import given_in_session

    return str(first) not in given_in_session(home, row["session_id"])


def _print_text(event: Event, text: str) -> None:
    """Hand a text to the session in the form its host reads."""
    if not text or event.host in _NO_CONTEXT or sys.stdout is None:
        return
    import json

    if event.host in _JSON_CONTEXT:
        output = {"hookEventName": event.source_event, "additionalContext": text}
        text = json.dumps({"hookSpecificOutput": output})
    elif event.host in _NAMED_CONTEXT:
        text = json.dumps({_NAMED_CONTEXT[event.host]: text})
    try:
        sys.stdout.buffer.write(text.encode("utf-8", "replace") + b"\n")
        sys.stdout.buffer.flush()
    except OSError:
        return  # The host does not listen; the event is stored all the same.
