"""The figures the documentation names, measured on what is published with them."""

from __future__ import annotations

import json
import sys

import pytest

from benchmarks import entities, relations
from zapomni_core.engine import create_extractor
from zapomni_core.settings import load_settings

pytestmark = pytest.mark.anyio

CONLL = """\
Question_ID\tO\tx\tO
:\tO\t:\tO
1\tO\t1\tO
\t
I\tO
use\tO
Visual\tB-Application
Studio\tI-Application
with\tO
foo_bar\tB-Function_Name
on\tO
Windows\tB-Operating_System
7\tB-Version
.\tO
\t
CODE_BLOCK\tB-Code_Block
:\tI-Code_Block
Q_1\tI-Code_Block
\t
The\tO
array\tB-Data_Structure
raises\tO
KeyError\tB-Error_Name
"""


async def test_our_own_test_half_is_read_as_well_as_promised():
    samples = entities.own_samples("test")
    assert len(samples) + len(entities.own_samples("dev")) >= 300
    pairs, _ = await entities.run(load_settings(), samples, set())
    table = entities.score(pairs)
    assert table["all"]["f1"] >= 0.75
    assert set(table) == {"all", *entities.MAPPED.values(), "PLACE", "DATE", "PACKAGE", "COMMAND",
                          "URL", "REFERENCE"}  # fmt: skip


async def test_posts_are_read_in_conll_form_and_types_are_mapped(tmp_path):
    path = tmp_path / "posts.txt"
    path.write_text(CONLL)
    (sample,) = entities.conll_samples(path)
    assert sample.text == (
        "I use Visual Studio with foo_bar on Windows 7 .\nThe array raises KeyError\n"
    )
    named = [(sample.text[span.start : span.end], span.type) for span in sample.gold]
    assert named == [
        ("Visual Studio", "TECHNOLOGY"),
        ("foo_bar", "CODE"),
        ("Windows", "TECHNOLOGY"),
        ("7", "VERSION"),
        ("KeyError", "ERROR"),
    ]
    types = set(entities.MAPPED.values())
    pairs, _ = await entities.run(load_settings(), [sample], types)
    assert entities.score(pairs)["all"] == {"precision": 1.0, "recall": 1.0, "f1": 1.0, "count": 5}


def test_wrong_missing_and_ignored_ones_are_told_apart():
    sample = entities.Sample(
        "a b c d",
        [entities.Span(0, 1, "CODE"), entities.Span(2, 3, "CODE")],
        [entities.Span(6, 7, "Value")],
    )
    found = [entities.Span(0, 1, "CODE"), entities.Span(6, 7, "CODE")]
    strict = entities.score([(sample, found)])["CODE"]
    lenient = entities.score([(sample, found)], lenient=True)["CODE"]
    assert (strict["precision"], strict["recall"]) == (0.5, 0.5)
    assert (lenient["precision"], lenient["recall"]) == (1.0, 0.5)


async def test_the_published_judgements_are_as_good_as_said_and_still_hold():
    judged = relations.judgements()
    figures = relations.precision(judged)
    assert figures["statements"] == 200
    assert figures["precision_without_versions"] >= 0.7
    extractor = create_extractor(load_settings())
    # Wrong ones may be no longer stated.
    right = [judgement for judgement in judged if judgement.right]
    assert await relations.restated(extractor, right) >= 0.95 * len(right)


async def test_sentences_of_others_are_scored_by_pairs(tmp_path):
    path = tmp_path / "sentences.json"
    path.write_text(
        json.dumps(
            {
                "sentence": ["Keras", "uses", "TensorFlow", "while", "foo"],
                "ner": [[0, 0, "product"], [2, 2, "product"], [4, 4, "misc"]],
                "relations": [[0, 0, 2, 2, "usage", "", False, False]],
            }
        )
    )
    report = await relations.report(path)
    assert report["given"]["right"] == report["found"]["right"] == 1
    assert report["given"]["f1"] == 1.0
    assert report["given_near"]["made"] == 3


def test_the_programs_print_one_line_of_json(capsys, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["entities", "--half", "dev", "--show"])
    entities.main()
    *shown, line = capsys.readouterr().out.splitlines()
    assert shown
    assert json.loads(line)["data"] == "own-dev"
    monkeypatch.setattr(sys, "argv", ["relations"])
    relations.main()
    assert json.loads(capsys.readouterr().out)["benchmark"] == "relations"
