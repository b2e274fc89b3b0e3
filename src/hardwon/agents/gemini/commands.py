"""Whether a prompt in Gemini CLI is what the person typed: a command's text is sent as if it were, and a repository may
bring commands along.

What was typed stands in a log that is written first. `gemini -p` writes none; there the commands' files are read.
"""

from __future__ import annotations

import os

from hardwon.agents.fields import read_tail_lines
from hardwon.text.light_json import dumps, loads

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_TAIL_BYTES = 256 * 1024  # bytes of the log, and of a command's file


def is_typed_by_person(event: Mapping[str, str]) -> bool:
    """Whether no command wrote the prompt, by the names an event has for where it happened."""
    transcript = event["transcript"].replace("\0", "").encode("utf-8", "replace").decode()
    project_folder = os.path.dirname(os.path.dirname(transcript))  # PROJECT in ~/.gemini/tmp/PROJECT/chats/CHAT
    typed_text = _find_latest_message(os.path.join(project_folder, "logs.json"), event["session"])
    if typed_text:
        return not typed_text.startswith("/")
    first_line = event["prompt"].partition("\n")[0]
    gemini_folder = os.path.dirname(os.path.dirname(project_folder))
    return not any(
        first_line in text for text in _read_command_texts(_list_command_folders(event["cwd"], gemini_folder))
    )


def _find_latest_message(log: str, session: str) -> str:
    """The last that was typed in a session; the log has a line for each field."""
    latest, session_value = "", b""
    for line in read_tail_lines(log, _TAIL_BYTES):
        name, _, value = line.strip().rstrip(b",").partition(b": ")
        if name == b'"sessionId"':
            session_value = value
        elif name == b'"message"' and session_value == dumps(session).encode():
            latest = _decode_string(value) or latest
    return latest


def _decode_string(value: bytes) -> str:
    try:
        return str(loads(value.decode("utf-8", "replace")))
    except (ValueError, RecursionError):
        return ""


def _list_command_folders(cwd: str, gemini_folder: str) -> Iterator[str]:
    yield os.path.join(cwd, ".gemini", "commands")
    yield os.path.join(gemini_folder, "commands")
    extensions = os.path.join(gemini_folder, "extensions")
    try:
        yield from (os.path.join(extensions, name, "commands") for name in os.listdir(extensions))
    except (OSError, ValueError):
        return


def _read_command_texts(folders: Iterator[str]) -> Iterator[str]:
    """What commands have the agent told, without the place of what is typed behind their name."""
    import tomllib  # it brings in `re`, and few prompts come this far

    for folder in folders:
        for root, _, names in os.walk(folder):
            for name in names:
                lines = read_tail_lines(os.path.join(root, name), _TAIL_BYTES) if name.endswith(".toml") else []
                try:
                    prompt = tomllib.loads(b"\n".join(lines).decode("utf-8", "replace")).get("prompt")
                except tomllib.TOMLDecodeError:
                    continue
                yield str(prompt).replace("{{args}}", "")
