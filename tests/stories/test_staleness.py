"""What is told about code says when that code has changed since, and is not told when it is gone."""

from __future__ import annotations

import os
import subprocess

import pytest

from tests.support.house import House, bash

KITE = '"""Kites."""\n\n\ndef lift(kite):\n    return kite.rise(2)\n\n\ndef land(kite):\n    return kite\n'


@pytest.fixture
def repository(own_home: str) -> str:
    root = os.path.join(own_home, "kites")
    os.makedirs(os.path.join(root, "src"))
    write_source(root, KITE)
    run_git(root, "init", "-q")
    commit_all(root)
    return root


def write_source(root: str, text: str) -> None:
    with open(os.path.join(root, "src", "kite.py"), "w") as file:
        file.write(text)


def run_git(root: str, *words: str) -> None:
    subprocess.run(["git", "-C", root, "-c", "user.name=a", "-c", "user.email=a@b.c", *words], check=True)


def commit_all(root: str) -> None:
    run_git(root, "add", "-A")
    run_git(root, "commit", "-qm", "a change")


def add_lesson(house: House, root: str, **more: object) -> str:
    return house.add(
        {
            "summary": "towing is not safe while a kite is lifted",
            "problem": "`lift()` in src/kite.py keeps the line open, so a tow command tears it",
            "solution": "wait until `lift` of src/kite.py has returned before you tow anything",
            "triggers": {"toolNames": ["Bash"], "commandPatterns": [r"\btow\b"]},
            "scope": {"type": "project", "path": root},
            "delivery": "hold",
            **more,
        }
    )


def test_a_lesson_about_changed_code_says_so_and_one_about_code_that_is_gone_is_not_told(
    house: House, repository: str
) -> None:
    house.ok("start")
    add_lesson(house, repository)
    assert "has changed since" not in house.ask("s1", bash("tow it", cwd=repository)).denied
    write_source(repository, KITE.replace("rise(2)", "rise(3)"))
    assert "(the code it is about has changed since)" in house.ask("s2", bash("tow it", cwd=repository)).denied
    write_source(repository, KITE.replace("def lift", "def raise_up"))
    assert house.ask("s3", bash("tow it", cwd=repository)).raw == b"{}"
    write_source(repository, KITE)
    assert "has changed since" not in house.ask("s4", bash("tow it", cwd=repository)).denied


def test_comments_formatting_and_other_code_are_no_change(house: House, repository: str) -> None:
    house.ok("start")
    add_lesson(house, repository)
    write_source(
        repository, KITE.replace("    return kite.rise(2)", "    # gently\n    return (kite\n        .rise(2))")
    )
    assert "has changed since" not in house.ask("s1", bash("tow it", cwd=repository)).denied
    write_source(repository, KITE.replace("    return kite\n", "    return kite.down()\n"))
    assert "has changed since" not in house.ask("s2", bash("tow it", cwd=repository)).denied


def test_a_block_is_never_withheld(house: House, repository: str) -> None:
    house.ok("start")
    add_lesson(house, repository, delivery="block", blockReason="a tow tears the line that lift() holds")
    write_source(repository, "")
    assert house.ask("s1", bash("tow it", cwd=repository)).denied


def test_retiring_is_proposed_once_the_code_is_gone_from_the_branch_and_not_on_another(
    house: House, repository: str
) -> None:
    house.ok("start")
    slug = add_lesson(house, repository)
    run_git(repository, "checkout", "-q", "--orphan", "other")
    write_source(repository, "")
    commit_all(repository)
    house.ok("proof")
    assert "is gone" not in house.session_start("s1").notice
    run_git(repository, "checkout", "-q", "master" if has_branch(repository, "master") else "main")
    write_source(repository, "")
    commit_all(repository)
    house.ok("proof")
    notice = house.session_start("s2").notice
    assert f"{slug} may not be needed: lift in kite.py, which it is about, is gone" in notice


def has_branch(root: str, name: str) -> bool:
    command = ["git", "-C", root, "rev-parse", "-q", "--verify", name]
    return subprocess.run(command, capture_output=True).returncode == 0


def test_a_line_of_a_handoff_about_changed_code_says_so_in_the_brief(house: House, repository: str) -> None:
    house.ok("start")
    house.ok("handoff", "write", "First: make `lift` in src/kite.py wait for the wind", cwd=repository)
    assert "wait for the wind\n" in house.ok("brief", cwd=repository).out
    write_source(repository, KITE.replace("rise(2)", "rise(3)"))
    assert "wait for the wind (the code it is about has changed since)" in house.ok("brief", cwd=repository).out
    os.unlink(os.path.join(repository, "src", "kite.py"))
    assert "wait for the wind" not in house.ok("brief", cwd=repository).out


def test_a_memory_about_changed_code_says_so_in_the_brief(house: House, repository: str) -> None:
    house.ok("start")
    house.ok("memory", "add", "project", "`lift` in src/kite.py never waits for the wind, callers must", cwd=repository)
    assert "callers must\n" in house.ok("brief", cwd=repository).out
    write_source(repository, KITE.replace("rise(2)", "rise(3)"))
    assert "(the code it is about has changed since)" in house.ok("brief", cwd=repository).out
    os.unlink(os.path.join(repository, "src", "kite.py"))
    assert "never waits for the wind" not in house.ok("brief", cwd=repository).out
