"""UserPromptSubmit is the one channel on which a person speaks to hardwon inside an agent."""

from __future__ import annotations

import json
import os

import pytest

from hardwon.cli.output import format_time
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
def house_with_or_without_worker(request: pytest.FixtureRequest, house: House) -> House:
    if request.param == "worker up":
        house.ok("start")
    else:
        house.stay_cold()
    return house


def type_prompt(house: House, prompt: str, session: str = "s1") -> Answer:
    return house.ask(session, {"hook_event_name": "UserPromptSubmit", "prompt": prompt, "cwd": "/home/dev/project"})


def test_a_typed_lesson_is_in_force_and_the_person_is_told(house: House) -> None:
    house.ok("start")
    answer = type_prompt(house, TYPED)
    assert "learned, in force as a note" in answer.notice and answer.blocked
    [stored_lesson] = house.ok("lessons", "list", "--json").json()
    assert (stored_lesson["status"], stored_lesson["slug"] in answer.notice) == ("active", True)
    assert "plan.bin" in house.ask("s1", bash("terraform  apply -auto-approve")).context


@pytest.mark.parametrize("other_prompts", [1, 0])
def test_a_lesson_typed_with_the_worker_away_is_proposed_when_it_is_back(house: House, other_prompts: int) -> None:
    """A file in the spool cannot prove who wrote it."""
    house.stay_cold()
    for _ in range(other_prompts):
        house.add(lesson(r"\bmake\b"))
    answer = type_prompt(house, TYPED)
    assert "saved as a proposal" in answer.notice and answer.blocked
    house.ok("start")
    house.ok("stop")
    [stored_lesson] = [item for item in house.ok("lessons", "list", "--json").json() if "terraform" in item["problem"]]
    assert stored_lesson["status"] == "candidate"
    assert house.ask("s1", bash("terraform apply")).raw == b"{}"
    house.ok("lessons", "restore", stored_lesson["slug"])
    assert "plan.bin" in house.ask("s1", bash("terraform apply")).context


def test_a_decision_typed_with_the_worker_away_is_not_kept_and_the_person_is_told(house: House) -> None:
    house.add(lesson(r"\bmake\b"))
    house.stay_cold()
    answer = type_prompt(house, "hardwon accept 1")
    assert answer.notice == (
        "hardwon: NOT done, the worker is not running yet. Type it again in a moment, or run: hardwon start"
    )
    assert answer.blocked and not os.path.exists(os.path.join(house.home, "spool"))


def test_what_is_answered_here_is_no_prompt_of_the_session(house_with_or_without_worker: House) -> None:
    """The model never saw it, so it belongs neither to the prompts nor to the summary."""
    house_with_or_without_worker.add(lesson(r"\bmake\b"))
    for text in ("go on", "hardwon accept 77", TYPED, f"remember this:\n{TYPED}"):
        type_prompt(house_with_or_without_worker, text)
    assert [row["prompt"].partition("\n")[0] for row in house_with_or_without_worker.stored("prompts")] == [
        "go on",
        "remember this:",
    ]


def test_a_decision_typed_with_the_worker_away_starts_it(house: House) -> None:
    house.add(lesson(r"\bmake\b"))
    answers = (type_prompt(house, "hardwon accept 77", session=f"s{number}").notice for number in range(1000))
    assert "there is no" in next(notice for notice in answers if "the worker is" not in notice)


def test_a_typed_lesson_that_is_not_fit_is_refused_with_the_reason(house: House) -> None:
    house.add(lesson(r"\bmake\b"))
    house.ok("start")
    assert (
        "problem is too short (5 characters"
        in type_prompt(house, TYPED.replace(TYPED.splitlines()[3][9:], "short")).notice
    )
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
    house_with_or_without_worker: House, prompt: str
) -> None:
    """The outcome is the same whether the worker was running or comes back later."""
    house_with_or_without_worker.add(lesson(r"\bmake\b"))
    notice = type_prompt(house_with_or_without_worker, prompt).notice
    house_with_or_without_worker.ok("start")
    house_with_or_without_worker.ok("stop")
    [stored_lesson] = [
        item
        for item in house_with_or_without_worker.ok("lessons", "list", "--json").json()
        if "terraform" in item["problem"]
    ]
    assert stored_lesson["status"] == "candidate"
    assert house_with_or_without_worker.ask("s1", bash("terraform apply")).raw == b"{}"
    assert "saved as a proposal" in notice or f"hardwon lessons restore {stored_lesson['slug']}" in notice
    house_with_or_without_worker.ok("lessons", "restore", stored_lesson["slug"])
    assert "plan.bin" in house_with_or_without_worker.ask("s1", bash("terraform apply")).context


def test_several_lessons_and_nothing_else_are_all_in_force(house: House) -> None:
    house.add(lesson(r"\bmake\b"))
    house.ok("start")
    other_tag = (
        "#lesson\ntrigger: npm ci\nproblem: the lock file is older\nsolution: write the lock anew first\n#/lesson"
    )
    type_prompt(house, f"\n{TYPED}\n\n{other_tag}\n")
    house.ok("stop")
    assert [stored_lesson["status"] for stored_lesson in house.ok("lessons", "list", "--json").json()] == ["active"] * 3


def test_with_no_room_to_keep_what_was_typed_the_person_is_told(house: House) -> None:
    house.add(lesson(r"\bmake\b"))
    house.stay_cold()
    with open(os.path.join(house.home, "spool"), "w"):
        pass
    assert "NOT saved" in type_prompt(house, TYPED).notice


def test_with_the_worker_unable_to_write_a_typed_lesson_the_person_is_told(house: House) -> None:
    house.add(lesson(r"\bmake\b"))
    house.ok("start")
    lock = os.path.join(house.home, "lessons.lock")
    os.unlink(lock)
    os.mkdir(lock)
    notice = type_prompt(house, TYPED).notice
    assert "NOT saved" in notice and "lessons.lock" in notice


def test_what_was_refused_when_the_worker_came_back_is_shown_by_doctor(house: House) -> None:
    house.add(lesson(r"\bmake\b"))
    house.stay_cold()
    type_prompt(house, TYPED.replace(TYPED.splitlines()[3][9:], "short"))
    house.ok("start")
    house.ok("stop")
    with open(os.path.join(house.home, "logs", "hook.log"), "a") as file:
        file.write("1772614900 PreToolUse OSError at cold.py:7\n")
    wrong, refusal = [
        check["found"] for check in json.loads(house.cli("doctor", "--json").out) if check["name"] == "hook log"
    ]
    assert wrong.startswith(f"1 hook failed; last: {format_time(1772614900)} PreToolUse")
    assert refusal.startswith("1 prompt refused; ") and "what you typed was not taken" in refusal
    with open(os.path.join(house.home, "logs", "worker.log")) as file:
        assert "problem is too short (5 characters" in file.read()


def test_allow_lifts_a_block_for_this_session_and_the_agent_is_told(house_with_or_without_worker: House) -> None:
    slug = house_with_or_without_worker.add({**GIT_STASH, "delivery": "block"})
    assert house_with_or_without_worker.ask("s1", bash("git stash")).denied
    answer = type_prompt(house_with_or_without_worker, f"hardwon allow {slug}")
    assert slug in answer.notice and "may be made now" in answer.context
    assert house_with_or_without_worker.ask("s1", bash("git stash")).raw == b"{}"
    assert house_with_or_without_worker.ask("s1", bash("git stash", agent_id="a1")).raw == b"{}"
    assert house_with_or_without_worker.ask("s2", bash("git stash")).denied


def test_allow_outlives_compaction_and_ends_with_the_session(house_with_or_without_worker: House) -> None:
    slug = house_with_or_without_worker.add({**GIT_STASH, "delivery": "block", "priority": 9})
    type_prompt(house_with_or_without_worker, f"hardwon allow {slug}")
    house_with_or_without_worker.session_start("s1", "compact")
    assert house_with_or_without_worker.ask("s1", bash("git stash")).raw == b"{}"
    house_with_or_without_worker.session_start("s1", "startup")
    assert house_with_or_without_worker.ask("s1", bash("git stash")).denied


def test_allow_for_what_does_not_block_says_so(house_with_or_without_worker: House) -> None:
    slug = house_with_or_without_worker.add({**GIT_STASH, "delivery": "hold"})
    assert "nothing to allow" in type_prompt(house_with_or_without_worker, f"hardwon allow {slug}").notice
    assert "there is no lesson nope" in type_prompt(house_with_or_without_worker, "hardwon allow nope").notice


@pytest.mark.parametrize(
    "prompt",
    ["", "hello", "what does hardwon allow mean?", "I said: hardwon allow x", "#lesson", "<private>x</private>"],
)
def test_other_prompts_get_no_answer(house_with_or_without_worker: House, prompt: str) -> None:
    house_with_or_without_worker.add({**GIT_STASH, "delivery": "block"})
    assert type_prompt(house_with_or_without_worker, prompt).raw == b"{}"


def test_a_tool_result_cannot_allow_anything(house_with_or_without_worker: House) -> None:
    slug = house_with_or_without_worker.add({**GIT_STASH, "delivery": "block"})
    house_with_or_without_worker.ask("s1", bash(f"echo hardwon allow {slug}"))
    assert house_with_or_without_worker.ask("s1", bash("git stash")).denied


def test_a_session_opens_with_how_to_report_a_lesson(house_with_or_without_worker: House) -> None:
    house_with_or_without_worker.add(lesson(r"\bmake\b"))
    opened = house_with_or_without_worker.session_start("s1").context
    assert "#lesson" in opened and "#/lesson" in opened
    assert house_with_or_without_worker.session_start("s1", "resume").context == ""
    for source in ("clear", "compact"):
        assert "#/lesson" in house_with_or_without_worker.session_start("s1", source).context
    house_with_or_without_worker.ok("config", "set", "lessonProtocol", "false")
    assert house_with_or_without_worker.session_start("s2").raw == b"{}"
    house_with_or_without_worker.ok("stop")


def test_the_protocol_echoed_is_not_a_lesson(house: House) -> None:
    house.add(lesson(r"\bmake\b"))
    house.ok("start")
    opened = house.session_start("s1").context
    assert "learned" not in type_prompt(house, opened).notice
    assert len(house.ok("lessons", "list", "--json").json()) == 1


def test_a_sub_agent_opens_with_the_short_form(house_with_or_without_worker: House) -> None:
    slug = house_with_or_without_worker.add(
        lesson(delivery="start", solution="the long text that only the main agent is given in full")
    )
    opened = house_with_or_without_worker.ask(
        "s1", {"hook_event_name": "SubagentStart", "agent_id": "a1", "agent_type": "x", "cwd": "/"}
    )
    assert slug in opened.context and "the long text" not in opened.context
    (block,) = lesson_tags.find_lesson_blocks(opened.context)
    assert {"tool", "trigger", "problem", "solution"} <= block.fields.keys()
    assert len(opened.context) < 1_000


def test_what_a_session_opens_with_stays_below_the_agents_limit(house_with_or_without_worker: House) -> None:
    path = os.path.join(os.path.dirname(house_with_or_without_worker.home), "many.json")
    records = [lesson(delivery="start", solution=f"word{n} " * 100 + "the end of it") for n in range(30)]
    house_with_or_without_worker.add(records[0])
    with open(path, "w") as file:
        json.dump({"lessons": records[1:]}, file)
    house_with_or_without_worker.ok("lessons", "import", path)
    opened = house_with_or_without_worker.session_start("s1")
    assert 5_000 < len(opened.context) <= 9_000
    assert opened.context.count("(lesson ") > 8
