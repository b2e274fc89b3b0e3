"""Makes docs/images/*.png: the viewer of a made-up home, in a real browser, with the real worker. Run it as

.venv/bin/python -m scripts.screenshots           the pictures of the documents
.venv/bin/python -m scripts.screenshots FOLDER    every page whole, light, dark and narrow, to be looked at
"""

from __future__ import annotations

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
from tests.support.house import House

FOLDER = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "docs", "images")
SIZE = ViewportSize(width=1120, height=700)
LARGEST = 150_000
PICTURES = {
    "session.png": "/sessions/{session}",
    "review.png": "/review/{found}",
    "lesson.png": "/lessons/git-stash-leaves-untracked-files",
    "insights.png": "/insights",
}


def main() -> int:
    os.makedirs(FOLDER, exist_ok=True)
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        os.environ["HOME"] = folder
        house = House(os.path.join(folder, ".hardwon"))
        busy_home.fill(house.home, clock.now())
        for _ in range(2):
            TranscriptWriter(folder).person("show me the log").mistake().write()
        house.ok("scan")
        try:
            with open_browser() as browser:
                if len(sys.argv) > 1:
                    return _take_all(browser, house, sys.argv[1])
                with browser.new_context(color_scheme="light", viewport=SIZE) as context:
                    return _take(context.new_page(), house)
        finally:
            house.leave()


def _take(page: Page, house: House) -> int:
    """Every picture in turn; 1 if one is too large to be carried along."""
    link = house.ok("view", "--print").out.strip()
    page.goto(link)
    found = max(one["index"] for one in house.ok("scan", "candidates", "--all", "--json").json()["candidates"])
    known, large = {**busy_home.find_first_ids(house.home), "found": found}, 0
    for name, path in PICTURES.items():
        page.goto(link.partition("/open")[0] + path.format(**known))
        picture = page.screenshot(path=os.path.join(FOLDER, name), animations="disabled")
        large |= len(picture) > LARGEST
        sys.stdout.write(f"{name:<14}{len(picture):>8,} bytes\n")
    return large


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
