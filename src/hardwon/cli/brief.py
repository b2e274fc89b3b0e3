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
    session_brief = briefs.preview_opening(
        db.connect(home), home, manifest.open_current_index(home, clock.now()), folder
    )
    if as_json:
        click.echo(json.dumps(_to_json(session_brief, folder), indent=2))
        return
    click.echo(
        make_printable(session_brief.text)
        or "a session opens with nothing here: lessonProtocol is off, and nothing is known"
    )
    if explain:
        _print_sections(session_brief)


def _print_sections(session_brief: SessionBrief) -> None:
    click.echo(
        f"\n{count_characters(session_brief.text)} characters of {START_LIMIT} and the fence; a section takes what "
        "others leave:\n"
    )
    echo_table(
        _COLUMNS,
        [
            list(map(str, _describe_section(section).values()))
            for section in session_brief.sections
            if section.wanted_chars or section.noted_lines
        ],
    )
    click.echo("\nfor room: lines left out for want of it; in notes: lines that CLAUDE.md or AGENTS.md has")


def _describe_section(section: BriefSection) -> dict[str, Any]:
    return {
        "section": section.name,
        "share": START_LIMIT * SECTION_SHARES[section.name] // 100,
        "wanted": section.wanted_chars,
        "got": section.allotted_chars,
        "used": count_characters(section.text),
        "lines": section.shown_lines,
        "leftOut": section.omitted_lines,
        "inNotes": section.noted_lines,
    }


def _to_json(session_brief: SessionBrief, folder: str) -> dict[str, Any]:
    return {
        "folder": folder,
        "text": session_brief.text,
        "characters": count_characters(session_brief.text),
        "sections": [_describe_section(section) for section in session_brief.sections],
    }
