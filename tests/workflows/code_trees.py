"""A small repository to index, and ways to change it."""

from __future__ import annotations

import atexit
import os
import shutil
import subprocess
import tempfile
from functools import cache
from pathlib import Path

from zapomni_core.engine import ZapomniEngine
from zapomni_core.modules.codebase import IndexRequest

AUTH = '''\
"""Tokens."""

import time

EXPIRY = 3600


def check_token(token, now=None):
    """Say whether a token still counts."""
    moment = now or time.time()
    return token.issued + EXPIRY > moment


def issue(user):
    token = Token(user, time.time())
    token.log("issued")
    return token


class Token:
    """What a user shows."""

    def __init__(self, user, issued):
        self.user = user
        self.issued = issued

    def renew(self, now):
        if not check_token(self, now):
            raise ValueError("too late")
        self.issued = now

    def log(self, word):
        print(word, self.user)


def left(value):
    return value


def right(value):
    return value
'''

SHOP = """\
from src.auth import Token, check_token


def order(token: Token, basket):
    if not check_token(token):
        return None
    token.log("ordered")
    return sum(item.price for item in basket)
"""

NOTES = """\
# Shop

What it sells.

## Deploy

Tuesdays only, by hand.

## Rollback

Take the last image.
"""

CART = """\
export class Cart {
  add(item) {
    this.items.push(item);
    return this.total();
  }

  total() {
    return this.items.reduce((sum, item) => sum + item.price, 0);
  }
}
"""

FILES = {
    "src/__init__.py": "",
    "src/auth.py": AUTH,
    "src/shop.py": SHOP,
    "web/cart.js": CART,
    "docs/notes.md": NOTES,
}


class Repository:
    """A folder with a few files, under git if wanted."""

    def __init__(self, root: Path, files: dict[str, str] = FILES, *, git: bool = True) -> None:
        self.root = root
        if git:
            shutil.copytree(_committed(tuple(files.items())), root, dirs_exist_ok=True)
        else:
            self._write_all(files)

    def _write_all(self, files: dict[str, str]) -> None:
        self.root.mkdir(parents=True, exist_ok=True)
        for path, text in files.items():
            self.write(path, text)

    def path(self, path: str) -> Path:
        return self.root / path

    def read(self, path: str) -> str:
        return self.path(path).read_text(encoding="utf-8")

    def write(self, path: str, text: str) -> None:
        self.path(path).parent.mkdir(parents=True, exist_ok=True)
        self.path(path).write_text(text, encoding="utf-8", newline="")

    def edit(self, path: str, old: str, new: str) -> None:
        text = self.read(path)
        assert old in text, old
        self.write(path, text.replace(old, new))

    def cut(self, path: str, start: str, end: str) -> str:
        """Take out what stands between two texts, the first included; return it."""
        text = self.read(path)
        first = text.index(start)
        last = text.index(end, first + 1) if end else len(text)
        self.write(path, text[:first] + text[last:])
        return text[first:last]

    def move(self, old: str, new: str) -> None:
        self.path(new).parent.mkdir(parents=True, exist_ok=True)
        self.path(old).rename(self.path(new))

    def commit(self, words: str) -> None:
        self.git("add", "-A")
        self.git("commit", "-q", "--allow-empty", "-m", words)

    def git(self, *arguments: str) -> None:
        run_git(*arguments, cwd=self.root)


@cache
def _committed(files: tuple[tuple[str, str], ...]) -> Path:
    """Commit files once; copying the folder costs a fifth of the three git commands."""
    folder = Path(tempfile.mkdtemp(prefix="repository-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    made = Repository(folder, dict(files), git=False)
    made.git("init", "-q", "-b", "main", "--template=")
    made.commit("start")
    return folder


def run_git(*arguments: str | Path, cwd: Path) -> None:
    names = ("-c", "user.name=Test", "-c", "user.email=test@example.org")
    clean = {k: v for k, v in os.environ.items() if not k.startswith("GIT_")}
    subprocess.run(["git", *names, *arguments], cwd=cwd, check=True, capture_output=True, env=clean)


async def index(engine: ZapomniEngine, root: Path | str, **more) -> dict:
    """Index a folder and return the task's result."""
    request = IndexRequest(path=str(root), folder="/", **more)
    task_id = await engine.code.index(request)
    status = await engine.tasks.run_task(task_id, lambda _: None)
    assert status.status == "completed", status.error
    return status.result
