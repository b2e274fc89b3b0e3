"""Made-up sessions for the detectors, built one call at a time."""

from __future__ import annotations

import random
from collections.abc import Iterator

from hardwon.agents.transcript_steps import Step
from hardwon.mining.episodes import Episode, find_episodes

UNKNOWN = "Exit code 2\nerror: unrecognized subcommand 'fly'\n\nUsage: kite [OPTIONS] <COMMAND>"
NO_ANCHOR = "<tool_use_error>String to replace not found in file.\nString: if wind:</tool_use_error>"
TYPES = "Exit code 1\nsrc/kite.ts(4,2): error TS2322: Type 'string' is not assignable to type 'number'."


class StepBuilder:
    """Collects the steps of a session; every call and every result has a line of its own."""

    def __init__(self, subagent_id: str = "") -> None:
        self.steps: list[Step] = []
        self._subagent_id = subagent_id

    def _add(self, step: Step) -> Step:
        number = len(self.steps) + 1
        new = step._replace(
            line=number, id=f"id{number}", session="s1", subagent_id=self._subagent_id, cwd="/home/dev/kite"
        )
        self.steps.append(new)
        return new

    def call(self, tool: str, *, command: str = "", path: str = "", content: str = "") -> str:
        name = f"call{len(self.steps)}"
        self._add(Step("call", 0, call=name, tool=tool, command=command, path=path, content=content))
        return name

    def result(self, call: str, text: str, *, failed: bool = False, refused: str = "") -> int:
        return self._add(Step("result", 0, call=call, text=text, failed=failed, refused=refused)).line

    def fails(self, command: str, text: str) -> int:
        return self.result(self.call("Bash", command=command), text, failed=True)

    def works(self, command: str, text: str = "done") -> int:
        return self.result(self.call("Bash", command=command), text)

    def edit(self, path: str, content: str = "x = 1", error: str = "") -> int:
        return self.result(self.call("Edit", path=path, content=content), error or "updated", failed=bool(error))

    def refuse(self, command: str, words: str, *, tool: str = "Bash") -> int:
        text = f"The user refused this. They said:\n{words}" if words.strip() else "The user refused this."
        return self.result(self.call(tool, command=command), text, failed=True, refused=words)

    def deny(self, command: str) -> int:
        """Add a call that a hook denied."""
        call = self.call("Bash", command=command)
        return self._add(Step("result", 0, call=call, denied=True)).line

    def agent(self, text: str) -> None:
        self._add(Step("agent", 0, text=text))

    def person(self, text: str) -> None:
        self._add(Step("person", 0, text=text))

    def pause(self, calls: int) -> None:
        """Add this many unrelated calls."""
        for number in range(calls):
            self.result(self.call("Read", path=f"/elsewhere/{number}"), "text")

    def find_episodes(self) -> list[Episode]:
        return find_episodes(self.steps)

    def find_only_episode(self) -> Episode:
        episodes = self.find_episodes()
        assert len(episodes) == 1, [episode.problem for episode in episodes]
        return episodes[0]


NOISE = (
    UNKNOWN,
    TYPES,
    NO_ANCHOR,
    "Exit code 1",
    "",
    "\x1b[31mError: the wind failed\x1b[0m",
    '{"errors":[{"message":"Field \'wind\' doesn\'t accept argument \'n\'"}]}',
    "x" * 20_000,
    "Exit code 1\n" + "a line\n" * 3_000 + "Traceback (most recent call last):\n  File\nValueError: no wind",
    "Exit code 1\r\nkite: cannot lift\r\n",
)


def generate_noise(seed: int, size: int) -> Iterator[Step]:
    """Yield a session with every kind of step, in random order."""
    dice = random.Random(seed)
    for number in range(size):
        builder, kind = StepBuilder(dice.choice(["", "", "a1"])), dice.randrange(6)
        command = f"kite {dice.choice(['fly', 'launch', 'test'])} --n {dice.randrange(4)}"
        if kind < 3:
            text = dice.choice(NOISE)
            builder.result(builder.call("Bash", command=command), text, failed=kind == 0)
        elif kind == 3:
            builder.edit("/p/a.py", f"wind {number}", dice.choice(["", NO_ANCHOR]))
        elif kind == 4:
            builder.refuse(command, dice.choice([" ", "use the other kite instead, please"]))
        else:
            builder.agent("It fails because the wind is gone. So what?")
            builder.person("no, don't do that")
        for index, step in enumerate(builder.steps):
            yield step._replace(line=number * 10 + index + 1, call=step.call and f"{step.call}.{number}")
