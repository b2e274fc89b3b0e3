"""Real agents of the table in `completion_agents`: each is held, told and recorded, and goes on without hardwon."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from time import monotonic, sleep

import pytest

from . import agents
from .completion_agents import COMPLETION_AGENTS, GROK, CompletionAgent
from .house import WAIT_SECONDS, House
from .model_server import Reply
from .other_agents import run_shell

pytestmark = pytest.mark.real

ADVICE = "ADVICE-7: use git stash --include-untracked, or commit to a branch"
DONE = Reply("done")


@pytest.fixture(params=COMPLETION_AGENTS, ids=lambda row: str(row.agent))
def house(
    request: pytest.FixtureRequest, own_network: bool, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[House]:
    row: CompletionAgent = request.param
    program = agents.find_program(row.agent)
    built = House(tmp_path_factory.mktemp("h"), program, own_network=own_network, agent_setup=row.build_setup())
    built.hardwon("install", row.agent.name, "--yes")
    yield built
    built.hardwon("stop")
    built.wait_for_background()
    assert built.list_processes() == []


def wait_for_rows(house: House, query: str) -> list[tuple[str, ...]]:
    """Return what the database has, once it has anything: some events come from a transcript."""
    deadline = monotonic() + WAIT_SECONDS
    while True:
        house.wait_for_background()
        with closing(sqlite3.connect(house.root / "hardwon" / "hardwon.db")) as connection:
            rows = connection.execute(query).fetchall()
        if rows or monotonic() > deadline:
            return rows
        sleep(0.1)


def wait_for_calls(house: House) -> list[tuple[str, ...]]:
    """Return the tool and the outcome of every recorded call."""
    return wait_for_rows(house, "select tool, outcome from events where kind = 'tool' order by id")


def test_a_call_is_held_once_and_the_repeat_runs(house: House) -> None:
    house.add("hold", ADVICE, r"\bgit stash\b")
    session = house.session([run_shell("git stash"), run_shell("git stash", delay=0.5), DONE])
    assert [result.refused for result in session.results] == [True, False]
    assert ADVICE in session.results[0].text and house.stashes == 1


def test_a_note_is_told_once_and_the_calls_run(house: House) -> None:
    house.add("note", ADVICE, r"\btouch\b")
    session = house.session([run_shell("touch made"), run_shell("touch again"), DONE])
    told_texts = [text for text in session.turns[-1].texts if ADVICE in text]
    assert len(told_texts) == 1 and told_texts[0].count(ADVICE) == 1
    assert (house.project / "made").exists() and (house.project / "again").exists()


def test_every_call_runs_when_hardwon_is_gone(house: House) -> None:
    hooks = house.settings.read_text()
    house.settings.write_text(hooks.replace("/hardwon/hook.py", "/gone/hardwon/hook.py"))
    session = house.session([run_shell("touch made"), DONE])
    house.settings.write_text(hooks)
    assert [result.refused for result in session.results] == [False] and (house.project / "made").exists()


def test_a_failing_command_is_recorded_once(house: House) -> None:
    house.session([run_shell("ls /nonexistent-dir; exit 3"), DONE])
    assert wait_for_calls(house) == [("Bash", "failed")]


def test_a_prompt_is_recorded_by_a_hook_or_from_the_transcript(house: House) -> None:
    house.session([run_shell("true"), DONE], "tidy the notes, please")
    sessions = wait_for_rows(house, "select first_prompt from sessions where first_prompt != ''")
    assert sessions == [("tidy the notes, please",)]


def test_grok_runs_claude_codes_hooks_too_and_is_answered_once(
    own_network: bool, tmp_path_factory: pytest.TempPathFactory
) -> None:
    program = agents.find_program(agents.GROK)
    house = House(tmp_path_factory.mktemp("h"), program, own_network=own_network, agent_setup=GROK.build_setup())
    house.hardwon("install", "grok", "--yes")
    house.hardwon("install", "claude-code", "--yes")
    # A hook of a person's own, which shows that Grok does run what Claude Code's settings have.
    settings = house.root / "home" / ".claude" / "settings.json"
    wire = json.loads(settings.read_text())
    wire["hooks"]["PreToolUse"].append(
        {"hooks": [{"type": "command", "command": f"echo ran >> {house.root}/other.log"}]}
    )
    settings.write_text(json.dumps(wire))
    house.add("hold", ADVICE, r"\bgit stash\b")
    house.add("note", "TOLD-8: touch leaves an empty file behind", r"\btouch\b")
    session = house.session([run_shell("git stash"), run_shell("git stash", delay=0.5), run_shell("touch made"), DONE])
    assert [result.refused for result in session.results] == [True, False, False] and house.stashes == 1
    assert "\n".join(session.turns[-1].texts).count("TOLD-8") == 1
    assert house.other_hook_runs >= 2
    calls = wait_for_calls(house)
    assert calls == [("Bash", "denied"), ("Bash", "fine"), ("Bash", "fine")]
    house.hardwon("stop")
    house.wait_for_background()
    with closing(sqlite3.connect(house.root / "hardwon" / "hardwon.db")) as connection:
        hosts = connection.execute("select distinct host from sessions").fetchall()
    assert hosts == [("grok",)]
