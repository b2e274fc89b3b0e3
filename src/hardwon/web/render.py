"""Render values as HTML.

All output of templates is untrusted text, so the template engine itself cuts it, replaces hidden characters and escapes
it; no template can forget to.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any
from urllib.parse import quote, urlencode

import jinja2
from markdown_it import MarkdownIt
from markupsafe import Markup

from hardwon.agents.tool_results import find_describing_text
from hardwon.lessons.start_replies import BRIEF_SLUG, REQUEST_SLUG
from hardwon.projects import get_folder_name
from hardwon.search.records import parse_id
from hardwon.store.observations import parse_json_list
from hardwon.text.characters import format_count, make_printable, shorten_text, to_printable_line

_MAX_TEXT_CHARS = 20_000  # of one text on a page
_FOLDER = os.path.dirname(os.path.abspath(__file__))
_MEDIA_TYPES = {".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".svg": "image/svg+xml"}
_FIRST_FIELD = re.compile(r'\{"(?:command|file_path|notebook_path|path)": *"((?:[^"\\]|\\.)*)')
_EVENT_NAMES = {
    "SessionStart": "session starts",
    "SessionEnd": "session ends",
    "Stop": "turn ends",
    "PreCompact": "compacts",
    "SubagentStart": "sub-agent starts",
    "SubagentStop": "sub-agent ends",
}
_CONFIDENCE_NAMES = {"H": "high", "M": "medium", "L": "low"}
# No scheme but http and https, and no //host, which leads to another site too.
_LINK = re.compile(r"https?://|/(?!/)|#|[\w.-]+(?:[/?#]|$)", re.IGNORECASE)
_CODE = re.compile(r"(?<![\w`])`(?=[^\s`])([^`\n]+)(?<=[^\s`])`(?!\w)")  # an excerpt may begin inside a pair
_LINE_REFERENCES = re.compile(r" (\(L\d+(?:, L\d+)*\))(?=\s*(?:<|$))")  # the lines of a transcript that show it

# Handoffs and observations are written by agents. Images would be loaded from elsewhere, and are shown as links.
_markdown = MarkdownIt("commonmark", {"html": False, "breaks": True}).disable("image")
_markdown.validateLink = lambda url: _LINK.match(url) is not None  # type: ignore[method-assign]


def sanitize_value(value: Any) -> Any:
    """Return a value as a page may show it; Markup, which only we create, stays as it is."""
    if value is None:
        return ""
    if not isinstance(value, str) or isinstance(value, Markup):
        return value
    if len(value) <= _MAX_TEXT_CHARS:
        return make_printable(value)
    return f"{make_printable(value[:_MAX_TEXT_CHARS])}… ({len(value):,} characters)"


def render_markdown(text: str) -> Markup:
    return _mark_references(_markdown.render(sanitize_value(text)))


def _mark_references(html: str) -> Markup:
    return Markup(_LINE_REFERENCES.sub(r' <span class="dim">\1</span>', html))


def _format_time(at: float | None, time_format: str = "%Y-%m-%d %H:%M") -> Markup | str:
    """Return a time in the reader's own zone; empty if it is missing or no calendar has it."""
    if not at:
        return ""
    try:
        moment = datetime.fromtimestamp(at)
    except (ValueError, OverflowError, OSError):
        return ""
    iso_time = moment.isoformat(timespec="seconds")
    return Markup('<time datetime="{}">{}</time>').format(iso_time, moment.strftime(time_format))


def _format_recent_time(at: float, now: float) -> Markup | str:
    """Return a time of today with seconds, any other with its day."""
    is_today = datetime.fromtimestamp(now).date() == datetime.fromtimestamp(at).date()
    return _format_time(at, "%H:%M:%S" if is_today else "%m-%d %H:%M")


def describe_input(tool_input: Any, folder: str = "") -> str:
    """Return the command or path of a stored call, all of its input if it has neither; paths relative to a folder."""
    text = _describe_stored_input(tool_input)
    return text.removeprefix(f"{folder.rstrip('/')}/") if folder else text


def _describe_stored_input(tool_input: Any) -> str:
    """Return the command or path of a call's input, given as an object or as JSON that may have been stored cut.

    Of JSON that was cut only the first field can be read.
    """
    if not isinstance(tool_input, str):
        return find_describing_text(tool_input)
    if not tool_input:
        return find_describing_text("")
    try:
        return find_describing_text(json.loads(tool_input))
    except ValueError:  # the input was stored cut, and is no JSON any more
        first_field = _FIRST_FIELD.match(tool_input)
        if first_field is None:
            return tool_input
        return first_field[1].replace("\\n", "\n").replace('\\"', '"')


def _format_line(value: Any, max_length: int = 200) -> str:
    """Return a value on one line; cut before that too, because a tool's result may have megabytes."""
    return to_printable_line(str(value or "")[: max_length * 4], max_length)


def highlight(text: str, spans: Iterable[tuple[int, int]]) -> Markup:
    """Return the text with these spans marked, and with code between backquotes as code."""
    html = Markup("")
    end = 0
    for start, stop in spans:
        plain_text = sanitize_value(text[end:start])
        marked_text = sanitize_value(text[start:stop])
        html += Markup("{}<mark>{}</mark>").format(plain_text, marked_text)
        end = stop
    html += Markup("{}").format(sanitize_value(text[end:]))
    return Markup(_CODE.sub(r"<code>\1</code>", str(html)))  # what it encloses is escaped already


def build_delivered_page_path(slug: str) -> str:
    """Return the page of something that was delivered: a lesson by its slug, other records by id; none for others."""
    if slug in ("", BRIEF_SLUG, REQUEST_SLUG):
        return ""
    is_record_id = slug[0].isupper() and parse_id(slug) is not None  # slugs are lower case
    folder = "found" if is_record_id else "lessons"
    return f"/{folder}/{quote(slug, safe='', errors='replace')}"


def _build_query(values: Mapping[str, Any]) -> str:
    """Return the query of an address, without filters that are not set."""
    set_values = {name: value for name, value in values.items() if value not in ("", None)}
    return urlencode(set_values, errors="replace")


_FILTERS = {
    "about": describe_input,
    "confidence": lambda letter: _CONFIDENCE_NAMES.get(letter, ""),
    "counted": format_count,
    "cut": shorten_text,
    "event_name": lambda kind: _EVENT_NAMES.get(kind, kind),
    "folder": get_folder_name,
    "highlight": highlight,
    "inline": lambda text: _mark_references(_markdown.renderInline(sanitize_value(text))),
    "line": _format_line,
    "listed": parse_json_list,
    "markdown": render_markdown,
    "parent": lambda path: os.path.dirname(path.rstrip("/")),
    "query": _build_query,
    "record_path": build_delivered_page_path,
    "short_time": _format_recent_time,
    "time": _format_time,
}


def create_environment() -> jinja2.Environment:
    """Return the environment of the templates, in which every value is escaped and cleaned of hidden characters."""
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(os.path.join(_FOLDER, "templates")),
        autoescape=True,
        finalize=sanitize_value,
        undefined=jinja2.StrictUndefined,  # a misspelt name is an error, not an empty text
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )
    environment.filters |= _FILTERS
    return environment


def read_static_files() -> dict[str, tuple[str, bytes]]:
    """Return the media type and content of each static file."""
    folder = os.path.join(_FOLDER, "static")
    static_files = {}
    for name in sorted(os.listdir(folder)):
        _, ending = os.path.splitext(name)
        with open(os.path.join(folder, name), "rb") as file:
            static_files[name] = (_MEDIA_TYPES[ending], file.read())
    return static_files


def hash_static_files(files: Mapping[str, tuple[str, bytes]]) -> str:
    """Return a hash for the URLs of these files, so that browsers may cache them until one changes."""
    return hashlib.sha256(b"".join(content for _, content in files.values())).hexdigest()[:12]
