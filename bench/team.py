"""Whether a team's log loses, doubles or mixes up anything, and how soon all machines agree.

Machines write and exchange through a network that drops, doubles and delays requests and cuts machines off; their
clocks are a day off. Meanwhile the server and PostgreSQL are killed with -9, PostgreSQL is restored from an older copy,
one machine is revoked, one forks its chain, one floods the server. Then the network heals, and the time until each
machine agrees is taken. The server is a process of its own in front of a real PostgreSQL; the machines live in this
process and use the real client.

  QUICK=1 make bench-team      100 machines; without QUICK also 1,000
"""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import orjson
import psycopg

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from hardwon.errors import UserError
from hardwon.store import db
from hardwon.team import client, postgres, serving
from hardwon.team.client import ServerAway, ServerRefusal, TeamClient, TeamConfig
from hardwon.team.record import MEMBERS, Record, encode_body, to_wire, write_record
from hardwon.team.replica import Replica
from hardwon.team.state import compute_manifest_hash, hash_code
from tests.support.postgresql import Postgresql, is_available

SUBJECTS = [f"lesson:{number}" for number in range(20)]
ROUNDS = 6  # in which every machine writes and tries to exchange
MAX_WRITERS = 100  # machines that write in one round
THREADS = 6
PROBES = 100_000
PROBES_PER_QUERY = 500
PUSHED_ROWS, BATCH = 10_000, 500
LIMITS = {"converged_p95_100": 5.0, "converged_p95_1000": 30.0, "insert_ratio": 0.3, "server_mb": 150.0}


class FaultyClient(TeamClient):
    """A client whose requests get lost on the way there or back, arrive twice or late, or not at all."""

    def __init__(self, config: TeamConfig, chance: random.Random, network: Network) -> None:
        super().__init__(config.url, config.token)
        self._chance, self._network = chance, network

    def call(self, path: str, payload: Mapping[str, Any], *, timeout: float = 15.0) -> dict[str, Any]:
        if not self._network.is_faulty:
            return super().call(path, payload, timeout=timeout)
        fate = self._chance.random()
        if fate < 0.1 or self._chance.random() < self._network.cut_off_share:
            raise ServerAway("lost on the way there")
        if fate < 0.2:
            time.sleep(self._chance.random() * 0.05)
        answer = super().call(path, payload, timeout=timeout)
        if fate > 0.9:
            answer = super().call(path, payload, timeout=timeout)
        if 0.8 < fate < 0.9:
            raise ServerAway("lost on the way back")
        return answer


class Network:
    """The state of the network between all machines and the server."""

    def __init__(self) -> None:
        self.is_faulty, self.cut_off_share = True, 0.0


class Machine:
    """One machine: a database, a key and a client."""

    def __init__(self, folder: Path, config: TeamConfig, network: Network, seed: int) -> None:
        self.config, self.chance = config, random.Random(seed)
        self.connection = db.connect(str(folder))
        self.replica = Replica(self.connection, config.team)
        self.key = config.load_key()
        self.client = FaultyClient(config, self.chance, network)
        self.written: list[Record] = []
        self.lock = threading.Lock()

    def write(self) -> None:
        subject = self.chance.choice(SUBJECTS)
        kind = self.chance.choice(["publish", "revise", "counts", "counts", "mute", "unmute"])
        # No clock takes part, so a wrong one can only show up as text.
        content = {
            "totals": {"fired": self.chance.randrange(50)},
            "at": time.time() + self.chance.uniform(-86_400, 86_400),
        }
        with self.lock:
            self.written.append(self.replica.append(self.key, kind, subject, content))

    def exchange(self) -> bool:
        """Exchange once; return whether it worked."""
        with self.lock:
            try:
                client.exchange_records(self.connection, self.config, self.client)
            except (ServerAway, ServerRefusal, UserError):
                return False
            return True

    def hash_state(self) -> str:
        with self.lock:
            return compute_manifest_hash(self.replica.read_state())


class Server:
    """`hardwon team serve` in a process of its own."""

    def __init__(self, cluster: Postgresql, folder: Path) -> None:
        self._cluster, self._folder = cluster, folder
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self.start()

    def start(self) -> None:
        command = [sys.executable, "-m", "hardwon", "team", "serve", "--port", str(self.port)]
        environment = {**os.environ, "HARDWON_TEAM_DATABASE": self._cluster.dsn, "HARDWON_HOME": str(self._folder)}
        self.process = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        for _ in range(600):
            with suppress(OSError), socket.create_connection(("127.0.0.1", self.port), 1):
                return
            time.sleep(0.1)
        raise RuntimeError("the team server did not start")

    def kill(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def measure_cpu_seconds(self) -> float:
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def measure_megabytes(self) -> float:
        with open(f"/proc/{self.process.pid}/status") as file:
            peak = next(line for line in file if line.startswith("VmHWM"))
        return int(peak.split()[1]) / 1024


def create_team(folder: Path, server: Server, cluster: Postgresql, count: int, network: Network) -> list[Machine]:
    """Found a team and enrol machines, which begin with the founder's log; every tenth is a reviewer."""
    code = os.urandom(8).hex()
    serving.add_setup_code(cluster.dsn, code)
    network.is_faulty = False
    home = folder / "machine-0"
    with db.open(str(home)) as connection:
        config = client.found_team(connection, server.url, code, team_name="t", member="m", name="0")
        founder, team = config.load_key(), config.team
        replica = Replica(connection, team)
        for number in range(1, count):
            role = "reviewer" if number % 10 == 0 else "proposer"
            replica.append(founder, "invite", MEMBERS, {"code_hash": hash_code(f"{team}.{number}"), "role": role})
        client.exchange_records(connection, config)
        configs = [config]
        with db.open(str(folder / "joining")) as joining_connection:
            for number in range(1, count):
                configs.append(
                    client.join_team(
                        joining_connection, server.url, f"{team}.{number}", member=f"m{number}", name=str(number)
                    )
                )
        client.exchange_records(connection, config)
    for number in range(1, count):
        shutil.copytree(home, folder / f"machine-{number}")
    return [
        Machine(folder / f"machine-{number}", config, network, seed=number) for number, config in enumerate(configs)
    ]


def run_day(machines: list[Machine], server: Server, cluster: Postgresql, network: Network) -> None:
    """Let the machines write and exchange through everything that can go wrong."""
    network.is_faulty = True
    revoked, forked = machines[-1], machines[-2]
    with ThreadPoolExecutor(THREADS) as pool:
        for round_number in range(ROUNDS):
            network.cut_off_share = 0.3 if round_number % 2 else 0.0
            writers = machines[-2:] + random.Random(round_number).sample(machines[:-2], MAX_WRITERS - 2)
            for machine in writers:
                machine.write()
            list(pool.map(Machine.exchange, random.Random(round_number).sample(machines, len(machines))))
            if round_number == 1:  # the backup of the day before
                cluster.stop()
                cluster.copy_data(cluster.folder / "backup")
                cluster.start()
            elif round_number == 2:
                server.kill()
                server.start()
            elif round_number == 3:
                cluster.kill()
                cluster.start()
                fork_chain(forked)
            elif round_number == 4:
                restore_backup(cluster)
                revoke(machines[0], revoked)


def fork_chain(machine: Machine) -> None:
    """Show the server a second record under a number that the machine used already, as after a restored disk."""
    network_client = TeamClient(machine.config.url, machine.config.token)
    own_records = [record for record in machine.replica.list_records() if record.writer == machine.key.machine]
    body = encode_body({"text": "the other branch"})
    second = write_record(machine.key, machine.config.team, own_records[-2], "mute", SUBJECTS[0], (), body)
    payload = {"records": [to_wire(second)], "bodies": {second.body_hash: body}}
    for _ in range(20):
        with suppress(ServerAway, ServerRefusal):
            # The server needs the first record to tell that this is a second one.
            client.exchange_records(machine.connection, machine.config, network_client)
            network_client.call("/v1/sync", payload)
            return
        time.sleep(0.2)


def restore_backup(cluster: Postgresql) -> None:
    cluster.stop()
    shutil.rmtree(cluster.folder / "data")
    subprocess.run(["cp", "-a", str(cluster.folder / "backup"), str(cluster.folder / "data")], check=True)
    cluster.start()


def revoke(admin: Machine, machine: Machine) -> None:
    last_sequence, _ = admin.replica.read_vector()[machine.key.machine]
    content = {"machine": machine.key.machine, "last_sequence": last_sequence}
    admin.written.append(admin.replica.append(admin.key, "revoke", MEMBERS, content))


def flood(machine: Machine) -> int:
    """Send far more requests than are allowed; return how many were turned away."""
    plain_client, refused = TeamClient(machine.config.url, machine.config.token), 0
    for _ in range(200):
        try:
            plain_client.call("/v1/sync", {"digest": "none"})
        except ServerAway:
            refused += 1
    return refused


def measure_convergence(machines: list[Machine], network: Network) -> float:
    """Heal the network and let everybody exchange until nothing is new to anybody.

    Return the 95th percentile of the seconds after which a machine had everything. That all agree is checked
    afterwards, since computing the state of every machine again and again would cost more than the exchange.
    """
    network.is_faulty = False
    healed_at = time.perf_counter()
    last_news_at = [0.0] * len(machines)

    def exchange_and_time(number: int) -> bool:
        machine = machines[number]
        with machine.lock:
            known_forks = tuple(sorted(machine.replica.read_forks()))
            try:
                report = client.exchange_records(machine.connection, machine.config, machine.client)
            except (ServerAway, ServerRefusal, UserError):
                return True
        has_news = bool(report.received or report.sent) or report.forks != known_forks
        if has_news:
            last_news_at[number] = time.perf_counter() - healed_at
        return has_news

    with ThreadPoolExecutor(THREADS) as pool:
        while any(list(pool.map(exchange_and_time, range(len(machines))))):
            if time.perf_counter() - healed_at > 600:
                return float("inf")
    hashes = {machine.hash_state() for machine in machines}
    return sorted(last_news_at)[int(len(machines) * 0.95)] if len(hashes) == 1 else float("inf")


def count_lost_and_doubled(machines: list[Machine], cluster: Postgresql, excused: set[str]) -> tuple[int, int]:
    """Compare what honest machines wrote with what the database has."""
    with psycopg.connect(cluster.dsn) as connection:
        rows = connection.execute("select hash, count(*) from team_records group by hash").fetchall()
    stored = {record_hash for record_hash, _ in rows}
    written = [record for machine in machines if machine.key.machine not in excused for record in machine.written]
    return sum(record.hash not in stored for record in written), sum(count > 1 for _, count in rows)


def probe_foreign_rows(cluster: Postgresql, team: str, other_team: str) -> int:
    """Ask for rows of another team, with the tenant set to one's own and with the tenant forgotten."""
    seen_rows = 0
    pool = postgres.ConnectionPool(cluster.dsn, 1)
    with psycopg.connect(cluster.dsn) as connection:
        hashes = [row[0] for row in connection.execute("select hash from team_records where team = %s", (other_team,))]
    chance = random.Random(1)
    for number in range(PROBES // PROBES_PER_QUERY):
        with pool.open_transaction() as connection:
            if number % 2:
                postgres.enter_team(connection, team)
            wanted = chance.choices(hashes, k=PROBES_PER_QUERY)
            query = "select count(*) from team_records where hash = any(%s) or team = %s"
            seen_rows += connection.execute(query, (wanted, other_team)).fetchone()[0]  # type: ignore[index]
    pool.close()
    return int(seen_rows)


def measure_inserts(machine: Machine, cluster: Postgresql) -> tuple[float, float]:
    """Return rows per second through the server, and of a bare loop of batched inserts of the same rows."""
    records, bodies, previous = [], {}, machine.written[-1]
    for _ in range(PUSHED_ROWS):
        body = encode_body({"totals": {"fired": 1}, "padding": "x" * 200})
        previous = write_record(machine.key, machine.config.team, previous, "counts", SUBJECTS[0], (), body)
        records.append(previous)
        bodies[previous.body_hash] = body
    plain_client = TeamClient(machine.config.url, machine.config.token)
    batches = [records[start : start + BATCH] for start in range(0, len(records), BATCH)]
    payloads = [
        {
            "records": [to_wire(record) for record in batch],
            "bodies": {name: bodies[name] for name in (record.body_hash for record in batch)},
        }
        for batch in batches
    ]
    began = time.perf_counter()
    for payload in payloads:
        plain_client.call("/v1/sync", payload)
    through_server = len(records) / (time.perf_counter() - began)
    with psycopg.connect(cluster.dsn, autocommit=True) as connection:
        for table in ("team_records", "team_bodies"):
            connection.execute(f"create table bare_{table} (like {table} including all)")
        rows = [
            [(*to_wire(record)[:6], orjson.dumps(record.parents).decode(), *to_wire(record)[7:]) for record in batch]
            for batch in batches
        ]
        began = time.perf_counter()
        for batch, batch_rows in zip(batches, rows, strict=True):
            with connection.transaction(), connection.cursor() as cursor:
                cursor.executemany(
                    "insert into bare_team_records values (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s)", batch_rows
                )
                cursor.executemany(
                    "insert into bare_team_bodies values (%s, %s, %s)",
                    [(record.team, record.body_hash, bodies[record.body_hash]) for record in batch],
                )
        bare = len(records) / (time.perf_counter() - began)
    return through_server, bare


def run(count: int) -> dict[str, Any]:
    with tempfile.TemporaryDirectory(prefix="hardwon-bench-") as name:
        folder = Path(name)
        folder.chmod(0o755)
        cluster = Postgresql(folder / "postgresql")
        cluster.start()
        network = Network()
        serving.prepare_database(cluster.dsn)
        server = Server(cluster, folder / "server-home")
        try:
            machines = create_team(folder / "team", server, cluster, count, network)
            others = create_team(folder / "others", server, cluster, 2, Network())
            print(f"{count} machines enrolled", flush=True)
            run_day(machines, server, cluster, network)
            honest = machines[:-2]
            refused_flood = flood(machines[-3])
            cpu_before = time.process_time() + server.measure_cpu_seconds()
            p95 = measure_convergence(machines[:-1], network)
            cpu_seconds = time.process_time() + server.measure_cpu_seconds() - cpu_before
            revoked_refused = not machines[-1].exchange()
            quarantined = all(machines[-2].key.machine in machine.replica.read_forks() for machine in honest)
            lost, doubled = count_lost_and_doubled(honest, cluster, set())
            foreign = probe_foreign_rows(cluster, machines[0].config.team, others[0].config.team)
            through_server, bare = measure_inserts(machines[1], cluster)
            return {
                "lost": lost,
                "doubled": doubled,
                "foreign": foreign,
                "converged_p95": round(p95, 2),
                "converged_cpu": round(cpu_seconds, 2),  # of all machines and the server, with the last comparison
                "insert_ratio": round(through_server / bare, 3),
                "rows_per_second": round(through_server),
                "bare_rows_per_second": round(bare),
                "server_mb": round(server.measure_megabytes()),
                "load": round(os.getloadavg()[0], 1),  # of the whole machine: seconds under load are not the server's
                "flood_refused": refused_flood,
                "revoked_refused": revoked_refused,
                "fork_known_everywhere": quarantined,
            }
        finally:
            server.kill()
            cluster.stop()


def main() -> int:
    if not is_available():
        print("bench-team needs PostgreSQL; on Debian: apt-get install postgresql")
        return 1
    small = run(100)
    print(json.dumps(small), flush=True)
    large = None if os.environ.get("QUICK") else run(1_000)
    if large:
        print(json.dumps(large), flush=True)
    report = {
        "lost": small["lost"] + (large["lost"] if large else 0),
        "doubled": small["doubled"] + (large["doubled"] if large else 0),
        "foreign": small["foreign"] + (large["foreign"] if large else 0),
        "converged_p95_100": small["converged_p95"],
        "converged_p95_1000": large["converged_p95"] if large else None,
        "insert_ratio": small["insert_ratio"],
        "server_mb": max(run_report["server_mb"] for run_report in (small, large) if run_report),
    }
    is_sound = all(
        run_report["revoked_refused"] and run_report["fork_known_everywhere"] and run_report["flood_refused"]
        for run_report in (small, large)
        if run_report
    )
    is_within = (
        report["lost"] == report["doubled"] == report["foreign"] == 0
        and report["converged_p95_100"] <= LIMITS["converged_p95_100"]
        and (report["converged_p95_1000"] or 0) <= LIMITS["converged_p95_1000"]
        and report["insert_ratio"] >= LIMITS["insert_ratio"]
        and report["server_mb"] <= LIMITS["server_mb"]
    )
    print(json.dumps(report))
    return 0 if is_sound and is_within else 1


if __name__ == "__main__":
    sys.exit(main())
