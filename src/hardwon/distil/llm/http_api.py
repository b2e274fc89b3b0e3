"""Ask models over HTTP: Anthropic's messages and OpenAI's chat completions, one JSON POST each.

It uses the standard library because client libraries have no deadline for a whole answer: a socket timeout restarts
with every byte, so a slow trickle would block the process. Redirects are not followed, because the key would go to
another server. An answer shorter than its announced length counts as cut off.
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Mapping
from contextlib import suppress
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection, IncompleteRead
from threading import Timer
from types import TracebackType
from typing import Annotated, Any, TypeVar
from urllib.parse import urlsplit

import msgspec

from hardwon import clock
from hardwon.distil.llm.calls import find_price
from hardwon.distil.llm.exchange import (
    Answer,
    Broken,
    Busy,
    Denied,
    MessagesUsage,
    Question,
    Refused,
    TokenCount,
    build_status_error,
    build_timeout_error,
    find_error_text,
    overestimate_input,
    overestimate_tokens,
)

_ANTHROPIC_URL, _OPENAI_URL = "https://api.anthropic.com", "https://api.openai.com/v1"
_ANTHROPIC_VERSION = "2023-06-01"  # the newest version of the API
TIMEOUT_SECONDS, CONNECT_SECONDS = 90.0, 10.0  # for a whole answer, shorter than a job's lease
MAX_BODY_BYTES = 8_000_000
_CHUNK_BYTES = 65_536

ReplyType = TypeVar("ReplyType")


class _TextBlock(msgspec.Struct):
    type: str = ""
    text: str = ""


class _MessagesReply(msgspec.Struct):
    content: list[_TextBlock]
    stop_reason: str
    model: str = ""
    usage: MessagesUsage = msgspec.field(default_factory=MessagesUsage)


class _CachedTokens(msgspec.Struct):
    cached_tokens: TokenCount | None = None


class _ChatUsage(msgspec.Struct):
    prompt_tokens: TokenCount | None = None
    completion_tokens: TokenCount | None = None
    prompt_tokens_details: _CachedTokens | None = None


class _ChatMessage(msgspec.Struct):
    content: str | None = None
    refusal: str | None = None
    tool_calls: list[Any] | None = None


class _ChatChoice(msgspec.Struct):
    message: _ChatMessage
    finish_reason: str | None = None


class _ChatReply(msgspec.Struct):
    choices: Annotated[list[_ChatChoice], msgspec.Meta(min_length=1)]
    model: str = ""
    usage: _ChatUsage | None = None


def ask_anthropic(
    question: Question,
    *,
    model: str,
    url: str = "",
    read_key: Callable[[], str],
    timeout: float = TIMEOUT_SECONDS,
) -> Answer:
    key = _require_key(read_key())
    effort = find_price(model).effort
    body = {
        "model": model,
        "max_tokens": question.max_tokens,
        "system": question.system,
        "messages": [{"role": "user", "content": question.prompt}],
        **({"output_config": {"effort": effort}} if effort else {}),
    }
    headers = {"x-api-key": key, "anthropic-version": _ANTHROPIC_VERSION}
    reply = _exchange_json(f"{url or _ANTHROPIC_URL}/v1/messages", headers, body, key, timeout, _MessagesReply)
    text = "".join(block.text for block in reply.content if block.type == "text")
    answer = reply.usage.build_answer(text, question, reply.model or model)
    if reply.stop_reason == "refusal":
        raise Refused("the model refused", usage=answer)
    is_too_long = reply.stop_reason in ("max_tokens", "model_context_window_exceeded")
    is_ended = reply.stop_reason in ("end_turn", "stop_sequence")
    return _check_answer(answer, question, is_too_long, "" if is_ended else reply.stop_reason)


def ask_openai(
    question: Question,
    *,
    model: str,
    url: str = "",
    read_key: Callable[[], str],
    timeout: float = TIMEOUT_SECONDS,
) -> Answer:
    key = read_key() if url else _require_key(read_key())  # a local endpoint may need no key
    effort = find_price(model).effort
    # Reasoning models use another name for the limit and reject the usual one.
    limit_name = "max_completion_tokens" if effort else "max_tokens"
    body = {
        "model": model,
        "messages": [{"role": "system", "content": question.system}, {"role": "user", "content": question.prompt}],
        limit_name: question.max_tokens,
        **({"reasoning_effort": effort} if effort else {}),
    }
    headers = {"authorization": f"Bearer {key}"} if key else {}
    reply = _exchange_json(f"{url or _OPENAI_URL}/chat/completions", headers, body, key, timeout, _ChatReply)
    choice = reply.choices[0]
    usage = reply.usage or _ChatUsage()
    text = choice.message.content or ""
    tokens_in = overestimate_input(question) if usage.prompt_tokens is None else usage.prompt_tokens
    tokens_out = overestimate_tokens(text) if usage.completion_tokens is None else usage.completion_tokens
    details = usage.prompt_tokens_details or _CachedTokens()
    answer = Answer(text, tokens_in, tokens_out, details.cached_tokens or 0, reply.model or model)
    if choice.message.refusal or choice.finish_reason == "content_filter":
        raise Refused("the model refused, or a filter did", usage=answer)
    is_too_long = choice.finish_reason == "length"
    return _check_answer(answer, question, is_too_long, "tool_calls" if choice.message.tool_calls else "")


def _require_key(key: str) -> str:
    if not key:
        raise Denied("there is no key in the environment", is_free=True)
    return key


def _check_answer(answer: Answer, question: Question, is_too_long: bool, odd_ending: str) -> Answer:
    if is_too_long:
        raise Broken(f"the answer is longer than {question.max_tokens} tokens", outcome="truncated", usage=answer)
    if odd_ending:
        raise Broken(f"the answer ended with {odd_ending[:40]!r}", outcome="malformed", usage=answer)
    if not answer.text.strip():
        raise Broken("the answer is empty", outcome="malformed", usage=answer)
    return answer


def _exchange_json(
    url: str,
    headers: Mapping[str, str],
    body: Mapping[str, Any],
    key: str,
    timeout: float,
    reply_type: type[ReplyType],
) -> ReplyType:
    """Post JSON and return the decoded reply; Busy for an error in the reply, Broken for another shape."""
    content = msgspec.json.encode(_replace_surrogates(body))
    all_headers = {"content-type": "application/json", "accept": "application/json", **headers}
    status, retry_after, reply = _post(url, all_headers, content, timeout)
    if not 200 <= status < 300:
        raise build_status_error(status, _decode_error(reply), retry_after, clock.now(), key)
    try:
        return msgspec.json.decode(reply, type=reply_type)
    except (msgspec.DecodeError, RecursionError):
        # An endpoint may report an error with a success status.
        error_text = find_error_text(_decode_error(reply), key)
        if error_text:
            raise Busy(f"an error for an answer: {error_text}") from None
        raise Broken("the answer is no JSON of the API's shape", outcome="malformed") from None


def _replace_surrogates(value: Any) -> Any:
    """Return the value without lone surrogates, which JSON in UTF-8 cannot hold."""
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode()
    if isinstance(value, dict):
        return {name: _replace_surrogates(item) for name, item in value.items()}
    return [_replace_surrogates(item) for item in value] if isinstance(value, list) else value


def _decode_error(reply: bytes) -> object:
    try:
        decoded: object = msgspec.json.decode(reply)
    except (msgspec.DecodeError, RecursionError):
        return None
    return decoded if isinstance(decoded, Mapping) and "error" in decoded else None


class Deadline:
    """Shut the attached socket when the time is up, and turn the resulting error into a timeout."""

    def __init__(self, patience: float) -> None:
        self._patience = patience
        self._timer = Timer(patience, self._shut_socket)
        self._timer.daemon = True
        self._socket: socket.socket | None = None
        self._is_over = False

    def __enter__(self) -> Deadline:
        self._timer.start()
        return self

    def attach_socket(self, sock: socket.socket) -> None:
        """Shut this socket when the time is up, or at once if it was up before there was a socket."""
        sock.settimeout(None)  # the socket's own limit is for each packet; the deadline is for all
        self._socket = sock
        if self._is_over:
            self._shut_socket()

    def _shut_socket(self) -> None:
        self._is_over = True
        if self._socket:
            with suppress(OSError):
                socket.socket.shutdown(self._socket, socket.SHUT_RDWR)  # plain shutdown also works under TLS

    def __exit__(self, kind: type[BaseException] | None, error: object, trace: TracebackType | None) -> None:
        self._timer.cancel()
        if self._is_over and (kind is None or issubclass(kind, Exception)):
            raise build_timeout_error("no whole answer", self._patience) from None


def _post(url: str, headers: Mapping[str, str], body: bytes, timeout: float) -> tuple[int, str | None, bytes]:
    """Post and return status, Retry-After header and body, all within the timeout."""
    parts = urlsplit(url)
    connection_class = HTTPSConnection if parts.scheme == "https" else HTTPConnection
    connection = connection_class(parts.hostname or "", parts.port, timeout=min(CONNECT_SECONDS, timeout))
    try:
        with Deadline(timeout) as deadline:
            _connect(connection)
            deadline.attach_socket(connection.sock)
            connection.request("POST", parts.path, body, dict(headers))
            response = connection.getresponse()
            content = _read_body(response)
    except (OSError, HTTPException) as error:
        raise Busy(f"the connection broke: {_describe_error(error)}", outcome="truncated") from None
    finally:
        connection.close()
    return response.status, response.getheader("retry-after"), content


def _connect(connection: HTTPConnection) -> None:
    try:
        connection.connect()
    except OSError as error:
        message = f"{connection.host} cannot be reached: {_describe_error(error)}"
        raise Busy(message, outcome="unreachable", is_free=True) from None


def _read_body(response: HTTPResponse) -> bytes:
    chunks = list[bytes]()
    size = 0
    while chunk := response.read1(_CHUNK_BYTES):
        chunks.append(chunk)
        size += len(chunk)
        if size > MAX_BODY_BYTES:
            raise Broken(f"the answer has more than {MAX_BODY_BYTES:,} bytes", outcome="malformed")
    # `read1` returns nothing when the connection closes early; `length` is what is still missing.
    if response.length:
        raise IncompleteRead(b"", response.length)
    return b"".join(chunks)


def _describe_error(error: Exception) -> str:
    """Describe a network error without the text that was sent."""
    return getattr(error, "strerror", None) or type(error).__name__
