"""What a tool call costs with other memories in the way: `make bench-peers`.

The hooks of lessons-learned and claude-mem run as their plugins register them, without the shell around them, beside
ours, an empty Python and an empty Node in one run. Both are fetched into .cache/peers; one that cannot be fetched is
left out with a sentence. CPU time is the hooks' own, without that of the workers of hardwon and claude-mem. Everything
runs in a throwaway home and, on Linux, without a network.
"""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager

from hook import (
    LESSONS,
    NODE,
    PYTHON,
    build_empty_cases,
    build_environment,
    build_hook_case,
    build_lessons,
    build_payload,
    is_denied,
    is_silent,
    open_homes,
)
from measure import Case, Cost, measure_interleaved, run_case

CACHE = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), ".cache", "peers")
LESSONS_LEARNED = os.path.join(CACHE, "lessons-learned")
LESSONS_LEARNED_URL = "https://github.com/joeblackwaslike/lessons-learned"
CLAUDE_MEM = os.path.join(CACHE, "claude-mem", "package", "plugin")
CLAUDE_MEM_VERSION = "13.25.3"
BUN = os.path.join(CACHE, "bun", "node_modules", ".bin")
ISOLATED = "HARDWON_BENCH_ISOLATED"
FETCH_SECONDS = 300
ROUNDS = 10 if os.environ.get("QUICK") else 40
HARMLESS, MISTAKE = "cargo test --all", "git push --force"


def fetch_peers() -> None:
    """Fetch what is missing; a peer that cannot be fetched is named and left out."""
    os.makedirs(CACHE, exist_ok=True)
    if not os.path.exists(os.path.join(LESSONS_LEARNED, "hooks")):
        run_step("lessons-learned", ["git", "clone", "--quiet", "--depth", "1", LESSONS_LEARNED_URL, LESSONS_LEARNED])
    if not os.path.exists(os.path.join(BUN, "bun")):
        run_step("bun", ["npm", "install", "--silent", "--prefix", os.path.join(CACHE, "bun"), "bun"])
    if not os.path.exists(os.path.join(CLAUDE_MEM, "node_modules")):
        folder = os.path.join(CACHE, "claude-mem")
        os.makedirs(folder, exist_ok=True)
        # The package's own dependencies are for its server; the plugin has a list of its own.
        run_step("claude-mem", ["npm", "pack", "--silent", f"claude-mem@{CLAUDE_MEM_VERSION}"], folder)
        run_step("claude-mem", ["tar", "xzf", f"claude-mem-{CLAUDE_MEM_VERSION}.tgz"], folder)
        run_step("claude-mem", ["npm", "install", "--silent", "--ignore-scripts", "--omit=dev"], CLAUDE_MEM)


def run_step(peer: str, command: Sequence[str], folder: str = CACHE) -> None:
    try:
        subprocess.run(command, cwd=folder, check=True, capture_output=True, timeout=FETCH_SECONDS)
    except (OSError, subprocess.SubprocessError) as error:
        print(f"{peer} could not be fetched and is left out: {error}")


def run_without_network() -> None:
    """Start this benchmark again in a network namespace that has only loopback, where the system allows it."""
    in_namespace = ["unshare", "-rn", "sh", "-c", 'ip link set lo up && exec "$@"', "sh"]
    if os.environ.get(ISOLATED) or not shutil.which("unshare"):
        return
    if subprocess.run([*in_namespace, "true"], capture_output=True).returncode == 0:
        os.execvpe("unshare", [*in_namespace, sys.executable, *sys.argv], {**os.environ, ISOLATED: "1"})


def build_result_payload(command: str) -> Callable[[int], bytes]:
    """Return what Claude Code reports after a call."""
    build_call_payload = build_payload(command)

    def build(number: int) -> bytes:
        result = {"hook_event_name": "PostToolUse", "tool_response": {"stdout": "done", "stderr": ""}}
        return json.dumps({**json.loads(build_call_payload(number)), **result}).encode()

    return build


def list_hardwon_cases(home: str) -> list[Case]:
    before_case = build_hook_case("hardwon, before a call", home, HARMLESS, is_silent)
    after_command = (*before_case.command[:-2], "PostToolUse", home)
    return [
        before_case,
        build_hook_case("hardwon, a hold", home, MISTAKE, is_denied),
        Case("hardwon, after a call", after_command, build_result_payload(HARMLESS), is_silent),
    ]


def list_lessons_learned_cases(folder: str) -> list[Case]:
    """Return its hooks with the lessons that ours has; each session is new, so every match is told."""
    if not os.path.exists(os.path.join(LESSONS_LEARNED, "hooks")):
        return []
    manifest = os.path.join(folder, "lesson-manifest.json")
    with open(manifest, "w", encoding="utf-8") as file:
        json.dump({"config": {}, "lessons": {entry["slug"]: entry for entry in build_their_lessons()}}, file)
    manifest_variable = (("LESSONS_MANIFEST_PATH", manifest),)
    node = str(shutil.which("node"))
    before_command = (node, os.path.join(LESSONS_LEARNED, "hooks", "pretooluse-lesson-inject.mjs"))
    after_command = (node, os.path.join(LESSONS_LEARNED, "hooks", "posttooluse-directive-reinject.mjs"))
    return [
        Case(
            "lessons-learned, before a call",
            before_command,
            build_payload(HARMLESS),
            lambda answer: b"made-up" not in answer,
            manifest_variable,
        ),
        Case(
            "lessons-learned, a lesson",
            before_command,
            build_payload(MISTAKE),
            lambda answer: b"made-up" in answer,
            manifest_variable,
        ),
        Case(
            "lessons-learned, after a call",
            after_command,
            build_result_payload(HARMLESS),
            environment=manifest_variable,
        ),
    ]


def build_their_lessons() -> Iterator[dict[str, object]]:
    """Yield our lessons in the form of its compiled manifest."""
    for record in build_lessons(LESSONS, "spread"):
        triggers = record["triggers"]
        assert isinstance(triggers, Mapping)
        yield {
            **{name: record[name] for name in ("slug", "summary", "problem", "solution", "priority", "tags")},
            "type": "hint",
            "toolNames": triggers["toolNames"],
            "commandRegexSources": [{"source": source, "flags": ""} for source in triggers["commandPatterns"]],
            "commandMatchTarget": "full",
            "pathRegexSources": [],
            "modelRegexSources": [],
            "scope": None,
            "message": f"## Lesson: {record['summary']}\n{record['problem']}\n**Fix**: {record['solution']}",
        }


@contextmanager
def serve_claude_mem(folder: str) -> Iterator[list[Case]]:
    """Start its worker in a home of its own, and yield the one hook that it has for a command."""
    if not (os.path.exists(os.path.join(CLAUDE_MEM, "node_modules")) and os.path.exists(os.path.join(BUN, "bun"))):
        yield []
        return
    node, scripts = str(shutil.which("node")), os.path.join(CLAUDE_MEM, "scripts")
    run = (node, os.path.join(scripts, "bun-runner.js"), os.path.join(scripts, "worker-service.cjs"))
    settings = {
        "HOME": folder,
        "PATH": f"{BUN}:{os.environ['PATH']}",
        "CLAUDE_MEM_DATA_DIR": os.path.join(folder, ".claude-mem"),
        "CLAUDE_MEM_WORKER_PORT": str(find_free_port()),
        "DO_NOT_TRACK": "1",
    }
    everything = {**build_environment(os.path.join(folder, "hardwon")), **settings}
    subprocess.run([*run, "start"], env=everything, capture_output=True, timeout=60, check=True)
    try:
        observe, variables = (*run, "hook", "claude-code", "observation"), tuple(settings.items())
        yield [Case("claude-mem, after a call", observe, build_result_payload(HARMLESS), is_json, variables)]
    finally:
        subprocess.run([*run, "stop"], env=everything, capture_output=True, timeout=60)


def find_free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def is_json(answer: bytes) -> bool:
    return isinstance(json.loads(answer), dict)


def read_commit() -> str:
    command = ["git", "-C", LESSONS_LEARNED, "rev-parse", "--short", "HEAD"]
    return subprocess.run(command, capture_output=True, text=True).stdout.strip() or "(absent)"


def show_costs(costs: Mapping[str, Cost]) -> None:
    print(f"{LESSONS} lessons in hardwon and lessons-learned {read_commit()}, claude-mem {CLAUDE_MEM_VERSION};")
    print(f"medians of {ROUNDS} runs; the ratios are of CPU time\n")
    print(f"{'':34}{'CPU ms':>8}{'wall ms':>9}{'x python':>10}{'x node':>8}")
    for name, cost in costs.items():
        # claude-mem registers its hook as asynchronous: the CPU time is spent, but the agent goes on.
        remark = "the agent does not wait for it" if name.startswith("claude-mem") else ""
        ratios = f"{cost.cpu / costs[PYTHON].cpu:10.1f}{cost.cpu / costs[NODE].cpu:8.1f}"
        print(f"{name:34}{cost.cpu:8.0f}{cost.wall:9.0f}{ratios}  {remark}".rstrip())
    print("\nCPU time for one command, before and after it:")
    for peer in ("hardwon", "lessons-learned", "claude-mem"):
        spent = [cost.cpu for name, cost in costs.items() if name.startswith(peer) and name.endswith("a call")]
        if spent:
            print(f"  {peer:16}{sum(spent):6.0f} ms, {sum(spent) / costs[PYTHON].cpu:5.1f} x an empty Python")


def show_texts(cases: Sequence[Case], home: str) -> None:
    """Print what a model would read about the call that is known to be a mistake."""
    print(f"\nWhat the model reads about `{MISTAKE}`:")
    for case in cases:
        if case.name in ("hardwon, a hold", "lessons-learned, a lesson"):
            print(f"\n{case.name.partition(',')[0]}:\n{read_text(case, home)}")
    if any(case.name.startswith("claude-mem") for case in cases):
        print("\nclaude-mem:\n  nothing: it has no hook before a command")


def read_text(case: Case, home: str) -> str:
    answers: list[bytes] = []

    def keep(answer: bytes) -> bool:
        answers.append(answer)
        return True

    run_case(Case(case.name, case.command, case.payload, keep, case.environment), 0, build_environment(home))
    output = json.loads(answers[0])["hookSpecificOutput"]
    ran = "denied, and told:" if output.get("permissionDecision") == "deny" else "told with the call's result:"
    text = output.get("permissionDecisionReason") or output.get("additionalContext")
    return "\n".join(f"  {line}".rstrip() for line in [ran, *str(text).splitlines()])


def main() -> int:
    if not shutil.which("node"):
        print("node is not on the PATH, and both peers need it: nothing was measured")
        return 0
    if not os.environ.get(ISOLATED):
        fetch_peers()
    run_without_network()
    folder = tempfile.mkdtemp(prefix="hardwon-peers-")
    try:
        with open_homes(LESSONS, "spread") as (up, _, _), serve_claude_mem(folder) as claude_mem:
            cases = [*build_empty_cases(), *list_hardwon_cases(up), *list_lessons_learned_cases(folder), *claude_mem]
            costs = measure_interleaved(cases, rounds=ROUNDS, warm_up=2, environment=build_environment(up))
            show_costs(costs)
            show_texts(cases, up)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    wrong = {name: cost.wrong for name, cost in costs.items() if cost.wrong}
    if wrong:
        print(f"wrong answers: {wrong}", file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
