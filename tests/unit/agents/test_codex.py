"""Codex's payloads become events in the words all hosts share, and replies take exactly the form it accepts."""

from __future__ import annotations

import json
import os
import shutil
from random import Random
from typing import Any

import pytest

from hardwon.agents import load_agent
from hardwon.agents.codex import EVENT_TIMEOUTS, parse_payload, render_reply
from hardwon.privacy import event_filter
from hardwon.types import Event, HookReply
from tests.support.transcript_reading import TESTS, distort_json, find_recording

RECORDED = os.path.join(TESTS, "payloads", "codex")
BESIDE = os.path.join(TESTS, "..", "..", "shared", "payloads", "codex")
AGENT = "01a1e0e2-dbcf-7e61-a15d-3c699ebd3b61"
DIRECT, LEGACY = "gpt-5.5-direct-tools.jsonl", "v0.125.0-legacy-format.jsonl"

CAT = {"tool": "Bash", "command": "cat notes.txt", "input": {"command": "cat notes.txt"}}
IN_SUB = {
    "agent": AGENT,
    "tool": "Bash",
    "command": "echo in-sub",
    "input": {"command": "echo in-sub"},
    "message": "default",
}
ONE = {
    "tool": "Write",
    "path": "new.txt",
    "content": "hi there",
    "input": {"file_path": "new.txt", "content": "hi there"},
}
BOTH = "hi there\nhello from patched notes"
TWO = {"tool": "Write", "path": "new.txt", "content": BOTH, "input": {"file_path": "new.txt", "content": BOTH}}
SEARCH = {"tool": "mcp__memory__search_lessons", "content": "pytest\nparameters: query", "input": {"query": "pytest"}}
FOUND = {"content": [{"type": "text", "text": 'LESSON-FROM-MCP for {"query": "pytest"}'}]}
SPAWN = {"tool": "Task", "content": "SUBTASK-ONLY please", "input": {"prompt": "SUBTASK-ONLY please"}}
SPAWNED = '{"agent_id":"01a1e0e2-dbcf-7e61-a15d-3c699ebd3b61","nickname":"Linnaeus"}'
IMAGE = "/home/dev/project/none.png"
WRITTEN = "Success. Updated the following files:\nA new.txt\n"

# What each payload says besides its kind, which is the first part of its name; None if it is of no interest.
OLD: dict[str, dict[str, Any] | None] = {
    "PostToolUse-Bash": {**CAT, "response": "hello from notes\n"},
    "PostToolUse-apply_patch": {**ONE, "response": WRITTEN},
    "PreToolUse-Bash": CAT,
    "PreToolUse-apply_patch": ONE,
    "SessionStart-startup": {"source": "startup"},
    "Stop": {"message": "All done."},
    "UserPromptSubmit": {"prompt": "Do things"},
}
NEW: dict[str, dict[str, Any] | None] = {
    **OLD,
    "PostCompact": None,
    "PostModelRequest": None,
    "PostToolUse-Bash-2": {**IN_SUB, "response": "in-sub\n"},
    "PostToolUse-apply_patch": {**TWO, "response": WRITTEN + "M notes.txt\n"},
    "PostToolUse-mcp__memory__search_lessons": {**SEARCH, "response": FOUND},
    "PostToolUse-spawn_agent": {**SPAWN, "response": SPAWNED},
    "PreCompact": {"message": "auto"},
    "PreModelRequest": None,
    "PreToolUse-Bash-2": IN_SUB,
    "PreToolUse-apply_patch": TWO,
    "PreToolUse-mcp__memory__search_lessons": SEARCH,
    "PreToolUse-multi_agent_v1wait_agent": {"tool": "wait_agent", "input": {"targets": ["x"], "timeout_ms": 10000}},
    "PreToolUse-spawn_agent": SPAWN,
    "PreToolUse-view_image": {"tool": "Read", "path": IMAGE, "input": {"file_path": IMAGE}},
    "SessionEnd": {"message": "other"},
    "SessionStart-compact": {"source": "compact"},
    "SessionStart-resume": {"source": "resume"},
    "SubagentStart": {"agent": AGENT, "message": "default"},
    "SubagentStop": {"agent": AGENT, "message": "sub done"},
    "UserPromptSubmit": {"prompt": "Look at notes.txt"},
    "UserPromptSubmit-2": None,
}
EXPECTED = {"0.125.0": OLD, "0.130.0": OLD, "0.135.0": OLD, "0.166.0": NEW}


def payload(version: str, name: str) -> dict[str, Any]:
    with open(os.path.join(RECORDED, version, f"{name}.json"), encoding="utf-8") as file:
        found: dict[str, Any] = json.load(file)
    return found


def event(wire: object) -> Event | None:
    return parse_payload("PreToolUse", json.dumps(wire).encode())


def happened(wire: object) -> Event:
    found = event(wire)
    assert found is not None
    return found


def told(found: Event | None) -> dict[str, Any] | None:
    """What an event says, without its kind and what every payload has."""
    left_out = {"host", "kind", "session", "cwd", "transcript", "tool_use_id", "parts"}
    if found is None:
        return None
    return {key: value for key, value in vars(found).items() if value and key not in left_out}


def patch(*lines: str) -> dict[str, Any]:
    given = "\n".join(["*** Begin Patch", *lines, "*** End Patch"])
    return {**payload("0.166.0", "PreToolUse-apply_patch"), "tool_input": {"command": given}}


def changes(wire: object) -> list[tuple[str, str, str]]:
    return [(part.tool, part.path, part.content) for part in happened(wire).parts]


def ended(rollout: str, call: str, response: object = "", **more: object) -> dict[str, Any]:
    wire = {**payload("0.166.0", "PostToolUse-Bash"), "transcript_path": rollout}
    return {**wire, "tool_use_id": call, "tool_response": response, **more}


@pytest.mark.parametrize("version", EXPECTED)
def test_what_the_real_program_sent_is_told_in_the_words_all_hosts_share(version: str) -> None:
    for name, expected in EXPECTED[version].items():
        wire = payload(version, name)
        found = event(wire)
        assert told(found) == expected, name
        if found:
            assert (found.kind, found.session) == (name.partition("-")[0], wire["session_id"]), name
            assert (found.cwd, found.tool_use_id) == ("/home/dev/project", wire.get("tool_use_id", "")), name


def test_every_payload_that_was_recorded_is_in_the_table() -> None:
    there = {version: {name[:-5] for name in os.listdir(os.path.join(RECORDED, version))} for version in EXPECTED}
    assert there == {version: set(table) for version, table in EXPECTED.items()}


def test_what_was_recorded_since_is_read_too() -> None:
    if not os.path.isdir(BESIDE):
        pytest.skip("the recorded payloads are not beside this checkout (../shared/payloads)")
    for folder, _, names in os.walk(BESIDE):
        for name in names:
            with open(os.path.join(folder, name), "rb") as file:
                found = parse_payload("PreToolUse", file.read())
            known = EXPECTED.get(os.path.basename(folder), {})
            assert name[:-5] not in known or told(found) == known[name[:-5]], os.path.join(folder, name)


def test_a_patch_is_one_call_with_a_part_for_each_file() -> None:
    wire = patch(
        "*** Add File: a.py",
        "+one",
        "+two",
        "*** Update File: b.py",
        "@@",
        " as it was",
        "-old",
        "+new",
        "*** Delete File: c.py",
        "*** Update File: d.py",
        "*** Move to: e.py",
        "@@",
        "+moved",
        "*** End of File",
    )
    assert changes(wire) == [
        ("Write", "a.py", "one\ntwo"),
        ("Edit", "b.py", "new"),
        ("Edit", "c.py", ""),
        ("Edit", "d.py", "moved"),
        ("Write", "e.py", "moved"),
    ]
    found = happened(wire)
    assert found.parts[1].input == {"file_path": "b.py", "old_string": "old", "new_string": "new"}
    assert {(part.session, part.cwd, part.tool_use_id, part.kind) for part in found.parts} == {
        (found.session, found.cwd, found.tool_use_id, found.kind)
    }


def test_a_patch_that_is_sloppy_where_codex_is_not_strict_hides_nothing() -> None:
    wire = patch("  *** Update File: a.py  \r", "@@\r", "+x\u2028y\r", "", "*** Update File:b.py")
    assert changes(wire) == [("Edit", "a.py", "x\u2028y")]
    assert changes({**wire, "tool_input": {"command": "nothing at all"}}) == []


def test_a_patch_that_touches_a_private_file_among_others_is_not_kept() -> None:
    wire = {
        **patch("*** Add File: a.py", "+x", "*** Update File: keys/own.pem", "@@", "+y"),
        "hook_event_name": "PostToolUse",
    }
    assert event_filter.filter_transcript_event(happened(wire), {"denyPaths": ["*.pem"]}) is None
    assert event_filter.filter_transcript_event(happened(wire), {"denyPaths": ["*.key"]}) is not None


def test_a_patch_on_a_shells_line_is_looked_at_as_both() -> None:
    line = "apply_patch <<'E'\n*** Begin Patch\n*** Add File: a.py\n+x\n*** End Patch\nE\ngit stash"
    wire = {**payload("0.166.0", "PreToolUse-Bash"), "tool_input": {"command": line}}
    found = happened(wire)
    assert (found.tool, found.command) == ("Bash", line)
    assert [(part.tool, part.command, part.path) for part in found.parts] == [("Bash", line, ""), ("Write", "", "a.py")]


@pytest.mark.parametrize(
    ("start", "path"),
    [
        ("applypatch <<E", "a.py"),
        ("cd src && apply_patch <<'E'", "src/a.py"),
        ("  cd 'my src/'&&applypatch <<E", "my src/a.py"),
        ("cd src && cd my\\ lib && apply_patch <<E", "src/my lib/a.py"),
        ("cd /srv && apply_patch <<E", "/srv/a.py"),
        ("make && apply_patch <<E", None),
        ("cat <<E", None),
    ],
)
def test_a_patch_after_a_change_of_folder_is_seen_where_it_is_made(start: str, path: str | None) -> None:
    lines = "*** Begin Patch\n*** Update File: a.py\n*** Move to: /b.py\n@@\n+x && y\n*** End Patch\nE"
    wire = {**payload("0.166.0", "PreToolUse-Bash"), "tool_input": {"command": f"{start}\n{lines}"}}
    found = [(part.path, part.content) for part in happened(wire).parts[1:]]
    assert found == ([] if path is None else [(path, "x && y"), ("/b.py", "x && y")])
    words = {**wire, "tool_input": {"command": ["bash", "-lc", f"{start}\n{lines}"]}}
    assert [part.path for part in happened(words).parts[1:]] == [one for one, _ in found]


def test_a_command_given_as_words_is_the_line_a_shell_would_see() -> None:
    wire = payload("0.166.0", "PreToolUse-Bash")
    for given, line in [
        (["bash", "-lc", "git stash"], "git stash"),
        (["git", "commit", "-m", "a b"], "git commit -m 'a b'"),
    ]:
        assert happened({**wire, "tool_input": {"command": given}}).command == line


def test_what_a_sub_agent_is_told_is_no_persons_word() -> None:
    typed = payload("0.166.0", "UserPromptSubmit")
    assert happened(typed).prompt == "Look at notes.txt"
    assert event({**typed, "agent_id": AGENT, "prompt": "hardwon accept 1"}) is None


def test_a_sub_agents_own_rollout_is_not_taken_for_the_sessions() -> None:
    assert happened(payload("0.166.0", "PreToolUse-Bash-2")).transcript == ""
    assert happened(payload("0.166.0", "SubagentStart")).transcript == ""
    stop = payload("0.166.0", "SubagentStop")
    assert happened(stop).transcript == stop["transcript_path"] != stop["agent_transcript_path"]


def test_a_failed_command_is_known_by_the_end_of_the_rollout() -> None:
    rollout, said = find_recording("codex", DIRECT), "ls: cannot access '/nonexistent-dir': No such file or directory\n"
    found = happened(ended(rollout, "call_1_0", said))
    assert (found.kind, found.failed, found.response) == ("PostToolUseFailure", True, said)
    fine = happened(ended(rollout, "call_0_1", "hello from notes\n"))
    assert (fine.kind, fine.failed, fine.response) == ("PostToolUse", False, "hello from notes\n")


def test_a_failure_without_a_word_says_its_code() -> None:
    assert happened(ended(find_recording("codex", DIRECT), "call_1_0")).response == "Process exited with code 3"


def test_where_the_rollout_has_a_call_and_not_its_end_the_hook_leaves_it_to_the_rollout() -> None:
    rollout = find_recording("codex", LEGACY)
    assert event(ended(rollout, "call_2_0", "ls: cannot access '/nope'")) is None
    told_by_agent = happened(ended(rollout, "call_2_0", "x", agent_id=AGENT))
    assert (told_by_agent.kind, told_by_agent.response) == ("PostToolUse", "x")


@pytest.mark.parametrize("rollout", [None, "", "/nowhere/rollout.jsonl", "/", "/dev/null", "a\0b", 7, "LEGACY", "PIPE"])
def test_without_a_rollout_that_knows_the_call_it_is_told_as_it_came(rollout: Any, tmp_path: Any) -> None:
    if rollout == "PIPE":
        os.mkfifo(tmp_path / "pipe")
    rollout = {"LEGACY": find_recording("codex", LEGACY), "PIPE": str(tmp_path / "pipe")}.get(rollout, rollout)
    found = happened(ended(rollout, "call_unheard_of", "words"))
    assert (found.kind, found.failed, found.response) == ("PostToolUse", False, "words")


def test_only_the_end_of_a_long_rollout_is_read(tmp_path: Any) -> None:
    path = str(tmp_path / "rollout.jsonl")
    shutil.copy(find_recording("codex", DIRECT), path)
    with open(path, "ab") as file:
        file.write(b"{half a line\n" + b" " * 300_000)
    found = happened(ended(path, "call_1_0", "words"))
    assert (found.kind, found.response) == ("PostToolUse", "words")
    with open(find_recording("codex", DIRECT), "rb") as file:
        lines = file.read()
    with open(path, "ab") as file:
        file.write(b"\n" + lines)
    assert happened(ended(path, "call_1_0")).failed


def test_a_patch_or_a_server_that_failed_says_so_in_its_answer() -> None:
    patched = payload("0.166.0", "PostToolUse-apply_patch")
    failed = happened({**patched, "tool_response": "Exit code: 1\nWall time: 0 seconds\nOutput:\nno such line\n"})
    assert (failed.kind, failed.response) == ("PostToolUseFailure", "no such line\n")
    asked = payload("0.166.0", "PostToolUse-mcp__memory__search_lessons")
    assert happened({**asked, "tool_response": {"content": [], "isError": True}}).failed


def test_what_makes_no_sense_is_refused_or_passed_over() -> None:
    for wrong in (b"", b"{", b"[]", b'"text"', b"\xff", b"nul"):
        with pytest.raises(ValueError):
            parse_payload("PreToolUse", wrong)
    assert event({"hook_event_name": "Interrupt"}) is None
    for version, table in EXPECTED.items():
        for name in table:
            for seed in range(20):
                try:
                    parse_payload("PreToolUse", distort_json(payload(version, name), Random(seed), share=0.15))
                except ValueError:
                    pass


# What Codex takes from each event, and nothing else: one field more and it drops the whole answer.
COMMON = {"systemMessage"}
OWN = {"hookEventName", "additionalContext"}
DENY = {"hookEventName", "permissionDecision", "permissionDecisionReason"}
TAKES = {
    "SessionStart": OWN,
    "UserPromptSubmit": OWN,
    "PostToolUse": OWN,
    "SubagentStart": OWN,
    "PreToolUse": OWN,
    "SubagentStop": set(),
    "PreCompact": set(),
    "Stop": set(),
    "SessionEnd": set(),
}


@pytest.mark.parametrize("kind", [*EVENT_TIMEOUTS, "PostToolUseFailure"])
def test_an_answer_has_only_fields_that_codex_knows(kind: str) -> None:
    asked = Event("codex", kind, "s", "/home/dev")
    name = "PostToolUse" if kind == "PostToolUseFailure" else kind
    assert json.loads(render_reply(asked, HookReply())) == {}
    for reply in (HookReply(context="words"), HookReply(deny="why"), HookReply("why", "words", "a line")):
        said = json.loads(render_reply(asked, reply))
        own = said.pop("hookSpecificOutput", {})
        blocked = {"decision", "reason"} if reply.deny and name == "UserPromptSubmit" else set()
        assert set(said) <= COMMON | blocked
        denied = bool(reply.deny) and name == "PreToolUse"
        assert set(own) in (set(), DENY if denied else TAKES[name])
        assert own.get("hookEventName", name) == name


def test_a_prompt_that_hardwon_answers_is_blocked() -> None:
    said = json.loads(render_reply(Event("codex", "UserPromptSubmit", "s", "/"), HookReply("in force")))
    assert said == {"decision": "block", "reason": "in force"}


def test_a_denial_goes_out_alone() -> None:
    said = json.loads(render_reply(Event("codex", "PreToolUse", "s", "/"), HookReply("use -u", "a note", "held")))
    assert said == {
        "hookSpecificOutput": {
            "hookEventName": "PreToolUse",
            "permissionDecision": "deny",
            "permissionDecisionReason": "use -u",
        },
        "systemMessage": "held",
    }


def test_codex_is_one_of_the_hosts() -> None:
    assert load_agent("codex").EVENT_TIMEOUTS is EVENT_TIMEOUTS
