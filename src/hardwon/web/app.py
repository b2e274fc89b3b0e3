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
from hardwon.web.browser_sessions import COOKIE_NAME, BrowserSession, BrowserSessions
from hardwon.web.page_request import NOT_FOUND, PageContent, PageHandler, PageRequest, Redirect, build_error_page
from hardwon.web.render import create_environment, hash_static_files, read_static_files

MAX_FORM_FIELDS = 200
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
CACHED_HEADERS = {
    **HEADERS,
    "cache-control": "private, max-age=31536000, immutable",
}  # its address changes when it does
NAVIGATION = (
    ("Now", "/"),
    ("Sessions", "/sessions"),
    ("Search", "/search"),
    ("Lessons", "/lessons"),
    ("Memory", "/memory"),
    ("Handoffs", "/handoffs"),
    ("Insights", "/insights"),
    ("Settings", "/settings"),
)
PAGES: tuple[tuple[str, PageHandler], ...] = (
    ("/", now.show_now),
    ("/sessions", sessions.show_session_list),
    ("/sessions/{number}", sessions.show_session),
    ("/sessions/{number}/events/{id}", sessions.show_event),
    ("/sessions/{number}/transcript/{line}", sessions.show_transcript),
    ("/search", search.show_search),
    ("/found/{id}", search.redirect_to_record),
    ("/lessons", lessons.show_lesson_list),
    ("/lessons/{slug}", lessons.show_lesson),
    ("/lessons/{slug}/edit", lessons.show_editor),
    ("/review", review.show_review_queue),
    ("/review/{number}", review.show_candidate),
    ("/review/{number}/edit", review.show_editor),
    ("/memory", memory.show_memory_list),
    ("/memory/files/{project}/{name}", memory.show_file),
    ("/memory/{number}", memory.show_memory),
    ("/memory/{number}/edit", memory.show_editor),
    ("/handoffs", handoffs.show_handoff_list),
    ("/handoffs/{number}", handoffs.show_handoff),
    ("/handoffs/{number}/ratify", handoffs.confirm_ratify),
    ("/handoffs/{number}/amend", handoffs.show_editor),
    ("/handoffs/{number}/discard", handoffs.confirm_discard),
    ("/insights", insights.show_insights),
    ("/settings", preferences.show_settings),
)
FORM_ACTIONS: tuple[tuple[str, PageHandler], ...] = (
    ("/lessons/{slug}/retire", lessons.retire),
    ("/lessons/{slug}/restore", lessons.restore),
    ("/lessons/{slug}/edit", lessons.save_changes),
    ("/review/undo", review.undo_last_decision),
    ("/review/{number}/accept", review.accept),
    ("/review/{number}/words", review.accept_reader_wording),
    ("/review/{number}/edit", review.accept_with_edits),
    ("/review/{number}/reject", review.reject),
    ("/memory/files/{project}/{name}", memory.approve_file),
    ("/memory/{number}/edit", memory.save_changes),
    ("/memory/{number}/approve", memory.approve),
    ("/memory/{number}/reject", memory.reject_or_retire),
    ("/memory/{number}/retire", memory.reject_or_retire),
    ("/handoffs/{number}/ratify", handoffs.ratify),
    ("/handoffs/{number}/amend", handoffs.save_changes),
    ("/handoffs/{number}/discard", handoffs.discard),
    ("/settings/pause", preferences.pause),
    ("/settings/unpause", preferences.unpause),
    ("/settings/{name}", preferences.save_setting),
)
Listen = Callable[[int | None], AsyncIterator[bytes]]


class Viewer:
    """Owns the connection that pages read from and the visitors."""

    def __init__(
        self, home: str, listen: Listen, is_full: Callable[[], bool], note_activity: Callable[[], None]
    ) -> None:
        self.home, self.listen, self.is_full, self.note_activity = home, listen, is_full, note_activity
        self.browser_sessions = BrowserSessions()
        self._connection = db.connect(home, ignore_epoch=True)
        self._page_lock = threading.Lock()
        self._templates = create_environment()
        self._static_files = read_static_files()
        self._static_hash = hash_static_files(self._static_files)

    async def run_page(
        self, page: PageHandler, request: Request, visitor: BrowserSession, form: dict[str, str]
    ) -> Response:
        """A page, made away from the loop that answers hooks."""
        page_request = PageRequest(
            self.home,
            self._connection,
            visitor,
            clock.now(),
            dict(request.path_params),
            dict(request.query_params),
            form,
        )

        def run_locked() -> Response:
            with self._page_lock:
                try:
                    answer = page(page_request)
                except UserError as error:
                    answer = build_error_page(error)
                except OSError as error:  # of a repository that cannot be written, say
                    answer = build_error_page(
                        UserError(f"{error.strerror}: {error.filename}", "look at it, then try again")
                    )
                except db.StoreError as error:
                    answer = build_error_page(
                        UserError(f"the database: {error}", "try again in a moment, then: hardwon doctor")
                    )
                if isinstance(answer, Redirect):
                    visitor.message = answer.message
                    return RedirectResponse(answer.location, 303, headers=HEADERS)
                return self.render_page(answer, request, visitor, page_request.now)

        return await asyncio.to_thread(run_locked)

    def render_page(
        self, content: PageContent, request: Request, visitor: BrowserSession | None, now: float
    ) -> Response:
        is_partial = content.template.startswith("_")
        layout_values = {
            "places": NAVIGATION if visitor else (),
            "here": f"/{request.url.path.split('/')[1]}",
            "form": visitor.form_token if visitor else "",
            "said": visitor.pop_message() if visitor and not is_partial else "",
            "paused": bool(visitor and pauses.list_active_pauses(self.home, now)),
            "version": __version__,
            "stamp": self._static_hash,
        }
        text = self._templates.get_template(content.template).render({**layout_values, **content.values})
        return HTMLResponse(text, content.status, headers=HEADERS)

    def serve_static(self, name: str, static_hash: str) -> Response:
        if name not in self._static_files:
            return HTMLResponse("", 404, headers=HEADERS)
        media_type, content = self._static_files[name]
        return Response(
            content, media_type=media_type, headers=CACHED_HEADERS if static_hash == self._static_hash else HEADERS
        )

    def close(self) -> None:
        self._connection.close()


def create_viewer_app(viewer: Viewer) -> Starlette:
    routes = [Route(path, _build_page_handler(viewer, page), methods=["GET"]) for path, page in PAGES]
    routes += [Route(path, _build_action_handler(viewer, action), methods=["POST"]) for path, action in FORM_ACTIONS]

    async def redeem_link(request: Request) -> Response:
        return _redeem_link(viewer, request)

    async def stream_live(request: Request) -> Response:
        return _stream_live(viewer, request)

    async def serve_static(request: Request) -> Response:
        return viewer.serve_static(request.path_params["name"], request.query_params.get("v", ""))

    async def sign_out(request: Request) -> Response:
        return await _sign_out(viewer, request)

    async def show_error(request: Request, error: Exception) -> Response:
        visitor = _find_visitor(viewer, request)
        return viewer.render_page(NOT_FOUND if visitor else _LOCKED, request, visitor, clock.now())

    routes += [
        Route("/open", redeem_link, methods=["GET"]),
        Route("/live", stream_live, methods=["GET"]),
        Route("/leave", sign_out, methods=["POST"]),
        Route("/static/{name}", serve_static, methods=["GET"]),
    ]
    return Starlette(routes=routes, exception_handlers={HTTPException: show_error})


_LOCKED = PageContent("locked.html", {"title": "hardwon", "used": False}, 401)
_LINK_USED = PageContent("locked.html", {"title": "hardwon", "used": True}, 401)


def _find_visitor(viewer: Viewer, request: Request) -> BrowserSession | None:
    visitor = viewer.browser_sessions.find(request.cookies.get(COOKIE_NAME, ""), clock.now())
    if visitor:
        viewer.note_activity()  # a worker does not rest while somebody reads
    return visitor


def _build_page_handler(viewer: Viewer, page: PageHandler) -> Callable[[Request], Any]:
    async def serve_request(request: Request) -> Response:
        visitor = _find_visitor(viewer, request)
        if visitor is None:
            return viewer.render_page(_LOCKED, request, None, clock.now())
        return await viewer.run_page(page, request, visitor, {})

    return serve_request


def _build_action_handler(viewer: Viewer, action: PageHandler) -> Callable[[Request], Any]:
    async def serve_request(request: Request) -> Response:
        visitor = _find_visitor(viewer, request)
        if visitor is None:
            return viewer.render_page(_LOCKED, request, None, clock.now())
        form = await _read_form(request)
        if not _is_valid_form(visitor, form):
            return viewer.render_page(_STALE_FORM, request, visitor, clock.now())
        return await viewer.run_page(action, request, visitor, form)

    return serve_request


_STALE_FORM = PageContent(
    "message.html",
    {"title": "Not done", "say": "This form is not one of this session's.", "fix": "go back, load the page again"},
    403,
)


def _is_valid_form(visitor: BrowserSession, form: dict[str, str]) -> bool:
    return hmac.compare_digest(form.get("form", "").encode(), visitor.form_token.encode())


async def _read_form(request: Request) -> dict[str, str]:
    """The fields of a form; nothing if it is not one."""
    if request.headers.get("content-type", "").partition(";")[0] != "application/x-www-form-urlencoded":
        return {}
    try:
        text = (await request.body()).decode()
        return dict(parse_qsl(text, keep_blank_values=True, max_num_fields=MAX_FORM_FIELDS))
    except ValueError:
        return {}


def _redeem_link(viewer: Viewer, request: Request) -> Response:
    """The link: it works once, and what stays in the address bar is not it."""
    if not sign_in_links.redeem_code(viewer.home, request.query_params.get("code", ""), clock.now()):
        visitor = _find_visitor(viewer, request)
        if visitor:  # who is in already may press "back" or click the link again
            return RedirectResponse("/", 303, headers=HEADERS)
        return viewer.render_page(_LINK_USED, request, None, clock.now())
    if request.headers.get("sec-fetch-site", "none") in ("none", "same-origin"):
        answer: Response = RedirectResponse("/", 303, headers=HEADERS)
    else:  # a browser sends no strict cookie behind another site's link, so the way on must begin here
        answer = viewer.render_page(PageContent("opened.html", {"title": "hardwon"}), request, None, clock.now())
    answer.set_cookie(
        COOKIE_NAME, viewer.browser_sessions.sign_in(clock.now()), httponly=True, samesite="strict", path="/"
    )
    return answer


def _stream_live(viewer: Viewer, request: Request) -> Response:
    if _find_visitor(viewer, request) is None:
        return HTMLResponse("", 401, headers=HEADERS)
    if viewer.is_full():
        return HTMLResponse("", 503, headers=HEADERS)
    last_event_id = request.headers.get("last-event-id", "")
    after_id = (
        int(last_event_id) if last_event_id.isascii() and last_event_id.isdigit() and len(last_event_id) < 16 else None
    )
    return StreamingResponse(viewer.listen(after_id), media_type="text/event-stream", headers=HEADERS)


async def _sign_out(viewer: Viewer, request: Request) -> Response:
    visitor = _find_visitor(viewer, request)
    if visitor and _is_valid_form(visitor, await _read_form(request)):
        viewer.browser_sessions.sign_out(request.cookies.get(COOKIE_NAME, ""))
    answer = RedirectResponse("/", 303, headers=HEADERS)
    answer.delete_cookie(COOKIE_NAME, path="/", httponly=True, samesite="strict")
    return answer
