from __future__ import annotations

import gc
import math
import os
import time
from datetime import UTC, datetime

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from benchmarks.entities import labelled
from zapomni_core.modules.graph import GraphExtractor, RuleExtractor, load_gazetteer
from zapomni_db.rules import SHOWN

pytestmark = pytest.mark.anyio
# `make soak` doubles the line, and sets as many sentences as fill a megabyte.
LINE = int(os.environ.get("LONG_LINE", "16000"))
SENTENCES = int(os.environ.get("LONG_LINE_SENTENCES", "2500"))
RULES = RuleExtractor(load_gazetteer())
EXTRACTOR = GraphExtractor(RULES)
NOW = datetime(2024, 5, 15, 9, 30, tzinfo=UTC)


async def found(text: str) -> list[tuple[str, str]]:
    """Surfaces and types, in order; each surface is checked to stand where it is said to."""
    entities = await RULES.extract_entities(text, NOW)
    for entity in entities:
        assert text[entity.start_char : entity.end_char] == entity.surface
    # What is only written like a name counts when it repeats.
    return [(e.surface, e.type) for e in entities if e.source != "learned" or e.confidence >= SHOWN]


async def names(text: str) -> list[str]:
    return [entity.name for entity in await RULES.extract_entities(text, NOW)]


LABELLED = """\
- name: [[Carson Long|PERSON]]\\n  [[github|TECHNOLOGY]]: [[ctlong|PERSON]]
| [[Greg Cobb|PERSON]] | [[VMware|ORG]] |
Co-authored-by: [[David A. Harding|PERSON]] <dave@example.org>
Signed-off-by: [[jaegertracingbot|TECHNOLOGY]] <bot@example.org>
the [[Technical Board|ORG]] decided
under the [[Creative Commons CC0|CONCEPT]] 1.0 Universal license
populate [[TraceId|CODE]] and [[SpanId|CODE]]
see [[AWS CodeCommit|TECHNOLOGY]] for it
we saw a [[Bad Gateway|ERROR]] again
Pull Requests are welcome
Click the button on the left
search with [[Lunr.js|TECHNOLOGY]] here
the limit is `[[1MB|CODE]]` now
[[Anna Kowalska|PERSON]] reviewed it.
thanks to [[Ludwig van Beethoven|PERSON]]
ping [[@mira_k|PERSON]] please
[[Rufinus|PERSON]] said it is fine
see [[Zara|PERSON]]'s branch
Best regards,\\n[[Quentinus|PERSON]]
He works at [[Umbrella Dynamics|ORG]] now
[[Foobar Technologies GmbH|ORG]] sent it
He studied at the [[University of Warsaw|ORG]].
[[Priya|PERSON]] from [[Foobarix|ORG]] said so
they live in [[São Paulo|PLACE]], [[Brazil|PLACE]]
she lives in [[Tinytown|PLACE]] now
[[Microsoft Internet Explorer|TECHNOLOGY]] is gone
[[we|SELF]] run [[k8s|TECHNOLOGY]] and [[postgres|TECHNOLOGY]]
a [[Redis|TECHNOLOGY]]-backed queue on [[Linux|TECHNOLOGY]]/[[macOS|TECHNOLOGY]]
the old [[Foozle|TECHNOLOGY]] [[3.2|VERSION]] server
with [[Foozle|TECHNOLOGY]] [[3.2|VERSION]] it works
add the [[left-pad|PACKAGE]] package
pin [[httpx|PACKAGE]]==[[0.27.0|VERSION]]
bump [[@types/node|PACKAGE]] from [[20.1.0|VERSION]] to [[20.2.5|VERSION]]
[[attrs|PACKAGE]] is not installed there
see [[src/app/main.py|FILE]]:42 and [[./run.sh|FILE]]
in [[~/.config/app.toml|FILE]], [[C:\\Users\\me\\x.txt|FILE]] and [[Dockerfile.dev|FILE]]
check [[/etc/hosts|FILE]] and GET [[/v1/users/:id|CODE]]
call [[parse_args()|CODE]] or [[MyClass.run|CODE]]
the `[[orders|CODE]]` table, [[X-Request-ID|CODE]] and [[--dry-run|CODE]]
[[std::vector<int>|CODE]] is not [[foo->bar|CODE]] or [[$HOME|CODE]]
run `[[git rebase -i main|COMMAND]]` first
just [[docker compose up -d|COMMAND]] and wait
[[sudo systemctl restart nginx|COMMAND]] fixed it
we go test the market
see [[https://example.com/a?b=1|URL]], ok
[docs]([[https://example.com/x|URL]]) and <a href="[[http://a.b/c|URL]]">
clone [[git@github.com:acme/x.git|URL]]
Merge pull request [[#7|REFERENCE]] from acme/fix-timeouts
when calling ``[[f|CODE]]``, then ``[[not record|CODE]]`` is `[[g|CODE]]` too
write to me@example.com
fixes [[#12|REFERENCE]], [[acme/x#3|REFERENCE]] and [[OPS-118|REFERENCE]]
[[PR 1432|REFERENCE]] and commit [[9f3c2ab|REFERENCE]], [[CVE-2024-3094|REFERENCE]]
[[Node|TECHNOLOGY]] [[18|VERSION]], then [[1.2.x|VERSION]] and [[v2.0.0-rc.1|VERSION]]
reach 10.0.0.12 within 2.5 seconds
raises [[KeyError|ERROR]] and [[ECONNREFUSED|ERROR]]
[[java.lang.OutOfMemoryError|ERROR]], [[E0382|ERROR]], [[ORA-00942|ERROR]]
it returns [[404|ERROR]] for them
getting a [[401|ERROR]] again
a [[segmentation fault|ERROR]] or [[null pointer exceptions|ERROR]]
the error code is [[102|ERROR]], see error [[1009|ERROR]]
[[HTTP 403 Forbidden|ERROR]] from [[nginx|TECHNOLOGY]]
we have 404 users
import it from [[@acme/store/errors|PACKAGE]], a candidate package of file-sourced packages
x@1.0.0 is an example of [[left-pad|PACKAGE]]@[[1.0.0|VERSION]]
the @here of a channel, and [[@belongsTo|CODE]] of a model
each transaction(s), User-Centred, an eCertificate with two vCPUs
whether public/private or include/exclude, see *.md
[[Vashti Okonkwo|PERSON]] ([[@vash|PERSON]]) reviewed it
[[RFC-0012|DECISION]], [[ADR-0012|DECISION]] and [[RFC #7|DECISION]], as in RFC 2119
"""


@pytest.mark.parametrize("line", LABELLED.splitlines())
async def test_what_a_text_names(line):
    sample = labelled(line.replace("\\n", "\n"))
    gold = [(sample.text[span.start : span.end], span.type) for span in sample.gold]
    assert await found(sample.text) == gold


@pytest.mark.parametrize(
    "text",
    [
        "we should march through the backlog and go home",
        "please don't express this as a regex",
        "can you react to the message when done",
        "the rest is soap; may I merge this?",
        "spring cleaning with a flask of coffee",
        "It Works On My Machine And Nowhere Else",
        "Nobody said that. Someone wrote it, everyone agreed.",
    ],
)
async def test_ordinary_words_are_no_names(text):
    named = [pair for pair in await found(text) if pair != ("flask", "TECHNOLOGY")]
    assert named == []


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("The `name` and the `data` of it", "data"),
        ("It closes `</Card>` here", "</Card>"),
        ("As said, the Zorbel counts. Every zorbel does.", "Zorbel"),
        ("We gave it to a Zorbel who left", "Zorbel"),
        ("Then click Submit Invoice on the right", "Submit Invoice"),
        ("They are in Account Settings > Display of it", "Account Settings"),
        ("We need the Purchase Order now, a purchase order has a number", "Purchase Order"),
        ("See the [Common Guidelines](#common-guidelines) of it", "Common Guidelines"),
    ],
)
async def test_what_only_a_capital_or_backticks_make_a_name_is_never_one(text, word):
    entities = await RULES.extract_entities(text, NOW)
    assert sum(one.confidence for one in entities if one.name == word) * 100 < SHOWN


async def test_what_is_an_ordinary_word_too_needs_a_sign():
    assert await found("Go is fast") == [("Go", "TECHNOLOGY")]
    assert await found("Go home") == []
    assert await found("written in Rust") == [("Rust", "TECHNOLOGY")]
    assert await found("Jasmine wrote Jasmine tests") == [
        ("Jasmine", "PERSON"),
        ("Jasmine", "TECHNOLOGY"),
    ]


async def test_a_company_and_its_service_are_told_apart():
    assert await found("Anna works at GitHub") == [("Anna", "PERSON"), ("GitHub", "ORG")]
    assert await found("push it to GitHub") == [("GitHub", "TECHNOLOGY")]


async def test_places_and_people_of_one_name_are_told_apart():
    assert await found("a flight to Paris") == [("Paris", "PLACE")]
    assert await found("ask Jordan about it") == [("Jordan", "PERSON")]
    assert await found("the Dallas Mavericks won") == [("Dallas Mavericks", "CONCEPT")]


async def test_names_are_canonical_and_know_their_aliases():
    (entity,) = await RULES.extract_entities("postgres is slow")
    assert (entity.name, entity.surface, entity.source) == ("PostgreSQL", "postgres", "gazetteer")
    assert "Postgres" in entity.aliases
    assert entity.name not in entity.aliases
    (same,) = await RULES.extract_entities("PostgreSQL")
    assert same.entity_id == entity.entity_id


async def test_a_version_belongs_to_what_stands_before_it():
    assert await names("Python 3.12 and Node 18") == ["Python", "Python 3.12", "Node", "Node 18"]
    assert await names("upgrade to v1.8.3") == ["1.8.3"]
    assert await names("Update attrs from 22.1 to 23.2") == ["attrs", "attrs 22.1", "attrs 23.2"]


async def test_i_am_whoever_speaks():
    entities = await RULES.extract_entities("Tim: I visited Italy\nAnna: I prefer Spain", NOW)
    people = [(entity.name, entity.surface) for entity in entities if entity.type == "PERSON"]
    assert people == [("Tim", "Tim"), ("Tim", "I"), ("Anna", "Anna"), ("Anna", "I")]


async def test_conventional_prefixes_are_no_calls():
    assert await found("fix(parser): close the file\nTODO(anna): later") == []


async def test_code_blocks_are_left_to_the_code_index():
    text = "See `foo_bar`:\n```python\nimport redis\nbaz_qux()\n```\nthen `quux_x`"
    assert await found(text) == [("foo_bar", "CODE"), ("quux_x", "CODE")]


async def test_links_in_backticks_name_what_they_show():
    assert await found("We use `Pyre <https://example.com/pyre>`_ now") == [
        ("We", "SELF"),
        ("Pyre", "TECHNOLOGY"),
        ("https://example.com/pyre", "URL"),
    ]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", []),
        (" \n\t ", []),
        ("\u3002\u3001\uff01\uff1f", []),
        ("Redisのバージョンを7.2に上げました。", [("Redis", "TECHNOLOGY"), ("7.2", "VERSION")]),
        ("数据库从MongoDB换成了MySQL。", [("MongoDB", "TECHNOLOGY"), ("MySQL", "TECHNOLOGY")]),
        ("Иван починил src/main.py", [("Иван", "PERSON"), ("src/main.py", "FILE")]),
        ("Wir nutzen Docker in München", [("Docker", "TECHNOLOGY"), ("München", "PLACE")]),
        ("استخدم Docker اليوم", [("Docker", "TECHNOLOGY")]),
        ("half a pair \ud83d of Redis", [("Redis", "TECHNOLOGY")]),
        ("zero\x00byte Redis", [("Redis", "TECHNOLOGY")]),
    ],
)
async def test_other_alphabets_and_nothing_at_all(text, expected):
    assert await found(text) == expected


PIECES = [
    *"a A _ . / - : # @ $ % < > ( ) [ ] { * ~ ` ' \" = + | ; , ? ! 1 \\ é ж 語 😀".split(),
    *"Redis Anna Nowak Go we use uses 3.12 Jan 5 2024 the day next in git add --x foo_bar".split(),
    *"KeyError http://x `a` ``` parse() a/b C:\\ v1 #12 said University of Paris from to".split(),
    "\n",
    " ",
    ". ",
]


@given(st.lists(st.sampled_from(PIECES), max_size=40), st.sampled_from(["", " "]))
async def test_whatever_is_written_places_are_exact_and_do_not_overlap(pieces, between):
    text = between.join(pieces)
    done = 0
    for entity in await RULES.extract_entities(text, NOW):
        assert done <= entity.start_char < entity.end_char <= len(text)
        assert text[entity.start_char : entity.end_char] == entity.surface
        assert entity.name
        assert 0 < entity.confidence <= 1
        done = entity.end_char


@given(st.text(max_size=200))
async def test_any_text_can_be_read(text):
    entities = await RULES.extract_entities(text)
    ids = {entity.entity_id for entity in entities}
    for stated in await RULES.extract_relationships(text, entities):
        assert {stated.source_entity_id, stated.target_entity_id} <= ids
        assert text[stated.start_char : stated.end_char] == stated.evidence


NAMED = "uses use the a billing service State Machine Zephyr built by Ann Lee . , ` (#12)".split()


@given(st.lists(st.sampled_from([*PIECES, *NAMED]), max_size=40))
@example(["`ApplicationChoice`", "uses", "a", "State", "Machine", "."])
async def test_what_is_related_is_among_what_was_found(pieces):
    read = await EXTRACTOR.extract(" ".join(pieces), NOW)
    ids = {entity.entity_id for entity in read.entities}
    for stated in read.relationships:
        assert {stated.source_entity_id, stated.target_entity_id} <= ids


async def cpu_of(piece: str, size: int) -> float:
    text = (piece * (size // len(piece) + 1))[:size]
    gc.disable()  # It would look through everything that other tests left.
    try:
        began = time.process_time()
        entities = await RULES.extract_entities(text, NOW)
        await RULES.extract_relationships(text, entities)
        return time.process_time() - began
    finally:
        gc.enable()


@pytest.mark.parametrize(
    "piece",
    [
        "a", "!", ".", "(", "`", "`a", "``` \n", "a_", "aB", "a/b", "1 ", "#1 ", "Anna ", "A\n",
        "Redis uses Python and ", "Python 3.1 ", "Jan 1 ", "pkg==1 ", "http://a", "the day ",
        "." + "a-" * 200 + "! ", "a." * 200 + "~ ", "Aa" * 200 + "( ", "語",
    ],
)  # fmt: skip
async def test_a_long_line_is_read_in_linear_time(piece):
    # Sixteen times the text may cost sixteen times as much, not 256; a floor of 2 ms against what
    # the clock cannot measure. Next to busy processes a run may cost several times its work, but
    # not every time: what is linear passes in one of five, what is quadratic in none.
    small = large = math.inf
    for _ in range(5):
        small = min(small, await cpu_of(piece, LINE // 16))
        large = min(large, await cpu_of(piece, LINE))
        if large < 80 * max(small, 0.002):
            return
    pytest.fail(f"{large / small:.0f} times the work for 16 times the text")


async def test_a_line_without_end_is_read_to_its_end():
    text = "Redis uses Lua, " * SENTENCES + "and Anna prefers Vim"
    entities = await RULES.extract_entities(text)
    assert (len(entities), entities[-1].name) == (2 * SENTENCES + 2, "Vim")
    stated = await RULES.extract_relationships(text, entities)
    assert "PREFERS" in [one.relationship_type for one in stated[-10:]]
    assert max(len(one.evidence) for one in stated) <= 1000
