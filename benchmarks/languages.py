"""How well questions in other languages find, with the model and by words alone.

    python -m benchmarks.languages --texts de=FOLDER [--texts ja=FOLDER:ORIGINAL ...]

FOLDER: translated documentation, gettext catalogs (.po) or Markdown; nothing of it is kept here. A
paragraph of two sentences or more is a passage; its longest sentence is taken out and asked. Of a
catalog, and of Markdown whose originals are in the folder ORIGINAL under the same names, the
sentence of the original at the same place is asked, too (`english`), if both have as many
sentences; and of the originals themselves, in a store of their own (`originals`): what the English
model finds of the same paragraphs in English is the most to expect of a translation. One JSON line
per language: recall and reciprocal rank of words alone, of the default
and with the multilingual model if that was pulled, and how much better than words alone recall@10
is, with its bounds of 95 % (paired bootstrap). `--among FOLDER`: Markdown in English is stored next
to them, and asked as well (`amid`).
"""

from __future__ import annotations

import argparse
import json
import random
import re
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, ClassVar

from benchmarks import scoring
from benchmarks.systems import zapomni, zapomni_words
from zapomni_core.adapters.model_files import MODEL, MULTILINGUAL, find_files
from zapomni_core.settings import load_settings

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


def read_pairs(folder: Path, originals: Path | None = None) -> Iterator[tuple[str, str]]:
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
        paragraphs = _paragraphs(path)
        original = originals / path.relative_to(folder) if originals else path
        own = _paragraphs(original) if original != path and original.is_file() else []
        own = own if len(own) == len(paragraphs) else [""] * len(paragraphs)
        for text, paragraph in zip(own, paragraphs, strict=True):
            if not paragraph.startswith(("```", "    ", "|", "#", ">", "-", "<", "/", "{")):
                yield _plain(_LINK.sub(r"\1", text)), _plain(_LINK.sub(r"\1", paragraph))


def _paragraphs(path: Path) -> list[str]:
    return re.split(r"\n\s*\n", path.read_text(encoding="utf-8"))


def _plain(text: str) -> str:
    text = text.replace("\\n", " ").replace('\\"', '"').replace("\\\\", "\\")
    text = _ROLE.sub(lambda found: found[1] or found[2] or found[3] or "", text)
    return " ".join(text.replace("::", ":").split())


def build(
    language: str, folder: Path, count: int, passages: int, originals: Path | None = None
) -> dict[str, Any]:
    """Return passages, and questions taken out of some of them."""
    pairs = [
        pair
        for pair in dict.fromkeys(read_pairs(folder, originals))
        if SHORTEST <= len(pair[1]) <= LONGEST
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
            rest = _without(sentences, longest)
            if len(sentences[longest]) >= least <= len(rest):
                asked = {"text": sentences[longest][:300], "rel": [f"{language}{number}"]}
                doc = {"id": f"{language}{number}", "text": rest}
                if len(english) == len(sentences):
                    asked["english"] = english[longest][:300]
                    doc["original"] = _without(english, longest)
                questions.append(asked)
                docs.append(doc)
                continue
        if len(docs) - len(questions) < passages - count:
            docs.append({"id": f"{language}{number}", "text": text, "original": original})
    return {"docs": docs, "queries": questions}


def _without(sentences: Sequence[str], number: int) -> str:
    return " ".join(s for i, s in enumerate(sentences) if i != number)


def originals_of(space: dict[str, Any]) -> dict[str, Any]:
    """Return the same paragraphs in English, and the same questions."""
    docs = [{"id": d["id"], "text": d["original"]} for d in space["docs"] if d.get("original")]
    queries = [{"text": q["english"], "rel": q["rel"]} for q in space["queries"] if "english" in q]
    return {"docs": docs, "queries": queries}


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


def choose_systems(folder: Path) -> dict[str, type[zapomni.Index]]:
    """Return the systems that are compared; the one that has every model makes the store."""
    models = load_settings().models_path
    alone = folder / "models"
    alone.mkdir()
    (alone / MODEL).symlink_to(models / MODEL)

    class English(zapomni.Index):
        settings: ClassVar[dict[str, str]] = {"models_dir": str(alone)}

    several = {"multilingual": zapomni.Index} if find_files(models, MULTILINGUAL) else {}
    return {**several, "default": English, "words": zapomni_words.Index}


def measure(
    language: str,
    space: dict[str, Any],
    among: dict[str, Any],
    folder: Path,
    compared: dict[str, type[zapomni.Index]],
) -> dict[str, Any]:
    """Index one language, ask its questions in every way."""
    asked_of = {
        "own": [(query["text"], query["rel"]) for query in space["queries"]],
        "english": [(q["english"], q["rel"]) for q in space["queries"] if "english" in q],
        "amid": [(query["text"], query["rel"]) for query in among["queries"]],
    }
    scored: dict[str, dict[str, list[dict]]] = {}
    documents: dict[str, list[str]] = {}
    for name, system in compared.items():
        # One store for all: vectors without their model are not used.
        index = system(folder, None)
        if documents:
            index.load_documents(documents)
        else:
            folder.mkdir(parents=True, exist_ok=True)
            index.add([*among["docs"], *space["docs"]])
            documents = index.all_documents()
        scored[name] = {
            asked: ask(index, *zip(*questions, strict=True)) if questions else []
            for asked, questions in asked_of.items()
        }
        index.close()
    passages = len(space["docs"]) + len(among["docs"])
    line: dict[str, Any] = {"language": language, "passages": passages}
    for asked, questions in asked_of.items():
        if not questions:
            continue
        line[asked] = {"questions": len(questions)}
        for name in compared:
            line[asked][name] = scoring.average(scored[name][asked])
            if name != "words":
                difference = compare(scored[name][asked], scored["words"][asked])
                line[asked][name]["above_words"] = difference
            if name == "multilingual":
                difference = compare(scored[name][asked], scored["default"][asked])
                line[asked][name]["above_default"] = difference
    return line


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--texts", action="append", required=True, metavar="LANGUAGE=FOLDER")
    parser.add_argument("--among", metavar="FOLDER")
    parser.add_argument("--questions", type=int, default=600)
    parser.add_argument("--passages", type=int, default=2000)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="zapomni-bench-") as temporary:
        compared = choose_systems(Path(temporary))
        count, passages = options.questions, options.passages
        among: dict[str, Any] = {"docs": [], "queries": []}
        if options.among:
            among = build("en", Path(options.among), count, passages)
        for given in options.texts:
            language, _, folders = given.partition("=")
            folder, _, originals = folders.partition(":")
            space = build(
                language, Path(folder), count, passages, Path(originals) if originals else None
            )
            line = measure(language, space, among, Path(temporary) / language, compared)
            english = originals_of(space)
            if english["queries"]:
                alone = {name: one for name, one in compared.items() if name != "multilingual"}
                place = Path(temporary) / f"{language}-originals"
                found = measure("en", english, {"docs": [], "queries": []}, place, alone)
                line["originals"] = {"passages": found["passages"], **found["own"]}
            print(json.dumps(line), flush=True)


if __name__ == "__main__":
    main()
