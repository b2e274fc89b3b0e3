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
def attacked_house(shared_house: House) -> House:
    """A house that tests share, since nothing that they try takes effect."""
    propose_memory(shared_house)
    shared_house.ok("start")
    return shared_house


@pytest.fixture
def running_house(house: House) -> House:
    propose_memory(house)
    house.ok("start")
    return house


def propose_memory(house: House) -> None:
    """Have an agent propose a memory: number 1, which nobody has approved."""
    house.add(lesson(r"\bmake\b"))
    folder = os.path.dirname(house.home)  # an approved memory is written into the folder it is about
    house.ok("memory", "add", "feedback", "the tide is high at noon", env={"CLAUDECODE": "1"}, cwd=folder)
    assert list_approved_memories(house) == []


def build_payload(text: str, host: str = "claude-code") -> bytes:
    """Return a prompt in a new session, because the same words twice in one session are answered once."""
    session = f"s{next(_numbers)}"
    wire = {**prompt(text), "session_id": session}
    if host == "gemini":
        wire["hook_event_name"] = "BeforeAgent"
    if host == "opencode":
        wire = {"sessionID": session, "directory": "/home/dev/project", "messageID": "m1", "prompt": text}
    return json.dumps(wire).encode()


def list_approved_memories(house: House) -> list[str]:
    """Return the approved statements."""
    connection = sqlite3.connect(os.path.join(house.home, "hardwon.db"))
    try:
        return [str(row[0]) for row in connection.execute("select text from memories where status = 'active'")]
    finally:
        connection.close()


def send_to_worker(house: House, text: str) -> str:
    """Speak to the worker as the hook does; return its answer."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(os.readlink(os.path.join(house.home, "socket")))
        connection.sendall(b"hardwon 1 claude-code UserPromptSubmit 00ff\n" + build_payload(text))
        connection.shutdown(socket.SHUT_WR)
        answer = b""
        while part := connection.recv(65536):
            answer += part
    reply = json.loads(answer)
    return str(reply.get("reason") or reply.get("systemMessage", ""))


def is_refused(notice: str) -> bool:
    """Return whether it was refused, or the machine is too busy to say so in time."""
    return "NOT done" in notice or "still saving" in notice


def build_hook_command(house: House, host: str = "claude-code") -> list[str]:
    return [sys.executable, "-I", "-S", HOOK, host, "UserPromptSubmit", house.home]


@pytest.mark.parametrize("host", HOSTS)
def test_what_is_typed_to_an_agent_takes_effect(running_house: House, host: str) -> None:
    words = build_hook_command(running_house, host)
    code, out, err = agent_stand_in.run_hook(words, build_payload(DECISION, host), running_house.environment(), host)
    running_house.ok("stop")
    assert (code, err, len(list_approved_memories(running_house))) == (0, b"", 1), out


def test_bytes_that_a_program_sends_decide_nothing_and_doctor_shows_it(running_house: House) -> None:
    output = send_to_worker(running_house, DECISION)
    assert output.startswith("hardwon: NOT done: it was sent by python")
    assert output.endswith(f"If you meant it, run it in a terminal: {DECISION}")
    running_house.ok("stop")
    assert list_approved_memories(running_house) == []
    assert "a decision was not carried out" in Path(running_house.home, "logs", "worker.log").read_text()
    [finding] = [
        check["found"] for check in json.loads(running_house.cli("doctor", "--json").out) if check["name"] == "hook log"
    ]
    assert finding.startswith("1 decision not carried out, since it is not known to be yours; last: ")
    assert finding.endswith(DECISION)


def test_a_lesson_that_a_program_sends_is_proposed(running_house: House) -> None:
    assert "proposed, since it was sent by python" in send_to_worker(running_house, LESSON)
    running_house.ok("stop")
    [stored_lesson] = [
        item for item in running_house.ok("lessons", "list", "--json").json() if "terraform" in item["problem"]
    ]
    assert stored_lesson["status"] == "candidate"


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
    """Run the hook as a model's command in one of these forms; return what it prints."""
    file, out, words = tmp_path / "payload", tmp_path / "out", build_hook_command(house, host)
    file.write_bytes(build_payload(text, host))
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
    attacked_house: House, tmp_path: Path, form: str, host: str
) -> None:
    output = run_command(attacked_house, tmp_path, form, DECISION, host).decode()
    assert is_refused(output) and list_approved_memories(attacked_house) == []


@pytest.mark.parametrize("host", ["claude-code", "gemini", "opencode"])
def test_a_command_that_looks_like_the_agents_own_call_has_another_input(
    attacked_house: House, tmp_path: Path, host: str
) -> None:
    form = "unset CLAUDECODE GEMINI_CLI; exec sh -c {command} < <(cat {payload}) > >(cat)"
    run_command(attacked_house, tmp_path, form, DECISION, host)
    doubt = f"a decision was not carried out: the hook's input does not come from {host}"
    log = Path(attacked_house.home, "logs", "hook.log")
    wait_for(lambda: log.exists() and doubt in log.read_text())
    assert list_approved_memories(attacked_house) == []


@pytest.mark.parametrize("worker", ["up", "away"])
def test_a_block_is_not_lifted_by_a_command_of_the_agents(house: House, tmp_path: Path, worker: str) -> None:
    slug = house.add({**GIT_STASH, "delivery": "block"})
    if worker == "up":
        house.ok("start")
    else:
        house.stay_cold()
    output = run_command(house, tmp_path, COMMANDS["exec, no environment"], f"hardwon allow {slug}")
    assert b"NOT done: a command ran the hook" in output and b"type it to the agent yourself" in output
    assert house.ask("s1", bash("git stash")).denied
    house.ask("s1", prompt(f"hardwon allow {slug}"))
    assert house.ask("s1", bash("git stash")).raw == b"{}"


def test_an_agent_that_another_agents_command_started_is_not_a_person(attacked_house: House, tmp_path: Path) -> None:
    file = tmp_path / "payload"
    file.write_bytes(build_payload(DECISION))
    inner = [
        agent_stand_in.get_program_path("claude-code"),
        "-S",
        "-c",
        "import os, sys; sys.exit(os.system(sys.argv[1]))",
    ]
    started = shlex.join([*inner, f"{shlex.join(build_hook_command(attacked_house))} || :"])
    script = f"PYTHONHOME={shlex.quote(sys.base_prefix)} {started} < {file}"
    output = agent_stand_in.run_tool(script, attacked_house.environment(), "codex").decode()
    assert is_refused(output) and list_approved_memories(attacked_house) == []


def write_spool_file(house: House, text: str) -> None:
    """Write into the spool what 0.1.0 wrote when the worker was away, or anybody may write."""
    folder = Path(house.home, "spool")
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    record = {"event": None, "injections": [], "lessons": [{"prompt": text, "cwd": "/home/dev/project"}]}
    (folder / "1772614900.000000-00ff-lessons.json").write_text(json.dumps(record))


def test_a_decision_in_the_spool_is_not_carried_out_and_doctor_shows_it(house: House) -> None:
    propose_memory(house)
    write_spool_file(house, DECISION)
    house.ok("start")
    house.ok("stop")
    assert list_approved_memories(house) == [] and not list(Path(house.home, "spool").iterdir())
    [finding] = [
        check["found"] for check in json.loads(house.cli("doctor", "--json").out) if check["name"] == "hook log"
    ]
    assert "it waited in the spool" in finding and finding.endswith(DECISION)


def test_a_lesson_in_the_spool_is_proposed(house: House) -> None:
    write_spool_file(house, LESSON)
    house.ok("start")
    house.ok("stop")
    [stored_lesson] = house.ok("lessons", "list", "--json").json()
    assert stored_lesson["status"] == "candidate"
