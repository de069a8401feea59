"""Names found by a spaCy pipeline, for those who have it installed."""

from __future__ import annotations

import asyncio
import threading
from datetime import datetime
from typing import Any

from zapomni_core.exceptions import ExtractionError
from zapomni_db.models import EntityData

__all__ = ["SpacyExtractor"]

# What its English pipelines find well in text that developers write; products, languages and works
# of art they mostly guess, and dates we resolve ourselves.
TYPES = {
    "PERSON": "PERSON",
    "PER": "PERSON",
    "ORG": "ORG",
    "GPE": "PLACE",
    "LOC": "PLACE",
    "FAC": "PLACE",
}
# spaCy refuses texts of over a million characters; its memory grows long before.
PIECE = 50_000
LONGEST_NAME = 60


class SpacyExtractor:
    """Any pipeline spaCy can load that finds names; it is loaded on first use."""

    name = "spacy"

    def __init__(self, model: str = "en_core_web_sm") -> None:
        self.model = model
        self._pipeline: Any = None
        self._one_at_a_time = threading.Lock()

    async def extract_entities(
        self,
        text: str,
        reference_date: datetime | None = None,  # noqa: ARG002 - it finds no dates
    ) -> list[EntityData]:
        """Return people, organizations and places, as they stand in the text.

        Raises:
            ExtractionError: spaCy or the pipeline is not installed, or it failed.
        """
        return await asyncio.to_thread(self._extract, text)

    async def close(self) -> None:
        """Let the pipeline go."""
        self._pipeline = None

    def _extract(self, text: str) -> list[EntityData]:
        with self._one_at_a_time:
            self._pipeline = self._pipeline or self._load()
            found: list[EntityData] = []
            for begin in range(0, len(text), PIECE):
                try:
                    document = self._pipeline(text[begin : begin + PIECE])
                except Exception as error:  # a pipeline raises whatever its parts raise
                    raise ExtractionError(
                        "spaCy failed on a text.", "EXTR_001", original_exception=error
                    ) from error
                found += [
                    EntityData(
                        entity_id="",
                        name=name.text,
                        type=TYPES[name.label_],
                        confidence=0.7,
                        source=self.name,
                        surface=name.text,
                        start_char=begin + name.start_char,
                        end_char=begin + name.end_char,
                    )
                    for name in document.ents
                    if _is_name(name)
                ]
            return found

    def _load(self) -> Any:
        try:
            import spacy
        except ImportError as error:
            raise ExtractionError(
                "spaCy is not installed. Run `pip install 'zapomni[spacy]'`.",
                "EXTR_001",
                original_exception=error,
            ) from error
        try:
            # Only what finds names: the parser and the lemmatizer cost most of the time.
            return spacy.load(self.model, exclude=["parser", "lemmatizer", "attribute_ruler"])
        except Exception as error:  # it raises whatever is wrong with the folder
            raise ExtractionError(
                "spaCy cannot load its pipeline. Run `python -m spacy download en_core_web_sm`, "
                "or set ZAPOMNI_EXTRACTION_MODEL to one you have.",
                "EXTR_001",
                original_exception=error,
            ) from error


def _is_name(name: Any) -> bool:
    """Whether it looks like one: pipelines take identifiers and headings for organizations."""
    text = name.text
    return (
        name.label_ in TYPES
        and text[0].isupper()
        and not text.isupper()
        and len(text) <= LONGEST_NAME
        and all(character.isalpha() or character in " .'-&\u2019" for character in text)
    )
