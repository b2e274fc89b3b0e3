"""The worker's HTTP API: a table of endpoints, from which the routes and the OpenAPI document are built.

The API reads and records, it never approves. What it records goes through the same filters as a hook's event.
"""

from __future__ import annotations

import asyncio
import inspect
import json
import os
import threading
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

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
from hardwon.lessons import lessons_file, lookup, manifest
from hardwon.lessons.record import to_lesson_record
from hardwon.privacy.identifiers import clean_id
from hardwon.search import brief, indexing, query_scope
from hardwon.search.records import fetch_records
from hardwon.search.search import search_records
from hardwon.search.timeline import build_timeline
from hardwon.store import db, efficacy, observations, sessions
from hardwon.types import Event, dump_record
from hardwon.web.live import MAX_CLIENTS, LiveFeed
from hardwon.web.page_request import parse_number
from hardwon.worker.hook_responder import HookResponder

_MAX_LIMIT = 500
_MAX_ROW_ID = 1 << 60  # SQLite's integers end at 1 << 63

SessionId = Annotated[str, msgspec.Meta(min_length=1, max_length=200, pattern=r"^[^\x00-\x1f/\\]+(?![\s\S])")]
LongText = Annotated[str, msgspec.Meta(max_length=900_000)]
ShortText = Annotated[str, msgspec.Meta(max_length=4_000, pattern=r"^[^\x00]*$")]
EventTime = Annotated[float, msgspec.Meta(ge=0, le=1e11, description="when it happened, if it is reported later")]


# The bodies have the field names that editors' extensions already use. Each names its session by one of two ids, unless
# the path does.


class Init(msgspec.Struct):
    """A prompt; the first one creates the session. A prompt whose number was already recorded is not stored again."""

    claudeSessionId: SessionId | msgspec.UnsetType = msgspec.UNSET
    sessionId: SessionId | msgspec.UnsetType = msgspec.UNSET
    userPrompt: LongText = ""
    promptNumber: Annotated[int, msgspec.Meta(ge=0, le=1_000_000)] = 0
    project: ShortText = ""
    cwd: ShortText = ""
    host: ShortText = "api"
    at: EventTime = 0.0


class Observed(msgspec.Struct, kw_only=True):
    """A tool call and how it ended."""

    claudeSessionId: SessionId | msgspec.UnsetType = msgspec.UNSET
    sessionId: SessionId | msgspec.UnsetType = msgspec.UNSET
    tool_name: ShortText
    tool_input: Any = None
    tool_response: Any = None
    cwd: ShortText = ""
    host: ShortText = "api"
    at: EventTime = 0.0
    tool_use_id: ShortText = ""
    failed: bool = False


class Summarize(msgspec.Struct):
    """The end of a turn, with the last messages."""

    claudeSessionId: SessionId | msgspec.UnsetType = msgspec.UNSET
    sessionId: SessionId | msgspec.UnsetType = msgspec.UNSET
    last_user_message: LongText = ""
    last_assistant_message: LongText = ""
    cwd: ShortText = ""
    host: ShortText = "api"
    at: EventTime = 0.0


class Complete(msgspec.Struct):
    """The end of a session."""

    claudeSessionId: SessionId | msgspec.UnsetType = msgspec.UNSET
    sessionId: SessionId | msgspec.UnsetType = msgspec.UNSET
    reason: ShortText = "other"
    host: ShortText = "api"
    at: EventTime = 0.0


SessionBody = Init | Observed | Summarize | Complete
_ID_FIELDS = ("claudeSessionId", "sessionId")


class Batch(msgspec.Struct):
    """Ids of records to read; a number alone is an observation's."""

    ids: Annotated[list[Annotated[str, msgspec.Meta(max_length=300)] | int], msgspec.Meta(min_length=1, max_length=200)]


class Processing(msgspec.Struct):
    """Whether an editor shows that something is being worked on."""

    isProcessing: bool


class ApiContext:
    """Owns the connection that requests read from, in threads, so that no hook waits for them."""

    def __init__(
        self, home: str, responder: HookResponder, live_feed: LiveFeed, note_activity: Callable[[], None] = lambda: None
    ) -> None:
        self.home = home
        self.responder = responder
        self.live_feed = live_feed
        self.note_activity = note_activity
        self.started_at = clock.now()
        self.connection = db.connect(home, ignore_epoch=True)
        self._query_lock = threading.Lock()

    async def run_in_thread(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Run a function that uses the connection in a thread, one at a time, and return its result."""

        def run_locked() -> Any:
            with self._query_lock:
                return function(*arguments)

        return await asyncio.to_thread(run_locked)


@dataclass(frozen=True, slots=True)
class ApiCall:
    """A request to an endpoint, with its body decoded."""

    api: ApiContext
    request: Request
    body: Any

    @property
    def connection(self) -> db.Connection:
        return self.api.connection

    def get_text(self, name: str) -> str:
        return self.request.query_params.get(name, "")

    def get_number(self, name: str, default: int, maximum: int = _MAX_LIMIT) -> int:
        """Return a whole number up to a maximum; the default if the query does not name it."""
        if name not in self.request.query_params:
            return default
        number = parse_number(self.request.query_params, name)
        if number is None:
            raise UserError(f"{name} is {self.get_text(name)[:40]!r}, not a whole number", f"?{name}={default}")
        return min(number, maximum)

    def require_project(self) -> str:
        """Return the project that is asked about; unlike a terminal a request has no folder to go by."""
        if project := self.get_text("project"):
            return project
        raise UserError("no project given", "?project=NAME or its path, or * for all")


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One route. A plain handler runs in a thread; an async one on the worker's loop, where events are recorded."""

    method: str
    path: str
    description: str
    handler: Callable[[ApiCall], Any]
    body_type: type | None = None
    query_parameters: tuple[tuple[str, str, str], ...] = ()  # name, type, description
    media_type: str = "application/json"


def create_api_app(api: ApiContext) -> Starlette:
    """Build the app with a route for each endpoint; every fault becomes JSON with `error` and `fix`."""

    def build_route(endpoint: Endpoint) -> Route:
        """Return the route of an endpoint; what its handler returns becomes JSON unless it is a response already."""

        async def serve_request(request: Request) -> Response:
            api.note_activity()  # the worker does not exit while an editor calls
            body = None
            if endpoint.body_type:
                body = _decode_body(await request.body(), endpoint.body_type)
            call = ApiCall(api, request, body)
            if inspect.iscoroutinefunction(endpoint.handler):
                answer = await endpoint.handler(call)
            else:
                answer = await api.run_in_thread(endpoint.handler, call)
            if isinstance(answer, Response):
                return answer
            return _build_json_response(answer)

        return Route(endpoint.path, serve_request, methods=[endpoint.method])

    errors = (HTTPException, UserError, msgspec.ValidationError, db.StoreError, Exception)
    return Starlette(
        routes=[build_route(endpoint) for endpoint in ENDPOINTS],
        exception_handlers=dict.fromkeys(errors, _build_error_response),
    )


def _build_json_response(content: object, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """Return a value as JSON; text that is not valid Unicode is escaped, and NaN becomes null."""
    try:
        body = orjson.dumps(content)
    except TypeError:  # a hook brought in a lone surrogate, half of a character, which only `json` can write
        without_nan = json.loads(json.dumps(content), parse_constant=lambda word: None)
        body = json.dumps(without_nan).encode()
    return Response(body, status, headers, "application/json")


async def _build_error_response(request: Request, error: Exception) -> Response:
    """Return an error as JSON: 400 for what the caller did wrong, 503 for the database, 500 for our own faults."""
    document = "see /api/openapi.json"
    if isinstance(error, HTTPException):
        return _build_json_response({"error": error.detail.lower(), "fix": document}, error.status_code, error.headers)
    if isinstance(error, UserError):
        return _build_json_response({"error": error.message, "fix": error.fix}, 400)
    if isinstance(error, msgspec.ValidationError):
        return _build_json_response({"error": str(error), "fix": document}, 400)
    if isinstance(error, db.StoreError):
        fix = "try again in a moment, then: hardwon doctor"
        return _build_json_response({"error": f"the database: {error}", "fix": fix}, 503)
    return _build_json_response({"error": f"internal error: {type(error).__name__}", "fix": "hardwon logs"}, 500)


def _decode_body(body: bytes, body_type: type[Any]) -> Any:
    """Return the body of a request as its type; ValidationError for a wrong field, UserError for what is no JSON."""
    try:
        return msgspec.json.decode(body, type=body_type)
    except msgspec.ValidationError:
        raise
    except (msgspec.DecodeError, RecursionError, ValueError) as error:
        raise UserError(f"the body is not JSON: {error}", "send a JSON object") from None


async def get_health(call: ApiCall) -> object:
    return {
        "status": "ok",
        "version": __version__,
        "since": call.api.started_at,
        "clients": call.api.live_feed.client_count,
    }


def get_openapi(call: ApiCall) -> object:
    return build_openapi_document(ENDPOINTS)


async def preview_context(call: ApiCall) -> Response:
    """Return the text that a session in this project opens with."""
    api = call.api
    index = call.api.responder.load_index()
    if index is None:
        return PlainTextResponse("")

    def preview_opening() -> str:
        folder = _resolve_folder(call.connection, call.get_text("project").replace("\0", ""))
        return brief.preview_opening(call.connection, api.home, index, folder).text

    return PlainTextResponse(await api.run_in_thread(preview_opening))


def _resolve_folder(connection: db.Connection, project: str) -> str:
    """Return the project's folder; some editors send only its name, which counts if one project has it."""
    if "/" in project:
        return project
    return exports.map_unique_project_names(connection).get(project, project)


def _find_session(call: ApiCall) -> db.Row:
    """Return the row of the session that the path or the body names, or one like it if there is none yet."""
    host = clean_id(call.body.host)  # as it is stored
    if "sessionDbId" in call.request.path_params:
        return _find_session_in_path(call, host)
    # Editors use either name for the same id.
    session_ids = {getattr(call.body, name) for name in _ID_FIELDS} - {msgspec.UNSET}
    if not session_ids:
        raise msgspec.ValidationError("Object missing required field `claudeSessionId` (or `sessionId`)")
    if len(session_ids) > 1:
        raise msgspec.ValidationError("`claudeSessionId` and `sessionId` name different sessions")
    session_id = clean_id(session_ids.pop())
    rows = sessions.find_by_session_id(call.connection, session_id, host)
    return rows[0] if rows else _build_new_session(session_id, host)


def _find_session_in_path(call: ApiCall, host: str) -> db.Row:
    """Return the session with this number, as init gave it, else the one with this id of the agent's.

    A bare number that no session has is refused: taken for an id, it would create a second session.
    """
    name = clean_id(msgspec.convert(call.request.path_params["sessionDbId"], SessionId))
    rows = sessions.find_by_number(call.connection, name)
    if not rows:
        rows = sessions.find_by_session_id(call.connection, name, host)
    if not rows:  # an editor that leaves `host` out means the session of any agent
        rows = sessions.find_by_session_id(call.connection, name)
    if len(rows) > 1:
        hosts = sorted({row["host"] for row in rows})
        raise UserError(f"{len(rows)} sessions have the id {name!r}", f'"host": "{hosts[0]}" in the body')
    if rows:
        return rows[0]
    if name.isascii() and name.isdigit():
        raise HTTPException(404, f"there is no session {name}; init gives its number as sessionDbId")
    return _build_new_session(name, host)


def _build_new_session(session_id: str, host: str) -> db.Row:
    return {"session": session_id, "host": host, "cwd": "", "prompts": 0}


def _build_event(call: ApiCall, session: db.Row, kind: str, cwd: str, **fields: Any) -> Event:
    """Return what an editor reports as the event that a hook would have reported.

    Without a time it happened now, and without a folder in the folder of the session.
    """
    now = clock.now()
    # An editor whose clock is ahead must not report from the future.
    happened_at = min(call.body.at, now)
    if not happened_at:
        happened_at = now
    return Event(session["host"], kind, session["session"], cwd or session["cwd"], at=happened_at, **fields)


async def record_prompt(call: ApiCall) -> object:
    """Record a prompt, or only the start of a session without one; answer with the session's number."""
    body: Init = call.body
    session = await call.api.run_in_thread(_find_session, call)
    skip_reason = ""
    # Some editors send init again for a prompt that they reported before.
    is_repeated = bool(body.userPrompt) and 0 < body.promptNumber <= session["prompts"]
    if not is_repeated:
        cwd = body.cwd or await call.api.run_in_thread(_resolve_folder, call.connection, body.project)
        kind = "UserPromptSubmit" if body.userPrompt else "SessionStart"
        event = _build_event(call, session, kind, cwd, source="startup", prompt=body.userPrompt)
        skip_reason = call.api.responder.record_event(event)
    rows = await call.api.run_in_thread(
        sessions.find_by_session_id, call.connection, session["session"], session["host"]
    )
    row = rows[0] if rows else {"id": None, "prompts": 0}
    answer = {"sessionDbId": row["id"], "promptNumber": row["prompts"], "skipped": bool(skip_reason)}
    if skip_reason:
        answer["reason"] = skip_reason
    return answer


async def record_call(call: ApiCall) -> object:
    """Record a tool call and its result; `skipped` if settings or private tags keep it from being recorded."""
    body: Observed = call.body
    session = await call.api.run_in_thread(_find_session, call)
    fields = body.tool_input
    if not isinstance(fields, dict):
        fields = {"command": fields}  # some editors send a command as plain text instead of an object
    kind = "PostToolUseFailure" if body.failed else "PostToolUse"
    event = _build_event(
        call,
        session,
        kind,
        body.cwd,
        tool=body.tool_name,
        tool_use_id=body.tool_use_id,
        command=get_text(fields, "command"),
        path=get_tool_path(fields),
        content=get_tool_content(body.tool_name, fields),
        input=body.tool_input,
        response=body.tool_response,
        failed=body.failed,
    )
    return {"status": "skipped" if call.api.responder.record_event(event) else "queued"}


async def record_turn_end(call: ApiCall) -> object:
    """Record the end of a turn with the agent's last words; `skipped` if it must not be recorded."""
    session = await call.api.run_in_thread(_find_session, call)
    event = _build_event(call, session, "Stop", call.body.cwd, message=call.body.last_assistant_message)
    return {"status": "skipped" if call.api.responder.record_event(event) else "queued"}


async def record_session_end(call: ApiCall) -> object:
    """Record the end of a session, with its reason as the message."""
    session = await call.api.run_in_thread(_find_session, call)
    event = _build_event(call, session, "SessionEnd", cwd="", message=call.body.reason)
    call.api.responder.record_event(event)
    return {"status": "completed"}


async def publish_processing(call: ApiCall) -> object:
    answer = {"isProcessing": call.body.isProcessing}
    call.api.live_feed.publish("processing", answer)
    return answer


def list_sessions(call: ApiCall) -> object:
    limit = call.get_number("limit", 50)
    project = call.get_text("project")
    status = call.get_text("status")
    return {"sessions": sessions.list_sessions(call.connection, limit=limit, project=project, status=status)}


def show_session(call: ApiCall) -> object:
    """Return a session by its number or the agent's id, with its prompts, events and what it came to."""
    name = msgspec.convert(call.request.path_params["id"], SessionId)
    rows = sessions.find_by_name(call.connection, name, call.get_text("host"))
    if len(rows) > 1:
        hosts = sorted({row["host"] for row in rows})
        raise UserError(f"{len(rows)} sessions match, of {', '.join(hosts)}", f"the whole id, and ?host={hosts[0]}")
    if not rows:
        raise HTTPException(404)
    number = rows[0]["id"]
    summary = observations.find_summary(call.connection, number)
    return {
        **rows[0],
        "promptList": sessions.list_prompt_rows(call.connection, number),
        "eventList": sessions.list_events(call.connection, number),
        "observations": observations.list_rows_for_session(call.connection, number),
        "summary": summary and summary.__dict__,
    }


def list_events(call: ApiCall) -> object:
    limit = call.get_number("limit", 100)
    after_id = call.get_number("after", default=0, maximum=_MAX_ROW_ID)
    return {"events": sessions.list_events_after(call.connection, after_id=after_id, limit=limit)}


def search_history(call: ApiCall) -> object:
    """Search one project, or all of them; a parameter that is left out does not narrow the search."""
    now = clock.now()
    kind = call.get_text("kind")
    result = search_records(
        call.connection,
        call.api.home,
        call.get_text("query"),
        project=query_scope.resolve_project(call.connection, call.require_project(), "/"),
        kinds=[kind] if kind else [],
        type=call.get_text("type"),
        concept=call.get_text("concept"),
        file=call.get_text("file"),
        host=call.get_text("host"),
        since=query_scope.parse_time(call.get_text("since"), now),
        until=query_scope.parse_time(call.get_text("until"), now),
        limit=max(call.get_number("limit", 40), 1),
        now=now,
        model=indexing.load_model_or_none(),
    )
    return {"hits": [hit.__dict__ for hit in result.hits], "period": result.period, "note": result.note}


def get_timeline(call: ApiCall) -> object:
    """Return the records around an anchor, or around the best result of a query."""
    anchor = call.get_text("anchor")
    query = call.get_text("query")
    project_name = call.get_text("project")
    if not project_name:  # an anchor belongs to one project, so none needs to be named
        project_name = query_scope.ALL_PROJECTS if anchor else call.require_project()
    result = build_timeline(
        call.connection,
        call.api.home,
        anchor=anchor,
        query=query,
        depth_before=call.get_number("depth_before", 10),
        depth_after=call.get_number("depth_after", 10),
        record_type=call.get_text("type"),
        project=query_scope.resolve_project(call.connection, project_name, "/"),
        now=clock.now(),
        model=indexing.load_model_or_none() if query else None,
    )
    return {"anchor": result.anchor, "records": list(result.records), "note": result.note}


def get_batch(call: ApiCall) -> object:
    """Return full records by their ids; a number alone is an observation's."""
    ids = []
    for record_id in call.body.ids:
        ids.append(f"O{record_id}" if isinstance(record_id, int) else record_id)
    return {"records": fetch_records(call.connection, call.api.home, ids)}


def list_lessons(call: ApiCall) -> object:
    """Return the person's own lessons as the file has them, or those that would fire on editing one file.

    A lesson that was changed by hand and not approved has the status `waiting`.
    """
    if file := call.get_text("file").replace("\0", ""):
        return {"lessons": _find_lessons_for_file(call.api.home, file)}
    waiting_ids = {change.id for change in manifest.find_waiting_changes(call.api.home)}
    lesson_records = []
    for lesson in lessons_file.read_own(call.api.home).lessons:
        record = to_lesson_record(lesson)
        if lesson.id in waiting_ids:
            record["status"] = "waiting"  # whatever the record itself says
        lesson_records.append(record)
    return {"lessons": lesson_records}


def _find_lessons_for_file(home: str, file: str) -> list[dict[str, str]]:
    """Return the lessons that would fire if an agent edited this file; nothing is delivered by asking."""
    event = Event(host="", kind="PreToolUse", session="", cwd=os.path.dirname(file), tool="Edit", path=file)
    matches, _ = lookup.explain_call(home, event, clock.now())
    lesson_rows = []
    for match in matches:
        entry = match.entry
        row = {
            "id": entry.id,
            "slug": entry.slug,
            "summary": entry.summary,
            "text": entry.text,
            "delivery": entry.delivery,
        }
        lesson_rows.append(row)
    return lesson_rows


def list_deliveries(call: ApiCall) -> object:
    """Return what was delivered to agents, only what came after the id `after` if the query has one."""
    limit = call.get_number("limit", 100)
    after_id = call.get_number("after", default=0, maximum=_MAX_ROW_ID)
    rows = efficacy.list_latest_deliveries(call.connection, limit=limit, after_id=after_id)
    return {"deliveries": [{"id": delivery_id, **dump_record(delivery)} for delivery_id, delivery in rows]}


async def stream_live(call: ApiCall) -> Response:
    """Stream live messages, first those after the last id that a client saw; 503 if too many are listening."""
    if call.api.live_feed.is_full:
        return _build_json_response({"error": f"{MAX_CLIENTS} clients are listening", "fix": "close some"}, 503)
    messages = call.api.live_feed.listen(parse_number(call.request.headers, "last-event-id"))
    return StreamingResponse(messages, media_type="text/event-stream", headers={"cache-control": "no-store"})


_LIMIT = ("limit", "integer", "maximum number of results")
_AFTER = ("after", "integer", "only those with a larger id")
_PROJECT_DESCRIPTION = "name or folder, or * for all"
_PROJECT = ("project", "string", _PROJECT_DESCRIPTION)


def _build_session_endpoints(
    name: str, description: str, handler: Callable[[ApiCall], Awaitable[object]], body_type: type
) -> tuple[Endpoint, ...]:
    """Return a call of a session's life in every spelling that editors use: with and without /api, by id or number."""
    paths = (
        f"/api/sessions/{name}",
        f"/api/sessions/{{sessionDbId}}/{name}",
        f"/sessions/{name}",
        f"/sessions/{{sessionDbId}}/{name}",
    )
    return tuple(Endpoint("POST", path, description, handler, body_type) for path in paths)


ENDPOINTS = (
    Endpoint("GET", "/api/health", "status of the worker", get_health),
    Endpoint("GET", "/api/openapi.json", "this document", get_openapi),
    Endpoint(
        "GET",
        "/api/context/inject",
        "the text that a session opens with",
        preview_context,
        query_parameters=(("project", "string", "folder or name of the project"),),
        media_type="text/plain",
    ),
    *_build_session_endpoints("init", "a prompt; the first creates the session", record_prompt, Init),
    *_build_session_endpoints("observations", "a tool call and how it ended", record_call, Observed),
    *_build_session_endpoints("summarize", "the end of a turn", record_turn_end, Summarize),
    *_build_session_endpoints("complete", "the end of a session", record_session_end, Complete),
    Endpoint("POST", "/api/processing", "whether an editor is working", publish_processing, Processing),
    Endpoint(
        "GET",
        "/api/sessions",
        "sessions, newest first",
        list_sessions,
        query_parameters=(
            _LIMIT,
            ("project", "string", "name or folder"),
            ("status", "string", "initialized, active or completed"),
        ),
    ),
    Endpoint(
        "GET",
        "/api/sessions/{id}",
        "one session with everything in it",
        show_session,
        query_parameters=(("host", "string", "the agent, if two have a session with this id"),),
    ),
    Endpoint("GET", "/api/events", "events in the order they came in", list_events, query_parameters=(_LIMIT, _AFTER)),
    Endpoint(
        "GET",
        "/api/search",
        "search results, best first",
        search_history,
        query_parameters=(
            _PROJECT,
            ("query", "string", "words, a path or an id"),
            ("kind", "string", "observation, lesson and the like"),
            ("type", "string", "such as bugfix"),
            ("concept", "string", "only with this concept"),
            ("file", "string", "its path, or the end of it"),
            ("host", "string", "the agent"),
            ("since", "string", "2026-11-01, or 7d or 2w ago"),
            ("until", "string", "before this"),
            _LIMIT,
        ),
    ),
    Endpoint(
        "GET",
        "/api/timeline",
        "what happened around a record",
        get_timeline,
        query_parameters=(
            ("project", "string", f"{_PROJECT_DESCRIPTION}; optional with an anchor"),
            ("anchor", "string", "an id; a number alone is an observation's"),
            ("query", "string", "instead: around the best result"),
            ("depth_before", "integer", "how many before"),
            ("depth_after", "integer", "how many after"),
            ("type", "string", "only of this type"),
        ),
    ),
    Endpoint("POST", "/api/observations/batch", "full records, by their ids", get_batch, Batch),
    Endpoint(
        "GET",
        "/api/lessons",
        "all lessons, or those about one file",
        list_lessons,
        query_parameters=(("file", "string", "absolute path: only lessons that fire when this file is edited"),),
    ),
    Endpoint(
        "GET", "/api/deliveries", "what was delivered to agents", list_deliveries, query_parameters=(_LIMIT, _AFTER)
    ),
    Endpoint("GET", "/api/stream", "live events", stream_live, media_type="text/event-stream"),
)

_ERROR_SCHEMA = {
    "type": "object",
    "properties": {"error": {"type": "string"}, "fix": {"type": "string"}},
    "required": ["error", "fix"],
}
_ERROR_REFERENCE = {"$ref": "#/components/schemas/Error"}
_PATH_PARAMETERS = {
    "id": "the agent's id of the session, or its number",
    "sessionDbId": "the session's number, as init gave it",
}


def build_openapi_document(endpoints: Sequence[Endpoint]) -> dict[str, Any]:
    """Return the OpenAPI description of these endpoints, with the schemas of their bodies."""
    body_types = [endpoint.body_type for endpoint in endpoints if endpoint.body_type]
    _, schemas = msgspec.json.schema_components(body_types, ref_template="#/components/schemas/{name}")
    paths: dict[str, dict[str, Any]] = {}
    for endpoint in endpoints:
        paths.setdefault(endpoint.path, {})[endpoint.method.lower()] = _build_operation(endpoint)
    return {
        "openapi": "3.1.0",
        "info": {"title": "hardwon", "version": __version__, "description": "The worker's API, on this machine only."},
        "paths": paths,
        "components": {
            "schemas": {**schemas, "Error": _ERROR_SCHEMA},
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
        "security": [{"token": []}],
    }


def _build_operation(endpoint: Endpoint) -> dict[str, Any]:
    """Describe one endpoint as OpenAPI does: parameters, body and answers."""
    schema = {"type": "object" if endpoint.media_type == "application/json" else "string"}
    responses = {
        "200": {"description": endpoint.description, "content": {endpoint.media_type: {"schema": schema}}},
        "default": {"description": "an error", "content": {"application/json": {"schema": _ERROR_REFERENCE}}},
    }
    has_number = "{sessionDbId}" in endpoint.path
    # All spellings of a path have one handler, and every operation needs a name of its own.
    operation_id = endpoint.handler.__name__
    if has_number:
        operation_id += "_by_number"
    if not endpoint.path.startswith("/api/"):
        operation_id += "_without_api"
    parameters: list[dict[str, Any]] = []
    for name, kind, description in endpoint.query_parameters:
        bounds = {"minimum": 0, "maximum": 1_000_000_000} if kind == "integer" else {}
        parameters.append({"name": name, "in": "query", "description": description, "schema": {"type": kind, **bounds}})
    for name, description in _PATH_PARAMETERS.items():
        if f"{{{name}}}" in endpoint.path:
            path_parameter = {"name": name, "in": "path", "required": True, "description": description}
            parameters.append({**path_parameter, "schema": msgspec.json.schema(SessionId)})
    operation: dict[str, Any] = {"summary": endpoint.description, "operationId": operation_id, "responses": responses}
    if parameters:
        operation["parameters"] = parameters
    if endpoint.body_type:
        body_schema: dict[str, Any] = {"$ref": f"#/components/schemas/{endpoint.body_type.__name__}"}
        if issubclass(endpoint.body_type, SessionBody) and not has_number:
            id_schema = {"anyOf": [{"required": [name]} for name in _ID_FIELDS]}
            body_schema = {"allOf": [body_schema, id_schema]}
        operation["requestBody"] = {"required": True, "content": {"application/json": {"schema": body_schema}}}
    return operation
