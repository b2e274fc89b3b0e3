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

_TAIL = 256 * 1024  # bytes of the log, and of a command's file


def is_typed_by_person(event: Mapping[str, str]) -> bool:
    """Whether no command wrote the prompt, by the names an event has for where it happened."""
    transcript = event["transcript"].replace("\0", "").encode("utf-8", "replace").decode()
    above = os.path.dirname(os.path.dirname(transcript))  # PROJECT in ~/.gemini/tmp/PROJECT/chats/CHAT
    typed = _latest(os.path.join(above, "logs.json"), event["session"])
    if typed:
        return not typed.startswith("/")
    first = event["prompt"].partition("\n")[0]
    own = os.path.dirname(os.path.dirname(above))
    return not any(first in text for text in _texts(_folders(event["cwd"], own)))


def _latest(log: str, session: str) -> str:
    """The last that was typed in a session; the log has a line for each field."""
    latest, whose = "", b""
    for line in read_tail_lines(log, _TAIL):
        name, _, value = line.strip().rstrip(b",").partition(b": ")
        if name == b'"sessionId"':
            whose = value
        elif name == b'"message"' and whose == dumps(session).encode():
            latest = _string(value) or latest
    return latest


def _string(value: bytes) -> str:
    try:
        return str(loads(value.decode("utf-8", "replace")))
    except (ValueError, RecursionError):
        return ""


def _folders(cwd: str, own: str) -> Iterator[str]:
    yield os.path.join(cwd, ".gemini", "commands")
    yield os.path.join(own, "commands")
    extensions = os.path.join(own, "extensions")
    try:
        yield from (os.path.join(extensions, name, "commands") for name in os.listdir(extensions))
    except (OSError, ValueError):
        return


def _texts(folders: Iterator[str]) -> Iterator[str]:
    """What commands have the agent told, without the place of what is typed behind their name."""
    import tomllib  # it brings in `re`, and few prompts come this far

    for folder in folders:
        for place, _, names in os.walk(folder):
            for name in names:
                lines = read_tail_lines(os.path.join(place, name), _TAIL) if name.endswith(".toml") else []
                try:
                    found = tomllib.loads(b"\n".join(lines).decode("utf-8", "replace")).get("prompt")
                except tomllib.TOMLDecodeError:
                    continue
                yield str(found).replace("{{args}}", "")
