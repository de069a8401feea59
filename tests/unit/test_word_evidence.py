"""Evidence by words alone: strong where a text has what is asked, nothing by chance."""

from __future__ import annotations

import pytest

from zapomni_core.shared.word_evidence import STRONG_SHARE, excerpt, sentences_of, word_evidence

DEPLOY = "We deploy on Tuesdays after lunch."
EXPORT = "The nightly export broke because a customer's name contained a semicolon."
ZEBRA = "The zebra sleeps in the blue stable."


def evidence(
    prompt: str, text: str, counts: dict[str, int] | None = None, total: int = 10
) -> float:
    return word_evidence(sentences_of(prompt), text, counts or {}, total, is_memory=True)


@pytest.mark.parametrize(
    ("prompt", "text"),
    [
        ("The nightly export is broken again", EXPORT),
        ("Thanks. Now write a test for the nightly export.", EXPORT),
        ("When do we deploy?", DEPLOY),
        ("where do zebras sleep", ZEBRA),
    ],
)
def test_a_text_that_has_what_is_asked_is_strong(prompt, text):
    assert evidence(prompt, text) >= STRONG_SHARE


@pytest.mark.parametrize(
    ("prompt", "text"),
    [
        ("yes, go on", DEPLOY),
        ("Run the tests and fix what is broken", "Tests run on every push."),
        ("Deploy the invoice service to the new cluster", DEPLOY),
        ("Add an export button to the toolbar of the editor", EXPORT),
        ("Any objection?", "Our objective is a short release."),
    ],
)
def test_a_text_with_a_word_in_common_is_not(prompt, text):
    assert evidence(prompt, text) < STRONG_SHARE


def test_words_that_many_texts_have_are_chance():
    rare = evidence("nightly export", EXPORT, {"nightly": 2, "export": 3}, 5000)
    common = evidence("nightly export", EXPORT, {"nightly": 400, "export": 500}, 5000)
    assert rare >= STRONG_SHARE > common


def test_words_far_apart_in_a_long_text_have_nothing_to_do_with_each_other():
    apart = f"The zebra eats. {'Pottery has a long history here. ' * 40} The miller sleeps."
    assert evidence("where do zebras sleep", apart) < STRONG_SHARE


def test_an_excerpt_has_the_words_and_what_follows_them():
    text = f"{'Pottery has a long history here. ' * 20}{ZEBRA} {'More about pottery. ' * 20}"
    assert ZEBRA in excerpt(text, ["zebra", "sleep"], 100)
    assert excerpt(ZEBRA, ["zebra"], 100) == ZEBRA
