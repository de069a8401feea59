"""Models opened with onnxruntime."""

from __future__ import annotations

import os
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Any

from zapomni_core.adapters.model_files import is_unchanged, remember_file, remove_file
from zapomni_core.exceptions import EmbeddingError
from zapomni_core.infra.onnx import load_onnxruntime, one_thread_options

__all__ = ["open_prepared_session", "open_session"]

# Two environments may share a home: each has its version of onnxruntime.
KEPT_COPIES = 2


def open_session(weights: Path, options: Any = None) -> Any:
    """Return a session that runs one text on one thread.

    Raises:
        EmbeddingError: EMB_004, onnxruntime cannot read the file.
    """
    onnxruntime = load_onnxruntime()
    try:
        return onnxruntime.InferenceSession(
            str(weights), options or one_thread_options(), providers=["CPUExecutionProvider"]
        )
    except Exception as error:  # onnxruntime's errors share no base but Exception
        raise EmbeddingError(
            "The embedding model cannot be loaded by the installed onnxruntime. "
            "Run `zapomni doctor`.",
            "EMB_004",
            original_exception=error,
        ) from error


def open_prepared_session(weights: Path) -> Any:
    """Return a session of a copy that is mapped into memory instead of read.

    Reading the weights and optimizing what is computed with them takes three times as long, and 25
    MB of memory more. So the first process to open them leaves a copy in onnxruntime's format
    next to them, already optimized: its vectors are the same to the last bit. Where nothing can
    be written, the weights are opened themselves. The caller has checked them.

    Raises:
        EmbeddingError: EMB_004, onnxruntime cannot read the weights.
    """
    version = load_onnxruntime().__version__  # other versions may optimize otherwise
    copy = weights.with_name(f"{weights.stem}.{version}.ort")
    if is_unchanged(copy):
        with suppress(EmbeddingError):  # damaged all the same: it is made again
            return open_session(copy, _make_mapped_options())
    try:
        return _prepare(weights, copy)
    except (OSError, EmbeddingError):  # no room, or not our folder
        return open_session(weights)


def _prepare(weights: Path, copy: Path) -> Any:
    descriptor, name = tempfile.mkstemp(dir=copy.parent, prefix=f".{copy.name}.")  # mode 0600
    os.close(descriptor)
    try:
        options = one_thread_options()
        # All that does not depend on this processor: homes move.
        options.graph_optimization_level = (
            load_onnxruntime().GraphOptimizationLevel.ORT_ENABLE_EXTENDED
        )
        options.optimized_model_filepath = name
        options.add_session_config_entry("session.save_model_format", "ORT")
        session = open_session(weights, options)
        Path(name).replace(copy)
    finally:
        Path(name).unlink(missing_ok=True)
    remember_file(copy)
    copies = sorted(
        copy.parent.glob(f"{weights.stem}.*.ort"), key=lambda path: path.stat().st_mtime
    )
    for old in copies[:-KEPT_COPIES]:
        remove_file(old)
    return session


def _make_mapped_options() -> Any:
    options = one_thread_options()
    options.graph_optimization_level = load_onnxruntime().GraphOptimizationLevel.ORT_DISABLE_ALL
    options.add_session_config_entry("session.use_memory_mapped_ort_model", "1")
    options.add_session_config_entry("session.use_ort_model_bytes_for_initializers", "1")
    return options
