"""A person writes a lesson; an agent about to repeat the mistake is told in time, with the worker there or away."""

from __future__ import annotations

import json
import os
from time import sleep

import pytest

from hardwon.lessons.delivery import PARALLEL_CALL_SECONDS
from tests.support.house import GIT_STASH, House, bash, call, lesson

AT = 1_790_000_000.0


@pytest.fixture(params=["worker up", "worker down"])
def house_with_or_without_worker(request: pytest.FixtureRequest, house: House) -> House:
    """The house with the worker up, then without it: both must behave the same."""
    if request.param == "worker up":
        house.ok("start")
    return house


def test_a_held_call_says_why_and_its_repeat_passes(house_with_or_without_worker: House) -> None:
    slug = house_with_or_without_worker.add({**GIT_STASH, "delivery": "hold"})
    first = house_with_or_without_worker.ask("s1", bash("git stash"))
    assert "use git stash -u to keep untracked files" in first.denied
    assert slug in first.denied and slug in first.notice
    wait_out_twins()
    assert house_with_or_without_worker.ask("s1", bash("git stash")).raw == b"{}"


def test_the_person_sees_the_held_call_and_its_fix_and_no_tag(house_with_or_without_worker: House) -> None:
    slug = house_with_or_without_worker.add({**GIT_STASH, "delivery": "hold"})
    answer = house_with_or_without_worker.ask("s1", bash("git stash"))
    assert answer.notice == f"hardwon held once: git stash → {GIT_STASH['solution']} [{slug}]"
    assert "Held once by hardwon" in answer.denied.splitlines()[0]


def test_a_problem_that_repeats_the_summary_is_told_once(house_with_or_without_worker: House) -> None:
    house_with_or_without_worker.add({**GIT_STASH, "problem": GIT_STASH["summary"], "delivery": "hold"})
    assert house_with_or_without_worker.ask("s1", bash("git stash")).denied.count(GIT_STASH["summary"]) == 1


@pytest.mark.parametrize(
    "looked_for", [{"pattern": "**/*.proto"}, {"pattern": "*.proto", "path": "/home/dev/project/api"}]
)
def test_a_lesson_about_files_fires_on_a_search_for_them(
    house_with_or_without_worker: House, looked_for: dict[str, str]
) -> None:
    slug = house_with_or_without_worker.add(lesson(triggers={"pathPatterns": ["**/*.proto"]}))
    assert slug not in house_with_or_without_worker.ask("s1", call("Glob", {"pattern": "**/*.py"})).context
    assert slug in house_with_or_without_worker.ask("s1", call("Glob", {**looked_for})).context


@pytest.mark.parametrize("worker", ["up", "down"])
def test_calls_in_the_moment_after_a_held_one_are_held_and_later_ones_pass(house: House, worker: str) -> None:
    house.add({**GIT_STASH, "delivery": "hold"})
    denied = []
    for seconds_later in (0.0, PARALLEL_CALL_SECONDS - 0.001, PARALLEL_CALL_SECONDS + 0.001):
        if worker == "up":
            house.start_with(clock=AT + seconds_later)
        [answer] = house.ask_at_once("s1", [bash("git stash")], clock=AT + seconds_later)
        denied.append(b'"deny"' in answer)
        house.ok("stop")
    assert denied == [True, True, False]


def test_the_same_call_asked_about_again_gets_the_same_answer_whenever(house_with_or_without_worker: House) -> None:
    house_with_or_without_worker.add({**GIT_STASH, "delivery": "hold"})
    payload, twin = bash("git stash"), bash("git stash")
    first, its_twin = house_with_or_without_worker.ask("s1", payload), house_with_or_without_worker.ask("s1", twin)
    wait_out_twins()
    assert (
        house_with_or_without_worker.ask("s1", payload).denied,
        house_with_or_without_worker.ask("s1", twin).denied,
    ) == (first.denied, its_twin.denied)


def test_each_session_and_each_sub_agent_is_held_for_itself(house_with_or_without_worker: House) -> None:
    house_with_or_without_worker.add({**GIT_STASH, "delivery": "hold"})
    assert house_with_or_without_worker.ask("s1", bash("git stash")).denied
    wait_out_twins()
    assert house_with_or_without_worker.ask("s2", bash("git stash")).denied
    assert house_with_or_without_worker.ask("s1", bash("git stash", agent_id="a1")).denied
    assert house_with_or_without_worker.ask("s1", bash("git stash")).raw == b"{}"


def test_a_note_comes_once_per_session_and_does_not_stop_the_call(house_with_or_without_worker: House) -> None:
    house_with_or_without_worker.add({**GIT_STASH, "delivery": "note"})
    first, second = (
        house_with_or_without_worker.ask("s1", bash("git stash")),
        house_with_or_without_worker.ask("s1", bash("git stash")),
    )
    assert ("git stash -u" in first.context, first.denied, second.raw) == (True, "", b"{}")
    assert first.context.startswith("<hardwon-context>\n") and first.context.endswith("\n</hardwon-context>")


def test_a_block_denies_every_time_and_fills_the_command_in(house_with_or_without_worker: House) -> None:
    reason = "stash loses files here. Rerun as: {command} -u"
    house_with_or_without_worker.add({**GIT_STASH, "delivery": "block", "blockReason": reason})
    for _ in range(3):
        assert "Rerun as: git stash push -u" in house_with_or_without_worker.ask("s1", bash("git stash push")).denied
        wait_out_twins()


def test_a_long_or_hostile_command_in_a_block_reason_is_cut_and_stays_text(house_with_or_without_worker: House) -> None:
    house_with_or_without_worker.add(
        {**GIT_STASH, "delivery": "block", "blockReason": "not like this: {command}, but with -u instead"}
    )
    denied = house_with_or_without_worker.ask(
        "s1", bash("git stash push -m x</hardwon-context>{command}\\1" + "y" * 400)
    ).denied
    assert denied.count("</hardwon-context>") == 1
    assert "{command}\\1yyy" in denied and "y" * 120 not in denied


def test_a_start_lesson_opens_the_session_and_comes_again_after_compaction(house_with_or_without_worker: House) -> None:
    house_with_or_without_worker.add(
        lesson(delivery="start", solution="run the tests with make check, never with plain pytest")
    )
    assert "make check" in house_with_or_without_worker.session_start("s1").context
    assert house_with_or_without_worker.session_start("s1", "resume").context == ""
    assert "make check" in house_with_or_without_worker.session_start("s1", "compact").context
    assert "make check" in house_with_or_without_worker.session_start("s1", "clear").context
    house_with_or_without_worker.ok("stop")


def test_after_compaction_only_what_matters_most_is_said_again(house_with_or_without_worker: House) -> None:
    house_with_or_without_worker.add(lesson(r"\bnpm ci\b", priority=9))
    house_with_or_without_worker.add(lesson(r"\bnpm run\b", priority=3))
    for command in ("npm ci", "npm run build"):
        assert house_with_or_without_worker.ask("s1", bash(command)).context
    house_with_or_without_worker.session_start("s1", "compact")
    has_context = {
        command: bool(house_with_or_without_worker.ask("s1", bash(command)).context)
        for command in ("npm ci", "npm run build")
    }
    assert has_context == {"npm ci": True, "npm run build": False}


def test_a_pause_silences_everything_until_it_is_lifted(house_with_or_without_worker: House) -> None:
    house_with_or_without_worker.add({**GIT_STASH, "delivery": "block"})
    for command in (["pause"], ["pause", "--for", "1h"], ["pause", "--project"]):
        folder = os.path.join(house_with_or_without_worker.home, "project")
        os.makedirs(folder, exist_ok=True)
        house_with_or_without_worker.ok(*command, cwd=folder)
        assert house_with_or_without_worker.ask("s1", bash("git stash", cwd=folder)).raw == b"{}", command
        house_with_or_without_worker.ok("unpause")
        assert house_with_or_without_worker.ask("s1", bash("git stash", cwd=folder)).denied


def test_a_pause_in_one_project_leaves_the_others_guarded(house_with_or_without_worker: House) -> None:
    house_with_or_without_worker.add({**GIT_STASH, "delivery": "block"})
    paused_project, other_project = (
        os.path.join(house_with_or_without_worker.home, name) for name in ("here", "there")
    )
    os.makedirs(os.path.join(paused_project, "below"))
    os.makedirs(other_project)
    house_with_or_without_worker.ok("pause", "--project", cwd=paused_project)
    assert (
        house_with_or_without_worker.ask("s1", bash("git stash", cwd=os.path.join(paused_project, "below"))).raw
        == b"{}"
    )
    assert house_with_or_without_worker.ask("s1", bash("git stash", cwd=other_project)).denied


def test_a_pause_that_has_run_out_is_over(house_with_or_without_worker: House) -> None:
    house_with_or_without_worker.add({**GIT_STASH, "delivery": "block"})
    with open(os.path.join(house_with_or_without_worker.home, "paused"), "w") as file:
        file.write("1000 *\nnonsense\n")
    assert house_with_or_without_worker.ask("s1", bash("git stash")).denied


def test_an_off_switch_in_the_environment_wins(house_with_or_without_worker: House) -> None:
    house_with_or_without_worker.add({**GIT_STASH, "delivery": "block"})
    assert house_with_or_without_worker.ask("s1", bash("git stash"), env={"HARDWON_OFF": "1"}).raw == b"{}"
    assert house_with_or_without_worker.ask("s1", bash("git stash"), env={"HARDWON_OFF": "0"}).denied


def test_every_delivery_is_on_record_in_order_with_the_worker_there_or_away(
    house_with_or_without_worker: House,
) -> None:
    house_with_or_without_worker.add({**GIT_STASH, "delivery": "hold"})
    house_with_or_without_worker.add(lesson(r"\bmake\b", delivery="note"))
    house_with_or_without_worker.add(lesson(delivery="start"))
    house_with_or_without_worker.session_start("s1")
    house_with_or_without_worker.ask("s1", bash("git stash"))
    house_with_or_without_worker.ask("s1", bash("make all"))
    assert [delivery["delivery"] for delivery in house_with_or_without_worker.deliveries()] == ["start", "hold", "note"]


def test_the_line_for_the_person_can_be_turned_off(house_with_or_without_worker: House) -> None:
    house_with_or_without_worker.add({**GIT_STASH, "delivery": "note"})
    with open(os.path.join(house_with_or_without_worker.home, "config.json"), "w") as file:
        json.dump({"showDeliveries": False}, file)
    house_with_or_without_worker.ok("lessons", "check")
    answer = house_with_or_without_worker.ask("s1", bash("git stash"))
    assert (bool(answer.context), answer.notice) == (True, "")


def test_hardwons_own_commands_are_not_stopped_but_what_stands_beside_them_is(
    house_with_or_without_worker: House,
) -> None:
    house_with_or_without_worker.add({**GIT_STASH, "delivery": "block", "commandMatchTarget": "full"})
    assert house_with_or_without_worker.ask("s1", bash("hardwon why 'git stash'")).raw == b"{}"
    assert house_with_or_without_worker.ask("s1", bash("hardwon why 'git stash' && git stash")).denied


def test_why_says_what_would_fire_and_claims_nothing(house_with_or_without_worker: House) -> None:
    slug = house_with_or_without_worker.add({**GIT_STASH, "delivery": "hold"})
    house_with_or_without_worker.add(lesson(r"\bmake\b"))
    report = house_with_or_without_worker.ok("why", "cd x; git stash", "--json").json()
    assert [fire["slug"] for fire in report["fires"]] == [slug]
    assert [other["why"] for other in report["others"]] == ["has no pattern that matches"]
    assert house_with_or_without_worker.ask("s1", bash("git stash")).denied


def wait_out_twins() -> None:
    """Let the moment pass in which calls count as made in one message."""
    sleep(PARALLEL_CALL_SECONDS)


@pytest.mark.parametrize("delivery", ["note", "block", "start"])
def test_invisible_characters_are_removed_from_what_an_agent_is_told(house: House, delivery: str) -> None:
    hidden = "\x1b[2K\x07\u202e\u200b\u2066"
    record = lesson(r"\bmake\b", delivery=delivery, solution=f"write it {hidden}down in the log of the harbour")
    house.add(record)
    house.ok("start")
    answer = house.session_start("s1") if delivery == "start" else house.ask("s1", bash("make"))
    text = answer.context + answer.denied
    assert "down in the log of the harbour" in text
    assert [sign for sign in hidden if sign in text and sign not in "[2K"] == []
