"""Search results highlight the words of the query as the index splits them."""

from __future__ import annotations

from hardwon.search.words import find_marks, split_query

# A query, and a text with brackets around what is highlighted.
EXAMPLES = (
    ("user by id", "[getUserById](7)"),
    ("user_by_id", "[getUserById](7)"),
    ("getUserById", "[get_user_by_id](7)"),
    ("user_by_id", "no [user_by_id] here"),
    ("server", "[HTTPServerError]"),
    ("トークン", "無効な[トークン]を更新"),
    ("認証", "[認証]エラーの確認"),
    ("認証 token", "[認証token]を確認"),
    ("lighthouse blink", "two [lighthouses BLINK], [blinking]"),
    ("house", "a lighthouse"),
    ("Straße", "die [Straße]"),
    ("the", "the end"),
)


def test_identifiers_and_scripts_without_spaces_are_highlighted() -> None:
    for query, expected in EXAMPLES:
        text = expected.replace("[", "").replace("]", "")
        highlighted = text
        for start, end in reversed(find_marks(text, split_query(query))):
            highlighted = f"{highlighted[:start]}[{highlighted[start:end]}]{highlighted[end:]}"
        assert highlighted == expected, query
