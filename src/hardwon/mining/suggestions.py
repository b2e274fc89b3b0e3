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

_MAX_TEXT_CHARS = 160
_MAX_ARGUMENTS = 4
_MAX_WORD_CHARS = 80

# For everything: a lesson that spoke up at each of them would be in the way.
_EVERYDAY_WORDS = (
    "git gh npm npx pnpm yarn bun bunx node deno tsc python pip pip3 uv uvx poetry pytest ruff mypy go cargo rustc make"
    " cmake docker docker-compose kubectl terraform aws gcloud az java mvn gradle ruby bundle rake php composer dotnet"
    " swift perl jest vitest eslint prettier cd ls cat echo printf grep rg sed awk find head tail sort uniq wc cut tr"
    " tee xargs diff cp mv rm mkdir rmdir touch chmod chown ln stat file which command test true false sleep kill ps"
    " env export set unset source bash sh zsh sudo ssh scp rsync curl wget jq tar unzip zip date pwd timeout mktemp"
)
EVERYDAY_PROGRAMS = frozenset(_EVERYDAY_WORDS.split())
_LANGUAGE_SUFFIXES = {
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
_LANGUAGE_PROGRAMS = {
    "python": "pytest pip pip3 mypy ruff uv uvx poetry pipx tox",
    "typescript": "tsc tsx ts-node",
    "go": "go gofmt golangci-lint",
    "rust": "cargo rustc rustup",
    "ruby": "ruby bundle rake rspec gem",
    "java": "java javac mvn",
    "php": "php composer phpunit",
    "swift": "swift swiftc",
}
_LANGUAGE_BY_SUFFIX = {
    suffix: language for language, suffixes in _LANGUAGE_SUFFIXES.items() for suffix in suffixes.split()
}
_LANGUAGE_BY_PROGRAM = {
    program: language for language, programs in _LANGUAGE_PROGRAMS.items() for program in programs.split()
}
_PYTHON_PROGRAM = re.compile(r"python[\d.]*")
_HANG_WORDS = re.compile(
    r"\btimed out\b|\btimeout (?:of|after|exceeded|expired|reached)\b|deadline exceeded|ETIMEDOUT", re.I
)
_TAG_VALUE = re.compile(r"[^\s:,]{1,40}")
_WORD_CHAR = re.compile(r"\w")
_LETTER_OPTION = re.compile(r"\boption -- '?(\w)\b")  # as getopt says it
_PROGRAM_NAME = re.compile(r"[\w.@+-]*[A-Za-z][\w.@+-]*")
_SUBCOMMAND = re.compile(r"[a-z][\w:-]*")
# A word with one of these reads otherwise in the command than in what patterns see of it.
_QUOTING_CHARS = frozenset("'\"\\$`<>")
_GLOB_CHARS, _ESCAPED_CHAR = re.compile(r"([\\*?\[ ])"), r"\\\1"


def suggest_problem(failing_call: Step, quote: str, refusal: str) -> str:
    call = _describe_call(failing_call)
    if refusal:
        return f"{call} was refused: {_shorten_text(refusal)}"
    return f"{call} fails: {quote}" if quote else f"{call} fails"


def suggest_solution(
    failing_call: Step,
    working_call: Step | None,
    removed: Sequence[str],
    added: Sequence[str],
    reason: str,
    person_words: str,
) -> str:
    """A person's words first, then the reason the agent gave, then the call that worked and what is different in it."""
    sentences = [_shorten_text(person_words, MAX_QUOTE_LENGTH)] if person_words else [reason] if reason else []
    if working_call:
        changes = [
            f"{verb} {_format_arguments(arguments)}"
            for verb, arguments in (("without", removed), ("with", added))
            if arguments
        ]
        change = f" ({', '.join(changes)})" if changes and failing_call.tool == working_call.tool else ""
        sentences.append(f"{_describe_call(working_call)} worked{change}")
    return ". ".join(sentence.rstrip(".") for sentence in sentences)


def suggest_trigger(failing_call: Step, removed: Sequence[str], quote: str) -> str:
    """What tells the failing call: for a command a regex that matches it, for a file a glob; nothing if too little."""
    if failing_call.tool == "Bash":
        return _build_command_trigger(failing_call.command, removed, quote)
    if failing_call.command:  # patterns are asked of no other tool's commands
        return ""
    name = failing_call.path.replace("\\", "/").rpartition("/")[2]
    stem, _, suffix = name.rpartition(".")
    if stem and suffix.isalnum():
        return f"**/*.{suffix}"
    return f"**/{_GLOB_CHARS.sub(_ESCAPED_CHAR, name)}" if name.strip(".") and len(name) <= _MAX_TEXT_CHARS else ""


def suggest_tags(failing_call: Step, quote: str) -> tuple[str, ...]:
    """What is known for sure, as category:value: the program, the language, and that it hung."""
    parts = _find_failed_commands(failing_call.command, quote) if failing_call.tool == "Bash" else []
    program = parts[0].program if parts else ""
    if _PYTHON_PROGRAM.fullmatch(program):
        language = "python"
    elif failing_call.tool in EDIT_TOOLS:
        language = _LANGUAGE_BY_SUFFIX.get(failing_call.path.rpartition(".")[2].lower(), "")
    else:
        language = _LANGUAGE_BY_PROGRAM.get(program, "")
    tool = program if _TAG_VALUE.fullmatch(program) else ""
    tags = (("tool", tool), ("lang", language), ("severity", "hang" if _HANG_WORDS.search(quote) else ""))
    return tuple(f"{category}:{value}" for category, value in tags if value)


def _build_command_trigger(command: str, removed: Sequence[str], quote: str) -> str:
    """The program and what in it the error names or the cure left out, else its subcommand.

    It matches by the way it is made: both are taken, in order, from what patterns are asked of. A command that is too
    long to be seen whole there is asked as it is written as well.
    """
    parts = _find_failed_commands(command, quote)
    program = parts[0].program if parts else ""
    if not 0 < len(program) <= _MAX_WORD_CHARS or program not in command:
        return ""
    word_lists = [words for words in map(_split_words, parts) if words and words[0].endswith(program)]
    if not word_lists:
        return ""
    _, *words = max(
        word_lists, key=lambda words: bool(_find_named_words(_select_literal_words(words[1:], command), quote))
    )
    chosen_word = _choose_word(_select_literal_words(words, command), removed, quote)
    if not chosen_word:
        trigger = (
            "" if program in EVERYDAY_PROGRAMS or _PYTHON_PROGRAM.fullmatch(program) else _build_word_pattern(program)
        )
    else:
        gap = r"\s+" if chosen_word in (words[0], words[0].partition("=")[0]) else r"\s(?:.*\s)?"
        trigger = _build_word_pattern(program) + gap + _build_word_pattern(chosen_word).removeprefix(r"\b")
    is_fully_visible = len(command) < MAX_INSPECTED_CHARS and len(list_simple_commands(command)) <= MAX_SIMPLE_COMMANDS
    return trigger if is_fully_visible or re.search(trigger, command) else ""


def _find_failed_commands(command: str, quote: str) -> list[SimpleCommand]:
    """The simple commands of the program that failed: the one the line begins with, else the first that does work."""
    quoted_program = quote.partition(":")[0].rpartition("/")[2]
    commands = (
        [part for part in list_simple_commands(command) if part.program == quoted_program]
        if _PROGRAM_NAME.fullmatch(quoted_program)
        else []
    )
    program = "" if commands else find_failed_program(command, quote)
    return commands or [part for part in list_working_commands(command) if part.program == program and program]


def _split_words(part: SimpleCommand) -> list[str]:
    """What patterns see of it, word by word; where the command was cut the last word may be half a word."""
    words = [word.rstrip("'\"") for word in part.code.split()]
    return words if part.end < MAX_INSPECTED_CHARS else words[:-1]


def _select_literal_words(words: Sequence[str], command: str) -> list[str]:
    short_words = (word for word in words if 0 < len(word) <= _MAX_WORD_CHARS)
    return [word for word in short_words if _QUOTING_CHARS.isdisjoint(word) and word in command]


def _find_named_words(words: Sequence[str], quote: str) -> list[str]:
    """What the line that names the failure says of the words, options without their values too."""
    forms = [form for word in words for form in (word, word.partition("=")[0]) if len(form) > 1]
    named_words = [form for form in forms if _has_word(form, quote)]
    if letter := _LETTER_OPTION.search(quote):
        named_words += [word for word in words if re.fullmatch(rf"-\w*{letter[1]}\w*", word)]
    return named_words


def _choose_word(words: Sequence[str], removed: Sequence[str], quote: str) -> str:
    removed_words = [word for word in words if word in removed]
    subcommands = [word for word in words if not word.startswith("-")][:1]
    choices = (
        _find_named_words(words, quote)
        or removed_words
        or [word for word in subcommands if _SUBCOMMAND.fullmatch(word)]
    )
    return choices[0] if choices else ""


def _has_word(word: str, text: str) -> bool:
    """Whether a text has a word that is no part of a longer one."""
    position = text.find(word)
    while position >= 0:
        preceding, following = (
            text[position - 1 : position] if position else "",
            text[position + len(word) : position + len(word) + 1],
        )
        if not (_is_joined(preceding, word[0]) or _is_joined(word[-1], following)):
            return True
        position = text.find(word, position + 1)
    return False


def _is_joined(first: str, second: str) -> bool:
    return bool(_WORD_CHAR.match(first) and _WORD_CHAR.match(second))


def _build_word_pattern(word: str) -> str:
    """A pattern for a word that is no part of a longer one, as far as its ends can tell."""
    start, end = (r"\b" if _WORD_CHAR.match(char) else "" for char in (word[0], word[-1]))
    return f"{start}{re.escape(word)}{end}"


def _describe_call(call: Step) -> str:
    if call.command:
        return f"`{_shorten_text(call.command)}`"
    return f"{call.tool} on {call.path}" if call.path else call.tool


def _format_arguments(arguments: Sequence[str]) -> str:
    more = [f"{len(arguments) - _MAX_ARGUMENTS} more"] if len(arguments) > _MAX_ARGUMENTS else []
    return ", ".join([f"`{_shorten_text(argument, 60)}`" for argument in arguments[:_MAX_ARGUMENTS]] + more)


def _shorten_text(text: str, max_chars: int = _MAX_TEXT_CHARS) -> str:
    line = " ".join(text.split())
    return line if len(line) <= max_chars else line[: max_chars - 1].rstrip() + "…"
