"""An agent may read hardwon's files and change whatever else it likes, but neither those files nor the hooks."""

from __future__ import annotations

import json
import os
from typing import Any

import pytest

from hardwon.agents import AGENT_NAMES
from hardwon.agents.fields import collect_strings
from hardwon.agents.hook_settings import load_settings
from hardwon.agents.installation import build_hook_command
from hardwon.self_protection.commands import judge_call
from hardwon.types import Event
from tests.support.calls_on_our_files import HARMLESS, MCP_CALLS, UNHOOKING, WRITING


@pytest.fixture
def home(own_home: str) -> str:
    """A home with hooks in every agent's settings."""
    home = os.path.join(own_home, ".hardwon")
    os.makedirs(os.path.join(home, "claims"))
    for name in AGENT_NAMES:
        settings = load_settings(name)
        text, _ = settings.add_hooks(settings.empty_settings, build_hook_command(name, home))
        write_text(settings.get_settings_path(), text)
    return home


def write_text(path: str, text: str) -> None:
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w") as file:
        file.write(text)


def judge(home: str, command: str, cwd: str = "") -> str:
    person = os.path.dirname(home)
    cwd = cwd or os.path.join(person, "project")
    return judge_call(
        Event("claude-code", "PreToolUse", "s", cwd, tool="Bash", command=command.replace("PERSON/", person + "/")),
        home,
    )


def edit(home: str, tool: str, tool_input: dict[str, Any]) -> str:
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
    assert judge(home, command)


@pytest.mark.parametrize("command", HARMLESS, ids=lambda command: command[-70:])
def test_a_command_that_reads_or_writes_elsewhere_is_not(home: str, command: str) -> None:
    assert judge(home, command) == ""


@pytest.mark.parametrize(("tool", "tool_input", "is_denied"), MCP_CALLS)
def test_a_tool_of_an_mcp_server_may_read_but_not_write(
    home: str, tool: str, tool_input: dict[str, Any], is_denied: bool
) -> None:
    person = os.path.dirname(home)
    filled = json.loads(json.dumps(tool_input).replace("PERSON/", person + "/"))
    assert bool(edit(home, tool, filled)) == is_denied


@pytest.mark.parametrize("command", ["rm lessons.json", "echo 1 > paused", "tar xf /tmp/x.tar", "git clean -fd"])
def test_a_relative_path_counts_from_where_the_agent_works(home: str, command: str) -> None:
    assert judge(home, command, cwd=home)
    assert judge(home, command, cwd=os.path.join(home, "claims"))
    assert not judge(home, command)
    assert not judge(home, command, cwd=f"{home}-other")


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
def test_reading_in_the_home_itself_stays_free(home: str, command: str) -> None:
    assert not judge(home, command, cwd=home)


def test_a_home_that_is_a_link_is_known_by_both_names(own_home: str, home: str) -> None:
    link = os.path.join(own_home, "link")
    os.symlink(home, link)
    assert judge(home, f"rm {link}/lessons.json # hardwon")
    assert judge(link, f"rm {home}/lessons.json")
    assert judge(link, "rm lessons.json", cwd=home)


def test_a_file_that_is_kept_elsewhere_is_protected_there(own_home: str, home: str) -> None:
    write_text(os.path.join(own_home, "dotfiles", "lessons.json"), "{}")
    os.symlink(os.path.join(own_home, "dotfiles", "lessons.json"), os.path.join(home, "lessons.json"))
    assert judge(home, "sed -i s/a/b/ ~/dotfiles/lessons.json")
    assert not judge(home, "sed -i s/a/b/ ~/dotfiles/other.json")


@pytest.mark.parametrize("path", ["~/.hardwon/lessons.json", "../.hardwon/paused", "$HOME/.hardwon/x", "~/.hardwon"])
@pytest.mark.parametrize("tool", ["Write", "Edit", "MultiEdit", "NotebookEdit"])
def test_an_edit_below_the_home_is_denied_however_the_path_is_written(home: str, tool: str, path: str) -> None:
    assert edit(home, tool, {"file_path": path, "content": "x"})


def test_a_path_longer_than_the_system_takes_is_judged_by_its_text(home: str) -> None:
    assert edit(home, "Write", {"file_path": f"{home}/{'x/../' * 2000}paused", "content": "x"})
    assert not edit(home, "Write", {"file_path": "/a" * 400_000, "content": "x"})


def settings_of(name: str) -> tuple[str, str]:
    path = load_settings(name).get_settings_path()
    with open(path) as file:
        return path, file.read()


def with_permission(text: str) -> str:
    return json.dumps({"permissions": {"allow": ["Bash(ls)"]}, **json.loads(text)}, indent=4)


@pytest.mark.parametrize("name", ["claude-code", "codex", "gemini"])
def test_settings_may_be_written_if_the_hooks_in_them_stay(home: str, name: str) -> None:
    path, text = settings_of(name)
    assert not edit(home, "Write", {"file_path": path, "content": with_permission(text)})
    assert "Only the user" in edit(home, "Write", {"file_path": path, "content": "{}"})
    without_one = json.loads(text)
    without_one["hooks"].pop(next(iter(without_one["hooks"])))
    assert edit(home, "Write", {"file_path": path, "content": json.dumps(without_one)})
    assert edit(home, "Write", {"file_path": path, "content": text[:-20]}), "broken, so that no hook runs"


@pytest.mark.parametrize(
    ("old", "new", "is_denied"),
    [
        ('{\n  "hooks"', '{\n  "model": "opus",\n  "hooks"', False),
        ('{\n  "hooks"', '{\n  "disableAllHooks": true,\n  "hooks"', True),
        ('{\n  "hooks"', '{\n  "hooks_of_before"', True),
        ("/hardwon/hook.py", "/hardwon/hook.pyc", True),
        ('"PreToolUse": [', '"PreToolUse": [{"hooks": [{"type": "command", "command": "lint"}]},', False),
        ('"PreToolUse"', '"PreToolUse2"', True),
        ('"timeout": 1\n', '"timeout": 0\n', True),
        ("not in the file", "at all", False),
    ],
)
def test_an_edit_of_settings_is_judged_by_what_it_leaves(home: str, old: str, new: str, is_denied: bool) -> None:
    path, text = settings_of("claude-code")
    assert old in text or old.startswith("not")
    change = {"old_string": old, "new_string": new}
    assert bool(edit(home, "Edit", {"file_path": path, **change})) == is_denied
    assert bool(edit(home, "MultiEdit", {"file_path": path, "edits": [change]})) == is_denied


def test_the_plugin_of_opencode_is_not_edited(home: str) -> None:
    path, text = settings_of("opencode")
    assert edit(home, "Edit", {"file_path": path, "old_string": "const HOOKS = ", "new_string": "const OLD = "})
    assert edit(home, "Write", {"file_path": path, "content": "export default 1"})
    assert not edit(home, "Write", {"file_path": path, "content": text})


def test_codex_goes_on_trusting_the_hooks(own_home: str, home: str) -> None:
    path = os.path.join(own_home, ".codex", "config.toml")
    key = f"{own_home}/.codex/hooks.json:pre_tool_use:0:0"
    trusted = f'model = "o3"\n[hooks.state."{key}"]\ntrusted_hash = "sha256:1"\n'
    write_text(path, trusted)
    assert not edit(home, "Write", {"file_path": path, "content": trusted.replace("o3", "o4")})
    assert not edit(home, "Edit", {"file_path": path, "old_string": "", "new_string": '[mcp_servers.x]\ncommand = "y"'})
    for other in (
        trusted.replace("sha256:1", "sha256:2"),
        trusted + "enabled = false\n",
        'model = "o3"\n',
        trusted + "[features]\nhooks = false\n",
    ):
        assert edit(home, "Write", {"file_path": path, "content": other}), other
    # a patch, of which only the lines are known
    assert edit(home, "Edit", {"file_path": path, "old_string": "model\ntrusted_hash", "new_string": "model"})
    assert edit(home, "Edit", {"file_path": path, "old_string": "", "new_string": "[features]\nhooks = false"})


def test_settings_without_our_hooks_or_with_those_of_another_home_are_free(own_home: str, home: str) -> None:
    path = os.path.join(own_home, "project", ".claude", "settings.local.json")
    other, _ = load_settings("claude-code").add_hooks("{}", build_hook_command("claude-code", "/elsewhere/.hardwon"))
    for text in ("{}", '{"hooks": {}}', other):
        write_text(path, text)
        assert not edit(home, "Write", {"file_path": path, "content": "{}"})
        assert not judge(home, "rm .claude/settings.local.json")
        assert not judge(home, "rm -rf .claude")
    ours, _ = load_settings("claude-code").add_hooks("{}", build_hook_command("claude-code", home))
    write_text(path, ours)
    assert edit(home, "Write", {"file_path": ".claude/settings.local.json", "content": "{}"})
    assert judge(home, "rm .claude/settings.local.json")
    assert judge(home, "rm -rf .claude")


def test_settings_are_found_where_the_agent_was_told_to_keep_them(
    own_home: str, home: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", os.path.join(own_home, "cc"))
    text, _ = load_settings("claude-code").add_hooks("{}", build_hook_command("claude-code", home))
    write_text(load_settings("claude-code").get_settings_path(), text)
    assert judge(home, "rm $CLAUDE_CONFIG_DIR/settings.json")
    assert judge(home, "echo x > ~/cc/settings.json")


@pytest.mark.parametrize(
    "words", ["backup --keep 1", "backup --keep=4", "backup --json --keep 2", "backup --keep $N", "backup --keep"]
)
def test_keeping_fewer_backups_than_usual_is_for_the_user(home: str, words: str) -> None:
    assert "Only the user" in judge(home, f"hardwon {words}")


def test_a_denial_says_what_to_ask_the_user_to_type(home: str) -> None:
    assert judge(home, "hardwon accept 1") == (
        "Only the user can do this. Ask them to type, as a prompt or in a terminal: hardwon accept 1"
    )
    assert judge(home, "cd x; hardwon pause") == (
        "Only the user can do this. Ask them to type in a terminal: hardwon pause"
    )
    assert judge(home, "ls; rm -rf ~/.hardwon/claims") == (
        f"Only the user can change files in {home}. Ask them to type in a terminal: rm -rf ~/.hardwon/claims"
    )
    assert "sqlite3 -readonly" in judge(home, "sqlite3 ~/.hardwon/hardwon.db")
    assert "file editing tool" in judge(home, "echo {} > ~/.claude/settings.json")
    assert "hardwon uninstall claude-code" in edit(
        home, "Write", {"file_path": "~/.claude/settings.json", "content": ""}
    )


def test_a_denial_repeats_no_control_characters_and_stays_short(home: str) -> None:
    denial = judge(home, "rm -rf ~/.hardwon \x1b]0;x\x07 " + "y" * 5000)
    assert denial.isprintable() and len(denial) < 500


@pytest.mark.parametrize(
    "odd", ["\ud800", "~\0", "\0", "~\ud800/x", "~nobody-of-that-name/x", "${", "${A:-${B:-", "$", "{}", ""]
)
def test_a_word_that_no_file_can_be_called_hides_nothing_behind_it(home: str, odd: str) -> None:
    assert judge(home, f"rm '{odd}' ~/.hardwon/lessons.json")
    assert judge(
        home, f"X='{odd}'; cd '{odd}'; tee '{odd}' > '{odd}'; for f in '{odd}'; do rm $f; done; rm ~/.hardwon/x"
    )
    assert not judge(home, f"rm '{odd}' # hardwon")
    assert not edit(home, "Write", {"file_path": f"/tmp/{odd}", "content": ""})
    assert not edit(home, "Write", {"file_path": f"settings{odd}/settings.json", "content": ""})
    assert not edit(home, "mcp__fs__write", {"path": f"hardwon{odd}"})
