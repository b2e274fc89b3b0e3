"""search, timeline, show, brief"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import click

from hardwon import clock, paths
from hardwon.actions import drain_spool
from hardwon.cli.context import AgentOption, json_option, open_store
from hardwon.cli.output import (
    echo_field,
    echo_indented,
    echo_json,
    echo_styled,
    echo_table,
    echo_text,
    format_time,
    get_width,
    wrap_cells,
)
from hardwon.errors import UserError
from hardwon.search import indexing, query_scope, recalled_text
from hardwon.search.backlog import describe_backlog
from hardwon.search.records import fetch_records, get_type_label, is_call
from hardwon.search.search import Hit, SearchResult, describe_hit, search_records
from hardwon.search.words import mark_text
from hardwon.store import db
from hardwon.store.documents import DOCUMENT_KINDS
from hardwon.text.brief_layout import SECTION_SHARES, BriefSection, count_characters
from hardwon.text.characters import format_count, make_printable, to_printable_line

_MARK_START, _MARK_END = "\x01", "\x02"  # signs that take no column, and cannot be in printable text
_KINDS = [kind.name for kind in DOCUMENT_KINDS.values()]
_SECTION_COLUMNS = ("section", "share", "wanted", "got", "used", "lines", "for room", "in notes")

project_option = click.option(
    "--project", default="", metavar="NAME|PATH", help="not the project of this folder, but this one"
)
all_option = click.option("--all", "everywhere", is_flag=True, help="every project's")


# An option that search does not have is a word to search for: people look for flags.
@click.command(context_settings={"ignore_unknown_options": True})
@click.argument("words", nargs=-1)
@project_option
@all_option
@click.option("--kind", "kinds", multiple=True, type=click.Choice(_KINDS), metavar="KIND", help=", ".join(_KINDS))
@click.option("--type", "type_", default="", help="only of this type, such as bugfix or decision")
@click.option("--concept", default="", help="only with this concept")
@click.option("--file", default="", metavar="PATH", help="only about this file, or an end of its path")
@click.option("--agent", "--host", "host", cls=AgentOption, default="", metavar="AGENT", help="only from this agent")
@click.option("--since", default="", metavar="DATE", help="2026-11-01, yesterday, last week, or 7d or 2w ago")
@click.option("--until", default="", metavar="DATE", help="before this date")
@click.option("--limit", default=10, show_default=True, type=click.IntRange(1, 1000), help="how many")
@json_option
def search(
    words: tuple[str, ...],
    project: str,
    everywhere: bool,
    kinds: tuple[str, ...],
    type_: str,
    concept: str,
    file: str,
    host: str,
    since: str,
    until: str,
    limit: int,
    as_json: bool,
) -> None:
    """Search this project's history for WORDS, best first.

    WORDS may be a question, an identifier, a flag, a path or an id. Words such as "yesterday" or "in October" are a
    filter. The exit code is 1 if nothing is found.
    """
    home = paths.get_home()
    now = clock.now()
    query = " ".join(words)
    if not query.strip() and not any((kinds, type_, concept, file, host, since, until)):
        raise UserError("there is nothing to search for", "hardwon search WORDS…, or a filter such as --type bugfix")
    model = indexing.load_model_or_none()
    with _open_searchable_store() as connection:
        result = search_records(
            connection,
            home,
            query,
            project=_resolve_scope(connection, project, everywhere),
            current_project=_resolve_scope(connection, project_name="", everywhere=False),
            kinds=kinds,
            type=type_,
            concept=concept,
            file=file,
            host=host,
            since=query_scope.parse_time(since, now),
            until=query_scope.parse_time(until, now),
            limit=limit,
            now=now,
            model=model,
        )
    if as_json:
        echo_json(_to_json(result.__dict__))
    else:
        options = {"--type": type_, "--concept": concept, "--file": file, "--agent": host}
        filters = [f"{name} {value}" for name, value in options.items() if value]
        _print_result(result, query, everywhere, filters)
    if not result.hits:
        raise SystemExit(1)


@click.command()
@click.option("--around", "anchor", default="", metavar="ID", help="before and after this record")
@click.option("--query", default="", metavar="WORDS", help="before and after the best match for this")
@click.option("--before", default=10, show_default=True, type=click.IntRange(0, 500), help="how many before")
@click.option("--after", default=10, show_default=True, type=click.IntRange(0, 500), help="how many after")
@click.option("--type", "type_", default="", help="only of this type")
@project_option
@all_option
@json_option
def timeline(
    anchor: str, query: str, before: int, after: int, type_: str, project: str, everywhere: bool, as_json: bool
) -> None:
    """Show what was asked and observed around something, or lately, in order."""
    from hardwon.search.timeline import build_timeline

    with _open_searchable_store() as connection:
        result = build_timeline(
            connection,
            paths.get_home(),
            anchor=anchor,
            query=query,
            depth_before=before,
            depth_after=after,
            record_type=type_,
            now=clock.now(),
            project=_resolve_scope(connection, project, everywhere),
            model=indexing.load_model_or_none() if query else None,
        )
    if as_json:
        echo_json(_to_json(result.__dict__))
    elif result.records:
        _print_timeline(result.records, result.anchor)
    elif anchor:
        raise UserError(result.note, "hardwon search WORDS… shows ids; --all looks into every project")
    else:
        echo_text(result.note)
    if query and not result.records:
        raise SystemExit(1)


@click.command()
@click.argument("ids", nargs=-1, required=True, metavar="ID…")
@json_option
def show(ids: tuple[str, ...], as_json: bool) -> None:
    """Show records in full, by their ids.

    O12 is an observation, S3 a summary, P7 a prompt, E9 an event, L:slug a lesson, M1 a memory, H2 a handoff.
    """
    # Ids may be given one by one or joined with commas, as agents tend to write them.
    record_ids = [record_id for record_id in ",".join(ids).split(",") if record_id]
    if not record_ids:  # `hardwon show ""`, or a comma
        raise UserError("no id was given", "hardwon search WORDS, or hardwon timeline")
    with _open_searchable_store() as connection:
        records = fetch_records(connection, paths.get_home(), record_ids)
    if as_json:
        echo_json(_to_json(records))
    else:
        for record in records:
            if "error" in record:
                name = str(record["id"])
                # L3 is a proposal, which has no page in the index.
                is_proposal = name[:1] in "Ll" and name[1:].isdigit()
                fix = f"hardwon lessons show {name}" if is_proposal else "hardwon search WORDS, or hardwon timeline"
                echo_text(f"error: {record['error']}\n  fix: {fix}", err=True)
            else:
                _print_record(record)
    if all("error" in record for record in records):
        raise SystemExit(1)


@contextmanager
def _open_searchable_store() -> Iterator[db.Connection]:
    """Open the database with its index as far as it can be brought up to date now; say what is missing."""
    with query_scope.open_store(paths.get_home(), drain_spool) as connection:
        if backlog := describe_backlog(connection, with_vectors=False):
            click.echo(f"{backlog}: the worker does the rest (hardwon start)", err=True)
        yield connection


def _resolve_scope(connection: db.Connection, project_name: str, everywhere: bool) -> str:
    """Return the project to search: the named one, every one, or that of this folder."""
    name = query_scope.ALL_PROJECTS if everywhere else os.path.expanduser(project_name)
    return query_scope.resolve_project(connection, name, os.getcwd(), "search every project: --all")


def _to_json(value: Any) -> Any:
    """Return a value for JSON, its times as ISO text."""
    if isinstance(value, Hit):
        value = value.__dict__
    if isinstance(value, dict):
        fields = {name: _to_json(item) for name, item in value.items()}
        if "at" in fields:
            fields["at"] = clock.format_iso(fields["at"]) if fields["at"] else None
        return fields
    if isinstance(value, list | tuple):
        return [_to_json(item) for item in value]
    return value


def _print_result(result: SearchResult, query: str, everywhere: bool, filters: Sequence[str]) -> None:
    """Print the hits, or that there are none."""
    unmatched_note = recalled_text.format_unmatched(result.unmatched)  # which words of the query no record has
    if result.note:
        echo_styled(result.note, err=True, dim=True)
    if not result.hits:
        echo_text(_format_no_hits(query, everywhere, filters))
        if unmatched_note:
            echo_text(unmatched_note)
        return
    if unmatched_note:
        echo_styled(unmatched_note, err=True, dim=True)
    count = format_count(len(result.hits), "result")
    period = f" {result.period}" if result.period else ""
    echo_styled(f"{count}{period}, best first. Read one in full: hardwon show ID", dim=True)
    for hit in result.hits:
        _print_hit(hit, everywhere)


def _format_no_hits(query: str, everywhere: bool, filters: Sequence[str]) -> str:
    """Return that nothing was found, for what, and how to search more."""
    message = "nothing was found"
    if query:
        message += f" for {query!r}"
    if filters:
        message += f" with {' '.join(filters)}"
    if not everywhere:
        message += " in this project; search every project: --all"
    return message


def _print_hit(hit: Hit, everywhere: bool) -> None:
    """Print a hit: id, kind, time and size, then what was asked or the title, if the excerpt does not begin with it."""
    when = format_time(hit.at)
    label, title = describe_hit(hit)
    file = next(iter(hit.files), "")
    if is_call(hit.kind, hit.type):
        if title and file.endswith(title):
            title = _shorten_path(title, get_width() - 2)
        file = ""  # the title of a call names its file
    project = os.path.basename(hit.project) if everywhere else ""
    alike = f"+{hit.alike} alike" if hit.alike else ""
    cells = [hit.id, label, when, project, f"~{hit.tokens} tokens", alike]
    header = " · ".join(cell for cell in cells if cell)
    if file:
        header += f" · {_shorten_path(file, get_width() - len(header) - 3)}"
    click.echo()
    echo_styled(to_printable_line(header, get_width()), bold=True)
    if hit.asked:
        echo_styled(f"  asked: {to_printable_line(hit.asked, get_width() - 9)}", dim=True)
    elif title:
        echo_styled(f"  {to_printable_line(title, get_width() - 2)}")
    text = make_printable(hit.text)
    # Only colours mark words: signs around them would change the code that a reader copies.
    if sys.stdout.isatty() and not os.environ.get("NO_COLOR"):
        text = mark_text(text, hit.marks, _MARK_START, _MARK_END)
    for paragraph in text.split("\n"):
        for line in wrap_cells(paragraph, get_width() - 2):
            coloured = line.replace(_MARK_START, "\x1b[1;33m").replace(_MARK_END, "\x1b[0m")  # bold yellow
            click.echo(f"  {coloured}")


def _shorten_path(path: str, width: int) -> str:
    """Return as many of a path's last parts as fit, because the first ones are the same for most files."""
    if len(path) <= width:
        return path
    shortened = ""
    for part in reversed(path.split(os.sep)):
        if len(shortened) + len(part) + len("…/") > width:
            break
        shortened = f"{os.sep}{part}{shortened}"
    return f"…{shortened}" if shortened else path


def _print_timeline(records: Sequence[dict[str, Any]], marked_id: str) -> None:
    """Print records in their order, under headings for each day and file."""
    from rich.cells import cell_len, set_cell_size  # some characters take two columns

    width = get_width()
    labels = [to_printable_line(get_type_label(record["kind"], record["type"]), 12) for record in records]
    # A lesson's id is its slug, which may be long.
    id_width = min(max(len(record["id"]) for record in records), 24)
    type_width = max(map(len, labels))
    cost_width = max(len(f"~{record['tokens']}") for record in records)
    title_width = max(width - id_width - type_width - cost_width - 15, 12)
    last_day = ""
    last_file = ""
    for record, label in zip(records, labels, strict=True):
        day = format_time(record["at"], "%Y-%m-%d") or "at any time"
        file = to_printable_line(next(iter(record["files"]), ""))
        if day != last_day:
            echo_styled(day, bold=True)
            last_file = ""
        if file != last_file:
            echo_styled(f"  {to_printable_line(file or '(no file)', width - 2)}", dim=True)
        last_day = day
        last_file = file
        title = to_printable_line(record["title"])
        if cell_len(title) > title_width:
            title = f"{set_cell_size(title, title_width - 1)}…"
        marker = "* " if record["id"] == marked_id else "  "
        columns = f"{to_printable_line(record['id']):<{id_width}}  {format_time(record['at'], '%H:%M'):<5}"
        cost = f"~{record['tokens']}"
        click.echo(
            f"{marker}{columns}  {label:<{type_width}}  {set_cell_size(title, title_width)}  {cost:>{cost_width}}"
        )


def _print_record(record: dict[str, Any]) -> None:
    """Print one record in full."""
    when = format_time(record["at"])
    kind = record["kind"]
    if record["type"] != kind:
        kind += f", {record['type']}"
    tokens = f"about {record['tokens']}"
    if record.get("cost"):
        tokens += f"; learning it cost {record['cost']}"
    echo_indented(f"{record['id']}  ", record["title"], bold=True)
    for name, text in (
        ("kind", kind),
        ("when", when),
        ("project", record["project"]),
        ("session", f"{record['session']} {record['host']}".strip()),
        ("files", ", ".join(record["files"])),
        ("concepts", ", ".join(record["concepts"])),
        ("tokens", tokens),
    ):
        if text:
            echo_field(name, text)
    echo_indented("   ", record["text"])
    click.echo()


@click.command()
@click.option("--explain", is_flag=True, help="what each section wanted, got and left out")
@json_option
@click.option("--project", default="", metavar="PATH", help="the folder, if it is not this one")
def brief(explain: bool, as_json: bool, project: str) -> None:
    """Show what an agent's session opens with in this folder.

    Nothing is delivered or claimed by looking.
    """
    from hardwon.lessons.manifest import open_current_index
    from hardwon.search.brief import preview_opening
    from hardwon.text.brief_layout import BRIEF_CHARACTERS

    folder = os.path.abspath(os.path.expanduser(project)) if project else os.getcwd()
    if not os.path.isdir(folder):
        raise UserError(f"there is no folder {folder}", "hardwon brief --project PATH")
    home = paths.get_home()
    with open_store() as connection:
        session_brief = preview_opening(connection, home, open_current_index(home, clock.now()), folder)
    sections = [_describe_section(section) for section in session_brief.sections]
    character_count = count_characters(session_brief.text)
    if as_json:
        fields = {"folder": folder, "text": session_brief.text, "characters": character_count}
        echo_json({**fields, "sections": sections})
        return
    echo_text(session_brief.text or "a session opens with nothing here: lessonProtocol is off, and nothing is known")
    if explain:
        click.echo(f"\n{character_count} of {BRIEF_CHARACTERS} characters; a section may use what others leave:\n")
        rows = [list(map(str, row.values())) for row in sections if row["wanted"] or row["inNotes"]]
        echo_table(_SECTION_COLUMNS, rows)
        click.echo("\nfor room: lines that did not fit; in notes: lines that CLAUDE.md or AGENTS.md has")


def _describe_section(section: BriefSection) -> dict[str, Any]:
    """Return the figures of a section of the brief by the names that the JSON has."""
    from hardwon.text.brief_layout import BRIEF_CHARACTERS

    return {
        "section": section.name,
        "share": BRIEF_CHARACTERS * SECTION_SHARES[section.name] // 100,
        "wanted": section.wanted_chars,
        "got": section.allotted_chars,
        "used": count_characters(section.text),
        "lines": section.shown_lines,
        "leftOut": section.omitted_lines,
        "inNotes": section.noted_lines,  # lines left out because the project's own notes have them
    }
