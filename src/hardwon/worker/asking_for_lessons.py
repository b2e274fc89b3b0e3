"""Ask an agent for a lesson when it has just found out what works.

Nobody words a lesson better than the agent that found the cure. The worker follows the calls of live sessions with the
rules that mine transcripts. When a call ends an episode that is worth a lesson and not known yet, the answer to its
hook asks the agent for a `#lesson` block. A scan then finds the block with the episode, and gates both as one.

Episodes are held in memory: one that spans a restart of the worker is not asked about, but a scan still finds it.
"""

from __future__ import annotations

from collections import OrderedDict
from hashlib import blake2b
from itertools import count
from typing import TYPE_CHECKING

from hardwon.agents.fields import get_call_fields
from hardwon.agents.tool_results import get_result_text
from hardwon.agents.transcript_steps import Step
from hardwon.lessons.call_texts import list_call_texts
from hardwon.lessons.delivery import build_delivery
from hardwon.lessons.manifest_index import ManifestIndex
from hardwon.lessons.matching import match_entry, prepare_call
from hardwon.lessons.review_queue import diff_calls
from hardwon.lessons.start_replies import REQUEST_SLUG
from hardwon.mining import gate
from hardwon.mining.episodes import Episode, EpisodeTracker
from hardwon.mining.suggestions import shorten_text
from hardwon.mining.transcript_reading import is_hardwon_call
from hardwon.sessions.ingest import classify_outcome
from hardwon.shell.failures import cut_middle
from hardwon.store import candidates, deletions, efficacy
from hardwon.store.db import Connection
from hardwon.text.fence import fence_text
from hardwon.types import EMPTY_REPLY, Event, HookReply, replace

if TYPE_CHECKING:
    from hardwon.lessons.matching import PatternSearch

_MAX_REQUESTS_PER_SESSION = 2  # more would be nagging
MAX_SESSIONS = 32  # followed at the same time; the one that was quiet longest is forgotten
_MAX_RUNNING_CALLS = 1_000
MAX_CALL_CHARS, MAX_ERROR_CHARS = 160, 120
_REQUEST = (
    "If this will come up again here, end your reply with a #lesson block:"
    " the lines `#lesson`, `problem: …`, `solution: …` and `#/lesson`."
)


class LessonAsker:
    """Follow the calls of live sessions, and build the request for a lesson when an episode ends."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._trackers: OrderedDict[tuple[str, str], EpisodeTracker] = OrderedDict()  # by agent and session
        self._start_numbers: OrderedDict[tuple[str, str], int] = OrderedDict()  # by session and the call's id
        self._numbers = count(1)  # the order of what happened, in place of the line numbers of a transcript

    def note_start(self, event: Event) -> None:
        """Remember when a call began: one that ran beside the failed call is no cure of it."""
        self._start_numbers[event.session, event.tool_use_id] = next(self._numbers)
        if len(self._start_numbers) > _MAX_RUNNING_CALLS:
            self._start_numbers.popitem(last=False)  # the oldest, whose end was never reported

    def build_reply(self, event: Event, index: ManifestIndex, search_pattern: PatternSearch) -> HookReply:
        """Return the request if this call, redacted already, ends an episode that is worth a lesson."""
        for episode in self._process_call(event):
            if not self._is_worth_asking(event, episode):
                continue
            if _has_lesson(episode, event, index, search_pattern):
                continue
            name = f"{REQUEST_SLUG}:{_hash_signature(episode.signature)}"
            # The words of the episode are not recorded here: the person may purge its session.
            delivery = build_delivery(event, name, REQUEST_SLUG, "asked the agent for a lesson", "note")
            return HookReply(context=fence_text(_format_request(episode)), deliveries=(delivery,))
        return EMPTY_REPLY

    def _process_call(self, event: Event) -> list[Episode]:
        """Follow a call that has ended; return the episodes that it cures."""
        text = get_result_text(event.response)
        outcome = classify_outcome(event, text)
        start_number = self._start_numbers.pop((event.session, event.tool_use_id), 0)
        if not start_number:  # the call was running when the worker started
            start_number = next(self._numbers)
        key = event.host, event.session
        tracker = self._trackers.get(key)
        # Most sessions never fail: they need no tracker.
        if outcome == "interrupted" or (tracker is None and outcome == "fine"):
            return []
        call = _build_call(event, start_number)
        if is_hardwon_call(call):
            return []  # what an agent does with hardwon teaches nothing about the project
        if tracker is None:
            tracker = self._trackers[key] = EpisodeTracker()
            if len(self._trackers) > MAX_SESSIONS:
                self._trackers.popitem(last=False)
        # The one that was quiet longest comes first, and is forgotten first.
        self._trackers.move_to_end(key)
        tracker.process_step(call)
        is_failed = outcome == "failed"
        result = call._replace(
            kind="result",
            line=next(self._numbers),
            text=cut_middle(text) if is_failed else text,
            failed=is_failed,
        )
        return [episode for episode in tracker.process_step(result) if episode.cure is not None]

    def _is_worth_asking(self, event: Event, episode: Episode) -> bool:
        """Return whether the rules would propose it, nobody decided about it, and it was not asked about before."""
        if not episode.score or episode.is_refused:
            return False  # the rules would not propose it
        candidate = candidates.find_by_signature(self._connection, episode.signature)
        if candidate and candidate.status != "open":
            return False  # it is proposed, or was decided about
        is_repeated = candidate is not None and bool(set(candidate.sessions) - {event.session})
        if gate.may_be_chance(episode.score, is_repeated=is_repeated):
            return False
        if deletions.is_rejected_candidate(self._connection, episode.signature):
            return False
        name = f"{REQUEST_SLUG}:{_hash_signature(episode.signature)}"
        in_session, of_episode = efficacy.count_requests(self._connection, event, REQUEST_SLUG, name)
        return in_session < _MAX_REQUESTS_PER_SESSION and not of_episode


def _build_call(event: Event, number: int) -> Step:
    """Return the call of an event as a step of a transcript, with a number in place of its line."""
    tool_input = event.input if isinstance(event.input, dict) else {}
    _, path, content = get_call_fields(event.tool, tool_input)
    return Step(
        "call",
        number,
        id=event.id,
        session=event.session,
        subagent_id=event.subagent_id,
        cwd=event.cwd,
        call=event.id,
        tool=event.tool,
        command=event.command,
        path=path,
        content=content,
    )


def _has_lesson(episode: Episode, event: Event, index: ManifestIndex, search_pattern: PatternSearch) -> bool:
    """Return whether a lesson in force fires on the failed call, whoever wrote it."""
    call = episode.failing_call
    failed_event = replace(
        event, kind="PreToolUse", tool=call.tool, command=call.command, path=call.path, content=call.content, parts=()
    )
    matchable_call = prepare_call(failed_event)
    for number in index.find_possible_matches(call.tool, list_call_texts(failed_event)):
        if match_entry(index.read_entry(number), matchable_call, search_pattern):
            return True
    return False


def _hash_signature(signature: str) -> str:
    """Return a name for a signature without its words, which a person may purge."""
    return blake2b(signature.encode("utf-8", "replace"), digest_size=8).hexdigest()


def _format_request(episode: Episode) -> str:
    """Return the two lines for the agent: what failed and what worked, and what to do about it."""
    first = episode.errors[0]
    cure = episode.cure
    assert cure is not None
    # The error is that of the first attempt, which is also the call that another session would make.
    failed = first.command or first.path or episode.failing_call.content
    worked = cure.command or cure.path or cure.content
    failed_segments, worked_segments = diff_calls(failed, worked)  # around their difference, if they are long
    failed_call = _quote_call("".join(text for text, _ in failed_segments))
    worked_call = _quote_call("".join(text for text, _ in worked_segments))
    if not first.command:
        failed_call = f"{first.tool} {failed_call}"
    cause = ""
    if error := shorten_text(first.quote, MAX_ERROR_CHARS):
        cause = f" ({error})"
    return f"hardwon: {failed_call} failed{cause}, then {worked_call} worked.\n{_REQUEST}"


def _quote_call(text: str) -> str:
    """Return a call as code, cut to size."""
    without_backticks = text.replace("`", "'")  # one would end the quote
    return f"`{shorten_text(without_backticks, MAX_CALL_CHARS)}`"
