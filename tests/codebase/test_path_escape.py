"""Nothing from outside the root is ever read: not by links, mounts, names, git or races."""

from __future__ import annotations

import hashlib
import itertools
import os
import shutil
import socket
import subprocess
import sys
import textwrap
from collections import Counter
from pathlib import Path

import pytest
from trees import contents, git, write

from zapomni_core.modules.codebase import SourceTree

SECRET = "TOP = 'from outside the root'\n"
MARK = b"from outside the root"


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    return write(tmp_path / "outside", {"secret.py": SECRET, "deep/secret.py": SECRET})


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return write(tmp_path / "root", {"inside.py": "x = 1\n", "pkg/mod.py": "y = 2\n"})


def link(target: str, name: str):
    def plant(root: Path, outside: Path) -> None:
        place = root / name
        place.parent.mkdir(parents=True, exist_ok=True)
        place.symlink_to(target.format(outside=outside))

    return plant


def hard_link(name: str):
    def plant(root: Path, outside: Path) -> None:
        place = root / name
        place.parent.mkdir(parents=True, exist_ok=True)
        os.link(outside / "secret.py", place)

    return plant


def link_chain(root: Path, outside: Path) -> None:
    (root / "a.py").symlink_to("b.py")
    (root / "b.py").symlink_to("pkg/c.py")
    (root / "pkg/c.py").symlink_to(outside / "secret.py")


def link_over_a_folder(root: Path, outside: Path) -> None:
    shutil.rmtree(root / "pkg")
    (root / "pkg").symlink_to(outside)


def link_to_a_link_to_a_folder(root: Path, outside: Path) -> None:
    (root / "one").symlink_to("two")
    (root / "two").symlink_to(outside / "deep")


def loop(root: Path, outside: Path) -> None:
    (root / "loop").symlink_to("loop")
    (root / "pkg/up").symlink_to("..")


def hard_link_in_place_of_a_file(root: Path, outside: Path) -> None:
    (root / "inside.py").unlink()
    os.link(outside / "secret.py", root / "inside.py")


def hard_link_as_ignore_file(root: Path, outside: Path) -> None:
    os.link(outside / "secret.py", root / ".gitignore")


def link_as_ignore_file(root: Path, outside: Path) -> None:
    (root / ".gitignore").symlink_to(outside / "secret.py")
    (root / ".zapomniignore").symlink_to(outside / "secret.py")


def pipe(root: Path, outside: Path) -> None:
    os.mkfifo(root / "pipe.py")


def unix_socket(root: Path, outside: Path) -> None:
    here = Path.cwd()
    os.chdir(root)
    try:
        with socket.socket(socket.AF_UNIX) as server:
            server.bind("socket.py")
    finally:
        os.chdir(here)


def device(root: Path, outside: Path) -> None:
    try:
        os.mknod(root / "zero.py", 0o600 | 0o020000, os.makedev(1, 5))
    except PermissionError:
        (root / "zero.py").symlink_to("/dev/zero")


def tracked_link(root: Path, outside: Path) -> None:
    (root / "tracked.py").symlink_to(outside / "secret.py")
    git(root, "init", "-q")
    git(root, "add", "tracked.py")


def tracked_folder_turned_link(root: Path, outside: Path) -> None:
    write(root, {"sub/secret.py": "z = 3\n"})
    git(root, "init", "-q")
    git(root, "add", "sub/secret.py")
    shutil.rmtree(root / "sub")
    (root / "sub").symlink_to(outside)


def tracked_file_turned_hard_link(root: Path, outside: Path) -> None:
    git(root, "init", "-q")
    git(root, "add", "inside.py")
    hard_link_in_place_of_a_file(root, outside)


def git_folder_elsewhere(root: Path, outside: Path) -> None:
    git(outside, "init", "-q")
    git(outside, "add", ".")
    (root / ".git").write_text(f"gitdir: {outside}/.git\n")


def git_folder_linked(root: Path, outside: Path) -> None:
    git(outside, "init", "-q")
    git(outside, "add", ".")
    (root / ".git").symlink_to(outside / ".git")


def git_work_tree_elsewhere(root: Path, outside: Path) -> None:
    git(root, "init", "-q")
    git(root, "config", "core.worktree", str(outside))


def git_excludes_elsewhere(root: Path, outside: Path) -> None:
    git(root, "init", "-q")
    git(root, "config", "core.excludesFile", str(outside / "secret.py"))


def git_index_of_another(root: Path, outside: Path) -> None:
    git(outside, "init", "-q")
    git(outside, "add", ".")
    git(root, "init", "-q")
    shutil.copy(outside / ".git/index", root / ".git/index")


def git_index_with_a_way_up(root: Path, outside: Path) -> None:
    """An index cannot be made to hold `..`; one patched by hand can."""
    write(root, {"xx/outside/secret.py": "z = 3\n"})
    git(root, "init", "-q")
    git(root, "config", "core.protectNTFS", "false")
    git(root, "add", "xx/outside/secret.py")
    index = root / ".git/index"
    data = index.read_bytes()[:-20].replace(b"xx/outside", b"../outside")
    index.write_bytes(data + hashlib.sha1(data).digest())
    assert "../outside/secret.py" in git(root, "ls-files")


def nested_repository(root: Path, outside: Path) -> None:
    write(root, {"inner/a.py": "z = 3\n"})
    git(root, "init", "-q")
    git(root / "inner", "init", "-q")
    git(root / "inner", "config", "core.worktree", str(outside))
    (root / "inner/b.py").symlink_to(outside / "secret.py")


def submodule(root: Path, outside: Path) -> None:
    git(outside, "init", "-q")
    git(outside, "add", ".")
    git(outside, "commit", "-qm", "all")
    git(root, "init", "-q")
    git(root, "submodule", "add", "-q", str(outside), "mine")
    shutil.rmtree(root / "mine")
    (root / "mine").symlink_to(outside)


TRAPS = {
    "absolute link": link("{outside}/secret.py", "a.py"),
    "relative link": link("../outside/secret.py", "a.py"),
    "link with detours": link("pkg/../../outside/./secret.py", "a.py"),
    "link through proc": link("/proc/self/root{outside}/secret.py", "a.py"),
    "link through the working folder": link("/proc/self/cwd", "a"),
    "link to open files": link("/dev/fd", "fd"),
    "link to the disk's root": link("/", "everything"),
    "link to the folder above": link("..", "up"),
    "link to a folder": link("{outside}", "pkg2"),
    "link inside a folder": link("{outside}/deep", "pkg/deep"),
    "link under a hidden name": link("{outside}/secret.py", ".hidden.py"),
    "link under another case": link("{outside}/secret.py", "INSIDE.PY"),
    "link with an odd name": link("{outside}/secret.py", "sp ace\u200b.py"),
    "link to a device": link("/dev/zero", "zero.py"),
    "dangling link": link("{outside}/nothing.py", "a.py"),
    "chain of links": link_chain,
    "link over a folder": link_over_a_folder,
    "link to a link to a folder": link_to_a_link_to_a_folder,
    "loop": loop,
    "hard link": hard_link("a.py"),
    "hard link in a folder": hard_link("pkg/deep/er/a.py"),
    "hard link without suffix": hard_link("Makefile"),
    "hard link in place of a file": hard_link_in_place_of_a_file,
    "hard link as ignore file": hard_link_as_ignore_file,
    "link as ignore file": link_as_ignore_file,
    "pipe": pipe,
    "socket": unix_socket,
    "device": device,
    "tracked link": tracked_link,
    "tracked folder turned link": tracked_folder_turned_link,
    "tracked file turned hard link": tracked_file_turned_hard_link,
    "git folder elsewhere": git_folder_elsewhere,
    "git folder linked": git_folder_linked,
    "git work tree elsewhere": git_work_tree_elsewhere,
    "git excludes elsewhere": git_excludes_elsewhere,
    "git index of another": git_index_of_another,
    "git index with a way up": git_index_with_a_way_up,
    "nested repository": nested_repository,
    "submodule": submodule,
}


@pytest.mark.parametrize("trap", TRAPS.values(), ids=TRAPS)
def test_no_trap_on_disk_leads_outside(trap, root, outside):
    trap(root, outside)

    found = contents(root)

    assert found  # The good files are there all the same.
    assert not [name for name, data in found.items() if MARK in data]


@pytest.mark.parametrize(
    "path",
    [
        "../outside/secret.py",
        "pkg/../../outside/secret.py",
        "pkg/../inside.py",
        "./inside.py",
        "pkg//mod.py",
        "/inside.py",
        "{outside}/secret.py",
        "//{outside}/secret.py",
        "..",
        ".",
        "",
        "pkg/",
        "inside.py/",
        "inside.py/../inside.py",
        "inside.py\0.txt",
        "..\\outside\\secret.py",
        "%2e%2e/outside/secret.py",
        "\uff0e\uff0e/outside/secret.py",
        "... /outside/secret.py",
        "~/secret.py",
        "\udcff.py",
        "x" * 5000,
        "a/" * 3000 + "b.py",
    ],
)
def test_no_path_leads_outside(path, root, outside):
    with SourceTree(root) as tree:
        assert tree.read(path.format(outside=outside)) is None
        assert len(tree.skipped) == 1


@pytest.mark.parametrize("name", ["GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE"])
def test_variables_of_a_hook_do_not_lead_to_its_repository(name, root, outside, monkeypatch):
    git(outside, "init", "-q")
    git(outside, "add", ".")
    where = {"GIT_WORK_TREE": outside, "GIT_INDEX_FILE": outside / ".git/index"}
    monkeypatch.setenv(name, str(where.get(name, outside / ".git")))

    assert sorted(contents(root)) == ["inside.py", "pkg/mod.py"]


def test_a_repository_cannot_have_its_own_program_run(root, tmp_path):
    git(root, "init", "-q")
    trap = write(tmp_path, {"trap.sh": f"#!/bin/sh\ntouch {tmp_path}/ran\n"}) / "trap.sh"
    trap.chmod(0o755)
    for key in ("core.fsmonitor", "core.pager", "core.sshCommand", "diff.external"):
        git(root, "config", key, str(trap))
    git(root, "config", "core.hooksPath", str(tmp_path))

    assert contents(root)
    assert not (tmp_path / "ran").exists()


MOUNT_CHILD = """
import sys
sys.path.insert(0, {tests!r})
from pathlib import Path
from trees import contents
found = contents(Path({root!r}))
print(sorted(found), any({mark!r} in data for data in found.values()))
"""


@pytest.mark.parametrize(
    ("source", "place"),
    [("{outside}", "bound"), ("{outside}/secret.py", "inside.py"), ("{outside}", "with space")],
)
def test_what_is_mounted_into_the_root_is_not_entered(source, place, root, outside):
    """The same disk, mounted a second time: the device's number does not give it away."""
    if subprocess.run(["unshare", "-m", "true"], check=False, capture_output=True).returncode:
        pytest.skip("mounting is not allowed here")
    target = root / place
    if not target.exists():
        target.mkdir()
    child = MOUNT_CHILD.format(tests=str(Path(__file__).parent), root=str(root), mark=MARK)
    command = f'mount --bind "{source.format(outside=outside)}" "{target}" && exec "$@"'

    done = subprocess.run(
        ["unshare", "-m", "sh", "-c", command, "sh", sys.executable, "-c", child],
        capture_output=True, text=True, check=True,
    )  # fmt: skip

    kept = ["pkg/mod.py"] if place == "inside.py" else ["inside.py", "pkg/mod.py"]
    assert done.stdout.strip() == f"{kept} False"


def test_another_file_system_is_not_entered():
    """`/dev` holds mounts of its own on every Linux."""
    if not os.path.ismount("/dev/shm"):
        pytest.skip("nothing is mounted in /dev")
    with SourceTree(Path("/dev")) as tree:
        assert not list(tree.files())
        assert ("shm", "mount") in tree.skipped


SWAPPER = """
import itertools, os, sys
root, outside, spare = sys.argv[1:]
turn = 0

def put(make, name):
    global turn
    turn += 1
    temporary = f"{spare}/{turn}"
    make(temporary)
    os.rename(temporary, f"{root}/{name}")

def plain(place):
    with open(place, "w") as stream:
        stream.write("x = 1\\n")

def swap_folder():
    global turn
    turn += 1
    os.rename(f"{root}/pkg", f"{spare}/old{turn}")
    os.symlink(outside, f"{root}/pkg")
    os.unlink(f"{root}/pkg")
    os.rename(f"{spare}/old{turn}", f"{root}/pkg")

print("ready", flush=True)
for n in itertools.count():
    put(lambda place: os.symlink(f"{outside}/secret.py", place), "inside.py")
    put(plain, "inside.py")
    put(lambda place: os.link(f"{outside}/secret.py", place), "inside.py")
    os.unlink(f"{root}/inside.py")
    put(plain, "inside.py")
    swap_folder()
    if n % 50 == 0 and os.getppid() == 1:
        break
"""


def test_twenty_thousand_races_yield_nothing_from_outside(root, outside, tmp_path):
    (root / "pkg/secret.py").write_text("y = 2\n")
    spare = tmp_path / "spare"
    spare.mkdir()
    swapper = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(SWAPPER), str(root), str(outside), str(spare)],
        stdout=subprocess.PIPE,
        text=True,
    )
    outcomes: Counter[str] = Counter()
    try:
        assert swapper.stdout
        assert swapper.stdout.readline() == "ready\n"
        with SourceTree(root) as tree:
            for n in itertools.count():
                for name in ("inside.py", "pkg/secret.py"):
                    source = tree.read(name)
                    if source is None:
                        outcomes["refused"] += 1
                        continue
                    assert MARK not in source.data
                    outcomes["read"] += 1
                enough = min(outcomes["read"], outcomes["refused"]) >= 500
                if (n >= 20_000 and enough) or n >= 400_000:
                    break
    finally:
        swapper.kill()
        swapper.wait()
        swapper.stdout.close()
    assert outcomes["read"] >= 500
    assert outcomes["refused"] >= 500


def test_listing_and_reading_while_everything_is_swapped(root, outside, tmp_path):
    """The whole way, from the list to the bytes, with what was listed long replaced."""
    with SourceTree(root) as tree:
        entries = list(tree.files())
        shutil.rmtree(root / "pkg")
        (root / "pkg").symlink_to(outside)
        (root / "inside.py").unlink()
        (root / "inside.py").symlink_to(outside / "secret.py")

        assert [tree.read(entry.path) for entry in entries] == [None, None]


def test_a_root_that_is_swapped_stays_the_folder_it_was(root, outside, tmp_path):
    with SourceTree(root) as tree:
        root.rename(tmp_path / "elsewhere")
        root.symlink_to(outside)

        assert tree.read("secret.py") is None
        assert tree.read("inside.py").data == b"x = 1\n"
