"""onnxruntime, loaded without its telemetry."""

from __future__ import annotations

import os
from typing import Any

__all__ = ["load_onnxruntime", "one_thread_options"]


def load_onnxruntime() -> Any:
    """Return the module: a native library, so on first use only.

    Its builds report to their maker unless switched off: they put an id of the device and a queue
    of events under ~/.cache, and send them. The variable is read when the library is loaded; the
    call is for a program that had loaded it before.
    """
    os.environ["ORT_DISABLE_TELEMETRY"] = "1"
    import onnxruntime

    onnxruntime.disable_telemetry_events()
    return onnxruntime


def one_thread_options() -> Any:
    """Return options of a session that runs on the thread of its caller."""
    options = load_onnxruntime().SessionOptions()
    # Texts run side by side, each on one thread: 1.5 times the texts of one run on two threads.
    options.intra_op_num_threads = 1
    options.inter_op_num_threads = 1
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    return options
