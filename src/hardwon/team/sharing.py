"""What of a lesson, memory or handoff leaves this machine, and what a version that arrives means here.

Only what a person wrote or approved is shared: never prompts, events, transcripts, observations or counts per person.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from typing import Any

from hardwon import projects
from hardwon.errors import UserError
from hardwon.lessons.record import select_authored_fields
from hardwon.privacy.cleaning import clean_text
from hardwon.privacy.private_tags import map_strings
from hardwon.types import Lesson, Memory

LESSON, MEMORY, HANDOFF = "lesson", "memory", "handoff"
# A folder of a person: it names them, and nobody else has it.
_HOME_FOLDER = re.compile(r"(?:/home/|/Users/|[A-Za-z]:\\Users\\)[\w.-]+")


def build_lesson_content(lesson: Lesson) -> dict[str, Any]:
    """Return a lesson as the team gets it: its authored fields, and its repository by remote instead of by folder."""
    fields = select_authored_fields(lesson)
    if lesson.project:
        remote = projects.read_remote_url(lesson.project)
        if not remote:
            raise UserError(
                f"{lesson.slug} is about {lesson.project}, which has no remote, so nobody else can tell which it is",
                f"git remote add origin URL, or remove its project: hardwon lessons edit {lesson.slug}",
            )
        fields["scope"] = {"type": "project", "remote": remote}
    return check_content({"type": LESSON, "id": lesson.id, "lesson": fields})


def build_memory_content(memory: Memory) -> dict[str, Any]:
    remote = projects.read_remote_url(memory.project) if memory.project else ""
    if memory.project and not remote:
        raise UserError(
            f"memory {memory.id} is about {memory.project}, which has no remote", "git remote add origin URL"
        )
    return check_content({"type": MEMORY, "memory_type": memory.type, "text": memory.text, "remote": remote})


def build_handoff_content(topic: str, text: str, project: str) -> dict[str, Any]:
    remote = projects.read_remote_url(project) if project else ""
    return check_content({"type": HANDOFF, "topic": topic, "text": text, "remote": remote})


def check_content(content: dict[str, Any]) -> dict[str, Any]:
    """Return the content; UserError if it holds a secret, something private or a person's own folder."""
    text = json.dumps(content, ensure_ascii=False)
    # Each text alone and all of them together: a secret may stand across two fields.
    cleaned = map_strings(content, lambda value, _: clean_text(value))
    if cleaned != content or clean_text(text) != text:
        raise UserError("it contains a secret or something private, so it is not shared", "edit it, then share again")
    folder = _HOME_FOLDER.search(text)
    user_home = os.path.expanduser("~")
    if folder or (user_home not in ("", "/") and user_home in text):
        name = folder.group() if folder else user_home
        raise UserError(f"it names your folder {name}, so it is not shared", "edit it, then share again")
    return content


def name_subject(content: Mapping[str, Any], number: str) -> str:
    """Return the subject of a new record: its kind and an id that two machines never choose alike."""
    return f"{content['type']}:{content.get('id') or number}"


def get_lesson(content: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return the fields of a shared lesson; empty if it is something else, or was erased."""
    lesson = (content or {}).get("lesson")
    return lesson if isinstance(lesson, dict) else {}


def check_arrived(subject: str, content: Mapping[str, Any], project_paths: Mapping[str, str]) -> None:
    """Raise UserError unless this machine can use a version: its sender may run any program."""
    kind, lesson = content.get("type"), get_lesson(content)
    is_lesson = kind == LESSON and bool(lesson) and subject == f"{LESSON}:{content.get('id')}"
    if not is_lesson and kind not in (MEMORY, HANDOFF):
        raise UserError("it is malformed", "hardwon team review")
    scope = lesson.get("scope")
    remote = str(content.get("remote", ""))
    if isinstance(scope, dict) and scope.get("type") == "project":
        remote = str(scope.get("remote", ""))
    if remote and remote not in project_paths:
        raise UserError(f"it is about {remote}, which is not on this machine", "clone it and open it in an agent once")


def build_lesson_record(content: Mapping[str, Any], project_paths: Mapping[str, str]) -> dict[str, Any]:
    """Return an arrived lesson as a record of lessons.json.

    `project_paths` has the folders of this machine's repositories by their remote.
    """
    fields = get_lesson(content)
    record = {**fields, "id": content.get("id", "")}
    scope = fields.get("scope")
    if isinstance(scope, dict) and scope.get("type") == "project":
        record["scope"] = {"type": "project", "path": project_paths.get(str(scope.get("remote", "")), "")}
    return record


def describe_content(content: Mapping[str, Any] | None) -> str:
    """Return one line about a version."""
    if content is None:
        return "(erased)"
    if lesson := get_lesson(content):
        return str(lesson.get("summary", ""))
    return str(content.get("topic") or content.get("text") or "")
