"""Pinned agent programs, fetched from npm into the checkout's cache folder.

Their licences forbid shipping them, so each machine fetches its own copy, once. Install scripts are not
run: the platform package that npm picks carries the whole program, and we start that directly.
"""

from __future__ import annotations

import fcntl
import functools
import json
import os
import platform
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import pytest

CACHE = Path(__file__).resolve().parents[2] / ".cache" / "agents"
OWN_ENV = dict(os.environ)  # as the person has it: a test may hide the home, where npm keeps its settings
PATIENCE = 300


@dataclass(frozen=True)
class Agent:
    name: str
    version: str
    package: str
    program: str  # where npm puts it, as a glob: the folder is named after the platform
    nested: tuple[str, ...] = ()  # folders of the package with dependencies of their own

    @property
    def folder(self) -> Path:
        return CACHE / f"{self.name}-{self.version}"

    def __str__(self) -> str:
        return f"{self.name}-{self.version}"


def describe_claude_code(version: str) -> Agent:
    return Agent("claude-code", version, "@anthropic-ai/claude-code", "@anthropic-ai/claude-code-*/claude")


CODEX = Agent("codex", "0.166.0", "@openai/codex", "@openai/codex-*/vendor/*/bin/codex")
GEMINI = Agent("gemini", "0.61.0", "@google/gemini-cli", "@google/gemini-cli/bundle/gemini.js")
OPENCODE = Agent("opencode", "1.18.33", "opencode-ai", "opencode-*-*/bin/opencode")
COPILOT = Agent("copilot", "1.0.102", "@github/copilot", "@github/copilot-*-*/copilot")
QWEN = Agent("qwen", "0.24.4", "@qwen-code/qwen-code", "@qwen-code/qwen-code/cli.js")
KILO = Agent("kilo", "7.7.7", "@kilocode/cli", "@kilocode/cli-*-*/bin/kilo")
GROK = Agent("grok", "1.0.41", "@xai-official/grok", "@xai-official/grok-*-*/bin/grok")
# The package of the platform itself: the one that would choose it had no build that matches.
_PLATFORM = f"{sys.platform}-{'arm64' if platform.machine() in ('arm64', 'aarch64') else 'x64'}"
DROID = Agent("droid", "0.225.2", f"@factory/cli-{_PLATFORM}", "@factory/cli-*/bin/droid")
CLINE = Agent("cline", "3.0.65", "cline", "@cline/cli-*-*/bin/cline")
# Qwen Code and VS Code need a later Node than most machines have.
NODE = Agent("node", "24.21.0", f"node-{_PLATFORM}", "node-*/bin/node")
# code-server is the published build of VS Code that runs without a desktop. Its install script would install what
# `nested` lists; without the scripts of those only a logger is missing.
VSCODE = Agent(
    "vscode",
    "4.139.1",
    "code-server",
    "code-server/out/node/entry.js",
    ("code-server/lib/vscode", "code-server/lib/vscode/extensions"),
)

RESULTS = CACHE.parents[1] / "docs" / "tested_agents.json"


def keep_test_result(*tested: Agent) -> None:
    """With WRITE_TABLE=1 keep version and date for the README's table, which `make docs` writes."""
    if not OWN_ENV.get("WRITE_TABLE"):
        return
    date = datetime.now(UTC).date().isoformat()
    rows = json.loads(RESULTS.read_text()) | {agent.name: {"version": agent.version, "date": date} for agent in tested}
    RESULTS.write_text(json.dumps(rows, indent=2) + "\n")


def find_program(agent: Agent) -> Path:
    """Return the agent's program; without it skip the test, and in CI fail it."""
    program = _fetch_program(agent)
    if isinstance(program, Path):
        return program
    if OWN_ENV.get("CI") == "true":
        pytest.fail(program, pytrace=False)
    pytest.skip(program)


@functools.cache
def _fetch_program(agent: Agent) -> Path | str:
    """Return the program, or why there is none. Cached because a failed download takes long."""
    CACHE.mkdir(parents=True, exist_ok=True)
    with open(f"{agent.folder}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        complete = agent.folder / "complete"
        if not complete.exists():
            shutil.rmtree(agent.folder, ignore_errors=True)
            failure = _install_package(agent)
            if failure:
                shutil.rmtree(agent.folder, ignore_errors=True)
                return f"{agent} cannot be installed: {failure}"
            complete.touch()
    return _find_installed(agent) or f"{agent} is incomplete; delete {agent.folder} and run again"


def _install_package(agent: Agent) -> str:
    """Install the package and return why that failed, or an empty string."""
    npm = shutil.which("npm", path=OWN_ENV.get("PATH"))
    if npm is None:
        return "there is no npm on this machine"
    options = ["--ignore-scripts", "--no-audit", "--no-fund"]
    options += ["--fetch-retries=1", "--fetch-retry-mintimeout=1000"]  # offline, its own patience is minutes
    agent.folder.mkdir()
    install = [npm, "install", *options]
    failure = _run_npm([*install, "--prefix", str(agent.folder), f"{agent.package}@{agent.version}"], agent.folder)
    for name in agent.nested:
        failure = failure or _run_npm([*install, "--omit=dev"], agent.folder / "node_modules" / name)
    if failure:
        return failure
    _unpack_programs(agent)
    return "" if _find_installed(agent) else "npm has no build of it for this platform"


def _run_npm(command: list[str], folder: Path) -> str:
    """Run npm in a folder and return why that failed, or an empty string."""
    try:
        result = subprocess.run(
            command,
            cwd=folder,
            env=OWN_ENV,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
        )
    except subprocess.TimeoutExpired:
        return f"npm did not finish in {PATIENCE} s"
    if result.returncode:
        # Only the code: npm's sentences name the registry, which is nobody's business but the machine's.
        code = re.search(r"npm (?:error|ERR!) code (\w+)", result.stderr)
        return f"npm said {code[1] if code else f'exit code {result.returncode}'}"
    return ""


def _unpack_programs(agent: Agent) -> None:
    """Unpack what Grok's install script would unpack."""
    unpack = "const [, path] = process.argv; const fs = require('fs'); const zlib = require('zlib');"
    unpack += "fs.writeFileSync(path, zlib.brotliDecompressSync(fs.readFileSync(path + '.br')), {mode: 0o755})"
    for packed in agent.folder.glob(f"node_modules/{agent.program}.br"):
        subprocess.run(["node", "-e", unpack, str(packed.with_suffix(""))], env=OWN_ENV, check=True)


def _find_installed(agent: Agent) -> Path | None:
    """Return the last build by name: npm may install a `-baseline` one beside that for newer processors."""
    return max(agent.folder.glob(f"node_modules/{agent.program}"), default=None)
