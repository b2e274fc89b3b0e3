"""A real Chromium that reaches nothing but this machine: any other name leads nowhere, and no proxy is asked."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Browser, Page, sync_playwright

PROGRAMS = (
    "chromium",
    "chromium-browser",
    "google-chrome",
    "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome",
)
OURS = ("127.0.0.1", "localhost", "hardwon.localhost")
REBOUND = "evil.test"  # a name of somebody else's that leads to this machine
RULES = [f"EXCLUDE {name}" for name in OURS] + [f"MAP {REBOUND} 127.0.0.1", "MAP * ~NOTFOUND"]
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-proxy-server",
    f"--host-resolver-rules={', '.join(RULES)}",
]


def find_chromium() -> str:
    """Return the path of Chromium; without it skip the test, and in CI fail it."""
    for name in PROGRAMS:
        if path := shutil.which(name):
            return path
    missing = "there is no Chromium here; install it, on Debian with: apt-get install chromium"
    if os.environ.get("CI") == "true":
        pytest.fail(missing, pytrace=False)
    pytest.skip(missing)


@contextmanager
def open_browser() -> Iterator[Browser]:
    """Open Chromium with a temporary profile."""
    path = find_chromium()
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=path, headless=True, args=FLAGS, timeout=120_000)
        yield chromium
        chromium.close()


@contextmanager
def new_page(browser: Browser) -> Iterator[Page]:
    """Open a page without history or cookies, and check that every request went to this machine."""
    with browser.new_context() as context:
        requested_urls: list[str] = []
        context.on("request", lambda request: requested_urls.append(request.url))
        yield context.new_page()
        hosts = {urlsplit(url).hostname for url in requested_urls if urlsplit(url).scheme.startswith(("http", "ws"))}
        assert hosts <= {*OURS, REBOUND}, f"the browser sent requests elsewhere: {hosts}"
