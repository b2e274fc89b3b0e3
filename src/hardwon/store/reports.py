"""What a hook or a transcript reported, and how one is known that two hooks of ours told.

That comes of a plugin beside the settings, or of one agent that loads another's hooks. A call or a prompt with a name
of the host's own is known by that; the others are known by what they say, just now.
"""

from __future__ import annotations

from hardwon.privacy.limits import DUPLICATE_SECONDS
from hardwon.store.db import Connection, to_storable
from hardwon.types import frozen


@frozen
class Report:
    """One event, cleaned and ready to be kept."""

    key: str
    host: str
    session: str
    kind: str
    at: float
    cwd: str = ""
    project: int | None = None
    transcript: str = ""
    subagent: str = ""
    prompt: str = ""
    prompt_name: str = ""
    tool: str = ""
    tool_use_id: str = ""
    input: str = ""
    response: str = ""
    outcome: str = ""
    signature: str = ""
    duration: float | None = None
    reason: str = ""
    origin: str = "hook"
    times: int = 1  # that a transcript has told these words, this one included
    imported_at: float | None = None  # when history was imported; None for what hooks report as it happens


def is_duplicate_report(connection: Connection, session: int, report: Report) -> bool:
    """A prompt with an event since, or an event with a prompt since, is another that reads the same."""
    scope = (session, report.at - DUPLICATE_SECONDS, report.at + DUPLICATE_SECONDS)
    if report.kind == "UserPromptSubmit":
        query = (
            "select 1 from prompts as one where session = ? and at between ? and ? and prompt = ? and not"
            " instr(key, ':') and not exists (select 1 from events where session = one.session and at > one.at)"
        )
        identifier, values = report.prompt_name, [report.prompt]
    else:
        query = (
            "select 1 from events as one where session = ? and at between ? and ? and tool_use_id = '' and kind = ?"
            " and agent = ? and tool = ? and input = ? and response = ? and origin = 'hook'"
            " and not exists (select 1 from prompts where session = one.session and at > one.at)"
        )
        identifier, values = (
            report.tool_use_id,
            [report.kind, report.subagent, report.tool, report.input, report.response],
        )
    return not identifier and connection.execute(query, (*scope, *map(to_storable, values))).fetchone() is not None
