"""README and docs: their commands run as written, their words are those of the glossary."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

import pytest

from command import add, on_terminal
from serving import in_process
from tools import plots
from tools.readme import list_pages, make_environment, read_blocks, read_notes, run_page
from tools.ways import PICTURES, WAYS, draw

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "SECURITY.md", ROOT / "CONTRIBUTING.md",
         *sorted((ROOT / "docs").glob("*.md"))]  # fmt: skip
PROSE = [*PAGES, ROOT / "CHANGELOG.md", *sorted((ROOT / "docs" / "adr").glob("*.md"))]
# The left column of the glossary: words that only we used to use.
PRIVATE_WORDS = re.compile(
    (
        r"\b(stands?|stood|standing|told|tells?|telling|beside|nobody|somebody|whoever"
        r"|(?:speaks?|spoke|speaking) (?:of|for)|(?:has|have|had) (?:a|its|their) (?:full )?say"
        r"|its word counts|look(?:s|ed|ing)? (?:at|for|after)|goes|(?:go|went|going) on"
        r"|(?:is|are|was|were) gone|any more|at all|as (?:it|they) (?:was|were)"
        r"|of (?:its|their|one's|my|your) own|(?:the|what (?:was|is)) kept|hangs? together"
        r"|who is killed|which of it|why this one|kinder than)\b"
    ).replace(" ", r"\s+"),
    re.IGNORECASE,
)
# What is quoted is not said: code, sentences between quotation marks, names of promises.
QUOTED = re.compile(
    r"^```.*?^```|`[^`]*`|\"[^\"]*\"|“[^”]*”|<!--.*?-->|^\*\*[\w-]+\*\*",
    re.MULTILINE | re.DOTALL,
)
EXCEPTIONS = {
    "--beside": "a public option, which is never renamed",
}
COMMAND = re.compile(r"^(?:    )?(?:zapomni|pip|uv|make|python) ", re.MULTILINE)
LANGUAGES = {"sh", "text", "python", "json", "toml"}


def find_private_words(text: str) -> list[str]:
    for words in EXCEPTIONS:
        text = text.replace(words, "")
    return [found[0] for found in PRIVATE_WORDS.finditer(text)]


@pytest.mark.parametrize("page", list_pages())
def test_every_command_of_a_page_runs_as_written(page, tmp_path):
    outcomes = list(run_page(page, tmp_path, make_environment(tmp_path)))
    assert outcomes
    for outcome in outcomes:
        assert outcome.code == 0, f"{page}:{outcome.block.line}\n{outcome.output}"


def test_a_block_that_fails_is_noticed_and_every_step_is_timed(tmp_path, monkeypatch):
    page = tmp_path / "page.md"
    page.write_text("# Page\n\n```sh\ncd /\nsleep 0.2\nzapomni get 00000000-no\n```\n", "utf-8")
    monkeypatch.setattr("tools.readme.read_blocks", lambda _: read_blocks(str(page)))
    (outcome,) = run_page("README.md", tmp_path, make_environment(tmp_path))
    assert outcome.code == 3
    assert [step.command for step in outcome.steps] == ["cd /", "sleep 0.2"]
    assert outcome.steps[1].wall > 0.19


def test_the_time_of_a_step_is_that_until_the_next():
    notes = (
        "10.5 zapomni add 'a\nb'\n0m0.1s 0m0.0s\n0m1.0s 0m0.5s\n"
        "13.0 trap - DEBUG\n0m0.1s 0m0.0s\n1m1.0s 0m0.75s\n"
    )
    assert read_notes(notes) == [("zapomni add 'a", 2.5, 60.25)]


def test_readme_shows_what_the_next_session_is_really_given(model):
    page = (ROOT / "README.md").read_text("utf-8")
    (promised,) = re.findall(r"before you typed a word:\n\n```text\n(.*?)```", page, re.DOTALL)
    code, shown = on_terminal("demo")  # on a terminal of 100 columns
    assert code == 0
    plain = re.sub(r"\x1b\[[\d;]*m", "", shown).replace("\r\n", "\n")
    assert _without_ids(promised) in _without_ids(plain)


def _without_ids(text: str) -> str:
    return re.sub(r"\b[0-9a-f]{8}\b|\d{4}-\d\d-\d\d \d\d:\d\d", "ID", text)


def test_answers_on_the_page_about_search_are_real(model, tmp_path, monkeypatch):
    shop = tmp_path / "shop"
    shop.mkdir()
    monkeypatch.chdir(shop)
    for position, text in enumerate(
        ("Anna: Which port does staging use?", "Ben: Staging Postgres listens on 5433.")
    ):
        turn = ("--parent", "standup-12", "--position", str(position), "--when", "2026-03-12")
        add(text, *turn, "--global")
    add("We left MySQL for Postgres 16: partial indexes, and the JSON columns were slow.")
    page = (ROOT / "docs" / "search.md").read_text("utf-8")
    shown = re.findall(
        r"^```text\n\$ zapomni (\w+) \"([^\"]*)\"\n(.*?)```$", page, re.MULTILINE | re.DOTALL
    )
    assert [words for _, words, _ in shown] == [
        *("postgres staging port", "Production deploys happen on Thursdays.", "postgers staging")
    ]
    add("We deploy to production on Tuesdays.")
    for command, words, promised in shown:
        said = re.sub(r"\x1b\[[\d;?]*[a-zA-Z]| +(?=\r)|\r", "", on_terminal(command, words)[1])
        assert _without_ids(promised) in _without_ids(said)


def test_figures_of_readme_are_those_of_the_benchmarks():
    readme = (ROOT / "README.md").read_text("utf-8")
    page = (ROOT / "docs" / "benchmarks.md").read_text("utf-8")
    table = page[page.index("### Figures") :]
    rows = re.findall(r"^\| (\w[\w-]*) \|((?: [.\d]+/[.\d]+/[.\d]+ \|){6})$", table, re.MULTILINE)
    # The first table has all systems; later ones compare Zapomni with parts of itself.
    found = dict(reversed([(name, re.findall(r"/([.\d]+)/", cells)) for name, cells in rows]))
    peers = [cells for name, cells in found.items() if not name.startswith("zapomni")]
    for title, cells in {
        "Zapomni": found["zapomni"],
        "best of eight others": [max(column, key=float) for column in zip(*peers, strict=True)],
    }.items():
        assert f"| {title} | {' | '.join(cells)} |\n" in readme
    assert len(peers) == 8


def test_python_of_readme_runs(model):
    page = (ROOT / "README.md").read_text("utf-8")
    (code,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    names: dict[str, object] = {}
    exec(compile(code, "README.md", "exec"), names)
    assert "Tuesdays" in str(names["hits"])


@pytest.mark.parametrize("path", PROSE, ids=lambda path: path.name)
def test_pages_use_the_words_everybody_knows(path):
    text = path.read_text("utf-8")
    if path.name == "cli.md":  # the help itself is between fences
        text = re.sub(r"^```\w*$", "", text, flags=re.MULTILINE)
    assert find_private_words(QUOTED.sub("", text)) == []


@pytest.mark.anyio
async def test_what_agents_read_uses_the_words_everybody_knows():
    async with in_process(every_tool=True) as client:
        tools = (await client.list_tools()).tools
        prompts = (await client.list_prompts()).prompts
    texts = [f"{one.title} {one.description}" for one in (*tools, *prompts)]
    texts += [str(tool.input_schema) for tool in tools]
    assert len(texts) > 50
    assert [found for text in texts for found in find_private_words(QUOTED.sub("", text))] == []


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_commands_are_in_blocks_that_are_run_or_said_not_to_be(path):
    page = path.read_text("utf-8")
    assert set(re.findall(r"^```(\w+)$", page, re.MULTILINE)) <= LANGUAGES
    if path.name == "cli.md":
        return  # the output of --help
    text = re.sub(r"^```\w+\n.*?^```$", "", page, flags=re.MULTILINE | re.DOTALL)
    assert COMMAND.findall(text) == []


@pytest.mark.parametrize("name", WAYS)
def test_the_pictures_of_ways_are_current_and_name_what_exists(name):
    assert (PICTURES / f"{name}.svg").read_text("utf-8") == draw(name), "run: python -m tools.ways"
    for step in WAYS[name]:
        for module in step.where.split(", "):
            assert importlib.util.find_spec(module) is not None


@pytest.mark.parametrize("name", ["recall-cost", "cost-size"])
def test_plots_show_what_the_tables_say(name):
    drawn = plots.draw()[name]
    assert (PICTURES / f"{name}.svg").read_text("utf-8") == drawn, "run: python -m tools.plots"


def test_the_index_leads_to_every_page():
    index = (ROOT / "docs" / "README.md").read_text("utf-8")
    missing = [path.name for path in PAGES if path.parent.name == "docs" and path.name not in index]
    assert missing == ["README.md"]


def test_the_page_of_settings_is_what_the_settings_say():
    spec = importlib.util.spec_from_file_location("build_settings", ROOT / "docs/build_settings.py")
    assert spec is not None
    assert spec.loader is not None
    build_settings = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(build_settings)
    page = build_settings.PAGE.read_text(encoding="utf-8")
    assert page == build_settings.render(), "run: python docs/build_settings.py"
