"""export notes, import notes"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence

import click

from hardwon import clock, paths, projects
from hardwon.cli import file_change
from hardwon.cli.lessons import pluralize
from hardwon.cli.output import make_printable
from hardwon.errors import UserError
from hardwon.handoff import memories
from hardwon.lessons import notes_block
from hardwon.privacy.cleaning import clean_text
from hardwon.projects import is_in_scope
from hardwon.search import records
from hardwon.search.brief import MAX_FIELD
from hardwon.store import db
from hardwon.text.brief_layout import sanitize_line
from hardwon.types import MEMORY_TYPES

NOTE_FILES = ("AGENTS.md", "CLAUDE.md", "GEMINI.md", ".cursorrules")
DEFAULT_MAX_CHARS = 6_000
_MEMORIES_HEADING, _LESSONS_HEADING = "## What to know here", "## Learned here the hard way"


@click.command("notes")
@click.option("--to", "files", multiple=True, type=click.Choice(NOTE_FILES), default=[NOTE_FILES[0]], show_default=True)
@click.option("--here", is_flag=True, help="only what belongs to this project alone")
@click.option(
    "--most", default=DEFAULT_MAX_CHARS, show_default=True, type=click.IntRange(200), help="characters it may have"
)
@click.option("--remove", is_flag=True, help="take the block out again")
@click.option("--print", "only_print", is_flag=True, help="show the change and stop")
@click.option("--yes", is_flag=True, help="do not ask")
def export_notes(files: Sequence[str], here: bool, most: int, remove: bool, only_print: bool, yes: bool) -> None:
    """Write lessons in force and approved memories into this project's notes, for agents that read only those.

    They stand in a marked block; nothing else in the file is touched.
    """
    root = projects.find_git_root(os.getcwd())
    block, omitted_count = ("", 0) if remove else _build_block(paths.get_home(), root, here, most)
    changes = []
    for path in dict.fromkeys(os.path.realpath(os.path.join(root, name)) for name in files):
        if not path.startswith(f"{os.path.realpath(root).rstrip('/')}/"):
            raise UserError(f"{path} is where a link in {root} leads, and no file of it", "put a file there instead")
        old_text = file_change.read_text(path)
        try:
            new_text = notes_block.insert_block(old_text, block) if block else notes_block.remove_block(old_text)
        except notes_block.MisplacedMarkers as error:
            raise UserError(f"{path}: {error}", "mend or delete them, then: hardwon export notes") from None
        if new_text == old_text:
            click.echo(f"nothing to change in {path}")
            continue
        file_change.show_diff(path, old_text, new_text)
        changes.append((path, old_text, new_text))
    if omitted_count:
        click.echo(f"{omitted_count} left out for room; --most says how much there is")
    if only_print or not changes or not file_change.confirm_change(yes, "hardwon export notes --yes"):
        return
    for path, old_text, new_text in changes:
        _write_notes(path, old_text, new_text)


def _write_notes(path: str, old_text: str, new_text: str) -> None:
    if file_change.read_text(path) != old_text:
        raise UserError(f"{path} changed while you were looking at it", "run the command again")
    if not new_text:
        os.unlink(path)
        click.echo(f"removed   {path}, which had nothing else")
        return
    mode = os.stat(path).st_mode & 0o777 if os.path.exists(path) else 0o644
    paths.replace_file(path, new_text.encode("utf-8"), mode)
    click.echo(f"written   {path}")


def _build_block(home: str, root: str, here: bool, max_chars: int) -> tuple[str, int]:
    project = projects.find_project_path(root)
    approved_pages = [
        page for page in memories.list_approved_pages(db.connect(home), home, project) if page.project or not here
    ]
    return notes_block.build_block(
        [
            (_MEMORIES_HEADING, (f"- {_clean_line(page.text)}" for page in approved_pages)),
            (_LESSONS_HEADING, _list_lesson_lines(home, root, here)),
        ],
        max_chars,
    )


def _list_lesson_lines(home: str, root: str, here: bool) -> Iterator[str]:
    """What goes wrong on a line of its own, for a brief knows it by that; then what to do, and whose words it is."""
    folders = projects.list_equivalent_folders(root)
    matched_lessons = [
        lesson
        for lesson in records.list_active_lessons(home)
        if not lesson.needs_review and is_in_scope(lesson.project, folders)
    ]
    for lesson in sorted(matched_lessons, key=lambda lesson: (-lesson.priority, lesson.slug)):
        if lesson.project or not here:
            yield f"- {_clean_line(lesson.summary)}\n  Instead: {_clean_line(lesson.solution)} (lesson {lesson.slug})"


def _clean_line(text: str) -> str:
    return sanitize_line(clean_text(text), MAX_FIELD)


@click.command("notes")
@click.argument("file", type=click.Path(exists=True, dir_okay=False))
@click.option("--type", "type_", type=click.Choice(MEMORY_TYPES), default="project", show_default=True)
@click.option("--json", "as_json", is_flag=True, help="print JSON")
def import_notes(file: str, type_: str, as_json: bool) -> None:
    """Propose what AGENTS.md, CLAUDE.md, .cursorrules and the like say as memories; a person decides about each.

    A rule is an item of a list, or if there is none a line. What hardwon wrote there itself is left out.
    """
    home, now, name = paths.get_home(), clock.now(), os.path.basename(file)
    connection = db.connect(home)
    project = projects.find_project_path(os.path.dirname(os.path.abspath(file)))
    try:
        rules = list(notes_block.find_rules(file_change.read_text(file)))
    except notes_block.MisplacedMarkers as error:
        raise UserError(f"{file}: {error}", "mend or delete them, then try again") from None
    proposed, refused = list[int](), list[tuple[int, str]]()
    for rule in rules:
        evidence = [f"{name}:{rule.line_number}"]
        try:
            memory = memories.propose(
                connection, home, type_, rule.text, project=project, source="notes", evidence=evidence, now=now
            )
            proposed.append(memory.id)
        except UserError as error:
            refused.append((rule.line_number, error.say))
    if as_json:
        refused_rows = [{"line": line, "why": reason} for line, reason in refused]
        click.echo(json.dumps({"proposed": proposed, "refused": refused_rows}, indent=2))
        return
    for line, reason in refused:
        click.echo(make_printable(f"{name} line {line}: {reason}"))
    click.echo(f"proposed  {pluralize(len(proposed), 'rule')} of {len(rules)}, as memories that wait")
    if proposed:
        click.echo("next      hardwon memory list, then hardwon memory approve NO or reject NO")
