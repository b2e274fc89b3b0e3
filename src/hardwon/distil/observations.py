"""Derive observations from a turn without a model: one for its work and one for each fixed failure.

Nothing is invented. Facts are names and numbers from the events. The title is the most informative true sentence: a
commit's subject, the agent's words about a cause or result that name something of the turn, or the fixed failure. Work
without any of these has no title, and a turn that only read or searched gives no observation.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from hashlib import blake2b
from importlib.resources import files

import msgspec

from hardwon.agents.fields import get_text
from hardwon.distil import phrasing, tool_actions
from hardwon.distil.failure_fixes import (
    FailureFix,
    choose_told_fix,
    describe_failure,
    find_failure_fixes,
    find_reason,
    find_standing_failures,
    is_other_form,
    is_style_check,
)
from hardwon.distil.phrasing import list_commits, list_files_modified, shorten_path
from hardwon.distil.tool_actions import ToolAction, classify_calls, find_check_words
from hardwon.shell.failures import has_failure_words
from hardwon.text.characters import format_count
from hardwon.text.excerpts import (
    format_times,
    is_informative,
    join_names,
    select_fitting,
    shorten_line,
    split_sentences,
    to_plain_line,
)
from hardwon.types import Observation, Turn

MAX_TITLE_CHARS, _MAX_SUBTITLE_CHARS = 140, 160
# A longer run of calls is split at its next commit, or at the maximum.
_LONG_STRETCH_CALLS, _MAX_STRETCH_CALLS, _MIN_REST_CALLS = 40, 80, 15
# Facts get this many characters per token spent, within limits, so that they stay much shorter than the work itself.
_FACT_SHARE, _MIN_FACT_CHARS, _MAX_FACT_CHARS = 0.14, 320, 1_600
_MAX_NARRATIVE_CHARS = 320
_MAX_FILES_READ = 15
_MIN_TITLE_WORDS = 4  # "Updated in src/kite.py." says nothing that the list of files does not
_MAX_FIXES = 6
_MAX_FILES, _MAX_CHECKS, _MAX_ERRORS = 8, 5, 4
_MIN_REASON_CHARS = 30
# What a compiler says of unfinished code.
_COMPILER_ERROR = re.compile(
    r"\bundefined: |redeclared|(?:declared|imported) and not used|\berror TS\d+|cannot find (?:name|module)", re.I
)
_PLACE = re.compile(r"^(?:\[[\w:-]+\] )?[\w./@+-]+[:(]\d+(?:[:,]\d+)?\)?:?\s+")
_BARE_COUNT = re.compile(r"(?:\d+ [\w ]+|exit code \d+|[,;. ]|Found \d+ \w+)*", re.I)
_PULL_TITLE = re.compile(r"--title[ =]([\"'])(.{3,200}?)\1")
_MAX_CONCEPTS = 5
_WORDS, _PATHS, _COMMANDS = r"\b(?:{})\b", "(?:{})", r"(?:^|\s)(?:{})(?:\s|$)"


def observe_turn(turn: Turn) -> list[Observation]:
    """Return the observations of a turn in the order their work began."""
    actions = classify_calls(turn)
    if all(action.kind == "noise" for action in actions):
        return _observe_chat(turn)
    observations = list[Observation]()
    for subagent_id in dict.fromkeys(action.call.subagent_id for action in actions):
        own_actions = [action for action in actions if action.call.subagent_id == subagent_id]
        request = _find_request(turn, actions, subagent_id)
        observations += _observe_agent(turn, own_actions, request, subagent_id)
    return sorted(observations, key=lambda observation: observation.at)


def _find_request(turn: Turn, actions: Iterable[ToolAction], subagent_id: str) -> str:
    """Return what an agent was asked: the main agent the prompt, a sub-agent its task; "" if its task is unknown."""
    if not subagent_id:
        return turn.prompt
    for action in actions:
        if action.kind == "agent" and subagent_id in action.text:  # the result of the call that started it has its id
            return action.label
    return ""


def _observe_agent(turn: Turn, actions: list[ToolAction], request: str, subagent_id: str) -> list[Observation]:
    """Return the observations of one agent; if all work went into one failure, that is the observation."""
    fixes = find_failure_fixes(actions)
    # Failures of the same kind of check, or of the same other command, are grouped.
    fixes_by_command = dict[frozenset[str], list[FailureFix]]()
    for fix in fixes:
        if fix.worked and not fix.is_retry:
            label = fix.failed_actions[0].label
            fixes_by_command.setdefault(find_check_words(label) or frozenset((label,)), []).append(fix)
    fix_groups = list(fixes_by_command.values())
    unfixed = find_standing_failures(fixes, actions, "" if subagent_id else turn.final_message)
    stretches = list(_split_stretches(actions))
    sole_group = list[FailureFix]()
    if len(fix_groups) == len(stretches) == 1 and _is_only_work(fix_groups[0], actions):
        sole_group = fix_groups[0]
    observations = list[Observation]()
    for number, stretch in enumerate(stretches):
        keys = {action.call.key for action in stretch}
        stretch_failures = [fix for fix in unfixed if fix.failed_actions[-1].call.key in keys]
        is_last = number == len(stretches) - 1
        final_message = turn.final_message if is_last and not subagent_id else ""
        observations += _observe_work(turn, stretch, request, subagent_id, stretch_failures, sole_group, final_message)
    if not sole_group:
        fix_observations = [_observe_fix(turn, group, request, subagent_id) for group in fix_groups]
        observations += [observation for observation in fix_observations if observation.title][:_MAX_FIXES]
    return observations


def _split_stretches(actions: list[ToolAction]) -> Iterator[list[ToolAction]]:
    """Yield stretches of work: a long turn is split after a commit, or else at a fixed length, not near its end."""
    start = 0
    for position, action in enumerate(actions, 1):
        length = position - start
        is_end = length >= _MAX_STRETCH_CALLS or (length >= _LONG_STRETCH_CALLS and action.kind == "saved")
        if is_end and len(actions) - position >= _MIN_REST_CALLS:
            yield actions[start:position]
            start = position
    yield actions[start:]


def _is_only_work(group: list[FailureFix], actions: Sequence[ToolAction]) -> bool:
    """Return whether every change of the turn was made to fix this failure."""
    if any(action.kind == "saved" for action in actions):
        return False
    changed_keys = {action.call.key for action in actions if action.kind == "changed" and not action.failed}
    edited_keys = {action.call.key for action in _list_edits(group)}
    return bool(edited_keys) and changed_keys <= edited_keys


def _list_edits(group: Sequence[FailureFix]) -> list[ToolAction]:
    return [edit for fix in group for edit in fix.edits]


def _observe_work(
    turn: Turn,
    actions: list[ToolAction],
    request: str,
    subagent_id: str,
    unfixed: list[FailureFix],
    sole_group: list[FailureFix],
    final_message: str,
) -> list[Observation]:
    """Return the observation of a stretch of work as a list; empty if it has neither title nor facts.

    With a `sole_group` all work went into fixing one failure, and the observation tells that.
    """
    facts = _describe_fix(sole_group) if sole_group else _describe_work(actions, unfixed)
    title = _choose_title(actions, unfixed, sole_group, final_message)
    if not title and not facts:
        return []
    tokens = sum(action.tokens for action in actions)
    room = _compute_room(tokens)
    paths = phrasing.list_files_modified(actions)
    files_read = [path for path in phrasing.list_files_read(actions) if path not in paths]
    commands = [action.label for action in actions if action.kind in ("check", "saved", "ran")]
    signs = _collect_signs(actions, unfixed, sole_group, bool(paths), final_message)
    words = to_plain_line(" ".join([request[:400], *(commit.subject for _, commit in phrasing.list_commits(actions))]))
    observation = Observation(
        key=_compute_key(turn, subagent_id, "work", actions[0].call.key),
        at=actions[0].call.at,
        type="bugfix" if sole_group else _classify_type(signs, words),
        title=title,
        subtitle=_write_request_line(request, _MAX_SUBTITLE_CHARS, subagent_id),
        narrative=_write_narrative(final_message, title),
        facts=tuple(select_fitting(list(dict.fromkeys(facts)), room)),
        concepts=_find_concepts(signs, words, paths or files_read, commands),
        files_read=tuple(select_fitting(files_read, room)[:_MAX_FILES_READ]),
        files_modified=tuple(paths),
        events=tuple(action.call.key for action in actions if action.kind != "noise"),
        tokens=tokens,
        times=len(sole_group) or 1,
    )
    return [observation]


def _choose_title(
    actions: Sequence[ToolAction], unfixed: list[FailureFix], sole_group: list[FailureFix], final_message: str
) -> str:
    """Return the most informative true sentence; empty if there is none."""
    # While a check fails, or if no edit succeeded, a claim of success is no title.
    edits = [action for action in actions if action.kind == "changed"]
    has_failed = bool(unfixed) or (bool(edits) and all(action.failed for action in edits))
    candidates = (
        _write_commit_title(actions, MAX_TITLE_CHARS),
        _pick_naming_sentence(phrasing.find_causes(final_message), actions),
        _write_fix_title(sole_group, MAX_TITLE_CHARS) if sole_group else "",
        _pick_naming_sentence(phrasing.find_results(final_message), actions) if not has_failed else "",
    )
    return next(filter(None, candidates), "")


def _pick_naming_sentence(sentences: Sequence[str], actions: Sequence[ToolAction]) -> str:
    """Return the sentence that names most things of the turn; one that must be cut ranks lower."""
    best, best_score = "", 0
    for sentence in sentences:
        if len(sentence.split()) < _MIN_TITLE_WORDS:
            continue
        count = phrasing.count_names(sentence, actions)
        score = 2 * min(count, 3) - (len(sentence) > MAX_TITLE_CHARS)
        if score > best_score:
            best = sentence
            best_score = score
    return shorten_line(best, MAX_TITLE_CHARS)


def _collect_signs(
    actions: Sequence[ToolAction], unfixed: list[FailureFix], sole_group: object, has_changes: bool, final_message: str
) -> frozenset[str]:
    """Return the signs that the `when` conditions in `kinds.json` refer to."""
    signs = {
        "changed": has_changes,
        "unchanged": not has_changes,
        "saved": any(action.kind == "saved" and not action.failed for action in actions),
        "read": any(action.kind in ("read", "searched", "fetched") for action in actions),
        "standing": bool(unfixed),
        "mended": bool(sole_group),
        "decided": bool(final_message and phrasing.find_decision(final_message)),
    }
    return frozenset(name for name, holds in signs.items() if holds)


def _observe_fix(turn: Turn, group: list[FailureFix], request: str, subagent_id: str) -> Observation:
    """Build the observation of a failure that was fixed; without changed files another way around it was found."""
    actions = list({action.call.key: action for fix in group for action in fix.actions}.values())
    tokens = sum(action.tokens for action in actions)
    paths = phrasing.list_files_modified(actions)
    signs = frozenset(("mended", "changed") if paths else ("mended", "other way"))
    return Observation(
        key=_compute_key(turn, subagent_id, "mended", group[0].failed_actions[0].call.key),
        at=group[0].failed_actions[0].call.at,
        type="bugfix" if paths else "failure",
        title=_write_fix_title(group, MAX_TITLE_CHARS),
        subtitle=_write_request_line(request, _MAX_SUBTITLE_CHARS // 2, subagent_id),
        facts=tuple(select_fitting(_describe_fix(group), max(_compute_room(tokens), 2 * _MIN_FACT_CHARS))),
        concepts=_find_concepts(signs, "", paths, [group[0].failed_actions[0].label]),
        files_modified=tuple(paths),
        events=tuple(action.call.key for action in actions),
        tokens=tokens,
        times=len(group),
    )


def _compute_room(tokens: int) -> int:
    return int(min(max(_FACT_SHARE * tokens, _MIN_FACT_CHARS), _MAX_FACT_CHARS))


def _compute_key(turn: Turn, *parts: str) -> str:
    identity = "\0".join((turn.agent, turn.name, *parts))
    return blake2b(identity.encode("utf-8", "replace"), digest_size=12).hexdigest()


def _write_request_line(request: str, max_chars: int, subagent_id: str) -> str:
    line = phrasing.pick_first_sentence(request, max_chars - 12)
    if subagent_id:
        return f"Sub-agent: {line}" if line else "By a sub-agent"
    return f"Asked: {line}" if line else ""


def _write_narrative(final_message: str, title: str) -> str:
    """Return the agent's last message in short, without the title's sentence."""
    sentences = list[str]()
    for sentence in filter(is_informative, split_sentences(phrasing.strip_opener(final_message[:4_000]))):
        if sum(map(len, sentences)) + len(sentence) > _MAX_NARRATIVE_CHARS or len(sentences) == 3:
            break
        if sentence != title:
            sentences.append(sentence if sentence.endswith((".", "!", "?")) else f"{sentence}.")
    return " ".join(sentences)


def _observe_chat(turn: Turn) -> list[Observation]:
    """Return an observation for a decision made in a turn without calls; other talk is dropped."""
    decision = phrasing.find_decision(turn.final_message) if turn.prompt else ""
    if not decision:
        return []
    sentences = split_sentences(turn.final_message)
    position = next((number for number, sentence in enumerate(sentences) if sentence == decision), 0)
    title = shorten_line(decision, MAX_TITLE_CHARS)
    narrative = " ".join(select_fitting(sentences[position : position + 3], 400))
    words = to_plain_line(f"{turn.prompt[:400]} {turn.final_message[:400]}")
    observation = Observation(
        key=_compute_key(turn, "", "said", str(turn.number)),
        at=turn.at,
        type="decision",
        title=title,
        subtitle=_write_request_line(turn.prompt, _MAX_SUBTITLE_CHARS, ""),
        narrative="" if narrative == title else narrative,
        concepts=_find_concepts(frozenset(("decided",)), words, (), ()),
    )
    return [observation]


def _describe_work(actions: Sequence[ToolAction], unfixed: Sequence[FailureFix]) -> list[str]:
    """Describe changes, commits, checks and refusals, most important first."""
    standing = [
        f"{quote_code(fix.failed_actions[-1].label, 90)} still fails: {describe_failure(fix.failed_actions[-1])}"
        for fix in unfixed[-3:]
    ]
    standing = [fact.removesuffix(": ") for fact in standing]
    return [
        *_describe_changes(actions),
        *_describe_saved_work(actions),
        *standing,
        *_describe_checks(actions, unfixed),
        *_describe_refusals(actions),
    ]


def _describe_changes(actions: Sequence[ToolAction]) -> list[str]:
    """Describe the files with most changes, a line each; the others share a line."""
    by_path: dict[str, list[ToolAction]] = {}
    for action in actions:
        if action.kind == "read" or action.failed:
            continue
        for path in action.paths:
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


def _describe_saved_work(actions: Sequence[ToolAction]) -> list[str]:
    """Describe commits, pushes and opened pull requests."""
    facts = list[str]()
    for action in actions:
        if action.kind != "saved" or action.failed:
            continue
        for branch, short_hash, subject, size in tool_actions.parse_commits(action.text):
            size_text = f" ({size})" if size else ""
            facts.append(f"Committed {short_hash} on {branch}: “{shorten_line(subject, 100)}”{size_text}")
        if "push" in action.label.split():
            push_command = action.label.rpartition(" && ")[2]  # mostly the last of a chain
            facts.append(f"Pushed: {quote_code(push_command, 60)}")
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
        result = f"passed: {tally.text}" if tally else "passed"
        failure_count = sum(action.failed for action in runs)
        history = f" (failed{format_times(failure_count)} before)" if failure_count else ""
        facts.append(f"{quote_code(label, 90)} {result}{history}")
    return facts[:_MAX_CHECKS]


def _describe_refusals(actions: Sequence[ToolAction]) -> list[str]:
    facts = list[str]()
    for action in actions:
        if action.refused and action.label:
            reason = f": “{action.refused}”" if action.refused.strip() else ""
            facts.append(f"A person refused {quote_code(action.label, 70)}{reason}")
    return facts[:3]


def _write_commit_title(actions: Sequence[ToolAction], max_chars: int) -> str:
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
    address = tool_actions.find_pull_request(action.text) if "create" in action.label.split() else ""
    command = get_text(action.call.input, "command") if isinstance(action.call.input, dict) else ""
    title = _PULL_TITLE.search(command) if address else None
    return f"{address}: “{shorten_line(title[2], 90)}”" if title else address


def _write_fix_title(group: Sequence[FailureFix], max_chars: int) -> str:
    """Describe the failure, its cause and the edits that fixed it, or the form of the command that worked.

    Empty if the output gives no reason but a count, if the difference to the working form is not visible, or if a hook
    only rejected a commit.
    """
    told_fix = choose_told_fix(group)
    failed = told_fix.failed
    reason = find_reason(failed)
    if not has_failure_words(reason) and not tool_actions.is_source_location(reason):
        return ""
    working_command = told_fix.worked.label if told_fix.worked else ""
    file_names = [path.rpartition("/")[2] for path in list_files_modified(told_fix.edits)]
    if file_names:
        is_slip = failed.kind == "saved" or is_style_check(failed.label) or _COMPILER_ERROR.search(reason)
        if is_slip:
            return ""
        label = failed.label
        tail = f"; edited {shorten_line(join_names(file_names, 2), 45)}; passes"
    elif is_other_form(failed.label, working_command):
        # Both commands are told, so leave out the end that they share.
        label, working_label = _cut_common_end(failed.label, working_command)
        tail = f"; {quote_code(working_label, 50)} worked"
    else:
        return ""
    head = f"{quote_code(label, 50)} failed{format_times(told_fix.count)}: "
    reason = _PLACE.sub("", reason)  # the edited files say where it was
    room = max_chars - len(head) - len(tail)
    if room < min(len(reason), _MIN_REASON_CHARS) or _BARE_COUNT.fullmatch(reason):
        return ""  # a reason that must be cut to a few words tells nothing, and neither does a count
    return f"{head}{shorten_line(reason, room)}{tail}"


def _cut_common_end(command: str, other_command: str) -> tuple[str, str]:
    """Replace the words that two commands end with by an ellipsis: only the difference tells what to do instead."""
    words = command.split()
    other_words = other_command.split()
    common = 0
    while common < min(len(words), len(other_words)) - 1 and words[-1 - common] == other_words[-1 - common]:
        common += 1
    if not common:
        return command, other_command
    return f"{' '.join(words[:-common])} …", f"{' '.join(other_words[:-common])} …"


def _describe_fix(group: Sequence[FailureFix]) -> list[str]:
    """Return the error that the fix was for with its command, the fix, the result, then the other errors."""
    failed_actions = [action for fix in group for action in fix.failed_actions]
    told_fix = choose_told_fix(group)
    first, working_action = told_fix.failed, told_fix.worked
    failed_actions.sort(key=lambda action: action is not first)
    first_count = sum(action.label == first.label for action in failed_actions)  # for any of the reasons told below
    reasons = list(dict.fromkeys(filter(None, map(describe_failure, failed_actions))))
    reason = f": {reasons[0]}" if reasons else ""
    facts = [f"{quote_code(first.label, 100)} failed{format_times(first_count)}{reason}"]
    facts += [f"Put right by: {change[:1].lower()}{change[1:]}" for change in _describe_changes(_list_edits(group))[:4]]
    if working_action:
        result = f": {working_action.tally.text}" if working_action.tally else ""
        verb = "passed" if working_action.kind == "check" else "worked"
        facts.append(f"{quote_code(working_action.label, 120)} {verb}{result}")
    return list(dict.fromkeys(facts + [f"Then: {reason}" for reason in reasons[1:_MAX_ERRORS]]))


def quote_code(text: str, max_chars: int) -> str:
    return f"`{shorten_line(text, max_chars)}`"


class ObservationLabel(msgspec.Struct, frozen=True):
    """A type or concept; it fits if all of `when` hold and, if it has patterns, one of them matches."""

    name: str
    meaning: str
    when: frozenset[str] = frozenset()
    words: tuple[str, ...] = ()
    paths: tuple[str, ...] = ()
    commands: tuple[str, ...] = ()


class _Table(msgspec.Struct):
    types: tuple[ObservationLabel, ...]
    concepts: tuple[ObservationLabel, ...]


@lru_cache(maxsize=1)
def load_labels() -> tuple[tuple[ObservationLabel, ...], tuple[ObservationLabel, ...]]:
    """Return the types, of which the first that fits applies, and the concepts, of which several may apply."""
    table = msgspec.json.decode(files("hardwon.distil").joinpath("kinds.json").read_bytes(), type=_Table)
    return table.types, table.concepts


def _classify_type(signs: frozenset[str], words: str) -> str:
    return next(label.name for label in load_labels()[0] if _is_match(label, signs, words, (), ()))


def _find_concepts(signs: frozenset[str], words: str, paths: Sequence[str], commands: Sequence[str]) -> tuple[str, ...]:
    names = (label.name for label in load_labels()[1] if _is_match(label, signs, words, paths, commands))
    return tuple(names)[:_MAX_CONCEPTS]


def _is_match(
    label: ObservationLabel, signs: frozenset[str], words: str, paths: Iterable[str], commands: Iterable[str]
) -> bool:
    """Return whether a label fits: all its signs are there, and one of its patterns matches if it has any."""
    if not label.when <= signs:
        return False
    if not (label.words or label.paths or label.commands):
        return True
    rows = ((label.words, _WORDS, (words,)), (label.paths, _PATHS, paths), (label.commands, _COMMANDS, commands))
    searches = [(_compile_any(patterns, frame).search, texts) for patterns, frame, texts in rows if patterns]
    return any(any(map(search, texts)) for search, texts in searches)


@lru_cache(maxsize=64)
def _compile_any(patterns: tuple[str, ...], frame: str) -> re.Pattern[str]:
    return re.compile(frame.format("|".join(patterns)), re.I)
