"""Whether a team's log loses, doubles or mixes up anything, and how soon all machines agree.

Machines write and exchange through a proxy that drops, doubles and delays requests and cuts machines off; their clocks
are a day off. Meanwhile the server and PostgreSQL are killed with -9, PostgreSQL is restored from an older copy, one
machine is revoked, one forks its chain, one floods the server. Then the network heals, and the time until each machine
agrees is taken. The server is a process of its own in front of a real PostgreSQL; a few processes play the machines,
with the real client. Last comes what one machine feels of its team: `team pull --once`, and hooks with the server down.

  QUICK=1 make bench-team      100 machines; without QUICK also 1,000
"""

from __future__ import annotations

import json
import os
import random
import resource
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import psycopg

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from team_local import measure_local_costs
from team_simulation import (
    SUBJECTS,
    FaultyProxy,
    Machine,
    MachinePool,
    connect_to,
    create_team,
    exchange_records,
    hash_state,
    list_own_records,
    list_quarantined,
    open_replica,
    write_record,
)

from hardwon.team import postgres
from hardwon.team.client import ServerAway, ServerRefusal, TeamClient
from hardwon.team.record import MEMBERS, encode_body, sign_record, to_wire
from hardwon.team.server import add_setup_code, prepare_database
from tests.support.postgresql import Postgresql, is_available

ROUNDS = 6  # in which every machine tries to exchange
MAX_WRITERS = 100  # machines that write in one round
PROCESSES = 4  # that play the machines
MAX_CONVERGENCE_SECONDS = 600
PROBES = 100_000
PROBES_PER_QUERY = 500
PUSHED_ROWS, BATCH = 10_000, 500
MIN_INSERT_RATIO = 0.3
UPPER_LIMITS = {
    "converged_p95_100": 5.0,
    "converged_p95_1000": 30.0,
    "server_mb": 150.0,
    "pull_seconds": 1.0,
    "hook_cpu_ratio": 1.2,
}


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

    def measure_megabytes(self) -> float:
        with open(f"/proc/{self.process.pid}/status") as file:
            peak = next(line for line in file if line.startswith("VmHWM"))
        return int(peak.split()[1]) / 1024


def run_day(
    machines: Sequence[Machine], server: Server, cluster: Postgresql, proxy: FaultyProxy, pool: MachinePool
) -> None:
    """Let the machines write and exchange through everything that can go wrong."""
    revoked, forked = machines[-1], machines[-2]
    for round_number in range(ROUNDS):
        chance = random.Random(round_number)
        proxy.set_faults(round_number, cut_off_share=0.3 if round_number % 2 else 0.0)
        writers = [revoked, forked, *chance.sample(machines[:-2], MAX_WRITERS - 2)]
        pool.map(partial(write_record, round_number=round_number), writers)
        pool.map(exchange_records, chance.sample(machines, len(machines)))
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
            fork_chain(forked, server)
        elif round_number == 4:
            restore_backup(cluster)
            revoke_machine(machines[0], revoked)


def fork_chain(machine: Machine, server: Server) -> None:
    """Show the server a second record under a number that the machine used already, as after a restored disk."""
    direct_machine = connect_to(server.url, machine)
    direct_client = TeamClient(server.url, machine.config.token)
    body = encode_body({"text": "the other branch"})
    previous = list_own_records(machine)[-2]
    second = sign_record(machine.key, machine.config.team, previous, "mute", SUBJECTS[0], (), body)
    payload = {"after": {}, "records": [to_wire(second)], "bodies": {second.body_hash: body}}
    for _ in range(100):
        # The server needs the first record to tell that this is a second one.
        if exchange_records(direct_machine).worked:
            with suppress(ServerAway, ServerRefusal):
                direct_client.call("/v1/sync", payload)
                return
        time.sleep(0.2)  # until the database has started


def restore_backup(cluster: Postgresql) -> None:
    cluster.stop()
    shutil.rmtree(cluster.folder / "data")
    subprocess.run(["cp", "-a", str(cluster.folder / "backup"), str(cluster.folder / "data")], check=True)
    cluster.start()


def revoke_machine(admin: Machine, machine: Machine) -> None:
    replica = open_replica(admin)
    last_sequence, _ = replica.read_vector()[machine.id]
    content = {"machine": machine.id, "last_sequence": last_sequence}
    replica.append(admin.key, "revoke", MEMBERS, content)


def flood_server(machine: Machine, server: Server) -> int:
    """Send far more requests than are allowed; return how many were turned away."""
    plain_client, refused = TeamClient(server.url, machine.config.token), 0
    for _ in range(200):
        try:
            plain_client.call("/v1/sync", {"digest": "none"})
        except ServerAway:
            refused += 1
    return refused


def measure_convergence(machines: Sequence[Machine], proxy: FaultyProxy, pool: MachinePool) -> float:
    """Heal the network and let everybody exchange until nothing is new to anybody.

    Return the 95th percentile of the seconds after which a machine had everything. That all agree is checked
    afterwards, since computing the state of every machine again and again would cost more than the exchange.
    """
    proxy.heal()
    healed_at = time.monotonic()
    last_news_at = dict.fromkeys(range(len(machines)), 0.0)
    while True:
        outcomes = pool.map(exchange_records, machines)
        for number, outcome in enumerate(outcomes):
            if outcome.had_news:
                last_news_at[number] = outcome.at - healed_at
        if not any(outcome.had_news for outcome in outcomes):
            break
        if time.monotonic() - healed_at > MAX_CONVERGENCE_SECONDS:
            return float("inf")
    hashes = set(pool.map(hash_state, machines))
    return sorted(last_news_at.values())[int(len(machines) * 0.95)] if len(hashes) == 1 else float("inf")


def count_lost_and_doubled(machines: Sequence[Machine], cluster: Postgresql, pool: MachinePool) -> tuple[int, int]:
    """Compare what honest machines wrote with what the database has."""
    with psycopg.connect(cluster.dsn) as connection:
        rows = connection.execute("select hash, count(*) from team_records group by hash").fetchall()
    stored = {record_hash for record_hash, _ in rows}
    chains = pool.map(list_own_records, machines)
    lost = sum(record.hash not in stored for chain in chains for record in chain)
    return lost, sum(count > 1 for _, count in rows)


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
            probed_hashes = chance.choices(hashes, k=PROBES_PER_QUERY)
            query = "select count(*) from team_records where hash = any(%s) or team = %s"
            seen_rows += connection.execute(query, (probed_hashes, other_team)).fetchone()[0]  # type: ignore[index]
    pool.close()
    return int(seen_rows)


def measure_inserts(machine: Machine, server: Server, cluster: Postgresql) -> tuple[float, float]:
    """Return rows per second through the server, and of a bare loop of batched inserts of the same rows.

    The two take turns batch by batch, so that a busy machine slows down both.
    """
    plain_client = TeamClient(server.url, machine.config.token)
    previous = list_own_records(machine)[-1]
    server_seconds = bare_seconds = 0.0
    with psycopg.connect(cluster.dsn, autocommit=True) as connection:
        for table in ("team_records", "team_bodies"):
            connection.execute(f"create table bare_{table} (like {table} including all)")
        for _ in range(PUSHED_ROWS // BATCH):
            records, bodies = [], {}
            for _ in range(BATCH):
                body = encode_body({"totals": {"fired": 1}, "padding": "x" * 200})
                previous = sign_record(machine.key, machine.config.team, previous, "counts", SUBJECTS[0], (), body)
                records.append(previous)
                bodies[previous.body_hash] = body
            payload = {"after": {}, "records": [to_wire(record) for record in records], "bodies": bodies}
            began = time.perf_counter()
            plain_client.call("/v1/sync", payload)
            server_seconds += time.perf_counter() - began
            rows = [(*to_wire(record)[:6], "[]", *to_wire(record)[7:]) for record in records]
            body_rows = [(machine.config.team, name, body) for name, body in bodies.items()]
            began = time.perf_counter()
            with connection.transaction(), connection.cursor() as cursor:
                cursor.executemany(f"insert into bare_team_records values ({', '.join(['%s'] * 10)})", rows)
                cursor.executemany("insert into bare_team_bodies values (%s, %s, %s)", body_rows)
            bare_seconds += time.perf_counter() - began
    return PUSHED_ROWS / server_seconds, PUSHED_ROWS / bare_seconds


def run_benchmark(count: int, *, with_local_costs: bool) -> dict[str, Any]:
    with tempfile.TemporaryDirectory(prefix="hardwon-bench-") as name:
        folder = Path(name)
        folder.chmod(0o755)
        cluster = Postgresql(folder / "postgresql")
        cluster.start()
        prepare_database(cluster.dsn)
        server = Server(cluster, folder / "server-home")
        proxy, pool = FaultyProxy(server.port), MachinePool(PROCESSES)
        try:
            figures = run_team(count, folder, server, cluster, proxy, pool)
            if with_local_costs:
                figures |= measure_local_costs(folder / "local", server.url, create_setup_code(cluster), server.kill)
            return figures
        finally:
            pool.close()
            proxy.stop()
            server.kill()
            cluster.stop()


def run_team(
    count: int, folder: Path, server: Server, cluster: Postgresql, proxy: FaultyProxy, pool: MachinePool
) -> dict[str, Any]:
    began = time.monotonic()
    machines = create_team(folder / "team", server.url, create_setup_code(cluster), count)
    others = create_team(folder / "others", server.url, create_setup_code(cluster), 2)
    enrolled_seconds = time.monotonic() - began
    print(f"{count} machines enrolled in {enrolled_seconds:.0f} s", flush=True)
    machines = [connect_to(proxy.url, machine) for machine in machines]
    run_day(machines, server, cluster, proxy, pool)
    honest, forked, revoked = machines[:-2], machines[-2], machines[-1]
    day_seconds = time.monotonic() - began - enrolled_seconds
    print(f"the day is over after {day_seconds:.0f} s", flush=True)
    refused_flood = flood_server(machines[-3], server)
    p95 = measure_convergence(machines[:-1], proxy, pool)
    is_fork_known = all(forked.id in writers for writers in pool.map(list_quarantined, honest))
    lost, doubled = count_lost_and_doubled(honest, cluster, pool)
    through_server, bare = measure_inserts(machines[1], server, cluster)
    return {
        "lost": lost,
        "doubled": doubled,
        "foreign": probe_foreign_rows(cluster, machines[0].config.team, others[0].config.team),
        "converged_p95": round(p95, 2),
        "insert_ratio": round(through_server / bare, 3),
        "rows_per_second": round(through_server),
        "bare_rows_per_second": round(bare),
        "server_mb": round(server.measure_megabytes()),
        "load": round(os.getloadavg()[0], 1),  # of the whole machine: seconds under load are not the server's
        "flood_refused": refused_flood,
        "revoked_refused": not exchange_records(revoked).worked,
        "fork_known_everywhere": is_fork_known,
        "enrolled_seconds": round(enrolled_seconds, 1),
        "day_seconds": round(day_seconds),
    }


def create_setup_code(cluster: Postgresql) -> str:
    code = os.urandom(8).hex()
    add_setup_code(cluster.dsn, code)
    return code


def main() -> int:
    if not is_available():
        print("bench-team needs PostgreSQL; on Debian: apt-get install postgresql")
        return 1
    # A process keeps the databases of its machines open, each with three files.
    _, hard_limit = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard_limit, hard_limit))
    counts = (100,) if os.environ.get("QUICK") else (100, 1_000)
    runs = {}
    for count in counts:
        runs[count] = run_benchmark(count, with_local_costs=count == 100)
        print(json.dumps(runs[count]), flush=True)
    report = {name: sum(figures[name] for figures in runs.values()) for name in ("lost", "doubled", "foreign")}
    report["converged_p95_100"] = runs[100]["converged_p95"]
    report["converged_p95_1000"] = runs[1_000]["converged_p95"] if 1_000 in runs else None
    report["insert_ratio"] = min(figures["insert_ratio"] for figures in runs.values())
    report["server_mb"] = max(figures["server_mb"] for figures in runs.values())
    report |= {name: runs[100][name] for name in ("pull_seconds", "hook_cpu_ratio")}
    faults = [name for name in ("lost", "doubled", "foreign") if report[name]]
    faults += [name for name, limit in UPPER_LIMITS.items() if (report[name] or 0) > limit]
    faults += ["insert_ratio"] if report["insert_ratio"] < MIN_INSERT_RATIO else []
    for name in ("revoked_refused", "fork_known_everywhere", "flood_refused"):
        faults += [name] if not all(figures[name] for figures in runs.values()) else []
    if faults:
        print(f"outside its bar: {', '.join(faults)}")
    print(json.dumps(report))
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
