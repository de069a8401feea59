"""The picture of the architecture shows the code as it is."""

from __future__ import annotations

import re
from xml.etree import ElementTree as ET

from tools import picture

PAGE = picture.ROOT / "docs" / "architecture.md"


def test_the_picture_is_current():
    assert picture.draw() == picture.PICTURE.read_text("utf-8"), "run: python tools/picture.py"


def test_the_picture_is_small_text_with_both_themes_and_nothing_from_elsewhere():
    text = picture.PICTURE.read_text("utf-8")

    ET.fromstring(text)
    assert len(text) < 20_000
    assert "prefers-color-scheme:dark" in text
    assert re.findall(r"https?://[^\"]+", text) == ["http://www.w3.org/2000/svg"]


def test_an_arrow_that_follows_from_others_is_left_out():
    arrows = {("a", "b"), ("b", "c"), ("a", "c"), ("a", "d"), ("c", "d")}

    assert picture.reduce_arrows(arrows) == [("a", "b"), ("b", "c"), ("c", "d")]


def test_no_line_crosses_a_box():
    rows = picture.read_rows()
    levels = {name: level for level, row in enumerate(rows) for name in row}
    arrows = picture.reduce_arrows(picture.find_imports(levels))

    for arrow, points in picture.route(arrows, rows, levels).items():
        passed = range(levels[arrow[0]] + 1, levels[arrow[1]])
        for level, point in zip(passed, points[1:-1:2], strict=True):
            boxes = [picture.PLACES[name].x for name in rows[level]]
            assert min(abs(point.x - box) for box in boxes) > picture.HALF


def test_every_file_and_folder_the_page_names_exists():
    named = set(re.findall(r"`([\w.*]+(?:/[\w.*]+)*(?:\.py|\.toml|/))`", PAGE.read_text("utf-8")))
    places = [picture.ROOT, *(picture.ROOT / "src").glob("*"), picture.ROOT / "src"]

    missing = [name for name in named if not any(any(place.glob(name)) for place in places)]

    assert len(named) > 20
    assert missing == []
