from __future__ import annotations

import sys
import warnings

import pytest

from zapomni_core.adapters.spacy_extractor import PIECE, SpacyExtractor
from zapomni_core.exceptions import ExtractionError

pytestmark = pytest.mark.anyio

with warnings.catch_warnings():
    # What spaCy's dependencies warn of while they are imported is not ours.
    warnings.simplefilter("ignore")
    import spacy
    import spacy.pipeline

PATTERNS = [
    {"label": "PERSON", "pattern": "Rufinus Quill"},
    {"label": "ORG", "pattern": "Initech"},
    {"label": "ORG", "pattern": "HTTP"},
    {"label": "ORG", "pattern": "foo_bar"},
    {"label": "GPE", "pattern": "Tinytown"},
    {"label": "DATE", "pattern": "yesterday"},
    {"label": "PRODUCT", "pattern": "Redis"},
]


@pytest.fixture
def pipeline(tmp_path):
    """A pipeline of the real library on disk, with names by pattern: trained ones are downloads."""
    made = spacy.blank("en")
    made.add_pipe("entity_ruler").add_patterns(PATTERNS)
    made.to_disk(tmp_path / "pipeline")
    return str(tmp_path / "pipeline")


async def test_people_organizations_and_places_are_found_and_nothing_else(pipeline):
    text = "yesterday Rufinus Quill of Initech took Redis and foo_bar over HTTP to Tinytown"
    extractor = SpacyExtractor(pipeline)
    found = await extractor.extract_entities(text)
    await extractor.close()
    assert [(e.surface, e.type) for e in found] == [
        ("Rufinus Quill", "PERSON"),
        ("Initech", "ORG"),
        ("Tinytown", "PLACE"),
    ]
    assert all(text[e.start_char : e.end_char] == e.surface for e in found)
    assert {e.source for e in found} == {"spacy"}


async def test_a_long_text_is_read_in_pieces_with_exact_places(pipeline):
    text = "word " * (PIECE // 5) + "then Initech"
    (entity,) = await SpacyExtractor(pipeline).extract_entities(text)
    assert text[entity.start_char : entity.end_char] == "Initech"


async def test_an_empty_text_names_nobody(pipeline):
    assert await SpacyExtractor(pipeline).extract_entities("") == []


async def test_a_missing_library_is_said_with_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "spacy", None)
    with pytest.raises(ExtractionError, match=r"zapomni\[spacy\]") as caught:
        await SpacyExtractor().extract_entities("Anna")
    assert caught.value.error_code == "EXTR_001"


async def test_a_missing_pipeline_is_said_with_what_to_download():
    with pytest.raises(ExtractionError, match="spacy download") as caught:
        await SpacyExtractor("no_such_pipeline").extract_entities("Anna")
    assert "no_such_pipeline" not in caught.value.message


async def test_a_pipeline_that_fails_is_an_error_without_the_text(pipeline):
    extractor = SpacyExtractor(pipeline)
    await extractor.extract_entities("warm")
    extractor._pipeline.max_length = 3
    with pytest.raises(ExtractionError) as caught:
        await extractor.extract_entities("secret text")
    assert "secret" not in caught.value.message
