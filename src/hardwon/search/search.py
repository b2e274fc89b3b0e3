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
from hardwon.store import documents
from hardwon.store.db import Connection
from hardwon.store.documents import DOCUMENT_KINDS, EVERYWHERE, Scope
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
_DAY_SECONDS = 86_400.0
_PATH_PATTERN = re.compile(r"[\w.@~+/\\-]+")
_FILE_PATTERN = re.compile(r".*[/\\].*|[\w@~+-][\w.@~+-]*\.[A-Za-z]\w{0,7}")


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
    record_type: str
    concept: str
    file: str
    host: str
    since: float
    until: float

    def build_word_groups(self) -> list[list[str]]:
        """Words of which a document must have one of each group."""
        groups = [[build_filter_word("k", letter) for letter in self.kinds]] if self.kinds else []
        groups += [
            [build_filter_word(name, value)]
            for name, value in zip("tch", (self.record_type, self.concept, self.host), strict=True)
            if value
        ]
        return (
            [*groups, [build_filter_word("f", list_path_ends(self.file)[-1])]] if list_path_ends(self.file) else groups
        )

    def is_met_by(self, hit: Hit) -> bool:
        """Whether it is what was asked for, since marks and their stems are only alike."""
        return (
            (not self.kinds or hit.id[0] in self.kinds)
            and self.record_type.lower() in ("", hit.type.lower())
            and self.host.lower() in ("", hit.host.lower())
            and (not self.concept or self.concept.lower() in map(str.lower, hit.concepts))
            and (not self.file or any(_is_path_end(self.file, file) for file in hit.files))
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
    filters = _Filters(_parse_kinds(kinds), type, concept, file, host, since, until)
    numbers = documents.find_project_numbers(connection, project)
    scope = documents.build_scope(numbers) if project else documents.FULL_SCOPE
    query = query[:4000]
    if query.strip():
        results = _rank_results(connection, home, query, numbers, scope, filters, model, limit)
        current_numbers = set(documents.find_project_numbers(connection, current_project)) if current_project else set()
        results = sorted(
            (_apply_priors(result, now, current_numbers) for result in results), key=lambda result: -result.score
        )
        hits = _build_hits(connection, home, query, [*_find_by_id(connection, query, scope), *results], limit, filters)
    else:
        hits = _build_hits(connection, home, query, _list_latest(connection, numbers, filters), limit, filters)
    note = "" if model is not None else LEXICAL_ONLY_NOTE
    if hits:
        return SearchResult(tuple(hits), (), note)
    return SearchResult((), tuple(_find_close_hits(connection, home, query, numbers, scope, filters, model)), note)


def _rank_results(
    connection: Connection,
    home: str,
    query: str,
    numbers: list[int],
    scope: Scope,
    filters: _Filters,
    model: embedding.Model | None,
    limit: int,
) -> list[RankedDocument]:
    filter_words, allowed_ids = filters.build_word_groups(), None
    if filters.since or filters.until:
        allowed_ids = frozenset(
            documents.find_in_time_range(connection, scope, filters.since, filters.until or float("inf"))
        )
    depth = max(ranking.MIN_DEPTH, 3 * limit)
    results = ranking.rank_documents(
        connection,
        home,
        query,
        projects=numbers,
        scope=scope,
        filters=filter_words,
        allowed_ids=allowed_ids,
        model=model,
        depth=depth,
        limit=2 * limit + CLOSE_LIMIT,
    )
    results = [item for item in results if item.words or item.neighbour or item.meaning >= ranking.MIN_MEANING]
    file_words = sorted({build_filter_word("f", list_path_ends(path)[-1]) for path in _extract_files(query)})
    if not file_words:
        return results
    max_matches = depth if allowed_ids is None else ranking.NO_LIMIT
    file_matches = documents.find_matches(
        connection, documents.build_match_query(file_words, *filter_words), scope, max_matches
    )
    file_ids = frozenset([item for item in file_matches if allowed_ids is None or item in allowed_ids][:depth])
    results_by_id = {item.document["id"]: item for item in results}
    named_documents = documents.read_documents(connection, [item for item in file_ids if item not in results_by_id])
    new_results = {
        document_id: RankedDocument(document, 0.0, (), 0.0, 0) for document_id, document in named_documents.items()
    }
    boosted = [
        replace(item, score=item.score + NAMED_FILE_BONUS)
        for document_id, item in (results_by_id | new_results).items()
        if document_id in file_ids
    ]
    return [*boosted, *(item for document_id, item in results_by_id.items() if document_id not in file_ids)]


def _list_latest(connection: Connection, numbers: Sequence[int], filters: _Filters) -> Iterator[RankedDocument]:
    """What looks like passing the filters, the latest first; nothing without any."""
    if filters == NO_FILTERS:
        return iter(())
    match, until = documents.build_match_query(*filters.build_word_groups()), filters.until or float("inf")
    streams = (
        documents.iter_latest_matches(connection, number, match, filters.since, until)
        for number in dict.fromkeys([*numbers, EVERYWHERE])
    )
    ordered = merge(*streams, key=lambda document: (-document["at"], -document["id"]))
    return (RankedDocument(document, 0.0, (), 0.0, 0) for document in islice(ordered, MAX_EXAMINED))


def _apply_priors(result: RankedDocument, now: float, current_numbers: set[int]) -> RankedDocument:
    """A little more for what is new and for what is from here."""
    age = max(now - result.document["at"], 0.0) / _DAY_SECONDS
    recency_bonus = RECENCY_BONUS * 0.5 ** (age / RECENCY_HALF_LIFE_DAYS) if result.document["at"] else 0.0
    project_bonus = SAME_PROJECT_BONUS if result.document["project"] in current_numbers else 0.0
    return replace(
        result,
        score=result.score * (1 + recency_bonus + project_bonus) * DOCUMENT_KINDS[result.document["kind"]].weight,
    )


def _parse_kinds(kinds: Sequence[str]) -> tuple[str, ...]:
    """The letters of kinds that are given by letter or by name."""
    letters_by_name = {name: kind.letter for kind in DOCUMENT_KINDS.values() for name in (kind.letter, kind.name)}
    for kind_name in kinds:
        if kind_name not in letters_by_name:
            choices = ", ".join(kind.name for kind in DOCUMENT_KINDS.values())
            raise UserError(f"there is no kind {kind_name[:40]!r}", f"take one of {choices}")
    return tuple(letters_by_name[kind_name] for kind_name in kinds)


def _extract_files(query: str) -> list[str]:
    """The files that a question names, by a path or a name with an ending."""
    words = [word.rstrip("./\\") for word in _PATH_PATTERN.findall(query) if len(word) <= MAX_FILE_CHARS]
    return [word for word in dict.fromkeys(words) if squeeze_identifier(word) and _FILE_PATTERN.fullmatch(word)][
        :MAX_FILES
    ]


def _find_by_id(connection: Connection, query: str, scope: Scope) -> list[RankedDocument]:
    """What a question of nothing but ids calls by them, if it lies in the scope."""
    parsed_ids = [records.parse_id(record_id) for record_id in re.split(r"[\s,]+", query.strip(" ,"))]
    named_documents = [documents.find_by_source(connection, item[0].letter, *item[1:]) for item in parsed_ids if item]
    if len(named_documents) < len(parsed_ids):
        return []
    in_scope = [item for item in named_documents if item and any(low <= item["id"] <= high for low, high in scope)]
    return [RankedDocument(item, EXACT_ID_SCORE, (), 0.0, 0, is_named=True) for item in in_scope]


def _build_hits(
    connection: Connection, home: str, query: str, results: Iterable[RankedDocument], limit: int, filters: _Filters
) -> list[Hit]:
    """The best that pass the filters, as they are shown; no more rows are read than it takes. Of observations and
    events that read the same the best stands for all."""
    words, files = extract_words(query, is_query=True), _extract_files(query)
    remaining, seen_ids, hits_by_key = iter(results), set[int](), dict[tuple[str, ...], list[Hit]]()
    while len(hits_by_key) < limit and (portion := list(islice(remaining, limit + CLOSE_LIMIT))):
        new_results = {
            result.document["id"]: result for result in reversed(portion) if result.document["id"] not in seen_ids
        }
        seen_ids.update(new_results)
        for hit in _load_hits(connection, home, list(new_results.values())[::-1], words, files):
            if filters.is_met_by(hit):
                hits_by_key.setdefault(_build_merge_key(hit), []).append(hit)
    return [_merge_hits(same_hits) for same_hits in islice(hits_by_key.values(), limit)]


def _build_merge_key(hit: Hit) -> tuple[str, ...]:
    """What those have in common that are shown once; what was asked for by its id is shown."""
    if hit.kind not in MERGED_KINDS or EXACT_ID_REASON in hit.why:
        return (hit.id,)
    return (hit.kind, hit.project, hit.title, hit.text)


def _merge_hits(same_hits: Sequence[Hit]) -> Hit:
    return (
        replace(same_hits[0], why=(*same_hits[0].why, "others read the same")) if len(same_hits) > 1 else same_hits[0]
    )


def _load_hits(
    connection: Connection, home: str, results: Sequence[RankedDocument], words: Sequence[str], files: Sequence[str]
) -> Iterator[Hit]:
    """Those that are still there, their rows read."""
    record_ids = _read_record_ids(connection, [result.neighbour for result in results if result.neighbour])
    records_by_id = _fetch_records(connection, home, results)
    for result in results:
        record = records_by_id.get(_format_document_id(result.document))
        if record is None:
            continue
        plain_fields = {
            name: record[name] for name in ("id", "kind", "title", "at", "project", "session", "host", "type")
        }
        yield Hit(
            **plain_fields,
            text=cut_excerpt(record["text"], words),
            files=tuple(record["files"]),
            tokens=record["tokens"],
            concepts=tuple(record["concepts"]),
            score=round(result.score, 4),
            why=_explain_match(result, record_ids, record["files"], files),
        )


def _fetch_records(connection: Connection, home: str, results: Sequence[RankedDocument]) -> dict[str, dict[str, Any]]:
    fetched = records.fetch_records(connection, home, [_format_document_id(item.document) for item in results])
    return {item["id"]: item for item in fetched if "error" not in item}


def _format_document_id(document: dict[str, Any]) -> str:
    return records.format_id(document["kind"], document["row"], document["name"])


def _read_record_ids(connection: Connection, ids: Sequence[int]) -> dict[int, str]:
    return (
        {
            document_id: _format_document_id(document)
            for document_id, document in documents.read_documents(connection, ids).items()
        }
        if ids
        else {}
    )


def _explain_match(
    result: RankedDocument, record_ids: dict[int, str], files: Sequence[str], query_files: Sequence[str]
) -> tuple[str, ...]:
    """The reasons in a few words; `query_files` are the files that the question names."""
    matched_files = [path for path in query_files if any(_is_path_end(path, file) for file in files)]
    reasons = [
        EXACT_ID_REASON if result.is_named else "",
        f"file: {matched_files[0]}" if matched_files else "",
        f"words: {', '.join(result.words[:6])}" if result.words else "",
        "meaning" if result.meaning >= ranking.MIN_MEANING else "",
        f"neighbour of {record_ids[result.neighbour]}" if result.neighbour in record_ids else "",
    ]
    return tuple(reason for reason in reasons if reason)


def _is_path_end(path: str, file: str) -> bool:
    """Whether a path is a file's, or an end of it."""
    path_steps, file_steps = (
        [step for step in re.split(r"[/\\]+", text.lower()) if step not in ("", ".")] for text in (path, file)
    )
    return bool(path_steps) and (
        file_steps[-len(path_steps) :] == path_steps or path_steps[-len(file_steps) :] == file_steps
    )


def cut_excerpt(text: str, words: Sequence[str], max_characters: int = EXCERPT_CHARS) -> str:
    """A stretch of a text on one line, from where a word of the question first stands."""
    line = " ".join(text.split())
    lowered = line.lower()
    positions = [lowered.find(word[: max(len(word) - 2, 4)]) for word in words]
    start = max(min((position for position in positions if position >= 0), default=0) - max_characters // 4, 0)
    start = line.rfind(" ", 0, start) + 1 if start else 0
    excerpt = line[start : start + max_characters]
    return f"{'…' if start else ''}{excerpt}{'…' if start + max_characters < len(line) else ''}"


def _find_close_hits(
    connection: Connection,
    home: str,
    query: str,
    numbers: list[int],
    scope: Scope,
    filters: _Filters,
    model: embedding.Model | None,
) -> list[Hit]:
    """For a question without an answer: what would pass without the filters, or has words that begin alike."""
    if filters != NO_FILTERS and query.strip():
        results = _rank_results(connection, home, query, numbers, scope, NO_FILTERS, model, CLOSE_LIMIT)
        if hits := _build_hits(connection, home, query, results, CLOSE_LIMIT, NO_FILTERS):
            return [replace(hit, why=(*hit.why, "without the filters")) for hit in hits]
    prefixes = [word[: max(len(word) // 2, 3)] for word in extract_words(query, is_query=True) if len(word) > 3]
    if not prefixes:
        return []
    ids = documents.find_matches(connection, documents.build_match_query(prefixes, by_prefix=True), scope, CLOSE_LIMIT)
    prefix_matches = [
        RankedDocument(document, 0.0, (), 0.0, 0) for document in documents.read_documents(connection, ids).values()
    ]
    hits = _build_hits(connection, home, query, prefix_matches, CLOSE_LIMIT, NO_FILTERS)
    return [replace(hit, why=("words that begin alike",)) for hit in hits]
