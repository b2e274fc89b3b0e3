"""Replicas with the same records agree, whatever was lost, repeated or delayed on the way."""

from __future__ import annotations

import os
import random
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from hardwon.team import record as team_record
from hardwon.team.record import MEMBERS, MachineKey, Record, create_key, derive_team_id
from hardwon.team.replica import Message, Replica
from hardwon.team.state import ADMIN, ERASED, PROPOSER, READER, REVIEWER, hash_code
from tests.support.new_store import connect_to_new_store
from tests.support.team_manifest import compute_manifest_hash

SUBJECTS = ("lesson:use-pnpm", "lesson:stage-by-name", "memory:deploy-friday")


class Peer:
    """A machine with a key and a replica of its own."""

    def __init__(self, folder: Path, team: str, key: MachineKey) -> None:
        self.key = key
        self.connection = connect_to_new_store(str(folder))
        self.replica = Replica(self.connection, team)

    def write_record(self, kind: str, subject: str, content: dict[str, Any]) -> Record:
        return self.replica.append(self.key, kind, subject, content)

    def send_everything(self) -> Message:
        message = self.replica.select_after(dict.fromkeys(self.replica.read_vector(), 0))
        return Message((*message.records, *self.replica.list_fork_evidence()), message.bodies)

    def hash_state(self) -> str:
        return compute_manifest_hash(self.replica.read_state())


def found_team(folder: Path, roles: tuple[str, ...]) -> list[Peer]:
    """Create a team: the founder and one machine for each role, which have all seen each other."""
    key = create_key()
    team = derive_team_id(key.public_key)
    founder = Peer(folder / "0", team, key)
    founder.write_record("found", MEMBERS, {"public_key": key.public_key, "team_name": "ours", "member": "ada"})
    peers = [founder]
    for number, role in enumerate(roles, 1):
        code = f"code-{number}"
        founder.write_record(
            "invite", MEMBERS, {"code_hash": hash_code(code), "role": role, "member": f"member-{number}"}
        )
        peer = Peer(folder / str(number), team, create_key())
        peer.replica.receive(founder.send_everything())
        peer.write_record(
            "join", MEMBERS, {"public_key": peer.key.public_key, "code": code, "name": f"laptop-{number}"}
        )
        founder.replica.receive(peer.send_everything())
        peers.append(peer)
    exchange_everything(peers)
    return peers


def exchange_everything(peers: list[Peer]) -> None:
    for _ in range(2):
        for sender in peers:
            message = sender.send_everything()
            for receiver in peers:
                if receiver is not sender:
                    receiver.replica.receive(message)


class FiveMachines(RuleBasedStateMachine):
    """Any interleaving of writing and lossy delivery, then one complete exchange."""

    @initialize(seed=st.integers(0, 2**32))
    def create_machines(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.folder = tempfile.TemporaryDirectory()
        self.peers = found_team(Path(self.folder.name), (ADMIN, REVIEWER, PROPOSER, READER))

    @rule(writer=st.integers(0, 4), subject=st.sampled_from(SUBJECTS), number=st.integers(0, 9))
    def publish_or_revise(self, writer: int, subject: str, number: int) -> None:
        is_known = subject in self.peers[writer].replica.read_state().subjects
        self.peers[writer].write_record("revise" if is_known else "publish", subject, {"text": f"text {number}"})

    @rule(
        writer=st.integers(0, 4), subject=st.sampled_from(SUBJECTS), kind=st.sampled_from(["retire", "erase", "mute"])
    )
    def decide_subject(self, writer: int, subject: str, kind: str) -> None:
        self.peers[writer].write_record(kind, subject, {})

    @rule(writer=st.integers(0, 4), subject=st.sampled_from(SUBJECTS))
    def approve_a_version(self, writer: int, subject: str) -> None:
        known_subject = self.peers[writer].replica.read_state().subjects.get(subject)
        if known_subject and known_subject.versions:
            version = self.random.choice(known_subject.versions)
            self.peers[writer].write_record("approve", subject, {"version": version.hash})

    @rule(writer=st.integers(0, 4), fired=st.integers(0, 50))
    def report_counts(self, writer: int, fired: int) -> None:
        self.peers[writer].write_record("counts", SUBJECTS[0], {"totals": {"fired": fired}})

    @rule(writer=st.integers(0, 1), subordinate=st.integers(1, 4), role=st.sampled_from([READER, REVIEWER, ADMIN]))
    def change_role(self, writer: int, subordinate: int, role: str) -> None:
        machine = self.peers[subordinate].key.machine
        sequence, _ = self.peers[writer].replica.read_vector()[machine]
        self.peers[writer].write_record("role", MEMBERS, {"machine": machine, "role": role, "after_sequence": sequence})

    @rule(writer=st.integers(0, 1), subordinate=st.integers(0, 4))
    def revoke_machine(self, writer: int, subordinate: int) -> None:
        machine = self.peers[subordinate].key.machine
        sequence, _ = self.peers[writer].replica.read_vector()[machine]
        self.peers[writer].write_record("revoke", MEMBERS, {"machine": machine, "last_sequence": sequence})

    @rule(writer=st.integers(0, 4), subject=st.sampled_from(SUBJECTS))
    def fork_history(self, writer: int, subject: str) -> None:
        """Write a second record under the number of the last one, as a machine restored from a backup does."""
        peer = self.peers[writer]
        records = [record for record in peer.replica.list_records() if record.writer == peer.key.machine]
        previous = records[-2] if len(records) > 1 else None
        body = team_record.encode_body({"text": "the other branch"})
        if previous is None:
            return
        second = team_record.sign_record(peer.key, previous.team, previous, "mute", subject, (), body)
        receiver = self.random.choice(self.peers)
        receiver.replica.receive(Message((second,), {second.body_hash: body}))

    @rule(sender=st.integers(0, 4), receiver=st.integers(0, 4))
    def deliver_some(self, sender: int, receiver: int) -> None:
        """Deliver records out of order, some of them lost, some twice, bodies missing."""
        message = self.peers[sender].send_everything()
        records = [record for record in message.records if self.random.random() < 0.7]
        records += self.random.sample(records, len(records) // 3)
        self.random.shuffle(records)
        bodies = {name: body for name, body in message.bodies.items() if self.random.random() < 0.9}
        self.peers[receiver].replica.receive(Message(tuple(records), bodies))

    def teardown(self) -> None:
        exchange_everything(self.peers)
        assert len({peer.hash_state() for peer in self.peers}) == 1
        for peer in self.peers:
            for subject in peer.replica.read_state().subjects.values():
                if subject.status == ERASED:
                    assert all(version.content is None for version in subject.versions)
            peer.connection.close()
        self.folder.cleanup()


EXAMPLES = 300 if os.environ.get("HARDWON_LONG") else 12
FiveMachines.TestCase.settings = settings(
    max_examples=EXAMPLES, stateful_step_count=14, deadline=None, suppress_health_check=list(HealthCheck)
)
TestFiveMachines = pytest.mark.filterwarnings("ignore")(FiveMachines.TestCase)
