"""`install timer` prints what a scheduler needs to have the handoffs of idle sessions drafted, and writes nothing."""

from __future__ import annotations

import os
import plistlib
import subprocess
from pathlib import Path

import pytest

from hardwon.cli import agents
from tests.support.house import House

COMMAND = ["/bin/sh", "-c", 'echo "$HARDWON_HOME"']


@pytest.mark.parametrize("scheduler", agents.SCHEDULERS)
def test_each_scheduler_gets_what_it_needs_and_nothing_is_written(house: House, own_home: str, scheduler: str) -> None:
    printed = house.ok("install", "timer", "--with", scheduler).out
    assert house.home in printed and "reflect" in printed and "--idle" in printed
    assert os.listdir(own_home) == []


def test_launchd_can_read_its_file(tmp_path: Path) -> None:
    properties = plistlib.loads(agents.build_launch_agent(str(tmp_path), COMMAND).encode())
    assert properties["StartInterval"] == 600 and properties["ProgramArguments"] == COMMAND
    assert properties["EnvironmentVariables"] == {"HARDWON_HOME": str(tmp_path)}


@pytest.mark.parametrize("odd", ["a b", "100%", 'quo"te', "$HOME", "back\\slash"])
def test_special_characters_in_the_home_reach_the_command_unchanged(odd: str, tmp_path: Path) -> None:
    home = str(tmp_path / odd)
    line = agents.build_cron_line(home, COMMAND).partition("* * * * ")[2].replace("\\%", "%")
    run = subprocess.run(["sh", "-c", line.partition(" >/dev/null")[0]], capture_output=True, text=True)
    assert run.stdout == f"{home}\n"
    service = agents.build_service_unit(home, COMMAND)
    (environment,) = [line for line in service.splitlines() if line.startswith("Environment=")]
    plain = environment.removeprefix('Environment="HARDWON_HOME=').removesuffix('"')
    assert plain.replace("%%", "%").replace('\\"', '"').replace("\\\\", "\\") == home
