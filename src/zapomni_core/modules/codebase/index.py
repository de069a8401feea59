"""Indexes a repository: read what changed, store it, remove what is missing.

Every file is a memory of kind `code`, so that one search ranks notes and code together; its symbols
and references are in `SqliteCode`. A file is begun in that store before its memory is written and
completed there after, both in small batches: a run that was killed in between leaves a file that is
not whole, and the next run reads it again.
"""

from __future__ import annotations

import asyncio
import gc
import time
from collections import Counter, deque
from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from hashlib import blake2b
from pathlib import Path
from typing import Any

from zapomni_core.exceptions import EmbeddingError, ValidationError
from zapomni_core.infra.logging import get_logger
from zapomni_core.infra.projects import head_commit, project_of
from zapomni_core.infra.threads import run_to_end
from zapomni_core.interfaces import TextChunker
from zapomni_core.modules.codebase.callgraph import Resolver, affected_paths
from zapomni_core.modules.codebase.models import (
    Facts,
    FileEntry,
    ParsedFile,
    SourceFile,
    SymbolId,
    unpack_facts,
)
from zapomni_core.modules.codebase.parser import CodeParser, first_characters
from zapomni_core.modules.codebase.tree import SourceTree
from zapomni_core.shared.code import role_of
from zapomni_core.shared.privacy import PrivatePaths
from zapomni_core.shared.redaction import Redactor
from zapomni_core.shared.text import context_words
from zapomni_db.code_models import (
    CODE_KIND,
    CodeFile,
    CodeRepository,
    EdgeRow,
    FileData,
    PassagePlace,
)
from zapomni_db.interfaces import StorageProvider
from zapomni_db.models import ChunkData, Embedding, EmbeddingSpace, MemoryData, MemoryFilter
from zapomni_db.sqlite.code import SqliteCode, SqliteFacts

__all__ = [
    "Changes",
    "Indexer",
    "Read",
    "file_data",
    "memory_data",
    "passage_digest",
    "read_masked",
    "resolve_references",
]


# Raised when files have to be read again although they did not change.
READER = "4"
# Transactions are kept short for other writers: a batch is about a tenth of a second. A
# fourth of it would make SQLite write twice as many pages, the same ones again and again.
PASSAGES_AT_ONCE = 1024
SECONDS_AT_ONCE = 0.5
IDS_AT_ONCE = 500
# A file that is being written while it is read is read again.
TRIES = 3

# How far an index is, in these parts of all of it: how many vectors there are to make is known only
# after the files were read.
WHOLE = 1000

Report = Callable[[int, int | None, str], Awaitable[None]]
"""Called with how much is done, how much there is, and a message without stored text."""
FillVectors = Callable[[Callable[[int, int], Awaitable[None]]], Awaitable[int]]
"""Called with what to report progress to; returns how many vectors were made."""

logger = get_logger(__name__)


@dataclass
class _Plan:
    """What one run has to do, and what it has done."""

    repository: CodeRepository
    known: dict[str, CodeFile]
    reader: str
    entries: deque[FileEntry] = field(default_factory=deque)
    """What is new or may have changed."""
    missing: dict[str, CodeFile] = field(default_factory=dict)
    """What was known and is not there any more."""
    whole: frozenset[int] = frozenset()
    """The known files of which everything is stored."""
    moved: dict[int, str] = field(default_factory=dict)
    """Where files were before, by their keys."""
    changes: dict[str, tuple[str | None, str | None]] | None = None
    """What files said before and say now about others; None: everything is resolved again."""
    counts: Counter[str] = field(default_factory=Counter)


@dataclass
class _Batch:
    """Files that were read or compared."""

    count: int = 0
    reads: list[Read] = field(default_factory=list)
    touched: dict[int, str] = field(default_factory=dict)
    """New stamps of files whose contents are the same."""
    unreadable: dict[str, CodeFile] = field(default_factory=dict)
    """Known files that are not to be had any more."""


@dataclass(frozen=True)
class Phases:
    """Where reading files and resolving references end, in parts of the whole."""

    makes_vectors: bool

    @property
    def read(self) -> int:
        return 600 if self.makes_vectors else 950

    @property
    def resolved(self) -> int:
        return 650 if self.makes_vectors else WHOLE


@dataclass(frozen=True)
class Indexer:
    """The parts that indexing needs."""

    storage: StorageProvider
    code: SqliteCode
    fill_vectors: FillVectors | None
    """Makes the vectors still missing; None without an embedder."""
    chunker: TextChunker
    chunk_size: int
    redactor: Redactor
    private: PrivatePaths

    async def index(self, root: str, report: Report) -> dict[str, Any]:
        """Bring a folder's index up to date; return what was done, in numbers."""
        tree = await asyncio.to_thread(SourceTree, Path(root))
        with tree, _rare_collections():
            if str(tree.path) != root:
                raise ValidationError("The folder has become a link to another one", "VAL_004")
            plan = await self._plan(tree)
            phases = Phases(self.fill_vectors is not None)
            if plan.entries or plan.missing:
                await self.code.begin_changes(plan.repository.key)
            if plan.entries:
                with CodeParser(self.chunker, self.chunk_size) as parser:
                    await self._read_and_store(tree, parser, plan, phases, report)
            await self._remove(plan)
            await report(phases.read, WHOLE, "Resolving references")
            await resolve_references(self.code, plan.repository.key, plan.changes)
            commit = await asyncio.to_thread(head_commit, root)
            await self.code.finish_repository(plan.repository.key, commit, plan.reader)
            counted = ("added", "changed", "moved", "removed", "unchanged")
            result = {
                "root": plan.repository.root,
                **{name: plan.counts[name] for name in counted},
                "lines_read": plan.counts["lines"],
                "skipped": dict(sorted(tree.skipped_counts.items())),
                "complete": tree.is_complete,
            }
        result |= await self._make_vectors(phases, report)
        await report(WHOLE, WHOLE, "Indexed")
        logger.info("code_indexed", **dict(plan.counts))
        return result

    async def forget(self, repository: CodeRepository) -> None:
        """Take a repository out of the index."""
        for file in await self.code.get_files(repository.key):
            await self.storage.delete_memory(file.memory_id)
        await self.code.forget_repository(repository.key)

    async def _read_and_store(
        self,
        tree: SourceTree,
        parser: CodeParser,
        plan: _Plan,
        phases: Phases,
        report: Report,
    ) -> None:
        """Store one batch while the next one is read."""
        done, total = 0, len(plan.entries)
        ahead = self._start_reading(tree, parser, plan)
        try:
            while ahead is not None:
                batch = await ahead
                ahead = self._start_reading(tree, parser, plan)
                await self._store(plan, batch)
                done += batch.count
                share = phases.read * done // total
                await report(share, WHOLE, f"Reading files ({done:,} of {total:,})")
        finally:
            if ahead is not None:
                await asyncio.wait({ahead})

    def _start_reading(
        self, tree: SourceTree, parser: CodeParser, plan: _Plan
    ) -> asyncio.Task[_Batch] | None:
        if not plan.entries:
            return None
        return asyncio.create_task(run_to_end(_read_batch, tree, parser, plan, self.redactor))

    def _reader(self, project: str) -> str:
        """Return what everything that is stored depends on, apart from the files themselves."""
        return f"{READER}:{self.chunk_size}:{project}"

    # --- what has to be done ------------------------------------------------------------

    async def _plan(self, tree: SourceTree) -> _Plan:
        root = str(tree.path)
        project = await asyncio.to_thread(project_of, root)
        repository = await self.code.open_repository(root, tree.path.name or root, project.key)
        reader = self._reader(project.key)
        known = {file.path: file for file in await self.code.get_files(repository.key)}
        plan = _Plan(repository, known, reader)
        if repository.reader == reader:
            plan.whole = await self._whole(repository, known.values())
            plan.changes = {} if repository.is_resolved else None
        listed = set()
        for entry in await run_to_end(lambda: list(tree.files())):
            if self.private.match(entry.path):
                continue
            listed.add(entry.path)
            file = known.get(entry.path)
            if file is None or file.stamp != entry.stamp or file.key not in plan.whole:
                plan.entries.append(entry)
        # What is likely asked for is found, and gets its vectors, first.
        plan.entries = deque(sorted(plan.entries, key=_urgency))
        plan.missing = {path: file for path, file in known.items() if path not in listed}
        plan.counts["unchanged"] = len(listed) - len(plan.entries)
        return plan

    async def _whole(self, repository: CodeRepository, files: Iterable[CodeFile]) -> frozenset[int]:
        """Return the files of which everything is stored."""
        stored = [file for file in files if file.content_hash]
        kept = [file for file in stored if not file.is_empty]
        filters = MemoryFilter(kind=CODE_KIND, tags=[repository.tag])
        page = await self.storage.list_memories(filters, 1, 0)
        if page.total == len(kept):
            return frozenset(file.key for file in stored)
        # Some were deleted, or the memories are in another store now.
        there: set[str] = set()
        for start in range(0, len(kept), IDS_AT_ONCE):
            ids = [file.memory_id for file in kept[start : start + IDS_AT_ONCE]]
            there |= (await self.storage.get_summaries(ids)).keys()
        return frozenset(f.key for f in stored if f.is_empty or f.memory_id in there)

    # --- storing ------------------------------------------------------------------------

    async def _store(self, plan: _Plan, batch: _Batch) -> None:
        plan.missing |= batch.unreadable
        if batch.touched:
            await self.code.set_stamps(batch.touched)
            plan.counts["unchanged"] += len(batch.touched)
        if not batch.reads:
            return
        for read in batch.reads:
            await self._count(plan, read)
        paths = [read.source.path for read in batch.reads]
        files = await self.code.begin_files(plan.repository.key, paths)
        pairs = list(zip(files, batch.reads, strict=True))
        await self._store_memories(plan, pairs)
        data = [file_data(file, read) for file, read in pairs]
        await self._note_changes(plan, files, data)
        await self.code.store_files(data)

    async def _note_changes(
        self, plan: _Plan, files: Sequence[CodeFile], data: Sequence[FileData]
    ) -> None:
        """Keep what files said and say, to find out later whom that concerns."""
        if plan.changes is None:
            return
        before = await self.code.get_facts([file.key for file in files])
        for file, new in zip(files, data, strict=True):
            was = plan.moved.get(file.key, file.path)
            old = before.get(file.key)
            plan.changes[was] = (old, None)
            plan.changes[file.path] = (old if was == file.path else None, new.facts)

    async def _count(self, plan: _Plan, read: Read) -> None:
        """Find out whether a file is new, changed, or one that moved here."""
        plan.counts["lines"] += read.parsed.lines
        if read.source.path in plan.known:
            plan.counts["changed"] += 1
            return
        origin = await self._origin(plan, read)
        if origin is None:
            plan.counts["added"] += 1
            return
        plan.counts["moved"] += 1
        plan.moved[origin.key] = origin.path
        del plan.missing[origin.path]
        await self.code.move_file(origin.key, read.source.path)
        plan.known[read.source.path] = origin

    async def _origin(self, plan: _Plan, read: Read) -> CodeFile | None:
        """Return which of the missing files this one was."""
        for file in plan.missing.values():
            if file.content_hash == read.source.content_hash:
                return file
        hashes = [symbol.content_hash for symbol in read.parsed.symbols[1:]]
        if not plan.missing or not hashes:
            return None
        among = {file.key: file for file in plan.missing.values()}
        key = await self.code.find_origin(list(among), hashes)
        return None if key is None else among[key]

    async def _store_memories(self, plan: _Plan, pairs: Sequence[tuple[CodeFile, Read]]) -> None:
        """Write the files' texts; passages that stay as they are keep their vectors."""
        before = [(file, read) for file, read in pairs if read.source.path in plan.known]
        space = await self.storage.get_space()
        texts = list(dict.fromkeys(c.text for _, read in before for c in read.parsed.chunks))
        made = await self.storage.get_embeddings(space, texts) if space and texts else {}
        there = await self.storage.get_summaries([file.memory_id for file, _ in before])
        pinned = {memory_id for memory_id, summary in there.items() if summary.pinned}
        for memory_id in there:
            await self.storage.delete_memory(memory_id)
        memories = [
            memory_data(plan.repository, file, read, made, space, pinned=file.memory_id in pinned)
            for file, read in pairs
            if read.parsed.chunks
        ]
        if memories:
            await self.storage.store_memories(memories)

    async def _remove(self, plan: _Plan) -> None:
        gone = list(plan.missing.values())
        for start in range(0, len(gone), IDS_AT_ONCE):
            batch = gone[start : start + IDS_AT_ONCE]
            for file in batch:
                await self.storage.delete_memory(file.memory_id)
            if plan.changes is not None:
                before = await self.code.get_facts([file.key for file in batch])
                plan.changes |= {file.path: (before.get(file.key), None) for file in batch}
            await self.code.remove_files([file.key for file in batch])
        plan.counts["removed"] = len(gone)

    async def _make_vectors(self, phases: Phases, report: Report) -> dict[str, Any]:
        if self.fill_vectors is None:
            return {"vectors": 0, "notice": None}

        async def report_vectors(made: int, pending: int) -> None:
            done = phases.resolved + (WHOLE - phases.resolved) * made // pending
            await report(done, WHOLE, f"Making vectors ({made:,} of {pending:,})")

        try:
            made = await self.fill_vectors(report_vectors)
        except EmbeddingError as error:
            notice = f"Indexed, but found by words only for now: {error.message}"
            return {"vectors": 0, "notice": notice}
        return {"vectors": made, "notice": None}


def _urgency(entry: FileEntry) -> tuple[int, int]:
    """Return when a file is read: code before tests before docs, the latest change first."""
    role = ("code", "test", "docs").index(role_of(entry.path))
    return role, -int(entry.stamp.split(":")[2])


@contextmanager
def _rare_collections() -> Iterator[None]:
    """Look for garbage less often: nothing that parsers make refers to itself."""
    usual = gc.get_threshold()
    gc.set_threshold(500_000, *usual[1:])
    try:
        yield
    finally:
        gc.set_threshold(*usual)


def _read_batch(tree: SourceTree, parser: CodeParser, plan: _Plan, redactor: Redactor) -> _Batch:
    """Read and parse until there is enough to be stored."""
    batch = _Batch()
    passages, until = 0, time.monotonic() + SECONDS_AT_ONCE
    while plan.entries and passages < PASSAGES_AT_ONCE and time.monotonic() < until:
        batch.count += 1
        path = plan.entries.popleft().path
        file = plan.known.get(path)
        source, is_changing = _read(tree, path)
        if source is None:
            if file is not None and not is_changing:
                batch.unreadable[path] = file
        elif (
            file is not None and file.key in plan.whole and source.content_hash == file.content_hash
        ):
            batch.touched[file.key] = source.stamp
        else:
            parsed = parser.parse(source)
            passages += len(parsed.chunks)
            batch.reads.append(read_masked(source, parsed, redactor))
    return batch


def _read(tree: SourceTree, path: str) -> tuple[SourceFile | None, bool]:
    """Read a file; if that fails, return whether because it is being written."""
    for _ in range(TRIES):
        before = tree.skipped_counts["changing"]
        source = tree.read(path)
        if source is not None or tree.skipped_counts["changing"] == before:
            return source, False
    return None, True


# --- Records of a file: its memory, symbols, passages and facts -----------------------


@dataclass(frozen=True)
class Read:
    """A file that was read and parsed."""

    source: SourceFile
    parsed: ParsedFile
    """Without secrets in what is stored of it; its hashes are those of the file as it is."""
    text: str
    """The file, every secret covered, everything else where it was."""


def read_masked(source: SourceFile, parsed: ParsedFile, redactor: Redactor) -> Read:
    """Cover the secrets of a file: in its text, its passages and what its symbols say.

    Covers are as long as what they cover, so that every line and offset stays right. Hashes are
    left as they are: citations compare them with the file on the disk.
    """
    text = source.data.decode("utf-8", "replace")
    spans = redactor.find(text)
    if not spans:
        return Read(source, parsed, text)
    masked = redactor.mask_in_place(text, spans)
    # A short password or a word may be part of other words; where it is one, it is found again.
    found = {text[start:end]: masked[start:end] for start, end, _ in spans}
    secrets = {one: cover for one, cover in found.items() if len(one) >= 8 and not one.isalpha()}

    def cover(words: str) -> str:
        for secret, covered in secrets.items():
            words = words.replace(secret, covered)
        return redactor.mask_in_place(words, redactor.find(words))

    starts = first_characters(source.data, parsed.chunks)
    chunks = []
    for chunk, start in zip(parsed.chunks, starts, strict=True):
        end = start + len(chunk.text)
        whole = text[start:end] == chunk.text
        words = masked[start:end] if whole else cover(chunk.text)
        chunks.append(chunk._replace(text=words, context=cover(chunk.context)))
    symbols = [
        symbol._replace(
            signature=cover(symbol.signature),
            docstring=cover(symbol.docstring),
            decorators=tuple(map(cover, symbol.decorators)),
        )
        for symbol in parsed.symbols
    ]
    facts = parsed.packed_facts
    for secret, covered in secrets.items():
        # Facts are JSON: what is in a string there may be escaped.
        facts = facts.replace(secret, covered)
    return Read(
        source,
        parsed._replace(chunks=tuple(chunks), symbols=tuple(symbols), packed_facts=facts),
        masked,
    )


def passage_digest(text: str) -> str:
    """Identify a passage of a file by its exact text."""
    return blake2b(text.encode(), digest_size=8).hexdigest()


def memory_data(
    repository: CodeRepository,
    file: CodeFile,
    read: Read,
    made: Mapping[str, Embedding],
    space: EmbeddingSpace | None,
    *,
    pinned: bool,
) -> MemoryData:
    """Return the memory that a file is."""
    parsed = read.parsed
    chunks = _chunks(read, made)
    # Not validated: its passages are, one by one, when they are made.
    return MemoryData.model_construct(
        memory_id=file.memory_id,
        text=read.text,
        chunks=chunks,
        metadata={
            "repository": repository.root,
            "language": parsed.language,
            "content_hash": parsed.content_hash,
        },
        timestamp=datetime.now(UTC),
        project=repository.project,
        source=parsed.path,
        kind=CODE_KIND,
        tags=[repository.tag, f"lang:{parsed.language}"],
        pinned=pinned,
        # Equal files stay apart, and passages are neighbors of those of their own file only.
        parent=f"{repository.root.rstrip('/')}/{parsed.path}",
        space=space if any(chunk.embedding is not None for chunk in chunks) else None,
    )


def _chunks(read: Read, made: Mapping[str, Embedding]) -> list[ChunkData]:
    chunks: list[ChunkData] = []
    passages = read.parsed.chunks
    starts = first_characters(read.source.data, passages)
    for index, (chunk, char) in enumerate(zip(passages, starts, strict=True)):
        vector = made.get(chunk.text)
        chunks.append(
            ChunkData(
                text=chunk.text,
                index=index,
                start_char=char,
                end_char=char + len(chunk.text),
                embedding=vector.vector if vector else None,
                tokens=vector.tokens if vector else None,
                context=f"{chunk.context} {context_words(f'{chunk.context} {chunk.text}')}",
            )
        )
    return chunks


def file_data(file: CodeFile, read: Read) -> FileData:
    """Return what is stored with the memory: symbols, places of passages, facts."""
    parsed = read.parsed
    return FileData(
        key=file.key,
        stamp=read.source.stamp,
        content_hash=parsed.content_hash,
        language=parsed.language,
        lines=parsed.lines,
        has_errors=parsed.has_errors,
        symbols=parsed.symbols,
        passages=tuple(
            PassagePlace(passage_digest(c.text), c.symbol, c.start_line, c.end_line)
            for c in parsed.chunks
        ),
        facts=parsed.packed_facts,
        mentions=parsed.mentions,
    )


# --- Finding out whom the symbols of a repository refer to, where something changed ---


# A transaction is kept short for other writers: about a tenth of a second.
EDGES_AT_ONCE = 8000

Changes = Mapping[str, tuple[str | None, str | None]]
"""What files said before and say now, packed; None where there was or is no such file."""


async def resolve_references(code: SqliteCode, repository: int, changes: Changes | None) -> None:
    """Resolve the references that the changes concern; None: all of the repository."""
    if changes is not None and not changes:
        return
    with code.read_facts(repository) as reader:
        stored = _Stored(reader)
        waiting = await run_to_end(_concerned, stored, changes)
        resolver = await run_to_end(Resolver, stored)
        while waiting:
            edges = await run_to_end(_resolve_some, resolver, waiting)
            await code.store_edges(repository, edges)


def _concerned(stored: _Stored, changes: Changes | None) -> list[str]:
    if changes is None:
        return sorted(stored.paths())
    unpacked = {
        path: ((before and unpack_facts(before)) or None, (after and unpack_facts(after)) or None)
        for path, (before, after) in changes.items()
    }
    return sorted(affected_paths(stored, unpacked))


def _resolve_some(resolver: Resolver, waiting: list[str]) -> dict[str, list[EdgeRow]]:
    found: dict[str, list[EdgeRow]] = {}
    count = 0
    while waiting and count < EDGES_AT_ONCE:
        path = waiting.pop()
        found[path] = [
            EdgeRow(caller.qualified_name, kind, callee, name, strength, line)
            for kind, caller, callee, name, strength, line in resolver.resolve(path)
        ]
        count += len(found[path]) + 1
    return found


class _Stored:
    """The repository as the resolver asks for it, each file's facts unpacked once."""

    def __init__(self, reader: SqliteFacts) -> None:
        self._reader = reader
        self._paths: frozenset[str] | None = None
        self._facts: dict[str, Facts | None] = {}
        self._named: dict[str, list[SymbolId]] = {}

    def paths(self) -> Collection[str]:
        """Return the paths of all files."""
        if self._paths is None:
            self._paths = frozenset(self._reader.paths())
        return self._paths

    def facts(self, path: str) -> Facts | None:
        """Return what a file says."""
        if path not in self._facts:
            packed = self._reader.facts(path) if path in self.paths() else None
            self._facts[path] = None if packed is None else unpack_facts(packed)
        return self._facts[path]

    def named(self, name: str) -> Sequence[SymbolId]:
        """Return the symbols of this bare name."""
        if name not in self._named:
            self._named[name] = [SymbolId(*one) for one in self._reader.named(name)]
        return self._named[name]

    def mentioning(self, name: str) -> Collection[str]:
        """Return the files that mention this name."""
        return self._reader.mentioning(name)
