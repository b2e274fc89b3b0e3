"""brief"""

from __future__ import annotations

import json
import os
from typing import Any

import click

from hardwon import clock, paths
from hardwon.cli.output import echo_table, make_printable
from hardwon.errors import UserError
from hardwon.lessons import manifest
from hardwon.lessons.decision import START_LIMIT, SessionBrief
from hardwon.search import brief as briefs
from hardwon.store import db
from hardwon.text.brief_layout import SECTION_SHARES, BriefSection, count_characters

_COLUMNS = ("section", "share", "wanted", "got", "used", "lines", "for room", "in notes")


@click.command()
@click.option("--explain", is_flag=True, help="what each section wanted, got and left out")
@click.option("--json", "as_json", is_flag=True, help="print JSON")
@click.option("--project", default="", metavar="PATH", help="the folder, if it is not this one")
def brief(explain: bool, as_json: bool, project: str) -> None:
    """What an agent's session opens with in this folder.

    Nothing is delivered and nothing is claimed by looking.
    """
    folder = os.path.abspath(os.path.expanduser(project)) if project else os.getcwd()
    if not os.path.isdir(folder):
        raise UserError(f"there is no folder {folder}", "hardwon brief --project PATH")
    home = paths.get_home()
    opened = briefs.preview_opening(db.connect(home), home, manifest.open_current_index(home, clock.now()), folder)
    if as_json:
        click.echo(json.dumps(_plain(opened, folder), indent=2))
        return
    click.echo(
        make_printable(opened.text) or "a session opens with nothing here: lessonProtocol is off, and nothing is known"
    )
    if explain:
        _explain(opened)


def _explain(opened: SessionBrief) -> None:
    click.echo(
        f"\n{count_characters(opened.text)} characters of {START_LIMIT} and the fence; a section takes what "
        "others leave:\n"
    )
    echo_table(
        _COLUMNS,
        [list(map(str, _row(part).values())) for part in opened.sections if part.wanted_chars or part.noted_lines],
    )
    click.echo("\nfor room: lines left out for want of it; in notes: lines that CLAUDE.md or AGENTS.md has")


def _row(part: BriefSection) -> dict[str, Any]:
    return {
        "section": part.name,
        "share": START_LIMIT * SECTION_SHARES[part.name] // 100,
        "wanted": part.wanted_chars,
        "got": part.allotted_chars,
        "used": count_characters(part.text),
        "lines": part.shown_lines,
        "leftOut": part.omitted_lines,
        "inNotes": part.noted_lines,
    }


def _plain(opened: SessionBrief, folder: str) -> dict[str, Any]:
    return {
        "folder": folder,
        "text": opened.text,
        "characters": count_characters(opened.text),
        "sections": [_row(part) for part in opened.sections],
    }
