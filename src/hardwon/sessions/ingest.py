"""Store the reports of hooks, at once or from the spool if no worker was running."""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from functools import lru_cache
from typing import Any

from hardwon import clock, projects
from hardwon.agents.tool_results import get_result_exit_code, get_result_text
from hardwon.sessions import spool
from hardwon.shell import failures
from hardwon.store import db, events
from hardwon.store.events import Report, find_or_create_project
from hardwon.types import Delivery, Event, load_record

log = logging.getLogger(__name__)
# A hook has at most ten seconds, so such a file has no writer any more.
_HALF_WRITTEN_SECONDS = 3600.0
_TEXT_FIELDS = tuple(name for name, kind in Event.__annotations__.items() if kind == "str")
_TOOL_KINDS = ("PostToolUse", "PostToolUseFailure")


def commit_event(
    connection: db.Connection, event: Event | None, deliveries: Iterable[Delivery] = (), *, is_live: bool = False
) -> None:
    """Store a filtered event, or None if nothing of it may be kept, and its deliveries in one transaction."""
    # Read before the transaction: a slow disk must not keep other writers waiting.
    project_and_remote = find_project_and_remote(event.cwd) if event else ("", "")
    with db.transaction(connection):
        events.insert_deliveries(connection, deliveries)
        if event:
            project = find_or_create_project(connection, *project_and_remote, event.at)
            events.store_report(connection, build_report(event, project), live=is_live)


def build_report(
    event: Event,
    project: int | None,
    *,
    origin: str = "hook",
    outcome: str = "",
    times: int = 1,
    imported_at: float | None = None,
) -> Report:
    """Return an event as it is stored; the end of a tool call is one kind, whatever the agent calls it.

    `outcome` is how a call ended if the reporter knows better than its result says.
    """
    is_tool = event.kind in _TOOL_KINDS or event.denied
    text = event.message
    signature = ""
    if is_tool:
        text = get_result_text(event.response)
        outcome = outcome or classify_outcome(event, text)
    elif event.kind == "SessionStart":
        text = event.source  # whether it was a resume or a compaction is what matters later
    if outcome == "failed":
        signature = failures.compute_signature(event.tool, event.command, text)
    return Report(
        key=event.id,
        host=event.host,
        session=event.session,
        kind="tool" if is_tool else event.kind,
        at=event.at,
        cwd=event.cwd,
        project=project,
        transcript=event.transcript,
        subagent_id=event.subagent_id,
        prompt=event.prompt,
        prompt_name=event.prompt_name,
        tool=event.tool,
        tool_use_id=event.tool_use_id,
        input="" if event.input is None else json.dumps(event.input),
        response=text,
        outcome=outcome,
        signature=signature,
        duration=event.duration,
        reason=event.message if event.kind == "SessionEnd" else "",
        origin=origin,
        times=times,
        imported_at=imported_at,
    )


def classify_outcome(event: Event, text: str) -> str:
    """Return how a call ended, as the agent reports it; check the result if the agent reports success."""
    if event.denied:
        return "denied"
    # Agents report an interrupted or failed call in different places.
    response = event.response if isinstance(event.response, dict) else {}
    if event.interrupted or response.get("interrupted") is True:
        return "interrupted"
    is_error = response.get("isError") is True or response.get("is_error") is True
    if event.failed or is_error or get_result_exit_code(response):
        return "failed"
    # A pipe such as `make | tail` succeeds whatever make did.
    if failures.is_unreported_failure(event.tool, event.command, text):
        return "failed"
    return "fine"


@lru_cache(maxsize=256)
def find_project_and_remote(cwd: str) -> tuple[str, str]:
    """Return the project's folder and its remote; both are empty if the folder is not known."""
    if not cwd:
        return "", ""
    project_path = projects.find_project_path(cwd)
    return project_path, projects.read_remote_url(project_path)


def drain_spool(home: str, connection: db.Connection, learn: Callable[[str, str], str]) -> int:
    """Commit every spooled file, then delete it, and return how many there were.

    One that is malformed is set aside, never thrown away. `learn` takes the lesson blocks of a prompt and its folder.
    """
    count = 0
    for path, record in spool.read_spooled_records(home):
        try:
            event, deliveries, typed_prompts = _parse_spooled_record(record)
        except (KeyError, TypeError, AttributeError):
            log.warning("malformed spool file renamed to .bad: %s", os.path.basename(path))
            with suppress(FileNotFoundError):  # a command and the worker may drain the spool at the same time
                os.replace(path, path + ".bad")
            continue
        commit_event(connection, event, deliveries)
        # A lesson that was typed while no worker ran is proposed now.
        for prompt, cwd in typed_prompts:
            learn(prompt, cwd)
        with suppress(FileNotFoundError):
            os.unlink(path)  # only now: after a crash the file is committed again, and its key says that it is known
        count += 1
    spool.remove_half_written(home, clock.now() - _HALF_WRITTEN_SECONDS)
    return count


def _parse_spooled_record(record: Mapping[str, Any]) -> tuple[Event | None, list[Delivery], list[tuple[str, str]]]:
    """Return the event, the deliveries, and the typed lessons with their folders.

    Raise KeyError, TypeError or AttributeError if another program or a newer hardwon wrote the file.
    """
    event = load_record(Event, record["event"]) if record.get("event") else None
    if event:
        has_texts = all(isinstance(getattr(event, name), str) for name in _TEXT_FIELDS)
        if not has_texts or not isinstance(event.at, float):
            raise TypeError("the store would refuse it, and with it all that waits behind")
    deliveries = [load_record(Delivery, item) for item in record["injections"]]
    typed_prompts = [(item["prompt"], item["cwd"]) for item in record["lessons"]]
    return event, deliveries, typed_prompts
