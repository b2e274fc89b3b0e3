"""The worker's HTTP API: a table of routes, from which the routing and the OpenAPI document are made.

It reads and it takes in, never more: nothing here approves. What comes in goes through the same edge as a hook's event.
Reading the database happens in a thread with a connection of its own, so no hook waits for it.
"""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable, Mapping
from typing import Any

import msgspec
import orjson
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route

from hardwon import __version__, clock
from hardwon.core import record as records
from hardwon.errors import UserError
from hardwon.hosts.fields import content_of, path_of, text_of
from hardwon.recall import asking, brief, indexing
from hardwon.recall import records as whole
from hardwon.recall import search as searching
from hardwon.recall import timeline as around
from hardwon.store import db, exports, injections, observations, sessions
from hardwon.store import lessons as shelves
from hardwon.words import Event
from hardwon.worker import bodies
from hardwon.worker.live import MOST_CLIENTS, Live
from hardwon.worker.openapi import Endpoint, document
from hardwon.worker.reply import Desk

MOST = 500


class Api:
    """Owns the connection that requests read from."""

    def __init__(self, home: str, desk: Desk, live: Live, look: Callable[[], None] = lambda: None) -> None:
        self.home, self.desk, self.live, self.look = home, desk, live, look
        self.since = clock.now()
        self._connection = db.connect(home)
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
        said = {404: "there is no such thing here", 405: "this is not done with this method"}
        body = {"error": said.get(wrong.status_code, str(wrong.detail)), "fix": "see /api/openapi.json"}
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


async def init(api: Api, request: Request) -> Response:
    given = await _body(request, bodies.Init)
    return await _prompted(api, given, given.claude_session_id)


async def init_of(api: Api, request: Request) -> Response:
    return await _prompted(api, await _body(request, bodies.InitOf), _id(request))


def _id(request: Request) -> str:
    return msgspec.convert(request.path_params["id"], bodies.Id)


async def _prompted(api: Api, given: bodies.Init | bodies.InitOf, session: str) -> Response:
    cwd = given.cwd or await api.read(lambda connection: _folder(connection, given.project))
    kind = "UserPromptSubmit" if given.user_prompt else "SessionStart"
    why = api.desk.take_in(Event(given.host, kind, session, cwd, source="startup", prompt=given.user_prompt))
    found = await api.read(lambda connection: sessions.found(connection, session, given.host))
    known = next((one for one in found if one["session"] == session), {"id": None, "prompts": 0})
    said = {"sessionDbId": known["id"], "promptNumber": known["prompts"], "skipped": bool(why)}
    return told({**said, "reason": why} if why else said)


async def observed(api: Api, request: Request) -> Response:
    given = await _body(request, bodies.Observed)
    call = given.tool_input if isinstance(given.tool_input, dict) else {"command": given.tool_input}
    event = Event(
        given.host,
        "PostToolUseFailure" if given.failed else "PostToolUse",
        given.claudeSessionId,
        given.cwd,
        tool=given.tool_name,
        tool_use_id=given.tool_use_id,
        command=text_of(call, "command"),
        path=path_of(call),
        content=content_of(given.tool_name, call),
        input=given.tool_input,
        response=given.tool_response,
        failed=given.failed,
    )
    return _taken(api, event)


def _taken(api: Api, event: Event) -> Response:
    return told({"status": "skipped" if api.desk.take_in(event) else "queued"})


async def summarize(api: Api, request: Request) -> Response:
    given = await _body(request, bodies.Summarize)
    event = Event(given.host, "Stop", given.claudeSessionId, given.cwd, message=given.last_assistant_message)
    return _taken(api, event)


async def complete(api: Api, request: Request) -> Response:
    given = await _body(request, bodies.Complete)
    api.desk.take_in(Event(given.host, "SessionEnd", given.claudeSessionId, "", message=given.reason))
    return told({"status": "completed"})


async def processing(api: Api, request: Request) -> Response:
    given = await _body(request, bodies.Processing)
    api.live.tell("processing", {"isProcessing": given.is_processing})
    return told({"isProcessing": given.is_processing})


async def list_sessions(api: Api, request: Request) -> Response:
    limit = _number(request, "limit", 50, MOST)
    project, status = (request.query_params.get(name, "") for name in ("project", "status"))
    found = await api.read(lambda c: sessions.listed(c, limit=limit, project=project, status=status))
    return told({"sessions": found})


async def show_session(api: Api, request: Request) -> Response:
    def whole_session(connection: db.Connection) -> dict[str, Any] | None:
        found = sessions.found(connection, _id(request), request.query_params.get("host", ""))
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
    since, until = (asking.when(asked.get(name, ""), now) for name in ("since", "until"))
    kinds = [asked["kind"]] if asked.get("kind") else []

    def found(connection: db.Connection) -> searching.Found:
        project = asking.scope(connection, named, "/")
        return searching.search(
            connection, api.home, asked.get("query", ""), project=project, kinds=kinds, since=since, until=until,
            limit=limit, now=now, model=indexing.model_or_none(), **filters,
        )  # fmt: skip

    answer = await api.read(found)
    hits, close = ([hit.__dict__ for hit in some] for some in (answer.hits, answer.close))
    return told({"hits": hits, "close": close, "note": answer.note})


async def timeline(api: Api, request: Request) -> Response:
    asked, named = request.query_params, _whose(request)
    before, after = (_number(request, f"depth_{side}", 10, MOST) for side in ("before", "after"))
    anchor, query, type = (asked.get(name, "") for name in ("anchor", "query", "type"))

    def found(connection: db.Connection) -> around.Timeline:
        model = indexing.model_or_none() if query else None
        return around.timeline(
            connection, api.home, anchor=anchor, query=query, before=before, after=after, type=type,
            project=asking.scope(connection, named, "/"), now=clock.now(), model=model,
        )  # fmt: skip

    answer = await api.read(found)
    return told({"anchor": answer.anchor, "records": list(answer.records), "note": answer.note})


async def batch(api: Api, request: Request) -> Response:
    given = await _body(request, bodies.Batch)
    ids = [f"O{id}" if isinstance(id, int) else id for id in given.ids]
    return told({"records": await api.read(lambda connection: whole.fetch(connection, api.home, ids))})


async def list_lessons(api: Api, request: Request) -> Response:
    shelf = await asyncio.to_thread(shelves.read, shelves.lessons_path(api.home))
    return told({"lessons": [records.write(lesson) for lesson in shelf.lessons]})


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
ENDPOINTS = (
    Endpoint("GET", "/api/health", "whether the worker is well", health),
    Endpoint("GET", "/api/openapi.json", "this document", openapi),
    Endpoint(
        "GET", "/api/context/inject", "what a session opens with", context,
        query=(("project", "string", "the project's folder, or its name"),), answers="text/plain",
    ),
    Endpoint("POST", "/api/sessions/init", "a prompt; the session is made with its first", init, bodies.Init),
    Endpoint("POST", "/sessions/{id}/init", "a prompt in the session of this id", init_of, bodies.InitOf),
    Endpoint("POST", "/api/sessions/observations", "a tool call and how it ended", observed, bodies.Observed),
    Endpoint("POST", "/api/sessions/summarize", "the end of a turn", summarize, bodies.Summarize),
    Endpoint("POST", "/api/sessions/complete", "the end of a session", complete, bodies.Complete),
    Endpoint("POST", "/api/processing", "whether an editor is at work", processing, bodies.Processing),
    Endpoint(
        "GET", "/api/sessions", "the sessions, the latest first", list_sessions,
        query=(
            ("limit", "integer", "how many at most"),
            ("project", "string", "its name or folder"),
            ("status", "string", "initialized, active or completed"),
        ),
    ),
    Endpoint(
        "GET", "/api/sessions/{id}", "one session, whole", show_session,
        query=(("host", "string", "the agent, where two have a session of this id"),),
    ),
    Endpoint("GET", "/api/events", "events in the order they came in", list_events, query=_PAGED),
    Endpoint(
        "GET", "/api/search", "what is known about something, the best first", search,
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
        "GET", "/api/timeline", "what happened around something", timeline,
        query=(
            _PROJECT, ("anchor", "string", "an id"), ("query", "string", "instead: around the best answer"),
            ("depth_before", "integer", "how many before"), ("depth_after", "integer", "how many after"),
            ("type", "string", "only of this type"),
        ),
    ),
    Endpoint("POST", "/api/observations/batch", "records whole, by their ids", batch, bodies.Batch),
    Endpoint("GET", "/api/lessons", "every lesson", list_lessons),
    Endpoint("GET", "/api/deliveries", "what was delivered to agents", list_deliveries, query=_PAGED),
    Endpoint("GET", "/api/stream", "what happens, as it happens", stream, answers="text/event-stream"),
)  # fmt: skip
