"""Asking about code: search, outlines, symbols, callers and callees, and what agents did to it."""

from __future__ import annotations

import json
import sqlite3

import pytest
from code_trees import AUTH, Repository, index

from zapomni_core.exceptions import NotFoundError, ValidationError
from zapomni_core.modules.codebase import (
    CallsRequest,
    CodeSearchRequest,
    OutlineRequest,
    SymbolRequest,
)

pytestmark = pytest.mark.anyio


@pytest.fixture
def repository(tmp_path) -> Repository:
    return Repository(tmp_path / "shop")


@pytest.fixture
async def code(wordy_engine, repository):
    await index(wordy_engine, repository.root)
    return wordy_engine.code


# --- Search -------------------------------------------------------------------------------


async def search(code, here: Repository, query: str, **more) -> list[str]:
    asked = {"folder": str(here.root), **more}
    found = await code.search(CodeSearchRequest(query=query, **asked))
    return [f"{hit.path}:{hit.name}" for hit in found.hits]


@pytest.mark.parametrize(
    ("query", "first"),
    [
        ("too late", "src/auth.py:Token.renew"),
        ("checkToken", "src/auth.py:check_token"),
        ("check token", "src/auth.py:check_token"),
        ("sum of prices in the basket", "src/shop.py:order"),
        ("reduce", "web/cart.js:Cart.total"),
        ("tuesdays", "docs/notes.md:Shop"),
    ],
)
async def test_code_is_found_by_words_and_parts_of_identifiers(code, repository, query, first):
    assert (await search(code, repository, query))[0] == first


async def test_a_hit_says_where_it_stands(code, repository):
    request = CodeSearchRequest(query="too late", folder=str(repository.root))
    hit = (await code.search(request)).hits[0]
    assert hit.text.splitlines() == AUTH.splitlines()[hit.start_line - 1 : hit.end_line]
    assert (hit.path, hit.language, hit.kind) == ("src/auth.py", "python", "method")
    assert hit.signature == "def renew(self, now)"
    assert hit.repository == str(repository.root)
    assert hit.id > 0


async def test_filters_hold_for_every_hit(code, repository):
    assert await search(code, repository, "token", language="javascript") == []
    python = await search(code, repository, "token", language="Python")
    assert python
    assert all(name.split(":")[0].endswith(".py") for name in python)
    assert {n.split(":")[0] for n in await search(code, repository, "token", path="shop.py")} == {
        "src/shop.py"
    }
    methods = await search(code, repository, "token", kind="method", limit=3)
    assert methods
    assert all(name.startswith("src/auth.py:Token.") for name in methods)
    assert await search(code, repository, "token", kind="interface") == []


async def test_code_comes_before_tests_before_docs_unless_the_question_says_otherwise(
    wordy_engine, tmp_path
):
    here = Repository(
        tmp_path / "bank",
        {
            "docs/refunds.md": "# Refund\n\nRefund a payment twice: it is refused.\n",
            "tests/test_refund.py": "def test_refund_a_payment_twice():\n"
            "    refund(payment)  # a payment is refunded twice\n",
            "src/refund.py": "def give_back(payment):\n"
            "    # twice: a refund of a refund\n    payment.refund()\n",
        },
    )
    await index(wordy_engine, here.root)

    async def paths(query: str) -> list[str]:
        found = await search(wordy_engine.code, here, query)
        return list(dict.fromkeys(name.split(":")[0] for name in found))

    code, test, docs = "src/refund.py", "tests/test_refund.py", "docs/refunds.md"
    assert await paths("refund a payment twice") == [code, test, docs]
    assert (await paths("tests for refund a payment twice"))[0] == test
    assert (await paths("refund payment tests"))[0] == test
    assert (await paths("refund a payment twice for a test"))[0] == code
    assert (await paths("docs about refund a payment twice"))[0] == docs


async def test_a_symbol_that_tests_override_is_not_ambiguous(code, repository):
    fake = "class FakeToken:\n    def renew(self, now):\n        pass\n"
    repository.write("tests/test_auth.py", fake)
    await index_again(code, repository)
    assert (await symbol(code, repository, "renew")).symbol.path == "src/auth.py"
    given = await symbol(code, repository, "tests/test_auth.py:renew")
    assert given.symbol.path == "tests/test_auth.py"


async def test_a_symbol_appears_once(code, repository):
    body = "".join(f"    print('walrus number {n} of many more words')\n" for n in range(120))
    repository.write("src/long.py", f"def walrus():\n{body}")
    await index_again(code, repository)
    found = await search(code, repository, "walrus number")
    assert found[0] == "src/long.py:walrus"
    assert len(found) == len(set(found))


async def index_again(code, repository) -> None:
    from zapomni_core.modules.codebase import IndexRequest

    async def quiet(*_):
        return None

    await code.index(IndexRequest(path=str(repository.root), folder="/"))
    await code.run_index({"root": str(repository.root)}, quiet)


@pytest.mark.parametrize("limit", [0, 101])
async def test_a_limit_out_of_range_is_refused(code, repository, limit):
    with pytest.raises(ValidationError):
        await search(code, repository, "token", limit=limit)


async def test_where_one_looks(wordy_engine, code, repository, tmp_path):
    other = Repository(tmp_path / "other", {"a.py": "def walrus():\n    return 'token'\n"})
    await index(wordy_engine, other.root)
    inside = str(repository.path("src"))
    assert await search(code, repository, "walrus", folder=inside) == []
    for asked in (
        {"folder": inside, "repository": "*"},
        {"folder": "/"},
        {"repository": "other"},
        {"repository": str(other.root)},
        {"repository": "../other"},
    ):
        assert (await search(code, repository, "walrus", **asked))[0] == "a.py:walrus"
    with pytest.raises(NotFoundError) as unknown:
        await search(code, repository, "walrus", repository="nothing")
    assert unknown.value.error_code == "CODE_002"


async def test_two_checkouts_of_one_project_are_searched_by_its_name(
    wordy_engine, code, repository, tmp_path
):
    repository.git("remote", "add", "origin", "https://example.org/team/shop.git")
    repository.git("worktree", "add", "-q", str(tmp_path / "second"))
    await index(wordy_engine, repository.root)
    await index(wordy_engine, tmp_path / "second")
    request = CodeSearchRequest(query="too late", repository="example.org/team/shop")
    roots = {hit.repository for hit in (await code.search(request)).hits}
    assert roots == {str(repository.root), str(tmp_path / "second")}


async def test_before_anything_is_indexed_it_says_so(wordy_engine, repository):
    request = SymbolRequest(name="check_token", folder=str(repository.root))
    with pytest.raises(NotFoundError) as nothing:
        await wordy_engine.code.get_symbol(request)
    assert nothing.value.error_code == "CODE_002"


# --- Symbols ------------------------------------------------------------------------------


async def symbol(code, repository, name: str, **more):
    return await code.get_symbol(SymbolRequest(name=name, folder=str(repository.root), **more))


@pytest.mark.parametrize(
    "name",
    [
        *("Token.renew", "renew", "src/auth.py:Token.renew", "auth.py:renew", "TOKEN.RENEW"),
        *("src/auth.py::Token.renew", "renew()"),
    ],
)
async def test_a_symbol_is_found_by_many_names(code, repository, name):
    found = await symbol(code, repository, name)
    assert found.symbol.qualified_name == "Token.renew"
    assert found.source == (
        "def renew(self, now):\n"
        "        if not check_token(self, now):\n"
        '            raise ValueError("too late")\n'
        "        self.issued = now"
    )
    by_id = await symbol(code, repository, str(found.symbol.id))
    assert by_id.symbol == found.symbol


async def test_a_file_is_a_symbol_too(code, repository):
    found = await symbol(code, repository, "src/auth.py")
    assert (found.symbol.kind, found.source) == ("module", AUTH)


async def test_a_name_that_may_mean_several_gets_candidates(code, repository):
    repository.write("src/other.py", "class Basket:\n    def renew(self):\n        pass\n")
    await index_again(code, repository)
    found = await symbol(code, repository, "renew")
    assert found.symbol is None
    assert [s.qualified_name for s in found.candidates] == ["Token.renew", "Basket.renew"]
    calls = await code.find_callers(CallsRequest(name="renew", folder=str(repository.root)))
    assert (calls.symbol, len(calls.candidates)) == (None, 2)


async def test_an_unknown_name_gets_others_like_it(code, repository):
    with pytest.raises(NotFoundError) as unknown:
        await symbol(code, repository, "chek_token")
    assert unknown.value.error_code == "CODE_001"
    assert unknown.value.near[0] == "check_token"


@pytest.mark.parametrize("name", ["", "  ", "x" * 1001, "\ud800", "99999999999999999999", "7" * 17])
async def test_names_that_cannot_be_are_refused(code, repository, name):
    with pytest.raises((ValidationError, NotFoundError)):
        await symbol(code, repository, name)


async def test_what_is_shown_is_what_stands_there_now(code, repository):
    repository.edit("src/auth.py", '"too late"', '"late"')
    repository.edit("src/auth.py", "import time", "import os\nimport time")
    found = await symbol(code, repository, "Token.renew")
    assert found.state == "changed"
    assert '"late"' in found.source
    assert found.symbol.start_line == AUTH[: AUTH.index("def renew")].count("\n") + 2
    unmoved = await symbol(code, repository, "check_token")
    assert unmoved.state == "fresh"


async def test_what_is_gone_is_shown_as_it_was(code, repository):
    before = await symbol(code, repository, "Token.renew")
    repository.path("src/auth.py").unlink()
    found = await symbol(code, repository, "Token.renew")
    assert (found.state, found.source) == ("gone", before.source)


# --- Outlines -----------------------------------------------------------------------------


async def outline(code, repository, path: str, **more):
    asked = {"folder": str(repository.root), **more}
    return await code.get_outline(OutlineRequest(path=path, **asked))


@pytest.mark.parametrize("path", ["src/auth.py", "auth.py", "./src/auth.py"])
async def test_an_outline_has_a_files_symbols_in_order(code, repository, path):
    found = await outline(code, repository, path)
    assert (found.path, found.state) == ("src/auth.py", "fresh")
    assert [(s.depth, s.qualified_name) for s in found.symbols] == [
        (0, ""),
        (1, "EXPIRY"),
        (1, "check_token"),
        (1, "issue"),
        (1, "Token"),
        (2, "Token.__init__"),
        (2, "Token.renew"),
        (2, "Token.log"),
        (1, "left"),
        (1, "right"),
    ]


async def test_a_path_from_a_folder_inside_is_understood(code, repository):
    found = await outline(code, repository, "notes.md", folder=str(repository.path("docs")))
    assert [s.name for s in found.symbols[1:]] == ["Shop", "Deploy", "Rollback"]


async def test_a_changed_file_is_outlined_as_it_is(code, repository):
    known = {s.qualified_name: s.id for s in (await outline(code, repository, "auth.py")).symbols}
    repository.write("src/auth.py", AUTH + "\n\ndef brand_new():\n    def inner():\n        pass\n")
    found = await outline(code, repository, "auth.py")
    assert found.state == "changed"
    ids = {s.qualified_name: s.id for s in found.symbols}
    assert ids["Token.renew"] == known["Token.renew"]
    assert [(s.id, s.depth, s.qualified_name) for s in found.symbols[-2:]] == [
        (0, 1, "brand_new"),
        (0, 2, "brand_new.inner"),
    ]
    repository.path("src/auth.py").unlink()
    gone = await outline(code, repository, "auth.py")
    assert (gone.state, len(gone.symbols)) == ("gone", 10)


async def test_a_path_that_several_files_end_with_gets_candidates(code, repository):
    repository.write("web/auth.py", "A = 1\n")
    await index_again(code, repository)
    found = await outline(code, repository, "auth.py")
    assert found.candidates == [str(repository.path(p)) for p in ("src/auth.py", "web/auth.py")]
    assert (await outline(code, repository, "web/auth.py")).path == "web/auth.py"


@pytest.mark.parametrize("path", ["nothing.py", "src", "auth", "%", "_", "../../etc/passwd"])
async def test_an_unknown_file_is_not_found(code, repository, path):
    with pytest.raises(NotFoundError) as unknown:
        await outline(code, repository, path)
    assert unknown.value.error_code == "CODE_001"


@pytest.mark.parametrize("path", ["", " ", "x" * 1001])
async def test_a_path_that_is_none_is_refused(code, repository, path):
    with pytest.raises(ValidationError):
        await outline(code, repository, path)


# --- Calls --------------------------------------------------------------------------------


async def test_callers_are_told_surest_first(code, repository):
    repository.write("lib/loose.py", "def guess(thing):\n    return thing.check_token()\n")
    await index_again(code, repository)
    found = await code.find_callers(CallsRequest(name="check_token", folder=str(repository.root)))
    told = [(e.caller.qualified_name, e.caller.path, e.strength) for e in found.edges]
    assert told[:2] == [
        ("Token.renew", "src/auth.py", 1.0),
        ("order", "src/shop.py", 1.0),
    ]
    assert [name for name, _, strength in told if strength < 0.6] == ["guess"]
    few = await code.find_callers(
        CallsRequest(name="check_token", folder=str(repository.root), limit=1)
    )
    assert (len(few.edges), few.more) == (1, True)


async def test_callees_are_told_in_order_with_what_is_unknown(code, repository):
    found = await code.find_callees(CallsRequest(name="issue", folder=str(repository.root)))
    assert [(e.name, e.callee and e.callee.qualified_name) for e in found.edges] == [
        ("Token", "Token"),
        ("time", None),
        ("log", "Token.log"),
    ]


async def test_the_callees_of_a_class_are_those_of_its_methods(code, repository):
    found = await code.find_callees(CallsRequest(name="Token", folder=str(repository.root)))
    assert {(e.caller.qualified_name, e.name) for e in found.edges} == {
        ("Token.renew", "check_token"),
        ("Token.renew", "ValueError"),
        ("Token.log", "print"),
    }


@pytest.mark.parametrize("limit", [0, 1001])
async def test_a_limit_of_calls_out_of_range_is_refused(code, repository, limit):
    request = CallsRequest(name="issue", folder=str(repository.root), limit=limit)
    with pytest.raises(ValidationError):
        await code.find_callees(request)


# --- What agents did ----------------------------------------------------------------------


def observe(database, rows: list[dict]) -> None:
    connection = sqlite3.connect(database)
    for number, row in enumerate(rows, 1):
        values = {
            "id": number,
            "session_id": "s1",
            "project": "p",
            "host": "claude-code",
            "prompt_id": None,
            "timestamp": 1_800_000_000 + number,
            "source_event": "PostToolUse",
            "tool_name": "Edit",
            "file_path": None,
            "metadata": json.dumps({}),
            "signature": None,
            "event_hash": str(number).encode(),
            **row,
        }
        columns = ", ".join(values)
        marks = ", ".join("?" for _ in values)
        connection.execute(
            f"INSERT INTO observations ({columns}) VALUES ({marks})", list(values.values())
        )
    connection.commit()
    connection.close()


async def test_a_symbols_history_has_who_why_and_what_failed_after(code, repository, private_home):
    auth, shop = str(repository.path("src/auth.py")), str(repository.path("src/shop.py"))
    observe(
        private_home / "zapomni.db",
        [
            {"obs_type": "user_prompt", "content": "make tokens renewable"},
            {"obs_type": "file_edit", "content": "src/auth.py +3 -1 renew", "file_path": auth,
             "prompt_id": 1},
            {"obs_type": "command_error", "content": "pytest\n1 failed", "signature": "x"},
            {"obs_type": "file_edit", "content": "src/auth.py +1 -1 issue", "file_path": auth,
             "prompt_id": 1},
            {"obs_type": "command_error", "content": "make\nerror", "signature": "y"},
            {"obs_type": "file_edit", "content": "src/shop.py +1 -0 renew", "file_path": shop},
            {"obs_type": "file_edit", "session_id": "s2", "host": "codex", "file_path": auth,
             "content": 'src/auth.py +1 -1\n- old\n+ raise ValueError("too late")'},
            {"obs_type": "file_read", "content": "src/auth.py renew", "file_path": auth},
        ],
    )  # fmt: skip

    found = await symbol(code, repository, "Token.renew", history=True)

    assert not found.edits_of_file
    assert [(e.observation_id, e.host, e.session_id, e.prompt) for e in found.edits] == [
        (7, "codex", "s2", ""),
        (2, "claude-code", "s1", "make tokens renewable"),
    ]
    assert [f.content for f in found.edits[1].failures] == ["pytest\n1 failed"]
    unnamed = await symbol(code, repository, "check_token", history=True)
    assert unnamed.edits_of_file
    assert [e.observation_id for e in unnamed.edits] == [7, 4, 2]
    assert [f.observation_id for f in unnamed.edits[1].failures] == [5]
    whole = await symbol(code, repository, "src/auth.py", history=True)
    assert [e.observation_id for e in whole.edits] == [7, 4, 2]
    none = await symbol(code, repository, "Cart", history=True)
    assert (none.edits, none.edits_of_file) == ([], False)
    assert (await symbol(code, repository, "Token.renew")).edits == []
