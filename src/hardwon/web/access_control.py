"""Access control for HTTP: programs need the token, and browsers a session started by a sign-in link.

A web page can make a browser call 127.0.0.1 under a host name of the page's choice (DNS rebinding). So every request
must have one of our Host headers and no foreign origin, and the API requires the token, which no page can read.

The token does not open the viewer's pages: they need the cookie that a sign-in link gives.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import json
import os
import re
import secrets
from collections.abc import Awaitable, Callable, MutableMapping
from contextlib import suppress
from typing import Any

from hardwon import paths
from hardwon.types import frozen

_MAX_BODY_BYTES = 1_000_000  # a tool result from an editor may be large; hooks do not come this way
_BODY_TIMEOUT_SECONDS = 10.0
# A cookie for 127.0.0.1 would be sent to every local port, so the viewer has a host name of its own. Browsers resolve
# *.localhost to this machine.
VIEWER_HOST = "hardwon.localhost"
_HOST_NAMES = ("127.0.0.1", "localhost", VIEWER_HOST)
# Calls of the API that editors spell without `/api/`; no page of the viewer has one of these names below /sessions/.
_SESSION_CALL = re.compile(r"/sessions/(?:[^/]+/)?(?:init|observations|summarize|complete)")

_LINKS_FOLDER = "links"
_LINK_SECONDS = 300.0  # the help of `hardwon view` names both times
_BROWSERS_FOLDER = "browsers"
COOKIE_NAME = "hardwon"
_MAX_BROWSER_SESSIONS = 20
_MAX_IDLE_SECONDS = 7 * 86_400.0
COOKIE_SECONDS = 90 * 86_400  # the file's age decides; this only makes the browser keep the cookie when it closes

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
AsgiApp = Callable[[Scope, Receive, Send], Awaitable[None]]


@frozen
class Refusal:
    """An error response: its status, what is wrong and what to do."""

    status: int
    error: str
    fix: str


def build_gate(api: AsgiApp, pages: AsgiApp, *, token: str, port: int) -> AsgiApp:
    """Return the app that checks every request before the API or the viewer sees it."""
    viewer_host = f"{VIEWER_HOST}:{port}".encode()
    hosts = {f"{name}:{port}".encode() for name in _HOST_NAMES}

    async def guarded_app(scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on with its body, or answer with the reason why it is refused."""
        if scope["type"] != "http":
            return  # there are no web sockets here
        headers = {name.lower(): value for name, value in scope["headers"]}
        path = scope["path"]
        is_api = path.startswith("/api/") or _SESSION_CALL.fullmatch(path) is not None
        if is_api:
            refusal = _find_api_refusal(headers, hosts, token.encode())
        else:
            refusal = _find_page_refusal(scope["method"], headers, viewer_host)
        # The body is read here, so that no handler has to bound it.
        body = b""
        if refusal is None:
            try:
                body = await _read_body(headers, receive)
            except ValueError as error:
                refusal = Refusal(413, str(error), "send less")
            except TimeoutError:
                refusal = Refusal(408, "the body took too long", "send it at once")
        if refusal:
            await _send_refusal(send, refusal)
            return
        app = api if is_api else pages
        await app(scope, _replay_body(body, receive), send)

    return guarded_app


def _find_page_refusal(method: str, headers: dict[bytes, bytes], viewer_host: bytes) -> Refusal | None:
    """Return why a request for a page is refused; None if it comes from the viewer itself or a person's visit."""
    if headers.get(b"host", b"").lower() != viewer_host:
        return Refusal(421, "not the viewer's host name", "hardwon view")
    origin = headers.get(b"origin", b"").lower()
    site = headers.get(b"sec-fetch-site", b"")
    if origin not in (b"", b"http://" + viewer_host):
        return Refusal(403, "pages of other origins are not answered", "hardwon view")
    if method not in ("GET", "HEAD"):
        # Browsers send the Origin of a form only where a referrer is allowed, so base.html allows it for our own host.
        if not origin or site not in (b"", b"same-origin"):
            return Refusal(403, "only the viewer's own forms are accepted", "hardwon view")
        return None
    # A link on another site may lead here; a script, a frame or an image there may not.
    is_visit = headers.get(b"sec-fetch-mode") == b"navigate" and headers.get(b"sec-fetch-dest") == b"document"
    if site in (b"cross-site", b"same-site") and not is_visit:
        return Refusal(403, "pages of other origins are not answered", "hardwon view")
    return None


def _find_api_refusal(headers: dict[bytes, bytes], hosts: set[bytes], token: bytes) -> Refusal | None:
    """Return why a call of the API is refused; None if it has one of our hosts, no foreign origin and the token."""
    if headers.get(b"host", b"").lower() not in hosts:
        return Refusal(421, "unknown Host header", "call http://127.0.0.1")
    origins = {b"", *(b"http://" + host for host in hosts)}
    if headers.get(b"origin", b"").lower() not in origins:
        return Refusal(403, "pages of other origins are not answered", "call it from a program")
    scheme, _, credentials = headers.get(b"authorization", b"").partition(b" ")
    if scheme.lower() != b"bearer" or not hmac.compare_digest(credentials.strip(), token):
        return Refusal(
            401, "no token, or a wrong one", "send Authorization: Bearer with the content of ~/.hardwon/token"
        )
    return None


async def _read_body(headers: dict[bytes, bytes], receive: Receive) -> bytes:
    """Return the whole body; ValueError if it is too large, TimeoutError if it is too slow."""
    content_length = headers.get(b"content-length", b"0")
    if content_length.isdigit() and int(content_length) > _MAX_BODY_BYTES:
        raise ValueError(f"the body has {int(content_length):,} bytes, more than {_MAX_BODY_BYTES:,}")
    body = bytearray()
    async with asyncio.timeout(_BODY_TIMEOUT_SECONDS):
        while True:
            message = await receive()
            body += message.get("body", b"")
            if len(body) > _MAX_BODY_BYTES:
                raise ValueError(f"the body has more than {_MAX_BODY_BYTES:,} bytes")
            if message["type"] == "http.disconnect" or not message.get("more_body"):
                return bytes(body)


def _replay_body(body: bytes, receive: Receive) -> Receive:
    """Return a `receive` that gives the app a body that was read already, and after that what still comes."""
    is_replayed = False

    async def receive_again() -> Message:
        nonlocal is_replayed
        if is_replayed:
            return await receive()
        is_replayed = True
        return {"type": "http.request", "body": body, "more_body": False}

    return receive_again


async def _send_refusal(send: Send, refusal: Refusal) -> None:
    """Answer with the status of a refusal, and what is wrong and what to do as JSON."""
    body = json.dumps({"error": refusal.error, "fix": refusal.fix}).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": refusal.status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


def create_link(home: str, port: int, now: float) -> str:
    """Return a new link that opens the viewer once, and delete expired ones.

    A code is an empty file in the home, named by the code's hash. Whoever can write there could as well write
    lessons.json; no request creates one, so the API's token cannot sign a browser in.
    """
    folder = paths.make_private_folder(os.path.join(home, _LINKS_FOLDER))
    for name in os.listdir(folder):
        if not _is_fresh(os.path.join(folder, name), now, _LINK_SECONDS):
            _delete_file(os.path.join(folder, name))
    code = secrets.token_urlsafe(32)
    paths.write_private(_get_code_path(home, code), b"")
    return f"http://{VIEWER_HOST}:{port}/open?code={code}"


def redeem_code(home: str, code: str, now: float) -> bool:
    """Use up the code of a link; return whether it was valid."""
    path = _get_code_path(home, code)
    is_fresh = _is_fresh(path, now, _LINK_SECONDS)
    # Deleting decides: of two requests with the same code only one succeeds.
    return _delete_file(path) and is_fresh


def _get_code_path(home: str, code: str) -> str:
    return os.path.join(home, _LINKS_FOLDER, _hash_secret(code))


def _is_fresh(path: str, now: float, max_seconds: float) -> bool:
    try:
        # A file from the future was made with a wrong clock or by hand; a second allows for rounding.
        return -1 <= now - os.stat(path).st_mtime < max_seconds
    except OSError:
        return False


def _delete_file(path: str) -> bool:
    """Delete a file; return True for exactly one of several callers at the same time."""
    try:
        os.unlink(path)
    except OSError:
        return False
    return True


def _hash_secret(secret: str) -> str:
    return hashlib.sha256(secret.encode("utf-8", "replace")).hexdigest()


class BrowserSession:
    """Owns the state of one signed-in browser: the token of its forms, the next message, the candidates it decided."""

    def __init__(self, cookie: str) -> None:
        # Derived from the cookie, so that a form that was loaded before the worker restarted is still accepted.
        self.form_token = _hash_secret(f"form {cookie}")
        self.message = ""
        self.decided_ids: list[str] = []

    def pop_message(self) -> str:
        """Return the message for the next page, which is shown only once; empty if there is none."""
        message = self.message
        self.message = ""
        return message

    def has_token(self, form: dict[str, str]) -> bool:
        """Return whether a form was loaded in this session; the comparison takes the same time for every token."""
        return hmac.compare_digest(form.get("form", "").encode(), self.form_token.encode())


class BrowserSessions:
    """The signed-in browsers.

    Each is an empty file in the home, named by the hash of its cookie and last modified when the browser was last
    seen, so browsers stay signed in when the worker restarts. A hash signs nobody in. Deleting the file signs out.
    """

    def __init__(self, home: str) -> None:
        self._folder = os.path.join(home, _BROWSERS_FOLDER)
        self._sessions: dict[str, BrowserSession] = {}

    def sign_in(self, now: float) -> str:
        """Return the cookie of a new session, and delete the files of those that are too old or too many."""
        paths.make_private_folder(self._folder)
        cookie = secrets.token_urlsafe(32)
        paths.write_private(self._get_path(cookie), b"")
        files = [os.path.join(self._folder, name) for name in os.listdir(self._folder)]
        fresh_files = [path for path in files if _is_fresh(path, now, _MAX_IDLE_SECONDS)]
        fresh_files.sort(key=os.path.getmtime, reverse=True)
        for path in set(files) - set(fresh_files[:_MAX_BROWSER_SESSIONS]):
            _delete_file(path)
        return cookie

    def find(self, cookie: str, now: float) -> BrowserSession | None:
        """Return the browser with this cookie, which counts as seen now; None if it is not signed in."""
        path = self._get_path(cookie)
        if not cookie or not _is_fresh(path, now, _MAX_IDLE_SECONDS):
            self._sessions.pop(path, None)
            return None
        with suppress(OSError):  # a full disk must not sign anybody out
            os.utime(path, (now, now))
        return self._sessions.setdefault(path, BrowserSession(cookie))

    def sign_out(self, cookie: str) -> None:
        path = self._get_path(cookie)
        _delete_file(path)
        self._sessions.pop(path, None)

    def _get_path(self, cookie: str) -> str:
        return os.path.join(self._folder, _hash_secret(cookie))


def sign_out_all(home: str) -> int:
    """Sign every browser out; return how many were signed in."""
    folder = os.path.join(home, _BROWSERS_FOLDER)
    if not os.path.isdir(folder):
        return 0
    count = 0
    for name in os.listdir(folder):
        if _delete_file(os.path.join(folder, name)):
            count += 1
    return count
