"""Codex's rollouts (made up, recorded and real) are parsed into steps."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import pytest

from hardwon.agents.codex.transcript import Reader, find_transcript_folders, is_transcript_path
from hardwon.agents.transcript_steps import Step
from hardwon.text.fence import fence_text
from tests.support.transcript_reading import find_recording, list_corpus_files, read_lines, read_steps, summarize_steps

DENIED = (
    f"Command blocked by PreToolUse hook: {fence_text('Held once by hardwon: use git stash -u')}. Command: git stash"
)
OLD, OWN, NEW = "019d7d08-0000-7000-8000-000000000001", "019d7e30-0000-7000-8000-000000000002", "019d7e31-0000-7000"


def parse_steps(lines: list[bytes], reader: Reader | None = None) -> list[Step]:
    return read_steps(reader or Reader(), lines)


def build_line(kind: str, **payload: object) -> bytes:
    return json.dumps({"timestamp": "2026-11-15T20:00:00Z", "type": kind, "payload": payload}).encode() + b"\n"


def build_item(kind: str, **payload: object) -> bytes:
    return build_line("response_item", type=kind, **payload)


def build_event(kind: str, **payload: object) -> bytes:
    return build_line("event_msg", type=kind, **payload)


def build_message(role: str, *texts: str) -> bytes:
    return build_item("message", role=role, content=[{"type": "input_text", "text": text} for text in texts])


def build_session_meta(session: str, source: object = "cli", **fields: object) -> bytes:
    return build_line("session_meta", id=session, cwd="/home/dev/project", source=source, **fields)


def build_call(name: str, arguments: object, call: str = "c", **fields: object) -> bytes:
    return build_item("function_call", name=name, arguments=json.dumps(arguments), call_id=call, **fields)


def build_output(output: object, call: str = "c") -> bytes:
    return build_item("function_call_output", call_id=call, output=output)


def parse_outcome(output: object) -> tuple[str, bool, str]:
    (step,) = parse_steps([build_output(output)])
    return step.text, step.failed, step.refused


@pytest.mark.parametrize(
    ("output", "text", "failed"),
    [
        (
            "Chunk ID: 1\nWall time: 0.0 seconds\nProcess exited with code 0\nOriginal token count: 1\nOutput:\nfine\n",
            "fine",
            False,
        ),
        (
            "Chunk ID: 1\nWall time: 0.0 seconds\nProcess exited with code 3\nOriginal token count: 1\nOutput:\nls: no\n",
            "ls: no",
            True,
        ),
        (
            "Chunk ID: 1\nWall time: 0.0 seconds\nProcess exited with code 1\nOriginal token count: 0\nOutput:\n",
            "Process exited with code 1",
            True,
        ),
        (
            "Command: /bin/zsh -lc 'a\nb'\nChunk ID: 1\nWall time: 0.0 seconds\nProcess exited with code 1\nOutput:\nno",
            "no",
            True,
        ),
        ("Wall time: 1.0 seconds\nProcess running with session ID 7\nOutput:\nfailed to say", "failed to say", False),
        (
            "Wall time: 1 seconds\nProcess exited with code 0\nOutput:\nProcess exited with code 1\nOutput:\nx",
            "Process exited with code 1\nOutput:\nx",
            False,
        ),
        ('{"output":"no such file\\n","metadata":{"exit_code":2,"duration_seconds":0.0}}', "no such file", True),
        ('{"output":"hi\\n","metadata":{"exit_code":0,"duration_seconds":0.0}}', "hi", False),
        ("Exit code: 1\nWall time: 1.1 seconds\nOutput:\nGet-Content: no", "Get-Content: no", True),
        ("Exit code: 0\nWall time: 0 seconds\nOutput:\nhi", "hi", False),
        (
            [{"text": "Script failed\nWall time 0.1 seconds\nOutput:\n"}, {"text": "Script error:\nboom"}],
            "Script error:\nboom",
            True,
        ),
        (
            [{"text": "Script completed\nWall time 0.1 seconds\nOutput:\n"}, {"text": "Error: is what it printed"}],
            "Error: is what it printed",
            False,
        ),
        (
            [{"text": "Script completed\nWall time 0.1 seconds\nOutput:\n"}, {"text": '{"exit_code":1,"output":"no"}'}],
            "no",
            True,
        ),
        ({"content": "it is so", "success": True}, "it is so", False),
        ({"content": "it is not", "success": False}, "it is not", True),
        (
            "apply_patch verification failed: Failed to find expected lines",
            "apply_patch verification failed: Failed to find expected lines",
            True,
        ),
        ("unsupported call: x", "unsupported call: x", True),
        ("Plan updated", "Plan updated", False),
        (None, "", False),
    ],
)
def test_an_exit_status_is_read_in_every_spelling(output: object, text: str, failed: bool) -> None:
    assert parse_outcome(output) == (text, failed, "")


def test_a_call_denied_by_any_hook_did_not_run() -> None:
    assert parse_outcome(DENIED) == ("", False, "")
    other_denial = "Command blocked by PreToolUse hook: not on Fridays"
    assert parse_outcome(other_denial) == (other_denial, False, "")
    for output in (DENIED, other_denial):
        (denied_step,) = parse_steps([build_output(output)])
        assert denied_step.denied, output
    (failed_step,) = parse_steps(
        [build_output(f"Wall time: 0 seconds\nProcess exited with code 1\nOutput:\n{other_denial}")]
    )
    assert (failed_step.denied, failed_step.failed) == (False, True)


def test_our_note_beside_a_result_is_removed() -> None:
    output = f"Wall time: 0 seconds\nProcess exited with code 1\nOutput:\nno\n{fence_text('use -u')}"
    assert parse_outcome(output) == ("no", True, "")


def test_a_persons_refusal_is_no_failure() -> None:
    refusal = 'exec_command failed for `rm x`: CreateProcess { message: "Rejected(\\"rejected by user\\")" }'
    assert parse_outcome(refusal)[1:] == (False, " ")
    assert parse_outcome("aborted by user after 3.2s")[1:] == (False, " ")
    assert parse_outcome('{"agent":"the plan was rejected by user Bob"}')[1:] == (False, "")


def test_an_aborted_turn_refuses_the_running_call() -> None:
    parsed_steps = parse_steps(
        [build_call("shell", {"command": "sleep 9"}), build_event("turn_aborted", reason="interrupted")]
    )
    assert [(step.kind, step.call, step.failed, step.refused) for step in parsed_steps] == [
        ("call", "c", False, ""),
        ("result", "c", False, " "),
    ]


@pytest.mark.parametrize(
    "text",
    [
        "<environment_context>\n  <cwd>/home/dev</cwd>\n</environment_context>",
        "<user_instructions>\nbe good\n</user_instructions>",
        "# AGENTS.md instructions for /home/dev\n\n<INSTRUCTIONS>\nbe good",
        "<permissions instructions>\nall\n</permissions instructions>",
        "<turn_aborted>\nThe user interrupted the previous turn on purpose.",
        "<subagent_notification>\n{}\n</subagent_notification>",
        "<user_action>\n  <context>User initiated a review task.",
        '<hook_prompt hook_run_id="stop:11">go on</hook_prompt>',
        "<recommended_plugins>\nmany",
        "Another language model started to solve this problem and produced a summary",
        fence_text("a lesson"),
    ],
)
def test_text_of_the_program_is_no_step(text: str) -> None:
    assert parse_steps([build_message("user", text), build_message("developer", "do as told")]) == []


def test_a_persons_request_is_found_among_added_context() -> None:
    files = "\n# Files mentioned by the user:\n\n## a.png: /home/dev/a.png\n\n## My request for Codex:\nadd it\n"
    assert summarize_steps(parse_steps([build_message("user", files, "<image name=[Image #1]>", "</image>")])) == [
        ("person", 1, "add it")
    ]


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        (build_call("exec_command", {"cmd": "git stash"}), ("Bash", "git stash")),
        (build_call("shell_command", {"command": "git stash"}), ("Bash", "git stash")),
        (build_call("shell", {"command": ["bash", "-lc", "git stash"]}), ("Bash", "git stash")),
        (build_call("shell", {"command": ["git", "commit", "-m", "a b"]}), ("Bash", "git commit -m 'a b'")),
        (
            build_item("local_shell_call", call_id="c", action={"command": ["/bin/zsh", "-lc", "git stash"]}),
            ("Bash", "git stash"),
        ),
        (
            build_call(
                "shell", {"command": ["apply_patch", "*** Begin Patch\n*** Update File: a.py\n+x\n*** End Patch"]}
            ),
            ("Edit", "a.py", "x"),
        ),
        (
            build_call(
                "shell", {"command": "apply_patch <<'E'\n*** Begin Patch\n*** Add File: a.py\n+x\n*** End Patch\nE"}
            ),
            ("Write", "a.py", "x"),
        ),
        (
            build_item(
                "custom_tool_call",
                call_id="c",
                name="apply_patch",
                input="*** Begin Patch\n*** Update File: a.py\n@@\n-x\n+y\n*** Add File: b.py\n+z\n*** End Patch",
            ),
            ("Edit", "a.py", "y\nz"),
        ),
        (
            build_item(
                "custom_tool_call",
                call_id="c",
                name="exec",
                input='const r = await tools.exec_command({cmd:"git \\"a\\"", workdir:"/x"}); await tools.exec_command({"cmd": `ls`})',
            ),
            ("Bash", 'git "a"\nls'),
        ),
        (
            build_item(
                "custom_tool_call",
                call_id="c",
                name="exec",
                input='const p = "*** Begin Patch\\n*** Update File: a.py\\n+y\\n*** End Patch"; tools.apply_patch(p)',
            ),
            ("Edit", "a.py", "y"),
        ),
        (build_call("view_image", {"path": "a.png"}), ("Read", "a.png")),
        (build_call("spawn_agent", {"message": "look"}), ("Task", "look")),
        (
            build_call("search", {"query": "x"}, namespace="mcp__memory"),
            ("mcp__memory__search", "x\nparameters: query"),
        ),
        (build_call("mcp__memory__search", {"query": "x"}), ("mcp__memory__search", "x\nparameters: query")),
        (
            build_call("_update", {"title": "x"}, namespace="mcp__apps__github"),
            ("mcp__apps__github__update", "x\nparameters: title"),
        ),
        (
            build_item("web_search_call", status="completed", action={"type": "search", "query": "x"}),
            ("WebSearch", "x"),
        ),
        (build_item("function_call", name="shell", arguments="{broken", call_id="c"), ("Bash",)),
    ],
)
def test_a_call_is_named_as_in_claude_code(call: bytes, expected: tuple[str, ...]) -> None:
    assert summarize_steps(parse_steps([call])) == [("call", 1, *expected)]


def test_polling_a_process_keeps_its_command() -> None:
    lines = [
        build_call("exec_command", {"cmd": "make test"}, "c1"),
        build_output("Wall time: 1 seconds\nProcess running with session ID 7\nOutput:\n", "c1"),
        build_call("write_stdin", {"session_id": 7, "chars": ""}, "c2"),
        build_output("Wall time: 1 seconds\nProcess exited with code 2\nOutput:\n1 failed", "c2"),
    ]
    assert summarize_steps(parse_steps(lines))[2:] == [
        ("call", 3, "BashOutput", "make test"),
        ("result", 4, "1 failed", True),
    ]


def test_a_repeated_message_is_one_step() -> None:
    lines = [
        build_message("user", "do it"),
        build_event("user_message", message="do it"),
        build_event("agent_message", message="done"),
        build_item("message", role="assistant", content=[{"type": "output_text", "text": "done"}]),
    ]
    assert summarize_steps(parse_steps(lines)) == [("person", 1, "do it"), ("agent", 4, "done")]


def test_a_sub_agent_begins_with_a_copy_of_its_parent() -> None:
    spawn_source = {"subagent": {"thread_spawn": {"parent_thread_id": OLD}}}
    parent_lines = [
        build_session_meta(OLD),
        build_event("task_started", turn_id=f"{OLD}-1"),
        build_message("user", "review it"),
    ]
    child_lines = [
        build_event("task_started", turn_id=NEW),
        build_message("user", "you review a.py"),
        build_call("shell", {"command": "ls"}),
    ]
    parent, child = (
        parse_steps(parent_lines),
        parse_steps([build_session_meta(OWN, spawn_source), *parent_lines, *child_lines]),
    )
    assert [(step.kind, step.session, step.subagent_id) for step in child] == [("person", OLD, ""), ("call", OLD, OWN)]
    assert child[0].id == parent[0].id


def test_a_forked_session_keeps_its_prompts() -> None:
    copied = [build_session_meta(OLD), build_event("task_started", turn_id=f"{OLD}-1"), build_message("user", "first")]
    parsed_steps = parse_steps(
        [
            build_session_meta(OWN, forked_from_id=OLD),
            *copied,
            build_event("task_started", turn_id=NEW),
            build_message("user", "second"),
        ]
    )
    assert [(step.text, step.session) for step in parsed_steps] == [("first", OLD), ("second", OWN)]


def test_the_same_call_id_in_two_turns_is_two_calls() -> None:
    call = build_call("shell", {"command": "ls"}, "call_0_0")
    parsed_steps = parse_steps(
        [build_event("task_started", turn_id="t1"), call, build_event("task_started", turn_id="t2"), call]
    )
    assert len({step.id for step in parsed_steps}) == 2


def test_calls_without_an_id_have_different_step_ids() -> None:
    search = build_item("web_search_call", status="completed", action={"type": "search", "query": "x"})
    lines = [
        build_event("task_started", turn_id="t1"),
        search,
        search,
        build_event("task_started", turn_id="t2"),
        search,
    ]
    first, second, other = (step.id for step in parse_steps(lines))
    assert len({first, second, other}) == 3
    assert [step.id for step in parse_steps(lines[:3])] == [first, second]


def test_output_after_an_abort_is_no_second_result() -> None:
    abort_line = build_event("turn_aborted", reason="interrupted")
    parsed_steps = parse_steps(
        [build_call("shell", {"command": "sleep 9"}), abort_line, build_output("aborted by user after 3.2s")]
    )
    assert [step.kind for step in parsed_steps] == ["call", "result"]


def build_completed_item(kind: str, item_id: str = "exec-1", **fields: object) -> bytes:
    return build_event("item_completed", item={"type": kind, "id": item_id, **fields})


def test_code_mode_shows_nested_calls_and_failed_scripts() -> None:
    script = build_item("custom_tool_call", call_id="c", name="exec", input='tools.exec_command({cmd:"git stash"})')
    broken_output = [{"text": "Script failed\nWall time 0.1 seconds\nOutput:\n"}, {"text": "Script error:\nboom"}]
    denied_output = [{"text": "Script failed\nWall time 0.1 seconds\nOutput:\n"}, {"text": f"Script error:\n{DENIED}"}]
    finished_output = [
        {"text": "Script completed\nWall time 0.1 seconds\nOutput:\n"},
        {"text": '{"exit_code":1,"output":"no"}'},
    ]
    opening = build_completed_item("UserMessage", "u", content=[])
    nested = build_completed_item(
        "CommandExecution", command=["/bin/bash", "-lc", "git stash"], exit_code=1, aggregated_output="no\n"
    )
    mcp = build_completed_item(
        "McpToolCall", server="m", tool="t", arguments={"q": "x"}, status="failed", error={"message": "gone"}
    )
    declined = build_completed_item("FileChange", changes={"/a.py": {"type": "add", "content": "x"}}, status="declined")
    nested_steps = [("call", 3, "Bash", "git stash"), ("result", 3, "no", True)]
    assert summarize_steps(parse_steps([opening, script, nested, build_output(finished_output)])) == nested_steps
    assert summarize_steps(parse_steps([opening, script, nested, build_output(broken_output)])) == nested_steps
    assert summarize_steps(parse_steps([opening, script, build_output(broken_output)])) == [
        ("call", 2, "Bash", "git stash"),
        ("result", 3, "Script error:\nboom", True),
    ]
    assert summarize_steps(parse_steps([opening, script, build_output(denied_output)])) == []
    assert summarize_steps(parse_steps([mcp, declined])) == [
        ("call", 1, "mcp__m__t", "x\nparameters: q"),
        ("result", 1, "gone", True),
        ("call", 2, "Write", "/a.py", "x"),
        ("result", 2, " "),
    ]


def test_invalid_lines_are_counted_or_ignored() -> None:
    reader = Reader()
    odd_lines = [
        b"",
        b"\r\n",
        b"{half",
        b'"text"',
        b"[]",
        b'{"type":"response_item","payload":[]}',
        b'{"payload":null}',
        b"[" * 9999,
    ]
    odd_lines += [
        build_item("message", role="user", content=7),
        build_item("function_call", name=3),
        build_output({"content": 5}),
        build_line("session_meta", id=4),
    ]
    parsed_steps = parse_steps(
        [*odd_lines, build_message("user", "caf\xe9 \ud83d").replace(b"\\u00e9", b"\xe9") + b"\r\n"], reader
    )
    assert (reader.malformed, parsed_steps[-1].text) == (2, "caf\ufffd ?")


def test_lines_from_before_the_envelope_are_read() -> None:
    old_line = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "do it"}]}
    assert summarize_steps(
        parse_steps([b'{"id":"s","timestamp":"t","instructions":null}', json.dumps(old_line).encode()])
    ) == [("person", 2, "do it")]


NOPE = "ls: cannot access '/nope': No such file or directory"
WRITTEN = {
    "gpt-6.1-sol-code-mode.jsonl": [
        ("person", 13, "Do things"),
        ("call", 19, "Bash", "cat notes.txt"),
        ("result", 19, "hello from notes"),
        ("call", 20, "Bash", "ls /nope; exit 3"),
        ("result", 20, NOPE, True),
        ("call", 31, "Edit", "/home/dev/project/notes.txt", "patched in code mode"),
        ("result", 31, "Success. Updated the following files:\nM notes.txt"),
        ("agent", 35, "All done."),
    ],
    "v0.125.0-legacy-format.jsonl": [
        ("person", 7, "Do things"),
        ("call", 11, "Bash", "cat notes.txt"),
        ("result", 13, "hello from notes"),
        ("call", 15, "Bash", "rm -rf build"),
        ("result", 17),
        ("call", 19, "Bash", "ls /nope; exit 3"),
        ("result", 22, NOPE, True),
        ("call", 24, "Write", "new.txt", "hi there"),
        ("result", 26, "Success. Updated the following files:\nA new.txt"),
        ("call", 28, "Bash", "echo via-shell-command"),
        ("result", 30, "via-shell-command"),
        ("call", 32, "Bash", "echo via-shell-array"),
        ("result", 34, "via-shell-array"),
        ("agent", 37, "All done."),
    ],
    "compaction.jsonl": [
        ("person", 8, "compact me"),
        ("call", 10, "Bash", "echo one"),
        ("result", 13, "one"),
        ("compacted", 19),
        ("call", 25, "Bash", "echo two"),
        ("result", 28, "two"),
        ("compacted", 34),
        ("agent", 41, "fin"),
    ],
    "mcp-tool.jsonl": [
        ("person", 8, "use mcp"),
        ("call", 10, "mcp__memory__search_lessons", "pytest\nparameters: query"),
        ("result", 13, 'LESSON-FROM-MCP for {"query": "pytest"}'),
        ("call", 15, "mcp__memory__search_lessons", "pytest2\nparameters: query"),
        ("result", 17, "unsupported call: mcp__memory__search_lessons", True),
        ("agent", 20, "All done."),
    ],
}


@pytest.mark.parametrize(("name", "expected"), WRITTEN.items())
def test_recorded_rollouts_become_the_expected_steps(name: str, expected: list[tuple[Any, ...]]) -> None:
    parsed_steps = parse_steps(read_lines(find_recording("codex", name)))
    assert summarize_steps(parsed_steps) == expected
    assert {step.cwd for step in parsed_steps} == {"/home/dev/project"}


def test_where_rollouts_are() -> None:
    assert find_transcript_folders({}, "/home/dev") == [
        "/home/dev/.codex/sessions",
        "/home/dev/.codex/archived_sessions",
    ]
    assert find_transcript_folders({"CODEX_HOME": "/c"}, "/home/dev") == ["/c/sessions", "/c/archived_sessions"]
    assert is_transcript_path("/c/sessions/2026/11/15/rollout-2026-11-15T20-00-00-x.jsonl")
    assert not is_transcript_path("/c/history.jsonl")


# INDEX.tsv counts every line shown as a user's; these were written by a program.
NOT_A_PERSON = {
    "the guardian's approval requests, told to a sub-agent": 175,
    "orders of a review, told to a sub-agent": 13,
    "orders of a parent, told to a sub-agent": 1,
    "the program's own request for a review, shown twice for each of two": 4,
}
# INDEX.tsv also takes a zero anywhere in an output for success, and an output without an exit code too.
ALSO_FAILED = {
    "`write_stdin failed`, which has no exit code": 4,
    "exited with 1, and found `exited with code 0` in the files it searched": 1,
}


def test_every_real_rollout_is_read_and_the_counts_agree() -> None:
    parsed_counts: Counter[str] = Counter()
    index_counts: Counter[str] = Counter()
    for row, path in list_corpus_files("codex"):
        reader = Reader()
        parsed_steps = parse_steps(read_lines(path), reader)
        assert reader.malformed == int(row["bad_lines"]), row["file"]
        assert sum(step.kind == "call" for step in parsed_steps) == int(row["tool_calls"]), row["file"]
        parsed_counts.update(step.kind for step in parsed_steps)
        parsed_counts["failed"] += sum(step.failed for step in parsed_steps)
        index_counts.update({key: int(row[key]) for key in ("tool_calls", "tool_errors", "user_turns")})
    assert parsed_counts["call"] == index_counts["tool_calls"] == 2011
    assert parsed_counts["failed"] == index_counts["tool_errors"] + sum(ALSO_FAILED.values())
    assert parsed_counts["person"] == index_counts["user_turns"] - sum(NOT_A_PERSON.values())
