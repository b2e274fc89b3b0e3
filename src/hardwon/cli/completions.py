"""What the shell completes after a command: ids, slugs and settings. The store loads only when Tab is pressed."""

from __future__ import annotations

import click
from click.shell_completion import CompletionItem

from hardwon import paths
from hardwon.text.characters import to_printable_line

MAX_ITEMS = 50
MAX_HELP_CHARS = 60


def _build_items(incomplete: str, rows: list[tuple[str, str]]) -> list[CompletionItem]:
    matches = [(name, title) for name, title in rows if name.lower().startswith(incomplete.lower())]
    return [CompletionItem(name, help=to_printable_line(title, MAX_HELP_CHARS)) for name, title in matches[:MAX_ITEMS]]


def complete_settings(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    from hardwon.settings import SETTINGS

    return _build_items(incomplete, [(setting.name, setting.help) for setting in SETTINGS])


def complete_lessons(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    return _build_items(incomplete, _list_lessons())


def complete_proposals(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Complete what waits for a yes or a no."""
    return _build_items(incomplete, _list_records("candidate", "draft"))


def complete_undoable(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Complete what was decided."""
    return _build_items(incomplete, [*_list_records("active", "ratified"), *_list_lessons()])


def complete_memories(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    return _complete_numbers("M", incomplete)


def complete_handoffs(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    return _complete_numbers("H", incomplete)


def _complete_numbers(letter: str, incomplete: str) -> list[CompletionItem]:
    """Complete the bare numbers that `memory` and `handoff` take, proposed ones first."""
    rows = [*_list_records("candidate", "draft"), *_list_records("active", "ratified")]
    return _build_items(incomplete, [(name[1:], title) for name, title in rows if name[0] == letter])


def complete_sessions(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    if not paths.has_database(paths.get_home()):
        return []
    from hardwon.cli.context import open_store
    from hardwon.store.sessions import list_sessions

    with open_store() as connection:
        rows = [(row["session"], row["first_prompt"] or "") for row in list_sessions(connection, limit=MAX_ITEMS)]
    return _build_items(incomplete, rows)


def _list_lessons() -> list[tuple[str, str]]:
    from hardwon.lessons import lessons_file

    file = lessons_file.read(lessons_file.get_lessons_path(paths.get_home()))
    return [(lesson.slug, lesson.summary) for lesson in file.lessons]


def _list_records(status: str, handoff_status: str) -> list[tuple[str, str]]:
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
