"""Return whether a hook was started by the agent itself, by what the system knows of the process and of those above it.

A typed decision counts as a person's word, so it needs this proof. What an agent starts for a prompt looks like this:

    claude                                       the agent
      sh -c 'python -I -S hook.py … || :'        the command in its settings, word for word
        python -I -S hook.py …                   the hook, on the input and output that the agent gave the shell

A command that a model runs in its shell tool has other words in the shell, or no shell (`exec`), or no agent above it
(`setsid`, `nohup`, a double fork). One that imitates all of that still has another input: agents on Node and Bun give
their hooks sockets, which a shell cannot make, and their tools a file or `/dev/null`.

Standard library only, because the hook asks this as well while the worker is away.
"""

from __future__ import annotations

import os
import sys

from hardwon.agents import AGENT_NAMES
from hardwon.types import frozen

TYPE_CHECKING = False  # importing it from `typing` would slow down the hook
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

_PROMPT_EVENT = "UserPromptSubmit"
UNKNOWN_SENDER = "this system does not tell which program sent it"
HOOK_PATH = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "hook.py")

# Part of the path of each agent's program, or of its script where a runtime runs it. Whole paths, because some
# installers name the file after the version (`~/.local/share/claude/versions/2.1.325`).
AGENT_PROGRAM_NAMES = {name: name for name in AGENT_NAMES} | {"claude-code": "claude", "deepagents": "dcode"}
_RUNTIMES = ("node", "nodejs", "bun", "deno")

# What each agent gives its hooks as standard input and output, seen on Claude Code 2.1.197 and 2.1.325, Codex 0.166,
# Gemini CLI 0.61, opencode 1.18, Qwen Code 0.24 and Kilo 7.7. An agent that is missing here cannot carry a person's
# decision; docs/agents.md says why.
STREAM_PREFIXES = {
    "claude-code": "socket:",
    "codex": "pipe:",
    "gemini": "socket:",
    "opencode": "socket:",
    "qwen": "socket:",
    "kilo": "socket:",
}

# Set for the commands that a model runs, and not for hooks. `AI_AGENT` is set for both, with another ending.
_TOOL_CALL_VARIABLES = (
    "CODEX_TOOL_CALL_ID",
    "CODEX_THREAD_ID",
    "CODEX_CI",
    "CODEX_SANDBOX",
    "CODEX_SANDBOX_NETWORK_DISABLED",
    "GEMINI_CLI",
    "CURSOR_AGENT",
    "COPILOT_AGENT",
    "QWEN_CODE",
    "COPILOT_AGENT_SESSION_ID",
    "GROK_AGENT",
)
_COMMAND_SUFFIXES = (" || :", " 2>/dev/null || :")
# A bound in case processes end, and their numbers are used again, while they are read.
_MAX_ANCESTORS = 64


@frozen
class Process:
    """A running process, as the system describes it."""

    pid: int
    parent_pid: int
    program: str  # the file that runs
    arguments: tuple[str, ...]
    environment: Mapping[str, str] | None  # as it was started with; None where the system does not tell
    stdin: str = ""  # such as "socket:[123]"; empty where the system does not tell
    stdout: str = ""


def get_peer_pid(connection: object) -> int:
    """Return the process at the other end of a Unix socket; 0 where the system does not tell."""
    import socket
    import struct

    getsockopt = getattr(connection, "getsockopt", None)
    if getsockopt is None:
        return 0  # not a socket
    try:
        if hasattr(socket, "SO_PEERCRED"):
            credentials = getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
            pid, user, _ = struct.unpack("3i", credentials)
            return int(pid) if user == os.getuid() else 0
        if sys.platform == "darwin":
            sol_local, local_peerpid = 0, 2  # from <sys/un.h>; Python does not name them
            return int(getsockopt(sol_local, local_peerpid))
    except (OSError, struct.error):
        pass
    return 0


def find_doubt(pid: int, agent_name: str, home: str, read: Callable[[int], Process] | None = None) -> str:
    """Return why this process is not known to be the hook that the agent started for a prompt; empty if it is.

    Looks at the process itself, at the shell that started it, at the agent above that, and at what is above the agent.
    A process that ended meanwhile, or that the system does not describe, counts as unknown.
    """
    read = read or read_process
    if pid <= 0:
        return UNKNOWN_SENDER
    if agent_name not in STREAM_PREFIXES:
        return f"hardwon cannot tell who types in {agent_name}"
    try:
        this_process = read(os.getpid())
        hook = read(pid)
        if doubt := _find_hook_doubt(hook, this_process, agent_name, home):
            return doubt
        shell = read(hook.parent_pid)
        if not _has_installed_command(shell, hook, agent_name):
            return f"a command ran the hook ({_get_program_name(shell)}), not {agent_name}"
        agent = read(shell.parent_pid)
        if not _is_agent(agent, agent_name):
            return f"the hook was not started by {agent_name}, but by {_get_program_name(agent)}"
        if doubt := _find_stream_doubt(shell, hook, agent_name):
            return doubt
        if doubt := _find_environment_doubt(shell, agent):
            return doubt
        if _is_below_another_agent(agent, read):
            return f"this {agent_name} was started by another agent"
    except (OSError, ValueError):
        return UNKNOWN_SENDER
    return ""


def _find_hook_doubt(hook: Process, this_process: Process, agent_name: str, home: str) -> str:
    """Return why a process is not our hook at work for a prompt."""
    not_our_hook = f"it was sent by {_get_program_name(hook)}, not by hardwon's hook"
    # As installed: `python -I -S hook.py AGENT EVENT HOME`.
    if len(hook.arguments) != 7:
        return not_our_hook
    _, *options, hook_path, hook_agent, event, hook_home = hook.arguments
    if options != ["-I", "-S"] or hook_agent != agent_name or event != _PROMPT_EVENT:
        return not_our_hook
    # Another copy of hook.py could be an agent's own, edited to say anything.
    is_this_copy = os.path.realpath(hook_path) == os.path.realpath(HOOK_PATH)
    if not is_this_copy or hook.program != this_process.program:
        return (
            f"the hook belongs to another copy of hardwon: {hook_path} (hardwon install {agent_name} puts this one in)"
        )
    if os.path.realpath(hook_home) != os.path.realpath(home):
        return f"the hook is for another home: {hook_home}"
    return ""


def _has_installed_command(shell: Process, hook: Process, agent_name: str) -> bool:
    """Return whether a shell runs our hook by the command that `hardwon install` writes, or a plugin's, alone.

    `|| :` at its end keeps the shell from becoming the hook, so there always is one.
    """
    import shlex

    # `sh -c TEXT`, or several options such as `bash -l -c TEXT`; the last has the c.
    if len(shell.arguments) < 3:
        return False
    *options, text = shell.arguments[1:]
    has_only_options = all(option.startswith("-") for option in options)
    if not has_only_options or "c" not in options[-1]:
        return False
    command = shlex.join(hook.arguments)
    if text in [command + suffix for suffix in _COMMAND_SUFFIXES]:
        return True
    # The longer ending first, because it ends with the shorter one.
    suffix = next((suffix for suffix in reversed(_COMMAND_SUFFIXES) if text.endswith(suffix)), None)
    if suffix is None:
        return False
    plugin_words = shlex.split(text.removesuffix(suffix))
    if len(plugin_words) != 4:
        return False  # `sh …/door.sh AGENT EVENT` has four
    program, script, named_agent, event = plugin_words
    # Codex runs Claude Code's plugins as they are, and the script finds out by whom it is run.
    agent_names = (agent_name, "claude-code") if agent_name == "codex" else (agent_name,)
    return (
        program == "sh"
        and os.path.basename(script) == "door.sh"
        and named_agent in agent_names
        and event == _PROMPT_EVENT
    )


def _find_stream_doubt(shell: Process, hook: Process, agent_name: str) -> str:
    """Return why the hook's input and output are not those that the agent gives to a hook; empty if they are."""
    if (hook.stdin, hook.stdout) != (shell.stdin, shell.stdout):
        return "the hook's input was redirected by a command"
    prefix = STREAM_PREFIXES[agent_name]
    streams = [stream for stream in (hook.stdin, hook.stdout) if stream]
    if not all(stream.startswith(prefix) for stream in streams):
        return f"the hook's input does not come from {agent_name}"
    return ""


def _find_environment_doubt(shell: Process, agent: Process) -> str:
    """Return why the environment is not a hook's; empty if it is, or if the system does not tell.

    Agents set extra variables for the commands that a model runs.
    """
    environment = shell.environment
    if environment is None or agent.environment is None:
        return ""
    variables = [name for name in _TOOL_CALL_VARIABLES if environment.get(name)]
    if environment.get("AI_AGENT", "").endswith("_agent"):
        variables.append("AI_AGENT")
    if variables:
        return f"a command that an agent ran sent it ({variables[0]} is set)"
    # A hook inherits what the agent has.
    if environment.get("HOME") != agent.environment.get("HOME"):
        return "the hook's environment is not the agent's"
    return ""


def _is_agent(process: Process, agent_name: str) -> bool:
    """Return whether a process is this agent, by the path of its program, or of the script that a runtime runs."""
    path = process.program
    if os.path.basename(path) in _RUNTIMES:
        scripts = [argument for argument in process.arguments[1:] if not argument.startswith("-")]
        path = scripts[0] if scripts else ""
    return AGENT_PROGRAM_NAMES[agent_name] in path


def _is_below_another_agent(agent: Process, read: Callable[[int], Process]) -> bool:
    """Return whether another agent started this one through some other process, such as a shell tool.

    An agent that restarts itself, or that a wrapper of the same agent starts, has no other process in between.
    """
    pid = agent.parent_pid
    is_apart = False
    for _ in range(_MAX_ANCESTORS):
        if pid <= 1:
            return False  # the system's first process
        try:
            ancestor = read(pid)
        except OSError:
            return False  # another user's process, such as a terminal's; no agent of this user is above it
        if not any(_is_agent(ancestor, agent_name) for agent_name in AGENT_NAMES):
            is_apart = True
        elif is_apart:
            return True
        pid = ancestor.parent_pid
    return False


def _get_program_name(process: Process) -> str:
    """Return the name of a process's program for a message to the person, which it must not be able to disturb."""
    name = os.path.basename(process.program) or "a program"
    return "".join(filter(str.isprintable, name))[:40]


def read_process(pid: int) -> Process:
    """Describe a running process; OSError if it has ended or is not ours to look at."""
    if sys.platform == "darwin":
        return _read_on_macos(pid)
    return _read_from_proc(pid)


def _read_from_proc(pid: int) -> Process:
    """Read a process from Linux's /proc; OSError if it has ended or is not ours to look at."""
    folder = f"/proc/{pid}"
    with open(f"{folder}/stat", "rb") as file:
        fields = file.read().rpartition(b")")[2].split()  # the process name before it may contain anything, even `)`
    with open(f"{folder}/cmdline", "rb") as file:
        words = _decode_strings(file.read())
    with open(f"{folder}/environ", "rb") as file:
        environment = _decode_strings(file.read())
    return Process(
        pid=pid,
        parent_pid=int(fields[1]),
        program=os.readlink(f"{folder}/exe").removesuffix(" (deleted)"),  # the file was replaced by an upgrade
        arguments=words,
        environment=_parse_assignments(environment),
        stdin=_read_stream(f"{folder}/fd/0"),
        stdout=_read_stream(f"{folder}/fd/1"),
    )


def _read_stream(path: str) -> str:
    """Return what an open file of a process is, such as `socket:[123]`."""
    try:
        return os.readlink(path)
    except FileNotFoundError:
        return "closed"


def _decode_strings(content: bytes) -> tuple[str, ...]:
    """Return the strings in a block of C strings, each of which ends with a NUL."""
    strings = content.split(b"\0")[:-1]
    return tuple(map(os.fsdecode, strings))


def _parse_assignments(assignments: Sequence[str]) -> dict[str, str]:
    """Return an environment from its lines, such as `HOME=/home/dev`."""
    environment = {}
    for assignment in assignments:
        name, _, value = assignment.partition("=")
        environment[name] = value
    return environment


def _read_on_macos(pid: int) -> Process:
    """Ask libproc and sysctl, which tell neither what standard input is nor every program's environment."""
    import ctypes

    libc = ctypes.CDLL(None, use_errno=True)
    bsd_info, bsd_info_bytes, parent_offset = 3, 136, 16
    info = ctypes.create_string_buffer(bsd_info_bytes)
    path = ctypes.create_string_buffer(4096)
    if libc.proc_pidinfo(pid, bsd_info, ctypes.c_uint64(0), info, bsd_info_bytes) < bsd_info_bytes:
        raise OSError(ctypes.get_errno(), "proc_pidinfo")
    if libc.proc_pidpath(pid, path, len(path)) <= 0:
        raise OSError(ctypes.get_errno(), "proc_pidpath")
    names = (ctypes.c_int * 3)(1, 49, pid)  # CTL_KERN, KERN_PROCARGS2
    arguments = ctypes.create_string_buffer(1 << 20)
    size = ctypes.c_size_t(1 << 20)
    if libc.sysctl(names, 3, arguments, ctypes.byref(size), None, ctypes.c_size_t(0)):
        raise OSError(ctypes.get_errno(), "sysctl")
    words, environment = parse_process_arguments(arguments.raw[: size.value])
    parent = int.from_bytes(info.raw[parent_offset : parent_offset + 4], sys.byteorder)
    return Process(pid, parent, os.fsdecode(path.value), words, environment or None)


def parse_process_arguments(content: bytes) -> tuple[tuple[str, ...], dict[str, str]]:
    """Parse macOS's KERN_PROCARGS2 (a count, the program, padding, then strings) into arguments and environment."""
    count = int.from_bytes(content[:4], sys.byteorder)
    strings = content[4:].partition(b"\0")[2].lstrip(b"\0")
    decoded = _decode_strings(strings)
    return decoded[:count], _parse_assignments([text for text in decoded[count:] if text])
