"""What a draft says of a session, by plain code: each statement with the lines of the transcript that show it.

What is said here stands in the session; only the order is ours.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

from hardwon.agents.transcript_steps import Step
from hardwon.distil import check_results, phrasing
from hardwon.distil.failure_fixes import Mend, mends, standing, why
from hardwon.distil.observations import observe
from hardwon.distil.summaries import summarise
from hardwon.distil.tool_actions import Deed, deeds
from hardwon.handoff import transcript_story as telltale
from hardwon.handoff.transcript_story import Exchange, Story
from hardwon.store.reflection_types import Evidence
from hardwon.text.excerpts import counted, lines_of, listed, plain, says_something, sentences, short, times
from hardwon.text.similarity import jaccard, tokens
from hardwon.types import Summary, Turn, word

LINE = 220
LATER_LOOK = "BashOutput"
_BEGINNING = 200
MOST_REQUESTS, MOST_COMMITS, MOST_FILES, MOST_CHECKS, MOST_CAUSES, MOST_READ = 4, 5, 8, 3, 2, 5
MOST_DECISIONS, MOST_FAILED, MOST_OPEN = 5, 5, 6
_RECENT = 5  # turns whose failures may stand
_SAME = 0.6
# A statement that only introduces what somebody said, such as: Left out, says the agent: “The cache is missing.”
_QUOTES_ONE = re.compile(r"[^“”]*: “([^“”]+)”")
_NEAR = 60  # characters from the start of a sentence: further on it tells of something else
_SAYS_WHY = 7  # words that a cause takes
_NOD = re.compile(r"^(?:no|nope|yes|yeah|yep|ok|okay|nice|great|good|thanks)\b", re.I)
_PICKS = re.compile(r"(?:let'?s )?(?:do|go with|take|use|option|number)? ?(?:option|number|#)? ?\w{1,2}\W*", re.I)
_OPENS = re.compile(r"(?:here(?:'s|’s| is| are)|let me|i(?:'ll|’ll| will)|if\b)", re.I)  # it tells nothing yet
_IS_DONE = re.compile(r"\b(?:already (?:\w+ )?(?:in|done|fixed|handled|covered)|but now|no longer needed)\b|→", re.I)
_INLINE = re.compile(r"\s-[ce] [\"']|<<")  # a script that was typed for the moment
_FRAME = re.compile(r"at \S+ \(|File \"")  # a line of a trace, which gives no reason
_ANSWERED = re.compile(r'"([^"\n]{4,300})"\s*=\s*"([^"\n]{1,300})"')
_SETTLES = re.compile(
    r"\b(?:let'?s (?:go with|use|keep|not|skip|stick|drop|remove)|(?:go|stick) with|I(?:'d| would)? (?:prefer|rather)"
    r"|we (?:should(?:n't| not)|don'?t want|do not want|decided|will use|won'?t)"
    r"|(?:don'?t|do not|never|always) (?:use|add|change|touch|commit|push|make|create|write|run|include|rely)"
    r"|use [^.\n]{1,60} instead)\b",
    re.I,
)
_CAUSE = re.compile(
    r"\b(?:turns out|root cause|the (?:real )?(?:problem|issue|bug|cause|reason|culprit)(?: here)? (?:is|was)"
    r"|happens when)\b|\bcause:",
    re.I,
)


@word
class Statement:
    """A sentence, and where the transcript shows it."""

    text: str
    evidence: tuple[Evidence, ...] = ()


@word
class Seen:
    """A session as statements are made from it."""

    story: Story
    exchanges: tuple[Exchange, ...]
    turns: tuple[Turn, ...]
    summary: Summary
    done: tuple[Deed, ...]
    recent: tuple[Deed, ...]
    calls: Mapping[str, tuple[Step, Step | None]]
    mends: tuple[Mend, ...]
    worked: int  # the exchange in which the last call was made


def seen(story: Story) -> Seen:
    """Everything that is told more than once, made once."""
    turns = telltale.turns(story)
    by_turn = [deeds(turn) for turn in turns]
    return Seen(
        story=story,
        exchanges=telltale.exchanges(story),
        turns=turns,
        summary=summarise(turns, [one for turn in turns for one in observe(turn)]),
        done=tuple(deed for own in by_turn for deed in own),
        recent=tuple(deed for own in by_turn[-_RECENT:] for deed in own),
        calls=telltale.calls(story),
        mends=tuple(mend for own in by_turn for mend in mends(own)),
        worked=max((place for place, own in enumerate(by_turn) if own), default=len(turns) - 1),
    )


def of_step(of: Seen, step: Step, words: str = "") -> tuple[Evidence, ...]:
    """The line of a step, quoting the one of its lines that has these words."""
    start = plain(words)[:40]
    raw = next((line for line in step.text.splitlines() if start and start in " ".join(lines_of(line))), words)
    return (telltale.quote(of.story, step, raw),)


def of_deed(of: Seen, deed: Deed, words: str = "") -> tuple[Evidence, ...]:
    """The line of a call's result where there are words to quote, else that of the call."""
    call, result = of.calls[deed.call.key]
    if words and result:
        line = next((one for one in result.text.splitlines() if words[:60] in plain(one)), "")
        return (telltale.quote(of.story, result, line),)
    call = begun(of.story, call)
    return (telltale.quote(of.story, call, call.command or call.path),)


def begun(story: Story, call: Step) -> Step:
    """The call that has the command in its line: a later look at how it goes has not."""
    start = call.command[:_BEGINNING]  # a reader remembers no more of a long one
    same = (step for step in story.steps if step.command.startswith(start) and step.tool != LATER_LOOK)
    return next(same, call) if call.tool == LATER_LOOK and call.command else call


def requests(of: Seen) -> list[Statement]:
    """What was asked first, and last."""
    every = of.summary.request.split("\n") if of.summary.request else []
    asked = [(phrasing.first_sentence(one.asked.text, 180), one.asked) for one in of.exchanges if one.asked]
    pasted = {line for line, step in asked if len(step.text) <= telltale.LONGEST_TYPED and not telltale.spoken(step)}
    wanted = [line for line in every if not says_little(line) and line not in pasted] or every[:1]
    chosen = [*wanted[:1], *wanted[1:][-(MOST_REQUESTS - 1) :]]
    found = [(line, step) for line in chosen for step in [_first(asked, line)] if step]
    return [
        Statement(f"{'Then asked' if place else 'Asked'}: {line.rstrip(chr(92))}", of_step(of, step, line))
        for place, (line, step) in enumerate(found)
    ]


def says_little(asked: str) -> bool:
    """Whether a request only nods, picks one of what was offered, or is a word or two."""
    words = asked.split()
    return len(words) <= 2 or (len(words) <= 5 and bool(_NOD.match(asked) or _PICKS.fullmatch(asked)))


def _first(pairs: Sequence[tuple[str, Step]], wanted: str) -> Step | None:
    return next((step for line, step in pairs if line == wanted), None)


def outcome(of: Seen) -> list[Statement]:
    """What the agent said it came to, then what the calls show: commits, pull requests, files, checks that pass."""
    found = list[Statement]()
    if of.exchanges and (said := _closing(of)):
        found.append(said)
    saved = commits(of)
    kept = {subject: (deed, name, subject) for deed, (_, name, subject, _) in saved}  # amended, it is still one
    for deed, name, subject in list(kept.values())[-MOST_COMMITS:]:
        found.append(Statement(f"Committed {name}: “{short(subject, 100)}”", of_deed(of, deed, name)))
    if len(kept) > MOST_COMMITS:
        deed, (_, name, *_) = saved[0]
        found.append(Statement(f"{counted(len(kept) - MOST_COMMITS, 'commit')} before these", of_deed(of, deed, name)))
    pulls = {pull: deed for deed in of.done if deed.kind == "saved" and (pull := check_results.pull_request(deed.text))}
    found += [Statement(f"Pull request {pull}", of_deed(of, deed, pull)) for pull, deed in pulls.items()][-2:]
    if edits := [deed for deed in of.done if deed.kind != "read" and deed.paths and not deed.failed]:
        paths = phrasing.files_modified(edits)
        shown = listed(map(phrasing.path_shown, paths), MOST_FILES)
        found.append(Statement(f"Changed {shown}", (*of_deed(of, edits[0]), *of_deed(of, edits[-1]))))
    else:
        found += _looked(of)
    checks = {deed.what: deed for deed in of.done if deed.kind == "check"}
    passed = [deed for deed in checks.values() if not deed.failed][-MOST_CHECKS:]
    return found + [_passed(of, deed) for deed in passed]


def _looked(of: Seen) -> list[Statement]:
    """Where nothing was changed: what was read, looked up and searched for."""
    kinds = (("read", "Read", phrasing.path_shown), ("fetched", "Looked up", str), ("searched", "Searched for", str))
    found = list[Statement]()
    for kind, verb, shown in kinds:
        if own := [deed for deed in of.done if deed.kind == kind and deed.what and not deed.failed]:
            names = listed(map(shown, dict.fromkeys(deed.what for deed in own)), MOST_READ)
            found.append(Statement(f"{verb} {names}", (*of_deed(of, own[0]), *of_deed(of, own[-1]))))
    return found[:2]


def commits(of: Seen) -> list[tuple[Deed, tuple[str, str, str, str]]]:
    """Each commit that git reported: branch, hash, subject and size."""
    return [(deed, one) for deed in of.done if deed.kind == "saved" for one in check_results.commits(deed.text)]


def inside(paths: Iterable[str]) -> list[str]:
    """The paths that are of the project."""
    return [path for path in paths if not path.startswith(("/", "~", "..")) and ":" not in path]


def _closing(of: Seen) -> Statement | None:
    """The first sentence with which the last work ended that tells something."""
    if unfinished(of):
        return None
    said = sentences(phrasing.without_opener(of.turns[of.worked].said)[:4_000])
    told = [
        place
        for place, line in enumerate(said)
        if says_something(line) and not line.endswith(("?", ":")) and not _OPENS.match(line)
    ]
    place = next((place for place in told if said[place].endswith((".", "!"))), next(iter(told), -1))
    room = 2 if place >= 0 and len(said[place].split()) <= 3 else 1
    line = " ".join(said[place : place + room]) if place >= 0 else ""
    return _by_agent(of, short(line, LINE), of.exchanges[of.worked : of.worked + 1]) if " " in line else None


def unfinished(of: Seen) -> bool:
    """Whether the session ends with a request or a call, and not with the agent's words."""
    last = of.exchanges[-1].steps[-1:] if of.exchanges else ()
    return bool(of.exchanges) and (not last or last[0].kind in ("call", "result"))


def _cut_off(of: Seen) -> list[Statement]:
    """The request that was under way when the session ended."""
    asked = of.exchanges[-1].asked if of.exchanges and unfinished(of) else None
    line = phrasing.first_sentence(asked.text, LINE) if asked else ""
    if not asked or not line:
        return []
    if _PICKS.fullmatch(line):  # which one it was, the agent says
        said = [phrasing.first_sentence(step.text, LINE) for step in of.exchanges[-1].steps if step.kind == "agent"]
        made = _by_agent(of, said[-1], of.exchanges[-1:]) if said else None
        return [Statement(f"Under way when the session ended: {made.text}", made.evidence)] if made else []
    state = "was under way when the session ended" if of.exchanges[-1].steps else "was asked last and not answered"
    return [Statement(f"“{line}” {state}", of_step(of, asked, line))]


def _by_agent(of: Seen, line: str, where: Sequence[Exchange]) -> Statement | None:
    """Words of the agent, where it said them."""
    start = plain(line).rstrip(" …")[:40]
    for exchange in reversed(where):
        for step in reversed(exchange.steps):
            if step.kind == "agent" and start in " ".join(lines_of(step.text)):
                return Statement(line, of_step(of, step, line))
    return None


def _passed(of: Seen, deed: Deed) -> Statement:
    said = deed.tally.said if deed.tally else ""
    return Statement(f"`{short(deed.what, 80)}` passes" + (f": {said}" if said else ""), of_deed(of, deed, said))


def causes(of: Seen) -> list[Statement]:
    """Sentences of the agent that give a cause."""
    found = [
        Statement(short(line, LINE), of_step(of, step, line))
        for exchange in of.exchanges
        for step in exchange.steps
        if step.kind == "agent" and _CAUSE.search(step.text)
        for line in sentences(step.text[:8_000])
        if _CAUSE.search(line) and says_something(line) and not line.endswith("?") and len(line.split()) >= _SAYS_WHY
    ]
    return distinct(found)[-MOST_CAUSES:]


def decisions(of: Seen) -> list[Statement]:
    """What the person settled, in their words or by answering or refusing, and what the agent says was decided."""
    found = list[Statement]()
    for exchange, turn in zip(of.exchanges, of.turns, strict=True):
        if exchange.asked:
            found += [
                Statement(f"You: “{short(line, LINE)}”", of_step(of, exchange.asked, line))
                for line in sentences(exchange.asked.text[:3_000])
                if _SETTLES.search(line[:_NEAR]) and not line.endswith("?") and len(line) <= 2 * LINE
            ][:2]
        for step in exchange.steps:
            found += _settled(of, step)
        if line := phrasing.decision(turn.said):
            made = _by_agent(of, short(line, LINE), [exchange])
            found += [made] if made else []
    return distinct(found)[-MOST_DECISIONS:]


def _settled(of: Seen, step: Step) -> Iterator[Statement]:
    """An answer to a question of the agent's, or the words with which a call was refused."""
    if step.kind == "result" and step.refused.strip() and not step.refused.rstrip().endswith("?"):
        yield Statement(f"You refused a call: “{short(step.refused, LINE)}”", of_step(of, step, step.refused))
    elif step.kind == "result" and "answered your question" in step.text[:200]:
        for question, answer in _ANSWERED.findall(step.text)[:3]:
            yield Statement(f"{short(question, 140)} You: “{short(answer, 120)}”", of_step(of, step, answer))


def failures(of: Seen) -> list[Statement]:
    """What failed and what put it right, then what was given up."""
    merged = dict[str, list[Mend]]()
    for mend in of.mends:
        if mend.worked and not _is_retry(mend) and not _INLINE.search(mend.failing[0].what):
            merged.setdefault(mend.failing[0].what, []).append(mend)
    groups = sorted(merged.values(), key=lambda group: -sum(len(mend.failing) for mend in group))[:MOST_FAILED]
    return [_mended(of, group) for group in sorted(groups, key=lambda group: group[0].failing[0].call.at)]


def _is_retry(mend: Mend) -> bool:
    """Whether the same command worked the next time, unchanged: nothing was ruled out."""
    last = mend.failing[-1]
    return mend.worked is not None and not mend.edited and mend.worked.call.input == last.call.input


def _mended(of: Seen, group: Sequence[Mend]) -> Statement:
    failing, worked = group[0].failing[0], group[-1].worked
    assert worked, "only what was put right comes here"
    reason = _reason(failing)
    paths = phrasing.files_modified([deed for mend in group for deed in mend.edited])
    count = sum(len(mend.failing) for mend in group)
    mended = (
        f"; passed after editing {listed(map(phrasing.path_shown, paths), 3)}"
        if paths
        else f"; `{short(worked.what, 90)}` worked"
        if worked.what != failing.what
        else "; then it worked"
    )
    text = f"`{short(failing.what, 90)}` failed{times(count)}" + (f": {short(reason, 160)}" if reason else "") + mended
    return Statement(
        text, (*of_deed(of, failing, check_results.error_line(failing.text, shell=True)), *of_deed(of, worked))
    )


def _reason(failing: Deed) -> str:
    said = why(failing)
    return "" if _FRAME.match(said) else said


def open_ends(of: Seen) -> list[Statement]:
    """Checks that fail still, what is on the agent's list or was said to remain, and changes without a commit."""
    left = standing(mends(of.recent), of.recent)
    fails = [deed for one in left for deed in one.failing[-1:] if not _moved_on(of, deed)][-3:]
    found = _cut_off(of) + [
        Statement(
            f"`{short(deed.what, 90)}` fails" + (f": {short(reason, 160)}" if reason else ""), of_deed(of, deed, reason)
        )
        for deed in fails
        for reason in [_reason(deed)]
    ]
    for line, where in ((line, where) for line, where in _said_open(of) if not _IS_DONE.search(line)):
        made = _by_agent(of, line, where)
        asks = made and line.endswith("?")
        found += [Statement(f"The agent asked: “{line}”", made.evidence) if asks else made] if made else []
    found += _uncommitted(of)
    return distinct(found)[:MOST_OPEN]


def _said_open(of: Seen) -> Iterator[tuple[str, Sequence[Exchange]]]:
    """What was said to remain with the last words, and if nothing was done since, when the last work ended."""
    yield from ((line, of.exchanges[-1:]) for line in of.summary.next_steps.split("\n") if line)
    if of.worked < len(of.turns) - 1:
        before = summarise(of.turns[of.worked : of.worked + 1], ())
        yield from ((line, of.exchanges[of.worked : of.worked + 1]) for line in before.next_steps.split("\n") if line)


def _moved_on(of: Seen, failing: Deed) -> bool:
    """Whether another check passed later and the work was committed then: this one failed for itself."""
    keys = [deed.call.key for deed in of.done]
    later = of.done[keys.index(failing.call.key) + 1 :]
    passed = any(deed.kind == "check" and not deed.failed for deed in later)
    return passed and any(deed.kind == "saved" and check_results.commits(deed.text) for deed in later)


def _uncommitted(of: Seen) -> list[Statement]:
    """Files that were changed after the last commit, in a session that commits."""
    places = [place for place, deed in enumerate(of.done) if deed.kind == "saved" and check_results.commits(deed.text)]
    after = [deed for deed in of.done[places[-1] + 1 :] if deed.kind == "changed" and not deed.failed] if places else []
    paths = inside(phrasing.files_modified(after))
    if not paths:
        return []
    shown = listed(paths, MOST_FILES)
    return [Statement(f"Changed after the last commit: {shown}", of_deed(of, after[-1]))]


def distinct(found: Sequence[Statement]) -> list[Statement]:
    """Without what was said already in nearly the same words, as a statement or in quotes."""
    kept, known = list[Statement](), list[frozenset[str]]()
    for one in found:
        quoted = _QUOTES_ONE.fullmatch(one.text)
        words = tokens(quoted[1] if quoted else one.text)
        if all(jaccard(words, other) < _SAME for other in known):
            kept.append(one)
            known.append(words)
    return kept
