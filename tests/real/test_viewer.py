"""The viewer in a real browser, against the real worker: every page and deed, live, inert, closed to others."""

from __future__ import annotations

import os
import re
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect

from hardwon import clock
from hardwon.store import candidates, db
from tests.support import busy_home
from tests.support.house import House, failed, happened, prompt, used

from .agents import Agent, find_program
from .browser import open_browser

pytestmark = pytest.mark.real

AXE = Agent("axe-core", "4.10.3", "axe-core", "axe-core/axe.min.js")
LESSON = "/lessons/git-stash-leaves-untracked-files"
PAGES = (
    "/",
    "/inbox",
    "/sessions",
    "/sessions?host=claude-code",
    "/sessions/{session}",
    "/sessions/{session}?show=changes",
    "/sessions/{session}/events/{event}",
    "/search?q=wind",
    "/lessons",
    "/lessons?status=retired",
    LESSON,
    f"{LESSON}/edit",
    "/lessons/new?call={event}",
    "/review/1",
    "/review/1/edit",
    "/memory",
    "/memory?status=candidate",
    "/memory/{proposed}",
    "/memory/{proposed}/edit",
    "/memory/{approved}",
    "/handoffs",
    "/handoffs?status=ratified",
    "/handoffs/{draft}",
    "/handoffs/{draft}/ratify",
    "/handoffs/{draft}/amend",
    "/handoffs/{draft}/discard",
    "/handoffs/{ratified}",
    "/insights",
    "/settings",
    "/nowhere",
)
LOOKS: dict[str, dict[str, Any]] = {
    "light": {"color_scheme": "light", "viewport": {"width": 1280, "height": 860}},
    "dark": {"color_scheme": "dark", "viewport": {"width": 1280, "height": 860}},
    "narrow": {"color_scheme": "light", "viewport": {"width": 390, "height": 800}},
}
TELL_VIOLATIONS = "addEventListener('securitypolicyviolation', (it) => console.error('CSP ' + it.violatedDirective))"


class Visit:
    """Owns a page of a signed-in browser, and the errors on it."""

    def __init__(self, context: BrowserContext, house: House) -> None:
        link = house.ok("view", "--print").out.strip()
        self.ids = busy_home.find_first_ids(house.home)
        self.origin, self.complaints = link.partition("/open")[0], list[str]()
        context.add_init_script(TELL_VIOLATIONS)
        self.page = context.new_page()
        self.page.on("console", self._record_complaint)
        self.page.on("pageerror", lambda wrong: self.complaints.append(str(wrong)))
        self.page.on("dialog", lambda dialog: self.complaints.append(f"dialog {dialog.message}"))
        self.page.goto(link)
        assert self.page.url == f"{self.origin}/"

    def _record_complaint(self, message: Any) -> None:
        if message.type == "error" and "404" not in message.text:
            self.complaints.append(message.text)

    def go(self, path: str) -> Page:
        self.page.goto(self.origin + path.format(**self.ids))
        return self.page

    def press(self, *keys: str) -> None:
        """Press keys once the page says that it takes them; before its script has run they would be lost."""
        expect(self.page.locator("[data-keys]")).to_be_visible()
        for key in keys:
            self.page.keyboard.press(key)


@contextmanager
def open_visit(browser: Browser, house: House, **options: Any) -> Iterator[Visit]:
    with browser.new_context(**options) as context:
        visit = Visit(context, house)
        yield visit
        assert visit.complaints == []


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with open_browser() as chromium:
        yield chromium


@pytest.fixture(scope="module")
def busy_house(shared_house: House) -> House:
    busy_home.fill(shared_house.home, time.time())
    shared_house.ok("config", "set", "apiPort", "0")
    path = busy_home.write_transcript(shared_house.home)
    shared_house.ask("session-0001", happened("Stop", transcript_path=path, cwd="/home/dev/harbour"))
    return shared_house


@pytest.fixture
def house(own_home: str) -> Iterator[House]:
    """hardwon alone, without an agent beside it."""
    built = House(os.path.join(own_home, ".hardwon"))
    yield built
    built.cli("stop")


@pytest.fixture
def own_house(house: House) -> House:
    busy_home.fill(house.home, time.time())
    house.ok("config", "set", "apiPort", "0")
    return house


@pytest.mark.parametrize("look", LOOKS)
def test_no_page_breaks_its_policy_or_hinders_anybody(browser: Browser, busy_house: House, look: str) -> None:
    """axe-core finds nothing serious: names, labels, landmarks, contrast, what a keyboard reaches."""
    axe = find_program(AXE)
    with open_visit(browser, busy_house, **LOOKS[look]) as visit:
        visit.page.context.add_init_script(path=axe)
        for path in PAGES:
            page = visit.go(path)
            violations = page.evaluate(
                "() => axe.run(document, {resultTypes: ['violations']}).then((it) => it.violations)"
            )
            serious = [
                (violation["id"], violation["nodes"][0]["html"][:200])
                for violation in violations
                if violation["impact"] in ("serious", "critical")
            ]
            assert serious == [], path
            assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), f"{path} is too wide"


def test_reading_works_without_scripts(browser: Browser, busy_house: House) -> None:
    with open_visit(browser, busy_house, java_script_enabled=False) as visit:
        for path in PAGES:
            expect(visit.go(path).locator("h1")).to_be_visible()
        page = visit.go("/search")
        page.get_by_label("Query").fill("wind")
        page.get_by_role("button", name="Search").click()
        expect(page.locator(".hits li").first).to_be_visible()
        page.locator(".hits a").first.click()
        expect(page.locator(".timeline, .told").first).to_be_visible()


def test_hostile_text_is_inert_on_every_page(browser: Browser, house: House) -> None:
    busy_home.fill(house.home, time.time(), count=3, hostile=True)
    house.ok("config", "set", "apiPort", "0")
    with open_visit(browser, house, **LOOKS["narrow"]) as visit:
        for path in (*PAGES, "/lessons/hostile-lesson", "/lessons/hostile-lesson/edit"):
            page = visit.go(path)
            page.evaluate("document.querySelectorAll('details').forEach((it) => { it.open = true; })")
            assert page.title() != "owned", path
            assert page.locator("main script, main img").count() == 0, path
            text = page.locator("body").inner_text()
            assert not re.search("[\u202a-\u202e\u2066-\u2069\u200b\x1b]", text), path
            assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), f"{path} is too wide"
        page = visit.go("/")
        house.ask("hurt", prompt(busy_home.HOSTILE + " while one looks"))
        expect(page.locator(".stream li").first).to_contain_text("while one looks")
        assert page.title() != "owned"


def test_what_happens_shows_without_loading_the_page_again(browser: Browser, own_house: House) -> None:
    own_house.ok(
        "lessons",
        "add",
        "--summary",
        "tar wants a file name here",
        "--problem",
        "tar without -f reads a tape drive",
        "--solution",
        "always give tar -f and a file",
        "--command",
        r"^tar\b",
        "--delivery",
        "hold",
    )
    with open_visit(browser, own_house) as visit:
        page = visit.go("/")
        expect(page.locator("[data-live]")).to_contain_text("Live")
        page.evaluate("window.here = true")
        own_house.session_start("live")
        own_house.ask("live", prompt("fly the kite at dusk"))
        expect(page.locator(".stream .prompt").first).to_contain_text("fly the kite at dusk")
        own_house.ask(
            "live",
            {
                "hook_event_name": "PreToolUse",
                "tool_name": "Bash",
                "tool_input": {"command": "tar x"},
                "cwd": "/home/dev/kite",
            },
        )
        expect(page.locator(".stream .delivery").first).to_contain_text("tar wants a file name here")
        own_house.ask("live", failed("Bash", {"command": "make dusk"}, "make: *** No rule to make target 'dusk'"))
        expect(page.locator(".stream .tool").first).to_contain_text("make dusk")
        changed = {"file_path": "/home/dev/project/dusk.py", "old_string": "day", "new_string": "night"}
        own_house.ask("live", used("Edit", changed, {"filePath": "/home/dev/project/dusk.py"}))
        own_house.ask("live", happened("Stop", last_assistant_message="there is no dusk in the makefile"))
        expect(page.locator(".stream .observation", has_text="dusk").first).to_be_visible(timeout=60_000)
        assert page.evaluate("window.here") is True


def test_a_lost_stream_is_taken_up_again(browser: Browser, own_house: House) -> None:
    with open_visit(browser, own_house) as visit:
        page = visit.go("/")
        expect(page.locator("[data-live]")).to_contain_text("Live")
        page.context.set_offline(True)
        page.evaluate("window.stop()")
        own_house.ask("live", prompt("told while nobody listened"))
        page.context.set_offline(False)
        expect(page.locator(".stream .prompt").first).to_contain_text("told while nobody listened", timeout=30_000)
        visit.complaints.clear()  # the browser says that it was offline
    own_house.ok("stop")


def test_a_page_says_when_the_worker_is_away_and_goes_on_when_it_is_back(browser: Browser, own_house: House) -> None:
    with open_visit(browser, own_house) as visit:
        page, beside = visit.go("/"), visit.page.context.new_page()
        expect(page.locator("[data-live]")).to_contain_text("Live")
        beside.goto(f"{visit.origin}/search?q=lighthouse")
        own_house.ok("config", "set", "apiPort", visit.origin.rpartition(":")[2])
        own_house.ok("stop")
        expect(page.locator("[data-live]")).to_contain_text("Worker not reachable")
        beside.get_by_label("Query").fill("harbour")
        expect(beside.locator("[data-hits]")).to_have_text(re.compile("^Worker not reachable"))
        own_house.ok("start")
        expect(page.locator("[data-live]")).to_contain_text("Live", timeout=60_000)
        own_house.ask("live", prompt("told to the new worker"))
        expect(page.locator(".stream .prompt").first).to_contain_text("told to the new worker", timeout=30_000)
        visit.complaints.clear()  # the browser says that nobody answered


def test_ten_proposals_are_decided_by_keyboard_alone(browser: Browser, own_house: House) -> None:
    with db.open(own_house.home) as connection:
        for number in range(5, 11):
            candidates.insert(connection, busy_home.build_candidate(number, clock.now()))
    with open_visit(browser, own_house) as visit:
        page = visit.go("/")
        visit.press("g", "r")
        expect(page.locator("h1")).to_have_text("Inbox")
        visit.press("j", "Enter")
        for number in range(1, 11):
            expect(page.locator("h1")).to_contain_text(f"L{number} ")
            visit.press("a" if number % 2 else "r")
            expect(page.get_by_role("status")).to_contain_text("In force" if number % 2 else "Rejected")
        expect(page.locator("h1")).to_contain_text("M")
    statuses = [row["status"] for row in sorted(own_house.stored("candidates"), key=lambda row: row["number"])]
    assert statuses == ["active", "rejected"] * 5


def test_a_person_decides_by_keyboard(browser: Browser, own_house: House) -> None:
    with open_visit(browser, own_house) as visit:
        page = visit.go("/inbox")
        visit.press("j", "Enter")
        expect(page.locator("h1")).to_contain_text("(1)")
        visit.press("a")
        expect(page.get_by_role("status")).to_contain_text("In force as a hold: pip-install-1")
        visit.press("u")
        expect(page.get_by_role("status")).to_contain_text("Undone")
        visit.press("w")
        expect(page.get_by_role("status")).to_contain_text("In force")
        visit.press("e")
        page.get_by_label("Summary").fill("pip wants a venv first in this house")
        visit.press("Enter")
        expect(page.get_by_role("status")).to_contain_text("In force as a hold: pip-install-2")
        visit.press("j")
        expect(page.locator("h1")).to_contain_text("(4)")
        visit.press("k")
        expect(page.locator("h1")).to_contain_text("(3)")
        visit.press("r")
        expect(page.get_by_role("status")).to_contain_text("Rejected: pip-install-3")
    decided = {row["number"]: row["status"] for row in own_house.stored("candidates")}
    assert decided == {1: "active", 2: "active", 3: "rejected", 4: "candidate"}
    assert (
        own_house.ok("lessons", "show", "pip-install-2", "--json").json()["summary"]
        == "pip wants a venv first in this house"
    )


def test_a_person_changes_a_lesson_and_the_settings(browser: Browser, own_house: House) -> None:
    with open_visit(browser, own_house) as visit:
        page = visit.go(LESSON)
        page.get_by_role("button", name="Retire").click()
        expect(page.get_by_role("status")).to_contain_text("Retired")
        page.get_by_role("button", name="Restore").click()
        expect(page.get_by_role("status")).to_contain_text("In force as a hold")
        page.get_by_role("link", name="Edit").click()
        page.get_by_label("Priority").fill("9")
        page.get_by_label("Delivery").select_option("note")
        page.get_by_role("button", name="Save").click()
        expect(page.get_by_text("note, priority 9")).to_be_visible()
        page = visit.go("/settings")
        page.get_by_role("button", name="Pause").click()
        expect(page.get_by_role("link", name="paused")).to_be_visible()
        page.get_by_role("button", name="Unpause").click()
        expect(page.get_by_role("link", name="paused")).to_have_count(0)
        row = page.locator("#s-retentionDays")
        row.get_by_role("textbox").fill("30")
        row.get_by_role("button", name="Save").click()
        expect(page.get_by_role("status")).to_contain_text("retentionDays is 30")
    assert own_house.ok("config", "get", "retentionDays").out.strip() == "30"


def test_search_follows_what_is_typed(browser: Browser, own_house: House) -> None:
    with open_visit(browser, own_house) as visit:
        page = visit.go("/")
        visit.press("/")
        expect(page.locator("[data-slash]")).to_be_focused()
        page.keyboard.type("lighthouse blink")
        expect(page.locator(".hits mark").first).to_be_visible(timeout=30_000)
        visit.press("Escape")
        visit.press("j", "Enter")
        expect(page.locator(".timeline li:target, .summary").first).to_be_visible()


def test_filters_and_keys_lead_where_they_say(browser: Browser, own_house: House) -> None:
    with open_visit(browser, own_house) as visit:
        page = visit.go("/sessions")
        page.get_by_label("Project").select_option(label="kite")
        page.get_by_role("button", name="Filter").click()
        expect(page.locator(".card")).to_have_count(3)
        for key, heading in (
            ("l", "Lessons"),
            ("r", "Inbox"),
            ("m", "Memory"),
            ("h", "Handoffs"),
            ("i", "Insights"),
            ("o", "Settings"),
            ("s", "Sessions"),
        ):
            visit.press("g", key)
            expect(page.locator("h1")).to_have_text(heading)
        visit.press("?")
        expect(page.get_by_role("dialog")).to_be_visible()
        visit.press("Escape")
        page.get_by_role("button", name="Sign out").click()
        expect(page.locator("h1")).to_have_text("You are not signed in")
        visit.complaints.clear()  # the browser says that it got a 401


def test_the_link_works_once_and_its_cookie_is_strict(browser: Browser, busy_house: House) -> None:
    link = busy_house.ok("view", "--print").out.strip()
    with browser.new_context() as first, browser.new_context() as second:
        first.new_page().goto(link)
        (cookie,) = first.cookies()
        assert (cookie["domain"], cookie["httpOnly"], cookie["sameSite"]) == ("hardwon.localhost", True, "Strict")
        page = second.new_page()
        page.goto(link)
        expect(page.locator("h1")).to_have_text("This link was already used or has expired")
        assert second.cookies() == []


def test_a_link_on_another_page_opens_the_viewer_too(browser: Browser, busy_house: House) -> None:
    link = busy_house.ok("view", "--print").out.strip()
    with browser.new_context() as context, serve_page(f'<a href="{link}">open</a>') as other_server:
        page = context.new_page()
        page.goto(other_server.url)
        page.get_by_text("open").click()
        expect(page.locator("h1")).to_have_text("Today")
        assert page.url == link.partition("open?")[0]


class Listening(ThreadingHTTPServer):
    """Owns another local port, and remembers what it is sent."""

    daemon_threads = True

    def __init__(self, text: str) -> None:
        super().__init__(("127.0.0.1", 0), Telling)
        self.text, self.cookies = text, list[str]()
        self.url = f"http://localhost:{self.server_address[1]}"


class Telling(BaseHTTPRequestHandler):
    server: Listening

    def do_GET(self) -> None:
        self.server.cookies.append(self.headers.get("cookie", ""))
        self.send_response(200)
        self.send_header("content-type", "text/html")
        self.end_headers()
        self.wfile.write(self.server.text.encode())

    def log_message(self, *_: Any) -> None:
        pass


@contextmanager
def serve_page(text: str) -> Iterator[Listening]:
    with Listening(text) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield server
        finally:
            server.shutdown()


TRIES = """async (viewer) => {
    const gets = (path, more) => fetch(viewer + path, {credentials: 'include', ...more}).then((it) => it.text(), () => '');
    const made = [await gets('/sessions'), await gets('/live'), await gets('/review/4/reject', {method: 'POST'})];
    const frame = document.createElement('iframe');
    frame.src = viewer + '/sessions';
    document.body.append(frame);
    await new Promise((done) => { frame.onload = done; setTimeout(done, 3000); });
    try { made.push(frame.contentDocument ? frame.contentDocument.body.innerText : ''); } catch { made.push(''); }
    const form = Object.assign(document.createElement('form'), {method: 'post', action: viewer + '/review/4/reject', target: 'away'});
    document.body.append(Object.assign(document.createElement('iframe'), {name: 'away'}), form);
    form.submit();
    await new Promise((done) => setTimeout(done, 500));
    return made.join('');
}"""


def test_another_origin_and_another_port_get_nothing(browser: Browser, busy_house: House) -> None:
    """A signed-in browser visits other origins: they get no cookie, read nothing and decide nothing."""
    with open_visit(browser, busy_house) as visit, serve_page("<p>made up</p>") as other_server:
        assert len(visit.page.context.cookies()) == 1
        page = visit.page.context.new_page()
        for name in ("localhost", "127.0.0.1"):
            page.goto(f"http://{name}:{other_server.server_address[1]}/")
            assert page.evaluate(TRIES, visit.origin) == ""
        assert set(other_server.cookies) == {""}
        expect(visit.go("/review/4").get_by_role("button", name="Reject")).to_be_visible()
