"""The MCP tools: agents search records and propose memories and lessons. No tool approves anything.

They read the store directly, so they need no worker. They answer about the project of the folder that the server was
started in, and about others only with --all-projects.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Annotated, Any, Literal

from msgspec import Meta

import hardwon.actions.lessons
from hardwon import clock, projects
from hardwon.actions import drain_spool
from hardwon.errors import UserError
from hardwon.handoff import handoffs
from hardwon.lessons import lookup
from hardwon.memories import memories
from hardwon.search import indexing, query_scope, recalled_text, records
from hardwon.search.search import search_records
from hardwon.search.timeline import build_timeline
from hardwon.store import db, documents, observations
from hardwon.text.brief_layout import sanitize_line
from hardwon.types import Event, frozen

_MAX_IDS = 50
ShortText = Annotated[str, Meta(max_length=1_000)]
ProjectName = Annotated[
    ShortText,
    Meta(description='another project, by name or path, or "*": only if the server was started with --all-projects'),
]
KindName = Literal["", "observation", "summary", "prompt", "event", "lesson", "memory", "handoff"]


@frozen
class ServerContext:
    """The home, the agent's working directory, and whether the agent may query other projects."""

    home: str
    folder: str
    is_open: bool = False


def search(
    context: ServerContext,
    query: Annotated[str, Meta(max_length=4_000, description="a question, words, an identifier, a path or an id")],
    project: ProjectName = "",
    kind: KindName = "",
    type: Annotated[ShortText, Meta(description="such as bugfix, decision, failure, discovery")] = "",
    concept: ShortText = "",
    file: Annotated[ShortText, Meta(description="a path, or the end of one")] = "",
    host: Annotated[ShortText, Meta(description="the agent it comes from, such as claude-code or codex")] = "",
    since: Annotated[ShortText, Meta(description="2026-11-01, yesterday, or 7d or 2w ago")] = "",
    until: ShortText = "",
    limit: Annotated[int, Meta(ge=1, le=200)] = 20,
) -> str:
    """Search sessions, lessons and memories: hits with an excerpt, best first. Read the few that matter with get."""
    if not query.strip() and not any((kind, type, concept, file, host, since, until)):
        raise UserError("nothing to search for", "give a query or a filter")
    now = clock.now()
    with _open_store(context.home) as connection:
        scope = _resolve_scope(connection, context, project)
        result = search_records(
            connection,
            context.home,
            query,
            project=scope,
            current_project=projects.find_project_path(context.folder),
            kinds=(kind,) if kind else (),
            type=type,
            concept=concept,
            file=file,
            host=host,
            since=query_scope.parse_time(since, now),
            until=query_scope.parse_time(until, now),
            limit=limit,
            now=now,
            model=indexing.load_model_or_none(),
        )
        backlog_note = _describe_backlog(connection)
        empty_note = "" if documents.list_indexed_projects(connection) else "; nothing is recorded yet"
    unmatched_note = recalled_text.format_unmatched(result.unmatched)
    notes = (f"only {result.period}" if result.period else "", result.note, unmatched_note, backlog_note)
    if result.hits:
        headline = f'{len(result.hits)} results, best first: get(ids=["{result.hits[0].id}"]) reads one in full'
        hit_lines = recalled_text.format_hits(result.hits, show_project=not scope)
        return recalled_text.format_answer(headline, hit_lines, *notes)
    scope_note = ""
    if scope:
        scope_note = ' in this project; project="*" looks into every one' if context.is_open else " in this project"
    return recalled_text.format_answer(f"no results for {query[:200]!r}{scope_note}{empty_note}", *notes)


def timeline(
    context: ServerContext,
    anchor: Annotated[ShortText, Meta(description="an id, such as O12")] = "",
    query: Annotated[str, Meta(max_length=4_000, description="instead of an anchor: around the best hit")] = "",
    depth_before: Annotated[int, Meta(ge=0, le=100)] = 10,
    depth_after: Annotated[int, Meta(ge=0, le=100)] = 10,
    type: ShortText = "",
    project: ProjectName = "",
) -> str:
    """List the prompts, observations and summaries before and after a record, or the latest, in order of time."""
    with _open_store(context.home) as connection:
        scope = _resolve_scope(connection, context, project)
        result = build_timeline(
            connection,
            context.home,
            anchor=anchor,
            query=query,
            depth_before=depth_before,
            depth_after=depth_after,
            record_type=type,
            project=scope,
            now=clock.now(),
            model=indexing.load_model_or_none() if query else None,
        )
        backlog_note = _describe_backlog(connection)
    if anchor and not result.records:
        raise UserError(result.note, "search gives ids" + ('; project="*" looks everywhere' if context.is_open else ""))
    return recalled_text.format_answer(
        result.note,
        recalled_text.format_index(result.records, marked_id=result.anchor, show_project=not scope),
        backlog_note,
    )


def get(
    context: ServerContext,
    ids: Annotated[list[str | int], Meta(min_length=1, max_length=_MAX_IDS, description='such as ["O12", "S3"]')],
    offset: Annotated[int, Meta(ge=0, description="where to go on in one that was cut")] = 0,
    project: ProjectName = "",
) -> str:
    """Read records by id: O observations, S summaries, P prompts, E events, L:slug lessons, M memories, H handoffs."""
    if offset and len(ids) > 1:
        raise UserError("offset works with one record only", "give one id")
    record_ids = []
    for record_id in ids:
        text = str(record_id)
        # Models write 12 for O12 now and then.
        record_ids.append(f"O{text}" if text.isdecimal() else text[:300])
    with _open_store(context.home) as connection:
        scope = _resolve_scope(connection, context, project)
        fetched = records.fetch_records(connection, context.home, record_ids)
    for record in fetched:
        if "error" not in record and not query_scope.is_in_project(scope, record):
            record["error"] = _refuse_other(context, record["id"])
    if all("error" in record for record in fetched):
        raise UserError("; ".join(record["error"] for record in fetched)[:1_000], "search gives ids")
    return recalled_text.format_answer(recalled_text.format_records(fetched, offset))


def lessons(
    context: ServerContext,
    command: Annotated[str, Meta(max_length=100_000, description="the shell command you are about to run")] = "",
    file: Annotated[ShortText, Meta(description="the file you are about to change")] = "",
    content: Annotated[str, Meta(max_length=100_000, description="what you are about to write to it")] = "",
    tool: Annotated[ShortText, Meta(description="if it is neither Bash nor Edit")] = "",
) -> str:
    """List the lessons that apply to a command or a file, before you run or change it."""
    if not (command or file or content or tool):
        raise UserError("no command or file given", "give a command or a file")
    tool = tool or ("Bash" if command else "Edit")
    event = Event("", "PreToolUse", "", context.folder, tool=tool, command=command, path=file, content=content)
    matches, _ = lookup.explain_call(context.home, event, clock.now())
    if not matches:
        return "no lesson applies"
    texts = []
    for match in matches:
        lesson_id = f"L:{match.entry.slug}"
        texts.append((lesson_id, f"{lesson_id} ({match.entry.delivery}): {match.entry.text}"))
    lead = "Lessons of hardwon that apply; a person approved them."
    return recalled_text.format_answer(recalled_text.format_texts(texts), lead=lead)


def remember(
    context: ServerContext,
    type: Annotated[
        Literal["user", "feedback", "project", "reference"],
        Meta(
            description="user: who they are; feedback: how they want it; project: a fact here; reference: where to look"
        ),
    ],
    text: Annotated[str, Meta(max_length=10_000, description="one thing, in a sentence or two, true beyond today")],
    sources: Annotated[tuple[str, ...], Meta(max_length=_MAX_IDS, description="ids of what it was learned from")] = (),
) -> str:
    """Propose a memory: something undated that every later session here should know. A person approves it."""
    with _open_store(context.home) as connection:
        allowed_project = "" if context.is_open else _resolve_scope(connection, context, project="")
        faults = []
        for source in records.fetch_records(connection, context.home, sources):
            if "error" in source:
                faults.append(source["error"])
            elif not query_scope.is_in_project(allowed_project, source):
                faults.append(_refuse_other(context, source["id"]))
        if faults:
            raise UserError("; ".join(faults)[:1_000], "leave the source out, or take an id from search")
        memory = memories.propose(
            connection,
            context.home,
            type,
            text,
            project=projects.find_project_path(context.folder),
            source="mcp",
            evidence=sources,
            now=clock.now(),
        )
    return f"proposed as memory M{memory.id}. It counts once a person runs: hardwon memory approve M{memory.id}"


def propose_lesson(
    context: ServerContext,
    summary: Annotated[ShortText, Meta(description="what goes wrong, in a line")],
    problem: Annotated[str, Meta(max_length=10_000, description="the root cause")],
    solution: Annotated[str, Meta(max_length=10_000, description="what to do instead")],
    command: Annotated[ShortText, Meta(description="a regular expression for the commands it is about")] = "",
    path: Annotated[ShortText, Meta(description="a glob for the files it is about")] = "",
    delivery: Literal["note", "hold", "block", "start"] = "note",
    priority: Annotated[int, Meta(ge=1, le=10)] = 5,
    tags: Annotated[tuple[str, ...], Meta(max_length=20, description="category:value, such as tool:git")] = (),
    only_here: Annotated[bool, Meta(description="only in this project")] = False,
) -> str:
    """Propose a lesson: a mistake, its cause, and what to do instead, shown when it is about to be repeated."""
    record: dict[str, Any] = {"delivery": delivery, "priority": priority, "tags": list(tags)}
    record |= {"summary": summary, "problem": problem, "solution": solution}
    if command:
        record["commandPatterns"] = [command]
    if path:
        record["pathPatterns"] = [path]
    if only_here:
        record["scope"] = {"type": "project", "path": projects.find_project_path(context.folder)}
    lesson = hardwon.actions.lessons.propose_lesson(context.home, record)
    return f"proposed: {lesson.slug}. A person puts it in force with: hardwon lessons restore {lesson.slug}"


def handoff(context: ServerContext, project: ProjectName = "") -> str:
    """Read what the last session in this project left for the next: the ratified handoff, and the last summary of what
    was asked, learned and done, and what is next."""
    with _open_store(context.home) as connection:
        scope = _resolve_scope(connection, context, project)
        summary_ids = []
        for number in documents.find_project_numbers(connection, scope):
            if summary := observations.find_last_summary(connection, number):
                summary_ids.append(f"S{summary['id']}")
        summaries = records.fetch_records(connection, context.home, summary_ids)
        # A project may have several folders, such as clones; without a scope every project is meant.
        folders: Sequence[str | None] = [None]
        if scope:
            folders = documents.find_project_paths(connection, scope) or [scope]
        ratified = []
        waiting_lines = []
        for folder in folders:
            if page := handoffs.find_latest_page(connection, context.home, folder):
                ratified.append(records.build_handoff_record(page))
            if draft := handoffs.find_waiting_draft(connection, folder):
                banner = sanitize_line(handoffs.build_banner(draft), 400)
                waiting_lines.append(f"{banner} (a person reviews it: hardwon handoff show H{draft.id})")
    newest = [max(group, key=lambda item: float(item["at"])) for group in (ratified, summaries) if group]
    if not newest and not waiting_lines:
        return "no handoff or summary here yet"
    heading = "The last session here left this:" if newest else ""
    return recalled_text.format_answer(*waiting_lines, heading, recalled_text.format_records(newest))


TOOLS: tuple[Callable[..., str], ...] = (search, timeline, get, lessons, remember, propose_lesson, handoff)
PROPOSING_TOOLS = (remember, propose_lesson)


def _resolve_scope(connection: db.Connection, context: ServerContext, project: str) -> str:
    """Return the requested project, empty for all; raise UserError if the server may not answer about it.

    The caller is an agent, so only the person who configures the server can open other projects.
    """
    if context.is_open:
        return query_scope.resolve_project(connection, project, context.folder)
    current_project = query_scope.resolve_project(connection, "", context.folder)
    if not _is_project_name(current_project, context.folder, project):
        say = f"this server answers about {current_project} only"
        raise UserError(say, "leave project out; a person opens others: hardwon mcp --all-projects")
    return current_project


def _is_project_name(project: str, folder: str, name: str) -> bool:
    """Return whether a name means this project: it is empty, the project's name, or a path inside it."""
    # Models pass the project's name or path along even if they need not.
    if name.strip() in ("", os.path.basename(project)):
        return True
    looks_like_path = os.sep in name or name in (".", "..")
    if not looks_like_path or "\0" in name:
        return False
    path = os.path.realpath(os.path.join(folder, name))
    return projects.find_project_path(path) == project


def _refuse_other(context: ServerContext, record_id: str) -> str:
    if context.is_open:
        return f'{record_id} belongs to another project: get(ids=["{record_id}"], project="*") reads it'
    return f"{record_id} belongs to another project"


def _open_store(home: str) -> AbstractContextManager[db.Connection]:
    # Opened for each request, since a backup may have been restored since the last one.
    return query_scope.open_store(home, drain_spool)


def _describe_backlog(connection: db.Connection) -> str:
    waiting, _ = documents.count_backlog(connection)
    return f"({waiting} records are not indexed yet and may be missing: ask again later)" if waiting else ""
