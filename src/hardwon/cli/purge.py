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
from hardwon.actions.purge_scope import PurgeScope
from hardwon.agents import transcript_files
from hardwon.cli.data import find_project_path, hold_worker_stopped, require_confirmation
from hardwon.cli.output import make_printable
from hardwon.cli.person_only import require_person
from hardwon.data import backups, exports
from hardwon.errors import UserError
from hardwon.handoff.reflection import LOGS_FOLDER
from hardwon.lessons import compiled_brief, delivery
from hardwon.mining import proposals
from hardwon.sessions import text_search, transcript_import
from hardwon.store import db, deletions, transcripts
from hardwon.store import purge as cutting
from hardwon.store.purge import PurgeTarget
from hardwon.store.purge_lock import hold_purge_lock
from hardwon.text import traces
from hardwon.types import ReadPosition, replace

_SPANS = {"h": 3600.0, "d": 86_400.0, "w": 7 * 86_400.0, "y": 365 * 86_400.0}
_APPROVED = (
    paths.LESSONS,
    paths.CONFIG,
    paths.TRUSTED_PROJECTS,
    paths.INSTALL_LEDGER,
    paths.PAUSES,
    "memory/*.md",
    "drafts/*.md",
)
LOG_LINES = 1_000  # that `--log` shows
_BUILT = (paths.MANIFEST, paths.LESSON_INDEX)
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
        _show_log(db.connect(paths.get_home()), as_json=as_json)
        return
    if sum(one is not None for one in (text, session, project, older_than)) != 1:
        raise UserError(
            "say what is to go, in one way", "hardwon purge --text TEXT, --session, --project or --older-than"
        )
    if not dry_run:
        require_person("purging")
    home = paths.get_home()
    connection = db.connect(home)
    aim = _aim(connection, text, session, project, older_than)
    if dry_run or not (yes or as_json):
        _said(
            _everything(home, connection, purge_scope.find_purge_scope(home, connection, aim, dry_run=True)),
            aim,
            as_json=as_json,
        )
        if dry_run:
            return
    require_confirmation(yes, "Delete this? It cannot be undone")
    with hold_worker_stopped(home), hold_purge_lock(home):
        try:
            report = _everything(home, connection, purge_scope.find_purge_scope(home, connection, aim, dry_run=False))
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
        click.echo(json.dumps([{**line.__dict__, "at": clock.format_iso(line.at)} for line in lines], indent=2))
        return
    for line in lines:
        rows = ", ".join(f"{count} {_one(table) if count == 1 else table}" for table, count in line.rows.items())
        click.echo(f"{clock.format_iso(line.at)}  {line.path}, {line.kind}: {rows or 'nothing in the database'}")
    if not lines:
        click.echo("nothing was deleted yet")


def _aim(
    connection: db.Connection, text: str | None, session: str | None, project: str | None, older_than: str | None
) -> PurgeTarget:
    if text is not None:
        given = sys.stdin.read().strip("\n") if text == "-" else text
        if pieces := traces.split_into_pieces(given):
            return PurgeTarget(text_pieces=pieces)
        raise UserError(f"the text has fewer than {traces.MIN_SEARCH_LENGTH} letters and digits", "give more of it")
    if session is not None:
        found = cutting.find_session_ids(connection, session) if session else []
        if not found:
            raise UserError(f"nothing is known of a session {session!r}", "hardwon sessions list")
        if len(found) > 1:
            raise UserError(f"{session!r} could be {', '.join(found[:5])}", "write more of it")
        return PurgeTarget(session=found[0])
    if project is not None:
        return PurgeTarget(project=find_project_path(connection, project))
    return PurgeTarget(older_than=clock.now() - _span(str(older_than)))


def _span(text: str) -> float:
    number, unit = text[:-1], text[-1:]
    if not number.isascii() or not number.isdigit() or len(number) > 6 or unit not in _SPANS:
        raise UserError(f"--older-than {text!r} is no span of time", "write it as 30d, 12h, 4w or 1y")
    return int(number) * _SPANS[unit]


def _everything(home: str, connection: db.Connection, search: PurgeScope) -> dict[str, Any]:
    """Do it, or with a dry run count it: what goes from where, what is only named, and what is left."""
    approved = {
        path: text_search.find_matching_lines(path, search.text_pieces) for path in _approved(home, connection, search)
    }
    gone: dict[str, Mapping[str, int]] = {
        "database": _database(home, connection, search),
        "spool": _spool(home, search),
        "claims": _claims(home, search),
        "logs": _logs(home, search),
        "drafts": _whole(search, purge_scope.DRAFT_FILES),
        "queues": _whole(search, purge_scope.QUEUE_FILES),
        **_backups(home, search),
    }
    if not search.dry_run:
        text_search.remove_unfinished_files(home)
        compiled_brief.delete_all(home)
        with suppress(UserError):  # lessons.json cannot be read, and what was built before stays
            approvals.compile_manifest(home, clock.now())
    return {
        "dry": search.dry_run,
        "gone": {place: dict(counts) for place, counts in gone.items() if counts},
        "approved": approved,
        "transcripts": [path for path, _ in search.transcripts],
        "left": [] if search.dry_run else _left(home, search, approved),
        "cannot": _CANNOT,
    }


def _database(home: str, connection: db.Connection, search: PurgeScope) -> Counter[str]:
    if search.dry_run:
        return cutting.preview_purge(connection, search.target)
    gone = cutting.purge_target(connection, search.target, _marks(connection, search), clock.now())
    values = settings.resolve_settings(settings.read_config(home))
    proposals.refresh_candidates(connection, values, tiers=(1, 2), now=clock.now())
    if not cutting.erase_deleted_pages(connection):
        raise UserError("somebody reads the database, so its log stays", "close what reads it, then purge again")
    return gone


def _marks(connection: db.Connection, search: PurgeScope) -> Iterator[tuple[str, str, str, ReadPosition]]:
    """Each transcript that holds it, as read to its end, so that neither a scan nor a session's end brings it back."""
    for path, host in search.transcripts:
        if search.target.text_pieces and traces.has_any_piece(path, search.text_pieces):
            continue  # then the mark itself would hold it
        for purpose in (transcripts.SCAN_PURPOSE, transcript_import.CAPTURE_PURPOSE):
            with transcript_files.open_transcript(
                path, transcripts.find_read_position(connection, path, purpose)
            ) as opened:
                mark = opened.position
                for _, after in opened.portions:
                    mark = after
            yield purpose, path, host, mark


def _spool(home: str, search: PurgeScope) -> Counter[str]:
    gone = Counter[str]()
    for path in text_search.list_files_below(os.path.join(home, "spool")):
        if _is_spooled(path, search):
            gone["files"] += 1
            _unlink(path, search)
    return gone


def _is_spooled(path: str, search: PurgeScope) -> bool:
    if search.target.text_pieces:
        return text_search.has_piece_in_file(path, search.text_pieces)
    try:
        with open(path, encoding="utf-8", errors="replace", opener=paths.open_plain_file) as file:
            record = json.load(file)
        told = [one for one in (record["event"], *record["injections"]) if one]
    except (OSError, ValueError, KeyError, TypeError):
        return text_search.has_piece_in_file(path, search.text_pieces) if search.text_pieces else False
    if search.target.older_than is not None:
        return bool(told) and all(one.get("at", 0.0) < search.target.older_than for one in told)
    below = f"{search.target.project}/"
    return any(
        one.get("session") in search.sessions or (search.target.project and f"{one.get('cwd', '')}/".startswith(below))
        for one in told
    )


def _claims(home: str, search: PurgeScope) -> Counter[str]:
    """All of a session's but that part of it was paused: while its transcript is there, nobody is to read that."""
    gone = Counter[str]()
    for session in search.sessions:
        for place in (
            claims.get_claim_folder(home, session),
            claims.get_claim_folder(home, session, claims.PRIVATE_PREFIX),
            claims.get_claim_folder(home, session, claims.HARDWON_TURN_PREFIX),
            claims.get_claim_folder(home, delivery.DUPLICATE_PREFIX + session),
        ):
            gone["files"] += sum(1 for _ in text_search.list_files_below(place))
            if not search.dry_run:
                shutil.rmtree(place, ignore_errors=True)
    for path in text_search.list_files_below(os.path.join(home, "claims")) if search.target.text_pieces else ():
        if text_search.has_piece_in_file(path, search.text_pieces):
            gone["files"] += 1
            _unlink(path, search)
    return +gone


def _logs(home: str, search: PurgeScope) -> Counter[str]:
    """The lines that hold it; the whole file if it stands across lines, or is the raw log of a reflection."""
    gone = _whole(search, purge_scope.LOG_FILES)
    for path in text_search.list_files_below(os.path.join(home, os.path.dirname(paths.WORKER_LOG))):
        if path.startswith(os.path.join(home, LOGS_FOLDER, "")):
            continue
        gone["lines"] += text_search.remove_lines(path, _is_logged(search), dry_run=search.dry_run)
        if search.text_pieces and not search.dry_run and text_search.has_piece_in_file(path, search.text_pieces):
            gone["files"] += 1
            os.unlink(path)
    return +gone


def _is_logged(search: PurgeScope) -> Callable[[str], bool]:
    if search.text_pieces:
        return lambda line: traces.has_any_piece(line, search.text_pieces)
    limit = clock.format_iso(search.target.older_than or 0.0)
    return lambda line: line[:4].isdigit() and line.split(" ", 1)[0] < limit


def _whole(search: PurgeScope, kind: str) -> Counter[str]:
    for path in search.unapproved_files[kind]:
        with suppress(OSError):  # it may lie in a repository that nobody may write to: then it is left, and named
            _unlink(path, search)
    return +Counter(files=len(search.unapproved_files[kind]))


def _backups(home: str, search: PurgeScope) -> dict[str, Counter[str]]:
    """Each backup by its name, and what else lies there: copies of agents' settings, which go only for a text."""
    gone: dict[str, Counter[str]] = {}
    folders = backups.list_backups(home)
    for one in folders:
        gone[f"backups/{one.name}"] = _backup(one, search)
    known = tuple(one.path + os.sep for one in folders)
    for path in (
        text_search.list_files_below(os.path.join(home, backups.BACKUPS_FOLDER)) if search.target.text_pieces else ()
    ):
        if not path.startswith(known) and text_search.has_piece_in_file(path, search.text_pieces):
            gone[os.path.relpath(path, home)] = Counter(files=1)
            _unlink(path, search)
    return gone


def _backup(one: backups.Backup, search: PurgeScope) -> Counter[str]:
    """The same as in our own database; a backup whose database cannot be opened goes whole."""
    try:
        gone = _backup_database(os.path.join(one.path, paths.DATABASE), search) if one.schema else Counter[str]()
    except (db.StoreError, UserError):
        one = replace(one, schema=None)
        gone = Counter[str]()
    if one.schema is None:
        if not search.dry_run:
            shutil.rmtree(one.path)
        return Counter({"whole backups that cannot be opened": 1})
    for path in text_search.list_files_below(one.path):
        if os.path.relpath(path, one.path) in backups.list_copied_files(one.path) and _is_copied(path, search):
            gone[os.path.basename(path)] += 1
            _cut_copy(path, search)
    return gone


def _is_copied(path: str, search: PurgeScope) -> bool:
    """Whether a copy holds the text; of a session, project or time only drafts go, since a person approved the rest."""
    if search.target.text_pieces:
        return text_search.has_piece_in_file(path, search.text_pieces)
    names = {os.path.basename(one) for one in search.unapproved_files[purge_scope.DRAFT_FILES]}
    return purge_scope.is_draft(path) and (
        os.path.basename(path) in names or purge_scope.is_draft_of(path, search.sessions)
    )


def _backup_database(path: str, search: PurgeScope) -> Counter[str]:
    connection = cutting.open_backup(path, dry_run=search.dry_run)
    try:
        if search.dry_run:
            return cutting.preview_purge(connection, search.target)
        gone = cutting.purge_target(connection, search.target, (), clock.now())
        cutting.erase_deleted_pages(connection)
        return gone
    finally:
        connection.close()


def _cut_copy(path: str, search: PurgeScope) -> None:
    """Take the lessons that hold it out of a backup's copy; what still holds it goes whole."""
    if search.dry_run:
        return
    with open(path, "rb", opener=paths.open_plain_file) as file:
        content = file.read()
    is_lessons = os.path.basename(path) == paths.LESSONS
    after = (
        backups.remove_matching_lessons(content, lambda text: traces.has_any_piece(text, search.text_pieces))
        if is_lessons
        else None
    )
    if after is None or any(traces.has_any_piece(text, search.text_pieces) for text in traces.decode_variants(after)):
        os.unlink(path)
    else:
        paths.write_private(path, after)


def _unlink(path: str, search: PurgeScope) -> None:
    if not search.dry_run:
        os.unlink(path)


def _approved(home: str, connection: db.Connection, search: PurgeScope) -> list[str]:
    """The files a person approved that hold it: here, and in the projects that are known.

    Their copies in backups go with a text, and stay with a session or a project.
    """
    if not search.text_pieces:
        return []
    places = [one for name in _APPROVED for one in glob.glob(os.path.join(glob.escape(home), name))]
    places += search.ratified_pages
    if search.target.text_pieces:
        known = exports.list_project_paths(connection)
        places += [
            one for path in known for kind in _OF_PROJECTS for one in glob.glob(os.path.join(glob.escape(path), kind))
        ]
    else:
        copies = text_search.list_files_below(os.path.join(home, backups.BACKUPS_FOLDER))
        kept = [one for one in copies if paths.DATABASE not in os.path.basename(one) and not _is_copied(one, search)]
        places += kept
    going = search.unapproved_files[purge_scope.DRAFT_FILES]
    found = [path for path in dict.fromkeys(places) if os.path.isfile(path) and path not in going]
    return [path for path in found if text_search.has_piece_in_file(path, search.text_pieces)]


def _left(home: str, search: PurgeScope, approved: Mapping[str, list[int]]) -> list[str]:
    """The files that hold it all the same: of the home, and those that should have gone whole. What is built from
    approved files says what those say.

    A session or a project is still named where the database says how far its transcripts were read.
    """
    named = {*approved}
    if not named.isdisjoint(os.path.join(home, name) for name in (paths.LESSONS, paths.CONFIG)):
        named |= {os.path.join(home, name) for name in _BUILT}
    stuck = [path for places in search.unapproved_files.values() for path in places if os.path.exists(path)]
    found = text_search.list_files_below(home) if search.text_pieces else ()
    skipped = () if search.target.text_pieces else (paths.DATABASE,)
    held = [
        path
        for path in found
        if path not in named
        and os.path.basename(path) not in skipped
        and text_search.has_piece_in_file(path, search.text_pieces)
    ]
    return list(dict.fromkeys([*stuck, *held]))


def _one(what: str) -> str:
    noun, blank, more = what.partition(" ")
    return (f"{noun[:-3]}y" if noun.endswith("ies") else noun.removesuffix("s")) + blank + more


def _said(report: dict[str, Any], aim: PurgeTarget, *, as_json: bool) -> None:
    if as_json:
        click.echo(json.dumps(report, indent=2))
        return
    word = "would go" if report["dry"] else "gone"
    for place, counts in report["gone"].items():
        told = ", ".join(f"{count} {_one(what) if count == 1 else what}" for what, count in counts.items())
        click.echo(make_printable(f"{word:<10}{place}: {told}"))
    if not report["gone"]:
        click.echo(f"{word:<10}nothing: it is nowhere in what hardwon keeps")
    for path, numbers in report["approved"].items():
        where = ", ".join(map(str, numbers)) if numbers != [0] else "across lines"
        click.echo(make_printable(f"yours     {path}: line {where}; not touched, edit it yourself"))
    for path in report["transcripts"]:
        click.echo(make_printable(f"agent's   {path} still holds it"))
    if report["transcripts"]:
        click.echo("          they are not read again up to here, and no import brings it back")
    for path in report["left"]:
        click.echo(make_printable(f"LEFT      {path} holds it still: look at it yourself"))
    if not report["dry"]:
        if not report["left"] and aim.older_than is None:
            besides = "" if aim.text_pieces else ", and the marks of its transcripts and of its pauses"
            click.echo(f"searched  every file of the home: it is in none but those named above{besides}")
        click.echo(f"unproven  {report['cannot']}")
