"""Whether an agent itself started a hook is told by the processes above it, as each agent was seen to start its own."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable

import pytest

from hardwon.agents import prompt_origin
from hardwon.agents.prompt_origin import Process, find_doubt, parse_process_arguments
from hardwon.types import replace

HOME = "/home/dev/.hardwon"
ENVIRONMENT = {"HOME": "/home/dev", "PATH": "/usr/bin"}
PYTHON = prompt_origin.read_process(os.getpid()).program
TERMINAL = Process(20, 1, "/usr/bin/bash", ("-bash",), ENVIRONMENT, "/dev/pts/1", "/dev/pts/1")

PROGRAMS = {
    "claude-code": "/home/dev/.local/share/claude/versions/2.1.325",
    "codex": "/opt/codex-linux-x64/vendor/bin/codex",
    "gemini": "/usr/bin/node /usr/lib/node_modules/@google/gemini-cli/bundle/gemini.js",
    "opencode": "/home/dev/.opencode/bin/opencode",
    "qwen": "/usr/bin/node /usr/lib/node_modules/@qwen-code/qwen-code/cli.js",
    "kilo": "/usr/lib/node_modules/@kilocode/cli-linux-x64/bin/kilo",
}


def tree(host: str, *, text: str = "", program: str = "", above: tuple[Process, ...] = (TERMINAL,)) -> list[Process]:
    """The hook, its shell, the agent and what is above it, as Linux tells of them."""
    hook_words = (sys.executable, "-I", "-S", prompt_origin.HOOK_PATH, host, "UserPromptSubmit", HOME)
    path, *arguments = (program or PROGRAMS[host]).split()
    stream = prompt_origin.STREAM_PREFIXES[host]
    text = text or f"{' '.join(hook_words)} || :"
    return [
        Process(50, 40, PYTHON, hook_words, ENVIRONMENT, f"{stream}[1]", f"{stream}[2]"),
        Process(40, 30, "/usr/bin/dash", ("/bin/sh", "-c", text), ENVIRONMENT, f"{stream}[1]", f"{stream}[2]"),
        Process(30, 20, path, (path, *arguments), ENVIRONMENT, "/dev/pts/1", "/dev/pts/1"),
        *above,
    ]


def reading(processes: list[Process]) -> Callable[[int], Process]:
    by_pid = {process.pid: process for process in processes}

    def read(pid: int) -> Process:
        if pid == os.getpid():
            return prompt_origin.read_process(pid)
        if pid not in by_pid:
            raise ProcessLookupError(pid)
        return by_pid[pid]

    return read


def doubt(host: str, processes: list[Process]) -> str:
    return find_doubt(50, host, HOME, reading(processes))


@pytest.mark.parametrize("host", PROGRAMS)
def test_a_hook_that_the_agent_started_is_not_doubted(host: str) -> None:
    assert doubt(host, tree(host)) == ""


@pytest.mark.parametrize(
    "program",
    [
        "/usr/bin/node /usr/lib/node_modules/@anthropic-ai/claude-code/cli.js",
        "/usr/bin/node --no-warnings /home/dev/.vscode/extensions/anthropic.claude-code-2.1/resources/cli.js",
        "/home/dev/node_modules/@anthropic-ai/claude-code-linux-x64/claude --print",
    ],
)
def test_claude_code_is_known_however_it_was_installed(program: str) -> None:
    assert doubt("claude-code", tree("claude-code", program=program)) == ""


@pytest.mark.parametrize(
    ("host", "text"),
    [
        ("claude-code", 'sh "${CLAUDE_PLUGIN_ROOT}/door.sh" claude-code UserPromptSubmit || :'),
        ("codex", 'sh "/home/dev/.codex/plugins/hardwon/door.sh" claude-code UserPromptSubmit || :'),
        ("gemini", 'sh "/home/dev/.gemini/extensions/hardwon/door.sh" gemini UserPromptSubmit 2>/dev/null || :'),
    ],
)
def test_a_plugins_hook_is_not_doubted(host: str, text: str) -> None:
    assert doubt(host, tree(host, text=text)) == ""


@pytest.mark.parametrize("host", ["copilot", "grok", "droid", "vibe", "deepagents", "cursor", "cline"])
def test_an_agent_whose_hooks_cannot_be_told_from_a_command_decides_nothing(host: str) -> None:
    assert doubt(host, tree("codex")) == f"hardwon cannot tell who types in {host}"


def test_a_login_shell_and_a_program_that_starts_itself_again_are_not_doubted() -> None:
    hook, shell, agent, *_ = tree("codex")
    shell = replace(shell, arguments=("/bin/zsh", "-lc", shell.arguments[2]))
    wrapper = Process(20, 10, "/usr/bin/node", ("node", "/usr/lib/codex/bin/codex.js"), ENVIRONMENT)
    terminal = replace(TERMINAL, pid=10)
    assert doubt("codex", [hook, shell, agent, wrapper, terminal]) == ""


def test_where_the_system_tells_of_no_streams_and_no_environment_the_rest_counts() -> None:
    """As on macOS."""
    hook, shell, agent, *above = tree("claude-code")
    untold = [replace(one, stdin="", stdout="", environment=None) for one in (hook, shell, agent)]
    assert doubt("claude-code", [*untold, *above]) == ""
    tool = replace(untold[1], arguments=("/bin/zsh", "-c", f"eval '{shell.arguments[2]}' < /tmp/payload"))
    assert "a command ran the hook" in doubt("claude-code", [untold[0], tool, untold[2], *above])


def doubts_about(host: str, at: int, **changes: object) -> str:
    processes = tree(host)
    processes[at] = replace(processes[at], **changes)
    return doubt(host, processes)


def test_another_program_home_or_copy_of_the_hook_is_doubted() -> None:
    words = tree("codex")[0].arguments
    assert doubts_about("codex", 0, program="/usr/bin/nc", arguments=("nc", "-U", "socket")).startswith(
        "it was sent by nc,"
    )
    assert "another copy" in doubts_about("codex", 0, arguments=(*words[:3], "/tmp/hook.py", *words[4:]))
    assert "another copy" in doubts_about("codex", 0, program="/tmp/python3")
    assert "another home" in doubts_about("codex", 0, arguments=(*words[:6], "/tmp/home"))
    assert "not by hardwon's hook" in doubts_about("codex", 0, arguments=(*words[:4], "gemini", *words[5:]))


def test_a_shell_with_other_words_and_another_program_in_the_agents_place_are_doubted() -> None:
    command = tree("codex")[1].arguments[2]
    for text in (
        f"{command} ",
        f"x=1 {command}",
        command.removesuffix(" || :"),
        f"cat p | {command}",
        "sh door.sh || :",
    ):
        assert "a command ran the hook (dash)" in doubts_about("codex", 1, arguments=("sh", "-c", text)), text
    assert "a command ran the hook" in doubts_about("codex", 1, arguments=("sh",))
    assert "was not started by codex, but by bash" in doubts_about("codex", 2, program="/usr/bin/bash")
    script = ("bash", "/home/dev/codex/run.sh")
    assert "but by bash" in doubts_about("codex", 2, program="/usr/bin/bash", arguments=script)
    assert "but by python3" in doubts_about("codex", 2, program="/usr/bin/python3", arguments=("python3", "codex"))


def test_other_streams_and_an_environment_of_a_tool_are_doubted() -> None:
    assert "redirected" in doubts_about("claude-code", 0, stdin="/tmp/payload")
    hook, shell, *rest = tree("claude-code")
    pipes = [replace(one, stdin="pipe:[1]", stdout="pipe:[2]") for one in (hook, shell)]
    assert "does not come from claude-code" in doubt("claude-code", [*pipes, *rest])
    assert "environment is not the agent's" in doubts_about("codex", 1, environment={})
    for mark in ({"CODEX_THREAD_ID": "1"}, {"GEMINI_CLI": "1"}, {"AI_AGENT": "claude-code_2-1-325_agent"}):
        said = doubts_about("codex", 1, environment={**ENVIRONMENT, **mark})
        assert said == f"a command that an agent ran sent it ({next(iter(mark))} is set)"
    harness = {**ENVIRONMENT, "AI_AGENT": "claude-code_2-1-325_harness", "CLAUDECODE": "1"}
    assert doubts_about("claude-code", 1, environment=harness) == ""


def test_an_agent_below_the_shell_of_another_is_doubted() -> None:
    shell = Process(20, 15, "/usr/bin/bash", ("bash", "-c", "codex exec hardwon"), ENVIRONMENT)
    upper = Process(15, 1, PROGRAMS["claude-code"], ("claude",), ENVIRONMENT)
    assert doubt("codex", tree("codex", above=(shell, upper))) == "this codex was started by another agent"


def test_what_has_ended_or_is_not_told_is_doubted() -> None:
    for processes in ([], tree("codex")[:1], tree("codex")[:2]):
        assert doubt("codex", processes) == prompt_origin.UNKNOWN_SENDER
    assert find_doubt(0, "codex", HOME) == prompt_origin.UNKNOWN_SENDER
    orphan = replace(tree("codex")[0], parent_pid=1)
    assert "a command ran the hook" in doubt("codex", [orphan, replace(TERMINAL, pid=1, program="/sbin/init")])


def test_what_macos_tells_of_a_process_is_read() -> None:
    content = (3).to_bytes(4, sys.byteorder) + b"/bin/sh\0\0\0\0\0sh\0-c\0a b || :\0HOME=/Users/dev\0X=1=2\0\0"
    words, environment = parse_process_arguments(content)
    assert (words, environment) == (("sh", "-c", "a b || :"), {"HOME": "/Users/dev", "X": "1=2"})
    assert parse_process_arguments(b"") == ((), {})
