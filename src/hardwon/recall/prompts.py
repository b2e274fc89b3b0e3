"""A lesson that the person typed as a prompt: the block is checked, added and in force, and the person is answered."""

from __future__ import annotations

from hardwon.core import tags
from hardwon.errors import UserError
from hardwon.projects import home_of
from hardwon.recall import admit


def learn(home: str, prompt: str, cwd: str) -> str:
    """Add every lesson in the prompt and give one line for the person on each."""
    said = []
    for tag in tags.blocks(prompt):
        try:
            lesson = admit.add(home, tags.record(tag, project=home_of(cwd) if cwd else ""), approved=True)
        except UserError as refused:
            said.append(f"hardwon: {refused.say}")
            continue
        state = "needs review" if lesson.needs_review else f"in force as a {lesson.delivery}"
        said.append(f"hardwon: learned, {state}: {lesson.summary} [{lesson.slug}]")
    return "\n".join(said) or "hardwon: no lesson in that block; it wants problem, solution and trigger, a line each"
