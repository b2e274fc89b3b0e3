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
def two_projects(house: House, tmp_path: Path) -> TwoProjects:
    return TwoProjects(house, tmp_path)


def propose_memory(two_projects: TwoProjects, text: str) -> str:
    """Propose a memory as an agent does over MCP; return the answer."""
    return two_projects.ask_mcp(two_projects.kite, "remember", type="project", text=text)


def reject_nightly(two_projects: TwoProjects) -> int:
    """Have an agent propose a statement and a person reject it; return its number."""
    assert "proposed as memory" in propose_memory(two_projects, NIGHTLY)
    [(number,)] = two_projects.rows("select id from memories where text = ?", NIGHTLY)
    two_projects.house.ok("memory", "reject", str(number), cwd=two_projects.kite)
    return int(number)


def restate_nightly(two_projects: TwoProjects) -> None:
    """Supersede the rejected statement, then restate and corroborate it by every way that an agent has."""
    two_projects.add_memory(two_projects.kite, "The staging database emerald5150 keeps its rows for a month")
    assert "refused" in propose_memory(two_projects, NIGHTLY)
    assert two_projects.house.cli("memory", "add", "project", NIGHTLY, env=AGENT, cwd=two_projects.kite).code == 1
    two_projects.work("corroborating", two_projects.kite, "corroborated", later=600)
    [observation, *_] = [
        record_id for record_id in two_projects.search(two_projects.kite, "corroborated") if record_id.startswith("O")
    ] or ["O1"]
    assert "refused" in two_projects.ask_mcp(
        two_projects.kite, "remember", type="project", text=NIGHTLY, sources=[observation]
    )
    connection = db.connect(two_projects.home)
    with pytest.raises(Exception, match="rejected"):
        memories.propose(
            connection,
            two_projects.home,
            "project",
            NIGHTLY,
            project=two_projects.kite,
            source="reflection",
            now=time(),
        )
    connection.close()
    notes = Path(two_projects.kite, "AGENTS.md")
    notes.write_text(f"# Notes\n\n- {NIGHTLY}\n")
    two_projects.house.cli("import", "notes", str(notes), env=AGENT, cwd=two_projects.kite)


def count_units(two_projects: TwoProjects, token: str = "zirkon7421") -> list[tuple[str, int]]:
    return two_projects.rows("select status, count(*) from memories where text like ? group by status", f"%{token}%")


def test_tombstone_laundering_sequence(two_projects: TwoProjects) -> None:
    number = reject_nightly(two_projects)
    two_projects.add_memory(two_projects.kite, WEEKLY)
    two_projects.work("first", two_projects.kite, "corroborated")
    two_projects.rebuild()
    restate_nightly(two_projects)
    two_projects.rebuild()
    assert count_units(two_projects) == [("rejected", 1)]
    assert two_projects.house.ok("memory", "show", str(number), "--json").json()["status"] == "rejected"
    recalled = two_projects.recall(
        two_projects.kite, "is the staging database wiped at night, and the archive backed up?"
    )
    assert "zirkon7421" not in recalled and "basalt1188" in recalled and "emerald5150" in recalled


def test_tombstone_survives_ttl_and_prune(two_projects: TwoProjects) -> None:
    reject_nightly(two_projects)
    two_projects.add_memory(two_projects.kite, WEEKLY)
    two_projects.work("first", two_projects.kite, "corroborated")
    two_projects.work("last", two_projects.kite, "corroborated", later=DAY - 3_600)
    two_projects.rebuild()
    connection = db.connect(two_projects.home)
    aged, _ = retention.enforce_limits(connection, days=0.1, max_bytes=10**9, now=time(), should_continue=lambda: True)
    pruned, _ = retention.enforce_limits(connection, days=0, max_bytes=1, now=time(), should_continue=lambda: True)
    connection.close()
    assert aged["events"] and pruned["events"]
    assert "zirkon7421" not in two_projects.recall(
        two_projects.kite, "staging database"
    ) and "refused" in propose_memory(two_projects, NIGHTLY)
    two_projects.house.ok("purge", "--older-than", "0h", "--yes")
    assert count_units(two_projects) == []
    two_projects.work("second", two_projects.kite, "corroborated", later=DAY - 60)
    two_projects.rebuild()
    restate_nightly(two_projects)
    assert count_units(two_projects) == []
    recalled = two_projects.recall(
        two_projects.kite, "is the staging database wiped at night, and the archive backed up?"
    )
    assert "zirkon7421" not in recalled and "basalt1188" in recalled


def test_tombstone_key_normalization_attack(two_projects: TwoProjects) -> None:
    """Look-alikes are refused. A paraphrase passes: it is proposed, and a person decides about it."""
    reject_nightly(two_projects)
    assert [text for text in SPELLINGS if "refused" not in propose_memory(two_projects, text)] == []
    assert two_projects.rows("select count(*) from memories") == [(1,)]
    assert "proposed as memory M2" in propose_memory(two_projects, PARAPHRASE)
    two_projects.house.ok("memory", "approve", "2", cwd=two_projects.kite)
    assert "past midnight" in two_projects.recall(two_projects.kite, "do rows survive past midnight")


EXTRACT = "use tar --extract, which is how the option is spelled"
OTHER_MISTAKE = ("tar --unpack x.tar", "tar: unrecognized option '--unpack'", "tar --extract -f x.tar")


def write_mistakes(own_home: str, project: str, *, with_other: bool) -> None:
    """Write a transcript with a mistake about git and, if asked for, one about tar."""
    transcript = TranscriptWriter(own_home, project=project).mistake()
    if with_other:
        transcript.fails(OTHER_MISTAKE[0], OTHER_MISTAKE[1]).agent("The option is spelled otherwise.").works(
            OTHER_MISTAKE[2]
        )
    transcript.write()


def test_tombstone_reextraction_stays_inactive(two_projects: TwoProjects, own_home: str) -> None:
    """The other value comes out as a candidate, since nothing is active here before a person says so."""
    for _ in range(2):
        write_mistakes(own_home, two_projects.kite, with_other=False)
    two_projects.house.ok("scan")
    two_projects.house.ok("reject", "1")
    for _ in range(2):
        write_mistakes(own_home, two_projects.kite, with_other=True)
    two_projects.house.ok("scan")
    two_projects.house.ok("scan", "--full")
    statuses = {
        "tar" if "tar" in record else "git": status
        for record, status in two_projects.rows("select record, status from candidates")
    }
    assert statuses == {"git": "rejected", "tar": "candidate"}
    assert "no lesson applies" in two_projects.ask_mcp(two_projects.kite, "lessons", command="git log --colour=always")
    [(number,)] = two_projects.rows("select number from candidates where status = 'candidate'")
    two_projects.house.ok("accept", str(number), "--solution", EXTRACT, "--confirm")
    assert "--extract" in two_projects.ask_mcp(two_projects.kite, "lessons", command="tar --unpack x.tar")
    assert "no lesson applies" in two_projects.ask_mcp(two_projects.kite, "lessons", command="git log --colour=always")


def test_tombstone_no_second_memory_unit(two_projects: TwoProjects, own_home: str) -> None:
    """A memory's restatement is refused (consulted); a mined mistake counts up on the rejected candidate (collided)."""
    for _ in range(2):
        write_mistakes(own_home, two_projects.kite, with_other=False)
    two_projects.house.ok("scan")
    two_projects.house.ok("reject", "1")
    reject_nightly(two_projects)
    two_projects.add_memory(two_projects.kite, WEEKLY)
    candidates_before = two_projects.rows("select number, status, occurrences from candidates")
    memories_before = two_projects.rows("select id, status from memories order by id")
    write_mistakes(own_home, two_projects.kite, with_other=False)
    two_projects.house.ok("scan")
    assert "was rejected already" in propose_memory(two_projects, NIGHTLY)
    candidates_after = two_projects.rows("select number, status, occurrences from candidates")
    assert [row[:2] for row in candidates_after] == [row[:2] for row in candidates_before] == [(1, "rejected")]
    assert candidates_after[0][2] >= candidates_before[0][2]
    assert two_projects.rows("select id, status from memories order by id") == memories_before
    assert "basalt1188" in two_projects.recall(two_projects.kite, "which server is backed up weekly")


def test_deletion_absent_after_reindex_and_restart(two_projects: TwoProjects, tmp_path: Path) -> None:
    house = two_projects.house
    two_projects.work("kite-1", two_projects.kite, "zirkon7421")
    two_projects.work("kite-2", two_projects.kite, "basalt1188", later=60)
    two_projects.rebuild()
    assert "zirkon7421" in house.session_start("kite-3", cwd=two_projects.kite).context
    house.ok("purge", "--text", "zirkon7421", "--yes")
    two_projects.rebuild()
    Path(two_projects.home, "worker.starts").unlink()
    house.ok("start")
    house.ok("restart")
    opening = house.session_start("kite-4", cwd=two_projects.kite).context
    house.ok("stop")
    exported = tmp_path / "after.jsonl"
    house.ok("export", "--out", str(exported))
    probes = {
        "brief": opening + two_projects.brief(two_projects.kite),
        "search": two_projects.ask_mcp(two_projects.kite, "search", query="winch", limit=200),
        "timeline": two_projects.ask_mcp(two_projects.kite, "timeline", depth_before=100),
        "export": read_text(str(exported)),
    }
    assert [name for name, text in probes.items() if "zirkon" in text] == []
    assert [name for name, text in probes.items() if "basalt1188" not in text] == []
    assert {record_id[0] for record_id in two_projects.search(two_projects.kite, "zirkon7421")} <= {"O", "S", "P", "E"}
    [deletion] = house.ok("purge", "--log", "--json").json()
    assert (deletion["path"], deletion["kind"]) == ("purge", "text")
    assert deletion["rows"]["prompts"] == 1 and deletion["rows"]["events"] == 3
    assert "zirkon" not in house.ok("purge", "--log").out


def test_every_way_of_deleting_leaves_a_line_in_the_log(two_projects: TwoProjects) -> None:
    house = two_projects.house
    for number in range(4):
        two_projects.work(f"kite-{number}", two_projects.kite, f"zirkon{number}", later=number * 60)
    memory = two_projects.add_memory(two_projects.kite, WEEKLY)
    house.ok("sessions", "delete", "kite-0", "--yes")
    house.ok("purge", "--session", "kite-1", "--yes")
    house.ok("memory", "retire", str(memory), cwd=two_projects.kite)
    connection = db.connect(two_projects.home)
    retention.enforce_limits(connection, days=0, max_bytes=1, now=time(), should_continue=lambda: True)
    connection.close()
    house.ok("purge", "--project", two_projects.kite, "--yes")
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
    output = house.ok("purge", "--log").out
    assert "sessions 1" in output and "zirkon" not in output and "kite" not in output
    house.cli("purge", "--text", "events", "--yes")  # the log has this word: it names the table
    assert len(house.ok("purge", "--log", "--json").json()) == 6


def test_deletion_absent_from_shared_copies(two_projects: TwoProjects, tmp_path: Path) -> None:
    """Copies that hardwon still has: another agent's recall, its backups, and exports that are imported again."""
    house = two_projects.house
    codex = {
        "hook_event_name": "SessionStart",
        "source": "startup",
        "cwd": two_projects.kite,
        "model": "gpt-5.5",
        "transcript_path": "/home/dev/.codex/none.jsonl",
        "permission_mode": "default",
    }
    two_projects.work("kite-1", two_projects.kite, "zirkon7421")
    two_projects.work("kite-2", two_projects.kite, "emerald5150", later=60)
    two_projects.work("kite-3", two_projects.kite, "basalt1188", later=120, host="codex")
    two_projects.rebuild()
    exported = tmp_path / "before.jsonl"
    house.ok("export", "--out", str(exported))
    house.ok("backup")
    [backup] = house.ok("restore", "--json").json()
    house.ok("purge", "--text", "zirkon7421", "--yes")
    house.ok("sessions", "delete", "kite-2", "--yes")

    def assert_absent() -> None:
        two_projects.rebuild()
        recalled = two_projects.recall(two_projects.kite, "tune the winch")
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
    two_projects.rebuild()
    assert "zirkon7421" in two_projects.recall(two_projects.kite, "tune the winch")


def test_a_rewritten_transcript_does_not_bring_back_what_was_deleted(two_projects: TwoProjects, own_home: str) -> None:
    transcripts = {
        name: TranscriptWriter(own_home, session=name, project=two_projects.kite)
        for name in ("purged", "deleted", "kept")
    }
    for name, lines in transcripts.items():
        token = {"purged": "zirkon7421", "deleted": "emerald5150", "kept": "basalt1188"}[name]
        lines.person(f"run {token}").fails(f"make {token} --fast", f"error: unknown option for {token}")
        lines.agent(f"The problem is how {token} is spelled.").works(f"make {token}").write()
    two_projects.house.ok("import", "transcripts")
    two_projects.house.ok("scan")
    two_projects.house.ok("purge", "--text", "zirkon7421", "--yes")
    two_projects.house.ok("purge", "--session", "deleted", "--yes")
    for lines in transcripts.values():
        lines.lines.insert(0, lines.lines[0])  # an agent rewrites a session when it is resumed or compacted
        lines.write()
    two_projects.house.ok("import", "transcripts")
    two_projects.house.ok("scan", "--full")
    two_projects.rebuild()
    stored = json.dumps(
        [
            two_projects.rows(f"select * from {table}")
            for table in ("prompts", "events", "calls", "signals", "transcripts")
        ]
    )
    assert "basalt1188" in stored and "zirkon7421" not in stored and "emerald5150" not in stored


def test_what_is_said_again_after_a_purge_is_new(two_projects: TwoProjects, tmp_path: Path) -> None:
    two_projects.work("kite-1", two_projects.kite, "zirkon7421")
    two_projects.house.ok("purge", "--text", "zirkon7421", "--yes")
    two_projects.work("kite-2", two_projects.kite, "zirkon7421", later=DAY + 60)
    exported = tmp_path / "after.jsonl"
    two_projects.house.ok("export", "--out", str(exported))
    two_projects.house.ok("purge", "--project", two_projects.kite, "--yes")
    two_projects.house.ok("import", "jsonl", str(exported))
    two_projects.rebuild()
    assert "zirkon7421" in two_projects.recall(two_projects.kite, "winch")


def test_correction_survives_reindex(two_projects: TwoProjects) -> None:
    """Five shapes of a correction. That something held until a day is said in words: no clock retires a memory."""
    house = two_projects.house
    replaced = two_projects.add_memory(two_projects.kite, "Postgres of the kite listens on port 5432")
    flipped = two_projects.add_memory(two_projects.kite, "Use semicolons at the ends of lines in the viewer scripts")
    retracted = two_projects.add_memory(two_projects.kite, "Deploys of quartz9 need a second pair of eyes")
    partly = two_projects.add_memory(two_projects.kite, "Ada reviews the sails and Grace reviews the rudder of topaz3")
    bounded = two_projects.add_memory(two_projects.kite, "Release notes of opal6 are written by marketing")
    slug = house.add({**GIT_STASH, "solution": "use git stash --all so that untracked files come along"})
    two_projects.rebuild()

    house.ok("memory", "edit", str(replaced), "Postgres of the kite listens on port 6543", cwd=two_projects.kite)
    added = house.ok(
        "memory",
        "add",
        "project",
        "Never use semicolons at the ends of lines in the viewer scripts",
        cwd=two_projects.kite,
    )
    assert f"M{flipped} speak against each other" in added.out
    house.ok("memory", "retire", str(flipped), cwd=two_projects.kite)
    house.ok("memory", "retire", str(retracted), cwd=two_projects.kite)
    house.ok(
        "memory",
        "edit",
        str(partly),
        "Ada reviews the sails and Linus reviews the rudder of topaz3",
        cwd=two_projects.kite,
    )
    house.ok(
        "memory",
        "edit",
        str(bounded),
        "Release notes of opal6: until 2026-10-31 marketing, since then support",
        cwd=two_projects.kite,
    )
    house.ok("lessons", "edit", slug, "--solution", "use git stash -u so that untracked files come along")

    for _ in range(2):
        two_projects.rebuild()
        for query, right, wrong in (
            ("port of Postgres", "port 6543", "port 5432"),
            ("semicolons in viewer scripts", "Never use semicolons", "project: Use semicolons"),
            ("who reviews the rudder of topaz3", "Ada reviews the sails and Linus", "Grace"),
            ("who writes release notes of opal6", "since then support", "written by marketing"),
        ):
            recalled = two_projects.recall(two_projects.kite, query)
            assert right in recalled and wrong not in recalled, (query, recalled)
        assert "quartz9" not in two_projects.recall(two_projects.kite, "second pair of eyes for deploys")
        lesson = two_projects.ask_mcp(two_projects.kite, "lessons", command="git stash")
        assert "git stash -u so" in lesson and "--all" not in lesson

    for number, earlier in (
        (replaced, "Postgres of the kite listens on port 5432"),
        (partly, "Ada reviews the sails and Grace reviews the rudder of topaz3"),
        (bounded, "Release notes of opal6 are written by marketing"),
    ):
        memory = house.ok("memory", "show", str(number), "--json").json()
        assert [wording["text"] for wording in memory["earlier"]] == [earlier]
    assert house.ok("memory", "show", str(flipped), "--json").json()["status"] == "retired"
    assert house.ok("memory", "show", str(retracted), "--json").json()["status"] == "retired"
    bodies = two_projects.rows("select body from approvals where kind = 'lesson' order by id")
    assert "stash --all" in bodies[0][0] and "stash -u" in bodies[-1][0]


def test_a_purge_takes_the_earlier_wordings_of_a_memory_along(two_projects: TwoProjects) -> None:
    two_projects.work("kite-1", two_projects.kite, "basalt1188")
    number = two_projects.add_memory(
        two_projects.kite, "Postgres listens on a port of its own:\n5432 on the machine zirkon7421"
    )
    two_projects.house.ok("memory", "edit", str(number), "Postgres listens on port 6543 here", cwd=two_projects.kite)
    two_projects.house.ok("purge", "--text", "zirkon7421", "--yes")
    memory = two_projects.house.ok("memory", "show", str(number), "--json").json()
    assert memory["earlier"] == [] and memory["text"] == "Postgres listens on port 6543 here"
    two_projects.house.ok("purge", "--project", two_projects.kite, "--yes")
    assert two_projects.rows("select body from approvals where kind = 'memory' and body != ''") == []


def test_correction_retraction_without_replacement(two_projects: TwoProjects, own_home: str) -> None:
    house = two_projects.house
    for _ in range(2):
        write_mistakes(own_home, two_projects.kite, with_other=True)
    house.ok("scan")
    candidates = {
        "tar" if "tar" in record else "git": number
        for number, record in two_projects.rows("select number, record from candidates")
    }
    house.ok("accept", str(candidates["git"]), "--confirm")
    house.ok("accept", str(candidates["tar"]), "--solution", EXTRACT, "--confirm")
    for text in (NIGHTLY, WEEKLY):
        propose_memory(two_projects, text)
    house.ok("memory", "approve", "1", "2", cwd=two_projects.kite)
    recalled = two_projects.recall(two_projects.kite, "staging database and archive server")
    assert "zirkon7421" in recalled and "basalt1188" in recalled

    house.ok("memory", "retire", "1", cwd=two_projects.kite)
    slugs = {
        lesson["slug"] for lesson in house.ok("lessons", "list", "--json").json() if "colour" in json.dumps(lesson)
    }
    house.ok("lessons", "retire", *slugs)
    for text in (NIGHTLY, WEEKLY):
        propose_memory(two_projects, text)
    write_mistakes(own_home, two_projects.kite, with_other=True)
    house.ok("scan", "--full")
    two_projects.rebuild()
    recalled = two_projects.recall(two_projects.kite, "staging database and archive server")
    assert "zirkon7421" not in recalled and "basalt1188" in recalled
    assert "no lesson applies" in two_projects.ask_mcp(two_projects.kite, "lessons", command="git log --colour=always")
    assert "--extract" in two_projects.ask_mcp(two_projects.kite, "lessons", command="tar --unpack x.tar")
