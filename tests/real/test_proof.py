"""The proof of a lesson on the real Claude Code: told in one session, silent in another, and what followed each."""

from __future__ import annotations

import json
import subprocess
import uuid

import pytest

from hardwon.lessons.delivery import draw_fraction
from hardwon.lessons.manifest_index import open_index
from tests.support.house import run_at_terminal

from .conversation import Session
from .house import HARDWON, House
from .model_server import Reply, bash

pytestmark = pytest.mark.real

A_MOMENT_LATER = 0.5  # a repeat within 300 ms is a twin of the held call, not a second thought
ADVICE = "ADVICE-9: list files with ls -l, this ls has no option of that name"
DONE = Reply("done")


def find_slug(house: House) -> str:
    [lesson] = json.loads(house.hardwon("lessons", "list", "--json"))
    return str(lesson["slug"])


def draw_sessions(house: House) -> tuple[str, str]:
    """Return the id of a session in which the measured lesson is told, and of one in which it is silent."""
    index = open_index(str(house.root / "hardwon"))
    entry = index.read_entry(0)
    ids = [str(uuid.UUID(int=number << 64 | 4 << 76 | 8 << 60)) for number in range(1, 200)]
    silent = [name for name in ids if draw_fraction(index.secret, name, entry.id) < entry.silent_share]
    return next(name for name in ids if name not in silent), silent[0]


def list_notices(session: Session) -> str:
    return "\n".join(
        json.loads(hook.stdout).get("systemMessage", "")
        for hook in session.hooks
        if hook.event == "SessionStart" and hook.stdout.strip()
    )


def propose_lesson(house: House) -> None:
    """Propose a lesson as an agent does that runs the command itself."""
    fields = {
        "summary": "ls has no option fly",
        "problem": "ls --fly always fails, there is no such option",
        "solution": ADVICE,
    }
    record = {**fields, "delivery": "hold", "triggers": {"toolNames": ["Bash"], "commandPatterns": [r"\bls --fly\b"]}}
    environment = {**house.env, "HARDWON_HOME": str(house.root / "hardwon"), "CLAUDECODE": "1"}
    subprocess.run([*HARDWON, "lessons", "add", "--json", json.dumps(record)], env=environment, check=True)


def test_a_lesson_accepted_with_m_is_told_and_silent_as_drawn_and_the_proof_has_both(house: House) -> None:
    propose_lesson(house)
    home, own_home = str(house.root / "hardwon"), house.env["HOME"]
    assert "to measure it" in run_at_terminal("review", typed="mq", HARDWON_HOME=home, HOME=own_home)
    slug = find_slug(house)
    live, silent = draw_sessions(house)
    live_session = house.session(
        [bash("ls --fly"), bash("ls -l", delay=A_MOMENT_LATER), DONE], more=("--session-id", live)
    )
    assert (live_session.id, [result.refused for result in live_session.results]) == (live, [True, False])
    untold = house.session([bash("ls --fly"), DONE], more=("--session-id", silent))
    assert untold.id == silent and not untold.turns_with(ADVICE)
    house.wait_for_background()
    output = " ".join(house.hardwon("proof", slug).split())
    assert "told 1 time: 1 changed" in output
    assert "silent 1 time: 1 repeated and failed" in output
    assert "being measured: not proven yet" in output
    assert "this week held 1 repeat, 1 took the fix" in list_notices(untold)
    assert "this week" not in list_notices(house.session([DONE]))


def test_a_lesson_with_false_alarms_is_stepped_down_and_one_command_undoes_it(house: House) -> None:
    house.add("hold", ADVICE, r"\btouch\b")
    slug = find_slug(house)
    for _ in range(3):
        house.session([bash("touch made"), bash("touch made", delay=A_MOMENT_LATER), DONE])
    following = house.session([bash("touch again"), DONE])
    assert f"{slug} is a note now and no longer holds calls" in list_notices(following)
    assert [result.refused for result in following.results] == [False]
    house.hardwon("proof", slug, "--undo")
    assert [result.refused for result in house.session([bash("touch more"), DONE]).results] == [True]
