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
_TIMES = ("started_at", "last_at", "ended_at")
_LONGEST_LINE = 160
_COUNTED = {"prompt": "prompts", "event": "events", "delivery": "deliveries", "observation": "observations"}


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
    found = kept.list_sessions(
        open_drained_store(paths.get_home()), limit=limit, project=_project(project), status=status
    )
    if as_json:
        click.echo(json.dumps([_plain(one) for one in found], indent=2))
    elif found:
        echo_table([*_COLUMNS, "first prompt"], _rows(found))
    else:
        click.echo("no such session" if project or status else "no session yet: hardwon import transcripts")


def _project(named: str) -> str:
    """A path means the project it lies in, whatever else is a name."""
    is_path = os.sep in named or named in (".", "..", "~")
    return projects.find_project_path(os.path.abspath(os.path.expanduser(named))) if is_path else named


def _rows(found: list[dict[str, Any]]) -> list[list[str]]:
    """Each session on one line, its first prompt cut to the room that is left."""
    rows = [_row(one) for one in found]
    taken = sum(max(map(len, column)) + 2 for column in zip(_COLUMNS, *rows, strict=True))
    room = max(get_width() - taken, MIN_TEXT_WIDTH)
    return [[*row, to_printable_line(one["first_prompt"], room)] for row, one in zip(rows, found, strict=True)]


def _row(one: dict[str, Any]) -> list[str]:
    when = datetime.fromtimestamp(one["last_at"]).strftime("%m-%d %H:%M")
    project = to_printable_line(one["project"] or "-", 14)
    return [str(one["id"]), when, project, str(one["prompts"]), str(one["events"]), one["status"]]


@sessions.command()
@click.argument("name", metavar="ID")
@click.option("--json", "as_json", is_flag=True, help="print JSON, complete")
def show(name: str, as_json: bool) -> None:
    """One session: what was asked, done and delivered, in order. ID: its number, its id, or a beginning of that."""
    connection = open_drained_store(paths.get_home())
    one = _named(connection, name)
    timeline = _timeline(connection, one)
    if as_json:
        counts = {names: sum(step["what"] == what for step in timeline) for what, names in _COUNTED.items()}
        told = [{**step, "at": clock.format_iso(step["at"])} for step in timeline]
        summary = observations.find_summary(connection, one["id"])
        whole = {**_plain(one), "counts": counts, "summary": summary and dict(summary.__dict__), "timeline": told}
        click.echo(json.dumps(whole, indent=2))
        return
    for line in _head(one):
        click.echo(make_printable(line))
    for step in timeline:
        click.echo(_line(step))
    for line in _summed_up(observations.find_summary(connection, one["id"])):
        click.echo(line)


def _timeline(connection: db.Connection, one: dict[str, Any]) -> list[dict[str, Any]]:
    """What was asked, delivered, done and observed, in the order of their times."""
    told = [
        *({"what": "prompt", **row} for row in kept.list_prompt_rows(connection, one["id"])),
        *({"what": "delivery", **row} for row in kept.list_session_deliveries(connection, one["host"], one["session"])),
        *({"what": "event", **row} for row in kept.list_events(connection, one["id"])),
        *({"what": "observation", **row} for row in observations.list_rows_for_session(connection, one["id"])),
    ]
    return sorted(told, key=lambda step: float(step["at"]))


def _head(one: dict[str, Any]) -> list[str]:
    ended = f", ended {_when(one['ended_at'])}" if one["ended_at"] else ""
    reason = f" ({one['reason']})" if one["reason"] else ""
    return [
        f"session   {one['session']}, number {one['id']}, {one['host']}",
        f"project   {one['project_path'] or one['cwd'] or '-'}",
        f"status    {one['status']}; began {_when(one['started_at'])}{ended}{reason}",
        f"recorded  {pluralize(one['prompts'], 'prompt')}, {pluralize(one['events'], 'event')}",
        "",
    ]


def _when(at: float) -> str:
    return datetime.fromtimestamp(at).strftime("%Y-%m-%d %H:%M")


def _line(step: dict[str, Any]) -> str:
    """One line of a session's timeline."""
    when = datetime.fromtimestamp(step["at"]).strftime("%H:%M:%S")
    if step["what"] == "prompt":
        lead, said = "> ", step["prompt"]
    elif step["what"] == "delivery":
        lead, said = f"  {step['delivery']}: ", f"{step['summary']} [{step['slug']}]"
    elif step["what"] == "observation":
        lead, said = f"  O{step['id']} {step['type']}: ", step["title"]
    elif step["kind"] == "tool":
        outcome = "" if step["outcome"] == "fine" else f" ({step['outcome']})"
        lead, said = f"  {step['tool']}{outcome}: ", _about(step["input"])
    else:
        lead, said = f"  {step['kind']} ", step["response"]
    agent = f" [{step['agent']}]" if step.get("agent") else ""
    return make_printable(f"{when}{agent}  {lead}{to_printable_line(said, _LONGEST_LINE)}").rstrip()


def _summed_up(summary: Summary | None) -> list[str]:
    """A session's summary: each part that says something, its lines below each other."""
    if summary is None:
        return []
    parts = [
        (name, getattr(summary, name)) for name in ("request", "investigated", "learned", "completed", "next_steps")
    ]
    rows = [(name if first else "", line) for name, text in parts for first, line in _lines(text)]
    return ["", *(make_printable(f"{name.replace('_', ' '):<13} {line}").rstrip() for name, line in rows)]


def _lines(text: str) -> list[tuple[bool, str]]:
    wrapped = [part for line in text.splitlines() for part in wrap(line, max(get_width() - 14, MIN_TEXT_WIDTH))]
    return [(number == 0, line) for number, line in enumerate(wrapped)]


def _about(given: Any) -> str:
    """What a call was about: its command or path, else all it was given."""
    if not isinstance(given, dict):
        return str(given or "")
    for name in ("command", "file_path", "notebook_path", "path", "pattern", "url", "query", "description"):
        if isinstance(given.get(name), str) and given[name]:
            return str(given[name])
    return json.dumps(given) if given else ""


@sessions.command()
@click.argument("name", metavar="ID")
@click.option("--yes", is_flag=True, help="without asking")
def delete(name: str, yes: bool) -> None:
    """Delete a session with its prompts, events and deliveries, and what was distilled from them."""
    require_person("deleting a session")
    connection = open_drained_store(paths.get_home())
    one = _named(connection, name)
    what = f"{pluralize(one['prompts'], 'prompt')} and {pluralize(one['events'], 'event')}"
    if not yes:
        if not is_interactive():
            raise UserError("deleting is final, and there is nobody to ask", f"hardwon sessions delete {name} --yes")
        asked = make_printable(f"Delete session {one['session']} ({one['project'] or '-'}) with {what}?")
        click.confirm(asked, abort=True)
    with hold_purge_lock(paths.get_home()):
        deliveries = kept.delete(connection, one["id"])
        compiled_brief.delete_all(paths.get_home())
    _wipe(connection)
    click.echo(make_printable(f"deleted   session {one['session']}: {what}, {_deliveries(deliveries)}"))
    click.echo("kept      what hardwon scan found in its transcript, and the transcript itself, which is the agent's")


def _wipe(connection: db.Connection) -> None:
    """What is deleted stays readable in unused parts of the file until that is written anew."""
    try:
        documents.rebuild_word_index(connection)
        retention.rebuild_database(connection)
        retention.release_free_pages(connection, lambda: True)
    except db.StoreError as wrong:
        click.echo(f"traces may be left in unused parts of {paths.DATABASE}: {wrong}", err=True)


def _deliveries(count: int) -> str:
    return f"{count} {'delivery' if count == 1 else 'deliveries'}"


def _named(connection: db.Connection, name: str) -> dict[str, Any]:
    found = kept.find_by_name(connection, name) if name.strip() else []
    if not found:
        latest = ", ".join(_title(one) for one in kept.list_sessions(connection, limit=MAX_SHOWN))
        raise UserError(f"there is no session {name!r}", f"hardwon sessions list{latest and f'   (latest: {latest})'}")
    if len(found) > 1:
        shown = ", ".join(_title(one) for one in found[:MAX_SHOWN])
        more = f" and {len(found) - MAX_SHOWN} more" if len(found) > MAX_SHOWN else ""
        raise UserError(f"{name!r} is the beginning of {len(found)} sessions: {shown}{more}", "give more of the id")
    return found[0]


def _title(one: dict[str, Any]) -> str:
    return make_printable(f"{one['session']} (number {one['id']})")


def _plain(one: dict[str, Any]) -> dict[str, Any]:
    """A session as JSON says it, its times readable."""
    return {key: clock.format_iso(value) if key in _TIMES and value else value for key, value in one.items()}


def open_drained_store(home: str) -> db.Connection:
    """The home's database, with what waited in the spool taken in."""
    connection = db.connect(home)
    drain_spool(connection, home)
    return connection


def drain_spool(connection: db.Connection, home: str) -> None:
    def learn(prompt: str, cwd: str) -> str:
        from hardwon.actions import prompts

        return prompts.handle_spooled_prompt(home, prompt, cwd)

    ingest.drain_spool(home, connection, learn)
