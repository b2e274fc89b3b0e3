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
from tests.stories.test_the_viewer import Browser, open_browser
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
class ViewerHome:
    """A repository, a home with a running viewer, and a browser that is signed in."""

    repository: Path
    house: House
    browser: Browser

    def read_files(self) -> dict[str, str]:
        """Return the files of the repository and the memories of the home, by path."""
        paths = [*self.repository.rglob("*"), *Path(self.house.home, "memory").rglob("*")]
        return {str(path): path.read_text() for path in paths if path.is_file() and ".git/" not in str(path)}

    def confirm(self, path: str, text: str | None = None) -> str:
        """Open the preview, check that it writes nothing, then confirm it; return the preview."""
        files_before = self.read_files()
        form_text = {} if text is None else {"text": text}
        shown_page = (
            self.browser.get(path)
            if text is None
            else self.browser.post(path, {**self.browser.secrets(path), **form_text})
        )
        assert (shown_page.status_code, self.read_files()) == (200, files_before)
        fields = dict(reversed(re.findall(r'type="hidden" name="(\w+)" value="([^"]*)"', shown_page.text)))
        answer = self.browser.post(path, {**fields, **form_text})
        assert answer.status_code == 303, answer.text[-2000:]
        return shown_page.text

    def propose_memory(self, memory_type: str, text: str) -> int:
        self.house.ok("memory", "add", memory_type, text, cwd=str(self.repository), env={"CLAUDECODE": "1"})
        return int(self.house.stored("memories")[-1]["id"])

    def print_brief(self) -> str:
        return self.house.ok("brief", cwd=str(self.repository)).out


@pytest.fixture
def viewer_home(house: House, tmp_path: Path) -> ViewerHome:
    repository = (tmp_path / "kite").resolve()
    subprocess.run(["git", "init", "-q", str(repository)], check=True)
    (repository / "docs" / "sessions").mkdir(parents=True)
    house.ok("config", "set", "apiPort", "0")
    return ViewerHome(repository, house, open_browser(house))


def store_draft(viewer_home: ViewerHome, text: str = DRAFT) -> int:
    path = viewer_home.repository / "docs" / "sessions" / "s1.draft.md"
    path.write_text(text)
    reflection = Reflection(
        0,
        clock.create_ulid(1.0),
        "claude-code",
        "s1",
        str(viewer_home.repository),
        time.time(),
        "plain",
        draft=str(path),
        topic="Fly higher",
        files=(WrittenFile(str(path)),),
    )
    connection = db.connect(viewer_home.house.home)
    number = reflections.insert(connection, reflection).id
    connection.close()
    return number


def find_added_lines(page: str) -> str:
    """Return the lines that a page shows as added."""
    return "\n".join(html.unescape(line) for line in re.findall(r"<ins>\+ (.*?)</ins>", page, re.S))


def test_many_memories_are_listed_in_pages(viewer_home: ViewerHome) -> None:
    with closing(db.connect(viewer_home.house.home)) as connection:
        for number in range(MAX_LISTED + 1):
            text = f"The kite of row {number} is red"
            insert_memory(
                connection, Memory(0, str(number), "user", text, "", "", "retired", "person", (), "", 1.0, 1.0)
            )
    first_page = viewer_home.browser.get("/memory?status=retired").text
    [link] = re.findall(r'href="([^"]+)">Further memories', first_page)
    assert ("row 1 is" in first_page, "row 0 is" in first_page) == (True, False)
    last_page = viewer_home.browser.get(html.unescape(link)).text
    assert "row 0 is" in last_page and "Further memories" not in last_page


def test_a_proposal_shows_the_file_that_approving_it_writes(viewer_home: ViewerHome) -> None:
    number = viewer_home.propose_memory("feedback", PNPM)
    files_before, page = viewer_home.read_files(), viewer_home.browser.get(f"/memory/{number}").text
    assert PNPM in viewer_home.browser.get("/memory?status=candidate").text and "in the name becomes" not in page
    assert (
        viewer_home.browser.post(
            f"/memory/{number}/approve", viewer_home.browser.secrets(f"/memory/{number}")
        ).status_code
        == 303
    )
    [(path, text)] = viewer_home.read_files().items() - files_before.items()
    assert re.fullmatch(r".*/\.claude/memory/feedback_always-use-pnpm-here-never-npm-\w+\.md", path)
    assert find_added_lines(page) == text.rstrip("\n")
    assert PNPM in viewer_home.print_brief()


def test_the_list_that_people_keep_beside_the_files_gets_its_line_as_it_was_shown(viewer_home: ViewerHome) -> None:
    folder = viewer_home.repository / ".claude" / "memory"
    folder.mkdir(parents=True)
    (folder / "MEMORY.md").write_text("# What to know\n\n- [own](project_own.md): my own\n")
    number = viewer_home.propose_memory("feedback", PNPM)
    page = viewer_home.browser.get(f"/memory/{number}").text
    assert "MEMORY.md" in page and f": {PNPM}" in find_added_lines(page)
    viewer_home.browser.post(f"/memory/{number}/approve", viewer_home.browser.secrets(f"/memory/{number}"))
    assert (folder / "MEMORY.md").read_text().count(PNPM) == 1


def test_other_words_for_what_counts_are_seen_before_they_are_written(viewer_home: ViewerHome) -> None:
    viewer_home.house.ok("memory", "add", "feedback", PNPM, cwd=str(viewer_home.repository))
    shown_page = viewer_home.confirm("/memory/1/edit", "Always use pnpm here\r\nyarn will do too")
    assert ("Always use pnpm here\nyarn will do too" in find_added_lines(shown_page), f"- {PNPM}" in shown_page) == (
        True,
        True,
    )
    [text] = viewer_home.read_files().values()
    assert text.endswith("\n\nAlways use pnpm here\nyarn will do too\n")
    assert "yarn will do too" in viewer_home.print_brief()


def test_a_proposal_is_reworded_rejected_and_skipped(viewer_home: ViewerHome) -> None:
    first, other = viewer_home.propose_memory("feedback", PNPM), viewer_home.propose_memory("project", GUSTS)
    browser = viewer_home.browser
    browser.post(f"/memory/{first}/edit", {**browser.secrets(f"/memory/{first}/edit"), "text": "Only pnpm"})
    assert "Only pnpm" in browser.get(f"/memory/{first}").text
    rejected = browser.post(f"/memory/{first}/reject", browser.secrets(f"/memory/{first}"))
    assert (rejected.headers["location"], viewer_home.read_files()) == (f"/memory/{other}", {})
    assert "Only pnpm" in browser.get("/memory?status=rejected").text
    empty = browser.post(f"/memory/{other}/edit", {**browser.secrets(f"/memory/{other}/edit"), "text": " "})
    assert (empty.status_code, "4 to 2,000" in empty.text) == (422, True)


def test_a_retired_memory_is_not_told_and_can_be_approved_again(viewer_home: ViewerHome) -> None:
    viewer_home.house.ok("memory", "add", "feedback", PNPM, cwd=str(viewer_home.repository))
    files_before = viewer_home.read_files()
    viewer_home.browser.post("/memory/1/retire", viewer_home.browser.secrets("/memory/1"))
    assert (PNPM in viewer_home.print_brief(), viewer_home.read_files()) == (False, files_before)
    viewer_home.browser.post("/memory/1/approve", viewer_home.browser.secrets("/memory/1"))
    assert (PNPM in viewer_home.print_brief(), viewer_home.read_files()) == (True, files_before)


def test_a_file_that_somebody_else_changed_is_told_once_its_difference_was_approved(viewer_home: ViewerHome) -> None:
    viewer_home.house.ok("memory", "add", "feedback", PNPM, cwd=str(viewer_home.repository))
    [path] = viewer_home.read_files()
    Path(path).write_text(Path(path).read_text().replace("never npm", "never yarn"))
    page = viewer_home.browser.get("/memory/1").text
    assert ("not used: edited since it was approved" in page, "never yarn" in find_added_lines(page)) == (True, True)
    assert "never yarn" not in viewer_home.print_brief()
    viewer_home.browser.post("/memory/1/approve", viewer_home.browser.secrets("/memory/1"))
    assert "never yarn" in viewer_home.print_brief()


def test_a_memory_that_changed_since_it_was_seen_is_not_approved(viewer_home: ViewerHome) -> None:
    number = viewer_home.propose_memory("feedback", PNPM)
    form_fields = viewer_home.browser.secrets(f"/memory/{number}")
    viewer_home.house.ok("memory", "edit", str(number), "Something else by now")
    assert (
        viewer_home.browser.post(f"/memory/{number}/approve", form_fields).status_code,
        viewer_home.read_files(),
    ) == (400, {})


def test_a_file_that_cannot_be_written_is_said_and_nothing_is_decided(viewer_home: ViewerHome) -> None:
    number = viewer_home.propose_memory("feedback", PNPM)
    (viewer_home.repository / ".claude").write_text("in the way")
    refused = viewer_home.browser.post(f"/memory/{number}/approve", viewer_home.browser.secrets(f"/memory/{number}"))
    assert (refused.status_code, str(viewer_home.repository / ".claude") in refused.text) == (400, True)
    assert viewer_home.house.stored("memories")[0]["status"] == "candidate"


def test_a_file_that_nobody_approved_here_is_told_once_a_person_did(viewer_home: ViewerHome) -> None:
    path = viewer_home.repository / ".claude" / "memory" / "project_spans.md"
    path.parent.mkdir(parents=True)
    path.write_text("Lengths are in spans")
    viewer_home.house.session_start("s1", cwd=str(viewer_home.repository))
    listed = viewer_home.browser.get("/memory?status=candidate").text
    link = re.search(r'href="(/memory/files/\d+/project_spans\.md)"', listed)
    assert link and "Lengths are in spans" not in viewer_home.print_brief()
    stale = viewer_home.browser.secrets(link[1])
    path.write_text("Lengths are in metres")
    assert viewer_home.browser.post(link[1], stale).status_code == 400
    assert viewer_home.browser.post(link[1], viewer_home.browser.secrets(link[1])).status_code == 303
    assert "Lengths are in metres" in viewer_home.print_brief()


def test_ratifying_writes_just_what_was_shown(viewer_home: ViewerHome) -> None:
    number = store_draft(viewer_home)
    shown_page = viewer_home.confirm(f"/handoffs/{number}/ratify")
    written_texts = {
        os.path.relpath(path, viewer_home.repository): text for path, text in viewer_home.read_files().items()
    }
    page = written_texts.pop("docs/sessions/s1.md")
    assert "status: ratified" in page and "Memories to approve" not in page
    assert [line for line in find_added_lines(shown_page).split("\n") if line.startswith(("status", "ratified"))] == [
        line for line in page.split("\n") if line.startswith(("status", "ratified"))
    ]
    assert sorted(text.strip().rpartition("\n\n")[2] for text in written_texts.values()) == [PNPM, "I fly kites"]
    assert all(text.rstrip("\n") in find_added_lines(shown_page) for text in written_texts.values())
    assert "mend `make check`" in viewer_home.print_brief() and PNPM in viewer_home.print_brief()
    assert viewer_home.browser.get(f"/handoffs/{number}").text.count("and in use") == 1


def test_a_memory_that_is_known_is_not_shown_as_one_that_ratifying_writes(viewer_home: ViewerHome) -> None:
    viewer_home.house.ok("memory", "add", "feedback", PNPM, cwd=str(viewer_home.repository))
    number, files_before = store_draft(viewer_home), viewer_home.read_files()
    shown_page = viewer_home.confirm(f"/handoffs/{number}/ratify")
    memory_paths = {path for path in viewer_home.read_files() if path not in files_before and "/memory/" in path}
    assert set(re.findall(r"[^\s<>]+/memory/[\w-]+\.md", shown_page)) == memory_paths
    assert f"Not approved: {PNPM} (this is known already" in html.unescape(shown_page)


def test_a_draft_that_changed_since_it_was_seen_is_not_ratified(viewer_home: ViewerHome) -> None:
    number = store_draft(viewer_home)
    fields = viewer_home.browser.secrets(f"/handoffs/{number}/ratify")
    path = viewer_home.repository / "docs" / "sessions" / "s1.draft.md"
    path.write_text(DRAFT.replace("fly higher", "fly lower"))
    files_before = viewer_home.read_files()
    answer = viewer_home.browser.post(f"/handoffs/{number}/ratify", fields)
    assert (answer.status_code, "changed since you opened" in answer.text, viewer_home.read_files()) == (
        409,
        True,
        files_before,
    )
    viewer_home.confirm(f"/handoffs/{number}/ratify")


def test_with_the_setting_ratifying_commits_just_its_files(viewer_home: ViewerHome) -> None:
    git = ["git", "-C", str(viewer_home.repository), "-c", "user.name=a", "-c", "user.email=a@example.test"]
    for words in (
        ["config", "user.name", "a"],
        ["config", "user.email", "a@example.test"],
        ["commit", "-q", "--allow-empty", "-m", "first"],
    ):
        subprocess.run([*git, *words], check=True)
    (viewer_home.repository / "own.txt").write_text("not committed")
    subprocess.run([*git, "add", "own.txt"], check=True)
    viewer_home.house.ok("config", "set", "handoffCommit", "true")
    number = store_draft(viewer_home, DRAFT.partition("## Memories")[0])
    assert "one git commit" in viewer_home.confirm(f"/handoffs/{number}/ratify")
    log = subprocess.run(
        [*git, "show", "--name-only", "--format=%s"], capture_output=True, text=True, check=True
    ).stdout
    assert log.split("\n") == ["Handoff: Fly higher", "", "docs/sessions/s1.md", ""]


def test_amending_keeps_what_was_not_touched_as_it_is(viewer_home: ViewerHome) -> None:
    odd = DRAFT.replace("- Asked to fly higher (L1)", "- Asked\tto \u202efly\u202c higher (L1)\n- Took an hour")
    number = store_draft(viewer_home, odd)
    box = re.search(
        r"<textarea[^>]*>\n(.*?)</textarea>", viewer_home.browser.get(f"/handoffs/{number}/amend").text, re.S
    )
    assert box
    typed = html.unescape(box[1])
    assert "\u202e" not in typed
    shown_page = viewer_home.confirm(
        f"/handoffs/{number}/amend", typed.replace("Took an hour", "Took two hours").replace("\n", "\r\n")
    )
    assert find_added_lines(shown_page) == "- Took two hours"
    draft = (viewer_home.repository / "docs" / "sessions" / "s1.draft.md").read_text()
    assert draft == odd.replace("Took an hour", "Took two hours")
    same = viewer_home.browser.post(
        f"/handoffs/{number}/amend", {**viewer_home.browser.secrets(f"/handoffs/{number}/amend"), "text": draft}
    )
    assert same.status_code == 303 and "Nothing was changed" in viewer_home.browser.get(f"/handoffs/{number}").text


def test_a_ratified_handoff_counts_as_it_is_amended_here_and_not_as_others_change_it(viewer_home: ViewerHome) -> None:
    number = store_draft(viewer_home, DRAFT.partition("## Memories")[0])
    viewer_home.confirm(f"/handoffs/{number}/ratify")
    path = viewer_home.repository / "docs" / "sessions" / "s1.md"
    viewer_home.confirm(f"/handoffs/{number}/amend", path.read_text().replace("First: mend", "First: look at"))
    assert "First: look at" in viewer_home.print_brief()
    path.write_text(path.read_text().replace("First: look at", "First: delete"))
    assert "First: delete" not in viewer_home.print_brief()
    assert "edited since it was ratified, not used" in viewer_home.browser.get(f"/handoffs/{number}").text
    viewer_home.confirm(f"/handoffs/{number}/ratify")
    assert "First: delete" in viewer_home.print_brief()


def test_a_ratified_handoff_that_is_amended_back_to_what_was_ratified_is_told_again(viewer_home: ViewerHome) -> None:
    number = store_draft(viewer_home, DRAFT.partition("## Memories")[0])
    viewer_home.confirm(f"/handoffs/{number}/ratify")
    path = viewer_home.repository / "docs" / "sessions" / "s1.md"
    ratified = path.read_text()
    path.write_text(ratified.replace("First: mend", "First: delete"))
    viewer_home.confirm(f"/handoffs/{number}/amend", ratified)
    assert path.read_text() == ratified and "First: mend" in viewer_home.print_brief()


def test_a_discarded_draft_is_shown_before_it_goes(viewer_home: ViewerHome) -> None:
    number = store_draft(viewer_home)
    shown_page = viewer_home.confirm(f"/handoffs/{number}/discard")
    assert ("<del>- topic: " in shown_page, viewer_home.read_files()) == (True, {})
    assert "Fly higher" in viewer_home.browser.get("/handoffs?status=discarded").text
    assert viewer_home.browser.get(f"/handoffs/{number}/ratify").status_code == 404


def test_a_draft_is_shown_with_its_findings_and_what_shows_them(house: House) -> None:
    busy_home.fill(house.home, time.time(), count=2)
    house.ok("config", "set", "apiPort", "0")
    browser, ids = open_browser(house), busy_home.find_first_ids(house.home)
    page = browser.get(f"/handoffs/{ids['draft']}").text
    assert "<code>npm test</code> fails" in page and "<strong>failed experiments</strong>" in page
    assert "<blockquote>Use spans, not metres.</blockquote>" in page and "1.jsonl:8" in page
    answers = browser.get(f"/found/M:{ids['approved']}"), browser.get(f"/found/H:{ids['ratified']}")
    assert [answer.headers["location"] for answer in answers] == [
        f"/memory/{ids['approved']}",
        f"/handoffs/{ids['ratified']}",
    ]


@pytest.mark.parametrize("path", [path for path, _ in FORM_ACTIONS])
def test_a_form_of_another_origin_or_session_is_refused(shared_house: House, path: str) -> None:
    shared_house.ok("config", "set", "apiPort", "0")
    browser = open_browser(shared_house)
    path_of_record = re.sub(r"\{\w+\}", "1", path)
    secret = {"form": browser.secrets("/")["form"]}
    assert browser.post(path_of_record, {}).status_code == 403
    assert browser.post(path_of_record, secret, origin="http://evil.example").status_code == 403
    assert browser.post(path_of_record, secret, **{"sec-fetch-site": "cross-site"}).status_code == 403
    del browser.client.headers["cookie"]
    assert browser.post(path_of_record, secret).status_code == 401


def test_a_very_long_difference_is_shown_in_part_and_soon(viewer_home: ViewerHome) -> None:
    number = store_draft(viewer_home, DRAFT + "\n".join(f"line {n % 7}" for n in range(20_000)))
    page = viewer_home.browser.get(f"/handoffs/{number}/discard")
    assert (page.status_code, len(page.text) < 700_000, "more lines" in page.text) == (200, True, True)
