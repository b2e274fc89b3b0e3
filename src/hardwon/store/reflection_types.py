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
    """An earlier session of the same project; `failures` counts each signature, `commands` each command's first words.

    `tokens` are as the agent's transcript counts them, in and out, None if it does not; `minutes` leaves pauses out.
    """

    session: str
    at: float
    tokens: int | None = None
    minutes: float = 0.0
    calls: int = 0
    failures: Mapping[str, int] = {}
    files: tuple[str, ...] = ()
    commands: Mapping[str, int] = {}
    prompts: int = 0
    first_prompt: str = ""
    has_commit: bool = False  # it made a commit


@frozen
class RepositoryPage:
    """A page that people keep in the repository, by its heading and the line of that.

    `quoted_code` is what it quotes as code, `depends_on` the other pages that it says it waits for.
    """

    path: str
    name: str
    line: int
    heading: str
    quoted_code: tuple[str, ...] = ()
    depends_on: tuple[str, ...] = ()


@frozen
class PastHandoff:
    """A handoff that was written for a session of the project."""

    at: float
    session: str
    resume: str
    confidence: str = ""
    status: str = "draft"


@frozen
class ReflectionContext:
    """Everything that is known beside a session that is reflected on: newest sessions and handoffs first.

    `own` is the session itself, measured as the earlier ones are. `memories` are pairs of type and text, `commits` the
    files of each commit of the session, `folder_file_counts` how many files of the repository lie directly in each.
    """

    sessions: tuple[SessionStats, ...] = ()
    memories: tuple[tuple[str, str], ...] = ()
    handoffs: tuple[PastHandoff, ...] = ()
    conventions: tuple[RepositoryPage, ...] = ()
    commits: tuple[tuple[str, ...], ...] = ()
    current_session: SessionStats | None = None
    workstreams: tuple[RepositoryPage, ...] = ()
    folder_file_counts: Mapping[str, int] = {}


EMPTY_CONTEXT = ReflectionContext()
