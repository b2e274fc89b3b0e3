"""Measure what the worker's API costs next to a bare Starlette app: `make bench-api`.

Both run under uvicorn on loopback in separate processes, and the same client asks them in turn for health, a list of
sessions, and a stream of messages with fifty listeners. The result is the ratio. The bare app answers with fixed bytes,
and its stream puts the same message into a queue for each listener.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from statistics import median

import httpx
from measure import compute_p95

ROUNDS, ASKED = 5, 300
LISTENERS, MESSAGES = 50, 40
SESSIONS = 200
BARE = """
import asyncio, sys, uvicorn
from starlette.applications import Starlette
from starlette.responses import JSONResponse, StreamingResponse
from starlette.routing import Route
queues = []
async def health(request): return JSONResponse({"status": "ok"})
async def tell(request):
    for queue in queues: queue.put_nowait(b"event: processing\\n\\n")
    return JSONResponse({"status": "ok"})
async def listen(request):
    queue = asyncio.Queue()
    async def told():
        queues.append(queue)
        try:
            yield b": hardwon\\n\\n"
            while True: yield await queue.get()
        finally: queues.remove(queue)
    return StreamingResponse(told(), media_type="text/event-stream")
app = Starlette(routes=[
    Route("/api/health", health), Route("/api/sessions", health),
    Route("/api/processing", tell, methods=["POST"]), Route("/api/stream", listen),
])
uvicorn.run(app, host="127.0.0.1", port=int(sys.argv[1]), log_level="error", access_log=False)
"""


def measure_requests(client: httpx.Client, path: str) -> tuple[float, float]:
    """Return sequential requests per second and their 95th percentile in milliseconds."""
    times = []
    for _ in range(ASKED):
        began = time.perf_counter()
        client.get(path).raise_for_status()
        times.append(time.perf_counter() - began)
    return ASKED / sum(times), compute_p95(times) * 1000


def wait_until_up(client: httpx.Client) -> None:
    for _ in range(200):
        try:
            client.get("/api/health").raise_for_status()
            return
        except httpx.HTTPError:
            time.sleep(0.05)
    raise SystemExit("no server came up")


def measure_fan_out(client: httpx.Client, port: int, token: str) -> tuple[float, float]:
    """Return messages per second that reached every listener, and the 95th percentile of their milliseconds."""
    head = f"GET /api/stream HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nAuthorization: Bearer {token}\r\n\r\n"
    listeners = []
    for _ in range(LISTENERS):
        listener = socket.create_connection(("127.0.0.1", port))
        listener.sendall(head.encode())
        while b": hardwon" not in listener.recv(4096):
            continue
        listeners.append(listener)
    times = []
    for _ in range(MESSAGES):
        began = time.perf_counter()
        client.post("/api/processing", json={"isProcessing": True}).raise_for_status()
        for listener in listeners:
            while b"processing" not in listener.recv(65536):
                continue
        times.append(time.perf_counter() - began)
    for listener in listeners:
        listener.close()
    return MESSAGES / sum(times), compute_p95(times) * 1000


def run_hardwon(*words: str) -> None:
    subprocess.run([sys.executable, "-m", "hardwon", *words], check=True, stdout=subprocess.DEVNULL)


def start_worker(folder: str) -> tuple[httpx.Client, int, str]:
    """Start a worker in a fresh home and store some sessions; return a client, the port and the token."""
    os.environ |= {"HARDWON_HOME": os.path.join(folder, "home"), "HOME": folder}
    run_hardwon("config", "set", "apiPort", "0")
    run_hardwon("start")
    for _ in range(200):
        with open(os.path.join(folder, "home", "worker.json")) as file:
            port = json.load(file)["port"]
        if port:
            break
        time.sleep(0.05)
    with open(os.path.join(folder, "home", "token")) as file:
        token = file.read().strip()
    headers = {"authorization": f"Bearer {token}"}
    client = httpx.Client(base_url=f"http://127.0.0.1:{port}", headers=headers, trust_env=False)
    for number in range(SESSIONS):
        body = {"claudeSessionId": f"s{number}", "userPrompt": "fly the kite", "cwd": "/home/dev/kite"}
        client.post("/api/sessions/init", json=body).raise_for_status()
    return client, port, token


def find_free_port() -> int:
    with socket.socket() as free_socket:
        free_socket.bind(("127.0.0.1", 0))
        port: int = free_socket.getsockname()[1]
        return port


def compare_with_bare_app(
    measure_ours: Callable[[], tuple[float, float]], measure_bare: Callable[[], tuple[float, float]]
) -> tuple[float, float]:
    """Measure in turns; return our requests per second and 95th percentile as ratios to the bare app's."""
    pairs = [(measure_ours(), measure_bare()) for _ in range(ROUNDS)]
    return median(a[0] / b[0] for a, b in pairs), median(a[1] / b[1] for a, b in pairs)


def main() -> int:
    port = find_free_port()
    bare_server = subprocess.Popen([sys.executable, "-c", BARE, str(port)])
    with tempfile.TemporaryDirectory(prefix="hardwon-bench-") as folder:
        try:
            client, worker_port, token = start_worker(folder)
            bare_client = httpx.Client(base_url=f"http://127.0.0.1:{port}", trust_env=False)
            wait_until_up(bare_client)
            result: dict[str, float] = {}
            for name, path in (("health", "/api/health"), ("sessions", "/api/sessions?limit=20")):
                rate, slow = compare_with_bare_app(
                    lambda path=path: measure_requests(client, path),  # type: ignore[misc]
                    lambda path=path: measure_requests(bare_client, path),  # type: ignore[misc]
                )
                print(f"{name:10} {rate:5.2f} x the requests per second, {slow:5.2f} x the p95 of a bare app")
                result |= {f"{name}_rate": round(rate, 2), f"{name}_p95": round(slow, 2)}
            rate, slow = compare_with_bare_app(
                lambda: measure_fan_out(client, worker_port, token), lambda: measure_fan_out(bare_client, port, "")
            )
            print(f"fan-out    {rate:5.2f} x the messages per second, {slow:5.2f} x the p95 to {LISTENERS} listeners")
            print(json.dumps({**result, "fan_out_rate": round(rate, 2), "fan_out_p95": round(slow, 2)}))
        finally:
            bare_server.terminate()
            run_hardwon("stop")
    return 0


if __name__ == "__main__":
    sys.exit(main())
