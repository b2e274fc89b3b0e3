"""Take the pictures in docs/images: the viewer of a made-up home, in a real browser, with the real worker. Run it as

make screenshots                                  the pictures of the documents
.venv/bin/python -m scripts.screenshots FOLDER    every page whole, light, dark and narrow, to be looked at
"""

from __future__ import annotations

import hashlib
import os
import re
import sys
import tempfile

from playwright.sync_api import Browser, Page, ViewportSize

from hardwon import clock
from tests.real.browser import open_browser
from tests.real.test_viewer import LOOKS, PAGES
from tests.support import busy_home
from tests.support.claude_transcript import TranscriptWriter
from tests.support.house import House, bash, failed, happened, prompt, used, wait_for

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
FOLDER = os.path.join(ROOT, "docs", "images")
SOURCES = ("src/hardwon/web/templates", "src/hardwon/web/static", "scripts/screenshots.py")
HASH_PATH = os.path.join(FOLDER, "sources.sha256")  # of the sources that the pictures were taken with
SIZE = ViewportSize(width=1120, height=700)
LARGEST = 150_000
PICTURES = {
    "home.png": "/",
    "review.png": "/review/{candidate}",
    "lesson.png": "/lessons/{lesson}",
    "insights.png": "/insights",
}
PROJECT = "/home/dev/shop"


def main() -> int:
    os.makedirs(FOLDER, exist_ok=True)
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        os.environ["HOME"] = folder
        house = House(os.path.join(folder, ".hardwon"))
        try:
            with open_browser() as browser:
                if len(sys.argv) > 1:
                    busy_home.fill(house.home, clock.now())
                    return _take_all(browser, house, sys.argv[1])
                names = _tell_story(house, folder)
                with browser.new_context(color_scheme="light", viewport=SIZE) as context:
                    return _take(context.new_page(), house, names)
        finally:
            house.leave()


def hash_sources() -> str:
    """Return a hash of the templates, the styles and the story: when it changes, the pictures are stale."""
    digest = hashlib.sha256()
    for source in SOURCES:
        path = os.path.join(ROOT, source)
        for name in sorted(os.listdir(path)) if os.path.isdir(path) else [""]:
            with open(os.path.join(path, name) if name else path, "rb") as file:
                digest.update(f"{source}/{name}\0".encode() + file.read())
    return digest.hexdigest()


def _tell_story(house: House, folder: str) -> dict[str, object]:
    """Have a mistake found in two sessions, accepted and held in a third; return what the pages are named by."""
    wrong, right = "pytest --parallel 4 tests", "pytest -n 4 tests"
    for _ in range(2):
        transcript = TranscriptWriter(folder, project=PROJECT).person("Run the tests on all cores.")
        transcript.fails(wrong, "Exit code 4\npytest: error: unrecognized arguments: --parallel")
        transcript.works(right, "48 passed in 6.10s").agent("All 48 tests pass.").write()
        transcript = TranscriptWriter(folder, project=PROJECT).person("Start the database.")
        transcript.fails("docker-compose up -d db", "Exit code 127\nbash: docker-compose: command not found")
        transcript.works("docker compose up -d db", "Container shop-db Started").agent("The database runs.").write()
    house.ok("scan")
    summaries = {
        candidate["summary"]: candidate["index"]
        for candidate in house.ok("scan", "candidates", "--all", "--json").json()["candidates"]
    }
    accepted = next(number for summary, number in summaries.items() if "pytest" in summary)
    waiting = next(number for summary, number in summaries.items() if "docker" in summary)
    house.ok("accept", f"L{accepted}")
    slug = house.ok("lessons", "list", "--json").json()[0]["slug"]

    where = {"cwd": PROJECT}
    house.session_start("limits", **where)
    house.ask("limits", prompt("Count requests per API key instead of per address.", **where))
    edit = {
        "file_path": f"{PROJECT}/src/limiter.py",
        "old_string": "def key_of(request):\n    return request.client.host",
        "new_string": 'def key_of(request):\n    return request.headers["x-api-key"]',
    }
    house.ask("limits", used("Edit", edit, {"filePath": edit["file_path"]}, **where))
    assert house.ask("limits", bash(wrong, **where)).denied
    house.ask("limits", used("Bash", {"command": right}, {"stdout": "49 passed in 6.24s"}, **where))
    commit = 'git commit -am "Count requests per API key"'
    committed = {"stdout": "[main 4f1c2ab] Count requests per API key\n 1 file changed"}
    house.ask("limits", used("Bash", {"command": commit}, committed, **where))
    said = "Requests are counted per API key now: all clients of one office share an address. Next: document the limit."
    house.ask("limits", happened("Stop", last_assistant_message=said, **where))

    house.session_start("deploy", **where)
    house.ask("deploy", prompt("Why does the staging deploy fail?", **where))
    for _ in range(2):
        problem = 'Exit code 1\nerror: context "staging" does not exist'
        house.ask("deploy", failed("Bash", {"command": "kubectl --context staging get pods"}, problem, **where))
    said = "The context is named `stage-eu` here, so the deploy script looks in the wrong place."
    house.ask("deploy", happened("Stop", last_assistant_message=said, **where))
    wait_for(lambda: len(house.stored("summaries")) >= 2 and not house.stored("jobs"))
    return {"candidate": waiting, "lesson": slug}


def _take(page: Page, house: House, names: dict[str, object]) -> int:
    """Take every picture in turn; return 1 if one is too large to be carried along."""
    link = house.ok("view", "--print").out.strip()
    page.goto(link)
    is_too_large = 0
    for name, path in PICTURES.items():
        page.goto(link.partition("/open")[0] + path.format(**names))
        picture = page.screenshot(path=os.path.join(FOLDER, name), animations="disabled")
        is_too_large |= len(picture) > LARGEST
        sys.stdout.write(f"{name:<14}{len(picture):>8,} bytes\n")
    with open(HASH_PATH, "w", encoding="ascii") as file:
        file.write(f"{hash_sources()}\n")
    return is_too_large


def _take_all(browser: Browser, house: House, folder: str) -> int:
    known = busy_home.find_first_ids(house.home)
    for look, options in LOOKS.items():
        with browser.new_context(**options) as context:
            link, page = house.ok("view", "--print").out.strip(), context.new_page()
            page.goto(link)
            for path in PAGES:
                page.goto(link.partition("/open")[0] + path.format(**known))
                name = re.sub(r"\W+", "-", path.replace("{", "").replace("}", "")).strip("-") or "now"
                page.screenshot(path=os.path.join(folder, f"{name}.{look}.png"), full_page=True, animations="disabled")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
