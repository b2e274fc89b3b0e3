"""What failed in a turn: what then worked, after which edits or in which other form, and what fails still."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from hardwon.agents.fields import get_first_text, get_text
from hardwon.agents.transcript_steps import Step
from hardwon.distil import check_results
from hardwon.distil.tool_actions import ToolAction
from hardwon.mining.episodes import Episode, EpisodeTracker
from hardwon.shell.failures import Failure, FailureKind, has_failure_words, is_read_only
from hardwon.types import EDIT_TOOLS, frozen, replace

_SEEN = 1_000  # characters from each end of a failed result, by which it is compared with others
MAX_CALLS_TO_FIX = 40  # calls after a failure in which it may be put right
# A slip that the next call mends by itself teaches nobody anything.
_SLIPS: frozenset[FailureKind] = frozenset(("cancelled", "anchor", "precondition", "path", "refused"))
_LOOKS = frozenset(("looked", "noise"))
_LOOKING = frozenset(("Read", "Grep", "Glob", "LS", "WebFetch", "WebSearch", "Task"))


@frozen
class FailureFix:
    """A failure with every attempt, and the deed that worked; none if it stands."""

    failed_actions: tuple[ToolAction, ...]
    failure_kind: FailureKind
    signature: str
    worked: ToolAction | None
    edits: tuple[ToolAction, ...]  # in between
    removed_arguments: tuple[str, ...] = ()
    added_arguments: tuple[str, ...] = ()

    @property
    def actions(self) -> tuple[ToolAction, ...]:
        return (*self.failed_actions, *self.edits, *((self.worked,) if self.worked else ()))


def find_failure_fixes(done: Sequence[ToolAction]) -> list[FailureFix]:
    """Every failure that says something, in the order in which they began."""
    first = next((place for place, deed in enumerate(done) if deed.failed), len(done))
    done = done[first:]
    places = {deed.call.key: place for place, deed in enumerate(done)}
    watch = EpisodeTracker(window=MAX_CALLS_TO_FIX)
    ended = [episode for step in _steps(done) for episode in watch.process_step(step)] + watch.list_unfinished()
    before = dict[str, tuple[Failure, ...]]()
    found = list[FailureFix]()
    for episode in sorted(ended, key=lambda one: one.errors[0].line):
        errors = before.get(episode.errors[0].id, ()) + episode.errors
        worked = done[places[episode.working_call.call]] if episode.working_call else None
        if worked and worked.failed:  # it got further, and failed there
            before[worked.call.key] = errors
        elif not _is_slip(episode) and done[places[errors[0].id]].kind not in _LOOKS:
            mend = _mend(episode, [done[places[error.id]] for error in errors], worked, done, places)
            found.append(replace(mend, worked=None) if _only_dodged(mend) else mend)
    return found


def _only_dodged(mend: FailureFix) -> bool:
    """Whether the code was at fault and stayed as it was: another check that passes, or a look, puts nothing right."""
    if not mend.worked or mend.worked.label == mend.failed_actions[-1].label:
        return False
    return mend.worked.kind in _LOOKS or (not mend.edits and mend.failure_kind in ("code", "silent"))


def _mend(
    episode: Episode,
    failing: list[ToolAction],
    worked: ToolAction | None,
    done: Sequence[ToolAction],
    places: Mapping[str, int],
) -> FailureFix:
    edited = list[ToolAction]()
    if worked:
        between = done[places[failing[0].call.key] + 1 : places[worked.call.key]]
        edited = [deed for deed in between if deed.kind == "changed" and not deed.failed and _same_agent(deed, worked)]
    return FailureFix(
        failed_actions=tuple(failing),
        failure_kind=episode.errors[0].kind,
        signature=episode.signature,
        worked=worked,
        edits=tuple(edited),
        removed_arguments=episode.removed_arguments,
        added_arguments=episode.added_arguments,
    )


def _same_agent(one: ToolAction, other: ToolAction) -> bool:
    return one.call.agent == other.call.agent


def _is_slip(episode: Episode) -> bool:
    failing, about = episode.failing_call, episode.errors[0].kind
    if about in _SLIPS or failing.tool in EDIT_TOOLS or failing.tool in _LOOKING:
        return True
    if failing.tool.startswith("mcp__"):
        return about not in ("interface", "environment")
    return failing.tool == "Bash" and is_read_only(failing.command)


def find_standing_failures(found: Iterable[FailureFix], done: Sequence[ToolAction]) -> list[FailureFix]:
    """The failures of checks and commands that nothing put right, each command once."""
    every = list(found)
    mended = {one.signature for one in every if one.worked}
    left = {one.failed_actions[-1].label: one for one in every if not one.worked and one.signature not in mended}
    places = {deed.call.key: place for place, deed in enumerate(done)}
    passed = [
        (place, _asks_for(deed.label)) for place, deed in enumerate(done) if deed.kind == "check" and not deed.failed
    ]
    return [
        one
        for what, one in left.items()
        if one.failed_actions[-1].kind in ("check", "saved")
        and not any(
            place > places[one.failed_actions[-1].call.key] and _asks_for(what) >= wider for place, wider in passed
        )
    ]


def _asks_for(what: str) -> frozenset[str]:
    """What a check is about: one that asks for less looks at more, and at all that the longer one looks at."""
    return frozenset(word for word in what.split() if not word.startswith("-") and word not in (".", "./..."))


def _steps(done: Iterable[ToolAction]) -> Iterable[Step]:
    """The deeds as a watch for failures reads them; what only looks puts nothing right, so its result is left out."""
    for number, deed in enumerate(done):
        call = deed.call
        given = call.input if isinstance(call.input, dict) else {}
        command = get_text(given, "command")
        yield Step(
            "call",
            2 * number,
            call.key,
            agent=call.agent,
            call=call.key,
            tool="Bash" if command and call.tool not in EDIT_TOOLS else call.tool,
            command=command,
            path=get_first_text(given, "file_path", "notebook_path", "path", "glob"),
            content=get_first_text(given, "new_string", "content", "pattern", "query", "url", "prompt"),
        )
        if call.outcome in ("fine", "failed") and (deed.failed or deed.kind not in _LOOKS):
            text = _ends(deed.text) if deed.failed else ""
            yield Step(
                "result", 2 * number + 1, call.key, agent=call.agent, call=call.key, text=text, failed=deed.failed
            )


def _ends(text: str) -> str:
    return text if len(text) <= 2 * _SEEN else f"{text[:_SEEN]}\n{text[-_SEEN:]}"


def describe_failure(deed: ToolAction) -> str:
    """What a failed deed says, with the exit code where it says little."""
    line = check_results.find_error_line(deed.text, is_shell=deed.kind in ("check", "ran", "saved"))
    code = check_results.find_exit_code(deed.text)
    if deed.tally and deed.tally.has_failed:
        told = deed.tally.text in line or not (has_failure_words(line) or check_results.is_source_location(line))
        return deed.tally.text if told else f"{deed.tally.text}; {line}"
    ended = f"exit code {code}" if code else ""
    return f"{line} ({ended})" if line and ended else line or ended
