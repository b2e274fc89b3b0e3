"""A session that is closed without a handoff gets a draft, with the evidence that it rests on."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from hardwon.store.reflections import Evidence
from tests.support.draft_evidence import is_quote_in_source
from tests.support.house import House
from tests.support.made_up_transcripts import SESSION, Transcript, build_launch_session
from tests.support.model_servers import ModelServer, Reply

AN_AGENT = {"CLAUDECODE": "1"}


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    folder = tmp_path / "kite"
    folder.mkdir()
    subprocess.run(["git", "init", "-q", "-b", "main"], cwd=folder, check=True)
    return folder


def build_closed_session(repository: Path) -> Transcript:
    transcript = build_launch_session(str(repository))
    transcript.person("From now on always use pnpm, never npm.")
    transcript.agent("I will.")
    return transcript


def test_a_closed_session_is_drafted_and_every_word_can_be_followed(
    house: House, repository: Path, tmp_path: Path
) -> None:
    path = build_closed_session(repository).write(tmp_path)
    report = house.ok("reflect", path, "--json").json()
    assert report["draft"] == os.path.join(house.home, "drafts", f"kite-{SESSION}.draft.md")
    assert list(repository.glob("[!.]*")) == []
    page = Path(report["draft"]).read_text()
    for words in (
        "src/kite/landing.py",
        "`pytest -q tests/test_launch.py`",
        "3f2a9c1",
        "Confidence: H",
        'status: "draft"',
        "- feedback: Always use pnpm, never npm. Said: “From now on always use pnpm, never npm.” (L11)",
    ):
        assert words in page
    evidence = [
        evidence_item
        for part in ("findings", "memories", "lessons")
        for statement in report[part]
        for evidence_item in statement["evidence"]
    ]
    assert evidence and all(is_quote_in_source(Evidence(**item)) for item in evidence)
    proposed = [memory for memory in house.stored("memories") if memory["status"] == "candidate"]
    assert [(memory["type"], memory["text"]) for memory in proposed] == [("feedback", "Always use pnpm, never npm.")]


def test_a_person_reads_in_the_terminal_where_the_draft_is_and_takes_it_back(
    house: House, repository: Path, tmp_path: Path
) -> None:
    path = build_closed_session(repository).write(tmp_path)
    output = house.ok("reflect", path).out
    draft = Path(house.home, "drafts", f"kite-{SESSION}.draft.md")
    assert str(draft) in output and "pnpm" in output
    refused = house.cli("reflect", "--undo", "1", env=AN_AGENT)
    assert (refused.code, draft.exists()) == (1, True) and "is for a person" in refused.err
    assert str(draft) in house.ok("reflect", "--undo", "1").out
    assert not draft.exists() and list(repository.glob("[!.]*")) == []


def test_up_says_that_sessions_are_drafted_as_often_as_it_is_run_and_what_turns_it_off(house: House) -> None:
    def read_handoff_line() -> str:
        lines = house.ok("up").out.splitlines()
        assert any(line.strip().startswith("hardwon view ") for line in lines)
        start = next(index for index, line in enumerate(lines) if line.startswith("handoffs  "))
        return " ".join(line.strip() for line in lines[start : start + 2])

    first = read_handoff_line()
    assert first == "handoffs  drafted after 15 minutes idle (off: hardwon config set autoReflect false)"
    assert read_handoff_line() == first
    house.ok("config", "set", "autoReflect", "false")
    assert read_handoff_line().startswith("handoffs  not drafted (on: hardwon config set autoReflect true)")


def test_the_menu_says_what_is_looked_for(house: House) -> None:
    rows = house.ok("reflect", "--menu", "--json").json()
    assert {"failed experiments", "assumptions", "tone"} <= {row["item"] for row in rows}
    assert "failed experiments" in house.ok("reflect", "--menu").out


def test_what_cannot_be_reflected_on_is_said(house: House, tmp_path: Path) -> None:
    assert "no session or file 'nowhere'" in house.cli("reflect", "nowhere").err
    (tmp_path / "notes.txt").write_text("only words")
    assert "is no transcript" in house.cli("reflect", str(tmp_path / "notes.txt")).err
    assert "no session of this folder is recorded" in house.cli("reflect", cwd=str(tmp_path)).err


def test_a_model_tells_it_better_and_at_the_cap_plain_code_does(house: House, repository: Path, tmp_path: Path) -> None:
    path = build_closed_session(repository).write(tmp_path)
    statement = {"text": "12 tests of the launch pass", "evidence": [{"line": 7, "quote": "12 passed"}]}
    answer = {
        "topic": "Longer strings",
        "summary": [statement],
        "resume": [statement],
        "confidence": "M",
        "because": "it is so",
    }
    server = ModelServer(Reply(json.dumps(answer)))
    try:
        for name, value in (("provider", "openai"), ("baseUrl", f"{server.url}/v1"), ("apiKeyEnv", "MY_KEY")):
            house.ok("config", "set", f"llm.{name}", value)
        house.ok("config", "set", "caps.reflectionsPerDay", "1")
        first = house.ok("reflect", path, "--json", env={"MY_KEY": "sk-made-up"}).json()
        second = house.ok("reflect", path, "--json", env={"MY_KEY": "sk-made-up"}).json()
    finally:
        server.close()
    assert (first["topic"], first["said"], len(server.requests)) == ("Longer strings", "", 1)
    assert (second["made"], second["said"]) == ("plain", "by plain code: caps.reflectionsPerDay is reached")
    assert [run["purpose"] for run in house.stored("runs")] == ["reflect"]
