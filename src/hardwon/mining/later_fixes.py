"""Find a fix for a mistake that its session gave up on, among the calls that other sessions made since.

Within a session a fix follows its failure, so that any call with the same aim counts. Elsewhere nothing ties two calls
together but their words. So only what differs in the wrong word alone is a fix here.
"""

from __future__ import annotations

from collections import defaultdict
from itertools import chain, islice
from typing import Any

from hardwon.agents.transcript_steps import Step
from hardwon.lessons.replay import list_folders
from hardwon.mining.corrections import diff_arguments, differs_in_wrong_word
from hardwon.mining.episodes import NAMED_SCORE, NO_FIX_KNOWN
from hardwon.mining.failed_commands import Diagnosis, diagnose_failure
from hardwon.mining.suggestions import suggest_solution
from hardwon.mining.triggers import build_triggers
from hardwon.projects import is_in_scope
from hardwon.shell.failures import MAX_QUOTE_LENGTH
from hardwon.store import candidates, transcripts
from hardwon.store.db import Connection, transaction
from hardwon.store.transcripts import ScannedCall
from hardwon.types import SHELL_TOOL, MinedEpisode, replace

_MAX_EPISODES, _MAX_CALLS = 200, 20_000  # the newest, which take less than a second

_UnfixedEpisode = tuple[MinedEpisode, Step, Diagnosis]  # with the call that failed first and its diagnosis


def attach_later_fixes(connection: Connection) -> None:
    """Add a fix to every mined mistake that has none, if a later call shows one."""
    unfixed_by_program = _group_unfixed_episodes(connection)
    if not unfixed_by_program:
        return
    fixed: dict[str, MinedEpisode] = {}
    for later_call in islice(transcripts.iter_ended_calls(connection, [SHELL_TOOL]), _MAX_CALLS):
        if later_call.outcome != "fine":
            continue
        # Most calls run another program.
        programs = [program for program in unfixed_by_program if program in later_call.command]
        for episode, call, diagnosis in chain.from_iterable(unfixed_by_program[program] for program in programs):
            if episode.key in fixed:
                continue
            body = _build_fixed_body(episode, call, diagnosis, later_call)
            if body:
                fixed[episode.key] = replace(episode, score=NAMED_SCORE, body=body)
    if fixed:
        with transaction(connection):
            for episode in fixed.values():
                candidates.store_episode(connection, episode)


def _group_unfixed_episodes(connection: Connection) -> dict[str, list[_UnfixedEpisode]]:
    """Return the newest episodes without a fix by the program that failed; only those whose error names a word."""
    unfixed_by_program: dict[str, list[_UnfixedEpisode]] = defaultdict(list)
    for episode in candidates.list_unfixed_episodes(connection, NO_FIX_KNOWN, limit=_MAX_EPISODES):
        quote = next((item["quote"] for item in episode.body["evidence"] if item["kind"] == "error"), "")
        call = Step("call", 0, tool=SHELL_TOOL, command=episode.body["firstCommand"], cwd=episode.project)
        diagnosis = diagnose_failure(call, quote, text="")
        if diagnosis.word and diagnosis.command:
            unfixed_by_program[diagnosis.program].append((episode, call, diagnosis))
    return unfixed_by_program


def _build_fixed_body(
    episode: MinedEpisode, call: Step, diagnosis: Diagnosis, later_call: ScannedCall
) -> dict[str, Any] | None:
    """Return an episode's body with a later call as its fix; None if the call is not one.

    It must be in the same project, differ in the wrong word alone, and be told from the failing call by a trigger.
    """
    if later_call.at <= episode.at or not is_in_scope(episode.project, list_folders(later_call.cwd)):
        return None
    fix = Step("call", later_call.line, tool=SHELL_TOOL, command=later_call.command, cwd=later_call.cwd)
    if not differs_in_wrong_word(call, diagnosis, fix):
        return None
    triggers = build_triggers(call, diagnosis, fix, is_path=False)
    if not triggers:
        return None
    removed, added = diff_arguments(call.command, fix.command)
    quote = {"path": later_call.path, "line": later_call.line, "kind": "correction"}
    return {
        **episode.body,
        "worked": fix.command,
        "removed": removed,
        "added": added,
        "rejection": "",
        "triggers": triggers,
        "trigger": triggers["commandPatterns"][0],
        "solution": suggest_solution(call, diagnosis, fix, added, reason="", person_words=""),
        "evidence": [*episode.body["evidence"], {**quote, "quote": fix.command[:MAX_QUOTE_LENGTH].rstrip()}],
    }
