"""VS Code in a house: code-server behind a socket in a file, and a real browser, without which no extension starts.

The socket is a file so that the editor can run in a network of its own, where the browser could not reach a port.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from time import monotonic, sleep
from typing import Any

from playwright.sync_api import Page

from . import agents
from .browser import new_page, open_browser
from .house import CHECKOUT

PATIENCE = 180  # seconds; the editor is there after ten on a machine with nothing else to do
USER_FOLDER = ".local/share/code-server/User"  # in the home, where code-server has it by default
SETTINGS = {
    "telemetry.telemetryLevel": "off",
    "security.workspace.trust.enabled": False,
    "workbench.startupEditor": "none",
    "workbench.tips.enabled": False,
    "workbench.secondarySideBar.defaultVisibility": "hidden",  # the chat there would take the focus as it appears
    "extensions.autoCheckUpdates": False,
    "files.autoSave": "off",
    "files.simpleDialog.enable": True,
}


def wait_for(condition: str, is_there: Callable[[], Any]) -> Any:
    """Return what a function returns once that is true."""
    deadline = monotonic() + PATIENCE
    while not (value := is_there()):
        assert monotonic() < deadline, f"not within {PATIENCE} s: {condition}"
        sleep(0.05)
    return value


def pack_extension(target: Path, source: Path) -> Path:
    """Pack an extension with the script that packs ours for people."""
    subprocess.run([sys.executable, str(CHECKOUT / "scripts" / "build_vsix.py"), str(target), str(source)], check=True)
    return target


def build_command(root: Path) -> list[str]:
    """Return the start of every command of code-server, with its folders below the root."""
    config = root / "code-server.yaml"
    config.write_text("auth: none\ncert: false\n")
    user_data = (root / "home" / USER_FOLDER).parent
    folders = ["--user-data-dir", str(user_data), "--extensions-dir", str(root / "extensions")]
    return [
        str(agents.find_program(agents.NODE)),
        str(agents.find_program(agents.VSCODE)),
        *folders,
        "--config",
        str(config),
    ]


def build_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of an editor that reaches nothing but this machine: its proxy is a closed port."""
    node_folder = agents.find_program(agents.NODE).parent
    nowhere = dict.fromkeys(("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"), "http://127.0.0.1:9")
    return {**environment, **nowhere, "PATH": f"{node_folder}:{environment['PATH']}"}


def set_up_editor(
    root: Path, environment: Mapping[str, str], extensions: Sequence[Path], settings: Mapping[str, Any]
) -> None:
    """Write the person's settings and install extensions."""
    user_folder = root / "home" / USER_FOLDER
    user_folder.mkdir(parents=True, exist_ok=True)
    (user_folder / "settings.json").write_text(json.dumps({**SETTINGS, **settings}))
    # The editor takes its search path from a login shell, which knows nothing of this home. No workspace may name a
    # program, so that setting counts only here.
    machine_folder = user_folder.parent / "Machine"
    machine_folder.mkdir(exist_ok=True)
    (machine_folder / "settings.json").write_text(json.dumps({"hardwon.program": str(root / "bin" / "hardwon")}))
    for extension in extensions:
        run = subprocess.run(
            [*build_command(root), "--install-extension", str(extension)],
            env=build_environment(environment),
            cwd=root,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
        )
        assert run.returncode == 0, f"{extension.name} was not installed: {run.stdout}{run.stderr}"


@contextlib.contextmanager
def make_socket_path() -> Iterator[str]:
    """Make a folder for the editor's socket, with a short name: an address has 107 bytes at most."""
    with tempfile.TemporaryDirectory(prefix="vs-") as folder:
        yield os.path.join(folder, "s")


def list_server_arguments(socket_path: str, folder: Path) -> list[str]:
    return [
        "--socket",
        socket_path,
        "--auth",
        "none",
        "--disable-telemetry",
        "--disable-update-check",
        "--disable-workspace-trust",
        str(folder),
    ]


@contextlib.contextmanager
def run_editor(root: Path, folder: Path, environment: Mapping[str, str]) -> Iterator[str]:
    """Run code-server and yield the address of its page."""
    with make_socket_path() as socket_path, open(root / "code-server.log", "a") as log:
        process = subprocess.Popen(
            [*build_command(root), *list_server_arguments(socket_path, folder)],
            env=build_environment(environment),
            cwd=root,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
        try:
            with serve_page(socket_path, folder) as url:
                yield url
        finally:
            end_group(process)


def end_group(process: subprocess.Popen[Any]) -> None:
    """End a process and what it started, and wait for it."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGTERM)
    try:
        process.wait(10)
    except subprocess.TimeoutExpired:
        pass
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


@contextlib.contextmanager
def serve_page(socket_path: str, folder: Path) -> Iterator[str]:
    """Forward a port to the editor's socket, once that is there, and yield the page's address."""
    wait_for("the editor listens", lambda: os.path.exists(socket_path))
    with socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=_forward_connections, args=(listener, socket_path), daemon=True).start()
        yield f"http://127.0.0.1:{listener.getsockname()[1]}/?folder={folder}"
        with contextlib.suppress(OSError):
            listener.shutdown(socket.SHUT_RDWR)  # wakes up the thread that accepts


def _forward_connections(listener: socket.socket, socket_path: str) -> None:
    while True:
        try:
            client, _ = listener.accept()
        except OSError:
            return
        server = socket.socket(socket.AF_UNIX)
        try:
            server.connect(socket_path)
        except OSError:
            client.close()
            continue
        for source, target in ((client, server), (server, client)):
            threading.Thread(target=_copy_bytes, args=(source, target), daemon=True).start()


def _copy_bytes(source: socket.socket, target: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while chunk := source.recv(65536):
            target.sendall(chunk)
    # Only this direction has ended; an answer may still be on its way.
    with contextlib.suppress(OSError):
        target.shutdown(socket.SHUT_WR)


@contextlib.contextmanager
def open_workbench(url: str) -> Iterator[Page]:
    """Open the editor in a browser and wait until it can be used."""
    with open_browser() as browser, new_page(browser) as page:
        page.set_viewport_size({"width": 1280, "height": 720})
        page.set_default_timeout(PATIENCE * 1000)
        page.goto(url, wait_until="domcontentloaded")
        page.locator(".monaco-workbench .statusbar-item").first.wait_for()
        yield page
