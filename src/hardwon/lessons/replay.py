"""Try a trigger on the recorded calls with the real matcher, to see what it would have fired on."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import lru_cache
from itertools import islice

from hardwon import projects
from hardwon.lessons.call_texts import list_call_texts
from hardwon.lessons.manifest import compile_entries, find_entry_literals
from hardwon.lessons.matching import MatchableCall, match_entry, prepare_call
from hardwon.lessons.patterns import PatternCache
from hardwon.store import transcripts
from hardwon.store.db import Connection
from hardwon.store.transcripts import ScannedCall
from hardwon.text.characters import fold_case
from hardwon.types import Event, Lesson, ManifestEntry, frozen

_MAX_SAMPLES = 3
MAX_REPLAYED_CALLS = 20_000  # the newest, where a person waits for the result; more would take seconds
MIN_FIRINGS = 20  # with fewer firings, a block must be confirmed


@frozen
class Replay:
    """The number of calls a trigger would have fired on, their outcomes, and a few samples, failed ones first."""

    fires: int
    failed: int
    fine: int
    samples: tuple[ScannedCall, ...]

    @property
    def refused(self) -> int:
        """Return how many calls a person or a rule did not let run."""
        return self.fires - self.failed - self.fine


def describe_replay(replay: Replay) -> str:
    """Return in a line what a trigger would have done to the recorded calls."""
    if not replay.fires:
        return "no call recorded here matches it"
    failures = f"{replay.failed} failed {'call' if replay.failed == 1 else 'calls'}"
    return f"would have stopped {failures} and {replay.fine} that went fine"


def replay_lesson(connection: Connection, lesson: Lesson, *, limit: int | None = None) -> Replay:
    """Try the trigger on every recorded call, or on the newest `limit`."""
    (entry,) = compile_entries([lesson])
    if entry.delivery == "start":
        return Replay(fires=0, failed=0, fine=0, samples=())
    newest_calls = islice(transcripts.iter_ended_calls(connection, entry.tools), limit)
    fired_calls = list(_iter_fired_calls(entry, newest_calls))
    failed = [call for call in fired_calls if call.outcome == "failed"]
    fine = [call for call in fired_calls if call.outcome == "fine"]
    refused = [call for call in fired_calls if call.outcome in ("refused", "denied")]
    return Replay(len(fired_calls), len(failed), len(fine), _choose_samples(failed, fine, refused))


def _choose_samples(
    failed: list[ScannedCall], fine: list[ScannedCall], refused: list[ScannedCall]
) -> tuple[ScannedCall, ...]:
    """Return failed calls, and at least one successful one if there is any, to show the cost of the trigger."""
    samples = [*failed[: _MAX_SAMPLES - bool(fine)], *fine, *refused]
    return tuple(samples[:_MAX_SAMPLES])


def _iter_fired_calls(entry: ManifestEntry, calls: Iterable[ScannedCall]) -> Iterable[ScannedCall]:
    """Yield the calls on which a lesson would have fired."""
    search = PatternCache().search
    can_fire = build_prefilter(entry)
    for call in calls:
        event = to_event(call)
        if not can_fire(event):
            continue
        if match_entry(entry, prepare_stored_call(event), search):
            yield call


def to_event(call: ScannedCall) -> Event:
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


def build_prefilter(entry: ManifestEntry) -> Callable[[Event], bool]:
    """Build a quick test for the literals that every match contains.

    It avoids parsing most commands as a shell does, which costs a hundred times more. A pattern's literals are sets,
    and a match of it contains at least one literal of each set.
    """
    required_literals = find_entry_literals(entry)
    if required_literals is None:
        return lambda event: True

    def can_fire(event: Event) -> bool:
        # The newline keeps a literal from being found across the border of two texts.
        folded_text = "\n".join(fold_case(text) for text in list_call_texts(event))

        def has_literal(literals: Iterable[str]) -> bool:
            return any(literal in folded_text for literal in literals)

        return any(all(map(has_literal, literal_sets)) for literal_sets in required_literals)

    return can_fire


def prepare_stored_call(event: Event) -> MatchableCall:
    """Prepare a recorded call for matching; many calls share a folder, so what it belongs to is looked up once."""
    return prepare_call(event, project_root=_find_root(event.cwd), equivalent_folders=list_folders(event.cwd))


_find_root = lru_cache(maxsize=512)(projects.find_git_root)


@lru_cache(maxsize=512)
def list_folders(cwd: str) -> tuple[str, ...]:
    return tuple(projects.list_equivalent_folders(cwd))
