"""A transcript that is read in pieces gives what it gives in one go."""

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

MOST = 8_000_000  # characters of a state that everything is done to fill


def stored(watch: EpisodeTracker) -> Any:
    return json.loads(json.dumps(watch.dump_state()))


def in_pieces(steps: Sequence[Step], cuts: Sequence[int]) -> tuple[list[Episode], list[Episode]]:
    watch, ended = EpisodeTracker(), list[Episode]()
    for number, step in enumerate(steps):
        if number in cuts:
            watch = EpisodeTracker(stored(watch))
        ended += watch.process_step(step)
    return ended, EpisodeTracker(stored(watch)).list_unfinished()


def stays_the_same_when_cut_anywhere(steps: Sequence[Step]) -> None:
    """Cut after every step: a watch that goes on from a state is in the very state of one that was never stopped."""
    straight, resumed = EpisodeTracker(), EpisodeTracker()
    for step in steps:
        ended, state = straight.process_step(step), stored(straight)
        assert resumed.process_step(step) == ended
        assert stored(resumed) == state
        resumed = EpisodeTracker(state)
        assert stored(resumed) == state
    assert resumed.list_unfinished() == straight.list_unfinished()


@pytest.mark.parametrize("seed", range(4))
def test_a_made_up_session_may_be_cut_anywhere(seed: int) -> None:
    stays_the_same_when_cut_anywhere(list(generate_noise(seed, 120)))


@pytest.mark.parametrize(("name", "steps"), list_recorded_sessions())
def test_a_recorded_session_may_be_cut_anywhere(name: str, steps: list[Step]) -> None:
    assert steps, name
    stays_the_same_when_cut_anywhere(steps)


def test_a_real_session_may_be_cut_where_an_error_has_no_correction_yet() -> None:
    for name, steps in list_corpus_sessions():
        failed = [number for number, step in enumerate(steps) if step.failed]
        cuts = {number + after for number in failed for after in (0, 1, 2, 5, 9)}
        ended, unfinished = in_pieces(steps, sorted(cuts))
        assert [*ended, *unfinished] == find_episodes(steps), name


@given(st.integers(0, 500), st.sets(st.integers(0, 200), max_size=6))
def test_a_session_may_be_cut_several_times(seed: int, cuts: set[int]) -> None:
    steps = list(generate_noise(seed, 60))
    ended, unfinished = in_pieces(steps, sorted(cuts))
    assert [*ended, *unfinished] == find_episodes(steps)


def test_the_correction_may_come_in_the_next_scan() -> None:
    story, watch = StepBuilder(), EpisodeTracker()
    story.fails("kite fly --high", UNKNOWN)
    assert [list(watch.process_step(step)) for step in story.steps] == [[], []]
    [early] = watch.list_unfinished()
    assert watch.list_unfinished() == [early] and early.is_open and early.working_call is None
    known, watch = len(story.steps), EpisodeTracker(stored(watch))
    story.works("kite launch --high")
    [found] = [episode for step in story.steps[known:] for episode in watch.process_step(step)]
    assert found.working_call is not None and not found.is_open and watch.list_unfinished() == []
    assert found.errors == early.errors and found.errors[0].id


def test_a_state_of_another_version_is_as_good_as_none() -> None:
    story, watch = StepBuilder(), EpisodeTracker()
    story.fails("kite fly --high", UNKNOWN)
    for step in story.steps:
        watch.process_step(step)
    for state in ({**watch.dump_state(), "version": STATE_VERSION + 1}, {}, None):
        assert EpisodeTracker(state).list_unfinished() == []
        assert EpisodeTracker(state).dump_state() == EpisodeTracker().dump_state()


def test_what_version_1_left_under_way_is_not_lost() -> None:
    story, watch = StepBuilder(), EpisodeTracker()
    story.fails("kite fly --high", UNKNOWN)
    for step in story.steps:
        watch.process_step(step)
    state = watch.dump_state()
    for _, thread in state["threads"]:
        for under_way in thread[3]:
            del under_way[0][-1]  # it had no `denied`
    [found] = EpisodeTracker({**state, "version": 1}).list_unfinished()
    assert found.failing_call.command == "kite fly --high" and not found.failing_call.denied


def test_a_change_of_what_is_saved_is_a_new_version() -> None:
    step = "kind line id at session agent cwd call tool command path content text failed refused denied"
    failure = "id line call_line tool command path text quote kind signature"
    assert (STATE_VERSION, " ".join(Step._fields), " ".join(Failure.__annotations__)) == (3, step, failure)


def hostile(turns: int) -> list[Step]:
    """Many agents, calls without results, ever other errors, and texts without an end."""
    story, long = StepBuilder(), "x" * 9_000
    for turn in range(turns):
        story.call("Write", path=f"/{turn}{long}", content=long)
        story.fails(f"kite{turn % 40} fly {long}", f"Exit code 1\nkite{turn % 40}: {chr(97 + turn % 26) * 9} {long}")
        story.refuse(f"git push {turn}", long)
        story.agent(f"It fails because of {long}")
    return [step._replace(agent=f"a{number // 100}") for number, step in enumerate(story.steps)]


def test_a_state_is_bounded_however_long_the_session() -> None:
    watch, sizes = EpisodeTracker(), []
    for number, step in enumerate(hostile(500)):
        watch.process_step(step)
        if number % 200 == 199:
            sizes.append(len(json.dumps(watch.dump_state())))
    half = len(sizes) // 2
    assert max(sizes[half:]) < 1.2 * max(sizes[:half]) < MOST


def test_a_quiet_session_leaves_a_small_state() -> None:
    story, watch = StepBuilder(), EpisodeTracker()
    story.pause(CORRECTION_WINDOW * 9)
    for step in story.steps:
        watch.process_step(step)
    assert len(json.dumps(watch.dump_state())) < 100
