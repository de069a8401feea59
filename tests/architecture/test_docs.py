"""What the documents say is what the program does."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from zapomni_cli.main import COMMANDS
from zapomni_core.settings import ENV_PREFIX, Settings

ROOT = Path(__file__).parent.parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])


@pytest.mark.parametrize("name", Settings.model_fields)
def test_every_setting_is_in_the_readme(name):
    assert f"`{ENV_PREFIX}{name.upper()}`" in README


def test_the_readme_names_no_setting_that_does_not_exist():
    named = set(re.findall(rf"{ENV_PREFIX}([A-Z_]+)", README))
    assert named == {name.upper() for name in Settings.model_fields}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_command_a_page_shows_exists(page):
    text = page.read_text(encoding="utf-8")
    shown = set(re.findall(r"(?:^ {4}|`)zapomni ([a-z]+)", text, re.MULTILINE))
    assert shown <= COMMANDS.keys()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_to_files_of_the_repository_lead_somewhere(page):
    links = re.findall(r"\]\(([^)#:]+)\)", page.read_text(encoding="utf-8"))
    missing = [link for link in links if not (page.parent / link).exists()]
    assert missing == []


def test_every_decision_has_its_own_number():
    numbers = [page.name[:4] for page in sorted((ROOT / "docs/adr").glob("*.md"))]
    assert numbers == [f"{n:04d}" for n in range(1, len(numbers) + 1)]
