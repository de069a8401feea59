"""What a user keeps out of memory: spans marked `<private>`, and files by their paths.

Standard library only, and no regular expression before there is something to find: hooks call this
at every event.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from typing import Any

__all__ = ["PRIVATE_PATHS", "PrivatePaths", "has_private", "strip_private"]

# Settings add to these; a pattern after `!` is an exception. Without a slash a pattern is for the
# file's name, with one for the end of the path, with one at its end for everything in a folder.
PRIVATE_PATHS = (
    *(".env", ".env.*", "!.env.example", "!.env.sample", "!.env.template", "!.env.dist"),
    *("*.pem", "*.key", "*.p12", "*.pfx", "*.jks", "*.keystore", "*.kdbx", "*.ppk", "*.tfvars"),
    *("id_rsa", "id_dsa", "id_ecdsa", "id_ed25519", ".netrc", "_netrc", ".pgpass", ".htpasswd"),
    *(".git-credentials", ".pypirc", ".npmrc", "credentials.json", "secrets.json"),
    *("secrets.yml", "secrets.yaml", "secrets.toml", ".ssh/", ".gnupg/", ".aws/credentials"),
    *(".kube/config", ".docker/config.json"),
)

_MARK = r"(?i)(?:<|&lt;|\\u003c)\s{0,3}(/?)\s{0,3}private\b[^<>]{0,100}?(?:>|&gt;|\\u003e)"
_COVER = "[private]"
# Where an event names files: fields of `Event.data`.
_PATH_FIELDS = ("path", "command", "patch", "input")
_BREAKS = dict.fromkeys(map(ord, "\"'`=;|&<>(){}[],:@"), " ")
MAX_DEPTH = 50


def has_private(data: bytes) -> bool:
    """Return whether raw JSON may have a private span; cheap, and sometimes wrongly true."""
    return b"rivate" in data or b"RIVATE" in data


def strip_private(value: Any, depth: int = 0) -> Any:
    """Return a JSON value without what is between `<private>` and `</private>` in its texts.

    Spans may be nested; one that nothing closes reaches to the end of its text.
    """
    if isinstance(value, str):
        return _without_spans(value) if "rivate" in value or "RIVATE" in value else value
    if depth > MAX_DEPTH:
        return None
    if isinstance(value, list):
        return [strip_private(one, depth + 1) for one in value]
    if isinstance(value, dict):
        return {strip_private(name): strip_private(one, depth + 1) for name, one in value.items()}
    return value


def _without_spans(text: str) -> str:
    import re

    parts: list[str] = []
    open_spans = position = 0
    for mark in re.finditer(_MARK, text):
        if mark[1]:
            if open_spans:
                open_spans -= 1
                position = mark.end()
        else:
            if not open_spans:
                parts += [text[position : mark.start()], _COVER]
            open_spans += 1
    if not parts:
        return text
    if not open_spans:
        parts.append(text[position:])
    # Nothing but private words: nothing to remember.
    return "".join(parts) if any(part.strip() not in ("", _COVER) for part in parts) else ""


class PrivatePaths:
    """Which files are never captured or indexed.

    Args:
        patterns: Globs of the setting `private_paths`, besides PRIVATE_PATHS.
    """

    def __init__(self, patterns: Iterable[str] = ()) -> None:
        every = [one.strip().lower() for one in (*PRIVATE_PATHS, *patterns) if one.strip()]
        self._public = [one[1:] for one in every if one.startswith("!")]
        # Most patterns need no glob: whole names and endings are compared all at once.
        self._names: set[str] = set()
        ends: list[str] = []
        self._private: list[str] = []
        for one in every:
            if one.startswith("!"):
                continue
            if "/" not in one and not _is_glob(one):
                self._names.add(one)
            elif one.startswith("*") and "/" not in one and not _is_glob(one[1:]):
                ends.append(one[1:])
            else:
                self._private.append(one)
        self._ends = tuple(ends)

    def match(self, path: str) -> bool:
        """Return whether a path is one of a private file."""
        path = path.lower().replace("\\", "/")
        name = path.rpartition("/")[2]
        if name in self._names or name.endswith(self._ends) or self._any(self._private, path):
            return not self._any(self._public, path)
        return False

    def concern(self, data: Mapping[str, Any]) -> bool:
        """Return whether an event's data name a private file: as path, in a command or a patch."""
        return any(self.match(word) for field in _PATH_FIELDS for word in _words(data.get(field)))

    def _any(self, patterns: list[str], path: str) -> bool:
        return any(_matches(pattern, path) for pattern in patterns)


def _is_glob(pattern: str) -> bool:
    return any(sign in pattern for sign in "*?[")


def _matches(pattern: str, path: str) -> bool:
    if pattern.endswith("/"):
        return f"/{pattern}" in f"/{path}" if not _is_glob(pattern) else _glob(f"*{pattern}*", path)
    if "/" not in pattern:
        name = path.rpartition("/")[2]
        if not _is_glob(pattern):
            return name == pattern
        if pattern.endswith("*") and not _is_glob(pattern[:-1]):
            return name.startswith(pattern[:-1])
        return _glob(pattern, name)
    if not _is_glob(pattern):
        return path == pattern or path.endswith(f"/{pattern.lstrip('/')}")
    return _glob(pattern, path) or _glob(f"*/{pattern}", path)


def _glob(pattern: str, text: str) -> bool:
    from fnmatch import fnmatchcase

    return fnmatchcase(text, pattern)


def _words(value: Any) -> Iterator[str]:
    """Yield what may be a path in a field of an event."""
    if isinstance(value, str):
        if len(value) < 1000 and "\n" not in value and " " not in value:
            yield value
        for word in value[:100_000].translate(_BREAKS).split():
            if "." in word or "/" in word or "_" in word:
                yield word.rstrip(".")
    elif isinstance(value, list):
        for one in value[:100]:
            yield from _words(one)
    elif isinstance(value, dict):
        for one in list(value.values())[:100]:
            yield from _words(one)
