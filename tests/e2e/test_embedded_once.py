"""What has a vector already is not embedded again, by whichever command it comes."""

from __future__ import annotations

import subprocess
from itertools import chain

import pytest

from command import add, answer, as_json, zapomni
from servers import openai, serve

WORDS = "alpha beta gamma delta epsilon zeta eta theta iota kappa lambda mu nu xi omicron".split()


def section(title: str, number: int) -> str:
    """A part of a document that is long enough for a passage of its own."""
    lines = [f"Fact {n} of {title}: {' '.join(WORDS[n % 9 :])} {number}." for n in range(18)]
    return f"## {title}\n\n" + "\n".join(lines)


FIRST, SECOND, THIRD = (section(name, n) for n, name in enumerate(("One", "Two", "Three")))


@pytest.fixture
def embedded(monkeypatch):
    """The texts that the embedder has been asked for, all of them or since the last call."""
    with serve(openai("m")) as server:
        monkeypatch.setenv("ZAPOMNI_EMBEDDER", "openai")
        monkeypatch.setenv("ZAPOMNI_OPENAI_BASE_URL", f"{server.url}/v1")
        monkeypatch.setenv("ZAPOMNI_EMBEDDING_MODEL", "m")

        def take() -> list[str]:
            taken = list(chain.from_iterable(r.body["input"] for r in server.requests))
            server.requests.clear()
            # Every process asks once how long a vector of this model is.
            return [text for text in taken if text != "dimension"]

        yield take


def test_a_passage_of_another_memory_is_not_embedded_again(embedded):
    add(f"{FIRST}\n\n{SECOND}")
    first = embedded()
    assert len(first) == len(set(first)) >= 4
    add(f"{SECOND}\n\n{THIRD}")
    assert set(embedded()).isdisjoint(first)
    # The same text in another project is another memory, and needs nothing.
    add(f"{FIRST}\n\n{SECOND}", "--project", "other")
    assert embedded() == []


def test_an_update_embeds_what_it_changes(embedded):
    memory = add(f"{FIRST}\n\n{SECOND}")
    before = embedded()
    zapomni("update", memory, "--text", f"{FIRST}\n\n{SECOND}\n\n{THIRD}")
    after = embedded()
    assert after
    assert set(after).isdisjoint(before)
    assert all("Three" in text for text in after)


def test_an_import_embeds_what_is_new(embedded, tmp_path):
    add(f"{FIRST}\n\n{SECOND}")
    before = embedded()
    vault = tmp_path / "vault"
    (vault / ".obsidian").mkdir(parents=True)
    (vault / "known.md").write_text(f"{FIRST}\n\n{SECOND}")
    (vault / "new.md").write_text(THIRD)
    answer("import", "obsidian", "--path", str(vault), "--yes")
    after = embedded()
    assert after
    assert set(after).isdisjoint(before)
    # The first passage of a note begins with its name: it is another text.
    assert [text[:6] for text in after if "of Three:" not in text] == ["known\n"]


SOURCE = """
def charge(order):
    total = sum(line.price for line in order.lines)
    return total if total > 0 else refuse(order)


def refuse(order):
    raise ValueError("nothing to pay in " + order.name)


class Ledger:
    def book(self, order, amount):
        self.entries.append((order.name, amount))
        return len(self.entries)
"""


def git(folder, *args: str) -> None:
    who = ("-c", "user.name=T", "-c", "user.email=t@example.com")
    subprocess.run(["git", *who, *args], cwd=folder, check=True, capture_output=True)


def test_worktrees_and_branches_share_the_vectors_of_what_is_equal(embedded, tmp_path):
    root, other = tmp_path / "shop", tmp_path / "other"
    root.mkdir()
    git(root, "init", "-q", "-b", "main")
    (root / "pay.py").write_text(SOURCE)
    git(root, "add", ".")
    git(root, "commit", "-qm", "first")
    as_json("index", str(root))
    first = embedded()
    assert len(first) == len(set(first)) >= 3
    git(root, "worktree", "add", "-q", str(other), "-b", "other")
    as_json("index", str(other))
    assert embedded() == []
    git(root, "checkout", "-q", "-b", "changed")
    (root / "pay.py").write_text(SOURCE.replace("nothing to pay", "an empty cart"))
    git(root, "commit", "-qam", "second")
    as_json("index", str(root))
    (changed,) = embedded()
    assert "an empty cart" in changed
    # The other worktree still has what this branch had.
    git(root, "checkout", "-q", "main")
    as_json("index", str(root))
    assert embedded() == []
    assert as_json("stats")["pending_vectors"] == 0
