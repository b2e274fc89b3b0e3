"""Deeds put into words: titles, facts and the line that says what was asked."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence

from hardwon.distil import check_results
from hardwon.distil.failure_fixes import FailureFix, describe_failure
from hardwon.distil.tool_actions import ToolAction
from hardwon.text.excerpts import (
    format_times,
    is_informative,
    join_names,
    pluralize,
    shorten_line,
    split_sentences,
    to_plain_line,
)

_MAX_FILES, _MAX_COMMANDS, _MAX_SEARCHES = 8, 5, 3
_MAX_ERRORS = 4
_MIN_COUNTED_CALLS = 8  # calls, from which on they are counted
_MAX_NARRATIVE_CHARS = 320
_LAUNCH_MESSAGES = ("Async agent launched", "Spawned successfully", '{"agent_id"')
_DECISION = re.compile(
    r"\b(?:(?:I|we|we've|I've)(?: have)? (?:decided|chose|settled)|(?:I|we)(?:'ll| will) (?:go with|use|keep)"
    r"|(?:my|the) (?:recommendation|decision|verdict|conclusion) (?:is|was)|I(?:'d| would)? recommend|decision:"
    r"|let's go with|the (?:best|right|correct|cleanest) (?:way|approach|choice|option|fix) (?:is|would be))\b",
    re.I,
)
# An answer that only takes note settles nothing, though it says "I will keep".
_ACKNOWLEDGEMENT = re.compile(
    r"^\W*(?:noted|understood|got it|acknowledged|okay|ok|sure|will do|remembered|thanks|thank you)\b"
    r"[^.!?]{0,30}[.!?:,;–—-]*\s*$"
    r"|\b(?:keep|bear|have) (?:that|this|it|these|those|them|your \w+|the \w+)(?: \w+){0,3} in mind\b"
    r"|\bI(?:'ll| will|'ve| have)(?: now)? (?:remember(?:ed)?|noted?|made a note|keep (?:you|an eye|a note|track))\b",
    re.I,
)
# What people paste in front of what they ask: prompts of shells, tags, logs.
_PASTED_TEXT = re.compile(
    r"^(?:[❯$%>✗✓×●⎿\[{<|]|[=-]{2,}|\S+@\S+|.* took \d|\d{4}-\d\d|(?:/|~/|https?:)\S+$"
    r"|[\w./-]{1,200}\.\w{1,9}:\d+|error\b|Traceback)",
    re.I,
)
_OPENERS = re.compile(
    r"^(?:(?:ok|okay|great|perfect|excellent|done|good|sure|yes|now|alright|got it)[!,.:]*\s+)+", re.I
)


def write_title(actions: Sequence[ToolAction], unfixed: Sequence[FailureFix], max_chars: int) -> str:
    """The fact that counts most: what was committed, changed, checked, or found out."""
    paths = list_files_modified(actions)
    commits = [
        commit for action in actions if action.kind == "saved" for commit in check_results.parse_commits(action.text)
    ]
    if commits:
        more = f", last of {len(commits)}" if len(commits) > 1 else ""
        tail = f" ({commits[-1][1]}{more})"
        return f"Committed “{shorten_line(commits[-1][2], max_chars - len(tail) - 12)}”{tail}"
    if pull := next(
        (url for action in actions if action.kind == "saved" and (url := check_results.find_pull_request(action.text))),
        "",
    ):
        return shorten_line(f"Opened {pull}", max_chars)
    if paths:
        head = f"Changed {_format_paths(paths, max_chars - 8)}"
        return _join_if_fits(head, _describe_outcome(actions, unfixed, max_chars - len(head) - 2), max_chars)
    if unfixed:
        return shorten_line(
            f"{_quote_code(unfixed[-1].failed_actions[-1].label, 40)} fails: "
            f"{describe_failure(unfixed[-1].failed_actions[-1])}",
            max_chars,
        )
    checks = [action for action in actions if action.kind == "check" and not action.failed]
    if checks and (tally := checks[-1].tally):
        return f"{_quote_code(checks[-1].label, max_chars - len(tally.text) - 4)}: {tally.text}"
    commands = list(
        dict.fromkeys(
            action.label for action in actions if action.kind in ("check", "ran", "saved") and not action.failed
        )
    )
    if commands:
        quoted_labels = [_quote_code(label, 60) for label in commands]
        fit_count = max(
            1,
            sum(len(", ".join(quoted_labels[:count])) <= max_chars - 16 for count in range(1, len(quoted_labels) + 1)),
        )
        return shorten_line(f"Ran {join_names(quoted_labels, fit_count)}", max_chars)
    return _write_lookup_title(actions, max_chars)


def _write_lookup_title(actions: Sequence[ToolAction], max_chars: int) -> str:
    """What was read, looked up or searched for, or had others do."""
    by_kind = {kind: _list_labels(actions, kind) for kind in ("fetched", "searched", "agent", "used")}
    if files_read := list_files_read(actions):
        head = f"Read {_format_paths(files_read, max_chars - 6)}"
        return _join_if_fits(
            head, next((f"searched for “{pattern}”" for pattern in by_kind["searched"]), ""), max_chars
        )
    for kind, verb in (("agent", "Had a sub-agent"), ("fetched", "Looked up"), ("searched", "Searched for")):
        if labels := by_kind[kind]:
            more = f" and {len(labels) - 1} more" if len(labels) > 1 else ""
            return f"{verb}: {shorten_line(labels[0], max_chars - len(verb) - len(more) - 2)}{more}"
    return shorten_line(f"Used {join_names(by_kind['used'], 3)}", max_chars) if by_kind["used"] else ""


def _list_labels(actions: Iterable[ToolAction], kind: str) -> list[str]:
    return list(dict.fromkeys(action.label for action in actions if action.kind == kind and action.label))


def _join_if_fits(head: str, tail: str, max_chars: int) -> str:
    return f"{head}; {tail}" if tail and len(head) + len(tail) + 2 <= max_chars else head


def _describe_outcome(actions: Sequence[ToolAction], unfixed: Sequence[FailureFix], room: int) -> str:
    if unfixed:
        return (
            f"{_quote_code(unfixed[-1].failed_actions[-1].label, room - 14)} still fails"
            if room >= 30
            else "a check still fails"
        )
    checks = [action for action in actions if action.kind == "check"]
    if not checks or checks[-1].failed:
        return ""
    result = f": {checks[-1].tally.text}" if checks[-1].tally else " passes"
    outcome = f"{_quote_code(checks[-1].label, 40)}{result}"
    return outcome if len(outcome) <= room else checks[-1].tally.text if checks[-1].tally else "checks pass"


def _format_paths(paths: Sequence[str], room: int) -> str:
    """As many paths as fit, then only their last parts."""
    for labels in ([shorten_path(path) for path in paths], [path.rpartition("/")[2] for path in paths]):
        for count in range(min(len(labels), 3), 0, -1):
            if len(text := join_names(labels, count)) <= room:
                return text
    return pluralize(len(paths), "file") if len(paths) > 1 else shorten_line(paths[0].rpartition("/")[2], room)


def shorten_path(path: str) -> str:
    """A path outside the project by its last parts."""
    parts = path.split("/")
    return f"…/{'/'.join(parts[-3:])}" if path.startswith("/") and len(parts) > 5 else path


def _quote_code(text: str, max_chars: int) -> str:
    return f"`{shorten_line(text, max_chars)}`"


def write_facts(
    actions: Sequence[ToolAction], unfixed: Sequence[FailureFix], sole_group: Sequence[FailureFix] = ()
) -> list[str]:
    """Short sentences, what matters most first; a failure that is the whole story tells of changes itself."""
    return [
        *(write_fix_facts(sole_group) if sole_group else _describe_changes(actions)),
        *_describe_commits(actions),
        *(
            f"{_quote_code(fix.failed_actions[-1].label, 90)} still fails: {describe_failure(fix.failed_actions[-1])}"
            for fix in unfixed[-3:]
        ),
        *([] if sole_group else _describe_checks(actions, unfixed)),
        *_describe_refusals(actions),
        *_describe_subagents(actions),
        *_describe_commands(actions, unfixed),
        *_describe_lookups(actions),
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
        more = f", then {pluralize(len(actions) - 1, 'edit')}" if len(actions) > 1 else ""
        return f"Wrote {shorten_path(path)} ({pluralize(actions[0].created, 'line')}{more}){names_text}"
    line_suffix = f":{actions[0].line_number}" if actions[0].line_number else ""
    return f"Edited {shorten_path(path)}{line_suffix}{format_times(len(actions))}{names_text}"


def _describe_commits(actions: Sequence[ToolAction]) -> list[str]:
    facts = list[str]()
    for action in actions:
        if action.kind != "saved" or action.failed:
            continue
        for branch, short_hash, subject, size in check_results.parse_commits(action.text):
            facts.append(
                f"Committed {short_hash} on {branch}: “{shorten_line(subject, 100)}”" + (f" ({size})" if size else "")
            )
        if "push" in action.label.split():
            facts.append(f"Pushed: {_quote_code(action.label.rpartition(' && ')[2], 60)}")
        if pull := check_results.find_pull_request(action.text):
            facts.append(f"Pull request: {pull}")
    return list(dict.fromkeys(facts))


def _describe_checks(actions: Sequence[ToolAction], unfixed: Sequence[FailureFix]) -> list[str]:
    """How each check came out last, the latest check first."""
    unfixed_labels = {fix.failed_actions[-1].label for fix in unfixed}
    runs_by_label: dict[str, list[ToolAction]] = {}
    for action in actions:
        if action.kind == "check":
            runs_by_label.setdefault(action.label, []).append(action)
    last_first = sorted(runs_by_label.items(), key=lambda item: -item[1][-1].call.at)
    facts = list[str]()
    for label, label_runs in last_first:
        if label in unfixed_labels or label_runs[-1].failed:
            continue
        failure_count = sum(action.failed for action in label_runs)
        tally = label_runs[-1].tally
        result = f"passed: {tally.text}" if tally else "passed"
        history = (
            f" (failed{format_times(failure_count)} before)"
            if failure_count
            else f" ({len(label_runs)} runs)"
            if len(label_runs) > 1
            else ""
        )
        facts.append(f"{_quote_code(label, 90)} {result}{history}")
    return facts[:_MAX_COMMANDS]


def _describe_refusals(actions: Sequence[ToolAction]) -> list[str]:
    return [
        f"A person refused {_quote_code(action.label, 70)}"
        + (f": “{action.refused}”" if action.refused.strip() else "")
        for action in actions
        if action.refused and action.label
    ][:3]


def _describe_subagents(actions: Sequence[ToolAction]) -> list[str]:
    facts = list[str]()
    for action in actions:
        if action.kind == "agent" and action.label:
            answer = "failed" if action.failed else next(iter(split_sentences(action.text[:3_000])), "")
            answer = "" if answer.startswith(_LAUNCH_MESSAGES) else answer
            facts.append(f"Sub-agent “{action.label}”" + (f": {shorten_line(answer, 140)}" if answer else ""))
    return facts[:4]


def _describe_commands(actions: Sequence[ToolAction], unfixed: Sequence[FailureFix]) -> list[str]:
    counts = Counter(action.label for action in actions if action.kind == "ran" and not action.failed)
    run_facts = [
        f"Ran {_quote_code(label, 90)}{format_times(count)}" for label, count in counts.most_common(_MAX_COMMANDS)
    ]
    use_counts = Counter(action.label for action in actions if action.kind == "used" and not action.failed)
    return run_facts + [f"Used {name}{format_times(count)}" for name, count in use_counts.most_common(3)]


def _describe_lookups(actions: Sequence[ToolAction]) -> list[str]:
    fetched, searched = _list_labels(actions, "fetched"), _list_labels(actions, "searched")
    facts = [f"Looked up {join_names(fetched, 3)}"] if fetched else []
    return facts + ([f"Searched for {join_names(searched, _MAX_SEARCHES, quote='“{}”')}"] if searched else [])


def write_fix_title(group: Sequence[FailureFix], max_chars: int) -> str:
    """`pytest failed 3 times, then passed after editing token.py`."""
    first, working_action = group[0], group[-1].worked
    failure_count = sum(len(fix.failed_actions) for fix in group)
    paths = list_files_modified([action for fix in group for action in fix.edits])
    label = first.failed_actions[0].label
    if paths:
        tail = f" failed{format_times(failure_count)}, then passed after editing "
        room = max_chars - len(tail) - 2
        shortest_length = len(join_names([path.rpartition("/")[2] for path in paths], 1))
        path_text = _format_paths(paths, room - len(label) if shortest_length <= room - len(label) else room - 16)
        return f"{_quote_code(label, room - len(path_text))}{tail}{path_text}"
    if working_action and working_action.label != label:
        side_chars = (max_chars - len(f" failed{format_times(failure_count)};  worked") - 4) // 2
        sides = shorten_line(label, side_chars), shorten_line(working_action.label, side_chars)
        if sides[0] != sides[1]:
            return f"`{sides[0]}` failed{format_times(failure_count)}; `{sides[1]}` worked"
        difference = (
            f"with {first.added_arguments[0]}"
            if first.added_arguments
            else f"without {first.removed_arguments[0]}"
            if first.removed_arguments
            else ""
        )
        return shorten_line(
            f"`{shorten_line(label, 40)}` failed{format_times(failure_count)}; it worked "
            f"{difference or 'in another form'}",
            max_chars,
        )
    is_unchanged = working_action and working_action.call.input == group[-1].failed_actions[-1].call.input
    tail = f" failed{format_times(failure_count)}, then worked{' unchanged' if is_unchanged else ''}"
    return f"{_quote_code(label, max_chars - len(tail) - 2)}{tail}"


def write_fix_facts(group: Sequence[FailureFix]) -> list[str]:
    """The first error with its command, what put it right, how it came out, then the errors in between."""
    failed_actions = [action for fix in group for action in fix.failed_actions]
    edits, working_action = [action for fix in group for action in fix.edits], group[-1].worked
    first = failed_actions[0]
    first_count = sum(action.label == first.label for action in failed_actions)
    reasons = list(dict.fromkeys(filter(None, map(describe_failure, failed_actions))))
    facts = [
        f"{_quote_code(first.label, 100)} failed{format_times(first_count)}" + (f": {reasons[0]}" if reasons else "")
    ]
    facts += [f"Put right by: {_lower_first(change)}" for change in _describe_changes(edits)[:4]]
    if working_action:
        result = f": {working_action.tally.text}" if working_action.tally else ""
        facts.append(
            f"{_quote_code(working_action.label, 120)} "
            f"{'passed' if working_action.kind == 'check' else 'worked'}{result}"
        )
    other_counts = Counter(action.label for action in failed_actions if action.label != first.label)
    facts += [
        f"{_quote_code(label, 90)} failed too{format_times(count)}" for label, count in other_counts.most_common(2)
    ]
    return list(dict.fromkeys(facts + [f"Then: {reason}" for reason in reasons[1:_MAX_ERRORS]]))


def _lower_first(text: str) -> str:
    return text[:1].lower() + text[1:]


def list_files_read(actions: Iterable[ToolAction]) -> list[str]:
    """The files that were read, those read most often first."""
    counts = Counter(path for action in actions if action.kind == "read" and not action.failed for path in action.paths)
    return [path for path, _ in counts.most_common()]


def list_files_modified(actions: Iterable[ToolAction]) -> list[str]:
    return list(
        dict.fromkeys(
            path for action in actions if action.kind != "read" and not action.failed for path in action.paths
        )
    )


def list_commit_subjects(actions: Iterable[ToolAction]) -> list[str]:
    return [
        subject
        for action in actions
        if action.kind == "saved"
        for _, _, subject, _ in check_results.parse_commits(action.text)
    ]


def write_request_line(request: str, max_chars: int, agent: str) -> str:
    line = pick_first_sentence(request, max_chars - 12)
    return f"{'Sub-agent' if agent else 'Asked'}: {line}" if line else "By a sub-agent" if agent else ""


def pick_first_sentence(text: str, max_chars: int) -> str:
    """The first sentence, with the next if it is only a word or two."""
    sentences = split_sentences(text[:4_000])
    sentences = [sentence for sentence in sentences if not _PASTED_TEXT.match(sentence)] or sentences
    excerpt = ""
    for sentence in sentences[:3]:
        excerpt = f"{excerpt} {sentence}".strip()
        if len(excerpt.split()) > 3:
            break
    return shorten_line(excerpt, max_chars)


def write_narrative(actions: Sequence[ToolAction], final_message: str) -> str:
    """The agent's own last words in short, then what was done in numbers."""
    sentences = list[str]()
    for sentence in filter(is_informative, split_sentences(strip_opener(final_message[:4_000]))):
        if sum(map(len, sentences)) + len(sentence) > _MAX_NARRATIVE_CHARS or len(sentences) == 3:
            break
        sentences.append(sentence if sentence.endswith((".", "!", "?")) else f"{sentence}.")
    return " ".join([*sentences, _describe_counts(actions)]).strip()


def strip_opener(text: str) -> str:
    """Without the "Great! Now" that answers begin with."""
    return _OPENERS.sub("", text.lstrip())


def _describe_counts(actions: Sequence[ToolAction]) -> str:
    edits = [action for action in actions if action.kind == "changed" and not action.failed]
    runs = [action for action in actions if action.call.tool == "Bash" and action.kind in ("check", "ran", "saved")]
    failure_count = sum(action.failed for action in runs)
    searches = sum(action.kind == "searched" for action in actions)
    agents = sum(action.kind == "agent" for action in actions)
    parts = [
        f"read {pluralize(len(list_files_read(actions)), 'file')}" if list_files_read(actions) else "",
        pluralize(searches, "search", "searches") if searches else "",
        f"{pluralize(len(edits), 'edit')} of {pluralize(len(list_files_modified(edits)), 'file')}" if edits else "",
        f"{pluralize(len(runs), 'command')}" + (f", {failure_count} failed" if failure_count else "") if runs else "",
        pluralize(agents, "sub-agent") if agents else "",
    ]
    counts_text = "; ".join(filter(None, parts))
    return f"{len(actions)} calls: {counts_text}." if len(actions) >= _MIN_COUNTED_CALLS and counts_text else ""


def find_decision(final_message: str) -> str:
    """The sentence of an answer that settles something; nothing if none does."""
    decisions = (
        sentence
        for sentence in split_sentences(final_message[:8_000])
        if _DECISION.search(sentence) and not sentence.endswith(("?", ":")) and not is_acknowledgement(sentence)
    )
    return to_plain_line(next(decisions, ""))


def is_acknowledgement(sentence: str) -> bool:
    """Return whether a sentence only says that something was heard."""
    return _ACKNOWLEDGEMENT.search(sentence.replace("’", "'")) is not None
