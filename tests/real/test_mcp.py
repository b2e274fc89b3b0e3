"""The real Claude Code asks over MCP: what an earlier session was about is in the model's next request."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

import pytest

from .conversation import Session, ToolResult
from .house import HARDWON, House
from .model_server import Call, Reply, Request, Script, bash

pytestmark = pytest.mark.real

QUESTION = "why does the lighthouse blink twice after midnight"
ANSWER = "The lighthouse blinks twice because its relay bounces; ALBATROSS-9 is the spare."
DONE = Reply("done")
WAIT = "WaitForMcpServers"


def build_mcp_options(house: House) -> list[str]:
    """Return the CLI options that start our server, as a person's settings would."""
    server = {"command": HARDWON[0], "args": ["mcp"], "env": {"HARDWON_HOME": str(house.root / "hardwon")}}
    return ["--mcp-config", json.dumps({"mcpServers": {"hardwon": server}}), "--strict-mcp-config"]


def call_tool(tool: str, **arguments: Any) -> Reply:
    return Reply(calls=(Call(f"mcp__hardwon__{tool}", arguments),))


def wait_for_server(*replies: Reply | Callable[[Request], Reply]) -> Script:
    """Return a script that first waits for the server: one version of the CLI starts without it and has a tool for that."""
    remaining = iter(replies)

    def script(request: Request) -> Reply:
        tools = {tool["name"] for tool in request.body["tools"]}
        if WAIT in tools and "mcp__hardwon__search" not in tools:
            return Reply(calls=(Call(WAIT, {}),))
        reply = next(remaining, DONE)
        return reply if isinstance(reply, Reply) else reply(request)

    return script


def list_server_results(session: Session) -> list[ToolResult]:
    """Return the results of our server, without those of waiting for it."""
    ids = {
        block["id"]
        for line in session.lines
        if line["type"] == "assistant"
        for block in line["message"]["content"]
        if block["type"] == "tool_use" and block["name"].startswith("mcp__hardwon__")
    }
    calls = [
        block["tool_use_id"]
        for line in session.lines
        if line["type"] == "user" and isinstance(line["message"]["content"], list)
        for block in line["message"]["content"]
        if block["type"] == "tool_result"
    ]
    return [result for call_id, result in zip(calls, session.results, strict=True) if call_id in ids]


def test_the_agent_searches_and_reads_the_right_record_whole(house: House) -> None:
    house.session([bash("echo relay"), Reply(ANSWER)], QUESTION)
    house.wait_for_background()

    def read_the_last_word(request: Request) -> Reply:
        index = next(text for text in request.texts if "Recalled by hardwon" in text)
        record_id = re.findall(r"(?m)^\s*(E\d+)\b.*\banswer\b", index)[0]
        return call_tool("get", ids=[record_id])

    script = wait_for_server(call_tool("search", query="why the lighthouse blinks", kind="event"), read_the_last_word)
    session = house.session(script, "go on", more=build_mcp_options(house))
    search, get = list_server_results(session)
    assert (search.refused, get.refused, session.said) == (False, False, ("done",))
    assert "ALBATROSS-9 is the spare" in get.text and "<hardwon-context>" in get.text
    assert any("ALBATROSS-9 is the spare" in text and "event, Stop" in text for text in session.turns[-1].texts)


def test_what_the_agent_proposes_waits_and_is_told_once_approved(house: House) -> None:
    statement = "Relays for the lighthouse are ordered from the island, never from the mainland"
    session = house.session(
        wait_for_server(call_tool("remember", type="project", text=statement)), more=build_mcp_options(house)
    )
    assert "hardwon memory approve M1" in list_server_results(session)[0].text
    assert not house.session([DONE]).turns_with(statement)
    house.hardwon("memory", "approve", "1")
    assert house.session([DONE]).turns_with(statement) == [0]
    assert len(list(house.project.glob(".claude/memory/project_relays-for-the-lighthouse*.md"))) == 1


def test_a_bad_call_is_answered_with_a_sentence(house: House) -> None:
    script = wait_for_server(call_tool("get", ids=["O999"]), call_tool("search", query="x", limit=0))
    first, second = list_server_results(house.session(script, more=build_mcp_options(house)))
    assert first.refused and "there is no O999" in first.text
    assert second.refused and "limit" in second.text
