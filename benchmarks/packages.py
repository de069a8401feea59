"""Real packages to measure with, the same for everybody: pinned, from the package index.

python -m benchmarks.packages [NAME ...]

Wheels are unpacked to `benchmarks/.packages/` and stay there.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

FOLDER = Path(__file__).parent / ".packages"
VERSIONS = {
    "click": "8.5.1",
    "django": "5.2.19",
    "flask": "3.1.3",
    "requests": "2.34.2",
    "rich": "15.0.0",
}


def unpacked(name: str) -> Path:
    """Return the folder of a package's sources; fetch them if they are not there yet."""
    target = FOLDER / f"{name}-{VERSIONS[name]}"
    if target.is_dir():
        return target
    with tempfile.TemporaryDirectory() as folder:
        command = [
            sys.executable,
            "-m",
            "pip",
            "download",
            "--quiet",
            "--no-deps",
            "--dest",
            folder,
        ]
        wanted = f"{name}=={VERSIONS[name]}"
        subprocess.run([*command, "--only-binary", ":all:", wanted], check=True)
        (wheel,) = Path(folder).glob("*.whl")
        part = target.with_suffix(".part")
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(part)
    part.rename(target)
    return target


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", default=sorted(VERSIONS), choices=sorted(VERSIONS))
    for name in parser.parse_args().names:
        print(unpacked(name))


if __name__ == "__main__":
    main()
