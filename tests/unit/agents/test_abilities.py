"""The table of docs/hosts.md says what the code does."""

from __future__ import annotations

import json
import os

import pytest

from hardwon.agents import AGENT_NAMES, TRANSCRIPT_AGENTS, load_agent
from hardwon.agents.hook_settings import load_settings
from hardwon.errors import UserError
from hardwon.lessons.call_replies import AGENTS_NOTED_AFTER_CALL
from hardwon.types import Event, HookReply
from tests.support.transcript_reading import TESTS

PAGE = os.path.join(os.path.dirname(TESTS), "docs", "hosts.md")


def read_table() -> dict[str, dict[str, str]]:
    """Return yes, partly or no for each ability, by agent."""
    with open(PAGE, encoding="utf-8") as file:
        lines = [line.strip("|\n").split("|") for line in file if line.startswith("|") and line.count("|") == 10]
    (_, *abilities), _, *rows = [[cell.strip() for cell in line] for line in lines]
    agents = {load_settings(agent).title: agent for agent in AGENT_NAMES}
    return {agents[title]: dict(zip(abilities, levels, strict=True)) for title, *levels in rows}


def does_reply_carry(agent: str, kind: str, *, deny: str = "", context: str = "", notice: str = "") -> bool:
    """Return whether the answer to an event carries these texts."""
    module = load_agent(agent)
    answer = module.render_reply(Event(agent, kind, "s1", "/", tool="Bash"), HookReply(deny, context, notice))
    return kind in module.EVENT_TIMEOUTS and deny + context + notice in json.dumps(json.loads(answer))


def test_the_table_has_every_agent_and_says_yes_partly_or_no() -> None:
    table = read_table()
    assert sorted(table) == sorted(AGENT_NAMES)
    for agent, row in table.items():
        assert len(row) == 8 and set(row.values()) <= {"yes", "partly", "no"}, agent


def test_the_table_agrees_with_the_code() -> None:
    every_event = load_agent("claude-code").EVENT_TIMEOUTS.keys()
    for agent, row in read_table().items():
        can = {ability: level != "no" for ability, level in row.items()}
        noted_event = "PostToolUse" if agent in AGENTS_NOTED_AFTER_CALL else "PreToolUse"
        assert does_reply_carry(agent, noted_event, context="remember") == can["note"], agent
        assert does_reply_carry(agent, "PreToolUse", deny="stop here") == can["hold"] == can["block"], agent
        assert does_reply_carry(agent, "SessionStart", context="remember") == can["start"], agent
        assert does_reply_carry(agent, "SubagentStart", context="remember") == (row["start"] == "yes"), agent
        assert does_reply_carry(agent, "UserPromptSubmit", notice="taken") or not can["prompt"], agent
        assert does_reply_carry(agent, "UserPromptSubmit", context="remember") == can["prompt"], agent
        has_every_event = load_agent(agent).EVENT_TIMEOUTS.keys() == every_event
        assert has_every_event == (row["capture"] == "yes"), agent
        assert (agent in TRANSCRIPT_AGENTS) == can["transcripts"], agent


def test_the_mcp_server_can_be_registered_where_the_table_says_so() -> None:
    command = ["/usr/bin/python3", "-m", "hardwon", "mcp"]
    for agent, row in read_table().items():
        settings = load_settings(agent)
        if row["MCP"] == "no":
            with pytest.raises(UserError, match="MCP server"):
                settings.get_mcp_path()
            continue
        empty_file = "" if settings.get_mcp_path().endswith(".toml") else "{}\n"
        registered, _ = settings.add_mcp_server(empty_file, command)
        assert settings.find_mcp_command(registered) == command, agent
