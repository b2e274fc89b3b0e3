"""Search records, in one project or in all of them.

Matching words count most; vectors and neighbours add to them, and new records and those of the current project score a
little higher. Records of a file that the query names come first, and so do records named by id if the query has nothing
else. Queries are split into words: there is no query syntax, and there are no phrases.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from heapq import merge
from itertools import islice
from typing import Any

from hardwon.errors import UserError
from hardwon.search import embedding, ranking, records
from hardwon.search.ranking import RankedDocument
from hardwon.store import documents
from hardwon.store.db import Connection
from hardwon.store.documents import DOCUMENT_KINDS, EVERYWHERE
from hardwon.text.words import build_filter_word, extract_words, list_path_ends, squeeze_identifier
from hardwon.types import frozen, replace

RECENCY_HALF_LIFE_DAYS = 90.0
RECENCY_BONUS = 0.1
SAME_PROJECT_BONUS = 0.1
NAMED_FILE_BONUS = 1.0
EXACT_ID_SCORE = 10.0
CLOSE_LIMIT = 3
EXCERPT_CHARS = 200
MAX_FILES, MAX_FILE_CHARS = 20, 300  # in a query
MAX_EXAMINED = 5_000  # documents whose filter words match
_MAX_QUERY_CHARS = 4000
MERGED_KINDS = ("observation", "event")
EXACT_ID_REASON = "exact id"
MERGED_REASON = "others read the same"
LEXICAL_ONLY_NOTE = "lexical only: the model is absent"
_DAY_SECONDS = 86_400.0
_PATH_PATTERN = re.compile(r"[\w.@~+/\\-]+")
_FILE_PATTERN = re.compile(r".*[/\\].*|[\w@~+-][\w.@~+-]*\.[A-Za-z]\w{0,7}")


@frozen
class Hit:
    """A matching record: `text` is an excerpt, `tokens` the size of the full record, `why` the reasons."""

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
    """Hits, best first; close matches if there are none; and a note for the person."""

    hits: tuple[Hit, ...]
    close: tuple[Hit, ...] = ()
    note: str = ""


@dataclass(frozen=True, slots=True)
class _Filters:
    kinds: tuple[str, ...]  # their letters
    record_type: str
    concept: str
    file: str
    host: str
    since: float
    until: float

    def build_word_groups(self) -> list[list[str]]:
        """Return groups of filter words; a document must have one word of each group."""
        groups = [[build_filter_word("k", letter) for letter in self.kinds]] if self.kinds else []
        for letter, value in (("t", self.record_type), ("c", self.concept), ("h", self.host)):
            if value:
                groups.append([build_filter_word(letter, value)])
        if path_ends := list_path_ends(self.file):
            groups.append([build_filter_word("f", path_ends[-1])])
        return groups

    def is_met_by(self, hit: Hit) -> bool:
        """Return whether a hit really passes; filter words only preselect, since different values may share one."""
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
    """Return the hits of a query, best first; without a query, the latest records that pass the filters.

    `project` is a path or a name and excludes all others; without it records of `current_project` score higher.
    """
    filters = _Filters(_parse_kinds(kinds), type, concept, file, host, since, until)
    search = _Search(connection, home, query[:_MAX_QUERY_CHARS], project, model)
    if search.query.strip():
        current_projects = documents.find_project_numbers(connection, current_project) if current_project else []
        results = [_apply_priors(result, now, current_projects) for result in search.rank(filters, limit)]
        results.sort(key=lambda result: -result.score)
        hits = search.load_hits([*search.find_by_id(), *results], limit, filters)
    else:
        hits = search.load_hits(search.iter_latest(filters), limit, filters)
    close_hits = [] if hits else search.find_close_hits(filters)
    return SearchResult(tuple(hits), tuple(close_hits), "" if model is not None else LEXICAL_ONLY_NOTE)


class _Search:
    """One query and its scope."""

    def __init__(
        self, connection: Connection, home: str, query: str, project: str, model: embedding.Model | None
    ) -> None:
        self._connection, self._home, self._model = connection, home, model
        self.query = query
        self._words, self._files = extract_words(query, is_query=True), _extract_files(query)
        self._projects = documents.find_project_numbers(connection, project)
        self._scope = documents.build_scope(self._projects) if project else documents.FULL_SCOPE

    def rank(self, filters: _Filters, limit: int) -> list[RankedDocument]:
        """Return the documents that match by words or meaning, and those of a file that the query names."""
        filter_words, allowed_ids = filters.build_word_groups(), None
        if filters.since or filters.until:
            until = filters.until or float("inf")
            allowed_ids = frozenset(documents.find_in_time_range(self._connection, self._scope, filters.since, until))
        depth = max(ranking.MIN_DEPTH, 3 * limit)
        ranked = ranking.rank_documents(
            self._connection,
            self._home,
            self.query,
            projects=self._projects,
            scope=self._scope,
            filters=filter_words,
            allowed_ids=allowed_ids,
            model=self._model,
            depth=depth,
            limit=2 * limit + CLOSE_LIMIT,
        )
        results = [item for item in ranked if item.words or item.neighbour or item.meaning >= ranking.MIN_MEANING]
        file_words = sorted({build_filter_word("f", list_path_ends(path)[-1]) for path in self._files})
        if not file_words:
            return results
        match = documents.build_match_query(file_words, *filter_words)
        max_matches = depth if allowed_ids is None else ranking.NO_LIMIT
        file_matches = documents.find_matches(self._connection, match, self._scope, max_matches)
        file_ids = frozenset([item for item in file_matches if allowed_ids is None or item in allowed_ids][:depth])
        results_by_id = {item.document["id"]: item for item in results}
        unranked_ids = [document_id for document_id in file_ids if document_id not in results_by_id]
        for document_id, document in documents.read_documents(self._connection, unranked_ids).items():
            results_by_id[document_id] = RankedDocument(document, 0.0, (), 0.0, 0)
        boosted = [
            replace(item, score=item.score + NAMED_FILE_BONUS)
            for document_id, item in results_by_id.items()
            if document_id in file_ids
        ]
        return [*boosted, *(item for document_id, item in results_by_id.items() if document_id not in file_ids)]

    def iter_latest(self, filters: _Filters) -> Iterator[RankedDocument]:
        """Yield the documents whose filter words match, latest first; nothing without filters."""
        if filters == NO_FILTERS:
            return
        match = documents.build_match_query(*filters.build_word_groups())
        until = filters.until or float("inf")
        streams = [
            documents.iter_latest_matches(self._connection, number, match, filters.since, until)
            for number in dict.fromkeys([*self._projects, EVERYWHERE])
        ]
        for document in islice(merge(*streams, key=lambda item: (-item["at"], -item["id"])), MAX_EXAMINED):
            yield RankedDocument(document, 0.0, (), 0.0, 0)

    def find_by_id(self) -> list[RankedDocument]:
        """Return the documents in scope that the query names, if it consists only of ids."""
        parsed_ids = [records.parse_id(record_id) for record_id in re.split(r"[\s,]+", self.query.strip(" ,"))]
        named_documents = [
            documents.find_by_source(self._connection, parsed[0].letter, *parsed[1:]) for parsed in parsed_ids if parsed
        ]
        if len(named_documents) < len(parsed_ids):
            return []
        in_scope = [
            document
            for document in named_documents
            if document and any(low <= document["id"] <= high for low, high in self._scope)
        ]
        return [RankedDocument(item, EXACT_ID_SCORE, (), 0.0, 0, is_named=True) for item in in_scope]

    def load_hits(self, results: Iterable[RankedDocument], limit: int, filters: _Filters) -> list[Hit]:
        """Return the best results that pass the filters, reading no more rows than needed.

        Of observations and events with the same text only the best is shown.
        """
        remaining, seen_ids, hits_by_key = iter(results), set[int](), dict[tuple[str, ...], Hit]()
        while len(hits_by_key) < limit and (portion := list(islice(remaining, limit + CLOSE_LIMIT))):
            new_results: dict[int, RankedDocument] = {}
            for result in portion:
                if result.document["id"] not in seen_ids:
                    new_results.setdefault(result.document["id"], result)
            seen_ids.update(new_results)
            for hit in self._read_hits(list(new_results.values())):
                if not filters.is_met_by(hit):
                    continue
                key = _build_merge_key(hit)
                best = hits_by_key.setdefault(key, hit)
                if best is not hit and MERGED_REASON not in best.why:
                    hits_by_key[key] = replace(best, why=(*best.why, MERGED_REASON))
        return list(islice(hits_by_key.values(), limit))

    def _read_hits(self, results: Sequence[RankedDocument]) -> Iterator[Hit]:
        """Yield the hits whose rows still exist."""
        neighbours = documents.read_documents(self._connection, [item.neighbour for item in results if item.neighbour])
        record_ids = [_format_document_id(result.document) for result in results]
        fetched = records.fetch_records(self._connection, self._home, record_ids)
        records_by_id = {record["id"]: record for record in fetched if "error" not in record}
        for record_id, result in zip(record_ids, results, strict=True):
            record = records_by_id.get(record_id)
            if record is None:
                continue
            copied_fields = ("id", "kind", "title", "at", "project", "session", "host", "type", "tokens")
            yield Hit(
                **{name: record[name] for name in copied_fields},
                text=cut_excerpt(record["text"], self._words),
                files=tuple(record["files"]),
                concepts=tuple(record["concepts"]),
                score=round(result.score, 4),
                why=tuple(self._explain(result, record["files"], neighbours.get(result.neighbour))),
            )

    def _explain(self, result: RankedDocument, files: Sequence[str], neighbour: dict[str, Any] | None) -> Iterator[str]:
        """Yield the reasons of a hit in a few words."""
        matched_files = [path for path in self._files if any(_is_path_end(path, file) for file in files)]
        if result.is_named:
            yield EXACT_ID_REASON
        if matched_files:
            yield f"file: {matched_files[0]}"
        if result.words:
            yield f"words: {', '.join(result.words[:6])}"
        if result.meaning >= ranking.MIN_MEANING:
            yield "meaning"
        if neighbour:
            yield f"neighbour of {_format_document_id(neighbour)}"

    def find_close_hits(self, filters: _Filters) -> list[Hit]:
        """Return hits without the filters, or else hits of words with the same beginning."""
        if filters != NO_FILTERS and self.query.strip():
            hits = self.load_hits(self.rank(NO_FILTERS, CLOSE_LIMIT), CLOSE_LIMIT, NO_FILTERS)
            if hits:
                return [replace(hit, why=(*hit.why, "without the filters")) for hit in hits]
        prefixes = [word[: max(len(word) // 2, 3)] for word in self._words if len(word) > 3]
        if not prefixes:
            return []
        match = documents.build_match_query(prefixes, by_prefix=True)
        ids = documents.find_matches(self._connection, match, self._scope, CLOSE_LIMIT)
        matches = documents.read_documents(self._connection, ids).values()
        results = [RankedDocument(document, 0.0, (), 0.0, 0) for document in matches]
        hits = self.load_hits(results, CLOSE_LIMIT, NO_FILTERS)
        return [replace(hit, why=("words that begin alike",)) for hit in hits]


def _apply_priors(result: RankedDocument, now: float, current_projects: Sequence[int]) -> RankedDocument:
    """Raise the scores of new records and of those from the current project, and weigh by kind."""
    document = result.document
    age_days = max(now - document["at"], 0.0) / _DAY_SECONDS
    factor = 1.0
    if document["at"]:
        factor += RECENCY_BONUS * 0.5 ** (age_days / RECENCY_HALF_LIFE_DAYS)
    if document["project"] in current_projects:
        factor += SAME_PROJECT_BONUS
    return replace(result, score=result.score * factor * DOCUMENT_KINDS[document["kind"]].weight)


def _parse_kinds(kinds: Sequence[str]) -> tuple[str, ...]:
    """Return the letters of kinds, which may be given by letter or by name."""
    letters_by_name = {name: kind.letter for kind in DOCUMENT_KINDS.values() for name in (kind.letter, kind.name)}
    for kind_name in kinds:
        if kind_name not in letters_by_name:
            choices = ", ".join(kind.name for kind in DOCUMENT_KINDS.values())
            raise UserError(f"there is no kind {kind_name[:40]!r}", f"take one of {choices}")
    return tuple(letters_by_name[kind_name] for kind_name in kinds)


def _extract_files(query: str) -> list[str]:
    """Return the files that a query names, by a path or a name with an extension."""
    words = [word.rstrip("./\\") for word in _PATH_PATTERN.findall(query) if len(word) <= MAX_FILE_CHARS]
    files = [word for word in dict.fromkeys(words) if squeeze_identifier(word) and _FILE_PATTERN.fullmatch(word)]
    return files[:MAX_FILES]


def _build_merge_key(hit: Hit) -> tuple[str, ...]:
    """Return a key that is equal for hits to merge; a hit that was requested by id is never merged."""
    if hit.kind not in MERGED_KINDS or EXACT_ID_REASON in hit.why:
        return (hit.id,)
    return (hit.kind, hit.project, hit.title, hit.text)


def _format_document_id(document: dict[str, Any]) -> str:
    return records.format_id(document["kind"], document["row"], document["name"])


def _is_path_end(path: str, file: str) -> bool:
    """Return whether one of two paths is the end of the other."""
    path_steps, file_steps = (
        [step for step in re.split(r"[/\\]+", text.lower()) if step not in ("", ".")] for text in (path, file)
    )
    shared = min(len(path_steps), len(file_steps))
    return bool(path_steps) and path_steps[-shared:] == file_steps[-shared:]


def cut_excerpt(text: str, words: Sequence[str], max_characters: int = EXCERPT_CHARS) -> str:
    """Return part of a text on one line, around the first word of the query."""
    line = " ".join(text.split())
    lowered = line.lower()
    positions = [lowered.find(word[: max(len(word) - 2, 4)]) for word in words]
    start = max(min((position for position in positions if position >= 0), default=0) - max_characters // 4, 0)
    start = line.rfind(" ", 0, start) + 1 if start else 0
    excerpt = line[start : start + max_characters]
    return f"{'…' if start else ''}{excerpt}{'…' if start + max_characters < len(line) else ''}"
