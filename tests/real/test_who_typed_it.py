"""A decision typed to the real agents takes effect and stays between the person and hardwon; what a program sends, or a
command of the model's, decides nothing."""

from __future__ import annotations

import json
import os
import shlex
import socket
import sys
from collections.abc import Iterator

import pytest

from hardwon.agents import prompt_origin
from tests.support.claude_transcript import TranscriptWriter

from . import agents
from .completion_agents import KILO, QWEN, CompletionAgent
from .conversation import Session
from .house import CHECKOUT, House
from .model_server import Reply, bash
from .other_agents import AGENT_SETUPS, run_shell

pytestmark = pytest.mark.real

DONE = Reply("done")
DECISION = "hardwon accept 1"
HOOK = CHECKOUT / "src" / "hardwon" / "hook.py"


def is_run_by_an_agent() -> bool:
    """Return whether an agent runs these tests: then no person started the agents in them."""
    pid = os.getppid()
    while pid > 1:
        try:
            process = prompt_origin.read_process(pid)
        except OSError:
            return False
        if any(name in process.program for name in prompt_origin.AGENT_PROGRAM_NAMES.values()):
            return True
        pid = process.parent_pid
    return False


needs_a_person = pytest.mark.skipif(is_run_by_an_agent(), reason="an agent runs these tests, so nobody types in them")


DECIDING_AGENTS = {**AGENT_SETUPS, **{row.agent: row.build_setup() for row in (QWEN, KILO)}}


@pytest.fixture(params=DECIDING_AGENTS, ids=lambda agent: agent.name)
def other_house(
    request: pytest.FixtureRequest, own_network: bool, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[House]:
    root, agent_setup = tmp_path_factory.mktemp("h"), DECIDING_AGENTS[request.param]
    house = House(root, agents.find_program(request.param), own_network=own_network, agent_setup=agent_setup)
    trust = ("--trust",) if agent_setup.name == "codex" else ()
    house.hardwon("install", agent_setup.name, "--yes", *trust)
    yield house
    house.hardwon("stop")
    house.wait_for_background()
    assert house.list_processes() == []


def propose_candidate(house: House) -> None:
    """Have a scan find a candidate, number 1, in an earlier session."""
    TranscriptWriter(str(house.root / "home")).mistake().write()
    house.hardwon("scan")
    assert len(list_candidates(house)) == 1


def list_candidates(house: House) -> list[dict[str, object]]:
    listed: list[dict[str, object]] = json.loads(house.hardwon("scan", "candidates", "--json", "--all"))["candidates"]
    return listed


def count_lessons_in_force(house: House) -> int:
    return len(json.loads(house.hardwon("lessons", "list", "--json")))


def read_hook_command(house: House) -> str:
    words = [
        sys.executable,
        "-I",
        "-S",
        str(HOOK),
        house.agent_setup.name,
        "UserPromptSubmit",
        str(house.root / "hardwon"),
    ]
    return shlex.join(words)


def build_payload(text: str, agent: str) -> bytes:
    # Qwen Code names what a person typed a second time.
    wire = {"session_id": "s1", "cwd": "/", "prompt": text, **({"submitted_prompt": text} if agent == "qwen" else {})}
    if agent in ("opencode", "kilo"):
        wire = {"sessionID": "s1", "directory": "/", "prompt": text}
    return json.dumps(wire).encode()


def write_script(house: House, line: str) -> str:
    """Write a script and return a command that does not name the hook, since hardwon denies those that do."""
    file, script = house.root / "payload.json", house.root / "run.sh"
    file.write_bytes(build_payload(DECISION, house.agent_setup.name))
    script.write_text(line.format(hook=read_hook_command(house), payload=file, log=house.root / "said.txt"))
    return f". {script}"


FORMS = {
    "plain": "{hook} < {payload} > {log}\n",
    "exec": "exec env -i {hook} < {payload} > {log}\n",
    "setsid": "env -i setsid -w {hook} < {payload} > {log}\n",
    "nohup": "env -i nohup {hook} < {payload} > {log} 2>/dev/null\n",
    "orphan": "( ( env -i {hook} < {payload} > {log} ) & ) ; until [ -s {log} ]; do sleep 0.05; done\n",
    "exec shell": "exec env -u AI_AGENT sh -c '{hook} || :' < {payload} > {log}\n",
}


@needs_a_person
def test_a_typed_decision_takes_effect_and_the_model_never_sees_it(house: House) -> None:
    propose_candidate(house)
    house.hardwon("start")
    session = house.session([Reply("one"), Reply("two")], "go on", DECISION, "and on")
    house.hardwon("stop")  # once it has done what took longer
    assert count_lessons_in_force(house) == 1
    assert session.said[1].startswith("UserPromptSubmit operation blocked by hook:\nhardwon: ")
    assert len(session.turns) == 2
    assert not [request for request in session.requests if DECISION in request or "in force as a" in request]


@needs_a_person
def test_a_typed_decision_takes_effect_on_the_other_agents(other_house: House) -> None:
    propose_candidate(other_house)
    other_house.hardwon("start")
    first = other_house.session([DONE], "go on")
    typed = other_house.session([DONE], DECISION, resume=first.id)
    next_session = other_house.session([DONE], "and on", resume=first.id)
    other_house.hardwon("stop")  # once it has done what took longer
    assert count_lessons_in_force(other_house) == 1
    if other_house.agent_setup.name in (
        "opencode",
        "kilo",
    ):  # an error there would be shown as one of the program's own
        assert typed.turns_with("The user's message was a command to hardwon, which has answered it")
    else:
        assert not typed.requests and not next_session.turns_with(DECISION)


@needs_a_person
@pytest.mark.parametrize("row", [QWEN, KILO], ids=lambda row: str(row.agent.name))
def test_a_command_of_a_repository_decides_nothing(
    row: CompletionAgent, own_network: bool, tmp_path_factory: pytest.TempPathFactory
) -> None:
    program = agents.find_program(row.agent)
    house = House(tmp_path_factory.mktemp("h"), program, own_network=own_network, agent_setup=row.build_setup())
    house.hardwon("install", row.agent.name, "--yes")
    for name in (".qwen/commands/tidy.md", ".kilo/command/tidy.md"):
        path = house.project / name
        path.parent.mkdir(parents=True)
        path.write_text(f"---\ndescription: tidy\n---\n{DECISION}\n")
    propose_candidate(house)
    house.hardwon("start")
    is_kilo = row.agent.name == "kilo"
    session = house.session([DONE], "go" if is_kilo else "/tidy", more=("--command", "tidy") if is_kilo else ())
    house.hardwon("stop")
    house.wait_for_background()
    assert count_lessons_in_force(house) == 0 and session.turns_with(DECISION)


def send_to_worker(house: House) -> str:
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(os.readlink(house.root / "hardwon" / "socket"))
        connection.sendall(b"hardwon 1 claude-code UserPromptSubmit 00ff\n" + build_payload(DECISION, "claude-code"))
        connection.shutdown(socket.SHUT_WR)
        return connection.makefile().read()


def test_the_same_bytes_sent_by_a_program_do_not_take_effect(house: House) -> None:
    propose_candidate(house)
    house.hardwon("start")
    assert "NOT done: it was sent by python" in send_to_worker(house)
    assert (count_lessons_in_force(house), len(list_candidates(house))) == (0, 1)


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
def test_a_hook_run_by_the_agents_shell_tool_does_not_take_effect(house: House, form: str) -> None:
    propose_candidate(house)
    house.hardwon("start")
    session = house.session([bash(write_script(house, form)), DONE])
    assert_refused(house, session, form)


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
def test_a_hook_run_by_another_agents_shell_tool_does_not_take_effect(other_house: House, form: str) -> None:
    propose_candidate(other_house)
    other_house.hardwon("start")
    session = other_house.session([run_shell(write_script(other_house, form)), DONE])
    assert_refused(other_house, session, form)


def assert_refused(house: House, session: Session, form: str) -> None:
    output = (house.root / "said.txt").read_text()
    # in the environment of a tool the hook is silent by itself; without it the worker refuses
    is_refused = "NOT done" in output or "still saving" in output
    assert is_refused or (output == "{}" and form == FORMS["plain"]), (output, session.results)
    house.hardwon("stop")
    assert (count_lessons_in_force(house), len(list_candidates(house))) == (0, 1)
