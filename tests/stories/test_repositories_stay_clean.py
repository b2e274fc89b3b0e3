"""Nothing is written into a repository before a person ratified it, and what is left there is named in the end."""

from __future__ import annotations

import os
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

import pytest

from hardwon import clock
from hardwon.store import db, reflections, sessions
from tests.support.handoff_drafts import AGENT, DraftWriter, create_repository, list_handoffs, run_git
from tests.support.house import House, happened, prompt, used, wait_for
from tests.support.made_up_transcripts import Transcript, build_launch_session

SESSION = "55555555-aaaa-4bbb-8ccc-000000000005"


@pytest.fixture
def repository(tmp_path: Path, own_home: str) -> Path:
    return create_repository(tmp_path / "kite", own_home)


def write_transcript(own_home: str, repository: Path, seconds_ago: float, session: str = SESSION) -> str:
    """Write the transcript of a session that ended some time ago, where Claude Code keeps them."""
    then = clock.now() - seconds_ago
    transcript: Transcript = build_launch_session(
        str(repository), session, start=f"{datetime.fromtimestamp(then - 900, UTC):%Y-%m-%dT%H:%M:%S}"
    )
    transcript.person("From now on always use pnpm, never npm.")
    transcript.agent("I will.")
    folder = Path(own_home, ".claude", "projects", "-kite")
    folder.mkdir(parents=True, exist_ok=True)
    path = transcript.write(folder)
    os.utime(path, (then, then))
    return path


def is_clean(repository: Path) -> bool:
    return run_git(repository, "status", "--porcelain", "-uall") == ""


def test_a_whole_day_leaves_the_repository_clean_until_a_person_ratifies(
    house: House, repository: Path, own_home: str
) -> None:
    house.ok("up")
    path = write_transcript(own_home, repository, seconds_ago=0)
    session_fields = {"cwd": str(repository), "transcript_path": path}
    house.session_start(SESSION, **session_fields)
    house.ask(SESSION, prompt("From now on always use pnpm, never npm.", **session_fields))
    house.ask(SESSION, used("Bash", {"command": "pnpm test"}, {"stdout": "12 passed"}, **session_fields))
    house.ask(SESSION, happened("Stop", last_assistant_message="I will.", **session_fields))
    house.ask(SESSION, prompt("now the landing", **session_fields))
    house.ask(SESSION, happened("Stop", last_assistant_message="It cuts no more.", **session_fields))
    house.ask(SESSION, happened("SessionEnd", reason="exit", **session_fields))
    wait_for(lambda: bool(list_handoffs(house, repository)))
    house.ok("handoff", "write", "go on with the landing", cwd=str(repository), env=AGENT)
    house.ok("brief", cwd=str(repository))
    house.ok("search", "landing", cwd=str(repository))
    (draft,) = list_handoffs(house, repository)
    assert is_clean(repository)
    assert os.path.dirname(draft["file"]) == os.path.join(house.home, "drafts")
    assert os.path.basename(draft["file"]).startswith(f"kite-{SESSION}")
    assert os.stat(draft["file"]).st_mode & 0o777 == 0o600
    house.ok("handoff", "ratify", str(draft["id"]), cwd=str(repository))
    changed = run_git(repository, "status", "--porcelain", "-uall").splitlines()
    assert f"?? docs/sessions/{SESSION}.md" in changed
    assert all(line.startswith(("?? docs/sessions/", "?? .claude/memory/")) for line in changed)
    assert not os.path.exists(draft["file"])


def test_a_ratified_page_goes_into_the_worktree_that_the_session_was_in(
    house: House, repository: Path, own_home: str, tmp_path: Path
) -> None:
    run_git(repository, "worktree", "add", "-q", str(tmp_path / "beside"))
    path = write_transcript(own_home, tmp_path / "beside", seconds_ago=60)
    house.ok("import", "transcripts")
    draft = house.ok("reflect", path, "--json").json()
    house.ok("handoff", "ratify", str(draft["id"]), cwd=str(repository))
    assert (tmp_path / "beside" / "docs" / "sessions" / f"{SESSION}.md").exists()
    assert not (repository / "docs").exists()


def test_the_first_up_drafts_nothing_of_the_time_before_it(house: House, repository: Path, own_home: str) -> None:
    path = write_transcript(own_home, repository, seconds_ago=7200)
    house.ok("up")
    assert house.ok("reflect", "--idle", "--json").json() == []
    house.ok("import", "transcripts")
    assert house.ok("reflect", "--idle", "--json").json() == []
    assert house.ok("reflect", path, "--json").json()["session"] == SESSION
    assert is_clean(repository)


def test_a_home_that_was_in_use_before_goes_on_drafting(house: House, repository: Path, own_home: str) -> None:
    write_transcript(own_home, repository, seconds_ago=7200)
    with closing(db.connect(house.home)) as connection:
        sessions.record_set_up_time(connection, clock.now() - 86_400)
    house.ok("config", "set", "autoReflect", "false")
    house.ok("start")
    house.ok("config", "set", "autoReflect", "true")
    house.ok("stop")
    assert len(house.ok("reflect", "--idle", "--json").json()) == 1
    assert is_clean(repository)


def test_a_draft_of_the_version_before_is_ratified_and_discarded_where_it_lies(house: House, repository: Path) -> None:
    draft_writer = DraftWriter(house, repository)
    first, second = draft_writer.write_draft("s1"), draft_writer.write_draft("s2")
    house.ok("handoff", "ratify", str(first.id), cwd=str(repository))
    house.ok("handoff", "discard", str(second.id), cwd=str(repository))
    draft_writer.connection.close()
    names = sorted(path.name for path in (repository / "docs" / "sessions").iterdir())
    assert names == ["s1.md"]


def test_a_new_draft_of_a_session_takes_the_old_one_out_of_the_repository(
    house: House, repository: Path, own_home: str
) -> None:
    draft_writer = DraftWriter(house, repository)
    draft_writer.write_draft(SESSION)
    path = write_transcript(own_home, repository, seconds_ago=60)
    report = house.ok("reflect", path, "--json").json()
    assert is_clean(repository) and report["draft"].startswith(house.home)
    house.ok("reflect", "--undo", str(report["id"]))
    assert (repository / "docs" / "sessions" / f"{SESSION}.draft.md").exists()
    assert reflections.get(draft_writer.connection, 1) is not None
    draft_writer.connection.close()


def test_leaving_for_good_names_what_is_left_in_repositories(house: House, repository: Path, own_home: str) -> None:
    draft_writer = DraftWriter(house, repository)
    old_draft, ratified = draft_writer.write_draft("s1"), draft_writer.write_draft("s2")
    house.ok("handoff", "ratify", str(ratified.id), cwd=str(repository))
    draft_writer.connection.close()
    output = house.ok("uninstall", "--all", "--data", "--yes").out
    (page,) = (repository / "docs" / "sessions").glob("s2.md")
    memories = list((repository / ".claude" / "memory").glob("*.md"))
    assert memories
    for path in (old_draft.draft, page, *memories):
        assert f"\n          {path}\n" in output
    assert "left      nothing" not in output and not os.path.exists(house.home)
    assert not Path(own_home, ".claude", "memory_queue").exists()
