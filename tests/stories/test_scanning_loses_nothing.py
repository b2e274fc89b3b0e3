"""Transcripts grow, break, move and are copied while they are read: nothing is lost, nothing is counted twice."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from typing import Any

import pytest

from tests.support.claude_transcript import UNKNOWN, TranscriptWriter
from tests.support.house import House

_VARIES = ("index", "id", "slug")


def list_candidates(house: House, **more: Any) -> list[dict[str, Any]]:
    """Return every candidate without random fields and those that depend on the order of finding."""
    listed = house.ok("scan", "candidates", "--all", "--json", **more).json()["candidates"]
    listed.sort(key=lambda candidate: str(candidate["problem"]))
    return [{key: value for key, value in item.items() if key not in _VARIES} for item in listed]


def list_counts(house: House) -> list[tuple[int, int]]:
    return [(candidate["occurrenceCount"], candidate["sessionCount"]) for candidate in list_candidates(house)]


def scan_at_once(path: str, tmp_path: Any) -> list[dict[str, Any]]:
    """Return what a scan finds that sees only the final file."""
    fresh = House(str(tmp_path / "fresh"))
    fresh.ok("scan", "--path", path, env={"HARDWON_HOME": fresh.home})
    return list_candidates(fresh, env={"HARDWON_HOME": fresh.home})


def build_long_session(home: str, **more: str) -> TranscriptWriter:
    transcript = TranscriptWriter(home, **more).person("show me the log")
    for number in range(4):
        transcript.fails(
            f"npm run build{number} --mode=fast", f"error: unknown option '--mode' in step{'abcd'[number]}"
        )
        transcript.works("ls src", "main.ts")
        transcript.works(f"npm run build{number} --profile=fast")
    return transcript.mistake()


def test_an_error_in_one_scan_meets_its_correction_in_the_next(house: House, own_home: str, tmp_path: Any) -> None:
    transcript = build_long_session(own_home)
    for upto in range(1, len(transcript.lines) + 1):
        path = transcript.write(upto=upto)
        if upto % 3 == 0:
            house.ok("scan")
    house.ok("scan")
    assert list_candidates(house) == scan_at_once(path, tmp_path)
    assert "git log --color=always" in json.dumps(list_candidates(house))


def test_a_line_that_is_half_written_is_read_when_it_is_whole(house: House, own_home: str, tmp_path: Any) -> None:
    transcript = build_long_session(own_home)
    content, path = transcript.text(), transcript.write()
    for size in (len(content) - 300, len(content) - 20, len(content) - 1, len(content)):
        with open(path, "wb") as file:
            file.write(content[:size])
        house.ok("scan")
    assert list_candidates(house) == scan_at_once(path, tmp_path)
    assert house.ok("scan", "state", "--json").json() | {"lastScanAt": ""} == {
        "files": {path: len(content)},
        "lastFullScanAt": house.ok("scan", "state", "--json").json()["lastFullScanAt"],
        "lastScanAt": "",
        "malformed": 0,
    }


def test_a_last_line_without_an_end_counts_and_lines_after_it_keep_their_numbers(house: House, own_home: str) -> None:
    transcript = TranscriptWriter(own_home).person("go")
    path = transcript.write()
    with open(path, "rb+") as file:
        file.truncate(os.path.getsize(path) - 1)
    house.ok("scan")
    transcript.mistake().write()
    house.ok("scan")
    assert [evidence_item["line"] for evidence_item in list_candidates(house)[0]["evidence"]] == [3, 4, 5]


@pytest.mark.parametrize("end", [b"\n", b"\r\n"])
def test_invalid_bytes_and_other_line_endings_are_tolerated(house: House, own_home: str, end: bytes) -> None:
    transcript = TranscriptWriter(own_home).mistake()
    path = transcript.write()
    lines = transcript.text().splitlines()
    broken = [b"\xff\xfe not json", b'{"type": "user", "message"', b"", lines[0].replace(b"git log", b"git \xff log")]
    with open(path, "wb") as file:
        file.write(end.join([*broken, *lines]) + end)
    report = house.ok("scan", "--json").json()
    assert (report["malformed"], len(report["candidates"])) == (2, 1)
    assert [evidence_item["line"] for evidence_item in report["candidates"][0]["evidence"]] == [6, 7, 8]


def test_a_transcript_cut_short_is_read_anew_and_counts_once(house: House, own_home: str) -> None:
    transcript = build_long_session(own_home)
    transcript.write()
    house.ok("scan")
    candidates_before = list_candidates(house)
    path = transcript.write(upto=9)
    house.ok("scan")
    assert list_candidates(house) == candidates_before
    assert house.ok("scan", "state", "--json").json()["files"] == {path: os.path.getsize(path)}


def test_a_transcript_written_anew_is_read_anew_and_counts_once(house: House, own_home: str) -> None:
    transcript = TranscriptWriter(own_home).mistake()
    transcript.write()
    house.ok("scan")
    transcript.lines.insert(0, {"type": "summary", "summary": "what was before", "leafUuid": "u-0"})
    transcript.fails("cargo build --fast", "error: unexpected argument '--fast' found").works(
        "cargo build --release"
    ).write()
    house.ok("scan")
    assert sorted(list_counts(house)) == [(1, 1), (1, 1)]
    spoken = next(candidate for candidate in list_candidates(house) if "colour" in candidate["problem"])
    assert [evidence_item["line"] for evidence_item in spoken["evidence"]] == [3, 4, 5]


def test_a_transcript_written_anew_with_the_same_size_is_noticed(house: House, own_home: str) -> None:
    transcript = TranscriptWriter(own_home).works("git log --colour=always").works("git log --color=always")
    path = transcript.write()
    house.ok("scan")
    transcript.lines[1]["message"]["content"][0] |= {"content": UNKNOWN, "is_error": True}
    transcript.lines[0]["padding"] = ""
    spare = len(transcript.text()) - os.path.getsize(path)
    transcript.lines[1]["message"]["content"][0]["content"] = UNKNOWN[: len(UNKNOWN) - spare]
    transcript.write()
    assert os.path.getsize(path) == len(transcript.text())
    house.ok("scan")
    assert list_counts(house) == [(1, 1)]


def test_a_transcript_that_was_moved_counts_once_and_is_found_where_it_is(house: House, own_home: str) -> None:
    path = TranscriptWriter(own_home).mistake().write()
    house.ok("scan")
    moved = path.replace(".jsonl", "-old.jsonl")
    os.rename(path, moved)
    fresh = TranscriptWriter(own_home).person("a new one under the old name")
    fresh.path = path
    fresh.write()
    house.ok("scan")
    assert list_counts(house) == [(1, 1)]
    assert {evidence_item["path"] for evidence_item in list_candidates(house)[0]["evidence"]} == {moved}


def test_a_copy_of_a_session_counts_once(house: House, own_home: str) -> None:
    transcript = build_long_session(own_home)
    path = transcript.write()
    fork = path.replace(transcript.session, "forked")
    with open(fork, "wb") as file:
        file.write(transcript.text().replace(transcript.session.encode(), b"forked"))
    house.ok("scan")
    assert set(list_counts(house)) == {(1, 1)}


def test_four_scans_at_once_find_what_one_finds(house: House, own_home: str, tmp_path: Any) -> None:
    for number in range(12):
        build_long_session(own_home, session=f"day-{number}").write()
    command = [sys.executable, "-m", "hardwon", "scan"]
    scans = [subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) for _ in range(4)]
    for process in scans:
        out, err = process.communicate()
        assert process.returncode == 0, (out, err)
    folder = os.path.join(own_home, ".claude", "projects")
    assert list_candidates(house) == scan_at_once(folder, tmp_path)
    assert {candidate["sessionCount"] for candidate in list_candidates(house)} == {12}


def wait_and_kill(process: subprocess.Popen[bytes], seconds: float) -> None:
    time.sleep(seconds)
    process.send_signal(signal.SIGKILL)
    process.communicate()


def test_a_scan_killed_at_any_point_goes_on_where_it_stopped(house: House, own_home: str, tmp_path: Any) -> None:
    for number in range(60):
        build_long_session(own_home, session=f"day-{number:02d}").write()
    command = [sys.executable, "-m", "hardwon", "scan"]
    for step in range(12):
        scan = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        wait_and_kill(scan, 0.15 + step * 0.04)
    house.ok("scan")
    folder = os.path.join(own_home, ".claude", "projects")
    assert list_candidates(house) == scan_at_once(folder, tmp_path)


def test_a_transcript_that_cannot_be_read_does_not_stop_the_scan(house: House, own_home: str) -> None:
    path = TranscriptWriter(own_home, session="a-first").mistake().write()
    TranscriptWriter(own_home, session="b-second").mistake().write()
    shutil.copy(path, path + ".copy.jsonl")
    os.remove(path)
    os.symlink("/nowhere", path)
    os.makedirs(path.replace("a-first", "c-folder"))
    report = house.ok("scan", "--json").json()
    assert len(report["candidates"]) == 1


def test_scanning_again_finds_nothing_new(house: House, own_home: str) -> None:
    build_long_session(own_home).write()
    house.ok("scan")
    candidates_before = list_candidates(house)
    second = house.ok("scan", "--json").json()
    assert (second["files"], second["bytes"], second["candidates"], list_candidates(house)) == (
        0,
        0,
        [],
        candidates_before,
    )
    full = house.ok("scan", "--full", "--json").json()
    assert (full["files"], full["candidates"], list_candidates(house)) == (1, [], candidates_before)


def test_what_was_found_is_still_found_in_its_transcript_after_reading_it_anew(house: House, own_home: str) -> None:
    path = build_long_session(own_home).write()
    house.ok("scan")
    house.ok("scan", "--full")
    assert {row["path"] for row in house.stored("signals")} == {path}
    shutil.copy(path, f"{path}.new")
    os.replace(f"{path}.new", path)
    house.ok("scan")
    reader_candidates = house.ok("review", "--json").json()["candidates"]
    assert reader_candidates and all(
        episode["steps"] for candidate in reader_candidates for episode in candidate["episodes"]
    )


def test_what_does_not_fit_into_one_scan_comes_in_the_next(house: House, own_home: str) -> None:
    house.ok("config", "set", "maxCandidatesPerScan", "2")
    build_long_session(own_home).write()
    totals = []
    for _ in range(4):
        house.ok("scan")
        totals.append(len(list_candidates(house)))
    assert (totals[:2], totals[-1]) == ([2, 4], totals[-2])
    listed = house.ok("scan", "candidates", "--all", "--json").json()["candidates"]
    scores = [item["score"] for item in listed]
    assert scores == sorted(scores, reverse=True)
