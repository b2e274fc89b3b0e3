"""Gemini CLI: its own names for events and tools, decisions at the top level, and no id of a call.

A note is ignored before a call and read after it, so that is when it is given. Any exit code but 0 and 1 denies the
call, so the installed command never has another. What hooks and transcripts both know of a call is the model's message
that made it and the call itself, so together these are its id; of equal calls in one message only the transcript knows
that there were several.
"""

from __future__ import annotations

import os
from binascii import crc32

from hardwon.agents.fields import (
    STANDARD_TIMEOUTS,
    Wire,
    build_event,
    get_call_fields,
    get_list,
    get_object,
    get_path_text,
    get_text,
    load_payload,
    read_tail_lines,
    resolve_call_cwd,
)
from hardwon.agents.hook_contract import HookContract, is_foreign, render_nested_context
from hardwon.text.fence import FENCE_CLOSE, FENCE_OPEN, remove_between
from hardwon.text.light_json import dumps, loads
from hardwon.types import Event, replace

TYPE_CHECKING = False  # importing it from `typing` would slow down the hook
if TYPE_CHECKING:
    from collections.abc import Iterator

NAME = "gemini"

# PreCompress is not among them: it comes before every call of the model, whether anything is compressed or not.
NATIVE_EVENT_NAMES = {
    "SessionStart": "SessionStart",
    "UserPromptSubmit": "BeforeAgent",
    "PreToolUse": "BeforeTool",
    "PostToolUse": "AfterTool",
    "Stop": "AfterAgent",
    "SessionEnd": "SessionEnd",
}
EVENT_TIMEOUTS = {event: STANDARD_TIMEOUTS[event] for event in NATIVE_EVENT_NAMES}
_EVENT_NAMES = {native_name: event_name for event_name, native_name in NATIVE_EVENT_NAMES.items()}
_SHELL_TOOL = "run_shell_command"
TOOL_NAMES = {
    _SHELL_TOOL: "Bash",
    "read_background_output": "BashOutput",
    "read_file": "Read",
    "read_many_files": "Read",
    "write_file": "Write",
    "replace": "Edit",
    "edit": "Edit",
    "glob": "Glob",
    "grep_search": "Grep",
    "search_file_content": "Grep",
    "list_directory": "LS",
    "web_fetch": "WebFetch",
    "google_web_search": "WebSearch",
    "write_todos": "TodoWrite",
    "invoke_agent": "Task",
    "activate_skill": "Skill",
}
ARGUMENT_NAMES = {
    "absolute_path": "file_path",
    "dir_path": "path",
    "include_pattern": "glob",
    "allow_multiple": "replace_all",
    "start_line": "offset",
    "agent_name": "subagent_type",
}
_TOOL_ARGUMENT_NAMES = {_SHELL_TOOL: {"dir_path": "dir_path"}, "activate_skill": {"name": "skill"}}
_MCP_PREFIX = "mcp_"
_TAIL_BYTES = 256 * 1024  # of a transcript, a log or a command's file
_MESSAGE_PREFIX, _HEAD_BYTES = b'{"id":"', 200  # how a message line begins, and how far its type is from there

_HOOK_CONTEXT_TAGS = ("<hook_context>", "</hook_context>")
_BRACKET_ESCAPES = str.maketrans({"<": "&lt;", ">": "&gt;"})
_ESCAPED_FENCE = (FENCE_OPEN.translate(_BRACKET_ESCAPES), FENCE_CLOSE.translate(_BRACKET_ESCAPES))
_BRACKETS_NOTE = "(&lt; and &gt; stand for angle brackets here.)"
_NO_RESPONSE_TEXT = "[no response text]"
# What Gemini CLI adds behind a person's words: an agent they chose, the files they named.
_ADDED_MARKERS = ("\n--- Content from referenced files ---", "\n<system_note>\nThe user has explicitly selected")
_UNTRUSTED_TAGS = ("<untrusted_context>", "</untrusted_context>")
_REWRITTEN_NOTICE = "[System] Tool input parameters"
_EXIT_CODE_PREFIX, _SIGNAL_PREFIX, _NO_ERROR_LINE = "Exit Code: ", "Signal: ", "Error: (none)"
_TAIL_PREFIXES = (_SIGNAL_PREFIX, "Background PIDs: ", "Process Group PGID: ")
_NO_VALUES = ("", "0", "(none)")
_TIMEOUT_PREFIX = "Command was automatically cancelled"
_CANCELLED_MESSAGE = "Command was cancelled by user"


def parse_payload(kind: str, payload: bytes) -> Event | None:
    """Return the event of a payload; None if it is of no interest."""
    wire = load_payload(payload)
    kind = _EVENT_NAMES.get(get_text(wire, "hook_event_name"), kind)
    if kind not in EVENT_TIMEOUTS or is_foreign(wire, NAME):
        return None
    message = extract_answer(get_text(wire, "prompt_response"))
    if message in ("", _NO_RESPONSE_TEXT):
        message = get_text(wire, "reason")
    # AfterAgent repeats the prompt of the turn.
    prompt = extract_prompt(get_text(wire, "prompt")) if kind == "UserPromptSubmit" else ""
    event = replace(build_event(NAME, kind, wire), prompt=prompt, message=message)
    if kind in ("PreToolUse", "PostToolUse"):
        return _add_call_fields(event, wire)
    # Only a prompt that could decide something is worth the reads that tell who typed it.
    can_decide = "#lesson" in prompt.lower() or "hardwon" in prompt
    if can_decide and not _is_typed_by_person(event):
        return replace(event, source="command")
    return event


def _add_call_fields(event: Event, wire: Wire) -> Event:
    """Return the event with its call, the agent that made it, and how it ended."""
    name = get_text(wire, "tool_name")
    mcp_context = get_object(wire, "mcp_context")
    server = get_text(mcp_context, "server_name")
    mcp_tool = get_text(mcp_context, "tool_name")
    tool, tool_input = normalize_call(name, get_object(wire, "tool_input"), server, mcp_tool)
    call_fields = get_call_fields(tool, tool_input)
    command, path, content = call_fields
    subagent_id = ""
    transcript = event.transcript
    # A sub-agent is started by the session, whatever was written last.
    if tool != "Task":
        subagent_id, transcript = _find_caller(transcript, event.session)
    event = replace(
        event,
        cwd=resolve_call_cwd(get_path_text(tool_input, "dir_path"), event.cwd),
        subagent_id=subagent_id,
        tool=tool,
        tool_use_id=build_call_id(_find_message_id(transcript), tool, call_fields),
        command=command,
        path=path,
        content=content,
        input=tool_input,
    )
    return event if event.kind == "PreToolUse" else _add_outcome(event, name, get_object(wire, "tool_response"))


def _add_outcome(event: Event, name: str, response: Wire) -> Event:
    """Return the event with its call's outcome; a failed command shows only in the result's text, by its exit code."""
    error = get_object(response, "error")
    display = join_text_parts(response.get("llmContent")) or join_text_parts(response.get("returnDisplay"))
    text, failed = parse_outcome(name, get_text(error, "message") or display)
    interrupted = name == _SHELL_TOOL and text.startswith(_CANCELLED_MESSAGE)
    failed = failed or interrupted or bool(error)
    kind = "PostToolUseFailure" if failed else "PostToolUse"
    return replace(event, kind=kind, response=text, failed=failed, interrupted=interrupted)


def _find_caller(transcript: str, session: str) -> tuple[str, str]:
    """Return the caller, the session or a subagent, and its transcript.

    Hooks get only the session's transcript, so the caller is taken to be the one that wrote last.
    """
    subagent_folder = os.path.join(os.path.dirname(transcript), session)
    try:
        names = os.listdir(subagent_folder) if transcript and session else []
    except (OSError, ValueError):
        names = []
    paths = [transcript]
    for name in names:
        if name.endswith(".jsonl"):
            paths.append(os.path.join(subagent_folder, name))
    latest = max(paths, key=_get_modified_time)
    if latest == transcript:
        return "", transcript
    subagent_id = os.path.basename(latest).removesuffix(".jsonl")
    return subagent_id, latest


def _get_modified_time(path: str) -> int:
    """Return when a file was last written, in nanoseconds; 0 if there is none."""
    try:
        return os.stat(path).st_mtime_ns
    except (OSError, ValueError):
        return 0


def _find_message_id(transcript: str) -> str:
    """Return the id of the model's message that makes the call; empty if it is not written yet.

    It is written before the calls are made, and again with their results, so one that has calls makes no more.
    """
    for line in reversed(read_tail_lines(transcript, _TAIL_BYTES)):
        if not line.startswith(_MESSAGE_PREFIX):
            continue
        head = line[:_HEAD_BYTES]
        if b'"type":"gemini"' not in head or b'"toolCalls":' in line:
            return ""
        return head.removeprefix(_MESSAGE_PREFIX).partition(b'"')[0].decode("utf-8", "replace")
    return ""


def _is_typed_by_person(event: Event) -> bool:
    """Return whether a person typed the prompt, and it is not the text of a custom command.

    Gemini CLI sends a command's text as if the person had typed it, and a repository may bring commands along. Typed
    text is in a log that is written first. `gemini -p` writes none, so the commands' files are read instead.
    """
    transcript = event.transcript.replace("\0", "").encode("utf-8", "replace").decode()
    project_folder = os.path.dirname(os.path.dirname(transcript))  # PROJECT in ~/.gemini/tmp/PROJECT/chats/CHAT
    typed_text = _find_latest_message(os.path.join(project_folder, "logs.json"), event.session)
    if typed_text:
        return not typed_text.startswith("/")
    first_line = event.prompt.partition("\n")[0]
    gemini_folder = os.path.dirname(os.path.dirname(project_folder))
    return not any(first_line in text for text in _read_command_texts(event.cwd, gemini_folder))


def _find_latest_message(log: str, session: str) -> str:
    """Return the last typed message of a session; the log has a line for each field."""
    latest, session_value = "", b""
    for line in read_tail_lines(log, _TAIL_BYTES):
        name, _, value = line.strip().rstrip(b",").partition(b": ")
        if name == b'"sessionId"':
            session_value = value
        elif name == b'"message"' and session_value == dumps(session).encode():
            try:
                latest = str(loads(value.decode("utf-8", "replace"))) or latest
            except ValueError:
                continue
    return latest


def _read_command_texts(cwd: str, gemini_folder: str) -> Iterator[str]:
    """Yield the prompts of all commands, without the place of the words typed behind a command's name."""
    import tomllib  # imports `re`, and few prompts come this far

    folders = [os.path.join(cwd, ".gemini", "commands"), os.path.join(gemini_folder, "commands")]
    extensions = os.path.join(gemini_folder, "extensions")
    try:
        folders += [os.path.join(extensions, name, "commands") for name in os.listdir(extensions)]
    except (OSError, ValueError):
        pass
    for folder in folders:
        for root, _, names in os.walk(folder):
            for name in names:
                if not name.endswith(".toml"):
                    continue
                lines = read_tail_lines(os.path.join(root, name), _TAIL_BYTES)
                text = b"\n".join(lines).decode("utf-8", "replace")
                try:
                    prompt = tomllib.loads(text).get("prompt")
                except tomllib.TOMLDecodeError:
                    continue
                yield str(prompt).replace("{{args}}", "")


def _explain_brackets(context: str) -> str:
    """Add a note where the context has angle brackets: Gemini CLI escapes them before the model sees them."""
    inner = context.replace(FENCE_OPEN, "").replace(FENCE_CLOSE, "")
    if "<" not in inner and ">" not in inner:
        return context
    return context.replace(FENCE_OPEN, f"{FENCE_OPEN}\n{_BRACKETS_NOTE}", 1)


def normalize_call(name: str, tool_input: Wire, server: str = "", mcp_tool: str = "") -> tuple[str, Wire]:
    """Return a call by Claude Code's names; its own name for an MCP tool only runs server and tool together.

    Without `server` and `mcp_tool` the name is split at its first underscore, which a server's name may have as well.
    """
    if server or name.startswith(_MCP_PREFIX):
        first, _, rest = name.removeprefix(_MCP_PREFIX).partition("_")
        return f"mcp__{server or first}__{mcp_tool or rest}", tool_input
    argument_names = {**ARGUMENT_NAMES, **_TOOL_ARGUMENT_NAMES.get(name, {})}
    renamed = {argument_names.get(key, key): value for key, value in tool_input.items()}
    if todos := get_list(renamed, "todos"):
        renamed["todos"] = [_normalize_todo(item) for item in todos]
    return TOOL_NAMES.get(name, name), renamed


def _normalize_todo(item: object) -> object:
    """Return a to-do item with its text under Claude Code's name as well."""
    return {"content": get_text(item, "description"), **item} if isinstance(item, dict) else item


def build_call_id(message: str, tool: str, call_fields: tuple[str, str, str]) -> str:
    """Return a call's id; empty if its message is not known."""
    if not message:
        return ""
    call = "\0".join((tool, *call_fields))
    # Not for security: a short checksum keeps the id readable.
    return f"{message}:{crc32(call.encode('utf-8', 'replace')):08x}"


def extract_prompt(text: str) -> str:
    """Return the part of a prompt that the person wrote."""
    text = _strip_hook_context(text)
    for marker in _ADDED_MARKERS:
        text = text.partition(marker)[0]
    return text.strip()


def extract_answer(text: str) -> str:
    """Return the model's text without hook context.

    With a `#lesson` block, brackets are unescaped, since the model may copy a pattern that it was shown escaped.
    """
    text = _strip_hook_context(text).strip()
    if "#lesson" in text:
        return text.replace("&lt;", "<").replace("&gt;", ">")
    return text


def _strip_hook_context(text: str) -> str:
    for tags in (_HOOK_CONTEXT_TAGS, _ESCAPED_FENCE, (FENCE_OPEN, FENCE_CLOSE)):
        text = remove_between(text, *tags)
    return text


def parse_outcome(name: str, text: str) -> tuple[str, bool]:
    """Return a tool's output without the frame around it, and whether that says that it failed."""
    text = _strip_hook_context(text)
    for tag in _UNTRUSTED_TAGS:
        text = text.replace(tag, "")
    lines = text.strip().split("\n")
    if lines[-1].startswith(_REWRITTEN_NOTICE):
        lines = "\n".join(lines[:-1]).rstrip().split("\n")
    if name == _SHELL_TOOL:
        return _parse_shell_outcome(lines)
    return "\n".join(lines), False


def _parse_shell_outcome(lines: list[str]) -> tuple[str, bool]:
    """Return a command's output without the frame around it, and whether the frame says that it failed.

    The frame is read from its end, since what the command printed before may look the same.
    """
    ending: list[str] = []  # what the frame says of a failure, which stays in the text
    while lines and lines[-1].startswith(_TAIL_PREFIXES):
        last = lines.pop()
        if last.startswith(_SIGNAL_PREFIX) and last.removeprefix(_SIGNAL_PREFIX) not in _NO_VALUES:
            ending = [last]
    if lines and lines[-1].startswith(_EXIT_CODE_PREFIX):
        ending.insert(0, lines.pop())
    if lines and lines[-1] == _NO_ERROR_LINE:
        lines.pop()
    text = "\n".join([*lines, *ending])
    if text.startswith("Command: ") and "\nDirectory: " in text:  # as it was until 2026
        _, _, directory_onward = text.partition("\nDirectory: ")
        _, _, text = directory_onward.partition("\n")
    failed = text.startswith(_TIMEOUT_PREFIX)
    for line in ending:
        _, _, value = line.partition(": ")
        if value not in _NO_VALUES:
            failed = True
    return text.strip().removeprefix("Output: "), failed


def join_text_parts(content: object) -> str:
    """Return the text of a content that is one text, one part, or several."""
    parts = content if isinstance(content, list) else [content]
    texts = []
    for part in parts:
        text = part if isinstance(part, str) else get_text(part, "text")
        if text:
            texts.append(text)
    return "\n".join(texts)


def _render_denial(_: str, reason: str) -> dict[str, object]:
    return {"decision": "deny", "reason": reason}


def _render_context(native_name: str, context: str) -> dict[str, object]:
    return render_nested_context(native_name, _explain_brackets(context))


render_reply = HookContract(
    name=NAME,
    events=NATIVE_EVENT_NAMES,
    context_events=("SessionStart", "UserPromptSubmit", "PostToolUse"),  # the others ignore additional context
    render_denial=_render_denial,
    render_context=_render_context,
    render_blocked_prompt=lambda reason: _render_denial("UserPromptSubmit", reason),
).render_reply
