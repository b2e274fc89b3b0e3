"""Build triggers for a mistake: patterns that match the call that failed, and not the one that worked."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import pairwise
from posixpath import join, normpath
from typing import Any

from hardwon.agents.fields import PARAMETERS_MARK
from hardwon.agents.transcript_steps import Step
from hardwon.mining.failed_commands import (
    EVERYDAY_SUBCOMMANDS,
    PROGRAM_NAME,
    SUBCOMMAND,
    ZSH_COMMAND_SIGN,
    Diagnosis,
    build_ended_pattern,
    build_letter_pattern,
    build_word_pattern,
    escape_word,
    is_started_otherwise,
    list_literal_words,
    list_parameters,
)
from hardwon.shell.parsing import MAX_SIMPLE_COMMANDS, SETUP_PROGRAMS, SimpleCommand, list_source_texts
from hardwon.shell.working_commands import get_command_code, list_simple_commands
from hardwon.types import EDIT_TOOLS, FILE_TOOLS, SHELL_TOOL, replace

_MAX_NAME_CHARS, _MAX_NAMES = 160, 3
FOLDER_PROGRAMS = ("cd", "pushd")
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*=")
# Stays within one simple command: options may precede a subcommand (`git -C src stash`), anything may precede the word.
_OPTIONS_BETWEEN = r" (?:-[^|;&\n]* )?"
_ANYTHING_BETWEEN, _REST_BETWEEN = r" (?:[^|;&\n]* )?", r"[^|;&\n]* "
_GLOB_CHARS = re.compile(r"([\\*?\[ ])")


def build_triggers(call: Step, diagnosis: Diagnosis, cure: Step | None, *, is_path: bool) -> dict[str, Any]:
    """Build triggers that match the failing call but not successful ones; empty if nothing distinguishes them.

    They combine the program, its subcommand, and the word that the error names or else one that the working call left
    out. A fix that starts the same program in another way, such as `uv run pytest`, must not match.
    """
    if call.tool != SHELL_TOOL:
        return _build_tool_triggers(call, diagnosis, cure, is_path=is_path)
    # Patterns see a longer command only in pieces.
    is_seen_whole = len(list_simple_commands(call.command)) <= MAX_SIMPLE_COMMANDS
    if diagnosis.command is None or not is_seen_whole or not PROGRAM_NAME.fullmatch(diagnosis.program):
        return {}
    for triggers in _list_trigger_choices(call, diagnosis.command, diagnosis, cure):
        if not matches_command(triggers, call.command):
            continue
        if cure is None or not matches_command(triggers, cure.command):
            return triggers
    return {}


def _list_trigger_choices(
    call: Step, command: SimpleCommand, diagnosis: Diagnosis, cure: Step | None
) -> list[dict[str, Any]]:
    """Return what may distinguish a failed command from the fix, the most telling first."""
    choices: list[dict[str, Any]]
    if diagnosis.is_missing:
        choices = [_build_missing_program_triggers(call, diagnosis.program)]
    else:
        choices = _list_command_triggers(command, diagnosis, cure)
        # If the fix has the same option, its value was wrong: `--std=c99x`.
        for word in list_literal_words(command):
            if diagnosis.word.startswith("-") and word.startswith(f"{diagnosis.word}="):
                choices += _list_command_triggers(command, replace(diagnosis, word=word), cure)
    if cure:
        choices += _list_empty_value_triggers(command, diagnosis, cure)
        choices += _list_setup_triggers(call, diagnosis, choices, cure)
        choices += _list_addition_triggers(command, cure)
    return choices


def _build_missing_program_triggers(call: Step, program: str) -> dict[str, Any]:
    """Return triggers for a program that is not installed, at the start of a simple command."""
    is_wrapper = all(part.program != program for part in list_simple_commands(call.command))
    # Patterns see a wrapper such as `timeout` only in the whole command.
    start = r"(?:^|[|;&(\n]\s*)" if is_wrapper else "^"
    return _build_command_triggers(start + build_ended_pattern(program))


def _list_empty_value_triggers(command: SimpleCommand, diagnosis: Diagnosis, cure: Step) -> list[dict[str, Any]]:
    """Return triggers for an option to which only the fix gives an empty value, `sed -i ''`; none if there is none."""
    option = _find_empty_value(command, cure)
    if not option:
        return []
    # The quotes are only in the full text, where quoted text of other commands may have the same words.
    start = rf"^(?:\S*/)?{escape_word(diagnosis.program)}"
    pattern = rf"{start}{_ANYTHING_BETWEEN}{escape_word(option)} +(?!''|\"\")"
    return [_build_command_triggers(pattern, target="full")]


def _list_command_triggers(command: SimpleCommand, diagnosis: Diagnosis, cure: Step | None) -> list[dict[str, Any]]:
    """Return triggers for the wrong word of a command, the best first.

    The word is the one that the error names, or else one that the fix left out; without either it is the program.
    """
    words = list_literal_words(command)
    if not diagnosis.word and cure:
        cure_words = {item for part in list_simple_commands(cure.command) for item in part.code.split()}
        left_out = next((item for item in words if item not in cure_words and _is_telling(item)), "")
        diagnosis = replace(diagnosis, word=left_out)
    if diagnosis.option:
        return _list_value_triggers(command, diagnosis)
    if diagnosis.word and not any(map(diagnosis.is_named, words)):
        return _list_inner_word_triggers(command, diagnosis)
    if diagnosis.word:
        return _list_word_triggers(words, diagnosis, cure)
    return _list_program_triggers(command, diagnosis, cure)


def _list_value_triggers(command: SimpleCommand, diagnosis: Diagnosis) -> list[dict[str, Any]]:
    """Return triggers for the wrong value of an option: `--format json`."""
    pattern = _build_names_pattern(diagnosis.subcommand.split())
    pattern += f"{_ANYTHING_BETWEEN}{escape_word(diagnosis.option)}[ =]{build_ended_pattern(diagnosis.word)}"
    return [_build_command_triggers(start + pattern) for start in _list_starts(command, diagnosis)]


def _list_starts(command: SimpleCommand, diagnosis: Diagnosis) -> tuple[str, str]:
    """Return two starts of a pattern: the program wherever it stands, and the first word as the call has it.

    The first also matches a fix that has the same words and starts the program by its path, such as
    `.venv/bin/python -m gust`. Then the second is taken, which does not match that fix.
    """
    return _build_program_start(diagnosis), f"^{escape_word(command.words[0])}"


def _list_inner_word_triggers(command: SimpleCommand, diagnosis: Diagnosis) -> list[dict[str, Any]]:
    """Return triggers for a word that is only a part of an argument, as in a list or a quoted query.

    Each is tried on the command without its quoted text (the default target), then on the full text, since the word
    may stand in quotes.
    """
    pattern = _build_names_pattern(diagnosis.subcommand.split())
    word_pattern = build_word_pattern(diagnosis.word)
    if option := _find_option_of_list(list_literal_words(command), diagnosis.word):  # `gh pr view --json title,stars`
        pattern += rf"{_ANYTHING_BETWEEN}{escape_word(option)}[ =][^\s|;&]*{word_pattern}"
    else:
        pattern += rf" [^|;&]*{word_pattern}"  # a query may have several lines
    choices: list[dict[str, Any]] = []
    for start in _list_starts(command, diagnosis):
        choices.append(_build_command_triggers(start + pattern))
        choices.append(_build_command_triggers(start + pattern, target="full"))
    return choices


def _list_word_triggers(words: Sequence[str], diagnosis: Diagnosis, cure: Step | None) -> list[dict[str, Any]]:
    """Return triggers for a wrong word of the call: the program and its subcommand, with the word where it stands.

    If the fix passes the word on after ` -- `, the trigger is for the word before that.
    """
    start = _build_program_start(diagnosis)
    word_pattern = _build_wrong_word_pattern(diagnosis)
    if cure and is_passed_on(diagnosis, cure):
        names = _build_names_pattern(diagnosis.subcommand.split())
        return [_build_command_triggers(rf"{start}{names}(?:(?! -- )[^|;&\n])* {word_pattern}")]
    pattern = _build_pattern_in_order(words, diagnosis, word_pattern)
    choices = [
        _build_command_triggers(start + pattern),
        _build_command_triggers(f"^{escape_word(diagnosis.program)}{pattern}"),
    ]
    if diagnosis.word.startswith("-") and diagnosis.is_named(words[0]):
        # The fix may have a subcommand before the same option: `ruff check --fix` for `ruff --fix`.
        choices.append(_build_command_triggers(rf"{start} (?:-\S+ )*{word_pattern}"))
    return choices


def _build_pattern_in_order(words: Sequence[str], diagnosis: Diagnosis, word_pattern: str) -> str:
    """Build the pattern of the subcommand and the wrong word, in the order of the call.

    A wrong command must follow the program or its subcommand directly; anything may stand before other wrong words.
    """
    pattern = ""
    subcommand_words = diagnosis.subcommand.split()
    has_word = is_argument_before = False
    for item in words:
        if item in subcommand_words:
            # After the wrong option may come its value: `--colour always log`.
            pattern += (_REST_BETWEEN if has_word else _OPTIONS_BETWEEN) + build_ended_pattern(item)
            subcommand_words.remove(item)
            has_word = has_word or item == diagnosis.word
        elif diagnosis.word and not has_word and diagnosis.is_named(item):
            is_next = diagnosis.is_command and not is_argument_before and not item.startswith("-")
            pattern += (_OPTIONS_BETWEEN if is_next else _ANYTHING_BETWEEN) + word_pattern
            has_word = True
        elif not item.startswith("-"):
            is_argument_before = True
    return pattern


def _build_wrong_word_pattern(diagnosis: Diagnosis) -> str:
    """Build the pattern of the wrong word; what a shell expands stands for all words that it expands alike."""
    word = diagnosis.word
    if word == ZSH_COMMAND_SIGN:  # alone it is an ordinary word: `echo a = b`
        return r"=\S"
    if diagnosis.is_pattern and "://" in word:  # zsh would do the same to any other address
        return rf"https?://[^\s|;&]*{escape_word(word[-1])}"
    if diagnosis.is_letter:
        return build_letter_pattern(word[1])
    return build_ended_pattern(word)


def _list_program_triggers(command: SimpleCommand, diagnosis: Diagnosis, cure: Step | None) -> list[dict[str, Any]]:
    """Return triggers for a call of which no word is known to be wrong; none if it is an everyday one."""
    pattern = _build_pattern_in_order(list_literal_words(command), diagnosis, "")
    if cure and is_started_otherwise(command, cure.command):  # the program is the wrong word
        start = escape_word(command.words[0])
        first_argument = command.words[1]
        if not pattern and SUBCOMMAND.fullmatch(first_argument):
            pattern = _OPTIONS_BETWEEN + build_ended_pattern(first_argument)
        if not pattern:
            pattern = r"(?![\w-])"  # the program's name ends here
        return [_build_command_triggers(f"^{start}{pattern}")]
    if set(diagnosis.subcommand.split()) <= EVERYDAY_SUBCOMMANDS:
        return []
    starts = (_build_program_start(diagnosis), f"^{escape_word(diagnosis.program)}")
    return [_build_command_triggers(start + pattern) for start in starts]


def _build_program_start(diagnosis: Diagnosis) -> str:
    """Build the start of a pattern: the program, also if another one starts it, as in `npx kite`.

    A script is often an argument, as in `git add fly.py`, so it must stand where it is run.
    """
    program = escape_word(diagnosis.program)
    if not diagnosis.interpreter:
        return rf"\b{program}"
    interpreter = escape_word(diagnosis.interpreter.rstrip("0123456789."))
    return rf"^(?:[^|;&\n]*\b{interpreter}[\d.]* (?:-\S+ )*)?(?:\S*/)?{program}"


def _find_option_of_list(words: Sequence[str], name: str) -> str:
    """Return the option that has the name in a list: `--json` of `--json title,stars`; "" if there is none."""
    for previous, word in pairwise(["", *words]):
        option, _, value = word.rpartition("=")
        if name not in value.split(","):
            continue
        if option.startswith("-"):
            return option
        if previous.startswith("-"):
            return previous
    return ""


def is_passed_on(diagnosis: Diagnosis, cure: Step) -> bool:
    """Return whether the fix passes the wrong option on to another program: `cargo test -- --nocapture`."""
    if not diagnosis.word.startswith("-") or diagnosis.command is None or "--" in diagnosis.command.words:
        return False
    for part in list_simple_commands(cure.command):
        if part.program != diagnosis.program or "--" not in part.words:
            continue
        separator = part.words.index("--")
        own_words = part.words[:separator]
        passed_words = part.words[separator:]
        if diagnosis.word in passed_words:
            return diagnosis.word not in own_words
    return False


def _list_setup_triggers(
    call: Step, diagnosis: Diagnosis, word_triggers: list[dict[str, Any]], cure: Step
) -> list[dict[str, Any]]:
    """Return triggers for a call that the fix only prepares: `PYTHONPATH=. python fly.py`, `cd web && npm test`.

    They are those of the wrong word, or else of the program and its subcommand; a call that is prepared is left alone.
    """
    command = diagnosis.command
    setup = find_setup(call, diagnosis, cure)
    if command is None or not setup:
        return []
    bare_words = [word for word in list_literal_words(command) if not word.startswith("-")]
    subcommand_words = diagnosis.subcommand.split() or bare_words[:1]
    if not word_triggers and subcommand_words:
        pattern = f"^{escape_word(command.words[0])}{_build_names_pattern(subcommand_words)}"
        word_triggers = [_build_command_triggers(pattern)]
    return [{**triggers, "unless": [_build_setup_pattern(setup)]} for triggers in word_triggers]


def _list_addition_triggers(failed: SimpleCommand, cure: Step) -> list[dict[str, Any]]:
    """Return triggers for a call that lacks what the fix adds: an option, or an argument at the end.

    For an option they exclude calls that have it. For an argument they match only calls that end where the failed one
    ends, redirections aside.
    """
    words = list_literal_words(failed)
    names = [word for word in words if not word.startswith("-")][:_MAX_NAMES]
    if not names or not all(map(SUBCOMMAND.fullmatch, names)):
        return []
    pattern = f"^{escape_word(failed.words[0])}{_build_names_pattern(names)}"
    for part in list_simple_commands(cure.command):
        added_words = [word for word in part.words if word not in failed.words]
        kept_words = tuple(word for word in part.words if word in failed.words)
        if not added_words or kept_words != failed.words:
            continue
        if added_words[0].startswith("-"):
            option = build_ended_pattern(added_words[0].partition("=")[0])
            return [{**_build_command_triggers(pattern), "unless": [f" {option}"]}]
        is_added_at_end = part.words[: len(failed.words)] == failed.words
        if is_added_at_end and len(names) == len(words):
            return [_build_command_triggers(rf"{pattern}(?: \d?>\S*)*$")]
    return []


def _build_names_pattern(names: Iterable[str]) -> str:
    """Build the pattern of these names one after the other, with nothing but options between them."""
    return "".join(_OPTIONS_BETWEEN + build_ended_pattern(name) for name in names)


def find_setup(call: Step, diagnosis: Diagnosis, cure: Step) -> str:
    """Return what only the fix has in front of the command, `source .venv/bin/activate` or `PYTHONPATH=.`; else "".

    An assignment counts more than a command before, and of these the last one counts.
    """
    failed = diagnosis.command
    if failed is None or call.tool != SHELL_TOOL or cure.tool != SHELL_TOOL:
        return ""
    setup_before = {part.words for part in list_simple_commands(call.command) if part.program in SETUP_PROGRAMS}
    last_setup = ""
    for part in list_simple_commands(cure.command):
        is_new = part.words not in setup_before and len(part.words) > 1
        if part.program in SETUP_PROGRAMS and is_new and not _leaves_folder(part, call.cwd):
            last_setup = part.full_text
        is_same_command = part.words == failed.words or diagnosis.is_missing
        if part.program == failed.program and is_same_command:
            new_words = [word for word in part.prefix_words if word not in failed.prefix_words]
            return next(filter(_ASSIGNMENT.match, new_words), last_setup)
    return ""


def _leaves_folder(command: SimpleCommand, cwd: str) -> bool:
    """Return whether a `cd` goes to a folder that is not below `cwd`: going back to the project is no lesson."""
    target = normpath(join(cwd, command.words[1]))
    return command.program in FOLDER_PROGRAMS and not target.startswith(f"{normpath(cwd).rstrip('/')}/")


def changes_folder(setup: str) -> bool:
    return setup.startswith(FOLDER_PROGRAMS)


def find_variable(setup: str) -> str:
    """Return the variable that a setup assigns: `PORT` of `PORT=1` or `export PORT=1`; else ""."""
    assignment = _ASSIGNMENT.match(setup.removeprefix("export "))
    return assignment[0].removesuffix("=") if assignment else ""


def _build_setup_pattern(setup: str) -> str:
    """Return the pattern of calls that are prepared like this: by a variable, a folder or a script."""
    if variable := find_variable(setup):  # whatever its value
        return rf"\b{variable}="
    _, _, target = setup.partition(" ")
    last_path_part = target.strip("'\"").rstrip("/").rpartition("/")[2]
    if not last_path_part:
        return escape_word(setup)
    if changes_folder(setup):  # `cd web/app`: any `cd` that ends with `app`
        return rf"\bcd [^|;&\n]*{build_ended_pattern(last_path_part)}"
    return build_word_pattern(last_path_part)  # `source venv/bin/activate`: `activate`


def _find_empty_value(command: SimpleCommand, cure: Step) -> str:
    """Return an option that the fix gives an empty value, as BSD's `sed -i ''`; "" if the failed command lacks it."""
    for part in list_simple_commands(cure.command):
        if part.program != command.program:
            continue
        for option, value in pairwise(part.words):
            if option.startswith("-") and not value and (option, value) not in pairwise(command.words):
                return option if option in command.words else ""
    return ""


def _build_command_triggers(pattern: str, *, target: str = "") -> dict[str, Any]:
    triggers: dict[str, Any] = {"toolNames": [SHELL_TOOL], "commandPatterns": [pattern]}
    return {**triggers, "commandMatchTarget": target} if target else triggers


def _is_telling(word: str) -> bool:
    """Return whether a word that the working call lacks can be the mistake: an option or name, no path or number."""
    return word.startswith("-") or bool(SUBCOMMAND.fullmatch(word) and word not in EVERYDAY_SUBCOMMANDS)


def _build_tool_triggers(call: Step, diagnosis: Diagnosis, cure: Step | None, *, is_path: bool) -> dict[str, Any]:
    """Build triggers for a call of a tool other than the shell; empty if nothing distinguishes it.

    For a file tool they are the file's name, if the path was wrong (`is_path`). For others they are a missing or wrong
    parameter, the wrong name in the first line, or the wrong word anywhere, unless the fix has it too.
    """
    word = diagnosis.word
    if call.tool in FILE_TOOLS:
        return _build_file_triggers(call) if is_path and call.tool not in EDIT_TOOLS else {}
    if not word:
        return {}
    if diagnosis.is_absent:
        pattern = rf"(?:^|\n){PARAMETERS_MARK}(?!.* {escape_word(word)}(?: |$))"
    elif word in list_parameters(call):
        pattern = rf"(?:^|\n){PARAMETERS_MARK}.* {escape_word(word)}(?: |$)"
    elif call.content.partition("\n")[0] == word:
        pattern = rf"^{escape_word(word)}(?:\n|$)"
    else:
        pattern = build_word_pattern(word)
    if cure and cure.tool == call.tool and re.search(pattern, cure.content):
        return {}
    return {"toolNames": [call.tool], "contentPatterns": [pattern]}


def _build_file_triggers(call: Step) -> dict[str, Any]:
    """Build triggers for a file's name in any folder; empty for a name that is too long or has only dots."""
    name = call.path.replace("\\", "/").rpartition("/")[2]
    if not name.strip(".") or len(name) > _MAX_NAME_CHARS:
        return {}
    escaped_name = _GLOB_CHARS.sub(r"\\\1", name)
    return {"toolNames": [call.tool], "pathPatterns": [f"**/{escaped_name}"]}


def matches_command(
    triggers: Mapping[str, Any], command: str, search: Callable[[str, str], object] = re.search
) -> bool:
    """Return whether a trigger's pattern matches one of the simple commands of a call, or the whole.

    A match does not count where one of the trigger's exceptions (`unless`) matches the command as it is written.
    `search` takes a pattern and a text. The default has no time limit, so it is only for patterns that hardwon built.
    """
    is_full = triggers.get("commandMatchTarget") == "full"
    whole_command = command if is_full else get_command_code(command)
    views = [(whole_command, command)]  # the text that patterns are tried on, and the one that exceptions are tried on
    parts = list_simple_commands(command)
    for part, source_text in zip(parts, list_source_texts(command, parts), strict=True):
        view = part.full_text if is_full else " ".join(part.code.split())
        views.append((view, source_text))
    patterns = triggers.get("commandPatterns", ())
    exceptions = triggers.get("unless", ())
    for view, source_text in views:
        if not any(search(pattern, view) for pattern in patterns):
            continue
        if not any(search(exception, source_text) for exception in exceptions):
            return True
    return False
