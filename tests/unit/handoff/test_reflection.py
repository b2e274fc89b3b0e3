"""A draft goes into the session's own repository, over nothing that somebody wrote, and can be undone."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import pytest

from hardwon import settings
from hardwon.distil.llm.calls import ask_model, get_caps
from hardwon.distil.llm.exchange import Answer, Provider, Question
from hardwon.errors import UserError
from hardwon.handoff import findings, memory_queue, model_draft, ratification, reflection
from hardwon.handoff.draft import next_step
from hardwon.handoff.transcript_story import Story
from hardwon.memories import memories
from hardwon.projects import find_project_path
from hardwon.store import db, reflections
from hardwon.store.reflection_types import SuggestedMemory
from hardwon.types import Turn
from tests.support.made_up_transcripts import SESSION, Transcript, build_launch_session

NOW = 1_772_620_000.0
T = TypeVar("T")


class Place:
    """Owns a home, a repository with work under way in it, and a folder for transcripts."""

    def __init__(self, top: Path) -> None:
        self.home, self.repository, self.folder = str(top / "home"), top / "kite", top / "transcripts"
        self.folder.mkdir()
        self.connection = db.connect(self.home)
        self.queue = str(top / "queue")
        self.proposed: list[SuggestedMemory] = []

    def git(self, *words: str) -> str:
        by = ("-c", "user.name=dev", "-c", "user.email=dev@example.org", "-c", "protocol.file.allow=always")
        done = subprocess.run(["git", *by, *words], cwd=self.repository, capture_output=True, text=True, check=True)
        return done.stdout

    def begin(self) -> None:
        """Something committed, staged, changed and not known yet."""
        (self.repository / "src").mkdir(parents=True)
        self.git("init", "-q", "-b", "main")
        for name in ("kept.py", "staged.py", "changed.py"):
            (self.repository / "src" / name).write_text(f"{name} = 1\n")
        self.git("add", "-A")
        self.git("commit", "-qm", "Begin")
        (self.repository / "src" / "staged.py").write_text("staged = 2\n")
        self.git("add", "-A")
        (self.repository / "src" / "changed.py").write_text("changed = 2\n")
        (self.repository / "unknown.txt").write_text("mine\n")

    def told(self) -> Transcript:
        return build_launch_session(str(self.repository))

    def reflect(self, told: Transcript | None = None, now: float = NOW, **how: Any) -> reflection.ReflectionResult:
        path = (told or self.told()).write(self.folder)
        return reflection.reflect(
            self.connection, self.home, path, now=now, propose=self._propose, queue_folder=self.queue, **how
        )

    def _propose(self, one: SuggestedMemory, _: Story) -> None:
        self.proposed.append(one)

    def files(self) -> dict[str, bytes]:
        every = (path for path in self.repository.rglob("*") if path.is_file())
        return {str(path.relative_to(self.repository)): path.read_bytes() for path in every}


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def test_the_repository_stays_as_it_is_until_a_person_ratifies(place: Place) -> None:
    place.begin()
    before, status = place.files(), place.git("status", "--porcelain")
    done = place.reflect()
    assert done.record.draft == os.path.join(place.home, reflection.DRAFTS_FOLDER, f"kite-{SESSION}.draft.md")
    assert os.stat(done.record.draft).st_mode & 0o777 == 0o600
    assert (place.files(), place.git("status", "--porcelain")) == (before, status)
    page = ratify_draft(place, done)
    assert page == str(place.repository / "docs" / "sessions" / f"{SESSION}.md")
    after = place.files()
    assert b"Let strings be longer" in after.pop(f"docs/sessions/{SESSION}.md") and after == before
    assert not os.path.exists(done.record.draft)


def ratify_draft(place: Place, done: reflection.ReflectionResult) -> str:
    return ratification.ratify(place.connection, place.home, done.record, NOW).page_path


def is_page_in_home(place: Place, done: reflection.ReflectionResult) -> bool:
    return os.path.dirname(ratify_draft(place, done)) == os.path.join(place.home, reflection.DRAFTS_FOLDER)


def test_without_a_repository_the_page_stays_in_the_home(place: Place) -> None:
    place.repository.mkdir()
    done = place.reflect()
    assert is_page_in_home(place, done)
    assert list(place.repository.iterdir()) == []


def test_the_page_of_a_session_in_a_folder_that_is_gone_stays_in_the_home(place: Place) -> None:
    assert is_page_in_home(place, place.reflect())


@pytest.mark.parametrize("said", ['{"sessionDrafts": false}', "not json", "[]"])
def test_a_repository_can_say_no(place: Place, said: str) -> None:
    place.begin()
    (place.repository / ".hardwon").mkdir()
    (place.repository / ".hardwon" / "config.json").write_text(said)
    assert is_page_in_home(place, place.reflect())


def test_a_link_out_of_the_repository_is_not_followed(place: Place, tmp_path: Path) -> None:
    place.begin()
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (place.repository / "docs").symlink_to(elsewhere)
    assert is_page_in_home(place, place.reflect())
    assert list(elsewhere.iterdir()) == []


def test_docs_that_are_a_repository_of_their_own_are_left_alone(place: Place) -> None:
    place.begin()
    (place.repository / "docs" / "sessions").mkdir(parents=True)
    subprocess.run(["git", "init", "-q"], cwd=place.repository / "docs", check=True)
    assert is_page_in_home(place, place.reflect())


def test_a_file_where_the_folder_would_be_sends_the_page_home(place: Place) -> None:
    place.begin()
    (place.repository / "docs").write_text("mine")
    assert is_page_in_home(place, place.reflect())


def test_what_a_person_wrote_or_changed_stays(place: Place) -> None:
    place.begin()
    first = Path(place.home, reflection.DRAFTS_FOLDER, f"kite-{SESSION}.draft.md")
    first.parent.mkdir(parents=True)
    first.write_text("mine")
    second = Path(place.reflect().record.draft)
    assert (first.read_text(), second.name) == ("mine", f"kite-{SESSION}-2.draft.md")
    second.write_text(second.read_text() + "a line of mine\n")
    third = Path(place.reflect(now=NOW + 1).record.draft)
    assert third.name == f"kite-{SESSION}-3.draft.md" and second.read_text().endswith("a line of mine\n")


def test_a_draft_that_nobody_touched_is_written_anew(place: Place) -> None:
    place.begin()
    first = place.reflect()
    more = place.told()
    more.person("Now the landing, in the same way.")
    second = place.reflect(more, now=NOW + 1)
    assert second.record.draft == first.record.draft
    assert "Now the landing" in Path(second.record.draft).read_text()
    assert [one.status for one in reflections.list_reflections(place.connection, session=SESSION)] == ["draft", "moot"]


def test_a_link_where_the_draft_would_be_is_not_written_through(place: Place, tmp_path: Path) -> None:
    place.begin()
    link = Path(place.home, reflection.DRAFTS_FOLDER, f"kite-{SESSION}.draft.md")
    link.parent.mkdir(parents=True)
    link.symlink_to(tmp_path / "target")
    assert place.reflect().record.draft.endswith("-2.draft.md")
    assert not (tmp_path / "target").exists()


def queued(place: Place, turn: int, text: str) -> str:
    return memory_queue.queue_statements(place.queue, Turn(1, turn, NOW, "claude-code", SESSION, prompt=text))


def test_the_queue_is_read_deduplicated_and_emptied(place: Place) -> None:
    told = place.told()
    told.person("From now on always use pnpm, never npm.")
    told.agent("I will.")
    place.repository.mkdir()
    files = [
        queued(place, 2, "From now on always use pnpm, never npm."),
        queued(place, 1, "Always use uv to run tests."),
    ]
    assert all(files)
    done = place.reflect(told)
    assert sorted(memory.text for memory in done.draft.memories) == [
        "Always use pnpm, never npm.",
        "Always use uv to run tests.",
    ]
    assert done.draft.memories == tuple(place.proposed)
    assert os.listdir(place.queue) == []
    reflection.undo(place.connection, place.home, done.record.id, NOW)
    assert sorted(os.listdir(place.queue)) == sorted(map(os.path.basename, files))


def test_a_queued_memory_leads_to_where_it_was_said_whichever_turn_that_was(place: Place) -> None:
    told = place.told()
    told.person("From now on always use pnpm,\nnever npm.")
    said = len(told.lines)
    told.agent("I will.")
    told.person("Now add a rate limit, please.")
    queued(place, 3, "From now on always use pnpm,\nnever npm.")
    evidence = place.reflect(told).draft.memories[0].evidence
    assert [evidence_item.line for evidence_item in evidence] == [said]


def test_undoing_puts_every_file_back_once(place: Place) -> None:
    place.begin()
    before = place.files()
    done = place.reflect()
    reflection.undo(place.connection, place.home, done.record.id, NOW)
    assert place.files() == before and not (place.repository / "docs").exists()
    with pytest.raises(UserError, match="undone already"):
        reflection.undo(place.connection, place.home, done.record.id, NOW)
    with pytest.raises(UserError, match="no reflection 99"):
        reflection.undo(place.connection, place.home, 99, NOW)


def test_undoing_a_second_draft_brings_the_first_back(place: Place) -> None:
    place.begin()
    first = Path(place.reflect().record.draft)
    text = first.read_text()
    more = place.told()
    more.person("Now the landing, in the same way.")
    second = place.reflect(more, now=NOW + 1)
    assert first.read_text() != text
    reflection.undo(place.connection, place.home, second.record.id, NOW)
    assert first.read_text() == text


def test_nothing_is_undone_once_somebody_changed_a_file(place: Place) -> None:
    place.begin()
    done = place.reflect()
    path = Path(done.record.draft)
    path.write_text("mine now")
    with pytest.raises(UserError, match="was changed since"):
        reflection.undo(place.connection, place.home, done.record.id, NOW)
    assert path.read_text() == "mine now"


def test_a_session_is_reflected_on_by_one_process_at_a_time(place: Place) -> None:
    place.repository.mkdir()
    code = (
        "import sys\nfrom hardwon.handoff.reflection import lock_session\n"
        f"with lock_session({place.home!r}, {SESSION!r}) as mine:\n    print(mine, flush=True)\n    sys.stdin.read()\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as other:
        assert other.stdout and other.stdout.readline() == "True\n"
        with pytest.raises(UserError, match="being reflected on already"):
            place.reflect()
        assert place.reflect(build_launch_session(session="another-one")).record.session == "another-one"
        other.communicate()
    assert place.reflect().record.id


def test_a_private_session_is_left_alone(place: Place) -> None:
    told = Transcript()
    told.person("<private>the keys are under the mat</private>")
    told.agent("I see.")
    with pytest.raises(UserError, match="holds nothing that may be told of"):
        place.reflect(told)


def test_no_secret_of_the_session_gets_into_draft_log_or_database(place: Place) -> None:
    secret = "sk-ant-api03-" + "Zx9Qv7Lm3Kp1Rt5Yw8Bn2Cd4" * 3
    told = place.told()
    told.person(f"Always use the key {secret} for the tower, never another.")
    told.bash(f"curl -H 'x-api-key: {secret}' https://example.org", f"denied: {secret}", code=22)
    told.agent(f"The problem is that {secret} is not accepted by the tower any more.")
    place.reflect(told)
    found = [path for path in Path(place.home).rglob("*") if path.is_file() and secret.encode() in path.read_bytes()]
    assert found == []


def test_what_people_drop_sinks_and_what_they_keep_rises(place: Place) -> None:
    assert reflection.compute_weight(0, 0) == reflection.compute_weight(1, 1) == 1.0
    assert reflection.compute_weight(0, 10) < 1.0 < reflection.compute_weight(10, 0)
    assert {row["weight"] for row in reflection.list_menu_items(place.connection)} == {1.0}
    assert {"item", "group", "help", "kept", "dropped", "weight"} == set(
        reflection.list_menu_items(place.connection)[0]
    )


def test_the_raw_log_has_all_that_was_found(place: Place) -> None:
    done = place.reflect()
    log = json.loads(Path(done.record.log).read_text())
    assert log["session"] == SESSION and isinstance(log["findings"], list)
    assert os.stat(done.record.log).st_mode & 0o777 == 0o600


def answer(**changes: Any) -> dict[str, Any]:
    """A sound answer of a model to the session that `launch` tells."""
    said = {
        "text": "height() lets strings be longer, and 12 tests pass",
        "evidence": [{"line": 7, "quote": "12 passed"}],
    }
    whole = {
        "topic": "Longer strings",
        "workstream": "launcher",
        "summary": [said],
        "decisions": [],
        "failed": [],
        "open": [],
        "resume": [{"text": "Change src/kite/landing.py", "evidence": [{"line": 10, "quote": "still cuts at 40"}]}],
        "confidence": "H",
        "because": "it was said",
        "findings": [],
        "memories": [],
    }
    return {**whole, **changes}


def saying(text: str, sent: list[Question] | None = None) -> Provider:
    def said(question: Question) -> Answer:
        if sent is not None:
            sent.append(question)
        return Answer(text, 100, 50, model="made-up")

    return Provider("openai", "made-up", said)


def asked(place: Place, provider: Provider, **caps: float) -> Callable[[Question, Callable[[Answer], T]], T]:
    values = {**settings.resolve_settings({}), **{f"caps.{name}": value for name, value in caps.items()}}
    return lambda question, read: ask_model(
        place.connection, provider, question, read, caps=get_caps(values), read_clock=lambda: NOW
    )


def by_model(place: Place, text: str, **caps: float) -> reflection.ReflectionResult:
    return place.reflect(ask=asked(place, saying(text), **caps))


def test_a_models_words_take_the_place_of_the_plain_ones_where_each_quotes_its_line(place: Place) -> None:
    done = by_model(place, json.dumps(answer()))
    assert (done.record.kind, done.draft.made_by, done.draft.topic, done.fallback_reason) == (
        "model",
        "made-up",
        "Longer strings",
        "",
    )
    page = Path(done.record.draft).read_text()
    assert "- height() lets strings be longer, and 12 tests pass (L7)" in page and 'workstream: "launcher"' in page
    log = json.loads(Path(done.record.log).read_text())
    assert "still cuts at 40" in log["question"] and "height()" in log["answer"]


def test_a_models_claim_that_the_session_contradicts_is_marked_on_the_page(place: Place) -> None:
    place.begin()
    quote = [{"line": 7, "quote": "12 passed"}]
    untrue = {"text": "Committed as 1234abc; src/kite/sail.py was rewritten", "evidence": quote}
    done = by_model(place, json.dumps(answer(decisions=[untrue])))
    page = Path(done.record.draft).read_text()
    assert "## Contradicted by the record\n\n- “Committed as 1234abc" in page
    assert "no change to src/kite/sail.py was recorded" in page


def test_the_next_step_is_the_one_that_a_models_resume_prompt_names(place: Place) -> None:
    assert next_step(by_model(place, json.dumps(answer())).draft) == "Change src/kite/landing.py"


def test_a_claim_without_a_true_quote_is_thrown_away(place: Place) -> None:
    untrue = {"text": "The tower was painted", "evidence": [{"line": 7, "quote": "painted red"}]}
    misplaced = {"text": "It passed at once", "evidence": [{"line": 1, "quote": "12 passed"}]}
    done = by_model(place, json.dumps(answer(decisions=[untrue], failed=[misplaced])))
    assert (done.draft.made_by, done.draft.decisions, done.draft.failed) == ("made-up", (), ())


@pytest.mark.parametrize(
    "text",
    [
        "I would rather not.",
        "{}",
        json.dumps(answer(confidence="sure")),
        json.dumps(answer(summary=[])),
        json.dumps(answer(summary="all fine")),
        json.dumps(answer(findings=[{"item": "horoscope", "text": "x", "score": 1, "target": "adr", "evidence": []}])),
        json.dumps(answer(memories=[{"type": "secret", "text": "x", "evidence": []}])),
        json.dumps(answer(summary=[{"text": "It flew", "evidence": [{"line": 1, "quote": "it flew to the moon"}]}])),
        "[" * 50_000,
    ],
)
def test_an_answer_that_is_not_as_asked_for_leaves_the_plain_draft(place: Place, text: str) -> None:
    done = by_model(place, text)
    assert (done.record.kind, done.draft.made_by) == ("plain", "plain") and done.fallback_reason.startswith(
        "by plain code: "
    )
    assert "Let strings be longer" in Path(done.record.draft).read_text()


def test_above_the_cap_the_draft_is_plain_and_that_is_said(place: Place) -> None:
    sent = list[Question]()
    provider = saying(json.dumps(answer()), sent)
    put = asked(place, provider, reflectionsPerDay=1)
    made = [place.reflect(now=NOW + number, ask=put) for number in range(2)]
    assert [one.record.kind for one in made] == ["model", "plain"]
    assert "caps.reflectionsPerDay is reached" in made[1].fallback_reason and len(sent) == 1
    assert [question.purpose for question in sent] == ["reflect"]


def test_of_a_folder_that_is_shut_nothing_is_sent(place: Place) -> None:
    sent = list[Question]()
    done = place.reflect(ask=asked(place, saying(json.dumps(answer()), sent)), is_denied=lambda cwd: True)
    assert (sent, done.draft.made_by) == ([], "plain")


def test_only_the_last_turns_are_sent(place: Place) -> None:
    sent = list[Question]()
    provider = saying("{}", sent)
    told = place.told()
    told.person("Now paint the tower red.")
    told.agent("It is red.")
    place.reflect(told, ask=asked(place, provider), max_turns=1)
    session = sent[0].prompt.partition("the session:")[2]
    assert "paint the tower" in session and "launch test fails" not in session


def test_the_json_has_what_others_build_on(place: Place) -> None:
    told = place.told()
    told.person("From now on always use pnpm, never npm.")
    told.agent("I will.")
    made = reflection.to_json(place.reflect(told))
    assert os.path.isabs(made["draft"]) and os.path.exists(made["draft"])
    assert {"findings", "memories", "lessons"} <= set(made)
    assert made["memories"][0]["type"] == "feedback"
    assert set(made["memories"][0]["evidence"][0]) == {"path", "line", "quote"}


@pytest.mark.parametrize(("session", "is_listed"), [("another-session", False), (SESSION, True)])
def test_a_memory_that_waits_from_another_session_is_not_listed_again(
    place: Place, session: str, is_listed: bool
) -> None:
    place.repository.mkdir()
    rule = "Always use pnpm, never npm."
    project = find_project_path(str(place.repository))
    memories.propose(
        place.connection, place.home, "feedback", rule, project=project, source="agent", session=session, now=NOW
    )
    told = place.told()
    told.person(f"From now on {rule.lower()}")
    told.agent("I will.")
    done = place.reflect(told)
    assert (rule in [memory.text for memory in done.draft.memories]) is is_listed
    with open(done.record.draft) as file:
        assert (rule in file.read().partition("emories")[2]) is is_listed


def test_the_prompt_for_a_model_is_as_it_was_found_good() -> None:
    """It names every item of the menu, those too that plain code has no rule for."""
    expected = Path(__file__).parent / "golden" / "reflection_prompt.txt"
    if os.environ.get("WRITE_GOLDEN"):
        expected.write_text(model_draft.build_instructions())
    assert model_draft.build_instructions() == expected.read_text()
    assert all(f"- {item.name}: " in expected.read_text() for item in findings.MENU)
