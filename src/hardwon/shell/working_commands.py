"""Find and name the simple commands that do the work in a call, beside those that change folder, filter or show."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from functools import lru_cache

from hardwon.shell.parsing import SHELLS, SimpleCommand, extract_code, parse_simple_commands, parse_with_code

_MAX_PARSED_CHARS = 4_000  # a longer command is a script; its beginning says what it is about
# With a value `-h` is a host: `psql -h localhost`.
_ASKS_FOR_HELP = re.compile(
    r"\s(?:--help|--version)(?:\s|$)|\s-h\s*(?:$|[|;&)>\n]|\d>)|(?<![\w-])(?:man|which|type|command -v)\s|\bhelp\b"
)
_MAY_ASK_FOR_HELP = re.compile(r"help|-h|--version|(?:man|which|type|command -v)\s")
_REPORTERS = "git gh curl docker kubectl journalctl rg find ls less bat diff tree"  # show what others wrote
_FILTERS = (
    "cd echo head tail grep sed awk sort uniq wc cat tee true xargs cut tr printf export set sleep pwd Set-Location"
    " Select-String Select-Object Where-Object ForEach-Object Measure-Object Out-File Write-Output Get-Content"
)
_VIEWERS = "ls find rg tree less file stat which diff nl od Get-ChildItem Test-Path"
REPORTING_PROGRAMS = frozenset(_REPORTERS.split())
FILTER_PROGRAMS = frozenset(_FILTERS.split())
READ_ONLY_PROGRAMS = FILTER_PROGRAMS | frozenset(_VIEWERS.split())
_MAX_HABIT_WORDS = 3  # of the name of a command that sessions are compared by
_SUBCOMMAND = re.compile(r"[a-z][\w:-]*")  # a subcommand or a script's name, no path, no number, no option
_PROGRAM = re.compile(r"[a-z.][\w./+-]*")
_RUNNER_WORDS = frozenset(["run", "exec", "x", "tool", "dlx", "compose"])


@lru_cache(maxsize=256)  # a call is compared with every open episode
def _parse_start(command: str) -> tuple[list[SimpleCommand], str]:
    """Return the simple commands and the code of a command's beginning."""
    start = command[:_MAX_PARSED_CHARS]
    parsed = parse_with_code(start)
    if parsed is None:  # too many commands to be parsed at once
        parsed = parse_simple_commands(start), extract_code(start)
    commands, code = parsed
    spans = Counter((part.start, part.end) for part in commands)
    # The commands in `bash -lc '…'` have the shell's span. What fails is one of them, and not the shell.
    parts = [part for part in commands if part.program not in SHELLS or spans[part.start, part.end] == 1]
    return parts, code


def list_simple_commands(command: str) -> list[SimpleCommand]:
    """Return the simple commands in the beginning of a command; of `bash -c '…'` those inside, without the shell."""
    simple_commands, _ = _parse_start(command)
    return simple_commands


def get_command_code(command: str) -> str:
    """Return the beginning of a command without comments and the text of quotes and heredocs."""
    _, code = _parse_start(command)
    return code


def asks_for_help(command: str) -> bool:
    """Return whether a command only asks about a program: `--help`, `man`, `which`."""
    # The raw text is searched first: parsing is slow, and few commands contain such a word.
    return bool(_MAY_ASK_FOR_HELP.search(command) and _ASKS_FOR_HELP.search(get_command_code(command)))


def list_working_commands(command: str) -> list[SimpleCommand]:
    """Return the simple commands that do the work; changes of folder and filters only if there is nothing else."""
    parts = list_simple_commands(command)
    return [part for part in parts if part.program not in FILTER_PROGRAMS] or parts


@lru_cache(maxsize=256)  # a call is compared with every open episode
def is_read_only(command: str) -> bool:
    """Return whether all programs of the command only show what is there."""
    return all(part.program in READ_ONLY_PROGRAMS for part in list_simple_commands(command))


def list_first_words(command: str) -> list[str]:
    """Return the programs of a command that do something, with their subcommands: `git commit`, `bun run lint`.

    The same habit in other sessions has the same name.
    """
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
        if len(name_words) == _MAX_HABIT_WORDS or not _SUBCOMMAND.fullmatch(word):
            break
        name_words.append(word)
        if word not in _RUNNER_WORDS:
            break
    return " ".join(name_words)


def count_first_words(commands: Iterable[str]) -> Counter[str]:
    """Return for the first words of these commands how many of the commands have them."""
    return Counter(name for command in commands for name in set(list_first_words(command)))
