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
_STREAM_END = "[DONE]"


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
    body = json.dumps(_build_request(question, model), ensure_ascii=False).encode("utf-8", "replace")
    endpoint = f"{(url or DEFAULT_URL).rstrip('/')}/chat/completions"
    reply = http_post.post(endpoint, headers, body, timeout=timeout)
    if not 200 <= reply.status < 300:
        raise build_status_error(reply.status, _parse_json_or_none(reply.body), reply.retry_after, clock.now(), secret)
    if reply.media_type == "text/event-stream":
        message = _parse_stream(reply.body, secret)
    else:
        message = _parse_message(http_post.parse_json(reply.body), secret)
    return _build_answer(message, question, model)


def _build_request(question: Question, model: str) -> dict[str, Any]:
    """Models that reason name the limit differently, and refuse the other name."""
    effort = find_price(model).effort
    limit_name = "max_completion_tokens" if effort else "max_tokens"
    return {
        "model": model,
        "messages": [
            {"role": "system", "content": question.system},
            {"role": "user", "content": question.prompt},
        ],
        limit_name: question.max_tokens,
        **({"reasoning_effort": effort} if effort else {}),
        "stream": True,
        "stream_options": {"include_usage": True},
    }


def _parse_message(body: object, key: str) -> dict[str, Any]:
    """What an answer in one piece says."""
    response = to_mapping(body)
    if "error" in response:
        raise Busy(f"an error for an answer: {find_error_text(response, key)}")
    choices = response.get("choices")
    choice = to_mapping(choices[0]) if isinstance(choices, list) and choices else {}
    message = to_mapping(choice.get("message"))
    return {
        "text": message.get("content"),
        "refusal": message.get("refusal"),
        "calls": message.get("tool_calls"),
        "ended": choice.get("finish_reason"),
        "usage": response.get("usage"),
        "model": response.get("model"),
    }


def _parse_stream(body: bytes, key: str) -> dict[str, Any]:
    """What the pieces of a stream say together; an end that did not come is cut off."""
    message: dict[str, Any] = {"text": "", "refusal": "", "calls": None, "ended": None, "usage": None, "model": None}
    for data in http_post.parse_event_stream(body):
        if data == _STREAM_END:
            break
        piece = to_mapping(http_post.parse_json(data))
        if "error" in piece:
            raise Busy(f"an error within the stream: {find_error_text(piece, key)}", outcome="truncated")
        message["usage"] = piece.get("usage") or message["usage"]
        message["model"] = piece.get("model") or message["model"]
        choices = piece.get("choices")
        for choice in map(to_mapping, choices if isinstance(choices, list) else ()):
            delta = to_mapping(choice.get("delta"))
            for name, field in (("text", "content"), ("refusal", "refusal")):
                if isinstance(text := delta.get(field), str):
                    message[name] += text
            message["calls"] = delta.get("tool_calls") or message["calls"]
            message["ended"] = choice.get("finish_reason") or message["ended"]
    if message["ended"] is None:
        raise Busy("the stream ended before the answer did", outcome="truncated")
    return message


def _build_answer(message: Mapping[str, Any], question: Question, model: str) -> Answer:
    usage = to_mapping(message["usage"])
    text = message["text"] if isinstance(message["text"], str) else ""
    cached = to_mapping(usage.get("prompt_tokens_details")).get("cached_tokens")
    model_name = message["model"]
    answer = Answer(
        text,
        read_token_count(
            usage.get("prompt_tokens"), overestimate_tokens(question.system) + overestimate_tokens(question.prompt)
        ),
        read_token_count(usage.get("completion_tokens"), overestimate_tokens(text)),
        read_token_count(cached, 0),
        model_name if isinstance(model_name, str) and model_name else model,
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


def _parse_json_or_none(body: bytes) -> object:
    try:
        return http_post.parse_json(body)
    except Broken:
        return None
