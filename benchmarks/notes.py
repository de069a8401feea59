"""How well short notes, decision records and commits are found.

    python -m benchmarks.notes --repositories FOLDER [--system zapomni,zapomni-words,fts5]

`data/notes.json` has questions and the ids of what answers them, no documents: those are read from
clones of the repositories that it names, at the commits that it names. FOLDER has them as
`owner+name` or `owner+name/repo`, bare or not (`git clone https://github.com/owner/name
owner+name`). Decision records are whole files, notes the entries of a changelog, commits their
messages; all of them are in one store. The questions were written before any result was seen, in
other words than the documents use where there are others.

One JSON line per system: R@1 and R@3 (the share of what is relevant that is among the first),
MRR@10, by kind and in all.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks import scoring, systems
from zapomni_core.shared.measures import recall_at, reciprocal_rank_at

QUESTIONS = Path(__file__).parent / "data/notes.json"
SYSTEMS = ("zapomni", "zapomni-words", "fts5")
_RECORD = re.compile(r"(?:^|/)(?:adr-\d{3}|\d{4})-[\w-]+\.md$", re.IGNORECASE)
_VERSION = re.compile(r"## \[(\d+\.\d+\.\d+)\]")


def read_documents(folder: Path, commits: dict[str, str]) -> list[dict[str, Any]]:
    documents = []
    for name, commit in commits.items():
        clone = folder / name.replace("/", "+")
        clone = clone / "repo" if (clone / "repo").is_dir() else clone
        for path in git(clone, "ls-tree", "-r", "--name-only", commit).splitlines():
            if _RECORD.search(path):
                text = git(clone, "show", f"{commit}:{path}")
                documents.append({"id": f"{name}:{path}", "text": text})
            elif path == "CHANGELOG.md":
                entries = read_entries(git(clone, "show", f"{commit}:{path}"))
                documents += [{"id": f"{name}:{path}#{i}", "text": t} for i, t in entries]
        log = git(clone, "log", "--no-merges", "--format=%h%x00%B%x01", "--abbrev=7", commit)
        for entry in filter(None, map(str.strip, log.split("\x01"))):
            number, _, message = entry.partition("\x00")
            documents.append({"id": f"{name}@{number[:7]}", "text": message.strip() or number})
    return [{**document, "group": "", "time": ""} for document in documents]


def read_entries(changelog: str) -> Iterator[tuple[str, str]]:
    """Yield the entries of a changelog: `version/number` and text."""
    for section in re.split(r"(?m)^(?=## \[)", changelog):
        version = _VERSION.match(section)
        for number, entry in enumerate(re.split(r"(?m)^- ", section)[1:], 1) if version else ():
            text = re.split(r"(?m)^###? ", entry)[0]
            yield f"{version[1]}/{number}", text.strip()


def git(clone: Path, *arguments: str) -> str:
    done = subprocess.run(
        ["git", "-C", clone, *arguments], capture_output=True, check=False, encoding="utf-8"
    )
    if done.returncode:
        raise SystemExit(f"{clone.name}: {done.stderr.strip().splitlines()[-1]}")
    return done.stdout


def measure(
    system: str, documents: list[dict[str, Any]], questions: list[dict[str, Any]]
) -> dict[str, Any]:
    with tempfile.TemporaryDirectory(prefix="zapomni-bench-") as folder:
        index = systems.load(system).Index(Path(folder), None)
        index.add(documents)
        scored = []
        for question in questions:
            found = scoring.collapse(index.search(question["text"], 10))
            relevant = question["relevant"]
            scored.append(
                (
                    question["kind"],
                    {
                        "recall_at_1": recall_at(1, found, relevant),
                        "recall_at_3": recall_at(3, found, relevant),
                        "mrr_at_10": reciprocal_rank_at(10, found, relevant),
                    },
                )
            )
        index.close()
    return {
        "system": system,
        "documents": len(documents),
        "questions": len(questions),
        **scoring.average([scores for _, scores in scored]),
        "by_kind": scoring.by_category(scored),
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--repositories", type=Path, required=True, metavar="FOLDER")
    parser.add_argument("--system", default=",".join(SYSTEMS), help="comma-separated")
    options = parser.parse_args()
    data = json.loads(QUESTIONS.read_text(encoding="utf-8"))
    documents = read_documents(options.repositories, data["repositories"])
    known = {document["id"] for document in documents}
    missing = {one for q in data["questions"] for one in q["relevant"]} - known
    if missing:
        raise SystemExit(f"no document has the id {min(missing)}")
    for system in options.system.split(","):
        print(json.dumps(measure(system, documents, data["questions"])), flush=True)


if __name__ == "__main__":
    main()
