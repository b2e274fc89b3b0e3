"""purge: out of the database, the backups, the spool, the logs and the claims, and then a look whether it is gone."""

from __future__ import annotations

import glob
import json
import os
import shutil
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from typing import Any

import click

from hardwon import claims, clock, paths, settings
from hardwon.actions import approvals, purge_scope
from hardwon.actions.purge_scope import Search
from hardwon.agents import transcript_files
from hardwon.cli.data import must_confirm, project_path, undisturbed
from hardwon.cli.output import printable
from hardwon.cli.person_only import require_person
from hardwon.data import backups, exports
from hardwon.errors import UserError
from hardwon.handoff.reflection import LOGS
from hardwon.lessons import compiled_brief, delivery
from hardwon.mining import proposals
from hardwon.sessions import text_search, transcript_import
from hardwon.store import db, deletions, transcripts
from hardwon.store import purge as cutting
from hardwon.store.purge import Aim
from hardwon.store.purge_lock import purging
from hardwon.text import traces
from hardwon.types import Mark, replace

_SPANS = {"h": 3600.0, "d": 86_400.0, "w": 7 * 86_400.0, "y": 365 * 86_400.0}
_APPROVED = (paths.LESSONS, paths.CONFIG, paths.TRUSTED, paths.INSTALLED, paths.PAUSED, "memory/*.md", "drafts/*.md")
LOG_LINES = 1_000  # that `--log` shows
_BUILT = (paths.MANIFEST, paths.INDEX)
_OF_PROJECTS = (".hardwon/lessons.json", ".claude/memory/*.md", "docs/sessions/*.md")
_CANNOT = (
    "file system snapshots and backups that others made, blocks that an SSD or the file system has freed but not"
    " wiped, swap, and what an agent still has in its context"
)


@click.command()
@click.option("--text", help="whatever holds this text; - reads it from stdin")
@click.option("--session", metavar="ID", help="a session: its id, a beginning of it, or its number")
@click.option("--project", metavar="NAME|PATH", help="everything of a project")
@click.option("--older-than", metavar="30d", help="everything older: hours (h), days (d), weeks (w) or years (y)")
@click.option("--dry-run", is_flag=True, help="say what would go, and change nothing")
@click.option("--log", "show_log", is_flag=True, help="show what was deleted so far: when, how and how much")
@click.option("--yes", is_flag=True, help="do not ask")
@click.option("--json", "as_json", is_flag=True, help="print JSON")
def purge(
    text: str | None,
    session: str | None,
    project: str | None,
    older_than: str | None,
    dry_run: bool,
    show_log: bool,
    yes: bool,
    as_json: bool,
) -> None:
    """Delete something for good, then look whether it is gone.

    Files you approved (lessons, memories, handoffs) are named, not touched.
    """
    if show_log:
        _show_log(db.connect(paths.home()), as_json=as_json)
        return
    if sum(one is not None for one in (text, session, project, older_than)) != 1:
        raise UserError(
            "say what is to go, in one way", "hardwon purge --text TEXT, --session, --project or --older-than"
        )
    if not dry_run:
        require_person("purging")
    home = paths.home()
    connection = db.connect(home)
    aim = _aim(connection, text, session, project, older_than)
    if dry_run or not (yes or as_json):
        _said(_everything(home, connection, purge_scope.search(home, connection, aim, dry=True)), aim, as_json=as_json)
        if dry_run:
            return
    must_confirm(yes, "Delete this? It cannot be undone")
    with undisturbed(home), purging(home):
        try:
            report = _everything(home, connection, purge_scope.search(home, connection, aim, dry=False))
        except db.StoreError as wrong:
            raise UserError(f"the purge was cut off: {wrong}", "mend that, then purge again: it goes on") from None
        connection.close()
    _said(report, aim, as_json=as_json)
    if report["left"]:
        raise SystemExit(1)


def _show_log(connection: db.Connection, *, as_json: bool) -> None:
    """Print what purges, `sessions delete`, retention and decisions about memories took away, newest first."""
    lines = deletions.list_newest(connection, LOG_LINES)
    if as_json:
        click.echo(json.dumps([{**line.__dict__, "at": clock.iso(line.at)} for line in lines], indent=2))
        return
    for line in lines:
        rows = ", ".join(f"{count} {_one(table) if count == 1 else table}" for table, count in line.rows.items())
        click.echo(f"{clock.iso(line.at)}  {line.path}, {line.kind}: {rows or 'nothing in the database'}")
    if not lines:
        click.echo("nothing was deleted yet")


def _aim(
    connection: db.Connection, text: str | None, session: str | None, project: str | None, older_than: str | None
) -> Aim:
    if text is not None:
        given = sys.stdin.read().strip("\n") if text == "-" else text
        if pieces := traces.pieces(given):
            return Aim(pieces=pieces)
        raise UserError(f"the text has fewer than {traces.SHORTEST} letters and digits", "give more of it")
    if session is not None:
        found = cutting.session_named(connection, session) if session else []
        if not found:
            raise UserError(f"nothing is known of a session {session!r}", "hardwon sessions list")
        if len(found) > 1:
            raise UserError(f"{session!r} could be {', '.join(found[:5])}", "write more of it")
        return Aim(session=found[0])
    if project is not None:
        return Aim(project=project_path(connection, project))
    return Aim(before=clock.now() - _span(str(older_than)))


def _span(text: str) -> float:
    number, unit = text[:-1], text[-1:]
    if not number.isascii() or not number.isdigit() or len(number) > 6 or unit not in _SPANS:
        raise UserError(f"--older-than {text!r} is no span of time", "write it as 30d, 12h, 4w or 1y")
    return int(number) * _SPANS[unit]


def _everything(home: str, connection: db.Connection, search: Search) -> dict[str, Any]:
    """Do it, or with a dry run count it: what goes from where, what is only named, and what is left."""
    approved = {path: text_search.lines(path, search.pieces) for path in _approved(home, connection, search)}
    gone: dict[str, Mapping[str, int]] = {
        "database": _database(home, connection, search),
        "spool": _spool(home, search),
        "claims": _claims(home, search),
        "logs": _logs(home, search),
        "drafts": _whole(search, purge_scope.DRAFTED),
        "queues": _whole(search, purge_scope.QUEUED),
        **_backups(home, search),
    }
    if not search.dry:
        text_search.sweep_unfinished(home)
        compiled_brief.forget(home)
        with suppress(UserError):  # lessons.json cannot be read, and what was built before stays
            approvals.compile_manifest(home, clock.now())
    return {
        "dry": search.dry,
        "gone": {place: dict(counts) for place, counts in gone.items() if counts},
        "approved": approved,
        "transcripts": [path for path, _ in search.transcripts],
        "left": [] if search.dry else _left(home, search, approved),
        "cannot": _CANNOT,
    }


def _database(home: str, connection: db.Connection, search: Search) -> Counter[str]:
    if search.dry:
        return cutting.counted(connection, search.aim)
    gone = cutting.carry_out(connection, search.aim, _marks(connection, search), clock.now())
    values = settings.resolve(settings.read_config(home))
    proposals.refresh(connection, values, tiers=(1, 2), now=clock.now())
    if not cutting.write_anew(connection):
        raise UserError("somebody reads the database, so its log stays", "close what reads it, then purge again")
    return gone


def _marks(connection: db.Connection, search: Search) -> Iterator[tuple[str, str, str, Mark]]:
    """Each transcript that holds it, as read to its end, so that neither a scan nor a session's end brings it back."""
    for path, host in search.transcripts:
        if search.aim.pieces and traces.holds(path, search.pieces):
            continue  # then the mark itself would hold it
        for purpose in (transcripts.SCAN, transcript_import.PURPOSE):
            with transcript_files.reading(path, transcripts.mark_of(connection, path, purpose)) as opened:
                mark = opened.mark
                for _, after in opened.portions:
                    mark = after
            yield purpose, path, host, mark


def _spool(home: str, search: Search) -> Counter[str]:
    gone = Counter[str]()
    for path in text_search.below(os.path.join(home, "spool")):
        if _is_spooled(path, search):
            gone["files"] += 1
            _unlink(path, search)
    return gone


def _is_spooled(path: str, search: Search) -> bool:
    if search.aim.pieces:
        return text_search.holds(path, search.pieces)
    try:
        with open(path, encoding="utf-8", errors="replace", opener=paths.plain_file) as file:
            record = json.load(file)
        told = [one for one in (record["event"], *record["injections"]) if one]
    except (OSError, ValueError, KeyError, TypeError):
        return text_search.holds(path, search.pieces) if search.pieces else False
    if search.aim.before is not None:
        return bool(told) and all(one.get("at", 0.0) < search.aim.before for one in told)
    below = f"{search.aim.project}/"
    return any(
        one.get("session") in search.sessions or (search.aim.project and f"{one.get('cwd', '')}/".startswith(below))
        for one in told
    )


def _claims(home: str, search: Search) -> Counter[str]:
    """All of a session's but that part of it was paused: while its transcript is there, nobody is to read that."""
    gone = Counter[str]()
    for session in search.sessions:
        for place in (
            claims.folder(home, session),
            claims.folder(home, session, claims.PRIVATE),
            claims.folder(home, session, claims.OURS),
            claims.folder(home, delivery.TWICE + session),
        ):
            gone["files"] += sum(1 for _ in text_search.below(place))
            if not search.dry:
                shutil.rmtree(place, ignore_errors=True)
    for path in text_search.below(os.path.join(home, "claims")) if search.aim.pieces else ():
        if text_search.holds(path, search.pieces):
            gone["files"] += 1
            _unlink(path, search)
    return +gone


def _logs(home: str, search: Search) -> Counter[str]:
    """The lines that hold it; the whole file if it stands across lines, or is the raw log of a reflection."""
    gone = _whole(search, purge_scope.LOGGED)
    for path in text_search.below(os.path.join(home, os.path.dirname(paths.LOG))):
        if path.startswith(os.path.join(home, LOGS, "")):
            continue
        gone["lines"] += text_search.cut_lines(path, _is_logged(search), dry=search.dry)
        if search.pieces and not search.dry and text_search.holds(path, search.pieces):
            gone["files"] += 1
            os.unlink(path)
    return +gone


def _is_logged(search: Search) -> Callable[[str], bool]:
    if search.pieces:
        return lambda line: traces.holds(line, search.pieces)
    limit = clock.iso(search.aim.before or 0.0)
    return lambda line: line[:4].isdigit() and line.split(" ", 1)[0] < limit


def _whole(search: Search, kind: str) -> Counter[str]:
    for path in search.unapproved[kind]:
        with suppress(OSError):  # it may lie in a repository that nobody may write to: then it is left, and named
            _unlink(path, search)
    return +Counter(files=len(search.unapproved[kind]))


def _backups(home: str, search: Search) -> dict[str, Counter[str]]:
    """Each backup by its name, and what else lies there: copies of agents' settings, which go only for a text."""
    gone: dict[str, Counter[str]] = {}
    folders = backups.listed(home)
    for one in folders:
        gone[f"backups/{one.name}"] = _backup(one, search)
    known = tuple(one.path + os.sep for one in folders)
    for path in text_search.below(os.path.join(home, backups.FOLDER)) if search.aim.pieces else ():
        if not path.startswith(known) and text_search.holds(path, search.pieces):
            gone[os.path.relpath(path, home)] = Counter(files=1)
            _unlink(path, search)
    return gone


def _backup(one: backups.Backup, search: Search) -> Counter[str]:
    """The same as in our own database; a backup whose database cannot be opened goes whole."""
    try:
        gone = _backup_database(os.path.join(one.path, paths.DATABASE), search) if one.schema else Counter[str]()
    except (db.StoreError, UserError):
        one = replace(one, schema=None)
        gone = Counter[str]()
    if one.schema is None:
        if not search.dry:
            shutil.rmtree(one.path)
        return Counter({"whole backups that cannot be opened": 1})
    for path in text_search.below(one.path):
        if os.path.relpath(path, one.path) in backups.files(one.path) and _is_copied(path, search):
            gone[os.path.basename(path)] += 1
            _cut_copy(path, search)
    return gone


def _is_copied(path: str, search: Search) -> bool:
    """Whether a copy holds the text; of a session, project or time only drafts go, since a person approved the rest."""
    if search.aim.pieces:
        return text_search.holds(path, search.pieces)
    names = {os.path.basename(one) for one in search.unapproved[purge_scope.DRAFTED]}
    return purge_scope.is_draft(path) and (os.path.basename(path) in names or purge_scope.is_of(path, search.sessions))


def _backup_database(path: str, search: Search) -> Counter[str]:
    connection = cutting.opened(path, dry=search.dry)
    try:
        if search.dry:
            return cutting.counted(connection, search.aim)
        gone = cutting.carry_out(connection, search.aim, (), clock.now())
        cutting.write_anew(connection)
        return gone
    finally:
        connection.close()


def _cut_copy(path: str, search: Search) -> None:
    """Take the lessons that hold it out of a backup's copy; what still holds it goes whole."""
    if search.dry:
        return
    with open(path, "rb", opener=paths.plain_file) as file:
        content = file.read()
    is_lessons = os.path.basename(path) == paths.LESSONS
    after = backups.without(content, lambda text: traces.holds(text, search.pieces)) if is_lessons else None
    if after is None or any(traces.holds(text, search.pieces) for text in traces.readings(after)):
        os.unlink(path)
    else:
        paths.write_private(path, after)


def _unlink(path: str, search: Search) -> None:
    if not search.dry:
        os.unlink(path)


def _approved(home: str, connection: db.Connection, search: Search) -> list[str]:
    """The files a person approved that hold it: here, and in the projects that are known.

    Their copies in backups go with a text, and stay with a session or a project.
    """
    if not search.pieces:
        return []
    places = [one for name in _APPROVED for one in glob.glob(os.path.join(glob.escape(home), name))]
    places += search.ratified
    if search.aim.pieces:
        known = exports.project_paths(connection)
        places += [
            one for path in known for kind in _OF_PROJECTS for one in glob.glob(os.path.join(glob.escape(path), kind))
        ]
    else:
        copies = text_search.below(os.path.join(home, backups.FOLDER))
        kept = [one for one in copies if paths.DATABASE not in os.path.basename(one) and not _is_copied(one, search)]
        places += kept
    going = search.unapproved[purge_scope.DRAFTED]
    found = [path for path in dict.fromkeys(places) if os.path.isfile(path) and path not in going]
    return [path for path in found if text_search.holds(path, search.pieces)]


def _left(home: str, search: Search, approved: Mapping[str, list[int]]) -> list[str]:
    """The files that hold it all the same: of the home, and those that should have gone whole. What is built from
    approved files says what those say.

    A session or a project is still named where the database says how far its transcripts were read.
    """
    named = {*approved}
    if not named.isdisjoint(os.path.join(home, name) for name in (paths.LESSONS, paths.CONFIG)):
        named |= {os.path.join(home, name) for name in _BUILT}
    stuck = [path for places in search.unapproved.values() for path in places if os.path.exists(path)]
    found = text_search.below(home) if search.pieces else ()
    skipped = () if search.aim.pieces else (paths.DATABASE,)
    held = [
        path
        for path in found
        if path not in named and os.path.basename(path) not in skipped and text_search.holds(path, search.pieces)
    ]
    return list(dict.fromkeys([*stuck, *held]))


def _one(what: str) -> str:
    noun, blank, more = what.partition(" ")
    return (f"{noun[:-3]}y" if noun.endswith("ies") else noun.removesuffix("s")) + blank + more


def _said(report: dict[str, Any], aim: Aim, *, as_json: bool) -> None:
    if as_json:
        click.echo(json.dumps(report, indent=2))
        return
    word = "would go" if report["dry"] else "gone"
    for place, counts in report["gone"].items():
        told = ", ".join(f"{count} {_one(what) if count == 1 else what}" for what, count in counts.items())
        click.echo(printable(f"{word:<10}{place}: {told}"))
    if not report["gone"]:
        click.echo(f"{word:<10}nothing: it is nowhere in what hardwon keeps")
    for path, numbers in report["approved"].items():
        where = ", ".join(map(str, numbers)) if numbers != [0] else "across lines"
        click.echo(printable(f"yours     {path}: line {where}; not touched, edit it yourself"))
    for path in report["transcripts"]:
        click.echo(printable(f"agent's   {path} still holds it"))
    if report["transcripts"]:
        click.echo("          they are not read again up to here, and no import brings it back")
    for path in report["left"]:
        click.echo(printable(f"LEFT      {path} holds it still: look at it yourself"))
    if not report["dry"]:
        if not report["left"] and aim.before is None:
            besides = "" if aim.pieces else ", and the marks of its transcripts and of its pauses"
            click.echo(f"searched  every file of the home: it is in none but those named above{besides}")
        click.echo(f"unproven  {report['cannot']}")
