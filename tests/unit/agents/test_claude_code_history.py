"""Claude Code's transcripts, made up, recorded and real, become the steps that were taken in them."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hardwon.agents.claude_code.transcript import Reader, find_transcript_folders, is_transcript_path
from hardwon.agents.transcript_steps import Step
from hardwon.text.fence import fence_text
from tests.support.transcript_reading import find_recording, list_corpus_files, read_lines, read_steps

NOTE = "\n\nNote: The user's next message may contain a correction or preference. Pay close attention — if they explain"
NO = (
    "The user doesn't want to proceed with this tool use. The tool use was rejected (eg. if it was a file edit, the "
    "new_string was NOT written to the file). "
)
STOP = "STOP what you are doing and wait for the user to tell you how to proceed."
HANDOFF = "<command-message>handoff</command-message>\n<command-name>/handoff</command-name>"
OUR_NO = fence_text("use git stash -u")


def steps(lines: list[bytes], reader: Reader | None = None) -> list[Step]:
    return read_steps(reader or Reader(), lines)


def step(wire: object) -> Step | None:
    """The one step of a line, if it has one."""
    found = steps([json.dumps(wire).encode()])
    assert len(found) < 2
    return found[0] if found else None


def user(content: object, **more: object) -> dict[str, Any]:
    return {"type": "user", "message": {"role": "user", "content": content}, "uuid": "u", "version": "2.1.49", **more}


def assistant(*blocks: object, model: str = "claude", **more: object) -> dict[str, Any]:
    return {"type": "assistant", "message": {"model": model, "content": list(blocks)}, "uuid": "a", **more}


def text(words: str) -> dict[str, str]:
    return {"type": "text", "text": words}


def ahead(prompt: object, **more: object) -> dict[str, Any]:
    return {"type": "attachment", "uuid": "q", "attachment": {"type": "queued_command", "prompt": prompt, **more}}


def result(content: object, error: bool | None = None, **more: object) -> Step:
    block = {"type": "tool_result", "tool_use_id": "t", "content": content}
    found = step(user([block if error is None else {**block, "is_error": error}], **more))
    assert found is not None
    return found


def test_a_session_becomes_the_steps_taken_in_it() -> None:
    reader = Reader()
    told = [
        (one.line, one.kind, one.agent, one.tool, one.command or one.path or one.text, one.failed, one.refused)
        for one in steps(read_lines(find_recording("claude-code", "made-up.jsonl")), reader)
    ]
    refusal = f"{NO}To tell you how to proceed, the user said:\nnever push from here{NOTE.partition(' —')[0]}."
    assert told == [
        (2, "person", "", "", "run the tests before you commit", False, ""),
        (4, "agent", "", "", "I start the tests.", False, ""),
        (5, "call", "", "Bash", "npm test", False, ""),
        (7, "result", "", "", "Exit code 1\nno database", True, ""),
        (8, "call", "", "Task", "", False, ""),
        (8, "call", "", "Bash", "git push", False, ""),
        (10, "call", "sidechain", "Read", "/home/dev/shop/Makefile", False, ""),
        (11, "result", "sidechain", "", "db: docker compose up db", False, ""),
        (12, "result", "", "", refusal, True, "never push from here"),
        (15, "compacted", "", "", "", False, ""),
        (17, "person", "", "", "start the database with make db", False, ""),
        (18, "agent", "", "", "It runs now.", False, ""),
    ]
    assert reader.malformed == 1


def test_a_step_says_where_it_was_taken_and_joins_its_result() -> None:
    found = steps(read_lines(find_recording("claude-code", "made-up.jsonl")))
    assert found[2] == Step(
        "call", 5, "u-04.0", "2026-03-01T10:00:04.000Z", "s-1", "", "/home/dev/shop", "t-1", "Bash", "npm test"
    )
    assert (found[3].id, found[3].call) == ("u-06.0", "t-1")
    assert [one.id for one in found[4:6]] == ["u-07.0", "u-07.1"]
    assert found[4].content == "find out how the database starts"
    assert (found[-1].session, found[-1].cwd) == ("s-1", "/home/dev/shop/api"), "carried over from the line before"


def test_a_copy_of_a_line_has_the_same_id() -> None:
    for wire in (user("yes", sessionId="one"), {"type": "user", "message": {"content": "no uuid"}}):
        line = json.dumps(wire).encode()
        first, copy = steps([line]), steps([b"\n", line + b"\r\n"])
        assert first[0].id == copy[0].id != ""
    assert len({step(user(words, uuid=None)) for words in ("one", "two")}) == 2


@pytest.mark.parametrize("version", ["2.1.197", "2.1.325"])
def test_of_the_recorded_lines_only_a_few_are_steps(version: str) -> None:
    found = steps(read_lines(find_recording("claude-code", f"recorded-{version}.jsonl")))
    assert sorted(one.kind for one in found) == ["compacted", "person", "result"]
    assert {one.kind: one.text for one in found} == {"compacted": "", "person": "do it", "result": "out-original"}


@pytest.mark.parametrize(
    "wire, typed",
    [
        (user("use uv"), "use uv"),
        (user([text("use uv"), {"type": "image"}]), "use uv"),
        (user([text("<ide_opened_file>The user opened a.py</ide_opened_file>"), text("fix it")]), "fix it"),
        (user("<system-reminder>be brief</system-reminder>\nuse uv <system-reminder>x"), "use uv"),
        (user(f"use uv\n{OUR_NO}"), "use uv"),
        (user("<div> does not render"), "<div> does not render"),
        (user("[test] failed, why?"), "[test] failed, why?"),
        (user("use uv", origin={"kind": "human"}, promptSource="typed"), "use uv"),
        (ahead("use uv"), "use uv"),
        (ahead([text("use uv"), {"type": "image"}], commandMode="prompt"), "use uv"),
        (user([{"type": "tool_result", "tool_use_id": "t"}, text("go on")]), "go on"),
        (user(f"{HANDOFF}\n<command-args>mind the\ndock</command-args>"), "/handoff mind the\ndock"),
        (user([text(HANDOFF), text("Write down what was done")]), "/handoff"),
    ],
)
def test_what_a_person_typed_is_theirs(wire: dict[str, Any], typed: str) -> None:
    found = steps([json.dumps(wire).encode()])
    assert [one.text for one in found if one.kind == "person"] == [typed]


@pytest.mark.parametrize(
    "wire",
    [
        user("a skill's body", isMeta=True),
        user("a summary", isCompactSummary=True, isVisibleInTranscriptOnly=True),
        user("This session is being continued from a previous conversation that ran out of context."),
        user("a sub-agent's task", isSidechain=True),
        user("Implement the following plan:\n\n# Plan", planContent="# Plan"),
        user("finished", origin={"kind": "task-notification"}),
        user("<command-name>/clear</command-name>"),
        user(
            "<command-name>/plan</command-name>\n<command-message>plan</command-message><command-args>it</command-args>"
        ),
        user(HANDOFF, sourceToolUseID="toolu_1"),
        user([text("<command-message>init is analyzing…</command-message>"), text("Please analyze this codebase")]),
        user("<local-command-stdout></local-command-stdout>"),
        user("<local-command-caveat>Caveat: …</local-command-caveat>"),
        user("<task-notification>\n<task-id>b1</task-id>"),
        user('<teammate-message teammate_id="alice">done</teammate-message>'),
        user("<bash-input>ls</bash-input>"),
        user("<ide_opened_file>The user opened a.py</ide_opened_file>"),
        user("Caveat: The messages below were generated by the user while running local commands."),
        user([text("[Request interrupted by user]")]),
        user([text("[Request interrupted by user for tool use]")]),
        user("<system-reminder>\nA task was started</system-reminder>"),
        user(OUR_NO),
        ahead("<task-notification>\n<task-id>b1</task-id>"),
        ahead("a background task ended", commandMode="task-notification"),
        ahead("a peer says", origin={"kind": "peer"}),
        {"type": "queue-operation", "operation": "enqueue", "content": "use uv"},
        {"type": "last-prompt", "lastPrompt": "use uv"},
        {"type": "summary", "summary": "use uv"},
        {"type": "attachment", "attachment": {"type": "hook_additional_context", "content": ["use uv"]}},
        {"type": "progress", "data": {"type": "agent_progress", "message": user("use uv")}},
    ],
)
def test_what_the_program_says_is_no_person(wire: dict[str, Any]) -> None:
    assert step(wire) is None


@pytest.mark.parametrize(
    "wire, said",
    [
        (assistant(text("done")), "done"),
        (assistant({"type": "thinking", "thinking": "hm"}, text("done")), "done"),
        (assistant(text(f"done\n{OUR_NO}")), "done"),
        (assistant({"type": "thinking", "thinking": "hm"}), None),
        (assistant(text("\n\n")), None),
        (assistant(text("API Error: 400"), model="<synthetic>"), None),
        (assistant(text("API Error: 400"), isApiErrorMessage=True), None),
    ],
)
def test_only_the_assistants_own_text_is_the_agents(wire: dict[str, Any], said: str | None) -> None:
    found = step(wire)
    assert (found and (found.kind, found.text)) == (said and ("agent", said))


@pytest.mark.parametrize(
    "tool, given, canonical",
    [
        ("Bash", {"command": "ls", "description": "d"}, ("Bash", "ls", "", "")),
        ("Edit", {"file_path": "a.py", "old_string": "1", "new_string": "2"}, ("Edit", "", "a.py", "2")),
        (
            "MultiEdit",
            {"file_path": "a", "edits": [{"new_string": "1"}, {"new_string": "2"}]},
            ("MultiEdit", "", "a", "1\n2"),
        ),
        ("Grep", {"pattern": "def", "path": "src"}, ("Grep", "", "src", "def")),
        ("Agent", {"prompt": "look"}, ("Task", "", "", "look")),
        (
            "mcp__web__get",
            {"address": "https://a.example"},
            ("mcp__web__get", "", "", "https://a.example\nparameters: address"),
        ),
        ("Bash", "no object", ("Bash", "", "", "")),
    ],
)
def test_a_call_has_the_fields_a_hook_would_see(tool: str, given: object, canonical: tuple[str, ...]) -> None:
    found = step(assistant({"type": "tool_use", "id": "t", "name": tool, "input": given}))
    assert found is not None
    assert (found.call, found.tool, found.command, found.path, found.content) == ("t", *canonical)


@pytest.mark.parametrize(
    "content, detail, told",
    [
        ("out", {"stdout": "out"}, "out"),
        ([text("one"), {"type": "image"}, text("two")], None, "one\ntwo"),
        ([{"type": "tool_reference", "tool_name": "x"}], None, ""),
        (None, {"stdout": "out", "stderr": "err"}, "out\nerr"),
        (None, "Error: gone", "Error: gone"),
        (None, ["x"], ""),
        ("<persisted-output>\nOutput too large", None, "<persisted-output>\nOutput too large"),
        (f"out\n{OUR_NO}", None, "out\n"),
    ],
)
def test_a_result_has_its_text_wherever_it_stands(content: object, detail: object, told: str) -> None:
    assert result(content, toolUseResult=detail).text == told


@pytest.mark.parametrize(
    "content, error, detail, failed",
    [
        ("out", None, None, False),
        ("out", False, None, False),
        ("Exit code 2\nno such file", True, "Error: Exit code 2", True),
        ("Exit code 2\nno such file", None, None, True),
        ("Exit code 0", None, None, False),
        ("Exit code of the tests", None, None, False),
        ("<retrieval_status>success</retrieval_status>\n<exit_code>1</exit_code>", None, None, True),
        ("<retrieval_status>success</retrieval_status>\n<exit_code>0</exit_code>", None, None, False),
        ("output", None, {"status": "completed", "exitCode": 1}, True),
        ("output", None, {"status": "running", "exitCode": None}, False),
        (f"Exit code 1\n{OUR_NO}\nfatal: no", True, None, True),
        (OUR_NO, True, f"Error: {OUR_NO}", False),
        (f"PreToolUse:Bash hook error: {OUR_NO}", True, None, False),
        ("PreToolUse:Bash hook error: somebody else's", True, None, False),
    ],
)
def test_a_result_failed_if_it_says_so_and_no_hook_denied_the_call(
    content: str, error: bool | None, detail: object, failed: bool
) -> None:
    found = result(content, error, toolUseResult=detail)
    assert found.failed is failed
    assert "git stash" not in found.text


@pytest.mark.parametrize(
    "content, error, denied",
    [
        (OUR_NO, True, True),
        (f"PreToolUse:Bash hook error: {OUR_NO}", True, True),
        ("PreToolUse:mcp__files__write_file hook error: [guard.sh]: not on Fridays", True, True),
        ("PreToolUse:Bash hook error: not on Fridays", None, False),
        ("Exit code 1\nPreToolUse:Bash hook error: printed by a program", True, False),
        (f"Exit code 1\n{OUR_NO}\nfatal: no", True, False),
        ("all fine", None, False),
    ],
)
def test_a_call_that_a_hook_denied_is_told_from_one_that_ran(content: str, error: bool | None, denied: bool) -> None:
    assert result(content, error).denied is denied


@pytest.mark.parametrize(
    "content, version, words",
    [
        (NO + STOP, "2.1.49", " "),
        (NO + STOP + NOTE, "2.1.114", " "),
        (f"{NO}The user provided the following reason for the rejection: use uv", "1.0.80", "use uv"),
        (f"{NO}To tell you how to proceed, the user said:\nuse uv,\nnot pip", "2.0.76", "use uv,\nnot pip"),
        (f"{NO}To tell you how to proceed, the user said:\nuse uv{NOTE}", "2.1.114", "use uv"),
        (f"The user doesn't want to take this action right now. {STOP}", "1.0.17", " "),
        ("[Request interrupted by user for tool use]", "2.1.49", " "),
        ("please add the licence first", "2.1.49", ""),
        ("Claude requested permissions to write to a.py, but you haven't granted it yet.", "1.0.98", ""),
        ("fatal: you need to resolve your current index first", "1.0.98", ""),
        ("ls: cannot access 'types/': No such file or directory", "1.0.98", ""),
        ("File has not been read yet. Read it first before writing to it.", "1.0.98", ""),
        ("Exit code 1\nplease run npm install", "2.0.76", ""),
        ("This command requires approval", "2.1.150", ""),
    ],
)
def test_a_refusal_holds_the_persons_words_and_no_others(content: str, version: str, words: str) -> None:
    found = result(content, True, version=version)
    assert (found.refused, found.failed) == (words, True)


def test_a_sub_agents_lines_carry_its_name() -> None:
    named = user([{"type": "tool_result", "content": "x"}], isSidechain=True, agentId="a17")
    assert steps([json.dumps(named).encode()])[0].agent == "a17"
    unnamed = assistant(text("x"), isSidechain=True)
    assert steps([json.dumps(unnamed).encode()])[0].agent == "sidechain"


@pytest.mark.parametrize(
    "line, malformed",
    [
        (b"", 0),
        (b"\r\n", 0),
        (b"[]", 0),
        (b"7", 0),
        (b"// stray text\n", 1),
        (b'{"type":"user"}{"type":"user"}\n', 1),
        (b'{"type":"assistant","message":"[REDACTED]}\n', 1),
        (b'{"type":"user","message":{"content":"half a li', 1),
        (b"\0\0\0\0", 1),
        (b"[" * 100_000, 1),
    ],
)
def test_a_line_that_is_not_json_is_counted_and_nothing_else(line: bytes, malformed: int) -> None:
    reader = Reader()
    assert (list(reader.read_line(1, line)), reader.malformed) == ([], malformed)


@pytest.mark.parametrize("content", [b"caf\xe9", b"caf\\ud83d"])
def test_a_broken_character_loses_no_line(content: bytes) -> None:
    reader = Reader()
    found = list(reader.read_line(1, b'\xef\xbb\xbf{"type":"user","message":{"content":"' + content + b'"}}\r\n'))
    assert found[0].text[:3] == "caf"
    assert found[0].text.encode()
    assert reader.malformed == 0


NAMES = st.sampled_from(
    ["type", "message", "content", "text", "uuid", "toolUseResult", "attachment", "prompt", "origin", "input", "name"]
)
WORDS = st.sampled_from(
    [
        "user",
        "assistant",
        "system",
        "attachment",
        "queued_command",
        "text",
        "tool_use",
        "tool_result",
        "Exit code -",
        "",
    ]
)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | WORDS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=5),
    max_leaves=20,
)


@given(
    st.fixed_dictionaries(
        {"type": WORDS, "message": st.fixed_dictionaries({"content": VALUES}), "attachment": VALUES},
        optional={
            "toolUseResult": VALUES,
            "origin": VALUES,
            "uuid": VALUES,
            "sessionId": VALUES,
            "isSidechain": VALUES,
        },
    )
)
def test_no_shape_of_a_line_is_an_exception(wire: dict[str, Any]) -> None:
    reader = Reader()
    for one in reader.read_line(1, json.dumps(wire).encode()):
        assert all(isinstance(value, str) for value in (one.id, one.session, one.agent, one.text, one.call, one.tool))
    assert reader.malformed == 0


def test_transcripts_are_looked_for_where_claude_code_writes_them() -> None:
    assert find_transcript_folders({}, "/home/dev") == ["/home/dev/.claude/projects"]
    assert find_transcript_folders({"CLAUDE_CONFIG_DIR": "/home/dev/other"}, "/home/dev") == [
        "/home/dev/other/projects"
    ]
    names = ["s.jsonl", "s/subagents/agent-a1.jsonl", "s/subagents/agent-a1.meta.json", "s/tool-results/x.txt"]
    assert [is_transcript_path(name) for name in names] == [True, True, False, False]


def test_every_real_session_has_the_calls_and_errors_its_index_says() -> None:
    read = 0
    for row, path in list_corpus_files("claude-code"):
        reader = Reader()
        found = steps(read_lines(path), reader)
        calls = sum(one.kind == "call" for one in found)
        failed = sum(one.failed for one in found)
        expected = tuple(int(row[name]) for name in ("bad_lines", "tool_calls", "tool_errors"))
        assert (reader.malformed, calls, failed) == expected, row["file"]
        read += 1
    assert read == 141


# The index counts the lines of a main session that hold text and do not begin with a tag of the program.
OTHERWISE = {
    "a plan the person accepted, sent by the program": -19,
    "a teammate's message": -2,
    "typed ahead, in an attachment": 16,
    "behind what the editor shows": 10,
    "beside a tool result": 2,
    "behind a reminder": 1,
    "a command": 25,
}


def test_what_people_said_in_real_sessions_differs_from_the_index_for_named_reasons() -> None:
    turns = people = 0
    why: Counter[str] = Counter()
    for row, path in list_corpus_files("claude-code"):
        lines = read_lines(path)
        turns += int(row["user_turns"])
        said = Counter(one.line for one in steps(lines) if one.kind == "person")
        people += said.total()
        for number, line in enumerate(lines, 1):
            if said[number]:
                why[reason_more(json.loads(line))] += said[number]
            elif line.startswith(b"{") and (reason := reason_less(json.loads(line))):
                why[reason] -= 1
    assert {reason: count for reason, count in why.items() if reason} == OTHERWISE
    assert people == turns + sum(OTHERWISE.values()) == 520


def reason_more(wire: dict[str, Any]) -> str:
    """Why the index does not count a line in which a person said something; nothing if it does."""
    if wire["type"] == "attachment":
        return "typed ahead, in an attachment"
    if "<command-message>" in json.dumps(wire["message"]["content"])[:60]:
        return "a command"
    content = wire["message"]["content"]
    if isinstance(content, str):
        return "behind a reminder" if content.startswith("<system-reminder>") else ""
    if any(block["type"] == "tool_result" for block in content):
        return "beside a tool result"
    return "behind what the editor shows" if content[0].get("text", "").startswith("<ide_") else ""


def reason_less(wire: dict[str, Any]) -> str:
    if wire.get("planContent"):
        return "a plan the person accepted, sent by the program"
    content = (wire.get("message") or {}).get("content") if wire["type"] == "user" else ""
    return "a teammate's message" if isinstance(content, str) and content.startswith("<teammate-message") else ""


def test_real_sessions_hold_refusals_and_copies() -> None:
    refused: Counter[bool] = Counter()
    places: dict[str, set[str]] = {}
    for row, path in list_corpus_files("claude-code"):
        for one in steps(read_lines(path)):
            places.setdefault(one.id, set()).add(row["file"])
            if one.refused:
                refused[one.refused != " "] += 1
    assert refused == {True: 7, False: 21}
    assert any(len(files) > 1 for files in places.values()), "the same step in a session and in its fork"
