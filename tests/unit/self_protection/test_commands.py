"""An agent may read hardwon's files, but may change neither them nor the hooks."""

from __future__ import annotations

import json
import os
from functools import cache
from typing import Any

import pytest

from hardwon.agents import AGENT_NAMES
from hardwon.agents.fields import collect_strings
from hardwon.agents.hook_settings import load_settings
from hardwon.agents.installation import build_hook_command
from hardwon.self_protection.commands import judge_call
from hardwon.types import Event
from tests.support.calls_on_our_files import HARMLESS, MCP_CALLS, UNHOOKING, WRITING

SAMPLE_HOME = "/home/dev/.hardwon"


@cache
def build_settings(name: str) -> str:
    """Return an agent's settings with the hooks of the sample home; building them takes 1 ms for each agent."""
    settings = load_settings(name)
    return settings.add_hooks(settings.empty_settings, build_hook_command(name, SAMPLE_HOME))[0]


@pytest.fixture
def home(own_home: str) -> str:
    """Create a home with hooks in every agent's settings."""
    home = os.path.join(own_home, ".hardwon")
    os.makedirs(os.path.join(home, "claims"))
    for name in AGENT_NAMES:
        write_text(load_settings(name).get_settings_path(), build_settings(name).replace(SAMPLE_HOME, home))
    return home


def write_text(path: str, text: str) -> None:
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w") as file:
        file.write(text)


def judge_command(home: str, command: str, cwd: str = "") -> str:
    person = os.path.dirname(home)
    cwd = cwd or os.path.join(person, "project")
    return judge_call(
        Event("claude-code", "PreToolUse", "s", cwd, tool="Bash", command=command.replace("PERSON/", person + "/")),
        home,
    )


def judge_edit(home: str, tool: str, tool_input: dict[str, Any]) -> str:
    event = Event(
        "claude-code",
        "PreToolUse",
        "s",
        os.path.join(os.path.dirname(home), "project"),
        tool=tool,
        path=str(tool_input.get("file_path", "")),
        content="\n".join(collect_strings(tool_input)),
        input=tool_input,
    )
    return judge_call(event, home)


@pytest.mark.parametrize("command", [*WRITING, *UNHOOKING], ids=lambda command: command[-70:])
def test_a_command_that_writes_our_files_or_hooks_is_denied(home: str, command: str) -> None:
    assert judge_command(home, command)


@pytest.mark.parametrize("command", HARMLESS, ids=lambda command: command[-70:])
def test_a_command_that_reads_or_writes_elsewhere_is_not(home: str, command: str) -> None:
    assert judge_command(home, command) == ""


@pytest.mark.parametrize(("tool", "tool_input", "is_denied"), MCP_CALLS)
def test_a_tool_of_an_mcp_server_may_read_but_not_write(
    home: str, tool: str, tool_input: dict[str, Any], is_denied: bool
) -> None:
    person = os.path.dirname(home)
    filled = json.loads(json.dumps(tool_input).replace("PERSON/", person + "/"))
    assert bool(judge_edit(home, tool, filled)) == is_denied


@pytest.mark.parametrize("command", ["rm lessons.json", "echo 1 > paused", "tar xf /tmp/x.tar", "git clean -fd"])
def test_a_relative_path_counts_from_the_agents_folder(home: str, command: str) -> None:
    assert judge_command(home, command, cwd=home)
    assert judge_command(home, command, cwd=os.path.join(home, "claims"))
    assert not judge_command(home, command)
    assert not judge_command(home, command, cwd=f"{home}-other")


@pytest.mark.parametrize(
    "command",
    [
        "ls",
        "cat lessons.json",
        "jq . lessons.json > /tmp/x",
        'cp lessons.json "$(mktemp -d)/"',
        "cp config.json $SOMEWHERE",
        "grep x lessons.json >/dev/null 2>&1",
        "git log",
        "cd .. && rm notes",
        "hardwon status",
    ],
)
def test_reading_in_the_home_is_allowed(home: str, command: str) -> None:
    assert not judge_command(home, command, cwd=home)


def test_a_linked_home_is_protected_under_both_names(own_home: str, home: str) -> None:
    link = os.path.join(own_home, "link")
    os.symlink(home, link)
    assert judge_command(home, f"rm {link}/lessons.json # hardwon")
    assert judge_command(link, f"rm {home}/lessons.json")
    assert judge_command(link, "rm lessons.json", cwd=home)


def test_a_file_that_is_kept_elsewhere_is_protected_there(own_home: str, home: str) -> None:
    write_text(os.path.join(own_home, "dotfiles", "lessons.json"), "{}")
    os.symlink(os.path.join(own_home, "dotfiles", "lessons.json"), os.path.join(home, "lessons.json"))
    assert judge_command(home, "sed -i s/a/b/ ~/dotfiles/lessons.json")
    assert not judge_command(home, "sed -i s/a/b/ ~/dotfiles/other.json")


@pytest.mark.parametrize("path", ["~/.hardwon/lessons.json", "../.hardwon/paused", "$HOME/.hardwon/x", "~/.hardwon"])
@pytest.mark.parametrize("tool", ["Write", "Edit", "MultiEdit", "NotebookEdit"])
def test_an_edit_below_the_home_is_denied_however_the_path_is_written(home: str, tool: str, path: str) -> None:
    assert judge_edit(home, tool, {"file_path": path, "content": "x"})


def test_a_path_longer_than_the_system_takes_is_judged_by_its_text(home: str) -> None:
    assert judge_edit(home, "Write", {"file_path": f"{home}/{'x/../' * 2000}paused", "content": "x"})
    assert not judge_edit(home, "Write", {"file_path": "/a" * 400_000, "content": "x"})


def read_settings(name: str) -> tuple[str, str]:
    path = load_settings(name).get_settings_path()
    with open(path) as file:
        return path, file.read()


def add_permission(text: str) -> str:
    return json.dumps({"permissions": {"allow": ["Bash(ls)"]}, **json.loads(text)}, indent=4)


@pytest.mark.parametrize("name", ["claude-code", "codex", "gemini"])
def test_settings_may_be_written_if_the_hooks_in_them_stay(home: str, name: str) -> None:
    path, text = read_settings(name)
    assert not judge_edit(home, "Write", {"file_path": path, "content": add_permission(text)})
    assert "Only the user" in judge_edit(home, "Write", {"file_path": path, "content": "{}"})
    remaining_settings = json.loads(text)
    remaining_settings["hooks"].pop(next(iter(remaining_settings["hooks"])))
    assert judge_edit(home, "Write", {"file_path": path, "content": json.dumps(remaining_settings)})
    assert judge_edit(home, "Write", {"file_path": path, "content": text[:-20]}), "broken, so that no hook runs"


@pytest.mark.parametrize(
    ("old", "new", "is_denied"),
    [
        ('{\n  "hooks"', '{\n  "model": "opus",\n  "hooks"', False),
        ('{\n  "hooks"', '{\n  "disableAllHooks": true,\n  "hooks"', True),
        ('{\n  "hooks"', '{\n  "env": {"HARDWON_OFF": "1"},\n  "hooks"', True),
        ('{\n  "hooks"', '{\n  "env": {"EDITOR": "vi"},\n  "hooks"', False),
        ('{\n  "hooks"', '{\n  "hooks_of_before"', True),
        ("/hardwon/hook.py", "/hardwon/hook.pyc", True),
        ('"PreToolUse": [', '"PreToolUse": [{"hooks": [{"type": "command", "command": "lint"}]},', False),
        ('"PreToolUse"', '"PreToolUse2"', True),
        ('"timeout": 1\n', '"timeout": 0\n', True),
        ("not in the file", "at all", False),
    ],
)
def test_an_edit_of_settings_is_judged_by_its_result(home: str, old: str, new: str, is_denied: bool) -> None:
    path, text = read_settings("claude-code")
    assert old in text or old.startswith("not")
    change = {"old_string": old, "new_string": new}
    assert bool(judge_edit(home, "Edit", {"file_path": path, **change})) == is_denied
    assert bool(judge_edit(home, "MultiEdit", {"file_path": path, "edits": [change]})) == is_denied


def test_the_plugin_of_opencode_is_not_edited(home: str) -> None:
    path, text = read_settings("opencode")
    assert judge_edit(home, "Edit", {"file_path": path, "old_string": "const HOOKS = ", "new_string": "const OLD = "})
    assert judge_edit(home, "Write", {"file_path": path, "content": "export default 1"})
    assert not judge_edit(home, "Write", {"file_path": path, "content": text})


def test_an_agent_may_not_revoke_codexs_trust_in_the_hooks(own_home: str, home: str) -> None:
    path = os.path.join(own_home, ".codex", "config.toml")
    key = f"{own_home}/.codex/hooks.json:pre_tool_use:0:0"
    trusting_config = f'model = "o3"\n[hooks.state."{key}"]\ntrusted_hash = "sha256:1"\n'
    write_text(path, trusting_config)
    assert not judge_edit(home, "Write", {"file_path": path, "content": trusting_config.replace("o3", "o4")})
    assert not judge_edit(
        home, "Edit", {"file_path": path, "old_string": "", "new_string": '[mcp_servers.x]\ncommand = "y"'}
    )
    for changed_config in (
        trusting_config.replace("sha256:1", "sha256:2"),
        trusting_config + "enabled = false\n",
        'model = "o3"\n',
        trusting_config + "[features]\nhooks = false\n",
    ):
        assert judge_edit(home, "Write", {"file_path": path, "content": changed_config}), changed_config
    # a patch, of which only the lines are known
    assert judge_edit(home, "Edit", {"file_path": path, "old_string": "model\ntrusted_hash", "new_string": "model"})
    assert judge_edit(home, "Edit", {"file_path": path, "old_string": "", "new_string": "[features]\nhooks = false"})


def test_settings_without_our_hooks_may_be_changed(own_home: str, home: str) -> None:
    path = os.path.join(own_home, "project", ".claude", "settings.local.json")
    other_settings, _ = load_settings("claude-code").add_hooks(
        "{}", build_hook_command("claude-code", "/elsewhere/.hardwon")
    )
    for text in ("{}", '{"hooks": {}}', other_settings):
        write_text(path, text)
        assert not judge_edit(home, "Write", {"file_path": path, "content": "{}"})
        assert not judge_command(home, "rm .claude/settings.local.json")
        assert not judge_command(home, "rm -rf .claude")
    our_settings, _ = load_settings("claude-code").add_hooks("{}", build_hook_command("claude-code", home))
    write_text(path, our_settings)
    assert judge_edit(home, "Write", {"file_path": ".claude/settings.local.json", "content": "{}"})
    assert judge_command(home, "rm .claude/settings.local.json")
    assert judge_command(home, "rm -rf .claude")


@pytest.mark.parametrize(
    ("text", "is_denied"),
    [
        ('{"disableAllHooks": true}', True),
        ('{"env": {"HARDWON_OFF": "1"}}', True),
        ('{"env": {"HARDWON_HOME": "/tmp/x"}}', True),
        ('{"env": {"LANG": "C"}}', False),
    ],
)
@pytest.mark.parametrize("name", ["settings.json", "settings.local.json"])
def test_settings_of_a_project_do_not_turn_hooks_off(home: str, name: str, text: str, is_denied: bool) -> None:
    path = f".claude/{name}"
    assert bool(judge_edit(home, "Write", {"file_path": path, "content": text})) == is_denied
    assert bool(judge_edit(home, "Edit", {"file_path": path, "old_string": "", "new_string": text})) == is_denied
    assert not judge_edit(home, "Write", {"file_path": "docs/settings.json", "content": text})


def test_settings_in_a_configured_folder_are_protected(
    own_home: str, home: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", os.path.join(own_home, "cc"))
    text, _ = load_settings("claude-code").add_hooks("{}", build_hook_command("claude-code", home))
    write_text(load_settings("claude-code").get_settings_path(), text)
    assert judge_command(home, "rm $CLAUDE_CONFIG_DIR/settings.json")
    assert judge_command(home, "echo x > ~/cc/settings.json")


@pytest.mark.parametrize(
    "arguments", ["backup --keep 1", "backup --keep=4", "backup --json --keep 2", "backup --keep $N", "backup --keep"]
)
def test_keeping_fewer_backups_than_usual_is_for_the_user(home: str, arguments: str) -> None:
    assert "Only the user" in judge_command(home, f"hardwon {arguments}")


def test_a_denial_says_what_to_ask_the_user_to_type(home: str) -> None:
    assert judge_command(home, "hardwon accept 1") == (
        "Only the user can do this. Ask them to type, as a prompt or in a terminal: hardwon accept 1"
    )
    assert judge_command(home, "cd x; hardwon pause") == (
        "Only the user can do this. Ask them to type in a terminal: hardwon pause"
    )
    assert judge_command(home, "ls; rm -rf ~/.hardwon/claims") == (
        f"Only the user can change files in {home}. Ask them to type in a terminal: rm -rf ~/.hardwon/claims"
    )
    assert "sqlite3 -readonly" in judge_command(home, "sqlite3 ~/.hardwon/hardwon.db")
    assert "file editing tool" in judge_command(home, "echo {} > ~/.claude/settings.json")
    assert "hardwon uninstall claude-code" in judge_edit(
        home, "Write", {"file_path": "~/.claude/settings.json", "content": ""}
    )


def test_a_denial_repeats_no_control_characters_and_stays_short(home: str) -> None:
    denial = judge_command(home, "rm -rf ~/.hardwon \x1b]0;x\x07 " + "y" * 5000)
    assert denial.isprintable() and len(denial) < 500


@pytest.mark.parametrize(
    "odd_word", ["\ud800", "~\0", "\0", "~\ud800/x", "~nobody-of-that-name/x", "${", "${A:-${B:-", "$", "{}", ""]
)
def test_an_invalid_file_name_does_not_hide_later_words(home: str, odd_word: str) -> None:
    assert judge_command(home, f"rm '{odd_word}' ~/.hardwon/lessons.json")
    assert judge_command(
        home,
        f"X='{odd_word}'; cd '{odd_word}'; tee '{odd_word}' > '{odd_word}'; for f in '{odd_word}'; do rm $f; done; rm ~/.hardwon/x",
    )
    assert not judge_command(home, f"rm '{odd_word}' # hardwon")
    assert not judge_edit(home, "Write", {"file_path": f"/tmp/{odd_word}", "content": ""})
    assert not judge_edit(home, "Write", {"file_path": f"settings{odd_word}/settings.json", "content": ""})
    assert not judge_edit(home, "mcp__fs__write", {"path": f"hardwon{odd_word}"})
