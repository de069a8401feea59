"""`zapomni export --markdown` and back: what an editor does to notes comes into the memories."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from command import on_terminal, zapomni
from zapomni_core.shared.notes import choose_name, parse_note, render_note, same_text


@pytest.fixture(autouse=True)
def _words_only(request, monkeypatch):
    monkeypatch.setenv("ZAPOMNI_EMBEDDER", "none")


def add(text: str, *args: str) -> str:
    done = zapomni("add", text, "--json", *args)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)["memory_id"]


def as_json(*args: str | Path) -> dict:
    done = zapomni(*map(str, args), "--json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def get(memory_id: str) -> dict:
    return as_json("get", memory_id)


def notes(folder: Path) -> dict[str, bytes]:
    found = sorted(folder.rglob("*.md"))
    return {str(path.relative_to(folder)): path.read_bytes() for path in found}


@pytest.fixture
def vault(tmp_path):
    """Three memories and their notes."""
    first = add(
        "# Deploys\n\nWe deploy on Fridays.", "--kind", "decision", "--tag", "ops", "--global"
    )
    second = add("We deploy on Tuesdays.", "--project", "shop", "--supersedes", first)
    third = add("Third: a/b?", "--global", "--tag", "two words", "--tag", "yes")
    folder = tmp_path / "vault"
    assert as_json("export", "--markdown", folder)["written"] == 3
    return folder, first, second, third


def test_notes_are_named_by_their_text_and_linked(vault):
    folder, first, second, _ = vault
    assert list(notes(folder)) == [
        "Replaced/Deploys.md",
        "Third a b.md",
        "shop/We deploy on Tuesdays.md",
    ]
    text = (folder / "shop/We deploy on Tuesdays.md").read_text()
    head, body = text.split("\n---\n\n")
    assert body == "We deploy on Tuesdays.\n"
    assert head.splitlines()[:4] == ["---", f"id: {second}", "kind: note", "project: shop"]
    assert 'supersedes: ["[[Deploys]]"]' in head
    assert 'tags: [two words, "yes"]' in (folder / "Third a b.md").read_text()
    before = {path: path.stat().st_mtime_ns for path in folder.rglob("*") if path.is_file()}
    assert as_json("export", "--markdown", folder)["unchanged"] == 3
    assert {path: path.stat().st_mtime_ns for path in before} == before
    assert get(first)["superseded_by"] == second


def test_edits_come_back_wherever_the_file_was_moved(vault):
    folder, first, second, third = vault
    note = folder / "Third a b.md"
    edited = note.read_text().replace("Third: a/b?", "Third, edited.\n\nAnd more.")
    edited = edited.replace('tags: [two words, "yes"]', "tags:\n  - 'new one'\n  - ops")
    edited = edited.replace("kind: note", "kind: preference\naliases: [x]\npinned: true")
    (folder / "Moved").mkdir()
    moved = folder / "Moved" / "Another name.md"
    moved.write_text(edited.replace("\n", "\r\n"))
    note.unlink()
    report = as_json("import", folder)
    assert (report["updated"], report["added"], report["unchanged"]) == (1, 0, 2)
    memory = get(third)
    assert memory["text"] == "Third, edited.\n\nAnd more."
    assert memory["tags"] == ["new one", "ops"]
    assert (memory["kind"], memory["pinned"], memory["trusted"]) == ("preference", True, True)
    # The editor's formatting stays, and the second import has nothing to do.
    before = notes(folder)
    assert as_json("export", "--markdown", folder)["written"] == 0
    assert as_json("import", folder)["updated"] == 0
    assert notes(folder) == before
    # A later change here is written into the file where it is now, other programs' lines stay.
    zapomni("update", third, "--text", "Changed here.")
    assert as_json("export", "--markdown", folder)["written"] == 1
    assert "Changed here." in moved.read_text()
    assert "aliases: [x]" in moved.read_text()
    assert get(first)["text"].startswith("# Deploys")
    assert get(second)["project"] == "shop"


def test_formatting_alone_changes_nothing_and_survives(vault):
    folder, *_ = vault
    for path in folder.rglob("*.md"):
        lines = path.read_text().split("\n")
        end = lines.index("---", 1)
        head = [
            line.replace("kind: ", 'kind:   "').replace("note", 'note"') for line in lines[1:end]
        ]
        head = [line if "decision" not in line else 'kind: "decision"' for line in head]
        path.write_text("\ufeff" + "\r\n".join(["---", *reversed(head), *lines[end:], "", ""]))
    before = notes(folder)
    report = as_json("import", folder)
    assert (report["updated"], report["unchanged"], report["skipped"]) == (0, 3, {})
    assert as_json("export", "--markdown", folder)["written"] == 0
    assert notes(folder) == before


def test_an_edited_file_is_never_overwritten_and_both_changes_are_kept(vault):
    folder, _, second, _ = vault
    note = folder / "shop/We deploy on Tuesdays.md"
    note.write_text(note.read_text().replace("on Tuesdays.", "on Mondays."))
    zapomni("update", second, "--text", "We deploy on Wednesdays.", "--tag", "ops")
    report = as_json("export", "--markdown", folder)
    assert (report["written"], report["edited"]) == (0, 1)
    assert "on Mondays." in note.read_text()
    report = as_json("import", folder)
    assert (report["updated"], report["conflicts"]) == (1, 1)
    memory = get(second)
    # The text was changed in the file, the tags only here.
    assert (memory["text"], memory["tags"]) == ("We deploy on Mondays.", ["ops"])
    assert b"Wednesdays" in zapomni("history", second, "--json").stdout
    assert as_json("export", "--markdown", folder)["written"] == 1
    assert "tags: [ops]" in note.read_text()


def test_a_deleted_file_asks_and_a_deleted_memory_takes_its_file_along(vault):
    folder, first, _, third = vault
    (folder / "Third a b.md").unlink()
    done = zapomni("import", str(folder))
    assert b"Third a b.md" in done.stderr
    assert get(third)["text"] == "Third: a/b?"
    # It is not written again either.
    assert as_json("export", "--markdown", folder)["edited"] == 1
    assert as_json("import", folder, "--dry-run")["missing"] == 1
    _, shown = on_terminal("import", str(folder), typed="y\n")
    assert "Delete their memories" in shown
    assert zapomni("get", third).returncode == 3
    zapomni("forget", first, "--yes")
    assert as_json("export", "--markdown", folder)["removed"] == 1
    assert list(notes(folder)) == ["shop/We deploy on Tuesdays.md"]
    (folder / "shop/We deploy on Tuesdays.md").unlink()
    done = zapomni("import", str(folder), "--yes")
    assert done.returncode == 2
    assert b"no note left" in done.stderr


def test_a_new_file_with_a_head_is_a_new_memory(vault):
    folder, _, second, _ = vault
    secret = "ghp_" + "a1B2" * 9
    new = folder / "New idea.md"
    new.write_text(f"---\ntags: [idea]\nproject: shop\ndate: 2026-01-31\n---\nUse {secret}.\n")
    (folder / "README.md").write_text("About this folder.")
    copy = folder / "copy.md"
    copy.write_text((folder / "shop/We deploy on Tuesdays.md").read_text() + "\nAnd Thursdays.")
    report = as_json("import", folder)
    assert (report["added"], report["updated"]) == (2, 0)
    assert list(report["skipped"]) == ["README.md"]
    assert sum(report["secrets"].values()) == 1
    memory_id = re.search(r"^id: (\S+)$", new.read_text(), re.MULTILINE)[1]
    memory = get(memory_id)
    assert (memory["tags"], memory["project"], memory["origin"]) == (
        ["idea"],
        "shop",
        "import:markdown",
    )
    assert memory["occurred_at"].startswith("2026-01-31")
    assert memory["trusted"] is False
    assert new.read_text().endswith(f"date: 2026-01-31\n---\nUse {secret}.\n")
    assert second not in copy.read_text()
    assert get(second)["text"] == "We deploy on Tuesdays."
    again = as_json("import", folder)
    assert (again["added"], again["updated"]) == (0, 0)
    assert as_json("import", "--batches")[0]["id"] == report["batch"]


@pytest.mark.parametrize(
    "broken", ["---\nid: x", "", "\0", "no head", "---\nexpires: soon\n---\nx"]
)
def test_a_damaged_note_changes_and_deletes_nothing(vault, broken):
    folder, _, _, third = vault
    note = folder / "Third a b.md"
    before = get(third)
    note.write_text(broken)
    report = as_json("import", folder, "--yes")
    assert report["deleted"] == 0
    if broken == "no head":  # The text was changed, and nothing else.
        assert get(third)["text"] == "no head"
        assert get(third)["tags"] == before["tags"]
    else:
        assert get(third) == before
        assert list(report["skipped"]) == ["Third a b.md"]


def test_a_note_that_no_memory_can_be_is_named_and_not_counted(vault):
    folder, first, *_ = vault
    before = get(first)
    edited = next(path for path in folder.rglob("*.md") if first in path.read_text("utf-8"))
    kind = f"kind: {'x' * 300}\n"
    edited.write_text(re.sub("kind: .*\n", kind, edited.read_text("utf-8")), "utf-8")
    (folder / "New.md").write_text(f"---\n{kind}---\nA new one.\n", "utf-8")
    report = as_json("import", folder)
    assert (report["added"], report["updated"]) == (0, 0)
    assert len(report["skipped"]) == 2
    assert get(first) == before


def test_folders_of_another_kind_are_refused(vault, tmp_path):
    folder, *_ = vault
    as_json("export", tmp_path / "records")
    for args in (["export", folder], ["export", "--markdown", tmp_path / "records"]):
        done = zapomni(*map(str, args))
        assert done.returncode == 2
        assert b"another kind" in done.stderr
    (folder / "out").symlink_to(tmp_path / "records")
    (folder / "link.md").symlink_to("/etc/hostname")
    assert list(as_json("import", folder)["skipped"]) == ["link.md"]
    (folder / "zapomni.json").write_text('{"format": 7, "zapomni": "markdown"}')
    assert b"Upgrade" in zapomni("import", str(folder)).stderr


def test_runs_that_were_killed_before_they_noted_what_they_did_are_completed(vault):
    folder, _, second, _ = vault
    state = folder / ".zapomni" / "notes.jsonl"
    old = state.read_bytes()
    zapomni("update", second, "--text", "We deploy on Wednesdays.")
    assert as_json("export", "--markdown", folder)["written"] == 1
    state.write_bytes(old)
    report = as_json("export", "--markdown", folder)
    assert (report["written"], report["edited"], report["unchanged"]) == (0, 0, 3)
    new = folder / "new.md"
    new.write_text("---\n---\nA new one.")
    old = state.read_bytes()
    assert as_json("import", folder)["added"] == 1
    state.write_bytes(old)
    new.write_text("---\n---\nA new one.")
    report = as_json("import", folder)
    assert (report["added"], report["skipped"]) == (0, {})
    assert "id: " in new.read_text()
    assert as_json("export", "--markdown", folder)["written"] == 0


WORDS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=30)
NAMES = WORDS.map(lambda text: " ".join(text.split()))


@given(WORDS, NAMES, st.lists(NAMES.filter(bool)), NAMES)
def test_what_is_written_into_a_note_is_read_from_it(text, kind, tags, project):
    tags = [tag for tag in tags if tag == tag.strip().removeprefix("#")]
    fields = {"id": "x1", "kind": kind, "tags": tags, "project": project, "pinned": True}
    note = parse_note(render_note(fields, text).encode())
    assert note.memory_id == "x1"
    assert same_text(note.text, text)
    assert note.fields["kind"] == (kind.strip() or "note")
    assert note.fields["tags"] == sorted(set(tags))
    assert note.fields["project"] == project
    assert note.fields["pinned"] is True


@given(st.text(max_size=300))
def test_any_text_gives_a_name_that_a_file_may_have(text):
    name = choose_name(text, (), "12345678-0000")
    assert name
    assert len(name.encode()) <= 140
    assert not set(name) & set('/\\:*?"<>|#^[]\n\0')
    assert name.strip(" .") == name
    assert choose_name(text, {name.casefold()}, "12345678-0000") != name


def test_a_name_of_a_file_has_no_secret_and_a_terminal_shows_progress(tmp_path):
    secret = "ghp_" + "a1B2" * 9
    add(f"The token {secret} is for releases.", "--global")
    code, shown = on_terminal("export", "--markdown", str(tmp_path / "vault"))
    assert code == 0
    assert "1 written" in shown
    (note,) = (tmp_path / "vault").glob("*.md")
    assert secret not in note.name
    assert secret in note.read_text()


def test_notes_of_a_server_come_back_as_well(
    tmp_path, monkeypatch, falkordb_server, falkordb_graph
):
    address = f"unix://{falkordb_server.socket}?graph={falkordb_graph}"
    monkeypatch.setenv("ZAPOMNI_STORAGE", address)
    first = add("We deploy on Fridays.", "--global", "--tag", "ops")
    second = add("Ask Ada about Postgres.", "--global")
    folder = tmp_path / "vault"
    assert as_json("export", "--markdown", folder)["written"] == 2
    note = folder / "We deploy on Fridays.md"
    note.write_text(note.read_text().replace("Fridays", "Mondays").replace("[ops]", "[ops, new]"))
    (folder / "Ask Ada about Postgres.md").unlink()
    (folder / "new.md").write_text("---\n---\nA new one.")
    report = as_json("import", folder, "--yes")
    assert (report["updated"], report["added"], report["deleted"]) == (1, 1, 1)
    assert (get(first)["text"], get(first)["tags"]) == ("We deploy on Mondays.", ["new", "ops"])
    assert zapomni("get", second).returncode == 3
    assert as_json("export", "--markdown", folder)["written"] == 0
