"""search, timeline, show"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from itertools import groupby
from typing import Any

import click

from hardwon import clock, paths
from hardwon.actions import prompts
from hardwon.cli.output import echo_field, echo_indented, echo_styled, get_width, make_printable, to_printable_line
from hardwon.errors import UserError
from hardwon.search import indexing, query_scope, records
from hardwon.search import search as found_by
from hardwon.search import timeline as around
from hardwon.search.index_backlog import describe_backlog
from hardwon.search.search import Hit, SearchResult
from hardwon.sessions import ingest
from hardwon.store import db
from hardwon.store.documents import DOCUMENT_KINDS

_KINDS = [kind.name for kind in DOCUMENT_KINDS.values()]

HitLine = tuple[str, str, list[str]]

_project_option = click.option(
    "--project", default="", metavar="NAME|PATH", help="this project's, not that of this folder"
)
_all_option = click.option("--all", "everywhere", is_flag=True, help="every project's")
_json_option = click.option("--json", "as_json", is_flag=True, help="print JSON")


@click.command()
@click.argument("words", nargs=-1)
@_project_option
@_all_option
@click.option("--kind", "kinds", multiple=True, type=click.Choice(_KINDS), metavar="KIND", help=", ".join(_KINDS))
@click.option("--type", "type_", default="", help="only of this type, such as bugfix or decision")
@click.option("--concept", default="", help="only with this concept")
@click.option("--file", default="", metavar="PATH", help="only about this file, or an end of its path")
@click.option("--host", default="", help="only from this agent")
@click.option("--since", default="", metavar="DATE", help="a date such as 2026-11-01, or 7d or 2w ago")
@click.option("--until", default="", metavar="DATE", help="before this date")
@click.option("--limit", default=40, show_default=True, type=click.IntRange(1, 1000), help="how many")
@_json_option
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
    """What is known about WORDS, in this project: the best first, by day and file.

    WORDS may be a question, an identifier, a path or an id.
    """
    home, query = paths.get_home(), " ".join(words)
    if not query.strip() and not any((kinds, type_, concept, file, host, since, until)):
        raise UserError("there is nothing to look for", "hardwon search WORDS…, or a filter such as --type bugfix")
    now, model = clock.now(), indexing.load_model_or_none()
    begin, end = query_scope.parse_time(since, now), query_scope.parse_time(until, now)
    with _open_store(home) as connection:
        result = found_by.search_records(
            connection,
            home,
            query,
            project=_resolve_scope(connection, project, everywhere),
            current_project=_resolve_scope(connection, "", False),
            kinds=kinds,
            type=type_,
            concept=concept,
            file=file,
            host=host,
            since=begin,
            until=end,
            limit=limit,
            now=now,
            model=model,
        )
    if as_json:
        click.echo(json.dumps({name: _to_json(value) for name, value in result.__dict__.items()}, indent=2))
    else:
        _print_result(result, query, everywhere)


@click.command()
@click.option("--around", "anchor", default="", metavar="ID", help="what lies before and after this")
@click.option("--query", default="", metavar="WORDS", help="what lies before and after the best answer to this")
@click.option("--before", default=10, show_default=True, type=click.IntRange(0, 500), help="how many before")
@click.option("--after", default=10, show_default=True, type=click.IntRange(0, 500), help="how many after")
@click.option("--type", "type_", default="", help="only of this type")
@_project_option
@_all_option
@_json_option
def timeline(
    anchor: str, query: str, before: int, after: int, type_: str, project: str, everywhere: bool, as_json: bool
) -> None:
    """What was asked and observed around something, or lately, in the order of time."""
    home = paths.get_home()
    with _open_store(home) as connection:
        result = around.build_timeline(
            connection,
            home,
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
        click.echo(json.dumps({name: _to_json(value) for name, value in result.__dict__.items()}, indent=2))
    elif result.records:
        _print_groups([_build_hit_line(record) for record in result.records], in_order=True, marked_id=result.anchor)
    elif anchor:
        raise UserError(result.note, "hardwon search WORDS… shows ids; --all looks into every project")
    else:
        click.echo(make_printable(result.note))


@click.command()
@click.argument("ids", nargs=-1, required=True, metavar="ID…")
@_json_option
def show(ids: tuple[str, ...], as_json: bool) -> None:
    """Records whole, by their ids.

    O12 is an observation, S3 a summary, P7 a prompt, E9 an event, L:slug a lesson, M:1 a memory,
    H:2 a handoff.
    """
    home = paths.get_home()
    with _open_store(home) as connection:
        fetched_records = records.fetch_records(
            connection, home, [part for id_text in ids for part in id_text.split(",") if part]
        )
    if as_json:
        click.echo(json.dumps([_to_json(record) for record in fetched_records], indent=2))
    for record in fetched_records if not as_json else ():
        if "error" in record:
            click.echo(
                make_printable(f"error: {record['error']}\n  fix: hardwon search WORDS, or hardwon timeline"), err=True
            )
        else:
            _print_record(record)
    if all("error" in record for record in fetched_records):
        raise click.exceptions.Exit(1)


@contextmanager
def _open_store(home: str) -> Iterator[db.Connection]:
    with query_scope.open_store(home, ingest.drain_spool, prompts.handle_spooled_prompt) as connection:
        if backlog := describe_backlog(connection, with_vectors=False):
            click.echo(f"{backlog}: the worker does the rest (hardwon start)", err=True)
        yield connection


def _resolve_scope(connection: db.Connection, project_name: str, everywhere: bool) -> str:
    fix = "--all looks into every one"
    return query_scope.resolve_project(
        connection, query_scope.ALL_PROJECTS if everywhere else os.path.expanduser(project_name), os.getcwd(), fix
    )


def _to_json(value: Any) -> Any:
    """A value as JSON says it, its times readable."""
    if isinstance(value, Hit):
        value = value.__dict__
    if isinstance(value, dict):
        return {
            name: (clock.format_iso(item) if item else None) if name == "at" else _to_json(item)
            for name, item in value.items()
        }
    return [_to_json(item) for item in value] if isinstance(value, list | tuple) else value


def _print_result(result: SearchResult, query: str, everywhere: bool) -> None:
    if result.hits:
        cost = sum(hit.tokens for hit in result.hits)
        echo_styled(f"{_format_hit_count(len(result.hits))}, about {cost} tokens to read: hardwon show ID…", dim=True)
        _print_groups([_build_hit_line(hit.__dict__) for hit in result.hits])
    else:
        scope_note = "" if everywhere else " in this project; --all looks into every one"
        click.echo(
            make_printable(
                f"nothing was found for {query!r}{scope_note}" if query else f"nothing was found{scope_note}"
            )
        )
        for hit in result.close:
            echo_indented(f"  close: {hit.id}  ", f"{hit.title} ({', '.join(hit.why)})", max_lines=2)
    if result.note:
        echo_styled(result.note, err=True, dim=True)


def _format_hit_count(count: int) -> str:
    return "1 hit" if count == 1 else f"{count} hits"


def _build_hit_line(record: dict[str, Any]) -> HitLine:
    """Day, file, and what a line has: id, time, type, title, what it costs to read."""
    when = datetime.fromtimestamp(record["at"]) if record["at"] else None
    day = when.strftime("%Y-%m-%d") if when else "at any time"
    cells = [
        record["id"],
        when.strftime("%H:%M") if when else "",
        record["type"],
        record["title"],
        f"~{record['tokens']}",
    ]
    return day, next(iter(record["files"]), ""), [to_printable_line(cell) for cell in cells]


def _print_groups(lines: Sequence[HitLine], *, in_order: bool = False, marked_id: str = "") -> None:
    """Lines under their day, and there under their file: the best group first, or all in the order of time."""
    width = get_width()
    widths = [
        min(max(len(cells[at]) for *_, cells in lines), max_width)
        for at, max_width in ((0, 24), (1, 5), (2, 12), (4, 8))
    ]
    title_width = max(width - sum(widths) - 10, 12)
    for day, day_lines in _group_lines(lines, 0, in_order):
        echo_styled(day, bold=True)
        groups = _group_lines(day_lines, 1, in_order)
        for file, file_lines in groups:
            if file or len(groups) > 1:
                echo_styled(f"  {to_printable_line(file or '(no file)', width - 2)}", dim=True)
            for *_, (record_id, at, record_type, title, cost) in file_lines:
                marker = "* " if record_id == marked_id else "  "
                cells = (
                    f"{record_id:<{widths[0]}}",
                    f"{at:<{widths[1]}}",
                    f"{to_printable_line(record_type, 12):<{widths[2]}}",
                    _fit_text(title, title_width),
                )
                click.echo(f"{marker}{'  '.join(cells)}  {cost:>{widths[3]}}")


def _group_lines(lines: Iterable[HitLine], column: int, in_order: bool) -> list[tuple[str, list[HitLine]]]:
    if in_order:
        return [(str(name), list(group)) for name, group in groupby(lines, key=lambda line: line[column])]
    groups: dict[str, list[HitLine]] = {}
    for line in lines:
        groups.setdefault(str(line[column]), []).append(line)
    return list(groups.items())


def _fit_text(text: str, width: int) -> str:
    """Text in exactly so many columns; some signs take two."""
    from rich.cells import cell_len, set_cell_size

    return set_cell_size(text, width) if cell_len(text) <= width else f"{set_cell_size(text, width - 1)}…"


def _print_record(record: dict[str, Any]) -> None:
    when = datetime.fromtimestamp(record["at"]).strftime("%Y-%m-%d %H:%M") if record["at"] else ""
    echo_indented(f"{record['id']}  ", record["title"], bold=True)
    echo_field("kind", f"{record['kind']}, {record['type']}" if record["type"] != record["kind"] else record["kind"])
    for name, text in (
        ("when", when),
        ("project", record["project"]),
        ("session", f"{record['session']} {record['host']}"),
    ):
        if text.strip():
            echo_field(name, text)
    for name in ("files", "concepts"):
        if record[name]:
            echo_field(name, ", ".join(record[name]))
    echo_field(
        "tokens", f"about {record['tokens']}" + (f"; learning it cost {record['cost']}" if record.get("cost") else "")
    )
    echo_indented("   ", record["text"])
    click.echo()
