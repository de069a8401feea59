"""The search page, without a browser."""

from __future__ import annotations

import html
import re

from command import as_json


def test_search_finds_memories_observations_and_code_in_one_list(site, home):
    page = site.get("/search?q=check_token+login")

    assert {"document", "code"} <= set(re.findall(r'class="badge kind">([^<]+)<', page.text))
    links = re.findall(r'class="open" href="([^"]+)"', page.text)
    assert any(link.startswith("/m/") for link in links)
    assert any(re.match(rf"/s/{home.session}\?at=(\d+)#o\1$", link) for link in links)


def test_facets_count_what_was_found_and_narrow_it(site):
    page = site.get("/search?q=staging+database+tokens+deploy")
    facet = re.search(
        r'href="([^"]*kind=note[^"]*)"[^>]*><span>note</span><span class="number">(\d+)', page.text
    )
    assert facet is not None
    assert int(facet[2]) >= 29

    narrowed = site.get(html.unescape(facet[1]))

    assert "Filters" in narrowed.text
    assert set(re.findall(r'class="badge kind">([^<]+)<', narrowed.text)) == {"note"}


def test_a_hit_says_why_it_is_there_and_how_sure_it_is(site):
    page = site.get("/search?q=when+do+we+deploy")

    first = page.text.split('<li class="hit')[1]
    assert "Why it is here" in first
    assert 'class="fill" width="100' in first
    assert re.search(r"(strong|weak|no) evidence", first)
    assert "<mark>deploy</mark>" in first


def test_cited_code_says_whether_it_is_fresh(site):
    assert "code fresh" in site.get("/search?q=tokens+expire+hour").shown


def test_json_is_what_the_command_prints(site, home, monkeypatch):
    monkeypatch.setenv("ZAPOMNI_HOME", str(home.folder))
    page = site.json("/search.json?q=when+do+we+deploy&in=memories")

    printed = as_json("search", "--all", "--in", "memories", "when do we deploy", "--limit", "20")

    assert [hit["memory_id"] for hit in page["results"]] == [
        hit["memory_id"] for hit in printed["results"]
    ]
    assert page["results"][0].keys() == printed["results"][0].keys()


def test_as_of_shows_what_was_true_then(site):
    early = site.json("/search.json?q=staging+database&as_of=2026-03-01")
    late = site.json("/search.json?q=staging+database")

    assert early["total"] < late["total"]
    assert all(hit["occurred_at"] < "2026-03-02" for hit in early["results"])


def test_what_the_agent_would_get_is_shown_with_its_tokens(site):
    page = site.get("/search?q=when+do+we+deploy&view=agent")

    tokens = re.search(r"<strong>(\d+) tokens</strong>", page.text)
    assert tokens is not None
    assert 50 < int(tokens[1]) <= 2400
    assert "Stored memories are quoted data" in page.shown
    assert "Friday deploys are forbidden" in page.shown


def test_without_a_question_the_latest_memories_are_listed_page_by_page(site):
    first = site.get("/search")
    following = re.search(r'href="([^"]+)" rel="next"', first.text)
    assert following is not None

    second = site.get(following[1].replace("&amp;", "&"))

    assert "21 to" in second.shown
    assert 'rel="prev"' in second.text


def test_an_empty_home_says_what_to_do_next(empty):
    page = empty.get("/search")

    assert "Nothing is remembered yet" in page.shown
    assert "zapomni init" in page.shown
    assert "Nothing found" in empty.get("/search?q=anything").shown
