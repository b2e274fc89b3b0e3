"""Start, stop and find the worker. One worker runs per home: the process that holds the lock."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import signal
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from time import monotonic, sleep
from typing import Any

import hardwon
from hardwon import __version__, paths
from hardwon.errors import UserError
from hardwon.fallback import worker_start
from hardwon.types import frozen

START_SECONDS = 30.0
STOP_SECONDS = 5.0
_LOCK_TRIES = 5
JOBS_LOCK = "jobs.lock"
_JOB_SECONDS = 60.0  # longer than any job process takes
_STOP_ATTEMPTS = 5


@frozen
class WorkerStatus:
    """The state of the worker of a home."""

    running: bool
    pid: int | None
    port: int | None
    home: str
    socket: str | None
    version: str
    since: float | None = None


def take_lock(home: str) -> int | None:
    """Take the worker's lock and return its descriptor; None if another process is the worker.

    `is_lock_held` briefly takes the lock, so retry before concluding that another worker owns it.
    """
    paths.make_private_folder(home)
    # The lock belongs to the open file: it is released when the process ends, however it ends.
    descriptor = os.open(os.path.join(home, paths.WORKER_LOCK), os.O_RDWR | os.O_CREAT, 0o600)
    info_path = os.path.join(home, paths.WORKER_INFO)
    for _ in range(_LOCK_TRIES):
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            sleep(0.02)
            continue
        if os.path.exists(info_path):
            os.unlink(info_path)  # left by an earlier worker
        # Padded, so that a shorter number leaves no digit of the one before.
        os.pwrite(descriptor, f"{os.getpid():<20}\n".encode(), 0)
        return descriptor
    os.close(descriptor)
    return None


def _find_lock_holder(home: str) -> int | None:
    """Return the process that holds the lock; it may not be serving yet."""
    if not is_lock_held(home):
        return None
    with open(os.path.join(home, paths.WORKER_LOCK), opener=paths.open_plain_file) as file:
        pid_text = file.read().strip()
    return int(pid_text) if pid_text.isdigit() else None


def is_lock_owner(home: str) -> bool:
    """Return whether the home still exists and its lock file names this process."""
    return _find_lock_holder(home) == os.getpid()


def is_lock_held(home: str) -> bool:
    """Return whether a process is the worker; asking takes the lock for an instant, shared with others who ask."""
    try:
        with open(os.path.join(home, paths.WORKER_LOCK), opener=paths.open_plain_file) as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except FileNotFoundError:
        pass
    return False


def read_status(home: str) -> WorkerStatus:
    """Return what the worker announced; if none runs, or it does not serve yet, a status that says so."""
    holder = _find_lock_holder(home)
    announcement = _read_announcement(home) if holder else None
    # worker.json may be left by a worker that was killed.
    if announcement is None or announcement["pid"] != holder:
        return WorkerStatus(running=False, pid=None, port=None, home=home, socket=None, version=__version__)
    return WorkerStatus(running=True, home=home, **announcement)


def is_announced(home: str) -> bool:
    """Return whether worker.json still names this process."""
    announcement = _read_announcement(home)
    return announcement is not None and announcement["pid"] == os.getpid()


def write_announcement(home: str, *, socket_address: str, port: int | None, started_at: float) -> None:
    """Write worker.json, where others find this worker."""
    announcement = {
        "pid": os.getpid(),
        "port": port,
        "socket": socket_address,
        "version": __version__,
        "since": started_at,
    }
    paths.write_private(os.path.join(home, paths.WORKER_INFO), json.dumps(announcement).encode())


def _read_announcement(home: str) -> dict[str, Any] | None:
    """Return the fields of worker.json; None if it is missing or damaged."""
    path = os.path.join(home, paths.WORKER_INFO)
    try:
        with open(path, encoding="utf-8", opener=paths.open_plain_file) as file:
            announcement = json.load(file)
        return {name: announcement[name] for name in ("pid", "port", "socket", "version", "since")}
    except (OSError, ValueError, LookupError, TypeError):
        return None


def read_install_stamp() -> tuple[int, int, int] | None:
    """Return a stamp that changes when another version is installed; None while none is."""
    try:
        # Installers replace the file or write it anew; a version number alone would miss a reinstall from a checkout.
        file_stat = os.stat(hardwon.__file__)
    except OSError:
        return None
    return file_stat.st_ino, file_stat.st_mtime_ns, file_stat.st_size


def can_exit_idle(now: float, last_activity_at: float, idle_minutes: float, has_work: bool) -> bool:
    """Return whether a worker has been idle for so long that it may end; 0 minutes mean never."""
    return idle_minutes > 0 and not has_work and now - last_activity_at >= idle_minutes * 60


def start_worker(home: str) -> WorkerStatus:
    """Start the worker unless it runs, and wait until it serves."""
    child: int | None = None
    deadline = monotonic() + START_SECONDS
    while monotonic() < deadline:
        status = read_status(home)
        if status.running and child in (None, status.pid):
            # Another worker counts only once our own child has ended, so that no child outlives a `stop` right after.
            return status
        if child is not None:
            ended_pid, exit_status = os.waitpid(child, os.WNOHANG)
            if ended_pid and exit_status:
                raise UserError("the worker failed to start", "hardwon logs")
            if ended_pid:
                child = None  # it found another worker; if that ends as well, start one more
        elif not is_lock_held(home):
            child = worker_start.launch_worker(home)
        sleep(0.02)
    raise UserError(f"the worker did not start within {START_SECONDS:.0f} s", "hardwon logs")


def wake_worker(home: str) -> None:
    """Have the worker, if one runs, look for work now. Versions that do not handle SIGCONT ignore it."""
    pid = read_status(home).pid
    if pid is not None:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGCONT)


def stop_worker(home: str) -> bool:
    """Stop the worker of this home and wait for its end; return False if none was running."""
    pid = _find_lock_holder(home)
    if pid is None:
        return False
    # The lock shows that it has ended: its number could belong to another process by then.
    for signal_number in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.kill(pid, signal_number)
        except ProcessLookupError:
            break
        deadline = monotonic() + STOP_SECONDS
        while is_lock_held(home) and monotonic() < deadline:
            sleep(0.02)
        if not is_lock_held(home):
            break
    return True


@contextmanager
def open_jobs_lock(home: str) -> Iterator[int]:
    """Yield a descriptor for a new process to inherit: `wait_for_jobs` waits until that process has ended.

    The lock goes with the descriptor, so it holds from the process's start and outlives a killed worker.
    """
    path = os.path.join(paths.make_private_folder(home), JOBS_LOCK)
    with open(os.open(path, os.O_RDWR | os.O_CREAT, 0o600), "r+b") as lock:
        fcntl.flock(lock, fcntl.LOCK_SH)
        yield lock.fileno()


def wait_for_jobs(home: str) -> bool:
    """Wait until no job process of this home runs; return False if one still does after _JOB_SECONDS."""
    deadline = monotonic() + _JOB_SECONDS
    while True:
        try:
            with open(os.path.join(home, JOBS_LOCK), "rb", opener=paths.open_plain_file) as lock:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        except FileNotFoundError:
            return True
        except BlockingIOError:
            if monotonic() > deadline:
                return False
        sleep(0.02)


def get_socket_path(home: str) -> str:
    """Return the path of the socket: in a private folder, and short enough for a socket address."""
    # A socket address ends at about 100 bytes, and a home may be deep: the name is a digest of it.
    home_bytes = os.path.realpath(home).encode("utf-8", "surrogateescape")
    home_digest = hashlib.sha256(home_bytes).hexdigest()[:16]
    runtime_folder = os.environ.get("XDG_RUNTIME_DIR", "")
    if runtime_folder and _is_private_folder(runtime_folder):
        return os.path.join(runtime_folder, f"hardwon-{home_digest}.sock")
    # Anybody may create this folder in /tmp first, so its owner and its mode are checked.
    folder = os.path.join(tempfile.gettempdir(), f"hardwon-{os.getuid()}")
    paths.make_private_folder(folder)
    if not _is_private_folder(folder):
        raise UserError(f"{folder} is not a private folder of yours", f"remove it: rm -r {folder}")
    return os.path.join(folder, f"{home_digest}.sock")


def _is_private_folder(folder: str) -> bool:
    """Return whether it is a folder, not a link to one, that only this user can enter."""
    try:
        folder_stat = os.lstat(folder)
    except OSError:
        return False
    is_open_to_others = bool(folder_stat.st_mode & 0o077)
    return stat.S_ISDIR(folder_stat.st_mode) and folder_stat.st_uid == os.getuid() and not is_open_to_others


@contextmanager
def hold_worker_stopped(home: str) -> Iterator[None]:
    """Keep the worker stopped and scans out; start the worker again afterwards if it ran."""
    from hardwon.mining.scan import hold_scan_lock  # imported here because other commands need no scan

    was_running, lock = False, None
    for _ in range(_STOP_ATTEMPTS):  # a hook may start the worker before the lock is taken
        was_running = stop_worker(home) or was_running
        lock = take_lock(home)
        if lock is not None:
            break
    if lock is None:
        raise UserError("the worker restarts as soon as it is stopped", "hardwon stop, then try again")
    try:
        with hold_scan_lock(home, wait=True):
            yield
    finally:
        # Before the start, since the new worker needs the lock.
        os.close(lock)
        if was_running:
            start_worker(home)
