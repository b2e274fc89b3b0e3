"""review; accept, reject, undo: one yes and one no for lessons, memories and handoffs"""

from __future__ import annotations

import os
import select
import sys
import termios
import tty
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import click

from hardwon import paths
from hardwon.actions import approvals
from hardwon.actions.approvals import Decider
from hardwon.actions.decisions import accept_proposal, reject_proposal, take_back_decision
from hardwon.actions.lessons import accept_candidate, reject_candidate, undo_decision
from hardwon.cli.candidates import (
    PERSON_READER,
    show_evidence,
    show_in_force,
    show_list,
    show_proposal,
)
from hardwon.cli.completions import complete_proposals, complete_undoable
from hardwon.cli.context import (
    add_lesson_options,
    answer_by_flag,
    confirm_option,
    edit_as_json,
    find_agent,
    is_interactive,
    open_decider,
    open_store,
    parse_flags,
    require_person,
)
from hardwon.cli.output import echo_field, echo_indented, echo_json, echo_styled, echo_text, get_width
from hardwon.errors import UserError
from hardwon.lessons.review_queue import describe_figures, extract_rewording, list_waiting
from hardwon.store.approvals import COMMAND_LINE
from hardwon.store.candidates import Candidate, Judgement, list_episodes, list_latest_judgements
from hardwon.store.db import Connection
from hardwon.text.characters import format_count, to_printable_line

_NOTHING_TO_REVIEW = "nothing to review; look for more: hardwon scan"
_ASK_A_MODEL = "\0"  # stands for --judge without a FILE; no file has this name
_REWORDED_LABEL = "[w]ords of the reader"
_EDITABLE_FIELDS = (
    "summary",
    "problem",
    "solution",
    "injection",
    "delivery",
    "blockReason",
    "triggers",
    "unless",
    "scope",
    "priority",
    "tags",
)


names_argument = click.argument(
    "names", metavar="L3|M3|H3|SLUG…", nargs=-1, required=True, shell_complete=complete_proposals
)


@click.command()
@click.option("--json", "as_json", is_flag=True, help="print candidates with their episodes, for an agent to judge")
@click.option(
    "--judge",
    "file",
    is_flag=False,
    flag_value=_ASK_A_MODEL,
    metavar="[FILE]",
    help="store judgements from FILE, or - for stdin; without FILE ask the model of llm.provider",
)
@click.option("--limit", default=20, show_default=True, type=click.IntRange(1), help="candidates to judge at most")
@click.option("--open", "is_open", is_flag=True, help="list repeated failures that no lesson is proposed for")
def review(as_json: bool, file: str | None, limit: int, is_open: bool) -> None:
    """Look at candidates one by one, best first, and decide with a key; without a terminal, list them.

    An agent may read them with --json and send its judgements with --judge; a model may be asked with --judge alone.
    A person decides.
    """
    home = paths.get_home()
    with open_store() as connection:
        if file == _ASK_A_MODEL:
            from hardwon.actions.judging import ask_model_to_judge

            judged_count = 0
            for judgement in ask_model_to_judge(home, connection, limit):
                _print_judgement(judgement)
                judged_count += 1
            if not judged_count:
                click.echo("nothing to judge: hardwon scan")
        elif file:
            _read_and_save_judgements(home, connection, file)
        elif is_open:
            _list_open_failures(home, connection)
        elif as_json:
            from hardwon.actions.judging import build_reader_bundle

            echo_json(build_reader_bundle(home, connection, limit))
        elif not is_interactive():
            waiting = list_waiting(home, connection)
            show_list(waiting)
            name = f"L{waiting[0].number}" if waiting else ""
            click.echo(f"next      hardwon accept {name}, or hardwon reject {name}" if name else _NOTHING_TO_REVIEW)
        else:
            require_person("deciding about lessons")
            _Review(home, connection).run()


def _list_open_failures(home: str, connection: Connection) -> None:
    """List what several sessions met and what is not proposed, with the reason."""
    failures = list_waiting(home, connection, "open")
    failures.sort(key=lambda candidate: (-len(candidate.sessions), -candidate.occurrences, candidate.number))
    for candidate in failures:
        best_episodes = list_episodes(connection, candidate.signature, limit=1)
        reason = best_episodes[0].body.get("rejection", "") if best_episodes else ""
        times = format_count(candidate.occurrences, "time")
        sessions = format_count(len(candidate.sessions), "session")
        echo_indented(f"L{candidate.number} ", to_printable_line(candidate.record["summary"]), bold=True)
        echo_field("seen", f"{times} in {sessions}")
        echo_field("why not", reason or describe_figures(candidate.parts))
    if not failures:
        click.echo("no repeated failure is open")


@dataclass(frozen=True, slots=True)
class _Key:
    """A key of the review: `run` decides about a proposal and returns whether it is decided, else asks again."""

    letter: str
    label: str
    help: str
    run: Callable[[_Review, Candidate], bool]


class _Review:
    """A walk through the candidates. Each decision is stored at once, and can be undone."""

    def __init__(self, home: str, connection: Connection) -> None:
        self.home = home
        self.connection = connection
        self.waiting = list_waiting(home, connection)
        self.judgements = list_latest_judgements(connection)
        self.decisions: list[tuple[int, str]] = []  # positions in `waiting`, and candidates' ids
        self.position = 0

    def run(self) -> None:
        """Show one candidate after the other, and do what the person's keys say."""
        if not self.waiting:
            click.echo(_NOTHING_TO_REVIEW)
            return
        keys = {key.letter: key for key in _KEYS}
        shown_position = -1
        while self.position < len(self.waiting):
            if self.position != shown_position:
                self._show()
                shown_position = self.position
            letter = _read_key()
            if letter in ("q", ""):
                break  # the end of the input is as good as q
            key = keys.get(letter)
            if key is None:
                click.echo(f"{letter!r} is none of the keys; ? explains them")
                continue
            candidate = self.waiting[self.position]
            try:
                is_decided = key.run(self, candidate)
            except UserError as error:
                for line in error.message.split("\n"):
                    echo_indented("   ", line.strip())
                echo_indented("   fix: ", error.fix)
                continue
            if is_decided:
                self.decisions.append((self.position, candidate.id))
                self.position += 1
        decision_count = format_count(len(self.decisions), "decision")
        remaining_count = len(list_waiting(self.home, self.connection))
        click.echo(f"{decision_count} kept; {format_count(remaining_count, 'candidate')} left")

    def _show(self) -> None:
        """Print the current candidate and the keys that can be pressed."""
        candidate = self.waiting[self.position]
        judgement = self.judgements.get(candidate.number)
        click.echo()
        echo_styled(f"── {self.position + 1} of {len(self.waiting)} ".ljust(get_width() - 1, "─"), dim=True)
        show_proposal(self.home, self.connection, candidate, judgement)
        labels = [key.label for key in _KEYS if key.label]
        if not extract_rewording(candidate, judgement):
            labels.remove(_REWORDED_LABEL)
        echo_styled(" ".join(["  ", *labels, "[q]uit [?]help"]), dim=True)

    def _open_decider(self) -> Decider:
        return approvals.open_decider(self.home, self.connection, COMMAND_LINE)

    def accept(self, candidate: Candidate, changes: dict[str, Any] | None = None, *, is_measured: bool = False) -> bool:
        """Put a candidate in force; with `is_measured` it stays silent in half of the sessions at first.

        The person must confirm a block that their own calls speak against. Always True: go on to the next candidate.
        """

        def confirm_block(message: str) -> bool:
            return click.confirm(f"{to_printable_line(message)}. Block all the same?", default=False)

        lesson = accept_candidate(
            self._open_decider(), candidate, changes or {}, confirm=confirm_block, should_measure=is_measured
        )
        show_in_force(lesson, with_text=bool(changes))
        if is_measured:
            click.echo(f"   silent in half of the sessions at first, to measure it: hardwon proof {lesson.slug}")
        return True

    def accept_and_measure(self, candidate: Candidate) -> bool:
        return self.accept(candidate, is_measured=True)

    def accept_reworded(self, candidate: Candidate) -> bool:
        """Accept the candidate with the words that a reader suggested."""
        wording = extract_rewording(candidate, self.judgements.get(candidate.number))
        if not wording:
            raise UserError("no suggested rewording for this candidate", "hardwon review --help")
        return self.accept(candidate, wording)

    def edit(self, candidate: Candidate) -> bool:
        """Open the candidate in the person's editor, and accept it as they leave it."""
        record = candidate.record
        changes = edit_as_json({name: record[name] for name in _EDITABLE_FIELDS if name in record})
        if not changes:
            raise UserError("nothing was changed", "choose [a] to accept it as it is")
        return self.accept(candidate, changes)

    def reject(self, candidate: Candidate) -> bool:
        reject_candidate(self._open_decider(), candidate)
        click.echo(f"rejected: {candidate.slug}")
        return True

    def skip(self, candidate: Candidate) -> bool:
        self.position += 1  # not a decision, so undo ignores it
        return False

    def undo(self, candidate: Candidate) -> bool:
        """Take back the last decision of this review, and return to that candidate."""
        if not self.decisions:
            click.echo("nothing to undo")
            return False
        self.position, candidate_id = self.decisions.pop()
        self.waiting[self.position] = undo_decision(self._open_decider(), candidate_id)
        click.echo(f"undone: {self.waiting[self.position].slug}")
        return False

    def show_details(self, candidate: Candidate) -> bool:
        """Print what does not fit on the first screen."""
        echo_field("problem", candidate.record["problem"])
        echo_field(
            "also", f"priority {candidate.record['priority']}, {', '.join(candidate.record['tags']) or 'no tags'}"
        )
        show_evidence(candidate.record["evidence"])
        return False

    def show_help(self, candidate: Candidate) -> bool:
        for key in _KEYS:
            echo_field(key.letter, key.help)
        echo_field("q", "quit; decisions are kept, and the rest waits")
        return False


_KEYS = (
    _Key("a", "[a]ccept", "accept: in force from the next call on", _Review.accept),
    _Key(
        "m",
        "[m]easure",
        "accept and measure: silent in some sessions, to find out whether it helps",
        _Review.accept_and_measure,
    ),
    _Key("w", _REWORDED_LABEL, "accept with the words that a reader suggested", _Review.accept_reworded),
    _Key("e", "[e]dit", "edit in your editor, then accept", _Review.edit),
    _Key("r", "[r]eject", "reject: it will not be proposed again", _Review.reject),
    _Key("s", "[s]kip", "skip: it stays in the queue", _Review.skip),
    _Key("u", "[u]ndo", "undo the last decision of this review", _Review.undo),
    _Key("d", "[d]etails", "show the whole problem and the evidence, with file and line", _Review.show_details),
    _Key("?", label="", help="show this help", run=_Review.show_help),
)


def _read_key() -> str:
    """Return the next key that a person presses; empty at the end of the input."""
    descriptor = sys.stdin.fileno()
    settings = termios.tcgetattr(descriptor)
    try:
        # TCSANOW keeps what was typed ahead; the default would discard it.
        tty.setcbreak(descriptor, termios.TCSANOW)
        while True:
            byte = os.read(descriptor, 1)
            if byte == b"\x1b":
                _skip_escape_sequence(descriptor)
            elif byte in (b"", b"\x04", b"\0"):  # Ctrl-D arrives as 0 if it was typed before the terminal was set
                return ""
            elif not byte.isspace():
                return byte.decode("ascii", "replace")
    finally:
        termios.tcsetattr(descriptor, termios.TCSANOW, settings)


def _skip_escape_sequence(descriptor: int) -> None:
    """Read the rest of what an arrow or function key sends, such as `[A`: its letter is no answer."""

    def has_byte() -> bool:
        readable, _, _ = select.select([descriptor], [], [], 0)
        return bool(readable)

    if not has_byte() or os.read(descriptor, 1) not in b"[O":
        return  # the Escape key alone
    while has_byte():
        if b"@" <= os.read(descriptor, 1) <= b"~":
            return  # the byte that ends a sequence


def _read_and_save_judgements(home: str, connection: Connection, file: str) -> None:
    """Store the judgements in a file, for which a reader was given `hardwon review --json`."""
    from hardwon.actions.judging import store_judgements

    try:
        with click.open_file(file, encoding="utf-8", errors="replace") as stream:
            text = stream.read()
    except OSError as error:
        message = f"the judgements in {file} cannot be read: {error.strerror or error}"
        raise UserError(message, "give --judge a file, or - for stdin") from None
    judgements, unknown_numbers = store_judgements(home, connection, text, find_agent() or PERSON_READER)
    for number in unknown_numbers:
        click.echo(f"{number}  not kept: there is no candidate {number}")
    for judgement in judgements:
        _print_judgement(judgement)


def _print_judgement(judgement: Judgement) -> None:
    """Print whether a judgement counts."""
    outcome = f"void: {judgement.void}" if judgement.void else "kept as a proposal"
    echo_text(f"{judgement.candidate}  {judgement.verdict:<8}{outcome}")


@click.command()
@names_argument
@add_lesson_options
@confirm_option
def accept(names: tuple[str, ...], confirmed: bool, **flags: Any) -> None:
    """Say yes: put a lesson in force, approve a memory, ratify a handoff.

    L3 or 3 is a proposed lesson, M3 a memory, H3 a handoff. The options change a lesson before it is put in force.
    """
    require_person("accepting a proposal")
    changes = parse_flags(flags)
    if changes and len(names) > 1:
        raise UserError("options change one lesson at a time", "hardwon accept L3 --delivery hold")
    with open_decider(refreshes_brief=True) as decider:
        for name in names:
            acceptance = accept_proposal(decider, name, changes=changes, confirm=answer_by_flag(confirmed))
            if acceptance.lesson:
                show_in_force(acceptance.lesson)
            else:
                echo_text("\n".join(acceptance.lines))


@click.command()
@names_argument
def reject(names: tuple[str, ...]) -> None:
    """Say no: reject a lesson or a memory, discard a draft handoff.

    What is rejected is not proposed again. A lesson or a memory that is in force already is retired.
    """
    require_person("rejecting a proposal")
    with open_decider(refreshes_brief=True) as decider:
        for name in names:
            echo_text(reject_proposal(decider, name))


@click.command()
@click.argument("name", metavar="[L3|M3|H3|SLUG|NO]", default="", shell_complete=complete_undoable)
def undo(name: str) -> None:
    """Take back the last approval, or the decision about a proposal.

    NO is a number that `hardwon approvals` lists. An edited lesson returns to the version approved before.
    """
    require_person("undoing a decision")
    with open_decider(refreshes_brief=True) as decider:
        echo_text(take_back_decision(decider, name))
