"""Memories: what a machine proposes waits for a person, and what a person approves is a file that people may edit.

The file lies in the project's repository; for what is about the user, or where there is no repository, in the home.
What is told to agents is what the file says, and only as a person approved it here: a repository that was fetched may
hold anything. What a person changes in such a file is approved again.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from hashlib import sha256

from hardwon import clock, paths
from hardwon.core import slugs
from hardwon.core.clean import clean
from hardwon.core.printable import in_line, printable
from hardwon.core.similarity import SAME, jaccard, tokens
from hardwon.errors import UserError
from hardwon.store import memories as kept
from hardwon.store.db import Connection, transaction
from hardwon.words import MEMORY_TYPES, Memory, replace, word

IN_REPOSITORY = os.path.join(".claude", "memory")
IN_HOME = "memory"
END = ".md"
INDEXES = ("MEMORY.md", "INDEX.md", "README.md")  # a list that people keep beside the files, if they do
LONGEST, LARGEST = 2_000, 64_000  # characters of a memory, bytes of its file
MOST_WAITING = 200
_FENCE = "---"
_PLAIN = re.compile(r"[A-Za-z0-9/][\w ./,+-]*")  # what YAML reads as it stands


@word
class Page:
    """A memory as its file says it; `number` is 0 for a file that nobody approved here."""

    number: int
    type: str
    text: str
    description: str
    project: str
    path: str
    updated: str
    sources: tuple[str, ...]
    is_edited: bool


def propose(
    connection: Connection, home: str, type: str, text: str, *, project: str, source: str,
    session: str = "", evidence: Sequence[str] = (), now: float,
) -> Memory:  # fmt: skip
    """Keep a candidate; UserError if it is not fit, or says what is known, waits or was rejected."""
    if type not in MEMORY_TYPES:
        raise UserError(f"{type!r} is no type of memory", f"one of: {', '.join(MEMORY_TYPES)}")
    text = _fit(text)
    project = "" if type == "user" else project
    if len(kept.listed(connection, "candidate")) >= MOST_WAITING:
        raise UserError(f"{MOST_WAITING} proposals wait for a person", "they decide with: hardwon memory list")
    _refuse_known(connection, home, text, project)
    known = Memory(0, clock.ulid(now), type, text, project, session, "candidate", source, tuple(evidence), "", now)
    return kept.put(connection, known)


def _fit(text: str) -> str:
    """The words that can be kept; UserError if they are too few or too many."""
    text = printable(clean(text)).strip()
    if not tokens(text) or len(text) > LONGEST:
        raise UserError(
            f"the memory has {len(text)} characters that can be kept, and may have 1 to {LONGEST}",
            "say one thing, in a sentence or two",
        )
    return text


def _refuse_known(connection: Connection, home: str, text: str, project: str, *statuses: str) -> None:
    words = tokens(text)
    for other in kept.listed(connection, *(statuses or ("candidate", "active", "rejected")), project=project):
        page = page_of(home, other) if other.status == "active" else None
        if other.status == "active" and page is None:
            continue
        share = jaccard(words, tokens(page.text if page else other.text))
        if share >= SAME:
            state = {"candidate": "waits for a person", "active": "is known", "rejected": "was rejected"}[other.status]
            say = f"this {state} already, as memory {other.id} ({share:.0%} of the words are the same)"
            raise UserError(say, f"hardwon memory show {other.id}")


def approve(connection: Connection, home: str, memory: Memory, now: float) -> tuple[Memory, str]:
    """Write its file, or if it has one let count what that says now; gives the file's path too."""
    folder, file = folder_of(home, memory), memory.file
    page = page_of(home, memory) if file else None
    if there := bool(file) and os.path.exists(os.path.join(folder, file)):
        if memory.status == "active" and not (page and page.is_edited):
            raise UserError(f"memory {memory.id} is approved already", f"edit {os.path.join(folder, file)}")
    elif there := bool(twin := _twin(connection, home, memory)):
        file = twin
    else:
        if memory.status == "candidate":
            _refuse_known(connection, home, memory.text, memory.project, "active")
        file = _fresh_name(folder, memory)
        _write(home, os.path.join(folder, file), render(home, replace(memory, file=file), now))
    try:
        with transaction(connection):
            _decide(connection, memory, "active", file, now)
            if page:
                kept.reword(connection, memory.id, page.text)
    except BaseException:
        if not there:
            os.unlink(os.path.join(folder, file))
        raise
    if not there:
        _enter(home, folder, file, memory.text)
    return replace(memory, status="active", file=file, decided_at=now), os.path.join(folder, file)


def _twin(connection: Connection, home: str, memory: Memory) -> str:
    """The name of a file that is there already and says the very same; nothing if there is none."""
    found = unapproved(connection, home, memory.project) if memory.type != "user" else []
    return next((os.path.basename(page.path) for page in found if page.text == memory.text), "")


def _enter(home: str, folder: str, file: str, text: str) -> None:
    """Add a memory to the list that people keep beside the files."""
    if path := index_in(folder):
        with open(path, encoding="utf-8", errors="replace") as listed:
            said = listed.read().rstrip("\n")
        if f"({file})" not in said:
            name = file.removesuffix(END).partition("_")[2]
            _write(home, path, f"{said}\n- [{name}]({file}): {in_line(text, 120)}\n".lstrip("\n"))


def index_in(folder: str) -> str:
    """The list that people keep beside the files; nothing if they keep none."""
    there = (os.path.join(folder, name) for name in INDEXES)
    return next((path for path in there if os.path.isfile(path) and not os.path.islink(path)), "")


def adopt(connection: Connection, page: Page, now: float) -> Memory:
    """Let a file count that somebody else put there."""
    file = os.path.basename(page.path)
    known = Memory(
        0, clock.ulid(now), page.type, page.text, page.project, "", "active", "file", page.sources, file, now, now
    )
    return kept.put(connection, known)


def reword(connection: Connection, home: str, memory: Memory, text: str, now: float) -> Memory:
    """Say it in other words: a proposal waits on, and an approved one has them in its file."""
    text = _fit(text)
    if memory.status not in ("candidate", "active"):
        raise UserError(f"memory {memory.id} is {memory.status}", f"hardwon memory show {memory.id}")
    after = replace(memory, text=text)
    if memory.status == "active":
        page = page_of(home, memory)
        if page is None:
            raise UserError(f"the file of memory {memory.id} is gone", f"hardwon memory approve {memory.id}")
        with open(page.path, encoding="utf-8-sig", errors="replace") as file:
            fields, _ = parted(file.read())
        _write(home, page.path, render(home, replace(after, type=page.type), now, fields))
    with transaction(connection):
        kept.reword(connection, memory.id, text)
    return after


def set_aside(connection: Connection, memory: Memory, now: float) -> Memory:
    """Reject what waits, or retire what counts; a file stays where it is."""
    status = "rejected" if memory.status == "candidate" else "retired"
    if memory.status not in ("candidate", "active"):
        raise UserError(f"memory {memory.id} is {memory.status} already", f"hardwon memory show {memory.id}")
    with transaction(connection):
        _decide(connection, memory, status, memory.file, now)
    return replace(memory, status=status, decided_at=now)


def _decide(connection: Connection, memory: Memory, status: str, file: str, now: float) -> None:
    if not kept.decide(connection, memory, status, file, now):
        raise UserError(f"somebody decided about memory {memory.id} meanwhile", f"hardwon memory show {memory.id}")


def _fresh_name(folder: str, memory: Memory) -> str:
    line = memory.text.split("\n")[0]
    stem = line if any(char.isascii() and char.isalnum() for char in line) else "memory"
    there = {name.removesuffix(END).removeprefix(f"{memory.type}_") for name in _names(folder)}
    return f"{memory.type}_{slugs.fresh(stem, there, clock.suffix)}{END}"


def _write(home: str, path: str, content: str) -> None:
    if _is_in(home, path):
        paths.write_private(path, content.encode("utf-8", "replace"))
    else:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        paths.replace_file(path, content.encode("utf-8", "replace"), 0o644)


def _is_in(home: str, path: str) -> bool:
    return path.startswith(home + os.sep)


def folder_of(home: str, memory: Memory) -> str:
    """Where its file lies."""
    return place_of(home, memory.project)


def place_of(home: str, project: str) -> str:
    """Where the files of a project's memories lie."""
    in_repository = os.path.isabs(project) and os.path.lexists(os.path.join(project, ".git"))
    return os.path.join(project, IN_REPOSITORY) if in_repository else os.path.join(home, IN_HOME)


def render(home: str, memory: Memory, now: float, others: Mapping[str, str] | None = None) -> str:
    """The file of a memory, with fields of others' that it had; one in a repository need not say where that lies."""
    fields = {
        **(others or {}),
        "name": memory.file.removesuffix(END).removeprefix(f"{memory.type}_"),
        "description": in_line(memory.text, 120),
        "type": memory.type,
        "created": clock.iso(memory.at)[:10],
        "updated": clock.iso(now)[:10],
        "project": memory.project if _is_in(home, folder_of(home, memory)) else "",
        "source": ", ".join((memory.source, *memory.evidence)),
        "hash": content_hash(memory.text),
    }
    lines = [f"{name}: {quoted(value)}" for name, value in fields.items() if value]
    return "\n".join([_FENCE, *lines, _FENCE, "", memory.text, ""])


def quoted(value: str) -> str:
    """A value as YAML reads it."""
    return value if _PLAIN.fullmatch(value) else json.dumps(value, ensure_ascii=False)


def content_hash(text: str) -> str:
    return sha256(text.strip().encode("utf-8", "replace")).hexdigest()[:16]


def page_of(home: str, memory: Memory) -> Page | None:
    """What the file of an approved memory says now; None if it is gone or cannot be read."""
    if not memory.file.endswith(END) or os.path.basename(memory.file) != memory.file:  # an import may say anything
        return None
    page = _read(os.path.join(folder_of(home, memory), memory.file), memory.project)
    if page is None:
        return None
    return replace(page, number=memory.id, is_edited=content_hash(page.text) != content_hash(memory.text))


def told(connection: Connection, home: str, project: str | None = None) -> list[Page]:
    """What counts, of every project, or of one and everywhere: what is about the user first.

    A file in a repository that was changed since it was approved does not: somebody else may have changed it.
    """
    found = [page_of(home, one) for one in kept.listed(connection, "active", project=project)]
    pages = [page for page in found if page and page.text and (_is_in(home, page.path) or not page.is_edited)]
    return sorted(pages, key=lambda page: (MEMORY_TYPES.index(page.type), page.number))


def prints(connection: Connection, home: str) -> str:
    """Another text whenever what counts, or one of the files, is another."""
    seen = [
        (one.id, one.type, one.project, content_hash(one.text), stat(os.path.join(folder_of(home, one), one.file)))
        for one in kept.listed(connection, "active")
    ]
    return sha256(repr(seen).encode("utf-8", "replace")).hexdigest()


def unapproved(connection: Connection, home: str, project: str) -> list[Page]:
    """The files in a project's repository that nobody approved here."""
    folder = place_of(home, project)
    if _is_in(home, folder):
        return []
    known = {one.file for one in kept.listed(connection, project=project) if one.type != "user"}
    found = [_read(os.path.join(folder, name), project) for name in sorted(_names(folder)) if name not in known]
    return [page for page in found if page and page.text]


def faults(connection: Connection, home: str, project: str) -> list[tuple[str, str, str]]:
    """What is wrong with the memories that count here: whose, what, and what mends it."""
    found, seen = list[tuple[str, str, str]](), list[Page]()
    for one in kept.listed(connection, "active", project=project):
        name, page = f"M:{one.id}", page_of(home, one)
        if page is None:
            gone = f"its file is gone, a link or too large: {os.path.join(folder_of(home, one), one.file)}"
            found.append((name, gone, f"hardwon memory approve {one.id}, or retire {one.id}"))
            continue
        if not page.text:
            found.append((name, f"its file says nothing: {page.path}", f"hardwon memory retire {one.id}"))
        if page.is_edited and not _is_in(home, page.path):
            found.append((name, "its file says something else than was approved", f"hardwon memory approve {one.id}"))
        if len(page.text) > LONGEST:
            found.append((name, f"it has {len(page.text)} characters", "say one thing, in a sentence or two"))
        twin = next((other for other in seen if jaccard(tokens(other.text), tokens(page.text)) >= SAME), None)
        if twin:
            found.append((name, f"it says what M:{twin.number} says", f"hardwon memory retire {one.id}"))
        seen.append(page)
    for page in unapproved(connection, home, project):
        file = os.path.basename(page.path)
        found.append((file, "nobody approved it here, so it is not told", f"hardwon memory approve {file}"))
    return [*found, *_misindexed(place_of(home, project))]


def _misindexed(folder: str) -> Iterator[tuple[str, str, str]]:
    """Files that the list beside them does not have, and lines of it that lead nowhere."""
    path = index_in(folder)
    if not path:
        return
    with open(path, encoding="utf-8", errors="replace") as file:
        listed = set(re.findall(r"\]\(([\w.-]+\.md)\)", file.read()))
    names = set(_names(folder))
    for name in sorted(names - listed):
        yield name, f"it is not in {os.path.basename(path)}", f"add a line: - [name]({name})"
    for name in sorted(listed - names - set(INDEXES)):
        yield os.path.basename(path), f"it lists {name}, which is not there", "take the line out"


def _names(folder: str) -> list[str]:
    try:
        return [name for name in os.listdir(folder) if name.endswith(END) and name not in INDEXES]
    except OSError:
        return []


def stat(path: str) -> tuple[int, int]:
    """What tells that a file is another; zeros if it is gone."""
    try:
        found = os.stat(path)
    except OSError:
        return 0, 0
    return found.st_mtime_ns, found.st_size


def _read(path: str, project: str) -> Page | None:
    """A file as it stands, cleaned; None for what is not a file of its own, or too large to be a memory."""
    try:
        if os.path.islink(path) or not os.path.isfile(path) or os.path.getsize(path) > LARGEST:
            return None
        with open(path, encoding="utf-8-sig", errors="replace") as file:
            content = file.read()
    except OSError:
        return None
    fields, body = parted(content)
    body = body.strip()
    text = printable(clean(body)).strip()
    named = os.path.basename(path).partition("_")[0]
    type = next((one for one in (fields.get("type", ""), named) if one in MEMORY_TYPES), "project")
    description = in_line(clean(fields.get("description", "")), 200) or in_line(text, 120)
    sources = tuple(part.strip() for part in fields.get("source", "").split(",") if part.strip())
    return Page(0, type, text[:LARGEST], description, project, path, fields.get("updated", ""), sources, False)


def parted(content: str) -> tuple[dict[str, str], str]:
    """The fields above the text, and the text; a file without fields is all text."""
    lines = content.splitlines()
    if not lines or lines[0].strip() != _FENCE or _FENCE not in [line.strip() for line in lines[1:]]:
        return {}, content
    end = [line.strip() for line in lines].index(_FENCE, 1)
    return dict(_fields(lines[1:end])), "\n".join(lines[end + 1 :])


def _fields(lines: Sequence[str]) -> Iterator[tuple[str, str]]:
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
