"""A question is turned towards what distinguishes the passages of a store."""

from __future__ import annotations

import numpy as np
import pytest

from zapomni_core.modules.memories.contrast import Contrast


def unit(rows):
    return (rows / np.linalg.norm(rows, axis=-1, keepdims=True)).astype(np.float32)


def passages(count, dimension=16):
    """Vectors that differ mostly along the first direction, which says nothing."""
    rows = np.random.default_rng(5).normal(size=(count, dimension))
    rows[:, 0] *= 6
    return unit(rows)


def test_before_anything_is_known_a_question_stays_as_it_is():
    contrast = Contrast()
    assert contrast.turn([0.5, 0.25]) == [0.5, 0.25]
    assert contrast.is_outgrown(1)
    assert not contrast.is_outgrown(0)


def test_what_all_passages_differ_in_counts_less():
    rows = passages(400)
    contrast = Contrast()
    contrast.fit(rows.tobytes(), 16, 400)
    noise = np.random.default_rng(6).normal(size=(400, 16))
    noise[:, 0] *= 6
    questions = unit(rows + 0.3 * noise)
    turned = np.array([contrast.turn(question) for question in questions])

    def found(asked):
        return np.mean((asked @ rows.T).argmax(axis=1) == np.arange(400))

    assert found(turned) > 1.5 * found(questions)


def test_a_few_passages_change_a_question_little():
    contrast = Contrast()
    contrast.fit(passages(3).tobytes(), 16, 3)
    question = unit(np.ones(16))
    turned = unit(np.array(contrast.turn(question)))
    assert turned @ question > 0.99


def test_one_passage_and_none_are_borne():
    question = [1.0, *[0.0] * 15]
    for rows in (passages(1), passages(0), unit(np.ones((5, 16)))):
        contrast = Contrast()
        contrast.fit(rows.tobytes(), 16, len(rows))
        assert np.isfinite(contrast.turn(question)).all()


def test_it_is_fitted_again_when_there_are_a_tenth_more():
    contrast = Contrast()
    contrast.fit(passages(50).tobytes(), 16, 1000)
    assert not contrast.is_outgrown(1000)
    assert not contrast.is_outgrown(10)
    assert contrast.is_outgrown(1101)
    # Of a filtered search fewer are counted than the sample has.
    contrast.fit(passages(50).tobytes(), 16, 5)
    assert contrast.count == pytest.approx(50)
