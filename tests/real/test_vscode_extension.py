"""Our extension in the real VS Code: a session from activation to its end, a lesson told for the open file, no worker."""

from __future__ import annotations

import json
import re
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any, Literal

import pytest
from playwright.sync_api import Locator, Page, TimeoutError

from . import vscode
from .conversation import AgentSetup
from .house import CHECKOUT, House

pytestmark = pytest.mark.real

SUMMARY = "file.txt is generated: change make_file.py"
SOLUTION = "Edit make_file.py and run make; the next build overwrites file.txt."
NO_AGENT = AgentSetup("none", "none", lambda root: None, lambda root: {}, lambda program, conversation: pytest.fail())
ANYONE_MAY_READ = 0o644


class EditorHouse(House):
    """A person's machine with VS Code and our extension."""

    def __init__(self, root: Path) -> None:
        super().__init__(root, Path(), own_network=False, agent_setup=NO_AGENT)
        self.home = root / "hardwon"
        self.queue = root / "home" / vscode.USER_FOLDER / "globalStorage" / "hardwon.hardwon" / "queue"
        self.hardwon("config", "set", "apiPort", "0")  # other tests have workers, too
        triggers = ("--tool", "Edit", "--path", "file.txt")
        words = ("--summary", SUMMARY, "--problem", "what is changed in file.txt is lost", "--solution", SOLUTION)
        self.hardwon("lessons", "add", "--delivery", "note", *words, *triggers)

    def set_up_editor(self, **settings: Any) -> None:
        source = CHECKOUT / "plugins" / "vscode"
        extension = vscode.pack_extension(self.root / "hardwon.vsix", source)
        vscode.set_up_editor(self.root, self.editor_env, [extension], settings)

    @property
    def editor_env(self) -> dict[str, str]:
        return {**self.env, "HARDWON_HOME": str(self.home)}

    def list_events(self) -> list[tuple[str, str]]:
        """Return the kind and the tool of every recorded event."""
        return [(row["kind"], row["tool"]) for row in self.read_rows("events")]

    def read_rows(self, table: str) -> list[dict[str, Any]]:
        with closing(sqlite3.connect(self.home / "hardwon.db")) as connection:
            connection.row_factory = sqlite3.Row
            return [dict(row) for row in connection.execute(f"select * from {table} order by id")]

    def list_waiting(self) -> list[str]:
        """Return which calls of the API wait on disk."""
        bodies = [json.loads(file.read_text()) for file in sorted(self.queue.glob("*.json"))]
        return [body["route"].rpartition("/")[2] for body in bodies]


@pytest.fixture
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EditorHouse]:
    built = EditorHouse(tmp_path_factory.mktemp("h"))
    yield built
    built.hardwon("stop")
    built.wait_for_background()
    assert built.list_processes() == []


def find_status(page: Page, text: str) -> Any:
    return page.locator(".statusbar-item", has_text=text).first


def act_until(act: Callable[[], None], locator: Locator, state: Literal["visible", "hidden"] = "visible") -> None:
    """Repeat what a person does until it shows: a key that is pressed while the editor is busy may be lost."""

    def is_done() -> bool:
        act()
        with suppress(TimeoutError):
            locator.wait_for(state=state, timeout=2_000)
        return locator.is_visible() == (state == "visible")

    vscode.wait_for(f"{locator} is {state}", is_done)


def pick_entry(page: Page, key: str, query: str, title: str) -> None:
    """Open the editor's list of files or commands, and choose from it."""
    field = page.locator(".quick-input-widget input").first
    act_until(lambda: page.keyboard.press(key), field)
    field.fill(query)
    page.locator(".quick-input-list .monaco-list-row", has_text=title).first.click()


def open_file(page: Page, name: str) -> None:
    pick_entry(page, "Control+P", name, name)
    page.locator(".tab.active", has_text=name).wait_for()


def run_command(page: Page, title: str) -> None:
    pick_entry(page, "F1", f">{title}", title)


def save_change(page: Page, text: str) -> None:
    def type_text() -> None:
        page.locator(".monaco-editor .view-lines").first.click()
        page.keyboard.type(text)

    unsaved = page.locator(".tab.active.dirty")
    act_until(type_text, unsaved)
    act_until(lambda: page.keyboard.press("Control+S"), unsaved, "hidden")


def describe_status(page: Page, text: str) -> str:
    """Return what the status bar's item tells on top of its text."""
    item = page.locator(".statusbar-item", has_text=text).locator("a[aria-label]").first
    return item.get_attribute("aria-label") or ""


def test_a_vscode_session_is_recorded_and_told_the_lesson_about_the_open_file(
    house: EditorHouse, tmp_path: Path
) -> None:
    house.set_up_editor()
    with vscode.run_editor(house.root, house.project, house.editor_env) as url:
        with vscode.open_workbench(url) as page:
            responses: list[str] = []
            page.on("response", lambda response: responses.append(response.url))
            find_status(page, "hardwon").wait_for()
            open_file(page, "file.txt")
            find_status(page, SUMMARY).wait_for()
            assert SOLUTION in describe_status(page, SUMMARY)
            page.screenshot(path=str(tmp_path / "lesson.png"))
            save_change(page, "changed in VS Code ")
            vscode.wait_for("the save is recorded", lambda: ("tool", "FileSave") in house.list_events())
            run_command(page, "hardwon: Show the Brief of This Project")
            page.locator(".tab.active", has_text="brief.md").wait_for()
            brief = page.locator(".editor-group-container.active .view-lines")
            vscode.wait_for("the brief is shown", lambda: brief.inner_text().strip())
            page.screenshot(path=str(tmp_path / "brief.png"))
            token = (house.home / "token").read_text().strip()
            assert token not in page.content() and not any(token in url for url in responses)
        vscode.wait_for("the session ends", lambda: house.list_events()[-1][0] == "SessionEnd")
    assert house.list_events() == [("SessionStart", ""), ("tool", "FileOpen"), ("tool", "FileSave"), ("SessionEnd", "")]
    (session,) = house.read_rows("sessions")
    assert (session["host"], session["status"], session["cwd"]) == ("vscode", "completed", str(house.project))
    assert house.list_waiting() == []
    files = [file for file in (house.root / "home").rglob("*") if file.is_file()] + [house.root / "code-server.log"]
    assert [file for file in files if token.encode() in file.read_bytes()] == []


def test_a_vscode_session_without_a_worker_is_kept_and_caught_up_with(house: EditorHouse) -> None:
    house.set_up_editor(**{"hardwon.idleMinutes": 0.05})
    program = house.root / "bin" / "hardwon"
    program.unlink()  # so the extension cannot start the worker itself
    with vscode.run_editor(house.root, house.project, house.editor_env) as url, vscode.open_workbench(url) as page:
        find_status(page, "hardwon").wait_for()
        open_file(page, "file.txt")
        save_change(page, "changed without a worker ")
        # On a slow machine there may be a pause before the save, too.
        vscode.wait_for("opening and saving wait on disk", lambda: house.list_waiting().count("observations") == 2)
        vscode.wait_for("a pause waits as well", lambda: house.list_waiting()[-1] == "summarize")
        count = len(house.list_waiting())
        vscode.wait_for("it is said", lambda: f"{count} events wait" in describe_status(page, "hardwon"))
        assert "the worker is not running" in describe_status(page, "hardwon")
        house.hardwon("start")
        vscode.wait_for("the events are sent", lambda: house.list_waiting() == [])
        find_status(page, SUMMARY).wait_for()
        events = house.list_events()
        assert [tool for _, tool in events if tool] == ["FileOpen", "FileSave"] and len(events) == count
        assert (events[0][0], events[-1][0]) == ("SessionStart", "Stop")
        # Each has the time at which it happened, so the pause counts from the save, not from the catching up.
        times = [row["at"] for row in house.read_rows("events")]
        assert times == sorted(times) and times[-1] - times[0] >= 3
        (house.home / "token").chmod(ANYONE_MAY_READ)
        save_change(page, "and with a token that others can read ")
        vscode.wait_for("the home is not trusted", lambda: "chmod 600" in describe_status(page, "hardwon"))
        vscode.wait_for("the event waits", lambda: "observations" in house.list_waiting())
        (house.home / "token").chmod(0o600)
        vscode.wait_for("the event is sent", lambda: house.list_waiting() == [])
    assert [tool for _, tool in house.list_events() if tool] == ["FileOpen", "FileSave", "FileSave"]


def test_the_vscode_extension_shows_no_page_of_its_own_and_calls_this_machine_alone() -> None:
    """Without web views there is no page that could leak the token, and no content policy to get wrong."""
    sources = {file.name: file.read_text() for file in (CHECKOUT / "plugins" / "vscode").glob("*.js")}
    forbidden = re.compile(r"[Ww]ebview|\beval\(|new Function|innerHTML|isTrusted|https?://(?!127\.0\.0\.1)")
    assert [(name, forbidden.findall(source)) for name, source in sources.items() if forbidden.search(source)] == []
    assert [name for name, source in sources.items() if "authorization" in source] == ["worker.js"]
