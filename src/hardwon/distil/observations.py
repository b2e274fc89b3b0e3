"""Derive observations from a turn without a model: one for its work and one for each fixed failure.

Nothing is invented. Facts are names and numbers from the events. The title is the most informative true sentence: a
commit's subject, the agent's words about a cause or result that name something of the turn, or the fixed failure. Work
without any of these has no title, and a turn that only read or searched gives no observation.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from hashlib import blake2b

from hardwon.distil import phrasing
from hardwon.distil.failure_fixes import FailureFix, find_failure_fixes, find_standing_failures
from hardwon.distil.observation_types import classify_type, find_concepts
from hardwon.distil.tool_actions import ToolAction, classify_calls, find_check_words
from hardwon.distil.turn_facts import (
    describe_fix,
    describe_work,
    write_commit_title,
    write_fix_title,
)
from hardwon.text.excerpts import is_informative, select_fitting, shorten_line, split_sentences, to_plain_line
from hardwon.types import Observation, Turn

MAX_TITLE_CHARS, MAX_SUBTITLE_CHARS = 140, 160
# A longer run of calls is split at its next commit, or at the maximum.
LONG_STRETCH_CALLS, MAX_STRETCH_CALLS, _MIN_REST_CALLS = 40, 80, 15
# Facts get this many characters per token spent, within limits, so that they stay much shorter than the work itself.
_FACT_SHARE, _MIN_FACT_CHARS, _MAX_FACT_CHARS = 0.14, 320, 1_600
_MAX_NARRATIVE_CHARS = 320
_MAX_FILES_READ = 15
_MIN_TITLE_WORDS = 4  # "Updated in src/kite.py." says nothing that the list of files does not
_MAX_FIXES = 6


def observe_turn(turn: Turn) -> list[Observation]:
    """Return the observations of a turn in the order their work began."""
    actions = classify_calls(turn)
    if all(action.kind == "noise" for action in actions):
        return _observe_chat(turn)
    observations = list[Observation]()
    for agent in dict.fromkeys(action.call.agent for action in actions):
        agent_actions = [action for action in actions if action.call.agent == agent]
        starting_calls = (action.label for action in actions if action.kind == "agent" and agent in action.text)
        request = next(starting_calls, "") if agent else turn.prompt
        observations += _observe_agent(turn, agent_actions, request, agent)
    return sorted(observations, key=lambda observation: observation.at)


def _observe_agent(turn: Turn, actions: list[ToolAction], request: str, agent: str) -> list[Observation]:
    """Return the observations of one agent; if all work went into one failure, that is the observation."""
    fixes = find_failure_fixes(actions)
    # Failures of the same kind of check, or of the same other command, are grouped.
    fixes_by_command = dict[frozenset[str], list[FailureFix]]()
    for fix in fixes:
        if fix.worked and not fix.is_retry:
            label = fix.failed_actions[0].label
            fixes_by_command.setdefault(find_check_words(label) or frozenset((label,)), []).append(fix)
    fix_groups = list(fixes_by_command.values())
    unfixed = find_standing_failures(fixes, actions, "" if agent else turn.final_message)
    stretches = list(_split_stretches(actions))
    sole_group = list[FailureFix]()
    if len(fix_groups) == len(stretches) == 1 and _is_only_work(fix_groups[0], actions):
        sole_group = fix_groups[0]
    observations = list[Observation]()
    for number, stretch in enumerate(stretches):
        keys = {action.call.key for action in stretch}
        stretch_failures = [fix for fix in unfixed if fix.failed_actions[-1].call.key in keys]
        is_last = number == len(stretches) - 1
        final_message = turn.final_message if is_last and not agent else ""
        observations += _observe_work(turn, stretch, request, agent, stretch_failures, sole_group, final_message)
    if not sole_group:
        fix_observations = [_observe_fix(turn, group, request, agent) for group in fix_groups]
        observations += [observation for observation in fix_observations if observation.title][:_MAX_FIXES]
    return observations


def _split_stretches(actions: list[ToolAction]) -> Iterator[list[ToolAction]]:
    start = 0
    for position, action in enumerate(actions, 1):
        length = position - start
        is_end = length >= MAX_STRETCH_CALLS or (length >= LONG_STRETCH_CALLS and action.kind == "saved")
        if is_end and len(actions) - position >= _MIN_REST_CALLS:
            yield actions[start:position]
            start = position
    yield actions[start:]


def _is_only_work(group: list[FailureFix], actions: Sequence[ToolAction]) -> bool:
    """Return whether every change of the turn was made to fix this failure."""
    changed_keys = {action.call.key for action in actions if action.kind == "changed" and not action.failed}
    edited_keys = {action.call.key for fix in group for action in fix.edits}
    return bool(edited_keys) and changed_keys <= edited_keys and not any(action.kind == "saved" for action in actions)


def _observe_work(
    turn: Turn,
    actions: list[ToolAction],
    request: str,
    agent: str,
    unfixed: list[FailureFix],
    sole_group: list[FailureFix],
    final_message: str,
) -> list[Observation]:
    facts = describe_fix(sole_group) if sole_group else describe_work(actions, unfixed)
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
        key=_compute_key(turn, agent, "work", actions[0].call.key),
        at=actions[0].call.at,
        type="bugfix" if sole_group else classify_type(signs, words),
        title=title,
        subtitle=_write_request_line(request, MAX_SUBTITLE_CHARS, agent),
        narrative=_write_narrative(final_message, title),
        facts=tuple(select_fitting(list(dict.fromkeys(facts)), room)),
        concepts=find_concepts(signs, words, paths or files_read, commands),
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
        write_commit_title(actions, MAX_TITLE_CHARS),
        _pick_naming_sentence(phrasing.find_causes(final_message), actions),
        write_fix_title(sole_group, MAX_TITLE_CHARS) if sole_group else "",
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
            best, best_score = sentence, score
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


def _observe_fix(turn: Turn, group: list[FailureFix], request: str, agent: str) -> Observation:
    actions = list({action.call.key: action for fix in group for action in fix.actions}.values())
    tokens = sum(action.tokens for action in actions)
    paths = phrasing.list_files_modified(actions)
    signs = frozenset(("mended", "changed") if paths else ("mended", "other way"))
    return Observation(
        key=_compute_key(turn, agent, "mended", group[0].failed_actions[0].call.key),
        at=group[0].failed_actions[0].call.at,
        type="bugfix" if paths else "failure",
        title=write_fix_title(group, MAX_TITLE_CHARS),
        subtitle=_write_request_line(request, MAX_SUBTITLE_CHARS // 2, agent),
        facts=tuple(select_fitting(describe_fix(group), max(_compute_room(tokens), 2 * _MIN_FACT_CHARS))),
        concepts=find_concepts(signs, "", paths, [group[0].failed_actions[0].label]),
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


def _write_request_line(request: str, max_chars: int, agent: str) -> str:
    line = phrasing.pick_first_sentence(request, max_chars - 12)
    if agent:
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
        subtitle=_write_request_line(turn.prompt, MAX_SUBTITLE_CHARS, ""),
        narrative="" if narrative == title else narrative,
        concepts=find_concepts(frozenset(("decided",)), words, (), ()),
    )
    return [observation]
