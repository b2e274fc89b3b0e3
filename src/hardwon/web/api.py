"""The worker's HTTP API: a table of routes, from which the routing and the OpenAPI document are made.

It reads and it takes in, never more: nothing here approves. What comes in goes through the same edge as a hook's event.
Reading the database happens in a thread with a connection of its own, so no hook waits for it.
"""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import msgspec
import orjson
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route

from hardwon import __version__, clock
from hardwon.agents.fields import get_text, get_tool_content, get_tool_path
from hardwon.data import exports
from hardwon.errors import UserError
from hardwon.lessons import approved_lessons
from hardwon.lessons import lessons_file as shelves
from hardwon.lessons import record as records
from hardwon.privacy.identifiers import clean_id
from hardwon.search import brief, indexing, query_scope
from hardwon.search import records as whole
from hardwon.search import search as searching
from hardwon.search import timeline as around
from hardwon.store import db, injections, observations, sessions
from hardwon.types import Event, frozen
from hardwon.web import request_bodies
from hardwon.web.live import MAX_CLIENTS, LiveFeed
from hardwon.web.openapi import Endpoint, build_openapi_document
from hardwon.worker.hook_responder import HookResponder

MAX_LIMIT = 500
ApiHandler = Callable[["ApiContext", Request], Awaitable[Response]]


class ApiContext:
    """Owns the connection that requests read from."""

    def __init__(
        self, home: str, responder: HookResponder, live_feed: LiveFeed, note_activity: Callable[[], None] = lambda: None
    ) -> None:
        self.home, self.responder, self.live_feed, self.note_activity = home, responder, live_feed, note_activity
        self.started_at = clock.now()
        self._connection = db.connect(home, ignore_epoch=True)
        self._query_lock = threading.Lock()

    async def run_query(self, query: Callable[[db.Connection], Any]) -> Any:
        """Ask the store, away from the loop that answers hooks."""

        def run_locked() -> Any:
            with self._query_lock:
                return query(self._connection)

        return await asyncio.to_thread(run_locked)

    def close(self) -> None:
        self._connection.close()


def create_api_app(api: ApiContext) -> Starlette:
    def build_route(endpoint: Endpoint) -> Route:
        async def serve_request(request: Request) -> Response:
            api.note_activity()  # a worker does not rest while an editor calls
            return await endpoint.handler(api, request)

        return Route(endpoint.path, serve_request, methods=[endpoint.method])

    return Starlette(
        routes=[build_route(endpoint) for endpoint in ENDPOINTS],
        exception_handlers=dict.fromkeys(
            (HTTPException, UserError, msgspec.ValidationError, db.StoreError, Exception), _build_error_response
        ),
    )


def build_json_response(content: object, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """An answer in JSON, whatever came in from outside: a number it cannot say is null, half a character is escaped."""
    try:
        body = orjson.dumps(content)
    except TypeError:
        body = json.dumps(json.loads(json.dumps(content), parse_constant=lambda word: None)).encode()
    return Response(body, status, headers, "application/json")


async def _build_error_response(request: Request, error: Exception) -> Response:
    if isinstance(error, HTTPException):
        messages = {
            "Not Found": "there is no such thing here",
            "Method Not Allowed": "this is not done with this method",
        }
        body = {"error": messages.get(error.detail, error.detail), "fix": "see /api/openapi.json"}
        return build_json_response(body, error.status_code, headers=error.headers)
    if isinstance(error, UserError):
        return build_json_response({"error": error.say, "fix": error.fix}, 400)
    if isinstance(error, db.StoreError):
        return build_json_response(
            {"error": f"the database: {error}", "fix": "try again in a moment, then: hardwon doctor"}, 503
        )
    if isinstance(error, msgspec.ValidationError):
        return build_json_response({"error": str(error), "fix": "see /api/openapi.json"}, 400)
    return build_json_response({"error": f"a fault of ours: {type(error).__name__}", "fix": "hardwon logs"}, 500)


async def _decode_body(request: Request, body_type: type[Any]) -> Any:
    try:
        return msgspec.json.decode(await request.body(), type=body_type)
    except msgspec.ValidationError:
        raise
    except (msgspec.DecodeError, RecursionError, ValueError) as error:
        raise UserError(f"the body is not JSON: {error}", "send a JSON object") from None


def _parse_number(request: Request, name: str, default: int, maximum: int) -> int:
    text = request.query_params.get(name, str(default))
    if not text.isascii() or not text.isdigit() or len(text) > 12:
        raise UserError(f"{name} is {text[:40]!r}, but wants a whole number", f"?{name}={default}")
    return min(int(text), maximum)


async def health(api: ApiContext, request: Request) -> Response:
    return build_json_response(
        {"status": "ok", "version": __version__, "since": api.started_at, "clients": api.live_feed.client_count}
    )


async def openapi(api: ApiContext, request: Request) -> Response:
    return build_json_response(build_openapi_document(ENDPOINTS))


async def context(api: ApiContext, request: Request) -> Response:
    """What a session in this project opens with, as text."""
    index = api.responder.load_index()
    if index is None:
        return PlainTextResponse("")
    project_name = request.query_params.get("project", "").replace("\0", "")
    opening = await api.run_query(
        lambda connection: brief.preview_opening(connection, api.home, index, _resolve_folder(connection, project_name))
    )
    return PlainTextResponse(opening.text)


def _resolve_folder(connection: db.Connection, project: str) -> str:
    """The folder that is meant: editors name it, or tell only its name, which counts if one project has it."""
    return project if "/" in project else exports.map_unique_project_names(connection).get(project, project)


@frozen
class SessionRef:
    """The session that a call is about: the agent's id and name for it, and the folder where nothing else is said."""

    session_id: str
    agent: str
    cwd: str = ""
    prompt_count: int = 0


async def _find_session(api: ApiContext, request: Request, body: request_bodies.SessionBody) -> SessionRef:
    """Return the session that a call is about: by its number in the path, else by the id in the body."""
    host = clean_id(body.host)  # as it is stored
    if "sessionDbId" in request.path_params:
        return await _find_session_in_path(api, request.path_params["sessionDbId"], host)
    session_id = clean_id(request_bodies.get_session_id(body))
    rows = await api.run_query(lambda connection: sessions.find_by_session_id(connection, session_id, host))
    return _build_session_ref(rows[0]) if rows else SessionRef(session_id, host)


async def _find_session_in_path(api: ApiContext, text: str, host: str) -> SessionRef:
    """Return the session whose number the path has, as init gave it, else the one with this id of the agent's.

    A bare number that no session has is refused: taken for an id, it would make a second session beside the one meant.
    """
    name = clean_id(msgspec.convert(text, request_bodies.SessionId))  # as it is stored

    def find_rows(connection: db.Connection) -> list[dict[str, Any]]:
        by_number = sessions.find_by_number(connection, name)
        return (
            by_number
            or sessions.find_by_session_id(connection, name, host)
            or sessions.find_by_session_id(connection, name)
        )

    rows = await api.run_query(find_rows)
    if len(rows) > 1:
        hosts = sorted({row["host"] for row in rows})
        raise UserError(f"{len(rows)} sessions have the id {name!r}", f'"host": "{hosts[0]}" in the body')
    if rows:
        return _build_session_ref(rows[0])
    if name.isascii() and name.isdigit():
        raise HTTPException(404, f"there is no session {name}; init gives its number as sessionDbId")
    return SessionRef(name, host)


def _build_session_ref(row: Mapping[str, Any]) -> SessionRef:
    return SessionRef(row["session"], row["host"], row["cwd"], row["prompts"])


async def init(api: ApiContext, request: Request) -> Response:
    body = await _decode_body(request, request_bodies.Init)
    session = await _find_session(api, request, body)
    is_known = bool(body.user_prompt) and 0 < body.prompt_number <= session.prompt_count
    skip_reason = "" if is_known else await _record_prompt(api, body, session)
    rows = await api.run_query(
        lambda connection: sessions.find_by_session_id(connection, session.session_id, session.agent)
    )
    session_row = rows[0] if rows else {"id": None, "prompts": 0}
    answer = {"sessionDbId": session_row["id"], "promptNumber": session_row["prompts"], "skipped": bool(skip_reason)}
    return build_json_response({**answer, "reason": skip_reason} if skip_reason else answer)


async def _record_prompt(api: ApiContext, body: request_bodies.Init, session: SessionRef) -> str:
    cwd = body.cwd or await api.run_query(lambda connection: _resolve_folder(connection, body.project)) or session.cwd
    kind = "UserPromptSubmit" if body.user_prompt else "SessionStart"
    return api.responder.record_event(
        Event(session.agent, kind, session.session_id, cwd, source="startup", prompt=body.user_prompt)
    )


async def observed(api: ApiContext, request: Request) -> Response:
    body = await _decode_body(request, request_bodies.Observed)
    session = await _find_session(api, request, body)
    fields = body.tool_input if isinstance(body.tool_input, dict) else {"command": body.tool_input}
    event = Event(
        session.agent,
        "PostToolUseFailure" if body.failed else "PostToolUse",
        session.session_id,
        body.cwd or session.cwd,
        tool=body.tool_name,
        tool_use_id=body.tool_use_id,
        command=get_text(fields, "command"),
        path=get_tool_path(fields),
        content=get_tool_content(body.tool_name, fields),
        input=body.tool_input,
        response=body.tool_response,
        failed=body.failed,
    )
    return _record_event(api, event)


def _record_event(api: ApiContext, event: Event) -> Response:
    return build_json_response({"status": "skipped" if api.responder.record_event(event) else "queued"})


async def summarize(api: ApiContext, request: Request) -> Response:
    body = await _decode_body(request, request_bodies.Summarize)
    session = await _find_session(api, request, body)
    cwd = body.cwd or session.cwd
    return _record_event(
        api, Event(session.agent, "Stop", session.session_id, cwd, message=body.last_assistant_message)
    )


async def complete(api: ApiContext, request: Request) -> Response:
    body = await _decode_body(request, request_bodies.Complete)
    session = await _find_session(api, request, body)
    api.responder.record_event(Event(session.agent, "SessionEnd", session.session_id, session.cwd, message=body.reason))
    return build_json_response({"status": "completed"})


async def processing(api: ApiContext, request: Request) -> Response:
    body = await _decode_body(request, request_bodies.Processing)
    api.live_feed.publish("processing", {"isProcessing": body.is_processing})
    return build_json_response({"isProcessing": body.is_processing})


async def list_sessions(api: ApiContext, request: Request) -> Response:
    limit = _parse_number(request, "limit", 50, MAX_LIMIT)
    project, status = (request.query_params.get(name, "") for name in ("project", "status"))
    rows = await api.run_query(lambda c: sessions.list_sessions(c, limit=limit, project=project, status=status))
    return build_json_response({"sessions": rows})


async def show_session(api: ApiContext, request: Request) -> Response:
    def read_session(connection: db.Connection) -> dict[str, Any] | None:
        name = msgspec.convert(request.path_params["id"], request_bodies.SessionId)
        rows = sessions.find_by_name(connection, name, request.query_params.get("host", ""))
        if len(rows) > 1:
            hosts = sorted({row["host"] for row in rows})
            raise UserError(
                f"{len(rows)} sessions are meant, of {', '.join(hosts)}", f"its whole id, and ?host={hosts[0]}"
            )
        if not rows:
            return None
        number = rows[0]["id"]
        prompts, events = sessions.list_prompt_rows(connection, number), sessions.list_events(connection, number)
        summary = observations.find_summary(connection, number)
        distilled = {
            "observations": observations.list_rows_for_session(connection, number),
            "summary": summary and summary.__dict__,
        }
        return {**rows[0], "promptList": prompts, "eventList": events, **distilled}

    session = await api.run_query(read_session)
    if session is None:
        raise HTTPException(404)
    return build_json_response(session)


async def list_events(api: ApiContext, request: Request) -> Response:
    limit, after_id = _parse_number(request, "limit", 100, MAX_LIMIT), _parse_number(request, "after", 0, 1 << 60)
    rows = await api.run_query(lambda c: sessions.list_events_after(c, after_id=after_id, limit=limit))
    return build_json_response({"events": rows})


def _require_project(request: Request) -> str:
    """The project that is asked about, since there is no folder here to go by."""
    if project := request.query_params.get("project", ""):
        return project
    raise UserError("whose records are meant is not said", "?project=NAME or its path, or * for every one")


async def search(api: ApiContext, request: Request) -> Response:
    params, now, project_name = request.query_params, clock.now(), _require_project(request)
    limit = max(_parse_number(request, "limit", 40, MAX_LIMIT), 1)
    filters = {name: params.get(name, "") for name in ("type", "concept", "file", "host")}
    since, until = (query_scope.parse_time(params.get(name, ""), now) for name in ("since", "until"))
    kinds = [params["kind"]] if params.get("kind") else []

    def run_search(connection: db.Connection) -> searching.SearchResult:
        project = query_scope.resolve_project(connection, project_name, "/")
        return searching.search_records(
            connection,
            api.home,
            params.get("query", ""),
            project=project,
            kinds=kinds,
            since=since,
            until=until,
            limit=limit,
            now=now,
            model=indexing.load_model_or_none(),
            **filters,
        )

    answer = await api.run_query(run_search)
    hits, close = ([hit.__dict__ for hit in group] for group in (answer.hits, answer.close))
    return build_json_response({"hits": hits, "close": close, "note": answer.note})


async def timeline(api: ApiContext, request: Request) -> Response:
    params = request.query_params
    # An anchor says by itself which project is meant.
    project_name = (
        params.get("project", "") or query_scope.ALL_PROJECTS if params.get("anchor") else _require_project(request)
    )
    depth_before, depth_after = (_parse_number(request, f"depth_{side}", 10, MAX_LIMIT) for side in ("before", "after"))
    anchor, query, record_type = (params.get(name, "") for name in ("anchor", "query", "type"))

    def read_timeline(connection: db.Connection) -> around.Timeline:
        model = indexing.load_model_or_none() if query else None
        return around.build_timeline(
            connection,
            api.home,
            anchor=anchor,
            query=query,
            depth_before=depth_before,
            depth_after=depth_after,
            record_type=record_type,
            project=query_scope.resolve_project(connection, project_name, "/"),
            now=clock.now(),
            model=model,
        )

    answer = await api.run_query(read_timeline)
    return build_json_response({"anchor": answer.anchor, "records": list(answer.records), "note": answer.note})


async def batch(api: ApiContext, request: Request) -> Response:
    body = await _decode_body(request, request_bodies.Batch)
    ids = [f"O{record_id}" if isinstance(record_id, int) else record_id for record_id in body.ids]
    return build_json_response(
        {"records": await api.run_query(lambda connection: whole.fetch_records(connection, api.home, ids))}
    )


async def list_lessons(api: ApiContext, request: Request) -> Response:
    lessons_file = await asyncio.to_thread(shelves.read, shelves.get_lessons_path(api.home))
    waiting_ids = {change.id for change in await asyncio.to_thread(approved_lessons.find_waiting_changes, api.home)}
    lesson_records = [records.to_lesson_record(lesson) for lesson in lessons_file.lessons]
    return build_json_response(
        {
            "lessons": [
                {**lesson_record, "status": "waiting"} if lesson_record["id"] in waiting_ids else lesson_record
                for lesson_record in lesson_records
            ]
        }
    )


async def list_deliveries(api: ApiContext, request: Request) -> Response:
    limit, after_id = _parse_number(request, "limit", 100, MAX_LIMIT), _parse_number(request, "after", 0, 1 << 60)
    rows = await api.run_query(lambda c: injections.list_latest_deliveries(c, limit=limit, after_id=after_id))
    return build_json_response(
        {"deliveries": [{"id": delivery_id, **delivery.__dict__} for delivery_id, delivery in rows]}
    )


async def stream(api: ApiContext, request: Request) -> Response:
    if api.live_feed.client_count >= MAX_CLIENTS:
        return build_json_response({"error": f"{MAX_CLIENTS} clients listen already", "fix": "close some"}, 503)
    last_event_id = request.headers.get("last-event-id", "")
    after_id = (
        int(last_event_id) if last_event_id.isascii() and last_event_id.isdigit() and len(last_event_id) < 16 else None
    )
    return StreamingResponse(
        api.live_feed.listen(after_id), media_type="text/event-stream", headers={"cache-control": "no-store"}
    )


_PAGING_PARAMETERS = (("limit", "integer", "how many at most"), ("after", "integer", "only those with a larger id"))
_PROJECT_PARAMETER = ("project", "string", "its name or folder, or * for every one")
_ANCHOR_PROJECT_PARAMETER = ("project", "string", f"{_PROJECT_PARAMETER[2]}; with an anchor it may be left out")


def _build_session_endpoints(name: str, description: str, handler: ApiHandler, body_type: type) -> tuple[Endpoint, ...]:
    """Return one call of a session's life as editors spell it: with and without /api, by id or by number."""
    number_description = f"{description}, in the session of this number"
    return (
        Endpoint("POST", f"/api/sessions/{name}", description, handler, body_type),
        Endpoint("POST", f"/api/sessions/{{sessionDbId}}/{name}", number_description, handler, body_type),
        Endpoint("POST", f"/sessions/{name}", description, handler, body_type),
        Endpoint("POST", f"/sessions/{{sessionDbId}}/{name}", number_description, handler, body_type),
    )


_SESSION_ENDPOINTS = (
    *_build_session_endpoints("init", "a prompt; the session is made with its first", init, request_bodies.Init),
    *_build_session_endpoints("observations", "a tool call and how it ended", observed, request_bodies.Observed),
    *_build_session_endpoints("summarize", "the end of a turn", summarize, request_bodies.Summarize),
    *_build_session_endpoints("complete", "the end of a session", complete, request_bodies.Complete),
)
ENDPOINTS = (
    Endpoint("GET", "/api/health", "whether the worker is well", health),
    Endpoint("GET", "/api/openapi.json", "this document", openapi),
    Endpoint(
        "GET",
        "/api/context/inject",
        "what a session opens with",
        context,
        query_parameters=(("project", "string", "the project's folder, or its name"),),
        media_type="text/plain",
    ),
    *_SESSION_ENDPOINTS,
    Endpoint("POST", "/api/processing", "whether an editor is at work", processing, request_bodies.Processing),
    Endpoint(
        "GET",
        "/api/sessions",
        "the sessions, the latest first",
        list_sessions,
        query_parameters=(
            ("limit", "integer", "how many at most"),
            ("project", "string", "its name or folder"),
            ("status", "string", "initialized, active or completed"),
        ),
    ),
    Endpoint(
        "GET",
        "/api/sessions/{id}",
        "one session, whole",
        show_session,
        query_parameters=(("host", "string", "the agent, where two have a session of this id"),),
    ),
    Endpoint(
        "GET", "/api/events", "events in the order they came in", list_events, query_parameters=_PAGING_PARAMETERS
    ),
    Endpoint(
        "GET",
        "/api/search",
        "what is known about something, the best first",
        search,
        query_parameters=(
            _PROJECT_PARAMETER,
            ("query", "string", "words, a path or an id"),
            ("kind", "string", "observation, lesson and the like"),
            ("type", "string", "such as bugfix"),
            ("concept", "string", "only with this concept"),
            ("file", "string", "its path, or an end of it"),
            ("host", "string", "the agent"),
            ("since", "string", "2026-11-01, or 7d or 2w ago"),
            ("until", "string", "before this"),
            _PAGING_PARAMETERS[0],
        ),
    ),
    Endpoint(
        "GET",
        "/api/timeline",
        "what happened around something",
        timeline,
        query_parameters=(
            _ANCHOR_PROJECT_PARAMETER,
            ("anchor", "string", "an id; a number alone is an observation's"),
            ("query", "string", "instead: around the best answer"),
            ("depth_before", "integer", "how many before"),
            ("depth_after", "integer", "how many after"),
            ("type", "string", "only of this type"),
        ),
    ),
    Endpoint("POST", "/api/observations/batch", "records whole, by their ids", batch, request_bodies.Batch),
    Endpoint("GET", "/api/lessons", "every lesson", list_lessons),
    Endpoint(
        "GET", "/api/deliveries", "what was delivered to agents", list_deliveries, query_parameters=_PAGING_PARAMETERS
    ),
    Endpoint("GET", "/api/stream", "what happens, as it happens", stream, media_type="text/event-stream"),
)
