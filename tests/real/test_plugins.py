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
def bare(
    request: pytest.FixtureRequest, own_network: bool, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[House]:
    """Where one of the agents lives. hardwon's home is where a plugin looks for it."""
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
    while left := house.list_processes():
        assert monotonic() < deadline, f"these have not ended within {WAIT_SECONDS} s: {left}"
        sleep(0.05)


@pytest.fixture
def house(bare: House) -> House:
    plugins(bare)
    bare.hardwon("start")
    return bare


def is_codex(house: House) -> bool:
    return house.agent_setup is CODEX


def plugins(house: House) -> None:
    typed(house, "plugin", "marketplace", "add", str(CHECKOUT))
    for name in ("hardwon", "lessons"):
        typed(house, "plugin", "add" if is_codex(house) else "install", f"{name}@hardwon")


def typed(house: House, *words: str) -> str:
    """What the agent's program prints to the person who typed this, with no network but loopback and nobody there."""
    ours, theirs = socket.socketpair()
    network = "own" if house._own_network else "shared"
    with ours, theirs:
        process = subprocess.Popen(
            [sys.executable, "-I", "-S", loopback.__file__, network, str(theirs.fileno()), str(house._program), *words],
            cwd=house.project,
            env=house.env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            pass_fds=[theirs.fileno()],
        )
        theirs.close()
        for handle in socket.recv_fds(ours, 16, 1)[1]:
            os.close(handle)
        said = process.communicate(timeout=90)[0]
    assert process.returncode == 0, said
    return said


def session(house: House, script: Script, **env: str) -> Session:
    return house.session(script, env=env, more=TRUSTED if is_codex(house) else ())


def run(house: House, command: str) -> Reply:
    return run_shell(command) if is_codex(house) else Reply(calls=(Call("Bash", {"command": command}),))


def recorded(house: House) -> list[tuple[str, str, str]]:
    """Return every event that the store has by a hook: its kind, tool and outcome."""
    with contextlib.closing(sqlite3.connect(house.root / "hardwon" / "hardwon.db")) as store:
        return store.execute("select kind, tool, coalesce(outcome, '') from events where origin = 'hook'").fetchall()


def deliveries(house: House) -> int:
    return len(json.loads(house.hardwon("deliveries", "--json")))


def assert_it_all_happens_once(house: House) -> None:
    house.add("note", ADVICE, r"\btouch\b")
    house.add("hold", "HOLD-3: commit to a branch instead", STASH)
    done = session(house, [run(house, "touch made"), run(house, "git stash"), DONE])
    assert sum(text.count(ADVICE) for text in done.turns[-1].texts) == 1
    assert done.turns_with("HOLD-3") == [2] and house.stashes == 0
    assert deliveries(house) == 2
    kinds = recorded(house)
    assert sorted(set(kinds)) == sorted(kinds)
    assert {("tool", "Bash", "fine"), ("tool", "Bash", "denied"), ("Stop", "", "")} <= set(kinds)


def test_the_manifests_are_valid(bare: House) -> None:
    if is_codex(bare):
        pytest.skip("Codex validates nothing")
    for place in (str(CHECKOUT), f"{PLUGINS}/hardwon", f"{PLUGINS}/lessons"):
        said = typed(bare, "plugin", "validate", place)
        assert "Validation passed" in said and "ignored" not in said


def test_hooks_fire_once(house: House) -> None:
    assert_it_all_happens_once(house)


def test_hooks_fire_once_beside_those_that_were_installed(house: House) -> None:
    house.hardwon("install", house.agent_setup.name, "--yes")
    assert_it_all_happens_once(house)


def test_hooks_fire_once_though_nobody_knows_of_those_beside(house: House) -> None:
    """As when a settings file came from another machine: what the worker is told twice it keeps once."""
    house.hardwon("install", house.agent_setup.name, "--yes")
    (house.root / "hardwon" / "hooked" / house.agent_setup.name).write_text("")
    assert_it_all_happens_once(house)


def test_the_extension_holds_a_call_once_in_gemini(own_network: bool, tmp_path_factory: pytest.TempPathFactory) -> None:
    root = tmp_path_factory.mktemp("h")
    house = House(root, agents.find_program(agents.GEMINI), own_network=own_network, agent_setup=GEMINI)
    (root / "hardwon").mkdir(mode=0o700)
    (root / "home" / ".hardwon").symlink_to(root / "hardwon")
    typed(house, "extensions", "link", f"{PLUGINS}/gemini", "--consent")
    house.hardwon("start")
    house.add("hold", "HOLD-3: commit to a branch instead", STASH)
    done, delivered = house.session([run_shell("git stash"), DONE]), deliveries(house)
    house.hardwon("stop")
    wait_until_alone(house)
    assert [result.text.count("HOLD-3") for result in done.results] == [1]
    assert (house.stashes, delivered) == (0, 1)


def test_commands_and_skills_list(house: House) -> None:
    done = session(house, [DONE])
    if is_codex(house):
        told = "\n".join(done.turns[0].texts)
        assert all(name in told for name in SKILLS)
        return
    opened = next(line for line in done.lines if line.get("subtype") == "init")
    assert set(opened["slash_commands"]) >= COMMANDS
    assert set(opened.get("skills", SKILLS)) >= SKILLS


def test_the_mcp_server_answers(house: House) -> None:
    house.hardwon("memory", "add", "project", "The lighthouse blinks twice after midnight, ALBATROSS-9")
    given = {"query": "lighthouse"}
    plainly = Reply(calls=(Call("mcp__plugin_hardwon_hardwon__search", given),))
    asked = call_mcp_tool("search", **given) if is_codex(house) else plainly
    done = session(house, once_connected(house, asked))
    assert "ALBATROSS-9" in "\n".join(result.text for result in done.results)


def once_connected(house: House, reply: Reply) -> Script:
    """The reply, once the model is offered our tools: not every agent waits for a server at its start."""
    left = iter([reply, DONE])

    def script(request: Request) -> Reply:
        tools = json.dumps(request.body["tools"])
        if "_hardwon" in tools or INSTRUCTIONS in tools or (not is_codex(house) and "WaitForMcpServers" not in tools):
            return next(left)
        return run_shell("sleep 0.3") if is_codex(house) else Reply(calls=(Call("WaitForMcpServers", {}),))

    return script


def test_without_hardwon_it_is_said_once_and_everything_runs(bare: House) -> None:
    plugins(bare)
    path = ":".join(part for part in bare.env["PATH"].split(":") if not os.path.exists(f"{part}/hardwon"))
    done = session(bare, [run(bare, "touch made"), DONE], PATH=path, HOME=bare.env["HOME"])
    assert (bare.project / "made").exists()
    if not is_codex(bare):
        assert [MISSING in run.stdout for run in done.hooks if run.event == "SessionStart"] == [True]
        assert [run.outcome for run in done.hooks] == ["success"] * len(done.hooks)


def test_uninstalling_leaves_nothing_of_ours(house: House) -> None:
    verbs = ("remove",) if is_codex(house) else ("uninstall",)
    for name in ("hardwon", "lessons"):
        typed(house, "plugin", *verbs, f"{name}@hardwon")
    typed(house, "plugin", "marketplace", "remove", "hardwon")
    house.add("hold", ADVICE, STASH)
    session(house, [run(house, "git stash"), DONE])
    assert (house.stashes, deliveries(house)) == (1, 0)
    folder = house.root / "home" / (".codex" if is_codex(house) else ".claude")
    settings = [path for path in folder.glob("*.*") if path.suffix in (".json", ".toml")]
    assert [path for path in settings if "hardwon" in path.read_text()] == []
