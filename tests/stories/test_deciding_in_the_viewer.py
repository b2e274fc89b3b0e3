"""Memories and handoffs in the viewer: what a decision would write is seen first, and is what is written then."""

from __future__ import annotations

import html
import os
import re
import subprocess
import time
from contextlib import closing
from pathlib import Path

import pytest

from hardwon import clock
from hardwon.store import db, reflections
from hardwon.store.memories import insert_memory
from hardwon.store.reflections import Reflection, WrittenFile
from hardwon.types import Memory, frozen
from hardwon.web.app import FORM_ACTIONS
from hardwon.web.memory import MAX_LISTED
from tests.stories.test_the_viewer import Browser, opened
from tests.support import busy_home
from tests.support.house import House

PNPM = "Always use pnpm here, never npm"
GUSTS = "Run the gust tests before every commit"
DRAFT = f"""---
topic: "Fly higher"
status: "draft"
---

## Summary

- Asked to fly higher (L1)

## Resume Prompt

> First: mend `make check` (L14)

## Memories to approve

- feedback: {PNPM} (L5)
- user: I fly kites (L6)
"""


@frozen
class Place:
    """A repository, a home that knows it, and a browser that was let in."""

    repository: Path
    house: House
    browser: Browser

    def files(self) -> dict[str, str]:
        """All that lies in the repository, and the memories of the home, by their paths."""
        found = [*self.repository.rglob("*"), *Path(self.house.home, "memory").rglob("*")]
        return {str(one): one.read_text() for one in found if one.is_file() and ".git/" not in str(one)}

    def agree(self, path: str, text: str | None = None) -> str:
        """Look at what would be written, then agree to it; gives what was shown."""
        before = self.files()
        given = {} if text is None else {"text": text}
        seen = (
            self.browser.get(path) if text is None else self.browser.post(path, {**self.browser.secrets(path), **given})
        )
        assert (seen.status_code, self.files()) == (200, before)
        fields = dict(reversed(re.findall(r'type="hidden" name="(\w+)" value="([^"]*)"', seen.text)))
        done = self.browser.post(path, {**fields, **given})
        assert done.status_code == 303, done.text[-2000:]
        return seen.text

    def propose(self, type: str, text: str) -> int:
        self.house.ok("memory", "add", type, text, cwd=str(self.repository), env={"CLAUDECODE": "1"})
        return int(self.house.stored("memories")[-1]["id"])

    def brief(self) -> str:
        return self.house.ok("brief", cwd=str(self.repository)).out


@pytest.fixture
def place(house: House, tmp_path: Path) -> Place:
    repository = (tmp_path / "kite").resolve()
    subprocess.run(["git", "init", "-q", str(repository)], check=True)
    (repository / "docs" / "sessions").mkdir(parents=True)
    house.ok("config", "set", "apiPort", "0")
    return Place(repository, house, opened(house))


def drafted(place: Place, text: str = DRAFT) -> int:
    path = place.repository / "docs" / "sessions" / "s1.draft.md"
    path.write_text(text)
    known = Reflection(
        0,
        clock.create_ulid(1.0),
        "claude-code",
        "s1",
        str(place.repository),
        time.time(),
        "plain",
        draft=str(path),
        topic="Fly higher",
        files=(WrittenFile(str(path)),),
    )
    connection = db.connect(place.house.home)
    number = reflections.insert(connection, known).id
    connection.close()
    return number


def added(page: str) -> str:
    """The lines that a page says are added."""
    return "\n".join(html.unescape(line) for line in re.findall(r"<ins>\+ (.*?)</ins>", page, re.S))


def test_many_memories_are_listed_in_pages(place: Place) -> None:
    with closing(db.connect(place.house.home)) as connection:
        for number in range(MAX_LISTED + 1):
            text = f"The kite of row {number} is red"
            insert_memory(
                connection, Memory(0, str(number), "user", text, "", "", "retired", "person", (), "", 1.0, 1.0)
            )
    first_page = place.browser.get("/memory?status=retired").text
    [link] = re.findall(r'href="([^"]+)">Further memories', first_page)
    assert ("row 1 is" in first_page, "row 0 is" in first_page) == (True, False)
    last_page = place.browser.get(html.unescape(link)).text
    assert "row 0 is" in last_page and "Further memories" not in last_page


def test_a_proposal_shows_the_file_that_approving_it_writes(place: Place) -> None:
    number = place.propose("feedback", PNPM)
    before, page = place.files(), place.browser.get(f"/memory/{number}").text
    assert PNPM in place.browser.get("/memory?status=candidate").text and "in the name becomes" not in page
    assert (
        place.browser.post(f"/memory/{number}/approve", place.browser.secrets(f"/memory/{number}")).status_code == 303
    )
    [(path, text)] = place.files().items() - before.items()
    assert re.fullmatch(r".*/\.claude/memory/feedback_always-use-pnpm-here-never-npm-\w+\.md", path)
    assert added(page) == text.rstrip("\n")
    assert PNPM in place.brief()


def test_the_list_that_people_keep_beside_the_files_gets_its_line_as_it_was_shown(place: Place) -> None:
    folder = place.repository / ".claude" / "memory"
    folder.mkdir(parents=True)
    (folder / "MEMORY.md").write_text("# What to know\n\n- [own](project_own.md): my own\n")
    number = place.propose("feedback", PNPM)
    page = place.browser.get(f"/memory/{number}").text
    assert "MEMORY.md" in page and f": {PNPM}" in added(page)
    place.browser.post(f"/memory/{number}/approve", place.browser.secrets(f"/memory/{number}"))
    assert (folder / "MEMORY.md").read_text().count(PNPM) == 1


def test_other_words_for_what_counts_are_seen_before_they_are_written(place: Place) -> None:
    place.house.ok("memory", "add", "feedback", PNPM, cwd=str(place.repository))
    shown = place.agree("/memory/1/edit", "Always use pnpm here\r\nyarn will do too")
    assert ("Always use pnpm here\nyarn will do too" in added(shown), f"- {PNPM}" in shown) == (True, True)
    [text] = place.files().values()
    assert text.endswith("\n\nAlways use pnpm here\nyarn will do too\n")
    assert "yarn will do too" in place.brief()


def test_a_proposal_is_reworded_rejected_and_skipped(place: Place) -> None:
    one, other = place.propose("feedback", PNPM), place.propose("project", GUSTS)
    browser = place.browser
    browser.post(f"/memory/{one}/edit", {**browser.secrets(f"/memory/{one}/edit"), "text": "Only pnpm"})
    assert "Only pnpm" in browser.get(f"/memory/{one}").text
    gone = browser.post(f"/memory/{one}/reject", browser.secrets(f"/memory/{one}"))
    assert (gone.headers["location"], place.files()) == (f"/memory/{other}", {})
    assert "Only pnpm" in browser.get("/memory?status=rejected").text
    empty = browser.post(f"/memory/{other}/edit", {**browser.secrets(f"/memory/{other}/edit"), "text": " "})
    assert (empty.status_code, "4 to 2,000" in empty.text) == (422, True)


def test_a_retired_memory_is_not_told_and_can_be_approved_again(place: Place) -> None:
    place.house.ok("memory", "add", "feedback", PNPM, cwd=str(place.repository))
    before = place.files()
    place.browser.post("/memory/1/retire", place.browser.secrets("/memory/1"))
    assert (PNPM in place.brief(), place.files()) == (False, before)
    place.browser.post("/memory/1/approve", place.browser.secrets("/memory/1"))
    assert (PNPM in place.brief(), place.files()) == (True, before)


def test_a_file_that_somebody_else_changed_is_told_once_its_difference_was_approved(place: Place) -> None:
    place.house.ok("memory", "add", "feedback", PNPM, cwd=str(place.repository))
    [path] = place.files()
    Path(path).write_text(Path(path).read_text().replace("never npm", "never yarn"))
    page = place.browser.get("/memory/1").text
    assert ("not used: edited since it was approved" in page, "never yarn" in added(page)) == (True, True)
    assert "never yarn" not in place.brief()
    place.browser.post("/memory/1/approve", place.browser.secrets("/memory/1"))
    assert "never yarn" in place.brief()


def test_a_memory_that_changed_since_it_was_seen_is_not_approved(place: Place) -> None:
    number = place.propose("feedback", PNPM)
    seen = place.browser.secrets(f"/memory/{number}")
    place.house.ok("memory", "edit", str(number), "Something else by now")
    assert (place.browser.post(f"/memory/{number}/approve", seen).status_code, place.files()) == (400, {})


def test_a_file_that_cannot_be_written_is_said_and_nothing_is_decided(place: Place) -> None:
    number = place.propose("feedback", PNPM)
    (place.repository / ".claude").write_text("in the way")
    refused = place.browser.post(f"/memory/{number}/approve", place.browser.secrets(f"/memory/{number}"))
    assert (refused.status_code, str(place.repository / ".claude") in refused.text) == (400, True)
    assert place.house.stored("memories")[0]["status"] == "candidate"


def test_a_file_that_nobody_approved_here_is_told_once_a_person_did(place: Place) -> None:
    path = place.repository / ".claude" / "memory" / "project_spans.md"
    path.parent.mkdir(parents=True)
    path.write_text("Lengths are in spans")
    place.house.session_start("s1", cwd=str(place.repository))
    listed = place.browser.get("/memory?status=candidate").text
    link = re.search(r'href="(/memory/files/\d+/project_spans\.md)"', listed)
    assert link and "Lengths are in spans" not in place.brief()
    stale = place.browser.secrets(link[1])
    path.write_text("Lengths are in metres")
    assert place.browser.post(link[1], stale).status_code == 400
    assert place.browser.post(link[1], place.browser.secrets(link[1])).status_code == 303
    assert "Lengths are in metres" in place.brief()


def test_ratifying_writes_just_what_was_shown(place: Place) -> None:
    number = drafted(place)
    shown = place.agree(f"/handoffs/{number}/ratify")
    after = {os.path.relpath(path, place.repository): text for path, text in place.files().items()}
    page = after.pop("docs/sessions/s1.md")
    assert "status: ratified" in page and "Memories to approve" not in page
    assert [line for line in added(shown).split("\n") if line.startswith(("status", "ratified"))] == [
        line for line in page.split("\n") if line.startswith(("status", "ratified"))
    ]
    assert sorted(text.strip().rpartition("\n\n")[2] for text in after.values()) == [PNPM, "I fly kites"]
    assert all(text.rstrip("\n") in added(shown) for text in after.values())
    assert "mend `make check`" in place.brief() and PNPM in place.brief()
    assert place.browser.get(f"/handoffs/{number}").text.count("and in use") == 1


def test_a_memory_that_is_known_is_not_shown_as_one_that_ratifying_writes(place: Place) -> None:
    place.house.ok("memory", "add", "feedback", PNPM, cwd=str(place.repository))
    number, before = drafted(place), place.files()
    shown = place.agree(f"/handoffs/{number}/ratify")
    made = {path for path in place.files() if path not in before and "/memory/" in path}
    assert set(re.findall(r"[^\s<>]+/memory/[\w-]+\.md", shown)) == made
    assert f"Not approved: {PNPM} (this is known already" in html.unescape(shown)


def test_a_draft_that_changed_since_it_was_seen_is_not_ratified(place: Place) -> None:
    number = drafted(place)
    fields = place.browser.secrets(f"/handoffs/{number}/ratify")
    path = place.repository / "docs" / "sessions" / "s1.draft.md"
    path.write_text(DRAFT.replace("fly higher", "fly lower"))
    before = place.files()
    again = place.browser.post(f"/handoffs/{number}/ratify", fields)
    assert (again.status_code, "changed since you opened" in again.text, place.files()) == (409, True, before)
    place.agree(f"/handoffs/{number}/ratify")


def test_with_the_setting_ratifying_commits_just_its_files(place: Place) -> None:
    git = ["git", "-C", str(place.repository), "-c", "user.name=a", "-c", "user.email=a@example.test"]
    for words in (
        ["config", "user.name", "a"],
        ["config", "user.email", "a@example.test"],
        ["commit", "-q", "--allow-empty", "-m", "first"],
    ):
        subprocess.run([*git, *words], check=True)
    (place.repository / "own.txt").write_text("not committed")
    subprocess.run([*git, "add", "own.txt"], check=True)
    place.house.ok("config", "set", "handoffCommit", "true")
    number = drafted(place, DRAFT.partition("## Memories")[0])
    assert "one git commit" in place.agree(f"/handoffs/{number}/ratify")
    said = subprocess.run(
        [*git, "show", "--name-only", "--format=%s"], capture_output=True, text=True, check=True
    ).stdout
    assert said.split("\n") == ["Handoff: Fly higher", "", "docs/sessions/s1.md", ""]


def test_amending_keeps_what_was_not_touched_as_it_is(place: Place) -> None:
    odd = DRAFT.replace("- Asked to fly higher (L1)", "- Asked\tto \u202efly\u202c higher (L1)\n- Took an hour")
    number = drafted(place, odd)
    box = re.search(r"<textarea[^>]*>\n(.*?)</textarea>", place.browser.get(f"/handoffs/{number}/amend").text, re.S)
    assert box
    typed = html.unescape(box[1])
    assert "\u202e" not in typed
    shown = place.agree(
        f"/handoffs/{number}/amend", typed.replace("Took an hour", "Took two hours").replace("\n", "\r\n")
    )
    assert added(shown) == "- Took two hours"
    draft = (place.repository / "docs" / "sessions" / "s1.draft.md").read_text()
    assert draft == odd.replace("Took an hour", "Took two hours")
    same = place.browser.post(
        f"/handoffs/{number}/amend", {**place.browser.secrets(f"/handoffs/{number}/amend"), "text": draft}
    )
    assert same.status_code == 303 and "Nothing was changed" in place.browser.get(f"/handoffs/{number}").text


def test_a_ratified_handoff_counts_as_it_is_amended_here_and_not_as_others_change_it(place: Place) -> None:
    number = drafted(place, DRAFT.partition("## Memories")[0])
    place.agree(f"/handoffs/{number}/ratify")
    path = place.repository / "docs" / "sessions" / "s1.md"
    place.agree(f"/handoffs/{number}/amend", path.read_text().replace("First: mend", "First: look at"))
    assert "First: look at" in place.brief()
    path.write_text(path.read_text().replace("First: look at", "First: delete"))
    assert "First: delete" not in place.brief()
    assert "edited since it was ratified, not used" in place.browser.get(f"/handoffs/{number}").text
    place.agree(f"/handoffs/{number}/ratify")
    assert "First: delete" in place.brief()


def test_a_ratified_handoff_that_is_amended_back_to_what_was_ratified_is_told_again(place: Place) -> None:
    number = drafted(place, DRAFT.partition("## Memories")[0])
    place.agree(f"/handoffs/{number}/ratify")
    path = place.repository / "docs" / "sessions" / "s1.md"
    ratified = path.read_text()
    path.write_text(ratified.replace("First: mend", "First: delete"))
    place.agree(f"/handoffs/{number}/amend", ratified)
    assert path.read_text() == ratified and "First: mend" in place.brief()


def test_a_discarded_draft_is_shown_before_it_goes(place: Place) -> None:
    number = drafted(place)
    shown = place.agree(f"/handoffs/{number}/discard")
    assert ("<del>- topic: " in shown, place.files()) == (True, {})
    assert "Fly higher" in place.browser.get("/handoffs?status=discarded").text
    assert place.browser.get(f"/handoffs/{number}/ratify").status_code == 404


def test_a_draft_is_shown_with_its_findings_and_what_shows_them(house: House) -> None:
    busy_home.fill(house.home, time.time(), count=2)
    house.ok("config", "set", "apiPort", "0")
    browser, known = opened(house), busy_home.find_first_ids(house.home)
    page = browser.get(f"/handoffs/{known['draft']}").text
    assert "<code>npm test</code> fails" in page and "<strong>failed experiments</strong>" in page
    assert "<blockquote>Use spans, not metres.</blockquote>" in page and "1.jsonl:8" in page
    found = browser.get(f"/found/M:{known['approved']}"), browser.get(f"/found/H:{known['ratified']}")
    assert [one.headers["location"] for one in found] == [
        f"/memory/{known['approved']}",
        f"/handoffs/{known['ratified']}",
    ]


@pytest.mark.parametrize("path", [path for path, _ in FORM_ACTIONS])
def test_no_deed_is_done_for_a_form_that_is_not_ours(shared_house: House, path: str) -> None:
    shared_house.ok("config", "set", "apiPort", "0")
    browser = opened(shared_house)
    where = re.sub(r"\{\w+\}", "1", path)
    secret = {"form": browser.secrets("/")["form"]}
    assert browser.post(where, {}).status_code == 403
    assert browser.post(where, secret, origin="http://evil.example").status_code == 403
    assert browser.post(where, secret, **{"sec-fetch-site": "cross-site"}).status_code == 403
    del browser.client.headers["cookie"]
    assert browser.post(where, secret).status_code == 401


def test_a_very_long_difference_is_shown_in_part_and_soon(place: Place) -> None:
    number = drafted(place, DRAFT + "\n".join(f"line {n % 7}" for n in range(20_000)))
    page = place.browser.get(f"/handoffs/{number}/discard")
    assert (page.status_code, len(page.text) < 700_000, "more lines" in page.text) == (200, True, True)
