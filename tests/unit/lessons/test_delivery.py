"""Which lessons go into one reply: by priority, within the budget, each claimed only if it goes in."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from hardwon.lessons.delivery import SessionClaims, count_bytes, select_lessons
from hardwon.types import Event, ManifestEntry, replace

SHORT_BYTES = count_bytes("**Lesson**: short (lesson s1)")
SUFFIX_BYTES = count_bytes("\n(lesson s1)")


class ClaimsInMemory(SessionClaims):
    """Claims that write no files."""

    def __init__(self, *claimed_ids: str) -> None:
        super().__init__("", Event("claude-code", "PreToolUse", "s", "/"))
        self.claimed_ids = list(claimed_ids)

    def take_lesson(self, entry: ManifestEntry) -> bool:
        is_new = entry.id not in self.claimed_ids
        self.claimed_ids.append(entry.id)
        return is_new


def build_entry(number: int, length: int = 10, summary: str = "short") -> ManifestEntry:
    return ManifestEntry(
        number=number,
        id=f"id{number}",
        slug=f"s{number}",
        summary=summary,
        text="x" * (length - SUFFIX_BYTES),
        reason="",
        delivery="note",
        priority=5,
        tools=("Bash",),
        commands=(),
        target="executable",
        globs=(),
        path_regexes=(),
        contents=(),
        unless=(),
        project="",
    )


def list_selected(
    entries: list[ManifestEntry], *, budget: int, limit: int = 3, claimed_ids: tuple[str, ...] = ()
) -> list[str]:
    chosen = select_lessons(entries, ClaimsInMemory(*claimed_ids), budget=budget, limit=limit)
    return [f"{entry.slug}:{'short' if text.startswith('**Lesson**') else 'full'}" for entry, text in chosen]


def test_a_held_lesson_ends_with_its_fix() -> None:
    entry = replace(build_entry(1), delivery="hold", text="## Lesson: a\nwhy\n**Fix**: b")
    [(_, text)] = select_lessons([entry], None, budget=100, limit=1)
    assert text == "## Lesson: a (lesson s1)\nwhy\n**Fix**: b"


def test_the_first_lesson_is_never_shortened() -> None:
    assert list_selected([build_entry(1, 9000)], budget=100) == ["s1:full"]


def test_a_lesson_that_does_not_fit_is_shortened_or_left_out() -> None:
    entries = [build_entry(1, 80), build_entry(2, 80), build_entry(3, 80, summary="long " * 30)]
    assert list_selected(entries, budget=80 + 2 + SHORT_BYTES) == ["s1:full", "s2:short"]


def test_at_most_the_limit_is_selected() -> None:
    entries = [build_entry(number, 20) for number in range(5)]
    assert list_selected(entries, budget=1000) == ["s0:full", "s1:full", "s2:full"]
    assert list_selected(entries, budget=1000, limit=0) == []


def test_a_claimed_lesson_makes_room_for_the_next() -> None:
    assert list_selected([build_entry(1, 80), build_entry(2, 80)], budget=100, claimed_ids=("id1",)) == ["s2:full"]


def test_a_lesson_that_is_left_out_for_room_is_not_claimed() -> None:
    session_claims = ClaimsInMemory()
    entries = [build_entry(1, 80), build_entry(2, 80, summary="y" * 90)]
    select_lessons(entries, session_claims, budget=100, limit=3)
    assert session_claims.claimed_ids == ["id1"]


@given(st.lists(st.integers(20, 300), max_size=8), st.integers(0, 800), st.integers(0, 5))
def test_all_but_the_first_keep_to_the_budget(lengths: list[int], budget: int, limit: int) -> None:
    entries = [build_entry(number, length) for number, length in enumerate(lengths)]
    chosen = select_lessons(entries, ClaimsInMemory(), budget=budget, limit=limit)
    assert len(chosen) <= limit
    if len(chosen) > 1:
        assert count_bytes("\n\n".join(text for _, text in chosen)) <= max(budget, count_bytes(chosen[0][1]))
