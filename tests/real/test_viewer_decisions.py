"""Memories and handoffs in a real browser: by keyboard, without scripts, with hostile text, and never unseen."""

from __future__ import annotations

import os
import re
import time
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from tests.support import busy_home
from tests.support.house import House

from .test_viewer import LOOKS, browser, house, open_visit, own_house

pytestmark = pytest.mark.real
__all__ = ["browser", "house", "own_house"]


def list_drafts(own_house: House) -> list[str]:
    return sorted(os.listdir(os.path.join(own_house.home, "drafts")))


def test_a_person_decides_about_memories_by_keyboard(browser: Browser, own_house: House) -> None:
    with open_visit(browser, own_house) as visit:
        page = visit.go("/memory?status=candidate")
        visit.press("j", "Enter")
        expect(page.locator("h1")).to_contain_text("Merges are frozen")
        expect(page.locator(".diff ins").last).to_have_text("+ Merges are frozen from Thursday until the release")
        visit.press("a")
        expect(page.get_by_role("status")).to_contain_text("Approved as memory")
        visit.press("e")
        page.get_by_label("What to know").fill("Run the gust tests before every commit")
        page.get_by_role("button", name="Save").click()
        expect(page.get_by_role("status")).to_contain_text("needs your approval")
        visit.press("j")
        expect(page.locator("h1")).to_contain_text("wind tables")
        visit.press("r")
        expect(page.get_by_role("status")).to_contain_text("Rejected")
        page = visit.go("/memory/{approved}")
        page.get_by_role("button", name="Retire").click()
        expect(page.get_by_role("status")).to_contain_text("Its file stays")
    states = {row["id"]: row["status"] for row in own_house.stored("memories")}
    assert (states[6], states[5], states[4]) == ("active", "candidate", "rejected")
    assert any("merges-are-frozen" in name for name in os.listdir(os.path.join(own_house.home, "memory")))


def test_a_draft_is_amended_and_ratified_once_its_differences_were_seen(browser: Browser, own_house: House) -> None:
    with open_visit(browser, own_house) as visit:
        page = visit.go("/handoffs")
        visit.press("j", "Enter")
        expect(page.get_by_role("heading", name="For the next session")).to_be_visible()
        page.get_by_text("Evidence").click()
        expect(page.get_by_text("Use spans, not metres.").last).to_be_visible()
        visit.press("e")
        box = page.get_by_role("textbox")
        box.fill(box.input_value().replace("Use spans, not metres.", "Use spans."))
        page.get_by_role("button", name="Show changes").click()
        expect(page.locator(".diff ins")).to_have_text(["+ - You: “Use spans.” (L8)"])
        drafts_before = list_drafts(own_house)
        page.get_by_role("button", name="Write it").click()
        expect(page.get_by_role("status")).to_contain_text("still needs review")
        visit.press("a")
        expect(page.locator(".diff")).to_have_count(2)
        assert list_drafts(own_house) == drafts_before
        visit.press("a")
        expect(page.get_by_role("status")).to_contain_text("ratified: ")
        expect(page.get_by_text("and in use")).to_be_visible()
    text = Path(own_house.home, "drafts", "session-0001.md").read_text()
    assert ("Use spans." in text, "status: ratified" in text) == (True, True)


def test_deciding_works_without_scripts(browser: Browser, own_house: House) -> None:
    with open_visit(browser, own_house, java_script_enabled=False) as visit:
        page = visit.go("/memory/{proposed}")
        page.get_by_role("button", name="Approve").click()
        expect(page.get_by_role("status")).to_contain_text("Approved as memory")
        page = visit.go("/memory/{approved}/edit")
        page.get_by_label("What to know").fill("Said in other words now")
        page.get_by_role("button", name="Show changes").click()
        page.get_by_role("button", name="Write it").click()
        expect(page.locator("h1")).to_contain_text("Said in other words now")
        page = visit.go("/handoffs/{draft}")
        page.get_by_role("link", name="Discard").click()
        expect(page.locator(".diff del").first).to_be_visible()
        page.get_by_role("button", name="Discard").click()
        expect(page.get_by_role("status")).to_contain_text("Discarded")
    assert "session-0001.draft.md" not in list_drafts(own_house)


def test_hostile_text_is_inert_before_and_after_a_decision(browser: Browser, house: House) -> None:
    busy_home.fill(house.home, time.time(), count=3, hostile=True)
    house.ok("config", "set", "apiPort", "0")
    with open_visit(browser, house, **LOOKS["narrow"]) as visit:
        page = visit.go("/handoffs/{draft}/amend")
        box = page.get_by_role("textbox")
        box.fill(box.input_value().replace("## Decisions", f"## {busy_home.HOSTILE}"))
        page.get_by_role("button", name="Show changes").click()
        for button in ("Write it", None):
            assert page.title() != "owned"
            assert page.locator("main script, main img").count() == 0
            assert not re.search("[\u202a-\u202e\u2066-\u2069\u200b\x1b]", page.locator("body").inner_text())
            assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
            if button:
                page.get_by_role("button", name=button).click()
                expect(page.get_by_role("status")).to_contain_text("still needs review")
