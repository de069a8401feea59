"""Tests never touch the user: every test gets a home of its own and a clean environment."""

from __future__ import annotations

import os
import signal
import sqlite3
import uuid
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings

from zapomni_core.adapters import local_embedder, tokenizer
from zapomni_core.adapters.model_files import find_model
from zapomni_core.infra import git
from zapomni_core.modules.memories import graph_arm
from zapomni_core.modules.observations import spool
from zapomni_core.settings import load_settings
from zapomni_db.sqlite import connection, migrations

if TYPE_CHECKING:
    from zapomni_db.falkordb.server import LocalServer

# A runner in the background ignores interrupts, and so would every process it starts.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# The same examples in every run; `make soak` looks for others. How long an example takes says
# something about the machine only.
settings.register_profile("zapomni", deadline=None, derandomize=True)
settings.register_profile("soak", deadline=None, max_examples=5000)
settings.load_profile("zapomni")

# These test what runs in a process of its own only: parsers, readers of documents, hooks, servers.
MEASURED_PROCESSES = {
    "codebase",
    "test_child.py",
    "test_documents.py",
    "test_record.py",
    "test_review.py",
    "test_shared_process.py",
}

# Read before any fixture moves HOME: `make test` pulled the model there.
MODELS_DIR = load_settings().models_path


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(autouse=True)
def private_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Move HOME and ZAPOMNI_HOME to a temporary folder; only the pulled models stay reachable."""
    for name in list(os.environ):
        if name.startswith("ZAPOMNI_"):
            monkeypatch.delenv(name)
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("ZAPOMNI_HOME", str(home / ".zapomni"))
    monkeypatch.setenv("ZAPOMNI_MODELS_DIR", str(MODELS_DIR))
    # What takes longer is done without: a busy machine would get other results.
    monkeypatch.setattr(git, "HOOK_SECONDS", 60.0)
    monkeypatch.setattr(graph_arm, "SECONDS", 60.0)
    monkeypatch.setattr(spool, "DRAIN_SECONDS", 60.0)
    # A shared process would outlive a test; test_shared_process.py shares.
    monkeypatch.setenv("ZAPOMNI_SHARE", "false")
    return home / ".zapomni"


@pytest.fixture(autouse=True)
def _measure_few_processes(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave coverage of other processes to files that need it: it doubles what a process costs."""
    path = request.node.path
    if not {path.name, path.parent.name} & MEASURED_PROCESSES:
        monkeypatch.delenv("COVERAGE_PROCESS_CONFIG", raising=False)


@pytest.fixture(scope="session", autouse=True)
def load_model() -> Iterator[Callable[[Path], object]]:
    """Load the embedding model once, as long as its files stay the same: 0.2 s and 60 MB each.

    Its tokenizer too, which every text that is added needs: 25 ms.
    """
    load, read = local_embedder._EncoderModel, tokenizer.read_tokenizer
    loaded: dict[object, object] = {}

    def once(make: Callable[[Path], object], given: Path, *files: Path) -> object:
        # Not by their paths: a test's folder of models may be a link to the usual one.
        state = [path.stat() for path in files]
        key = tuple((file.st_dev, file.st_ino, file.st_size, file.st_mtime_ns) for file in state)
        if key not in loaded:
            loaded[key] = make(given)
        return loaded[key]

    def load_once(models_path: Path) -> object:
        found = find_model(models_path)
        return once(load, models_path, found.weights, found.tokenizer)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(local_embedder, "_EncoderModel", load_once)
        patched.setattr(tokenizer, "read_tokenizer", lambda path: once(read, path, path))
        yield load


@pytest.fixture(scope="session", autouse=True)
def _migrate_once(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Copy the empty database that the migrations made once: they take 20 ms, a copy takes one.

    Where a test changes the migrations, or a file is not empty, and in other processes, they run.
    """
    migrate, usual = connection.migrate, (migrations.LATEST_VERSION, migrations._statements)
    made = tmp_path_factory.mktemp("empty") / "zapomni.db"
    connection.prepare_file(made)
    copying = Lock()
    with closing(sqlite3.connect(made, check_same_thread=False)) as empty:

        def copy(new: sqlite3.Connection) -> None:
            is_new = connection.fetch_value(new, "SELECT count(*) FROM sqlite_master") == 0
            if is_new and usual == (migrations.LATEST_VERSION, migrations._statements):
                with copying:
                    empty.backup(new)
            else:
                migrate(new)

        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(connection, "migrate", copy)
            yield


@pytest.fixture(scope="session")
def falkordb_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalServer]:
    """A real server for everybody; whoever wants to hurt one starts one of his own."""
    from zapomni_db.falkordb import FalkorDBClient
    from zapomni_db.falkordb.server import start_server, stop_server

    folder = tmp_path_factory.mktemp("falkordb")
    with pytest.MonkeyPatch.context() as patched:
        # On a busy machine a server that is sound may take its time.
        patched.setitem(FalkorDBClient.__init__.__kwdefaults__, "timeout", 180.0)
        try:
            yield start_server(folder)
        finally:
            stop_server(folder)


@pytest.fixture
def falkordb_graph(falkordb_server: LocalServer) -> Iterator[str]:
    """The name of an empty graph of one's own, gone after the test."""
    import redis

    name = f"test-{uuid.uuid4()}"
    yield name
    where = str(falkordb_server.socket)
    with redis.Redis(unix_socket_path=where, decode_responses=True) as connection:
        if name in connection.execute_command("GRAPH.LIST"):
            connection.execute_command("GRAPH.DELETE", name)
