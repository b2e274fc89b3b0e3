"""What is marked in a hit is what was asked for."""

from __future__ import annotations

import pytest

from hardwon.text.words import extract_words
from hardwon.web.search import find_match_spans


@pytest.mark.parametrize(
    ("asked", "marked"),
    [
        ("user by id", "get[User]By[Id](7)"),
        ("user_by_id", "get[User]By[Id](7)"),
        ("getUserById", "[get_user_by_id](7)"),
        ("user_by_id", "no [user_by_id] here"),
        ("server", "HTTP[Server]Error"),
        ("トークン", "無効な[トークン]を更新"),
        ("認証", "[認証]エラーの確認"),
        ("認証 token", "[認証token]を確認"),
        ("lighthouse blink", "two [lighthouses] [BLINK], [blinking]"),
        ("house", "a lighthouse"),
        ("Straße", "die [Straße]"),
        ("the", "the end"),
    ],
)
def test_names_and_scripts_without_blanks_are_marked_where_they_are_found(asked: str, marked: str) -> None:
    text = marked.replace("[", "").replace("]", "")
    shown = text
    for start, end in reversed(find_match_spans(text, extract_words(asked, is_query=True))):
        shown = f"{shown[:start]}[{shown[start:end]}]{shown[end:]}"
    assert shown == marked
