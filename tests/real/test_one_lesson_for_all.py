"""One lesson, accepted once, holds the same mistake in every real agent of one home; the README's table comes from it.

With WRITE_TABLE=1 the result is kept in docs/tested_agents.json, from which `make docs` writes the table.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from . import agents
from .claude_code import CLAUDE_CODE
from .completion_agents import COMPLETION_AGENTS
from .conversation import AgentSetup
from .house import House
from .model_server import Call, Reply
from .other_agents import AGENT_SETUPS, run_shell

pytestmark = pytest.mark.real

ADVICE = "ADVICE-7: use git stash --include-untracked, or commit to a branch"
CLAUDE = agents.describe_claude_code("2.1.325")
EVERY_AGENT: dict[agents.Agent, AgentSetup] = {
    CLAUDE: CLAUDE_CODE,
    **AGENT_SETUPS,
    **{row.agent: row.build_setup() for row in COMPLETION_AGENTS},
}


def hold_once(house: House, agent: agents.Agent) -> bool:
    """Return whether an agent's mistake is held with the advice, and the fix runs.

    A hold that every agent overrides would be stepped down after a few sessions.
    """
    trust = ("--trust",) if agent.name == "codex" else ()
    house.hardwon("install", agent.name, "--yes", *trust)
    house.change_file(f"changed for {agent}")
    commands = ["git stash", "git commit --quiet --all --message=kept"]
    if agent is CLAUDE:
        replies = [Reply(calls=(Call("Bash", {"command": command}),)) for command in commands]
    else:
        replies = [run_shell(command) for command in commands]
    session = house.session([*replies, Reply("done")])
    refusals = [result.refused for result in session.results]
    return refusals == [True, False] and ADVICE in session.results[0].text and house.stashes == 0


def test_one_lesson_holds_the_same_mistake_in_every_agent_gemini_opencode_copilot_and_more(
    own_network: bool, tmp_path_factory: pytest.TempPathFactory, capsys: pytest.CaptureFixture[str]
) -> None:
    programs: dict[agents.Agent, Path] = {agent: agents.find_program(agent) for agent in EVERY_AGENT}
    house = House(tmp_path_factory.mktemp("h"), programs[CLAUDE], own_network=own_network)
    house.add("hold", ADVICE, r"\bgit stash\b")
    held_by_agent: dict[str, bool] = {}
    for agent, setup in EVERY_AGENT.items():
        if agent is not CLAUDE:
            house.set_up_agent(programs[agent], setup)
        held_by_agent[agent.name] = hold_once(house, agent)
    with capsys.disabled():
        print(
            "\n"
            + "\n".join(
                f"{agent.name:12} {agent.version:10} held: {held_by_agent[agent.name]}" for agent in EVERY_AGENT
            )
        )
    house.hardwon("stop")
    house.wait_for_background()
    assert all(held_by_agent.values()) and len(held_by_agent) >= 8
    agents.keep_test_result(*EVERY_AGENT)
