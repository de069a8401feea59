"""Break each promise on purpose and see its tests fail: python -m tools.mutate [ID…].

Every mutation of tests/promises.toml is made in a copy of the repository. The tests of the promise
must pass in the copy before the change, and fail after it.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from tools.promises import ROOT, Promise, load_promises

# A test that waits for ever on a broken program has failed as well.
PATIENCE_SECONDS = 600


def main() -> int:
    wanted = set(sys.argv[1:])
    promises = [p for p in load_promises() if not wanted or p.id in wanted]
    if missing := wanted - {p.id for p in promises}:
        print(f"no such promise: {', '.join(sorted(missing))}", file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory(prefix="zapomni-mutate-") as folder:
        copy = Path(folder) / "copy"
        copy_repository(copy)
        verdicts = {promise.id: judge(copy, promise) for promise in promises}
    failed = [name for name, verdict in verdicts.items() if verdict != "noticed"]
    print(f"{len(verdicts)} mutations, {len(verdicts) - len(failed)} noticed", flush=True)
    return 1 if failed else 0


def copy_repository(copy: Path) -> None:
    """Copy the files git knows, and those it would add."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        check=True,
    )
    for name in filter(None, os.fsdecode(listed.stdout).split("\0")):
        if (ROOT / name).is_file():
            (copy / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, copy / name)


def judge(copy: Path, promise: Promise) -> str:
    file = copy / promise.mutation["file"]
    text = file.read_text(encoding="utf-8")
    broken = text.replace(promise.mutation["find"], promise.mutation["replace"])
    if text.count(promise.mutation["find"]) != 1 or broken == text:
        verdict = "cannot be made"
    elif run_tests(copy, promise.tests) != 0:
        verdict = "its tests fail without it"
    else:
        file.write_text(broken, encoding="utf-8")
        try:
            code = run_tests(copy, promise.tests)
        finally:
            file.write_text(text, encoding="utf-8")
        # 1: tests failed. 2 to 5: pytest itself did not come to run them.
        verdict = {0: "NOT NOTICED", 1: "noticed"}.get(code, f"broke the test run ({code})")
    print(f"{promise.id}: {verdict}", flush=True)
    return verdict


def run_tests(copy: Path, tests: list[str]) -> int:
    # Ours come before what is installed, in every process that the tests start.
    environ = {**os.environ, "PYTHONPATH": str(copy / "src"), "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", *tests]
    process = subprocess.Popen(
        command,
        cwd=copy,
        env=environ,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        return process.wait(PATIENCE_SECONDS)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, 9)
        process.wait()
        return 1


if __name__ == "__main__":
    sys.exit(main())
