"""The ASGI application: routes to pages, templates to HTML, errors to words."""

from __future__ import annotations

import hashlib
from collections.abc import Awaitable, Callable
from functools import cache, partial
from importlib import import_module, resources
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined, select_autoescape
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response, StreamingResponse
from starlette.routing import Route

from zapomni_core.exceptions import NotFoundError, ValidationError, ZapomniError
from zapomni_core.infra.correlation import operation
from zapomni_core.infra.error_messages import sanitize_error_for_user
from zapomni_core.infra.logging import get_logger
from zapomni_web import text
from zapomni_web.page import (
    Confirm,
    Done,
    MissingPageError,
    PageRequest,
    PageView,
    Site,
    address,
    to_json,
)
from zapomni_web.routes import CHANGES, PAGES, Page, PageChange

__all__ = ["create_app", "environment", "read_static", "static_address"]

TYPES = {
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
}
HOME = "/today"

logger = get_logger(__name__)


@cache
def read_static() -> dict[str, bytes]:
    """Return the static files by name."""
    folder = resources.files("zapomni_web") / "static"
    return {one.name: one.read_bytes() for one in folder.iterdir() if one.is_file()}


@cache
def static_address(name: str) -> str:
    """Return the address of a static file; it changes with any of them."""
    digest = hashlib.sha256(b"".join(body for _, body in sorted(read_static().items())))
    return f"/static/{digest.hexdigest()[:12]}/{name}"


@cache
def environment() -> Environment:
    """Return what renders templates: everything stored is escaped."""
    made = Environment(
        loader=PackageLoader("zapomni_web"),
        autoescape=select_autoescape(default=True, default_for_string=True),
        finalize=text.finalize,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )
    made.filters.update(ago=text.ago, markdown=text.render_markdown, moment=text.moment)
    made.globals.update(
        address=address,
        command_line=text.command_line,
        navigation=[page for page in PAGES if page.nav],
        static=static_address,
    )
    return made


def create_app(site: Site) -> Starlette:
    """Return the application. It expects the guard around it, which says who asks."""
    routes: list[Route] = [
        Route("/", partial(_redirect, HOME)),
        Route("/events", partial(_events, site)),
        Route("/static/{version}/{name}", _send_static),
        Route("/undo/{change}", _endpoint(site, _undo), methods=["POST"]),
        Route("/keyboard", partial(_redirect, "/help")),
        Route("/help", _endpoint(site, _help)),
    ]
    # Those of a fixed address first: `/m/new` is no memory.
    for change in sorted(CHANGES, key=lambda one: "{" in one.path.rpartition("/")[2]):
        routes.append(Route(change.path, _endpoint(site, partial(_make, change)), methods=["POST"]))
        if change.ask:
            routes.append(Route(change.path, _endpoint(site, partial(_ask, change))))
    for page in sorted(PAGES, key=lambda one: "{" in one.path.rpartition("/")[2]):
        routes += [
            Route(f"{page.path}.json", _endpoint(site, partial(_show_json, page))),
            Route(page.path, _endpoint(site, partial(_show, page))),
        ]
    routes.append(Route("/{rest:path}", _endpoint(site, _find_nothing)))
    return Starlette(routes=routes)


def _load(name: str) -> Callable[[PageRequest], Awaitable[Any]]:
    module, _, function = name.partition(":")
    loaded: Callable[[PageRequest], Awaitable[Any]] = getattr(
        import_module(f"zapomni_web.pages.{module}"), function
    )
    return loaded


def _endpoint(
    site: Site, answer: Callable[[PageRequest], Awaitable[Response]]
) -> Callable[[Request], Awaitable[Response]]:
    """Return an endpoint whose errors are pages, too."""

    async def endpoint(request: Request) -> Response:
        site.live.touch()
        asked = PageRequest(site, request)
        with operation() as correlation_id:
            try:
                return await answer(asked)
            except Exception as error:
                if not isinstance(error, ZapomniError | MissingPageError):
                    logger.error("page_failed", exc_info=error)  # noqa: TRY400 - as other doors do
                return _show_error(asked, error, correlation_id)

    return endpoint


# --- Pages ------------------------------------------------------------------------------


async def _show(page: Page, asked: PageRequest) -> Response:
    view: PageView = await _load(page.view)(asked)
    path = asked.url.path
    query = f"?{asked.url.query}" if asked.url.query else ""
    return _render(
        asked,
        view.template,
        {
            "title": view.title,
            "data": view.data,
            "command": text.command_line(view.command) if view.command else "",
            "live": view.live,
            "json_address": f"{path}.json{query}",
            "page_path": page.path,
            **view.more,
        },
        view.status,
    )


async def _show_json(page: Page, asked: PageRequest) -> Response:
    view: PageView = await _load(page.view)(asked)
    return Response(to_json(view.data), view.status, media_type="application/json")


async def _find_nothing(asked: PageRequest) -> Response:
    del asked
    raise MissingPageError("There is no such page.")


async def _help(asked: PageRequest) -> Response:
    return _render(asked, "help.html", {"title": "Keyboard and help"})


def _render(
    asked: PageRequest, template: str, values: dict[str, Any], status: int = 200
) -> Response:
    done_id = asked.get("done")
    shown = {
        "asked": asked,
        "site": asked.site,
        "visitor_csrf": asked.csrf,
        "read_only": asked.site.read_only,
        "command": "",
        "json_address": "",
        "live": "",
        "page_path": "",
        "done_id": done_id,
        "done": asked.site.changes.get(done_id) if done_id else None,
        **values,
    }
    body = environment().get_template(template).render(shown)
    return Response(body, status, media_type="text/html; charset=utf-8")


def _show_error(asked: PageRequest, error: Exception, correlation_id: str) -> Response:
    shown: dict[str, Any] = {"error": str(error), "correlation_id": correlation_id}
    if not isinstance(error, MissingPageError):
        shown = dict(
            sanitize_error_for_user(error, getattr(error, "correlation_id", correlation_id))
        )
    status = 500
    if isinstance(error, NotFoundError | MissingPageError):
        status = 404
    elif isinstance(error, ValidationError):
        status = 400
    if asked.url.path.endswith(".json"):
        return Response(to_json(shown), status, media_type="application/json")
    titles = {404: "Not found", 400: "That does not work"}
    title = titles.get(status, "Something went wrong")
    return _render(asked, "error.html", {"title": title, "error": shown}, status)


# --- Changes ----------------------------------------------------------------------------


async def _ask(change: PageChange, asked: PageRequest) -> Response:
    question: Confirm = await _load(change.ask)(asked)
    return _render(asked, "confirm.html", {"title": question.title, "question": question})


async def _make(change: PageChange, asked: PageRequest) -> Response:
    done: Done = await _load(change.make)(asked)
    asked.site.begin_work()
    return _go_on(asked, done)


async def _undo(asked: PageRequest) -> Response:
    return _go_on(asked, await asked.site.changes.undo(asked.path["change"]))


def _go_on(asked: PageRequest, done: Done) -> Response:
    """Lead to the page that shows what was done: reloading it does nothing again."""
    joint = "&" if "?" in done.to else "?"
    return RedirectResponse(f"{done.to}{joint}done={asked.site.changes.add(done)}", 303)


# --- What is no page --------------------------------------------------------------------


async def _redirect(to: str, request: Request) -> Response:
    del request
    return RedirectResponse(to, 303)


async def _events(site: Site, request: Request) -> Response:
    del request
    return StreamingResponse(site.live.stream(), media_type="text/event-stream")


async def _send_static(request: Request) -> Response:
    name = request.path_params["name"]
    body = read_static().get(name)
    if body is None or request.url.path != static_address(name):
        return Response("Not found", 404, media_type="text/plain")
    kind = TYPES[name.rpartition(".")[2]]
    return Response(
        body, media_type=kind, headers={"Cache-Control": "private, max-age=31536000, immutable"}
    )
