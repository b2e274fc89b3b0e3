"""Whether a lesson prevents the repeat: every firing is on record with what followed it, told or not."""

from __future__ import annotations

import itertools
import json
import os
import re
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from time import sleep

import pytest

from hardwon import clock
from hardwon.efficacy import delivery_changes
from hardwon.lessons.delivery import PARALLEL_CALL_SECONDS, draw_fraction
from hardwon.lessons.manifest_index import open_index
from hardwon.store import db, efficacy
from hardwon.store.efficacy import Firing
from hardwon.web import insights, render
from hardwon.web import lessons as lesson_pages
from hardwon.web.access_control import BrowserSession
from hardwon.web.page_request import PageContent, PageRequest
from tests.support.house import Answer, House, bash, failed, happened, prompt, used

FLY = {
    "summary": "kite has no command fly",
    "problem": "kite fly is not a command of this kite and always fails",
    "solution": "run kite launch instead, which does the same",
    "triggers": {"toolNames": ["Bash"], "commandPatterns": [r"\bkite fly\b"]},
    "delivery": "hold",
}
NO_COMMAND = "Exit code 2\nerror: unrecognized subcommand 'fly'"


@contextmanager
def open_database(house: House) -> Iterator[db.Connection]:
    with closing(db.connect(house.home)) as connection:
        yield connection


def end_session(house: House, session: str) -> None:
    house.ask(session, happened("Stop"))
    house.ask(session, happened("SessionEnd", reason="other"))


def run_call(house: House, session: str, command: str, error: str = "") -> Answer:
    """Make a call as an agent does that heeds a denial: it runs only if it is not denied."""
    payload = bash(command)
    answer = house.ask(session, payload)
    if not answer.denied:
        call_id_field = {"tool_use_id": payload["tool_use_id"]}
        tool_input = payload["tool_input"]
        if error:
            house.ask(session, failed("Bash", tool_input, error, **call_id_field))
        else:
            house.ask(session, used("Bash", tool_input, {"stdout": "ok", "exit_code": 0}, **call_id_field))
    return answer


def list_judged(house: House) -> list[Firing]:
    house.ok("proof")
    with open_database(house) as connection:
        return [firing for firing in efficacy.list_firings(connection) if firing.arm != efficacy.BEFORE]


def list_verdicts(house: House) -> list[tuple[str, str]]:
    return [(firing.verdict, firing.ended) for firing in list_judged(house)]


def wait_out_twins() -> None:
    """Let the moment pass in which calls count as made in one message."""
    sleep(PARALLEL_CALL_SECONDS)


def repeat_call(house: House, session: str, command: str, error: str = "") -> None:
    wait_out_twins()
    assert not run_call(house, session, command, error).denied


@pytest.fixture(params=["worker up", "worker down"])
def house_with_or_without_worker(request: pytest.FixtureRequest, house: House) -> House:
    if request.param == "worker up":
        house.ok("start")
    return house


def test_every_firing_is_a_row_with_what_is_needed_to_judge_it(
    house_with_or_without_worker: House, own_home: str
) -> None:
    house_with_or_without_worker.add(FLY)
    transcript = write_transcript(own_home, "s1", "claude-next-9")
    payload = bash("kite fly", transcript_path=transcript)
    assert house_with_or_without_worker.ask("s1", payload).denied
    house_with_or_without_worker.ask("s1", happened("SessionEnd", reason="other", transcript_path=transcript))
    [firing] = list_judged(house_with_or_without_worker)
    assert (firing.event, firing.host, firing.session) == (f"s1:{payload['tool_use_id']}", "claude-code", "s1")
    assert (firing.model, firing.delivery, firing.arm, firing.probability) == ("claude-next-9", "hold", "told", 1.0)
    entry = open_index(house_with_or_without_worker.home).read_entry(0)
    assert (firing.lesson, firing.version) == (entry.id, entry.version) and entry.version


def test_a_held_call_that_was_changed_says_how_the_other_ended(house_with_or_without_worker: House) -> None:
    slug = house_with_or_without_worker.add(FLY)
    house_with_or_without_worker.ask("s1", prompt("fly it"))
    assert run_call(house_with_or_without_worker, "s1", "kite fly").denied
    run_call(house_with_or_without_worker, "s1", "kite launch")
    end_session(house_with_or_without_worker, "s1")
    assert list_verdicts(house_with_or_without_worker) == [("changed", "fine")]
    output = house_with_or_without_worker.ok("proof", slug).out
    assert "1 time: 1 changed" in output and "told    changed: kite launch (fine)" in output


def test_a_repeat_that_failed_one_that_ran_fine_and_one_given_up_are_told_apart(
    house_with_or_without_worker: House,
) -> None:
    house_with_or_without_worker.add(FLY)
    for session, error in (("s1", NO_COMMAND), ("s2", "")):
        assert run_call(house_with_or_without_worker, session, "kite fly").denied
        repeat_call(house_with_or_without_worker, session, "kite fly", error)
        end_session(house_with_or_without_worker, session)
    run_call(house_with_or_without_worker, "s3", "kite fly")
    run_call(house_with_or_without_worker, "s3", "ls")
    end_session(house_with_or_without_worker, "s3")
    assert list_verdicts(house_with_or_without_worker) == [
        ("repeated-failed", "failed"),
        ("repeated-fine", "fine"),
        ("given-up", ""),
    ]


def test_what_is_not_over_yet_stays_open_and_is_not_counted(house_with_or_without_worker: House) -> None:
    slug = house_with_or_without_worker.add(FLY)
    run_call(house_with_or_without_worker, "s1", "kite fly")
    assert list_verdicts(house_with_or_without_worker) == [("", "")]
    assert "1 still open" in house_with_or_without_worker.ok("proof", slug).out


def test_a_note_on_a_call_that_ran_fine_is_a_false_alarm(house_with_or_without_worker: House) -> None:
    house_with_or_without_worker.add({**FLY, "delivery": "note"})
    run_call(house_with_or_without_worker, "s1", "kite fly")
    run_call(house_with_or_without_worker, "s1", "ls")
    end_session(house_with_or_without_worker, "s1")
    assert list_verdicts(house_with_or_without_worker) == [("repeated-fine", "fine")]


def test_a_note_on_a_call_that_failed_is_judged_by_what_came_after_it(house_with_or_without_worker: House) -> None:
    house_with_or_without_worker.add({**FLY, "delivery": "note"})
    run_call(house_with_or_without_worker, "s1", "kite fly", NO_COMMAND)
    run_call(house_with_or_without_worker, "s1", "kite launch")
    end_session(house_with_or_without_worker, "s1")
    assert list_verdicts(house_with_or_without_worker) == [("changed", "fine")]


def test_another_failure_of_the_same_command_is_not_the_lessons(house: House) -> None:
    evidence = [{"kind": "error", "quote": "error: unrecognized subcommand 'fly'", "path": "/t.jsonl", "line": 3}]
    house.add({**FLY, "delivery": "note", "evidence": evidence})
    run_call(house, "s1", "kite fly", NO_COMMAND)
    run_call(house, "s1", "kite fly", "Exit code 1\nkite: cannot connect to the weather server at storm.example")
    end_session(house, "s1")
    assert list_verdicts(house) == [("unknown", "failed")]


def test_deliveries_of_an_earlier_version_are_judged_from_the_events(house: House) -> None:
    slug = house.add(FLY)
    run_call(house, "s1", "kite fly")
    run_call(house, "s1", "kite launch")
    end_session(house, "s1")
    house.ok("sessions", "list")  # takes in what waits in the spool
    with open_database(house) as connection, db.transaction(connection):
        connection.execute("update injections set version = '', verdict = ''")
    assert list_verdicts(house) == [("changed", "fine")]
    [record] = house.ok("proof", slug, "--json").json()
    assert (record["told"]["changedAndFine"], record["grade"]) == (1, "counted")


def test_what_0_1_0_did_not_record_is_unknown_and_what_it_told_is_no_baseline(house: House) -> None:
    slug = house.add(FLY)
    run_call(house, "s1", "kite fly")
    run_call(house, "s1", "kite launch")
    end_session(house, "s1")
    run_call(house, "s2", "kite fly")
    repeat_call(house, "s2", "kite fly", NO_COMMAND)
    end_session(house, "s2")
    house.ok("sessions", "list")  # takes in what waits in the spool
    with open_database(house) as connection, db.transaction(connection):
        connection.execute("update injections set version = '', verdict = ''")
        connection.execute("delete from events where outcome = 'denied'")
        connection.execute("update approvals set path = 'upgrade', approved_at = ?", (clock.now(),))
    assert list_verdicts(house) == [("unknown", ""), ("repeated-failed", "failed")]
    [record] = house.ok("proof", slug, "--json").json()
    assert (record["told"]["unknown"], record["before"]["firings"]) == (1, 0)


def test_history_before_the_approval_is_compared_and_called_biased(house: House) -> None:
    house.ok("start")
    for number in range(4):
        run_call(house, f"old{number}", "kite fly", NO_COMMAND)
        end_session(house, f"old{number}")
    slug = house.add(FLY)
    for number in range(3):
        run_call(house, f"new{number}", "kite fly")
        run_call(house, f"new{number}", "kite launch")
        end_session(house, f"new{number}")
    output = " ".join(house.ok("proof", slug).out.split())
    assert "compared: 0 of 3 repeated and failed, 4 of 4 before it was approved; biased" in output


def test_a_candidate_is_tracked_in_silence_until_it_is_accepted(house: House) -> None:
    house.ok("start")
    slug = add_candidate(house)
    for number in range(3):
        run_call(house, f"old{number}", "kite fly", NO_COMMAND)
        end_session(house, f"old{number}")
        if number == 0:  # what follows is between the last look and the acceptance
            house.ok("proof")
            with open_database(house) as connection:
                assert [firing.arm for firing in efficacy.list_firings(connection)] == [efficacy.BEFORE]
    assert house.deliveries() == []
    house.ok("accept", slug)
    [record] = house.ok("proof", "--json").json()
    assert (record["before"]["firings"], record["before"]["repeatedAndFailed"]) == (3, 3)


def draw_names(house: House, count: int) -> Iterator[tuple[str, str]]:
    """Yield names of sessions in pairs: one in which the first lesson is silent at every share, one with it told."""
    index = open_index(house.home)
    fractions = {
        name: draw_fraction(index.secret, name, index.read_entry(0).id)
        for name in (f"drawn{number}" for number in range(100 * count))
    }
    silent = [name for name, fraction in fractions.items() if fraction < delivery_changes.PROVEN_SHARE]
    told_names = [name for name, fraction in fractions.items() if fraction > delivery_changes.FIRST_SHARE]
    return zip(silent[:count], told_names[:count], strict=True)


def run_measured_session(house: House, session: str, transcript: str) -> None:
    """Make the mistake unless the lesson is delivered, take the fix otherwise, and update the ledger."""
    payload = bash("kite fly", transcript_path=transcript)
    if house.ask(session, payload).denied:
        payload = bash("kite launch", transcript_path=transcript)
        house.ask(session, {**payload, "hook_event_name": "PostToolUse", "tool_response": {"stdout": "up"}})
    else:
        house.ask(session, {**payload, "hook_event_name": "PostToolUseFailure", "error": NO_COMMAND})
    house.ask(session, happened("SessionEnd", reason="other", transcript_path=transcript))
    house.ok("proof")


def test_a_measured_lesson_is_silent_less_often_until_it_is_proven_and_anew_for_a_new_model(
    house: House, own_home: str
) -> None:
    slug = house.add(FLY)
    house.ok("proof", slug, "--measure")
    pairs = list(draw_names(house, 14))
    transcript = write_transcript(own_home, "first", "claude-old-1")
    shares = []
    for session in itertools.chain.from_iterable(pairs[:10]):
        run_measured_session(house, session, transcript)
        [record] = house.ok("proof", "--json").json()
        shares.append(record["silentShare"])
    assert shares[:7] == [0.5] * 7 and sorted(set(shares), reverse=True) == [0.5, 0.2, 0.05]
    assert (record["grade"], shares[-1]) == ("proven", 0.05)
    output = " ".join(house.ok("proof", slug).out.split())
    assert "proven: it prevents" in output and "by sessions drawn at random" in output
    assert "here hardwon prevents 100 of 100 repeats (95 % interval" in house.ok("proof").out
    transcript = write_transcript(own_home, "second", "claude-new-2")
    for session in itertools.chain.from_iterable(pairs[10:12]):
        run_measured_session(house, session, transcript)
    [record] = house.ok("proof", "--json").json()
    assert (record["grade"], record["silentShare"]) != ("proven", 0.05)
    run_measured_session(house, pairs[12][0], write_transcript(own_home, "third", "claude-old-1"))
    [record] = house.ok("proof", "--json").json()
    assert record["silentShare"] == 0.5, "going back to the earlier model does not bring its proof back"


def find_sessions(house: House, slug: str) -> tuple[str, str]:
    """Return a session in which a measured lesson is told, and one in which it is silent."""
    index = open_index(house.home)
    entry = next(entry for entry in map(index.read_entry, range(len(index))) if entry.slug == slug)
    names = [f"session{number}" for number in range(200)]
    silent = [name for name in names if draw_fraction(index.secret, name, entry.id) < entry.silent_share]
    return next(name for name in names if name not in silent), silent[0]


def test_a_measured_lesson_is_silent_in_the_sessions_that_are_drawn(house_with_or_without_worker: House) -> None:
    slug = house_with_or_without_worker.add(FLY)
    house_with_or_without_worker.ok("proof", slug, "--measure")
    live, silent = find_sessions(house_with_or_without_worker, slug)
    assert run_call(house_with_or_without_worker, live, "kite fly").denied
    run_call(house_with_or_without_worker, live, "kite launch")
    assert run_call(house_with_or_without_worker, silent, "kite fly", NO_COMMAND).raw == b"{}"
    assert run_call(house_with_or_without_worker, silent, "kite fly", NO_COMMAND).raw == b"{}"
    for session in (live, silent):
        end_session(house_with_or_without_worker, session)
    judged = {firing.arm: (firing.verdict, firing.probability) for firing in list_judged(house_with_or_without_worker)}
    assert judged == {"live": ("changed", 0.5), "silent": ("repeated-failed", 0.5)}
    assert len(list_judged(house_with_or_without_worker)) == 2
    [delivery] = house_with_or_without_worker.deliveries()
    assert delivery["session"] == live


def test_a_silent_firing_is_shown_nowhere_as_a_delivery(house: House) -> None:
    house.ok("start")
    slug = house.add(FLY)
    house.ok("proof", slug, "--measure")
    _, silent = find_sessions(house, slug)
    run_call(house, silent, "kite fly", NO_COMMAND)
    assert house.deliveries() == []
    session_record = house.ok("sessions", "show", silent, "--json").json()
    assert slug not in json.dumps(session_record)


def test_measuring_ends_when_the_person_says_so(house: House) -> None:
    slug = house.add(FLY)
    house.ok("proof", slug, "--measure")
    _, silent = find_sessions(house, slug)
    house.ok("proof", slug, "--stop")
    assert run_call(house, silent, "kite fly").denied


@pytest.mark.parametrize("option", ["--measure", "--stop", "--undo"])
def test_an_agent_may_not_decide_how_a_lesson_is_delivered(house: House, option: str) -> None:
    slug = house.add(FLY)
    assert house.cli("proof", slug, option, env={"CLAUDECODE": "1"}).code == 1
    assert house.ask("s1", bash(f"hardwon proof {slug} {option}")).denied
    assert not house.ask("s1", bash(f"hardwon proof {slug}")).denied


def make_false_alarm(house: House, session: str) -> None:
    run_call(house, session, "kite fly")
    repeat_call(house, session, "kite fly")
    end_session(house, session)


def test_a_hold_with_false_alarms_becomes_a_note_then_silent_and_one_command_undoes_it(house: House) -> None:
    house.ok("start")
    slug = house.add(FLY)
    for number in range(3):
        make_false_alarm(house, f"s{number}")
    notice = house.session_start("next").notice
    assert f"{slug} is a note now and no longer holds calls: 3 of its last 3 firings" in notice
    assert f"hardwon proof {slug} --undo" in notice
    answer = house.ask("s4", bash("kite fly"))
    assert (answer.denied, slug in answer.context) == ("", True)
    make_false_alarm(house, "s5")
    notice = house.session_start("later").notice
    assert f"{slug} is silent now" in notice and f"hardwon lessons retire {slug}" in notice
    assert run_call(house, "s6", "kite fly").raw == b"{}"
    house.ok("proof", slug, "--undo")
    assert house.ask("s7", bash("kite fly")).denied
    assert "is a note now" not in house.session_start("after").notice


def test_a_lesson_that_a_person_edits_is_delivered_as_written_again(house: House) -> None:
    house.ok("start")
    slug = house.add(FLY)
    for number in range(3):
        make_false_alarm(house, f"s{number}")
    assert f"{slug} is a note now" in house.session_start("next").notice
    house.ok("lessons", "edit", slug, "--solution", "run kite launch instead, once the wind is right")
    assert house.ask("s4", bash("kite fly")).denied
    assert "is a note now" not in house.session_start("later").notice


def test_a_block_is_never_stepped_down_but_asked_about(house: House) -> None:
    house.ok("start")
    slug = house.add({**FLY, "delivery": "block", "blockReason": "kite fly always fails here, use kite launch"})
    for number in range(3):
        session = f"s{number}"
        house.ask(session, bash("kite fly"))
        house.ask(session, prompt(f"hardwon allow {slug}"))
        run_call(house, session, "kite fly")
        end_session(house, session)
    assert f"{slug} may not be needed" in house.session_start("next").notice
    assert house.ask("s9", bash("kite fly")).denied


def test_an_agent_that_runs_a_denied_call_is_found_and_named(house: House, own_home: str) -> None:
    house.ok("start")
    house.add(FLY)
    transcript = write_transcript(own_home, "s1", "claude-next-9")
    payload = bash("kite fly", transcript_path=transcript)
    assert house.ask("s1", payload).denied
    house.ask("s1", {**payload, "hook_event_name": "PostToolUse", "tool_response": {"stdout": "up it goes"}})
    house.ask("s1", happened("SessionEnd", reason="other", transcript_path=transcript))
    assert "claude-code 2.1.325 ran 1 call that hardwon had denied" in house.session_start("s2").notice
    assert "hardwon had denied" not in house.session_start("s3").notice
    doctor = house.cli("doctor").out
    assert "claude-code 2.1.325 ran 1 call that hardwon had denied" in doctor
    assert list_verdicts(house) == [("ignored", "fine")]


def test_an_id_that_an_agent_uses_again_for_another_call_is_no_alarm(house: House) -> None:
    house.ok("start")
    house.add(FLY)
    house.ask("s1", bash("kite fly", tool_use_id="call_1"))
    house.ask("s1", used("Bash", {"command": "ls"}, {"stdout": "a"}, tool_use_id="call_1"))
    assert "had denied" not in house.session_start("s2").notice


def test_the_week_is_summed_up_in_one_line_and_once(house: House) -> None:
    house.ok("start")
    house.add(FLY)
    for number in range(3):
        run_call(house, f"s{number}", "kite fly")
        run_call(house, f"s{number}", "kite launch")
        end_session(house, f"s{number}")
    run_call(house, "s4", "kite fly")
    repeat_call(house, "s4", "kite fly", NO_COMMAND)
    end_session(house, "s4")
    notice = house.session_start("next").notice
    assert "this week held 4 repeats, 3 took the fix, 1 went through unchanged" in notice
    assert "this week" not in house.session_start("later").notice


def test_an_export_has_counts_and_no_words(house: House) -> None:
    house.add(FLY)
    run_call(house, "s1", "kite fly")
    exported = house.ok("proof", "--export").out
    assert json.loads(exported)[0]["told"]["firings"] == 1
    assert "kite" not in exported and "s1" not in exported


def test_a_lesson_nobody_measured_says_so(house: House) -> None:
    slug = house.add(FLY)
    run_call(house, "s1", "kite fly")
    assert "counted: nobody measured whether it helps" in house.ok("proof", slug).out


def test_blame_names_what_was_told_before_a_call_and_who_approved_it(house: House) -> None:
    house.ok("start")
    slug = house.add(FLY)
    run_call(house, "s1", "kite fly")
    launch_call = bash("kite launch")
    house.ask("s1", used("Bash", launch_call["tool_input"], {"stdout": "up"}, tool_use_id=launch_call["tool_use_id"]))
    output = house.ok("blame", launch_call["tool_use_id"]).out
    assert f"[{slug}]" in output and "written by a person; approved by command-line" in " ".join(output.split())
    assert "kite, launch" in output
    [item] = house.ok("blame", "s1", "--json").json()
    assert (item["name"], item["delivery"]) == (slug, "hold")


def test_blame_lists_the_memories_that_a_session_opened_with(house: House, own_home: str) -> None:
    house.ok("start")
    folder = os.path.join(own_home, "project")
    os.makedirs(folder)
    house.ok("memory", "add", "project", "the kite is launched from the tower only", cwd=folder)
    house.session_start("s1", cwd=folder)
    run_call(house, "s1", "ls")
    output = house.ok("blame", "s1").out
    assert "the kite is launched from the tower only [M1]" in " ".join(output.split())
    assert "approved by command-line" in output


def test_blame_says_when_nothing_was_told(house: House) -> None:
    run_call(house, "s1", "ls")
    assert "hardwon had told it nothing" in house.ok("blame", "s1").out


def add_candidate(house: House) -> str:
    """Propose a lesson as an agent does, and return its slug."""
    house.ok("lessons", "add", "--json", json.dumps(FLY), env={"CLAUDECODE": "1"})
    with open(os.path.join(house.home, "lessons.json")) as file:
        return str(json.load(file)["lessons"][0]["slug"])


def test_accepted_lessons_are_measured_if_the_person_has_set_that(house: House) -> None:
    house.ok("config", "set", "measureNewLessons", "true")
    house.ok("accept", add_candidate(house))
    [record] = house.ok("proof", "--json").json()
    assert (record["measured"], record["silentShare"]) == (True, 0.5)


@pytest.mark.parametrize(
    "options",
    [
        ["--delivery", "block", "--confirm", "--block-reason", "kite fly always fails, use kite launch"],
        ["--tag", "severity:data-loss"],
    ],
)
def test_a_block_and_a_lesson_against_data_loss_are_measured_only_if_asked(house: House, options: list[str]) -> None:
    house.ok("config", "set", "measureNewLessons", "true")
    slug = add_candidate(house)
    house.ok("accept", slug, *options)
    assert [record["measured"] for record in house.ok("proof", "--json").json()] == [False]
    house.ok("proof", slug, "--measure")
    assert [record["measured"] for record in house.ok("proof", "--json").json()] == [True]


def test_a_hand_written_lesson_is_not_measured_by_default(house: House) -> None:
    house.ok("config", "set", "measureNewLessons", "true")
    house.add(FLY)
    [record] = house.ok("proof", "--json").json()
    assert record["measured"] is False


def write_transcript(own_home: str, session: str, model: str) -> str:
    path = os.path.join(own_home, f"{session}.jsonl")
    with open(path, "w") as file:
        file.write(json.dumps({"type": "assistant", "version": "2.1.325", "message": {"model": model}}) + "\n")
    return path


def test_a_model_that_no_longer_makes_the_mistake_proposes_to_retire_the_lesson(house: House, own_home: str) -> None:
    slug = house.add(FLY)
    house.ok("proof", slug, "--measure")
    index = open_index(house.home)
    names = [f"session{number}" for number in range(200)]
    lesson_id = index.read_entry(0).id
    # Silent at a share of a fifth too, which it has after eight firings.
    silent = [name for name in names if draw_fraction(index.secret, name, lesson_id) < 0.2][:10]
    for session in silent:
        transcript = write_transcript(own_home, session, "claude-next-9")
        payload = bash("kite fly", transcript_path=transcript)
        house.ask(session, payload)
        result_fields = {"tool_use_id": payload["tool_use_id"], "transcript_path": transcript}
        house.ask(session, used("Bash", payload["tool_input"], {"stdout": "ok"}, **result_fields))
        house.ask(session, happened("SessionEnd", reason="other", transcript_path=transcript))
    assert {firing.model for firing in list_judged(house)} == {"claude-next-9"}
    notice = house.session_start("next").notice
    assert f"{slug} may not be needed: claude-next-9 did not make this mistake in 10 sessions" in notice


def render_page(house: House, show: Callable[[PageRequest], PageContent], **path_params: str) -> str:
    """Return a page of the viewer without its tags."""
    around = {"stamp": "", "places": (), "here": "/", "form": "", "said": "", "paused": False, "version": ""}
    with open_database(house) as connection:
        page = show(PageRequest(house.home, connection, BrowserSession(""), clock.now(), path_params, {}, {}))
        html = render.create_environment().get_template(page.template).render({**around, **page.values})
    return " ".join(re.sub(r"<[^>]*>", " ", html).split())


def test_the_viewer_shows_the_proof_of_a_lesson_and_agents_that_ignore_denials(house: House) -> None:
    house.ok("start")
    slug = house.add(FLY)
    run_call(house, "s1", "kite fly")
    run_call(house, "s1", "kite launch")
    end_session(house, "s1")
    payload = bash("kite fly")
    house.ask("s2", payload)
    house.ask("s2", used("Bash", payload["tool_input"], {"stdout": "up"}, tool_use_id=payload["tool_use_id"]))
    end_session(house, "s2")
    house.ok("proof")
    page = render_page(house, lesson_pages.show_lesson, slug=slug)
    assert "Proof Counted: nobody measured whether it helps. Told 1 changed, 1 ran although denied" in page
    assert "claude-code ran 1 call that hardwon had denied" in render_page(house, insights.show_insights)
