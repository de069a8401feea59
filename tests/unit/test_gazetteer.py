from __future__ import annotations

import os

import pytest

from zapomni_core.exceptions import ConfigurationError
from zapomni_core.modules.graph import RuleExtractor, load_gazetteer

pytestmark = pytest.mark.anyio


async def named(gazetteer, text: str) -> list[tuple[str, str]]:
    entities = await RuleExtractor(gazetteer).extract_entities(text)
    return [(entity.name, entity.type) for entity in entities]


@pytest.fixture
def own(tmp_path):
    """Write the user's file and load it."""

    def load(content: str | bytes):
        path = tmp_path / "gazetteer.txt"
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return load_gazetteer(path)

    return load


async def test_the_users_names_are_known_beside_the_shipped_ones(own):
    gazetteer = own(
        "# ours\n[technology]\nFrobnicator = frob, FBN\n\n"
        "[org]\nInitech\n\n[person]\nXanthe, Zebulon\n"
    )
    text = "Xanthe of Initech moved frob to Redis"
    assert await named(gazetteer, text) == [
        ("Xanthe", "PERSON"),
        ("Initech", "ORG"),
        ("Frobnicator", "TECHNOLOGY"),
        ("Redis", "TECHNOLOGY"),
    ]


async def test_a_minus_takes_a_shipped_name_out(own):
    gazetteer = own(
        "[technology]  # ours\n-Redis # not this one\n- nginx\nC# = sharp # a language\n"
    )
    text = "Redis behind nginx on Linux in sharp"
    assert await named(gazetteer, text) == [("Linux", "TECHNOLOGY"), ("C#", "TECHNOLOGY")]


async def test_a_name_given_again_replaces_the_shipped_one(own):
    gazetteer = own("[technology]\nRedis = the cache\n")
    assert await named(gazetteer, "the cache is full") == [("Redis", "TECHNOLOGY")]


async def test_an_exact_name_counts_only_as_written(own):
    gazetteer = own("[technology exact]\nCounter\n")
    assert await named(gazetteer, "our Counter and a counter") == [("Counter", "TECHNOLOGY")]


async def test_no_file_means_the_shipped_names(tmp_path):
    assert load_gazetteer(tmp_path / "gazetteer.txt") is load_gazetteer()
    assert load_gazetteer().digest == ""


def test_another_file_is_another_version(own):
    first = own("[technology]\nFrob\n").digest
    assert first
    assert own("[technology]\nFrob\n").digest == first
    assert own("\ufeff[technology]\nFrobs\n").digest != first


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("Redis\n", "line 1"),
        ("\n[technolgy]\nRedis\n", "line 2"),
        ("[technology]\nok\n[nonsense\n", "line 3"),
        ("[technology]\none two three four five six seven\n", "line 2"),
        ("[technology]\n = nothing\n", "line 2"),
        (b"\xff\xfe\x00", "UTF-8"),
        ("[technology]\n" + "x" * 5_000_001, "5 MB"),
    ],
)
def test_a_file_nobody_understands_is_refused_with_the_line(own, content, said):
    with pytest.raises(ConfigurationError, match=said) as caught:
        own(content)
    assert caught.value.error_code == "CONF_002"


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
def test_an_unreadable_file_is_refused(tmp_path):
    path = tmp_path / "gazetteer.txt"
    path.write_text("[technology]\nFrob\n")
    path.chmod(0)
    with pytest.raises(ConfigurationError, match="readable"):
        load_gazetteer(path)
