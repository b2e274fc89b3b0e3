"""What `up` advises to have hardwon on the PATH works on a fresh machine."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from tests.support.house import House


def test_the_advised_command_makes_the_folder_and_the_link(house: House, own_home: str) -> None:
    lines = house.ok("up", env={"PATH": "/usr/bin:/bin"}).out.splitlines()
    advice = next(lines[number + 1] for number, line in enumerate(lines) if line.startswith("command   "))
    for _ in range(2):  # a link that is there already is no obstacle
        subprocess.run(["sh", "-c", advice], check=True, env={**os.environ, "HOME": own_home})
    link = Path(own_home, ".local", "bin", "hardwon")
    assert link.is_symlink() and os.access(link, os.X_OK)
