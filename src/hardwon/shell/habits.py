"""Name commands by their first words, so that the same habit in other sessions counts as the same."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable

from hardwon.shell.working_commands import READ_ONLY_PROGRAMS, list_working_commands

MAX_WORDS = 3
_SUBCOMMAND = re.compile(r"[a-z][\w:-]*")  # a subcommand or a script's name, no path, no number, no option
_PROGRAM = re.compile(r"[a-z.][\w./+-]*")
_RUNNER_WORDS = frozenset(["run", "exec", "x", "tool", "dlx", "compose"])


def list_first_words(command: str) -> list[str]:
    """Return the programs of a command that do something, with their subcommands: `git commit`, `bun run lint`."""
    names = [_build_habit_name(part.program, part.words) for part in list_working_commands(command)]
    return [name for name in names if name]


def _build_habit_name(program: str, words: tuple[str, ...]) -> str:
    """Return the program with its subcommand, or the path of a project's script; "" if it only shows something.

    After a word such as `run`, the name of what it runs belongs to it too.
    """
    if program in READ_ONLY_PROGRAMS or not _PROGRAM.fullmatch(program):
        return ""
    if words and "/" in words[0] and _PROGRAM.fullmatch(words[0]) and not words[0].startswith(".."):
        return words[0]  # a script of the project
    name_words = [program]
    for word in words[1:]:
        if len(name_words) == MAX_WORDS or not _SUBCOMMAND.fullmatch(word):
            break
        name_words.append(word)
        if word not in _RUNNER_WORDS:
            break
    return " ".join(name_words)


def count_first_words(commands: Iterable[str]) -> Counter[str]:
    """Return for the first words of these commands how many of the commands have them."""
    return Counter(name for command in commands for name in set(list_first_words(command)))
