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


def judged(request: Request) -> Reply:
    """What a reader would say of the one candidate in a prompt."""
    asked = json.loads(request.prompt.partition("## Candidates")[2])["candidates"][0]
    quotes = [HINT] if HINT in request.prompt else ["made up, all of it"]
    verdict = {"candidate": asked["number"], "verdict": "trivial", "quotes": quotes, "why": "a slip"}
    return Reply(json.dumps({"judgements": [verdict]}))


@pytest.fixture
def server() -> Iterator[ModelServer]:
    made = ModelServer(judged)
    yield made
    made.close()


@pytest.fixture
def scanned(house: House, own_home: str, server: ModelServer) -> House:
    """Two candidates, and a model that is turned on."""
    told = TranscriptWriter(own_home).mistake()
    told.fails("cargo build --fast", "error: unexpected argument '--fast' found").works("cargo build --release").write()
    house.ok("scan")
    for name, value in (("provider", "openai"), ("baseUrl", f"{server.url}/v1"), ("apiKeyEnv", "MY_KEY")):
        house.ok("config", "set", f"llm.{name}", value)
    return house


def test_a_model_judges_each_candidate_once_and_approves_nothing(scanned: House, server: ModelServer) -> None:
    said = scanned.ok("review", "--judge", env={"MY_KEY": KEY}).out
    assert said.count("kept as a proposal") == said.count("is not in the transcript") == 1
    assert len(server.requests) == 2 and server.requests[0].headers["authorization"] == f"Bearer {KEY}"
    assert "nothing to judge" in scanned.ok("review", "--judge", env={"MY_KEY": KEY}).out
    assert len(server.requests) == 2
    assert scanned.ok("lessons", "list", "--json").json() == []
    rows = scanned.stored("runs")
    assert [(row["purpose"], row["outcome"]) for row in rows] == [("judge", "fine")] * 2
    assert KEY not in json.dumps([rows, scanned.stored("judgements")])


def test_at_the_cap_the_judgements_before_it_are_kept(scanned: House, server: ModelServer) -> None:
    scanned.ok("config", "set", "caps.runsPerDay", "1")
    ran = scanned.cli("review", "--judge", env={"MY_KEY": KEY})
    assert (ran.code, "caps.runsPerDay is reached" in ran.err) == (1, True)
    assert (len(server.requests), len(scanned.stored("judgements"))) == (1, 1)


def test_with_no_model_turned_on_it_says_so(scanned: House, server: ModelServer) -> None:
    scanned.ok("config", "set", "llm.provider", "none")
    ran = scanned.cli("review", "--judge")
    assert (ran.code, "llm.provider is none" in ran.err, server.requests) == (1, True, [])
