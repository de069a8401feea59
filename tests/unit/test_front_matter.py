"""The head of a Markdown file: what people write there is read, and nothing raises."""

from __future__ import annotations

import yaml
from hypothesis import given
from hypothesis import strategies as st

from zapomni_core.shared.front_matter import split_front_matter

HEAD = """---
name: integration-tests  # a comment
"title": "Tests: \\"real\\" ones"
description: >
  one line used
  for recall

  and another
plan: |
  first
    second
metadata:
  type: feedback
  owner: 'Anna''s team'
tags: [ci, "a, b", 'c']
paths:
  - src/**
  - "tests/**"
deciders:
- Anna
- Ben
status: ~
long: a text that
  goes on here
---

Body: of *the* note.
---
"""


def test_texts_lists_and_one_more_level_are_read():
    found, body = split_front_matter(HEAD)
    assert body == "Body: of *the* note.\n---\n"
    assert found == {
        "name": "integration-tests",
        "title": 'Tests: "real" ones',
        "description": "one line used for recall\nand another",
        "plan": "first\n  second",
        "metadata": {"type": "feedback", "owner": "Anna's team"},
        "tags": ["ci", "a, b", "c"],
        "paths": ["src/**", "tests/**"],
        "deciders": ["Anna", "Ben"],
        "status": "",
        "long": "a text that goes on here",
    }


def test_it_agrees_with_a_whole_yaml_parser():
    head = HEAD.split("---\n")[1]
    whole = yaml.safe_load(head)
    found, _ = split_front_matter(HEAD)
    for key, value in whole.items():
        own = found[key]
        assert own == (value.strip("\n") if isinstance(value, str) else value or ""), key


def test_a_text_without_a_head_stays_whole():
    for text in (
        "",
        "# Title\n\nBody",
        "--- \nnever: closed",
        "----\na: b\n----\n",
        "a\n---\nb: c",
    ):
        found, body = split_front_matter(text)
        assert (found, body) == ({}, text)


def test_windows_line_ends_and_a_byte_order_mark_are_read():
    found, body = split_front_matter("\ufeff---\r\nname: x\r\n---\r\nBody\r\n")
    assert (found, body) == ({"name": "x"}, "Body\n")


def test_a_head_cut_at_any_place_is_read_or_left_alone():
    for end in range(len(HEAD)):
        found, body = split_front_matter(HEAD[:end])
        assert found or body == HEAD[:end]


@given(st.text(alphabet="ab:-[]{}\"'|>#~ \n\t\\&*!%@,\ud83d", max_size=200))
def test_no_head_raises(text):
    split_front_matter(f"---\n{text}\n---\nbody")
