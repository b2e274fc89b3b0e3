"""Paths in hardwon's home, and private files. Folders have mode 0700, files 0600."""

from __future__ import annotations

import os
import stat

TYPE_CHECKING = False  # importing it from `typing` would slow down the hook
if TYPE_CHECKING:
    from collections.abc import Sequence

LESSONS = "lessons.json"
CONFIG = "config.json"
TRUSTED_PROJECTS = "trusted.json"
TEAM_CONFIG = "team.json"  # the key and the token of this machine in its team
MANIFEST = "lesson-manifest.json"
# What the hook reads instead of the manifest, which would take it longer to parse.
LESSON_INDEX = "lesson-index.bin"
DATABASE = "hardwon.db"
WORKER_INFO = "worker.json"
WORKER_LOCK = "worker.lock"
SOCKET = "socket"
PAUSES = "paused"
INSTALL_LEDGER = "installed.json"
BUILD_LOCK = "building.lock"
FAILED_BUILD = "manifest.unbuilt"
WORKER_LOG = "logs/worker.log"
HOOK_LOG = "logs/hook.log"
_MAX_HOOK_LOG_BYTES = 200_000


def get_home() -> str:
    """Return `HARDWON_HOME` if it is set, else `~/.hardwon`."""
    return os.path.abspath(os.path.expanduser(os.environ.get("HARDWON_HOME") or "~/.hardwon"))


def has_database(home: str) -> bool:
    """Return whether anything was recorded yet; what only looks must not create a database."""
    return os.path.exists(os.path.join(home, DATABASE))


def is_inside(folder: str, path: str) -> bool:
    """Return whether a path is below a folder, by their names alone: neither needs to exist."""
    return path.startswith(folder + os.sep)


def make_private_folder(path: str) -> str:
    """Create a folder and its parents with mode 0700 if they are missing, and return its path."""
    if not os.path.isdir(path):
        if parent := os.path.dirname(path):
            make_private_folder(parent)
        try:
            os.mkdir(path, 0o700)
        except FileExistsError:
            pass
    return path


def open_plain_file(path: str, flags: int) -> int:
    """Open a file for `open(…, opener=open_plain_file)`; raise OSError at once if it is a pipe or a device.

    Opening a pipe without a writer would block.
    """
    descriptor = os.open(path, flags | os.O_NONBLOCK | os.O_NOCTTY)
    mode = os.fstat(descriptor).st_mode
    if stat.S_ISREG(mode):
        return descriptor
    os.close(descriptor)
    import errno  # every hook imports this module, and few need errno

    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
    raise OSError(errno.EINVAL, "not a plain file", path)


def read_text(path: str, encoding: str = "utf-8", errors: str = "strict", max_chars: int = -1) -> str:
    """Return the text of a file, or its beginning; OSError at once if it is a pipe or a device."""
    with open(path, encoding=encoding, errors=errors, opener=open_plain_file) as file:
        return file.read(max_chars)


def write_private(path: str, content: bytes) -> None:
    """Replace a file in the home atomically, with mode 0600."""
    make_private_folder(os.path.dirname(path))
    replace_file(path, content, 0o600)


def append_to_log(path: str, lines: str, max_bytes: int) -> None:
    """Append lines to a log in the home; a log above `max_bytes` is first renamed, over the one renamed before it.

    So the log cannot fill the disk. An OSError is ignored: failing to log must not stop the work that is logged.
    """
    try:
        make_private_folder(os.path.dirname(path))
        if os.path.exists(path) and os.path.getsize(path) > max_bytes:
            os.replace(path, path + ".old")
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        with open(descriptor, "a", errors="replace") as file:
            file.write(lines)
    except OSError:
        pass


def append_to_hook_log(home: str, lines: Sequence[str], at: float) -> None:
    """Append lines for `hardwon doctor`."""
    text = "".join([f"{at:.0f} {line}\n" for line in lines])
    append_to_log(os.path.join(home, HOOK_LOG), text, _MAX_HOOK_LOG_BYTES)


def write_document(home: str, path: str, text: str) -> None:
    """Replace a document atomically: private in the home, with mode 0644 elsewhere."""
    content = text.encode("utf-8", "replace")
    if is_inside(home, path):
        write_private(path, content)
    else:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        replace_file(path, content, 0o644)


def replace_file(path: str, content: bytes, mode: int) -> None:
    """Replace a file atomically. If the path is a link, replace its target and keep the link."""
    path = os.path.realpath(path)
    temporary = f"{path}.{os.getpid()}.new"
    try:
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode)
        with open(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            # Without this a power cut could leave an empty file under the final name.
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:  # also on a signal: the content may be private
        if os.path.lexists(temporary):
            os.unlink(temporary)
        raise


def to_safe_name(text: str) -> str:
    """Return the text if it is a safe file name, else its hash, so that an id from outside cannot name a path."""
    without_dashes = text.replace("-", "").replace("_", "")
    if len(text) <= 80 and text.isascii() and without_dashes.isalnum():
        return text
    from hashlib import sha256  # most ids are safe, and hooks need no hash for them

    return "h" + sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:40]


def build_draft_name(project: str, session: str) -> str:
    """Return the name of a draft's file without its extension: the project's folder, then the session."""
    session_name = to_safe_name(session or "session")
    folder = os.path.basename(project.rstrip(os.sep))[:40]
    if not folder:
        return session_name
    return f"{to_safe_name(folder)}-{session_name}"
