"""The table of what each agent can do says what the code does."""

from __future__ import annotations

import json

import pytest

from hardwon.agents import AGENT_PACKAGES, load_install_module, transcript_steps
from hardwon.agents import load_payload_module as host_named
from hardwon.agents.capabilities import CAPABILITIES, NO, PARTLY, SUPPORT_BY_AGENT, YES
from hardwon.lessons.decision import AGENTS_NOTED_AFTER_CALL
from hardwon.types import Event, HookReply

EVERY = host_named("claude-code").EVENT_TIMEOUTS.keys()
HOSTS = sorted(AGENT_PACKAGES)


def carries(host: str, kind: str, *, deny: str = "", context: str = "", notice: str = "") -> bool:
    """Whether what is said on an event stands in the answer."""
    module = host_named(host)
    answer = module.render_reply(Event(host, kind, "s1", "/", tool="Bash"), HookReply(deny, context, notice))
    return kind in module.EVENT_TIMEOUTS and deny + context + notice in json.dumps(json.loads(answer))


def can(host: str, ability: str) -> bool:
    return SUPPORT_BY_AGENT[host][ability][0] != NO


def test_every_host_has_every_ability_with_a_reason() -> None:
    assert sorted(SUPPORT_BY_AGENT) == HOSTS
    for row in SUPPORT_BY_AGENT.values():
        assert list(row) == list(CAPABILITIES)
        assert all(level in (YES, PARTLY, NO) and why for level, why in row.values())


@pytest.mark.parametrize("host", HOSTS)
def test_what_is_said_to_a_model_is_in_the_answer_where_the_table_says_so(host: str) -> None:
    after = "PostToolUse" if host in AGENTS_NOTED_AFTER_CALL else "PreToolUse"
    assert carries(host, after, context="remember") == can(host, "note")
    assert carries(host, "PreToolUse", deny="stop here") == can(host, "hold") == can(host, "block")
    assert carries(host, "SessionStart", context="remember") == can(host, "start")
    assert carries(host, "UserPromptSubmit", notice="taken") == can(host, "prompt")
    assert carries(host, "UserPromptSubmit", context="remember") == can(host, "prompt")


@pytest.mark.parametrize("host", HOSTS)
def test_a_sub_agent_is_told_where_the_start_is_whole(host: str) -> None:
    assert carries(host, "SubagentStart", context="remember") == (SUPPORT_BY_AGENT[host]["start"][0] == YES)


@pytest.mark.parametrize("host", HOSTS)
def test_capture_is_whole_where_every_event_has_a_hook(host: str) -> None:
    assert (host_named(host).EVENT_TIMEOUTS.keys() == EVERY) == (SUPPORT_BY_AGENT[host]["capture"][0] == YES)


@pytest.mark.parametrize("host", HOSTS)
def test_transcripts_are_read_where_there_is_a_reader(host: str) -> None:
    assert (host in transcript_steps.TRANSCRIPT_MODULES) == can(host, "transcripts")


@pytest.mark.parametrize("host", HOSTS)
def test_the_mcp_server_can_be_registered_where_the_table_says_so(host: str) -> None:
    module, words = load_install_module(host), ["/usr/bin/python3", "-m", "hardwon", "mcp"]
    begun = "" if module.get_mcp_path().endswith(".toml") else "{}\n"
    assert (module.find_mcp_command(module.add_mcp_server(begun, words)[0]) == words) == can(host, "MCP")
