"""Recognise what a person typed to hardwon: decisions, lessons, and what to remember.

The fallback imports this module, so keep its imports light. `actions.decisions` carries the decisions out.
"""

from __future__ import annotations

from hardwon import paths
from hardwon.types import HookReply, frozen

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from hardwon.types import Event

REFUSED_DECISION = "a decision was not carried out"
_MAX_REFUSED_CHARS = 200  # shown part of a refused decision
MAX_PROMPT_CHARS = 100_000  # redacting a longer prompt takes more time than a hook has
_MAX_MEMORY_PROMPT_CHARS = 400  # a longer prompt is not an instruction to remember something
_MAX_NAMES = 18
_MIN_SLUG_CHARS = 6
_VERBS_BY_TOPIC = {
    "": ("accept", "reject", "undo"),
    "handoff": ("ratify", "discard"),
    "memory": ("approve", "reject", "retire"),
}
_TOPICS_OF_SHORT_FORMS = {"ratify": "handoff", "discard": "handoff", "approve": "memory"}


def can_be_for_hardwon(prompt: str) -> bool:
    """Return whether a prompt is a decision or may contain a lesson."""
    if len(prompt) > MAX_PROMPT_CHARS:
        return False
    if parse_decision(prompt.split()) is not None:
        return True
    lowered = prompt.lower()
    return "#lesson" in lowered and "#/lesson" in lowered


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
    second_word = prompt_words[1]
    if second_word in _VERBS_BY_TOPIC:  # the full form names the topic before the verb
        topic = second_word
        verb = prompt_words[2]
        names = tuple(prompt_words[3:])
    else:
        topic = _TOPICS_OF_SHORT_FORMS.get(second_word, "")
        verb = second_word
        names = tuple(prompt_words[2:])
    if verb not in _VERBS_BY_TOPIC[topic]:
        return None
    if not 0 < len(names) < _MAX_NAMES or not all(map(_is_name, names)):
        return None
    return TypedDecision(topic, verb, names)


def _is_name(word: str) -> bool:
    """Return whether a word is a number, with or without its letter, a slug or a session id."""
    number = word
    if word[:1].upper() in ("L", "M", "H"):
        number = word[1:].removeprefix(":")  # L3 or L:3
    # Slugs and session ids are long and have dashes; a short word is the prose of a sentence.
    is_slug_or_session = len(word) >= _MIN_SLUG_CHARS and "-" in word[1:-1]
    return number.isdigit() or is_slug_or_session


def is_allow_command(prompt_words: Sequence[str]) -> bool:
    """Return whether a prompt lifts a block for its session."""
    return prompt_words[:2] == ["hardwon", "allow"] and len(prompt_words) == 3


def is_answered_by_hardwon(event: Event) -> bool:
    """Return whether hardwon answers this prompt and the model does not see it, so that it is not recorded."""
    is_typed = event.kind == "UserPromptSubmit" and not event.subagent_id and event.source != "command"
    if not is_typed or not can_be_for_hardwon(event.prompt):
        return False
    if parse_decision(event.prompt.split()) is not None:
        return True
    from hardwon.text.lesson_tags import has_only_blocks  # imported late because few prompts get here

    return has_only_blocks(event.prompt)


def answer_prompt(event: Event, answer: str) -> HookReply:
    """Reply to a prompt for hardwon; a command stops here, a lesson within other text goes on to the model."""
    is_command = is_answered_by_hardwon(event) or is_allow_command(event.prompt.split())
    if is_command and answer:
        return HookReply(deny=answer)  # agents show the reason of a denied prompt to the person
    return HookReply(notice=answer)


def refuse_decision(home: str, prompt: str, doubt: str, at: float) -> str:
    """Log a decision that may not come from a person, for `hardwon doctor`; return the answer to it."""
    from hardwon.privacy.cleaning import clean_text  # imported late because few prompts get here
    from hardwon.text.characters import to_printable_line

    command = to_printable_line(clean_text(prompt), _MAX_REFUSED_CHARS)
    paths.append_to_hook_log(home, [f"{REFUSED_DECISION}: {doubt}: {command}"], at)
    fix = f"run it in a terminal: {command}"
    if is_allow_command(prompt.split()):  # about one session, so there is no such command in a terminal
        fix = "type it to the agent yourself"
    return f"NOT done: {doubt}. If you meant it, {fix}"


def is_remember_prompt(prompt: str) -> bool:
    """Return whether a prompt may ask to remember something; `memories.typed_memory` decides."""
    text = prompt.strip()
    if len(text) > _MAX_MEMORY_PROMPT_CHARS or "\n" in text or text.endswith("?"):
        return False
    words = text[:40].lower().replace(",", " ").split()
    if words[:1] == ["please"]:
        words = words[1:]
    return words[:2] == ["remember", "that"] or words[:2] == ["remember", "that:"]
