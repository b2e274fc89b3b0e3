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
from hardwon.agents.fields import content_of, path_of, text_of
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
from hardwon.types import Event, word
from hardwon.web import request_bodies
from hardwon.web.live import MOST_CLIENTS, Live
from hardwon.web.openapi import Endpoint, document
from hardwon.worker.hook_responder import Desk

MOST = 500
Serve = Callable[["Api", Request], Awaitable[Response]]


class Api:
    """Owns the connection that requests read from."""

    def __init__(self, home: str, desk: Desk, live: Live, look: Callable[[], None] = lambda: None) -> None:
        self.home, self.desk, self.live, self.look = home, desk, live, look
        self.since = clock.now()
        self._connection = db.connect(home, lasting=True)
        self._reading = threading.Lock()

    async def read(self, work: Callable[[db.Connection], Any]) -> Any:
        """Ask the store, away from the loop that answers hooks."""

        def locked() -> Any:
            with self._reading:
                return work(self._connection)

        return await asyncio.to_thread(locked)

    def close(self) -> None:
        self._connection.close()


def app(api: Api) -> Starlette:
    def routed(one: Endpoint) -> Route:
        async def served(request: Request) -> Response:
            api.look()  # a worker does not rest while an editor calls
            return await one.serve(api, request)

        return Route(one.path, served, methods=[one.method])

    return Starlette(
        routes=[routed(one) for one in ENDPOINTS],
        exception_handlers=dict.fromkeys(
            (HTTPException, UserError, msgspec.ValidationError, db.StoreError, Exception), _refused
        ),
    )


def told(content: object, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """An answer in JSON, whatever came in from outside: a number it cannot say is null, half a character is escaped."""
    try:
        body = orjson.dumps(content)
    except TypeError:
        body = json.dumps(json.loads(json.dumps(content), parse_constant=lambda word: None)).encode()
    return Response(body, status, headers, "application/json")


async def _refused(request: Request, wrong: Exception) -> Response:
    if isinstance(wrong, HTTPException):
        said = {"Not Found": "there is no such thing here", "Method Not Allowed": "this is not done with this method"}
        body = {"error": said.get(wrong.detail, wrong.detail), "fix": "see /api/openapi.json"}
        return told(body, wrong.status_code, headers=wrong.headers)
    if isinstance(wrong, UserError):
        return told({"error": wrong.say, "fix": wrong.fix}, 400)
    if isinstance(wrong, db.StoreError):
        return told({"error": f"the database: {wrong}", "fix": "try again in a moment, then: hardwon doctor"}, 503)
    if isinstance(wrong, msgspec.ValidationError):
        return told({"error": str(wrong), "fix": "see /api/openapi.json"}, 400)
    return told({"error": f"a fault of ours: {type(wrong).__name__}", "fix": "hardwon logs"}, 500)


async def _body(request: Request, wanted: type[Any]) -> Any:
    try:
        return msgspec.json.decode(await request.body(), type=wanted)
    except msgspec.ValidationError:
        raise
    except (msgspec.DecodeError, RecursionError, ValueError) as wrong:
        raise UserError(f"the body is not JSON: {wrong}", "send a JSON object") from None


def _number(request: Request, name: str, default: int, most: int) -> int:
    given = request.query_params.get(name, str(default))
    if not given.isascii() or not given.isdigit() or len(given) > 12:
        raise UserError(f"{name} is {given[:40]!r}, but wants a whole number", f"?{name}={default}")
    return min(int(given), most)


async def health(api: Api, request: Request) -> Response:
    return told({"status": "ok", "version": __version__, "since": api.since, "clients": api.live.clients})


async def openapi(api: Api, request: Request) -> Response:
    return told(document(ENDPOINTS))


async def context(api: Api, request: Request) -> Response:
    """What a session in this project opens with, as text."""
    index = api.desk.index()
    if index is None:
        return PlainTextResponse("")
    named = request.query_params.get("project", "").replace("\0", "")
    opened = await api.read(lambda connection: brief.shown(connection, api.home, index, _folder(connection, named)))
    return PlainTextResponse(opened.text)


def _folder(connection: db.Connection, project: str) -> str:
    """The folder that is meant: editors name it, or tell only its name, which counts if one project has it."""
    return project if "/" in project else exports.project_names(connection).get(project, project)


@word
class SessionCall:
    """The session that a call is about: the agent's id and name for it, and the folder where nothing else is said."""

    session: str
    host: str
    cwd: str = ""
    prompts: int = 0


async def _session_of(api: Api, request: Request, body: request_bodies.SessionBody) -> SessionCall:
    """Return the session that a call is about: by its number in the path, else by the id in the body."""
    host = clean_id(body.host)  # as it is stored
    if "sessionDbId" in request.path_params:
        return await _session_in_path(api, request.path_params["sessionDbId"], host)
    session = clean_id(request_bodies.session_id_in(body))
    rows = await api.read(lambda connection: sessions.by_own_id(connection, session, host))
    return _as_call(rows[0]) if rows else SessionCall(session, host)


async def _session_in_path(api: Api, text: str, host: str) -> SessionCall:
    """Return the session whose number the path has, as init gave it, else the one with this id of the agent's.

    A bare number that no session has is refused: taken for an id, it would make a second session beside the one meant.
    """
    name = clean_id(msgspec.convert(text, request_bodies.Id))  # as it is stored

    def find(connection: db.Connection) -> list[dict[str, Any]]:
        by_number = sessions.by_number(connection, name)
        return by_number or sessions.by_own_id(connection, name, host) or sessions.by_own_id(connection, name)

    rows = await api.read(find)
    if len(rows) > 1:
        hosts = sorted({row["host"] for row in rows})
        raise UserError(f"{len(rows)} sessions have the id {name!r}", f'"host": "{hosts[0]}" in the body')
    if rows:
        return _as_call(rows[0])
    if name.isascii() and name.isdigit():
        raise HTTPException(404, f"there is no session {name}; init gives its number as sessionDbId")
    return SessionCall(name, host)


def _as_call(row: Mapping[str, Any]) -> SessionCall:
    return SessionCall(row["session"], row["host"], row["cwd"], row["prompts"])


async def init(api: Api, request: Request) -> Response:
    body = await _body(request, request_bodies.Init)
    call = await _session_of(api, request, body)
    is_known = bool(body.user_prompt) and 0 < body.prompt_number <= call.prompts
    why = "" if is_known else await _take_prompt(api, body, call)
    rows = await api.read(lambda connection: sessions.by_own_id(connection, call.session, call.host))
    stored = rows[0] if rows else {"id": None, "prompts": 0}
    said = {"sessionDbId": stored["id"], "promptNumber": stored["prompts"], "skipped": bool(why)}
    return told({**said, "reason": why} if why else said)


async def _take_prompt(api: Api, body: request_bodies.Init, call: SessionCall) -> str:
    cwd = body.cwd or await api.read(lambda connection: _folder(connection, body.project)) or call.cwd
    kind = "UserPromptSubmit" if body.user_prompt else "SessionStart"
    return api.desk.take_in(Event(call.host, kind, call.session, cwd, source="startup", prompt=body.user_prompt))


async def observed(api: Api, request: Request) -> Response:
    body = await _body(request, request_bodies.Observed)
    call = await _session_of(api, request, body)
    fields = body.tool_input if isinstance(body.tool_input, dict) else {"command": body.tool_input}
    event = Event(
        call.host,
        "PostToolUseFailure" if body.failed else "PostToolUse",
        call.session,
        body.cwd or call.cwd,
        tool=body.tool_name,
        tool_use_id=body.tool_use_id,
        command=text_of(fields, "command"),
        path=path_of(fields),
        content=content_of(body.tool_name, fields),
        input=body.tool_input,
        response=body.tool_response,
        failed=body.failed,
    )
    return _taken(api, event)


def _taken(api: Api, event: Event) -> Response:
    return told({"status": "skipped" if api.desk.take_in(event) else "queued"})


async def summarize(api: Api, request: Request) -> Response:
    body = await _body(request, request_bodies.Summarize)
    call = await _session_of(api, request, body)
    cwd = body.cwd or call.cwd
    return _taken(api, Event(call.host, "Stop", call.session, cwd, message=body.last_assistant_message))


async def complete(api: Api, request: Request) -> Response:
    body = await _body(request, request_bodies.Complete)
    call = await _session_of(api, request, body)
    api.desk.take_in(Event(call.host, "SessionEnd", call.session, call.cwd, message=body.reason))
    return told({"status": "completed"})


async def processing(api: Api, request: Request) -> Response:
    given = await _body(request, request_bodies.Processing)
    api.live.tell("processing", {"isProcessing": given.is_processing})
    return told({"isProcessing": given.is_processing})


async def list_sessions(api: Api, request: Request) -> Response:
    limit = _number(request, "limit", 50, MOST)
    project, status = (request.query_params.get(name, "") for name in ("project", "status"))
    found = await api.read(lambda c: sessions.listed(c, limit=limit, project=project, status=status))
    return told({"sessions": found})


async def show_session(api: Api, request: Request) -> Response:
    def whole_session(connection: db.Connection) -> dict[str, Any] | None:
        name = msgspec.convert(request.path_params["id"], request_bodies.Id)
        found = sessions.found(connection, name, request.query_params.get("host", ""))
        if len(found) > 1:
            hosts = sorted({one["host"] for one in found})
            raise UserError(
                f"{len(found)} sessions are meant, of {', '.join(hosts)}", f"its whole id, and ?host={hosts[0]}"
            )
        if not found:
            return None
        number = found[0]["id"]
        prompts, events = sessions.prompts_of(connection, number), sessions.events_of(connection, number)
        summary = observations.summary_of(connection, number)
        distilled = {"observations": observations.told_of(connection, number), "summary": summary and summary.__dict__}
        return {**found[0], "promptList": prompts, "eventList": events, **distilled}

    found = await api.read(whole_session)
    if found is None:
        raise HTTPException(404)
    return told(found)


async def list_events(api: Api, request: Request) -> Response:
    limit, after = _number(request, "limit", 100, MOST), _number(request, "after", 0, 1 << 60)
    found = await api.read(lambda c: sessions.events_after(c, after=after, limit=limit))
    return told({"events": found})


def _whose(request: Request) -> str:
    """The project that is asked about, since there is no folder here to go by."""
    if project := request.query_params.get("project", ""):
        return project
    raise UserError("whose records are meant is not said", "?project=NAME or its path, or * for every one")


async def search(api: Api, request: Request) -> Response:
    asked, now, named = request.query_params, clock.now(), _whose(request)
    limit = max(_number(request, "limit", 40, MOST), 1)
    filters = {name: asked.get(name, "") for name in ("type", "concept", "file", "host")}
    since, until = (query_scope.when(asked.get(name, ""), now) for name in ("since", "until"))
    kinds = [asked["kind"]] if asked.get("kind") else []

    def found(connection: db.Connection) -> searching.Found:
        project = query_scope.scope(connection, named, "/")
        return searching.search(
            connection,
            api.home,
            asked.get("query", ""),
            project=project,
            kinds=kinds,
            since=since,
            until=until,
            limit=limit,
            now=now,
            model=indexing.model_or_none(),
            **filters,
        )

    answer = await api.read(found)
    hits, close = ([hit.__dict__ for hit in some] for some in (answer.hits, answer.close))
    return told({"hits": hits, "close": close, "note": answer.note})


async def timeline(api: Api, request: Request) -> Response:
    asked = request.query_params
    # An anchor says by itself which project is meant.
    named = asked.get("project", "") or query_scope.EVERY if asked.get("anchor") else _whose(request)
    before, after = (_number(request, f"depth_{side}", 10, MOST) for side in ("before", "after"))
    anchor, query, type = (asked.get(name, "") for name in ("anchor", "query", "type"))

    def found(connection: db.Connection) -> around.Timeline:
        model = indexing.model_or_none() if query else None
        return around.timeline(
            connection,
            api.home,
            anchor=anchor,
            query=query,
            before=before,
            after=after,
            type=type,
            project=query_scope.scope(connection, named, "/"),
            now=clock.now(),
            model=model,
        )

    answer = await api.read(found)
    return told({"anchor": answer.anchor, "records": list(answer.records), "note": answer.note})


async def batch(api: Api, request: Request) -> Response:
    given = await _body(request, request_bodies.Batch)
    ids = [f"O{id}" if isinstance(id, int) else id for id in given.ids]
    return told({"records": await api.read(lambda connection: whole.fetch(connection, api.home, ids))})


async def list_lessons(api: Api, request: Request) -> Response:
    shelf = await asyncio.to_thread(shelves.read, shelves.lessons_path(api.home))
    waiting = {change.id for change in await asyncio.to_thread(approved_lessons.find_waiting, api.home)}
    found = [records.write(lesson) for lesson in shelf.lessons]
    return told({"lessons": [{**one, "status": "waiting"} if one["id"] in waiting else one for one in found]})


async def list_deliveries(api: Api, request: Request) -> Response:
    limit, after = _number(request, "limit", 100, MOST), _number(request, "after", 0, 1 << 60)
    found = await api.read(lambda c: injections.latest(c, limit=limit, after=after))
    return told({"deliveries": [{"id": number, **one.__dict__} for number, one in found]})


async def stream(api: Api, request: Request) -> Response:
    if api.live.clients >= MOST_CLIENTS:
        return told({"error": f"{MOST_CLIENTS} clients listen already", "fix": "close some"}, 503)
    last = request.headers.get("last-event-id", "")
    after = int(last) if last.isascii() and last.isdigit() and len(last) < 16 else None
    return StreamingResponse(
        api.live.listen(after), media_type="text/event-stream", headers={"cache-control": "no-store"}
    )


_PAGED = (("limit", "integer", "how many at most"), ("after", "integer", "only those with a larger id"))
_PROJECT = ("project", "string", "its name or folder, or * for every one")
_PROJECT_OF_ANCHOR = ("project", "string", f"{_PROJECT[2]}; with an anchor it may be left out")


def _spellings(name: str, says: str, serve: Serve, body: type) -> tuple[Endpoint, ...]:
    """Return one call of a session's life as editors spell it: with and without /api, by id or by number."""
    by_number = f"{says}, in the session of this number"
    return (
        Endpoint("POST", f"/api/sessions/{name}", says, serve, body),
        Endpoint("POST", f"/api/sessions/{{sessionDbId}}/{name}", by_number, serve, body),
        Endpoint("POST", f"/sessions/{name}", says, serve, body),
        Endpoint("POST", f"/sessions/{{sessionDbId}}/{name}", by_number, serve, body),
    )


_SESSION_ENDPOINTS = (
    *_spellings("init", "a prompt; the session is made with its first", init, request_bodies.Init),
    *_spellings("observations", "a tool call and how it ended", observed, request_bodies.Observed),
    *_spellings("summarize", "the end of a turn", summarize, request_bodies.Summarize),
    *_spellings("complete", "the end of a session", complete, request_bodies.Complete),
)
ENDPOINTS = (
    Endpoint("GET", "/api/health", "whether the worker is well", health),
    Endpoint("GET", "/api/openapi.json", "this document", openapi),
    Endpoint(
        "GET",
        "/api/context/inject",
        "what a session opens with",
        context,
        query=(("project", "string", "the project's folder, or its name"),),
        answers="text/plain",
    ),
    *_SESSION_ENDPOINTS,
    Endpoint("POST", "/api/processing", "whether an editor is at work", processing, request_bodies.Processing),
    Endpoint(
        "GET",
        "/api/sessions",
        "the sessions, the latest first",
        list_sessions,
        query=(
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
        query=(("host", "string", "the agent, where two have a session of this id"),),
    ),
    Endpoint("GET", "/api/events", "events in the order they came in", list_events, query=_PAGED),
    Endpoint(
        "GET",
        "/api/search",
        "what is known about something, the best first",
        search,
        query=(
            _PROJECT,
            ("query", "string", "words, a path or an id"),
            ("kind", "string", "observation, lesson and the like"),
            ("type", "string", "such as bugfix"),
            ("concept", "string", "only with this concept"),
            ("file", "string", "its path, or an end of it"),
            ("host", "string", "the agent"),
            ("since", "string", "2026-11-01, or 7d or 2w ago"),
            ("until", "string", "before this"),
            _PAGED[0],
        ),
    ),
    Endpoint(
        "GET",
        "/api/timeline",
        "what happened around something",
        timeline,
        query=(
            _PROJECT_OF_ANCHOR,
            ("anchor", "string", "an id; a number alone is an observation's"),
            ("query", "string", "instead: around the best answer"),
            ("depth_before", "integer", "how many before"),
            ("depth_after", "integer", "how many after"),
            ("type", "string", "only of this type"),
        ),
    ),
    Endpoint("POST", "/api/observations/batch", "records whole, by their ids", batch, request_bodies.Batch),
    Endpoint("GET", "/api/lessons", "every lesson", list_lessons),
    Endpoint("GET", "/api/deliveries", "what was delivered to agents", list_deliveries, query=_PAGED),
    Endpoint("GET", "/api/stream", "what happens, as it happens", stream, answers="text/event-stream"),
)
