"""Read a session once: its exchanges, actions and topics, and how to cite them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

import orjson

from hardwon.agents.transcript_steps import Step
from hardwon.distil import phrasing
from hardwon.distil.tool_actions import ToolAction, classify_calls
from hardwon.handoff import transcript_story
from hardwon.handoff.prompt_requests import (
    asks_to_look,
    hands_over,
    has_output,
    is_pasted,
    is_trivial_request,
    orders_change,
    read_request,
)
from hardwon.handoff.statements import Statement
from hardwon.handoff.transcript_story import Exchange, Story
from hardwon.store.reflections import Evidence
from hardwon.text.excerpts import list_prose_lines, to_plain_line
from hardwon.types import Turn, frozen, replace

_POLL_TOOL = "BashOutput"
_MAX_REMEMBERED_CHARS = 200  # the transcript reader keeps only this much of a long command
_RECENT_TURNS = 5  # a failure in an older turn no longer counts as open
_FENCE = re.compile(r"```\w*")


@frozen
class Topic:
    """A stretch of the session about one request; `first` and `last` are exchange numbers."""

    request: str
    source: Step | None  # the prompt, or the plan that opened the session
    first: int
    last: int
    weight: int  # how much work it took
    has_changes: bool  # something was edited or committed


@frozen
class SessionFacts:
    """A session, prepared for writing statements."""

    story: Story
    exchanges: tuple[Exchange, ...]
    turns: tuple[Turn, ...]
    actions_by_turn: tuple[tuple[ToolAction, ...], ...]
    actions: tuple[ToolAction, ...]
    recent_actions: tuple[ToolAction, ...]
    calls: Mapping[str, tuple[Step, Step | None]]
    topics: tuple[Topic, ...]
    last_working_exchange: int  # the exchange with the last tool call
    remaining_paths: frozenset[str]  # changed and not removed again


def gather_facts(story: Story) -> SessionFacts:
    """Read the session once, so that every statement works from the same facts."""
    turns = transcript_story.build_turns(story)
    exchanges = transcript_story.split_exchanges(story)
    actions_by_turn = tuple(tuple(classify_calls(turn)) for turn in turns)
    working = [index for index, turn_actions in enumerate(actions_by_turn) if turn_actions]
    actions = tuple(action for turn_actions in actions_by_turn for action in turn_actions)
    return SessionFacts(
        story=story,
        exchanges=exchanges,
        turns=turns,
        actions_by_turn=actions_by_turn,
        actions=actions,
        recent_actions=tuple(action for turn_actions in actions_by_turn[-_RECENT_TURNS:] for action in turn_actions),
        calls=transcript_story.pair_calls(story),
        topics=_split_topics(exchanges, actions_by_turn),
        last_working_exchange=working[-1] if working else len(turns) - 1,
        remaining_paths=frozenset(phrasing.list_remaining_files(actions)),
    )


def _split_topics(exchanges: Sequence[Exchange], actions_by_turn: Sequence[Sequence[ToolAction]]) -> tuple[Topic, ...]:
    """Start a topic at each request that names something; "continue" and the like extend the previous topic."""
    topics = list[Topic]()
    for number, (exchange, actions) in enumerate(zip(exchanges, actions_by_turn, strict=True)):
        request, source = read_request(exchange)
        weight = sum(_weigh_action(action) for action in actions)
        is_changed = has_changes(actions)
        is_command = request.startswith("/")
        names_nothing = not request or is_trivial_request(request) or hands_over(exchange.prompt)
        is_output = is_pasted(exchange.prompt) or (names_nothing and has_output(exchange.prompt))
        if topics and not is_command and is_output:
            # Its answer is about the pasted text, not about the request before.
            topics.append(Topic("", exchange.prompt, number, number, weight, is_changed))
            continue
        # "ok, do it" after an answer or an analysis starts work that the request before did not ask for.
        follows_answer = bool(topics) and not topics[-1].has_changes and _is_answered(topics[-1], exchanges[number - 1])
        starts_work = is_changed and follows_answer
        if starts_work and not is_command and names_nothing:
            topics.append(Topic("", exchange.prompt, number, number, weight + 1, is_changed))
        elif topics and not is_command and names_nothing:
            previous = topics[-1]
            topics[-1] = replace(
                previous,
                last=number,
                weight=previous.weight + weight,
                has_changes=previous.has_changes or is_changed,
            )
        else:
            topics.append(Topic(request, source, number, number, weight + 1, is_changed))
    return tuple(topics)


def _is_answered(topic: Topic, exchange: Exchange) -> bool:
    """Return whether a topic asks for no change, as a question does, or a request to which the agent offers one."""
    has_offer = bool(exchange.steps) and exchange.steps[-1].text.rstrip().endswith("?")
    return asks_to_look(topic.request) or (has_offer and not orders_change(topic.request))


def _weigh_action(action: ToolAction) -> int:
    """Return how much a call counts as work on its topic: a commit or push most, then an edit."""
    if action.kind == "saved":
        return 10
    return 3 if action.kind == "changed" else 1


def has_changes(actions: Iterable[ToolAction]) -> bool:
    """Return whether any of these actions edited a file or saved work."""
    return any(action.kind in ("changed", "saved") and not action.failed for action in actions)


def is_unfinished(facts: SessionFacts) -> bool:
    """Return whether the session ends with a request or a call instead of an answer."""
    if not facts.exchanges:
        return False
    last_steps = facts.exchanges[-1].steps
    return not last_steps or last_steps[-1].kind in ("call", "result")


def list_changed_paths(facts: SessionFacts, edits: Iterable[ToolAction]) -> list[str]:
    """List the project's files that these actions changed, without those that a command removed."""
    paths = select_project_paths(phrasing.list_files_modified(edits))
    return [path for path in paths if path in facts.remaining_paths]


def select_project_paths(paths: Iterable[str]) -> list[str]:
    """Return the paths that lie inside the project: relative ones without a colon, as of a drive."""
    return [path for path in paths if not path.startswith(("/", "~", "..")) and ":" not in path]


def cite_step(facts: SessionFacts, step: Step, words: str = "") -> tuple[Evidence, ...]:
    """Cite a step, quoting its line that has these words."""
    start = to_plain_line(words)[:40]
    lines = (step.text or step.content).splitlines()
    raw_line = next((line for line in lines if start and start in " ".join(list_prose_lines(line))), words)
    return (transcript_story.quote_step(facts.story, step, raw_line),)


def cite_action(facts: SessionFacts, action: ToolAction, words: str = "") -> tuple[Evidence, ...]:
    """Cite a call's result if it has these words, else the call itself."""
    call, result = facts.calls[action.call.key]
    if words and result:
        line = next((candidate for candidate in result.text.splitlines() if words[:60] in to_plain_line(candidate)), "")
        return (transcript_story.quote_step(facts.story, result, line),)
    call = find_starting_call(facts.story, call)
    return (transcript_story.quote_step(facts.story, call, call.command or call.path),)


def find_starting_call(story: Story, call: Step) -> Step:
    """Return the call that started a command; a later poll of its output does not repeat the command."""
    if call.tool != _POLL_TOOL or not call.command:
        return call
    start = call.command[:_MAX_REMEMBERED_CHARS]  # the transcript reader keeps only this much of a long command
    for step in story.steps:
        if step.command.startswith(start) and step.tool != _POLL_TOOL:
            return step
    return call


def quote_agent(facts: SessionFacts, line: str, exchanges: Sequence[Exchange]) -> Statement | None:
    """Quote a line of the agent with its place in the transcript; None if no message of the exchanges has it."""
    start = to_plain_line(line).rstrip(" ….")[:40].replace("’", "'")
    for exchange in reversed(exchanges):
        for step in reversed(exchange.steps):
            prose = " ".join(list_prose_lines(step.text)) if step.kind == "agent" else ""
            plain = to_plain_line(_FENCE.sub(" ", step.text)) if prose else ""
            if prose and any(start in text.replace("’", "'") for text in (prose, plain)):
                return Statement(line, cite_step(facts, step, line))
            if prose.startswith("{") and start in step.text:
                return Statement(line, (transcript_story.quote_step(facts.story, step, line.rstrip(" …")),))
    return None


def unwrap_json(message: str) -> str:
    """Return the longest text inside the last JSON answer, which reviewers give; other answers unchanged."""
    if not message.startswith("{"):
        return message
    try:
        texts = [value for value in orjson.loads(message.rpartition("\n\n")[2]).values() if isinstance(value, str)]
    except orjson.JSONDecodeError:
        return message
    return max(texts, key=len, default="")
