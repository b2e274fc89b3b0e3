"""Reply to the start of a session or sub-agent: how to report a lesson, start lessons, and what is recalled."""

from __future__ import annotations

from hardwon.lessons.delivery import (
    FIX_MARK,
    PROTOCOL_CLAIM,
    build_delivery,
    build_reply,
    count_bytes,
    format_full_lesson,
    mark_stale,
    select_lessons,
)
from hardwon.projects import is_in_scope
from hardwon.text.brief_layout import (
    BRIEF_CHARACTERS,
    SECTION_SHARES,
    BriefSection,
    allot_room,
    count_characters,
    drop_noted_lines,
    fit_section,
    is_in_notes,
    measure_lines,
)
from hardwon.text.characters import format_count
from hardwon.text.fence import SECTION_SEPARATOR, fence_text
from hardwon.types import EMPTY_REPLY, HookReply, frozen, replace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from hardwon.lessons.delivery import HookSources, SessionClaims
    from hardwon.lessons.manifest_index import ManifestIndex
    from hardwon.text.brief_layout import BriefLine
    from hardwon.types import Event, ManifestEntry

_SUBAGENT_LIMIT = 2_000
# These take the place of a lesson's slug when a brief is delivered, or an agent is asked for a lesson.
BRIEF_SLUG, REQUEST_SLUG = "brief", "lesson-request"
_RECORDING_NOTICE = "hardwon is recording this session."
_SEARCH_HINT = "Find past work: hardwon search WORDS"
_PROTOCOL = """\
hardwon keeps what agents learned the hard way. When you were corrected, or something failed here and you found out \
what works instead, write this block into your answer, once, with real content. A person reviews it before it is used. \
No block for slips such as a wrong path or a typo.

#lesson
tool: Bash
trigger: <the exact command>
problem: <what went wrong and why>
solution: <what to do instead>
tags: tool:git, severity:error
#/lesson"""
_SHORT_PROTOCOL = """\
Corrected, or found out the hard way what works here? Put this block into your last message, with real content.

#lesson
tool: Bash
trigger: <the exact command>
problem: <what went wrong and why>
solution: <what to do instead>
#/lesson"""
# When a session is resumed, Gemini CLI drops text before the first prompt, together with that prompt. So its sessions
# open with the first prompt.
AGENTS_OPENED_AT_PROMPT = ("gemini",)
AGENTS_NEVER_OPENED = ("grok", "cline")  # they show the model nothing of what a hook says at the start
_LAST_SECTIONS = ("handoff", "resume", "summary")  # these say where the last session left off


@frozen
class SessionBrief:
    """The sections that open a session, in order, and the lessons in them."""

    sections: tuple[BriefSection, ...]
    chosen_lessons: tuple[tuple[ManifestEntry, str], ...]

    @property
    def text(self) -> str:
        body = SECTION_SEPARATOR.join(section.text for section in self.sections if section.text)
        return fence_text(body) if body else ""


def build_session_brief(
    index: ManifestIndex,
    lines: Sequence[BriefLine],
    note_statements: frozenset[str],
    session_claims: SessionClaims | None,
    *,
    equivalent_folders: Sequence[str],
    sources: HookSources | None = None,
) -> SessionBrief:
    """Build the opening of a session: the lesson protocol, the start lessons, and what is recalled of the project.

    Each part gets a share of the room. Statements already in the project's notes are left out. Without claims it is a
    preview.
    """
    protocol: list[str] = []
    if index.settings["lessonProtocol"] and (session_claims is None or session_claims.take(PROTOCOL_CLAIM)):
        protocol = [_PROTOCOL]
    scoped_entries = []
    for start_entry in _list_start_entries(index, equivalent_folders):
        current_entry = mark_stale(start_entry, sources)
        if current_entry:
            scoped_entries.append(current_entry)
    entries = [entry for entry in scoped_entries if not _is_in_notes(entry, note_statements)]
    lines_by_section: dict[str, list[BriefLine]] = {name: [] for name in SECTION_SHARES}
    for line in lines:
        if line.section in lines_by_section:  # a damaged file of a compiled brief may name others
            lines_by_section[line.section].append(line)
    sizes: dict[str, int] = {}
    for name, section_lines in lines_by_section.items():
        sizes[name] = measure_lines(drop_noted_lines(section_lines, note_statements))
    # Choose the lessons for the room they would get at full size. The other sections then get what the chosen ones
    # leave.
    full_size = count_bytes(SECTION_SEPARATOR.join([*protocol, *map(format_full_lesson, entries), ""]))
    sizes["lessons"] = full_size
    lessons_room = allot_room(sizes, BRIEF_CHARACTERS)["lessons"]
    budget = lessons_room - count_bytes(SECTION_SEPARATOR.join([*protocol, ""]))
    chosen = select_lessons(entries, session_claims, budget=budget, limit=len(entries), keep_first_full=False)
    body = SECTION_SEPARATOR.join([*protocol, *(text for _, text in chosen)])
    sizes["lessons"] = count_characters(body) + len(SECTION_SEPARATOR) if body else 0
    rooms = allot_room(sizes, BRIEF_CHARACTERS)
    sections = []
    for name, section_lines in lines_by_section.items():
        if name == "lessons":
            omitted_count = len(entries) - len(chosen)
            noted_count = len(scoped_entries) - len(entries)
            section = BriefSection(name, body, full_size, lessons_room, len(chosen), omitted_count, noted_count)
        else:
            section = fit_section(name, section_lines, rooms[name], note_statements)
        sections.append(section)
    return SessionBrief(tuple(sections), tuple(chosen))


def _list_start_entries(index: ManifestIndex, equivalent_folders: Sequence[str]) -> list[ManifestEntry]:
    entries = [index.read_entry(number) for number in index.start_numbers]
    return [entry for entry in entries if is_in_scope(entry.project, equivalent_folders)]


def _is_in_notes(entry: ManifestEntry, note_statements: frozenset[str]) -> bool:
    """Return whether the notes have this lesson's summary, or its last line, which says what to do."""
    if is_in_notes(entry.summary, note_statements):
        return True
    lines = entry.text.splitlines()
    return bool(lines) and is_in_notes(lines[-1].replace(FIX_MARK, ""), note_statements)


def reply_to_session_start(
    event: Event,
    index: ManifestIndex,
    session_brief: SessionBrief,
    session_claims: SessionClaims,
    *,
    viewer_address: str = "",
) -> HookReply:
    """Reply to a session start with the opening, and with a line or two for the person."""
    if not session_brief.text:
        return EMPTY_REPLY
    reply = build_reply(event, index, session_brief.chosen_lessons, context=session_brief.text)
    phrases_by_section = _describe_recalled(session_brief)
    deliveries = reply.deliveries
    if phrases_by_section:
        summary = ", ".join(phrases_by_section.values())
        deliveries = (*deliveries, build_delivery(event, BRIEF_SLUG, BRIEF_SLUG, summary, "start"))
    # A person who compacts or resumes a session has already seen this line.
    is_new_session = event.kind == "UserPromptSubmit" or event.source == "startup"
    notice = ""
    if index.settings["showDeliveries"] and is_new_session:
        phrases = list(phrases_by_section.values())
        last_phrases = [phrase for name, phrase in phrases_by_section.items() if name in _LAST_SECTIONS]
        if last_phrases:
            phrases = last_phrases[:1]  # where the last session left off tells a person more than how much was recalled
        elif session_brief.chosen_lessons:
            phrases = [format_count(len(session_brief.chosen_lessons), "lesson"), *phrases]
        notice = _format_start_notice(", ".join(phrases), session_claims.take_first_session(), viewer_address)
    return replace(reply, notice=notice, deliveries=deliveries)


def _describe_recalled(session_brief: SessionBrief) -> dict[str, str]:
    """Return a phrase for each section with recalled text, by the section's name."""
    phrases_by_section: dict[str, str] = {}
    for section in session_brief.sections:
        if not section.text or section.name == "lessons":
            continue
        phrase = section.notice
        if section.name == "index":
            phrase = format_count(section.shown_lines, "observation")
        if phrase:
            phrases_by_section[section.name] = phrase
    return phrases_by_section


def _format_start_notice(opening: str, is_first: bool, viewer_address: str) -> str:
    """Format the person's line at a session start: where to look in the first session, later what was recalled.

    Empty in a later session that recalls nothing.
    """
    view_hint = f"Look: hardwon view ({viewer_address})" if viewer_address else "Look: hardwon view"
    if is_first:
        opening_line = f"\nIt opened with: {opening}" if opening else ""
        return f"{_RECORDING_NOTICE} {view_hint}. {_SEARCH_HINT}{opening_line}"
    return f"hardwon: {opening}. {view_hint}" if opening else ""


def reply_to_subagent_start(
    event: Event, index: ManifestIndex, session_claims: SessionClaims, *, equivalent_folders: Sequence[str]
) -> HookReply:
    """Reply to a sub-agent's start in short: it has little room, and reports to the agent that called it."""
    entries = _list_start_entries(index, equivalent_folders)
    chosen = select_lessons(
        entries, session_claims, budget=_SUBAGENT_LIMIT, limit=len(entries), is_short=True, keep_first_full=False
    )
    protocol = [_SHORT_PROTOCOL] if index.settings["lessonProtocol"] else []
    body = SECTION_SEPARATOR.join([*protocol, *(text for _, text in chosen)])
    return build_reply(event, index, chosen, context=fence_text(body)) if body else EMPTY_REPLY
