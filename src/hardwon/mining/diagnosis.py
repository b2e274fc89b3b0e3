"""Diagnose a failed call: the simple command that failed, the word that the error names, and a trigger for both."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from difflib import SequenceMatcher
from functools import lru_cache
from itertools import pairwise
from typing import Any, NamedTuple

from hardwon.agents.transcript_steps import Step
from hardwon.shell.failures import (
    MAX_INSPECTED_CHARS,
    MAX_QUOTE_LENGTH,
    READ_ONLY_PROGRAMS,
    FailureKind,
    classify_line,
    cut_middle,
    extract_message,
    get_command_code,
    list_lines,
    list_simple_commands,
    list_working_commands,
)
from hardwon.shell.parsing import MAX_SIMPLE_COMMANDS, SimpleCommand
from hardwon.text.characters import fold_case
from hardwon.types import EDIT_TOOLS, FILE_TOOLS, SHELL_TOOL, frozen, replace

ZSH_COMMAND_SIGN = "="  # zsh expands a word that starts with it to the path of a command, as in `echo ===`
_MAX_WORD_CHARS = 80
_MIN_NAME_CHARS, _MAX_NAME_CHARS = 3, 160
# Prefixes of shell error messages: `bash: line 1: `, `zsh:1: `, `(eval):cd:1: `, `sh: 1: `.
_SHELL_SPEAKS = re.compile(
    r"^(?:[\w./-]*\b(?:ba|z|da|k)?sh|\(eval\))(?P<builtin>:\w*[a-z]\w*)?:(?: ?(?:line )?\d+:)? ?"
)
_MISSING_PROGRAM = re.compile(
    r"command not found: (?P<zsh>\S+)|(?:^|[\s:])(?P<bash>[^\s:]+): (?:command |applet )?not found$"
    r"|exec: \"(?P<go>[^\"]+)\": executable file not found"
    r"|'?(?P<cmd>[^\s']+)'? is not recognized as (?:an internal|the name)"
)
# How programs call a word unknown, in lower case. It counts only together with a word of the call.
_BLAMES = re.compile(
    r"\bun(?:known|recogni[sz]ed|expected|supported|defined)\b|\b(?:invalid|illegal|ambiguous|malformed|bad|missing)\b"
    r"|\bno (?:such|longer|rule|\S+(?: target)? (?:named|found)\b|task|option)|\bnone of\b|\bhas no\b"
    r"|\bnot (?:an?|found|defined|recogni[sz]ed|supported|valid|allowed|available|exist|have|contain|match|accept)\b"
    r"|\b(?:could|can|was|did|does) ?n[o']t (?:be )?(?:find|found|create|open|exist|have|contain|match|support|accept)"
    r"|n't (?:find|have|exist|support|accept|expected|valid)|\bfailed to (?:spawn|find)|\breplaced by\b"
    r"|\bdid you mean\b|\bnot running\b"
)
# Every such line has one of these, which are found faster than the pattern.
_BLAME_MARKS = (
    *("unknown", "unrecogni", "unexpected", "unsupported", "undefined", "invalid", "illegal", "ambiguous", "malformed"),
    *("bad", "missing", "no ", "none of", "has no", "not ", "n't ", "failed to", "replaced by", "did you mean"),
)
# A complaint about the code under work, also if it calls a name unknown.
_ABOUT_CODE = re.compile(
    r"^\S*\w\.\w{1,5}[:(]\d+|^\s*\d+:\d+\s|^E\s{2,}|\berror\[E\d+\]"
    r"|\b(?:Name|Type|Attribute|Import|Syntax|Reference|Assertion|Key|Value|Index)Error\b"
)
# What a program offers stays as it is tomorrow; a branch, a pod or a file does not.
_OFFERED = re.compile(
    r"\b(?:option|flag|switch|argument|parameter|(?:sub)?command|script|task|target|recipe|rule|goal|phase|choice|operation"
    r"|field|column|table|relation|property|key|variable|type|predicate|primary|preset|feature|service|database|module"
    r"|config|named|package|project|workspace|profile|generator|selector|plugin|environment|signal|mode|dialect|format)s?\b",
    re.I,
)
_MAX_BLAMING_LINES, _FIRST_LINES, _LAST_LINES = 40, 10, 15  # in a longer output only its ends speak of the call
_PROGRAM_NAME = re.compile(r"[A-Za-z_][\w.+@-]*")
_USAGE = re.compile(r"^\s*(?:error: )?usage:\s+(?:\$ )?(\S+)", re.I | re.M)
_QUOTED = r"['\"`‘“](?P<quoted>[^'\"`’”\n]{1,80})['\"`’”]"
_NAMED = re.compile(rf"{_QUOTED}|(?P<option>(?<![^\s'\"`(:,=\[])--?[A-Za-z][\w-]*)|: (?P<last>\S+)(?: not found)?$")
# The word after one of these is at fault, whatever else the error quotes.
_AFTER_NOUN = re.compile(
    r"\b(?:option|flag|argument|(?:sub)?command|parameter|switch|script|target|skill|agent|tool|column|named)s?:? +\(?"
    rf"(?:{_QUOTED}|(?P<option>--?[A-Za-z][\w-]*)|(?:(?<=: )|(?<=named ))(?P<last>\S+))",
    re.I,
)
# The value at fault, also if the error names its option first: `argument --level: invalid choice: 'loud'`.
_WRONG_VALUE = re.compile(
    r"(?:\binvalid (?:choice|value|argument|parameter):? |(?=\W[^'\"`’”\n]{1,80}\W is not (?:one of|a valid)))"
    + _QUOTED,
    re.I,
)
_UNNAMED_OPTION = re.compile(
    r"\b(?:unknown|unrecogni[sz]ed|invalid|illegal) (?:[\w-]+ ){0,2}(?:option|flag|switch)\b", re.I
)
_LETTER_OPTION = re.compile(r"\boption -- '?(\w)\b|\bflag: '(\w)' in -")  # as getopt and Go's pflag write it
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*=")
_LETTER = re.compile(r"-[A-Za-z]")
_COMMAND_WORD = re.compile(r"[\w.:@+/=-]+")
_LINE_WORD = re.compile(r"[^\s'\"`,;()\[\]<>]+")
_PATH_WORD = re.compile(r"/|\.\w{1,5}$")
_WILDCARD = re.compile(r"[*?\[]")
_SUBCOMMAND = re.compile(r"[a-z][a-z0-9]*(?:[:-][a-z0-9]+)*")
_RUNNER_WORDS = frozenset(("run", "exec", "x", "tool", "dlx", "compose"))
_FILE_WORDS = (
    "bash sh zsh python python3 node deno ruby perl php pytest jest tsc tsx eslint prettier mypy curl wget jq yq tar"
    " zip unzip ssh scp rsync cp mv rm mkdir rmdir touch chmod chown ln ps kill pkill which command test make"
)
# The first argument of these programs is a file, a pattern or a host, not a subcommand.
_WITHOUT_SUBCOMMANDS = READ_ONLY_PROGRAMS | frozenset(_FILE_WORDS.split())
_EVERYDAY_WORDS = (
    "add api apply branch build check checkout clean clone commit config create diff exec fetch fmt format get init"
    " install lint list log ls merge pull push rebase remove reset restore rm run show start stash status stop switch"
    " sync tag test up update upgrade version vet view"
)
# Run all day, with or without this mistake: a trigger made only of these would fire too often.
_EVERYDAY_SUBCOMMANDS = frozenset(_EVERYDAY_WORDS.split())
# Stays within one simple command: options may precede a subcommand (`git -C src stash`), anything may precede the word.
_OPTIONS_BETWEEN = r" (?:-[^|;&\n]* )?"
_ANYTHING_BETWEEN, _REST_BETWEEN = r" (?:[^|;&\n]* )?", r"[^|;&\n]* "
# A word with one of these is written differently in the call than it reads after parsing.
_QUOTING_CHARS = frozenset("'\"\\$`<>")
_GLOB_CHARS = re.compile(r"([\\*?\[ ])")
_HANG_WORDS = re.compile(
    r"\btimed out\b|\btimeout (?:of|after|exceeded|expired|reached)\b|deadline exceeded|ETIMEDOUT", re.I
)
_MAX_TAG_CHARS = 40
MIN_NAME_SIMILARITY = 0.6
_PACKAGE_MANAGERS = frozenset(("npm", "pnpm", "yarn", "bun"))  # they run the same scripts


@frozen
class Diagnosis:
    """The failed program, its subcommand, and the word that the error names; each empty if unknown.

    With `is_missing` the word is a program that is not installed.
    """

    program: str = ""
    subcommand: str = ""
    word: str = ""
    is_missing: bool = False
    command: SimpleCommand | None = None

    @property
    def is_argument(self) -> bool:
        """Return whether the word is an option or an address, so that no new file can make it right."""
        return self.word.startswith("-") or "://" in self.word

    def is_named(self, item: str) -> bool:
        """Return whether a word of a call is the named one, with a value or among letters: `-P` in `grep -oP`."""
        if self.is_letter and not item.startswith("--"):
            return re.match(f"-[A-Za-z]*{self.word[1]}", item) is not None
        return item == self.word or item.startswith(self.word)

    @property
    def is_letter(self) -> bool:
        """Return whether the word is an option of one letter, which may be written together with others."""
        return _LETTER.fullmatch(self.word) is not None

    @property
    def is_pattern(self) -> bool:
        """Return whether a shell took the word for a file pattern."""
        return bool(_WILDCARD.search(self.word[-1:]))


def diagnose_failure(call: Step, line: str, text: str) -> Diagnosis:
    """Diagnose a call from the line that names the failure and the result that contains it."""
    if call.tool != SHELL_TOOL:
        return Diagnosis(call.tool, word=_find_argument(call, line))
    command = find_failed_command(call.command, line, text)
    if command is None:
        return Diagnosis()
    if find_missing_program(line) == command.program:
        return Diagnosis(command.program, word=command.program, is_missing=True, command=command)
    word = find_named_word(command, line)
    subcommand = find_subcommand(command, word)
    return Diagnosis(command.program, subcommand, word, command=command)


@lru_cache(maxsize=64)
def find_missing_program(line: str) -> str:
    # Most lines have neither, and finding that out with the pattern takes much longer.
    has_words = "not found" in line or "not recognized" in line
    missing = _MISSING_PROGRAM.search(line) if has_words else None
    program = next(filter(None, missing.groups()), "") if missing else ""
    return program if _PROGRAM_NAME.fullmatch(program) else ""


def find_blaming_line(command: str, text: str) -> str:
    """Return the line of an output that calls a word of the command unknown; "" if there is none."""
    lines = list(list_lines(cut_middle(text)))
    if any(line.startswith("Traceback (most recent") for line in lines):
        return ""  # the program started and failed in its code
    if len(lines) > _MAX_BLAMING_LINES:
        lines = lines[:_FIRST_LINES] + lines[-_LAST_LINES:]
    names = {_fold_option(word.partition("=")[0]) for word in _COMMAND_WORD.findall(command[:MAX_INSPECTED_CHARS])}
    for index, raw_line in enumerate(lines):
        start = fold_case(raw_line[:MAX_QUOTE_LENGTH])
        if not any(mark in start for mark in _BLAME_MARKS) or not _BLAMES.search(start):
            continue
        if " " not in start:  # a value that a script printed: `undefined`
            continue
        nearby_text = _fold_option(" ".join([start, *lines[index + 1 : index + 2]]))
        if not any(name in nearby_text for name in names):  # most lines are about something else
            continue
        line = extract_message(raw_line)
        if _ABOUT_CODE.search(line) or _USAGE.match(line):
            continue
        # Some name the word in the next line: "Unknown switch." and then "Switch: --filtr".
        next_lines = [next_line for next_line in lines[index + 1 : index + 2] if len(next_line) <= _MAX_WORD_CHARS]
        for message in (line, " ".join([line, *next_lines])):
            failed_command = find_failed_command(command, message, text)
            if failed_command and find_named_word(failed_command, message):
                return message
    return ""


def classify_blame(diagnosis: Diagnosis, line: str) -> FailureKind:
    """Return the kind of a failure whose line calls a word of the call unknown."""
    word = diagnosis.word
    if diagnosis.is_argument or diagnosis.is_missing or word in diagnosis.subcommand.split():
        return "interface"
    line_kind = classify_line(line)
    if line_kind in ("path", "interface", "precondition"):
        return line_kind
    if _PATH_WORD.search(word):
        return "path"
    return "interface" if _OFFERED.search(line) else "other"


@lru_cache(maxsize=64)  # asked when the failure is classified, and again when its episode is diagnosed
def find_failed_command(command: str, line: str, text: str) -> SimpleCommand | None:
    """Return the simple command that failed; None if it could be one of several.

    The error line identifies it by the program it starts with, or by a word that only one command has. Otherwise the
    call must have only one command that does work.
    """
    commands = list_simple_commands(command)
    missing_program = find_missing_program(line)
    shell = _SHELL_SPEAKS.match(line)
    spoken = line[shell.end() :] if shell else line
    speakers = [spoken.partition(":")[0].strip().rpartition("/")[2], *_USAGE.findall(text[:MAX_INSPECTED_CHARS])]
    if shell and shell["builtin"]:
        speakers.insert(0, shell["builtin"][1:])
    if missing_program:
        speakers = [missing_program]
    for speaker in speakers:
        if spoken_for := [part for part in commands if part.program == speaker]:
            return max(spoken_for, key=lambda part: bool(find_named_word(part, line)))
        if wrapper := find_wrapper(commands, speaker):
            return wrapper
    working = list_working_commands(command)
    for parts in (working, commands):
        for part in parts:
            if find_named_word(part, line):
                return part
    return working[0] if len({part.program for part in working}) == 1 else None


def find_wrapper(commands: Sequence[SimpleCommand], name: str) -> SimpleCommand | None:
    """Return a wrapper with what it starts, as a command of its own: `timeout 5 make` is read as `make` otherwise."""
    for part in commands:
        if name in part.prefix_words:
            words = (*part.prefix_words[part.prefix_words.index(name) :], *part.words)
            code = " ".join([*words[: len(words) - len(part.words)], part.code])
            return SimpleCommand(name, code, code, part.start, part.end, (), words)
    return None


def find_subcommand(command: SimpleCommand, wrong_option: str = "") -> str:
    """Return the subcommand: `log` of `git -C src log`, `run lint` of `npm run lint`.

    What directly follows the wrong option is taken for its value.
    """
    if command.program in _WITHOUT_SUBCOMMANDS or "." in command.program:
        return ""
    words = _list_literal_words(command)
    is_value = [False, *(word == wrong_option and word.startswith("-") for word in words)]
    bare_words = [word for word, skip in zip(words, is_value, strict=False) if not word.startswith("-") and not skip]
    if not bare_words or not _SUBCOMMAND.fullmatch(bare_words[0]):
        return ""
    if bare_words[0] in _RUNNER_WORDS and len(bare_words) > 1 and _SUBCOMMAND.fullmatch(bare_words[1]):
        return " ".join(bare_words[:2])
    return bare_words[0]


@lru_cache(maxsize=64)
def find_named_word(command: SimpleCommand, line: str) -> str:
    """Return the word of a command that the error names, an option without its value; "" if none."""
    words = [word for word in _list_literal_words(command) if word != command.program]
    names = _find_line_names(line)
    if names.letter:
        return next((f"-{names.letter}" for word in words if re.match(rf"-\w*{names.letter}", word)), "")
    for value in names.wrong_values:
        if any(value in word.partition("=") for word in words):
            return value
    after_nouns, named, is_blame = names.after_nouns, names.named, names.is_blame
    between_colons = line.split(": ")[1:-1] if is_blame else []  # `cat: notes.txt: No such file or directory`
    for token in (*after_nouns, *named, *between_colons):
        if word := _find_word(words, token):
            return word
    # It may be part of a word, such as `--json title,stars`, or inside quotes, such as a query's argument.
    for tokens, is_quoted in ((after_nouns, True), (named, is_blame)):
        searched_text = command.full_text if is_quoted else " ".join(words)
        for token in tokens:
            is_name = len(token) >= _MIN_NAME_CHARS and token != command.program and "/" not in token
            if is_name and token in searched_text and re.search(_bound_word(token), searched_text):
                return token
    if is_blame:
        for line_word in reversed(_LINE_WORD.findall(line)):  # programs name it last: `Invalid operation instal`
            # Git and others start `git-comit` for `git comit`.
            name: str = line_word.rstrip(":.").rpartition("/")[2].removeprefix(f"{command.program}-")
            if len(name) >= _MIN_NAME_CHARS and name in words and name not in _EVERYDAY_SUBCOMMANDS:
                return name
        options = [word for word in words if word.startswith("-")]
        if len(options) == 1 and not after_nouns and not named and _UNNAMED_OPTION.search(line):
            return options[0].partition("=")[0]
    return ""


class _LineNames(NamedTuple):
    """What an error line says, whatever the command: the names in it, and whether it calls one of them unknown."""

    letter: str
    wrong_values: list[str]
    after_nouns: list[str]
    named: list[str]
    is_blame: bool


@lru_cache(maxsize=64)  # a line is compared with each command of a call
def _find_line_names(line: str) -> _LineNames:
    letter_option = _LETTER_OPTION.search(line)
    return _LineNames(
        letter=(letter_option[1] or letter_option[2]) if letter_option else "",
        wrong_values=[match["quoted"] for match in _WRONG_VALUE.finditer(line)],
        after_nouns=_list_tokens(_AFTER_NOUN, line),
        named=_list_tokens(_NAMED, line),
        is_blame=bool(_BLAMES.search(fold_case(line))) and not _ABOUT_CODE.search(line),
    )


def _list_tokens(pattern: re.Pattern[str], line: str) -> list[str]:
    """Return the names that a pattern finds in a line; options without their values."""
    tokens: list[str] = []
    for match in pattern.finditer(line):
        token = (match["quoted"] or match["option"] or match["last"] or "").strip(" '\"`‘’“”,.()")
        tokens.append(token.partition("=")[0] if token.startswith("-") and "*" not in token else token)
    return list(filter(None, tokens))


def _find_word(words: Sequence[str], token: str) -> str:
    for word in words:
        if word == token or (word.startswith("-") and word.partition("=")[0] == token):
            # Compare up to the first wildcard: zsh takes all of `--include=*.go` for a file pattern.
            wildcard = _WILDCARD.search(token)
            return token[: wildcard.end()] if wildcard else token
        if len(token) > 1 and word == f"={token}":
            return ZSH_COMMAND_SIGN
    # Programs name an option without its dashes, or by the name of the variable it sets.
    for word in words:
        option = word.partition("=")[0]
        is_option = option.startswith("-") or option != word
        if is_option and _fold_option(option) == _fold_option(token.partition("=")[0]):
            return option
        if len(word) >= _MIN_NAME_CHARS and token.endswith(f"/{word.removeprefix('./')}"):  # the whole path of a file
            return word
    return ""


def _fold_option(name: str) -> str:
    return name.replace("-", "").replace("_", "").lower()


def _list_literal_words(command: SimpleCommand) -> list[str]:
    words = command.code.split()[1:] if command.end < MAX_INSPECTED_CHARS else command.code.split()[1:-1]
    # Of an option whose value is in quotes the name remains: `--include='*.py'`.
    names = [word if _QUOTING_CHARS.isdisjoint(word) else word.partition("=")[0] for word in words]
    return [name for name in names if len(name) <= _MAX_WORD_CHARS and _QUOTING_CHARS.isdisjoint(name)]


def _find_argument(call: Step, line: str) -> str:
    """Return the argument name that a tool other than the shell does not know."""
    tokens = [*_list_tokens(_AFTER_NOUN, line), *_list_tokens(_NAMED, line)]
    for token in tokens:
        is_name = _MIN_NAME_CHARS <= len(token) <= _MAX_WORD_CHARS
        if is_name and token in call.content and re.search(_bound_word(token), call.content):
            return token
    return ""


def build_triggers(call: Step, diagnosis: Diagnosis, cure: Step | None, *, is_path: bool) -> dict[str, Any]:
    """Build triggers that match the failing call but not successful ones; empty if nothing distinguishes them.

    They combine the program, its subcommand, and the word that the error names or else one that the working call left
    out. A fix that starts the same program in another way, such as `uv run pytest`, must not match.
    """
    if call.tool != SHELL_TOOL:
        return _build_tool_triggers(call, diagnosis.word, cure, is_path=is_path)
    command = diagnosis.command
    # Patterns see a longer command only in pieces.
    is_seen_whole = len(list_simple_commands(call.command)) <= MAX_SIMPLE_COMMANDS
    if command is None or not is_seen_whole or not _PROGRAM_NAME.fullmatch(diagnosis.program):
        return {}
    if diagnosis.is_missing:
        program = _end_word(diagnosis.program)
        is_wrapper = all(part.program != diagnosis.program for part in list_simple_commands(call.command))
        # Patterns see a wrapper such as `timeout` only in the whole command.
        choices = [_build_command_triggers((r"(?:^|[|;&(\n]\s*)" if is_wrapper else "^") + program)]
    else:
        choices = _list_command_triggers(command, diagnosis, cure)
        # If the fix has the same option, its value was wrong: `--std=c99x`.
        for word in _list_literal_words(command):
            if diagnosis.word.startswith("-") and word.startswith(f"{diagnosis.word}="):
                choices += _list_command_triggers(command, replace(diagnosis, word=word), cure)
    if cure and (option := _find_empty_value(command, cure)):
        pattern = rf"\b{_escape(diagnosis.program)}{_ANYTHING_BETWEEN}{_escape(option)} +(?!''|\"\")"
        choices.append(_build_command_triggers(pattern, target="full"))
    if cure:
        choices += _list_assignment_triggers(command, diagnosis, cure)
    for triggers in choices:
        if matches_command(triggers, call.command) and not (cure and matches_command(triggers, cure.command)):
            return triggers
    return {}


def _list_command_triggers(command: SimpleCommand, diagnosis: Diagnosis, cure: Step | None) -> list[dict[str, Any]]:
    words = _list_literal_words(command)
    word, program = diagnosis.word, _escape(diagnosis.program)
    if not word and cure:
        cure_words = {item for part in list_simple_commands(cure.command) for item in part.code.split()}
        word = next((item for item in words if item not in cure_words and _is_telling(item)), "")
    subcommand_words = diagnosis.subcommand.split()
    if word != diagnosis.word:  # the one that the fix left out
        diagnosis = replace(diagnosis, word=word)
    if word and not any(map(diagnosis.is_named, words)):
        pattern = "".join(_OPTIONS_BETWEEN + _end_word(item) for item in subcommand_words)
        pattern += rf" [^|;&]*{_bound_word(word)}"  # a query may have several lines
        targets = ("", "full")
        choices = [_build_command_triggers(rf"\b{program}{pattern}", target=target) for target in targets]
        # A fix with the same words starts the program by its path: `.venv/bin/python -c 'import yaml'`.
        start = _escape(command.words[0])
        return choices + [_build_command_triggers(f"^{start}{pattern}", target=target) for target in targets]
    pattern, rest = "", word
    word_pattern = f"-[A-Za-z]*{word[1]}" if diagnosis.is_letter else _end_word(word) if word else ""
    if diagnosis.is_pattern and "://" in word:  # zsh would do the same to any other address
        word_pattern = rf"https?://[^\s|;&]*{_escape(word[-1])}"
    for item in words:  # in the order of the call
        if item in subcommand_words:
            is_after_word = bool(word) and not rest  # it may have a value: `--colour=always`
            pattern += (_REST_BETWEEN if is_after_word else _OPTIONS_BETWEEN) + _end_word(item)
            subcommand_words.remove(item)
        elif rest and diagnosis.is_named(item):
            pattern += _ANYTHING_BETWEEN + word_pattern
            rest = ""
    anchored = _build_command_triggers(f"^{program}{pattern}")
    if word:
        return [_build_command_triggers(rf"\b{program}{pattern}"), anchored]
    if cure and is_started_otherwise(command, cure.command):  # the program is the wrong word
        start, first_argument = _escape(command.words[0]), command.words[1]
        if not pattern and _SUBCOMMAND.fullmatch(first_argument):
            pattern = _OPTIONS_BETWEEN + _end_word(first_argument)
        return [_build_command_triggers(f"^{start}{pattern}" if pattern else rf"^{start}(?![\w-])")]
    is_everyday = set(diagnosis.subcommand.split()) <= _EVERYDAY_SUBCOMMANDS
    return [] if is_everyday else [_build_command_triggers(rf"\b{program}{pattern}"), anchored]


def _list_assignment_triggers(command: SimpleCommand, diagnosis: Diagnosis, cure: Step) -> list[dict[str, Any]]:
    """Return triggers for a call that the fix runs with a variable: `PYTHONPATH=. python tools/fly.py`."""
    bare_words = [word for word in _list_literal_words(command) if not word.startswith("-")]
    names = diagnosis.subcommand.split() or bare_words[:1]
    for part in list_simple_commands(cure.command):
        new_words = [word for word in part.prefix_words if word not in command.prefix_words]
        variables = [match[0] for word in new_words if (match := _ASSIGNMENT.match(word))]
        if part.words == command.words and variables and names:
            pattern = "".join(_OPTIONS_BETWEEN + _end_word(name) for name in names)
            triggers = _build_command_triggers(f"^{_escape(command.words[0])}{pattern}")
            return [{**triggers, "unless": [rf"\b{variables[0]}"]}]
    return []


def _find_empty_value(command: SimpleCommand, cure: Step) -> str:
    """Return an option that the fix gives an empty value: BSD's `sed -i ''`."""
    for part in list_simple_commands(cure.command):
        if part.program != command.program:
            continue
        for option, value in pairwise(part.words):
            if option.startswith("-") and not value and (option, value) not in pairwise(command.words):
                return option if option in command.words else ""
    return ""


def is_started_otherwise(command: SimpleCommand, other_command: str) -> bool:
    """Return whether another command runs the same arguments with another start: `uv run`, a path, `pnpm` for `npm`."""
    arguments = command.words[1:]
    if not arguments or command.program in READ_ONLY_PROGRAMS:
        return False
    for part in list_simple_commands(other_command):
        if part.words[: len(command.words)] == command.words or part.words[-len(arguments) :] != arguments:
            continue
        starting_words = part.words[: -len(arguments)]
        names = [word.rpartition("/")[2] for word in starting_words]
        if command.program in names or any(_is_variant(command.program, name) for name in names):
            return True
    return False


def _is_variant(program: str, other_program: str) -> bool:
    """Return whether two programs do the same work: `python` and `python3`, `npm` and `yarn`."""
    if {program, other_program} <= _PACKAGE_MANAGERS:
        return True
    return SequenceMatcher(None, program, other_program).ratio() >= MIN_NAME_SIMILARITY


def _build_command_triggers(pattern: str, *, target: str = "") -> dict[str, Any]:
    triggers: dict[str, Any] = {"toolNames": [SHELL_TOOL], "commandPatterns": [pattern]}
    return {**triggers, "commandMatchTarget": target} if target else triggers


def _is_telling(word: str) -> bool:
    """Return whether a word that the working call lacks can be the mistake: an option or name, no path or number."""
    return word.startswith("-") or bool(_SUBCOMMAND.fullmatch(word) and word not in _EVERYDAY_SUBCOMMANDS)


def _build_tool_triggers(call: Step, word: str, cure: Step | None, *, is_path: bool) -> dict[str, Any]:
    if call.tool in FILE_TOOLS:
        name = call.path.replace("\\", "/").rpartition("/")[2]
        is_usable = is_path and call.tool not in EDIT_TOOLS and name.strip(".") and len(name) <= _MAX_NAME_CHARS
        escaped_name = _GLOB_CHARS.sub(r"\\\1", name)
        return {"toolNames": [call.tool], "pathPatterns": [f"**/{escaped_name}"]} if is_usable else {}
    if not word:
        return {}
    pattern = rf"^{_escape(word)}(?:\n|$)" if call.content.partition("\n")[0] == word else _bound_word(word)
    if cure and cure.tool == call.tool and re.search(pattern, cure.content):
        return {}
    return {"toolNames": [call.tool], "contentPatterns": [pattern]}


def matches_command(triggers: Mapping[str, Any], command: str) -> bool:
    """Return whether a trigger's pattern matches one of the simple commands of a call, or the whole."""
    is_full = triggers.get("commandMatchTarget") == "full"
    views = [(command if is_full else get_command_code(command), command)]
    for part in list_simple_commands(command):
        view = part.full_text if is_full else " ".join(part.code.split())
        views.append((view, command[part.start : part.end]))
    patterns, exceptions = triggers.get("commandPatterns", ()), triggers.get("unless", ())
    return any(
        any(re.search(pattern, view) for pattern in patterns)
        and not any(re.search(exception, source_text) for exception in exceptions)
        for view, source_text in views
    )


def _bound_word(word: str) -> str:
    """Build a pattern that matches the word only as a whole, as far as its ends allow."""
    return (r"\b" if re.match(r"\w", word[0]) else "") + _end_word(word)


def _end_word(word: str) -> str:
    return _escape(word) + (r"(?![\w-])" if re.match(r"\w", word[-1]) else "")


def _escape(word: str) -> str:
    return re.escape(word).replace(r"\-", "-")


def list_tags(diagnosis: Diagnosis, call: Step, line: str) -> tuple[str, ...]:
    """Return the certain tags as category:value: the program, and whether it hung."""
    program = diagnosis.program if call.tool == SHELL_TOOL else ""
    tags = [f"tool:{program}"] if _PROGRAM_NAME.fullmatch(program) and len(program) <= _MAX_TAG_CHARS else []
    return tuple([*tags, "severity:hang"] if _HANG_WORDS.search(line) else tags)
