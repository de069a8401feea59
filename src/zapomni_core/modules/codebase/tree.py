"""The files of a repository that are worth reading, and their contents."""

from __future__ import annotations

import codecs
import errno
import os
import re
import stat
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from hashlib import blake2b
from itertools import groupby
from pathlib import Path
from typing import NamedTuple, Self

from zapomni_core.exceptions import ValidationError
from zapomni_core.infra.git import list_files
from zapomni_core.infra.projects import find_repository
from zapomni_core.modules.codebase.models import FileEntry, Skipped, SourceFile

__all__ = [
    "IgnoreFiles",
    "Name",
    "RefusedError",
    "Rules",
    "SafeFolder",
    "SlowRulesError",
    "SourceTree",
    "TreeLimits",
    "content_hash",
    "git_paths",
    "parse_rules",
    "stamp_of",
    "unwanted_content",
    "unwanted_file",
    "unwanted_folder",
]


MAX_DEPTH = 100
# A clock ticks every few milliseconds: a file changed again within one has the same stamp.
SETTLED_NS = 100_000_000


class TreeLimits(NamedTuple):
    """How much of a repository is read; what lies beyond is reported, not waited for."""

    files: int = 50_000
    file_bytes: int = 2_000_000
    seen: int = 1_000_000
    """Names looked at in all, wanted or not."""
    reported: int = 1_000
    """How many of the files left out are named; the rest is counted."""


def content_hash(data: bytes) -> str:
    """Return the hash that says whether contents are the same."""
    return blake2b(data, digest_size=16).hexdigest()


class SourceTree:
    """A repository's root. Lists what is worth reading, reads it, and keeps account of the rest.

    Attributes:
        skipped: The first files and folders left out, with the reason of each.
        skipped_counts: How many were left out for which reason.
        is_complete: False once a limit cut the listing short.

    Raises:
        ValidationError: The root is missing, not a folder, not readable, or a bare repository.
    """

    def __init__(self, root: Path, limits: TreeLimits | None = None) -> None:
        self._limits = limits or TreeLimits()
        self._beneath = SafeFolder(root)
        self.skipped: list[Skipped] = []
        self.skipped_counts: Counter[str] = Counter()
        self.is_complete = True
        if _is_bare(self._beneath):
            self._beneath.close()
            raise ValidationError(
                "This is a bare repository, which has no files; give a checkout of it", "VAL_004"
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._beneath.close()

    @property
    def path(self) -> Path:
        """Where the root really is."""
        return self._beneath.path

    def files(self) -> Iterator[FileEntry]:
        """Yield what is worth reading, by name and size alone; nothing is opened."""
        found = 0
        for folder, paths in groupby(self._wanted(), key=lambda path: path.rpartition("/")[0]):
            names = [path.rpartition("/")[2] for path in paths]
            for name, status in zip(names, self._beneath.statuses(folder, names), strict=True):
                path = f"{folder}/{name}" if folder else name
                if isinstance(status, str):
                    self._skip(path, status)
                elif status.st_size > self._limits.file_bytes:
                    self._skip(path, "too large")
                elif found == self._limits.files:
                    self._stop("too many files")
                    return
                else:
                    found += 1
                    yield FileEntry(path, status.st_size, stamp_of(status))

    def read(self, path: str) -> SourceFile | None:
        """Return a file's contents; None, and an entry in `skipped`, if it is not to be had."""
        try:
            status, data = self._beneath.read(path, self._limits.file_bytes)
        except RefusedError as refused:
            self._skip(path, refused.reason)
            return None
        reason = unwanted_content(data)
        if reason:
            self._skip(path, reason)
            return None
        settled = time.time_ns() - status.st_ctime_ns > SETTLED_NS
        stamp = stamp_of(status) if settled else ""
        return SourceFile(path, stamp, content_hash(data), _as_utf8(data))

    def _wanted(self) -> Iterator[str]:
        try:
            yield from self._listed()
        except SlowRulesError:
            self._stop("ignore rules take too long")

    def _listed(self) -> Iterator[str]:
        """Yield the paths neither ignored nor in an unwanted folder, each folder together."""
        own_rules = IgnoreFiles(self._beneath, ".zapomniignore")
        # Nothing listed, though something may be there: the root lies in an ignored folder of a
        # repository around it. Who names it wants it read.
        paths = git_paths(self._beneath.path) or self._walk(
            (IgnoreFiles(self._beneath, ".gitignore"), own_rules)
        )
        folders: dict[str, str] = {"": ""}
        for seen, path in enumerate(paths):
            if seen == self._limits.seen:
                self._stop("too many files")
                return
            folder, _, name = path.rpartition("/")
            if folder not in folders:
                folders[folder] = self._unwanted_on_the_way(folder)
            # git lists a repository inside this one, whose files it does not know, as a folder.
            if reason := folders[folder] or (unwanted_file(name) if name else "another repository"):
                self._skip(path, reason)
            elif not own_rules.ignores(path):
                yield path

    def _walk(self, rules: tuple[IgnoreFiles, ...]) -> Iterator[str]:
        """List files ourselves, where there is no git."""
        folders = [""]
        while folders:
            folder = folders.pop()
            try:
                names = self._beneath.names(folder)
            except RefusedError as refused:
                self._skip(folder, refused.reason)
                continue
            present = {name.name for name in names}
            for rule in rules:
                if rule.name not in present:
                    rule.has_none(folder)
            inner: list[str] = []
            for name in names:
                path = f"{folder}/{name.name}" if folder else name.name
                if name.is_folder:
                    if reason := self._unwanted_on_the_way(path):
                        self._skip(path, reason)
                    elif not any(rule.ignores_folder(path) for rule in rules):
                        inner.append(path)
                elif name.reason:
                    self._skip(path, name.reason)
                elif not any(rule.ignores(path) for rule in rules):
                    yield path
            folders.extend(reversed(inner))

    def _unwanted_on_the_way(self, folder: str) -> str:
        parts = folder.split("/")
        if len(parts) > MAX_DEPTH:
            return "too deep"
        return next(filter(None, map(unwanted_folder, parts)), "")

    def _skip(self, path: str, reason: str) -> None:
        self.skipped_counts[reason] += 1
        if len(self.skipped) < self._limits.reported:
            self.skipped.append(Skipped(path, reason))

    def _stop(self, reason: str) -> None:
        self.is_complete = False
        self.skipped_counts[reason] += 1


def _is_bare(beneath: SafeFolder) -> bool:
    names = {name.name: name.is_folder for name in beneath.names("")}
    return (
        names.get("HEAD") is False
        and names.get("objects", False)
        and names.get("refs", False)
        and "config" in names
        and ".git" not in names
    )


def _as_utf8(data: bytes) -> bytes:
    """Return the text as UTF-8; what is none by any rule is read as Windows' western letters."""
    if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return data.decode("utf-16", "replace").encode()
    try:
        data.decode()
    except UnicodeDecodeError:
        return data.decode("cp1252", "replace").encode()
    return data


# --- Unwanted in a code index: other people's code, generated code, binaries, secrets ---------


# How much of a file says what it is.
HEAD = 8192
MEAN_LINE = 500

_FOLDERS = {
    **dict.fromkeys([".git", ".hg", ".svn", ".jj", "cvs", ".bzr"], "version control"),
    **dict.fromkeys([".ssh", ".aws", ".gnupg", ".kube", ".docker", ".azure"], "secret"),
    **dict.fromkeys(
        """node_modules bower_components jspm_packages vendor vendors _vendor third_party
        third-party thirdparty 3rdparty site-packages dist-packages godeps pods carthage
        .venv venv .bundle .yarn .pnpm-store .gradle .m2 .cargo""".split(),
        "vendored",
    ),
    **dict.fromkeys(
        """__pycache__ .mypy_cache .pytest_cache .ruff_cache .tox .nox .hypothesis .eggs .cache
        .next .nuxt .svelte-kit .turbo .parcel-cache .terraform .idea .vs htmlcov deriveddata
        .ipynb_checkpoints""".split(),
        "generated",
    ),
}

_SUFFIXES = {
    **dict.fromkeys(
        """png jpg jpeg gif bmp ico icns webp avif heic tif tiff psd ai eps pdf doc docx xls xlsx
        ppt pptx odt ods odp zip gz tgz bz2 xz zst lz4 7z rar tar whl jar war ear aar apk ipa egg
        gem nupkg deb rpm dmg iso exe dll so dylib a o obj lib pyc pyo pyd class wasm bin dat db
        db-shm db-wal sqlite sqlite3 mdb mp3 mp4 m4a m4v avi mov mkv webm wav flac ogg aac ttf otf
        woff woff2
        eot pt pth onnx safetensors gguf npy npz pkl pickle parquet feather arrow h5 hdf5 mo swp swo
        ds_store""".split(),
        "binary",
    ),
    **dict.fromkeys("csv tsv svg log jsonl ndjson ipynb geojson dump po pot".split(), "data"),
    **dict.fromkeys("map snap tsbuildinfo lock lockb resolved".split(), "generated"),
    **dict.fromkeys(
        """pem key p12 pfx pkcs12 jks keystore kdb kdbx asc gpg ppk ovpn tfstate tfvars secret
        secrets credentials crt cer der""".split(),
        "secret",
    ),
}
_SECRET_NAME = re.compile(
    r"""(?x)
    \.env (?: \. (?! (?:example|sample|template|dist|defaults?) \Z ) .* )?
    | \.(?: netrc | pgpass | npmrc | pypirc | htpasswd | git-credentials | dockercfg | s3cfg
          | boto | my\.cnf | vault-token | terraformrc )
    | _netrc
    | id_(?: rsa | dsa | ecdsa | ed25519 ) (?: [-_.] (?! py \Z ) \w+ )?
    | (?: credentials? | secrets? | client_secrets? [-\w]* | service[-_]?account [-\w]*
        | kubeconfig )
      (?: \. (?: json | ya?ml | toml | ini | cfg | conf | xml | txt | properties | env ) )?
    | [^.]++ \.tfstate\. .*
    """
)
_GENERATED_NAME = re.compile(
    r"""(?x)
    .+ [.-]min\.(?: js | css | mjs | cjs | html )
    | .+ \.(?: designer\.cs | g\.cs | g\.dart | pb\.go | pb\.cc | pb\.h | pb\.swift
             | freezed\.dart | bundle\.js | chunk\.js )
    | .+ _pb2(?:_grpc)?\.pyi?
    | .+ [._-]generated\. \w+
    | (?: package-lock | npm-shrinkwrap ) \.json
    | go\.sum | pnpm-lock\.yaml | gradlew(?:\.bat)?
    """
)

_GENERATED_HEAD = re.compile(
    rb"(?i)@generated\b|\bcode generated by\b.{0,200}\bdo not edit\b"
    rb"|\bautomatically generated\b.{0,200}\bdo not (?:edit|modify)\b"
    rb"|\bauto-?generated\b.{0,200}\bdo not (?:edit|modify)\b"
    rb"|\bgenerated by the protocol buffer compiler\b",
    re.DOTALL,
)
_PRIVATE_KEY = re.compile(rb"^-----BEGIN [A-Z ]{0,40}PRIVATE KEY", re.MULTILINE)
_TEXT_MARKS = (b"\xff\xfe", b"\xfe\xff", b"\xef\xbb\xbf")


def unwanted_folder(name: str) -> str:
    """Say why a folder of this name is not entered; "" if it is."""
    return _FOLDERS.get(name.lower(), "")


def unwanted_file(name: str) -> str:
    """Say why a file of this name is not read; "" if it is."""
    lowered = name.lower()
    if reason := _SUFFIXES.get(lowered.rpartition(".")[2] if "." in lowered else ""):
        return reason
    if _SECRET_NAME.fullmatch(lowered):
        return "secret"
    if _GENERATED_NAME.fullmatch(lowered):
        return "generated"
    # A name that is no text, or that breaks the line it is shown in, has no place in an index.
    return "" if name.isprintable() else "name"


def unwanted_content(data: bytes) -> str:
    """Say why a file with these contents is not kept; "" if it is."""
    head = data[:HEAD]
    if b"\0" in head and not head.startswith(_TEXT_MARKS):
        return "binary"
    if b"PRIVATE KEY" in head and _PRIVATE_KEY.search(head):
        return "secret"
    # The notice is near the top; further down the words may be about other files.
    top = head[:2048]
    # Every notice has this word; looking for one takes as long as all the rest of reading a file.
    if b"generated" in top.lower() and _GENERATED_HEAD.search(top):
        return "generated"
    if _is_minified(data):
        return "minified"
    return ""


def _is_minified(data: bytes) -> bool:
    """Say whether it is one long line, or few, without the blanks that people write."""
    if len(data) < 2048:
        return False
    if len(data) > MEAN_LINE * (data.count(b"\n") + 1) and data.count(b" ") < len(data) // 12:
        return True
    return 2 * max(map(len, data.split(b"\n"))) > len(data) > 20_000


# --- Patterns of an ignore file, with git's meaning and in time linear in the path ----------


# More than any real file has; every pattern is tried on every path.
MAX_PATTERNS = 2000
MAX_PATTERN = 1000

_STAR = "*"
_CLASSES = {
    "alnum": "a-zA-Z0-9",
    "alpha": "a-zA-Z",
    "blank": " \\t",
    "cntrl": "\\x00-\\x1f\\x7f",
    "digit": "0-9",
    "graph": "!-~",
    "lower": "a-z",
    "print": " -~",
    "punct": "!-/:-@\\[-`{-~",
    "space": "\\s",
    "upper": "A-Z",
    "xdigit": "0-9a-fA-F",
}


class _Rule(NamedTuple):
    regex: re.Pattern[str]
    takes_in: bool
    """Written with `!`: what it matches is not left out."""
    folders_only: bool
    whole_path: bool
    """Otherwise the last component alone is looked at."""


class Rules:
    """The rules of one ignore file; the last one that matches decides."""

    def __init__(self, rules: list[_Rule]) -> None:
        self._latest_first = rules[::-1]

    def ignores(self, path: str, *, is_folder: bool) -> bool | None:
        """Say whether a path, relative to the file's folder, is left out; None: nothing said."""
        name = path.rpartition("/")[2]
        for rule in self._latest_first:
            if rule.folders_only and not is_folder:
                continue
            if rule.regex.match(path if rule.whole_path else name):
                return not rule.takes_in
        return None


def parse_rules(text: str) -> Rules:
    """Read an ignore file; lines git could not make sense of match nothing here either."""
    lines = text.removeprefix("\ufeff").split("\n")
    rules = (_rule(line.removesuffix("\r")) for line in lines)
    return Rules([rule for rule in rules if rule][:MAX_PATTERNS])


def _rule(line: str) -> _Rule | None:
    if line.startswith("#"):
        return None
    stripped = line.rstrip(" ")
    backslashes = len(stripped) - len(stripped.rstrip("\\"))
    pattern = stripped + " " if backslashes % 2 and stripped != line else stripped
    takes_in = pattern.startswith("!")
    pattern = pattern[takes_in:]
    folders_only = pattern.endswith("/")
    pattern = pattern[: len(pattern) - folders_only]
    whole_path = "/" in pattern
    pattern = pattern.removeprefix("/")
    if not pattern or len(pattern) > MAX_PATTERN:
        return None
    try:
        regex = re.compile(_translate(pattern), re.DOTALL)
    except (_NeverMatchesError, re.error):
        return None
    return _Rule(regex, takes_in, folders_only, whole_path)


class _NeverMatchesError(Exception):
    """No path has two slashes in a row; or the pattern breaks off in a bracket."""


def _translate(pattern: str) -> str:
    """Return a regular expression for the whole of a path."""
    components: list[list[str]] = [[]]
    for piece in _pieces(pattern):
        if piece == "/":
            components.append([])
        else:
            components[-1].append(piece)
    if not all(components):
        raise _NeverMatchesError
    runs: list[list[str]] = [[]]
    for component in components:
        if len(component) > 1 and set(component) == {_STAR}:
            runs.append([])
        else:
            runs[-1].append(_component(component))
    first, *others = ["/".join(run) for run in runs]
    if not others:
        return first + r"\Z"
    regex = first + "/" if first else ""
    regex += "".join(rf"(?>(?:[^/]*/)*?{run}/)" for run in others[:-1] if run)
    return regex + (rf"(?:[^/]*/)*?{others[-1]}\Z" if others[-1] else r".+\Z")


def _component(pieces: list[str]) -> str:
    """Return a regular expression for one component, up to the slash behind it."""
    fixed = [""]
    for piece in pieces:
        if piece != _STAR:
            fixed[-1] += piece
        elif fixed[-1] or len(fixed) == 1:
            fixed.append("")
    first, *others = fixed
    if not others:
        return first
    middle = "".join(rf"(?>[^/]*?{part})" for part in others[:-1])
    return rf"{first}{middle}[^/]*{others[-1]}(?=/|\Z)"


def _pieces(pattern: str) -> Iterator[str]:
    """Yield `*`, `/`, and a regular expression for every other character or class."""
    place = 0
    while place < len(pattern):
        char = pattern[place]
        place += 1
        if char in "*/":
            yield char
        elif char == "?":
            yield "[^/]"
        elif char == "[":
            regex, place = _bracket(pattern, place)
            yield regex
        elif char == "\\":
            if place == len(pattern):
                raise _NeverMatchesError
            yield re.escape(pattern[place])
            place += 1
        else:
            yield re.escape(char)


def _bracket(pattern: str, place: int) -> tuple[str, int]:
    """Read a class from behind its bracket; return it and where it ends."""
    negated = pattern[place : place + 1] in ("!", "^")
    place += negated
    members: list[str] = []
    first = place
    while True:
        if place >= len(pattern):
            raise _NeverMatchesError
        if pattern[place] == "]" and place > first:
            break
        if pattern.startswith("[:", place) and (end := pattern.find(":]", place)) > 0:
            name = pattern[place + 2 : end]
            if name not in _CLASSES:
                raise _NeverMatchesError
            members.append(_CLASSES[name])
            place = end + 2
            continue
        low, place = _member(pattern, place)
        members.append(re.escape(low))
        if pattern[place : place + 1] == "-" and pattern[place + 1 : place + 2] not in ("", "]"):
            high, place = _member(pattern, place + 1)
            if low <= high:
                members.append(f"{re.escape(low)}-{re.escape(high)}")
    return rf"(?!/)[{'^' if negated else ''}{''.join(members)}]", place + 1


def _member(pattern: str, place: int) -> tuple[str, int]:
    if pattern[place] == "\\":
        place += 1
    if place >= len(pattern):
        raise _NeverMatchesError
    return pattern[place], place + 1


# --- Ignored files: `.gitignore`, `.zapomniignore`, and what git lists --------------------------


MAX_IGNORE_FILE = 256 * 1024
# Thousands of patterns on every path of a deep tree add up, though each is quick.
MATCHING_SECONDS = 20.0


class SlowRulesError(Exception):
    """The rules of a repository take longer than reading it would."""


def git_paths(root: Path) -> list[str] | None:
    """Return the tracked and the untracked, not ignored files below; None if git cannot say.

    Names only, and not to be trusted: the index is a file of the repository like any other.
    """
    folder = str(root)
    found = find_repository(folder)
    if found is None or found[0] == found[1]:
        return None
    return list_files(found[0], folder[len(found[0]) :].strip("/"))


_Nearest = tuple[tuple[int, Rules], ...]


@dataclass
class IgnoreFiles:
    """The rules of all files of one name, each for its own folder and those below."""

    beneath: SafeFolder
    name: str
    _rules: dict[str, _Nearest] = field(default_factory=dict)
    _folders: dict[str, bool] = field(default_factory=lambda: {"": False})
    _spent: float = 0.0

    def ignores(self, path: str) -> bool:
        """Return whether a file is left out, itself or with a folder it is in.

        Raises:
            SlowRulesError: The rules have taken too long, for all paths together.
        """
        return self.ignores_folder(path.rpartition("/")[0]) or self._decide(path, is_folder=False)

    def ignores_folder(self, folder: str) -> bool:
        """Say the same of a folder; "" is the root, which never is."""
        unknown: list[str] = []
        while folder not in self._folders:
            unknown.append(folder)
            folder = folder.rpartition("/")[0]
        ignored = self._folders[folder]
        for inner in reversed(unknown):
            # A file in an ignored folder cannot be included again.
            ignored = ignored or self._decide(inner, is_folder=True)
            self._folders[inner] = ignored
        return ignored

    def has_none(self, folder: str) -> None:
        """Learn that a folder has no such file, which saves looking for it."""
        self._rules[folder] = self._nearest(folder.rpartition("/")[0]) if folder else ()

    def _decide(self, path: str, *, is_folder: bool) -> bool:
        """Ask the nearest file of rules that says anything about it."""
        started = time.perf_counter()
        try:
            for start, rules in self._nearest(path.rpartition("/")[0]):
                verdict = rules.ignores(path[start:], is_folder=is_folder)
                if verdict is not None:
                    return verdict
            return False
        finally:
            self._spent += time.perf_counter() - started
            if self._spent > MATCHING_SECONDS:
                raise SlowRulesError

    def _nearest(self, folder: str) -> _Nearest:
        """Return the rules that hold in a folder, nearest first, and where their paths start."""
        if folder not in self._rules:
            above = self._nearest(folder.rpartition("/")[0]) if folder else ()
            own = self._read(f"{folder}/{self.name}" if folder else self.name)
            start = len(folder) + 1 if folder else 0
            self._rules[folder] = ((start, own), *above) if own else above
        return self._rules[folder]

    def _read(self, path: str) -> Rules | None:
        try:
            _, data = self.beneath.read(path, MAX_IGNORE_FILE)
        except RefusedError:
            return None
        return parse_rules(data.decode("utf-8", "surrogateescape"))


# --- Opens files of one folder and of no other, whatever the disk looks like or turns into ---

# A path is opened component by component, each relative to the folder opened before it and none
# through a symbolic link, so there is no moment at which a swapped link can lead away. What was
# opened is compared with what the name referred to before and after reading: a file that has a
# second name anywhere (a hard link), lies on another file system, or changes meanwhile is not
# handed out.


_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
# Without O_NONBLOCK a pipe put in a file's place would keep us waiting for its writer.
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY
_BLOCK = 1 << 20
_OCTAL = re.compile(rb"\\([0-7]{3})")


class RefusedError(Exception):
    """The file is not handed out; `reason` says why in one word or two."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class Name(NamedTuple):
    """An entry of a folder."""

    name: str
    is_folder: bool
    reason: str
    """Why it is neither a folder nor a file to be read; "" if it is one."""


def stamp_of(status: os.stat_result) -> str:
    """Return a text that changes whenever the file does."""
    return f"{status.st_ino}:{status.st_size}:{status.st_mtime_ns}:{status.st_ctime_ns}"


class SafeFolder:
    """A folder, opened once; everything else is opened relative to it.

    Raises:
        ValidationError: It is missing, not a folder, or may not be read (VAL_004).
    """

    def __init__(self, root: Path) -> None:
        try:
            # The root itself may be reached through links: naming it was the user's decision.
            real = os.path.realpath(root, strict=True)
            self._fd = os.open(real, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except (OSError, ValueError) as error:
            raise ValidationError(_why_not(error), "VAL_004") from error
        self._device = os.fstat(self._fd).st_dev
        self._mounts = _mounts_below(real)
        self.path = Path(real)

    def close(self) -> None:
        """Let go of the folder."""
        os.close(self._fd)

    def names(self, folder: str) -> list[Name]:
        """Return what a folder holds, sorted; "" is the root itself.

        Raises:
            RefusedError: The folder cannot be entered.
        """
        try:
            with self._folder(self._parts(folder)) as fd, os.scandir(fd) as entries:
                return sorted(self._name(folder, entry) for entry in entries)
        except OSError as error:
            raise RefusedError(_reason(error)) from error

    def statuses(self, folder: str, names: Sequence[str]) -> list[os.stat_result | str]:
        """Return what is known of regular files of one folder without opening them.

        For one that is none there is the reason instead.
        """
        found: list[os.stat_result | str] = []
        try:
            with self._folder(self._parts(folder)) as fd:
                found.extend(self._status(fd, folder, name) for name in names)
        except RefusedError as refused:
            found.extend(refused.reason for _ in names)
        return found

    def read(self, path: str, limit: int) -> tuple[os.stat_result, bytes]:
        """Return a regular file's contents, whole and unchanged while they were read.

        Raises:
            RefusedError: It is no regular file of this folder, too large, or being changed.
        """
        *folders, name = self._parts(path) or [""]
        with self._folder(folders) as folder:
            before = self._checked(folder, name)
            if before.st_size > limit:
                raise RefusedError("too large")
            try:
                data = _read_same(folder, name, before, limit)
            except OSError as error:
                raise RefusedError(_reason(error)) from error
            # A second name that came and went meanwhile has changed the time of change.
            if data is None or not _same(before, self._checked(folder, name)):
                raise RefusedError("changing")
        return before, data

    def _parts(self, path: str) -> list[str]:
        parts = path.split("/") if path else []
        if any(part in ("", ".", "..") or "\0" in part for part in parts):
            raise RefusedError("outside")
        if self._mounts and any(f"{path}/".startswith(f"{point}/") for point in self._mounts):
            raise RefusedError("mount")
        return parts

    @contextmanager
    def _folder(self, parts: list[str]) -> Iterator[int]:
        current = self._fd
        for part in parts:
            try:
                inner = os.open(part, _FOLDER, dir_fd=current)
            except (OSError, ValueError) as error:
                raise RefusedError(_reason(error)) from error
            finally:
                if current != self._fd:
                    os.close(current)
            current = inner
            if os.fstat(current).st_dev != self._device:
                os.close(current)
                raise RefusedError("mount")
        try:
            yield current
        finally:
            if current != self._fd:
                os.close(current)

    def _status(self, fd: int, folder: str, name: str) -> os.stat_result | str:
        try:
            self._parts(f"{folder}/{name}" if folder else name)
            return self._checked(fd, name)
        except RefusedError as refused:
            return refused.reason

    def _checked(self, folder: int, name: str) -> os.stat_result:
        try:
            status = os.stat(name, dir_fd=folder, follow_symlinks=False)
        except (OSError, ValueError) as error:
            raise RefusedError(_reason(error)) from error
        if stat.S_ISLNK(status.st_mode):
            raise RefusedError("symbolic link")
        if stat.S_ISDIR(status.st_mode):
            raise RefusedError("folder")
        if not stat.S_ISREG(status.st_mode):
            raise RefusedError("not a file")
        if status.st_dev != self._device:
            raise RefusedError("mount")
        if status.st_nlink != 1:
            raise RefusedError("hard link")
        return status

    def _name(self, folder: str, entry: os.DirEntry[str]) -> Name:
        path = f"{folder}/{entry.name}" if folder else entry.name
        if path in self._mounts:
            return Name(entry.name, is_folder=False, reason="mount")
        if entry.is_symlink():
            return Name(entry.name, is_folder=False, reason="symbolic link")
        is_folder = entry.is_dir(follow_symlinks=False)
        is_file = entry.is_file(follow_symlinks=False)
        return Name(entry.name, is_folder, "" if is_folder or is_file else "not a file")


def _same(before: os.stat_result, after: os.stat_result) -> bool:
    return (
        after.st_nlink == 1
        and before.st_dev == after.st_dev
        and stamp_of(before) == stamp_of(after)
        and stat.S_ISREG(after.st_mode)
    )


def _read_same(folder: int, name: str, before: os.stat_result, limit: int) -> bytes | None:
    """Read the file that was looked at; None if it has become another."""
    descriptor = os.open(name, _FILE, dir_fd=folder)
    try:
        if not _same(before, os.fstat(descriptor)):
            return None
        data = bytearray()
        while block := os.read(descriptor, _BLOCK):
            data += block
            if len(data) > limit:
                raise RefusedError("too large")
        return bytes(data) if _same(before, os.fstat(descriptor)) else None
    finally:
        os.close(descriptor)


def _reason(error: OSError | ValueError) -> str:
    code = error.errno if isinstance(error, OSError) else None
    return _REASONS.get(code, "unreadable")


_REASONS: dict[int | None, str] = {
    errno.ELOOP: "symbolic link",
    errno.ENOTDIR: "symbolic link",
    errno.ENOENT: "gone",
    errno.EACCES: "no permission",
    errno.EPERM: "no permission",
    errno.ENXIO: "not a file",
}


def _why_not(error: OSError | ValueError) -> str:
    if isinstance(error, FileNotFoundError):
        return "There is no such folder"
    if isinstance(error, NotADirectoryError):
        return "This is not a folder"
    if isinstance(error, PermissionError):
        return "This folder may not be read; check its permissions"
    return "This folder cannot be opened"


def _mounts_below(root: str) -> frozenset[str]:
    """Return what is mounted below: a folder of the same disk may be, and its device says nothing.

    Mounting takes a privilege, so looking once is enough.
    """
    try:
        lines = Path("/proc/self/mountinfo").read_bytes().splitlines()
    except OSError:  # pragma: no cover - not Linux
        return frozenset()
    prefix = root.rstrip("/") + "/"
    points = (
        os.fsdecode(_OCTAL.sub(lambda m: bytes([int(m[1], 8)]), line.split()[4])) for line in lines
    )
    return frozenset(point.removeprefix(prefix) for point in points if point.startswith(prefix))
