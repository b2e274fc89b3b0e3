"""Compare what a handoff claims with what hardwon recorded of the session.

Only three kinds of claims are judged, because only these have an exact answer: a commit by its hash, a check that is
said to pass, and a file that is said to be changed. A claim that cannot be judged is left alone.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from hardwon.distil import phrasing, tool_actions
from hardwon.distil.tool_actions import ToolAction, classify_calls, find_check_words
from hardwon.handoff import git_commit
from hardwon.text.excerpts import shorten_line, split_sentences
from hardwon.types import Turn

_MAX_CLAIM_CHARS = 160
# A number of this form is a commit only in a sentence about commits; others may be image or request ids.
_HASH = re.compile(r"(?<![\w/.#-])(?=[0-9a-f]*\d)[0-9a-f]{7,40}(?![\w/-])")
_COMMIT_WORD = re.compile(r"\b(?:commit\w*|push\w*|merged?|cherry-pick\w*|revert\w*|HEAD|sha|amend\w*)\b", re.I)
# Words that make a sentence a wish, a condition or a denial instead of a claim that a check passes.
_NOT_CLAIMED = re.compile(
    r"\b(?:not|never|no longer|until|once|when|if|unless|should|must|will|would|expect\w*|ensure|make sure|verify"
    r"|need\w*|to see|so that|fail\w*|broken|flaky|except|still|yet to|todo|next)\b|n't\b|\?",
    re.I,
)
_PASSES = re.compile(r"\b(?:pass(?:es|ed|ing)?|succeed(?:s|ed)?|green|clean)\b", re.I)
# A claim about a whole kind of check: "all tests pass", "lint is clean". The word before the subject may limit it to a
# part of the checks ("the docs-finder tests pass"), which cannot be judged.
_WHOLE_CLAIM = re.compile(
    r"(?:(?P<scope>[\w/`.%-]+)\s+)?(?<![\w-])(?P<subject>tests?(?: suite)?|suite|lint(?:er|ing)?|ruff|eslint"
    r"|type[ -]?check(?:s|ing)?|mypy|pyright|build)\s+(?:(?:all|now|both|run)\s+)*"
    r"(?:(?:is|are)\s+(?:all\s+|now\s+)*(?:passing|green|clean)|pass(?:es|ed)?|succeed(?:s|ed)?|clean)\b",
    re.I,
)
_WHOLE_SCOPES = frozenset(("all", "the", "every", "full", "whole", "entire", "unit", "existing", "and", "our"))
# The kinds of checks, by the words of their commands and of claims about them.
_KIND_WORDS = {
    "lint": "lint linter linting ruff eslint flake8 pylint clippy biome oxlint stylelint golangci-lint shellcheck",
    "types": "typecheck type-check typechecks typechecking mypy pyright tsc vue-tsc",
    "build": "build compile",
    "test": "test tests suite pytest unittest tox nox jest vitest mocha ava playwright cypress rspec phpunit e2e",
}
_KINDS = {word: kind for kind, words in _KIND_WORDS.items() for word in words.split()}
# A command that ends like this did not run its check, so it says nothing about the code.
_DID_NOT_RUN = re.compile(
    r"not found|no such file|cannot find|can't load|no rule to make|unknown (?:command|option)", re.I
)
_WHOLE_PATHS = frozenset((".", "./", "./..."))  # arguments that mean everything
_CHANGE_VERB = (
    r"(?:changed|edited|updated|modified|rewrote|rewritten|refactored|fixed|added|created|wrote|written|implemented"
    r"|extended|patched|adjusted|reworked|replaced|touched)"
)
# A path with an extension in lower case: `auth.Method` is code. It must not describe the next word, as in "changed
# settings.json handling".
_PATH = (
    r"`?((?:[\w.@+-]+/)*[\w@+-][\w.@+-]*\.[a-z][a-z0-9]{0,4})(?![\w(.])`?"
    r"(?=\s*(?:$|[,.;:)]|and\b|to\b|so\b|for\b|with\b|by\b|in\b|because\b|is\b|was\b|has\b|now\b))"
)
_CHANGED_FILE = (
    re.compile(rf"(?i:\b{_CHANGE_VERB})\s+(?:the\s+)?(?:file\s+)?{_PATH}"),
    re.compile(rf"(?i:\b{_CHANGE_VERB})\s+(?:[^.;,:()\s]+\s+){{1,8}}(?:in|to|into)\s+{_PATH}"),
    re.compile(rf"{_PATH}\s+(?:is|was|has been|is now|now)\s+{_CHANGE_VERB}\b"),
)
# Between a verb and a path these show that the path is only where something was read.
_ONLY_READ = re.compile(
    r"\b(?:described|documented|found|seen|listed|mentioned|reported|according|as|per|like)\b", re.I
)


@dataclass(frozen=True, slots=True)
class CheckRun:
    """The last run of a check; `paths` are the files and folders it was limited to."""

    label: str
    kinds: frozenset[str]
    paths: frozenset[str]
    has_passed: bool
    result: str

    def covers(self, other: CheckRun) -> bool:
        """Return whether this run includes all that the other one checked."""
        if not self.kinds & other.kinds:
            return False
        if not self.paths:  # it checked everything
            return True
        roots = tuple(path.rstrip("/.") for path in self.paths)
        return bool(other.paths) and all(path.startswith(roots) for path in other.paths)


@dataclass(frozen=True, slots=True)
class SessionRecord:
    """What hardwon recorded of a session; commits as pairs of hash and subject."""

    project: str = ""
    cwd: str = ""
    started_at: float = 0.0
    files: tuple[str, ...] = ()
    commits: tuple[tuple[str, str], ...] = ()
    checks: tuple[CheckRun, ...] = ()
    failed_saves: tuple[str, ...] = ()  # commits and pushes whose last try failed
    commands: tuple[str, ...] = ()  # whole shell commands, which may have changed files in ways not understood here


def build_session_record(turns: Sequence[Turn]) -> SessionRecord:
    """Collect changed files, commits, and the last result of each check."""
    if not turns:
        return SessionRecord()
    actions = [action for turn in turns for action in classify_calls(turn)]
    commits = dict[str, str]()
    saves = dict[str, bool]()
    for action in actions:
        if action.kind == "saved":
            commits.update({commit_id: subject for _, commit_id, subject, _ in tool_actions.parse_commits(action.text)})
            saves[" ".join(action.label.split()[:2])] = action.failed
    commands = [action.call.input.get("command") for action in actions if isinstance(action.call.input, dict)]
    return SessionRecord(
        project=turns[-1].project,
        cwd=turns[-1].cwd,
        started_at=min(turn.at for turn in turns),
        files=tuple(phrasing.list_files_modified(action for action in actions if action.kind != "agent")),
        commits=tuple(commits.items()),
        checks=tuple(_find_last_runs(actions)),
        failed_saves=tuple(label for label, has_failed in saves.items() if has_failed),
        commands=tuple(command for command in commands if isinstance(command, str)),
    )


def _find_last_runs(actions: Iterable[ToolAction]) -> list[CheckRun]:
    """Return the last run of each check, without failures that a later run overtook.

    Runs that may not have been checks at all, or in which another part of the command failed, are left out.
    """
    runs = list[CheckRun]()
    for action in actions:
        if action.kind != "check":
            continue
        words = [word for word in action.label.split() if not word.startswith("-")]
        paths = frozenset(word for word in words[1:] if "/" in word or "." in word or "::" in word) - _WHOLE_PATHS
        result = action.tally.text if action.tally else ""
        if action.failed and not result:
            result = tool_actions.find_error_line(action.text, is_shell=True)
        if action.tally:
            is_unclear = action.failed and not action.tally.has_failed  # another part of the command failed
        else:
            # Without a tally only the exit code tells: tests print errors that they expect.
            is_unclear = action.failed and (action.call.outcome != "failed" or bool(_DID_NOT_RUN.search(result)))
        if is_unclear:
            continue
        kinds = frozenset(_KINDS[word] for word in find_check_words(action.label) if word in _KINDS)
        run = CheckRun(action.label, kinds, paths, not action.failed, result)
        runs = [
            earlier
            for earlier in runs
            if (earlier.kinds, earlier.paths) != (run.kinds, run.paths) and not (run.has_passed and run.covers(earlier))
        ]
        runs.append(run)
    return runs


def describe_record(record: SessionRecord) -> list[str]:
    """Return one line per recorded fact, as the person and the next agent read it."""
    lines = []
    if record.files:
        more = f" and {len(record.files) - 12} more" if len(record.files) > 12 else ""
        lines.append(f"Files changed: {', '.join(record.files[:12])}{more}")
    lines += [f"Commit {commit_id} “{shorten_line(subject, 90)}”" for commit_id, subject in record.commits[-8:]]
    lines += [_describe_run(run) for run in record.checks[-8:]]
    lines += [f"`{label}` failed on its last run" for label in record.failed_saves[:3]]
    return lines


def _describe_run(run: CheckRun) -> str:
    state = "passed" if run.has_passed else "failed on its last run"
    return f"`{shorten_line(run.label, 80)}` {state}" + (f": {shorten_line(run.result, 120)}" if run.result else "")


def find_contradictions(record: SessionRecord, done_texts: Iterable[str], other_texts: Iterable[str] = ()) -> list[str]:
    """Return one line per claim that the record contradicts, each with the claim quoted.

    `done_texts` tell what was done. `other_texts` also tell what is open or failed, so only their commits and passing
    checks are judged.
    """
    done = [sentence for text in done_texts for sentence in split_sentences(text)]
    other = [sentence for text in other_texts for sentence in split_sentences(text)]
    lines = list[str]()
    for sentence in [*done, *other]:
        reasons = [*_judge_commits(record, sentence), *_judge_check(record, sentence)]
        if sentence in done:
            reasons += _judge_files(record, sentence)
        lines += [f"“{shorten_line(sentence, _MAX_CLAIM_CHARS)}”: {reason}" for reason in reasons]
    return list(dict.fromkeys(lines))


def find_unrecorded_claims(record: SessionRecord, texts: Iterable[str]) -> list[str]:
    """Return the sentences that say a kind of check passes although no run of that kind was recorded."""
    sentences = [sentence for text in texts for sentence in split_sentences(text)]
    recorded_kinds = frozenset(kind for run in record.checks for kind in run.kinds)
    return [sentence for sentence in sentences if _find_claimed_kinds(sentence) - recorded_kinds]


def _judge_commits(record: SessionRecord, sentence: str) -> Iterator[str]:
    """Yield a reason for each commit of the sentence that neither the record nor the repository has.

    Where git cannot tell (`has_commit` returns None), nothing is said.
    """
    if not _COMMIT_WORD.search(sentence):
        return
    for commit_id in _HASH.findall(sentence):
        # Recorded hashes have at most 12 characters; either of the two may be the shorter one.
        is_recorded = any(
            known.startswith(commit_id[:12]) or commit_id.startswith(known) for known, _ in record.commits
        )
        if not is_recorded and git_commit.has_commit(record.cwd or record.project, commit_id) is False:
            yield f"no commit {commit_id[:12]} was recorded, and the repository has none"


def _judge_check(record: SessionRecord, sentence: str) -> Iterator[str]:
    """Yield a reason for each failed check that the sentence says passes.

    Checks are meant by the files that the sentence names, or else by their kind.
    """
    if not _PASSES.search(sentence) or _NOT_CLAIMED.search(sentence):
        return
    # A run of several files may have failed in one that the sentence does not name.
    named = [run for run in record.checks if run.paths and all(_names_path(sentence, path) for path in run.paths)]
    kinds = _find_claimed_kinds(sentence)
    for run in named or [run for run in record.checks if run.kinds & kinds]:
        if not run.has_passed:
            yield f"the last run of {_describe_run(run).replace(' failed on its last run', ' failed', 1)}"


def _find_claimed_kinds(sentence: str) -> frozenset[str]:
    """Return the kinds of checks that a sentence says pass as a whole."""
    if _NOT_CLAIMED.search(sentence):
        return frozenset()
    kinds: set[str] = set()
    for match in _WHOLE_CLAIM.finditer(sentence):
        scope = (match["scope"] or "all").lower()
        if scope not in _WHOLE_SCOPES:
            continue
        subject = match["subject"].lower().partition(" ")[0]  # `test` of `test suite`
        if subject.startswith("type"):  # `type check`, `typechecking`
            subject = "typecheck"
        kinds.add(_KINDS[subject])
    return frozenset(kinds)


def _names_path(sentence: str, path: str) -> bool:
    """Return whether a sentence names a file or a test of a check: its path, its last part, or the test behind `::`."""
    names = (path, os.path.basename(path.partition("::")[0].rstrip("/")), path.rpartition("::")[2])
    return any(len(name) > 4 and name in sentence for name in names)


def _judge_files(record: SessionRecord, sentence: str) -> Iterator[str]:
    """Yield a reason for each file that the sentence says was changed and that cannot have been."""
    for pattern in _CHANGED_FILE:
        for match in pattern.finditer(sentence):
            if _ONLY_READ.search(match[0]):
                continue
            reason = _find_unchanged_reason(record, match[1])
            if reason:
                yield reason


def _find_unchanged_reason(record: SessionRecord, path: str) -> str:
    """Return why a file cannot have been changed in the session; empty if it was, or may have been."""
    name = os.path.basename(path)
    is_recorded = any(file == path or file.endswith(f"/{path}") or path.endswith(f"/{file}") for file in record.files)
    if is_recorded or any(name in command for command in record.commands):
        return ""
    folders = [folder for folder in dict.fromkeys((record.cwd, record.project)) if folder and os.path.isdir(folder)]
    for folder in folders:
        try:
            modified_at = os.stat(os.path.join(folder, path)).st_mtime
        except OSError:
            continue
        # The person's editor or a formatter may have changed it: only an old file is certain.
        if modified_at < record.started_at:
            return f"no change to {path} was recorded, and the file is older than the session"
        return ""
    # A name without a folder may be of a file anywhere, or no file at all, such as Node.js.
    if folders and "/" in path:
        return f"no change to {path} was recorded, and there is no such file"
    return ""
