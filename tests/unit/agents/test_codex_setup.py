"""Codex gets our hooks, trust in them and our MCP server by edits that can be undone exactly."""

from __future__ import annotations

import json
import os
import tomllib
from typing import Any

import pytest

from hardwon.agents.codex import EVENT_TIMEOUTS, install
from tests.support.house import GIT_STASH, House, lesson
from tests.support.text_files import read_text, write_text

HOOKS = """{ "description": "caf\\u00e9",
\t"hooks": {"PreToolUse": [ {"matcher": "Bash", "hooks": [{"type": "command", "command": "/usr/bin/other"}]} ]}
}"""
CONFIG = """# kept by hand
model = "gpt-5.5"   # the good one
notes = \"\"\"
[mcp_servers.hardwon]
\"\"\"

[projects."/home/dev/project"]
trust_level = "trusted"
[hooks.state."/somebody/elses.json:stop:0:0"]
trusted_hash = "sha256:0"
"""

# As `hooks/list` of Codex 0.166.0 gives them for this file.
LISTED = """{"hooks":{
"SessionStart":[{"hooks":[{"type":"command","command":"python3 /opt/hardwon/hook.py codex SessionStart || :","timeout":10,"additionalContextLimit":9000}]}],
"PreToolUse":[{"matcher":"Bash","hooks":[{"type":"command","command":"other"},{"type":"command","command":"python3 /opt/hardwon/hook.py codex PreToolUse || :","timeout":5,"statusMessage":"caf\\u00e9","additionalContextLimit":2500}]}],
"Stop":[{"matcher":"x","hooks":[{"type":"command","command":"python3 /opt/hardwon/hook.py codex Stop || :"}]}],
"SessionEnd":[{"hooks":[{"type":"command","command":"python3 /opt/hardwon/hook.py codex SessionEnd || :","timeout":30}]}]
}}"""
HASHES = {
    "/c/hooks.json:session_start:0:0": "61d2b5bac31aded9d3803c856e0a3ac72c7e9652d15c6a2469ac90836e3bccda",
    "/c/hooks.json:pre_tool_use:0:1": "24f7cbd9148fcec8a267c6b81a0de17976740602c0fc3c37ac9b7a9ef0da5221",
    "/c/hooks.json:stop:0:0": "4f5012345d075ddd293dd32be2e95975ec4c794ce2898c918a5810c16b2cbe53",
    "/c/hooks.json:session_end:0:0": "e2150baadf217d9c7e8cb2bb94d8718022aacda8a9059a4aa6a92863ec3d75ce",
}


class CodexFolder:
    """Codex's folder in the test's home."""

    def __init__(self, home: str) -> None:
        self.folder = os.path.join(home, ".codex")
        os.makedirs(self.folder)
        self.hooks, self.config = os.path.join(self.folder, "hooks.json"), os.path.join(self.folder, "config.toml")

    def write_files(self, hooks: str = HOOKS, config: str = CONFIG) -> None:
        for path, text in ((self.hooks, hooks), (self.config, config)):
            write_text(path, text)

    @property
    def contents(self) -> tuple[str, str]:
        return read_text(self.hooks), read_text(self.config)

    @property
    def trusted_hooks(self) -> dict[str, Any]:
        states: dict[str, Any] = tomllib.loads(read_text(self.config)).get("hooks", {}).get("state", {})
        return {key: state for key, state in states.items() if key.startswith(self.hooks)}

    @property
    def distrusted_hooks(self) -> dict[str, list[str]]:
        hooks = install.list_hooks(self.hooks, read_text(self.hooks))
        assert len(hooks) == len(EVENT_TIMEOUTS)
        return install.find_distrusted_hooks(read_text(self.config), hooks)


@pytest.fixture
def codex_folder(own_home: str) -> CodexFolder:
    return CodexFolder(own_home)


def run_doctor(house: House, **env: str) -> dict[str, dict[str, Any]]:
    return {check["name"]: check for check in json.loads(house.cli("doctor", "--json", env=env).out)}


def list_last_hooks(path: str) -> dict[str, dict[str, Any]]:
    return {event: groups[-1]["hooks"][0] for event, groups in json.loads(read_text(path))["hooks"].items()}


def test_a_hook_has_the_trust_hash_that_codex_computes() -> None:
    hooks = install.list_hooks("/c/hooks.json", LISTED)
    assert {hook.key: hook.trust_hash for hook in hooks} == {key: f"sha256:{digest}" for key, digest in HASHES.items()}


def test_every_hook_has_a_timeout_and_a_brief_is_not_truncated(house: House, codex_folder: CodexFolder) -> None:
    house.ok("install", "codex", "--yes")
    hooks = list_last_hooks(codex_folder.hooks)
    assert {event: hook["timeout"] for event, hook in hooks.items()} == EVENT_TIMEOUTS
    assert hooks["SessionEnd"]["timeout"] <= 3
    assert hooks["SessionStart"]["additionalContextLimit"] * 4 >= 9_000 * len("\U0001f600".encode())
    assert {frozenset(hook) for event, hook in hooks.items() if event != "SessionStart"} == {
        frozenset({"type", "command", "timeout"})
    }


@pytest.mark.parametrize(
    ("hooks", "config", "options"),
    [(HOOKS, CONFIG, ()), (HOOKS, CONFIG, ("--mcp", "--trust")), ("", "", ("--trust", "--mcp"))],
)
def test_uninstalling_codex_leaves_every_byte_as_it_was(
    house: House, codex_folder: CodexFolder, hooks: str, config: str, options: tuple[str, ...]
) -> None:
    codex_folder.write_files(hooks, config)
    house.ok("install", "codex", *options, "--yes")
    installed_contents = codex_folder.contents
    assert installed_contents[0] != hooks and (installed_contents[1] != config) == bool(options)
    assert "already installed" in house.ok("install", "codex", *options, "--yes").out
    assert codex_folder.contents == installed_contents
    house.ok("uninstall", "codex", "--yes")
    assert codex_folder.contents == (hooks, config)


@pytest.mark.parametrize("hooks", [HOOKS, "{}", "{\n}\n", '{"hooks": {}}', '{"a":1}', ""])
@pytest.mark.parametrize("config", [CONFIG, CONFIG.rstrip("\n"), CONFIG.replace("\n", "\r\n"), 'model = "a"', "\n", ""])
def test_everything_added_can_be_removed_exactly(hooks: str, config: str) -> None:
    hooks_text, created_paths = install.SETTINGS.add_hooks(hooks, lambda event: f"/opt/hardwon/hook.py {event}")
    expected_hooks = install.list_hooks("/c/hooks.json", hooks_text)
    registered, _ = install.SETTINGS.add_mcp_server(config, ["python3", "-m", "hardwon"])
    trusted, trusted_keys = install.grant_trust(registered, expected_hooks, [])
    assert (install.SETTINGS.find_mcp_command(trusted), install.find_distrusted_hooks(trusted, expected_hooks)) == (
        ["python3", "-m", "hardwon"],
        {},
    )
    assert install.grant_trust(trusted, expected_hooks, trusted_keys) == (trusted, trusted_keys)
    # A last line without an end gets one.
    assert (
        install.revoke_trust(install.SETTINGS.remove_mcp_server(trusted, []), trusted_keys).rstrip() == config.rstrip()
    )
    assert (
        install.SETTINGS.remove_mcp_server(install.revoke_trust(trusted, trusted_keys), []).rstrip() == config.rstrip()
    )
    assert install.SETTINGS.remove_hooks(hooks_text, created_paths) == hooks


def test_missing_files_are_created_and_removed_again(house: House, codex_folder: CodexFolder) -> None:
    house.ok("install", "codex", "--mcp", "--trust", "--yes")
    assert sorted(os.listdir(codex_folder.folder)) == ["config.toml", "hooks.json"]
    house.ok("uninstall", "--all", "--yes")
    assert os.listdir(codex_folder.folder) == []


def test_without_trust_the_output_names_the_next_step(house: House, codex_folder: CodexFolder) -> None:
    output_without_trust = house.ok("install", "codex", "--yes").out
    assert (
        "/hooks" in output_without_trust,
        "--trust" in output_without_trust,
        os.path.exists(codex_folder.config),
    ) == (True, True, False)
    assert run_doctor(house)["trust"]["well"] is False
    output_with_trust = house.ok("install", "codex", "--trust", "--yes").out
    assert (
        "trusts these hooks in" in output_with_trust
        and "trusts these hooks now" in output_with_trust
        and "type /hooks" not in output_with_trust
    )
    assert len(codex_folder.trusted_hooks) == len(EVENT_TIMEOUTS)
    assert run_doctor(house)["trust"]["well"] is True


def test_an_agent_may_not_trust_hooks_for_the_person(house: House, codex_folder: CodexFolder) -> None:
    codex_folder.write_files()
    result = house.cli("install", "codex", "--trust", "--yes", env={"CODEX_THREAD_ID": "x"})
    assert (result.code, "for a person" in result.err, codex_folder.contents) == (1, True, (HOOKS, CONFIG))


def test_trust_is_refused_for_other_agents(house: House) -> None:
    result = house.cli("install", "claude-code", "--trust", "--yes")
    assert (result.code, "error: Claude Code" in result.err) == (1, True)


def test_trust_granted_by_hand_survives_uninstalling(house: House, codex_folder: CodexFolder) -> None:
    house.ok("install", "codex", "--trust", "--yes")
    config_by_hand = read_text(codex_folder.config)
    house.ok("uninstall", "codex", "--yes")
    with open(codex_folder.config, "w") as file:
        file.write(config_by_hand)
    house.ok("install", "codex", "--trust", "--yes")
    house.ok("uninstall", "codex", "--yes")
    assert read_text(codex_folder.config) == config_by_hand


def test_a_changed_hook_is_reported_and_trusted_again(house: House, codex_folder: CodexFolder) -> None:
    house.ok("install", "codex", "--trust", "--yes")
    with open(codex_folder.hooks) as file:
        changed = file.read().replace('"timeout": 10', '"timeout": 11')
    with open(codex_folder.hooks, "w") as file:
        file.write(changed)
    check = run_doctor(house)["trust"]
    assert (check["well"], check["found"]) == (False, "Codex leaves out modified since: SessionStart")
    assert "hardwon install codex --trust" in check["fix"]
    house.ok("install", "codex", "--trust", "--yes")
    assert (codex_folder.distrusted_hooks, len(codex_folder.trusted_hooks)) == ({}, len(EVENT_TIMEOUTS))


def test_hooks_beside_others_are_trusted_under_their_own_index(house: House, codex_folder: CodexFolder) -> None:
    codex_folder.write_files()
    house.ok("install", "codex", "--trust", "--yes")
    assert f"{codex_folder.hooks}:pre_tool_use:1:0" in codex_folder.trusted_hooks
    assert f"{codex_folder.hooks}:pre_tool_use:0:0" not in codex_folder.trusted_hooks
    assert codex_folder.distrusted_hooks == {}


@pytest.mark.parametrize("switch", ["hooks", "codex_hooks"])
def test_doctor_names_what_keeps_codex_from_running_a_hook(
    house: House, codex_folder: CodexFolder, switch: str
) -> None:
    house.ok("install", "codex", "--trust", "--yes")
    with open(codex_folder.config, "a") as file:
        file.write("enabled = false\n")
    assert codex_folder.distrusted_hooks == {"switched off": ["SessionEnd"]}
    with open(codex_folder.config, "a") as file:
        file.write(f"\n[features]\n{switch} = false\n")
    check = run_doctor(house)["trust"]
    assert (check["well"], "switched off in" in check["found"], "[features]" in check["fix"]) == (False, True, True)


@pytest.mark.parametrize("option", ["--mcp", "--trust"])
@pytest.mark.parametrize("broken_config", ["model = ", "mcp_servers = 1\nhooks = 1\n"])
def test_a_config_that_cannot_be_edited_is_refused_unchanged(
    house: House, codex_folder: CodexFolder, option: str, broken_config: str
) -> None:
    codex_folder.write_files(config=broken_config)
    result = house.cli("install", "codex", option, "--yes")
    assert (result.code, codex_folder.contents) == (1, (HOOKS, broken_config))
    assert codex_folder.config in result.err and f"fix: repair it, then: hardwon install codex {option}" in result.err


def test_the_mcp_server_is_registered_with_its_home(house: House, codex_folder: CodexFolder) -> None:
    codex_folder.write_files()
    elsewhere = os.path.join(house.home, "elsewhere")
    house.ok("install", "codex", "--mcp", "--yes", env={"HARDWON_HOME": elsewhere})
    mcp_command = install.SETTINGS.find_mcp_command(read_text(codex_folder.config))
    assert mcp_command[:2] == ["env", f"HARDWON_HOME={elsewhere}"] and mcp_command[-2:] == ["hardwon", "mcp"]
    house.ok("install", "codex", "--mcp", "--yes")
    assert read_text(codex_folder.config).count("\n[mcp_servers.hardwon]\ncommand") == 1
    assert install.SETTINGS.find_mcp_command(read_text(codex_folder.config))[-3:] == ["-m", "hardwon", "mcp"]


def test_a_linked_codex_home_is_resolved(house: House, codex_folder: CodexFolder, own_home: str) -> None:
    link = os.path.join(own_home, "link")
    os.symlink(codex_folder.folder, link)
    house.ok("install", "codex", "--trust", "--yes", env={"CODEX_HOME": link})
    assert codex_folder.distrusted_hooks == {}


def test_installing_for_one_project_is_refused(house: House, codex_folder: CodexFolder) -> None:
    result = house.cli("install", "codex", "--project", "--yes")
    assert (result.code, "committed" in result.err, os.listdir(codex_folder.folder)) == (1, True, [])


def test_a_codex_that_is_too_old_is_named(house: House, codex_folder: CodexFolder, own_home: str) -> None:
    program = os.path.join(own_home, "bin", "codex")
    os.makedirs(os.path.dirname(program))
    for version, is_well in (("0.125.0", False), ("0.130.0", True)):
        with open(program, "w") as file:
            file.write(f"#!/bin/sh\necho codex-cli {version}\n")
        os.chmod(program, 0o755)
        check = run_doctor(house, PATH=f"{os.path.dirname(program)}:/usr/bin:/bin")["codex"]
        assert (check["well"], version in check["found"], "0.130.0" in check["fix"]) == (is_well, True, not is_well)


def test_the_installed_hooks_hold_a_call_and_block_a_file_of_a_patch(house: House, codex_folder: CodexFolder) -> None:
    house.add({**GIT_STASH, "delivery": "hold"})
    path_triggers = {"toolNames": ["Edit", "Write"], "pathPatterns": ["**/secret.py"]}
    house.add(lesson(triggers=path_triggers, delivery="block"))
    house.stay_cold()
    patch = "*** Begin Patch\n*** Add File: a.py\n+x\n*** Update File: src/secret.py\n@@\n+y\n*** End Patch"
    for tool, command, reason in (("Bash", "git stash", "Held once"), ("apply_patch", patch, "Blocked by hardwon")):
        wire: dict[str, Any] = {
            "session_id": "s",
            "cwd": "/home/dev/project",
            "hook_event_name": "PreToolUse",
            "tool_name": tool,
        }
        wire |= {"tool_input": {"command": command}, "tool_use_id": "call_1", "transcript_path": None}
        answer = json.loads(house.hook("PreToolUse", json.dumps(wire).encode(), host="codex"))
        assert reason in answer["hookSpecificOutput"]["permissionDecisionReason"]


def test_an_interrupted_install_can_be_undone_exactly(house: House, codex_folder: CodexFolder) -> None:
    os.symlink("/proc/nowhere/config.toml", codex_folder.config)
    assert house.cli("install", "codex", "--mcp", "--yes").code == 1
    assert os.path.exists(codex_folder.hooks)
    os.unlink(codex_folder.config)
    house.ok("uninstall", "codex", "--yes")
    assert os.listdir(codex_folder.folder) == []


def test_other_hooks_after_ours_keep_their_index_or_are_reported(house: House, codex_folder: CodexFolder) -> None:
    house.ok("install", "codex", "--yes")
    document = json.loads(read_text(codex_folder.hooks))
    document["hooks"]["PreToolUse"].append({"hooks": [{"type": "command", "command": "/usr/bin/other"}]})
    codex_folder.write_files(json.dumps(document))
    assert "already installed" in house.ok("install", "codex", "--yes").out
    assert read_text(codex_folder.hooks) == json.dumps(document)
    codex_folder.write_files(read_text(codex_folder.hooks).replace('"timeout": 10', '"timeout": 11'))
    moved_message = "Codex asks you to trust other hooks in PreToolUse again"
    assert moved_message in house.ok("install", "codex", "--yes").out
    assert moved_message not in house.ok("uninstall", "codex", "--yes").out
    codex_folder.write_files(json.dumps(document))
    assert moved_message in house.ok("uninstall", "codex", "--yes").out
