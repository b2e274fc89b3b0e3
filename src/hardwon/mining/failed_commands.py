"""Diagnose a failed call: which simple command failed, and which of its words the error names."""

from __future__ import annotations

import re
from collections.abc import Sequence
from difflib import SequenceMatcher, get_close_matches
from functools import lru_cache
from itertools import pairwise, takewhile

from hardwon.agents.fields import PARAMETERS_MARK
from hardwon.agents.transcript_steps import Step
from hardwon.shell.complaints import QUOTED, find_blame_marks, fold_name, is_blame, is_noun, list_named_words
from hardwon.shell.failures import (
    MAX_INSPECTED_CHARS,
    MAX_QUOTE_LENGTH,
    FailureKind,
    classify_line,
    cut_middle,
    extract_message,
    list_lines,
)
from hardwon.shell.parsing import SimpleCommand
from hardwon.shell.working_commands import READ_ONLY_PROGRAMS, list_simple_commands, list_working_commands
from hardwon.types import SHELL_TOOL, frozen

ZSH_COMMAND_SIGN = "="  # zsh expands a word that starts with it to the path of a command, as in `echo ===`
_MAX_WORD_CHARS = 80
_MAX_SUBCOMMANDS = 3  # `gcloud run services describe`
_MAX_NOUNS = 3  # words of an error before the name, which say what it is: "package ID specification `core`"
_MIN_NAME_CHARS = 3
# Prefixes of shell error messages: `bash: line 1: `, `zsh:1: `, `(eval):cd:1: `, `sh: 1: `.
_SHELL_SPEAKS = re.compile(
    r"^(?:[\w./-]*\b(?:ba|z|da|k)?sh|\(eval\))(?P<builtin>:\w*[a-z]\w*)?:(?: ?(?:line )?\d+:)? ?"
)
_MISSING_PROGRAM = re.compile(
    r"command not found: (?P<zsh>\S+)|(?:^|[\s:])(?P<bash>[^\s:]+): (?:command |applet )?not found$"
    r"|exec: \"(?P<go>[^\"]+)\": executable file not found"
    r"|'?(?P<cmd>[^\s']+)'? is not recognized as (?:an internal|the name)"
)
# What a program offers stays as it is tomorrow; a branch, a pod or a file does not.
_OFFERED = re.compile(
    r"\b(?:option|flag|switch|argument|parameter|(?:sub)?command|script|task|target|recipe|rule|goal|phase|choice|operation"
    r"|field|column|table|relation|propert(?:y|ie)|key|variable|type|predicate|primary|preset|feature|service|database|module"
    r"|config|named|package|project|workspace|profile|generator|selector|plugin|environment|signal|mode|dialect|format"
    r"|role)s?\b",
    re.I,
)
_MAX_BLAMING_LINES, _FIRST_LINES, _LAST_LINES = 40, 10, 15  # in a longer output only its ends speak of the call
PROGRAM_NAME = re.compile(r"[A-Za-z_][\w.+@-]*")
# Blanks but no newlines at the start: `^\s*` would search a run of empty lines again from each of them.
_USAGE = re.compile(r"^[^\S\n]*(?:error: )?usage:\s+(?:\$ )?(\S+)", re.I | re.M)
# The value at fault, also if the error names its option first: `argument --level: invalid choice: 'loud'`.
_WRONG_VALUE = re.compile(
    r"(?:\binvalid (?:choice|value|argument|parameter):? |(?=\W[^'\"`’”\n]{1,80}\W is not (?:one of|a valid)))"
    + QUOTED,
    re.I,
)
_ABSENT_PARAMETER = re.compile(
    r"\b(?:missing|required)(?: required)? (?:parameter|argument|property|field|key)s?:? ['\"`]?(\w+)"
    r"|['\"`](\w+)['\"`] is (?:a )?required|(\w+):? +(?:Field required|Required\b)"
    r"|(\w+) +Missing required (?:\w+ ){0,2}argument\b"  # pydantic has the name in a line of its own
)
_EXTRA_PARAMETER = re.compile(r"(\w+) +(?:Unexpected keyword argument|Extra inputs are not permitted)")
_WRONG_TYPE = re.compile(r"\b(?:not of type|expected type|must be of type|input should be a)\b", re.I)
_UNNAMED_OPTION = re.compile(
    r"\b(?:unknown|unrecogni[sz]ed|in(?:valid|correct)|illegal) (?:[\w-]+ ){0,2}(?:option|flag|switch)s?\b",
    re.I,
)
# The valid ones follow, and the wrong one is not named.
_UNNAMED_CHOICE = re.compile(r"\binvalid choice, valid choices|\bvalid (?:commands|choices|values) are:", re.I)
_NOTHING_MATCHED = re.compile(r"\bno \w+(?: \w+)? match(?:ed|es)?\b", re.I)
_LETTER_OPTION = re.compile(r"\boption -- '?(\w)(?![\w-])|\bflag: '(\w)' in -")  # as getopt and Go's pflag write it
# A program without long options reads `--parents` as letters, of which the first is a dash.
_LONG_OPTION = re.compile(r"\boption -- -$|\boption character: -$")
_LETTER = re.compile(r"-[A-Za-z]")
_NEEDS_NO_VALUE = re.compile(r"^--no-|=")
_COMMAND_WORD = re.compile(r"[\w.:@+/=-]+")
_LINE_WORD = re.compile(r"[^\s'\"`,;()\[\]<>]+")
_PATH_WORD = re.compile(r"/|\.\w{1,5}$")
_COMMAND_NOUN = re.compile(r"command\b|\binvalid choice\b|\bverb\b", re.I)
_WILDCARD = re.compile(r"[*?\[]")
SUBCOMMAND = re.compile(r"[a-z][a-z0-9]*(?:[:_-][a-z0-9]+)*")
# They start the program that follows, and have no options in between that could have a value.
_STARTING_WORDS = frozenset(
    (
        *("npx", "bunx", "uvx", "python -m", "python3 -m", "bundle exec", "mise exec"),
        *(f"{manager} run" for manager in ("uv", "poetry", "pdm", "pipenv", "hatch", "rye", "pipx")),
        *(f"{manager} {word}" for manager in ("npm", "pnpm", "yarn") for word in ("exec", "dlx")),
    )
)
_INTERPRETERS = frozenset(("python", "python3", "node", "ruby", "php", "perl", "bash", "sh", "deno", "bun", "tsx"))
_SCRIPT = re.compile(r"\w\.[a-z]{2,3}$")
_RUNNER_WORDS = frozenset(("run", "exec", "x", "tool", "dlx", "compose"))
_STARTER_WORDS = frozenset(("run", "exec", "x", "dlx"))
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
EVERYDAY_SUBCOMMANDS = frozenset(_EVERYDAY_WORDS.split())
# A word with one of these is written differently in the call than it reads after parsing.
_QUOTING_CHARS = frozenset("'\"\\$`<>")
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
    is_absent: bool = False  # the word is a parameter that the call of a tool lacks
    option: str = ""  # the word is its value: `--context` of `kubectl --context prod`
    interpreter: str = ""  # what runs the program, if that is a script: `python3` of `python3 fly.py`
    is_command: bool = False  # the error calls the word a command, so elsewhere in a call it may be right

    @property
    def is_argument(self) -> bool:
        """Return whether the word is an option or an address, so that no new file can make it right."""
        return self.word.startswith("-") or "://" in self.word

    def is_named(self, item: str) -> bool:
        """Return whether a word of a call is the named one, with a value or among letters: `-P` in `grep -oP`."""
        if self.is_letter and not item.startswith("--"):
            return re.match(build_letter_pattern(self.word[1]), item) is not None
        return item == self.word or item.startswith(self.word)

    def has_wrong_value(self, words: Sequence[str]) -> bool:
        """Return whether the option has the wrong value among the words of a call."""
        return f"{self.option}={self.word}" in words or (self.option, self.word) in pairwise(words)

    @property
    def is_letter(self) -> bool:
        """Return whether the word is an option of one letter, which may be written together with others."""
        return _LETTER.fullmatch(self.word) is not None

    @property
    def is_source_file(self) -> bool:
        """Return whether the program is a script, such as `manage.py`, which the session may be working on."""
        return _SCRIPT.search(self.program) is not None

    @property
    def is_run_by_name(self) -> bool:
        """Return whether the word is what a runner was told to run: `tests` of `npm run tests`."""
        runner, _, name = self.subcommand.partition(" ")
        return runner in _RUNNER_WORDS and name == self.word

    @property
    def is_pattern(self) -> bool:
        """Return whether a shell took the word for a file pattern."""
        return bool(_WILDCARD.search(self.word[-1:]))


def diagnose_failure(call: Step, line: str, text: str) -> Diagnosis:
    """Diagnose a call from the line that names the failure and the result that contains it.

    The diagnosis is empty if it is unclear which command failed.
    """
    if call.tool != SHELL_TOOL:
        argument = _find_argument(call, line)
        absent_name = "" if argument else _find_absent_parameter(call, line)
        return Diagnosis(call.tool, word=argument or absent_name, is_absent=bool(absent_name))
    command = find_failed_command(call.command, line, text)
    if command is None:
        return Diagnosis()
    if find_missing_program(line) == command.program:
        return Diagnosis(command.program, word=command.program, is_missing=True, command=command)
    word = find_named_word(command, line) or find_unlisted_word(command, line, text)
    option = find_option_of_value(command, word, line)
    interpreter = ""
    if word:
        command, interpreter = _find_inner_command(command, word, line, text)
    return Diagnosis(
        program=command.program,
        subcommand=_find_failed_subcommand(command, option, word, text),
        word=word,
        command=command,
        option=option,
        interpreter=interpreter,
        is_command=bool(word) and _COMMAND_NOUN.search(line) is not None,
    )


def _find_inner_command(command: SimpleCommand, word: str, line: str, text: str) -> tuple[SimpleCommand, str]:
    """Return the command that the word belongs to, and what runs it if it is a script.

    If the error names a word of a command that another one starts, as in `uv run pytest -x`, that is the failed one.
    """
    interpreter = ""
    for started in _list_started_chain(command, _list_speakers(line, text)):
        # Else the word is the starting program's own: `npx wnd` may not know `wnd`.
        if word != started.program and find_named_word(started, line) == word:
            interpreter = command.program if _SCRIPT.search(started.program) else ""
            command = started
    return command, interpreter


def _find_failed_subcommand(command: SimpleCommand, option: str, word: str, text: str) -> str:
    """Return the subcommand that the mistake belongs to; "" if it belongs to the program."""
    subcommand = find_subcommand(command, option or word, text)
    words = list_literal_words(command)
    if not option or not subcommand:
        return subcommand
    runner, _, started_name = subcommand.partition(" ")
    if option in words and words.index(option) < words.index(runner):
        return ""  # the option is the program's: `kubectl --context prod get pods`
    if started_name and runner in _STARTER_WORDS and f"{option}={word}" in words:
        return runner  # whatever it runs: `gust run build --filter=web`
    return subcommand


@lru_cache(maxsize=64)
def find_missing_program(line: str) -> str:
    """Return the program that the line says is not installed; "" if it says so of none."""
    # Most lines have neither, and finding that out with the pattern takes much longer.
    has_words = "not found" in line or "not recognized" in line
    match = _MISSING_PROGRAM.search(line) if has_words else None
    if match is None:
        return ""
    program = _get_first_group(match)
    return program if PROGRAM_NAME.fullmatch(program) else ""


def _get_first_group(match: re.Match[str]) -> str:
    """Return the first group that is not empty: of a pattern with alternatives, that of the one which matched."""
    return next((group for group in match.groups() if group), "")


def find_blaming_line(command: str, text: str) -> str:
    """Return the line of an output that calls a word of the command unknown; "" if there is none.

    Such a line has a mark of blame, such as "unknown" or "invalid", is no usage text, and it or the next line has a
    word of the command. The next line is added if only that one has the word.
    """
    # A long output has its errors at its beginning or end.
    ends = cut_middle(text)
    marks = find_blame_marks(ends)
    if not marks:
        return ""
    lines = list(list_lines(ends))
    if any(line.startswith("Traceback (most recent") for line in lines):
        return ""  # the program started and failed in its code
    if len(lines) > _MAX_BLAMING_LINES:
        lines = lines[:_FIRST_LINES] + lines[-_LAST_LINES:]
    names = _list_folded_names(command)
    for raw_line, next_line in pairwise([*lines, ""]):
        start = raw_line[:MAX_QUOTE_LENGTH]
        # A word alone is a value that a script printed: `undefined`.
        if not any(map(start.__contains__, marks)) or " " not in start or not is_blame(start):
            continue
        nearby_text = fold_name(f"{start} {next_line}")
        if not any(name in nearby_text for name in names):  # most lines are about something else
            continue
        line = extract_message(raw_line)
        if _USAGE.match(line):
            continue
        messages = [line]
        # Some name the word in the next line: "Unknown switch." and then "Switch: --filtr".
        if next_line and len(next_line) <= _MAX_WORD_CHARS:
            messages.append(f"{line} {next_line}")
        for message in messages:
            failed_command = find_failed_command(command, message, text)
            if failed_command and find_named_word(failed_command, message):
                return message
    return ""


def _list_folded_names(command: str) -> set[str]:
    """Return the words of a command as errors may write them; of an option with a value, each by itself."""
    names: set[str] = set()
    for word in _COMMAND_WORD.findall(command[:MAX_INSPECTED_CHARS]):
        for name in (word.partition("=")[0], word.rpartition("=")[2]):
            if name:
                names.add(fold_name(name))
    return names


def classify_blame(diagnosis: Diagnosis, line: str) -> FailureKind:
    """Return the kind of a failure whose line calls a word of the call unknown."""
    word = diagnosis.word
    if diagnosis.is_argument or diagnosis.is_missing or diagnosis.is_absent or word in diagnosis.subcommand.split():
        return "interface"
    line_kind = classify_line(line)
    if line_kind in ("path", "interface", "precondition"):
        return line_kind
    if _PATH_WORD.search(word):
        return "path"
    return "interface" if diagnosis.option or _OFFERED.search(line) else "other"


@lru_cache(maxsize=64)  # asked when the failure is classified, and again when its episode is diagnosed
def find_failed_command(command: str, line: str, text: str) -> SimpleCommand | None:
    """Return the simple command that failed; None if it could be one of several.

    The error line identifies it by the program it starts with, or by a word that only one command has. Otherwise the
    call must have only one command that does work.
    """
    commands = list_simple_commands(command)
    for speaker in _list_speakers(line, text):
        if spoken_for := [part for part in commands if part.program == speaker]:
            # Of several calls of the program, the first with the named word; without one, the first.
            return max(spoken_for, key=lambda part: bool(find_named_word(part, line)))
        if wrapper := find_wrapper(commands, speaker):
            return wrapper
    working = list_working_commands(command)
    for parts in (working, commands):
        for part in parts:
            if find_named_word(part, line):
                return part
    programs = {part.program for part in working}
    return working[0] if len(programs) == 1 else None


def _list_speakers(line: str, text: str) -> list[str]:
    """Return the programs that an error may come from: the missing one, or those that it and the usage begin with."""
    if missing_program := find_missing_program(line):
        return [missing_program]
    speakers: list[str] = []
    if shell := _SHELL_SPEAKS.match(line):
        line = line[shell.end() :]
        if shell["builtin"]:  # `:cd`
            speakers.append(shell["builtin"][1:])
    speakers.append(line.partition(":")[0].strip().rpartition("/")[2])
    return speakers + _USAGE.findall(text[:MAX_INSPECTED_CHARS])


def find_started_command(command: SimpleCommand, names: Sequence[str]) -> SimpleCommand | None:
    """Return the command that another one starts: `pytest -x` of `uv run pytest -x`; None if it starts none.

    It is named, as by the error, or follows words that only start programs, or is a script: `manage.py migrate` of
    `python manage.py migrate`. So the same mistake is known again however the program is started.
    """
    words = command.code.split()
    runs_script = command.program in _INTERPRETERS and _SCRIPT.search(" ".join(words[1:2]))
    start_position = 0  # of no word: the first one starts the others
    if runs_script or " ".join(words[:1]) in _STARTING_WORDS:
        start_position = 1
    elif " ".join(words[:2]) in _STARTING_WORDS:
        start_position = 2
    for position, word in enumerate(words[1:], 1):
        name = word.rpartition("/")[2]
        if not PROGRAM_NAME.fullmatch(name) or not (position == start_position or name in names):
            continue
        code = " ".join([name, *words[position + 1 :]])
        started_words = command.words[len(command.words) - len(words) + position :]
        return SimpleCommand(
            program=name,
            code=code,
            full_text=code,
            start=command.start,
            end=command.end,
            prefix_words=(),
            words=(name, *started_words[1:]),
        )
    return None


def _list_started_chain(command: SimpleCommand, names: Sequence[str]) -> list[SimpleCommand]:
    """Return what a command starts, and what that starts: `python fly.py` and `fly.py` of `uv run python fly.py`."""
    chain: list[SimpleCommand] = []
    while started := find_started_command(chain[-1] if chain else command, names):
        chain.append(started)
    return chain


def list_started_commands(diagnosis: Diagnosis, command: str) -> list[SimpleCommand]:
    """Return the simple commands that run the failed program.

    If one of its words is wrong, they include those that another program starts. Else what starts the program may be
    the fix, so these are left out.
    """
    if diagnosis.program not in command:  # as in most calls, which need no parsing then
        return []
    parts = list_simple_commands(command)
    same_program = [part for part in parts if part.program == diagnosis.program]
    if not diagnosis.word or diagnosis.is_missing:  # what starts the program may be the fix
        return same_program
    others = [part for part in parts if part not in same_program]
    started = [item for part in others for item in _list_started_chain(part, [diagnosis.program])]
    return same_program + [item for item in started if item.program == diagnosis.program]


def find_wrapper(commands: Sequence[SimpleCommand], name: str) -> SimpleCommand | None:
    """Return a wrapper with what it starts, as a command of its own: `timeout 5 make` is read as `make` otherwise."""
    for part in commands:
        if name in part.prefix_words:
            words = (*part.prefix_words[part.prefix_words.index(name) :], *part.words)
            code = " ".join([*words[: len(words) - len(part.words)], part.code])
            return SimpleCommand(name, code, code, part.start, part.end, (), words)
    return None


def find_option_of_value(command: SimpleCommand, word: str, line: str) -> str:
    """Return the option that has the word for its value; "" if the word may stand alone.

    After `=` it is certain. Else the error must name the option, or begin its noun with the option's letter:
    `-p core` and "package `core`". A call that begins with options and their values goes on like that:
    `psql -h localhost -U postgres`.
    """
    if not word or word.startswith("-"):
        return ""
    words = list_literal_words(command)
    has_only_values = _begins_with_values(words, word)
    nouns: list[str] = []
    for noun in _LINE_WORD.findall(line.partition(word)[0])[-_MAX_NOUNS:]:
        nouns += map(fold_name, noun.split("/"))  # `argument -f/--format: …`
    for previous, item in pairwise(["", *words]):
        option, _, value = item.partition("=")
        if option.startswith("-") and value == word:
            return option
        if item != word or not previous.startswith("-") or _PATH_WORD.search(word):
            continue
        is_letter = _LETTER.fullmatch(previous) is not None
        name = fold_name(previous)
        is_in_error = any(noun.startswith(name) and (is_letter or len(name) > 1) for noun in nouns)
        if is_in_error or (is_letter and has_only_values):
            return previous
    return ""


def _begins_with_values(words: Sequence[str], word: str) -> bool:
    """Return whether a call begins with options and their values, so that `word`, one of its words, may be a value.

    A later bare word may be one, such as `data` of `-v kite -w data`. The first one may be a subcommand instead, as in
    `-v log`: it counts as a value only if there are further bare words and each of them follows an option.
    """
    bare_words = [item for item in words if not item.startswith("-")]
    if not bare_words or not words[0].startswith("-"):
        return False
    if word != bare_words[0]:
        return True
    values = [item for previous, item in pairwise(words) if previous.startswith("-") and not item.startswith("-")]
    return len(bare_words) > 1 and len(values) == len(bare_words)


def find_subcommand(command: SimpleCommand, wrong_word: str = "", text: str = "") -> str:
    """Return the subcommand: `log` of `git -C src log`, `run lint` of `npm run lint`; "" if there is none.

    Further words count if the usage text in the result has them too: `Usage: gh pr checks [flags]`.
    """
    if command.program in _WITHOUT_SUBCOMMANDS or "." in command.program:
        return ""
    words = list_literal_words(command)
    bare_words = _list_subcommand_words(words, wrong_word, text)
    if not bare_words or not SUBCOMMAND.fullmatch(bare_words[0]):
        return ""
    runner, name = [*bare_words, ""][:2]
    # If the program does not know `run`, what should run does not matter.
    is_runner = runner in _RUNNER_WORDS and runner != wrong_word
    if is_runner and SUBCOMMAND.fullmatch(name) and (runner, name) in pairwise(words):
        return f"{runner} {name}"
    leading_words = list(takewhile(SUBCOMMAND.fullmatch, words))[:_MAX_SUBCOMMANDS]
    for count in range(len(leading_words), 1, -1):
        name = " ".join([command.program, *leading_words[:count]])
        if name in text and re.search(rf"(?:usage:?|see|run|\$)\s+['\"`]?{re.escape(name)}(?![\w-])", text, re.I):
            return " ".join(leading_words[:count])
    return bare_words[0]


def _list_subcommand_words(words: Sequence[str], wrong_word: str, text: str) -> list[str]:
    """Return the words of a call that may be its subcommand: neither options nor what is taken for an option's value.

    What directly follows a wrong option is taken for its value, and so is a word that the option before it has for its
    name: `cmake --build build`.
    """
    bare_words: list[str] = []
    for previous, word in pairwise(["", *words]):
        is_value = previous.startswith("-") and (previous == wrong_word or previous.lstrip("-") == word)
        if not word.startswith("-") and not is_value:
            bare_words.append(word)
    if not bare_words or not words[0].startswith("-") or bare_words[0] in EVERYDAY_SUBCOMMANDS:
        return bare_words
    # After an option it may be the option's value: `kubectl --context prod get pods`, `psql -U postgres`.
    bare_words = [word for word in _list_words_without_values(words) if word in bare_words]
    # The wrong option has a file for its value, or a number, and so may what follows: `gust --chek a.py src`.
    if words[0] == wrong_word and bare_words and bare_words[0] not in text:
        return []
    return bare_words


def _list_words_without_values(words: Sequence[str]) -> list[str]:
    """Return the words without those that follow an option which may need a value."""
    without_values: list[str] = []
    for previous, word in pairwise(["", *words]):
        if not previous.startswith("-") or _NEEDS_NO_VALUE.search(previous):
            without_values.append(word)
    return without_values


@lru_cache(maxsize=64)
def find_named_word(command: SimpleCommand, line: str) -> str:
    """Return the word of a command that the error names, an option without its value; "" if none.

    What the error says in its most certain form is tried first: an option of one letter, a value called invalid, names
    after a noun such as "option" or in quotes, parts of longer words. Only a line that calls something unknown may name
    the word by its place alone.
    """
    words = [word for word in list_literal_words(command) if word != command.program]
    # An error in one of the next two forms is about an option and nothing else, so there is no further search.
    if letter_option := _LETTER_OPTION.search(line):
        letter = letter_option[1] or letter_option[2]
        has_letter = any(re.match(rf"-\w*{letter}", word) for word in words)
        return f"-{letter}" if has_letter else ""
    if _LONG_OPTION.search(line):
        return next((word.partition("=")[0] for word in words if re.match(r"--\w", word)), "")
    for match in _WRONG_VALUE.finditer(line):
        # The value is a word of its own, or what follows the `=` of an option.
        if any(match["quoted"] in word.partition("=") for word in words):
            return match["quoted"]
    after_nouns, other_words = list_named_words(line)
    blames_word = is_blame(line)
    # Without a noun before it, a word in quotes is a likely find only if the error calls something unknown.
    searched_text = command.full_text if blames_word else " ".join(words)
    word = (
        _find_token(words, [*after_nouns, *other_words], line, blames_word=blames_word)
        or _find_part(after_nouns, command, command.full_text)
        or _find_part(other_words, command, searched_text)
    )
    if word or not blames_word:
        return word
    word = (
        _find_last_spoken_word(command, line)
        or _find_last_word(command, words, line)
        or _find_selected_value(words, line)
    )
    if word or after_nouns or other_words:
        return word
    options = [word for word in words if word.startswith("-")]
    is_only_option = len(options) == 1 and _UNNAMED_OPTION.search(line)
    return options[0].partition("=")[0] if is_only_option else ""


def _find_token(words: Sequence[str], named_tokens: Sequence[str], line: str, *, blames_word: bool) -> str:
    """Return the first of an error's tokens that stands for a word of the call, or for the value of an option."""
    tokens = list(named_tokens)
    if blames_word:
        tokens += line.split(": ")[1:-1]  # `cat: notes.txt: No such file or directory`
    for token in tokens:
        if word := _find_word(words, token):
            return word
        if blames_word and any(word.startswith("-") and word.partition("=")[2] == token for word in words):
            return token
    return ""


def _find_part(tokens: Sequence[str], command: SimpleCommand, text: str) -> str:
    """Return the first of an error's tokens that is a whole name inside the text of a command; "" if none is.

    It may be part of a word, such as `--json title,stars`, or inside quotes, such as a query's argument.
    """
    for token in tokens:
        is_name = len(token) >= _MIN_NAME_CHARS and token != command.program and "/" not in token
        if is_name and token in text and re.search(build_word_pattern(token), text):
            return token
    return ""


def _find_last_word(command: SimpleCommand, words: Sequence[str], line: str) -> str:
    """Return the word of the call that the error has last, as in `Invalid operation instal`; "" if it has none.

    In `instal is not a kite command` it stands before that.
    """
    for line_word in reversed(_LINE_WORD.findall(line.partition(" is not a")[0])):
        # Git and others start `git-comit` for `git comit`.
        name: str = line_word.rstrip(":.").rpartition("/")[2].removeprefix(f"{command.program}-")
        is_name = len(name) >= _MIN_NAME_CHARS and name not in EVERYDAY_SUBCOMMANDS and not is_noun(name)
        if is_name and name in words:
            return name
    return ""


def _find_last_spoken_word(command: SimpleCommand, line: str) -> str:
    """Return the last word of the call's beginning that the error repeats before a colon; "" if it repeats none.

    The program knew the words before it: `go mod list: unknown command`.
    """
    spoken_words = line.partition(": ")[0].split()
    if len(spoken_words) < 2 or spoken_words != command.code.split()[: len(spoken_words)]:
        return ""
    return spoken_words[-1] if SUBCOMMAND.fullmatch(spoken_words[-1]) else ""


def _find_selected_value(words: Sequence[str], line: str) -> str:
    """Return the value of an option that the error names like a noun: "No projects matched the filters"."""
    if not _NOTHING_MATCHED.search(line):
        return ""
    nouns = {fold_name(noun).removesuffix("s") for noun in _LINE_WORD.findall(line)}
    for word, next_word in pairwise([*words, ""]):
        option, _, value = word.partition("=")
        is_named = option.startswith("--") and len(option) > _MIN_NAME_CHARS and fold_name(option) in nouns
        if is_named and (value or not next_word.startswith("-")):
            return value or next_word
    return ""


def find_unlisted_word(command: SimpleCommand, line: str, text: str) -> str:
    """Return the subcommand that is close to one in the list of valid ones which follows the error."""
    if not _UNNAMED_CHOICE.search(line):
        return ""
    choices = set(_LINE_WORD.findall(text[:MAX_INSPECTED_CHARS]))
    names = list(takewhile(SUBCOMMAND.fullmatch, list_literal_words(command)))[:_MAX_SUBCOMMANDS]
    unlisted = [name for name in names if name not in choices and get_close_matches(name, choices, 1)]
    return unlisted[-1] if unlisted else ""


def _find_word(words: Sequence[str], token: str) -> str:
    """Return the word of a call that an error's token stands for, as it is named in a diagnosis; "" if none.

    Equal words come first, then options that are written in another way, then a file whose whole path the error has.
    """
    if " " in token and all(part in words for part in token.split()):  # `"next biuld" does not exist`
        token = token.split()[-1]
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
        if is_option and fold_name(option) == fold_name(token.partition("=")[0]):
            return option
        if len(word) >= _MIN_NAME_CHARS and token.endswith(f"/{word.removeprefix('./')}"):  # the whole path of a file
            return word
    return ""


def list_literal_words(command: SimpleCommand) -> list[str]:
    """Return the arguments of a command that are written out, without what is quoted or expanded."""
    words = command.code.split()[1:]
    if command.end >= MAX_INSPECTED_CHARS:
        words = words[:-1]  # the last one may be cut
    # Of an option whose value is in quotes the name remains: `--include='*.py'`.
    names = [word if _QUOTING_CHARS.isdisjoint(word) else word.partition("=")[0] for word in words]
    return [name for name in names if len(name) <= _MAX_WORD_CHARS and _QUOTING_CHARS.isdisjoint(name)]


def _find_argument(call: Step, line: str) -> str:
    """Return the argument name that a tool other than the shell does not know."""
    extra_name = _EXTRA_PARAMETER.search(line)
    if extra_name and extra_name[1] in list_parameters(call):
        return extra_name[1]
    after_nouns, other_words = list_named_words(line)
    tokens = [*after_nouns, *other_words]
    if _WRONG_TYPE.search(line):  # a value of that text is right elsewhere
        tokens = [token for token in tokens if token in list_parameters(call)]
    for token in tokens:
        is_name = _MIN_NAME_CHARS <= len(token) <= _MAX_WORD_CHARS
        if is_name and token in call.content and re.search(build_word_pattern(token), call.content):
            return token
    return ""


def _find_absent_parameter(call: Step, line: str) -> str:
    """Return the parameter that a tool requires and the call lacks."""
    for match in _ABSENT_PARAMETER.finditer(line):
        name = _get_first_group(match)
        if len(name) >= _MIN_NAME_CHARS and name not in list_parameters(call):
            return name
    return ""


def list_parameters(call: Step) -> list[str]:
    """Return the names of a call's parameters, which are known of MCP tools only."""
    _, mark, names = call.content.rpartition(PARAMETERS_MARK)
    return names.split() if mark else []


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


def build_word_pattern(word: str) -> str:
    """Build a pattern that matches the word only as a whole, as far as its ends allow."""
    start = r"\b" if re.match(r"\w", word[0]) else ""
    return start + build_ended_pattern(word)


def build_ended_pattern(word: str) -> str:
    """Build a pattern that matches the word, but not the beginning of a longer one."""
    end = r"(?![\w-])" if re.match(r"\w", word[-1]) else ""
    return escape_word(word) + end


def build_letter_pattern(letter: str) -> str:
    """Build a pattern that matches an option of one letter, alone or among others: `-P` and `-oP`.

    A longer word with the letter in it is another option or has a value: `date -Iseconds` has no `-d`.
    """
    return rf"-[A-Za-z]{{0,3}}{letter}[A-Za-z]{{0,2}}(?![A-Za-z])"


def escape_word(word: str) -> str:
    return re.escape(word).replace(r"\-", "-")


def list_tags(diagnosis: Diagnosis, call: Step, line: str) -> tuple[str, ...]:
    """Return the tags that need no judgement: `tool:` with the program, and `severity:hang` for a timeout.

    `line` is the one that names the failure. A call of another tool than the shell has no program.
    """
    tags: list[str] = []
    program = diagnosis.program if call.tool == SHELL_TOOL else ""
    if PROGRAM_NAME.fullmatch(program) and len(program) <= _MAX_TAG_CHARS:
        tags.append(f"tool:{program}")
    if _HANG_WORDS.search(line):
        tags.append("severity:hang")
    return tuple(tags)
