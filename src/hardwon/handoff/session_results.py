"""Tell what a session leaves: commits, pull requests, checks, causes and decisions of the person."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from hardwon.agents.transcript_steps import Step
from hardwon.distil import phrasing, tool_actions
from hardwon.distil.failure_fixes import parse_check_targets
from hardwon.distil.summaries import WORKING_KINDS
from hardwon.distil.tool_actions import ToolAction
from hardwon.handoff import topic_outcomes, transcript_story
from hardwon.handoff.phrases import (
    ASKS_TO_GO_ON,
    CLAIMS_CHECKS,
    DECISIONS,
    DENIES_CHECKS,
    LITTLE_TALLIES,
    MOVES_HEAD,
    PUSHES,
    REPORTS_FAULT,
    SINGLE_TESTS,
    STARTS_BACK,
)
from hardwon.handoff.session_facts import SessionFacts, cite_action, cite_step, has_changes, is_unfinished, quote_agent
from hardwon.handoff.statements import MAX_LINE_CHARS, Statement, drop_near_duplicates, quote_text
from hardwon.text.excerpts import shorten_line, split_sentences

_MAX_COMMITS, _MAX_PULL_REQUESTS, _MAX_CAUSES, _MAX_DECISIONS = 5, 2, 3, 5
_MAX_PROMPT_DECISIONS = 2  # of one prompt
_MAX_TOLD_TOPICS = 6  # of more, the causes in those that took least work are left out
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
    unreported_commits = phrasing.list_unreported_commits(facts.actions)
    untold_subjects = [entry for entry in unreported_commits if entry[1] not in told_text]
    for action, subject in untold_subjects[-_MAX_COMMITS:]:
        statements.append(Statement(f"Committed {quote_text(subject, 100)}", cite_action(facts, action)))
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
    elif claimed_check := _quote_claimed_check(facts):
        statements += [] if claimed_check.text.strip("“”") in told_text else [claimed_check]
    return statements


def _quote_claimed_check(facts: SessionFacts) -> Statement | None:
    """Quote what the agent says of the checks after the last change; None if it says nothing or one failed last.

    Their results may not be seen: a hook of `git commit` ran them, or their output went through a filter.
    """
    changing = [number for number, actions in enumerate(facts.actions_by_turn) if has_changes(actions)]
    if not changing:
        return None
    number = changing[-1]
    checks = [action for action in facts.actions_by_turn[number] if action.kind == "check"]
    following = facts.turns[number + 1].prompt if number + 1 < len(facts.turns) else ""
    message = facts.turns[number].final_message
    if (checks and checks[-1].failed) or phrasing.is_taken_back(message, following):
        return None
    for sentence in split_sentences(message):
        is_claim = CLAIMS_CHECKS.search(sentence) and not DENIES_CHECKS.search(sentence)
        if is_claim and sentence.endswith((".", "!")) and not STARTS_BACK.match(sentence):
            statement = quote_agent(facts, shorten_line(sentence, MAX_LINE_CHARS), (facts.exchanges[number],))
            return statement and Statement(quote_text(statement.text, MAX_LINE_CHARS), statement.evidence)
    return None


def _find_final_check(facts: SessionFacts) -> ToolAction | None:
    """Return the last check that passed after the last edit; None if there is none, or no work that it could check.

    Runs of a single test, little tallies, and runs of a part of what another run checked are left out.
    """
    last_edit = max((index for index, action in enumerate(facts.actions) if action.kind == "changed"), default=-1)
    if last_edit < 0 and not phrasing.list_commits(facts.actions):
        return None  # it checked somebody else's work
    final_runs = [action for action in facts.actions[last_edit + 1 :] if action.kind == "check"]
    for action in reversed(final_runs):
        if not action.tally or action.failed or _is_part_of_other(action, final_runs):
            continue
        if not SINGLE_TESTS.search(action.label) and not LITTLE_TALLIES.match(action.tally.text):
            return action
    return None


def _is_part_of_other(check: ToolAction, others: Iterable[ToolAction]) -> bool:
    """Return whether another run checked all that this one did, and more."""
    targets = parse_check_targets(check.label)
    return any(parse_check_targets(other.label) < targets for other in others)


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
    overtaken_topics = [topic for topic in facts.topics if topic_outcomes.is_left_behind(facts, topic)]
    overtaken = {number for topic in overtaken_topics for number in range(topic.first, topic.last + 1)}
    untold_exchanges = overtaken | _find_small_exchanges(facts)
    next_prompts = [*(turn.prompt for turn in facts.turns[1:]), ""]
    rows = zip(facts.exchanges, facts.turns, next_prompts, strict=True)
    for number, (exchange, turn, next_prompt) in enumerate(rows):
        if number in untold_exchanges:
            continue
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
        is_followed = any(
            action.kind in WORKING_KINDS for actions in facts.actions_by_turn[number + 1 :] for action in actions
        )
        if is_followed:
            final_causes = [cause for cause in final_causes if not phrasing.tells_state(cause.text)]
        # What the agent names on the way to the answer holds only until it names the next.
        is_cut_off = number == len(facts.exchanges) - 1 and is_unfinished(facts)
        causes += final_causes or ([] if is_cut_off else earlier_causes[-1:])
    return drop_near_duplicates(causes)[-_MAX_CAUSES:]


def _find_small_exchanges(facts: SessionFacts) -> frozenset[int]:
    """Return the exchanges of a long session whose topic took little work and was followed by others."""
    if len(facts.topics) <= _MAX_TOLD_TOPICS:
        return frozenset()
    weights = sorted((topic.weight for topic in facts.topics), reverse=True)
    return frozenset(
        number
        for topic in facts.topics[:-1]
        if topic.weight < weights[_MAX_TOLD_TOPICS - 1]
        for number in range(topic.first, topic.last + 1)
    )


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
