"""Backups that only a passphrase opens."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import pty
import select
import subprocess
import sys
import termios
from pathlib import Path

import pytest

from command import add, answer, as_json, refused, until, zapomni
from zapomni_core.engine import create_engine
from zapomni_core.exceptions import ValidationError
from zapomni_core.infra import encryption
from zapomni_core.infra.encryption import BLOCK, decrypt_file, encrypt_file
from zapomni_core.interfaces import AddMemoryRequest
from zapomni_core.settings import load_settings

WORD = "quagmirewombat"
PASSPHRASE = "four plain words päss"
KEY = {"ZAPOMNI_BACKUP_PASSPHRASE": PASSPHRASE}


@pytest.fixture(autouse=True)
def words_only(monkeypatch):
    monkeypatch.setenv("ZAPOMNI_EMBEDDER", "none")


@pytest.fixture
def quick_key(monkeypatch):
    """A key that costs milliseconds: how long an attacker takes is not what is tested."""
    monkeypatch.setattr(encryption, "LOG_N", 12)


def test_an_encrypted_backup_comes_back_and_shows_nothing(private_home, tmp_path):
    first = add(f"About the {WORD}.")
    made = as_json("backup", "--encrypt", **KEY)
    sealed = Path(made["path"])
    assert sealed.name.endswith("-manual.db.enc")
    assert sealed.stat().st_mode & 0o777 == 0o600
    content = sealed.read_bytes()
    assert WORD.encode() not in content
    assert b"SQLite format" not in content
    assert list(sealed.parent.iterdir()) == [sealed]
    assert made["tables"]["memories"] == 1
    add("A later note.")

    (tmp_path / "secret").write_text(PASSPHRASE + "\n", encoding="utf-8")
    env = {"ZAPOMNI_BACKUP_PASSPHRASE_FILE": str(tmp_path / "secret")}
    done = as_json("restore", sealed.name, "--yes", **env)

    assert (done["tables"]["memories"], done["problems"]) == (1, {})
    assert [memory["memory_id"] for memory in as_json("list")["items"]] == [first]
    assert not list(private_home.glob(".zapomni-staging-*"))


def echoes(terminal: int) -> bool:
    return bool(termios.tcgetattr(terminal)[3] & termios.ECHO)


def typing(*args: str, asked: str) -> tuple[int, str]:
    """Run a command on a terminal and type the passphrase whenever it is asked for.

    What is typed before the echo is turned off is thrown away by the terminal, and that is done
    after the question is shown.
    """
    terminal, theirs = pty.openpty()
    child = subprocess.Popen(
        [sys.executable, "-m", "zapomni_cli", *args],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        start_new_session=True,
    )
    os.close(theirs)
    shown, answered = b"", 0
    with contextlib.suppress(OSError):  # the end of what a terminal shows
        while select.select([terminal], [], [], 300)[0] and (part := os.read(terminal, 65536)):
            shown += part
            while shown.count(asked.encode()) > answered:
                answered += 1
                until(lambda: child.poll() is not None or not echoes(terminal))
                os.write(terminal, f"{PASSPHRASE}\n".encode())
    os.close(terminal)
    return child.wait(timeout=300), shown.decode()


def test_the_passphrase_is_asked_for_on_a_terminal_twice(private_home):
    add("A note.")
    code, shown = typing("backup", "--encrypt", asked=": ")
    assert code == 0, shown
    assert "four plain" not in shown
    (sealed,) = (private_home / "backups").iterdir()
    code, shown = typing("restore", sealed.name, "--yes", asked=": ")
    assert code == 0, shown


@pytest.mark.usefixtures("quick_key")
def test_what_is_wrong_is_said_and_nothing_changes(private_home):
    add("A note.")
    sealed = Path(as_json("backup", "--encrypt", **KEY)["path"])
    before = (private_home / "zapomni.db").read_bytes()
    whole = sealed.read_bytes()

    def restored_with(passphrase: str = PASSPHRASE) -> str:
        env = {"ZAPOMNI_BACKUP_PASSPHRASE": passphrase}
        return refused(2, "restore", str(sealed), "--yes", **env)

    assert "passphrase is wrong" in restored_with("another passphrase")
    for length in (len(whole) - 1, len(whole) // 2, 70, 40, 10):
        sealed.write_bytes(whole[:length])
        assert "cut off" in restored_with(), length
    sealed.write_bytes(whole[:-100] + bytes([whole[-100] ^ 1]) + whole[-99:])
    assert "was changed" in restored_with()
    # A header that asks for more memory than any backup of ours.
    sealed.write_bytes(whole[:8] + bytes([40, 255, 255]) + whole[11:])
    assert "was changed" in restored_with()
    assert "passphrase is needed" in refused(2, "backup", "--encrypt")
    sealed.write_bytes(whole)
    assert "passphrase is needed" in refused(2, "restore", str(sealed), "--yes")
    short = {"ZAPOMNI_BACKUP_PASSPHRASE": "short"}
    assert "at least 8" in refused(2, "backup", "--encrypt", **short)
    assert (private_home / "zapomni.db").read_bytes() == before
    assert [b["reason"] for b in as_json("restore")] == ["manual"]


@pytest.mark.usefixtures("quick_key")
def test_blocks_cannot_be_swapped_dropped_or_end_early(tmp_path):
    plain = tmp_path / "plain"
    plain.write_bytes(os.urandom(BLOCK) * 3)
    sealed = tmp_path / "sealed"
    encrypt_file(plain, sealed, PASSPHRASE)
    decrypt_file(sealed, tmp_path / "again", PASSPHRASE)
    assert (tmp_path / "again").read_bytes() == plain.read_bytes()
    content, size = sealed.read_bytes(), BLOCK + 16
    start = len(content) - 3 * size
    blocks = [content[start + n * size : start + (n + 1) * size] for n in range(3)]
    for wrong in ([1, 0, 2], [0, 2], [0, 1], [0, 0, 2], []):
        sealed.write_bytes(content[:start] + b"".join(blocks[n] for n in wrong))
        with pytest.raises(ValidationError, match="cut off or was changed"):
            decrypt_file(sealed, None, PASSPHRASE)


@pytest.mark.usefixtures("quick_key")
def test_a_large_backup_is_encrypted_block_by_block(private_home):
    async def fill() -> None:
        async with await create_engine(load_settings(embedder="none")) as engine:
            texts = [f"Note {n} " + f"word{n} " * 2000 for n in range(60)]
            await engine.add_memories([AddMemoryRequest(text=text) for text in texts])

    asyncio.run(fill())
    made = as_json("backup", "--encrypt", **KEY)
    assert made["size_bytes"] > 2 * BLOCK
    assert as_json("restore", made["path"], "--yes", **KEY)["tables"]["memories"] == 60


def test_without_the_package_the_extra_is_named(private_home, tmp_path):
    add("A note.")
    blocked = "import sys; sys.modules['cryptography'] = None"
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "sitecustomize.py").write_text(blocked, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-m", "zapomni_cli", "backup", "--encrypt"],
        capture_output=True,
        timeout=300,
        check=False,
        env={**os.environ, **KEY, "PYTHONPATH": str(tmp_path / "site")},
    )
    assert done.returncode == 2
    assert b"[encrypt]'" in done.stderr
    assert answer("backup")


@pytest.mark.usefixtures("quick_key")
def test_keep_and_the_list_count_encrypted_ones_too(private_home):
    add("A note.")
    answer("backup")
    sealed = as_json("backup", "--encrypt", "--keep", "1", **KEY)
    assert len(sealed["removed"]) == 1
    listed = json.loads(zapomni("restore", "--json").stdout)
    assert [backup["path"] for backup in listed] == [sealed["path"]]
