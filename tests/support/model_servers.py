"""Model servers with scripted replies: the Messages API and the chat completions API on loopback.

A reply may be anything a provider might send, down to the bytes and where the connection breaks.
"""

from __future__ import annotations

import json
import socket
import struct
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

MESSAGES, COMPLETIONS = "/v1/messages", "/v1/chat/completions"


@dataclass(frozen=True)
class Reply:
    """What is sent: a text in the form that was asked for, or `raw` bytes; `cut` bytes of it before a reset."""

    text: str = ""
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    stop: str = ""
    refusal: str = ""
    usage: Mapping[str, Any] | None = field(default_factory=lambda: {"in": 1_000, "out": 50, "cached": 200})
    error: Any = None
    raw: bytes | None = None
    kind: str = ""
    cut: int = -1
    silent: bool = False  # nothing at all, until the server is closed
    stalls: bool = False  # half of it, and then nothing
    tool: bool = False
    drips: bytes = b""  # `raw`, or a head, and then this again and again


@dataclass(frozen=True)
class Request:
    path: str
    headers: Mapping[str, str]
    raw: bytes

    @property
    def body(self) -> dict[str, Any]:
        parsed: dict[str, Any] = json.loads(self.raw)
        return parsed

    @property
    def system(self) -> str:
        return str(self.body["system"] if self.path == MESSAGES else self.body["messages"][0]["content"])

    @property
    def prompt(self) -> str:
        return str(self.body["messages"][-1]["content"])


Script = Reply | Sequence[Reply] | Callable[[Request], Reply]


class ModelServer:
    """Serves on loopback until closed; `requests` is everything it was asked, in order."""

    def __init__(self, script: Script) -> None:
        self.requests: list[Request] = []
        self._script = script
        self._lock = threading.Lock()
        self.closed = threading.Event()
        self._http = ThreadingHTTPServer(("127.0.0.1", 0), _build_handler(self))
        self._http.daemon_threads = True
        threading.Thread(target=self._http.serve_forever, args=(0.005,), daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._http.server_address[1]}"

    def close(self) -> None:
        self.closed.set()
        self._http.shutdown()
        self._http.server_close()

    def answer(self, request: Request) -> Reply:
        """Return the script's next reply; the last of a list is repeated."""
        with self._lock:
            self.requests.append(request)
            if isinstance(self._script, Reply):
                return self._script
            if callable(self._script):
                return self._script(request)
            return self._script[min(len(self.requests), len(self._script)) - 1]


def _build_message(reply: Reply, model: str) -> dict[str, Any]:
    usage = reply.usage and {
        "input_tokens": reply.usage["in"] - reply.usage["cached"],
        "cache_read_input_tokens": reply.usage["cached"],
        "output_tokens": reply.usage["out"],
    }
    content: list[dict[str, Any]] = [{"type": "text", "text": reply.text}]
    if reply.tool:
        content = [{"type": "tool_use", "id": "toolu_1", "name": "Bash", "input": {}}]
    stop = reply.stop or ("tool_use" if reply.tool else "end_turn")
    fields = {"id": "msg_1", "type": "message", "role": "assistant", "model": model, "stop_sequence": None}
    return {**fields, "content": content, "stop_reason": stop, **({"usage": usage} if usage else {})}


def _build_completion(reply: Reply, model: str) -> dict[str, Any]:
    calls = [{"id": "call_1", "type": "function", "function": {"name": "run", "arguments": "{}"}}]
    message: dict[str, Any] = {
        "role": "assistant",
        "content": reply.text,
        **({"refusal": reply.refusal} if reply.refusal else {}),
    }
    if reply.tool:
        message = {"role": "assistant", "content": None, "tool_calls": calls}
    choice = {"index": 0, "message": message, "finish_reason": reply.stop or ("tool_calls" if reply.tool else "stop")}
    completion = {"id": "chatcmpl-1", "object": "chat.completion", "model": model, "choices": [choice]}
    return {**completion, **({"usage": _build_completion_usage(reply)} if reply.usage else {})}


def _build_completion_usage(reply: Reply) -> dict[str, Any]:
    usage = reply.usage or {}
    details = {"cached_tokens": usage["cached"]}
    return {"prompt_tokens": usage["in"], "completion_tokens": usage["out"], "prompt_tokens_details": details}


def _build_content(reply: Reply, request: Request) -> tuple[bytes, str]:
    if reply.raw is not None:
        return reply.raw, reply.kind or "application/json"
    if reply.status != 200:
        return json.dumps({"type": "error", "error": reply.error}).encode(), "application/json"
    model = str(request.body["model"])
    body = _build_message(reply, model) if request.path == MESSAGES else _build_completion(reply, model)
    return json.dumps(body).encode(), "application/json"


def _build_handler(server: ModelServer) -> type[BaseHTTPRequestHandler]:
    class Routes(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True  # a kept-alive connection would wait 40 ms before each reply
        wbufsize = -1

        def do_POST(self) -> None:
            raw = self.rfile.read(int(self.headers["content-length"]))
            headers = {name.lower(): value for name, value in self.headers.items()}
            request = Request(self.path.partition("?")[0], headers, raw)
            reply = server.answer(request)
            if reply.silent:
                server.closed.wait(60)
                self.close_connection = True
                return
            if reply.drips:
                self._drip(reply)
                return
            content, kind = _build_content(reply, request)
            self.send_response(reply.status)
            self.send_header("content-type", kind)
            self.send_header("content-length", str(len(content)))
            for name, value in reply.headers.items():
                self.send_header(name, value)
            self.end_headers()
            if reply.stalls:
                self.wfile.write(content[: len(content) // 2])
                self.wfile.flush()
                server.closed.wait(60)
                self.close_connection = True
                return
            if reply.cut < 0:
                self.wfile.write(content)
                return
            self.wfile.write(content[: reply.cut])
            self.wfile.flush()
            self.close_connection = True
            # With nothing to linger for, closing resets the connection.
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))

        def _drip(self, reply: Reply) -> None:
            self.close_connection = True
            with suppress(OSError):
                self.wfile.write(reply.raw or b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n\r\n")
                for _ in range(200):
                    self.wfile.write(reply.drips)
                    self.wfile.flush()
                    if server.closed.wait(0.05):
                        return

        def log_message(self, format: str, *args: object) -> None:
            """Print nothing into the output of the tests."""

    return Routes
