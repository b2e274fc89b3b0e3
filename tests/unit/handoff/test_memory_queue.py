from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from typing import Any

import pytest

from hardwon.handoff import memory_queue
from hardwon.types import Call, Turn, replace

WISH = "from now on always use pnpm, never npm"
RULE = "Always use pnpm, never npm."
KEY = "sk-ant-api03-" + "A1b2C3d4E5f6G7h8J9k0L1m2" * 4
SESSION = "5b6a2f0e-1111-4222-8333-944455556666"


@pytest.fixture
def queue_folder() -> str:
    return memory_queue.get_queue_folder()


def build_turn(prompt: str = WISH, number: int = 3, *calls: Call, session: str = SESSION) -> Turn:
    return Turn(
        1, number, 1_774_778_400.0, "claude-code", session, "/home/dev/shop", "/home/dev/shop", prompt, "done", calls
    )


def build_bash_call(command: str, outcome: str = "fine") -> Call:
    return Call("e1", 1.0, "Bash", {"command": command}, outcome=outcome)


def test_a_wish_is_queued_in_the_documented_shape(queue_folder: str, own_home: str) -> None:
    path = memory_queue.queue_statements(queue_folder, build_turn(), "/logs/a.jsonl")
    assert path == os.path.join(own_home, ".claude", "memory_queue", f"{SESSION}-3.json")
    with open(path, encoding="utf-8") as file:
        assert json.load(file) == {
            "version": 1,
            "session": SESSION,
            "turn": 3,
            "host": "claude-code",
            "project": "/home/dev/shop",
            "transcript": "/logs/a.jsonl",
            "at": "2026-03-29T10:00:00Z",
            "memories": [{"type": "feedback", "text": RULE, "said": WISH}],
        }


def test_queued_statements_are_read_back_in_turn_order(queue_folder: str) -> None:
    memory_queue.queue_statements(queue_folder, build_turn(number=12))
    memory_queue.queue_statements(queue_folder, build_turn("I'm new to rust. Never commit to main.", 2))
    statements = [
        (statement.turn, statement.type, statement.text) for statement in memory_queue.read_queue(queue_folder, SESSION)
    ]
    assert statements == [
        (2, "user", "The user is new to rust."),
        (2, "feedback", "Never commit to main."),
        (12, "feedback", RULE),
    ]


def test_a_turn_without_statements_creates_no_folder(queue_folder: str) -> None:
    assert [
        memory_queue.queue_statements(queue_folder, build_turn(prompt))
        for prompt in ("commit and push please", "", "why does it fail?")
    ] == [""] * 3
    assert not os.path.exists(queue_folder)


def test_queueing_a_turn_again_does_not_rewrite_its_file(queue_folder: str) -> None:
    path = memory_queue.queue_statements(queue_folder, build_turn())
    first_stat = os.stat(path)
    assert memory_queue.queue_statements(queue_folder, build_turn()) == path
    second_stat = os.stat(path)
    assert (second_stat.st_ino, second_stat.st_mtime_ns) == (first_stat.st_ino, first_stat.st_mtime_ns)
    assert os.listdir(queue_folder) == [os.path.basename(path)]


def test_only_the_owner_can_read_files_and_folder(queue_folder: str) -> None:
    path = memory_queue.queue_statements(queue_folder, build_turn())
    assert [stat.S_IMODE(os.stat(entry).st_mode) for entry in (path, queue_folder)] == [0o600, 0o700]


def test_secrets_and_private_parts_are_not_written(queue_folder: str) -> None:
    path = memory_queue.queue_statements(
        queue_folder, build_turn(f"remember that the deploy key is {KEY} <private>and the pin is 9911</private>")
    )
    with open(path, encoding="utf-8") as file:
        written = file.read()
    assert KEY not in written and "9911" not in written and "[redacted:" in written


@pytest.mark.parametrize(
    "handoff_turn",
    [
        build_turn("/handoff from now on always use pnpm"),
        build_turn(WISH, 3, build_bash_call('git add -A && git commit -m "handoff: shop checkout"')),
        build_turn(WISH, 3, build_bash_call("git commit -qm 'docs(sessions): session handoff'")),
        build_turn(WISH, 3, build_bash_call("hardwon handoff write")),
        build_turn(WISH, 3, Call("e1", 1.0, "Skill", {"skill": "handoff"})),
        build_turn(
            WISH, 3, Call("e1", 1.0, "Write", {"file_path": "/home/dev/shop/docs/sessions/a1.md", "content": "x"})
        ),
    ],
    ids=["command", "commit", "short commit", "hardwon", "skill", "page"],
)
def test_nothing_is_queued_right_after_a_handoff(queue_folder: str, handoff_turn: Turn) -> None:
    assert memory_queue.queue_statements(queue_folder, handoff_turn) == ""


@pytest.mark.parametrize(
    "other_turn",
    [
        build_turn(WISH, 3, build_bash_call('git commit -m "fix the handoff parser"')),
        build_turn(WISH, 3, build_bash_call("hardwon handoff list")),
        build_turn(WISH, 3, build_bash_call("hardwon handoff write", "failed")),
        build_turn(WISH, 3, Call("e1", 1.0, "Write", {"file_path": "docs/sessions/a1.draft.md"})),
        build_turn(WISH, 3, Call("e1", 1.0, "Read", ["docs/sessions/a1.md"])),
    ],
    ids=["about handoffs", "list", "failed", "draft", "odd input"],
)
def test_a_turn_that_only_resembles_a_handoff_is_queued(queue_folder: str, other_turn: Turn) -> None:
    assert memory_queue.queue_statements(queue_folder, other_turn) != ""


def test_sessions_with_a_common_prefix_are_kept_apart(queue_folder: str) -> None:
    for name in ("a", "a-1", "../../etc/passwd", "a b"):
        memory_queue.queue_statements(queue_folder, build_turn(session=name))
    assert [statement.session for statement in memory_queue.read_queue(queue_folder, "a")] == ["a"]
    assert [statement.session for statement in memory_queue.read_queue(queue_folder, "../../etc/passwd")] == [
        "../../etc/passwd"
    ]
    assert len(memory_queue.read_queue(queue_folder)) == len(os.listdir(queue_folder)) == 4


def test_statements_that_were_read_are_removed_unless_their_file_changed(queue_folder: str) -> None:
    path = memory_queue.queue_statements(queue_folder, build_turn())
    other_path = memory_queue.queue_statements(queue_folder, build_turn(number=4))
    statements = memory_queue.read_queue(queue_folder, SESSION)
    memory_queue.queue_statements(queue_folder, build_turn("never commit to main"))
    memory_queue.remove_statements([*statements, *statements])
    assert os.path.exists(path) and not os.path.exists(other_path)
    memory_queue.remove_statements(statements)
    assert [statement.text for statement in memory_queue.read_queue(queue_folder)] == ["Never commit to main."]


def write_content(path: str, content: Any) -> None:
    with open(path, "wb") as file:
        file.write(content if isinstance(content, bytes) else json.dumps(content).encode())


def test_invalid_files_are_ignored_and_kept(queue_folder: str) -> None:
    path = memory_queue.queue_statements(queue_folder, build_turn())
    with open(path, encoding="utf-8") as file:
        valid_content = json.load(file)
    elsewhere = os.path.join(os.path.dirname(queue_folder), "elsewhere.json")
    write_content(elsewhere, {**valid_content, "turn": 90})
    os.symlink(elsewhere, os.path.join(queue_folder, f"{SESSION}-90.json"))
    os.mkdir(os.path.join(queue_folder, f"{SESSION}-91.json"))
    cases: dict[int, Any] = {
        10: b"",
        11: b"{",
        12: b"\xff\xfe",
        13: [],
        14: {**valid_content, "turn": "14"},
        15: {**valid_content, "turn": 16},
        17: {**valid_content, "turn": 17, "version": 9},
        18: {**valid_content, "turn": 18, "memories": "x"},
        19: {
            **valid_content,
            "turn": 19,
            "memories": [1, {"type": "rule", "text": "x"}, {"type": "user", "text": " "}],
        },
        20: {**valid_content, "turn": 20, "session": "other"},
        21: b"[" * 60_000,
        22: b" " * (memory_queue.MAX_FILE_BYTES + 1),
    }
    for number, content in cases.items():
        write_content(os.path.join(queue_folder, f"{SESSION}-{number}.json"), content)
    names_before = sorted(os.listdir(queue_folder))
    statements = memory_queue.read_queue(queue_folder)
    assert [(statement.turn, statement.text) for statement in statements] == [(3, RULE)]
    memory_queue.remove_statements(statements)
    assert sorted(os.listdir(queue_folder)) == [name for name in names_before if name != f"{SESSION}-3.json"]


def test_statements_of_another_program_are_redacted_when_read(queue_folder: str) -> None:
    path = memory_queue.queue_statements(queue_folder, build_turn())
    with open(path, encoding="utf-8") as file:
        stored_content = json.load(file)
    write_content(path, {**stored_content, "memories": [{"type": "project", "text": f"the key is {KEY}"}]})
    assert KEY not in memory_queue.read_queue(queue_folder)[0].text


def test_killed_writers_leave_only_complete_files(queue_folder: str) -> None:
    code = (
        "import sys\nfrom hardwon.handoff import memory_queue\nfrom hardwon.types import Turn\n"
        f"print('go', flush=True)\nfor n in range(10**6):\n    memory_queue.queue_statements(memory_queue.get_queue_folder(), Turn(1, n, 1.0, name='s', prompt={WISH!r}))"
    )
    for _ in range(3):
        child = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE)
        assert child.stdout and child.stdout.readline()
        child.kill()
        child.wait()
        child.stdout.close()
    names = [name for name in os.listdir(queue_folder) if name.endswith(".json")] if os.path.isdir(queue_folder) else []
    assert len(memory_queue.read_queue(queue_folder)) == len(names)


def test_a_turn_without_a_session_is_not_queued(queue_folder: str) -> None:
    assert memory_queue.queue_statements(queue_folder, replace(build_turn(), name="")) == ""
