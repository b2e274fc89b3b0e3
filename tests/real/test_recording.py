"""What the real Claude Code does is in the store once and in order, whoever told it, and nothing private is."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Sequence
from pathlib import Path
from time import monotonic, sleep
from typing import Any, NamedTuple

import pytest

from .conversation import Session
from .house import WAIT_SECONDS, House
from .model_server import Call, Reply, Request, Script, bash

pytestmark = pytest.mark.real

ERRAND = Call("Agent", {"description": "an errand", "prompt": "tidy up the shed", "run_in_background": False})
SHED = (bash("echo tidy"), bash("ls nowhere"), Reply("the shed is tidy"))
PROMPTS = ("look around", "send somebody", "/compact", "go on")
REPLIES = (
    bash("echo here"),
    bash("cat missing.txt"),
    Reply("looked around"),
    Reply("I will.", (ERRAND,)),
    Reply("somebody went"),
    Reply("went on"),
)
SENDING = REPLIES.index(Reply("I will.", (ERRAND,)))
PROMPTS_AGAIN = ("write it down", "look around")
REPLIES_AGAIN = (
    Reply(calls=(Call("Write", {"file_path": "notes.txt", "content": "all is tidy"}),)),
    Reply("written"),
    bash("echo here"),
    Reply("looked again"),
)


class Row(NamedTuple):
    """A line of a session's timeline: what happened, in which prompt's turn, by which sub-agent, and its words."""

    what: str
    prompt: int
    agent: str
    about: str


FIRST = [
    Row("SessionStart", 0, "", "startup"),
    Row("prompt", 1, "", "look around"),
    Row("Bash fine", 1, "", "echo here"),
    Row("Bash failed", 1, "", "cat missing.txt"),
    Row("Stop", 1, "", "looked around"),
    Row("prompt", 2, "", "send somebody"),
    Row("SubagentStart", 2, "first", "general-purpose"),
    Row("Bash fine", 2, "first", "echo tidy"),
    Row("Bash failed", 2, "first", "ls nowhere"),
    Row("SubagentStop", 2, "first", "the shed is tidy"),
    Row("Task fine", 2, "", "an errand"),
    Row("Stop", 2, "", "somebody went"),
    Row("PreCompact", 2, "", "manual"),
    Row("SessionStart", 2, "", "compact"),
    Row("prompt", 3, "", "go on"),
    Row("Stop", 3, "", "went on"),
    Row("SessionEnd", 3, "", "other"),
]
RESUMED = [
    Row("SessionStart", 3, "", "resume"),
    Row("prompt", 4, "", "write it down"),
    Row("Write fine", 4, "", "notes.txt"),
    Row("Stop", 4, "", "written"),
    Row("prompt", 5, "", "look around"),
    Row("Bash fine", 5, "", "echo here"),
    Row("Stop", 5, "", "looked again"),
    Row("SessionEnd", 5, "", "other"),
]


def read_session(house: House, session: str, *, home: str = "hardwon") -> dict[str, Any]:
    """Return a session's prompts and events, without what was distilled from them."""
    session_record: dict[str, Any] = json.loads(house.hardwon("sessions", "show", session, "--json", home=home))
    del session_record["summary"], session_record["counts"]
    return {
        **session_record,
        "timeline": [step for step in session_record["timeline"] if step["what"] in ("prompt", "event")],
    }


def list_rows(session_record: dict[str, Any]) -> list[Row]:
    """Return the timeline, with sub-agents named in the order of their appearance."""
    names = dict(zip(list_agents(session_record), ("first", "second", "third"), strict=False))
    return [_build_row(step, names) for step in session_record["timeline"]]


def list_agents(session_record: dict[str, Any]) -> list[str]:
    return list(dict.fromkeys(step["agent"] for step in session_record["timeline"] if step.get("agent")))


def _build_row(step: dict[str, Any], names: dict[str, str]) -> Row:
    if step["what"] == "prompt":
        return Row("prompt", step["number"], "", step["prompt"])
    agent = names.get(step["agent"], "")
    if step["kind"] != "tool":
        return Row(step["kind"], step["prompt"], agent, step["response"])
    tool_input = step["input"]
    text = tool_input.get("command") or tool_input.get("description") or Path(tool_input["file_path"]).name
    return Row(f"{step['tool']} {step['outcome']}", step["prompt"], agent, text)


def list_calls(session_record: dict[str, Any]) -> list[tuple[str, ...]]:
    """Return the fields of the calls that hooks and transcripts both report."""
    keys = ("tool", "outcome", "prompt", "agent", "tool_use_id")
    return [tuple(step[key] for key in keys) for step in session_record["timeline"] if step.get("kind") == "tool"]


def list_prompts(session_record: dict[str, Any]) -> list[tuple[int, str]]:
    return [(step["number"], step["prompt"]) for step in session_record["timeline"] if step["what"] == "prompt"]


def list_transcripts(house: House, session: str) -> list[Path]:
    return [path for path in house.settings.parent.glob("projects/**/*.jsonl") if session in str(path)]


def wait_until_recorded(house: House, session: str) -> None:
    """Wait until the worker has recorded the spool and read the session's transcripts to their ends."""
    deadline = monotonic() + WAIT_SECONDS
    ends = {str(path.resolve()): path.stat().st_size for path in list_transcripts(house, session)}
    assert ends, "the agent wrote no transcript"
    while house.spooled_events or not (ends.items() <= _read_so_far(house)):
        assert monotonic() < deadline, (
            f"not all was taken in within {WAIT_SECONDS} s: {house.spooled_events} files in the spool"
        )
        sleep(0.05)


def _read_so_far(house: House) -> set[tuple[str, int]]:
    """Return the transcripts that were read and how far; none while a session waits for its own."""
    connection = sqlite3.connect(f"file:{house.root}/hardwon/hardwon.db?mode=ro", uri=True)
    try:
        waiting = connection.execute("select 1 from sessions where to_fill").fetchone()
        read_positions = connection.execute("select path, size from transcripts where purpose = 'capture'").fetchall()
        return set() if waiting else set(read_positions)
    finally:
        connection.close()


def keep_worker_away(house: House) -> None:
    """Kill the worker and record failed starts, so that no session tries another start soon."""
    house.kill_worker()
    (house.root / "hardwon" / "worker.starts").write_text("." * 20)


def interrupt_script(replies: Sequence[Reply], position: int, interrupt: Callable[[], object]) -> Script:
    """Return a script with these replies that calls `interrupt` before one of them."""
    remaining = iter(enumerate(replies))

    def script(_: Request) -> Reply:
        number, reply = next(remaining)
        if number == position:
            interrupt()
        return reply

    return script


def run_sessions(house: House, first: Script = REPLIES) -> Session:
    """Run a session and resume it."""
    session = house.session(first, *PROMPTS, sub=SHED)
    resumed = house.session(REPLIES_AGAIN, *PROMPTS_AGAIN, resume=session.id)
    assert resumed.id == session.id, "the agent gave the resumed session another name"
    return session


def test_a_session_is_recorded_once_and_in_order_and_goes_on_when_resumed(house: House) -> None:
    house.hardwon("start")
    session = house.session(REPLIES, *PROMPTS, sub=SHED)
    session_record = read_session(house, session.id)
    assert (
        list_rows(session_record),
        session_record["status"],
        session_record["reason"],
        session_record["prompts"],
    ) == (FIRST, "completed", "other", 3)

    house.session(REPLIES_AGAIN, *PROMPTS_AGAIN, resume=session.id)
    by_hooks = read_session(house, session.id)
    assert list_rows(by_hooks) == FIRST + RESUMED
    assert (by_hooks["status"], by_hooks["prompts"], by_hooks["first_prompt"]) == ("completed", 5, "look around")

    wait_until_recorded(house, session.id)
    assert read_session(house, session.id) == by_hooks, "the transcript tells the same and changes nothing"
    assert len(json.loads(house.hardwon("sessions", "list", "--json"))) == 1


def test_with_the_worker_killed_in_the_middle_and_away_to_the_end_the_same_is_recorded(house: House) -> None:
    house.hardwon("start")
    session = run_sessions(house, interrupt_script(REPLIES, SENDING, lambda: keep_worker_away(house)))
    assert house.spooled_events > len(RESUMED), "somebody took in the spool, so the worker was not away"
    house.hardwon("start")
    wait_until_recorded(house, session.id)
    session_record = read_session(house, session.id)
    assert (list_rows(session_record), session_record["status"], session_record["prompts"]) == (
        FIRST + RESUMED,
        "completed",
        5,
    )


def test_with_the_worker_killed_in_the_middle_the_session_has_another_at_its_next_start(house: House) -> None:
    house.hardwon("start")
    session = run_sessions(house, interrupt_script(REPLIES, SENDING, house.kill_worker))
    wait_until_recorded(house, session.id)
    assert list_rows(read_session(house, session.id)) == FIRST + RESUMED


def test_imported_from_its_transcripts_a_session_has_the_same_prompts_and_calls(house: House) -> None:
    house.hardwon("start")
    session = run_sessions(house)
    wait_until_recorded(house, session.id)
    by_hooks = read_session(house, session.id)
    imported = [json.loads(house.hardwon("import", "transcripts", "--json", home="second")) for _ in range(2)]
    by_transcripts = read_session(house, session.id, home="second")
    ends = [step["response"] for step in by_transcripts["timeline"] if step.get("kind") == "Stop"]
    assert [(report["sessions"], report["prompts"], report["events"], report["faults"]) for report in imported] == [
        (1, 5, len(list_calls(by_hooks)) + len(ends), []),
        (0, 0, 0, []),
    ]
    assert set(ends) < {step["response"] for step in by_hooks["timeline"] if step.get("kind") == "Stop"}
    assert (list_prompts(by_transcripts), list_calls(by_transcripts)) == (list_prompts(by_hooks), list_calls(by_hooks))
    house.hardwon("import", "transcripts")
    assert read_session(house, session.id) == by_hooks


PART, TURN, ACT, SAID, ASIDE, ERRANDS = "nightjar", "bullfinch", "corncrake", "dunnock", "goldcrest", "fieldfare"
IN_COMMAND = "ghp_" + "A1b2C3d4E5f6G7h8J9k0L1m2N3p4Q5r6S7t8"
IN_OUTPUT = "hunter2-" + "and-more"
IN_ERROR = "sk-ant-api03-" + "Zx9Yw8Vu7Ts6Rq5Po4Nm3Lk2Jh1Gf0Ed9Cb8Aa7Bb6Cc5Dd4Ee3Ff2"
PLANTED = frozenset({PART, TURN, ACT, SAID, ASIDE, ERRANDS, IN_COMMAND, IN_OUTPUT, IN_ERROR})
PRIVATE = f"<private>the merger is called {TURN}</private>"
PRIVATE_ERRAND = Call("Agent", {**ERRAND.given, "prompt": f"see to the {ERRANDS}"})


def find_planted(*folders: Path) -> dict[str, list[str]]:
    """Return the planted words that are in these folders, with the files that have them by name or content."""
    files_by_word: dict[str, list[str]] = {}
    for path in (path for folder in folders for path in folder.rglob("*") if path.is_file()):
        try:
            content = str(path).encode() + path.read_bytes()
        except FileNotFoundError:
            continue  # a file of the spool, taken in meanwhile
        for word in PLANTED:
            if word.encode() in content:
                files_by_word.setdefault(word, []).append(path.name)
    return files_by_word


def find_leaks(house: House, session: Session) -> dict[str, list[str]]:
    """Return the planted words in the home, now and after every reader of transcripts has run."""
    home = house.root / "hardwon"
    at_once = find_planted(home)
    house.hardwon("sessions", "list")  # takes in the spool, so that a worker fills at its start and not 10 s later
    house.hardwon("start")
    wait_until_recorded(house, session.id)
    house.hardwon("scan")
    running = find_planted(home)
    house.hardwon("stop")
    return at_once | running | find_planted(home)


@pytest.mark.parametrize("worker", ["running", "away"])
def test_nothing_private_and_no_secret_is_in_any_file_of_the_home(house: House, worker: str) -> None:
    (house.project / "account.txt").write_text(f"name: ada\npassword: {IN_OUTPUT}\nlogged in before\n")
    (house.project / "keys.txt").write_text(f"refused: {IN_ERROR}\n")
    replies = iter(
        [
            bash("echo the log"),
            Reply("it is short"),
            bash(f"echo {ACT} > {ACT}.txt"),
            Reply(f"{SAID} is done"),
            bash(f"echo logged in # {IN_COMMAND}"),
            bash("cat account.txt"),
            bash("cat keys.txt >&2; false"),
            Reply(f"ada, <private>{ASIDE},</private> is logged in"),
        ]
    )
    meanwhile: dict[str, list[str]] = {}

    def script(_: Request) -> Reply:
        meanwhile.update(find_planted(house.root / "hardwon"))
        return next(replies)

    house.hardwon("start")
    if worker == "away":
        keep_worker_away(house)
    session = house.session(script, f"look at the log <private>of {PART}</private> and tell me", PRIVATE, "now log in")
    assert find_planted(house.settings.parent).keys() == PLANTED - {ERRANDS}, "not everything was said and done"
    assert (meanwhile, find_leaks(house, session)) == ({}, {})

    session_record = read_session(house, session.id)
    assert list_prompts(session_record) == [(1, "look at the log  and tell me"), (2, "now log in")]
    assert [row[1:] for row in list_rows(session_record) if row.what.startswith(("Bash", "Stop"))] == [
        (1, "", "echo the log"),
        (1, "", "it is short"),
        (1, "", ""),
        (2, "", "echo logged in # [redacted:github]"),
        (2, "", "cat account.txt"),
        (2, "", "cat keys.txt >&2; false"),
        (2, "", "ada,  is logged in"),
    ]
    answers = "".join(step["response"] for step in session_record["timeline"] if step.get("kind") == "tool")
    assert all(part in answers for part in ("name: ada", "logged in before", "refused: [redacted:"))


def test_what_a_sub_agent_does_in_a_private_turn_is_in_no_file_of_the_home(house: House) -> None:
    house.hardwon("start")
    feeding = [bash(f"echo {ERRANDS}"), Reply(f"the {ERRANDS} is fed")]
    session = house.session([Reply("I will.", (PRIVATE_ERRAND,)), Reply("done")], PRIVATE, sub=feeding)
    assert find_planted(house.settings.parent).keys() == {TURN, ERRANDS}
    assert find_leaks(house, session) == {}


def test_a_private_prompt_that_a_compaction_repeats_is_in_no_file_of_the_home(house: House) -> None:
    """The client asks for all messages of the user in the summary, and tells its end as that of a sub-agent."""
    house.hardwon("start")
    summary = f"All user messages: the merger is called {TURN}; go on"
    prompts = (PRIVATE, "go on", "/compact", "and on")
    session = house.session([Reply("done")] * 3, *prompts, summary=summary)
    assert session.turns_with(summary) == [2], "nothing was compacted"
    assert find_leaks(house, session) == {}
