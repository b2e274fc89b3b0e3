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
    from hardwon.agents import Setup

_VERSION = re.compile(r"\d+(?:\.\d+)+")


def version_of(program: str) -> str:
    """Empty if it does not say."""
    try:
        said = subprocess.run([program, "--version"], capture_output=True, text=True, timeout=20).stdout
    except (OSError, subprocess.SubprocessError):
        return ""
    found = _VERSION.search(said)
    return found[0] if found else ""


def too_old(module: Setup, version: str) -> str:
    """What to do about a version older than the oldest on which a hold was seen to hold; empty if it is not."""
    if not version or tuple(map(int, version.split("."))) >= module.LEAST:
        return ""
    return f"hooks are known to work from {'.'.join(map(str, module.LEAST))} on: bring it up to date"


def off_path() -> str:
    """What lets people and the commands of our plugins call us by name; empty if they can."""
    own = os.path.join(os.path.dirname(sys.executable), "hardwon")
    if shutil.which("hardwon"):
        return ""
    # On a fresh machine the folder is missing; a link of an earlier installation may lead nowhere.
    return f"mkdir -p ~/.local/bin && ln -sf {shlex.quote(own)} ~/.local/bin/"
