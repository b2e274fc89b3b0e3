"""Mine transcripts: read what is new in each, and store episodes together with the read position.

A file is read in portions and each is committed whole, so a scan may be killed at any point, repeated, or run several
times at once. Nothing read here is trusted: it is only proposed.
"""

from __future__ import annotations

import fcntl
import gc
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import lru_cache
from typing import Any

import orjson

from hardwon import clock, paths, projects
from hardwon.agents import TRANSCRIPT_AGENTS, transcript_files
from hardwon.agents.transcript_files import (
    PrivateTurnTracker,
    StepPredicate,
    build_step_exclusion,
    denied_or_deleted,
)
from hardwon.agents.transcript_steps import Step, TranscriptModule, load_transcript_module
from hardwon.mining import gate, proposals
from hardwon.mining.episodes import Episode, EpisodeTracker
from hardwon.privacy.cleaning import clean_state, clean_texts
from hardwon.privacy.private_tags import has_possible_tag, strip_private
from hardwon.privacy.prompt_text import is_only_for_hardwon
from hardwon.shell.failures import cut_middle
from hardwon.shell.parsing import parse_simple_commands
from hardwon.store import candidates, deletions, transcripts
from hardwon.store.candidates import Candidate, Scan
from hardwon.store.db import Connection
from hardwon.store.transcripts import Portion, ScannedCall
from hardwon.text import lesson_tags
from hardwon.types import PROGRAM_NAME, TAG_TIER, MinedEpisode, ReadPosition, frozen, replace

MAX_COMMAND_CHARS, MAX_CONTENT_CHARS, MAX_CONTENT_CHARS_READ = 4_000, 1_000, 1_300
COMPLETE_SCAN_KINDS = ("full", "new", "auto")  # other kinds read only some of the transcripts
COMMAND_STATE_KEYS = ("open", "running", "scripts")  # parts of a reader's state that contain commands
_SPEECH_KINDS = ("agent", "person")
_NEW_OBJECTS_BEFORE_COLLECTION = 50_000  # Python's default is 700
BATCH_SIZE = 2_000  # calls and episodes per transaction

MeasuredPortion = tuple[Portion, int, int]  # a portion, its bytes and its malformed lines


@frozen
class TranscriptFile:
    """A transcript, the agent that wrote it, and its unread bytes."""

    path: str
    agent: str
    unread_bytes: int
    modified_at: float


@frozen
class ScanResult:
    """The counts, new candidates and faults of a scan."""

    file_count: int
    byte_count: int
    malformed_lines: int
    episode_count: int
    new_candidates: tuple[Candidate, ...]
    faults: tuple[tuple[str, str], ...]
    stepped_down: tuple[str, ...] = ()  # a line for each retired lesson


def scan_transcripts(
    home: str,
    connection: Connection,
    files: Sequence[TranscriptFile],
    values: Mapping[str, Any],
    *,
    kind: str,
    tiers: Sequence[int] = (1, 2),
    report_progress: Callable[[int], None] = lambda size: None,
) -> ScanResult:
    """Read the files, refresh the candidates, and record the scan.

    `report_progress` is called with the bytes of each finished file.
    """
    faults: list[tuple[str, str]] = []
    transcripts.enlarge_cache(connection)
    is_excluded = denied_or_deleted(build_step_exclusion(home, values), deletions.read_tombstones(connection))
    portions = _read_all_portions(connection, files, int(values["scanWindow"]), is_excluded, faults, report_progress)
    byte_count = episode_count = malformed_lines = 0
    with _collect_garbage_rarely():
        for batch in _batch_portions(portions):
            episode_count += transcripts.store_portions(connection, [portion for portion, _, _ in batch], clock.now())
            byte_count += sum(size for _, size, _ in batch)
            malformed_lines += sum(line_count for _, _, line_count in batch)
    transcripts.prune_calls(connection)
    now = clock.now()
    new_candidates: list[Candidate] = []
    if byte_count or candidates.list_fresh_signatures(connection):
        new_candidates = proposals.refresh_candidates(connection, values, tiers=tiers, now=now)
    # Only new calls can speak against a lesson.
    stepped_down = gate.step_down_lessons(home, connection, float(values["minTriggerPrecision"])) if byte_count else []
    candidates.add_scan(
        connection, Scan(now, kind, len(files), byte_count, malformed_lines, episode_count, len(new_candidates))
    )
    return ScanResult(
        file_count=len(files),
        byte_count=byte_count,
        malformed_lines=malformed_lines,
        episode_count=episode_count,
        new_candidates=tuple(new_candidates),
        faults=tuple(faults),
        stepped_down=tuple(stepped_down),
    )


@contextmanager
def _collect_garbage_rarely() -> Iterator[None]:
    """Search less often for objects that refer to each other: steps do not, and the search is 4 % of a scan."""
    thresholds = gc.get_threshold()
    gc.set_threshold(_NEW_OBJECTS_BEFORE_COLLECTION, *thresholds[1:])
    try:
        yield
    finally:
        gc.set_threshold(*thresholds)


def _batch_portions(portions: Iterable[MeasuredPortion]) -> Iterator[list[MeasuredPortion]]:
    """Batch the portions of small files into one transaction, since each has a cost.

    `BATCH_SIZE` keeps a transaction within some tens of milliseconds.
    """
    batch: list[MeasuredPortion] = []
    for portion in portions:
        batch.append(portion)
        if sum(len(batched.calls) + len(batched.episodes) for batched, _, _ in batch) >= BATCH_SIZE:
            yield batch
            batch = []
    if batch:
        yield batch


def find_transcript_folders(
    environment: Mapping[str, str], home: str, scan_paths: Sequence[str], agent: str = ""
) -> dict[str, list[str]]:
    """Return the folders to search by agent: the given paths, or else every agent's own folders."""
    if scan_paths:
        return {agent: list(scan_paths)}
    return {
        name: load_transcript_module(name).find_transcript_folders(environment, home)
        for name in TRANSCRIPT_AGENTS
        if agent in ("", name)
    }


def is_due(connection: Connection, values: Mapping[str, Any], now: float) -> bool:
    """Return whether a background scan is due; a last scan in the future means that the clock was set back."""
    hours = float(values["autoScanIntervalHours"])
    last = candidates.find_last_scan_time(connection, *COMPLETE_SCAN_KINDS)
    return hours >= 0 and (last is None or not 0 <= now - last < hours * 3600)


@contextmanager
def hold_scan_lock(home: str, *, wait: bool) -> Iterator[bool]:
    """Take the scan lock and yield True; without `wait`, yield False if another scan holds it."""
    paths.make_private_folder(home)
    with open(os.open(os.path.join(home, "scan.lock"), os.O_RDWR | os.O_CREAT, 0o600), "r+") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        except BlockingIOError:
            yield False
            return
        yield True


def find_vanished_transcripts(read_positions: Mapping[str, ReadPosition]) -> list[str]:
    """Return transcripts that were deleted or replaced by another file of the same name."""
    return [
        path
        for path, read_position in read_positions.items()
        if transcript_files.get_inode(path) != read_position.inode
    ]


def find_changed_transcripts(
    folders: Mapping[str, Iterable[str]], read_positions: Mapping[str, ReadPosition]
) -> Iterator[TranscriptFile]:
    """Yield transcripts in the agents' folders that changed since they were read; the key "" means any agent."""
    visited_paths: set[str] = set()
    for agent, agent_folders in folders.items():
        for folder in agent_folders:
            for path, stat in _find_transcripts(os.path.realpath(os.path.expanduser(folder))):
                read_position = read_positions.get(path)
                if path in visited_paths or (read_position and transcript_files.is_unchanged(stat, read_position)):
                    continue
                visited_paths.add(path)
                if file_agent := _detect_agent(path, agent):
                    yield TranscriptFile(
                        path,
                        file_agent,
                        max(stat.st_size - (read_position.offset if read_position else 0), 0),
                        stat.st_mtime,
                    )


def _find_transcripts(root: str) -> Iterator[tuple[str, os.stat_result]]:
    for path, stat in _walk_files(root):
        yield from transcript_files.list_sessions(path, stat)


def _walk_files(root: str) -> Iterator[tuple[str, os.stat_result]]:
    """Yield every file at or below a path; unreadable ones are skipped and links not followed."""
    try:
        if not os.path.isdir(root):
            yield root, os.stat(root)
            return
        with os.scandir(root) as entries:
            sorted_entries = sorted(entries, key=lambda entry: entry.name)
    except OSError:
        return
    for entry in sorted_entries:
        try:
            if entry.is_dir(follow_symlinks=False):
                yield from _walk_files(entry.path)
            elif entry.is_file(follow_symlinks=False):
                yield entry.path, entry.stat(follow_symlinks=False)
        except OSError:
            continue


def _detect_agent(path: str, expected_agent: str) -> str:
    """Return the agent that wrote the file; "" if it is not the expected one."""
    if expected_agent and not transcript_files.is_agent_transcript_path(path, expected_agent):
        return ""
    try:
        detected_agent = transcript_files.detect_agent(path)
    except OSError:
        return ""
    return detected_agent if expected_agent in ("", detected_agent) else ""


def _read_all_portions(
    connection: Connection,
    files: Iterable[TranscriptFile],
    window: int,
    is_excluded: StepPredicate,
    faults: list[tuple[str, str]],
    report_progress: Callable[[int], None],
) -> Iterator[MeasuredPortion]:
    """Yield the new portions of all files; an unreadable file is added to `faults` and skipped."""
    for file in files:
        try:
            yield from _read_file(file, transcripts.find_read_position(connection, file.path), window, is_excluded)
        except OSError as error:
            faults.append((file.path, error.strerror or str(error)))
        report_progress(file.unread_bytes)


def _read_file(
    file: TranscriptFile, stored_position: ReadPosition | None, window: int, is_excluded: StepPredicate
) -> Iterator[MeasuredPortion]:
    with transcript_files.open_transcript(file.path, stored_position) as transcript:
        read_position = transcript.position
        for portion in _read_portions(
            file, load_transcript_module(file.agent), read_position, transcript.portions, window, is_excluded
        ):
            next_position = portion.read_position
            yield (
                portion,
                next_position.offset - read_position.offset,
                next_position.malformed - read_position.malformed,
            )
            read_position = next_position


def _read_portions(
    file: TranscriptFile,
    module: TranscriptModule,
    read_position: ReadPosition,
    lines: Iterable[tuple[transcript_files.NumberedLines, ReadPosition]],
    window: int,
    is_excluded: StepPredicate,
) -> Iterator[Portion]:
    reader = module.Reader(_load_state(read_position.reader))
    reader.usage = {}  # only the import of sessions needs the tokens
    watch_state = _load_state(read_position.watch) or {}
    tracker = EpisodeTracker(watch_state, window=window)
    private_turns = PrivateTurnTracker(file.path, watch_state)
    has_hidden_steps = private_turns.is_private
    for numbered, next_position in lines:
        builder = _PortionBuilder(file)
        visible_steps: list[Step] = []
        for number, line in numbered:
            for step in reader.read_line(number, line):
                if private_turns.should_hide(step) or is_excluded(step):
                    has_hidden_steps = True
                elif step.kind == "person" and is_only_for_hardwon(step.text):
                    continue  # a decision about lessons does not correct a call
                elif not (step.kind == "call" and is_hardwon_call(step)):
                    visible_steps.append(step)
        for step in _clean_steps(visible_steps):
            if episodes := tracker.process_step(step):
                builder.add_episodes(episodes)
            if step.kind == "result":
                builder.add_result(step, has_failed=tracker.has_failed_last(step.agent))
            else:
                builder.add_step(step)
        builder.add_episodes(tracker.list_unfinished())
        state = {**tracker.dump_state(), **private_turns.dump_state()}
        # The reader also remembers commands of hidden steps, which must not be stored.
        reader_state = {
            name: value for name, value in vars(reader).items() if not (has_hidden_steps and name in COMMAND_STATE_KEYS)
        }
        reader_state, state = clean_state([reader_state, state])
        yield builder.build_portion(
            replace(
                next_position, malformed=reader.malformed, reader=_dump_state(reader_state), watch=_dump_state(state)
            )
        )


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
            mined_episode = proposals.mine_episode(
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
            episodes=tuple(proposals.clean_episodes(list(self._episodes.values()), self._list_clean_texts())),
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
        for problem in lesson_tags.find_cancellations(step.text):
            self._cancel_blocks(step.session, problem)
        for position, block in enumerate(lesson_tags.find_lesson_blocks(step.text)):
            if not lesson_tags.is_unfilled_template(block):
                agent = self._file.agent
                path = self._file.path
                episode = proposals.mine_block(block, step, position, agent, path, find_cached_project_path(step.cwd))
                self._episodes[episode.key] = episode

    def _cancel_blocks(self, session: str, problem: str) -> None:
        """Remove cancelled blocks from this portion; the store removes those of earlier portions."""
        session_keys = [
            key for key, episode in self._episodes.items() if episode.tier == TAG_TIER and episode.session == session
        ]
        cancelled_keys = [
            key for key in session_keys if lesson_tags.is_cancelled(self._episodes[key].body["problem"], problem)
        ]
        if not problem and session_keys:
            cancelled_keys = session_keys[-1:]
        for key in cancelled_keys:
            del self._episodes[key]
        if problem or not session_keys:
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
