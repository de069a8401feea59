"""Sentences of prompts that wait in the inbox, and those that do not."""

from __future__ import annotations

import pytest

from candidate_prompts import DEV, HELD_OUT
from zapomni_core.modules.observations import extract, read_event
from zapomni_core.modules.observations.candidates import find_candidates
from zapomni_core.shared.redaction import Redactor

KEY = b"k" * 32


def candidates_of(prompt: str) -> list[str]:
    """Return what a hook finds in a prompt."""
    event = read_event(
        {
            "session_id": "s",
            "cwd": "/nowhere/app",
            "hook_event_name": "UserPromptSubmit",
            "prompt": prompt,
        },
        "claude-code",
    )
    assert event is not None
    observation = extract(event, Redactor({}, KEY), KEY)
    return [] if observation is None else observation.candidates


@pytest.mark.parametrize(("prompts", "bar"), [(DEV, 0.95), (HELD_OUT, 0.9)], ids=["dev", "other"])
def test_rules_and_corrections_are_found_and_talk_is_not(prompts, bar):
    right = missed = wrong = 0
    for prompt, expected in prompts:
        found = candidates_of(prompt)
        if expected and any(expected.lower() in one.lower() for one in found):
            right += 1
        elif expected:
            missed += 1
        elif found:
            wrong += 1
    assert right / (right + missed) >= bar
    assert right / (right + wrong) >= bar


@pytest.mark.parametrize(
    "prompt",
    [
        "Ab jetzt bitte nur noch pnpm verwenden.",
        "Merk dir: der Port ist 8443.",
        "Désormais, utilise uv.",
        "A partir de ahora usa pnpm.",
        "Запомни: деплой по вторникам.",
        "Никогда не пушь в main.",
        "Vždy spusť testy před commitem.",
        "记住:我们用 pnpm。",
    ],
)
def test_other_languages_are_understood(prompt):
    assert len(candidates_of(prompt)) == 1


def test_a_candidate_is_short_and_without_secrets():
    token = "ghp_" + "a1B2" * 9
    (found,) = candidates_of(f"Remember that the deploy token is {token} for now and ever")
    assert token not in found
    assert "deploy token" in found
    (long,) = candidates_of("Always run " + "very " * 200 + "long commands")
    assert len(long) <= 300


def test_at_most_three_sentences_of_a_prompt_wait():
    prompt = "\n".join(f"Never touch file number {number}." for number in range(5))
    assert len(find_candidates(prompt)) == 3


@pytest.mark.parametrize(
    "hostile", ["", "no,", "don't", "we", "that's", "?", "```", "not,", "i,", "\n>"]
)
def test_nothing_breaks_on_scraps(hostile):
    assert find_candidates(hostile) == []
    assert find_candidates(hostile * 300) == []


@pytest.mark.parametrize(
    ("prompt", "found"),
    [
        ("keep this in mind for next time: the linter config is shared", "The linter config is"),
        ("note for later: the key rotates each month", "The key rotates each month"),
        ("next time, show me the plan before you edit", "Next time, show me"),
        ("for all future endpoints use snake_case", "For all future endpoints"),
        ("in future, write the changelog entry first", "In future, write"),
    ],
)
def test_what_is_asked_for_later_is_found(prompt, found):
    (one,) = candidates_of(prompt)

    assert one.startswith(found)


@pytest.mark.parametrize(
    "prompt",
    [
        "no, that did not work, the same error appears",
        "no, it still crashes when I click save",
        "translate: 'Always look on the bright side of life'",
        "next time the job runs it will fail, find out why",
    ],
)
def test_what_came_of_it_and_what_is_quoted_are_no_candidates(prompt):
    assert candidates_of(prompt) == []
