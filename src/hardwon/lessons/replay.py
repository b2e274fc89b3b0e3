"""Trying a trigger on the recorded calls, with the matcher that ships: what would it have fired on?"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import lru_cache
from itertools import islice

from hardwon import projects
from hardwon.lessons.manifest import compile_entries, demands_of
from hardwon.lessons.matching import match, see, texts
from hardwon.lessons.pattern_search import Patterns
from hardwon.store import transcripts
from hardwon.store.db import Connection
from hardwon.store.transcripts import ScannedCall
from hardwon.text.case_folding import fold
from hardwon.types import Entry, Event, Lesson, word

SAMPLES = 3
ENOUGH = 20  # firings, before a block goes without being confirmed


@word
class Replay:
    """How often a trigger would have fired, what became of those calls, and a few of them, failed ones first."""

    fires: int
    failed: int
    fine: int
    samples: tuple[ScannedCall, ...]

    @property
    def refused(self) -> int:
        """A person or a rule did not let them run."""
        return self.fires - self.failed - self.fine


def replay(connection: Connection, lesson: Lesson, *, most: int | None = None) -> Replay:
    """The trigger on every recorded call, or on so many of the newest."""
    (entry,) = compile_entries([lesson])
    if entry.delivery == "start":
        return Replay(0, 0, 0, ())
    fired = list(_fired(entry, islice(transcripts.calls(connection, entry.tools), most)))
    failed = [call for call in fired if call.outcome == "failed"]
    fine = [call for call in fired if call.outcome == "fine"]
    refused = [call for call in fired if call.outcome in ("refused", "denied")]
    return Replay(len(fired), len(failed), len(fine), _samples(failed, fine, refused))


def _samples(failed: list[ScannedCall], fine: list[ScannedCall], refused: list[ScannedCall]) -> tuple[ScannedCall, ...]:
    """Failed ones, and at least one that went fine if there is any: that is the price of the trigger."""
    shown = [*failed[: SAMPLES - bool(fine)], *fine, *refused]
    return tuple(shown[:SAMPLES])


def _fired(entry: Entry, calls: Iterable[ScannedCall]) -> Iterable[ScannedCall]:
    search, may_fire = Patterns().search, prefilter(entry)
    for call in calls:
        event = event_of(call)
        if may_fire(event) and match(entry, see(event, root=_root(call.cwd), places=_places(call.cwd)), search):
            yield call


def event_of(call: ScannedCall) -> Event:
    return Event(
        call.host,
        "PreToolUse",
        call.session,
        call.cwd,
        tool=call.tool,
        command=call.command,
        path=call.file,
        content=call.content,
    )


def prefilter(entry: Entry) -> Callable[[Event], bool]:
    """Whether a call holds what any match must hold; reading a command as a shell does costs a hundred times more."""
    ways = demands_of(entry)
    if ways is None:
        return lambda event: True

    def may_fire(event: Event) -> bool:
        folded = [fold(text) for text in texts(event)]
        return any(
            all(any(literal in text for literal in literals for text in folded) for literals in way) for way in ways
        )

    return may_fire


_root = lru_cache(maxsize=512)(projects.root)


@lru_cache(maxsize=512)
def _places(cwd: str) -> tuple[str, ...]:
    return tuple(projects.places(cwd))
