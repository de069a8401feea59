"""At least one address of every page, on the shared home: what is tested on all pages uses them."""

from __future__ import annotations

from urllib.parse import quote

from site_client import HOSTILE_FILE, Home


def addresses(home: Home) -> dict[str, list[str]]:
    """Return addresses by the path of their page in `zapomni_web.routes.PAGES`.

    Choose those where the hostile text of the home is shown. The first of each page is checked
    for accessibility: the one with the most on it.
    """
    return {
        "/today": ["/today"],
        "/timeline": ["/timeline", "/timeline?project=shop"],
        "/search": [
            "/search?q=window.hurt+esrever+deploy",
            "/search",
            "/search?q=window.hurt&view=agent",
        ],
        "/context": [
            "/context",
            "/context?source=compact&view=raw",
            "/context?project=%3Cscript%3Ewindow.hurt%3D1%3C%2Fscript%3E",
        ],
        "/sessions": ["/sessions", "/sessions?project=shop&host=claude-code&since=7d"],
        "/s/{id}": [
            f"/s/{home.session}?at=2",
            f"/s/{home.session}",
            f"/s/{home.session}?only=prompts",
        ],
        "/tasks": ["/tasks", "/tasks?status=failed"],
        "/health": ["/health"],
        "/settings": ["/settings", "/settings?only=set"],
        "/review": ["/review", "/review?kind=untrusted", "/review?kind=duplicate&offset=10"],
        "/recalls": [
            "/recalls",
            f"/recalls?item={home.hostile}",
            "/recalls?session=%3Cscript%3Ewindow.hurt%3D1%3C%2Fscript%3E&used=0",
        ],
        "/graph": ["/graph?entity=Acme&depth=2", "/graph", "/graph?view=table"],
        "/graph/path": [
            "/graph/path?source=Ada+Lovelace&target=PostgreSQL",
            "/graph/path",
            "/graph/path?source=%3Cscript%3Ewindow.hurt%3D1%3C%2Fscript%3E&target=Acme",
        ],
        "/import": ["/import"],
        "/import/{source}": ["/import/git", "/import/git?since=30d"],
        "/code": ["/code"],
        "/code/files": [f"/code/files?repo={home.repository}"],
        "/code/file": [
            f"/code/file?repo={home.repository}&path=auth.py",
            f"/code/file?repo={home.repository}&path={quote(HOSTILE_FILE)}",
        ],
        "/code/symbol": [
            f"/code/symbol?repo={home.repository}&name=auth.py:check_token",
            f"/code/symbol?repo={home.repository}&name=hurt_others",
        ],
        "/add": ["/add", "/add?text=%3Cscript%3Ewindow.hurt%3D1%3C%2Fscript%3E"],
        "/trash": ["/trash"],
        "/m/{id}": [f"/m/{home.document}", f"/m/{home.hostile}", f"/m/{home.hostile}?view=raw"],
        "/m/{id}/edit": [f"/m/{home.hostile}/edit"],
        "/m/{id}/replace": [f"/m/{home.deploy}/replace", f"/m/{home.deploy}/replace?q=window.hurt"],
    }


def questions(home: Home) -> list[str]:
    """Return the addresses that ask before a change, and the pages that are always there."""
    return [
        "/help",
        "/import/git/start",
        f"/s/{home.session}/purge",
        "/graph/merge?source=Acme&into=PostgreSQL",
        f"/m/{home.hostile}/forget",
        f"/m/{home.deploy}/restore?version=1",
        f"/m/{home.hostile}/trust",
        f"/m/{home.hostile}/supersede?by={home.document}",
    ]
