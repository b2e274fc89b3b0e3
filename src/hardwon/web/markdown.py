"""What people write in Markdown, made readable: lists, quotes, code, bold. Anything else stays as it stands."""

from __future__ import annotations

import re
from itertools import groupby

from markupsafe import Markup

_INLINE_MARKUP = re.compile(r"(`[^`]{1,400}`|\*\*[^*]{1,200}\*\*)")
_LINE_REFERENCES = re.compile(r" (\(L\d+(?:, L\d+)*\))\s*$")  # the lines of a transcript that show it
_LINE_MARKERS = {"item": re.compile(r"\s*[-*] "), "quote": re.compile(r"\s*>"), "text": re.compile("")}


def render_html(text: str) -> Markup:
    """Its lines as lists, quotes and paragraphs, every character of them escaped."""
    parts = []
    for kind, group in groupby(text.splitlines(), _classify_line):
        lines = [render_inline(_LINE_MARKERS[kind].sub("", line, count=1).strip()) for line in group] if kind else []
        if kind == "item":
            parts.append(Markup("<ul>{}</ul>").format(Markup("").join(map(Markup("<li>{}</li>").format, lines))))
        elif kind == "quote":
            parts.append(Markup("<blockquote>{}</blockquote>").format(Markup("<br>").join(lines)))
        elif kind:
            parts.append(Markup("<p>{}</p>").format(Markup("<br>").join(lines)))
    return Markup("").join(parts)


def _classify_line(line: str) -> str:
    """What a line belongs to; nothing for an empty one, which parts paragraphs."""
    return next(kind for kind, marker in _LINE_MARKERS.items() if marker.match(line)) if line.strip() else ""


def render_inline(line: str) -> Markup:
    """One line with its code and what is bold in it."""
    references = _LINE_REFERENCES.search(line)
    parts = _INLINE_MARKUP.split(line[: references.start()] if references else line)
    rendered = Markup("").join(_render_part(part) for part in parts)
    return rendered + Markup(' <span class="dim">{}</span>').format(references[1]) if references else rendered


def _render_part(text: str) -> Markup:
    if text.startswith("`") and text.endswith("`") and len(text) > 2:
        return Markup("<code>{}</code>").format(text[1:-1])
    if text.startswith("**") and text.endswith("**") and len(text) > 4:
        return Markup("<strong>{}</strong>").format(text[2:-2])
    return Markup("{}").format(text.replace("\\<", "<"))
