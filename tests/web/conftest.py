"""A site with content, asked by ASGI calls or by a real browser."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from site_client import Client, Home, fill

from zapomni_core.settings import load_settings

INSTALL = "apt-get install -y --no-install-recommends chromium, or set ZAPOMNI_CHROMIUM"
CHROMIUM = os.environ.get("ZAPOMNI_CHROMIUM") or next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
)
MODELS = str(load_settings().models_path)


# The loop that an open browser of playwright leaves running in this thread: shown to the tests that
# use the browser, hidden from all others, which run loops of their own.
LOOPS: list[asyncio.AbstractEventLoop | None] = [None]


@pytest.fixture(autouse=True)
def _show_loop(request: pytest.FixtureRequest) -> Iterator[None]:
    if "browser" not in request.fixturenames:
        yield
        return
    asyncio.events._set_running_loop(LOOPS[-1])
    yield
    asyncio.events._set_running_loop(None)


@pytest.fixture(scope="session")
def home(tmp_path_factory: pytest.TempPathFactory) -> Home:
    """A home folder with memories, observations, indexed code and a graph, filled once."""
    return fill(tmp_path_factory.mktemp("web"), MODELS)


@pytest.fixture(scope="module")
def site(home: Home) -> Iterator[Client]:
    """The site on the shared home: for tests that change nothing, or take it back."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("ZAPOMNI_HOME", str(home.folder))
        patched.setenv("ZAPOMNI_MODELS_DIR", MODELS)
        # The history of the repository around it is a source of imports.
        patched.chdir(home.repository)
        with Client(load_settings()) as one:
            yield one


@pytest.fixture
def empty(private_home: Path) -> Iterator[Client]:
    """The site on a home folder with nothing in it."""
    with Client(load_settings()) as one:
        yield one


@pytest.fixture(scope="session")
def browser():
    """One browser for all tests of the session."""
    if CHROMIUM is None:
        pytest.skip(f"no browser is here; to have one: {INSTALL}")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        launched = playwright.chromium.launch(executable_path=CHROMIUM)
        LOOPS.append(asyncio.events._get_running_loop())
        yield launched
        asyncio.events._set_running_loop(LOOPS[-1])
        launched.close()


@pytest.fixture(scope="session")
def link(home: Home) -> Iterator[str]:
    """The login link of a page that a process of its own serves, one for all browser tests."""
    environ = {
        **{name: value for name, value in os.environ.items() if not name.startswith("ZAPOMNI_")},
        "ZAPOMNI_HOME": str(home.folder),
        "ZAPOMNI_MODELS_DIR": MODELS,
        "ZAPOMNI_SHARE": "false",
        "HOME": str(home.folder.parent),
    }
    command = [sys.executable, "-m", "zapomni_cli", "ui", "--no-browser"]
    served = subprocess.Popen(
        command, stdout=subprocess.PIPE, text=True, env=environ, cwd=home.repository
    )
    assert served.stdout is not None
    yield served.stdout.readline().strip()
    served.terminate()
    served.wait(60)
    served.stdout.close()


class Watched:
    """A tab that fails its test on any error in the console and any report of the policy."""

    def __init__(self, page, base: str) -> None:
        self.page = page
        self.base = base
        self.problems: list[str] = []
        self.allowed: list[str] = []
        page.on("console", self._hear)
        page.on("pageerror", lambda error: self.problems.append(str(error)))
        page.on("dialog", self._refuse)

    def _hear(self, message) -> None:
        if message.type == "error" and not any(part in message.text for part in self.allowed):
            self.problems.append(message.text)

    def _refuse(self, dialog) -> None:
        self.problems.append(f"a dialog: {dialog.message}")
        dialog.dismiss()

    def open(self, path: str) -> None:
        self.page.goto(self.base + path)


@pytest.fixture(scope="session")
def logged_in(browser, link: str):
    """A browser context that has logged in."""
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    page = context.new_page()
    page.goto(link)
    base = link.partition("/login")[0]
    page.wait_for_url(f"{base}/**")
    page.wait_for_selector("nav.side")
    page.close()
    yield context, base
    asyncio.events._set_running_loop(LOOPS[-1])
    context.close()


@pytest.fixture
def tab(logged_in, home: Home) -> Iterator[Watched]:
    """A fresh tab of the browser that has logged in."""
    context, base = logged_in
    watched = Watched(context.new_page(), base)
    yield watched
    watched.page.close()
    assert watched.problems == []
