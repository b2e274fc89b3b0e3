"""The real agent of VS Code: held, told and recorded, and it goes on without hardwon."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing

import pytest

from . import agents, vscode
from .house import House
from .model_server import Reply
from .other_agents import run_shell
from .vscode_agent import VSCODE

pytestmark = pytest.mark.real

ADVICE = "ADVICE-7: use git stash --include-untracked, or commit to a branch"
DONE = Reply("done")


@pytest.fixture
def house(own_network: bool, tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    program = agents.find_program(agents.VSCODE)
    built = House(tmp_path_factory.mktemp("h"), program, own_network=own_network, agent_setup=VSCODE)
    built.hardwon("install", "copilot", "--yes")
    yield built
    built.hardwon("stop")
    built.wait_for_background()
    assert built.list_processes() == []


def list_events(house: House) -> list[tuple[str, str, str]]:
    with closing(sqlite3.connect(house.root / "hardwon" / "hardwon.db")) as connection:
        return connection.execute("select kind, tool, outcome from events order by id").fetchall()


def test_the_vscode_agent_is_held_once_and_the_repeat_runs(house: House) -> None:
    house.add("hold", ADVICE, r"\bgit stash\b")
    session = house.session([run_shell("git stash"), run_shell("git stash", delay=0.5), DONE], "stash it")
    assert [result.refused for result in session.results] == [True, False]
    assert ADVICE in session.results[0].text and house.stashes == 1
    agents.keep_test_result(agents.VSCODE)


def test_the_vscode_agent_is_told_a_note_and_recorded_with_a_failed_command(house: House) -> None:
    house.add("note", ADVICE, r"\btouch\b")
    script = [run_shell("touch made"), run_shell("ls /nonexistent-dir; exit 3"), DONE]
    session = house.session(script, "touch and list")
    assert ADVICE in session.turns[-1] and (house.project / "made").exists()
    vscode.wait_for("the turn is recorded", lambda: "Stop" in [kind for kind, _, _ in list_events(house)])
    events = list_events(house)
    assert [outcome for kind, tool, outcome in events if kind == "tool" and tool == "Bash"] == ["fine", "failed"]
    assert "SessionStart" in [kind for kind, _, _ in events]
    with closing(sqlite3.connect(house.root / "hardwon" / "hardwon.db")) as connection:
        assert connection.execute("select prompt from prompts").fetchall() == [("touch and list",)]
        # VS Code reports no end of a session: the end of its turn is the last that is heard of it.
        sessions = connection.execute("select host, status from sessions").fetchall()
    assert sessions == [("copilot", "active")]


def test_the_vscode_agent_runs_every_call_when_hardwon_is_gone(house: House) -> None:
    hooks = house.settings.read_text()
    house.settings.write_text(hooks.replace("/hardwon/hook.py", "/gone/hardwon/hook.py"))
    session = house.session([run_shell("touch made"), DONE], "touch it")
    house.settings.write_text(hooks)
    assert [result.refused for result in session.results] == [False] and (house.project / "made").exists()
