"""Observations found again: search, ids, timeline, recent, sessions and failures."""

from __future__ import annotations

import sqlite3
import time
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from observation_rows import HOME, observe, open_database
from zapomni_core.engine import create_engine
from zapomni_core.modules.observations import Observations, PurgeSelection
from zapomni_core.settings import Settings
from zapomni_db.exceptions import NotFoundError, ValidationError
from zapomni_db.observation_models import ObservationQuery
from zapomni_db.sqlite import observation_search
from zapomni_db.sqlite import observations as rows
from zapomni_db.sqlite.observation_reads import COLUMNS, COMMANDS_BETWEEN, ObservationRow
from zapomni_db.sqlite.observation_search import alternatives
from zapomni_db.sqlite.observations import open_for_writing, open_read_only, switch_context

pytestmark = pytest.mark.anyio

OTHER = "github.com/acme/other"


@pytest.fixture
def path(tmp_path):
    return tmp_path / "zapomni.db"


@pytest.fixture
def db(path):
    connection = open_database(path)
    yield connection
    connection.close()


@pytest.fixture
async def store(path):
    opened = Observations(Settings(home=path.parent))
    yield opened
    await opened.close()


async def ids(store, query, **fields):
    return [hit.id for hit in await store.search(ObservationQuery(query=query, **fields))]


# --- The search language ----------------------------------------------------------------


@pytest.mark.parametrize(
    ("query", "expressions"),
    [
        ("foo-bar", ['"foo-bar"']),
        ("src/auth.py it's C++", ['("src/auth.py" AND "it\'s" AND "C++")']),
        ('"a b" cd*', ['("a b" AND "cd" *)']),
        ("a AND NOT b", ['("a" NOT "b")']),
        ("a OR b c NOT d", ['"a"', '(("b" AND "c") NOT "d")']),
        ("(a OR b) AND c", ['(("a" OR "b") AND "c")']),
        ("( a OR b ) c", ['(("a" OR "b") AND "c")']),
        ("main() AND x", ['("main()" AND "x")']),
        ("(int)x", ['"int)x"']),
        ("content:secret", ['"content:secret"']),
        ("NEAR(a b)", ['("NEAR(a" AND "b)")']),
        ("???", []),
    ],
)
def test_operators_are_syntax_and_everything_else_is_words(query, expressions):
    assert alternatives(query) == expressions


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ('say "hello', "unbalanced quotes"),
        ("foo AND", "AND needs a term on both sides"),
        ("OR foo", "OR needs a term on both sides"),
        ("NOT foo", "NOT needs a term on both sides"),
        ("a AND OR b", "OR needs a term on both sides"),
        ("(a OR b", "an opening parenthesis is never closed"),
        ("a OR b)", "a closing parenthesis has no opening one"),
        ("a* OR b", "a prefix needs at least 2 characters"),
        ("   ", "query must not be empty"),
        ("x" * 10_001, "must not be longer than 10000"),
        ("(" * 30 + "a OR b" + ")" * 30, "nested deeper than 20"),
    ],
)
async def test_a_malformed_query_is_refused_with_what_is_wrong(store, query, said):
    with pytest.raises(ValidationError, match=said):
        await store.search(ObservationQuery(query=query))


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(
        st.one_of(
            st.text(max_size=12),
            st.sampled_from(
                ["AND", "OR", "NOT", "(", ")", '"', "*", "a*", "NEAR(", "^a", "{b}:", "c:d", "+"]
            ),
        ),
        max_size=8,
    ).map(" ".join)
)
def test_no_query_text_makes_sqlite_fail(db, query):
    with suppress(ValidationError):
        observation_search.search(db, ObservationQuery(query=query))


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.text(st.characters(exclude_characters='"*'), min_size=1).filter(lambda t: t.strip()))
def test_plain_words_never_raise(db, query):
    words = " ".join(w for w in query.split() if w.strip("()") not in {"AND", "OR", "NOT"})
    if words:
        observation_search.search(db, ObservationQuery(query=words))


# --- Search -----------------------------------------------------------------------------


async def test_search_finds_by_words_phrase_prefix_and_operators(db, store):
    first = observe(db, "command", "cargo test -- auth tests failed")
    second = observe(db, "file_edit", "src/parser.rs tests for auth", file_path="/w/src/parser.rs")
    assert set(await ids(store, "auth tests")) == {first, second}
    assert await ids(store, '"auth tests"') == [first]
    assert await ids(store, "pars*") == [second]
    assert await ids(store, "auth NOT cargo") == [second]
    assert set(await ids(store, "cargo OR parser")) == {first, second}
    assert await ids(store, "nowhere") == []


async def test_prompts_are_found_too(db, store):
    prompt = observe(db, "user_prompt", "make the login page faster")
    assert await ids(store, "login") == [prompt]


async def test_a_question_whose_words_are_not_all_there_finds_what_has_the_telling_ones(db, store):
    hit = observe(db, "command_error", "timeout in the payment worker")
    observe(db, "command", "the build is in order")
    assert await ids(store, "why does the payment service time out") == [hit]


async def test_previews_have_120_characters_and_the_specified_fields(db, store):
    observe(db, "command", "word " + "x" * 500)
    (hit,) = await store.search(ObservationQuery(query="word"))
    assert len(hit.content_preview) == 120
    assert set(hit.model_dump()) == {
        *("id", "timestamp", "obs_type", "content_preview", "file_path", "session_id")
    }


async def test_filters_narrow_a_search(db, store):
    old = observe(db, "command", "deploy old", age=9 * 86_400)
    error = observe(db, "command_error", "deploy failed", signature="s1")
    edit = observe(db, "file_edit", "deploy script", file_path="/w/ops/deploy_all.sh")
    other = observe(db, "command", "deploy other", project=OTHER)
    now = int(time.time())
    assert set(await ids(store, "deploy", projects=[HOME])) == {old, error, edit}
    assert set(await ids(store, "deploy", projects=[HOME, OTHER])) == {old, error, edit, other}
    assert await ids(store, "deploy", obs_type="command", projects=[OTHER]) == [other]
    assert await ids(store, "deploy", before=now - 86_400) == [old]
    assert old not in await ids(store, "deploy", after=now - 86_400)
    assert await ids(store, "deploy", failed=True) == [error]
    assert error not in await ids(store, "deploy", failed=False)
    for file in ("/w/ops/deploy_all.sh", "deploy_all.sh", "ops/deploy_all.sh", "/w/ops", "ops/"):
        assert await ids(store, "deploy", file=file) == [edit], file
    assert await ids(store, "deploy", file="deployXall.sh") == []
    assert await ids(store, "deploy", file="eploy_all.sh") == []


async def test_a_crowd_in_another_project_does_not_hide_a_hit(db, store, monkeypatch):
    hit = observe(db, "command", "needle in the small project", project=OTHER, age=86_400)
    for number in range(300):
        observe(db, "command", f"needle needle {number}")
    for few, common in ((20_000, 20_000), (0, 20_000), (20_000, 50), (0, 50)):
        monkeypatch.setattr(observation_search, "FEW", few)
        monkeypatch.setattr(observation_search, "COMMON", common)
        monkeypatch.setattr(observation_search, "RANKED", 100)
        assert await ids(store, "needle", projects=[OTHER]) == [hit]
        assert await ids(store, "needl*", projects=[OTHER]) == [hit]
        assert await ids(store, "needle", before=int(time.time()) - 3600) == [hit]
        assert await ids(store, "needle OR small", projects=[OTHER]) == [hit]


async def test_a_common_alternative_does_not_push_out_a_rare_one(db, store, monkeypatch):
    rare = observe(db, "command", "zebra", age=86_400)
    for number in range(300):
        observe(db, "command", f"common {number}")
    monkeypatch.setattr(observation_search, "COMMON", 50)
    monkeypatch.setattr(observation_search, "LATE", 10)
    assert (await ids(store, "common OR zebra"))[0] == rare


async def test_orders_are_relevance_blended_and_recent(db, store):
    best = observe(db, "command", "kettle kettle", age=60 * 86_400)
    fresh = observe(db, "command", "the kettle boils", age=5)
    assert await ids(store, "kettle") == [best, fresh]
    assert await ids(store, "kettle", order_by="blended") == [fresh, best]
    assert await ids(store, "kettle", order_by="recent") == [fresh, best]


async def test_recent_means_the_event_and_not_the_moment_it_was_stored(db, store):
    new = observe(db, "command", "kettle", age=5)
    late = observe(db, "command", "kettle", age=3600)
    assert await ids(store, "kettle", order_by="recent") == [new, late]


async def test_pages_do_not_overlap_and_the_limit_is_capped_at_100(db, store):
    stored = [observe(db, "command", f"page {n}") for n in range(120)]
    assert len(await ids(store, "page", limit=1000)) == 100
    pages = [await ids(store, "page", limit=50, offset=start) for start in (0, 50, 100)]
    assert sorted(found for page in pages for found in page) == stored
    for bad in ({"limit": 0}, {"offset": -1}):
        with pytest.raises(ValidationError):
            await store.search(ObservationQuery(query="page", **bad))


# --- Ids, timeline, recent --------------------------------------------------------------


async def test_observations_come_in_the_order_asked_and_missing_ones_are_left_out(db, store):
    first = observe(db, "command", "one", metadata={"exit_code": 101})
    second = observe(db, "command", "two", tool_name="Bash", pinned=1)
    found = await store.get([second, 999, first])
    assert [o.id for o in found] == [second, first]
    assert found[0].pinned is True
    assert found[1].metadata == {"exit_code": 101}
    assert await store.get([998, 999]) == []


async def test_no_ids_and_too_many_ids_are_refused(store):
    with pytest.raises(ValidationError, match="ids array must not be empty"):
        await store.get([])
    with pytest.raises(ValidationError, match="at most 50"):
        await store.get(list(range(51)))


async def test_a_timeline_stays_in_its_session_and_in_order(db, store):
    own = [observe(db, "command", f"step {n}") for n in range(3)]
    observe(db, "command", "elsewhere", session_id="session-2")
    own += [observe(db, "command", f"step {n}") for n in range(3, 6)]
    found = await store.timeline(own[3], before=2, after=9)
    assert [o.id for o in found.before] == own[1:3]
    assert found.anchor.id == own[3]
    assert [o.id for o in found.after] == own[4:]


async def test_a_lonely_anchor_has_no_neighbours_and_a_missing_one_is_an_error(db, store):
    lonely = observe(db, "command", "alone")
    found = await store.timeline(lonely)
    assert (found.before, found.after) == ([], [])
    with pytest.raises(NotFoundError, match="anchor observation not found"):
        await store.timeline(12345)


async def test_recent_keeps_one_row_per_file_and_every_row_without_one(db, store):
    observe(db, "file_read", "a", file_path="/w/a.py", age=50)
    one = observe(db, "command", "same", age=40)
    two = observe(db, "command", "same", age=30)
    last = observe(db, "file_edit", "a again", file_path="/w/a.py", age=20)
    assert [o.id for o in await store.recent([HOME])] == [last, two, one]


async def test_recent_fills_up_from_other_projects_after_its_own(db, store):
    own = observe(db, "command", "mine", age=500)
    other = observe(db, "command", "theirs", project=OTHER, age=5)
    assert [o.id for o in await store.recent([HOME], limit=5)] == [own, other]
    assert [o.id for o in await store.recent([HOME], limit=1)] == [own]
    assert [o.id for o in await store.recent(None)] == [other, own]


async def test_recent_of_a_project_nobody_worked_in_is_empty(db, store):
    observe(db, "command", "theirs", project=OTHER)
    assert await store.recent([HOME]) == []


# --- Projects, sessions, failures -------------------------------------------------------


async def test_a_project_is_found_by_key_alias_or_name(db, store):
    observe(db, "command", "x")
    db.execute("INSERT INTO project_aliases VALUES ('/old/shop', ?)", (HOME,))
    for name in (HOME, "shop", "/old/shop"):
        assert await store.project_keys(name) == [HOME, "/old/shop"]
    assert await store.project_keys("unknown") == ["unknown"]
    observe(db, "command", "x", project="gitlab.com/else/shop")
    assert sorted(await store.project_keys("shop")) == [
        "/old/shop", HOME, "gitlab.com/else/shop"
    ]  # fmt: skip


async def test_rows_under_an_old_key_belong_to_the_project(db, store):
    new = observe(db, "command", "hello", age=10)
    old = observe(db, "command", "hello", project="/old/shop", age=20)
    db.execute("INSERT INTO project_aliases VALUES ('/old/shop', ?)", (HOME,))
    keys = await store.project_keys(HOME)
    assert [o.id for o in await store.recent(keys)] == [new, old]
    assert set(await ids(store, "hello", projects=keys)) == {new, old}


async def test_sessions_are_counted_and_told_in_order(db, store):
    observe(db, "user_prompt", "fix the login", session_id="aaa-1", age=100)
    observe(db, "file_edit", "login.py", file_path="login.py", session_id="aaa-1", age=90)
    observe(db, "command_error", "pytest", session_id="aaa-1", age=80)
    observe(db, "git_commit", "fix login", session_id="aaa-1", age=70)
    observe(db, "command", "ls", session_id="aab-2", age=10)
    newest, older = await store.sessions([HOME])
    assert newest.session_id == "aab-2"
    assert (older.prompts, older.edits, older.errors, older.commits) == (1, 1, 1, 1)
    assert older.first_prompt == "fix the login"
    assert older.project_name == "shop"
    story = await store.session("aaa")
    assert [o.obs_type for o in story.observations][:2] == ["user_prompt", "file_edit"]
    assert (await store.session("aaa-1", limit=1)).omitted == 3
    with pytest.raises(NotFoundError):
        await store.session("zzz")
    with pytest.raises(ValidationError, match="several sessions"):
        await store.session("aa")


async def test_a_failure_that_came_back_is_told_with_what_fixed_it(db, store):
    observe(db, "command_error", "make test\nE: no db", signature="s1", session_id="a", age=90)
    last = observe(db, "command_error", "make test\nE: no db", signature="s1", age=80)
    edit = observe(db, "file_edit", "settings.py", file_path="settings.py", age=70)
    observe(db, "command", "make build", age=65)
    passed = observe(db, "command", "make test", age=60)
    observe(db, "command_error", "once only", signature="s2")
    (failure,) = await store.failures([HOME])
    assert (failure.command, failure.times, failure.sessions) == ("make test", 2, 2)
    assert failure.last.id == last
    assert [hit.id for hit in failure.fixed_by] == [edit]
    assert failure.passed.id == passed
    assert failure.still_open is False


async def test_a_failure_after_its_fix_is_open_again_and_keeps_the_old_fix(db, store):
    observe(db, "command_error", "make test", signature="s1", age=90)
    passed = observe(db, "command", "make test", age=60)
    observe(db, "command_error", "make test", signature="s1", age=30)
    (failure,) = await store.failures(None)
    assert failure.still_open is True
    assert failure.passed.id == passed


# --- The file ---------------------------------------------------------------------------


async def test_before_anything_is_captured_every_answer_is_empty(store, path):
    assert await ids(store, "anything") == []
    assert await store.get([1]) == []
    assert await store.recent([HOME]) == []
    assert await store.sessions(None) == []
    assert await store.failures(None) == []
    assert not path.exists()
    with pytest.raises(NotFoundError):
        await store.timeline(1)


async def test_the_first_capture_is_seen_without_reopening(store, path):
    assert await ids(store, "first") == []
    connection = open_database(path)
    found = observe(connection, "command", "first")
    connection.close()
    assert await ids(store, "first") == [found]


def test_the_connection_cannot_write(db, path):
    connection = open_read_only(path)
    try:
        for statement in ("DELETE FROM observations", "CREATE TABLE t (x)"):
            with pytest.raises(sqlite3.OperationalError, match="readonly"):
                connection.execute(statement)
        connection.execute("PRAGMA query_only = OFF")
        with pytest.raises(sqlite3.OperationalError, match="readonly"):
            connection.execute("DELETE FROM observations")
    finally:
        connection.close()


def test_the_switch_works_before_anything_is_captured(path):
    for on in (False, True, False):
        with open_for_writing(path) as connection:
            switch_context(connection, HOME, "shop", on=on)
    connection = open_read_only(path)
    assert connection.execute("SELECT key, injection FROM projects").fetchall() == [(HOME, 0)]
    connection.close()


# --- The room in the engine -------------------------------------------------------------


async def test_the_engine_has_the_observations_of_its_home(db, path):
    first = observe(db, "command", "make release")
    chosen = Settings(home=path.parent, embedder="none")
    async with await create_engine(chosen) as engine:
        assert [item.id for item in await engine.observations.recent(None)] == [first]
        await engine.observations.pin(first)
        assert [item.pinned for item in await engine.observations.get([first])] == [True]
        assert [project.key for project in await engine.observations.projects()] == [HOME]
        report = await engine.observations.purge(PurgeSelection(ids=(str(first),)))
        assert (report["found"], report["sample"][0]["text"]) == (1, "make release")
        await engine.observations.purge(PurgeSelection(ids=(str(first),)), dry_run=False)
        assert await engine.observations.get([first]) == []
        with pytest.raises(NotFoundError):
            await engine.observations.pin(first)


async def test_observations_are_found_while_the_server_of_memories_is_down(db, path):
    first = observe(db, "command", "make release")
    down = Observations(Settings(home=path.parent, storage="falkordb://127.0.0.1:1/memories"))
    assert await ids(down, "release") == [first]
    assert (await down.usage())["total"] == 1
    await down.close()


async def test_counting_before_anything_was_captured_finds_nothing(store):
    usage = await store.usage()
    assert (usage["total"], usage["sessions"], usage["hosts"]) == (0, 0, {})


def test_rows_are_read_by_the_names_of_their_columns():
    assert tuple(COLUMNS.split(", ")) == ObservationRow._fields


# --- What pages read ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("statement", "index"),
    [
        (rows.OF_SESSION, "observations_by_session (session_id=?)"),
        (rows.OUTLINE, "observations_by_session (session_id=?)"),
        (rows.SESSION_COUNTS, "observations_by_session (session_id=?)"),
        (rows.FIRST_PROMPT, "observations_by_session (session_id=?)"),
        (rows.SESSIONS, "observations_by_session (session_id=?)"),
        (rows.ACTIVITY, "observations_by_time (timestamp>? AND timestamp<?)"),
    ],
)
def test_a_page_reads_the_rows_of_its_session_or_period_alone(db, statement, index):
    values = [None] * (6 if "?6" in statement else statement.count("?"))
    plan = [step[-1] for step in db.execute(f"EXPLAIN QUERY PLAN {statement}", values)]
    reads = [step for step in plan if "observations" in step or " w " in step]

    assert reads
    assert all(index in step for step in reads)


def test_a_hook_reads_only_what_is_between_a_failure_and_its_fix(db):
    plan = db.execute(f"EXPLAIN QUERY PLAN {COMMANDS_BETWEEN}", ("shop", 1, 9)).fetchall()
    (step,) = [row[-1] for row in plan]
    assert step.endswith("USING INTEGER PRIMARY KEY (rowid>? AND rowid<?)")


async def test_an_outline_knows_which_commands_failed_and_passed(db, store):
    observe(db, "command_error", "make", session_id="s1", timestamp=10)
    observe(db, "command", "make", session_id="s1", timestamp=30)
    unknown = {"outcome": "unknown"}
    observe(db, "command", "serve", metadata=unknown, session_id="s1", timestamp=20)
    observe(db, "command", "else", session_id="s2", timestamp=40)

    outline = await store.outline("s1")

    assert [(one.command, one.failed, one.passed) for one in outline] == [
        ("make", True, False),
        ("serve", False, False),
        ("make", False, True),
    ]


async def test_sessions_are_limited_to_a_host_and_a_period(db, store):
    observe(db, "command", "a", session_id="old", host="codex", timestamp=1000)
    observe(db, "command", "b", session_id="new", host="claude-code", timestamp=5000)

    async def names(**limits):
        return [one.session_id for one in await store.sessions(None, **limits)]

    assert await names() == ["new", "old"]
    assert await names(host="codex") == ["old"]
    assert await names(since=2000) == ["new"]
    assert await names(until=2000) == ["old"]
    assert [(one.host, one.sessions) for one in await store.count_sessions()]


async def test_activity_is_counted_per_project_and_quarter_of_an_hour(db, store):
    for moment in (900, 1799, 1800):
        observe(db, "command", f"at {moment}", timestamp=moment)
    observe(db, "command", "there", project=OTHER, timestamp=950)

    found = await store.activity([HOME], 0, 10_000)

    assert [(one.at, one.observations) for one in found] == [(900, 2), (1800, 1)]
    assert (await store.capture()).observations == 4


def open_files() -> set[Path]:
    return {one.resolve() for one in Path("/proc/self/fd").iterdir()}


@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="only Linux lists open files")
async def test_a_file_that_was_only_read_on_the_own_thread_is_closed(tmp_path):
    path = tmp_path / "zapomni.db"
    first = rows.ObservationFile(path)
    await first.write(lambda connection: None)
    await first.close()
    file = rows.ObservationFile(path)
    assert file.read_here("", lambda connection: "read") == "read"
    await file.close()
    assert path.resolve() not in open_files()
