"""LongMemEval's file as sets for benchmarks.retrieval, so that peers are asked the same.

    python -m benchmarks.longmemeval FILE --to DIR
    python -m benchmarks.retrieval --data DIR/longmemeval-session.json

One space per question, one document per turn; at level group a session answers, at level doc a
turn (longmemeval-turn.json). Zapomni alone: `zapomni bench --longmemeval FILE`. The data are not
in this repository.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from zapomni_cli.longmemeval import HaystackQuestion, read_questions


def space_of(question: HaystackQuestion, relevant: list[str]) -> dict[str, Any]:
    docs = [
        {
            "id": turn.turn_id, "text": turn.text, "group": turn.session_id, "role": turn.role,
            "time": turn.date.replace("/", "-"),
        }
        for turn in question.turns
    ]  # fmt: skip
    query = {
        "id": question.question_id, "text": question.text, "rel": relevant, "cat": question.type,
    }  # fmt: skip
    return {"id": question.question_id, "docs": docs, "queries": [query]}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("file", type=Path, metavar="FILE")
    parser.add_argument("--to", type=Path, required=True, metavar="DIR")
    options = parser.parse_args()
    options.to.mkdir(parents=True, exist_ok=True)
    questions = list(read_questions(options.file))
    for name, level, relevant in (
        ("longmemeval-session", "group", lambda question: question.answer_sessions),
        ("longmemeval-turn", "doc", lambda question: question.answer_turns),
    ):
        spaces = [space_of(question, relevant(question)) for question in questions]
        path = options.to / f"{name}.json"
        data = {"name": name, "level": level, "spaces": spaces}
        path.write_text(json.dumps(data, ensure_ascii=False), encoding="utf-8")
        print(path)


if __name__ == "__main__":
    main()
