"""Who may come in over HTTP: the token's holder from this machine, and pages of no other origin.

A web page can make a browser call 127.0.0.1, under a name of its own choice. So the Host must be ours, an Origin, if
there is one, must be ours, and nothing is answered without the token, which no page can read. The Unix socket lies in a
private folder, so who can open it is let in.

The viewer's own pages have one name, and neither token nor socket opens them: the viewer asks for its cookie. What the
browser says of where a request comes from must be right before it is asked anything.
"""

from __future__ import annotations

import asyncio
import hmac
import json
import re
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

MAX_BODY_BYTES = 1_000_000
BODY_TIMEOUT_SECONDS = 10.0
HOST_NAMES = ("127.0.0.1", "localhost", "hardwon.localhost")
VIEWER_HOST = "hardwon.localhost"
# What the viewer serves below /sessions/ is a number, or a number and more; none of its pages has these names.
_SESSION_CALL = re.compile(r"/sessions/(?:[^/]+/)?(?:init|observations|summarize|complete)")

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
AsgiApp = Callable[[Scope, Receive, Send], Awaitable[None]]


def build_gate(api: AsgiApp, pages: AsgiApp, *, token: str, port: int) -> AsgiApp:
    """The API and the viewer's pages behind their gate."""
    viewer_host = f"{VIEWER_HOST}:{port}".encode()
    hosts = {f"{name}:{port}".encode() for name in HOST_NAMES}
    origins = {b"http://" + host for host in hosts}

    async def guarded_app(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        headers = {name.lower(): value for name, value in scope["headers"]}
        is_api = is_api_path(scope["path"])
        if is_api:
            refusal = _find_api_refusal(scope, headers, hosts, origins, token.encode())
        else:
            refusal = _find_page_refusal(scope["method"], headers, viewer_host)
        if refusal:
            await send_error(send, *refusal)
            return
        try:
            body = await _read_body(headers, receive)
        except ValueError as error:
            await send_error(send, 413, str(error), "send less")
            return
        except TimeoutError:
            await send_error(send, 408, "the body did not come in time", "send it at once")
            return
        await (api if is_api else pages)(scope, _replay_body(body, receive), send)

    return guarded_app


def is_api_path(path: str) -> bool:
    """Tell whether a path belongs to the API: below `/api/`, or one of the spellings that editors use without it."""
    return path.startswith("/api/") or _SESSION_CALL.fullmatch(path) is not None


def _find_page_refusal(method: str, headers: dict[bytes, bytes], viewer_host: bytes) -> tuple[int, str, str] | None:
    """Why a page is not shown, or a form not taken, to whoever asks from where this does.

    A browser names the Origin of a form only where it may name a referrer, so pages allow that, to ourselves alone.
    """
    if headers.get(b"host", b"").lower() != viewer_host:
        return 421, "this is not the viewer's name", "hardwon view"
    origin, site = headers.get(b"origin", b"").lower(), headers.get(b"sec-fetch-site", b"")
    if origin not in (b"", b"http://" + viewer_host):
        return 403, "pages of other origins are not answered", "hardwon view"
    if method not in ("GET", "HEAD"):
        if not origin or site not in (b"", b"same-origin"):
            return 403, "only a form of the viewer's own is taken", "hardwon view"
        return None
    is_visit = headers.get(b"sec-fetch-mode") == b"navigate" and headers.get(b"sec-fetch-dest") == b"document"
    if site in (b"cross-site", b"same-site") and not is_visit:
        return 403, "pages of other origins are not answered", "hardwon view"
    return None


def _find_api_refusal(
    scope: Scope, headers: dict[bytes, bytes], hosts: set[bytes], origins: set[bytes], token: bytes
) -> tuple[int, str, str] | None:
    if (scope.get("server") or ("", 0))[1] is None:
        return None  # the Unix socket: it has no port. A caller who hung up has no address either, so that says nothing
    if headers.get(b"host", b"").lower() not in hosts:
        return 421, "this is no name of ours", "call http://127.0.0.1"
    if headers.get(b"origin", b"").lower() not in origins | {b""}:
        return 403, "pages of other origins are not answered", "call it from a program"
    authorization = headers.get(b"authorization", b"")
    if not hmac.compare_digest(authorization.lower()[:7], b"bearer ") or not hmac.compare_digest(
        authorization[7:].strip(), token
    ):
        return 401, "no token, or a wrong one", "send Authorization: Bearer with the content of ~/.hardwon/token"
    return None


async def _read_body(headers: dict[bytes, bytes], receive: Receive) -> bytes:
    """The whole body; ValueError if it is too large, TimeoutError if it is too slow."""
    content_length = headers.get(b"content-length", b"0")
    if content_length.isdigit() and int(content_length) > MAX_BODY_BYTES:
        raise ValueError(f"the body has {int(content_length):,} bytes, and may have {MAX_BODY_BYTES:,}")
    parts, size = [], 0
    async with asyncio.timeout(BODY_TIMEOUT_SECONDS):
        while True:
            message = await receive()
            part = message.get("body", b"")
            size += len(part)
            if size > MAX_BODY_BYTES:
                raise ValueError(f"the body has more than {MAX_BODY_BYTES:,} bytes")
            parts.append(part)
            if message["type"] == "http.disconnect" or not message.get("more_body"):
                return b"".join(parts)


def _replay_body(body: bytes, receive: Receive) -> Receive:
    is_replayed = False

    async def receive_again() -> MutableMapping[str, Any]:
        nonlocal is_replayed
        if is_replayed:
            return await receive()
        is_replayed = True
        return {"type": "http.request", "body": body, "more_body": False}

    return receive_again


async def send_error(send: Send, status: int, say: str, fix: str) -> None:
    """An error as every error is told: what is wrong, and what to do."""
    body = json.dumps({"error": say, "fix": fix}).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
