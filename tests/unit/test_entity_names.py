from __future__ import annotations

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from zapomni_core.modules.graph.names import (
    _shipped_entries,
    canonical_name,
    entity_id,
    fuzzy_key,
    load_gazetteer,
    name_key,
    same_entity,
)
from zapomni_db.models import EntityData

TYPES = (
    "PERSON ORG PLACE DATE TECHNOLOGY PACKAGE FILE CODE COMMAND URL REFERENCE VERSION ERROR SELF"
).split()


def named(name: str, kind: str = "TECHNOLOGY", *aliases: str) -> EntityData:
    return EntityData(
        entity_id=entity_id(name, kind), name=name, type=kind, confidence=1.0, aliases=list(aliases)
    )


@pytest.mark.parametrize(
    ("first", "second", "kind"),
    [
        ("Node.js", "NodeJS", "TECHNOLOGY"),
        ("PostgreSQL", "postgresql", "TECHNOLOGY"),
        ("Visual Studio", "visual-studio", "TECHNOLOGY"),
        ("Kubernetes", "Kuberentes", "TECHNOLOGY"),
        ("Terraform", "Teraform", "TECHNOLOGY"),
        ("São Paulo", "Sao Paulo", "PERSON"),
        ("José", "Jose", "PERSON"),
        ("@mira", "Mira", "PERSON"),
        ("Anna's", "Anna", "PERSON"),
        ("v1.2", "1.2", "VERSION"),
        ("parse()", "parse", "CODE"),
        ("./src/a.py", "src/a.py", "FILE"),
        ("PR 12", "#12", "REFERENCE"),
        ("I'm", "I", "SELF"),
        ("We", "we", "SELF"),
    ],
)
def test_two_spellings_of_one_name_are_one_thing(first, second, kind):
    assert same_entity(named(first, kind), named(second, kind))
    assert fuzzy_key(first, kind) == fuzzy_key(second, kind)


@pytest.mark.parametrize(
    ("first", "second", "kind"),
    [
        ("Java", "JavaScript", "TECHNOLOGY"),
        ("v1.2", "v1.3", "VERSION"),
        ("1.2", "12", "VERSION"),
        ("Log4j 1.2", "Log4j 12", "TECHNOLOGY"),
        ("C", "C++", "TECHNOLOGY"),
        ("C++", "C#", "TECHNOLOGY"),
        ("React", "Preact", "TECHNOLOGY"),
        ("Angular", "AngularJS", "TECHNOLOGY"),
        ("Christina", "Christine", "PERSON"),
        ("Marian", "Mairan", "PERSON"),
        ("Иван", "Ивай", "PERSON"),
        ("йод", "иод", "PERSON"),
        ("Parser", "parser", "CODE"),
        ("README.md", "readme.md", "FILE"),
        ("model10000", "model01000", "TECHNOLOGY"),
        ("GitLab", "GitHub", "TECHNOLOGY"),
        ("Python 3.1", "Python 3.11", "VERSION"),
        ("2024-03", "2024-04", "DATE"),
    ],
)
def test_what_differs_is_never_one_thing(first, second, kind):
    assert not same_entity(named(first, kind), named(second, kind))
    assert entity_id(first, kind) != entity_id(second, kind)


def test_a_name_and_its_alias_are_one_thing_in_either_order():
    known = named("PostgreSQL", "TECHNOLOGY", "Postgres", "pgsql")
    assert same_entity(known, named("pgsql"))
    assert same_entity(named("pgsql"), known)
    assert not same_entity(known, named("pgsql", "PACKAGE"))


def test_no_two_names_of_the_gazetteer_are_mistaken_for_each_other():
    for kind in ("TECHNOLOGY", "ORG", "PLACE"):
        keys: dict[str, str] = {}
        for entry in _shipped_entries():
            if entry.kind == kind:
                for form in (entry.name, *entry.aliases):
                    known = keys.setdefault(name_key(form, kind), entry.name)
                    assert known == entry.name, f"{form}: {known} or {entry.name}"


def test_every_name_of_the_gazetteer_can_be_found():
    gazetteer = load_gazetteer()
    for entry in _shipped_entries():
        assert gazetteer.longest[entry.name.lower().split()[0]] >= len(entry.name.split())
        assert entry in gazetteer.find(entry.name)


NAMES = st.text(min_size=1, max_size=30)
KINDS = st.sampled_from(TYPES)


@given(NAMES, KINDS)
def test_a_canonical_name_is_its_own_canonical_name(name, kind):
    once = canonical_name(name, kind)
    assert entity_id(once, kind) == entity_id(name, kind)


@given(NAMES, NAMES, KINDS)
def test_sameness_has_no_direction_and_shares_a_key(first, second, kind):
    one, other = named(first, kind), named(second, kind)
    assert same_entity(one, other) == same_entity(other, one)
    if same_entity(one, other):
        assert fuzzy_key(first, kind) == fuzzy_key(second, kind)


@given(NAMES, st.text(alphabet="abcdefghijklmnopqrstuvwxyz", min_size=2, max_size=10), KINDS)
def test_a_name_that_goes_on_is_another_name(name, more, kind):
    longer = name + more
    assume(name_key(name, kind) != name_key(longer, kind))
    assert not same_entity(named(name, kind), named(longer, kind))


@given(
    st.integers(0, 99), st.integers(0, 99), st.integers(0, 99), st.integers(0, 99),
    st.sampled_from(["TECHNOLOGY", "VERSION", "PACKAGE", "FILE", "ORG"]),
)  # fmt: skip
def test_different_numbers_are_different_things(a, b, c, d, kind):
    assume((a, b) != (c, d))
    assert not same_entity(named(f"Framework {a}.{b}", kind), named(f"Framework {c}.{d}", kind))
