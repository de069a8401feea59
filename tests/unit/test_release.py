from __future__ import annotations

import json
import re
import subprocess
import sys
from datetime import date
from pathlib import Path
from zipfile import ZipFile

import pytest
import yaml

from tools.dist import LOCK, MOST_BYTES, make_sbom
from tools.release import cut

ROOT = Path(__file__).parents[2]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))


def test_cutting_a_release_gives_the_unreleased_changes_its_name():
    old = (
        "# Changes\n\n## Unreleased\n\n### Added\n\n- A thing.\n\n## 0.1.0 (2026-01-01)\n\n- All.\n"
    )
    new = cut(old, "0.2.0", date(2026, 11, 16))
    assert new.index("## Unreleased") < new.index("## 0.2.0 (2026-11-16)") < new.index("- A thing.")
    assert new.count("## 0.1.0 (2026-01-01)") == 1
    with pytest.raises(SystemExit, match="nothing under Unreleased"):
        cut(new, "0.3.0", date(2026, 12, 1))


def test_the_sbom_names_every_locked_package_with_its_hashes():
    lock = LOCK.read_text("utf-8")
    sbom = make_sbom("0.2.0", lock)
    names = {one["name"]: one for one in sbom["components"]}
    builders = {"hatchling", "editables", "pathspec", "pluggy", "tomlkit", "trove-classifiers"}
    assert set(names) == set(re.findall(r"^([\w.-]+)\S*==", lock, re.MULTILINE)) - builders
    assert {"pyjwt", "cryptography", "onnxruntime"} <= set(names)
    assert len(names["click"]["externalReferences"]) == 2
    hashes = [ref["hashes"][0]["content"] for ref in names["click"]["externalReferences"]]
    assert all(f"--hash=sha256:{one}" in lock for one in hashes)
    assert json.dumps(sbom) == json.dumps(make_sbom("0.2.0", lock))


def test_the_wheel_is_small_and_has_every_package(tmp_path):
    build = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory"]
    subprocess.run([*build, str(tmp_path)], cwd=ROOT, check=True, capture_output=True)
    (wheel,) = tmp_path.glob("*.whl")
    assert wheel.stat().st_size <= MOST_BYTES
    with ZipFile(wheel) as packed:
        folders = {name.split("/")[0] for name in packed.namelist()}
    assert {folder.name for folder in (ROOT / "src").iterdir() if folder.is_dir()} <= folders


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_workflows_ask_for_little_and_pin_what_they_use(path):
    workflow = yaml.safe_load(path.read_text("utf-8"))
    assert workflow["permissions"] == {}
    for job in workflow["jobs"].values():
        assert "timeout-minutes" in job
        assert set(job["permissions"].values()) <= {"read"} or job["environment"] == "pypi"
        for step in job["steps"]:
            if "uses" in step:
                assert re.fullmatch(r"[\w-]+/[\w-]+@[0-9a-f]{40}", step["uses"])


def test_issue_forms_ask_for_the_report_of_the_doctor():
    bug = yaml.safe_load((ROOT / ".github" / "ISSUE_TEMPLATE" / "bug.yml").read_text("utf-8"))
    (report,) = [part for part in bug["body"] if part.get("id") == "report"]
    assert "zapomni doctor --report" in report["attributes"]["label"]
    assert report["validations"]["required"] is True
