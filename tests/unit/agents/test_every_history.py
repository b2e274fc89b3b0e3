"""What holds for the transcripts of every host: steps have ids that stay, a reader forgets, nothing stops it."""

from __future__ import annotations

import json
import os
import shutil
from collections import Counter
from collections.abc import Iterator
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hardwon.agents.transcript_steps import TRANSCRIPT_MODULES, Reader, Step, load_transcript_module
from tests.support.reading import RECORDED, bent, corpus, handed_over, recorded, steps_of

LARGE, LONG = 5_000_000, 1_000_000
EVERY = pytest.mark.parametrize("host", TRANSCRIPT_MODULES)


def resumed(reader: Reader) -> Reader:
    """A reader that knows only what was stored of this one."""
    return type(reader)(json.loads(json.dumps(reader.dump_state())))


@pytest.mark.parametrize(("host", "name"), RECORDED)
def test_reading_in_two_parts_is_reading_at_once(host: str, name: str) -> None:
    lines = [b"{half a line\n", *handed_over(host, recorded(host, name)), b"\0\n", b"\n"]
    whole = load_transcript_module(host).Reader()
    told = steps_of(whole, lines)
    assert told and whole.malformed >= 2
    for cut in range(len(lines) + 1):
        first = load_transcript_module(host).Reader()
        before = steps_of(first, lines[:cut])
        second = resumed(first)
        assert before + steps_of(second, lines[cut:], cut + 1) == told
        assert (second.malformed, second.dump_state()) == (whole.malformed, whole.dump_state())
        assert len(json.dumps(first.dump_state())) < 5_000


def repeated(found: list[Step]) -> list[str]:
    """The ids that more than one call or more than one result has."""
    ids = Counter(step.id for step in found if step.kind in ("call", "result"))
    return [id for id, times in ids.items() if times > 1 or not id]


@pytest.mark.parametrize(("host", "name"), RECORDED)
def test_a_steps_id_is_its_own_and_the_same_in_a_copy(host: str, name: str, tmp_path: Any) -> None:
    path, copy = recorded(host, name), os.path.join(tmp_path, "copy")
    shutil.copy(path, copy)
    found = steps_of(load_transcript_module(host).Reader(), handed_over(host, path))
    again = steps_of(load_transcript_module(host).Reader(), handed_over(host, copy))
    assert [step.id for step in again] == [step.id for step in found]
    assert repeated(found) == []


@EVERY
def test_no_two_steps_of_a_real_session_share_an_id(host: str) -> None:
    for row, path in corpus(host):
        assert repeated(steps_of(load_transcript_module(host).Reader(), handed_over(host, path))) == [], row["file"]


def line(**wire: object) -> bytes:
    return json.dumps(wire).encode() + b"\n"


def endless(host: str) -> Iterator[bytes]:
    """A transcript made to be remembered: long names everywhere, and nothing comes to its end."""
    for number in range(1000):
        id, folder = f"{number}" * 1000, "/deep" * 1000
        if host == "claude-code":
            yield line(type="user", uuid=id, parentUuid=id[1:], isSidechain=True, sessionId=id, cwd=folder)
        elif host == "codex":
            call = {"type": "function_call", "name": "shell", "call_id": id, "arguments": line(cmd=id).decode()}
            script = {"type": "custom_tool_call", "name": "exec", "call_id": id + "s", "input": f"tools.{id}()"}
            yield line(type="event_msg", payload={"type": "item_completed", "item": {"type": "UserMessage"}})
            yield line(type="session_meta", payload={"id": id, "cwd": folder})
            yield from (line(type="response_item", payload=item) for item in (call, script))
            yield line(type="response_item", payload={**call, "type": "function_call_output", "output": running(id)})
            yield line(type="response_item", payload={**call, "call_id": f"{number}"})
            if number % 50 == 0:
                yield line(type="event_msg", payload={"type": "turn_aborted", "reason": "interrupted"})
        elif host == "gemini":
            calls = [{"id": f"{number}.{each}" + id} for each in range(300)] if number % 100 == 0 else []
            yield line(id=id, sessionId=id, type="gemini", content=id, toolCalls=calls)
        else:
            yield line(info={"id": id, "directory": folder}, messages=[{"parts": [{"type": "tool", "id": id}]}])


def running(number: str) -> str:
    return f"Wall time: 1 seconds\nProcess running with session ID {number}\nOutput:\n"


@EVERY
def test_what_a_reader_remembers_stays_small(host: str) -> None:
    reader = load_transcript_module(host).Reader()
    assert steps_of(reader, endless(host)) or host == "claude-code"
    assert len(json.dumps(reader.dump_state())) < 300_000


HOSTILE = {
    "an open list": b"[" * LARGE,
    "open objects": b'{"type":' * (LARGE // 8),
    "closed lists": b"[" * (LARGE // 2) + b"]" * (LARGE // 2),
    "nothing": b"\0" * LARGE,
    "blanks": b" " * LARGE,
    "bytes of no encoding": b"\xff" * LARGE,
    "a number": b"9" * LARGE,
    "half characters": b'{"type":"user","message":{"content":"' + b"\\ud83d" * (LARGE // 6) + b'"}}',
    "objects of objects": b'{"messages":[' + b"{}," * (LARGE // 30) + b"{}]}",
}


@EVERY
@pytest.mark.parametrize("name", HOSTILE)
def test_no_large_and_hostile_line_stops_the_reading(host: str, name: str) -> None:
    reader = load_transcript_module(host).Reader()
    checked(steps_of(reader, [HOSTILE[name]]))
    assert reader.malformed <= 1
    assert len(json.dumps(reader.dump_state())) < 5_000


# Texts on which a careless pattern takes a time that grows with the square of their length.
SLOW = (
    "*** Begin Patch\n*** Add File: " + " " * LONG + "x",
    "<session_context>Workspace Directories:" + "\n" * LONG,
    "x" + " (" * (LONG // 2),
    "Process exited with code " + "1" * LONG,
    "Wall time\nProcess exited with code " + "1" * 5000 + "\nOutput:\n",
    "Exit code " + "1" * LONG,
    "<hardwon-context>" * (LONG // 17),
    "hook: " * (LONG // 6) + "<hardwon-context>",
    "<hook_context>" * (LONG // 14),
    "Command: x\n" + "Directory: " * (LONG // 11),
    'tools.exec_command({cmd:"' + "\\a" * (LONG // 2),
    "apply_patch '*** Begin Patch" + "\\a" * (LONG // 2),
)


def places(host: str, text: str) -> list[bytes]:
    """Lines with this text wherever a reader searches one."""
    if host == "claude-code":
        block = {"type": "tool_result", "content": text, "is_error": True}
        return [line(type="user", message={"content": content}) for content in (text, [block])]
    if host == "codex":
        script = {"type": "custom_tool_call", "name": "exec", "input": text}
        patch = {"type": "function_call", "name": "shell", "arguments": json.dumps({"command": text})}
        ended = {"type": "function_call_output", "output": text}
        said = {"type": "message", "role": "user", "content": text}
        return [line(type="response_item", payload=item) for item in (script, patch, ended, said)]
    if host == "gemini":
        call = {"status": "error", "displayName": text, "name": "run_shell_command", "result": text}
        return [line(id="m", type="user", content=text), line(id="n", type="gemini", toolCalls=[call])]
    part = {"type": "tool", "state": {"status": "error", "error": text}}
    return [line(info={}, messages=[{"parts": [part, {"type": "text", "text": text}]}])]


@EVERY
@pytest.mark.parametrize("text", SLOW, ids=lambda text: repr(text[:40]))
def test_no_text_takes_a_reader_long(host: str, text: str) -> None:
    checked(steps_of(load_transcript_module(host).Reader(), places(host, text)))


@EVERY
@given(seed=st.integers(0, 2**32), share=st.sampled_from([0.003, 0.03, 0.3]))
def test_no_bent_line_stops_the_reading(host: str, seed: int, share: float) -> None:
    chance = Random(seed)
    name = chance.choice([name for each, name in RECORDED if each == host])
    lines = [json.loads(each) for each in handed_over(host, recorded(host, name)) if each.startswith(b"{")]
    reader = load_transcript_module(host).Reader()
    checked(steps_of(reader, [bent(wire, chance, share) for wire in lines]))
    assert resumed(reader).dump_state() == reader.dump_state()


def checked(found: list[Step]) -> None:
    """Every field is of its type, and can be written as UTF-8."""
    for step in found:
        assert [type(value) for value in step] == [str, int, *[str] * 11, bool, str, bool]
        "".join(value for value in step if isinstance(value, str)).encode()
