"""The hook contract of Claude Code, which most agents copied, as a table of what each of them does differently.

The `__init__` of an agent's package fills in a HookContract: names of events, tools and arguments, where its fields
are, and which events take a denial or a note. What does not fit a table is a function in that module.

Agents run the hooks of others: Grok those in Claude Code's settings, VS Code and Cursor if a person says so, Copilot
those of a trusted repository. Each has its own fields and reads another reply, so an answer meant for one may deny a
call in the next, or be dropped by it. A payload that shows another sender gets no answer at this entry. Only marks that
the named agent alone writes count. A payload without any is taken for the entry's own: an agent that moves its folder
or adds a field must not lose its guards.
"""

from __future__ import annotations

from hardwon.agents.fields import (
    STANDARD_TIMEOUTS,
    Wire,
    build_event,
    get_call_fields,
    get_first_text,
    get_list,
    get_number,
    get_object,
    get_text,
    load_payload,
    read_tail_lines,
)
from hardwon.text.fence import FENCE_OPEN
from hardwon.text.light_json import dumps, loads
from hardwon.types import Event, HookReply, frozen, replace

TYPE_CHECKING = False  # importing it from `typing` would slow down the hook
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


CALL_EVENTS = ("PreToolUse", "PostToolUse", "PostToolUseFailure")
# Seen on Grok 1.0, Cline 3.0, Mistral Vibe 3.0 and in Cursor's documentation. The first match counts, and Grok writes
# every field under two names, so it comes before Copilot, which has some of them.
_FIELD_MARKS = {
    "hookEventName": "grok",
    "taskId": "cline",
    "cursor_version": "cursor",
    "parent_session_id": "vibe",
    "tool_status": "vibe",
    "sessionID": "opencode",
    "callID": "opencode",
    "submitted_prompt": "qwen",
    "tool_call_id": "qwen",
    "llm_request": "gemini",
    "prompt_response": "gemini",
    "session_duration_ms": "droid",
    "CLAUDE_ENV_FILE": "droid",
    "sessionId": "copilot",
    "tool_result": "copilot",
    "initial_prompt": "copilot",
}
# Where each agent keeps its transcripts, in its folder's usual place.
_TRANSCRIPT_MARKS = {
    "/rollout-": "codex",
    "/.claude/projects/": "claude-code",
    "/.gemini/tmp/": "gemini",
    "/chats/session-": "gemini",
    "/.qwen/": "qwen",
    "/.copilot/": "copilot",
    "/GitHub.copilot-chat/": "copilot",
    "/.grok/": "grok",
    "/.factory/": "droid",
    "/.deepagents/": "deepagents",
    "/.vibe/": "vibe",
    "/.cline/": "cline",
}
_GEMINI_EVENTS = ("BeforeAgent", "AfterAgent", "BeforeTool", "AfterTool", "BeforeModel", "AfterModel", "PreCompress")
_TAIL_BYTES = 256 * 1024  # of a transcript, in which a call that is about to run is looked for


def find_sender(wire: Wire) -> str:
    """Return the agent that this payload's shape shows; empty if it shows none."""
    # The folder is the surest mark: any agent may take over a field of another.
    transcript = get_first_text(wire, "transcript_path", "transcriptPath")
    for mark, agent in _TRANSCRIPT_MARKS.items():
        if mark in transcript:
            return agent
    for field, agent in _FIELD_MARKS.items():
        if field in wire:
            return agent
    event = get_text(wire, "hook_event_name")
    if event in _GEMINI_EVENTS or event.startswith("BeforeToolSelection"):
        return "gemini"
    if "__vscode-" in get_text(wire, "tool_use_id"):
        return "copilot"
    # Copilot CLI names no transcript at a call, but a time, which Claude Code and Codex leave out.
    if event and "timestamp" in wire and "transcript_path" not in wire:
        return "copilot"
    # An event of opencode's bus; its plugin is the only sender without an event's name in our spelling.
    if "properties" in wire or "ctx_keys" in wire or "serverUrl" in wire:
        return "opencode"
    return ""


def is_foreign(wire: Wire, agent: str) -> bool:
    """Return whether another agent than this one sent the payload."""
    return find_sender(wire) not in ("", agent)


def render_nested_denial(kind: str, reason: str) -> dict[str, object]:
    return {
        "hookSpecificOutput": {
            "hookEventName": kind,
            "permissionDecision": "deny",
            "permissionDecisionReason": reason,
        }
    }


def render_nested_context(kind: str, context: str) -> dict[str, object]:
    return {"hookSpecificOutput": {"hookEventName": kind, "additionalContext": context}}


def render_blocked_prompt(reason: str) -> dict[str, object]:
    return {"decision": "block", "reason": reason}  # shown to the person; the model never sees the prompt


def _read_claude_code_result(event: Event, wire: Wire) -> tuple[object, bool]:
    """Return a call's result and whether it failed, as Claude Code reports it."""
    if event.kind == "PostToolUseFailure":
        return wire.get("error"), True
    return wire.get("tool_response"), False


@frozen
class HookContract:
    """What an agent's hooks send and read, as far as it differs from Claude Code's."""

    name: str
    events: Mapping[str, str]  # our name of each event that hardwon takes, and the agent's
    tool_names: Mapping[str, str] = {}
    argument_names: Mapping[str, str] = {}
    fields: Mapping[str, tuple[str, ...]] = {}  # where a field of Claude Code's is: the first dotted path that has one
    ignored: Mapping[str, tuple[str, object]] = {}  # events to leave out: those in which a field has this value
    denied_events: tuple[str, ...] = ("PreToolUse", "UserPromptSubmit")
    context_events: tuple[str, ...] = tuple(STANDARD_TIMEOUTS)
    has_transcript: bool = True  # whether `transcript_path` is a file that hardwon reads
    read_result: Callable[[Event, Wire], tuple[object, bool]] = _read_claude_code_result
    find_call_id: Callable[[Event], str] | None = None  # for agents that give a call no id
    render_denial: Callable[[str, str], dict[str, object]] = render_nested_denial
    render_context: Callable[[str, str], dict[str, object]] = render_nested_context
    render_blocked_prompt: Callable[[str], dict[str, object]] = render_blocked_prompt

    @property
    def timeouts(self) -> dict[str, int]:
        return {event: STANDARD_TIMEOUTS[event] for event in self.events}

    def parse_payload(self, kind: str, payload: bytes) -> Event | None:
        return self.parse_wire(kind, load_payload(payload))

    def parse_wire(self, kind: str, wire: Wire) -> Event | None:
        """Return the event of a payload; None if it is of no interest, or another agent's.

        `kind` is the event that the hook was installed for, by our name. What the payload says comes first.
        """
        if is_foreign(wire, self.name):
            return None
        wire = {**wire, **self._find_fields(wire)}
        if native_name := get_text(wire, "hook_event_name"):
            kind = ""  # an event that we do not know, unless it is found
            for event_name, name in self.events.items():
                if name == native_name:
                    kind = event_name
        if kind not in self.events:
            return None
        if kind in self.ignored:
            field, value = self.ignored[kind]
            if wire.get(field) == value:
                return None
        event = build_event(self.name, kind, wire)
        if not self.has_transcript:
            event = replace(event, transcript="")
        if kind in CALL_EVENTS:
            return self._add_call_fields(event, wire)
        return event

    def _find_fields(self, wire: Wire) -> Wire:
        """Return the fields that this agent has elsewhere, by Claude Code's names of them."""
        values = {}
        for field, paths in self.fields.items():
            for path in paths:
                value = _get_value_at(wire, path)
                if value is not None:
                    values[field] = value
                    break
        return values

    def _add_call_fields(self, event: Event, wire: Wire) -> Event | None:
        """Return the event of a call with its input and how it ended; None if it is not to be stored."""
        tool, tool_input = self.normalize_call(get_text(wire, "tool_name"), get_object(wire, "tool_input"))
        command, path, content = get_call_fields(tool, tool_input)
        event = replace(
            event,
            tool=tool,
            tool_use_id=get_text(wire, "tool_use_id"),
            command=command,
            path=path,
            content=content,
            input=tool_input if tool else None,
            interrupted=wire.get("is_interrupt") is True,
            duration=get_number(wire, "duration_ms"),
        )
        if self.find_call_id:
            event = replace(event, tool_use_id=self.find_call_id(event))
        if event.kind == "PreToolUse":
            return event
        response, failed = self.read_result(event, wire)
        # The transcript does not have the call yet. It will, at the end of the turn, and without an id the same call
        # would be stored twice.
        if self.find_call_id and event.transcript and not event.tool_use_id:
            return None
        # A denial of ours was stored when it was made, and some agents report it as the call's result.
        if failed and isinstance(response, str) and FENCE_OPEN in response:
            return None
        kind = "PostToolUseFailure" if failed else "PostToolUse"
        return replace(event, kind=kind, response=response, failed=failed)

    def normalize_call(self, name: str, tool_input: Wire) -> tuple[str, Wire]:
        """Return a call by Claude Code's names."""
        renamed = {self.argument_names.get(key, key): value for key, value in tool_input.items()}
        return self.tool_names.get(name, name), renamed

    def render_reply(self, event: Event, reply: HookReply) -> bytes:
        """Return what the hook prints: a denial, or else a note, as far as this agent takes one for the event."""
        answer: dict[str, object] = {}
        # A failure that the agent reports as a plain result is answered under the name it sent.
        kind = event.kind if event.kind in self.events else "PostToolUse"
        native_name = self.events.get(kind, kind)
        if reply.deny and kind in self.denied_events:
            if kind == "UserPromptSubmit":
                answer = self.render_blocked_prompt(reply.deny)
            else:
                answer = self.render_denial(native_name, reply.deny)
        elif reply.context and kind in self.context_events:
            answer = self.render_context(native_name, reply.context)
        if reply.notice:
            answer["systemMessage"] = reply.notice
        return dumps(answer).encode("ascii")


def _get_value_at(wire: object, path: str) -> object:
    """Return the value at a path such as `tool_call.name` or `workspaceRoots.0`; None where there is none."""
    for key in path.split("."):
        if isinstance(wire, dict):
            wire = wire.get(key)
        elif isinstance(wire, list) and key.isdecimal() and int(key) < len(wire):
            wire = wire[int(key)]
        else:
            return None
    return wire


def find_open_call(event: Event, read_line: Callable[[Wire], list[tuple[str, tuple[str, Wire] | None]]]) -> str:
    """Return the id of the latest call like this one that has not ended; empty if the transcript does not have it yet.

    `read_line` returns the calls in a line by their ids: tool and input of one that begins, None for one that ends.
    Equal calls of one message cannot be told apart.
    """
    ended_ids = set()
    lines = read_tail_lines(event.transcript, _TAIL_BYTES) if event.transcript else []
    # Backwards, so that a call's end is met before its beginning.
    for line in reversed(lines):
        if b'"tool' not in line:
            continue  # cheaper than parsing it
        try:
            wire = loads(line.decode("utf-8", "replace"))
        except ValueError:
            continue  # the first line of the tail is cut
        for call_id, begun_call in read_line(wire):
            if begun_call is None:
                ended_ids.add(call_id)
            elif begun_call == (event.tool, event.input) and call_id not in ended_ids:
                return call_id
    return ""


def read_blocks(message: object) -> list[Wire]:
    """Return the content blocks of a message in Anthropic's form."""
    return [block for block in get_list(message, "content") if isinstance(block, dict)]
