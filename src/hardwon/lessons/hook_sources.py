"""The data that the process answering a hook can look up; imported for types only."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from hardwon.text.brief_layout import BriefLine, RecalledItem
from hardwon.types import Event, Pattern


class HookSources(Protocol):
    """The data available to the process that answers; the fallback has no store and little of this."""

    viewer_address: str  # set while the worker serves the viewer

    def search_pattern(self, pattern: Pattern, text: str) -> bool: ...

    def get_cpu_seconds(self) -> float:
        """Return the CPU time spent on this event, which excludes waiting on a busy machine."""

    def handle_prompt(self, event: Event) -> str:
        """Carry out a prompt to hardwon and return the answer for the person."""

    def find_doubt(self, event: Event) -> str:
        """Return why a prompt may not come from a person; empty if it certainly does."""

    def read_brief(self, home: str, project: str) -> Sequence[BriefLine]: ...

    def recall_for_file(self, event: Event) -> Sequence[RecalledItem]: ...

    def recall_for_prompt(self, event: Event) -> Sequence[RecalledItem]: ...

    def describe_unrecorded_work(self, event: Event) -> str:
        """Return what the session changed since its last handoff; empty for nothing, or if no store is at hand."""

    def check_code(self, lesson_id: str) -> str:
        """Return whether the code that a lesson names is `fresh`, `changed` or `gone` since it was approved."""

    def announce_approvals(self) -> str:
        """Return the approvals since the last session, for the person."""

    def announce_proposals(self) -> str:
        """Return the lessons that agents reported since the last announcement, for the person."""

    def announce_efficacy(self) -> str:
        """Return what changed about lessons by what their firings led to, for the person."""
