"""sessions list, sessions show, sessions delete"""

from __future__ import annotations

import os
from collections import Counter
from textwrap import wrap

import click

from hardwon import clock, paths, projects
from hardwon.agents.tool_results import find_describing_text
from hardwon.cli import CommandGroup
from hardwon.cli.completions import complete_sessions
from hardwon.cli.context import json_option, open_store, require_consent, require_person, yes_option
from hardwon.cli.output import echo_json, echo_table, echo_text, format_time, format_times, get_width
from hardwon.lessons import compiled_brief
from hardwon.store import db, documents, retention
from hardwon.store.sessions import STATUSES, delete, describe_status, list_sessions
from hardwon.text.characters import format_count, to_printable_line
from hardwon.types import AGENT_MESSAGE, Summary

_MAX_LINE_CHARS = 160
_MIN_TEXT_WIDTH = 12
_SUMMARY_WIDTH = 14
_COLUMNS = ("id", "when", "project", "prompts", "events", "status")
_TIME_FIELDS = ("started_at", "last_at", "ended_at")
_PLURALS = {"prompt": "prompts", "event": "events", "delivery": "deliveries", "observation": "observations"}


@click.group(cls=CommandGroup)
def sessions() -> None:
    """List, show and delete recorded sessions."""


@sessions.command("list")
@click.option("--project", default="", metavar="NAME|PATH", help="only this project's")
@click.option("--status", "wanted_status", type=click.Choice(STATUSES), help="only these")
@click.option("--limit", default=20, show_default=True, type=click.IntRange(1), help="how many")
@json_option
def print_sessions(project: str, wanted_status: str | None, limit: int, as_json: bool) -> None:
    """List sessions, latest first."""
    # A path means the project that it lies in; anything else is a name.
    if os.sep in project or project in (".", "..", "~"):
        project = projects.find_project_path(os.path.abspath(os.path.expanduser(project)))
    with open_store(drain=True) as connection:
        records = list_sessions(connection, limit=limit, project=project, status=wanted_status or "")
    if as_json:
        echo_json([format_times(session, *_TIME_FIELDS) for session in records])
        return
    if not records:
        click.echo("no such session" if project or wanted_status else "no session yet: hardwon import transcripts")
        return
    rows = []
    for session in records:
        is_this_year = format_time(session["last_at"], "%Y") == format_time(clock.now(), "%Y")
        when = format_time(session["last_at"], "%m-%d %H:%M" if is_this_year else "%Y-%m-%d")
        project_name = to_printable_line(session["project"] or "-", 14)
        counts = [str(session["prompts"]), str(session["events"])]
        rows.append(
            [str(session["id"]), when, project_name, *counts, describe_status(session["status"], session["last_at"])]
        )
    # Each session stays on one line: its first prompt gets the room that is left.
    columns = zip(_COLUMNS, *rows, strict=True)  # each with its heading first
    column_widths = [max(map(len, column)) for column in columns]
    used_width = sum(column_widths) + 2 * len(column_widths)  # two spaces behind each column
    text_width = max(get_width() - used_width, _MIN_TEXT_WIDTH)
    for row, session in zip(rows, records, strict=True):
        row.append(to_printable_line(session["first_prompt"], text_width))
    echo_table([*_COLUMNS, "first prompt"], rows)


@sessions.command()
@click.argument("name", metavar="ID", shell_complete=complete_sessions)
@click.option("--json", "as_json", is_flag=True, help="print JSON, complete")
def show(name: str, as_json: bool) -> None:
    """Show what was asked, done and delivered in a session.

    ID: its number, its id, or the start of that.
    """
    from hardwon.sessions.lookup import find_session, list_steps
    from hardwon.store import observations

    with open_store(drain=True) as connection:
        session = find_session(connection, name)
        steps = list_steps(connection, session)
        summary = observations.find_summary(connection, session["id"])
    if as_json:
        step_counts = Counter(step["what"] for step in steps)
        counts = {plural: step_counts[kind] for kind, plural in _PLURALS.items()}
        timeline = [{**step, "at": clock.format_iso(step["at"])} for step in steps]
        summary_fields = summary and dict(summary.__dict__)
        fields = format_times(session, *_TIME_FIELDS)
        echo_json({**fields, "counts": counts, "summary": summary_fields, "timeline": timeline})
        return
    status = f"{describe_status(session['status'], session['last_at'])}; began {format_time(session['started_at'])}"
    if session["ended_at"]:
        status += f", ended {format_time(session['ended_at'])}"
    if session["reason"]:
        status += f" ({session['reason']})"
    echo_text(f"session   {session['session']}, number {session['id']}, {session['host']}")
    echo_text(f"project   {session['project_path'] or session['cwd'] or '-'}")
    echo_text(f"status    {status}")
    click.echo(f"recorded  {_count_contents(session, ', ')}\n")
    for step in steps:
        echo_text(_format_step(step, session["cwd"]))
    if summary:
        _print_summary(summary)


def _count_contents(session: db.Row, separator: str) -> str:
    """Return how many prompts and events a session has."""
    return f"{format_count(session['prompts'], 'prompt')}{separator}{format_count(session['events'], 'event')}"


def _format_step(step: db.Row, folder: str) -> str:
    """Return a step of a session as one line; the path of a file in the session's folder is relative to it."""
    when = format_time(step["at"], "%H:%M:%S")
    if step["what"] == "prompt":
        lead = "> "
        text = step["prompt"]
    elif step["what"] == "delivery":
        lead = f"  {step['delivery']}: "
        text = f"{step['summary']} [{step['slug']}]"
    elif step["what"] == "observation":
        lead = f"  O{step['id']} {step['type']}: "
        text = step["title"]
    elif step["kind"] == "tool":
        outcome = "" if step["outcome"] == "fine" else f" ({step['outcome']})"
        lead = f"  {step['tool']}{outcome}: "
        described_input = find_describing_text(step["input"])
        in_folder = described_input.removeprefix(folder)
        text = in_folder[1:] if in_folder.startswith(("/", "\\")) else described_input
    elif step["response"] and step["kind"] in ("Stop", "SubagentStop", AGENT_MESSAGE):
        lead = "< "
        text = step["response"]
    else:
        lead = f"  {step['kind']} "
        text = step["response"]
    if step.get("agent"):  # a sub-agent's
        when += f" [{step['agent']}]"
    return f"{when}  {lead}{to_printable_line(text, _MAX_LINE_CHARS)}".rstrip()


def _print_summary(summary: Summary) -> None:
    """Print the parts of a summary, each with its name in front of its first line."""
    click.echo()
    for name in ("request", "investigated", "learned", "completed", "next_steps"):
        label = name.replace("_", " ")
        for line in getattr(summary, name).splitlines():
            for part in wrap(line, max(get_width() - _SUMMARY_WIDTH, _MIN_TEXT_WIDTH)):
                echo_text(f"{label:<{_SUMMARY_WIDTH}}{part}")
                label = ""  # only the first line of a part is labelled


@sessions.command("delete")
@click.argument("name", metavar="ID", shell_complete=complete_sessions)
@yes_option
def delete_session(name: str, yes: bool) -> None:
    """Delete a session with its prompts, events and deliveries, and what was distilled from them."""
    from hardwon.sessions.lookup import find_session
    from hardwon.store.purge import hold_purge_lock

    require_person("deleting a session")
    home = paths.get_home()
    with open_store(drain=True) as connection:
        session = find_session(connection, name)
        contents = _count_contents(session, " and ")
        question = f"Delete session {session['session']} ({session['project'] or '-'}) with {contents}?"
        require_consent(yes, question)
        with hold_purge_lock(home):
            delivery_count = delete(connection, session["id"])
            compiled_brief.delete_all(home)
        try:
            # Deleted rows stay readable in unused pages of the file until it is rewritten.
            documents.rebuild_word_index(connection)
            retention.rebuild_database(connection)
            retention.release_free_pages(connection, lambda: True)
        except db.StoreError as error:
            click.echo(f"traces may remain in unused parts of {paths.DATABASE}: {error}", err=True)
    deliveries = format_count(delivery_count, "delivery")
    echo_text(f"deleted   session {session['session']}: {contents}, {deliveries}")
    click.echo("kept      what hardwon scan found in its transcript, and the transcript itself, which is the agent's")
