"""A file is an agent's transcript if both its name and its first bytes match."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hardwon.agents import TRANSCRIPT_AGENTS
from hardwon.agents.transcript_steps import identify_agent, load_transcript_module, parse_opening_objects
from tests.support.transcript_reading import FORMATS, RECORDED, find_recording, list_corpus_files

HEAD = 4096
BOM = b"\xef\xbb\xbf"


def read_head(path: str) -> bytes:
    with open(path, "rb") as file:
        return file.read(HEAD)


def has_opening_object(host: str, head: bytes) -> bool:
    return any(map(load_transcript_module(host).is_opening_object, parse_opening_objects(head)))


def list_claiming_agents(path: str, head: bytes) -> list[str]:
    """List every agent whose transcript this is."""
    return [
        host
        for host in TRANSCRIPT_AGENTS
        if load_transcript_module(host).is_transcript_path(path) and has_opening_object(host, head)
    ]


# Kilo's sessions are identified by their database; exported ones look like opencode's.
@pytest.mark.parametrize(("host", "name"), [row for row in RECORDED if row[0] != "kilo"])
def test_a_recorded_transcript_belongs_to_one_agent_only(host: str, name: str) -> None:
    path = find_recording(host, name)
    head = read_head(path)
    assert list_claiming_agents(path, head) == [host] == [identify_agent(path, head)]
    for damaged in (BOM + head, b"\n \n" + head, b"{half\n" + head, b"// kept\n" + head, head.replace(b"\n", b"\r\n")):
        assert list_claiming_agents(path, damaged[:HEAD]) == [host]
        assert has_opening_object(host, damaged[:1000])


def test_every_real_transcript_belongs_to_one_agent_only() -> None:
    for row, path in list_corpus_files():
        assert list_claiming_agents(path, read_head(path)) == [FORMATS[row["format"]]], row["file"]


def test_an_unknown_agent_is_an_error() -> None:
    with pytest.raises(KeyError):
        load_transcript_module("emacs")


@pytest.mark.parametrize(
    ("path", "wire", "host"),
    [
        ("s.jsonl", {"type": "summary", "summary": "a bug", "leafUuid": "u"}, "claude-code"),
        ("s.jsonl", {"type": "file-history-snapshot", "messageId": "u", "snapshot": {}}, "claude-code"),
        ("s.jsonl", {"type": "queue-operation", "operation": "enqueue", "sessionId": "s"}, "claude-code"),
        ("s.jsonl", {"type": "mode", "mode": "normal", "sessionId": "s"}, "claude-code"),
        ("s.jsonl", {"type": "last-prompt", "leafUuid": "u", "sessionId": "s"}, "claude-code"),
        ("s.jsonl", {"type": "something-new", "sessionId": "s", "value": 7}, "claude-code"),
        (
            "s.jsonl",
            {"parentUuid": None, "isSidechain": False, "type": "user", "message": {}, "uuid": "u"},
            "claude-code",
        ),
        (
            "s.jsonl",
            {"parentUuid": None, "isSidechain": False, "attachment": {"type": "x"}, "type": "attachment"},
            "claude-code",
        ),
        (
            "s/subagents/agent-a1.jsonl",
            {"parentUuid": None, "isSidechain": True, "agentId": "a1", "type": "user"},
            "claude-code",
        ),
        ("rollout-1.jsonl", {"timestamp": "t", "type": "session_meta", "payload": {"id": "s"}}, "codex"),
        ("rollout-1.jsonl", {"timestamp": "t", "type": "event_msg", "payload": {"type": "task_started"}}, "codex"),
        ("rollout-1.jsonl", {"id": "s", "timestamp": "t", "instructions": None, "git": {}}, "codex"),
        ("session-1.jsonl", {"sessionId": "s", "projectHash": "p", "startTime": "t", "kind": "main"}, "gemini"),
        ("session-1.jsonl", {"$set": {"messages": []}}, "gemini"),
        ("session-1.jsonl", {"id": "m", "timestamp": "t", "type": "user", "content": [{"text": "do it"}]}, "gemini"),
        ("session-1.json", {"sessionId": "s", "projectHash": "p", "messages": []}, "gemini"),
        ("ses_1.json", {"info": {"id": "ses_1", "directory": "/"}, "messages": []}, "opencode"),
        (
            "history.jsonl",
            {"display": "do it", "pastedContents": {}, "timestamp": 1, "project": "/", "sessionId": "s"},
            "",
        ),
        ("history.jsonl", {"session_id": "s", "ts": 1, "text": "do it"}, ""),
        ("logs.jsonl", {"timestamp": "t", "type": "request", "payload": {}}, ""),
        ("logs.jsonl", {"type": "user", "content": "do it"}, ""),
        ("logs.jsonl", {"text": '{"type":"user","sessionId":"s"}'}, ""),
        ("package.json", {"name": "x", "version": "1"}, ""),
        ("export.json", {"info": {"title": "an API"}, "paths": {}}, ""),
        ("session-1.json", {"id": 1, "name": "x"}, ""),
        ("notes.txt", {"type": "user", "sessionId": "s"}, ""),
    ],
)
def test_a_file_is_identified_by_its_first_object(path: str, wire: object, host: str) -> None:
    line = json.dumps(wire).encode()
    cut = line.removesuffix(b"}") + b', "more": {"words": "' + b"a" * HEAD
    indented = json.dumps(wire, indent=2).encode()
    for head in (line, line + b"\n{}\n", b"\r\n" + line + b"\r\n", cut[:HEAD], BOM + indented):
        assert identify_agent(path, head) == host


@pytest.mark.parametrize("head", [b"", b"\n", b"{", b"[]", b"7", b"\0" * HEAD, b"SQLite format 3\0", b"{" * HEAD])
def test_a_file_that_is_no_transcript_belongs_to_no_agent(head: bytes) -> None:
    for path in ("s.jsonl", "rollout-1.jsonl", "session-1.json", "ses_1.json"):
        assert identify_agent(path, head) == ""


@given(st.binary(max_size=HEAD) | st.text('{"type:[],\\\n', max_size=HEAD).map(str.encode))
def test_any_bytes_can_be_checked(head: bytes) -> None:
    for host in TRANSCRIPT_AGENTS:
        assert has_opening_object(host, head) in (True, False)
