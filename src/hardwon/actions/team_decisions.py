"""Carry out what a person decides about their team: share, review, accept, mute, roll back, propose to a repository."""

from __future__ import annotations

import os
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from hardwon import clock, projects
from hardwon.actions import approvals, lessons
from hardwon.actions.approvals import Decider, open_decider
from hardwon.actions.handoffs import undo_reflection
from hardwon.actions.memories import approve_memory, reject_or_retire_memory
from hardwon.efficacy.delivery_changes import build_lesson_proof
from hardwon.errors import UserError
from hardwon.handoff import git_commit, written_handoffs
from hardwon.lessons import adding, lessons_file
from hardwon.lessons.lessons_file import PROJECT_LESSONS_FOLDER
from hardwon.lessons.record import to_lesson_record
from hardwon.lessons.replay import MAX_REPLAYED_CALLS, Replay, replay_lesson
from hardwon.lessons.review_queue import describe_record
from hardwon.memories import memories, memory_files
from hardwon.store import reflections, team_log
from hardwon.store.approvals import TEAM
from hardwon.store.db import Connection, transaction
from hardwon.store.events import find_or_create_project, read_project_paths
from hardwon.store.memories import list_memories
from hardwon.team import sharing
from hardwon.team.client import TeamConfig, read_config
from hardwon.team.record import (
    APPROVE,
    COUNTS,
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
from hardwon.types import Lesson, replace

_ACCEPTED, _REJECTED, _MUTED = "accepted", "rejected", "muted"
_AUTOMATIC_DELIVERIES = ("note", "hold", "start")  # a block always needs a person's own yes
BRANCH_PREFIX = "hardwon/"


@dataclass(frozen=True, slots=True)
class Arrival:
    """A version that waits for a decision: by a reviewer for the team, or once it is approved by everybody here."""

    subject: Subject
    version: Version
    author: str
    objection: str  # why it cannot be accepted here, such as a repository that is not on this machine
    replay: Replay | None = None  # what the trigger would have done to the calls recorded here

    @property
    def is_approved(self) -> bool:
        return self.version.hash == self.subject.in_force

    @property
    def title(self) -> str:
        return sharing.describe_content(self.version.content)


def open_team(home: str, connection: Connection) -> Team | None:
    """Return the team of this machine for the viewer; None if it is in none, was revoked or can only read."""
    try:
        config = read_config(home)
        if config is None or not config.key:
            return None
        team = Team(home, connection, config)
        # The property is read for its check alone.
        team.machine  # noqa: B018 - raises if it was revoked
    except UserError:
        return None  # `hardwon doctor` says why
    return team


class Team:
    """The team of this machine: its replica, its state and this machine's role in it."""

    def __init__(self, home: str, connection: Connection, config: TeamConfig) -> None:
        self.home = home
        self.connection = connection
        self.config = config
        self.replica = Replica(connection, config.team)
        self.state: TeamState = self.replica.read_state()

    @property
    def machine(self) -> Machine:
        machine = self.state.machines.get(self.config.load_key().machine)
        if machine is None or machine.is_revoked:
            raise UserError("this machine is no longer in the team", "ask an admin for an invite: hardwon team invite")
        return machine

    @property
    def is_reviewer(self) -> bool:
        return ROLES.index(self.machine.role) >= ROLES.index(REVIEWER)

    def find_project(self, content: Mapping[str, Any]) -> str:
        """Return this machine's folder of the repository that a text is about; empty if it is about none."""
        return read_project_paths(self.connection).get(str(content.get("remote", "")), "")

    def find_author(self, version: Version) -> str:
        machine = self.state.machines.get(version.writer)
        return machine.member if machine else version.writer

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
        matches, similar = [], []
        for subject in self.state.subjects.values():
            names = _list_names(subject)
            if name in names:
                matches.append(subject)
            elif any(known_name.startswith(name) for known_name in names):
                similar.append(subject)
        # An exact name wins, so that one subject can be named even if another begins with its name.
        matches = matches or similar
        if len(matches) != 1:
            fact = "is not shared" if not matches else f"could be any of {len(matches)}"
            raise UserError(f"{name!r} {fact}", "hardwon team list")
        return matches[0]


def _list_names(subject: Subject) -> list[str]:
    """Return what people may call a subject: `lesson:ID`, the id alone, and the slugs of its versions."""
    names = [subject.name, subject.name.partition(":")[2]]
    for version in subject.versions:
        if slug := sharing.get_lesson(version.content).get("slug"):
            names.append(str(slug))
    return names


def share(team: Team, content: Mapping[str, Any]) -> Record:
    """Publish a text, or revise it if the team has it already; a reviewer's own words count as approved."""
    team.require_role(PROPOSER)
    name = sharing.name_subject(content, secrets.token_hex(8))
    known_subject = team.state.subjects.get(name)
    if known_subject and known_subject.versions:
        latest_content = dict(known_subject.versions[-1].content or {})
        latest_content.pop("salt", None)  # which differs in every record
        if latest_content == content:
            raise UserError("the team has exactly this already", "hardwon team list")
    record = team.append(REVISE if known_subject else PUBLISH, name, content)
    if team.is_reviewer:
        team.append(APPROVE, name, {"version": record.hash})
    # Whoever shares a text has it in force already.
    _record_decision(team, name, record.hash, _ACCEPTED)
    return record


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
    # The log keeps the record, but ignores it if others wrote versions and this machine may only propose.
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
    """Mute a subject on this machine, or unmute it."""
    team.append(MUTE if is_muted else UNMUTE, subject.name, {})
    if is_muted:
        _withdraw(team, subject)
        _record_decision(team, subject.name, subject.in_force, _MUTED)
    else:
        with transaction(team.connection):
            team_log.delete_decision(team.connection, team.config.team, subject.name)


def invite(team: Team, role: str, member: str) -> str:
    """Create an invite; return its code, which works once."""
    team.require_role(ADMIN)
    code = f"{team.config.team}.{secrets.token_urlsafe(18)}"
    team.append(INVITE, MEMBERS, {"code_hash": hash_code(code), "role": role, "member": member})
    return code


def find_machine(team: Team, name: str) -> Machine:
    """Return a machine by its id, its name or its member, if only one fits."""
    matches = []
    for machine in team.state.machines.values():
        has_name = machine.id.startswith(name) or name in (machine.name, machine.member)
        if has_name and not machine.is_revoked:
            matches.append(machine)
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
    """Give a machine another role; what it wrote up to now was written in its earlier one."""
    team.require_role(ADMIN)
    sequence, _ = team.replica.read_vector().get(machine.id, (0, ""))
    team.append(ROLE, MEMBERS, {"machine": machine.id, "role": role, "after_sequence": sequence})


def set_policy(team: Team, deliveries: tuple[str, ...]) -> None:
    """Let lessons with these deliveries arrive in force once a reviewer approved them."""
    team.require_role(ADMIN)
    if wrong := [name for name in deliveries if name not in _AUTOMATIC_DELIVERIES]:
        raise UserError(
            f"{wrong[0]!r} cannot arrive in force by itself", f"choose among: {', '.join(_AUTOMATIC_DELIVERIES)}"
        )
    team.append(POLICY, MEMBERS, {"accept": list(deliveries)})


def list_proposals(team: Team) -> list[Arrival]:
    """Return the versions that wait for a reviewer: proposed ones, and newer ones than the version in force."""
    proposals = []
    project_paths = read_project_paths(team.connection)
    for subject in team.state.subjects.values():
        if subject.status in (RETIRED, ERASED):
            continue
        for version in subject.versions:
            is_newest = version.hash in subject.heads
            if is_newest and version.hash != subject.in_force and version.content is not None:
                proposals.append(_build_arrival(team, subject, version, project_paths))
    return proposals


def list_arrivals(team: Team) -> list[Arrival]:
    """Return what the team approved and nobody decided about on this machine."""
    decisions = team_log.read_decisions(team.connection, team.config.team)
    project_paths = read_project_paths(team.connection)
    arrivals = []
    for subject in team.state.subjects.values():
        version = subject.get_version(subject.in_force)
        if subject.status != IN_FORCE or version is None or version.content is None:
            continue
        decision = decisions.get(subject.name)
        if decision and (decision["version"] == version.hash or decision["decision"] == _MUTED):
            continue
        arrivals.append(_build_arrival(team, subject, version, project_paths))
    return arrivals


def _build_arrival(team: Team, subject: Subject, version: Version, project_paths: Mapping[str, str]) -> Arrival:
    """Return a version with the reason why it cannot be accepted here, if there is one."""
    content = version.content or {}
    objection = ""
    try:
        sharing.check_arrived(subject.name, content, project_paths)
        if sharing.get_lesson(content):
            adding.parse_valid_lesson(sharing.build_lesson_record(content, project_paths))
    except UserError as error:
        objection = error.message
    return Arrival(subject, version, team.find_author(version), objection)


def list_waiting(team: Team) -> list[Arrival]:
    """Return what this machine's owner can decide about: proposals if it is a reviewer's, and arrivals."""
    proposals = list_proposals(team) if team.is_reviewer else []
    return proposals + list_arrivals(team)


def replay_arrival(team: Team, arrival: Arrival) -> Arrival:
    """Return an arrival with what its trigger would have done to the calls recorded here."""
    if arrival.objection or not sharing.get_lesson(arrival.version.content):
        return arrival
    record = sharing.build_lesson_record(arrival.version.content or {}, read_project_paths(team.connection))
    lesson = adding.parse_valid_lesson(record)
    return replace(arrival, replay=replay_lesson(team.connection, lesson, limit=MAX_REPLAYED_CALLS))


def describe_arrival(arrival: Arrival) -> list[tuple[str, str]]:
    """Return what a person reads before deciding: every field that reaches an agent or decides when."""
    content = arrival.version.content or {}
    rows = [(name, str(content[name])) for name in ("memory_type", "text") if content.get(name)]
    if lesson := sharing.get_lesson(content):
        try:
            record = to_lesson_record(adding.parse_valid_lesson({**lesson, "scope": {"type": "global"}}))
            scope = lesson.get("scope")
            if isinstance(scope, dict) and scope.get("remote"):
                record["scope"] = {"type": "project", "path": str(scope["remote"])}
            rows = describe_record(record)
        except UserError:
            rows = [(name, str(value)) for name, value in lesson.items()]
    for rival in arrival.subject.rivals:
        version = arrival.subject.get_version(rival)
        rival_text = sharing.describe_content(version.content if version else None)
        rows.append(("conflict", f"also approved: {rival_text}"))
    return rows


def accept_arrival(team: Team, arrival: Arrival, path: str) -> str:
    """Put an arrived version in force here; return a line about it."""
    content = arrival.version.content or {}
    if arrival.objection:
        raise UserError(f"{arrival.title}: {arrival.objection}", "hardwon team review")
    decider = open_decider(team.home, team.connection, path)
    if sharing.get_lesson(content):
        message = _put_lesson_in_force(team, decider, arrival.subject.name, content)
    elif content.get("type") == sharing.MEMORY:
        message = _take_over_memory(team, decider, arrival.subject, content)
    else:
        message = _take_over_handoff(team, decider, arrival)
    _record_decision(team, arrival.subject.name, arrival.version.hash, _ACCEPTED)
    return message


def reject_arrival(team: Team, arrival: Arrival) -> None:
    _record_decision(team, arrival.subject.name, arrival.version.hash, _REJECTED)


def _put_lesson_in_force(team: Team, decider: Decider, subject: str, content: Mapping[str, Any]) -> str:
    """Write a team's lesson into lessons.json, over its earlier version if there is one, and put it in force."""
    record = sharing.build_lesson_record(content, read_project_paths(team.connection))
    if _find_own_lesson(team, subject):
        # A colleague's record must not replace a lesson that this machine never shared or accepted.
        if subject not in team_log.read_decisions(team.connection, team.config.team):
            raise UserError(f"a lesson of yours has the same id: {record['id']}", "hardwon team mute SUBJECT")
        lesson = adding.replace_record(team.home, record["id"], {**record, "status": "active"})
    else:
        lesson = adding.add_record(team.home, record, is_approved=True, source=adding.SOURCE_TEAM)
    lessons.put_in_force(decider, [lesson])
    return f"in force: {lesson.summary} [{lesson.slug}]"


def _take_over_memory(team: Team, decider: Decider, subject: Subject, content: Mapping[str, Any]) -> str:
    """Write a team's memory into a file here, in place of its earlier version, and approve it."""
    _withdraw(team, subject)  # an earlier version of it
    memory = memories.propose(
        team.connection,
        team.home,
        str(content.get("memory_type", "")),
        str(content.get("text", "")),
        project=team.find_project(content),
        source="team",
        session=subject.name,  # by which it is found when the team retires it
        now=decider.now,
    )
    approve_memory(decider, memory)
    return f"in force: memory {memory.id}: {memory.text}"


def _take_over_handoff(team: Team, decider: Decider, arrival: Arrival) -> str:
    """Keep a colleague's handoff as a ratified one of the project here, in place of its earlier version."""
    _withdraw(team, arrival.subject)
    content = arrival.version.content or {}
    _, body = memory_files.split_front_matter(str(content.get("text", "")))  # its fields are about another machine
    handoff = written_handoffs.save_handoff(
        team.connection,
        team.home,
        body,
        folder="",
        session=arrival.subject.name,
        agent="",
        project=team.find_project(content),
        topic=str(content.get("topic", "")),
        now=decider.now,
        is_ratified=True,
        fields={"from": arrival.author},
    )
    approvals.record_handoff(decider, handoff.id)
    return f"taken over: handoff {handoff.id}: {handoff.topic}"


def apply_state(team: Team) -> list[str]:
    """Follow the team: accept what the policy lets in, withdraw what was retired, erased or rolled back."""
    messages = []
    policy_deliveries = tuple(team.state.policy.get("accept") or ())
    for arrival in list_arrivals(team):
        delivery = sharing.get_lesson(arrival.version.content).get("delivery")
        # Both lists: an admin's record may name a delivery that never arrives by itself.
        is_let_in = delivery in policy_deliveries and delivery in _AUTOMATIC_DELIVERIES
        if not is_let_in or arrival.objection:
            continue
        try:
            messages.append(accept_arrival(team, arrival, TEAM))
        except UserError as error:  # such as a lesson of one's own that says the same
            messages.append(f"{arrival.title}: {error.message}")
            reject_arrival(team, arrival)
    for name, decision in team_log.read_decisions(team.connection, team.config.team).items():
        subject = team.state.subjects.get(name)
        if subject and decision["decision"] == _ACCEPTED and subject.status in (RETIRED, ERASED):
            _withdraw(team, subject, is_erased=subject.status == ERASED)
            with transaction(team.connection):
                team_log.delete_decision(team.connection, team.config.team, name)
            messages.append(f"{subject.status} by the team: {name}")
    return messages


def accept_everything(team: Team, folder: str, *, with_blocks: bool) -> list[str]:
    """Accept every approved lesson on a machine without a person, whose owner chose so by starting this.

    `folder` is the checkout that the job works in, since no session has told of it yet.
    """
    project_path = projects.find_project_path(folder)
    # Lessons about a repository are matched by its remote.
    remote = projects.read_remote_url(project_path)
    with transaction(team.connection):
        find_or_create_project(team.connection, project_path, remote, clock.now())
    messages = []
    for arrival in list_arrivals(team):
        lesson = sharing.get_lesson(arrival.version.content)
        if not lesson or arrival.objection:
            continue
        if lesson.get("delivery") != "block" or with_blocks:
            messages.append(accept_arrival(team, arrival, TEAM))
    return messages


def _withdraw(team: Team, subject: Subject, *, is_erased: bool = False) -> None:
    """Take out of force here what was accepted of a subject; an erased lesson that came from the team goes for good."""
    decider = open_decider(team.home, team.connection, TEAM)
    if lesson := _find_own_lesson(team, subject.name):
        if lesson.status == "active":
            lessons.retire_lesson(decider, lesson)
        if is_erased and lesson.extra.get("source") == adding.SOURCE_TEAM:
            adding.remove_record(team.home, lesson.id)
    for memory in list_memories(team.connection, "active"):
        if memory.session == subject.name:
            reject_or_retire_memory(decider, memory)
    for handoff in reflections.list_reflections(team.connection, reflections.RATIFIED, session=subject.name):
        undo_reflection(decider, handoff.id)


def _find_own_lesson(team: Team, subject: str) -> Lesson | None:
    """Return the lesson of lessons.json that a subject of the team is about; None if there is none."""
    return lessons_file.find_own_lesson(team.home, subject.removeprefix(f"{sharing.LESSON}:"))


def report_counts(team: Team) -> int:
    """Tell the team how often its lessons fired here and what followed, as totals; return how many changed.

    Whoever reads them sees sums over all machines: no person, machine, session or call.
    """
    last_totals = team.replica.read_last_totals(team.machine.id)
    changed_count = 0
    for subject in team.state.subjects.values():
        if subject.status != IN_FORCE:
            continue
        lesson = _find_own_lesson(team, subject.name)
        if lesson is None:  # not accepted here
            continue
        proof = build_lesson_proof(team.connection, lesson)
        totals = {
            "told": proof.told_counts.total,
            "told_failed": proof.told_counts.failed,
            "silent": proof.silent_counts.total,
            "silent_failed": proof.silent_counts.failed,
        }
        if any(totals.values()) and last_totals.get(subject.name) != totals:
            team.replica.append(team.config.load_key(), COUNTS, subject.name, {"totals": totals})
            changed_count += 1
    return changed_count


def _record_decision(team: Team, subject: str, version: str, decision: str) -> None:
    with transaction(team.connection):
        team_log.set_decision(team.connection, team.config.team, subject, version, decision, clock.now())


def build_proposal(connection: Connection, project: str, lesson: Lesson) -> str:
    """Return the file that a proposal adds, with what the trigger would have done to this machine's calls."""
    if lesson.status != "active":
        raise UserError(f"{lesson.slug} is {lesson.status}, so it is not proposed", "hardwon lessons list")
    return sharing.build_lesson_file(lesson, replay_lesson(connection, replace(lesson, project=project)))


def commit_proposal(project: str, lesson: Lesson, text: str) -> str:
    """Commit the file on a branch that is not checked out; return the branch."""
    # The commit is made without a checkout, so the person's work tree stays as it is.
    branch = f"{BRANCH_PREFIX}{lesson.slug}"
    name = os.path.join(PROJECT_LESSONS_FOLDER, f"{lesson.slug}.json")
    git_commit.commit_on_branch(project, branch, name, text, f"Add lesson: {lesson.summary}")
    return branch
