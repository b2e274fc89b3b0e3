"""From values to HTML. Whatever a template puts out is text from outside: it is cut, made harmless and escaped on its
way, by the engine and not by whoever writes a template."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any
from urllib.parse import quote, urlencode

import jinja2
from markupsafe import Markup, escape

from hardwon.lessons.decision import BRIEF_SLUG
from hardwon.search.records import parse_id
from hardwon.text.printable import make_printable, to_printable_line
from hardwon.web.markdown import render_html, render_inline

MAX_TEXT_CHARS = 20_000  # characters of one text on a page
_FOLDER = os.path.dirname(os.path.abspath(__file__))
_DESCRIBING_KEYS = ("command", "file_path", "notebook_path", "path", "pattern", "url", "query", "description", "prompt")


def sanitize_value(value: Any) -> Any:
    """A value as a page may show it; what a template has made itself is left as it is."""
    if value is None:
        return ""
    if not isinstance(value, str) or isinstance(value, Markup):
        return value
    if len(value) <= MAX_TEXT_CHARS:
        return value if value.isprintable() else make_printable(value)  # most are, and looking at each sign is dear
    return f"{make_printable(value[:MAX_TEXT_CHARS])}… ({len(value):,} characters)"


_KIND_TEXTS = {
    "SessionStart": "session starts",
    "SessionEnd": "session ends",
    "Stop": "turn ends",
    "PreCompact": "compacts",
    "SubagentStart": "sub-agent starts",
    "SubagentStop": "sub-agent ends",
}


def named(kind: str) -> str:
    """What an event is called by people."""
    return _KIND_TEXTS.get(kind, kind)


def short(at: float | None, now: float) -> Markup | str:
    """A time of today with its seconds, any other with its day."""
    is_today = bool(at) and datetime.fromtimestamp(now).date() == datetime.fromtimestamp(at or 0).date()
    return when(at, "%H:%M:%S" if is_today else "%m-%d %H:%M")


def when(at: float | None, time_format: str = "%Y-%m-%d %H:%M") -> Markup | str:
    if not at:
        return ""
    try:
        moment = datetime.fromtimestamp(at)
    except (ValueError, OverflowError, OSError):
        return ""
    return Markup('<time datetime="{}">{}</time>').format(
        moment.isoformat(timespec="seconds"), moment.strftime(time_format)
    )


def about(tool_input: Any) -> str:
    """What a call was about, from its input as it is stored: its command or path, else all of it."""
    if isinstance(tool_input, str):
        try:
            tool_input = json.loads(tool_input) if tool_input else ""
        except ValueError:  # it was cut
            return str(tool_input)
    if not isinstance(tool_input, dict):
        return str(tool_input or "")
    for key in _DESCRIBING_KEYS:
        if isinstance(tool_input.get(key), str) and tool_input[key]:
            return str(tool_input[key])
    return json.dumps(tool_input, ensure_ascii=False) if tool_input else ""


def listed(text: Any) -> list[str]:
    """A list that is stored as JSON."""
    try:
        values = json.loads(text) if isinstance(text, str) and text else text
    except ValueError:
        return [str(text)]
    return [str(value) for value in values] if isinstance(values, list | tuple) else []


def size(count: float) -> str:
    for unit in ("B", "kB", "MB", "GB"):
        if count < 1000 or unit == "GB":
            return f"{count:.0f} {unit}" if unit == "B" or count >= 100 else f"{count:.1f} {unit}"
        count /= 1000
    return ""


def line(value: Any, max_length: int = 200) -> str:
    text = (value if isinstance(value, str) else str(value or ""))[: max_length * 4].strip()
    return (
        text
        if len(text) <= max_length and text.isprintable() and "  " not in text
        else to_printable_line(text, max_length)
    )


def cut(text: str, max_length: int) -> str:
    """A line of a file with its spaces, cut to so many characters."""
    return text if len(text) <= max_length else f"{text[:max_length]}…"


def folder(path: str) -> str:
    """What a project is called: its folder's name."""
    return os.path.basename(path.rstrip("/")) or path


_CONFIDENCE_TEXTS = {"H": "high", "M": "medium", "L": "low"}


def sure(confidence: str) -> str:
    return _CONFIDENCE_TEXTS.get(confidence, "")


def counted(count: int, noun: str) -> str:
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def marked(text: str, spans: Iterable[tuple[int, int]]) -> Markup:
    """A text with some stretches of it made to stand out."""
    parts, end = [], 0
    for start, stop in spans:
        parts += [
            escape(sanitize_value(text[end:start])),
            Markup("<mark>{}</mark>").format(sanitize_value(text[start:stop])),
        ]
        end = stop
    return Markup("").join([*parts, escape(sanitize_value(text[end:]))])


def place_of(slug: str) -> str:
    """Where what was delivered is shown: a lesson, or by its id what else is known; nowhere for a brief."""
    if slug in ("", BRIEF_SLUG):
        return ""
    is_id = slug[0].isupper() and parse_id(slug)  # a lesson's slug has small letters
    return f"/{'found' if is_id else 'lessons'}/{quote(slug, safe='', errors='replace')}"


def query(values: Mapping[str, Any]) -> str:
    """What stands behind the question mark, without what is empty."""
    return urlencode({name: value for name, value in values.items() if value not in ("", None)}, errors="replace")


def create_environment() -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(os.path.join(_FOLDER, "templates")),
        autoescape=True,
        finalize=sanitize_value,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )
    for template_filter in (
        about,
        counted,
        cut,
        folder,
        line,
        listed,
        marked,
        named,
        place_of,
        query,
        short,
        size,
        sure,
        when,
    ):
        environment.filters[template_filter.__name__] = template_filter
    environment.filters |= {
        "inline": lambda text: render_inline(sanitize_value(text)),
        "prose": lambda text: render_html(sanitize_value(text)),
    }
    return environment


def read_static_files() -> dict[str, tuple[str, bytes]]:
    """The style sheet, the script and the picture, by name, each with its type."""
    media_types = {".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".svg": "image/svg+xml"}
    static_files = {}
    for name in sorted(os.listdir(os.path.join(_FOLDER, "static"))):
        with open(os.path.join(_FOLDER, "static", name), "rb") as file:
            static_files[name] = (media_types[os.path.splitext(name)[1]], file.read())
    return static_files


def hash_static_files(files: Mapping[str, tuple[str, bytes]]) -> str:
    """What stands in the address of these files: another one as soon as one of them changes."""
    return hashlib.sha256(b"".join(content for _, content in files.values())).hexdigest()[:12]
