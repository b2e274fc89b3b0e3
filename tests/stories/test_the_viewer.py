"""The viewer over HTTP: who is let in, who may decide, and that whatever is shown is only text."""

from __future__ import annotations

import html
import json
import os
import re
import time
from collections.abc import Iterator
from urllib.parse import urlsplit

import httpx
import pytest

from tests.support import busy_home
from tests.support.claude_transcript import TranscriptWriter
from tests.support.house import GIT_STASH, House, bash, failed, happened, prompt, used, wait_for

LESSON = "/lessons/git-stash-leaves-untracked-files"
PAGES = (
    "/",
    "/inbox",
    "/sessions",
    "/sessions?project=1&host=claude-code&status=completed&since=2020-01-01&until=2040-01-01",
    "/search",
    "/search?q=git+stash",
    "/lessons",
    "/lessons?status=retired",
    "/lessons?status=candidate",
    "/review",
    "/insights",
    "/insights?days=7",
    "/insights?days=90",
    "/insights?days=all",
    "/settings",
    "/memory",
    "/memory?status=candidate",
    "/memory?status=retired&type=project",
    "/memory?project=/home/dev/kite",
    "/handoffs",
    "/handoffs?status=ratified",
    "/handoffs?status=moot&project=/home/dev/kite",
)
PAGES_OF_ONE = (
    "/sessions/{session}",
    "/sessions/{session}?show=messages",
    "/sessions/{session}?show=failures",
    "/sessions/{session}?show=changes",
    "/sessions/{session}/events/{event}",
    LESSON,
    f"{LESSON}/edit",
    "/lessons/new",
    "/lessons/new?call={event}",
    "/review/1",
    "/review/1/edit",
    "/?after=0.0.0.0",
    "/search?q=wind&part=1",
    "/search?q=wind&kind=observation&file=wind.py",
    "/memory/{proposed}",
    "/memory/{proposed}/edit",
    "/memory/{approved}",
    "/memory/{approved}/edit",
    "/handoffs/{draft}",
    "/handoffs/{draft}/ratify",
    "/handoffs/{draft}/amend",
    "/handoffs/{draft}/discard",
    "/handoffs/{ratified}",
    "/handoffs/{ratified}/amend",
)


class Browser:
    """Owns a connection to the viewer as a browser does: it keeps the cookie and sends the origin."""

    def __init__(self, link: str) -> None:
        parts = urlsplit(link)
        self.origin, self.link = f"http://{parts.netloc}", link.removeprefix(f"http://{parts.netloc}")
        self.client = httpx.Client(
            base_url=f"http://127.0.0.1:{parts.port}",
            headers={"host": parts.netloc},
            timeout=120,
            trust_env=False,
            verify=False,  # there is no TLS here, and loading the system's certificates takes 20 ms a client
        )

    def open(self) -> httpx.Response:
        answer = self.get(self.link)
        if "set-cookie" in answer.headers:
            self.client.headers["cookie"] = answer.headers["set-cookie"].partition(";")[0]
        self.client.cookies.clear()
        return answer

    def get(self, path: str, **headers: str) -> httpx.Response:
        return self.client.get(path, headers=headers)

    def secrets(self, path: str) -> dict[str, str]:
        """Return the hidden fields of a page's first forms."""
        hidden_fields = re.findall(r'type="hidden" name="(\w+)" value="([^"]*)"', self.get(path).text)
        return dict(reversed(hidden_fields))

    def post(self, path: str, form: dict[str, str], **headers: str) -> httpx.Response:
        request_headers = {"origin": self.origin, "sec-fetch-site": "same-origin", **headers}
        return self.client.post(
            path, data=form, headers={name: value for name, value in request_headers.items() if value}
        )


@pytest.fixture(scope="module")
def busy_house(shared_house: House) -> House:
    busy_home.fill(shared_house.home, time.time())
    shared_house.ok("config", "set", "apiPort", "0")
    return shared_house


def list_record_pages(house: House) -> list[str]:
    ids = busy_home.find_first_ids(house.home)
    return [path.format(**ids) for path in PAGES_OF_ONE]


def open_browser(house: House) -> Browser:
    browser = Browser(house.ok("view", "--print").out.strip())
    assert browser.open().status_code == 303
    return browser


@pytest.fixture
def fresh_browser(house: House) -> Browser:
    house.ok("config", "set", "apiPort", "0")
    return open_browser(house)


@pytest.fixture(scope="module")
def empty_browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    """A browser at an empty viewer, shared by tests that change nothing."""
    house = House(str(tmp_path_factory.mktemp("empty") / ".hardwon"))
    house.ok("config", "set", "apiPort", "0")
    yield open_browser(house)
    house.leave()


@pytest.fixture
def busy_browser(busy_house: House) -> Browser:
    """A browser at a full viewer, signed in for this test: twenty later ones sign a browser out."""
    return open_browser(busy_house)


def test_a_session_has_the_agents_words_between_its_calls(house: House, fresh_browser: Browser, own_home: str) -> None:
    writer = TranscriptWriter(own_home).person("Show the log in colours")
    writer.fails("git log --colour", "error: unknown option").agent(f"git spells it {'very ' * 60}American")
    writer.works("git log --color").agent("Its password is `DB_PASSWORD=hunter2-kites-9f8e7d`").works("git status")
    writer.person("<private>which bank?</private>").agent("It is the one by the river").agent("Done.").write()
    house.ok("import", "transcripts")
    page = fresh_browser.get("/sessions/1").text
    positions = [
        page.index(words) for words in ("--colour", "<details><summary>git spells it very", "--color<", "Its password")
    ]
    assert positions == sorted(positions) and "hunter2" not in page and "by the river" not in page
    assert "git spells it" not in fresh_browser.get("/sessions/1?show=failures").text


def test_a_session_that_ended_is_completed_whatever_the_agent_calls_its_end(
    house: House, fresh_browser: Browser
) -> None:
    house.ask("s1", prompt("fly the kite"))
    house.ask("s1", happened("SessionEnd", reason="prompt_input_exit"))
    assert "<dd>completed</dd>" in fresh_browser.get("/sessions/1").text


def test_an_observation_stands_after_the_calls_it_sums_up(house: House, fresh_browser: Browser) -> None:
    project_field = {"cwd": "/home/dev/kite"}
    house.session_start("s1", **project_field)
    house.ask("s1", prompt("Make the gust test pass", **project_field))
    house.ask("s1", failed("Bash", {"command": "pytest -q"}, "Exit code 1\nE   NameError: gust", **project_field))
    edit = {"file_path": "/home/dev/kite/wind.py", "old_string": "a", "new_string": "gust"}
    house.ask("s1", used("Edit", edit, {}, **project_field))
    house.ask("s1", used("Bash", {"command": "pytest --last-failed"}, {"stdout": "1 passed in 0.1s"}, **project_field))
    house.ask("s1", happened("Stop", last_assistant_message="It passes **now**.", **project_field))
    wait_for(lambda: bool(house.stored("observations")) and not house.stored("jobs"))
    page = fresh_browser.get("/sessions/1").text
    expected_order = (
        "NameError: gust</span></summary>",
        "<code>wind.py</code>",
        "Bash</span> <code>pytest --last-failed",
        'id="O1"',
    )
    positions = [page.index(text) for text in (*expected_order, "It passes <strong>now</strong>")]
    assert positions == sorted(positions)
    assert fresh_browser.get("/found/O1").headers["location"].endswith("#O1")


def test_the_link_is_one_line_and_works_once(busy_house: House) -> None:
    output = busy_house.ok("view", "--print").out
    assert re.fullmatch(r"http://hardwon\.localhost:\d+/open\?code=[\w-]{40,}\n", output)
    first, second = Browser(output.strip()), Browser(output.strip())
    answer = first.open()
    assert (answer.status_code, answer.headers["location"]) == (303, "/")
    assert (second.open().status_code, "set-cookie" in second.open().headers) == (401, False)
    assert (first.get("/").status_code, second.get("/").status_code) == (200, 401)
    assert os.listdir(os.path.join(busy_house.home, "links")) == []


def test_the_cookie_is_for_this_host_alone_and_no_script_sees_it(busy_house: House) -> None:
    cookie = Browser(busy_house.ok("view", "--print").out.strip()).open().headers["set-cookie"]
    name, *flags = cookie.split("; ")
    assert name.startswith("hardwon=") and len(name) > 40
    assert {flag.lower() for flag in flags} == {"httponly", "path=/", "samesite=strict", "max-age=7776000"}


def test_an_old_link_does_not_work(busy_house: House) -> None:
    browser = Browser(busy_house.ok("view", "--print").out.strip())
    folder = os.path.join(busy_house.home, "links")
    (name,) = os.listdir(folder)
    os.utime(os.path.join(folder, name), (0, time.time() - 301))
    assert browser.open().status_code == 401


def test_a_link_on_another_site_signs_the_browser_in_by_a_refresh(busy_house: House) -> None:
    """A browser sends no strict cookie behind somebody else's link, not even after a redirect."""
    browser = Browser(busy_house.ok("view", "--print").out.strip())
    visit = {"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate", "sec-fetch-dest": "document"}
    answer = browser.get(browser.link, **visit)
    assert (answer.status_code, 'http-equiv="refresh"' in answer.text, "set-cookie" in answer.headers) == (
        200,
        True,
        True,
    )


def test_an_agent_gets_no_link(busy_house: House) -> None:
    refused = busy_house.cli("view", "--print", env={"CLAUDECODE": "1"})
    assert (refused.code, "http" in refused.out, "for a person" in refused.err) == (1, False, True)
    assert busy_house.ask(
        "s9", {"hook_event_name": "PreToolUse", "tool_name": "Bash", "tool_input": {"command": "hardwon view --print"}}
    ).denied


def test_without_its_cookie_nothing_is_shown(busy_house: House) -> None:
    browser = open_browser(busy_house)
    del browser.client.headers["cookie"]
    for path in (*PAGES, *list_record_pages(busy_house), "/live", "/nowhere"):
        for headers in ({}, {"cookie": "hardwon=made-up"}, {"cookie": f"hardwon={'x' * 5000}"}):
            answer = browser.get(path, **headers)
            assert (answer.status_code, "kite" in answer.text) == (401, False), path


def test_the_apis_token_opens_no_page_and_approves_nothing(busy_house: House) -> None:
    browser = open_browser(busy_house)
    secrets = browser.secrets("/review/2")
    del browser.client.headers["cookie"]
    with open(os.path.join(busy_house.home, "token")) as file:
        bearer = f"Bearer {file.read().strip()}"
    assert browser.get("/review/2", authorization=bearer).status_code == 401
    assert browser.post("/review/2/accept", secrets, authorization=bearer).status_code == 401
    answers = [browser.client.request(method, "/open", headers={"authorization": bearer}) for method in ("GET", "POST")]
    assert all("set-cookie" not in answer.headers for answer in answers)
    assert busy_house.ok("scan", "candidates", "--json").out.count('"status": "candidate"') >= 3


@pytest.mark.parametrize("name", ["127.0.0.1", "localhost", "evil.example", "hardwon.localhost.evil.example"])
def test_the_viewer_has_one_name(busy_house: House, name: str) -> None:
    browser = open_browser(busy_house)
    port = browser.origin.rpartition(":")[2]
    assert browser.get("/", host=f"{name}:{port}").status_code == 421


@pytest.mark.parametrize(
    "headers",
    [
        {"origin": "http://evil.example"},
        {"origin": ""},
        {"origin": "null"},
        {"origin": "null", "sec-fetch-site": ""},
        {"origin": "null", "sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "same-site"},
        {"sec-fetch-site": "none"},
        {"origin": "http://hardwon.localhost:1"},
        {"origin": "http://127.0.0.1"},
    ],
    ids=str,
)
def test_a_form_from_elsewhere_is_not_taken_even_with_the_cookie(busy_house: House, headers: dict[str, str]) -> None:
    browser = open_browser(busy_house)
    secrets = browser.secrets("/review/2")
    refused = browser.post("/review/2/reject", secrets, **headers)
    assert (refused.status_code, browser.get("/review/2").text.count("Reject")) == (403, 1)


def test_a_form_without_the_secret_of_its_session_is_not_taken(busy_house: House) -> None:
    browser, other_browser = open_browser(busy_house), open_browser(busy_house)
    for wrong in (
        {},
        {"form": "x"},
        {**browser.secrets("/review/2"), "form": other_browser.secrets("/review/2")["form"]},
    ):
        assert browser.post("/review/2/reject", wrong).status_code == 403
    as_json = browser.client.post(
        "/review/2/reject", json=browser.secrets("/review/2"), headers={"origin": browser.origin}
    )
    assert as_json.status_code == 403


def test_what_is_embedded_elsewhere_gets_nothing(busy_house: House) -> None:
    browser = open_browser(busy_house)
    for site in ("cross-site", "same-site"):
        for mode, dest in (("no-cors", "image"), ("cors", "empty"), ("navigate", "iframe"), ("no-cors", "script")):
            fetch_headers = {"sec-fetch-site": site, "sec-fetch-mode": mode, "sec-fetch-dest": dest}
            assert browser.get("/sessions", **fetch_headers).status_code == 403
            assert browser.get("/static/viewer.js", **fetch_headers).status_code == 403


@pytest.mark.parametrize("path", [*PAGES, *PAGES_OF_ONE])
def test_every_page_shows_what_there_is_behind_strict_headers(
    busy_browser: Browser, busy_house: House, path: str
) -> None:
    answer = busy_browser.get(path.format(**busy_home.find_first_ids(busy_house.home)))
    assert answer.status_code == 200, answer.text[-3000:]
    policy = answer.headers["content-security-policy"]
    assert "default-src 'none'" in policy and "unsafe" not in policy and "frame-ancestors 'none'" in policy
    expected = {"x-content-type-options": "nosniff", "referrer-policy": "no-referrer", "cache-control": "no-store"}
    assert {name: answer.headers[name] for name in expected} == expected
    assert not re.search(r"<script(?! src=\"/static/)|<style|\sstyle=|\son\w+=|https?://(?!www\.w3\.org)", answer.text)


def test_a_browser_keeps_what_every_page_needs_until_it_changes(busy_house: House) -> None:
    browser = open_browser(busy_house)
    stamped = re.findall(r"/static/[^\"]+", browser.get("/").text)
    assert len(stamped) == 4
    assert {browser.get(path).headers["cache-control"].rpartition(" ")[2] for path in stamped} == {"immutable"}
    for path in ("/static/viewer.js", "/static/viewer.js?v=of-another-version"):
        assert browser.get(path).headers["cache-control"] == "no-store"


@pytest.mark.parametrize("path", PAGES)
def test_every_page_says_what_to_do_where_there_is_nothing(empty_browser: Browser, path: str) -> None:
    answer = empty_browser.get(path)
    assert answer.status_code == 200, answer.text[-3000:]
    assert path == "/settings" or re.search('class="(none|blank)"[^>]*>\\s*(<p><strong>)?[A-Z]|No results', answer.text)


@pytest.mark.parametrize("path", ["/", "/sessions"])
def test_a_page_without_sessions_names_the_command_that_sets_up(empty_browser: Browser, path: str) -> None:
    assert "<code>hardwon up</code>" in empty_browser.get(path).text


def test_a_home_page_without_activity_has_no_heading_for_it(empty_browser: Browser, busy_browser: Browser) -> None:
    heading = '<section aria-labelledby="stream-title"'
    assert f"{heading} hidden>" in empty_browser.get("/").text and f"{heading}>" in busy_browser.get("/").text


@pytest.mark.parametrize(
    "path",
    [
        "/sessions/99999",
        "/sessions/x",
        "/sessions/1/events/99999",
        "/lessons/none",
        "/review/99",
        "/memory/99",
        "/memory/x",
        "/memory/99/edit",
        "/memory/files/1/none.md",
        "/handoffs/99",
        "/handoffs/x/ratify",
        "/handoffs/99/amend",
        "/handoffs/99/discard",
        "/found/X1",
        "/found/O999999",
        "/../etc/passwd",
        "/static/../app.py",
        "/static/x",
        "/sessions?before=x&project=x&since=x",
        "/?after=1.2",
        "/sessions/1?after=9-x",
    ],
)
def test_an_unknown_page_is_not_a_server_error(busy_browser: Browser, path: str) -> None:
    assert busy_browser.get(path).status_code in (200, 404)


def test_a_long_list_goes_on_behind_its_last_row(house: House) -> None:
    busy_home.fill(house.home, time.time(), count=120)
    house.ok("config", "set", "apiPort", "0")
    browser, path, row_ids = open_browser(house), "/sessions", list[str]()
    while path:
        text = browser.get(path).text
        row_ids += re.findall(r'href="/sessions/(\d+)" data-row', text)
        further = re.search(r'rel="next" href="([^"]+)"', text)
        path = further[1].replace("&amp;", "&") if further else ""
    assert (len(row_ids), len(set(row_ids))) == (120, 120)


@pytest.fixture(scope="module")
def hostile_viewer(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Browser, dict[str, int]]]:
    """A browser at a viewer whose every text is hostile, and the numbers of the first records there."""
    house = House(str(tmp_path_factory.mktemp("hostile") / ".hardwon"))
    busy_home.fill(house.home, time.time(), count=3, hostile=True)
    house.ok("config", "set", "apiPort", "0")
    yield open_browser(house), busy_home.find_first_ids(house.home)
    house.leave()


@pytest.mark.parametrize("path", [*PAGES, *PAGES_OF_ONE, "/lessons/hostile-lesson", "/lessons/hostile-lesson/edit"])
def test_hostile_text_is_only_text_and_no_page_grows_with_it(
    hostile_viewer: tuple[Browser, dict[str, int]], path: str
) -> None:
    browser, first_ids = hostile_viewer
    answer = browser.get(path.format(**first_ids))
    assert answer.status_code == 200, answer.text[-2000:]
    assert "<script>" not in answer.text and "<img src=x" not in answer.text
    assert not re.search("[\u202a-\u202e\u2066-\u2069\u200b\x1b\x00]", answer.text)
    assert len(answer.text) < 700_000


def test_a_person_accepts_edits_rejects_and_takes_back(house: House) -> None:
    busy_home.fill(house.home, time.time())
    house.ok("config", "set", "apiPort", "0")
    browser = open_browser(house)

    answer = browser.post("/review/1/accept", browser.secrets("/review/1"))
    assert (answer.status_code, answer.headers["location"]) == (303, "/review/2")
    assert "In force as a hold: pip-install-1" in browser.get("/review/2").text
    assert house.ask(
        "s1",
        {
            "hook_event_name": "PreToolUse",
            "tool_name": "Bash",
            "tool_input": {"command": "pip install thing1 x"},
            "tool_use_id": "t1",
        },
    ).denied

    assert browser.post("/review/undo", browser.secrets("/review")).headers["location"] == "/review/1"
    assert "pip-install-1" not in house.ok("lessons", "list", "--json").out

    words = browser.post("/review/1/words", browser.secrets("/review/1"))
    assert words.status_code == 303
    assert (
        house.ok("lessons", "show", "pip-install-1", "--json").json()["solution"]
        == "make a venv before any pip install"
    )

    changed = {
        "summary": "pip wants a venv first here",
        "commandPatterns": "^pip3? install\n^python3 -m pip install",
        "priority": "9",
    }
    assert browser.post("/review/2/edit", {**browser.secrets("/review/2/edit"), **changed}).status_code == 303
    lesson_record = house.ok("lessons", "show", "pip-install-2", "--json").json()
    assert (lesson_record["summary"], lesson_record["priority"]) == ("pip wants a venv first here", 9)
    assert lesson_record["triggers"]["commandPatterns"] == ["^pip3? install", "^python3 -m pip install"]

    assert browser.post("/review/3/reject", browser.secrets("/review/3")).status_code == 303
    decided = {row["number"]: row["status"] for row in house.stored("candidates")}
    assert decided == {1: "active", 2: "active", 3: "rejected", 4: "candidate"}


def test_the_inbox_lists_all_decisions_and_leads_from_one_to_the_next(house: House) -> None:
    busy_home.fill(house.home, time.time())
    house.ok("config", "set", "apiPort", "0")
    browser = open_browser(house)
    paths = re.findall(r'<li><a href="(/(?:review|memory|handoffs)/\d+)" data-row', browser.get("/inbox").text)
    kinds = [path.split("/")[1] for path in paths]
    assert kinds == sorted(kinds, key=("review", "memory", "handoffs").index)
    assert set(kinds) == {"review", "memory", "handoffs"}
    assert f'<span class="count some">{len(paths)}</span>' in browser.get("/sessions").text
    last_lesson, first_memory = paths[kinds.index("memory") - 1], paths[kinds.index("memory")]
    assert f'href="{first_memory}" data-key="j"' in browser.get(last_lesson).text
    rejected = browser.post(f"{last_lesson}/reject", browser.secrets(last_lesson))
    assert rejected.headers["location"] == first_memory
    assert f'href="{paths[kinds.index("memory") - 2]}" data-key="k"' in browser.get(first_memory).text


def test_the_home_page_shows_a_held_call_beside_the_one_that_replaced_it(house: House) -> None:
    house.ok("config", "set", "apiPort", "0")
    house.ok("lessons", "add", "--json", json.dumps({**GIT_STASH, "delivery": "hold"}))
    house.session_start("s1")
    house.ask("s1", prompt("put my work aside"))
    assert house.ask("s1", bash("git stash")).denied
    house.ask("s1", used("Bash", {"command": "git stash -u"}, {"stdout": "Saved"}))
    text = open_browser(house).get("/").text
    assert "<strong>1</strong> session" in text and ">1</strong> held by a lesson" in text
    held_list = re.search(r'<ol class="held">(.*?)</ol>', text, re.DOTALL)
    assert held_list and re.findall(r"<code>([^<]+)</code>", held_list[1]) == ["git stash", "git stash -u"]


def test_a_failure_that_repeats_becomes_a_lesson_in_the_viewer(house: House) -> None:
    house.ok("config", "set", "apiPort", "0")
    for session in ("s1", "s2"):
        house.session_start(session)
        house.ask(session, prompt("run the tests"))
        house.ask(session, failed("Bash", {"command": "npm test"}, 'Exit code 1\nnpm error Missing script: "test"'))
    browser = open_browser(house)
    form_link = re.search(r'href="(/lessons/new\?call=\d+)">make a lesson', browser.get("/insights").text)
    assert form_link and "Missing script" in browser.get("/").text
    form_page = browser.get(form_link[1]).text
    assert "`npm test` fails: npm error Missing script" in html.unescape(form_page)
    typed = {**browser.secrets(form_link[1]), "solution": "use npm run check, there is no script named test"}
    typed |= {"summary": "npm test does not exist here", "commandPatterns": r"\bnpm test\b", "delivery": "hold"}
    refused = browser.post("/lessons/new/edit", {**typed, "commandPatterns": "("})
    assert (refused.status_code, "use npm run check" in refused.text) == (422, True)
    assert browser.post("/lessons/new/edit", typed).status_code == 303
    assert house.ask("s3", bash("npm test")).denied
    assert "covered by a lesson" in browser.get("/insights").text


def test_what_is_refused_says_why_and_keeps_what_was_typed(house: House) -> None:
    busy_home.fill(house.home, time.time())
    house.ok("config", "set", "apiPort", "0")
    browser = open_browser(house)
    secrets = browser.secrets("/review/2/edit")
    wrong = browser.post("/review/2/edit", {**secrets, "commandPatterns": "^pip (install", "summary": "kept as typed"})
    assert (
        wrong.status_code,
        "^pip (install" in wrong.text,
        "kept as typed" in wrong.text,
        "refused" in wrong.text,
    ) == (422, True, True, True)

    block = {**browser.secrets("/review/4/edit"), "delivery": "block"}
    answer = browser.post("/review/4/edit", block)
    assert (answer.status_code, "too few to be sure" in answer.text, 'name="confirm"' in answer.text) == (
        422,
        True,
        True,
    )
    assert browser.post("/review/4/edit", {**block, "confirm": "yes"}).status_code == 303
    assert house.ok("lessons", "show", "pip-install-4", "--json").json()["delivery"] == "block"
    house.ok("lessons", "edit", "pip-install-4", "--delivery", "hold")
    block = {**browser.secrets("/lessons/pip-install-4/edit"), "delivery": "block"}
    answer = browser.post("/lessons/pip-install-4/edit", block)
    assert (answer.status_code, "too few to be sure" in answer.text, 'name="confirm"' in answer.text) == (
        422,
        True,
        True,
    )
    assert browser.post("/lessons/pip-install-4/edit", {**block, "confirm": "yes"}).status_code == 303

    fires = browser.post("/review/1/edit", {**browser.secrets("/review/1/edit"), "delivery": "block", "confirm": "yes"})
    assert (fires.status_code, "it cannot block" in fires.text) == (422, True)


def test_a_candidate_that_changed_since_it_was_seen_is_not_accepted(house: House) -> None:
    busy_home.fill(house.home, time.time())
    house.ok("config", "set", "apiPort", "0")
    browser = open_browser(house)
    stale = {**browser.secrets("/review/1"), "seen": browser.secrets("/review/2")["seen"]}
    assert browser.post("/review/1/accept", stale).status_code == 400
    assert len(house.ok("lessons", "list", "--json").json()) == 2


def test_a_lesson_is_edited_retired_and_put_in_force_again(house: House) -> None:
    busy_home.fill(house.home, time.time())
    house.ok("config", "set", "apiPort", "0")
    browser = open_browser(house)
    same = browser.post(
        f"{LESSON}/edit", {**browser.secrets(f"{LESSON}/edit"), "summary": "git stash leaves untracked files behind"}
    )
    assert (same.status_code, "Nothing was changed" in browser.get(LESSON).text) == (303, True)
    browser.post(f"{LESSON}/edit", {**browser.secrets(f"{LESSON}/edit"), "priority": "10", "unless": ""})
    lesson_record = house.ok("lessons", "show", LESSON.rpartition("/")[2], "--json").json()
    assert (lesson_record["priority"], lesson_record.get("unless", [])) == (10, [])
    assert browser.post(f"{LESSON}/retire", browser.secrets(LESSON)).status_code == 303
    assert not house.ask(
        "s1", {"hook_event_name": "PreToolUse", "tool_name": "Bash", "tool_input": {"command": "git stash"}}
    ).denied
    assert browser.post(f"{LESSON}/restore", browser.secrets(LESSON)).status_code == 303
    assert house.ask(
        "s2", {"hook_event_name": "PreToolUse", "tool_name": "Bash", "tool_input": {"command": "git stash"}}
    ).denied


@pytest.mark.parametrize("value", ["1" + "0" * 400, "-1" + "0" * 400, "1e999", "NaN", "Infinity", "9" * 5000])
def test_a_number_out_of_any_range_is_refused_with_a_sentence(empty_browser: Browser, value: str) -> None:
    secret = {"form": empty_browser.secrets("/settings")["form"]}
    for name in ("minConfidence", "maxDbMb"):
        answer = empty_browser.post(f"/settings/{name}", {**secret, "value": value})
        assert answer.status_code == 400 and name in answer.text


def test_settings_are_changed_in_the_file_and_what_else_is_in_it_stays(fresh_browser: Browser, house: House) -> None:
    path = os.path.join(house.home, "config.json")
    with open(path) as file:
        config_before = json.load(file)
    with open(path, "w") as file:
        json.dump({**config_before, "mine": {"own": 1}}, file)
    secret = {"form": fresh_browser.secrets("/settings")["form"]}
    assert fresh_browser.post("/settings/retentionDays", {**secret, "value": "30"}).status_code == 303
    assert (
        fresh_browser.post(
            "/settings/denyProjects", {**secret, "value": "/home/dev/secret\r\n/home/dev/other\r\n"}
        ).status_code
        == 303
    )
    assert fresh_browser.post("/settings/scoring.hangTimeoutBonus", {**secret, "value": "2"}).status_code == 303
    with open(path) as file:
        now = json.load(file)
    assert now == {
        **config_before,
        "mine": {"own": 1},
        "retentionDays": 30,
        "denyProjects": ["/home/dev/secret", "/home/dev/other"],
        "scoring": {"hangTimeoutBonus": 2},
    }
    assert fresh_browser.post("/settings/retentionDays", {**secret, "default": "1"}).status_code == 303
    assert fresh_browser.post("/settings/retentionDays", {**secret, "value": "many"}).status_code == 400
    with open(path) as file:
        assert "retentionDays" not in file.read()


@pytest.mark.parametrize("name", ["llm.provider", "llm.baseUrl", "caps.dollarsPerDay", "nothing", "__class__"])
def test_what_goes_to_a_model_and_what_it_may_cost_is_set_at_a_terminal(
    fresh_browser: Browser, house: House, name: str
) -> None:
    secret = {"form": fresh_browser.secrets("/settings")["form"]}
    assert fresh_browser.post(f"/settings/{name}", {**secret, "value": "anthropic"}).status_code == 400
    with open(os.path.join(house.home, "config.json")) as file:
        assert "anthropic" not in file.read()


def test_a_pause_is_set_and_lifted(fresh_browser: Browser, house: House) -> None:
    secret = {"form": fresh_browser.secrets("/settings")["form"]}
    assert fresh_browser.post("/settings/pause", {**secret, "where": "*", "length": "3600"}).status_code == 303
    assert 'href="/settings#pause">paused' in fresh_browser.get("/").text
    house.ask("quiet", prompt("nobody hears this"))
    assert fresh_browser.post("/settings/unpause", secret).status_code == 303
    house.ask("loud", prompt("somebody hears this"))
    text = fresh_browser.get("/").text
    assert ("somebody hears" in text, "nobody hears" in text) == (True, False)


def test_what_happens_shows_on_the_next_look_and_in_the_stream(fresh_browser: Browser, house: House) -> None:
    marks = re.search(r'data-stream="([\d.]+)"', fresh_browser.get("/").text)
    assert marks
    with fresh_browser.client.stream("GET", "/live") as stream:
        lines = stream.iter_lines()
        assert next(lines).startswith(":")
        house.ask("s1", prompt("fly the kite"))
        while not next(lines).startswith("event: prompt"):
            continue
    part = fresh_browser.get(f"/?after={marks[1]}").text
    assert ("fly the kite" in part, "<html" in part) == (True, False)
    new_marks = re.search(r'data-marks="([\d.]+)"', part)
    assert new_marks and "fly the kite" not in fresh_browser.get(f"/?after={new_marks[1]}").text


def test_a_cookie_is_refused_after_signing_out(busy_house: House) -> None:
    browser = open_browser(busy_house)
    old_cookie = browser.client.headers["cookie"]
    assert browser.post("/leave", {"form": browser.secrets("/")["form"]}).status_code == 303
    assert browser.get("/", cookie=old_cookie).status_code == 401


def test_a_browser_stays_signed_in_over_a_restart_until_all_are_signed_out(
    fresh_browser: Browser, house: House
) -> None:
    form = fresh_browser.secrets("/")["form"]
    house.ok("restart")
    second_browser = open_browser(house)
    second_browser.client.headers["cookie"] = fresh_browser.client.headers["cookie"]
    assert (second_browser.get("/").status_code, second_browser.secrets("/")["form"]) == (200, form)
    assert house.ok("view", "--sign-out").out == "signed out: 2 browsers\n"
    assert second_browser.get("/").status_code == 401


def test_a_call_is_shown_with_its_line_in_the_transcript(house: House) -> None:
    busy_home.fill(house.home, time.time(), count=1)
    path = busy_home.write_transcript(house.home)
    house.ok("config", "set", "apiPort", "0")
    house.ask("session-0000", {"hook_event_name": "Stop", "transcript_path": path, "cwd": "/home/dev/kite"})
    browser = open_browser(house)
    link = re.search(r'href="(/sessions/1/events/\d+)"', browser.get("/sessions/1").text)  # the first is number one
    page_text = browser.get(link[1]).text if link else ""
    assert f"{path}:1" in page_text
    os.rename(path, f"{path}.moved")
    os.symlink(f"{path}.moved", path)
    assert f"{path}:1" not in browser.get(link[1] if link else "").text


def test_view_says_so_where_the_pages_are_turned_off(house: House) -> None:
    house.ok("config", "set", "apiPort", "--", "-1")
    refused = house.cli("view", "--print")
    assert (refused.code, "apiPort" in refused.err) == (1, True)
