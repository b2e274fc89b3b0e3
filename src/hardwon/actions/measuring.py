"""Carry out what a person decides about the proof of a lesson: measure it, stop that, or undo a step down."""

from __future__ import annotations

from hardwon import clock
from hardwon.efficacy.refresh import refresh_ledger
from hardwon.errors import UserError
from hardwon.store import efficacy
from hardwon.store.db import Connection, transaction
from hardwon.store.efficacy import MEASURED, NOTE, RETIRE, SILENT, UNMEASURED
from hardwon.types import Lesson

DATA_LOSS_TAG = "severity:data-loss"  # one silent session could cost a person's work


def find_exemption(lesson: Lesson) -> str:
    """Return why a lesson is not measured unless a person asks for it by name; empty if it may be."""
    if lesson.delivery == "start":
        return "it is told at session start and fires on no call"
    if lesson.delivery == "block":
        return "it blocks"
    if DATA_LOSS_TAG in lesson.tags:
        return "its mistake loses data"
    return ""


def measure_lesson(home: str, connection: Connection, lesson: Lesson, path: str) -> None:
    """Keep a lesson silent in some sessions from now on, to find out whether it helps."""
    if lesson.delivery == "start":
        raise UserError(f"{lesson.slug} cannot be measured: {find_exemption(lesson)}", "measure a note or a hold")
    _add_choice(home, connection, lesson, MEASURED, path)


def stop_measuring(home: str, connection: Connection, lesson: Lesson, path: str) -> None:
    """Tell a lesson in every session again."""
    _add_choice(home, connection, lesson, UNMEASURED, path)


def _add_choice(home: str, connection: Connection, lesson: Lesson, choice: str, path: str) -> None:
    now = clock.now()
    with transaction(connection):
        efficacy.add_change(connection, lesson.id, lesson.slug, choice, reason="", path=path, now=now)
    refresh_ledger(connection, home, now, is_changed=True)


def forget_choice(connection: Connection, lesson_id: str) -> None:
    """Forget that a lesson was to be measured, because the person took back its approval."""
    with transaction(connection):
        efficacy.undo_changes(connection, lesson_id, (MEASURED, UNMEASURED), clock.now())


def undo_step_down(home: str, connection: Connection, lesson: Lesson) -> int:
    """Deliver a lesson as its record says again; return how many steps and proposals that takes back."""
    now = clock.now()
    with transaction(connection):
        count = efficacy.undo_changes(connection, lesson.id, (NOTE, SILENT, RETIRE), now)
    refresh_ledger(connection, home, now, is_changed=True)
    return count
