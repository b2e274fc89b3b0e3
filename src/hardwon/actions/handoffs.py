"""Carry out what a person decides about handoffs and the memories in them, and record the approvals.

An agent's own handoff is saved here too, as a draft.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from hardwon import claims, pauses, projects
from hardwon.actions import approvals
from hardwon.actions.approvals import Decider
from hardwon.errors import UserError
from hardwon.handoff import ratification, written_handoffs
from hardwon.handoff.claim_check import build_session_record
from hardwon.handoff.ratification import RatificationResult
from hardwon.handoff.written_handoffs import AGENT_KIND, PERSON_KIND
from hardwon.privacy.prompt_text import has_sensitive_word
from hardwon.sessions.lookup import find_session
from hardwon.store import reflections, sessions, turns
from hardwon.store.approvals import RATIFY_AFTER_DAYS
from hardwon.store.db import Connection
from hardwon.store.reflections import Reflection
from hardwon.text.characters import to_printable_line

# Variables with the session's id that agents set for the commands they run; our plugin for opencode sets the last.
_SESSION_VARIABLES = ("CLAUDE_CODE_SESSION_ID", "CODEX_THREAD_ID", "GEMINI_SESSION_ID", "HARDWON_SESSION")
_ACTIVE_SECONDS = 900.0  # a session with an event this recently may be the one that runs the command


def ratify_handoff(
    decider: Decider, reflection: Reflection, *, should_commit: bool = False, is_read: bool = True
) -> RatificationResult:
    """Let a handoff count as its draft says it now, with the memories that it names."""
    result = ratification.ratify(
        decider.connection, decider.home, reflection, decider.now, should_commit=should_commit, is_read=is_read
    )
    approvals.record_handoff(decider, reflection.id)
    for memory, _ in result.memories:
        approvals.record_memory(decider, memory.id)
    return result


def _list_session_ids(environment: Mapping[str, str]) -> list[str]:
    return [environment[name] for name in _SESSION_VARIABLES if environment.get(name)]


def _find_own_session(
    connection: Connection, environment: Mapping[str, str], project: str, now: float
) -> dict[str, Any] | None:
    """Return the session whose agent runs this command; None if none is recorded, UserError if several may be meant."""
    ids = _list_session_ids(environment)
    own_sessions: list[dict[str, Any]] = []
    for session_id in ids:
        own_sessions += sessions.find_by_session_id(connection, session_id)
    if own_sessions:
        # An agent that runs inside another's shell inherits the outer id: the inner session is the latest.
        return max(own_sessions, key=lambda row: float(row["last_at"]))
    # The agent says which session it is, and that one is not recorded: another one must not be taken for it.
    if ids:
        return None
    # A person at a terminal, or an agent that sets no variable: take the session that is active in this project.
    recent = sessions.list_sessions(connection, limit=5, project=project)
    active = [row for row in recent if row["last_at"] > now - _ACTIVE_SECONDS and row["status"] != "completed"]
    if len(active) > 1:
        names = ", ".join(f"{row['session']} ({row['host']})" for row in active)
        raise UserError(f"several sessions are active here: {names}", "add --session ID")
    if active:
        return active[0]
    return recent[0] if recent else None


def write_handoff(
    decider: Decider,
    text: str,
    cwd: str,
    *,
    environment: Mapping[str, str],
    values: Mapping[str, Any],
    is_agent: bool,
    is_json: bool = False,
    name: str = "",
    topic: str = "",
) -> tuple[Reflection, tuple[str, ...]]:
    """Save a handoff of the named session or of the one that runs this; return it and what the record contradicts.

    A person's handoff counts at once, an agent's is a draft.
    """
    home = decider.home
    connection = decider.connection
    now = decider.now
    handoff = written_handoffs.parse_handoff(text) if is_json else None
    project = projects.find_project_path(cwd)
    session = find_session(connection, name) if name else _find_own_session(connection, environment, project, now)
    if is_agent:
        _refuse_private(connection, home, session, cwd, values, now)
    contradictions: tuple[str, ...] = ()
    fields = dict[str, str]()
    if handoff:
        record = build_session_record(turns.list_turns(connection, session["id"])) if session else None
        checked = written_handoffs.build_checked_body(handoff, record)
        text = checked.body
        topic = handoff.topic
        contradictions = checked.contradictions
        fields = {"workstream": handoff.workstream, "confidence": handoff.confidence, "made": AGENT_KIND}
    if session is None:  # it is not recorded, but its agent may have named it
        session = {"session": next(iter(_list_session_ids(environment)), ""), "host": "", "first_prompt": ""}
    written = written_handoffs.save_handoff(
        connection,
        home,
        text,
        session=session["session"],
        agent=session["host"],
        project=session.get("project_path") or project,
        topic=topic or to_printable_line(session["first_prompt"], 90),
        folder="" if is_agent else projects.find_sessions_folder(cwd),
        now=now,
        is_ratified=not is_agent,
        # An agent's plain text was not checked, so other agents get it only after a person has read it.
        kind=AGENT_KIND if is_agent and handoff else PERSON_KIND,
        fields=fields,
    )
    if not is_agent:
        approvals.record_handoff(decider, written.id)
    return written, contradictions


def _refuse_private(
    connection: Connection, home: str, row: Mapping[str, Any] | None, cwd: str, values: Mapping[str, Any], now: float
) -> None:
    """Refuse an agent's handoff of what is not to be kept; a person may still write one."""
    fix = "a person can still run hardwon handoff write in a terminal"
    if pauses.is_paused(home, cwd, now) or projects.is_below(cwd, values["denyProjects"]):
        raise UserError("nothing is recorded in this folder, so no handoff is kept", fix)
    if row and claims.is_last_prompt_private(home, row["session"]):
        raise UserError("the last prompt of this session is private, so no handoff is kept", fix)
    if row and has_sensitive_word(sessions.list_prompt_texts(connection, row["id"]), values["sensitiveWords"]):
        raise UserError("this session is marked as sensitive, so no handoff is kept", fix)


def ratify_overdue(
    connection: Connection, home: str, values: Mapping[str, Any], now: float
) -> Iterator[RatificationResult | UserError | OSError]:
    """Ratify the drafts that are older than `ratifyAfterDays`; one that fails does not stop the others.

    A draft that the record contradicts waits for a person however old it is.
    """
    approvals.ensure_upgraded(home, connection, now)
    decider = Decider(home, connection, RATIFY_AFTER_DAYS, now)
    should_commit = bool(values.get("handoffCommit", False))
    for draft in ratification.find_overdue_drafts(connection, values, now):
        try:
            yield ratify_handoff(decider, draft, should_commit=should_commit, is_read=False)
        except UserError as error:
            # It stays a draft; the time of this decision keeps it from being tried again.
            reflections.set_status(connection, draft.id, reflections.DRAFT, now)
            yield error
        except OSError as error:
            yield error


def undo_reflection(decider: Decider, number: int) -> tuple[Reflection, list[str]]:
    """Restore every file that a reflection wrote; return the reflection and the files that were committed.

    Git history is the person's, so a commit stays.
    """
    from hardwon.handoff import reflection  # imported here because it loads every distiller

    home = decider.home
    connection = decider.connection
    now = decider.now
    existing = reflections.get(connection, number)
    committed_files = ratification.list_committed_files(existing) if existing else []
    undone = reflection.undo(connection, home, number, now)
    ratification.retire_undone_memories(connection, home, undone, now)
    approvals.withdraw_undone_reflection(decider, undone.id)
    return undone, committed_files
