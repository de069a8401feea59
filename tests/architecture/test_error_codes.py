"""Every error code is raised somewhere, and every page and message names codes that exist."""

from __future__ import annotations

import ast
import importlib
import inspect
import pkgutil
import re
from functools import cache
from pathlib import Path

import zapomni_cli
import zapomni_core
import zapomni_db
import zapomni_mcp
import zapomni_web
from zapomni_core.infra import error_messages
from zapomni_db.exceptions import ZapomniError
from zapomni_mcp import error_messages as tool_messages

ROOT = Path(__file__).parent.parent.parent
CODE = re.compile(r"\b[A-Z]{2,8}_\d{3}\b")
# What a page of decisions names may have been removed by it.
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")])
REFERENCE = (ROOT / "docs/errors.md").read_text(encoding="utf-8")


def error_classes() -> dict[str, type[ZapomniError]]:
    """Return every class of ours that can be raised, by its name."""
    for package in (zapomni_cli, zapomni_core, zapomni_db, zapomni_mcp, zapomni_web):
        for module in pkgutil.walk_packages(package.__path__, package.__name__ + "."):
            if "exceptions" in module.name or "connection" in module.name:
                importlib.import_module(module.name)
    found, waiting = {ZapomniError.__name__: ZapomniError}, [ZapomniError]
    while waiting:
        for child in waiting.pop().__subclasses__():
            found[child.__name__] = child
            waiting.append(child)
    return found


CLASSES = error_classes()
DEFINED = {code for cls in CLASSES.values() for code in CODE.findall(inspect.getdoc(cls) or "")} | {
    code for cls in CLASSES.values() for code in CODE.findall(cls.default_code)
}


def recorded_codes() -> set[str]:
    """Return the codes that statements write into a task, quoted as SQL quotes."""
    sources = sorted((ROOT / "src/zapomni_db/sqlite").glob("*.py"))
    found = (re.findall(r"'([A-Z]+_\d{3})'", path.read_text(encoding="utf-8")) for path in sources)
    return {code for codes in found for code in codes}


KNOWN = DEFINED | recorded_codes()


@cache
def raised_codes() -> set[str]:
    """Return the codes that errors are made with, anywhere in the source."""
    codes: set[str] = set()
    for path in sorted((ROOT / "src").rglob("*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        # What is compared, looked up, or a class's default is not what is raised.
        ignored = {id(node) for node in _ignored(tree)}
        for node in ast.walk(tree):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                if id(node) not in ignored and CODE.fullmatch(node.value):
                    codes.add(node.value)
            elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
                cls = CLASSES.get(node.func.id)
                given = len(node.args) > 1 or any(k.arg == "error_code" for k in node.keywords)
                if cls is not None and not given:
                    codes.add(cls.default_code)
    return codes


def _ignored(tree: ast.AST):
    for node in ast.walk(tree):
        if isinstance(node, ast.Compare):
            yield from ast.walk(node)
        elif isinstance(node, ast.Dict):
            yield from (key for key in node.keys if key is not None)
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            names = {target.id for target in targets if isinstance(target, ast.Name)}
            if names & {"default_code", "_permanent_codes"} and node.value is not None:
                yield from ast.walk(node.value)


def test_every_code_that_is_defined_is_raised():
    assert sorted(DEFINED - raised_codes()) == []


def test_every_code_that_is_raised_is_described_by_its_class():
    assert sorted(code for code in raised_codes() - DEFINED if CODE.fullmatch(code)) == []


def test_pages_name_only_codes_that_exist():
    named = [(page.name, code) for page in PAGES for code in CODE.findall(page.read_text("utf-8"))]
    assert [(page, code) for page, code in named if code not in KNOWN] == []


def test_the_reference_lists_every_code_once():
    listed = re.findall(r"^\| `([A-Z]+_\d{3})` \|", REFERENCE, re.MULTILINE)
    assert listed == sorted(KNOWN)


def test_messages_are_written_for_codes_that_exist():
    assert sorted({*error_messages._BY_CODE, *tool_messages._ACTIONS} - DEFINED) == []
