"""No tracked file has paths of one machine, addresses of registries or notes of unfinished work."""

from __future__ import annotations

import re
from collections.abc import Iterable

from tests.rules.tree import assert_rule, list_tracked_files, read_file

# Built from pieces, so that this file does not break its own rule.
ROOTS = "|".join(("work", "root"))
MACHINE_PATH = re.compile(
    rf"(?<![\w.~/)}}-])(?:file://)?(?:/(?:{ROOTS})/[\w.-]|/(?:home|Users)/(?!dev\b)[A-Za-z_][\w-]*)"
)
REGISTRY = re.compile(r"pypi\.org|registry\.npmjs|deb\.debian\.org|files\.pythonhosted\.org")
LEFTOVER = re.compile(r"\b(?:TO" r"DO|FIX" r"ME|XX" r"X)\b")


def find_lines(pattern: re.Pattern[str], files: Iterable[tuple[str, str]]) -> list[str]:
    """Return each line where the pattern occurs, with the matched text."""
    return [
        f"{path}:{number}: {match.group()}"
        for path, text in files
        if pattern.search(text)
        for number, line in enumerate(text.splitlines(), 1)
        if (match := pattern.search(line))
    ]


def read_text_files(*folders: str) -> list[tuple[str, str]]:
    """Read the tracked text files, except this one, which contains the forbidden words."""
    text_files = []
    for path in list_tracked_files():
        if path.startswith(folders or "") and path != "tests/rules/test_tree_is_clean.py":
            try:
                text_files.append((path, read_file(path)))
            except UnicodeDecodeError:
                continue
    return text_files


def test_no_file_names_a_path_of_one_machine() -> None:
    assert_rule(
        "no tracked file names a folder of somebody's machine; recorded payloads say /home/dev",
        find_lines(MACHINE_PATH, read_text_files()),
        "use a temporary folder, a path relative to the repository, ~ or /home/dev",
    )


def test_no_file_names_a_registry() -> None:
    assert_rule(
        "no tracked file names a package registry: which one is used is the machine's setting",
        find_lines(REGISTRY, read_text_files()),
        "name the package and let pip, npm or apt find it",
    )


def test_the_source_has_no_todo_notes() -> None:
    assert_rule(
        "the source has no notes of work to be done",
        find_lines(LEFTOVER, read_text_files("src/")),
        "do it, or write an issue",
    )


def test_paths_of_a_machine_are_found_and_others_are_not() -> None:
    machine_paths = ["/work/main", '"/root/.claude"', "file:///home/ada/x", "(/Users/ada)", "=/home/ada"]
    allowed_paths = ["/home/dev/project", "src/work/x", "~/work/x", "https://x.example/root/y", "../shared", "/homely"]
    assert [len(find_lines(MACHINE_PATH, [("a", line)])) for line in machine_paths] == [1] * len(machine_paths)
    assert find_lines(MACHINE_PATH, [("a", line) for line in allowed_paths]) == []


def test_a_registry_and_a_leftover_are_found() -> None:
    assert find_lines(REGISTRY, [("a.md", "see\nhttps://pypi.org/x")]) == ["a.md:2: pypi.org"]
    assert find_lines(LEFTOVER, [("a.py", "# TODO later\nname = 'XXXXXX'")]) == ["a.py:1: TODO"]
