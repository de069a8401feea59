"""The examples of docs/python.md do what the page shows."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "python.md"
EXAMPLES = re.findall(
    r"```python\n(.*?)```\n\n```text\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL
)


def test_every_example_of_the_page_is_run():
    assert len(EXAMPLES) == PAGE.read_text("utf-8").count("```python") > 0


@pytest.mark.parametrize(("code", "output"), EXAMPLES, ids=range(1, len(EXAMPLES) + 1))
def test_an_example_prints_what_the_page_shows(code, output, capsys):
    exec(compile(code, str(PAGE), "exec"), {"__name__": "__main__"})

    assert capsys.readouterr().out == output
