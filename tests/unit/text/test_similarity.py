"""The same lesson is known again in other words, in other case, and in letters that only look the same."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from hardwon.text.similarity import (
    SAME_THRESHOLD,
    build_vocabulary,
    compute_jaccard,
    find_nearest_in,
    find_nearest_lesson,
    is_same_statement,
    normalize_text,
    tokenize,
)
from hardwon.types import Lesson


def lesson(problem: str, solution: str = "", id: str = "") -> Lesson:
    return Lesson(id=id, slug="", summary="", problem=problem, solution=solution, delivery="note")


STASH = lesson(
    "git stash only stashes tracked files, untracked files are silently left behind",
    "Use git stash -u to include untracked files",
)
LOOK_THE_SAME = [
    "Git Stash loses files",
    "git  stash\n\tloses files",
    " git stash loses files ",
    "g\u200bit st\u00adash loses\u2060 files\ufeff",
    "git\u00a0stash\u3000loses files",
    "git stаsh lоsеs filеs",  # Cyrillic
    "gіt ѕtаѕһ lοѕеѕ fіlеѕ",
    "GІТ ЅТАЅН LОЅЕЅ FІLЕЅ",
    "git stαsh lοses files",  # Greek
    "ｇｉｔ ｓｔａｓｈ loses files",
    "𝗴𝗶𝘁 𝘀𝘁𝗮𝘀𝗵 loses files",
    "git\u2800stash loses files",
    "gi\u0332t sta\u034fsh loses files\x00",
    "ɡıt stash loses files",
]


@pytest.mark.parametrize("text", LOOK_THE_SAME)
def test_texts_that_look_the_same_have_one_normal_form(text: str) -> None:
    assert normalize_text(text) == "git stash loses files"


@pytest.mark.parametrize(
    ("one", "other"),
    [("don’t use “rm”", 'don\'t use "rm"'), ("a – b — c − d", "a - b - c - d"), ("wait…", "wait..."), ("é", "e\u0301")],
)
def test_signs_typed_in_two_ways_have_one_normal_form(one: str, other: str) -> None:
    assert normalize_text(one) == normalize_text(other)


@pytest.mark.parametrize(
    ("one", "other"), [("git stash", "git stash -u"), ("npm", "pnpm"), ("v1", "v2"), ("a b", "ab"), ("é", "e")]
)
def test_texts_that_a_reader_can_tell_apart_stay_apart(one: str, other: str) -> None:
    assert normalize_text(one) != normalize_text(other)


@given(st.text())
@example("İ")
@example("ſ\u0345")
@example("ΐ\u200bϓ\u0301½")
@example("\u115f\u1161")
def test_the_normal_form_of_a_normal_form_is_itself(text: str) -> None:
    assert normalize_text(normalize_text(text)) == normalize_text(text)


@given(st.text(alphabet="abcdefghijklmnopqrstuvwxyz ABC"), st.sampled_from("\u200b\u00ad\u2060\ufeff\u200d\ufe0f"))
def test_invisible_characters_change_nothing(text: str, unseen: str) -> None:
    assert normalize_text(unseen.join(text)) == normalize_text(text.upper())


TOKENS = [
    ("", ""),
    ("The file is in the way", "file way"),
    ("Use git stash -u!", "use git stash -u"),
    ("run `pytest --no-header -p no:faulthandler`.", "run pytest --no-header -p no faulthandler"),
    ("os.environ['MY_KEY'] = my_key", "os environ my_key"),
    ("well-known, re-run", "well known re run"),
    ("not never no", "not never no"),
    ("提交前 run tests", "提 交 前 run tests"),
    ("Ошибка", "oшибka"),
    ("... --- ???", ""),
]


@pytest.mark.parametrize(("text", "words"), TOKENS)
def test_a_text_is_its_words_identifiers_and_options(text: str, words: str) -> None:
    assert tokenize(text) == frozenset(words.split())


words = st.frozensets(st.sampled_from("abcdefgh"))


@given(words, words)
def test_the_share_in_common_is_between_0_and_1_both_ways(a: frozenset[str], b: frozenset[str]) -> None:
    assert 0.0 <= compute_jaccard(a, b) == compute_jaccard(b, a) <= 1.0
    assert (compute_jaccard(a, b) == 1.0) == (a == b and bool(a))
    assert (compute_jaccard(a, b) == 0.0) == (not a & b)


SAME_LESSON = [
    (
        "GIT STASH only stashes tracked files; untracked files are silently left behind.",
        "use git stash -u to include untracked files",
    ),
    (
        "git stash only stashes the tracked files and silently leaves untracked files behind",
        "git stash -u includes untracked files",
    ),
    ("gіt stаsh оnly stashes trаcked filеs, untracked files left silently behind", "Use git stash -u"),
]
OTHER_LESSON = [
    ("pytest hangs in non-interactive shells because it detects a TTY", "Run python -m pytest --no-header"),
    ("git push --force overwrites commits of others", "Use git push --force-with-lease"),
    ("", ""),
]


def likeness(*both: Lesson) -> float:
    one, other = (tokenize(f"{each.problem} {each.solution}") for each in both)
    return compute_jaccard(one, other)


@pytest.mark.parametrize(("problem", "solution"), SAME_LESSON)
def test_the_same_lesson_in_other_words_is_known_again(problem: str, solution: str) -> None:
    assert likeness(STASH, lesson(problem, solution)) >= SAME_THRESHOLD


@pytest.mark.parametrize(("problem", "solution"), OTHER_LESSON)
def test_another_lesson_is_not_taken_for_it(problem: str, solution: str) -> None:
    assert likeness(STASH, lesson(problem, solution)) < SAME_THRESHOLD


def test_words_moved_from_problem_to_solution_make_no_other_lesson() -> None:
    assert likeness(lesson("git stash loses files", "use -u"), lesson("git stash loses", "files use -u")) == 1.0


def test_the_nearest_is_the_most_alike_and_the_first_of_equals() -> None:
    first, twin, far = lesson("git stash files", id="1"), lesson("git stash files", id="2"), lesson("git", id="3")
    assert find_nearest_lesson(lesson("git stash files lost"), [far, first, twin]) == (first, 0.75)


def test_a_lesson_is_not_its_own_nearest() -> None:
    one, other = lesson("git stash files", id="1"), lesson("git push", id="2")
    assert find_nearest_lesson(one, [one, other]) == (other, 0.25)
    assert find_nearest_lesson(one, [one]) is None


def test_nothing_is_near_where_no_word_is_shared() -> None:
    assert find_nearest_lesson(STASH, []) is None
    assert find_nearest_lesson(STASH, [lesson("pytest hangs"), lesson("")]) is None


WORDS = ["git", "stash", "push", "npm", "files", "-u", "pop", "list", "drop", "é", "名", "apply"]
sentences = st.lists(st.sampled_from(WORDS), max_size=9).map(" ".join)
lessons = st.builds(lesson, sentences, sentences, st.sampled_from(["", "1", "2", "3"]))


@given(lessons, st.lists(lessons, max_size=20))
def test_the_index_answers_as_asking_each_lesson_would(one: Lesson, others: list[Lesson]) -> None:
    strangers = [other for other in others if not one.id or other.id != one.id]
    best = max(strangers, key=lambda other: likeness(one, other), default=None)
    plain = (best, likeness(one, best)) if best and likeness(one, best) else None
    assert find_nearest_in(build_vocabulary(others), one) == plain


def test_many_are_compared_with_many_by_shared_words_only() -> None:
    known = build_vocabulary(lesson(f"word{n} word{n + 1} word{n + 2}", id=str(n)) for n in range(5000))
    assert len(known.lessons_by_token["word17"]) == 3
    found = find_nearest_in(known, lesson("word17 word18 word19"))
    assert found is not None
    assert (found[0].id, found[1]) == ("17", 1.0)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("From now on always use pnpm, never npm", "always use pnpm and never npm!"),
        ("always run gust tests before commit", "always run gust tests before each push"),
        ("don’t push without asking me", "Please never ever push without asking"),
        ("we only use it", "We only use it"),
    ],
)
def test_a_memory_in_nearly_the_same_words_is_the_same(one: str, other: str) -> None:
    assert is_same_statement(one, other) and is_same_statement(other, one)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("from now on always use pnpm, never npm", "from now on always use ruff, never black"),
        ("from now on always use pnpm, never npm", "from now on always use npm, never pnpm"),
        ("we use tabs, not spaces", "we use spaces, not tabs"),
        ("always use pnpm", "never use pnpm"),
        ("prefer composition over inheritance", "prefer inheritance over composition"),
        ("please always use --force", "please never use --force"),
        ("we only use it", "please use it"),
    ],
)
def test_another_rule_and_the_same_turned_round_are_others(one: str, other: str) -> None:
    assert not is_same_statement(one, other) and not is_same_statement(other, one)
