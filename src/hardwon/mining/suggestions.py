"""Suggest the first wording of a lesson from the difference between the failing and the working call."""

from __future__ import annotations

import re
from collections.abc import Sequence
from difflib import get_close_matches
from itertools import pairwise, takewhile

from hardwon.agents.fields import PARAMETERS_MARK
from hardwon.agents.transcript_steps import Step
from hardwon.mining.failed_commands import (
    SUBCOMMAND,
    ZSH_COMMAND_SIGN,
    Diagnosis,
    build_word_pattern,
    is_started_otherwise,
    list_parameters,
    list_started_commands,
)
from hardwon.mining.triggers import find_setup, is_passed_on
from hardwon.shell.complaints import is_blame
from hardwon.shell.failures import MAX_QUOTE_LENGTH
from hardwon.shell.parsing import SETUP_PROGRAMS, SimpleCommand
from hardwon.shell.working_commands import list_simple_commands, list_working_commands
from hardwon.types import SHELL_TOOL

_MAX_CALL_CHARS = 100  # of a quoted call; people read denials in passing
_MAX_TEXT_CHARS, _MAX_WORD_CHARS = 160, 60
_MAX_SUMMARY_CHARS = 112
_REDIRECTION = re.compile(r"\s*(?:\d?>&?\d|\d?>>?\s*/dev/null|&>\s*\S+)")
_VALUE = re.compile(r"^\d|/|['\"$]")  # a number, a path or a text, which the next call will not repeat
_NAME = re.compile(r"[A-Za-z_]\w*")
_HOME_FOLDER = re.compile(r"(?<![\w.~-])/(?:Users|home)/[\w.-]+/")
_IS_PLAN = re.compile(r"\b(?:I['’]?(?:m|ll)|I will|let me|let['’]?s)\b", re.I)
# `kite: error: `, `[ERROR] `, `error Missing`, `*** `; but not `Error response from daemon: `.
_ERROR_MARK = re.compile(
    r"^(?:\S+: )?[^\w'\"`]*\b(?:error|fatal)(?:[:\]]+ +| +(?=(?-i:[A-Z]))|(?<=(?-i:ERROR)) +)(?=\S)|^[*!●✖✘×]+ ", re.I
)
_SHELL_NAME = re.compile(r"^(?:\S*\b(?:ba|z|da|k)?sh|\(eval\))(?::\w*)?:(?: ?(?:line )?\d+:)? ?(?=\S)")


def suggest_problem(call: Step, diagnosis: Diagnosis, quote: str, refusal: str) -> str:
    """Describe the failure: the call in its shortest form and the line that names the cause.

    If a person refused the call, their words (`refusal`) take the place of the error (`quote`).
    """
    described = describe_failed_call(call, diagnosis)
    if refusal:
        return f"{described} was refused: {shorten_text(refusal)}"
    cause = _SHELL_NAME.sub("", quote).replace('\\"', '"')
    is_long = len(described) + len(cause) > _MAX_SUMMARY_CHARS
    if not diagnosis.is_missing:  # there the program's name is the cause: `gust: command not found`
        cause = _cut_speaker(cause, diagnosis.program)
    cause = _cut_advice(cause, diagnosis.word)
    if is_long:
        cause = _select_clauses(cause, diagnosis.word)
    return f"{described} fails: {shorten_text(cause)}" if cause else f"{described} fails"


def _cut_speaker(cause: str, program: str) -> str:
    """Leave out what the sentence says already: the program's name and that it is an error, as in `kite: error: `."""
    speaker, _, rest = cause.partition(": ")
    speaker_words = speaker.split()
    speaks_itself = bool(speaker_words) and speaker_words[-1].rpartition("/")[2] == program
    # A number is a place in the program's input: `sed: 1: "s/a/b": …`.
    if speaks_itself and not rest[:1].isdigit():
        cause = rest
    cause = re.sub(rf"^{re.escape(program)} (?=error\b)", "", cause)
    return _ERROR_MARK.sub("", cause)


def _cut_advice(cause: str, word: str) -> str:
    """Return the sentence of an error that names the word, without the right names in brackets or what to do next."""
    for end in (" (", ". "):
        sentence, _, advice = cause.partition(end)
        if word and advice and is_blame(sentence) and re.search(build_word_pattern(word), sentence):
            cause = sentence
    return cause


def _select_clauses(cause: str, word: str) -> str:
    """Return the end of a long error that names the word; what precedes it is where the error comes from."""
    if not word:
        return cause
    clauses = cause.split(": ")
    named_in = [index for index, clause in enumerate(clauses) if re.search(build_word_pattern(word), clause)]
    if not named_in:
        return cause
    start = named_in[-1]
    while start and not is_blame(": ".join(clauses[start:])):  # the word alone says nothing: `Unknown key: "max"`
        start -= 1
    return ": ".join(clauses[start:])


def suggest_solution(
    call: Step, diagnosis: Diagnosis, cure: Step | None, added: Sequence[str], reason: str, person_words: str
) -> str:
    """Describe what to do instead: a person's words, or else what the working call has and the failing one lacks.

    Return "" if neither is known. The agent's reason is added if it names the wrong word or an added argument.
    """
    if person_words:
        return shorten_text(person_words, MAX_QUOTE_LENGTH)
    if cure is None:
        return ""
    setup = find_setup(call, diagnosis, cure)
    if diagnosis.command and setup.partition(" ")[0] in SETUP_PROGRAMS:
        return f"Use `{_describe_prepared_call(call, diagnosis, setup, cure)}`, in one call."
    if call.tool == SHELL_TOOL:
        sentences = [_describe_cure(diagnosis, cure, added)]
    else:
        sentences = [_describe_parameters(call, diagnosis, cure) or _describe_tool_cure(call, cure)]
    if reason and not _IS_PLAN.search(reason) and _names_word(reason, [diagnosis.word, *added]):
        sentences.append(reason)
    return " ".join(f"{sentence.rstrip('.')}." for sentence in sentences)


def suggest_summary(problem: str) -> str:
    """Shorten the problem at a word boundary and drop the punctuation at its end.

    The solution is left out, since it is always shown beside the summary.
    """
    if len(problem) > _MAX_SUMMARY_CHARS:
        # One character more, so that a word that ends exactly at the limit is kept.
        problem = problem[: _MAX_SUMMARY_CHARS + 1].rpartition(" ")[0]
    return problem.rstrip(" .,;:…-")


def describe_failed_call(call: Step, diagnosis: Diagnosis) -> str:
    """Name the failed call by program, subcommand and wrong word: `git log --colour`."""
    if call.tool != SHELL_TOOL:
        return _describe_failed_tool_call(call, diagnosis)
    command = diagnosis.command
    if command is None:
        return f"`{shorten_text(_shorten_path(call.command, call.cwd), _MAX_CALL_CHARS)}`"
    if not diagnosis.word:
        return f"`{_describe_command(command, call.cwd)}`"
    words = [diagnosis.program, *diagnosis.subcommand.split()]
    call_words = command.code.split()
    # 0 if no word of the call is the named one: it is then in quotes, or part of a word.
    position = next((index for index, word in enumerate(call_words) if diagnosis.is_named(word)), 0)
    is_value = position > 0 and call_words[position - 1].startswith("-")  # of an option, as in `psql -U postgres`
    if diagnosis.word in words and not is_value:
        return f"`{' '.join(words[: words.index(diagnosis.word) + 1])}`"
    if diagnosis.option and not position:
        return f"`{' '.join(words)} {diagnosis.option}={diagnosis.word}`"
    if not position:
        return f"`{' '.join(words)}` with `{diagnosis.word}`"
    # Of what a shell expands, the error has only a part.
    is_expanded = diagnosis.word == ZSH_COMMAND_SIGN or diagnosis.is_pattern
    word = call_words[position] if is_expanded else diagnosis.word
    words_before = [diagnosis.program, *call_words[1:position]]
    is_readable = len(" ".join(words_before)) <= _MAX_WORD_CHARS and not any(map(_VALUE.search, words_before))
    # A name is clear only with what precedes it, as in `gh pr view --json stars`; an option needs only the subcommand.
    shown_words = words_before if is_readable and not word.startswith("-") else words
    return f"`{' '.join([*shown_words, word])}`"


def _describe_failed_tool_call(call: Step, diagnosis: Diagnosis) -> str:
    """Name a failed call of another tool than the shell by its wrong parameter, its wrong name or its path."""
    if diagnosis.is_absent:
        return f"`{call.tool}` without `{diagnosis.word}`"
    if diagnosis.word in list_parameters(call):
        return f"`{call.tool}` with `{diagnosis.word}`"
    target = diagnosis.word or _shorten_path(call.path, call.cwd)
    return f"`{call.tool} {shorten_text(target)}`" if target else call.tool


def _describe_prepared_call(call: Step, diagnosis: Diagnosis, setup: str, cure: Step) -> str:
    """Return the failed command after the setup that the fix runs: all of it, or its last step if all is too long."""
    started = diagnosis.program
    if diagnosis.command and not diagnosis.is_missing:
        started = _describe_command(diagnosis.command, call.cwd)
    for part in list_simple_commands(cure.command):
        steps_before = cure.command[: part.start].strip()
        is_prepared = steps_before.endswith("&&") and setup in steps_before
        if part.program == diagnosis.program and is_prepared and len(steps_before) <= _MAX_WORD_CHARS:
            setup = steps_before.removesuffix("&&").strip()
    return shorten_text(_shorten_path(f"{setup} && {started}", call.cwd), _MAX_CALL_CHARS)


def _describe_parameters(call: Step, diagnosis: Diagnosis, cure: Step) -> str:
    """Say which parameter to add, to rename or to leave out in a call of a tool; return "" if that is unclear."""
    old_names = list_parameters(call)
    new_names = list_parameters(cure)
    dropped_names = [name for name in old_names if name not in new_names]
    if diagnosis.is_absent and len(dropped_names) == 1 and len(old_names) == len(new_names):
        return f"Use the parameter `{diagnosis.word}` instead of `{dropped_names[0]}`"
    if diagnosis.is_absent:
        return f"Pass the parameter `{diagnosis.word}` too"
    if diagnosis.word not in old_names or cure.tool != call.tool:
        return ""
    added_names = [name for name in new_names if name not in old_names]
    if len(added_names) == 1:
        return f"Use the parameter `{added_names[0]}` instead of `{diagnosis.word}`"
    return f"Leave out the parameter `{diagnosis.word}`: the call worked without it"


def _describe_cure(diagnosis: Diagnosis, cure: Step, added: Sequence[str]) -> str:
    """Say how the working shell call differs, in the form that fits the mistake; the most special forms come first."""
    command = _find_curing_command(diagnosis, cure, added)
    described = _describe_command(command, cure.cwd)
    if diagnosis.is_missing:
        return _describe_missing_program(diagnosis, command, cure.cwd)
    if diagnosis.word == ZSH_COMMAND_SIGN:
        return "Put it in quotes: zsh takes a word that begins with `=` for the name of a command"
    if diagnosis.is_pattern:
        pattern = next((word for word in command.words if word.startswith(diagnosis.word)), diagnosis.word)
        return f"Put it in quotes, `'{pattern}'`: else the shell takes it for a file pattern"
    if is_passed_on(diagnosis, cure):
        return f"Put `{diagnosis.word}` after `--`: `{described}`"
    if command.program == diagnosis.word:
        return f"Run `{command.program}` without `{diagnosis.program}`"
    if not diagnosis.word and diagnosis.command and (start := _describe_other_start(diagnosis.command, command, cure)):
        return f"Use {start}"
    if command.program == diagnosis.program and diagnosis.word and diagnosis.word not in command.words:
        return _describe_replacement(diagnosis, command)
    return f"Use `{described}` instead"


def _describe_missing_program(diagnosis: Diagnosis, command: SimpleCommand, cwd: str) -> str:
    """Say that a program is not installed, if the fix only leaves it out, or how the fix starts it."""
    failed_words = diagnosis.command.words if diagnosis.command else ()
    if failed_words[-len(command.words) :] == command.words and diagnosis.program not in command.prefix_words:
        return f"Leave out `{diagnosis.program}`: it is not installed here"
    start = _shorten_path(_describe_start(command, diagnosis), cwd)
    return f"`{diagnosis.program}` is not on the PATH here; use `{start}`"


def _describe_tool_cure(call: Step, cure: Step) -> str:
    """Name the working call of a tool by its path, or by the first of its arguments that the failing one lacks."""
    lines = [line for line in cure.content.strip().split("\n") if not line.startswith(PARAMETERS_MARK)]
    new_lines = [line for line in lines if line not in call.content.split("\n")]
    first_line = next(iter(new_lines or lines), "")
    target = shorten_text(_shorten_path(cure.path, cure.cwd) or first_line or cure.command, _MAX_CALL_CHARS)
    return f"Use `{cure.tool} {target}` instead" if target else f"Use {cure.tool} instead"


def _describe_replacement(diagnosis: Diagnosis, command: SimpleCommand) -> str:
    """Name what the working call has in place of the wrong word."""
    failed = diagnosis.command
    old_words = failed.code.split() if failed else []
    if diagnosis.option and diagnosis.word not in old_words and (value := _find_value(command, diagnosis.option)):
        words = [diagnosis.program, *diagnosis.subcommand.split(), value]
        return f"Use `{shorten_text(' '.join(words), _MAX_CALL_CHARS)}` instead"
    if failed and not any(map(diagnosis.is_named, old_words)):
        return _describe_inner_replacement(diagnosis.word, failed, command)
    words = command.code.split()
    # If nothing else was added or left out, a name has another one in its place, whatever it looks like.
    is_renamed = not diagnosis.word.startswith("-") and len(words) == len(old_words)
    is_value = bool(_VALUE.search(diagnosis.word)) or "." in diagnosis.word
    new_words: list[str] = []
    for word in words:
        # Else a value is the subject of the call; but a name may be part of the right one: `@kite/web` for `web`.
        is_replacement = is_renamed or is_value or not _VALUE.search(word) or diagnosis.word in word
        if word not in old_words and is_replacement:
            new_words.append(word)
    if not new_words or len(" ".join(new_words)) > _MAX_CALL_CHARS:
        return f"Leave out `{diagnosis.word}`: the call worked without it"
    if diagnosis.word.startswith("-"):
        subcommand_words = [word for word in diagnosis.subcommand.split() if word in command.words]
        names_to_show = [diagnosis.program, *subcommand_words, *new_words]
        shown_words = [_cut_value(word, old_words) for word in dict.fromkeys(words) if word in names_to_show]
    else:  # all up to the new name: `git push origin master`
        shown_words = words[: words.index(new_words[-1]) + 1]
    return f"Use `{shorten_text(' '.join(shown_words), _MAX_CALL_CHARS)}` instead"


def _describe_inner_replacement(wrong_name: str, failed: SimpleCommand, command: SimpleCommand) -> str:
    """Name what the working call has in place of a name inside a query, or in a list such as `--json title,stars`."""
    is_in_quotes = wrong_name not in failed.code
    old_names = _NAME.findall(failed.full_text if is_in_quotes else failed.code)
    new_text = command.full_text if is_in_quotes else command.code
    new_names = [name for name in _NAME.findall(new_text) if name not in old_names]
    nearest = get_close_matches(wrong_name, new_names, 1)
    if not nearest and not is_in_quotes and len(new_names) == 1:
        nearest = new_names
    if nearest:
        return f"Use `{nearest[0]}` instead of `{wrong_name}`"
    return f"Leave out `{wrong_name}`: the call worked without it"


def _cut_value(word: str, old_words: Sequence[str]) -> str:
    """Return an option without a value that the next call will not repeat.

    The same file as in the failed call is its subject, as in `-var-file=prod.tfvars` for `-var-files=prod.tfvars`.
    """
    option, _, value = word.partition("=")
    old_values = [old_word.partition("=")[2] for old_word in old_words]
    if _VALUE.search(value) or ("." in value and value in old_values):
        return option
    return word


def _find_value(command: SimpleCommand, option: str) -> str:
    """Return an option with its value as a command has them: `--context staging` or `--parser=typescript`."""
    for item, next_item in pairwise([*command.code.split(), ""]):
        if item == option and next_item and not next_item.startswith("-"):
            return f"{item} {next_item}"
        if item.startswith(f"{option}="):
            return item
    return ""


def _describe_other_start(failed: SimpleCommand, command: SimpleCommand, cure: Step) -> str:
    """Say how a fix starts the same arguments, if the error names no word; "" if it starts them as before.

    The start is shown with the first subcommand, as in `uv pip install`. If there is none because the first argument is
    a script that the next call will not repeat, it is shown beside the failed program.
    """
    if is_started_otherwise(failed, command.full_text):
        arguments = failed.code.split()[1:]
        names = list(takewhile(SUBCOMMAND.fullmatch, arguments))[:1]
        words = command.code.split()
        if names and words[-len(arguments) :] == arguments:
            start = " ".join([*command.prefix_words, *words[: -len(arguments)], *names])
            return f"`{_shorten_path(start, cure.cwd)}` instead"
    parsed_arguments = failed.words[1:]
    is_value_first = _VALUE.search(" ".join(parsed_arguments[:1])) is not None
    if not is_value_first or command.words[-len(parsed_arguments) :] != parsed_arguments:
        return ""
    if not is_started_otherwise(failed, cure.command):
        return ""
    start = " ".join([*command.prefix_words, *command.words[: -len(parsed_arguments)]])
    return f"`{_shorten_path(start, cure.cwd)}` instead of `{failed.words[0]}`"


def _describe_start(command: SimpleCommand, diagnosis: Diagnosis) -> str:
    """Return the words that start a program: all up to it, or of another program those before the same arguments."""
    words = command.code.split()
    names = [word.rpartition("/")[2] for word in words]
    end = names.index(diagnosis.program) + 1 if diagnosis.program in names else 1
    arguments = diagnosis.command.code.split()[1:] if diagnosis.command else []
    if end == 1 and arguments and words[-len(arguments) :] == arguments:  # `docker compose` for `docker-compose`
        end = max(len(words) - len(arguments), 1)
    if end == 1 and "/" in words[0]:  # its path already says what an assignment before it does
        return words[0]
    return " ".join(shorten_text(word, _MAX_WORD_CHARS) for word in [*command.prefix_words, *words[:end]])


def _find_curing_command(diagnosis: Diagnosis, cure: Step, added: Sequence[str]) -> SimpleCommand:
    """Return the simple command that replaces the failed one: of the best choices, the one with most words in common.

    Best is the same program, then what has the wrong word for an argument: `npx biome` for `pnpm exec biome`.
    """
    choices = list_started_commands(diagnosis, cure.command)
    if not choices:
        working = list_working_commands(cure.command)
        choices = [command for command in working if diagnosis.word in command.words] or working
    expected_words = set(added)
    if diagnosis.command:
        expected_words.update(diagnosis.command.words[1:])
    return max(choices, key=lambda command: len(expected_words.intersection(command.words)))


def _describe_command(command: SimpleCommand, cwd: str) -> str:
    """Return a command on one line for use in backticks, without redirections; a long one is cut."""
    is_short = len(command.full_text) <= _MAX_CALL_CHARS
    # In a long command drop quoted text first: it is the subject of the call, not its form.
    words = command.full_text if is_short else command.code.replace("''", "'…'").replace('""', '"…"')
    text = _REDIRECTION.sub("", " ".join([*command.prefix_words, words]))
    return shorten_text(_shorten_path(text, cwd), _MAX_CALL_CHARS).replace("`", "'")


def _shorten_path(text: str, cwd: str) -> str:
    """Write paths as a colleague would, relative to the project or to the home of whoever works there."""
    shortened = text.replace(f"{cwd.rstrip('/')}/", "") if len(cwd) > 1 else text
    return _HOME_FOLDER.sub("~/", shortened)


def _names_word(sentence: str, words: Sequence[str]) -> bool:
    return any(len(word) > 1 and word in sentence for word in words)


def shorten_text(text: str, max_chars: int = _MAX_TEXT_CHARS) -> str:
    line = " ".join(text.split())
    return line if len(line) <= max_chars else line[: max_chars - 1].rstrip() + "…"
