"""Commands by their first words, so that the same habit in other sessions counts as the same."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable

from hardwon.shell.failures import READ_ONLY_PROGRAMS, list_working_commands

MAX_WORDS = 3
_A_WORD = re.compile(r"[a-z][\w:-]*")  # a subcommand or a script's name, no path, no number, no option
_A_PROGRAM = re.compile(r"[a-z.][\w./+-]*")
_RUN_OTHERS = frozenset(["run", "exec", "x", "tool", "dlx", "compose"])


def list_first_words(command: str) -> list[str]:
    """The programs of a command that do something, each with what it is told to do: `git commit`, `bun run lint`."""
    return [name for part in list_working_commands(command) if (name := _name(part.program, part.words))]


def _name(program: str, words: tuple[str, ...]) -> str:
    if program in READ_ONLY_PROGRAMS or not _A_PROGRAM.fullmatch(program):
        return ""
    if words and "/" in words[0] and _A_PROGRAM.fullmatch(words[0]) and not words[0].startswith(".."):
        return words[0]  # a script of the project
    named = [program]
    for one in words[1:]:
        if len(named) == MAX_WORDS or not _A_WORD.fullmatch(one):
            break
        named.append(one)
        if one not in _RUN_OTHERS:
            break
    return " ".join(named)


def count_first_words(commands: Iterable[str]) -> Counter[str]:
    """How many of the commands have each first words."""
    return Counter(name for command in commands for name in set(list_first_words(command)))
