"""What a team's records come to: its members, and which version of each subject is in force.

The state is a function of the set of records and nothing else: not of the order they arrived in, and not of any clock.
Two machines with the same records therefore agree, whatever happened on the way.
"""

from __future__ import annotations

import hashlib
import heapq
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import inf
from typing import Any, NamedTuple

from hardwon.team.record import (
    APPROVE,
    COUNTS,
    ERASE,
    FOUND,
    INVITE,
    JOIN,
    MAX_PARENTS,
    MEMBERS,
    MUTE,
    OWN_KINDS,
    POLICY,
    PUBLISH,
    RETIRE,
    REVISE,
    REVOKE,
    ROLE,
    UNMUTE,
    Content,
    Record,
    derive_machine_id,
    derive_team_id,
)

READER, PROPOSER, REVIEWER, ADMIN = "reader", "proposer", "reviewer", "admin"
Contents = Mapping[str, Content]  # by the hash of the body
ROLES = (READER, PROPOSER, REVIEWER, ADMIN)  # each may do what those before it may
PROPOSED, IN_FORCE, RETIRED, ERASED = "proposed", "in force", "retired", "erased"
_REVOKED = "its machine was revoked"
_NEEDED_ROLE = {
    INVITE: ADMIN,
    ROLE: ADMIN,
    REVOKE: ADMIN,
    POLICY: ADMIN,
    PUBLISH: PROPOSER,
    REVISE: PROPOSER,
    APPROVE: REVIEWER,
    RETIRE: REVIEWER,
    ERASE: PROPOSER,
    MUTE: READER,
    UNMUTE: READER,
    COUNTS: READER,
}


class RoleGrant(NamedTuple):
    """A role that a machine has in its records after this number."""

    after_sequence: int
    role: str


@dataclass(frozen=True, slots=True)
class Machine:
    """A machine of the team: whose it is, its key, and from which of its records on it had which role."""

    id: str
    name: str
    member: str
    public_key: str
    grants: tuple[RoleGrant, ...]  # in the order in which they were made
    last_sequence: int | None = None  # of a revoked machine: later records do not count

    def get_role(self, sequence: int) -> str:
        """Return the role under which the machine wrote a record; empty before it had one."""
        role = ""
        for grant in self.grants:
            if sequence > grant.after_sequence:
                role = grant.role
        return role

    @property
    def role(self) -> str:
        return self.grants[-1].role

    @property
    def is_revoked(self) -> bool:
        return self.last_sequence is not None


@dataclass(frozen=True, slots=True)
class Version:
    """One published or revised text of a subject."""

    hash: str
    writer: str
    content: Content | None  # None once it is erased, or before the body has arrived


@dataclass(frozen=True, slots=True)
class Subject:
    """A shared lesson, memory or handoff: its versions, and which one is in force."""

    name: str
    status: str
    versions: tuple[Version, ...]
    heads: tuple[str, ...]  # versions that no other version follows; several were written concurrently
    in_force: str  # the hash of the approved version, empty if none is
    approved: tuple[str, ...]  # every version that was ever approved, in the order of the approvals
    rivals: tuple[str, ...]  # versions approved concurrently with the one in force
    counts: Mapping[str, int]

    def get_version(self, version_hash: str) -> Version | None:
        return next((version for version in self.versions if version.hash == version_hash), None)


@dataclass(frozen=True, slots=True)
class TeamState:
    """The members, the policy and the subjects of a team."""

    name: str
    machines: Mapping[str, Machine]
    open_invites: Mapping[str, Content]  # by the hash of their code
    policy: Content
    subjects: Mapping[str, Subject]
    ignored: Mapping[str, str] = field(default_factory=dict)  # records that do not count, by hash, with the reason
    member_heads: tuple[str, ...] = ()
    subject_heads: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def find_heads(self, subject: str) -> tuple[str, ...]:
        """Return the parents that the next record about a subject has."""
        return self.member_heads if subject == MEMBERS else self.subject_heads.get(subject, ())


def hash_code(code: str) -> str:
    """Return what an invite says of its one-time code: whoever shows the code proves to have been invited."""
    return hashlib.sha256(f"hardwon invite {code}".encode()).hexdigest()


def compute_state(records: Iterable[Record], contents: Contents, forks: Mapping[str, int]) -> TeamState:
    """Return the state of a team.

    `contents` has the parsed bodies by their hash. `forks` has, for each machine that wrote two different records under
    one number, the first such number: from there on nothing of it counts.
    """
    by_subject: defaultdict[str, list[Record]] = defaultdict(list)
    ignored: dict[str, str] = {}
    for record in records:
        # Nobody can tell which branch of a forked chain is the true one, so neither counts.
        first_forked = forks.get(record.writer)
        if first_forked is not None and record.sequence >= first_forked:
            ignored[record.hash] = "its machine wrote two records under one number"
        else:
            by_subject[record.subject].append(record)
    members = _evaluate_members(by_subject.pop(MEMBERS, []), contents)
    ignored |= members.ignored
    subjects: dict[str, Subject] = {}
    heads: dict[str, tuple[str, ...]] = {}
    for name, subject_records in by_subject.items():
        objections = {record.hash: _find_objection(record, members.machines) for record in subject_records}
        ignored |= {record_hash: reason for record_hash, reason in objections.items() if reason}
        counted_records = [record for record in subject_records if not objections[record.hash]]
        if counted_records:
            subjects[name] = _evaluate_subject(name, counted_records, contents, members.machines)
            heads[name] = _find_heads(counted_records)
    return TeamState(
        name=members.name,
        machines=members.machines,
        open_invites=members.open_invites,
        policy=members.policy,
        subjects=subjects,
        ignored=ignored,
        member_heads=members.heads,
        subject_heads=heads,
    )


@dataclass(slots=True)
class _Members:
    name: str = ""
    machines: dict[str, Machine] = field(default_factory=dict)
    open_invites: dict[str, Content] = field(default_factory=dict)
    policy: dict[str, Any] = field(default_factory=dict)
    ignored: dict[str, str] = field(default_factory=dict)
    heads: tuple[str, ...] = ()


def _evaluate_members(records: Sequence[Record], contents: Contents) -> _Members:
    """Return who belongs to the team.

    Concurrent decisions are taken in an order that depends only on their hashes. A revocation then cuts off what its
    machine wrote later, also under parents that hide the revocation, so the records are evaluated a second time
    without that.
    """
    ordered_records = _order_by_parents(records)
    members = _apply_member_records(ordered_records, contents, _Members())
    cut_offs: dict[str, int] = {}  # the last number of each revoked machine that counts
    for machine in members.machines.values():
        if machine.last_sequence is not None:
            cut_offs[machine.id] = machine.last_sequence
    if cut_offs:
        late_records = [record for record in ordered_records if record.sequence > cut_offs.get(record.writer, inf)]
        late_reasons = {record.hash: _REVOKED for record in late_records}
        counted_records = [record for record in ordered_records if record.hash not in late_reasons]
        members = _apply_member_records(counted_records, contents, _Members())
        members.ignored |= late_reasons
    members.heads = _find_heads([record for record in ordered_records if record.hash not in members.ignored])
    return members


def _apply_member_records(records: Sequence[Record], contents: Contents, members: _Members) -> _Members:
    """Apply decisions about members in their order; return the members, which have the ignored ones with reasons."""
    for record in records:
        content = contents.get(record.body_hash)
        if content is None:
            reason = "its body is missing"
        else:
            try:
                reason = _apply_member_record(members, record, content)
            except (KeyError, TypeError, ValueError, OverflowError):
                reason = "its body is malformed"  # one bad record must not stop the team
        if reason:
            members.ignored[record.hash] = reason
    return members


def _apply_member_record(members: _Members, record: Record, content: Content) -> str:
    """Apply one decision about members; return why it does not count, or an empty text."""
    if record.kind == FOUND:
        return _apply_founding(members, record, content)
    if record.kind == JOIN:
        return _apply_join(members, record, content)
    objection = _find_objection(record, members.machines)
    if objection:
        return objection
    if record.kind == INVITE:
        if content.get("role") not in ROLES:
            return "an invite needs a role"
        members.open_invites[str(content.get("code_hash", ""))] = content
    elif record.kind == POLICY:
        members.policy = dict(content)
    else:
        return _change_machine(members, record.kind, content)
    return ""


def _change_machine(members: _Members, kind: str, content: Mapping[str, Any]) -> str:
    """Give a machine another role or revoke it; return why that does not count, or an empty text."""
    machine = members.machines.get(str(content.get("machine", "")))
    if machine is None:
        return "there is no such machine"
    if kind == ROLE:
        if content.get("role") not in ROLES:
            return "there is no such role"
        grant = RoleGrant(int(content.get("after_sequence", 0)), str(content["role"]))
        members.machines[machine.id] = replace(machine, grants=(*machine.grants, grant))
    elif kind == REVOKE:
        last_sequence = int(content.get("last_sequence", 0))
        # Of two revocations the stricter one counts, in whatever order they arrive.
        if machine.last_sequence is not None:
            last_sequence = min(last_sequence, machine.last_sequence)
        members.machines[machine.id] = replace(machine, last_sequence=last_sequence)
    return ""


def _apply_founding(members: _Members, record: Record, content: Content) -> str:
    """Apply the first record of a team; return why it is refused, or an empty text."""
    public_key = str(content.get("public_key", ""))
    if derive_team_id(public_key) != record.team or derive_machine_id(public_key) != record.writer:
        return "only the machine that the team is named after can found it"
    members.name = str(content.get("team_name", ""))
    members.machines[record.writer] = _build_machine(record, content, ADMIN)
    return ""


def _apply_join(members: _Members, record: Record, content: Content) -> str:
    """Admit a machine with an open invite; return why it is refused, or an empty text."""
    if derive_machine_id(str(content.get("public_key", ""))) != record.writer:
        return "the public key does not belong to the machine"
    # An invite is used up by the first join, so a second machine with the same code is not admitted.
    invite = members.open_invites.pop(hash_code(str(content.get("code", ""))), None)
    if invite is None:
        return "no open invite has this code"
    # The invite may say for which member it is; else the machine names its member itself.
    named_content = {**content, "member": invite.get("member") or content.get("member", "")}
    members.machines[record.writer] = _build_machine(record, named_content, str(invite["role"]))
    return ""


def admit_machine(state: TeamState, join: Record, content: Content) -> TeamState | None:
    """Return the state with one more machine; None if only an evaluation of all records can tell it.

    A join that follows every other record about members comes last in their order, so it is enough to apply it. In a
    team of a thousand machines that spares the evaluation of two thousand records for each that joins.
    """
    follows_all = len(state.member_heads) < MAX_PARENTS and set(state.member_heads) <= set(join.parents)
    if state.ignored or not follows_all:
        return None  # another order might make an ignored record count
    members = _Members(machines=dict(state.machines), open_invites=dict(state.open_invites))
    if _apply_member_records([join], {join.body_hash: content}, members).ignored:
        return None
    return replace(state, machines=members.machines, open_invites=members.open_invites, member_heads=(join.hash,))


def _build_machine(record: Record, content: Content, role: str) -> Machine:
    """Return the machine that wrote a record, with this role from its first record on."""
    return Machine(
        id=record.writer,
        name=str(content.get("name", "")),
        member=str(content.get("member", "")),
        public_key=str(content["public_key"]),
        grants=(RoleGrant(0, role),),
    )


def _find_objection(record: Record, machines: Mapping[str, Machine]) -> str:
    """Return why a record does not count; empty if its machine may write it."""
    machine = machines.get(record.writer)
    if machine is None:
        return "its machine is not a member"
    if machine.last_sequence is not None and record.sequence > machine.last_sequence:
        return _REVOKED
    role = machine.get_role(record.sequence)
    needed_role = _NEEDED_ROLE.get(record.kind, ADMIN)
    if not role:
        return f"a stranger may not {record.kind}"
    if ROLES.index(role) < ROLES.index(needed_role):  # from the weakest role to the strongest
        return f"a {role} may not {record.kind}"
    return ""


def _order_by_parents(records: Sequence[Record]) -> list[Record]:
    """Return records so that each follows its parents and its writer's earlier ones, revocations first, then by hash.

    A parent that has not arrived is not waited for. There are no cycles: a hash covers the hashes before it.
    """
    by_hash = {record.hash: record for record in records}
    by_position = {(record.writer, record.sequence): record for record in records}
    last_of_writer: dict[str, Record] = {}
    waiting_for: dict[str, set[str]] = {}
    for position in sorted(by_position):
        record = by_position[position]
        predecessors = {parent for parent in record.parents if parent in by_hash}
        if record.writer in last_of_writer:
            predecessors.add(last_of_writer[record.writer].hash)
        last_of_writer[record.writer] = record
        waiting_for[record.hash] = predecessors
    # The rest is a topological sort; the heap makes the order of concurrent records the same everywhere.
    followers: defaultdict[str, list[str]] = defaultdict(list)
    for record_hash, predecessors in waiting_for.items():
        for predecessor in predecessors:
            followers[predecessor].append(record_hash)
    # False sorts before True, so revocations come first.
    ready = [(by_hash[name].kind != REVOKE, name) for name, predecessors in waiting_for.items() if not predecessors]
    heapq.heapify(ready)
    ordered: list[Record] = []
    while ready:
        _, record_hash = heapq.heappop(ready)
        ordered.append(by_hash[record_hash])
        for follower in followers[record_hash]:
            waiting_for[follower].discard(record_hash)
            if not waiting_for[follower]:
                heapq.heappush(ready, (by_hash[follower].kind != REVOKE, follower))
    return ordered


def _find_heads(records: Sequence[Record]) -> tuple[str, ...]:
    """Return the records that no other record names as a parent, decisions before texts, as many as a record may name.

    What a machine says about itself alone is left out.
    """
    decisions = [record for record in records if record.kind not in OWN_KINDS]
    named_parents = set[str]()
    for record in decisions:
        named_parents.update(record.parents)
    heads = [record for record in decisions if record.hash not in named_parents]
    heads.sort(key=lambda record: (record.kind in (PUBLISH, REVISE, JOIN), record.hash))
    return tuple(record.hash for record in heads[:MAX_PARENTS])


def _evaluate_subject(
    name: str,
    records: Sequence[Record],
    contents: Contents,
    machines: Mapping[str, Machine],
) -> Subject:
    """Return a subject: erase beats retire, retire beats revise, and the last approval decides what is in force."""
    ordered_records = _order_by_parents(records)
    by_kind: defaultdict[str, list[Record]] = defaultdict(list)
    for record in ordered_records:
        by_kind[record.kind].append(record)
    ancestors = _find_ancestors(ordered_records)
    version_records = [*by_kind[PUBLISH], *by_kind[REVISE]]  # a revision follows what it revises
    versions = tuple(Version(record.hash, record.writer, contents.get(record.body_hash)) for record in version_records)
    followed_versions = set[str]()
    for record in version_records:
        followed_versions |= ancestors[record.hash]
    version_hashes = {version.hash for version in versions}
    approvals: dict[str, str] = {}  # the version that each approval is about
    for record in by_kind[APPROVE]:
        approved_version = str(contents.get(record.body_hash, {}).get("version", ""))
        if approved_version in version_hashes:
            approvals[record.hash] = approved_version
    seen_by_approvals: set[str] = set()
    for approval in approvals:
        seen_by_approvals |= ancestors[approval]
    # An approval that another approval follows was overruled by somebody who had seen it.
    standing = [approval for approval in approvals if approval not in seen_by_approvals]
    # A retirement stands until an approval was given in its knowledge.
    is_retired = any(retirement.hash not in seen_by_approvals for retirement in by_kind[RETIRE])
    erasures = [record for record in by_kind[ERASE] if _may_erase(record, version_records, machines)]
    in_force = ""
    rivals = tuple[str, ...]()
    if erasures:
        status = ERASED
    elif is_retired:
        status = RETIRED
    elif standing:
        status = IN_FORCE
        # Of concurrent approvals the choice is arbitrary but the same everywhere; the others are shown as rivals.
        in_force = approvals[min(standing)]
        rivals = tuple(sorted({approvals[approval] for approval in standing} - {in_force}))
    else:
        status = PROPOSED
    return Subject(
        name=name,
        status=status,
        versions=versions,
        heads=tuple(version.hash for version in versions if version.hash not in followed_versions),
        in_force=in_force,
        approved=tuple(approvals.values()),
        rivals=rivals,
        counts=_sum_counts(by_kind[COUNTS], contents),
    )


def _find_ancestors(ordered_records: Sequence[Record]) -> dict[str, set[str]]:
    """Return for each record all records about the subject that its writer had seen."""
    ancestors: dict[str, set[str]] = {}
    for record in ordered_records:
        seen_records: set[str] = set()
        for parent in record.parents:
            seen_records.add(parent)
            seen_records |= ancestors.get(parent, set())
        ancestors[record.hash] = seen_records
    return ancestors


def _may_erase(erasure: Record, version_records: Sequence[Record], machines: Mapping[str, Machine]) -> bool:
    """Return whether the writer may erase: a reviewer anything, everybody else what their machine alone wrote."""
    role = machines[erasure.writer].get_role(erasure.sequence)
    if ROLES.index(role) >= ROLES.index(REVIEWER):
        return True
    return all(record.writer == erasure.writer for record in version_records)


def _sum_counts(ordered_records: Sequence[Record], contents: Contents) -> dict[str, int]:
    """Return the sums over machines; each machine's last record has its totals."""
    last_records = {record.writer: record for record in ordered_records}
    sums: defaultdict[str, int] = defaultdict(int)
    for record in last_records.values():
        totals = contents.get(record.body_hash, {}).get("totals", {})
        if not isinstance(totals, Mapping):
            continue
        for name, count in totals.items():
            if type(count) is int and count >= 0:  # not a bool, which is an int in Python
                sums[str(name)] += count
    return dict(sums)
