"""Find what fixed a failure: the call that worked, how it differs, and what was said about it.

The difference between the failing and the working call is the lesson. If files were edited in between, the code was at
fault and not the call. If the same call worked later, something around it had changed.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from difflib import SequenceMatcher
from functools import lru_cache

from hardwon.agents.transcript_steps import Step
from hardwon.mining.failed_commands import (
    MIN_NAME_SIMILARITY,
    SUBCOMMAND,
    ZSH_COMMAND_SIGN,
    Diagnosis,
    find_wrapper,
    is_started_otherwise,
    list_parameters,
    list_started_commands,
)
from hardwon.mining.triggers import find_setup
from hardwon.shell.failures import MAX_INSPECTED_CHARS, MAX_QUOTE_LENGTH, Failure
from hardwon.shell.parsing import SimpleCommand
from hardwon.shell.working_commands import (
    asks_for_help,
    get_command_code,
    is_read_only,
    list_simple_commands,
    list_working_commands,
)
from hardwon.text.similarity import tokenize
from hardwon.types import EDIT_TOOLS, SHELL_TOOL

MIN_AIM_OVERLAP = 0.7
_MIN_SHARED_CHARS = 5  # `typecheck`, `check-types`
_MIN_QUERY_OVERLAP = 0.5  # between two queries, of which one has a wrong name
# The error itself offers a name: "did you mean 'stash'?".
_SUGGESTION = re.compile(r"\bdid you mean:? +['\"`]?([\w./:@+-]{2,80}[\w])", re.I)
# Getting past a check teaches nothing good: `--no-verify`, `push -f`.
_SKIPS_CHECK = re.compile(
    r"--no-(?:verify|check|gpg-sign)\b|--force(?!-with-lease)\b|\bpush\b[^|;&]*\s-f\b|--skip[\w-]*|--dangerously[\w-]*"
    r"|--insecure\b|--break-system-packages\b"
    r"|\b(?:HUSKY|\w*SKIP\w*|\w*NO_VERIFY|NODE_TLS_REJECT_UNAUTHORIZED|PYTHONHTTPSVERIFY|PIP_BREAK_SYSTEM_PACKAGES)="
)
# Forms such as `|| true` succeed even if the program fails.
_HIDES_FAILURE = re.compile(r"\|\|\s*(?:true|:|echo)(?:\s|$|;|\))")
# `Usage:  kite sail COMMAND`, `Usage: kite sail <command> [flags]`.
_GROUP_USAGE = re.compile(r"\busage:\s+([\w.-]+(?: [a-z][\w-]*)*) [<\[(]?(?:sub)?command\b", re.I)
_NUMBER_OR_PATH = re.compile(r"^\d|/")
# A person answers these with the next request; nothing was done that could be wrong.
TOOLS_ASKING_PERSON = frozenset(("ExitPlanMode", "EnterPlanMode", "AskUserQuestion"))

_ARGUMENT = re.compile(r"\"[^\"]{0,400}\"|'[^']{0,400}'|[^\s\"']+")
# Shell commands that change files: `sed -i`, `> out.txt`, `eslint --fix`.
_WRITING_COMMAND = re.compile(
    r"\bsed\s+(?:-\w+\s+)*-i|\bperl\s+-\w*i|[^2&]>>?\s*[\w./~$-]+\.\w+|\btee\s|[-:]fix\b|--write\b|\bfmt\b|\bgofmt\b.*\s-w\b"
)
_WRITING_SCRIPT = re.compile(r"\.write\(|write_text\(|writeFileSync\(")
_REASON_WORDS = re.compile(
    r"\b(?:because|instead|turns out|(?:issue|problem|reason|cause) (?:is|was|seems)|requires?|must|rather than"
    r"|correct (?:way|form|syntax|name))\b|n't (?:support|accept|match|have|exist|allow|work)"
    r"|\bnot (?:support|available|installed)",
    re.I,
)
_CORRECTION_WORDS = re.compile(
    r"\b(?:instead|rather|don'?t|do not|never|always|should(?:n't)?|must(?:n't)?|prefer|better|wrong|stop|avoid"
    r"|actually|not what|no need|make sure|why|can't we|use|you (?:can't|cannot|need to))\b|\A\W*no\b",
    re.I,
)
_REDIRECTION = re.compile(r"\s*\d?&?>>?\s*(?:&\d|/dev/null)")
_SENTENCE = re.compile(r"[^.!?\n]+(?:[.!?](?!\s|$)[^.!?\n]*)*[.!?]?")


def is_cure(
    failing_call: Step, diagnosis: Diagnosis, error: Failure, call: Step, result: str, *, is_same_aim: bool
) -> bool:
    """Return whether a successful call achieved the failing call's aim in another form.

    A word that the error calls unknown is not part of the aim: a call of the same program and subcommand without it
    counts. Reading the help does not count, nor a call whose failure would not show, nor one that skips a check.
    """
    if is_same_aim and call.tool == SHELL_TOOL and diagnosis.command:
        # Calls with the same words may have only files in common, which can be given to any program.
        is_same_aim = _shares_aim_word(failing_call.command, call.command)
    has_aim = (
        _avoids_named_word(diagnosis, call, error)
        or (is_same_aim and not diagnosis.is_pattern)  # a pattern must be in quotes, which is checked above
        or _runs_failed_command_otherwise(failing_call, diagnosis, error, call)
        or _mends_argument(failing_call, diagnosis, call)
        or _takes_suggestion(failing_call, call, error)
    )
    if not has_aim or skips_check(failing_call, call):
        return False
    # If the failure showed behind `|| true`, it would show here as well.
    if _HIDES_FAILURE.search(call.command) and not _HIDES_FAILURE.search(failing_call.command):
        return False
    if error.quote and error.quote in result:
        return False
    return shows_success(call, result)


def _shares_aim_word(failing: str, working: str) -> bool:
    """Return whether a part of the working command has a word of the failing one that is no number or path."""
    failing_words = [word for part in list_simple_commands(failing) for word in part.words]
    aim_words = _select_aim_words(failing_words)
    return any(aim_words & _select_aim_words(part.words) for part in list_simple_commands(working))


def _runs_failed_command_otherwise(failing_call: Step, diagnosis: Diagnosis, error: Failure, call: Step) -> bool:
    """Return whether a call starts the failed command in another way, or prepares it.

    If the error names no word but says that the call is wrong, a single word spelled otherwise counts as well.
    """
    if diagnosis.command is None or call.tool != SHELL_TOOL:
        return False
    if is_started_otherwise(diagnosis.command, call.command):
        return True
    is_unnamed_mistake = error.kind == "interface" and not diagnosis.word
    if is_unnamed_mistake and _respells_word(diagnosis.command, call.command):
        return True
    return bool(find_setup(failing_call, diagnosis, call))


def shows_success(call: Step, result: str) -> bool:
    """Return whether a successful call did something, and its failure would have shown."""
    if call.tool != SHELL_TOOL:
        return True
    # A pipe hides the exit code, so an empty result does not show that anything worked.
    is_hidden = "|" in call.command and not result.strip()
    return not is_hidden and not asks_for_help(call.command)


def differs_in_wrong_word(failing_call: Step, diagnosis: Diagnosis, call: Step) -> bool:
    """Return whether a call is the failing one but for the wrong word, which it lacks or has another name for.

    Other options and names must be the same; their order, numbers and paths may differ.
    """
    failed = diagnosis.command
    if failed is None or skips_check(failing_call, call) or _HIDES_FAILURE.search(call.command):
        return False
    if asks_for_help(call.command):
        return False
    if diagnosis.is_missing:
        return is_started_otherwise(failed, call.command)
    aim_words = _select_aim_words(failed.words[1:]) - {diagnosis.word}
    for part in list_started_commands(diagnosis, call.command):
        words = _select_aim_words(part.words[1:])
        if diagnosis.word in words or not aim_words <= words:
            continue
        new_words = words - aim_words
        is_left_out = not new_words and diagnosis.word.startswith("-")
        is_replaced = len(new_words) == 1 and _is_respelled(diagnosis.word, new_words.pop())
        if is_left_out or is_replaced:
            return True
    return False


def find_misread_subcommand(diagnosis: Diagnosis, error: Failure, cure: Step) -> str:
    """Return the subcommand that is wrong, though the error calls its option unknown; "" if the option is wrong.

    Many programs read the options before they look up the subcommand, as in `unknown flag: --all` for
    `kite sail clear --all`. Then they print the usage of the group, `kite sail COMMAND`, and the fix has the option.
    """
    failed = diagnosis.command
    usage = _GROUP_USAGE.search(error.text)
    if failed is None or usage is None or diagnosis.option or not diagnosis.word.startswith("-"):
        return ""
    group = usage[1].split()
    words = failed.code.split()
    name = next(iter(words[len(group) :]), "")
    if words[: len(group)] != group or not SUBCOMMAND.fullmatch(name):
        return ""
    for part in list_started_commands(diagnosis, cure.command):
        if diagnosis.word in part.words and name not in part.words:
            return name
    return ""


def _mends_argument(failing_call: Step, diagnosis: Diagnosis, call: Step) -> bool:
    """Return whether a call of a tool other than the shell mends what the error named.

    A missing parameter must be there and a wrong one must be gone. A wrong name in the first line of the content, such
    as that of a skill, must have a similar one in its place.
    """
    word = diagnosis.word
    if call.tool == SHELL_TOOL or call.tool != failing_call.tool or not word:
        return False
    if diagnosis.is_absent:
        return word in list_parameters(call)
    if word in list_parameters(failing_call):
        return word not in list_parameters(call)
    failing_name = failing_call.content.partition("\n")[0]
    name = call.content.partition("\n")[0]
    return failing_name == word and name != word and _is_respelled(word, name)


def _avoids_named_word(diagnosis: Diagnosis, call: Step, error: Failure) -> bool:
    """Return whether a call runs the failed command without the word that the error names."""
    failed = diagnosis.command
    if failed is None or not diagnosis.word or call.tool != SHELL_TOOL:
        return False
    other_words: list[str] = []
    for word in failed.words[1:]:
        is_among_letters = diagnosis.is_letter and diagnosis.is_named(word)
        if word.partition("=")[0] != diagnosis.word and not is_among_letters:
            other_words.append(word)
    aim_words = _select_aim_words(other_words)
    parts = list_simple_commands(call.command)
    if wrapper := find_wrapper(parts, diagnosis.program):
        parts = [*parts, wrapper]
    parts = [*parts, *list_started_commands(diagnosis, call.command)]
    return any(_is_same_without_word(diagnosis, aim_words, part, error) for part in parts)


def _is_same_without_word(diagnosis: Diagnosis, aim_words: set[str], part: SimpleCommand, error: Failure) -> bool:
    """Return whether a part of a call does what the failed command was for, without the word that the error names.

    `aim_words` are those of the failed command, except the wrong one. What counts depends on what the wrong word is:
    a missing program, a word that the shell took for itself, the value of an option, a name inside a query, or else a
    subcommand or option. Earlier cases exclude later ones.
    """
    words = _select_aim_words(part.words)
    is_same_program = part.program == diagnosis.program
    if diagnosis.is_missing:
        return _runs_in_place_of_program(diagnosis.program, aim_words, part)
    if diagnosis.word == ZSH_COMMAND_SIGN or diagnosis.is_pattern:
        return is_same_program and _is_protected_from_shell(diagnosis.word, part)
    # Run directly, without the wrapper that does not know it.
    if part.program == diagnosis.word and aim_words and aim_words <= words:
        return True
    if diagnosis.option:
        return is_same_program and _has_other_value(diagnosis, aim_words, part)
    if diagnosis.word in words or (diagnosis.is_letter and any(map(diagnosis.is_named, words))):
        return False
    failed = diagnosis.command
    if failed and not any(map(diagnosis.is_named, failed.code.split())):
        return is_same_program and _is_same_query_without_name(failed.full_text, diagnosis.word, part.full_text)
    if len(aim_words) > 1 and aim_words <= words:
        return True
    if not is_same_program:
        return False
    return _has_name_elsewhere(diagnosis, aim_words, words) or _keeps_subcommand(diagnosis, part, error)


def _runs_in_place_of_program(program: str, aim_words: set[str], part: SimpleCommand) -> bool:
    """Return whether a part starts a missing program in another way, or an equivalent one with the same arguments.

    Another way is by its path or through another program: `.venv/bin/kite`, `npx kite`.
    """
    if part.words[:1] == (program,):
        return False
    words = _select_aim_words(part.words)
    is_started = part.program == program or program in words
    return is_started or (bool(aim_words) and aim_words <= words)


def _is_protected_from_shell(word: str, part: SimpleCommand) -> bool:
    """Return whether no unquoted word begins with the one that the shell took for itself.

    A file pattern must still be there, in quotes. What begins with zsh's `=` may also be gone, as in `echo ---`.
    """
    if any(unquoted.startswith(word) for unquoted in part.code.split()):  # `code` is without what is in quotes
        return False
    return word == ZSH_COMMAND_SIGN or any(argument.startswith(word) for argument in part.words)


def _has_other_value(diagnosis: Diagnosis, aim_words: set[str], part: SimpleCommand) -> bool:
    """Return whether a part gives the option another value, or makes the same call without the option.

    Any other call of the program does not count, such as one that lists the right values.
    """
    words = _select_aim_words(part.words)
    if not all(name in words for name in diagnosis.subcommand.split()):
        return False
    is_same_otherwise = aim_words - {diagnosis.option} <= words
    return (diagnosis.option in words or is_same_otherwise) and not diagnosis.has_wrong_value(part.words)


def _is_same_query_without_name(failed_text: str, wrong_name: str, text: str) -> bool:
    """Return whether a text has enough words of a failed one, and not the wrong name that stood inside it."""
    overlap = compute_overlap(tokenize(failed_text), tokenize(text))
    return wrong_name not in text and overlap >= _MIN_QUERY_OVERLAP


def _has_name_elsewhere(diagnosis: Diagnosis, aim_words: set[str], words: set[str]) -> bool:
    """Return whether a call has a name like the wrong one, in place of the whole subcommand.

    The right name may be one level up, as in `kite migration up` for `kite db migrate up`. If the wrong word is a
    subcommand, this holds only for what a runner was told to run: `kite test` for `kite run tests`.
    """
    subcommands = set(diagnosis.subcommand.split())
    is_wrong_subcommand = diagnosis.word in subcommands and not diagnosis.is_run_by_name
    if is_wrong_subcommand or not aim_words - subcommands <= words:
        return False
    new_words = words - aim_words - {diagnosis.program}
    return any(_is_respelled(diagnosis.word, word) for word in new_words)


def _keeps_subcommand(diagnosis: Diagnosis, part: SimpleCommand, error: Failure) -> bool:
    """Return whether a part has each name of the failed subcommand, or another one for it near its beginning.

    Another name is one that is close to it or that the error suggests. The wrong word always needs another name, which
    may have any form; the other names may only change to a plain word, not to an option or a path.
    """
    words = _select_aim_words(part.words)
    for name in diagnosis.subcommand.split():
        is_wrong = name == diagnosis.word
        if name in words and not is_wrong:
            continue
        first_arguments = part.words[1:3]
        right_names = [argument for argument in first_arguments if is_wrong or argument.isidentifier()]
        if not any(_is_respelled(name, right_name, error.text) for right_name in right_names):
            return False
    return True


def _is_respelled(wrong: str, right: str, error_text: str = "") -> bool:
    """Return whether a name is close to the wrong one, or was suggested by the error."""
    matcher = SequenceMatcher(None, wrong, right)
    is_similar = matcher.ratio() >= MIN_NAME_SIMILARITY or matcher.find_longest_match().size >= _MIN_SHARED_CHARS
    if is_similar or right not in error_text:
        return is_similar
    return re.search(rf"(?<![\w-]){re.escape(right)}(?![\w-])", error_text) is not None


def _respells_word(failed: SimpleCommand, command: str) -> bool:
    """Return whether a command has the failed one in it with a single word spelled otherwise."""
    for part in list_simple_commands(command):
        if part.program != failed.program or len(part.words) != len(failed.words):
            continue
        pairs = [(wrong, right) for wrong, right in zip(failed.words, part.words, strict=True) if wrong != right]
        if len(pairs) == 1 and _is_respelled(*pairs[0]):
            return True
    return False


def _select_aim_words(words: Iterable[str]) -> set[str]:
    """Return the words that express the aim; numbers and paths may differ between attempts."""
    return {word.partition("=")[0] for word in words if not _NUMBER_OR_PATH.search(word)}


def _takes_suggestion(failing_call: Step, call: Step, error: Failure) -> bool:
    """Return whether a call uses the name that the error suggested."""
    if call.tool != failing_call.tool:
        return False
    suggested_name = _find_suggested_name(error.text)
    target = f"{call.path} {call.command} {call.content[:MAX_INSPECTED_CHARS]}"
    return bool(suggested_name) and suggested_name in target


@lru_cache(maxsize=32)  # every later call is compared with the open episodes
def _find_suggested_name(text: str) -> str:
    suggestion = _SUGGESTION.search(text)
    return suggestion[1] if suggestion else ""


def skips_check(failing_call: Step, call: Step) -> bool:
    """Return whether a call succeeds by skipping a check, using force, or deleting a test."""
    if _SKIPS_CHECK.search(call.command) and not _SKIPS_CHECK.search(failing_call.command):
        return True
    parts = list_simple_commands(call.command)
    if any("sudo" in part.prefix_words for part in parts) and "sudo" not in failing_call.command:
        return True
    for part in parts:
        is_removal = part.program == "rm" or part.words[1:2] == ("rm",)  # `git rm`
        if is_removal and any("test" in word for word in part.words):
            return True
    return False


def has_same_aim(call: Step, later_call: Step, error: Failure | None = None) -> bool:
    """Return whether a later call has the aim of an earlier one, ignoring words that the earlier one's error blames.

    Calls of two tools have the same aim only if both write the same file.
    """
    if call.tool != later_call.tool:
        return bool(call.tool in EDIT_TOOLS and call.path and _is_write_to(call.path, later_call))
    if call.tool == SHELL_TOOL:
        return _has_same_command_aim(call.command, later_call.command, error)
    if call.path != later_call.path or not (call.path or call.content or call.command):
        return False  # only the tool of the call is known
    if call.command or later_call.command:
        return _is_similar_text(call.command, later_call.command)
    return call.content == later_call.content or _is_similar_text(call.content, later_call.content)


def _has_same_command_aim(command: str, later_command: str, error: Failure | None) -> bool:
    if is_read_only(later_command) and not is_read_only(command):
        return False  # to look at something is not the aim of a command that does more
    aim = _tokenize_aim(command)
    later_aim = _tokenize_aim(later_command)
    if compute_overlap(aim, later_aim) >= MIN_AIM_OVERLAP:
        return True
    if error is None or error.kind != "interface":
        return False
    known_words = aim - tokenize(error.quote)
    return len(known_words) > 1 and known_words <= later_aim


def is_same_call(a: Step, b: Step) -> bool:
    return (a.tool, a.path, a.content, a.command.split()) == (b.tool, b.path, b.content, b.command.split())


def is_file_change(call: Step) -> bool:
    """Return whether a call edits files, by a tool or by a shell command such as `sed -i` or `> out.txt`."""
    command = call.command[:MAX_INSPECTED_CHARS]
    if call.tool in EDIT_TOOLS or _WRITING_SCRIPT.search(command):
        return True
    if not _WRITING_COMMAND.search(command):  # spare the parsing
        return False
    # It must be code, and not in quotes or a heredoc.
    return _WRITING_COMMAND.search(get_command_code(call.command)) is not None


def compute_overlap(a: frozenset[str], b: frozenset[str]) -> float:
    """Return the share of the smaller set that is in the other: leaving a word out keeps the aim."""
    return len(a & b) / min(len(a), len(b)) if a and b else 0.0


def diff_arguments(failing: str, working: str) -> tuple[list[str], list[str]]:
    """Return the arguments that only the failing or only the working command has, in order.

    Setup commands and redirections are left out, unless the commands are equal without them.
    """
    failing_text = _join_commands(failing)
    working_text = _join_commands(working)
    if failing_text == working_text:
        failing_text = failing[:MAX_INSPECTED_CHARS]
        working_text = working[:MAX_INSPECTED_CHARS]
    failing_arguments = _ARGUMENT.findall(failing_text)
    working_arguments = _ARGUMENT.findall(working_text)
    return _list_missing(failing_arguments, working_arguments), _list_missing(working_arguments, failing_arguments)


def find_reason(text: str) -> str:
    """Return the sentence that gives a reason; empty if there is none."""
    if not _REASON_WORDS.search(text):  # most texts give none, and splitting sentences is slower than this search
        return ""
    for sentence in _SENTENCE.finditer(text):
        if _REASON_WORDS.search(sentence[0]):
            return sentence[0].strip()[:MAX_QUOTE_LENGTH].rstrip()
    return ""


def is_correction(text: str) -> bool:
    """Return whether a person says how to do it, rather than what to do next."""
    return bool(_CORRECTION_WORDS.search(text[: MAX_QUOTE_LENGTH * 2]))


def _list_missing(arguments: list[str], other_arguments: list[str]) -> list[str]:
    """Return the arguments that the others lack, each once."""
    excluded = frozenset(other_arguments)
    return [argument for argument in dict.fromkeys(arguments) if argument not in excluded]


@lru_cache(maxsize=256)
def _join_commands(command: str) -> str:
    """Return the text of the simple commands that do work, without redirections to descriptors or `/dev/null`."""
    texts: list[str] = []
    for part in list_working_commands(command):
        text = part.full_text
        if ">" in text:  # most have none, and the pattern is slow
            text = _REDIRECTION.sub("", text)
        texts.append(text)
    return " ".join(texts)


@lru_cache(maxsize=256)
def _tokenize_aim(command: str) -> frozenset[str]:
    return tokenize(_join_commands(command))


def _is_similar_text(a: str, b: str) -> bool:
    return compute_overlap(tokenize(a[:MAX_INSPECTED_CHARS]), tokenize(b[:MAX_INSPECTED_CHARS])) >= MIN_AIM_OVERLAP


def _is_write_to(path: str, call: Step) -> bool:
    """Return whether a call writes the file: an edit of this path, or a command that writes and has its name."""
    if call.tool in EDIT_TOOLS:
        return call.path == path
    name = path.replace("\\", "/").rpartition("/")[2]
    return name in call.command and is_file_change(call)
