"""A structural mutator of hook events: real payloads, changed as JSON and then as bytes.

Seeded: the same number gives the same event, so a failure names the event that caused it.
"""

from __future__ import annotations

import copy
import json
import random
from pathlib import Path
from typing import Any

__all__ = ["PAYLOADS", "mutate"]

SAMPLES = Path(__file__).parents[1] / "fixtures" / "hooks"
PAYLOADS = [
    json.loads(path.read_text(encoding="utf-8"))
    for path in sorted([*SAMPLES.glob("*.json"), *SAMPLES.glob("documented/*.json")])
]


class Object(list):
    """A JSON object as pairs, so that a name can occur twice."""


class Raw(str):
    """JSON text that is written as it is."""

    __slots__ = ()


def as_tree(value: Any) -> Any:
    if isinstance(value, dict):
        return Object([name, as_tree(inner)] for name, inner in value.items())
    return [as_tree(inner) for inner in value] if isinstance(value, list) else value


def dump(value: Any) -> str:
    if isinstance(value, Raw):
        return value
    if isinstance(value, Object):
        return "{" + ",".join(f"{json.dumps(n)}:{dump(inner)}" for n, inner in value) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(dump, value)) + "]"
    return json.dumps(value)


def names_of(value: Any) -> set[str]:
    if isinstance(value, Object):
        return {name for name, _ in value}.union(*(names_of(inner) for _, inner in value))
    return set().union(*map(names_of, value)) if isinstance(value, list) else set()


TREES = [as_tree(payload) for payload in PAYLOADS]
# What hooks store something of; the others are mostly ignored, whatever is in them.
STORED = [
    tree
    for tree, payload in zip(TREES, PAYLOADS, strict=True)
    if not str(payload.get("hook_event_name", "")).startswith(("Pre", "Perm", "Instr", "Stop"))
]
NAMES = sorted(set().union(*map(names_of, TREES)))
WORDS = sorted(
    {v for payload in PAYLOADS for v in payload.values() if isinstance(v, str) and len(v) < 60}
)

IDS = ("session_id", "prompt_id", "tool_use_id", "turn_id", "conversation_id", "trajectory_id")
REQUIRED = ("session_id", "cwd", "hook_event_name")

SURROGATES = ["\ud800", "\udfff", "a\udc00b", "\ud83d", "\ude00\ud83d"]
CONTROLS = ["\x00", "a\x00b", "\x1b[31mred", "\x9b2J", "\x7f", "\r\n\r", "\x85", "\u2028"]
BIDI = ["\u202etxt.exe", "\u2066\u2069", "\u200b\u200c\u200d", "\ufeff", "a\u0301" * 50]
DATES = [
    "0000-00-00T00:00:00Z",
    "9999-12-31T23:59:59Z",
    "10000-01-01T00:00:00Z",
    "2026-02-30T25:61:61+99:99",
    "-0001-01-01T00:00:00Z",
    "2026-01-01",
    "now",
]
PATHS = ["", "/", "//", "..", "../" * 400, "/proc/self/mem", "C:\\x", "~", "/a" * 3000, "/x\x00y"]
SHAPES = [
    "-----BEGIN PRIVATE" + " KEY-----\n",
    "*** Begin Patch\n*** Update File: \n@@\n+",
    "+++ b/\n--- a/\n@@ -1 +1 @@\n+x",
    "git commit -m '",
    'git push "',
    "[main abc1234] \n 1 file changed",
    "Exit code 99999999999",
    "Traceback (most recent call last)\nE   \nError",
    "<hook_context>",
    "<system-reminder>",
    "password='",
    '{"a": ',
    "mcp__",
    "mcp____",
    "%s%n{}{0}",
    "'; DROP TABLE observations; --",
]
NUMBERS = [
    *(0, -1, 1, 2**31, 2**53, 2**63 - 1, 2**63, -(2**63) - 1, 10**400, 1e308, -1e-308),
    *(1e9, 1e10, 1e11, 1e18, -62135596801, 253402300800),
    *(Raw("1e999"), Raw("-1e999"), Raw("NaN"), Raw("Infinity"), Raw("-0.0"), Raw("1" * 5000)),
]


class Mutation:
    """One mutated event, made of one number."""

    def __init__(self, seed: int) -> None:
        self.dice = random.Random(seed)

    def text(self) -> str:
        dice = self.dice
        kind = dice.randrange(9)
        if kind == 0:
            size = dice.choice([10, 300, 5000, 20_000, 70_000, 70_000, 1_000_000])
            return (dice.choice(["a", "ab ", "x=1\n", "\U0001f600", "\ud800", "é "]) * size)[:size]
        if kind == 1:
            return "".join(chr(dice.choice([*range(256), *range(0x1F00)])) for _ in range(20))
        lists = [SURROGATES, CONTROLS, BIDI, DATES, PATHS, SHAPES, WORDS]
        return dice.choice(lists[kind - 2])

    def value(self) -> Any:
        dice = self.dice
        kind = dice.randrange(12)
        if kind < 6:
            return self.text()
        if kind < 8:
            return dice.choice(NUMBERS)
        if kind == 8:
            return dice.choice([None, True, False, [], Object()])
        if kind == 9:
            return Object([dice.choice(NAMES), self.text()] for _ in range(dice.randrange(5)))
        if kind == 10:
            return [self.text() for _ in range(dice.randrange(5))]
        depth = dice.choice([3, 50, 400, 900, 980, 5000])
        opening, closing = dice.choice([("[", "]"), ('{"a":', "}")])
        return Raw(opening * depth + "1" + closing * depth)

    def places(self, value: Any, found: list[tuple[list[Any], int]] | None = None) -> list[Any]:
        """Return every container and position in a tree, the root's own children included."""
        found = [] if found is None else found
        if isinstance(value, list):
            for position, inner in enumerate(value):
                found.append((value, position))
                self.places(inner[1] if isinstance(value, Object) else inner, found)
        return found

    def change(self, tree: Object) -> None:
        dice = self.dice
        places = self.places(tree)
        if not places:
            tree.append([dice.choice(NAMES), self.value()])
            return
        holder, position = dice.choice(places)
        pair = isinstance(holder, Object)
        if pair and holder[position][0] in REQUIRED and dice.random() < 0.7:
            return  # Without these the event ends at the door.
        old = holder[position][1] if pair else holder[position]
        kind = dice.randrange(10)
        if kind == 0:
            del holder[position]
        elif kind == 1:
            twin = copy.deepcopy(holder[position])
            if pair and dice.random() < 0.7:
                twin[1] = self.value()
            holder.insert(dice.randrange(len(holder) + 1), twin)
        elif kind == 2 and pair:
            holder[position][0] = dice.choice([dice.choice(NAMES), self.text()])
        elif kind == 3:
            # Another payload's part, which belongs somewhere else.
            other, place = dice.choice(self.places(dice.choice(TREES)))
            part = copy.deepcopy(other[place][1] if isinstance(other, Object) else other[place])
            self.put(holder, position, part)
        elif kind == 4:
            self.put(holder, position, [copy.deepcopy(old) for _ in range(dice.choice([1, 2, 60]))])
        elif kind == 5:
            self.put(holder, position, Object([[dice.choice(NAMES), copy.deepcopy(old)]]))
        elif kind == 6 and isinstance(old, str):
            cut = dice.randrange(len(old) + 1)
            self.put(holder, position, old[:cut] + self.text() + old[cut:])
        elif kind == 7 and pair:
            holder.append([dice.choice(NAMES), self.value()])
        else:
            self.put(holder, position, self.value())

    @staticmethod
    def put(holder: list[Any], position: int, value: Any) -> None:
        if isinstance(holder, Object):
            holder[position][1] = value
        else:
            holder[position] = value

    def spoil(self, data: bytes) -> bytes:
        dice = self.dice
        kind = dice.randrange(10)
        if kind == 0:
            return data[: dice.randrange(len(data) + 1)]
        if kind == 1:
            text = data.decode()
            coding = dice.choice(["utf-16", "utf-16-le", "utf-32", "utf-8-sig", "cp037"])
            return text.encode(coding, "replace")
        if kind == 2:
            noise = bytearray(data)
            for _ in range(dice.choice([1, 1, 3, 20])):
                noise[dice.randrange(len(noise))] = dice.randrange(256)
            return bytes(noise)
        if kind == 3:
            return data + dice.choice([b"\n\n", b"\x00", b"}", data, b" garbage"])
        if kind == 4:
            # Characters as they are instead of escaped; half a pair of surrogates is no UTF-8.
            loose = json.dumps(json.loads(data), ensure_ascii=False)
            return loose.encode("utf-8", dice.choice(["surrogatepass", "replace"]))
        at = dice.randrange(len(data) + 1)
        return data[:at] + dice.choice([b"\xff", b"\xc3", b"\xed\xa0\x80", b"\x00"]) + data[at:]


def mutate(seed: int) -> bytes:
    """Return the mutated event of this number."""
    mutation = Mutation(seed)
    tree = copy.deepcopy(mutation.dice.choice(mutation.dice.choice([STORED, STORED, TREES])))
    for pair in tree:
        if pair[0] in IDS:
            pair[1] = f"{pair[0]}-{seed}"  # Nothing is dropped as a repetition.
    for _ in range(mutation.dice.choice([1, 1, 1, 2, 3, 6])):
        mutation.change(tree)
    data = dump(tree).encode()
    if mutation.dice.random() < 0.15:
        try:
            data = mutation.spoil(data)
        except (ValueError, RecursionError):
            return data
    return data
