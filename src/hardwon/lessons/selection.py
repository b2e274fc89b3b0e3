"""Which lessons go into one reply."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from hardwon.types import Entry


def select(
    entries: Sequence[Entry],
    *,
    budget: int,
    most: int,
    full: Callable[[Entry], str],
    short: Callable[[Entry], str],
    joint: str,
    claim: Callable[[Entry], bool],
    first_whole: bool = True,
) -> tuple[tuple[Entry, str], ...]:
    """The lessons that fit, best first. The first always goes in whole, so one long lesson cannot starve.

    A lesson is claimed only once it is known to fit, so what is left out for room may come at the next call.
    """
    chosen: list[tuple[Entry, str]] = []
    left = budget
    for entry in entries:
        if len(chosen) >= most:
            break
        text = _fitting(entry, left, first=first_whole and not chosen, full=full, short=short)
        if text is not None and claim(entry):
            chosen.append((entry, text))
            left -= size(text) + size(joint)
    return tuple(chosen)


def _fitting(
    entry: Entry, left: int, *, first: bool, full: Callable[[Entry], str], short: Callable[[Entry], str]
) -> str | None:
    text = full(entry)
    if first or size(text) <= left:
        return text
    text = short(entry)
    return text if size(text) <= left else None


def size(text: str) -> int:
    """Bytes as they go to the agent."""
    return len(text.encode("utf-8", "surrogatepass"))
