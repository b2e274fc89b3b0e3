"""Questions to past sessions with known answers, over imported transcripts: a part of `make bench-recall`.

`questions.md` has the form of the questions. The transcripts are imported, distilled and indexed by the product itself;
then the sessions of each repository are put into one project, because they come from many people's machines.

Beside the product, the same prompts, last messages and calls are searched by a naive FTS5 query, which is all words
or-ed and ranked by BM25, and by grep, which counts how many of the words a record contains.

A hit counts as the answer if it is one of the records that the question names, or a record of the same session with all
of the question's answer terms: an answer is often given more than once, in a call, an answer and a summary. A hit of
last words shows the prompt that they answer. If that is all of the prompt, it counts as the prompt as well: the product
leaves out the hit of such a prompt.
"""

from __future__ import annotations

import csv
import json
import os
import re
import sqlite3
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from hardwon.search import indexing, records, words
from hardwon.search.search import search_records
from hardwon.search.words import STOP_WORDS
from hardwon.store import db, events, jobs
from hardwon.store.db import parse_json_or_text
from hardwon.store.documents import DOCUMENT_KINDS, read_source_rows

CUTS = (1, 5, 10)
LIMIT = 10
DAY = 86_400.0
ASKED_AFTER_DAYS = 30.0  # after the last session of the corpus
PROBE_CHARS = 80  # of a transcript line, by which its record is recognised
Ask = Callable[["Question"], Sequence[frozenset[str]]]  # the records that each hit shows, best hit first


@dataclass(frozen=True)
class Question:
    """A question, and the ids of the records that answer it and of all records of its session.

    `shared_words` is how many words of the question are in the record that answers it. `kind` is that of the line that
    answers best.
    """

    id: str
    text: str
    style: int
    is_answerable: bool
    project: str
    answers: frozenset[str]
    session_records: frozenset[str]
    shared_words: int
    kind: str


@dataclass(frozen=True)
class Record:
    """A stored record; `text` has single spaces and is in lower case."""

    id: str
    project: str
    session: int
    text: str


@dataclass(frozen=True)
class Score:
    """Shares of the answerable questions, by cut, and of the unanswerable ones that got nothing."""

    answer: dict[int, float]
    session: dict[int, float]
    abstained: float
    answered_nothing: float  # answerable questions that got nothing


def import_corpus(home: str, corpus: str) -> None:
    """Import and distil the transcripts, put the sessions of a repository into one project, and index them."""
    environment = {**os.environ, "HARDWON_HOME": home, "HOME": os.path.join(home, "user")}
    run = [sys.executable, "-m"]
    subprocess.run(
        [*run, "hardwon", "import", "transcripts", "--path", corpus, "--json"],
        env=environment,
        check=True,
        stdout=subprocess.DEVNULL,
    )
    with db.open(home) as connection:
        _group_by_repository(connection, corpus)
    while (code := subprocess.run([*run, "hardwon.worker.job_process", jobs.DISTIL], env=environment).returncode) != 0:
        if code != jobs.EXIT_UNFINISHED:
            raise RuntimeError(f"distilling ended with {code}")


def _group_by_repository(connection: db.Connection, corpus: str) -> None:
    with open(os.path.join(corpus, "INDEX.tsv"), encoding="utf-8") as file:
        repositories = {row["file"]: row["repo"] for row in csv.DictReader(file, delimiter="\t")}
    with db.transaction(connection):
        for number, transcript in connection.execute("select id, transcript from sessions").fetchall():
            repository = repositories.get(os.path.relpath(transcript, corpus))
            if repository:
                project = events.find_or_create_project(connection, f"/corpus/{repository}", "", 0.0)
                connection.execute("update sessions set project = ? where id = ?", (project, number))


def read_records(connection: db.Connection, letters: str) -> list[Record]:
    """Return every record of these kinds as the product shows it."""
    stored_records = []
    for letter in letters:
        kind = DOCUMENT_KINDS[letter]
        numbers = [number for (number,) in connection.execute(f"select id from {kind.table}")]
        for row in read_source_rows(connection, kind, numbers):
            record = records.build_record(kind, row, with_details=False)
            text = _normalize(f"{record['title']}\n{record['text']}")
            stored_records.append(Record(f"{letter}{row['id']}", row["project"], row["session_number"], text))
    return stored_records


def read_questions(path: str, corpus: str, stored_records: Sequence[Record]) -> list[Question]:
    by_project: dict[str, list[Record]] = {}
    for record in stored_records:
        by_project.setdefault(record.project, []).append(record)
    questions = []
    with open(path, encoding="utf-8") as file:
        for row in map(json.loads, file):
            candidates = by_project.get(f"/corpus/{row['project']}", [])
            named_records = _find_named_records(corpus, row, candidates) if row["answerable"] else []
            sessions = {record.session for record in named_records}
            session_records = [record for record in candidates if record.session in sessions]
            repeating = [record for record in session_records if _has_terms(record.text, row["answer_terms"])]
            weights = dict.fromkeys(words.split_query(row["question"]), 1.0)
            questions.append(
                Question(
                    row["id"],
                    row["question"],
                    row["style"],
                    row["answerable"],
                    f"/corpus/{row['project']}",
                    frozenset(record.id for record in [*named_records, *repeating]),
                    frozenset(record.id for record in session_records),
                    max((len(words.match_text(record.text, "", weights).words) for record in named_records), default=0),
                    row["kind"] or "",
                )
            )
    return questions


def _find_named_records(corpus: str, row: dict[str, Any], candidates: Sequence[Record]) -> list[Record]:
    """Return the stored records of the lines that answer: those that contain the beginning of the line's text.

    Codex writes lines of its own before the output of a command, which are not stored. So if no record has the
    beginning, those are taken that contain the text around the first answer term.
    """
    with open(os.path.join(corpus, row["file"]), encoding="utf-8", errors="replace") as file:
        lines = file.read().split("\n")
    first_term = _normalize(row["answer_terms"][0])
    texts = [_normalize(text) for number in row["lines"] for text in _list_texts(lines[number - 1])]
    answering_texts = [text for text in texts if _has_terms(text, row["answer_terms"])]
    beginnings = [text[:PROBE_CHARS] for text in answering_texts]
    passages = [_cut_passage(text, text.index(first_term)) for text in answering_texts]
    for probes in (beginnings, passages):
        named_records = [
            record
            for record in candidates
            if first_term in record.text and any(probe in record.text for probe in probes if probe)
        ]
        if named_records:
            return named_records
    return []


def _cut_passage(text: str, position: int) -> str:
    begin = max(position - PROBE_CHARS // 2, 0)
    return text[begin : begin + PROBE_CHARS]


def _list_texts(line: str) -> Iterator[str]:
    """Yield the texts in a line of a transcript; a line of Gemini's is a part of one JSON document."""
    try:
        value = json.loads(line)
    except ValueError:
        yield re.sub(r'^\s*"\w+":\s*"|",?\s*$', "", line).encode().decode("unicode_escape", "replace")
        return
    waiting = [value]
    while waiting:
        item = waiting.pop()
        if isinstance(item, str):
            yield item
            # The arguments of Codex's calls are JSON inside of JSON.
            inner = parse_json_or_text(item) if item.startswith("{") else None
            if isinstance(inner, dict):
                waiting.append(inner)
        elif isinstance(item, dict):
            waiting += item.values()
        elif isinstance(item, list):
            waiting += item


def _has_terms(text: str, terms: Sequence[str]) -> bool:
    return all(_normalize(term) in text for term in terms)


def _normalize(text: str) -> str:
    return " ".join(text.lower().split())


def ask_product(connection: db.Connection, home: str) -> Ask:
    model = indexing.load_model_or_none()
    newest = connection.execute("select max(at) from prompts").fetchone()[0]
    rows = connection.execute(
        "select prompts.id, sessions.session, prompt from prompts join sessions on sessions.id = prompts.session"
    )
    prompt_ids = {(session, text): f"P{number}" for number, session, text in rows}

    def ask(question: Question) -> list[frozenset[str]]:
        result = search_records(
            connection,
            home,
            question.text,
            project=question.project,
            limit=LIMIT,
            now=newest + ASKED_AFTER_DAYS * DAY,
            model=model,
        )
        return [frozenset([hit.id, prompt_ids.get((hit.session, hit.asked), hit.id)]) for hit in result.hits]

    return ask


def ask_fts5(stored_records: Sequence[Record]) -> Ask:
    """SQLite's own ranking over the same records: Porter stems, words or-ed, without stop words."""
    connection = sqlite3.connect(":memory:")
    connection.execute("create virtual table said using fts5 (text, project unindexed, tokenize = 'porter unicode61')")
    rows = [(record.text, record.project) for record in stored_records]
    connection.executemany("insert into said (text, project) values (?, ?)", rows)

    def ask(question: Question) -> list[frozenset[str]]:
        match = " OR ".join(f'"{word}"' for word in _list_words(question.text))
        found_rows = connection.execute(
            "select rowid from said where said match ? and project = ? order by rank limit ?",
            (match, question.project, LIMIT),
        )
        return [frozenset([stored_records[row - 1].id]) for (row,) in found_rows]

    return ask


def ask_grep(stored_records: Sequence[Record]) -> Ask:
    """Records with the most words of the question; among equals the shortest, which is what a person reads first."""

    def ask(question: Question) -> list[frozenset[str]]:
        words = _list_words(question.text)
        counts = Counter[Record]()
        for record in stored_records:
            if record.project == question.project:
                counts[record] = sum(word in record.text for word in words)
        ordered = sorted(
            (record for record in counts if counts[record]), key=lambda item: (-counts[item], len(item.text))
        )
        return [frozenset([record.id]) for record in ordered[:LIMIT]]

    return ask


def _list_words(text: str) -> list[str]:
    return [word for word in re.findall(r"\w+", text.lower()) if word not in STOP_WORDS]


def measure(questions: Sequence[Question], ask: Ask) -> Score:
    answer, session = Counter[int](), Counter[int]()
    abstained = answered_nothing = 0
    answerable = [question for question in questions if question.is_answerable]
    unanswerable = [question for question in questions if not question.is_answerable]
    for question in answerable:
        hits = ask(question)
        answered_nothing += not hits
        for cut in CUTS:
            first_ids = frozenset[str]().union(*hits[:cut])
            answer[cut] += not question.answers.isdisjoint(first_ids)
            session[cut] += not question.session_records.isdisjoint(first_ids)
    for question in unanswerable:
        abstained += not ask(question)
    total = max(len(answerable), 1)
    return Score(
        {cut: answer[cut] / total for cut in CUTS},
        {cut: session[cut] / total for cut in CUTS},
        abstained / max(len(unanswerable), 1),
        answered_nothing / total,
    )


def print_scores(scores: dict[str, Score]) -> None:
    header = "".join(f"{f'{name}@{cut}':>11}" for name in ("answer", "session") for cut in CUTS)
    print(f"{'':8}{header}  abstained  nothing")
    for name, score in scores.items():
        shares = [shares[cut] for shares in (score.answer, score.session) for cut in CUTS]
        cells = "".join(f"{share:11.3f}" for share in shares)
        print(f"{name:8}{cells}  {score.abstained:9.3f}  {score.answered_nothing:7.3f}")
