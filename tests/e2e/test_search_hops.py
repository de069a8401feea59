"""Answers in two parts: the best hit names what leads on to the rest."""

from __future__ import annotations

from command import as_json, zapomni

QUESTION = "where does the author of the billing scheduler live"
FIRST = "The billing scheduler was written by Priya Nair last spring."
SECOND = "Priya Nair moved to Lisbon."


def test_a_name_in_the_best_hit_leads_on_to_the_rest_of_the_answer(private_home):
    for text in (
        "Jonas Weber moved to Porto.",
        SECOND,
        "Invoices are checked by hand.",
        "The handbook has an author in every city.",
        "The night scheduler runs at two.",
        FIRST,
    ):
        zapomni("add", text)

    found = as_json("search", QUESTION, "--explain")["results"]
    shown = zapomni("search", QUESTION, "--explain").stdout.decode()

    ranked = [hit["text"] for hit in found]
    share = {hit["text"]: hit["explanation"]["boosts"]["names"] for hit in found}
    assert ranked[0] == FIRST
    assert share[SECOND] > 0
    assert share.get("Jonas Weber moved to Porto.", 0.0) == 0
    assert ranked.index(SECOND) == 3
    assert "names 0.3" in " ".join(shown.split())
