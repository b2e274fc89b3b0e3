"""Codex's rollouts, made up, recorded and real, become the steps that were taken in them."""

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


def steps(lines: list[bytes], reader: Reader | None = None) -> list[Step]:
    return read_steps(reader or Reader(), lines)


def line(kind: str, **payload: object) -> bytes:
    return json.dumps({"timestamp": "2026-11-15T20:00:00Z", "type": kind, "payload": payload}).encode() + b"\n"


def item(kind: str, **payload: object) -> bytes:
    return line("response_item", type=kind, **payload)


def event(kind: str, **payload: object) -> bytes:
    return line("event_msg", type=kind, **payload)


def said(role: str, *texts: str) -> bytes:
    return item("message", role=role, content=[{"type": "input_text", "text": text} for text in texts])


def meta(id: str, source: object = "cli", **more: object) -> bytes:
    return line("session_meta", id=id, cwd="/home/dev/project", source=source, **more)


def asked(name: str, given: object, call: str = "c", **more: object) -> bytes:
    return item("function_call", name=name, arguments=json.dumps(given), call_id=call, **more)


def ended(output: object, call: str = "c") -> bytes:
    return item("function_call_output", call_id=call, output=output)


def outcome(output: object) -> tuple[str, bool, str]:
    (found,) = steps([ended(output)])
    return found.text, found.failed, found.refused


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
    assert outcome(output) == (text, failed, "")


def test_a_call_that_a_hook_denied_did_not_run_whosever_hook_it_was() -> None:
    assert outcome(DENIED) == ("", False, "")
    another = "Command blocked by PreToolUse hook: not on Fridays"
    assert outcome(another) == (another, False, "")
    for output in (DENIED, another):
        (found,) = steps([ended(output)])
        assert found.denied, output
    (ran,) = steps([ended(f"Wall time: 0 seconds\nProcess exited with code 1\nOutput:\n{another}")])
    assert (ran.denied, ran.failed) == (False, True)


def test_what_we_said_beside_a_result_is_not_part_of_it() -> None:
    output = f"Wall time: 0 seconds\nProcess exited with code 1\nOutput:\nno\n{fence_text('use -u')}"
    assert outcome(output) == ("no", True, "")


def test_a_person_who_says_no_is_no_failure() -> None:
    refused = 'exec_command failed for `rm x`: CreateProcess { message: "Rejected(\\"rejected by user\\")" }'
    assert outcome(refused)[1:] == (False, " ")
    assert outcome("aborted by user after 3.2s")[1:] == (False, " ")
    assert outcome('{"agent":"the plan was rejected by user Bob"}')[1:] == (False, "")


def test_a_turn_that_is_broken_off_refuses_what_was_running() -> None:
    found = steps([asked("shell", {"command": "sleep 9"}), event("turn_aborted", reason="interrupted")])
    assert [(step.kind, step.call, step.failed, step.refused) for step in found] == [
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
def test_what_the_program_writes_is_nobodys_words(text: str) -> None:
    assert steps([said("user", text), said("developer", "do as told")]) == []


def test_a_persons_words_are_found_among_what_was_put_around_them() -> None:
    files = "\n# Files mentioned by the user:\n\n## a.png: /home/dev/a.png\n\n## My request for Codex:\nadd it\n"
    assert summarize_steps(steps([said("user", files, "<image name=[Image #1]>", "</image>")])) == [
        ("person", 1, "add it")
    ]


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        (asked("exec_command", {"cmd": "git stash"}), ("Bash", "git stash")),
        (asked("shell_command", {"command": "git stash"}), ("Bash", "git stash")),
        (asked("shell", {"command": ["bash", "-lc", "git stash"]}), ("Bash", "git stash")),
        (asked("shell", {"command": ["git", "commit", "-m", "a b"]}), ("Bash", "git commit -m 'a b'")),
        (
            item("local_shell_call", call_id="c", action={"command": ["/bin/zsh", "-lc", "git stash"]}),
            ("Bash", "git stash"),
        ),
        (
            asked("shell", {"command": ["apply_patch", "*** Begin Patch\n*** Update File: a.py\n+x\n*** End Patch"]}),
            ("Edit", "a.py", "x"),
        ),
        (
            asked("shell", {"command": "apply_patch <<'E'\n*** Begin Patch\n*** Add File: a.py\n+x\n*** End Patch\nE"}),
            ("Write", "a.py", "x"),
        ),
        (
            item(
                "custom_tool_call",
                call_id="c",
                name="apply_patch",
                input="*** Begin Patch\n*** Update File: a.py\n@@\n-x\n+y\n*** Add File: b.py\n+z\n*** End Patch",
            ),
            ("Edit", "a.py", "y\nz"),
        ),
        (
            item(
                "custom_tool_call",
                call_id="c",
                name="exec",
                input='const r = await tools.exec_command({cmd:"git \\"a\\"", workdir:"/x"}); await tools.exec_command({"cmd": `ls`})',
            ),
            ("Bash", 'git "a"\nls'),
        ),
        (
            item(
                "custom_tool_call",
                call_id="c",
                name="exec",
                input='const p = "*** Begin Patch\\n*** Update File: a.py\\n+y\\n*** End Patch"; tools.apply_patch(p)',
            ),
            ("Edit", "a.py", "y"),
        ),
        (asked("view_image", {"path": "a.png"}), ("Read", "a.png")),
        (asked("spawn_agent", {"message": "look"}), ("Task", "look")),
        (asked("search", {"query": "x"}, namespace="mcp__memory"), ("mcp__memory__search", "x\nparameters: query")),
        (asked("mcp__memory__search", {"query": "x"}), ("mcp__memory__search", "x\nparameters: query")),
        (
            asked("_update", {"title": "x"}, namespace="mcp__apps__github"),
            ("mcp__apps__github__update", "x\nparameters: title"),
        ),
        (item("web_search_call", status="completed", action={"type": "search", "query": "x"}), ("WebSearch", "x")),
        (item("function_call", name="shell", arguments="{broken", call_id="c"), ("Bash",)),
    ],
)
def test_a_call_is_named_as_in_claude_code(call: bytes, expected: tuple[str, ...]) -> None:
    assert summarize_steps(steps([call])) == [("call", 1, *expected)]


def test_a_process_that_is_asked_again_keeps_its_command() -> None:
    lines = [
        asked("exec_command", {"cmd": "make test"}, "c1"),
        ended("Wall time: 1 seconds\nProcess running with session ID 7\nOutput:\n", "c1"),
        asked("write_stdin", {"session_id": 7, "chars": ""}, "c2"),
        ended("Wall time: 1 seconds\nProcess exited with code 2\nOutput:\n1 failed", "c2"),
    ]
    assert summarize_steps(steps(lines))[2:] == [
        ("call", 3, "BashOutput", "make test"),
        ("result", 4, "1 failed", True),
    ]


def test_what_is_said_twice_is_counted_once() -> None:
    lines = [
        said("user", "do it"),
        event("user_message", message="do it"),
        event("agent_message", message="done"),
        item("message", role="assistant", content=[{"type": "output_text", "text": "done"}]),
    ]
    assert summarize_steps(steps(lines)) == [("person", 1, "do it"), ("agent", 4, "done")]


def test_a_sub_agent_begins_with_a_copy_of_its_parent() -> None:
    spawned = {"subagent": {"thread_spawn": {"parent_thread_id": OLD}}}
    parents = [meta(OLD), event("task_started", turn_id=f"{OLD}-1"), said("user", "review it")]
    own = [event("task_started", turn_id=NEW), said("user", "you review a.py"), asked("shell", {"command": "ls"})]
    parent, child = steps(parents), steps([meta(OWN, spawned), *parents, *own])
    assert [(step.kind, step.session, step.agent) for step in child] == [("person", OLD, ""), ("call", OLD, OWN)]
    assert child[0].id == parent[0].id


def test_a_person_who_forks_a_session_goes_on_talking() -> None:
    copied = [meta(OLD), event("task_started", turn_id=f"{OLD}-1"), said("user", "first")]
    found = steps([meta(OWN, forked_from_id=OLD), *copied, event("task_started", turn_id=NEW), said("user", "second")])
    assert [(step.text, step.session) for step in found] == [("first", OLD), ("second", OWN)]


def test_the_same_call_id_in_two_turns_is_two_calls() -> None:
    call = asked("shell", {"command": "ls"}, "call_0_0")
    found = steps([event("task_started", turn_id="t1"), call, event("task_started", turn_id="t2"), call])
    assert len({step.id for step in found}) == 2


def test_calls_without_an_id_are_told_apart() -> None:
    search = item("web_search_call", status="completed", action={"type": "search", "query": "x"})
    lines = [event("task_started", turn_id="t1"), search, search, event("task_started", turn_id="t2"), search]
    first, second, other = (step.id for step in steps(lines))
    assert len({first, second, other}) == 3
    assert [step.id for step in steps(lines[:3])] == [first, second]


def test_what_a_broken_off_call_still_says_is_no_second_result() -> None:
    broken = event("turn_aborted", reason="interrupted")
    found = steps([asked("shell", {"command": "sleep 9"}), broken, ended("aborted by user after 3.2s")])
    assert [step.kind for step in found] == ["call", "result"]


def ran(kind: str, id: str = "exec-1", **more: object) -> bytes:
    return event("item_completed", item={"type": kind, "id": id, **more})


def test_code_mode_shows_what_a_script_ran_and_a_script_that_broke() -> None:
    script = item("custom_tool_call", call_id="c", name="exec", input='tools.exec_command({cmd:"git stash"})')
    broke = [{"text": "Script failed\nWall time 0.1 seconds\nOutput:\n"}, {"text": "Script error:\nboom"}]
    held = [{"text": "Script failed\nWall time 0.1 seconds\nOutput:\n"}, {"text": f"Script error:\n{DENIED}"}]
    fine = [{"text": "Script completed\nWall time 0.1 seconds\nOutput:\n"}, {"text": '{"exit_code":1,"output":"no"}'}]
    opening = ran("UserMessage", "u", content=[])
    nested = ran("CommandExecution", command=["/bin/bash", "-lc", "git stash"], exit_code=1, aggregated_output="no\n")
    mcp = ran("McpToolCall", server="m", tool="t", arguments={"q": "x"}, status="failed", error={"message": "gone"})
    declined = ran("FileChange", changes={"/a.py": {"type": "add", "content": "x"}}, status="declined")
    told = [("call", 3, "Bash", "git stash"), ("result", 3, "no", True)]
    assert summarize_steps(steps([opening, script, nested, ended(fine)])) == told
    assert summarize_steps(steps([opening, script, nested, ended(broke)])) == told
    assert summarize_steps(steps([opening, script, ended(broke)])) == [
        ("call", 2, "Bash", "git stash"),
        ("result", 3, "Script error:\nboom", True),
    ]
    assert summarize_steps(steps([opening, script, ended(held)])) == []
    assert summarize_steps(steps([mcp, declined])) == [
        ("call", 1, "mcp__m__t", "x\nparameters: q"),
        ("result", 1, "gone", True),
        ("call", 2, "Write", "/a.py", "x"),
        ("result", 2, " "),
    ]


def test_lines_that_make_no_sense_are_counted_or_passed_over() -> None:
    reader = Reader()
    odd = [
        b"",
        b"\r\n",
        b"{half",
        b'"text"',
        b"[]",
        b'{"type":"response_item","payload":[]}',
        b'{"payload":null}',
        b"[" * 9999,
    ]
    odd += [
        item("message", role="user", content=7),
        item("function_call", name=3),
        ended({"content": 5}),
        line("session_meta", id=4),
    ]
    found = steps([*odd, said("user", "caf\xe9 \ud83d").replace(b"\\u00e9", b"\xe9") + b"\r\n"], reader)
    assert (reader.malformed, found[-1].text) == (2, "caf\ufffd ?")


def test_lines_from_before_the_envelope_are_read() -> None:
    old = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "do it"}]}
    assert summarize_steps(steps([b'{"id":"s","timestamp":"t","instructions":null}', json.dumps(old).encode()])) == [
        ("person", 2, "do it")
    ]


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
def test_what_the_real_program_wrote(name: str, expected: list[tuple[Any, ...]]) -> None:
    found = steps(read_lines(find_recording("codex", name)))
    assert summarize_steps(found) == expected
    assert {step.cwd for step in found} == {"/home/dev/project"}


def test_where_rollouts_are() -> None:
    assert find_transcript_folders({}, "/home/dev") == [
        "/home/dev/.codex/sessions",
        "/home/dev/.codex/archived_sessions",
    ]
    assert find_transcript_folders({"CODEX_HOME": "/c"}, "/home/dev") == ["/c/sessions", "/c/archived_sessions"]
    assert is_transcript_path("/c/sessions/2026/11/15/rollout-2026-11-15T20-00-00-x.jsonl")
    assert not is_transcript_path("/c/history.jsonl")


# INDEX.tsv counts every line the program showed as a user's; these were written by a program.
NOT_A_PERSON = {
    "the guardian's approval requests, told to a sub-agent": 175,
    "orders of a review, told to a sub-agent": 13,
    "orders of a parent, told to a sub-agent": 1,
    "the program's own request for a review, shown twice for each of two": 4,
}
# and takes a zero anywhere in an output for success, and words alone for no failure.
ALSO_FAILED = {
    "`write_stdin failed`, which has no exit code": 4,
    "exited with 1, and found `exited with code 0` in the files it searched": 1,
}


def test_every_real_rollout_is_read_and_the_counts_agree() -> None:
    ours: Counter[str] = Counter()
    theirs: Counter[str] = Counter()
    for row, path in list_corpus_files("codex"):
        reader = Reader()
        found = steps(read_lines(path), reader)
        assert reader.malformed == int(row["bad_lines"]), row["file"]
        assert sum(step.kind == "call" for step in found) == int(row["tool_calls"]), row["file"]
        ours.update(step.kind for step in found)
        ours["failed"] += sum(step.failed for step in found)
        theirs.update({key: int(row[key]) for key in ("tool_calls", "tool_errors", "user_turns")})
    assert ours["call"] == theirs["tool_calls"] == 2011
    assert ours["failed"] == theirs["tool_errors"] + sum(ALSO_FAILED.values())
    assert ours["person"] == theirs["user_turns"] - sum(NOT_A_PERSON.values())
