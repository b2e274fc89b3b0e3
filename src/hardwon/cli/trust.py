"""trust"""

from __future__ import annotations

import json
import os

import click

from hardwon import clock, paths, projects
from hardwon.actions import trust as actions
from hardwon.cli.lessons import pluralize
from hardwon.cli.output import is_interactive, make_printable
from hardwon.cli.person_only import require_person
from hardwon.errors import UserError
from hardwon.lessons import lessons_file as shelves
from hardwon.lessons import record as records
from hardwon.lessons import trust_file as trusting
from hardwon.store import approvals, db
from hardwon.types import Lesson

_TEXT_FIELDS = ("unless", "status", "problem", "solution", "injection", "blockReason")


@click.command()
@click.argument("folder", default=".", type=click.Path(exists=True, file_okay=False))
@click.option("--yes", is_flag=True, help="do not ask")
@click.option("--revoke", is_flag=True, help="no longer")
@click.option("--list", "only_list", is_flag=True, help="what is trusted, and whether it changed since")
@click.option("--json", "as_json", is_flag=True, help="with --list: print JSON")
def trust(folder: str, yes: bool, revoke: bool, only_list: bool, as_json: bool) -> None:
    """Use the lessons that a repository carries in .hardwon/lessons.json.

    Shows what agents will be told, then asks. The file is trusted as it stands: once it changes it is not used until
    trusted again.
    """
    home = paths.get_home()
    trusted_hashes = trusting.read_trusted_hashes(home)
    if only_list:
        _list_trusted(home, trusted_hashes, as_json)
        return
    require_person("trusting")
    project = projects.find_project_path(os.path.abspath(folder))
    path = trusting.get_project_lessons_path(project)
    if revoke:
        actions.revoke_trust(home, db.connect(home), project, clock.now())
        click.echo(f"no longer trusted: {path}")
        return
    if not os.path.exists(path):
        raise UserError(f"there is no {path}", "put lessons there, in the shape of your own lessons.json")
    content = trusting.read_project_lessons(path)
    parsed_file = shelves.parse_content(path, content)
    for lesson in parsed_file.lessons:
        _show_lesson(lesson)
    for fault in parsed_file.faults:
        click.echo(make_printable(fault), err=True)
    if not yes and not is_interactive():
        raise UserError("nothing is trusted: this is not a terminal, so nobody can be asked", "hardwon trust --yes")
    if not yes and not click.confirm("Trust these lessons, in this project only?"):
        return
    actions.trust_project(home, db.connect(home), project, content, clock.now())
    click.echo(
        f"trusted as it stands now: {path} ({pluralize(len(parsed_file.lessons), 'lesson')}, in this project only)"
    )


def _show_lesson(lesson: Lesson) -> None:
    """When it fires and every text of it that an agent may be given."""
    record = records.to_lesson_record(lesson)
    click.echo(make_printable(f"{lesson.delivery:<6} {lesson.summary} [{lesson.slug}]"))
    fields = {name: value for name, value in record["triggers"].items() if value}
    fields.update({name: record[name] for name in _TEXT_FIELDS if record.get(name)})
    for name, value in fields.items():
        value_text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        click.echo(make_printable(f"  {name:<16} {value_text}"))


def _list_trusted(home: str, trusted_hashes: dict[str, str], as_json: bool) -> None:
    live_approvals = approvals.read_live_approvals(home)
    approved_hashes = (
        live_approvals.trusted_hashes if live_approvals else trusted_hashes
    )  # before the upgrade every one counts as approved
    rows = [
        {
            "project": project,
            "unchanged": trusting.hash_file(trusting.get_project_lessons_path(project)) == content_hash,
            "approved": approved_hashes.get(project) == content_hash,
        }
        for project, content_hash in sorted(trusted_hashes.items())
    ]
    if as_json:
        click.echo(json.dumps(rows, indent=2))
        return
    for row in rows:
        state = "in use"
        if not row["approved"]:
            state = f"not approved, not used: hardwon trust {row['project']}"
        elif not row["unchanged"]:
            state = f"changed since, not used: hardwon trust {row['project']}"
        click.echo(make_printable(f"{row['project']}: {state}"))
    if not rows:
        click.echo("no repository is trusted yet")
