"""Zapomni after `zapomni graph build`: the graph has a say in its searches."""

from __future__ import annotations

from benchmarks.systems import zapomni
from zapomni_core.modules.graph import BuildGraphRequest


class Index(zapomni.Index):
    def add(self, docs: list[dict]) -> None:
        super().add(docs)
        self._runner.run(self._build())

    async def _build(self) -> None:
        task_id = await self._engine.graph.build(BuildGraphRequest())
        await self._engine.tasks.run_task(task_id, lambda _: None)
