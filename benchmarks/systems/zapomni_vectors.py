"""Zapomni's vectors alone, as the store's own vector search ranks them."""

from __future__ import annotations

from benchmarks.systems import zapomni
from zapomni_db.models import VectorSearchRequest


class Index(zapomni.Index):
    def search(self, query: str, limit: int) -> list[str]:
        return self._runner.run(self._nearest(query, limit))

    async def _nearest(self, query: str, limit: int) -> list[str]:
        storage, embeddings = self._engine.storage, self._engine.memories.embeddings
        space = await storage.get_space()
        vector = (await embeddings.embed_query(query, space)).vector
        # A memory may have several passages; it counts once.
        request = VectorSearchRequest(query_embedding=vector, limit=10 * limit, min_similarity=0.0)
        hits = dict.fromkeys(hit.memory_id for hit in await storage.vector_search(request))
        return [doc for hit in list(hits)[:limit] for doc in self._docs.get(hit, [hit])]
