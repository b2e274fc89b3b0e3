"""What a turn meant, by plain code: one observation for its work, one for each failure that was put right.

Nothing is invented and little is judged. Facts are names and numbers that stand in the events, in the order in which a
person would ask for them: what changed, was committed and passed, what failed, then what was only looked at. How much
is said grows with how much was done, so that observations stay a small part of what they stand for.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from hashlib import blake2b

from hardwon.distil import phrasing
from hardwon.distil.failure_fixes import Mend, mends, standing
from hardwon.distil.observation_types import concepts_of, type_of
from hardwon.distil.phrasing import decision
from hardwon.distil.tool_actions import Deed, deeds
from hardwon.text.excerpts import fitted, plain, sentences, short
from hardwon.text.similarity import jaccard, tokens
from hardwon.types import Observation, Turn, replace

TITLE = 80
SUBTITLE = 160
LONG, LONGEST = 40, 80  # calls: a longer stretch ends with the next commit, or at last here
_SHORT_REST = 15
_SHARE, _LEAST, _MOST = 0.035, 320, 1_600  # characters of facts per token that was spent, and for one observation
_TOLD = 600  # characters at least of what failed and what put it right
_MOST_READ = 15
_MOST_MENDED = 6
_SAME = 0.6


def observe(turn: Turn) -> list[Observation]:
    """The observations of a turn, in the order in which their work began."""
    done = deeds(turn)
    if all(deed.kind == "noise" for deed in done):
        return _chat(turn)
    found = list[Observation]()
    for agent in dict.fromkeys(deed.call.agent for deed in done):
        own = [deed for deed in done if deed.call.agent == agent]
        task = _task(agent, done) if agent else turn.asked
        found += _of_agent(turn, own, task, agent)
    return sorted(found, key=lambda one: one.at)


def _of_agent(turn: Turn, done: list[Deed], asked: str, agent: str) -> list[Observation]:
    """What one agent did; a single failure that is the whole story is told as the work itself."""
    failed = mends(done)
    merged = _alike([mend for mend in failed if mend.worked])
    left = standing(failed, done)
    stretches = list(_stretches(done))
    only = merged[0] if len(merged) == len(stretches) == 1 and _is_all(merged[0], done) else None
    found = list[Observation]()
    for number, stretch in enumerate(stretches):
        keys = {deed.call.key for deed in stretch}
        own = [mend for mend in left if mend.failing[-1].call.key in keys]
        last = number == len(stretches) - 1
        work = _work(turn, stretch, asked, agent, own, only, said=turn.said if last and not agent else "")
        found += [work] if work else []
    return found + ([] if only else [_mended(turn, mends, asked, agent) for mends in merged[:_MOST_MENDED]])


def _stretches(done: list[Deed]) -> Iterator[list[Deed]]:
    start = 0
    for place, deed in enumerate(done, 1):
        long_enough = place - start >= LONGEST or (place - start >= LONG and deed.kind == "saved")
        if long_enough and len(done) - place >= _SHORT_REST:
            yield done[start:place]
            start = place
    yield done[start:]


def _alike(found: list[Mend]) -> list[list[Mend]]:
    """Failures of the same command, or that say the same, count as one."""
    groups = list[list[Mend]]()
    words = list[frozenset[str]]()
    for mend in found:
        own = tokens(f"{mend.failing[0].what} {mend.signature}")
        near = (
            place
            for place, group in enumerate(groups)
            if group[0].about == mend.about
            and (group[0].failing[0].what == mend.failing[0].what or jaccard(own, words[place]) >= _SAME)
        )
        place = next(near, -1)
        if place < 0:
            groups.append([mend])
            words.append(own)
        else:
            groups[place].append(mend)
    return groups


def _is_all(group: list[Mend], done: Sequence[Deed]) -> bool:
    """Whether every change of the turn was made to put this right."""
    changed = {deed.call.key for deed in done if deed.kind == "changed" and not deed.failed}
    edited = {deed.call.key for mend in group for deed in mend.edited}
    return bool(edited) and changed <= edited and not any(deed.kind == "saved" for deed in done)


def _work(
    turn: Turn, done: list[Deed], asked: str, agent: str, left: list[Mend], only: list[Mend] | None, *, said: str
) -> Observation | None:
    spent = sum(deed.tokens for deed in done)
    facts = phrasing.facts(done, left, only or ())
    title = phrasing.mend_title(only, TITLE) if only else phrasing.title(done, left, TITLE)
    read = phrasing.files_read(done)
    if not title or not (facts or read):
        return None
    paths, commands = (
        phrasing.files_modified(done),
        [deed.what for deed in done if deed.kind in ("check", "saved", "ran")],
    )
    what = _what(done, left, only, bool(paths), said)
    words = plain(" ".join([asked[:400], *phrasing.subjects(done)]))
    return Observation(
        key=_key(turn, agent, "work", done[0].call.key),
        at=done[0].call.at,
        type="bugfix" if only else type_of(what, words),
        title=title,
        subtitle=phrasing.asked_line(asked, SUBTITLE, agent),
        narrative=phrasing.narrative(done, said),
        facts=tuple(fitted(list(dict.fromkeys(facts)), _room(spent))),
        concepts=concepts_of(what, words, paths or read, commands),
        files_read=tuple(fitted([path for path in read if path not in paths], _room(spent))[:_MOST_READ]),
        files_modified=tuple(paths),
        events=tuple(deed.call.key for deed in done if deed.kind != "noise"),
        tokens=spent,
        times=len(only) if only else 1,
    )


def _what(done: Sequence[Deed], left: list[Mend], only: object, changed: bool, said: str) -> frozenset[str]:
    """What the signs of types and concepts may ask for."""
    signs = {
        "changed": changed,
        "unchanged": not changed,
        "saved": any(deed.kind == "saved" and not deed.failed for deed in done),
        "read": any(deed.kind in ("read", "searched", "fetched") for deed in done),
        "standing": bool(left),
        "mended": bool(only),
        "decided": bool(said and decision(said)),
    }
    return frozenset(name for name, holds in signs.items() if holds)


def _mended(turn: Turn, group: list[Mend], asked: str, agent: str) -> Observation:
    every = list({deed.call.key: deed for mend in group for deed in mend.deeds}.values())
    spent = sum(deed.tokens for deed in every)
    paths = phrasing.files_modified(every)
    what = frozenset(("mended", "changed") if paths else ("mended", "other way"))
    return Observation(
        key=_key(turn, agent, "mended", group[0].failing[0].call.key),
        at=group[0].failing[0].call.at,
        type="bugfix" if paths else "failure",
        title=phrasing.mend_title(group, TITLE),
        subtitle=phrasing.asked_line(asked, SUBTITLE // 2, agent),
        facts=tuple(fitted(phrasing.mend_facts(group), max(_room(spent), _TOLD))),
        concepts=concepts_of(what, "", paths, [group[0].failing[0].what]),
        files_modified=tuple(paths),
        events=tuple(deed.call.key for deed in every),
        tokens=spent,
        times=len(group),
    )


def _room(spent: int) -> int:
    return int(min(max(_SHARE * 4 * spent, _LEAST), _MOST))


def _key(turn: Turn, *parts: str) -> str:
    whole = "\0".join((turn.host, turn.name, *parts))
    return blake2b(whole.encode("utf-8", "replace"), digest_size=12).hexdigest()


def _task(agent: str, done: Sequence[Deed]) -> str:
    """What a sub-agent was asked, if the call that started it names it."""
    calls = (deed for deed in done if deed.kind == "agent" and agent in deed.text)
    return next((deed.what for deed in calls), "")


def _chat(turn: Turn) -> list[Observation]:
    """Words alone are worth keeping where they decide something."""
    decided = decision(turn.said) if turn.asked else ""
    if not decided:
        return []
    every = sentences(turn.said)
    place = next((number for number, sentence in enumerate(every) if sentence == decided), 0)
    words = plain(f"{turn.asked[:400]} {turn.said[:400]}")
    made = Observation(
        key=_key(turn, "", "said", str(turn.number)),
        at=turn.at,
        type="decision",
        title=short(decided, TITLE),
        subtitle=phrasing.asked_line(turn.asked, SUBTITLE, ""),
        narrative=" ".join(fitted(every[place : place + 3], 400)),
        concepts=concepts_of(frozenset(("decided",)), words, (), ()),
    )
    return [replace(made, narrative="")] if made.narrative == made.title else [made]
