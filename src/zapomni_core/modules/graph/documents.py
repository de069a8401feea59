"""What a document states by its form: status lines, manifests, owners of code, authors.

A sentence needs no such reading; here the subject is the document itself, or its project.
"""

from __future__ import annotations

import json
import re
import sys
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from zapomni_core.modules.graph.names import Gazetteer, canonical_name, entity_id, record_name
from zapomni_core.shared.statements import TextReference, names_of, read_status
from zapomni_db.code_models import CODE_KIND
from zapomni_db.models import EntityData, MemorySummary, RelationshipData
from zapomni_db.rules import FORMS

__all__ = ["DocumentReading", "is_form", "is_manifest", "name_speakers", "read_document"]


FORM = "form"
"""The source of what the form of a document states."""
# More dependencies than that are a list of everything.
MOST_DEPENDENCIES = 2000
STRENGTH = 0.9
SHORTEST_HASH = 7
# What a list says comes after what a sentence says: there are hundreds of the one.
LISTED_STRENGTH = 0.6


class DocumentReading(NamedTuple):
    """What the form of one passage states, with places in it."""

    entities: list[EntityData]
    relationships: list[RelationshipData]


class _Thing(NamedTuple):
    """Something that is named, and where in a passage."""

    name: str
    type: str
    start: int
    end: int


class _Fact(NamedTuple):
    """A relationship between two things, and the line that states it."""

    subject: _Thing
    type: str
    object: _Thing
    start: int
    end: int


def read_document(
    about: MemorySummary,
    passage: str,
    entities: Sequence[EntityData],
    gazetteer: Gazetteer,
    whole: str = "",
) -> DocumentReading:
    """Return what the form of a passage of a memory states.

    Args:
        about: The memory.
        passage: One of its passages.
        entities: What the passage mentions.
        gazetteer: Known names: a package that is one of them is that technology.
        whole: The text of the whole memory, if it is a manifest.
    """
    facts: list[_Fact] = []
    name = _file_name(about)
    if name in _MANIFESTS:
        facts += _dependencies(about, name, passage, whole, gazetteer)
    elif name == "CODEOWNERS":
        facts += _owners(passage)
    elif about.kind == CODE_KIND:
        facts += _imports(about, passage, gazetteer)
    else:
        facts += _commit_log(passage)
        if _may_have_name(about, passage) and _is_beginning(about, passage):
            own = _own_name(about, passage)
            if own is not None:
                facts += _status(own, passage)
                facts += _decided(own, passage, entities, gazetteer)
                facts += _deciders(about, own, passage)
            facts += _commit_author(about, passage, gazetteer)
            facts += _moved_to(about, passage, entities, gazetteer)
    return _as_reading(passage, facts)


def name_speakers(
    about: MemorySummary,
    entities: Sequence[EntityData],
    relationships: Sequence[RelationshipData],
    gazetteer: Gazetteer,
) -> DocumentReading:
    """Return what was found with `we` as the memory's project, and `I` as its author."""
    project, author = _project(about), about.metadata.get("author")
    names: dict[str, _Thing] = {}
    if project:
        names = dict.fromkeys(("we", "team"), _package(project, 0, 0, gazetteer))
    if isinstance(author, str) and author.strip():
        names["I"] = _Thing(author.strip(), "PERSON", 0, 0)
    renamed: dict[str, str] = {}
    found: list[EntityData] = []
    for one in entities:
        if one.type == "SELF" and (thing := names.get(one.name)) is not None:
            name = canonical_name(thing.name, thing.type)
            renamed[one.entity_id] = entity_id(name, thing.type)
            # `We` is no other name of the project.
            changed = {"name": name, "surface": name, "type": thing.type}
            changed["entity_id"] = renamed[one.entity_id]
            one = one.model_copy(update=changed)  # noqa: PLW2901 - the same mention
        found.append(one)
    if not renamed:
        return DocumentReading(list(entities), list(relationships))
    stated = []
    for relationship in relationships:
        source, target = relationship.source_entity_id, relationship.target_entity_id
        ends = (renamed.get(source, source), renamed.get(target, target))
        if ends[0] != ends[1]:
            changed = dict(zip(("source_entity_id", "target_entity_id"), ends, strict=True))
            stated.append(relationship.model_copy(update=changed))
    return DocumentReading(found, stated)


def _project(about: MemorySummary) -> str:
    if about.project.startswith("root:"):
        return ""  # Known by its first commit alone: that is no name.
    return about.project.rstrip("/").rpartition("/")[2].removesuffix(".git")


def _file_name(about: MemorySummary) -> str:
    return about.source.replace("\\", "/").rpartition("/")[2]


def is_manifest(about: MemorySummary) -> bool:
    """Return whether a memory lists dependencies, so that its whole text is needed."""
    return _file_name(about) in _MANIFESTS


def is_form(about: MemorySummary) -> bool:
    """Return whether only the form of a memory states something: it is no prose."""
    return about.kind == CODE_KIND or _file_name(about) in FORMS


def _is_beginning(about: MemorySummary, passage: str) -> bool:
    start = " ".join(about.preview.split())[:40]
    return " ".join(passage[:200].split()).startswith(start)


def _as_reading(passage: str, facts: Iterable[_Fact]) -> DocumentReading:
    entities: dict[tuple[str, int], EntityData] = {}
    relationships: list[RelationshipData] = []
    for fact in facts:
        ends = []
        for thing in (fact.subject, fact.object):
            name = canonical_name(thing.name, thing.type)
            one = EntityData.model_construct(
                entity_id=entity_id(name, thing.type),
                name=name,
                type=thing.type,
                description="",
                confidence=0.9,
                source=FORM,
                # What a document is called need not be written in it.
                surface=name,
                start_char=thing.start,
                end_char=thing.end,
                aliases=[],
            )
            entities.setdefault((one.entity_id, one.start_char), one)
            ends.append(one.entity_id)
        if ends[0] != ends[1]:
            relationships.append(
                RelationshipData.model_construct(
                    source_entity_id=ends[0],
                    target_entity_id=ends[1],
                    relationship_type=fact.type,
                    strength=LISTED_STRENGTH if fact.type == "DEPENDS_ON" else STRENGTH,
                    evidence=passage[fact.start : fact.end],
                    start_char=fact.start,
                    end_char=fact.end,
                    source=FORM,
                    valid_from=None,
                    valid_to=None,
                )
            )
    return DocumentReading(list(entities.values()), relationships)


def _line_at(text: str, place: int) -> tuple[int, int]:
    """Return where the line of a place begins and ends, without blanks around it."""
    start = text.rfind("\n", 0, place) + 1
    end = text.find("\n", place)
    line = text[start : len(text) if end < 0 else end]
    return start + len(line) - len(line.lstrip()), start + len(line.rstrip())


# --- Decision records and commits -------------------------------------------------------


_STATUS_LINE = re.compile(
    r"^[^\n]*\b(?:superseded|superceded|replaced|obsoleted|reverted|supersedes|supercedes|replaces"
    r"|obsoletes|reverts)\b[^\n]*",
    re.IGNORECASE | re.MULTILINE,
)
# What a record's title begins with, and what that says about the name behind it.
_DECIDING = (
    (
        "DECIDED_ON",
        r"use|adopt|choose|migrate to|move to|switch to|introduce|standardi[sz]e on",
    ),
    ("AVOIDS", r"remove|removing|retire|retiring|drop|dropping|stop using|deprecate|replace"),
)
_DECIDING_TITLES = [
    (kind, re.compile(rf"(?:{verbs})\s", re.IGNORECASE)) for kind, verbs in _DECIDING
]
_TITLE_MARK = re.compile(r"[\W\d_]*(?:(?:ADR|RFC)[\W\d_]*)?")
_TITLE_WORD = re.compile(r"[\w.+#/-]*[\w+#]")
_DECIDED_ON = frozenset({"CODE", "PACKAGE", "TECHNOLOGY"})


_NUMBERED = re.compile(r"[#\s]*(?:[A-Za-z]{2,10}[-_ #]?)?\d")


def _may_have_name(about: MemorySummary, passage: str) -> bool:
    """Return whether a document may be a record or a commit; most are neither."""
    return bool(about.source or about.metadata) or _NUMBERED.match(passage) is not None


def _own_name(about: MemorySummary, passage: str) -> _Thing | None:
    """Return the node of the document itself: a numbered decision record, or a commit."""
    line = passage.lstrip().partition("\n")[0]
    start = len(passage) - len(passage.lstrip())
    commit = about.metadata.get("commit_hash") or about.metadata.get("commit") or ""
    names = names_of(about.source, line, about.memory_id, commit if isinstance(commit, str) else "")
    # `commit 9f3c2ab` has a number after a word, too.
    for kind, least in (("adr", 1), ("rfc", 1), ("commit", SHORTEST_HASH)):
        found = sorted(n.value for n in names if n.kind == kind and len(n.value) >= least)
        if found:
            place = start, start + len(line.rstrip())
            if kind == "commit":
                return _commit(found[0], *place)
            file = about.metadata.get("file") or about.source
            word = "rfc" if _RFC_FOLDER.search(str(file)) else kind
            return _decision(word, found[0], *place)
    return None


# Projects that number their proposals keep them in `text`.
_RFC_FOLDER = re.compile(r"(?:^|[/\\])(?:rfcs?|text)[/\\][^/\\]*$", re.IGNORECASE)


def _decision(word: str, number: str, start: int, end: int) -> _Thing:
    return _Thing(record_name(word, number), "DECISION", start, end)


def _commit(sha: str, start: int, end: int) -> _Thing:
    return _Thing(sha[:SHORTEST_HASH], "REFERENCE", start, end)


def _referred(reference: TextReference, own: _Thing, start: int, end: int) -> _Thing | None:
    if reference.kind in ("adr", "madr", "decision", "rfc", "") and reference.value.isdigit():
        # A bare number is one of the same series.
        word = reference.kind or own.name.partition("-")[0]
        return _decision(word, reference.value, start, end)
    return _commit(reference.value, start, end) if reference.kind == "commit" else None


def _status(own: _Thing, passage: str) -> Iterator[_Fact]:
    """Superseded by ADR-0019; Reverts 9f3c2ab."""
    status = read_status(passage)
    if not status.replaced_by and not status.replaces:
        return
    lines = list(_STATUS_LINE.finditer(passage))
    for references, is_older in ((status.replaced_by, False), (status.replaces, True)):
        for reference in references:
            line = next((one for one in lines if reference.value.lstrip("0") in one[0]), None)
            other = None if line is None else _referred(reference, own, *line.span())
            if line is None or other is None:
                continue
            kind = "REVERTED_BY" if "revert" in line[0].lower() else "REPLACED_BY"
            first, second = (other, own) if is_older else (own, other)
            yield _Fact(first, kind, second, *line.span())


def _decided(
    own: _Thing, passage: str, entities: Sequence[EntityData], gazetteer: Gazetteer
) -> Iterator[_Fact]:
    """# 12. Use PostgreSQL: the record decides on what its title begins with, or against it."""
    if own.type != "DECISION":
        return
    mark = _TITLE_MARK.match(passage, own.start)
    begin, end = mark.end() if mark else own.start, _line_at(passage, own.start)[1]
    # The title as a whole is the name of the record: names in it may be mentioned elsewhere.
    mentioned = {one.surface.lower(): one for one in entities if one.type in _DECIDED_ON}
    for kind, verbs in _DECIDING_TITLES:
        if verb := verbs.match(passage, begin, end):
            purpose = _PURPOSE.search(passage, verb.end(), end)
            stop = purpose.start() if purpose else end
            for listed in _LISTED_NAME.finditer(passage, verb.end(), stop):
                if thing := _begun_name(passage, *listed.span(), mentioned, gazetteer):
                    yield _Fact(own, kind, thing, own.start, end)


_PURPOSE = re.compile(
    r"\s(?:for|with|in|as|from|instead of|to|on|of|over|because)\s", re.IGNORECASE
)
_LISTED_NAME = re.compile(r"(?:(?!,|\s(?:and|&)\s).)+")


def _begun_name(
    passage: str, start: int, end: int, mentioned: Mapping[str, EntityData], gazetteer: Gazetteer
) -> _Thing | None:
    """Return what the first words of a stretch name, or those after one word."""
    words = list(_TITLE_WORD.finditer(passage, start, end))
    named = _named_first(passage, words, mentioned, gazetteer)
    # Use VPC flow logs: the name is the beginning of a longer one.
    return named[0] if named and len(words) - named[1] < LONGER_NAME else None


LONGER_NAME = 3


def _named_first(
    passage: str,
    words: Sequence[re.Match[str]],
    mentioned: Mapping[str, EntityData],
    gazetteer: Gazetteer,
) -> tuple[_Thing, int] | None:
    """Return what the first words name, and which of them is the last."""
    for first, last in ((i, j) for i in range(2) for j in range(i + 4, i - 1, -1)):
        if last >= len(words):
            continue
        place = words[first].start(), words[last].end()
        name = passage[slice(*place)]
        if known := mentioned.get(name.lower()):
            return _Thing(known.name, known.type, *place), last
        thing = _package(name, *place, gazetteer)
        if thing.type != "PACKAGE":
            return thing, last
    return None


# --- Authors ----------------------------------------------------------------------------


_COMMIT_LINES = re.compile(
    r"^commit (?P<sha>[0-9a-f]{7,40})\b[^\n]*\n(?:Merge:[^\n]*\n)?Author:\s*(?P<name>[^<\n]{2,80}?)"
    r"\s*(?:<[^>\n]*>)?\s*$",
    re.MULTILINE,
)
_DECIDERS = re.compile(
    r"^[\W_]*(?:deciders?|decision-makers|authors?|author\(s\))[\W_]*:[\W_]*(?P<names>[^\n]{2,200})$",
    re.IGNORECASE | re.MULTILINE,
)
_PERSON = re.compile(r"[^\W\d_][\w.'\u2019-]+(?: [^\W\d_][\w.'\u2019-]*){1,3}")


def _commit_log(passage: str) -> Iterator[_Fact]:
    """Yield who wrote the commits of a log."""
    for match in _COMMIT_LINES.finditer(passage) if "Author:" in passage else ():
        author = _Thing(match["name"], "PERSON", match.start("name"), match.end("name"))
        commit = _commit(match["sha"], match.start("sha"), match.end("sha"))
        yield _Fact(author, "AUTHORED", commit, *match.span())


def _deciders(about: MemorySummary, own: _Thing, passage: str) -> Iterator[_Fact]:
    """Yield who a record says has decided."""
    # An import has read them from the record, and leaves them out of its text.
    named = about.metadata.get("deciders")
    for name in named if isinstance(named, list) else ():
        decider = _Thing(str(name).strip().removeprefix("@"), "PERSON", own.start, own.end)
        if decider.name:
            yield _Fact(decider, "AUTHORED", own, own.start, own.end)
    for match in _DECIDERS.finditer(passage[:1500]):
        for person in _PERSON.finditer(re.sub(r"<[^>]*>|\([^)]*\)", "", match["names"])):
            start = passage.find(person[0], match.start("names"))
            author = _Thing(person[0], "PERSON", start, start + len(person[0]))
            if start >= 0:
                yield _Fact(author, "AUTHORED", own, *match.span())


def _commit_author(about: MemorySummary, passage: str, gazetteer: Gazetteer) -> Iterator[_Fact]:
    """Yield who wrote a commit that was imported as a memory, and to what that contributes."""
    author, commit = about.metadata.get("author"), about.metadata.get("commit_hash")
    if isinstance(author, str) and isinstance(commit, str) and author.strip() and commit:
        start, end = _line_at(passage, len(passage) - len(passage.lstrip()))
        person = _Thing(author.strip(), "PERSON", start, end)
        yield _Fact(person, "AUTHORED", _commit(commit, start, end), start, end)
        if project := _project(about):
            owner = _package(project, start, end, gazetteer)
            yield _Fact(person, "CONTRIBUTES_TO", owner, start, end)


_MOVING = re.compile(
    r"[\w\s/():-]{0,40}?\b(?:migrate|move|switch)\b[^\n]{0,60}?\bto\s", re.IGNORECASE
)


def _moved_to(
    about: MemorySummary, passage: str, entities: Sequence[EntityData], gazetteer: Gazetteer
) -> Iterator[_Fact]:
    """Migrate the jobs to Solid Queue: by a commit of this title its project uses it."""
    project = _project(about)
    if not about.metadata.get("commit_hash") or not project:
        return
    start, end = _line_at(passage, len(passage) - len(passage.lstrip()))
    if move := _MOVING.match(passage, start, end):
        for one in entities:
            if one.start_char == move.end() and one.type in ("TECHNOLOGY", "PACKAGE"):
                owner = _package(project, start, end, gazetteer)
                thing = _Thing(one.name, one.type, one.start_char, one.end_char)
                yield _Fact(owner, "USES", thing, start, end)


# --- Owners of code ---------------------------------------------------------------------


def _owners(passage: str) -> Iterator[_Fact]:
    """`/src/billing/ @payments`: they own what is there."""
    place = 0
    for line in passage.splitlines(keepends=True):
        start, place = place, place + len(line)
        pattern, *owners = line.partition(" #")[0].split()[:20] or [""]
        if not pattern or pattern.startswith("#") or pattern == "*":
            continue
        at = start + line.index(pattern)
        path = pattern.strip("/") or pattern
        file = _Thing(path, "FILE", at, at + len(pattern))
        for owner in owners:
            if owner.startswith("@") and len(owner) > 1:
                begin = start + line.index(owner)
                kind = "ORG" if "/" in owner else "PERSON"
                thing = _Thing(owner.lstrip("@"), kind, begin, begin + len(owner))
                yield _Fact(thing, "OWNS", file, *_line_at(passage, at))


# --- Dependencies -----------------------------------------------------------------------


class _Listed(NamedTuple):
    """What depends on what; without a subject the project does."""

    subject: str
    object: str


def _requirement(text: str) -> str:
    """Return the name in `requests[socks]>=2; python_version < "3"`."""
    found = re.match(r"\s*([A-Za-z0-9][\w.-]*)", text)
    return found[1] if found else ""


def _strings(value: Any) -> list[str]:
    if isinstance(value, dict):
        return [one for part in value.values() for one in _strings(part)]
    return [one for one in value if isinstance(one, str)] if isinstance(value, list) else []


def _keys(value: Any) -> list[str]:
    return [str(key) for key in value] if isinstance(value, dict) else []


def _table(data: Any, *path: str) -> Any:
    for name in path:
        data = data.get(name) if isinstance(data, dict) else None
    return data


def _pyproject(text: str) -> Iterator[_Listed]:
    data = tomllib.loads(text)
    name = str(_table(data, "project", "name") or _table(data, "tool", "poetry", "name") or "")
    required = [
        *_strings(_table(data, "project", "dependencies")),
        *_strings(_table(data, "project", "optional-dependencies")),
        *_strings(_table(data, "dependency-groups")),
        *_strings(_table(data, "build-system", "requires")),
    ]
    poetry = _table(data, "tool", "poetry") or {}
    named = [*_keys(poetry.get("dependencies")), *_keys(poetry.get("dev-dependencies"))]
    for group in (poetry.get("group") or {}).values():
        named += _keys(_table(group, "dependencies"))
    for one in [*map(_requirement, required), *named]:
        yield _Listed(name, one)


def _package_json(text: str) -> Iterator[_Listed]:
    data = json.loads(text)
    for section in ("dependencies", "devDependencies", "peerDependencies", "optionalDependencies"):
        for one in _keys(_table(data, section)):
            yield _Listed(str(data.get("name") or ""), one)


def _requirements(text: str) -> Iterator[_Listed]:
    for line in text.splitlines():
        if not line.lstrip().startswith(("#", "-", "git+", "http", ".")):
            yield _Listed("", _requirement(line.partition("#")[0]))


_GO_MODULE = re.compile(r"^module\s+(\S+)", re.MULTILINE)
# What only dependencies depend on is marked.
_GO_REQUIRE = re.compile(
    r"^(?:require\s+|\s+)([\w.-]+\.[a-z]+/\S+)\s+v\d(?![^\n]*//[ ]?indirect)", re.MULTILINE
)


def _go_mod(text: str) -> Iterator[_Listed]:
    module = _GO_MODULE.search(text)
    for one in _GO_REQUIRE.findall(text):
        yield _Listed(module[1] if module else "", one)


def _cargo(text: str) -> Iterator[_Listed]:
    data = tomllib.loads(text)
    name = str(_table(data, "package", "name") or "")
    for section in ("dependencies", "dev-dependencies", "build-dependencies"):
        for one in [*_keys(data.get(section)), *_keys(_table(data, "workspace", section))]:
            yield _Listed(name, one)


_GEM = re.compile(r"^\s*gem\s+[\"']([\w.-]+)[\"']", re.MULTILINE)


def _gemfile(text: str) -> Iterator[_Listed]:
    for one in _GEM.findall(text):
        yield _Listed("", one)


_LOCKED_GEM = re.compile(r"^ {4}(?P<gem>[\w.-]+) \(|^ {6}(?P<needs>[\w.-]+)(?: \(|$)", re.MULTILINE)


def _gemfile_lock(text: str) -> Iterator[_Listed]:
    gem = ""
    for line in _LOCKED_GEM.finditer(text):
        gem = line["gem"] or gem
        if line["needs"]:
            yield _Listed(gem, line["needs"])


def _composer(text: str) -> Iterator[_Listed]:
    data = json.loads(text)
    for section in ("require", "require-dev"):
        for one in _keys(_table(data, section)):
            if "/" in one:  # not php and its extensions
                yield _Listed(str(data.get("name") or ""), one)


_YARN_ENTRY = re.compile(
    r"^\"?(?P<entry>@?[^@\s\"]+)@[^\n]*:$|^ {4}\"?(?P<needs>@?[\w./-]+)\"?:? \"?[\^~<>=*\dv]",
    re.MULTILINE,
)


def _yarn_lock(text: str) -> Iterator[_Listed]:
    entry = ""
    for line in _YARN_ENTRY.finditer(text):
        entry = line["entry"] or entry
        if line["needs"]:
            yield _Listed(entry, line["needs"])


def _toml_lock(text: str) -> Iterator[_Listed]:
    """Read poetry.lock, uv.lock and Cargo.lock: packages, each with what it depends on."""
    for package in tomllib.loads(text).get("package", []):
        listed = package.get("dependencies") or []
        names = _keys(listed) or [
            str(one.get("name", "")) if isinstance(one, dict) else str(one).partition(" ")[0]
            for one in listed
        ]
        for one in names:
            yield _Listed(str(package.get("name", "")), one)


def _package_lock(text: str) -> Iterator[_Listed]:
    for path, package in (_table(json.loads(text), "packages") or {}).items():
        name = path.rpartition("node_modules/")[2] or str(_table(package, "name") or "")
        for one in _keys(_table(package, "dependencies")):
            yield _Listed(name, one)


_MANIFESTS: dict[str, Callable[[str], Iterator[_Listed]]] = {
    "pyproject.toml": _pyproject,
    "package.json": _package_json,
    "requirements.txt": _requirements,
    "requirements-dev.txt": _requirements,
    "go.mod": _go_mod,
    "Cargo.toml": _cargo,
    "poetry.lock": _toml_lock,
    "uv.lock": _toml_lock,
    "Cargo.lock": _toml_lock,
    "package-lock.json": _package_lock,
    "Gemfile": _gemfile,
    "Gemfile.lock": _gemfile_lock,
    "composer.json": _composer,
    "yarn.lock": _yarn_lock,
}


def _dependencies(
    about: MemorySummary, name: str, passage: str, whole: str, gazetteer: Gazetteer
) -> Iterator[_Fact]:
    """Yield what a manifest or lock file lists in this passage."""
    try:
        listed = list(dict.fromkeys(_MANIFESTS[name](whole)))[:MOST_DEPENDENCIES]
    except (ValueError, RecursionError, AttributeError, TypeError):
        return  # Another file of that name, or one with a mistake: nothing is known.
    project = _project(about)
    start, end = _line_at(passage, len(passage) - len(passage.lstrip()))
    for subject, target in listed:
        if not target or target == "python":
            continue
        word = re.escape(target)
        # In JSON a package is a key; scripts may call it, too.
        key = rf'"({word})"\s*:' if name.endswith(".json") else rf"(?<![\w.@/-])({word})(?![\w-])"
        found = re.search(key, passage)
        if found is None:
            continue
        owner = _package(subject or project, start, end, gazetteer)
        if not owner.name:
            owner = _Thing(name, "FILE", start, end)
        thing = _package(target, *found.span(1), gazetteer)
        yield _Fact(owner, "DEPENDS_ON", thing, *_line_at(passage, found.start(1)))


# --- What code imports ------------------------------------------------------------------


_IMPORTS: dict[str, re.Pattern[str]] = {
    "python": re.compile(r"^[ \t]*(?:from|import)[ \t]+(?P<name>[A-Za-z_]\w*)", re.MULTILINE),
    "javascript": re.compile(
        r"(?:\bfrom|^import|\brequire\(|\bimport\()[ \t]*[\"']"
        r"(?P<name>@[\w.-]+/[\w.-]+|[a-z][\w.-]*)",
        re.MULTILINE,
    ),
    "go": re.compile(
        r"^(?:import)?[ \t]+(?:\w+[ \t]+)?\"(?P<name>[\w-]+\.[\w.-]+/[^\"]+)\"", re.MULTILINE
    ),
    "rust": re.compile(r"^[ \t]*(?:pub )?use[ \t]+(?P<name>[a-z]\w*)::", re.MULTILINE),
    "ruby": re.compile(r"^[ \t]*require[ \t]+[\"'](?P<name>[a-z][\w-]*)", re.MULTILINE),
}
_IMPORTS["typescript"] = _IMPORTS["tsx"] = _IMPORTS["javascript"]
# The name alone says that it is a package; elsewhere it may be a part of the project.
_CERTAIN = frozenset({"javascript", "typescript", "tsx", "go"})
# What comes with a language is no dependency.
_BUILT_IN = {
    "python": sys.stdlib_module_names,
    "ruby": frozenset(
        "benchmark csv date erb json logger net open3 set socket time uri yaml".split()
    ),
    "rust": frozenset({"alloc", "core", "crate", "self", "std", "super", "test"}),
}
_BUILT_IN["javascript"] = _BUILT_IN["typescript"] = _BUILT_IN["tsx"] = frozenset(
    "assert async_hooks buffer child_process cluster console constants crypto dgram dns domain "
    "events fs http http2 https inspector module net node os path perf_hooks process punycode "
    "querystring readline repl stream string_decoder test timers tls trace_events tty url util v8 "
    "vm wasi worker_threads zlib".split()
)


def _imports(about: MemorySummary, passage: str, gazetteer: Gazetteer) -> Iterator[_Fact]:
    """Yield which packages a file of the project imports."""
    language, project = str(about.metadata.get("language") or ""), _project(about)
    pattern = _IMPORTS.get(language)
    if pattern is None or not project:
        return
    built_in = _BUILT_IN.get(language, frozenset())
    seen = set()
    for found in pattern.finditer(passage):
        name = found["name"]
        own = name == project or name.startswith(f"{about.project}/")
        thing = _package(name, *found.span("name"), gazetteer)
        is_package = thing.type == "TECHNOLOGY" or language in _CERTAIN
        if is_package and not own and name not in seen and name not in built_in:
            seen.add(name)
            owner = _package(project, *found.span("name"), gazetteer)
            yield _Fact(owner, "DEPENDS_ON", thing, *_line_at(passage, found.start("name")))


def _package(name: str, start: int, end: int, gazetteer: Gazetteer) -> _Thing:
    """Return a package; one that is known by name is that technology."""
    for entry in gazetteer.find(name) or gazetteer.find_tool(name):
        if entry.kind in ("TECHNOLOGY", "SERVICE"):
            return _Thing(entry.name, "TECHNOLOGY", start, end)
    return _Thing(name, "PACKAGE", start, end)
