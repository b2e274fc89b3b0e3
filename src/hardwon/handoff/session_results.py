"""Tell what a session leaves: commits, pull requests, checks, causes and decisions of the person."""

from __future__ import annotations

import re
from collections.abc import Iterator

from hardwon.agents.transcript_steps import Step
from hardwon.distil import phrasing, tool_actions
from hardwon.distil.tool_actions import ToolAction
from hardwon.handoff import transcript_story
from hardwon.handoff.phrases import (
    ASKS_TO_GO_ON,
    DECISIONS,
    LITTLE_TALLIES,
    MOVES_HEAD,
    PUSHES,
    REPORTS_FAULT,
    SINGLE_TESTS,
    STARTS_BACK,
)
from hardwon.handoff.session_facts import SessionFacts, cite_action, cite_step
from hardwon.handoff.statements import MAX_LINE_CHARS, Statement, drop_near_duplicates, quote_text
from hardwon.text.excerpts import shorten_line

_MAX_COMMITS, _MAX_PULL_REQUESTS, _MAX_CAUSES, _MAX_DECISIONS = 5, 2, 3, 5
_MAX_PROMPT_DECISIONS = 2  # of one prompt
_SENTENCE_START_CHARS = 60  # a decision word further into the sentence is about something else
# The result of AskUserQuestion: "question"="answer".
_QUESTION_ANSWER = re.compile(r'"([^"\n]{4,300})"\s*=\s*"([^"\n]{1,300})"')


def list_results(facts: SessionFacts, told_text: str) -> list[Statement]:
    """List commits and pull requests that `told_text` does not mention yet, and the check that holds at the end."""
    untold_commits = [entry for entry in phrasing.list_commits(facts.actions) if entry[1].short_hash not in told_text]
    statements = list[Statement]()
    for action, commit in untold_commits[-_MAX_COMMITS:]:
        text = f"Committed {commit.short_hash}: {quote_text(commit.subject, 100)}"
        statements.append(Statement(text, cite_action(facts, action, commit.short_hash)))
    pull_requests = dict[str, ToolAction]()
    for action in facts.actions:
        pull_request = tool_actions.find_pull_request(action.text) if action.kind == "saved" else ""
        if pull_request and pull_request not in told_text:
            pull_requests[pull_request] = action
    for pull_request, action in list(pull_requests.items())[-_MAX_PULL_REQUESTS:]:
        statements.append(Statement(f"Pull request {pull_request}", cite_action(facts, action, pull_request)))
    passed_check = _find_final_check(facts)
    if passed_check:
        statements.append(_describe_passed_check(facts, passed_check))
    return statements


def _find_final_check(facts: SessionFacts) -> ToolAction | None:
    """Return the last check that passed after the last edit; None if there is none, or no work that it could check.

    Runs of a single test and little tallies are left out.
    """
    last_edit = max((index for index, action in enumerate(facts.actions) if action.kind == "changed"), default=-1)
    if last_edit < 0 and not phrasing.list_commits(facts.actions):
        return None  # it checked somebody else's work
    for action in reversed(facts.actions[last_edit + 1 :]):
        if action.kind != "check" or not action.tally or action.failed:
            continue
        if not SINGLE_TESTS.search(action.label) and not LITTLE_TALLIES.match(action.tally.text):
            return action
    return None


def _describe_passed_check(facts: SessionFacts, action: ToolAction) -> Statement:
    tally_text = action.tally.text if action.tally else ""
    return Statement(f"`{shorten_line(action.label, 80)}` passes: {tally_text}", cite_action(facts, action, tally_text))


def find_last_commit(facts: SessionFacts) -> tuple[ToolAction, tool_actions.Commit] | None:
    """Return the last reported commit; None if a later command moved HEAD without saying where."""
    commits = phrasing.list_commits(facts.actions)
    if not commits:
        return None
    last_action, _ = commits[-1]
    keys = [action.call.key for action in facts.actions]
    later_keys = keys[keys.index(last_action.call.key) + 1 :]
    for key in later_keys:
        call, _ = facts.calls[key]
        if MOVES_HEAD.search(call.command):
            return None
    return commits[-1]


def is_pushed(facts: SessionFacts, commit: ToolAction) -> bool:
    """Return whether the call that made a commit, or a later one, pushed it."""
    keys = [action.call.key for action in facts.actions]
    for action in facts.actions[keys.index(commit.call.key) :]:
        call, _ = facts.calls[action.call.key]
        if not action.failed and PUSHES.search(call.command):
            return True
    return False


def list_causes(facts: SessionFacts) -> list[Statement]:
    """List sentences in which the agent explains why something failed, unless the person's next prompt refutes it."""
    causes = list[Statement]()
    next_prompts = [*(turn.prompt for turn in facts.turns[1:]), ""]
    for exchange, turn, next_prompt in zip(facts.exchanges, facts.turns, next_prompts, strict=True):
        if phrasing.is_refuted(turn.final_message, next_prompt):
            continue
        has_fault = REPORTS_FAULT.search(turn.prompt[: transcript_story.MAX_TYPED_CHARS]) is not None
        final_causes = list[Statement]()
        earlier_causes = list[Statement]()
        for step in exchange.steps:
            if step.kind != "agent":
                continue
            if phrasing.takes_back_cause(step.text):
                earlier_causes.clear()
            for line in phrasing.find_causes(step.text):
                if not phrasing.is_failure_cause(line) or STARTS_BACK.match(line) or not line.endswith((".", "!")):
                    continue
                statement = Statement(shorten_line(line, MAX_LINE_CHARS), cite_step(facts, step, line))
                if step.text == turn.final_message:
                    final_causes.append(statement)
                elif phrasing.is_root_cause(line, has_fault=has_fault):
                    earlier_causes.append(statement)
        # What the agent names on the way to the answer holds only until it names the next.
        causes += final_causes or earlier_causes[-1:]
    return drop_near_duplicates(causes)[-_MAX_CAUSES:]


def list_decisions(facts: SessionFacts) -> list[Statement]:
    """List the decisions of the person: their words, answers and refusals."""
    decisions = list[Statement]()
    for exchange in facts.exchanges:
        if exchange.prompt:
            decisions += _find_prompt_decisions(facts, exchange.prompt)
        for step in exchange.steps:
            decisions += _find_person_decisions(facts, step)
    return drop_near_duplicates(decisions)[-_MAX_DECISIONS:]


def _find_prompt_decisions(facts: SessionFacts, prompt: Step) -> list[Statement]:
    """Return the first sentences of a prompt that decide something; questions and long sentences do not count."""
    decisions = list[Statement]()
    for line in transcript_story.get_spoken_sentences(prompt):
        is_decision = DECISIONS.search(line[:_SENTENCE_START_CHARS]) and not line.endswith("?")
        if is_decision and len(line) <= 2 * MAX_LINE_CHARS:
            decisions.append(Statement(f"You: {quote_text(line, MAX_LINE_CHARS)}", cite_step(facts, prompt, line)))
    return decisions[:_MAX_PROMPT_DECISIONS]


def _find_person_decisions(facts: SessionFacts, step: Step) -> Iterator[Statement]:
    """Yield the person's answer to a question, or their words when they refused a call."""
    if step.kind == "result" and "answered your question" in step.text[:200]:
        for question, answer in _QUESTION_ANSWER.findall(step.text)[:3]:
            text = f"{shorten_line(question, 140)} You: {quote_text(answer, 120)}"
            if not answer.endswith("?") and not ASKS_TO_GO_ON.search(question):
                yield Statement(text, cite_step(facts, step, answer))
