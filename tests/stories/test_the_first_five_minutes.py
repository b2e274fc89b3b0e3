"""The first five minutes: `up` shows value before it asks, and one yes and one no decide everything."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from hardwon.agents.prompt_origin import HOOK_PATH
from tests.support.claude_transcript import TranscriptWriter
from tests.support.handoff_drafts import DraftWriter, create_repository
from tests.support.house import GIT_STASH, House, bash, run_at_terminal, wait_for

AN_AGENT = {"CLAUDECODE": "1"}


@pytest.fixture
def repository(tmp_path: Path, own_home: str) -> Path:
    return create_repository(tmp_path / "kite", own_home)


@pytest.fixture
def mistakes(own_home: str) -> None:
    for _ in range(2):
        TranscriptWriter(own_home).mistake().write()


def test_up_stops_a_mistake_with_one_key_and_connects_the_agent(house: House, own_home: str, mistakes: None) -> None:
    fake = os.path.join(own_home, "bin")
    os.makedirs(fake)
    shutil.copy("/bin/true", os.path.join(fake, "claude"))
    environment = {"PATH": f"{fake}:/usr/bin:/bin", "SHELL": "/bin/bash"}
    screen = run_at_terminal("up", typed="\n\n\ny\n", **environment)
    expected_order = [
        "your agents lost 2 calls to 1 repeatable mistake",
        "Stop it from now on?",
        "adds 10 hooks",
        "history   ",
    ]
    assert [screen.index(words) for words in expected_order] == sorted(screen.index(words) for words in expected_order)
    assert "lessons   1 in force" in screen
    assert house.ask("s1", bash("git log --colour=never", cwd="/home/dev/kite")).denied
    link = Path(own_home, ".local", "bin", "hardwon")
    assert link.is_symlink() and "hardwon completion bash" in Path(own_home, ".bashrc").read_text()
    second_screen = run_at_terminal("up", **{**environment, "PATH": f"{link.parent}:{environment['PATH']}"})
    assert "Claude Code: connected" in second_screen and "?" not in second_screen, (
        "the second time nothing is left to ask"
    )


def test_up_imports_the_history_in_the_background(house: House, mistakes: None) -> None:
    first_run = house.ok("up")
    assert first_run.err == "starting the worker, then reading your agents' transcripts …\n"
    assert "2 transcripts can be imported: hardwon import transcripts" in first_run.out
    assert "importing 2 transcripts in the background" in house.ok("up", "--yes").out
    wait_for(lambda: len(house.ok("sessions", "list", "--json").json()) == 2)


def test_one_yes_and_one_no_for_lessons_memories_and_handoffs(house: House, repository: Path, mistakes: None) -> None:
    house.ok("scan")
    house.ok("memory", "add", "project", "The kite needs wind.", cwd=str(repository), env=AN_AGENT)
    house.ok("memory", "add", "project", "The string is red.", cwd=str(repository), env=AN_AGENT)
    writer = DraftWriter(house, repository)
    writer.write_draft()
    output = house.ok("accept", "L1", "M1", "H1", cwd=str(repository)).out
    assert "in force as a hold" in output and "approved as memory M1" in output and "ratified: " in output
    assert "rejected: memory M2" in house.ok("reject", "M2", cwd=str(repository)).out
    assert "no longer told: handoff H1" in house.ok("undo", "H1").out
    assert "proposed again: L1" in house.ok("undo", "L1").out
    assert "rejected: " in house.ok("reject", "1").out
    writer.connection.close()


def test_the_last_approval_is_taken_back_without_a_name(house: House) -> None:
    house.add(GIT_STASH)
    assert house.ok("undo").out.startswith("retired: ")
    refused = house.cli("undo")
    assert (refused.code, refused.err) == (1, "error: there is nothing to undo\n")


def test_a_retired_lesson_is_accepted_again_by_its_name(house: House) -> None:
    slug = house.add(GIT_STASH)
    assert house.ok("reject", slug).out == f"retired: {slug}\n"
    assert "in force as a" in house.ok("accept", slug).out


@pytest.mark.parametrize("words", [("accept", "M1"), ("reject", "H1"), ("undo",), ("data", "purge", "--text", "kite")])
def test_an_agent_decides_nothing(house: House, words: tuple[str, ...]) -> None:
    refused = house.cli(*words, env=AN_AGENT)
    assert (refused.code, "is for a person" in refused.err) == (1, True)


@pytest.mark.parametrize(
    ("words", "fix"),
    [
        (("serch", "kite"), "hardwon search kite"),
        (("lesson", "list"), "hardwon lessons list"),
        (("lessons", "lst"), "hardwon lessons list"),
        (("xyzzy",), "hardwon --help"),
    ],
)
def test_a_misspelt_command_is_answered_with_the_right_one(house: House, words: tuple[str, ...], fix: str) -> None:
    refused = house.cli(*words)
    misspelt = next(word for word in words if word not in ("lessons",))
    assert (refused.code, refused.err) == (1, f"error: there is no command {misspelt!r}\n  fix: {fix}\n")


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (("accept", "L99"), 1, "there is no proposed lesson L99\n  fix: hardwon scan candidates --all"),
        (("import", "old notes.md"), 1, "name what 'old notes.md' is\n  fix: hardwon import notes 'old notes.md'"),
        (("import", "a.jsonl", "--json"), 1, "fix: hardwon import jsonl a.jsonl --json"),
        (("config", "set", "autoreflect", "false"), 1, "fix: hardwon config set autoReflect false"),
        (("config", "get", "idleMinute"), 1, "fix: hardwon config get idleMinutes"),
        (("config", "get", "xyzzy"), 1, "there is no setting 'xyzzy'\n  fix: hardwon config\n"),
        (("install", "foo"), 2, "invalid value for 'AGENT|timer': 'foo' is not one of 'claude-code', 'codex'"),
        (("install",), 2, "missing argument 'AGENT|timer'. Choose from: claude-code, codex"),
        (("scan", "--host", "foo"), 2, "invalid value for '--agent': 'foo' is not one of 'claude-code', 'codex'"),
        (("--foo",), 2, "no such option '--foo'\n  fix: hardwon --help"),
        (("trust",), 1, "carries no lessons: there is neither .hardwon/lessons.json nor .hardwon/lessons/\n  fix: "),
        (("team", "status"), 1, "this machine is in no team\n  fix: hardwon team join URL CODE, or "),
    ],
)
def test_a_wrong_word_gets_one_error_and_one_fix(house: House, words: tuple[str, ...], code: int, message: str) -> None:
    refused = house.cli(*words)
    assert refused.code == code and message in refused.err
    assert refused.err.startswith("error: ") and len(refused.err.splitlines()) == 2


def test_the_old_name_of_an_option_works_and_is_not_shown(house: House) -> None:
    assert house.ok("scan", "--host", "codex", "--json").json() == house.ok("scan", "--agent", "codex", "--json").json()
    assert "--host" not in house.ok("scan", "--help").out


def test_a_filter_that_nothing_passes_is_named(house: House) -> None:
    assert house.cli("search", "--type", "foo").out.startswith("nothing was found with --type foo in this project")


def test_doctor_does_not_ask_to_repair_what_was_retired(house: House) -> None:
    slug = house.add(GIT_STASH)
    house.ok("reject", slug)
    assert slug not in house.cli("doctor").out


def test_the_commands_of_data_and_worker_have_a_short_form(house: House) -> None:
    assert house.ok("worker", "start").out.startswith("worker running")
    assert house.ok("stop").out == "worker stopped\n"
    assert house.ok("data", "export").out == house.ok("export").out


def test_the_hooks_of_a_removed_hardwon_say_so_once(house: House, own_home: str) -> None:
    house.ok("install", "claude-code", "--yes")
    settings = json.loads(Path(own_home, ".claude", "settings.json").read_text())
    command = settings["hooks"]["SessionStart"][-1]["hooks"][0]["command"]
    notice = Path(house.home, "removed.sh")
    notice.write_text(notice.read_text().replace(HOOK_PATH, "/gone/hook.py"))
    removed = command.replace(sys.executable, "/gone/python").replace(HOOK_PATH, "/gone/hook.py")
    first, second = (subprocess.run(["sh", "-c", removed], capture_output=True, text=True) for _ in range(2))
    assert (first.returncode, "hardwon was removed" in json.loads(first.stdout)["systemMessage"]) == (0, True)
    assert (second.returncode, second.stdout) == (0, "")


def test_the_help_of_a_group_is_not_cut_and_hides_old_names(house: House) -> None:
    for group in ("team", "import", "memory", "handoff", "lessons"):
        shown = house.ok(group, "--help").out
        assert "..." not in shown.partition("Commands:")[2]
    assert " approve " not in house.ok("memory", "--help").out


def test_up_says_where_a_lesson_holds(house: House, mistakes: None) -> None:
    assert "lost in 2 sessions; holds in /home/dev/kite" in house.ok("up").out
