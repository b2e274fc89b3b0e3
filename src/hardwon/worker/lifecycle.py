"""One worker per home: who holds the lock is the worker, whatever any file says."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import signal
import socket
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
ANNOUNCE_SECONDS = 2.0  # for a worker that serves to write worker.json again
LOCK_TRIES = 5
JOBS_LOCK = "jobs.lock"
JOB_SECONDS = 60.0  # a process that distils or scans is done before that


@frozen
class WorkerStatus:
    """What can be said of the worker of a home, running or not."""

    running: bool
    pid: int | None
    port: int | None
    home: str
    socket: str | None
    version: str
    since: float | None = None


def take_lock(home: str) -> int | None:
    """The descriptor of the lock file if this process is now the worker, None if another is.

    Whoever looks whether the lock is held has it for an instant, so one refusal says nothing.
    """
    paths.make_private_folder(home)
    descriptor = os.open(os.path.join(home, paths.WORKER_LOCK), os.O_RDWR | os.O_CREAT, 0o600)
    for _ in range(LOCK_TRIES):
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            sleep(0.02)
            continue
        if os.path.exists(os.path.join(home, paths.WORKER_INFO)):
            os.unlink(os.path.join(home, paths.WORKER_INFO))  # what the one before said of itself
        os.pwrite(descriptor, f"{os.getpid():<20}\n".encode(), 0)
        return descriptor
    os.close(descriptor)
    return None


def find_lock_holder(home: str) -> int | None:
    """The process that holds the lock, also before it has said where it serves."""
    if not is_lock_held(home):
        return None
    with open(os.path.join(home, paths.WORKER_LOCK), opener=paths.open_plain_file) as file:
        pid_text = file.read().strip()
    return int(pid_text) if pid_text.isdigit() else None


def is_lock_owner(home: str) -> bool:
    """Whether the home is still there and its lock file still names this process."""
    return find_lock_holder(home) == os.getpid()


def is_lock_held(home: str) -> bool:
    try:
        with open(os.path.join(home, paths.WORKER_LOCK), opener=paths.open_plain_file) as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except FileNotFoundError:
        pass
    return False


def read_status(home: str) -> WorkerStatus:
    announcement = _read_announcement(home) if is_lock_held(home) else None
    if (announcement is None or announcement["pid"] != find_lock_holder(home)) and _is_answering(home):
        announcement = _request_announcement(home)
    if announcement is None or announcement["pid"] != find_lock_holder(home):
        return WorkerStatus(False, None, None, home, None, __version__)
    return WorkerStatus(
        True,
        announcement["pid"],
        announcement["port"],
        home,
        announcement["socket"],
        announcement["version"],
        announcement["since"],
    )


def is_announced(home: str) -> bool:
    """Return whether this process has said where it is to be found, and nobody changed it."""
    announcement = _read_announcement(home)
    return announcement is not None and announcement["pid"] == os.getpid()


def _is_answering(home: str) -> bool:
    """Return whether some worker takes connections, as one that is still starting does not."""
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
            connection.settimeout(0.1)
            connection.connect(os.readlink(os.path.join(home, paths.SOCKET)))
    except OSError:
        return False
    return True


def _request_announcement(home: str) -> dict[str, Any] | None:
    """Have the worker that serves write its lost worker.json again, and return what that says."""
    pid = find_lock_holder(home)
    if pid is None:
        return None
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGCONT)
    deadline = monotonic() + ANNOUNCE_SECONDS
    while monotonic() < deadline:
        announcement = _read_announcement(home)
        if announcement is not None and announcement["pid"] == pid:
            return announcement
        sleep(0.02)
    return None


def write_announcement(home: str, *, socket_address: str, port: int | None, started_at: float) -> None:
    """Say where this worker is to be found."""
    announcement = {
        "pid": os.getpid(),
        "port": port,
        "socket": socket_address,
        "version": __version__,
        "since": started_at,
    }
    paths.write_private(os.path.join(home, paths.WORKER_INFO), json.dumps(announcement).encode())


def _read_announcement(home: str) -> dict[str, Any] | None:
    try:
        with open(os.path.join(home, paths.WORKER_INFO), encoding="utf-8", opener=paths.open_plain_file) as file:
            announcement = json.load(file)
        return (
            announcement if all(key in announcement for key in ("pid", "port", "socket", "version", "since")) else None
        )
    except (OSError, ValueError, TypeError):
        return None


def read_install_stamp() -> tuple[int, int, int] | None:
    """What tells the package on disk from the one that was there before; None while there is none."""
    try:
        file_stat = os.stat(hardwon.__file__)
    except OSError:
        return None
    return file_stat.st_ino, file_stat.st_mtime_ns, file_stat.st_size


def can_exit_idle(now: float, last_activity_at: float, idle_minutes: float, has_work: bool) -> bool:
    """Whether a worker may end by itself: no hook for so long, 0 being for ever, and nothing is left to do."""
    return idle_minutes > 0 and not has_work and now - last_activity_at >= idle_minutes * 60


def start_worker(home: str) -> WorkerStatus:
    """Start the worker unless it runs, and wait until it serves."""
    child: int | None = None
    deadline = monotonic() + START_SECONDS
    while monotonic() < deadline:
        status = read_status(home)
        if status.running and child in (None, status.pid):
            return (
                status  # a child of ours that is to stand back has ended: it cannot outlive a `stop` that comes at once
            )
        if child is not None:
            ended_pid, exit_status = os.waitpid(child, os.WNOHANG)
            if ended_pid and exit_status:
                raise UserError("the worker ended as it started", "hardwon logs")
            child = None if ended_pid else child
        elif not is_lock_held(home):
            child = worker_start.launch_worker(home)
        sleep(0.02)
    raise UserError(f"the worker did not come up within {START_SECONDS:.0f} s", "hardwon logs")


def wake_worker(home: str) -> None:
    """Have the worker, if there is one, look for work now. One that does not know this signal takes no harm from it."""
    pid = read_status(home).pid
    if pid is not None:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGCONT)


def stop_worker(home: str) -> bool:
    """End the worker of this home and wait until it is gone; False if there was none."""
    pid = find_lock_holder(home)
    if pid is None:
        return False
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
    """Wait until no job process of this home runs; return False if one still does after JOB_SECONDS."""
    deadline = monotonic() + JOB_SECONDS
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
    """Where the socket goes: short enough for a socket address whatever the home is called, private to its owner."""
    home_digest = hashlib.sha256(os.path.realpath(home).encode("utf-8", "surrogateescape")).hexdigest()[:16]
    runtime_folder = os.environ.get("XDG_RUNTIME_DIR", "")
    if runtime_folder and _is_private_folder(runtime_folder):
        return os.path.join(runtime_folder, f"hardwon-{home_digest}.sock")
    folder = os.path.join(tempfile.gettempdir(), f"hardwon-{os.getuid()}")
    paths.make_private_folder(folder)
    if not _is_private_folder(folder):
        raise UserError(f"{folder} is not a private folder of yours", f"remove it: rm -r {folder}")
    return os.path.join(folder, f"{home_digest}.sock")


def _is_private_folder(folder: str) -> bool:
    try:
        folder_stat = os.lstat(folder)
    except OSError:
        return False
    return stat.S_ISDIR(folder_stat.st_mode) and folder_stat.st_uid == os.getuid() and not folder_stat.st_mode & 0o077
