"""An agent reads hardwon's files as it likes and writes none of them, whether the worker is there to say no or not."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.calls_on_our_files import HARMLESS, MCP_CALLS, UNHOOKING, WRITING
from tests.support.house import GIT_STASH, House, bash, call


class Owner:
    """A person whose home is in the usual place, with hooks in Claude Code's settings."""

    def __init__(self, person: str) -> None:
        self.person = person
        self.project = os.path.join(person, "project")
        self.house = House(os.path.join(person, ".hardwon"))
        self.env = {"HOME": person}
        self.house.ok("install", "claude-code", "--yes", env=self.env)
        self.house.ok("lessons", "add", "--json", json.dumps({**GIT_STASH, "delivery": "block"}), env=self.env)
        for agent in ("codex", "gemini", "opencode"):
            self.house.ok("install", agent, "--yes", env=self.env)

    def ask(self, payload: dict[str, Any]) -> str:
        """Return why the call is denied, or nothing."""
        filled_payload = json.loads(json.dumps(payload).replace("PERSON/", f"{self.person}/"))
        answer = self.house.ask("s1", {**filled_payload, "cwd": self.project}, env=self.env)
        assert bool(answer.denied) == (answer.raw != b"{}")
        return answer.denied


@pytest.fixture(scope="module")
def shared_owner(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Owner]:
    owner = Owner(str(tmp_path_factory.mktemp("person")))
    yield owner
    owner.house.leave()


@pytest.fixture(scope="module", params=["worker up", "worker down"])
def owner(request: pytest.FixtureRequest, shared_owner: Owner) -> Owner:
    shared_owner.house.ok("start" if request.param == "worker up" else "stop", env=shared_owner.env)
    return shared_owner


def test_every_command_that_writes_is_denied(owner: Owner) -> None:
    assert [command for command in (*WRITING, *UNHOOKING) if not owner.ask(bash(command))] == []


def test_no_command_that_reads_is_denied(owner: Owner) -> None:
    assert [command for command in HARMLESS if owner.ask(bash(command))] == []


def test_tools_of_mcp_servers_are_judged_by_what_they_do(owner: Owner) -> None:
    misjudged = [
        (tool, tool_input)
        for tool, tool_input, is_denied in MCP_CALLS
        if bool(owner.ask(call(tool, tool_input))) != is_denied
    ]
    assert misjudged == []


def test_a_denial_names_the_user_and_the_command(owner: Owner) -> None:
    denial = owner.ask(bash("sed -i s/candidate/active/ ~/.hardwon/lessons.json"))
    assert f"Only the user can change files in {owner.house.home}" in denial
    assert "Ask them to type in a terminal: sed -i s/candidate/active/ ~/.hardwon/lessons.json" in denial
    assert "Ask them to type, as a prompt or in a terminal: hardwon accept 1" in owner.ask(bash("hardwon accept 1"))


def test_settings_are_edited_around_the_hooks(owner: Owner) -> None:
    path = os.path.join(owner.person, ".claude", "settings.json")
    with open(path) as file:
        settings = json.load(file)
    added = json.dumps({**settings, "model": "opus"})
    assert not owner.ask(call("Write", {"file_path": path, "content": added}))
    assert owner.ask(call("Write", {"file_path": path, "content": '{"model": "opus"}'}))
    assert owner.ask(call("Write", {"file_path": "~/.claude/settings.json", "content": "{}"}))
    off = {"file_path": path, "old_string": '"hooks": {', "new_string": '"disableAllHooks": true, "hooks": {'}
    assert owner.ask(call("Edit", off))


@pytest.mark.parametrize("path", ["~/.hardwon/lessons.json", "../.hardwon/lessons.json"])
def test_a_patch_of_our_files_is_denied(owner: Owner, path: str) -> None:
    patch = f"*** Begin Patch\n*** Update File: notes.md\n@@\n-a\n+b\n*** Delete File: {path}\n*** End Patch"
    payload = {
        "session_id": "s2",
        "cwd": owner.project,
        "hook_event_name": "PreToolUse",
        "tool_use_id": "c",
        "tool_name": "apply_patch",
        "tool_input": {"command": patch},
    }
    raw = owner.house.hook("PreToolUse", json.dumps(payload).encode(), owner.env, host="codex")
    assert b'"deny"' in raw
    opencode = {
        "sessionID": "s3",
        "directory": owner.project,
        "tool": "apply_patch",
        "callID": "c",
        "args": {"patchText": patch},
    }
    raw = owner.house.hook("PreToolUse", json.dumps(opencode).encode(), owner.env, host="opencode")
    assert b'"deny"' in raw


def test_an_agent_keeps_as_many_backups_as_usual(owner: Owner) -> None:
    as_agent = {**owner.env, "CLAUDECODE": "1"}
    refused = owner.house.cli("backup", "--keep", "1", env=as_agent)
    assert refused.code == 1 and "is for a person" in refused.err and "hardwon backup --keep 1" in refused.err
    assert owner.house.cli("backup", env=as_agent).code == 0
    assert owner.house.cli("backup", "--keep", "6", env=as_agent).code == 0
    assert owner.house.cli("backup", "--keep", "1", env=owner.env).code == 0
    assert owner.ask(bash("hardwon backup --keep 1"))
