"""A person who turned a model on gets better words for the same facts, inside the caps, and never waits for them."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.stories.test_distilling import (
    EDIT,
    SESSION,
    TEST,
    a_turn,
    labour_in,
    labour_in_a_copy,
    made_in,
    observed,
    rows,
    shown,
    wait_until,
)
from tests.support.house import House, failed, happened, prompt, used
from tests.support.model_servers import ModelServer, Reply, Request

KEY = "sk-made-up-Zx9Qv7Lm3Kp1Rt5Yw8"
TITLE = "The token's expiry was compared in local time"
OBSERVATION = f"""<observation><type>bugfix</type><title>{TITLE}</title><subtitle>utcnow mends it</subtitle>
<facts><fact>4 passed</fact></facts><narrative>The test failed by the hour.</narrative>
<concepts></concepts><files_read></files_read><files_modified><file>/home/dev/project/src/token.py</file></files_modified>
<quotes><quote>AssertionError: expired</quote></quotes></observation>"""
SUMMARY = """<summary><request>make the token test pass</request><investigated></investigated><learned>time zones</learned>
<completed>the token test</completed><next_steps>refresh tokens</next_steps>
<quotes><quote>make the token test pass</quote></quotes></summary>"""


def said(request: Request) -> Reply:
    return Reply(SUMMARY if "<summary>" in request.system else OBSERVATION)


@pytest.fixture
def server() -> Iterator[ModelServer]:
    made = ModelServer(said)
    yield made
    made.close()


@pytest.fixture
def modelled(house: House, server: ModelServer) -> House:
    for name, value in (("provider", "openai"), ("baseUrl", f"{server.url}/v1"), ("apiKeyEnv", "MY_KEY")):
        house.ok("config", "set", f"llm.{name}", value)
    return house


def test_plain_words_come_first_and_the_models_take_their_place(modelled: House, server: ModelServer) -> None:
    modelled.ok("start", env={"MY_KEY": KEY})
    a_turn(modelled)
    whole = wait_until(modelled, lambda whole: bool(whole["summary"]) and whole["summary"]["learned"] == "time zones")
    assert [one["title"] for one in observed(whole)] == [TITLE]
    assert observed(whole)[0]["files_modified"] == ["src/token.py"]
    assert len(server.requests) == 2 and KEY in server.requests[0].headers["authorization"]
    assert all("tools" not in request.body for request in server.requests)
    files = [path for path in Path(modelled.home).rglob("*") if path.is_file()]
    assert files and not [path for path in files if KEY.encode() in path.read_bytes()]
    assert [(row["purpose"], row["outcome"]) for row in modelled.stored("runs")] == [
        ("observation", "fine"),
        ("summary", "fine"),
    ]


def test_killed_at_any_stage_what_a_model_made_is_there_exactly_once_in_the_end(
    modelled: House, server: ModelServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MY_KEY", KEY)
    a_turn(modelled)
    modelled.ok("sessions", "list")  # takes in the spool
    labour_in(modelled.home, kill_at=0)
    statements = labour_in_a_copy(modelled, str(tmp_path / "whole"), kill_at=0, kind="refine")
    expected = made_in(str(tmp_path / "whole"))
    assert expected[0][0][2] == TITLE and not expected[3]
    for number in range(1, statements + 1, max(1, statements // 20)):
        home = str(tmp_path / f"killed-{number}")
        labour_in_a_copy(modelled, home, kill_at=number, kind="refine")
        labour_in(home, kill_at=0, later=3600, kind="refine")
        assert made_in(home) == expected, f"killed at statement {number}"


def is_summed_up(asked: str, whole: dict[str, Any]) -> bool:
    return bool(whole["summary"]) and asked in whole["summary"]["request"]


def test_at_the_cap_the_plain_words_stay_and_that_is_said_once(modelled: House, server: ModelServer) -> None:
    modelled.ok("config", "set", "caps.runsPerDay", "0")
    modelled.ok("start", env={"MY_KEY": KEY})
    for asked in ("make the token test pass", "and the refresh tokens"):
        a_turn(modelled, asked=asked)
        wait_until(modelled, partial(is_summed_up, asked))
    wait_until(modelled, lambda whole: rows(modelled, "select count(*) from jobs") == [(0,)])
    assert (server.requests, {one["made"] for one in observed(shown(modelled))}) == ([], {"plain"})
    assert modelled.ok("logs").out.count("caps.runsPerDay is reached") == 1
    assert rows(modelled, "select cap from refusals") == [("runsPerDay",)]


def test_a_cap_that_is_reached_within_a_turn_is_said_as_well(
    modelled: House, server: ModelServer, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("MY_KEY", KEY)
    modelled.ok("config", "set", "caps.runsPerDay", "1")
    modelled.ask(SESSION, prompt("make the token test pass"))
    modelled.ask(SESSION, failed("Bash", TEST, "Exit code 1\nE   AssertionError: expired\n1 failed in 0.2s"))
    modelled.ask(SESSION, used("Edit", EDIT, {"filePath": EDIT["file_path"]}))
    for number in range(8):  # more than goes into one question
        modelled.ask(SESSION, used("Bash", {"command": f"python build.py {number} {'part ' * 600}"}, "built " * 600))
    modelled.ask(SESSION, happened("Stop", last_assistant_message="The test passes."))
    modelled.ok("sessions", "list")  # takes in the spool
    labour_in(modelled.home, kill_at=0)
    labour_in(modelled.home, kill_at=0, kind="refine")
    assert TITLE in [one["title"] for one in observed(shown(modelled))] and len(server.requests) == 1
    assert capfd.readouterr().err.count("caps.runsPerDay is reached") == 1


def test_a_provider_that_turns_us_away_leaves_a_job_that_says_why(modelled: House, server: ModelServer) -> None:
    server._script = Reply(status=401, error={"message": "no such key"})
    modelled.ok("start", env={"MY_KEY": KEY})
    a_turn(modelled)
    wait_until(modelled, lambda whole: any("401" in str(job["why"]) for job in modelled.stored("jobs")))
    assert "401" in modelled.ok("jobs", "list").out
    assert {one["made"] for one in observed(shown(modelled, SESSION))} == {"plain"}
