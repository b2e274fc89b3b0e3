"""Improve plain observations with a model; where its answer fails the checks, the plain ones stay.

A turn's calls are sent in groups, each call once; later groups get only the request and the titles so far. The events
are enclosed in markers made from a hash of their own text, so nothing in them can end the data and continue as
instructions. Every quote and file must occur in the events: a false one is dropped, and an observation is dropped if
most of its quotes are false. There is no second attempt: it would cost as much and be no more likely to hold.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from hashlib import blake2b
from html import unescape
from importlib.resources import files
from typing import Any, Protocol, TypeVar

from hardwon.distil.llm.exchange import Answer, Broken, Busy, Capped, Question, Refused
from hardwon.distil.observations import ObservationLabel, load_labels
from hardwon.distil.tool_actions import ToolAction, classify_calls, estimate_call_tokens, to_relative_path
from hardwon.privacy.cleaning import clean_text
from hardwon.privacy.private_tags import map_strings
from hardwon.privacy.truncation import trim_text, trim_value
from hardwon.text.excerpts import collapse_spaces, shorten_line
from hardwon.text.light_json import dumps
from hardwon.types import Observation, Summary, Turn, frozen, replace

MAX_GROUP_CHARS = 24_000  # calls in one prompt
_MAX_INPUT_CHARS, _MAX_RESPONSE_CHARS = 3_000, 3_000  # limits for one call
MAX_PROMPT_CHARS, _MAX_FINAL_MESSAGE_CHARS = 2_000, 2_000
_MAX_CONTEXT_CHARS = 400  # limits for the request and for the notes in later prompts
_MAX_SUMMARISED_CHARS = 24_000
_READ_ONLY_KINDS = frozenset({"read", "searched", "fetched", "looked", "noise", "agent"})  # these change no file
_TEMPLATE_SLOT = re.compile(r"\{\{(\w+)\}\}")
_MIN_FILE_CHARS = 2

T = TypeVar("T")
MAX_ANSWER_CHARS = 40_000  # longest answer accepted
_MAX_OBSERVATIONS = 4
MIN_QUOTE_CHARS = 5
# The most items of each element, and the longest text of each.
_MAX_TEXT_CHARS = {"type": 40, "title": 120, "subtitle": 240, "narrative": 2_000}
_LIST_LIMITS = {
    "facts": ("fact", 15, 400),
    "concepts": ("concept", 5, 40),
    "files_read": ("file", 30, 400),
    "files_modified": ("file", 30, 400),
    "quotes": ("quote", 5, 400),
}
_MAX_SUMMARY_CHARS = {"request": 600, "investigated": 1_000, "learned": 1_000, "completed": 1_000, "next_steps": 1_000}
_SKIP = re.compile(r"<skip\s*/>|<skip>\s*</skip>")
_FALLBACK_TYPE = "discovery"
_TAG_NAMES = "|".join(
    [*_MAX_TEXT_CHARS, *_LIST_LIMITS, *_MAX_SUMMARY_CHARS, *{row[0] for row in _LIST_LIMITS.values()}]
)
_OWN_TAG = re.compile(rf"</?(?:{_TAG_NAMES})(?:\s[^<>]*)?/?>|<!\[CDATA\[|\]\]>")  # models write these inside text


class AskModel(Protocol):
    """Send a question and return what `read` makes of the answer."""

    def __call__(self, question: Question, read_answer: Callable[[Answer], T], /) -> T: ...


@frozen
class SentCall:
    """A call as the model sees it: its text, the part the agent wrote, and whether it can change files."""

    key: str
    text: str
    agent_text: str
    can_change_files: bool
    tokens: int
    at: float


def refine_turn(turn: Turn, plain: Sequence[Observation], ask: AskModel) -> list[Observation] | None:
    """Replace plain observations by the model's where those cover them; None if the model gave none.

    If the model is busy or a cap is reached, earlier answers are kept.
    """
    # Plain code ignores calls that only read; a model may find something in them.
    if not plain and all(action.kind == "noise" for action in classify_calls(turn)):
        return None
    refined = list[Observation]()
    covered = set[str]()
    groups = _group_calls(turn)
    is_fully_refined = True
    for number, group in enumerate(groups):
        try:
            observations, is_complete = ask(
                *_build_question(turn, group, number, refined, is_last=number == len(groups) - 1)
            )
        except (Busy, Capped):
            if not refined:
                raise
            is_fully_refined = False
            break
        except (Refused, Broken):
            observations, is_complete = [], False
        refined += observations
        if observations and is_complete:
            covered |= {call.key for call in group}
        else:
            # Keep the plain observations for the calls that no accepted observation covers.
            covered |= {key for observation in observations for key in observation.events}
        is_fully_refined = is_fully_refined and bool(observations) and is_complete
    if not refined:
        return None
    remaining = [item for item in plain if not (is_fully_refined or (item.events and covered.issuperset(item.events)))]
    return sorted([*remaining, *refined], key=lambda item: item.at)


def _group_calls(turn: Turn) -> list[list[SentCall]]:
    """Group the calls in order, so that each group fits a prompt; without calls there is one empty group."""
    groups = [list[SentCall]()]
    size = 0
    for call in map(_build_sent_call, classify_calls(turn)):
        if groups[-1] and size + len(call.text) > MAX_GROUP_CHARS:
            groups.append([])
            size = 0
        groups[-1].append(call)
        size += len(call.text)
    return groups


def _build_sent_call(action: ToolAction) -> SentCall:
    """Build a call as it is sent to the model: redacted, its input and result shortened."""
    call = action.call
    input_text = trim_text(_format_input(map_strings(call.input, lambda text, _: clean_text(text))), _MAX_INPUT_CHARS)
    response = trim_text(clean_text(action.text), _MAX_RESPONSE_CHARS)
    agent_suffix = f" by {call.subagent_id}" if call.subagent_id else ""
    text = f"call {call.tool}{agent_suffix} ({call.outcome})\n{input_text}\nresult:\n{response}\n"
    return SentCall(
        call.key, text, input_text, action.kind not in _READ_ONLY_KINDS, estimate_call_tokens(call), call.at
    )


def _format_input(call_input: object) -> str:
    """Format a call's input without escaping its texts, so that they can be quoted exactly."""
    trimmed = trim_value(call_input, _MAX_INPUT_CHARS, 2 * _MAX_INPUT_CHARS)
    if isinstance(trimmed, dict):
        return "\n".join(
            f"{name}: {value if isinstance(value, str) else dumps(value)}" for name, value in trimmed.items()
        )
    return trimmed if isinstance(trimmed, str) else dumps(trimmed)


def _build_question(
    turn: Turn, group: list[SentCall], number: int, refined: Sequence[Observation], *, is_last: bool
) -> tuple[Question, Callable[[Answer], tuple[list[Observation], bool]]]:
    """Build the question about a group of calls, and the function that reads its answer.

    That function returns the observations which quote what was sent, and whether all of the answer's do.
    """
    final_message = trim_text(clean_text(turn.final_message), _MAX_FINAL_MESSAGE_CHARS) if is_last else ""
    request = trim_text(clean_text(turn.prompt), _MAX_CONTEXT_CHARS if number else MAX_PROMPT_CHARS)
    event_texts = [call.text for call in group]
    if final_message:
        event_texts.append(f"the agent said at the end:\n{final_message}")
    events = "\n".join(event_texts)
    noted_titles = trim_text("\n".join(f"- {observation.title}" for observation in refined), _MAX_CONTEXT_CHARS)
    prompt = _fill_marked("continuation" if number else "initial", asked=request, noted=noted_titles, events=events)

    def read_answer(answer: Answer) -> tuple[list[Observation], bool]:
        types, concepts = _list_label_names()
        parsed = parse_observations(answer.text, types, concepts)
        checked = [_drop_untrue(item, group, f"{request}\n{events}") for item in parsed]
        verified = [item for item in checked if item is not None]
        if parsed and not verified:
            raise _build_untrue_error(f"most quotes are not in the events, such as {parsed[0].quotes[0][:80]!r}")
        observations = [
            _build_observation(turn, item, group, number, position, answer, verified)
            for position, item in enumerate(verified)
        ]
        return observations, len(verified) == len(parsed)

    return Question(_build_instructions(), prompt, "observation"), read_answer


def _drop_untrue(parsed: ModelObservation, group: Sequence[SentCall], events: str) -> ModelObservation | None:
    """Return the observation without quotes and files that do not occur in what was sent.

    None if fewer than half of its quotes are true: the rest would have too little support.
    """
    quotes = _select_true_quotes(parsed.quotes, events)
    if 2 * len(quotes) < len(parsed.quotes):
        return None
    written_text = "\n".join(call.agent_text for call in group if call.can_change_files)
    files_read = tuple(file for file in parsed.files_read if _is_path_in(file, events))
    files_modified = tuple(file for file in parsed.files_modified if _is_path_in(file, written_text))
    return replace(parsed, quotes=quotes, files_read=files_read, files_modified=files_modified)


def _select_true_quotes(quotes: Iterable[str], sent: str) -> tuple[str, ...]:
    collapsed = collapse_spaces(sent)
    return tuple(quote for quote in quotes if collapse_spaces(quote) in collapsed)


def _is_path_in(file: str, text: str) -> bool:
    """Return whether the path occurs in a text as a whole, not as part of another name."""
    return len(file) >= _MIN_FILE_CHARS and bool(re.search(rf"(?<![\w.-]){re.escape(file)}(?![\w/-]|\.\w)", text))


def _build_observation(
    turn: Turn,
    parsed: ModelObservation,
    group: Sequence[SentCall],
    number: int,
    position: int,
    answer: Answer,
    verified: Sequence[ModelObservation],
) -> Observation:
    """Build the observation with the calls it quotes or whose files it names, or else all of the group."""
    quotes = [collapse_spaces(quote) for quote in parsed.quotes]
    source_calls: list[SentCall] = []
    for call in group:
        text = collapse_spaces(call.text)
        is_quoted = any(quote in text for quote in quotes)
        changes_file = call.can_change_files and any(
            _is_path_in(file, call.agent_text) for file in parsed.files_modified
        )
        if is_quoted or changes_file:
            source_calls.append(call)
    source_calls = source_calls or list(group)
    roots = tuple(f"{root.rstrip('/')}/" for root in (turn.project, turn.cwd) if root.startswith("/"))
    identity = "\0".join((turn.agent, turn.name, "model", str(turn.number), str(number), str(position)))
    return Observation(
        key=blake2b(identity.encode("utf-8", "replace"), digest_size=12).hexdigest(),
        at=source_calls[0].at if source_calls else turn.at,
        type=parsed.type,
        title=parsed.title,
        subtitle=parsed.subtitle,
        narrative=parsed.narrative,
        facts=parsed.facts,
        concepts=parsed.concepts,
        files_read=tuple(to_relative_path(file, roots) for file in parsed.files_read),
        files_modified=tuple(to_relative_path(file, roots) for file in parsed.files_modified),
        events=tuple(call.key for call in source_calls),
        tokens=sum(call.tokens for call in group) // len(verified),
        made=answer.model,
    )


def refine_summary(
    turns: Sequence[Turn], observations: Sequence[Observation], plain: Summary, ask: AskModel
) -> Summary | None:
    """Rewrite the session's summary with a model; None if the plain one stays."""
    sent = _describe_session(turns, observations)
    question = Question(_load_template("summary"), _wrap_in_marks(sent), "summary", 2_000)

    def read_answer(answer: Answer) -> tuple[ModelSummary | None, str]:
        parsed = parse_summary(answer.text)
        if parsed and 2 * len(_select_true_quotes(parsed.quotes, sent)) < len(parsed.quotes):
            raise _build_untrue_error(f"most quotes are not in the session, such as {parsed.quotes[0][:80]!r}")
        return parsed, answer.model

    try:
        model_summary, model = ask(question, read_answer)
    except (Refused, Broken):
        return None
    if model_summary is None:
        return None
    return Summary(
        plain.key,
        plain.at,
        model_summary.request,
        model_summary.investigated,
        model_summary.learned,
        model_summary.completed,
        model_summary.next_steps,
        model,
    )


def _describe_session(turns: Sequence[Turn], observations: Sequence[Observation]) -> str:
    """Describe a session in one prompt; a long one is cut in the middle."""
    requests = [f"asked:\n{trim_text(clean_text(turn.prompt), _MAX_CONTEXT_CHARS)}\n" for turn in turns if turn.prompt]
    notes = []
    for observation in observations:
        notes.append(f"noted: {observation.type}: {observation.title}")
        notes += [f"- {fact}" for fact in observation.facts[:6]]
        notes.append(trim_text(observation.narrative, 400))
    last_message = next((turn.final_message for turn in reversed(turns) if turn.final_message), "")
    final_message = trim_text(clean_text(last_message), _MAX_FINAL_MESSAGE_CHARS)
    return "\n".join(
        (
            trim_text("\n".join(requests), _MAX_SUMMARISED_CHARS // 3),
            trim_text(clean_text("\n".join(notes)), _MAX_SUMMARISED_CHARS // 2),
            f"the agent said at the end:\n{final_message}",
        )
    )


@lru_cache(maxsize=1)
def _build_instructions() -> str:
    types, concepts = (
        "\n".join(f"  - `{name}`: {meaning}" for name, meaning in _collect_meanings(rows).items())
        for rows in load_labels()
    )
    return _fill_template(_load_template("observation"), most=str(_MAX_OBSERVATIONS), types=types, concepts=concepts)


def _list_label_names() -> tuple[frozenset[str], frozenset[str]]:
    types, concepts = load_labels()
    return frozenset(label.name for label in types), frozenset(label.name for label in concepts)


def _collect_meanings(rows: Iterable[ObservationLabel]) -> dict[str, str]:
    """Return names with their meanings; a name that occurs twice gets both."""
    meanings = dict[str, str]()
    for row in rows:
        meanings[row.name] = f"{meanings[row.name]}; or {row.meaning}" if row.name in meanings else row.meaning
    return meanings


def _fill_marked(name: str, **parts: str) -> str:
    return _fill_template(_load_template(name), mark=_build_mark("\0".join(parts.values())), **parts)


def _wrap_in_marks(text: str) -> str:
    mark = _build_mark(text)
    return f"{mark}\n{text}\n{mark}\n"


def _build_mark(text: str) -> str:
    return f"===== data {blake2b(text.encode('utf-8', 'replace'), digest_size=8).hexdigest()} ====="


def _fill_template(template: str, **parts: str) -> str:
    """Fill each slot of the template once; slots inside the inserted text are left alone."""
    return _TEMPLATE_SLOT.sub(lambda match: parts.get(match[1], ""), template)


@lru_cache(maxsize=4)
def _load_template(name: str) -> str:
    return files("hardwon.distil").joinpath("prompts", f"{name}.md").read_text("utf-8")


def _build_untrue_error(reason: str) -> Broken:
    return Broken(reason, outcome="untrue")


@frozen
class ModelObservation:
    """An observation from a model, not checked against the events yet."""

    type: str
    title: str
    subtitle: str = ""
    narrative: str = ""
    facts: tuple[str, ...] = ()
    concepts: tuple[str, ...] = ()
    files_read: tuple[str, ...] = ()
    files_modified: tuple[str, ...] = ()
    quotes: tuple[str, ...] = ()


@frozen
class ModelSummary:
    """A summary from a model, not checked yet."""

    request: str
    investigated: str = ""
    learned: str = ""
    completed: str = ""
    next_steps: str = ""
    quotes: tuple[str, ...] = ()


def parse_observations(text: str, types: Collection[str], concepts: Collection[str]) -> tuple[ModelObservation, ...]:
    """Parse the observations, none for `<skip/>`; Broken if the answer has nothing usable."""
    _check_size(text)
    observations = list[ModelObservation]()
    for element in _find_elements(text, "observation"):
        parts = _read_parts(element, _MAX_TEXT_CHARS, _LIST_LIMITS)
        if not parts.get("title") or not parts.get("quotes"):
            continue  # without a quote nothing can be checked
        if parts.get("type") not in types:
            parts["type"] = _FALLBACK_TYPE  # a wrong label is no reason to drop the content
        parts["concepts"] = tuple(name for name in parts.get("concepts", ()) if name in concepts)
        observations.append(ModelObservation(**parts))
    if not observations and ("<observation>" in text or not _SKIP.search(text)):
        raise _build_error("no observation that can be read")
    return tuple(observations[:_MAX_OBSERVATIONS])


def parse_summary(text: str) -> ModelSummary | None:
    """Parse the summary, None for `<skip/>`; Broken if the answer has nothing usable."""
    _check_size(text)
    for element in _find_elements(text, "summary"):
        parts = _read_parts(element, _MAX_SUMMARY_CHARS, {"quotes": _LIST_LIMITS["quotes"]})
        if parts.get("request") and parts.get("quotes"):
            return ModelSummary(**parts)
    if _SKIP.search(text):
        return None
    raise _build_error("no summary with a request and a quote")


def _check_size(text: str) -> None:
    if len(text) > MAX_ANSWER_CHARS:
        raise _build_error(f"{len(text):,} characters, and {MAX_ANSWER_CHARS:,} may be")


def _find_elements(text: str, name: str) -> Iterator[str]:
    """Yield the content of each closed element of this name; attributes are ignored."""
    opening = re.compile(rf"<{name}(?:\s[^<>]*)?>")
    closing = re.compile(rf"</{name}\s*>")
    position = 0
    while (start := opening.search(text, position)) and (end := closing.search(text, start.end())):
        yield text[start.end() : end.start()]
        position = end.end()


def _read_parts(
    element: str, text_limits: Mapping[str, int], list_limits: Mapping[str, tuple[str, int, int]]
) -> dict[str, Any]:
    """Parse the texts and lists in an element; if one occurs twice, the first counts."""
    parts = dict[str, Any]()
    for name, max_chars in text_limits.items():
        if content := next(_find_elements(element, name), ""):
            parts[name] = shorten_line(_to_clean_text(content), max_chars)
    for name, (item_name, max_items, max_chars) in list_limits.items():
        items = _find_elements(next(_find_elements(element, name), ""), item_name)
        texts = (_fit_text(item_name, _to_clean_text(item), max_chars) for item in items)
        parts[name] = tuple(dict.fromkeys(text for text in texts if text))[:max_items]
    return parts


def _to_clean_text(content: str) -> str:
    plain = unescape(_OWN_TAG.sub(" ", content)).encode("utf-8", "replace").decode()
    return clean_text(" ".join(plain.split()))


def _fit_text(name: str, text: str, max_chars: int) -> str:
    """Shorten a list item; quotes and paths stay exact because they are looked up."""
    if name == "quote":
        return text[:max_chars].rstrip() if len(text) >= MIN_QUOTE_CHARS else ""
    if name == "file":
        return text if len(text) <= max_chars else ""
    return shorten_line(text, max_chars)


def _build_error(reason: str) -> Broken:
    return Broken(f"the answer is not as asked for: {reason}", outcome="malformed")
