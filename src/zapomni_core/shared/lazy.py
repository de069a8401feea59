"""A package's front door that imports a file only when one of its names is used."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

__all__ = ["lazy_names"]


def lazy_names(package: str, files: Mapping[str, str]) -> Callable[[str], Any]:
    """Return a module's `__getattr__` (PEP 562).

    Args:
        package: The package, by its `__name__`.
        files: The names each file of the package exports, separated by blanks.
    """
    places = {name: file for file, names in files.items() for name in names.split()}

    def get(name: str) -> Any:
        if name not in places:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        from importlib import import_module

        return getattr(import_module(f"{package}.{places[name]}"), name)

    return get
