"""A transcript that is read in pieces gives what it gives in one go."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hardwon.agents.transcript_steps import Step
from hardwon.mining.episode_state import VERSION
from hardwon.mining.episodes import WINDOW, Episode, Watch, episodes
from hardwon.shell.failures import Failure
from tests.support.story import UNKNOWN, Story, noise
from tests.support.transcripts import corpus, recorded

MOST = 8_000_000  # characters of a state that everything is done to fill


def stored(watch: Watch) -> Any:
    return json.loads(json.dumps(watch.state()))


def in_pieces(steps: Sequence[Step], cuts: Sequence[int]) -> tuple[list[Episode], list[Episode]]:
    watch, ended = Watch(), list[Episode]()
    for number, step in enumerate(steps):
        if number in cuts:
            watch = Watch(stored(watch))
        ended += watch.take(step)
    return ended, Watch(stored(watch)).unfinished()


def stays_the_same_when_cut_anywhere(steps: Sequence[Step]) -> None:
    """Cut after every step: a watch that goes on from a state is in the very state of one that was never stopped."""
    straight, resumed = Watch(), Watch()
    for step in steps:
        ended, state = straight.take(step), stored(straight)
        assert resumed.take(step) == ended
        assert stored(resumed) == state
        resumed = Watch(state)
        assert stored(resumed) == state
    assert resumed.unfinished() == straight.unfinished()


@pytest.mark.parametrize("seed", range(10))
def test_a_made_up_session_may_be_cut_anywhere(seed: int) -> None:
    stays_the_same_when_cut_anywhere(list(noise(seed, 120)))


@pytest.mark.parametrize(("name", "steps"), recorded())
def test_a_recorded_session_may_be_cut_anywhere(name: str, steps: list[Step]) -> None:
    assert steps, name
    stays_the_same_when_cut_anywhere(steps)


def test_a_real_session_may_be_cut_where_an_error_has_no_correction_yet() -> None:
    for name, steps in corpus():
        failed = [number for number, step in enumerate(steps) if step.failed]
        cuts = {number + after for number in failed for after in (0, 1, 2, 5, 9)}
        ended, unfinished = in_pieces(steps, sorted(cuts))
        assert [*ended, *unfinished] == episodes(steps), name


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 500), st.sets(st.integers(0, 200), max_size=6))
def test_a_session_may_be_cut_several_times(seed: int, cuts: set[int]) -> None:
    steps = list(noise(seed, 60))
    ended, unfinished = in_pieces(steps, sorted(cuts))
    assert [*ended, *unfinished] == episodes(steps)


def test_the_correction_may_come_in_the_next_scan() -> None:
    story, watch = Story(), Watch()
    story.fails("kite fly --high", UNKNOWN)
    assert [list(watch.take(step)) for step in story.steps] == [[], []]
    [early] = watch.unfinished()
    assert watch.unfinished() == [early] and early.open and early.worked is None
    known, watch = len(story.steps), Watch(stored(watch))
    story.works("kite launch --high")
    [found] = [episode for step in story.steps[known:] for episode in watch.take(step)]
    assert found.worked is not None and not found.open and watch.unfinished() == []
    assert found.errors == early.errors and found.errors[0].id


def test_a_state_of_another_version_is_as_good_as_none() -> None:
    story, watch = Story(), Watch()
    story.fails("kite fly --high", UNKNOWN)
    for step in story.steps:
        watch.take(step)
    for state in ({**watch.state(), "version": VERSION + 1}, {}, None):
        assert Watch(state).unfinished() == []
        assert Watch(state).state() == Watch().state()


def test_what_version_1_left_under_way_is_not_lost() -> None:
    story, watch = Story(), Watch()
    story.fails("kite fly --high", UNKNOWN)
    for step in story.steps:
        watch.take(step)
    state = watch.state()
    for _, thread in state["threads"]:
        for under_way in thread[3]:
            del under_way[0][-1]  # it had no `denied`
    [found] = Watch({**state, "version": 1}).unfinished()
    assert found.failing.command == "kite fly --high" and not found.failing.denied


def test_a_change_of_what_is_saved_is_a_new_version() -> None:
    step = "kind line id at session agent cwd call tool command path content text failed refused denied"
    failure = "id line call_line tool command path text quote about signature"
    assert (VERSION, " ".join(Step._fields), " ".join(Failure.__annotations__)) == (2, step, failure)


def hostile(turns: int) -> list[Step]:
    """Many agents, calls without results, ever other errors, and texts without an end."""
    story, long = Story(), "x" * 9_000
    for turn in range(turns):
        story.call("Write", path=f"/{turn}{long}", content=long)
        story.fails(f"kite{turn % 40} fly {long}", f"Exit code 1\nkite{turn % 40}: {chr(97 + turn % 26) * 9} {long}")
        story.refuse(f"git push {turn}", long)
        story.agent(f"It fails because of {long}")
    return [step._replace(agent=f"a{number // 100}") for number, step in enumerate(story.steps)]


def test_a_state_is_bounded_however_long_the_session() -> None:
    watch, sizes = Watch(), []
    for number, step in enumerate(hostile(500)):
        watch.take(step)
        if number % 100 == 99:
            sizes.append(len(json.dumps(watch.state())))
    half = len(sizes) // 2
    assert max(sizes[half:]) < 1.2 * max(sizes[:half]) < MOST


def test_a_quiet_session_leaves_a_small_state() -> None:
    story, watch = Story(), Watch()
    story.pause(WINDOW * 9)
    for step in story.steps:
        watch.take(step)
    assert len(json.dumps(watch.state())) < 100
