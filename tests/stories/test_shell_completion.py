"""Tab completes commands and options, in a real shell."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

import pytest

SCRIPT = """
eval "$(hardwon completion bash)"
COMP_WORDS=(hardwon {words})
COMP_CWORD={place}
_hardwon_completion hardwon
printf '%s\\n' "${{COMPREPLY[@]}}"
"""


def complete_words(*words: str) -> list[str]:
    """Return what bash offers in place of the last word."""
    bash = shutil.which("bash")
    if not bash:
        pytest.skip("there is no bash here")
    path = f"{os.path.dirname(sys.executable)}{os.pathsep}{os.environ['PATH']}"
    script = SCRIPT.format(words=" ".join(word or "''" for word in words), place=len(words))
    command = [bash, "--norc", "-ec", script]
    run = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "PATH": path})
    assert (run.returncode, run.stderr) == (0, "")
    return run.stdout.split()


def test_a_command_is_completed_from_its_beginning() -> None:
    assert complete_words("se") == ["search", "sessions"]


def test_commands_below_a_command_and_options_are_completed() -> None:
    assert complete_words("sessions", "sh") == ["show"]
    assert complete_words("search", "--js") == ["--json"]
    assert complete_words("completion", "") == ["bash", "zsh", "fish"]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_each_shell_gets_a_script_of_its_own(shell: str) -> None:
    command = [sys.executable, "-m", "hardwon", "completion", shell]
    script = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert f"_HARDWON_COMPLETE={shell}_complete" in script


def test_completing_a_command_imports_none() -> None:
    completion_code = (
        "from hardwon.cli import hardwon as top; import click, sys; top.shell_complete(click.Context(top), '');"
    )
    print_code = "print([name for name in sys.modules if name.startswith('hardwon.') and name.split('.')[1] in"
    rooms = " ('store', 'recall', 'distil', 'capture', 'worker')])"
    run = subprocess.run(
        [sys.executable, "-c", completion_code + print_code + rooms], capture_output=True, text=True, check=True
    )
    assert run.stdout.strip() == "[]"
