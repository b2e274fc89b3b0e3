"""Search records, in one project or in all of them.

Matching words count most; vectors and neighbours add to them, and new records and those of the current project score a
little higher. Records of a file that the query names score higher as well. A query of ids gives those records. Words
that name a time, such as "in October", are a filter. There is no query syntax, and there are no phrases.

If no record has enough of the query, the result is empty: a search that always finds something is of no use to a person
who wants to know whether something was done.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from heapq import merge
from itertools import islice
from typing import Any

from hardwon.errors import UserError
from hardwon.search import passages, query_scope, ranking, records, vectors
from hardwon.search.ranking import RankedRecord
from hardwon.search.words import (
    MAX_WHOLE_CHARS,
    build_filter_word,
    cut_excerpt,
    extract_words,
    find_marks,
    find_whole_names,
    list_names,
    list_path_ends,
    split_query,
    squeeze_identifier,
    strip_contractions,
)
from hardwon.store import documents
from hardwon.store.db import Connection
from hardwon.store.documents import DOCUMENT_KINDS, EVERYWHERE
from hardwon.text.excerpts import ELLIPSIS
from hardwon.types import frozen, replace

_RECENCY_HALF_LIFE_DAYS = 90.0
_RECENCY_BONUS = 0.1
_SAME_PROJECT_BONUS = 0.1
# A named file lifts a record; with 1.0 a question was answered behind 60 records that had only touched its file.
_NAMED_FILE_BONUS = 0.4
_ONLY_FILE_BONUS = 2.0  # the query has nothing but the file
# A query is answered if some record is so strong by its words and its vector; 1 is about all words close together.
# Chosen on the tuning questions, also asked in wrong projects: higher values lose answers, lower ones answer what
# nobody ever said. The highest is for queries with a name that no record has: "Did we try Kafka for streaming?" is not
# about streaming. The middle one is for a word that neither the model nor a record has: it may be a name in lower case.
_MIN_STRENGTH = 0.66
_MIN_STRENGTH_WITHOUT_WORD = 0.8
_MIN_STRENGTH_WITHOUT_NAME = 1.0
_MIN_MEANING = 0.45  # similarity of a hit that has no word of the query
# At which a vector alone answers, if no record has the words. Among many records some vector reaches 0.6 for any query.
_MIN_MEANING_AMONG_MANY = 0.65
_MANY_RECORDS = 10
_NO_WORDS_COVERAGE = 0.1
_MIN_HIT_SHARE = 0.3  # of the best score: lower ones share only a common word with the query
# A record that has only the words of the query tells nothing new and counts half, one with ten more 92 %. Not so what a
# person approved, which is short on purpose.
_FEW_WORDS = 1
_ALIKE_SHARE = 0.8  # of the words of two records together, at which one stands for both
_COMPARED_CHARS = 1_000
_COMPARED_TITLE_CHARS = 40
_MAX_FILES, _MAX_FILE_CHARS = 20, 300  # in a query
_MAX_EXAMINED = 5_000  # documents whose filter words match
_MAX_QUERY_CHARS = 4000
_EXACT_ID_REASON = "exact id"
LEXICAL_ONLY_NOTE = "lexical only: the model is absent"
_DAY_SECONDS = 86_400.0
# The first hits are read, the others are looked over. With the same room for each of ten hits, fewer excerpts had the
# answer.
_LONG_EXCERPTS, _LONG_EXCERPT_CHARS, _SHORT_EXCERPT_CHARS = 3, 480, 220
_PATH_PATTERN = re.compile(r"[\w.@~+/\\-]+")
_FILE_PATTERN = re.compile(r".*[/\\].*|[\w@~+-][\w.@~+-]*\.[A-Za-z]\w{0,7}")


@frozen
class Hit:
    """A matching record: `text` is an excerpt, `marks` where the query's words stand in it, `why` the reasons.

    `tokens` is the size of the full record, `alike` how many other records say nearly the same, `coverage` the share of
    the weight of the query's words that the record has, and `asked` the prompt that an agent's last words answer.
    """

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
    marks: tuple[tuple[int, int], ...] = ()
    alike: int = 0
    coverage: float = 0.0
    asked: str = ""


@frozen
class SearchResult:
    """Hits, best first; the filter that words of the query became; and a note for the person.

    `unmatched` are words of the query that nothing in the index has, if there are no hits or hits in spite of them.
    """

    hits: tuple[Hit, ...]
    period: str = ""
    note: str = ""
    unmatched: tuple[str, ...] = ()


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

    def is_met_by(self, record: dict[str, Any]) -> bool:
        """Return whether a record really passes; filter words only preselect, since different values may share one."""
        if self.kinds and record["id"][0] not in self.kinds:  # an id begins with the letter of its kind
            return False
        if self.record_type and self.record_type.lower() != record["type"].lower():
            return False
        if self.host and self.host.lower() != record["host"].lower():
            return False
        if self.concept and self.concept.lower() not in map(str.lower, record["concepts"]):
            return False
        if self.file and not any(_is_path_end(self.file, file) for file in record["files"]):
            return False
        if self.until and record["at"] >= self.until:
            return False
        return bool(record["at"] >= self.since)


_NO_FILTERS = _Filters(kinds=(), record_type="", concept="", file="", host="", since=0.0, until=0.0)


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
    model: vectors.Model | None = None,
) -> SearchResult:
    """Return the hits of a query, best first; without a query, the latest records that pass the filters.

    `project` is a path or a name and excludes all others; without it records of `current_project` score higher.
    """
    query = strip_contractions(query[:_MAX_QUERY_CHARS])
    current_projects = documents.find_project_numbers(connection, current_project) if current_project else []
    filters = _Filters(_parse_kinds(kinds), type, concept, file, host, since, until)
    note = "" if model is not None else LEXICAL_ONLY_NOTE
    undated_query, period = query_scope.extract_period(query, now)
    if period and not since and not until:
        dated_filters = replace(filters, since=period.since, until=period.until)
        search = _Search(connection, home, undated_query, project, model, dated_filters)
        if hits := search.run(limit, now, current_projects):
            return SearchResult(tuple(hits), period.describe(), note)
        # A date may be of what a text tells instead of when it was told, so what matches at other times is shown.
        note = f"nothing matches {period.describe()}: these are from other times"
        query = undated_query
    search = _Search(connection, home, query, project, model, filters)
    hits = search.run(limit, now, current_projects)
    is_complete = bool(hits) and not search.lacks_words
    unmatched = () if is_complete else tuple(search.list_unmatched_words())
    return SearchResult(tuple(hits), "", note if hits else "", unmatched)


class _Search:
    """One query, its scope and its filters; `lacks_words` is set if no candidate has some word that it needs."""

    def __init__(
        self,
        connection: Connection,
        home: str,
        query: str,
        project: str,
        model: vectors.Model | None,
        filters: _Filters,
    ) -> None:
        self._connection = connection
        self._home = home
        self._model = model
        self._filters = filters
        self._query = query
        self._words = split_query(query)
        self._files = _extract_files(query)
        vector = model.embed([query])[0] if model is not None else None
        self._topic = passages.Topic(tuple(self._words), find_whole_names(query), model, vector)
        self._marked_words = [*self._words, *dict.fromkeys(find_whole_names(query).values())]
        self.lacks_words = False
        self._projects = documents.find_project_numbers(connection, project)
        self._scope = documents.build_scope(self._projects) if project else documents.FULL_SCOPE
        if filters.since or filters.until:
            self._scope = documents.build_scope(self._projects, filters.since, filters.until)

    def run(self, limit: int, now: float, current_projects: Sequence[int]) -> list[Hit]:
        """Return the hits: the latest records for a query without words, else those that it names by id or answers."""
        if not extract_words(self._query, is_query=True):
            return self._build_hits(self._iter_latest(limit), limit)
        results = self._find_by_id()
        if not results:
            results = self._rank(limit, now, current_projects)
        return self._build_hits(results, limit)

    def _rank(self, limit: int, now: float, current_projects: Sequence[int]) -> list[RankedRecord]:
        """Return the records that answer the query, best first; none if no record has enough of it."""
        ranked = ranking.rank_records(
            self._connection,
            self._home,
            self._query,
            projects=self._projects,
            scope=self._scope,
            filters=self._filters.build_word_groups(),
            model=self._model,
            limit=limit,
        )
        ranked = [item for item in ranked if self._filters.is_met_by(item.record)]
        if not self._is_answered(ranked):
            return []
        ranked = [replace(item, score=self._apply_priors(item, now, current_projects)) for item in ranked]
        min_score = _MIN_HIT_SHARE * max(item.score for item in ranked)
        ranked = [item for item in ranked if item.score >= min_score and _has_evidence(item)]
        # Only now, because a record is no hit for being in the session of one.
        ranked = ranking.add_session_shares(ranked)
        ranked.sort(key=lambda item: (-item.score, -item.document["id"]))
        return _drop_repeated_prompts(self._keep_named(ranked))

    def _keep_named(self, ranked: list[RankedRecord]) -> list[RankedRecord]:
        """If the query is only a name such as `--plan-only`, return the records that have it; all if none has it."""
        query_words = self._query.split()
        if any(len(split_query(word)) < 2 for word in query_words):
            return ranked
        names = [word.strip("-.,:()`'\"").lower() for word in query_words]
        records_with_names = []
        for item in ranked:
            text = f"{item.record['text']} {' '.join(item.record['files'])}".lower()
            if all(name in text for name in names):
                records_with_names.append(item)
        return records_with_names or ranked

    def _is_answered(self, ranked: Sequence[RankedRecord]) -> bool:
        """Return whether the records answer the query, so that they are shown as hits.

        One must be strong enough, and stronger if they lack a name or an unusual word of the query. Meaning alone
        suffices only if none has enough of the query's words and no word is lacking.
        """
        lacks_name = self._lacks_name(ranked)
        self.lacks_words = lacks_name or self._lacks_unusual_word(ranked)
        if lacks_name:
            min_strength = _MIN_STRENGTH_WITHOUT_NAME
        elif self.lacks_words:
            min_strength = _MIN_STRENGTH_WITHOUT_WORD
        else:
            min_strength = _MIN_STRENGTH
        if any(item.strength >= min_strength for item in ranked):
            return True
        has_words = any(item.match.coverage >= _NO_WORDS_COVERAGE for item in ranked)
        min_meaning = _MIN_MEANING if len(ranked) < _MANY_RECORDS else _MIN_MEANING_AMONG_MANY
        has_meaning = any(item.meaning >= min_meaning for item in ranked)
        return has_meaning and not has_words and not self.lacks_words

    def _lacks_name(self, ranked: Sequence[RankedRecord]) -> bool:
        """Return whether the query has a name that no candidate has."""
        for name in list_names(self._query):
            if records.parse_id(name):
                continue
            # Records may have `session`, `state` and `dir`, but not `getSessionStateDir`.
            is_compound = len(split_query(name)) > 1
            if not any(_has_name(item, name) for item in ranked) or (is_compound and not self._is_indexed(name)):
                return True
        return False

    def _lacks_unusual_word(self, ranked: Sequence[RankedRecord]) -> bool:
        """Return whether the query has a word that neither a candidate nor the model has."""
        if self._model is None:
            return False
        found_words: set[str] = set()
        found_words.update(*(item.match.words for item in ranked))
        for word in self._words:
            is_plain = word.isascii() and word.isalpha()
            if is_plain and word not in found_words and not self._model.has_word(word):
                return True
        return False

    def list_unmatched_words(self) -> list[str]:
        """Return the words and names of the query that no record in scope has, as they were typed."""
        searched_words = set(self._words)
        typed_words = dict.fromkeys(re.findall(r"\w+", self._query, re.ASCII))
        return [
            word
            for word in typed_words
            if not searched_words.isdisjoint(split_query(word)) and not self._is_indexed(word)
        ]

    def _is_indexed(self, name: str) -> bool:
        """Return whether a record in scope has this word, or this name as a whole."""
        match = documents.build_match_query([squeeze_identifier(name)])
        return bool(documents.find_matches(self._connection, match, self._scope, limit=1))

    def _apply_priors(self, item: RankedRecord, now: float, current_projects: Sequence[int]) -> float:
        """Return the score: higher for a new record, the current project and a named file, lower if it says nothing."""
        document = item.document
        factor = 1.0
        if document["at"]:
            age_days = max(now - document["at"], 0.0) / _DAY_SECONDS
            factor += _RECENCY_BONUS * 0.5 ** (age_days / _RECENCY_HALF_LIFE_DAYS)
        if document["project"] in current_projects:
            factor += _SAME_PROJECT_BONUS
        if self._find_named_file(item.record):
            factor += _ONLY_FILE_BONUS if self._is_only_files() else _NAMED_FILE_BONUS
        if DOCUMENT_KINDS[document["kind"]].table:
            # Counted roughly, because splitting every candidate into index words would take half of a search's time.
            new_words = max(len(set(item.record["text"][:400].split())) - len(item.match.words), 0) + 1
            factor *= new_words / (new_words + _FEW_WORDS)
        return item.score * factor

    def _find_named_file(self, record: dict[str, Any]) -> str:
        """Return the file that the query names and the record is about, or nothing."""
        for path in self._files:
            if any(_is_path_end(path, file) for file in record["files"]):
                return path
        return ""

    def _is_only_files(self) -> bool:
        return bool(self._files) and not set(self._words).difference(split_query(" ".join(self._files)))

    def _iter_latest(self, limit: int) -> Iterator[RankedRecord]:
        """Yield the records that pass the filters, latest first; nothing without filters."""
        if self._filters == _NO_FILTERS:
            return
        match = documents.build_match_query(*self._filters.build_word_groups())
        until = self._filters.until or float("inf")
        streams = [
            documents.iter_latest_matches(self._connection, number, match, self._filters.since, until)
            for number in dict.fromkeys([*self._projects, EVERYWHERE])
        ]
        latest = islice(merge(*streams, key=lambda item: (-item["at"], -item["id"])), _MAX_EXAMINED)
        while portion := list(islice(latest, 2 * limit)):
            for item in self._load(portion):
                if self._filters.is_met_by(item.record):
                    yield item

    def _find_by_id(self) -> list[RankedRecord]:
        """Return the documents in scope that the query names, if it consists only of ids."""
        parsed_ids = [records.parse_id(record_id) for record_id in re.split(r"[\s,]+", self._query.strip(" ,"))]
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
        return [item for item in self._load(in_scope, score=1.0) if self._filters.is_met_by(item.record)]

    def _load(self, found_documents: Sequence[dict[str, Any]], score: float = 0.0) -> list[RankedRecord]:
        """Load the records of documents; those that were deleted meanwhile are left out."""
        loaded = ranking.load_records(
            self._connection, self._home, {document["id"]: document for document in found_documents}
        )
        neighbours = documents.find_neighbours(self._connection, list(loaded))
        return [
            RankedRecord(document, loaded[document["id"]], score, asked=ranking.find_asked(document, neighbours))
            for document in found_documents
            if document["id"] in loaded
        ]

    def _build_hits(self, results: Iterable[RankedRecord], limit: int) -> list[Hit]:
        """Return the first results; a record that says nearly the same as one before it is only counted there."""
        shown: list[tuple[RankedRecord, frozenset[str]]] = []
        alike_counts: list[int] = []
        for result in results:
            words = _list_compared_words(result.record["text"])
            for position, (earlier, earlier_words) in enumerate(shown):
                if not self._is_named_by_id(result) and _is_alike(earlier, earlier_words, result, words):
                    alike_counts[position] += 1
                    break
            else:
                if len(shown) == limit:
                    break
                shown.append((result, words))
                alike_counts.append(0)
        givers = documents.read_documents(self._connection, [result.neighbour for result, _ in shown])
        prompts = self._load_prompts([result.asked for result, _ in shown if result.asked])
        hits = []
        for position, ((result, _), alike_count) in enumerate(zip(shown, alike_counts, strict=True)):
            excerpt_chars = _LONG_EXCERPT_CHARS if position < _LONG_EXCERPTS else _SHORT_EXCERPT_CHARS
            hit = self._build_hit(result, alike_count, givers.get(result.neighbour), excerpt_chars)
            hits.append(replace(hit, asked=prompts.get(result.asked, "")))
        return hits

    def _load_prompts(self, document_ids: Sequence[int]) -> dict[int, str]:
        """Return the titles of these prompts by their documents."""
        found_documents = documents.read_documents(self._connection, document_ids)
        prompts = ranking.load_records(self._connection, self._home, found_documents)
        return {document_id: prompt["title"] for document_id, prompt in prompts.items()}

    def _is_named_by_id(self, result: RankedRecord) -> bool:
        return result.score == 1.0 and not result.match.words

    def _build_hit(
        self, result: RankedRecord, alike_count: int, neighbour: dict[str, Any] | None, excerpt_chars: int
    ) -> Hit:
        """Build the hit that is shown for a record: the passage that answers best, and why it was found."""
        record = result.record
        text = records.strip_repeated_subject(record)
        start = passages.find_passage(text, self._topic, excerpt_chars) if len(text) > MAX_WHOLE_CHARS else 0
        is_markdown = not records.is_call(record["kind"], record["type"])
        excerpt = cut_excerpt(text, start, excerpt_chars, is_markdown=is_markdown)
        copied_fields = ("id", "kind", "title", "at", "project", "session", "host", "type", "tokens")
        return Hit(
            **{name: record[name] for name in copied_fields},
            text=excerpt,
            files=tuple(record["files"]),
            concepts=tuple(record["concepts"]),
            score=round(result.score, 4),
            why=tuple(self._explain(result, neighbour)),
            marks=tuple(find_marks(excerpt, self._marked_words)),
            alike=alike_count,
            coverage=round(result.match.coverage, 3),
        )

    def _explain(self, result: RankedRecord, neighbour: dict[str, Any] | None) -> Iterator[str]:
        """Yield the reasons of a hit in a few words."""
        if self._is_named_by_id(result):
            yield _EXACT_ID_REASON
        if path := self._find_named_file(result.record):
            yield f"file: {path}"
        if result.match.words:
            yield f"words: {', '.join(result.match.words[:6])}"
        if result.meaning >= _MIN_MEANING:
            yield "meaning"
        if neighbour:
            yield f"neighbour of {records.format_id(neighbour['kind'], neighbour['row'], neighbour['name'])}"


def describe_hit(hit: Hit) -> tuple[str, str]:
    """Return what a hit is, such as `prompt` or `Bash (failed)`, and its title; empty if its other parts tell as much.

    The title of an answer is its beginning, so the prompt that it answers tells more.
    """
    label = records.get_type_label(hit.kind, hit.type)
    title = hit.title
    if records.is_call(hit.kind, hit.type):
        label, title = records.split_call_title(hit.title)
    excerpt_start = " ".join(hit.text.split())[:_COMPARED_TITLE_CHARS]
    title_start = title.removesuffix(ELLIPSIS).rstrip()[:_COMPARED_TITLE_CHARS]
    is_told = bool(hit.asked) or excerpt_start.startswith(title_start)
    return label, "" if is_told else title


def _has_evidence(item: RankedRecord) -> bool:
    """Return whether a record, or one beside it, has a word of the query, or means nearly the same.

    Where few records are stored, even the nearest vectors are far away.
    """
    return item.match.score > 0 or item.neighbour != 0 or item.meaning >= _MIN_MEANING


def _drop_repeated_prompts(ranked: Sequence[RankedRecord]) -> list[RankedRecord]:
    """Leave out a prompt after its answer if its title is all of it: a hit of the answer shows that title."""
    results: list[RankedRecord] = []
    shown_prompts: set[int] = set()  # documents of prompts whose answer is a result
    for item in ranked:
        is_repeated = item.document["id"] in shown_prompts and item.record["text"] == item.record["title"]
        if not is_repeated:
            results.append(item)
            shown_prompts.add(item.asked)
    return results


def _has_name(item: RankedRecord, name: str) -> bool:
    """Return whether a record has every part of a name, though perhaps apart."""
    return set(split_query(name)).issubset(item.match.words)


def _is_alike(
    earlier: RankedRecord, earlier_words: frozenset[str], later: RankedRecord, later_words: frozenset[str]
) -> bool:
    """Return whether two records say nearly the same: last words and the digest of their turn, or equal words."""
    if later.record["kind"] == "observation" and earlier.record["kind"] == "event":
        is_same_session = bool(earlier.document["session"] == later.document["session"])
        return is_same_session and bool(earlier.record["turn"] == later.record["turn"])
    if earlier.record["kind"] != later.record["kind"] or earlier.document["project"] != later.document["project"]:
        return False
    if min(len(earlier_words), len(later_words)) < _ALIKE_SHARE * max(len(earlier_words), len(later_words)):
        return False
    return len(earlier_words & later_words) >= _ALIKE_SHARE * len(earlier_words | later_words)


def _list_compared_words(text: str) -> frozenset[str]:
    """Return the words of a text's beginning and end: two prompts may paste the same log before different questions."""
    if len(text) > 2 * _COMPARED_CHARS:
        text = f"{text[:_COMPARED_CHARS]} {text[-_COMPARED_CHARS:]}"
    return frozenset(text.lower().split())


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
    words = [word.rstrip("./\\") for word in _PATH_PATTERN.findall(query) if len(word) <= _MAX_FILE_CHARS]
    files = [word for word in dict.fromkeys(words) if squeeze_identifier(word) and _FILE_PATTERN.fullmatch(word)]
    return files[:_MAX_FILES]


def _is_path_end(path: str, file: str) -> bool:
    """Return whether one of two paths is the end of the other."""
    path_steps = _split_path(path)
    file_steps = _split_path(file)
    shared = min(len(path_steps), len(file_steps))
    return bool(path_steps) and path_steps[-shared:] == file_steps[-shared:]


def _split_path(path: str) -> list[str]:
    return [step for step in re.split(r"[/\\]+", path.lower()) if step not in ("", ".")]
