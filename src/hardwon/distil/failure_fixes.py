"""Find the failures of a turn and what fixed them: edits, or another form of the command.

Whether a later call fixes a failure is decided by the episode tracker of `mining/episodes.py`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

from hardwon.agents.fields import get_first_text, get_text
from hardwon.agents.transcript_steps import Step
from hardwon.distil import tool_actions
from hardwon.distil.tool_actions import ToolAction, find_check_words
from hardwon.mining.episodes import Episode, EpisodeTracker
from hardwon.shell.failures import Failure, FailureKind, has_failure_words
from hardwon.shell.working_commands import is_read_only
from hardwon.types import EDIT_TOOLS, frozen, replace

_MAX_END_CHARS = 1_000  # compare failed results by this much of each end
_MAX_CALLS_TO_FIX = 40  # a later success no longer counts as the fix
# Slips that the agent corrects in its next call teach nothing.
_SLIP_KINDS: frozenset[FailureKind] = frozenset(("cancelled", "anchor", "precondition", "path", "refused"))
# A filter hides how a check ended, unless its count of tests is among the lines that pass.
_FILTERED = re.compile(r"\|\s*(?:grep|rg|head|awk)\b")
# The agent says that a check passes: "all tests pass", "lint is clean".
_CLAIMS_CLEAN = re.compile(
    r"\b(tests?|lint\w*|checks?|builds?|type-?check\w*)\b[^.;\n]{0,40}?\b(?:pass|clean|green)", re.I
)
_CLAIMS_ALL = re.compile(r"^\W*(?:all|everything)(?: is| are)?(?: now)? (?:pass(?:es|ing)?|green|clean)\b", re.I | re.M)
_SANDBOXED = re.compile(r"operation not permitted|\bEPERM\b|sandbox[- ](?:denied|restrict)", re.I)
_MISSING_PROGRAM = re.compile(r"\bcommand not found\b")
_STOPPED_CODES = ("130", "137", "143")  # ended by a signal: somebody or a time limit stopped it
# A stack frame, a line of the source, or a bare heading gives no reason.
_TELLS_NOTHING = re.compile(r"at \S+ \(|File \"|\d+ \| |(?:error\W*)?(?:usage\W*)?(?:exit code \d+)?$", re.I)
_LINE_NUMBER = re.compile(r"[:(]\d+(?:[:,]\d+)*")
_STYLE_CHECK = re.compile(r"lint|\b(?:ruff|clippy|fmt|format|prettier|biome|vale|black|rubocop)\b")
_LOOK_KINDS = frozenset(("looked", "noise"))
_LOOK_TOOLS = frozenset(("Read", "Grep", "Glob", "LS", "WebFetch", "WebSearch", "Task"))


@frozen
class FailureFix:
    """A failure with every attempt, and the action that worked; None if nothing did."""

    failed_actions: tuple[ToolAction, ...]
    failure_kind: FailureKind
    signature: str
    worked: ToolAction | None
    edits: tuple[ToolAction, ...]  # between the first failure and the action that worked
    edits_before: tuple[int, ...] = ()  # how many of the edits came before each failure

    @property
    def shown_failure(self) -> ToolAction:
        """The failure to tell: the first, or the last if at first the program itself was missing or used wrongly."""
        is_of_program = self.failure_kind in ("environment", "interface")
        return self.failed_actions[-1 if is_of_program else 0]

    @property
    def is_retry(self) -> bool:
        """Whether the same call simply worked the next time, which teaches nothing."""
        return (
            self.worked is not None and not self.edits and self.worked.call.input == self.failed_actions[-1].call.input
        )

    @property
    def actions(self) -> tuple[ToolAction, ...]:
        return (*self.failed_actions, *self.edits, *((self.worked,) if self.worked else ()))


def find_failure_fixes(actions: Sequence[ToolAction]) -> list[FailureFix]:
    """Return every failure that is not a mere slip, in the order they began."""
    first_failure = next((position for position, action in enumerate(actions) if action.failed), len(actions))
    actions = actions[first_failure:]
    positions = {action.call.key: position for position, action in enumerate(actions)}
    tracker = EpisodeTracker(window=_MAX_CALLS_TO_FIX)
    episodes: list[Episode] = []
    for step in _build_steps(actions):
        episodes += tracker.process_step(step)
    episodes += tracker.list_unfinished()
    earlier_errors = dict[str, tuple[Failure, ...]]()
    fixes = list[FailureFix]()
    for episode in sorted(episodes, key=lambda item: item.errors[0].line):
        errors = earlier_errors.get(episode.errors[0].id, ()) + episode.errors
        working_action = actions[positions[episode.working_call.call]] if episode.working_call else None
        # It got further and failed at another point, so the next episode continues this one.
        if working_action and working_action.failed:
            earlier_errors[working_action.call.key] = errors
        elif not _is_slip(episode) and actions[positions[errors[0].id]].kind not in _LOOK_KINDS:
            fix = _build_fix(
                episode, [actions[positions[error.id]] for error in errors], working_action, actions, positions
            )
            fixes.append(replace(fix, worked=None) if _is_only_dodged(fix) else fix)
    return fixes


def _is_only_dodged(fix: FailureFix) -> bool:
    """Return whether the code was at fault and nothing fixed it: another check passed, or the agent only looked."""
    if not fix.worked:
        return False
    command = get_text(fix.worked.call.input, "command") if isinstance(fix.worked.call.input, dict) else ""
    is_hidden = fix.worked.kind == "check" and not fix.worked.tally and bool(_FILTERED.search(command))
    if is_hidden and fix.worked.text.strip():
        return True
    if fix.worked.label == fix.failed_actions[-1].label:
        return False
    if fix.worked.kind in _LOOK_KINDS or (not fix.edits and fix.failure_kind in ("code", "silent")):
        return True
    # A passing linter says nothing about failing tests.
    return not find_check_words(fix.failed_actions[-1].label) <= find_check_words(fix.worked.label)


def _build_fix(
    episode: Episode,
    failed_actions: list[ToolAction],
    working_action: ToolAction | None,
    actions: Sequence[ToolAction],
    positions: Mapping[str, int],
) -> FailureFix:
    """Build the fix of an episode, with the edits that the same agent made between failure and success."""
    edits = list[ToolAction]()
    # Edits made meanwhile do not fix a missing program or network.
    is_missing = episode.errors[0].kind == "environment" or bool(_MISSING_PROGRAM.search(failed_actions[0].text))
    if working_action and not is_missing:
        between = actions[positions[failed_actions[0].call.key] + 1 : positions[working_action.call.key]]
        edits = [
            action
            for action in between
            if action.kind == "changed"
            and not action.failed
            and action.call.subagent_id == working_action.call.subagent_id
        ]
    edit_positions = [positions[edit.call.key] for edit in edits]
    failed_positions = [positions[action.call.key] for action in failed_actions]
    return FailureFix(
        failed_actions=tuple(failed_actions),
        failure_kind=episode.errors[0].kind,
        signature=episode.signature,
        worked=working_action,
        edits=tuple(edits),
        edits_before=tuple(sum(edit < failed for edit in edit_positions) for failed in failed_positions),
    )


def _is_slip(episode: Episode) -> bool:
    """Return whether a failure says nothing of the work: a slip with the agent's tools, or a look at something."""
    failing_call = episode.failing_call
    failure_kind = episode.errors[0].kind
    if failure_kind in _SLIP_KINDS or failing_call.tool in EDIT_TOOLS or failing_call.tool in _LOOK_TOOLS:
        return True
    if failing_call.tool.startswith("mcp__"):
        return failure_kind not in ("interface", "environment")
    return failing_call.tool == "Bash" and is_read_only(failing_call.command)


def is_said_to_pass(label: str, message: str) -> bool:
    """Return whether a message says that checks of this kind pass."""
    if _CLAIMS_ALL.search(message):
        return True
    claims = {match[1].lower()[:4] for match in _CLAIMS_CLEAN.finditer(message)}
    return any(claim in label.lower() for claim in claims)


@frozen
class ToldFix:
    """What to tell of the fixes of a kind of check: a failure, how often it failed for this reason, and its fix."""

    failed: ToolAction
    count: int
    edits: tuple[ToolAction, ...]
    worked: ToolAction | None


def choose_told_fix(group: Sequence[FailureFix]) -> ToldFix:
    """Choose the last failure that edits fixed, else the first one, which another form of the command avoids."""
    edited = [fix for fix in group if fix.edits]
    fix = edited[-1] if edited else group[0]
    failed = fix.failed_actions[-1] if edited else fix.shown_failure
    reason = _find_comparable_reason(failed)
    is_same = [_find_comparable_reason(action) == reason for action in fix.failed_actions]
    edits = fix.edits[fix.edits_before[is_same.index(True)] :] if fix.edits else ()
    failures = [action for other in group for action in other.failed_actions if action.label == failed.label]
    count = sum(_find_comparable_reason(action) == reason for action in failures)
    return ToldFix(failed, count, edits or fix.edits, fix.worked)


def _find_comparable_reason(action: ToolAction) -> str:
    """Return the reason without line numbers, which move as the file is edited."""
    return _LINE_NUMBER.sub("", find_reason(action))


def is_style_check(command: str) -> bool:
    """Return whether a command checks the style, whose findings teach nothing once they are mended."""
    return _STYLE_CHECK.search(command) is not None


def is_other_form(failed_command: str, working_command: str) -> bool:
    """Return whether a command does what another failed to do: it differs, but has half of its words."""
    failed_words = set(failed_command.split())
    working_words = set(working_command.split())
    return failed_command != working_command and 2 * len(failed_words & working_words) >= len(failed_words)


def find_standing_failures(
    fixes: Iterable[FailureFix], actions: Sequence[ToolAction], final_message: str = ""
) -> list[FailureFix]:
    """Return the failed checks and commits that nothing fixed, each command once.

    A failure is superseded if another check passed later and the work was committed after that, or the agent says at
    the end that such checks pass.
    """
    all_fixes = list(fixes)
    fixed_signatures = {fix.signature for fix in all_fixes if fix.worked}
    unfixed = {
        fix.failed_actions[-1].label: fix
        for fix in all_fixes
        if not fix.worked and fix.signature not in fixed_signatures
    }
    positions = {action.call.key: position for position, action in enumerate(actions)}
    passed_checks: list[tuple[int, frozenset[str]]] = []
    last_commit = -1
    for position, action in enumerate(actions):
        if action.failed:
            continue
        if action.kind == "check":
            passed_checks.append((position, parse_check_targets(action.label)))
        elif action.kind == "saved" and tool_actions.parse_commits(action.text):
            last_commit = position
    standing = list[FailureFix]()
    for label, fix in unfixed.items():
        last_failed = fix.failed_actions[-1]
        position = positions[last_failed.call.key]
        later_checks = [check for check in passed_checks if check[0] > position]
        is_passed = any(parse_check_targets(label) >= targets for _, targets in later_checks)
        is_overtaken = any(check_position < last_commit for check_position, _ in later_checks)
        is_overtaken = is_overtaken or (bool(later_checks) and is_said_to_pass(label, final_message))
        if last_failed.kind == "saved":  # a later commit shows that committing works again
            is_overtaken = is_overtaken or last_commit > position
        was_stopped = tool_actions.find_exit_code(last_failed.text) in _STOPPED_CODES
        if last_failed.kind in ("check", "saved") and not (is_passed or is_overtaken or was_stopped):
            standing.append(fix)
    return standing


def parse_check_targets(command: str) -> frozenset[str]:
    """Return the targets of a check; a check with fewer targets covers more, including all of a longer one's."""
    return frozenset(word for word in command.split() if not word.startswith("-") and word not in (".", "./..."))


def _build_steps(actions: Iterable[ToolAction]) -> Iterable[Step]:
    """Yield the actions as steps for the episode tracker, without the results of read-only ones."""
    for number, action in enumerate(actions):
        call = action.call
        arguments = call.input if isinstance(call.input, dict) else {}
        command = get_text(arguments, "command")
        yield Step(
            "call",
            2 * number,
            call.key,
            subagent_id=call.subagent_id,
            call=call.key,
            tool="Bash" if command and call.tool not in EDIT_TOOLS else call.tool,
            command=command,
            path=get_first_text(arguments, "file_path", "notebook_path", "path", "glob"),
            content=get_first_text(arguments, "new_string", "content", "pattern", "query", "url", "prompt"),
        )
        if call.outcome in ("fine", "failed") and (action.failed or action.kind not in _LOOK_KINDS):
            text = _keep_ends(action.text) if action.failed else ""
            yield Step(
                "result",
                2 * number + 1,
                call.key,
                subagent_id=call.subagent_id,
                call=call.key,
                text=text,
                failed=action.failed,
            )


def _keep_ends(text: str) -> str:
    return text if len(text) <= 2 * _MAX_END_CHARS else f"{text[:_MAX_END_CHARS]}\n{text[-_MAX_END_CHARS:]}"


def is_sandboxed(action: ToolAction) -> bool:
    """Return whether the agent's sandbox forbade what a call tried, which is no failure of the project."""
    return _SANDBOXED.search(action.text) is not None


def find_reason(action: ToolAction) -> str:
    """Return the line that says why an action failed; empty if none does."""
    line = tool_actions.find_error_line(action.text, is_shell=action.kind in ("check", "ran", "saved"))
    return "" if _TELLS_NOTHING.match(line) else line


def describe_failure(action: ToolAction) -> str:
    """Return the error of a failed action, with its count of tests or its exit code."""
    line = find_reason(action)
    exit_code = tool_actions.find_exit_code(action.text)
    if action.tally and action.tally.has_failed:
        is_tally_enough = action.tally.text in line or not (
            has_failure_words(line) or tool_actions.is_source_location(line)
        )
        return action.tally.text if is_tally_enough else f"{action.tally.text}; {line}"
    exit_text = f"exit code {exit_code}" if exit_code else ""
    return f"{line} ({exit_text})" if line and exit_text else line or exit_text
