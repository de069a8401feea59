"""How well questions in other languages find, with the model and by words alone.

    python -m benchmarks.languages --texts de=FOLDER [--texts ja=FOLDER ...] [--questions 600]

FOLDER: translated documentation, gettext catalogs (.po) or Markdown; nothing of it is kept here. A
paragraph of two sentences or more is a passage; its longest sentence is taken out and asked. Of a
catalog, the sentence of the original at the same place is asked, too (`english`), if both have as
many sentences. One JSON line per language: recall and reciprocal rank of the default and of words
alone, and the mean difference of recall@10 with its bounds of 95 % (paired bootstrap).
"""

from __future__ import annotations

import argparse
import json
import random
import re
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from benchmarks import scoring
from benchmarks.systems import zapomni, zapomni_words

SEED = 11
RESAMPLES = 2000
LIMIT = 10
SHORTEST, LONGEST = 80, 1500
SHORTEST_QUESTION = {"zh": 10, "ja": 12}
_QUOTED = re.compile(r'"((?:[^"\\]|\\.)*)"')
_ROLE = re.compile(
    r":[\w:+-]+:`[!~]?([^`<]*?)(?:\s*<[^`]*>)?`"
    r"|`{1,2}([^`]*)`{1,2}_*"
    r"|\*{1,2}([^*]+)\*{1,2}"
)
_LINK = re.compile(r"!?\[([^\]]*)\]\([^)]*\)|<[^>]+>")
# With the full stops and marks of Chinese and Japanese.
_END = ".!?\u3002\uff01\uff1f"
_SENTENCE = re.compile(rf"[^{_END}]+(?:[.!?](?!\s|$)[^{_END}]*)*[{_END}]+[\s\u201d\xbb\u300d)]*")


def read_pairs(folder: Path) -> Iterator[tuple[str, str]]:
    """Return translated paragraphs, each with its original if that is known."""
    for path in sorted(folder.rglob("*.po")):
        original, translated, fuzzy, into = "", "", False, ""
        for line in [*path.read_text(encoding="utf-8").splitlines(), ""]:
            if line.startswith("#, fuzzy"):
                fuzzy = True
            elif line.startswith(("msgid ", "msgstr ")):
                into = line.split()[0]
            text = "".join(_QUOTED.findall(line)) if not line.startswith("#") else ""
            if into == "msgid":
                original += text
            elif into == "msgstr":
                translated += text
            if not line:
                if original and translated and original != translated and not fuzzy:
                    yield _plain(original), _plain(translated)
                original, translated, fuzzy, into = "", "", False, ""
    for path in sorted(folder.rglob("*.md")):
        for paragraph in re.split(r"\n\s*\n", path.read_text(encoding="utf-8")):
            if not paragraph.startswith(("```", "    ", "|", "#", ">", "-", "<")):
                yield "", _plain(_LINK.sub(r"\1", paragraph))


def _plain(text: str) -> str:
    text = text.replace("\\n", " ").replace('\\"', '"').replace("\\\\", "\\")
    text = _ROLE.sub(lambda found: found[1] or found[2] or found[3] or "", text)
    return " ".join(text.replace("::", ":").split())


def build(language: str, folder: Path, count: int, passages: int) -> dict[str, Any]:
    """Return passages, and questions taken out of some of them."""
    pairs = [
        pair for pair in dict.fromkeys(read_pairs(folder)) if SHORTEST <= len(pair[1]) <= LONGEST
    ]
    random.Random(SEED).shuffle(pairs)
    docs, questions = [], []
    for number, (original, text) in enumerate(pairs):
        if len(docs) >= passages and len(questions) >= count:
            break
        sentences = [s.strip() for s in _SENTENCE.findall(text)]
        english = [s.strip() for s in _SENTENCE.findall(original)]
        least = SHORTEST_QUESTION.get(language[:2], 30)
        if len(sentences) > 1 and len(questions) < count:
            longest = max(range(len(sentences)), key=lambda i: len(sentences[i]))
            rest = " ".join(s for i, s in enumerate(sentences) if i != longest)
            if len(sentences[longest]) >= least <= len(rest):
                asked = {"text": sentences[longest][:300], "rel": [f"{language}{number}"]}
                if len(english) == len(sentences):
                    asked["english"] = english[longest][:300]
                questions.append(asked)
                docs.append({"id": f"{language}{number}", "text": rest})
                continue
        if len(docs) - len(questions) < passages - count:
            docs.append({"id": f"{language}{number}", "text": text})
    return {"docs": docs, "queries": questions}


def ask(
    index: zapomni.Index, questions: Sequence[str], relevant: Sequence[list[str]]
) -> list[dict]:
    return [
        scoring.score(index.search(question, LIMIT), rel)
        for question, rel in zip(questions, relevant, strict=True)
    ]


def compare(
    one: Sequence[dict], other: Sequence[dict], measure: str = "recall_at_10"
) -> list[float]:
    """Return how much better one is, with the bounds of 95 %."""
    differences = [a[measure] - b[measure] for a, b in zip(one, other, strict=True)]
    chance = random.Random(SEED)
    means = sorted(
        sum(chance.choices(differences, k=len(differences))) / len(differences)
        for _ in range(RESAMPLES)
    )
    mean = sum(differences) / len(differences)
    bounds = (means[RESAMPLES // 40], means[-RESAMPLES // 40])
    return [round(number, 4) for number in (mean, *bounds)]


def measure(language: str, space: dict[str, Any], folder: Path) -> dict[str, Any]:
    """Index one language, ask its questions both ways."""
    own = [(query["text"], query["rel"]) for query in space["queries"]]
    english = [(q["english"], q["rel"]) for q in space["queries"] if "english" in q]
    scored: dict[str, dict[str, list[dict]]] = {}
    documents: dict[str, list[str]] = {}
    for name, module in (("default", zapomni), ("words", zapomni_words)):
        # One store for both: without an embedder its vectors are not used.
        index = module.Index(folder, None)
        if documents:
            index.load_documents(documents)
        else:
            folder.mkdir(parents=True, exist_ok=True)
            index.add(space["docs"])
            documents = index.all_documents()
        scored[name] = {
            asked: ask(index, *zip(*questions, strict=True)) if questions else []
            for asked, questions in (("own", own), ("english", english))
        }
        index.close()
    line: dict[str, Any] = {"language": language, "passages": len(space["docs"])}
    for asked in ("own", "english"):
        default, words = scored["default"][asked], scored["words"][asked]
        if default:
            line[asked] = {
                "questions": len(default),
                "default": scoring.average(default),
                "words": scoring.average(words),
                "difference": compare(default, words),
            }
    return line


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--texts", action="append", required=True, metavar="LANGUAGE=FOLDER")
    parser.add_argument("--questions", type=int, default=600)
    parser.add_argument("--passages", type=int, default=2000)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="zapomni-bench-") as temporary:
        for given in options.texts:
            language, _, folder = given.partition("=")
            space = build(language, Path(folder), options.questions, options.passages)
            print(json.dumps(measure(language, space, Path(temporary) / language)), flush=True)


if __name__ == "__main__":
    main()
