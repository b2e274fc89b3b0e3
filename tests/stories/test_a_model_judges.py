"""A person who turned a model on may have it judge candidates; it proposes, inside the caps, and decides nothing."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from tests.support.claude_transcript import TranscriptWriter
from tests.support.house import House
from tests.support.model_servers import ModelServer, Reply, Request

KEY = "sk-made-up-Zx9Qv7Lm3Kp1Rt5Yw8"
HINT = "error: unknown option `--colour'"


def judge_candidate(request: Request) -> Reply:
    """Return a judgement of the only candidate in the prompt."""
    candidate = json.loads(request.prompt.partition("## Candidates")[2])["candidates"][0]
    quotes = [HINT] if HINT in request.prompt else ["made up, all of it"]
    verdict = {"candidate": candidate["number"], "verdict": "trivial", "quotes": quotes, "why": "a slip"}
    return Reply(json.dumps({"judgements": [verdict]}))


@pytest.fixture
def model_server() -> Iterator[ModelServer]:
    model_server = ModelServer(judge_candidate)
    yield model_server
    model_server.close()


@pytest.fixture
def scanned_house(house: House, own_home: str, model_server: ModelServer) -> House:
    """A house with two candidates and a model that is turned on."""
    transcript = TranscriptWriter(own_home).mistake()
    transcript.fails("cargo build --fast", "error: unexpected argument '--fast' found").works(
        "cargo build --release"
    ).write()
    house.ok("scan")
    for name, value in (("provider", "openai"), ("baseUrl", f"{model_server.url}/v1"), ("apiKeyEnv", "MY_KEY")):
        house.ok("config", "set", f"llm.{name}", value)
    return house


def test_a_model_judges_each_candidate_once_and_approves_nothing(
    scanned_house: House, model_server: ModelServer
) -> None:
    output = scanned_house.ok("review", "--judge", env={"MY_KEY": KEY}).out
    assert output.count("kept as a proposal") == output.count("is not in the transcript") == 1
    assert len(model_server.requests) == 2 and model_server.requests[0].headers["authorization"] == f"Bearer {KEY}"
    assert "nothing to judge" in scanned_house.ok("review", "--judge", env={"MY_KEY": KEY}).out
    assert len(model_server.requests) == 2
    assert scanned_house.ok("lessons", "list", "--json").json() == []
    rows = scanned_house.stored("runs")
    assert [(row["purpose"], row["outcome"]) for row in rows] == [("judge", "fine")] * 2
    assert KEY not in json.dumps([rows, scanned_house.stored("judgements")])


def test_at_the_cap_the_judgements_before_it_are_kept(scanned_house: House, model_server: ModelServer) -> None:
    scanned_house.ok("config", "set", "caps.runsPerDay", "1")
    ran = scanned_house.cli("review", "--judge", env={"MY_KEY": KEY})
    assert (ran.code, "caps.runsPerDay is reached" in ran.err) == (1, True)
    assert (len(model_server.requests), len(scanned_house.stored("judgements"))) == (1, 1)


def test_with_no_model_turned_on_it_says_so(scanned_house: House, model_server: ModelServer) -> None:
    scanned_house.ok("config", "set", "llm.provider", "none")
    ran = scanned_house.cli("review", "--judge")
    assert (ran.code, "llm.provider is none" in ran.err, model_server.requests) == (1, True, [])
