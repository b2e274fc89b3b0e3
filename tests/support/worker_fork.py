"""Starts workers by forking a process that has loaded hardwon already: a tenth of the cost of a new interpreter.

The worker is a process of its own, as in real use; only its interpreter is not started anew. Tests whose point is the
start itself use `House.process("start")`. Run as a script this file is the process that forks.
"""

from __future__ import annotations

import atexit
import functools
import gc
import json
import logging
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from typing import NoReturn


def fork_worker(home: str, environment: Mapping[str, str]) -> int:
    """Start a worker for this home and return its process id."""
    server = _start_fork_server()
    assert server.stdin and server.stdout
    server.stdin.write(json.dumps({"home": home, "environment": dict(environment)}) + "\n")
    server.stdin.flush()
    return int(server.stdout.readline())


@functools.cache
def _start_fork_server() -> subprocess.Popen[str]:
    # Without HARDWON_HOME: what runs for a test's home is ended with the test, and this serves all of them.
    environment = {name: value for name, value in os.environ.items() if name != "HARDWON_HOME"}
    command = [sys.executable, "-I", os.path.abspath(__file__)]
    server = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment)
    atexit.register(_end_fork_server, server)
    return server


def _end_fork_server(server: subprocess.Popen[str]) -> None:
    assert server.stdin
    server.stdin.close()
    server.wait()


def _reap_workers(running_pids: set[int]) -> None:
    try:
        while pid := os.waitpid(-1, os.WNOHANG)[0]:
            running_pids.discard(pid)
    except ChildProcessError:
        pass  # none is left


def _exit_quickly(code: int) -> NoReturn:
    """Wait for threads and close files and connections as a normal exit does, but leave all loaded modules alone."""
    for thread in threading.enumerate():
        if thread is not threading.current_thread() and not thread.daemon:
            thread.join()
    gc.collect()  # closes the connections that objects in cycles still hold
    logging.shutdown()
    os._exit(code)


def _serve_forks() -> None:
    from hardwon.agents import hook_settings
    from hardwon.fallback import worker_start
    from hardwon.web import server  # noqa: F401 (loaded by every worker for its API)
    from hardwon.worker import hook_server

    hook_settings.list_settings_files("")  # loads a module for each agent, which every worker does at its start
    gc.collect()
    gc.freeze()  # or each worker copies all these objects when it collects its garbage

    # Reaped by a handler, not by SIG_IGN: their CPU time then counts as this process's, and as the test run's.
    running_pids = set[int]()
    signal.signal(signal.SIGCHLD, lambda *_: _reap_workers(running_pids))
    for line in sys.stdin:
        request = json.loads(line)
        # Blocked, so that a worker that ends at once is noted before it is reaped.
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD})
        child = os.fork()
        if child:
            running_pids.add(child)
            signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGCHLD})
            print(child, flush=True)
            continue
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGCHLD})
        os.environ.clear()
        os.environ.update(request["environment"])
        environment = worker_start.build_environment(request["home"])
        os.environ.clear()
        os.environ.update(environment)
        time.tzset()  # a new interpreter would read the time zone of its environment
        os.setsid()
        os.chdir("/")
        null = os.open(os.devnull, os.O_RDWR)
        for descriptor in (0, 1, 2):
            os.dup2(null, descriptor)
        _exit_quickly(hook_server.main(request["home"]))
    # The tests have ended. Where they were killed, nobody has stopped their workers.
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    for pid in running_pids:
        os.kill(pid, signal.SIGTERM)


if __name__ == "__main__":
    _serve_forks()
