"""A transaction ends, whatever happens in it."""

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
