"""Whatever keeps time on a machine has sessions that were left reflected on; it is put in once and taken out whole."""

from __future__ import annotations

import os
import plistlib
import shlex
import subprocess
from pathlib import Path

import pytest

from hardwon.cli import timer
from tests.support.house_of_one import House, Ran

THEIRS = "# mine\nMAILTO=ada\n5 4 * * * /usr/bin/backup\n"


class Machine:
    """Owns a folder of programs that stand for the machine's: they note how they were called, and do as told."""

    def __init__(self, house: House, folder: Path) -> None:
        self.house, self.programs = house, folder
        self.calls = folder / "calls"
        folder.mkdir()
        for name in ("git", "true", "cat", "sh"):
            (folder / name).symlink_to(f"/usr/bin/{name}" if Path(f"/usr/bin/{name}").exists() else f"/bin/{name}")

    def has(self, name: str, does: str = "") -> None:
        path = self.programs / name
        path.write_text(f'#!/bin/sh\necho "{name} $*" >> {shlex.quote(str(self.calls))}\n{does}\n')
        path.chmod(0o755)

    def has_cron(self, table: str | None = None) -> Path:
        kept = self.programs / "table"
        if table is not None:
            kept.write_text(table)
        quoted = shlex.quote(str(kept))
        self.has(
            "crontab",
            f'if [ "$1" = -l ]; then [ -f {quoted} ] && cat {quoted} || {{ echo "no crontab for ada" >&2; exit 1; }}\n'
            f"else cat > {quoted}; fi",
        )
        return kept

    def cli(self, *words: str, **env: str) -> Ran:
        return self.house.cli(*words, env={"PATH": str(self.programs), **env})

    def ok(self, *words: str) -> str:
        ran = self.cli(*words)
        assert ran.code == 0, ran.err
        return ran.out

    def called(self) -> list[str]:
        found = self.calls.read_text().splitlines() if self.calls.exists() else []
        self.calls.unlink(missing_ok=True)
        return found


@pytest.fixture
def machine(house: House, tmp_path: Path) -> Machine:
    return Machine(house, tmp_path / "programs")


def units(own_home: str) -> dict[str, str]:
    folder = Path(own_home, ".config", "systemd", "user")
    return {path.name: path.read_text() for path in sorted(folder.glob("*"))} if folder.exists() else {}


def test_systemd_gets_a_timer_once_and_loses_it_whole(house: House, machine: Machine, own_home: str) -> None:
    machine.has("systemctl")
    name = timer.build_timer_name(house.home)
    said = machine.ok("install", "timer", "--yes")
    assert f"{name}.timer" in said and "+ OnUnitActiveSec=10min" in said
    service, clock = units(own_home).values()
    assert f'Environment="HARDWON_HOME={house.home}"' in service and '"reflect" "--idle"' in service
    assert "WantedBy=timers.target" in clock
    assert machine.called()[1:] == ["systemctl --user daemon-reload", f"systemctl --user enable --now {name}.timer"]
    before = units(own_home)
    assert "already installed" in machine.ok("install", "timer", "--yes") and units(own_home) == before
    machine.called()
    assert "from systemd" in machine.ok("uninstall", "timer")
    assert units(own_home) == {} and f"systemctl --user disable --now {name}.timer" in machine.called()
    assert "no timer of ours" in machine.ok("uninstall", "timer")


def test_a_timer_that_systemd_does_not_take_leaves_nothing(machine: Machine, own_home: str) -> None:
    machine.has("systemctl", 'case "$*" in *enable*) echo "no bus" >&2; exit 1;; esac')
    refused = machine.cli("install", "timer", "--with", "systemd", "--yes")
    assert (refused.code, "no bus" in refused.err, units(own_home)) == (1, True, {})


def test_where_systemd_does_not_answer_cron_gets_a_line_beside_the_persons(house: House, machine: Machine) -> None:
    machine.has("systemctl", "exit 1")
    table = machine.has_cron(THEIRS)
    machine.ok("install", "timer", "--yes")
    line = timer.build_cron_line(house.home)
    assert table.read_text() == f"{THEIRS}{line}\n" and line.startswith("*/10 * * * * HARDWON_HOME=")
    assert "already installed" in machine.ok("install", "timer", "--yes")
    assert table.read_text() == f"{THEIRS}{line}\n"
    machine.ok("uninstall", "timer")
    assert table.read_text() == THEIRS


def test_a_person_without_a_cron_table_gets_one(machine: Machine) -> None:
    table = machine.has_cron()
    machine.ok("install", "timer", "--yes")
    assert table.read_text().count("\n") == 1
    machine.ok("uninstall", "timer")
    assert table.read_text() == ""


def test_a_cron_that_says_no_is_believed_and_stops_no_uninstalling(machine: Machine) -> None:
    machine.has("crontab", 'echo "you are not allowed to use this program" >&2; exit 1')
    refused = machine.cli("install", "timer", "--yes")
    assert refused.code == 1 and "not allowed" in refused.err
    assert machine.cli("uninstall", "--all", "--yes").code == 0


def test_launchd_gets_an_agent(house: House, machine: Machine, own_home: str) -> None:
    machine.has("launchctl")
    machine.ok("install", "timer", "--with", "launchd", "--yes")
    (path,) = Path(own_home, "Library", "LaunchAgents").iterdir()
    said = plistlib.loads(path.read_bytes())
    assert said["StartInterval"] == 600 and said["EnvironmentVariables"] == {"HARDWON_HOME": house.home}
    assert said["ProgramArguments"][-2:] == ["reflect", "--idle"] and said["Label"] == path.stem
    assert machine.called()[-1] == f"launchctl load -w {path}"
    assert "already" in machine.ok("install", "timer", "--with", "launchd", "--yes")
    machine.ok("uninstall", "timer")
    assert not path.exists() and machine.called()[-1] == f"launchctl unload -w {path}"


def test_another_clockwork_takes_the_place_of_the_first(machine: Machine, own_home: str) -> None:
    machine.has("systemctl")
    table = machine.has_cron(THEIRS)
    machine.ok("install", "timer", "--with", "systemd", "--yes")
    machine.ok("install", "timer", "--with", "cron", "--yes")
    assert units(own_home) == {} and "hardwon-reflect" in table.read_text()


def test_uninstalling_everything_takes_the_timer_along(machine: Machine, own_home: str) -> None:
    machine.has("systemctl")
    table = machine.has_cron(THEIRS)
    machine.ok("install", "timer", "--yes")
    assert units(own_home)
    machine.ok("uninstall", "--all", "--yes")
    assert units(own_home) == {} and table.read_text() == THEIRS


def test_nothing_is_written_by_looking_nor_by_an_agent_nor_unasked(machine: Machine, own_home: str) -> None:
    machine.has("systemctl")
    assert "+ Type=oneshot" in machine.ok("install", "timer", "--print")
    asked = machine.cli("install", "timer")
    assert asked.code == 1 and "--yes" in asked.err
    refused = machine.cli("install", "timer", "--yes", CLAUDECODE="1")
    assert refused.code == 1 and "for a person" in refused.err
    assert units(own_home) == {}


def test_where_nothing_keeps_time_it_is_said_what_does(machine: Machine) -> None:
    refused = machine.cli("install", "timer", "--yes")
    assert refused.code == 1 and "neither" in refused.err and "its own clock does it" in refused.err


@pytest.mark.parametrize("odd", ["a b", "100%", 'quo"te', "$HOME", "back\\slash"])
def test_a_home_with_odd_signs_reaches_the_command_whole(odd: str, tmp_path: Path) -> None:
    home = str(tmp_path / odd)
    line = timer.build_cron_line(home).partition("* * * * ")[2].partition(" # hardwon")[0]
    command = line.replace("\\%", "%").replace(
        " -m hardwon reflect --idle", " -c 'import os; print(os.environ[\"HARDWON_HOME\"])'"
    )
    shown = subprocess.run(["sh", "-c", command.partition(" >/dev/null")[0]], capture_output=True, text=True)
    assert shown.stdout == f"{home}\n"
    (service, _) = timer.build_files("systemd", home).values()
    (said,) = [line for line in service.splitlines() if line.startswith("Environment=")]
    plain = said.removeprefix('Environment="HARDWON_HOME=').removesuffix('"')
    assert plain.replace("%%", "%").replace('\\"', '"').replace("\\\\", "\\") == home


def test_two_homes_have_timers_of_their_own(tmp_path: Path) -> None:
    assert timer.build_timer_name(str(tmp_path / "a")) != timer.build_timer_name(str(tmp_path / "b"))
    assert os.path.basename(next(iter(timer.build_files("launchd", str(tmp_path))))).endswith(".plist")
