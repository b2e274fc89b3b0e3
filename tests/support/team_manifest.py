"""What replicas of a team's log must agree on."""

from __future__ import annotations

import hashlib

from hardwon.team.state import TeamState


def compute_manifest_hash(state: TeamState) -> str:
    """Return a hash of a team's machines and subjects."""
    lines = [f"{machine.id} {machine.role} {machine.last_sequence}" for machine in state.machines.values()]
    for subject in state.subjects.values():
        counts = sorted(subject.counts.items())
        lines.append(f"{subject.name} {subject.status} {subject.in_force} {sorted(subject.rivals)} {counts}")
        lines.append(f"{subject.name} {sorted(subject.heads)}")
    return hashlib.sha256("\n".join(sorted(lines)).encode()).hexdigest()
