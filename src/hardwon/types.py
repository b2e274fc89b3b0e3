"""The terms of the glossary, as frozen classes.

Every hook without a worker imports this module, so it imports nothing itself: importing `dataclasses` takes three times
as long as starting an empty interpreter. `frozen` provides the part that we use; type checkers treat both alike.
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
AGENT_MESSAGE = "AgentMessage"  # what an agent says between two calls: no hook tells it, only transcripts do
# All agents' tools are mapped to these names.
SHELL_TOOL = "Bash"
GLOB_TOOL = "Glob"
# Names that lessons of another tool have for our fields.
OLD_LESSON_KEYS = {"mistake": "problem", "fix": "solution", "remediation": "solution"}
EDIT_TOOLS = ("Edit", "MultiEdit", "Write", "NotebookEdit")
FILE_TOOLS = (*EDIT_TOOLS, "Read", GLOB_TOOL, "Grep")
PROGRAM_NAME = "hardwon"
# Of the ids of sessions, messages and calls: these are random but not secret.
KNOWN_ID_PREFIXES = (
    *("toolu_", "session_", "msg_", "req_", "call_", "resp_", "chatcmpl-", "item_", "thread_", "run_", "asst_"),
    *("ses_", "prt_", "agent_", "agent-", "rs_", "fc_"),
)
# The environment variables in which each model provider looks for its key.
API_KEY_VARIABLES = {
    "anthropic": ("ANTHROPIC_API_KEY",),
    "openai": ("OPENAI_API_KEY",),
    "claude": ("ANTHROPIC_API_KEY", "CLAUDE_CODE_OAUTH_TOKEN"),
}


@dataclass_transform(frozen_default=True)
def frozen(cls: type[T]) -> type[T]:
    """Make a class frozen, like a dataclass: positional or keyword fields, equality, hash, repr."""
    fields = tuple(cls.__annotations__)
    template = {name: getattr(cls, name, None) for name in fields}  # in the order of the fields
    required = frozenset([name for name in fields if not hasattr(cls, name)])

    def init(self: object, *args: object, **kwargs: object) -> None:
        # Mining builds tens of thousands of these, so what is wrong is only looked for if something is.
        if len(args) == len(fields) and not kwargs:
            self.__dict__.update(zip(fields, args, strict=True))
            return
        names = kwargs.keys()
        positional_names = fields[: len(args)]
        required_names = required.difference(positional_names)
        field_values = {**template, **dict(zip(fields, args, strict=False)), **kwargs}
        is_complete = (
            len(args) <= len(fields)
            and len(field_values) == len(fields)
            and names >= required_names
            and names.isdisjoint(positional_names)
        )
        if not is_complete:
            unknown = names - template.keys()
            doubled = names & set(positional_names)
            missing = required_names - names
            described = sorted(unknown | doubled | missing) or [f"{len(args)} positional values"]
            raise TypeError(f"{cls.__name__}: {', '.join(described)} missing, given twice, or not a field")
        self.__dict__.update(field_values)

    for name, member in (("__init__", init), ("__match_args__", fields), *_SHARED_MEMBERS):
        setattr(cls, name, member)
    return cls


def _refuse_change(self: object, name: str, value: object = None) -> None:
    raise AttributeError(f"{type(self).__name__}.{name} is frozen")


def _is_equal(self: object, other: object) -> bool:
    return self.__dict__ == other.__dict__ if type(other) is type(self) else NotImplemented


def _describe(self: object) -> str:
    values = [f"{name}={value!r}" for name, value in self.__dict__.items()]
    return f"{type(self).__name__}({', '.join(values)})"


_SHARED_MEMBERS: tuple[tuple[str, object], ...] = (
    ("__setattr__", _refuse_change),
    ("__delattr__", _refuse_change),
    ("__eq__", _is_equal),
    ("__hash__", lambda self: hash(tuple(self.__dict__.values()))),
    ("__repr__", _describe),
)


def replace(value: T, **changes: object) -> T:
    """Return the same value with some fields changed, for `frozen` classes and dataclasses, slots or not."""
    fields = {name: getattr(value, name) for name in type(value).__annotations__}
    return type(value)(**{**fields, **changes})


def dump_record(value: object) -> dict[str, Any]:
    """Return the fields by their names in the database, the spool and the API."""
    return {get_record_key(name): field for name, field in value.__dict__.items()}


def load_record(cls: type[T], record: Mapping[str, Any]) -> T:
    """Return what `dump_record` wrote; TypeError if fields are missing or unknown."""
    return cls(**{"subagent_id" if key == "agent" else key: field for key, field in record.items()})


def get_record_key(field_name: str) -> str:
    """Return a field's name outside of the code, where the id of a sub-agent has always been called `agent`."""
    return "agent" if field_name == "subagent_id" else field_name


@frozen
class Event:
    """An immutable fact that a hook or a transcript reported; `kind` is Claude Code's name for it, for every agent."""

    host: str
    kind: str
    session: str
    cwd: str
    id: str = ""
    at: float = 0.0
    subagent_id: str = ""
    source: str = ""
    prompt: str = ""
    tool: str = ""
    tool_use_id: str = ""
    command: str = ""
    path: str = ""
    content: str = ""
    transcript: str = ""
    prompt_name: str = ""  # the agent's own id of the prompt
    input: Any = None  # of a tool, as the agent sent it
    response: Any = None
    failed: bool = False
    interrupted: bool = False
    denied: bool = False  # hardwon denied the call, so it did not run, unless the agent ignored that
    duration: float | None = None  # milliseconds
    message: str = ""  # the agent's last message, or the reason for the event
    parts: tuple[Event, ...] = ()  # a call that changes several files, split into one call per file


@frozen
class Lesson:
    """Problem, solution, triggers and delivery: the record a person approves. `extra` holds unknown keys."""

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
    """A regular expression with its flags, for Python's `re`."""

    source: str
    flags: int = 0


@frozen
class Glob:
    """A compiled glob. `source` matches a path without a trailing slash, absolute or relative to the project."""

    source: str
    flags: int
    is_include: bool
    folders_only: bool
    is_absolute: bool


@frozen
class ManifestEntry:
    """An active lesson in the manifest, compiled for matching. `number` is its place in the order of matching."""

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
    version: str = ""  # of what the author wrote, see `lessons.record.compute_version`
    silent_share: float = 0.0  # of the sessions in which a measured lesson stays silent; 1 if it was stepped down


@frozen
class Match:
    """A lesson whose trigger matches a call, and the matched text."""

    entry: ManifestEntry
    matched_text: str


@frozen
class Delivery:
    """A recorded firing of a lesson, and whether the agent was told.

    `arm` is told (always), live or silent (drawn, for a measured lesson) or shadow (stepped down to silence);
    `probability` is that of the agent being told.
    """

    event: str
    at: float
    host: str
    session: str
    subagent_id: str
    kind: str
    tool: str
    lesson: str
    slug: str
    summary: str
    delivery: DeliveryMode
    version: str = ""
    arm: str = "told"
    probability: float = 1.0


@frozen
class ReadPosition:
    """How far a transcript was read, how to recognise the same file, and the state of its readers."""

    inode: int = 0
    size: int = 0
    modified: int = 0
    offset: int = 0
    line: int = 0
    unended: bool = False  # the last line read had no newline yet
    print: str = ""
    malformed: int = 0
    reader: str = ""
    watch: str = ""


TAG_TIER, MINED_TIER = 1, 2  # written by an agent as a `#lesson` block; found by plain code in failed calls


@frozen
class MinedEpisode:
    """An episode that plain code found in a transcript: a `#lesson` tag, or an error and its correction.

    `key` is the agent's id of its first step. It is the same in every copy of the session, so that copies are not
    counted twice. `errors` are the ids of its failed results; `body` is the part shown to people.
    """

    key: str
    tier: int  # TAG_TIER or MINED_TIER
    signature: str
    host: str
    path: str
    session: str
    subagent_id: str
    project: str
    at: str
    score: float
    body: Mapping[str, Any]
    errors: tuple[str, ...] = ()


@frozen
class Call:
    """A stored tool call of a turn. `outcome` is fine, failed, interrupted, refused or denied."""

    key: str
    at: float
    tool: str
    input: Any = None
    response: str = ""
    outcome: str = "fine"
    signature: str = ""
    subagent_id: str = ""
    duration: float | None = None  # milliseconds


@frozen
class Turn:
    """A person's prompt, the calls made for it, and the agent's final message."""

    session_row_id: int
    number: int
    at: float
    agent: str = ""
    name: str = ""  # the agent's id of the session
    project: str = ""
    cwd: str = ""
    prompt: str = ""
    final_message: str = ""
    calls: tuple[Call, ...] = ()


@frozen
class Observation:
    """The outcome of some events of a turn. `events` are their keys; `made` says what produced it."""

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
    tokens: int = 0  # cost of the source calls
    times: int = 1
    made: str = "plain"


@frozen
class Summary:
    """What a session was about so far."""

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
    """A distilling job, waiting or running. The process that runs it holds the lease."""

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


MEMORY_TYPES = ("user", "feedback", "project", "reference")


@frozen
class Memory:
    """An undated statement, proposed or approved. An approved one is a file, and `text` is what was proposed.

    `evidence` are the ids of its sources, `file` is the file's name; `project` is empty if it applies everywhere.
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
    """A reply to an agent: a denial, text for the model, a line for the person."""

    deny: str = ""
    context: str = ""
    notice: str = ""
    deliveries: tuple[Delivery, ...] = ()


EMPTY_REPLY = HookReply()
