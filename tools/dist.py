"""Builds the release files, and proves that the wheel works on a machine that has nothing.

    make dist

In dist/: a wheel, an sdist and an SBOM (CycloneDX) of what an install gets. The sdist has to build
the same wheel. The wheel is installed into a fresh environment with the locked dependencies, in a
fresh HOME with two agents; the demo, the doctor, `init` and `init --uninstall` run there. After
that nothing is left but the data in ~/.zapomni: no other file in HOME or in the folder for
temporary files has changed.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import uuid
import venv
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, requires
from pathlib import Path
from typing import Any
from zipfile import ZipFile

ROOT = Path(__file__).parents[1]
DIST = ROOT / "dist"
LOCK = ROOT / "requirements" / "run.txt"
MOST_BYTES = 1_500_000
_LOCKED = re.compile(
    r"^(?P<name>[\w.-]+)(?:\[[\w,-]+\])?==(?P<version>[^\s;\\]+)(?P<rest>(?:.*\\\n)*.*)",
    re.MULTILINE,
)
_HASH = re.compile(r"--hash=sha256:([0-9a-f]{64})")


def main() -> None:
    """Build, check the size, write the SBOM, install and try the wheel."""
    shutil.rmtree(DIST, ignore_errors=True)
    _run([sys.executable, "-m", "hatchling", "build"], cwd=ROOT)
    (wheel,) = DIST.glob("*.whl")
    (sdist,) = DIST.glob("*.tar.gz")
    size = wheel.stat().st_size
    print(f"{wheel.name}: {size / 1e6:.2f} MB")
    if size > MOST_BYTES:
        sys.exit(f"The wheel has more than {MOST_BYTES / 1e6} MB.")
    version = wheel.name.split("-")[1]
    sbom = DIST / f"zapomni-{version}.cdx.json"
    sbom.write_text(
        json.dumps(make_sbom(version, LOCK.read_text("utf-8")), indent=2) + "\n", "utf-8"
    )
    print(f"{sbom.name}: {len(json.loads(sbom.read_text('utf-8'))['components'])} components")
    with tempfile.TemporaryDirectory(prefix="zapomni-dist-") as folder:
        _try_sdist(sdist, wheel, Path(folder))
        _try_wheel(wheel, Path(folder))
    print("The wheel works, and `init --uninstall` leaves nothing behind.")


def make_sbom(version: str, lock: str) -> dict[str, Any]:
    """Return what an install of this version gets, with the hashes of the lock."""
    # The lock also has what builds the project in a clone.
    build_only = _required("hatchling", "editables") - _required("zapomni")
    components = [
        {
            "type": "library",
            "name": found["name"],
            "version": found["version"],
            "purl": f"pkg:pypi/{found['name']}@{found['version']}",
            "bom-ref": f"{found['name']}@{found['version']}",
            "externalReferences": [
                {
                    "type": "distribution",
                    "url": f"pkg:pypi/{found['name']}@{found['version']}",
                    "hashes": [{"alg": "SHA-256", "content": one}],
                }
                for one in _HASH.findall(found["rest"])
            ],
        }
        for found in _LOCKED.finditer(lock)
        if found["name"] not in build_only
    ]
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        # Of the content: the same lock gives the same file.
        "serialNumber": f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_URL, version + lock)}",
        "version": 1,
        "metadata": {
            "component": {
                "type": "application",
                "name": "zapomni",
                "version": version,
                "purl": f"pkg:pypi/zapomni@{version}",
                "licenses": [{"license": {"id": "MIT"}}],
            }
        },
        "components": components,
    }


def _required(*packages: str) -> set[str]:
    """Return these packages and all that they require, without their extras."""
    found: set[str] = set()
    left = list(packages)
    while left:
        name = left.pop().lower().replace("_", "-")
        if name in found:
            continue
        found.add(name)
        with suppress(PackageNotFoundError):  # of another system
            lines = [line for line in requires(name) or [] if "extra ==" not in line]
            left += [re.split(r"[^\w.-]", line, maxsplit=1)[0] for line in lines]
    return found


def _try_sdist(sdist: Path, wheel: Path, folder: Path) -> None:
    with tarfile.open(sdist) as archive:
        archive.extractall(folder, filter="data")
    (source,) = folder.iterdir()
    _run([sys.executable, "-m", "hatchling", "build", "--target", "wheel"], cwd=source)
    names = [set(ZipFile(one).namelist()) for one in (wheel, source / "dist" / wheel.name)]
    if names[0] != names[1]:
        sys.exit(f"The sdist builds another wheel: {', '.join(sorted(names[0] ^ names[1]))}")


def _try_wheel(wheel: Path, folder: Path) -> None:
    venv.create(folder / "env", with_pip=True)
    python = folder / "env" / "bin" / "python"
    install = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    _run([*install, "--require-hashes", "--requirement", str(LOCK)])
    _run([*install, "--no-deps", str(wheel)])
    home, temporary = folder / "home", folder / "temporary"
    temporary.mkdir()
    for agent in (".claude", ".cursor"):
        (home / agent).mkdir(parents=True)
    (home / ".cursor" / "mcp.json").write_text('{"mcpServers": {}}\n', "utf-8")
    before = _files(home)
    # The model of this machine, if it is here: the release is tried, not the network.
    models = Path(os.environ.get("ZAPOMNI_HOME", Path.home() / ".zapomni")) / "models"
    env = {
        "PATH": f"{folder / 'env' / 'bin'}:/usr/local/bin:/usr/bin:/bin",
        "HOME": str(home),
        "TMPDIR": str(temporary),
        "LANG": "C.UTF-8",
        **({"ZAPOMNI_MODEL_SOURCE": str(models)} if models.is_dir() else {}),
        **{name: value for name, value in os.environ.items() if name.startswith("PIP_")},
    }
    for words in (
        "models pull",
        "demo",
        "init --yes",
        "doctor",
        "init --uninstall --yes",
    ):
        print(f"$ zapomni {words}")
        _run(["zapomni", *words.split()], env=env, cwd=folder)
    after = _files(home)
    left = sorted(name for name, _ in after.items() ^ before.items())
    left += [path.name for path in temporary.iterdir()]
    if left:
        sys.exit(f"init --uninstall left something behind: {', '.join(left)}")


def _files(home: Path) -> dict[str, bytes]:
    """Return what is in a home folder, but for the data, which stays."""
    return {
        str(path.relative_to(home)): path.read_bytes() if path.is_file() else b""
        for path in home.rglob("*")
        if home / ".zapomni" not in (path, *path.parents)
    }


def _run(command: list[str], *, env: dict[str, str] | None = None, cwd: Path | None = None) -> None:
    done = subprocess.run(command, env=env, cwd=cwd, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)} failed:\n{done.stdout}\n{done.stderr}")


if __name__ == "__main__":
    main()
