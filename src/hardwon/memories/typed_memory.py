"""Recognise prompts that begin with "remember that"."""

from __future__ import annotations

import re

from hardwon.types import frozen

MAX_PROMPT_CHARS = 400  # a longer prompt was probably pasted
_OPENING = re.compile(r"(?:please,? )?remember that[,:]? +(?P<statement>\S.*)", re.I)
_SENTENCE_END = re.compile(r"(?<=[.!?])(?<!\be\.g\.)(?<!\bi\.e\.)(?<!\betc\.)\s+")
# In "remember that bug we fixed" or "remember that time in May", `that` points at something and states nothing.
_POINTS_AT_SOMETHING = re.compile(
    r"(?:one|time|thing|day|(?!(?:we|i|you|it|they|he|she|there|this|the|our|my|your|all|every)\b)\w+"
    r" (?:we|i|you|from|where|which|that))\b",
    re.I,
)
_FOR_NOW = re.compile(
    r"\b(?:for now|for the moment|this time|right now|(?:in|for|during) this (?:session|task|turn|chat))\b",
    re.I,
)


@frozen
class TypedMemory:
    """A statement to remember; `is_whole_prompt` if the prompt contains nothing else."""

    type: str
    text: str
    is_whole_prompt: bool


def find_typed_memory(prompt: str) -> TypedMemory | None:
    """Return the statement to remember; None for questions, pasted or long text, and all other prompts."""
    text = prompt.strip()
    if len(text) > MAX_PROMPT_CHARS or "\n" in text or text.endswith("?"):
        return None
    opening = _OPENING.fullmatch(" ".join(text.split()))
    if opening is None:
        return None
    statement, *rest = _SENTENCE_END.split(opening["statement"])
    if statement.endswith("?") or len(statement.split()) < 2:
        return None
    if _POINTS_AT_SOMETHING.match(statement) or _FOR_NOW.search(statement):
        return None
    from hardwon.memories.lasting_statements import (
        guess_type,  # compiling its table takes 30 ms, and few prompts come here
    )

    return TypedMemory(guess_type(statement), statement, not rest)
