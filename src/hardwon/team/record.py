"""A record of a team's log: who wrote what about which subject, chained to the writer's last record and signed.

Every machine writes its own chain, so records need no clock and no global order. The text of a record is its body,
which is stored beside it: a body can be erased while the chain stays verifiable.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import orjson

from hardwon.errors import UserError

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

FORMAT = 1
# What a record says. The first five are about the team itself and all have the subject MEMBERS.
FOUND, INVITE, JOIN, ROLE, REVOKE, POLICY = "found", "invite", "join", "role", "revoke", "policy"
PUBLISH, REVISE, APPROVE, RETIRE, ERASE = "publish", "revise", "approve", "retire", "erase"
MUTE, UNMUTE, COUNTS = "mute", "unmute", "counts"
OWN_KINDS = (COUNTS, MUTE, UNMUTE)  # what a machine says about itself alone: its last one counts, whatever it had seen
MEMBER_KINDS = (FOUND, INVITE, JOIN, ROLE, REVOKE, POLICY)
KINDS = (*MEMBER_KINDS, PUBLISH, REVISE, APPROVE, RETIRE, ERASE, MUTE, UNMUTE, COUNTS)
MEMBERS = "members"
MAX_PARENTS = 64
MAX_SUBJECT_CHARS = 200
MAX_BODY_BYTES = 64 * 1024
_SALT_BYTES = 16
_TOKEN_PREFIX = b"hardwon token "  # so that no record can be taken for a token
_MACHINE_ID_CHARS = 32


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
    return hashlib.sha256(bytes.fromhex(public_key)).hexdigest()[:_MACHINE_ID_CHARS]


def derive_team_id(public_key: str) -> str:
    """Return the team's id, which only the machine with this key can have founded."""
    return hashlib.sha256(b"team" + bytes.fromhex(public_key)).hexdigest()[:_MACHINE_ID_CHARS]


def encode_body(content: Mapping[str, Any]) -> str:
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


def hash_body(body: str) -> str:
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
    sequence = previous.sequence + 1 if previous else 1
    unsigned = Record(
        team, key.machine, sequence, kind, FORMAT, subject, tuple(sorted(parents)), hash_body(body), "", ""
    )
    record_hash = compute_hash(unsigned, previous.hash if previous else "")
    signature = key.private_key.sign(bytes.fromhex(record_hash)).hex()
    return unsigned._replace(hash=record_hash, signature=signature)


def compute_hash(record: Record, previous_hash: str) -> str:
    # The hash itself and its signature come last, and are not covered.
    return hashlib.sha256(orjson.dumps([previous_hash, *record[:-2]])).hexdigest()


def is_signed_by(record: Record, public_key: str) -> bool:
    return _is_signed(bytes.fromhex(record.hash), record.signature, public_key)


def _is_signed(content: bytes, signature: str, public_key: str) -> bool:
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


def check_link(record: Record, last_sequence: int, last_hash: str, team: str) -> None:
    """Raise BadRecord unless a record continues its writer's chain in this team, whose last record has this hash."""
    if record.team != team:
        raise BadRecord("the record belongs to another team")
    if record.kind not in KINDS or record.format != FORMAT:
        raise BadRecord(f"unknown kind of record: {record.kind[:40]} in format {record.format}")
    if len(record.parents) > MAX_PARENTS or not 0 < len(record.subject) <= MAX_SUBJECT_CHARS:
        raise BadRecord("the record has too many parents, or no usable subject")
    if (record.subject == MEMBERS) != (record.kind in MEMBER_KINDS):
        raise BadRecord(f"a record of kind {record.kind} cannot be about {record.subject[:40]}")
    if record.sequence != last_sequence + 1:
        raise BadRecord(f"record {record.sequence} of {record.writer} does not follow {last_sequence}")
    if compute_hash(record, last_hash) != record.hash:
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
