"""team: share lessons with a team, or with one's other machines"""

from __future__ import annotations

import getpass
import json
import os
import platform
import re
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import click

from hardwon import paths, projects
from hardwon.actions import team_decisions
from hardwon.actions.team_decisions import Arrival, Team
from hardwon.cli import CommandGroup
from hardwon.cli.context import (
    EXISTING_FILE,
    find_project_here,
    is_interactive,
    json_option,
    open_store,
    require_consent,
    require_person,
    yes_option,
)
from hardwon.cli.output import echo_field, echo_json, echo_table, echo_text
from hardwon.errors import UserError
from hardwon.handoff.handoffs import find_handoff, read_page
from hardwon.lessons.lookup import find_lesson
from hardwon.lessons.replay import describe_replay
from hardwon.store import memories, team_log
from hardwon.store.approvals import COMMAND_LINE
from hardwon.store.db import Connection, transaction
from hardwon.team import client, sharing
from hardwon.team.client import ServerAway, ServerRefusal, SyncReport, TeamConfig
from hardwon.team.record import Content
from hardwon.team.state import ERASED, ROLES
from hardwon.text.characters import format_count, to_printable_line

_DATABASE_VARIABLE, _URL_VARIABLE, _TOKEN_VARIABLE = "HARDWON_TEAM_DATABASE", "HARDWON_TEAM_URL", "HARDWON_TEAM_TOKEN"
_DEFAULT_PORT = 7345
_TITLE_WIDTH = 60
_JOIN_FIX = "hardwon team join URL CODE, or hardwon team serve to start one; with git alone: hardwon team init --git"

subject_argument = click.argument("name", metavar="SUBJECT")


@click.group(cls=CommandGroup)
def team() -> None:
    """Share lessons with a team, or with your other machines.

    Prompts, events and transcripts never leave this machine.
    """


def _read_config() -> TeamConfig:
    """Return this machine's team; UserError if it is in none."""
    config = client.read_config(paths.get_home())
    if config is None:
        raise UserError("this machine is in no team", _JOIN_FIX)
    return config


@contextmanager
def _open_team(*, must_sync: bool = False) -> Iterator[Team]:
    """Open this machine's team; with `must_sync`, exchange records before and after."""
    config = _read_config()
    with open_store() as connection:
        if must_sync:
            _exchange(connection, config)
        yield Team(paths.get_home(), connection, config)
        if must_sync:
            _exchange(connection, config)


@contextmanager
def _open_for_decision(action: str) -> Iterator[Team]:
    """Open this machine's team for a person who decides something for everybody.

    `action` names the decision in the refusal that an agent gets.
    """
    require_person(action)
    with _open_team(must_sync=True) as opened_team:
        yield opened_team


def _exchange(connection: Connection, config: TeamConfig) -> SyncReport:
    """Exchange records with the server; UserError if it is away or refuses."""
    try:
        return client.exchange_records(connection, config)
    except ServerAway as error:
        raise UserError(f"{config.url} cannot be reached: {error}", "try again later; nothing is lost") from None
    except ServerRefusal as error:
        raise UserError(f"{config.url} refused: {error.reason}", "hardwon team status") from None


@team.command()
@click.option("--git", "with_git", is_flag=True, required=True, help="share lessons as files of this repository")
def init(with_git: bool) -> None:
    """Lay out a repository for lessons that are reviewed in pull requests; no server is needed."""
    require_person("laying out a repository")
    project = find_project_here()
    for name in sharing.lay_out_repository(project):
        echo_text(f"wrote     {name}")
    click.echo("next      commit these files, then: hardwon team propose SLUG")


@team.command()
@click.argument("slug")
@yes_option
def propose(slug: str, yes: bool) -> None:
    """Write a lesson into this repository, on a branch for a pull request.

    Shows what it writes, and asks. Your work tree and your branch stay as they are.
    """
    require_person("proposing")
    project = find_project_here()
    lesson = find_lesson(paths.get_home(), slug)
    with open_store() as connection:
        text = team_decisions.build_proposal(connection, project, lesson)
    echo_text(text)
    require_consent(yes, f"Commit it on the branch {team_decisions.BRANCH_PREFIX}{lesson.slug}?")
    branch = team_decisions.commit_proposal(project, lesson, text)
    echo_text(f"committed on {branch}")
    echo_text(f"next      git push -u origin {branch}, then open a pull request")


@team.command()
@click.argument("folder", default=".", type=click.Path(exists=True, file_okay=False))
@json_option
def check(folder: str, as_json: bool) -> None:
    """Check the lesson files of a repository: rules, secrets, patterns and their authors' counts."""
    project = projects.find_project_path(os.path.abspath(folder))
    faults = list(sharing.find_file_faults(project))
    if as_json:
        echo_json({"faults": faults})
    elif not faults:
        click.echo("lessons   ok")
    else:
        for fault in faults:
            echo_text(fault)
    if faults:
        raise SystemExit(1)


@team.command()
@click.option("--database", envvar=_DATABASE_VARIABLE, required=True, metavar="URL", help="PostgreSQL 15 or later")
@click.option("--host", default="127.0.0.1", show_default=True, help="address to listen on")
@click.option(
    "--port", default=_DEFAULT_PORT, show_default=True, type=click.IntRange(1, 65535), help="port to listen on"
)
@click.option("--certificate", type=EXISTING_FILE, help="TLS certificate, as PEM")
@click.option("--key", "key_file", type=EXISTING_FILE, help="its private key, as PEM")
@click.option("--self-signed", "folder", type=click.Path(file_okay=False), help="make a certificate in this folder")
@click.option("--public-host", metavar="NAME", help="name that other machines reach it by; its address if not given")
@click.option("--new-team", is_flag=True, help="print a code with which another team can be founded")
@click.option("--check", is_flag=True, help="check the database and stop")
def serve(
    database: str,
    host: str,
    port: int,
    certificate: str | None,
    key_file: str | None,
    folder: str | None,
    public_host: str | None,
    new_team: bool,
    check: bool,
) -> None:
    """Serve a team from a PostgreSQL database, until interrupted.

    The database is given as a URL such as postgresql:///hardwon, or in HARDWON_TEAM_DATABASE.
    """
    require_person("serving a team")
    try:
        from hardwon.team import server
    except ImportError as error:
        raise UserError(f"the server needs the package {error.name}", "pip install 'hardwon[team]'") from None
    authority = ""
    if folder:
        certificate, key_file, authority = server.make_certificates(folder, public_host or host)
    is_loopback = host in ("127.0.0.1", "localhost", "::1")
    if not certificate and not is_loopback:
        raise UserError(
            f"{host} is not this machine, so it needs TLS", "--certificate and --key, or --self-signed FOLDER"
        )
    is_new = server.prepare_database(database)
    if check:
        click.echo("database  ok")
        return
    url = f"{'https' if certificate else 'http'}://{public_host or host}:{port}"
    if is_new or new_team:
        code = secrets.token_urlsafe(18)
        server.add_setup_code(database, code)
        authority_option = f" --authority {authority}" if authority else ""
        click.echo(f"To found the team, on your own machine:  hardwon team join {url} {code}{authority_option}")
    click.echo(f"serving {url}")
    server.run(database, host, port, certificate, key_file)


@team.command()
@click.argument("url")
@click.argument("code")
@click.option("--name", default=platform.node, metavar="NAME", help="of this machine; its host name if not given")
@click.option("--member", default=getpass.getuser, metavar="NAME", help="your name, if the invite has none")
@click.option("--team-name", default="team", show_default=True, help="name of a new team")
@click.option("--authority", default="", type=click.Path(dir_okay=False), help="certificate of the server's authority")
def join(url: str, code: str, name: str, member: str, team_name: str, authority: str) -> None:
    """Join a team with an invite's code, or found one with a server's first code."""
    require_person("joining a team")
    home = paths.get_home()
    if client.read_config(home):
        raise UserError("this machine is in a team already", "hardwon team leave")
    authority = os.path.abspath(authority) if authority else ""
    with open_store() as connection:
        try:
            if "." in code:  # an invite's code begins with the team's id
                config = client.join_team(connection, url, code, member=member, name=name, authority=authority)
            else:
                config = client.found_team(
                    connection, url, code, team_name=team_name, member=member, name=name, authority=authority
                )
        except ServerAway as error:
            raise UserError(f"{url} cannot be reached: {error}", "check the address, then try again") from None
        except ServerRefusal as error:
            raise UserError(f"{url} refused: {error.reason}", "ask for a new invite: hardwon team invite") from None
        client.write_config(home, config)
        _exchange(connection, config)
        joined_team = Team(home, connection, config)
        messages = team_decisions.apply_state(joined_team)
        click.echo(f"joined {joined_team.state.name or config.team} as {joined_team.machine.role}")
        for message in messages:
            echo_text(message)
        _print_waiting(joined_team)


@team.command()
@yes_option
def leave(yes: bool) -> None:
    """Leave the team: forget its key and its log on this machine. Accepted lessons stay."""
    require_person("leaving the team")
    home = paths.get_home()
    config = _read_config()
    require_consent(yes, "Leave the team? To come back you need a new invite.")
    with open_store() as connection, transaction(connection):
        team_log.delete_team(connection, config.team)
    client.delete_config(home)
    click.echo("left the team; the lessons you accepted stay in force")


@team.command()
@json_option
def status(as_json: bool) -> None:
    """Show the team, this machine's role, and whether anything waits."""
    with _open_team() as opened_team:
        state = opened_team.state
        config = opened_team.config
        arrivals = team_decisions.list_arrivals(opened_team)
        proposals = team_decisions.list_proposals(opened_team)
        machine = None  # one that only reads has no key
        if config.key:
            machine = state.machines.get(config.load_key().machine)
        report: dict[str, Any] = {
            "team": state.name,
            "url": config.url,
            "machine": machine.id if machine else None,
            "role": machine.role if machine else "reader",
            "revoked": bool(machine and machine.is_revoked),
            "machines": sum(not known.is_revoked for known in state.machines.values()),
            "arrivals": len(arrivals),
            "proposals": len(proposals),
            "quarantined": sorted(opened_team.replica.read_forks()),
        }
    if as_json:
        echo_json(report)
        return
    echo_text(f"team      {report['team']} at {report['url']}")
    role = "revoked" if report["revoked"] else report["role"]
    click.echo(f"machine   {report['machine'] or 'read only'}, {role}")
    click.echo(f"machines  {report['machines']}")
    click.echo(f"waiting   {report['arrivals']} to accept here, {report['proposals']} for a reviewer")
    for quarantined in report["quarantined"]:
        click.echo(f"forked    machine {quarantined} wrote two different records under one number; it does not count")


@team.command()
@json_option
def members(as_json: bool) -> None:
    """List the machines of the team."""
    with _open_team() as opened_team:
        machines = list(opened_team.state.machines.values())
    if as_json:
        records = []
        for machine in machines:
            records.append(
                {
                    "id": machine.id,
                    "name": machine.name,
                    "member": machine.member,
                    "role": machine.role,
                    "revoked": machine.is_revoked,
                }
            )
        echo_json(records)
        return
    rows = []
    for machine in machines:
        role = "revoked" if machine.is_revoked else machine.role
        rows.append([machine.id[:12], machine.member, machine.name, role])
    echo_table(["machine", "member", "name", "role"], rows)


@team.command()
@click.option("--role", default="proposer", show_default=True, type=click.Choice(ROLES), help="what they may do")
@click.option("--member", default="", metavar="NAME", help="who it is for")
def invite(role: str, member: str) -> None:
    """Print the command with which another machine joins; it works once."""
    with _open_for_decision("inviting a machine") as opened_team:
        code = team_decisions.invite(opened_team, role, member)
        url = opened_team.config.url
    click.echo(f"hardwon team join {url} {code}")


@team.command("role")
@click.argument("machine")
@click.argument("role", type=click.Choice(ROLES))
def change_role(machine: str, role: str) -> None:
    """Give a machine another role."""
    with _open_for_decision("changing a role") as opened_team:
        target = team_decisions.find_machine(opened_team, machine)
        team_decisions.change_role(opened_team, target, role)
    echo_text(f"{target.name} of {target.member} is a {role} now")


@team.command()
@click.argument("machine")
@yes_option
def revoke(machine: str, yes: bool) -> None:
    """Exclude a machine at once; what it shared stays."""
    with _open_for_decision("revoking a machine") as opened_team:
        target = team_decisions.find_machine(opened_team, machine)
        require_consent(yes, f"Revoke {target.name} of {target.member}?")
        team_decisions.revoke_machine(opened_team, target)
    echo_text(f"revoked {target.name} of {target.member}")


@team.command()
@click.argument("deliveries", nargs=-1, metavar="[note] [hold] [start]")
def policy(deliveries: tuple[str, ...]) -> None:
    """Let approved lessons with these deliveries arrive in force; without any, each machine decides."""
    with _open_for_decision("changing the team's policy") as opened_team:
        team_decisions.set_policy(opened_team, deliveries)
    if deliveries:
        click.echo(f"approved lessons arrive in force: {', '.join(deliveries)}; blocks always ask")
    else:
        click.echo("each machine decides about what arrives")


@team.command()
@click.argument("name", metavar="SLUG|M1|H1")
@yes_option
def share(name: str, yes: bool) -> None:
    """Share a lesson by its slug, a memory such as M1, or a handoff such as H1.

    Shows what leaves this machine, and asks.
    """
    with _open_for_decision("sharing") as opened_team:
        content = _build_content(opened_team, name)
        click.echo("This leaves your machine:")
        echo_text(json.dumps(content, indent=2, ensure_ascii=False))
        require_consent(yes, "Share it with the team?")
        record = team_decisions.share(opened_team, content)
        subject = opened_team.state.subjects[record.subject]
    outcome = "shared; it waits for a reviewer" if subject.in_force != record.hash else "shared and approved"
    echo_text(f"{outcome}: {sharing.describe_content(content)}")


def _build_content(opened_team: Team, name: str) -> Content:
    """Return what would be shared of a lesson, memory or handoff; UserError if it is not approved."""
    listed_id = re.fullmatch(r"([MH]):?(\d+)", name)  # earlier versions printed M:1
    kind, number = listed_id.groups() if listed_id else ("", "")
    if kind == "M":
        memory = memories.get_memory(opened_team.connection, int(number))
        if memory is None or memory.status != "active":
            raise UserError(f"there is no approved memory {number}", "hardwon memory list")
        return sharing.build_memory_content(memory)
    if kind == "H":
        reflection = find_handoff(opened_team.connection, number)
        page = read_page(reflection)
        if page is None:
            raise UserError(f"the text of handoff {number} is gone", "hardwon handoff list")
        return sharing.build_handoff_content(reflection.topic, page.text, reflection.project)
    lesson = find_lesson(opened_team.home, name)
    if lesson.status != "active":
        raise UserError(f"{lesson.slug} is {lesson.status}, so it is not shared", "hardwon lessons list")
    return sharing.build_lesson_content(lesson)


@team.command("list")
@json_option
def print_subjects(as_json: bool) -> None:
    """List what the team shares."""
    with _open_team() as opened_team:
        subjects = list(opened_team.state.subjects.values())
    if as_json:
        echo_json(
            [
                {
                    "subject": entry.name,
                    "status": entry.status,
                    "counts": dict(entry.counts),
                    "versions": len(entry.versions),
                }
                for entry in subjects
            ]
        )
        return
    rows = []
    for entry in subjects:
        version = entry.get_version(entry.in_force)
        if version is None and entry.versions:
            version = entry.versions[-1]
        content = version.content if version and entry.status != ERASED else None
        title = to_printable_line(sharing.describe_content(content), _TITLE_WIDTH)
        status = entry.status
        if len(entry.heads) > 1:  # machines changed it without knowing of each other
            status += f", {len(entry.heads)} versions"
        outcome = ""
        if entry.counts.get("told"):
            outcome = f"{entry.counts['told']}, {entry.counts.get('told_failed', 0)} failed"
        rows.append([entry.name, status, outcome, title])
    if rows:
        echo_table(["subject", "status", "told", "what"], rows)
    else:
        click.echo("nothing is shared yet: hardwon team share SLUG")


@team.command()
@subject_argument
@json_option
def show(name: str, as_json: bool) -> None:
    """Show every version of something that is shared."""
    with _open_team() as opened_team:
        subject = opened_team.find_subject(name)
        if as_json:
            versions = {version.hash: version.content for version in subject.versions}
            fields = {"subject": subject.name, "status": subject.status, "inForce": subject.in_force}
            echo_json({**fields, "versions": versions})
            return
        echo_text(f"{subject.name}: {subject.status}")
        for version in subject.versions:
            author = opened_team.find_author(version)
            mark = " (in force)" if version.hash == subject.in_force else ""
            echo_field(version.hash[:8], f"by {author}{mark}")
            text = "(erased)" if version.content is None else json.dumps(version.content, indent=2, ensure_ascii=False)
            echo_field(name="", text=text)


@team.command()
@click.option("--accept", "accepted", multiple=True, metavar="SUBJECT", help="accept it without asking")
@click.option("--reject", "rejected", multiple=True, metavar="SUBJECT", help="reject it without asking")
def review(accepted: tuple[str, ...], rejected: tuple[str, ...]) -> None:
    """Decide about what arrived, and as a reviewer about what is proposed."""
    with _open_for_decision("reviewing") as opened_team:
        names = {opened_team.find_subject(name).name: True for name in accepted}
        names |= {opened_team.find_subject(name).name: False for name in rejected}
        if not names and not is_interactive():
            _print_waiting(opened_team)
            return
        proposals = team_decisions.list_proposals(opened_team) if opened_team.is_reviewer else []
        for proposal in proposals:
            if names:
                is_approved = names.get(proposal.subject.name, False)
            else:
                _print_arrival(opened_team, proposal)
                is_approved = click.confirm("Approve it for the team?")
            if is_approved:
                team_decisions.approve_version(opened_team, proposal.subject, proposal.version.hash)
                echo_text(f"approved for the team: {proposal.title}")
        for arrival in team_decisions.list_arrivals(opened_team):
            _decide_arrival(opened_team, arrival, names)


def _decide_arrival(opened_team: Team, arrival: Arrival, names: dict[str, bool]) -> None:
    """Accept or reject something that arrived: as named on the command line, or else as the person answers."""
    _print_arrival(opened_team, arrival)
    if not names:
        is_accepted = click.confirm("Accept it here?", default=False)
    elif arrival.subject.name in names:
        is_accepted = names[arrival.subject.name]
    else:
        return  # what nobody named waits for the next review
    if is_accepted:
        echo_text(team_decisions.accept_arrival(opened_team, arrival, COMMAND_LINE))
    else:
        team_decisions.reject_arrival(opened_team, arrival)


def _print_arrival(opened_team: Team, arrival: Arrival) -> None:
    """Print what arrived, who shared it, and what it would have done here."""
    arrival = team_decisions.replay_arrival(opened_team, arrival)
    echo_text(f"{arrival.subject.name} by {arrival.author}: {arrival.title}")
    for name, text in team_decisions.describe_arrival(arrival):
        echo_field(name, text)
    if arrival.objection:
        echo_field("but", arrival.objection)
    elif arrival.replay:
        echo_field("here", describe_replay(arrival.replay))


def _print_waiting(opened_team: Team) -> None:
    """Print what waits for a decision here."""
    waiting = team_decisions.list_waiting(opened_team)
    for arrival in waiting:
        _print_arrival(opened_team, arrival)
    if waiting:
        click.echo(f"{format_count(len(waiting), 'text')} to decide about: hardwon team review")


@team.command()
@subject_argument
def mute(name: str) -> None:
    """Keep something that the team shares out of force on this machine."""
    _change_mute(name, is_muted=True)


@team.command()
@subject_argument
def unmute(name: str) -> None:
    """Let something that was muted count again, after review."""
    _change_mute(name, is_muted=False)


def _change_mute(name: str, *, is_muted: bool) -> None:
    """Mute something on this machine, or let it count again."""
    require_person("muting")
    with _open_team() as opened_team:
        subject = opened_team.find_subject(name)
        team_decisions.set_mute(opened_team, subject, is_muted=is_muted)
        with suppress(UserError):  # the others learn of it with the next exchange
            _exchange(opened_team.connection, opened_team.config)
    click.echo(f"{'muted' if is_muted else 'unmuted'} {subject.name}")


@team.command()
@subject_argument
def retire(name: str) -> None:
    """Take something out of force everywhere."""
    with _open_for_decision("retiring for the team") as opened_team:
        subject = opened_team.find_subject(name)
        team_decisions.retire_subject(opened_team, subject)
    click.echo(f"retired {subject.name} for the team")


@team.command()
@subject_argument
@yes_option
def erase(name: str, yes: bool) -> None:
    """Erase a text on every machine and on the server, for good."""
    with _open_for_decision("erasing for the team") as opened_team:
        subject = opened_team.find_subject(name)
        require_consent(yes, f"Erase {subject.name} everywhere, for good?")
        team_decisions.erase_subject(opened_team, subject)
    click.echo(f"erased {subject.name}; backups of the server's database may still have it")


@team.command()
@subject_argument
def rollback(name: str) -> None:
    """Put the version approved before back in force everywhere."""
    with _open_for_decision("rolling back for the team") as opened_team:
        subject = opened_team.find_subject(name)
        echo_text(team_decisions.roll_back_subject(opened_team, subject))


@team.command()
def sync() -> None:
    """Exchange with the server now; the worker does it by itself."""
    with _open_team() as opened_team:
        report = _exchange(opened_team.connection, opened_team.config)
        refreshed_team = Team(opened_team.home, opened_team.connection, opened_team.config)
        messages = team_decisions.apply_state(refreshed_team)
        if team_decisions.report_counts(refreshed_team):
            _exchange(opened_team.connection, opened_team.config)
    click.echo(f"received {format_count(report.received, 'record')}, sent {report.sent}")
    for message in messages:
        echo_text(message)


@team.command()
@click.option("--once", is_flag=True, required=True, help="without a worker and without a key of its own")
@click.option("--url", envvar=_URL_VARIABLE, required=True, help=f"of the server, or {_URL_VARIABLE}")
@click.option("--token", envvar=_TOKEN_VARIABLE, required=True, help=f"that can only read, or {_TOKEN_VARIABLE}")
@click.option("--authority", default="", type=click.Path(dir_okay=False), help="certificate of the server's authority")
@click.option("--blocks", is_flag=True, help="put blocks in force, too")
def pull(once: bool, url: str, token: str, authority: str, blocks: bool) -> None:
    """Put the team's approved lessons in force here, for a container or a CI job."""
    home = paths.get_home()
    config = TeamConfig(url, token.partition(".")[0], token, key="", authority=authority)
    with open_store() as connection:
        _exchange(connection, config)
        pulled_team = Team(home, connection, config)
        messages = team_decisions.accept_everything(pulled_team, os.getcwd(), with_blocks=blocks)
    for message in messages:
        echo_text(message)
    click.echo(f"{format_count(len(messages), 'lesson')} of {pulled_team.state.name} here")


@team.command()
@click.argument("name")
@click.option("--revoke", "is_revoked", is_flag=True, help="revoke the tokens with this name instead")
def token(name: str, is_revoked: bool) -> None:
    """Create a token that can only read, for `hardwon team pull --once`."""
    require_person("creating a token")
    with _open_team() as opened_team:
        config = opened_team.config
        try:
            server = client.TeamClient(config.url, config.token, config.authority)
            answer = server.call("/v1/tokens", {"name": name, "revoke": is_revoked})
        except (ServerAway, ServerRefusal) as error:
            raise UserError(f"no token: {error}", "hardwon team status") from None
    click.echo(f"revoked {answer['revoked']}" if is_revoked else str(answer["token"]))
