"""Have an agent or a model judge candidates. A judgement only proposes; a person decides."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

from hardwon import clock, settings
from hardwon.actions.candidates import replay_record
from hardwon.agents.transcript_files import build_step_exclusion
from hardwon.distil import llm
from hardwon.distil.llm.calls import ask_model, get_caps
from hardwon.errors import UserError
from hardwon.lessons import review_queue
from hardwon.mining import judge
from hardwon.store import candidates
from hardwon.store.candidates import Judgement
from hardwon.store.db import Connection

MAX_CANDIDATE_CHARS, MAX_TOTAL_CHARS = 12_000, 80_000  # characters given to a reader


def build_reader_bundle(home: str, connection: Connection, limit: int) -> dict[str, Any]:
    """Return the best candidates with their episodes and the instructions for a reader."""
    waiting = review_queue.list_waiting(home, connection)
    chosen = waiting[:limit]
    bundle = judge.build_bundle(
        [(candidate, candidates.list_episodes(connection, candidate.signature, limit=2)) for candidate in chosen],
        max_candidate_chars=MAX_CANDIDATE_CHARS,
        max_bundle_chars=MAX_TOTAL_CHARS,
        is_excluded=build_step_exclusion(home, settings.resolve_settings(settings.read_config(home))),
    )
    judgements = candidates.list_latest_judgements(connection)
    for candidate, entry in zip(chosen, bundle["candidates"], strict=False):
        replay = replay_record(connection, candidate.record)
        entry["replay"] = None
        if replay:
            entry["replay"] = {name: getattr(replay, name) for name in ("fires", "failed", "fine", "refused")}
        judgement = judgements.get(candidate.number)
        entry["judgement"] = judgement and {"verdict": judgement.verdict, "void": judgement.void}
    bundle["leftOut"] += len(waiting) - len(chosen)
    return bundle


def store_judgements(home: str, connection: Connection, text: str, reader: str) -> tuple[list[Judgement], list[int]]:
    """Check and store what a reader sent; return the judgements, and the numbers that no candidate has."""
    is_excluded = build_step_exclusion(home, settings.resolve_settings(settings.read_config(home)))
    judgements: list[Judgement] = []
    unknown_numbers: list[int] = []
    for submission in judge.parse_judgements(text):
        candidate = review_queue.find_in_queue(home, connection, str(submission.candidate))
        if candidate is None:
            unknown_numbers.append(submission.candidate)
            continue
        episodes = candidates.list_episodes(connection, candidate.signature)
        void = judge.check_judgement(submission, episodes, is_excluded)
        judgements.append(Judgement(candidate.number, clock.now(), reader, submission.verdict, submission.body, void))
    candidates.store_judgements(connection, judgements)
    return judgements, unknown_numbers


def ask_model_to_judge(home: str, connection: Connection, limit: int) -> Iterator[Judgement]:
    """Yield a model's judgement of each candidate that nobody has judged, stored as it comes."""
    values = settings.resolve_settings(settings.read_config(home))
    provider = llm.provider(values, os.environ)
    if provider is None:
        raise UserError("no model is turned on: llm.provider is none", "hardwon config set llm.provider claude")
    judged_numbers = candidates.list_latest_judgements(connection).keys()
    waiting = [item for item in review_queue.list_waiting(home, connection) if item.number not in judged_numbers]

    def ask_question(prompt: str) -> str:
        question = llm.Question("You judge candidates. Answer with JSON alone.", prompt, "judge")
        try:
            return ask_model(connection, provider, question, lambda answer: answer.text, caps=get_caps(values))
        except (llm.Refused, llm.Broken):
            return ""  # stored as a void judgement, so that the candidate is not paid for again

    reader = f"{provider.name} {provider.model}"
    judgements = judge.judge_candidates(
        [(candidate, candidates.list_episodes(connection, candidate.signature)) for candidate in waiting[:limit]],
        ask_question,
        max_candidate_chars=MAX_CANDIDATE_CHARS,
        is_excluded=build_step_exclusion(home, values),
        now=clock.now(),
        reader=reader,
    )
    try:
        for judgement in judgements:
            candidates.store_judgements(connection, [judgement])
            yield judgement
    except llm.Failed as error:
        raise UserError(f"{reader} stopped: {error.reason}", "hardwon cost; earlier judgements are kept") from None
