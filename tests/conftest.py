"""Every test lives in a home of its own; the real one cannot be reached."""

from __future__ import annotations

import gc
import itertools
import os
import sys
import time
from collections.abc import Iterator

import hypothesis
import pytest

from tests.support.house import House

# Rewritten tests and what the processes of a test import are compiled once, not in each of them: 5 of 8 s of collection.
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

# hardwon shows local times, and tests name the days and hours they expect.
os.environ["TZ"] = "UTC"
time.tzset()

# No test is timed. `make test` draws the same cases every time, so that it fails for the change and not for the draw;
# `make test-long` draws more of them, and others each time.
hypothesis.settings.register_profile("fixed", deadline=None, max_examples=12, derandomize=True)
hypothesis.settings.register_profile("fresh", deadline=None, max_examples=300)
hypothesis.settings.load_profile("fresh" if os.environ.get("HARDWON_LONG") else "fixed")

# Thousands of small databases are flushed to disk, which takes half of the time of a busy machine; in memory it is free.
RAM_DISK = "/dev/shm"
RAM_DISK_BYTES = 4 * 1024**3  # a whole run leaves about 1 GB, which is deleted at its end unless a test failed


def can_hold_homes(folder: str) -> bool:
    """Return whether the homes of a run fit into this folder, and programs may be run from it."""
    try:
        disk = os.statvfs(folder)
    except OSError:
        return False
    is_executable = not disk.f_flag & getattr(os, "ST_NOEXEC", 0)
    return os.access(folder, os.W_OK) and is_executable and disk.f_bavail * disk.f_frsize >= RAM_DISK_BYTES


if can_hold_homes(RAM_DISK):
    os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", RAM_DISK)

_home_numbers = itertools.count(1)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run what takes longest first; the short unit tests fill the gaps at the end.

    The rules come before them, so that one process runs them all and parses each source once.
    """
    folders = ("process", "stories", "rules")
    items.sort(key=lambda item: [folder not in item.path.parts for folder in folders])


def pytest_collection_finish() -> None:
    """Keep what was imported and collected out of each `gc.collect()` of a command that is run in process."""
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session", autouse=True)
def nobodys_home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """No agent and no setting of the developer's shows, not even to what several tests share."""
    with pytest.MonkeyPatch.context() as patch:
        for name in list(os.environ):
            if name.startswith(
                ("HARDWON_", "CLAUDE", "CODEX_", "GEMINI_", "OPENCODE", "COPILOT_", "QWEN_", "AI_AGENT", "XDG_")
            ):
                patch.delenv(name)
        patch.setenv("HOME", str(tmp_path_factory.mktemp("nobody")))
        yield


@pytest.fixture(autouse=True)
def own_home(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> str:
    """A temporary home."""
    # mktemp() lists the folder for the next free number, which is slow with thousands of homes in it.
    home = os.path.join(tmp_path_factory.getbasetemp(), "homes", str(next(_home_numbers)))
    os.makedirs(home)
    monkeypatch.setenv("HOME", home)
    monkeypatch.setenv("HARDWON_HOME", os.path.join(home, ".hardwon"))
    return home


def has_processes(request: pytest.FixtureRequest) -> bool:
    return "process" in request.path.parts


@pytest.fixture
def house(own_home: str, request: pytest.FixtureRequest) -> Iterator[House]:
    """hardwon in a temporary home, driven through its real entries; its worker is gone afterwards."""
    built = House(os.path.join(own_home, ".hardwon"), with_processes=has_processes(request))
    yield built
    built.leave()


@pytest.fixture(scope="module")
def shared_house(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Iterator[House]:
    """One hardwon for the tests of a module, where each can tell what is its own from what others left."""
    built = House(str(tmp_path_factory.mktemp("shared") / ".hardwon"), with_processes=has_processes(request))
    yield built
    built.leave()
