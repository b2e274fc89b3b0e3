"""This machine's replica of a team's log: write records, take in those of others, and tell what is missing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from hardwon.store import team_log
from hardwon.store.db import Connection, transaction
from hardwon.team.record import (
    COUNTS,
    ERASE,
    OWN_KINDS,
    CheckedBatch,
    Content,
    KnownChains,
    MachineKey,
    Position,
    Record,
    Vector,
    check_batch,
    encode_body,
    find_known_positions,
    from_wire,
    parse_body,
    select_bodies,
    sign_record,
    to_wire,
)
from hardwon.team.state import ERASED, TeamState, compute_state

MAX_RECORDS_PER_MESSAGE = 500  # a server takes twice as many, since evidence of forks is added


@dataclass(frozen=True, slots=True)
class Message:
    """Records on their way, with the bodies that the sender has."""

    records: tuple[Record, ...]
    bodies: Mapping[str, str]


class Replica:
    """The log of one team in this machine's database."""

    def __init__(self, connection: Connection, team: str) -> None:
        self._connection = connection
        self._team = team

    def list_records(self) -> list[Record]:
        return [Record(*row) for row in team_log.list_records(self._connection, self._team)]

    def read_vector(self) -> Vector:
        return team_log.read_vector(self._connection, self._team)

    def read_forks(self) -> dict[str, int]:
        return team_log.read_forks(self._connection, self._team)

    def read_state(self) -> TeamState:
        """Evaluate the whole log as this machine has it; a record whose body was erased counts without its content."""
        records = self.list_records()
        bodies = team_log.read_bodies(self._connection, [record.body_hash for record in records])
        contents = {}
        for body_hash, body in bodies.items():
            content = parse_body(body)
            if content:
                contents[body_hash] = content
        return compute_state(records, contents, self.read_forks())

    def append(
        self, key: MachineKey, kind: str, subject: str, content: Content, parents: Sequence[str] | None = None
    ) -> Record:
        """Write the next record of this machine; its parents are the newest ones here unless they are given."""
        body = encode_body(content)
        with transaction(self._connection):
            # Read in the transaction that writes: two processes of this machine must not use one number twice.
            last_row = team_log.find_last_record(self._connection, self._team, key.machine)
            previous = Record(*last_row) if last_row else None
            if parents is None:
                parents = () if kind in OWN_KINDS else self.read_state().find_heads(subject)
            record = sign_record(key, self._team, previous, kind, subject, tuple(parents), body)
            self._insert([record], {record.body_hash: body})
        return record

    def receive(self, message: Message) -> CheckedBatch:
        """Take in what is sound of a message; machines that forked are quarantined from the fork on."""
        with transaction(self._connection):
            known = self._read_known_chains(message)
            # A quarantined machine's records still arrive, since a lower fork may show up; they just do not count.
            # Whoever sent this has checked every signature, and hashes chain: the last one of a machine is enough.
            batch = check_batch(
                self._team,
                message.records,
                message.bodies,
                known,
                quarantined=(),
                senders={record.writer for record in message.records},
            )
            for writer, record in batch.forks.items():
                evidence = orjson.dumps(to_wire(record)).decode()
                team_log.insert_fork(self._connection, self._team, writer, record.sequence, evidence)
            # A body may arrive after its record, when an earlier sender did not have it.
            self._insert(batch.new_records, select_bodies(message.records, message.bodies))
        return batch

    def _read_known_chains(self, message: Message) -> KnownChains:
        """Return what is known here of the chains that a message continues: their ends, hashes and public keys.

        A writer of whom nothing is here yet is missing.
        """
        vector: Vector = {}
        public_keys = {}
        for writer in {record.writer for record in message.records}:
            head = team_log.find_head(self._connection, self._team, writer)
            if head is None:
                continue
            vector[writer] = head
            first_body = team_log.find_first_body(self._connection, self._team, writer)
            if public_key := parse_body(first_body).get("public_key"):
                public_keys[writer] = str(public_key)
        hashes: dict[Position, str] = {}
        for writer, sequence in find_known_positions(message.records, vector):
            if known_hash := team_log.find_hash(self._connection, self._team, writer, sequence):
                hashes[writer, sequence] = known_hash
        return KnownChains(vector, hashes, public_keys)

    def _insert(self, records: Sequence[Record], bodies: Mapping[str, str]) -> None:
        team_log.insert_records(self._connection, records)
        team_log.insert_bodies(self._connection, bodies)
        self._delete_erased_bodies()

    def _delete_erased_bodies(self) -> None:
        """Delete the texts of erased subjects, also those that arrive after the erasure."""
        # Evaluating the whole log for every message is slow, and most teams never erase.
        if not team_log.has_kind(self._connection, self._team, ERASE):
            return
        records = self.list_records()
        state = self.read_state()
        erased_subjects = {subject.name for subject in state.subjects.values() if subject.status == ERASED}
        erased_bodies = [record.body_hash for record in records if record.subject in erased_subjects]
        team_log.delete_bodies(self._connection, erased_bodies)

    def read_last_totals(self, writer: str) -> dict[str, Any]:
        """Return by subject the counts that a machine reported last."""
        records = [record for record in self.list_records() if record.writer == writer and record.kind == COUNTS]
        bodies = team_log.read_bodies(self._connection, [record.body_hash for record in records])
        totals = {}
        for record in records:  # in the order in which they were written, so the last report stays
            content = parse_body(bodies.get(record.body_hash, ""))
            totals[record.subject] = content.get("totals")
        return totals

    def list_fork_evidence(self) -> list[Record]:
        """Return the second record of each quarantined machine, which convinces others that it forked."""
        evidence = team_log.list_fork_evidence(self._connection, self._team)
        return [from_wire(orjson.loads(text)) for text in evidence]

    def select_after(self, starts: Mapping[str, int]) -> Message:
        """Return the records of these machines, of each after its number, up to a limit."""
        records: list[Record] = []
        for writer, start in sorted(starts.items()):
            room = MAX_RECORDS_PER_MESSAGE - len(records)
            if room <= 0:
                break
            rows = team_log.list_records_after(self._connection, self._team, writer, start, room)
            records += [Record(*row) for row in rows]
        bodies = team_log.read_bodies(self._connection, [record.body_hash for record in records])
        return Message(tuple(records), bodies)
