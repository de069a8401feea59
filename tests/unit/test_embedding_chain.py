from __future__ import annotations

import json
from collections.abc import Sequence

import pytest

from zapomni_core.adapters.embedders import build_embedders
from zapomni_core.exceptions import ConfigurationError, EmbeddingError
from zapomni_core.modules.memories import EmbeddingChain
from zapomni_core.settings import load_settings
from zapomni_db.models import Embedding, EmbeddingSpace

pytestmark = pytest.mark.anyio

BIG = EmbeddingSpace(model="big", dimension=3)
SMALL = EmbeddingSpace(model="small", dimension=2)
DOWN = EmbeddingError("The server cannot be reached.", "EMB_001")
NOT_PULLED = EmbeddingError("The model is not here.", "EMB_004")


class Recorder:
    """An embedder that remembers what it was asked; its vectors say the text's length."""

    def __init__(
        self,
        space: EmbeddingSpace,
        *,
        mute: Exception | None = None,
        fails: Exception | None = None,
    ) -> None:
        self.name = self.model_id = space.model
        self.asked: list[list[str]] = []
        self.closed = False
        self._space = space
        self.mute = mute
        self.fails = fails

    async def space(self) -> EmbeddingSpace:
        if self.mute:
            raise self.mute
        return self._space

    async def embed(self, texts: Sequence[str]) -> list[list[float]]:
        if self.fails:
            raise self.fails
        self.asked.append(list(texts))
        return [[float(len(text))] * self._space.dimension for text in texts]

    async def embed_query(self, text: str) -> list[float]:
        return [-number for number in (await self.embed([text]))[0]]

    async def close(self) -> None:
        self.closed = True


def vectors_of(made):
    return [text.vector for text in made.texts]


async def failure(chain: EmbeddingChain, active: EmbeddingSpace | None = None) -> EmbeddingError:
    with pytest.raises(EmbeddingError) as caught:
        await chain.embed(["text"], active)
    with pytest.raises(EmbeddingError) as again:
        await chain.embed_query("text", active)
    assert caught.value.error_code == again.value.error_code
    return caught.value


async def test_the_configured_embedder_serves_while_it_works():
    big, small = Recorder(BIG), Recorder(SMALL)
    made = await EmbeddingChain([big, small]).embed(["a", "bb"])
    assert (made.space, vectors_of(made)) == (BIG, [[1.0] * 3, [2.0] * 3])
    assert small.asked == []


@pytest.mark.parametrize("how", ["mute", "fails"])
async def test_the_next_one_stands_in_and_a_warning_is_logged(capsys, how):
    chain = EmbeddingChain([Recorder(BIG, **{how: DOWN}), Recorder(SMALL)])
    made = await chain.embed(["a secret", "bb"])
    assert (made.space, vectors_of(made)) == (SMALL, [[8.0] * 2, [2.0] * 2])
    assert (await chain.embed_query("ccc")).vector == [-3.0] * 2
    lines = capsys.readouterr().err.splitlines()
    event = json.loads(lines[0])
    assert event["event"] == "embedding_fallback"
    assert (event["failed"], event["used"]) == ("big", "small")
    assert event["error_code"] == "EMB_001"
    assert "secret" not in "".join(lines)


async def test_an_embedder_of_another_space_is_never_used():
    big, small = Recorder(BIG), Recorder(SMALL)
    made = await EmbeddingChain([big, small]).embed(["a"], SMALL)
    assert made.space == SMALL
    assert big.asked == []


async def test_the_same_model_with_another_file_is_another_space():
    stored = EmbeddingSpace(model="small", dimension=2, sha256="0" * 64)
    assert (await failure(EmbeddingChain([Recorder(SMALL)]), stored)).error_code == "EMB_005"


async def test_if_no_embedder_fits_the_stored_vectors_the_way_out_is_said():
    small = Recorder(SMALL)
    error = await failure(EmbeddingChain([small]), BIG)
    assert (error.error_code, error.is_transient) == ("EMB_005", False)
    assert "belong to the model big, dimension 3" in error.message
    assert "zapomni models reembed` to switch to small" in error.message
    assert small.asked == []


async def test_if_the_fitting_one_fails_its_error_is_raised_and_the_other_not_used():
    small = Recorder(SMALL)
    assert await failure(EmbeddingChain([Recorder(BIG, fails=DOWN), small]), BIG) is DOWN
    assert small.asked == []


async def test_if_the_configured_one_makes_other_vectors_and_the_fitting_one_fails_it_is_said():
    chain = EmbeddingChain([Recorder(BIG), Recorder(SMALL, mute=NOT_PULLED)])
    error = await failure(chain, SMALL)
    assert error.error_code == "EMB_005"
    assert "zapomni models reembed` to switch to big" in error.message


async def test_it_is_known_why_the_configured_one_did_not_make_the_vectors():
    big = Recorder(BIG, mute=DOWN)
    chain = EmbeddingChain([big, Recorder(SMALL)])
    await chain.embed(["a"])
    assert "made by small instead" in chain.unused
    assert "zapomni models reembed" in chain.unused
    big.mute = None
    await chain.embed_query("a", SMALL)
    assert "from small; the configured big is not used" in chain.unused
    await chain.embed(["b"], BIG)
    assert chain.unused is None


async def test_if_all_fail_the_configured_ones_error_is_raised():
    chain = EmbeddingChain([Recorder(BIG, mute=DOWN), Recorder(SMALL, mute=NOT_PULLED)])
    assert await failure(chain) is DOWN


async def test_without_embedders_it_is_said_that_they_are_switched_off():
    assert "switched off" in (await failure(EmbeddingChain([]))).message


async def test_only_what_nobody_knows_is_embedded():
    async def stored(space: EmbeddingSpace, texts: Sequence[str]) -> dict[str, Embedding]:
        assert space == SMALL
        return {t: Embedding(vector=[0.5, 0.5]) for t in texts if t == "in the database"}

    small = Recorder(SMALL)
    chain = EmbeddingChain([small], stored)
    assert chain.hit_rate is None
    texts = ["new", "in the database", "new", "newer"]
    first = await chain.embed(texts)
    again = await chain.embed(texts)
    assert vectors_of(first) == vectors_of(again) == [[3.0] * 2, [0.5] * 2, [3.0] * 2, [5.0] * 2]
    assert small.asked == [["new", "newer"]]
    assert chain.hit_rate == pytest.approx(4 / 6)


async def test_a_question_is_not_answered_with_the_vector_of_the_same_text():
    async def stored(space: EmbeddingSpace, texts: Sequence[str]) -> dict[str, Embedding]:
        return {}

    small = Recorder(SMALL)
    chain = EmbeddingChain([small], stored)
    assert vectors_of(await chain.embed(["a"])) == [[1.0, 1.0]]
    assert (await chain.embed_query("a")).vector == [-1.0, -1.0]
    assert (await chain.embed_query("a")).vector == [-1.0, -1.0]
    assert small.asked == [["a"], ["a"]]


async def test_a_question_in_other_letters_is_not_embedded_again():
    small = Recorder(SMALL)
    chain = EmbeddingChain([small])
    first = await chain.embed_query("When do we deploy?")
    assert await chain.embed_query("when  do we deploy") is first
    await chain.embed_query("when do they deploy")
    assert small.asked == [["When do we deploy?"], ["when do they deploy"]]
    assert chain.hit_rate == pytest.approx(1 / 3)


async def test_the_cache_forgets_what_was_used_longest_ago():
    small = Recorder(SMALL)
    chain = EmbeddingChain([small], cache_size=2)
    for text in ("a", "b", "a", "c", "a", "b"):
        await chain.embed([text])
    assert small.asked == [["a"], ["b"], ["c"], ["b"]]


async def test_a_failed_attempt_is_not_cached():
    small = Recorder(SMALL, fails=DOWN)
    chain = EmbeddingChain([small])
    await failure(chain)
    small.fails = None
    assert vectors_of(await chain.embed(["text"])) == [[4.0, 4.0]]


async def test_closing_closes_every_embedder():
    big, small = Recorder(BIG), Recorder(SMALL)
    await EmbeddingChain([big, small]).close()
    assert big.closed
    assert small.closed


@pytest.mark.parametrize(
    ("chosen", "names"),
    [
        ("none", []),
        ("local", ["local"]),
        ("ollama", ["ollama", "local"]),
        ("openai", ["openai", "local"]),
        ("sentence-transformers", ["sentence-transformers", "local"]),
    ],
)
async def test_the_setting_decides_which_embedders_are_tried(chosen, names):
    settings = load_settings(embedder=chosen, openai_base_url="http://127.0.0.1:1/v1")
    assert [embedder.name for embedder in build_embedders(settings)] == names


async def test_openai_without_an_address_is_a_clear_error():
    with pytest.raises(ConfigurationError, match="ZAPOMNI_OPENAI_BASE_URL"):
        build_embedders(load_settings(embedder="openai"))
