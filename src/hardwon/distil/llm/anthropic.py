"""The Messages API through the vendor's own library: an extra, loaded when the first question is asked."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from hardwon import clock
from hardwon.distil.llm import http_post
from hardwon.distil.llm.exchange import (
    MAX_ANSWER_CHARS,
    Answer,
    Broken,
    Busy,
    Denied,
    Question,
    Refused,
    build_status_error,
    build_timeout_error,
    find_error_text,
    overestimate_tokens,
    read_token_count,
    to_mapping,
)
from hardwon.distil.llm.prices import find_price

if TYPE_CHECKING:
    from anthropic import Anthropic

DEFAULT_URL = "https://api.anthropic.com"
TIMEOUT_SECONDS = 90.0  # seconds for a whole answer; the lease of a job is longer
CONNECT_SECONDS = 10.0
_MISSING_PACKAGE = "the anthropic package is missing: pip install 'hardwon[anthropic]'"


def ask(
    question: Question,
    *,
    model: str,
    url: str = "",
    read_key: Callable[[], str],
    timeout: float = TIMEOUT_SECONDS,
) -> Answer:
    """One request, one answer: the library's own retries are off, since each would have to be booked."""
    secret = read_key()
    if not secret:
        raise Denied("there is no key in the environment", is_free=True)
    try:
        import anthropic
        import httpx2
    except ImportError:
        raise Denied(_MISSING_PACKAGE, is_free=True) from None
    deadline = http_post.Deadline(timeout)
    # A redirect is not followed: the key would go where it was not meant to.
    http_client = httpx2.Client(
        timeout=httpx2.Timeout(timeout, connect=min(CONNECT_SECONDS, timeout)),
        follow_redirects=False,
        event_hooks={"request": [lambda request: request.extensions.update(trace=partial(_attach_socket, deadline))]},
    )
    client = anthropic.Anthropic(
        api_key=secret, base_url=url or DEFAULT_URL, max_retries=0, http_client=http_client, open_telemetry=False
    )
    try:
        with client, deadline:
            message = _stream_message(client, question, model)
    except anthropic.APIStatusError as error:
        if error.status_code < 300:  # it began well, and then told of an error
            raise Busy(
                f"an error within the stream: {find_error_text(error.body, secret)}", outcome="truncated"
            ) from None
        retry_after = error.response.headers.get("retry-after")
        raise build_status_error(error.status_code, error.body, retry_after, clock.now(), secret) from None
    except (anthropic.APITimeoutError, httpx2.TimeoutException):
        raise build_timeout_error("no whole answer", timeout) from None
    except anthropic.APIConnectionError as error:
        is_unreachable = isinstance(error.__cause__, httpx2.ConnectError)
        outcome = "unreachable" if is_unreachable else "truncated"
        raise Busy(f"the connection broke: {_name_cause(error)}", outcome=outcome, is_free=is_unreachable) from None
    except httpx2.HTTPError as error:
        raise Busy(f"the connection broke: {type(error).__name__}", outcome="truncated") from None
    except anthropic.APIError as error:
        raise Busy(f"an error within the stream: {find_error_text(error.body, secret)}", outcome="truncated") from None
    except (anthropic.AnthropicError, ValueError, TypeError, AttributeError, LookupError, RecursionError) as error:
        # The library reads what comes without checking it, and falls over in one of these ways.
        raise Broken(f"the answer is no message: {type(error).__name__}", outcome="malformed") from None
    return _build_answer(message, question, model)


def _attach_socket(deadline: http_post.Deadline, step: str, info: Mapping[str, Any]) -> None:
    """Whatever socket a step of connecting gave: the plain one, then that under TLS."""
    if get_info := getattr(info.get("return_value"), "get_extra_info", None):
        deadline.attach_socket(get_info("socket"))


def _name_cause(error: Exception) -> str:
    return type(error.__cause__ or error).__name__


def _build_extra_options(model: str) -> dict[str, Any]:
    effort = find_price(model).effort
    return {"output_config": {"effort": effort}} if effort else {}


def _stream_message(client: Anthropic, question: Question, model: str) -> dict[str, Any]:
    """The message that the events of a stream make; an end that did not come is cut off."""
    message: dict[str, Any] = {"content": [], "stop_reason": None, "usage": {}, "model": None}
    text, has_ended = "", False
    stream = client.messages.create(
        model=model,
        max_tokens=question.max_tokens,
        system=question.system,
        messages=[{"role": "user", "content": question.prompt}],
        stream=True,
        **_build_extra_options(model),
    )
    with stream:
        for stream_event in stream:
            event = stream_event.to_dict(mode="json", warnings=False)
            kind = event.get("type")
            if kind == "message_start":
                message |= {name: to_mapping(event.get("message")).get(name) for name in ("usage", "model")}
            elif kind in ("content_block_start", "content_block_delta"):
                text += _read_text_delta(event)
                if len(text) > MAX_ANSWER_CHARS:
                    raise Broken(f"the answer has more than {MAX_ANSWER_CHARS:,} characters", outcome="malformed")
            elif kind == "message_delta":
                message["stop_reason"] = to_mapping(event.get("delta")).get("stop_reason") or message["stop_reason"]
                message["usage"] = {**to_mapping(message["usage"]), **to_mapping(event.get("usage"))}
            has_ended = has_ended or kind == "message_stop"
    if not has_ended:
        raise Busy("the stream ended before the answer did", outcome="truncated")
    return {**message, "content": [{"type": "text", "text": text}]}


def _read_text_delta(event: Mapping[str, Any]) -> str:
    delta = to_mapping(event.get("delta") or event.get("content_block"))
    text = delta.get("text")
    return text if isinstance(text, str) and delta.get("type") in ("text", "text_delta") else ""


def _build_answer(message: Mapping[str, Any], question: Question, model: str) -> Answer:
    blocks = message.get("content")
    texts = [to_mapping(block).get("text") for block in (blocks if isinstance(blocks, list) else ())]
    text = "".join(part for part in texts if isinstance(part, str))
    usage, model_name = to_mapping(message.get("usage")), message.get("model")
    cache_written, cached = (
        read_token_count(usage.get(f"cache_{name}_input_tokens"), 0) for name in ("creation", "read")
    )
    fresh = read_token_count(
        usage.get("input_tokens"), overestimate_tokens(question.system) + overestimate_tokens(question.prompt)
    )
    answer = Answer(
        text,
        fresh + cache_written + cached,
        read_token_count(usage.get("output_tokens"), overestimate_tokens(text)),
        cached,
        model_name if isinstance(model_name, str) and model_name else model,
    )
    stop_reason = message.get("stop_reason")
    if stop_reason == "refusal":
        raise Refused("the model refused", usage=answer)
    if stop_reason in ("max_tokens", "model_context_window_exceeded"):
        raise Broken(f"the answer is longer than {question.max_tokens} tokens", outcome="truncated", usage=answer)
    if stop_reason not in ("end_turn", "stop_sequence"):
        raise Broken(f"the answer ended with {str(stop_reason)[:40]!r}", outcome="malformed", usage=answer)
    if not text.strip():
        raise Broken("the answer is empty", outcome="malformed", usage=answer)
    return answer
