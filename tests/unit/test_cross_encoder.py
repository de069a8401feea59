"""A real, if small, cross-encoder: its logit grows with the words question and passage share."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from tokenizers import Tokenizer, models, pre_tokenizers, processors

from zapomni_core.adapters.cross_encoder import CrossEncoder
from zapomni_core.engine import create_engine
from zapomni_core.exceptions import SearchError
from zapomni_core.interfaces import AddMemoryRequest, SearchRequest
from zapomni_core.settings import load_settings

pytestmark = pytest.mark.anyio

VOCABULARY = ["[UNK]", "[CLS]", "[SEP]", *"the kettle is red blue on off and new old".split()]


def build(folder, *, logits: int = 1) -> None:
    """Write model.onnx and tokenizer.json."""
    folder.mkdir()
    tokenizer = Tokenizer(models.WordLevel({w: i for i, w in enumerate(VOCABULARY)}, "[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[("[CLS]", 1), ("[SEP]", 2)],
    )
    tokenizer.save(str(folder / "tokenizer.json"))

    def constant(name, values, kind=np.int64):
        array = np.array(values, dtype=kind)
        return onnx.numpy_helper.from_array(array, name)

    node = helper.make_node
    nodes = [
        node("Unsqueeze", ["input_ids", "two"], ["rows"]),
        node("Unsqueeze", ["input_ids", "one"], ["columns"]),
        node("Equal", ["rows", "columns"], ["same"]),
        node("Greater", ["input_ids", "specials"], ["word"]),
        node("Equal", ["token_type_ids", "zero"], ["asked"]),
        node("And", ["asked", "word"], ["asked_word"]),
        node("Equal", ["token_type_ids", "unit"], ["told"]),
        node("Unsqueeze", ["asked_word", "two"], ["asked_rows"]),
        node("Unsqueeze", ["told", "one"], ["told_columns"]),
        node("And", ["asked_rows", "told_columns"], ["across"]),
        node("And", ["same", "across"], ["shared"]),
        node("Cast", ["shared"], ["numbers"], to=TensorProto.FLOAT),
        node("ReduceSum", ["numbers", "axes"], ["count"], keepdims=0),
        node("Unsqueeze", ["count", "one"], ["logit"]),
        node("Sub", ["logit", "offset"], ["yes"]),
    ]
    if logits == 2:
        nodes += [node("Neg", ["yes"], ["no"]), node("Concat", ["no", "yes"], ["out"], axis=1)]
    else:
        nodes.append(node("Identity", ["yes"], ["out"]))
    graph = helper.make_graph(
        nodes,
        "overlap",
        [
            helper.make_tensor_value_info(name, TensorProto.INT64, [1, "length"])
            for name in ("input_ids", "token_type_ids")
        ],
        [helper.make_tensor_value_info("out", TensorProto.FLOAT, [1, logits])],
        [
            constant("one", [1]), constant("two", [2]), constant("specials", 2),
            constant("zero", 0), constant("unit", 1), constant("axes", [1, 2]),
            constant("offset", 3.0, np.float32),
        ],
    )  # fmt: skip
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(model, folder / "model.onnx")


@pytest.mark.parametrize("logits", [1, 2])
async def test_what_answers_scores_higher_between_0_and_1(tmp_path, logits):
    build(tmp_path / "model", logits=logits)
    encoder = CrossEncoder(tmp_path / "model")

    good, bad = await encoder.score("the kettle is red", ["the kettle is red", "blue and new"])

    assert 0 < bad < 0.5 < good < 1
    await encoder.close()


@pytest.mark.parametrize("broken", ["missing", "weights", "tokenizer"])
async def test_a_model_that_cannot_be_used_is_told_without_its_path(tmp_path, broken):
    if broken != "missing":
        build(tmp_path / "model")
        name = "model.onnx" if broken == "weights" else "tokenizer.json"
        (tmp_path / "model" / name).write_bytes(b"no model")
    encoder = CrossEncoder(tmp_path / "model")

    with pytest.raises(SearchError) as raised:
        await encoder.score("the kettle", ["red"])

    assert raised.value.error_code == "SEARCH_003"
    assert str(tmp_path) not in raised.value.message
    await encoder.close()


async def search(engine, **fields):
    return await engine.search_memory(SearchRequest(query="the kettle is red", **fields))


async def test_a_configured_reranker_has_its_say_and_explains_it(tmp_path):
    build(tmp_path / "model")
    settings = load_settings(embedder="none", reranker=str(tmp_path / "model"))
    async with await create_engine(settings) as engine:
        await engine.add_memories(
            [
                AddMemoryRequest(text="kettle red"),
                AddMemoryRequest(text="someone says the kettle is red"),
                AddMemoryRequest(text="a long note with a kettle in it and very much else besides"),
                *(AddMemoryRequest(text=f"Note {n}.") for n in range(9)),
            ]
        )
        found = await search(engine, explain=True)

    best = found.results[0]
    assert best.text == "someone says the kettle is red"
    assert best.explanation["arms"]["cross"]["rank"] == 1
    assert found.notice is None


async def test_without_its_model_the_order_stands_and_the_answer_says_so(tmp_path):
    settings = load_settings(embedder="none", reranker=str(tmp_path / "nothing"))
    async with await create_engine(settings) as engine:
        await engine.add_memory(AddMemoryRequest(text="The kettle is red."))
        found = await search(engine)

    assert found.count == 1
    assert found.notice.startswith("Not reranked: ")
