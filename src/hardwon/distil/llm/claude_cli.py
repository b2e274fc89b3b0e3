"""Ask Claude Code itself with `claude -p`, for people who have a login and no API key.

The run gets no tools, hooks, MCP servers or memory files and an empty folder, and it keeps no transcript, so that
hardwon never records or mines its own questions. The prompt goes through stdin because every user of the machine can
read a process's arguments. One run is one request: the program's own retries are off. Its output limit stays at the
default, because with a small limit it asks for the rest of a long answer in requests that nobody booked.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Callable, Mapping
from typing import Annotated, Any

import msgspec

from hardwon import clock
from hardwon.distil.llm.exchange import (
    MAX_ANSWER_CHARS,
    Answer,
    Broken,
    Denied,
    MessagesUsage,
    Question,
    Refused,
    build_status_error,
    build_timeout_error,
    clean_error_text,
)
from hardwon.types import API_KEY_VARIABLES

PROGRAM = "claude"
TIMEOUT_SECONDS = 100.0  # including start-up; shorter than a job's lease
_KEY_VARIABLES = API_KEY_VARIABLES["claude"]
# All other variables are dropped, so that nothing of a surrounding agent reaches the run.
_PASSED_VARIABLES = (
    "CLAUDE_CONFIG_DIR",
    "HOME",
    "LANG",
    "LC_ALL",
    "LOGNAME",
    "PATH",
    "TMPDIR",
    "USER",
    "XDG_CONFIG_HOME",
)
_QUIET_VARIABLES = {
    "CLAUDE_CODE_DISABLE_CLAUDE_MDS": "1",
    "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
    "CLAUDE_CODE_MAX_RETRIES": "0",
    "DISABLE_AUTOUPDATER": "1",
}
# The run must not trigger hardwon's own hooks, or it would record its own questions.
_SETTINGS = json.dumps({"disableAllHooks": True})


class _Result(msgspec.Struct, tag_field="type", tag="result"):
    """The line in which the program reports the result; field names are the program's."""

    result: Any = None
    subtype: str = ""
    is_error: bool = False
    stop_reason: str | None = None
    api_error_status: int | None = None
    usage: MessagesUsage = msgspec.field(default_factory=MessagesUsage)
    total_cost_usd: Annotated[float, msgspec.Meta(ge=0, lt=1_000)] | None = None
    modelUsage: dict[str, Any] = msgspec.field(default_factory=dict)


def ask(
    question: Question,
    *,
    model: str,
    url: str = "",
    key_variable: str = "",
    read_environment: Callable[[], Mapping[str, str]],
    timeout: float = TIMEOUT_SECONDS,
) -> Answer:
    """Run the program once and return its answer; `read_environment` returns our own environment."""
    environ = read_environment()
    program = shutil.which(PROGRAM, path=environ.get("PATH", os.defpath))
    if program is None:
        raise Denied(f"there is no {PROGRAM} on the PATH", is_free=True)
    child_environ = _build_environment(url, key_variable, environ)
    with tempfile.TemporaryDirectory(prefix="hardwon-") as empty_folder:
        exit_code, out, err = _run_program(
            _build_command(program, question.system, model), question.prompt, child_environ, empty_folder, timeout
        )
    secrets = [child_environ[name] for name in _KEY_VARIABLES if name in child_environ]
    return _build_answer(question, out, err, exit_code=exit_code, asked_model=model, secrets=secrets)


def _build_command(program: str, system: str, model: str) -> list[str]:
    return [
        *(program, "-p", "--model", model, "--output-format", "json", "--system-prompt", system),
        *("--tools", "", "--disallowedTools", "*", "--strict-mcp-config", "--disable-slash-commands"),
        *("--settings", _SETTINGS, "--setting-sources", "user", "--no-session-persistence", "--max-turns", "1"),
    ]


def _build_environment(url: str, key_name: str, environ: Mapping[str, str]) -> dict[str, str]:
    """Build an environment without the surrounding agent's variables; a key gets the program's usual name."""
    child_environ = {name: environ[name] for name in _PASSED_VARIABLES if name in environ} | _QUIET_VARIABLES
    if key_name in environ:
        child_environ[key_name if key_name in _KEY_VARIABLES else _KEY_VARIABLES[0]] = environ[key_name]
    elif not key_name:
        child_environ |= {name: environ[name] for name in _KEY_VARIABLES if name in environ}
    return child_environ | ({"ANTHROPIC_BASE_URL": url} if url else {})


def _run_program(
    command: list[str], prompt: str, child_environ: dict[str, str], folder: str, patience: float
) -> tuple[int, bytes, bytes]:
    """Run the program until it ends or times out; afterwards it and its children are gone."""
    pipe = subprocess.PIPE
    try:
        process = subprocess.Popen(
            # A process group of its own, so that its children can be killed with it.
            command,
            stdin=pipe,
            stdout=pipe,
            stderr=pipe,
            env=child_environ,
            cwd=folder,
            start_new_session=True,
        )
    except OSError as error:
        raise Denied(f"{PROGRAM} cannot be started: {error.strerror}", is_free=True) from None
    try:
        out, err = process.communicate(prompt.encode("utf-8", "replace"), timeout=patience)
    except subprocess.TimeoutExpired:
        raise build_timeout_error(f"{PROGRAM} did not end", patience) from None
    finally:
        if process.returncode is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
    return process.returncode, out, err


def _build_answer(
    question: Question, out: bytes, err: bytes, *, exit_code: int, asked_model: str, secrets: list[str]
) -> Answer:
    """Build the answer from what the program printed; Failed if that is an error, or no answer."""

    def clean(text: str) -> str:
        for secret in secrets:
            text = text.replace(secret, "[redacted:key]")
        return clean_error_text(text, "")

    result = _find_result(out)
    if result is None:
        error_text = clean(err.decode("utf-8", "replace"))
        raise Broken(f"{PROGRAM} ended with {exit_code}: {error_text}", outcome="malformed")
    text = result.result if isinstance(result.result, str) else ""
    if len(text) > MAX_ANSWER_CHARS:
        raise Broken(f"the answer has more than {MAX_ANSWER_CHARS:,} characters", outcome="malformed")
    # Asked for `haiku`, the program reports the model that this name stands for.
    model = next(iter(result.modelUsage), asked_model)
    answer = result.usage.build_answer(text, question, model, result.total_cost_usd)
    if result.stop_reason == "refusal":
        raise Refused("the model refused", usage=answer)
    if result.is_error or result.subtype != "success":
        if result.api_error_status is not None:
            raise build_status_error(result.api_error_status, clean(text), None, clock.now(), "")
        raise Broken(clean(text) or result.subtype, usage=answer)
    if not text.strip():
        raise Broken("the answer is empty", outcome="malformed", usage=answer)
    return answer


def _find_result(out: bytes) -> _Result | None:
    """Return the last line that parses as a result; all other output is ignored."""
    for line in reversed(out.splitlines()):
        try:
            return msgspec.json.decode(line, type=_Result)
        except (msgspec.DecodeError, RecursionError):
            continue
    return None
