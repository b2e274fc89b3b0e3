"""After a purge, a process that read the text before cannot write it again."""

from __future__ import annotations

import fcntl
import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing

import pytest

from hardwon import paths
from hardwon.actions.purge import remove_unfinished_files
from hardwon.data import backups
from hardwon.lessons import compiled_brief
from hardwon.search import brief
from hardwon.sessions import ingest
from hardwon.store import db, deletions, memories, purge
from hardwon.store.purge import PurgeTarget
from hardwon.text.brief_layout import BriefLine
from hardwon.types import Event, Memory
from tests.support.new_store import connect_to_new_store

TEXT = "quokka zanzibar pelican"
PROJECT = "/home/dev/kite"


@pytest.fixture
def home(own_home: str) -> str:
    return os.path.join(own_home, ".hardwon")


@pytest.fixture
def reader(home: str) -> Iterator[db.Connection]:
    """Open a connection that read before the purge."""
    with closing(connect_to_new_store(home)) as connection:
        yield connection


def purge_text(home: str) -> None:
    with closing(db.connect(home)) as connection:
        purge.purge_target(connection, PurgeTarget(text_pieces=(TEXT,)), (), 1.0)


def build_prompt() -> Event:
    return Event("claude-code", "UserPromptSubmit", "s1", PROJECT, id="e1", at=1.0, prompt=TEXT)


def list_prompts(connection: db.Connection) -> list[str]:
    return [row["prompt"] for row in connection.execute("select prompt from prompts")]


def test_text_read_before_a_purge_is_not_stored_after_it(home: str, reader: db.Connection) -> None:
    purge_text(home)
    with pytest.raises(db.PurgeConflict):
        ingest.commit_event(reader, build_prompt())
    assert list_prompts(reader) == []


def test_after_a_conflict_the_connection_can_store_again(home: str, reader: db.Connection) -> None:
    purge_text(home)
    with pytest.raises(db.PurgeConflict):
        ingest.commit_event(reader, build_prompt())
    ingest.commit_event(reader, build_prompt())
    assert list_prompts(reader) == [TEXT]


def test_a_preview_causes_no_conflict(home: str, reader: db.Connection) -> None:
    with closing(db.connect(home)) as connection:
        purge.preview_purge(connection, PurgeTarget(text_pieces=(TEXT,)))
    ingest.commit_event(reader, build_prompt())
    assert list_prompts(reader) == [TEXT]


def test_deleting_a_session_is_a_purge_too(home: str, reader: db.Connection) -> None:
    from hardwon.store import sessions

    ingest.commit_event(reader, build_prompt())
    with closing(db.connect(home)) as other_connection:
        sessions.delete(other_connection, other_connection.execute("select id from sessions").fetchone()[0])
    with pytest.raises(db.PurgeConflict):
        ingest.commit_event(reader, build_prompt())
    assert list_prompts(reader) == []


def test_a_brief_that_was_read_before_a_purge_is_not_written(home: str, reader: db.Connection) -> None:
    read_epoch = db.read_epoch(reader)
    purge_text(home)
    brief.store_brief(reader, home, PROJECT, [BriefLine("index", TEXT)], read_epoch)
    assert not os.path.exists(compiled_brief.get_brief_path(home, PROJECT))
    brief.store_brief(reader, home, PROJECT, [BriefLine("index", "other words")], db.read_epoch(reader))
    assert os.path.exists(compiled_brief.get_brief_path(home, PROJECT))


def test_a_brief_is_not_written_while_a_purge_is_under_way(home: str, reader: db.Connection) -> None:
    with purge.hold_purge_lock(home):
        brief.store_brief(reader, home, PROJECT, [BriefLine("index", TEXT)], db.read_epoch(reader))
    assert not os.path.exists(compiled_brief.get_brief_path(home, PROJECT))


def test_a_purge_waits_for_writers_of_files_and_copies_of_the_database(home: str, reader: db.Connection) -> None:
    for writer in (purge.hold_write_lock(home, reader, db.read_epoch(reader)), purge.hold_copy_lock(home)):
        with writer, open(os.path.join(home, purge.LOCK_FILE)) as lock, pytest.raises(BlockingIOError):
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)


def test_a_file_whose_writer_is_cut_off_leaves_nothing(home: str) -> None:
    class Ended:
        """Bytes whose writing is ended by a signal."""

        def __buffer__(self, flags: int) -> memoryview:
            raise SystemExit

        def __len__(self) -> int:
            raise SystemExit

    with pytest.raises((SystemExit, TypeError)):
        paths.write_private(os.path.join(home, "briefs", "x.txt"), Ended())  # type: ignore[arg-type]
    assert os.listdir(os.path.join(home, "briefs")) == []


def test_unfinished_files_of_dead_writers_are_removed_and_others_stay(home: str) -> None:
    dead_pid = os.fork()
    if not dead_pid:
        os._exit(0)
    os.waitpid(dead_pid, 0)
    unfinished_names = [
        f"briefs/x.txt.{dead_pid}.new",
        f"lessons.json.{dead_pid}.new",
        f"backups/.2026-01-01T000000Z.{dead_pid}.new/hardwon.db",
    ]
    kept_names = [f"briefs/x.txt.{os.getppid()}.new", "memory/a.new", "spool/1.5-abc.new"]
    for name in (*unfinished_names, *kept_names):
        paths.write_private(os.path.join(home, name), TEXT.encode())
    remove_unfinished_files(home)
    assert [name for name in (*unfinished_names, *kept_names) if os.path.exists(os.path.join(home, name))] == kept_names


def test_a_backup_of_before_a_purge_has_another_epoch_once_it_is_purged(home: str, reader: db.Connection) -> None:
    ingest.commit_event(reader, build_prompt())
    backup = backups.create_backup(home, 1.0)
    with closing(purge.open_backup(os.path.join(backup.path, "hardwon.db"), dry_run=False)) as copy:
        purge.purge_target(copy, PurgeTarget(text_pieces=(TEXT,)), (), 1.0)
        assert db.read_epoch(copy) != db.read_epoch(reader)


@pytest.mark.parametrize(
    "target",
    [
        PurgeTarget(older_than=100.0),
        PurgeTarget(session="s1"),
        PurgeTarget(project=PROJECT),
        PurgeTarget(text_pieces=(TEXT,)),
    ],
    ids=repr,
)
def test_a_purged_memory_stays_rejected_without_its_text(home: str, target: PurgeTarget) -> None:
    with closing(db.connect(home)) as connection:
        rejected = Memory(
            0, "k1", "project", f"always use {TEXT} for kites", PROJECT, "s1", "rejected", "agent", (), "", 1.0, 2.0
        )
        memories.insert_memory(connection, rejected)
        purge.purge_target(connection, target, (), 200.0)
        purge.erase_deleted_pages(connection)
        assert memories.list_memories(connection) == []
        for text in (rejected.text, rejected.text.upper(), f"for kites, use {TEXT}"):
            assert deletions.is_rejected_memory(connection, text, PROJECT), text
        assert not deletions.is_rejected_memory(connection, "boats are painted red", PROJECT)
        assert not deletions.is_rejected_memory(connection, f"never use {TEXT} for kites", PROJECT)
        assert not deletions.is_rejected_memory(connection, rejected.text, "/home/dev/boat")
    with open(os.path.join(home, "hardwon.db"), "rb") as file:
        assert not any(word.encode() in file.read() for word in (*TEXT.split(), PROJECT))


def test_a_rejected_candidate_stays_rejected_without_its_signature(home: str, reader: db.Connection) -> None:
    with db.transaction(reader):
        deletions.store_candidate_trace(reader, f"git log {TEXT}")
    assert deletions.is_rejected_candidate(reader, f"git log {TEXT}")
    assert not deletions.is_rejected_candidate(reader, "git log")
    assert TEXT.split()[0] not in str([tuple(row) for row in reader.execute("select * from rejections")])


def test_a_connection_that_ignores_the_epoch_writes_after_a_purge(home: str) -> None:
    with closing(db.connect(home, ignore_epoch=True)) as worker:
        purge_text(home)
        ingest.commit_event(worker, build_prompt())
        assert list_prompts(worker) == [TEXT]


def test_an_epoch_is_rolled_back_with_the_purge(home: str, reader: db.Connection) -> None:
    epoch_before = db.read_epoch(reader)
    with closing(sqlite3.connect(os.path.join(home, "hardwon.db"), isolation_level=None)) as other_connection:
        other_connection.execute("begin immediate")
        db.begin_epoch(other_connection)
        other_connection.execute("rollback")
    assert db.read_epoch(reader) == epoch_before
