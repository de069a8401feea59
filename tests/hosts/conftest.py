from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest
from clients import SEARCHED, Machine


@pytest.fixture
def machine(request: pytest.FixtureRequest, tmp_path: Path, private_home: Path) -> Machine:
    """A machine with the client that the test's module names as CLIENT."""
    client = request.module.CLIENT
    if shutil.which(client, path=SEARCHED) is None:
        pytest.skip(f"{client} is not installed; see tests/hosts/clients.py")
    programs, project = tmp_path / "programs", tmp_path / "project"
    programs.mkdir()
    (project / ".git").mkdir(parents=True)
    (project / ".git" / "HEAD").write_text("ref: refs/heads/main\n")
    program = programs / "zapomni"
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m zapomni_cli "$@"\n')
    program.chmod(0o755)
    return Machine(private_home.parent, project, programs)
