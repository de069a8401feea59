"""`zapomni bench`: how well your own memories are found again, and how fast.

Every question is made from one memory: its title, its first heading, or its first sentence,
with every other keyword dropped so that nothing is quoted. Then it is asked, and the
place of that memory in the answer counts. With --recalls the questions are those of the recall log
whose answers were used, and the place of the first item that was used counts. --longmemeval is in
`longmemeval`.
"""

from __future__ import annotations

import math
import random
import re
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from zapomni_cli.options import chosen, examples, json_option
from zapomni_cli.output import Progress, count_of, print_json, print_table, progress_bar
from zapomni_cli.runtime import read_settings, with_engine
from zapomni_core.engine import ZapomniEngine
from zapomni_core.interfaces import ListRequest, SearchRequest
from zapomni_core.shared.text import query_terms
from zapomni_db.models import MemoryRecord

__all__ = ["Asked", "bench", "make_question", "summarize"]

DEPTH = 10
LEAVE_OUT = 2
FEWEST_WORDS = 3
LONGEST_SENTENCE = 300

_WORD = re.compile(r"[^\W_][\w'’.-]*[^\W_]|[^\W_]")  # noqa: RUF001 - as people type it
_HEADING = re.compile(r"^ {0,3}#{1,6}[ \t]+(\S.*)$", re.MULTILINE)
_SENTENCE_END = re.compile(r"[.!?…。！？](?=\s|$)|\n")  # noqa: RUF001 - Chinese, Japanese


@dataclass(frozen=True)
class Asked:
    """A question, and what came of asking it."""

    memory_id: str
    """The memory it was made from; of the recall log, the memories or observations used."""
    origin: str
    """What it was made from: title, heading, sentence or prompt; of the log, how it was asked."""
    question: str
    place: int | None
    """The rank of the memory in the answer; None: not among the first ten."""
    milliseconds: float


@click.command(
    epilog=examples(
        "zapomni bench",
        "zapomni bench --questions 500 --project shop",
        "zapomni bench --recalls",
        "zapomni bench --longmemeval longmemeval_s_cleaned.json --questions 500",
        "zapomni bench --json",
    )
)
@click.option(
    "--questions",
    "count",
    type=click.IntRange(1, 10_000),
    default=100,
    show_default=True,
    help="How many memories to ask for, or questions to ask.",
)
@click.option("--project", help="Only this project.")
@click.option("--seed", default=0, show_default=True, help="Another number picks other memories.")
@click.option(
    "--recalls",
    "from_log",
    is_flag=True,
    help="Ask what was really asked, if an answer to it was used.",
)
@click.option(
    "--longmemeval",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Ask the questions of LongMemEval over their own sessions instead.",
)
@json_option
def bench(
    count: int,
    project: str | None,
    seed: int,
    longmemeval: Path | None,
    *,
    from_log: bool,
    as_json: bool,
) -> None:
    """Measure how well your own memories are found.

    Takes memories at random, makes a question of the title, the first heading or the first
    sentence of each with every other keyword dropped, and asks it. recall@5 is the share
    of memories that were among the first five hits, MRR the mean of one over their place.
    Nothing is stored, and nothing leaves this machine unless your embedder is a remote one.

    With --recalls the newest questions of the recall log are asked again: those that agents and
    people asked and whose answers they opened, cited or named. recall@5 is then the share of
    questions with an item that was used among the first five hits. What was never given cannot have
    been used: it compares settings and versions on your own questions, and cannot show what every
    one of them misses.

    With --longmemeval nothing of yours is asked for: each question of that file is asked over its
    own sessions, in a temporary store with your settings, and what answers it is counted by session
    and by turn. recall@5 is the share of what answers among the first five, any@5 and all@5 say
    whether any or all of it is: others publish one of the three as recall. Questions without an
    answer are left out. All 500 of the file S take about an hour and a half of CPU time.
    """
    if longmemeval is not None:
        if project or from_log:
            raise click.UsageError("--longmemeval takes no --project and no --recalls.")
        _bench_longmemeval(longmemeval, count, seed, as_json=as_json)
        return
    filters = chosen({"project": project})
    with progress_bar("Asking") as progress:
        ask = _ask_again if from_log else _ask_all
        asked, notice = with_engine(lambda engine: ask(engine, filters, count, seed, progress))
    if notice:
        click.echo(notice, err=True)
    if as_json:
        print_json(_as_json(asked))
    elif asked:
        _print(asked)
    elif from_log:
        click.echo(
            "No question was asked yet whose answer was used. `zapomni recalls` lists them all.",
            err=True,
        )
    else:
        click.echo("No memory here is long enough to ask for. Add some, then try again.", err=True)


def _bench_longmemeval(path: Path, count: int, seed: int, *, as_json: bool) -> None:
    from zapomni_cli.longmemeval import run_longmemeval

    with progress_bar("Asking") as progress:
        report = run_longmemeval(read_settings(), path, count, seed, progress)
    if as_json:
        print_json(report)
        return
    shown = {
        "recall_at_5": "recall@5", "recall_at_10": "recall@10", "any_at_5": "any@5",
        "all_at_5": "all@5", "mrr_at_10": "MRR", "ndcg_at_10": "nDCG",
    }  # fmt: skip
    rows = [("found", "type", "questions", *shown.values())]
    for level in ("sessions", "turns"):
        figures = report[level]
        for name, one in (*figures["by_type"].items(), ("all", figures)):
            values = (f"{one[measure]:.3f}" if one["queries"] else "-" for measure in shown)
            rows.append((level, name, str(one["queries"]), *values))
    print_table(rows)
    click.echo(
        f"A search took {report['latency_ms_p50']} ms, one in twenty more than "
        f"{report['latency_ms_p95']} ms.",
        err=True,
    )


async def _ask_all(
    engine: ZapomniEngine, filters: dict[str, Any], count: int, seed: int, progress: Progress
) -> tuple[list[Asked], str | None]:
    total = (await engine.list_memories(ListRequest(limit=1, filters=filters))).total
    offsets = list(range(total))
    random.Random(seed).shuffle(offsets)  # noqa: S311 - a sample, not a secret
    asked: list[Asked] = []
    # What loads with the first search is not what a search costs.
    warm = await engine.search_memory(SearchRequest(query="warm up", limit=1))
    for offset in offsets:
        if len(asked) == count:
            break
        listed = ListRequest(limit=1, offset=offset, filters=filters)
        for item in (await engine.list_memories(listed)).items:
            made = make_question(await engine.memories.get(item.memory_id))
            if made is not None:
                origin, question = made
                request = SearchRequest(query=question, limit=DEPTH, filters=filters)
                started = time.perf_counter()
                hits = (await engine.search_memory(request)).results
                spent = (time.perf_counter() - started) * 1000
                places = [
                    place for place, hit in enumerate(hits, 1) if hit.memory_id == item.memory_id
                ]
                asked.append(
                    Asked(item.memory_id, origin, question, min(places, default=None), spent)
                )
        progress(len(asked), min(count, total))
    return asked, warm.notice


async def _ask_again(
    engine: ZapomniEngine, filters: dict[str, Any], count: int, seed: int, progress: Progress
) -> tuple[list[Asked], str | None]:
    del seed  # the newest, not a sample
    projects = None
    if "project" in filters:
        projects = await engine.observations.project_keys(filters["project"])
    questions = engine.recalls.read_questions(projects)[:count]
    warm = await engine.search_memory(SearchRequest(query="warm up", limit=1))
    asked = []
    for one in questions:
        used = {f"#{item}" if kind == "observation" else item for kind, item in one.used}
        started = time.perf_counter()
        hits = (await engine.search_memory(SearchRequest(query=one.query, limit=DEPTH))).results
        spent = (time.perf_counter() - started) * 1000
        found = [hit.memory_id or f"#{hit.observation_id}" for hit in hits]
        place = min((n for n, item in enumerate(found, 1) if item in used), default=None)
        asked.append(Asked(", ".join(sorted(used)), one.how, one.query, place, spent))
        progress(len(asked), len(questions))
    return asked, warm.notice


def make_question(record: MemoryRecord) -> tuple[str, str] | None:
    """Return the origin of a question and the question; None if too few words are informative."""
    for origin, words in _beginnings(record):
        question = _leave_words_out(words)
        if question is not None:
            return origin, question
    return None


def _beginnings(record: MemoryRecord) -> Iterable[tuple[str, str]]:
    if isinstance(title := record.metadata.get("title"), str):
        yield "title", title
    if heading := _HEADING.search(record.text):
        yield "heading", heading[1]
    start = record.text.lstrip()
    end = _SENTENCE_END.search(start)
    sentence = start[: end.start()] if end else start
    yield "prompt" if record.kind == "prompt" else "sentence", sentence[:LONGEST_SENTENCE]


def _leave_words_out(text: str) -> str | None:
    words = _WORD.findall(text)
    keywords = set(query_terms(text))
    # A name such as user_id is several terms to the index; any of them makes it a keyword.
    marked = [bool(keywords.intersection(query_terms(word))) for word in words]
    if sum(marked) < FEWEST_WORDS:
        return None
    kept, seen = [], 0
    for word, rare in zip(words, marked, strict=True):
        seen += rare
        if not (rare and seen % LEAVE_OUT == 0):
            kept.append(word)
    return " ".join(kept)


def summarize(asked: Sequence[Asked]) -> dict[str, float]:
    """Return how many questions there were, recall at 1, 5 and 10, and MRR."""
    places = [one.place or math.inf for one in asked]
    count = len(asked) or 1
    recalls = {f"recall_at_{k}": sum(place <= k for place in places) / count for k in (1, 5, 10)}
    mean = sum(1 / place for place in places) / count
    figures = {**recalls, "mrr_at_10": mean}
    return {"questions": len(asked), **{name: round(value, 4) for name, value in figures.items()}}


def _as_json(asked: Sequence[Asked]) -> dict[str, Any]:
    origins = sorted({one.origin for one in asked})
    ordered = sorted(one.milliseconds for one in asked)
    at = {f"latency_ms_p{p}": math.ceil(len(ordered) * p / 100) - 1 for p in (50, 95)}
    return {
        **summarize(asked),
        **{name: round(ordered[n], 1) if ordered else None for name, n in at.items()},
        "by_origin": {name: summarize([a for a in asked if a.origin == name]) for name in origins},
        "missed": [
            {"memory_id": one.memory_id, "question": one.question}
            for one in asked
            if one.place is None
        ],
    }


def _print(asked: Sequence[Asked]) -> None:
    report = _as_json(asked)
    rows = [("made from", "questions", "recall@1", "recall@5", "recall@10", "MRR")]
    for name, figures in (*report["by_origin"].items(), ("all", report)):
        recalls = (figures[f"recall_at_{k}"] for k in (1, 5, 10))
        shown = (f"{value:.3f}" for value in (*recalls, figures["mrr_at_10"]))
        rows.append((name, str(figures["questions"]), *shown))
    print_table(rows)
    p50, p95 = report["latency_ms_p50"], report["latency_ms_p95"]
    click.echo(f"A search took {p50} ms, one in twenty more than {p95} ms.", err=True)
    if report["missed"]:
        click.echo(
            f"{count_of(len(report['missed']), 'memory', 'memories')} not among the first ten; "
            "--json lists them.",
            err=True,
        )
