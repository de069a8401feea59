"""Cuts a release: one version everywhere, and the changes since the last one under its name.

    python -m tools.release 0.2.0 2026-11-16

Writes VERSION in src/zapomni_core/infra/sharing.py (pyproject.toml reads it there), the manifests
of the plugins and CHANGELOG.md. Commit that, tag it, and push the tag: the workflow publishes it.
"""

from __future__ import annotations

import re
import sys
from datetime import date
from pathlib import Path

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "zapomni_core" / "infra" / "sharing.py"
_VERSION = re.compile(r'^VERSION = "([^"]+)"', re.MULTILINE)
_RELEASE = re.compile(r"\d+\.\d+\.\d+")


def main() -> None:
    """Cut the release that the arguments name."""
    if len(sys.argv) != 3 or not _RELEASE.fullmatch(sys.argv[1]):
        sys.exit(__doc__)
    version, day = sys.argv[1], date.fromisoformat(sys.argv[2])
    old = set_version(version)
    changelog = ROOT / "CHANGELOG.md"
    changelog.write_text(cut(changelog.read_text("utf-8"), version, day), "utf-8")
    print(f"{old} -> {version}. Commit it and tag it: git tag v{version}")


def set_version(version: str) -> str:
    """Write a version wherever there is one, and return the one before."""
    source = SOURCE.read_text("utf-8")
    found = _VERSION.search(source)
    assert found is not None, "no VERSION"
    SOURCE.write_text(_VERSION.sub(f'VERSION = "{version}"', source), "utf-8")
    for path in (ROOT / "plugins").rglob("*.json"):
        text = path.read_text("utf-8")
        changed = text.replace(f'"version": "{found[1]}"', f'"version": "{version}"')
        if changed != text:
            path.write_text(changed, "utf-8")
    return found[1]


def cut(changelog: str, version: str, day: date) -> str:
    """Return a changelog whose unreleased changes have a version and a date.

    Raises:
        SystemExit: Nothing is unreleased.
    """
    before, heading, after = changelog.partition("## Unreleased\n")
    changes = after.partition("\n## ")[0].strip()
    if not heading or not changes:
        sys.exit("CHANGELOG.md has nothing under Unreleased.")
    return f"{before}## Unreleased\n\n## {version} ({day})\n{after}"


if __name__ == "__main__":
    main()
