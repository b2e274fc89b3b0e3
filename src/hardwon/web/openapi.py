"""The OpenAPI document, made from the table of routes, so that it is true."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from hardwon import __version__
from hardwon.types import frozen
from hardwon.web import request_bodies

_ERROR = {
    "type": "object",
    "properties": {"error": {"type": "string"}, "fix": {"type": "string"}},
    "required": ["error", "fix"],
}
_REFUSED = {
    "400": "the request is not as described",
    "401": "no token, or a wrong one",
    "403": "a page of another origin",
    "404": "there is no such thing",
    "405": "not with this method",
    "408": "the body came too slowly",
    "413": "the body is too large",
    "421": "a name that is not ours",
    "503": "the database is busy or full, or too many listen already",
}
_IN_PATH = {
    "id": "the agent's id of the session, or its number",
    "sessionDbId": "the session's number, as init gave it",
}


@frozen
class Endpoint:
    """One route: what it is for, what it is sent, and what it answers with."""

    method: str
    path: str
    description: str
    handler: Callable[[Any, Request], Awaitable[Response]]
    body_type: type | None = None
    query_parameters: tuple[tuple[str, str, str], ...] = ()  # name, type, what it is
    media_type: str = "application/json"


def build_openapi_document(endpoints: Sequence[Endpoint]) -> dict[str, Any]:
    wanted = [one.body_type for one in endpoints if one.body_type]
    _, schemas = msgspec.json.schema_components(wanted, ref_template="#/components/schemas/{name}")
    paths: dict[str, dict[str, Any]] = {}
    for one in endpoints:
        paths.setdefault(one.path, {})[one.method.lower()] = _operation(one)
    return {
        "openapi": "3.1.0",
        "info": {"title": "hardwon", "version": __version__, "description": "The worker's API, on this machine only."},
        "paths": paths,
        "components": {
            "schemas": {**schemas, "Error": _ERROR},
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
        "security": [{"token": []}],
    }


def _operation(one: Endpoint) -> dict[str, Any]:
    error = {"application/json": {"schema": {"$ref": "#/components/schemas/Error"}}}
    schema: dict[str, Any] = {"type": "object"} if one.media_type == "application/json" else {"type": "string"}
    responses = {code: {"description": says, "content": error} for code, says in _REFUSED.items()}
    operation: dict[str, Any] = {
        "summary": one.description,
        "operationId": _operation_id(one),
        "responses": {
            "200": {"description": one.description, "content": {one.media_type: {"schema": schema}}},
            **responses,
        },
    }
    parameters: list[dict[str, Any]] = [
        {"name": name, "in": "query", "description": says, "schema": _bounded(kind)}
        for name, kind, says in one.query_parameters
    ]
    for name, says in _IN_PATH.items():
        if f"{{{name}}}" in one.path:
            given = msgspec.json.schema(request_bodies.SessionId)
            parameters.append({"name": name, "in": "path", "required": True, "description": says, "schema": given})
    if parameters:
        operation["parameters"] = parameters
    if one.body_type:
        sent: dict[str, Any] = {"$ref": f"#/components/schemas/{one.body_type.__name__}"}
        if issubclass(one.body_type, request_bodies.SessionBody) and "{sessionDbId}" not in one.path:
            sent = {"allOf": [sent, {"anyOf": [{"required": [name]} for name in request_bodies.SESSION_ID_FIELDS]}]}
        operation["requestBody"] = {"required": True, "content": {"application/json": {"schema": sent}}}
    return operation


def _operation_id(one: Endpoint) -> str:
    """Return a name that no other operation has: all spellings of one path are served by one function."""
    by_number = "_by_number" if "{sessionDbId}" in one.path else ""
    without_api = "" if one.path.startswith("/api/") else "_without_api"
    return f"{one.handler.__name__}{by_number}{without_api}"


def _bounded(kind: str) -> dict[str, Any]:
    return {"type": "integer", "minimum": 0, "maximum": 1_000_000_000} if kind == "integer" else {"type": "string"}
