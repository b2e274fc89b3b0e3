"""Text from outside is shown as text: Markdown without HTML, and links that lead to pages only."""

from __future__ import annotations

import pytest

from hardwon.web.render import build_delivered_page_path, create_environment, describe_input, highlight, render_markdown


def test_markdown_is_shown_as_lists_quotes_and_code() -> None:
    html = render_markdown("- run `npm test` **first** (L5, L7)\n- then\n\n> said\n> so")
    assert "<li>run <code>npm test</code> <strong>first</strong>" in html
    assert '<span class="dim">(L5, L7)</span>' in html
    assert "<blockquote>\n<p>said<br />\nso</p>" in html


@pytest.mark.parametrize(
    "text",
    [
        "<script>alert(1)</script>",
        "a <img src=x onerror=alert(1)> b",
        "<div onclick=x>\n\nb\n\n</div>",
        "<!-- a -->",
        "<http://a.example onclick=x>",
        "![a](http://a.example/x.png)",
        '[a](http://a.example "x\\" onclick=\\"y")',
        "`<b>`",
        "```\n<b>\n```",
        "&lt;b&gt;",
    ],
)
def test_no_html_of_the_text_gets_through(text: str) -> None:
    html = render_markdown(text)
    for tag in ("<script", "<img", "<div", "<b>", "<!--", '" onclick', "<a onclick"):
        assert tag not in html, html


def test_links_lead_to_web_pages_and_to_pages_of_the_viewer_only() -> None:
    for address in ("https://a.example/b", "http://a.example", "/sessions/3", "notes/a.md", "#E5"):
        assert f'href="{address}"' in render_markdown(f"[a]({address})"), address
    for address in (
        "javascript:alert(1)",
        "JaVaScRiPt:alert(1)",
        "java&#x09;script:alert(1)",
        "data:text/html,x",
        "vbscript:x",
        "file:///etc/passwd",
        "//evil.example",
        "ftp://a.example",
    ):
        assert "href" not in render_markdown(f"[a]({address})"), address
        assert "href" not in render_markdown(f"[a]\n\n[a]: {address}"), address


def test_hidden_characters_are_shown_as_such_and_long_texts_are_cut() -> None:
    template = create_environment().from_string("{{ text }}")
    assert template.render(text="a\u202eb\x1b<c>") == "a�b�&lt;c&gt;"
    assert template.render(text="x" * 30_000).endswith("… (30,000 characters)")


def test_highlighted_text_is_escaped() -> None:
    assert highlight("<a> & b", [(1, 2)]) == "&lt;<mark>a</mark>&gt; &amp; b"


def test_a_call_is_described_by_its_command_or_path() -> None:
    assert describe_input('{"command": "make", "description": "build"}') == "make"
    assert describe_input('{"file_path": "/a.py", "content": "x"}') == "/a.py"
    assert describe_input('{"pattern": "*.py", "content": "x"}') == "*.py"
    assert describe_input('{"content": "*.py"}') == "*.py"
    assert describe_input('{"command": "echo \\"cut o') == 'echo "cut o'
    assert (
        describe_input('{"file_path": "/home/dev/kite/src/wind.py", "content": "[cut') == "/home/dev/kite/src/wind.py"
    )
    assert describe_input("") == ""


def test_a_path_is_relative_to_the_project() -> None:
    assert describe_input('{"file_path": "/home/dev/kite/src/wind.py"}', "/home/dev/kite") == "src/wind.py"
    assert describe_input('{"file_path": "/home/dev/kites/wind.py"}', "/home/dev/kite") == "/home/dev/kites/wind.py"
    assert describe_input('{"command": "cd /home/dev/kite && ls"}', "/home/dev/kite") == "cd /home/dev/kite && ls"


def test_code_in_an_excerpt_is_shown_as_code_unless_it_is_cut() -> None:
    assert highlight("`go <b>` fails", [(1, 3)]) == "<code><mark>go</mark> &lt;b&gt;</code> fails"
    assert highlight("…test` fails, `go vet` too", []) == "…test` fails, <code>go vet</code> too"


def test_a_delivery_leads_to_its_lesson_or_record() -> None:
    paths = [build_delivered_page_path(slug) for slug in ("git-stash", "O12", "", "brief")]
    assert paths == ["/lessons/git-stash", "/found/O12", "", ""]
