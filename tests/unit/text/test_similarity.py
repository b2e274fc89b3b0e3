"""The same lesson is recognised in other words, another case, and letters that only look alike."""

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


def build_lesson(problem: str, solution: str = "", lesson_id: str = "") -> Lesson:
    return Lesson(id=lesson_id, slug="", summary="", problem=problem, solution=solution, delivery="note")


STASH = build_lesson(
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
    ("first_text", "second_text"),
    [("don’t use “rm”", 'don\'t use "rm"'), ("a – b — c − d", "a - b - c - d"), ("wait…", "wait..."), ("é", "e\u0301")],
)
def test_signs_typed_in_two_ways_have_one_normal_form(first_text: str, second_text: str) -> None:
    assert normalize_text(first_text) == normalize_text(second_text)


@pytest.mark.parametrize(
    ("first_text", "second_text"),
    [("git stash", "git stash -u"), ("npm", "pnpm"), ("v1", "v2"), ("a b", "ab"), ("é", "e")],
)
def test_texts_that_look_different_have_different_normal_forms(first_text: str, second_text: str) -> None:
    assert normalize_text(first_text) != normalize_text(second_text)


@given(st.text())
@example("İ")
@example("ſ\u0345")
@example("ΐ\u200bϓ\u0301½")
@example("\u115f\u1161")
def test_the_normal_form_of_a_normal_form_is_itself(text: str) -> None:
    assert normalize_text(normalize_text(text)) == normalize_text(text)


@given(st.text(alphabet="abcdefghijklmnopqrstuvwxyz ABC"), st.sampled_from("\u200b\u00ad\u2060\ufeff\u200d\ufe0f"))
def test_invisible_characters_change_nothing(text: str, invisible: str) -> None:
    assert normalize_text(invisible.join(text)) == normalize_text(text.upper())


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


def compute_likeness(*lessons_pair: Lesson) -> float:
    first_words, second_words = (tokenize(f"{lesson.problem} {lesson.solution}") for lesson in lessons_pair)
    return compute_jaccard(first_words, second_words)


@pytest.mark.parametrize(("problem", "solution"), SAME_LESSON)
def test_the_same_lesson_in_other_words_is_recognised(problem: str, solution: str) -> None:
    assert compute_likeness(STASH, build_lesson(problem, solution)) >= SAME_THRESHOLD


@pytest.mark.parametrize(("problem", "solution"), OTHER_LESSON)
def test_another_lesson_is_not_similar(problem: str, solution: str) -> None:
    assert compute_likeness(STASH, build_lesson(problem, solution)) < SAME_THRESHOLD


def test_moving_words_from_problem_to_solution_makes_no_difference() -> None:
    assert (
        compute_likeness(
            build_lesson("git stash loses files", "use -u"), build_lesson("git stash loses", "files use -u")
        )
        == 1.0
    )


def test_the_nearest_lesson_is_the_most_similar_and_the_first_of_equals() -> None:
    first, twin, far = (
        build_lesson("git stash files", lesson_id="1"),
        build_lesson("git stash files", lesson_id="2"),
        build_lesson("git", lesson_id="3"),
    )
    assert find_nearest_lesson(build_lesson("git stash files lost"), [far, first, twin]) == (first, 0.75)


def test_a_lesson_is_not_its_own_nearest() -> None:
    lesson, other_lesson = build_lesson("git stash files", lesson_id="1"), build_lesson("git push", lesson_id="2")
    assert find_nearest_lesson(lesson, [lesson, other_lesson]) == (other_lesson, 0.25)
    assert find_nearest_lesson(lesson, [lesson]) is None


def test_nothing_is_near_where_no_word_is_shared() -> None:
    assert find_nearest_lesson(STASH, []) is None
    assert find_nearest_lesson(STASH, [build_lesson("pytest hangs"), build_lesson("")]) is None


WORDS = ["git", "stash", "push", "npm", "files", "-u", "pop", "list", "drop", "é", "名", "apply"]
sentences = st.lists(st.sampled_from(WORDS), max_size=9).map(" ".join)
lessons = st.builds(build_lesson, sentences, sentences, st.sampled_from(["", "1", "2", "3"]))


@given(lessons, st.lists(lessons, max_size=20))
def test_the_index_agrees_with_comparing_every_lesson(lesson: Lesson, others: list[Lesson]) -> None:
    strangers = [candidate for candidate in others if not lesson.id or candidate.id != lesson.id]
    best = max(strangers, key=lambda candidate: compute_likeness(lesson, candidate), default=None)
    expected = (best, compute_likeness(lesson, best)) if best and compute_likeness(lesson, best) else None
    assert find_nearest_in(build_vocabulary(others), lesson) == expected


def test_many_are_compared_with_many_by_shared_words_only() -> None:
    vocabulary = build_vocabulary(
        build_lesson(f"word{n} word{n + 1} word{n + 2}", lesson_id=str(n)) for n in range(5000)
    )
    assert len(vocabulary.lessons_by_token["word17"]) == 3
    nearest = find_nearest_in(vocabulary, build_lesson("word17 word18 word19"))
    assert nearest is not None
    assert (nearest[0].id, nearest[1]) == ("17", 1.0)


@pytest.mark.parametrize(
    ("first_text", "second_text"),
    [
        ("From now on always use pnpm, never npm", "always use pnpm and never npm!"),
        ("always run gust tests before commit", "always run gust tests before each push"),
        ("don’t push without asking me", "Please never ever push without asking"),
        ("we only use it", "We only use it"),
    ],
)
def test_a_memory_in_nearly_the_same_words_is_the_same(first_text: str, second_text: str) -> None:
    assert is_same_statement(first_text, second_text) and is_same_statement(second_text, first_text)


@pytest.mark.parametrize(
    ("first_text", "second_text"),
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
def test_another_rule_and_its_opposite_are_different(first_text: str, second_text: str) -> None:
    assert not is_same_statement(first_text, second_text) and not is_same_statement(second_text, first_text)
