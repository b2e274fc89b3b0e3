"""A program that starts a hook as an agent does, so that hardwon takes the prompts for a person's.

The worker inspects the hook's process and its ancestors. So the stand-in is a copy of the interpreter under the name of
the agent's program, gives the hook the kind of input and output that the agent would, and has no parent except the
system's first process, because the tests may themselves be run by an agent.
"""

from __future__ import annotations

import atexit
import functools
import os
import shlex
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import threading
from collections.abc import Mapping, Sequence

from hardwon.agents.prompt_origin import AGENT_PROGRAM_NAMES, STREAM_PREFIXES

_making = threading.Lock()
_SCRIPT = """
import os, socket, subprocess, sys
words, streams = sys.argv[2:], sys.argv[1]
for name in ("PYTHONHOME", "LD_LIBRARY_PATH"):
    kept = os.environ.pop("STAND_IN_" + name, "")
    os.environ.pop(name)
    if kept:
        os.environ[name] = kept
payload = sys.stdin.buffer.read()
if os.fork():
    os._exit(0)
os.setsid()
if streams == "socket:":
    (our_input, its_input), (our_output, its_output) = socket.socketpair(), socket.socketpair()
    started = subprocess.Popen(words, stdin=its_input, stdout=its_output)
    its_input.close(), its_output.close()
    try:
        our_input.sendall(payload)
        our_input.shutdown(socket.SHUT_WR)
    except OSError:
        pass  # a command that reads something else has closed it
    answer = b""
    while part := our_output.recv(65536):
        answer += part
else:
    started = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    answer, _ = started.communicate(payload)
os.write(1, b"%d\\n" % started.wait() + answer)
"""


def run_hook(
    words: Sequence[str], payload: bytes, environment: Mapping[str, str], host: str
) -> tuple[int, bytes, bytes]:
    """Return the exit code and both outputs of a hook that the agent runs by the command in its settings."""
    return _run(["/bin/sh", "-c", f"{shlex.join(words)} || :"], payload, environment, host)


def run_tool(command: str, environment: Mapping[str, str], host: str) -> bytes:
    """Return what a command prints that the agent's model runs with its shell tool."""
    marks = {"claude-code": {"CLAUDECODE": "1"}, "codex": {"CODEX_THREAD_ID": "1"}, "gemini": {"GEMINI_CLI": "1"}}
    _, out, err = _run(["/bin/bash", "-c", command], b"", {**environment, **marks.get(host, {})}, host)
    assert not err, err.decode()
    return out


def _run(words: Sequence[str], payload: bytes, environment: Mapping[str, str], host: str) -> tuple[int, bytes, bytes]:
    run = subprocess.run(
        [get_program_path(host), "-S", "-c", _SCRIPT, STREAM_PREFIXES[host], *words],
        input=payload,
        capture_output=True,
        env=_with_interpreter(environment),
    )
    code, _, answer = run.stdout.partition(b"\n")
    return int(code or b"-1"), answer, run.stderr


def _with_interpreter(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the environment that the copied interpreter needs; it restores the original before it starts anything."""
    interpreter_paths = {
        "PYTHONHOME": sys.base_prefix,
        "LD_LIBRARY_PATH": str(sysconfig.get_config_var("LIBDIR") or ""),
    }
    saved = {f"STAND_IN_{name}": environment[name] for name in interpreter_paths if name in environment}
    return {**environment, **saved, **interpreter_paths}


def get_program_path(host: str) -> str:
    with _making:  # several hooks may be the first at once
        return os.path.join(_copy_programs(), AGENT_PROGRAM_NAMES[host])


@functools.cache
def _copy_programs() -> str:
    """Create a folder with the interpreter under the name of each agent; return its path."""
    folder, interpreter = tempfile.mkdtemp(prefix="agents-"), os.path.realpath(sys.executable)
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    for name in AGENT_PROGRAM_NAMES.values():
        path = os.path.join(folder, name)
        try:
            os.link(interpreter, path)
        except OSError:  # on another disk
            shutil.copy2(interpreter, path)
    return folder
