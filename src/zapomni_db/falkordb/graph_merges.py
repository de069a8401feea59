"""Which entities count as one.

Merges are kept by id, apart from the entities: a decision holds for texts to come, and undoing it
parts what was told of the two exactly. An edge `IS` is only their result: it leads from an entity
to the last one of a chain of merges that exists.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Iterable, Sequence
from datetime import UTC, datetime
from typing import LiteralString, NamedTuple

from zapomni_db.copy_models import MergeCopy
from zapomni_db.exceptions import EntityNotFoundError, ValidationError
from zapomni_db.falkordb.connection import Session
from zapomni_db.falkordb.graph_guard import Transaction, look
from zapomni_db.falkordb.values import from_time, to_time
from zapomni_db.graph_models import Merge
from zapomni_db.graph_rules import find_root

__all__ = ["Merges", "merging", "undoing"]


class _Row(NamedTuple):
    """A merge as it is stored."""

    key: int
    source_id: str
    target_id: str
    automatic: bool
    merged_at: int
    undone_at: int | None

    def as_merge(self) -> Merge:
        return Merge(
            source_id=self.source_id,
            target_id=self.target_id,
            automatic=self.automatic,
            merged_at=from_time(self.merged_at),
        )


_ROW: LiteralString = "g.key, g.source_id, g.target_id, g.automatic, g.merged_at, g.undone_at"
_OF: LiteralString = "MATCH (g:Merge) WHERE g.source_id IN $ids OR g.target_id IN $ids"
_ROOTS: LiteralString = (
    "MATCH (e:Entity) WHERE e.id IN $ids OPTIONAL MATCH (e)-[:IS]->(root:Entity)"
)


class Merges:
    """All that was merged with some entities, and what is to be changed about it."""

    def __init__(self, rows: Iterable[_Row], roots: dict[str, str | None]) -> None:
        self._rows = list(rows)
        self._active = {row.source_id: row for row in self._rows if row.undone_at is None}
        self._targets = {row.source_id: row.target_id for row in self._active.values()}
        self._roots = roots
        self._changed: set[str] = set()
        self._created: list[_Row] = []
        self._undone: list[int] = []
        self._forgotten: list[int] = []
        self._now = to_time(datetime.now(UTC))

    @classmethod
    async def load(cls, session: Session, ids: Collection[str], number: int) -> Merges:
        """Read what concerns these entities; `number` is how many merges there are at all."""
        rows: dict[int, _Row] = {}
        known, border = set(ids), set(ids)
        while border and number:
            found = [_Row(*row) for row in await session.read_list(_OF, _ROW, ids=sorted(border))]
            rows |= {row.key: row for row in found}
            border = {i for row in found for i in (row.source_id, row.target_id)} - known
            known |= border
        roots = await session.read_list(_ROOTS, "e.id, root.id", ids=sorted(known))
        return cls(rows.values(), dict(roots))

    def add(self, new_ids: Iterable[str]) -> None:
        """Take in entities that are about to be there."""
        new = set(new_ids)
        self._roots |= dict.fromkeys(new)
        if self._rows:
            self._reroot(new)

    def drop(self, gone_ids: Collection[str]) -> None:
        """Take out entities that are about to go: what they stood for stands for itself."""
        for entity_id, root in list(self._roots.items()):
            if entity_id in gone_ids:
                del self._roots[entity_id]
                self._changed.discard(entity_id)
            elif root in gone_ids:
                self._roots[entity_id] = None

    def root_of(self, entity_id: str) -> str | None:
        """Return what an entity stands for; None if there is no such entity."""
        if entity_id not in self._roots:
            return None
        return self._roots[entity_id] or entity_id

    def find(self, source_id: str, target_id: str) -> _Row | None:
        """Return the merge of one into the other, if it is there and not undone."""
        row = self._active.get(source_id)
        return row if row is not None and row.target_id == target_id else None

    def merge(self, source_id: str, target_id: str, *, automatic: bool) -> _Row:
        """Let one root stand for another."""
        # It may stand for itself because what it was merged into is gone for now.
        if (old := self._active.get(source_id)) is not None:
            self._undone.append(old.key)
        row = _Row(0, source_id, target_id, automatic, self._now, None)
        self._rows.append(row)
        self._active[source_id] = row
        self._targets[source_id] = target_id
        self._created.append(row)
        self._reroot({source_id})
        return row

    def merge_same(self, pairs: Sequence[tuple[str, str]]) -> None:
        """Merge what an extractor holds to be one, unless somebody decided about it before."""
        for source_id, target_id in pairs:
            decided = source_id in self._active or any(
                row.source_id == source_id and row.target_id == target_id for row in self._rows
            )
            source, target = self.root_of(source_id), self.root_of(target_id)
            if not decided and source == source_id and target not in (None, source):
                assert target is not None
                self.merge(source, target, automatic=True)

    def replace(self, merges: Sequence[MergeCopy]) -> None:
        """Forget every merge there is, and make these instead."""
        self._forgotten = [row.key for row in self._rows]
        self._targets = {m.source_id: m.target_id for m in merges if m.undone_at is None}
        self._created = [
            _Row(
                0,
                merge.source_id,
                merge.target_id,
                merge.automatic,
                to_time(merge.merged_at),
                None if merge.undone_at is None else to_time(merge.undone_at),
            )
            for merge in merges
        ]
        self._reroot(self._roots.keys())

    def undo(self, row: _Row) -> None:
        """Part what a merge joined."""
        self._undone.append(row.key)
        self._active.pop(row.source_id, None)
        self._targets.pop(row.source_id, None)
        self._reroot({row.source_id})

    def _reroot(self, ids: Collection[str]) -> None:
        """Find again what each of these, and what was merged into them, stands for."""
        below, border = set(ids), set(ids)
        while border:
            border = {s for s, target in self._targets.items() if target in border} - below
            below |= border
        for entity_id in below & self._roots.keys():
            root = find_root(entity_id, self._targets.get, self._roots.__contains__)
            if root != self._roots[entity_id]:
                self._roots[entity_id] = root
                self._changed.add(entity_id)

    def write_into(self, change: Transaction) -> None:
        """Add to a change what came of all this."""
        change.add(_UNDO, "undone", self._undone)
        change.add(_FORGET, "forgotten", self._forgotten)
        created = [{**row._asdict(), "key": change.next_key()} for row in self._created]
        change.add(_CREATE, "merges", created)
        change.add(_PART, "parted", sorted(self._changed))
        joined = [
            {"id": entity_id, "root": root}
            for entity_id in sorted(self._changed)
            if (root := self._roots[entity_id]) is not None
        ]
        change.add(_JOIN, "joined", joined)
        change.values["now"] = self._now


_UNDO = "MATCH (g:Merge {key: x}) SET g.undone_at = $now"
_FORGET = "OPTIONAL MATCH (g:Merge {key: x}) DELETE g"
_CREATE = """
CREATE (:Merge {key: base + x.key, source_id: x.source_id, target_id: x.target_id,
    automatic: x.automatic, merged_at: x.merged_at, undone_at: x.undone_at})
"""
_PART = "OPTIONAL MATCH (:Entity {id: x})-[is:IS]->(:Entity) DELETE is"
_JOIN = "MATCH (e:Entity {id: x.id}) MATCH (root:Entity {id: x.root}) CREATE (e)-[:IS]->(root)"


def merging(source_id: str, target_id: str) -> Callable[[Session], Awaitable[Merge]]:
    """Return the work of merging what these two stand for, which may take several attempts."""
    tried: tuple[str, str] | None = None

    async def merge(session: Session) -> Merge:
        nonlocal tried
        while True:
            seen, number = await look(session)
            merges = await Merges.load(session, {source_id, target_id}, number)
            source, target = merges.root_of(source_id), merges.root_of(target_id)
            if source is None or target is None:
                raise EntityNotFoundError("No entity has this id.")
            if tried is not None and (made := merges.find(*tried)) is not None:
                # The attempt whose answer we never got has made it.
                return made.as_merge()
            if source == target:
                raise ValidationError("These two are one entity already.", "VAL_003")
            row = merges.merge(source, target, automatic=False)
            change = Transaction(seen)
            merges.write_into(change)
            tried = source, target
            if await change.write(session):
                return row.as_merge()
            tried = None

    return merge


_NEWEST = (
    "MATCH (g:Merge) WHERE g.undone_at IS NULL"
    " AND (g.source_id = $source OR ($source IS NULL AND NOT g.automatic))"
    " WITH g ORDER BY g.key DESC LIMIT 1"
)


def undoing(source_id: str | None) -> Callable[[Session], Awaitable[Merge | None]]:
    """Return the work of undoing the newest merge, which may take several attempts.

    Of this entity, or of all; by hand only if no entity is named.
    """
    tried: set[int] = set()

    async def undo(session: Session) -> Merge | None:
        while True:
            seen, number = await look(session)
            if tried:
                done = await session.read_list(_DONE, _ROW, keys=sorted(tried))
                if done:
                    # The attempt whose answer we never got has undone it.
                    return _Row(*done[0]).as_merge()
            rows = await session.read_list(_NEWEST, _ROW, source=source_id)
            if not rows:
                return None
            row = _Row(*rows[0])
            merges = await Merges.load(session, {row.source_id}, number)
            merges.undo(row)
            change = Transaction(seen)
            merges.write_into(change)
            tried.add(row.key)
            if await change.write(session):
                return row.as_merge()
            tried.discard(row.key)

    return undo


_DONE = "MATCH (g:Merge) WHERE g.key IN $keys AND g.undone_at IS NOT NULL "
