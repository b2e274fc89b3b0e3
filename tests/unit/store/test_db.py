"""Transactions end on errors, and text with surrogates is stored."""

from __future__ import annotations

import sqlite3

import pytest

from hardwon.store import db


def test_a_commit_that_fails_leaves_no_transaction_open(own_home: str) -> None:
    connection = db.connect(own_home)
    connection.executescript(
        "create table above (id integer primary key);"
        "create table below (above integer references above deferrable initially deferred)"
    )
    with pytest.raises(sqlite3.IntegrityError), db.transaction(connection):
        connection.execute("insert into below values (7)")
    with db.transaction(connection):
        connection.execute("insert into above values (1)")
    assert connection.execute("select count(*) from below").fetchone()[0] == 0
    connection.close()


def test_text_that_is_not_valid_unicode_is_stored(own_home: str) -> None:
    with db.open(own_home) as connection:
        connection.execute("create table words (word text)")
        connection.execute("insert into words values (?)", ("half \ud83d",))
        connection.execute("insert into words values (:word)", {"word": "\udcff"})
        connection.executemany("insert into words values (?)", [("first",), ("\ud83d second",), ("third",)])
        stored = db.fetch_column(connection, "select word from words order by rowid")
    assert stored == ["half ?", "?", "first", "? second", "third"]


def test_rows_after_a_surrogate_are_written_once_within_a_transaction(own_home: str) -> None:
    with db.open(own_home) as connection:
        connection.execute("create table words (word text)")
        with db.transaction(connection):
            connection.executemany("insert into words values (?)", [("first",), ("\ud83d",)])
            assert connection.in_transaction
        assert db.fetch_value(connection, "select count(*) from words") == 2


def test_a_database_is_closed_behind_its_block(own_home: str) -> None:
    with pytest.raises(RuntimeError), db.open(own_home) as connection:
        raise RuntimeError
    with pytest.raises(sqlite3.ProgrammingError):
        connection.execute("select 1")
