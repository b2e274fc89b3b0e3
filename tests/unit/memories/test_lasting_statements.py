from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator

import pytest

from hardwon.agents.transcript_steps import identify_agent, load_transcript_module
from hardwon.memories.lasting_statements import (
    MAX_STATEMENT_CHARS,
    MAX_STATEMENTS,
    find_lasting_statements,
    match_statement,
    read_statement_rules,
)
from hardwon.types import MEMORY_TYPES

CORPUS = os.path.join(os.path.dirname(__file__), "..", "..", "..", "..", "shared", "corpus")
PHRASINGS = os.path.join(os.path.dirname(__file__), "lasting_phrasings.tsv")
MAX_SHARE = 0.05  # of real prompts; of those labelled by hand, about one in twenty says something that is to last

STATEMENTS = (
    # how they want things done
    ("from now on always use pnpm, never npm", "feedback", "from now on always use pnpm, never npm"),
    (
        "ok thanks. from now on, run the linter before you commit",
        "feedback",
        "from now on, run the linter before you commit",
    ),
    (
        "looks good, commit it. Going forward use conventional commit titles.",
        "feedback",
        "Going forward use conventional commit titles.",
    ),
    (
        "fix the typo and from now on ask me before you touch the lockfile",
        "feedback",
        "from now on ask me before you touch the lockfile",
    ),
    ("use the staging key from now on", "feedback", "use the staging key from now on"),
    ("don't squash my commits in future", "feedback", "don't squash my commits in future"),
    ("always run mise run check before pushing", "feedback", "always run mise run check before pushing"),
    (
        "Please always answer in English, even if the issue is in French.",
        "feedback",
        "always answer in English, even if the issue is in French.",
    ),
    ("never commit to main directly", "feedback", "never commit to main directly"),
    ("no, never force push shared branches!", "feedback", "never force push shared branches!"),
    ("don't ever delete migrations", "feedback", "don't ever delete migrations"),
    (
        "you should never edit the generated client by hand",
        "feedback",
        "you should never edit the generated client by hand",
    ),
    ("I told you to always use the wrapper script", "feedback", "always use the wrapper script"),
    ("make sure to always add a changelog line", "feedback", "always add a changelog line"),
    ("can you please always write table driven tests?", "feedback", "always write table driven tests"),
    ("use ruff for formatting, never black", "feedback", "use ruff for formatting, never black"),
    ("stop adding comments that repeat the code", "feedback", "stop adding comments that repeat the code"),
    ("please stop apologizing", "feedback", "stop apologizing"),
    ("ugh. stop using emojis in commit messages", "feedback", "stop using emojis in commit messages"),
    (
        "can you stop summarizing what you did after every answer?",
        "feedback",
        "stop summarizing what you did after every answer",
    ),
    ("don't push without asking me first", "feedback", "don't push without asking me first"),
    (
        "Do not run the whole suite every time, the unit tests are enough.",
        "feedback",
        "Do not run the whole suite every time, the unit tests are enough.",
    ),
    ("don't install packages globally again", "feedback", "don't install packages globally again"),
    (
        "whenever you change the schema, regenerate the client",
        "feedback",
        "whenever you change the schema, regenerate the client",
    ),
    ("every time you finish a step, commit it", "feedback", "every time you finish a step, commit it"),
    ("I prefer small pull requests over one large one", "feedback", "I prefer small pull requests over one large one"),
    ("fine by me but I generally prefer early returns", "feedback", "I generally prefer early returns"),
    (
        "prefer composition over inheritance in the services",
        "feedback",
        "prefer composition over inheritance in the services",
    ),
    ("I hate when you rewrite files I did not mention", "feedback", "I hate when you rewrite files I did not mention"),
    ("we never merge without a second review", "feedback", "we never merge without a second review"),
    (
        "remember to bump the version every time you touch the plugin",
        "feedback",
        "remember to bump the version every time you touch the plugin",
    ),
    ("and remember that I'd rather have plain SQL than an ORM", "feedback", "I'd rather have plain SQL than an ORM"),
    ("Remember: never log request bodies.", "feedback", "never log request bodies."),
    ("Never, ever commit generated files", "feedback", "Never, ever commit generated files"),
    ("before you push always run make check", "feedback", "before you push always run make check"),
    ("let's always use feature branches", "feedback", "let's always use feature branches"),
    ("it's important that you never touch the vendor folder", "feedback", "never touch the vendor folder"),
    ("next time ask before deleting files", "feedback", "next time ask before deleting files"),
    ("stop being so verbose", "feedback", "stop being so verbose"),
    # facts about the project
    ("remember that the staging database is reset every night", "project", "the staging database is reset every night"),
    ("please remember that tests need docker running", "project", "tests need docker running"),
    ("For future reference: the arm builders have no cache", "project", "the arm builders have no cache"),
    ("we use pnpm, not npm", "project", "we use pnpm, not npm"),
    ("we only use vitest in this repo", "project", "we only use vitest in this repo"),
    ("our branch convention is team/short-name", "project", "our branch convention is team/short-name"),
    ("we're freezing merges on Thursday", "project", "we're freezing merges on Thursday"),
    ("careful, the code freeze starts on 2026-03-02", "project", "the code freeze starts on 2026-03-02"),
    ("the deadline is next Friday so keep it small", "project", "the deadline is next Friday so keep it small"),
    (
        "we are switching to the new auth service next week",
        "project",
        "we are switching to the new auth service next week",
    ),
    (
        "the legacy api is deprecated, everything goes through v2",
        "project",
        "the legacy api is deprecated, everything goes through v2",
    ),
    (
        "ok, we renamed the package from `acme-old` to `acme` can you fix the imports?",
        "project",
        "we renamed the package from `acme-old` to `acme`",
    ),
    (
        "the repo has been moved to github.com/acme/tools, please update the links",
        "project",
        "the repo has been moved to github.com/acme/tools",
    ),
    ("main is frozen until Monday", "project", "main is frozen until Monday"),
    ("fyi the staging database is now read-only", "project", "the staging database is now read-only"),
    (
        "heads up: the staging environment is down until Wednesday",
        "project",
        "the staging environment is down until Wednesday",
    ),
    ("We've switched to Postgres 16", "project", "We've switched to Postgres 16"),
    ("the convention in this repo is snake_case keys", "project", "the convention in this repo is snake_case keys"),
    ("remember the build cluster is in eu-west-1", "project", "the build cluster is in eu-west-1"),
    # where things are
    (
        "the design docs are at https://docs.acme.example/design",
        "reference",
        "the design docs are at https://docs.acme.example/design",
    ),
    ("our pipeline bugs are tracked in Linear", "reference", "our pipeline bugs are tracked in Linear"),
    ("remember that the oncall runbook lives in Notion", "reference", "the oncall runbook lives in Notion"),
    (
        "The API docs are here: https://docs.acme.example/api",
        "reference",
        "The API docs are here: https://docs.acme.example/api",
    ),
    (
        "latency board is at https://grafana.acme.example/d/1",
        "reference",
        "latency board is at https://grafana.acme.example/d/1",
    ),
    # who they are
    (
        "I'm a data scientist, so explain the frontend parts",
        "user",
        "I'm a data scientist, so explain the frontend parts",
    ),
    ("hi! I am new to rust", "user", "I am new to rust"),
    (
        "I've been writing Go for ten years but never touched react",
        "user",
        "I've been writing Go for ten years but never touched react",
    ),
    ("I always work in a worktree", "user", "I always work in a worktree"),
    ("remember I'm on a Mac", "user", "I'm on a Mac"),
    ("btw my timezone is Europe/Lisbon", "user", "my timezone is Europe/Lisbon"),
)


# A prompt, the type of memory, and the proposed sentence.
REWRITTEN = (
    (
        "no, never use git add -A here, stage files by name",
        "feedback",
        "Never use git add -A here, stage files by name.",
    ),
    ("use pnpm, not npm", "feedback", "Use pnpm, not npm."),
    ("never use npm here, use pnpm", "feedback", "Never use npm here, use pnpm."),
    ("stop doing that weird summary at the end", "feedback", "Stop doing that weird summary at the end."),
    ("stop summarizing at the end of every answer", "feedback", "Stop summarizing at the end of every answer."),
    ("Stop using mocks in the tests.", "feedback", "Do not use mocks in the tests."),
    ("stop asking me for confirmation.", "feedback", "Stop asking me for confirmation."),
    ("we never use npm in this repo", "feedback", "Never use npm in this repo."),
    ("Please keep answers short", "feedback", "Keep answers short."),
    ("keep your answers short from now on", "feedback", "Keep your answers short."),
    ("You should always ask before deleting files", "feedback", "Always ask before deleting files."),
    ("Make sure to always run the formatter", "feedback", "Always run the formatter."),
    ("Please don't add comments to my code", "feedback", "Do not add comments to my code."),
    ("don't add docstrings", "feedback", "Do not add docstrings."),
    (
        "don't mock the database in tests; we got burned last quarter",
        "feedback",
        "Do not mock the database in tests; we got burned last quarter.",
    ),
    ("I don't like it when you push without asking", "feedback", "Do not push without asking."),
    ("use single quotes everywhere in this project", "feedback", "Use single quotes everywhere in this project."),
    (
        "don't forget to branch off main and not the current branch",
        "feedback",
        "Branch off main and not the current branch.",
    ),
    ("we should not touch the default ssh config", "feedback", "Do not touch the default ssh config."),
    ("let's use podman instead of docker", "feedback", "Use podman instead of docker."),
    ("Remember: use port 5433 for the staging db", "feedback", "Use port 5433 for the staging db."),
    (
        "I like that the prompt structure is documented",
        "feedback",
        "The user likes that the prompt structure is documented.",
    ),
    ("Never commit directly to main.", "feedback", "Never commit directly to main."),
    (
        "no, never use git add -A here, stage files by name: you committed scratch.txt",
        "feedback",
        "Never use git add -A here, stage files by name: you committed scratch.txt.",
    ),
    ("remember this: the API key rotates monthly", "project", "The API key rotates monthly."),
    ("we decided to use postgres instead of mysql", "project", "We decided to use postgres instead of mysql."),
    ("In this repo we use conventional commits", "project", "We use conventional commits."),
    ("we're switching to Bun next week", "project", "We're switching to Bun next week."),
    ("code freeze starts Friday", "project", "Code freeze starts Friday."),
    (
        "the legacy auth service is being shut down in March",
        "project",
        "The legacy auth service is being shut down in March.",
    ),
    (
        "we are on Python 3.9 and can't upgrade until June",
        "project",
        "We are on Python 3.9 and can't upgrade until June.",
    ),
    ("note that prod is in eu-west-1", "project", "Prod is in eu-west-1."),
    ("keep in mind that prod db is read-only", "project", "Prod db is read-only."),
    ("the staging server is down until Monday", "project", "The staging server is down until Monday."),
    ("We support 40+ languages, yet you special case two of them.", "project", "We support 40+ languages."),
    ("that is wrong, we don't gitignore the whole folder", "project", "We don't gitignore the whole folder."),
    ("bugs are tracked in Linear project INGEST", "reference", "Bugs are tracked in Linear project INGEST."),
    ("our bugs are tracked in Linear", "reference", "Our bugs are tracked in Linear."),
    ("the API spec lives in Notion", "reference", "The API spec lives in Notion."),
    (
        "see https://grafana.example.com/d/api for latency dashboards",
        "reference",
        "See https://grafana.example.com/d/api for latency dashboards.",
    ),
    (
        "ok, I made a repo and it's at https://git.example.com/kite/tail",
        "reference",
        "The tail repo is at https://git.example.com/kite/tail.",
    ),
    ("I work mostly in the evenings", "user", "The user works mostly in the evenings."),
    ("I'm the CTO", "user", "The user is the CTO."),
    ("/plan:quick write the page, and from now on run the linter", "feedback", "Run the linter."),
)


def test_a_lasting_statement_is_found_with_its_type_and_quote() -> None:
    for prompt, memory_type, quote in STATEMENTS:
        statements = [(statement.type, statement.quote) for statement in find_lasting_statements(prompt)]
        assert statements == [(memory_type, quote)], prompt


def test_a_statement_is_proposed_as_one_clean_sentence() -> None:
    for prompt, memory_type, text in REWRITTEN:
        statements = [(statement.type, statement.text) for statement in find_lasting_statements(prompt)]
        assert statements == [(memory_type, text)], prompt


@pytest.mark.parametrize(
    "prompt",
    [
        "fix the bug in login",
        "can you remember what we did?",
        "for now always use the mock",
        "no, stop. use the other file.",
    ],
)
def test_an_instruction_for_one_task_is_not_proposed(prompt: str) -> None:
    assert find_lasting_statements(prompt) == []


def read_phrasings() -> list[tuple[str, str, str]]:
    """Return class, memory type ("-" for none) and prompt of the made-up phrasings."""
    with open(PHRASINGS) as file:
        rows = [line.rstrip("\n").split("\t") for line in file][1:]
    return [(row[0], row[1], row[2].replace("\\n", "\n")) for row in rows]


def test_made_up_phrasings_are_classified_in_every_class() -> None:
    """The phrasings were written before the rules; add new ones to the file with their class."""
    lasting, passing = Counter[str](), Counter[str]()
    hits, false_alarms = Counter[str](), Counter[str]()
    for phrasing_class, memory_type, prompt in read_phrasings():
        is_proposed = bool(find_lasting_statements(prompt))
        if memory_type == "-":
            passing[phrasing_class] += 1
            false_alarms[phrasing_class] += is_proposed
        else:
            lasting[phrasing_class] += 1
            hits[phrasing_class] += is_proposed
    assert lasting.total() >= 300 and passing.total() >= 300
    recall = {name: hits[name] / lasting[name] for name in lasting}
    false_alarm_rate = {name: false_alarms[name] / passing[name] for name in passing}
    assert min(recall.values()) >= 0.85, recall
    assert max(false_alarm_rate.values()) <= 0.05, false_alarm_rate
    assert hits.total() / (hits.total() + false_alarms.total()) >= 0.97
    assert hits.total() / lasting.total() >= 0.93


def test_the_quote_is_in_the_prompt() -> None:
    for prompt, *_ in (*STATEMENTS, *REWRITTEN):
        for statement in find_lasting_statements(prompt):
            assert statement.quote in " ".join(prompt.split()), prompt


def test_every_example_in_the_table_is_a_statement_of_its_rule() -> None:
    for rule in read_statement_rules():
        for example in rule.examples:
            assert match_statement(example) is not None, (rule.name, example)
            assert any(pattern.search(example) for pattern in rule.patterns), (rule.name, example)
    assert {memory_type for _, memory_type, _ in STATEMENTS} == set(MEMORY_TYPES)


def test_a_constraint_in_a_long_task_is_no_standing_rule() -> None:
    brief = "Extend the glob of the lint workflow to the pages of the site and fix what it finds there. " * 3
    assert find_lasting_statements("don't add abbreviations") != []
    assert find_lasting_statements(f"{brief}Don't add abbreviations.") == []


def test_several_statements_of_one_prompt_are_each_found_once() -> None:
    prompt = "I'm new to rust. From now on explain lifetimes.\n\nand never use unsafe code!\nAnd never use unsafe code."
    assert [(statement.type, statement.text) for statement in find_lasting_statements(prompt)] == [
        ("user", "The user is new to rust."),
        ("feedback", "Explain lifetimes."),
        ("feedback", "Never use unsafe code!"),
    ]


def find_texts(prompt: str) -> list[str]:
    return [statement.text for statement in find_lasting_statements(prompt)]


def test_a_statement_beside_a_pasted_log_is_found() -> None:
    log = "[test] FAIL store_test.go\n[test] always use a context\nerror: exit status 1"
    assert find_texts(f"{log}\n\nfix this, and from now on run the tests first") == ["Run the tests first."]


def test_items_of_a_list_count_if_it_is_called_rules() -> None:
    items = "- always use pnpm\n- never commit to main"
    assert find_texts(f"rules for this repo:\n{items}") == ["Always use pnpm.", "Never commit to main."]
    assert find_lasting_statements(f"the linter wants two things:\n{items}") == []


def test_a_wrapped_line_is_one_statement() -> None:
    wrapped = "from now on run the formatter and the type checker over everything\nthat you changed in the session"
    assert [statement.quote for statement in find_lasting_statements(wrapped)] == [wrapped.replace("\n", " ")]


def test_a_private_statement_is_not_found_but_others_are() -> None:
    prompt = "<private>remember that the offer is 40k</private>\nfrom now on write the invoices in French"
    assert find_texts(prompt) == ["Write the invoices in French."]


def test_a_page_of_rules_and_an_endless_sentence_are_ignored() -> None:
    layers = ("alpha", "bravo", "delta", "gamma", "kappa", "omega", "sigma", "theta")[: MAX_STATEMENTS + 1]
    page = "\n".join(f"always use the {name} format for files" for name in layers)
    assert find_lasting_statements(page) == []
    assert find_lasting_statements("from now on use " + "very " * MAX_STATEMENT_CHARS + "long names") == []


def test_odd_text_raises_no_error() -> None:
    for text in (
        "\ud800 always use pnpm",
        "\0never commit to main",
        "`" * 5_000,
        "<a>" * 5_000,
        "- " * 5_000,
        "@" * 9_000,
    ):
        find_lasting_statements(text)


def iter_real_prompts() -> Iterator[str]:
    for folder, _, names in os.walk(CORPUS):
        for name in names:
            path = os.path.join(folder, name)
            with open(path, "rb") as file:
                content = file.read()
            if host := identify_agent(path, content[:4096]):
                reader = load_transcript_module(host).Reader()
                for number, line in enumerate([content] if host == "opencode" else content.split(b"\n"), 1):
                    yield from (step.text for step in reader.read_line(number, line) if step.kind == "person")


@pytest.mark.skipif(not os.path.isdir(CORPUS), reason="../shared/corpus is not here")
def test_few_real_prompts_have_a_lasting_statement() -> None:
    prompts = set(iter_real_prompts())
    assert len(prompts) > 500
    assert sum(bool(find_lasting_statements(prompt)) for prompt in prompts) <= MAX_SHARE * len(prompts)
