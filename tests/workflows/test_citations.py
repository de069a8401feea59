"""Memories that cite code say the right word about it, whatever was done to the code."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from typing import NamedTuple

import pytest
from code_trees import Repository, index

from zapomni_core.exceptions import ValidationError
from zapomni_core.infra.projects import head_commit
from zapomni_core.interfaces import AddMemoryRequest, SearchRequest, UpdateMemoryRequest

pytestmark = pytest.mark.anyio

CHECK = "src/auth.py:check_token"
RENEW = "src/auth.py:Token.renew"
TOKEN = "src/auth.py:Token"


@pytest.fixture
def repository(tmp_path) -> Repository:
    return Repository(tmp_path / "shop")


class Case(NamedTuple):
    cites: str
    change: Callable[[Repository], object]
    status: str
    now: str = ""
    content: str = ""
    """What it says of the content; empty: what the status implies."""


def rename(old: str, new: str, path: str = "src/auth.py") -> Callable[[Repository], None]:
    return lambda repository: repository.edit(path, old, new)


def _delete_check(repository: Repository) -> str:
    return repository.cut("src/auth.py", "def check_token", "def issue")


def _delete_token(repository: Repository) -> str:
    return repository.cut("src/auth.py", "class Token", "def left")


def _into(path: str, extra: str = "") -> Callable[[Repository], None]:
    """Move check_token to another file."""

    def change(repository: Repository) -> None:
        taken = _delete_check(repository)
        before = repository.read(path) if repository.path(path).exists() else ""
        repository.write(path, f"{before}{extra}\n\n{taken}")

    return change


def _moved_and_edited(repository: Repository) -> None:
    taken = _delete_check(repository)
    repository.write("src/tokens.py", "import time\n\n\n" + taken.replace("now or", "now or 0 or"))


def _on_branch(change: Callable[[Repository], object], *, back: bool = False):
    def switch(repository: Repository) -> None:
        repository.git("checkout", "-q", "-b", "other")
        change(repository)
        repository.commit("other")
        if back:
            repository.git("checkout", "-q", "main")

    return switch


def _rewrite(repository: Repository) -> None:
    text = repository.read("src/auth.py")
    repository.path("src/auth.py").unlink()
    repository.write("src/auth.py", text)


def _swap(repository: Repository) -> None:
    taken = repository.cut("src/auth.py", "def issue", "class Token")
    repository.edit("src/auth.py", "def check_token", f"{taken}def check_token")


def _link_outside(repository: Repository) -> None:
    outside = repository.root.parent / "outside.py"
    outside.write_text(repository.read("src/auth.py"), encoding="utf-8")
    repository.path("src/auth.py").unlink()
    repository.path("src/auth.py").symlink_to(outside)


def _copy_then_delete(repository: Repository) -> None:
    shutil.copy(repository.path("src/auth.py"), repository.path("src/tokens.py"))
    _delete_check(repository)


CASES = {
    # nothing happened to it
    "nothing at all": Case(CHECK, lambda _: None, "fresh"),
    "a commit": Case(CHECK, lambda r: r.commit("more"), "fresh"),
    "the file is touched": Case(CHECK, lambda r: os.utime(r.path("src/auth.py")), "fresh"),
    "the file is written again": Case(CHECK, _rewrite, "fresh"),
    "lines are put in above": Case(CHECK, rename("import time", "import os\nimport time"), "fresh"),
    "another function is edited": Case(CHECK, rename('"issued"', '"made"'), "fresh"),
    "the order of functions changes": Case(CHECK, _swap, "fresh"),
    "a comment above it is edited": Case(
        CHECK, rename("def check_token", "# Mind the clock.\ndef check_token"), "fresh"
    ),
    "the file breaks elsewhere": Case(CHECK, rename("class Token:", "class Token(:"), "fresh"),
    "its file is copied": Case(
        CHECK, lambda r: shutil.copy(r.path("src/auth.py"), r.path("src/copy.py")), "fresh"
    ),
    "an unrelated file goes": Case(CHECK, lambda r: r.path("src/shop.py").unlink(), "fresh"),
    "a branch and back": Case(CHECK, _on_branch(_delete_check, back=True), "fresh"),
    # only its words changed
    "its docstring is edited": Case(
        CHECK, rename("still counts", "counts"), "fresh", content="reworded"
    ),
    "its docstring goes": Case(
        CHECK, rename('    """Say whether a token still counts."""\n', ""), "fresh",
        content="reworded",
    ),
    "a comment in it is written": Case(
        CHECK, rename("    moment =", "    # The clock may differ.\n    moment ="), "fresh",
        content="reworded",
    ),
    "it gets annotations": Case(
        CHECK, rename("(token, now=None):", "(token: Token, now: float | None = None) -> bool:"),
        "fresh", content="reworded",
    ),
    "it is formatted": Case(
        CHECK,
        rename("(token, now=None):", "(\n    token,\n    now=None,\n):"), "fresh",
        content="reworded",
    ),
    "brackets are put around": Case(
        CHECK, rename("token.issued + EXPIRY > moment", "(token.issued + EXPIRY) > moment"),
        "fresh", content="reworded",
    ),
    "its quotes change": Case(
        RENEW, rename('"too late"', "'too late'"), "fresh", content="reworded"
    ),
    "a class's docstring is edited": Case(
        TOKEN, rename("What a user shows.", "A sign."), "fresh", content="reworded"
    ),
    "a file is formatted": Case(
        "web/cart.js", rename("    return this.total();", "  return this.total()", "web/cart.js"),
        "fresh", content="reworded",
    ),
    "a comment in JavaScript": Case(
        "web/cart.js:Cart.total",
        rename("  total() {", "  total() { // all of them", "web/cart.js"), "fresh",
        content="reworded",
    ),
    "it goes to a new file and is reworded": Case(
        CHECK,
        lambda r: (_into("src/tokens.py")(r), r.edit("src/tokens.py", "still counts", "counts")),
        "moved", "src/tokens.py:check_token", "reworded",
    ),
    # it was edited
    "a field of the class is added": Case(
        TOKEN, rename('    """What a user shows."""', "    kind: str"), "changed"
    ),
    "its body is edited": Case(CHECK, rename("EXPIRY > moment", "EXPIRY >= moment"), "changed"),
    "its signature is edited": Case(CHECK, rename("(token, now=None)", "(token, now)"), "changed"),
    "a decorator is added": Case(
        CHECK, rename("def check_token", "@cache\ndef check_token"), "changed"
    ),
    "a constant gets another value": Case(
        "src/auth.py:EXPIRY", rename("EXPIRY = 3600", "EXPIRY = 7200"), "changed"
    ),
    "a method of the class is edited": Case(TOKEN, rename('"too late"', '"late"'), "changed"),
    "a method is edited": Case(RENEW, rename('"too late"', '"late"'), "changed"),
    "a branch where it differs": Case(
        CHECK, _on_branch(rename("EXPIRY > moment", "EXPIRY >= moment")), "changed"
    ),
    "it breaks": Case(CHECK, rename("moment = now or", "moment = now or ("), "changed"),
    # it is elsewhere, or called something else
    "it is renamed": Case(
        CHECK, rename("def check_token", "def verify"), "moved", "src/auth.py:verify"
    ),
    "it is renamed wherever it is called": Case(
        CHECK, rename("check_token", "verify"), "moved", "src/auth.py:verify"
    ),
    "its class is renamed": Case(
        RENEW, rename("Token", "Ticket"), "moved", "src/auth.py:Ticket.renew"
    ),
    "the class is renamed": Case(
        TOKEN, rename("class Token", "class Ticket"), "moved", "src/auth.py:Ticket"
    ),
    "its file is moved by git": Case(
        CHECK, lambda r: r.git("mv", "src/auth.py", "src/tokens.py"), "moved",
        "src/tokens.py:check_token",
    ),
    "its file is moved": Case(
        CHECK, lambda r: r.move("src/auth.py", "lib/deep/auth.py"), "moved",
        "lib/deep/auth.py:check_token",
    ),
    "its folder is renamed": Case(
        CHECK, lambda r: r.move("src", "lib"), "moved", "lib/auth.py:check_token"
    ),
    "it goes to another file": Case(
        CHECK, _into("src/shop.py"), "moved", "src/shop.py:check_token"
    ),
    "it goes to a new file": Case(
        CHECK, _into("src/tokens.py", "import time\n"), "moved", "src/tokens.py:check_token"
    ),
    "it is copied and then deleted": Case(
        CHECK, _copy_then_delete, "moved", "src/tokens.py:check_token"
    ),
    "a branch where its file is elsewhere": Case(
        CHECK, _on_branch(lambda r: r.move("src/auth.py", "src/tokens.py")), "moved",
        "src/tokens.py:check_token",
    ),
    "one of two alike is renamed": Case(
        "src/auth.py:left", rename("def left", "def first"), "moved", "src/auth.py:first"
    ),
    "it is moved and edited": Case(
        CHECK, _moved_and_edited, "changed", "src/tokens.py:check_token"
    ),
    # it is not there any more
    "it is deleted": Case(CHECK, _delete_check, "gone"),
    "the class is deleted": Case(TOKEN, _delete_token, "gone"),
    "its class is deleted": Case(RENEW, _delete_token, "gone"),
    "its file is deleted": Case(CHECK, lambda r: r.path("src/auth.py").unlink(), "gone"),
    "one of two alike is deleted": Case(
        "src/auth.py:left", lambda r: r.cut("src/auth.py", "def left", "def right"), "gone"
    ),
    "it is renamed and edited": Case(
        CHECK, lambda r: r.edit("src/auth.py", "def check_token(token, now=None)", "def ok(t)"),
        "changed", "src/auth.py:ok",
    ),
    "a branch without it": Case(CHECK, _on_branch(_delete_check), "gone"),
    "a branch without its file": Case(
        CHECK, _on_branch(lambda r: r.path("src/auth.py").unlink()), "gone"
    ),
    "its file becomes a link to outside": Case(CHECK, _link_outside, "gone"),
    "the repository is deleted": Case(CHECK, lambda r: shutil.rmtree(r.root), "gone"),
    # whole files
    "a file stays": Case("docs/notes.md", lambda _: None, "fresh"),
    "a file is edited": Case(
        "docs/notes.md", rename("by hand", "alone", "docs/notes.md"), "changed"
    ),
    "a file is moved": Case(
        "docs/notes.md", lambda r: r.move("docs/notes.md", "README.md"), "moved", "README.md"
    ),
    "a file is deleted": Case("docs/notes.md", lambda r: r.path("docs/notes.md").unlink(), "gone"),
    "a file is moved and edited": Case(
        "src/auth.py",
        lambda r: (r.move("src/auth.py", "lib/tokens.py"),
                   r.edit("lib/tokens.py", "EXPIRY = 3600", "EXPIRY = 60\nGRACE = 5")),
        "changed", "lib/tokens.py",
    ),
    # lines
    "lines stay": Case("src/auth.py:L8-L11", rename('"issued"', '"made"'), "fresh"),
    "lines get blanks at their ends": Case(
        "src/auth.py:L8-L11", rename("or time.time()\n", "or time.time()  \n"), "fresh"
    ),
    "lines move down": Case(
        "src/auth.py:L8-L11", rename("import time", "import os\n\nimport time"), "moved",
        "src/auth.py:L10-L13",
    ),
    "lines are edited": Case("src/auth.py:10", rename("now or", "now or 0 or"), "changed"),
    "lines are edited and move down": Case(
        "src/auth.py:L20-L30",
        lambda r: (r.edit("src/auth.py", "import time", "import time\n" + "import os\n" * 15),
                   r.edit("src/auth.py", '"too late"', '"late"')),
        "changed", "src/auth.py:L36-L46",
    ),
    "lines go to another file": Case(
        "src/auth.py:L20-L30",
        lambda r: r.write("lib/token.py", "import abc\n\n" + _delete_token(r)), "moved",
        "lib/token.py:L3-L13",
    ),
    "lines move with their file": Case(
        "src/auth.py:L8-L11", lambda r: r.move("src/auth.py", "src/tokens.py"), "moved",
        "src/tokens.py:L8-L11",
    ),
    "lines go with their file": Case(
        "src/auth.py:L8-L11", lambda r: r.path("src/auth.py").unlink(), "gone"
    ),
    # other languages
    "a heading stays": Case(
        "docs/notes.md:Deploy", rename("last", "newest", "docs/notes.md"), "fresh"
    ),
    "a section is edited": Case(
        "docs/notes.md:Deploy", rename("by hand", "alone", "docs/notes.md"), "changed"
    ),
    "a method in JavaScript is edited": Case(
        "web/cart.js:Cart.total", rename("item.price, 0", "item.price, 1", "web/cart.js"), "changed"
    ),
    "a method in JavaScript is renamed": Case(
        "web/cart.js:Cart.total", rename("  total() {", "  sum() {", "web/cart.js"), "moved",
        "web/cart.js:Cart.sum",
    ),
    "a class in JavaScript goes to another file": Case(
        "web/cart.js:Cart", lambda r: r.move("web/cart.js", "web/basket.js"), "moved",
        "web/basket.js:Cart",
    ),
}  # fmt: skip


# What the old words are made of.
WORDS = {
    "fresh": {("same", "same"), ("same", "reworded")},
    "changed": {("same", "changed"), ("moved", "changed")},
    "moved": {("moved", "same"), ("moved", "reworded")},
    "gone": {("gone", "")},
}


async def cite(engine, repository, place: str, text: str = "Worth knowing.") -> str:
    request = AddMemoryRequest(text=text, cites=[place], folder=str(repository.root))
    return (await engine.add_memory(request)).memory_id


@pytest.mark.parametrize("mode", ["indexed before", "indexed again", "never indexed"])
async def test_a_citation_says_what_became_of_the_code(wordy_engine, tmp_path, mode):
    said = {}
    for number, (name, case) in enumerate(CASES.items()):
        shutil.rmtree(tmp_path / "shop", ignore_errors=True)
        repository = Repository(tmp_path / "shop")
        if mode != "never indexed":
            await index(wordy_engine, repository.root)
        memory_id = await cite(wordy_engine, repository, case.cites, f"Worth knowing: {number}.")
        (before,) = await wordy_engine.citations.get(memory_id)

        case.change(repository)
        if mode == "indexed again" and repository.root.exists():
            await index(wordy_engine, repository.root)
        (after,) = await wordy_engine.citations.get(memory_id)
        said[name] = (before.status, after.status, after.now)
        if case.content:
            assert after.content == case.content, name
        assert (after.place, after.content) in WORDS[after.status], name
        await wordy_engine.delete_memory(memory_id)

    assert said == {name: ("fresh", case.status, case.now) for name, case in CASES.items()}


def test_there_are_enough_cases():
    assert len(CASES) >= 40
    assert {case.status for case in CASES.values()} == {"fresh", "changed", "moved", "gone"}


# --- Said, or found in the text -----------------------------------------------------------


async def cited(engine, memory_id: str) -> list[tuple[str, str]]:
    return [(one.cites, one.status) for one in await engine.citations.get(memory_id)]


async def keep(engine, repository, text: str, **more) -> str:
    request = AddMemoryRequest(text=text, folder=str(repository.root), **more)
    return (await engine.add_memory(request)).memory_id


TEXTS = {
    "Tokens expire: see src/auth.py.": ["src/auth.py"],
    "Look at auth.py:8 first.": ["src/auth.py:L8"],
    "It breaks in src/auth.py#L8-L11 at noon.": ["src/auth.py:L8-L11"],
    "auth.py:check_token is slow.": ["src/auth.py:check_token"],
    "check_token() compares seconds.": ["src/auth.py:check_token"],
    "We call `issue` once a day.": ["src/auth.py:issue"],
    "Token.renew raises when it is late.": ["src/auth.py:Token.renew"],
    "Cart.total sums prices; check_token does not.": [
        "web/cart.js:Cart.total",
        "src/auth.py:check_token",
    ],
    "The `src::auth` of Rust is none of ours.": [],
    "Please issue a token and order left over items.": [],
    "nothing.py and missing_name() are not here.": [],
    "Both `left` hands.": ["src/auth.py:left"],
    "e.g. version 3.11 of the notes, etc.": [],
    "See https://example.org/src/auth.py for more.": [],
    "CHECK_TOKEN is an environment variable.": [],
}


@pytest.mark.parametrize("text", TEXTS)
async def test_what_a_text_names_of_what_is_indexed_is_cited(wordy_engine, repository, text):
    await index(wordy_engine, repository.root)
    memory_id = await keep(wordy_engine, repository, text)
    found = await cited(wordy_engine, memory_id)
    assert found == [(place, "fresh") for place in TEXTS[text]]


async def test_a_name_that_may_mean_several_is_not_cited(wordy_engine, repository):
    repository.write("src/other.py", "def check_token(token):\n    return True\n")
    await index(wordy_engine, repository.root)
    memory_id = await keep(wordy_engine, repository, "check_token() is slow; auth.py is not.")
    assert await cited(wordy_engine, memory_id) == [("src/auth.py", "fresh")]


async def test_the_repository_one_is_in_comes_before_others(wordy_engine, repository, tmp_path):
    twin = Repository(tmp_path / "twin")
    await index(wordy_engine, repository.root)
    await index(wordy_engine, twin.root)
    text = "check_token() compares seconds."
    (here,) = await wordy_engine.citations.get(await keep(wordy_engine, twin, text))
    assert here.repository == str(twin.root)
    elsewhere = AddMemoryRequest(text=f"{text} Elsewhere.", folder=str(tmp_path))
    memory_id = (await wordy_engine.add_memory(elsewhere)).memory_id
    assert await wordy_engine.citations.get(memory_id) == []
    named = AddMemoryRequest(text=f"{text} By name.", folder=str(tmp_path), project="twin")
    (by_name,) = await wordy_engine.citations.get((await wordy_engine.add_memory(named)).memory_id)
    assert by_name.repository == str(twin.root)


async def test_without_an_index_nothing_is_found_in_texts(wordy_engine, repository):
    memory_id = await keep(wordy_engine, repository, "src/auth.py has check_token().")
    assert await cited(wordy_engine, memory_id) == []


GIVEN = {
    "src/auth.py": "src/auth.py",
    "./src/auth.py": "src/auth.py",
    "auth.py": "src/auth.py",
    "src/auth.py:Token.renew": "src/auth.py:Token.renew",
    "src/auth.py:renew": "src/auth.py:Token.renew",
    "src/auth.py::check_token()": "src/auth.py:check_token",
    "src/auth.py:12": "src/auth.py:L12",
    "src/auth.py#L8-L11": "src/auth.py:L8-L11",
    "check_token": "src/auth.py:check_token",
    "Token.renew()": "src/auth.py:Token.renew",
}


@pytest.mark.parametrize("place", GIVEN)
async def test_a_place_can_be_given_in_many_ways(wordy_engine, repository, place):
    await index(wordy_engine, repository.root)
    memory_id = await cite(wordy_engine, repository, place)
    assert await cited(wordy_engine, memory_id) == [(GIVEN[place], "fresh")]


async def test_a_path_from_a_folder_inside_the_repository_is_understood(wordy_engine, repository):
    request = AddMemoryRequest(
        text="Here.", cites=["auth.py:issue"], folder=str(repository.path("src"))
    )
    memory_id = (await wordy_engine.add_memory(request)).memory_id
    (one,) = await wordy_engine.citations.get(memory_id)
    assert (one.cites, one.repository) == ("src/auth.py:issue", str(repository.root))
    assert len(one.commit) == 40


@pytest.mark.parametrize(
    "place",
    [
        *("", "   ", "nowhere.py", "src/auth.py:nothing", "src/auth.py:L900", "src/auth.py:9-7:x"),
        *("../outside.py", "/etc/passwd", "src", "x" * 2000, "nothing_like_this"),
    ],
)
async def test_a_place_that_is_none_is_refused_and_nothing_is_kept(
    wordy_engine, repository, place, tmp_path
):
    (tmp_path / "outside.py").write_text("SECRET = 1\n", encoding="utf-8")
    await index(wordy_engine, repository.root)
    with pytest.raises(ValidationError) as refused:
        await cite(wordy_engine, repository, place)
    assert refused.value.message.startswith("cites")
    assert len(place) < 4 or place not in refused.value.message
    assert (await wordy_engine.get_stats())["total_memories"] == 0


async def test_too_many_places_are_refused(wordy_engine, repository):
    request = AddMemoryRequest(
        text="Much.", cites=["src/auth.py"] * 51, folder=str(repository.root)
    )
    with pytest.raises(ValidationError, match="cites exceed 50"):
        await wordy_engine.add_memory(request)


# --- Kept with the memory -----------------------------------------------------------------


async def test_a_search_says_what_became_of_the_code(wordy_engine, repository):
    await index(wordy_engine, repository.root)
    memory_id = await keep(wordy_engine, repository, "Zebras renew tokens.", cites=[CHECK])

    async def statuses() -> dict[str, list[str]]:
        request = SearchRequest(query="zebras", filters={"kind": "note"})
        found = await wordy_engine.search_memory(request)
        return {hit.memory_id: [one.status for one in hit.citations] for hit in found.results}

    assert await statuses() == {memory_id: ["fresh"]}
    # The same question, nothing written in between: the answer is kept, the check is not.
    repository.edit("src/auth.py", "EXPIRY > moment", "EXPIRY >= moment")
    assert await statuses() == {memory_id: ["changed"]}


async def test_citations_go_with_their_memory(wordy_engine, repository):
    memory_id = await cite(wordy_engine, repository, CHECK)
    await wordy_engine.delete_memory(memory_id)
    assert await wordy_engine.citations.get(memory_id) == []
    assert await wordy_engine._code.list_cited() == []


async def test_a_new_text_cites_what_it_names_and_keeps_what_was_given(wordy_engine, repository):
    await index(wordy_engine, repository.root)
    memory_id = await keep(wordy_engine, repository, "issue() makes them.", cites=[RENEW])
    assert [place for place, _ in await cited(wordy_engine, memory_id)] == [
        RENEW,
        "src/auth.py:issue",
    ]
    changed = UpdateMemoryRequest(
        memory_id=memory_id, text="check_token() tests them.", folder=str(repository.root)
    )
    await wordy_engine.update_memory(changed)
    assert [place for place, _ in await cited(wordy_engine, memory_id)] == [RENEW, CHECK]


async def test_the_same_text_added_again_keeps_what_was_given(wordy_engine, repository):
    text = "Tokens are renewed at night."
    memory_id = await keep(wordy_engine, repository, text, cites=[RENEW])
    assert await keep(wordy_engine, repository, text) == memory_id
    assert await cited(wordy_engine, memory_id) == [(RENEW, "fresh")]
    await keep(wordy_engine, repository, text, cites=[CHECK])
    assert await cited(wordy_engine, memory_id) == [(CHECK, "fresh")]


async def test_citing_again_makes_a_memory_fresh(wordy_engine, repository):
    memory_id = await cite(wordy_engine, repository, CHECK)
    repository.edit("src/auth.py", "EXPIRY > moment", "EXPIRY >= moment")
    assert await cited(wordy_engine, memory_id) == [(CHECK, "changed")]
    again = UpdateMemoryRequest(memory_id=memory_id, cites=[CHECK], folder=str(repository.root))
    await wordy_engine.update_memory(again)
    assert await cited(wordy_engine, memory_id) == [(CHECK, "fresh")]
    none = UpdateMemoryRequest(memory_id=memory_id, cites=[], folder=str(repository.root))
    await wordy_engine.update_memory(none)
    assert await cited(wordy_engine, memory_id) == []


async def test_changing_other_fields_leaves_citations_alone(wordy_engine, repository):
    memory_id = await cite(wordy_engine, repository, CHECK)
    await wordy_engine.update_memory(UpdateMemoryRequest(memory_id=memory_id, pinned=True))
    assert await cited(wordy_engine, memory_id) == [(CHECK, "fresh")]


async def test_stale_memories_are_listed_with_what_is_not_fresh(wordy_engine, repository):
    await index(wordy_engine, repository.root)
    stale = await keep(wordy_engine, repository, "Zebras.", cites=[CHECK, RENEW])
    await keep(wordy_engine, repository, "Giraffes.", cites=["docs/notes.md"])
    assert await wordy_engine.citations.list_stale() == []
    repository.edit("src/auth.py", "def check_token", "def verify")

    (found,) = await wordy_engine.citations.list_stale()

    assert (found.memory_id, found.preview) == (stale, "Zebras.")
    assert [(one.cites, one.status, one.now) for one in found.citations] == [
        (CHECK, "moved", "src/auth.py:verify")
    ]


async def test_citations_of_a_memory_deleted_behind_our_back_are_forgotten(
    wordy_engine, repository
):
    memory_id = await cite(wordy_engine, repository, CHECK)
    _delete_check(repository)
    await wordy_engine.storage.delete_memory(memory_id)
    assert await wordy_engine.citations.list_stale() == []
    assert await wordy_engine._code.list_cited() == []


async def test_a_search_goes_on_when_citations_cannot_be_checked(
    wordy_engine, repository, monkeypatch
):
    await keep(wordy_engine, repository, "Zebras.", cites=[CHECK])

    async def fail(_ids):
        raise ValidationError("no")

    monkeypatch.setattr(wordy_engine._code, "get_citations", fail)
    (hit,) = (await wordy_engine.search_memory(SearchRequest(query="zebras"))).results
    assert hit.citations == []


# --- What changed, since when -------------------------------------------------------------


async def test_a_change_is_named_with_its_commit_and_message(wordy_engine, repository):
    memory_id = await cite(wordy_engine, repository, CHECK)
    repository.edit("src/auth.py", "still counts", "counts")
    repository.commit("Better words")
    repository.edit("src/auth.py", "(token, now=None)", "(token, now)")
    repository.commit("The time must be given")
    commit = head_commit(str(repository.root))
    repository.edit("src/auth.py", '"issued"', '"made"')
    repository.commit("Something else")
    (found,) = await wordy_engine.citations.get(memory_id)
    assert (found.changed, found.since) == (["signature"], commit)
    assert found.message == "The time must be given"
    assert 0 < (found.share or 0) < 0.5
    assert found.what.endswith(f"since {commit[:10]}: The time must be given")

    other = await cite(wordy_engine, repository, RENEW, "Renewed.")
    repository.edit("src/auth.py", '"too late"', '"late"')
    (found,) = await wordy_engine.citations.get(other)
    assert (found.changed, found.since) == (["body"], "uncommitted")


async def test_citations_made_before_are_compared_by_what_they_have(wordy_engine, repository):
    memory_id = await cite(wordy_engine, repository, CHECK)
    kept = await wordy_engine._code.get_citations([memory_id])
    old = [one.model_copy(update={"structure": ""}) for one in kept[memory_id]]
    await wordy_engine._code.set_citations(memory_id, old)
    repository.edit("src/auth.py", "still counts", "counts")
    assert await cited(wordy_engine, memory_id) == [(CHECK, "changed")]
    repository.edit("src/auth.py", " counts", " still counts")
    assert await cited(wordy_engine, memory_id) == [(CHECK, "fresh")]
    # Seen as it was, it is known from now on.
    assert await wordy_engine._code.get_citations([memory_id]) == kept
    repository.edit("src/auth.py", "still counts", "counts")
    assert await cited(wordy_engine, memory_id) == [(CHECK, "fresh")]


TYPED = """\
export interface Price { amount: number; currency: string }

export function total(prices: Price[], tax = 0): number {
  // All of them.
  return prices.reduce((sum, one) => sum + one.amount, tax);
}
"""


@pytest.mark.parametrize(
    ("old", "new", "content"),
    [
        ("// All of them.", "/* All. */", "reworded"),
        ("(sum, one) => sum + one.amount", "(sum, one) => (sum + one.amount)", "reworded"),
        ("tax);\n", "tax)\n", "reworded"),
        ("prices: Price[], tax = 0)", "\n  prices: Price[],\n  tax = 0,\n)", "reworded"),
        ("tax = 0", "tax = 1", "changed"),
        ("prices: Price[]", "prices: readonly Price[]", "changed"),
        ("): number", "): bigint", "changed"),
    ],
)
async def test_types_of_other_languages_count(wordy_engine, tmp_path, old, new, content):
    repository = Repository(tmp_path / "typed", {"src/total.ts": TYPED})
    memory_id = await cite(wordy_engine, repository, "src/total.ts:total")
    repository.edit("src/total.ts", old, new)
    (found,) = await wordy_engine.citations.get(memory_id)
    assert found.content == content
