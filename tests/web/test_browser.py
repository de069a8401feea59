"""The pages in a real browser: nothing fails, nothing runs that was stored, all are accessible."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from itertools import chain

import pytest
from addresses import addresses, questions

from command import zapomni
from zapomni_web.guard import mint_token
from zapomni_web.server import _show


def violations(axe, page, **options):
    found = axe.run(page, options=options or None).response["violations"]
    return [(one["id"], one["nodes"][0]["html"][:200]) for one in found]


def test_every_page_is_accessible_in_light_and_dark_and_nothing_stored_runs(
    tab, home, tmp_path_factory
):
    from axe_playwright_python.sync_playwright import Axe

    axe = Axe()
    pictures = tmp_path_factory.mktemp("screenshots")
    page = tab.page
    firsts = [*(group[0] for group in addresses(home).values()), *questions(home)]
    for number, address in enumerate(firsts):
        page.set_viewport_size({"width": 1280, "height": 900})
        page.emulate_media(color_scheme="light", reduced_motion="reduce")
        tab.open(address)
        # What was stored shows itself, whatever is folded.
        page.evaluate("document.querySelectorAll('main details').forEach(one => one.open = true)")
        assert violations(axe, page) == [], address
        page.screenshot(path=pictures / f"{number}-light.png")
        page.set_viewport_size({"width": 390, "height": 900})
        page.emulate_media(color_scheme="dark", reduced_motion="reduce")
        assert violations(axe, page, runOnly=["color-contrast"]) == [], address
        page.screenshot(path=pictures / f"{number}-dark.png")
        assert page.evaluate("window.hurt") is None, address
        assert page.evaluate("document.documentElement.scrollWidth") <= 390, address
    for address in chain.from_iterable(group[1:] for group in addresses(home).values()):
        tab.open(address)
        assert page.evaluate("window.hurt") is None, address
        assert page.evaluate("document.documentElement.scrollWidth") <= 390, address


def test_a_person_searches_opens_edits_and_takes_it_back(tab, home):
    page = tab.page
    tab.open("/")
    page.keyboard.press("/")
    page.keyboard.type("Friday deploys")
    page.keyboard.press("Enter")
    page.wait_for_url("**/search?q=*")
    page.keyboard.press("j")
    page.keyboard.press("w")
    assert page.locator("details.why").first.get_attribute("open") is not None
    page.keyboard.press("Enter")
    page.wait_for_url(f"**/m/{home.deploy}")
    page.keyboard.press("e")
    page.wait_for_url("**/edit")
    page.get_by_label("Tags").fill("deploy, friday")
    page.get_by_role("button", name="Save changes").click()
    page.get_by_text("Changed tags").wait_for()
    assert page.get_by_role("link", name="friday").is_visible()
    page.get_by_role("button", name="Undo").click()
    page.get_by_text("is as it was").wait_for()
    assert not page.get_by_role("link", name="friday").is_visible()


def test_the_page_opens_from_the_file_that_a_browser_is_given(
    browser, tab, home, tmp_path, monkeypatch
):
    monkeypatch.setenv("BROWSER", "true")
    state = json.loads((home.folder / "run" / "ui.json").read_text(encoding="utf-8"))
    token = mint_token(bytes.fromhex(state["secret"]))
    path = _show(tmp_path, state["host"], state["port"], token, browser=True)
    context = browser.new_context()
    page = context.new_page()
    page.goto(path.as_uri())
    # From a file to the link, on to the page: with the cookie, although a file led there.
    page.wait_for_selector("nav.side")
    assert page.url.startswith(tab.base)
    assert "login" not in page.url
    context.close()


def test_without_javascript_everything_works(browser, tab, home):
    context, base = tab.page.context, tab.base
    plain = browser.new_context(java_script_enabled=False)
    plain.add_cookies(context.cookies())
    page = plain.new_page()
    page.goto(f"{base}/search")
    page.get_by_role("searchbox").fill("when do we deploy")
    page.keyboard.press("Enter")
    page.locator("a.open").first.click()
    page.wait_for_url("**/m/*")
    page.get_by_role("button", name="Pin").click()
    page.get_by_text("Pinned").first.wait_for()
    page.get_by_role("button", name="Undo").click()
    page.get_by_text("is as it was").wait_for()
    plain.close()


def test_colors_are_switched_and_remembered(tab):
    page = tab.page
    tab.open("/help")
    page.emulate_media(color_scheme="light")
    ground = "getComputedStyle(document.body).backgroundColor"
    light = page.evaluate(ground)
    page.locator(".side").get_by_text("Dark", exact=True).click()
    dark = page.evaluate(ground)
    assert dark != light
    page.reload()
    assert page.evaluate(ground) == dark
    page.locator(".side").get_by_text("Auto", exact=True).click()
    assert page.evaluate(ground) == light


def test_single_keys_can_be_switched_off(tab):
    page = tab.page
    tab.open("/help")
    page.get_by_label("Single keys do something").uncheck()
    page.keyboard.press("/")
    assert page.evaluate("document.activeElement.id") != "ask"
    page.get_by_label("Single keys do something").check()
    page.keyboard.press("Tab")
    page.keyboard.press("/")
    assert page.evaluate("document.activeElement.id") == "ask"


def test_tabs_share_one_connection_and_all_hear_of_a_change(tab, home):
    context = tab.page.context
    with tab.page.expect_request("**/events", timeout=60_000):
        tab.open("/search")
    other = context.new_page()
    streams: list[str] = []
    for page in (tab.page, other):
        page.on(
            "request",
            lambda one: streams.append(one.url) if one.url.endswith("/events") else None,
        )
    with tab.page.expect_request("**/events", timeout=60_000):
        tab.page.reload()
    other.goto(f"{tab.base}/search")
    change(home)
    for page in (tab.page, other):
        page.locator(".news:not([hidden])").wait_for(timeout=60_000)
    assert len(streams) == 1
    other.close()


def change(home) -> None:
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("ZAPOMNI_HOME", str(home.folder))
        # A stream that has just been opened reads the state first.
        time.sleep(1.5)
        assert zapomni("add", f"Changed by another process {os.getpid()}").returncode == 0


def test_a_page_of_another_origin_can_neither_read_nor_change_nor_frame_it(tab, home):
    path = "/search"
    context = tab.page.context
    evil = context.new_page()
    evil.route(
        "http://evil.example/**",
        lambda route: route.fulfill(
            content_type="text/html",
            body=f"""<iframe src="{tab.base}{path}"></iframe>
            <form method="post" action="{tab.base}/m/{home.deploy}/pin">
            <input name="on" value="1"></form>""",
        ),
    )
    answers: list[int] = []

    def of_ours(url: str) -> bool:
        return url.startswith(tab.base) and "/static/" not in url

    evil.on("response", lambda one: answers.append(one.status) if of_ours(one.url) else None)
    evil.goto("http://evil.example/")
    read = evil.evaluate(
        "url => fetch(url, {credentials: 'include'}).then(a => a.text()).catch(() => 'refused')",
        tab.base + path,
    )
    assert read == "refused"
    with evil.expect_navigation():
        evil.evaluate("document.forms[0].submit()")
    assert evil.get_by_role("heading").inner_text() in (
        "Another page asks",
        "Another page led here",
    )
    assert answers
    assert set(answers) <= {401, 403, 421}
    evil.close()
    tab.open(f"/m/{home.deploy}")
    assert tab.page.get_by_role("button", name="Pin", exact=True).is_visible()


def test_on_a_shared_host_the_tab_that_was_opened_can_change_something(browser, home, tmp_path):
    """A browser that does not know `zapomni.localhost`: forms are sent with the tab's secret."""
    environ = {
        **{name: value for name, value in os.environ.items() if not name.startswith("ZAPOMNI_")},
        "ZAPOMNI_HOME": str(tmp_path / "shared"),
        "ZAPOMNI_EMBEDDER": "none",
    }
    command = [sys.executable, "-m", "zapomni_cli", "ui", "--no-browser", "--host", "127.0.0.1"]
    served = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environ)
    context = browser.new_context()
    try:
        link = served.stdout.readline().strip()
        base = link.partition("/login")[0]
        page = context.new_page()
        page.goto(link)
        page.wait_for_selector("nav.side")
        page.goto(f"{base}/add")
        page.get_by_label("Text").fill("Added in the tab.")
        page.get_by_role("button", name="Store it").click()
        page.get_by_text("Stored.", exact=True).wait_for()
        # Another tab of the same browser has the cookie, and no secret.
        other = context.new_page()
        other.goto(f"{base}/add")
        other.get_by_label("Text").fill("Added elsewhere.")
        other.get_by_role("button", name="Store it").click()
        other.get_by_text("This tab may read only").first.wait_for()
    finally:
        context.close()
        served.terminate()
        served.wait(60)
        served.stdout.close()
