from __future__ import annotations

import subprocess
from concurrent.futures import ThreadPoolExecutor

import pytest

from zapomni_core.engine import create_engine
from zapomni_core.modules.codebase import CodeParser
from zapomni_core.settings import load_settings


@pytest.fixture(scope="module", autouse=True)
def _one_parser_process():
    """Lend the process that parses from test to test: starting it costs more than most tests."""
    start, stop = CodeParser._start, CodeParser._stop
    idle: dict[int, subprocess.Popen[bytes]] = {}

    def lend(parser: CodeParser) -> subprocess.Popen[bytes]:
        parser._process = idle.pop(parser._size, None)
        if parser._process is not None and parser._process.poll() is not None:
            stop(parser)
        return parser._process or thread.submit(start, parser).result()

    def take_back(parser: CodeParser, patience: float = 0.0) -> None:
        # Without patience it is in no state to be used again.
        if patience and parser._process is not None and parser._size not in idle:
            idle[parser._size], parser._process = parser._process, None
        else:
            stop(parser, patience)

    # The process ends with the thread that started it.
    with ThreadPoolExecutor(1) as thread, pytest.MonkeyPatch.context() as patched:
        patched.setattr(CodeParser, "_start", lend)
        patched.setattr(CodeParser, "_stop", take_back)
        yield
        for process in idle.values():
            process.stdin.close()
            process.wait(180)
            process.stdout.close()


@pytest.fixture
async def engine(anyio_backend):
    """The engine as a user gets it: real file, real model, default settings."""
    async with await create_engine(load_settings()) as opened:
        yield opened


@pytest.fixture
async def wordy_engine(anyio_backend):
    """The engine without a model: word search only."""
    async with await create_engine(load_settings(embedder="none")) as opened:
        yield opened
