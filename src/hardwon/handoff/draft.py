"""The draft of a handoff: what a session came to, for whoever goes on, written to be read in a minute.

Every statement ends with the lines of the transcript that show it; a section with nothing to say is not there.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from datetime import tzinfo
from typing import NamedTuple

from hardwon import clock
from hardwon.distil import phrasing
from hardwon.distil.tool_actions import deeds
from hardwon.handoff import draft_statements
from hardwon.handoff import transcript_story as telltale
from hardwon.handoff.draft_statements import Seen, Statement
from hardwon.handoff.findings_about_person import fatigue_window
from hardwon.handoff.lasting_statements import remembered
from hardwon.handoff.transcript_story import Story
from hardwon.mining.episodes import Episode, episodes
from hardwon.store.reflection_types import Evidence, Finding, Remembered
from hardwon.text.excerpts import listed, plain, short
from hardwon.text.similarity import denied, is_same, tokens

PLAIN = "plain"
LEAST_FINDINGS, MOST_FINDINGS, TELLING, DROPPED = 2, 4, 0.5, 0.25
MOST_TOUCHED, MOST_LESSONS, MOST_LINES, MOST_LOOKED_AT = 5, 2, 3, 4
SURE = 0.5  # the score from which on a correction is worth a line here; a scan proposes more
TOPIC = 90
FAILED, OPEN = "What failed and was ruled out", "Open ends"
TRIED, LEFT = "failed experiments", "not done"  # items of the menu that belong in a section
WITHIN, SAME_WITHIN = 5, 0.9  # of the shorter's words, if it has as many, from which on two memories are one
CONFIDENCE = {"H": "high", "M": "middling", "L": "low"}
_STREAM = re.compile(r"(?:^|/)(?:workstreams?|plans|phases)/([\w.-]{1,80})", re.I)
_SEEN = 60  # characters, in which a way that fails must differ from the one that works
_GENERIC = "src lib libs app apps packages internal pkg cmd tests test docs crates modules"
_HOLDS_CODE = frozenset(_GENERIC.split())
_LEADING = re.compile(r"^(?:https?://\S+\s+|(?:ok(?:ay)?|and|so|now|hey \w+)\b[,!]?\s+)+", re.I)
_FOLDER_OF_ONE = re.compile(r"(?:\b[A-Z]:)?/(?:Users|home)/[^/\s\"'`]+(?=/)")
_NO_LESSON = re.compile(r"requires? approval|permission to use|was refused:.*\?$", re.I)
_TRUNKS = frozenset(("main", "master", "trunk", "develop", "dev", "next", "HEAD", "detached"))


class Correction(NamedTuple):
    """What another session would be spared by knowing."""

    problem: str
    solution: str
    score: float
    evidence: tuple[Evidence, ...]


class Draft(NamedTuple):
    """A handoff that nobody has read yet; `made` says by whom."""

    story: Story
    topic: str
    workstream: str
    touched: tuple[str, ...]
    fatigue: str
    summary: tuple[Statement, ...]
    decisions: tuple[Statement, ...]
    failed: tuple[Statement, ...]
    open: tuple[Statement, ...]
    resume: tuple[Statement, ...]
    confidence: str
    because: str
    findings: tuple[Finding, ...] = ()
    memories: tuple[Remembered, ...] = ()
    lessons: tuple[Correction, ...] = ()
    made: str = PLAIN


def draft(
    story: Story, findings: Sequence[Finding] = (), memories: Sequence[Remembered] = (), zone: tzinfo | None = None
) -> Draft:
    """What plain code has to say of a session; `zone` is where the person is, by default where the machine is."""
    of = draft_statements.seen(story)
    asked, came_to = draft_statements.requests(of), draft_statements.outcome(of)
    open_ends = draft_statements.distinct([*draft_statements.open_ends(of), *_noticed(findings, LEFT)])[
        : draft_statements.MOST_OPEN
    ]
    streams = workstreams(phrasing.files_modified(of.done), _branch(of))
    confidence, because = _confidence(of, open_ends)
    return Draft(
        story=story,
        topic=_topic(of),
        workstream=streams[0] if streams else "",
        touched=tuple(streams[:MOST_TOUCHED]),
        fatigue=fatigue_window(story, zone),
        summary=tuple(draft_statements.distinct([*asked, *came_to, *draft_statements.causes(of)])),
        decisions=tuple(draft_statements.decisions(of)),
        failed=tuple(draft_statements.distinct([*draft_statements.failures(of), *_noticed(findings, TRIED)])),
        open=tuple(open_ends),
        resume=tuple(_resume(of, asked, open_ends)),
        confidence=confidence,
        because=because,
        findings=tuple(most_telling(findings)),
        memories=tuple(memories),
        lessons=tuple(_lessons(story)),
    )


def next_step(draft: Draft) -> str:
    """Return what comes first in the next session, or nothing if that is not known."""
    # A model names it in its resume prompt, and need not list anything as open beside that.
    named = draft.open or (draft.resume if draft.made != PLAIN else ())
    return named[0].text if named else ""


def _noticed(findings: Iterable[Finding], item: str) -> list[Statement]:
    return [Statement(one.text, one.evidence) for one in findings if one.item == item]


def _topic(of: Seen) -> str:
    """The first thing that was asked; if that tells nothing, what was committed, or what it came to."""
    asked = next((one.text.partition(": ")[2] for one in draft_statements.requests(of)), "")
    told = _LEADING.sub("", asked)
    subjects = phrasing.subjects(of.done)
    said = next((one.text for one in draft_statements.outcome(of)), "")
    if told and not draft_statements.says_little(told):
        return short(told, TOPIC)
    return short((subjects[-1] if subjects else "") or said or asked or "A session without a request", TOPIC)


def _branch(of: Seen) -> str:
    """The branch of the last commit, unless everything is done on it."""
    branch = next((branch for _, (branch, *_) in reversed(draft_statements.commits(of))), "")
    return "" if branch in _TRUNKS else branch


def workstreams(paths: Iterable[str], branch: str = "") -> list[str]:
    """The streams of work that files belong to: those that are named, the branch, then the busiest areas."""
    inside = draft_statements.inside(paths)
    named = Counter(found[1].removesuffix(".md") for path in inside if (found := _STREAM.search(path)))
    areas = Counter(area for path in inside if (area := _area(path)) and not _STREAM.search(path))
    return [
        *(name for name, _ in named.most_common()),
        *([branch] if branch else []),
        *(name for name, _ in areas.most_common()),
    ]


def _area(path: str) -> str:
    folders = [part for part in path.split("/")[:-1] if part not in _HOLDS_CODE and not part.startswith(".")]
    return "/".join(folders[:2])


def _resume(of: Seen, asked: Sequence[Statement], open_ends: Sequence[Statement]) -> list[Statement]:
    """What to say to the next session: what it is about, where it stands, what comes first, what to look at."""
    last = [(one.text.partition(": ")[2], one) for one in asked[-1:] if not draft_statements.unfinished(of)]
    found = [Statement(f"Last asked: {line}", one.evidence) for line, one in last]
    if saved := draft_statements.commits(of):
        deed, (branch, name, subject, _) = saved[-1]
        found.append(
            Statement(
                f"The last commit is {name} on {branch}: “{short(subject, 90)}”",
                draft_statements.of_deed(of, deed, name),
            )
        )
    found += [
        Statement(f"{'First' if not place else 'Then'}: {one.text}", one.evidence)
        for place, one in enumerate(open_ends[:3])
    ]
    edits = [deed for deed in of.recent if deed.kind == "changed" and not deed.failed and deed.paths]
    if edits:
        paths = draft_statements.inside(phrasing.files_modified(reversed(edits)))[:MOST_LOOKED_AT]
        found += [Statement(f"Look at {listed(paths, 4)}", draft_statements.of_deed(of, edits[-1]))] if paths else []
    return found


def _confidence(of: Seen, open_ends: Sequence[Statement]) -> tuple[str, str]:
    """How far the next step is known: by what is open, and by whether a check or a commit shows where things stand."""
    last = next((deed for deed in reversed(of.done) if deed.kind == "check"), None)
    saved = any(deed.kind == "saved" and not deed.failed for deed in of.recent)
    if draft_statements.unfinished(of) and any(deed.kind == "check" for deed in deeds(of.turns[-1])):
        return "M", "the session was cut off, but the last check shows where things stand"
    if draft_statements.unfinished(of):
        return "L", "the session ended before the last request was answered"
    if open_ends and (last or saved):
        return "H", "what is open was said or seen, and a check or commit shows where things stand"
    if open_ends:
        return "M", "what is open was said, but no check or commit shows where things stand"
    if (last and not last.failed) or saved:
        return "M", "what was asked seems done; nothing says what comes next"
    return "L", "nothing says what comes next, and no check or commit shows where things stand"


def most_telling(findings: Iterable[Finding]) -> list[Finding]:
    """Two to four of what comes best first, each item of the menu once; what says little only to make it two, and what
    people keep dropping not at all."""
    best = dict[str, Finding]()
    for one in findings:
        if one.score >= DROPPED:
            best.setdefault(one.item, one)
    ranked = list(best.values())
    return [one for place, one in enumerate(ranked[:MOST_FINDINGS]) if one.score >= TELLING or place < LEAST_FINDINGS]


def said_to_last(story: Story) -> Iterator[Remembered]:
    """What a person said that later sessions should know, by the turn in which they said it."""
    for number, one in enumerate(telltale.exchanges(story), 1):
        if one.asked:
            for type, text in remembered(one.asked.text):
                yield Remembered(type, text, (telltale.quote(story, one.asked, text),), number)


def unknown(memories: Iterable[Remembered], known: Iterable[str]) -> list[Remembered]:
    """Each memory once, without those that are known already in nearly the same words, or among others."""
    told, kept = list(known), list[Remembered]()
    for one in memories:
        if tokens(one.text) and not any(is_same(one.text, other) or _is_within(one.text, other) for other in told):
            kept.append(one)
            told.append(one.text)
    return kept


def _is_within(one: str, other: str) -> bool:
    """Whether the longer says all of the shorter, and speaks against none of it that the shorter speaks for."""
    own, its = tokens(one), tokens(other)
    least, shared = min(len(own), len(its)), own & its
    return least >= WITHIN and len(shared) >= SAME_WITHIN * least and not shared & (denied(one) ^ denied(other))


def _lessons(story: Story) -> list[Correction]:
    """The corrections in the session that a scan would propose."""
    found = sorted((one for one in episodes(story.steps) if one.score >= SURE), key=lambda one: -one.score)
    made = [_lesson(story, one) for one in found]
    return [
        one
        for one in made
        if one.problem[:_SEEN] not in one.solution and one.solution[:_SEEN] not in one.problem
        if not _NO_LESSON.search(one.problem) and not one.solution.endswith("?")
    ][:MOST_LESSONS]


def _lesson(story: Story, one: Episode) -> Correction:
    steps = {step.line: draft_statements.begun(story, step) for step in story.steps}
    shown = tuple(telltale.quote(story, steps[each.line], each.quote) for each in one.evidence if each.line in steps)
    return Correction(short(one.problem, 160), short(one.solution.lstrip("-* "), 160), round(one.score, 2), shown)


def everything(of: Draft) -> list[Statement]:
    """All that a draft says, each with its evidence."""
    said = [*of.summary, *of.decisions, *of.failed, *of.open, *of.resume]
    said += [Statement(one.text, one.evidence) for one in of.findings]
    said += [Statement(one.text, one.evidence) for one in of.memories]
    return said + [Statement(one.problem, one.evidence) for one in of.lessons]


def markdown(of: Draft) -> str:
    """The draft as the file that a person reads and edits; a finding that a section tells is named, not told twice."""
    told = {one.text: name for name, said in ((FAILED, of.failed), (OPEN, of.open)) for one in said}
    found = [(one, f"see {told[one.text]}" if one.text in told else one.text) for one in of.findings]
    sections = (
        ("Summary", _bullets(of.summary)),
        ("Decisions", _bullets(of.decisions)),
        (FAILED, _bullets(of.failed)),
        (OPEN, _bullets(of.open)),
        ("Resume Prompt", _prompt(of)),
        ("Findings", [f"- **{one.item}** → {one.target}: {_told(text, one.evidence)}" for one, text in found]),
        ("Memories to approve", [f"- {one.type}: {_told(one.text, one.evidence)}" for one in of.memories]),
        ("Lessons to consider", [f"- {_told(f'{one.problem} → {one.solution}', one.evidence)}" for one in of.lessons]),
    )
    body = [f"## {name}\n\n" + "\n".join(lines) for name, lines in sections if lines]
    return "\n\n".join([_front(of), for_everybody("\n\n".join([f"# {_safe(of.topic)}", *body]), of.story)]) + "\n"


def for_everybody(text: str, story: Story) -> str:
    """Paths from the project on, and without whose machine it was."""
    for folder in filter(None, (story.project, story.cwd)):
        text = text.replace(f"{folder}/", "")
    return _FOLDER_OF_ONE.sub("~", text)


def _front(of: Draft) -> str:
    story = of.story
    fields = {
        "topic": for_everybody(of.topic, story),
        "workstream": of.workstream,
        "workstreams_touched": list(of.touched),
        "session": story.session,
        "host": story.host,
        "began": clock.iso(story.began) if story.began else "",
        "ended": clock.iso(story.ended) if story.ended else "",
        "minutes": round(story.minutes),
        **_tokens(story),
        "fatigue_window": of.fatigue or False,
        "confidence": of.confidence,
        "status": "draft",
        "made": of.made,
        "transcript": story.path,
    }
    lines = [
        f"{name}: {json.dumps(value, ensure_ascii=False)}"
        for name, value in fields.items()
        if value != "" or name == "workstream"
    ]
    return "\n".join(["---", *lines, "---"])


def _tokens(story: Story) -> dict[str, int]:
    """The tokens as the transcript counts them; no field where it does not, rather than a guess."""
    if story.usage is None:
        return {}
    total = story.usage.tokens_in + story.usage.tokens_out
    return {"tokens": total, "tokens_out": story.usage.tokens_out} if total else {}


def _bullets(statements: Iterable[Statement]) -> list[str]:
    return [f"- {_told(one.text, one.evidence)}" for one in statements]


def _prompt(of: Draft) -> list[str]:
    quoted = [f"> {_told(one.text, one.evidence)}  " for one in of.resume]
    return [*quoted, *([""] if quoted else []), f"Confidence: {of.confidence} ({of.because})"]


def _told(text: str, evidence: Sequence[Evidence]) -> str:
    lines = sorted({one.line for one in evidence})[:MOST_LINES]
    return f"{_safe(text)} ({', '.join(f'L{line}' for line in lines)})" if lines else _safe(text)


def _safe(text: str) -> str:
    """One line that is no markup for a page: tags and comments show as they are."""
    return plain(text).replace("<", "\\<") if "<" in text else plain(text)
