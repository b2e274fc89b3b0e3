"""A throwaway PostgreSQL of the system's own build, reached over a socket in a temporary folder."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from tests.support.house import wait_for

UNPRIVILEGED_USERS = ("postgres", "nobody")  # PostgreSQL refuses to run as root


class Postgresql:
    """A database cluster in a folder, which can be killed and started again."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.dsn = f"host={folder} user=postgres dbname=postgres"
        self._process: subprocess.Popen[bytes] | None = None
        folder.mkdir(parents=True, exist_ok=True)
        if _find_user():
            shutil.chown(folder, _find_user())
        # Without fsync a throwaway cluster is faster; killing the server loses nothing, only losing power would.
        _run("initdb", "-D", str(folder / "data"), "-U", "postgres", "-A", "trust", "--no-sync")

    def start(self) -> None:
        wait_for(self._try_to_start)

    def _try_to_start(self) -> bool:
        """Start the server unless it runs; return whether it answers.

        After a kill the old processes may hold the shared memory for a moment, and then the new server ends at once.
        """
        if self._process is None or self._process.poll() is not None:
            command = [_find_program("postgres"), "-D", str(self.folder / "data"), "-k", str(self.folder)]
            command += ["-c", "listen_addresses=", "-c", "fsync=off", "-c", "max_connections=60"]
            with open(self.folder / "log", "ab") as log:
                self._process = subprocess.Popen(
                    [*_as_user(), *command], stdout=log, stderr=log, start_new_session=True, cwd="/"
                )
        is_ready = [_find_program("pg_isready"), "-h", str(self.folder), "-U", "postgres", "-q"]
        return subprocess.run(is_ready).returncode == 0

    def kill(self) -> None:
        """End every process of the cluster at once, as a crash does."""
        assert self._process is not None
        children = self._list_children()  # each has a session of its own, so the group's signal does not reach them
        for pid in [self._process.pid, *children]:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self._process.wait()
        (self.folder / "data" / "postmaster.pid").unlink(missing_ok=True)

    def _list_children(self) -> list[int]:
        assert self._process is not None
        path = Path(f"/proc/{self._process.pid}/task/{self._process.pid}/children")
        return [int(pid) for pid in path.read_text().split()] if path.exists() else []

    def stop(self) -> None:
        if self._process and self._process.poll() is None:
            os.kill(self._process.pid, signal.SIGINT)  # a fast shutdown, which does not wait for clients
            try:
                self._process.wait(20)
            except subprocess.TimeoutExpired:
                self.kill()

    def dump(self) -> str:
        """Return the database as `pg_dump` writes it, as docs/teams.md tells to back it up."""
        return self.run_program("pg_dump", "--clean", "--if-exists", "-U", "postgres", "postgres")

    def run_program(self, name: str, *arguments: str) -> str:
        """Run one of PostgreSQL's programs against this cluster; return what it prints."""
        return _run(name, "-h", str(self.folder), *arguments)

    def restore(self, backup: str) -> None:
        _run("psql", "-q", "-v", "ON_ERROR_STOP=1", "-h", str(self.folder), "-U", "postgres", "postgres", stdin=backup)

    def copy_data(self, target: Path) -> None:
        """Copy the stopped cluster's files, as a backup of the day does."""
        _run("cp", "-a", str(self.folder / "data"), str(target))


@contextmanager
def run_postgresql(folder: Path) -> Iterator[Postgresql]:
    cluster = Postgresql(folder)
    cluster.start()
    try:
        yield cluster
    finally:
        cluster.stop()


def is_available() -> bool:
    return bool(_find_program("initdb")) and (os.geteuid() != 0 or bool(_find_user()))


def _find_program(name: str) -> str:
    folders = sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    search_path = os.pathsep.join([*map(str, folders), os.environ.get("PATH", "")])
    return shutil.which(name, path=search_path) or ""


def _find_user() -> str:
    """Return the user that the server runs as; empty if this process is unprivileged already."""
    if os.geteuid() != 0:
        return ""
    with open("/etc/passwd") as file:
        names = {line.split(":")[0] for line in file}
    return next((name for name in UNPRIVILEGED_USERS if name in names), "")


def _as_user() -> list[str]:
    user = _find_user()
    return ["setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups"] if user else []


def _run(program: str, *arguments: str, stdin: str = "") -> str:
    command = [*_as_user(), _find_program(program) or program, *arguments]
    result = subprocess.run(command, input=stdin, capture_output=True, text=True, cwd="/")
    if result.returncode:
        raise RuntimeError(f"{program} failed: {result.stdout[-500:]} {result.stderr[-500:]}")
    return result.stdout
