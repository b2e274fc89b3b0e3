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

_ERROR_SCHEMA = {
    "type": "object",
    "properties": {"error": {"type": "string"}, "fix": {"type": "string"}},
    "required": ["error", "fix"],
}
_ERROR_RESPONSES = {
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
_PATH_PARAMETERS = {
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
    error_content = {"application/json": {"schema": {"$ref": "#/components/schemas/Error"}}}
    schema: dict[str, Any] = {"type": "object"} if endpoint.media_type == "application/json" else {"type": "string"}
    responses = {
        code: {"description": description, "content": error_content} for code, description in _ERROR_RESPONSES.items()
    }
    operation: dict[str, Any] = {
        "summary": endpoint.description,
        "operationId": _build_operation_id(endpoint),
        "responses": {
            "200": {"description": endpoint.description, "content": {endpoint.media_type: {"schema": schema}}},
            **responses,
        },
    }
    parameters: list[dict[str, Any]] = [
        {"name": name, "in": "query", "description": description, "schema": _build_schema(kind)}
        for name, kind, description in endpoint.query_parameters
    ]
    for name, description in _PATH_PARAMETERS.items():
        if f"{{{name}}}" in endpoint.path:
            id_schema = msgspec.json.schema(request_bodies.SessionId)
            parameters.append(
                {"name": name, "in": "path", "required": True, "description": description, "schema": id_schema}
            )
    if parameters:
        operation["parameters"] = parameters
    if endpoint.body_type:
        body_schema: dict[str, Any] = {"$ref": f"#/components/schemas/{endpoint.body_type.__name__}"}
        if issubclass(endpoint.body_type, request_bodies.SessionBody) and "{sessionDbId}" not in endpoint.path:
            body_schema = {
                "allOf": [body_schema, {"anyOf": [{"required": [name]} for name in request_bodies.SESSION_ID_FIELDS]}]
            }
        operation["requestBody"] = {"required": True, "content": {"application/json": {"schema": body_schema}}}
    return operation


def _build_operation_id(endpoint: Endpoint) -> str:
    """Return a name that no other operation has: all spellings of one path are served by one function."""
    number_suffix = "_by_number" if "{sessionDbId}" in endpoint.path else ""
    prefix_suffix = "" if endpoint.path.startswith("/api/") else "_without_api"
    return f"{endpoint.handler.__name__}{number_suffix}{prefix_suffix}"


def _build_schema(kind: str) -> dict[str, Any]:
    return {"type": "integer", "minimum": 0, "maximum": 1_000_000_000} if kind == "integer" else {"type": "string"}
