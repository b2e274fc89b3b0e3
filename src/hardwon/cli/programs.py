"""The programs on the PATH: an agent's, with its version, and our own."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hardwon.agents import InstallModule

_VERSION_PATTERN = re.compile(r"\d+(?:\.\d+)+")


def read_version(program: str) -> str:
    """Empty if it does not say."""
    try:
        output = subprocess.run([program, "--version"], capture_output=True, text=True, timeout=20).stdout
    except (OSError, subprocess.SubprocessError):
        return ""
    match = _VERSION_PATTERN.search(output)
    return match[0] if match else ""


def find_upgrade_hint(module: InstallModule, version: str) -> str:
    """What to do about a version older than the oldest on which a hold was seen to hold; empty if it is not."""
    if not version or tuple(map(int, version.split("."))) >= module.MINIMUM_VERSION:
        return ""
    return f"hooks are known to work from {'.'.join(map(str, module.MINIMUM_VERSION))} on: bring it up to date"


def find_path_fix() -> str:
    """What lets people and the commands of our plugins call us by name; empty if they can."""
    own_path = os.path.join(os.path.dirname(sys.executable), "hardwon")
    if shutil.which("hardwon"):
        return ""
    # On a fresh machine the folder is missing; a link of an earlier installation may lead nowhere.
    return f"mkdir -p ~/.local/bin && ln -sf {shlex.quote(own_path)} ~/.local/bin/"
