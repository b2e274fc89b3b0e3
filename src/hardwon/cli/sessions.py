"""sessions list, sessions show, sessions delete"""

from __future__ import annotations

import json
import os
from datetime import datetime
from textwrap import wrap
from typing import Any

import click

from hardwon import clock, paths, projects
from hardwon.cli.lessons import pluralize
from hardwon.cli.output import echo_table, get_width, is_interactive, make_printable, to_printable_line
from hardwon.cli.person_only import require_person
from hardwon.errors import UserError
from hardwon.lessons import compiled_brief
from hardwon.sessions import ingest
from hardwon.store import db, documents, observations, retention
from hardwon.store import sessions as kept
from hardwon.store.purge_lock import hold_purge_lock
from hardwon.types import Summary

MAX_SHOWN = 5
MIN_TEXT_WIDTH = 12
_COLUMNS = ("id", "when", "project", "prompts", "events", "status")
_TIME_FIELDS = ("started_at", "last_at", "ended_at")
_MAX_LINE_CHARS = 160
_PLURALS = {"prompt": "prompts", "event": "events", "delivery": "deliveries", "observation": "observations"}


@click.group()
def sessions() -> None:
    """What was recorded of the agents' sessions."""


@sessions.command("list")
@click.option("--project", default="", metavar="NAME|PATH", help="only this project's")
@click.option(
    "--status",
    default="",
    type=click.Choice(["", *kept.STATUSES]),
    metavar="STATUS",
    help=f"only these: {', '.join(kept.STATUSES)}",
)
@click.option("--limit", default=20, show_default=True, type=click.IntRange(1), help="how many")
@click.option("--json", "as_json", is_flag=True, help="print JSON")
def list_sessions(project: str, status: str, limit: int, as_json: bool) -> None:
    """The sessions, the latest first."""
    session_rows = kept.list_sessions(
        open_drained_store(paths.get_home()), limit=limit, project=_resolve_project(project), status=status
    )
    if as_json:
        click.echo(json.dumps([_to_json(session) for session in session_rows], indent=2))
    elif session_rows:
        echo_table([*_COLUMNS, "first prompt"], _format_rows(session_rows))
    else:
        click.echo("no such session" if project or status else "no session yet: hardwon import transcripts")


def _resolve_project(name: str) -> str:
    """A path means the project it lies in, whatever else is a name."""
    is_path = os.sep in name or name in (".", "..", "~")
    return projects.find_project_path(os.path.abspath(os.path.expanduser(name))) if is_path else name


def _format_rows(session_rows: list[dict[str, Any]]) -> list[list[str]]:
    """Each session on one line, its first prompt cut to the room that is left."""
    rows = [_format_row(session) for session in session_rows]
    used_width = sum(max(map(len, column)) + 2 for column in zip(_COLUMNS, *rows, strict=True))
    text_width = max(get_width() - used_width, MIN_TEXT_WIDTH)
    return [
        [*row, to_printable_line(session["first_prompt"], text_width)]
        for row, session in zip(rows, session_rows, strict=True)
    ]


def _format_row(session: dict[str, Any]) -> list[str]:
    when = datetime.fromtimestamp(session["last_at"]).strftime("%m-%d %H:%M")
    project = to_printable_line(session["project"] or "-", 14)
    return [str(session["id"]), when, project, str(session["prompts"]), str(session["events"]), session["status"]]


@sessions.command()
@click.argument("name", metavar="ID")
@click.option("--json", "as_json", is_flag=True, help="print JSON, complete")
def show(name: str, as_json: bool) -> None:
    """One session: what was asked, done and delivered, in order. ID: its number, its id, or a beginning of that."""
    connection = open_drained_store(paths.get_home())
    session = _find_session(connection, name)
    timeline = _build_timeline(connection, session)
    if as_json:
        counts = {plural: sum(step["what"] == kind for step in timeline) for kind, plural in _PLURALS.items()}
        steps = [{**step, "at": clock.format_iso(step["at"])} for step in timeline]
        summary = observations.find_summary(connection, session["id"])
        report = {
            **_to_json(session),
            "counts": counts,
            "summary": summary and dict(summary.__dict__),
            "timeline": steps,
        }
        click.echo(json.dumps(report, indent=2))
        return
    for line in _format_header(session):
        click.echo(make_printable(line))
    for step in timeline:
        click.echo(_format_step(step))
    for line in _format_summary(observations.find_summary(connection, session["id"])):
        click.echo(line)


def _build_timeline(connection: db.Connection, session: dict[str, Any]) -> list[dict[str, Any]]:
    """What was asked, delivered, done and observed, in the order of their times."""
    steps = [
        *({"what": "prompt", **row} for row in kept.list_prompt_rows(connection, session["id"])),
        *(
            {"what": "delivery", **row}
            for row in kept.list_session_deliveries(connection, session["host"], session["session"])
        ),
        *({"what": "event", **row} for row in kept.list_events(connection, session["id"])),
        *({"what": "observation", **row} for row in observations.list_rows_for_session(connection, session["id"])),
    ]
    return sorted(steps, key=lambda step: float(step["at"]))


def _format_header(session: dict[str, Any]) -> list[str]:
    ended = f", ended {_format_time(session['ended_at'])}" if session["ended_at"] else ""
    reason = f" ({session['reason']})" if session["reason"] else ""
    return [
        f"session   {session['session']}, number {session['id']}, {session['host']}",
        f"project   {session['project_path'] or session['cwd'] or '-'}",
        f"status    {session['status']}; began {_format_time(session['started_at'])}{ended}{reason}",
        f"recorded  {pluralize(session['prompts'], 'prompt')}, {pluralize(session['events'], 'event')}",
        "",
    ]


def _format_time(timestamp: float) -> str:
    return datetime.fromtimestamp(timestamp).strftime("%Y-%m-%d %H:%M")


def _format_step(step: dict[str, Any]) -> str:
    """One line of a session's timeline."""
    when = datetime.fromtimestamp(step["at"]).strftime("%H:%M:%S")
    if step["what"] == "prompt":
        lead, text = "> ", step["prompt"]
    elif step["what"] == "delivery":
        lead, text = f"  {step['delivery']}: ", f"{step['summary']} [{step['slug']}]"
    elif step["what"] == "observation":
        lead, text = f"  O{step['id']} {step['type']}: ", step["title"]
    elif step["kind"] == "tool":
        outcome = "" if step["outcome"] == "fine" else f" ({step['outcome']})"
        lead, text = f"  {step['tool']}{outcome}: ", _describe_input(step["input"])
    else:
        lead, text = f"  {step['kind']} ", step["response"]
    agent = f" [{step['agent']}]" if step.get("agent") else ""
    return make_printable(f"{when}{agent}  {lead}{to_printable_line(text, _MAX_LINE_CHARS)}").rstrip()


def _format_summary(summary: Summary | None) -> list[str]:
    """A session's summary: each part that says something, its lines below each other."""
    if summary is None:
        return []
    parts = [
        (name, getattr(summary, name)) for name in ("request", "investigated", "learned", "completed", "next_steps")
    ]
    rows = [(name if is_first else "", line) for name, text in parts for is_first, line in _wrap_text(text)]
    return ["", *(make_printable(f"{name.replace('_', ' '):<13} {line}").rstrip() for name, line in rows)]


def _wrap_text(text: str) -> list[tuple[bool, str]]:
    wrapped = [part for line in text.splitlines() for part in wrap(line, max(get_width() - 14, MIN_TEXT_WIDTH))]
    return [(number == 0, line) for number, line in enumerate(wrapped)]


def _describe_input(tool_input: Any) -> str:
    """What a call was about: its command or path, else all it was given."""
    if not isinstance(tool_input, dict):
        return str(tool_input or "")
    for name in ("command", "file_path", "notebook_path", "path", "pattern", "url", "query", "description"):
        if isinstance(tool_input.get(name), str) and tool_input[name]:
            return str(tool_input[name])
    return json.dumps(tool_input) if tool_input else ""


@sessions.command()
@click.argument("name", metavar="ID")
@click.option("--yes", is_flag=True, help="without asking")
def delete(name: str, yes: bool) -> None:
    """Delete a session with its prompts, events and deliveries, and what was distilled from them."""
    require_person("deleting a session")
    connection = open_drained_store(paths.get_home())
    session = _find_session(connection, name)
    contents = f"{pluralize(session['prompts'], 'prompt')} and {pluralize(session['events'], 'event')}"
    if not yes:
        if not is_interactive():
            raise UserError("deleting is final, and there is nobody to ask", f"hardwon sessions delete {name} --yes")
        question = make_printable(f"Delete session {session['session']} ({session['project'] or '-'}) with {contents}?")
        click.confirm(question, abort=True)
    with hold_purge_lock(paths.get_home()):
        deliveries = kept.delete(connection, session["id"])
        compiled_brief.delete_all(paths.get_home())
    _erase_traces(connection)
    click.echo(
        make_printable(f"deleted   session {session['session']}: {contents}, {_format_delivery_count(deliveries)}")
    )
    click.echo("kept      what hardwon scan found in its transcript, and the transcript itself, which is the agent's")


def _erase_traces(connection: db.Connection) -> None:
    """What is deleted stays readable in unused parts of the file until that is written anew."""
    try:
        documents.rebuild_word_index(connection)
        retention.rebuild_database(connection)
        retention.release_free_pages(connection, lambda: True)
    except db.StoreError as error:
        click.echo(f"traces may be left in unused parts of {paths.DATABASE}: {error}", err=True)


def _format_delivery_count(count: int) -> str:
    return f"{count} {'delivery' if count == 1 else 'deliveries'}"


def _find_session(connection: db.Connection, name: str) -> dict[str, Any]:
    matches = kept.find_by_name(connection, name) if name.strip() else []
    if not matches:
        latest = ", ".join(_format_title(session) for session in kept.list_sessions(connection, limit=MAX_SHOWN))
        raise UserError(f"there is no session {name!r}", f"hardwon sessions list{latest and f'   (latest: {latest})'}")
    if len(matches) > 1:
        titles = ", ".join(_format_title(session) for session in matches[:MAX_SHOWN])
        more_note = f" and {len(matches) - MAX_SHOWN} more" if len(matches) > MAX_SHOWN else ""
        raise UserError(
            f"{name!r} is the beginning of {len(matches)} sessions: {titles}{more_note}", "give more of the id"
        )
    return matches[0]


def _format_title(session: dict[str, Any]) -> str:
    return make_printable(f"{session['session']} (number {session['id']})")


def _to_json(session: dict[str, Any]) -> dict[str, Any]:
    """A session as JSON says it, its times readable."""
    return {key: clock.format_iso(value) if key in _TIME_FIELDS and value else value for key, value in session.items()}


def open_drained_store(home: str) -> db.Connection:
    """The home's database, with what waited in the spool taken in."""
    connection = db.connect(home)
    drain_spool(connection, home)
    return connection


def drain_spool(connection: db.Connection, home: str) -> None:
    def handle_prompt(prompt: str, cwd: str) -> str:
        from hardwon.actions import prompts

        return prompts.handle_spooled_prompt(home, prompt, cwd)

    ingest.drain_spool(home, connection, handle_prompt)
