"""Who shares a process: the same home folder, the same settings, the same installation."""

from __future__ import annotations

from importlib.metadata import version

import pytest

from zapomni_core.infra.sharing import VERSION, LineBuffer, ShareKey, is_newer


def test_the_version_is_that_of_the_distribution():
    assert version("zapomni") == VERSION


@pytest.mark.parametrize(
    ("version", "other", "newer"),
    [("0.2.0", "0.1.9", True), ("0.10.0", "0.9.0", True), ("1", "0.9.9", True),
     ("0.1.0", "0.1.0", False), ("0.1.0", "0.1.1", False), ("", "0.1.0", False)],
)  # fmt: skip
def test_versions_are_compared_as_numbers(version, other, newer):
    assert is_newer(version, other) is newer


def test_every_setting_but_the_home_folder_and_sharing_itself_decides_who_shares(tmp_path):
    def digest(**env: str) -> str:
        return ShareKey({"ZAPOMNI_HOME": str(tmp_path), "PATH": "/bin", **env}).digest

    alone = digest()
    assert digest() == digest(PATH="/usr/bin") == digest(ZAPOMNI_SHARE="true") == alone
    assert digest(ZAPOMNI_HOME="/nowhere") == alone
    assert digest(ZAPOMNI_EMBEDDER="none") != alone
    assert digest(HOME="/other") != alone
    (tmp_path / "config.toml").write_text('embedder = "none"\n', encoding="utf-8")
    assert digest() != alone


@pytest.mark.parametrize(
    ("given", "config", "wanted"),
    [("", "", True), ("", "share = true", True), ("", "share = false", False),
     ("0", "", False), ("No", "", False), ("true", "share = false", True),
     ("", "share = [", False), ("", r'"sh\u0061re" = false', False)],
)  # fmt: skip
def test_sharing_is_refused_by_environment_or_configuration(tmp_path, given, config, wanted):
    (tmp_path / "config.toml").write_text(config, encoding="utf-8")

    key = ShareKey({"ZAPOMNI_HOME": str(tmp_path), "ZAPOMNI_SHARE": given})

    assert key.wanted is wanted


def test_lines_are_cut_wherever_they_arrive_in_pieces():
    buffer = LineBuffer()

    assert [buffer.feed(part) for part in (b"a", b"b\nc\n", b"", b"d", b"\n\ne")] == [
        [], [b"ab", b"c"], [], [], [b"d", b""],
    ]  # fmt: skip
    assert (buffer.size, buffer.rest(), buffer.rest()) == (1, b"e", b"")
