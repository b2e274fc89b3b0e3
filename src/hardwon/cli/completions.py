"""What the shell completes after a command: ids, slugs and settings. The store loads only when Tab is pressed."""

from __future__ import annotations

from collections.abc import Callable

import click
from click.shell_completion import CompletionItem

from hardwon import paths
from hardwon.text.characters import to_printable_line

_MAX_ITEMS = 50
_MAX_HELP_CHARS = 60  # behind a name, on the same line
Rows = list[tuple[str, str]]  # names, each with what it stands for
Completion = Callable[[click.Context, click.Parameter, str], list[CompletionItem]]


def _build_completion(list_rows: Callable[[], Rows]) -> Completion:
    """Return a completion for click from a function that lists all names."""

    def complete(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        """Return the rows whose name begins with what was typed, ignoring case."""
        items = []
        for name, title in list_rows():
            if name.lower().startswith(incomplete.lower()):
                items.append(CompletionItem(name, help=to_printable_line(title, _MAX_HELP_CHARS)))
        return items[:_MAX_ITEMS]

    return complete


def _list_settings() -> Rows:
    from hardwon.settings import SETTINGS

    return [(setting.name, setting.help) for setting in SETTINGS]


def _list_proposals() -> Rows:
    """List what waits for a yes or a no."""
    return _list_records("candidate", "draft")


def _list_undoable() -> Rows:
    """List what was put in force and can be taken back."""
    return [*_list_records("active", "ratified"), *_list_lessons()]


def _list_numbers(letter: str) -> Rows:
    """List the bare numbers that `memory` and `handoff` take, proposed ones first."""
    rows = [*_list_proposals(), *_list_records("active", "ratified")]
    return [(name[1:], title) for name, title in rows if name[0] == letter]


def _list_sessions() -> Rows:
    """List the latest sessions by the agents' ids; none without a database, which Tab must not create."""
    if not paths.has_database(paths.get_home()):
        return []
    from hardwon.cli.context import open_store
    from hardwon.store.sessions import list_sessions

    with open_store() as connection:
        sessions = list_sessions(connection, limit=_MAX_ITEMS)
    return [(session["session"], session["first_prompt"] or "") for session in sessions]


def _list_lessons() -> Rows:
    from hardwon.lessons import lessons_file

    file = lessons_file.read_own(paths.get_home())
    return [(lesson.slug, lesson.summary) for lesson in file.lessons]


def _list_records(status: str, handoff_status: str) -> Rows:
    """Return lessons, memories and handoffs in this state by the names that `accept` takes, each with its text."""
    if not paths.has_database(paths.get_home()):
        return []
    from hardwon.cli.context import open_store
    from hardwon.lessons.review_queue import list_waiting
    from hardwon.store.memories import list_memories
    from hardwon.store.reflections import list_reflections

    with open_store() as connection:
        candidates = list_waiting(paths.get_home(), connection, status)
        rows = [(f"L{candidate.number}", candidate.record["summary"]) for candidate in candidates]
        rows += [(f"M{memory.id}", memory.text) for memory in list_memories(connection, status, project=None)]
        rows += [(f"H{handoff.id}", handoff.topic) for handoff in list_reflections(connection, handoff_status)]
    return rows


complete_settings = _build_completion(_list_settings)
complete_lessons = _build_completion(_list_lessons)
complete_proposals = _build_completion(_list_proposals)
complete_undoable = _build_completion(_list_undoable)
complete_memories = _build_completion(lambda: _list_numbers("M"))
complete_handoffs = _build_completion(lambda: _list_numbers("H"))
complete_sessions = _build_completion(_list_sessions)
