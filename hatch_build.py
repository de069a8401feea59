"""Compresses the wheel as well as zip files can be: without this it is a few kilobytes larger."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from zipfile import ZIP_DEFLATED, ZipFile

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class Compress(BuildHookInterface[Any]):
    """Called by hatchling for every wheel that it built."""

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Write the same files again, each with the most effort."""
        del version, build_data
        wheel = Path(artifact_path)
        smaller = wheel.with_suffix(".smaller")
        with ZipFile(wheel) as old, ZipFile(smaller, "w") as new:
            for info in old.infolist():
                data = old.read(info)
                new.writestr(info, data, compress_type=ZIP_DEFLATED, compresslevel=9)
        smaller.replace(wheel)
