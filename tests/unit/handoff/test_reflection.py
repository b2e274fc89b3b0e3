"""A draft never overwrites a person's text, goes into the repository once ratified, and can be undone."""

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
from hardwon.store import reflections
from hardwon.store.reflections import SuggestedMemory
from hardwon.types import Turn
from tests.support.made_up_transcripts import SESSION, Transcript, build_launch_session
from tests.support.new_store import connect_to_new_store

NOW = 1_772_620_000.0
T = TypeVar("T")


class Workspace:
    """A home, a repository with uncommitted work, and a folder for transcripts."""

    def __init__(self, top: Path) -> None:
        self.home, self.repository, self.folder = str(top / "home"), top / "kite", top / "transcripts"
        self.folder.mkdir()
        self.connection = connect_to_new_store(self.home)
        self.queue = str(top / "queue")
        self.proposed: list[SuggestedMemory] = []

    def run_git(self, *arguments: str) -> str:
        identity = ("-c", "user.name=dev", "-c", "user.email=dev@example.org", "-c", "protocol.file.allow=always")
        process = subprocess.run(
            ["git", *identity, *arguments], cwd=self.repository, capture_output=True, text=True, check=True
        )
        return process.stdout

    def create_repository(self) -> None:
        """Create a repository with committed, staged, changed and untracked files."""
        (self.repository / "src").mkdir(parents=True)
        self.run_git("init", "-q", "-b", "main")
        for name in ("kept.py", "staged.py", "changed.py"):
            (self.repository / "src" / name).write_text(f"{name} = 1\n")
        self.run_git("add", "-A")
        self.run_git("commit", "-qm", "Begin")
        (self.repository / "src" / "staged.py").write_text("staged = 2\n")
        self.run_git("add", "-A")
        (self.repository / "src" / "changed.py").write_text("changed = 2\n")
        (self.repository / "unknown.txt").write_text("mine\n")

    def build_session(self) -> Transcript:
        return build_launch_session(str(self.repository))

    def reflect(
        self, transcript: Transcript | None = None, now: float = NOW, **options: Any
    ) -> reflection.ReflectionResult:
        path = (transcript or self.build_session()).write(self.folder)
        reflection_options = reflection.ReflectionOptions(propose=self._propose, queue_folder=self.queue, **options)
        return reflection.reflect(self.connection, self.home, path, reflection_options, now=now)

    def _propose(self, memory: SuggestedMemory, _: Story) -> None:
        self.proposed.append(memory)

    def read_files(self) -> dict[str, bytes]:
        paths = (path for path in self.repository.rglob("*") if path.is_file())
        return {str(path.relative_to(self.repository)): path.read_bytes() for path in paths}


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    return Workspace(tmp_path)


def test_the_repository_stays_as_it_is_until_a_person_ratifies(workspace: Workspace) -> None:
    workspace.create_repository()
    files_before, status = workspace.read_files(), workspace.run_git("status", "--porcelain")
    result = workspace.reflect()
    assert result.record.draft == os.path.join(workspace.home, reflection.DRAFTS_FOLDER, f"kite-{SESSION}.draft.md")
    assert os.stat(result.record.draft).st_mode & 0o777 == 0o600
    assert (workspace.read_files(), workspace.run_git("status", "--porcelain")) == (files_before, status)
    page = ratify_draft(workspace, result)
    assert page == str(workspace.repository / "docs" / "sessions" / f"{SESSION}.md")
    files_after = workspace.read_files()
    assert b"Let strings be longer" in files_after.pop(f"docs/sessions/{SESSION}.md") and files_after == files_before
    assert not os.path.exists(result.record.draft)


def ratify_draft(workspace: Workspace, result: reflection.ReflectionResult) -> str:
    return ratification.ratify(workspace.connection, workspace.home, result.record, NOW).page_path


def is_page_in_home(workspace: Workspace, result: reflection.ReflectionResult) -> bool:
    return os.path.dirname(ratify_draft(workspace, result)) == os.path.join(workspace.home, reflection.DRAFTS_FOLDER)


def test_without_a_repository_the_page_stays_in_the_home(workspace: Workspace) -> None:
    workspace.repository.mkdir()
    result = workspace.reflect()
    assert is_page_in_home(workspace, result)
    assert list(workspace.repository.iterdir()) == []


def test_the_page_of_a_session_in_a_folder_that_is_gone_stays_in_the_home(workspace: Workspace) -> None:
    assert is_page_in_home(workspace, workspace.reflect())


@pytest.mark.parametrize("config_text", ['{"sessionDrafts": false}', "not json", "[]"])
def test_a_repository_can_refuse_pages(workspace: Workspace, config_text: str) -> None:
    workspace.create_repository()
    (workspace.repository / ".hardwon").mkdir()
    (workspace.repository / ".hardwon" / "config.json").write_text(config_text)
    assert is_page_in_home(workspace, workspace.reflect())


def test_a_link_out_of_the_repository_is_not_followed(workspace: Workspace, tmp_path: Path) -> None:
    workspace.create_repository()
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (workspace.repository / "docs").symlink_to(elsewhere)
    assert is_page_in_home(workspace, workspace.reflect())
    assert list(elsewhere.iterdir()) == []


def test_a_nested_repository_gets_no_page(workspace: Workspace) -> None:
    workspace.create_repository()
    (workspace.repository / "docs" / "sessions").mkdir(parents=True)
    subprocess.run(["git", "init", "-q"], cwd=workspace.repository / "docs", check=True)
    assert is_page_in_home(workspace, workspace.reflect())


def test_the_page_stays_in_the_home_when_docs_is_a_file(workspace: Workspace) -> None:
    workspace.create_repository()
    (workspace.repository / "docs").write_text("mine")
    assert is_page_in_home(workspace, workspace.reflect())


def test_a_draft_that_a_person_wrote_or_changed_is_kept(workspace: Workspace) -> None:
    workspace.create_repository()
    first = Path(workspace.home, reflection.DRAFTS_FOLDER, f"kite-{SESSION}.draft.md")
    first.parent.mkdir(parents=True)
    first.write_text("mine")
    second = Path(workspace.reflect().record.draft)
    assert (first.read_text(), second.name) == ("mine", f"kite-{SESSION}-2.draft.md")
    second.write_text(second.read_text() + "a line of mine\n")
    third = Path(workspace.reflect(now=NOW + 1).record.draft)
    assert third.name == f"kite-{SESSION}-3.draft.md" and second.read_text().endswith("a line of mine\n")


def test_an_unchanged_draft_is_replaced(workspace: Workspace) -> None:
    workspace.create_repository()
    first = workspace.reflect()
    longer_transcript = workspace.build_session()
    longer_transcript.person("Now the landing, in the same way.")
    second = workspace.reflect(longer_transcript, now=NOW + 1)
    assert second.record.draft == first.record.draft
    assert "Now the landing" in Path(second.record.draft).read_text()
    assert [record.status for record in reflections.list_reflections(workspace.connection, session=SESSION)] == [
        "draft",
        "moot",
    ]


def test_a_link_where_the_draft_would_be_is_not_written_through(workspace: Workspace, tmp_path: Path) -> None:
    workspace.create_repository()
    link = Path(workspace.home, reflection.DRAFTS_FOLDER, f"kite-{SESSION}.draft.md")
    link.parent.mkdir(parents=True)
    link.symlink_to(tmp_path / "target")
    assert workspace.reflect().record.draft.endswith("-2.draft.md")
    assert not (tmp_path / "target").exists()


def queue_statement(workspace: Workspace, turn: int, text: str) -> str:
    return memory_queue.queue_statements(workspace.queue, Turn(1, turn, NOW, "claude-code", SESSION, prompt=text))


def test_the_queue_is_read_deduplicated_and_emptied(workspace: Workspace) -> None:
    transcript = workspace.build_session()
    transcript.person("From now on always use pnpm, never npm.")
    transcript.agent("I will.")
    workspace.repository.mkdir()
    files = [
        queue_statement(workspace, 2, "From now on always use pnpm, never npm."),
        queue_statement(workspace, 1, "Always use uv to run tests."),
    ]
    assert all(files)
    result = workspace.reflect(transcript)
    assert sorted(memory.text for memory in result.draft.memories) == [
        "Always use pnpm, never npm.",
        "Always use uv to run tests.",
    ]
    assert result.draft.memories == tuple(workspace.proposed)
    assert os.listdir(workspace.queue) == []
    reflection.undo(workspace.connection, workspace.home, result.record.id, NOW)
    assert sorted(os.listdir(workspace.queue)) == sorted(map(os.path.basename, files))


def test_a_queued_memory_cites_the_line_it_comes_from(workspace: Workspace) -> None:
    transcript = workspace.build_session()
    transcript.person("From now on always use pnpm,\nnever npm.")
    statement_line = len(transcript.lines)
    transcript.agent("I will.")
    transcript.person("Now add a rate limit, please.")
    queue_statement(workspace, 3, "From now on always use pnpm,\nnever npm.")
    evidence = workspace.reflect(transcript).draft.memories[0].evidence
    assert [evidence_item.line for evidence_item in evidence] == [statement_line]


def test_undoing_restores_every_file_once(workspace: Workspace) -> None:
    workspace.create_repository()
    files_before = workspace.read_files()
    result = workspace.reflect()
    reflection.undo(workspace.connection, workspace.home, result.record.id, NOW)
    assert workspace.read_files() == files_before and not (workspace.repository / "docs").exists()
    with pytest.raises(UserError, match="undone already"):
        reflection.undo(workspace.connection, workspace.home, result.record.id, NOW)
    with pytest.raises(UserError, match="no reflection 99"):
        reflection.undo(workspace.connection, workspace.home, 99, NOW)


def test_undoing_a_second_draft_restores_the_first(workspace: Workspace) -> None:
    workspace.create_repository()
    first = Path(workspace.reflect().record.draft)
    text = first.read_text()
    longer_transcript = workspace.build_session()
    longer_transcript.person("Now the landing, in the same way.")
    second = workspace.reflect(longer_transcript, now=NOW + 1)
    assert first.read_text() != text
    reflection.undo(workspace.connection, workspace.home, second.record.id, NOW)
    assert first.read_text() == text


def test_a_draft_that_was_changed_cannot_be_undone(workspace: Workspace) -> None:
    workspace.create_repository()
    result = workspace.reflect()
    path = Path(result.record.draft)
    path.write_text("mine now")
    with pytest.raises(UserError, match="was changed since"):
        reflection.undo(workspace.connection, workspace.home, result.record.id, NOW)
    assert path.read_text() == "mine now"


def test_a_session_is_reflected_on_by_one_process_at_a_time(workspace: Workspace) -> None:
    workspace.repository.mkdir()
    code = (
        "import sys\nfrom hardwon.handoff.reflection import lock_session\n"
        f"with lock_session({workspace.home!r}, {SESSION!r}) as mine:\n    print(mine, flush=True)\n    sys.stdin.read()\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout and process.stdout.readline() == "True\n"
        with pytest.raises(UserError, match="being reflected on already"):
            workspace.reflect()
        assert workspace.reflect(build_launch_session(session="another-one")).record.session == "another-one"
        process.communicate()
    assert workspace.reflect().record.id


def test_a_private_session_is_not_drafted(workspace: Workspace) -> None:
    transcript = Transcript()
    transcript.person("<private>the keys are under the mat</private>")
    transcript.agent("I see.")
    with pytest.raises(UserError, match="holds nothing that may be told of"):
        workspace.reflect(transcript)


def test_no_secret_of_the_session_gets_into_draft_log_or_database(workspace: Workspace) -> None:
    secret = "sk-ant-api03-" + "Zx9Qv7Lm3Kp1Rt5Yw8Bn2Cd4" * 3
    transcript = workspace.build_session()
    transcript.person(f"Always use the key {secret} for the tower, never another.")
    transcript.bash(f"curl -H 'x-api-key: {secret}' https://example.org", f"denied: {secret}", code=22)
    transcript.agent(f"The problem is that {secret} is not accepted by the tower any more.")
    workspace.reflect(transcript)
    leaking_paths = [
        path for path in Path(workspace.home).rglob("*") if path.is_file() and secret.encode() in path.read_bytes()
    ]
    assert leaking_paths == []


def test_kept_findings_gain_weight_and_dropped_ones_lose_it(workspace: Workspace) -> None:
    assert reflection.compute_weight(0, 0) == reflection.compute_weight(1, 1) == 1.0
    assert reflection.compute_weight(0, 10) < 1.0 < reflection.compute_weight(10, 0)
    assert {row["weight"] for row in reflection.list_menu_items(workspace.connection)} == {1.0}
    assert {"item", "group", "help", "kept", "dropped", "weight"} == set(
        reflection.list_menu_items(workspace.connection)[0]
    )


def test_the_log_has_the_findings_and_is_private(workspace: Workspace) -> None:
    result = workspace.reflect()
    log = json.loads(Path(result.record.log).read_text())
    assert log["session"] == SESSION and isinstance(log["findings"], list)
    assert os.stat(result.record.log).st_mode & 0o777 == 0o600


def build_model_answer(**changes: Any) -> dict[str, Any]:
    """Build a valid answer of a model about the launch session."""
    summary_line = {
        "text": "height() lets strings be longer, and 12 tests pass",
        "evidence": [{"line": 7, "quote": "12 passed"}],
    }
    model_answer = {
        "topic": "Longer strings",
        "workstream": "launcher",
        "summary": [summary_line],
        "decisions": [],
        "failed": [],
        "open": [],
        "resume": [{"text": "Change src/kite/landing.py", "evidence": [{"line": 10, "quote": "still cuts at 40"}]}],
        "confidence": "H",
        "because": "it was said",
        "findings": [],
        "memories": [],
    }
    return {**model_answer, **changes}


def build_provider(text: str, sent_questions: list[Question] | None = None) -> Provider:
    def answer_question(question: Question) -> Answer:
        if sent_questions is not None:
            sent_questions.append(question)
        return Answer(text, 100, 50, model="made-up")

    return Provider("openai", "made-up", answer_question)


def build_ask(
    workspace: Workspace, provider: Provider, **caps: float
) -> Callable[[Question, Callable[[Answer], T]], T]:
    values = {**settings.resolve_settings({}), **{f"caps.{name}": value for name, value in caps.items()}}
    return lambda question, parse: ask_model(
        workspace.connection, provider, question, parse, caps=get_caps(values), read_clock=lambda: NOW
    )


def reflect_with_model(workspace: Workspace, text: str, **caps: float) -> reflection.ReflectionResult:
    return workspace.reflect(ask=build_ask(workspace, build_provider(text), **caps))


def test_a_models_draft_replaces_the_plain_one_when_it_quotes_its_lines(workspace: Workspace) -> None:
    result = reflect_with_model(workspace, json.dumps(build_model_answer()))
    assert (result.record.kind, result.draft.made_by, result.draft.topic, result.fallback_reason) == (
        "model",
        "made-up",
        "Longer strings",
        "",
    )
    page = Path(result.record.draft).read_text()
    assert "- height() lets strings be longer, and 12 tests pass (L7)" in page and 'workstream: "launcher"' in page
    log = json.loads(Path(result.record.log).read_text())
    assert "still cuts at 40" in log["question"] and "height()" in log["answer"]


def test_a_models_claim_that_the_session_contradicts_is_marked_on_the_page(workspace: Workspace) -> None:
    workspace.create_repository()
    quote = [{"line": 7, "quote": "12 passed"}]
    untrue = {"text": "Committed as 1234abc; src/kite/sail.py was rewritten", "evidence": quote}
    result = reflect_with_model(workspace, json.dumps(build_model_answer(decisions=[untrue])))
    page = Path(result.record.draft).read_text()
    assert "## Contradicted by the record\n\n- “Committed as 1234abc" in page
    assert "no change to src/kite/sail.py was recorded" in page


def test_the_next_step_comes_from_the_models_resume_prompt(workspace: Workspace) -> None:
    assert (
        next_step(reflect_with_model(workspace, json.dumps(build_model_answer())).draft) == "Change src/kite/landing.py"
    )


def test_a_claim_without_a_true_quote_is_dropped(workspace: Workspace) -> None:
    untrue = {"text": "The tower was painted", "evidence": [{"line": 7, "quote": "painted red"}]}
    misplaced = {"text": "It passed at once", "evidence": [{"line": 1, "quote": "12 passed"}]}
    result = reflect_with_model(workspace, json.dumps(build_model_answer(decisions=[untrue], failed=[misplaced])))
    assert (result.draft.made_by, result.draft.decisions, result.draft.failed) == ("made-up", (), ())


@pytest.mark.parametrize(
    "text",
    [
        "I would rather not.",
        "{}",
        json.dumps(build_model_answer(confidence="sure")),
        json.dumps(build_model_answer(summary=[])),
        json.dumps(build_model_answer(summary="all fine")),
        json.dumps(
            build_model_answer(
                findings=[{"item": "horoscope", "text": "x", "score": 1, "target": "adr", "evidence": []}]
            )
        ),
        json.dumps(build_model_answer(memories=[{"type": "secret", "text": "x", "evidence": []}])),
        json.dumps(
            build_model_answer(summary=[{"text": "It flew", "evidence": [{"line": 1, "quote": "it flew to the moon"}]}])
        ),
        "[" * 50_000,
    ],
)
def test_an_invalid_answer_leaves_the_plain_draft(workspace: Workspace, text: str) -> None:
    result = reflect_with_model(workspace, text)
    assert (result.record.kind, result.draft.made_by) == ("plain", "plain") and result.fallback_reason.startswith(
        "by plain code: "
    )
    assert "Let strings be longer" in Path(result.record.draft).read_text()


def test_above_the_cap_the_draft_is_plain_and_says_why(workspace: Workspace) -> None:
    sent_questions = list[Question]()
    provider = build_provider(json.dumps(build_model_answer()), sent_questions)
    ask = build_ask(workspace, provider, reflectionsPerDay=1)
    results = [workspace.reflect(now=NOW + number, ask=ask) for number in range(2)]
    assert [result.record.kind for result in results] == ["model", "plain"]
    assert "caps.reflectionsPerDay is reached" in results[1].fallback_reason and len(sent_questions) == 1
    assert [question.purpose for question in sent_questions] == ["reflect"]


def test_nothing_is_sent_from_a_denied_folder(workspace: Workspace) -> None:
    sent_questions = list[Question]()
    result = workspace.reflect(
        ask=build_ask(workspace, build_provider(json.dumps(build_model_answer()), sent_questions)),
        is_denied=lambda cwd: True,
    )
    assert (sent_questions, result.draft.made_by) == ([], "plain")


def test_only_the_last_turns_are_sent(workspace: Workspace) -> None:
    sent_questions = list[Question]()
    provider = build_provider("{}", sent_questions)
    transcript = workspace.build_session()
    transcript.person("Now paint the tower red.")
    transcript.agent("It is red.")
    workspace.reflect(transcript, ask=build_ask(workspace, provider), max_turns=1)
    session = sent_questions[0].prompt.partition("the session:")[2]
    assert "paint the tower" in session and "launch test fails" not in session


def test_the_json_has_the_documented_fields(workspace: Workspace) -> None:
    transcript = workspace.build_session()
    transcript.person("From now on always use pnpm, never npm.")
    transcript.agent("I will.")
    document = reflection.to_json(workspace.reflect(transcript))
    assert os.path.isabs(document["draft"]) and os.path.exists(document["draft"])
    assert {"findings", "memories", "lessons"} <= set(document)
    assert document["memories"][0]["type"] == "feedback"
    assert set(document["memories"][0]["evidence"][0]) == {"path", "line", "quote"}


@pytest.mark.parametrize(("session", "is_listed"), [("another-session", False), (SESSION, True)])
def test_a_memory_pending_from_another_session_is_not_listed_again(
    workspace: Workspace, session: str, is_listed: bool
) -> None:
    workspace.repository.mkdir()
    rule = "Always use pnpm, never npm."
    project = find_project_path(str(workspace.repository))
    memories.propose(
        workspace.connection,
        workspace.home,
        "feedback",
        rule,
        project=project,
        source="agent",
        session=session,
        now=NOW,
    )
    transcript = workspace.build_session()
    transcript.person(f"From now on {rule.lower()}")
    transcript.agent("I will.")
    result = workspace.reflect(transcript)
    assert (rule in [memory.text for memory in result.draft.memories]) is is_listed
    with open(result.record.draft) as file:
        assert (rule in file.read().partition("emories")[2]) is is_listed


def test_the_prompt_for_a_model_matches_its_golden_file() -> None:
    """The prompt names every item of the menu, including those without a detector."""
    expected = Path(__file__).parent / "golden" / "reflection_prompt.txt"
    if os.environ.get("WRITE_GOLDEN"):
        expected.write_text(model_draft.build_instructions())
    assert model_draft.build_instructions() == expected.read_text()
    assert all(f"- {item.name}: " in expected.read_text() for item in findings.MENU)
