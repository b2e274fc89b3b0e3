"""handoff list, show, ratify, amend, discard, write; resume"""

from __future__ import annotations

import json
import os
import sys
from typing import Any

import click

from hardwon import actor, clock, paths, projects, settings
from hardwon.actions import handoffs as actions
from hardwon.cli.output import (
    echo_field,
    echo_indented,
    echo_table,
    format_age,
    is_interactive,
    make_printable,
    to_printable_line,
)
from hardwon.cli.person_only import require_person
from hardwon.errors import UserError
from hardwon.handoff import handoffs, ratification
from hardwon.search import brief
from hardwon.store import db, reflections
from hardwon.store.approvals import COMMAND_LINE
from hardwon.store.reflections import DRAFT, RATIFIED, Reflection

_TEMPLATE = "## Summary\n\n\n## Decisions\n\n\n## Open ends\n\n\n## Resume Prompt\n\n\nConfidence: M\n"


@click.group()
def handoff() -> None:
    """What sessions leave for the next: read, ratify, amend, discard, write."""


@handoff.command("list")
@click.option("--all", "everywhere", is_flag=True, help="every project's")
@click.option("--status", type=click.Choice(reflections.STATUSES), help="only these")
@click.option("--json", "as_json", is_flag=True, help="print JSON")
def list_handoffs(everywhere: bool, status: str | None, as_json: bool) -> None:
    """The handoffs of this project, newest first: drafts, and what was ratified."""
    statuses = (status,) if status else (DRAFT, RATIFIED)
    project = None if everywhere else projects.find_project_path(os.getcwd())
    connection = db.connect(paths.get_home())
    found = reflections.list_reflections(connection, *statuses, project=project)
    if as_json:
        click.echo(json.dumps([_plain(connection, one) for one in found], indent=2))
        return
    if not found:
        click.echo(
            "no handoffs" + (" like that" if status else " yet: hardwon reflect SESSION, or hardwon handoff write")
        )
        return
    rows = [
        [
            str(one.id),
            format_age(one.at),
            _state(connection, one),
            f"{to_printable_line(_topic(one), 200)}\n{one.draft}",
        ]
        for one in found
    ]
    echo_table(["no", "when", "state", "about, and its file"], rows)
    if any(one.status == DRAFT for one in found):
        click.echo("a person decides: hardwon handoff show NO, then ratify, amend or discard")


def _topic(one: Reflection) -> str:
    page = handoffs.read_page(one)
    return page.topic if page else one.topic


def _state(connection: db.Connection, one: Reflection) -> str:
    page = handoffs.read_page(one)
    if one.status in (DRAFT, RATIFIED) and page is None:
        return f"{one.status}, file gone"
    if page and page.is_edited:
        return "edited, not told"
    if one.status == RATIFIED and not handoffs.is_approved(connection, one):
        return "not approved, not told"
    return one.status


def _plain(connection: db.Connection, one: Reflection) -> dict[str, Any]:
    page = handoffs.read_page(one)
    return {
        "id": one.id,
        "status": one.status,
        "state": _state(connection, one),
        "session": one.session,
        "host": one.host,
        "project": one.project,
        "at": clock.format_iso(one.at),
        "kind": one.kind,
        "file": one.draft,
        "topic": page.topic if page else one.topic,
        "confidence": page.confidence if page else one.confidence,
        "resume": handoffs.get_resume_lines(page) if page else one.resume.splitlines(),
        "decided_at": clock.format_iso(one.decided_at) if one.decided_at else None,
    }


@handoff.command()
@click.argument("name", metavar="NO|SESSION")
@click.option("--json", "as_json", is_flag=True, help="print JSON")
def show(name: str, as_json: bool) -> None:
    """One handoff as its file says it now."""
    connection = db.connect(paths.get_home())
    one = handoffs.find_handoff(connection, name)
    page = handoffs.read_page(one)
    if as_json:
        more = {"sections": dict(page.sections), "text": page.text} if page else {}
        click.echo(json.dumps({**_plain(connection, one), **more}, indent=2))
        return
    echo_indented(f"{one.id}  ", _topic(one), bold=True)
    for label, text in (("state", _state(connection, one)), ("session", one.session), ("file", one.draft)):
        echo_field(label, text)
    click.echo(f"\n{page.text}" if page else "\nits file is gone, or no file of its own")
    if one.status == DRAFT and page:
        click.echo(f"\na person decides: hardwon handoff ratify {one.id}, amend {one.id} or discard {one.id}")


@handoff.command("ratify")
@click.argument("names", nargs=-1, required=True, metavar="NO|SESSION…")
@click.option("--commit/--no-commit", "commits", default=None, help="one git commit of just these files")
def ratify_handoffs(names: tuple[str, ...], commits: bool | None) -> None:
    """Let handoffs count: write their pages, and approve the memories they name.

    What the draft says now is what counts; take out what is wrong first. Nothing is ever pushed.
    """
    require_person("ratifying a handoff")
    home, now = paths.get_home(), clock.now()
    connection, values = db.connect(home), settings.resolve_settings(settings.read_config(home))
    for name in names:
        wanted = bool(values.get("handoffCommit")) if commits is None else commits
        known = handoffs.find_handoff(connection, name)
        done = actions.ratify_handoff(connection, home, known, COMMAND_LINE, now, should_commit=wanted)
        click.echo(make_printable("\n".join(ratification.describe_result(done))))
    brief.refresh_brief(connection, home, projects.find_project_path(os.getcwd()))


@handoff.command()
@click.argument("name", metavar="NO|SESSION")
def amend(name: str) -> None:
    """Open a handoff in your editor; a ratified one counts as you leave it."""
    home = paths.get_home()
    connection = db.connect(home)
    one = handoffs.find_handoff(connection, name)
    if one.status == RATIFIED:
        require_person("amending what was ratified")
    if handoffs.read_page(one) is None:
        raise UserError(f"its file is gone, or no file of its own: {one.draft}", "hardwon handoff list")
    if not is_interactive():
        raise UserError("this is not a terminal, so no editor can be opened", f"edit {one.draft}")
    click.edit(filename=one.draft)
    page = handoffs.read_page(one)
    if page and page.is_edited:
        actions.ratify_handoff(connection, home, one, COMMAND_LINE, clock.now())
        brief.refresh_brief(connection, home, projects.find_project_path(os.getcwd()))
    then = "" if one.status == RATIFIED else f"; now: hardwon handoff ratify {one.id}"
    click.echo(make_printable(f"amended: {one.draft}{then}"))


@handoff.command()
@click.argument("names", nargs=-1, required=True, metavar="NO|SESSION…")
def discard(names: tuple[str, ...]) -> None:
    """Say no to drafts; their files are deleted."""
    require_person("discarding a handoff")
    home, now = paths.get_home(), clock.now()
    connection = db.connect(home)
    for name in names:
        one = handoffs.find_handoff(connection, name)
        ratification.discard(connection, one, now)
        click.echo(make_printable(f"discarded: handoff {one.id}, {one.draft} is deleted"))
    brief.refresh_brief(connection, home, projects.find_project_path(os.getcwd()))


@handoff.command()
@click.argument("text", nargs=-1, metavar="[TEXT…]")
@click.option("--session", "name", default="", metavar="ID", help="whose; else the last one here")
@click.option("--topic", default="", metavar="TEXT", help="what it was about")
def write(text: tuple[str, ...], name: str, topic: str) -> None:
    """Hand a session off yourself. TEXT is what to say to the next one.

    Without TEXT it is read from stdin, or written in your editor. A draft of the session is no longer wanted then.
    What a person writes counts at once; what an agent writes is a draft.
    """
    home, now = paths.get_home(), clock.now()
    connection, mark = db.connect(home), actor.find_agent_variable(os.environ)
    said = " ".join(text) or (click.edit(_TEMPLATE, extension=".md") or "" if is_interactive() else sys.stdin.read())
    if not said.strip() or said == _TEMPLATE:
        raise UserError("there is nothing to hand off", "hardwon handoff write TEXT")
    if mark:
        one = ratification.save_session_handoff(
            connection, home, said, os.getcwd(), now=now, is_ratified=False, name=name, topic=topic
        )
    else:
        one = actions.write_handoff(connection, home, said, os.getcwd(), COMMAND_LINE, now=now, name=name, topic=topic)
    brief.refresh_brief(connection, home, projects.find_project_path(os.getcwd()))
    state = f"written as a draft, since {mark} says an agent runs this" if mark else "written"
    click.echo(make_printable(f"{state}: handoff {one.id}, {one.draft}"))


@click.command()
@click.option("--json", "as_json", is_flag=True, help="print JSON")
def resume(as_json: bool) -> None:
    """Where the last session in this project left off, and what comes next."""
    home, project = paths.get_home(), projects.find_project_path(os.getcwd())
    connection = db.connect(home)
    draft = handoffs.find_waiting_draft(connection, project)
    page = handoffs.find_latest_page(connection, home, project)
    if as_json:
        said = {
            "draft": _plain(connection, draft) if draft else None,
            "handoff": _plain(connection, page.reflection) if page else None,
        }
        click.echo(json.dumps(said, indent=2))
        return
    if draft:
        click.echo(make_printable(f"{handoffs.build_banner(draft)} (hardwon handoff show {draft.id})"))
    if page:
        echo_indented(f"{page.reflection.id}  ", page.topic, bold=True)
        echo_field("ratified", format_age(page.reflection.decided_at or page.reflection.at))
        echo_field("file", page.path)
        click.echo()
        for line in handoffs.get_resume_lines(page):
            echo_indented("   ", line)
    if not draft and not page:
        click.echo("no session here was handed off yet: hardwon handoff write TEXT")
