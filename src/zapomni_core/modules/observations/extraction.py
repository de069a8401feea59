"""Extraction: one short function per action of an agent, each makes at most one observation.

Standard library only, and little of it: `dataclasses` and `typing` would cost a hook more than
parsing and storing do. Modules with regular expressions are imported by the actions that need them:
compiling the expressions of all would cost a hook as much as starting Python.
"""

from __future__ import annotations

from zapomni_core.modules.observations.text import (
    Scrubber,
    as_text,
    clean_row,
    clip,
    ends,
    first_line,
    strip_injected,
)
from zapomni_core.shared.hashing import keyed_hash
from zapomni_core.shared.quick_json import dumps

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from zapomni_core.infra.projects import Project
    from zapomni_core.modules.observations.changes import Change
    from zapomni_core.shared.redaction import Redactor

__all__ = ["ACTIONS", "Event", "NewObservation", "extract", "hash_event", "make_row"]

CONTENT_LIMIT = 500
PROMPT_LIMIT = 2000
REPLY_LIMIT = 1000
OUTPUT_LIMIT = 200

# Without one of these a prompt has nothing for the inbox, and the rules for that are not imported.
CANDIDATE_CUES = (
    "remember", "in mind", "note", "forget", "future", "next time", "now on", "forward", "here on",
    "point on", "henceforth", "whenever", "time you", "always", "never", "no,", "no.",
    "nope", "nah", "wrong", "incorrect", "not ", "actually", "don't", "don\u2019t", "stop ",
    "told you", "convention", "policy", "our rule", "our style", "our standard", "in this",
    "in our code",
    "i said", "instead", "rather", "should", "prefer", "merk", "denk", "ab jetzt", "ab sofort",
    "immer", "nie", "nein", "retiens", "souviens", "jamais", "toujours", "maintenant", "utilise",
    "recuerda", "ahora", "siempre", "nunca", "no uses", "lembre", "agora", "sempre", "ricorda",
    "ora in", "usare", "pamatuj", "nikdy",
)  # fmt: skip

# Prompts that the host wrote, not the user.
MACHINE_PROMPTS = (
    "<task-notification>",
    "<system-reminder>",
    "<local-command-",
    "<command-message>",
    "<command-name>",
    "<turn_aborted>",
    "<subagent_notification>",
    "<bash-input>",
    "<bash-stdout>",
    "[Request interrupted by user",
)
# How hosts report a tool that the user did not let run: nothing happened.
REFUSALS = (
    "The user doesn't want to proceed",
    "The user doesn't want to take this action",
    "[Request interrupted by user",
    "Permission to use ",
    "User rejected",
    "User denied",
    "Tool use was rejected",
    "Command was rejected",
    "exec command rejected by user",
)
# Our own tools: what was found with them is no news, and must not be found instead.
OWN_SERVERS = ("zapomni.", "plugin_zapomni_zapomni.", "plugin:zapomni:zapomni.")
OWN_TOOLS = frozenset(
    "add_memory search_memory get_memory update_memory delete_memory get_history recent_context "
    "get_observations timeline".split()
)

_SESSION_TYPES = {
    "resume": "session_resume",
    "clear": "session_clear",
    "compact": "session_compact",
}


# What an agent can do, whatever its host calls it, and the fields `Event.data` has for it.
# Every action may carry `error` (it failed) and `interrupted` (the user stopped it).
ACTIONS = {
    "prompt": ("text",),
    "command": ("command", "description", "output", "exit_code"),
    "read": ("path", "first_line", "lines"),
    "write": ("path", "content", "hunks", "created"),
    "edit": ("path", "edits", "hunks"),
    "patch": ("patch",),
    "search": ("pattern", "path", "matches"),
    "fetch": ("url", "question"),
    "web_search": ("query",),
    "mcp": ("tool", "input", "output"),
    "task": ("description", "prompt", "agent", "status", "result"),
    "task_result": ("agent", "text"),
    "compact": ("trigger", "text"),
    "session_start": ("source",),
    "session_end": ("reason",),
    "marker": ("text",),
    "commit": ("message", "commit_hash", "author", "files", "trailers"),
    "reply": ("text",),
    "answers": ("pairs",),
    "other": ("summary",),
}


class Event:
    """One thing that happened in an agent's session.

    Attributes:
        host: The agent program, such as "claude-code".
        source_event: What the host calls the event.
        action: One of ACTIONS.
        data: The action's fields; values as they came, not trusted.
        event_id: The host's own id of this event; empty if it gives none.
        timestamp: Seconds since 1970 if the host gave it; else None.
        tool_name: The host's name of the tool, if one was used.
    """

    __slots__ = (
        "action",
        "cwd",
        "data",
        "event_id",
        "host",
        "session_id",
        "source_event",
        "timestamp",
        "tool_name",
    )

    def __init__(  # noqa: PLR0913 - an event's fields, all of them
        self,
        host: str,
        source_event: str,
        session_id: str,
        cwd: str,
        action: str,
        data: Mapping[str, Any],
        *,
        event_id: str = "",
        timestamp: int | None = None,
        tool_name: str | None = None,
    ) -> None:
        self.host = host
        self.source_event = source_event
        self.session_id = session_id
        self.cwd = cwd
        self.action = action
        self.data = data
        self.event_id = event_id
        self.timestamp = timestamp
        self.tool_name = tool_name


class NewObservation:
    """What is stored of an event: redacted and short.

    Attributes:
        repeat: When this one is dropped as a repetition of one stored in the same session within
            the window: "path" (same type and path), "content" (also the same content), "type"
            (same type), or "" (never).
        redactions: How many secrets were masked in it.
        candidates: Sentences of a prompt for the inbox of `zapomni review`.
    """

    __slots__ = (
        "candidates",
        "content",
        "file_path",
        "metadata",
        "obs_type",
        "redactions",
        "repeat",
        "signature",
    )

    def __init__(
        self,
        obs_type: str,
        content: str,
        file_path: str | None = None,
        metadata: dict[str, Any] | None = None,
        *,
        signature: str | None = None,
        repeat: str = "",
    ) -> None:
        self.obs_type = obs_type
        self.content = content
        self.file_path = file_path
        self.metadata = metadata or {}
        self.signature = signature
        self.repeat = repeat
        self.redactions = 0
        self.candidates: list[str] = []


def extract(event: Event, redactor: Redactor, key: bytes) -> NewObservation | None:
    """Return the observation of an event, without secrets; None if there is nothing to store.

    Args:
        event: What happened.
        redactor: Masks secrets in every text and path.
        key: Makes hashes of large contents useless to anyone else.
    """
    if _is_refused(event.data) or _is_own(event):
        return None
    scrubber = Scrubber(redactor, key)
    failed = bool(event.data.get("error")) and not event.data.get("interrupted")
    if failed and event.action not in {"prompt", "session_start", "session_end"}:
        made = _failure(event, scrubber)
    elif event.data.get("interrupted") and event.action != "command":
        made = None
    else:
        handler = _HANDLERS.get(event.action)
        made = handler(event, scrubber) if handler else None
    if made is None or not made.content:
        return None
    agent = event.data.get("subagent")
    made.metadata = scrubber.metadata(
        {**made.metadata, "subagent": agent, "duration_ms": event.data.get("duration_ms")}
    )
    made.redactions = scrubber.redactions
    return made


def hash_event(event: Event, key: bytes, *otherwise: str) -> str:
    """Return the identity of an event: the host's id of it, else what is given instead."""
    parts = [event.host, event.session_id, event.source_event, event.action]
    if event.event_id:
        parts += [event.event_id, str(event.data.get("text", ""))]
    return keyed_hash("\0".join([*parts, *otherwise]), key, 16)


def make_row(
    event: Event,
    observation: NewObservation,
    project: Project,
    redactor: Redactor,
    event_hash: str,
    *,
    folder: str,
    moment: int,
) -> dict[str, Any]:
    """Return the row that stores an observation.

    Args:
        event: What happened.
        observation: What is stored of it.
        project: Where it happened.
        redactor: Masks secrets in labels.
        event_hash: The identity of the event.
        folder: Where it was done, so that it can be decided whether the project's key is believed;
            empty: it is.
        moment: When it happened.
    """
    metadata = observation.metadata
    row = {
        "host": event.host,
        "session_id": event.session_id,
        "project": project.key,
        "project_name": project.name,
        "branch": project.branch,
        "timestamp": moment,
        "obs_type": observation.obs_type,
        "source_event": event.source_event,
        "tool_name": event.tool_name,
        "file_path": observation.file_path,
        "content": observation.content,
        "metadata": dumps(metadata) if metadata else None,
        "signature": observation.signature,
        "event_hash": event_hash,
        "repeat": observation.repeat,
        "redactions": observation.redactions,
        "candidates": observation.candidates,
        "folder": folder,
        "identity": project.identity,
        "main_folder": project.main,
    }
    return clean_row(row, redactor)


def _is_refused(data: Mapping[str, Any]) -> bool:
    """Return whether the user did not let it happen."""
    error = data.get("error")
    return isinstance(error, str) and error.lstrip()[:100].startswith(REFUSALS)


def _is_own(event: Event) -> bool:
    """Return whether it is a call of one of Zapomni's tools, or of its command."""
    if event.action == "mcp":
        tool = str(event.data.get("tool") or event.tool_name or "")
        return tool.startswith(OWN_SERVERS) or tool in OWN_TOOLS
    command = event.data.get("command")
    if event.action != "command" or not isinstance(command, str) or "zapomni" not in command:
        return False
    from zapomni_core.modules.observations.shell import calls

    return calls(command, "zapomni")


def _relative(path: str | None, cwd: str) -> str:
    if path and cwd and path.startswith(cwd.rstrip("/") + "/"):
        return path[len(cwd.rstrip("/")) + 1 :]
    return path or ""


def _prompt(event: Event, scrubber: Scrubber) -> NewObservation | None:
    text = strip_injected(as_text(event.data.get("text")))
    if text.lstrip()[:100].startswith(MACHINE_PROMPTS):
        return None
    facts = {"chars": len(text)} if len(text) > PROMPT_LIMIT else {}
    clean = scrubber.whole(text)
    made = NewObservation("user_prompt", clip(clean, PROMPT_LIMIT), None, facts)
    lowered = clean.lower()
    if not lowered.isascii() or any(cue in lowered for cue in CANDIDATE_CUES):
        from zapomni_core.modules.observations.candidates import find_candidates

        made.candidates = find_candidates(clean)
    return made


def _command(event: Event, scrubber: Scrubber) -> NewObservation | None:
    data = event.data
    command = scrubber.whole(data.get("command"))
    raw_output = as_text(data.get("output"))
    output = scrubber.whole(raw_output)
    obs_type = "command"
    facts: dict[str, Any] = {}
    if "git" in command or "gh " in command:
        from zapomni_core.modules.observations.shell import classify

        obs_type, facts = classify(command, output)
    facts["description"] = data.get("description")
    facts["interrupted"] = bool(data.get("interrupted")) or None
    facts["background"] = bool(data.get("background")) or None
    facts["exit_code"] = data.get("exit_code") or None
    if data.get("outcome") == "unknown" or facts["background"]:
        facts["outcome"] = "unknown"
        # An attempt is no commit and no push: only git's own answer proves one.
        proven = facts.get("commit_hash") or facts.get("remote_url")
        if obs_type in {"git_commit", "git_push"} and not proven:
            obs_type = "command"
    if output:
        facts["output"] = clip(first_line(output), OUTPUT_LIMIT)
    if len(raw_output) > OUTPUT_LIMIT:
        facts["output_chars"] = len(raw_output)
        facts["output_hash"] = scrubber.digest(raw_output)
    content = clip(command, CONTENT_LIMIT)
    message = facts.get("commit_message")
    if message and message not in content:
        content = clip(f"{message}\n{command}", CONTENT_LIMIT)
    elif obs_type == "command" and data.get("description"):
        # What a command is for is what people search for; the command itself is the first line.
        purpose = scrubber.scrub(data["description"], OUTPUT_LIMIT).replace("\n", " ")
        content = f"{clip(content, CONTENT_LIMIT - len(purpose) - 1)}\n{purpose}"
    return NewObservation(obs_type, content, None, facts)


def _failure(event: Event, scrubber: Scrubber) -> NewObservation:
    from zapomni_core.modules.observations import errors, shell

    data = event.data
    raw_error = strip_injected(as_text(data.get("error")))
    error = scrubber.whole(ends(raw_error))
    command = scrubber.whole(data.get("command"))
    line = errors.error_line(error)
    # The host's name of a tool is as foreign as any other text.
    program = shell.program_of(command) if command else scrubber.scrub(event.tool_name, 100)
    program = program or event.action
    path = scrubber.path(data.get("path"))
    what = command or " ".join(filter(None, [program, _subject(event, scrubber)]))
    room = CONTENT_LIMIT - min(len(line), 250) - 1
    content = clip(f"{clip(what, room)}\n{line}", CONTENT_LIMIT)
    exit_code = data.get("exit_code")
    facts: dict[str, Any] = {
        "exit_code": errors.exit_code_of(error) if exit_code is None else exit_code,
        "error": clip(error, 300),
        "description": data.get("description"),
        "failed": True,
    }
    if len(raw_error) > 300:
        facts["error_chars"] = len(raw_error)
        facts["error_hash"] = scrubber.digest(raw_error)
    signature = errors.signature_of(program, line)
    return NewObservation("command_error", content, path, facts, signature=signature)


def _subject(event: Event, scrubber: Scrubber) -> str:
    """Return what a failed tool was asked for."""
    data = event.data
    path = scrubber.path(data.get("path"))
    if path:
        return _relative(path, event.cwd)
    fields = ("url", "query", "pattern", "description", "input", "summary")
    return scrubber.scrub(next((data[name] for name in fields if data.get(name)), ""), 200)


def _read(event: Event, scrubber: Scrubber) -> NewObservation | None:
    path = scrubber.path(event.data.get("path"))
    facts = {name: event.data.get(name) for name in ("first_line", "lines")}
    return NewObservation("file_read", _relative(path, event.cwd), path, facts, repeat="path")


def _write(event: Event, scrubber: Scrubber) -> NewObservation | None:
    from zapomni_core.modules.observations import changes

    data = event.data
    path = scrubber.path(data.get("path"))
    raw = as_text(data.get("content"))
    lines = raw.count("\n") + (not raw.endswith("\n")) if raw else 0
    change = _redacted_hunks(data.get("hunks"), scrubber)
    change = change or changes.from_text(scrubber.whole(raw))
    # Counted before anything is cut; a new file comes without hunks.
    change.total = changes.count_hunks(data.get("hunks"))
    if not any(change.total):
        change.total = (lines, 0)
    facts = {
        "hash": scrubber.digest(raw) if raw else None,
        "chars": len(raw),
        "lines": lines,
        "created": data.get("created"),
    }
    content = f"{_relative(path, event.cwd)} {change.statement()}"
    return NewObservation("file_write", clip(content, CONTENT_LIMIT), path, facts)


def _edit(event: Event, scrubber: Scrubber) -> NewObservation | None:
    from zapomni_core.modules.observations import changes

    data = event.data
    path = scrubber.path(data.get("path"))
    edits = data.get("edits")
    pairs = edits if isinstance(edits, list) else []
    change = _redacted_hunks(data.get("hunks"), scrubber)
    if change is None:
        change = changes.from_edits(
            [(scrubber.whole(old), scrubber.whole(new)) for old, new in pairs[:20]]
        )
    change.total = changes.count_hunks(data.get("hunks"))
    if not any(change.total):
        change.total = changes.count_edits(pairs)
    facts = {"added": change.total[0], "removed": change.total[1]}
    content = f"{_relative(path, event.cwd)} {change.statement()}"
    return NewObservation("file_edit", clip(content, CONTENT_LIMIT), path, facts)


def _redacted_hunks(hunks: Any, scrubber: Scrubber) -> Change | None:
    """Redact a hunk as one text: a private key has many lines."""
    from zapomni_core.modules.observations import changes

    clean = []
    for hunk in hunks[:50] if isinstance(hunks, list) else []:
        lines = hunk.get("lines") if isinstance(hunk, dict) else None
        if isinstance(lines, list):
            text = "\n".join(line for line in lines if isinstance(line, str))
            # Only the left edge matters here, and scrubbing strips it: guard it by a bar.
            clean.append({"lines": scrubber.whole(f"|\n{text}").split("\n")[1:]})
    return changes.from_hunks(clean)


def _patch(event: Event, scrubber: Scrubber) -> NewObservation | None:
    from zapomni_core.modules.observations import changes

    raw = as_text(event.data.get("patch"))
    change = changes.from_patch(scrubber.whole(raw))
    change.total = changes.count_patch(raw)
    paths = [
        scrubber.path(
            path if path.startswith("/") or not event.cwd else f"{event.cwd.rstrip('/')}/{path}"
        )
        for path in change.files[:1]
    ]
    names = ", ".join(change.files[:3]) or "patch"
    facts = {
        "added": change.total[0],
        "removed": change.total[1],
        "files": change.files if len(change.files) > 1 else None,
        "hash": scrubber.digest(raw),
    }
    created = "*** Add File: " in raw and "*** Update File: " not in raw
    content = clip(f"{names} {change.statement()}", CONTENT_LIMIT)
    path = paths[0] if paths else None
    return NewObservation("file_write" if created else "file_edit", content, path, facts)


def _search(event: Event, scrubber: Scrubber) -> NewObservation | None:
    data = event.data
    path = scrubber.path(data.get("path"))
    pattern = scrubber.scrub(data.get("pattern"), 300)
    where = _relative(path, event.cwd)
    content = f"{pattern} in {where}" if where and where != event.cwd else pattern
    facts = {"matches": data.get("matches")}
    return NewObservation("search", clip(content, CONTENT_LIMIT), path, facts, repeat="content")


def _fetch(event: Event, scrubber: Scrubber) -> NewObservation | None:
    url = scrubber.scrub(event.data.get("url"), CONTENT_LIMIT)
    return NewObservation("web_fetch", url, None, {"question": event.data.get("question")})


def _web_search(event: Event, scrubber: Scrubber) -> NewObservation | None:
    return NewObservation("web_search", scrubber.scrub(event.data.get("query"), CONTENT_LIMIT))


def _mcp(event: Event, scrubber: Scrubber) -> NewObservation | None:
    data = event.data
    name = scrubber.scrub(data.get("tool") or event.tool_name, 150)
    arguments = scrubber.scrub(data.get("input"), 340)
    output = as_text(data.get("output"))
    facts = {"output_chars": len(output), "output_hash": scrubber.digest(output)} if output else {}
    content = name if arguments in {"", "{}"} else f"{name} {arguments}"
    return NewObservation("mcp_call", clip(content, CONTENT_LIMIT), None, facts)


def _task(event: Event, scrubber: Scrubber) -> NewObservation | None:
    data = event.data
    title = scrubber.scrub(data.get("description"), 100)
    asked = scrubber.scrub(data.get("prompt"), 380)
    content = ": ".join(dict.fromkeys(filter(None, [title, asked])))
    facts = {name: data.get(name) for name in ("agent", "status", "result")}
    return NewObservation("task_spawn", clip(content, CONTENT_LIMIT), None, facts)


def _task_result(event: Event, scrubber: Scrubber) -> NewObservation | None:
    agent = scrubber.scrub(event.data.get("agent"), 100)
    if not agent:
        return None  # The host's own helpers: summaries, suggestions.
    text = scrubber.scrub(event.data.get("text"), CONTENT_LIMIT - 120)
    content = f"{agent} finished: {text}" if text else f"{agent} finished"
    return NewObservation("task_spawn", content, None, {"agent": agent, "status": "finished"})


def _compact(event: Event, scrubber: Scrubber) -> NewObservation | None:
    trigger = scrubber.scrub(event.data.get("trigger"), 50)
    text = scrubber.scrub(event.data.get("text"), PROMPT_LIMIT)
    content = text or "Context compacted"
    return NewObservation("session_compact", content, None, {"trigger": trigger})


def _session_start(event: Event, scrubber: Scrubber) -> NewObservation | None:
    source = scrubber.scrub(event.data.get("source"), 50) or "startup"
    obs_type = _SESSION_TYPES.get(source, "session_start")
    # Hosts that report a compaction by itself report this restart too.
    repeat = "type" if obs_type == "session_compact" else ""
    facts = {"source": source, "model": event.data.get("model")}
    return NewObservation(obs_type, f"Session started: {source}", None, facts, repeat=repeat)


def _session_end(event: Event, scrubber: Scrubber) -> NewObservation | None:
    reason = scrubber.scrub(event.data.get("reason"), 50) or "other"
    return NewObservation("session_end", f"Session ended: {reason}", None, {"reason": reason})


def _marker(event: Event, scrubber: Scrubber) -> NewObservation | None:
    return NewObservation("marker", scrubber.scrub(event.data.get("text"), PROMPT_LIMIT))


def _commit(event: Event, scrubber: Scrubber) -> NewObservation | None:
    """Make the observation of a commit that is part of a repository's history."""
    data = event.data
    message = scrubber.whole(data.get("message"))
    named = data.get("files")
    files = (
        [scrubber.path(one) for one in named if isinstance(one, str)]
        if isinstance(named, list)
        else []
    )
    facts = {
        "commit_hash": data.get("commit_hash"),
        "commit_message": first_line(message),
        "author": data.get("author"),
        "files": files[:20],
        "files_changed": len(files) or None,
        "trailers": data.get("trailers") or None,
    }
    return NewObservation("git_commit", clip(message, CONTENT_LIMIT), None, facts)


def _reply(event: Event, scrubber: Scrubber) -> NewObservation | None:
    from zapomni_core.modules.observations.replies import informative_part

    text = informative_part(scrubber.whole(event.data.get("text")), REPLY_LIMIT)
    return NewObservation("assistant_message", text)


def _answers(event: Event, scrubber: Scrubber) -> NewObservation | None:
    pairs = event.data.get("pairs")
    lines = [
        f"{scrubber.scrub(question, 200)} → {scrubber.scrub(answer, 300)}"
        for question, answer in (pairs if isinstance(pairs, list) else [])[:10]
    ]
    return NewObservation("user_answer", clip("\n".join(lines), PROMPT_LIMIT))


def _other(event: Event, scrubber: Scrubber) -> NewObservation | None:
    name = scrubber.scrub(event.tool_name, 100)
    summary = scrubber.scrub(event.data.get("summary"), CONTENT_LIMIT - 110)
    return NewObservation("tool_other", f"{name}: {summary}" if summary else name)


_HANDLERS = {
    "prompt": _prompt,
    "command": _command,
    "read": _read,
    "write": _write,
    "edit": _edit,
    "patch": _patch,
    "search": _search,
    "fetch": _fetch,
    "web_search": _web_search,
    "mcp": _mcp,
    "task": _task,
    "task_result": _task_result,
    "compact": _compact,
    "session_start": _session_start,
    "session_end": _session_end,
    "marker": _marker,
    "commit": _commit,
    "reply": _reply,
    "answers": _answers,
    "other": _other,
}
