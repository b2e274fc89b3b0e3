"""What failed in a turn: what then worked, after which edits or in which other form, and what fails still."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from hardwon.agents.fields import first_of, text_of
from hardwon.agents.transcript_steps import Step
from hardwon.distil import check_results
from hardwon.distil.tool_actions import Deed
from hardwon.mining.episodes import Episode, Watch
from hardwon.shell.failures import About, Failure, names_failure, only_looks
from hardwon.types import EDITS, replace, word

_SEEN = 1_000  # characters from each end of a failed result, by which it is compared with others
WINDOW = 40  # calls after a failure in which it may be put right
# A slip that the next call mends by itself teaches nobody anything.
_SLIPS: frozenset[About] = frozenset(("cancelled", "anchor", "precondition", "path", "refused"))
_LOOKS = frozenset(("looked", "noise"))
_LOOKING = frozenset(("Read", "Grep", "Glob", "LS", "WebFetch", "WebSearch", "Task"))


@word
class Mend:
    """A failure with every attempt, and the deed that worked; none if it stands."""

    failing: tuple[Deed, ...]
    about: About
    signature: str
    worked: Deed | None
    edited: tuple[Deed, ...]  # in between
    removed: tuple[str, ...] = ()
    added: tuple[str, ...] = ()

    @property
    def deeds(self) -> tuple[Deed, ...]:
        return (*self.failing, *self.edited, *((self.worked,) if self.worked else ()))


def mends(done: Sequence[Deed]) -> list[Mend]:
    """Every failure that says something, in the order in which they began."""
    first = next((place for place, deed in enumerate(done) if deed.failed), len(done))
    done = done[first:]
    places = {deed.call.key: place for place, deed in enumerate(done)}
    watch = Watch(window=WINDOW)
    ended = [episode for step in _steps(done) for episode in watch.take(step)] + watch.unfinished()
    before = dict[str, tuple[Failure, ...]]()
    found = list[Mend]()
    for episode in sorted(ended, key=lambda one: one.errors[0].line):
        errors = before.get(episode.errors[0].id, ()) + episode.errors
        worked = done[places[episode.worked.call]] if episode.worked else None
        if worked and worked.failed:  # it got further, and failed there
            before[worked.call.key] = errors
        elif not _is_slip(episode) and done[places[errors[0].id]].kind not in _LOOKS:
            mend = _mend(episode, [done[places[error.id]] for error in errors], worked, done, places)
            found.append(replace(mend, worked=None) if _only_dodged(mend) else mend)
    return found


def _only_dodged(mend: Mend) -> bool:
    """Whether the code was at fault and stayed as it was: another check that passes, or a look, puts nothing right."""
    if not mend.worked or mend.worked.what == mend.failing[-1].what:
        return False
    return mend.worked.kind in _LOOKS or (not mend.edited and mend.about in ("code", "silent"))


def _mend(
    episode: Episode, failing: list[Deed], worked: Deed | None, done: Sequence[Deed], places: Mapping[str, int]
) -> Mend:
    edited = list[Deed]()
    if worked:
        between = done[places[failing[0].call.key] + 1 : places[worked.call.key]]
        edited = [deed for deed in between if deed.kind == "changed" and not deed.failed and _same_agent(deed, worked)]
    return Mend(
        failing=tuple(failing),
        about=episode.errors[0].about,
        signature=episode.signature,
        worked=worked,
        edited=tuple(edited),
        removed=episode.removed,
        added=episode.added,
    )


def _same_agent(one: Deed, other: Deed) -> bool:
    return one.call.agent == other.call.agent


def _is_slip(episode: Episode) -> bool:
    failing, about = episode.failing, episode.errors[0].about
    if about in _SLIPS or failing.tool in EDITS or failing.tool in _LOOKING:
        return True
    if failing.tool.startswith("mcp__"):
        return about not in ("interface", "environment")
    return failing.tool == "Bash" and only_looks(failing.command)


def standing(found: Iterable[Mend], done: Sequence[Deed]) -> list[Mend]:
    """The failures of checks and commands that nothing put right, each command once."""
    every = list(found)
    mended = {one.signature for one in every if one.worked}
    left = {one.failing[-1].what: one for one in every if not one.worked and one.signature not in mended}
    places = {deed.call.key: place for place, deed in enumerate(done)}
    passed = [
        (place, _asks_for(deed.what)) for place, deed in enumerate(done) if deed.kind == "check" and not deed.failed
    ]
    return [
        one
        for what, one in left.items()
        if one.failing[-1].kind in ("check", "saved")
        and not any(place > places[one.failing[-1].call.key] and _asks_for(what) >= wider for place, wider in passed)
    ]


def _asks_for(what: str) -> frozenset[str]:
    """What a check is about: one that asks for less looks at more, and at all that the longer one looks at."""
    return frozenset(word for word in what.split() if not word.startswith("-") and word not in (".", "./..."))


def _steps(done: Iterable[Deed]) -> Iterable[Step]:
    """The deeds as a watch for failures reads them; what only looks puts nothing right, so its result is left out."""
    for number, deed in enumerate(done):
        call = deed.call
        given = call.input if isinstance(call.input, dict) else {}
        command = text_of(given, "command")
        yield Step(
            "call",
            2 * number,
            call.key,
            agent=call.agent,
            call=call.key,
            tool="Bash" if command and call.tool not in EDITS else call.tool,
            command=command,
            path=first_of(given, "file_path", "notebook_path", "path", "glob"),
            content=first_of(given, "new_string", "content", "pattern", "query", "url", "prompt"),
        )
        if call.outcome in ("fine", "failed") and (deed.failed or deed.kind not in _LOOKS):
            text = _ends(deed.text) if deed.failed else ""
            yield Step(
                "result", 2 * number + 1, call.key, agent=call.agent, call=call.key, text=text, failed=deed.failed
            )


def _ends(text: str) -> str:
    return text if len(text) <= 2 * _SEEN else f"{text[:_SEEN]}\n{text[-_SEEN:]}"


def why(deed: Deed) -> str:
    """What a failed deed says, with the exit code where it says little."""
    line = check_results.error_line(deed.text, shell=deed.kind in ("check", "ran", "saved"))
    code = check_results.exit_code(deed.text)
    if deed.tally and deed.tally.bad:
        told = deed.tally.said in line or not (names_failure(line) or check_results.is_place(line))
        return deed.tally.said if told else f"{deed.tally.said}; {line}"
    ended = f"exit code {code}" if code else ""
    return f"{line} ({ended})" if line and ended else line or ended
