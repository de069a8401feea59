"""What jedi says every call of a package calls: one JSON object per call.

benchmarks/.jedi/bin/python benchmarks/jedi_calls.py FOLDER

Runs in jedi's own environment and imports nothing of ours. Calls are found with Python's own
parser. A call's definition is where `goto` leads, through imports; where that is no function or
class (a variable, an attribute), it is what `infer` makes of it.
"""

from __future__ import annotations

import ast
import json
import sys
from pathlib import Path

import jedi

DEFINING = ("function", "class")


def calls(tree: ast.AST):
    """Yield name, line and byte column of what is called, where it has a name."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            called = node.func
            if isinstance(called, ast.Name):
                yield called.id, called.lineno, called.col_offset
            elif isinstance(called, ast.Attribute):
                length = len(called.attr.encode())
                yield called.attr, called.end_lineno, called.end_col_offset - length


def definitions(script, line: int, column: int) -> list:
    found = script.goto(line, column, follow_imports=True, follow_builtin_imports=True)
    if not found or any(one.type not in DEFINING for one in found):
        return script.infer(line, column) or found
    return found


def described(one, root: Path) -> dict:
    path = Path(one.module_path).resolve() if one.module_path else None
    inside = path is not None and path.is_relative_to(root)
    return {
        "type": one.type,
        "name": one.name,
        "path": str(path.relative_to(root)) if inside and path else None,
        "line": one.line,
    }


def main(folder: str) -> None:
    root = Path(folder).resolve()
    project = jedi.Project(root, added_sys_path=[str(root)], smart_sys_path=False)
    for path in sorted(root.rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        lines = text.splitlines()
        script = jedi.Script(text, path=path, project=project)
        for name, line, byte in calls(ast.parse(text)):
            column = len(lines[line - 1].encode()[:byte].decode())
            try:
                found = definitions(script, line, column)
            except Exception as error:  # noqa: BLE001 - jedi fails on some; they are counted
                answer = {"error": type(error).__name__}
            else:
                answer = {"found": [described(one, root) for one in found]}
            place = {"path": str(path.relative_to(root)), "line": line, "name": name}
            print(json.dumps(place | answer), flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
