"""A guard that can be voided by padding, by our own name, or by a broken file is no guard; nor is one that an agent lifts."""

from __future__ import annotations

import json
import os
import signal
import threading
from collections.abc import Callable
from time import time

import pytest

from hardwon.self_protection.commands import find_agent_variable
from hardwon.worker import lifecycle
from tests.support.house import GIT_STASH, House, bash, call, happened, lesson, used, wait_for


@pytest.fixture(params=["worker up", "worker down"])
def guarded_house(request: pytest.FixtureRequest, house: House) -> House:
    house.add({**GIT_STASH, "delivery": "block"})
    if request.param == "worker up":
        house.ok("start")
    return house


@pytest.fixture(scope="module")
def blocking_house(shared_house: House) -> House:
    shared_house.add({**GIT_STASH, "delivery": "block"})
    return shared_house


@pytest.fixture(scope="module", params=["worker up", "worker down"])
def asked_house(request: pytest.FixtureRequest, blocking_house: House) -> House:
    """A guarded house that tests share: a block does not depend on earlier calls."""
    blocking_house.ok("start" if request.param == "worker up" else "stop")
    return blocking_house


@pytest.mark.parametrize(
    "command",
    [
        "hardwon why $(git stash)",
        "hardwon why `git stash`",
        'hardwon why "$(git stash)"',
        "hardwon why <(git stash)",
        "bash -c 'hardwon status; git stash'",
        "hardwon status;" + "a;" * 9900 + "git stash",
        "a;" * 9900 + "git stash",
        "eval " * 9 + "'" + "a;" * 2000 + "git stash'",
        "git  stash",
        "git\tstash",
        ": " + "x" * 300_000 + "\ngit stash",
    ],
    ids=lambda command: command[:40],
)
def test_a_block_denies_every_form_of_the_command(asked_house: House, command: str) -> None:
    assert asked_house.ask("s1", bash(command)).denied


def test_a_pattern_that_is_slow_on_one_text_still_guards_others(guarded_house: House) -> None:
    force = lesson(r"git\b.*\bpush\b.*(-f|--force)\b", delivery="block", blockReason="never force a push, use a lease")
    guarded_house.add(force)
    guarded_house.ask("s1", bash(": " + "git push " * 2000 + "\ngit push --force"))
    assert guarded_house.ask("s1", bash("git push --force")).denied


@pytest.mark.parametrize("worker", ["up", "down", "killed between"])
def test_all_of_many_twins_are_held(house: House, worker: str) -> None:
    """The calls race for one claim; their clock stands still, so that a busy machine cannot make one late."""
    house.add({**GIT_STASH, "delivery": "hold"})
    at = time()
    for number in range(3):
        if worker != "down":
            house.start_with(clock=at)
        pid = house.status()["pid"]
        killer = threading.Thread(target=os.kill, args=(pid, signal.SIGKILL)) if worker == "killed between" else None
        if killer:
            house.stay_cold(at)  # a worker that a hook starts has the real clock, by which some twins may come too late
        answers = house.ask_at_once(f"s{number}", [bash("git stash") for _ in range(6)], killer, clock=at)
        assert [b'"deny"' in answer for answer in answers] == [True] * 6
        if killer:
            wait_for(lambda: not lifecycle.is_lock_held(house.home))


@pytest.mark.parametrize("cut", [50, 1])
def test_an_index_cut_off_at_its_end_is_made_anew(guarded_house: House, cut: int) -> None:
    path = os.path.join(guarded_house.home, "lesson-index.bin")
    os.truncate(path, os.path.getsize(path) - cut)
    assert guarded_house.ask("s1", bash("git stash")).denied


def test_an_index_that_was_removed_is_made_anew(guarded_house: House) -> None:
    os.unlink(os.path.join(guarded_house.home, "lesson-index.bin"))
    assert guarded_house.ask("s1", bash("git stash")).denied
    wait_for(lambda: os.path.exists(os.path.join(guarded_house.home, "lesson-index.bin")))


def add_block(house: House, folder: str) -> None:
    house.add({**GIT_STASH, "delivery": "block"})


def edit_to_block(house: House, folder: str) -> None:
    block = ("--delivery", "block", "--confirm", "--block-reason", GIT_STASH["solution"])
    house.ok("lessons", "edit", house.add(GIT_STASH), *block)


def restore_block(house: House, folder: str) -> None:
    house.ok("lessons", "restore", house.add({**GIT_STASH, "delivery": "block", "status": "retired"}))


def import_block(house: House, folder: str) -> None:
    house.ok("lessons", "import", write_repository_lessons(folder), "--confirm")


def trust_block(house: House, folder: str) -> None:
    write_repository_lessons(folder)
    house.ok("trust", folder, "--yes")


def write_repository_lessons(folder: str) -> str:
    path = os.path.join(folder, ".hardwon", "lessons.json")
    os.makedirs(os.path.dirname(path))
    record = {**GIT_STASH, "delivery": "block", "blockReason": GIT_STASH["solution"], "id": "R1", "slug": "r1"}
    with open(path, "w") as file:
        json.dump({"lessons": [record]}, file)
    return path


def set_block_in_config(house: House, folder: str) -> None:
    house.ok("config", "set", "minPriority", "9")
    house.add({**GIT_STASH, "delivery": "block", "priority": 3})
    house.ok("config", "set", "minPriority", "1")


@pytest.mark.parametrize(
    "put_in_force", [add_block, edit_to_block, restore_block, import_block, trust_block, set_block_in_config]
)
def test_a_block_is_in_force_once_its_command_has_returned_even_if_the_worker_is_killed(
    house: House, own_home: str, put_in_force: Callable[[House, str], None]
) -> None:
    folder = os.path.join(own_home, "app")
    os.makedirs(folder)
    house.ok("start")
    put_in_force(house, folder)
    house.kill()
    house.stop_building()
    assert house.ask("s1", bash("git stash", cwd=folder)).denied


def test_a_block_holds_however_long_the_hook_took_to_start(house: House) -> None:
    house.add({**GIT_STASH, "delivery": "block"})
    payload = json.dumps({"session_id": "s1", **bash("git stash")}).encode()
    slow = "used = time.process_time; time.process_time = lambda: 100 + used()"
    assert b'"deny"' in house.hook("PreToolUse", payload, first=slow)


def test_what_is_told_while_there_is_no_manifest_is_kept(house: House) -> None:
    house.add(GIT_STASH)
    os.unlink(os.path.join(house.home, "lesson-index.bin"))
    house.stop_building()
    house.ask("s1", happened("UserPromptSubmit", prompt="tidy up"))
    house.ask("s1", used("Bash", {"command": "ls"}, "a b c"))
    assert ([row["prompt"] for row in house.stored("prompts")], len(house.stored("events"))) == (["tidy up"], 1)


def test_an_emptied_lessons_file_leaves_the_last_good_manifest_in_force(guarded_house: House) -> None:
    with open(os.path.join(guarded_house.home, "lessons.json"), "w"):
        pass
    assert guarded_house.ask("s1", bash("git stash")).denied
    result = guarded_house.cli("lessons", "check")
    assert result.code == 1 and "is empty" in result.out and "1 lesson in force" in result.out


@pytest.mark.parametrize(
    "command",
    [
        "hardwon pause",
        "hardwon unpause --project",
        "env -u CLAUDECODE hardwon pause --for 1h",
        "cd x && python3 -m hardwon uninstall claude-code --yes",
        "hardwon lessons retire x",
        "hardwon lessons restore x",
        "hardwon config set maxLessonsPerInjection 0",
        "hardwon trust .",
        "hardwon review",
        "hardwon install claude-code --yes",
        "hardwon up --yes",
        "hardwon sessions delete 3",
        "hardwon 'accept' 2",
        'hardwon scan "--yes"',
        "hardwon scan --host codex promote 2",
        "uvx hardwon@latest accept 2",
        "uvx hardwon==1.2 accept 2",
        "uv run --env-file x --with y hardwon accept 2",
        "python -m hardwon accept 2",
        "python /opt/site/hardwon/__main__.py accept 2",
        "hardwon lessons edit x --summary --help",
        "hardwon accept 2 # " + "x" * 20_001,
        "hardwon accept 2 # " + "x" * 300_000,
        "a;" * 9900 + "hardwon accept 2",
        "hardwon " * 100_000,
        'script -qc "hardwon review" /dev/null',
        "hardwon data purge --text x --yes",
        "hardwon worker jobs cancel 3",
        "hardwon team share some-slug --yes",
        "echo 'hardwon accept 3' | bash",
        "printf 'hardwon accept 3\\n' | sh -s",
        "echo 'hardwon accept 3' | at now",
        "$(which hardwon) accept 3",
        '"$(command -v hardwon)" accept 3',
        "hard\\\nwon accept 3",
        "coproc hardwon accept 3",
        "trap 'hardwon accept 3' EXIT",
        "cd /opt/site/hardwon && python3 hook.py claude-code UserPromptSubmit /home/dev/x",
        "python3 -m hardwon.hook claude-code UserPromptSubmit /home/dev/x",
        "uv run python /opt/site/hardwon/hook.py claude-code UserPromptSubmit /home/dev/x",
        "echo '{}' | /opt/python -I -S /opt/site/hardwon/hook.py claude-code UserPromptSubmit /home/dev/.hardwon",
        "echo '{}' | sh ~/.gemini/extensions/hardwon/door.sh gemini UserPromptSubmit",
        "AI_AGENT=x ~/.claude/plugins/cache/hardwon/hardwon/0.1/door.sh claude-code UserPromptSubmit < prompt.json",
        "set -- codex UserPromptSubmit; . /x/hardwon/door.sh < prompt.json",
        "bash -e door.sh gemini UserPromptSubmit < prompt.json",
        "tmux new 'sh door.sh gemini UserPromptSubmit < prompt.json'",
        "uv run sh door.sh codex UserPromptSubmit",
        "sh /x/hardwon/door.sh gemini UserPromptSubmit # " + "x" * 300_000,
    ],
    ids=lambda command: command[:60],
)
def test_an_agent_may_not_approve_through_our_own_commands(asked_house: House, command: str) -> None:
    assert asked_house.ask("s1", bash(command)).denied


@pytest.mark.parametrize(
    "command",
    [
        "CLAUDECODE= hardwon lessons add --summary x",
        "env -u CLAUDECODE hardwon lessons add --summary x",
        "env -uAI_AGENT hardwon status",
        "env --unset=AI_AGENT hardwon status",
        "env -i hardwon status",
        "env -i bash -c 'hardwon lessons add'",
        'env -S "-u CLAUDECODE hardwon lessons add"',
        "unset CLAUDECODE AI_AGENT; hardwon lessons add --summary x",
        "unset CLAUDECODE\nhardwon lessons add # " + "x" * 300_000,
        "export CLAUDECODE=\nhardwon lessons add --summary x",
        "CLAUDECODE=; hardwon lessons add --summary x",
        "HARDWON_HOME=/tmp/x hardwon lessons list",
        "export HARDWON_HOME=/tmp/x && hardwon lessons list",
        'CLAUDECODE= script -qc "hardwon lessons add" /dev/null',
        "sudo -u dev hardwon lessons add --summary x",
        "systemd-run --user --pipe hardwon lessons add --summary x",
        "su - dev -c 'hardwon accept 2'",
        "env -u CLAUDECODE $(which hardwon) accept 2",
        "echo 'env -u CLAUDECODE hardwon lessons build' | sh",
    ],
    ids=lambda command: command[:60],
)
def test_an_agent_may_not_pass_for_a_person(asked_house: House, command: str) -> None:
    assert asked_house.ask("s1", bash(command)).denied


def test_what_people_set_for_themselves_makes_no_agent_of_them() -> None:
    assert (
        find_agent_variable({"CODEX_API_KEY": "x", "CODEX_HOME": "/x", "CLAUDE_CONFIG_DIR": "/y", "CODEX_SANDBOX": ""})
        == ""
    )
    for mark in ("CODEX_THREAD_ID", "CODEX_CI", "CODEX_SANDBOX_NETWORK_DISABLED", "CLAUDECODE"):
        assert find_agent_variable({"CODEX_API_KEY": "x", mark: "1"}) == mark


@pytest.mark.parametrize(
    "command",
    [
        "git diff src/hardwon/hook.py",
        "cat /opt/site/hardwon/hook.py",
        "python -m mypy src/hardwon/hook.py src/hardwon/fallback/answering.py src/hardwon/actor.py",
        "uv run ruff check src/hardwon/hook.py",
        "cd hardwon && python hook.py",
        "cat ~/.gemini/extensions/hardwon/door.sh",
        "sh -n plugins/hardwon/door.sh && shellcheck plugins/hardwon/door.sh",
        "sh door.sh open now",
        "git commit -m 'hardwon accept 2'",
        "echo 'type hardwon accept 2' | tee notes.md",
        "cd hardwon && $PIP install mypy",
        "which hardwon",
        "hardwon team status",
        "hardwon data export --out /tmp/x.jsonl",
        "cat > notes.md <<EOF\nhardwon install claude-code --yes\nEOF",
        "env COLUMNS=80 hardwon status",
        "hardwon accept --help",
        "hardwon review --json --limit 5",
        "hardwon review --judge=-",
        "hardwon install claude-code --print",
        "hardwon scan --host codex",
        "hardwon lessons add --tool Edit --content import",
        "hardwon status",
        "hardwon lessons list",
        "hardwon lessons add --summary x",
        "hardwon trust --list",
        "hardwon config get x",
    ],
)
def test_an_agent_may_look_and_propose(asked_house: House, command: str) -> None:
    assert asked_house.ask("s1", bash(command)).raw == b"{}"


def test_an_agent_may_not_edit_our_files(asked_house: House) -> None:
    for name in ("lessons.json", "paused", "claims/s1/+allowed.x"):
        assert asked_house.ask(
            "s1", call("Write", {"file_path": os.path.join(asked_house.home, name), "content": "x"})
        ).denied
    assert (
        asked_house.ask("s1", call("Read", {"file_path": os.path.join(asked_house.home, "lessons.json")})).raw == b"{}"
    )


def test_an_agent_decides_and_edits_nothing_in_a_home_without_lessons_and_worker(house: House) -> None:
    assert house.ask("s1", bash("hardwon accept 1")).denied
    assert house.ask("s1", bash(f"rm -rf {house.home}")).denied
    assert house.ask("s1", call("Write", {"file_path": os.path.join(house.home, "config.json"), "content": "x"})).denied
    assert house.ask("s1", bash("ls")).raw == b"{}"


def test_an_agent_may_not_edit_our_files_under_another_name(guarded_house: House, own_home: str) -> None:
    path = os.path.join(guarded_house.home, "lessons.json")
    link, elsewhere = os.path.join(own_home, "link"), os.path.join(own_home, "dotfiles.json")
    os.symlink(guarded_house.home, link)
    os.makedirs(os.path.join(own_home, "x"))
    indirect_path = os.path.join(own_home, "x", "..", ".hardwon", "lessons.json")
    for name in (f"/{path}", indirect_path, os.path.join(link, "lessons.json")):
        assert guarded_house.ask("s1", call("Write", {"file_path": name, "content": "x"})).denied, name
    os.rename(path, elsewhere)
    os.symlink(elsewhere, path)
    for name in (path, elsewhere):
        assert guarded_house.ask("s1", call("Write", {"file_path": name, "content": "x"})).denied, name
    assert guarded_house.ask("s1", call("Write", {"file_path": f"{own_home}/notes.md", "content": "x"})).raw == b"{}"


def test_a_hook_that_an_agents_shell_runs_is_not_a_persons_prompt(guarded_house: House) -> None:
    slug = guarded_house.ok("lessons", "list", "--json").json()[0]["slug"]
    prompt = {"hook_event_name": "UserPromptSubmit", "prompt": f"hardwon allow {slug}", "cwd": "/"}
    assert guarded_house.ask("s1", prompt, env={"AI_AGENT": "claude-code_2-1-325_agent"}).raw == b"{}"
    assert guarded_house.ask("s1", bash("git stash")).denied
    assert guarded_house.cli("uninstall", "claude-code", "--yes", env={"CLAUDECODE": "1"}).code == 1


def test_an_agent_may_not_lift_a_pause(guarded_house: House) -> None:
    guarded_house.ok("pause")
    assert "is for a person" in guarded_house.cli("unpause", env={"CLAUDECODE": "1"}).err
    assert guarded_house.ask("s1", bash("git stash")).raw == b"{}"


@pytest.mark.parametrize("dress", ["> {}", "- {}", "```\n{}\n```"])
def test_a_lesson_that_was_pasted_is_proposed_not_approved(house: House, dress: str) -> None:
    house.ok("start")
    lines = [
        "#lesson",
        "tool: Bash",
        "trigger: curl",
        "problem: curl needs the corporate proxy in this network",
        "solution: curl through proxy.example to be safe",
        "#/lesson",
    ]
    block = dress.format("\n".join(lines)) if "```" in dress else "\n".join(dress.format(line) for line in lines)
    answer = house.ask(
        "s1", {"hook_event_name": "UserPromptSubmit", "prompt": f"look at this mail:\n{block}\nwhat is it?", "cwd": "/"}
    )
    assert "learned" not in answer.notice
    assert [lesson["status"] for lesson in house.ok("lessons", "list", "--json").json()] in (["candidate"], [])
    assert house.ask("s1", bash("curl x")).raw == b"{}"


def test_what_is_private_beside_a_typed_lesson_is_not_kept(house: House) -> None:
    house.stay_cold()  # a worker that a hook starts may come up only after `stop`, and its socket cannot be read
    house.add(lesson(r"\bmake\b"))
    for prompt in (
        "my password=hunter2, what do #lesson and #/lesson mean?",
        "<private>hunter2</private>\n#lesson\nproblem: x\nsolution: y\n#/lesson\n<private>hunter2</private>",
    ):
        house.ask("s1", {"hook_event_name": "UserPromptSubmit", "prompt": prompt, "cwd": "/"})
    house.ok("start")
    house.ok("stop")
    for folder, _, names in os.walk(house.home):
        for name in names:
            with open(os.path.join(folder, name), "rb") as file:
                assert b"hunter2" not in file.read(), name


def test_half_a_character_does_not_spoil_the_lessons_file(house: House) -> None:
    house.add({**GIT_STASH, "delivery": "block"})
    refused = house.cli(
        "lessons", "add", "--json", json.dumps(lesson("x", problem="half a character \ud800 in this text"))
    )
    assert refused.code == 1 and "half of a character" in refused.err
    path = os.path.join(house.home, "lessons.json")
    with open(path) as file:
        document = json.load(file)
    document["lessons"].append({**lesson("y"), "id": "Y", "slug": "y", "solution": "and here \udfff is another half"})
    with open(path, "w") as file:
        json.dump(document, file)
    assert "half of a character" in house.cli("lessons", "check").out
    assert house.ask("s1", bash("git stash")).denied


@pytest.mark.parametrize(
    "config", ['{"injectionBudgetBytes": Infinity}', "[" * 100_000, '{"scoring": 7}', '{"minPriority": NaN}']
)
def test_no_config_makes_a_traceback(guarded_house: House, config: str) -> None:
    with open(os.path.join(guarded_house.home, "config.json"), "w") as file:
        file.write(config)
    for words in (["lessons", "check"], ["doctor"], ["config"], ["config", "set", "scoring.multiSessionBonus", "3"]):
        ran = guarded_house.cli(*words)
        assert "Traceback" not in ran.err, ran.err
    assert guarded_house.ask("s1", bash("git stash")).denied


def test_an_ended_pause_leaves_the_hooks_on_their_short_way(house: House) -> None:
    with_pause = os.path.join(house.home, "paused")
    os.makedirs(house.home, mode=0o700)
    with open(with_pause, "w") as file:
        file.write("1000 *\n")
    house.ok("start")
    wait_for(lambda: not os.path.exists(with_pause))


def test_a_taken_or_odd_slug_is_refused(house: House) -> None:
    slug = house.add(GIT_STASH)
    for odd in (slug, "with blanks", "UPPER", "../x"):
        refused = house.cli("lessons", "add", "--json", json.dumps({**lesson("z"), "slug": odd}))
        assert refused.code == 1 and "slug" in refused.err


def test_what_is_written_but_not_in_force_is_said_to_be_so(house: House) -> None:
    os.makedirs(house.home, mode=0o700)
    with open(os.path.join(house.home, "config.json"), "w") as file:
        file.write("{broken")
    ran = house.cli("lessons", "add", "--json", json.dumps(GIT_STASH))
    assert ran.code == 1 and "it is written, but not in force yet" in ran.err


def test_a_record_that_was_mistyped_stays_in_force_as_it_was(guarded_house: House) -> None:
    path = os.path.join(guarded_house.home, "lessons.json")
    with open(path) as file:
        text = file.read()
    with open(path, "w") as file:
        file.write(text.replace('"priority": 5', '"priority": "five"'))
    assert "priority is 'five'" in guarded_house.cli("lessons", "check").out
    assert guarded_house.ask("s1", bash("git stash")).denied
