"""What the person typed to hardwon as a prompt: a lesson, or a decision about candidates. It is done, and answered."""

from __future__ import annotations

from hardwon.core import tags
from hardwon.errors import UserError
from hardwon.projects import home_of
from hardwon.recall import admit, review
from hardwon.recall.deliver import decides
from hardwon.store import db


def learn(home: str, prompt: str, cwd: str) -> str:
    """Add every lesson in the prompt and give one line for the person on each; nothing if there is no block.

    Only a block that stands plainly at the beginning of a line was typed here. One that is quoted, fenced or in a list
    may have been pasted from anywhere, so it is proposed, not approved.
    """
    words = prompt.split()
    if decides(words):
        return "\n".join(f"hardwon: {_decided(home, words[1], name)}" for name in words[2:])
    said = [_learned(home, prompt, cwd, tag) for tag in tags.blocks(prompt)]
    if not said and tags.is_unclosed(prompt):
        return "hardwon: the #lesson block is not closed; end it with #/lesson on a line of its own"
    return "\n".join(f"hardwon: {line}" for line in said)


def _decided(home: str, verb: str, name: str) -> str:
    connection = db.connect(home)
    try:
        proposal = review.named(connection, name)
        if verb == "reject":
            review.reject(connection, proposal)
            return f"rejected: {proposal.record['summary']} [{proposal.slug}]"
        lesson = review.accept(home, connection, proposal, {})
        return f"in force as a {lesson.delivery}: {lesson.summary} [{lesson.slug}]"
    except UserError as refused:
        return refused.say
    finally:
        connection.close()


def _learned(home: str, prompt: str, cwd: str, tag: tags.Tag) -> str:
    if tag.faults:
        return f"the lesson is refused: {'; '.join(tag.faults)}"
    typed = _stands_plainly(prompt, tag.start)
    try:
        lesson = admit.add(home, tags.record(tag, project=home_of(cwd) if cwd else ""), approved=typed)
    except UserError as refused:
        return refused.say
    if not typed:
        how = f"in force once you run: hardwon lessons restore {lesson.slug}"
        return f"proposed, since the block is quoted or pasted; {how}"
    state = "needs review" if lesson.needs_review else f"in force as a {lesson.delivery}"
    return f"learned, {state}: {lesson.summary} [{lesson.slug}]"


def _stands_plainly(prompt: str, start: int) -> bool:
    before = prompt[:start]
    at_line_start = not before or before.endswith("\n")
    return at_line_start and before.count("```") % 2 == 0
