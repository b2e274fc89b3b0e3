"""A model with scripted replies, in the wire format of each agent.

The test writes the conversation as a list of replies, or as a function that gives the next one. What the
client asks on the side (a title, a compaction) is answered from here, so a script holds only what its test is
about. The same conversation sent twice is a retry and gets the same reply; otherwise one dropped connection
would shift the script.
"""

from __future__ import annotations

import hashlib
import json
import secrets
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Literal

Kind = Literal["main", "sub", "compaction", "side"]
Body = Mapping[str, Any]


@dataclass(frozen=True)
class Call:
    """A tool call, as the model asks for it."""

    tool: str
    given: Mapping[str, object]


@dataclass(frozen=True)
class Reply:
    text: str = ""
    calls: tuple[Call, ...] = ()
    delay: float = 0.0  # seconds the model thinks before it answers
    input_tokens: int = 100  # what the client believes its context holds; large numbers make it compact


@dataclass(frozen=True)
class Request:
    kind: Kind
    body: Body
    texts: tuple[str, ...] = field(repr=False)

    def __contains__(self, token: str) -> bool:
        """Return whether the model was shown it in any message; which one differs by model and version."""
        return any(token in text for text in self.texts)


@dataclass(frozen=True)
class Wire:
    """How an agent and its model speak: where it asks, what of a request is the conversation, how it is answered."""

    asks: Callable[[str], bool]  # by the path
    conversation: Callable[[Body], object]
    opening: Callable[[Body], object]  # what the person typed first, or the agent that sent this one
    answer: Callable[[Reply, str, Body], str]  # with an id that no other reply has; JSON, or the events of a stream
    compacts: Callable[[Body], bool] = lambda _: False


Script = Sequence[Reply] | Callable[[Request], Reply]
SUMMARY = "the conversation so far, made short"
TITLE = Reply(json.dumps({"title": "scripted"}))


def bash(*commands: str, delay: float = 0.0) -> Reply:
    """One message asking for these shell commands."""
    calls = tuple(Call("Bash", {"command": command, "description": "as scripted"}) for command in commands)
    return Reply(calls=calls, delay=delay)


class ModelServer:
    """Serves on a listening socket until closed; `requests` is everything it was asked, in order."""

    def __init__(
        self, listener: socket.socket, wire: Wire, main: Script, sub: Script = (), summary: str = SUMMARY
    ) -> None:
        self.requests: list[Request] = []
        self._wire = wire
        self._next: dict[Kind, Callable[[Request], Reply]] = {
            "main": _build_answerer(main),
            "sub": _build_answerer(sub),
        }
        self._next["compaction"] = lambda _: Reply(f"<analysis>none</analysis><summary>{summary}</summary>")
        self._given: dict[str, tuple[Reply, str]] = {}
        self._name = secrets.token_hex(8)  # no two messages have the same id, though a resumed session has two of us
        self._errands: set[str] = set()
        self._lock = threading.Lock()
        self._http = ThreadingHTTPServer(("", 0), _build_handler(self, wire), bind_and_activate=False)
        self._http.socket.close()
        self._http.socket = listener
        self._http.daemon_threads = True
        threading.Thread(target=self._http.serve_forever, args=(0.02,), daemon=True).start()

    def close(self) -> None:
        self._http.shutdown()
        self._http.server_close()

    def answer(self, body: Body) -> tuple[Reply, str]:
        """The reply and its message id; one request at a time, so that a script may keep state."""
        with self._lock:
            request = self._read(body)
            self.requests.append(request)
            key = hashlib.sha256(json.dumps([request.kind, request.texts]).encode()).hexdigest()
            if key not in self._given:
                reply = self._next[request.kind](request) if request.kind in self._next else TITLE
                self._given[key] = reply, f"msg_{self._name}_{len(self._given):06d}"
                self._errands |= {str(call.given["prompt"]) for call in reply.calls if "prompt" in call.given}
            return self._given[key]

    def _read(self, body: Body) -> Request:
        texts = tuple(iter_texts(self._wire.conversation(body)))
        kind: Kind = "main"
        if self._wire.compacts(body):
            kind = "compaction"  # comes with the tools of the conversation it will replace
        elif not body.get("tools"):
            kind = "side"
        elif any(errand in text for errand in self._errands for text in iter_texts(self._wire.opening(body))):
            kind = "sub"  # opens with the prompt of a call we asked for
        return Request(kind, body, texts)


def _build_answerer(script: Script) -> Callable[[Request], Reply]:
    if callable(script):
        return script
    replies = iter(script)
    return lambda _: next(replies, Reply("(the script has ended)"))


def iter_texts(value: object) -> Iterator[str]:
    """Yield every string in a piece of JSON."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for inner in value.values():
            yield from iter_texts(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from iter_texts(inner)


def _build_handler(server: ModelServer, wire: Wire) -> type[BaseHTTPRequestHandler]:
    class Routes(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True  # a kept-alive connection would wait 40 ms before each reply
        wbufsize = -1

        def do_HEAD(self) -> None:
            self._send(b"")

        def do_GET(self) -> None:
            self._send(b"{}")

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["content-length"])))
            if not wire.asks(self.path.partition("?")[0]):
                return self._send(b'{"type": "error", "error": {"type": "not_found_error"}}', status=404)
            reply, message_id = server.answer(body)
            time.sleep(reply.delay)
            content = wire.answer(reply, message_id, body)
            return self._send(content.encode(), "application/json" if content[0] == "{" else "text/event-stream")

        def _send(self, content: bytes, kind: str = "application/json", status: int = 200) -> None:
            self.send_response(status)
            self.send_header("content-type", kind)
            self.send_header("content-length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, format: str, *args: object) -> None:
            """Nothing: pytest's output is for the tests."""

    return Routes
