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
    if is_same_aim and call.tool == SHELL_TOOL and diagnosis.command:  # the same files may be given to any program
        failing_parts = list_simple_commands(failing_call.command)
        aim_words = _list_aim_words(word for part in failing_parts for word in part.words)
        is_same_aim = any(aim_words & _list_aim_words(part.words) for part in list_simple_commands(call.command))
    has_aim = _avoids_named_word(diagnosis, call, error) or (is_same_aim and not diagnosis.is_pattern)
    if diagnosis.command and not has_aim and call.tool == SHELL_TOOL:
        is_unnamed_mistake = error.kind == "interface" and not diagnosis.word
        has_aim = (
            is_started_otherwise(diagnosis.command, call.command)
            or (is_unnamed_mistake and _respells_word(diagnosis.command, call.command))
            or bool(find_setup(failing_call, diagnosis, call))
        )
    has_aim = has_aim or _mends_argument(failing_call, diagnosis, call)
    if not has_aim and not _takes_suggestion(failing_call, call, error):
        return False
    if (
        skips_check(failing_call, call)
        # If the failure showed behind `|| true`, it would show here as well.
        or (_HIDES_FAILURE.search(call.command) and not _HIDES_FAILURE.search(failing_call.command))
        or (error.quote and error.quote in result)
    ):
        return False
    return shows_success(call, result)


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
    aim_words = _list_aim_words(failed.words[1:]) - {diagnosis.word}
    for part in list_started_commands(diagnosis, call.command):
        words = _list_aim_words(part.words[1:])
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
    curing_parts = list_started_commands(diagnosis, cure.command)
    return name if any(diagnosis.word in part.words and name not in part.words for part in curing_parts) else ""


def _mends_argument(failing_call: Step, diagnosis: Diagnosis, call: Step) -> bool:
    """Return whether a call of the same tool has the parameter that was missing, or another one or name instead."""
    if call.tool == SHELL_TOOL or call.tool != failing_call.tool or not diagnosis.word:
        return False
    if diagnosis.is_absent:
        return diagnosis.word in list_parameters(call)
    if diagnosis.word in list_parameters(failing_call):
        return diagnosis.word not in list_parameters(call)
    name = failing_call.content.partition("\n")[0]
    other_name = call.content.partition("\n")[0]
    return name == diagnosis.word != other_name and _is_respelled(name, other_name)


def _avoids_named_word(diagnosis: Diagnosis, call: Step, error: Failure) -> bool:
    """Return whether a call runs the failed command without the word that the error names."""
    failed = diagnosis.command
    if failed is None or not diagnosis.word or call.tool != SHELL_TOOL:
        return False
    aim_words = _list_aim_words(
        word
        for word in failed.words[1:]
        if word.partition("=")[0] != diagnosis.word and not (diagnosis.is_letter and diagnosis.is_named(word))
    )
    parts = list_simple_commands(call.command)
    if wrapper := find_wrapper(parts, diagnosis.program):
        parts = [*parts, wrapper]
    parts = [*parts, *list_started_commands(diagnosis, call.command)]
    return any(_is_same_without_word(diagnosis, aim_words, part, error) for part in parts)


def _is_same_without_word(diagnosis: Diagnosis, aim_words: set[str], command: SimpleCommand, error: Failure) -> bool:
    words = _list_aim_words(command.words)
    is_same_program = command.program == diagnosis.program
    if diagnosis.is_missing:  # started by its path or by another program, or replaced by an equivalent program
        is_started = is_same_program or diagnosis.program in words
        return diagnosis.program not in command.words[:1] and (is_started or (bool(aim_words) and aim_words <= words))
    if diagnosis.word == ZSH_COMMAND_SIGN:
        return is_same_program and not any(word.startswith(diagnosis.word) for word in command.code.split())
    if diagnosis.is_pattern:  # the same text in quotes
        return (
            is_same_program
            and any(word.startswith(diagnosis.word) for word in command.words)
            and not any(word.startswith(diagnosis.word) for word in command.code.split())
        )
    # Run directly, without the wrapper that does not know it.
    if command.program == diagnosis.word and aim_words and aim_words <= words:
        return True
    if diagnosis.option:
        is_kept = all(name in words for name in diagnosis.subcommand.split())
        # Another value, or the same call without the option; not any call, such as one that lists the right values.
        is_kept = is_kept and (diagnosis.option in words or aim_words - {diagnosis.option} <= words)
        return is_same_program and is_kept and not diagnosis.has_wrong_value(command.words)
    if diagnosis.word in words or (diagnosis.is_letter and any(map(diagnosis.is_named, words))):
        return False
    failed = diagnosis.command
    if failed and not any(map(diagnosis.is_named, failed.code.split())):  # a name inside a query
        overlap = compute_overlap(tokenize(failed.full_text), tokenize(command.full_text))
        return is_same_program and diagnosis.word not in command.full_text and overlap >= _MIN_QUERY_OVERLAP
    if len(aim_words) > 1 and aim_words <= words:
        return True
    # The right name may be one level up: `kite migration up` for `kite db migrate up`.
    subcommands = set(diagnosis.subcommand.split())
    new_words = words - aim_words - {command.program}
    # A script may be a subcommand as well: `kite test` for `kite run tests`.
    is_elsewhere = diagnosis.word not in subcommands or diagnosis.is_run_by_name
    is_same_otherwise = is_same_program and is_elsewhere and aim_words - subcommands <= words
    if is_same_otherwise and any(_is_respelled(diagnosis.word, word) for word in new_words):
        return True
    for name in diagnosis.subcommand.split():
        is_kept = name in words and name != diagnosis.word
        right_names = [right for right in command.words[1:3] if right.isidentifier() or name == diagnosis.word]
        if not is_kept and not any(_is_respelled(name, right, error.text) for right in right_names):
            return False
    return is_same_program


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


def _list_aim_words(words: Iterable[str]) -> set[str]:
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
    return any(
        "rm" in (part.program, *part.words[1:2]) and any("test" in word for word in part.words) for part in parts
    )


def has_same_aim(a: Step, b: Step, error: Failure | None = None) -> bool:
    """Return whether two calls have the same aim, ignoring words that the first one's error calls unknown."""
    if a.tool != b.tool:
        return bool(a.tool in EDIT_TOOLS and a.path and _is_write_to(a.path, b))
    if a.tool == SHELL_TOOL:
        if is_read_only(b.command) and not is_read_only(a.command):
            return False
        aim = _tokenize_aim(a.command)
        other_aim = _tokenize_aim(b.command)
        known_words = aim - tokenize(error.quote) if error and error.kind == "interface" else frozenset()
        return compute_overlap(aim, other_aim) >= MIN_AIM_OVERLAP or (len(known_words) > 1 and known_words <= other_aim)
    if a.path != b.path or not (a.path or a.content or a.command):
        return False  # only the tool of the call is known
    if a.command or b.command:
        return _is_similar_text(a.command, b.command)
    return a.content == b.content or _is_similar_text(a.content, b.content)


def is_same_call(a: Step, b: Step) -> bool:
    return (a.tool, a.path, a.content, a.command.split()) == (b.tool, b.path, b.content, b.command.split())


def is_file_change(call: Step) -> bool:
    command = call.command[:MAX_INSPECTED_CHARS]
    if call.tool in EDIT_TOOLS or _WRITING_SCRIPT.search(command):
        return True
    return bool(_WRITING_COMMAND.search(command) and _WRITING_COMMAND.search(get_command_code(call.command)))


def compute_overlap(a: frozenset[str], b: frozenset[str]) -> float:
    """Return the share of the smaller set that is in the other: leaving a word out keeps the aim."""
    return len(a & b) / min(len(a), len(b)) if a and b else 0.0


def diff_arguments(failing: str, working: str) -> tuple[list[str], list[str]]:
    """Return the arguments that only the failing or only the working command has, in order."""
    if (commands := (_join_commands(failing), _join_commands(working)))[0] == commands[1]:
        commands = failing[:MAX_INSPECTED_CHARS], working[:MAX_INSPECTED_CHARS]
    failing_arguments, working_arguments = map(_ARGUMENT.findall, commands)
    return _list_missing(failing_arguments, working_arguments), _list_missing(working_arguments, failing_arguments)


def find_reason(text: str) -> str:
    """Return the sentence that gives a reason; empty if there is none."""
    if not _REASON_WORDS.search(text):  # most texts give none, and splitting sentences is slower than this search
        return ""
    reasons = (sentence[0].strip() for sentence in _SENTENCE.finditer(text) if _REASON_WORDS.search(sentence[0]))
    return next(reasons, "")[:MAX_QUOTE_LENGTH].rstrip()


def is_correction(text: str) -> bool:
    """Return whether a person says how to do it, rather than what to do next."""
    return bool(_CORRECTION_WORDS.search(text[: MAX_QUOTE_LENGTH * 2]))


def _list_missing(arguments: list[str], other_arguments: list[str]) -> list[str]:
    excluded = frozenset(other_arguments)
    return [argument for argument in dict.fromkeys(arguments) if argument not in excluded]


@lru_cache(maxsize=256)
def _join_commands(command: str) -> str:
    return " ".join(
        _REDIRECTION.sub("", part.full_text) if ">" in part.full_text else part.full_text
        for part in list_working_commands(command)
    )


@lru_cache(maxsize=256)
def _tokenize_aim(command: str) -> frozenset[str]:
    return tokenize(_join_commands(command))


def _is_similar_text(a: str, b: str) -> bool:
    return compute_overlap(tokenize(a[:MAX_INSPECTED_CHARS]), tokenize(b[:MAX_INSPECTED_CHARS])) >= MIN_AIM_OVERLAP


def _is_write_to(path: str, call: Step) -> bool:
    name = path.replace("\\", "/").rpartition("/")[2]
    return call.path == path if call.tool in EDIT_TOOLS else name in call.command and is_file_change(call)
