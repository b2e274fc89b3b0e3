"""Which lesson a failed call and its cure give, and which failures give none.

The examples have the shape of real ones; none is copied from a session.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from hardwon import settings
from hardwon.mining.episodes import NAMED_SCORE, UNNAMED_SCORE, Episode
from hardwon.mining.mined_episodes import mine_episode
from hardwon.mining.proposals import Occurrences, build_suggested_record
from hardwon.mining.triggers import matches_command
from tests.support.step_builder import NO_ANCHOR, TYPES, StepBuilder


def build_episode(*steps: tuple[str, str]) -> Episode:
    """Return the first episode of commands with their errors; a command without one works."""
    story = StepBuilder()
    for command, error in steps:
        story.fails(command, f"Exit code 1\n{error}") if error else story.works(command)
    return story.find_episodes()[0]


class Lesson(NamedTuple):
    """A failed call, its error, what worked, and what is to be said and matched."""

    failing: str
    error: str
    working: str
    problem: str
    solution: str
    also_matches: str = ""
    must_not_match: str = ""


PYTEST_USAGE = (
    "ERROR: usage: pytest [options] [file_or_dir] [...]\npytest: error: unrecognized arguments: --parallel\n"
    "  inifile: /srv/kite/pyproject.toml"
)
LESSONS = (
    Lesson(  # the word is the value of an option; elsewhere it means something else
        "kite --context prod get pods",
        'error: context "prod" does not exist',
        "kite --context air-prod get pods",
        '`kite --context prod` fails: context "prod" does not exist',
        "Use `kite --context air-prod` instead.",
        "kite logs --context=prod",
        "kite -n prod get pods",
    ),
    Lesson(
        "kite --check --parser=ts src/a.ts",
        """[error] Couldn't resolve parser "ts".""",
        "kite --check --parser=typescript src/a.ts",
        """`kite --parser=ts` fails: Couldn't resolve parser "ts".""",
        "Use `kite --parser=typescript` instead.",
        "kite --parser ts src/b.ts",
        "kite --check src/a.ts",
    ),
    Lesson(  # the clause that blames a word names it; the host is only where it failed
        "kite -h localhost -U admin -d shop",
        'kite: error: connection to server at "localhost" failed: FATAL:  role "admin" does not exist',
        "kite -h localhost -U pilot -d shop",
        '`kite -h localhost -U admin` fails: role "admin" does not exist',
        "Use `kite -h localhost -U pilot` instead.",
        "kite -h localhost -U admin -d air",
        "kite -h localhost -U pilot -d admin",
    ),
    Lesson(
        "kite test --loud fly",
        "error: unexpected argument '--loud' found\n\nUsage: kite test [OPTIONS] [NAME] [-- [ARGS]...]",
        "kite test fly -- --loud",
        "`kite test --loud` fails: unexpected argument '--loud' found",
        "Put `--loud` after `--`: `kite test fly -- --loud`.",
        "kite test -q --loud",
        "kite test -- -x --loud",
    ),
    Lesson(  # the usage text says how far the subcommand goes
        "kite wind checks 42 --format json",
        "unknown flag: --format\n\nUsage:  kite wind checks [<number>] [flags]",
        "kite wind checks 42 --json name",
        "`kite wind checks --format` fails: unknown flag: --format",
        "Use `kite wind checks --json name` instead.",
        "kite wind checks 43 --format json",
        "kite wind list --format json",
    ),
    Lesson(
        "kite workspace frontend build",
        'Usage Error: Unknown workspace "frontend"',
        "kite workspace @air/fe build",
        '`kite workspace frontend` fails: Usage Error: Unknown workspace "frontend"',
        "Use `kite workspace @air/fe` instead.",
        "kite workspace frontend test",
    ),
    Lesson(
        "kite -U admin -c soar",
        'kite: error: connection to the server at "localhost" (127.0.0.1), port 5432 failed: FATAL: role "admin" does'
        " not exist",
        "kite -U pilot -c soar",
        '`kite -U admin` fails: role "admin" does not exist',
        "Use `kite -U pilot` instead.",
        "kite -U admin -c land",
    ),
    Lesson(
        "kite run test --filter web",
        "No package found with name 'web' in workspace",
        "kite run test --filter @air/web",
        "`kite run test --filter web` fails: No package found with name 'web' in workspace",
        "Use `kite run test --filter @air/web` instead.",
        "kite run test -q --filter web",
        "kite run test --filter sea",
    ),
    Lesson(
        "kite --tidy src",
        "error: unexpected argument '--tidy' found\n\nUsage: kite [OPTIONS] <COMMAND>",
        "kite check --tidy src",
        "`kite --tidy` fails: unexpected argument '--tidy' found",
        "Use `kite check --tidy src` instead.",
        "kite -q --tidy .",
        "kite -q check --tidy .",
    ),
    Lesson(
        "kite -U admin -c fly",
        'FATAL: role "admin" does not exist',
        "kite -U pilot -c fly",
        '`kite -U admin` fails: role "admin" does not exist',
        "Use `kite -U pilot` instead.",
        "kite -U admin -c land",
    ),
    Lesson(
        "pytest --parallel 4 tests",
        PYTEST_USAGE,
        "pytest -n 2 tests",
        "`pytest --parallel` fails: unrecognized arguments: --parallel",
        "Use `pytest -n` instead.",
        "cd src && pytest -q --parallel=8 tests/unit",
        "pytest -n 2 tests --parallel-mode",
    ),
    Lesson(
        "cd src && git log --colour=always",
        "error: unknown option `--colour'\nusage: git log [<options>]",
        "git log --color=always",
        "`git log --colour` fails: unknown option `--colour'",
        "Use `git log --color=always` instead.",
        "git -C . log -3 --colour",
        "git show --colour",
    ),
    Lesson(
        "wrap kite fly high",
        "error: unrecognized subcommand 'kite'\n\nUsage: wrap [OPTIONS] <COMMAND>",
        "kite fly high",
        "`wrap kite` fails: unrecognized subcommand 'kite'",
        "Run `kite` without `wrap`.",
        "wrap -v kite land 2>&1 | tail",
        "wrap test && kite fly",
    ),
    Lesson(
        "kite list | grep -oP 'a+' | sort",
        "grep: invalid option -- P\nusage: grep [-abc] [pattern]",
        "kite list | grep -oE 'a+' | sort",
        "`grep -P` fails: invalid option -- P",
        "Use `grep -oE` instead.",
        "cat a | grep -n -oP b",
        "kite -oP; grep a",
    ),
    Lesson(
        "gustlint run ./...",
        "(eval):1: command not found: gustlint",
        "mise exec -- gustlint run ./...",
        "`gustlint` fails: command not found: gustlint",
        "`gustlint` is not on the PATH here; use `mise exec -- gustlint`.",
        "cd src && gustlint --fix",
        "echo gustlint",
    ),
    Lesson(
        "kite api query -f q='{ wind(cut: 3) { name } }'",
        "Field 'wind' doesn't accept argument 'cut'",
        "kite api query -f q='{ wind { name } }'",
        "`kite api` with `cut` fails: Field 'wind' doesn't accept argument 'cut'",
        "Leave out `cut`: the call worked without it.",
        "kite api query -f q='{ gust(cut: 9) }'",
        "kite api query; cut -f1 a",
    ),
    Lesson(
        "grep -rn gust --include=*.rs src",
        "(eval):1: no matches found: --include=*.rs",
        'grep -rn gust --include="*.rs" src',
        "`grep --include=*.rs` fails: no matches found: --include=*.rs",
        "Put it in quotes, `'--include=*.rs'`: else the shell takes it for a file pattern.",
        "grep -l wind --include=*.py .",
        "grep -l wind '--include=*.py' .",
    ),
    Lesson(
        "npm run typechek",
        'npm error Missing script: "typechek"\nnpm error Did you mean this?\nnpm error   npm run typecheck',
        "npm run typecheck",
        '`npm run typechek` fails: Missing script: "typechek"',
        "Use `npm run typecheck` instead.",
        "npm run typechek -- --watch",
        "npm run typecheck",
    ),
    Lesson(
        "python -m pytest tests",
        "/usr/bin/python: No module named pytest",
        ".venv/bin/python -m pytest tests",
        "`python -m pytest` fails: No module named pytest",
        "Use `.venv/bin/python -m pytest tests` instead.",
        "python -m pytest -x",
        "uv run python -m pytest",
    ),
    Lesson(
        "kite view 7 --json title,stars",
        'Unknown JSON field: "stars"\nAvailable fields:\n  title\n  likes',
        "kite view 7 --json title,likes",
        '`kite view` with `stars` fails: Unknown JSON field: "stars"',
        "Use `likes` instead of `stars`.",
        "kite view 9 --json stars",
        "kite list --json stars",
    ),
)


def test_the_lesson_is_the_difference_between_the_two_calls() -> None:
    for lesson in LESSONS:
        episode = build_episode((lesson.failing, lesson.error), (lesson.working, ""))
        assert episode.rejection == "", (lesson.failing, episode.rejection)
        assert (episode.problem, episode.solution) == (lesson.problem, lesson.solution)
        assert episode.score == NAMED_SCORE, lesson.failing
        for command, is_expected in (
            (lesson.failing, True),
            (lesson.also_matches, True),
            (lesson.working, False),
            (lesson.must_not_match, False),
        ):
            assert matches_command(episode.triggers, command) is is_expected, (command, episode.triggers)


def test_numbers_and_unrelated_sentences_do_not_hide_the_cure() -> None:
    """`-n 2` follows directly, with a sentence about something else in between."""
    story = StepBuilder()
    story.fails("pytest --parallel 4 tests", f"Exit code 4\n{PYTEST_USAGE}")
    story.agent("Decided against a floating point value because HTTP wants whole seconds.")
    story.works("pytest -n 2 tests")
    assert story.find_only_episode().solution == "Use `pytest -n` instead."


def test_a_sentence_of_the_agent_is_quoted_only_if_it_names_a_word_of_the_call() -> None:
    story = StepBuilder()
    story.fails("kite fly --loop 3", "Exit code 2\nerror: unexpected argument '--loop' found")
    story.agent("The --loop option was renamed because of the landing mode.")
    story.works("kite fly --times 3")
    assert story.find_only_episode().solution == (
        "Use `kite fly --times` instead. The --loop option was renamed because of the landing mode."
    )


GROUP_USAGE = "unknown flag: --all\n\nUsage:  kite sail <command> [flags]\n\nAvailable commands:\n  hoist"


def test_an_option_that_the_fix_keeps_was_only_read_before_a_wrong_subcommand() -> None:
    episode = build_episode(("kite sail clear --all", GROUP_USAGE), ("kite sail strike --all", ""))
    assert episode.problem == "`kite sail clear` fails: unknown flag: --all"
    assert episode.solution == "Use `kite sail strike` instead."
    for command, is_expected in (
        ("kite -q sail clear", True),
        ("kite sail strike --all", False),
        ("kite sail hoist clear", False),
        ("kite sail --help", False),
    ):
        assert matches_command(episode.triggers, command) is is_expected, command


def test_an_option_that_the_fix_keeps_after_the_subcommand_is_misplaced() -> None:
    usage = "Usage: kite [OPTIONS] COMMAND [ARGS]...\n\nError: No such option: --app"
    episode = build_episode(("kite serve --app wind", usage), ("kite --app wind serve", ""))
    assert not matches_command(episode.triggers, "kite --app gust serve")


def test_the_same_mistake_is_known_however_the_program_is_started() -> None:
    error = "Error: No such command 'migrations'."
    episode = build_episode(("uv run python sail.py migrations", error), ("uv run python sail.py show", ""))
    assert episode.solution == "Use `sail.py show` instead."
    for command in ("sail.py migrations", "python3 sail.py migrations -v", "cd kite && ./sail.py migrations | head"):
        assert matches_command(episode.triggers, command), command
    for command in ("python3 sail.py show migrations", "python3 list.py migrations", "ls sail.py migrations"):
        assert not matches_command(episode.triggers, command), command


def test_a_missing_empty_value_is_not_looked_for_in_the_text_of_other_commands() -> None:
    episode = build_episode(("sed -i 's/a/b/' kite.py", "sed: bad flag"), ("sed -i '' 's/a/b/' kite.py", ""))
    assert matches_command(episode.triggers, "cd src && sed -i 's/c/d/' gust.py")
    for command in (
        "sed -i '' 's/c/d/' gust.py",
        "git commit -m \"Stop using sed -i 's/a/b/'\"",
        "echo 'sed -i s/a/b/'",
        "cat > notes.md <<'EOF'\nsed -i 's/a/b/' kite.py\nEOF",
        "ls  # sed -i s/a/b/",
    ):
        assert not matches_command(episode.triggers, command), command


def test_the_options_of_a_script_that_was_changed_in_between_are_no_lesson() -> None:
    error = "sail.py: error: unrecognized arguments: --fmt csv"
    assert build_episode(("python sail.py --fmt csv", error), ("python sail.py --format csv", "")).rejection == ""
    story = StepBuilder()
    story.fails("python sail.py --fmt csv", f"Exit code 2\n{error}")
    story.edit("/p/sail.py", "add('--fmt')")
    story.works("python sail.py --format csv")
    assert story.find_episodes()[0].rejection == "files were changed before it worked"


SILENT = (
    # The network failed.
    ("kite install", "kite error code ECONNRESET", "kite install --prefer-offline"),
    # the code under work, and a check that another check only seems to cure
    ("npm run typecheck", TYPES, "npm run typecheck -- --pretty"),
    ("gust test ./a", "--- FAIL: TestWind (0.00s)", "gust test ./b"),
    ("gust test", "error: Cannot find module '@wind/sock' from 'tmp/clone/x.test.ts'", "gust run lint"),
    # where the shell stands, and files that come and go
    ("cd src && kite test", "bash: line 1: cd: src: No such file or directory", "kite test"),
    ("ls plans/12-*", "(eval):1: no matches found: plans/12-*", "ls plans"),
    ("cat wind.toml", "cat: wind.toml: No such file or directory", "cat src/wind.toml"),
    # no error to speak of
    ("kite count", "total: 1589", "kite count --all"),
    ("gust run /tmp/a_test.g", "gust: cannot run *_test.g files", "mv /tmp/a_test.g /tmp/a.g && gust run /tmp/a.g"),
    # several commands could have failed
    ("kite prepare && gust prepare", "error: the wind failed", "kite prepare && gust prepare --now"),
    # everyday commands without a distinguishing word
    ("git push", "error: failed to push some refs to 'origin'", "git pull && git push"),
    ("git add .", "fatal: unable to write new index file", "git add -v src"),
    # what skips a check is no cure
    ("git commit -m wip", "error: unknown option: hook 'lint' refused", "git commit --no-verify -m wip"),
    ("kite install --globally", "error: unknown option '--globally'", "sudo kite install"),
    ("kite land --softly", "error: unknown option '--softly'", "kite land --force"),
    ("gust test --strictly", "error: unknown option '--strictly'", "rm tests/test_wind.py && gust test"),
    # nor is what would not show its failure, or asks for help
    ("kite fly --loop", "error: unknown option '--loop'", "kite fly || true"),
    ("kite fly --loop", "error: unknown option '--loop'", "kite fly --help"),
    # the same call worked later
    ("kite sync red", "Error: connect ECONNREFUSED 127.0.0.1:5432", "kite sync red"),
)


def test_a_failure_that_teaches_nothing_is_rejected() -> None:
    for failing, error, working in SILENT:
        episode = build_episode((failing, error), (working, ""))
        assert episode.rejection and episode.score == 0.0, (failing, episode.problem, episode.solution)


def test_failures_of_the_agents_own_tools_are_rejected() -> None:
    story = StepBuilder()
    for _ in range(3):
        story.edit("/p/a.tsx", "if wind: fly()", NO_ANCHOR)
    story.agent("Edit isn't matching because the file uses tabs.")
    story.works("sed -i 's/wind/breeze/' /p/a.tsx", "")
    assert (story.find_only_episode().rejection, dict(story.find_only_episode().triggers)) == (
        "it is about how the agent's tools work",
        {},
    )


def test_a_failed_or_denied_call_is_never_the_cure() -> None:
    story = StepBuilder()
    story.fails("wrap kite test", "Exit code 2\nerror: unknown command 'kite'")
    story.deny("kite test -q")
    story.fails("kite test", "Exit code 1\n3 failed, 20 passed")
    first = story.find_episodes()[0]
    assert (first.cure, first.solution, bool(first.rejection)) == (None, "", True)
    story.works("kite test -x")
    cured = next(episode for episode in story.find_episodes() if episode.errors == first.errors)
    assert cured.cure is not None and cured.solution == "Run `kite` without `wrap`."


def test_a_look_at_the_right_values_is_not_the_cure() -> None:
    missing = 'error: context "prod" does not exist'
    episode = build_episode(
        ("kite --context prod get pods", missing), ("kite config contexts", ""), ("kite --context air get pods", "")
    )
    assert episode.solution == "Use `kite --context air` instead."


def test_the_wrong_word_identifies_the_mistake() -> None:
    """Two flags of one program are two mistakes; one flag is one, in any wording and position."""
    parallel = build_episode(("pytest --parallel", "pytest: error: unrecognized arguments: --parallel"))
    json_flag = build_episode(("pytest --json", "pytest: error: unrecognized arguments: --json"))
    elsewhere = build_episode(("cd /x && pytest tests --parallel 3", "error: no such option: --parallel"))
    assert parallel.signature == elsewhere.signature != json_flag.signature


def test_zsh_takes_a_word_with_an_equals_sign_for_a_command() -> None:
    episode = build_episode(
        ("kite list; echo ===; kite wind", "(eval):1: == not found"), ("kite list; echo '==='; kite wind", "")
    )
    assert episode.problem == "`echo ===` fails: == not found"
    assert episode.solution == "Put it in quotes: zsh takes a word that begins with `=` for the name of a command."
    assert matches_command(episode.triggers, "echo ==DIFF==") and not matches_command(
        episode.triggers, "grep -n wind src"
    )


def test_an_unknown_name_is_the_trigger_for_other_tools() -> None:
    story = StepBuilder()
    story.result(story.call("Skill", content="commit"), "Unknown skill: commit", failed=True)
    story.result(story.call("Skill", content="git:commit"), "done")
    episode = story.find_only_episode()
    assert episode.triggers == {"toolNames": ["Skill"], "contentPatterns": [r"^commit(?:\n|$)"]}
    assert (episode.problem, episode.solution) == (
        "`Skill commit` fails: Unknown skill: commit",
        "Use `Skill git:commit` instead.",
    )


def test_the_name_that_the_error_offers_is_a_cure() -> None:
    story = StepBuilder()
    error = "File does not exist. Did you mean .gustlint.yaml?"
    story.result(story.call("Read", path="/p/.gustlint.yml"), error, failed=True)
    story.result(story.call("Read", path="/p/.gustlint.yaml"), "wind: 3")
    episode = story.find_only_episode()
    assert episode.triggers == {"toolNames": ["Read"], "pathPatterns": ["**/.gustlint.yml"]}
    assert episode.solution == "Use `Read /p/.gustlint.yaml` instead."


def test_a_persons_words_count_if_they_name_a_word_of_the_call() -> None:
    refused_steps = StepBuilder()
    refused_steps.refuse("git add -A", "no, never use git add -A here, stage files by name")
    episode = refused_steps.find_only_episode()
    assert (episode.rejection, episode.solution) == ("", "no, never use git add -A here, stage files by name")
    assert matches_command(episode.triggers, "git add -A") and not matches_command(episode.triggers, "git add src/a.py")
    for words in ("really? Can't we have a setting that makes it strict?", "commit", " "):
        other_steps = StepBuilder()
        other_steps.refuse("git push origin", words)
        assert other_steps.find_only_episode().rejection, words


def test_every_pattern_stays_within_one_simple_command() -> None:
    for lesson in LESSONS:
        episode = build_episode((lesson.failing, lesson.error), (lesson.working, ""))
        for pattern in episode.triggers["commandPatterns"]:
            assert ".*" not in pattern and not re.search(r"\*\.\w+$", pattern), pattern


SETUP_LESSONS = (
    (
        "npm ci",
        "npm error code EBADENGINE",
        "source ~/.nvm/nvm.sh && nvm use 20 && npm ci",
        "`source ~/.nvm/nvm.sh && nvm use 20 && npm ci`",
    ),
    (
        "alembic upgrade head",
        "FAILED: No config file 'alembic.ini' found",
        "cd backend && alembic upgrade head",
        "`cd backend && alembic upgrade head`",
    ),
    (
        "pytest tests/api",
        "ImproperlyConfigured: define the environment variable KITE_SETTINGS first",
        "KITE_SETTINGS=test pytest tests/api",
        "`KITE_SETTINGS=test pytest",
    ),
    (
        "pytest -q",
        "bash: line 1: pytest: command not found",
        "source .venv/bin/activate && pytest -q",
        "activate && pytest`",
    ),
    ("pytest -q", "zsh:1: command not found: pytest", ". .venv/bin/activate; pytest tests", "activate && pytest`"),
    ("pytest -q", "zsh:1: command not found: pytest", "uv run pytest -q", "`uv run pytest`"),
    ("npm run lint", 'npm error Missing script: "lint"', "cd web && npm run lint", "`cd web && npm run lint`"),
    (
        "go test ./...",
        "go: go.mod file not found in current directory",
        "cd src && go test ./...",
        "`cd src && go test",
    ),
    (
        "python fly.py",
        "ModuleNotFoundError: No module named 'kite'",
        "PYTHONPATH=. python fly.py",
        "`PYTHONPATH=. python",
    ),
    (
        "python fly.py",
        "ModuleNotFoundError: No module named 'kite'",
        "export PYTHONPATH=. && python fly.py",
        "`export PYTH",
    ),
)


def test_the_setup_before_a_call_is_the_lesson() -> None:
    for failing, error, working, expected_text in SETUP_LESSONS:
        episode = build_episode((failing, error), (working, ""))
        assert episode.rejection == "" and expected_text in episode.solution, working
        assert matches_command(episode.triggers, failing), working
        assert matches_command(episode.triggers, f"git pull && {failing} 2>&1 | tail -5"), working
        assert not matches_command(episode.triggers, working), working
        assert not matches_command(episode.triggers, f"git pull; {working} | head"), working


def test_a_lesson_about_a_folder_waits_for_a_second_session_as_shells_may_stay_there() -> None:
    episode = build_episode(("npm run lint", 'npm error Missing script: "lint"'), ("cd web && npm run lint", ""))
    assert episode.score == UNNAMED_SCORE


def test_a_variable_that_the_error_names_and_the_fix_sets_is_certain() -> None:
    working = "KITE_URL=http://localhost gust deploy"
    assert build_episode(("gust deploy", "Error: KITE_URL is not set"), (working, "")).score == NAMED_SCORE
    assert build_episode(("gust deploy", "Error: connection refused"), (working, "")).score == UNNAMED_SCORE
    working = "CI=1 gust deploy"
    assert build_episode(("gust deploy", "Error: SPECIFIC wind required"), (working, "")).score == UNNAMED_SCORE


def test_a_long_error_is_cut_to_the_clauses_that_say_what_is_wrong() -> None:
    where = "gust failed while it read the arguments of the command that was given to it by the north station"
    episode = build_episode(("gust fly --wnd", f"{where}: unknown flag: --wnd"), ("gust fly --wind", ""))
    assert episode.problem == "`gust fly --wnd` fails: unknown flag: --wnd"


def test_going_back_to_the_project_is_no_lesson() -> None:
    missing = "fatal: pathspec 'src/kite.go' did not match any files"
    assert build_episode(("git add src/kite.go", missing), ("cd /home/dev/kite && git add src/kite.go", "")).rejection


def test_a_single_equals_sign_is_not_the_word_that_zsh_expands() -> None:
    triggers = build_episode(("echo === kite; ls", "(eval):1: == not found"), ("echo '=== kite'; ls", "")).triggers
    assert matches_command(triggers, "ls; echo ==== boat")
    assert not matches_command(triggers, "echo kite = boat")


def test_a_file_that_two_worktrees_lack_makes_no_lesson_for_every_project() -> None:
    worktrees = Occurrences(2, ("s2", "s1"), ("/home/dev/kite", "/home/dev/kite-two"))
    values = settings.resolve_settings({})
    for failing, error, working, scope in (
        ("python fly.py", "python: can't open file 'fly.py': No such file", "python tools/fly.py", "project"),
        ("pytest --parallel 4", PYTEST_USAGE, "pytest -n 4", "global"),
    ):
        mined = mine_episode(
            build_episode((failing, error), (working, "")), "claude-code", "/t.jsonl", "/home/dev/kite"
        )
        assert build_suggested_record([mined], worktrees, values)["scope"]["type"] == scope
