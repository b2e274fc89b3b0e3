"""The OpenAPI document, made from the table of routes, so that it is true."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from hardwon import __version__
from hardwon.words import word

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
}


@word
class Door:
    """One route: what it is for, what it is sent, and what it answers with."""

    method: str
    path: str
    says: str
    serve: Callable[[Any, Request], Awaitable[Response]]
    body: type | None = None
    query: tuple[tuple[str, str, str], ...] = ()  # name, type, what it is
    answers: str = "application/json"


def document(doors: Sequence[Door]) -> dict[str, Any]:
    wanted = [door.body for door in doors if door.body]
    _, schemas = msgspec.json.schema_components(wanted, ref_template="#/components/schemas/{name}")
    paths: dict[str, dict[str, Any]] = {}
    for door in doors:
        paths.setdefault(door.path, {})[door.method.lower()] = _operation(door)
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


def _operation(door: Door) -> dict[str, Any]:
    error = {"application/json": {"schema": {"$ref": "#/components/schemas/Error"}}}
    schema: dict[str, Any] = {"type": "object"} if door.answers == "application/json" else {"type": "string"}
    responses = {code: {"description": says, "content": error} for code, says in _REFUSED.items()}
    if door.path == "/api/stream":
        responses["503"] = {"description": "too many listen already", "content": error}
    operation: dict[str, Any] = {
        "summary": door.says,
        "operationId": door.serve.__name__,
        "responses": {"200": {"description": door.says, "content": {door.answers: {"schema": schema}}}, **responses},
    }
    parameters: list[dict[str, Any]] = [
        {"name": name, "in": "query", "description": says, "schema": _bounded(kind)} for name, kind, says in door.query
    ]
    if "{id}" in door.path:
        given = {"type": "string", "minLength": 1, "maxLength": 200}
        own = {"name": "id", "in": "path", "required": True, "description": "the host's id", "schema": given}
        parameters.append(own)
    if parameters:
        operation["parameters"] = parameters
    if door.body:
        ref = {"$ref": f"#/components/schemas/{door.body.__name__}"}
        operation["requestBody"] = {"required": True, "content": {"application/json": {"schema": ref}}}
    return operation


def _bounded(kind: str) -> dict[str, Any]:
    return {"type": "integer", "minimum": 0, "maximum": 1_000_000_000} if kind == "integer" else {"type": "string"}
