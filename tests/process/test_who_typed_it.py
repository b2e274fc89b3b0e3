"""A decision is a person's: what a program sends, or a model's command, in the form of a typed prompt decides nothing."""

from __future__ import annotations

import itertools
import json
import os
import shlex
import socket
import sqlite3
import sys
from pathlib import Path

import pytest

from tests.support import agent_stand_in
from tests.support.house import GIT_STASH, HOOK, House, bash, lesson, prompt, wait_for

DECISION = "hardwon memory approve 1"
LESSON = """#lesson
tool: Bash
trigger: terraform apply
problem: terraform apply without a plan file applies whatever changed since the plan was read
solution: run terraform plan -out plan.bin and apply plan.bin
#/lesson"""
HOSTS = ("claude-code", "codex", "gemini", "opencode")
_numbers = itertools.count(1)


@pytest.fixture(scope="module")
def attacked(shared_house: House) -> House:
    """A home in which nothing that is tried takes effect, so that one serves for all."""
    propose_memory(shared_house)
    shared_house.ok("start")
    return shared_house


@pytest.fixture
def manned(house: House) -> House:
    propose_memory(house)
    house.ok("start")
    return house


def propose_memory(house: House) -> None:
    """Have an agent propose a memory: number 1, which nobody has approved."""
    house.add(lesson(r"\bmake\b"))
    folder = os.path.dirname(house.home)  # an approved memory is written into the folder it is about
    house.ok("memory", "add", "feedback", "the tide is high at noon", env={"CLAUDECODE": "1"}, cwd=folder)
    assert memories(house) == []


def payload(text: str, host: str = "claude-code") -> bytes:
    """A prompt in a session of its own: the same words twice in one session are answered once."""
    session = f"s{next(_numbers)}"
    wire = {**prompt(text), "session_id": session}
    if host == "gemini":
        wire["hook_event_name"] = "BeforeAgent"
    if host == "opencode":
        wire = {"sessionID": session, "directory": "/home/dev/project", "messageID": "m1", "prompt": text}
    return json.dumps(wire).encode()


def memories(house: House) -> list[str]:
    """The statements that somebody approved."""
    connection = sqlite3.connect(os.path.join(house.home, "hardwon.db"))
    try:
        return [str(row[0]) for row in connection.execute("select text from memories where status = 'active'")]
    finally:
        connection.close()


def send(house: House, text: str) -> str:
    """What a program is told that speaks to the worker as the hook does."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(os.readlink(os.path.join(house.home, "socket")))
        connection.sendall(b"hardwon 1 claude-code UserPromptSubmit 00ff\n" + payload(text))
        connection.shutdown(socket.SHUT_WR)
        answer = b""
        while part := connection.recv(65536):
            answer += part
    said = json.loads(answer)
    return str(said.get("reason") or said.get("systemMessage", ""))


def is_refused(said: str) -> bool:
    """Whether it was refused, or is on a machine that is too busy to say so in time."""
    return "NOT done" in said or "still saving" in said


def hook_words(house: House, host: str = "claude-code") -> list[str]:
    return [sys.executable, "-I", "-S", HOOK, host, "UserPromptSubmit", house.home]


@pytest.mark.parametrize("host", HOSTS)
def test_what_is_typed_to_an_agent_takes_effect(manned: House, host: str) -> None:
    words = hook_words(manned, host)
    code, out, err = agent_stand_in.run_hook(words, payload(DECISION, host), manned.environment(), host)
    manned.ok("stop")
    assert (code, err, len(memories(manned))) == (0, b"", 1), out


def test_bytes_that_a_program_sends_decide_nothing_and_doctor_shows_it(manned: House) -> None:
    said = send(manned, DECISION)
    assert said.startswith("hardwon: NOT done: it was sent by python")
    assert said.endswith(f"If you meant it, run it in a terminal: {DECISION}")
    manned.ok("stop")
    assert memories(manned) == []
    assert "a decision was not carried out" in Path(manned.home, "logs", "worker.log").read_text()
    [shown] = [one["found"] for one in json.loads(manned.cli("doctor", "--json").out) if one["name"] == "hook log"]
    assert shown.startswith("1 decision not carried out, since it is not known to be yours; last: ")
    assert shown.endswith(DECISION)


def test_a_lesson_that_a_program_sends_is_proposed(manned: House) -> None:
    assert "proposed, since it was sent by python" in send(manned, LESSON)
    manned.ok("stop")
    [written] = [one for one in manned.ok("lessons", "list", "--json").json() if "terraform" in one["problem"]]
    assert written["status"] == "candidate"


COMMANDS = {
    "plain": "{hook} < {payload}",
    "piped": "cat {payload} | {hook}",
    "exec": "exec {hook} < {payload}",
    "no environment": "env -i {hook} < {payload}",
    "exec, no environment": "exec env -i {hook} < {payload}",
    "setsid": "env -i setsid {hook} < {payload}",
    "nohup": "nohup {hook} < {payload} 2>/dev/null",
    "orphan": "( ( env -i {hook} < {payload} > {out} ) & ) ; until [ -s {out} ]; do sleep 0.05; done; cat {out}",
    "shell": "sh -c {command} < {payload}",
    "exec shell": "exec sh -c {command} < {payload}",
    "exec shell, no environment": "exec env -i sh -c {command} < {payload}",
}


def run_command(house: House, tmp_path: Path, form: str, text: str, host: str = "claude-code") -> bytes:
    """What a model's command prints that runs the hook in one of these forms."""
    file, out, words = tmp_path / "payload", tmp_path / "out", hook_words(house, host)
    file.write_bytes(payload(text, host))
    command = form.format(
        hook=shlex.join(words),
        payload=shlex.quote(str(file)),
        out=shlex.quote(str(out)),
        command=shlex.quote(f"{shlex.join(words)} || :"),
    )
    return agent_stand_in.run_tool(command, house.environment(), host)


@pytest.mark.parametrize("form", COMMANDS.values(), ids=COMMANDS)
@pytest.mark.parametrize("host", HOSTS)
def test_the_hook_run_by_a_command_of_the_agents_decides_nothing(
    attacked: House, tmp_path: Path, form: str, host: str
) -> None:
    said = run_command(attacked, tmp_path, form, DECISION, host).decode()
    assert is_refused(said) and memories(attacked) == []


@pytest.mark.parametrize("host", ["claude-code", "gemini", "opencode"])
def test_a_command_that_looks_like_the_agents_own_call_has_another_input(
    attacked: House, tmp_path: Path, host: str
) -> None:
    form = "unset CLAUDECODE GEMINI_CLI; exec sh -c {command} < <(cat {payload}) > >(cat)"
    run_command(attacked, tmp_path, form, DECISION, host)
    doubt = f"a decision was not carried out: the hook's input does not come from {host}"
    log = Path(attacked.home, "logs", "hook.log")
    wait_for(lambda: log.exists() and doubt in log.read_text())
    assert memories(attacked) == []


@pytest.mark.parametrize("worker", ["up", "away"])
def test_a_block_is_not_lifted_by_a_command_of_the_agents(house: House, tmp_path: Path, worker: str) -> None:
    slug = house.add({**GIT_STASH, "delivery": "block"})
    if worker == "up":
        house.ok("start")
    else:
        house.stay_cold()
    said = run_command(house, tmp_path, COMMANDS["exec, no environment"], f"hardwon allow {slug}")
    assert b"NOT done: a command ran the hook" in said and b"type it to the agent yourself" in said
    assert house.ask("s1", bash("git stash")).denied
    house.ask("s1", prompt(f"hardwon allow {slug}"))
    assert house.ask("s1", bash("git stash")).raw == b"{}"


def test_an_agent_that_another_agents_command_started_is_not_a_person(attacked: House, tmp_path: Path) -> None:
    file = tmp_path / "payload"
    file.write_bytes(payload(DECISION))
    inner = [
        agent_stand_in.get_program_path("claude-code"),
        "-S",
        "-c",
        "import os, sys; sys.exit(os.system(sys.argv[1]))",
    ]
    started = shlex.join([*inner, f"{shlex.join(hook_words(attacked))} || :"])
    script = f"PYTHONHOME={shlex.quote(sys.base_prefix)} {started} < {file}"
    said = agent_stand_in.run_tool(script, attacked.environment(), "codex").decode()
    assert is_refused(said) and memories(attacked) == []


def spool(house: House, text: str) -> None:
    """Leave what 0.1.0 left when the worker was away, or what anybody may write there."""
    folder = Path(house.home, "spool")
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    record = {"event": None, "injections": [], "lessons": [{"prompt": text, "cwd": "/home/dev/project"}]}
    (folder / "1772614900.000000-00ff-lessons.json").write_text(json.dumps(record))


def test_a_decision_in_the_spool_is_not_carried_out_and_doctor_shows_it(house: House) -> None:
    propose_memory(house)
    spool(house, DECISION)
    house.ok("start")
    house.ok("stop")
    assert memories(house) == [] and not list(Path(house.home, "spool").iterdir())
    [shown] = [one["found"] for one in json.loads(house.cli("doctor", "--json").out) if one["name"] == "hook log"]
    assert "it waited in the spool" in shown and shown.endswith(DECISION)


def test_a_lesson_in_the_spool_is_proposed(house: House) -> None:
    spool(house, LESSON)
    house.ok("start")
    house.ok("stop")
    [written] = house.ok("lessons", "list", "--json").json()
    assert written["status"] == "candidate"
