"""Acceptance tests for memory systems, second part: rejections, corrections and deletions that hold."""

from __future__ import annotations

import json
from pathlib import Path
from time import time

import pytest

from hardwon.memories import memories
from hardwon.store import db, retention
from tests.support.claude_transcript import TranscriptWriter
from tests.support.distilled_store import DAY
from tests.support.house import GIT_STASH, House
from tests.support.text_files import read_text
from tests.support.two_projects import AGENT, TwoProjects

NIGHTLY = "The staging database zirkon7421 is wiped every night"
WEEKLY = "The archive server basalt1188 is backed up weekly"
SPELLINGS = (
    NIGHTLY.upper(),
    NIGHTLY.replace(" ", "   ") + " \n",
    NIGHTLY.replace("a", "а"),
    NIGHTLY.replace("o", "ο"),
    NIGHTLY.replace("staging", "sta\u200bging"),
    NIGHTLY.replace("staging", "ｓｔａｇｉｎｇ"),
    NIGHTLY.replace("wiped", "wi\u00adped"),
    NIGHTLY.replace(" every", "\u00a0every"),
    f"{NIGHTLY}.",
)
PARAPHRASE = "Rows in zirkon7421 do not survive past midnight, so seed it again each morning"


@pytest.fixture
def both(house: House, tmp_path: Path) -> TwoProjects:
    return TwoProjects(house, tmp_path)


def propose(both: TwoProjects, text: str) -> str:
    """Propose a memory as an agent does over MCP; return the answer."""
    return both.ask_mcp(both.kite, "remember", type="project", text=text)


def reject_nightly(both: TwoProjects) -> int:
    """Have an agent propose a statement and a person reject it; return its number."""
    assert "proposed as memory" in propose(both, NIGHTLY)
    [(number,)] = both.rows("select id from memories where text = ?", NIGHTLY)
    both.house.ok("memory", "reject", str(number), cwd=both.kite)
    return int(number)


def restate_nightly(both: TwoProjects) -> None:
    """Supersede the rejected statement, then restate and corroborate it by every way that an agent has."""
    both.add_memory(both.kite, "The staging database emerald5150 keeps its rows for a month")
    assert "refused" in propose(both, NIGHTLY)
    assert both.house.cli("memory", "add", "project", NIGHTLY, env=AGENT, cwd=both.kite).code == 1
    both.work("corroborating", both.kite, "corroborated", later=600)
    [observation, *_] = [id for id in both.search(both.kite, "corroborated") if id.startswith("O")] or ["O1"]
    assert "refused" in both.ask_mcp(both.kite, "remember", type="project", text=NIGHTLY, sources=[observation])
    connection = db.connect(both.home)
    with pytest.raises(Exception, match="rejected"):
        memories.propose(connection, both.home, "project", NIGHTLY, project=both.kite, source="reflection", now=time())
    connection.close()
    notes = Path(both.kite, "AGENTS.md")
    notes.write_text(f"# Notes\n\n- {NIGHTLY}\n")
    both.house.cli("import", "notes", str(notes), env=AGENT, cwd=both.kite)


def count_units(both: TwoProjects, token: str = "zirkon7421") -> list[tuple[str, int]]:
    return both.rows("select status, count(*) from memories where text like ? group by status", f"%{token}%")


def test_tombstone_laundering_sequence(both: TwoProjects) -> None:
    number = reject_nightly(both)
    both.add_memory(both.kite, WEEKLY)
    both.work("first", both.kite, "corroborated")
    both.rebuild()
    restate_nightly(both)
    both.rebuild()
    assert count_units(both) == [("rejected", 1)]
    assert both.house.ok("memory", "show", str(number), "--json").json()["status"] == "rejected"
    recalled = both.recall(both.kite, "is the staging database wiped at night, and the archive backed up?")
    assert "zirkon7421" not in recalled and "basalt1188" in recalled and "emerald5150" in recalled


def test_tombstone_survives_ttl_and_prune(both: TwoProjects) -> None:
    reject_nightly(both)
    both.add_memory(both.kite, WEEKLY)
    both.work("first", both.kite, "corroborated")
    both.work("last", both.kite, "corroborated", later=DAY - 3_600)
    both.rebuild()
    connection = db.connect(both.home)
    aged, _ = retention.enforce_limits(connection, days=0.1, max_bytes=10**9, now=time(), should_continue=lambda: True)
    pruned, _ = retention.enforce_limits(connection, days=0, max_bytes=1, now=time(), should_continue=lambda: True)
    connection.close()
    assert aged["events"] and pruned["events"]
    assert "zirkon7421" not in both.recall(both.kite, "staging database") and "refused" in propose(both, NIGHTLY)
    both.house.ok("purge", "--older-than", "0h", "--yes")
    assert count_units(both) == []
    both.work("second", both.kite, "corroborated", later=DAY - 60)
    both.rebuild()
    restate_nightly(both)
    assert count_units(both) == []
    recalled = both.recall(both.kite, "is the staging database wiped at night, and the archive backed up?")
    assert "zirkon7421" not in recalled and "basalt1188" in recalled


def test_tombstone_key_normalization_attack(both: TwoProjects) -> None:
    """Look-alikes are refused. A paraphrase passes: it is proposed, and a person decides about it."""
    reject_nightly(both)
    assert [text for text in SPELLINGS if "refused" not in propose(both, text)] == []
    assert both.rows("select count(*) from memories") == [(1,)]
    assert "proposed as memory M2" in propose(both, PARAPHRASE)
    both.house.ok("memory", "approve", "2", cwd=both.kite)
    assert "past midnight" in both.recall(both.kite, "do rows survive past midnight")


EXTRACT = "use tar --extract, which is how the option is spelled"
OTHER_MISTAKE = ("tar --unpack x.tar", "tar: unrecognized option '--unpack'", "tar --extract -f x.tar")


def teach(own_home: str, project: str, *, with_other: bool) -> None:
    """Write a transcript with a mistake that git made known, and one that tar did."""
    told = TranscriptWriter(own_home, project=project).mistake()
    if with_other:
        told.fails(OTHER_MISTAKE[0], OTHER_MISTAKE[1]).agent("The option is spelled otherwise.").works(OTHER_MISTAKE[2])
    told.write()


def test_tombstone_reextraction_stays_inactive(both: TwoProjects, own_home: str) -> None:
    """The other value comes out as a candidate, since nothing is active here before a person says so."""
    for _ in range(2):
        teach(own_home, both.kite, with_other=False)
    both.house.ok("scan")
    both.house.ok("reject", "1")
    for _ in range(2):
        teach(own_home, both.kite, with_other=True)
    both.house.ok("scan")
    both.house.ok("scan", "--full")
    statuses = {
        "tar" if "tar" in record else "git": status
        for record, status in both.rows("select record, status from candidates")
    }
    assert statuses == {"git": "rejected", "tar": "candidate"}
    assert "no lesson applies" in both.ask_mcp(both.kite, "lessons", command="git log --colour=always")
    [(number,)] = both.rows("select number from candidates where status = 'candidate'")
    both.house.ok("accept", str(number), "--solution", EXTRACT, "--confirm")
    assert "--extract" in both.ask_mcp(both.kite, "lessons", command="tar --unpack x.tar")
    assert "no lesson applies" in both.ask_mcp(both.kite, "lessons", command="git log --colour=always")


def test_tombstone_no_second_memory_unit(both: TwoProjects, own_home: str) -> None:
    """A memory's restatement is refused (consulted); a mined mistake counts up on the rejected candidate (collided)."""
    for _ in range(2):
        teach(own_home, both.kite, with_other=False)
    both.house.ok("scan")
    both.house.ok("reject", "1")
    reject_nightly(both)
    both.add_memory(both.kite, WEEKLY)
    before = both.rows("select number, status, occurrences from candidates")
    memories_before = both.rows("select id, status from memories order by id")
    teach(own_home, both.kite, with_other=False)
    both.house.ok("scan")
    assert "was rejected already" in propose(both, NIGHTLY)
    after = both.rows("select number, status, occurrences from candidates")
    assert [row[:2] for row in after] == [row[:2] for row in before] == [(1, "rejected")]
    assert after[0][2] >= before[0][2]
    assert both.rows("select id, status from memories order by id") == memories_before
    assert "basalt1188" in both.recall(both.kite, "which server is backed up weekly")


def test_deletion_absent_after_reindex_and_restart(both: TwoProjects, tmp_path: Path) -> None:
    house = both.house
    both.work("kite-1", both.kite, "zirkon7421")
    both.work("kite-2", both.kite, "basalt1188", later=60)
    both.rebuild()
    assert "zirkon7421" in house.session_start("kite-3", cwd=both.kite).context
    house.ok("purge", "--text", "zirkon7421", "--yes")
    both.rebuild()
    Path(both.home, "worker.starts").unlink()
    house.ok("start")
    house.ok("restart")
    opening = house.session_start("kite-4", cwd=both.kite).context
    house.ok("stop")
    exported = tmp_path / "after.jsonl"
    house.ok("export", "--out", str(exported))
    probes = {
        "brief": opening + both.brief(both.kite),
        "search": both.ask_mcp(both.kite, "search", query="winch", limit=200),
        "timeline": both.ask_mcp(both.kite, "timeline", depth_before=100),
        "export": read_text(str(exported)),
    }
    assert [name for name, text in probes.items() if "zirkon" in text] == []
    assert [name for name, text in probes.items() if "basalt1188" not in text] == []
    assert {id[0] for id in both.search(both.kite, "zirkon7421")} <= {"O", "S", "P", "E"}
    [deletion] = house.ok("purge", "--log", "--json").json()
    assert (deletion["path"], deletion["kind"]) == ("purge", "text")
    assert deletion["rows"]["prompts"] == 1 and deletion["rows"]["events"] == 3
    assert "zirkon" not in house.ok("purge", "--log").out


def test_every_way_of_deleting_leaves_a_line_in_the_log(both: TwoProjects) -> None:
    house = both.house
    for number in range(4):
        both.work(f"kite-{number}", both.kite, f"zirkon{number}", later=number * 60)
    memory = both.add_memory(both.kite, WEEKLY)
    house.ok("sessions", "delete", "kite-0", "--yes")
    house.ok("purge", "--session", "kite-1", "--yes")
    house.ok("memory", "retire", str(memory), cwd=both.kite)
    connection = db.connect(both.home)
    retention.enforce_limits(connection, days=0, max_bytes=1, now=time(), should_continue=lambda: True)
    connection.close()
    house.ok("purge", "--project", both.kite, "--yes")
    log = house.ok("purge", "--log", "--json").json()
    paths = [(line["path"], line["kind"]) for line in reversed(log)]
    assert paths == [
        ("sessions delete", "session"),
        ("purge", "session"),
        ("memory retire", "memory"),
        ("retention", "age or size"),
        ("purge", "project"),
    ]
    assert all(line["rows"] for line in log)
    shown = house.ok("purge", "--log").out
    assert "sessions 1" in shown and "zirkon" not in shown and "kite" not in shown
    house.cli("purge", "--text", "events", "--yes")  # the log has this word: it names the table
    assert len(house.ok("purge", "--log", "--json").json()) == 6


def test_deletion_absent_from_shared_copies(both: TwoProjects, tmp_path: Path) -> None:
    """Copies that hardwon still has: another agent's recall, its backups, and exports that are imported again."""
    house = both.house
    codex = {
        "hook_event_name": "SessionStart",
        "source": "startup",
        "cwd": both.kite,
        "model": "gpt-5.5",
        "transcript_path": "/home/dev/.codex/none.jsonl",
        "permission_mode": "default",
    }
    both.work("kite-1", both.kite, "zirkon7421")
    both.work("kite-2", both.kite, "emerald5150", later=60)
    both.work("kite-3", both.kite, "basalt1188", later=120, host="codex")
    both.rebuild()
    exported = tmp_path / "before.jsonl"
    house.ok("export", "--out", str(exported))
    house.ok("backup")
    [backup] = house.ok("restore", "--json").json()
    house.ok("purge", "--text", "zirkon7421", "--yes")
    house.ok("sessions", "delete", "kite-2", "--yes")

    def assert_absent() -> None:
        both.rebuild()
        recalled = both.recall(both.kite, "tune the winch")
        assert "zirkon" not in recalled and "emerald" not in recalled and "basalt1188" in recalled
        opening = house.hook(
            "SessionStart", json.dumps({**codex, "session_id": f"codex-{time()}"}).encode(), host="codex"
        )
        assert b"basalt1188" in opening and b"zirkon" not in opening and b"emerald" not in opening

    assert_absent()
    imported = house.ok("import", "jsonl", str(exported), "--json").json()
    assert imported["deleted"] > 5 and imported["faults"] == []
    assert_absent()
    restored = house.ok("restore", backup["name"], "--yes").out
    assert "1 session deleted since" in restored
    assert_absent()
    assert house.ok("import", "jsonl", str(exported), "--json").json()["deleted"] > 5
    assert_absent()
    as_agent = house.cli("import", "jsonl", str(exported), "--restore-deleted", env=AGENT)
    assert as_agent.code == 1 and "person" in as_agent.err
    assert_absent()
    house.ok("import", "jsonl", str(exported), "--restore-deleted")
    both.rebuild()
    assert "zirkon7421" in both.recall(both.kite, "tune the winch")


def test_a_rewritten_transcript_does_not_bring_back_what_was_deleted(both: TwoProjects, own_home: str) -> None:
    told = {name: TranscriptWriter(own_home, session=name, project=both.kite) for name in ("purged", "deleted", "kept")}
    for name, lines in told.items():
        token = {"purged": "zirkon7421", "deleted": "emerald5150", "kept": "basalt1188"}[name]
        lines.person(f"run {token}").fails(f"make {token} --fast", f"error: unknown option for {token}")
        lines.agent(f"The problem is how {token} is spelled.").works(f"make {token}").write()
    both.house.ok("import", "transcripts")
    both.house.ok("scan")
    both.house.ok("purge", "--text", "zirkon7421", "--yes")
    both.house.ok("purge", "--session", "deleted", "--yes")
    for lines in told.values():
        lines.lines.insert(0, lines.lines[0])  # an agent rewrites a session when it is resumed or compacted
        lines.write()
    both.house.ok("import", "transcripts")
    both.house.ok("scan", "--full")
    both.rebuild()
    stored = json.dumps(
        [both.rows(f"select * from {table}") for table in ("prompts", "events", "calls", "signals", "transcripts")]
    )
    assert "basalt1188" in stored and "zirkon7421" not in stored and "emerald5150" not in stored


def test_what_is_said_again_after_a_purge_is_new(both: TwoProjects, tmp_path: Path) -> None:
    both.work("kite-1", both.kite, "zirkon7421")
    both.house.ok("purge", "--text", "zirkon7421", "--yes")
    both.work("kite-2", both.kite, "zirkon7421", later=DAY + 60)
    exported = tmp_path / "after.jsonl"
    both.house.ok("export", "--out", str(exported))
    both.house.ok("purge", "--project", both.kite, "--yes")
    both.house.ok("import", "jsonl", str(exported))
    both.rebuild()
    assert "zirkon7421" in both.recall(both.kite, "winch")


def test_correction_survives_reindex(both: TwoProjects) -> None:
    """Five shapes of a correction. That something held until a day is said in words: no clock retires a memory."""
    house = both.house
    replaced = both.add_memory(both.kite, "Postgres of the kite listens on port 5432")
    flipped = both.add_memory(both.kite, "Use semicolons at the ends of lines in the viewer scripts")
    retracted = both.add_memory(both.kite, "Deploys of quartz9 need a second pair of eyes")
    partly = both.add_memory(both.kite, "Ada reviews the sails and Grace reviews the rudder of topaz3")
    bounded = both.add_memory(both.kite, "Release notes of opal6 are written by marketing")
    slug = house.add({**GIT_STASH, "solution": "use git stash --all so that untracked files come along"})
    both.rebuild()

    house.ok("memory", "edit", str(replaced), "Postgres of the kite listens on port 6543", cwd=both.kite)
    added = house.ok(
        "memory", "add", "project", "Never use semicolons at the ends of lines in the viewer scripts", cwd=both.kite
    )
    assert f"M{flipped} speak against each other" in added.out
    house.ok("memory", "retire", str(flipped), cwd=both.kite)
    house.ok("memory", "retire", str(retracted), cwd=both.kite)
    house.ok(
        "memory", "edit", str(partly), "Ada reviews the sails and Linus reviews the rudder of topaz3", cwd=both.kite
    )
    house.ok(
        "memory",
        "edit",
        str(bounded),
        "Release notes of opal6: until 2026-10-31 marketing, since then support",
        cwd=both.kite,
    )
    house.ok("lessons", "edit", slug, "--solution", "use git stash -u so that untracked files come along")

    for _ in range(2):
        both.rebuild()
        for query, right, wrong in (
            ("port of Postgres", "port 6543", "port 5432"),
            ("semicolons in viewer scripts", "Never use semicolons", "project: Use semicolons"),
            ("who reviews the rudder of topaz3", "Ada reviews the sails and Linus", "Grace"),
            ("who writes release notes of opal6", "since then support", "written by marketing"),
        ):
            recalled = both.recall(both.kite, query)
            assert right in recalled and wrong not in recalled, (query, recalled)
        assert "quartz9" not in both.recall(both.kite, "second pair of eyes for deploys")
        lesson = both.ask_mcp(both.kite, "lessons", command="git stash")
        assert "git stash -u so" in lesson and "--all" not in lesson

    for number, earlier in (
        (replaced, "Postgres of the kite listens on port 5432"),
        (partly, "Ada reviews the sails and Grace reviews the rudder of topaz3"),
        (bounded, "Release notes of opal6 are written by marketing"),
    ):
        shown = house.ok("memory", "show", str(number), "--json").json()
        assert [wording["text"] for wording in shown["earlier"]] == [earlier]
    assert house.ok("memory", "show", str(flipped), "--json").json()["status"] == "retired"
    assert house.ok("memory", "show", str(retracted), "--json").json()["status"] == "retired"
    bodies = both.rows("select body from approvals where kind = 'lesson' order by id")
    assert "stash --all" in bodies[0][0] and "stash -u" in bodies[-1][0]


def test_a_purge_takes_the_earlier_wordings_of_a_memory_along(both: TwoProjects) -> None:
    both.work("kite-1", both.kite, "basalt1188")
    number = both.add_memory(both.kite, "Postgres listens on a port of its own:\n5432 on the machine zirkon7421")
    both.house.ok("memory", "edit", str(number), "Postgres listens on port 6543 here", cwd=both.kite)
    both.house.ok("purge", "--text", "zirkon7421", "--yes")
    shown = both.house.ok("memory", "show", str(number), "--json").json()
    assert shown["earlier"] == [] and shown["text"] == "Postgres listens on port 6543 here"
    both.house.ok("purge", "--project", both.kite, "--yes")
    assert both.rows("select body from approvals where kind = 'memory' and body != ''") == []


def test_correction_retraction_without_replacement(both: TwoProjects, own_home: str) -> None:
    house = both.house
    for _ in range(2):
        teach(own_home, both.kite, with_other=True)
    house.ok("scan")
    candidates = {
        "tar" if "tar" in record else "git": number
        for number, record in both.rows("select number, record from candidates")
    }
    house.ok("accept", str(candidates["git"]), "--confirm")
    house.ok("accept", str(candidates["tar"]), "--solution", EXTRACT, "--confirm")
    for text in (NIGHTLY, WEEKLY):
        propose(both, text)
    house.ok("memory", "approve", "1", "2", cwd=both.kite)
    recalled = both.recall(both.kite, "staging database and archive server")
    assert "zirkon7421" in recalled and "basalt1188" in recalled

    house.ok("memory", "retire", "1", cwd=both.kite)
    slugs = {
        lesson["slug"] for lesson in house.ok("lessons", "list", "--json").json() if "colour" in json.dumps(lesson)
    }
    house.ok("lessons", "retire", *slugs)
    for text in (NIGHTLY, WEEKLY):
        propose(both, text)
    teach(own_home, both.kite, with_other=True)
    house.ok("scan", "--full")
    both.rebuild()
    recalled = both.recall(both.kite, "staging database and archive server")
    assert "zirkon7421" not in recalled and "basalt1188" in recalled
    assert "no lesson applies" in both.ask_mcp(both.kite, "lessons", command="git log --colour=always")
    assert "--extract" in both.ask_mcp(both.kite, "lessons", command="tar --unpack x.tar")
