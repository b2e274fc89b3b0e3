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


def found(house: House, **more: Any) -> list[dict[str, Any]]:
    """Every candidate, without what is drawn by lot or goes by the order of finding."""
    listed = house.ok("scan", "candidates", "--all", "--json", **more).json()["candidates"]
    listed.sort(key=lambda one: str(one["problem"]))
    return [{key: value for key, value in item.items() if key not in _VARIES} for item in listed]


def counts(house: House) -> list[tuple[int, int]]:
    return [(one["occurrenceCount"], one["sessionCount"]) for one in found(house)]


def in_one_go(path: str, tmp_path: Any) -> list[dict[str, Any]]:
    """What a scan finds that sees the file only as it is now."""
    fresh = House(str(tmp_path / "fresh"))
    fresh.ok("scan", "--path", path, env={"HARDWON_HOME": fresh.home})
    return found(fresh, env={"HARDWON_HOME": fresh.home})


def long_day(home: str, **more: str) -> TranscriptWriter:
    told = TranscriptWriter(home, **more).person("show me the log")
    for number in range(4):
        told.fails(f"npm run build{number} --mode=fast", f"error: unknown option '--mode' in step{'abcd'[number]}")
        told.works("ls src", "main.ts")
        told.works(f"npm run build{number} --profile=fast")
    return told.mistake()


def test_an_error_in_one_scan_meets_its_correction_in_the_next(house: House, own_home: str, tmp_path: Any) -> None:
    told = long_day(own_home)
    for upto in range(1, len(told.lines) + 1):
        path = told.write(upto=upto)
        if upto % 3 == 0:
            house.ok("scan")
    house.ok("scan")
    assert found(house) == in_one_go(path, tmp_path)
    assert "git log --color=always" in json.dumps(found(house))


def test_a_line_that_is_half_written_is_read_when_it_is_whole(house: House, own_home: str, tmp_path: Any) -> None:
    told = long_day(own_home)
    whole, path = told.text(), told.write()
    for size in (len(whole) - 300, len(whole) - 20, len(whole) - 1, len(whole)):
        with open(path, "wb") as file:
            file.write(whole[:size])
        house.ok("scan")
    assert found(house) == in_one_go(path, tmp_path)
    assert house.ok("scan", "state", "--json").json() | {"lastScanAt": ""} == {
        "files": {path: len(whole)},
        "lastFullScanAt": house.ok("scan", "state", "--json").json()["lastFullScanAt"],
        "lastScanAt": "",
        "malformed": 0,
    }


def test_a_last_line_without_an_end_counts_and_lines_after_it_keep_their_numbers(house: House, own_home: str) -> None:
    told = TranscriptWriter(own_home).person("go")
    path = told.write()
    with open(path, "rb+") as file:
        file.truncate(os.path.getsize(path) - 1)
    house.ok("scan")
    told.mistake().write()
    house.ok("scan")
    assert [evidence_item["line"] for evidence_item in found(house)[0]["evidence"]] == [3, 4, 5]


@pytest.mark.parametrize("end", [b"\n", b"\r\n"])
def test_bytes_that_are_no_text_and_other_line_ends_hurt_nobody(house: House, own_home: str, end: bytes) -> None:
    told = TranscriptWriter(own_home).mistake()
    path = told.write()
    lines = told.text().splitlines()
    broken = [b"\xff\xfe not json", b'{"type": "user", "message"', b"", lines[0].replace(b"git log", b"git \xff log")]
    with open(path, "wb") as file:
        file.write(end.join([*broken, *lines]) + end)
    said = house.ok("scan", "--json").json()
    assert (said["malformed"], len(said["candidates"])) == (2, 1)
    assert [evidence_item["line"] for evidence_item in said["candidates"][0]["evidence"]] == [6, 7, 8]


def test_a_transcript_cut_short_is_read_anew_and_counts_once(house: House, own_home: str) -> None:
    told = long_day(own_home)
    told.write()
    house.ok("scan")
    before = found(house)
    path = told.write(upto=9)
    house.ok("scan")
    assert found(house) == before
    assert house.ok("scan", "state", "--json").json()["files"] == {path: os.path.getsize(path)}


def test_a_transcript_written_anew_is_read_anew_and_counts_once(house: House, own_home: str) -> None:
    told = TranscriptWriter(own_home).mistake()
    told.write()
    house.ok("scan")
    told.lines.insert(0, {"type": "summary", "summary": "what was before", "leafUuid": "u-0"})
    told.fails("cargo build --fast", "error: unexpected argument '--fast' found").works("cargo build --release").write()
    house.ok("scan")
    assert sorted(counts(house)) == [(1, 1), (1, 1)]
    spoken = next(one for one in found(house) if "colour" in one["problem"])
    assert [evidence_item["line"] for evidence_item in spoken["evidence"]] == [3, 4, 5]


def test_a_transcript_written_anew_with_the_same_size_is_noticed(house: House, own_home: str) -> None:
    told = TranscriptWriter(own_home).works("git log --colour=always").works("git log --color=always")
    path = told.write()
    house.ok("scan")
    told.lines[1]["message"]["content"][0] |= {"content": UNKNOWN, "is_error": True}
    told.lines[0]["padding"] = ""
    spare = len(told.text()) - os.path.getsize(path)
    told.lines[1]["message"]["content"][0]["content"] = UNKNOWN[: len(UNKNOWN) - spare]
    told.write()
    assert os.path.getsize(path) == len(told.text())
    house.ok("scan")
    assert counts(house) == [(1, 1)]


def test_a_transcript_that_was_moved_counts_once_and_is_found_where_it_is(house: House, own_home: str) -> None:
    path = TranscriptWriter(own_home).mistake().write()
    house.ok("scan")
    moved = path.replace(".jsonl", "-old.jsonl")
    os.rename(path, moved)
    fresh = TranscriptWriter(own_home).person("a new one under the old name")
    fresh.path = path
    fresh.write()
    house.ok("scan")
    assert counts(house) == [(1, 1)]
    assert {evidence_item["path"] for evidence_item in found(house)[0]["evidence"]} == {moved}


def test_a_copy_of_a_session_counts_once(house: House, own_home: str) -> None:
    told = long_day(own_home)
    path = told.write()
    fork = path.replace(told.session, "forked")
    with open(fork, "wb") as file:
        file.write(told.text().replace(told.session.encode(), b"forked"))
    house.ok("scan")
    assert set(counts(house)) == {(1, 1)}


def test_four_scans_at_once_find_what_one_finds(house: House, own_home: str, tmp_path: Any) -> None:
    for number in range(12):
        long_day(own_home, session=f"day-{number}").write()
    command = [sys.executable, "-m", "hardwon", "scan"]
    scans = [subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) for _ in range(4)]
    for each in scans:
        out, err = each.communicate()
        assert each.returncode == 0, (out, err)
    folder = os.path.join(own_home, ".claude", "projects")
    assert found(house) == in_one_go(folder, tmp_path)
    assert {one["sessionCount"] for one in found(house)} == {12}


def wait_and_kill(process: subprocess.Popen[bytes], seconds: float) -> None:
    time.sleep(seconds)
    process.send_signal(signal.SIGKILL)
    process.communicate()


def test_a_scan_killed_at_any_point_goes_on_where_it_stopped(house: House, own_home: str, tmp_path: Any) -> None:
    for number in range(60):
        long_day(own_home, session=f"day-{number:02d}").write()
    command = [sys.executable, "-m", "hardwon", "scan"]
    for step in range(12):
        scan = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        wait_and_kill(scan, 0.15 + step * 0.04)
    house.ok("scan")
    folder = os.path.join(own_home, ".claude", "projects")
    assert found(house) == in_one_go(folder, tmp_path)


def test_a_transcript_that_cannot_be_read_stops_nobody(house: House, own_home: str) -> None:
    path = TranscriptWriter(own_home, session="a-first").mistake().write()
    TranscriptWriter(own_home, session="b-second").mistake().write()
    shutil.copy(path, path + ".copy.jsonl")
    os.remove(path)
    os.symlink("/nowhere", path)
    os.makedirs(path.replace("a-first", "c-folder"))
    said = house.ok("scan", "--json").json()
    assert len(said["candidates"]) == 1


def test_scanning_again_finds_nothing_new(house: House, own_home: str) -> None:
    long_day(own_home).write()
    house.ok("scan")
    before = found(house)
    again = house.ok("scan", "--json").json()
    assert (again["files"], again["bytes"], again["candidates"], found(house)) == (0, 0, [], before)
    full = house.ok("scan", "--full", "--json").json()
    assert (full["files"], full["candidates"], found(house)) == (1, [], before)


def test_what_was_found_is_still_found_in_its_transcript_after_reading_it_anew(house: House, own_home: str) -> None:
    path = long_day(own_home).write()
    house.ok("scan")
    house.ok("scan", "--full")
    assert {row["path"] for row in house.stored("signals")} == {path}
    shutil.copy(path, f"{path}.new")
    os.replace(f"{path}.new", path)
    house.ok("scan")
    shown = house.ok("review", "--json").json()["candidates"]
    assert shown and all(episode["steps"] for one in shown for episode in one["episodes"])


def test_what_does_not_fit_into_one_scan_comes_in_the_next(house: House, own_home: str) -> None:
    house.ok("config", "set", "maxCandidatesPerScan", "2")
    long_day(own_home).write()
    totals = []
    for _ in range(4):
        house.ok("scan")
        totals.append(len(found(house)))
    assert (totals[:2], totals[-1]) == ([2, 4], totals[-2])
    listed = house.ok("scan", "candidates", "--all", "--json").json()["candidates"]
    scores = [item["score"] for item in listed]
    assert scores == sorted(scores, reverse=True)
