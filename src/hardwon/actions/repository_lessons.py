"""Propose a lesson to a repository: on a branch of its own, so that a pull request can review it."""

from __future__ import annotations

import os

from hardwon.errors import UserError
from hardwon.handoff import git_commit
from hardwon.lessons.lessons_file import PROJECT_LESSONS_FOLDER
from hardwon.lessons.replay import replay_lesson
from hardwon.store.db import Connection
from hardwon.team.repository import build_lesson_file
from hardwon.types import Lesson, replace

BRANCH_PREFIX = "hardwon/"


def build_proposal(connection: Connection, project: str, lesson: Lesson) -> str:
    """Return the file that a proposal adds, with what the trigger would have done to this machine's calls."""
    if lesson.status != "active":
        raise UserError(f"{lesson.slug} is {lesson.status}, so it is not proposed", "hardwon lessons list")
    return build_lesson_file(lesson, replay_lesson(connection, replace(lesson, project=project)))


def commit_proposal(project: str, lesson: Lesson, text: str) -> str:
    """Commit the file on a branch that is not checked out; return the branch."""
    branch = f"{BRANCH_PREFIX}{lesson.slug}"
    name = os.path.join(PROJECT_LESSONS_FOLDER, f"{lesson.slug}.json")
    git_commit.commit_on_branch(project, branch, name, text, f"Add lesson: {lesson.summary}")
    return branch
