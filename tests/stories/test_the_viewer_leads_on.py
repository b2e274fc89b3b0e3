"""Where the viewer's links and filters lead."""

from __future__ import annotations

import json
import os
import re
import sqlite3
import time
from contextlib import closing
from pathlib import Path

import pytest

from tests.stories.test_the_viewer import Browser, open_browser
from tests.support.distilled_store import DistilledStore
from tests.support.house import GIT_STASH, House, bash, call


@pytest.fixture(scope="module")
def informed_house(shared_house: House, tmp_path_factory: pytest.TempPathFactory) -> House:
    """A house with a session that got a brief, the history of a file, and a lesson."""
    house, folder = shared_house, str(tmp_path_factory.mktemp("project"))
    store = DistilledStore(house.home, folder)
    store.observe(
        store.add_session(), "tokens expire early", type="bugfix", files=["auth.py"], concepts=json.dumps(["gotcha"])
    )
    store.close()
    house.add({**GIT_STASH, "slug": "stash-is-partial"})
    house.ok("config", "set", "apiPort", "0")
    house.ok("start")
    house.session_start("told", cwd=folder)
    house.ask("told", call("Read", {"file_path": "auth.py"}, cwd=folder))
    house.ask("told", bash("git stash", cwd=folder))
    assert [delivery["slug"] for delivery in house.deliveries()] == ["brief", "O1", "stash-is-partial"]
    house.ok("search", "tokens", "--all")  # now it is indexed
    return house


@pytest.fixture(scope="module")
def browser(informed_house: House) -> Browser:
    return open_browser(informed_house)


@pytest.mark.parametrize("page", ["/", "/sessions/{number}", "/insights"])
def test_every_delivery_links_to_the_page_of_its_record(informed_house: House, browser: Browser, page: str) -> None:
    (number,) = (row["id"] for row in informed_house.stored("sessions") if row["session"] == "told")
    links = re.findall(r'href="(/(?:lessons|found)/[^"]+)"', browser.get(page.format(number=number)).text)
    record_links = ["/found/O1"] if page != "/insights" else []
    assert sorted(links) == [*record_links, "/lessons/stash-is-partial"]
    for link in links:
        answer = browser.get(link)
        assert browser.get(answer.headers.get("location", link)).status_code == 200


def test_insights_counts_lessons_alone(browser: Browser) -> None:
    text = browser.get("/insights").text
    assert "After 0 of the last 1 delivery a call" in text and "1 in all, at most 1 a day" in text


@pytest.mark.parametrize(
    ("filters", "is_found"),
    [
        ("", True),
        ("&type=bugfix&concept=gotcha&since=2026-11-12&until=2026-11-12", True),
        ("&type=decision", False),
        ("&concept=how-it-works", False),
        ("&since=2026-11-14", False),
        ("&until=2026-11-10", False),
    ],
)
def test_a_search_is_narrowed_by_type_concept_and_day_and_the_form_keeps_it(
    browser: Browser, filters: str, is_found: bool
) -> None:
    hits = browser.get(f"/search?q=tokens{filters}&part=1").text.partition("Similar")[0]
    assert ("/found/O1" in hits) is is_found
    form = browser.get(f"/search?q=tokens{filters}").text
    for name, value in re.findall(r"&(\w+)=([\w-]+)", filters):
        assert f'name="{name}" value="{value}"' in form


def test_a_project_that_is_not_known_is_not_every_project(browser: Browser) -> None:
    status_codes = [browser.get(f"/search?q=tokens&project={project}").status_code for project in ("999", "kite", "1")]
    assert status_codes == [404, 404, 200]


@pytest.mark.parametrize(("days_ago", "span"), [(3, "30 days"), (60, "90 days"), (400, "All time")])
def test_insights_opens_with_a_period_in_which_something_happened(
    house: House, days_ago: int, span: str, tmp_path: Path
) -> None:
    store = DistilledStore(house.home, str(tmp_path))
    store.add_session()
    store.close()
    with closing(sqlite3.connect(os.path.join(house.home, "hardwon.db"))) as connection, connection:
        connection.execute("update sessions set last_at = ?", (time.time() - days_ago * 86_400,))
    house.ok("config", "set", "apiPort", "0")
    house.ok("start")
    page = open_browser(house).get("/insights").text
    assert re.findall(r'aria-current="\w+"[^>]*>(\d+ days|All time)<', page) == [span]
