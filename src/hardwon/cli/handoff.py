"""handoff list, show, ratify, amend, discard, write; resume; reflect"""

from __future__ import annotations

import os
import shlex
import sys
from typing import TYPE_CHECKING, Any

import click

from hardwon import paths, projects, settings
from hardwon.cli import CommandGroup
from hardwon.cli.completions import complete_handoffs
from hardwon.cli.context import (
    find_agent,
    find_project_here,
    is_interactive,
    json_option,
    open_decider,
    open_store,
    require_person,
)
from hardwon.cli.output import echo_field, echo_indented, echo_json, echo_table, echo_text, format_age
from hardwon.errors import UserError
from hardwon.handoff import handoffs
from hardwon.handoff.handoffs import CONTRADICTIONS_HEADING
from hardwon.store import reflections
from hardwon.store.db import Connection
from hardwon.store.reflections import DRAFT, RATIFIED
from hardwon.text.characters import to_printable_line

if TYPE_CHECKING:
    from hardwon.handoff.reflection import ReflectionResult

_TEMPLATE = "## Summary\n\n\n## Decisions\n\n\n## Open ends\n\n\n## Resume Prompt\n\n\nConfidence: M\n"

name_argument = click.argument("name", metavar="NO|SESSION", shell_complete=complete_handoffs)
names_argument = click.argument(
    "names", nargs=-1, required=True, metavar="NO|SESSION…", shell_complete=complete_handoffs
)


@click.group(cls=CommandGroup)
def handoff() -> None:
    """Read, ratify, amend, discard and write handoffs to the next session."""


@handoff.command("list")
@click.option("--all", "everywhere", is_flag=True, help="every project's")
@click.option("--status", type=click.Choice(reflections.STATUSES), help="only these")
@json_option
def print_handoffs(everywhere: bool, status: str | None, as_json: bool) -> None:
    """List this project's handoffs, newest first: drafts and ratified ones."""
    statuses = (status,) if status else (DRAFT, RATIFIED)
    project = None if everywhere else find_project_here()
    with open_store() as connection:
        records = reflections.list_reflections(connection, *statuses, project=project)
        entries = [handoffs.to_json(connection, record) for record in records]
    if as_json:
        echo_json(entries)
        return
    if not entries and status:
        click.echo("no handoffs like that")
        return
    if not entries:
        click.echo("no handoffs yet: hardwon reflect SESSION, or hardwon handoff write")
        return
    rows = []
    for record, entry in zip(records, entries, strict=True):
        title = f"{to_printable_line(entry['topic'], 200)}\n{record.draft}"
        rows.append([f"H{record.id}", format_age(record.at), entry["state"], title])
    echo_table(["no", "when", "state", "about, and its file"], rows)
    drafts = [f"H{record.id}" for record in records if record.status == DRAFT]
    if drafts:
        draft = drafts[0]
        click.echo(f"Read one: hardwon handoff show {draft}, then hardwon accept {draft} or hardwon reject {draft}")


@handoff.command()
@name_argument
@json_option
def show(name: str, as_json: bool) -> None:
    """Show one handoff as its file says it now."""
    with open_store() as connection:
        record = handoffs.find_handoff(connection, name)
        fields = handoffs.to_json(connection, record)
    page = handoffs.read_page(record)
    if as_json:
        if page:
            fields |= {"sections": dict(page.sections), "text": page.text}
        echo_json(fields)
        return
    echo_indented(f"H{record.id}  ", fields["topic"], bold=True)
    for label in ("state", "session", "file"):
        echo_field(label, fields[label])
    click.echo(f"\n{page.text}" if page else "\nits file is gone, or not a file of its own")
    if record.status == DRAFT and page:
        click.echo(
            f"\nNext: hardwon accept H{record.id}, hardwon reject H{record.id} or hardwon handoff amend H{record.id}"
        )


@handoff.command(hidden=True)
@names_argument
@click.option("--commit/--no-commit", "commits", default=None, help="one git commit of just these files")
def ratify(names: tuple[str, ...], commits: bool | None) -> None:
    """Let handoffs count: write their pages, and approve the memories they name.

    The draft counts as it is now; take out what is wrong first. Nothing is ever pushed.
    """
    from hardwon.actions.handoffs import ratify_handoff
    from hardwon.handoff import ratification

    require_person("ratifying a handoff")
    if commits is None:
        commits = bool(settings.load_settings(paths.get_home()).get("handoffCommit"))
    with open_decider(refreshes_brief=True) as decider:
        for name in names:
            record = handoffs.find_handoff(decider.connection, name)
            result = ratify_handoff(decider, record, should_commit=commits)
            echo_text("\n".join(ratification.describe_result(result)))


@handoff.command()
@name_argument
def amend(name: str) -> None:
    """Open a handoff in your editor; a ratified one counts as you leave it."""
    from hardwon.actions.handoffs import ratify_handoff

    with open_decider(refreshes_brief=True) as decider:
        record = handoffs.find_handoff(decider.connection, name)
        if record.status == RATIFIED:
            require_person("amending what was ratified")
        if handoffs.read_page(record) is None:
            raise UserError(f"its file is gone, or not a file of its own: {record.draft}", "hardwon handoff list")
        if not is_interactive():
            raise UserError("an editor needs a terminal", f"edit {record.draft}")
        click.edit(filename=record.draft)
        # Agents do not get an edited page until it is approved again.
        page = handoffs.read_page(record)
        if page and page.is_edited:
            ratify_handoff(decider, record)
    next_hint = "" if record.status == RATIFIED else f"; next: hardwon accept H{record.id}"
    echo_text(f"amended: {record.draft}{next_hint}")


@handoff.command(hidden=True)
@names_argument
def discard(names: tuple[str, ...]) -> None:
    """Discard drafts; their files are deleted."""
    from hardwon.actions.decisions import reject_proposal

    require_person("discarding a handoff")
    with open_decider(refreshes_brief=True) as decider:
        for name in names:
            echo_text(reject_proposal(decider, f"H:{name}"))


@handoff.command()
@click.argument("text", nargs=-1, metavar="[TEXT…]")
@click.option("--json", "is_json", is_flag=True, help="read the fields as JSON from stdin, and check them")
@click.option("--session", "name", default="", metavar="ID", help="the session, if not the one that runs this")
@click.option("--topic", default="", metavar="TEXT", help="what it was about")
def write(text: tuple[str, ...], is_json: bool, name: str, topic: str) -> None:
    """Hand a session off yourself. TEXT is what to tell the next one.

    Without TEXT it is read from stdin, or written in your editor. It replaces the session's draft. A person's handoff
    counts at once; an agent's is a draft. With --json, what hardwon recorded of the session is attached, and claims
    that it contradicts are marked.
    """
    from hardwon.actions.handoffs import write_handoff

    agent_variable = find_agent()
    content = " ".join(text)
    if not content and is_interactive() and not is_json:
        content = click.edit(_TEMPLATE, extension=".md") or ""  # None if it was left without saving
    elif not content:
        content = sys.stdin.read()
    is_empty = not content.strip() or content == _TEMPLATE
    if is_empty and not is_json:  # what is wrong with JSON is reported field by field
        raise UserError("there is nothing to hand off", "hardwon handoff write TEXT")
    with open_decider(drain=True, refreshes_brief=True) as decider:
        record, contradictions = write_handoff(
            decider,
            content,
            os.getcwd(),
            environment=os.environ,
            values=settings.load_settings(decider.home),
            is_agent=bool(agent_variable),
            is_json=is_json,
            name=name,
            topic=topic,
        )
    state = "written"
    if agent_variable:
        state = f"written as a draft, since {agent_variable} says an agent runs this"
    echo_text(f"{state}: handoff H{record.id}, {record.draft}")
    if contradictions:
        echo_text(f"{CONTRADICTIONS_HEADING}:")
        for line in contradictions:
            echo_text(f"  {line}")
        echo_text("Correct what is wrong and write it again; this draft is then replaced.")
    if agent_variable:
        echo_text(f"A person accepts it: hardwon accept H{record.id}")


@click.command()
@json_option
def resume(as_json: bool) -> None:
    """Show where the last session in this project left off, and what comes next."""
    home = paths.get_home()
    project = find_project_here()
    with open_store() as connection:
        draft = handoffs.find_waiting_draft(connection, project)
        page = handoffs.find_latest_page(connection, home, project)
        if as_json:
            draft_fields = handoffs.to_json(connection, draft) if draft else None
            page_fields = handoffs.to_json(connection, page.reflection) if page else None
            echo_json({"draft": draft_fields, "handoff": page_fields})
            return
    if draft:
        echo_text(f"{handoffs.build_banner(draft)} (hardwon handoff show H{draft.id})")
    if page:
        echo_indented(f"H{page.reflection.id}  ", page.topic, bold=True)
        echo_field("ratified", format_age(page.reflection.decided_at or page.reflection.at))
        echo_field("file", page.path)
        click.echo()
        for line in handoffs.get_resume_lines(page):
            echo_indented("   ", line)
    if not draft and not page:
        click.echo("no handoffs here yet: hardwon handoff write TEXT")


@click.command()
@click.argument("name", required=False, default="", metavar="[SESSION|TRANSCRIPT]")
@click.option("--idle", is_flag=True, help="every idle session that was not handed off")
@click.option("--menu", "show_menu", is_flag=True, help="what is looked for, and how often people keep it")
@click.option("--undo", type=int, metavar="ID", help="restore every file that a reflection wrote")
@click.option("--plain", is_flag=True, help="without a model, even if one is set")
@json_option
def reflect(name: str, idle: bool, show_menu: bool, undo: int | None, plain: bool, as_json: bool) -> None:
    """Draft the handoff of a session: what it came to, what is open.

    Without a SESSION it is the latest in this folder. The draft is in
    ~/.hardwon/drafts and waits for you: hardwon handoff list.
    """
    if undo is not None and not show_menu:
        require_person("undoing a reflection")
        _undo_reflection(undo)
        return
    from hardwon.handoff import reflection
    from hardwon.search.brief import refresh_brief
    from hardwon.sessions.lookup import find_transcript
    from hardwon.worker.job_process import reflect_on_session

    home = paths.get_home()
    with open_store() as connection:
        if show_menu:
            _print_menu(reflection.list_menu_items(connection), as_json)
        elif idle:
            _reflect_on_idle(connection, home, plain, as_json)
        else:
            path, host = find_transcript(connection, name)
            result = reflect_on_session(connection, home, path, host, plain=plain)
            refresh_brief(connection, home, result.record.project)
            if as_json:
                echo_json(reflection.to_json(result))
            else:
                _print_result(result)


def _undo_reflection(number: int) -> None:
    """Restore the files that a reflection wrote, and say what git still has of them."""
    from hardwon.actions.handoffs import undo_reflection
    from hardwon.lessons import compiled_brief
    from hardwon.search.brief import refresh_brief

    with open_decider() as decider:
        record, committed = undo_reflection(decider, number)
        compiled_brief.delete_all(decider.home)
        refresh_brief(decider.connection, decider.home, record.project)
    echo_text(f"reflection {record.id} is undone: {', '.join(file.path for file in record.files)}")
    if committed:
        root = projects.find_git_root(os.path.dirname(committed[0]))
        relative_paths = [os.path.relpath(path, root) for path in committed]
        message = f"Take back handoff H{record.id}"
        command = shlex.join(["git", "-C", root, "commit", "-m", message, "--", *relative_paths])
        echo_text(f"the commit stays; this takes the files out of the next:\n  {command}")


def _reflect_on_idle(connection: Connection, home: str, plain: bool, as_json: bool) -> None:
    """Draft the handoffs of all sessions that are due, and print them."""
    from hardwon.handoff import reflection
    from hardwon.handoff.reflection import ReflectionResult
    from hardwon.search.brief import refresh_brief
    from hardwon.worker.job_process import reflect_on_due_sessions

    results: list[ReflectionResult] = []
    for result in reflect_on_due_sessions(connection, home, plain=plain):
        if isinstance(result, ReflectionResult):
            results.append(result)
            refresh_brief(connection, home, result.record.project)
        else:
            echo_text(str(result), err=True)
    if as_json:
        echo_json([reflection.to_json(result) for result in results])
        return
    for result in results:
        _print_result(result)
    if not results:
        click.echo("no idle session without a handoff")


def _print_result(result: ReflectionResult) -> None:
    """Print a draft: where it is, what was found, and what comes next."""
    from hardwon.handoff.draft import next_step

    draft = result.draft
    echo_text(f"{draft.topic}\n  draft: {result.record.draft}   (reflection {result.record.id})")
    for finding in draft.findings:
        click.echo(f"  {to_printable_line(finding.item)} -> {finding.target}: {to_printable_line(finding.text)}")
    for memory in draft.memories:
        click.echo(f"  memory to approve ({memory.type}): {to_printable_line(memory.text)}")
    step = next_step(draft)
    if not step and draft.open_ends:
        step = draft.open_ends[0].text
    click.echo(f"  next: {to_printable_line(step or 'nothing says what comes next')}")
    if result.fallback_reason:
        echo_text(f"  {result.fallback_reason}", err=True)


def _print_menu(items: list[dict[str, Any]], as_json: bool) -> None:
    """Print what reflections look for, and how often people keep it."""
    if as_json:
        echo_json(items)
        return
    rows = []
    for item in items:
        counts = [str(item["kept"]), str(item["dropped"])]
        weight = f"{item['weight']:.2f}"
        rows.append([item["item"], *counts, weight, item["help"]])
    echo_table(["item", "kept", "dropped", "weight", "what"], rows)
