"""What passages are found by though they do not have it: made when they are stored, and again.

A passage stored by an earlier version lacks what later ones index, such as the stems of its
language. It is found by its words all the same; `reindex_words` makes up for the rest.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Sequence
from itertools import chain

from zapomni_core.shared.languages import languages_of
from zapomni_core.shared.stemming import compounds, passage_stems
from zapomni_core.shared.text import context_words
from zapomni_db.interfaces import StorageProvider

__all__ = ["find_parts", "reindex_words"]

_WORD = re.compile(r"[^\W\d_]+")
# So many parts of compounds are looked up at once.
MAX_PARTS = 1000
# So many passages are read and committed at once.
BATCH = 64

Progress = Callable[[int, int], Awaitable[None] | None]


async def find_parts(storage: StorageProvider, texts: Sequence[str]) -> frozenset[str]:
    """Return the parts of German compounds that are words of the index, or of these texts."""
    german = [text for text in texts if "de" in languages_of(text)]
    if not german:
        return frozenset()
    pairs = chain.from_iterable(chain.from_iterable(compounds(t).values()) for t in german)
    parts = dict.fromkeys(chain.from_iterable(pairs))
    own = {word for text in german for word in _WORD.findall(text.lower())}
    own.update(chain.from_iterable(passage_stems(["de"], text) for text in german))
    asked = [part for part in parts if part not in own][:MAX_PARTS]
    found = await storage.find_matches(asked, 0) if asked else {}
    return frozenset(part for part in parts if part in own or found.get(part, ()) is None)


async def reindex_words(storage: StorageProvider, progress: Progress | None = None) -> int:
    """Give stored passages the words that they would be indexed with today; return how many.

    What they have is left: their dates, and what else they were stored with.
    """
    after: str | None = None
    changed = done = 0
    total = await storage.count_chunks()
    while batch := await storage.get_contexts(after, BATCH):
        parts = await find_parts(storage, [chunk.text for chunk in batch])
        contexts: dict[str, str] = {}
        for chunk in batch:
            known = {*chunk.context.split()}
            wanted = context_words(chunk.text, known=parts).split()
            if missing := [word for word in wanted if word not in known]:
                contexts[chunk.chunk_id] = " ".join(filter(None, [chunk.context, *missing]))
        if contexts:
            await storage.store_contexts(contexts)
        changed, done, after = changed + len(contexts), done + len(batch), batch[-1].chunk_id
        reported = None if progress is None else progress(done, max(done, total))
        if reported is not None:
            await reported
    return changed
