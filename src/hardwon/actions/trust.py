"""Trust the lessons that a repository carries, and revoke that trust."""

from __future__ import annotations

from hardwon.actions import approvals
from hardwon.errors import UserError
from hardwon.lessons import manifest, trust_file
from hardwon.store.approvals import TRUST
from hardwon.store.db import Connection


def trust_project(home: str, connection: Connection, project: str, content: bytes, now: float) -> None:
    """Use a repository's lessons as they were shown; a change to the file waits until it is trusted again."""
    approvals.ensure_upgraded(home, connection, now)
    trusted_hashes = trust_file.read_trusted_hashes(home)
    trusted_hashes[project] = trust_file.hash_bytes(content)
    trust_file.write_trusted_hashes(home, trusted_hashes)
    approvals.record_trust(connection, project, trusted_hashes[project], now)
    manifest.build(home, now)


def revoke_trust(home: str, connection: Connection, project: str, now: float) -> None:
    approvals.ensure_upgraded(home, connection, now)
    trusted_hashes = trust_file.read_trusted_hashes(home)
    if trusted_hashes.pop(project, None) is None:
        raise UserError(f"{project} is not trusted", "hardwon trust --list")
    trust_file.write_trusted_hashes(home, trusted_hashes)
    approvals.withdraw(connection, TRUST, project, now)
    manifest.build(home, now)
