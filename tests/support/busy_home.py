"""A made-up home in which much has happened: for the viewer's tests and pictures."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from typing import Any

from hardwon import clock
from hardwon.actions.approvals import open_decider
from hardwon.actions.lessons import add_lesson
from hardwon.shell import failures
from hardwon.store import candidates, db, jobs, observations, runs, sessions, transcripts
from hardwon.store.approvals import COMMAND_LINE
from hardwon.store.candidates import Candidate, Judgement
from hardwon.store.events import Report, find_or_create_project, insert_deliveries, store_report
from hardwon.store.transcripts import Portion, ScannedCall
from hardwon.types import Delivery, Observation, ReadPosition, Summary
from tests.support import busy_home_records

DAY = 86_400.0
HOSTILE = (
    "<script>document.title='owned'</script>\"'><img src=x onerror=document.title='owned'>\u202egnp.exe\u200b\x1b[31m"
)
LONG = "x" * 1_000_000
_NAMES = ("kite", "harbour", "tide-tables", "lighthouse")
_CALLS = (
    ("Bash", {"command": "git stash && git pull --rebase"}, "fine", "Saved working directory"),
    ("Bash", {"command": "npm test -- --watch=false"}, "failed", 'npm error Missing script: "test"'),
    ("Edit", {"file_path": "/home/dev/kite/src/wind.py", "new_string": "def gust(): ..."}, "fine", "edited"),
    ("Bash", {"command": "pytest tests/test_wind.py -q"}, "failed", "E   ModuleNotFoundError: No module named 'wind'"),
    ("Read", {"file_path": "/home/dev/kite/README.md"}, "fine", "# kite"),
    (
        "Bash",
        {"command": "docker compose up -d"},
        "failed",
        "Cannot connect to the Docker daemon at unix:///var/run/docker.sock",
    ),
)
_PROMPTS = (
    "Make the kite fly higher in light wind, and add a test for gusts",
    "The harbour map is drawn twice on narrow screens. Find out why.",
    "Rename tide() to tide_at() everywhere",
    "Why does the lighthouse blink too fast after midnight?",
)
STASH: dict[str, Any] = {
    "id": "01STASH0000000000000000000",
    "slug": "git-stash-leaves-untracked-files",
    "summary": "git stash leaves untracked files behind",
    "problem": "git stash only stashes tracked files; untracked ones stay where they are",
    "solution": "use git stash -u to keep untracked files as well",
    "delivery": "hold",
    "priority": 8,
    "tags": ["tool:git"],
    "triggers": {"toolNames": ["Bash"], "commandPatterns": [r"\bgit stash\b(?!.* -u)"]},
    "unless": [r"stash (list|pop)"],
    "evidence": [
        {
            "path": "/home/dev/.claude/projects/kite/one.jsonl",
            "line": 12,
            "kind": "error",
            "quote": "untracked files remain",
        }
    ],
}
DOCKER: dict[str, Any] = {
    "slug": "docker-needs-its-daemon",
    "summary": "docker compose fails here: no daemon runs in the container",
    "problem": "the container has no docker daemon and never will",
    "solution": "use make services instead, which talks to the host",
    "delivery": "note",
    "priority": 6,
    "triggers": {"toolNames": ["Bash"], "commandPatterns": [r"\bdocker compose\b"]},
}


def fill(home: str, now: float, *, count: int = 12, hostile: bool = False) -> None:
    """Store sessions, candidates, lessons and deliveries; if `hostile`, with hostile text in every text field."""
    connection = db.connect(home)
    decider = open_decider(home, connection, COMMAND_LINE)
    stash = add_lesson(decider, STASH)
    docker = add_lesson(decider, DOCKER)
    if hostile:
        hostile_lesson = {
            **DOCKER,
            "slug": "hostile-lesson",
            "summary": f"{HOSTILE}"[:110],
            "problem": HOSTILE + " other words one",
            "solution": HOSTILE + " two",
            "triggers": {"toolNames": ["Bash"], "commandPatterns": ["<script>"]},
        }
        add_lesson(decider, hostile_lesson)
    for number in range(count):
        _store_session(connection, number, now - (count - 1 - number) * DAY / 3 - 600, hostile)
        lesson = stash if number % 2 else docker
        slug, summary = (lesson.slug, lesson.summary) if not hostile else (HOSTILE, HOSTILE)
        at = now - (count - 1 - number) * DAY / 3 - 598.5
        delivery = Delivery(
            f"d{number}",
            at,
            "claude-code",
            f"session-{number:04}",
            "",
            "PreToolUse",
            "Bash",
            lesson.id,
            slug,
            summary,
            lesson.delivery,
        )
        insert_deliveries(connection, [delivery])
    _store_candidates(connection, now, hostile)
    _store_runs(connection, now)
    busy_home_records.fill(connection, home, now, HOSTILE if hostile else "")
    with db.transaction(connection):
        jobs.enqueue(connection, "distil", 1, priority=0, now=now)
    connection.close()


def _store_session(connection: db.Connection, number: int, at: float, hostile: bool) -> None:
    name, text = _NAMES[number % len(_NAMES)], HOSTILE if hostile else ""
    cwd = f"/home/dev/{name}"
    fields: dict[str, Any] = {
        "host": "claude-code",
        "session": f"session-{number:04}",
        "cwd": cwd,
        "transcript": f"/home/dev/.claude/projects/{name}/{number}.jsonl",
    }
    with db.transaction(connection):
        project = find_or_create_project(connection, f"{cwd}{text}", "", at)
        for key, kind, more in _build_reports(number, at, text + (LONG if hostile else "")):
            store_report(connection, Report(key=f"{number}-{key}", kind=kind, project=project, **fields, **more))
    (row,) = sessions.find_by_name(connection, fields["session"])[:1]
    observation = Observation(
        f"o{number}",
        at + 30,
        "bugfix",
        text + ("The gust test failed because wind was not on the path" if not hostile else LONG),
        subtitle=f"{text}src/ was missing from PYTHONPATH",
        narrative=f"{text}pytest could not import wind until src/ was put on the path.",
        facts=(f"{text}pytest.ini sets no pythonpath", "src/wind.py holds gust()"),
        files_modified=(f"{cwd}/pytest.ini",),
        tokens=900,
    )
    with db.transaction(connection):
        observations.store_observations(connection, row["id"], 1, [observation])
    if number % 2:
        summary = Summary(
            f"s{number}",
            at + 60,
            f"{text}fly higher in light wind",
            "looked at wind.py",
            "src/ must be on the path",
            "gusts are tested",
            "tune the tail",
        )
        observations.replace_summary(connection, row["id"], summary)


def _build_reports(number: int, at: float, text: str) -> Sequence[tuple[str, str, dict[str, Any]]]:
    reports: list[tuple[str, str, dict[str, Any]]] = [
        ("start", "SessionStart", {"at": at, "response": "startup"}),
        ("prompt", "UserPromptSubmit", {"at": at + 1, "prompt": f"{text}{_PROMPTS[number % len(_PROMPTS)]}"}),
    ]
    for position, (tool, arguments, outcome, output) in enumerate(_CALLS):
        answer, tool_input = f"{text}{output}", {**arguments, **({"description": text} if text else {})}
        line = failures.find_failure_line(answer[:2000], is_shell=tool == "Bash") if outcome == "failed" else ""
        command = str(tool_input.get("command", ""))
        signature = (
            failures.build_signature(tool, command, failures.classify_failure(answer[:2000], line, command), line)
            if line
            else ""
        )
        call = {
            "at": at + 2 + position,
            "tool": tool,
            "tool_use_id": f"toolu_{number}_{position}",
            "outcome": outcome,
            "signature": signature,
        }
        reports.append(
            (
                f"call{position}",
                "tool",
                {**call, "input": json.dumps(tool_input), "response": answer, "duration": 1400.0 * position},
            )
        )
    reports.append(
        ("stop", "Stop", {"at": at + 20, "response": f"{text}Gusts are tested now; the kite climbs in light wind."})
    )
    if number % 3:
        reports.append(("end", "SessionEnd", {"at": at + 25, "reason": "exit"}))
    return reports


def build_candidate(number: int, now: float, **changes: Any) -> Candidate:
    """Return a valid candidate that resembles no other."""
    unlike = " ".join(f"{word}{number}" for word in ("sail", "mast", "keel", "helm", "rope", "tar"))
    record = {
        "summary": f"pip install breaks the system packages ({number})",
        "problem": f"pip refuses in an externally managed environment {unlike}",
        "solution": f"make a venv first: python3 -m venv .venv {unlike[::-1]}",
        "triggers": {"toolNames": ["Bash"], "commandPatterns": [rf"^pip install thing{number}\b"]},
        "delivery": "hold",
        "scope": {"type": "global"},
        "priority": 7,
        "confidence": 0.55,
        "tags": ["tool:pip"],
        "evidence": [
            {
                "path": "/home/dev/.claude/projects/kite/7.jsonl",
                "line": 40 + number,
                "kind": "error",
                "quote": "error: externally-managed-environment\n× This environment is externally managed",
            },
            {
                "path": "/home/dev/.claude/projects/kite/7.jsonl",
                "line": 44 + number,
                "kind": "correction",
                "quote": "python3 -m venv .venv && .venv/bin/pip install thing",
            },
        ],
    }
    record |= changes
    return Candidate(
        0,
        f"01CANDIDATE{number:015}",
        f"pip-install-{number}",
        f"pip environment {number}",
        2,
        "candidate",
        0.9 - number / 100,
        {"about": 0.35, "cure": 0.3, "attempts": 0.15, "recurs": 0.1},
        3 + number,
        ("session-0001", "session-0002"),
        ("/home/dev/kite",),
        record,
        found_at=now,
    )


def _store_candidates(connection: db.Connection, now: float, hostile: bool) -> None:
    """Store candidates, a judgement by a reader, and the calls that their triggers are tried on."""
    hostile_fields: dict[str, Any] = {}
    if hostile:
        hostile_fields = {
            "summary": HOSTILE,
            "problem": f"{HOSTILE} the cause of it",
            "solution": f"{HOSTILE} the way around it",
        }
        hostile_fields["evidence"] = [{"path": HOSTILE, "line": 1, "kind": "error", "quote": HOSTILE + LONG}]
    found_candidates = [
        build_candidate(number, now, **(hostile_fields if number == 1 else {})) for number in range(1, 5)
    ]
    candidates.store_candidates(connection, found_candidates, weighed_signatures=())
    first = candidates.list_candidates(connection)[0]
    body = {
        "why": f"{HOSTILE if hostile else ''}it cost an hour twice",
        "solution": "make a venv before any pip install",
    }
    candidates.store_judgements(connection, [Judgement(first.number, now, "claude", "lesson", body)])
    calls = tuple(
        ScannedCall(
            f"claude-code:{n}",
            "claude-code",
            "session-0001",
            "/home/dev/kite",
            clock.format_iso(now),
            "/home/dev/.claude/projects/kite/7.jsonl",
            n,
            "Bash",
            f"pip install thing1 --now-{n}",
            "",
            "",
            "failed" if n % 3 else "fine",
        )
        for n in range(9)
    )
    transcripts.store_portions(
        connection, [Portion("/home/dev/.claude/projects/kite/7.jsonl", "claude-code", ReadPosition(), calls)], now
    )


def _store_runs(connection: db.Connection, now: float) -> None:
    caps = {"runsPerDay": 20, "tokensPerDay": 100_000, "dollarsPerDay": 1.0, "reflectionsPerDay": 1}
    for days_ago in range(9, -1, -1):
        at = now - days_ago * DAY
        for number in range(3):
            booking = runs.book(
                connection,
                purpose="refine",
                provider="anthropic",
                model="small",
                project="/home/dev/kite",
                session=1,
                estimate_in=9000,
                estimate_out=900,
                estimate_cost=0.05,
                caps=caps,
                now=at + number,
            )
            if booking.id:
                runs.settle(
                    connection,
                    booking.id,
                    tokens_in=4000 + 900 * days_ago,
                    tokens_out=600,
                    tokens_cached=0,
                    cost=0.02 * (days_ago + 1),
                    duration=2.0,
                    outcome="fine",
                )


def find_first_ids(home: str) -> dict[str, int]:
    """Return the ids of a session with a summary, of a failed call in it, and of memories and handoffs."""
    connection = db.connect(home)
    (session,) = sessions.find_by_name(connection, "session-0001")[:1]
    events = [
        event
        for event in sessions.list_events_after(connection, after_id=0, limit=100)
        if event["session"] == "session-0001"
    ]
    record_ids = busy_home_records.find_first_ids(connection)
    connection.close()
    failed = next(event["id"] for event in events if event["outcome"] == "failed")
    return {"session": session["id"], "event": failed, **record_ids}


def write_transcript(home: str) -> str:
    """Write a transcript with the ids of the first session's calls beside the home; return its path."""
    path = os.path.join(os.path.dirname(home), "made-up.jsonl")
    with open(path, "w") as file:
        file.writelines(f'{{"type": "assistant", "id": "toolu_0_{position}"}}\n' for position in range(len(_CALLS)))
    return path
