"""Have an agent or a model judge candidates. A judgement only proposes; a person decides."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from hardwon import clock, settings
from hardwon.actions.lessons import replay_record
from hardwon.agents.transcript_files import build_step_exclusion
from hardwon.distil import llm
from hardwon.distil.llm.calls import ask_model, get_caps
from hardwon.errors import UserError
from hardwon.lessons import review_queue
from hardwon.mining import gate, judge, mined_episodes, proposals
from hardwon.mining.episodes import NEVER_LESSONS
from hardwon.mining.proposals import OPEN
from hardwon.store import candidates
from hardwon.store.candidates import Candidate, Judgement
from hardwon.store.db import Connection, transaction
from hardwon.types import MINED_TIER, TAG_TIER, MinedEpisode, replace

_MAX_CANDIDATE_CHARS, _MAX_TOTAL_CHARS = 12_000, 80_000  # characters given to a reader


def build_reader_bundle(home: str, connection: Connection, limit: int) -> dict[str, Any]:
    """Return the best candidates with their episodes and the instructions for a reader.

    After the proposals come repeated failures that the rules made no lesson of, without those that somebody judged.
    """
    proposed = review_queue.list_waiting(home, connection)
    failures = _list_open_failures(home, connection)
    # Up to half of a batch is for failures, or a long list of proposals would keep them from ever being read.
    failure_room = max(limit // 2, limit - len(proposed))
    chosen_failures = failures[:failure_room]
    chosen = proposed[: limit - len(chosen_failures)] + chosen_failures
    bundle = judge.build_bundle(
        [(candidate, candidates.list_episodes(connection, candidate.signature, limit=2)) for candidate in chosen],
        max_candidate_chars=_MAX_CANDIDATE_CHARS,
        max_bundle_chars=_MAX_TOTAL_CHARS,
        is_excluded=build_step_exclusion(home, settings.load_settings(home)),
    )
    judgements = candidates.list_latest_judgements(connection)
    for candidate, entry in zip(chosen, bundle["candidates"], strict=False):  # the bundle may have room for fewer
        entry["replay"] = None
        if replay := replay_record(connection, candidate.record):
            entry["replay"] = {name: getattr(replay, name) for name in ("fires", "failed", "fine", "refused")}
        entry["judgement"] = None
        if judgement := judgements.get(candidate.number):
            entry["judgement"] = {"verdict": judgement.verdict, "void": judgement.void}
    bundle["leftOut"] += len(proposed) + len(failures) - len(chosen)
    return bundle


def _list_open_failures(home: str, connection: Connection) -> list[Candidate]:
    """Return repeated failures that a reader may make a lesson of and nobody has judged, most frequent first.

    The agent's own tools and the code under work give no lessons, however often they fail.
    """
    judged_numbers = candidates.list_latest_judgements(connection).keys()
    failures: list[Candidate] = []
    for candidate in review_queue.list_waiting(home, connection, OPEN):
        episodes = candidates.list_episodes(connection, candidate.signature, limit=1)
        is_lesson = bool(episodes) and episodes[0].body.get("about") not in NEVER_LESSONS
        if is_lesson and candidate.number not in judged_numbers:
            failures.append(candidate)
    failures.sort(key=lambda candidate: (-len(candidate.sessions), -candidate.occurrences, candidate.number))
    return failures


def _propose_judged(
    connection: Connection,
    values: Mapping[str, Any],
    candidate: Candidate,
    body: Mapping[str, Any],
    episodes: Sequence[MinedEpisode],
) -> str:
    """List what a reader proposes as a candidate if it passes the gate; return why it is refused, or ""."""
    # A reader's lesson passes the same gate as one that the rules propose: it must match calls that failed.
    record = judge.build_judged_record(body, episodes)
    if "trigger" in body:
        figures_by_name = gate.replay_records(connection, {"judged": record})
        figures = figures_by_name.get("judged", gate.ReplayFigures())
        if not figures.failed:
            return "its trigger matches no recorded call that failed"
        if not gate.fails_often_enough(figures, float(values["minTriggerPrecision"])):
            return f"its trigger matches {figures.fine} calls that went fine and {figures.failed} that failed"
    if candidate.status != OPEN:
        return ""  # a person sees the reader's words beside the proposal, which has a trigger
    if "trigger" not in body:
        if record["delivery"] != "start":
            return "it needs a trigger, or delivery start"
        record["triggers"] = {}
    with transaction(connection):
        candidates.store_episode(connection, mined_episodes.build_judged_episode(record, episodes[0], clock.now()))
    proposals.refresh_candidates(connection, values, tiers=(TAG_TIER, MINED_TIER), now=clock.now())
    return ""


def store_judgements(home: str, connection: Connection, text: str, reader: str) -> tuple[list[Judgement], list[int]]:
    """Check and store what a reader sent; return the judgements, and the numbers that no candidate has."""
    values = settings.load_settings(home)
    is_excluded = build_step_exclusion(home, values)
    judgements: list[Judgement] = []
    unknown_numbers: list[int] = []
    for submission in judge.parse_judgements(text):
        candidate = review_queue.find_in_queue(home, connection, str(submission.candidate))
        if candidate is None:
            unknown_numbers.append(submission.candidate)
            continue
        episodes = candidates.list_episodes(connection, candidate.signature)
        void = judge.check_judgement(submission, episodes, is_excluded)
        judgement = Judgement(candidate.number, clock.now(), reader, submission.verdict, submission.body, void)
        judgements.append(_save_judgement(connection, values, candidate, judgement, episodes))
    return judgements, unknown_numbers


def _save_judgement(
    connection: Connection,
    values: Mapping[str, Any],
    candidate: Candidate,
    judgement: Judgement,
    episodes: Sequence[MinedEpisode],
) -> Judgement:
    """Store a judgement; a lesson that the gate refuses is void, and one about an open failure is listed anew."""
    if judgement.verdict == "lesson" and not judgement.void and episodes:
        # It may become a candidate with a number of its own, and the judgement follows it there.
        refusal = _propose_judged(connection, values, candidate, judgement.body, episodes)
        proposal = candidates.find_by_signature(connection, candidate.signature)
        number = proposal.number if proposal else candidate.number
        judgement = replace(judgement, candidate=number, void=refusal)
    candidates.store_judgements(connection, [judgement])
    return judgement


def ask_model_to_judge(home: str, connection: Connection, limit: int) -> Iterator[Judgement]:
    """Yield a model's judgement of each candidate that nobody has judged, stored as it comes."""
    values = settings.load_settings(home)
    provider = llm.provider(values, os.environ)
    if provider is None:
        raise UserError("no model is turned on: llm.provider is none", "hardwon config set llm.provider claude")
    judged_numbers = candidates.list_latest_judgements(connection).keys()
    waiting = [item for item in review_queue.list_waiting(home, connection) if item.number not in judged_numbers]
    waiting += _list_open_failures(home, connection)
    asked = {item.number: (item, candidates.list_episodes(connection, item.signature)) for item in waiting[:limit]}

    def ask_question(prompt: str) -> str:
        question = llm.Question("You judge candidates. Answer with JSON alone.", prompt, "judge")
        try:
            return ask_model(connection, provider, question, lambda answer: answer.text, caps=get_caps(values))
        except (llm.Refused, llm.Broken):
            return ""  # stored as a void judgement, so that the candidate is not paid for again

    reader = f"{provider.name} {provider.model}"
    judgements = judge.judge_candidates(
        asked.values(),
        ask_question,
        max_candidate_chars=_MAX_CANDIDATE_CHARS,
        is_excluded=build_step_exclusion(home, values),
        now=clock.now(),
        reader=reader,
    )
    try:
        for judgement in judgements:
            candidate, episodes = asked[judgement.candidate]
            yield _save_judgement(connection, values, candidate, judgement, episodes)
    except llm.Failed as error:
        raise UserError(f"{reader} stopped: {error.reason}", "hardwon cost; earlier judgements are kept") from None
