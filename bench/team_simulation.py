"""Machines of a simulated team, and a proxy between them and their server that loses, doubles and delays requests.

A machine is a folder with a database and a key, and what it does is a function, so that a few processes can play a
thousand machines; each uses the real client. A real machine checks signatures on a processor of its own. Here a process
checks each record once for all the machines that it plays, or checking would be most of what is measured; the server
checks every record itself.
"""

from __future__ import annotations

import asyncio
import hashlib
import multiprocessing
import random
import shutil
import socket
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from pathlib import Path
from typing import TypeVar

from hardwon.errors import UserError
from hardwon.store import db
from hardwon.team import client, record
from hardwon.team.client import ServerAway, ServerRefusal, TeamConfig
from hardwon.team.record import MEMBERS, MachineKey, Record
from hardwon.team.replica import Replica
from hardwon.team.state import hash_code
from tests.support.team_manifest import compute_manifest_hash

SUBJECTS = [f"lesson:{number}" for number in range(20)]
DAY_SECONDS = 86_400
Result = TypeVar("Result")
record._is_signed = lru_cache(maxsize=200_000)(record._is_signed)


@dataclass(frozen=True)
class Machine:
    """A machine: its number, the folder with its database, and how it reaches the team."""

    number: int
    folder: str
    config: TeamConfig

    @property
    def key(self) -> MachineKey:
        return self.config.load_key()

    @property
    def id(self) -> str:
        return self.key.machine


@dataclass(frozen=True)
class Exchange:
    """How one exchange ended: whether it worked, whether either side learned something, and when."""

    worked: bool
    had_news: bool
    at: float


def connect_to(url: str, machine: Machine) -> Machine:
    """Return the machine with another way to its server."""
    return replace(machine, config=replace(machine.config, url=url))


class MachinePool:
    """Processes that play the machines, each always the same ones, so that it can keep their databases open."""

    def __init__(self, process_count: int) -> None:
        self._executors = [ProcessPoolExecutor(1) for _ in range(process_count)]

    def map(self, function: Callable[[Machine], Result], machines: Sequence[Machine]) -> list[Result]:
        futures = []
        for machine in machines:
            executor = self._executors[machine.number % len(self._executors)]
            futures.append(executor.submit(function, machine))
        return [future.result() for future in futures]

    def close(self) -> None:
        for executor in self._executors:
            executor.shutdown()


@cache
def open_database(folder: str) -> db.Connection:
    return db.connect(folder)


def open_replica(machine: Machine) -> Replica:
    return Replica(open_database(machine.folder), machine.config.team)


def write_record(machine: Machine, round_number: int) -> None:
    chance = random.Random(1_000 * round_number + machine.number)
    subject = chance.choice(SUBJECTS)
    kind = chance.choice(["publish", "revise", "counts", "counts", "mute", "unmute"])
    # No clock takes part, so a wrong one can only show up as text.
    at = time.time() + chance.uniform(-DAY_SECONDS, DAY_SECONDS)
    content = {"totals": {"fired": chance.randrange(50)}, "at": at}
    open_replica(machine).append(machine.key, kind, subject, content)


def exchange_records(machine: Machine) -> Exchange:
    known_forks = tuple(sorted(open_replica(machine).read_forks()))
    try:
        report = client.exchange_records(open_database(machine.folder), machine.config)
    except (ServerAway, ServerRefusal, UserError):
        return Exchange(worked=False, had_news=True, at=time.monotonic())
    had_news = bool(report.received or report.sent) or report.forks != known_forks
    return Exchange(worked=True, had_news=had_news, at=time.monotonic())


def hash_state(machine: Machine) -> str:
    return compute_manifest_hash(open_replica(machine).read_state())


def list_own_records(machine: Machine) -> list[Record]:
    machine_id = machine.id
    return [record for record in open_replica(machine).list_records() if record.writer == machine_id]


def list_quarantined(machine: Machine) -> list[str]:
    return sorted(open_replica(machine).read_forks())


def create_team(folder: Path, url: str, setup_code: str, count: int) -> list[Machine]:
    """Found a team and enrol machines, which begin with the founder's log; every tenth is a reviewer."""
    home = folder / "machine-0"
    with db.open(str(home)) as connection, db.open(str(folder / "joining")) as joining_connection:
        config = client.found_team(connection, url, setup_code, team_name="t", member="m", name="0")
        founder, team = config.load_key(), config.team
        replica = Replica(connection, team)
        heads = replica.read_state().member_heads
        for number in range(1, count):
            role = "reviewer" if number % 10 == 0 else "proposer"
            content = {"code_hash": hash_code(f"{team}.{number}"), "role": role}
            heads = (replica.append(founder, "invite", MEMBERS, content, heads).hash,)
        client.exchange_records(connection, config)
        configs = [config]
        for number in range(1, count):
            code = f"{team}.{number}"
            configs.append(client.join_team(joining_connection, url, code, member=f"m{number}", name=str(number)))
        client.exchange_records(connection, config)
    machines = [Machine(number, str(folder / f"machine-{number}"), config) for number, config in enumerate(configs)]
    for machine in machines[1:]:
        shutil.copytree(home, machine.folder)
    return machines


class FaultyProxy:
    """A proxy in a process of its own; while it is faulty, requests and answers get lost, come twice or late."""

    def __init__(self, server_port: int) -> None:
        self._server_port = server_port
        self._is_faulty = multiprocessing.Value("b", 0)
        self._round = multiprocessing.Value("i", 0)
        self._cut_off_share = multiprocessing.Value("d", 0.0)
        self._socket = socket.create_server(("127.0.0.1", 0), backlog=1_000)
        self.url = f"http://127.0.0.1:{self._socket.getsockname()[1]}"
        self._process = multiprocessing.Process(target=self._run, daemon=True)
        self._process.start()

    def set_faults(self, round_number: int, cut_off_share: float) -> None:
        """Begin a round of faults in which a share of the machines cannot reach the server at all."""
        self._is_faulty.value, self._round.value, self._cut_off_share.value = 1, round_number, cut_off_share

    def heal(self) -> None:
        self._is_faulty.value = 0

    def stop(self) -> None:
        self._process.terminate()
        self._process.join()
        self._socket.close()

    def _run(self) -> None:
        asyncio.run(self._serve())

    async def _serve(self) -> None:
        server = await asyncio.start_server(self._relay, sock=self._socket)
        await server.serve_forever()

    async def _relay(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            writer.write(await self._pass_on(await _read_request(reader)))
            await writer.drain()
        except (OSError, EOFError):
            pass  # the other side sees the connection end, as with a network that fails
        finally:
            writer.close()

    async def _pass_on(self, request: bytes) -> bytes:
        """Return the server's answer, or nothing if the request or the answer is lost."""
        if not self._is_faulty.value:
            return await self._ask_server(request)
        fate = random.random()
        if fate < 0.1 or self._is_cut_off(request):
            return b""
        if fate < 0.2:
            await asyncio.sleep(random.random() * 0.05)
        answer = await self._ask_server(request)
        if fate > 0.9:
            answer = await self._ask_server(request)
        return b"" if 0.8 < fate < 0.9 else answer

    def _is_cut_off(self, request: bytes) -> bool:
        """Return whether the sender, known by its token, is cut off in this round."""
        token = request.lower().partition(b"authorization: ")[2].partition(b"\r\n")[0]
        draw = hashlib.sha256(b"%d %s" % (self._round.value, token)).digest()[0] / 256
        return bool(draw < self._cut_off_share.value)

    async def _ask_server(self, request: bytes) -> bytes:
        reader, writer = await asyncio.open_connection("127.0.0.1", self._server_port)
        try:
            writer.write(request)
            return await reader.read(-1)  # the client asks for a connection that ends with the answer
        finally:
            writer.close()


async def _read_request(reader: asyncio.StreamReader) -> bytes:
    head = await reader.readuntil(b"\r\n\r\n")
    length = int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0])
    return head + await reader.readexactly(length)
