"""uninstall --all: out of every agent, no process, nothing of ours but the person's data; with --data not even that."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Sequence
from contextlib import closing, suppress

import click

from hardwon import paths
from hardwon.agents import settings_files
from hardwon.cli.data import require_confirmation
from hardwon.cli.output import make_printable
from hardwon.cli.sessions import open_drained_store
from hardwon.data import backups
from hardwon.errors import UserError
from hardwon.fallback import worker_start
from hardwon.handoff import memory_files, memory_queue
from hardwon.sessions import spool
from hardwon.store import db, memories, reflections
from hardwon.text.excerpts import pluralize
from hardwon.worker import lifecycle

MAX_HANDOFFS = 100_000
_DATA_FILES = (
    paths.LESSONS,
    paths.CONFIG,
    paths.TRUSTED_PROJECTS,
    paths.DATABASE,
    f"{paths.DATABASE}-wal",
    f"{paths.DATABASE}-shm",
    backups.BACKUPS_FOLDER,
    backups.MEMORY_FOLDER,
    backups.DRAFTS_FOLDER,
    "token",
)
_BUILT_FILES = (
    paths.MANIFEST,
    paths.LESSON_INDEX,
    paths.WORKER_INFO,
    paths.SOCKET,
    paths.PAUSES,
    worker_start.STARTS_FILE,
    "claims",
    "briefs",
    "links",
    settings_files.HOOK_LOCATION_FILE,
    settings_files.HOOKED_SETTINGS_FOLDER,
    os.path.dirname(paths.WORKER_LOG),
    lifecycle.JOBS_LOCK,
    "scan.lock",
    "purge.lock",
    "reflect.lock",
    "lessons.lock",
    "manifest.lock",
    paths.WORKER_LOCK,
    paths.BUILD_LOCK,
    paths.FAILED_BUILD,
)


def uninstall_everything(removals: Sequence[Callable[[], None]], *, delete_data: bool, yes: bool) -> None:
    """Take what is ours out of every settings file by these calls, then out of the home; say what is left and where."""
    home = paths.get_home()
    effect = f"delete everything in {home}" if delete_data else f"leave only your data in {home}"
    require_confirmation(yes, f"Take hardwon out of every agent, and {effect}?")
    refusals = _collect_refusals(removals)
    lifecycle.stop_worker(home)
    lifecycle.wait_for_jobs(home)  # one that a killed worker had started would write what was just removed
    _drain_spool(home)
    files_elsewhere = _find_files_elsewhere(home) if delete_data else []
    for name in _BUILT_FILES:
        _remove_path(os.path.join(home, name))
    socket = lifecycle.get_socket_path(home)
    for path in (socket, socket.removesuffix(".sock") + ".api"):  # a worker that was killed left them
        _remove_path(path)
    if delete_data and not refusals:
        for name in (*_DATA_FILES, "spool"):
            _remove_path(os.path.join(home, name))
        memory_queue.remove_statements(memory_queue.read_queue(memory_queue.get_queue_folder()))
        with suppress(OSError):  # there is none, or somebody else's files are in it
            os.rmdir(memory_queue.get_queue_folder())
    if not refusals:
        _remove_path(os.path.join(home, paths.INSTALL_LEDGER))
    _print_leftovers(home, refusals, [path for path in files_elsewhere if os.path.lexists(path)])


def _find_files_elsewhere(home: str) -> list[str]:
    """Return what hardwon wrote outside of its home: pages, drafts of 0.1.0 and memories, in repositories.

    Asked before the database goes, which is the only one to know. They are the person's files, so they stay.
    """
    if not os.path.exists(os.path.join(home, paths.DATABASE)):
        return []
    try:
        with closing(db.connect(home)) as connection:
            handoffs = reflections.list_reflections(connection, limit=MAX_HANDOFFS)
            written_paths = {file.path for handoff in handoffs for file in handoff.files if file.after}
            written_paths |= {
                memory_files.get_memory_path(home, memory)
                for memory in memories.list_memories(connection)
                if memory.file
            }
    except (UserError, db.StoreError):
        return []
    return sorted(path for path in written_paths if os.path.lexists(path) and not paths.is_inside(home, path))


def _collect_refusals(calls: Sequence[Callable[[], None]]) -> list[str]:
    """Why some settings files stay as they are; one of them stops nobody."""
    refusals = []
    for call in calls:
        try:
            call()
        except UserError as error:
            refusals.append(f"{error.say}; {error.fix}")
    return refusals


def _drain_spool(home: str) -> None:
    """Take in what waits, so that nothing that was told is lost; what cannot be read stays where it is."""
    if os.path.isdir(spool.get_spool_folder(home)):
        open_drained_store(home).close()
        with suppress(OSError):
            os.rmdir(spool.get_spool_folder(home))


def _remove_path(path: str) -> None:
    if os.path.isdir(path) and not os.path.islink(path):
        shutil.rmtree(path)
    elif os.path.lexists(path):
        os.unlink(path)


def _print_leftovers(home: str, refusals: list[str], files_elsewhere: Sequence[str]) -> None:
    with suppress(OSError):  # it is not there, is not empty, or is a link to a folder of the person's
        os.rmdir(home)
    remaining_names = sorted(os.listdir(home)) if os.path.isdir(home) else []
    if remaining_names:
        click.echo(f"left      {home}: {', '.join(remaining_names)}")
    elif not files_elsewhere:
        click.echo("left      nothing")
    if files_elsewhere:
        click.echo(
            f"left      {pluralize(len(files_elsewhere), 'file')} of yours in repositories; delete what you do "
            "not want:"
        )
        for path in files_elsewhere:
            click.echo(make_printable(f"          {path}"))
    if memory_queue.read_queue(memory_queue.get_queue_folder()):
        click.echo(f"          {memory_queue.get_queue_folder()}: what waits to be remembered")
    click.echo("          agents that are running call the hook until they start anew")
    click.echo("          a plugin of ours: remove it in the agent, such as claude plugin uninstall hardwon@hardwon")
    click.echo("          the program itself: remove it the way you installed it, such as pipx uninstall hardwon")
    for refusal in refusals:
        click.echo(make_printable(f"not out   {refusal}"), err=True)
    if refusals:
        raise SystemExit(1)
