"""Read, write and name the files of memories."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from hashlib import sha256
from itertools import count

from hardwon import clock, paths
from hardwon.privacy.cleaning import clean_text
from hardwon.text.characters import make_printable, to_printable_line
from hardwon.text.excerpts import create_slug
from hardwon.types import MEMORY_TYPES, Memory, frozen

REPOSITORY_FOLDER = os.path.join(".claude", "memory")
HOME_FOLDER = "memory"
MEMORY_SUFFIX = ".md"
INDEX_FILES = ("MEMORY.md", "INDEX.md", "README.md")  # an index that people may keep beside the files
MAX_FILE_BYTES = 64_000  # a larger file is not a memory
_FENCE = "---"
_PLAIN_YAML = re.compile(r"[A-Za-z0-9/][\w ./,+-]*")  # needs no quotes in YAML


@frozen
class MemoryPage:
    """A memory as read from its file; `number` is 0 if nobody approved the file on this machine."""

    number: int
    type: str
    text: str
    description: str
    project: str
    path: str
    updated: str
    sources: tuple[str, ...]
    is_edited: bool


def choose_file_name(folder: str, memory: Memory) -> str:
    """Choose the name for a memory's new file.

    The same memory always gets the same name, so that a preview can show it.
    """
    line = memory.text.split("\n")[0]
    tries = count()
    stem = line if any(char.isascii() and char.isalnum() for char in line) else "memory"
    existing = {name.removesuffix(MEMORY_SUFFIX).removeprefix(f"{memory.type}_") for name in list_file_names(folder)}

    def create_suffix() -> str:
        return sha256(f"{next(tries)} {memory.text}".encode("utf-8", "replace")).hexdigest()[:4]

    return f"{memory.type}_{create_slug(stem, existing, create_suffix)}{MEMORY_SUFFIX}"


def get_memory_folder(home: str, memory: Memory) -> str:
    return get_project_folder(home, memory.project)


def get_memory_path(home: str, memory: Memory) -> str:
    return os.path.join(get_memory_folder(home, memory), memory.file)


def get_project_folder(home: str, project: str) -> str:
    """Return the folder of a project's memories: in its repository, unless a link leads out of it, else in the home."""
    folder = os.path.join(project, REPOSITORY_FOLDER)
    in_repository = os.path.isabs(project) and os.path.lexists(os.path.join(project, ".git"))
    is_contained = in_repository and paths.is_inside(os.path.realpath(project), os.path.realpath(folder))
    return folder if is_contained else os.path.join(home, HOME_FOLDER)


def render_memory(home: str, memory: Memory, now: float, extra_fields: Mapping[str, str] | None = None) -> str:
    """Render a memory's file, keeping `extra_fields`; in a repository the project path is left out."""
    fields = {
        **(extra_fields or {}),
        "name": memory.file.removesuffix(MEMORY_SUFFIX).removeprefix(f"{memory.type}_"),
        "description": to_printable_line(memory.text, 120),
        "type": memory.type,
        "created": clock.format_iso(memory.at)[:10],
        "updated": clock.format_iso(now)[:10],
        "project": memory.project if paths.is_inside(home, get_memory_folder(home, memory)) else "",
        "source": ", ".join((memory.source, *_list_sources(memory))),
        "hash": hash_content(memory.text),
    }
    lines = [f"{name}: {quote_yaml(value)}" for name, value in fields.items() if value]
    return "\n".join([_FENCE, *lines, _FENCE, "", memory.text, ""])


def _list_sources(memory: Memory) -> Iterator[str]:
    """Yield sources that may be shared: a transcript as session and line, because its path is local to this machine."""
    if memory.session:
        yield f"session {memory.session}"
    for reference in memory.evidence:
        path, _, line = reference.rpartition(":")
        yield f"L{line}" if os.path.isabs(path) else reference


def quote_yaml(value: str) -> str:
    """Quote a value for YAML if necessary."""
    return value if _PLAIN_YAML.fullmatch(value) else json.dumps(value, ensure_ascii=False)


def hash_content(text: str) -> str:
    return sha256(text.strip().encode("utf-8", "replace")).hexdigest()[:16]


def list_files(folder: str) -> list[str]:
    return [os.path.join(folder, name) for name in list_file_names(folder)]


def list_file_names(folder: str) -> list[str]:
    try:
        return [name for name in os.listdir(folder) if name.endswith(MEMORY_SUFFIX) and name not in INDEX_FILES]
    except OSError:
        return []


def read_file_stamp(path: str) -> tuple[int, int]:
    """Return modification time and size, to detect changes; zeros if the file is missing."""
    try:
        file_stat = os.stat(path)
    except OSError:
        return 0, 0
    return file_stat.st_mtime_ns, file_stat.st_size


def read_memory_file(path: str, project: str) -> MemoryPage | None:
    """Read and redact a memory's file; None if it is not a regular file, or too large."""
    try:
        if os.path.islink(path) or not os.path.isfile(path) or os.path.getsize(path) > MAX_FILE_BYTES:
            return None
        content = paths.read_text(path, "utf-8-sig", "replace")
    except OSError:
        return None
    fields, body = split_front_matter(content)
    body = body.strip()
    text = make_printable(clean_text(body)).strip()
    name_prefix = os.path.basename(path).partition("_")[0]
    possible_types = (fields.get("type", ""), name_prefix)
    memory_type = next((name for name in possible_types if name in MEMORY_TYPES), "project")
    description = to_printable_line(clean_text(fields.get("description", "")), 200) or to_printable_line(text, 120)
    sources = tuple(part.strip() for part in fields.get("source", "").split(",") if part.strip())
    return MemoryPage(
        number=0,  # this and `is_edited` are for the caller, who knows what was approved
        type=memory_type,
        text=text[:MAX_FILE_BYTES],
        description=description,
        project=project,
        path=path,
        updated=fields.get("updated", ""),
        sources=sources,
        is_edited=False,
    )


def split_front_matter(content: str) -> tuple[dict[str, str], str]:
    """Split a file into front matter fields and text; without front matter everything is text."""
    lines = content.splitlines()
    if not lines or lines[0].strip() != _FENCE or _FENCE not in [line.strip() for line in lines[1:]]:
        return {}, content
    end = [line.strip() for line in lines].index(_FENCE, 1)
    return dict(_parse_fields(lines[1:end])), "\n".join(lines[end + 1 :])


def _parse_fields(lines: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield names and values of the fields at the top of a file, values without quotes; nested lines are skipped."""
    for line in lines:
        name, colon, value = (part.strip() for part in line.partition(":"))
        if not colon or line[:1].isspace():
            continue
        if len(value) > 1 and value[0] == value[-1] == '"':
            try:
                value = str(json.loads(value))
            except ValueError:
                value = value[1:-1]
        elif len(value) > 1 and value[0] == value[-1] == "'":
            value = value[1:-1].replace("''", "'")
        yield name.lower(), value


def find_index_file(folder: str) -> str:
    """Return the path of the index that people keep beside the files; empty if there is none."""
    candidates = (os.path.join(folder, name) for name in INDEX_FILES)
    return next((path for path in candidates if os.path.isfile(path) and not os.path.islink(path)), "")


def add_index_entry(index_text: str, file: str, text: str) -> str:
    """Return the index text with a line for this memory added."""
    name = file.removesuffix(MEMORY_SUFFIX).partition("_")[2]
    return f"{index_text}\n- [{name}]({file}): {to_printable_line(text, 120)}\n".lstrip("\n")
