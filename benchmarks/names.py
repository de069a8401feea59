"""Whether the graph of a project's documents has the names that its readers look up.

    git clone https://github.com/ministryofjustice/cloud-platform DIR/cloud-platform
    git clone https://github.com/psf/requests DIR/requests
    git clone https://github.com/home-assistant/architecture DIR/home-assistant
    git clone https://github.com/celery/celery DIR/celery
    python -m benchmarks.names --data DIR [--project requests] [--engine falkordb] [--show]

Documents and commit messages are stored as memories, the graph is built, and its entities are
compared with labels in `benchmarks/data/names.toml`: which wanted names are there, with which
type, and how many of the 60 most mentioned and of 60 drawn ones were judged useful. `--show` prints
what was missed, and what has no label yet. One JSON line for each project, one for those that rules
were tuned with and one for the others. Nothing is downloaded.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import subprocess
import tomllib
from pathlib import Path
from typing import Any

from benchmarks.graph import build, open_engine
from zapomni_core.infra.logging import setup_logging
from zapomni_core.interfaces import AddMemoryRequest
from zapomni_db.graph_models import Entity, EntityQuery

LABELS = Path(__file__).parent / "data" / "names.toml"
JUDGED = 60
SEED = 19
FORMATS = {
    "speaker": "%an: %B%x00",
    "author": "Author: %an <%ae>%nDate: %ad%n%n%B%x00",
}
BOTS = r"^((?!dependabot|pre-commit-ci|renovate).*)$"
# Ours that labels do not tell apart.
COUNTED_AS = {"PACKAGE": "TECHNOLOGY"}


def documents(folder: Path, project: dict[str, Any]) -> list[str]:
    """Return the files of a clone at the labelled commit, and its last commit messages."""
    git = ["git", "-C", str(folder)]
    found = [
        subprocess.run(
            [*git, "show", f"{project['commit']}:{file}"], check=True, capture_output=True
        ).stdout.decode()[:20_000]
        for file in project["files"]
    ]
    log = [*git, "log", f"-{project['commits']}", "--no-merges", "--perl-regexp"]
    log += [f"--author={BOTS}", f"--format={FORMATS[project['messages']]}", project["commit"]]
    messages = subprocess.run(log, check=True, capture_output=True).stdout.decode()
    return [*found, *(one.strip() for one in messages.split("\0") if one.strip())]


async def read(texts: list[str], engine_kind: str) -> list[Entity]:
    """Return every node of the graph of these texts, the most mentioned first."""
    async with open_engine(engine_kind) as (engine, _):
        for text in texts:
            await engine.add_memory(AddMemoryRequest(text=text))
        await build(engine)
        found: list[Entity] = []
        while page := await engine.graph.find_entities(EntityQuery(limit=100, offset=len(found))):
            found += page
        return found


def fold(name: str) -> str:
    return " ".join(name.casefold().split())


def judge(
    name: str, project: dict[str, Any], entities: list[Entity], *, show: bool
) -> dict[str, Any]:
    by_name: dict[str, list[Entity]] = {}
    for one in entities:
        for called in {fold(n) for n in (one.name, one.description, *one.aliases) if n}:
            by_name.setdefault(called, []).append(one)
    useful = {fold(one) for one in project.get("useful", [])}
    useless = {fold(one) for one in project.get("useless", [])}
    mistyped = {fold(one) for one in project.get("mistyped", [])}
    wanted, missed, wrong = 0, [], []
    for kind, names in project["wanted"].items():
        for spellings in names:
            wanted += 1
            forms = [fold(one) for one in spellings.split("|")]
            found = [one for form in forms for one in by_name.get(form, [])]
            if not found:
                missed.append(spellings)
            elif kind not in {COUNTED_AS.get(one.type, one.type) for one in found}:
                wrong.append(f"{spellings}: {found[0].type}, not {kind}")
            useful.update(forms)
    most = entities[:JUDGED]
    drawn = random.Random(SEED).sample(
        sorted(entities, key=lambda e: e.entity_id), min(JUDGED, len(entities))
    )
    unlabelled = [
        one for one in {e.entity_id: e for e in (*most, *drawn)}.values()
        if fold(one.name) not in useful | useless
    ]  # fmt: skip
    labelled = [
        one for one in {e.entity_id: e for e in (*most, *drawn)}.values()
        if fold(one.name) in useful | useless
    ]  # fmt: skip
    wrongly = [one for one in labelled if fold(f"{one.name}|{one.type}") in mistyped]
    if show:
        print(f"--- {name}: missed: {'; '.join(missed)}")
        print(f"--- {name}: of another type: {'; '.join(wrong)}")
        print(f"--- {name}: without a label:")
        for one in unlabelled:
            print(f"    {one.name}|{one.type}  {one.mentions}")
    return {
        "benchmark": "names", "project": name, "entities": len(entities),
        "wanted": wanted, "found": wanted - len(missed),
        "wanted_mistyped": len(wrong),
        "useful_most": sum(fold(one.name) in useful for one in most), "most": len(most),
        "useful_drawn": sum(fold(one.name) in useful for one in drawn), "drawn": len(drawn),
        "mistyped": len(wrongly), "labelled": len(labelled), "unlabelled": len(unlabelled),
    }  # fmt: skip


def shares(name: str, rows: list[dict[str, Any]]) -> dict[str, Any]:
    total = {key: sum(row[key] for row in rows) for key in rows[0] if isinstance(rows[0][key], int)}
    typed = total["labelled"] + total["found"]
    return {
        "benchmark": "names", "project": name,
        "wanted_found": round(total["found"] / total["wanted"], 3),
        "useful_most_mentioned": round(total["useful_most"] / total["most"], 3),
        "useful_drawn": round(total["useful_drawn"] / total["drawn"], 3),
        "type_accuracy": round(1 - (total["mistyped"] + total["wanted_mistyped"]) / typed, 3),
        "unlabelled": total["unlabelled"],
    }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, required=True, metavar="DIR", help="the clones")
    parser.add_argument("--project", action="append", help="only this one")
    parser.add_argument("--engine", choices=["sqlite", "falkordb"], default="sqlite")
    parser.add_argument("--show", action="store_true", help="print what was missed or has no label")
    options = parser.parse_args()
    setup_logging("ERROR")
    labels = tomllib.loads(LABELS.read_text(encoding="utf-8"))
    groups: dict[str, list[dict[str, Any]]] = {}
    for name, project in labels.items():
        if options.project and name not in options.project:
            continue
        texts = documents(options.data / name, project)
        entities = asyncio.run(read(texts, options.engine))
        row = judge(name, project, entities, show=options.show)
        print(json.dumps(row), flush=True)
        groups.setdefault("tuned" if project.get("tune") else "held out", []).append(row)
    for group, rows in groups.items():
        print(json.dumps(shares(group, rows)))


if __name__ == "__main__":
    main()
