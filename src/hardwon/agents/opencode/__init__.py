"""opencode: a plugin hands over what its hooks are given, and does as the answer says.

It hands over the hook's own input with the folder, the parent of a sub-agent's session and the tool's result. opencode
shows the model nothing before a call, so a note comes with the result. A tool of an MCP server has the server's name
and an underscore before its own; so have a few that are opencode's.
"""

from __future__ import annotations

from hardwon.agents.fields import (
    STANDARD_TIMEOUTS,
    Wire,
    get_call_fields,
    get_first_text,
    get_list,
    get_object,
    get_path_text,
    get_text,
    load_payload,
    rename_edits,
    resolve_call_cwd,
)
from hardwon.agents.hook_contract import is_foreign
from hardwon.agents.patches import build_patch_parts, parse_patch_call
from hardwon.text.fence import FENCE_CLOSE, FENCE_OPEN, fence_text, remove_between
from hardwon.text.light_json import dumps
from hardwon.types import Event, HookReply, replace

NAME = "opencode"

EVENT_TIMEOUTS = STANDARD_TIMEOUTS
HANDLED_MESSAGE = "The user's message was a command to hardwon, which has answered it. There is nothing for you to do."
TOOL_NAMES = {
    "bash": "Bash",
    "shell": "Bash",
    "read": "Read",
    "write": "Write",
    "edit": "Edit",
    "multiedit": "MultiEdit",
    "patch": "Edit",
    "apply_patch": "Edit",
    "glob": "Glob",
    "grep": "Grep",
    "list": "LS",
    "task": "Task",
    "todowrite": "TodoWrite",
    "todoread": "TodoRead",
    "webfetch": "WebFetch",
    "websearch": "WebSearch",
    "skill": "Skill",
}
_BUILTIN_TOOLS = ("list_mcp_resources", "list_mcp_resource_templates", "read_mcp_resource", "plan_enter", "plan_exit")
_ARGUMENT_NAMES = {
    "filePath": "file_path",
    "oldString": "old_string",
    "newString": "new_string",
    "replaceAll": "replace_all",
    "include": "glob",
}
_PATCH_KEY = "patchText"
_FEEDBACK_MARKER = "with the following feedback:"
_REFUSED_MESSAGE = "The user rejected permission to use this specific tool call"
_ABORTED_MESSAGES = ("Tool execution aborted", "Cancelled")


def parse_payload(kind: str, payload: bytes) -> Event | None:
    return parse_plugin_payload(NAME, kind, payload)


def parse_plugin_payload(agent: str, kind: str, payload: bytes) -> Event | None:
    """Return the event of a payload that our plugin handed over, in opencode or in an agent that has its plugins."""
    wire = load_payload(payload)
    if kind not in EVENT_TIMEOUTS or is_foreign(wire, NAME):
        return None
    # An event of opencode's bus has its fields in `properties`, those of a session in `info` below that.
    properties = get_object(wire, "properties")
    # Of fields with the same name the outermost counts.
    wire = {**get_object(properties, "info"), **properties, **get_object(wire, "info"), **wire}
    session_id = get_text(wire, "sessionID")
    parent = get_text(wire, "parentID")  # of a sub-agent's session
    event = Event(
        host=agent,
        kind=kind,
        session=parent or session_id,
        cwd=get_path_text(wire, "directory"),
        subagent_id=session_id if parent else "",
        source=get_text(wire, "source"),
        prompt=unquote_prompt(get_text(wire, "prompt")),
        prompt_name=get_text(wire, "messageID"),
        message=get_first_text(wire, "said", "reason", "agent"),
    )
    if kind in ("PreToolUse", "PostToolUse", "PostToolUseFailure"):
        return _add_call_fields(event, wire)
    return event


def _add_call_fields(event: Event, wire: Wire) -> Event | None:
    """Return the event of a call; None if a person or hardwon refused it."""
    tool, tool_input = normalize_call(get_text(wire, "tool"), get_object(wire, "args"))
    error = get_text(wire, "error")
    exit_code = wire.get("exit")
    is_aborted = error.startswith(_ABORTED_MESSAGES)
    # A denial of ours was stored when it was made.
    if FENCE_OPEN in error or (parse_refusal(error) and not is_aborted):
        return None
    command, path, content = extract_call_fields(tool, tool_input)
    event = replace(
        event,
        cwd=find_call_cwd(tool, tool_input, event.cwd),
        tool=tool,
        tool_use_id=get_text(wire, "callID"),
        command=command,
        path=path,
        content=content,
        input=tool_input,
    )
    if event.kind != "PreToolUse":
        failed = bool(error or wire.get("isError") is True or is_failure_code(exit_code))
        kind = "PostToolUseFailure" if failed else event.kind
        response = error or _read_result_text(wire)
        event = replace(event, kind=kind, response=response, failed=failed, interrupted=is_aborted)
    parts = build_patch_parts(event, get_text(tool_input, _PATCH_KEY))
    # A patch of one file is judged as the event itself.
    return replace(event, parts=parts) if len(parts) > 1 else event


def is_failure_code(code: object) -> bool:
    return isinstance(code, int) and code != 0


def _read_result_text(wire: Wire) -> str:
    """Return a tool's output, or the texts of an MCP server's, without what hardwon added for the model."""
    texts = [get_text(row, "text") for row in get_list(wire, "content")]
    return remove_between(get_text(wire, "output") or "\n".join(filter(None, texts)), FENCE_OPEN, FENCE_CLOSE)


def normalize_call(name: str, tool_input: Wire) -> tuple[str, Wire]:
    """Return a call by Claude Code's names. A patch counts as one, under its first file."""
    if name not in TOOL_NAMES and name not in _BUILTIN_TOOLS and "_" in name:
        server, _, server_tool = name.partition("_")
        return f"mcp__{server}__{server_tool}", tool_input
    renamed = {_ARGUMENT_NAMES.get(key, key): value for key, value in tool_input.items()}
    if edits := get_list(renamed, "edits"):
        renamed["edits"] = rename_edits(edits, normalize_call)
    if patch := get_text(tool_input, _PATCH_KEY):
        return parse_patch_call(patch).tool, renamed
    return TOOL_NAMES.get(name, name), renamed


def extract_call_fields(tool: str, tool_input: Wire) -> tuple[str, str, str]:
    """Return the command, the path and the content of a call by Claude Code's names."""
    if patch := get_text(tool_input, _PATCH_KEY):
        call = parse_patch_call(patch)
        return "", call.path, call.content
    return get_call_fields(tool, tool_input)


def find_call_cwd(tool: str, tool_input: Wire, cwd: str) -> str:
    """Return where a call happens: a shell call may name a folder."""
    if tool != "Bash":
        return cwd
    return resolve_call_cwd(get_path_text(tool_input, "workdir"), cwd)


def unquote_prompt(text: str) -> str:
    """Return a prompt without the quotes that `opencode run` and `kilo run` put around a single argument."""
    stripped = text.strip()
    inner = stripped[1:-1]
    is_quoted = stripped == f'"{inner}"'
    has_unescaped_quote = '"' in inner.replace('\\"', "")
    if not is_quoted or " " not in inner or has_unescaped_quote:
        return text
    return inner.replace('\\"', '"')


def parse_refusal(error: str) -> str:
    """Return the words of a person who refused or aborted a call, a blank if they gave none; empty if nobody did."""
    if error.startswith(_ABORTED_MESSAGES):
        return " "
    if not error.startswith(_REFUSED_MESSAGE):
        return ""
    return error.partition(_FEEDBACK_MARKER)[2].strip() or " "


def render_reply(event: Event, reply: HookReply) -> bytes:
    """Return the plugin's instructions: `deny` is thrown, `context` given to the model, `notice` shown to the person.

    A prompt cannot be kept from the model: an error there shows as "Unexpected server error". So the model is told.
    """
    if reply.deny and event.kind == "UserPromptSubmit":
        reply = replace(reply, deny="", context=fence_text(HANDLED_MESSAGE), notice=reply.deny)
    answer = {}
    if reply.deny:
        answer["deny"] = reply.deny
    if reply.context:
        answer["context"] = reply.context
    if reply.notice:
        answer["notice"] = reply.notice
    return dumps(answer).encode("ascii")
