"""Work on material that others made, in a child process with limits on memory and time.

    answer = run_in_child("package.module:function", request, ChildLimits())

calls the function with the request in `python -m zapomni_core.infra.child` and returns the bytes
it returns. The child gets a process group of its own, and it ends with its parent: on Linux the
kernel sees to it, elsewhere (and there as well) a pipe that only the parent holds open.
"""

from __future__ import annotations

import importlib
import os
import resource
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Literal

__all__ = [
    "ChildError",
    "ChildLimits",
    "end_with_parent",
    "limit_memory",
    "ran_short_of_memory",
    "run_in_child",
]

# What a child that ran out of memory exits with.
_OUT_OF_MEMORY = 77
_PR_SET_PDEATHSIG = 1


@dataclass(frozen=True, slots=True)
class ChildLimits:
    """How much a child may use.

    Attributes:
        memory_bytes: Of address space on Linux, of memory in use elsewhere.
        cpu_seconds: Of processor time, which a busy machine does not use up.
        seconds: On the clock, for a child that waits instead of working.
    """

    memory_bytes: int = 1 << 30
    cpu_seconds: int = 30
    seconds: float = 300.0


class ChildError(Exception):
    """A child did not answer: it reached a limit or crashed."""

    def __init__(self, reason: Literal["memory", "time", "crash"]) -> None:
        super().__init__(reason)
        self.reason = reason


def run_in_child(target: str, request: bytes, limits: ChildLimits) -> bytes:
    """Call a function, named `module:function`, in a child process.

    Raises:
        ChildError: The child reached a limit or crashed.
    """
    # The child sees this pipe end when its parent is gone, however it ended.
    alive, ours = os.pipe()
    try:
        # Without -P a file named json.py in the folder we were started in would be run.
        process = subprocess.Popen(  # noqa: S603 - ourselves
            [
                *(sys.executable, "-P", "-m", "zapomni_core.infra.child", target),
                *map(str, (limits.memory_bytes, limits.cpu_seconds, alive, os.getpid())),
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            pass_fds=(alive,),
            start_new_session=True,  # Ctrl-C is for us to handle.
        )
        os.close(alive)
        alive = -1
        try:
            answer, _ = process.communicate(request, timeout=limits.seconds)
        except subprocess.TimeoutExpired:
            raise ChildError("time") from None
        finally:
            # Whatever comes up to us, an interrupt included, the child does not survive it.
            if process.poll() is None:
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                process.wait()
            assert process.stdout is not None
            process.stdout.close()
    finally:
        os.close(ours)
        if alive >= 0:
            os.close(alive)
    if process.returncode == 0:
        return answer
    if process.returncode == _OUT_OF_MEMORY:
        raise ChildError("memory")
    if process.returncode in (-signal.SIGXCPU, -signal.SIGKILL):
        # The second one is the kernel's: of the hard limit, or of a machine without memory.
        raise ChildError("time" if process.returncode == -signal.SIGXCPU else "memory")
    raise ChildError("crash")


def limit_memory(size: int) -> None:
    """Let this process have no more than so many bytes of address space, and dump no core."""
    with suppress(OSError, ValueError):  # Not every system lets a process limit itself.
        resource.setrlimit(resource.RLIMIT_AS, (size, size))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def end_with_parent(parent: int) -> None:
    """Have the kernel kill this process when the parent ends; on Linux only."""
    if sys.platform != "linux":
        return
    import ctypes

    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:  # It ended before we asked.
        os._exit(1)


def ran_short_of_memory() -> bool:
    """Return whether this process came near its limit: libraries call that a damaged file."""
    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    return limit != resource.RLIM_INFINITY and _peak_memory() > limit * 3 // 4


def _peak_memory() -> int:
    # Linux limits and counts the address space; what is in use may be far less of it.
    with suppress(OSError), open("/proc/self/status", "rb") as status:  # noqa: PTH123
        for line in status:
            if line.startswith(b"VmPeak:"):
                return int(line.split()[1]) * 1024
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def _watch(alive: int, memory: int) -> None:
    """End this process when the parent's end of the pipe closes, or memory use is too high."""
    import select

    # What the kernel does not limit is read from its books, ten times a second.
    pause = None if sys.platform == "linux" else 0.1
    while not select.select([alive], [], [], pause)[0]:
        if _peak_memory() > memory:
            os._exit(_OUT_OF_MEMORY)
    os._exit(1)


def _main(target: str, memory: str, cpu_seconds: str, alive: str, parent: str) -> None:
    end_with_parent(int(parent))
    threading.Thread(target=_watch, args=(int(alive), int(memory)), daemon=True).start()
    limit_memory(int(memory))
    with suppress(OSError, ValueError):
        seconds = int(cpu_seconds)
        resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 1))
    module, _, name = target.partition(":")
    try:
        function: Callable[[bytes], bytes] = getattr(importlib.import_module(module), name)
        answer = function(sys.stdin.buffer.read())
        sys.stdout.buffer.write(answer)
        sys.stdout.buffer.flush()
    except MemoryError:
        os._exit(_OUT_OF_MEMORY)
    # Taking a large tree apart may take longer than reading it, and no one waits for it.
    os._exit(0)


if __name__ == "__main__":
    _main(*sys.argv[1:])
