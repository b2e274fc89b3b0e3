"""The nouns of the glossary, as frozen values.

Every cold hook imports this module, so it imports nothing itself: `dataclasses` alone would cost three times an
empty interpreter's start. `word` gives the part of it that we use, and type checkers read it as the real thing.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any, Literal, TypeVar

    from typing_extensions import dataclass_transform

    T = TypeVar("T")
    DeliveryMode = Literal["note", "hold", "block", "start"]
    Status = Literal["candidate", "active", "retired", "rejected"]
    CommandTarget = Literal["executable", "full"]
else:

    def dataclass_transform(**_: object):
        return lambda decorator: decorator


DELIVERY_MODES = ("note", "hold", "block", "start")
STATUSES = ("candidate", "active", "retired", "rejected")
COMMAND_TARGETS = ("executable", "full")
ANSWERED_EVENTS = ("SessionStart", "UserPromptSubmit", "PreToolUse", "SubagentStart")  # the agent waits for an answer
EMPTY_ANSWER = b"{}"
# The names that all agents' tools are turned into, and the program's own.
SHELL_TOOL = "Bash"
GLOB_TOOL = "Glob"
EDIT_TOOLS = ("Edit", "MultiEdit", "Write", "NotebookEdit")
FILE_TOOLS = (*EDIT_TOOLS, "Read", GLOB_TOOL, "Grep")
PROGRAM_NAME = "hardwon"


@dataclass_transform(frozen_default=True)
def frozen(cls: type[T]) -> type[T]:
    """A frozen value class from annotations: positional or keyword fields, equality, hash, repr."""
    fields = tuple(cls.__annotations__)
    defaults = {name: getattr(cls, name) for name in fields if hasattr(cls, name)}
    field_names = frozenset(fields)

    def init(self: object, *args: object, **kwargs: object) -> None:
        field_values = {**defaults, **dict(zip(fields, args, strict=False)), **kwargs}
        duplicates = field_names.intersection(fields[: len(args)], kwargs)
        if field_values.keys() != field_names or duplicates or len(args) > len(fields):
            bad_names = sorted(field_names.symmetric_difference(field_values) | duplicates) or [
                f"{len(args)} positional values"
            ]
            raise TypeError(f"{cls.__name__}: {', '.join(bad_names)} missing, given twice, or not a field")
        self.__dict__.update({name: field_values[name] for name in fields})

    def refuse_change(self: object, name: str, value: object = None) -> None:
        raise AttributeError(f"{cls.__name__}.{name} is frozen")

    def get_values(self: object) -> tuple[object, ...]:
        return tuple(self.__dict__[name] for name in fields)

    members: dict[str, object] = {
        "__init__": init,
        "__setattr__": refuse_change,
        "__delattr__": refuse_change,
        "__eq__": lambda self, other: self.__dict__ == other.__dict__ if type(other) is cls else NotImplemented,
        "__hash__": lambda self: hash(get_values(self)),
        "__repr__": lambda self: f"{cls.__name__}({', '.join(f'{n}={v!r}' for n, v in self.__dict__.items())})",
        "__match_args__": fields,
    }
    for name, member in members.items():
        setattr(cls, name, member)
    return cls


def replace(value: T, **changes: object) -> T:
    """Return the same value with some fields changed, for `frozen` classes and dataclasses, slots or not."""
    fields = {name: getattr(value, name) for name in type(value).__annotations__}
    return type(value)(**{**fields, **changes})


@frozen
class Event:
    """An immutable fact that a hook or a transcript reported; `kind` is Claude Code's name for it on every host."""

    host: str
    kind: str
    session: str
    cwd: str
    id: str = ""
    at: float = 0.0
    agent: str = ""
    source: str = ""
    prompt: str = ""
    tool: str = ""
    tool_use_id: str = ""
    command: str = ""
    path: str = ""
    content: str = ""
    transcript: str = ""
    prompt_name: str = ""  # the host's own id of the prompt
    input: Any = None  # of a tool, as the host sent it
    response: Any = None
    failed: bool = False
    interrupted: bool = False
    denied: bool = False  # we forbade the call: it did not run, unless the agent went on all the same
    duration: float | None = None  # milliseconds
    message: str = ""  # the last the agent said, or why something happened
    parts: tuple[Event, ...] = ()  # a call that changes several files, as the calls that would change one each


@frozen
class Lesson:
    """Problem, solution, triggers and delivery: the record a person approves; `extra` holds keys we do not know."""

    id: str
    slug: str
    summary: str
    problem: str
    solution: str
    delivery: DeliveryMode
    status: Status = "active"
    injection: str = ""
    block_reason: str = ""
    tools: tuple[str, ...] = ()
    commands: tuple[Pattern, ...] = ()
    command_target: CommandTarget = "executable"
    paths: tuple[str, ...] = ()
    path_regexes: tuple[Pattern, ...] = ()
    contents: tuple[Pattern, ...] = ()
    unless: tuple[Pattern, ...] = ()
    project: str = ""
    priority: int = 5
    confidence: float = 0.9
    needs_review: bool = False
    tags: tuple[str, ...] = ()
    source_sessions: tuple[str, ...] = ()
    occurrences: int = 0
    evidence: tuple[Mapping[str, Any], ...] = ()
    created_at: str = ""
    updated_at: str = ""
    content_hash: str = ""
    extra: Mapping[str, Any] = {}


@frozen
class Pattern:
    """A regular expression with its flags, by Python's `re`."""

    source: str
    flags: int = 0


@frozen
class Glob:
    """A compiled glob; `source` matches a path from the root named by `is_absolute`, without a slash at its end."""

    source: str
    flags: int
    is_include: bool
    folders_only: bool
    is_absolute: bool


@frozen
class ManifestEntry:
    """One active lesson in the manifest, compiled for matching; `number` is its place in the order of asking."""

    number: int
    id: str
    slug: str
    summary: str
    text: str
    reason: str
    delivery: DeliveryMode
    priority: int
    tools: tuple[str, ...]
    commands: tuple[Pattern, ...]
    target: CommandTarget
    globs: tuple[Glob, ...]
    path_regexes: tuple[Pattern, ...]
    contents: tuple[Pattern, ...]
    unless: tuple[Pattern, ...]
    project: str


@frozen
class Match:
    """A lesson whose trigger a call fulfils, and the text in which it did."""

    entry: ManifestEntry
    matched_text: str


@frozen
class Delivery:
    """A recorded delivery of a lesson to an agent."""

    event: str
    at: float
    host: str
    session: str
    agent: str
    kind: str
    tool: str
    lesson: str
    slug: str
    summary: str
    delivery: DeliveryMode


@frozen
class ReadPosition:
    """How far a transcript was read, what tells that it is still the same file, and what its readers must remember."""

    inode: int = 0
    size: int = 0
    modified: int = 0
    offset: int = 0
    line: int = 0
    unended: bool = False  # the last line that was read had no end of line yet
    print: str = ""
    malformed: int = 0
    reader: str = ""
    watch: str = ""


@frozen
class MinedEpisode:
    """Something found in a transcript by plain code: a `#lesson` tag, or an error and its correction.

    `key` is the host's id of the step it begins with, equal in every copy of the session, so that a copy is not
    counted again; `errors` are the ids of its failed results; `body` is what is shown of it.
    """

    key: str
    tier: int
    signature: str
    host: str
    path: str
    session: str
    agent: str
    project: str
    at: str
    score: float
    body: Mapping[str, Any]
    errors: tuple[str, ...] = ()


@frozen
class Call:
    """One tool call of a turn as it is stored; `outcome` is fine, failed, interrupted, refused or denied."""

    key: str
    at: float
    tool: str
    input: Any = None
    response: str = ""
    outcome: str = "fine"
    signature: str = ""
    agent: str = ""
    duration: float | None = None  # milliseconds


@frozen
class Turn:
    """What a person asked, every call that was made for it, and what the agent said at the end."""

    session_row_id: int
    number: int
    at: float
    agent: str = ""
    name: str = ""  # the host's id of the session
    project: str = ""
    cwd: str = ""
    prompt: str = ""
    final_message: str = ""
    calls: tuple[Call, ...] = ()


@frozen
class Observation:
    """What a stretch of events meant; `events` are the keys of those it came from, `made` says by whom."""

    key: str
    at: float
    type: str
    title: str
    subtitle: str = ""
    narrative: str = ""
    facts: tuple[str, ...] = ()
    concepts: tuple[str, ...] = ()
    files_read: tuple[str, ...] = ()
    files_modified: tuple[str, ...] = ()
    events: tuple[str, ...] = ()
    tokens: int = 0  # that it cost to learn
    times: int = 1
    made: str = "plain"


@frozen
class Summary:
    """What a session was about, so far."""

    key: str
    at: float
    request: str = ""
    investigated: str = ""
    learned: str = ""
    completed: str = ""
    next_steps: str = ""
    made: str = "plain"


@frozen
class Job:
    """Distilling that waits, or is under way for whoever holds the lease."""

    id: int
    kind: str
    session: int
    state: str
    priority: int
    wanted: int
    tries: int
    due_at: float
    lease: str
    why: str


@frozen
class Run:
    """One model call: what it was for, what it used and cost, how it ended."""

    id: int
    at: float
    purpose: str
    provider: str
    model: str
    project: str
    session: int | None
    tokens_in: int
    tokens_out: int
    tokens_cached: int
    cost: float
    duration: float  # seconds
    outcome: str
    why: str = ""


MEMORY_TYPES = ("user", "feedback", "project", "reference")


@frozen
class Memory:
    """An undated statement that a person approved, or may: then it is a file, and `text` is what was proposed.

    `evidence` are ids of what it was learned from, `file` the file's name; `project` is empty if it counts everywhere.
    """

    id: int
    key: str
    type: str
    text: str
    project: str
    session: str
    status: Status
    source: str
    evidence: tuple[str, ...]
    file: str
    at: float
    decided_at: float | None = None


@frozen
class HookReply:
    """What an agent is told: words for the model, a line for the person, and whether the call may run."""

    deny: str = ""
    context: str = ""
    notice: str = ""
    deliveries: tuple[Delivery, ...] = ()


EMPTY_REPLY = HookReply()
