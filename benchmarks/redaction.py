"""How many secrets are masked, and how much ordinary text is masked by mistake.

    python -m benchmarks.redaction [--data DIR] [--missed 20]

Without `--data`: made-up secrets of every kind the tests know. With it: every `*.jsonl` file in the
folder, one object a line with `kind`, `text`, `secret` and, if the secret has a format of its own,
`named`: true; or a checkout of CredSweeper, whose expected findings are read. A secret counts as
masked if no run of more than a fifth of its characters survives where it was.

Ordinary text is the Python standard library's sources (its tests left out: they are full of made-up
credentials) and the Markdown and reStructuredText files of the packages installed here. One JSON
object: the masked share, overall, of named formats, of the rest and by kind; false hits per MB.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import sysconfig
import time
from collections import Counter
from collections.abc import Iterator
from difflib import SequenceMatcher
from pathlib import Path
from typing import NamedTuple

from zapomni_core.shared.redaction import RULES_VERSION, Redactor

# What CredSweeper finds by the name next to a value, not by the value's own format.
GENERIC = frozenset(
    "API|Auth|Credential|Key|Nonce|Password|Salt|Secret|Token|UUID|SQL Password|URL Credentials|"
    "CURL Options|CURL User Password|CMD Password|CMD Secret|CMD Token|CMD ConvertTo-SecureString|"
    "Basic Authorization|Bearer Authorization|OTP / 2FA Secret|AWS S3 Bucket|Firebase Domain".split(
        "|"
    )
)
WINDOW = 32_768


class Sample(NamedTuple):
    kind: str
    text: str
    secret: str
    named: bool


def read_samples(folder: Path) -> Iterator[Sample]:
    expected = folder / "tests" / "data" / "output.json"
    if expected.is_file():
        seen = set()
        for finding in json.loads(expected.read_text(encoding="utf-8")):
            if len(finding["line_data_list"]) == 1:
                line = finding["line_data_list"][0]
                kind = finding["rule"]
                sample = Sample(kind, line["line"], line["value"], kind not in GENERIC)
                if sample not in seen:
                    seen.add(sample)
                    yield sample
    for path in sorted(folder.glob("*.jsonl")):
        for row in path.read_text(encoding="utf-8").splitlines():
            item = json.loads(row)
            yield Sample(item["kind"], item["text"], item["secret"], bool(item.get("named")))


def made_up_samples(per_kind: int = 30) -> Iterator[Sample]:
    sys.path.insert(0, str(Path(__file__).parent.parent / "tests" / "security"))
    from secret_kinds import CONTEXTS, FORMATS, IN_CONTEXT, Dice

    dice = Dice(7)
    for kind, make in FORMATS.items():
        for number in range(per_kind):
            secret = make(dice)
            context = list(CONTEXTS.values())[number % len(CONTEXTS)]
            # Of an address, the longest part is the secret.
            part = max(re.split(r"[/=;&?\n]", secret), key=len)
            yield Sample(kind, context(secret), part, named=True)
    for kind, place in IN_CONTEXT.items():
        for _ in range(per_kind):
            secret, line = place(dice)
            yield Sample(kind, line, secret, named=False)


def is_masked(sample: Sample, redacted: str) -> bool:
    """Return whether at most a fifth of the secret survives in one piece."""
    # What other words of the line share with the secret is no leak.
    around = sample.text.replace(sample.secret, "\n")
    allowed = max(_longest_run(sample.secret, around), len(sample.secret) // 5, 1)
    left = re.sub(r"\[REDACTED:[a-z0-9-]+:[0-9a-f]{4}\]", "\n", redacted)
    return _longest_run(sample.secret, left) <= allowed


def _longest_run(secret: str, text: str) -> int:
    return SequenceMatcher(None, secret, text, autojunk=False).find_longest_match().size


def ordinary_texts() -> Iterator[tuple[str, Path]]:
    library = Path(sysconfig.get_paths()["stdlib"])
    for path in sorted(library.rglob("*.py")):
        if not {"site-packages", "test", "tests", "idle_test"} & {*path.parts}:
            yield "source", path
    for packages in (path for path in sys.path if path.endswith("site-packages")):
        for pattern in ("*.md", "*.rst", "METADATA"):
            for path in sorted(Path(packages).rglob(pattern)):
                yield "prose", path


def count_false_hits(redactor: Redactor, show: int) -> dict[str, float]:
    hits: Counter[str] = Counter()
    size: Counter[str] = Counter()
    for group, path in ordinary_texts():
        text = path.read_text(encoding="utf-8", errors="replace")
        size[group] += len(text)
        for start in range(0, len(text), WINDOW):
            part = text[start : start + WINDOW]
            redacted, count = redactor.redact(part)
            hits[group] += count
            if count and show:
                for line in redacted.splitlines():
                    if "[REDACTED:" in line:
                        print(f"{path.name}: {line.strip()[:160]}", file=sys.stderr)
    report = {f"{group}_mb": round(size[group] / 1e6, 2) for group in size}
    report |= {f"{group}_hits_per_mb": round(hits[group] / size[group] * 1e6, 2) for group in size}
    report["hits_per_mb"] = round(hits.total() / size.total() * 1e6, 2)
    return report


def share(masked: int, total: int) -> float | None:
    return round(100 * masked / total, 1) if total else None


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, help="a folder of samples")
    parser.add_argument("--missed", type=int, default=0, help="print so many missed samples")
    parser.add_argument(
        "--false-hits", action="store_true", help="print what was masked by mistake"
    )
    parser.add_argument("--skip-ordinary", action="store_true", help="measure samples only")
    options = parser.parse_args()
    redactor = Redactor({}, b"benchmark")
    total: Counter[tuple[bool, str]] = Counter()
    masked: Counter[tuple[bool, str]] = Counter()
    missed = options.missed
    for sample in read_samples(options.data) if options.data else made_up_samples():
        total[sample.named, sample.kind] += 1
        redacted = redactor.redact(sample.text)[0]
        if is_masked(sample, redacted):
            masked[sample.named, sample.kind] += 1
        elif missed:
            missed -= 1
            print(f"{sample.kind}: {sample.secret[:60]!r} in {redacted[:200]!r}", file=sys.stderr)
    report: dict[str, object] = {"rules": RULES_VERSION, "samples": total.total()}
    report["masked_percent"] = share(masked.total(), total.total())
    for word, named in (("named", True), ("generic", False)):
        of = sum(n for key, n in total.items() if key[0] is named)
        report[f"{word}_samples"] = of
        report[f"{word}_masked_percent"] = share(
            sum(n for key, n in masked.items() if key[0] is named), of
        )
    if not options.skip_ordinary:
        started = time.process_time()
        report |= count_false_hits(redactor, options.false_hits)
        report["cpu_seconds"] = round(time.process_time() - started, 1)
    report["missed_by_kind"] = {
        kind: f"{n - masked[named, kind]} of {n}"
        for (named, kind), n in sorted(total.items())
        if masked[named, kind] < n
    }
    print(json.dumps(report, indent=1))


if __name__ == "__main__":
    main()
