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

_MOST_FILES, _MOST_COMMANDS, _MOST_SEARCHES = 8, 5, 3
_MOST_ERRORS = 4
_MANY = 8  # calls, from which on they are counted
_NARRATED = 320
_LAUNCHED = ("Async agent launched", "Spawned successfully", '{"agent_id"')
_DECIDES = re.compile(
    r"\b(?:(?:I|we|we've|I've)(?: have)? (?:decided|chose|settled)|(?:I|we)(?:'ll| will) (?:go with|use|keep)"
    r"|(?:my|the) (?:recommendation|decision|verdict|conclusion) (?:is|was)|I(?:'d| would)? recommend|decision:"
    r"|let's go with|the (?:best|right|correct|cleanest) (?:way|approach|choice|option|fix) (?:is|would be))\b",
    re.I,
)
# An answer that only takes note settles nothing, though it says "I will keep".
_ACKNOWLEDGES = re.compile(
    r"^\W*(?:noted|understood|got it|acknowledged|okay|ok|sure|will do|remembered|thanks|thank you)\b"
    r"[^.!?]{0,30}[.!?:,;–—-]*\s*$"
    r"|\b(?:keep|bear|have) (?:that|this|it|these|those|them|your \w+|the \w+)(?: \w+){0,3} in mind\b"
    r"|\bI(?:'ll| will|'ve| have)(?: now)? (?:remember(?:ed)?|noted?|made a note|keep (?:you|an eye|a note|track))\b",
    re.I,
)
# What people paste in front of what they ask: prompts of shells, tags, logs.
_PASTED = re.compile(
    r"^(?:[❯$%>✗✓×●⎿\[{<|]|[=-]{2,}|\S+@\S+|.* took \d|\d{4}-\d\d|(?:/|~/|https?:)\S+$"
    r"|[\w./-]{1,200}\.\w{1,9}:\d+|error\b|Traceback)",
    re.I,
)
_OPENERS = re.compile(
    r"^(?:(?:ok|okay|great|perfect|excellent|done|good|sure|yes|now|alright|got it)[!,.:]*\s+)+", re.I
)


def write_title(done: Sequence[ToolAction], left: Sequence[FailureFix], most: int) -> str:
    """The fact that counts most: what was committed, changed, checked, or found out."""
    paths = list_files_modified(done)
    made = [commit for deed in done if deed.kind == "saved" for commit in check_results.parse_commits(deed.text)]
    if made:
        more = f", last of {len(made)}" if len(made) > 1 else ""
        tail = f" ({made[-1][1]}{more})"
        return f"Committed “{shorten_line(made[-1][2], most - len(tail) - 12)}”{tail}"
    if pull := next(
        (found for deed in done if deed.kind == "saved" and (found := check_results.find_pull_request(deed.text))), ""
    ):
        return shorten_line(f"Opened {pull}", most)
    if paths:
        head = f"Changed {_names(paths, most - 8)}"
        return _joined(head, _outcome(done, left, most - len(head) - 2), most)
    if left:
        return shorten_line(
            f"{_quoted(left[-1].failed_actions[-1].label, 40)} fails: {describe_failure(left[-1].failed_actions[-1])}",
            most,
        )
    checks = [deed for deed in done if deed.kind == "check" and not deed.failed]
    if checks and (tally := checks[-1].tally):
        return f"{_quoted(checks[-1].label, most - len(tally.text) - 4)}: {tally.text}"
    ran = list(dict.fromkeys(deed.label for deed in done if deed.kind in ("check", "ran", "saved") and not deed.failed))
    if ran:
        shown = [_quoted(what, 60) for what in ran]
        fits = max(1, sum(len(", ".join(shown[:count])) <= most - 16 for count in range(1, len(shown) + 1)))
        return shorten_line(f"Ran {join_names(shown, fits)}", most)
    return _looked(done, most)


def _looked(done: Sequence[ToolAction], most: int) -> str:
    """What was read, looked up or searched for, or had others do."""
    by_kind = {kind: _said(done, kind) for kind in ("fetched", "searched", "agent", "used")}
    if read := list_files_read(done):
        head = f"Read {_names(read, most - 6)}"
        return _joined(head, next((f"searched for “{what}”" for what in by_kind["searched"]), ""), most)
    for kind, verb in (("agent", "Had a sub-agent"), ("fetched", "Looked up"), ("searched", "Searched for")):
        if found := by_kind[kind]:
            more = f" and {len(found) - 1} more" if len(found) > 1 else ""
            return f"{verb}: {shorten_line(found[0], most - len(verb) - len(more) - 2)}{more}"
    return shorten_line(f"Used {join_names(by_kind['used'], 3)}", most) if by_kind["used"] else ""


def _said(done: Iterable[ToolAction], kind: str) -> list[str]:
    return list(dict.fromkeys(deed.label for deed in done if deed.kind == kind and deed.label))


def _joined(head: str, tail: str, most: int) -> str:
    return f"{head}; {tail}" if tail and len(head) + len(tail) + 2 <= most else head


def _outcome(done: Sequence[ToolAction], left: Sequence[FailureFix], room: int) -> str:
    if left:
        return (
            f"{_quoted(left[-1].failed_actions[-1].label, room - 14)} still fails"
            if room >= 30
            else "a check still fails"
        )
    checks = [deed for deed in done if deed.kind == "check"]
    if not checks or checks[-1].failed:
        return ""
    said = f": {checks[-1].tally.text}" if checks[-1].tally else " passes"
    named = f"{_quoted(checks[-1].label, 40)}{said}"
    return named if len(named) <= room else checks[-1].tally.text if checks[-1].tally else "checks pass"


def _names(paths: Sequence[str], room: int) -> str:
    """As many paths as fit, then only their last parts."""
    for shown in ([shorten_path(path) for path in paths], [path.rpartition("/")[2] for path in paths]):
        for count in range(min(len(shown), 3), 0, -1):
            if len(text := join_names(shown, count)) <= room:
                return text
    return pluralize(len(paths), "file") if len(paths) > 1 else shorten_line(paths[0].rpartition("/")[2], room)


def shorten_path(path: str) -> str:
    """A path outside the project by its last parts."""
    parts = path.split("/")
    return f"…/{'/'.join(parts[-3:])}" if path.startswith("/") and len(parts) > 5 else path


def _quoted(what: str, most: int) -> str:
    return f"`{shorten_line(what, most)}`"


def write_facts(done: Sequence[ToolAction], left: Sequence[FailureFix], only: Sequence[FailureFix] = ()) -> list[str]:
    """Short sentences, what matters most first; a failure that is the whole story tells of changes itself."""
    return [
        *(write_fix_facts(only) if only else _changes(done)),
        *_commits(done),
        *(
            f"{_quoted(mend.failed_actions[-1].label, 90)} still fails: {describe_failure(mend.failed_actions[-1])}"
            for mend in left[-3:]
        ),
        *([] if only else _checks(done, left)),
        *_refusals(done),
        *_agents(done),
        *_commands(done, left),
        *_lookups(done),
    ]


def _changes(done: Sequence[ToolAction]) -> list[str]:
    by_path: dict[str, list[ToolAction]] = {}
    for deed in done:
        for path in deed.paths if deed.kind != "read" and not deed.failed else ():
            by_path.setdefault(path, []).append(deed)
    every = sorted(by_path.items(), key=lambda item: -len(item[1]))
    found = [_change(path, own) for path, own in every[:_MOST_FILES]]
    if rest := [path for path, _ in every[_MOST_FILES:]]:
        found.append(f"Changed too: {join_names(rest, 12)}")
    return found


def _change(path: str, own: list[ToolAction]) -> str:
    names = list(dict.fromkeys(name for deed in own for name in deed.names))
    about = f": {join_names(names, 5)}" if names else ""
    if own[0].created:
        more = f", then {pluralize(len(own) - 1, 'edit')}" if len(own) > 1 else ""
        return f"Wrote {shorten_path(path)} ({pluralize(own[0].created, 'line')}{more}){about}"
    place = f":{own[0].place}" if own[0].place else ""
    return f"Edited {shorten_path(path)}{place}{format_times(len(own))}{about}"


def _commits(done: Sequence[ToolAction]) -> list[str]:
    found = list[str]()
    for deed in done:
        if deed.kind != "saved" or deed.failed:
            continue
        for branch, name, subject, size in check_results.parse_commits(deed.text):
            found.append(
                f"Committed {name} on {branch}: “{shorten_line(subject, 100)}”" + (f" ({size})" if size else "")
            )
        if "push" in deed.label.split():
            found.append(f"Pushed: {_quoted(deed.label.rpartition(' && ')[2], 60)}")
        if pull := check_results.find_pull_request(deed.text):
            found.append(f"Pull request: {pull}")
    return list(dict.fromkeys(found))


def _checks(done: Sequence[ToolAction], left: Sequence[FailureFix]) -> list[str]:
    """How each check came out last, the latest check first."""
    standing = {mend.failed_actions[-1].label for mend in left}
    runs: dict[str, list[ToolAction]] = {}
    for deed in done:
        if deed.kind == "check":
            runs.setdefault(deed.label, []).append(deed)
    last_first = sorted(runs.items(), key=lambda item: -item[1][-1].call.at)
    found = list[str]()
    for what, own in last_first:
        if what in standing or own[-1].failed:
            continue
        failed = sum(deed.failed for deed in own)
        tally = own[-1].tally
        said = f"passed: {tally.text}" if tally else "passed"
        often = f" (failed{format_times(failed)} before)" if failed else f" ({len(own)} runs)" if len(own) > 1 else ""
        found.append(f"{_quoted(what, 90)} {said}{often}")
    return found[:_MOST_COMMANDS]


def _refusals(done: Sequence[ToolAction]) -> list[str]:
    return [
        f"A person refused {_quoted(deed.label, 70)}" + (f": “{deed.refused}”" if deed.refused.strip() else "")
        for deed in done
        if deed.refused and deed.label
    ][:3]


def _agents(done: Sequence[ToolAction]) -> list[str]:
    found = list[str]()
    for deed in done:
        if deed.kind == "agent" and deed.label:
            answer = "failed" if deed.failed else next(iter(split_sentences(deed.text[:3_000])), "")
            answer = "" if answer.startswith(_LAUNCHED) else answer
            found.append(f"Sub-agent “{deed.label}”" + (f": {shorten_line(answer, 140)}" if answer else ""))
    return found[:4]


def _commands(done: Sequence[ToolAction], left: Sequence[FailureFix]) -> list[str]:
    counts = Counter(deed.label for deed in done if deed.kind == "ran" and not deed.failed)
    ran = [f"Ran {_quoted(what, 90)}{format_times(count)}" for what, count in counts.most_common(_MOST_COMMANDS)]
    used = Counter(deed.label for deed in done if deed.kind == "used" and not deed.failed)
    return ran + [f"Used {name}{format_times(count)}" for name, count in used.most_common(3)]


def _lookups(done: Sequence[ToolAction]) -> list[str]:
    fetched, searched = _said(done, "fetched"), _said(done, "searched")
    found = [f"Looked up {join_names(fetched, 3)}"] if fetched else []
    return found + ([f"Searched for {join_names(searched, _MOST_SEARCHES, quote='“{}”')}"] if searched else [])


def write_fix_title(group: Sequence[FailureFix], most: int) -> str:
    """`pytest failed 3 times, then passed after editing token.py`."""
    first, worked = group[0], group[-1].worked
    failed = sum(len(mend.failed_actions) for mend in group)
    paths = list_files_modified([deed for mend in group for deed in mend.edits])
    what = first.failed_actions[0].label
    if paths:
        tail = f" failed{format_times(failed)}, then passed after editing "
        room = most - len(tail) - 2
        least = len(join_names([path.rpartition("/")[2] for path in paths], 1))
        named = _names(paths, room - len(what) if least <= room - len(what) else room - 16)
        return f"{_quoted(what, room - len(named))}{tail}{named}"
    if worked and worked.label != what:
        half = (most - len(f" failed{format_times(failed)};  worked") - 4) // 2
        sides = shorten_line(what, half), shorten_line(worked.label, half)
        if sides[0] != sides[1]:
            return f"`{sides[0]}` failed{format_times(failed)}; `{sides[1]}` worked"
        way = (
            f"with {first.added_arguments[0]}"
            if first.added_arguments
            else f"without {first.removed_arguments[0]}"
            if first.removed_arguments
            else ""
        )
        return shorten_line(
            f"`{shorten_line(what, 40)}` failed{format_times(failed)}; it worked {way or 'in another form'}", most
        )
    same = worked and worked.call.input == group[-1].failed_actions[-1].call.input
    tail = f" failed{format_times(failed)}, then worked{' unchanged' if same else ''}"
    return f"{_quoted(what, most - len(tail) - 2)}{tail}"


def write_fix_facts(group: Sequence[FailureFix]) -> list[str]:
    """The first error with its command, what put it right, how it came out, then the errors in between."""
    failing = [deed for mend in group for deed in mend.failed_actions]
    edits, worked = [deed for mend in group for deed in mend.edits], group[-1].worked
    first = failing[0]
    same = sum(deed.label == first.label for deed in failing)
    reasons = list(dict.fromkeys(filter(None, map(describe_failure, failing))))
    found = [f"{_quoted(first.label, 100)} failed{format_times(same)}" + (f": {reasons[0]}" if reasons else "")]
    found += [f"Put right by: {_lower(change)}" for change in _changes(edits)[:4]]
    if worked:
        said = f": {worked.tally.text}" if worked.tally else ""
        found.append(f"{_quoted(worked.label, 120)} {'passed' if worked.kind == 'check' else 'worked'}{said}")
    others = Counter(deed.label for deed in failing if deed.label != first.label)
    found += [f"{_quoted(what, 90)} failed too{format_times(count)}" for what, count in others.most_common(2)]
    return list(dict.fromkeys(found + [f"Then: {reason}" for reason in reasons[1:_MOST_ERRORS]]))


def _lower(text: str) -> str:
    return text[:1].lower() + text[1:]


def list_files_read(done: Iterable[ToolAction]) -> list[str]:
    """The files that were read, those read most often first."""
    counts = Counter(path for deed in done if deed.kind == "read" and not deed.failed for path in deed.paths)
    return [path for path, _ in counts.most_common()]


def list_files_modified(done: Iterable[ToolAction]) -> list[str]:
    return list(dict.fromkeys(path for deed in done if deed.kind != "read" and not deed.failed for path in deed.paths))


def list_commit_subjects(done: Iterable[ToolAction]) -> list[str]:
    return [
        subject for deed in done if deed.kind == "saved" for _, _, subject, _ in check_results.parse_commits(deed.text)
    ]


def write_request_line(asked: str, most: int, agent: str) -> str:
    line = pick_first_sentence(asked, most - 12)
    return f"{'Sub-agent' if agent else 'Asked'}: {line}" if line else "By a sub-agent" if agent else ""


def pick_first_sentence(text: str, most: int) -> str:
    """The first sentence, with the next if it is only a word or two."""
    every = split_sentences(text[:4_000])
    every = [sentence for sentence in every if not _PASTED.match(sentence)] or every
    said = ""
    for sentence in every[:3]:
        said = f"{said} {sentence}".strip()
        if len(said.split()) > 3:
            break
    return shorten_line(said, most)


def write_narrative(done: Sequence[ToolAction], said: str) -> str:
    """The agent's own last words in short, then what was done in numbers."""
    told = list[str]()
    for sentence in filter(is_informative, split_sentences(strip_opener(said[:4_000]))):
        if sum(map(len, told)) + len(sentence) > _NARRATED or len(told) == 3:
            break
        told.append(sentence if sentence.endswith((".", "!", "?")) else f"{sentence}.")
    return " ".join([*told, _numbers(done)]).strip()


def strip_opener(said: str) -> str:
    """Without the "Great! Now" that answers begin with."""
    return _OPENERS.sub("", said.lstrip())


def _numbers(done: Sequence[ToolAction]) -> str:
    edits = [deed for deed in done if deed.kind == "changed" and not deed.failed]
    runs = [deed for deed in done if deed.call.tool == "Bash" and deed.kind in ("check", "ran", "saved")]
    failed = sum(deed.failed for deed in runs)
    searches = sum(deed.kind == "searched" for deed in done)
    agents = sum(deed.kind == "agent" for deed in done)
    parts = [
        f"read {pluralize(len(list_files_read(done)), 'file')}" if list_files_read(done) else "",
        pluralize(searches, "search", "searches") if searches else "",
        f"{pluralize(len(edits), 'edit')} of {pluralize(len(list_files_modified(edits)), 'file')}" if edits else "",
        f"{pluralize(len(runs), 'command')}" + (f", {failed} failed" if failed else "") if runs else "",
        pluralize(agents, "sub-agent") if agents else "",
    ]
    said = "; ".join(filter(None, parts))
    return f"{len(done)} calls: {said}." if len(done) >= _MANY and said else ""


def find_decision(said: str) -> str:
    """The sentence of an answer that settles something; nothing if none does."""
    found = (
        sentence
        for sentence in split_sentences(said[:8_000])
        if _DECIDES.search(sentence) and not sentence.endswith(("?", ":")) and not is_acknowledgement(sentence)
    )
    return to_plain_line(next(found, ""))


def is_acknowledgement(sentence: str) -> bool:
    """Return whether a sentence only says that something was heard."""
    return _ACKNOWLEDGES.search(sentence.replace("’", "'")) is not None
