"""Transcripts that several processes read: the same findings in the same order, whatever becomes of the processes."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import closing
from functools import partial
from pathlib import Path

import pytest

from hardwon import settings
from hardwon.agents.transcript_steps import Step
from hardwon.mining import scan
from hardwon.mining.reading_processes import ReadTranscript, choose_process_count, read_in_processes
from hardwon.mining.transcript_reading import MeasuredPortion, TranscriptFile, read_transcript
from hardwon.store import db
from hardwon.types import ReadPosition
from tests.support.claude_transcript import TranscriptWriter

Findings = list[tuple[str, list[MeasuredPortion], str]]


def _exclude_nothing(step: Step) -> bool:
    return False


_READ = partial(read_transcript, window=20, is_excluded=_exclude_nothing)


def _describe_file(path: str) -> TranscriptFile:
    size = os.path.getsize(path) if os.path.exists(path) else 0
    return TranscriptFile(path, "claude-code", size, 0.0)


def _write_session(home: Path, number: int, *, filler: str = "") -> TranscriptFile:
    writer = TranscriptWriter(str(home), session=f"session-{number}")
    writer.person(f"fly kite {number}")
    if filler:
        writer.agent(filler)
    writer.mistake()
    return _describe_file(writer.write())


@pytest.fixture
def files(tmp_path: Path) -> list[TranscriptFile]:
    sessions = [_write_session(tmp_path, number) for number in range(7)]
    return [*sessions[:3], _describe_file(str(tmp_path / "gone.jsonl")), *sessions[3:]]


def _collect(files: list[TranscriptFile], read: ReadTranscript, process_count: int) -> Findings:
    findings: Findings = []
    for file, portions in read_in_processes(files, {}, read, process_count):
        portions_of_file: list[MeasuredPortion] = []
        fault = ""
        try:
            portions_of_file.extend(portions)
        except OSError as error:
            fault = str(error.strerror)
        findings.append((file.path, portions_of_file, fault))
    return findings


def test_several_processes_find_what_one_finds_in_the_same_order(files: list[TranscriptFile]) -> None:
    findings = _collect(files, _READ, 3)
    assert [path for path, _, _ in findings] == [file.path for file in files]
    assert [fault for _, _, fault in findings] == ["", "", "", "No such file or directory", "", "", "", ""]
    expected = [list(_READ(file, None)) for file in files if os.path.exists(file.path)]
    assert [portions for _, portions, fault in findings if not fault] == expected
    assert all(portions[0][0].episodes for portions in expected)


def test_what_a_dead_process_owes_is_read_by_the_caller(files: list[TranscriptFile]) -> None:
    caller = os.getpid()

    def die_at_the_third_session(file: TranscriptFile, position: ReadPosition | None) -> Iterator[MeasuredPortion]:
        if os.getpid() != caller and file == files[2]:
            os.kill(os.getpid(), signal.SIGKILL)
        return _READ(file, position)

    assert _collect(files, die_at_the_third_session, 2) == _collect(files, _READ, 2)


def test_an_error_of_a_reader_reaches_the_caller(files: list[TranscriptFile]) -> None:
    def fail(file: TranscriptFile, position: ReadPosition | None) -> Iterator[MeasuredPortion]:
        raise ValueError(f"cannot read {os.path.basename(file.path)}")

    with pytest.raises(ValueError, match=r"cannot read session-0\.jsonl"):
        _collect(files, fail, 2)


def test_a_position_is_continued_from(files: list[TranscriptFile]) -> None:
    [(portion, _, _)] = _READ(files[0], None)
    positions = {files[0].path: portion.read_position}
    [(_, portions)] = [(file, list(portions)) for file, portions in read_in_processes(files[:1], positions, _READ, 1)]
    assert [portion.calls for portion, _, _ in portions] == [()]


def test_no_process_outlives_a_caller_that_stops_early(files: list[TranscriptFile], tmp_path: Path) -> None:
    def note_process(file: TranscriptFile, position: ReadPosition | None) -> Iterator[MeasuredPortion]:
        (tmp_path / f"{os.getpid()}.pid").touch()
        return _READ(file, position)

    with closing(read_in_processes(files, {}, note_process, 2)) as opened_files:
        _, portions = next(opened_files)
        assert list(portions)
    process_ids = [int(path.stem) for path in tmp_path.glob("*.pid")]
    assert process_ids and os.getpid() not in process_ids
    for process_id in process_ids:
        with pytest.raises(ProcessLookupError):
            os.kill(process_id, 0)


def test_a_long_history_is_scanned_alike_by_one_process_and_by_several(tmp_path: Path) -> None:
    files = [_write_session(tmp_path, number, filler="The wind is steady. " * 500_000) for number in range(2)]
    findings = []
    for kind in ("full", "auto"):  # one in the background uses one process
        home = str(tmp_path / kind)
        with db.open(home) as connection:
            result = scan.scan_transcripts(home, connection, files, settings.resolve_settings({}), kind=kind)
            calls = connection.execute("select key, path, line, command, outcome from calls order by id").fetchall()
            signals = connection.execute("select key, path, signature, body from signals order by key").fetchall()
        assert result.byte_count == sum(file.unread_bytes for file in files)
        assert not result.faults
        findings.append(([tuple(call) for call in calls], [tuple(signal) for signal in signals], result.episode_count))
    assert findings[0] == findings[1]
    assert findings[0][2] == 2


def test_small_files_are_worth_no_further_process(tmp_path: Path) -> None:
    assert choose_process_count([]) == 1
    assert choose_process_count([_write_session(tmp_path, 1)]) == 1
