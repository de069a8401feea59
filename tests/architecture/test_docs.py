"""What the documents say is what the program does."""

from __future__ import annotations

import re
from pathlib import Path

from zapomni_cli.main import COMMANDS
from zapomni_core.settings import ENV_PREFIX, Settings

ROOT = Path(__file__).parent.parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])


def test_every_setting_is_in_the_readme():
    names = [f"`{ENV_PREFIX}{name.upper()}`" for name in Settings.model_fields]
    assert [name for name in names if name not in README] == []


def test_the_readme_names_no_setting_that_does_not_exist():
    named = set(re.findall(rf"{ENV_PREFIX}([A-Z_]+)", README))
    assert named == {name.upper() for name in Settings.model_fields}


def find_in_pages(pattern: str) -> list[tuple[Path, str]]:
    """Return what a pattern finds, each with its page."""
    found = re.compile(pattern, re.MULTILINE)
    return [(page, one) for page in PAGES for one in found.findall(page.read_text("utf-8"))]


def test_every_command_a_page_shows_exists():
    shown = find_in_pages(r"(?:^ {4}|`)zapomni ([a-z]+)")
    assert shown
    assert [(page.name, name) for page, name in shown if name not in COMMANDS] == []


def test_links_to_files_of_the_repository_lead_somewhere():
    links = find_in_pages(r"\]\(([^)#:]+)\)")
    assert links
    assert [(page.name, link) for page, link in links if not (page.parent / link).exists()] == []


def test_every_decision_has_its_own_number():
    numbers = [page.name[:4] for page in sorted((ROOT / "docs/adr").glob("*.md"))]
    assert numbers == [f"{n:04d}" for n in range(1, len(numbers) + 1)]
