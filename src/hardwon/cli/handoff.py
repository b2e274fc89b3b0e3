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
    matches = reflections.list_reflections(connection, *statuses, project=project)
    if as_json:
        click.echo(json.dumps([_to_json(connection, reflection) for reflection in matches], indent=2))
        return
    if not matches:
        click.echo(
            "no handoffs" + (" like that" if status else " yet: hardwon reflect SESSION, or hardwon handoff write")
        )
        return
    rows = [
        [
            str(reflection.id),
            format_age(reflection.at),
            _describe_state(connection, reflection),
            f"{to_printable_line(_read_topic(reflection), 200)}\n{reflection.draft}",
        ]
        for reflection in matches
    ]
    echo_table(["no", "when", "state", "about, and its file"], rows)
    if any(reflection.status == DRAFT for reflection in matches):
        click.echo("a person decides: hardwon handoff show NO, then ratify, amend or discard")


def _read_topic(reflection: Reflection) -> str:
    page = handoffs.read_page(reflection)
    return page.topic if page else reflection.topic


def _describe_state(connection: db.Connection, reflection: Reflection) -> str:
    page = handoffs.read_page(reflection)
    if reflection.status in (DRAFT, RATIFIED) and page is None:
        return f"{reflection.status}, file gone"
    if page and page.is_edited:
        return "edited, not told"
    if reflection.status == RATIFIED and not handoffs.is_approved(connection, reflection):
        return "not approved, not told"
    return reflection.status


def _to_json(connection: db.Connection, reflection: Reflection) -> dict[str, Any]:
    page = handoffs.read_page(reflection)
    return {
        "id": reflection.id,
        "status": reflection.status,
        "state": _describe_state(connection, reflection),
        "session": reflection.session,
        "host": reflection.host,
        "project": reflection.project,
        "at": clock.format_iso(reflection.at),
        "kind": reflection.kind,
        "file": reflection.draft,
        "topic": page.topic if page else reflection.topic,
        "confidence": page.confidence if page else reflection.confidence,
        "resume": handoffs.get_resume_lines(page) if page else reflection.resume.splitlines(),
        "decided_at": clock.format_iso(reflection.decided_at) if reflection.decided_at else None,
    }


@handoff.command()
@click.argument("name", metavar="NO|SESSION")
@click.option("--json", "as_json", is_flag=True, help="print JSON")
def show(name: str, as_json: bool) -> None:
    """One handoff as its file says it now."""
    connection = db.connect(paths.get_home())
    reflection = handoffs.find_handoff(connection, name)
    page = handoffs.read_page(reflection)
    if as_json:
        page_fields = {"sections": dict(page.sections), "text": page.text} if page else {}
        click.echo(json.dumps({**_to_json(connection, reflection), **page_fields}, indent=2))
        return
    echo_indented(f"{reflection.id}  ", _read_topic(reflection), bold=True)
    for label, text in (
        ("state", _describe_state(connection, reflection)),
        ("session", reflection.session),
        ("file", reflection.draft),
    ):
        echo_field(label, text)
    click.echo(f"\n{page.text}" if page else "\nits file is gone, or no file of its own")
    if reflection.status == DRAFT and page:
        click.echo(
            f"\na person decides: hardwon handoff ratify {reflection.id}, amend {reflection.id} or discard "
            f"{reflection.id}"
        )


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
        should_commit = bool(values.get("handoffCommit")) if commits is None else commits
        reflection = handoffs.find_handoff(connection, name)
        result = actions.ratify_handoff(connection, home, reflection, COMMAND_LINE, now, should_commit=should_commit)
        click.echo(make_printable("\n".join(ratification.describe_result(result))))
    brief.refresh_brief(connection, home, projects.find_project_path(os.getcwd()))


@handoff.command()
@click.argument("name", metavar="NO|SESSION")
def amend(name: str) -> None:
    """Open a handoff in your editor; a ratified one counts as you leave it."""
    home = paths.get_home()
    connection = db.connect(home)
    reflection = handoffs.find_handoff(connection, name)
    if reflection.status == RATIFIED:
        require_person("amending what was ratified")
    if handoffs.read_page(reflection) is None:
        raise UserError(f"its file is gone, or no file of its own: {reflection.draft}", "hardwon handoff list")
    if not is_interactive():
        raise UserError("this is not a terminal, so no editor can be opened", f"edit {reflection.draft}")
    click.edit(filename=reflection.draft)
    page = handoffs.read_page(reflection)
    if page and page.is_edited:
        actions.ratify_handoff(connection, home, reflection, COMMAND_LINE, clock.now())
        brief.refresh_brief(connection, home, projects.find_project_path(os.getcwd()))
    next_hint = "" if reflection.status == RATIFIED else f"; now: hardwon handoff ratify {reflection.id}"
    click.echo(make_printable(f"amended: {reflection.draft}{next_hint}"))


@handoff.command()
@click.argument("names", nargs=-1, required=True, metavar="NO|SESSION…")
def discard(names: tuple[str, ...]) -> None:
    """Say no to drafts; their files are deleted."""
    require_person("discarding a handoff")
    home, now = paths.get_home(), clock.now()
    connection = db.connect(home)
    for name in names:
        reflection = handoffs.find_handoff(connection, name)
        ratification.discard(connection, reflection, now)
        click.echo(make_printable(f"discarded: handoff {reflection.id}, {reflection.draft} is deleted"))
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
    connection, agent_variable = db.connect(home), actor.find_agent_variable(os.environ)
    content = " ".join(text) or (click.edit(_TEMPLATE, extension=".md") or "" if is_interactive() else sys.stdin.read())
    if not content.strip() or content == _TEMPLATE:
        raise UserError("there is nothing to hand off", "hardwon handoff write TEXT")
    if agent_variable:
        reflection = ratification.save_session_handoff(
            connection, home, content, os.getcwd(), now=now, is_ratified=False, name=name, topic=topic
        )
    else:
        reflection = actions.write_handoff(
            connection, home, content, os.getcwd(), COMMAND_LINE, now=now, name=name, topic=topic
        )
    brief.refresh_brief(connection, home, projects.find_project_path(os.getcwd()))
    state = f"written as a draft, since {agent_variable} says an agent runs this" if agent_variable else "written"
    click.echo(make_printable(f"{state}: handoff {reflection.id}, {reflection.draft}"))


@click.command()
@click.option("--json", "as_json", is_flag=True, help="print JSON")
def resume(as_json: bool) -> None:
    """Where the last session in this project left off, and what comes next."""
    home, project = paths.get_home(), projects.find_project_path(os.getcwd())
    connection = db.connect(home)
    draft = handoffs.find_waiting_draft(connection, project)
    page = handoffs.find_latest_page(connection, home, project)
    if as_json:
        report = {
            "draft": _to_json(connection, draft) if draft else None,
            "handoff": _to_json(connection, page.reflection) if page else None,
        }
        click.echo(json.dumps(report, indent=2))
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
