"""Choose the model provider from the settings.

The settings name the variable that holds the key. Its value is read when a question is asked, and goes only into the
request.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from functools import partial
from typing import Any
from urllib.parse import urlsplit

from hardwon.distil.llm.exchange import Answer, Broken, Busy, Capped, Denied, Failed, Provider, Question, Refused
from hardwon.errors import UserError
from hardwon.types import API_KEY_VARIABLES

__all__ = [
    "Answer",
    "Broken",
    "Busy",
    "Capped",
    "Denied",
    "Failed",
    "Provider",
    "Question",
    "Refused",
    "key_variable",
    "provider",
]

_DEFAULT_MODELS = {"anthropic": "claude-haiku-5-5", "openai": "gpt-6-luna", "claude": "haiku"}


def provider(values: Mapping[str, Any], environ: Mapping[str, str]) -> Provider | None:
    """Build the configured provider; None if there is none, UserError if the settings are invalid."""
    name = values["llm.provider"]
    if name not in _DEFAULT_MODELS:
        return None
    url = _check_url(values["llm.baseUrl"].strip())
    model = values["llm.model"].strip() or _DEFAULT_MODELS[name]
    variable = key_variable(values)
    # `claude` would read it as an option.
    if model.startswith("-"):
        raise UserError(f"llm.model is {model!r}, which is no model", "hardwon config set llm.model NAME")
    if name == "claude":
        from hardwon.distil.llm import claude_cli

        ask_claude = partial(
            claude_cli.ask, model=model, url=url, key_variable=variable, read_environment=lambda: environ
        )
        return Provider(name, model, ask_claude)
    from hardwon.distil.llm import http_api

    ask = http_api.ask_anthropic if name == "anthropic" else http_api.ask_openai
    return Provider(name, model, partial(ask, model=model, url=url, read_key=lambda: _read_key(environ, variable)))


def key_variable(values: Mapping[str, Any]) -> str:
    """Return the name of the variable that holds the key; "" if the provider has its own login."""
    name = values["llm.provider"]
    configured = values["llm.apiKeyEnv"].strip()
    return configured or ("" if name == "claude" else next(iter(API_KEY_VARIABLES.get(name, ())), ""))


def _read_key(environ: Mapping[str, str], variable: str) -> str:
    key = environ.get(variable, "").strip()
    if not (key.isascii() and key.isprintable()):  # libraries would quote it in their error message
        raise Denied(f"{variable} is not one line of plain characters", is_free=True)
    return key


def _check_url(url: str) -> str:
    if not url:
        return ""
    fix = "hardwon config set llm.baseUrl https://…"
    try:
        parts = urlsplit(url)
        _ = parts.port, (parts.hostname or "").encode("idna")
    except ValueError:
        raise UserError("llm.baseUrl is no address", fix) from None
    is_plain = url.isascii() and url.isprintable() and " " not in url
    if parts.scheme not in ("https", "http") or not parts.hostname or not is_plain:
        raise UserError("llm.baseUrl is no address that begins with https:// or http://", fix)
    if parts.username or parts.password or parts.query or parts.fragment:
        raise UserError("llm.baseUrl holds a password, a query or a fragment; the key belongs in a variable", fix)
    if parts.scheme == "http" and not _is_loopback(parts.hostname):
        raise UserError(f"llm.baseUrl is http to {parts.hostname}: the key would travel in the clear", fix)
    return url.rstrip("/")


def _is_loopback(host: str) -> bool:
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
