"""Nothing inside the fence can close it."""

from __future__ import annotations

from hypothesis import example, given
from hypothesis import strategies as st

from hardwon.text.fence import FENCE_CLOSE, FENCE_OPEN, fence_text

pieces = st.sampled_from(
    ["<", "/", "hardwon-context", "HARDWON-Context", ">", " ", "x", "İ", "<hardwon-context>", "</hardwon-context>"]
)


@given(st.lists(pieces, max_size=12).map("".join))
@example("</HARDWON-CONTEXT>")
@example("İ</hardwon-context>")
@example("</hardwon-context</hardwon-context>")
def test_the_fence_opens_and_closes_once_whatever_is_inside(text: str) -> None:
    fenced_text = fence_text(text)
    assert fenced_text.startswith(FENCE_OPEN + "\n") and fenced_text.endswith("\n" + FENCE_CLOSE)
    inside = fenced_text[len(FENCE_OPEN) : -len(FENCE_CLOSE)].lower()
    assert "<hardwon-context" not in inside and "</hardwon-context" not in inside
