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
_SHORT_REST = 15
_SHARE, _LEAST, _MOST = 0.035, 320, 1_600  # characters of facts per token that was spent, and for one observation
_TOLD = 600  # characters at least of what failed and what put it right
_MOST_READ = 15
_MOST_MENDED = 6
_SAME = 0.6


def observe_turn(turn: Turn) -> list[Observation]:
    """The observations of a turn, in the order in which their work began."""
    done = classify_calls(turn)
    if all(deed.kind == "noise" for deed in done):
        return _chat(turn)
    found = list[Observation]()
    for agent in dict.fromkeys(deed.call.agent for deed in done):
        own = [deed for deed in done if deed.call.agent == agent]
        task = _task(agent, done) if agent else turn.prompt
        found += _of_agent(turn, own, task, agent)
    return sorted(found, key=lambda one: one.at)


def _of_agent(turn: Turn, done: list[ToolAction], asked: str, agent: str) -> list[Observation]:
    """What one agent did; a single failure that is the whole story is told as the work itself."""
    failed = find_failure_fixes(done)
    merged = _alike([mend for mend in failed if mend.worked])
    left = find_standing_failures(failed, done)
    stretches = list(_stretches(done))
    only = merged[0] if len(merged) == len(stretches) == 1 and _is_all(merged[0], done) else None
    found = list[Observation]()
    for number, stretch in enumerate(stretches):
        keys = {deed.call.key for deed in stretch}
        own = [mend for mend in left if mend.failed_actions[-1].call.key in keys]
        last = number == len(stretches) - 1
        work = _work(turn, stretch, asked, agent, own, only, said=turn.final_message if last and not agent else "")
        found += [work] if work else []
    return found + ([] if only else [_mended(turn, mends, asked, agent) for mends in merged[:_MOST_MENDED]])


def _stretches(done: list[ToolAction]) -> Iterator[list[ToolAction]]:
    start = 0
    for place, deed in enumerate(done, 1):
        long_enough = place - start >= MAX_STRETCH_CALLS or (
            place - start >= LONG_STRETCH_CALLS and deed.kind == "saved"
        )
        if long_enough and len(done) - place >= _SHORT_REST:
            yield done[start:place]
            start = place
    yield done[start:]


def _alike(found: list[FailureFix]) -> list[list[FailureFix]]:
    """Failures of the same command, or that say the same, count as one."""
    groups = list[list[FailureFix]]()
    words = list[frozenset[str]]()
    for mend in found:
        own = tokenize(f"{mend.failed_actions[0].label} {mend.signature}")
        near = (
            place
            for place, group in enumerate(groups)
            if group[0].failure_kind == mend.failure_kind
            and (
                group[0].failed_actions[0].label == mend.failed_actions[0].label
                or compute_jaccard(own, words[place]) >= _SAME
            )
        )
        place = next(near, -1)
        if place < 0:
            groups.append([mend])
            words.append(own)
        else:
            groups[place].append(mend)
    return groups


def _is_all(group: list[FailureFix], done: Sequence[ToolAction]) -> bool:
    """Whether every change of the turn was made to put this right."""
    changed = {deed.call.key for deed in done if deed.kind == "changed" and not deed.failed}
    edited = {deed.call.key for mend in group for deed in mend.edits}
    return bool(edited) and changed <= edited and not any(deed.kind == "saved" for deed in done)


def _work(
    turn: Turn,
    done: list[ToolAction],
    asked: str,
    agent: str,
    left: list[FailureFix],
    only: list[FailureFix] | None,
    *,
    said: str,
) -> Observation | None:
    spent = sum(deed.tokens for deed in done)
    facts = phrasing.write_facts(done, left, only or ())
    title = (
        phrasing.write_fix_title(only, MAX_TITLE_CHARS) if only else phrasing.write_title(done, left, MAX_TITLE_CHARS)
    )
    read = phrasing.list_files_read(done)
    if not title or not (facts or read):
        return None
    paths, commands = (
        phrasing.list_files_modified(done),
        [deed.label for deed in done if deed.kind in ("check", "saved", "ran")],
    )
    what = _what(done, left, only, bool(paths), said)
    words = to_plain_line(" ".join([asked[:400], *phrasing.list_commit_subjects(done)]))
    return Observation(
        key=_key(turn, agent, "work", done[0].call.key),
        at=done[0].call.at,
        type="bugfix" if only else classify_type(what, words),
        title=title,
        subtitle=phrasing.write_request_line(asked, MAX_SUBTITLE_CHARS, agent),
        narrative=phrasing.write_narrative(done, said),
        facts=tuple(select_fitting(list(dict.fromkeys(facts)), _room(spent))),
        concepts=find_concepts(what, words, paths or read, commands),
        files_read=tuple(select_fitting([path for path in read if path not in paths], _room(spent))[:_MOST_READ]),
        files_modified=tuple(paths),
        events=tuple(deed.call.key for deed in done if deed.kind != "noise"),
        tokens=spent,
        times=len(only) if only else 1,
    )


def _what(done: Sequence[ToolAction], left: list[FailureFix], only: object, changed: bool, said: str) -> frozenset[str]:
    """What the signs of types and concepts may ask for."""
    signs = {
        "changed": changed,
        "unchanged": not changed,
        "saved": any(deed.kind == "saved" and not deed.failed for deed in done),
        "read": any(deed.kind in ("read", "searched", "fetched") for deed in done),
        "standing": bool(left),
        "mended": bool(only),
        "decided": bool(said and find_decision(said)),
    }
    return frozenset(name for name, holds in signs.items() if holds)


def _mended(turn: Turn, group: list[FailureFix], asked: str, agent: str) -> Observation:
    every = list({deed.call.key: deed for mend in group for deed in mend.actions}.values())
    spent = sum(deed.tokens for deed in every)
    paths = phrasing.list_files_modified(every)
    what = frozenset(("mended", "changed") if paths else ("mended", "other way"))
    return Observation(
        key=_key(turn, agent, "mended", group[0].failed_actions[0].call.key),
        at=group[0].failed_actions[0].call.at,
        type="bugfix" if paths else "failure",
        title=phrasing.write_fix_title(group, MAX_TITLE_CHARS),
        subtitle=phrasing.write_request_line(asked, MAX_SUBTITLE_CHARS // 2, agent),
        facts=tuple(select_fitting(phrasing.write_fix_facts(group), max(_room(spent), _TOLD))),
        concepts=find_concepts(what, "", paths, [group[0].failed_actions[0].label]),
        files_modified=tuple(paths),
        events=tuple(deed.call.key for deed in every),
        tokens=spent,
        times=len(group),
    )


def _room(spent: int) -> int:
    return int(min(max(_SHARE * 4 * spent, _LEAST), _MOST))


def _key(turn: Turn, *parts: str) -> str:
    whole = "\0".join((turn.agent, turn.name, *parts))
    return blake2b(whole.encode("utf-8", "replace"), digest_size=12).hexdigest()


def _task(agent: str, done: Sequence[ToolAction]) -> str:
    """What a sub-agent was asked, if the call that started it names it."""
    calls = (deed for deed in done if deed.kind == "agent" and agent in deed.text)
    return next((deed.label for deed in calls), "")


def _chat(turn: Turn) -> list[Observation]:
    """Words alone are worth keeping where they decide something."""
    decided = find_decision(turn.final_message) if turn.prompt else ""
    if not decided:
        return []
    every = split_sentences(turn.final_message)
    place = next((number for number, sentence in enumerate(every) if sentence == decided), 0)
    words = to_plain_line(f"{turn.prompt[:400]} {turn.final_message[:400]}")
    made = Observation(
        key=_key(turn, "", "said", str(turn.number)),
        at=turn.at,
        type="decision",
        title=shorten_line(decided, MAX_TITLE_CHARS),
        subtitle=phrasing.write_request_line(turn.prompt, MAX_SUBTITLE_CHARS, ""),
        narrative=" ".join(select_fitting(every[place : place + 3], 400)),
        concepts=find_concepts(frozenset(("decided",)), words, (), ()),
    )
    return [replace(made, narrative="")] if made.narrative == made.title else [made]
