"""The agent of VS Code in a house: Copilot Chat without an account, and a model that a small extension brings."""

from __future__ import annotations

import contextlib
import json
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from playwright.sync_api import Page, TimeoutError

from . import vscode
from .conversation import AgentSetup, Conversation, Line, Session, ToolResult, run_agent
from .model_server import Body, Call, Reply, Wire
from .other_agents import _find_new_results

SETTINGS = {"chat.allowAnonymousAccess": True}
MODEL = Path(__file__).with_name("vscode_model")


def _answer_model(reply: Reply, message_id: str, body: Body) -> str:
    calls = [
        {"id": f"{message_id}_{number}", "tool": call.tool, "input": dict(call.given)}
        for number, call in enumerate(map(_translate_call, reply.calls))
    ]
    return json.dumps({"text": reply.text, "calls": calls})


def _translate_call(call: Call) -> Call:
    words = {"explanation": "as scripted", "goal": "as scripted", "mode": "sync", "timeout": 20_000}
    return Call("run_in_terminal", {"command": call.given["command"], **words})


WIRE = Wire(
    asks=lambda path: path == "/vscode",
    conversation=lambda body: body["messages"],
    opening=lambda body: body["messages"][0],
    answer=_answer_model,
)


def _read_outputs(body: Body) -> Iterator[ToolResult]:
    for message in body["messages"]:
        for part in message["parts"]:
            if "result" in part:
                yield ToolResult(part["result"], part["result"].startswith("Tool execution denied"))


def _set_up(root: Path) -> None:
    environment = {"PATH": "/usr/bin:/bin", "HOME": str(root / "home"), "LANG": "C.UTF-8"}
    extension = vscode.pack_extension(root / "model.vsix", MODEL)
    vscode.set_up_editor(root, environment, [extension], SETTINGS)


def _allow_command(page: Page) -> None:
    """Answer the question whether a command may run, if it is asked, as a person does."""
    button = page.locator(".interactive-session").get_by_role("button", name="Allow").first
    if button.is_visible():
        with contextlib.suppress(TimeoutError):  # it is gone once it was pressed
            button.click(timeout=2_000)


def _run(program: Path, conversation: Conversation) -> Session:
    root = conversation.cwd.parent
    finished = root / "finished.json"
    finished.unlink(missing_ok=True)
    extra = {"PROMPT": conversation.prompts[0], "FINISHED": str(finished)}
    conversation = replace(conversation, env=vscode.build_environment({**conversation.env, **extra}))
    with vscode.make_socket_path() as socket_path:

        def exchange(process: subprocess.Popen[str]) -> list[Line]:
            with vscode.serve_page(socket_path, conversation.cwd) as url, vscode.open_workbench(url) as page:

                def is_finished() -> bool:
                    _allow_command(page)
                    return finished.exists()

                vscode.wait_for("the model has said its last", is_finished)
                page.locator(".codicon-stop-circle").wait_for(state="detached")  # hooks for the end of the turn ran
            vscode.end_group(process)
            return [json.loads(finished.read_text())]

        command = [*vscode.build_command(root), *vscode.list_server_arguments(socket_path, conversation.cwd)]
        _, requests, lines, stderr = run_agent(conversation, command, WIRE, exchange)
    assert not lines[0]["failure"], lines[0]["failure"]
    # The editor does not end by itself, so its exit code says nothing.
    return Session(0, requests, lines, stderr, id="", results=_find_new_results(requests, _read_outputs))


# hardwon has one hook file for Copilot CLI and VS Code.
VSCODE = AgentSetup("copilot", ".copilot/hooks/hardwon.json", _set_up, lambda root: {}, _run)
