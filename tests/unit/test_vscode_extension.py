"""The extension for VS Code without the editor: its own tests, its package, and what its page says."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

import hardwon

CHECKOUT = Path(__file__).resolve().parents[2]
EXTENSION = CHECKOUT / "plugins" / "vscode"
MIN_NODE = 21  # whose test runner can set the clock; 20 got it late


def find_node() -> str:
    """Return a Node that has a test runner with a clock; the one that VS Code's tests fetched counts too."""
    fetched = sorted(CHECKOUT.glob(".cache/agents/node-*/node_modules/node-*/bin/node"))
    for program in filter(None, [shutil.which("node"), *map(str, fetched)]):
        version = subprocess.run([program, "--version"], capture_output=True, text=True).stdout
        if re.match(r"v(\d+)", version) and int(version[1:].partition(".")[0]) >= MIN_NODE:
            return program
    pytest.skip(f"there is no Node {MIN_NODE} or later here; make test-real fetches one")


def test_the_extensions_own_tests_pass() -> None:
    tests = [str(file) for file in sorted((EXTENSION / "test").glob("*.js"))]
    process = subprocess.run([find_node(), "--test", *tests], capture_output=True, text=True, timeout=120)
    assert process.returncode == 0 and tests, process.stdout


def test_it_is_packed_with_this_version_and_every_file_that_it_loads(tmp_path: Path) -> None:
    target = tmp_path / "hardwon.vsix"
    script = CHECKOUT / "scripts" / "build_vsix.py"
    subprocess.run([sys.executable, str(script), str(target)], check=True, capture_output=True)
    with zipfile.ZipFile(target) as archive:
        names = set(archive.namelist())
        package = json.loads(archive.read("extension/package.json"))
        sources = [archive.read(name).decode() for name in names if name.endswith(".js")]
    assert package["version"] == hardwon.__version__
    loaded = {f"extension/{name}.js" for source in sources for name in re.findall(r'require\("\./(\w+)"\)', source)}
    assert loaded | {"extension/extension.js", "extension.vsixmanifest", "[Content_Types].xml"} <= names


def test_every_command_and_setting_is_registered_and_documented() -> None:
    contributions = json.loads((EXTENSION / "package.json").read_text())["contributes"]
    source = (EXTENSION / "extension.js").read_text()
    page = (CHECKOUT / "docs" / "vscode.md").read_text()
    for command in contributions["commands"]:
        assert re.search(rf"(?m)^ +{command['command'].removeprefix('hardwon.')}: \(\) =>", source), command
        assert f"`hardwon: {command['title']}`" in page
    for name in contributions["configuration"]["properties"]:
        assert f'.get("{name.removeprefix("hardwon.")}")' in source and f"`{name}`" in page
