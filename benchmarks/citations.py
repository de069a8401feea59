"""Does what is said of cited code hold over the history of a library, judged by Python itself?

    python -m benchmarks.citations --repository DIR --from REV --to REV

TypeScript, whose judge is the compiler; published versions of a package are its history, and
nothing is installed by itself:

    npm install --prefix DIR --ignore-scripts --no-save typescript@5.9.3
    npm pack rxjs@6.6.7 rxjs@7.8.2, each unpacked to a folder of its own
    python -m benchmarks.citations --typescript DIR --folders OLD/src NEW/src

Every function and class of one revision is cited, every file, and ranges of lines; then the other
revision is checked out, and what the checker says is compared with the judges:

    changed     two syntax trees of Python's own `ast`, without docstrings and annotations of
                parameters and results; or two of the TypeScript compiler's
    moved       a symbol that is nowhere in its file, and whose tree, or whose name in the file that
                git calls the renamed one, is in exactly one other place
    renamed     files that git calls renamed (half of their lines or more alike)
    ranges      lines that a line-by-line comparison of both files finds elsewhere
"""

from __future__ import annotations

import argparse
import ast
import asyncio
import difflib
import json
import os
import random
import resource
import shutil
import subprocess
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from zapomni_core.modules.codebase.citing import Checkout, CitationChecker
from zapomni_core.modules.codebase.search import Named
from zapomni_db.code_models import CheckedCitation, Citation
from zapomni_db.sqlite.code import SqliteCode

RANGES = 300
AT_ONCE = 200
LEAST_ALIKE = 0.6


def git(folder: Path, *arguments: str) -> str:
    """Run git, and return what it writes."""
    command = ["git", "-C", str(folder), *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


# --- The judge ------------------------------------------------------------------------------


class Defined(NamedTuple):
    """A function or class of one revision."""

    path: str
    name: str
    tree: str
    """Its syntax tree without its own name."""
    size: int


def strip(tree: ast.AST) -> None:
    """Take docstrings and annotations of parameters and results out of a tree."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant):
            node.kind = None  # `u"x"` is `"x"`.
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            node.returns = None
            arguments = node.args
            every = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
            for one in [*every, arguments.vararg, arguments.kwarg]:
                if one is not None:
                    one.annotation = None
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Module):
            first = node.body[0] if node.body else None
            if (
                isinstance(first, ast.Expr)
                and isinstance(first.value, ast.Constant)
                and isinstance(first.value.value, str)
            ):
                node.body = node.body[1:]


def define(path: str, text: str) -> Iterator[Defined]:
    """Yield the functions and classes of a file that have a name of their own."""
    try:
        module = ast.parse(text)
    except (SyntaxError, ValueError):
        return
    strip(module)
    found: list[Defined] = []

    def visit(node: ast.AST, above: str) -> None:
        for child in ast.iter_child_nodes(node):
            inner = above
            if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                inner = f"{above}.{child.name}" if above else child.name
                name, child.name = child.name, ""
                dumped = ast.dump(child)
                child.name = name
                found.append(Defined(path, inner, dumped, len(dumped)))
            visit(child, inner)

    visit(module, "")
    counts = Counter(one.name for one in found)
    # Of several with one name it cannot be said which is which.
    yield from (one for one in found if counts[one.name] == 1)


SYMBOLS = Path(__file__).parent / "typescript_symbols.js"


def define_scripts(folder: Path, compiler: Path) -> Iterator[Defined]:
    """Yield what the scripts of a folder define under a name of their own."""
    command = ["node", str(SYMBOLS), str(compiler), str(folder)]
    answer = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    found = [Defined(**json.loads(line), size=len(line)) for line in answer.splitlines()]
    counts = Counter((one.path, one.name) for one in found)
    yield from (one for one in found if counts[one.path, one.name] == 1)


def read_tree(
    folder: Path, compiler: Path | None
) -> tuple[dict[str, str], dict[tuple[str, str], Defined]]:
    """Return the texts of a checkout's files of Python or scripts, and what they define."""
    texts = {}
    for file in sorted(folder.rglob("*.py" if compiler is None else "*.[tj]s*")):
        try:
            texts[str(file.relative_to(folder))] = file.read_text("utf-8")
        except (UnicodeDecodeError, OSError):
            continue
    if compiler is None:
        every = (one for path, text in texts.items() for one in define(path, text))
    else:
        every = define_scripts(folder, compiler)
    return texts, {(one.path, one.name): one for one in every}


# --- One library ----------------------------------------------------------------------------


def cite(folder: Path, places: list[Named]) -> list[Citation | None]:
    """Return the citations of places as they are now."""
    with Checkout(str(folder)) as checkout:
        return [checkout.cite(place) for place in places]


async def check(store: SqliteCode, cited: list[Citation]) -> list[CheckedCitation]:
    """Say of each citation what became of it."""
    found: list[CheckedCitation] = []
    for start in range(0, len(cited), AT_ONCE):
        answers = await CitationChecker(store).check(cited[start : start + AT_ONCE])
        found += [checked for checked, _ in answers]
    return found


def cpu() -> float:
    """Return the seconds of this process and of those it has waited for."""
    own, others = (
        resource.getrusage(one) for one in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    )
    return own.ru_utime + own.ru_stime + others.ru_utime + others.ru_stime


def share(part: int, whole: int) -> float | None:
    """Return a share; None of nothing."""
    return round(part / whole, 4) if whole else None


def judge_symbols(
    before: dict[tuple[str, str], Defined],
    after: dict[tuple[str, str], Defined],
    renamed: dict[str, str],
    said: dict[tuple[str, str], CheckedCitation],
) -> dict[str, Any]:
    """Compare what is said of symbols with the judge."""
    trees: dict[str, list[Defined]] = {}
    for one in after.values():
        trees.setdefault(one.tree, []).append(one)
    was = Counter(one.tree for one in before.values())
    counts: Counter[str] = Counter()
    wrong: dict[str, list[str]] = {"cosmetic": [], "missed": [], "lost": []}
    for key, one in before.items():
        answer = said.get(key)
        if answer is None:
            continue
        place = f"{one.path}:{one.name}"
        counts["cited"] += 1
        now = after.get(key)
        if now is not None:
            real = now.tree != one.tree
            counts["real"] += real
            counts["found"] += real and answer.content == "changed"
            counts["said"] += answer.content == "changed"
            counts["cosmetic"] += not real and answer.content == "changed"
            if real and answer.content != "changed":
                wrong["missed"].append(f"{place} {answer.status} {answer.now}")
            if not real and answer.content == "changed":
                wrong["cosmetic"].append(place)
            continue
        twin = trees.get(one.tree, [])
        heir = after.get((renamed.get(one.path, ""), one.name))
        if heir is None and len(twin) == 1 and was[one.tree] == 1 and one.size > 300:
            heir = twin[0]
        if heir is None or (heir.path, heir.name) in before:
            continue
        counts["moved"] += 1
        if answer.place == "moved" and answer.now == f"{heir.path}:{heir.name}":
            counts["followed"] += 1
            real = heir.tree != one.tree
            counts["real"] += real
            counts["found"] += real and answer.content == "changed"
            counts["said"] += answer.content == "changed"
            counts["cosmetic"] += not real and answer.content == "changed"
        else:
            wrong["lost"].append(
                f"{place} -> {heir.path}:{heir.name}, said {answer.now or answer.status}"
            )
    return {
        "symbols": counts["cited"],
        "said_changed": counts["said"],
        "cosmetic": share(counts["cosmetic"], counts["said"]),
        "real_changes": counts["real"],
        "changes_found": share(counts["found"], counts["real"]),
        "moved_symbols": counts["moved"],
        "symbols_followed": share(counts["followed"], counts["moved"]),
        "wrong": wrong,
    }


def choose_ranges(texts: dict[str, str]) -> list[Named]:
    """Choose lines at random, the same every time."""
    chance = random.Random(7)
    paths = sorted(path for path, text in texts.items() if text.count("\n") > 40)
    chosen = []
    for _ in range(RANGES if paths else 0):
        path = chance.choice(paths)
        lines = texts[path].splitlines()
        first = chance.randrange(1, len(lines) - 20)
        chosen.append(Named(path, "", first, first + chance.randrange(5, 20)))
    return chosen


def expected_lines(old: list[str], new: list[str], first: int, last: int) -> tuple[int, int] | None:
    """Return where most of some lines are in the new text; None if they are not."""
    matcher = difflib.SequenceMatcher(None, old, new, autojunk=False)
    found = [
        block.b + line - block.a
        for block in matcher.get_matching_blocks()
        for line in range(max(block.a, first - 1), min(block.a + block.size, last))
        if len(old[line].strip()) > 3
    ]
    wanted = sum(len(line.strip()) > 3 for line in old[first - 1 : last])
    if not wanted or len(found) / wanted < LEAST_ALIKE:
        return None
    return found[0] + 1, found[-1] + 1


def commit_folders(old: Path, new: Path, target: Path) -> str:
    """Make a repository of two folders, one commit each; return its path."""
    names = ("-c", "user.name=Benchmark", "-c", "user.email=benchmark@example.org")
    target.mkdir()
    git(target, "init", "-q")
    for folder, tag in ((old, "old"), (new, "new")):
        for known in target.iterdir():
            if known.name != ".git":
                shutil.rmtree(known) if known.is_dir() else known.unlink()
        shutil.copytree(folder, target, dirs_exist_ok=True)
        git(target, "add", "-A")
        git(target, *names, "commit", "-q", "-m", tag)
        git(target, "tag", tag)
    return str(target)


async def measure(
    repository: str, old: str, new: str, compiler: Path | None, *, show: bool
) -> dict[str, Any]:
    """Cite everything at one revision, and check it at another."""
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(os.path.realpath(temporary), "library")  # noqa: ASYNC240
        git(Path(temporary), "clone", "-q", "--shared", "--no-checkout", repository, str(folder))
        git(folder, "checkout", "-q", old)
        texts, before = read_tree(folder, compiler)
        keys = list(before)
        ranges = choose_ranges(texts)
        places = [Named(path, name) for path, name in keys]
        files = [Named(path) for path in texts if texts[path].count("\n") > 5]
        cited = [
            (place, one)
            for place, one in zip(
                [*places, *files, *ranges], cite(folder, [*places, *files, *ranges]), strict=True
            )
            if one is not None
        ]
        listed = git(folder, "diff", "-M50%", "--name-status", "--diff-filter=R", old, new)
        renamed = dict(line.split("\t")[1:3] for line in listed.splitlines())
        git(folder, "checkout", "-q", new)
        new_texts, after = read_tree(folder, compiler)
        store = SqliteCode(Path(temporary) / "code.db")
        begin = cpu()
        answers = await check(store, [one for _, one in cited])
        cold = cpu() - begin
        said = dict(zip([place for place, _ in cited], answers, strict=True))
        some = [one for _, one in random.Random(7).sample(cited, min(AT_ONCE, len(cited)))]
        await check(store, some)
        begin = cpu()
        await check(store, some)
        warm = cpu() - begin
        await store.close()

    report = judge_symbols(
        before,
        after,
        renamed,
        {(place.path, place.symbol): one for place, one in said.items() if place.symbol},
    )
    follows = [(place, renamed[place.path]) for place in files if place.path in renamed]
    right = [place for place, to in follows if said[place].now == to]
    report["wrong"]["files"] = [
        f"{p.path} -> {to}, said {said[p].now}" for p, to in follows if p not in right
    ]
    report |= {"renamed_files": len(follows), "files_followed": share(len(right), len(follows))}
    moved = kept = 0
    report["wrong"]["ranges"] = []
    for place in dict.fromkeys(ranges):
        path = renamed.get(place.path, place.path)
        if place not in said or path not in new_texts:
            continue
        goal = expected_lines(
            texts[place.path].splitlines(),
            new_texts[path].splitlines(),
            place.start_line,
            place.end_line,
        )
        if goal is None or (path == place.path and abs(goal[0] - place.start_line) < 3):
            continue
        moved += 1
        now = said[place].now
        at, _, lines = now.rpartition(":L")
        first, _, last = lines.partition("-L")
        if at == path and int(first) <= goal[1] and int(last or first) >= goal[0]:
            kept += 1
        else:
            report["wrong"]["ranges"].append(
                f"{place} -> {path}:{goal}, said {now or said[place].status}"
            )
    report |= {
        "moved_ranges": moved,
        "ranges_followed": share(kept, moved),
        "cpu_ms_all": round(1000 * cold),
        "citations": len(cited),
        "cpu_ms_200_warm": round(1000 * warm),
    }
    if not show:
        del report["wrong"]
    return report


def main() -> None:
    """Print a report as JSON."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--repository", help="a clone with the history of a Python library")
    parser.add_argument("--from", dest="old", default="old")
    parser.add_argument("--to", dest="new", default="new")
    parser.add_argument("--folders", type=Path, nargs=2, help="two versions in place of a clone")
    parser.add_argument(
        "--typescript", type=Path, help="the folder npm installed the compiler into"
    )
    parser.add_argument("--wrong", action="store_true", help="also list what was said wrongly")
    given = parser.parse_args()
    compiler = given.typescript and given.typescript / "node_modules" / "typescript"
    with tempfile.TemporaryDirectory() as temporary:
        repository = given.repository
        if given.folders:
            repository = commit_folders(*given.folders, Path(temporary) / "history")
        report = asyncio.run(measure(repository, given.old, given.new, compiler, show=given.wrong))
    print(json.dumps(report, indent=1))


if __name__ == "__main__":
    main()
