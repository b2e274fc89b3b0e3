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
    build_status_error,
    find_error_text,
    overestimate_tokens,
    read_token_count,
    to_mapping,
)
from hardwon.distil.llm.prices import find_price

DEFAULT_URL = "https://api.openai.com/v1"
TIMEOUT_SECONDS = 90.0  # seconds for a whole answer; the lease of a job is longer
_DONE = "[DONE]"


def ask(
    question: Question,
    *,
    model: str,
    url: str = "",
    read_key: Callable[[], str],
    timeout: float = TIMEOUT_SECONDS,
) -> Answer:
    """One request, one answer."""
    secret = read_key()
    if not secret and not url:
        raise Denied("there is no key in the environment", is_free=True)
    headers = {"content-type": "application/json", "accept": "text/event-stream, application/json"}
    if secret:
        headers["authorization"] = f"Bearer {secret}"
    sent = json.dumps(_request(question, model), ensure_ascii=False).encode("utf-8", "replace")
    place = f"{(url or DEFAULT_URL).rstrip('/')}/chat/completions"
    reply = http_post.post(place, headers, sent, timeout=timeout)
    if not 200 <= reply.status < 300:
        raise build_status_error(reply.status, _json_or_none(reply.body), reply.retry_after, clock.now(), secret)
    if reply.media_type == "text/event-stream":
        message = _gathered(reply.body, secret)
    else:
        message = _whole(http_post.parse_json(reply.body), secret)
    return _answer(message, question, model)


def _request(question: Question, model: str) -> dict[str, Any]:
    """Models that reason name the limit differently, and refuse the other name."""
    effort = find_price(model).effort
    limit = "max_completion_tokens" if effort else "max_tokens"
    return {
        "model": model,
        "messages": [
            {"role": "system", "content": question.system},
            {"role": "user", "content": question.prompt},
        ],
        limit: question.max_tokens,
        **({"reasoning_effort": effort} if effort else {}),
        "stream": True,
        "stream_options": {"include_usage": True},
    }


def _whole(body: object, key: str) -> dict[str, Any]:
    """What an answer in one piece says."""
    found = to_mapping(body)
    if "error" in found:
        raise Busy(f"an error for an answer: {find_error_text(found, key)}")
    choices = found.get("choices")
    choice = to_mapping(choices[0]) if isinstance(choices, list) and choices else {}
    message = to_mapping(choice.get("message"))
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
    for data in http_post.parse_event_stream(body):
        if data == _DONE:
            break
        piece = to_mapping(http_post.parse_json(data))
        if "error" in piece:
            raise Busy(f"an error within the stream: {find_error_text(piece, key)}", outcome="truncated")
        made["usage"] = piece.get("usage") or made["usage"]
        made["model"] = piece.get("model") or made["model"]
        choices = piece.get("choices")
        for choice in map(to_mapping, choices if isinstance(choices, list) else ()):
            delta = to_mapping(choice.get("delta"))
            for name, of in (("text", "content"), ("refusal", "refusal")):
                if isinstance(said := delta.get(of), str):
                    made[name] += said
            made["calls"] = delta.get("tool_calls") or made["calls"]
            made["ended"] = choice.get("finish_reason") or made["ended"]
    if made["ended"] is None:
        raise Busy("the stream ended before the answer did", outcome="truncated")
    return made


def _answer(message: Mapping[str, Any], question: Question, model: str) -> Answer:
    usage = to_mapping(message["usage"])
    text = message["text"] if isinstance(message["text"], str) else ""
    cached = to_mapping(usage.get("prompt_tokens_details")).get("cached_tokens")
    named = message["model"]
    answer = Answer(
        text,
        read_token_count(
            usage.get("prompt_tokens"), overestimate_tokens(question.system) + overestimate_tokens(question.prompt)
        ),
        read_token_count(usage.get("completion_tokens"), overestimate_tokens(text)),
        read_token_count(cached, 0),
        named if isinstance(named, str) and named else model,
    )
    if message["refusal"] or message["ended"] == "content_filter":
        raise Refused("the model refused, or a filter did", usage=answer)
    if message["ended"] == "length":
        raise Broken(f"the answer is longer than {question.max_tokens} tokens", outcome="truncated", usage=answer)
    if message["calls"]:
        raise Broken("the model asked for a tool, and was given none", outcome="malformed", usage=answer)
    if not text.strip():
        raise Broken("the answer is empty", outcome="malformed", usage=answer)
    return answer


def _json_or_none(body: bytes) -> object:
    try:
        return http_post.parse_json(body)
    except Broken:
        return None
