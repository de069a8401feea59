"""Status lines: what counts as one, and where."""

from __future__ import annotations

from zapomni_core.shared.statements import read_status


def test_a_status_counts_below_its_heading_and_after_blank_lines():
    assert read_status("# One\n\n## Status\n\nSuperseded\n").ended == "superseded"


def test_a_line_without_any_word_of_a_status_ends_the_section():
    assert read_status("# One\n\n## Status\n\nAccepted by all\n\nSuperseded\n").ended == ""


def test_a_status_is_read_in_any_case_among_lines_of_code():
    text = "state = load()\nprint(state)\n# STATUS: Replaced by ADR-0046\nreturn state\n"
    status = read_status(text)
    assert (status.ended, status.by) == ("superseded", "ADR-0046")
