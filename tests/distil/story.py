"""Made-up sessions for the detectors, told one call at a time."""

from __future__ import annotations

from hardwon.distil.signals import Episode, episodes
from hardwon.hosts.history import Step


class Story:
    """Collects the steps of a session; every call and every result has a line of its own."""

    def __init__(self, agent: str = "") -> None:
        self.steps: list[Step] = []
        self._agent = agent

    def _add(self, step: Step) -> Step:
        new = step._replace(line=len(self.steps) + 1, session="s1", agent=self._agent, cwd="/home/dev/kite")
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

    def agent(self, text: str) -> None:
        self._add(Step("agent", 0, text=text))

    def person(self, text: str) -> None:
        self._add(Step("person", 0, text=text))

    def pause(self, calls: int) -> None:
        """Other work."""
        for number in range(calls):
            self.result(self.call("Read", path=f"/elsewhere/{number}"), "text")

    def told(self) -> list[Episode]:
        return episodes(self.steps)

    def only(self) -> Episode:
        found = self.told()
        assert len(found) == 1, [each.problem for each in found]
        return found[0]
