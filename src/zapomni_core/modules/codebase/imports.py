"""Finds the files an import means."""

from __future__ import annotations

import re
import sys
from collections import defaultdict
from collections.abc import Collection

__all__ = ["Modules"]


_SCRIPT = (".ts", ".tsx", ".js", ".jsx", ".mjs", ".cjs", ".d.ts", ".mts", ".cts", ".vue")
_SCRIPT_LANGUAGES = frozenset({"javascript", "typescript", "tsx"})
_SUFFIXES = {
    "c": (".h", ".c", ".hpp"),
    "cpp": (".h", ".hpp", ".hh", ".hxx", ".cpp", ".cc"),
    "csharp": (".cs",),
    "java": (".java", ".kt", ".scala"),
    "kotlin": (".kt", ".java", ".kts"),
    "scala": (".scala", ".java", ".kt"),
    "lua": (".lua",),
    "php": (".php",),
    "ruby": (".rb",),
    "rust": (".rs",),
    "bash": (".sh", ".bash"),
}
_PARTS = re.compile(r"[./\\]+")


class Modules:
    """The files of a repository by what they are imported as."""

    def __init__(self, paths: Collection[str]) -> None:
        self._paths = frozenset(paths)
        self._by_stem: dict[str, list[str]] = defaultdict(list)
        self._folders: dict[str, list[str]] = defaultdict(list)
        self._roots_of: dict[tuple[str, str], list[str]] = {}
        known: set[str] = {""}
        for path in sorted(self._paths):
            folder, _, name = path.rpartition("/")
            self._by_stem[name.partition(".")[0]].append(path)
            while folder not in known:
                known.add(folder)
                self._folders[folder.rpartition("/")[2]].append(folder)
                folder = folder.rpartition("/")[0]
        self._known_folders = known

    def find(self, module: str, path: str, language: str) -> str:
        """Return the file, or else the folder with a slash behind it, that a module is; "" if none.

        Args:
            module: As it is written, with dots for other separators.
            path: The file that imports it.
            language: That file's language.
        """
        if language == "python":
            return self._python(module, path)
        if language in _SCRIPT_LANGUAGES:
            return self._script(module, path)
        if language == "go":
            return self._folder_like(module.split("/"))
        return self._anywhere(module, path, language)

    def inside(self, folder: str, name: str) -> str:
        """Return the Python module of this name in a folder, "" if there is none."""
        base = f"{folder}/{name}" if folder else name
        for candidate in (
            f"{base}.py",
            f"{base}/__init__.py",
            f"{base}.pyi",
            f"{base}/__init__.pyi",
        ):
            if candidate in self._paths:
                return candidate
        return f"{base}/" if base in self._known_folders else ""

    def _python(self, module: str, path: str) -> str:
        name = module.lstrip(".")
        dots = len(module) - len(name)
        parts = name.split(".") if name else []
        if dots:
            folder = path
            for _ in range(dots):
                folder = folder.rpartition("/")[0]
            return self._walk_down(folder, parts)
        for root in self._roots(parts[0], path):
            found = self._walk_down(root, parts)
            if found:
                return found
        return ""

    def _walk_down(self, folder: str, parts: list[str]) -> str:
        if not parts:
            above, _, name = folder.rpartition("/")
            return self.inside(above, name) if folder else "/"
        for part in parts[:-1]:
            folder = f"{folder}/{part}" if folder else part
        return self.inside(folder, parts[-1])

    def _roots(self, top: str, path: str) -> list[str]:
        """Return the folders a top-level package may stand in, the nearest first."""
        above = path.rpartition("/")[0]
        key = (top, above)
        if key in self._roots_of:
            return self._roots_of[key]
        roots = []
        while True:
            if not self._is_package(above):
                roots.append(above)
            if not above:
                break
            above = above.rpartition("/")[0]
        if top not in sys.stdlib_module_names:
            others = [folder.rpartition("/")[0] for folder in self._folders.get(top, [])]
            others += [one.rpartition("/")[0] for one in self._by_stem.get(top, [])]
            roots += [root for root in others if not self._is_package(root)]
        self._roots_of[key] = found = list(dict.fromkeys(roots))
        return found

    def _is_package(self, folder: str) -> bool:
        base = f"{folder}/" if folder else ""
        return f"{base}__init__.py" in self._paths or f"{base}__init__.pyi" in self._paths

    def _script(self, module: str, path: str) -> str:
        if module.startswith("."):
            base = _joined(path.rpartition("/")[0], module)
            candidates = [base]
        else:
            # `@/x` and `~/x` are how bundlers write the folder of sources.
            tail = module.removeprefix("@/").removeprefix("~/")
            candidates = [tail, f"src/{tail}"]
        for base in candidates:
            stem = re.sub(r"\.[mc]?jsx?$", "", base)
            for option in (
                base,
                *(f"{stem}{s}" for s in _SCRIPT),
                *(f"{base}/index{s}" for s in _SCRIPT),
            ):
                if option in self._paths:
                    return option
        return ""

    def _folder_like(self, parts: list[str]) -> str:
        """Return the folder whose path ends like this, as long a tail as there is."""
        folders = self._folders.get(parts[-1], [])
        for start in range(len(parts)):
            tail = "/".join(parts[start:])
            for folder in folders:
                if folder == tail or folder.endswith(f"/{tail}"):
                    return f"{folder}/"
        return ""

    def _anywhere(self, module: str, path: str, language: str) -> str:
        suffixes = _SUFFIXES.get(language, ())
        stem = module
        for suffix in suffixes:
            stem = stem.removesuffix(suffix)
        parts = [part for part in _PARTS.split(stem) if part not in ("", "crate", "super", "self")]
        if not parts:
            return ""
        here = path.rpartition("/")[0]
        files = [one for one in self._by_stem.get(parts[-1], []) if one.endswith(suffixes)]
        folders = self._folders.get(parts[-1], [])
        for start in range(len(parts)):
            tail = "/".join(parts[start:])
            fits = [one for one in files if f"/{one}".rpartition(".")[0].endswith(f"/{tail}")]
            if fits:
                return max(fits, key=lambda one: (_shared(one, here), -len(one)))
            fits = [one for one in folders if f"/{one}".endswith(f"/{tail}")]
            if fits:
                return max(fits, key=lambda one: (_shared(one, here), -len(one))) + "/"
        return ""


def _joined(folder: str, relative: str) -> str:
    parts = folder.split("/") if folder else []
    for part in relative.split("/"):
        if part == "..":
            parts = parts[:-1]
        elif part not in ("", "."):
            parts.append(part)
    return "/".join(parts)


def _shared(path: str, folder: str) -> int:
    count = 0
    for one, other in zip(path.split("/"), folder.split("/"), strict=False):
        if one != other:
            break
        count += 1
    return count
