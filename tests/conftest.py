"""Every test lives in a home of its own; the real one cannot be reached."""

from __future__ import annotations

import os
from collections.abc import Iterator

import hypothesis
import pytest

from tests.house_of_one import House

# No test is timed, and what blocks a landing must be the change, not the draw; at home every run draws anew.
hypothesis.settings.register_profile("home", deadline=None, max_examples=60)
hypothesis.settings.register_profile("ci", deadline=None, max_examples=60, derandomize=True)
hypothesis.settings.load_profile("ci" if os.environ.get("CI") else "home")


@pytest.fixture(autouse=True)
def own_home(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> str:
    """A temporary home, and an environment in which no agent and no setting of the developer's shows."""
    home = str(tmp_path_factory.mktemp("home"))
    for name in list(os.environ):
        if name.startswith(("HARDWON_", "CLAUDE", "CODEX_", "GEMINI_", "OPENCODE", "AI_AGENT", "XDG_")):
            monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", home)
    monkeypatch.setenv("HARDWON_HOME", os.path.join(home, ".hardwon"))
    return home


@pytest.fixture
def house(own_home: str) -> Iterator[House]:
    """hardwon in a temporary home, driven through its real entries; its worker is gone afterwards."""
    built = House(os.path.join(own_home, ".hardwon"))
    yield built
    built.cli("stop")
