"""A record of a team's log: who wrote what about which subject, chained to the writer's last record and signed.

Every machine writes its own chain, so records need no clock and no global order. The text of a record is its body,
which is stored beside it: a body can be erased while the chain stays verifiable. Replicas and the server check records
that arrive, and compare their chains, with the same functions.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import orjson

from hardwon.errors import UserError

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey


_FORMAT = 1
# What a record says. The first six are about the team itself and all have the subject MEMBERS.
FOUND, INVITE, JOIN, ROLE, REVOKE, POLICY = "found", "invite", "join", "role", "revoke", "policy"
PUBLISH, REVISE, APPROVE, RETIRE, ERASE = "publish", "revise", "approve", "retire", "erase"
MUTE, UNMUTE, COUNTS = "mute", "unmute", "counts"
OWN_KINDS = (COUNTS, MUTE, UNMUTE)  # what a machine says about itself alone: its last one counts, whatever it had seen
_MEMBER_KINDS = (FOUND, INVITE, JOIN, ROLE, REVOKE, POLICY)
_KINDS = (*_MEMBER_KINDS, PUBLISH, REVISE, APPROVE, RETIRE, ERASE, MUTE, UNMUTE, COUNTS)
MEMBERS = "members"
MAX_PARENTS = 64
_MAX_SUBJECT_CHARS = 200
_MAX_BODY_BYTES = 64 * 1024
_SALT_BYTES = 16
_TOKEN_PREFIX = b"hardwon token "  # so that no record can be taken for a token
_MACHINE_ID_CHARS = 32
_HASH_PREFIX_CHARS = 16  # enough to tell two branches apart, and vectors are long
Vector = dict[str, tuple[int, str]]  # for each machine the number and hash of its last record
Content = Mapping[str, Any]  # what the body of a record says
Position = tuple[str, int]  # a machine and the number of one of its records


class BadRecord(ValueError):
    """A record that no honest machine writes: malformed, wrongly chained or wrongly signed."""


class Record(NamedTuple):
    """One entry of a machine's chain. `hash` covers the fields before it and the last hash; `signature` covers `hash`.

    The order of the fields is that of the wire and of the tables, where a record is a row.
    """

    team: str
    writer: str
    sequence: int
    kind: str
    format: int
    subject: str
    parents: tuple[str, ...]  # the newest records about the subject that the writer had seen
    body_hash: str
    hash: str
    signature: str


@dataclass(frozen=True, slots=True)
class MachineKey:
    """The key pair of this machine; its id is derived from the public key."""

    private_key: Ed25519PrivateKey
    public_key: str

    @property
    def machine(self) -> str:
        return derive_machine_id(self.public_key)


def create_key() -> MachineKey:
    _, ed25519 = _load_cryptography()
    return _wrap_key(ed25519.Ed25519PrivateKey.generate())


def load_key(private_hex: str) -> MachineKey:
    _, ed25519 = _load_cryptography()
    return _wrap_key(ed25519.Ed25519PrivateKey.from_private_bytes(bytes.fromhex(private_hex)))


def dump_key(key: MachineKey) -> str:
    return key.private_key.private_bytes_raw().hex()


def _wrap_key(private_key: Ed25519PrivateKey) -> MachineKey:
    return MachineKey(private_key, private_key.public_key().public_bytes_raw().hex())


def _load_cryptography() -> tuple[Any, Any]:
    """Return the modules for errors and keys; they come with the extra, since only teams need them."""
    try:
        from cryptography import exceptions
        from cryptography.hazmat.primitives.asymmetric import ed25519
    except ImportError:
        raise UserError("a team needs the package cryptography", "pip install 'hardwon[team]'") from None
    return exceptions, ed25519


def derive_machine_id(public_key: str) -> str:
    """Return the id of the machine with this key, so that no other can write in its name."""
    return hashlib.sha256(bytes.fromhex(public_key)).hexdigest()[:_MACHINE_ID_CHARS]


def derive_team_id(public_key: str) -> str:
    """Return the team's id, which only the machine with this key can have founded."""
    return hashlib.sha256(b"team" + bytes.fromhex(public_key)).hexdigest()[:_MACHINE_ID_CHARS]


def encode_body(content: Content) -> str:
    """Return a body as it is stored and hashed; the salt keeps an erased text from being guessed by its hash."""
    salted_content = {**content, "salt": os.urandom(_SALT_BYTES).hex()}
    return orjson.dumps(salted_content, option=orjson.OPT_SORT_KEYS).decode()


def parse_body(body: str) -> dict[str, Any]:
    """Return the content of a body; empty if it is none, since any member may have written it."""
    try:
        content = orjson.loads(body) if body else {}
    except orjson.JSONDecodeError:
        return {}
    return content if isinstance(content, dict) else {}


def _hash_body(body: str) -> str:
    return hashlib.sha256(body.encode()).hexdigest()


def sign_record(
    key: MachineKey,
    team: str,
    previous: Record | None,
    kind: str,
    subject: str,
    parents: tuple[str, ...],
    body: str,
) -> Record:
    """Return the next record of this machine's chain."""
    sequence = 1
    previous_hash = ""
    if previous:
        sequence = previous.sequence + 1
        previous_hash = previous.hash
    unsigned = Record(
        team,
        writer=key.machine,
        sequence=sequence,
        kind=kind,
        format=_FORMAT,
        subject=subject,
        parents=tuple(sorted(parents)),
        body_hash=_hash_body(body),
        hash="",
        signature="",
    )
    record_hash = _compute_hash(unsigned, previous_hash)
    signature = key.private_key.sign(bytes.fromhex(record_hash)).hex()
    return unsigned._replace(hash=record_hash, signature=signature)


def _compute_hash(record: Record, previous_hash: str) -> str:
    """Return the hash of a record and, through the previous one's, of its writer's whole chain up to it."""
    # The hash itself and its signature come last, and are not covered.
    return hashlib.sha256(orjson.dumps([previous_hash, *record[:-2]])).hexdigest()


def _is_signed_by(record: Record, public_key: str) -> bool:
    return _is_signed(bytes.fromhex(record.hash), record.signature, public_key)


def _is_signed(content: bytes, signature: str, public_key: str) -> bool:
    """Return whether the owner of this key signed the content; False also for a malformed signature or key."""
    exceptions, ed25519 = _load_cryptography()
    try:
        # Both texts come from outside, and need not be hexadecimal.
        key = ed25519.Ed25519PublicKey.from_public_bytes(bytes.fromhex(public_key))
        key.verify(bytes.fromhex(signature), content)
    except (exceptions.InvalidSignature, ValueError):
        return False
    return True


def sign_token(key: MachineKey, token: str) -> str:
    """Return the proof that a token is this machine's, which only its key can give."""
    return key.private_key.sign(_TOKEN_PREFIX + token.encode()).hex()


def is_token_of(token: str, signature: str, public_key: str) -> bool:
    return _is_signed(_TOKEN_PREFIX + token.encode(), signature, public_key)


def _check_link(record: Record, last_sequence: int, last_hash: str, team: str) -> None:
    """Raise BadRecord unless a record continues its writer's chain in this team, whose last record has this hash."""
    if record.team != team:
        raise BadRecord("the record belongs to another team")
    if record.kind not in _KINDS or record.format != _FORMAT:
        raise BadRecord(f"unknown kind of record: {record.kind[:40]} in format {record.format}")
    if len(record.parents) > MAX_PARENTS or not 0 < len(record.subject) <= _MAX_SUBJECT_CHARS:
        raise BadRecord("the record has too many parents, or no usable subject")
    if (record.subject == MEMBERS) != (record.kind in _MEMBER_KINDS):
        raise BadRecord(f"a record of kind {record.kind} cannot be about {record.subject[:40]}")
    if record.sequence != last_sequence + 1:
        raise BadRecord(f"record {record.sequence} of {record.writer} does not follow {last_sequence}")
    if _compute_hash(record, last_hash) != record.hash:
        raise BadRecord(f"record {record.sequence} of {record.writer} has a wrong hash")


def to_wire(record: Record) -> list[Any]:
    """Return a record as it travels: its fields in order, without names, because there are many."""
    return list(record)


def from_wire(fields: Any) -> Record:
    """Parse a record; BadRecord if it has not the right shape."""
    if not isinstance(fields, list) or len(fields) != 10:
        raise BadRecord("a record is a list of ten fields")
    team, writer, sequence, kind, record_format, subject, parents, body_hash, record_hash, signature = fields
    texts = (team, writer, kind, subject, body_hash, record_hash, signature)
    if not all(isinstance(text, str) for text in texts) or not isinstance(parents, list):
        raise BadRecord("a record has a field of the wrong type")
    if not all(isinstance(parent, str) for parent in parents):
        raise BadRecord("a record has a parent that is not a hash")
    # bool is an int in Python, and true would pass as sequence 1.
    if type(sequence) is not int or type(record_format) is not int or sequence < 1:
        raise BadRecord("a record has a wrong sequence number or format")
    return Record(
        team, writer, sequence, kind, record_format, subject, tuple(parents), body_hash, record_hash, signature
    )


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
    vector = dict(known.vector)
    hashes = dict(known.hashes)
    skipped_machines = set(quarantined)
    # In the order of each chain, because every record is checked against the one before it.
    for record in sorted(records, key=lambda record: (record.writer, record.sequence, record.hash)):
        if record.writer in skipped_machines:
            continue  # the machine forked, or an earlier record of it has a fault
        position = (record.writer, record.sequence)
        known_hash = hashes.get(position)
        if known_hash == record.hash:
            continue  # the record arrived before, by another route
        try:
            if known_hash is not None:
                previous_hash = hashes.get((record.writer, record.sequence - 1), "")
                _check_fork(record, previous_hash, batch.public_keys.get(record.writer, ""), bodies, team)
                batch.forks[record.writer] = record
                skipped_machines.add(record.writer)
                continue
            last_sequence, last_hash = vector.get(record.writer, (0, ""))
            _check_link(record, last_sequence, last_hash, team)
            public_key = batch.public_keys.get(record.writer) or _read_public_key(record, bodies)
            if record.writer not in senders and not _is_signed_by(record, public_key):
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
    _refuse_unsigned_ends(batch, senders)
    return batch


def _refuse_unsigned_ends(batch: CheckedBatch, senders: Collection[str]) -> None:
    """Refuse the records of each sender whose last record is not signed by it."""
    # Later records of a sender replace earlier ones here.
    last_records = {record.writer: record for record in batch.new_records if record.writer in senders}
    for writer, last_record in last_records.items():
        if not _is_signed_by(last_record, batch.public_keys[writer]):
            batch.new_records = [record for record in batch.new_records if record.writer != writer]
            batch.refused[writer] = f"record {last_record.sequence} of {writer} has a wrong signature"


def _check_fork(record: Record, previous_hash: str, public_key: str, bodies: Mapping[str, str], team: str) -> None:
    """Raise BadRecord unless the machine itself signed this second record under a number that is taken.

    Without this check anybody could have a machine quarantined by sending rubbish in its name. The hash is computed
    from the record before it, because a signature of another record would fit a copied hash.
    """
    public_key = public_key or _read_public_key(record, bodies)
    is_own_hash = record.team == team and _compute_hash(record, previous_hash) == record.hash
    if not is_own_hash or not _is_signed_by(record, public_key):
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


def find_known_positions(records: Iterable[Record], vector: Vector) -> set[Position]:
    """Return the positions of records that arrive again, and those before them, whose hashes a check needs."""
    positions: set[Position] = set()
    for record in records:
        last_sequence, _ = vector.get(record.writer, (0, ""))
        if record.sequence <= last_sequence:
            positions.add((record.writer, record.sequence - 1))
            positions.add((record.writer, record.sequence))
    # The first record of a chain has the number 1 and follows none.
    return {(writer, sequence) for writer, sequence in positions if sequence}


def select_bodies(records: Iterable[Record], bodies: Mapping[str, str]) -> dict[str, str]:
    """Return the bodies that belong to these records and match their hashes."""
    selected = {}
    for record in records:
        body = bodies.get(record.body_hash)
        if body is not None and len(body) <= _MAX_BODY_BYTES and _hash_body(body) == record.body_hash:
            selected[record.body_hash] = body
    return selected


def compute_digest(vector: Vector, forked_writers: Iterable[str]) -> str:
    """Return a short text that is equal for equal vectors; the branches of forked machines may differ for ever."""
    ignored_writers = set(forked_writers)
    lines = []
    for writer, (sequence, record_hash) in sorted(vector.items()):
        if writer not in ignored_writers:
            lines.append(f"{writer} {sequence} {record_hash}")
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()


def shorten_vector(vector: Vector) -> dict[str, list[Any]]:
    """Return a vector as it is sent: each hash shortened to a prefix, which is enough to tell branches apart."""
    entries = {}
    for writer, (sequence, record_hash) in vector.items():
        entries[writer] = [sequence, record_hash[:_HASH_PREFIX_CHARS]]
    return entries


@dataclass(frozen=True, slots=True)
class Difference:
    """How two vectors differ: after which numbers the peer, and this side, need records; chains with two branches."""

    peer_needs: dict[str, int]
    needed_here: dict[str, int]
    divergent: set[str]


def compare_vectors(vector: Vector, peer_vector: Mapping[str, Any]) -> Difference:
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
        elif hash_prefix != record_hash[:_HASH_PREFIX_CHARS]:
            divergent.add(writer)
    return Difference(peer_needs, needed_here, divergent)


def _parse_entry(entry: Any) -> tuple[int, str]:
    """Return the sequence and hash prefix of a peer's entry; 0 for an entry of another shape."""
    if not isinstance(entry, list) or len(entry) != 2:
        return 0, ""
    sequence, hash_prefix = entry
    if type(sequence) is not int or not isinstance(hash_prefix, str):
        return 0, ""
    return max(sequence, 0), hash_prefix
