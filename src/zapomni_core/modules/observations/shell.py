"""Classifying a shell command: a push, a commit, GitHub, or just a command."""
# ruff: noqa: E501 - a pattern is read whole

from __future__ import annotations

from zapomni_core.shared import quick_re as re

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = ["calls", "classify", "program_of"]

# Texts, compiled when they are used: a command that failed needs two of them.

# Quoted strings are skipped whole, so that `echo "git push"` is an echo.
_PIECE = r"(?s)'[^']*'|\"(?:[^\"\\]|\\.)*\"|\\.|&&|\|\||[;|\n&]|[^'\"\\;|\n&]+|."
_BREAKS = frozenset(["&&", "||", ";", "|", "\n", "&"])
_PREFIX = r"^(?:(?:sudo|env|time|command|exec|nohup)\s+|[A-Za-z_]\w{0,60}=\S{0,500}\s+|\(\s*)*"
_GIT = r"^git(?:\s+(?:-[Cc]\s+\S{1,300}|--?[\w-]{1,40}(?:=\S{1,300})?)){0,8}\s+([a-z-]{2,30})\b"

# What a command that passes later may have needed.
_CHANGING = (
    r"^(?!(?:grep|rg|cat|less|ls|find|echo|man|which)\b|git\s+(?:add|log|diff|show|status|grep|commit|push)\b)"
    r"(?:(?:rm|mv|cp|ln|mkdir|touch|chmod|chown|kill|pkill|killall|unzip|export|source|createdb)\s|sed\s+-i"
    r"|\S{1,100}(?:\s+[\w./@:-]{1,100}){0,3}?\s+(?:install|uninstall|add|remove|sync|ci|update|upgrade"
    r"|downgrade|lock|up|down|start|stop|restart|reload|enable|disable|prune|clean|purge|reset|init"
    r"|migrate|seed|create|delete|drop|login|set|unset|use|pull|checkout|switch|restore|stash|merge"
    r"|rebase|generate|build|apply)(?:\s|$))"
)
_COMMITTED = r"(?m)^\[([^\]\s]{1,200})(?: \(root-commit\))? ([0-9a-f]{7,40})\] (.{0,500})$"
_CHANGED = r"(?m)^ {0,4}(\d{1,9}) files? changed(?:, (\d{1,9}) insertions?\(\+\))?(?:, (\d{1,9}) deletions?\(-\))?"
_FILE_MODE = r"(?m)^ (?:create|delete) mode \d{6} (.{1,300})$"
_MESSAGE = r"(?:\s-[a-zA-Z]{0,8}m\s{0,3}|\s--message[= ])(?:\"((?:[^\"\\]|\\.){1,2000})\"|'([^']{1,2000})')"
_HEREDOC = r"<<-?\s{0,3}['\"]?(\w{1,30})['\"]?\n\s{0,20}([^\n]{1,500})"
_PUSHED_TO = r"(?m)^To (\S{1,500})$"
_PUSHED = r"(?m)^\s{1,4}[ *+!=-]?\s{0,3}(\[[a-z ]{3,20}\]|[0-9a-f]{7,40}\.{2,3}[0-9a-f]{7,40})\s{1,9}(\S{1,200}) -> (\S{1,200})"


def segments(command: str) -> list[str]:
    """Split a command line at its unquoted operators."""
    parts, current = [], ""
    for piece in re.findall(_PIECE, command):
        if piece in _BREAKS:
            parts.append(current)
            current = ""
        else:
            current += piece
    parts.append(current)
    return [stripped for part in parts if (stripped := re.sub(_PREFIX, "", part.strip()))]


def calls(command: str, name: str) -> bool:
    """Return whether a command line runs this program, itself or by a runner, and no other."""
    runner = r"(?:\S*/)?(?:uvx|pipx run|uv run|uv tool run|python[\d.]* -m)\s+"
    wanted = rf"(?:{runner})?(?:\S*/)?{name}(?:_cli)?(?:\s|$)"
    quiet = r"(?:cd|export|set|source|tail|head|jq|grep|cat|less|echo|sort|wc)(?:\s|$)"
    parts = [part for part in segments(command) if not re.match(quiet, part)]
    return bool(parts) and all(re.match(wanted, part) for part in parts)


def program_of(command: str) -> str:
    """Return the program a command is about: the first that does not just move around."""
    names = [part.split(None, 1)[0].rsplit("/", 1)[-1] for part in segments(command)]
    names = [
        name for name in names if name not in {"cd", "export", "set", "source", "tail", "head"}
    ]
    return names[0][:40] if names else ""


def may_change(command: str) -> bool:
    """Return whether a command may change what another one depends on: installs, starts, moves."""
    return any(re.search(_CHANGING, part) for part in segments(command))


def classify(command: str, output: str) -> tuple[str, dict[str, Any]]:
    """Return the type of observation and what is known about it."""
    parts = segments(command)
    verbs = {found[1] for part in parts if (found := re.match(_GIT, part))}
    facts = _commit_facts(command, output) if "commit" in verbs else {}
    if "push" in verbs:
        if remote := re.search(_PUSHED_TO, output):
            facts["remote_url"] = remote[1]
        if pushed := re.search(_PUSHED, output):
            if not pushed[1].startswith("["):
                facts["hash_range"] = pushed[1]
            facts["branch"], facts["remote_branch"] = pushed[2], pushed[3]
        return "git_push", facts
    if "commit" in verbs:
        return "git_commit", facts
    if any(part.split(None, 1)[0] in {"gh", "hub"} for part in parts):
        return "github", {}
    return "command", {}


def _commit_facts(command: str, output: str) -> dict[str, Any]:
    facts: dict[str, Any] = {}
    if committed := re.search(_COMMITTED, output):
        facts["branch"], facts["commit_hash"], facts["commit_message"] = committed.groups()
    elif message := _message_in(command):
        facts["commit_message"] = message
    if changed := re.search(_CHANGED, output):
        facts["files_changed"] = int(changed[1])
        facts["insertions"] = int(changed[2] or 0)
        facts["deletions"] = int(changed[3] or 0)
    facts["files"] = re.findall(_FILE_MODE, output)[:20]
    return facts


def _message_in(command: str) -> str:
    if "<<" in command and (heredoc := re.search(_HEREDOC, command)):
        return heredoc[2].strip()
    found = re.search(_MESSAGE, command)
    return (found[1] or found[2]).split("\n", 1)[0] if found else ""
