"""review, accept, reject"""

from __future__ import annotations

import json
from typing import Any

import click

from hardwon import paths
from hardwon.actions import candidates
from hardwon.actions.lessons import accept_candidate, undo_decision
from hardwon.cli.candidates import (
    PERSON_READER,
    accept_by_name,
    show_in_force,
    show_preview,
    show_reasons,
    show_replay,
    show_similar_lesson,
)
from hardwon.cli.context import find_agent, is_interactive, open_store, require_person
from hardwon.cli.lessons import add_lesson_options, confirm_option, parse_flags
from hardwon.cli.output import echo_field, echo_indented, echo_json, echo_styled, echo_text
from hardwon.errors import UserError
from hardwon.lessons.adding import find_record_faults
from hardwon.lessons.candidate_record import describe_figures
from hardwon.lessons.lessons_file import get_lessons_path, read
from hardwon.lessons.record import parse_lesson
from hardwon.lessons.review_queue import list_waiting
from hardwon.store.approvals import COMMAND_LINE
from hardwon.store.candidates import Candidate, Judgement, list_episodes, list_latest_judgements
from hardwon.store.db import Connection
from hardwon.text.excerpts import pluralize
from hardwon.text.printable import to_printable_line

ASK_A_MODEL = "\0"  # stands for --judge without a FILE; no file has this name
_CHOICES = "[a]ccept [e]dit [s]kip [r]eject [u]ndo [q]uit"
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


@click.command()
@click.option("--json", "as_json", is_flag=True, help="print candidates with their episodes, for an agent to judge")
@click.option(
    "--judge",
    "file",
    is_flag=False,
    flag_value=ASK_A_MODEL,
    metavar="[FILE]",
    help="store judgements from FILE, or - for stdin; without FILE ask the model of llm.provider",
)
@click.option("--limit", default=20, show_default=True, type=click.IntRange(1), help="candidates to judge at most")
@click.option("--open", "is_open", is_flag=True, help="list repeated failures that no lesson is proposed for")
def review(as_json: bool, file: str | None, limit: int, is_open: bool) -> None:
    """Look at candidates one by one, best first, and decide.

    An agent may read them with --json and send its judgements with --judge; a model may be asked with --judge alone.
    A person decides.
    """
    home = paths.get_home()
    with open_store() as connection:
        if file == ASK_A_MODEL:
            from hardwon.actions.judging import ask_model_to_judge

            judged_count = 0
            for judgement in ask_model_to_judge(home, connection, limit):
                _print_judgement(judgement)
                judged_count += 1
            if not judged_count:
                click.echo("nothing to judge: hardwon scan")
        elif file:
            _store_judgements(home, connection, file)
        elif is_open:
            _list_open_failures(home, connection)
        elif as_json:
            from hardwon.actions.judging import build_reader_bundle

            echo_json(build_reader_bundle(home, connection, limit))
        elif not is_interactive():
            raise UserError("review needs a terminal", "hardwon review --json to read the candidates")
        else:
            require_person("deciding about lessons")
            _Review(home, connection).run()


def _list_open_failures(home: str, connection: Connection) -> None:
    """List what several sessions met and what is not proposed, with the reason."""
    failures = list_waiting(home, connection, "open")
    failures.sort(key=lambda candidate: (-len(candidate.sessions), -candidate.occurrences, candidate.number))
    for candidate in failures:
        episodes = list_episodes(connection, candidate.signature, limit=1)
        reason = next((episode.body.get("rejection", "") for episode in episodes), "")
        echo_indented(f"{candidate.number}. ", to_printable_line(candidate.record["summary"]), bold=True)
        echo_field(
            "seen", f"{pluralize(candidate.occurrences, 'time')} in {pluralize(len(candidate.sessions), 'session')}"
        )
        echo_field("why not", reason or describe_figures(candidate.parts))
    if not failures:
        click.echo("no repeated failure is open")


class _Review:
    """A walk through the candidates. Each decision is stored at once, and can be undone."""

    def __init__(self, home: str, connection: Connection) -> None:
        self.home, self.connection = home, connection
        self.waiting = list_waiting(home, connection)
        self.judgements = list_latest_judgements(connection)
        self.decisions: list[tuple[int, str]] = []  # positions in `waiting`, and candidates' ids

    def run(self) -> None:
        if not self.waiting:
            click.echo("nothing to review: hardwon scan")
            return
        position, shown_position = 0, -1
        while position < len(self.waiting):
            if position != shown_position:
                self._show(position)
                shown_position = position
            answer = click.prompt(_CHOICES, default="s", show_default=False, prompt_suffix=" ").strip().lower()[:1]
            if answer == "q":
                break
            position = self._handle_answer(answer, position)
        decision_count = pluralize(len(self.decisions), "decision")
        remaining_count = len(list_waiting(self.home, self.connection))
        click.echo(f"{decision_count} kept; {pluralize(remaining_count, 'candidate')} left")

    def _handle_answer(self, answer: str, position: int) -> int:
        """Do what was chosen and return the next position."""
        candidate = self.waiting[position]
        try:
            if answer == "a":
                self._accept(candidate, {})
            elif answer == "w":
                self._accept(candidate, _get_reader_wording(candidate, self.judgements.get(candidate.number)))
            elif answer == "e":
                self._accept(candidate, _edit_in_editor(candidate))
            elif answer == "r":
                candidates.reject(self.home, self.connection, candidate)
                click.echo(f"rejected: {candidate.slug}")
            elif answer == "u":
                return self._undo(position)
            elif answer != "s":
                click.echo(f"{answer!r} is none of these")
                return position
        except UserError as error:
            for line in error.say.split("\n"):
                echo_indented("   ", line.strip())
            echo_indented("   fix: ", error.fix)
            return position
        # A skipped candidate is not a decision, so undo ignores it.
        if answer != "s":
            self.decisions.append((position, candidate.id))
        return position + 1

    def _accept(self, candidate: Candidate, changes: dict[str, Any]) -> None:
        def confirm_block(message: str) -> bool:
            return click.confirm(f"{to_printable_line(message)}. Block all the same?", default=False)

        lesson = accept_candidate(self.home, self.connection, candidate, changes, COMMAND_LINE, confirm=confirm_block)
        show_in_force(lesson, with_text=bool(changes))

    def _undo(self, position: int) -> int:
        if not self.decisions:
            click.echo("nothing to undo")
            return position
        decided_position, candidate_id = self.decisions.pop()
        self.waiting[decided_position] = undo_decision(self.home, self.connection, candidate_id)
        click.echo(f"undone: {self.waiting[decided_position].slug}")
        return decided_position

    def _show(self, position: int) -> None:
        candidate = self.waiting[position]
        judgement = self.judgements.get(candidate.number)
        click.echo()
        echo_styled(f"── {position + 1} of {len(self.waiting)} ", dim=True)
        show_preview(candidate)
        show_reasons(candidate, judgement)
        show_replay(candidates.replay_record(self.connection, candidate.record))
        show_similar_lesson(read(get_lessons_path(self.home)).lessons, candidate)
        if candidates.extract_rewording(judgement):
            click.echo("   [w] accept with the reader's words")
        for fault in find_record_faults(candidates.build_accepted_record(candidate)):
            echo_field("to fix", fault, fg="yellow")


def _get_reader_wording(candidate: Candidate, judgement: Judgement | None) -> dict[str, Any]:
    wording = candidates.extract_rewording(judgement)
    if not wording:
        raise UserError("no suggested rewording for this candidate", "hardwon review --help")
    # A reader names one trigger; for a candidate about files it is a path.
    triggers = candidate.record["triggers"]
    if triggers.get("pathPatterns") and not triggers.get("commandPatterns") and "commandPatterns" in wording:
        wording["pathPatterns"] = wording.pop("commandPatterns")
    return wording


def _edit_in_editor(candidate: Candidate) -> dict[str, Any]:
    """Return the fields that the person changed in the suggestion; a deleted field is None."""
    old_fields = {key: candidate.record[key] for key in _EDITABLE_FIELDS if key in candidate.record}
    text = click.edit(json.dumps(old_fields, indent=2, ensure_ascii=False), extension=".json")
    if text is None:
        raise UserError("nothing was changed", "choose [a] to accept it as it is")
    try:
        new_fields = json.loads(text)
        parse_lesson(new_fields)
    except (ValueError, RecursionError) as error:
        raise UserError(f"this is not a lesson: {error}", "choose [e] again") from None
    changes = {key: value for key, value in new_fields.items() if value != old_fields.get(key)}
    return {**changes, **{key: None for key in old_fields if key not in new_fields}}


def _store_judgements(home: str, connection: Connection, file: str) -> None:
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
    outcome = f"void: {judgement.void}" if judgement.void else "kept as a proposal"
    echo_text(f"{judgement.candidate}  {judgement.verdict:<8}{outcome}")


@click.command()
@click.argument("name", metavar="N|SLUG|ID")
@add_lesson_options
@confirm_option
def accept(name: str, confirmed: bool, **flags: Any) -> None:
    """Put a candidate in force as suggested, or with the fields given changed."""
    accept_by_name(name, parse_flags(flags), confirmed=confirmed, should_ask=False)


@click.command()
@click.argument("names", metavar="N|SLUG|ID", nargs=-1, required=True)
def reject(names: tuple[str, ...]) -> None:
    """Reject candidates. They stay rejected, however often they are found again."""
    require_person("rejecting a lesson")
    home = paths.get_home()
    with open_store() as connection:
        # All names are looked up first, so that a wrong one rejects nothing.
        for candidate in [candidates.find_candidate(home, connection, name) for name in names]:
            candidates.reject(home, connection, candidate)
            click.echo(f"rejected: {candidate.slug}")
