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
from hardwon.distil.tool_actions import classify_calls
from hardwon.handoff import draft_statements
from hardwon.handoff import transcript_story as telltale
from hardwon.handoff.draft_statements import SessionFacts, Statement
from hardwon.handoff.findings_about_person import find_fatigue_window
from hardwon.handoff.lasting_statements import find_lasting_statements
from hardwon.handoff.transcript_story import Story
from hardwon.mining.episodes import Episode, find_episodes
from hardwon.store.reflection_types import Evidence, Finding, SuggestedMemory
from hardwon.text.excerpts import join_names, shorten_line, to_plain_line
from hardwon.text.similarity import find_negated_words, is_same_statement, tokenize

PLAIN = "plain"
MIN_FINDINGS, MAX_FINDINGS, TELLING_SCORE, MIN_SCORE = 2, 4, 0.5, 0.25
MAX_WORKSTREAMS, MAX_LESSONS, MAX_SOURCE_LINES, MAX_RESUME_FILES = 5, 2, 3, 4
MIN_LESSON_SCORE = 0.5  # the score from which on a correction is worth a line here; a scan proposes more
MAX_TOPIC_CHARS = 90
FAILED_HEADING, OPEN_HEADING = "What failed and was ruled out", "Open ends"
FAILED_EXPERIMENTS_ITEM, NOT_DONE_ITEM = "failed experiments", "not done"  # items of the menu that belong in a section
MIN_CONTAINED_WORDS, MIN_CONTAINED_SHARE = (
    5,
    0.9,
)  # of the shorter's words, if it has as many, from which on two memories are one
CONFIDENCE_NAMES = {"H": "high", "M": "middling", "L": "low"}
_STREAM = re.compile(r"(?:^|/)(?:workstreams?|plans|phases)/([\w.-]{1,80})", re.I)
_SEEN = 60  # characters, in which a way that fails must differ from the one that works
_GENERIC = "src lib libs app apps packages internal pkg cmd tests test docs crates modules"
_HOLDS_CODE = frozenset(_GENERIC.split())
_LEADING = re.compile(r"^(?:https?://\S+\s+|(?:ok(?:ay)?|and|so|now|hey \w+)\b[,!]?\s+)+", re.I)
_FOLDER_OF_ONE = re.compile(r"(?:\b[A-Z]:)?/(?:Users|home)/[^/\s\"'`]+(?=/)")
_NO_LESSON = re.compile(r"requires? approval|permission to use|was refused:.*\?$", re.I)
_TRUNKS = frozenset(("main", "master", "trunk", "develop", "dev", "next", "HEAD", "detached"))


class SuggestedLesson(NamedTuple):
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
    touched_workstreams: tuple[str, ...]
    fatigue_window: str
    summary: tuple[Statement, ...]
    decisions: tuple[Statement, ...]
    failed: tuple[Statement, ...]
    open: tuple[Statement, ...]
    resume: tuple[Statement, ...]
    confidence: str
    because: str
    findings: tuple[Finding, ...] = ()
    memories: tuple[SuggestedMemory, ...] = ()
    lessons: tuple[SuggestedLesson, ...] = ()
    made: str = PLAIN


def build_draft(
    story: Story,
    findings: Sequence[Finding] = (),
    memories: Sequence[SuggestedMemory] = (),
    time_zone: tzinfo | None = None,
) -> Draft:
    """What plain code has to say of a session; `zone` is where the person is, by default where the machine is."""
    of = draft_statements.gather_facts(story)
    asked, came_to = draft_statements.list_requests(of), draft_statements.list_outcomes(of)
    open_ends = draft_statements.drop_near_duplicates(
        [*draft_statements.list_open_ends(of), *_noticed(findings, NOT_DONE_ITEM)]
    )[: draft_statements.MAX_OPEN_ENDS]
    streams = find_workstreams(phrasing.list_files_modified(of.actions), _branch(of))
    confidence, because = _confidence(of, open_ends)
    return Draft(
        story=story,
        topic=_topic(of),
        workstream=streams[0] if streams else "",
        touched_workstreams=tuple(streams[:MAX_WORKSTREAMS]),
        fatigue_window=find_fatigue_window(story, time_zone),
        summary=tuple(draft_statements.drop_near_duplicates([*asked, *came_to, *draft_statements.list_causes(of)])),
        decisions=tuple(draft_statements.list_decisions(of)),
        failed=tuple(
            draft_statements.drop_near_duplicates(
                [*draft_statements.list_failures(of), *_noticed(findings, FAILED_EXPERIMENTS_ITEM)]
            )
        ),
        open=tuple(open_ends),
        resume=tuple(_resume(of, asked, open_ends)),
        confidence=confidence,
        because=because,
        findings=tuple(select_findings(findings)),
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


def _topic(of: SessionFacts) -> str:
    """The first thing that was asked; if that tells nothing, what was committed, or what it came to."""
    asked = next((one.text.partition(": ")[2] for one in draft_statements.list_requests(of)), "")
    told = _LEADING.sub("", asked)
    subjects = phrasing.list_commit_subjects(of.actions)
    said = next((one.text for one in draft_statements.list_outcomes(of)), "")
    if told and not draft_statements.is_trivial_request(told):
        return shorten_line(told, MAX_TOPIC_CHARS)
    return shorten_line(
        (subjects[-1] if subjects else "") or said or asked or "A session without a request", MAX_TOPIC_CHARS
    )


def _branch(of: SessionFacts) -> str:
    """The branch of the last commit, unless everything is done on it."""
    branch = next((branch for _, (branch, *_) in reversed(draft_statements.list_commits(of))), "")
    return "" if branch in _TRUNKS else branch


def find_workstreams(paths: Iterable[str], branch: str = "") -> list[str]:
    """The streams of work that files belong to: those that are named, the branch, then the busiest areas."""
    inside = draft_statements.select_project_paths(paths)
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


def _resume(of: SessionFacts, asked: Sequence[Statement], open_ends: Sequence[Statement]) -> list[Statement]:
    """What to say to the next session: what it is about, where it stands, what comes first, what to look at."""
    last = [(one.text.partition(": ")[2], one) for one in asked[-1:] if not draft_statements.is_unfinished(of)]
    found = [Statement(f"Last asked: {line}", one.evidence) for line, one in last]
    if saved := draft_statements.list_commits(of):
        deed, (branch, name, subject, _) = saved[-1]
        found.append(
            Statement(
                f"The last commit is {name} on {branch}: “{shorten_line(subject, 90)}”",
                draft_statements.cite_action(of, deed, name),
            )
        )
    found += [
        Statement(f"{'First' if not place else 'Then'}: {one.text}", one.evidence)
        for place, one in enumerate(open_ends[:3])
    ]
    edits = [deed for deed in of.recent_actions if deed.kind == "changed" and not deed.failed and deed.paths]
    if edits:
        paths = draft_statements.select_project_paths(phrasing.list_files_modified(reversed(edits)))[:MAX_RESUME_FILES]
        found += (
            [Statement(f"Look at {join_names(paths, 4)}", draft_statements.cite_action(of, edits[-1]))] if paths else []
        )
    return found


def _confidence(of: SessionFacts, open_ends: Sequence[Statement]) -> tuple[str, str]:
    """How far the next step is known: by what is open, and by whether a check or a commit shows where things stand."""
    last = next((deed for deed in reversed(of.actions) if deed.kind == "check"), None)
    saved = any(deed.kind == "saved" and not deed.failed for deed in of.recent_actions)
    if draft_statements.is_unfinished(of) and any(deed.kind == "check" for deed in classify_calls(of.turns[-1])):
        return "M", "the session was cut off, but the last check shows where things stand"
    if draft_statements.is_unfinished(of):
        return "L", "the session ended before the last request was answered"
    if open_ends and (last or saved):
        return "H", "what is open was said or seen, and a check or commit shows where things stand"
    if open_ends:
        return "M", "what is open was said, but no check or commit shows where things stand"
    if (last and not last.failed) or saved:
        return "M", "what was asked seems done; nothing says what comes next"
    return "L", "nothing says what comes next, and no check or commit shows where things stand"


def select_findings(findings: Iterable[Finding]) -> list[Finding]:
    """Two to four of what comes best first, each item of the menu once; what says little only to make it two, and what
    people keep dropping not at all."""
    best = dict[str, Finding]()
    for one in findings:
        if one.score >= MIN_SCORE:
            best.setdefault(one.item, one)
    ranked = list(best.values())
    return [
        one for place, one in enumerate(ranked[:MAX_FINDINGS]) if one.score >= TELLING_SCORE or place < MIN_FINDINGS
    ]


def find_stated_memories(story: Story) -> Iterator[SuggestedMemory]:
    """What a person said that later sessions should know, by the turn in which they said it."""
    for number, one in enumerate(telltale.split_exchanges(story), 1):
        if one.prompt:
            for type, text in find_lasting_statements(one.prompt.text):
                yield SuggestedMemory(type, text, (telltale.quote_step(story, one.prompt, text),), number)


def drop_known_memories(memories: Iterable[SuggestedMemory], known: Iterable[str]) -> list[SuggestedMemory]:
    """Each memory once, without those that are known already in nearly the same words, or among others."""
    told, kept = list(known), list[SuggestedMemory]()
    for one in memories:
        if tokenize(one.text) and not any(
            is_same_statement(one.text, other) or _is_within(one.text, other) for other in told
        ):
            kept.append(one)
            told.append(one.text)
    return kept


def _is_within(one: str, other: str) -> bool:
    """Whether the longer says all of the shorter, and speaks against none of it that the shorter speaks for."""
    own, its = tokenize(one), tokenize(other)
    least, shared = min(len(own), len(its)), own & its
    return (
        least >= MIN_CONTAINED_WORDS
        and len(shared) >= MIN_CONTAINED_SHARE * least
        and not shared & (find_negated_words(one) ^ find_negated_words(other))
    )


def _lessons(story: Story) -> list[SuggestedLesson]:
    """The corrections in the session that a scan would propose."""
    found = sorted(
        (one for one in find_episodes(story.steps) if one.score >= MIN_LESSON_SCORE), key=lambda one: -one.score
    )
    made = [_lesson(story, one) for one in found]
    return [
        one
        for one in made
        if one.problem[:_SEEN] not in one.solution and one.solution[:_SEEN] not in one.problem
        if not _NO_LESSON.search(one.problem) and not one.solution.endswith("?")
    ][:MAX_LESSONS]


def _lesson(story: Story, one: Episode) -> SuggestedLesson:
    steps = {step.line: draft_statements.find_starting_call(story, step) for step in story.steps}
    shown = tuple(
        telltale.quote_step(story, steps[each.line], each.quote) for each in one.evidence if each.line in steps
    )
    return SuggestedLesson(
        shorten_line(one.problem, 160), shorten_line(one.solution.lstrip("-* "), 160), round(one.score, 2), shown
    )


def list_statements(of: Draft) -> list[Statement]:
    """All that a draft says, each with its evidence."""
    said = [*of.summary, *of.decisions, *of.failed, *of.open, *of.resume]
    said += [Statement(one.text, one.evidence) for one in of.findings]
    said += [Statement(one.text, one.evidence) for one in of.memories]
    return said + [Statement(one.problem, one.evidence) for one in of.lessons]


def render_draft(of: Draft) -> str:
    """The draft as the file that a person reads and edits; a finding that a section tells is named, not told twice."""
    told = {one.text: name for name, said in ((FAILED_HEADING, of.failed), (OPEN_HEADING, of.open)) for one in said}
    found = [(one, f"see {told[one.text]}" if one.text in told else one.text) for one in of.findings]
    sections = (
        ("Summary", _bullets(of.summary)),
        ("Decisions", _bullets(of.decisions)),
        (FAILED_HEADING, _bullets(of.failed)),
        (OPEN_HEADING, _bullets(of.open)),
        ("Resume Prompt", _prompt(of)),
        ("Findings", [f"- **{one.item}** → {one.target}: {_told(text, one.evidence)}" for one, text in found]),
        ("Memories to approve", [f"- {one.type}: {_told(one.text, one.evidence)}" for one in of.memories]),
        ("Lessons to consider", [f"- {_told(f'{one.problem} → {one.solution}', one.evidence)}" for one in of.lessons]),
    )
    body = [f"## {name}\n\n" + "\n".join(lines) for name, lines in sections if lines]
    return "\n\n".join([_front(of), anonymize_paths("\n\n".join([f"# {_safe(of.topic)}", *body]), of.story)]) + "\n"


def anonymize_paths(text: str, story: Story) -> str:
    """Paths from the project on, and without whose machine it was."""
    for folder in filter(None, (story.project, story.cwd)):
        text = text.replace(f"{folder}/", "")
    return _FOLDER_OF_ONE.sub("~", text)


def _front(of: Draft) -> str:
    story = of.story
    fields = {
        "topic": anonymize_paths(of.topic, story),
        "workstream": of.workstream,
        "workstreams_touched": list(of.touched_workstreams),
        "session": story.session,
        "host": story.agent,
        "began": clock.format_iso(story.started_at) if story.started_at else "",
        "ended": clock.format_iso(story.ended_at) if story.ended_at else "",
        "minutes": round(story.active_minutes),
        **_tokens(story),
        "fatigue_window": of.fatigue_window or False,
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
    lines = sorted({one.line for one in evidence})[:MAX_SOURCE_LINES]
    return f"{_safe(text)} ({', '.join(f'L{line}' for line in lines)})" if lines else _safe(text)


def _safe(text: str) -> str:
    """One line that is no markup for a page: tags and comments show as they are."""
    return to_plain_line(text).replace("<", "\\<") if "<" in text else to_plain_line(text)
