"""A transcript read in pieces gives the same episodes as one read at once."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hardwon.agents.transcript_steps import Step
from hardwon.mining.episode_state import STATE_VERSION
from hardwon.mining.episodes import CORRECTION_WINDOW, Episode, EpisodeTracker, find_episodes
from hardwon.shell.failures import Failure
from tests.support.session_steps import list_corpus_sessions, list_recorded_sessions
from tests.support.step_builder import UNKNOWN, StepBuilder, generate_noise

MAX_STATE_CHARS = 8_000_000  # characters of a state that everything is done to fill


def copy_state(tracker: EpisodeTracker) -> Any:
    return json.loads(json.dumps(tracker.dump_state()))


def track_in_pieces(steps: Sequence[Step], cuts: Sequence[int]) -> tuple[list[Episode], list[Episode]]:
    tracker, ended = EpisodeTracker(), list[Episode]()
    for number, step in enumerate(steps):
        if number in cuts:
            tracker = EpisodeTracker(copy_state(tracker))
        ended += tracker.process_step(step)
    return ended, EpisodeTracker(copy_state(tracker)).list_unfinished()


def check_cut_anywhere(steps: Sequence[Step]) -> None:
    """Check that a tracker resumed after every step has the state of one that never stopped."""
    straight, resumed = EpisodeTracker(), EpisodeTracker()
    for step in steps:
        ended, state = straight.process_step(step), copy_state(straight)
        assert resumed.process_step(step) == ended
        assert copy_state(resumed) == state
        resumed = EpisodeTracker(state)
        assert copy_state(resumed) == state
    assert resumed.list_unfinished() == straight.list_unfinished()


@pytest.mark.parametrize("seed", range(4))
def test_a_made_up_session_may_be_cut_anywhere(seed: int) -> None:
    check_cut_anywhere(list(generate_noise(seed, 120)))


@pytest.mark.parametrize(("name", "steps"), list_recorded_sessions())
def test_a_recorded_session_may_be_cut_anywhere(name: str, steps: list[Step]) -> None:
    assert steps, name
    check_cut_anywhere(steps)


def test_a_real_session_may_be_cut_where_an_error_has_no_correction_yet() -> None:
    for name, steps in list_corpus_sessions():
        failed = [number for number, step in enumerate(steps) if step.failed]
        cuts = {number + offset for number in failed for offset in (0, 1, 2, 5, 9)}
        ended, unfinished = track_in_pieces(steps, sorted(cuts))
        assert [*ended, *unfinished] == find_episodes(steps), name


@given(st.integers(0, 500), st.sets(st.integers(0, 200), max_size=6))
def test_a_session_may_be_cut_several_times(seed: int, cuts: set[int]) -> None:
    steps = list(generate_noise(seed, 60))
    ended, unfinished = track_in_pieces(steps, sorted(cuts))
    assert [*ended, *unfinished] == find_episodes(steps)


def test_the_correction_may_come_in_the_next_scan() -> None:
    story, tracker = StepBuilder(), EpisodeTracker()
    story.fails("kite fly --high", UNKNOWN)
    assert [list(tracker.process_step(step)) for step in story.steps] == [[], []]
    [early] = tracker.list_unfinished()
    assert tracker.list_unfinished() == [early] and early.is_open and early.working_call is None
    processed_count, tracker = len(story.steps), EpisodeTracker(copy_state(tracker))
    story.works("kite launch --high")
    [episode] = [episode for step in story.steps[processed_count:] for episode in tracker.process_step(step)]
    assert episode.working_call is not None and not episode.is_open and tracker.list_unfinished() == []
    assert episode.errors == early.errors and episode.errors[0].id


def test_a_state_of_another_version_is_ignored() -> None:
    story, tracker = StepBuilder(), EpisodeTracker()
    story.fails("kite fly --high", UNKNOWN)
    for step in story.steps:
        tracker.process_step(step)
    for state in ({**tracker.dump_state(), "version": STATE_VERSION + 1}, {}, None):
        assert EpisodeTracker(state).list_unfinished() == []
        assert EpisodeTracker(state).dump_state() == EpisodeTracker().dump_state()


def test_an_unfinished_episode_of_version_1_is_kept() -> None:
    story, tracker = StepBuilder(), EpisodeTracker()
    story.fails("kite fly --high", UNKNOWN)
    for step in story.steps:
        tracker.process_step(step)
    state = tracker.dump_state()
    for _, thread in state["threads"]:
        for under_way in thread[3]:
            del under_way[0][-2:]  # it had no `denied` and no `branch`
    [episode] = EpisodeTracker({**state, "version": 1}).list_unfinished()
    assert episode.failing_call.command == "kite fly --high" and not episode.failing_call.denied


def test_changed_fields_need_a_new_version() -> None:
    step = "kind line id at session subagent_id cwd call tool command path content text failed refused denied branch"
    failure = "id line call_line tool command path text quote kind signature"
    assert (STATE_VERSION, " ".join(Step._fields), " ".join(Failure.__annotations__)) == (4, step, failure)


def build_hostile_steps(turns: int) -> list[Step]:
    """Build steps of many agents, with calls without results, varying errors and long texts."""
    story, long_text = StepBuilder(), "x" * 9_000
    for turn in range(turns):
        story.call("Write", path=f"/{turn}{long_text}", content=long_text)
        story.fails(
            f"kite{turn % 40} fly {long_text}", f"Exit code 1\nkite{turn % 40}: {chr(97 + turn % 26) * 9} {long_text}"
        )
        story.refuse(f"git push {turn}", long_text)
        story.agent(f"It fails because of {long_text}")
    return [step._replace(subagent_id=f"a{number // 100}") for number, step in enumerate(story.steps)]


def test_a_state_is_bounded_however_long_the_session() -> None:
    tracker, sizes = EpisodeTracker(), []
    for number, step in enumerate(build_hostile_steps(500)):
        tracker.process_step(step)
        if number % 200 == 199:
            sizes.append(len(json.dumps(tracker.dump_state())))
    half = len(sizes) // 2
    assert max(sizes[half:]) < 1.2 * max(sizes[:half]) < MAX_STATE_CHARS


def test_a_quiet_session_leaves_a_small_state() -> None:
    story, tracker = StepBuilder(), EpisodeTracker()
    story.pause(CORRECTION_WINDOW * 9)
    for step in story.steps:
        tracker.process_step(step)
    assert len(json.dumps(tracker.dump_state())) < 100
