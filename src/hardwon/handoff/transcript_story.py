"""Read a session's transcript, split it into exchanges and turns, and quote from it.

Texts are redacted on reading. A quote is a stretch of one line that contains no redaction, so it can be found in the
transcript.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any

import orjson

from hardwon import projects
from hardwon.agents import transcript_files
from hardwon.agents.transcript_files import has_private_parent
from hardwon.agents.transcript_steps import (
    Step,
    TokenUsage,
    UsageCounter,
    count_usage,
    create_counter,
    get_total_usage,
    load_transcript_module,
    parse_timestamp,
)
from hardwon.distil.phrasing import is_pasted_line, remove_pasted_lines
from hardwon.errors import UserError
from hardwon.mining.transcript_reading import is_hardwon_call
from hardwon.privacy.cleaning import clean_texts
from hardwon.privacy.private_tags import is_wholly_private
from hardwon.privacy.prompt_text import is_only_for_hardwon
from hardwon.shell import failures
from hardwon.store.reflections import Evidence
from hardwon.store.sessions import count_active_minutes
from hardwon.text.excerpts import collapse_spaces, split_sentences
from hardwon.types import Call, Turn, frozen, replace

MAX_QUOTE_CHARS = 200
MAX_TYPED_CHARS = 1_500  # a longer prompt was pasted, not typed
_MAX_TEXT_CHARS = 20_000  # longer texts lose their middle
_MAX_STEP_LINES = 400  # lines of a single document in which the quote of a step is searched
_MAX_JSON_DEPTH = 4  # nesting of JSON strings inside JSON strings
# Quotes exclude these parts; a slash command and the words after it are separate in a transcript.
_REMOVED_PART = re.compile(r"\A/[\w:-]+\s|\[redacted:[\w-]+\]|\[withheld[^\]]*\]|[\x00-\x1f\x7f-\x9f]+")
_JSON_STRING = re.compile(rb'"(?:[^"\\]|\\.)*"')
# Tools that keep the agent's task list, or show a plan to the person.
TASK_LIST_TOOL, TASK_CREATE_TOOL, TASK_UPDATE_TOOL, PLAN_TOOL = "TodoWrite", "TaskCreate", "TaskUpdate", "ExitPlanMode"
CARRIED_PLAN_TOOL = "EnterPlanMode"
_PLANNING_TOOLS = frozenset((TASK_LIST_TOOL, TASK_CREATE_TOOL, TASK_UPDATE_TOOL, PLAN_TOOL))
_CLOSED_STATUSES = ("completed", "deleted", "cancelled")
_TASK_ID = re.compile(r"^task\.id: (\S{1,40})$|#(\d{1,9}) created", re.M)


@frozen
class Story:
    """A transcript, read and redacted, without private turns and without hardwon's own output.

    `usage` counts tokens including those of sub-agents, None if the transcript has no counts. Times are in seconds, 0
    if unknown; `active_minutes` excludes pauses.
    """

    path: str
    agent: str
    session: str
    project: str
    cwd: str
    steps: tuple[Step, ...]
    started_at: float
    ended_at: float
    active_minutes: float
    usage: TokenUsage | None
    is_last_prompt_private: bool = False
    is_subagent: bool = False  # the work of a sub-agent, which belongs to another session


@frozen
class Exchange:
    """A prompt, None before the first one, and every step until the next prompt."""

    prompt: Step | None
    steps: tuple[Step, ...]


def read_story(path: str, agent: str = "") -> Story:
    """Read a transcript; OSError if it is unreadable, UserError if its format is unknown."""
    path = os.path.realpath(path)
    agent = agent or transcript_files.detect_agent(path)
    if not agent:
        raise UserError(f"{path} is no transcript of an agent we know", "hardwon sessions list")
    counter = create_counter()
    all_steps = [] if has_private_parent(path) else list(_read_steps(agent, path, counter))
    if all_steps:
        for subagent in transcript_files.list_subagent_transcripts(path):
            _count_tokens(agent, subagent, counter)
    prompts = [step.text for step in all_steps if step.kind == "person"]
    # Codex writes the work of a sub-agent to a transcript of its own, named after the sub-agent. It is read as the
    # main agent's there, but under the sub-agent's id: a draft of it must not replace the draft of its parent session.
    name = os.path.basename(path)
    subagent_id = next((step.subagent_id for step in all_steps if step.subagent_id and step.subagent_id in name), "")
    all_steps = [step._replace(subagent_id="") if step.subagent_id == subagent_id else step for step in all_steps]
    steps = _select_session_steps(list(_select_visible_steps(all_steps)))
    times = [at for step in steps if (at := parse_timestamp(step.at))]
    cwd = next((step.cwd for step in steps if step.cwd), "")
    return Story(
        path=path,
        agent=agent,
        session=subagent_id or (steps[-1].session if steps else ""),
        project=projects.find_project_path(cwd) if cwd else "",
        cwd=cwd,
        steps=tuple(_clean_steps(steps)),
        started_at=min(times, default=0.0),
        ended_at=max(times, default=0.0),
        active_minutes=count_active_minutes(times),
        usage=get_total_usage(counter),
        is_last_prompt_private=bool(prompts) and is_wholly_private(prompts[-1]),
        is_subagent=bool(subagent_id),
    )


def _read_steps(agent: str, path: str, counter: UsageCounter) -> Iterator[Step]:
    """Yield the steps of a transcript and add its tokens to the counter."""
    reader = load_transcript_module(agent).Reader()
    with transcript_files.open_transcript(path) as (_, _, portions):
        for lines, _ in portions:
            for number, line in lines:
                for step in reader.read_line(number, line):
                    if step.tool in _PLANNING_TOOLS:
                        yield step._replace(content=_read_plan(line, step))
                    else:
                        yield step
                if b'"planContent":"' in line:
                    yield from _read_carried_plan(number, line)
    if usage := get_total_usage(reader.usage):
        count_usage(counter, "", usage)


def _read_carried_plan(number: int, line: bytes) -> Iterator[Step]:
    """Yield the plan with which Claude Code (2.1) opens a session that carries out an earlier plan.

    The reader skips it because nobody typed it, but it is what such a session is about.
    """
    with suppress(orjson.JSONDecodeError):
        wire = orjson.loads(line)
        plan = wire.get("planContent")
        session = wire.get("sessionId")
        if isinstance(plan, str) and isinstance(session, str):
            plan_id = f"plan-{number}"
            yield Step(
                "call", number, plan_id, str(wire.get("timestamp", "")), session, tool=CARRIED_PLAN_TOOL, content=plan
            )


def _read_plan(line: bytes, step: Step) -> str:
    """Return the plan or task list in a call, tasks as Markdown check boxes.

    Readers keep only fields that all tools share, so this parses the line again; every agent uses the same field names.
    If the line has several calls, only the objects with this call's id and what is inside them count.
    """
    try:
        objects = list(_iter_objects(orjson.loads(line), _MAX_JSON_DEPTH * 4))
    except orjson.JSONDecodeError:
        return step.content
    own_objects = [entry for entry in objects if step.call and step.call in (entry.get("id"), entry.get("call_id"))]
    entries: list[dict[str, Any]] = []
    for own_object in own_objects or objects:
        entries += _iter_objects(own_object, _MAX_JSON_DEPTH * 4)
    for entry in entries:
        tasks = entry.get("todos") or entry.get("plan")
        if isinstance(tasks, list):
            rows = [task for task in tasks if isinstance(task, dict)]
            return "\n".join(_render_task(task) for task in rows)
        if isinstance(tasks, str):
            return tasks
        if step.tool == TASK_CREATE_TOOL and isinstance(entry.get("subject"), str):
            return f"- [ ] {entry['subject']}"
        if step.tool == TASK_UPDATE_TOOL and "taskId" in entry:
            return f"{entry['taskId']} {entry.get('status', '')}"
    return step.content


def _render_task(task: dict[str, Any]) -> str:
    """Return a task as a Markdown check box; agents call its text by three names."""
    label = task.get("content") or task.get("step") or task.get("description") or ""
    mark = "x" if task.get("status") in _CLOSED_STATUSES else " "
    return f"- [{mark}] {label}"


def _iter_objects(value: Any, depth: int) -> Iterator[dict[str, Any]]:
    """Yield every JSON object in a value, also inside strings: Codex writes arguments as a string of JSON."""
    if depth == 0:
        return
    if isinstance(value, str) and value.startswith("{"):
        with suppress(orjson.JSONDecodeError):
            yield from _iter_objects(orjson.loads(value), depth - 1)
    elif isinstance(value, dict):
        yield value
        for nested in value.values():
            yield from _iter_objects(nested, depth - 1)
    elif isinstance(value, list):
        for nested in value:
            yield from _iter_objects(nested, depth - 1)


def list_open_tasks(story: Story) -> list[tuple[str, Step]]:
    """Return the unfinished tasks on the agent's own list, each with the call that listed it."""
    open_tasks: dict[str, tuple[str, Step]] = {}
    for call, result in pair_calls(story).values():
        if call.subagent_id:
            continue
        if call.tool == TASK_LIST_TOOL:
            rows = [line[6:] for line in call.content.splitlines() if line.startswith("- [ ] ")]
            open_tasks = {row: (row, call) for row in rows}
        elif call.tool == TASK_CREATE_TOOL and call.content:
            number = _TASK_ID.search(result.text) if result else None
            open_tasks[(number[1] or number[2]) if number else call.content] = (call.content[6:], call)
        elif call.tool == TASK_UPDATE_TOOL and call.content.endswith(_CLOSED_STATUSES):
            open_tasks.pop(call.content.partition(" ")[0], None)
    return list(open_tasks.values())


def _count_tokens(agent: str, path: str, counter: UsageCounter) -> None:
    """Add the tokens of a sub-agent's transcript."""
    with suppress(OSError):
        for _ in _read_steps(agent, path, counter):
            pass


def _select_visible_steps(steps: Sequence[Step]) -> Iterator[Step]:
    """Yield steps without those after a wholly private prompt and without hardwon's own.

    Hardwon's calls print other sessions; prompts typed to hardwon and the answers to them are left out too.
    """
    is_hidden = False
    hardwon_calls = set[str]()
    is_for_us = False
    for step in steps:
        if step.kind == "person":
            is_hidden = is_wholly_private(step.text)
            is_for_us = is_only_for_hardwon(step.text)
        if is_for_us and step.kind in ("person", "agent") and not step.subagent_id:
            continue
        if step.kind == "call" and is_hardwon_call(step):
            hardwon_calls.add(step.call)
        if not is_hidden and not (step.call in hardwon_calls and step.kind in ("call", "result")):
            yield step


def _select_session_steps(steps: list[Step]) -> list[Step]:
    """Keep the steps of the last session: a forked transcript begins with a copy of its parent."""
    return [step for step in steps if step.session == steps[-1].session]


def _clean_steps(steps: Sequence[Step]) -> list[Step]:
    """Redact the steps, then shorten them: half a secret or half a private tag would not be recognised."""
    texts = list({text for step in steps for text in (step.command, step.path, step.content, step.text, step.refused)})
    cleaned_texts = dict(zip(texts, map(_cut_middle, clean_texts(texts)), strict=True))
    return [
        step._replace(
            command=cleaned_texts[step.command],
            path=cleaned_texts[step.path],
            content=cleaned_texts[step.content],
            text=cleaned_texts[step.text],
            refused=cleaned_texts[step.refused],
        )
        for step in steps
    ]


def _cut_middle(text: str) -> str:
    half = _MAX_TEXT_CHARS // 2
    return text if len(text) <= _MAX_TEXT_CHARS else f"{text[:half]}\n{text[-half:]}"


def split_exchanges(story: Story) -> tuple[Exchange, ...]:
    """Group the main agent's steps by prompt; prompts on the same transcript line are joined."""
    exchanges: list[Exchange] = []
    prompt: Step | None = None
    steps: list[Step] = []
    for step in story.steps:
        if step.subagent_id:
            continue
        if step.kind != "person":
            steps.append(step)
            continue
        if prompt and not steps and step.line == prompt.line:
            prompt = prompt._replace(text=f"{prompt.text}\n{step.text}")
            continue
        if prompt or steps:
            exchanges.append(Exchange(prompt, tuple(steps)))
        prompt = step
        steps = []
    return (*exchanges, Exchange(prompt, tuple(steps))) if prompt or steps else tuple(exchanges)


def get_spoken_sentences(step: Step | None) -> list[str]:
    """Return the sentences that a person typed, without pasted lines; none for a prompt too long to be typed."""
    if not step or step.kind != "person" or len(step.text) > MAX_TYPED_CHARS:
        return []
    sentences = split_sentences(remove_pasted_lines(step.text))
    return [sentence for sentence in sentences if not is_pasted_line(sentence)]


def has_match(pattern: re.Pattern[str], sentence: str) -> bool:
    """Search a sentence, treating typographic apostrophes as plain ones."""
    return bool(pattern.search(sentence.replace("’", "'")))


def pair_calls(story: Story) -> dict[str, tuple[Step, Step | None]]:
    """Return each call with its result, None if there is none yet, by the key that `turns` uses."""
    pairs: dict[str, tuple[Step, Step | None]] = {}
    for step in story.steps:
        if step.kind == "call":
            pairs[_get_call_key(step)] = (step, None)
        elif step.kind == "result" and step.call in pairs:
            pairs[step.call] = (pairs[step.call][0], step)
    return pairs


def build_turns(story: Story) -> tuple[Turn, ...]:
    """Convert the story to turns, so that code for stored turns works on it."""
    pairs = pair_calls(story)
    turns = []
    for number, exchange in enumerate(split_exchanges(story), 1):
        first_step = exchange.prompt or exchange.steps[0]
        calls = []
        for step in exchange.steps:
            if step.kind == "call":
                _, result = pairs[_get_call_key(step)]
                calls.append(_build_call(step, result))
        turn = Turn(
            session_row_id=0,
            number=number,
            at=parse_timestamp(first_step.at),
            agent=story.agent,
            name=story.session,
            project=story.project,
            cwd=story.cwd,
            prompt=exchange.prompt.text if exchange.prompt else "",
            final_message=get_final_message(exchange),
            calls=tuple(calls),
        )
        turns.append(turn)
    return tuple(turns)


def build_subagent_turn(story: Story) -> Turn | None:
    """Convert the calls of all sub-agents to one turn; None if there are none."""
    calls = [(step, result) for step, result in pair_calls(story).values() if step.subagent_id]
    if not calls:
        return None
    return Turn(
        session_row_id=0,
        number=0,
        at=parse_timestamp(calls[0][0].at),
        agent=story.agent,
        name=story.session,
        project=story.project,
        cwd=story.cwd,
        prompt="",
        final_message="",
        calls=tuple(_build_call(step, result) for step, result in calls),
    )


def get_final_message(exchange: Exchange) -> str:
    """Return the agent's last message; those before it, such as reports while sub-agents run, are not final."""
    return next((step.text for step in reversed(exchange.steps) if step.kind == "agent"), "")


def _get_call_key(step: Step) -> str:
    return step.call or step.id


def _build_call(step: Step, result: Step | None) -> Call:
    """Build a turn's call as stored events have it, with the fields of the tool that have a text."""
    tool_input = {"command": step.command, "file_path": step.path, "content": step.content}
    if step.tool in ("Grep", "Glob"):
        tool_input["pattern"] = tool_input.pop("content")
    outcome = _classify_outcome(step, result)
    text = result.text if result else ""
    return Call(
        key=_get_call_key(step),
        at=parse_timestamp(step.at),
        tool=step.tool,
        subagent_id=step.subagent_id,
        response=text,
        outcome=outcome,
        input={name: value for name, value in tool_input.items() if value},
        signature=failures.compute_signature(step.tool, step.command, text) if outcome == "failed" else "",
    )


def _classify_outcome(call: Step, result: Step | None) -> str:
    """Return a call's outcome as stored events name it; empty if there is no result yet."""
    if result is None:
        return ""
    if result.refused:
        return "refused"
    if result.denied:
        return "denied"
    if result.failed or failures.is_unreported_failure(call.tool, call.command, result.text):
        return "failed"
    return "fine"


def quote_step(story: Story, step: Step, words: str = "") -> Evidence:
    """Quote a step: the longest stretch of `words` found in it, else its most similar line."""
    fields = (step.text, step.command, step.content, step.path, step.refused)
    step_parts = [part for text in fields for part in _split_stretches(text)]
    quote_parts = sorted(_split_stretches(words), key=len, reverse=True)
    best = next((part for part in quote_parts if any(part in line for line in step_parts)), "")
    if not best and step_parts:
        quote_words = frozenset(words.split())
        best = max(step_parts, key=lambda line: len(quote_words.intersection(line.split())))
    evidence = Evidence(story.path, step.line, _cut_quote(best))
    return _locate_quote(evidence) if transcript_files.is_single_document(story.path) else evidence


def _locate_quote(evidence: Evidence) -> Evidence:
    """Return the evidence with the line of its quote, because in a single document a step spans several lines."""
    for number, line in transcript_files.read_lines(evidence.path, evidence.line, _MAX_STEP_LINES + 1):
        if _has_quote(line, evidence.quote, _MAX_JSON_DEPTH):
            return replace(evidence, line=number)
    return evidence


def _split_stretches(text: str) -> list[str]:
    """Split a text into the stretches that appear unchanged in the transcript."""
    return [line for part in _REMOVED_PART.split(text) if (line := collapse_spaces(part))]


def _cut_quote(part: str) -> str:
    """Cut a quote at a word boundary, or inside a word that is longer than a quote may be."""
    if len(part) <= MAX_QUOTE_CHARS:
        return part
    start = part[:MAX_QUOTE_CHARS]
    return start.rpartition(" ")[0] or start


def _has_quote(line: bytes, quote: str, depth: int) -> bool:
    """Return whether a string of a line has the quote, also inside JSON that stands in a string, to this depth."""
    for match in _JSON_STRING.finditer(line):
        try:
            text = orjson.loads(match[0])
        except orjson.JSONDecodeError:
            continue
        if quote in collapse_spaces(text):
            return True
        may_be_json = depth > 0 and '"' in text
        if may_be_json and _has_quote(text.encode(), quote, depth - 1):
            return True
    return False
