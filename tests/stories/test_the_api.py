"""The worker over HTTP: for the token's holder on this machine, to read and to report, never to approve."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any
from urllib.parse import unquote

import httpx
import pytest

from hardwon import clock
from hardwon.web.live import LiveFeed
from tests.support.distilled_store import DistilledStore
from tests.support.house import GIT_STASH, House, bash, lesson, used, wait_for

IS_LONG_RUN = bool(os.environ.get("HARDWON_LONG"))  # read here: no test sees the variable
EXAMPLES_PER_OPERATION = 50 if IS_LONG_RUN else 3
PHASES = "examples,coverage,fuzzing" if IS_LONG_RUN else "examples,fuzzing"


def wait_for_port(house: House) -> int:
    """The API comes up a moment after the hooks' socket."""
    for _ in range(1500):
        if port := house.status()["port"]:
            return int(port)
        time.sleep(0.05)
    raise AssertionError("no port")


def read_token(house: House) -> str:
    with open(os.path.join(house.home, "token")) as file:
        return file.read().strip()


@pytest.fixture(scope="module")
def house(shared_house: House) -> House:
    """One house and worker that all tests of this module share."""
    return shared_house


@pytest.fixture(scope="module")
def api(house: House) -> Iterator[httpx.Client]:
    house.ok("config", "set", "apiPort", "0")
    house.ok("start")
    port = wait_for_port(house)
    headers = {"authorization": f"Bearer {read_token(house)}"}
    with httpx.Client(base_url=f"http://127.0.0.1:{port}", headers=headers, timeout=300, trust_env=False) as client:
        yield client


def test_the_token_opens_it_and_nothing_else_does(api: httpx.Client, house: House) -> None:
    assert api.get("/api/health").json()["status"] == "ok"
    for wrong in ("", "Bearer", "Bearer x", f"Basic {read_token(house)}", f"Bearer {read_token(house)}x"):
        refused = api.get("/api/health", headers={"authorization": wrong})
        assert (refused.status_code, "token" in refused.json()["fix"]) == (401, True)
    assert os.stat(os.path.join(house.home, "token")).st_mode & 0o777 == 0o600


def test_a_caller_that_hangs_up_at_once_is_not_let_in_for_having_no_address(api: httpx.Client, house: House) -> None:
    port = api.base_url.port
    assert port
    body = json.dumps({"claudeSessionId": "hung-up", "cwd": "/home/dev/kite", "userPrompt": "let me in"}).encode()
    head = f"POST /api/sessions/init HTTP/1.1\r\nHost: evil.example\r\nContent-Length: {len(body)}\r\n"
    worker = house.status()["pid"]
    os.kill(worker, signal.SIGSTOP)  # they are gone before anybody looks who called
    for _ in range(20):
        with socket.create_connection(("127.0.0.1", port)) as caller:
            caller.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # closing resets
            caller.sendall(f"{head}Content-Type: application/json\r\n\r\n".encode() + body)
    os.kill(worker, signal.SIGCONT)
    assert api.post("/api/sessions/init", content=body.replace(b"let me", b"I am")).status_code == 200
    stored_prompts = [row["prompt"] for row in house.stored("prompts")]
    assert ("I am in" in stored_prompts, "let me in" in stored_prompts) == (True, False)


@pytest.mark.parametrize("name", ["evil.example", "evil.example:80", "127.0.0.1.evil.example", "", "localhost:1"])
def test_a_name_that_is_not_ours_is_refused(api: httpx.Client, name: str) -> None:
    assert api.get("/api/health", headers={"host": name}).status_code in (400, 421)


@pytest.mark.parametrize("origin", ["http://evil.example", "null", "http://127.0.0.1:1", "https://hardwon.localhost"])
def test_a_page_of_another_origin_is_refused_even_with_the_token(api: httpx.Client, origin: str) -> None:
    refused = api.get("/api/health", headers={"origin": origin})
    assert (refused.status_code, "access-control-allow-origin" in refused.headers) == (403, False)


def test_a_body_may_not_be_huge(api: httpx.Client) -> None:
    assert api.post("/api/sessions/init", content=b"x" * 2_000_000).status_code == 413

    def endless() -> Iterator[bytes]:
        for _ in range(50):
            yield b"x" * 1_000_000

    try:
        assert api.post("/api/sessions/init", content=endless()).status_code == 413
    except httpx.WriteError:
        pass  # the door was shut in the middle of it
    assert api.get("/api/health").status_code == 200


def test_a_slow_caller_is_given_up_and_others_are_served_meanwhile(api: httpx.Client, house: House) -> None:
    port = api.base_url.port
    assert port
    with (
        socket.create_connection(("127.0.0.1", port)) as slower,
        socket.create_connection(("127.0.0.1", port)) as slow,
    ):
        slower.sendall(b"GET /api/health HTTP/1.1\r\nHost: ")
        head = (
            f"POST /api/processing HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nAuthorization: Bearer {read_token(house)}\r\n"
        )
        slow.sendall(f"{head}Content-Length: 30\r\n\r\n".encode())
        assert api.get("/api/health").status_code == 200
        assert b"408" in slow.recv(4096).split(b"\r\n")[0]
        slower.settimeout(300)
        assert slower.recv(4096) == b""


@pytest.mark.parametrize(
    "session_id", ["../../etc/passwd", "..%2f..%2fetc%2fpasswd", "a%00b", "'; drop table sessions", "%"]
)
def test_an_id_is_only_an_id(api: httpx.Client, session_id: str) -> None:
    for answer in (
        api.get(f"/api/sessions/{session_id}"),
        api.post(f"/sessions/{session_id}/init", json={"userPrompt": "x"}),
    ):
        assert answer.status_code < 500
    assert api.get("/api/sessions").status_code == 200


@pytest.mark.parametrize("session_id", ["a%00b", "a%1bb", "abc%0a", "a" * 5_000])
def test_an_id_in_the_path_is_held_to_what_one_in_a_body_is(api: httpx.Client, session_id: str) -> None:
    path_answer = api.post(f"/sessions/{session_id}/init", json={"userPrompt": "x"})
    body_answer = api.post("/api/sessions/init", json={"claudeSessionId": unquote(session_id), "userPrompt": "x"})
    assert (path_answer.status_code, body_answer.status_code, bool(path_answer.json()["fix"])) == (400, 400, True)


def test_a_session_is_found_by_its_own_id_first_and_by_its_host_if_two_have_it(api: httpx.Client) -> None:
    first = api.post("/api/sessions/init", json={"claudeSessionId": "e1", "userPrompt": "x", "host": "one"}).json()
    as_number = str(first["sessionDbId"])
    api.post("/api/sessions/init", json={"claudeSessionId": as_number, "userPrompt": "x", "host": "one"})
    assert api.get(f"/api/sessions/{as_number}").json()["session"] == as_number
    assert api.get("/api/sessions/e1").json()["host"] == "one"
    second = api.post("/api/sessions/init", json={"claudeSessionId": "e1", "userPrompt": "y", "host": "two"}).json()
    assert (second["sessionDbId"] != first["sessionDbId"], second["promptNumber"]) == (True, 1)
    unsaid = api.get("/api/sessions/e1")
    assert (unsaid.status_code, "?host=one" in unsaid.json()["fix"]) == (400, True)
    assert api.get("/api/sessions/e1", params={"host": "two"}).json()["id"] == second["sessionDbId"]


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/api/sessions/init", b"{"),
        ("/api/sessions/init", b"[]"),
        ("/api/sessions/init", b'{"claudeSessionId": 5}'),
        ("/api/sessions/init", b'{"claudeSessionId": ""}'),
        ("/api/sessions/observations", b'{"claudeSessionId": "s"}'),
        ("/api/processing", b'{"isProcessing": "yes"}'),
        ("/api/sessions/init", b"[" * 100_000),
    ],
)
def test_a_wrong_body_is_told_what_is_wrong(api: httpx.Client, path: str, body: bytes) -> None:
    answer = api.post(path, content=body)
    assert (answer.status_code, bool(answer.json()["error"]), bool(answer.json()["fix"])) == (400, True, True)


def test_an_editor_reports_a_session_from_its_start_to_its_end(api: httpx.Client, house: House) -> None:
    """The calls that an extension makes: activate, command, chat participant, save, active editor, deactivate."""
    assert "#lesson" in api.get("/api/context/inject", params={"project": "/home/dev/kite"}).text
    session = {"claudeSessionId": "editor-1", "cwd": "/home/dev/kite", "host": "vscode"}
    first = api.post("/api/sessions/init", json={**session, "userPrompt": "rename the kite"}).json()
    second = api.post(
        "/sessions/editor-1/init", json={"userPrompt": "and the boat", "cwd": "/home/dev/kite", "host": "vscode"}
    )
    assert (first["promptNumber"], second.json()["promptNumber"], first["sessionDbId"]) == (
        1,
        2,
        second.json()["sessionDbId"],
    )
    assert api.post("/api/processing", json={"isProcessing": True}).json() == {"isProcessing": True}
    saved = {"tool_name": "FileSave", "tool_input": {"path": "/home/dev/kite/a.py"}, "tool_response": "saved"}
    opened = {"tool_name": "FileOpen", "tool_input": {"path": "/home/dev/kite/b.py"}, "tool_response": "opened"}
    for report in (saved, opened):
        assert api.post("/api/sessions/observations", json={**session, **report}).json() == {"status": "queued"}
    messages = {"last_user_message": "and the boat", "last_assistant_message": "both are renamed"}
    assert api.post("/api/sessions/summarize", json={**session, **messages}).json() == {"status": "queued"}
    assert api.post("/api/sessions/complete", json={**session, "reason": "exit"}).json() == {"status": "completed"}
    session_record = api.get("/api/sessions/editor-1").json()
    assert (session_record["status"], session_record["reason"], session_record["prompts"], session_record["host"]) == (
        "completed",
        "exit",
        2,
        "vscode",
    )
    assert [event["tool"] for event in session_record["eventList"] if event["kind"] == "tool"] == [
        "FileSave",
        "FileOpen",
    ]


NAMED_BY_BODY = [f"{lead}/sessions/{name}" for lead in ("/api", "") for name in ("init", "observations", "summarize")]
NAMED_BY_PATH = [path.replace("/sessions/", "/sessions/1/") for path in NAMED_BY_BODY]
ENDS = ["/api/sessions/complete", "/sessions/complete", "/api/sessions/1/complete", "/sessions/1/complete"]
SPELLINGS = [*NAMED_BY_BODY, *NAMED_BY_PATH, *ENDS]


@pytest.mark.parametrize("path", SPELLINGS)
def test_every_spelling_is_behind_the_same_gate(api: httpx.Client, house: House, path: str) -> None:
    body = {"claudeSessionId": "gated", "userPrompt": "let me in", "tool_name": "Bash", "cwd": "/home/dev/kite"}
    refusals = {
        401: {"authorization": "Bearer x"},
        403: {"origin": "http://evil.example"},
        421: {"host": "evil.example"},
    }
    for status, headers in refusals.items():
        assert api.post(path, json=body, headers=headers).status_code == status
    assert api.post(path, content=b"x" * 2_000_000).status_code == 413
    assert "gated" not in [row["session"] for row in house.stored("sessions")]
    assert "let me in" not in [row["prompt"] for row in house.stored("prompts")]


def test_the_example_for_vs_code_works_as_it_is_written(api: httpx.Client, house: House) -> None:
    """As in the description of the lifecycle, but for the token: init without /api, with `sessionId`, as plain text."""
    context = api.get("/api/context/inject", params={"project": "wharf"})
    assert context.status_code == 200
    body = json.dumps({"sessionId": "code-1", "project": "wharf", "userPrompt": "paint the wharf"})
    created = api.post("/sessions/init", content=body, headers={"content-type": "text/plain;charset=UTF-8"}).json()
    assert (created["promptNumber"], created["skipped"]) == (1, False)
    saved = {
        "claudeSessionId": "code-1",
        "tool_name": "FileSave",
        "tool_input": {"path": "/home/dev/wharf/paint.py"},
        "tool_response": "File saved successfully",
    }
    assert api.post("/api/sessions/observations", json=saved).json() == {"status": "queued"}
    api.post("/sessions/summarize", json={"sessionId": "code-1", "last_assistant_message": "it is blue"})
    api.post("/sessions/complete", json={"sessionId": "code-1", "reason": "exit"})
    wait_for(lambda: bool(api.get("/api/sessions/code-1").json()["observations"]))
    session_record = api.get("/api/sessions/code-1").json()
    assert (session_record["id"], session_record["status"], session_record["prompts"]) == (
        created["sessionDbId"],
        "completed",
        1,
    )
    (observation,) = session_record["observations"]
    assert "/home/dev/wharf/paint.py" in observation["files_modified"]
    assert "paint.py" in observation["title"] and "FileSave" not in observation["title"]


def test_a_file_that_was_only_shown_counts_as_read(api: httpx.Client) -> None:
    session = {"sessionId": "code-2", "cwd": "/home/dev/wharf"}
    api.post("/sessions/init", json={**session, "userPrompt": "look at the wharf"})
    opened = {"tool_name": "FileOpen", "tool_input": {"path": "/home/dev/wharf/paint.py"}, "tool_response": "opened"}
    saved = {"tool_name": "FileSave", "tool_input": {"path": "/home/dev/wharf/rail.py"}, "tool_response": "saved"}
    for report in (opened, saved):
        api.post("/sessions/observations", json={**session, **report})
    api.post("/sessions/summarize", json=session)
    wait_for(lambda: bool(api.get("/api/sessions/code-2").json()["observations"]))
    (observation,) = api.get("/api/sessions/code-2").json()["observations"]
    assert (observation["files_read"], observation["files_modified"]) == (["paint.py"], ["rail.py"])


def test_an_event_that_is_reported_later_has_its_own_time_and_is_stored_once(api: httpx.Client) -> None:
    happened = clock.now() - 3600
    session = {"sessionId": "late-1", "cwd": "/home/dev/wharf", "host": "vscode"}
    saved = {"tool_name": "FileSave", "tool_input": {"path": "/home/dev/wharf/rail.py"}, "tool_use_id": "save-1"}
    api.post("/api/sessions/init", json={**session, "at": happened})
    for _ in range(2):  # the first answer came too late
        api.post("/api/sessions/observations", json={**session, **saved, "at": happened + 60})
    api.post("/api/sessions/summarize", json={**session, "at": clock.now() + 3600})
    events = api.get("/api/sessions/late-1").json()["eventList"]
    times = [(event["kind"], event["at"]) for event in events]
    assert times[:2] == [("SessionStart", happened), ("tool", happened + 60)] and len(times) == 3
    assert times[2][1] <= clock.now()  # nothing comes from the future


def test_an_editor_asks_for_the_lessons_about_a_file(api: httpx.Client, house: House) -> None:
    words = ("--summary", "rail.py is generated", "--problem", "what is changed in rail.py is lost with the next build")
    house.ok(
        "lessons", "add", *words, "--solution", "Edit make_rail.py and run make", "--tool", "Edit", "--path", "rail.py"
    )

    def ask(file: str) -> list[str]:
        return [lesson["summary"] for lesson in api.get("/api/lessons", params={"file": file}).json()["lessons"]]

    assert ask("/home/dev/wharf/rail.py") == ["rail.py is generated"]
    assert ask("/home/dev/wharf/paint.py") == []
    assert api.get("/api/deliveries").json()["deliveries"] == []


@pytest.mark.parametrize("lead", ["/api", ""])
def test_a_session_goes_on_under_the_number_that_init_gave(api: httpx.Client, house: House, lead: str) -> None:
    own_id = f"own-{lead.strip('/')}-id"
    created = api.post(
        "/api/sessions/init", json={"claudeSessionId": own_id, "cwd": "/home/dev/kite", "host": "vscode"}
    )
    number, session_count = created.json()["sessionDbId"], len(house.stored("sessions"))
    path = f"{lead}/sessions/{number}"
    first = api.post(f"{path}/init", json={"project": "kite", "userPrompt": "one", "promptNumber": 1}).json()
    repeated = api.post(f"{path}/init", json={"project": "kite", "userPrompt": "one", "promptNumber": 1}).json()
    then = api.post(f"{path}/init", json={"project": "kite", "userPrompt": "two", "promptNumber": 2}).json()
    assert [entry["promptNumber"] for entry in (first, repeated, then)] == [1, 1, 2]
    call = {"tool_name": "Bash", "tool_input": {"command": "make"}, "tool_response": "made"}
    assert api.post(f"{path}/observations", json=call).json() == {"status": "queued"}
    assert api.post(f"{path}/summarize", json={"last_assistant_message": "done"}).json() == {"status": "queued"}
    assert api.post(f"{path}/complete", json={"reason": "logout"}).json() == {"status": "completed"}
    assert len(house.stored("sessions")) == session_count
    session_record = api.get(f"/api/sessions/{own_id}").json()
    assert (session_record["id"], session_record["host"], session_record["prompts"], session_record["reason"]) == (
        number,
        "vscode",
        2,
        "logout",
    )
    assert [entry["tool"] for entry in session_record["eventList"] if entry["kind"] == "tool"] == ["Bash"]
    assert session_record["project_path"] == "/home/dev/kite"


def test_a_number_that_no_session_has_makes_none(api: httpx.Client, house: House) -> None:
    session_count = len(house.stored("sessions"))
    body = {"userPrompt": "x", "tool_name": "Bash"}
    for name in ("init", "observations", "summarize", "complete"):
        answer = api.post(f"/sessions/987654/{name}", json=body)
        assert (answer.status_code, "987654" in answer.json()["error"]) == (404, True)
    assert len(house.stored("sessions")) == session_count


def test_an_id_may_have_either_name_but_not_two_values(api: httpx.Client) -> None:
    same = {"claudeSessionId": "either", "sessionId": "either", "userPrompt": "x"}
    assert api.post("/sessions/init", json=same).status_code == 200
    conflicting = api.post("/sessions/init", json={**same, "sessionId": "or"})
    none = api.post("/sessions/complete", json={"reason": "exit"})
    assert (conflicting.status_code, none.status_code, "sessionId" in none.json()["error"]) == (400, 400, True)


def test_a_call_that_names_no_folder_is_held_to_the_rules_of_its_sessions(api: httpx.Client, house: House) -> None:
    created = api.post(
        "/sessions/init", json={"sessionId": "ruled", "cwd": "/home/dev/vault", "userPrompt": "x"}
    ).json()
    house.ok("config", "set", "denyProjects", json.dumps(["/home/dev/vault"]))
    call = {"tool_name": "Bash", "tool_input": {"command": "ls"}, "tool_response": "y"}
    by_number = api.post(f"/sessions/{created['sessionDbId']}/observations", json=call).json()
    by_id = api.post("/sessions/observations", json={"sessionId": "ruled", **call}).json()
    house.ok("config", "set", "denyProjects", "null")
    assert (by_number, by_id) == ({"status": "skipped"}, {"status": "skipped"})


def test_a_name_that_looks_like_a_secret_is_not_stored_and_its_session_is_found(
    api: httpx.Client, house: House
) -> None:
    key = "ghp_" + "A1b2C3d4E5f6G7h8J9k0" + "L1m2N3p4Q5r6S7t8"
    session_fields = {"claudeSessionId": f"run-{key}", "host": f"editor-{key}", "cwd": f"/home/dev/{key}"}
    created = api.post("/api/sessions/init", json={**session_fields, "userPrompt": "count the boats"}).json()
    assert created["promptNumber"] == 1
    call = {"tool_name": f"mcp__{key}", "tool_use_id": key, "agent_id": key, "tool_input": {}, "tool_response": "3"}
    api.post("/api/sessions/observations", json={**session_fields, **call})
    api.post("/api/sessions/complete", json={**session_fields, "reason": key})
    session_record = api.get(f"/api/sessions/{created['sessionDbId']}").json()
    assert (session_record["prompts"], session_record["status"]) == (1, "completed")
    tables = [house.stored(table) for table in ("sessions", "prompts", "events")]
    assert key not in json.dumps([session_record, tables])


def test_what_is_private_stays_so_under_the_number(api: httpx.Client, house: House) -> None:
    created = api.post(
        "/sessions/init", json={"sessionId": "hidden", "cwd": "/home/dev/kite", "userPrompt": "go"}
    ).json()
    path = f"/sessions/{created['sessionDbId']}"
    answer = api.post(f"{path}/init", json={"userPrompt": "<private>bittern</private>"}).json()
    call = {"tool_name": "Bash", "tool_input": {"command": "echo bittern"}, "tool_response": "bittern"}
    assert (answer["reason"], api.post(f"{path}/observations", json=call).json()) == ("private", {"status": "skipped"})


def test_what_is_private_does_not_come_in_this_way_either(api: httpx.Client, house: House) -> None:
    session = {"claudeSessionId": "p1", "cwd": "/home/dev/kite"}
    answer = api.post("/api/sessions/init", json={**session, "userPrompt": "<private>nightjar</private>"}).json()
    assert (answer["skipped"], answer["reason"]) == (True, "private")
    call = {"tool_name": "Bash", "tool_input": {"command": "echo nightjar"}, "tool_response": "nightjar"}
    assert api.post("/api/sessions/observations", json={**session, **call}).json() == {"status": "skipped"}
    for folder, _, names in os.walk(house.home):
        for name in names:
            path = os.path.join(folder, name)
            if os.path.isfile(path):
                with open(path, "rb") as file:
                    assert b"nightjar" not in file.read(), name


def test_what_is_denied_or_paused_does_not_come_in_this_way_either(api: httpx.Client, house: House) -> None:
    house.ok("config", "set", "denyPaths", json.dumps(["/home/dev/kite/.env"]))
    session = {"claudeSessionId": "d1", "cwd": "/home/dev/kite"}
    for tool, tool_input in (
        ("Read", {"file_path": "/home/dev/kite/.env"}),
        ("FileSave", {"path": ".env"}),
        ("Bash", {"command": "cat .env"}),
        ("Bash", "cat .env"),
        ("mcp__files__get", {"at": "/home/dev/kite/.env"}),
    ):
        report = {"tool_name": tool, "tool_input": tool_input, "tool_response": "nightheron"}
        assert api.post("/api/sessions/observations", json={**session, **report}).json() == {"status": "skipped"}
    house.ok("config", "set", "denyPaths", "null")
    house.ok("config", "set", "denyProjects", json.dumps(["/home/dev/secret"]))
    denied = api.post("/api/sessions/init", json={**session, "cwd": "/home/dev/secret", "userPrompt": "x"}).json()
    house.ok("pause")
    paused = api.post("/api/sessions/init", json={**session, "userPrompt": "x"}).json()
    house.ok("unpause")
    assert (denied["reason"], paused["reason"]) == ("denied", "paused")


def test_a_project_may_be_told_by_its_name_alone(api: httpx.Client, house: House, tmp_path: Any) -> None:
    store = DistilledStore(house.home, str(tmp_path))
    store.observe(store.add_session(), "The tail was too short", type="bugfix")
    store.close()
    name = os.path.basename(tmp_path)
    assert "The tail was too short" in api.get("/api/context/inject", params={"project": name}).text
    api.post("/sessions/n1/init", json={"userPrompt": "x", "project": name})
    assert api.get("/api/sessions/n1").json()["project_path"] == str(tmp_path)


def test_odd_stored_values_are_answered_in_valid_json(api: httpx.Client, house: House) -> None:
    payload = json.dumps({"session_id": "odd", **used("Bash", {"command": "x"}, "y")})
    house.hook("PostToolUse", payload.replace('"x"', '"x", "many": 1e999, "none": NaN').encode())
    (event,) = api.get("/api/sessions/odd").json()["eventList"]
    assert (event["input"]["many"], event["input"]["none"]) == (None, None)
    path = os.path.join(house.home, "lessons.json")
    house.add(lesson("odd one"))
    with open(path) as file:
        text_before = file.read()
    with open(path, "w") as file:
        file.write(text_before.replace('"summary"', '"ownKey": [NaN, "\\ud800"], "summary"', 1))
    assert [record["ownKey"] for record in api.get("/api/lessons").json()["lessons"] if "ownKey" in record] == [
        [None, "\ud800"]
    ]
    assert "ownKey" in house.ok("export").out


def test_the_end_of_a_turn_is_distilled_without_waiting_for_a_tick(own_home: str) -> None:
    house = House(os.path.join(own_home, ".hardwon"))
    house.ok("config", "set", "apiPort", "0")
    house.start_with(tick=10_000)
    port = wait_for_port(house)
    headers = {"authorization": f"Bearer {read_token(house)}"}
    with httpx.Client(base_url=f"http://127.0.0.1:{port}", headers=headers, trust_env=False) as api:
        session = {"claudeSessionId": "t1", "cwd": "/home/dev/kite", "host": "vscode"}
        api.post("/api/sessions/init", json={**session, "userPrompt": "rename the kite"})
        api.post("/api/sessions/summarize", json={**session, "last_assistant_message": "it is renamed"})
        wait_for(lambda: bool(api.get("/api/sessions/t1").json()["summary"]))
    house.leave()


def test_nothing_here_approves(api: httpx.Client, house: House) -> None:
    house.add({**GIT_STASH, "delivery": "block"})
    paths = api.get("/api/openapi.json").json()["paths"]
    assert not [path for path in paths if any(word in path for word in ("accept", "approve", "lessons/", "trust"))]
    assert api.post("/api/lessons", json={}).status_code == 405
    typed = {"claudeSessionId": "s1", "userPrompt": "hardwon allow git-stash", "cwd": "/home/dev/project"}
    api.post("/api/sessions/init", json=typed)
    assert house.ask("s1", bash("git stash")).denied


def test_what_is_known_is_searched_and_read_by_a_program(api: httpx.Client, house: House, tmp_path: Any) -> None:
    store = DistilledStore(house.home, str(tmp_path))
    first = store.observe(store.add_session(), "The spinnaker halyard was frayed", type="bugfix")
    store.close()
    house.ok("search", "halyard", cwd=str(tmp_path))
    query = {"query": "frayed halyard", "project": str(tmp_path)}
    (hit,) = api.get("/api/search", params=query).json()["hits"]
    assert (hit["id"], hit["type"]) == (f"O{first}", "bugfix")
    around = api.get("/api/timeline", params={"anchor": hit["id"], "project": "*"}).json()
    assert [record["id"] for record in around["records"]] == [hit["id"]]
    for anchor in (hit["id"], str(first)):
        unsaid = api.get("/api/timeline", params={"anchor": anchor})
        assert (unsaid.json()["anchor"], unsaid.json()["records"]) == (hit["id"], around["records"])
    records = api.post("/api/observations/batch", json={"ids": [first, "O999"]}).json()["records"]
    assert (records[0]["title"], records[1]["error"]) == ("The spinnaker halyard was frayed", "there is no O999")
    unsaid = api.get("/api/search", params={"query": "halyard"})
    assert (unsaid.status_code, "project" in unsaid.json()["fix"]) == (400, True)
    assert api.get("/api/timeline").status_code == 400
    assert api.get("/api/search", params={**query, "since": "soon"}).status_code == 400
    assert api.get("/api/search", params={**query, "project": "nowhere"}).status_code == 400


def test_what_happens_is_streamed_and_a_lost_listener_catches_up(api: httpx.Client, house: House) -> None:
    with api.stream("GET", "/api/stream") as stream:
        lines = stream.iter_lines()
        assert next(lines).startswith(":")
        house.ask("s1", {"hook_event_name": "UserPromptSubmit", "prompt": "fly the kite", "cwd": "/home/dev/kite"})
        message = read_message(lines)
        assert (message["event"], message["data"]["session"]) in (("prompt", "s1"), ("session", "s1"))
    api.post("/api/processing", json={"isProcessing": True})
    with api.stream("GET", "/api/stream", headers={"last-event-id": message["id"]}) as stream:
        lines = stream.iter_lines()
        kinds = [read_message(lines)["event"]]
        while kinds[-1] != "processing":
            kinds.append(read_message(lines)["event"])


def test_a_listener_misses_and_doubles_nothing_and_goes_on_with_the_next_worker() -> None:
    async def story() -> None:
        worker_before = LiveFeed()
        worker_before.publish("event", {"n": 0})
        hearing = worker_before.listen(0)
        assert await anext(hearing) == b": hardwon\n\n"
        last = int((await anext(hearing)).split()[1])
        wait_for(lambda: time.time() * 1000 > last + 1)
        next_worker = LiveFeed()
        next_worker.publish("event", {"n": 1})
        hearing = next_worker.listen(last)
        assert await anext(hearing) == b": hardwon\n\n"
        next_worker.publish("event", {"n": 2})
        assert [b'{"n": 1}' in await anext(hearing), b'{"n": 2}' in await anext(hearing)] == [True, True]
        next_worker.publish("event", {"n": 3})
        assert b'{"n": 3}' in await anext(hearing)

    asyncio.run(story())


def read_message(lines: Iterator[str]) -> dict[str, Any]:
    message: dict[str, Any] = {}
    for line in lines:
        if line.startswith(":"):
            continue
        if not line and message:
            return {**message, "data": json.loads(message["data"])}
        name, _, value = line.partition(": ")
        if name:
            message[name] = value
    raise AssertionError("the stream ended")


def test_two_hundred_idle_listeners_do_not_block_other_requests(api: httpx.Client, house: House) -> None:
    port = api.base_url.port
    assert port
    head = f"GET /api/stream HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nAuthorization: Bearer {read_token(house)}\r\n\r\n"
    with ExitStack() as stack:
        for _ in range(200):
            listener = stack.enter_context(socket.create_connection(("127.0.0.1", port)))
            listener.sendall(head.encode())
            assert b"200 OK" in listener.recv(4096)
        assert api.get("/api/stream").status_code == 503
        assert api.get("/api/health").json()["clients"] == 200
        assert house.session_start("s2").context
    wait_for(lambda: api.get("/api/health").json()["clients"] == 0)


def test_a_taken_port_gives_the_next_one(own_home: str) -> None:
    house = House(os.path.join(own_home, ".hardwon"))
    with socket.socket() as busy_socket:
        busy_socket.bind(("127.0.0.1", 0))
        busy_socket.listen()
        port = busy_socket.getsockname()[1]
        house.ok("config", "set", "apiPort", str(port))
        house.ok("start")
        assert wait_for_port(house) > port
    house.leave()


def test_the_document_is_true(api: httpx.Client, house: House, tmp_path: Any) -> None:
    """schemathesis sends what the document allows and what it does not, and finds no server error."""
    document = tmp_path / "openapi.json"
    document.write_text(json.dumps(api.get("/api/openapi.json").json()))
    words = [
        os.path.join(os.path.dirname(sys.executable), "schemathesis"),
        "run",
        str(document),
        "--url",
        str(api.base_url).rstrip("/"),
        "--header",
        f"Authorization: Bearer {read_token(house)}",
        "--checks",
        "not_a_server_error,status_code_conformance,content_type_conformance,response_schema_conformance",
        "--max-examples",
        str(EXAMPLES_PER_OPERATION),
        "--exclude-path",
        "/api/stream",
        "--phases",
        PHASES,
        "--generation-database",
        "none",
        "--seed",
        "1",
        "--request-timeout",
        "120",
    ]
    environment = {name: value for name, value in os.environ.items() if "proxy" not in name.lower()}
    ran = subprocess.run(words, capture_output=True, text=True, cwd=tmp_path, env={**environment, "NO_PROXY": "*"})
    assert ran.returncode == 0, ran.stdout[-6000:] + ran.stderr[-2000:]
