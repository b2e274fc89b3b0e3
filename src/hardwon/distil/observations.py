"""What a turn meant, by plain code: one observation for its work, one for each failure that was put right.

Nothing is invented and little is judged. Facts are names and numbers that stand in the events, in the order in which a
person would ask for them: what changed, was committed and passed, what failed, then what was only looked at. How much
is said grows with how much was done, so that observations stay a small part of what they stand for.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from hashlib import blake2b

from hardwon.distil import phrasing
from hardwon.distil.failure_fixes import FailureFix, find_failure_fixes, find_standing_failures
from hardwon.distil.observation_types import classify_type, find_concepts
from hardwon.distil.phrasing import find_decision
from hardwon.distil.tool_actions import ToolAction, classify_calls
from hardwon.text.excerpts import select_fitting, shorten_line, split_sentences, to_plain_line
from hardwon.text.similarity import compute_jaccard, tokenize
from hardwon.types import Observation, Turn, replace

MAX_TITLE_CHARS = 80
MAX_SUBTITLE_CHARS = 160
LONG_STRETCH_CALLS, MAX_STRETCH_CALLS = 40, 80  # calls: a longer stretch ends with the next commit, or at last here
_MIN_REST_CALLS = 15
_FACT_SHARE, _MIN_FACT_CHARS, _MAX_FACT_CHARS = (
    0.035,
    320,
    1_600,
)  # characters of facts per token that was spent, and for one observation
_MIN_FIX_CHARS = 600  # characters at least of what failed and what put it right
_MAX_FILES_READ = 15
_MAX_FIXES = 6
_MIN_SIMILARITY = 0.6


def observe_turn(turn: Turn) -> list[Observation]:
    """The observations of a turn, in the order in which their work began."""
    actions = classify_calls(turn)
    if all(action.kind == "noise" for action in actions):
        return _observe_chat(turn)
    observations = list[Observation]()
    for agent in dict.fromkeys(action.call.agent for action in actions):
        agent_actions = [action for action in actions if action.call.agent == agent]
        task = _find_task(agent, actions) if agent else turn.prompt
        observations += _observe_agent(turn, agent_actions, task, agent)
    return sorted(observations, key=lambda observation: observation.at)


def _observe_agent(turn: Turn, actions: list[ToolAction], request: str, agent: str) -> list[Observation]:
    """What one agent did; a single failure that is the whole story is told as the work itself."""
    fixes = find_failure_fixes(actions)
    fix_groups = _group_similar([fix for fix in fixes if fix.worked])
    unfixed = find_standing_failures(fixes, actions)
    stretches = list(_split_stretches(actions))
    sole_group = (
        fix_groups[0] if len(fix_groups) == len(stretches) == 1 and _is_only_work(fix_groups[0], actions) else None
    )
    observations = list[Observation]()
    for number, stretch in enumerate(stretches):
        keys = {action.call.key for action in stretch}
        stretch_failures = [fix for fix in unfixed if fix.failed_actions[-1].call.key in keys]
        is_last = number == len(stretches) - 1
        observation = _observe_work(
            turn,
            stretch,
            request,
            agent,
            stretch_failures,
            sole_group,
            final_message=turn.final_message if is_last and not agent else "",
        )
        observations += [observation] if observation else []
    return observations + (
        [] if sole_group else [_observe_fix(turn, group, request, agent) for group in fix_groups[:_MAX_FIXES]]
    )


def _split_stretches(actions: list[ToolAction]) -> Iterator[list[ToolAction]]:
    start = 0
    for position, action in enumerate(actions, 1):
        long_enough = position - start >= MAX_STRETCH_CALLS or (
            position - start >= LONG_STRETCH_CALLS and action.kind == "saved"
        )
        if long_enough and len(actions) - position >= _MIN_REST_CALLS:
            yield actions[start:position]
            start = position
    yield actions[start:]


def _group_similar(fixes: list[FailureFix]) -> list[list[FailureFix]]:
    """Failures of the same command, or that say the same, count as one."""
    groups = list[list[FailureFix]]()
    group_tokens = list[frozenset[str]]()
    for fix in fixes:
        tokens = tokenize(f"{fix.failed_actions[0].label} {fix.signature}")
        matches = (
            position
            for position, group in enumerate(groups)
            if group[0].failure_kind == fix.failure_kind
            and (
                group[0].failed_actions[0].label == fix.failed_actions[0].label
                or compute_jaccard(tokens, group_tokens[position]) >= _MIN_SIMILARITY
            )
        )
        position = next(matches, -1)
        if position < 0:
            groups.append([fix])
            group_tokens.append(tokens)
        else:
            groups[position].append(fix)
    return groups


def _is_only_work(group: list[FailureFix], actions: Sequence[ToolAction]) -> bool:
    """Whether every change of the turn was made to put this right."""
    changed_keys = {action.call.key for action in actions if action.kind == "changed" and not action.failed}
    edited_keys = {action.call.key for fix in group for action in fix.edits}
    return bool(edited_keys) and changed_keys <= edited_keys and not any(action.kind == "saved" for action in actions)


def _observe_work(
    turn: Turn,
    actions: list[ToolAction],
    request: str,
    agent: str,
    unfixed: list[FailureFix],
    sole_group: list[FailureFix] | None,
    *,
    final_message: str,
) -> Observation | None:
    tokens = sum(action.tokens for action in actions)
    facts = phrasing.write_facts(actions, unfixed, sole_group or ())
    title = (
        phrasing.write_fix_title(sole_group, MAX_TITLE_CHARS)
        if sole_group
        else phrasing.write_title(actions, unfixed, MAX_TITLE_CHARS)
    )
    files_read = phrasing.list_files_read(actions)
    if not title or not (facts or files_read):
        return None
    paths, commands = (
        phrasing.list_files_modified(actions),
        [action.label for action in actions if action.kind in ("check", "saved", "ran")],
    )
    signs = _collect_signs(actions, unfixed, sole_group, bool(paths), final_message)
    words = to_plain_line(" ".join([request[:400], *phrasing.list_commit_subjects(actions)]))
    return Observation(
        key=_compute_key(turn, agent, "work", actions[0].call.key),
        at=actions[0].call.at,
        type="bugfix" if sole_group else classify_type(signs, words),
        title=title,
        subtitle=phrasing.write_request_line(request, MAX_SUBTITLE_CHARS, agent),
        narrative=phrasing.write_narrative(actions, final_message),
        facts=tuple(select_fitting(list(dict.fromkeys(facts)), _compute_room(tokens))),
        concepts=find_concepts(signs, words, paths or files_read, commands),
        files_read=tuple(
            select_fitting([path for path in files_read if path not in paths], _compute_room(tokens))[:_MAX_FILES_READ]
        ),
        files_modified=tuple(paths),
        events=tuple(action.call.key for action in actions if action.kind != "noise"),
        tokens=tokens,
        times=len(sole_group) if sole_group else 1,
    )


def _collect_signs(
    actions: Sequence[ToolAction], unfixed: list[FailureFix], sole_group: object, has_changes: bool, final_message: str
) -> frozenset[str]:
    """What the signs of types and concepts may ask for."""
    signs = {
        "changed": has_changes,
        "unchanged": not has_changes,
        "saved": any(action.kind == "saved" and not action.failed for action in actions),
        "read": any(action.kind in ("read", "searched", "fetched") for action in actions),
        "standing": bool(unfixed),
        "mended": bool(sole_group),
        "decided": bool(final_message and find_decision(final_message)),
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
        title=phrasing.write_fix_title(group, MAX_TITLE_CHARS),
        subtitle=phrasing.write_request_line(request, MAX_SUBTITLE_CHARS // 2, agent),
        facts=tuple(select_fitting(phrasing.write_fix_facts(group), max(_compute_room(tokens), _MIN_FIX_CHARS))),
        concepts=find_concepts(signs, "", paths, [group[0].failed_actions[0].label]),
        files_modified=tuple(paths),
        events=tuple(action.call.key for action in actions),
        tokens=tokens,
        times=len(group),
    )


def _compute_room(tokens: int) -> int:
    return int(min(max(_FACT_SHARE * 4 * tokens, _MIN_FACT_CHARS), _MAX_FACT_CHARS))


def _compute_key(turn: Turn, *parts: str) -> str:
    identity = "\0".join((turn.agent, turn.name, *parts))
    return blake2b(identity.encode("utf-8", "replace"), digest_size=12).hexdigest()


def _find_task(agent: str, actions: Sequence[ToolAction]) -> str:
    """What a sub-agent was asked, if the call that started it names it."""
    calls = (action for action in actions if action.kind == "agent" and agent in action.text)
    return next((action.label for action in calls), "")


def _observe_chat(turn: Turn) -> list[Observation]:
    """Words alone are worth keeping where they decide something."""
    decision = find_decision(turn.final_message) if turn.prompt else ""
    if not decision:
        return []
    sentences = split_sentences(turn.final_message)
    position = next((number for number, sentence in enumerate(sentences) if sentence == decision), 0)
    words = to_plain_line(f"{turn.prompt[:400]} {turn.final_message[:400]}")
    observation = Observation(
        key=_compute_key(turn, "", "said", str(turn.number)),
        at=turn.at,
        type="decision",
        title=shorten_line(decision, MAX_TITLE_CHARS),
        subtitle=phrasing.write_request_line(turn.prompt, MAX_SUBTITLE_CHARS, ""),
        narrative=" ".join(select_fitting(sentences[position : position + 3], 400)),
        concepts=find_concepts(frozenset(("decided",)), words, (), ()),
    )
    return [replace(observation, narrative="")] if observation.narrative == observation.title else [observation]
