"""An install gets exactly the files that the lock names, and the lock names all it needs."""

from __future__ import annotations

import re
import tomllib
from importlib import metadata
from pathlib import Path

import pytest
from packaging.markers import default_environment
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parent.parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")
PYTHONS = ("3.11.0", "3.12.0", "3.13.0", "3.14.0")


def read_entries(lock: str) -> list[tuple[Requirement, list[str]]]:
    """Return each requirement of the lock with its hashes."""
    text = (ROOT / "requirements" / lock).read_text(encoding="utf-8")
    entries = []
    for line in re.sub(r"\\\n", " ", text).splitlines():
        if line.strip() and not line.startswith("#"):
            requirement, *hashes = line.split("--hash=")
            entries.append((Requirement(requirement), [value.strip() for value in hashes]))
    return entries


def read_wanted(extras: list[str]) -> list[Requirement]:
    """Return what pyproject.toml asks for, extras of extras included."""
    lines = list(PROJECT["dependencies"])
    for extra in extras:
        for line in PROJECT["optional-dependencies"][extra]:
            if canonicalize_name(Requirement(line).name) == PROJECT["name"]:
                lines += [str(r) for r in read_wanted(sorted(Requirement(line).extras))]
            else:
                lines.append(line)
    build = (ROOT / "requirements/build.in").read_text(encoding="utf-8").splitlines()
    return [Requirement(line) for line in lines + [b for b in build if not b.startswith("#")]]


@pytest.mark.parametrize(("lock", "extras"), [("run.txt", []), ("dev.txt", ["dev"])])
@pytest.mark.parametrize("python", PYTHONS)
def test_the_lock_names_one_fitting_version_of_all_that_is_asked_for(lock, extras, python):
    here = {**default_environment(), "python_version": python[:4], "python_full_version": python}
    locked: dict[str, list[str]] = {}
    for entry, _ in read_entries(lock):
        if entry.marker is None or entry.marker.evaluate(here):
            (pin,) = entry.specifier
            assert pin.operator == "=="
            locked.setdefault(canonicalize_name(entry.name), []).append(pin.version)

    twice = {name for name, versions in locked.items() if len(versions) > 1}
    assert twice == set()
    missing = [
        str(wanted)
        for wanted in read_wanted(extras)
        if not wanted.specifier.contains(*locked.get(canonicalize_name(wanted.name), ["0"]))
    ]
    assert missing == [], f"requirements/{lock} is out of date: run `make lock` and commit it"


@pytest.mark.parametrize("lock", ["run.txt", "dev.txt"])
def test_every_entry_is_a_version_with_hashes_and_no_address(lock):
    for requirement, hashes in read_entries(lock):
        assert hashes, f"{requirement.name} has no hash"
        assert all(re.fullmatch(r"sha256:[0-9a-f]{64}", value) for value in hashes)
    assert "://" not in (ROOT / "requirements" / lock).read_text(encoding="utf-8")


def test_both_locks_agree():
    dev = {(entry.name, entry.specifier): hashes for entry, hashes in read_entries("dev.txt")}
    for entry, hashes in read_entries("run.txt"):
        assert dev[entry.name, entry.specifier] == hashes


def test_set_up_installs_from_the_lock_and_asks_for_nothing_else():
    installs = re.findall(r"\$\(BIN\)/pip install (.*)", MAKEFILE)
    assert installs == [
        "$(LOCKED) requirements/run.txt",
        "$(EDITABLE)",
        "$(LOCKED) requirements/dev.txt",
        "$(EDITABLE)",
    ]
    assert re.search(r"^LOCKED := .*--require-hashes", MAKEFILE, re.MULTILINE)
    editable = re.search(r"^EDITABLE := (.*)", MAKEFILE, re.MULTILINE)
    assert editable is not None
    assert {"--no-deps", "--no-build-isolation"} <= set(editable[1].split())


@pytest.mark.parametrize("lock", ["run.txt", "dev.txt"])
def test_the_lock_pins_packages_with_the_extras_that_others_ask_for(lock):
    """Otherwise pip looks at newer releases for `name[extra]` and refuses them as not pinned."""
    locked = {canonicalize_name(entry.name): entry.extras for entry, _ in read_entries(lock)}
    here = default_environment()
    asked: dict[str, set[str]] = {}
    for name, extras in locked.items():
        try:
            requirements = metadata.requires(name) or []
        except metadata.PackageNotFoundError:  # for another Python or system
            continue
        for wanted in map(Requirement, requirements):
            fits = wanted.marker is None or any(
                wanted.marker.evaluate({**here, "extra": extra}) for extra in {"", *extras}
            )
            if fits and wanted.extras and canonicalize_name(wanted.name) in locked:
                asked.setdefault(canonicalize_name(wanted.name), set()).update(wanted.extras)

    assert asked, "nothing asks for an extra: this test checks nothing"
    missing = {name: extras - locked[name] for name, extras in asked.items()}
    assert {name: extras for name, extras in missing.items() if extras} == {}
