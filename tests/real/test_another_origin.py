"""A web page that a real browser shows can call this machine; hardwon answers none but its own."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx
import pytest
from playwright.sync_api import Browser, Frame, Page

from tests.support.house import House

from .browser import REBOUND, new_page, open_browser

pytestmark = pytest.mark.real

SANDBOXED = "<iframe sandbox='allow-scripts allow-forms allow-popups' srcdoc='<p>made up</p>'></iframe>"
PLACES = ("another port", "a file", "a sandboxed frame")

# Each gives what the page could read, or nothing. `api` is where the worker listens, `token` one that has leaked.
TOOLS = """
    const json = {claudeSessionId: 'smuggled', userPrompt: 'from a page', cwd: '/home/dev/kite'};
    const bearer = {Authorization: 'Bearer ' + token};
    const read = (path, more) => fetch(api + path, more).then((answer) => answer.text(), () => '');
    const loaded = (tag, set) => new Promise((done) => {
        const made = document.createElement(tag);
        made.onload = () => done(made);
        made.onerror = () => done(null);
        set(made);
        document.body.append(made);
    });
    const inside = async (seen) => {
        try {
            while (seen.location.href === 'about:blank') { await new Promise((done) => setTimeout(done, 20)); }
            return seen.document.body.innerText;
        } catch { return ''; }
    };
    const posted = (enctype, fields) => {
        const frame = document.createElement('iframe'), form = document.createElement('form');
        frame.name = 'frame' + document.forms.length;
        Object.assign(form, {method: 'post', action: api + '/api/sessions/init', target: frame.name, enctype});
        for (const [name, value] of Object.entries(fields)) {
            form.append(Object.assign(document.createElement('input'), {name, value}));
        }
        document.body.append(frame, form);
        form.submit();
        return inside(frame.contentWindow);
    };
"""
WAYS = {
    "fetch": "read('/api/sessions')",
    "fetch with the token": "read('/api/sessions', {headers: bearer})",
    "fetch that asks for no answer": "read('/api/sessions', {mode: 'no-cors'})",
    "fetch with cookies": "read('/api/sessions', {credentials: 'include'})",
    "post": "read('/api/sessions/init', {method: 'POST', body: JSON.stringify(json)})",
    "post with the token": "read('/api/sessions/init', {method: 'POST', body: JSON.stringify(json), headers: bearer})",
    "post that asks for no answer": (
        "read('/api/sessions/init', {method: 'POST', mode: 'no-cors', body: JSON.stringify(json), headers: bearer})"
    ),
    "beacon": "navigator.sendBeacon(api + '/api/sessions/init', JSON.stringify(json)) && ''",
    "form": "posted('application/x-www-form-urlencoded', json)",
    "form that reads as JSON": (
        """posted('text/plain', {'{"claudeSessionId": "smuggled", "userPrompt": "from a page", "cwd": "': '"}'})"""
    ),
    "event stream": """new Promise((done) => {
        const stream = new EventSource(api + '/api/stream');
        stream.onopen = () => { stream.close(); done('opened'); };
        stream.onerror = () => { stream.close(); done(''); };
    })""",
    "web socket": """new Promise((done) => {
        const socket = new WebSocket(api.replace('http', 'ws') + '/api/stream');
        socket.onopen = () => { socket.close(); done('opened'); };
        socket.onerror = () => done('');
    })""",
    "script": "loaded('script', (made) => { made.src = api + '/api/sessions'; }).then((it) => it ? 'ran' : '')",
    "picture": "loaded('img', (made) => { made.src = api + '/api/sessions'; }).then((it) => it ? 'shown' : '')",
    "style sheet": """loaded('link', (made) => { made.rel = 'stylesheet'; made.href = api + '/api/sessions'; })
        .then((it) => it ? 'used' : '')""",
    "frame": """loaded('iframe', (made) => { made.src = api + '/api/sessions'; })
        .then((frame) => inside(frame.contentWindow))""",
    "window": "inside(window.open(api + '/api/sessions'))",
}
THAT_READ = [name for name in WAYS if name.startswith(("fetch", "post")) and "no answer" not in name]


class Listening(ThreadingHTTPServer):
    """Owns a port of another origin that serves a page and answers every call, like a careless API."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Careless)
        self.heard: list[str] = []
        self.url = f"http://127.0.0.1:{self.server_address[1]}"


class Careless(BaseHTTPRequestHandler):
    server: Listening

    def answer(self) -> None:
        body = self.rfile.read(int(self.headers.get("content-length", 0))).decode()
        self.server.heard.append(f"{self.command} {self.path} {body}")
        stream = self.path == "/api/stream"
        self.send_response(200)
        self.send_header("content-type", "text/event-stream" if stream else "text/html")
        self.send_header("access-control-allow-origin", self.headers.get("origin", "*"))
        self.send_header("access-control-allow-headers", "authorization")
        self.send_header("access-control-allow-credentials", "true")
        self.end_headers()
        self.wfile.write(b"data: told\n\n" if stream else b"<p>made up</p>")

    do_GET = do_POST = do_OPTIONS = answer

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with open_browser() as chromium:
        yield chromium


@contextmanager
def serve_careless_page() -> Iterator[Listening]:
    with Listening() as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield server
        finally:
            server.shutdown()


@pytest.fixture(scope="module")
def worker(shared_house: House) -> House:
    shared_house.ok("config", "set", "apiPort", "0")
    shared_house.ok("start")
    shared_house.session_start("known")
    return shared_house


def wait_for_api(house: House) -> dict[str, str]:
    """Wait for the API; return its address and token."""
    for _ in range(600):
        if port := house.status()["port"]:
            with open(os.path.join(house.home, "token")) as file:
                return {"api": f"http://127.0.0.1:{port}", "token": file.read().strip()}
        time.sleep(0.1)
    raise AssertionError("the worker has no port")


@contextmanager
def open_page(location: str, browser: Browser, folder: Path) -> Iterator[Page | Frame]:
    """Open a page of another origin; all but the first have the origin `null`."""
    page_file = folder / "page.html"
    page_file.write_text("<p>made up</p>")
    with serve_careless_page() as elsewhere, new_page(browser) as page:
        page.goto(page_file.as_uri() if location == "a file" else elsewhere.url)
        if location == "a sandboxed frame":
            page.set_content(SANDBOXED)
            yield page.frames[1]
        else:
            yield page


def try_access(page: Page | Frame, method: str, api: dict[str, str]) -> str:
    return str(page.evaluate(f"async ({{api, token}}) => {{ {TOOLS} return await ({WAYS[method]}); }}", api))


def count_rows(house: House) -> dict[str, int]:
    return {table: len(house.stored(table)) for table in ("sessions", "events", "prompts")}


@pytest.mark.parametrize("location", PLACES)
def test_a_page_of_another_origin_reads_nothing_and_changes_nothing(
    location: str, browser: Browser, worker: House, tmp_path: Path
) -> None:
    api, counts_before = wait_for_api(worker), count_rows(worker)
    with open_page(location, browser, tmp_path) as page:
        assert {method: try_access(page, method, api) for method in WAYS} == dict.fromkeys(WAYS, "")
    assert (count_rows(worker), counts_before["sessions"]) == (counts_before, 1)


@pytest.mark.parametrize("location", PLACES)
def test_a_careless_server_is_reached_in_every_one_of_these_ways(
    location: str, browser: Browser, tmp_path: Path
) -> None:
    """Prove that the page can make each request, so that it is hardwon which refuses them."""
    with serve_careless_page() as careless, open_page(location, browser, tmp_path) as page:
        for method in WAYS:
            careless.heard.clear()
            text_read = try_access(page, method, {"api": careless.url, "token": "made-up"})
            assert wait_until_heard(careless), method
            assert ("made up" in text_read) == (method in THAT_READ), method


def wait_until_heard(server: Listening) -> bool:
    for _ in range(100):
        if server.heard:
            return True
        time.sleep(0.1)
    return False


def test_a_name_that_was_bent_to_this_machine_is_refused_even_with_the_token(browser: Browser, worker: House) -> None:
    api = wait_for_api(worker)
    port = api["api"].rpartition(":")[2]
    ask = "(token) => fetch('/api/sessions', {headers: {Authorization: 'Bearer ' + token}}).then((it) => it.status)"
    with new_page(browser) as page:
        answers = []
        for name in (REBOUND, "hardwon.localhost"):
            page.goto(f"http://{name}:{port}/api/sessions")
            answers.append(page.evaluate(ask, api["token"]))
    assert answers == [421, 200]
    assert httpx.get(f"{api['api']}/api/sessions", trust_env=False).status_code == 401
