"""A session's transcript as one story: read whole, cut into exchanges and turns, and quoted.

Texts are cleaned as they are read, so nothing made of a story holds a secret. A quote is one stretch of one line
between what was taken out, so it stands in the transcript as it is given.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from contextlib import suppress

import orjson

from hardwon import projects
from hardwon.agents import token_usage, transcript_files
from hardwon.agents.private_turns import has_private_parent
from hardwon.agents.token_usage import TokenUsage
from hardwon.agents.transcript_steps import Step, load_transcript_module, parse_timestamp
from hardwon.errors import UserError
from hardwon.mining.scan import is_hardwon_call
from hardwon.privacy.cleaning import clean_texts
from hardwon.privacy.private_tags import is_wholly_private
from hardwon.privacy.prompt_text import is_only_for_hardwon
from hardwon.shell import failures
from hardwon.store.activity import count_active_minutes
from hardwon.store.reflection_types import Evidence
from hardwon.text.excerpts import collapse_spaces, split_sentences
from hardwon.types import Call, Turn, frozen, replace

MAX_QUOTE_CHARS = 200
MAX_TYPED_CHARS = 1_500  # characters of a prompt that somebody types
_LONGEST_TEXT = 20_000  # characters of a text that are looked at
_LINES_OF_A_STEP = 400
_DEPTH = 4  # strings of JSON within strings of JSON
# What a quote goes around; a command and the words behind it stand apart in a transcript.
_TAKEN_OUT = re.compile(r"\A/[\w:-]+\s|\[redacted:[\w-]+\]|\[withheld[^\]]*\]|[\x00-\x1f\x7f-\x9f]+")
# "Forget that" gives something up; "don't forget that" and "never forget it" ask for the opposite.
FORGET = r"(?<!n't )(?<!dont )(?<!not )(?<!ever )forget"
# Shells, logs, diffs, lists of findings from a review, and text with an address or a place in front.
_PASTED = re.compile(
    r"[❯$%>✗✓×●⎿☒☐\[{<|+=]|@@|[-=]{2,}|\S+@\S+|\d{4}-\d\d|(?:/|~/|https?:)\S+$|[\w./-]{1,200}\.\w{1,9}:\d+"
    r"|(?:error|warning|traceback|stop says|(?:\d+\. )?(?:critical|high|medium|low)(?: severity)?:)\b"
    r"|(?![\w“‘])[^\x00-\x7f]",
    re.I,
)
_LITERAL = re.compile(rb'"(?:[^"\\]|\\.)*"')


@frozen
class Story:
    """One transcript, read whole and cleaned: private turns are not in it, nor what we said ourselves.

    `usage` is what the transcript counts of tokens, with the sub-agents', None if it tells none; times are in seconds,
    0 if the host tells none, and `active_minutes` leaves pauses out.
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
    is_last_prompt_private: bool = False  # the last prompt was private as a whole


@frozen
class Exchange:
    """What a person asked, None before they first did, and every step until they spoke again."""

    prompt: Step | None
    steps: tuple[Step, ...]


def read_story(path: str, host: str = "") -> Story:
    """The story of a transcript; OSError if it cannot be read, UserError if no host wrote it."""
    path = os.path.realpath(path)
    host = host or transcript_files.detect_agent(path)
    if not host:
        raise UserError(f"{path} is no transcript of an agent we know", "hardwon sessions list")
    counter = token_usage.create_counter()
    every = [] if has_private_parent(path) else list(_steps(host, path, counter))
    for subagent in transcript_files.list_subagent_transcripts(path) if every else ():
        _count_tokens(host, subagent, counter)
    asked = [step.text for step in every if step.kind == "person"]
    steps = _own(list(_visible(every)))
    times = [at for step in steps if (at := parse_timestamp(step.at))]
    cwd = next((step.cwd for step in steps if step.cwd), "")
    return Story(
        path=path,
        agent=host,
        session=steps[-1].session if steps else "",
        project=projects.find_project_path(cwd) if cwd else "",
        cwd=cwd,
        steps=tuple(_clean(steps)),
        started_at=min(times, default=0.0),
        ended_at=max(times, default=0.0),
        active_minutes=count_active_minutes(times),
        usage=token_usage.get_total_usage(counter),
        is_last_prompt_private=bool(asked) and is_wholly_private(asked[-1]),
    )


def _steps(host: str, path: str, counter: token_usage.UsageCounter) -> Iterator[Step]:
    """Yield the steps of a transcript; its tokens are added to the counter when it is read."""
    reader = load_transcript_module(host).Reader()
    with transcript_files.open_transcript(path) as (_, _, portions):
        for lines, _ in portions:
            for number, line in lines:
                yield from reader.read_line(number, line)
    if counted := token_usage.get_total_usage(reader.usage):
        token_usage.count_usage(counter, "", counted)


def _count_tokens(host: str, path: str, counter: token_usage.UsageCounter) -> None:
    """Add the tokens of a sub-agent's transcript."""
    with suppress(OSError):
        for _ in _steps(host, path, counter):
            pass


def _visible(steps: Sequence[Step]) -> Iterator[Step]:
    """Without what follows a wholly private prompt, and without hardwon: calls of it, which print other sessions, what
    was typed to it, and what the agent answered to that."""
    hidden, ours, is_for_us = False, set[str](), False
    for step in steps:
        if step.kind == "person":
            hidden, is_for_us = is_wholly_private(step.text), is_only_for_hardwon(step.text)
        if is_for_us and step.kind in ("person", "agent") and not step.agent:
            continue
        if step.kind == "call" and is_hardwon_call(step):
            ours.add(step.call)
        if not hidden and not (step.call in ours and step.kind in ("call", "result")):
            yield step


def _own(steps: list[Step]) -> list[Step]:
    """The steps of the session that the transcript ends in: a fork begins with a copy of what it was forked from."""
    return [step for step in steps if step.session == steps[-1].session]


def _clean(steps: Sequence[Step]) -> list[Step]:
    """The steps fit to be kept. What is cut is cut afterwards: half a secret, or of a private part, is not known."""
    texts = list({text for step in steps for text in (step.command, step.path, step.content, step.text, step.refused)})
    changed = dict(zip(texts, map(_cut, clean_texts(texts)), strict=True))
    return [
        step._replace(
            command=changed[step.command],
            path=changed[step.path],
            content=changed[step.content],
            text=changed[step.text],
            refused=changed[step.refused],
        )
        for step in steps
    ]


def _cut(text: str) -> str:
    half = _LONGEST_TEXT // 2
    return text if len(text) <= _LONGEST_TEXT else f"{text[:half]}\n{text[-half:]}"


def split_exchanges(story: Story) -> tuple[Exchange, ...]:
    """The steps of the main agent by what the person asked; words in one line of the transcript belong together."""
    found: list[Exchange] = []
    asked: Step | None = None
    own: list[Step] = []
    for step in story.steps:
        if step.agent:
            continue
        if step.kind != "person":
            own.append(step)
            continue
        if asked and not own and step.line == asked.line:
            asked = asked._replace(text=f"{asked.text}\n{step.text}")
            continue
        if asked or own:
            found.append(Exchange(asked, tuple(own)))
        asked, own = step, []
    return (*found, Exchange(asked, tuple(own))) if asked or own else tuple(found)


def get_spoken_sentences(step: Step | None) -> list[str]:
    """The sentences that a person typed: not what they pasted, and nothing of a prompt so long that it was written
    somewhere else."""
    if not step or step.kind != "person" or len(step.text) > MAX_TYPED_CHARS:
        return []
    typed = "\n".join(line for line in step.text.splitlines() if not _PASTED.match(line.lstrip()))
    return [sentence for sentence in split_sentences(typed) if not _PASTED.match(sentence)]


def has_match(sign: re.Pattern[str], sentence: str) -> bool:
    """Whether a sentence has the sign, whichever apostrophe it was typed with."""
    return bool(sign.search(sentence.replace("’", "'")))


def pair_calls(story: Story) -> dict[str, tuple[Step, Step | None]]:
    """Each call with its result, None while there is none, by the key that `turns` gives it."""
    found: dict[str, tuple[Step, Step | None]] = {}
    for step in story.steps:
        if step.kind == "call":
            found[_key(step)] = (step, None)
        elif step.kind == "result" and step.call in found:
            found[step.call] = (found[step.call][0], step)
    return found


def build_turns(story: Story) -> tuple[Turn, ...]:
    """The story as turns, so that whatever is distilled from stored turns can be distilled from it."""
    ended = pair_calls(story)
    return tuple(
        Turn(
            session_row_id=0,
            number=number,
            at=parse_timestamp(one.prompt.at if one.prompt else one.steps[0].at),
            agent=story.agent,
            name=story.session,
            project=story.project,
            cwd=story.cwd,
            prompt=one.prompt.text if one.prompt else "",
            final_message=get_final_message(one),
            calls=tuple(_call(step, ended[_key(step)][1]) for step in one.steps if step.kind == "call"),
        )
        for number, one in enumerate(split_exchanges(story), 1)
    )


def get_final_message(exchange: Exchange) -> str:
    """What the agent said after its last call, else the last that it said at all."""
    said = [step for step in exchange.steps if step.kind == "agent"]
    last = max((place for place, step in enumerate(exchange.steps) if step.kind == "call"), default=-1)
    behind = [step.text for step in exchange.steps[last + 1 :] if step.kind == "agent"]
    return "\n\n".join(behind) if behind else said[-1].text if said else ""


def _key(step: Step) -> str:
    return step.call or step.id


def _call(step: Step, result: Step | None) -> Call:
    given = {"command": step.command, "file_path": step.path, "content": step.content}
    if step.tool in ("Grep", "Glob"):
        given["pattern"] = given.pop("content")
    outcome = _outcome(step, result)
    text = result.text if result else ""
    return Call(
        key=_key(step),
        at=parse_timestamp(step.at),
        tool=step.tool,
        agent=step.agent,
        response=text,
        outcome=outcome,
        input={name: value for name, value in given.items() if value},
        signature=failures.compute_signature(step.tool, step.command, text) if outcome == "failed" else "",
    )


def _outcome(call: Step, result: Step | None) -> str:
    """How a call ended, in the words of stored events; empty while there is no result."""
    if result is None:
        return ""
    if result.refused:
        return "refused"
    if result.denied:
        return "denied"
    failed = result.failed or failures.is_unreported_failure(call.tool, call.command, result.text)
    return "failed" if failed else "fine"


def quote_step(story: Story, step: Step, words: str = "") -> Evidence:
    """The step as evidence: the longest stretch of the words that it has as they are, else its line most like them."""
    fields = (step.text, step.command, step.content, step.path, step.refused)
    own = [part for text in fields for part in _stretches(text)]
    wanted = sorted(_stretches(words), key=len, reverse=True)
    best = next((part for part in wanted if any(part in line for line in own)), "")
    if not best and own:
        about = frozenset(words.split())
        best = max(own, key=lambda line: len(about.intersection(line.split())))
    found = Evidence(story.path, step.line, _within(best))
    return _placed(found) if transcript_files.is_single_document(story.path) else found


def _placed(evidence: Evidence) -> Evidence:
    """The same with the line that has the quote: what a document tells of one step stands in several lines."""
    for number, line in transcript_files.read_lines(evidence.path, evidence.line, _LINES_OF_A_STEP + 1):
        if _says(line, evidence.quote, _DEPTH):
            return replace(evidence, line=number)
    return evidence


def _stretches(text: str) -> list[str]:
    """The pieces of a text that stand in the transcript as they are."""
    return [line for part in _TAKEN_OUT.split(text) if (line := collapse_spaces(part))]


def _within(part: str) -> str:
    return part if len(part) <= MAX_QUOTE_CHARS else part[:MAX_QUOTE_CHARS].rpartition(" ")[0] or part[:MAX_QUOTE_CHARS]


def is_quote_in_source(evidence: Evidence) -> bool:
    """Whether the quote stands in its line of its transcript, or of its page."""
    try:
        line = b"".join(text for _, text in transcript_files.read_lines(evidence.path, evidence.line, 1))
    except OSError:
        return False
    wanted = collapse_spaces(evidence.quote)
    return bool(wanted) and (wanted in collapse_spaces(line.decode("utf-8", "replace")) or _says(line, wanted, _DEPTH))


def _says(line: bytes, wanted: str, depth: int) -> bool:
    for found in _LITERAL.finditer(line):
        try:
            text = orjson.loads(found[0])
        except orjson.JSONDecodeError:
            continue
        if wanted in collapse_spaces(text) or (depth and '"' in text and _says(text.encode(), wanted, depth - 1)):
            return True
    return False
