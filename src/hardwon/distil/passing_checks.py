"""Find the checks that hold at the end of a session: nothing that they check changed after they passed."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence

from hardwon.agents.fields import get_text
from hardwon.distil import phrasing
from hardwon.distil.tool_actions import ToolAction, find_check_words
from hardwon.shell.failures import has_failure_words
from hardwon.shell.parsing import SimpleCommand
from hardwon.shell.working_commands import list_simple_commands
from hardwon.types import Turn

_MAX_CHECKS = 3
_MAX_REPORT_CHARS = 400
# "the build is red again", "CI fails on main"
_REPORTS_FAILURE = re.compile(
    r"\b(?:tests?|CI|builds?|lint\w*|checks?|pipelines?|jobs?|it|they)\b[^.\n]{0,40}"
    r"\b(?:fail(?:s|ed|ing|ure)?|broken?|broke|red|crash(?:es|ed|ing)?)\b",
    re.I,
)
# Tests, builds and linters of code do not read these.
_PROSE_FILE = re.compile(r"(?:^|/)(?:\.gitignore|LICENSE|[^/]+\.(?:md|mdx|rst|txt|adoc))$", re.I)
_SWITCHES = frozenset(
    ("checkout", "switch", "pull", "merge", "rebase", "restore", "revert", "reset", "stash", "cherry-pick", "am")
)
_NEW_BRANCH_OPTIONS = frozenset(("-b", "-B", "-c", "-C", "--create"))
_CHANGED_NOTHING = re.compile(r"\b(?:already (?:up[ -]to[ -]date|on)|no local changes)\b", re.I)
_MOVES_FILES = frozenset(("rm", "mv"))
# Scratch files and what tools keep for themselves.
_NO_PROJECT_PATH = re.compile(r"^/tmp/|(?:^|/)\.\w")


def list_passing_checks(turns: Sequence[Turn], actions_by_turn: Sequence[Sequence[ToolAction]]) -> list[ToolAction]:
    """Return the last checks that passed after the last change of code, without those that others include.

    A switch of the branch or folder, a later failure of the same kind of check, and a person who reports a failure
    leave it unknown whether a check still passes.
    """
    passed = dict[str, ToolAction]()
    folder = os.path.normpath(turns[0].cwd or turns[0].project or "/")
    for number, (turn, actions) in enumerate(zip(turns, actions_by_turn, strict=True)):
        if number and _reports_failure(turn.prompt):
            passed.clear()
        for action in actions:
            entered = _find_entered_folder(action, folder)
            if entered != folder or (not action.failed and _may_change_code(action)):
                passed.clear()
            folder = entered
            if action.kind != "check":
                continue
            passed.pop(action.label, None)
            if action.failed:
                words = find_check_words(action.label)
                passed = {label: check for label, check in passed.items() if not words & find_check_words(label)}
            else:
                passed[action.label] = action
    parts_by_label = {label: set(label.split(" && ")) for label in passed}
    separate_checks = [
        check
        for label, check in passed.items()
        if not any(parts_by_label[label] < parts for parts in parts_by_label.values())
    ]
    return separate_checks[-_MAX_CHECKS:]


def _reports_failure(prompt: str) -> bool:
    """Return whether a person says that something does not work, or pastes output that does."""
    beginning = prompt[:_MAX_REPORT_CHARS]
    if phrasing.is_refuted("", prompt) or _REPORTS_FAILURE.search(beginning):
        return True
    return any(has_failure_words(line) and phrasing.is_pasted_line(line) for line in beginning.splitlines())


def _find_entered_folder(action: ToolAction, folder: str) -> str:
    """Return the folder that a command enters by an absolute path outside of the present one, else the present one."""
    command = get_text(action.call.input, "command") if isinstance(action.call.input, dict) else ""
    if "cd " not in command or action.kind in ("looked", "read", "searched"):
        return folder
    for part in list_simple_commands(command):
        target = os.path.normpath(part.words[1]) if part.program == "cd" and len(part.words) > 1 else ""
        if os.path.isabs(target) and not f"{target}/".startswith(f"{folder}/"):
            folder = target
    return folder


def _may_change_code(action: ToolAction) -> bool:
    """Return whether an action changed a file other than prose, or brought another version of the code."""
    if action.kind != "read" and any(not _PROSE_FILE.search(path) for path in action.paths):
        return True
    command = get_text(action.call.input, "command") if isinstance(action.call.input, dict) else ""
    if not command:
        return False
    parts = list_simple_commands(command)
    # Changes that are stashed and put back in one command are there again at its end.
    if any(part.words[1:3] == ("stash", "pop") for part in parts):
        parts = [part for part in parts if "stash" not in part.words]
    # A probe that the same command made is no loss.
    parts = [
        part
        for part in parts
        if part.program != "rm"
        or any(word not in command[: part.start] for word in part.words[1:] if not word.startswith("-"))
    ]
    return any(map(_is_switch, parts)) and not _CHANGED_NOTHING.search(action.text)


def _is_switch(part: SimpleCommand) -> bool:
    """Return whether a simple command brings other code: another branch, or moved and removed files."""
    words = [word for word in part.words[1:] if not word.startswith("-")]
    options = set(part.words) - set(words)
    subcommand = words[0] if words else ""
    if part.program in _MOVES_FILES:
        return not all(_PROSE_FILE.search(word) or _NO_PROJECT_PATH.search(word) for word in words)
    if part.program == "gh":
        return words[:2] == ["pr", "checkout"]
    if part.program != "git":
        return False
    if subcommand in _MOVES_FILES:
        return True
    if subcommand == "reset":
        return "--hard" in options
    if subcommand == "restore":
        return "--staged" not in options
    if subcommand == "stash" and words[1:2] in (["list"], ["show"], ["drop"]):
        return False
    is_new_branch = len(words) == 2 and bool(options & _NEW_BRANCH_OPTIONS)
    return subcommand in _SWITCHES and not is_new_branch
