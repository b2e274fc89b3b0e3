"""What a draft says of a session, by plain code: each statement with the lines of the transcript that show it.

What is said here stands in the session; only the order is ours.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

from hardwon.agents.transcript_steps import Step
from hardwon.distil import check_results, phrasing
from hardwon.distil.failure_fixes import FailureFix, describe_failure, find_failure_fixes, find_standing_failures
from hardwon.distil.observations import observe_turn
from hardwon.distil.summaries import summarise_session
from hardwon.distil.tool_actions import ToolAction, classify_calls
from hardwon.handoff import transcript_story as telltale
from hardwon.handoff.transcript_story import Exchange, Story
from hardwon.store.reflection_types import Evidence
from hardwon.text.excerpts import (
    format_times,
    is_informative,
    join_names,
    list_prose_lines,
    pluralize,
    shorten_line,
    split_sentences,
    to_plain_line,
)
from hardwon.text.similarity import compute_jaccard, tokenize
from hardwon.types import Summary, Turn, frozen

MAX_LINE_CHARS = 220
POLL_TOOL = "BashOutput"
_BEGINNING = 200
MAX_REQUESTS, MAX_COMMITS, MAX_FILES, MAX_CHECKS, MAX_CAUSES, MAX_READ_FILES = 4, 5, 8, 3, 2, 5
MAX_DECISIONS, MAX_FAILURES, MAX_OPEN_ENDS = 5, 5, 6
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


@frozen
class Statement:
    """A sentence, and where the transcript shows it."""

    text: str
    evidence: tuple[Evidence, ...] = ()


@frozen
class SessionFacts:
    """A session as statements are made from it."""

    story: Story
    exchanges: tuple[Exchange, ...]
    turns: tuple[Turn, ...]
    summary: Summary
    actions: tuple[ToolAction, ...]
    recent_actions: tuple[ToolAction, ...]
    calls: Mapping[str, tuple[Step, Step | None]]
    failure_fixes: tuple[FailureFix, ...]
    last_working_exchange: int  # the exchange in which the last call was made


def gather_facts(story: Story) -> SessionFacts:
    """Everything that is told more than once, made once."""
    turns = telltale.build_turns(story)
    by_turn = [classify_calls(turn) for turn in turns]
    return SessionFacts(
        story=story,
        exchanges=telltale.split_exchanges(story),
        turns=turns,
        summary=summarise_session(turns, [one for turn in turns for one in observe_turn(turn)]),
        actions=tuple(deed for own in by_turn for deed in own),
        recent_actions=tuple(deed for own in by_turn[-_RECENT:] for deed in own),
        calls=telltale.pair_calls(story),
        failure_fixes=tuple(mend for own in by_turn for mend in find_failure_fixes(own)),
        last_working_exchange=max((place for place, own in enumerate(by_turn) if own), default=len(turns) - 1),
    )


def cite_step(of: SessionFacts, step: Step, words: str = "") -> tuple[Evidence, ...]:
    """The line of a step, quoting the one of its lines that has these words."""
    start = to_plain_line(words)[:40]
    raw = next((line for line in step.text.splitlines() if start and start in " ".join(list_prose_lines(line))), words)
    return (telltale.quote_step(of.story, step, raw),)


def cite_action(of: SessionFacts, deed: ToolAction, words: str = "") -> tuple[Evidence, ...]:
    """The line of a call's result where there are words to quote, else that of the call."""
    call, result = of.calls[deed.call.key]
    if words and result:
        line = next((one for one in result.text.splitlines() if words[:60] in to_plain_line(one)), "")
        return (telltale.quote_step(of.story, result, line),)
    call = find_starting_call(of.story, call)
    return (telltale.quote_step(of.story, call, call.command or call.path),)


def find_starting_call(story: Story, call: Step) -> Step:
    """The call that has the command in its line: a later look at how it goes has not."""
    start = call.command[:_BEGINNING]  # a reader remembers no more of a long one
    same = (step for step in story.steps if step.command.startswith(start) and step.tool != POLL_TOOL)
    return next(same, call) if call.tool == POLL_TOOL and call.command else call


def list_requests(of: SessionFacts) -> list[Statement]:
    """What was asked first, and last."""
    every = of.summary.request.split("\n") if of.summary.request else []
    asked = [(phrasing.pick_first_sentence(one.prompt.text, 180), one.prompt) for one in of.exchanges if one.prompt]
    pasted = {
        line
        for line, step in asked
        if len(step.text) <= telltale.MAX_TYPED_CHARS and not telltale.get_spoken_sentences(step)
    }
    wanted = [line for line in every if not is_trivial_request(line) and line not in pasted] or every[:1]
    chosen = [*wanted[:1], *wanted[1:][-(MAX_REQUESTS - 1) :]]
    found = [(line, step) for line in chosen for step in [_first(asked, line)] if step]
    return [
        Statement(f"{'Then asked' if place else 'Asked'}: {line.rstrip(chr(92))}", cite_step(of, step, line))
        for place, (line, step) in enumerate(found)
    ]


def is_trivial_request(asked: str) -> bool:
    """Whether a request only nods, picks one of what was offered, or is a word or two."""
    words = asked.split()
    return len(words) <= 2 or (len(words) <= 5 and bool(_NOD.match(asked) or _PICKS.fullmatch(asked)))


def _first(pairs: Sequence[tuple[str, Step]], wanted: str) -> Step | None:
    return next((step for line, step in pairs if line == wanted), None)


def list_outcomes(of: SessionFacts) -> list[Statement]:
    """What the agent said it came to, then what the calls show: commits, pull requests, files, checks that pass."""
    found = list[Statement]()
    if of.exchanges and (said := _closing(of)):
        found.append(said)
    saved = list_commits(of)
    kept = {subject: (deed, name, subject) for deed, (_, name, subject, _) in saved}  # amended, it is still one
    for deed, name, subject in list(kept.values())[-MAX_COMMITS:]:
        found.append(Statement(f"Committed {name}: “{shorten_line(subject, 100)}”", cite_action(of, deed, name)))
    if len(kept) > MAX_COMMITS:
        deed, (_, name, *_) = saved[0]
        found.append(
            Statement(f"{pluralize(len(kept) - MAX_COMMITS, 'commit')} before these", cite_action(of, deed, name))
        )
    pulls = {
        pull: deed
        for deed in of.actions
        if deed.kind == "saved" and (pull := check_results.find_pull_request(deed.text))
    }
    found += [Statement(f"Pull request {pull}", cite_action(of, deed, pull)) for pull, deed in pulls.items()][-2:]
    if edits := [deed for deed in of.actions if deed.kind != "read" and deed.paths and not deed.failed]:
        paths = phrasing.list_files_modified(edits)
        shown = join_names(map(phrasing.shorten_path, paths), MAX_FILES)
        found.append(Statement(f"Changed {shown}", (*cite_action(of, edits[0]), *cite_action(of, edits[-1]))))
    else:
        found += _looked(of)
    checks = {deed.label: deed for deed in of.actions if deed.kind == "check"}
    passed = [deed for deed in checks.values() if not deed.failed][-MAX_CHECKS:]
    return found + [_passed(of, deed) for deed in passed]


def _looked(of: SessionFacts) -> list[Statement]:
    """Where nothing was changed: what was read, looked up and searched for."""
    kinds = (("read", "Read", phrasing.shorten_path), ("fetched", "Looked up", str), ("searched", "Searched for", str))
    found = list[Statement]()
    for kind, verb, shown in kinds:
        if own := [deed for deed in of.actions if deed.kind == kind and deed.label and not deed.failed]:
            names = join_names(map(shown, dict.fromkeys(deed.label for deed in own)), MAX_READ_FILES)
            found.append(Statement(f"{verb} {names}", (*cite_action(of, own[0]), *cite_action(of, own[-1]))))
    return found[:2]


def list_commits(of: SessionFacts) -> list[tuple[ToolAction, tuple[str, str, str, str]]]:
    """Each commit that git reported: branch, hash, subject and size."""
    return [
        (deed, one) for deed in of.actions if deed.kind == "saved" for one in check_results.parse_commits(deed.text)
    ]


def select_project_paths(paths: Iterable[str]) -> list[str]:
    """The paths that are of the project."""
    return [path for path in paths if not path.startswith(("/", "~", "..")) and ":" not in path]


def _closing(of: SessionFacts) -> Statement | None:
    """The first sentence with which the last work ended that tells something."""
    if is_unfinished(of):
        return None
    said = split_sentences(phrasing.strip_opener(of.turns[of.last_working_exchange].final_message)[:4_000])
    told = [
        place
        for place, line in enumerate(said)
        if is_informative(line) and not line.endswith(("?", ":")) and not _OPENS.match(line)
    ]
    place = next((place for place in told if said[place].endswith((".", "!"))), next(iter(told), -1))
    room = 2 if place >= 0 and len(said[place].split()) <= 3 else 1
    line = " ".join(said[place : place + room]) if place >= 0 else ""
    return (
        _by_agent(
            of,
            shorten_line(line, MAX_LINE_CHARS),
            of.exchanges[of.last_working_exchange : of.last_working_exchange + 1],
        )
        if " " in line
        else None
    )


def is_unfinished(of: SessionFacts) -> bool:
    """Whether the session ends with a request or a call, and not with the agent's words."""
    last = of.exchanges[-1].steps[-1:] if of.exchanges else ()
    return bool(of.exchanges) and (not last or last[0].kind in ("call", "result"))


def _cut_off(of: SessionFacts) -> list[Statement]:
    """The request that was under way when the session ended."""
    asked = of.exchanges[-1].prompt if of.exchanges and is_unfinished(of) else None
    line = phrasing.pick_first_sentence(asked.text, MAX_LINE_CHARS) if asked else ""
    if not asked or not line:
        return []
    if _PICKS.fullmatch(line):  # which one it was, the agent says
        said = [
            phrasing.pick_first_sentence(step.text, MAX_LINE_CHARS)
            for step in of.exchanges[-1].steps
            if step.kind == "agent"
        ]
        made = _by_agent(of, said[-1], of.exchanges[-1:]) if said else None
        return [Statement(f"Under way when the session ended: {made.text}", made.evidence)] if made else []
    state = "was under way when the session ended" if of.exchanges[-1].steps else "was asked last and not answered"
    return [Statement(f"“{line}” {state}", cite_step(of, asked, line))]


def _by_agent(of: SessionFacts, line: str, where: Sequence[Exchange]) -> Statement | None:
    """Words of the agent, where it said them."""
    start = to_plain_line(line).rstrip(" …")[:40]
    for exchange in reversed(where):
        for step in reversed(exchange.steps):
            if step.kind == "agent" and start in " ".join(list_prose_lines(step.text)):
                return Statement(line, cite_step(of, step, line))
    return None


def _passed(of: SessionFacts, deed: ToolAction) -> Statement:
    said = deed.tally.text if deed.tally else ""
    return Statement(
        f"`{shorten_line(deed.label, 80)}` passes" + (f": {said}" if said else ""), cite_action(of, deed, said)
    )


def list_causes(of: SessionFacts) -> list[Statement]:
    """Sentences of the agent that give a cause."""
    found = [
        Statement(shorten_line(line, MAX_LINE_CHARS), cite_step(of, step, line))
        for exchange in of.exchanges
        for step in exchange.steps
        if step.kind == "agent" and _CAUSE.search(step.text)
        for line in split_sentences(step.text[:8_000])
        if _CAUSE.search(line) and is_informative(line) and not line.endswith("?") and len(line.split()) >= _SAYS_WHY
    ]
    return drop_near_duplicates(found)[-MAX_CAUSES:]


def list_decisions(of: SessionFacts) -> list[Statement]:
    """What the person settled, in their words or by answering or refusing, and what the agent says was decided."""
    found = list[Statement]()
    for exchange, turn in zip(of.exchanges, of.turns, strict=True):
        if exchange.prompt:
            found += [
                Statement(f"You: “{shorten_line(line, MAX_LINE_CHARS)}”", cite_step(of, exchange.prompt, line))
                for line in split_sentences(exchange.prompt.text[:3_000])
                if _SETTLES.search(line[:_NEAR]) and not line.endswith("?") and len(line) <= 2 * MAX_LINE_CHARS
            ][:2]
        for step in exchange.steps:
            found += _settled(of, step)
        if line := phrasing.find_decision(turn.final_message):
            made = _by_agent(of, shorten_line(line, MAX_LINE_CHARS), [exchange])
            found += [made] if made else []
    return drop_near_duplicates(found)[-MAX_DECISIONS:]


def _settled(of: SessionFacts, step: Step) -> Iterator[Statement]:
    """An answer to a question of the agent's, or the words with which a call was refused."""
    if step.kind == "result" and step.refused.strip() and not step.refused.rstrip().endswith("?"):
        yield Statement(
            f"You refused a call: “{shorten_line(step.refused, MAX_LINE_CHARS)}”", cite_step(of, step, step.refused)
        )
    elif step.kind == "result" and "answered your question" in step.text[:200]:
        for question, answer in _ANSWERED.findall(step.text)[:3]:
            yield Statement(
                f"{shorten_line(question, 140)} You: “{shorten_line(answer, 120)}”", cite_step(of, step, answer)
            )


def list_failures(of: SessionFacts) -> list[Statement]:
    """What failed and what put it right, then what was given up."""
    merged = dict[str, list[FailureFix]]()
    for mend in of.failure_fixes:
        if mend.worked and not _is_retry(mend) and not _INLINE.search(mend.failed_actions[0].label):
            merged.setdefault(mend.failed_actions[0].label, []).append(mend)
    groups = sorted(merged.values(), key=lambda group: -sum(len(mend.failed_actions) for mend in group))[:MAX_FAILURES]
    return [_mended(of, group) for group in sorted(groups, key=lambda group: group[0].failed_actions[0].call.at)]


def _is_retry(mend: FailureFix) -> bool:
    """Whether the same command worked the next time, unchanged: nothing was ruled out."""
    last = mend.failed_actions[-1]
    return mend.worked is not None and not mend.edits and mend.worked.call.input == last.call.input


def _mended(of: SessionFacts, group: Sequence[FailureFix]) -> Statement:
    failing, worked = group[0].failed_actions[0], group[-1].worked
    assert worked, "only what was put right comes here"
    reason = _reason(failing)
    paths = phrasing.list_files_modified([deed for mend in group for deed in mend.edits])
    count = sum(len(mend.failed_actions) for mend in group)
    mended = (
        f"; passed after editing {join_names(map(phrasing.shorten_path, paths), 3)}"
        if paths
        else f"; `{shorten_line(worked.label, 90)}` worked"
        if worked.label != failing.label
        else "; then it worked"
    )
    text = (
        f"`{shorten_line(failing.label, 90)}` failed{format_times(count)}"
        + (f": {shorten_line(reason, 160)}" if reason else "")
        + mended
    )
    return Statement(
        text,
        (
            *cite_action(of, failing, check_results.find_error_line(failing.text, is_shell=True)),
            *cite_action(of, worked),
        ),
    )


def _reason(failing: ToolAction) -> str:
    said = describe_failure(failing)
    return "" if _FRAME.match(said) else said


def list_open_ends(of: SessionFacts) -> list[Statement]:
    """Checks that fail still, what is on the agent's list or was said to remain, and changes without a commit."""
    left = find_standing_failures(find_failure_fixes(of.recent_actions), of.recent_actions)
    fails = [deed for one in left for deed in one.failed_actions[-1:] if not _moved_on(of, deed)][-3:]
    found = _cut_off(of) + [
        Statement(
            f"`{shorten_line(deed.label, 90)}` fails" + (f": {shorten_line(reason, 160)}" if reason else ""),
            cite_action(of, deed, reason),
        )
        for deed in fails
        for reason in [_reason(deed)]
    ]
    for line, where in ((line, where) for line, where in _said_open(of) if not _IS_DONE.search(line)):
        made = _by_agent(of, line, where)
        asks = made and line.endswith("?")
        found += [Statement(f"The agent asked: “{line}”", made.evidence) if asks else made] if made else []
    found += _uncommitted(of)
    return drop_near_duplicates(found)[:MAX_OPEN_ENDS]


def _said_open(of: SessionFacts) -> Iterator[tuple[str, Sequence[Exchange]]]:
    """What was said to remain with the last words, and if nothing was done since, when the last work ended."""
    yield from ((line, of.exchanges[-1:]) for line in of.summary.next_steps.split("\n") if line)
    if of.last_working_exchange < len(of.turns) - 1:
        before = summarise_session(of.turns[of.last_working_exchange : of.last_working_exchange + 1], ())
        yield from (
            (line, of.exchanges[of.last_working_exchange : of.last_working_exchange + 1])
            for line in before.next_steps.split("\n")
            if line
        )


def _moved_on(of: SessionFacts, failing: ToolAction) -> bool:
    """Whether another check passed later and the work was committed then: this one failed for itself."""
    keys = [deed.call.key for deed in of.actions]
    later = of.actions[keys.index(failing.call.key) + 1 :]
    passed = any(deed.kind == "check" and not deed.failed for deed in later)
    return passed and any(deed.kind == "saved" and check_results.parse_commits(deed.text) for deed in later)


def _uncommitted(of: SessionFacts) -> list[Statement]:
    """Files that were changed after the last commit, in a session that commits."""
    places = [
        place
        for place, deed in enumerate(of.actions)
        if deed.kind == "saved" and check_results.parse_commits(deed.text)
    ]
    after = (
        [deed for deed in of.actions[places[-1] + 1 :] if deed.kind == "changed" and not deed.failed] if places else []
    )
    paths = select_project_paths(phrasing.list_files_modified(after))
    if not paths:
        return []
    shown = join_names(paths, MAX_FILES)
    return [Statement(f"Changed after the last commit: {shown}", cite_action(of, after[-1]))]


def drop_near_duplicates(found: Sequence[Statement]) -> list[Statement]:
    """Without what was said already in nearly the same words, as a statement or in quotes."""
    kept, known = list[Statement](), list[frozenset[str]]()
    for one in found:
        quoted = _QUOTES_ONE.fullmatch(one.text)
        words = tokenize(quoted[1] if quoted else one.text)
        if all(compute_jaccard(words, other) < _SAME for other in known):
            kept.append(one)
            known.append(words)
    return kept
