"""What a machine alone feels of its team: `team pull --once` in a job, and hooks while the server is down."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from statistics import median

from hook import PROGRAM, build_environment, build_hook_case, build_lesson, is_denied, run_hardwon, start_worker
from measure import Case, measure_interleaved, run_case

PULLS = 10
HOOK_ROUNDS = 40
WARM_UP = 5


def measure_local_costs(folder: Path, url: str, setup_code: str, stop_server: Callable[[], None]) -> dict[str, float]:
    """Return the seconds of a pull into an empty home, beside the bare program, and hooks with and without a team."""
    member, alone = str(folder / "member"), str(folder / "alone")
    for home in (member, alone):
        os.makedirs(home, 0o700)
        record = build_lesson(0, r"\bgit push --force\b", "hold")
        Path(home, "lessons.json").write_text(json.dumps({"lessons": [record]}))
        run_hardwon(home, "lessons", "build", "--yes")
    run_hardwon(member, "team", "join", url, setup_code)
    run_hardwon(member, "team", "share", str(record["slug"]), "--yes")
    token = subprocess.run(
        [PROGRAM, "team", "token", "ci"], env=build_environment(member), capture_output=True, text=True, check=True
    ).stdout.strip()
    pull_seconds, program_seconds = measure_pulls(folder, url, token)
    for home in (member, alone):
        start_worker(home, 1)
    stop_server()
    cases = [
        build_hook_case("without a team", alone, "git push --force", is_denied),
        build_hook_case("server down", member, "git push --force", is_denied),
    ]
    costs = measure_interleaved(cases, rounds=HOOK_ROUNDS, warm_up=WARM_UP, environment=build_environment(alone))
    for home in (member, alone):
        run_hardwon(home, "stop")
    if any(cost.wrong for cost in costs.values()):
        raise SystemExit("error: a hook did not hold the call")
    with_team, without_team = costs["server down"], costs["without a team"]
    return {
        "pull_seconds": round(pull_seconds, 2),
        "pull_x_program": round(pull_seconds / program_seconds, 2),
        "hook_cpu_ratio": round(with_team.cpu / without_team.cpu, 2),
        "hook_wall_ratio": round(with_team.wall / without_team.wall, 2),
    }


def measure_pulls(folder: Path, url: str, token: str) -> tuple[float, float]:
    """Return the median seconds of `team pull --once` and of `--version`; after each pull a call must be held."""
    pull_samples, program_samples = [], []
    for number in range(PULLS):
        home = str(folder / f"job-{number}")
        pull = Case("pull", (PROGRAM, "team", "pull", "--once", "--url", url, "--token", token))
        pull_samples.append(run_case(pull, number, build_environment(home)).wall)
        program_samples.append(run_case(Case("version", (PROGRAM, "--version")), number, build_environment(home)).wall)
        if not run_case(
            build_hook_case("job", home, "git push --force", is_denied), number, build_environment(home)
        ).right:
            raise SystemExit("error: the call was not held after a pull")
    return median(pull_samples) / 1000, median(program_samples) / 1000
