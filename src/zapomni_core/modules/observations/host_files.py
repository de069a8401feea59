"""What a host loads by itself at the start of a session: its files of instructions, its own memory.

A memory that is in one of them need not be given again. Standard library only: hooks import this.
"""
# pathlib would cost a hook milliseconds:
# ruff: noqa: PTH111, PTH118, PTH123

from __future__ import annotations

import os
import stat

__all__ = ["loaded_by_host"]

# No more of a file than this is read: hosts themselves warn of longer ones.
MOST_BYTES = 65_536

# By host: files in the project, and in the user's folder.
_PROJECT = {
    "claude-code": ("CLAUDE.md", ".claude/CLAUDE.md", "CLAUDE.local.md"),
    "codex": ("AGENTS.md",),
    "copilot": (".github/copilot-instructions.md", "AGENTS.md"),
    "cursor": (".cursorrules", "AGENTS.md"),
    "gemini": ("GEMINI.md",),
    "opencode": ("AGENTS.md",),
    "qwen": ("QWEN.md",),
    "windsurf": (".windsurfrules", "AGENTS.md"),
}
_HOME = {
    "claude-code": ("~/.claude/CLAUDE.md",),
    "codex": ("~/.codex/AGENTS.md",),
    "gemini": ("~/.gemini/GEMINI.md",),
    "opencode": ("~/.config/opencode/AGENTS.md",),
    "qwen": ("~/.qwen/QWEN.md",),
}


def loaded_by_host(host: str, root: str) -> str:
    """Return the words of the files that a host loads for a project, in lower case."""
    paths = [os.path.join(root, name) for name in _PROJECT.get(host, ())]
    paths += [os.path.expanduser(name) for name in _HOME.get(host, ())]
    if host == "claude-code":
        base = os.environ.get("CLAUDE_CONFIG_DIR") or os.path.expanduser("~/.claude")
        folder = "".join(c if c.isascii() and c.isalnum() else "-" for c in root)
        paths.append(os.path.join(base, "projects", folder, "memory", "MEMORY.md"))
    text = "\n".join(map(_read, paths))
    return " ".join("".join(c if c.isalnum() else " " for c in text.casefold()).split())


def _read(path: str) -> str:
    try:
        # Not blocking: whatever the path names, a hook must not wait for it.
        descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0))
        with open(descriptor, "rb") as file:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                return ""
            return file.read(MOST_BYTES).decode("utf-8", "replace")
    except OSError:
        return ""
