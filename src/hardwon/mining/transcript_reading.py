"""Read a transcript a portion at a time: its calls, its episodes, and the read position behind them.

Nothing read here is trusted: it is cleaned of secrets and private turns first, and then only proposed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any

import orjson

from hardwon import projects
from hardwon.agents import transcript_files
from hardwon.agents.transcript_files import PrivateTurnTracker, StepPredicate
from hardwon.agents.transcript_steps import Step, dump_reader_state, load_transcript_module
from hardwon.mining import mined_episodes
from hardwon.mining.episodes import Episode, EpisodeTracker
from hardwon.privacy.cleaning import clean_state, clean_texts
from hardwon.privacy.private_tags import has_possible_tag, strip_private
from hardwon.privacy.prompt_text import is_only_for_hardwon
from hardwon.shell.failures import cut_middle
from hardwon.shell.parsing import parse_simple_commands
from hardwon.store.transcripts import Portion, ScannedCall
from hardwon.text import lesson_tags
from hardwon.types import PROGRAM_NAME, TAG_TIER, MinedEpisode, ReadPosition, frozen, replace

MAX_COMMAND_CHARS, MAX_CONTENT_CHARS, MAX_CONTENT_CHARS_READ = 4_000, 1_000, 1_300
_SPEECH_KINDS = ("agent", "person")

MeasuredPortion = tuple[Portion, int, int]  # a portion, its bytes and its malformed lines


@frozen
class TranscriptFile:
    """A transcript, the agent that wrote it, and its unread bytes."""

    path: str
    agent: str
    unread_bytes: int
    modified_at: float


def read_transcript(
    file: TranscriptFile, stored_position: ReadPosition | None, window: int, is_excluded: StepPredicate
) -> Iterator[MeasuredPortion]:
    """Yield what is new in a transcript since the stored position, a portion at a time, with its size and faults."""
    with transcript_files.open_transcript(file.path, stored_position) as transcript:
        read_position = transcript.position
        for portion in _read_portions(file, read_position, transcript.portions, window, is_excluded):
            next_position = portion.read_position
            byte_count = next_position.offset - read_position.offset
            yield portion, byte_count, next_position.malformed - read_position.malformed
            read_position = next_position


def _read_portions(
    file: TranscriptFile,
    read_position: ReadPosition,
    lines: Iterable[tuple[transcript_files.NumberedLines, ReadPosition]],
    window: int,
    is_excluded: StepPredicate,
) -> Iterator[Portion]:
    """Yield the portions that the lines make, each with the state of reader and tracker at its end.

    Hidden steps, such as those of private turns, go into no portion.
    """
    reader = load_transcript_module(file.agent).Reader(_load_state(read_position.reader))
    reader.usage = {}  # only the import of sessions needs the tokens
    watch_state = _load_state(read_position.watch) or {}
    tracker = EpisodeTracker(watch_state, window=window)
    private_turns = PrivateTurnTracker(file.path, watch_state)
    has_hidden_steps = private_turns.is_private
    for numbered, next_position in lines:
        visible_steps: list[Step] = []
        for number, line in numbered:
            for step in reader.read_line(number, line):
                if private_turns.check_next_step(step) or is_excluded(step):
                    has_hidden_steps = True
                elif not _is_about_hardwon(step):
                    visible_steps.append(step)
        builder = _PortionBuilder(file)
        for step in _clean_steps(visible_steps):
            if episodes := tracker.process_step(step):
                builder.add_episodes(episodes)
            if step.kind == "result":
                builder.add_result(step, has_failed=tracker.has_failed_last(step.subagent_id))
            else:
                builder.add_step(step)
        builder.add_episodes(tracker.list_unfinished())
        state = {**tracker.dump_state(), **private_turns.dump_state()}
        reader_state, state = clean_state([dump_reader_state(reader, has_hidden_steps=has_hidden_steps), state])
        end_position = replace(
            next_position, malformed=reader.malformed, reader=_dump_state(reader_state), watch=_dump_state(state)
        )
        yield builder.build_portion(end_position)


def _is_about_hardwon(step: Step) -> bool:
    """Return whether a step is a decision about lessons, which corrects no call, or a call that runs hardwon."""
    if step.kind == "person":
        return is_only_for_hardwon(step.text)
    return step.kind == "call" and is_hardwon_call(step)


def is_hardwon_call(step: Step) -> bool:
    """Return whether a call runs hardwon, which prints other sessions' errors; its result is then ignored too."""
    if PROGRAM_NAME not in step.command:
        return False
    return any(
        simple_command.program == PROGRAM_NAME
        for simple_command in parse_simple_commands(step.command[:MAX_COMMAND_CHARS])
    )


def _clean_steps(steps: Sequence[Step]) -> Sequence[Step]:
    """Redact calls and errors first, so that nothing derived from them contains a secret."""
    has_tags = has_possible_tag("\n".join([step.text for step in steps if step.kind in _SPEECH_KINDS]))
    # Most steps are short and fine; they are told apart here because calling a function for each of them takes longer.
    steps = [
        _trim_step(step, has_tags)
        if has_tags or step.failed or step.refused or len(step.content) > MAX_CONTENT_CHARS_READ
        else step
        for step in steps
    ]
    texts: list[str] = []
    for step in steps:
        if step.kind == "call" or step.failed or step.refused:
            texts += filter(None, _list_stored_texts(step))
    cleaned = {text: clean for text, clean in zip(texts, clean_texts(texts), strict=True) if text != clean}
    return [_replace_texts(step, cleaned) for step in steps] if cleaned else steps


def _trim_step(step: Step, has_tags: bool) -> Step:
    """Shorten a step to what is used; content keeps more than is stored, so that redaction sees whole keys.

    Private parts of messages are removed now, because a sentence cut out of one would no longer show that it is
    private.
    """
    if step.kind in _SPEECH_KINDS:
        return step._replace(text=strip_private(step.text)) if has_tags else step
    if step.failed or step.refused:
        return step._replace(text=cut_middle(step.text))
    if len(step.content) > MAX_CONTENT_CHARS_READ:
        return step._replace(content=step.content[:MAX_CONTENT_CHARS_READ])
    return step


def _list_stored_texts(step: Step) -> tuple[str, ...]:
    """Return the texts of a step that may be stored."""
    if step.kind == "call":
        return step.command, step.content
    return (step.text, step.refused) if step.failed or step.refused else ()


def _replace_texts(step: Step, cleaned: Mapping[str, str]) -> Step:
    """Return a step with the redacted form of each text that has one."""
    if cleaned.keys().isdisjoint(_list_stored_texts(step)):
        return step
    if step.kind == "call":
        command = cleaned.get(step.command, step.command)
        content = cleaned.get(step.content, step.content)
        return step._replace(command=command, content=content)
    return step._replace(text=cleaned.get(step.text, step.text), refused=cleaned.get(step.refused, step.refused))


class _PortionBuilder:
    """Collect the calls and episodes of one portion."""

    def __init__(self, file: TranscriptFile) -> None:
        self._file = file
        self._calls: dict[str, Step] = {}
        self._call_outcomes: dict[str, str] = {}
        self._running_calls: dict[str, str] = {}
        self._earlier_outcomes: dict[str, str] = {}
        self._episodes: dict[str, MinedEpisode] = {}
        self._cancellations: list[tuple[str, str]] = []

    def add_step(self, step: Step) -> None:
        """Add a call, which waits for its result, or the lesson blocks of a message; other steps add nothing."""
        if step.kind == "call":
            self._calls[step.id] = step
            self._call_outcomes.pop(step.id, None)
            self._running_calls[step.call] = step.id
        elif step.kind == "agent" and "#" in step.text and "#lesson" in step.text.lower():
            self._add_lesson_blocks(step)

    def add_result(self, step: Step, *, has_failed: bool) -> None:
        """Apply a result to the latest call with its id, because agents reuse ids in later turns."""
        call_id = self._running_calls.pop(step.call, "")
        outcome = "failed" if has_failed else "fine"
        if step.refused:
            outcome = "refused"
        elif step.denied:
            outcome = "denied"
        if call_id:
            self._call_outcomes[call_id] = outcome
        else:
            self._earlier_outcomes[self._build_pending_key(step.call)] = outcome

    def add_episodes(self, episodes: Iterable[Episode]) -> None:
        for episode in episodes:
            mined_episode = mined_episodes.mine_episode(
                episode, self._file.agent, self._file.path, find_cached_project_path(episode.cwd)
            )
            self._episodes[mined_episode.key] = mined_episode

    def build_portion(self, read_position: ReadPosition) -> Portion:
        return Portion(
            path=self._file.path,
            agent=self._file.agent,
            read_position=read_position,
            calls=tuple(
                self._build_call(step, self._call_outcomes.get(call_id, "")) for call_id, step in self._calls.items()
            ),
            outcomes=tuple(self._earlier_outcomes.items()),
            episodes=tuple(mined_episodes.clean_episodes(list(self._episodes.values()), self._list_clean_texts())),
            withdrawn_tags=tuple(self._cancellations),
        )

    def _list_clean_texts(self) -> set[str]:
        """Return the calls' commands: most of an episode's text, and `_clean_steps` has redacted them."""
        return {step.command for step in self._calls.values()} if self._episodes else set()

    def _build_pending_key(self, call: str) -> str:
        return f"{self._file.path} {call}"

    def _build_call(self, step: Step, outcome: str) -> ScannedCall:
        agent = self._file.agent
        path = self._file.path
        return ScannedCall(
            f"{agent}:{step.id}",
            agent,
            step.session,
            step.cwd,
            step.at,
            path,
            step.line,
            step.tool,
            step.command[:MAX_COMMAND_CHARS],
            step.path,
            step.content[:MAX_CONTENT_CHARS],
            outcome,
            "" if outcome else self._build_pending_key(step.call),
        )

    def _add_lesson_blocks(self, step: Step) -> None:
        """Apply the cancellations of a message, then add its `#lesson` blocks, except templates not filled in."""
        for problem in lesson_tags.find_cancellations(step.text):
            self._cancel_blocks(step.session, problem)
        for position, block in enumerate(lesson_tags.find_lesson_blocks(step.text)):
            if lesson_tags.is_unfilled_template(block):
                continue
            project = find_cached_project_path(step.cwd)
            episode = mined_episodes.mine_block(block, step, position, self._file.agent, self._file.path, project)
            self._episodes[episode.key] = episode

    def _cancel_blocks(self, session: str, problem: str) -> None:
        """Remove cancelled blocks from this portion; the store removes those of earlier portions."""
        tags = [item for item in self._episodes.values() if item.tier == TAG_TIER and item.session == session]
        if problem:
            cancelled_tags = [tag for tag in tags if lesson_tags.is_cancelled(tag.body["problem"], problem)]
        else:
            cancelled_tags = tags[-1:]  # the last one
        for tag in cancelled_tags:
            del self._episodes[tag.key]
        if problem or not tags:
            self._cancellations.append((session, problem))


@lru_cache(maxsize=512)
def find_cached_project_path(cwd: str) -> str:
    """Return the project of a folder, which may no longer exist."""
    return projects.find_project_path(cwd) if cwd else ""


def _load_state(text: str) -> dict[str, Any] | None:
    state = orjson.loads(text) if text else None
    return state if isinstance(state, dict) else None


def _dump_state(state: Mapping[str, Any]) -> str:
    return orjson.dumps(state).decode()
