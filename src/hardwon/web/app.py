"""The viewer: a table of pages, which change nothing, and a table of forms, which do.

Pages run in a thread with the viewer's own connection, so that no hook waits for them.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable
from functools import partial
from typing import Any
from urllib.parse import parse_qsl

from starlette.applications import Starlette
from starlette.datastructures import MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response, StreamingResponse
from starlette.routing import Route

from hardwon import __version__, clock, pauses
from hardwon.errors import UserError
from hardwon.store import db, views
from hardwon.web import handoffs, home, inbox, insights, lessons, memory, preferences, search, sessions, team
from hardwon.web.access_control import (
    COOKIE_NAME,
    COOKIE_SECONDS,
    AsgiApp,
    BrowserSession,
    BrowserSessions,
    Message,
    Receive,
    Scope,
    Send,
    redeem_code,
)
from hardwon.web.live import LiveFeed
from hardwon.web.page_request import (
    LATE_PART,
    PageContent,
    PageHandler,
    PageNotFound,
    PageRequest,
    Redirect,
    parse_number,
)
from hardwon.web.render import create_environment, hash_static_files, read_static_files

_MAX_FORM_FIELDS = 200  # the largest form has fewer than 20
# Pages run only our own script and load nothing from elsewhere, so text that slips through as HTML can do little.
_SECURITY_HEADERS = {
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
# Starlette uses the first route that matches, so fixed names come before {number} and {name}.
_PAGES: tuple[tuple[str, PageHandler], ...] = (
    ("/", home.show_home),
    ("/inbox", inbox.show_inbox),
    ("/sessions", sessions.show_session_list),
    ("/sessions/{number}", sessions.show_session),
    ("/sessions/{number}/events/{id}", sessions.show_event),
    ("/search", search.show_search),
    ("/found/{id}", search.redirect_to_record),
    ("/lessons", lessons.show_lesson_list),
    ("/lessons/new", lessons.show_new_lesson),
    ("/lessons/{slug}", lessons.show_lesson),
    ("/lessons/{slug}/edit", lessons.show_lesson_editor),
    ("/review", inbox.show_inbox),
    ("/review/{number}", lessons.show_candidate),
    ("/review/{number}/edit", lessons.show_candidate_editor),
    ("/memory", memory.show_memory_list),
    ("/memory/files/{project}/{name}", memory.show_file),
    ("/memory/{number}", memory.show_memory),
    ("/memory/{number}/edit", memory.show_editor),
    ("/handoffs", handoffs.show_handoff_list),
    ("/handoffs/{number}", handoffs.show_handoff),
    ("/handoffs/{number}/ratify", handoffs.confirm_ratify),
    ("/handoffs/{number}/amend", handoffs.show_editor),
    ("/handoffs/{number}/discard", handoffs.confirm_discard),
    ("/team/{version}", team.show_version),
    ("/insights", insights.show_insights),
    ("/settings", preferences.show_settings),
)
FORM_ACTIONS: tuple[tuple[str, PageHandler], ...] = (
    ("/lessons/{slug}/retire", lessons.retire),
    ("/lessons/{slug}/restore", lessons.restore),
    ("/lessons/new/edit", lessons.add_new_lesson),
    ("/lessons/{slug}/edit", lessons.save_lesson),
    ("/team/{version}/accept", team.accept),
    ("/team/{version}/reject", team.reject),
    ("/review/undo", lessons.undo_last_decision),
    ("/review/{number}/accept", lessons.accept),
    ("/review/{number}/words", lessons.accept_suggested_wording),
    ("/review/{number}/edit", lessons.accept_with_edits),
    ("/review/{number}/reject", lessons.reject),
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
_LOCKED = PageContent("locked.html", {"title": "hardwon", "used": False}, 401)
_LINK_USED = PageContent("locked.html", {"title": "hardwon", "used": True}, 401)
_OPENED = PageContent("opened.html", {"title": "hardwon"})
_NOT_FOUND = PageContent("message.html", {"title": "Not found", "message": "This page does not exist.", "fix": ""}, 404)


class Viewer:
    """Owns the connection that pages read from and the signed-in browsers."""

    def __init__(self, home: str, live_feed: LiveFeed, note_activity: Callable[[], None]) -> None:
        self._home = home
        self._live_feed = live_feed
        self._note_activity = note_activity
        self._browser_sessions = BrowserSessions(home)
        # One connection for all pages, used by one thread at a time. It writes only what a form says, at once, so a
        # purge need not invalidate it.
        self._connection = db.connect(home, ignore_epoch=True)
        self._page_lock = threading.Lock()
        self._templates = create_environment()
        self._static_files = read_static_files()
        self._static_hash = hash_static_files(self._static_files)

    def find_browser_session(self, request: Request) -> BrowserSession | None:
        """Return the session of the browser that sent a request; None if it is not signed in."""
        session = self._browser_sessions.find(request.cookies.get(COOKIE_NAME, ""), clock.now())
        if session:
            self._note_activity()  # the worker does not exit while somebody reads
        return session

    async def run_page(
        self, page: PageHandler, request: Request, session: BrowserSession, form: dict[str, str]
    ) -> Response:
        """Read a page in a thread and return it; after a form was carried out, send the browser to the next page."""
        page_request = PageRequest(
            self._home, self._connection, session, clock.now(), request.path_params, dict(request.query_params), form
        )

        def run_locked() -> Response:
            with self._page_lock:
                answer = _run_safely(partial(page, page_request))
                if isinstance(answer, Redirect):
                    # The message waits for the page that the browser loads next, so it is not in the address.
                    session.message = answer.message
                    return RedirectResponse(answer.location, 303)
                return self.render_page(answer, request, session)

        return await asyncio.to_thread(run_locked)

    def render_page(self, content: PageContent, request: Request, session: BrowserSession | None) -> Response:
        """Return a page as HTML; a page with a late part is sent in pieces.

        Without a session nothing is shown of what is recorded. A message for the person waits until a whole page is
        rendered.
        """
        is_part = content.template.startswith("_")  # of a page that is shown already
        values = {
            "here": f"/{request.url.path.split('/')[1]}",
            "form": session.form_token if session else "",
            "said": session.pop_message() if session and not is_part else "",
            "paused": session is not None and bool(pauses.list_active_pauses(self._home, clock.now())),
            "undecided": sum(views.count_undecided(self._connection).values()) if session else 0,
            "version": __version__,
            "stamp": self._static_hash,
        }
        text = self._templates.get_template(content.template).render({**values, **content.values})
        if content.read_late_part is None:
            return HTMLResponse(text, content.status)
        return StreamingResponse(self._stream_page(text, content.read_late_part), media_type="text/html")

    async def _stream_page(self, text: str, read_late_part: Callable[[], PageContent]) -> AsyncIterator[str]:
        """Send a page up to its late part, then that part as soon as it is read, then the rest."""
        first_part, _, last_part = text.partition(LATE_PART)
        yield first_part
        yield await asyncio.to_thread(self._render_late_part, read_late_part) + last_part

    def _render_late_part(self, read_late_part: Callable[[], PageContent]) -> str:
        """Return the HTML of a late part, or of what went wrong in reading it."""
        with self._page_lock:
            content = _run_safely(read_late_part)
            assert isinstance(content, PageContent)
            if not content.template.startswith("_"):  # an error: its page cannot stand inside another one
                content = PageContent("_form_error.html", {"wrong": content.values})
            return self._templates.get_template(content.template).render(content.values)

    async def redeem_link(self, request: Request) -> Response:
        """Sign a browser in. The link works once, so what stays in the browser's history opens nothing."""
        if not redeem_code(self._home, request.query_params.get("code", ""), clock.now()):
            if self.find_browser_session(request):  # somebody signed in went back, or clicked the link again
                return RedirectResponse("/", 303)
            return self.render_page(_LINK_USED, request, session=None)
        if request.headers.get("sec-fetch-site", "none") in ("none", "same-origin"):
            answer: Response = RedirectResponse("/", 303)
        else:  # browsers send no strict cookie after another site's link, so the next request must start from our page
            answer = self.render_page(_OPENED, request, session=None)
        cookie = self._browser_sessions.sign_in(clock.now())
        answer.set_cookie(COOKIE_NAME, cookie, max_age=COOKIE_SECONDS, httponly=True, samesite="strict", path="/")
        return answer

    async def sign_out(self, request: Request) -> Response:
        """Sign this browser out, and remove its cookie."""
        session = self.find_browser_session(request)
        if session and session.has_token(await _read_form(request)):
            self._browser_sessions.sign_out(request.cookies.get(COOKIE_NAME, ""))
        # Without a valid form the cookie is removed too, which signs out this browser at most.
        answer = RedirectResponse("/", 303)
        answer.delete_cookie(COOKIE_NAME, path="/", httponly=True, samesite="strict")
        return answer

    async def stream_live(self, request: Request) -> Response:
        if self.find_browser_session(request) is None:
            return Response(status_code=401)
        if self._live_feed.is_full:
            return Response(status_code=503)
        after_id = parse_number(request.headers, "last-event-id")
        return StreamingResponse(self._live_feed.listen(after_id), media_type="text/event-stream")

    async def serve_static(self, request: Request) -> Response:
        """Return a static file, from memory; only names that were read at the start exist."""
        name = request.path_params["name"]
        if name not in self._static_files:
            return Response(status_code=404)
        media_type, content = self._static_files[name]
        answer = Response(content, media_type=media_type)
        if request.query_params.get("v") == self._static_hash:  # such an address changes with the content
            answer.headers["cache-control"] = "private, max-age=31536000, immutable"
        return answer

    async def show_error(self, request: Request, error: Exception) -> Response:
        session = self.find_browser_session(request)
        return self.render_page(_NOT_FOUND if session else _LOCKED, request, session)


def create_viewer_app(viewer: Viewer) -> AsgiApp:
    """Build the app of the viewer: its pages, its forms, sign-in, the live stream and static files."""
    routes = []
    for path, page in _PAGES:
        routes.append(Route(path, _build_handler(viewer, page), methods=["GET"]))
    for path, page in FORM_ACTIONS:
        routes.append(Route(path, _build_handler(viewer, page, is_form=True), methods=["POST"]))
    routes += [
        Route("/open", viewer.redeem_link, methods=["GET"]),
        Route("/live", viewer.stream_live, methods=["GET"]),
        Route("/leave", viewer.sign_out, methods=["POST"]),
        Route("/static/{name}", viewer.serve_static, methods=["GET"]),
    ]
    app = Starlette(routes=routes, exception_handlers={HTTPException: viewer.show_error})

    async def app_with_headers(scope: Scope, receive: Receive, send: Send) -> None:
        """Add the security headers to every response, so that no page can lack them."""

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in _SECURITY_HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        await app(scope, receive, send_with_headers)

    return app_with_headers


def _build_handler(viewer: Viewer, page: PageHandler, *, is_form: bool = False) -> Callable[[Request], Any]:
    """Return the handler of a page, or of a form, for browsers that are signed in; others get the locked page."""

    async def serve_request(request: Request) -> Response:
        session = viewer.find_browser_session(request)
        if session is None:
            return viewer.render_page(_LOCKED, request, session=None)
        form: dict[str, str] = {}
        if is_form:
            form = await _read_form(request)
            # The gate has checked the origin; the token shows that the form was loaded in this very session.
            if not session.has_token(form):
                error = UserError("this form does not belong to your session", "go back and reload the page")
                return viewer.render_page(_build_error_page(error, 403), request, session)
        return await viewer.run_page(page, request, session, form)

    return serve_request


def _run_safely(read_content: Callable[[], PageContent | Redirect]) -> PageContent | Redirect:
    """Return what a page answers, or the page that says why it cannot."""
    try:
        return read_content()
    except PageNotFound:
        return _NOT_FOUND
    except UserError as error:
        return _build_error_page(error)
    except OSError as error:  # for example of a repository that is read-only
        return _build_error_page(UserError(f"{error.strerror}: {error.filename}", "check that path, then try again"))
    except db.StoreError as error:
        return _build_error_page(UserError(f"the database: {error}", "try again in a moment, then: hardwon doctor"))


def _build_error_page(error: UserError, status: int = 400) -> PageContent:
    return PageContent("message.html", {"title": "Not done", "message": error.message, "fix": error.fix}, status)


async def _read_form(request: Request) -> dict[str, str]:
    """Return the fields of a form, none if the body is something else."""
    if request.headers.get("content-type", "").partition(";")[0] != "application/x-www-form-urlencoded":
        return {}
    try:
        text = (await request.body()).decode()
        return dict(parse_qsl(text, keep_blank_values=True, max_num_fields=_MAX_FORM_FIELDS))
    except ValueError:
        return {}
