"""Starts the worker from a hook or a terminal: detached, and with a clean environment.

Each failed start doubles the wait before the next, so that a broken worker does not start a storm of processes, and
`doctor` shows it. A worker that serves resets the count.
"""

from __future__ import annotations

import os
import sys

from hardwon import paths
from hardwon.text.light_json import loads
from hardwon.types import API_KEY_VARIABLES

FIRST_WAIT_SECONDS = 30.0
MAX_WAIT_SECONDS = 3600.0
STARTS_FILE = "worker.starts"

# The variables that a worker takes over from the terminal or agent that starts it.
_KEPT_VARIABLES = (
    "CLAUDE_CONFIG_DIR",
    "CODEX_HOME",
    "GEMINI_CLI_HOME",
    "GEMINI_CLI_TRUSTED_FOLDERS_PATH",
    "HOME",
    "LANG",
    "LC_ALL",
    "LC_CTYPE",
    "LOGNAME",
    "PATH",
    "TMPDIR",
    "TZ",
    "USER",
    "XDG_CONFIG_HOME",
    "XDG_DATA_HOME",
    "XDG_RUNTIME_DIR",
)


def read_failed_starts(home: str) -> tuple[int, float]:
    """Return how many starts failed since the last that worked, and when the latest was."""
    try:
        path = os.path.join(home, STARTS_FILE)
        # Each start appends a dot, and a worker that serves deletes the file: its size is the count.
        return os.path.getsize(path), os.path.getmtime(path)
    except OSError:
        return 0, 0.0


def can_start(home: str, now: float) -> bool:
    """Return whether a worker may be started: after a failed start only once its wait is over."""
    count, latest = read_failed_starts(home)
    if count == 0:
        return True
    wait = min(FIRST_WAIT_SECONDS * 2 ** (count - 1), MAX_WAIT_SECONDS)
    # A start in the future is from before the clock was set back.
    return not 0 <= now - latest < wait


def clear_failed_starts(home: str) -> None:
    """Forget the failed starts, since the worker serves now."""
    try:
        os.unlink(os.path.join(home, STARTS_FILE))
    except OSError:
        pass


def build_environment(home: str) -> dict[str, str]:
    """Return the environment for processes of this home, with the API key of the configured model if there is one."""
    environment = {"HARDWON_HOME": home}
    for name in (*_KEPT_VARIABLES, *_list_key_variables(home)):
        if name in os.environ:
            environment[name] = os.environ[name]
    return environment


def _list_key_variables(home: str) -> tuple[str, ...]:
    """Return the names of the variables that hold the API key of the configured model; none without a model."""
    try:
        with open(os.path.join(home, paths.CONFIG), encoding="utf-8-sig", opener=paths.open_plain_file) as file:
            llm_settings = loads(file.read())["llm"]
        usual_variables = API_KEY_VARIABLES[llm_settings["provider"]]
        own_variable = str(llm_settings.get("apiKeyEnv", "")).strip()
    # `settings` would say what is wrong with the file, but takes a hook too long to import.
    except (OSError, ValueError, LookupError, TypeError, AttributeError):
        return ()
    return (*usual_variables, own_variable)


def launch_worker(home: str) -> int:
    """Start a worker for this home in a session of its own and return its process id, without waiting for it."""
    log_path = os.path.join(home, paths.WORKER_LOG)
    paths.make_private_folder(os.path.dirname(log_path))
    starts = os.open(os.path.join(home, STARTS_FILE), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    with open(starts, "a") as file:
        file.write(".")  # one for each start, so that its size is their number
    # fork and exec instead of `subprocess`, which is slow to import for a hook.
    command = [sys.executable, "-I", "-m", "hardwon.worker"]
    child = os.fork()
    if child:
        return child
    try:
        os.setsid()
        # The worker must not keep a folder of the person busy.
        os.chdir("/")
        null = os.open(os.devnull, os.O_RDWR)
        output = os.open(log_path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        for descriptor, standard in ((null, 0), (output, 1), (output, 2)):
            os.dup2(descriptor, standard)
        # An inherited descriptor would keep a pipe of the agent open.
        os.closerange(3, 256)
        os.execve(command[0], command, build_environment(home))
    finally:
        os._exit(127)
