"""Exclusive access to the home: no worker and no scan runs."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

from hardwon.errors import UserError
from hardwon.mining.scan import hold_scan_lock
from hardwon.worker import lifecycle

_STOP_ATTEMPTS = 5


@contextmanager
def hold_worker_stopped(home: str) -> Iterator[None]:
    """Keep the worker stopped and scans out; start the worker again afterwards if it ran."""
    was_running, lock = False, None
    for _ in range(_STOP_ATTEMPTS):  # a hook may start the worker before the lock is taken
        was_running = lifecycle.stop_worker(home) or was_running
        lock = lifecycle.take_lock(home)
        if lock is not None:
            break
    if lock is None:
        raise UserError("the worker restarts as soon as it is stopped", "hardwon stop, then try again")
    try:
        with hold_scan_lock(home, wait=True):
            yield
    finally:
        os.close(lock)
        if was_running:
            lifecycle.start_worker(home)
