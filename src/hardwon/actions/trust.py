"""Trusting the lessons that a repository carries, and no longer."""

from __future__ import annotations

from hardwon.actions import approvals
from hardwon.errors import UserError
from hardwon.lessons import manifest, trust_file
from hardwon.store.approvals import TRUST
from hardwon.store.db import Connection


def trust_project(home: str, connection: Connection, project: str, content: bytes, now: float) -> None:
    """Use a repository's lessons as they were shown; a change to the file waits until it is trusted again."""
    approvals.upgrade(home, connection, now)
    known = trust_file.trusted(home)
    known[project] = trust_file.hash_of(content)
    trust_file.keep(home, known)
    approvals.record_trust(connection, project, known[project], now)
    manifest.build(home, now)


def revoke_trust(home: str, connection: Connection, project: str, now: float) -> None:
    approvals.upgrade(home, connection, now)
    known = trust_file.trusted(home)
    if known.pop(project, None) is None:
        raise UserError(f"{project} is not trusted", "hardwon trust --list")
    trust_file.keep(home, known)
    approvals.withdraw(connection, TRUST, project, now)
    manifest.build(home, now)
