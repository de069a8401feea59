"""What is ours in a host's files: finding it, adding it, taking it out. Texts in, texts out."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import Any

from zapomni_cli.host_setup import json_text, toml_text, yaml_text
from zapomni_cli.host_setup.files import UnfitFileError
from zapomni_cli.host_setup.hosts import HOSTS, Host

__all__ = [
    "add_hooks",
    "add_server",
    "find_hooks",
    "find_server",
    "has_hooks",
    "has_nothing_else",
    "has_plugin",
    "is_our_server",
    "remove_hooks",
    "remove_server",
]


def find_server(text: str | None, host: Host) -> Mapping[str, Any] | None:
    """Return the server registered under our name.

    Raises:
        UnfitFileError: The file is broken or has another shape than it should.
    """
    if text is None or json_text.is_blank(text):
        return None
    if host.server_format == "toml":
        return toml_text.find_table(text, host.server_path)
    if host.server_format == "yaml":
        return yaml_text.find_entry(text, host.server_path)
    found: Any = json_text.parse(text).value
    for step in host.server_path:
        if not isinstance(found, dict):
            raise UnfitFileError(f"{host.server_path[0]} is not where it should be")
        if step not in found:
            return None
        found = found[step]
    return found if isinstance(found, dict) else {}


def is_our_server(entry: Mapping[str, Any], host: Host) -> bool:
    """Say whether an entry starts what we would start; hosts add fields of their own."""
    started = [name for name in ("command", "cmd", "args") if name in host.server]
    return all(entry.get(name) == host.server[name] for name in started)


def add_server(text: str | None, host: Host) -> str:
    """Register our server, or change how it is registered."""
    if host.server_format == "toml":
        cleared = toml_text.remove_table(text or "", host.server_path)
        return toml_text.add_table(cleared, host.server_path, host.server)
    if host.server_format == "yaml":
        cleared = yaml_text.remove_entry(text or "", host.server_path)
        return yaml_text.add_entry(cleared, host.server_path, host.server)
    return json_text.put(_document(text), host.server_path, dict(host.server))


def remove_server(text: str, host: Host) -> str:
    """Take our server out, and what would be left empty."""
    if host.server_format == "toml":
        return toml_text.remove_table(text, host.server_path)
    if host.server_format == "yaml":
        return yaml_text.remove_entry(text, host.server_path)
    if find_server(text, host) is None:
        return text
    return _remove_and_prune(text, list(host.server_path))


def find_hooks(text: str, host: Host) -> dict[str, Mapping[str, Any]]:
    """Return our handler of each event."""
    if host.hook_file is None or json_text.is_blank(text):
        return {}
    document = json_text.parse(text).value
    return {str(path[1]): _at(document, path) for path in _our_handlers(document, host)}


def has_hooks(text: str | None, host: Host) -> bool:
    """Say whether exactly the hooks we would write are there."""
    if text is None or json_text.is_blank(text):
        return not host.hooks
    found: dict[str, list[Any]] = {}
    document = json_text.parse(text).value
    for path in _our_handlers(document, host):
        found.setdefault(str(path[1]), []).append(_at(document, path))
    wanted = {
        event: list(entry["hooks"]) if host.nested else [entry]
        for event, entry in host.hooks.items()
    }
    return found == wanted


def add_hooks(text: str | None, host: Host) -> str:
    """Write our hooks after the others of each event, in place of older ones of ours."""
    changed = remove_hooks(_document(text), host)
    for name, value in host.hook_frame.items():
        if name not in json_text.parse(changed).value:
            changed = json_text.put(changed, [name], value)
    for event, entry in host.hooks.items():
        changed = json_text.append(changed, ["hooks", event], entry)
    return changed


def remove_hooks(text: str, host: Host) -> str:
    """Take every hook of ours out, and what would be left empty."""
    if json_text.is_blank(text):
        return text
    changed = text
    while path := next(_our_handlers(json_text.parse(changed).value, host), None):
        if host.nested and len(_at(json_text.parse(changed).value, path[:-1])) == 1:
            path = path[:-2]  # the group had only ours
        changed = _remove_and_prune(changed, path)
    return changed


def has_nothing_else(text: str, host: Host) -> bool:
    """Return whether a file is empty without our entries."""
    if json_text.is_blank(text):
        return True
    if host.server_format == "yaml":
        return text.strip() == f"{host.server_path[0]}: {{}}"
    if host.server_format == "toml" and not text.lstrip("\ufeff \t\r\n").startswith("{"):
        return False
    left = json_text.parse(text).value
    if not isinstance(left, dict):
        return False
    # opencode adds the name of its schema to a file that has none.
    own = left.keys() - {"$schema"}
    return all(host.hook_frame.get(name) == left[name] for name in own)


def has_plugin(text: str | None) -> bool:
    """Say whether Claude Code's settings enable our plugin, which brings server and hooks."""
    if text is None or json_text.is_blank(text):
        return False
    document = json_text.parse(text).value
    plugins = document.get("enabledPlugins") if isinstance(document, dict) else None
    return isinstance(plugins, dict) and any(
        name.startswith("zapomni@") and enabled is True for name, enabled in plugins.items()
    )


def _document(text: str | None) -> str:
    text = text or ""
    return text + "{}\n" if json_text.is_blank(text) else text


def _our_handlers(document: Any, host: Host) -> Iterator[list[str | int]]:
    if not isinstance(document, dict):
        raise UnfitFileError("the document is not an object")
    hooks = document.get("hooks", {})
    if not isinstance(hooks, dict):
        raise UnfitFileError("hooks is not an object")
    for event, entries in hooks.items():
        if not isinstance(entries, list):
            # Gemini stores switches next to its events.
            continue
        for number, entry in enumerate(entries):
            if not host.nested:
                if _is_ours(entry):
                    yield ["hooks", event, number]
                continue
            handlers = entry.get("hooks") if isinstance(entry, dict) else None
            for position, handler in enumerate(handlers if isinstance(handlers, list) else ()):
                if _is_ours(handler):
                    yield ["hooks", event, number, "hooks", position]


def _is_ours(handler: Any) -> bool:
    """Recognize `zapomni record --host NAME`, or its quick form, wherever it is installed."""
    line = handler.get("command", handler.get("bash")) if isinstance(handler, dict) else None
    if not isinstance(line, str):
        return False
    try:
        words = shlex.split(line)
    except ValueError:
        return False
    args = handler.get("args", [])
    words += [word for word in args if isinstance(word, str)] if isinstance(args, list) else []
    named = any(a == "--host" and b in HOSTS for a, b in pairwise(words))
    started = any(
        (a.endswith("zapomni") and b == "record") or b.endswith("zapomni_cli/hook.py")
        for a, b in pairwise(words)
    )
    return named and started


def _at(document: Any, path: list[str | int]) -> Any:
    for step in path:
        document = document[step]
    return document


def _remove_and_prune(text: str, path: list[str | int] | list[str]) -> str:
    changed = json_text.remove(text, path)
    for depth in range(len(path) - 1, 0, -1):
        parent = path[:depth]
        if _at(json_text.parse(changed).value, list(parent)):
            break
        changed = json_text.remove(changed, parent)
    return changed
