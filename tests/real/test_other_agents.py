"""The same memory on Codex, Gemini CLI and opencode: what a person taught one agent is met in every other."""

from __future__ import annotations

import json
from collections.abc import Iterator
from time import monotonic, sleep
from typing import Any

import pytest

from tests.support.claude_transcript import TranscriptWriter

from . import agents
from .conversation import Session
from .house import WAIT_SECONDS, House, SeparateInstall
from .model_server import Reply, Request, Script
from .other_agents import (
    AGENT_SETUPS,
    INSTRUCTIONS,
    call_mcp_tool,
    read_file,
    run_shell,
    run_subagent,
    wait_for_subagent,
    write_file,
)

pytestmark = pytest.mark.real

A_MOMENT_LATER = 0.5  # a repeat within 300 ms is a twin of the held call, not a second thought
STASH = r"\bgit stash\b"
ADVICE = "ADVICE-7: use git stash --include-untracked, or commit to a branch"
DONE = Reply("done")


@pytest.fixture(params=AGENT_SETUPS, ids=lambda agent: agent.name)
def bare_house(
    request: pytest.FixtureRequest, own_network: bool, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[House]:
    """A house with one of the agents and without hardwon."""
    root, agent_setup = tmp_path_factory.mktemp("h"), AGENT_SETUPS[request.param]
    house = House(root, agents.find_program(request.param), own_network=own_network, agent_setup=agent_setup)
    yield house
    house.hardwon("stop")
    house.wait_for_background()
    assert house.list_processes() == []


@pytest.fixture
def house(bare_house: House) -> House:
    install_hardwon(bare_house)
    return bare_house


def install_hardwon(house: House, *more: str, program: tuple[str, ...] = ()) -> str:
    """Install as a person would; Codex runs only trusted hooks."""
    trust = ("--trust",) if house.agent_setup.name == "codex" else ()
    arguments = ("install", house.agent_setup.name, "--yes", *trust, *more)
    return house.hardwon(*arguments, program=program) if program else house.hardwon(*arguments)


def is_on(house: House, *names: str) -> bool:
    return house.agent_setup.name in names


def list_refusals(session: Session) -> list[bool]:
    return [result.refused for result in session.results]


def read_slug(house: House) -> str:
    return str(json.loads(house.hardwon("lessons", "list", "--json"))[0]["slug"])


def keep_worker_away(house: House) -> None:
    """Kill the worker and record failed starts, so that no session tries another start soon."""
    house.hardwon("start")
    house.kill_worker()
    (house.root / "hardwon" / "worker.starts").write_text("." * 20)


def test_the_agent_reaches_the_scripted_model_and_nothing_else(bare_house: House, own_network: bool) -> None:
    if not own_network:
        pytest.skip("this system gives programs no network of their own")
    session = bare_house.session([run_shell("tail -n +3 /proc/net/dev | cut -d: -f1"), DONE])
    assert session.results[0].text.split().count("lo") == 1 and "eth" not in session.results[0].text
    assert len(session.turns) == 2 and not session.turns_with("hardwon-context")  # the path of a clone may name us


def test_a_note_comes_with_the_result_once_and_the_call_ran(house: House) -> None:
    house.add("note", ADVICE, r"\btouch\b")
    session = house.session([run_shell("touch made"), run_shell("touch again"), DONE])
    assert session.turns_with(ADVICE) == [1, 2]
    assert sum(text.count(ADVICE) for text in session.turns[-1].texts) == 1
    assert (house.project / "made").exists() and (house.project / "again").exists()


def test_a_hold_stops_the_first_call_says_why_and_lets_the_repeat_run_and_any_in_the_resumed_session(
    house: House,
) -> None:
    house.add("hold", ADVICE, STASH)
    stashes: list[int] = []
    replies = iter([run_shell("git stash"), run_shell("git stash", delay=A_MOMENT_LATER), DONE])

    def script(_: Request) -> Reply:
        stashes.append(house.stashes)
        return next(replies)

    session = house.session(script)
    assert (stashes, list_refusals(session)) == ([0, 0, 1], [True, False])
    assert ADVICE in session.results[0].text and session.turns_with(ADVICE) == [1, 2]

    (house.project / "file.txt").write_text("changed once more")
    resumed = house.session([run_shell("git stash"), DONE], resume=session.id)
    assert (resumed.id, list_refusals(resumed), house.stashes) == (session.id, [False], 2)
    house.wait_for_background()
    assert "ran 1 call that hardwon had denied" not in house.hardwon("doctor", ends=(0, 1))
    [record] = json.loads(house.hardwon("proof", "--json"))
    assert (record["told"]["firings"], record["told"]["ignored"], record["told"]["repeatedAndFine"]) == (1, 0, 1)


def test_a_block_never_runs_until_the_person_types_allow(house: House) -> None:
    house.add("block", ADVICE, r"\btouch\b", "--block-reason", "no {command} in this house")
    tries = [run_shell("touch forbidden"), run_shell("touch forbidden", delay=A_MOMENT_LATER)]
    session = house.session([*tries, DONE])
    assert list_refusals(session) == [True, True]
    assert all("no touch forbidden in this house" in result.text for result in session.results)
    assert not (house.project / "forbidden").exists()

    typed = f"hardwon allow {read_slug(house)}"
    allowed = house.session([run_shell("touch forbidden"), DONE], typed, resume=session.id)
    assert (list_refusals(allowed), (house.project / "forbidden").exists()) == ([False], True)


def test_a_start_lesson_and_the_brief_are_in_the_first_request_and_told_once_when_resumed(house: House) -> None:
    house.add("start", ADVICE)
    house.hardwon("start")
    session = house.session([DONE], "name the harbour pilot")
    assert session.turns_with(ADVICE) == [0] and session.turns_with("hardwon-context") == [0]
    resumed = house.session([DONE], resume=session.id)
    assert sum(text.count(ADVICE) for text in resumed.turns[0].texts) == 1


SEEN = {
    "codex": ["SessionStart", "prompt", "Bash fine", "Bash failed", "Write fine", "Bash fine", "Stop", "SessionEnd"],
    "gemini": ["SessionStart", "prompt", "Bash fine", "Bash failed", "Write fine", "Read fine", "Stop", "SessionEnd"],
    "opencode": ["SessionStart", "prompt", "Bash fine", "Bash failed", "Write fine", "Read fine", "Stop", "SessionEnd"],
}


def read_timeline(house: House, session: str) -> list[dict[str, Any]]:
    session_record = json.loads(house.hardwon("sessions", "show", session, "--json"))
    return [step for step in session_record["timeline"] if step["what"] in ("prompt", "event")]


def describe_step(step: dict[str, Any]) -> str:
    if step["what"] == "prompt":
        return "prompt"
    return f"{step['tool']} {step['outcome']}" if step["kind"] == "tool" else str(step["kind"])


def wait_until_recorded(house: House, session: str, count: int) -> list[dict[str, Any]]:
    """Wait until the worker has recorded the session's spool and transcript."""
    deadline = monotonic() + WAIT_SECONDS
    while house.spooled_events or len(steps := read_timeline(house, session)) < count:
        assert monotonic() < deadline, f"{house.spooled_events} in the spool: {[describe_step(step) for step in steps]}"
        sleep(0.1)
    house.wait_for_background()
    return read_timeline(house, session)


def test_a_session_is_recorded_and_can_be_searched(house: House) -> None:
    house.hardwon("start")
    script = [
        run_shell("echo lighthouse"),
        run_shell("ls nowhere"),
        write_file("keeper.txt", "asleep\n"),
        read_file("keeper.txt"),
    ]
    session = house.session([*script, Reply("the keeper is asleep")], "why does the lighthouse blink twice")
    expected = SEEN[house.agent_setup.name]
    steps = wait_until_recorded(house, session.id, len(expected))
    assert [describe_step(step) for step in steps] == expected
    prompt, failed, stop = (steps[expected.index(name)] for name in ("prompt", "Bash failed", "Stop"))
    assert prompt["prompt"] == "why does the lighthouse blink twice"
    assert (failed["input"]["command"], "No such file" in failed["response"]) == ("ls nowhere", True)
    assert "asleep" in stop["response"]

    [listed] = json.loads(house.hardwon("sessions", "list", "--json"))
    assert (listed["session"], listed["host"], listed["prompts"]) == (session.id, house.agent_setup.name, 1)
    assert "lighthouse" in house.hardwon("search", "why the lighthouse blinks")
    assert "lighthouse" in house.hardwon("timeline")
    assert house.status()["running"]


def test_a_sub_agent_is_held_as_its_parent_was(house: House) -> None:
    house.add("hold", ADVICE, STASH)
    script = [run_shell("git stash"), run_subagent("tidy up the shed"), wait_for_subagent(), DONE]
    session = house.session(script, sub=[run_shell("git stash"), DONE, DONE])
    opening, after_the_call, *_ = (request for request in session.requests if request.kind == "sub")
    assert (ADVICE in opening, ADVICE in after_the_call, house.stashes) == (False, True, 0)


def test_with_the_worker_away_holds_and_blocks_hold(house: House) -> None:
    house.add("hold", ADVICE, STASH)
    house.add("block", ADVICE, r"\btouch\b", "--block-reason", "no {command} in this house")
    keep_worker_away(house)
    tries = [run_shell("git stash"), run_shell("git stash", delay=A_MOMENT_LATER), run_shell("touch forbidden")]
    session = house.session([*tries, DONE])
    assert (list_refusals(session), house.stashes) == ([True, False, True], 1)
    assert not (house.project / "forbidden").exists()
    assert house.spooled_events and not house.status()["running"], "a worker was there, so it was not cold"
    listed = json.loads(house.hardwon("deliveries", "--json"))
    assert [item["delivery"] for item in listed if item["delivery"] in ("hold", "block")] == ["hold", "block"]


def test_with_hardwon_deleted_and_its_hooks_left_tools_run_and_prompts_pass(bare_house: House) -> None:
    separate = SeparateInstall(bare_house.root / "separate")
    install_hardwon(bare_house, program=tuple(separate.program))
    bare_house.add("block", ADVICE, r"\btouch\b")
    assert list_refusals(bare_house.session([run_shell("touch before"), DONE])) == [True]

    bare_house.hardwon("stop")
    separate.root.rename(bare_house.root / "gone")
    session = bare_house.session([run_shell("touch after"), DONE], "a prompt that must arrive")
    assert (list_refusals(session), (bare_house.project / "after").exists()) == ([False], True)
    assert session.turns_with("a prompt that must arrive") == [0, 1]
    assert not session.turns_with("can't open file") and not session.turns_with("not found")


def read_settings_files(house: House) -> dict[str, bytes]:
    """Return the files of the agent's settings in the home, without the agent's own state."""
    folder = house.settings.parent.parent if is_on(house, "opencode") else house.settings.parent
    suffixes = {".toml", ".json", ".js", ".jsonc"}
    paths = (path for path in [*folder.iterdir(), *folder.glob("plugin*/*")] if path.suffix in suffixes)
    return {str(path.relative_to(folder)): path.read_bytes() for path in paths}


def strip_ends(contents: dict[str, bytes]) -> dict[str, bytes]:
    return {name: content.rstrip(b"\n") for name, content in contents.items()}


def test_after_uninstall_nothing_fires_and_the_settings_have_their_old_text(bare_house: House) -> None:
    files_before = read_settings_files(bare_house)
    install_hardwon(bare_house, "--mcp")
    assert read_settings_files(bare_house) != files_before
    bare_house.hardwon("uninstall", bare_house.agent_setup.name, "--yes")
    assert strip_ends(read_settings_files(bare_house)) == strip_ends(files_before)  # tomlkit ends a file with a newline
    bare_house.add("start", ADVICE)
    bare_house.add("block", ADVICE, STASH)
    session = bare_house.session([run_shell("git stash"), DONE])
    assert (list_refusals(session), bare_house.stashes, session.turns_with("hardwon-context")) == ([False], 1, [])
    assert bare_house.other_hook_runs == (0 if is_on(bare_house, "codex") else 1), "nobody trusted that hook of Codex's"


def test_a_lesson_mined_from_claude_code_holds_a_call(house: House) -> None:
    home, project = str(house.root / "home"), str(house.project)
    for _ in range(2):
        TranscriptWriter(home, project=project).mistake().write()
    house.hardwon("scan")
    [candidate] = json.loads(house.hardwon("scan", "candidates", "--json"))["candidates"]
    house.hardwon("accept", str(candidate["index"]), "--delivery", "hold")
    session = house.session([run_shell("git log --colour=always"), run_shell("git log --color=always"), DONE])
    assert list_refusals(session) == [True, False]
    assert "Use `git log --color=always` instead" in session.results[0].text and "start" in session.results[1].text


def echo_lesson_at_end(*replies: Reply) -> Script:
    """Return a script with these replies, and then the `#lesson` block that the model was shown as an example."""
    remaining = iter(replies)

    def script(request: Request) -> Reply:
        example = next(text for text in request.texts if "#/lesson" in text)
        return next(remaining, None) or Reply(
            example[example.index("#lesson") : example.index("#/lesson")] + "#/lesson"
        )

    return script


def test_what_hardwon_said_itself_is_not_found_again(house: House) -> None:
    wrong = "error: unknown option <name>, which git does not support: leave it out"
    house.add("start", wrong)
    house.add("note", wrong, r"\bls\b")
    house.add("hold", wrong, r"\bgit stash --nothing\b")
    house.add("block", wrong, r"\btouch --nothing\b")
    commands = ("ls", "git stash --nothing", "git stash", "touch --nothing one two", "touch one two")
    session = house.session(echo_lesson_at_end(*map(run_shell, commands)))
    assert list_refusals(session) == [False, True, False, True, False]
    house.hardwon("stop")
    house.hardwon("scan")  # the worker may have read it already, because the message ends with a lesson
    assert json.loads(house.hardwon("scan", "state", "--json"))["files"], "the agent's transcript was not read"
    assert json.loads(house.hardwon("scan", "candidates", "--json", "--all"))["candidates"] == []


def test_the_agent_searches_over_mcp(bare_house: House) -> None:
    install_hardwon(bare_house, "--mcp")
    statement = "Relays for the lighthouse are ordered from the island, never from the mainland"
    bare_house.hardwon("memory", "add", "project", statement)
    session = bare_house.session(reply_when_connected(call_mcp_tool("search", query="where are relays ordered")))
    assert statement in session.results[-1].text and not session.results[-1].refused


def reply_when_connected(reply: Reply) -> Script:
    """Return a script with this reply once the model is offered our tools: not every agent waits for the server."""
    remaining = iter([reply, DONE])

    def script(request: Request) -> Reply:
        tools = json.dumps(request.body["tools"])
        # As a part of a name: the folder in which somebody keeps us may be called so too.
        is_offered = "_hardwon" in tools or "hardwon_" in tools or INSTRUCTIONS in tools
        return next(remaining) if is_offered else run_shell("sleep 0.3")

    return script


@pytest.mark.parametrize("bare_house", [agents.CODEX], indirect=True, ids=["codex"])
def test_codex_runs_no_hook_that_nobody_trusted_and_doctor_says_so(bare_house: House) -> None:
    bare_house.hardwon("install", "codex", "--yes")
    bare_house.add("block", ADVICE, STASH)
    assert read_trust_check(bare_house) == (False, "Codex leaves out untrusted")
    assert list_refusals(bare_house.session([run_shell("git stash"), DONE])) == [False]
    bare_house.hardwon("install", "codex", "--trust", "--yes")
    assert read_trust_check(bare_house)[0]
    assert list_refusals(bare_house.session([run_shell("git stash"), DONE])) == [True]


def read_trust_check(house: House) -> tuple[bool, str]:
    """Return doctor's check of the trust in our hooks."""
    checks = json.loads(house.hardwon("doctor", "--json", ends=(0, 1)))
    [trust_check] = [check for check in checks if check["name"] == "trust"]
    return trust_check["well"], trust_check["found"].partition(":")[0]
