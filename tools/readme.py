"""Does what README and docs say, from nothing, as written, and times every step.

    python -m tools.readme                       README, then every page, each in a fresh HOME
    python -m tools.readme README.md docs/graph.md
    make test-readme                             a newcomer: on Python 3.11 to 3.13, on both engines

A block marked `sh` is run; `text` is an example that cannot be (another program, a network). Each
page is one shell in a fresh clone, so that a later block sees what an earlier one did.

A newcomer (--newcomer) has a fresh clone, a fresh HOME, no model, and uv; every line is run as it
is written, the install included. Otherwise what would be installed is the package that runs this
script, and lines that install are passed over.
"""

from __future__ import annotations

import argparse
import itertools
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
BLOCK = re.compile(r"^```sh\n(.*?)^```$", re.MULTILINE | re.DOTALL)
TIMES = re.compile(r"(\d+)m([\d.]+)s")
VERSIONS = ("3.11", "3.12", "3.13")
LIMIT_SECONDS = 600
# On a FalkorDB server the same lines hold, with its extra and once it runs.
ON_SERVER = {
    "uv tool install .\n": "uv tool install '.[falkordb]'\nzapomni db up\n",
    "'.[code]'": "'.[code,falkordb]'",
}
# Variables and the folder outlive a block, as in the reader's own shell. Before each command the
# time is noted, and what the processors have spent on those before.
SCRIPT = """
. "{state}"
trap '{{ echo "$EPOCHREALTIME $BASH_COMMAND"; times; }} >> "{notes}"' DEBUG
set -ea
{commands}
trap - DEBUG
declare -x > "{state}"
echo "cd \\"$PWD\\"" >> "{state}"
"""


class Block(NamedTuple):
    """Commands of a page, and the line they begin at."""

    page: str
    line: int
    commands: str


class Step(NamedTuple):
    """A command that was run, and the seconds it took: on the clock, and of the processors."""

    command: str
    wall: float
    cpu: float


class Outcome(NamedTuple):
    """How a block went."""

    block: Block
    code: int
    output: str
    steps: list[Step]


def main() -> None:
    """Run the pages that are named, or all; or be a newcomer."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("pages", nargs="*", default=list_pages())
    parser.add_argument(
        "--newcomer",
        metavar="UV",
        help="Do what README says on every Python that is here and on both engines, with this uv.",
    )
    given = parser.parse_args()
    failed = 0
    if given.newcomer:
        pythons = {version: find_python(version) for version in VERSIONS}
        for version, python in pythons.items():
            for storage in ("", "falkordb://local") if python else ():
                print(f"\nPython {version}, {storage or 'SQLite'}", flush=True)
                failed += not be_newcomer(Path(given.newcomer), python, storage)
        if missing := [version for version, python in pythons.items() if not python]:
            print(f"\nNot here, so not tried: Python {', '.join(missing)}")
        failed += not any(pythons.values())
    else:
        with tempfile.TemporaryDirectory(prefix="zapomni-readme-") as name:
            env = make_environment(Path(name))
            for page in given.pages:
                failed += sum(not show(one) for one in run_page(page, Path(name), env))
    print(f"{failed} failed." if failed else "Every block runs.")
    sys.exit(bool(failed))


def list_pages() -> list[str]:
    """Return README and the pages, in the order they are read."""
    pages = sorted(path.relative_to(ROOT).as_posix() for path in (ROOT / "docs").glob("*.md"))
    return ["README.md", *(page for page in pages if read_blocks(page))]


def read_blocks(page: str) -> list[Block]:
    """Return the blocks of a page that are run."""
    text = (ROOT / page).read_text("utf-8")
    return [
        Block(page, text.count("\n", 0, found.start()) + 2, found[1])
        for found in BLOCK.finditer(text)
    ]


def show(outcome: Outcome) -> bool:
    """Print how a block went, and return whether it went well."""
    word = "FAILED" if outcome.code else "ok"
    wall, cpu = (sum(step[part] for step in outcome.steps) for part in (1, 2))
    where = f"{outcome.block.page}:{outcome.block.line}"
    print(f"{word:<6} {wall:6.1f} s {cpu:6.1f} s CPU  {where}", flush=True)
    if outcome.code:
        print(outcome.output)
    return not outcome.code


# --- A newcomer ---------------------------------------------------------------------------


def find_python(version: str) -> str:
    """Return a Python of this version, on the PATH or of pyenv; empty if there is none."""
    found = [shutil.which(f"python{version}")]
    if pyenv := shutil.which("pyenv"):
        done = subprocess.run([pyenv, "root"], capture_output=True, text=True, check=False)
        versions = Path(done.stdout.strip(), "versions")
        found += [str(path) for path in versions.glob(f"{version}.*/bin/python{version}")]
    for python in filter(None, found):
        # pyenv's own `python3.12` is there for every version, and fails for most.
        if not subprocess.run([python, "--version"], capture_output=True, check=False).returncode:
            return python
    return ""


def be_newcomer(uv: Path, python: str, storage: str) -> bool:
    """Do what README says from top to bottom, print each step's time; return if all went well."""
    with tempfile.TemporaryDirectory(prefix="zapomni-newcomer-") as name:
        folder = Path(name)
        home = folder / "home-README"
        programs = folder / "programs"
        programs.mkdir()
        (programs / "uv").symlink_to(uv.absolute())
        env = {
            **base_environment(programs, home / ".local" / "bin"),
            "UV_PYTHON": python,
            "UV_PYTHON_DOWNLOADS": "never",
        }
        if storage:
            env["ZAPOMNI_STORAGE"] = storage
        began = time.monotonic()
        outcomes = run_page("README.md", folder, env, ON_SERVER if storage else {})
        wall = cpu = 0.0
        has_found, well = False, True
        for outcome in outcomes:
            if not wall:
                # The clone that the first block waited for.
                wall = time.monotonic() - began - sum(step.wall for step in outcome.steps)
                print(f"{wall:8.1f} s               git clone")
            for step in outcome.steps:
                print(f"{step.wall:8.1f} s {step.cpu:6.1f} s CPU  {step.command[:80]}", flush=True)
                wall, cpu = wall + step.wall, cpu + step.cpu
                if not has_found and step.command.startswith("zapomni search"):
                    has_found = True
                    print(f"{wall:8.1f} s {cpu:6.1f} s CPU  FROM NOTHING TO THE FIRST OWN MEMORY")
            well = well and not outcome.code
            if outcome.code:
                show(outcome)
        zapomni = home / ".local" / "bin" / "zapomni"
        if storage and zapomni.exists():
            subprocess.run(
                [zapomni, "db", "down"], env={**env, "HOME": str(home)},
                check=False, capture_output=True,
            )  # fmt: skip
        return well


# --- Pages --------------------------------------------------------------------------------


def base_environment(*programs: Path) -> dict[str, str]:
    """Return a PATH that begins with these folders, and how this machine reaches its index."""
    reached = re.compile(r"(PIP|UV|SSL)_.*|.*_proxy", re.IGNORECASE)
    return {
        "PATH": ":".join([*map(str, programs), "/usr/local/bin:/usr/bin:/bin"]),
        "LANG": "C.UTF-8",
        **{name: value for name, value in os.environ.items() if reached.fullmatch(name)},
    }


def make_environment(folder: Path) -> dict[str, str]:
    """Return an environment in which what would be installed is what runs this script."""
    programs = folder / "bin"
    programs.mkdir()
    for name in ("pip", "uv"):
        program = programs / name
        program.write_text("#!/bin/sh\necho passed over: $0 $*\n", "utf-8")
        program.chmod(0o755)
    models = os.environ.get("ZAPOMNI_MODELS_DIR") or str(Path.home() / ".zapomni" / "models")
    return {
        **base_environment(programs, Path(sys.executable).parent),
        "ZAPOMNI_MODEL_SOURCE": models,
    }


def copy_repository(folder: Path, name: str) -> Path:
    """Return a clone of the repository, without its history."""
    copy = folder / name
    subprocess.run(
        ["git", "clone", "--quiet", "--depth", "1", f"file://{ROOT}", str(copy)], check=True
    )
    # Pages that are not committed yet are tried too.
    shutil.copy(ROOT / "README.md", copy / "README.md")
    shutil.copytree(ROOT / "docs", copy / "docs", dirs_exist_ok=True)
    return copy


def run_page(
    page: str, folder: Path, env: dict[str, str], changes: Mapping[str, str] | None = None
) -> Iterator[Outcome]:
    """Run the blocks of a page, one shell after another in one HOME and one folder."""
    name = page.replace("/", "-").removesuffix(".md")
    home = folder / f"home-{name}"
    (home / ".claude").mkdir(parents=True)
    where = copy_repository(folder, f"clone-{name}")
    if page != "README.md":
        # Loading the model again for every command of every page proves nothing more.
        env = {**env, "ZAPOMNI_EMBEDDER": "none"}
    state, notes = home / "state.sh", home / "notes"
    state.touch()
    for block in read_blocks(page):
        commands = block.commands
        for line, other in (changes or {}).items():
            commands = commands.replace(line, other)
        notes.write_text("", "utf-8")
        script = SCRIPT.format(state=state, notes=notes, commands=commands)
        try:
            done = subprocess.run(
                ["bash", "-c", script],
                cwd=where,
                env={**env, "HOME": str(home)},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                timeout=LIMIT_SECONDS,
                check=False,
            )
            code, output = done.returncode, done.stdout
        except subprocess.TimeoutExpired:
            code, output = 124, "It took too long."
        yield Outcome(block, code, output, read_notes(notes.read_text("utf-8")))


def read_notes(notes: str) -> list[Step]:
    """Return the commands that a shell noted, each with the time until the next."""
    # A note is the time and the command, in one line or several; then what the shell itself and
    # its children have spent.
    found = re.findall(
        r"^([\d.]+) (.+?)\n(\d+m\S+ \S+)\n(\d+m\S+ \S+)$", notes, re.MULTILINE | re.DOTALL
    )
    ends = [
        (float(moment), command, sum(60 * int(m) + float(s) for m, s in TIMES.findall(spent)))
        for moment, command, _, spent in found
    ]
    return [
        Step(command.partition("\n")[0], end[0] - began, end[2] - spent)
        for (began, command, spent), end in itertools.pairwise(ends)
        if command != "set -ea"
    ]


if __name__ == "__main__":
    main()
