"""review, accept, reject"""

from __future__ import annotations

import json
import os
from typing import Any

import click

from hardwon import actor, clock, paths, settings
from hardwon.actions import candidates as deciding
from hardwon.actions import lessons as actions
from hardwon.cli import candidates as shown
from hardwon.cli.lessons import add_lesson_options, parse_flags, pluralize
from hardwon.cli.output import echo_field, echo_indented, echo_styled, is_interactive, make_printable, to_printable_line
from hardwon.cli.person_only import require_person
from hardwon.cli.scan import accept_by_name
from hardwon.errors import UserError
from hardwon.lessons import lessons_file as shelves
from hardwon.lessons import record as records
from hardwon.lessons import review_queue
from hardwon.mining import gate
from hardwon.store import candidates as table
from hardwon.store import db
from hardwon.store.approvals import COMMAND_LINE
from hardwon.store.candidates import Candidate, Judgement
from hardwon.text import similarity

MAX_CANDIDATE_CHARS, MAX_TOTAL_CHARS = 12_000, 80_000  # characters given to a reader
ASK_A_MODEL = "\0"  # no file has this name
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
_REWORDING_CHOICE = "[w] accept with the reader's words"


@click.command()
@click.option("--json", "as_json", is_flag=True, help="for a reader: the episodes whole, and how to judge them")
@click.option(
    "--judge",
    "file",
    is_flag=False,
    flag_value=ASK_A_MODEL,
    metavar="[FILE]",
    help="take in a reader's judgements, - from stdin; without FILE ask the model of llm.provider",
)
@click.option(
    "--limit", default=20, show_default=True, type=click.IntRange(1), help="how many candidates a reader is given"
)
@click.option("--open", "is_open", is_flag=True, help="list repeated failures that no lesson is proposed for")
def review(as_json: bool, file: str | None, limit: int, is_open: bool) -> None:
    """Look at candidates one by one, best first, and decide.

    An agent may read them with --json and send back what it makes of them with --judge; a model may be asked with
    --judge alone. A person decides.
    """
    home = paths.get_home()
    connection = db.connect(home)
    if file == ASK_A_MODEL:
        _ask_model_to_judge(home, connection, limit)
    elif file:
        _store_judgements(home, connection, file)
    elif is_open:
        _list_open_failures(home, connection)
    elif as_json:
        _print_for_reader(home, connection, limit)
    elif not is_interactive():
        raise UserError("review asks a person, and this is not a terminal", "hardwon review --json to read them")
    else:
        require_person("deciding about lessons")
        _Review(home, connection).run()


def _list_open_failures(home: str, connection: db.Connection) -> None:
    """List what several sessions met and what is not proposed, with the reason."""
    failures = review_queue.list_waiting(home, connection, "open")
    failures.sort(key=lambda candidate: (-len(candidate.sessions), -candidate.occurrences, candidate.number))
    for candidate in failures:
        episodes = table.list_episodes(connection, candidate.signature, limit=1)
        reason = next((episode.body.get("rejection", "") for episode in episodes), "")
        echo_indented(f"{candidate.number}. ", to_printable_line(candidate.record["summary"]), bold=True)
        echo_field(
            "seen", f"{pluralize(candidate.occurrences, 'time')} in {pluralize(len(candidate.sessions), 'session')}"
        )
        echo_field("not proposed", reason or gate.describe_figures(candidate.parts))
    if not failures:
        click.echo("no repeated failure is open")


class _Review:
    """Owns the way through the candidates: every decision is written at once, and can be taken back."""

    def __init__(self, home: str, connection: db.Connection) -> None:
        self.home, self.connection = home, connection
        self.judgements: dict[int, Judgement] = {}
        self.decisions: list[tuple[int, str]] = []  # where in the list, and the candidate's id

    def run(self) -> None:
        waiting = review_queue.list_waiting(self.home, self.connection)
        self.judgements = table.list_latest_judgements(self.connection)
        if not waiting:
            click.echo("nothing to review: hardwon scan")
            return
        position, shown_position = 0, -1
        while position < len(waiting):
            candidate = waiting[position]
            if position != shown_position:
                self._show(candidate, self.judgements.get(candidate.number), f"{position + 1} of {len(waiting)}")
                shown_position = position
            answer = click.prompt(_CHOICES, default="s", show_default=False, prompt_suffix=" ").strip().lower()[:1]
            if answer == "q":
                break
            position = self._handle_answer(answer, position, waiting)
        decision_count = pluralize(len(self.decisions), "decision")
        remaining_count = len(review_queue.list_waiting(self.home, self.connection))
        click.echo(f"{decision_count} kept; {pluralize(remaining_count, 'candidate')} left")

    def _handle_answer(self, answer: str, position: int, waiting: list[Candidate]) -> int:
        """Do what was chosen; gives the place to go on from."""
        candidate = waiting[position]
        try:
            if answer == "a":
                self._accept(candidate, {})
            elif answer == "w":
                self._accept(candidate, _get_reader_wording(candidate, self.judgements.get(candidate.number)))
            elif answer == "e":
                self._accept(candidate, _edit_in_editor(candidate))
            elif answer == "r":
                deciding.reject(self.home, self.connection, candidate)
                click.echo(f"rejected: {candidate.slug}")
            elif answer == "u":
                return self._undo(position, waiting)
            elif answer != "s":
                click.echo(f"{answer!r} is none of these")
                return position
        except UserError as error:
            _print_refusal(error)
            return position
        if answer != "s":
            self.decisions.append((position, candidate.id))
        return position + 1

    def _accept(self, candidate: Candidate, changes: dict[str, Any]) -> None:
        lesson = actions.accept_candidate(
            self.home, self.connection, candidate, changes, COMMAND_LINE, confirm=_confirm_block
        )
        shown.show_in_force(lesson, with_text=bool(changes))

    def _undo(self, position: int, waiting: list[Candidate]) -> int:
        if not self.decisions:
            click.echo("nothing was decided yet")
            return position
        decided_position, candidate_id = self.decisions.pop()
        waiting[decided_position] = actions.undo_decision(self.home, self.connection, candidate_id)
        click.echo(f"taken back: {waiting[decided_position].slug}")
        return decided_position

    def _show(self, candidate: Candidate, judgement: Judgement | None, heading: str) -> None:
        click.echo()
        echo_styled(f"── {heading} ", dim=True)
        shown.show_preview(candidate)
        shown.show_reasons(candidate, judgement)
        shown.show_replay(deciding.replay_record(self.connection, candidate.record))
        lessons = shelves.read(shelves.get_lessons_path(self.home)).lessons
        other_lessons = [lesson for lesson in lessons if lesson.id != candidate.id]
        shown.show_similar_lesson(similarity.build_vocabulary(shown.drop_rejected(other_lessons)), candidate)
        if deciding.extract_rewording(judgement):
            click.echo(f"   {_REWORDING_CHOICE}")
        for fault in shown.find_proposal_faults(candidate):
            echo_field("to mend", fault, fg="yellow")


def _print_refusal(error: UserError) -> None:
    """Why it is not done; the person is asked again below."""
    for line in error.say.split("\n"):
        echo_indented("   ", line.strip())
    echo_indented("   fix: ", error.fix)


def _get_reader_wording(candidate: Candidate, judgement: Judgement | None) -> dict[str, Any]:
    wording = deciding.extract_rewording(judgement)
    if not wording:
        raise UserError("no reader has proposed other words for it", "hardwon review --help")
    trigger_key = next(
        (key for key in ("commandPatterns", "pathPatterns") if candidate.record["triggers"].get(key)), ""
    )
    if trigger_key == "pathPatterns" and "commandPatterns" in wording:
        wording[trigger_key] = wording.pop("commandPatterns")
    return wording


def _confirm_block(message: str) -> bool:
    return click.confirm(f"{to_printable_line(message)}. Block all the same?", default=False)


def _edit_in_editor(candidate: Candidate) -> dict[str, Any]:
    """The suggestion as the person leaves it in their editor."""
    old_fields = {key: candidate.record[key] for key in _EDITABLE_FIELDS if key in candidate.record}
    text = click.edit(json.dumps(old_fields, indent=2, ensure_ascii=False), extension=".json")
    if text is None:
        raise UserError("nothing was changed", "choose [a] to accept it as it is")
    try:
        new_fields = json.loads(text)
        records.parse_lesson(new_fields)
    except (ValueError, RecursionError) as error:
        raise UserError(f"what you wrote is no lesson: {error}", "choose [e] again") from None
    changes = {key: value for key, value in new_fields.items() if value != old_fields.get(key)}
    return {**changes, **{key: None for key in old_fields if key not in new_fields}}


def _print_for_reader(home: str, connection: db.Connection, limit: int) -> None:
    from hardwon.agents.denied_steps import build_step_exclusion
    from hardwon.mining import judge

    waiting = review_queue.list_waiting(home, connection)
    candidate_episodes = [
        (candidate, table.list_episodes(connection, candidate.signature, limit=2)) for candidate in waiting[:limit]
    ]
    is_excluded = build_step_exclusion(home, settings.resolve_settings(settings.read_config(home)))
    bundle = judge.build_bundle(
        candidate_episodes,
        max_candidate_chars=MAX_CANDIDATE_CHARS,
        max_bundle_chars=MAX_TOTAL_CHARS,
        is_excluded=is_excluded,
    )
    judgements = table.list_latest_judgements(connection)
    for candidate, entry in zip((candidate for candidate, _ in candidate_episodes), bundle["candidates"], strict=False):
        replay_result = deciding.replay_record(connection, candidate.record)
        count_names = ("fires", "failed", "fine", "refused")
        replay_counts = {name: getattr(replay_result, name) for name in count_names} if replay_result else None
        judgement = judgements.get(candidate.number)
        entry |= {
            "replay": replay_counts,
            "judgement": judgement and {"verdict": judgement.verdict, "void": judgement.void},
        }
    bundle["leftOut"] += len(waiting) - len(candidate_episodes)
    click.echo(json.dumps(bundle, indent=2))


def _store_judgements(home: str, connection: db.Connection, file: str) -> None:
    from hardwon.agents.denied_steps import build_step_exclusion
    from hardwon.mining import judge

    submissions = judge.parse_judgements(_read_judgements(file))
    is_excluded = build_step_exclusion(home, settings.resolve_settings(settings.read_config(home)))
    reader, now = actor.find_agent_variable(os.environ) or shown.PERSON_READER, clock.now()
    judgements = []
    for submission in submissions:
        candidate = review_queue.find_in_queue(home, connection, str(submission.candidate))
        if candidate is None:
            click.echo(f"{submission.candidate}  not kept: there is no candidate {submission.candidate}")
            continue
        void = judge.check_judgement(submission, table.list_episodes(connection, candidate.signature), is_excluded)
        judgements.append(Judgement(candidate.number, now, reader, submission.verdict, submission.body, void))
    table.store_judgements(connection, judgements)
    for judgement in judgements:
        _print_judgement(judgement)


def _ask_model_to_judge(home: str, connection: db.Connection, limit: int) -> None:
    """Have a model judge what nobody has judged yet; each judgement is kept as it comes."""
    from hardwon.agents.denied_steps import build_step_exclusion
    from hardwon.distil import llm
    from hardwon.distil.llm.calls import ask_model, get_caps
    from hardwon.mining import judge

    values = settings.resolve_settings(settings.read_config(home))
    provider = llm.provider(values, os.environ)
    if provider is None:
        raise UserError("no model is turned on: llm.provider is none", "hardwon config set llm.provider claude")
    judgements = table.list_latest_judgements(connection)
    waiting = [
        candidate for candidate in review_queue.list_waiting(home, connection) if candidate.number not in judgements
    ][:limit]
    candidate_episodes = [(candidate, table.list_episodes(connection, candidate.signature)) for candidate in waiting]

    def ask_question(prompt: str) -> str:
        question = llm.Question("You judge candidates. Answer with JSON alone.", prompt, "judge")
        try:
            return ask_model(connection, provider, question, lambda answer: answer.text, caps=get_caps(values))
        except (llm.Refused, llm.Broken):
            return ""  # which is no judgement, and is kept as a void one

    reader, is_excluded = f"{provider.name} {provider.model}", build_step_exclusion(home, values)
    try:
        for judgement in judge.judge_candidates(
            candidate_episodes,
            ask_question,
            max_candidate_chars=MAX_CANDIDATE_CHARS,
            is_excluded=is_excluded,
            now=clock.now(),
            reader=reader,
        ):
            table.store_judgements(connection, [judgement])
            _print_judgement(judgement)
    except llm.Failed as error:
        raise UserError(
            f"{reader} was asked no further: {error.reason}", "hardwon cost; what was judged is kept"
        ) from None
    if not waiting:
        click.echo("nothing to judge: hardwon scan")


def _print_judgement(judgement: Judgement) -> None:
    outcome = f"void: {judgement.void}" if judgement.void else "kept as a proposal"
    click.echo(make_printable(f"{judgement.candidate}  {judgement.verdict:<8}{outcome}"))


def _read_judgements(file: str) -> str:
    try:
        with click.open_file(file, encoding="utf-8", errors="replace") as stream:
            text: str = stream.read()
    except OSError as error:
        message = f"the judgements in {file} cannot be read: {error.strerror or error}"
        raise UserError(message, "give --judge a file, or - to read from stdin") from None
    return text


@click.command()
@click.argument("name", metavar="N|SLUG|ID")
@add_lesson_options
@click.option("--confirm", is_flag=True, help="for a block whose trigger fired seldom")
def accept(name: str, confirm: bool, **flags: Any) -> None:
    """Put a candidate in force as suggested, with the fields given changed."""
    accept_by_name(name, parse_flags(flags), confirm=confirm, should_ask=False)


@click.command()
@click.argument("names", metavar="N|SLUG|ID", nargs=-1, required=True)
def reject(names: tuple[str, ...]) -> None:
    """Say no to a candidate. It stays rejected, however often it is found again."""
    require_person("rejecting a lesson")
    home = paths.get_home()
    connection = db.connect(home)
    for candidate in [deciding.find_candidate(home, connection, name) for name in names]:
        deciding.reject(home, connection, candidate)
        click.echo(f"rejected: {candidate.slug}")
