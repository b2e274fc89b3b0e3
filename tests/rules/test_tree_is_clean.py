"""What must not be in the repository: one machine's paths, addresses of registries, work left lying about."""

from __future__ import annotations

import re
from collections.abc import Iterable

from tests.rules.tree import read, tracked, uphold

# Put together from pieces, so that this file does not break its own rule.
ROOTS = "|".join(("work", "root"))
MACHINE_PATH = re.compile(
    rf"(?<![\w.~/)}}-])(?:file://)?(?:/(?:{ROOTS})/[\w.-]|/(?:home|Users)/(?!dev\b)[A-Za-z_][\w-]*)"
)
REGISTRY = re.compile(r"pypi\.org|registry\.npmjs|deb\.debian\.org|files\.pythonhosted\.org")
LEFTOVER = re.compile(r"\b(?:TO" r"DO|FIX" r"ME|XX" r"X)\b")


def lines_with(pattern: re.Pattern[str], files: Iterable[tuple[str, str]]) -> list[str]:
    """Each place where the pattern occurs, with what it found."""
    return [
        f"{place}:{number}: {found.group()}"
        for place, text in files
        if pattern.search(text)
        for number, line in enumerate(text.splitlines(), 1)
        if (found := pattern.search(line))
    ]


def texts(*folders: str) -> list[tuple[str, str]]:
    """The tracked files that are text, this one left out where it must name what it forbids."""
    found = []
    for place in tracked():
        if place.startswith(folders or "") and place != "tests/rules/test_tree_is_clean.py":
            try:
                found.append((place, read(place)))
            except UnicodeDecodeError:
                continue
    return found


def test_no_file_names_a_path_of_one_machine() -> None:
    uphold(
        "no tracked file names a folder of somebody's machine; recorded payloads say /home/dev",
        lines_with(MACHINE_PATH, texts()),
        "use a temporary folder, a path relative to the repository, ~ or /home/dev",
    )


def test_no_file_names_a_registry() -> None:
    uphold(
        "no tracked file names a package registry: which one is used is the machine's setting",
        lines_with(REGISTRY, texts()),
        "name the package and let pip, npm or apt find it",
    )


def test_no_work_is_left_lying_in_the_source() -> None:
    uphold(
        "the source has no notes of work to be done",
        lines_with(LEFTOVER, texts("src/")),
        "do it, or write an issue",
    )


def test_paths_of_a_machine_are_found_and_others_are_not() -> None:
    bad = ["/work/main", '"/root/.claude"', "file:///home/ada/x", "(/Users/ada)", "=/home/ada"]
    good = ["/home/dev/project", "src/work/x", "~/work/x", "https://x.example/root/y", "../shared", "/homely"]
    assert [len(lines_with(MACHINE_PATH, [("a", line)])) for line in bad] == [1] * len(bad)
    assert lines_with(MACHINE_PATH, [("a", line) for line in good]) == []


def test_a_registry_and_a_leftover_are_found() -> None:
    assert lines_with(REGISTRY, [("a.md", "see\nhttps://pypi.org/x")]) == ["a.md:2: pypi.org"]
    assert lines_with(LEFTOVER, [("a.py", "# TODO later\nname = 'XXXXXX'")]) == ["a.py:1: TODO"]
