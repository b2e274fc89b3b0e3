"""A model that says what the test wrote: the Messages API, as far as Claude Code uses it.

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
COMPACTION = "create a detailed summary of"


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
    body: Mapping[str, Any]
    texts: tuple[str, ...] = field(repr=False)

    def __contains__(self, token: str) -> bool:
        """Whether the model was shown it, in whichever message: the place differs by model and version."""
        return any(token in text for text in self.texts)


Script = Sequence[Reply] | Callable[[Request], Reply]
SUMMARY = "the conversation so far, made short"
TITLE = Reply(json.dumps({"title": "scripted"}))


def bash(*commands: str, delay: float = 0.0) -> Reply:
    """One message asking for these shell commands."""
    calls = tuple(Call("Bash", {"command": command, "description": "as scripted"}) for command in commands)
    return Reply(calls=calls, delay=delay)


class ModelServer:
    """Serves on a listening socket until closed; `requests` is everything it was asked, in order."""

    def __init__(self, listener: socket.socket, main: Script, sub: Script = (), summary: str = SUMMARY) -> None:
        self.requests: list[Request] = []
        self._next: dict[Kind, Callable[[Request], Reply]] = {"main": _turns(main), "sub": _turns(sub)}
        self._next["compaction"] = lambda _: Reply(f"<analysis>none</analysis><summary>{summary}</summary>")
        self._given: dict[str, tuple[Reply, str]] = {}
        self._name = secrets.token_hex(8)  # no two messages have the same id, though a resumed session has two of us
        self._errands: set[str] = set()
        self._lock = threading.Lock()
        self._http = ThreadingHTTPServer(("", 0), _routes(self), bind_and_activate=False)
        self._http.socket.close()
        self._http.socket = listener
        self._http.daemon_threads = True
        threading.Thread(target=self._http.serve_forever, args=(0.02,), daemon=True).start()

    def close(self) -> None:
        self._http.shutdown()
        self._http.server_close()

    def answer(self, body: Mapping[str, Any]) -> tuple[Reply, str]:
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

    def _read(self, body: Mapping[str, Any]) -> Request:
        texts = tuple(_texts(body.get("messages")))
        opening, latest = (tuple(_texts(body["messages"][at : at + 1 or None])) for at in (0, -1))
        kind: Kind = "main"
        if any(COMPACTION in text for text in latest):
            kind = "compaction"  # comes with the tools of the conversation it will replace
        elif not body.get("tools"):
            kind = "side"
        elif any(errand in text for errand in self._errands for text in opening):
            kind = "sub"  # opens with the prompt of a call we asked for
        return Request(kind, body, texts)


def _turns(script: Script) -> Callable[[Request], Reply]:
    if callable(script):
        return script
    left = iter(script)
    return lambda _: next(left, Reply("(the script has ended)"))


def _texts(value: object) -> Iterator[str]:
    """Every string in a piece of JSON."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for inner in value.values():
            yield from _texts(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _texts(inner)


def _blocks(reply: Reply, message_id: str) -> list[dict[str, Any]]:
    blocks: list[dict[str, Any]] = [{"type": "text", "text": reply.text}] if reply.text else []
    for number, call in enumerate(reply.calls):
        call_id = f"toolu_{message_id}_{number}"
        blocks.append({"type": "tool_use", "id": call_id, "name": call.tool, "input": dict(call.given)})
    return blocks


def _message(reply: Reply, message_id: str, model: str) -> dict[str, Any]:
    return {
        "id": message_id,
        "type": "message",
        "role": "assistant",
        "model": model,
        "content": _blocks(reply, message_id),
        "stop_reason": "tool_use" if reply.calls else "end_turn",
        "stop_sequence": None,
        "usage": {"input_tokens": reply.input_tokens, "output_tokens": 20},
    }


def _stream(message: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The same message as the events of a stream, each block in one piece."""
    yield {"type": "message_start", "message": message | {"content": [], "stop_reason": None}}
    for index, block in enumerate(message["content"]):
        if block["type"] == "text":
            empty, delta = block | {"text": ""}, {"type": "text_delta", "text": block["text"]}
        else:
            empty = block | {"input": {}}
            delta = {"type": "input_json_delta", "partial_json": json.dumps(block["input"])}
        yield {"type": "content_block_start", "index": index, "content_block": empty}
        yield {"type": "content_block_delta", "index": index, "delta": delta}
        yield {"type": "content_block_stop", "index": index}
    ending = {"stop_reason": message["stop_reason"], "stop_sequence": None}
    yield {"type": "message_delta", "delta": ending, "usage": message["usage"]}
    yield {"type": "message_stop"}


def _routes(server: ModelServer) -> type[BaseHTTPRequestHandler]:
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
            if self.path.partition("?")[0] != "/v1/messages":
                return self._send(b'{"type": "error", "error": {"type": "not_found_error"}}', status=404)
            reply, message_id = server.answer(body)
            time.sleep(reply.delay)
            message = _message(reply, message_id, body["model"])
            if not body.get("stream"):
                return self._send(json.dumps(message).encode())
            events = (f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in _stream(message))
            return self._send("".join(events).encode(), kind="text/event-stream")

        def _send(self, content: bytes, kind: str = "application/json", status: int = 200) -> None:
            self.send_response(status)
            self.send_header("content-type", kind)
            self.send_header("content-length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, format: str, *args: object) -> None:
            """Nothing: pytest's output is for the tests."""

    return Routes
