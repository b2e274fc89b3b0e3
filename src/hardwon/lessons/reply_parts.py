"""Choose and format lessons for a reply; replies to calls and to session starts share this."""

from __future__ import annotations

from hardwon.text.brief_layout import SECTION_SEPARATOR
from hardwon.types import Delivery, HookReply, replace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from hardwon.lessons.hook_sources import HookSources
    from hardwon.lessons.manifest_index import ManifestIndex
    from hardwon.lessons.session_claims import SessionClaims
    from hardwon.types import DeliveryMode, Event, ManifestEntry

    ChosenLessons = Sequence[tuple[ManifestEntry, str]]  # each with the text to deliver

FIX_MARK = "**Fix**:"
CHANGED_CODE_NOTE = "the code it is about has changed since"
_MODE_VERBS = {"note": "noted", "block": "blocked this call", "start": "opened with"}
MAX_NOTICE_CALL_CHARS = 60


def mark_stale(entry: ManifestEntry, sources: HookSources | None) -> ManifestEntry | None:
    """Return a lesson with a remark if the code it names has changed since; None if that code is gone."""
    state = sources.check_code(entry.id) if sources else "fresh"
    if state == "changed":
        return replace(entry, text=f"{entry.text}\n({CHANGED_CODE_NOTE})")
    return None if state == "gone" else entry


def select_lessons(
    entries: Sequence[ManifestEntry],
    session_claims: SessionClaims | None,
    *,
    budget: int,
    limit: int,
    is_short: bool = False,
    keep_first_full: bool = True,
) -> ChosenLessons:
    """Return the lessons that fit the byte budget, best first, as summaries where the full text does not fit.

    The first one may exceed the budget, so that a long lesson is delivered at all. A lesson is claimed only if it fits,
    so that one left out comes with the next call. Without claims, for a preview, all count as new.
    """
    chosen: list[tuple[ManifestEntry, str]] = []
    remaining_bytes = budget
    for entry in entries:
        if len(chosen) >= limit:
            break
        text = _format_short_lesson(entry) if is_short else format_full_lesson(entry)
        if count_bytes(text) > remaining_bytes and (chosen or not keep_first_full):
            text = _format_short_lesson(entry)
            if count_bytes(text) > remaining_bytes:
                continue
        if session_claims is None or session_claims.take_lesson(entry):
            chosen.append((entry, text))
            remaining_bytes -= count_bytes(text) + count_bytes(SECTION_SEPARATOR)
    return chosen


def count_bytes(text: str) -> int:
    """Return the size of a text as sent to the agent."""
    return len(text.encode("utf-8", "surrogatepass"))


def format_full_lesson(entry: ManifestEntry) -> str:
    """Format a lesson for the agent, with its slug so that a person can look it up; a held one ends with its fix."""
    if entry.delivery == "hold":
        heading, newline, rest = entry.text.partition("\n")
        return f"{heading} (lesson {entry.slug}){newline}{rest}"
    return f"{entry.text}\n(lesson {entry.slug})"


def _format_short_lesson(entry: ManifestEntry) -> str:
    return f"**Lesson**: {entry.summary} (lesson {entry.slug})"


def merge_replies(first: HookReply, second: HookReply) -> HookReply:
    """Merge two replies to one event; the first must not deny."""
    context = "\n".join(filter(None, (first.context, second.context)))
    notice = "\n".join(filter(None, (first.notice, second.notice)))
    return HookReply(second.deny, context, notice, (*first.deliveries, *second.deliveries))


def build_reply(
    event: Event,
    index: ManifestIndex,
    chosen: ChosenLessons,
    *,
    deny: str = "",
    context: str = "",
    silent_firings: tuple[Delivery, ...] = (),
) -> HookReply:
    deliveries = [*(build_firing(event, entry) for entry, _ in chosen), *silent_firings]
    notice = ""
    if chosen and index.settings["showDeliveries"]:
        first, _ = chosen[0]
        suffix = f" (+{len(chosen) - 1} more)" if len(chosen) > 1 else ""
        notice = f"hardwon {_describe_delivery(event, first)} [{first.slug}]{suffix}"
    return HookReply(deny, context, notice, tuple(deliveries))


def _describe_delivery(event: Event, entry: ManifestEntry) -> str:
    """Return the line for the person; a hold names the call and its fix, since agents show neither."""
    if entry.delivery != "hold":
        return f"{_MODE_VERBS[entry.delivery]}: {entry.summary}"
    call = " ".join((event.command or event.path or event.tool).split())
    if len(call) > MAX_NOTICE_CALL_CHARS:
        call = call[: MAX_NOTICE_CALL_CHARS - 1] + "…"
    fix = entry.text.partition(FIX_MARK)[2].strip().partition("\n")[0]
    return f"held once: {call} → {fix or entry.summary}"


def build_firing(event: Event, entry: ManifestEntry, *, is_silent: bool = False) -> Delivery:
    """Return the record of a firing: told as always, or in one of the arms of a measured lesson."""
    arm = "told"
    if entry.silent_share >= 1:
        arm = "shadow"
    elif entry.silent_share:
        arm = "silent" if is_silent else "live"
    delivery = build_delivery(event, entry.id, entry.slug, entry.summary, entry.delivery)
    return replace(delivery, version=entry.version, arm=arm, probability=1 - entry.silent_share)


def build_delivery(event: Event, lesson_id: str, slug: str, summary: str, delivery: DeliveryMode) -> Delivery:
    return Delivery(
        # Two hooks may ask about one call and both be denied; that is one delivery.
        event=f"{event.session}:{event.tool_use_id}" if event.tool_use_id else event.id,
        at=event.at,
        host=event.host,
        session=event.session,
        agent=event.agent,
        kind=event.kind,
        tool=event.tool,
        lesson=lesson_id,
        slug=slug,
        summary=summary,
        delivery=delivery,
    )
