from __future__ import annotations

import json

from command import answer, as_json, refused, zapomni


def record(cwd: str, prompt: str) -> None:
    event = {
        "session_id": f"s-{cwd}",
        "cwd": cwd,
        "hook_event_name": "UserPromptSubmit",
        "prompt": prompt,
    }
    done = zapomni("record", "--host", "claude-code", given=json.dumps(event).encode())
    assert done.returncode == 0


def test_two_folders_of_one_name_are_two_projects_until_they_are_joined(tmp_path):
    folders = [tmp_path / "one" / "app", tmp_path / "two" / "app"]
    for folder in folders:
        folder.mkdir(parents=True)
        record(str(folder), f"please fix {folder.parent.name}")
    first, second = sorted(project["key"] for project in as_json("projects"))
    assert {project["name"] for project in as_json("projects")} == {"app"}

    assert "1 observation moved" in answer("projects", "--join", second, first)

    (joined,) = as_json("projects")
    assert joined["key"] == first
    assert joined["aliases"] == [second]
    assert joined["observations"] == 2
    record(str(folders[1]), "and this one comes to the joined project")
    (joined,) = as_json("projects")
    assert joined["observations"] == 3


def test_joining_with_an_unknown_project_is_refused():
    assert "zapomni projects" in refused(2, "projects", "--join", "a", "b")
    assert "itself" in refused(2, "projects", "--join", "a", "a")


def test_nothing_captured_yet_is_said():
    assert as_json("projects") == []
    assert "zapomni init" in zapomni("projects").stderr.decode()
