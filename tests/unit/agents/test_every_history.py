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

from hardwon.agents import TRANSCRIPT_AGENTS
from hardwon.agents.transcript_steps import Reader, Step, load_transcript_module
from tests.support.transcript_reading import (
    RECORDED,
    distort_json,
    find_recording,
    list_corpus_files,
    read_history_lines,
    read_steps,
)

LARGE, LONG = 5_000_000, 1_000_000
EVERY = pytest.mark.parametrize("host", TRANSCRIPT_AGENTS)


def resumed(host: str, reader: Reader) -> Reader:
    """A reader that knows only what was stored of this one."""
    return load_transcript_module(host).Reader(json.loads(json.dumps(vars(reader))))


@pytest.mark.parametrize(("host", "name"), RECORDED)
def test_reading_in_two_parts_is_reading_at_once(host: str, name: str) -> None:
    lines = [b"{half a line\n", *read_history_lines(host, find_recording(host, name)), b"\0\n", b"\n"]
    whole = load_transcript_module(host).Reader()
    told = read_steps(whole, lines)
    assert told and whole.malformed >= 2
    for cut in range(len(lines) + 1):
        first = load_transcript_module(host).Reader()
        before = read_steps(first, lines[:cut])
        second = resumed(host, first)
        assert before + read_steps(second, lines[cut:], cut + 1) == told
        assert (second.malformed, vars(second)) == (whole.malformed, vars(whole))
        assert len(json.dumps(vars(first))) < 5_000


def repeated(found: list[Step]) -> list[str]:
    """The ids that more than one call or more than one result has."""
    ids = Counter(step.id for step in found if step.kind in ("call", "result"))
    return [id for id, times in ids.items() if times > 1 or not id]


@pytest.mark.parametrize(("host", "name"), RECORDED)
def test_a_steps_id_is_its_own_and_the_same_in_a_copy(host: str, name: str, tmp_path: Any) -> None:
    path, copy = find_recording(host, name), os.path.join(tmp_path, "copy")
    shutil.copy(path, copy)
    found = read_steps(load_transcript_module(host).Reader(), read_history_lines(host, path))
    again = read_steps(load_transcript_module(host).Reader(), read_history_lines(host, copy))
    assert [step.id for step in again] == [step.id for step in found]
    assert repeated(found) == []


@EVERY
def test_no_two_steps_of_a_real_session_share_an_id(host: str) -> None:
    for row, path in list_corpus_files(host):
        assert repeated(read_steps(load_transcript_module(host).Reader(), read_history_lines(host, path))) == [], row[
            "file"
        ]


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
        elif host == "qwen":
            call_part = {"functionCall": {"id": id, "name": id, "args": {"file_path": folder}}}
            yield line(type="assistant", uuid=id, sessionId=id, cwd=folder, message={"parts": [call_part]})
        elif host == "grok":
            call_update = {"sessionUpdate": "tool_call", "toolCallId": id, "title": id, "rawInput": {"command": id}}
            output = {"sessionUpdate": "other", "rawOutput": {"current_dir": folder}}
            for update in (call_update, output):
                yield line(
                    method="session/update", params={"sessionId": id, "update": update, "_meta": {"eventId": id}}
                )
        elif host == "droid":
            yield line(type="session_start", id=id, cwd=folder)
            block = {"type": "tool_use", "id": id, "name": id, "input": {"command": id}}
            yield line(type="message", id=id, message={"role": "assistant", "content": [block]})
        elif host == "cline":
            blocks = [{"type": "tool_use", "id": id, "name": id, "input": {"path": folder}}]
            prompt = f"Working Directory: {folder}"
            yield line(sessionId=id, messages=[{"id": id, "content": blocks}], system_prompt=prompt)
        elif host == "copilot":
            yield line(type="session.start", data={"sessionId": id, "context": {"cwd": folder}})
            started = {"toolCallId": id, "toolName": "bash", "arguments": {"command": id}}
            yield line(type="tool.execution_start", id=id, agentId=id, data=started)
        else:
            yield line(info={"id": id, "directory": folder}, messages=[{"parts": [{"type": "tool", "id": id}]}])


def running(number: str) -> str:
    return f"Wall time: 1 seconds\nProcess running with session ID {number}\nOutput:\n"


@EVERY
def test_what_a_reader_remembers_stays_small(host: str) -> None:
    reader = load_transcript_module(host).Reader()
    assert read_steps(reader, endless(host)) or host == "claude-code"
    assert len(json.dumps(vars(reader))) < 300_000


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
    checked(read_steps(reader, [HOSTILE[name]]))
    assert reader.malformed <= 1
    assert len(json.dumps(vars(reader))) < 5_000


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
    if host == "cline":
        content = [{"type": "tool_result", "content": text}]
        content += [{"type": "text", "text": opening + text} for opening in ("", "<user_input>", "<hook_context ")]
        return [line(messages=[{"role": "user", "content": content}], system_prompt=f"Working Directory: {text}")]
    part = {"type": "tool", "state": {"status": "error", "error": text}}
    return [line(info={}, messages=[{"parts": [part, {"type": "text", "text": text}]}])]


@EVERY
@pytest.mark.parametrize("text", SLOW, ids=lambda text: repr(text[:40]))
def test_no_text_takes_a_reader_long(host: str, text: str) -> None:
    checked(read_steps(load_transcript_module(host).Reader(), places(host, text)))


@EVERY
@given(seed=st.integers(0, 2**32), share=st.sampled_from([0.003, 0.03, 0.3]))
def test_no_bent_line_stops_the_reading(host: str, seed: int, share: float) -> None:
    chance = Random(seed)
    name = chance.choice([name for each, name in RECORDED if each == host])
    lines = [json.loads(each) for each in read_history_lines(host, find_recording(host, name)) if each.startswith(b"{")]
    reader = load_transcript_module(host).Reader()
    checked(read_steps(reader, [distort_json(wire, chance, share) for wire in lines]))
    assert vars(resumed(host, reader)) == vars(reader)


def checked(found: list[Step]) -> None:
    """Every field is of its type, and can be written as UTF-8."""
    for step in found:
        assert [type(value) for value in step] == [str, int, *[str] * 11, bool, str, bool]
        "".join(value for value in step if isinstance(value, str)).encode()
