"""One POST over HTTP, careful where a library would be careless for us.

A redirect is not followed: the key would go where it was not meant to. There is one deadline for all of it, so that
an answer that drips cannot hold a process, and a largest size. An answer shorter than announced is cut off, not short.
A socket's own timeout begins anew with every byte, so the deadline shuts the socket instead.
"""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator, Mapping
from contextlib import suppress
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection, IncompleteRead
from threading import Timer
from types import TracebackType
from urllib.parse import urlsplit

from hardwon.distil.llm.exchange import Broken, Busy, build_timeout_error
from hardwon.types import frozen

CONNECT_SECONDS = 10.0  # seconds
MAX_BODY_BYTES = 8_000_000  # bytes
_CHUNK_BYTES = 65_536


@frozen
class HttpReply:
    """What came back: the status, what is known about the body, and the body."""

    status: int
    media_type: str
    retry_after: str | None
    body: bytes


class Deadline:
    """Owns the clock of one call: when time is up it shuts the socket that it holds, and whatever comes of that is a
    timeout."""

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
        sock.settimeout(None)
        self._socket = sock
        if self._is_over:
            self._shut_socket()

    def _shut_socket(self) -> None:
        self._is_over = True
        if self._socket:
            with suppress(OSError):
                socket.socket.shutdown(self._socket, socket.SHUT_RDWR)  # under TLS as well

    def __exit__(self, kind: type[BaseException] | None, error: object, trace: TracebackType | None) -> None:
        self._timer.cancel()
        if self._is_over and (kind is None or issubclass(kind, Exception)):
            raise build_timeout_error("no whole answer", self._patience) from None


def post(url: str, headers: Mapping[str, str], body: bytes, *, timeout: float) -> HttpReply:
    """Send it and read the whole answer within so many seconds."""
    parts = urlsplit(url)
    connection_class = HTTPSConnection if parts.scheme == "https" else HTTPConnection
    connection = connection_class(parts.hostname or "", parts.port, timeout=min(CONNECT_SECONDS, timeout))
    try:
        with Deadline(timeout) as deadline:
            _connect(connection)
            deadline.attach_socket(connection.sock)
            path = parts.path + (f"?{parts.query}" if parts.query else "")
            connection.request("POST", path or "/", body, dict(headers))
            response = connection.getresponse()
            content = _read_body(response)
    except (OSError, HTTPException) as error:
        raise Busy(f"the connection broke: {_describe_error(error)}", outcome="truncated") from None
    finally:
        connection.close()
    media_type = (response.getheader("content-type") or "").partition(";")[0].strip().lower()
    return HttpReply(response.status, media_type, response.getheader("retry-after"), content)


def _connect(connection: HTTPConnection) -> None:
    try:
        connection.connect()
    except OSError as error:
        message = f"{connection.host} cannot be reached: {_describe_error(error)}"
        raise Busy(message, outcome="unreachable", is_free=True) from None


def _read_body(response: HTTPResponse) -> bytes:
    chunks, size = list[bytes](), 0
    while chunk := response.read1(_CHUNK_BYTES):
        chunks.append(chunk)
        size += len(chunk)
        if size > MAX_BODY_BYTES:
            raise Broken(f"the answer has more than {MAX_BODY_BYTES:,} bytes", outcome="malformed")
    if response.length:
        raise IncompleteRead(b"", response.length)
    return b"".join(chunks)


def _describe_error(error: Exception) -> str:
    """What broke, without what was sent."""
    return getattr(error, "strerror", None) or type(error).__name__


def parse_event_stream(body: bytes) -> Iterator[str]:
    """The data of each server-sent event that is whole."""
    data: list[str] = []
    for line in body.decode("utf-8", "replace").replace("\r\n", "\n").replace("\r", "\n").split("\n")[:-1]:
        if line.startswith("data:"):
            data.append(line[5:].removeprefix(" "))
        elif not line and data:
            yield "\n".join(data)
            data = []


def parse_json(text: str | bytes) -> object:
    """A JSON value from outside; Broken if it is none."""
    try:
        value: object = json.loads(text)
    except (ValueError, RecursionError):
        raise Broken("the answer is no JSON", outcome="malformed") from None
    return value
