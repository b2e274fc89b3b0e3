"""A day of eight sessions as the worker lives it: what hooks told is in the store, and its clock looks every minute."""

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
from hardwon.store import db, jobs, reflections
from hardwon.types import Event
from hardwon.worker import job_process
from hardwon.worker.job_process import drop_superseded_drafts
from tests.support.made_up_transcripts import Transcript
from tests.unit.handoff.test_idle_sessions import DAY, at

MIDNIGHT = 1_772_582_400.0  # 4 March 2026
VALUES: dict[str, Any] = settings.resolve_settings({})
DENIED = "/home/dev/secret"


class Clockwork:
    """Owns a home and what the worker keeps in mind; time is given to it."""

    def __init__(self, top: Path) -> None:
        self.home, self.folder = str(top / ".hardwon"), top / "transcripts"
        self.folder.mkdir()
        self.connection = db.connect(self.home)
        self.fired: list[tuple[int, str, float]] = []
        self._events = 0
        self.begin_anew()

    def begin_anew(self) -> None:
        """The worker that was there is gone, with all that it kept in mind."""
        self._looked = LastCheck()

    def happen(self, number: int, now: float, what: str) -> None:
        told = {"prompt": "mend the kite", "private": "mend the kite", "denied": "mend the kite", "handoff": "/handoff"}
        if what == "private":
            claims.mark_paused(self.home, f"s{number}", MIDNIGHT + now)
        if what in told:
            self._event(
                number, now, "UserPromptSubmit", prompt=f"{told[what]} {now}" if what != "handoff" else "/handoff"
            )
        if what in ("stop", "handoff"):
            self._event(number, now, "Stop", message="It is mended.")
        if what == "end":
            self._event(number, now, "SessionEnd")

    def _event(self, number: int, now: float, kind: str, **more: Any) -> None:
        self._events += 1
        cwd = DENIED if number == 6 else "/home/dev/kite"
        event = Event(
            "claude-code",
            kind,
            f"s{number}",
            cwd,
            id=f"e{self._events}",
            at=MIDNIGHT + now,
            transcript=self.transcript(f"s{number}"),
            **more,
        )
        ingest.commit_event(self.connection, event, (), is_live=True)

    def transcript(self, session: str) -> str:
        path = self.folder / f"{session}.jsonl"
        if not path.exists():
            told = Transcript(session=session)
            told.person("Mend the tail of the kite.")
            told.agent("It is mended.")
            told.write(self.folder, session)
        return str(path)

    def tick(self, now: float, *, cut_off: bool = False, **values: Any) -> None:
        """What `worker/background.py` does at each look, and the process that it starts."""
        said = {**VALUES, **values}
        waiting = reflections.list_unreflected_sessions(self.connection, MIDNIGHT + now, said["idleMinutes"] * 60.0)
        seen = plan_check(waiting, MIDNIGHT + now, self._looked)
        if seen is None:
            return
        self._looked = seen
        due = find_sessions_due_for_reflection(
            self.connection,
            self.home,
            said,
            {},
            now=MIDNIGHT + now,
            is_denied=lambda cwd: cwd == DENIED,
            queue_folder=os.path.join(self.home, "queue"),
        )
        for one in due:
            reflection.reflect(
                self.connection,
                self.home,
                one.transcript,
                agent=one.agent,
                now=MIDNIGHT + now,
                ask=_leave if cut_off else None,
                queue_folder=os.path.join(self.home, "queue"),
            )
            self.fired.append((int(one.session[1:]), one.due.reason, now))


def _leave(*_: Any) -> Any:
    raise SystemExit(1)


@pytest.fixture
def clockwork(tmp_path: Path) -> Clockwork:
    return Clockwork(tmp_path)


def test_the_right_sessions_fire_once_and_in_time_though_the_worker_is_killed_twice(clockwork: Clockwork) -> None:
    for minute in range(8 * 60, 20 * 60):
        now = minute * MINUTE
        for hours, minutes, number, what in DAY:
            if at(hours, minutes) == now:
                clockwork.happen(number, now, what)
        if now == at(13, 17):  # the process is ended amid the work, and the worker with it
            with pytest.raises(SystemExit):
                clockwork.tick(now, cut_off=True)
            clockwork.begin_anew()
            continue
        if now == at(15, 2) + MINUTE:
            clockwork.begin_anew()
        clockwork.tick(now)
    expected = [
        (2, "ended", at(9, 12)),
        (1, "idle", at(9, 21)),
        (7, "idle", at(9, 50)),
        (7, "idle", at(12, 21)),
        (8, "idle", at(13, 18)),
        (8, "ended", at(15, 2)),
        (7, "idle", at(17, 35)),
    ]
    assert [one[:2] for one in clockwork.fired] == [one[:2] for one in expected]
    for (_, _, was), (_, why, due) in zip(clockwork.fired, expected, strict=True):
        assert due <= was <= due + (RECHECK_SECONDS if why == "idle" else 0)
    drafts = reflections.list_reflections(clockwork.connection, reflections.DRAFT)
    assert sorted(one.session for one in drafts) == ["s1", "s2", "s7", "s8"]
    assert len(os.listdir(os.path.join(clockwork.home, reflection.DRAFTS_FOLDER))) == 4


def test_thirty_that_end_at_once_are_all_drafted_and_none_twice(clockwork: Clockwork) -> None:
    for number in range(10, 40):
        for minutes, what in ((0, "prompt"), (1, "prompt"), (2, "stop"), (3, "end")):
            clockwork.happen(number, at(9, minutes), what)
    for minutes in range(3, 30):
        clockwork.tick(at(9, minutes))
    assert sorted(one[0] for one in clockwork.fired) == list(range(10, 40))
    assert {one[1:] for one in clockwork.fired} == {("ended", at(9, 3))}


def test_the_clock_does_not_start_a_process_for_what_it_just_had_looked_at() -> None:
    first = plan_check([(1, 5.0)], 100.0, LastCheck())
    assert first == LastCheck(((1, 5.0),), 100.0)
    assert plan_check([(1, 5.0)], 100.0 + RECHECK_SECONDS - 1, first) is None
    assert plan_check([(1, 5.0)], 100.0 + RECHECK_SECONDS, first) is not None
    assert plan_check([(1, 5.0), (2, 6.0)], 101.0, first) is not None
    assert plan_check([(1, 5.0)], 50.0, first) is not None, "a clock that was set back"
    assert plan_check([], 101.0, first) is None
    assert plan_check([], 101.0, first, has_overdue=True) is not None


@pytest.mark.parametrize("commits", [False, True])
def test_who_hands_off_after_the_draft_needs_none(clockwork: Clockwork, commits: bool) -> None:
    for minutes, what in ((0, "prompt"), (1, "prompt"), (2, "stop")):
        clockwork.happen(1, at(9, minutes), what)
    clockwork.tick(at(9, 30))
    (draft,) = reflections.list_reflections(clockwork.connection, reflections.DRAFT)
    assert drop_superseded_drafts(clockwork.connection, 1, MIDNIGHT + at(9, 31)) == 0
    if commits:
        clockwork.happen(1, at(10), "prompt")
        given = {"command": "git commit -m 'Handoff: the tail'"}
        clockwork._event(1, at(10, 1), "PostToolUse", tool="Bash", tool_use_id="t1", input=given, response="[main 1]")
        clockwork.happen(1, at(10, 2), "stop")
    else:
        clockwork.happen(1, at(10), "handoff")
    job_process.run_due_jobs(
        clockwork.home, clockwork.connection, jobs.DISTIL, VALUES, read_clock=lambda: MIDNIGHT + at(10, 3)
    )
    assert reflections.list_reflections(clockwork.connection, reflections.DRAFT) == [] and not os.path.exists(
        draft.draft
    )
    clockwork.tick(at(11))
    assert len(clockwork.fired) == 1


def test_what_a_person_or_their_agent_wrote_is_not_given_up(clockwork: Clockwork) -> None:
    for minutes, what in ((0, "prompt"), (1, "prompt"), (2, "stop")):
        clockwork.happen(1, at(9, minutes), what)
    page = clockwork.folder / "s1.draft.md"
    page.write_text("next the rudder\n")
    reflections.insert(
        clockwork.connection,
        reflections.Reflection(0, "k", "claude-code", "s1", "", MIDNIGHT + at(9, 3), "person", draft=str(page)),
    )
    clockwork.happen(1, at(10), "handoff")
    assert drop_superseded_drafts(clockwork.connection, 1, MIDNIGHT + at(10, 1)) == 0 and page.exists()
