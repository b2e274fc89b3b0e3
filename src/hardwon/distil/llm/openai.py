"""Any endpoint that speaks the chat completions API: a vendor's, a gateway's, or a program on this machine."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from hardwon import clock
from hardwon.distil.llm import http_post
from hardwon.distil.llm.exchange import (
    Answer,
    Broken,
    Busy,
    Denied,
    Question,
    Refused,
    counted,
    mapping,
    said_by,
    tokens,
    turned_away,
)
from hardwon.distil.llm.prices import price

OWN_ADDRESS = "https://api.openai.com/v1"
PATIENCE = 90.0  # seconds for a whole answer; the lease of a job is longer
_DONE = "[DONE]"


def ask(
    question: Question,
    *,
    model: str,
    url: str = "",
    key: Callable[[], str],
    patience: float = PATIENCE,
) -> Answer:
    """One request, one answer."""
    secret = key()
    if not secret and not url:
        raise Denied("there is no key in the environment", free=True)
    headers = {"content-type": "application/json", "accept": "text/event-stream, application/json"}
    if secret:
        headers["authorization"] = f"Bearer {secret}"
    sent = json.dumps(_request(question, model), ensure_ascii=False).encode("utf-8", "replace")
    place = f"{(url or OWN_ADDRESS).rstrip('/')}/chat/completions"
    reply = http_post.post(place, headers, sent, patience=patience)
    if not 200 <= reply.status < 300:
        raise turned_away(reply.status, _json_or_none(reply.body), reply.retry_after, clock.now(), secret)
    if reply.kind == "text/event-stream":
        message = _gathered(reply.body, secret)
    else:
        message = _whole(http_post.loads(reply.body), secret)
    return _answer(message, question, model)


def _request(question: Question, model: str) -> dict[str, Any]:
    """Models that reason name the limit differently, and refuse the other name."""
    effort = price(model).effort
    limit = "max_completion_tokens" if effort else "max_tokens"
    return {
        "model": model,
        "messages": [
            {"role": "system", "content": question.system},
            {"role": "user", "content": question.prompt},
        ],
        limit: question.most_tokens,
        **({"reasoning_effort": effort} if effort else {}),
        "stream": True,
        "stream_options": {"include_usage": True},
    }


def _whole(body: object, key: str) -> dict[str, Any]:
    """What an answer in one piece says."""
    found = mapping(body)
    if "error" in found:
        raise Busy(f"an error for an answer: {said_by(found, key)}")
    choices = found.get("choices")
    choice = mapping(choices[0]) if isinstance(choices, list) and choices else {}
    message = mapping(choice.get("message"))
    return {
        "text": message.get("content"),
        "refusal": message.get("refusal"),
        "calls": message.get("tool_calls"),
        "ended": choice.get("finish_reason"),
        "usage": found.get("usage"),
        "model": found.get("model"),
    }


def _gathered(body: bytes, key: str) -> dict[str, Any]:
    """What the pieces of a stream say together; an end that did not come is cut off."""
    made: dict[str, Any] = {"text": "", "refusal": "", "calls": None, "ended": None, "usage": None, "model": None}
    for data in http_post.events(body):
        if data == _DONE:
            break
        piece = mapping(http_post.loads(data))
        if "error" in piece:
            raise Busy(f"an error within the stream: {said_by(piece, key)}", outcome="truncated")
        made["usage"] = piece.get("usage") or made["usage"]
        made["model"] = piece.get("model") or made["model"]
        choices = piece.get("choices")
        for choice in map(mapping, choices if isinstance(choices, list) else ()):
            delta = mapping(choice.get("delta"))
            for name, of in (("text", "content"), ("refusal", "refusal")):
                if isinstance(said := delta.get(of), str):
                    made[name] += said
            made["calls"] = delta.get("tool_calls") or made["calls"]
            made["ended"] = choice.get("finish_reason") or made["ended"]
    if made["ended"] is None:
        raise Busy("the stream ended before the answer did", outcome="truncated")
    return made


def _answer(message: Mapping[str, Any], question: Question, model: str) -> Answer:
    usage = mapping(message["usage"])
    text = message["text"] if isinstance(message["text"], str) else ""
    cached = mapping(usage.get("prompt_tokens_details")).get("cached_tokens")
    named = message["model"]
    answer = Answer(
        text,
        counted(usage.get("prompt_tokens"), tokens(question.system) + tokens(question.prompt)),
        counted(usage.get("completion_tokens"), tokens(text)),
        counted(cached, 0),
        named if isinstance(named, str) and named else model,
    )
    if message["refusal"] or message["ended"] == "content_filter":
        raise Refused("the model refused, or a filter did", spent=answer)
    if message["ended"] == "length":
        raise Broken(f"the answer is longer than {question.most_tokens} tokens", outcome="truncated", spent=answer)
    if message["calls"]:
        raise Broken("the model asked for a tool, and was given none", outcome="malformed", spent=answer)
    if not text.strip():
        raise Broken("the answer is empty", outcome="malformed", spent=answer)
    return answer


def _json_or_none(body: bytes) -> object:
    try:
        return http_post.loads(body)
    except Broken:
        return None
