"""Build the draft handoff of a session, written to be read in a minute.

Every statement cites the transcript lines behind it. Empty sections are left out. `reflection.py` writes it to disk.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from hardwon import clock
from hardwon.distil import phrasing
from hardwon.distil.tool_actions import classify_calls
from hardwon.handoff import prompt_requests, session_facts, session_results, topic_outcomes, transcript_story
from hardwon.handoff.handoffs import (
    CONTRADICTIONS_HEADING,
    FIRST_LEAD,
    NO_TOPIC,
    OUTCOME_ARROW,
    SAID_LEAD,
    THEN_LEAD,
)
from hardwon.handoff.open_ends import MAX_OPEN_ENDS, list_open_ends, list_uncommitted_changes
from hardwon.handoff.phrases import UNPUSHED
from hardwon.handoff.session_facts import SessionFacts, Topic
from hardwon.handoff.statements import MAX_TOPIC_CHARS, Statement, drop_near_duplicates, quote_text
from hardwon.handoff.transcript_story import Story
from hardwon.memories.lasting_statements import find_lasting_statements
from hardwon.mining.episodes import Episode, find_episodes
from hardwon.shell.working_commands import is_read_only
from hardwon.store.reflections import Evidence, Finding, SuggestedMemory
from hardwon.text.excerpts import shorten_line, to_plain_line
from hardwon.text.similarity import find_negated_words, is_same_statement, tokenize

PLAIN = "plain"
MIN_FINDINGS, MAX_FINDINGS, TELLING_SCORE, MIN_SCORE = 2, 4, 0.5, 0.25
MAX_WORKSTREAMS, MAX_LESSONS, MAX_SOURCE_LINES = 5, 2, 3
MIN_LESSON_SCORE = 0.5  # minimum score of a correction listed here; a scan proposes weaker ones too
FAILED_HEADING, OPEN_HEADING = "What failed and was ruled out", "Open ends"
FAILED_EXPERIMENTS_ITEM, NOT_DONE_ITEM = "failed experiments", "not done"  # menu items that have a section of their own
# Two memories count as one if the shorter has at least this many words and shares this much of them with the longer.
MIN_CONTAINED_WORDS, MIN_CONTAINED_SHARE = 5, 0.9
CONFIDENCE_NAMES = {"H": "high", "M": "middling", "L": "low"}
_MIN_TOPIC_WORDS = 5  # a request with fewer topic words says little without its context
_MIN_OUTCOME_CHARS = 40
_SECOND_TOPIC_SHARE = 0.4  # name a second topic if it has at least this share of the main topic's weight
# A file below one of these folders names its workstream: plans/billing/notes.md.
_WORKSTREAM_PATH = re.compile(r"(?:^|/)(?:workstreams?|plans|phases)/([\w.-]{1,80})", re.I)
_COMPARED_CHARS = 60  # skip a lesson whose problem and solution repeat each other in their first characters
# Folders that every project has, so they name no workstream.
_GENERIC_NAMES = "src lib libs app apps packages internal pkg cmd tests test docs crates modules"
_GENERIC_FOLDERS = frozenset(_GENERIC_NAMES.split())
# The home folder of a user, which would show whose machine it was.
_HOME_FOLDER = re.compile(r"(?:\b[A-Z]:)?/(?:Users|home)/[^/\s\"'`]+(?=/)")
# A permission prompt, or a refusal that ends in a question, is no mistake.
_NO_LESSON = re.compile(r"requires? approval|permission to use|was refused:.*\?$", re.I)
_CODE = re.compile(r"`([^`]+)`")
_ONLY_QUOTATION = re.compile(r"“([^“”]+)”")
_TRUNK_BRANCHES = frozenset(("main", "master", "trunk", "develop", "dev", "next", "HEAD", "detached"))


class SuggestedLesson(NamedTuple):
    """A mistake in the session that another session can avoid."""

    problem: str
    solution: str
    score: float
    evidence: tuple[Evidence, ...]


class Draft(NamedTuple):
    """A handoff that nobody has read yet; `made_by` is "plain" or a model's name."""

    story: Story
    topic: str
    workstream: str
    touched_workstreams: tuple[str, ...]
    summary: tuple[Statement, ...]
    decisions: tuple[Statement, ...]
    failed: tuple[Statement, ...]
    open_ends: tuple[Statement, ...]
    resume: tuple[Statement, ...]
    confidence: str
    because: str
    findings: tuple[Finding, ...] = ()
    memories: tuple[SuggestedMemory, ...] = ()
    lessons: tuple[SuggestedLesson, ...] = ()
    contradictions: tuple[str, ...] = ()  # claims of a model that the session's own record contradicts
    made_by: str = PLAIN


def build_draft(story: Story, findings: Sequence[Finding] = (), memories: Sequence[SuggestedMemory] = ()) -> Draft:
    """Build the draft without a model."""
    facts = session_facts.gather_facts(story)
    if story.is_subagent and not session_facts.list_changed_paths(facts, facts.actions):
        return _build_silent_draft(story)
    topics = topic_outcomes.list_topics(facts)
    results = session_results.list_results(facts, "\n".join(topic.text for topic in topics))
    open_ends = [*list_open_ends(facts), *_select_statements(findings, NOT_DONE_ITEM)]
    open_ends = drop_near_duplicates(open_ends)[:MAX_OPEN_ENDS]
    workstreams = find_workstreams(phrasing.list_files_modified(facts.actions), _find_branch(facts))
    topics = [topic for topic in topics if not _is_told_as_step(topic, open_ends)]
    confidence, because = _rate_confidence(facts, open_ends)
    return Draft(
        story=story,
        topic=f"Sub-agent: {_choose_topic(facts)}" if story.is_subagent else _choose_topic(facts),
        workstream=workstreams[0] if workstreams else "",
        touched_workstreams=tuple(workstreams[:MAX_WORKSTREAMS]),
        summary=tuple(drop_near_duplicates([*topics, *results, *session_results.list_causes(facts)])),
        decisions=tuple(_drop_remembered(session_results.list_decisions(facts), memories)),
        failed=tuple(_select_statements(findings, FAILED_EXPERIMENTS_ITEM)),
        open_ends=tuple(open_ends),
        resume=tuple(_build_resume(facts, open_ends)),
        confidence=confidence,
        because=because,
        findings=tuple(select_findings(findings)),
        memories=tuple(memories),
        lessons=tuple(_suggest_lessons(story)),
    )


def _is_told_as_step(topic: Statement, open_ends: Iterable[Statement]) -> bool:
    """Return whether the outcome of a topic is one quotation that stands among the next steps."""
    outcome = _ONLY_QUOTATION.fullmatch(topic.text.rpartition(OUTCOME_ARROW)[2])
    words = outcome[1].rstrip(" …") if outcome else ""
    steps = [step.text.rstrip(" …") for step in open_ends if step.is_next_step]
    return bool(words) and any(words in step or step in words for step in steps)


def _build_silent_draft(story: Story) -> Draft:
    """Return the draft of a sub-agent that changed nothing, such as a reviewer or a check of permissions.

    It reported to the agent that started it, whose own draft tells what came of the report.
    """
    return Draft(
        story=story,
        topic=f"Sub-agent: {NO_TOPIC}",
        workstream="",
        touched_workstreams=(),
        summary=(),
        decisions=(),
        failed=(),
        open_ends=(),
        resume=(),
        confidence="L",
        because="a sub-agent that changed nothing leaves nothing to continue",
    )


def next_step(draft: Draft) -> str:
    """Return the step to start the next session with; empty if nobody named one."""
    # A model may name the next step only in its resume prompt, without listing it as an open end.
    if draft.made_by != PLAIN:
        return next((statement.text for statement in (*draft.open_ends, *draft.resume)), "")
    return next((statement.text for statement in draft.open_ends if statement.is_next_step), "")


def _drop_remembered(decisions: Iterable[Statement], memories: Iterable[SuggestedMemory]) -> list[Statement]:
    """Drop the decisions that are proposed as a memory, with the same words beside it."""
    remembered = {(source.line, source.quote) for memory in memories for source in memory.evidence}
    return [
        decision
        for decision in decisions
        if not any((source.line, source.quote) in remembered for source in decision.evidence)
    ]


def _select_statements(findings: Iterable[Finding], item: str) -> list[Statement]:
    return [Statement(finding.text, finding.evidence) for finding in findings if finding.item == item]


def _choose_topic(facts: SessionFacts) -> str:
    """Return the request that took most work, joined with a second one of similar weight."""
    topics = [topic for topic in facts.topics if topic_outcomes.is_worth_telling(topic)]
    ranked = sorted(topics, key=lambda topic: -topic.weight)
    titles = {topic: title for topic in ranked[:3] if (title := _name_topic(facts, topic))}
    heaviest = ranked[0].weight if ranked else 0
    chosen = [topic for topic in titles if topic.weight >= _SECOND_TOPIC_SHARE * heaviest][:2]
    chosen.sort(key=lambda topic: topic.first)
    if not chosen:
        return next(iter(titles.values()), NO_TOPIC)
    room = MAX_TOPIC_CHARS // len(chosen)
    return "; ".join(_shorten_title(titles[topic].rstrip(".:; "), room) for topic in chosen)


def _shorten_title(title: str, room: int) -> str:
    """Shorten a title; an outcome of which only a few words would fit is left out."""
    request = title.partition(OUTCOME_ARROW)[0]
    is_cut_short = len(title) > room and room - len(request) < _MIN_OUTCOME_CHARS
    return shorten_line(request if is_cut_short else title, room)


def _name_topic(facts: SessionFacts, topic: Topic) -> str:
    """Return a topic's request, with its outcome if the request says little on its own."""
    words = prompt_requests.find_topic_words(topic.request)
    if len(words) >= _MIN_TOPIC_WORDS:
        return topic.request
    outcome = to_plain_line(topic_outcomes.describe_outcome(facts, topic).text)
    outcome = outcome.removeprefix("“").partition("”")[0]  # the first sentence of several
    outcome = re.sub(r"^[0-9a-f]{7,40} “", "", outcome)
    request = topic.request.rstrip(".:! ")
    if request and words and not topic_outcomes.only_saves_work(facts, topic):
        outcome = outcome or topic_outcomes.describe_changes(facts, topic).text
        return f"{request}{OUTCOME_ARROW}{outcome}" if outcome else topic.request
    return outcome or ("" if prompt_requests.is_trivial_request(topic.request) else topic.request)


def _find_branch(facts: SessionFacts) -> str:
    """Return the branch of the last commit; empty for a trunk branch such as main."""
    branch = next((branch for _, (branch, *_) in reversed(phrasing.list_commits(facts.actions))), "")
    return "" if branch in _TRUNK_BRANCHES else branch


def find_workstreams(paths: Iterable[str], branch: str = "") -> list[str]:
    """Name the workstreams of the changed files: explicit ones, then the branch, then the busiest folders."""
    project_paths = session_facts.select_project_paths(paths)
    named_streams = Counter(
        match[1].removesuffix(".md") for path in project_paths if (match := _WORKSTREAM_PATH.search(path))
    )
    areas = Counter(area for path in project_paths if (area := _get_area(path)) and not _WORKSTREAM_PATH.search(path))
    return [
        *(name for name, _ in named_streams.most_common()),
        *([branch] if branch else []),
        *(name for name, _ in areas.most_common()),
    ]


def _get_area(path: str) -> str:
    folders = [part for part in path.split("/")[:-1] if part not in _GENERIC_FOLDERS and not part.startswith(".")]
    return "/".join(folders[:2])


def _build_resume(facts: SessionFacts, open_ends: Sequence[Statement]) -> list[Statement]:
    """Write the resume prompt: where the work is saved, and the steps in their order.

    What was done stands in the summary, and is not repeated here.
    """
    statements = []
    last_commit = session_results.find_last_commit(facts)
    steps = [statement for statement in open_ends if statement.is_next_step]
    if last_commit:
        action, commit = last_commit
        is_pushed = session_results.is_pushed(facts, action)
        is_unpushed = not is_pushed and bool(UNPUSHED.search(facts.turns[-1].final_message))
        state = ", pushed" if is_pushed else ", not pushed" if is_unpushed else ""
        text = f"The last commit is {commit.short_hash} on {commit.branch}{state}"
        if is_pushed or not any(commit.short_hash[:7] in step.text for step in steps):
            statements.append(Statement(text, session_facts.cite_action(facts, action, commit.short_hash)))
    if not phrasing.list_commits(facts.actions):  # else they are an open end
        statements += list_uncommitted_changes(facts)
    lead = FIRST_LEAD
    for step in steps:
        statements.append(Statement(f"{lead}{step.text}", step.evidence))
        lead = THEN_LEAD
    return statements


def _rate_confidence(facts: SessionFacts, open_ends: Sequence[Statement]) -> tuple[str, str]:
    """Rate how certain the next step is, from the open ends and the last check or commit."""
    last_check = next((action for action in reversed(facts.actions) if action.kind == "check"), None)
    has_commit = any(action.kind == "saved" and not action.failed for action in facts.recent_actions)
    if session_facts.is_unfinished(facts):
        has_check = any(action.kind == "check" for action in classify_calls(facts.turns[-1]))
        if has_check:
            return "M", "the session was cut off, but the last check shows where things stand"
        return "L", "the session ended before the last request was answered"
    if open_ends and (last_check or has_commit):
        return "H", "what is open was said or seen, and a check or commit shows where things stand"
    if open_ends:
        return "M", "what is open was said, but no check or commit shows where things stand"
    if (last_check and not last_check.failed) or has_commit:
        return "M", "what was asked seems done; nothing says what comes next"
    return "L", "nothing says what comes next, and no check or commit shows where things stand"


def select_findings(findings: Iterable[Finding]) -> list[Finding]:
    """Select two to four findings, one per menu item, from a list sorted best first.

    Findings below `TELLING_SCORE` only fill up to two. Those below `MIN_SCORE`, which people keep dropping, are left
    out.
    """
    best_by_item = dict[str, Finding]()
    for finding in findings:
        if finding.score >= MIN_SCORE:
            best_by_item.setdefault(finding.item, finding)
    ranked = list(best_by_item.values())
    return [
        finding
        for index, finding in enumerate(ranked[:MAX_FINDINGS])
        if finding.score >= TELLING_SCORE or index < MIN_FINDINGS
    ]


def find_stated_memories(story: Story) -> Iterator[SuggestedMemory]:
    """Yield the person's statements that later sessions should know, with the turn of each."""
    for number, exchange in enumerate(transcript_story.split_exchanges(story), 1):
        if exchange.prompt:
            for statement in find_lasting_statements(exchange.prompt.text):
                evidence = (transcript_story.quote_step(story, exchange.prompt, statement.quote),)
                yield SuggestedMemory(statement.type, statement.text, evidence, number)


def drop_known_memories(memories: Iterable[SuggestedMemory], known_texts: Iterable[str]) -> list[SuggestedMemory]:
    """Drop duplicates and memories that a known text already covers."""
    seen_texts = list(known_texts)
    new_memories = list[SuggestedMemory]()
    for memory in memories:
        if tokenize(memory.text) and not any(
            is_same_statement(memory.text, other) or _is_within(memory.text, other) for other in seen_texts
        ):
            new_memories.append(memory)
            seen_texts.append(memory.text)
    return new_memories


def _is_within(text: str, other: str) -> bool:
    """Return whether one text contains nearly all words of the other without negating any of them."""
    words = tokenize(text)
    other_words = tokenize(other)
    shortest = min(len(words), len(other_words))
    shared_words = words & other_words
    if shortest < MIN_CONTAINED_WORDS or len(shared_words) < MIN_CONTAINED_SHARE * shortest:
        return False
    negated_in_one = find_negated_words(text) ^ find_negated_words(other)
    return not shared_words & negated_in_one


def _suggest_lessons(story: Story) -> list[SuggestedLesson]:
    """Return the best corrections of the session as suggested lessons."""
    episodes = sorted(
        (
            candidate
            for candidate in find_episodes(story.steps)
            if candidate.score >= MIN_LESSON_SCORE and not _may_show_something_else(candidate)
        ),
        key=lambda candidate: -candidate.score,
    )
    lessons = dict[tuple[str, str], SuggestedLesson]()
    for episode in episodes:
        lesson = _build_lesson(story, episode)
        problem_start = lesson.problem[:_COMPARED_CHARS]
        solution_start = lesson.solution[:_COMPARED_CHARS]
        is_elided = '"…"' in lesson.solution  # a program of several lines
        repeats_itself = problem_start in lesson.solution or solution_start in lesson.problem
        if (
            not (repeats_itself or is_elided)
            and not _NO_LESSON.search(lesson.problem)
            and not lesson.solution.endswith("?")
        ):
            lessons.setdefault((lesson.problem, lesson.solution), lesson)
    return list(lessons.values())[:MAX_LESSONS]


def _may_show_something_else(episode: Episode) -> bool:
    """Return whether a command that only looks is replaced by another form of looking.

    That the program accepts `cat -v` where it refused `cat -A` does not tell that it shows what was wanted.
    """
    if not episode.cure or not episode.cure.command or not is_read_only(episode.cure.command):
        return False
    named_words = {word for code in _CODE.findall(episode.solution) for word in code.split()}
    return not named_words.isdisjoint(episode.added_arguments)


def _build_lesson(story: Story, episode: Episode) -> SuggestedLesson:
    """Build a suggested lesson from an episode; a poll of a command is cited at the call that started it."""
    steps = {step.line: session_facts.find_starting_call(story, step) for step in story.steps}
    evidence = tuple(
        transcript_story.quote_step(story, steps[source.line], source.quote)
        for source in episode.evidence
        if source.line in steps
    )
    return SuggestedLesson(
        shorten_line(episode.problem, 160),
        shorten_line(episode.solution.lstrip("-* "), 160),
        round(episode.score, 2),
        evidence,
    )


def render_draft(draft: Draft) -> str:
    """Render the draft as Markdown, each statement once: steps only in the resume prompt, findings in one section."""
    told_texts = {statement.text for statement in (*draft.failed, *draft.open_ends)}
    findings = [finding for finding in draft.findings if finding.text not in told_texts]
    open_ends = [statement for statement in draft.open_ends if not statement.is_next_step]
    sections = (
        (CONTRADICTIONS_HEADING, [f"- {_escape_markup(line)}" for line in draft.contradictions]),
        ("Summary", _render_bullets(draft.summary)),
        ("Decisions", _render_bullets(draft.decisions)),
        (FAILED_HEADING, _render_bullets(draft.failed)),
        (OPEN_HEADING, _render_bullets(open_ends)),
        ("Resume Prompt", _render_resume(draft)),
        (
            "Findings",
            [f"- **{entry.item}** → {entry.target}: {_cite_lines(entry.text, entry.evidence)}" for entry in findings],
        ),
        (
            "Memories to approve",
            [f"- {entry.type}: {_cite_lines(_render_memory(entry), entry.evidence)}" for entry in draft.memories],
        ),
        (
            "Lessons to consider",
            [f"- {_cite_lines(f'{entry.problem} → {entry.solution}', entry.evidence)}" for entry in draft.lessons],
        ),
    )
    body = [f"## {name}\n\n" + "\n".join(lines) for name, lines in sections if lines]
    page = "\n\n".join([f"# {_escape_markup(draft.topic)}", *body])
    return f"{_render_front_matter(draft)}\n\n{anonymize_paths(page, draft.story)}\n"


def _render_memory(memory: SuggestedMemory) -> str:
    """Render a proposed memory, followed by the person's own words if they differ; ratifying drops those."""
    quote = memory.evidence[0].quote if memory.evidence else ""
    if not quote or tokenize(quote) == tokenize(memory.text):
        return memory.text
    return f"{memory.text} {SAID_LEAD}{quote_text(quote, 200)}"


def anonymize_paths(text: str, story: Story) -> str:
    """Make paths relative to the project and hide the user's home folder."""
    for folder in filter(None, (story.project, story.cwd)):
        text = text.replace(f"{folder}/", "")
    return _HOME_FOLDER.sub("…", text)


def _render_front_matter(draft: Draft) -> str:
    """Render the fields at the top as YAML; an empty one is left out, except the workstream."""
    story = draft.story
    fields = {
        "topic": anonymize_paths(draft.topic, story),
        "workstream": draft.workstream,
        "workstreams_touched": list(draft.touched_workstreams),
        "session": story.session,
        "host": story.agent,
        "began": clock.format_iso(story.started_at) if story.started_at else "",
        "ended": clock.format_iso(story.ended_at) if story.ended_at else "",
        "minutes": round(story.active_minutes),
        **_count_tokens(story),
        "confidence": draft.confidence,
        "status": "draft",
        "made": draft.made_by,
        "transcript": story.path,
    }
    lines = [
        f"{name}: {json.dumps(value, ensure_ascii=False)}"
        for name, value in fields.items()
        if value != "" or name == "workstream"
    ]
    return "\n".join(["---", *lines, "---"])


def _count_tokens(story: Story) -> dict[str, int]:
    """Return the token counts of the transcript; empty if it has none, because a guess would mislead."""
    if story.usage is None:
        return {}
    total = story.usage.tokens_in + story.usage.tokens_out
    return {"tokens": total, "tokens_out": story.usage.tokens_out} if total else {}


def _render_bullets(statements: Iterable[Statement]) -> list[str]:
    return [f"- {_cite_lines(statement.text, statement.evidence)}" for statement in statements]


def _render_resume(draft: Draft) -> list[str]:
    """Render the resume prompt as a quote, with how certain it is below; nothing if there is no step and no commit.

    The front matter has the confidence as well.
    """
    if not draft.resume:
        return []
    # Two spaces at the end break the line in Markdown.
    quoted = [f"> {_cite_lines(statement.text, statement.evidence)}  " for statement in draft.resume]
    return [*quoted, "", f"Confidence: {draft.confidence} ({draft.because})"]


def _cite_lines(text: str, evidence: Sequence[Evidence]) -> str:
    """Return the text with the transcript lines that it rests on: `… (L12, L40)`."""
    lines = sorted({source.line for source in evidence})[:MAX_SOURCE_LINES]
    if not lines:
        return _escape_markup(text)
    citation = ", ".join(f"L{line}" for line in lines)
    return f"{_escape_markup(text)} ({citation})"


def _escape_markup(text: str) -> str:
    """Return the text on one line with `<` escaped, so that tags and comments show as text."""
    return to_plain_line(text).replace("<", "\\<") if "<" in text else to_plain_line(text)
