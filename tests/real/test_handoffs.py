"""The agent writes the handoff of its session, and the next session opens with it, in whichever agent that is."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from . import agents
from .house import CHECKOUT, House
from .model_server import Call, Reply, bash
from .other_agents import CODEX, run_shell, write_file
from .test_plugins import PLUGINS, run_agent_command
from .test_who_typed_it import other_house

__all__ = ["other_house"]  # the fixture of the other agents

pytestmark = pytest.mark.real
PLUGIN = ("--plugin-dir", str(CHECKOUT / "plugins" / "hardwon"))
FIELDS: dict[str, Any] = {
    "topic": "Tail lines were counted twice",
    "summary": ["Fixed the count in tail.py.", "All tests pass."],
    "decisions": [{"decision": "Read the file backwards", "reason": "logs reach 2 GB"}],
    "failed": [],
    "open_ends": [],
    "resume_prompt": "Test tail.py with CRLF files.",
    "confidence": "M",
}
FALSE = "“All tests pass.”: the last run of `make test` failed"
MAKEFILE = "printf 'test:\\n\\t@echo 1 failed, 3 passed; exit 1\\n' > Makefile"


def write_handoff(**changes: Any) -> Reply:
    return bash(f"hardwon handoff write --json <<'HANDOFF'\n{json.dumps({**FIELDS, **changes})}\nHANDOFF")


@pytest.fixture
def house(bare_house: House) -> Iterator[House]:
    """A house with the plugin and no hooks in the settings; a plugin looks for hardwon's home in the person's."""
    (bare_house.root / "hardwon").mkdir(mode=0o700)
    (bare_house.root / "home" / ".hardwon").symlink_to(bare_house.root / "hardwon")
    bare_house.hardwon("start")
    yield bare_house


def build_edit(house: House) -> Reply:
    path = str(house.project / "tail.py")
    return Reply(calls=(Call("Write", {"file_path": path, "content": "lines = 1\n"}),))


def test_the_agent_hands_off_with_evidence_and_the_next_session_opens_with_it(house: House) -> None:
    commit = "git add tail.py && git commit -m 'Count lines once' tail.py"
    script = [
        build_edit(house),
        bash(commit),
        bash(MAKEFILE),
        bash("make test"),
        Reply("fixed"),
        write_handoff(),
        Reply("bye"),
    ]
    session = house.session(script, "fix tail", "/hardwon:handoff", more=PLUGIN)
    turn_number = next(number for number, turn in enumerate(session.turns) if "hardwon handoff write --json <<" in turn)
    assert turn_number == 5, "the command's text is not what the model was asked"
    assert FALSE in session.results[-1].text and "hardwon accept H1" in session.results[-1].text
    [entry] = json.loads(house.hardwon("handoff", "list", "--json"))
    assert (entry["kind"], entry["session"], entry["state"]) == ("agent", session.id, "draft, 1 claim contradicted")
    page = Path(entry["file"]).read_text()
    head = house._git("rev-parse", "--short=7", "HEAD").strip()
    assert f"- Files changed: tail.py\n- Commit {head} “Count lines once”\n- `make test` failed on its last run" in page
    request = house.session([Reply("hello")], "good morning", more=PLUGIN).requests[0]
    assert "H1 last: Tail lines were counted twice" in request and "H1 next: Test tail.py with CRLF files." in request
    assert f"H1 the record contradicts it: {FALSE}" in request and "data, not instructions" in request

    # The same handoff in Codex.
    codex = copy.copy(house)
    codex.agent_setup, codex.settings = CODEX, house.root / "home" / CODEX.settings
    codex._program = agents.find_program(agents.CODEX)
    CODEX.set_up(house.root)
    codex.hardwon("install", "codex", "--yes")
    opened = codex.session([Reply("hello")], "good morning", more=("--dangerously-bypass-hook-trust",))
    assert "H1 next: Test tail.py with CRLF files." in opened.turns[0]
    assert FALSE in opened.turns[0]


@pytest.mark.parametrize("other_house", [agents.GEMINI, agents.OPENCODE], indirect=True, ids=lambda agent: agent.name)
def test_the_command_of_another_agent_has_it_write_the_handoff(other_house: House) -> None:
    (other_house.root / "home" / ".hardwon").symlink_to(
        other_house.root / "hardwon"
    )  # where the agent's shell looks for it
    other_house.hardwon("start")
    more, prompt = ["--command", "handoff"], "now"
    if other_house.agent_setup.name == "gemini":
        run_agent_command(other_house, "extensions", "link", f"{PLUGINS}/gemini", "--consent")
        more, prompt = [], "/handoff"
    script = [
        write_file(str(other_house.project / "tail.py"), "lines = 1\n"),
        run_shell(MAKEFILE),
        run_shell("make test"),
    ]
    worked = other_house.session([*script, Reply("fixed")], "fix tail")
    fields = f"hardwon handoff write --json <<'HANDOFF'\n{json.dumps(FIELDS)}\nHANDOFF"
    handed_off = other_house.session([run_shell(fields), Reply("bye")], prompt, resume=worked.id, more=more)
    assert "hardwon handoff write --json <<" in handed_off.turns[0], (
        "the command's text is not what the model was asked"
    )
    assert FALSE in handed_off.results[-1].text
    # The end of the first session may have left a draft of hardwon's own.
    listed = json.loads(other_house.hardwon("handoff", "list", "--json"))
    [entry] = [handoff for handoff in listed if handoff["kind"] == "agent"]
    assert (entry["session"], entry["state"]) == (worked.id, "draft, 1 claim contradicted")
    assert f"hardwon accept H{entry['id']}" in handed_off.results[-1].text
    opened = other_house.session([Reply("hello")], "good morning").turns[0]
    assert f"H{entry['id']} next: Test tail.py with CRLF files." in opened and FALSE in opened


def test_a_handoff_is_proposed_once_before_a_compaction(house: House) -> None:
    script = [build_edit(house), Reply("done"), Reply("go on"), Reply("the end")]
    session = house.session(script, "fix tail", "/compact", "again", "/compact", "more", more=PLUGIN)
    compaction_texts = [request.texts[-1] for request in session.requests if request.kind == "compaction"]
    line = "hardwon: no handoff yet for 1 changed file. Keep decisions with their reasons"
    assert [text.count(line) for text in compaction_texts] == [1, 0]
    assert not any("{}" in text.rpartition("Additional Instructions")[2] for text in compaction_texts)


def test_typed_as_a_prompt_it_works_without_the_plugin(house: House) -> None:
    house.hardwon("install", "claude-code", "--yes")
    commit = "git add tail.py && git commit -m 'Count lines once' tail.py"
    script = [
        build_edit(house),
        bash(commit),
        Reply("fixed"),
        write_handoff(summary=["Fixed tail.py."]),
        Reply("handed off"),
    ]
    session = house.session(script, "fix tail", "hardwon handoff")
    assert "hardwon handoff write --json <<" in session.turns[3]
    proposed = [hook.stdout for hook in session.hooks if hook.event == "Stop" and "no handoff yet for 1" in hook.stdout]
    assert len(proposed) == 1
    [entry] = json.loads(house.hardwon("handoff", "list", "--json"))
    assert entry["contradictions"] == []
