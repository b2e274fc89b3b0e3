"""Only the first token to claim may deliver, and it may do so again."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor

import pytest

from hardwon import claims, paths


def test_one_of_many_gets_the_claim_and_keeps_it(own_home: str) -> None:
    path = os.path.join(claims.get_claim_folder(own_home, "s1"), "main.x")
    with ThreadPoolExecutor(16) as pool:
        winners = [
            n
            for n, claimed_at in enumerate(pool.map(lambda n: claims.take(path, f"t{n}", 5.0), range(64)))
            if claimed_at is None
        ]
    assert len(winners) == 1
    assert claims.take(path, f"t{winners[0]}", 9.0) is None
    assert claims.take(path, "another", 9.0) == 5.0


def test_a_token_that_joined_shares_the_claim(own_home: str) -> None:
    path = os.path.join(claims.get_claim_folder(own_home, "s1"), "main.x")
    claims.take(path, "first", 1.0)
    claims.join(path, "second")
    assert [claims.take(path, token, 2.0) for token in ("first", "second", "third")] == [None, None, 1.0]


def test_an_empty_claim_counts_from_the_time_of_its_file(own_home: str) -> None:
    path = os.path.join(claims.get_claim_folder(own_home, "s1"), "main.x")
    os.makedirs(os.path.dirname(path))
    with open(path, "w"):
        pass
    os.utime(path, (77, 77))
    assert claims.take(path, "t", 100.0) == 77


def test_an_unwritable_claim_counts_as_claimed_long_ago() -> None:
    assert claims.take("/dev/null/claims/s1/main.x", "t", 1.0) == claims.LONG_AGO


def test_a_file_in_the_place_of_the_folder_is_moved_aside(own_home: str) -> None:
    folder = os.path.join(own_home, "claims")
    for claim_path in (folder, os.path.join(folder, "s1")):
        if os.path.isdir(claim_path):
            os.rename(claim_path, claim_path + ".away")
        with open(claim_path, "w") as file:
            file.write("mine")
        path = os.path.join(folder, "s1", "main.x")
        assert claims.take(path, "t", 1.0) is None
        assert claims.take(path, "u", 2.0) == 1.0
        (old_name,) = [name for name in os.listdir(os.path.dirname(claim_path)) if name.endswith(".old")]
        with open(os.path.join(os.path.dirname(claim_path), old_name)) as file:
            assert file.read() == "mine"


@pytest.mark.parametrize("name", ["../../etc/passwd", "", "a/b", ".", "..", "x" * 300, "ключ", "a\0b", "\ud800", "a b"])
def test_no_id_from_outside_names_a_path(name: str) -> None:
    safe = paths.to_safe_name(name)
    assert safe.isalnum() and safe.isascii() and len(safe) <= 80 and safe != name


def test_claims_of_old_sessions_are_removed(own_home: str) -> None:
    for session, age in (("old", 1.0), ("new", 1e9)):
        path = os.path.join(claims.get_claim_folder(own_home, session), "main.x")
        claims.take(path, "t", age)
        os.utime(os.path.dirname(path), (age, age))
    claims.prune_old(own_home, 1000.0)
    assert os.listdir(os.path.join(own_home, "claims")) == ["new"]


@pytest.mark.parametrize("session", ["s1", "a session with a name that is no file's"])
def test_a_pause_is_never_removed(own_home: str, session: str) -> None:
    claims.mark_paused(own_home, session, 1.0)
    os.utime(claims.get_claim_folder(own_home, session, claims.PAUSED_PREFIX), (1.0, 1.0))
    claims.prune_old(own_home, 1000.0)
    assert claims.has_been_paused(own_home, session)
