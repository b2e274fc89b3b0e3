"""Pauses, kept in one small file that hooks can check cheaply. `hook.py` itself reads HARDWON_OFF.

The file has one line per pause: its end time (0: until lifted), a space, and the project's real path or `*`.
"""

from __future__ import annotations

import os

from hardwon import paths
from hardwon.projects import is_in_scope, list_equivalent_folders

EVERYWHERE = "*"
_LATEST_END = 253_402_300_799.0  # the end of the year 9999
_MAX_FILE_CHARS = 1_000_000


def _read_pauses(home: str) -> list[tuple[float, str]]:
    """Return the pauses in the file, including ended ones. Invalid lines are skipped; `find_pause_faults` reports them.

    A file that cannot be read counts as a pause everywhere: somebody paused hardwon, but it is unknown where.
    """
    return _parse_file(home)[0]


def find_pause_faults(home: str) -> list[str]:
    """Return the errors in the file of pauses, one sentence each."""
    return _parse_file(home)[1]


def _parse_file(home: str) -> tuple[list[tuple[float, str]], list[str]]:
    """Return the pauses and the faults of the file; both are empty if there is no file."""
    path = os.path.join(home, paths.PAUSES)
    try:
        lines = paths.read_text(path, errors="replace", max_chars=_MAX_FILE_CHARS).splitlines()
    except FileNotFoundError:
        return [], []
    except OSError as error:
        return [(0.0, EVERYWHERE)], [f"{path} cannot be read ({error.strerror}), so hardwon is quiet everywhere"]
    pauses = []
    faults = []
    for number, line in enumerate(lines, 1):
        until, _, where = line.partition(" ")
        try:
            end = float(until)
        except ValueError:
            end = -1.0
        if end > _LATEST_END:
            end = 0.0  # too late for a date: treat it as until lifted
        # A person may write `nan`, which is not at or above 0 either.
        if end >= 0 and where:
            pauses.append((end, where))
        elif line.strip():
            faults.append(f"{path} line {number} is no pause: {line[:40]!r}")
    return pauses, faults


def list_active_pauses(home: str, now: float) -> list[tuple[float, str]]:
    """Return the end (0: until lifted) and the project, or EVERYWHERE, of each pause that holds now."""
    return [(until, where) for until, where in _read_pauses(home) if until == 0 or until > now]


def is_paused(home: str, cwd: str, now: float) -> bool:
    """Return whether hardwon is paused in this folder."""
    paused_places = [where for _, where in list_active_pauses(home, now)]
    if not paused_places or EVERYWHERE in paused_places:
        return bool(paused_places)  # most calls end here, without reading git's files
    folders = list_equivalent_folders(cwd)
    return any(is_in_scope(project, folders) for project in paused_places)


def write_pauses(home: str, pauses: list[tuple[float, str]]) -> None:
    """Replace all pauses. Without any, delete the file, so that hooks ask the worker directly again."""
    path = os.path.join(home, paths.PAUSES)
    if os.path.isdir(path) and not os.path.islink(path):
        os.rename(path, f"{path}.{os.getpid()}.old")  # a folder in the file's place: keep it
    if pauses:
        lines = "".join(f"{until:.0f} {where}\n" for until, where in pauses)
        paths.write_private(path, lines.encode("utf-8", "surrogateescape"))
    elif os.path.lexists(path):
        os.unlink(path)


def add_pause(home: str, until: float, where: str, now: float) -> None:
    """Pause a project or everywhere, 0 for until lifted; it replaces an earlier pause of the same place."""
    other_pauses = [entry for entry in list_active_pauses(home, now) if entry[1] != where]
    write_pauses(home, [*other_pauses, (until, where)])


def remove_ended_pauses(home: str, now: float) -> None:
    """Remove ended pauses. While the file exists, every hook has to read it first."""
    current = list_active_pauses(home, now)
    has_ended_ones = current != _read_pauses(home)
    # A file in which no line is a pause goes as well.
    is_useless = not current and os.path.exists(os.path.join(home, paths.PAUSES))
    if has_ended_ones or is_useless:
        write_pauses(home, current)


def describe_pauses(home: str, now: float) -> list[str]:
    """Describe each active pause: where, and until when."""
    from hardwon import clock  # not needed by hooks

    lines = []
    for until, where in list_active_pauses(home, now):
        location = "everywhere" if where == EVERYWHERE else f"in {where}"
        end = clock.format_iso(until) if until else "lifted"
        lines.append(f"paused {location} until {end}")
    return lines
