"""The spool: one file per event that could not be handed to the worker.

A file appears under its final name only once it is complete, and is deleted once its content is committed.
"""

from __future__ import annotations

import os

from hardwon.paths import make_private_folder, open_plain_file
from hardwon.text.light_json import dumps, loads
from hardwon.types import dump_record

TYPE_CHECKING = False  # importing it from `typing` would slow down the hook
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import Any

    from hardwon.types import Delivery, Event

_READY_SUFFIX, _UNFINISHED_SUFFIX = ".json", ".new"


def get_spool_folder(home: str) -> str:
    return os.path.join(home, "spool")


def spool_event(
    home: str,
    event: Event,
    *,
    filtered_event: Event | None = None,
    deliveries: Sequence[Delivery] = (),
    typed_prompts: Sequence[Event] = (),
) -> None:
    """Write the filtered event, its deliveries and typed lessons for the worker; OSError if the disk is full."""
    record = {
        "event": filtered_event and dump_record(filtered_event),
        "injections": [dump_record(delivery) for delivery in deliveries],
        "lessons": [{"prompt": typed_prompt.prompt, "cwd": typed_prompt.cwd} for typed_prompt in typed_prompts],
    }
    # An event may be spooled twice: for itself, and for the lesson that its prompt holds.
    suffix = "-lessons" if typed_prompts else ""
    # Names sort by time, so the oldest event is stored first.
    _write_record(home, f"{event.at:017.6f}-{event.id}{suffix}", record)


def _write_record(home: str, name: str, record: dict[str, Any]) -> None:
    """Write a spool file under a temporary name, and rename it once it is complete; OSError if that fails."""
    folder = get_spool_folder(home)
    temporary_path = os.path.join(folder, name + _UNFINISHED_SUFFIX)
    try:
        descriptor = os.open(temporary_path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    except FileNotFoundError:
        make_private_folder(folder)
        descriptor = os.open(temporary_path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    try:
        with open(descriptor, "wb") as file:
            file.write(dumps(record).encode("ascii"))
        # The worker reads only files with the final name, so it never sees half of one.
        os.rename(temporary_path, os.path.join(folder, name + _READY_SUFFIX))
    except OSError:
        os.unlink(temporary_path)
        raise


def remove_half_written(home: str, modified_before: float) -> None:
    """Remove the incomplete files of hooks that were killed while writing."""
    try:
        names = os.listdir(get_spool_folder(home))
    except FileNotFoundError:
        return
    for name in names:
        path = os.path.join(get_spool_folder(home), name)
        try:
            if name.endswith(_UNFINISHED_SUFFIX) and os.stat(path).st_mtime < modified_before:
                os.unlink(path)
        except OSError:
            continue


def read_spooled_records(home: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield each spooled file with its record, oldest first; an empty record for one that holds none."""
    for path in _list_ready_paths(home):
        try:
            with open(path, encoding="utf-8", errors="replace", opener=open_plain_file) as file:
                record = loads(file.read())
        except OSError:
            continue  # deleted, or not readable: leave it and go on with the next
        except ValueError:
            record = {}
        if not isinstance(record, dict):
            record = {}
        yield path, record


def find_unreadable(home: str) -> list[str]:
    """Return the spooled files that cannot be opened."""
    unreadable_paths = []
    for path in _list_ready_paths(home):
        is_readable = os.access(path, os.R_OK) and not os.path.isdir(path)
        if not is_readable and os.path.lexists(path):  # else it was stored meanwhile
            unreadable_paths.append(path)
    return unreadable_paths


def _list_ready_paths(home: str) -> list[str]:
    """Return the complete files in the spool, the oldest first."""
    folder = get_spool_folder(home)
    try:
        names = sorted(os.listdir(folder))
    except FileNotFoundError:
        return []
    return [os.path.join(folder, name) for name in names if name.endswith(_READY_SUFFIX)]
