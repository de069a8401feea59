"""KnowledgeGraph: the service of this module, one method per use case."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from zapomni_core.exceptions import NotFoundError, ValidationError
from zapomni_core.infra.correlation import operation
from zapomni_core.modules.graph.reading import (
    FACT_TYPES,
    MOST_VIEWED,
    find_path,
    get_card,
    get_related,
    get_view,
    resolve,
)
from zapomni_core.modules.graph.schemas import (
    BuildGraphRequest,
    EntityCard,
    GraphPicture,
    GraphViewRequest,
    GraphViewResponse,
    MemoryReading,
    MemoryStatement,
    MergeResponse,
    PathRequest,
    PathResponse,
    RelatedRequest,
    RelatedResponse,
)
from zapomni_core.shared.validation import validate_page
from zapomni_db.graph_models import EdgeQuery, Entity, EntityQuery, GraphScope, GraphStats, Merge
from zapomni_db.interfaces import StorageProvider

if TYPE_CHECKING:
    from zapomni_core.modules.graph.build import GraphExtractor, Report

__all__ = ["KnowledgeGraph"]


MAX_IDS = 1000
MAX_QUERY_CHARS = 500
# Of one memory: what a reader looks through.
READ_PASSAGES, READ_ENTITIES, READ_EVIDENCE, READ_NEIGHBORS = 50, 60, 20, 8

Submit = Callable[[str, Mapping[str, Any]], Awaitable[str]]
"""Queues a task of a type with parameters and returns its id."""
Reaching = Callable[[str, str, bool], Awaitable[tuple[list[str] | None, list[str]]]]
"""Returns which projects answer a question asked in a folder for a project, by an agent or not,
None: all, and those that are hidden from it."""
Naming = Callable[[], Awaitable[Mapping[str, str]]]
"""Returns what projects are called, by their keys."""


class KnowledgeGraph:
    """Builds and reads the knowledge graph; doors call it as `engine.graph`.

    Args:
        storage: Where memories and the graph are stored.
        create: Makes the extractor when it is first needed.
        submit: Queues a background task.
        reach: Finds the projects that answer a question.
        names: Finds what projects are called.

    What is read is asked in a `folder`; empty: nowhere. What memories of other private projects say
    is read as if it were not there. A folder that is not trusted is given what its own memories and
    global ones say.
    """

    def __init__(
        self,
        storage: StorageProvider,
        create: Callable[[], GraphExtractor],
        submit: Submit,
        reach: Reaching,
        names: Naming,
    ) -> None:
        self._storage = storage
        self._create = create
        self._submit = submit
        self._reach = reach
        self._names = names
        self._opened: GraphExtractor | None = None

    async def close(self) -> None:
        """Release the extractor."""
        if self._opened is not None:
            await self._opened.close()

    @operation()
    async def build(
        self, request: BuildGraphRequest, folder: str = "", *, agent: bool = False
    ) -> str:
        """Start a task that reads memories into the graph, and return its id.

        Only passages that this version of the extractor has not read are read.

        Args:
            request: Which memories; a project by its key, or all that have this name.
            folder: Where it is asked for; empty: nowhere.
            agent: Whether an agent asks for it.

        Raises:
            NotFoundError: One of the memories does not exist.
        """
        wanted = request.memory_ids
        if wanted is not None:
            if not 1 <= len(wanted) <= MAX_IDS:
                raise ValidationError(f"Give from 1 to {MAX_IDS} memory ids", "VAL_003")
            if (await self._storage.get_summaries(wanted)).keys() != set(wanted):
                raise NotFoundError("One of the memories does not exist; nothing was begun.")
        scope = GraphScope(memory_ids=wanted)
        if request.project:
            projects, _ = await self._reach(folder, request.project, agent)
            scope = GraphScope(memory_ids=wanted, projects=projects)
        return await self._submit("build_graph", scope.model_dump(exclude_none=True))

    async def run_build(self, params: dict[str, Any], report: Report) -> dict[str, Any]:
        """Do the work of a `build_graph` task."""
        from zapomni_core.modules.graph.build import build_graph

        scope = GraphScope.model_validate(params)
        names = await self._names()
        return await build_graph(self._storage, self._extractor, scope, report, names)

    async def _hidden(self, folder: str) -> list[str]:
        """Return the projects whose memories do not count in a folder."""
        # As an agent: there is no project to ask for by name.
        projects, hidden = await self._reach(folder, "*", True)
        if projects is None:
            return hidden
        return [one for one in await self._storage.count_by_project() if one not in projects]

    @operation()
    async def get_related(self, request: RelatedRequest, folder: str = "") -> RelatedResponse:
        """Return what is related to an entity, with the paths to it and their evidence.

        Raises:
            ValidationError: The depth or limit is out of range.
            EntityNotFoundError: No entity has this name; `near` has names that are like it.
        """
        asked = request.model_copy(update={"types": _types(request.types)})
        return await get_related(self._storage, self._extractor, asked, await self._hidden(folder))

    @operation()
    async def get_card(self, request: RelatedRequest, folder: str = "") -> EntityCard:
        """Return what memories say about an entity: what it is, since when, what changed.

        Raises:
            ValidationError: The depth or limit is out of range.
            EntityNotFoundError: No entity has this name; `near` has names that are like it.
        """
        asked = request.model_copy(update={"types": _types(request.types)})
        return await get_card(self._storage, self._extractor, asked, await self._hidden(folder))

    @operation()
    async def find_path(self, request: PathRequest, folder: str = "") -> PathResponse:
        """Return how two entities are connected: the most convincing way between them.

        Raises:
            EntityNotFoundError: One of them is unknown; `near` has names that are like it.
        """
        return await find_path(self._storage, self._extractor, request, await self._hidden(folder))

    @operation()
    async def get_view(self, request: GraphViewRequest, folder: str = "") -> GraphViewResponse:
        """Return a part of the graph: what is around an entity, or the best connected part.

        Raises:
            ValidationError: The depth or limit is out of range.
            EntityNotFoundError: No entity has this name; `near` has names that are like it.
        """
        asked = request.model_copy(update={"types": _types(request.types)})
        return await get_view(self._storage, self._extractor, asked, await self._hidden(folder))

    @operation()
    async def find_entities(self, query: EntityQuery, folder: str = "") -> list[Entity]:
        """Find entities by name, alias, part of a name or something like it; all if it is empty."""
        validate_page(query.limit, query.offset)
        if len(query.text) > MAX_QUERY_CHARS:
            raise ValidationError(f"query exceeds {MAX_QUERY_CHARS} characters", "VAL_003")
        text = query.text.encode("utf-8", "replace").decode()  # no name has half a character
        hidden = [*query.hidden, *await self._hidden(folder)]
        asked = query.model_copy(
            update={"text": text, "types": _types(query.types), "hidden": hidden, "nodes": True}
        )
        return await self._storage.find_entities(asked)

    @operation()
    async def read_memory(self, memory_id: str) -> MemoryReading:
        """Return the entities that a memory mentions and the relationships that it states."""
        # No extractor has an empty version: these are all passages of the memory.
        passages = await self._storage.get_unread(
            "", GraphScope(memory_ids=[memory_id]), None, READ_PASSAGES
        )
        named = await self._storage.get_named([one.chunk_id for one in passages], None)
        ids = list(
            dict.fromkeys(
                mention.entity_id for one in passages for mention in named.get(one.chunk_id, [])
            )
        )[:READ_ENTITIES]
        if not ids:
            return MemoryReading()
        entities = await self._storage.get_entities(ids)
        edges = await self._storage.get_edges(ids, EdgeQuery(limit=READ_ENTITIES))
        keys = [edge.key for edge in edges]
        keys = [key for key in keys if key.source_id in entities and key.target_id in entities]
        evidence = await self._storage.get_evidence(keys, None, READ_EVIDENCE)
        statements = [
            MemoryStatement(
                source_id=key.source_id,
                source=entities[key.source_id].name,
                type=key.type,
                target_id=key.target_id,
                target=entities[key.target_id].name,
                text=one.text,
                valid_from=one.valid_from,
                valid_to=one.valid_to,
            )
            for key in keys
            for one in evidence.get(key, [])
            if one.memory_id == memory_id
        ]
        return MemoryReading(
            entities=[entities[one] for one in ids if one in entities],
            statements=statements,
            neighbors=await self._find_neighbors(memory_id, entities),
        )

    async def _find_neighbors(
        self, memory_id: str, entities: Mapping[str, Entity]
    ) -> dict[str, list[str]]:
        shared_by = [i for i, one in entities.items() if one.type not in FACT_TYPES]
        mentions = await self._storage.get_mentions(shared_by, None, READ_EVIDENCE)
        chunks = list({one.chunk_id for found in mentions.values() for one in found})
        passages = await self._storage.get_passages(chunks)
        shared: dict[str, list[str]] = {}
        for entity_id, found in mentions.items():
            for other in {passages[m.chunk_id].memory_id for m in found if m.chunk_id in passages}:
                if other != memory_id:
                    shared.setdefault(other, []).append(entities[entity_id].name)
        ranked = sorted(shared.items(), key=lambda pair: (-len(pair[1]), pair[0]))
        return dict(ranked[:READ_NEIGHBORS])

    @operation()
    async def get_status(self) -> GraphStats:
        """Count what the graph holds, and what is still unread."""
        return await self._storage.get_graph_stats(self._extractor.version)

    @operation()
    async def merge(self, source: str, target: str, folder: str = "") -> MergeResponse:
        """Merge one entity into another, both by name or id.

        Raises:
            EntityNotFoundError: One of them is unknown.
            ValidationError: A name may mean several, or they are one already.
        """
        hidden = await self._hidden(folder)
        ids = [await self._only(source, hidden), await self._only(target, hidden)]
        names = await self._storage.get_entities(ids, None, hidden)
        merged = await self._storage.merge_entities(*ids)
        return _named(merged, {i: names[i].name for i in names})

    async def _only(self, asked: str, hidden: Sequence[str]) -> str:
        found = await resolve(self._storage, self._extractor, asked, hidden=hidden)
        if len(found) > 1:
            ids = ", ".join(f"{entity.entity_id} ({entity.type})" for entity in found)
            raise ValidationError(f"Several entities have a name; give an id: {ids}", "VAL_004")
        return found[0].entity_id

    @operation()
    async def undo(self, entity: str | None = None, folder: str = "") -> MergeResponse:
        """Undo the newest merge made by hand, or the newest of an entity into another.

        Raises:
            NotFoundError: There is nothing to undo.
            ValidationError: Several merges are meant.
        """
        hidden = await self._hidden(folder)
        source = None if entity is None else await self._merged_as(entity, hidden)
        undone = await self._storage.undo_merge(source)
        if undone is None:
            raise NotFoundError("There is no merge to undo.", "GRAPH_002")
        ids = [undone.source_id, undone.target_id]
        names = await self._storage.get_entities(ids, None, hidden)
        return _named(undone, {i: names[i].name for i in names})

    async def _merged_as(self, asked: str, hidden: Sequence[str]) -> str:
        """Return the id of a merged entity by its id or by the name it had."""
        every = {
            merged_id
            for entity in await resolve(self._storage, self._extractor, asked, hidden=hidden)
            for merged_id in entity.merged_ids
        }
        if asked in every or not every:
            return asked
        found = await self._extractor.recognize(asked)
        named = every & {entity.entity_id for entity in found}
        chosen = named or every
        if len(chosen) > 1:
            ids = ", ".join(sorted(chosen))
            raise ValidationError(f"Several were merged; give the id of one: {ids}", "VAL_004")
        return chosen.pop()

    async def export(self, name: str, folder: str = "") -> AsyncIterator[str]:
        """Yield the graph as text in a format, piece by piece.

        Raises:
            ValidationError: There is no such format.
        """
        from zapomni_core.modules.graph.export import export_graph

        async for piece in export_graph(self._storage, name, await self._hidden(folder)):
            yield piece

    @operation()
    async def get_picture(self, folder: str = "") -> GraphPicture:
        """Return the graph for a page of its own: what to draw, and tables of the rest."""
        from zapomni_core.modules.graph.export import list_graph

        drawn = await self.get_view(GraphViewRequest(limit=MOST_VIEWED), folder)
        return await list_graph(self._storage, drawn, await self._hidden(folder))

    @property
    def _extractor(self) -> GraphExtractor:
        if self._opened is None:
            self._opened = self._create()
        return self._opened


def _types(names: Sequence[str]) -> list[str]:
    """Write types as the graph does: `works at` is WORKS_AT."""
    return ["_".join(name.replace("-", " ").split()).upper() for name in names]


def _named(merge: Merge, names: Mapping[str, str]) -> MergeResponse:
    return MergeResponse(
        source_id=merge.source_id,
        source=names.get(merge.source_id, merge.source_id),
        target_id=merge.target_id,
        target=names.get(merge.target_id, merge.target_id),
    )
