"""Remove hardwon's files from a home, with or without the person's data."""

from __future__ import annotations

import os
import shutil
from contextlib import suppress

from hardwon import paths
from hardwon.actions.purge import remove_unfinished_files
from hardwon.agents import hook_settings
from hardwon.errors import UserError
from hardwon.fallback import worker_start
from hardwon.handoff import memory_queue
from hardwon.memories.memory_files import get_memory_path
from hardwon.store import db
from hardwon.store.memories import list_memories
from hardwon.store.reflections import list_reflections
from hardwon.worker import lifecycle

MAX_HANDOFFS = 100_000
_DATA_FILES = (
    paths.LESSONS,
    paths.CONFIG,
    paths.TRUSTED_PROJECTS,
    paths.TEAM_CONFIG,
    paths.DATABASE,
    f"{paths.DATABASE}-wal",
    f"{paths.DATABASE}-shm",
    "backups",
    "memory",
    "drafts",
    "spool",
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
    hook_settings.HOOK_LOCATION_FILE,
    hook_settings.REMOVED_NOTICE_FILE,
    f"{hook_settings.REMOVED_NOTICE_FILE}.said",
    hook_settings.HOOKED_SETTINGS_FOLDER,
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


def remove_files(home: str, *, is_complete: bool, delete_data: bool) -> None:
    """Remove built files and, once no agent has hardwon's hooks, also the ledger and the data to delete."""
    # The socket lies outside the home.
    socket = lifecycle.get_socket_path(home)
    doomed_paths = [os.path.join(home, name) for name in _BUILT_FILES]
    doomed_paths += [socket, socket.removesuffix(".sock") + ".api"]  # left by a worker that was killed
    # While an agent still has hooks, the ledger is needed to take them out later.
    if is_complete:
        doomed_paths.append(os.path.join(home, paths.INSTALL_LEDGER))
    if is_complete and delete_data:
        doomed_paths += [os.path.join(home, name) for name in _DATA_FILES]
        queue_folder = memory_queue.get_queue_folder()
        memory_queue.remove_statements(memory_queue.read_queue(queue_folder))
        with suppress(OSError):  # there is none, or other files are in it
            os.rmdir(queue_folder)
    remove_unfinished_files(home)  # also left by a worker that was killed, while it wrote worker.json
    for path in doomed_paths:
        if os.path.isdir(path) and not os.path.islink(path):
            shutil.rmtree(path)
        elif os.path.lexists(path):
            os.unlink(path)


def find_files_elsewhere(home: str) -> list[str]:
    """Return the pages and memories that hardwon wrote into repositories, while the database still knows them.

    They are the person's files, so they stay.
    """
    if not paths.has_database(home):
        return []
    written_paths: set[str] = set()
    try:
        with db.open(home) as connection:
            for handoff in list_reflections(connection, limit=MAX_HANDOFFS):
                written_paths.update(file.path for file in handoff.files if file.after)
            for memory in list_memories(connection):
                if memory.file:
                    written_paths.add(get_memory_path(home, memory))
    except (UserError, db.StoreError):
        return []
    return sorted(path for path in written_paths if not paths.is_inside(home, path))
