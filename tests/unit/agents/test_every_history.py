"""For the transcripts of every agent: step ids are stable, a reader's state stays small, no line stops it."""

from __future__ import annotations

import json
import os
import shutil
from collections import Counter
from collections.abc import Iterator
from functools import cache
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
EVERY_HOST = pytest.mark.parametrize("host", TRANSCRIPT_AGENTS)


def resume_reader(host: str, reader: Reader) -> Reader:
    """Return a reader with only the stored state of this one."""
    return load_transcript_module(host).Reader(json.loads(json.dumps(vars(reader))))


@pytest.mark.parametrize(("host", "name"), RECORDED)
def test_reading_in_two_parts_gives_the_same_steps(host: str, name: str) -> None:
    lines = [b"{half a line\n", *read_history_lines(host, find_recording(host, name)), b"\0\n", b"\n"]
    full_reader = load_transcript_module(host).Reader()
    all_steps = read_steps(full_reader, lines)
    assert all_steps and full_reader.malformed >= 2
    for cut in range(len(lines) + 1):
        first_reader = load_transcript_module(host).Reader()
        first_steps = read_steps(first_reader, lines[:cut])
        second_reader = resume_reader(host, first_reader)
        assert first_steps + read_steps(second_reader, lines[cut:], cut + 1) == all_steps
        assert (second_reader.malformed, vars(second_reader)) == (full_reader.malformed, vars(full_reader))
        assert len(json.dumps(vars(first_reader))) < 5_000


def find_repeated_ids(steps: list[Step]) -> list[str]:
    """Return the ids that several calls or results share."""
    ids = Counter(step.id for step in steps if step.kind in ("call", "result"))
    return [step_id for step_id, times in ids.items() if times > 1 or not step_id]


@pytest.mark.parametrize(("host", "name"), RECORDED)
def test_step_ids_are_unique_and_the_same_in_a_copy(host: str, name: str, tmp_path: Any) -> None:
    path, copy = find_recording(host, name), os.path.join(tmp_path, "copy")
    shutil.copy(path, copy)
    steps = read_steps(load_transcript_module(host).Reader(), read_history_lines(host, path))
    copied_steps = read_steps(load_transcript_module(host).Reader(), read_history_lines(host, copy))
    assert [step.id for step in copied_steps] == [step.id for step in steps]
    assert find_repeated_ids(steps) == []


@EVERY_HOST
def test_no_two_steps_of_a_real_session_share_an_id(host: str) -> None:
    for row, path in list_corpus_files(host):
        assert (
            find_repeated_ids(read_steps(load_transcript_module(host).Reader(), read_history_lines(host, path))) == []
        ), row["file"]


def build_line(**wire: object) -> bytes:
    return json.dumps(wire).encode() + b"\n"


def generate_endless_lines(host: str) -> Iterator[bytes]:
    """Yield lines that make a reader keep as much as possible: long names, and calls that never end."""
    for number in range(1000):
        long_id, folder = f"{number}" * 1000, "/deep" * 1000
        if host == "claude-code":
            yield build_line(
                type="user", uuid=long_id, parentUuid=long_id[1:], isSidechain=True, sessionId=long_id, cwd=folder
            )
        elif host == "codex":
            call = {
                "type": "function_call",
                "name": "shell",
                "call_id": long_id,
                "arguments": build_line(cmd=long_id).decode(),
            }
            script = {
                "type": "custom_tool_call",
                "name": "exec",
                "call_id": long_id + "s",
                "input": f"tools.{long_id}()",
            }
            yield build_line(type="event_msg", payload={"type": "item_completed", "item": {"type": "UserMessage"}})
            yield build_line(type="session_meta", payload={"id": long_id, "cwd": folder})
            yield from (build_line(type="response_item", payload=item) for item in (call, script))
            yield build_line(
                type="response_item",
                payload={**call, "type": "function_call_output", "output": build_running_output(long_id)},
            )
            yield build_line(type="response_item", payload={**call, "call_id": f"{number}"})
            if number % 50 == 0:
                yield build_line(type="event_msg", payload={"type": "turn_aborted", "reason": "interrupted"})
        elif host == "gemini":
            calls = [{"id": f"{number}.{part}" + long_id} for part in range(300)] if number % 100 == 0 else []
            yield build_line(id=long_id, sessionId=long_id, type="gemini", content=long_id, toolCalls=calls)
        elif host == "qwen":
            call_part = {"functionCall": {"id": long_id, "name": long_id, "args": {"file_path": folder}}}
            yield build_line(
                type="assistant", uuid=long_id, sessionId=long_id, cwd=folder, message={"parts": [call_part]}
            )
        elif host == "grok":
            call_update = {
                "sessionUpdate": "tool_call",
                "toolCallId": long_id,
                "title": long_id,
                "rawInput": {"command": long_id},
            }
            output = {"sessionUpdate": "other", "rawOutput": {"current_dir": folder}}
            for update in (call_update, output):
                yield build_line(
                    method="session/update",
                    params={"sessionId": long_id, "update": update, "_meta": {"eventId": long_id}},
                )
        elif host == "droid":
            yield build_line(type="session_start", id=long_id, cwd=folder)
            block = {"type": "tool_use", "id": long_id, "name": long_id, "input": {"command": long_id}}
            yield build_line(type="message", id=long_id, message={"role": "assistant", "content": [block]})
        elif host == "cline":
            blocks = [{"type": "tool_use", "id": long_id, "name": long_id, "input": {"path": folder}}]
            prompt = f"Working Directory: {folder}"
            yield build_line(sessionId=long_id, messages=[{"id": long_id, "content": blocks}], system_prompt=prompt)
        elif host == "copilot":
            yield build_line(type="session.start", data={"sessionId": long_id, "context": {"cwd": folder}})
            started = {"toolCallId": long_id, "toolName": "bash", "arguments": {"command": long_id}}
            yield build_line(type="tool.execution_start", id=long_id, agentId=long_id, data=started)
        else:
            yield build_line(
                info={"id": long_id, "directory": folder}, messages=[{"parts": [{"type": "tool", "id": long_id}]}]
            )


def build_running_output(number: str) -> str:
    return f"Wall time: 1 seconds\nProcess running with session ID {number}\nOutput:\n"


@EVERY_HOST
def test_the_state_of_a_reader_stays_small(host: str) -> None:
    reader = load_transcript_module(host).Reader()
    assert read_steps(reader, generate_endless_lines(host)) or host == "claude-code"
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


@EVERY_HOST
@pytest.mark.parametrize("name", HOSTILE)
def test_a_large_hostile_line_does_not_stop_the_reading(host: str, name: str) -> None:
    reader = load_transcript_module(host).Reader()
    check_steps(read_steps(reader, [HOSTILE[name]]))
    assert reader.malformed <= 1
    assert len(json.dumps(vars(reader))) < 5_000


# Texts on which a careless pattern takes quadratic time.
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


def build_lines_with(host: str, text: str) -> list[bytes]:
    """Build lines with this text wherever a reader searches text."""
    if host == "claude-code":
        block = {"type": "tool_result", "content": text, "is_error": True}
        return [build_line(type="user", message={"content": content}) for content in (text, [block])]
    if host == "codex":
        script = {"type": "custom_tool_call", "name": "exec", "input": text}
        patch = {"type": "function_call", "name": "shell", "arguments": json.dumps({"command": text})}
        output = {"type": "function_call_output", "output": text}
        message = {"type": "message", "role": "user", "content": text}
        return [build_line(type="response_item", payload=item) for item in (script, patch, output, message)]
    if host == "gemini":
        call = {"status": "error", "displayName": text, "name": "run_shell_command", "result": text}
        return [build_line(id="m", type="user", content=text), build_line(id="n", type="gemini", toolCalls=[call])]
    if host == "cline":
        content = [{"type": "tool_result", "content": text}]
        content += [{"type": "text", "text": opening + text} for opening in ("", "<user_input>", "<hook_context ")]
        return [build_line(messages=[{"role": "user", "content": content}], system_prompt=f"Working Directory: {text}")]
    if host in ("opencode", "kilo"):
        part = {"type": "tool", "state": {"status": "error", "error": text}}
        return [build_line(info={}, messages=[{"parts": [part, {"type": "text", "text": text}]}])]
    return [json.dumps(replace_prose(wire, text)).encode() for wire in select_lines_by_step(host)]


@cache
def select_lines_by_step(host: str) -> list[Any]:
    """Return for each kind of step the first recorded line that gives one."""
    (name, *_) = [name for recorded_host, name in RECORDED if recorded_host == host]
    lines: dict[str, Any] = {}
    reader = load_transcript_module(host).Reader()
    for line in read_history_lines(host, find_recording(host, name)):
        for step in read_steps(reader, [line]):
            lines.setdefault(step.kind, json.loads(line))
    return list(lines.values())


def replace_prose(value: Any, text: str) -> Any:
    """Replace every string with a space in a JSON value; the others are names, ids and times."""
    if isinstance(value, dict):
        return {key: replace_prose(item, text) for key, item in value.items()}
    if isinstance(value, list):
        return [replace_prose(item, text) for item in value]
    return text if isinstance(value, str) and " " in value else value


@EVERY_HOST
@pytest.mark.parametrize("text", SLOW, ids=lambda text: repr(text[:40]))
def test_no_text_takes_a_reader_long(host: str, text: str) -> None:
    steps = read_steps(load_transcript_module(host).Reader(), build_lines_with(host, text))
    assert steps
    check_steps(steps)


@EVERY_HOST
@given(seed=st.integers(0, 2**32), share=st.sampled_from([0.003, 0.03, 0.3]))
def test_a_distorted_line_does_not_stop_the_reading(host: str, seed: int, share: float) -> None:
    generator = Random(seed)
    name = generator.choice([name for recorded_host, name in RECORDED if recorded_host == host])
    lines = [
        json.loads(recorded_line)
        for recorded_line in read_history_lines(host, find_recording(host, name))
        if recorded_line.startswith(b"{")
    ]
    reader = load_transcript_module(host).Reader()
    check_steps(read_steps(reader, [distort_json(wire, generator, share) for wire in lines]))
    assert vars(resume_reader(host, reader)) == vars(reader)


def check_steps(steps: list[Step]) -> None:
    """Check that every field has its type and can be encoded as UTF-8."""
    for step in steps:
        assert [type(value) for value in step] == [str, int, *[str] * 11, bool, str, bool, str]
        "".join(value for value in step if isinstance(value, str)).encode()
