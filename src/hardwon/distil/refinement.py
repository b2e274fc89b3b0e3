"""Plain observations made better by a model, where its answer holds; where it does not, the plain ones stay.

A turn's calls go out in groups, each call once: nothing that was sent is sent again, a later group is told only what
was asked and the titles noted so far. The events stand between marks made from a hash of themselves, which no text can
hold beforehand, so nothing in them can end the data and go on as instructions. Every quote and every file has to stand
in the events it describes: one that does not is left out, and an observation goes if most of its quotes are false. What
is left of the answer counts. It is not asked for again: a second answer costs as much and is no more likely to hold.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from hashlib import blake2b
from importlib.resources import files
from typing import Protocol, TypeVar

from hardwon.distil import model_answers
from hardwon.distil.llm.exchange import Answer, Broken, Busy, Capped, Question, Refused
from hardwon.distil.model_answers import ModelObservation, ModelSummary
from hardwon.distil.observation_types import ObservationLabel, load_labels
from hardwon.distil.tool_actions import ToolAction, classify_calls, estimate_call_tokens, to_relative_path
from hardwon.privacy.cleaning import clean_text
from hardwon.privacy.private_tags import map_strings
from hardwon.privacy.truncation import trim_text, trim_value
from hardwon.text.excerpts import collapse_spaces
from hardwon.text.light_json import dumps
from hardwon.types import Observation, Summary, Turn, frozen, replace

MAX_GROUP_CHARS = 24_000  # characters of calls in one prompt
MAX_INPUT_CHARS, MAX_RESPONSE_CHARS = 3_000, 3_000  # characters of each call
MAX_PROMPT_CHARS, MAX_FINAL_MESSAGE_CHARS = 2_000, 2_000
MAX_CONTEXT_CHARS = 400  # of what was asked, and of what is noted, in the later prompts
MAX_SUMMARISED_CHARS = 24_000
READ_ONLY_KINDS = frozenset(
    {"read", "searched", "fetched", "looked", "noise", "agent"}
)  # kinds of calls that change no file
_SLOT = re.compile(r"\{\{(\w+)\}\}")
_LEAST_FILE = 2

T = TypeVar("T")


class AskModel(Protocol):
    """Sends a question and gives what `read` makes of the answer."""

    def __call__(self, question: Question, read: Callable[[Answer], T], /) -> T: ...


@frozen
class SentCall:
    """A call as the model sees it: its text, the part of it that the agent wrote, and whether it can change files."""

    key: str
    text: str
    agent_text: str
    can_change_files: bool
    tokens: int
    at: float


def refine_turn(turn: Turn, plain: Sequence[Observation], ask: AskModel) -> list[Observation] | None:
    """The turn's observations with the model's in place of the plain ones it covers; None if it gave none.

    Where the model is busy or a cap is reached, what was answered before is not thrown away.
    """
    if not plain:
        return None
    made, covered = list[Observation](), set[str]()
    groups = _groups(turn)
    whole = True
    for number, group in enumerate(groups):
        try:
            found, is_complete = ask(*_question(turn, group, number, made, last=number == len(groups) - 1))
        except (Busy, Capped):
            if not made:
                raise
            whole = False
            break
        except (Refused, Broken):
            found, is_complete = [], False
        made += found
        if found and is_complete:
            covered |= {call.key for call in group}
        else:
            # The plain observations stand in for the ones that did not hold.
            covered |= {key for observation in found for key in observation.events}
        whole = whole and bool(found) and is_complete
    if not made:
        return None
    kept = [one for one in plain if not (whole or (one.events and covered.issuperset(one.events)))]
    return sorted([*kept, *made], key=lambda one: one.at)


def _groups(turn: Turn) -> list[list[SentCall]]:
    """The calls in order, cut where a prompt would get too long; one group even without calls."""
    groups, size = [list[SentCall]()], 0
    for call in map(_shown, classify_calls(turn)):
        if groups[-1] and size + len(call.text) > MAX_GROUP_CHARS:
            groups.append([])
            size = 0
        groups[-1].append(call)
        size += len(call.text)
    return groups


def _shown(deed: ToolAction) -> SentCall:
    call = deed.call
    wrote = trim_text(_as_text(map_strings(call.input, lambda text, _: clean_text(text))), MAX_INPUT_CHARS)
    response = trim_text(clean_text(deed.text), MAX_RESPONSE_CHARS)
    by = f" by {call.agent}" if call.agent else ""
    text = f"call {call.tool}{by} ({call.outcome})\n{wrote}\nresult:\n{response}\n"
    return SentCall(call.key, text, wrote, deed.kind not in READ_ONLY_KINDS, estimate_call_tokens(call), call.at)


def _as_text(given: object) -> str:
    """A call's input with its texts as they are: escaped, they could not be quoted."""
    cut = trim_value(given, MAX_INPUT_CHARS, 2 * MAX_INPUT_CHARS)
    if isinstance(cut, dict):
        return "\n".join(f"{name}: {value if isinstance(value, str) else dumps(value)}" for name, value in cut.items())
    return cut if isinstance(cut, str) else dumps(cut)


def _question(
    turn: Turn, group: list[SentCall], number: int, made: Sequence[Observation], *, last: bool
) -> tuple[Question, Callable[[Answer], tuple[list[Observation], bool]]]:
    said = trim_text(clean_text(turn.final_message), MAX_FINAL_MESSAGE_CHARS) if last else ""
    asked = trim_text(clean_text(turn.prompt), MAX_CONTEXT_CHARS if number else MAX_PROMPT_CHARS)
    events = "\n".join([*(call.text for call in group), *((f"the agent said at the end:\n{said}",) if said else ())])
    noted = trim_text("\n".join(f"- {one.title}" for one in made), MAX_CONTEXT_CHARS)
    prompt = _marked("continuation" if number else "initial", asked=asked, noted=noted, events=events)

    def read(answer: Answer) -> tuple[list[Observation], bool]:
        types, concepts = _names()
        told = model_answers.parse_observations(answer.text, types, concepts)
        checked = [_without_untrue(one, group, f"{asked}\n{events}") for one in told]
        held = [one for one in checked if one is not None]
        if told and not held:
            raise _untrue(f"most quotes are not in the events, such as {told[0].quotes[0][:80]!r}")
        found = [_observation(turn, one, group, number, place, answer, held) for place, one in enumerate(held)]
        return found, len(held) == len(told)

    return Question(_instructions(), prompt, "observation"), read


def _without_untrue(told: ModelObservation, group: Sequence[SentCall], events: str) -> ModelObservation | None:
    """Return an observation without the quotes and files that stand nowhere in what was sent.

    None if fewer than half of its quotes are true: what is left would rest on too little.
    """
    quotes = _true_quotes(told.quotes, events)
    if 2 * len(quotes) < len(told.quotes):
        return None
    wrote = "\n".join(call.agent_text for call in group if call.can_change_files)
    files_read = tuple(file for file in told.files_read if _stands(file, events))
    files_modified = tuple(file for file in told.files_modified if _stands(file, wrote))
    return replace(told, quotes=quotes, files_read=files_read, files_modified=files_modified)


def _true_quotes(quotes: Iterable[str], sent: str) -> tuple[str, ...]:
    said = collapse_spaces(sent)
    return tuple(quote for quote in quotes if collapse_spaces(quote) in said)


def _stands(file: str, text: str) -> bool:
    """Whether the path stands in a text as a whole, not as a part of another name."""
    return len(file) >= _LEAST_FILE and bool(re.search(rf"(?<![\w.-]){re.escape(file)}(?![\w/-]|\.\w)", text))


def _observation(
    turn: Turn,
    told: ModelObservation,
    group: Sequence[SentCall],
    number: int,
    place: int,
    answer: Answer,
    every: Sequence[ModelObservation],
) -> Observation:
    """The calls that it quotes or names files of are where it came from; all of the group if those are none."""
    texts = [(call, collapse_spaces(call.text)) for call in group]
    quoted = {call.key for call, text in texts for quote in told.quotes if collapse_spaces(quote) in text}
    named = {
        call.key
        for call in group
        for file in told.files_modified
        if call.can_change_files and _stands(file, call.agent_text)
    }
    source = [call for call in group if call.key in quoted | named] or list(group)
    roots = tuple(f"{root.rstrip('/')}/" for root in (turn.project, turn.cwd) if root.startswith("/"))
    whole = "\0".join((turn.agent, turn.name, "model", str(turn.number), str(number), str(place)))
    return Observation(
        key=blake2b(whole.encode("utf-8", "replace"), digest_size=12).hexdigest(),
        at=source[0].at if source else turn.at,
        type=told.type,
        title=told.title,
        subtitle=told.subtitle,
        narrative=told.narrative,
        facts=told.facts,
        concepts=told.concepts,
        files_read=tuple(to_relative_path(file, roots) for file in told.files_read),
        files_modified=tuple(to_relative_path(file, roots) for file in told.files_modified),
        events=tuple(call.key for call in source),
        tokens=sum(call.tokens for call in group) // len(every),
        made=answer.model,
    )


def refine_summary(
    turns: Sequence[Turn], observations: Sequence[Observation], plain: Summary, ask: AskModel
) -> Summary | None:
    """The session's summary in a model's words; None if the plain one stays."""
    sent = _session(turns, observations)
    question = Question(_template("summary"), _between(sent), "summary", 2_000)

    def read(answer: Answer) -> tuple[ModelSummary | None, str]:
        told = model_answers.parse_summary(answer.text)
        if told and 2 * len(_true_quotes(told.quotes, sent)) < len(told.quotes):
            raise _untrue(f"most quotes are not in the session, such as {told.quotes[0][:80]!r}")
        return told, answer.model

    try:
        told, model = ask(question, read)
    except (Refused, Broken):
        return None
    if told is None:
        return None
    return Summary(
        plain.key, plain.at, told.request, told.investigated, told.learned, told.completed, told.next_steps, model
    )


def _session(turns: Sequence[Turn], observations: Sequence[Observation]) -> str:
    """What is known of a session in one prompt; of a long one the beginning and the end."""
    asked = [f"asked:\n{trim_text(clean_text(turn.prompt), MAX_CONTEXT_CHARS)}\n" for turn in turns if turn.prompt]
    noted = [
        "\n".join(
            (f"noted: {one.type}: {one.title}", *(f"- {fact}" for fact in one.facts[:6]), trim_text(one.narrative, 400))
        )
        for one in observations
    ]
    said = trim_text(
        clean_text(next((turn.final_message for turn in reversed(turns) if turn.final_message), "")),
        MAX_FINAL_MESSAGE_CHARS,
    )
    return "\n".join(
        (
            trim_text("\n".join(asked), MAX_SUMMARISED_CHARS // 3),
            trim_text(clean_text("\n".join(noted)), MAX_SUMMARISED_CHARS // 2),
            f"the agent said at the end:\n{said}",
        )
    )


@lru_cache(maxsize=1)
def _instructions() -> str:
    types, concepts = (
        "\n".join(f"  - `{name}`: {meaning}" for name, meaning in _meanings(rows).items()) for rows in load_labels()
    )
    return _filled(_template("observation"), most=str(model_answers.MAX_OBSERVATIONS), types=types, concepts=concepts)


def _names() -> tuple[frozenset[str], frozenset[str]]:
    types, concepts = load_labels()
    return frozenset(kind.name for kind in types), frozenset(kind.name for kind in concepts)


def _meanings(rows: Iterable[ObservationLabel]) -> dict[str, str]:
    """Names with what they mean; one that stands in the table twice has both meanings."""
    found = dict[str, str]()
    for row in rows:
        found[row.name] = f"{found[row.name]}; or {row.meaning}" if row.name in found else row.meaning
    return found


def _marked(name: str, **parts: str) -> str:
    return _filled(_template(name), mark=_mark("\0".join(parts.values())), **parts)


def _between(text: str) -> str:
    mark = _mark(text)
    return f"{mark}\n{text}\n{mark}\n"


def _mark(text: str) -> str:
    return f"===== data {blake2b(text.encode('utf-8', 'replace'), digest_size=8).hexdigest()} ====="


def _filled(template: str, **parts: str) -> str:
    """The template with each slot filled once; a slot in what is filled in stays as it is."""
    return _SLOT.sub(lambda found: parts.get(found[1], ""), template)


@lru_cache(maxsize=4)
def _template(name: str) -> str:
    return files("hardwon.distil").joinpath("prompts", f"{name}.md").read_text("utf-8")


def _untrue(what: str) -> Broken:
    return Broken(what, outcome="untrue")
