"""A day of eight sessions as the worker sees it: events are in the store, and the worker checks every minute."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from hardwon import claims, settings
from hardwon.handoff import reflection
from hardwon.handoff.due_sessions import find_sessions_due_for_reflection
from hardwon.handoff.idle_sessions import MINUTE, RECHECK_SECONDS, LastCheck, plan_check
from hardwon.sessions import ingest
from hardwon.store import jobs, reflections
from hardwon.types import Event
from hardwon.worker import job_process
from hardwon.worker.job_process import drop_superseded_drafts
from tests.support.made_up_transcripts import Transcript
from tests.support.new_store import connect_to_new_store
from tests.unit.handoff.test_idle_sessions import DAY, time_of_day

MIDNIGHT = 1_772_582_400.0  # 4 March 2026
VALUES: dict[str, Any] = settings.resolve_settings({})
DENIED = "/home/dev/secret"


class ClockHarness:
    """A home and the state of the worker; the tests pass the time in."""

    def __init__(self, top: Path) -> None:
        self.home, self.folder = str(top / ".hardwon"), top / "transcripts"
        self.folder.mkdir()
        self.connection = connect_to_new_store(self.home)
        self.fired: list[tuple[int, str, float]] = []
        self._events = 0
        self.restart_worker()

    def restart_worker(self) -> None:
        """Replace the worker by a new one that has no state."""
        self._last_check = LastCheck()

    def perform_action(self, number: int, now: float, action: str) -> None:
        prompts = {
            "prompt": "mend the kite",
            "private": "mend the kite",
            "denied": "mend the kite",
            "handoff": "/handoff",
        }
        if action == "private":
            claims.mark_paused(self.home, f"s{number}", MIDNIGHT + now)
        if action in prompts:
            self.add_event(
                number,
                now,
                "UserPromptSubmit",
                prompt=f"{prompts[action]} {now}" if action != "handoff" else "/handoff",
            )
        if action in ("stop", "handoff"):
            self.add_event(number, now, "Stop", message="It is mended.")
        if action == "end":
            self.add_event(number, now, "SessionEnd")

    def add_event(self, number: int, now: float, kind: str, **fields: Any) -> None:
        self._events += 1
        cwd = DENIED if number == 6 else "/home/dev/kite"
        event = Event(
            "claude-code",
            kind,
            f"s{number}",
            cwd,
            id=f"e{self._events}",
            at=MIDNIGHT + now,
            transcript=self.write_transcript(f"s{number}"),
            **fields,
        )
        ingest.commit_event(self.connection, event, (), is_live=True)

    def write_transcript(self, session: str) -> str:
        path = self.folder / f"{session}.jsonl"
        if not path.exists():
            transcript = Transcript(session=session)
            transcript.person("Mend the tail of the kite.")
            transcript.agent("It is mended.")
            transcript.write(self.folder, session)
        return str(path)

    def check_sessions(self, now: float, *, cut_off: bool = False, **values: Any) -> None:
        """Do what `worker/background.py` and the process it starts do at each check."""
        resolved = {**VALUES, **values}
        idle_sessions = reflections.list_unreflected_sessions(
            self.connection, MIDNIGHT + now, resolved["idleMinutes"] * 60.0
        )
        next_check = plan_check(idle_sessions, MIDNIGHT + now, self._last_check)
        if next_check is None:
            return
        self._last_check = next_check
        due = find_sessions_due_for_reflection(
            self.connection,
            self.home,
            resolved,
            {},
            now=MIDNIGHT + now,
            is_denied=lambda cwd: cwd == DENIED,
            queue_folder=os.path.join(self.home, "queue"),
        )
        for due_session in due:
            options = reflection.ReflectionOptions(
                ask=exit_process if cut_off else None, queue_folder=os.path.join(self.home, "queue")
            )
            reflection.reflect(
                self.connection,
                self.home,
                due_session.transcript,
                options,
                agent=due_session.agent,
                now=MIDNIGHT + now,
            )
            self.fired.append((int(due_session.session[1:]), due_session.due.reason, now))


def exit_process(*_: Any) -> Any:
    raise SystemExit(1)


@pytest.fixture
def clock(tmp_path: Path) -> ClockHarness:
    return ClockHarness(tmp_path)


def test_sessions_are_reflected_on_once_and_in_time_though_the_worker_is_killed_twice(clock: ClockHarness) -> None:
    for minute in range(8 * 60, 20 * 60):
        now = minute * MINUTE
        for hours, minutes, number, action in DAY:
            if time_of_day(hours, minutes) == now:
                clock.perform_action(number, now, action)
        if now == time_of_day(13, 17):  # the process is ended amid the work, and the worker with it
            with pytest.raises(SystemExit):
                clock.check_sessions(now, cut_off=True)
            clock.restart_worker()
            continue
        if now == time_of_day(15, 2) + MINUTE:
            clock.restart_worker()
        clock.check_sessions(now)
    expected = [
        (2, "ended", time_of_day(9, 12)),
        (1, "idle", time_of_day(9, 21)),
        (7, "idle", time_of_day(9, 50)),
        (7, "idle", time_of_day(12, 21)),
        (8, "idle", time_of_day(13, 18)),
        (8, "ended", time_of_day(15, 2)),
        (7, "idle", time_of_day(17, 35)),
    ]
    assert [firing[:2] for firing in clock.fired] == [firing[:2] for firing in expected]
    for (_, _, fired_at), (_, reason, due) in zip(clock.fired, expected, strict=True):
        assert due <= fired_at <= due + (RECHECK_SECONDS if reason == "idle" else 0)
    drafts = reflections.list_reflections(clock.connection, reflections.DRAFT)
    assert sorted(draft.session for draft in drafts) == ["s1", "s2", "s7", "s8"]
    assert len(os.listdir(os.path.join(clock.home, reflection.DRAFTS_FOLDER))) == 4


def test_thirty_sessions_that_end_together_are_each_drafted_once(clock: ClockHarness) -> None:
    for number in range(10, 40):
        for minutes, action in ((0, "prompt"), (1, "prompt"), (2, "stop"), (3, "end")):
            clock.perform_action(number, time_of_day(9, minutes), action)
    for minutes in range(3, 30):
        clock.check_sessions(time_of_day(9, minutes))
    assert sorted(firing[0] for firing in clock.fired) == list(range(10, 40))
    assert {firing[1:] for firing in clock.fired} == {("ended", time_of_day(9, 3))}


def test_sessions_checked_recently_start_no_process() -> None:
    first = plan_check([(1, 5.0)], 100.0, LastCheck())
    assert first == LastCheck(((1, 5.0),), 100.0)
    assert plan_check([(1, 5.0)], 100.0 + RECHECK_SECONDS - 1, first) is None
    assert plan_check([(1, 5.0)], 100.0 + RECHECK_SECONDS, first) is not None
    assert plan_check([(1, 5.0), (2, 6.0)], 101.0, first) is not None
    assert plan_check([(1, 5.0)], 50.0, first) is not None, "a clock that was set back"
    assert plan_check([], 101.0, first) is None
    assert plan_check([], 101.0, first, has_overdue=True) is not None


@pytest.mark.parametrize("commits", [False, True])
def test_a_later_handoff_drops_the_draft(clock: ClockHarness, commits: bool) -> None:
    for minutes, action in ((0, "prompt"), (1, "prompt"), (2, "stop")):
        clock.perform_action(1, time_of_day(9, minutes), action)
    clock.check_sessions(time_of_day(9, 30))
    (draft,) = reflections.list_reflections(clock.connection, reflections.DRAFT)
    assert drop_superseded_drafts(clock.connection, 1, MIDNIGHT + time_of_day(9, 31)) == 0
    if commits:
        clock.perform_action(1, time_of_day(10), "prompt")
        tool_input = {"command": "git commit -m 'Handoff: the tail'"}
        clock.add_event(
            1, time_of_day(10, 1), "PostToolUse", tool="Bash", tool_use_id="t1", input=tool_input, response="[main 1]"
        )
        clock.perform_action(1, time_of_day(10, 2), "stop")
    else:
        clock.perform_action(1, time_of_day(10), "handoff")
    job_process.run_due_jobs(
        clock.home, clock.connection, jobs.DISTIL, VALUES, read_clock=lambda: MIDNIGHT + time_of_day(10, 3)
    )
    assert reflections.list_reflections(clock.connection, reflections.DRAFT) == [] and not os.path.exists(draft.draft)
    clock.check_sessions(time_of_day(11))
    assert len(clock.fired) == 1


def test_a_draft_written_by_a_person_or_agent_is_not_dropped(clock: ClockHarness) -> None:
    for minutes, action in ((0, "prompt"), (1, "prompt"), (2, "stop")):
        clock.perform_action(1, time_of_day(9, minutes), action)
    page = clock.folder / "s1.draft.md"
    page.write_text("next the rudder\n")
    reflections.insert(
        clock.connection,
        reflections.Reflection(
            0, "k", "claude-code", "s1", "", MIDNIGHT + time_of_day(9, 3), "person", draft=str(page)
        ),
    )
    clock.perform_action(1, time_of_day(10), "handoff")
    assert drop_superseded_drafts(clock.connection, 1, MIDNIGHT + time_of_day(10, 1)) == 0 and page.exists()
