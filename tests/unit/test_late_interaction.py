from __future__ import annotations

import numpy as np
import pytest

from zapomni_core.shared.late_interaction import (
    BYTES_PER_TOKEN,
    DIMENSION,
    max_similarities,
    pack,
    project,
    unpack,
)


def unit_rows(count: int, seed: int = 0) -> np.ndarray:
    rows = np.random.default_rng(seed).normal(size=(count, DIMENSION)).astype(np.float32)
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def test_a_token_takes_24_bytes_and_keeps_its_direction():
    rows = unit_rows(200)

    packed = pack(rows)

    assert len(packed) == 200 * BYTES_PER_TOKEN == 200 * 24
    assert (unpack(packed) * rows).sum(axis=1).min() > 0.98


def test_no_tokens_pack_into_no_bytes():
    assert pack(unit_rows(0).reshape(0, DIMENSION)) == b""


def test_each_question_token_gets_the_best_token_of_each_passage():
    question, first, second = unit_rows(3, 1), unit_rows(5, 2), unit_rows(2, 3)

    best = max_similarities(question, [pack(first), pack(second)])

    expected = [(unpack(pack(rows)) @ question.T).max(axis=0) for rows in (first, second)]
    assert best == pytest.approx(np.array(expected), abs=1e-6)


def test_projecting_keeps_the_length_at_one():
    tokens = np.random.default_rng(4).normal(size=(7, 384)).astype(np.float32)
    projection = np.linalg.qr(np.random.default_rng(5).normal(size=(384, DIMENSION)))[0].T

    rows = project(tokens, projection.astype(np.float32))

    assert np.linalg.norm(rows, axis=1) == pytest.approx(np.ones(7), abs=1e-5)
