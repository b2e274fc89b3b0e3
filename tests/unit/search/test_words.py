"""Words are extracted from a text for searching."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hardwon.search.words import MAX_WORD_LENGTH, build_filter_word, extract_words, list_path_ends, squeeze_identifier


def test_prose_gives_its_words_without_stop_words() -> None:
    assert extract_words("The Worker was not started, so the hook waited.") == ["worker", "started", "hook", "waited"]


@pytest.mark.parametrize(
    "written", ["getUserById", "get_user_by_id", "GetUserByID", "get-user-by-id", "get.user.by.id"]
)
def test_an_identifier_gives_its_parts_and_itself_however_it_is_written(written: str) -> None:
    assert {"get", "user", "id", "getuserbyid"} <= set(extract_words(written))


def test_a_path_gives_its_parts_itself_and_its_ends() -> None:
    words = set(extract_words("see src/auth/token.py:12"))
    assert {"src", "auth", "token", "py", "srcauthtokenpy12"} <= words
    assert {"authtokenpy", "tokenpy"} <= set(extract_words("src/auth/token.py"))


def test_signs_of_scripts_without_spaces_are_found_alone_and_in_pairs() -> None:
    assert {"認", "証", "認証", "証の"} <= set(extract_words("認証の更新 with token"))
    assert extract_words("認証の", is_query=True) == ["認証", "証の"]
    assert extract_words("鍵", is_query=True) == ["鍵"]


def test_wide_and_narrow_forms_of_a_sign_are_one() -> None:
    assert extract_words("ＡＰＩ ﾛｸﾞｲﾝ", is_query=True) == extract_words("API ログイン", is_query=True)


def test_an_acronym_is_split_from_what_follows_it() -> None:
    assert {"http", "server", "httpserver"} <= set(extract_words("HTTPServer"))


def test_a_filter_word_cannot_occur_in_text() -> None:
    assert build_filter_word("t", "Bug fix!") == "0tbugfix"
    assert list_path_ends("/home/dev/src/auth/token.py")[:3] == ["tokenpy", "authtokenpy", "srcauthtokenpy"]


@pytest.mark.parametrize("sign", ["\u0ee0", "\u0e3f", "\u30fb", "\u3040", "\u0e31"])
def test_a_non_letter_of_a_script_without_spaces_is_no_word(sign: str) -> None:
    assert extract_words(sign) == []
    assert extract_words(f"\u0e01{sign}\u0e02", is_query=True) in (["\u0e01", "\u0e02"], ["\u0e01\u0e02"])


@given(st.text(st.characters(min_codepoint=0x0E00, max_codepoint=0x0EFF) | st.characters()))
def test_any_text_gives_plain_unique_words(text: str) -> None:
    for is_query in (True, False):
        words = extract_words(text, is_query=is_query)
        assert all(word.isalnum() and word == word.lower() and len(word) <= MAX_WORD_LENGTH for word in words)
        assert len(words) == len(set(words))
    assert not squeeze_identifier(text) or squeeze_identifier(text).isalnum()
