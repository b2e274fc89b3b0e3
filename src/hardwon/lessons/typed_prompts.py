"""Recognise prompts that a person types to hardwon: a decision, a lesson, or something to remember."""

from __future__ import annotations

from hardwon.types import frozen

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from hardwon.types import Event

MAX_NAMES = 18
MAX_PROMPT_CHARS = 100_000  # redacting a longer prompt takes more time than a hook has
MAX_MEMORY_PROMPT_CHARS = 400  # a longer prompt is not an instruction to remember something
_MIN_SLUG_CHARS = 6
_VERBS_BY_TOPIC = {
    "": ("accept", "reject", "undo"),
    "handoff": ("ratify", "discard"),
    "memory": ("approve", "reject", "retire"),
}
_SHORT_FORMS = {"ratify": "handoff", "discard": "handoff", "approve": "memory"}


def is_remember_prompt(prompt: str) -> bool:
    """Return whether a prompt may ask to remember something; `memories.typed_memory` decides."""
    text = prompt.strip()
    if len(text) > MAX_MEMORY_PROMPT_CHARS or "\n" in text or text.endswith("?"):
        return False
    words = text[:40].lower().replace(",", " ").split()
    if words[:1] == ["please"]:
        words = words[1:]
    return words[:2] == ["remember", "that"] or words[:2] == ["remember", "that:"]


def is_answered_by_hardwon(event: Event) -> bool:
    """Return whether hardwon answers this prompt and the model does not see it, so that it is not recorded."""
    is_typed = event.kind == "UserPromptSubmit" and not event.agent and event.source != "command"
    if not is_typed or not can_be_for_hardwon(event.prompt):
        return False
    from hardwon.text.lesson_tags import has_only_blocks  # imported late because few prompts get here

    return parse_decision(event.prompt.split()) is not None or has_only_blocks(event.prompt)


def is_allow_command(prompt_words: Sequence[str]) -> bool:
    """Return whether a prompt lifts a block for its session."""
    return prompt_words[:2] == ["hardwon", "allow"] and len(prompt_words) == 3


def can_be_for_hardwon(prompt: str) -> bool:
    """Return whether a prompt is a decision or may contain a lesson."""
    if len(prompt) > MAX_PROMPT_CHARS:
        return False
    lowered = prompt.lower()
    return bool(parse_decision(prompt.split()) or ("#lesson" in lowered and "#/lesson" in lowered))


@frozen
class TypedDecision:
    """A decision that a person typed; without a topic, each name says what it is about: L3, M3, H3."""

    topic: str
    verb: str
    names: tuple[str, ...]


def parse_decision(prompt_words: Sequence[str]) -> TypedDecision | None:
    """Parse a typed decision; None for anything else, such as a sentence that only begins like one.

    Both the full command and its short form count: `hardwon handoff ratify 3`, `hardwon ratify 3`.
    """
    if list(prompt_words) == ["hardwon", "undo"]:
        return TypedDecision(topic="", verb="undo", names=("",))  # the last decision, whatever it was about
    if len(prompt_words) < 3 or prompt_words[0] != "hardwon":
        return None
    verb, names = prompt_words[1], tuple(prompt_words[2:])
    topic = _SHORT_FORMS.get(verb, "")
    if verb in _VERBS_BY_TOPIC:
        topic, verb, names = verb, names[0], names[1:]
    is_valid = 0 < len(names) < MAX_NAMES and all(map(_is_name, names))
    return TypedDecision(topic, verb, names) if is_valid and verb in _VERBS_BY_TOPIC[topic] else None


def _is_name(word: str) -> bool:
    """Return whether a word is a number, with or without its letter, a slug or a session id."""
    number = word[1:].removeprefix(":") if word[:1].upper() in ("L", "M", "H") else word  # L3 or L:3
    is_slug_or_session = len(word) >= _MIN_SLUG_CHARS and "-" in word[1:-1]
    return number.isdigit() or is_slug_or_session
