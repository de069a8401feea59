from __future__ import annotations

from importlib import resources

import numpy as np
import pytest
from onnx import TensorProto, helper, load_model_from_string

from zapomni_core.modules.memories.late_interaction import (
    BLOCK_BYTES,
    PRODUCT,
    join_windows,
    max_similarities,
    mean_similarities,
    score_tokens,
)
from zapomni_core.shared.token_codec import BYTES_PER_TOKEN, DIMENSION, LEVELS, QUAD, TokenCodec


@pytest.fixture(scope="module")
def codec() -> TokenCodec:
    """The one that is shipped."""
    data = resources.files("zapomni_core.adapters").joinpath("minilm_projection.bin")
    return TokenCodec(data.read_bytes())


def tokens(count: int, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(count, 384)).astype(np.float32)


def test_a_token_takes_24_bytes(codec):
    assert len(codec.pack(tokens(200, 0))) == 200 * BYTES_PER_TOKEN == 200 * 24
    assert codec.pack(tokens(0, 0).reshape(0, 384)) == b""


def test_a_token_is_nearest_to_itself_among_many(codec):
    given = tokens(300, 1)
    each = [codec.pack(row[np.newaxis]) for row in given]

    best = max_similarities(codec.ask(given), each)

    assert (best.argmax(axis=0) == np.arange(300)).all()
    assert np.diag(best).min() > 0.8


def test_each_question_token_gets_the_best_token_of_each_passage(codec):
    question, first, second = tokens(3, 2), tokens(5, 3), tokens(2, 4)

    together = max_similarities(codec.ask(question), [codec.pack(first), codec.pack(second)])

    for row, passage in zip(together, (first, second), strict=True):
        alone = max_similarities(codec.ask(question), [codec.pack(p[np.newaxis]) for p in passage])
        assert row == pytest.approx(alone.max(axis=0), abs=1e-6)


def test_similarities_are_those_of_the_stored_levels_nearly(codec):
    asked = np.frombuffer(codec.ask(tokens(40, 5)), dtype=np.float32).reshape(-1, DIMENSION)
    packed = [codec.pack(tokens(count, count)) for count in (1, 7, 300, 2000, 3, 900)]

    best = max_similarities(asked.tobytes(), packed)

    assert max(map(len, packed)) > BLOCK_BYTES
    for row, passage in zip(best, packed, strict=True):
        codes = np.frombuffer(passage, dtype=np.uint8)[:, np.newaxis] >> QUAD & 3
        levels = np.array(LEVELS)[codes].reshape(-1, DIMENSION)
        levels /= np.linalg.norm(levels, axis=1, keepdims=True)
        assert row == pytest.approx((levels @ asked.T).max(axis=0), abs=0.005)


def test_a_question_token_without_a_direction_is_near_nothing(codec):
    best = max_similarities(bytes(4 * DIMENSION), [codec.pack(tokens(9, 6))])
    assert best.tolist() == [[0.0]]


def test_what_multiplies_is_the_model_that_the_standard_describes():
    one = helper.make_node("MatMulInteger", ["a", "b", "z"], ["c"])
    shapes = (
        (TensorProto.UINT8, ["n", 96]),
        (TensorProto.INT8, [96, "q"]),
        (TensorProto.INT32, ["n", "q"]),
    )
    a, b, c = (helper.make_tensor_value_info(n, *s) for n, s in zip("abc", shapes, strict=True))
    zero = helper.make_tensor("z", TensorProto.UINT8, [], [10])
    graph = helper.make_graph([one], "g", [a, b], [c], [zero])
    opset = [helper.make_opsetid("", 13)]
    made = helper.make_model(graph, opset_imports=opset, ir_version=8)
    assert load_model_from_string(PRODUCT) == made


def test_what_stands_out_scores_highest_and_a_window_takes_the_best_of_its_passages():
    rows = np.array([[0.9, 0.1], [0.2, 0.2], [0.1, 0.8]], dtype=np.float32)

    alone = score_tokens(rows, [1.0, 1.0])
    windows = join_windows(rows, [-1, -1, -1], [2, -1, -1])
    joined = score_tokens(windows, [1.0, 1.0])

    assert alone[0] == 1.0
    assert alone[1] == min(alone) == 0.0
    assert windows[0] == pytest.approx([0.9, 0.8])
    assert joined[0] == 1.0
    assert DIMENSION == 96


def test_candidates_that_are_all_alike_score_alike():
    rows = np.array([[0.5, 0.5], [0.5, 0.5]], dtype=np.float32)
    assert score_tokens(rows, [1.0, 1.0]).tolist() == [1.0, 1.0]


def test_one_word_that_is_there_says_more_than_three_that_are_a_little_alike():
    rows = np.array([[1.0, 0.2, 0.2], [0.5, 0.5, 0.5]], dtype=np.float32)

    best = mean_similarities(rows, [True, True, True], 3)

    assert best[0] > 4 * best[1]


def test_of_a_long_question_the_best_tokens_count_and_of_a_token_unlike_all_nothing():
    rows = np.array([[0.9, 0.9, -0.8, 0.1]], dtype=np.float32)

    assert mean_similarities(rows, [True, True, True, True], 2) == pytest.approx([0.9**4])
    assert mean_similarities(rows, [False, False, True, False], 2) == [0.0]


def test_the_data_of_a_projection_is_written_as_it_is_read(codec):
    again = TokenCodec(TokenCodec.encode(codec._directions, codec._deviations))
    np.testing.assert_array_equal(again._directions, codec._directions)
    np.testing.assert_array_equal(again._deviations, codec._deviations)
    dice = np.random.default_rng(3)
    directions, deviations = dice.normal(size=(96, 384)), dice.random(96)
    other = TokenCodec(TokenCodec.encode(directions, deviations))
    np.testing.assert_allclose(other._directions, directions, atol=np.abs(directions).max() / 1000)
    np.testing.assert_allclose(other._deviations, deviations, rtol=1e-6)
