"""Installing shows what it changes, changes nothing else, and can be undone to the letter."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from typing import Any

import pytest

from tests.support.house import GIT_STASH, House, bash, run_at_terminal
from tests.support.text_files import read_text, write_text

SOMEBODY_ELSES = """{
\t"model": "opus",   "cleanupPeriodDays": 1e2,
\t"hooks": {
\t\t"PreToolUse": [ {"matcher": "Bash", "hooks": [{"type": "command", "command": "/usr/local/bin/other"}]} ]
\t},
\t"note": "caf\\u00e9"
}"""


@pytest.fixture
def settings_path(own_home: str) -> str:
    path = os.path.join(own_home, ".claude", "settings.json")
    os.makedirs(os.path.dirname(path))
    return path


def list_commands(path: str, event: str) -> list[str]:
    hooks: list[dict[str, Any]] = json.loads(read_text(path))["hooks"][event]
    return [hook["command"] for entry in hooks for hook in entry["hooks"]]


@pytest.mark.parametrize("original", [SOMEBODY_ELSES, "{}", "{\n}\n", '{"hooks": {}}', '{"a":1}', ""])
def test_uninstalling_leaves_every_byte_as_it_was(house: House, settings_path: str, original: str) -> None:
    write_text(settings_path, original)
    house.ok("install", "claude-code", "--yes")
    assert list_commands(settings_path, "PreToolUse")[-1].endswith(f"claude-code PreToolUse {house.home} || :")
    house.ok("uninstall", "claude-code", "--yes")
    assert read_text(settings_path) == original


def test_without_a_settings_file_one_is_made_and_taken_away_again(house: House, settings_path: str) -> None:
    house.ok("install", "claude-code", "--yes")
    assert set(json.loads(read_text(settings_path))) == {"hooks"}
    house.ok("uninstall", "claude-code", "--yes")
    assert not os.path.exists(settings_path)


def test_what_the_person_edits_meanwhile_stays(house: House, settings_path: str) -> None:
    write_text(settings_path, SOMEBODY_ELSES)
    house.ok("install", "claude-code", "--yes")
    write_text(settings_path, read_text(settings_path).replace('"opus"', '"sonnet"'))
    house.ok("uninstall", "claude-code", "--yes")
    assert read_text(settings_path) == SOMEBODY_ELSES.replace('"opus"', '"sonnet"')


def test_installing_twice_changes_nothing_the_second_time(house: House, settings_path: str) -> None:
    write_text(settings_path, SOMEBODY_ELSES)
    house.ok("install", "claude-code", "--yes")
    once = read_text(settings_path)
    assert "already installed" in house.ok("install", "claude-code", "--yes").out
    assert read_text(settings_path) == once


def test_another_versions_hooks_are_replaced_not_doubled(house: House, settings_path: str) -> None:
    write_text(settings_path, SOMEBODY_ELSES)
    house.ok("install", "claude-code", "--yes")
    write_text(settings_path, read_text(settings_path).replace(" -I -S ", " -I -S -u "))
    house.ok("install", "claude-code", "--yes")
    assert len(list_commands(settings_path, "PreToolUse")) == 2 and " -u " not in read_text(settings_path)
    house.ok("uninstall", "claude-code", "--yes")
    assert read_text(settings_path) == SOMEBODY_ELSES


def test_an_agent_may_not_point_the_hooks_at_another_home(house: House, settings_path: str, own_home: str) -> None:
    house.ok("install", "claude-code", "--yes")
    settings_before = read_text(settings_path)
    env = {"CLAUDECODE": "1", "HARDWON_HOME": os.path.join(own_home, "empty")}
    refused = house.cli("install", "claude-code", "--yes", env=env)
    assert (refused.code, "for a person" in refused.err, read_text(settings_path)) == (1, True, settings_before)
    assert "already installed" in house.ok("install", "claude-code", "--yes", env={"CLAUDECODE": "1"}).out


def test_an_agent_may_install_where_nothing_of_ours_is(house: House, settings_path: str) -> None:
    write_text(settings_path, SOMEBODY_ELSES)
    house.ok("install", "claude-code", "--yes", env={"CLAUDECODE": "1"})
    assert "hook.py claude-code PreToolUse" in read_text(settings_path)


def test_the_change_is_shown_and_a_copy_is_kept(house: House, settings_path: str) -> None:
    write_text(settings_path, SOMEBODY_ELSES)
    assert "+" in house.ok("install", "claude-code", "--print").out
    output = house.ok("install", "claude-code", "--yes").out
    assert f"Claude Code: adds 10 hooks to {settings_path}" in output and "hook.py" not in output
    [copy] = os.listdir(os.path.join(house.home, "backups"))
    assert read_text(os.path.join(house.home, "backups", copy)) == SOMEBODY_ELSES


def test_print_changes_nothing(house: House, settings_path: str) -> None:
    write_text(settings_path, SOMEBODY_ELSES)
    assert "hook.py claude-code PreToolUse" in house.ok("install", "claude-code", "--print").out
    assert read_text(settings_path) == SOMEBODY_ELSES


def test_without_a_terminal_and_without_yes_nothing_is_changed(house: House, settings_path: str) -> None:
    write_text(settings_path, SOMEBODY_ELSES)
    refused = house.cli("install", "claude-code")
    assert (refused.code, "--yes" in refused.err, read_text(settings_path)) == (1, True, SOMEBODY_ELSES)


@pytest.mark.parametrize(
    ("broken", "location"),
    [
        ('{\n  "a": 1,\n}', "line "),
        ('{"a": 1', "line 1"),
        ("[]", ""),
        ('{"hooks": []}', "hooks"),
    ],
)
def test_settings_that_cannot_be_read_are_refused_and_left_alone(
    house: House, settings_path: str, broken: str, location: str
) -> None:
    write_text(settings_path, broken)
    refused = house.cli("install", "claude-code", "--yes")
    assert (refused.code, read_text(settings_path)) == (1, broken)
    assert settings_path in refused.err and location in refused.err and "fix:" in refused.err


def test_for_a_project_only_the_uncommitted_file_is_written(house: House, settings_path: str, own_home: str) -> None:
    project = os.path.join(own_home, "project")
    os.makedirs(os.path.join(project, "src"))
    subprocess.run(["git", "init", "-q", project], check=True)
    house.ok("install", "claude-code", "--project", "--yes", cwd=os.path.join(project, "src"))
    assert os.listdir(os.path.join(project, ".claude")) == ["settings.local.json"]
    assert not os.path.exists(settings_path)
    house.ok("uninstall", "claude-code", "--project", "--yes", cwd=project)
    assert os.listdir(os.path.join(project, ".claude")) == []


def test_the_agents_own_folder_setting_is_honoured(house: House, own_home: str) -> None:
    elsewhere = os.path.join(own_home, "elsewhere")
    house.ok("install", "claude-code", "--yes", env={"CLAUDE_CONFIG_DIR": elsewhere})
    assert os.listdir(elsewhere) == ["settings.json"]


def test_a_linked_settings_file_stays_a_link(house: House, settings_path: str, own_home: str) -> None:
    link_target = os.path.join(own_home, "dotfiles.json")
    write_text(link_target, "{}")
    os.symlink(link_target, settings_path)
    house.ok("install", "claude-code", "--yes")
    assert os.path.islink(settings_path) and "hook.py" in read_text(link_target)


def test_with_the_program_absent_it_says_so_and_works(house: House, settings_path: str) -> None:
    assert "not on the PATH" in house.ok("install", "claude-code", "--yes", env={"PATH": "/usr/bin:/bin"}).out


def test_the_installed_command_runs_in_a_plain_shell_from_anywhere(house: House, settings_path: str) -> None:
    house.add({**GIT_STASH, "delivery": "block"})
    house.ok("install", "claude-code", "--yes")
    payload = json.dumps({"session_id": "s1", **bash("git stash")})
    run = subprocess.run(
        ["/bin/sh", "-c", list_commands(settings_path, "PreToolUse")[0]],
        input=payload,
        capture_output=True,
        text=True,
        cwd="/",
        env={},
    )
    assert (run.returncode, "git stash -u" in run.stdout, run.stderr) == (0, True, "")


def test_with_the_package_gone_the_installed_command_still_exits_0(
    house: House, settings_path: str, own_home: str
) -> None:
    house.ok("install", "claude-code", "--yes")
    command = list_commands(settings_path, "PreToolUse")[0].replace("/hardwon/hook.py", "/hardwon/gone.py")
    run = subprocess.run(["/bin/sh", "-c", command], input="{}", capture_output=True, text=True)
    assert (run.returncode, run.stdout) == (0, "")


def test_doctor_runs_the_installed_hook_and_times_it(house: House, settings_path: str) -> None:
    house.ok("install", "claude-code", "--yes")
    house.ok("start")
    checks = {check["name"]: check for check in house.ok("doctor", "--json").json()}
    assert checks["hooks"]["well"] is True
    assert "an empty interpreter" in checks["hook"]["found"]


def test_doctor_names_a_hook_that_cannot_run(house: House, settings_path: str) -> None:
    house.ok("install", "claude-code", "--yes")
    write_text(
        settings_path,
        read_text(settings_path).replace("/hardwon/hook.py claude-code PreToolUse", "/hardwon/hook.pyx PreToolUse"),
    )
    write_text(settings_path, read_text(settings_path).replace("hook.pyx", "hook.py"))
    result = house.cli("doctor", "--json")
    failed_checks = [check["name"] for check in json.loads(result.out) if check["well"] is False]
    assert (result.code, failed_checks) == (1, ["hooks", "hook"])


def test_up_starts_the_worker_and_without_a_terminal_changes_no_agent(
    house: House, settings_path: str, own_home: str
) -> None:
    fake = os.path.join(own_home, "bin")
    os.makedirs(fake)
    shutil.copy("/bin/true", os.path.join(fake, "claude"))
    output = house.ok("up", env={"PATH": f"{fake}:{os.environ['PATH']}"}).out
    assert "hardwon install claude-code" in output and house.home in output
    assert house.status()["running"] and not os.path.exists(settings_path)


def test_a_hardwon_that_no_agent_can_call_by_name_is_told_with_what_helps(house: House, own_home: str) -> None:
    for command in ("up", "doctor"):
        output = house.cli(command, env={"PATH": "/usr/bin:/bin"}).out
        assert "hardwon is not on the PATH" in output and "/hardwon ~/.local/bin/" in output
    fake = os.path.join(own_home, "bin")
    os.makedirs(fake)
    shutil.copy("/bin/true", os.path.join(fake, "hardwon"))
    assert "by name" not in house.ok("up", env={"PATH": f"{fake}:/usr/bin:/bin"}).out


def test_an_agent_that_is_too_old_is_told_when_its_hooks_go_in(house: House, own_home: str) -> None:
    fake = os.path.join(own_home, "bin")
    os.makedirs(fake)
    write_text(program := os.path.join(fake, "codex"), "#!/bin/sh\necho codex-cli 0.20.1\n")
    os.chmod(program, 0o755)
    output = house.ok("install", "codex", "--yes", env={"PATH": f"{fake}:/usr/bin:/bin"}).out
    assert "version 0.20.1, is too old: hooks are known to work from " in output and "installed in" in output


def test_up_goes_on_past_settings_that_cannot_be_read(house: House, settings_path: str) -> None:
    write_text(settings_path, "mine\n{}")
    output = house.ok("up", "--yes").out
    assert f"Claude Code: {settings_path}: line 1, column 1: expecting value; repair it" in output
    assert "hardwon view" in output and house.status()["running"]


def test_up_at_a_terminal_shows_what_it_would_change_before_it_asks(
    house: House, settings_path: str, own_home: str
) -> None:
    fake = os.path.join(own_home, "bin")
    os.makedirs(fake)
    shutil.copy("/bin/true", os.path.join(fake, "claude"))
    for typed, is_installed in (("n\nn\n", False), ("d\ny\nn\n", True)):
        screen = run_at_terminal("up", typed=typed, PATH=f"{fake}:{os.environ['PATH']}", SHELL="")
        assert 0 < screen.index("Claude Code: adds 10 hooks to") < screen.index("Make this change?")
        assert ("hook.py claude-code PreToolUse" in screen) is is_installed, "the difference is shown on request"
        assert os.path.exists(settings_path) is is_installed
