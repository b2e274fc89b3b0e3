"""The lock on files made from the database: shared by their writers, exclusive for a purge.

A transaction notices by the epoch that a purge ran between reading and writing. A file has no epoch, so it is written
under this lock: either the purge comes later and finds the file, or it came before and the file is not written.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from io import BufferedRandom

from hardwon import paths
from hardwon.store import db

LOCK_FILE = "purge.lock"


@contextmanager
def hold_write_lock(home: str, connection: db.Connection, epoch: int, *, wait: bool = True) -> Iterator[None]:
    """Hold off purges while files are written; raise `PurgeConflict` if one ran since the epoch.

    Without `wait`, a running purge raises it too, for callers that cannot wait.
    """
    with _open_lock(home) as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_SH | (0 if wait else fcntl.LOCK_NB))
        except BlockingIOError:
            raise db.PurgeConflict from None
        if db.read_epoch(connection) != epoch:
            raise db.PurgeConflict
        yield


@contextmanager
def hold_copy_lock(home: str) -> Iterator[None]:
    """Hold off purges while the database is copied, so that they also find the copy."""
    with _open_lock(home) as lock:
        fcntl.flock(lock, fcntl.LOCK_SH)
        yield


@contextmanager
def hold_purge_lock(home: str) -> Iterator[None]:
    """Wait for writers of files to finish, and hold off new ones during the block."""
    with _open_lock(home) as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _open_lock(home: str) -> BufferedRandom:
    """Open the lock file; closing it releases the lock."""
    path = os.path.join(paths.make_private_folder(home), LOCK_FILE)
    return open(os.open(path, os.O_RDWR | os.O_CREAT, 0o600), "r+b")
