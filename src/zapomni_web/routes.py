"""Every page and every change of the site, by address. A page's file is imported when it is asked.

To add a page: a file in `pages/` with a function `show(asked) -> PageView`, a template, a line
here, and a test in `tests/web/`. Its `.json` comes by itself.
"""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["CHANGES", "PAGES", "Page", "PageChange"]


class Page(NamedTuple):
    """An address and the function that shows it, as `file:function` in `pages/`."""

    path: str
    view: str
    nav: str = ""
    """What the navigation calls it; empty: it is reached from other pages."""
    key: str = ""
    """After `g`, this key leads there."""


class PageChange(NamedTuple):
    """An address that takes a POST. A GET of it shows what `ask` returns, a `Confirm`, if any."""

    path: str
    make: str
    ask: str = ""


# In the order of the navigation.
PAGES = [
    Page("/today", "today:show", nav="Today", key="d"),
    Page("/search", "search:show", nav="Search", key="s"),
    Page("/sessions", "sessions:show", nav="Sessions", key="n"),
    Page("/timeline", "timeline:show", nav="Timeline", key="t"),
    Page("/context", "context:show", nav="Context", key="x"),
    Page("/review", "review:show", nav="Review", key="r"),
    Page("/graph", "graph:show", nav="Graph", key="g"),
    Page("/code", "code:show", nav="Code", key="c"),
    Page("/recalls", "recalls:show", nav="Recalls", key="l"),
    Page("/tasks", "tasks:show", nav="Tasks", key="k"),
    Page("/health", "health:show", nav="Health", key="h"),
    Page("/settings", "settings:show", nav="Settings", key="e"),
    Page("/import", "imports:show", nav="Import", key="i"),
    Page("/add", "memory:new", nav="Add", key="a"),
    Page("/trash", "trash:show", nav="Trash", key="b"),
    Page("/graph/path", "graph:path"),
    Page("/code/files", "code:files"),
    Page("/code/file", "code:file"),
    Page("/code/symbol", "code:symbol"),
    Page("/s/{id}", "session:show"),
    Page("/import/{source}", "imports:preview"),
    Page("/m/{id}", "memory:show"),
    Page("/m/{id}/edit", "memory:edit"),
    Page("/m/{id}/replace", "memory:replace"),
]

CHANGES = [
    PageChange("/context/switch", "context:switch"),
    PageChange("/context/pin", "context:pin"),
    PageChange("/s/{id}/pin", "session:pin"),
    PageChange("/s/{id}/purge", "session:purge", "session:ask_purge"),
    PageChange("/review/look", "review:look"),
    PageChange("/review/{id}", "review:decide"),
    PageChange("/import/backup", "imports:make_backup"),
    PageChange("/import/{source}/start", "imports:start", "imports:ask_start"),
    PageChange("/import/batch/{id}/undo", "imports:undo", "imports:ask_undo"),
    PageChange("/import/batch/{id}/trust", "imports:trust", "imports:ask_trust"),
    PageChange("/add", "memory:add"),
    PageChange("/tasks/{id}/cancel", "tasks:cancel"),
    PageChange("/tasks/{id}/retry", "tasks:retry"),
    PageChange("/health/check", "health:check"),
    PageChange("/code/index", "code:index"),
    PageChange("/graph/build", "graph:build"),
    PageChange("/graph/merge", "graph:merge", "graph:ask_merge"),
    PageChange("/graph/part", "graph:part", "graph:ask_part"),
    PageChange("/trash/{batch}/restore", "trash:restore"),
    PageChange("/m/{id}/edit", "memory:save"),
    PageChange("/m/{id}/pin", "memory:pin"),
    PageChange("/m/{id}/trust", "memory:trust", "memory:ask_trust"),
    PageChange("/m/{id}/forget", "memory:forget", "memory:ask_forget"),
    PageChange("/m/{id}/restore", "memory:restore", "memory:ask_restore"),
    PageChange("/m/{id}/supersede", "memory:supersede", "memory:ask_supersede"),
]
