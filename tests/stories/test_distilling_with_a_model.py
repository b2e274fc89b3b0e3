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
    list_observations,
    query_rows,
    read_distilled,
    report_turn,
    run_jobs,
    run_jobs_in_copy,
    show_session,
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


def write_reply(request: Request) -> Reply:
    return Reply(SUMMARY if "<summary>" in request.system else OBSERVATION)


@pytest.fixture
def model_server() -> Iterator[ModelServer]:
    model_server = ModelServer(write_reply)
    yield model_server
    model_server.close()


@pytest.fixture
def house_with_model(house: House, model_server: ModelServer) -> House:
    for name, value in (("provider", "openai"), ("baseUrl", f"{model_server.url}/v1"), ("apiKeyEnv", "MY_KEY")):
        house.ok("config", "set", f"llm.{name}", value)
    return house


def test_plain_words_come_first_and_the_models_take_their_place(
    house_with_model: House, model_server: ModelServer
) -> None:
    house_with_model.ok("start", env={"MY_KEY": KEY})
    report_turn(house_with_model)
    session_record = wait_until(
        house_with_model,
        lambda session_record: bool(session_record["summary"]) and session_record["summary"]["learned"] == "time zones",
    )
    assert [observation["title"] for observation in list_observations(session_record)] == [TITLE]
    assert list_observations(session_record)[0]["files_modified"] == ["src/token.py"]
    assert len(model_server.requests) == 2 and KEY in model_server.requests[0].headers["authorization"]
    assert all("tools" not in request.body for request in model_server.requests)
    files = [path for path in Path(house_with_model.home).rglob("*") if path.is_file()]
    assert files and not [path for path in files if KEY.encode() in path.read_bytes()]
    assert [(row["purpose"], row["outcome"]) for row in house_with_model.stored("runs")] == [
        ("observation", "fine"),
        ("summary", "fine"),
    ]


def test_killed_at_any_stage_what_a_model_made_is_there_exactly_once_in_the_end(
    house_with_model: House, model_server: ModelServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MY_KEY", KEY)
    report_turn(house_with_model)
    house_with_model.ok("sessions", "list")  # takes in the spool
    run_jobs(house_with_model.home, kill_at=0)
    statements = run_jobs_in_copy(house_with_model, str(tmp_path / "whole"), kill_at=0, kind="refine")
    expected = read_distilled(str(tmp_path / "whole"))
    assert expected[0][0][2] == TITLE and not expected[3]
    for number in range(1, statements + 1, max(1, statements // 20)):
        home = str(tmp_path / f"killed-{number}")
        run_jobs_in_copy(house_with_model, home, kill_at=number, kind="refine")
        run_jobs(home, kill_at=0, later=3600, kind="refine")
        assert read_distilled(home) == expected, f"killed at statement {number}"


def is_summed_up(prompt_text: str, session_record: dict[str, Any]) -> bool:
    return bool(session_record["summary"]) and prompt_text in session_record["summary"]["request"]


def test_at_the_cap_the_plain_words_stay_and_that_is_said_once(
    house_with_model: House, model_server: ModelServer
) -> None:
    house_with_model.ok("config", "set", "caps.runsPerDay", "0")
    house_with_model.ok("start", env={"MY_KEY": KEY})
    for prompt_text in ("make the token test pass", "and the refresh tokens"):
        report_turn(house_with_model, prompt_text=prompt_text)
        wait_until(house_with_model, partial(is_summed_up, prompt_text))
    wait_until(
        house_with_model, lambda session_record: query_rows(house_with_model, "select count(*) from jobs") == [(0,)]
    )
    assert (
        model_server.requests,
        {observation["made"] for observation in list_observations(show_session(house_with_model))},
    ) == ([], {"plain"})
    assert house_with_model.ok("logs").out.count("caps.runsPerDay is reached") == 1
    assert query_rows(house_with_model, "select cap from refusals") == [("runsPerDay",)]


def test_a_cap_that_is_reached_within_a_turn_is_said_as_well(
    house_with_model: House,
    model_server: ModelServer,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("MY_KEY", KEY)
    house_with_model.ok("config", "set", "caps.runsPerDay", "1")
    house_with_model.ask(SESSION, prompt("make the token test pass"))
    house_with_model.ask(SESSION, failed("Bash", TEST, "Exit code 1\nE   AssertionError: expired\n1 failed in 0.2s"))
    house_with_model.ask(SESSION, used("Edit", EDIT, {"filePath": EDIT["file_path"]}))
    for number in range(8):  # more than goes into one question
        house_with_model.ask(
            SESSION, used("Bash", {"command": f"python build.py {number} {'part ' * 600}"}, "built " * 600)
        )
    house_with_model.ask(SESSION, happened("Stop", last_assistant_message="The test passes."))
    house_with_model.ok("sessions", "list")  # takes in the spool
    run_jobs(house_with_model.home, kill_at=0)
    run_jobs(house_with_model.home, kill_at=0, kind="refine")
    assert (
        TITLE in [observation["title"] for observation in list_observations(show_session(house_with_model))]
        and len(model_server.requests) == 1
    )
    assert capfd.readouterr().err.count("caps.runsPerDay is reached") == 1


def test_a_provider_that_turns_us_away_leaves_a_job_that_says_why(
    house_with_model: House, model_server: ModelServer
) -> None:
    model_server._script = Reply(status=401, error={"message": "no such key"})
    house_with_model.ok("start", env={"MY_KEY": KEY})
    report_turn(house_with_model)
    wait_until(
        house_with_model,
        lambda session_record: any("401" in str(job["why"]) for job in house_with_model.stored("jobs")),
    )
    assert "401" in house_with_model.ok("jobs", "list").out
    assert {observation["made"] for observation in list_observations(show_session(house_with_model, SESSION))} == {
        "plain"
    }
