"""From a docstring to its function: our search beside plain BM25 over whole functions.

python -m benchmarks.code_search [--packages requests flask click] [--missed]

Every docstring is taken out of a package. The first paragraph of each function's is the question,
the function, without it, the answer. BM25 ranks the functions' source, words of letters and digits
in lower case. Zapomni indexes the package as any other and is searched by its public engine, with
the settings a new user has; of what it finds, functions and methods count, as in BM25.
"""

from __future__ import annotations

import argparse
import ast
import asyncio
import json
import math
import re
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from statistics import fmean
from typing import NamedTuple

from benchmarks.packages import unpacked
from zapomni_core.engine import create_engine
from zapomni_core.infra.logging import setup_logging
from zapomni_core.modules.codebase import CodeSearchRequest, IndexRequest
from zapomni_core.settings import load_settings
from zapomni_core.shared.measures import reciprocal_rank_at

K = 10
LEAST_WORDS = 4
DEPTH = 50

_WORD = re.compile(r"[^\W_]+")


class Function(NamedTuple):
    path: str
    name: str
    text: str
    question: str

    @property
    def key(self) -> str:
        return f"{self.path}:{self.name}"


def functions(root: Path, target: Path) -> list[Function]:
    """Copy a package without its docstrings; return its functions."""
    found: list[Function] = []
    for path in sorted(root.rglob("*.py")):
        source = path.read_text(encoding="utf-8")
        docs = dict(_docstrings(ast.parse(source)))
        bare = _without(source, docs.values())
        place = target / path.relative_to(root)
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(bare, encoding="utf-8")
        questions = {name: _question(node.value.value) for name, node in docs.items()}
        for name, node in _functions(ast.parse(bare)):
            text = ast.get_source_segment(bare, node) or ""
            relative = str(path.relative_to(root))
            found.append(Function(relative, name, text, questions.get(name, "")))
    return _asked_once(found)


def _docstrings(tree: ast.Module) -> Iterator[tuple[str, ast.Expr]]:
    for name, node in _scopes(tree):
        first = node.body[0] if node.body else None
        value = first.value if isinstance(first, ast.Expr) else None
        if isinstance(value, ast.Constant) and isinstance(value.value, str):
            yield name, first


def _scopes(tree: ast.AST, above: str = "") -> Iterator[tuple[str, ast.AST]]:
    yield above, tree
    for node in _inside(tree):
        name = f"{above}.{node.name}" if above else node.name
        yield from _scopes(node, name)


def _inside(node: ast.AST) -> Iterator[ast.AST]:
    """Yield the functions and classes of a scope, those under an `if` as well."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield child
        else:
            yield from _inside(child)


def _functions(tree: ast.Module) -> Iterator[tuple[str, ast.AST]]:
    for name, node in _scopes(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield name, node


def _without(source: str, docs) -> str:
    """Put `pass` where each docstring was; every line keeps its number."""
    lines = source.encode().splitlines(keepends=True)
    for node in docs:
        first, last = node.lineno - 1, node.end_lineno - 1
        head, tail = lines[first][: node.col_offset], lines[last][node.end_col_offset :]
        lines[first : last + 1] = [head + b"pass" + tail, *[b"\n"] * (last - first)]
    return b"".join(lines).decode()


def _question(docstring: str) -> str:
    paragraph = docstring.strip().split("\n\n")[0]
    words = " ".join(paragraph.split())
    return words if len(_WORD.findall(words)) >= LEAST_WORDS else ""


def _asked_once(found: list[Function]) -> list[Function]:
    """Leave out the questions to which several functions would be the answer."""
    counts = Counter(one.question for one in found)
    return [one if counts[one.question] == 1 else one._replace(question="") for one in found]


class BM25:
    """Robertson's formula with the usual k1 = 1.2 and b = 0.75."""

    def __init__(self, texts: list[str]) -> None:
        self.words = [Counter(word.lower() for word in _WORD.findall(text)) for text in texts]
        self.lengths = [sum(words.values()) for words in self.words]
        self.mean = sum(self.lengths) / len(texts)
        self.places: dict[str, list[int]] = defaultdict(list)
        for place, words in enumerate(self.words):
            for word in words:
                self.places[word].append(place)

    def ranking(self, question: str) -> list[int]:
        scores: Counter[int] = Counter()
        for word in {word.lower() for word in _WORD.findall(question)}:
            holding = self.places.get(word, [])
            rarity = math.log(1 + (len(self.words) - len(holding) + 0.5) / (len(holding) + 0.5))
            for place in holding:
                count = self.words[place][word]
                norm = 1.2 * (0.25 + 0.75 * self.lengths[place] / self.mean)
                scores[place] += rarity * count * 2.2 / (count + norm)
        return [place for place, _ in scores.most_common(K)]


async def ours(root: Path, asked: list[Function]) -> list[list[str]]:
    """Index a folder and return what is found for each question."""
    settings = load_settings()
    with tempfile.TemporaryDirectory() as home:
        own = load_settings(home=Path(home), models_dir=settings.models_path)
        async with await create_engine(own) as engine:
            task = await engine.code.index(IndexRequest(path=str(root), folder="/"))
            status = await engine.tasks.run_task(task, lambda _: None)
            assert status.status == "completed", status.error
            return [await _found(engine, one.question) for one in asked]


async def _found(engine, question: str) -> list[str]:
    request = CodeSearchRequest(query=question, repository="*", limit=DEPTH)
    hits = (await engine.code.search(request)).hits
    names = [f"{hit.path}:{hit.name.partition('#')[0]}" for hit in hits
             if hit.kind in ("function", "method")]  # fmt: skip
    return list(dict.fromkeys(names))[:K]


def _mrr(rankings: list[list[str]], asked: list[Function]) -> float:
    pairs = zip(rankings, asked, strict=True)
    return fmean(reciprocal_rank_at(K, ranking, {one.key}) for ranking, one in pairs)


def measure(name: str) -> tuple[dict, list[str]]:
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder) / name
        known = functions(unpacked(name), root)
        asked = [one for one in known if one.question]
        bm25 = BM25([one.text for one in known])
        plain = [[known[n].key for n in bm25.ranking(one.question)] for one in asked]
        found = asyncio.run(ours(root, asked))
    baseline, own = _mrr(plain, asked), _mrr(found, asked)
    missed = [
        f"{one.key}  {one.question[:100]}"
        for ranking, one in zip(found, asked, strict=True)
        if one.key not in ranking
    ]
    return {
        "benchmark": "code_search",
        "package": name,
        "functions": len(known),
        "questions": len(asked),
        "bm25_mrr_at_10": round(baseline, 3),
        "zapomni_mrr_at_10": round(own, 3),
        "gain": round(own / baseline - 1, 3),
    }, missed


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--packages", nargs="+", default=["requests", "flask", "click"])
    parser.add_argument("--missed", action="store_true", help="list what was not among the ten")
    options = parser.parse_args()
    setup_logging("ERROR")
    lines = []
    for name in options.packages:
        line, missed = measure(name)
        lines.append(line)
        print(json.dumps(line), flush=True)
        for one in missed if options.missed else []:
            print("   ", one)
    totals = {}
    for measured in ("bm25_mrr_at_10", "zapomni_mrr_at_10"):
        weighted = sum(line[measured] * line["questions"] for line in lines)
        totals[measured] = round(weighted / sum(line["questions"] for line in lines), 3)
    gain = round(totals["zapomni_mrr_at_10"] / totals["bm25_mrr_at_10"] - 1, 3)
    print(json.dumps({"benchmark": "code_search", "package": "all", **totals, "gain": gain}))


if __name__ == "__main__":
    main()
