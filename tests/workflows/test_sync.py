"""Two homes, two clones and a bare repository on disk: equal in the end, and nothing lost."""

from __future__ import annotations

import http.server
import json
import os
import random
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from zapomni_core.engine import ZapomniEngine, create_engine
from zapomni_core.exceptions import ProcessingError, ValidationError
from zapomni_core.infra import export_folder, own_git
from zapomni_core.infra.export_folder import ExportFolder
from zapomni_core.interfaces import AddMemoryRequest, UpdateMemoryRequest
from zapomni_core.settings import load_settings
from zapomni_core.shared.records import to_record
from zapomni_core.workflows.export_memories import Exports
from zapomni_core.workflows.sync import SyncReport
from zapomni_db.models import MemoryFilter

pytestmark = pytest.mark.anyio

ROUNDS = int(os.environ.get("SYNC_ROUNDS", "12"))
SECRET = "ghp_" + "a1B2" * 9


def git(folder: Path, *command: str) -> str:
    done = subprocess.run(
        ["git", "-C", str(folder), *command],
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    return done.stdout.strip()


@pytest.fixture(autouse=True)
def _identity(private_home, monkeypatch):
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")
    (private_home.parent / ".gitconfig").write_text(
        "[user]\n\tname = Ann\n\temail = ann@example.org\n[init]\n\tdefaultBranch = main\n", "utf-8"
    )


class Devices:
    """Two homes with a clone each, and the repository they share."""

    def __init__(self, base: Path, engines: list[ZapomniEngine]) -> None:
        self.remote = base / "remote.git"
        self.engines = engines
        self.folders = [base / "clone one", base / "clone two"]
        git(base, "init", "-q", "--bare", str(self.remote))
        for folder in self.folders:
            git(base, "init", "-q", str(folder))
            git(folder, "remote", "add", "origin", str(self.remote))

    async def sync(self, number: int, **options: bool) -> SyncReport:
        return await self.engines[number].sync.run(self.folders[number], **options)

    async def settle(self) -> None:
        for number in (0, 1, 0):
            await self.sync(number)


@pytest.fixture
async def devices(tmp_path, anyio_backend):
    engines = [
        await create_engine(load_settings(home=tmp_path / name, embedder="none"))
        for name in ("home one", "home two")
    ]
    yield Devices(tmp_path, engines)
    for engine in engines:
        await engine.close()


async def add(engine: ZapomniEngine, text: str, **fields: object) -> str:
    return (await engine.add_memory(AddMemoryRequest(text=text, **fields))).memory_id  # type: ignore[arg-type]


async def edit(engine: ZapomniEngine, memory_id: str, **fields: object) -> None:
    await engine.update_memory(UpdateMemoryRequest(memory_id=memory_id, **fields))  # type: ignore[arg-type]


async def records(engine: ZapomniEngine) -> dict[str, dict]:
    ids = await engine.storage.list_ids(MemoryFilter(include_superseded=True))
    found = await engine.storage.get_copies(ids, passages=False)
    return {one.memory_id: to_record(one) for one in found}


async def test_both_sides_edit_delete_and_supersede_at_once_and_are_equal_in_the_end(devices):
    chance = random.Random(17)
    texts: dict[str, str] = {}
    gone: set[str] = set()
    for number in range(ROUNDS):
        for engine in devices.engines:
            for _ in range(chance.randint(0, 3)):
                ids = sorted(await records(engine))
                act = chance.choice(["add", "add", "edit", "edit", "tags", "delete", "supersede"])
                text = f"text {len(texts)} of round {number}"
                if act == "add" or not ids:
                    texts[text] = await add(engine, text)
                elif act == "edit":
                    memory_id = chance.choice(ids)
                    texts[text] = memory_id
                    await edit(engine, memory_id, text=text)
                elif act == "tags":
                    await edit(engine, chance.choice(ids), tags=[f"tag {number}"])
                elif act == "supersede":
                    texts[text] = await add(engine, text, supersedes=chance.choice(ids))
                else:
                    memory_id = chance.choice(ids)
                    gone.add(memory_id)
                    await engine.delete_memory(memory_id)
        for side in chance.sample([0, 1], chance.randint(0, 2)):
            await devices.sync(side)
    await devices.settle()
    one, two = [await records(engine) for engine in devices.engines]
    assert one == two
    found = {record["text"] for record in one.values()} | {
        version["text"] for record in one.values() for version in record["history"]
    }
    lost = {text for text, memory_id in texts.items() if text not in found} - {
        text for text, memory_id in texts.items() if memory_id in gone
    }
    assert not lost
    first, second = devices.folders
    assert git(first, "status", "--porcelain") == git(second, "status", "--porcelain") == ""
    assert git(first, "rev-parse", "HEAD^{tree}") == git(second, "rev-parse", "HEAD^{tree}")
    assert git(devices.remote, "rev-parse", "main") == git(first, "rev-parse", "HEAD")
    git(devices.remote, "fsck", "--strict")
    # Nothing was rewritten: every commit of both is in the history.
    assert git(second, "merge-base", "--is-ancestor", "HEAD", git(first, "rev-parse", "HEAD")) == ""
    if ROUNDS > 12:
        print(f"{ROUNDS} rounds, {len(texts)} texts, {len(one)} memories, {len(gone)} deleted")


async def test_a_push_of_another_device_in_between_is_merged(devices, monkeypatch):
    one, two = devices.engines
    await add(one, "First.")
    await devices.settle()
    mine = await add(one, "From the first device.")
    theirs = await add(two, "From the second device.")
    push = own_git.OwnRepository.push
    calls = []

    def push_late(self, *given):
        if not calls:
            calls.append(1)
            # While this one was merging, the other device has pushed.
            script = "from zapomni_cli.main import run; import sys; sys.exit(run(sys.argv[1:]))"
            subprocess.run(
                [sys.executable, "-c", script, "sync", str(devices.folders[1])],
                env={**os.environ, "ZAPOMNI_HOME": str(two.merges.settings.home),
                     "ZAPOMNI_EMBEDDER": "none"},
                check=True, capture_output=True, timeout=300,
            )  # fmt: skip
        return push(self, *given)

    monkeypatch.setattr(own_git.OwnRepository, "push", push_late)
    report = await devices.sync(0)
    assert report.pushed
    assert {mine, theirs} <= (await records(one)).keys()
    await devices.sync(1)
    assert await records(one) == await records(two)


async def test_other_files_of_the_repository_stay_and_follow(devices):
    one = devices.engines[0]
    first, second = devices.folders
    (first / "README.md").write_text("Our memories.\n", "utf-8")
    git(first, "add", "README.md")
    git(first, "commit", "-qm", "Say what it is")
    await add(one, "A fact.")
    await devices.settle()
    assert (second / "README.md").read_text("utf-8") == "Our memories.\n"
    assert git(second, "status", "--porcelain") == ""
    # Changed on both sides: that is the user's to merge, and nothing of ours is in the way.
    for folder, text in ((first, "One.\n"), (second, "Two.\n")):
        (folder / "README.md").write_text(text, "utf-8")
        git(folder, "commit", "-qam", "Change it")
    await devices.sync(0)
    with pytest.raises(ProcessingError, match="not Zapomni's") as refused:
        await devices.sync(1)
    assert refused.value.error_code == "SYNC_004"


async def test_a_purge_travels_and_names_what_stays_in_the_history(devices):
    one, two = devices.engines
    kept = await add(one, "A harmless fact.")
    memory_id = await add(one, "The word is swordfish.")
    await edit(one, memory_id, text="The word was swordfish.")
    await devices.settle()
    await one.delete_memory(memory_id)
    purged = await one.trash.purge([memory_id])
    assert purged is not None
    (left,) = purged["unreachable"]
    assert left["path"] == str(devices.folders[0])
    assert "zapomni sync" in left["why"]
    assert (await devices.sync(0)).in_history == 1
    report = await devices.sync(1)
    assert report.merged.purged == 1
    assert list(await records(two)) == [kept]
    for folder in (*devices.folders, Path(two.merges.settings.home)):
        for top, _, names in os.walk(folder):
            for name in names if "/.git" not in top else []:
                content = (Path(top) / name).read_bytes()
                assert b"swordfish" not in content, name


# --- What stops a push -------------------------------------------------------------------


class _Quiet(http.server.SimpleHTTPRequestHandler):
    refuse = False

    def do_GET(self) -> None:
        if self.refuse:
            self.send_response(401)
            self.send_header("WWW-Authenticate", "Basic")
            self.end_headers()
        else:
            super().do_GET()

    def log_message(self, *given: object) -> None:
        del given


@pytest.fixture
def served(tmp_path) -> Iterator[tuple[str, type[_Quiet]]]:
    """A repository that a web server hands out, to anyone or to no one."""
    bare = tmp_path / "served" / "public.git"
    git(tmp_path, "init", "-q", "--bare", str(bare))
    (bare / "info").mkdir(exist_ok=True)
    git(bare, "update-server-info")
    handler = type("Handler", (_Quiet,), {})
    server = http.server.ThreadingHTTPServer(
        ("127.0.0.1", 0), lambda *given: handler(*given, directory=str(bare.parent))
    )
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_address[1]}/public.git", handler
    server.shutdown()
    thread.join()
    server.server_close()


async def test_the_first_push_to_a_public_remote_is_stopped(devices, served, monkeypatch):
    address, handler = served
    folder = devices.folders[0]
    await add(devices.engines[0], "A fact.")
    git(folder, "remote", "set-url", "origin", address)
    # A user's own credentials do not make a private remote look public.
    netrc = Path(os.environ["HOME"]) / ".netrc"
    netrc.write_text("machine 127.0.0.1 login ann password synthetic\n", "utf-8")
    with pytest.raises(ProcessingError, match="Anyone can read") as refused:
        await devices.sync(0)
    assert refused.value.error_code == "SYNC_002"
    assert sorted(path.name for path in folder.iterdir()) == [".git"]
    handler.refuse = True
    repository = own_git.OwnRepository(folder, devices.engines[0].merges.settings.home / "sync")
    assert not repository.is_public(address)


def test_where_anyone_would_read_a_remote():
    anonymous = own_git.anonymous_address
    assert anonymous("git@github.com:ann/notes.git") == "https://github.com/ann/notes.git"
    assert anonymous("ssh://git@host.example:2222/ann/x") == "https://host.example/ann/x"
    assert anonymous("https://ann:word@host.example/x.git") == "https://host.example/x.git"
    assert anonymous("/srv/git/x.git") is None
    assert anonymous("../x.git") is None
    assert anonymous("file:///srv/x.git") is None


async def test_secrets_stop_the_push_before_anything_is_written(devices):
    one = devices.engines[0]
    memory_id = await add(one, f"The token is {SECRET}.")
    with pytest.raises(ProcessingError, match=memory_id) as refused:
        await devices.sync(0)
    assert refused.value.error_code == "SYNC_003"
    assert SECRET not in str(refused.value)
    assert sorted(path.name for path in devices.folders[0].iterdir()) == [".git"]
    await edit(one, memory_id, redact=True)
    # Its history still has it: only forgetting leaves nothing.
    with pytest.raises(ProcessingError, match=memory_id):
        await devices.sync(0)
    await devices.sync(0, yes=True)
    assert (await devices.sync(0)).merged.given == 0


# --- What may be wrong -------------------------------------------------------------------


async def test_a_folder_that_cannot_be_synced_is_left_alone(devices, tmp_path, monkeypatch):
    engine = devices.engines[0]
    folder = devices.folders[0]
    memory_id = await add(engine, "A fact.")

    async def refused(path: Path, match: str) -> None:
        with pytest.raises((ValidationError, ProcessingError), match=match):
            await engine.sync.run(path)
        assert list(await records(engine)) == [memory_id]

    await refused(tmp_path / "nowhere", "no such folder|not the top of a git")
    plain = tmp_path / "plain"
    plain.mkdir()
    await refused(plain, "not the top of a git repository")
    inner = folder / "inner"
    inner.mkdir()
    await refused(inner, "not the top of a git repository")
    inner.rmdir()
    (folder / "main.py").write_text("print(1)\n", "utf-8")
    await refused(folder, "no export of Zapomni")
    (folder / "main.py").unlink()
    gone = tmp_path / "gone.git"
    git(folder, "remote", "set-url", "origin", str(gone))
    await refused(folder, "cannot be reached")
    git(folder, "remote", "set-url", "origin", "ext::sh -c false")
    await refused(folder, "names a program")
    git(folder, "remote", "set-url", "origin", str(devices.remote))
    config = Path(os.environ["HOME"]) / ".gitconfig"
    content = config.read_text("utf-8")
    config.write_text("", "utf-8")
    await refused(folder, "who you are")
    config.write_text(content, "utf-8")
    monkeypatch.setattr(export_folder, "LOCK_SECONDS", 0.1)
    with ExportFolder(folder):
        await refused(folder, "Another process")
    await devices.sync(0)
    git(folder, "checkout", "-q", "--detach")
    await refused(folder, "No branch")
    git(folder, "checkout", "-q", "main")
    (folder / ".git" / "MERGE_HEAD").write_text("0" * 40, "utf-8")
    await refused(folder, "under way")
    (folder / ".git" / "MERGE_HEAD").unlink()
    (folder / "zapomni.json").write_text('{"format": 99, "zapomni": "export"}', "utf-8")
    await refused(folder, "Upgrade")


async def test_without_a_remote_everything_is_committed(devices):
    git(devices.folders[0], "remote", "remove", "origin")
    await add(devices.engines[0], "A fact.")
    report = await devices.sync(0)
    assert (report.remote, report.committed, report.pushed) == (False, True, False)
    assert git(devices.folders[0], "status", "--porcelain") == ""


async def test_damaged_linked_and_misnamed_files_are_counted_and_nothing_is_lost(devices, tmp_path):
    one, two = devices.engines
    first = devices.folders[0]
    ids = [await add(one, f"Fact {number}.") for number in range(3)]
    await devices.settle()
    paths = {path.stem: path for path in (first / "memories").rglob("*.json")}
    outside = tmp_path / "outside.json"
    outside.write_bytes(paths[ids[1]].read_bytes())
    half = paths[ids[0]].read_bytes()
    paths[ids[0]].write_bytes(half[: len(half) // 2])
    paths[ids[1]].unlink()
    paths[ids[1]].symlink_to(outside)
    (first / "memories" / "zz").mkdir()
    (first / "memories" / "zz" / "..json").write_text("{}", "utf-8")
    (first / "tombstones").mkdir(exist_ok=True)
    (first / "tombstones" / f"{ids[2]}.json").write_text('{"id": "another-one"}', "utf-8")
    # Another device pushes what is no record, and one from the far future.
    second = devices.folders[1]
    future = json.loads(next((second / "memories").rglob(f"{ids[2]}.json")).read_bytes())
    future |= {"id": "far-ahead", "updated_at": "2400-01-01T00:00:00.000000Z"}
    (second / "memories" / "fa").mkdir(exist_ok=True)  # Some id may begin so.
    (second / "memories" / "fa" / "far-ahead.json").write_text(json.dumps(future), "utf-8")
    git(second, "add", "-A")
    git(second, "commit", "-qm", "Strange")
    git(second, "push", "-q", "origin", "main")
    before = await records(one)
    written = outside.read_bytes()
    report = await devices.sync(0)
    assert report.merged.skipped_count == 4, report.merged.skipped
    assert await records(one) == before
    # The link was replaced, and not what it led to.
    assert outside.read_bytes() == written
    assert paths[ids[1]].is_file()
    assert not paths[ids[1]].is_symlink()
    await devices.sync(1)
    assert (await records(two)).keys() == before.keys()


async def test_a_sync_that_was_interrupted_is_completed_by_the_next(devices, monkeypatch):
    one, two = devices.engines
    memory_id = await add(one, "A fact.")
    with monkeypatch.context() as patched:
        patched.setattr(own_git.OwnRepository, "commit", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            await devices.sync(0)
    report = await devices.sync(0)
    assert report.pushed
    await devices.sync(1)
    assert list(await records(two)) == [memory_id]


async def test_an_export_in_the_folder_is_part_of_it(devices):
    """A repository of exports that was made by hand becomes one that is synced."""
    one, two = devices.engines
    exports: Exports = one.exports
    memory_id = await add(one, "A fact.")
    await exports.to_folder(devices.folders[0], {})
    git(devices.folders[0], "add", "-A")
    git(devices.folders[0], "commit", "-qm", "Export")
    await devices.settle()
    assert list(await records(two)) == [memory_id]
    shutil.rmtree(devices.folders[1])
    git(devices.remote.parent, "clone", "-q", str(devices.remote), str(devices.folders[1]))
    assert (await devices.sync(1)).merged.given == 0
