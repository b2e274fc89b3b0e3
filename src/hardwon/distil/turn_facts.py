"""Describe what the calls of a turn show in short sentences: changes, commits, checks, failures and fixes."""

from __future__ import annotations

import re
from collections.abc import Sequence

from hardwon.agents.fields import get_text
from hardwon.distil import check_results
from hardwon.distil.failure_fixes import (
    FailureFix,
    describe_failure,
    find_reason,
    find_told_failure,
    is_other_form,
    is_style_check,
)
from hardwon.distil.phrasing import list_commits, list_files_modified, shorten_path
from hardwon.distil.tool_actions import ToolAction
from hardwon.shell.failures import has_failure_words
from hardwon.text.characters import format_count
from hardwon.text.excerpts import format_times, join_names, shorten_line

_MAX_FILES, _MAX_CHECKS, _MAX_ERRORS = 8, 5, 4
_MIN_REASON_CHARS = 30
# What a compiler says of unfinished code.
_COMPILER_ERROR = re.compile(
    r"\bundefined: |redeclared|declared and not used|\berror TS\d+|cannot find (?:name|module)", re.I
)
_PLACE = re.compile(r"^(?:\[[\w:-]+\] )?[\w./@+-]+[:(]\d+(?:[:,]\d+)?\)?:?\s+")
_BARE_COUNT = re.compile(r"(?:\d+ [\w ]+|exit code \d+|[,;. ]|Found \d+ \w+)*", re.I)
_PULL_TITLE = re.compile(r"--title[ =]([\"'])(.{3,200}?)\1")


def describe_work(actions: Sequence[ToolAction], unfixed: Sequence[FailureFix]) -> list[str]:
    """Describe changes, commits, checks and refusals, most important first."""
    standing = [
        f"{quote_code(fix.failed_actions[-1].label, 90)} still fails: {describe_failure(fix.failed_actions[-1])}"
        for fix in unfixed[-3:]
    ]
    standing = [fact.removesuffix(": ") for fact in standing]
    return [
        *_describe_changes(actions),
        *_describe_commits(actions),
        *standing,
        *_describe_checks(actions, unfixed),
        *_describe_refusals(actions),
    ]


def _describe_changes(actions: Sequence[ToolAction]) -> list[str]:
    by_path: dict[str, list[ToolAction]] = {}
    for action in actions:
        for path in action.paths if action.kind != "read" and not action.failed else ():
            by_path.setdefault(path, []).append(action)
    changed_files = sorted(by_path.items(), key=lambda item: -len(item[1]))
    facts = [_describe_change(path, path_actions) for path, path_actions in changed_files[:_MAX_FILES]]
    if rest := [path for path, _ in changed_files[_MAX_FILES:]]:
        facts.append(f"Changed too: {join_names(rest, 12)}")
    return facts


def _describe_change(path: str, actions: list[ToolAction]) -> str:
    names = list(dict.fromkeys(name for action in actions for name in action.names))
    names_text = f": {join_names(names, 5)}" if names else ""
    if actions[0].created:
        more = f", then {format_count(len(actions) - 1, 'edit')}" if len(actions) > 1 else ""
        return f"Wrote {shorten_path(path)} ({format_count(actions[0].created, 'line')}{more}){names_text}"
    return f"Edited {shorten_path(path)}{format_times(len(actions))}{names_text}"


def _describe_commits(actions: Sequence[ToolAction]) -> list[str]:
    facts = list[str]()
    for action in actions:
        if action.kind != "saved" or action.failed:
            continue
        for branch, short_hash, subject, size in check_results.parse_commits(action.text):
            size_text = f" ({size})" if size else ""
            facts.append(f"Committed {short_hash} on {branch}: “{shorten_line(subject, 100)}”{size_text}")
        if "push" in action.label.split():
            facts.append(f"Pushed: {quote_code(action.label.rpartition(' && ')[2], 60)}")
        if pull := find_opened_pull(action):
            facts.append(f"Opened {pull}")
    return list(dict.fromkeys(facts))


def _describe_checks(actions: Sequence[ToolAction], unfixed: Sequence[FailureFix]) -> list[str]:
    """Return the last result of each check, the latest check first."""
    unfixed_labels = {fix.failed_actions[-1].label for fix in unfixed}
    runs_by_label: dict[str, list[ToolAction]] = {}
    for action in actions:
        if action.kind == "check":
            runs_by_label.setdefault(action.label, []).append(action)
    facts = list[str]()
    for label, runs in sorted(runs_by_label.items(), key=lambda item: -item[1][-1].call.at):
        # Failing checks are reported by the caller, with their error.
        if label in unfixed_labels or runs[-1].failed:
            continue
        tally = runs[-1].tally
        failure_count = sum(action.failed for action in runs)
        history = f" (failed{format_times(failure_count)} before)" if failure_count else ""
        facts.append(f"{quote_code(label, 90)} {f'passed: {tally.text}' if tally else 'passed'}{history}")
    return facts[:_MAX_CHECKS]


def _describe_refusals(actions: Sequence[ToolAction]) -> list[str]:
    facts = list[str]()
    for action in actions:
        if action.refused and action.label:
            reason = f": “{action.refused}”" if action.refused.strip() else ""
            facts.append(f"A person refused {quote_code(action.label, 70)}{reason}")
    return facts[:3]


def write_commit_title(actions: Sequence[ToolAction], max_chars: int) -> str:
    """Return the subject of the last commit, or the opened pull request; empty without either."""
    commits = [commit for _, commit in list_commits(actions)]
    if commits:
        _, short_hash, subject, _ = commits[-1]
        earlier = f", {format_count(len(commits) - 1, 'commit')} before it" if len(commits) > 1 else ""
        tail = f" ({short_hash}{earlier})"
        return f"{shorten_line(subject, max_chars - len(tail))}{tail}"
    saved = [action for action in actions if action.kind == "saved" and not action.failed]
    pulls = [pull for action in saved if (pull := find_opened_pull(action))]
    return shorten_line(f"Opened {pulls[-1]}", max_chars) if pulls else ""


def find_opened_pull(action: ToolAction) -> str:
    """Return address and title of the pull request that a call opened; comments on one print its address too."""
    address = check_results.find_pull_request(action.text) if "create" in action.label.split() else ""
    command = get_text(action.call.input, "command") if isinstance(action.call.input, dict) else ""
    title = _PULL_TITLE.search(command) if address else None
    return f"{address}: “{shorten_line(title[2], 90)}”" if title else address


def write_fix_title(group: Sequence[FailureFix], max_chars: int) -> str:
    """Describe the failure, its cause and the edits that fixed it, or the form of the command that worked.

    Empty if the output gives no reason but a count, if the difference to the working form is not visible, or if a hook
    only rejected a commit.
    """
    failed, working_action = find_told_failure(group), group[-1].worked
    working_command = working_action.label if working_action else ""
    paths = [path.rpartition("/")[2] for path in list_files_modified([edit for fix in group for edit in fix.edits])]
    reason = find_reason(failed)
    is_slip = failed.kind == "saved" or is_style_check(failed.label) or bool(_COMPILER_ERROR.search(reason))
    names_failure = has_failure_words(reason) or check_results.is_source_location(reason)
    if (paths and is_slip) or not names_failure or not (paths or is_other_form(failed.label, working_command)):
        return ""
    count = sum(action.label == failed.label for fix in group for action in fix.failed_actions)
    if paths:
        label, tail = failed.label, f"; edited {shorten_line(join_names(paths, 2), 45)}; passes"
    else:  # both commands are told, so leave out the end that they share
        label, working_label = _cut_common_end(failed.label, working_command)
        tail = f"; {quote_code(working_label, 50)} worked"
    head = f"{quote_code(label, 50)} failed{format_times(count)}: "
    reason = _PLACE.sub("", reason)  # the edited files say where it was
    room = max_chars - len(head) - len(tail)
    if room < min(len(reason), _MIN_REASON_CHARS) or _BARE_COUNT.fullmatch(reason):
        return ""  # a reason that must be cut to a few words tells nothing, and neither does a count
    return f"{head}{shorten_line(reason, room)}{tail}"


def _cut_common_end(command: str, other_command: str) -> tuple[str, str]:
    """Replace the words that two commands end with by an ellipsis: only the difference tells what to do instead."""
    words, other_words = command.split(), other_command.split()
    common = 0
    while common < min(len(words), len(other_words)) - 1 and words[-1 - common] == other_words[-1 - common]:
        common += 1
    if not common:
        return command, other_command
    return f"{' '.join(words[:-common])} …", f"{' '.join(other_words[:-common])} …"


def describe_fix(group: Sequence[FailureFix]) -> list[str]:
    """Return the first error with its command, the fix, the result, then the errors in between."""
    failed_actions = [action for fix in group for action in fix.failed_actions]
    edits, working_action = [action for fix in group for action in fix.edits], group[-1].worked
    first = failed_actions[0]
    first_count = sum(action.label == first.label for action in failed_actions)
    reasons = list(dict.fromkeys(filter(None, map(describe_failure, failed_actions))))
    reason = f": {reasons[0]}" if reasons else ""
    facts = [f"{quote_code(first.label, 100)} failed{format_times(first_count)}{reason}"]
    facts += [f"Put right by: {change[:1].lower()}{change[1:]}" for change in _describe_changes(edits)[:4]]
    if working_action:
        result = f": {working_action.tally.text}" if working_action.tally else ""
        verb = "passed" if working_action.kind == "check" else "worked"
        facts.append(f"{quote_code(working_action.label, 120)} {verb}{result}")
    return list(dict.fromkeys(facts + [f"Then: {reason}" for reason in reasons[1:_MAX_ERRORS]]))


def quote_code(text: str, max_chars: int) -> str:
    return f"`{shorten_line(text, max_chars)}`"
