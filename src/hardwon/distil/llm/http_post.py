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
_PIECE = 65_536


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
        self._clock = Timer(patience, self._shut)
        self._clock.daemon = True
        self._held: socket.socket | None = None
        self._is_over = False

    def __enter__(self) -> Deadline:
        self._clock.start()
        return self

    def attach_socket(self, held: socket.socket) -> None:
        held.settimeout(None)
        self._held = held
        if self._is_over:
            self._shut()

    def _shut(self) -> None:
        self._is_over = True
        if self._held:
            with suppress(OSError):
                socket.socket.shutdown(self._held, socket.SHUT_RDWR)  # under TLS as well

    def __exit__(self, kind: type[BaseException] | None, wrong: object, trace: TracebackType | None) -> None:
        self._clock.cancel()
        if self._is_over and (kind is None or issubclass(kind, Exception)):
            raise build_timeout_error("no whole answer", self._patience) from None


def post(url: str, headers: Mapping[str, str], body: bytes, *, timeout: float) -> HttpReply:
    """Send it and read the whole answer within so many seconds."""
    parts = urlsplit(url)
    kind = HTTPSConnection if parts.scheme == "https" else HTTPConnection
    connection = kind(parts.hostname or "", parts.port, timeout=min(CONNECT_SECONDS, timeout))
    try:
        with Deadline(timeout) as deadline:
            _connect(connection)
            deadline.attach_socket(connection.sock)
            path = parts.path + (f"?{parts.query}" if parts.query else "")
            connection.request("POST", path or "/", body, dict(headers))
            response = connection.getresponse()
            found = _read(response)
    except (OSError, HTTPException) as wrong:
        raise Busy(f"the connection broke: {_name(wrong)}", outcome="truncated") from None
    finally:
        connection.close()
    kind_of_body = (response.getheader("content-type") or "").partition(";")[0].strip().lower()
    return HttpReply(response.status, kind_of_body, response.getheader("retry-after"), found)


def _connect(connection: HTTPConnection) -> None:
    try:
        connection.connect()
    except OSError as wrong:
        say = f"{connection.host} cannot be reached: {_name(wrong)}"
        raise Busy(say, outcome="unreachable", is_free=True) from None


def _read(response: HTTPResponse) -> bytes:
    pieces, size = list[bytes](), 0
    while piece := response.read1(_PIECE):
        pieces.append(piece)
        size += len(piece)
        if size > MAX_BODY_BYTES:
            raise Broken(f"the answer has more than {MAX_BODY_BYTES:,} bytes", outcome="malformed")
    if response.length:
        raise IncompleteRead(b"", response.length)
    return b"".join(pieces)


def _name(wrong: Exception) -> str:
    """What broke, without what was sent."""
    return getattr(wrong, "strerror", None) or type(wrong).__name__


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
        found: object = json.loads(text)
    except (ValueError, RecursionError):
        raise Broken("the answer is no JSON", outcome="malformed") from None
    return found
