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

_here = click.option("--project", default="", metavar="NAME|PATH", help="this project's, not that of this folder")
_all = click.option("--all", "everywhere", is_flag=True, help="every project's")
_json = click.option("--json", "as_json", is_flag=True, help="print JSON")


@click.command()
@click.argument("words", nargs=-1)
@_here
@_all
@click.option("--kind", "kinds", multiple=True, type=click.Choice(_KINDS), metavar="KIND", help=", ".join(_KINDS))
@click.option("--type", "type_", default="", help="only of this type, such as bugfix or decision")
@click.option("--concept", default="", help="only with this concept")
@click.option("--file", default="", metavar="PATH", help="only about this file, or an end of its path")
@click.option("--host", default="", help="only from this agent")
@click.option("--since", default="", metavar="DATE", help="a date such as 2026-11-01, or 7d or 2w ago")
@click.option("--until", default="", metavar="DATE", help="before this date")
@click.option("--limit", default=40, show_default=True, type=click.IntRange(1, 1000), help="how many")
@_json
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
    with _opened(home) as connection:
        found = found_by.search_records(
            connection,
            home,
            query,
            project=_scope(connection, project, everywhere),
            current_project=_scope(connection, "", False),
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
        click.echo(json.dumps({name: _plain(value) for name, value in found.__dict__.items()}, indent=2))
    else:
        _print(found, query, everywhere)


@click.command()
@click.option("--around", "anchor", default="", metavar="ID", help="what lies before and after this")
@click.option("--query", default="", metavar="WORDS", help="what lies before and after the best answer to this")
@click.option("--before", default=10, show_default=True, type=click.IntRange(0, 500), help="how many before")
@click.option("--after", default=10, show_default=True, type=click.IntRange(0, 500), help="how many after")
@click.option("--type", "type_", default="", help="only of this type")
@_here
@_all
@_json
def timeline(
    anchor: str, query: str, before: int, after: int, type_: str, project: str, everywhere: bool, as_json: bool
) -> None:
    """What was asked and observed around something, or lately, in the order of time."""
    home = paths.get_home()
    with _opened(home) as connection:
        found = around.build_timeline(
            connection,
            home,
            anchor=anchor,
            query=query,
            depth_before=before,
            depth_after=after,
            record_type=type_,
            now=clock.now(),
            project=_scope(connection, project, everywhere),
            model=indexing.load_model_or_none() if query else None,
        )
    if as_json:
        click.echo(json.dumps({name: _plain(value) for name, value in found.__dict__.items()}, indent=2))
    elif found.records:
        _grouped([_line_of(one) for one in found.records], in_order=True, marked=found.anchor)
    elif anchor:
        raise UserError(found.note, "hardwon search WORDS… shows ids; --all looks into every project")
    else:
        click.echo(make_printable(found.note))


@click.command()
@click.argument("ids", nargs=-1, required=True, metavar="ID…")
@_json
def show(ids: tuple[str, ...], as_json: bool) -> None:
    """Records whole, by their ids.

    O12 is an observation, S3 a summary, P7 a prompt, E9 an event, L:slug a lesson, M:1 a memory,
    H:2 a handoff.
    """
    home = paths.get_home()
    with _opened(home) as connection:
        found = records.fetch_records(connection, home, [part for id in ids for part in id.split(",") if part])
    if as_json:
        click.echo(json.dumps([_plain(one) for one in found], indent=2))
    for one in found if not as_json else ():
        if "error" in one:
            click.echo(
                make_printable(f"error: {one['error']}\n  fix: hardwon search WORDS, or hardwon timeline"), err=True
            )
        else:
            _print_whole(one)
    if all("error" in one for one in found):
        raise click.exceptions.Exit(1)


@contextmanager
def _opened(home: str) -> Iterator[db.Connection]:
    with query_scope.open_store(home, ingest.drain_spool, prompts.handle_spooled_prompt) as connection:
        if backlog := describe_backlog(connection, with_vectors=False):
            click.echo(f"{backlog}: the worker does the rest (hardwon start)", err=True)
        yield connection


def _scope(connection: db.Connection, named: str, everywhere: bool) -> str:
    fix = "--all looks into every one"
    return query_scope.resolve_project(
        connection, query_scope.ALL_PROJECTS if everywhere else os.path.expanduser(named), os.getcwd(), fix
    )


def _plain(value: Any) -> Any:
    """A value as JSON says it, its times readable."""
    if isinstance(value, Hit):
        value = value.__dict__
    if isinstance(value, dict):
        return {
            name: (clock.format_iso(one) if one else None) if name == "at" else _plain(one)
            for name, one in value.items()
        }
    return [_plain(one) for one in value] if isinstance(value, list | tuple) else value


def _print(found: SearchResult, query: str, everywhere: bool) -> None:
    if found.hits:
        cost = sum(hit.tokens for hit in found.hits)
        echo_styled(f"{_counted(len(found.hits))}, about {cost} tokens to read: hardwon show ID…", dim=True)
        _grouped([_line_of(hit.__dict__) for hit in found.hits])
    else:
        where = "" if everywhere else " in this project; --all looks into every one"
        click.echo(make_printable(f"nothing was found for {query!r}{where}" if query else f"nothing was found{where}"))
        for hit in found.close:
            echo_indented(f"  close: {hit.id}  ", f"{hit.title} ({', '.join(hit.why)})", most=2)
    if found.note:
        echo_styled(found.note, err=True, dim=True)


def _counted(count: int) -> str:
    return "1 hit" if count == 1 else f"{count} hits"


def _line_of(one: dict[str, Any]) -> HitLine:
    """Day, file, and what a line has: id, time, type, title, what it costs to read."""
    when = datetime.fromtimestamp(one["at"]) if one["at"] else None
    day = when.strftime("%Y-%m-%d") if when else "at any time"
    cells = [one["id"], when.strftime("%H:%M") if when else "", one["type"], one["title"], f"~{one['tokens']}"]
    return day, next(iter(one["files"]), ""), [to_printable_line(cell) for cell in cells]


def _grouped(lines: Sequence[HitLine], *, in_order: bool = False, marked: str = "") -> None:
    """Lines under their day, and there under their file: the best group first, or all in the order of time."""
    room = get_width()
    wide = [min(max(len(cells[at]) for *_, cells in lines), most) for at, most in ((0, 24), (1, 5), (2, 12), (4, 8))]
    left = max(room - sum(wide) - 10, 12)
    for day, of_day in _by(lines, 0, in_order):
        echo_styled(day, bold=True)
        groups = _by(of_day, 1, in_order)
        for file, of_file in groups:
            if file or len(groups) > 1:
                echo_styled(f"  {to_printable_line(file or '(no file)', room - 2)}", dim=True)
            for *_, (id, at, type, title, cost) in of_file:
                sign = "* " if id == marked else "  "
                cells = (
                    f"{id:<{wide[0]}}",
                    f"{at:<{wide[1]}}",
                    f"{to_printable_line(type, 12):<{wide[2]}}",
                    _fitted(title, left),
                )
                click.echo(f"{sign}{'  '.join(cells)}  {cost:>{wide[3]}}")


def _by(lines: Iterable[HitLine], at: int, in_order: bool) -> list[tuple[str, list[HitLine]]]:
    if in_order:
        return [(str(name), list(group)) for name, group in groupby(lines, key=lambda line: line[at])]
    groups: dict[str, list[HitLine]] = {}
    for line in lines:
        groups.setdefault(str(line[at]), []).append(line)
    return list(groups.items())


def _fitted(text: str, room: int) -> str:
    """Text in exactly so many columns; some signs take two."""
    from rich.cells import cell_len, set_cell_size

    return set_cell_size(text, room) if cell_len(text) <= room else f"{set_cell_size(text, room - 1)}…"


def _print_whole(one: dict[str, Any]) -> None:
    when = datetime.fromtimestamp(one["at"]).strftime("%Y-%m-%d %H:%M") if one["at"] else ""
    echo_indented(f"{one['id']}  ", one["title"], bold=True)
    echo_field("kind", f"{one['kind']}, {one['type']}" if one["type"] != one["kind"] else one["kind"])
    for name, text in (("when", when), ("project", one["project"]), ("session", f"{one['session']} {one['host']}")):
        if text.strip():
            echo_field(name, text)
    for name in ("files", "concepts"):
        if one[name]:
            echo_field(name, ", ".join(one[name]))
    echo_field("tokens", f"about {one['tokens']}" + (f"; learning it cost {one['cost']}" if one.get("cost") else ""))
    echo_indented("   ", one["text"])
    click.echo()
