"""Without the extra `team`, the git way works and the server way says in one sentence what is missing."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

import hardwon.team
from tests.support.house import GIT_STASH, House


@pytest.fixture(autouse=True)
def without_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("cryptography", "psycopg"):
        monkeypatch.setitem(sys.modules, name, None)  # importing it raises ImportError
    for name in [name for name in sys.modules if name.startswith(("hardwon.team.serv", "hardwon.team.postgres"))]:
        monkeypatch.delitem(sys.modules, name)
        monkeypatch.delattr(hardwon.team, name.rpartition(".")[2], raising=False)  # else the package still has it


@pytest.mark.parametrize(
    ("words", "say"),
    [
        (("join", "http://127.0.0.1:9", "code"), "error: a team needs the package cryptography\n"),
        (("serve", "--database", "postgresql:///x"), "error: the server needs the package psycopg\n"),
    ],
)
def test_joining_and_serving_name_the_missing_package(house: House, words: tuple[str, ...], say: str) -> None:
    refused = house.cli("team", *words)
    assert (refused.code, refused.err) == (1, f"{say}  fix: pip install 'hardwon[team]'\n")


def test_lessons_in_a_repository_need_nothing_more(house: House, tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    house.ok("team", "init", "--git", cwd=str(tmp_path))
    assert house.ok("team", "check", str(tmp_path)).out == "lessons   ok\n"
    house.add(GIT_STASH)
    assert house.cli("doctor").code == 0
