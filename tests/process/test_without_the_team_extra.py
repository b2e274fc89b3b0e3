"""Without the extra `team`, the git way works and the server way says in one sentence what is missing."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.house import House

# Importing a module whose entry is None raises ImportError, as if it were not installed.
RUN_WITHOUT_EXTRA = """
import runpy, sys
sys.modules["cryptography"] = sys.modules["psycopg"] = None
sys.argv[0] = "hardwon"
runpy.run_module("hardwon", run_name="__main__")
"""


def run_without_extra(house: House, *words: str, folder: Path | None = None) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", RUN_WITHOUT_EXTRA, *words]
    return subprocess.run(command, env=house.environment(), cwd=folder, capture_output=True, text=True)


@pytest.mark.parametrize(
    ("words", "say"),
    [
        (("join", "http://127.0.0.1:9", "code"), "error: a team needs the package cryptography\n"),
        (("serve", "--database", "postgresql:///x"), "error: the server needs the package psycopg\n"),
    ],
)
def test_joining_and_serving_name_the_missing_package(house: House, words: tuple[str, ...], say: str) -> None:
    refused = run_without_extra(house, "team", *words)
    assert (refused.returncode, refused.stderr) == (1, f"{say}  fix: pip install 'hardwon[team]'\n")


def test_lessons_in_a_repository_need_nothing_more(house: House, tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    laid_out = run_without_extra(house, "team", "init", "--git", folder=tmp_path)
    assert laid_out.returncode == 0 and ".hardwon/lessons/README.md" in laid_out.stdout
    assert run_without_extra(house, "team", "check", folder=tmp_path).stdout == "lessons   ok\n"
