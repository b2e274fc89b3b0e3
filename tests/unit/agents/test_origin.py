"""The parent processes of a hook tell whether the agent itself started it."""

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


def build_process_tree(
    host: str, *, text: str = "", program: str = "", above: tuple[Process, ...] = (TERMINAL,)
) -> list[Process]:
    """Build the hook, its shell, the agent and the processes above it, as Linux reports them."""
    hook_arguments = (sys.executable, "-I", "-S", prompt_origin.HOOK_PATH, host, "UserPromptSubmit", HOME)
    path, *arguments = (program or PROGRAMS[host]).split()
    stream = prompt_origin.STREAM_PREFIXES[host]
    text = text or f"{' '.join(hook_arguments)} || :"
    return [
        Process(50, 40, PYTHON, hook_arguments, ENVIRONMENT, f"{stream}[1]", f"{stream}[2]"),
        Process(40, 30, "/usr/bin/dash", ("/bin/sh", "-c", text), ENVIRONMENT, f"{stream}[1]", f"{stream}[2]"),
        Process(30, 20, path, (path, *arguments), ENVIRONMENT, "/dev/pts/1", "/dev/pts/1"),
        *above,
    ]


def build_process_reader(processes: list[Process]) -> Callable[[int], Process]:
    by_pid = {process.pid: process for process in processes}

    def read_process(pid: int) -> Process:
        if pid == os.getpid():
            return prompt_origin.read_process(pid)
        if pid not in by_pid:
            raise ProcessLookupError(pid)
        return by_pid[pid]

    return read_process


def find_doubt_of(host: str, processes: list[Process]) -> str:
    return find_doubt(50, host, HOME, build_process_reader(processes))


@pytest.mark.parametrize("host", PROGRAMS)
def test_a_hook_that_the_agent_started_is_not_doubted(host: str) -> None:
    assert find_doubt_of(host, build_process_tree(host)) == ""


@pytest.mark.parametrize(
    "program",
    [
        "/usr/bin/node /usr/lib/node_modules/@anthropic-ai/claude-code/cli.js",
        "/usr/bin/node --no-warnings /home/dev/.vscode/extensions/anthropic.claude-code-2.1/resources/cli.js",
        "/home/dev/node_modules/@anthropic-ai/claude-code-linux-x64/claude --print",
    ],
)
def test_claude_code_is_recognised_however_it_was_installed(program: str) -> None:
    assert find_doubt_of("claude-code", build_process_tree("claude-code", program=program)) == ""


@pytest.mark.parametrize(
    ("host", "text"),
    [
        ("claude-code", 'sh "${CLAUDE_PLUGIN_ROOT}/door.sh" claude-code UserPromptSubmit || :'),
        ("codex", 'sh "/home/dev/.codex/plugins/hardwon/door.sh" claude-code UserPromptSubmit || :'),
        ("gemini", 'sh "/home/dev/.gemini/extensions/hardwon/door.sh" gemini UserPromptSubmit 2>/dev/null || :'),
    ],
)
def test_a_plugins_hook_is_not_doubted(host: str, text: str) -> None:
    assert find_doubt_of(host, build_process_tree(host, text=text)) == ""


@pytest.mark.parametrize("host", ["copilot", "grok", "droid", "vibe", "deepagents", "cursor", "cline"])
def test_prompts_of_an_agent_whose_hooks_cannot_be_verified_are_doubted(host: str) -> None:
    assert find_doubt_of(host, build_process_tree("codex")) == f"hardwon cannot tell who types in {host}"


def test_a_login_shell_and_a_program_that_starts_itself_again_are_not_doubted() -> None:
    hook, shell, agent, *_ = build_process_tree("codex")
    shell = replace(shell, arguments=("/bin/zsh", "-lc", shell.arguments[2]))
    wrapper = Process(20, 10, "/usr/bin/node", ("node", "/usr/lib/codex/bin/codex.js"), ENVIRONMENT)
    terminal = replace(TERMINAL, pid=10)
    assert find_doubt_of("codex", [hook, shell, agent, wrapper, terminal]) == ""


def test_without_streams_and_environment_the_rest_decides() -> None:
    """As on macOS."""
    hook, shell, agent, *above = build_process_tree("claude-code")
    sparse_processes = [replace(process, stdin="", stdout="", environment=None) for process in (hook, shell, agent)]
    assert find_doubt_of("claude-code", [*sparse_processes, *above]) == ""
    tool = replace(sparse_processes[1], arguments=("/bin/zsh", "-c", f"eval '{shell.arguments[2]}' < /tmp/payload"))
    assert "a command ran the hook" in find_doubt_of(
        "claude-code", [sparse_processes[0], tool, sparse_processes[2], *above]
    )


def find_doubt_with(host: str, at: int, **changes: object) -> str:
    processes = build_process_tree(host)
    processes[at] = replace(processes[at], **changes)
    return find_doubt_of(host, processes)


def test_another_program_home_or_copy_of_the_hook_is_doubted() -> None:
    arguments = build_process_tree("codex")[0].arguments
    assert find_doubt_with("codex", 0, program="/usr/bin/nc", arguments=("nc", "-U", "socket")).startswith(
        "it was sent by nc,"
    )
    assert "another copy" in find_doubt_with("codex", 0, arguments=(*arguments[:3], "/tmp/hook.py", *arguments[4:]))
    assert "another copy" in find_doubt_with("codex", 0, program="/tmp/python3")
    assert "another home" in find_doubt_with("codex", 0, arguments=(*arguments[:6], "/tmp/home"))
    assert "not by hardwon's hook" in find_doubt_with("codex", 0, arguments=(*arguments[:4], "gemini", *arguments[5:]))


def test_a_shell_with_other_words_and_another_program_in_the_agents_place_are_doubted() -> None:
    command = build_process_tree("codex")[1].arguments[2]
    for text in (
        f"{command} ",
        f"x=1 {command}",
        command.removesuffix(" || :"),
        f"cat p | {command}",
        "sh door.sh || :",
    ):
        assert "a command ran the hook (dash)" in find_doubt_with("codex", 1, arguments=("sh", "-c", text)), text
    assert "a command ran the hook" in find_doubt_with("codex", 1, arguments=("sh",))
    assert "was not started by codex, but by bash" in find_doubt_with("codex", 2, program="/usr/bin/bash")
    script = ("bash", "/home/dev/codex/run.sh")
    assert "but by bash" in find_doubt_with("codex", 2, program="/usr/bin/bash", arguments=script)
    assert "but by python3" in find_doubt_with("codex", 2, program="/usr/bin/python3", arguments=("python3", "codex"))


def test_other_streams_and_an_environment_of_a_tool_are_doubted() -> None:
    assert "redirected" in find_doubt_with("claude-code", 0, stdin="/tmp/payload")
    hook, shell, *rest = build_process_tree("claude-code")
    pipes = [replace(process, stdin="pipe:[1]", stdout="pipe:[2]") for process in (hook, shell)]
    assert "does not come from claude-code" in find_doubt_of("claude-code", [*pipes, *rest])
    assert "environment is not the agent's" in find_doubt_with("codex", 1, environment={})
    for agent_variable in ({"CODEX_THREAD_ID": "1"}, {"GEMINI_CLI": "1"}, {"AI_AGENT": "claude-code_2-1-325_agent"}):
        doubt = find_doubt_with("codex", 1, environment={**ENVIRONMENT, **agent_variable})
        assert doubt == f"a command that an agent ran sent it ({next(iter(agent_variable))} is set)"
    harness = {**ENVIRONMENT, "AI_AGENT": "claude-code_2-1-325_harness", "CLAUDECODE": "1"}
    assert find_doubt_with("claude-code", 1, environment=harness) == ""


def test_an_agent_below_the_shell_of_another_is_doubted() -> None:
    shell = Process(20, 15, "/usr/bin/bash", ("bash", "-c", "codex exec hardwon"), ENVIRONMENT)
    outer_agent = Process(15, 1, PROGRAMS["claude-code"], ("claude",), ENVIRONMENT)
    assert (
        find_doubt_of("codex", build_process_tree("codex", above=(shell, outer_agent)))
        == "this codex was started by another agent"
    )


def test_missing_processes_are_doubted() -> None:
    for processes in ([], build_process_tree("codex")[:1], build_process_tree("codex")[:2]):
        assert find_doubt_of("codex", processes) == prompt_origin.UNKNOWN_SENDER
    assert find_doubt(0, "codex", HOME) == prompt_origin.UNKNOWN_SENDER
    orphan = replace(build_process_tree("codex")[0], parent_pid=1)
    assert "a command ran the hook" in find_doubt_of("codex", [orphan, replace(TERMINAL, pid=1, program="/sbin/init")])


def test_process_arguments_of_macos_are_parsed() -> None:
    content = (3).to_bytes(4, sys.byteorder) + b"/bin/sh\0\0\0\0\0sh\0-c\0a b || :\0HOME=/Users/dev\0X=1=2\0\0"
    arguments, environment = parse_process_arguments(content)
    assert (arguments, environment) == (("sh", "-c", "a b || :"), {"HOME": "/Users/dev", "X": "1=2"})
    assert parse_process_arguments(b"") == ((), {})
