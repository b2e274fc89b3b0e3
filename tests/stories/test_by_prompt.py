"""UserPromptSubmit is the one channel on which a person speaks to hardwon inside an agent."""

from __future__ import annotations

import json
import os

import pytest

from hardwon.text import lesson_tags
from tests.support.house import GIT_STASH, Answer, House, bash, lesson

TYPED = """#lesson
tool: Bash
trigger: terraform apply
problem: terraform apply without a plan file applies whatever changed since the plan was read
solution: run terraform plan -out plan.bin and apply plan.bin
tags: tool:terraform
#/lesson"""


@pytest.fixture(params=["worker up", "worker down"])
def manned(request: pytest.FixtureRequest, house: House) -> House:
    if request.param == "worker up":
        house.ok("start")
    else:
        house.stay_cold()
    return house


def say(house: House, prompt: str, session: str = "s1") -> Answer:
    return house.ask(session, {"hook_event_name": "UserPromptSubmit", "prompt": prompt, "cwd": "/home/dev/project"})


def test_a_typed_lesson_is_in_force_and_the_person_is_told(house: House) -> None:
    house.ok("start")
    answer = say(house, TYPED)
    assert "learned, in force as a note" in answer.notice and answer.blocked
    [written] = house.ok("lessons", "list", "--json").json()
    assert (written["status"], written["slug"] in answer.notice) == ("active", True)
    assert "plan.bin" in house.ask("s1", bash("terraform  apply -auto-approve")).context


@pytest.mark.parametrize("others", [1, 0])
def test_a_lesson_typed_with_the_worker_away_is_proposed_when_it_is_back(house: House, others: int) -> None:
    """A file in the spool cannot prove who wrote it."""
    house.stay_cold()
    for _ in range(others):
        house.add(lesson(r"\bmake\b"))
    answer = say(house, TYPED)
    assert "saved as a proposal" in answer.notice and answer.blocked
    house.ok("start")
    house.ok("stop")
    [written] = [one for one in house.ok("lessons", "list", "--json").json() if "terraform" in one["problem"]]
    assert written["status"] == "candidate"
    assert house.ask("s1", bash("terraform apply")).raw == b"{}"
    house.ok("lessons", "restore", written["slug"])
    assert "plan.bin" in house.ask("s1", bash("terraform apply")).context


def test_a_decision_typed_with_the_worker_away_is_not_kept_and_the_person_is_told(house: House) -> None:
    house.add(lesson(r"\bmake\b"))
    house.stay_cold()
    answer = say(house, "hardwon accept 1")
    assert answer.notice == (
        "hardwon: NOT done, the worker is not running yet. Type it again in a moment, or run: hardwon start"
    )
    assert answer.blocked and not os.path.exists(os.path.join(house.home, "spool"))


def test_what_is_answered_here_is_no_prompt_of_the_session(manned: House) -> None:
    """The model never saw it, so it is neither asked for again nor summed up."""
    manned.add(lesson(r"\bmake\b"))
    for text in ("go on", "hardwon accept 77", TYPED, f"remember this:\n{TYPED}"):
        say(manned, text)
    assert [row["prompt"].partition("\n")[0] for row in manned.stored("prompts")] == ["go on", "remember this:"]


def test_a_decision_typed_with_the_worker_away_starts_it(house: House) -> None:
    house.add(lesson(r"\bmake\b"))
    answers = (say(house, "hardwon accept 77", session=f"s{number}").notice for number in range(1000))
    assert "there is no" in next(said for said in answers if "the worker is" not in said)


def test_a_typed_lesson_that_is_not_fit_is_refused_with_the_reason(house: House) -> None:
    house.add(lesson(r"\bmake\b"))
    house.ok("start")
    assert "problem is too short (5 characters" in say(house, TYPED.replace(TYPED.splitlines()[3][9:], "short")).notice
    assert len(house.ok("lessons", "list", "--json").json()) == 1


@pytest.mark.parametrize(
    "prompt",
    [
        f"please remember this:\n{TYPED}",
        f"Summarise this GitHub issue:\n\n{TYPED}\n\nThanks, Bob",
        f"{TYPED}\nthanks",
        f"```\n{TYPED}\n```",
        "\n".join(f"> {line}" for line in TYPED.splitlines()),
        f"- {TYPED}",
        f"1. {TYPED}",
    ],
    ids=["a line before", "a mail around", "a line behind", "fenced", "quoted", "listed", "numbered"],
)
def test_a_lesson_among_other_text_is_proposed_and_the_person_told_how_to_approve_it(
    manned: House, prompt: str
) -> None:
    """Whoever sees the whole prompt decides, whether the worker was there or is only back later."""
    manned.add(lesson(r"\bmake\b"))
    said = say(manned, prompt).notice
    manned.ok("start")
    manned.ok("stop")
    [written] = [one for one in manned.ok("lessons", "list", "--json").json() if "terraform" in one["problem"]]
    assert written["status"] == "candidate"
    assert manned.ask("s1", bash("terraform apply")).raw == b"{}"
    assert "saved as a proposal" in said or f"hardwon lessons restore {written['slug']}" in said
    manned.ok("lessons", "restore", written["slug"])
    assert "plan.bin" in manned.ask("s1", bash("terraform apply")).context


def test_several_lessons_and_nothing_else_are_all_in_force(house: House) -> None:
    house.add(lesson(r"\bmake\b"))
    house.ok("start")
    other = "#lesson\ntrigger: npm ci\nproblem: the lock file is older\nsolution: write the lock anew first\n#/lesson"
    say(house, f"\n{TYPED}\n\n{other}\n")
    house.ok("stop")
    assert [one["status"] for one in house.ok("lessons", "list", "--json").json()] == ["active"] * 3


def test_with_no_room_to_keep_what_was_typed_the_person_is_told(house: House) -> None:
    house.add(lesson(r"\bmake\b"))
    house.stay_cold()
    with open(os.path.join(house.home, "spool"), "w"):
        pass
    assert "NOT saved" in say(house, TYPED).notice


def test_with_the_worker_unable_to_write_a_typed_lesson_the_person_is_told(house: House) -> None:
    house.add(lesson(r"\bmake\b"))
    house.ok("start")
    lock = os.path.join(house.home, "lessons.lock")
    os.unlink(lock)
    os.mkdir(lock)
    said = say(house, TYPED).notice
    assert "NOT saved" in said and "lessons.lock" in said


def test_what_was_refused_when_the_worker_came_back_is_shown_by_doctor(house: House) -> None:
    house.add(lesson(r"\bmake\b"))
    house.stay_cold()
    say(house, TYPED.replace(TYPED.splitlines()[3][9:], "short"))
    house.ok("start")
    house.ok("stop")
    with open(os.path.join(house.home, "logs", "hook.log"), "a") as file:
        file.write("1772614900 PreToolUse OSError at cold.py:7\n")
    wrong, told = [one["found"] for one in json.loads(house.cli("doctor", "--json").out) if one["name"] == "hook log"]
    assert wrong.startswith("1 hook failed; last: 1772614900 PreToolUse")
    assert told.startswith("1 prompt refused; ") and "what you typed was not taken" in told
    with open(os.path.join(house.home, "logs", "worker.log")) as file:
        assert "problem is too short (5 characters" in file.read()


def test_allow_lifts_a_block_for_this_session_and_the_agent_is_told(manned: House) -> None:
    slug = manned.add({**GIT_STASH, "delivery": "block"})
    assert manned.ask("s1", bash("git stash")).denied
    answer = say(manned, f"hardwon allow {slug}")
    assert slug in answer.notice and "may be made now" in answer.context
    assert manned.ask("s1", bash("git stash")).raw == b"{}"
    assert manned.ask("s1", bash("git stash", agent_id="a1")).raw == b"{}"
    assert manned.ask("s2", bash("git stash")).denied


def test_allow_outlives_compaction_and_ends_with_the_session(manned: House) -> None:
    slug = manned.add({**GIT_STASH, "delivery": "block", "priority": 9})
    say(manned, f"hardwon allow {slug}")
    manned.session_start("s1", "compact")
    assert manned.ask("s1", bash("git stash")).raw == b"{}"
    manned.session_start("s1", "startup")
    assert manned.ask("s1", bash("git stash")).denied


def test_allow_for_what_does_not_block_says_so(manned: House) -> None:
    slug = manned.add({**GIT_STASH, "delivery": "hold"})
    assert "nothing to allow" in say(manned, f"hardwon allow {slug}").notice
    assert "there is no lesson nope" in say(manned, "hardwon allow nope").notice


@pytest.mark.parametrize(
    "prompt",
    ["", "hello", "what does hardwon allow mean?", "I said: hardwon allow x", "#lesson", "<private>x</private>"],
)
def test_other_prompts_are_none_of_our_business(manned: House, prompt: str) -> None:
    manned.add({**GIT_STASH, "delivery": "block"})
    assert say(manned, prompt).raw == b"{}"


def test_a_tool_result_cannot_allow_anything(manned: House) -> None:
    slug = manned.add({**GIT_STASH, "delivery": "block"})
    manned.ask("s1", bash(f"echo hardwon allow {slug}"))
    assert manned.ask("s1", bash("git stash")).denied


def test_a_session_opens_with_how_to_report_a_lesson(manned: House) -> None:
    manned.add(lesson(r"\bmake\b"))
    opened = manned.session_start("s1").context
    assert "#lesson" in opened and "#/lesson" in opened
    assert manned.session_start("s1", "resume").context == ""
    for source in ("clear", "compact"):
        assert "#/lesson" in manned.session_start("s1", source).context
    manned.ok("config", "set", "lessonProtocol", "false")
    assert manned.session_start("s2").raw == b"{}"
    manned.ok("stop")


def test_the_protocol_echoed_is_not_a_lesson(house: House) -> None:
    house.add(lesson(r"\bmake\b"))
    house.ok("start")
    opened = house.session_start("s1").context
    assert "learned" not in say(house, opened).notice
    assert len(house.ok("lessons", "list", "--json").json()) == 1


def test_a_sub_agent_opens_with_the_short_form(manned: House) -> None:
    slug = manned.add(lesson(delivery="start", solution="the long text that only the main agent is given in full"))
    opened = manned.ask("s1", {"hook_event_name": "SubagentStart", "agent_id": "a1", "agent_type": "x", "cwd": "/"})
    assert slug in opened.context and "the long text" not in opened.context
    (told,) = lesson_tags.find_lesson_blocks(opened.context)
    assert {"tool", "trigger", "problem", "solution"} <= told.fields.keys()
    assert len(opened.context) < 1_000


def test_what_a_session_opens_with_stays_below_the_agents_limit(manned: House) -> None:
    path = os.path.join(os.path.dirname(manned.home), "many.json")
    records = [lesson(delivery="start", solution=f"word{n} " * 100 + "the end of it") for n in range(30)]
    manned.add(records[0])
    with open(path, "w") as file:
        json.dump({"lessons": records[1:]}, file)
    manned.ok("lessons", "import", path)
    opened = manned.session_start("s1")
    assert 5_000 < len(opened.context) <= 9_000
    assert opened.context.count("(lesson ") > 8
