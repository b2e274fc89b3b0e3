"""How a hold is worded and whether a tiny model then takes the fix: `make bench-prevention_wordings`.

Reads what the model gets after a held call, with the denial worded in several ways, and asks for the probability of
each next command. The first wording is the shipped one, as the installed hook says it.
"""

from __future__ import annotations

import os
import sys

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
from prevention import Bench, compare_rates, format_points
from prevention_machine import HOLD, Case
from prevention_policies import TinyPolicy, build_turns
from prevention_traps import TRAPS, Trap

from hardwon.lessons.call_replies import HELD_INTRO, RETRY_HINT
from hardwon.text.fence import fence_text


def build_wordings(trap: Trap, slug_line: str) -> dict[str, str]:
    text = trap.lesson
    heading = f"## Lesson: {text.summary}"
    fix = f"**Fix**: {text.solution}"
    door_last = f"{HELD_INTRO}\n\n{heading}\n{text.problem}\n{fix}\n{slug_line}\n\n{RETRY_HINT}"
    no_door = f"{HELD_INTRO}\n\n{heading}\n{text.problem}\n{fix}\n{slug_line}"
    fix_last = f"{HELD_INTRO} {RETRY_HINT}\n\n{heading} {slug_line}\n{text.problem}\n{fix}"
    fix_last_no_door = f"{HELD_INTRO}\n\n{heading} {slug_line}\n{text.problem}\n{fix}"
    return {
        "door last": fence_text(door_last),
        "without the door": fence_text(no_door),
        "fix last": fence_text(fix_last),
        "fix last, without the door": fence_text(fix_last_no_door),
    }


def main() -> None:
    traps = TRAPS[: int(os.environ.get("TRAPS") or len(TRAPS))]
    policy = TinyPolicy()
    bench = Bench(traps, policy)
    right: dict[str, list[float]] = {}
    wrong: dict[str, list[float]] = {}
    try:
        for trap in traps:
            turns = build_turns(bench.open_session(Case(trap, HOLD)).follow((trap.wrong,)).messages)
            role, denial = turns[-1]
            prefix, _, rest = denial.partition(fence_text("").split("\n")[0])
            slug_line = next(part for part in rest.replace(")", ")\n").split("\n") if "(lesson " in part)
            slug_line = slug_line[slug_line.index("(lesson ") :]
            wordings = {"shipped": denial}
            wordings |= {name: prefix + text for name, text in build_wordings(trap, slug_line).items()}
            for name, text in wordings.items():
                probabilities = policy.rate_commands([*turns[:-1], (role, text)], trap)
                by_command = dict(zip(trap.commands, probabilities, strict=True))
                right.setdefault(name, []).append(by_command[trap.right])
                wrong.setdefault(name, []).append(by_command[trap.wrong])
            print(
                trap.name, {name: round(values[-1], 2) for name, values in right.items()}, file=sys.stderr, flush=True
            )
    finally:
        bench.machine.close()
    print("| wording | takes the fix | repeats the call | takes the fix, minus shipped | p |\n|---|---|---|---|---|")
    for name, values in right.items():
        points = format_points(compare_rates(np.array(values), np.array(right["shipped"])))
        print(f"| {name} | {np.mean(values):.0%} | {np.mean(wrong[name]):.0%} | {points} |")


if __name__ == "__main__":
    main()
