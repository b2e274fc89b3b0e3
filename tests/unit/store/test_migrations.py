"""A home that an earlier release made is opened, brought up to date, and loses nothing."""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing

from hardwon import paths
from hardwon.store import db
from hardwon.store.migrations import LATEST_VERSION

_SCRIPT = os.path.join(os.path.dirname(__file__), "home_of_0_1_0.sql")


def _make_old_home(home: str) -> None:
    with closing(sqlite3.connect(os.path.join(home, paths.DATABASE))) as connection, open(_SCRIPT) as script:
        connection.executescript(script.read())


def _read_schema(connection: db.Connection) -> dict[str, object]:
    names = db.fetch_column(connection, "select name from sqlite_master where name not like 'sqlite_%' order by name")
    columns = {name: db.fetch_dicts(connection, f"pragma table_info('{name}')") for name in names}
    triggers = connection.execute("select name, sql from sqlite_master where type in ('trigger', 'index')").fetchall()
    return columns | {name: " ".join(str(sql).split()) for name, sql in triggers}


def test_a_home_of_0_1_0_gets_the_schema_of_a_new_one(own_home: str, tmp_path: os.PathLike[str]) -> None:
    _make_old_home(own_home)
    with db.open(own_home) as migrated, db.open(os.path.join(tmp_path, "new")) as fresh:
        assert db.read_schema_version(migrated) == db.read_schema_version(fresh) == LATEST_VERSION
        assert _read_schema(migrated) == _read_schema(fresh)


def test_a_home_of_0_1_0_keeps_its_rows(own_home: str) -> None:
    _make_old_home(own_home)
    with db.open(own_home) as connection:
        for table in ("projects", "sessions", "prompts", "events", "observations", "summaries", "memories", "calls"):
            assert db.fetch_value(connection, f"select count(*) from {table}") == 1, table
        assert db.fetch_value(connection, "select path from observation_files") == "login.py"
        # 0.1.0 stored a denied call as passed, so the turn is distilled again; the home counts as set up long ago.
        assert db.fetch_column(connection, "select number from turns") == []
        assert db.fetch_value(connection, "select print from summaries") == ""
        assert db.fetch_value(connection, "select at from set_up") == 0.0
