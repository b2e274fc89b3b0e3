"""The real Copilot CLI: a lesson is held, noted and told at the start, and every call is recorded once."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from . import agents, wire_formats
from .conversation import AgentSetup, Conversation, Session, ToolResult
from .house import House
from .model_server import Body, Call, Reply
from .other_agents import _run_session, _translate_calls, run_shell

pytestmark = pytest.mark.real

COPILOT = agents.Agent("copilot", "1.0.102", "@github/copilot", "@github/copilot-*-*/copilot")
ADVICE = "ADVICE-7: use git stash --include-untracked, or commit to a branch"
DONE = Reply("done")


def translate_call(call: Call, _: Body) -> Call:
    return Call("bash", {"command": call.given["command"], "description": "as scripted"})


def read_outputs(body: Body) -> Iterator[ToolResult]:
    for message in body["messages"]:
        if message["role"] == "tool":
            text = str(message["content"])
            yield ToolResult(text, "Denied by preToolUse hook" in text)


def run_copilot(program: Path, conversation: Conversation) -> Session:
    # The launcher knows the address of the scripted model only once it listens.
    script = 'COPILOT_PROVIDER_BASE_URL="$MODEL_URL/v1" exec "$@"'
    command = ["/bin/sh", "-c", script, "sh", str(program), "--allow-all-tools", "--output-format", "json", "-p"]
    wire = _translate_calls(wire_formats.COMPLETIONS, translate_call)
    return _run_session(conversation, command, wire, lambda line: str(line.get("sessionId", "")), read_outputs)


def build_environment(root: Path) -> dict[str, str]:
    return {
        "COPILOT_PROVIDER_API_KEY": "made-up",
        "COPILOT_MODEL": "fake-model",
        "COPILOT_OFFLINE": "true",
        "COPILOT_AUTO_UPDATE": "false",
        # It unpacks itself at its first start, which takes seconds.
        "XDG_CACHE_HOME": str(agents.CACHE / "copilot-cache"),
    }


SETUP = AgentSetup("copilot", ".copilot/hooks/hardwon.json", lambda _: None, build_environment, run_copilot)


@pytest.fixture
def house(own_network: bool, tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    program = agents.find_program(COPILOT)
    built = House(tmp_path_factory.mktemp("h"), program, own_network=own_network, agent_setup=SETUP)
    built.hardwon("install", "copilot", "--yes")
    yield built
    built.hardwon("stop")
    built.wait_for_background()
    assert built.list_processes() == []


def test_copilot_is_held_once_and_the_repeat_runs(house: House) -> None:
    house.add("hold", ADVICE, r"\bgit stash\b")
    session = house.session([run_shell("git stash"), run_shell("git stash", delay=0.5), DONE])
    assert [result.refused for result in session.results] == [True, False]
    assert ADVICE in session.results[0].text and house.stashes == 1


def test_copilot_is_told_a_note_once_and_runs_the_call(house: House) -> None:
    house.add("note", ADVICE, r"\btouch\b")
    session = house.session([run_shell("touch made"), run_shell("touch again"), DONE])
    assert sum(text.count(ADVICE) for text in session.turns[-1].texts) == 1
    assert (house.project / "made").exists() and (house.project / "again").exists()


def test_copilot_runs_every_call_when_hardwon_is_gone(house: House) -> None:
    hooks = house.settings.read_text()
    house.settings.write_text(hooks.replace("/hardwon/hook.py", "/gone/hardwon/hook.py"))
    session = house.session([run_shell("touch made"), DONE])
    house.settings.write_text(hooks)
    assert [result.refused for result in session.results] == [False] and (house.project / "made").exists()


def test_a_failing_command_of_copilot_is_recorded_once(house: House) -> None:
    house.session([run_shell("ls /nonexistent-dir; exit 3"), DONE])
    house.wait_for_background()
    with closing(sqlite3.connect(house.root / "hardwon" / "hardwon.db")) as connection:
        calls = connection.execute("select tool, outcome from events where kind = 'tool'").fetchall()
    assert calls == [("Bash", "failed")]
