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
from hardwon.store import candidates as table
from hardwon.store import db
from hardwon.store.approvals import COMMAND_LINE
from hardwon.store.candidates import Candidate, Judgement
from hardwon.text import similarity

MAX_CANDIDATE_CHARS, MAX_TOTAL_CHARS = 12_000, 80_000  # characters given to a reader
ASK_A_MODEL = "\0"  # no file has this name
_CHOICES = "[a]ccept [e]dit [s]kip [r]eject [u]ndo [q]uit"
_EDITED = (
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
_WORDS = "[w] accept with the reader's words"


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
def review(as_json: bool, file: str | None, limit: int) -> None:
    """Look at candidates one by one, best first, and decide.

    An agent may read them with --json and send back what it makes of them with --judge; a model may be asked with
    --judge alone. A person decides.
    """
    home = paths.get_home()
    connection = db.connect(home)
    if file == ASK_A_MODEL:
        _ask_a_model(home, connection, limit)
    elif file:
        _take_judgements(home, connection, file)
    elif as_json:
        _print_for_a_reader(home, connection, limit)
    elif not is_interactive():
        raise UserError("review asks a person, and this is not a terminal", "hardwon review --json to read them")
    else:
        require_person("deciding about lessons")
        _Review(home, connection).go()


class _Review:
    """Owns the way through the candidates: every decision is written at once, and can be taken back."""

    def __init__(self, home: str, connection: db.Connection) -> None:
        self.home, self.connection = home, connection
        self.judged: dict[int, Judgement] = {}
        self.decided: list[tuple[int, str]] = []  # where in the list, and the candidate's id

    def go(self) -> None:
        waiting = review_queue.list_waiting(self.home, self.connection)
        self.judged = table.list_latest_judgements(self.connection)
        if not waiting:
            click.echo("nothing to review: hardwon scan")
            return
        place, seen = 0, -1
        while place < len(waiting):
            proposal = waiting[place]
            if place != seen:
                self._show(proposal, self.judged.get(proposal.number), f"{place + 1} of {len(waiting)}")
                seen = place
            answer = click.prompt(_CHOICES, default="s", show_default=False, prompt_suffix=" ").strip().lower()[:1]
            if answer == "q":
                break
            place = self._answered(answer, place, waiting)
        said = pluralize(len(self.decided), "decision")
        left = len(review_queue.list_waiting(self.home, self.connection))
        click.echo(f"{said} kept; {pluralize(left, 'candidate')} left")

    def _answered(self, answer: str, place: int, waiting: list[Candidate]) -> int:
        """Do what was chosen; gives the place to go on from."""
        proposal = waiting[place]
        try:
            if answer == "a":
                self._accept(proposal, {})
            elif answer == "w":
                self._accept(proposal, _readers_words(proposal, self.judged.get(proposal.number)))
            elif answer == "e":
                self._accept(proposal, _edited(proposal))
            elif answer == "r":
                deciding.reject(self.home, self.connection, proposal)
                click.echo(f"rejected: {proposal.slug}")
            elif answer == "u":
                return self._undo(place, waiting)
            elif answer != "s":
                click.echo(f"{answer!r} is none of these")
                return place
        except UserError as refused:
            _say(refused)
            return place
        if answer != "s":
            self.decided.append((place, proposal.id))
        return place + 1

    def _accept(self, proposal: Candidate, changes: dict[str, Any]) -> None:
        lesson = actions.accept_candidate(self.home, self.connection, proposal, changes, COMMAND_LINE, confirm=_confirm)
        shown.show_in_force(lesson, with_text=bool(changes))

    def _undo(self, place: int, waiting: list[Candidate]) -> int:
        if not self.decided:
            click.echo("nothing was decided yet")
            return place
        before, id = self.decided.pop()
        waiting[before] = actions.undo_decision(self.home, self.connection, id)
        click.echo(f"taken back: {waiting[before].slug}")
        return before

    def _show(self, proposal: Candidate, judgement: Judgement | None, where: str) -> None:
        click.echo()
        echo_styled(f"── {where} ", dim=True)
        shown.show_preview(proposal)
        shown.show_reasons(proposal, judgement)
        shown.show_replay(deciding.replay_record(self.connection, proposal.record))
        lessons = shelves.read(shelves.get_lessons_path(self.home)).lessons
        known = [lesson for lesson in lessons if lesson.id != proposal.id]
        shown.show_similar_lesson(similarity.build_vocabulary(shown.drop_rejected(known)), proposal)
        if deciding.extract_rewording(judgement):
            click.echo(f"   {_WORDS}")
        for fault in shown.find_proposal_faults(proposal):
            echo_field("to mend", fault, fg="yellow")


def _say(refused: UserError) -> None:
    """Why it is not done; the person is asked again below."""
    for line in refused.say.split("\n"):
        echo_indented("   ", line.strip())
    echo_indented("   fix: ", refused.fix)


def _readers_words(proposal: Candidate, judgement: Judgement | None) -> dict[str, Any]:
    words = deciding.extract_rewording(judgement)
    if not words:
        raise UserError("no reader has proposed other words for it", "hardwon review --help")
    kind = next((key for key in ("commandPatterns", "pathPatterns") if proposal.record["triggers"].get(key)), "")
    if kind == "pathPatterns" and "commandPatterns" in words:
        words[kind] = words.pop("commandPatterns")
    return words


def _confirm(say: str) -> bool:
    return click.confirm(f"{to_printable_line(say)}. Block all the same?", default=False)


def _edited(proposal: Candidate) -> dict[str, Any]:
    """The suggestion as the person leaves it in their editor."""
    before = {key: proposal.record[key] for key in _EDITED if key in proposal.record}
    text = click.edit(json.dumps(before, indent=2, ensure_ascii=False), extension=".json")
    if text is None:
        raise UserError("nothing was changed", "choose [a] to accept it as it is")
    try:
        after = json.loads(text)
        records.parse_lesson(after)
    except (ValueError, RecursionError) as wrong:
        raise UserError(f"what you wrote is no lesson: {wrong}", "choose [e] again") from None
    changed = {key: value for key, value in after.items() if value != before.get(key)}
    return {**changed, **{key: None for key in before if key not in after}}


def _print_for_a_reader(home: str, connection: db.Connection, limit: int) -> None:
    from hardwon.agents.denied_steps import build_step_exclusion
    from hardwon.mining import judge

    waiting = review_queue.list_waiting(home, connection)
    given = [(one, table.list_episodes(connection, one.signature, limit=2)) for one in waiting[:limit]]
    left_out = build_step_exclusion(home, settings.resolve_settings(settings.read_config(home)))
    bundle = judge.build_bundle(
        given, max_candidate_chars=MAX_CANDIDATE_CHARS, max_bundle_chars=MAX_TOTAL_CHARS, is_excluded=left_out
    )
    judged = table.list_latest_judgements(connection)
    for one, entry in zip((one for one, _ in given), bundle["candidates"], strict=False):
        tried = deciding.replay_record(connection, one.record)
        counts = ("fires", "failed", "fine", "refused")
        replay = {name: getattr(tried, name) for name in counts} if tried else None
        judgement = judged.get(one.number)
        entry |= {"replay": replay, "judgement": judgement and {"verdict": judgement.verdict, "void": judgement.void}}
    bundle["leftOut"] += len(waiting) - len(given)
    click.echo(json.dumps(bundle, indent=2))


def _take_judgements(home: str, connection: db.Connection, file: str) -> None:
    from hardwon.agents.denied_steps import build_step_exclusion
    from hardwon.mining import judge

    sent = judge.parse_judgements(_text_of(file))
    left_out = build_step_exclusion(home, settings.resolve_settings(settings.read_config(home)))
    name, now = actor.find_agent_variable(os.environ) or shown.PERSON_READER, clock.now()
    kept = []
    for one in sent:
        proposal = review_queue.find_in_queue(home, connection, str(one.candidate))
        if proposal is None:
            click.echo(f"{one.candidate}  not kept: there is no candidate {one.candidate}")
            continue
        void = judge.check_judgement(one, table.list_episodes(connection, proposal.signature), left_out)
        kept.append(Judgement(proposal.number, now, name, one.verdict, one.body, void))
    table.store_judgements(connection, kept)
    for judgement in kept:
        _say_kept(judgement)


def _ask_a_model(home: str, connection: db.Connection, limit: int) -> None:
    """Have a model judge what nobody has judged yet; each judgement is kept as it comes."""
    from hardwon.agents.denied_steps import build_step_exclusion
    from hardwon.distil import llm
    from hardwon.distil.llm.calls import ask_model, get_caps
    from hardwon.mining import judge

    values = settings.resolve_settings(settings.read_config(home))
    provider = llm.provider(values, os.environ)
    if provider is None:
        raise UserError("no model is turned on: llm.provider is none", "hardwon config set llm.provider claude")
    judged = table.list_latest_judgements(connection)
    waiting = [one for one in review_queue.list_waiting(home, connection) if one.number not in judged][:limit]
    given = [(one, table.list_episodes(connection, one.signature)) for one in waiting]

    def put(prompt: str) -> str:
        question = llm.Question("You judge candidates. Answer with JSON alone.", prompt, "judge")
        try:
            return ask_model(connection, provider, question, lambda answer: answer.text, caps=get_caps(values))
        except (llm.Refused, llm.Broken):
            return ""  # which is no judgement, and is kept as a void one

    name, left_out = f"{provider.name} {provider.model}", build_step_exclusion(home, values)
    try:
        for judgement in judge.judge_candidates(
            given, put, max_candidate_chars=MAX_CANDIDATE_CHARS, is_excluded=left_out, now=clock.now(), reader=name
        ):
            table.store_judgements(connection, [judgement])
            _say_kept(judgement)
    except llm.Failed as failed:
        raise UserError(
            f"{name} was asked no further: {failed.reason}", "hardwon cost; what was judged is kept"
        ) from None
    if not waiting:
        click.echo("nothing to judge: hardwon scan")


def _say_kept(judgement: Judgement) -> None:
    said = f"void: {judgement.void}" if judgement.void else "kept as a proposal"
    click.echo(make_printable(f"{judgement.candidate}  {judgement.verdict:<8}{said}"))


def _text_of(file: str) -> str:
    try:
        with click.open_file(file, encoding="utf-8", errors="replace") as opened:
            text: str = opened.read()
    except OSError as wrong:
        say = f"the judgements in {file} cannot be read: {wrong.strerror or wrong}"
        raise UserError(say, "give --judge a file, or - to read from stdin") from None
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
    for proposal in [deciding.find_candidate(home, connection, name) for name in names]:
        deciding.reject(home, connection, proposal)
        click.echo(f"rejected: {proposal.slug}")
