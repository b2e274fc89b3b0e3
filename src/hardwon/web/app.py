"""The viewer: a table of pages and one of deeds, behind one door.

A page is asked with GET and changes nothing. A deed is asked with POST, from a form of ours: the gate has looked at
where the request comes from, and here the cookie and the form's own secret must be right. A page runs in a thread
with the viewer's own connection, so that no hook waits for it.
"""

from __future__ import annotations

import asyncio
import hmac
import threading
from collections.abc import AsyncIterator, Callable
from typing import Any
from urllib.parse import parse_qsl

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response, StreamingResponse
from starlette.routing import Route

from hardwon import __version__, clock, pauses
from hardwon.errors import UserError
from hardwon.store import db
from hardwon.web import handoffs, insights, lessons, memory, now, preferences, review, search, sessions, sign_in_links
from hardwon.web.browser_sessions import COOKIE, Visitor, Visitors
from hardwon.web.page_request import GONE, Ask, Moved, Page, Shown, refused
from hardwon.web.render import environment, stamp, static_files

MOST_FIELDS = 200
HEADERS = {
    "content-security-policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self';"
        " form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
    ),
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}
KEPT = {**HEADERS, "cache-control": "private, max-age=31536000, immutable"}  # its address changes when it does
PLACES = (
    ("Now", "/"),
    ("Sessions", "/sessions"),
    ("Search", "/search"),
    ("Lessons", "/lessons"),
    ("Memory", "/memory"),
    ("Handoffs", "/handoffs"),
    ("Insights", "/insights"),
    ("Settings", "/settings"),
)
PAGES: tuple[tuple[str, Page], ...] = (
    ("/", now.page),
    ("/sessions", sessions.page),
    ("/sessions/{number}", sessions.one),
    ("/sessions/{number}/events/{id}", sessions.event),
    ("/sessions/{number}/transcript/{line}", sessions.transcript),
    ("/search", search.page),
    ("/found/{id}", search.place),
    ("/lessons", lessons.page),
    ("/lessons/{slug}", lessons.one),
    ("/lessons/{slug}/edit", lessons.edit),
    ("/review", review.page),
    ("/review/{number}", review.one),
    ("/review/{number}/edit", review.edit),
    ("/memory", memory.page),
    ("/memory/files/{project}/{name}", memory.file),
    ("/memory/{number}", memory.one),
    ("/memory/{number}/edit", memory.edit),
    ("/handoffs", handoffs.page),
    ("/handoffs/{number}", handoffs.one),
    ("/handoffs/{number}/ratify", handoffs.ratifying),
    ("/handoffs/{number}/amend", handoffs.amend),
    ("/handoffs/{number}/discard", handoffs.discarding),
    ("/insights", insights.page),
    ("/settings", preferences.page),
)
DEEDS: tuple[tuple[str, Page], ...] = (
    ("/lessons/{slug}/retire", lessons.retire),
    ("/lessons/{slug}/restore", lessons.restore),
    ("/lessons/{slug}/edit", lessons.change),
    ("/review/undo", review.undo),
    ("/review/{number}/accept", review.accept),
    ("/review/{number}/words", review.accept_words),
    ("/review/{number}/edit", review.accept_edited),
    ("/review/{number}/reject", review.reject),
    ("/memory/files/{project}/{name}", memory.adopt),
    ("/memory/{number}/edit", memory.change),
    ("/memory/{number}/approve", memory.approve),
    ("/memory/{number}/reject", memory.set_aside),
    ("/memory/{number}/retire", memory.set_aside),
    ("/handoffs/{number}/ratify", handoffs.ratified),
    ("/handoffs/{number}/amend", handoffs.amended),
    ("/handoffs/{number}/discard", handoffs.discarded),
    ("/settings/pause", preferences.pause),
    ("/settings/unpause", preferences.unpause),
    ("/settings/{name}", preferences.change),
)
Listen = Callable[[int | None], AsyncIterator[bytes]]


class Viewer:
    """Owns the connection that pages read from and the visitors."""

    def __init__(self, home: str, listen: Listen, is_full: Callable[[], bool], look: Callable[[], None]) -> None:
        self.home, self.listen, self.is_full, self.look = home, listen, is_full, look
        self.visitors = Visitors()
        self._connection = db.connect(home, lasting=True)
        self._reading = threading.Lock()
        self._templates = environment()
        self._static = static_files()
        self._stamp = stamp(self._static)

    async def show(self, page: Page, request: Request, visitor: Visitor, form: dict[str, str]) -> Response:
        """A page, made away from the loop that answers hooks."""
        ask = Ask(
            self.home,
            self._connection,
            visitor,
            clock.now(),
            dict(request.path_params),
            dict(request.query_params),
            form,
        )

        def made() -> Response:
            with self._reading:
                try:
                    answer = page(ask)
                except UserError as wrong:
                    answer = refused(wrong)
                except OSError as wrong:  # of a repository that cannot be written, say
                    answer = refused(UserError(f"{wrong.strerror}: {wrong.filename}", "look at it, then try again"))
                except db.StoreError as wrong:
                    answer = refused(UserError(f"the database: {wrong}", "try again in a moment, then: hardwon doctor"))
                if isinstance(answer, Moved):
                    visitor.said = answer.said
                    return RedirectResponse(answer.to, 303, headers=HEADERS)
                return self.rendered(answer, request, visitor, ask.now)

        return await asyncio.to_thread(made)

    def rendered(self, shown: Shown, request: Request, visitor: Visitor | None, now: float) -> Response:
        part = shown.template.startswith("_")
        around = {
            "places": PLACES if visitor else (),
            "here": f"/{request.url.path.split('/')[1]}",
            "form": visitor.form if visitor else "",
            "said": visitor.told() if visitor and not part else "",
            "paused": bool(visitor and pauses.in_force(self.home, now)),
            "version": __version__,
            "stamp": self._stamp,
        }
        text = self._templates.get_template(shown.template).render({**around, **shown.values})
        return HTMLResponse(text, shown.status, headers=HEADERS)

    def static(self, name: str, stamped: str) -> Response:
        if name not in self._static:
            return HTMLResponse("", 404, headers=HEADERS)
        kind, content = self._static[name]
        return Response(content, media_type=kind, headers=KEPT if stamped == self._stamp else HEADERS)

    def close(self) -> None:
        self._connection.close()


def app(viewer: Viewer) -> Starlette:
    routes = [Route(path, _page(viewer, page), methods=["GET"]) for path, page in PAGES]
    routes += [Route(path, _deed(viewer, deed), methods=["POST"]) for path, deed in DEEDS]

    async def opened(request: Request) -> Response:
        return _opened(viewer, request)

    async def live(request: Request) -> Response:
        return _live(viewer, request)

    async def static(request: Request) -> Response:
        return viewer.static(request.path_params["name"], request.query_params.get("v", ""))

    async def leave(request: Request) -> Response:
        return await _leave(viewer, request)

    async def wrong(request: Request, error: Exception) -> Response:
        visitor = _visitor(viewer, request)
        return viewer.rendered(GONE if visitor else _LOCKED, request, visitor, clock.now())

    routes += [
        Route("/open", opened, methods=["GET"]),
        Route("/live", live, methods=["GET"]),
        Route("/leave", leave, methods=["POST"]),
        Route("/static/{name}", static, methods=["GET"]),
    ]
    return Starlette(routes=routes, exception_handlers={HTTPException: wrong})


_LOCKED = Shown("locked.html", {"title": "hardwon", "used": False}, 401)
_USED = Shown("locked.html", {"title": "hardwon", "used": True}, 401)


def _visitor(viewer: Viewer, request: Request) -> Visitor | None:
    found = viewer.visitors.find(request.cookies.get(COOKIE, ""), clock.now())
    if found:
        viewer.look()  # a worker does not rest while somebody reads
    return found


def _page(viewer: Viewer, page: Page) -> Callable[[Request], Any]:
    async def served(request: Request) -> Response:
        visitor = _visitor(viewer, request)
        if visitor is None:
            return viewer.rendered(_LOCKED, request, None, clock.now())
        return await viewer.show(page, request, visitor, {})

    return served


def _deed(viewer: Viewer, deed: Page) -> Callable[[Request], Any]:
    async def served(request: Request) -> Response:
        visitor = _visitor(viewer, request)
        if visitor is None:
            return viewer.rendered(_LOCKED, request, None, clock.now())
        form = await _form(request)
        if not _is_ours(visitor, form):
            return viewer.rendered(_STALE, request, visitor, clock.now())
        return await viewer.show(deed, request, visitor, form)

    return served


_STALE = Shown(
    "message.html",
    {"title": "Not done", "say": "This form is not one of this session's.", "fix": "go back, load the page again"},
    403,
)


def _is_ours(visitor: Visitor, form: dict[str, str]) -> bool:
    return hmac.compare_digest(form.get("form", "").encode(), visitor.form.encode())


async def _form(request: Request) -> dict[str, str]:
    """The fields of a form; nothing if it is not one."""
    if request.headers.get("content-type", "").partition(";")[0] != "application/x-www-form-urlencoded":
        return {}
    try:
        text = (await request.body()).decode()
        return dict(parse_qsl(text, keep_blank_values=True, max_num_fields=MOST_FIELDS))
    except ValueError:
        return {}


def _opened(viewer: Viewer, request: Request) -> Response:
    """The link: it works once, and what stays in the address bar is not it."""
    if not sign_in_links.redeem(viewer.home, request.query_params.get("code", ""), clock.now()):
        visitor = _visitor(viewer, request)
        if visitor:  # who is in already may press "back" or click the link again
            return RedirectResponse("/", 303, headers=HEADERS)
        return viewer.rendered(_USED, request, None, clock.now())
    if request.headers.get("sec-fetch-site", "none") in ("none", "same-origin"):
        answer: Response = RedirectResponse("/", 303, headers=HEADERS)
    else:  # a browser sends no strict cookie behind another site's link, so the way on must begin here
        answer = viewer.rendered(Shown("opened.html", {"title": "hardwon"}), request, None, clock.now())
    answer.set_cookie(COOKIE, viewer.visitors.let_in(clock.now()), httponly=True, samesite="strict", path="/")
    return answer


def _live(viewer: Viewer, request: Request) -> Response:
    if _visitor(viewer, request) is None:
        return HTMLResponse("", 401, headers=HEADERS)
    if viewer.is_full():
        return HTMLResponse("", 503, headers=HEADERS)
    last = request.headers.get("last-event-id", "")
    after = int(last) if last.isascii() and last.isdigit() and len(last) < 16 else None
    return StreamingResponse(viewer.listen(after), media_type="text/event-stream", headers=HEADERS)


async def _leave(viewer: Viewer, request: Request) -> Response:
    visitor = _visitor(viewer, request)
    if visitor and _is_ours(visitor, await _form(request)):
        viewer.visitors.let_out(request.cookies.get(COOKIE, ""))
    answer = RedirectResponse("/", 303, headers=HEADERS)
    answer.delete_cookie(COOKIE, path="/", httponly=True, samesite="strict")
    return answer
