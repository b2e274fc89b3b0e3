"""Where hardwon keeps things. The home is private to its owner: 0700, files 0600."""

from __future__ import annotations

import os
import stat

LESSONS = "lessons.json"
CONFIG = "config.json"
TRUSTED_PROJECTS = "trusted.json"
MANIFEST = "lesson-manifest.json"
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


def get_home() -> str:
    """The home that `HARDWON_HOME` names, else `~/.hardwon`."""
    return os.path.abspath(os.path.expanduser(os.environ.get("HARDWON_HOME") or "~/.hardwon"))


def is_inside(folder: str, path: str) -> bool:
    return path.startswith(folder + os.sep)


def make_private_folder(path: str) -> str:
    """The folder, made if need be with those above it, readable by its owner alone."""
    if not os.path.isdir(path):
        if parent := os.path.dirname(path):
            make_private_folder(parent)
        try:
            os.mkdir(path, 0o700)
        except FileExistsError:
            pass
    return path


def open_plain_file(path: str, flags: int) -> int:
    """Open a file for `open(…, opener=plain_file)`; OSError at once if it is a pipe or a device.

    Anything may lie where a person's file is expected, and a pipe that nobody writes to would be waited for.
    """
    descriptor = os.open(path, flags | os.O_NONBLOCK | os.O_NOCTTY)
    mode = os.fstat(descriptor).st_mode
    if stat.S_ISREG(mode):
        return descriptor
    os.close(descriptor)
    import errno  # every hook imports this module, and few come here

    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
    raise OSError(errno.EINVAL, "not a plain file", path)


def write_private(path: str, content: bytes) -> None:
    """Replace a file of ours whole or not at all; a reader never sees half of it."""
    make_private_folder(os.path.dirname(path))
    replace_file(path, content, 0o600)


def write_document(home: str, path: str, text: str) -> None:
    """Replace what people read: private in the home, and elsewhere as their own files are."""
    content = text.encode("utf-8", "replace")
    if is_inside(home, path):
        write_private(path, content)
    else:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        replace_file(path, content, 0o644)


def replace_file(path: str, content: bytes, mode: int) -> None:
    """The file itself, where the path leads: one that a person keeps elsewhere stays a link."""
    path = os.path.realpath(path)
    temporary = f"{path}.{os.getpid()}.new"
    try:
        with open(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode), "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:  # also when a signal ends us: what was to be written may be private
        if os.path.lexists(temporary):
            os.unlink(temporary)
        raise


def to_safe_name(text: str) -> str:
    """The text as a file name: itself if it is tame, else its hash, so that no id from outside can name a path."""
    if 0 < len(text) <= 80 and text.replace("-", "").replace("_", "").isalnum() and text.isascii():
        return text
    from hashlib import sha256

    return "h" + sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:40]


def build_draft_name(project: str, session: str) -> str:
    """Return the name of a draft's file without its end: the project's folder, then the session."""
    folder = os.path.basename(project.rstrip(os.sep))[:40]
    return "-".join(filter(None, (folder and to_safe_name(folder), to_safe_name(session or "session"))))
