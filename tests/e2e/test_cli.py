from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from command import NOTE, UNKNOWN, add, answer, as_json, refused, zapomni
from zapomni_cli.main import run

# --- Remember and recall ----------------------------------------------------------------


def test_what_one_process_keeps_another_finds_by_paraphrase_and_by_words(model):
    memory_id = answer("add", NOTE).strip()
    answer("add", "The cafeteria serves soup on Mondays.")
    for query in ("when are we allowed to ship a release?", "Friday"):
        results = as_json("search", query)["results"]
        assert results[0]["memory_id"] == memory_id
        assert results[0]["text"] == NOTE


def test_text_comes_from_arguments_or_from_standard_input_and_back_byte_for_byte():
    text = "první řádek\r\n\tdruhý\n\n"
    memory_id = answer("add", "-", given=text.encode()).strip()
    done = zapomni("get", memory_id)
    assert done.stdout == text.encode()
    assert answer("add", "several", "words").strip() != memory_id


def test_labels_are_kept_and_filter_search_and_list(monkeypatch):
    monkeypatch.setenv("ZAPOMNI_EMBEDDER", "none")
    labels = ["--project", "shop", "--tag", "a", "--tag", "b", "--source", "git", "--kind", "fact"]
    memory_id = add("alpha beta", *labels, "--pin", "--metadata", '{"author": "Ada"}')
    add("alpha gamma", "--project", "other")

    record = as_json("get", memory_id)
    assert record["tags"] == ["a", "b"]
    assert record["metadata"] == {"author": "Ada"}
    assert record["pinned"] is True

    for filters in (labels, ["--pinned", "--all"], ["--project", "shop", "--since", "1d"]):
        assert [i["memory_id"] for i in as_json("list", *filters)["items"]] == [memory_id]
        found = as_json("search", "alpha", *filters)["results"]
        assert [hit["memory_id"] for hit in found] == [memory_id]
    assert as_json("list", "--until", "1h") == {"items": [], "total": 0, "elsewhere": 0}


def test_in_a_pipe_each_hit_is_one_line_with_tabs(monkeypatch):
    monkeypatch.setenv("ZAPOMNI_EMBEDDER", "none")
    memory_id = add("two\nlines", "--tag", "a", "--tag", "b", "--project", "shop")
    (line,) = answer("search", "lines", "--all").splitlines()
    score, found, _, kind, project, tags, text = line.split("\t")
    assert (found, float(score) > 0) == (memory_id, True)
    assert (kind, project, tags, text) == ("note", "shop", "a,b", "two lines")
    assert "Nothing found" in zapomni("search", "elsewhere").stderr.decode()
    assert "No memories here" in zapomni("list", "--project", "none").stderr.decode()


def test_limit_and_offset_page_through_a_list():
    ids = [add(f"note number {number}") for number in range(3)]
    page = zapomni("list", "--limit", "1", "--offset", "1")
    assert page.stdout.decode().split("\t")[0] == ids[1]
    assert "1 more; see them with --offset 2" in page.stderr.decode()


def test_the_same_text_and_the_same_key_are_kept_once():
    first = as_json("add", NOTE, "--key", "k1")
    assert (first["status"], first["chunks_created"]) == ("created", 1)
    assert as_json("add", NOTE)["status"] == "duplicate"
    again = as_json("add", NOTE, "--key", "k1")
    assert again["status"] == "replayed"
    assert again["memory_id"] == first["memory_id"]


def test_a_memory_that_is_superseded_is_found_only_on_request():
    old = add("We deploy on Mondays.")
    new = add("We deploy on Wednesdays.", "--supersedes", old)
    assert [hit["memory_id"] for hit in as_json("search", "deploy")["results"]] == [new]
    assert as_json("list", "--superseded")["total"] == 2


def test_update_changes_what_is_given_and_leaves_the_rest():
    memory_id = add("old words", "--project", "shop", "--tag", "a")
    changed = as_json("update", memory_id, "--text", "new words", "--kind", "fact")
    assert (changed["text"], changed["kind"], changed["project"]) == ("new words", "fact", "shop")
    assert as_json("update", memory_id, "--no-tags")["tags"] == []
    answer("update", memory_id, "--text", "-", given=b"from stdin")
    assert answer("get", memory_id) == "from stdin"


def test_update_takes_a_new_text_from_a_file(tmp_path):
    memory_id = add("old words")
    (tmp_path / "new.txt").write_text("from a file", encoding="utf-8")
    answer("update", memory_id, "--file", str(tmp_path / "new.txt"))
    assert answer("get", memory_id) == "from a file"
    (tmp_path / "image").write_bytes(b"\0\1")
    assert "image" in refused(1, "update", memory_id, "--file", str(tmp_path / "image"))


def test_pin_and_unpin():
    memory_id = add(NOTE)
    assert as_json("pin", memory_id)["pinned"] is True
    assert answer("list").split("\t")[5] == "pinned"
    assert as_json("pin", memory_id, "--off")["pinned"] is False


def test_forget_deletes_only_with_yes_when_nobody_can_answer():
    memory_id = add(NOTE)
    assert "--yes" in refused(2, "forget", memory_id)
    assert answer("forget", memory_id, memory_id, "--yes") == "Forgot 1 memory.\n"
    refused(3, "get", memory_id)


def test_forget_deletes_nothing_if_one_id_is_unknown():
    memory_id = add(NOTE)
    refused(3, "forget", memory_id, UNKNOWN, "--yes")
    assert answer("get", memory_id) == NOTE


# --- Files ------------------------------------------------------------------------------


def test_files_are_kept_with_their_names_and_bad_ones_do_not_stop_the_rest(tmp_path):
    (tmp_path / "a.md").write_text("# Alpha\n\nbody of alpha", encoding="utf-8")
    (tmp_path / "b.html").write_text("<title>B</title><p>body of beta</p>", encoding="utf-8")
    (tmp_path / "c.txt").write_bytes(b"caf\xe9")
    (tmp_path / "d.bin").write_bytes(b"\0\1\2")
    files = [part for name in ("a.md", "b.html", "c.txt") for part in ("--file", tmp_path / name)]
    done = zapomni("add", *map(str, files), "--tag", "doc", "--json")
    assert done.returncode == 2
    outcome = json.loads(done.stdout)
    assert [Path(item["file"]).name for item in outcome["added"]] == ["a.md", "b.html"]
    assert [item["error_code"] for item in outcome["failed"]] == ["VAL_004"]
    assert "not valid UTF-8" in done.stderr.decode()

    record = as_json("get", outcome["added"][1]["memory_id"])
    assert record["text"] == "body of beta"
    assert (record["kind"], record["source"]) == ("document", "b.html")
    assert record["metadata"] == {"file_name": "b.html", "title": "B", "format": "html"}

    assert "not supported" in refused(1, "add", "--file", str(tmp_path / "d.bin"))
    assert "no such file" in refused(2, "add", "--file", str(tmp_path / "none"))


def test_a_long_text_gets_its_vectors_before_the_command_ends(model, tmp_path):
    path = tmp_path / "long.txt"
    path.write_text("\n\n".join(f"Note {i} says very little." for i in range(600)))
    small = {"ZAPOMNI_CHUNK_SIZE": "16", "ZAPOMNI_CHUNK_OVERLAP": "0"}
    (added,) = as_json("add", "--file", str(path), **small)["added"]
    assert added["pending_vectors"] > 256
    assert as_json("stats")["pending_vectors"] == 0


def test_without_a_model_texts_are_kept_and_found_by_words(no_model):
    done = zapomni("add", NOTE)
    assert done.returncode == 0
    assert "zapomni models pull" in done.stderr.decode()
    assert as_json("search", "Tuesdays")["count"] == 1
    assert "missing" in as_json("status")["model"]
    assert as_json("stats")["pending_vectors"] == 1


# --- Bad input --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("code", "args"),
    [
        (2, ["add"]),
        (2, ["add", "   "]),
        (2, ["add", "text", "--file", "x"]),
        (2, ["add", "--file", "x", "--file", "y", "--key", "k"]),
        (2, ["add", "text", "--metadata", "[1]"]),
        (2, ["add", "text", "--metadata", "{"]),
        (2, ["add", "text", "--metadata", "[" * 100_000]),
        (2, ["add", "text", "--kind", "Not A Kind"]),
        (2, ["search"]),
        (2, ["search", " "]),
        (2, ["search", "x", "--limit", "-1"]),
        (2, ["search", "x", "--offset", "-1"]),
        (2, ["search", "x", "--since", "yesterday"]),
        (2, ["search", "x", "--since", "999999w"]),
        (2, ["list", "--limit", "many"]),
        (2, ["update", UNKNOWN]),
        (2, ["update", UNKNOWN, "--tag", "a", "--no-tags"]),
        (2, ["nonsense"]),
        (2, ["get"]),
        (3, ["get", UNKNOWN]),
        (3, ["update", UNKNOWN, "--text", "x"]),
        (3, ["pin", UNKNOWN]),
        (3, ["add", "text", "--supersedes", UNKNOWN]),
    ],
)
def test_wrong_input_has_its_exit_code_and_no_traceback(code, args, capfd):
    assert run(args) == code
    told = capfd.readouterr().err
    assert told.strip()
    assert "Traceback" not in told


def test_input_that_is_not_utf8_is_refused():
    assert "UTF-8" in refused(2, "add", "-", given=b"caf\xe9")
    done = subprocess.run(
        [sys.executable.encode(), b"-m", b"zapomni_cli", b"add", b"caf\xe9"],
        capture_output=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 2
    assert "UTF-8" in done.stderr.decode()


def test_a_wrong_setting_is_named_with_the_nearest_right_one():
    assert "embedder" in refused(2, "list", ZAPOMNI_EMBEDER="none")


def test_a_damaged_database_is_an_error_without_path_or_traceback(private_home):
    private_home.mkdir(mode=0o700)
    (private_home / "zapomni.db").write_bytes(b"this is not a database" * 100)
    told = refused(1, "list")
    assert "zapomni doctor" in told
    assert "zapomni.db" in told
    assert str(private_home) not in told


def test_an_unexpected_error_is_told_by_its_correlation_id(monkeypatch, capsys):
    def broken(**_):
        raise RuntimeError("secret detail")

    monkeypatch.setattr("zapomni_cli.runtime.load_settings", broken)
    assert run(["list"]) == 1
    told = capsys.readouterr().err
    assert "correlation id" in told
    assert "secret detail" not in told


def test_a_reader_that_stops_early_hears_no_complaint(monkeypatch):
    monkeypatch.setenv("ZAPOMNI_EMBEDDER", "none")
    memory_id = add("word " * 100_000)
    for args in (["get", memory_id], ["get", memory_id, "--json"]):
        with subprocess.Popen(
            [sys.executable, "-m", "zapomni_cli", *args],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        ) as child:
            assert child.stdout is not None
            assert child.stderr is not None
            child.stdout.close()
            assert child.stderr.read() == b""
            child.wait(timeout=300)


def test_a_text_is_kept_though_making_its_vectors_is_interrupted(model, monkeypatch):
    monkeypatch.setenv("ZAPOMNI_CHUNK_SIZE", "16")
    monkeypatch.setenv("ZAPOMNI_CHUNK_OVERLAP", "0")
    text = "\n\n".join(f"Note {i} says very little." for i in range(6000)).encode()
    with subprocess.Popen(
        [sys.executable, "-m", "zapomni_cli", "add", "-"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as child:
        assert child.stdin is not None
        assert child.stdout is not None
        child.stdin.write(text)
        child.stdin.close()
        memory_id = child.stdout.readline().decode().strip()
        child.send_signal(signal.SIGINT)
        assert child.stderr is not None
        assert "The text is stored" in child.stderr.read().decode()
        assert child.wait(timeout=300) == 130
    assert zapomni("get", memory_id).stdout == text


def test_a_turn_of_a_conversation_keeps_its_place_and_its_date():
    place = ("--parent", "chat-7", "--position", "3", "--when", "2023-05-08T13:56+00:00")
    memory_id = answer("add", "We met at the lake.", *place).strip()
    kept = as_json("get", memory_id)
    assert (kept["parent"], kept["position"]) == ("chat-7", 3)
    assert kept["occurred_at"] == "2023-05-08T13:56:00Z"
