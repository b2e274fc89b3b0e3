"""Codex gets our hooks, its trust in them and our MCP server by edits that can be undone to the letter."""

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


class Files:
    """Owns Codex's folder in the test's home."""

    def __init__(self, home: str) -> None:
        self.folder = os.path.join(home, ".codex")
        os.makedirs(self.folder)
        self.hooks, self.config = os.path.join(self.folder, "hooks.json"), os.path.join(self.folder, "config.toml")

    def put(self, hooks: str = HOOKS, config: str = CONFIG) -> None:
        for path, text in ((self.hooks, hooks), (self.config, config)):
            write_text(path, text)

    @property
    def both(self) -> tuple[str, str]:
        return read_text(self.hooks), read_text(self.config)

    @property
    def trusted(self) -> dict[str, Any]:
        found: dict[str, Any] = tomllib.loads(read_text(self.config)).get("hooks", {}).get("state", {})
        return {key: state for key, state in found.items() if key.startswith(self.hooks)}

    @property
    def left_out(self) -> dict[str, list[str]]:
        wanted = install.list_hooks(self.hooks, read_text(self.hooks))
        assert len(wanted) == len(EVENT_TIMEOUTS)
        return install.find_distrusted_hooks(read_text(self.config), wanted)


@pytest.fixture
def files(own_home: str) -> Files:
    return Files(own_home)


def checks(house: House, **env: str) -> dict[str, dict[str, Any]]:
    return {check["name"]: check for check in json.loads(house.cli("doctor", "--json", env=env).out)}


def entries(path: str) -> dict[str, dict[str, Any]]:
    return {event: groups[-1]["hooks"][0] for event, groups in json.loads(read_text(path))["hooks"].items()}


def test_a_hook_is_known_by_the_hash_that_codex_itself_gives_it() -> None:
    found = install.list_hooks("/c/hooks.json", LISTED)
    assert {hook.key: hook.trust_hash for hook in found} == {key: f"sha256:{hash}" for key, hash in HASHES.items()}


def test_every_hook_says_how_long_it_may_take_and_a_brief_arrives_whole(house: House, files: Files) -> None:
    house.ok("install", "codex", "--yes")
    found = entries(files.hooks)
    assert {event: hook["timeout"] for event, hook in found.items()} == EVENT_TIMEOUTS
    assert found["SessionEnd"]["timeout"] <= 3
    assert found["SessionStart"]["additionalContextLimit"] * 4 >= 9_000 * len("\U0001f600".encode())
    assert {frozenset(hook) for event, hook in found.items() if event != "SessionStart"} == {
        frozenset({"type", "command", "timeout"})
    }


@pytest.mark.parametrize(
    ("hooks", "config", "options"),
    [(HOOKS, CONFIG, ()), (HOOKS, CONFIG, ("--mcp", "--trust")), ("", "", ("--trust", "--mcp"))],
)
def test_uninstalling_codex_leaves_every_byte_as_it_was(
    house: House, files: Files, hooks: str, config: str, options: tuple[str, ...]
) -> None:
    files.put(hooks, config)
    house.ok("install", "codex", *options, "--yes")
    once = files.both
    assert once[0] != hooks and (once[1] != config) == bool(options)
    assert "already installed" in house.ok("install", "codex", *options, "--yes").out
    assert files.both == once
    house.ok("uninstall", "codex", "--yes")
    assert files.both == (hooks, config)


@pytest.mark.parametrize("hooks", [HOOKS, "{}", "{\n}\n", '{"hooks": {}}', '{"a":1}', ""])
@pytest.mark.parametrize("config", [CONFIG, CONFIG.rstrip("\n"), CONFIG.replace("\n", "\r\n"), 'model = "a"', "\n", ""])
def test_what_is_put_in_can_be_taken_out_to_the_letter(hooks: str, config: str) -> None:
    after, made = install.SETTINGS.add_hooks(hooks, lambda event: f"/opt/hardwon/hook.py {event}")
    wanted = install.list_hooks("/c/hooks.json", after)
    registered, _ = install.SETTINGS.add_mcp_server(config, ["python3", "-m", "hardwon"])
    trusted, ours = install.grant_trust(registered, wanted, [])
    assert (install.SETTINGS.find_mcp_command(trusted), install.find_distrusted_hooks(trusted, wanted)) == (
        ["python3", "-m", "hardwon"],
        {},
    )
    assert install.grant_trust(trusted, wanted, ours) == (trusted, ours)
    # A last line without an end gets one.
    assert install.revoke_trust(install.SETTINGS.remove_mcp_server(trusted, []), ours).rstrip() == config.rstrip()
    assert install.SETTINGS.remove_mcp_server(install.revoke_trust(trusted, ours), []).rstrip() == config.rstrip()
    assert install.SETTINGS.remove_hooks(after, made) == hooks


def test_without_files_both_are_made_and_taken_away_again(house: House, files: Files) -> None:
    house.ok("install", "codex", "--mcp", "--trust", "--yes")
    assert sorted(os.listdir(files.folder)) == ["config.toml", "hooks.json"]
    house.ok("uninstall", "--all", "--yes")
    assert os.listdir(files.folder) == []


def test_trust_is_a_choice_and_without_it_the_person_is_told_what_is_left_to_do(house: House, files: Files) -> None:
    said = house.ok("install", "codex", "--yes").out
    assert ("/hooks" in said, "--trust" in said, os.path.exists(files.config)) == (True, True, False)
    assert checks(house)["trust"]["well"] is False
    shown = house.ok("install", "codex", "--trust", "--yes").out
    assert "trusts these hooks in" in shown and "trusts these hooks now" in shown and "type /hooks" not in shown
    assert len(files.trusted) == len(EVENT_TIMEOUTS)
    assert checks(house)["trust"]["well"] is True


def test_an_agent_may_not_trust_hooks_for_the_person(house: House, files: Files) -> None:
    files.put()
    refused = house.cli("install", "codex", "--trust", "--yes", env={"CODEX_THREAD_ID": "x"})
    assert (refused.code, "for a person" in refused.err, files.both) == (1, True, (HOOKS, CONFIG))


def test_other_agents_have_no_trust_to_give(house: House) -> None:
    refused = house.cli("install", "claude-code", "--trust", "--yes")
    assert (refused.code, "error: Claude Code" in refused.err) == (1, True)


def test_what_a_person_trusted_by_hand_is_left_alone_and_stays(house: House, files: Files) -> None:
    house.ok("install", "codex", "--trust", "--yes")
    by_hand = read_text(files.config)
    house.ok("uninstall", "codex", "--yes")
    with open(files.config, "w") as file:
        file.write(by_hand)
    house.ok("install", "codex", "--trust", "--yes")
    house.ok("uninstall", "codex", "--yes")
    assert read_text(files.config) == by_hand


def test_a_hook_that_changed_since_is_named_and_trusted_anew(house: House, files: Files) -> None:
    house.ok("install", "codex", "--trust", "--yes")
    with open(files.hooks) as file:
        changed = file.read().replace('"timeout": 10', '"timeout": 11')
    with open(files.hooks, "w") as file:
        file.write(changed)
    told = checks(house)["trust"]
    assert (told["well"], told["found"]) == (False, "Codex leaves out modified since: SessionStart")
    assert "hardwon install codex --trust" in told["fix"]
    house.ok("install", "codex", "--trust", "--yes")
    assert (files.left_out, len(files.trusted)) == ({}, len(EVENT_TIMEOUTS))


def test_hooks_beside_somebody_elses_are_trusted_at_their_own_place(house: House, files: Files) -> None:
    files.put()
    house.ok("install", "codex", "--trust", "--yes")
    assert f"{files.hooks}:pre_tool_use:1:0" in files.trusted
    assert f"{files.hooks}:pre_tool_use:0:0" not in files.trusted
    assert files.left_out == {}


@pytest.mark.parametrize("switch", ["hooks", "codex_hooks"])
def test_what_else_keeps_codex_from_running_a_hook_is_told(house: House, files: Files, switch: str) -> None:
    house.ok("install", "codex", "--trust", "--yes")
    with open(files.config, "a") as file:
        file.write("enabled = false\n")
    assert files.left_out == {"switched off": ["SessionEnd"]}
    with open(files.config, "a") as file:
        file.write(f"\n[features]\n{switch} = false\n")
    told = checks(house)["trust"]
    assert (told["well"], "switched off in" in told["found"], "[features]" in told["fix"]) == (False, True, True)


@pytest.mark.parametrize("option", ["--mcp", "--trust"])
@pytest.mark.parametrize("broken", ["model = ", "mcp_servers = 1\nhooks = 1\n"])
def test_a_config_that_cannot_take_it_is_refused_and_left_alone(
    house: House, files: Files, option: str, broken: str
) -> None:
    files.put(config=broken)
    refused = house.cli("install", "codex", option, "--yes")
    assert (refused.code, files.both) == (1, (HOOKS, broken))
    assert files.config in refused.err and f"fix: repair it, then: hardwon install codex {option}" in refused.err


def test_the_server_is_registered_with_the_home_that_is_meant(house: House, files: Files) -> None:
    files.put()
    elsewhere = os.path.join(house.home, "elsewhere")
    house.ok("install", "codex", "--mcp", "--yes", env={"HARDWON_HOME": elsewhere})
    words = install.SETTINGS.find_mcp_command(read_text(files.config))
    assert words[:2] == ["env", f"HARDWON_HOME={elsewhere}"] and words[-2:] == ["hardwon", "mcp"]
    house.ok("install", "codex", "--mcp", "--yes")
    assert read_text(files.config).count("\n[mcp_servers.hardwon]\ncommand") == 1
    assert install.SETTINGS.find_mcp_command(read_text(files.config))[-3:] == ["-m", "hardwon", "mcp"]


def test_codexs_own_folder_is_named_as_codex_names_it(house: House, files: Files, own_home: str) -> None:
    link = os.path.join(own_home, "link")
    os.symlink(files.folder, link)
    house.ok("install", "codex", "--trust", "--yes", env={"CODEX_HOME": link})
    assert files.left_out == {}


def test_hooks_of_one_project_are_refused_with_a_sentence(house: House, files: Files) -> None:
    refused = house.cli("install", "codex", "--project", "--yes")
    assert (refused.code, "committed" in refused.err, os.listdir(files.folder)) == (1, True, [])


def test_a_codex_that_is_too_old_is_named(house: House, files: Files, own_home: str) -> None:
    program = os.path.join(own_home, "bin", "codex")
    os.makedirs(os.path.dirname(program))
    for version, well in (("0.125.0", False), ("0.130.0", True)):
        with open(program, "w") as file:
            file.write(f"#!/bin/sh\necho codex-cli {version}\n")
        os.chmod(program, 0o755)
        told = checks(house, PATH=f"{os.path.dirname(program)}:/usr/bin:/bin")["codex"]
        assert (told["well"], version in told["found"], "0.130.0" in told["fix"]) == (well, True, not well)


def test_the_installed_hooks_hold_a_call_and_block_a_file_of_a_patch(house: House, files: Files) -> None:
    house.add({**GIT_STASH, "delivery": "hold"})
    of_a_file = {"toolNames": ["Edit", "Write"], "pathPatterns": ["**/secret.py"]}
    house.add(lesson(triggers=of_a_file, delivery="block"))
    house.stay_cold()
    patch = "*** Begin Patch\n*** Add File: a.py\n+x\n*** Update File: src/secret.py\n@@\n+y\n*** End Patch"
    for tool, command, why in (("Bash", "git stash", "Held once"), ("apply_patch", patch, "Blocked by hardwon")):
        wire: dict[str, Any] = {
            "session_id": "s",
            "cwd": "/home/dev/project",
            "hook_event_name": "PreToolUse",
            "tool_name": tool,
        }
        wire |= {"tool_input": {"command": command}, "tool_use_id": "call_1", "transcript_path": None}
        said = json.loads(house.hook("PreToolUse", json.dumps(wire).encode(), host="codex"))
        assert why in said["hookSpecificOutput"]["permissionDecisionReason"]


def test_an_install_that_ends_halfway_can_be_taken_back_to_the_letter(house: House, files: Files) -> None:
    os.symlink("/proc/nowhere/config.toml", files.config)
    assert house.cli("install", "codex", "--mcp", "--yes").code == 1
    assert os.path.exists(files.hooks)
    os.unlink(files.config)
    house.ok("uninstall", "codex", "--yes")
    assert os.listdir(files.folder) == []


def test_hooks_of_others_behind_ours_keep_their_place_and_the_person_hears_when_they_lose_it(
    house: House, files: Files
) -> None:
    house.ok("install", "codex", "--yes")
    document = json.loads(read_text(files.hooks))
    document["hooks"]["PreToolUse"].append({"hooks": [{"type": "command", "command": "/usr/bin/other"}]})
    files.put(json.dumps(document))
    assert "already installed" in house.ok("install", "codex", "--yes").out
    assert read_text(files.hooks) == json.dumps(document)
    files.put(read_text(files.hooks).replace('"timeout": 10', '"timeout": 11'))
    moved = "Codex asks you to trust other hooks in PreToolUse again"
    assert moved in house.ok("install", "codex", "--yes").out
    assert moved not in house.ok("uninstall", "codex", "--yes").out
    files.put(json.dumps(document))
    assert moved in house.ok("uninstall", "codex", "--yes").out
