"""Measure the shape of the source: `python tools/house.py [FOLDER]` prints JSON.

Files, functions, Protocols, methods that only forward, and words the glossary replaces: the figures
to compare before and after a change of structure.
"""

from __future__ import annotations

import ast
import json
import re
import statistics
import sys
from collections import Counter
from pathlib import Path

WORDS = re.compile(r"\b(stands|stood|told|tells|nobody|somebody|beside|whoever)\b", re.IGNORECASE)
Function = ast.FunctionDef | ast.AsyncFunctionDef


def main() -> None:
    root = Path(sys.argv[1] if len(sys.argv) > 1 else "src")
    texts = {path: path.read_text("utf-8") for path in sorted(root.rglob("*.py"))}
    trees = {path: ast.parse(text) for path, text in texts.items()}
    nodes = [node for tree in trees.values() for node in ast.walk(tree)]
    functions = [node.name for node in nodes if isinstance(node, Function)]
    classes = [node for node in nodes if isinstance(node, ast.ClassDef)]
    private = [name for name in functions if name.startswith("_") and not name.startswith("__")]
    mentioned = Counter(re.findall(r"\b_\w+\b", "\n".join(texts.values())))
    protocols = [c for c in classes if any(base_name(b) == "Protocol" for b in c.bases)]
    lengths = [text.count("\n") for text in texts.values()]
    lines = sum(lengths)
    forwarding = [
        f"{c.name}.{m.name}"
        for c in classes
        for m in c.body
        if isinstance(m, Function) and forwards(m)
    ]
    names = Counter(c.name for c in classes)
    figures = {
        "files": len(texts),
        "lines": lines,
        "median_file": statistics.median(lengths),
        "longest_file": max(lengths),
        "functions": len(functions),
        "functions_per_1000_lines": round(len(functions) / lines * 1000, 1),
        "private_share": round(len(private) / len(functions), 3),
        "private_used_once": sum(mentioned[name] == 2 for name in set(private)),
        "protocols": len(protocols),
        "protocol_lines": sum((c.end_lineno or 0) - c.lineno + 1 for c in protocols),
        "forwarding_methods": len(forwarding),
        "class_names_twice": sorted(name for name, count in names.items() if count > 1),
        "glossary_words": sum(len(WORDS.findall(text)) for text in texts.values()),
    }
    print(json.dumps(figures, indent=1))


def base_name(node: ast.expr) -> str:
    return ast.unparse(node).split("[")[0].rpartition(".")[2]


def forwards(method: Function) -> bool:
    """Return whether a method's only statement hands its own parameters to another call."""
    if any(base_name(d) in {"property", "cached_property"} for d in method.decorator_list):
        return False
    body = [s for s in method.body if not is_text(s)]
    if len(body) != 1 or not isinstance(body[0], ast.Return | ast.Expr):
        return False
    call = body[0].value
    if isinstance(call, ast.Await):
        call = call.value
    if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Attribute):
        return False
    own = {a.arg for a in (*method.args.args[1:], *method.args.kwonlyargs)}
    given = [*call.args, *(keyword.value for keyword in call.keywords)]
    used = {node.id for node in given if isinstance(node, ast.Name)}
    simple = all(
        isinstance(n, ast.Name | ast.Constant | ast.Attribute | ast.Starred) for n in given
    )
    return simple and own <= used


def is_text(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)


if __name__ == "__main__":
    main()
