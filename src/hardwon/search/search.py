"""Search: what is known that answers a question, within a project unless all are asked for.

Words come first, vectors widen, what stands beside counts, and what is new or from here counts a little more. A file
that is named comes before all of that, and so does an id if nothing else is asked. Whatever is typed is text: it is
parted into words and never read as a query, and several words are never taken as one phrase.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from heapq import merge
from itertools import islice
from typing import Any

from hardwon.errors import UserError
from hardwon.search import embedding, ranking, records
from hardwon.search.ranking import RankedDocument
from hardwon.store import search as index
from hardwon.store.db import Connection
from hardwon.store.documents import DOCUMENT_KINDS, EVERYWHERE
from hardwon.text.words import build_filter_word, extract_words, list_path_ends, squeeze_identifier
from hardwon.types import frozen, replace

RECENCY_HALF_LIFE_DAYS = 90.0  # after which being new counts half as much
RECENCY_BONUS = 0.1
SAME_PROJECT_BONUS = 0.1
NAMED_FILE_BONUS = 1.0  # what a file that is named counts more
EXACT_ID_SCORE = 10.0
CLOSE_LIMIT = 3
EXCERPT_CHARS = 200
MAX_FILES, MAX_FILE_CHARS = 20, 300  # that a question names
MAX_EXAMINED = 5_000  # of those that look like passing the filters
MERGED_KINDS = ("observation", "event")
EXACT_ID_REASON = "exact id"
LEXICAL_ONLY_NOTE = "lexical only: the model is absent"
_DAY = 86_400.0
_EVERY: index.Scope = [(0, (1 << 63) - 1)]
_PATH = re.compile(r"[\w.@~+/\\-]+")
_FILE = re.compile(r".*[/\\].*|[\w@~+-][\w.@~+-]*\.[A-Za-z]\w{0,7}")


@frozen
class Hit:
    """Something found: `text` is an excerpt, `tokens` what the whole costs to read, `why` the reasons."""

    id: str
    kind: str
    title: str
    text: str
    at: float
    project: str
    session: str
    host: str
    type: str
    files: tuple[str, ...]
    concepts: tuple[str, ...]
    tokens: int
    score: float
    why: tuple[str, ...]


@frozen
class SearchResult:
    """What was found, best first; if nothing, what was close; and what the person should know about it."""

    hits: tuple[Hit, ...]
    close: tuple[Hit, ...] = ()
    note: str = ""


@frozen
class _Filters:
    kinds: tuple[str, ...]  # their letters
    type: str
    concept: str
    file: str
    host: str
    since: float
    until: float

    def marks(self) -> list[list[str]]:
        """Words of which a document must have one of each group."""
        groups = [[build_filter_word("k", letter) for letter in self.kinds]] if self.kinds else []
        groups += [
            [build_filter_word(name, value)]
            for name, value in zip("tch", (self.type, self.concept, self.host), strict=True)
            if value
        ]
        return (
            [*groups, [build_filter_word("f", list_path_ends(self.file)[-1])]] if list_path_ends(self.file) else groups
        )

    def let_pass(self, hit: Hit) -> bool:
        """Whether it is what was asked for, since marks and their stems are only alike."""
        return (
            (not self.kinds or hit.id[0] in self.kinds)
            and self.type.lower() in ("", hit.type.lower())
            and self.host.lower() in ("", hit.host.lower())
            and (not self.concept or self.concept.lower() in map(str.lower, hit.concepts))
            and (not self.file or any(_is_end(self.file, file) for file in hit.files))
            and hit.at >= self.since
            and (not self.until or hit.at < self.until)
        )


NO_FILTERS = _Filters((), "", "", "", "", 0.0, 0.0)


def search_records(
    connection: Connection,
    home: str,
    query: str,
    *,
    project: str = "",
    current_project: str = "",
    kinds: Sequence[str] = (),
    type: str = "",
    concept: str = "",
    file: str = "",
    host: str = "",
    since: float = 0.0,
    until: float = 0.0,
    limit: int = 40,
    now: float,
    model: embedding.Model | None = None,
) -> SearchResult:
    """What answers a question, the best first; without one, the latest that pass the filters.

    `project` is a path or a name and keeps all others out; without it `here` is the project that counts more.
    """
    filters = _Filters(_letters(kinds), type, concept, file, host, since, until)
    numbers = index.find_project_numbers(connection, project) if project else index.list_indexed_projects(connection)
    scope = index.build_scope(numbers) if project else _EVERY
    query = query[:4000]
    if query.strip():
        found = _ranked(connection, home, query, numbers, scope, filters, model, limit)
        ours = set(index.find_project_numbers(connection, current_project)) if current_project else set()
        found = sorted((_with_priors(one, now, ours) for one in found), key=lambda one: -one.score)
        hits = _hits(connection, home, query, [*_named(connection, query, scope), *found], limit, filters)
    else:
        hits = _hits(connection, home, query, _latest(connection, numbers, filters), limit, filters)
    note = "" if model is not None else LEXICAL_ONLY_NOTE
    if hits:
        return SearchResult(tuple(hits), (), note)
    return SearchResult((), tuple(_close(connection, home, query, numbers, scope, filters, model)), note)


def _ranked(
    connection: Connection,
    home: str,
    query: str,
    numbers: list[int],
    scope: index.Scope,
    filters: _Filters,
    model: embedding.Model | None,
    limit: int,
) -> list[RankedDocument]:
    marks, only = filters.marks(), None
    if filters.since or filters.until:
        only = frozenset(index.find_in_time_range(connection, scope, filters.since, filters.until or float("inf")))
    depth = max(ranking.MIN_DEPTH, 3 * limit)
    found = ranking.rank_documents(
        connection,
        home,
        query,
        projects=numbers,
        scope=scope,
        filters=marks,
        allowed_ids=only,
        model=model,
        depth=depth,
        limit=2 * limit + CLOSE_LIMIT,
    )
    found = [one for one in found if one.words or one.neighbour or one.meaning >= ranking.MIN_MEANING]
    files = sorted({build_filter_word("f", list_path_ends(path)[-1]) for path in _files_in(query)})
    if not files:
        return found
    most = depth if only is None else ranking.NO_LIMIT
    about = index.find_matches(connection, index.build_match_query(files, *marks), scope, most)
    by_file = frozenset([one for one in about if only is None or one in only][:depth])
    known = {one.document["id"]: one for one in found}
    documents = index.read_documents(connection, [one for one in by_file if one not in known])
    new = {id: RankedDocument(document, 0.0, (), 0.0, 0) for id, document in documents.items()}
    first = [replace(one, score=one.score + NAMED_FILE_BONUS) for id, one in (known | new).items() if id in by_file]
    return [*first, *(one for id, one in known.items() if id not in by_file)]


def _latest(connection: Connection, numbers: Sequence[int], filters: _Filters) -> Iterator[RankedDocument]:
    """What looks like passing the filters, the latest first; nothing without any."""
    if filters == NO_FILTERS:
        return iter(())
    match, until = index.build_match_query(*filters.marks()), filters.until or float("inf")
    each = (
        index.iter_latest_matches(connection, number, match, filters.since, until)
        for number in dict.fromkeys([*numbers, EVERYWHERE])
    )
    ordered = merge(*each, key=lambda one: (-one["at"], -one["id"]))
    return (RankedDocument(one, 0.0, (), 0.0, 0) for one in islice(ordered, MAX_EXAMINED))


def _with_priors(one: RankedDocument, now: float, ours: set[int]) -> RankedDocument:
    """A little more for what is new and for what is from here."""
    age = max(now - one.document["at"], 0.0) / _DAY
    new = RECENCY_BONUS * 0.5 ** (age / RECENCY_HALF_LIFE_DAYS) if one.document["at"] else 0.0
    near = SAME_PROJECT_BONUS if one.document["project"] in ours else 0.0
    return replace(one, score=one.score * (1 + new + near) * DOCUMENT_KINDS[one.document["kind"]].weight)


def _letters(kinds: Sequence[str]) -> tuple[str, ...]:
    """The letters of kinds that are given by letter or by name."""
    known = {name: kind.letter for kind in DOCUMENT_KINDS.values() for name in (kind.letter, kind.name)}
    for one in kinds:
        if one not in known:
            named = ", ".join(kind.name for kind in DOCUMENT_KINDS.values())
            raise UserError(f"there is no kind {one[:40]!r}", f"take one of {named}")
    return tuple(known[one] for one in kinds)


def _files_in(query: str) -> list[str]:
    """The files that a question names, by a path or a name with an ending."""
    words = [word.rstrip("./\\") for word in _PATH.findall(query) if len(word) <= MAX_FILE_CHARS]
    return [word for word in dict.fromkeys(words) if squeeze_identifier(word) and _FILE.fullmatch(word)][:MAX_FILES]


def _named(connection: Connection, query: str, scope: index.Scope) -> list[RankedDocument]:
    """What a question of nothing but ids calls by them, if it lies in the scope."""
    parsed = [records.parse_id(id) for id in re.split(r"[\s,]+", query.strip(" ,"))]
    held = [index.find_by_source(connection, one[0].letter, *one[1:]) for one in parsed if one]
    if len(held) < len(parsed):
        return []
    inside = [one for one in held if one and any(low <= one["id"] <= high for low, high in scope)]
    return [RankedDocument(one, EXACT_ID_SCORE, (), 0.0, 0, is_named=True) for one in inside]


def _hits(
    connection: Connection, home: str, query: str, ranked: Iterable[RankedDocument], limit: int, filters: _Filters
) -> list[Hit]:
    """The best that pass the filters, as they are shown; no more rows are read than it takes. Of observations and
    events that read the same the best stands for all."""
    asked, files = extract_words(query, is_query=True), _files_in(query)
    rest, seen, found = iter(ranked), set[int](), dict[tuple[str, ...], list[Hit]]()
    while len(found) < limit and (portion := list(islice(rest, limit + CLOSE_LIMIT))):
        new = {one.document["id"]: one for one in reversed(portion) if one.document["id"] not in seen}
        seen.update(new)
        for hit in _shown(connection, home, list(new.values())[::-1], asked, files):
            if filters.let_pass(hit):
                found.setdefault(_likeness(hit), []).append(hit)
    return [_standing_for(alike) for alike in islice(found.values(), limit)]


def _likeness(hit: Hit) -> tuple[str, ...]:
    """What those have in common that are shown once; what was asked for by its id is shown."""
    if hit.kind not in MERGED_KINDS or EXACT_ID_REASON in hit.why:
        return (hit.id,)
    return (hit.kind, hit.project, hit.title, hit.text)


def _standing_for(alike: Sequence[Hit]) -> Hit:
    return replace(alike[0], why=(*alike[0].why, "others read the same")) if len(alike) > 1 else alike[0]


def _shown(
    connection: Connection, home: str, ranked: Sequence[RankedDocument], asked: Sequence[str], files: Sequence[str]
) -> Iterator[Hit]:
    """Those that are still there, their rows read."""
    names = _names(connection, [one.neighbour for one in ranked if one.neighbour])
    held = _read(connection, home, ranked)
    for one in ranked:
        record = held.get(_id(one.document))
        if record is None:
            continue
        plain = {name: record[name] for name in ("id", "kind", "title", "at", "project", "session", "host", "type")}
        yield Hit(
            **plain,
            text=cut_excerpt(record["text"], asked),
            files=tuple(record["files"]),
            tokens=record["tokens"],
            concepts=tuple(record["concepts"]),
            score=round(one.score, 4),
            why=_why(one, names, record["files"], files),
        )


def _read(connection: Connection, home: str, ranked: Sequence[RankedDocument]) -> dict[str, dict[str, Any]]:
    fetched = records.fetch_records(connection, home, [_id(one.document) for one in ranked])
    return {one["id"]: one for one in fetched if "error" not in one}


def _id(document: dict[str, Any]) -> str:
    return records.format_id(document["kind"], document["row"], document["name"])


def _names(connection: Connection, ids: Sequence[int]) -> dict[int, str]:
    return {id: _id(document) for id, document in index.read_documents(connection, ids).items()} if ids else {}


def _why(one: RankedDocument, names: dict[int, str], files: Sequence[str], asked: Sequence[str]) -> tuple[str, ...]:
    """The reasons in a few words; `asked` are the files that the question names."""
    named = [path for path in asked if any(_is_end(path, file) for file in files)]
    reasons = [
        EXACT_ID_REASON if one.is_named else "",
        f"file: {named[0]}" if named else "",
        f"words: {', '.join(one.words[:6])}" if one.words else "",
        "meaning" if one.meaning >= ranking.MIN_MEANING else "",
        f"neighbour of {names[one.neighbour]}" if one.neighbour in names else "",
    ]
    return tuple(reason for reason in reasons if reason)


def _is_end(path: str, file: str) -> bool:
    """Whether a path is a file's, or an end of it."""
    steps, whole = (
        [step for step in re.split(r"[/\\]+", text.lower()) if step not in ("", ".")] for text in (path, file)
    )
    return bool(steps) and (whole[-len(steps) :] == steps or steps[-len(whole) :] == whole)


def cut_excerpt(text: str, words: Sequence[str], max_characters: int = EXCERPT_CHARS) -> str:
    """A stretch of a text on one line, from where a word of the question first stands."""
    line = " ".join(text.split())
    low = line.lower()
    places = [low.find(word[: max(len(word) - 2, 4)]) for word in words]
    at = max(min((place for place in places if place >= 0), default=0) - max_characters // 4, 0)
    at = line.rfind(" ", 0, at) + 1 if at else 0
    cut = line[at : at + max_characters]
    return f"{'…' if at else ''}{cut}{'…' if at + max_characters < len(line) else ''}"


def _close(
    connection: Connection,
    home: str,
    query: str,
    numbers: list[int],
    scope: index.Scope,
    filters: _Filters,
    model: embedding.Model | None,
) -> list[Hit]:
    """For a question without an answer: what would pass without the filters, or has words that begin alike."""
    if filters != NO_FILTERS and query.strip():
        ranked = _ranked(connection, home, query, numbers, scope, NO_FILTERS, model, CLOSE_LIMIT)
        if hits := _hits(connection, home, query, ranked, CLOSE_LIMIT, NO_FILTERS):
            return [replace(hit, why=(*hit.why, "without the filters")) for hit in hits]
    beginnings = [word[: max(len(word) // 2, 3)] for word in extract_words(query, is_query=True) if len(word) > 3]
    if not beginnings:
        return []
    ids = index.find_matches(connection, index.build_match_query(beginnings, by_prefix=True), scope, CLOSE_LIMIT)
    alike = [RankedDocument(one, 0.0, (), 0.0, 0) for one in index.read_documents(connection, ids).values()]
    hits = _hits(connection, home, query, alike, CLOSE_LIMIT, NO_FILTERS)
    return [replace(hit, why=("words that begin alike",)) for hit in hits]
