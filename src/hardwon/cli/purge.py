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

_UNIT_SECONDS = {"h": 3600.0, "d": 86_400.0, "w": 7 * 86_400.0, "y": 365 * 86_400.0}
_APPROVED_FILES = (
    paths.LESSONS,
    paths.CONFIG,
    paths.TRUSTED_PROJECTS,
    paths.INSTALL_LEDGER,
    paths.PAUSES,
    "memory/*.md",
    "drafts/*.md",
)
LOG_LINES = 1_000  # that `--log` shows
_BUILT_FILES = (paths.MANIFEST, paths.LESSON_INDEX)
_PROJECT_FILES = (".hardwon/lessons.json", ".claude/memory/*.md", "docs/sessions/*.md")
_UNREACHABLE_COPIES = (
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
    if sum(option is not None for option in (text, session, project, older_than)) != 1:
        raise UserError(
            "say what is to go, in one way", "hardwon purge --text TEXT, --session, --project or --older-than"
        )
    if not dry_run:
        require_person("purging")
    home = paths.get_home()
    connection = db.connect(home)
    target = _parse_target(connection, text, session, project, older_than)
    if dry_run or not (yes or as_json):
        _print_report(
            _purge_everywhere(home, connection, purge_scope.find_purge_scope(home, connection, target, dry_run=True)),
            target,
            as_json=as_json,
        )
        if dry_run:
            return
    require_confirmation(yes, "Delete this? It cannot be undone")
    with hold_worker_stopped(home), hold_purge_lock(home):
        try:
            report = _purge_everywhere(
                home, connection, purge_scope.find_purge_scope(home, connection, target, dry_run=False)
            )
        except db.StoreError as error:
            raise UserError(f"the purge was cut off: {error}", "mend that, then purge again: it goes on") from None
        connection.close()
    _print_report(report, target, as_json=as_json)
    if report["left"]:
        raise SystemExit(1)


def _show_log(connection: db.Connection, *, as_json: bool) -> None:
    """Print what purges, `sessions delete`, retention and decisions about memories took away, newest first."""
    lines = deletions.list_newest(connection, LOG_LINES)
    if as_json:
        click.echo(json.dumps([{**line.__dict__, "at": clock.format_iso(line.at)} for line in lines], indent=2))
        return
    for line in lines:
        rows = ", ".join(
            f"{count} {_singularize(table) if count == 1 else table}" for table, count in line.rows.items()
        )
        click.echo(f"{clock.format_iso(line.at)}  {line.path}, {line.kind}: {rows or 'nothing in the database'}")
    if not lines:
        click.echo("nothing was deleted yet")


def _parse_target(
    connection: db.Connection, text: str | None, session: str | None, project: str | None, older_than: str | None
) -> PurgeTarget:
    if text is not None:
        search_text = sys.stdin.read().strip("\n") if text == "-" else text
        if pieces := traces.split_into_pieces(search_text):
            return PurgeTarget(text_pieces=pieces)
        raise UserError(f"the text has fewer than {traces.MIN_SEARCH_LENGTH} letters and digits", "give more of it")
    if session is not None:
        session_ids = cutting.find_session_ids(connection, session) if session else []
        if not session_ids:
            raise UserError(f"nothing is known of a session {session!r}", "hardwon sessions list")
        if len(session_ids) > 1:
            raise UserError(f"{session!r} could be {', '.join(session_ids[:5])}", "write more of it")
        return PurgeTarget(session=session_ids[0])
    if project is not None:
        return PurgeTarget(project=find_project_path(connection, project))
    return PurgeTarget(older_than=clock.now() - _parse_span(str(older_than)))


def _parse_span(text: str) -> float:
    number, unit = text[:-1], text[-1:]
    if not number.isascii() or not number.isdigit() or len(number) > 6 or unit not in _UNIT_SECONDS:
        raise UserError(f"--older-than {text!r} is no span of time", "write it as 30d, 12h, 4w or 1y")
    return int(number) * _UNIT_SECONDS[unit]


def _purge_everywhere(home: str, connection: db.Connection, scope: PurgeScope) -> dict[str, Any]:
    """Do it, or with a dry run count it: what goes from where, what is only named, and what is left."""
    approved = {
        path: text_search.find_matching_lines(path, scope.text_pieces)
        for path in _find_approved_files(home, connection, scope)
    }
    removed: dict[str, Mapping[str, int]] = {
        "database": _purge_database(home, connection, scope),
        "spool": _purge_spool(home, scope),
        "claims": _purge_claims(home, scope),
        "logs": _purge_logs(home, scope),
        "drafts": _remove_unapproved(scope, purge_scope.DRAFT_FILES),
        "queues": _remove_unapproved(scope, purge_scope.QUEUE_FILES),
        **_purge_backups(home, scope),
    }
    if not scope.dry_run:
        text_search.remove_unfinished_files(home)
        compiled_brief.delete_all(home)
        with suppress(UserError):  # lessons.json cannot be read, and what was built before stays
            approvals.compile_manifest(home, clock.now())
    return {
        "dry": scope.dry_run,
        "gone": {location: dict(counts) for location, counts in removed.items() if counts},
        "approved": approved,
        "transcripts": [path for path, _ in scope.transcripts],
        "left": [] if scope.dry_run else _find_leftovers(home, scope, approved),
        "cannot": _UNREACHABLE_COPIES,
    }


def _purge_database(home: str, connection: db.Connection, scope: PurgeScope) -> Counter[str]:
    if scope.dry_run:
        return cutting.preview_purge(connection, scope.target)
    removed = cutting.purge_target(connection, scope.target, _build_end_positions(connection, scope), clock.now())
    values = settings.resolve_settings(settings.read_config(home))
    proposals.refresh_candidates(connection, values, tiers=(1, 2), now=clock.now())
    if not cutting.erase_deleted_pages(connection):
        raise UserError("somebody reads the database, so its log stays", "close what reads it, then purge again")
    return removed


def _build_end_positions(connection: db.Connection, scope: PurgeScope) -> Iterator[tuple[str, str, str, ReadPosition]]:
    """Each transcript that holds it, as read to its end, so that neither a scan nor a session's end brings it back."""
    for path, host in scope.transcripts:
        if scope.target.text_pieces and traces.has_any_piece(path, scope.text_pieces):
            continue  # then the mark itself would hold it
        for purpose in (transcripts.SCAN_PURPOSE, transcript_import.CAPTURE_PURPOSE):
            with transcript_files.open_transcript(
                path, transcripts.find_read_position(connection, path, purpose)
            ) as transcript:
                position = transcript.position
                for _, next_position in transcript.portions:
                    position = next_position
            yield purpose, path, host, position


def _purge_spool(home: str, scope: PurgeScope) -> Counter[str]:
    removed = Counter[str]()
    for path in text_search.list_files_below(os.path.join(home, "spool")):
        if _is_spool_match(path, scope):
            removed["files"] += 1
            _remove_file(path, scope)
    return removed


def _is_spool_match(path: str, scope: PurgeScope) -> bool:
    if scope.target.text_pieces:
        return text_search.has_piece_in_file(path, scope.text_pieces)
    try:
        with open(path, encoding="utf-8", errors="replace", opener=paths.open_plain_file) as file:
            record = json.load(file)
        entries = [entry for entry in (record["event"], *record["injections"]) if entry]
    except (OSError, ValueError, KeyError, TypeError):
        return text_search.has_piece_in_file(path, scope.text_pieces) if scope.text_pieces else False
    if scope.target.older_than is not None:
        return bool(entries) and all(entry.get("at", 0.0) < scope.target.older_than for entry in entries)
    project_prefix = f"{scope.target.project}/"
    return any(
        entry.get("session") in scope.sessions
        or (scope.target.project and f"{entry.get('cwd', '')}/".startswith(project_prefix))
        for entry in entries
    )


def _purge_claims(home: str, scope: PurgeScope) -> Counter[str]:
    """All of a session's but that part of it was paused: while its transcript is there, nobody is to read that."""
    removed = Counter[str]()
    for session in scope.sessions:
        for folder in (
            claims.get_claim_folder(home, session),
            claims.get_claim_folder(home, session, claims.PRIVATE_PREFIX),
            claims.get_claim_folder(home, session, claims.HARDWON_TURN_PREFIX),
            claims.get_claim_folder(home, delivery.DUPLICATE_PREFIX + session),
        ):
            removed["files"] += sum(1 for _ in text_search.list_files_below(folder))
            if not scope.dry_run:
                shutil.rmtree(folder, ignore_errors=True)
    for path in text_search.list_files_below(os.path.join(home, "claims")) if scope.target.text_pieces else ():
        if text_search.has_piece_in_file(path, scope.text_pieces):
            removed["files"] += 1
            _remove_file(path, scope)
    return +removed


def _purge_logs(home: str, scope: PurgeScope) -> Counter[str]:
    """The lines that hold it; the whole file if it stands across lines, or is the raw log of a reflection."""
    removed = _remove_unapproved(scope, purge_scope.LOG_FILES)
    for path in text_search.list_files_below(os.path.join(home, os.path.dirname(paths.WORKER_LOG))):
        if path.startswith(os.path.join(home, LOGS_FOLDER, "")):
            continue
        removed["lines"] += text_search.remove_lines(path, _build_line_filter(scope), dry_run=scope.dry_run)
        if scope.text_pieces and not scope.dry_run and text_search.has_piece_in_file(path, scope.text_pieces):
            removed["files"] += 1
            os.unlink(path)
    return +removed


def _build_line_filter(scope: PurgeScope) -> Callable[[str], bool]:
    if scope.text_pieces:
        return lambda line: traces.has_any_piece(line, scope.text_pieces)
    limit = clock.format_iso(scope.target.older_than or 0.0)
    return lambda line: line[:4].isdigit() and line.split(" ", 1)[0] < limit


def _remove_unapproved(scope: PurgeScope, kind: str) -> Counter[str]:
    for path in scope.unapproved_files[kind]:
        with suppress(OSError):  # it may lie in a repository that nobody may write to: then it is left, and named
            _remove_file(path, scope)
    return +Counter(files=len(scope.unapproved_files[kind]))


def _purge_backups(home: str, scope: PurgeScope) -> dict[str, Counter[str]]:
    """Each backup by its name, and what else lies there: copies of agents' settings, which go only for a text."""
    removed: dict[str, Counter[str]] = {}
    existing_backups = backups.list_backups(home)
    for backup in existing_backups:
        removed[f"backups/{backup.name}"] = _purge_backup(backup, scope)
    backup_prefixes = tuple(backup.path + os.sep for backup in existing_backups)
    for path in (
        text_search.list_files_below(os.path.join(home, backups.BACKUPS_FOLDER)) if scope.target.text_pieces else ()
    ):
        if not path.startswith(backup_prefixes) and text_search.has_piece_in_file(path, scope.text_pieces):
            removed[os.path.relpath(path, home)] = Counter(files=1)
            _remove_file(path, scope)
    return removed


def _purge_backup(backup: backups.Backup, scope: PurgeScope) -> Counter[str]:
    """The same as in our own database; a backup whose database cannot be opened goes whole."""
    try:
        removed = (
            _purge_backup_database(os.path.join(backup.path, paths.DATABASE), scope)
            if backup.schema
            else Counter[str]()
        )
    except (db.StoreError, UserError):
        backup = replace(backup, schema=None)
        removed = Counter[str]()
    if backup.schema is None:
        if not scope.dry_run:
            shutil.rmtree(backup.path)
        return Counter({"whole backups that cannot be opened": 1})
    for path in text_search.list_files_below(backup.path):
        if os.path.relpath(path, backup.path) in backups.list_copied_files(backup.path) and _should_cut_copy(
            path, scope
        ):
            removed[os.path.basename(path)] += 1
            _cut_copy(path, scope)
    return removed


def _should_cut_copy(path: str, scope: PurgeScope) -> bool:
    """Whether a copy holds the text; of a session, project or time only drafts go, since a person approved the rest."""
    if scope.target.text_pieces:
        return text_search.has_piece_in_file(path, scope.text_pieces)
    names = {os.path.basename(draft_path) for draft_path in scope.unapproved_files[purge_scope.DRAFT_FILES]}
    return purge_scope.is_draft(path) and (
        os.path.basename(path) in names or purge_scope.is_draft_of(path, scope.sessions)
    )


def _purge_backup_database(path: str, scope: PurgeScope) -> Counter[str]:
    connection = cutting.open_backup(path, dry_run=scope.dry_run)
    try:
        if scope.dry_run:
            return cutting.preview_purge(connection, scope.target)
        removed = cutting.purge_target(connection, scope.target, (), clock.now())
        cutting.erase_deleted_pages(connection)
        return removed
    finally:
        connection.close()


def _cut_copy(path: str, scope: PurgeScope) -> None:
    """Take the lessons that hold it out of a backup's copy; what still holds it goes whole."""
    if scope.dry_run:
        return
    with open(path, "rb", opener=paths.open_plain_file) as file:
        content = file.read()
    is_lessons = os.path.basename(path) == paths.LESSONS
    remaining_content = (
        backups.remove_matching_lessons(content, lambda text: traces.has_any_piece(text, scope.text_pieces))
        if is_lessons
        else None
    )
    if remaining_content is None or any(
        traces.has_any_piece(text, scope.text_pieces) for text in traces.decode_variants(remaining_content)
    ):
        os.unlink(path)
    else:
        paths.write_private(path, remaining_content)


def _remove_file(path: str, scope: PurgeScope) -> None:
    if not scope.dry_run:
        os.unlink(path)


def _find_approved_files(home: str, connection: db.Connection, scope: PurgeScope) -> list[str]:
    """The files a person approved that hold it: here, and in the projects that are known.

    Their copies in backups go with a text, and stay with a session or a project.
    """
    if not scope.text_pieces:
        return []
    file_paths = [
        file_path for name in _APPROVED_FILES for file_path in glob.glob(os.path.join(glob.escape(home), name))
    ]
    file_paths += scope.ratified_pages
    if scope.target.text_pieces:
        project_paths = exports.list_project_paths(connection)
        file_paths += [
            file_path
            for path in project_paths
            for pattern in _PROJECT_FILES
            for file_path in glob.glob(os.path.join(glob.escape(path), pattern))
        ]
    else:
        copies = text_search.list_files_below(os.path.join(home, backups.BACKUPS_FOLDER))
        untouched_copies = [
            file_path
            for file_path in copies
            if paths.DATABASE not in os.path.basename(file_path) and not _should_cut_copy(file_path, scope)
        ]
        file_paths += untouched_copies
    drafts = scope.unapproved_files[purge_scope.DRAFT_FILES]
    existing_files = [path for path in dict.fromkeys(file_paths) if os.path.isfile(path) and path not in drafts]
    return [path for path in existing_files if text_search.has_piece_in_file(path, scope.text_pieces)]


def _find_leftovers(home: str, scope: PurgeScope, approved: Mapping[str, list[int]]) -> list[str]:
    """The files that hold it all the same: of the home, and those that should have gone whole. What is built from
    approved files says what those say.

    A session or a project is still named where the database says how far its transcripts were read.
    """
    exempt_files = {*approved}
    if not exempt_files.isdisjoint(os.path.join(home, name) for name in (paths.LESSONS, paths.CONFIG)):
        exempt_files |= {os.path.join(home, name) for name in _BUILT_FILES}
    undeleted_files = [
        path for file_paths in scope.unapproved_files.values() for path in file_paths if os.path.exists(path)
    ]
    home_files = text_search.list_files_below(home) if scope.text_pieces else ()
    skipped = () if scope.target.text_pieces else (paths.DATABASE,)
    matching_files = [
        path
        for path in home_files
        if path not in exempt_files
        and os.path.basename(path) not in skipped
        and text_search.has_piece_in_file(path, scope.text_pieces)
    ]
    return list(dict.fromkeys([*undeleted_files, *matching_files]))


def _singularize(phrase: str) -> str:
    noun, separator, rest = phrase.partition(" ")
    return (f"{noun[:-3]}y" if noun.endswith("ies") else noun.removesuffix("s")) + separator + rest


def _print_report(report: dict[str, Any], target: PurgeTarget, *, as_json: bool) -> None:
    if as_json:
        click.echo(json.dumps(report, indent=2))
        return
    verb = "would go" if report["dry"] else "gone"
    for location, counts in report["gone"].items():
        details = ", ".join(f"{count} {_singularize(noun) if count == 1 else noun}" for noun, count in counts.items())
        click.echo(make_printable(f"{verb:<10}{location}: {details}"))
    if not report["gone"]:
        click.echo(f"{verb:<10}nothing: it is nowhere in what hardwon keeps")
    for path, numbers in report["approved"].items():
        line_numbers = ", ".join(map(str, numbers)) if numbers != [0] else "across lines"
        click.echo(make_printable(f"yours     {path}: line {line_numbers}; not touched, edit it yourself"))
    for path in report["transcripts"]:
        click.echo(make_printable(f"agent's   {path} still holds it"))
    if report["transcripts"]:
        click.echo("          they are not read again up to here, and no import brings it back")
    for path in report["left"]:
        click.echo(make_printable(f"LEFT      {path} holds it still: look at it yourself"))
    if not report["dry"]:
        if not report["left"] and target.older_than is None:
            exception_note = "" if target.text_pieces else ", and the marks of its transcripts and of its pauses"
            click.echo(f"searched  every file of the home: it is in none but those named above{exception_note}")
        click.echo(f"unproven  {report['cannot']}")
