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
def folder() -> str:
    return memory_queue.get_queue_folder()


def turn(asked: str = WISH, number: int = 3, *calls: Call, name: str = SESSION) -> Turn:
    return Turn(
        1, number, 1_774_778_400.0, "claude-code", name, "/home/dev/shop", "/home/dev/shop", asked, "done", calls
    )


def bash(command: str, outcome: str = "fine") -> Call:
    return Call("e1", 1.0, "Bash", {"command": command}, outcome=outcome)


def test_a_wish_is_queued_in_the_documented_shape(folder: str, own_home: str) -> None:
    path = memory_queue.queue_statements(folder, turn(), "/logs/a.jsonl")
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


def test_what_is_queued_is_read_back_turn_by_turn(folder: str) -> None:
    memory_queue.queue_statements(folder, turn(number=12))
    memory_queue.queue_statements(folder, turn("I'm new to rust. Never commit to main.", 2))
    found = [(one.turn, one.type, one.text) for one in memory_queue.read_queue(folder, SESSION)]
    assert found == [
        (2, "user", "The user is new to rust."),
        (2, "feedback", "Never commit to main."),
        (12, "feedback", RULE),
    ]


def test_most_turns_leave_nothing_not_even_a_folder(folder: str) -> None:
    assert [
        memory_queue.queue_statements(folder, turn(asked))
        for asked in ("commit and push please", "", "why does it fail?")
    ] == [""] * 3
    assert not os.path.exists(folder)


def test_the_same_turn_twice_is_one_file_that_is_written_once(folder: str) -> None:
    path = memory_queue.queue_statements(folder, turn())
    before = os.stat(path)
    assert memory_queue.queue_statements(folder, turn()) == path
    after = os.stat(path)
    assert (after.st_ino, after.st_mtime_ns) == (before.st_ino, before.st_mtime_ns)
    assert os.listdir(folder) == [os.path.basename(path)]


def test_files_and_folder_are_the_owners_alone(folder: str) -> None:
    path = memory_queue.queue_statements(folder, turn())
    assert [stat.S_IMODE(os.stat(each).st_mode) for each in (path, folder)] == [0o600, 0o700]


def test_secrets_and_private_parts_are_not_written(folder: str) -> None:
    path = memory_queue.queue_statements(
        folder, turn(f"remember that the deploy key is {KEY} <private>and the pin is 9911</private>")
    )
    with open(path, encoding="utf-8") as file:
        written = file.read()
    assert KEY not in written and "9911" not in written and "[redacted:" in written


@pytest.mark.parametrize(
    "handed",
    [
        turn("/handoff from now on always use pnpm"),
        turn(WISH, 3, bash('git add -A && git commit -m "handoff: shop checkout"')),
        turn(WISH, 3, bash("git commit -qm 'docs(sessions): session handoff'")),
        turn(WISH, 3, bash("hardwon handoff write")),
        turn(WISH, 3, Call("e1", 1.0, "Skill", {"skill": "handoff"})),
        turn(WISH, 3, Call("e1", 1.0, "Write", {"file_path": "/home/dev/shop/docs/sessions/a1.md", "content": "x"})),
    ],
    ids=["command", "commit", "short commit", "hardwon", "skill", "page"],
)
def test_nothing_is_queued_right_after_a_handoff(folder: str, handed: Turn) -> None:
    assert memory_queue.queue_statements(folder, handed) == ""


@pytest.mark.parametrize(
    "other",
    [
        turn(WISH, 3, bash('git commit -m "fix the handoff parser"')),
        turn(WISH, 3, bash("hardwon handoff list")),
        turn(WISH, 3, bash("hardwon handoff write", "failed")),
        turn(WISH, 3, Call("e1", 1.0, "Write", {"file_path": "docs/sessions/a1.draft.md"})),
        turn(WISH, 3, Call("e1", 1.0, "Read", ["docs/sessions/a1.md"])),
    ],
    ids=["about handoffs", "list", "failed", "draft", "odd input"],
)
def test_what_only_looks_like_a_handoff_is_none(folder: str, other: Turn) -> None:
    assert memory_queue.queue_statements(folder, other) != ""


def test_sessions_whose_names_begin_alike_are_kept_apart(folder: str) -> None:
    for name in ("a", "a-1", "../../etc/passwd", "a b"):
        memory_queue.queue_statements(folder, turn(name=name))
    assert [one.session for one in memory_queue.read_queue(folder, "a")] == ["a"]
    assert [one.session for one in memory_queue.read_queue(folder, "../../etc/passwd")] == ["../../etc/passwd"]
    assert len(memory_queue.read_queue(folder)) == len(os.listdir(folder)) == 4


def test_what_was_read_is_removed_and_what_changed_since_waits_on(folder: str) -> None:
    path = memory_queue.queue_statements(folder, turn())
    other = memory_queue.queue_statements(folder, turn(number=4))
    read = memory_queue.read_queue(folder, SESSION)
    memory_queue.queue_statements(folder, turn("never commit to main"))
    memory_queue.remove_statements([*read, *read])
    assert os.path.exists(path) and not os.path.exists(other)
    memory_queue.remove_statements(read)
    assert [one.text for one in memory_queue.read_queue(folder)] == ["Never commit to main."]


def broken(path: str, content: Any) -> None:
    with open(path, "wb") as file:
        file.write(content if isinstance(content, bytes) else json.dumps(content).encode())


def test_what_is_not_ours_is_passed_over_and_stays(folder: str) -> None:
    path = memory_queue.queue_statements(folder, turn())
    with open(path, encoding="utf-8") as file:
        good = json.load(file)
    elsewhere = os.path.join(os.path.dirname(folder), "elsewhere.json")
    broken(elsewhere, {**good, "turn": 90})
    os.symlink(elsewhere, os.path.join(folder, f"{SESSION}-90.json"))
    os.mkdir(os.path.join(folder, f"{SESSION}-91.json"))
    cases: dict[int, Any] = {
        10: b"",
        11: b"{",
        12: b"\xff\xfe",
        13: [],
        14: {**good, "turn": "14"},
        15: {**good, "turn": 16},
        17: {**good, "turn": 17, "version": 9},
        18: {**good, "turn": 18, "memories": "x"},
        19: {**good, "turn": 19, "memories": [1, {"type": "rule", "text": "x"}, {"type": "user", "text": " "}]},
        20: {**good, "turn": 20, "session": "other"},
        21: b"[" * 60_000,
        22: b" " * (memory_queue.MAX_FILE_BYTES + 1),
    }
    for number, content in cases.items():
        broken(os.path.join(folder, f"{SESSION}-{number}.json"), content)
    before = sorted(os.listdir(folder))
    found = memory_queue.read_queue(folder)
    assert [(one.turn, one.text) for one in found] == [(3, RULE)]
    memory_queue.remove_statements(found)
    assert sorted(os.listdir(folder)) == [name for name in before if name != f"{SESSION}-3.json"]


def test_what_another_program_queued_is_redacted_when_it_is_read(folder: str) -> None:
    path = memory_queue.queue_statements(folder, turn())
    with open(path, encoding="utf-8") as file:
        said = json.load(file)
    broken(path, {**said, "memories": [{"type": "project", "text": f"the key is {KEY}"}]})
    assert KEY not in memory_queue.read_queue(folder)[0].text


def test_writers_killed_at_any_moment_leave_whole_files_only(folder: str) -> None:
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
    names = [name for name in os.listdir(folder) if name.endswith(".json")] if os.path.isdir(folder) else []
    assert len(memory_queue.read_queue(folder)) == len(names)


def test_a_turn_of_no_session_is_not_queued(folder: str) -> None:
    assert memory_queue.queue_statements(folder, replace(turn(), name="")) == ""
