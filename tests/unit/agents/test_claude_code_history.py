"""Claude Code's transcripts (made up, recorded and real) are parsed into steps."""

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
REJECTION = (
    "The user doesn't want to proceed with this tool use. The tool use was rejected (eg. if it was a file edit, the "
    "new_string was NOT written to the file). "
)
STOP = "STOP what you are doing and wait for the user to tell you how to proceed."
HANDOFF = "<command-message>handoff</command-message>\n<command-name>/handoff</command-name>"
OUR_DENIAL = fence_text("use git stash -u")


def parse_steps(lines: list[bytes], reader: Reader | None = None) -> list[Step]:
    return read_steps(reader or Reader(), lines)


def parse_step(wire: object) -> Step | None:
    """Parse the only step of a line, or None."""
    parsed_steps = parse_steps([json.dumps(wire).encode()])
    assert len(parsed_steps) < 2
    return parsed_steps[0] if parsed_steps else None


def build_user_line(content: object, **fields: object) -> dict[str, Any]:
    return {"type": "user", "message": {"role": "user", "content": content}, "uuid": "u", "version": "2.1.49", **fields}


def build_assistant_line(*blocks: object, model: str = "claude", **fields: object) -> dict[str, Any]:
    return {"type": "assistant", "message": {"model": model, "content": list(blocks)}, "uuid": "a", **fields}


def build_text_block(words: str) -> dict[str, str]:
    return {"type": "text", "text": words}


def build_queued_prompt(prompt: object, **fields: object) -> dict[str, Any]:
    return {"type": "attachment", "uuid": "q", "attachment": {"type": "queued_command", "prompt": prompt, **fields}}


def parse_result(content: object, is_error: bool | None = None, **fields: object) -> Step:
    block = {"type": "tool_result", "tool_use_id": "t", "content": content}
    result_step = parse_step(
        build_user_line([block if is_error is None else {**block, "is_error": is_error}], **fields)
    )
    assert result_step is not None
    return result_step


def test_a_session_becomes_the_steps_taken_in_it() -> None:
    reader = Reader()
    step_rows = [
        (
            step.line,
            step.kind,
            step.subagent_id,
            step.tool,
            step.command or step.path or step.text,
            step.failed,
            step.refused,
        )
        for step in parse_steps(read_lines(find_recording("claude-code", "made-up.jsonl")), reader)
    ]
    refusal = f"{REJECTION}To tell you how to proceed, the user said:\nnever push from here{NOTE.partition(' —')[0]}."
    assert step_rows == [
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


def test_a_step_has_its_session_and_folder_and_joins_its_result() -> None:
    parsed_steps = parse_steps(read_lines(find_recording("claude-code", "made-up.jsonl")))
    assert parsed_steps[2] == Step(
        "call", 5, "u-04.0", "2026-03-01T10:00:04.000Z", "s-1", "", "/home/dev/shop", "t-1", "Bash", "npm test"
    )
    assert (parsed_steps[3].id, parsed_steps[3].call) == ("u-06.0", "t-1")
    assert [step.id for step in parsed_steps[4:6]] == ["u-07.0", "u-07.1"]
    assert parsed_steps[4].content == "find out how the database starts"
    assert (parsed_steps[-1].session, parsed_steps[-1].cwd) == ("s-1", "/home/dev/shop/api"), (
        "carried over from the line before"
    )


def test_a_copy_of_a_line_has_the_same_id() -> None:
    for wire in (build_user_line("yes", sessionId="one"), {"type": "user", "message": {"content": "no uuid"}}):
        line = json.dumps(wire).encode()
        first, copy = parse_steps([line]), parse_steps([b"\n", line + b"\r\n"])
        assert first[0].id == copy[0].id != ""
    assert len({parse_step(build_user_line(words, uuid=None)) for words in ("one", "two")}) == 2


@pytest.mark.parametrize("version", ["2.1.197", "2.1.325"])
def test_of_the_recorded_lines_only_a_few_are_steps(version: str) -> None:
    parsed_steps = parse_steps(read_lines(find_recording("claude-code", f"recorded-{version}.jsonl")))
    assert sorted(step.kind for step in parsed_steps) == ["compacted", "person", "result"]
    assert {step.kind: step.text for step in parsed_steps} == {
        "compacted": "",
        "person": "do it",
        "result": "out-original",
    }


@pytest.mark.parametrize(
    "wire, typed",
    [
        (build_user_line("use uv"), "use uv"),
        (build_user_line([build_text_block("use uv"), {"type": "image"}]), "use uv"),
        (
            build_user_line(
                [
                    build_text_block("<ide_opened_file>The user opened a.py</ide_opened_file>"),
                    build_text_block("fix it"),
                ]
            ),
            "fix it",
        ),
        (build_user_line("<system-reminder>be brief</system-reminder>\nuse uv <system-reminder>x"), "use uv"),
        (build_user_line(f"use uv\n{OUR_DENIAL}"), "use uv"),
        (build_user_line("<div> does not render"), "<div> does not render"),
        (build_user_line("[test] failed, why?"), "[test] failed, why?"),
        (build_user_line("use uv", origin={"kind": "human"}, promptSource="typed"), "use uv"),
        (build_queued_prompt("use uv"), "use uv"),
        (build_queued_prompt([build_text_block("use uv"), {"type": "image"}], commandMode="prompt"), "use uv"),
        (build_user_line([{"type": "tool_result", "tool_use_id": "t"}, build_text_block("go on")]), "go on"),
        (build_user_line(f"{HANDOFF}\n<command-args>mind the\ndock</command-args>"), "/handoff mind the\ndock"),
        (build_user_line([build_text_block(HANDOFF), build_text_block("Write down what was done")]), "/handoff"),
    ],
)
def test_typed_text_is_a_persons_step(wire: dict[str, Any], typed: str) -> None:
    parsed_steps = parse_steps([json.dumps(wire).encode()])
    assert [step.text for step in parsed_steps if step.kind == "person"] == [typed]


@pytest.mark.parametrize(
    "wire",
    [
        build_user_line("a skill's body", isMeta=True),
        build_user_line("a summary", isCompactSummary=True, isVisibleInTranscriptOnly=True),
        build_user_line("This session is being continued from a previous conversation that ran out of context."),
        build_user_line("a sub-agent's task", isSidechain=True),
        build_user_line("finished", origin={"kind": "task-notification"}),
        build_user_line("<command-name>/clear</command-name>"),
        build_user_line(
            "<command-name>/plan</command-name>\n<command-message>plan</command-message><command-args>it</command-args>"
        ),
        build_user_line(HANDOFF, sourceToolUseID="toolu_1"),
        build_user_line(
            [
                build_text_block("<command-message>init is analyzing…</command-message>"),
                build_text_block("Please analyze this codebase"),
            ]
        ),
        build_user_line("<local-command-stdout></local-command-stdout>"),
        build_user_line("<local-command-caveat>Caveat: …</local-command-caveat>"),
        build_user_line("<task-notification>\n<task-id>b1</task-id>"),
        build_user_line('<teammate-message teammate_id="alice">done</teammate-message>'),
        build_user_line("<bash-input>ls</bash-input>"),
        build_user_line("<ide_opened_file>The user opened a.py</ide_opened_file>"),
        build_user_line("Caveat: The messages below were generated by the user while running local commands."),
        build_user_line([build_text_block("[Request interrupted by user]")]),
        build_user_line([build_text_block("[Request interrupted by user for tool use]")]),
        build_user_line("<system-reminder>\nA task was started</system-reminder>"),
        build_user_line(OUR_DENIAL),
        build_queued_prompt("<task-notification>\n<task-id>b1</task-id>"),
        build_queued_prompt("a background task ended", commandMode="task-notification"),
        build_queued_prompt("a peer says", origin={"kind": "peer"}),
        {"type": "queue-operation", "operation": "enqueue", "content": "use uv"},
        {"type": "last-prompt", "lastPrompt": "use uv"},
        {"type": "summary", "summary": "use uv"},
        {"type": "attachment", "attachment": {"type": "hook_additional_context", "content": ["use uv"]}},
        {"type": "progress", "data": {"type": "agent_progress", "message": build_user_line("use uv")}},
    ],
)
def test_text_of_the_program_is_no_persons_step(wire: dict[str, Any]) -> None:
    assert parse_step(wire) is None


def test_an_accepted_plan_is_what_the_agent_said() -> None:
    step = parse_step(build_user_line("Implement the following plan:\n\n# Plan", planContent="# Plan"))
    assert step is not None and (step.kind, step.text) == ("agent", "# Plan")


@pytest.mark.parametrize(
    "wire, expected_text",
    [
        (build_assistant_line(build_text_block("done")), "done"),
        (build_assistant_line({"type": "thinking", "thinking": "hm"}, build_text_block("done")), "done"),
        (build_assistant_line(build_text_block(f"done\n{OUR_DENIAL}")), "done"),
        (build_assistant_line({"type": "thinking", "thinking": "hm"}), None),
        (build_assistant_line(build_text_block("\n\n")), None),
        (build_assistant_line(build_text_block("API Error: 400"), model="<synthetic>"), None),
        (build_assistant_line(build_text_block("API Error: 400"), isApiErrorMessage=True), None),
    ],
)
def test_only_text_the_model_wrote_is_an_agents_step(wire: dict[str, Any], expected_text: str | None) -> None:
    step = parse_step(wire)
    assert (step and (step.kind, step.text)) == (expected_text and ("agent", expected_text))


@pytest.mark.parametrize(
    "tool, tool_input, canonical",
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
def test_a_call_has_the_fields_a_hook_would_see(tool: str, tool_input: object, canonical: tuple[str, ...]) -> None:
    call_step = parse_step(build_assistant_line({"type": "tool_use", "id": "t", "name": tool, "input": tool_input}))
    assert call_step is not None
    assert (call_step.call, call_step.tool, call_step.command, call_step.path, call_step.content) == ("t", *canonical)


@pytest.mark.parametrize(
    "content, detail, expected_text",
    [
        ("out", {"stdout": "out"}, "out"),
        ([build_text_block("one"), {"type": "image"}, build_text_block("two")], None, "one\ntwo"),
        ([{"type": "tool_reference", "tool_name": "x"}], None, ""),
        (None, {"stdout": "out", "stderr": "err"}, "out\nerr"),
        (None, "Error: gone", "Error: gone"),
        (None, ["x"], ""),
        ("<persisted-output>\nOutput too large", None, "<persisted-output>\nOutput too large"),
        (f"out\n{OUR_DENIAL}", None, "out\n"),
    ],
)
def test_the_text_of_a_result_is_found_in_every_shape(content: object, detail: object, expected_text: str) -> None:
    assert parse_result(content, toolUseResult=detail).text == expected_text


@pytest.mark.parametrize(
    "content, is_error, detail, failed",
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
        (f"Exit code 1\n{OUR_DENIAL}\nfatal: no", True, None, True),
        (OUR_DENIAL, True, f"Error: {OUR_DENIAL}", False),
        (f"PreToolUse:Bash hook error: {OUR_DENIAL}", True, None, False),
        ("PreToolUse:Bash hook error: somebody else's", True, None, False),
    ],
)
def test_a_result_failed_if_it_says_so_and_no_hook_denied_the_call(
    content: str, is_error: bool | None, detail: object, failed: bool
) -> None:
    result_step = parse_result(content, is_error, toolUseResult=detail)
    assert result_step.failed is failed
    assert "git stash" not in result_step.text


@pytest.mark.parametrize(
    "content, error, denied",
    [
        (OUR_DENIAL, True, True),
        (f"PreToolUse:Bash hook error: {OUR_DENIAL}", True, True),
        ("PreToolUse:mcp__files__write_file hook error: [guard.sh]: not on Fridays", True, True),
        ("PreToolUse:Bash hook error: not on Fridays", None, False),
        ("Exit code 1\nPreToolUse:Bash hook error: printed by a program", True, False),
        (f"Exit code 1\n{OUR_DENIAL}\nfatal: no", True, False),
        ("all fine", None, False),
    ],
)
def test_a_denied_call_is_distinguished_from_one_that_ran(content: str, error: bool | None, denied: bool) -> None:
    assert parse_result(content, error).denied is denied


@pytest.mark.parametrize(
    "content, version, words",
    [
        (REJECTION + STOP, "2.1.49", " "),
        (REJECTION + STOP + NOTE, "2.1.114", " "),
        (f"{REJECTION}The user provided the following reason for the rejection: use uv", "1.0.80", "use uv"),
        (f"{REJECTION}To tell you how to proceed, the user said:\nuse uv,\nnot pip", "2.0.76", "use uv,\nnot pip"),
        (f"{REJECTION}To tell you how to proceed, the user said:\nuse uv{NOTE}", "2.1.114", "use uv"),
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
def test_a_refusal_has_only_the_persons_words(content: str, version: str, words: str) -> None:
    result_step = parse_result(content, True, version=version)
    assert (result_step.refused, result_step.failed) == (words, True)


def test_a_sub_agents_lines_carry_its_name() -> None:
    line_with_agent = build_user_line([{"type": "tool_result", "content": "x"}], isSidechain=True, agentId="a17")
    assert parse_steps([json.dumps(line_with_agent).encode()])[0].subagent_id == "a17"
    line_without_agent = build_assistant_line(build_text_block("x"), isSidechain=True)
    assert parse_steps([json.dumps(line_without_agent).encode()])[0].subagent_id == "sidechain"


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
    parsed_steps = list(
        reader.read_line(1, b'\xef\xbb\xbf{"type":"user","message":{"content":"' + content + b'"}}\r\n')
    )
    assert parsed_steps[0].text[:3] == "caf"
    assert parsed_steps[0].text.encode()
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
def test_no_line_raises_an_exception(wire: dict[str, Any]) -> None:
    reader = Reader()
    for step in reader.read_line(1, json.dumps(wire).encode()):
        assert all(
            isinstance(value, str)
            for value in (step.id, step.session, step.subagent_id, step.text, step.call, step.tool)
        )
    assert reader.malformed == 0


def test_transcripts_are_looked_for_where_claude_code_writes_them() -> None:
    assert find_transcript_folders({}, "/home/dev") == ["/home/dev/.claude/projects"]
    assert find_transcript_folders({"CLAUDE_CONFIG_DIR": "/home/dev/other"}, "/home/dev") == [
        "/home/dev/other/projects"
    ]
    names = ["s.jsonl", "s/subagents/agent-a1.jsonl", "s/subagents/agent-a1.meta.json", "s/tool-results/x.txt"]
    assert [is_transcript_path(name) for name in names] == [True, True, False, False]


def test_every_real_session_has_the_calls_and_errors_its_index_says() -> None:
    file_count = 0
    for row, path in list_corpus_files("claude-code"):
        reader = Reader()
        parsed_steps = parse_steps(read_lines(path), reader)
        calls = sum(step.kind == "call" for step in parsed_steps)
        failures = sum(step.failed for step in parsed_steps)
        expected = tuple(int(row[name]) for name in ("bad_lines", "tool_calls", "tool_errors"))
        assert (reader.malformed, calls, failures) == expected, row["file"]
        file_count += 1
    assert file_count == 141


# The index counts the lines of a main session that hold text and do not begin with a tag of the program.
INDEX_DIFFERENCES = {
    "a plan the person accepted, sent by the program": -19,
    "a teammate's message": -2,
    "typed ahead, in an attachment": 16,
    "behind what the editor shows": 10,
    "beside a tool result": 2,
    "behind a reminder": 1,
    "a command": 25,
}


def test_prompts_of_real_sessions_differ_from_the_index_for_known_reasons() -> None:
    turns = prompts = 0
    reasons: Counter[str] = Counter()
    for row, path in list_corpus_files("claude-code"):
        lines = read_lines(path)
        turns += int(row["user_turns"])
        prompt_counts = Counter(step.line for step in parse_steps(lines) if step.kind == "person")
        prompts += prompt_counts.total()
        for number, line in enumerate(lines, 1):
            if prompt_counts[number]:
                reasons[explain_extra_prompt(json.loads(line))] += prompt_counts[number]
            elif line.startswith(b"{") and (reason := explain_missing_prompt(json.loads(line))):
                reasons[reason] -= 1
    assert {reason: count for reason, count in reasons.items() if reason} == INDEX_DIFFERENCES
    assert prompts == turns + sum(INDEX_DIFFERENCES.values()) == 520


def explain_extra_prompt(wire: dict[str, Any]) -> str:
    """Return why the index does not count a line with a person's prompt, or "" if it does."""
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


def explain_missing_prompt(wire: dict[str, Any]) -> str:
    if wire.get("planContent"):
        return "a plan the person accepted, sent by the program"
    content = (wire.get("message") or {}).get("content") if wire["type"] == "user" else ""
    return "a teammate's message" if isinstance(content, str) and content.startswith("<teammate-message") else ""


def test_real_sessions_hold_refusals_and_copies() -> None:
    refused: Counter[bool] = Counter()
    files_by_step: dict[str, set[str]] = {}
    for row, path in list_corpus_files("claude-code"):
        for step in parse_steps(read_lines(path)):
            files_by_step.setdefault(step.id, set()).add(row["file"])
            if step.refused:
                refused[step.refused != " "] += 1
    assert refused == {True: 7, False: 21}
    assert any(len(files) > 1 for files in files_by_step.values()), "the same step in a session and in its fork"
