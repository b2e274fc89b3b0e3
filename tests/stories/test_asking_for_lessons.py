"""An agent that just found out what works is asked for a lesson, and what it writes passes the gate like all else."""

from __future__ import annotations

import asyncio
import os
from contextlib import closing
from typing import Any

import pytest

from hardwon.store import db
from hardwon.worker.background import JobRunner
from tests.stories.test_the_first_loop import wait_out_twins
from tests.stories.test_the_viewer import open_browser
from tests.support.claude_transcript import TAG, UNKNOWN, TranscriptWriter
from tests.support.house import Answer, House, bash, failed, happened, lesson, prompt, used, wait_for

WRONG, RIGHT = "git log --colour=always", "git log --color=always"
ASKED = "end your reply with a #lesson block"
REPORT = """Done.

#lesson
problem: git log --colour=always fails here, because git only knows the American spelling
solution: write git log --color=always
#/lesson
"""


@pytest.fixture
def running_house(house: House) -> House:
    house.ok("config", "set", "autoScanIntervalHours", "0")
    house.ok("start")
    return house


def report_failure(house: House, session: str, command: str = WRONG, error: str = UNKNOWN, **more: Any) -> Answer:
    return house.ask(session, failed("Bash", {"command": command}, f"Exit code 1\n{error}", **more))


def report_success(house: House, session: str, command: str = RIGHT, output: str = "abc start", **more: Any) -> Answer:
    return house.ask(session, used("Bash", {"command": command}, {"stdout": output, "stderr": ""}, **more))


def make_mistake(house: House, session: str, **more: Any) -> Answer:
    assert ASKED not in report_failure(house, session, **more).context
    return report_success(house, session, **more)


def test_the_agent_is_asked_once_with_what_failed_and_what_worked(running_house: House) -> None:
    answer = make_mistake(running_house, "s1")
    lines = answer.context.splitlines()
    assert lines[1:-1] == [
        f"hardwon: `{WRONG}` failed (error: unknown option '--colour'), then `{RIGHT}` worked.".replace(
            "'--colour'", "`--colour'"
        ),
        f"If this will come up again here, {ASKED}: the lines `#lesson`, `problem: …`, `solution: …` and `#/lesson`.",
    ]
    assert make_mistake(running_house, "s1").context == ""
    assert make_mistake(running_house, "s2").context == "", "the same signature is never asked about again"
    [delivery] = running_house.deliveries()
    assert (delivery["slug"], delivery["kind"]) == ("lesson-request", "PostToolUse")
    assert "colour" not in delivery["summary"]


def test_a_session_is_asked_at_most_twice(running_house: House) -> None:
    requests_made = []
    for option in ("--colour", "--onelien", "--grpah"):
        report_failure(
            running_house, "s1", f"git log {option}", f"error: unknown option `{option}'\nusage: git log [<options>]"
        )
        requests_made.append(ASKED in report_success(running_house, "s1", "git log --oneline").context)
    assert requests_made == [True, True, False]


def test_a_setting_turns_it_off(running_house: House) -> None:
    running_house.ok("config", "set", "askForLessons", "false")
    assert make_mistake(running_house, "s1").context == ""


def test_nothing_is_asked_in_a_private_turn_or_a_pause(running_house: House) -> None:
    running_house.ask("s1", prompt("<private>look at the log</private>"))
    assert make_mistake(running_house, "s1").context == ""
    running_house.ok("pause")
    assert make_mistake(running_house, "s2").context == ""
    running_house.ok("unpause")
    assert ASKED in make_mistake(running_house, "s3").context


def test_a_secret_in_the_call_is_not_repeated(running_house: House) -> None:
    token = "ghp_" + "a1B2" * 9
    report_failure(running_house, "s1", f"{WRONG} https://{token}@github.com/x/y")
    assert token not in report_success(running_house, "s1", f"{RIGHT} https://{token}@github.com/x/y").context


@pytest.mark.parametrize(
    ("wrong", "error", "right"),
    [
        ("pytest tests", "E   assert 1 == 2\n1 failed in 0.1s", "pytest tests -x"),
        ("git commit -m done", "error: hook failed", "git commit --no-verify -m done"),
        ("cat notes.txt", "cat: notes.txt: No such file or directory", "cat docs/notes.txt"),
        (WRONG, UNKNOWN, "git log --help"),
        (WRONG, UNKNOWN, "ls"),
    ],
)
def test_what_the_rules_would_not_propose_is_not_asked_about(
    running_house: House, wrong: str, error: str, right: str
) -> None:
    report_failure(running_house, "s1", wrong, error)
    assert report_success(running_house, "s1", right).context == ""


def test_a_call_made_beside_the_failed_one_is_no_cure(running_house: House) -> None:
    running_house.ask("s1", bash(WRONG, tool_use_id="toolu_a"))
    running_house.ask("s1", bash(RIGHT, tool_use_id="toolu_b"))
    report_failure(running_house, "s1", tool_use_id="toolu_a")
    assert report_success(running_house, "s1", tool_use_id="toolu_b").context == ""
    assert ASKED in report_success(running_house, "s1").context


def test_what_a_lesson_in_force_says_is_not_asked_for(running_house: House) -> None:
    running_house.add(lesson(r"\bgit log\b[^|;&]*--colour"))
    assert ASKED not in make_mistake(running_house, "s1").context


def test_what_a_person_rejected_is_not_asked_for(running_house: House, own_home: str) -> None:
    TranscriptWriter(own_home).mistake().write()
    running_house.ok("scan")
    running_house.ok("reject", "1")
    assert make_mistake(running_house, "s1").context == ""


def test_a_sub_agent_is_asked_about_its_own_mistake(running_house: House) -> None:
    report_failure(running_house, "s1", agent_id="a1")
    assert report_success(running_house, "s1").context == "", "the main agent did not make it"
    assert ASKED in report_success(running_house, "s1", agent_id="a1").context


def test_without_a_worker_nothing_is_asked(house: House) -> None:
    house.stay_cold()
    assert make_mistake(house, "s1").context == ""


def test_from_the_mistake_to_the_call_made_instead(running_house: House, own_home: str) -> None:
    """Follow a lesson from the request to the agent, through report, proposal and acceptance, to the hold and its page."""
    project = os.path.join(own_home, "kite")
    os.mkdir(project)
    project_field = {"cwd": project}
    writer = TranscriptWriter(own_home, session="s1", project=project).mistake()
    assert ASKED in make_mistake(running_house, "s1", **project_field).context
    transcript = writer.agent(REPORT).write()

    running_house.ask(
        "s1", happened("Stop", last_assistant_message=REPORT, transcript_path=transcript, **project_field)
    )
    wait_for(lambda: bool(running_house.ok("scan", "candidates", "--all", "--json").json()["candidates"]))
    [proposal] = running_house.ok("scan", "candidates", "--all", "--json").json()["candidates"]
    assert proposal["solution"] == "write git log --color=always"
    assert (proposal["delivery"], proposal["scope"]["path"]) == ("hold", project)
    assert (proposal["difference"]["command"], proposal["difference"]["worked"]) == (WRONG, RIGHT)
    assert [quote["kind"] for quote in proposal["evidence"]].count("error") == 1

    announcement = running_house.ask("s1", prompt("now the next thing", **project_field))
    assert f"type: hardwon accept {proposal['index']}" in announcement.notice
    assert "git log" in announcement.notice
    assert running_house.ask("s1", prompt("and the next", **project_field)).notice == ""
    accepted = running_house.ask("s1", prompt(f"hardwon accept {proposal['index']}", **project_field))
    assert "in force as a hold" in accepted.notice

    held_answer = running_house.ask("s2", bash(f"{WRONG} -5", tool_use_id="toolu_held", **project_field))
    assert "write git log --color=always" in held_answer.denied
    wait_out_twins()
    assert running_house.ask("s2", bash(f"{RIGHT} -5", tool_use_id="toolu_instead", **project_field)).raw == b"{}"
    report_success(running_house, "s2", f"{RIGHT} -5", tool_use_id="toolu_instead", **project_field)
    running_house.ok("config", "set", "apiPort", "0")
    page = open_browser(running_house).get(f"/lessons/{proposal['slug']}").text
    row = page.partition('data-name="call"')[2].partition("</tr>")[0]
    assert f"{WRONG} -5" in row and "denied" in row.partition('data-name="instead"')[0]
    assert f"{RIGHT} -5" in row.partition('data-name="instead"')[2]
    assert "fine" in row.partition('data-name="instead"')[2]


def test_reports_of_two_sessions_that_end_together_are_both_found(running_house: House, own_home: str) -> None:
    """The scan of the second waits for that of the first, since only one may run."""
    for session, report in (("s1", REPORT), ("s2", TAG)):
        transcript = TranscriptWriter(own_home, session=session).mistake().agent(report).write()
        running_house.ask(session, happened("Stop", last_assistant_message=report, transcript_path=transcript))

    def list_reported() -> list[str]:
        listed = running_house.ok("scan", "candidates", "--all", "--json").json()["candidates"]
        return sorted(proposal["solution"] for proposal in listed if proposal["tier"] == 1)

    wait_for(lambda: len(list_reported()) == 2)
    assert list_reported() == ["use git stash -u to take untracked files along", "write git log --color=always"]


@pytest.mark.parametrize(("hours", "is_scanned"), [("-1", False), ("24", True)])
def test_no_scan_follows_a_report_if_background_scans_are_off(
    house: House, own_home: str, hours: str, is_scanned: bool
) -> None:
    house.ok("config", "set", "autoScanIntervalHours", hours)
    os.makedirs(os.path.join(house.home, "logs"))  # as the worker does, where its processes write
    transcript = TranscriptWriter(own_home).mistake().agent(REPORT).write()

    async def start_scan() -> bool:
        with closing(db.connect(house.home)) as connection:
            runner = JobRunner(house.home, connection)
            runner.start_report_scan(("--path", transcript))
            return runner.is_busy()

    assert asyncio.run(start_scan()) is is_scanned


STASH_TAG = TAG.replace("tool: Bash\n", "tool: Bash\ndelivery: hold\n")


def list_proposals(house: House) -> list[dict[str, Any]]:
    house.ok("scan")
    proposals: list[dict[str, Any]] = house.ok("scan", "candidates", "--all", "--json").json()["candidates"]
    return proposals


def test_a_tag_about_an_episode_takes_its_evidence_and_its_trigger(house: House, own_home: str) -> None:
    TranscriptWriter(own_home).mistake().agent(REPORT).write()
    TranscriptWriter(own_home).mistake().write()
    [proposal] = list_proposals(house)
    assert proposal["problem"].startswith("git log --colour=always fails here, because")
    assert "--colour" in proposal["triggerPattern"] and "always" not in proposal["triggerPattern"]
    assert (proposal["delivery"], proposal["occurrenceCount"], proposal["sessionCount"]) == ("hold", 2, 2)
    assert [quote["kind"] for quote in proposal["evidence"]].count("error") == 2
    assert "would have stopped 1 of 1 repeats" in house.ok("scan", "candidates", "--all").out


def test_a_tag_about_something_else_stays_a_proposal_of_its_own(house: House, own_home: str) -> None:
    TranscriptWriter(own_home).mistake().agent(TAG).write()
    assert sorted(proposal["tier"] for proposal in list_proposals(house)) == [1, 2]


SLOW_TRIGGERS = [r"(a+)+!$", r"git[^|;&\n]*.*.*.*.*.*.*.*!$"]


@pytest.mark.parametrize("trigger", SLOW_TRIGGERS)
def test_a_slow_pattern_in_a_tag_does_not_stop_the_scan(house: House, own_home: str, trigger: str) -> None:
    """An agent may write a tag that it read in a file of somebody else."""
    slow_tag = TAG.replace("trigger: git stash", f"trigger: {trigger}")
    assert trigger in slow_tag
    wrong = f"git log --colour {'a' * 200}"
    transcript = TranscriptWriter(own_home).fails(wrong, UNKNOWN)
    transcript.works(wrong.replace("--colour", "--color")).agent(slow_tag).write()
    assert 1 in [proposal["tier"] for proposal in list_proposals(house)]


@pytest.mark.parametrize(
    ("calls", "delivery"),
    [([], "note"), ([("git stash", "")] * 3, "note"), ([("git stash", "error: conflict"), ("git status", "")], "hold")],
    ids=["never fired", "fired on calls that went fine", "fired on a failed call"],
)
def test_a_tag_alone_may_hold_calls_only_if_recorded_calls_prove_it(
    house: House, own_home: str, calls: list[tuple[str, str]], delivery: str
) -> None:
    transcript = TranscriptWriter(own_home)
    for command, error in calls:
        transcript.fails(command, error) if error else transcript.works(command)
    transcript.agent(STASH_TAG).write()
    [proposal] = [proposal for proposal in list_proposals(house) if proposal["tier"] == 1]
    assert proposal["delivery"] == delivery


def test_what_no_recorded_call_proves_comes_after_what_is_proven(house: House, own_home: str) -> None:
    TranscriptWriter(own_home).mistake().agent(TAG).write()
    assert [proposal["tier"] for proposal in list_proposals(house)] == [2, 1]


def test_a_rejected_mistake_does_not_come_back_as_a_tag(house: House, own_home: str) -> None:
    TranscriptWriter(own_home).mistake().write()
    house.ok("scan")
    house.ok("reject", "1")
    TranscriptWriter(own_home).mistake().agent(REPORT).write()
    assert list_proposals(house) == []


def test_a_tag_about_a_known_proposal_gives_it_the_agents_words_and_a_new_number(house: House, own_home: str) -> None:
    transcript = TranscriptWriter(own_home).mistake()
    transcript.write()
    [mined] = list_proposals(house)
    transcript.agent(REPORT).write()
    [reported] = list_proposals(house)
    assert (mined["solution"], reported["solution"]) == (
        "Use `git log --color=always` instead.",
        "write git log --color=always",
    )
    assert (mined["delivery"], reported["delivery"]) == ("hold", "hold")
    assert mined["index"] != reported["index"]
    assert "there is no proposed lesson" in house.cli("accept", str(mined["index"])).err
