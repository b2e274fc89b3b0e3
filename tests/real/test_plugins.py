"""Our plugins as people install them, from the local marketplace: the real Claude Code and the real Codex load them."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from time import monotonic, sleep

import pytest

from . import agents, loopback
from .conftest import CLAUDE_CODES
from .conversation import Session
from .house import CHECKOUT, WAIT_SECONDS, House
from .model_server import Call, Reply, Request, Script
from .other_agents import CODEX, GEMINI, INSTRUCTIONS, call_mcp_tool, run_shell

pytestmark = pytest.mark.real

PLUGINS = str(CHECKOUT / "plugins")
COMMANDS = {"lessons:manage", "lessons:review", "hardwon:search", "hardwon:handoff", "hardwon:resume"}
SKILLS = {"hardwon:recall", "hardwon:handoff", "lessons:write"}
ADVICE = "ADVICE-7: use git stash --include-untracked, or commit to a branch"
STASH = r"\bgit stash\b"
DONE = Reply("done")
MISSING = "uv tool install hardwon, then hardwon up"
TRUSTED = ("--dangerously-bypass-hook-trust",)


@pytest.fixture(params=[*CLAUDE_CODES, agents.CODEX], ids=str)
def bare_house(
    request: pytest.FixtureRequest, own_network: bool, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[House]:
    """A house with one of the agents, and hardwon's home where a plugin looks for it."""
    root, program = tmp_path_factory.mktemp("h"), agents.find_program(request.param)
    more = {"agent_setup": CODEX} if request.param == agents.CODEX else {}
    house = House(root, program, own_network=own_network, **more)
    if is_codex(house):
        config = root / "home" / ".codex" / "config.toml"
        config.write_text(config.read_text().replace("plugins = false", "plugins = true"))
    (root / "hardwon").mkdir(mode=0o700)
    (root / "home" / ".hardwon").symlink_to(root / "hardwon")
    yield house
    house.hardwon("stop")
    wait_until_alone(house)


def wait_until_alone(house: House) -> None:
    """An MCP server whose agent ended while it started sees that once it reads."""
    deadline = monotonic() + WAIT_SECONDS
    while processes := house.list_processes():
        assert monotonic() < deadline, f"these have not ended within {WAIT_SECONDS} s: {processes}"
        sleep(0.05)


@pytest.fixture
def house(bare_house: House) -> House:
    install_plugins(bare_house)
    bare_house.hardwon("start")
    return bare_house


def is_codex(house: House) -> bool:
    return house.agent_setup is CODEX


def install_plugins(house: House) -> None:
    run_agent_command(house, "plugin", "marketplace", "add", str(CHECKOUT))
    for name in ("hardwon", "lessons"):
        run_agent_command(house, "plugin", "add" if is_codex(house) else "install", f"{name}@hardwon")


def run_agent_command(house: House, *words: str) -> str:
    """Run a command of the agent's program with only loopback and no input; return what it prints."""
    our_end, their_end = socket.socketpair()
    network = "own" if house._own_network else "shared"
    with our_end, their_end:
        process = subprocess.Popen(
            [
                sys.executable,
                "-I",
                "-S",
                loopback.__file__,
                network,
                str(their_end.fileno()),
                str(house._program),
                *words,
            ],
            cwd=house.project,
            env=house.env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            pass_fds=[their_end.fileno()],
        )
        their_end.close()
        for handle in socket.recv_fds(our_end, 16, 1)[1]:
            os.close(handle)
        output = process.communicate(timeout=90)[0]
    assert process.returncode == 0, output
    return output


def run_session(house: House, script: Script, **env: str) -> Session:
    return house.session(script, env=env, more=TRUSTED if is_codex(house) else ())


def build_shell_reply(house: House, command: str) -> Reply:
    return run_shell(command) if is_codex(house) else Reply(calls=(Call("Bash", {"command": command}),))


def list_hook_events(house: House) -> list[tuple[str, str, str]]:
    """Return every event that the store has by a hook: its kind, tool and outcome."""
    with contextlib.closing(sqlite3.connect(house.root / "hardwon" / "hardwon.db")) as store:
        return store.execute("select kind, tool, coalesce(outcome, '') from events where origin = 'hook'").fetchall()


def count_deliveries(house: House) -> int:
    return len(json.loads(house.hardwon("deliveries", "--json")))


def assert_it_all_happens_once(house: House) -> None:
    house.add("note", ADVICE, r"\btouch\b")
    house.add("hold", "HOLD-3: commit to a branch instead", STASH)
    session = run_session(house, [build_shell_reply(house, "touch made"), build_shell_reply(house, "git stash"), DONE])
    assert sum(text.count(ADVICE) for text in session.turns[-1].texts) == 1
    assert session.turns_with("HOLD-3") == [2] and house.stashes == 0
    assert count_deliveries(house) == 2
    kinds = list_hook_events(house)
    assert sorted(set(kinds)) == sorted(kinds)
    assert {("tool", "Bash", "fine"), ("tool", "Bash", "denied"), ("Stop", "", "")} <= set(kinds)


def test_the_manifests_are_valid(bare_house: House) -> None:
    if is_codex(bare_house):
        pytest.skip("Codex validates nothing")
    for folder in (str(CHECKOUT), f"{PLUGINS}/hardwon", f"{PLUGINS}/lessons"):
        output = run_agent_command(bare_house, "plugin", "validate", folder)
        assert "Validation passed" in output and "ignored" not in output


def test_hooks_fire_once(house: House) -> None:
    assert_it_all_happens_once(house)


def test_hooks_fire_once_beside_those_that_were_installed(house: House) -> None:
    house.hardwon("install", house.agent_setup.name, "--yes")
    assert_it_all_happens_once(house)


def test_hooks_fire_once_beside_others_that_are_not_known(house: House) -> None:
    """As when a settings file came from another machine: an event that is reported twice is kept once."""
    house.hardwon("install", house.agent_setup.name, "--yes")
    (house.root / "hardwon" / "hooked" / house.agent_setup.name).write_text("")
    assert_it_all_happens_once(house)


def test_the_extension_holds_a_call_once_in_gemini(own_network: bool, tmp_path_factory: pytest.TempPathFactory) -> None:
    root = tmp_path_factory.mktemp("h")
    house = House(root, agents.find_program(agents.GEMINI), own_network=own_network, agent_setup=GEMINI)
    (root / "hardwon").mkdir(mode=0o700)
    (root / "home" / ".hardwon").symlink_to(root / "hardwon")
    run_agent_command(house, "extensions", "link", f"{PLUGINS}/gemini", "--consent")
    house.hardwon("start")
    house.add("hold", "HOLD-3: commit to a branch instead", STASH)
    session, delivered = house.session([run_shell("git stash"), DONE]), count_deliveries(house)
    house.hardwon("stop")
    wait_until_alone(house)
    assert [result.text.count("HOLD-3") for result in session.results] == [1]
    assert (house.stashes, delivered) == (0, 1)


def test_commands_and_skills_list(house: House) -> None:
    session = run_session(house, [DONE])
    if is_codex(house):
        first_request = "\n".join(session.turns[0].texts)
        assert all(name in first_request for name in SKILLS)
        return
    opened = next(line for line in session.lines if line.get("subtype") == "init")
    assert set(opened["slash_commands"]) >= COMMANDS
    assert set(opened.get("skills", SKILLS)) >= SKILLS


def test_the_mcp_server_answers(house: House) -> None:
    house.hardwon("memory", "add", "project", "The lighthouse blinks twice after midnight, ALBATROSS-9")
    arguments = {"query": "lighthouse"}
    plainly = Reply(calls=(Call("mcp__plugin_hardwon_hardwon__search", arguments),))
    reply = call_mcp_tool("search", **arguments) if is_codex(house) else plainly
    session = run_session(house, reply_when_connected(house, reply))
    assert "ALBATROSS-9" in "\n".join(result.text for result in session.results)


def reply_when_connected(house: House, reply: Reply) -> Script:
    """Return a script with the reply once the model is offered our tools: not every agent waits for the server."""
    remaining = iter([reply, DONE])

    def script(request: Request) -> Reply:
        tools = json.dumps(request.body["tools"])
        if "_hardwon" in tools or INSTRUCTIONS in tools or (not is_codex(house) and "WaitForMcpServers" not in tools):
            return next(remaining)
        return run_shell("sleep 0.3") if is_codex(house) else Reply(calls=(Call("WaitForMcpServers", {}),))

    return script


def test_without_hardwon_it_is_said_once_and_everything_runs(bare_house: House) -> None:
    install_plugins(bare_house)
    path = ":".join(part for part in bare_house.env["PATH"].split(":") if not os.path.exists(f"{part}/hardwon"))
    session = run_session(
        bare_house, [build_shell_reply(bare_house, "touch made"), DONE], PATH=path, HOME=bare_house.env["HOME"]
    )
    assert (bare_house.project / "made").exists()
    if not is_codex(bare_house):
        assert [MISSING in run.stdout for run in session.hooks if run.event == "SessionStart"] == [True]
        assert [run.outcome for run in session.hooks] == ["success"] * len(session.hooks)


def test_uninstalling_leaves_nothing_of_ours(house: House) -> None:
    verbs = ("remove",) if is_codex(house) else ("uninstall",)
    for name in ("hardwon", "lessons"):
        run_agent_command(house, "plugin", *verbs, f"{name}@hardwon")
    run_agent_command(house, "plugin", "marketplace", "remove", "hardwon")
    house.add("hold", ADVICE, STASH)
    run_session(house, [build_shell_reply(house, "git stash"), DONE])
    assert (house.stashes, count_deliveries(house)) == (1, 0)
    folder = house.root / "home" / (".codex" if is_codex(house) else ".claude")
    settings = [path for path in folder.glob("*.*") if path.suffix in (".json", ".toml")]
    assert [path for path in settings if "hardwon" in path.read_text()] == []
