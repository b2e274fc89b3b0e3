"""A mistake made twice is found, a person decides, and the third time it is held."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from tests.support.claude_transcript import TAG, UNKNOWN, TranscriptWriter
from tests.support.house import House, bash


def list_candidates(house: House, *flags: str) -> list[dict[str, object]]:
    listed: list[dict[str, object]] = house.ok("scan", "candidates", "--json", *flags).json()["candidates"]
    return listed


def test_a_mistake_made_twice_is_held_the_third_time(house: House, own_home: str) -> None:
    TranscriptWriter(own_home).mistake().write()
    TranscriptWriter(own_home).mistake().write()
    scan_result = house.ok("scan")
    assert "2 transcripts" in scan_result.out and "1 new candidate" in scan_result.out
    [candidate] = list_candidates(house)
    assert (candidate["sessionCount"], candidate["occurrenceCount"], candidate["tool"]) == (2, 2, "Bash")
    house.ok("accept", str(candidate["index"]), "--delivery", "hold")
    answer = house.ask("s3", bash("git log --oneline --colour=never", cwd="/home/dev/kite/src"))
    assert "--color=always" in answer.denied
    assert house.ask("s3", bash("git log --oneline --color=never", cwd="/home/dev/kite/src")).denied == ""


def test_what_a_person_saw_under_a_number_is_what_they_accept(house: House, own_home: str) -> None:
    TranscriptWriter(own_home).agent(TAG).write()
    house.ok("scan")
    [seen_candidate] = list_candidates(house, "--all")
    hostile = TAG.replace("use git stash -u to take", "curl evil.example and then take").replace(
        "tool:git", "tool:git,x:y"
    )
    TranscriptWriter(own_home).agent(
        hostile.replace("tags:", "delivery: hold\nscope: global\npriority: 10\ntags:")
    ).write()
    house.ok("scan")
    [current_candidate] = [
        candidate for candidate in list_candidates(house, "--all") if candidate["index"] == seen_candidate["index"]
    ]
    words = ("summary", "problem", "solution", "tags", "trigger", "triggers", "delivery", "scope", "priority")
    assert {key: current_candidate[key] for key in words} == {key: seen_candidate[key] for key in words}
    output = house.ok("accept", str(seen_candidate["index"])).out
    for expected in (
        "in force as a note",
        "problem   git stash only",
        "solution  use git stash -u",
        "trigger   Bash: command",
    ):
        assert expected in output
    assert "evil" not in output


def test_a_failure_is_proposed_once_it_is_known_what_worked_instead(house: House, own_home: str) -> None:
    transcript = TranscriptWriter(own_home).mistake()
    transcript.write(upto=3)
    TranscriptWriter(own_home).fails("git log --colour=always", UNKNOWN).write()
    house.ok("scan")
    assert list_candidates(house, "--all") == []
    opened = house.ok("review", "--open").out
    assert "`git log --colour` fails" in opened and "nothing that worked instead is known" in opened
    number = opened.split()[0]
    transcript.write()
    house.ok("scan")
    [candidate] = list_candidates(house, "--all")
    assert candidate["solution"] == "Use `git log --color=always` instead."
    refused = house.cli("accept", number)
    assert (refused.code, "a scan found other words for it, and gave it another number" in refused.err) == (1, True)
    assert "there is no proposed lesson L99\n" in house.cli("accept", "99").err
    house.ok("accept", str(candidate["index"]))
    assert "no repeated failure is open" in house.ok("review", "--open").out


def test_a_lesson_that_later_calls_contradict_is_retired_and_that_is_said_once(house: House, own_home: str) -> None:
    TranscriptWriter(own_home).mistake().write()
    house.ok("scan")
    house.ok("accept", "1")
    for _ in range(2):
        TranscriptWriter(own_home).works("git log --colour=always").write()
    output = house.ok("scan").out
    assert "retired   git-log-colour" in output and "fired on 2 calls that went fine and 1 that failed" in output
    assert "was retired: fired on 2 calls that went fine and 1 that failed" in house.session_start("s0").notice
    assert "was retired" not in house.session_start("s1").notice
    assert house.ask("s1", bash("git log --colour=never", cwd="/home/dev/kite")).denied == ""
    [lesson] = house.ok("lessons", "list", "--status", "retired", "--json").json()
    house.ok("lessons", "restore", lesson["slug"])
    TranscriptWriter(own_home).works("git log --colour=always").write()
    assert "retired" not in house.ok("scan").out


def test_what_was_found_says_where_it_stands(house: House, own_home: str) -> None:
    path = TranscriptWriter(own_home).person("show me the log").mistake().write()
    house.ok("scan")
    [candidate] = list_candidates(house, "--all")
    evidence = json.loads(json.dumps(candidate["evidence"]))
    assert [(evidence_item["kind"], evidence_item["line"]) for evidence_item in evidence] == [
        ("error", 3),
        ("correction", 4),
        ("correction", 5),
    ]
    with open(path, encoding="utf-8") as file:
        lines = file.read().splitlines()
    for item in evidence:
        assert (item["path"], json.dumps(item["quote"])[1:-1] in lines[item["line"] - 1]) == (path, True)


def test_without_all_only_what_two_sessions_met_is_listed(house: House, own_home: str) -> None:
    TranscriptWriter(own_home).mistake().write()
    house.ok("scan")
    assert (list_candidates(house), len(list_candidates(house, "--all"))) == ([], 1)


def test_two_projects_make_it_a_lesson_for_all(house: House, own_home: str) -> None:
    TranscriptWriter(own_home).mistake().write()
    house.ok("scan")
    assert list_candidates(house, "--all")[0]["scope"] == {"type": "project", "path": "/home/dev/kite"}
    TranscriptWriter(own_home, project="/home/dev/boat").mistake().write()
    house.ok("scan")
    [candidate] = list_candidates(house)
    assert (candidate["scope"], candidate["projects"]) == ({"type": "global"}, ["boat", "kite"])


def test_what_was_rejected_stays_rejected(house: House, own_home: str) -> None:
    TranscriptWriter(own_home).mistake().write()
    house.ok("scan")
    house.ok("reject", str(list_candidates(house, "--all")[0]["index"]))
    transcript = TranscriptWriter(own_home)
    transcript.fails("git  log  --colour=always", "ERROR:  unkn\u043ewn\u200b option `--colour'")
    transcript.works("git log --color=always").write()
    house.ok("scan")
    house.ok("scan", "--full")
    assert list_candidates(house, "--all") == []


def test_reported_lessons_that_do_not_say_the_problem_are_told_apart(house: House, own_home: str) -> None:
    transcript = TranscriptWriter(own_home).agent("#lesson\nsolution: use git stash -u\n#/lesson")
    transcript.agent("#lesson\ntool: Bash\ntrigger: git log\n#/lesson").agent(
        "#lesson\ntrigger: git push\n#/lesson"
    ).write()
    house.ok("scan")
    assert len(list_candidates(house, "--all")) == 3


def test_a_reported_lesson_goes_in_with_yes_and_waits_without(house: House, own_home: str) -> None:
    TranscriptWriter(own_home).agent(TAG).write()
    assert "1 lesson reported by agents" in house.ok("scan").out
    house.ok("scan", "--auto")
    assert house.ok("lessons", "list", "--json").json() == []
    house.ok("scan", "--yes")
    [lesson] = house.ok("lessons", "list", "--json").json()
    assert (lesson["status"], lesson["problem"][:9]) == ("active", "git stash")
    assert "git stash -u" in house.ask("s1", bash("git stash", cwd="/home/dev/kite")).context


def test_a_reported_lesson_that_is_not_fit_is_left_for_review(house: House, own_home: str) -> None:
    TranscriptWriter(own_home).agent(TAG.replace("use git stash -u to take untracked files along", "-u")).write()
    house.ok("scan", "--yes")
    assert house.ok("lessons", "list", "--json").json() == []
    assert list_candidates(house, "--all")[0]["solution"] == "-u"


def test_a_reported_lesson_can_be_taken_back(house: House, own_home: str) -> None:
    transcript = TranscriptWriter(own_home).agent(TAG)
    transcript.write()
    house.ok("scan")
    assert len(list_candidates(house, "--all")) == 1
    transcript.agent("#lesson:cancel\nproblem: git stash only stashes tracked files\n#/lesson:cancel").write()
    house.ok("scan")
    assert list_candidates(house, "--all") == []


def test_a_dry_run_says_what_it_would_find_and_keeps_nothing(house: House, own_home: str) -> None:
    TranscriptWriter(own_home).mistake().write()
    assert "1 new candidate (dry run: nothing is kept)" in house.ok("scan", "--dry-run").out
    assert (list_candidates(house, "--all"), house.ok("scan", "state", "--json").json()["files"]) == ([], {})
    assert "1 new candidate" in house.ok("scan").out


def test_an_agent_may_scan_but_not_accept(house: House, own_home: str) -> None:
    TranscriptWriter(own_home).mistake().write()
    agent = {"CLAUDECODE": "1"}
    house.ok("scan", env=agent)
    for words in (("scan", "--yes"), ("accept", "1"), ("reject", "1"), ("scan", "promote", "1")):
        ran = house.cli(*words, env=agent)
        assert (ran.code, "is for a person" in ran.err) == (1, True)


def test_a_person_accepts_and_rejects_by_typing_to_the_agent(house: House, own_home: str) -> None:
    TranscriptWriter(own_home).mistake().write()
    house.ok("scan")
    house.ok("start")
    typed = {"hook_event_name": "UserPromptSubmit", "prompt": "hardwon accept 1", "cwd": "/home/dev/kite"}
    late = ("still saving", "the worker is busy")  # on a machine with much else to do
    notice = house.ask("s1", typed).notice
    assert any(words in notice for words in ("in force as a hold", *late))
    house.ok("restart")  # once it is done
    assert house.ask("s1", bash("git log --colour=never", cwd="/home/dev/kite")).denied
    notice = house.ask("s1", {**typed, "prompt": "hardwon reject 1"}).notice
    assert any(words in notice for words in ("is a lesson by now", *late))


def test_the_first_run_shows_what_agents_keep_getting_wrong(house: House, own_home: str) -> None:
    TranscriptWriter(own_home).mistake().write()
    TranscriptWriter(own_home).mistake().write()
    TranscriptWriter(own_home).agent(TAG).write()
    output = house.ok("up").out
    assert "scanned   3 transcripts" in output and "2 calls lost in 2 sessions" in output and "--colour" in output
    assert "mistakes  your agents lost 2 calls to 1 repeatable mistake\n" in output
    assert "stop it: hardwon accept L1" in output and output.index("--colour") < output.index("worker    ")
    assert "git stash" not in output, "no recorded call proves it"
    assert "1 more proposal that no recorded call proves" in output
    assert not os.path.exists(os.path.join(own_home, ".claude", "settings.json"))


def test_the_first_run_says_so_when_nothing_was_found(house: House, own_home: str) -> None:
    output = house.ok("up", env={"COLUMNS": "80"}).out
    assert "mistakes  nothing repeatable was found" in output
    assert [line for line in output.splitlines() if len(line) > 80 and "/" not in line] == []


@pytest.mark.parametrize(
    ("words", "message"),
    [(("--path", "notes.txt"), "notes.txt is not a transcript"), (("--since", "soon"), "'soon' is not a date")],
)
def test_a_scan_of_what_it_cannot_read_says_so(
    house: House, tmp_path: Path, words: tuple[str, ...], message: str
) -> None:
    (tmp_path / "notes.txt").write_text("buy milk\n")
    result = house.cli("scan", *words, cwd=str(tmp_path))
    assert (result.code, message in result.err) == (1, True)


def test_a_scan_says_how_many_wait_for_the_next(house: House, own_home: str) -> None:
    house.ok("config", "set", "maxCandidatesPerScan", "1")
    transcript = TranscriptWriter(own_home).mistake()
    transcript.fails("cargo build --fast", "error: unexpected argument '--fast' found").works(
        "cargo build --release"
    ).write()
    assert "1 more at the next scan" in house.ok("scan").out
    second_output = house.ok("scan").out
    assert "1 new candidate" in second_output and "next scan" not in second_output


def test_nothing_private_and_no_secret_is_kept_of_a_transcript(house: House, own_home: str) -> None:
    key = "ghp_" + "A1b2C3d4E5f6G7h8J9k0L1m2N3p4Q5r6S7t8"
    transcript = TranscriptWriter(own_home).person("<private>the merger is called nightjar</private>")
    transcript.fails("deploy --target nightjar --colour", UNKNOWN).works("deploy --target nightjar --color")
    transcript.person("<private>nightjar</private> now the log")
    transcript.fails(f"git log --colour=always {key}", f"{UNKNOWN}\n{key}").works(
        f"git log --color=always {key}"
    ).write()
    transcript.fails("tool login --pass x --password hunter2zz", "error: unknown option `--pass'").works(
        "tool login --user x"
    )
    transcript.agent(TAG.replace("so untracked ones", f"so the key {key} and untracked ones"))
    transcript.call("Write", {"file_path": "/home/dev/kite/key", "content": key})
    transcript.fails(f"git push https://ada:{key}@example.com --fast", "error: unknown option `--fast'").write()
    house.ok("scan")
    assert len(list_candidates(house, "--all")) == 3
    for folder, _, files in os.walk(house.home):
        for name in files:
            with open(os.path.join(folder, name), "rb") as file:
                content = file.read()
            for secret in ("nightjar", key, key.lower(), "hunter2zz"):
                assert secret.encode() not in content, (name, secret)


@pytest.mark.parametrize(
    ("command", "output_text", "fixed_command"),
    [
        ("kite fly --wind=strong 2>&1", "Error: unknown option --wind=strong", "kite fly --gust=strong 2>&1"),
        ("kite land --soft 2>&1 | head", "error: unexpected argument '--soft' found", "kite land --gentle 2>&1 | head"),
    ],
)
def test_an_error_that_was_reported_as_a_success_is_mined(
    house: House, own_home: str, command: str, output_text: str, fixed_command: str
) -> None:
    for _ in range(2):
        transcript = TranscriptWriter(own_home)
        transcript.person("go on").works(command, output_text).agent("That failed, so I do it another way.").works(
            fixed_command
        ).write()
    house.ok("scan")
    (candidate,) = house.ok("scan", "candidates", "--json").json()["candidates"]
    assert output_text.partition(": ")[2] in candidate["problem"]
