"""Talk to a team server: found or join a team, and exchange records with it.

Only the worker and commands come here. Hooks never touch the network.
"""

from __future__ import annotations

import json
import os
import secrets
import ssl
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from http import HTTPStatus
from http.client import HTTPException
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.parse import urlsplit
from urllib.request import BaseHandler, HTTPRedirectHandler, HTTPSHandler, ProxyHandler, Request, build_opener

import orjson

from hardwon import paths
from hardwon.errors import UserError
from hardwon.store.db import Connection
from hardwon.team.record import (
    FOUND,
    JOIN,
    MEMBERS,
    BadRecord,
    MachineKey,
    compare_vectors,
    compute_digest,
    create_key,
    derive_team_id,
    dump_key,
    from_wire,
    load_key,
    sign_token,
    to_wire,
)
from hardwon.team.replica import MAX_RECORDS_PER_MESSAGE, Message, Replica

_TIMEOUT_SECONDS = 15.0
_MAX_ANSWER_BYTES = 32 * 1024 * 1024
_MAX_ROUNDS = 200  # of 500 records each, so that a server that always asks for more cannot keep us for ever
_LOOPBACK_HOSTS = ("127.0.0.1", "localhost", "::1")


class ServerRefusal(Exception):
    """An answer of the server that is not 200."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status = status
        self.reason = reason


class ServerAway(Exception):
    """The server cannot be reached or does not answer in time."""


@dataclass(frozen=True, slots=True)
class TeamConfig:
    """How this machine reaches its team; it holds the private key and the token, so the file is 0600."""

    url: str
    team: str
    token: str
    key: str  # empty for a token that can only read
    authority: str = ""  # a file with the certificate of the authority that signed the server's

    def load_key(self) -> MachineKey:
        if not self.key:
            raise UserError("this machine can only read the team's lessons", "hardwon team join URL CODE")
        return load_key(self.key)


@dataclass(frozen=True, slots=True)
class SyncReport:
    """What one exchange did."""

    received: int
    sent: int
    refused: Mapping[str, str]
    forks: tuple[str, ...]


def read_config(home: str) -> TeamConfig | None:
    """Return how to reach the team; None if this machine is in none, UserError if the file is broken."""
    path = os.path.join(home, paths.TEAM_CONFIG)
    try:
        return TeamConfig(**json.loads(paths.read_text(path)))
    except FileNotFoundError:
        return None
    except (OSError, ValueError, TypeError) as error:
        raise UserError(f"{path} cannot be read: {error}", "hardwon team leave, then join again") from None


def write_config(home: str, config: TeamConfig) -> None:
    """Write the team's configuration, which has this machine's key, so that only the person can read it."""
    paths.make_private_folder(home)
    text = json.dumps(asdict(config), indent=2) + "\n"
    paths.write_private(os.path.join(home, paths.TEAM_CONFIG), text.encode())


def delete_config(home: str) -> None:
    with suppress(FileNotFoundError):
        os.unlink(os.path.join(home, paths.TEAM_CONFIG))


class TeamClient:
    """Calls of one team server."""

    def __init__(self, url: str, token: str = "", authority: str = "") -> None:
        self._url = url.rstrip("/")
        self._token = token
        parts = urlsplit(self._url)
        if parts.scheme != "https" and parts.hostname not in _LOOPBACK_HOSTS:
            raise UserError(f"{url} is not encrypted", "use https://, or http:// on this machine only")
        # No proxy and no redirect: the token must reach this server and no other.
        handlers: list[BaseHandler] = [ProxyHandler({}), _NoRedirect()]
        if parts.scheme == "https":  # reading the system's authorities takes 40 ms
            handlers.append(HTTPSHandler(context=ssl.create_default_context(cafile=authority or None)))
        self._opener = build_opener(*handlers)

    def call(self, path: str, payload: Mapping[str, Any], *, timeout: float = _TIMEOUT_SECONDS) -> dict[str, Any]:
        """Post JSON and return the answer; ServerRefusal or ServerAway if there is none."""
        headers = {"content-type": "application/json"}
        if self._token:
            headers["authorization"] = f"Bearer {self._token}"
        request = Request(f"{self._url}{path}", orjson.dumps(payload), headers, method="POST")
        try:
            with self._opener.open(request, timeout=timeout) as response:
                answer = orjson.loads(response.read(_MAX_ANSWER_BYTES))
        except HTTPError as error:
            with error:
                reason = _read_reason(error.read(10_000))
            is_overloaded = error.code == HTTPStatus.TOO_MANY_REQUESTS
            if is_overloaded or error.code >= HTTPStatus.INTERNAL_SERVER_ERROR:  # both pass by themselves
                raise ServerAway(reason) from None
            raise ServerRefusal(error.code, reason) from None
        except (URLError, HTTPException, OSError) as error:
            raise ServerAway(str(getattr(error, "reason", error))) from None
        except orjson.JSONDecodeError:
            raise ServerAway("the answer is not JSON") from None
        if not isinstance(answer, dict):
            raise ServerAway("the answer is not an object")
        return answer


class _NoRedirect(HTTPRedirectHandler):
    """Follows no redirect, so that it becomes a refusal like any other status."""

    def redirect_request(self, *arguments: Any, **named_arguments: Any) -> None:
        return None


def _read_reason(content: bytes) -> str:
    try:
        return str(orjson.loads(content)["error"])
    except (orjson.JSONDecodeError, KeyError, TypeError):
        return "no reason given"


def found_team(
    connection: Connection, url: str, code: str, *, team_name: str, member: str, name: str, authority: str = ""
) -> TeamConfig:
    """Found a team on a server with a setup code; this machine becomes its first admin."""
    # The key never leaves this machine; its public half names the machine.
    key = create_key()
    team = derive_team_id(key.public_key)
    replica = Replica(connection, team)
    content = {"public_key": key.public_key, "team_name": team_name, "member": member, "name": name}
    replica.append(key, FOUND, MEMBERS, content)
    own_records = replica.select_after({key.machine: 0})
    client = TeamClient(url, authority=authority)
    answer = client.call("/v1/found", {"code": code, **_to_wire(own_records)})
    return TeamConfig(url, team, token=str(answer["token"]), key=dump_key(key), authority=authority)


def join_team(
    connection: Connection, url: str, code: str, *, member: str, name: str, authority: str = ""
) -> TeamConfig:
    """Join a team with an invite's code, which works once."""
    client = TeamClient(url, authority=authority)
    key = create_key()
    invite = client.call("/v1/invite", {"code": code})
    team = str(invite["team"])
    replica = Replica(connection, team)
    content = {"public_key": key.public_key, "code": code, "member": member, "name": name}
    # The join must follow the invite, which is not here yet: the server says what it builds on.
    parents = [str(parent) for parent in invite.get("parents") or ()]
    replica.append(key, JOIN, MEMBERS, content, parents)
    token = f"{team}.{secrets.token_urlsafe(32)}"
    config = TeamConfig(url, team, token, key=dump_key(key), authority=authority)
    _present_join(replica, config, client)
    return config


def _present_join(replica: Replica, config: TeamConfig, client: TeamClient) -> None:
    """Show the server this machine's join record, and prove with its key that the token is its own."""
    key = config.load_key()
    own_records = replica.select_after({key.machine: 0})
    # A machine's first record is its join, and the server takes it alone.
    join = Message(own_records.records[:1], own_records.bodies)
    signature = sign_token(key, config.token)
    client.call("/v1/join", {"token": config.token, "signature": signature, **_to_wire(join)})


def exchange_records(connection: Connection, config: TeamConfig) -> SyncReport:
    """Send what the server lacks and take in what this machine lacks, until both have the same."""
    client = TeamClient(config.url, config.token, config.authority)
    replica = Replica(connection, config.team)
    try:
        return _exchange_until_equal(replica, config, client)
    except ServerRefusal as refusal:
        if refusal.status != HTTPStatus.UNAUTHORIZED or not config.key:
            raise
        # A server restored from a backup may have forgotten that this machine joined.
        _present_join(replica, config, client)
        return _exchange_until_equal(replica, config, client)


def _exchange_until_equal(replica: Replica, config: TeamConfig, client: TeamClient) -> SyncReport:
    """Exchange records in rounds: compare digests, then the ends of all chains, then send what is missing."""
    received = 0
    sent = 0
    refused: dict[str, str] = {}
    suspected_writers: set[str] = set()  # of records that did not continue the other side's chain
    resent_until: dict[str, int] = {}
    for _ in range(_MAX_ROUNDS):
        vector = replica.read_vector()
        forks = replica.read_forks()
        # Mostly both sides have the same, and then one short digest settles it.
        request = {"digest": compute_digest(vector, forks), "forks": sorted(forks)}
        answer = client.call("/v1/sync", request)
        if answer.get("in_sync"):
            break
        difference = compare_vectors(vector, answer.get("vector") or {})
        unknown_forks = set(map(str, answer.get("unknown_forks") or ()))  # a restored server has forgotten them
        outgoing = Message(records=(), bodies={})
        if config.key:
            settled_forks = forks.keys() - unknown_forks  # forks that both sides know
            divergent = (difference.divergent | suspected_writers | unknown_forks) - settled_forks
            starts = {writer: start for writer, start in difference.peer_needs.items() if writer not in forks}
            # A chain with two branches is sent from its start, in portions, because the fork shows where they part.
            starts |= {writer: resent_until.get(writer, 0) for writer in divergent}
            outgoing = _select_outgoing(replica, starts, unknown_forks)
            resent_until |= {record.writer: record.sequence for record in outgoing.records}
        transfer = {"after": difference.needed_here, "forks": sorted(forks), **_to_wire(outgoing)}
        answer = client.call("/v1/sync", transfer)
        batch = replica.receive(_parse_message(answer))
        sent += len(outgoing.records)
        received += len(batch.new_records)
        refused |= {str(writer): str(reason) for writer, reason in (answer.get("refused") or {}).items()}
        suspected_writers = {*refused, *batch.refused}
        if not outgoing.records and not batch.new_records and not batch.forks:
            break  # what is still different cannot be settled now
        is_cut = max(len(outgoing.records), len(batch.new_records)) >= MAX_RECORDS_PER_MESSAGE
        if not is_cut and not suspected_writers and not batch.forks and not difference.divergent:
            break
    return SyncReport(received, sent, refused, tuple(sorted(replica.read_forks())))


def _select_outgoing(replica: Replica, starts: Mapping[str, int], unknown_forks: set[str]) -> Message:
    """Return what the server lacks, and the evidence of forks that it has forgotten."""
    message = replica.select_after(starts)
    sent_writers = {record.writer for record in message.records}
    forked_writers = unknown_forks & sent_writers
    evidence = [record for record in replica.list_fork_evidence() if record.writer in forked_writers]
    return Message((*message.records, *evidence), message.bodies)


def _to_wire(message: Message) -> dict[str, Any]:
    return {"records": [to_wire(record) for record in message.records], "bodies": dict(message.bodies)}


def _parse_message(answer: Mapping[str, Any]) -> Message:
    """Parse the records of an answer; ServerAway if they have not the right shape."""
    bodies = answer.get("bodies") or {}
    try:
        records = tuple(from_wire(fields) for fields in answer.get("records") or ())
    except BadRecord as error:
        raise ServerAway(f"the server sent a bad record: {error}") from None
    return Message(records, {str(name): str(body) for name, body in bodies.items()})
