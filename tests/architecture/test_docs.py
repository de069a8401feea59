"""What the documents say is what the program does."""

from __future__ import annotations

import re
from pathlib import Path

from zapomni_cli.main import COMMANDS
from zapomni_core.settings import ENV_PREFIX, Settings

ROOT = Path(__file__).parent.parent.parent
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])


def find_in_pages(pattern: str) -> list[tuple[Path, str]]:
    """Return what a pattern finds, each with its page."""
    found = re.compile(pattern, re.MULTILINE)
    return [(page, one) for page in PAGES for one in found.findall(page.read_text("utf-8"))]


def test_every_command_a_page_shows_exists():
    shown = find_in_pages(r"(?:^|^ {4}|`)zapomni ([a-z]+)")
    assert shown
    assert [(page.name, name) for page, name in shown if name not in COMMANDS] == []


def test_no_page_names_a_setting_that_does_not_exist():
    known = {name.upper() for name in Settings.model_fields}
    named = find_in_pages(rf"{ENV_PREFIX}([A-Z_]*[A-Z])")
    assert [(page.name, name) for page, name in named if name not in known] == []


def test_links_to_files_of_the_repository_lead_somewhere():
    links = find_in_pages(r"\]\(([^)#:]+)\)")
    assert links
    assert [(page.name, link) for page, link in links if not (page.parent / link).exists()] == []


def test_every_decision_has_its_own_number():
    numbers = [page.name[:4] for page in sorted((ROOT / "docs/adr").glob("*.md"))]
    assert numbers == [f"{n:04d}" for n in range(1, len(numbers) + 1)]
