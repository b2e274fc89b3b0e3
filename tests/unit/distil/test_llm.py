"""Each model provider against a scripted server or program, and the ledger that records every attempt."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from email.utils import formatdate
from functools import partial
from itertools import pairwise
from typing import Any

import pytest

from hardwon import clock, settings
from hardwon.distil import llm
from hardwon.distil.llm import (
    Answer,
    Broken,
    Busy,
    Capped,
    Denied,
    Failed,
    Provider,
    Question,
    Refused,
)
from hardwon.distil.llm import calls as asking
from hardwon.distil.llm.calls import compute_cost, find_price
from hardwon.distil.llm.exchange import parse_retry_after
from hardwon.distil.llm.http_api import ask_anthropic, ask_openai
from hardwon.errors import UserError
from hardwon.store import db
from tests.support.model_runs import list_latest_runs
from tests.support.model_servers import COMPLETIONS, MESSAGES, ModelServer, Reply, Script
from tests.support.new_store import connect_to_new_store

KEY = "sk-made-up-" + "Zx9Qv7Lm3Kp1Rt5Yw8"
QUESTION = Question("You observe.", "what was done", "observation", 300)
CAPS = {"runsPerDay": 1_000, "tokensPerDay": 10**9, "dollarsPerDay": 1_000.0, "reflectionsPerDay": 20}
APIS = {"anthropic": (ask_anthropic, MESSAGES, ""), "openai": (ask_openai, COMPLETIONS, "/v1")}
MODELS = {"anthropic": "claude-haiku-5-5", "openai": "gpt-6-luna"}

Serve = Callable[[Script], ModelServer]


@pytest.fixture
def serve() -> Iterator[Serve]:
    open_servers: list[ModelServer] = []

    def start_server(script: Script) -> ModelServer:
        open_servers.append(ModelServer(script))
        return open_servers[-1]

    yield start_server
    for server in open_servers:
        server.close()


@pytest.fixture
def connection(own_home: str) -> Iterator[db.Connection]:
    open_connection = connect_to_new_store(os.path.join(own_home, ".hardwon"))
    yield open_connection
    open_connection.close()


@pytest.fixture(params=APIS)
def api(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def build_api_provider(server: ModelServer, name: str, timeout: float = 20.0) -> Provider:
    ask_api, _, path = APIS[name]
    ask = partial(ask_api, model=MODELS[name], url=server.url + path, read_key=lambda: KEY, timeout=timeout)
    return Provider(name, MODELS[name], ask)


def resolve_llm_settings(**llm_settings: Any) -> dict[str, Any]:
    return settings.resolve_settings({"llm": llm_settings})


def send_question(connection: db.Connection, provider: Provider, question: Question = QUESTION, **options: Any) -> str:
    waits: list[float] = options.pop("waits", [])
    caps = options.pop("caps", CAPS)
    text: str = asking.ask_model(
        connection, provider, question, lambda answer: answer.text, caps=caps, pause=waits.append, **options
    )
    return text


def list_runs(connection: db.Connection) -> list[Any]:
    return list(reversed(list_latest_runs(connection, limit=2_000, now=clock.now())))


# Answers


def test_an_answer_has_its_token_counts(serve: Serve, api: str) -> None:
    server = serve(Reply("a good answer"))
    assert build_api_provider(server, api).ask(QUESTION) == Answer("a good answer", 1_000, 50, 200, MODELS[api])
    request = server.requests[0]
    assert (request.path, request.system, request.prompt) == (APIS[api][1], "You observe.", "what was done")


def test_the_model_gets_no_tools(serve: Serve, api: str) -> None:
    server = serve(Reply("seen"))
    build_api_provider(server, api).ask(QUESTION)
    assert not {"tools", "tool_choice", "functions", "temperature"} & server.requests[0].body.keys()


def test_tokens_are_estimated_when_the_answer_has_no_counts(serve: Serve, api: str) -> None:
    answer = build_api_provider(serve(Reply("seen", usage=None)), api).ask(QUESTION)
    assert answer.tokens_in > 5 and answer.tokens_out > 0


def test_a_self_hosted_endpoint_needs_no_key(serve: Serve) -> None:
    server = serve(Reply("seen"))
    assert ask_openai(QUESTION, model="llama", url=f"{server.url}/v1", read_key=lambda: "").text == "seen"
    body = server.requests[0].body
    assert ("authorization" in server.requests[0].headers, body["max_tokens"]) == (False, 300)
    assert "reasoning_effort" not in body


# Bad replies

JUNK = b"<html>502 bad luck</html>"
BAD: dict[str, tuple[Reply, type[Failed], str]] = {
    "too many requests": (Reply(status=429, error={"message": "slow down"}), Busy, "busy"),
    "a server that fell over": (Reply(status=500, error={"message": "oh"}), Busy, "busy"),
    "a gateway's page": (Reply(status=502, raw=JUNK, kind="text/html"), Busy, "busy"),
    "an overload": (Reply(status=529, error={"type": "overloaded_error", "message": "later"}), Busy, "busy"),
    "a wrong key": (Reply(status=401, error={"message": f"bad key {KEY}"}), Denied, "denied"),
    "no such model": (Reply(status=404, error={"message": "no such model"}), Denied, "denied"),
    "a redirect": (Reply(status=307, headers={"location": "http://127.0.0.1:9/"}, error={}), Denied, "denied"),
    "a prompt that is refused": (Reply(status=400, error={"message": "too long"}), Broken, "rejected"),
    "no answer at all": (Reply(""), Broken, "malformed"),
    "a call for a tool": (Reply(tool=True), Broken, "malformed"),
    "junk": (Reply(raw=JUNK, kind="application/json"), Broken, "malformed"),
    "half of it": (Reply("a good answer " * 100, cut=700), Busy, "truncated"),
    "nothing of it": (Reply("a good answer", cut=0), Busy, "truncated"),
}


@pytest.mark.parametrize("name", BAD)
def test_each_bad_reply_has_its_own_error(serve: Serve, api: str, name: str) -> None:
    reply, error_type, outcome = BAD[name]
    with pytest.raises(Failed) as raised:
        build_api_provider(serve(reply), api).ask(QUESTION)
    assert (type(raised.value), raised.value.outcome) == (error_type, outcome)
    assert KEY not in raised.value.reason and KEY not in repr(raised.value)


@pytest.mark.parametrize("stop", ["max_tokens", "length"])
def test_a_truncated_answer_reports_its_usage(serve: Serve, api: str, stop: str) -> None:
    if (api == "anthropic") != (stop == "max_tokens"):
        pytest.skip("the other API's word")
    with pytest.raises(Broken) as raised:
        build_api_provider(serve(Reply("<observation>", stop=stop)), api).ask(QUESTION)
    assert raised.value.outcome == "truncated" and raised.value.usage and raised.value.usage.tokens_out == 50


@pytest.mark.parametrize(
    ("name", "reply"),
    [
        ("anthropic", Reply("I", stop="refusal")),
        ("openai", Reply("", refusal="I cannot help with that")),
        ("openai", Reply("I", stop="content_filter")),
    ],
)
def test_a_refusal_is_recognised_and_reports_its_usage(serve: Serve, name: str, reply: Reply) -> None:
    with pytest.raises(Refused) as raised:
        build_api_provider(serve(reply), name).ask(QUESTION)
    assert raised.value.usage and raised.value.usage.tokens_in == 1_000


def test_an_error_in_a_successful_response_is_an_error(serve: Serve, api: str) -> None:
    error = {"type": "overloaded_error", "message": f"too much {KEY}"}
    with pytest.raises(Busy, match="too much") as raised:
        build_api_provider(serve(Reply(raw=json.dumps({"error": error}).encode())), api).ask(QUESTION)
    assert KEY not in raised.value.reason


def test_an_unrequested_stream_is_malformed(serve: Serve, api: str) -> None:
    with pytest.raises(Broken) as raised:
        build_api_provider(serve(Reply(raw=b'data: {"choices": []}\n\n', kind="text/event-stream")), api).ask(QUESTION)
    assert raised.value.outcome == "malformed"


ODD = (
    b"null",
    b"[]",
    b"7",
    b'{"choices": []}',
    b'{"choices": [{"message": null}]}',
    b'{"choices": {"a": 1}}',
    b"{}",
    b'{"content": null, "usage": 3}',
    b'{"type": "message", "content": [null], "usage": {"input_tokens": "many"}}',
)


@pytest.mark.parametrize("name", APIS)
@pytest.mark.parametrize("raw", ODD)
def test_json_of_another_shape_is_malformed(serve: Serve, name: str, raw: bytes) -> None:
    with pytest.raises(Failed) as raised:
        build_api_provider(serve(Reply(raw=raw, kind="application/json")), name).ask(QUESTION)
    assert raised.value.outcome == "malformed"


SLOW = {
    "silence": Reply(silent=True),
    "half": Reply("half an answer", stalls=True),
    "a head that drips": Reply(raw=b"HTTP/1.1 200 OK\r\nx-slow: ", drips=b"x"),
    "a body that drips": Reply(drips=b" "),
}


@pytest.mark.parametrize("reply", SLOW.values(), ids=SLOW)
def test_a_slow_answer_times_out(serve: Serve, api: str, reply: Reply) -> None:
    with pytest.raises(Busy) as raised:
        build_api_provider(serve(reply), api, timeout=0.1).ask(QUESTION)
    assert (raised.value.outcome, raised.value.can_retry_now) == ("timeout", False)


def test_a_closed_port_is_reported_as_unreachable(serve: Serve, api: str) -> None:
    server = serve(Reply("seen"))
    server.close()
    with pytest.raises(Busy) as raised:
        build_api_provider(server, api).ask(QUESTION)
    assert (raised.value.outcome, raised.value.is_free) == ("unreachable", True)


def test_an_oversized_answer_is_not_read_to_its_end(serve: Serve) -> None:
    with pytest.raises(Broken, match="more than"):
        build_api_provider(serve(Reply("x" * 9_000_000)), "openai").ask(QUESTION)


@pytest.mark.parametrize(
    ("header", "expected_seconds"),
    [
        ("7", 7),
        ("0.5", 0.5),
        (formatdate(1_000_090, usegmt=True), 90),
        (formatdate(1_000, usegmt=True), 0),
        ("-3", 0),
        ("999999999", 86_400),
        ("soon", None),
        ("nan", None),
        ("inf", None),
        ("", None),
    ],
)
def test_retry_after_is_seconds_or_a_date(header: str, expected_seconds: float | None) -> None:
    assert parse_retry_after(header, 1_000_000.0) == expected_seconds


# The ledger


def test_a_good_answer_is_in_the_ledger_with_its_cost(connection: db.Connection, serve: Serve) -> None:
    provider = build_api_provider(serve(Reply("seen")), "openai")
    assert send_question(connection, provider, project="/home/dev/kite") == "seen"
    (run,) = list_runs(connection)
    assert (run.purpose, run.provider, run.model) == ("observation", "openai", "gpt-6-luna")
    assert (run.tokens_in, run.tokens_out, run.tokens_cached) == (1_000, 50, 200)
    assert (run.outcome, run.project) == ("fine", "/home/dev/kite")
    assert run.cost == pytest.approx((800 * 0.1 + 200 * 0.01 + 50 * 0.5) / 1_000_000)


@pytest.mark.parametrize("name", BAD)
def test_each_bad_reply_shows_in_the_ledger(connection: db.Connection, serve: Serve, name: str) -> None:
    reply, error_type, outcome = BAD[name]
    server = serve(reply)
    with pytest.raises(error_type):
        send_question(connection, build_api_provider(server, "openai"))
    assert [run.outcome for run in list_runs(connection)] == [outcome] * len(server.requests)
    assert len(server.requests) == (3 if error_type is Busy else 1)


def test_a_short_wait_is_retried_and_every_attempt_is_booked(connection: db.Connection, serve: Serve) -> None:
    busy = Reply(status=429, headers={"retry-after": "2"}, error={"message": "slow down"})
    server, waits = serve([busy, Reply(status=503, error={}), Reply("seen")]), list[float]()
    request_counts = list[int]()

    def record_attempt() -> None:
        request_counts.append(len(server.requests))

    assert (
        send_question(connection, build_api_provider(server, "anthropic"), waits=waits, on_attempt=record_attempt)
        == "seen"
    )
    assert (waits, request_counts) == ([2.0, 1.0], [0, 1, 2])
    booked_runs = [(run.outcome, run.tokens_in > 0, run.cost > 0) for run in list_runs(connection)]
    assert booked_runs == [("busy", False, False), ("busy", False, False), ("fine", True, True)]


def test_every_retry_is_in_the_ledger(connection: db.Connection, serve: Serve) -> None:
    server = serve(Reply(status=500, error={"message": "oh"}))
    with pytest.raises(Busy):
        send_question(connection, build_api_provider(server, "anthropic"))
    assert len(server.requests) == len(list_runs(connection)) == 3


@pytest.mark.parametrize("header", ["30", formatdate(clock.now() + 86_400, usegmt=True)], ids=["seconds", "a date"])
def test_a_long_wait_is_left_to_the_job(connection: db.Connection, serve: Serve, header: str) -> None:
    server = serve(Reply(status=429, headers={"retry-after": header}, error={}))
    with pytest.raises(Busy) as busy:
        send_question(connection, build_api_provider(server, "openai"))
    assert busy.value.retry_after and busy.value.retry_after > 20
    assert len(server.requests) == 1


def test_above_a_cap_nothing_is_sent(connection: db.Connection, serve: Serve) -> None:
    server = serve(Reply("seen"))
    for cap, limit in (("runsPerDay", 0), ("tokensPerDay", 100), ("dollarsPerDay", 0.00001)):
        with pytest.raises(Capped) as capped:
            send_question(connection, build_api_provider(server, "openai"), caps={**CAPS, cap: limit})
        assert (capped.value.cap, capped.value.is_first_today) == (cap, True)
    with pytest.raises(Capped) as capped:
        send_question(connection, build_api_provider(server, "openai"), caps={**CAPS, "runsPerDay": 0})
    assert (capped.value.is_first_today, server.requests, list_runs(connection)) == (False, [], [])


def test_a_retry_does_not_get_past_a_cap(connection: db.Connection, serve: Serve) -> None:
    server = serve(Reply(status=500, error={}))
    with pytest.raises(Capped):
        send_question(connection, build_api_provider(server, "openai"), caps={**CAPS, "runsPerDay": 2})
    assert len(server.requests) == 2


def test_an_answer_that_cannot_be_used_is_booked_with_what_it_cost(connection: db.Connection, serve: Serve) -> None:
    def refuse_answer(answer: Answer) -> str:
        raise Broken(f"not this: {answer.text}", outcome="malformed")

    with pytest.raises(Broken):
        asking.ask_model(
            connection, build_api_provider(serve(Reply("junk")), "openai"), QUESTION, refuse_answer, caps=CAPS
        )
    (run,) = list_runs(connection)
    assert (run.outcome, run.why, run.tokens_in) == ("malformed", "not this: junk", 1_000)


def test_a_timeout_is_booked_at_its_maximum_cost(connection: db.Connection, serve: Serve) -> None:
    with pytest.raises(Busy):
        send_question(connection, build_api_provider(serve(Reply(silent=True)), "openai", timeout=0.2))
    (run,) = list_runs(connection)
    assert (run.outcome, run.tokens_out) == ("timeout", 300) and run.cost > 0


@pytest.mark.parametrize("stop", [KeyboardInterrupt, SystemExit])
def test_an_aborted_call_is_in_the_ledger(connection: db.Connection, stop: type[BaseException]) -> None:
    def stop_call(question: Question) -> Answer:
        raise stop

    with pytest.raises(stop):
        send_question(connection, Provider("openai", "gpt-6-luna", stop_call))
    (run,) = list_runs(connection)
    assert (run.outcome, run.tokens_out) == ("aborted", 300)


# A separate process that asks a number of times, or until a cap.
ASKER = """
import functools, signal, sys
from hardwon import paths
from hardwon.distil.llm import Capped, Provider, Question
from hardwon.distil.llm.calls import ask_model
from hardwon.distil.llm.http_api import ask_openai
from hardwon.store import db
signal.signal(signal.SIGINT, signal.default_int_handler)  # the test runner may ignore it
url, times, most = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
call = functools.partial(ask_openai, model="gpt-6-luna", url=url, read_key=lambda: "k", timeout=60)
caps = {"runsPerDay": most, "tokensPerDay": 10**9, "dollarsPerDay": 1000.0, "reflectionsPerDay": 20}
connection = db.connect(paths.get_home())
for _ in range(times):
    try:
        ask_model(connection, Provider("openai", "gpt-6-luna", call), Question("s", "p", "observation"), str, caps=caps)
    except Capped:
        break
"""


def start_asker(server: ModelServer, times: int, limit: int) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-c", ASKER, f"{server.url}/v1", str(times), str(limit)]
    return subprocess.Popen(command, stderr=subprocess.PIPE)


def test_sixteen_processes_at_once_stop_at_the_cap(connection: db.Connection, serve: Serve) -> None:
    server = serve(Reply("seen"))
    children = [start_asker(server, 10, 53) for _ in range(16)]
    assert [child.wait() for child in children] == [0] * 16
    assert (len(server.requests), len(list_runs(connection))) == (53, 53)


def wait_for_a_request(server: ModelServer) -> None:
    deadline = time.monotonic() + 60
    while not server.requests:
        assert time.monotonic() < deadline, "nothing was asked"
        time.sleep(0.01)


def test_an_interrupted_process_says_so_in_the_ledger(connection: db.Connection, serve: Serve) -> None:
    server = serve(Reply(silent=True))
    child = start_asker(server, 1, 10)
    wait_for_a_request(server)
    child.send_signal(signal.SIGINT)
    assert child.wait() != 0
    (run,) = list_runs(connection)
    assert (run.outcome, run.tokens_out) == ("aborted", 4_000)


def test_a_killed_process_leaves_its_booking(connection: db.Connection, serve: Serve) -> None:
    server = serve(Reply(silent=True))
    child = start_asker(server, 1, 10)
    wait_for_a_request(server)
    child.kill()
    child.wait()
    (run,) = list_runs(connection)
    assert (run.outcome, run.tokens_out) == ("begun", 4_000) and run.cost > 0


def test_private_parts_and_secrets_are_removed_before_sending(connection: db.Connection, serve: Serve) -> None:
    secret = "ghp_" + "A1b2C3d4E5f6G7h8J9k0L1m2N3p4Q5r6S7t8"
    server = serve(Reply("seen"))
    question = Question("sys", f"before <private>my diary</private> after {secret}", "observation")
    send_question(connection, build_api_provider(server, "openai"), question)
    prompt = server.requests[0].prompt
    assert prompt.startswith("before  after") and "diary" not in prompt and secret not in prompt


def test_the_key_is_in_the_request_and_nowhere_else(
    own_home: str, connection: db.Connection, serve: Serve, api: str, capfd: Any
) -> None:
    server = serve([Reply(status=429, error={"message": f"slow down {KEY}"}), Reply(f"you are {KEY}")])
    provider = build_api_provider(server, api)
    send_question(connection, provider)
    assert KEY in json.dumps(dict(server.requests[-1].headers))
    assert KEY not in server.requests[-1].raw.decode() and KEY not in repr(provider)
    assert find_files_with(KEY, own_home) == []
    assert KEY not in "".join(capfd.readouterr())


def find_files_with(text: str, folder: str) -> list[str]:
    matching_names = []
    for subfolder, _, names in os.walk(folder):
        for name in names:
            with open(os.path.join(subfolder, name), "rb") as file:
                if text.encode() in file.read():
                    matching_names.append(name)
    return matching_names


# Choosing


def test_no_provider_is_used_by_default() -> None:
    assert llm.provider(resolve_llm_settings(), {}) is None


@pytest.mark.parametrize("name", ["anthropic", "openai", "claude"])
def test_each_provider_has_a_model_whose_price_is_known(name: str) -> None:
    chosen = llm.provider(resolve_llm_settings(provider=name), {})
    assert chosen and chosen.name == name and find_price(chosen.model) != find_price("never heard of")


def test_the_key_is_read_when_it_is_needed(serve: Serve) -> None:
    server, environment = serve(Reply("seen")), dict[str, str]()
    resolved = resolve_llm_settings(
        provider="anthropic", baseUrl=server.url, apiKeyEnv="MY_KEY", model="claude-sonnet-5-5"
    )
    chosen = llm.provider(resolved, environment)
    assert chosen
    with pytest.raises(Denied):
        chosen.ask(QUESTION)
    environment |= {"MY_KEY": f" {KEY}\n", "ANTHROPIC_API_KEY": "another"}
    assert chosen.ask(QUESTION).text == "seen"
    request = server.requests[0]
    assert KEY in json.dumps(dict(request.headers)) and "another" not in json.dumps(dict(request.headers))
    assert request.body["model"] == "claude-sonnet-5-5"


def test_an_invalid_key_is_not_shown(serve: Serve) -> None:
    server = serve(Reply("seen"))
    for name in ("anthropic", "openai"):
        chosen = llm.provider(
            resolve_llm_settings(provider=name, baseUrl=server.url, apiKeyEnv="K"), {"K": f"{KEY}\nx: y{KEY}"}
        )
        with pytest.raises(Denied) as denied:
            assert chosen and chosen.ask(QUESTION)
        assert KEY not in str(denied.value) and "K is not" in denied.value.reason
    assert server.requests == []


@pytest.mark.parametrize(
    "url",
    [
        "http://models.example/v1",
        "http://10.0.0.7/v1",
        "http://127.0.0.1.example/",
        "http://localhost.example/",
        "ftp://127.0.0.1/",
        "models.example",
        "https://",
        "https://me:secret@models.example/",
        "https://[::1/",
        "https://models.example:port/",
        "https://models.example/v1?key=1",
        "https://models.example/v 1",
        "http://0.0.0.0/",
    ],
)
def test_an_address_that_would_leak_the_key_is_refused(url: str) -> None:
    with pytest.raises(UserError) as refused:
        llm.provider(resolve_llm_settings(provider="openai", baseUrl=url), {})
    assert "secret" not in refused.value.message


@pytest.mark.parametrize(
    "url", ["https://models.example/v1/", "http://127.0.0.1:11434/v1", "http://localhost:1234", "http://[::1]:8080/v1"]
)
def test_an_address_on_this_machine_or_encrypted_is_fine(url: str) -> None:
    assert llm.provider(resolve_llm_settings(provider="openai", baseUrl=url), {})


def test_an_unknown_model_costs_more_than_any_known_one() -> None:
    known_prices = [
        find_price(name) for name in ("claude-fable-5-1", "gpt-5.4", "claude-haiku-4-5-20251001", "openai/gpt-6-luna")
    ]
    unknown_price = find_price("gpt-6-luna-ultra")
    assert all(
        price.input_dollars < unknown_price.input_dollars and price.output_dollars < unknown_price.output_dollars
        for price in known_prices
    )
    assert known_prices[2] == find_price("claude-haiku-4-5") != known_prices[3]
    assert compute_cost("claude-haiku-4-5", 1_000_000, 1_000_000, 0) == pytest.approx(6.0)


# The claude program

PROGRAM = """#!{python} -I
import json, os, sys
with open({record!r}, "a") as out:
    json.dump({{"argv": sys.argv, "env": dict(os.environ), "stdin": sys.stdin.read(), "cwd": os.listdir("."),
               "pid": os.getpid()}}, out)
    out.write("\\n")
scripted = json.loads({scripted!r})
sys.stdout.write(scripted["out"])
sys.stderr.write(scripted["err"])
sys.exit(scripted["code"])
"""


# A shell, because it starts at once: it has recorded its number long before the timeout of a test.
HANGING_PROGRAM = """#!/bin/sh
echo "{{\\"pid\\": $$}}" > {record}
read -r line < {pipe}
"""


class Program:
    """A scripted `claude` program on its own PATH."""

    def __init__(self, folder: Any) -> None:
        self.folder, self.record = folder, str(folder / "record.jsonl")
        self.environment = {
            "PATH": str(folder),
            "HOME": str(folder),
            "CLAUDECODE": "1",
            "HARDWON_HOME": "/home/dev/.hardwon",
        }

    def script_answer(
        self, result: dict[str, Any] | None = None, *, out: str = "", err: str = "", code: int = 0
    ) -> None:
        text = json.dumps({"type": "result", "subtype": "success", "is_error": False, **result}) if result else out
        scripted = json.dumps({"out": text, "err": err, "code": code})
        self._write_program(PROGRAM.format(python=sys.executable, record=self.record, scripted=scripted))

    def script_hang(self) -> None:
        pipe = self.folder / "never-written"
        os.mkfifo(pipe)
        self._write_program(HANGING_PROGRAM.format(record=self.record, pipe=pipe))

    def _write_program(self, program: str) -> None:
        path = self.folder / "claude"
        path.write_text(program)
        path.chmod(0o755)

    def build_provider(self, **llm_settings: Any) -> Provider:
        chosen = llm.provider(resolve_llm_settings(provider="claude", **llm_settings), self.environment)
        assert chosen
        return chosen

    def read_runs(self) -> list[dict[str, Any]]:
        with open(self.record) as file:
            return [json.loads(line) for line in file]


@pytest.fixture
def program(tmp_path: Any) -> Program:
    return Program(tmp_path)


USED = {
    "usage": {"input_tokens": 90, "cache_read_input_tokens": 10, "cache_creation_input_tokens": 0, "output_tokens": 7},
    "total_cost_usd": 0.0042,
    "modelUsage": {"claude-haiku-5-5": {}},
}


def test_claude_answers_without_tools_hooks_or_a_transcript(program: Program) -> None:
    program.script_answer({"result": "seen", "stop_reason": "end_turn", **USED})
    assert program.build_provider().ask(QUESTION) == Answer("seen", 100, 7, 10, "claude-haiku-5-5", 0.0042)
    (run,) = program.read_runs()
    argv = run["argv"]
    option_values = dict(pairwise(argv))
    assert "-p" in argv and {"--strict-mcp-config", "--no-session-persistence", "--disable-slash-commands"} < set(argv)
    assert (option_values["--tools"], option_values["--disallowedTools"], option_values["--max-turns"]) == (
        "",
        "*",
        "1",
    )
    assert json.loads(option_values["--settings"]) == {"disableAllHooks": True}
    assert (option_values["--model"], option_values["--system-prompt"]) == ("haiku", "You observe.")
    assert (run["stdin"], run["cwd"]) == ("what was done", [])


def test_the_prompt_and_the_key_are_not_in_the_arguments(program: Program, connection: db.Connection) -> None:
    program.environment["ANTHROPIC_API_KEY"] = KEY
    program.script_answer({"result": f"seen {KEY}", **USED})
    send_question(connection, program.build_provider())
    (run,) = program.read_runs()
    assert "what was done" not in " ".join(run["argv"]) and KEY not in " ".join(run["argv"])
    assert run["env"]["ANTHROPIC_API_KEY"] == KEY
    assert not {"CLAUDECODE", "HARDWON_HOME"} & run["env"].keys()
    assert run["env"]["CLAUDE_CODE_MAX_RETRIES"] == "0"
    (row,) = list_runs(connection)
    assert (row.cost, row.outcome) == (0.0042, "fine") and KEY not in repr(row) + repr(program.build_provider())


def test_claude_gets_only_the_key_that_is_named(program: Program) -> None:
    program.environment |= {"ANTHROPIC_API_KEY": "another", "MY_KEY": KEY, "CLAUDE_CODE_OAUTH_TOKEN": "third"}
    program.script_answer({"result": "seen"})
    program.build_provider(apiKeyEnv="MY_KEY", baseUrl="https://models.example").ask(QUESTION)
    program.build_provider(apiKeyEnv="CLAUDE_CODE_OAUTH_TOKEN").ask(QUESTION)
    first, second = (run["env"] for run in program.read_runs())
    assert (first["ANTHROPIC_API_KEY"], "CLAUDE_CODE_OAUTH_TOKEN" in first) == (KEY, False)
    assert first["ANTHROPIC_BASE_URL"] == "https://models.example" and "MY_KEY" not in first
    assert (second["CLAUDE_CODE_OAUTH_TOKEN"], "ANTHROPIC_API_KEY" in second) == ("third", False)


@pytest.mark.parametrize(
    ("result", "error_type", "outcome"),
    [
        ({"is_error": True, "api_error_status": 429, "result": "API Error: 429"}, Busy, "busy"),
        ({"is_error": True, "api_error_status": 529, "result": "API Error: 529"}, Busy, "busy"),
        ({"is_error": True, "api_error_status": 401, "result": f"bad key {KEY}"}, Denied, "denied"),
        ({"is_error": True, "stop_reason": "refusal", "result": "API Error: policy"}, Refused, "refused"),
        ({"is_error": True, "result": f"too long {KEY}"}, Broken, "broken"),
        ({"subtype": "error_max_turns"}, Broken, "broken"),
        ({"result": "  "}, Broken, "malformed"),
        ({"result": ["seen"]}, Broken, "malformed"),
    ],
)
def test_each_failure_of_claude_has_its_own_error(
    program: Program, result: dict[str, Any], error_type: type[Failed], outcome: str
) -> None:
    program.environment["ANTHROPIC_API_KEY"] = KEY
    program.script_answer(result, code=1)
    with pytest.raises(Failed) as raised:
        program.build_provider().ask(QUESTION)
    assert (type(raised.value), raised.value.outcome) == (error_type, outcome)
    assert KEY not in raised.value.reason


@pytest.mark.parametrize("out", ["", "seen", "null", "[]", '{"type": "result"', '{"type": "system"}'])
def test_output_of_claude_in_another_format_is_broken(program: Program, out: str) -> None:
    program.environment["ANTHROPIC_API_KEY"] = KEY
    program.script_answer(out=out, err=f"error: unknown option --tools {KEY}", code=1)
    with pytest.raises(Broken, match="unknown option") as raised:
        program.build_provider().ask(QUESTION)
    assert KEY not in raised.value.reason


def test_a_hanging_claude_is_killed(program: Program) -> None:
    from hardwon.distil.llm import claude_cli

    program.script_hang()
    with pytest.raises(Busy) as raised:
        claude_cli.ask(QUESTION, model="haiku", read_environment=lambda: program.environment, timeout=0.4)
    assert raised.value.outcome == "timeout"
    with pytest.raises(ProcessLookupError):
        os.kill(program.read_runs()[0]["pid"], 0)


def test_a_missing_claude_is_reported(program: Program) -> None:
    with pytest.raises(Denied, match="no claude on the PATH"):
        program.build_provider().ask(QUESTION)


def test_a_model_cannot_be_an_option(program: Program) -> None:
    with pytest.raises(UserError):
        program.build_provider(model="--dangerously-skip-permissions")
