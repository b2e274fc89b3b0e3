"""The bookkeeping of `make bench-prevention`: expected effects, statistics, and the text its models read."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer

import numpy as np
import pytest
from prevention import compare_rates
from prevention_policies import RemotePolicy, ScriptedPolicy, build_turns, read_command
from prevention_traps import TRAPS, UNRELATED_LESSONS, build_lesson_file, choose_placebo

TRAP = TRAPS[0]


def test_a_scripted_policy_heeds_only_a_text_that_it_received() -> None:
    policy = ScriptedPolicy(heed=1.0)
    turns_without_lesson = [("user", TRAP.prompts[0])]
    turns_with_lesson = [
        *turns_without_lesson,
        ("assistant", f"$ {TRAP.wrong}"),
        ("user", f"held: {TRAP.lesson.solution}"),
    ]
    assert all(policy.choose(turns_without_lesson, TRAP, str(seed)) != TRAP.right for seed in range(50))
    assert all(policy.choose(turns_with_lesson, TRAP, str(seed)) == TRAP.right for seed in range(50))


def test_a_policy_does_not_heed_its_own_words() -> None:
    turns = [("user", TRAP.prompts[0]), ("assistant", TRAP.lesson.solution)]
    assert ScriptedPolicy(heed=1.0).choose(turns, TRAP, "1") != TRAP.right


def test_the_expected_failure_rate_follows_from_habit_and_heed() -> None:
    policy = ScriptedPolicy(heed=0.7)
    habit = policy.get_habit(TRAP)
    rate_without_hold = policy.expect_failure(TRAP, is_told=False, is_held=False, teaches=False, calls=1)
    rate_with_hold = policy.expect_failure(TRAP, is_told=False, is_held=True, teaches=True, calls=1)
    assert rate_without_hold == pytest.approx(habit)
    assert rate_with_hold == pytest.approx(habit * 0.3 * habit)


def test_the_interval_excludes_zero_for_an_effect_and_includes_it_for_noise() -> None:
    base = np.linspace(0.6, 0.9, 12)
    spread = np.array([0.05, -0.05] * 6)
    effect, noise = compare_rates(base - 0.3 + spread, base), compare_rates(base + spread, base)
    assert -0.4 < effect.low < -0.3 < effect.high < -0.2
    assert effect.p_value < 0.01
    assert noise.low < 0 < noise.high


def test_reminders_of_the_client_are_dropped_and_other_text_is_unchanged() -> None:
    reminder = "<system-reminder>\nToday's date is 2026-01-01.\n</system-reminder>"
    lesson = "<system-reminder>\nPreToolUse:Bash hook additional context: use podman\n</system-reminder>"
    content = [
        {"type": "tool_result", "content": f"Exit code 1\nno daemon\n\n{reminder}"},
        {"type": "text", "text": lesson},
    ]
    assert build_turns([{"role": "user", "content": content}]) == [("user", f"Exit code 1\nno daemon\n{lesson}")]


def test_every_trap_has_a_lesson_with_its_fix_and_a_placebo_without() -> None:
    for trap in TRAPS:
        assert trap.right in trap.lesson.solution
        assert not any(word in str(choose_placebo(trap)) for word in (trap.right, trap.wrong))
    assert len({choose_placebo(trap) for trap in TRAPS}) == len(TRAPS)
    assert len(TRAPS) + len(UNRELATED_LESSONS) == 51
    assert build_lesson_file(TRAP).count("\n- ") == 51


@pytest.mark.parametrize(
    ("answer", "command"),
    [("npm test", "npm test"), ("$ npm test\n", "npm test"), ("```sh\nnpm test\n```", "npm test"), ("`ls`", "ls")],
)
def test_a_command_is_read_from_a_free_answer(answer: str, command: str) -> None:
    assert read_command(answer) == command


@pytest.fixture
def chat_server() -> Iterator[HTTPServer]:
    """Serve chat completions that repeat the last message of the request."""

    class Routes(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["content-length"])))
            message = {"content": f"```\n{body['messages'][-1]['content']}\n```"}
            content = json.dumps({"choices": [{"message": message}]}).encode()
            self.send_response(200)
            self.send_header("content-length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, message_format: str, *args: object) -> None:
            """Print nothing, so that pytest's output shows only the tests."""

    server = HTTPServer(("127.0.0.1", 0), Routes)
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    yield server
    server.shutdown()
    server.server_close()


def test_a_real_model_is_asked_over_its_base_url(chat_server: HTTPServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MODEL_URL", f"http://127.0.0.1:{chat_server.server_port}/v1/")
    monkeypatch.setenv("MODEL_NAME", "any")
    assert RemotePolicy().choose([("user", "go test ./...")], TRAP, "1") == "go test ./..."
