"""Mining transcripts: what was added to each is read once, tags and signals are kept together with the mark.

A file is read in portions and each is committed whole, so a scan may be killed anywhere, run again, or run four times
at once. Nothing read here is believed: it is proposed.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import lru_cache
from typing import Any

import orjson

from hardwon import clock, paths, projects
from hardwon.agents import transcript_files, transcript_tail
from hardwon.agents.denied_steps import StepPredicate, build_step_exclusion, denied_or_deleted
from hardwon.agents.private_turns import PrivateTurnTracker
from hardwon.agents.transcript_steps import TRANSCRIPT_MODULES, Step, TranscriptModule, load_transcript_module
from hardwon.mining import proposals
from hardwon.mining.episodes import Episode, EpisodeTracker
from hardwon.privacy.cleaning import clean_state, clean_texts
from hardwon.privacy.private_tags import has_possible_tag, strip_private
from hardwon.privacy.prompt_text import is_only_for_hardwon
from hardwon.shell.failures import cut_middle, is_unreported_failure
from hardwon.shell.parsing import parse_simple_commands
from hardwon.store import candidates, deletions, transcripts
from hardwon.store.candidates import Candidate, Scan
from hardwon.store.db import Connection
from hardwon.store.transcripts import Portion, ScannedCall
from hardwon.text import lesson_tags
from hardwon.types import PROGRAM_NAME, MinedEpisode, ReadPosition, frozen, replace

MAX_COMMAND_CHARS, MAX_CONTENT_CHARS, MAX_CONTENT_CHARS_READ = 4_000, 1_000, 2_000
COMPLETE_SCAN_KINDS = ("full", "new", "auto")  # the others looked at some transcripts only
COMMAND_STATE_KEYS = ("open", "running", "scripts")  # where a reader remembers commands
_SPEAK = ("agent", "person")
BATCH_SIZE = 2_000  # calls and signals in one transaction

MeasuredPortion = tuple[Portion, int, int]  # with the bytes and malformed lines in it


@frozen
class TranscriptFile:
    """A transcript, the host that wrote it, and what is new in it, in bytes."""

    path: str
    agent: str
    unread_bytes: int
    modified_at: float


@frozen
class ScanResult:
    """What a scan came to."""

    file_count: int
    byte_count: int
    malformed_lines: int
    episode_count: int
    new_candidates: tuple[Candidate, ...]
    faults: tuple[tuple[str, str], ...]


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
    """Read the files, weigh what they gave, and record the scan.

    `report_progress` is told the bytes of each file done.
    """
    faults: list[tuple[str, str]] = []
    transcripts.enlarge_cache(connection)
    left_out = denied_or_deleted(build_step_exclusion(home, values), deletions.read_tombstones(connection))
    portions = _all_portions(connection, files, int(values["scanWindow"]), left_out, faults, report_progress)
    found = signals = malformed = 0
    for batch in _batches(portions):
        signals += transcripts.store_portions(connection, [portion for portion, _, _ in batch], clock.now())
        found += sum(size for _, size, _ in batch)
        malformed += sum(wrong for _, _, wrong in batch)
    transcripts.prune_calls(connection)
    now = clock.now()
    new = proposals.refresh_candidates(connection, values, tiers=tiers, now=now)
    candidates.add_scan(connection, Scan(now, kind, len(files), found, malformed, signals, len(new)))
    return ScanResult(len(files), found, malformed, signals, tuple(new), tuple(faults))


def _batches(portions: Iterable[MeasuredPortion]) -> Iterator[list[MeasuredPortion]]:
    """Small files are committed together: a transaction has a price, and a limit of some tens of milliseconds."""
    batch: list[MeasuredPortion] = []
    for portion in portions:
        batch.append(portion)
        if sum(len(one.calls) + len(one.episodes) for one, _, _ in batch) >= BATCH_SIZE:
            yield batch
            batch = []
    if batch:
        yield batch


def find_transcript_folders(
    environment: Mapping[str, str], home: str, scan_paths: Sequence[str], agent: str = ""
) -> dict[str, list[str]]:
    """Where transcripts are looked for, by host: the places named, else the folders of every host."""
    if scan_paths:
        return {agent: list(scan_paths)}
    return {
        name: load_transcript_module(name).find_transcript_folders(environment, home)
        for name in TRANSCRIPT_MODULES
        if agent in ("", name)
    }


def is_due(connection: Connection, values: Mapping[str, Any], now: float) -> bool:
    """Whether a background scan may run: the last scan lies far enough back, or in the future after a clock was set."""
    hours = float(values["autoScanIntervalHours"])
    last = candidates.find_last_scan_time(connection, *COMPLETE_SCAN_KINDS)
    return hours >= 0 and (last is None or not 0 <= now - last < hours * 3600)


@contextmanager
def hold_scan_lock(home: str, *, wait: bool) -> Iterator[bool]:
    """Whether this is the only scan of the home; one that waits always is, in the end."""
    paths.make_private_folder(home)
    with open(os.open(os.path.join(home, "scan.lock"), os.O_RDWR | os.O_CREAT, 0o600), "r+") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        except BlockingIOError:
            yield False
            return
        yield True


def find_vanished_transcripts(read_positions: Mapping[str, ReadPosition]) -> list[str]:
    """The transcripts that are gone, or that have become another file under the same name."""
    return [path for path, mark in read_positions.items() if transcript_files.get_inode(path) != mark.inode]


def find_changed_transcripts(
    folders: Mapping[str, Iterable[str]], read_positions: Mapping[str, ReadPosition]
) -> Iterator[TranscriptFile]:
    """The transcripts below the folders of each host that changed since they were read; "" is any host."""
    met: set[str] = set()
    for host, places in folders.items():
        for place in places:
            for path, stat in _transcripts(os.path.realpath(os.path.expanduser(place))):
                mark = read_positions.get(path)
                if path in met or (mark and transcript_tail.is_unchanged(stat, mark)):
                    continue
                met.add(path)
                if named := _host(path, host):
                    yield TranscriptFile(
                        path, named, max(stat.st_size - (mark.offset if mark else 0), 0), stat.st_mtime
                    )


def _transcripts(place: str) -> Iterator[tuple[str, os.stat_result]]:
    for path, stat in _files(place):
        yield from transcript_files.list_sessions(path, stat)


def _files(place: str) -> Iterator[tuple[str, os.stat_result]]:
    """Every file at or below a place, whatever cannot be looked at left out; links are not followed."""
    try:
        if not os.path.isdir(place):
            yield place, os.stat(place)
            return
        with os.scandir(place) as entries:
            listed = sorted(entries, key=lambda entry: entry.name)
    except OSError:
        return
    for entry in listed:
        try:
            if entry.is_dir(follow_symlinks=False):
                yield from _files(entry.path)
            elif entry.is_file(follow_symlinks=False):
                yield entry.path, entry.stat(follow_symlinks=False)
        except OSError:
            continue


def _host(path: str, wanted: str) -> str:
    """The host that wrote it, if it is the one that is wanted."""
    if wanted and not transcript_files.is_agent_transcript_path(path, wanted):
        return ""
    try:
        host = transcript_files.detect_agent(path)
    except OSError:
        return ""
    return host if wanted in ("", host) else ""


def _all_portions(
    connection: Connection,
    files: Iterable[TranscriptFile],
    window: int,
    left_out: StepPredicate,
    faults: list[tuple[str, str]],
    passed: Callable[[int], None],
) -> Iterator[MeasuredPortion]:
    """What the files have new. One that cannot be read is named and stops nobody."""
    for file in files:
        try:
            yield from _read(file, transcripts.find_read_position(connection, file.path), window, left_out)
        except OSError as wrong:
            faults.append((file.path, wrong.strerror or str(wrong)))
        passed(file.unread_bytes)


def _read(
    file: TranscriptFile, known: ReadPosition | None, window: int, left_out: StepPredicate
) -> Iterator[MeasuredPortion]:
    with transcript_files.open_transcript(file.path, known) as opened:
        mark = opened.position
        for portion in _portions(file, load_transcript_module(file.agent), mark, opened.portions, window, left_out):
            after = portion.read_position
            yield portion, after.offset - mark.offset, after.malformed - mark.malformed
            mark = after


def _portions(
    file: TranscriptFile,
    module: TranscriptModule,
    mark: ReadPosition,
    lines: Iterable[tuple[transcript_tail.NumberedLines, ReadPosition]],
    window: int,
    left_out: StepPredicate,
) -> Iterator[Portion]:
    reader = module.Reader(_loads(mark.reader))
    before = _loads(mark.watch) or {}
    watch, hidden = EpisodeTracker(before, window=window), PrivateTurnTracker(file.path, before)
    shut = hidden.is_private
    for numbered, after in lines:
        desk = _Desk(file)
        seen: list[Step] = []
        for number, line in numbered:
            for step in reader.read_line(number, line):
                if hidden.should_hide(step) or left_out(step):
                    shut = True
                elif step.kind == "person" and is_only_for_hardwon(step.text):
                    continue  # a decision about lessons corrects no call
                elif not (step.kind == "call" and is_hardwon_call(step)):
                    seen.append(step)
        for step in _fit(seen):
            desk.take(step, watch.process_step(step))
        desk.found(watch.list_unfinished())
        state = {**watch.dump_state(), **hidden.dump_state()}
        read = {name: kept for name, kept in reader.dump_state().items() if not (shut and name in COMMAND_STATE_KEYS)}
        told = {"reader": _dumps(clean_state(read)), "watch": _dumps(clean_state(state))}
        yield desk.portion(replace(after, malformed=reader.malformed, **told))


def is_hardwon_call(step: Step) -> bool:
    """Whether a call runs hardwon: what it prints are other sessions' errors. Its result then belongs to no call."""
    if PROGRAM_NAME not in step.command:
        return False
    return any(simple.program == PROGRAM_NAME for simple in parse_simple_commands(step.command[:MAX_COMMAND_CHARS]))


def _fit(steps: Sequence[Step]) -> Sequence[Step]:
    """The steps with nothing in a call or an error that may not be kept, so that nothing made of them has it either."""
    tagged = has_possible_tag("\n".join([step.text for step in steps if step.kind in _SPEAK]))
    steps = [_cut(step, tagged) for step in steps]
    texts = [text for step in steps for text in _kept(step) if text]
    cleaned = {text: after for text, after in zip(texts, clean_texts(texts), strict=True) if text is not after}
    return [_with(step, cleaned) for step in steps] if cleaned else steps


def _cut(step: Step, tagged: bool) -> Step:
    """As much of it as is looked at; of what a call would write more than is kept, so that no key is halved.

    Of words the private parts go now: a sentence that is cut out of one would no longer show that it is.
    """
    if step.kind in _SPEAK:
        return step._replace(text=text) if tagged and (text := strip_private(step.text)) != step.text else step
    if step.failed or step.refused:
        return step._replace(text=cut_middle(step.text))
    if len(step.content) > MAX_CONTENT_CHARS_READ:
        return step._replace(content=step.content[:MAX_CONTENT_CHARS_READ])
    return step


def _kept(step: Step) -> tuple[str, ...]:
    """What something may be made of."""
    if step.kind == "call":
        return step.command, step.content
    return (step.text, step.refused) if step.failed or step.refused else ()


def _with(step: Step, cleaned: Mapping[str, str]) -> Step:
    if cleaned.keys().isdisjoint(_kept(step)):
        return step
    if step.kind == "call":
        command, content = cleaned.get(step.command, step.command), cleaned.get(step.content, step.content)
        return step._replace(command=command, content=content)
    return step._replace(text=cleaned.get(step.text, step.text), refused=cleaned.get(step.refused, step.refused))


class _Desk:
    """Owns what one portion has given so far."""

    def __init__(self, file: TranscriptFile) -> None:
        self._file = file
        self._calls: dict[str, Step] = {}
        self._ends: dict[str, str] = {}
        self._under_way: dict[str, str] = {}
        self._outcomes: dict[str, str] = {}
        self._signals: dict[str, MinedEpisode] = {}
        self._cancels: list[tuple[str, str]] = []

    def take(self, step: Step, ended: Iterable[Episode]) -> None:
        if step.kind == "call":
            self._calls[step.id] = step
            self._ends.pop(step.id, None)
            self._under_way[step.call] = step.id
        elif step.kind == "result":
            self._ended(step)
        elif step.kind == "agent" and "#" in step.text and "#lesson" in step.text.lower():
            self._tagged(step)
        if ended:
            self.found(ended)

    def found(self, episodes: Iterable[Episode]) -> None:
        for episode in episodes:
            signal = proposals.mine_episode(
                episode, self._file.agent, self._file.path, find_cached_project_path(episode.cwd)
            )
            self._signals[signal.key] = signal

    def portion(self, mark: ReadPosition) -> Portion:
        return Portion(
            path=self._file.path,
            agent=self._file.agent,
            read_position=mark,
            calls=tuple(self._call(step, self._ends.get(id, "")) for id, step in self._calls.items()),
            outcomes=tuple(self._outcomes.items()),
            episodes=tuple(proposals.clean_episodes(list(self._signals.values()))),
            withdrawn_tags=tuple(self._cancels),
        )

    def _ended(self, step: Step) -> None:
        """Hosts use a call's name again in later turns, so a result ends the latest call of that name."""
        id = self._under_way.pop(step.call, "")
        call = self._calls.get(id)
        failed = step.failed or (call is not None and is_unreported_failure(call.tool, call.command, step.text))
        outcome = "failed" if failed else "fine"
        if step.refused:
            outcome = "refused"
        elif step.denied:
            outcome = "denied"
        if id:
            self._ends[id] = outcome
        else:
            self._outcomes[self._waits(step.call)] = outcome

    def _waits(self, call: str) -> str:
        return f"{self._file.path} {call}"

    def _call(self, step: Step, outcome: str) -> ScannedCall:
        return ScannedCall(
            key=f"{self._file.agent}:{step.id}",
            host=self._file.agent,
            session=step.session,
            cwd=step.cwd,
            at=step.at,
            path=self._file.path,
            line=step.line,
            tool=step.tool,
            command=step.command[:MAX_COMMAND_CHARS],
            file=step.path,
            content=step.content[:MAX_CONTENT_CHARS],
            outcome=outcome,
            waits="" if outcome else self._waits(step.call),
        )

    def _tagged(self, step: Step) -> None:
        for problem in lesson_tags.find_cancellations(step.text):
            self._cancel(step.session, problem)
        for place, tag in enumerate(lesson_tags.find_lesson_blocks(step.text)):
            if not lesson_tags.is_unfilled_template(tag):
                host, path = self._file.agent, self._file.path
                signal = proposals.mine_block(tag, step, place, host, path, find_cached_project_path(step.cwd))
                self._signals[signal.key] = signal

    def _cancel(self, session: str, problem: str) -> None:
        """Take back what this portion has of it; what lies before is the store's to take back."""
        own = [key for key, one in self._signals.items() if one.tier == 1 and one.session == session]
        gone = [key for key in own if lesson_tags.is_cancelled(self._signals[key].body["problem"], problem)]
        if not problem and own:
            gone = own[-1:]
        for key in gone:
            del self._signals[key]
        if problem or not own:
            self._cancels.append((session, problem))


@lru_cache(maxsize=512)
def find_cached_project_path(cwd: str) -> str:
    """The project of a folder, which may be gone."""
    return projects.find_project_path(cwd) if cwd else ""


def _loads(text: str) -> dict[str, Any] | None:
    found = orjson.loads(text) if text else None
    return found if isinstance(found, dict) else None


def _dumps(state: Mapping[str, Any]) -> str:
    return orjson.dumps(state).decode()
