"""What holds for every page: it opens, it is safe, it has its JSON and its command."""

from __future__ import annotations

import hashlib
import html
import json
import re
import subprocess
from itertools import chain
from pathlib import Path
from urllib.parse import quote

import pytest
from addresses import addresses, questions

import zapomni_web
from zapomni_web.app import _load
from zapomni_web.routes import CHANGES, PAGES

STATIC = Path(zapomni_web.__path__[0]) / "static"
TEMPLATES = sorted((Path(zapomni_web.__path__[0]) / "templates").glob("*.html"))


def every_address(home):
    return [*chain.from_iterable(addresses(home).values()), *questions(home)]


def test_every_page_and_change_has_its_function_and_an_address_to_test(home):
    assert addresses(home).keys() == {page.path for page in PAGES}
    for name in [page.view for page in PAGES] + [c.make for c in CHANGES]:
        assert callable(_load(name))
    assert all(callable(_load(change.ask)) for change in CHANGES if change.ask)


def test_every_page_opens_with_one_heading_and_landmarks(site, home):
    for address in every_address(home):
        page = site.get(address)
        assert page.text.count("<h1") == 1, address
        assert page.text.count("<main") == 1, address
        assert len(page.body) < 80_000, address


def test_no_stored_text_becomes_a_tag_or_hides_on_any_page(site, home):
    shown = ""
    for address in every_address(home):
        page = site.get(address)
        text = page.text
        for script in re.findall(r"<script\b[^>]*>", text):
            assert re.fullmatch(r'<script src="/static/[0-9a-f]+/\w+\.js"( defer)?>', script)
        for bad in (
            "<img",
            "<style",
            "<base",
            "<meta http",
            "<svg onload",
            "<b onmouse",
        ):
            assert bad not in text, (address, bad)
        assert not re.search(r"<[^>]*\s(on\w+|style)\s*=", text), address
        for link in re.findall(r'(?:href|action|src)="([^"]*)"', text):
            assert link.startswith(("/", "#", "https://", "http://")), (address, link)
        assert "' 49 {%" not in page.shown, address
        for unseen in "\x1b\x07\u202e\u202c\u200b\U000e0041":
            assert unseen not in text, address
        shown += page.shown
    for written in (r"\u001b[31mred", r"\u202eesrever\u202c", r"zero\u200bwidth", "<script>"):
        assert written in shown


def test_no_page_changes_anything_when_it_is_opened(site, home):
    def stored() -> dict[str, bytes]:
        paths = [path for path in home.folder.rglob("*") if path.is_file()]
        return {str(path): hashlib.sha256(path.read_bytes()).digest() for path in paths}

    every = every_address(home)
    for address in every:
        site.get(address)
    # A log that is being written is written by now; a search must not leave one behind.
    site.engine.recalls.flush()
    before = stored()
    for address in every:
        site.get(address)
    site.engine.recalls.flush()

    after = stored()
    # The index of the write-ahead log is memory that readers share.
    assert {name for name in before | after if before.get(name) != after.get(name)} <= {
        name for name in after if name.endswith("-shm")
    }


def test_json_of_every_page_is_json_and_as_private(site, home):
    for group in addresses(home).values():
        path, _, query = group[0].partition("?")
        answer = site.get(f"{path}.json{'?' + query if query else ''}")
        json.loads(answer.body)
        assert answer.headers["content-type"] == "application/json"


def test_every_command_that_is_shown_can_be_pasted_into_a_shell(site, home):
    for address in every_address(home):
        for line in re.findall(r'data-copy="([^"]*)"', site.get(address).text):
            command = html.unescape(line)
            assert "\n" not in command
            if not command.startswith("zapomni "):
                continue
            printed = subprocess.run(
                ["bash", "-c", f"printf '%s\\0' {command}"], capture_output=True, check=True
            ).stdout
            arguments = printed.decode().split("\0")[:-1]
            assert arguments[0] == "zapomni"
            assert all("\x1b" not in one for one in arguments)


@pytest.mark.parametrize(
    "question",
    ["$(touch hurt) `id` ' \" ; rm -rf / && x", "two\nlines\tand \u202e 'quotes'", "--all"],
)
def test_a_hostile_question_is_one_argument_of_the_command(site, question):
    page = site.get(f"/search?q={quote(question)}")

    line = html.unescape(re.findall(r'data-copy="([^"]*)"', page.text)[-1])
    printed = subprocess.run(
        ["bash", "-c", f"printf '%s\\0' {line}"], capture_output=True, check=True
    ).stdout
    assert printed.decode().split("\0")[:-1] == ["zapomni", "search", "--all", "--", question]


def test_templates_use_nothing_that_the_policy_forbids():
    for template in TEMPLATES:
        text = template.read_text(encoding="utf-8")
        assert not re.search(r"\sstyle=|\son\w+=|javascript:|\|\s*safe|https?://", text), template


def test_our_script_is_small_and_loads_nothing_from_elsewhere():
    scripts = {file.name: file.read_text(encoding="utf-8") for file in STATIC.glob("*.js")}
    assert sum(len(text.splitlines()) for text in scripts.values()) <= 900
    for text in scripts.values():
        assert not re.search(
            r"innerHTML|outerHTML|eval\(|https?://|insertAdjacent|document\.write", text
        )


def test_a_page_that_does_not_exist_says_so(site):
    assert "Not found" in site.get("/nothing", 404).shown
    assert site.get("/m/00000000-0000-4000-8000-000000000000.json", 404).data["error"]


def test_wrong_parameters_are_answered_in_words(site):
    assert "use a date" in site.get("/search?q=x&since=nonsense", 400).shown
    assert "must be a number" in site.get("/search?offset=-1", 400).shown


def test_every_section_of_the_style_sheet_begins_outside_of_any_block():
    open_blocks = 0
    for line in (STATIC / "zapomni.css").read_text("utf-8").splitlines():
        assert open_blocks == 0 or not line.startswith("/* ---"), line
        open_blocks += line.count("{") - line.count("}")
    assert open_blocks == 0
