"""Records of reflection that are stored or read from the store; `handoff/` reads transcripts with them."""

from __future__ import annotations

from hardwon.types import frozen

TYPE_CHECKING = False  # importing it from `typing` would slow down the hook
if TYPE_CHECKING:
    from collections.abc import Mapping

FINDING_TARGETS = ("memory", "workstream", "adr", "learning", "convention")


@frozen
class Evidence:
    """The line of a transcript that says something; the quote is in it, whitespace aside."""

    path: str
    line: int
    quote: str


@frozen
class Finding:
    """A statement of a menu item about a session, a score from 0 to 1, and where it may go.

    `memory` is the type of a memory it suggests, empty for none.
    """

    item: str
    text: str
    score: float
    target: str
    evidence: tuple[Evidence, ...]
    memory: str = ""


@frozen
class SuggestedMemory:
    """A memory that a person's words suggest; `turn` counts from 1."""

    type: str
    text: str
    evidence: tuple[Evidence, ...]
    turn: int = 0


@frozen
class SessionStats:
    """An earlier session of the project: how often each signature failed, and each command's first words were run."""

    session: str
    at: float
    failures: Mapping[str, int] = {}
    commands: Mapping[str, int] = {}


@frozen
class PastHandoff:
    """A handoff that was written for a session of the project."""

    at: float
    session: str
    resume: str


@frozen
class ReflectionContext:
    """Everything that is known beside a session that is reflected on: newest sessions and handoffs first.

    `memories` are pairs of type and text, `documented_code` is what the repository's conventions quote as code.
    """

    sessions: tuple[SessionStats, ...] = ()
    memories: tuple[tuple[str, str], ...] = ()
    handoffs: tuple[PastHandoff, ...] = ()
    documented_code: tuple[str, ...] = ()


EMPTY_CONTEXT = ReflectionContext()
