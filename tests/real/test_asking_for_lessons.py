"""A mistake and its cure in the real agents: asked for a lesson once, reported, accepted, and held the next time."""

from __future__ import annotations

import json
from collections.abc import Callable
from time import monotonic, sleep
from typing import Any

import pytest

from tests.stories.test_the_viewer import Browser

from .house import WAIT_SECONDS, House
from .model_server import Reply, bash
from .other_agents import run_shell
from .test_who_typed_it import is_run_by_an_agent, other_house

__all__ = ["other_house"]  # the fixture of the other agents

pytestmark = pytest.mark.real

DONE = Reply("done")
WRONG, RIGHT = "git log --oneline --colour", "git log --oneline --color"
ASKED = "end your reply with a #lesson block"
REPORT = """Here is the log.

#lesson
problem: git log --colour fails here, since git knows only the American spelling
solution: write git log --color
#/lesson
"""


def wait_for_proposal(house: House) -> dict[str, Any]:
    """Return what the worker found in the transcript after the agent's last message, without a scan of ours."""
    deadline = monotonic() + WAIT_SECONDS
    while True:
        listed = json.loads(house.hardwon("scan", "candidates", "--json", "--all"))["candidates"]
        if [proposal["tier"] for proposal in listed] == [1]:  # a scan at the session's start may find the mistake first
            return dict(listed[0])
        assert monotonic() < deadline, "the worker did not scan the transcript"
        sleep(0.2)


def accept_proposal(house: House, proposal: dict[str, Any]) -> None:
    """Accept by typing it to the agent; on the command line where an agent runs these tests, since nobody types then."""
    decision = ("accept", str(proposal["index"]))
    if is_run_by_an_agent():
        house.hardwon(*decision)
    else:
        house.session([DONE], f"hardwon {' '.join(decision)}")


def check_story(house: House, run: Callable[..., Reply]) -> None:
    house.hardwon("start")
    first = house.session([run(WRONG), run(RIGHT), run(WRONG), run(RIGHT), Reply(REPORT)])
    assert first.turns_with(ASKED)[0] == 2, "asked beside the result of the call that worked"
    assert sum(text.count(ASKED) for text in first.turns[-1].texts) == 1, "asked once"
    assert any(f"`{WRONG}` failed" in text and f"`{RIGHT}` worked" in text for text in first.turns[2].texts)

    proposal = wait_for_proposal(house)
    assert (proposal["solution"], proposal["delivery"]) == ("write git log --color", "hold")
    assert (proposal["difference"]["command"], proposal["difference"]["worked"]) == (WRONG, RIGHT)
    accept_proposal(house, proposal)

    # A repeat within 300 ms counts as made in parallel with the held call.
    second = house.session([run(WRONG), run(RIGHT, delay=0.5), DONE])
    assert [result.refused for result in second.results] == [True, False]
    assert "write git log --color" in second.results[0].text and not second.turns_with(ASKED)

    browser = Browser(house.hardwon("view", "--print").strip())
    browser.open()
    page = browser.get(f"/lessons/{proposal['slug']}").text
    row = page.partition('data-name="call"')[2].partition("</tr>")[0]
    call, _, instead = row.partition('data-name="instead"')
    assert WRONG in call and "denied" in call
    assert RIGHT in instead and "succeeded" in instead


def test_a_cure_becomes_a_lesson_that_the_agent_wrote_and_the_next_session_is_held(house: House) -> None:
    check_story(house, bash)


def test_the_other_agents_are_asked_and_held_as_well(other_house: House) -> None:
    check_story(other_house, run_shell)
