"""Settings as they are in effect, and where each comes from. They are changed elsewhere."""

from __future__ import annotations

from typing import Any, NamedTuple

from zapomni_core.settings import EffectiveSetting, explain_settings
from zapomni_web.page import PageRequest, PageView

__all__ = ["show"]

GROUPS = (
    ("Where things are", "home storage cache models_dir model_source code_roots allow_open_home"),
    ("Meaning and words", "embedder embedding_model ollama_host openai reranker chunk"),
    ("Knowledge graph", "extractor extraction"),
    ("What sessions are given", "context trust private_paths"),
    ("How long things stay", "observation recall daily_backups backup"),
    ("Processes", ""),
)


class ShownSetting(NamedTuple):
    """A setting with its value in words."""

    setting: EffectiveSetting
    value: str
    is_set: bool


async def show(asked: PageRequest) -> PageView:
    """Show every setting."""
    found = explain_settings(asked.site.settings)
    only_set = asked.get("only") == "set"
    groups: dict[str, list[ShownSetting]] = {name: [] for name, _ in GROUPS}
    for one in found:
        if not only_set or one.origin != "default":
            groups[_group(one.name)].append(
                ShownSetting(one, _words(one.value), one.origin != "default")
            )
    return PageView(
        "settings.html",
        "Settings",
        found,
        ["zapomni", "status", "--settings"],
        {
            "groups": [(name, members) for name, members in groups.items() if members],
            "changed": sum(one.origin != "default" for one in found),
            "total": len(found),
            "only_set": only_set,
            "all_href": asked.here(only=None),
            "set_href": asked.here(only="set"),
            "file": str(asked.site.settings.home / "config.toml"),
        },
    )


def _group(name: str) -> str:
    return next(
        title
        for title, prefixes in GROUPS
        if not prefixes or name.startswith(tuple(prefixes.split()))
    )


def _words(value: Any) -> str:
    if value in (None, "", [], {}):
        return "not set"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list):
        return ", ".join(value)
    if isinstance(value, dict):
        return ", ".join(f"{name}: {one}" for name, one in value.items())
    return str(value)
