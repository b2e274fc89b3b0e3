"""Check records that arrive, for a replica and for the server alike."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from hardwon.team.record import (
    FOUND,
    JOIN,
    MAX_BODY_BYTES,
    BadRecord,
    Record,
    check_link,
    compute_hash,
    derive_machine_id,
    hash_body,
    is_signed_by,
    parse_body,
)

HASH_PREFIX_CHARS = 16  # enough to tell two branches apart, and vectors are long
Vector = dict[str, tuple[int, str]]  # for each machine the number and hash of its last record
Position = tuple[str, int]  # a machine and the number of one of its records


@dataclass(frozen=True, slots=True)
class KnownChains:
    """What the receiver has of the chains in question.

    `hashes` has those of records that arrive again, and of the ones before them; `public_keys` is by machine.
    """

    vector: Vector
    hashes: Mapping[Position, str]
    public_keys: Mapping[str, str]


@dataclass(slots=True)
class CheckedBatch:
    """The outcome of a check: records to store, forked machines, what is refused and why."""

    new_records: list[Record] = field(default_factory=list)
    forks: dict[str, Record] = field(default_factory=dict)  # the first record of the other branch
    refused: dict[str, str] = field(default_factory=dict)  # by machine
    public_keys: dict[str, str] = field(default_factory=dict)


def check_batch(
    team: str,
    records: Iterable[Record],
    bodies: Mapping[str, str],
    known: KnownChains,
    quarantined: Iterable[str],
    senders: Collection[str] = (),
) -> CheckedBatch:
    """Check records against the chains that are known; each machine's records count up to its first fault.

    Of the machines in `senders` only the last signature is checked: its hash covers all records before it. The server
    does so for a machine's own records, where a wrong signature in between harms nobody but the writer; records of
    others it checks one by one, since whoever passes them on could have spoilt a signature.
    """
    batch = CheckedBatch(public_keys=dict(known.public_keys))
    vector, hashes = dict(known.vector), dict(known.hashes)
    skipped_machines = set(quarantined)
    # In the order of each chain, because every record is checked against the one before it.
    for record in sorted(records, key=lambda record: (record.writer, record.sequence, record.hash)):
        if record.writer in skipped_machines:
            continue
        position = (record.writer, record.sequence)
        known_hash = hashes.get(position)
        if known_hash == record.hash:
            continue  # it came before, over another way
        try:
            if known_hash is not None:
                previous_hash = hashes.get((record.writer, record.sequence - 1), "")
                _check_fork(record, previous_hash, batch.public_keys.get(record.writer, ""), bodies, team)
                batch.forks[record.writer] = record
                skipped_machines.add(record.writer)
                continue
            check_link(record, *vector.get(record.writer, (0, "")), team)
            public_key = batch.public_keys.get(record.writer) or _read_public_key(record, bodies)
            if record.writer not in senders and not is_signed_by(record, public_key):
                raise BadRecord(f"record {record.sequence} of {record.writer} has a wrong signature")
        except BadRecord as error:
            batch.refused[record.writer] = str(error)
            skipped_machines.add(record.writer)
            continue
        batch.public_keys[record.writer] = public_key
        # The next record of the batch must follow this one.
        vector[record.writer] = (record.sequence, record.hash)
        hashes[position] = record.hash
        batch.new_records.append(record)
    last_records = {record.writer: record for record in batch.new_records if record.writer in senders}
    for writer, record in last_records.items():
        if not is_signed_by(record, batch.public_keys[writer]):
            batch.new_records = [record for record in batch.new_records if record.writer != writer]
            batch.refused[writer] = f"record {record.sequence} of {writer} has a wrong signature"
    return batch


def _check_fork(record: Record, previous_hash: str, public_key: str, bodies: Mapping[str, str], team: str) -> None:
    """Raise BadRecord unless the machine itself signed this second record under a number that is taken.

    Without this check anybody could have a machine quarantined by sending rubbish in its name. The hash is computed
    from the record before it, because a signature of another record would fit a copied hash.
    """
    public_key = public_key or _read_public_key(record, bodies)
    is_own_hash = record.team == team and compute_hash(record, previous_hash) == record.hash
    if not is_own_hash or not is_signed_by(record, public_key):
        raise BadRecord(f"record {record.sequence} of {record.writer} is not the one that is known")


def _read_public_key(record: Record, bodies: Mapping[str, str]) -> str:
    """Return the key that a machine's first record carries."""
    if record.sequence != 1 or record.kind not in (FOUND, JOIN):
        raise BadRecord(f"the first record of {record.writer} is missing")
    public_key = parse_body(bodies.get(record.body_hash, "")).get("public_key")
    try:
        if isinstance(public_key, str) and derive_machine_id(public_key) == record.writer:
            return public_key
    except ValueError:
        pass  # not hexadecimal
    raise BadRecord(f"the first record of {record.writer} does not carry its key")


def find_known_positions(records: Iterable[Record], vector: Mapping[str, tuple[int, str]]) -> set[Position]:
    """Return the positions of records that arrive again, and those before them, whose hashes a check needs."""
    positions: set[Position] = set()
    for record in records:
        last_sequence, _ = vector.get(record.writer, (0, ""))
        if record.sequence <= last_sequence:
            positions |= {(record.writer, record.sequence - 1), (record.writer, record.sequence)}
    return {(writer, sequence) for writer, sequence in positions if sequence}


def select_bodies(records: Iterable[Record], bodies: Mapping[str, str]) -> dict[str, str]:
    """Return the bodies that belong to these records and match their hashes."""
    selected = {}
    for record in records:
        body = bodies.get(record.body_hash)
        if body is not None and len(body) <= MAX_BODY_BYTES and hash_body(body) == record.body_hash:
            selected[record.body_hash] = body
    return selected


def compute_digest(vector: Mapping[str, tuple[int, str]], forked_writers: Iterable[str]) -> str:
    """Return a short text that is equal for equal vectors; the branches of forked machines may differ for ever."""
    ignored_writers = set(forked_writers)
    lines = [
        f"{writer} {sequence} {record_hash}"
        for writer, (sequence, record_hash) in sorted(vector.items())
        if writer not in ignored_writers
    ]
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()


def shorten_vector(vector: Mapping[str, tuple[int, str]]) -> dict[str, list[Any]]:
    """Return a vector as it travels."""
    return {writer: [sequence, record_hash[:HASH_PREFIX_CHARS]] for writer, (sequence, record_hash) in vector.items()}


@dataclass(frozen=True, slots=True)
class Difference:
    """How two vectors differ: after which numbers the peer, and this side, need records; chains with two branches."""

    peer_needs: dict[str, int]
    needed_here: dict[str, int]
    divergent: set[str]


def compare_vectors(vector: Mapping[str, tuple[int, str]], peer_vector: Mapping[str, Any]) -> Difference:
    """Compare this side's vector with one that arrived."""
    peer_needs: dict[str, int] = {}
    needed_here: dict[str, int] = {}
    divergent: set[str] = set()
    for writer in vector.keys() | peer_vector.keys():
        sequence, record_hash = vector.get(writer, (0, ""))
        peer_sequence, hash_prefix = _parse_entry(peer_vector.get(writer))
        if peer_sequence < sequence:
            peer_needs[writer] = peer_sequence
        elif peer_sequence > sequence:
            needed_here[writer] = sequence
        elif hash_prefix != record_hash[:HASH_PREFIX_CHARS]:
            divergent.add(writer)
    return Difference(peer_needs, needed_here, divergent)


def _parse_entry(entry: Any) -> tuple[int, str]:
    if isinstance(entry, list) and len(entry) == 2 and type(entry[0]) is int and isinstance(entry[1], str):
        return max(entry[0], 0), entry[1]
    return 0, ""
