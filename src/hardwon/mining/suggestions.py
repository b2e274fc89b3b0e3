"""The first wording of a lesson: a person or a reader rewrites it, so it says what was seen and no more."""

from __future__ import annotations

import re
from collections.abc import Sequence

from hardwon.agents.transcript_steps import Step
from hardwon.shell.failures import (
    MAX_INSPECTED_CHARS,
    MAX_QUOTE_LENGTH,
    find_failed_program,
    list_simple_commands,
    list_working_commands,
)
from hardwon.shell.parsing import MAX_SIMPLE_COMMANDS, SimpleCommand
from hardwon.types import EDIT_TOOLS

_SHORT = 160
_SHOWN = 4
_LONGEST_WORD = 80

# For everything: a lesson that spoke up at each of them would be in the way.
_RUN_ALL_DAY = (
    "git gh npm npx pnpm yarn bun bunx node deno tsc python pip pip3 uv uvx poetry pytest ruff mypy go cargo rustc make"
    " cmake docker docker-compose kubectl terraform aws gcloud az java mvn gradle ruby bundle rake php composer dotnet"
    " swift perl jest vitest eslint prettier cd ls cat echo printf grep rg sed awk find head tail sort uniq wc cut tr"
    " tee xargs diff cp mv rm mkdir rmdir touch chmod chown ln stat file which command test true false sleep kill ps"
    " env export set unset source bash sh zsh sudo ssh scp rsync curl wget jq tar unzip zip date pwd timeout mktemp"
)
EVERYDAY_PROGRAMS = frozenset(_RUN_ALL_DAY.split())
_LANGUAGES = {
    "python": "py pyi ipynb",
    "typescript": "ts tsx mts cts",
    "javascript": "js jsx mjs cjs",
    "go": "go",
    "rust": "rs",
    "ruby": "rb",
    "java": "java",
    "kotlin": "kt kts",
    "swift": "swift",
    "c": "c h",
    "cpp": "cc cpp cxx hpp",
    "csharp": "cs",
    "php": "php",
    "shell": "sh bash zsh",
    "sql": "sql",
}
# Only what is used for one language and no other.
_SPOKEN_BY = {
    "python": "pytest pip pip3 mypy ruff uv uvx poetry pipx tox",
    "typescript": "tsc tsx ts-node",
    "go": "go gofmt golangci-lint",
    "rust": "cargo rustc rustup",
    "ruby": "ruby bundle rake rspec gem",
    "java": "java javac mvn",
    "php": "php composer phpunit",
    "swift": "swift swiftc",
}
_BY_SUFFIX = {suffix: language for language, suffixes in _LANGUAGES.items() for suffix in suffixes.split()}
_BY_PROGRAM = {program: language for language, programs in _SPOKEN_BY.items() for program in programs.split()}
_PYTHON = re.compile(r"python[\d.]*")
_HANGS = re.compile(
    r"\btimed out\b|\btimeout (?:of|after|exceeded|expired|reached)\b|deadline exceeded|ETIMEDOUT", re.I
)
_TAGGED = re.compile(r"[^\s:,]{1,40}")
_LETTER = re.compile(r"\w")
_LETTER_OPTION = re.compile(r"\boption -- '?(\w)\b")  # as getopt says it
_PROGRAM = re.compile(r"[\w.@+-]*[A-Za-z][\w.@+-]*")
_NAME = re.compile(r"[a-z][\w:-]*")
# A word with one of these reads otherwise in the command than in what patterns see of it.
_UNLIKE = frozenset("'\"\\$`<>")
_IN_GLOBS, _ESCAPED = re.compile(r"([\\*?\[ ])"), r"\\\1"


def suggest_problem(failing: Step, quote: str, refusal: str) -> str:
    call = _shown(failing)
    if refusal:
        return f"{call} was refused: {_short(refusal)}"
    return f"{call} fails: {quote}" if quote else f"{call} fails"


def suggest_solution(
    failing: Step,
    working_call: Step | None,
    removed: Sequence[str],
    added: Sequence[str],
    reason: str,
    person_words: str,
) -> str:
    """A person's words first, then the reason the agent gave, then the call that worked and what is different in it."""
    said = [_short(person_words, MAX_QUOTE_LENGTH)] if person_words else [reason] if reason else []
    if working_call:
        changes = [f"{verb} {_listed(what)}" for verb, what in (("without", removed), ("with", added)) if what]
        change = f" ({', '.join(changes)})" if changes and failing.tool == working_call.tool else ""
        said.append(f"{_shown(working_call)} worked{change}")
    return ". ".join(each.rstrip(".") for each in said)


def suggest_trigger(failing: Step, removed: Sequence[str], quote: str) -> str:
    """What tells the failing call: for a command a regex that matches it, for a file a glob; nothing if too little."""
    if failing.tool == "Bash":
        return _command_trigger(failing.command, removed, quote)
    if failing.command:  # patterns are asked of no other tool's commands
        return ""
    name = failing.path.replace("\\", "/").rpartition("/")[2]
    stem, _, suffix = name.rpartition(".")
    if stem and suffix.isalnum():
        return f"**/*.{suffix}"
    return f"**/{_IN_GLOBS.sub(_ESCAPED, name)}" if name.strip(".") and len(name) <= _SHORT else ""


def suggest_tags(failing: Step, quote: str) -> tuple[str, ...]:
    """What is known for sure, as category:value: the program, the language, and that it hung."""
    parts = _failed(failing.command, quote) if failing.tool == "Bash" else []
    program = parts[0].program if parts else ""
    if _PYTHON.fullmatch(program):
        language = "python"
    elif failing.tool in EDIT_TOOLS:
        language = _BY_SUFFIX.get(failing.path.rpartition(".")[2].lower(), "")
    else:
        language = _BY_PROGRAM.get(program, "")
    tool = program if _TAGGED.fullmatch(program) else ""
    known = (("tool", tool), ("lang", language), ("severity", "hang" if _HANGS.search(quote) else ""))
    return tuple(f"{category}:{value}" for category, value in known if value)


def _command_trigger(command: str, removed: Sequence[str], quote: str) -> str:
    """The program and what in it the error names or the cure left out, else its subcommand.

    It matches by the way it is made: both are taken, in order, from what patterns are asked of. A command that is too
    long to be seen whole there is asked as it is written as well.
    """
    parts = _failed(command, quote)
    program = parts[0].program if parts else ""
    if not 0 < len(program) <= _LONGEST_WORD or program not in command:
        return ""
    ways = [words for words in map(_words, parts) if words and words[0].endswith(program)]
    if not ways:
        return ""
    _, *words = max(ways, key=lambda words: bool(_named(_known(words[1:], command), quote)))
    chosen = _chosen(_known(words, command), removed, quote)
    if not chosen:
        trigger = "" if program in EVERYDAY_PROGRAMS or _PYTHON.fullmatch(program) else _bounded(program)
    else:
        gap = r"\s+" if chosen in (words[0], words[0].partition("=")[0]) else r"\s(?:.*\s)?"
        trigger = _bounded(program) + gap + _bounded(chosen).removeprefix(r"\b")
    seen = len(command) < MAX_INSPECTED_CHARS and len(list_simple_commands(command)) <= MAX_SIMPLE_COMMANDS
    return trigger if seen or re.search(trigger, command) else ""


def _failed(command: str, quote: str) -> list[SimpleCommand]:
    """The simple commands of the program that failed: the one the line begins with, else the first that does work."""
    said = quote.partition(":")[0].rpartition("/")[2]
    found = [part for part in list_simple_commands(command) if part.program == said] if _PROGRAM.fullmatch(said) else []
    program = "" if found else find_failed_program(command, quote)
    return found or [part for part in list_working_commands(command) if part.program == program and program]


def _words(part: SimpleCommand) -> list[str]:
    """What patterns see of it, word by word; where the command was cut the last word may be half a word."""
    words = [word.rstrip("'\"") for word in part.code.split()]
    return words if part.end < MAX_INSPECTED_CHARS else words[:-1]


def _known(words: Sequence[str], command: str) -> list[str]:
    short = (word for word in words if 0 < len(word) <= _LONGEST_WORD)
    return [word for word in short if _UNLIKE.isdisjoint(word) and word in command]


def _named(words: Sequence[str], quote: str) -> list[str]:
    """What the line that names the failure says of the words, options without their values too."""
    forms = [form for word in words for form in (word, word.partition("=")[0]) if len(form) > 1]
    named = [form for form in forms if _in(form, quote)]
    if letter := _LETTER_OPTION.search(quote):
        named += [word for word in words if re.fullmatch(rf"-\w*{letter[1]}\w*", word)]
    return named


def _chosen(words: Sequence[str], removed: Sequence[str], quote: str) -> str:
    left_out = [word for word in words if word in removed]
    subcommand = [word for word in words if not word.startswith("-")][:1]
    found = _named(words, quote) or left_out or [word for word in subcommand if _NAME.fullmatch(word)]
    return found[0] if found else ""


def _in(word: str, text: str) -> bool:
    """Whether a text has a word that is no part of a longer one."""
    at = text.find(word)
    while at >= 0:
        before, after = text[at - 1 : at] if at else "", text[at + len(word) : at + len(word) + 1]
        if not (_joins(before, word[0]) or _joins(word[-1], after)):
            return True
        at = text.find(word, at + 1)
    return False


def _joins(left: str, right: str) -> bool:
    return bool(_LETTER.match(left) and _LETTER.match(right))


def _bounded(word: str) -> str:
    """A pattern for a word that is no part of a longer one, as far as its ends can tell."""
    start, end = (r"\b" if _LETTER.match(sign) else "" for sign in (word[0], word[-1]))
    return f"{start}{re.escape(word)}{end}"


def _shown(call: Step) -> str:
    if call.command:
        return f"`{_short(call.command)}`"
    return f"{call.tool} on {call.path}" if call.path else call.tool


def _listed(arguments: Sequence[str]) -> str:
    more = [f"{len(arguments) - _SHOWN} more"] if len(arguments) > _SHOWN else []
    return ", ".join([f"`{_short(argument, 60)}`" for argument in arguments[:_SHOWN]] + more)


def _short(text: str, most: int = _SHORT) -> str:
    line = " ".join(text.split())
    return line if len(line) <= most else line[: most - 1].rstrip() + "…"
