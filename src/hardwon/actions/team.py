"""Carry out what a person decides about their team: share, review, accept, mute, roll back."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from hardwon import clock, projects
from hardwon.actions import approvals, lessons
from hardwon.errors import UserError
from hardwon.handoff import memories
from hardwon.lessons import adding, lessons_file
from hardwon.lessons.replay import Replay, replay_lesson
from hardwon.store import team_log
from hardwon.store.approvals import TEAM
from hardwon.store.db import Connection, transaction
from hardwon.store.projects import find_or_create, read_paths_by_remote
from hardwon.team import sharing
from hardwon.team.client import TeamConfig
from hardwon.team.record import (
    APPROVE,
    ERASE,
    INVITE,
    MEMBERS,
    MUTE,
    POLICY,
    PUBLISH,
    RETIRE,
    REVISE,
    REVOKE,
    ROLE,
    UNMUTE,
    Record,
)
from hardwon.team.replica import Replica
from hardwon.team.state import (
    ADMIN,
    ERASED,
    IN_FORCE,
    PROPOSER,
    RETIRED,
    REVIEWER,
    ROLES,
    Machine,
    Subject,
    TeamState,
    Version,
    hash_code,
)

ACCEPTED, REJECTED, MUTED = "accepted", "rejected", "muted"
AUTOMATIC_DELIVERIES = ("note", "hold", "start")  # a block always needs a person's own yes


@dataclass(frozen=True, slots=True)
class Arrival:
    """A version that the team approved and nobody decided about on this machine."""

    subject: Subject
    version: Version
    author: str
    replay: Replay | None  # what the trigger would have done to the calls recorded here
    objection: str  # why it cannot be accepted here, such as a repository that is not on this machine

    @property
    def title(self) -> str:
        return sharing.describe_content(self.version.content)


class Team:
    """The team of this machine: its replica, its state and this machine's role in it."""

    def __init__(self, home: str, connection: Connection, config: TeamConfig) -> None:
        self.home, self.connection, self.config = home, connection, config
        self.replica = Replica(connection, config.team)
        self.state: TeamState = self.replica.read_state()

    @property
    def machine(self) -> Machine:
        machine = self.state.machines.get(self.config.load_key().machine)
        if machine is None or machine.is_revoked:
            raise UserError("this machine is no longer in the team", "ask an admin for an invite: hardwon team invite")
        return machine

    def require_role(self, role: str) -> None:
        if ROLES.index(self.machine.role) < ROLES.index(role):
            raise UserError(
                f"this needs a {role}, and this machine is a {self.machine.role}", "ask an admin of the team"
            )

    def append(self, kind: str, subject: str, content: Mapping[str, Any]) -> Record:
        record = self.replica.append(self.config.load_key(), kind, subject, content)
        self.state = self.replica.read_state()
        return record

    def find_subject(self, name: str) -> Subject:
        """Return a subject by its name, its lesson's slug, or the start of either."""
        matches = [subject for subject in self.state.subjects.values() if name in _list_names(subject)]
        if not matches:
            matches = [
                subject
                for subject in self.state.subjects.values()
                if any(known_name.startswith(name) for known_name in _list_names(subject))
            ]
        if len(matches) != 1:
            fact = "is not shared" if not matches else f"could be any of {len(matches)}"
            raise UserError(f"{name!r} {fact}", "hardwon team list")
        return matches[0]


def _list_names(subject: Subject) -> list[str]:
    names = [subject.name, subject.name.partition(":")[2]]
    for version in subject.versions:
        lesson = (version.content or {}).get("lesson")
        if isinstance(lesson, dict) and lesson.get("slug"):
            names.append(str(lesson["slug"]))
    return names


def share(team: Team, content: Mapping[str, Any]) -> Record:
    """Publish a text, or revise it if the team has it already; a reviewer's own words count as approved."""
    team.require_role(PROPOSER)
    name = sharing.name_subject(content, secrets.token_hex(8))
    known_subject = team.state.subjects.get(name)
    if known_subject and any(_without_salt(version.content) == content for version in known_subject.versions[-1:]):
        raise UserError("the team has exactly this already", "hardwon team list")
    record = team.append(REVISE if known_subject else PUBLISH, name, content)
    if ROLES.index(team.machine.role) >= ROLES.index(REVIEWER):
        team.append(APPROVE, name, {"version": record.hash})
    # Whoever shares a text has it in force already.
    _record_decision(team, name, record.hash, ACCEPTED)
    return record


def _without_salt(content: Mapping[str, Any] | None) -> dict[str, Any]:
    return {name: value for name, value in (content or {}).items() if name != "salt"}


def approve_version(team: Team, subject: Subject, version_hash: str) -> None:
    """Approve a version for the team."""
    team.require_role(REVIEWER)
    team.append(APPROVE, subject.name, {"version": version_hash})


def retire_subject(team: Team, subject: Subject) -> None:
    team.require_role(REVIEWER)
    team.append(RETIRE, subject.name, {})
    apply_state(team)


def erase_subject(team: Team, subject: Subject) -> None:
    """Erase the text everywhere; that it once existed stays in the log."""
    team.require_role(PROPOSER)
    team.append(ERASE, subject.name, {})
    if team.state.subjects[subject.name].status != ERASED:
        raise UserError("others wrote versions of it, so a reviewer must erase it", "ask a reviewer of the team")
    apply_state(team)


def roll_back_subject(team: Team, subject: Subject) -> str:
    """Put the version approved before back in force everywhere, or retire the subject if there was none."""
    team.require_role(REVIEWER)
    earlier_hashes = [version_hash for version_hash in subject.approved if version_hash != subject.in_force]
    earlier = subject.get_version(earlier_hashes[-1]) if earlier_hashes else None
    if subject.status == IN_FORCE and earlier and earlier.content is not None:
        team.append(APPROVE, subject.name, {"version": earlier.hash})
        message = f"back to: {sharing.describe_content(earlier.content)}"
    else:
        team.append(RETIRE, subject.name, {})
        message = "retired everywhere"
    apply_state(team)
    return message


def set_mute(team: Team, subject: Subject, *, is_muted: bool) -> None:
    """Mute a subject on this machine, or lift that."""
    team.append(MUTE if is_muted else UNMUTE, subject.name, {})
    if is_muted:
        _withdraw(team, subject)
        _record_decision(team, subject.name, subject.in_force, MUTED)
    else:
        with transaction(team.connection):
            team_log.delete_decision(team.connection, team.config.team, subject.name)


def invite(team: Team, role: str, member: str) -> str:
    """Create an invite; return its code, which works once."""
    team.require_role(ADMIN)
    if role not in ROLES:
        raise UserError(f"{role!r} is no role", f"one of: {', '.join(ROLES)}")
    code = f"{team.config.team}.{secrets.token_urlsafe(18)}"
    team.append(INVITE, MEMBERS, {"code_hash": hash_code(code), "role": role, "member": member})
    return code


def find_machine(team: Team, name: str) -> Machine:
    """Return a machine by its id, its name or its member, if only one fits."""
    matches = [
        machine
        for machine in team.state.machines.values()
        if not machine.is_revoked and (machine.id.startswith(name) or name in (machine.name, machine.member))
    ]
    if len(matches) != 1:
        fact = "no machine has" if not matches else f"{len(matches)} machines have"
        raise UserError(f"{fact} the name {name!r}", "hardwon team members")
    return matches[0]


def revoke_machine(team: Team, machine: Machine) -> None:
    """Exclude a machine; what it wrote up to now stays."""
    team.require_role(ADMIN)
    sequence, _ = team.replica.read_vector().get(machine.id, (0, ""))
    team.append(REVOKE, MEMBERS, {"machine": machine.id, "last_sequence": sequence})


def change_role(team: Team, machine: Machine, role: str) -> None:
    team.require_role(ADMIN)
    if role not in ROLES:
        raise UserError(f"{role!r} is no role", f"one of: {', '.join(ROLES)}")
    sequence, _ = team.replica.read_vector().get(machine.id, (0, ""))
    team.append(ROLE, MEMBERS, {"machine": machine.id, "role": role, "after_sequence": sequence})


def set_policy(team: Team, deliveries: tuple[str, ...]) -> None:
    """Let lessons with these deliveries arrive in force once a reviewer approved them."""
    team.require_role(ADMIN)
    if wrong := [name for name in deliveries if name not in AUTOMATIC_DELIVERIES]:
        raise UserError(
            f"{wrong[0]!r} cannot arrive in force by itself", f"choose among: {', '.join(AUTOMATIC_DELIVERIES)}"
        )
    team.append(POLICY, MEMBERS, {"accept": list(deliveries)})


def list_proposals(team: Team) -> list[tuple[Subject, Version]]:
    """Return the versions that wait for a reviewer: proposed ones, and newer ones than the version in force."""
    proposals = []
    for subject in team.state.subjects.values():
        if subject.status in (RETIRED, ERASED):
            continue
        for version in subject.versions:
            is_newest = version.hash in subject.heads
            if is_newest and version.hash != subject.in_force and version.content is not None:
                proposals.append((subject, version))
    return proposals


def list_arrivals(team: Team) -> list[Arrival]:
    """Return what the team approved and nobody decided about on this machine."""
    decisions = team_log.read_decisions(team.connection, team.config.team)
    project_paths = read_paths_by_remote(team.connection)
    arrivals = []
    for subject in team.state.subjects.values():
        version = subject.get_version(subject.in_force)
        if subject.status != IN_FORCE or version is None or version.content is None:
            continue
        decision = decisions.get(subject.name)
        if decision and (decision["version"] == version.hash or decision["decision"] == MUTED):
            continue
        arrivals.append(_build_arrival(team, subject, version, project_paths))
    return arrivals


def _build_arrival(team: Team, subject: Subject, version: Version, project_paths: Mapping[str, str]) -> Arrival:
    author = team.state.machines[version.writer].member if version.writer in team.state.machines else version.writer
    replay, objection = None, ""
    content = version.content or {}
    if content.get("type") == sharing.LESSON:
        try:
            lesson = adding.parse_valid_lesson(sharing.build_lesson_record(content, project_paths))
            replay = replay_lesson(team.connection, lesson)
        except UserError as error:
            objection = error.say
    return Arrival(subject, version, author, replay, objection)


def accept_arrival(team: Team, arrival: Arrival, path: str) -> str:
    """Put an arrived version in force here; return a line about it."""
    content = arrival.version.content or {}
    if arrival.objection:
        raise UserError(f"{arrival.title}: {arrival.objection}", "hardwon team review")
    if content.get("type") == sharing.LESSON:
        message = _put_lesson_in_force(team, content, path)
    elif content.get("type") == sharing.MEMORY:
        message = _propose_memory(team, content)
    else:
        message = f"read it with: hardwon team show {arrival.subject.name}"
    _record_decision(team, arrival.subject.name, arrival.version.hash, ACCEPTED)
    return message


def reject_arrival(team: Team, arrival: Arrival) -> None:
    _record_decision(team, arrival.subject.name, arrival.version.hash, REJECTED)


def _put_lesson_in_force(team: Team, content: Mapping[str, Any], path: str) -> str:
    project_paths = read_paths_by_remote(team.connection)
    record = sharing.build_lesson_record(content, project_paths)
    existing_ids = {lesson.id for lesson in lessons_file.read(lessons_file.get_lessons_path(team.home)).lessons}
    now = clock.now()
    approvals.ensure_upgraded(team.home, team.connection, now)
    if record["id"] in existing_ids:
        lesson = adding.replace_record(team.home, record["id"], {**record, "status": "active"})
    else:
        lesson = adding.add_record(team.home, record, is_approved=True, source=adding.SOURCE_TEAM)
    lessons.put_in_force(team.home, team.connection, [lesson], path)
    return f"in force: {lesson.summary} [{lesson.slug}]"


def _propose_memory(team: Team, content: Mapping[str, Any]) -> str:
    project_paths = read_paths_by_remote(team.connection)
    memory = memories.propose(
        team.connection,
        team.home,
        str(content.get("memory_type", "")),
        str(content.get("text", "")),
        project=project_paths.get(str(content.get("remote", "")), ""),
        source="team",
        now=clock.now(),
    )
    return f"proposed as memory {memory.id}: hardwon memory approve {memory.id}"


def apply_state(team: Team) -> list[str]:
    """Follow the team: accept what the policy lets in, withdraw what was retired, erased or rolled back."""
    messages = []
    accepted_deliveries = tuple(team.state.policy.get("accept") or ())
    for arrival in list_arrivals(team):
        lesson = (arrival.version.content or {}).get("lesson") or {}
        delivery = lesson.get("delivery")
        if delivery in accepted_deliveries and delivery in AUTOMATIC_DELIVERIES and not arrival.objection:
            try:
                messages.append(accept_arrival(team, arrival, TEAM))
            except UserError as error:  # such as a lesson of one's own that says the same
                messages.append(f"{arrival.title}: {error.say}")
                reject_arrival(team, arrival)
    for name, decision in team_log.read_decisions(team.connection, team.config.team).items():
        subject = team.state.subjects.get(name)
        if subject and decision["decision"] == ACCEPTED and subject.status in (RETIRED, ERASED):
            _withdraw(team, subject)
            with transaction(team.connection):
                team_log.delete_decision(team.connection, team.config.team, name)
            messages.append(f"{subject.status} by the team: {name}")
    return messages


def accept_everything(team: Team, folder: str, *, with_blocks: bool) -> list[str]:
    """Accept every approved lesson on a machine without a person, whose owner chose so by starting this.

    `folder` is the checkout that the job works in, since no session has told of it yet.
    """
    project_path = projects.find_project_path(folder)
    remote = projects.read_remote_url(project_path)
    with transaction(team.connection):
        find_or_create(team.connection, project_path, remote, clock.now())
    messages = []
    for arrival in list_arrivals(team):
        lesson = (arrival.version.content or {}).get("lesson") or {}
        if not lesson or arrival.objection or (lesson.get("delivery") == "block" and not with_blocks):
            continue
        messages.append(accept_arrival(team, arrival, TEAM))
    return messages


def _withdraw(team: Team, subject: Subject) -> None:
    """Take a lesson of the team out of force here."""
    lesson_id = subject.name.partition(":")[2]
    file = lessons_file.read(lessons_file.get_lessons_path(team.home))
    lesson = next((lesson for lesson in file.lessons if lesson.id == lesson_id and lesson.status == "active"), None)
    if lesson is not None:
        lessons.retire_lesson(team.home, team.connection, lesson)


def _record_decision(team: Team, subject: str, version: str, decision: str) -> None:
    with transaction(team.connection):
        team_log.set_decision(team.connection, team.config.team, subject, version, decision, clock.now())
