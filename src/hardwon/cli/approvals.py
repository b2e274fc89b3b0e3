"""approvals, trust"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable

import click

from hardwon import clock, paths, projects
from hardwon.actions.approvals import (
    describe_approvals,
    ensure_upgraded,
    find_approval_state,
    revoke_trust,
    trust_files,
)
from hardwon.cli.context import confirm, json_option, open_decider, open_store, require_person, yes_option
from hardwon.cli.output import echo_json, echo_table, echo_text, format_age
from hardwon.errors import UserError
from hardwon.lessons import lessons_file
from hardwon.lessons.lessons_file import get_trusted_path, is_single_lesson, parse_content, read_project_lessons
from hardwon.lessons.record import to_lesson_record
from hardwon.lessons.replay import describe_replay, replay_lesson
from hardwon.lessons.validation import find_lesson_faults
from hardwon.store.approvals import TRUSTED, read_live_approvals
from hardwon.store.db import Connection
from hardwon.text.characters import format_count
from hardwon.types import Lesson, replace

_SHOWN_FIELDS = ("unless", "status", "problem", "solution", "injection", "blockReason")


@click.command()
@click.option("--limit", default=50, show_default=True, help="how many, the newest")
@json_option
def approvals(limit: int, as_json: bool) -> None:
    """List what was put in force, how and when, newest first."""
    with open_store() as connection:
        ensure_upgraded(paths.get_home(), connection, clock.now())
        entries = []
        for entry in describe_approvals(connection, limit):
            entries.append((entry, find_approval_state(connection, entry.approval)))
    if not as_json and not entries:
        click.echo("nothing is approved yet")
        return
    rows = []
    records = []
    for entry, state in entries:
        approval = entry.approval
        rows.append([str(approval.id), format_age(approval.approved_at), approval.path, state, entry.title])
        records.append(
            {
                "id": approval.id,
                "kind": approval.kind,
                "subject": approval.subject,
                "title": entry.title,
                "hash": approval.hash,
                "path": approval.path,
                "state": state,
                "approvedAt": clock.format_iso(approval.approved_at),
                "undoneAt": clock.format_iso(approval.undone_at) if approval.undone_at else None,
                "undo": entry.undo_command,
            }
        )
    if as_json:
        echo_json(records)
        return
    echo_table(["no", "when", "path", "state", "what"], rows)
    click.echo("undo      hardwon undo NO")


@click.command()
@click.argument("folder", default=".", type=click.Path(exists=True, file_okay=False))
@yes_option
@click.option("--revoke", is_flag=True, help="trust it no longer")
@click.option("--list", "only_list", is_flag=True, help="list what is trusted, and whether it changed since")
@click.option("--json", "as_json", is_flag=True, help="with --list: print JSON")
def trust(folder: str, yes: bool, revoke: bool, only_list: bool, as_json: bool) -> None:
    """Use the lessons that a repository carries in .hardwon/lessons.json or .hardwon/lessons/.

    Shows what agents will be told and is not trusted yet, then asks. Once a file changes, it is not used until it is
    trusted again.
    """
    home = paths.get_home()
    if only_list:
        _print_trusted(home, as_json)
        return
    require_person("trusting")
    project = projects.find_project_path(os.path.abspath(folder))
    if revoke:
        with open_decider() as decider:
            revoke_trust(decider, project)
        click.echo(f"no longer trusted: {project}")
        return
    subjects = lessons_file.list_trust_subjects(project)
    if not subjects:
        raise UserError(
            f"{project} carries no lessons: there is neither .hardwon/lessons.json nor .hardwon/lessons/",
            "hardwon team propose SLUG, to share one of yours there",
        )
    contents = _read_contents_to_trust(home, subjects)
    if not contents:
        click.echo(f"nothing new: {format_count(len(subjects), 'file')} of {project} trusted already")
        return
    with open_decider() as decider:
        lesson_count = 0
        for subject, content in contents.items():
            parsed_file = parse_content(get_trusted_path(subject), content)
            lesson_count += len(parsed_file.lessons)
            for lesson in parsed_file.lessons:
                _show_lesson(decider.connection, replace(lesson, project=project))
            for fault in parsed_file.faults:
                echo_text(fault, err=True)
        if not confirm(yes, "Trust these lessons, in this project only?"):
            return
        trust_files(replace(decider, path=TRUSTED), contents)
    echo_text(f"trusted: {project} ({format_count(lesson_count, 'lesson')}, in this project only)")


def _read_contents_to_trust(home: str, subjects: Iterable[str]) -> dict[str, bytes]:
    """Return what stands in files, without single lessons that are trusted as they are."""
    trusted_hashes = lessons_file.read_trusted_hashes(home)
    contents = {}
    for subject in subjects:
        content = read_project_lessons(get_trusted_path(subject))
        is_trusted = trusted_hashes.get(subject) == lessons_file.hash_bytes(content)
        if not is_trusted or not is_single_lesson(subject):
            contents[subject] = content
    return contents


def _show_lesson(connection: Connection, lesson: Lesson) -> None:
    """Print when a lesson fires, every text of it that an agent may be given, and what it would have done here."""
    record = to_lesson_record(lesson)
    echo_text(f"{lesson.delivery:<6} {lesson.summary} [{lesson.slug}]")
    fields = dict(record["triggers"])
    for name in _SHOWN_FIELDS:
        fields[name] = record.get(name)
    for name, value in fields.items():
        if value:
            text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
            echo_text(f"  {name:<16} {text}")
    if lesson.delivery == "start" or find_lesson_faults(lesson):
        return  # the lesson has no trigger that could be tried on recorded calls
    replay = replay_lesson(connection, lesson)
    if replay.fires:
        echo_text(f"  {'here':<16} {describe_replay(replay)}")


def _print_trusted(home: str, as_json: bool) -> None:
    """Print the repositories that were trusted, and whether each is in use."""
    trusted_hashes = lessons_file.read_trusted_hashes(home)
    live_approvals = read_live_approvals(home)
    # Before the upgrade to approvals, everything trusted counts as approved.
    approved_hashes = live_approvals.trusted_hashes if live_approvals else trusted_hashes
    rows = []
    for project, content_hash in sorted(trusted_hashes.items()):
        is_unchanged = lessons_file.hash_file(get_trusted_path(project)) == content_hash
        is_approved = approved_hashes.get(project) == content_hash
        rows.append({"project": project, "unchanged": is_unchanged, "approved": is_approved})
    if as_json:
        echo_json(rows)
        return
    for row in rows:
        state = "in use"
        if not row["approved"]:
            state = f"not approved, not used: hardwon trust {row['project']}"
        elif not row["unchanged"]:
            state = f"changed since, not used: hardwon trust {row['project']}"
        echo_text(f"{row['project']}: {state}")
    if not rows:
        click.echo("no repository is trusted yet")
