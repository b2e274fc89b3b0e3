"""What is private leaves no trace: after each story every file of the home is searched for what was planted."""

from __future__ import annotations

import base64
import json
import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.house import GIT_STASH, House, bash, failed, happened, prompt, used

PLANTED = "zimtwaffel-4711"
KEY = "ghp_" + "A1b2C3d4E5f6G7h8J9k0" + "L1m2N3p4Q5r6S7t8"
SUB = {"agent_id": "a1", "agent_type": "general-purpose"}


def find_traces(house: House, *planted: str) -> list[str]:
    """Return every place below the home that has one of the texts, plain or as JSON, hexadecimal or base64."""
    spelled = {
        form.encode() if isinstance(form, str) else form
        for text in planted
        for form in (
            text,
            json.dumps(text)[1:-1],
            text.encode("utf-16-le"),
            text.encode().hex(),
            base64.b64encode(text.encode()).rstrip(b"=")[:-1],
        )
    }
    trace_lines = []
    for folder, folders, files in os.walk(house.home):
        for name in [*folders, *files]:
            path = os.path.join(folder, name)
            content = name.encode()
            if os.path.isfile(path):
                with open(path, "rb") as file:
                    content += file.read()
            trace_lines += [f"{path}: {form!r}" for form in spelled if form in content]
    return trace_lines


Worker = Callable[[House], None]


def start_worker(house: House) -> None:
    house.ok("start")


def stay_cold(house: House) -> None:
    house.stay_cold()


@pytest.fixture(params=[start_worker, stay_cold])
def home(request: pytest.FixtureRequest, house: House) -> Iterator[House]:
    """A house that is searched before the spool is read, afterwards, and after the worker has stopped."""
    request.param(house)
    yield house
    assert find_traces(house, PLANTED, KEY) == []
    house.stored("events")
    assert find_traces(house, PLANTED, KEY) == []
    house.ok("stop")
    assert find_traces(house, PLANTED, KEY) == []


def read_stored_texts(house: House) -> str:
    rows = [*house.stored("prompts"), *house.stored("events")]
    return "\n".join(str(row[name]) for row in rows for name in ("prompt", "input", "response") if name in row)


HIDDEN = [
    f"<private>{PLANTED}</private>",
    f"<PRIVATE>{PLANTED}</Private>",
    f"<private>a<private>b</private>{PLANTED}</private>",
    f"<private>{PLANTED}",
    f"<hardwon-context>{PLANTED}</hardwon-context>",
    f"<claude-mem-context>\n{PLANTED}\n</claude-mem-context>",
    f"<Claude-Mem-Context><private>x</private>{PLANTED}",
    f'<private reason="mine">{PLANTED}</private >',
    f"\\u003cprivate>{PLANTED}\\u003c/private>",
]


def test_a_private_part_is_not_kept_wherever_it_stands(home: House) -> None:
    for number, hidden in enumerate(HIDDEN):
        name = f"s{number}"
        tool_input, inner = (
            {"command": f"echo seen {hidden}"},
            json.dumps({"note": f"seen {hidden}", "list": [f"seen {hidden}"]}),
        )
        home.ask(name, prompt(f"seen {hidden}"))
        home.ask(name, used("Bash", tool_input, {"stdout": f"seen {hidden}", "stderr": ""}))
        deep = {"deep": [{"text": f"seen {hidden}"}]}
        home.ask(name, used("mcp__notes__put", deep, [{"type": "text", "text": f"seen {inner}"}]))
        home.ask(name, used("Read", {"file_path": f"/home/dev/seen {hidden}"}, f"seen {hidden}"))
        home.ask(name, failed("Bash", {"command": "x"}, f"Exit code 1\nseen {hidden}"))
        home.ask(name, happened("SubagentStop", last_assistant_message=f"seen {hidden}", **SUB))
        home.ask(name, happened("Stop", last_assistant_message=f"seen {hidden}"))
        assert find_traces(home, PLANTED) == [], hidden
        assert read_stored_texts(home).count("seen") >= 10 * (number + 1), hidden


def test_a_private_part_that_a_patch_has_line_by_line_is_not_kept(home: House) -> None:
    lines = [" seen", "-<private>", f"-{PLANTED}", "-</private>", "+after"]
    patch = [{"oldStart": 1, "oldLines": 4, "lines": lines}]
    home.ask("s1", used("Edit", {"file_path": "a", "old_string": "b"}, {"structuredPatch": patch}))
    assert " seen" in read_stored_texts(home) and "+after" in read_stored_texts(home)


def test_a_private_part_that_opens_in_one_field_and_closes_in_another_is_not_kept(home: House) -> None:
    edits = [
        {"old_string": "a", "new_string": "seen <private>"},
        {"old_string": f"b {PLANTED}", "new_string": PLANTED},
        {"old_string": "c", "new_string": f"{PLANTED}</private> after"},
    ]
    home.ask("s1", used("MultiEdit", {"file_path": "a", "edits": edits}, {"ok": True}))
    home.ask("s2", used("mcp__notes__put", {"a": "how to use <private>", "b": "kept"}, "seen"))
    assert (
        "seen " in read_stored_texts(home) and " after" in read_stored_texts(home) and "kept" in read_stored_texts(home)
    )


WHOLLY = [
    f"<private>fetch {PLANTED}</private>",
    f"  <private>fetch {PLANTED}</private>\n<private>now</private>",
    f"<private>fetch {PLANTED}",
    f"<system-reminder>the time is noon</system-reminder>\n<private>fetch {PLANTED}</private>",
    f"<PRIVATE>fetch {PLANTED}</PRIVATE>",
]


def report_private_turn(house: House, wholly: str, session: str = "s1", **more: Any) -> None:
    """Report a private prompt and everything that an agent does about it; only the prompt is marked."""
    house.ask(session, prompt(wholly, **more))
    house.ask(session, bash(f"curl https://{PLANTED}.example", **more))
    house.ask(session, used("Bash", {"command": f"curl https://{PLANTED}.example"}, {"stdout": PLANTED}, **more))
    house.ask(session, happened("SubagentStart", **SUB, **more))
    house.ask(session, used("Read", {"file_path": f"/home/dev/{PLANTED}"}, PLANTED, **SUB, **more))
    house.ask(session, happened("SubagentStop", last_assistant_message=PLANTED, **SUB, **more))
    house.ask(session, happened("PreCompact", trigger="auto", custom_instructions=PLANTED, **more))
    house.ask(session, happened("SessionStart", source="compact", **more))
    house.ask(session, failed("Bash", {"command": PLANTED}, f"Exit code 1\n{PLANTED}: not found", **more))
    house.ask(session, happened("Stop", last_assistant_message=f"I fetched {PLANTED}", **more))


def list_kept(house: House) -> tuple[list[str], list[str]]:
    calls = [json.loads(row["input"])["command"] for row in house.stored("events") if row["kind"] == "tool"]
    return [row["prompt"] for row in house.stored("prompts")], calls


def test_a_wholly_private_prompt_is_not_kept_and_neither_is_what_was_done_about_it(home: House) -> None:
    for number, wholly in enumerate(WHOLLY):
        name = f"s{number}"
        home.ask(name, prompt("before"))
        home.ask(name, used("Bash", {"command": "ls"}, "a"))
        report_private_turn(home, wholly, name)
        home.ask(name, prompt("after"))
        home.ask(name, used("Bash", {"command": "pwd"}, "/"))
        assert find_traces(home, PLANTED) == [], wholly
        times = number + 1
        assert list_kept(home) == (["before", "after"] * times, ["ls", "pwd"] * times), wholly


@pytest.mark.parametrize("killed_after", range(0, 9, 2))
def test_a_private_turn_stays_private_when_the_worker_dies_in_it(house: House, killed_after: int) -> None:
    house.ok("start")
    house.stay_cold()
    payloads: list[dict[str, Any]] = []
    recorder = Recorder(payloads)
    report_private_turn(recorder, WHOLLY[0])  # type: ignore[arg-type]
    for number, payload in enumerate(payloads):
        house.ask("s1", payload)
        if number == killed_after:
            house.kill()
    house.ok("start")
    house.ask("s1", used("Bash", {"command": PLANTED}, PLANTED))
    house.ask("s1", prompt("after"))
    house.ask("s1", used("Bash", {"command": "pwd"}, "/"))
    assert list_kept(house) == (["after"], ["pwd"])
    assert find_traces(house, PLANTED) == []


class Recorder:
    """Records the payloads that a house would be asked."""

    def __init__(self, payloads: list[dict[str, Any]]) -> None:
        self.payloads = payloads

    def ask(self, session: str, payload: dict[str, Any]) -> None:
        self.payloads.append(payload)


def test_a_sub_agent_that_outlasts_the_private_turn_stays_private(home: House) -> None:
    home.ask("s1", prompt(WHOLLY[0]))
    home.ask("s1", happened("SubagentStart", **SUB))
    home.ask("s1", prompt("meanwhile"))
    home.ask("s1", used("Bash", {"command": PLANTED}, PLANTED, **SUB))
    home.ask("s1", happened("SubagentStop", last_assistant_message=PLANTED, **SUB))
    home.ask("s1", used("Bash", {"command": "pwd"}, "/"))
    assert list_kept(home) == (["meanwhile"], ["pwd"])


def test_a_call_of_the_private_prompt_that_ends_after_the_next_prompt_stays_private(home: House) -> None:
    home.ask("s1", prompt(WHOLLY[0], prompt_id="p1"))
    home.ask("s1", prompt("next", prompt_id="p2"))
    home.ask("s1", used("Bash", {"command": PLANTED}, PLANTED, prompt_id="p1"))
    home.ask("s1", used("Bash", {"command": "pwd"}, "/", prompt_id="p2"))
    assert list_kept(home) == (["next"], ["pwd"])


def test_starting_again_does_not_end_a_private_turn(home: House) -> None:
    home.ask("s1", prompt(WHOLLY[0]))
    for source in ("compact", "resume", "startup"):
        home.ask("s1", happened("SessionStart", source=source))
        home.ask("s1", used("Bash", {"command": PLANTED}, PLANTED))
    assert list_kept(home) == ([], [])


def test_another_session_beside_a_private_one_is_recorded(home: House) -> None:
    home.ask("s1", prompt(WHOLLY[0]))
    home.ask("s2", prompt("mine is public"))
    home.ask("s2", used("Bash", {"command": "pwd"}, "/"))
    assert list_kept(home) == (["mine is public"], ["pwd"])


def test_secrets_are_replaced_wherever_they_stand(home: House) -> None:
    inner = json.dumps(json.dumps({"headers": {"Authorization": f"Bearer {KEY}"}}))
    home.ask("s1", prompt(f"seen: use {KEY} please"))
    home.ask(
        "s1", used("Bash", {"command": f"export DB_PASSWORD={PLANTED}; seen"}, {"stdout": f"seen\ntoken: {KEY}\n"})
    )
    home.ask(
        "s1",
        used(
            "mcp__vault__get", {"env": [{"name": "DB_PASSWORD", "value": PLANTED}]}, [{"type": "text", "text": inner}]
        ),
    )
    home.ask(
        "s1", used("WebFetch", {"url": f"https://ada:{PLANTED}@git.example/seen"}, {"password": PLANTED, "seen": KEY})
    )
    home.ask(
        "s1",
        used(
            "Edit",
            {"file_path": f"/home/dev/{KEY}"},
            {"structuredPatch": [{"lines": ["+seen", f"+API_KEY = '{KEY}'"]}]},
        ),
    )
    home.ask(
        "s1",
        failed("Bash", {"command": "seen"}, f"Exit code 1\nfatal: bad credentials https://ada:{PLANTED}@git.example"),
    )
    home.ask("s1", happened("SubagentStop", last_assistant_message=f"seen {KEY}", **SUB))
    home.ask("s1", happened("Stop", last_assistant_message=f"seen {KEY}"))
    assert read_stored_texts(home).count("[redacted:") >= 9


def test_a_key_that_a_patch_has_line_by_line_is_replaced(home: House) -> None:
    body = ["+MII" + "A1b2C3d4E5f6G7h8" * 3, f"+{PLANTED}=="]
    lines = ["+-----BEGIN RSA PRIVATE" + " KEY-----", *body, "+-----END RSA PRIVATE" + " KEY-----", "+seen"]
    home.ask("s1", used("Write", {"file_path": "k"}, {"structuredPatch": [{"lines": lines}]}))
    assert "seen" in read_stored_texts(home)


def test_a_lesson_typed_within_private_tags_leaves_nothing(home: House) -> None:
    block = f"#lesson\ntool: Bash\ntrigger: {PLANTED}\nproblem: {PLANTED} breaks when it is run\nsolution: never run {PLANTED} at all\n#/lesson"
    home.add(GIT_STASH)
    home.ask("s1", prompt(f"<private>\n{block}\n</private>"))
    home.ask("s2", prompt(f"<private>{PLANTED}</private>\n{block}".replace(PLANTED, KEY)))
    home.stored("prompts")
    assert find_traces(home, PLANTED, KEY) == []


DENIED = [
    (".env", {"file_path": "/home/dev/project/.env"}),
    ("*.pem", {"file_path": "keys/my.pem"}),
    ("/home/dev/vault", {"file_path": "/home/dev/vault/deep/a"}),
    ("/home/dev/vault", {"file_path": "../vault/a"}),
    ("~/vault", {"command": "cat ~/vault/a"}),
    ("~/vault", {"command": 'cat "$HOME/vault/a"'}),
    ("/home/dev/vault", {"command": "cat ../vault/a | sort"}),
    ("/home/dev/vault/a", {"command": "echo $(</home/dev/vault/a)"}),
    ("/home/dev/my vault", {"command": "cat '/home/dev/my vault/a'"}),
    ("/home/dev/va*", {"command": "scp /home/dev/vault host:"}),
    (".ssh", {"path": "/home/dev/.ssh/config"}),
]


def test_a_call_about_a_denied_path_leaves_nothing(home: House) -> None:
    other_calls = 0
    for number, (denied, tool_input) in enumerate(DENIED):
        name, tool = f"s{number}", "Bash" if "command" in tool_input else "Read"
        home.ok("config", "set", "denyPaths", json.dumps([denied]))
        home.ask(name, used(tool, tool_input, PLANTED))
        home.ask(name, failed(tool, tool_input, f"Exit code 1\n{PLANTED}"))
        home.ask(
            name, used("mcp__files__read", {"any name": next(iter(tool_input.values()))}, PLANTED)
        ) if tool == "Read" else None
        if "*" not in denied:
            home.ask(name, used("Bash", {"command": "ls /home/dev/vagrant"}, "seen"))
            other_calls += 1
        assert find_traces(home, PLANTED) == [], (denied, tool_input)
        assert [row["response"] for row in home.stored("events")] == ["seen"] * other_calls, (denied, tool_input)


@pytest.mark.parametrize("worker", [start_worker, stay_cold])
def test_in_a_denied_project_nothing_is_recorded(house: House, own_home: str, worker: Worker) -> None:
    worker(house)
    app, link, tree = (os.path.join(own_home, name) for name in ("app", "link", "tree"))
    git = ["git", "-c", "user.name=t", "-c", "user.email=t@example.com", "-C", app]
    subprocess.run(["git", "init", "-q", app], check=True)
    subprocess.run([*git, "commit", "-q", "--allow-empty", "-m", "x"], check=True)
    subprocess.run([*git, "worktree", "add", "-q", tree], check=True)
    os.makedirs(os.path.join(app, "below"))
    os.symlink(app, link)
    house.ok("config", "set", "denyProjects", '["~/app"]')
    for cwd in (app, os.path.join(app, "below"), link, tree):
        house.ask("s1", happened("SessionStart", source="resume", cwd=cwd))
        house.ask("s1", prompt(PLANTED, cwd=cwd))
        house.ask("s1", used("Bash", {"command": PLANTED}, PLANTED, cwd=cwd))
        house.ask("s1", happened("Stop", last_assistant_message=PLANTED, cwd=cwd))
    house.ask("s2", prompt("seen", cwd=app + "2"))
    assert find_traces(house, PLANTED) == []
    assert [row["session"] for row in house.stored("sessions")] == ["s2"]
    assert find_traces(house, PLANTED) == []


def test_a_list_edited_by_hand_holds_at_once_with_the_worker_away_and_without_any_lesson(house: House) -> None:
    house.stay_cold()
    for text, event_count in [('{"denyProjects": ["/home/dev"]}', 0), ("{}", 1), ('{"denyPaths": ["vault"]}', 1)]:
        with open(os.path.join(house.home, "config.json"), "w") as file:
            file.write(text)
        house.ask("s1", used("Bash", {"command": "cat vault/x"}, "seen"))
        assert len(house.stored("events")) == event_count, text


def test_what_the_hook_has_in_its_environment_is_never_stored(home: House) -> None:
    env = {"MY_SECRET": PLANTED, "ANTHROPIC_API_KEY": KEY, PLANTED.replace("-", "_").upper(): "x"}
    for payload in (happened("SessionStart", source="startup"), prompt("go"), used("Bash", {"command": "env"}, "")):
        home.ask("s1", payload, env=env)
    home.hook("PostToolUse", b"{not json", env=env)
    assert find_traces(home, PLANTED.replace("-", "_").upper()) == []


@pytest.mark.parametrize(
    "payload", [f'{{"prompt": "{PLANTED}"', f'["{PLANTED}"]', f'{{"session_id": ["{PLANTED}"], "prompt": "x"}}']
)
def test_a_payload_that_is_not_one_leaves_nothing_in_any_log(home: House, payload: str) -> None:
    for event in ("UserPromptSubmit", "PostToolUse", "Stop"):
        home.hook(event, payload.encode())


def test_a_name_or_an_id_that_looks_like_a_secret_is_not_kept_and_what_belongs_together_still_does(home: House) -> None:
    session = f"run-{KEY}"
    home.session_start(session, source="startup")
    home.ask(session, prompt("count the boats"))
    ids = {"tool_use_id": f"toolu-{KEY}", "agent_id": f"a-{KEY}", "agent_type": "Explore"}
    home.ask(session, used(f"mcp__{KEY}", {"path": "boats.txt"}, "three", **ids))
    (session_row,) = home.stored("sessions")
    assert session_row["session"].startswith("redacted-")
    assert [row["prompt"] for row in home.stored("prompts")] == ["count the boats"]
    assert {row["session"] for row in home.stored("events")} == {session_row["id"]}


def test_no_command_writes_a_lesson_with_a_secret(house: House) -> None:
    record = dict(GIT_STASH)
    record["solution"] = f"{GIT_STASH['solution']} The token is {KEY}."
    for mark in ({}, {"CLAUDECODE": "1"}):
        refused = house.cli("lessons", "add", "--json", json.dumps(record), env=mark)
        assert refused.code == 1 and "solution contains what looks like a secret" in refused.err
        assert "fix:" in refused.err and KEY not in refused.err
    slug = house.add(dict(GIT_STASH))
    refused = house.cli("lessons", "edit", slug, "--problem", f"{GIT_STASH['problem']} <private>{PLANTED}</private>")
    assert refused.code == 1 and "problem contains a <private> part" in refused.err
    assert find_traces(house, PLANTED, KEY) == []


# What a tool printed, and the part of it that must not be kept: lines that an attack on 0.1.0 found on disk.
PRINTED = [
    ("password=CorrectHorseBattery", "CorrectHorseBattery"),
    ("db_password=AbCdEfGhIjKlMnOp", "AbCdEfGhIjKlMnOp"),
    ("DB_PASSWORD=hunter2-Zq81-secret", "hunter2-Zq81-secret"),
    ("password: |\n  Zx9cVb8nMq2w\nuser: ada", "Zx9cVb8nMq2w"),
    ("RAILS_MASTER_KEY=" + "0f1e2d3c4b5a6978" * 2, "0f1e2d3c4b5a6978" * 2),
    ("SECRET_KEY_BASE=" + "9e8d7c6b5a493827" * 8, "9e8d7c6b5a493827" * 8),
    ("pass: 'Wq7!xK2$mPz9'", "Wq7!xK2$mPz9"),
    ("redis-cli -h cache.local -a Qm4tLz9xWv2k ping", "Qm4tLz9xWv2k"),
    ("mongosh -u ada -p Hk7rTy3nBd5s shop", "Hk7rTy3nBd5s"),
    ('{"auths": {"registry.local": {"auth": "YWRhOmh1bnRlcjItd2l0aC1zYWx0"}}}', "YWRhOmh1bnRlcjItd2l0aC1zYWx0"),
    ("the password is 'Tr0ub4dor-Xq7z'", "Tr0ub4dor-Xq7z"),
    ("API_TOKEN=Zk9!vQ2#mX7$wL4%bN8^cR1&hT6*yJ3(pD", "vQ2#mX7$wL4%bN8^cR1"),
    (
        "bot: MTE4NjQ3NTk4MzI1Njc4MDkwMQ." + "GxY1Zk.a8Rk2Lm9Qp4Ws7Tz1Vn6Xb3Yc5Jd8Hf0Ug2Ee",
        "a8Rk2Lm9Qp4Ws7Tz1Vn6Xb3Yc5Jd8Hf0Ug2Ee",
    ),
    ("base: patAbCdEfGhIjKlMn." + "1a2b3c4d5e6f7081" * 4, "1a2b3c4d5e6f7081" * 4),
    ("task: 1/1204567890123456:" + "7f6e5d4c3b2a1908" * 2, "7f6e5d4c3b2a1908" * 2),
]


def test_a_value_after_a_secret_looking_name_is_not_kept(home: House) -> None:
    for number, (line, _) in enumerate(PRINTED):
        home.ask(
            "s1", used("Bash", {"command": "cat notes"}, {"stdout": f"seen {number}\n{line}\nseen too", "stderr": ""})
        )
    home.ask("s1", prompt("seen\n" + "\n".join(line for line, _ in PRINTED)))
    assert find_traces(home, *(secret for _, secret in PRINTED)) == []
    assert read_stored_texts(home).count("seen") == 2 * len(PRINTED) + 1


@pytest.mark.parametrize("runner", [{}, {"CLAUDECODE": "1"}], ids=["a person", "an agent"])
def test_memories_and_handoffs_hold_no_secret_whichever_way_they_come(
    house: House, tmp_path: Path, runner: dict[str, str]
) -> None:
    text = f"the tide table needs {KEY} and <private>{PLANTED}</private> is never written down"
    house.ok("memory", "add", "feedback", text, cwd=str(tmp_path), env=runner)
    house.ok("handoff", "write", text, cwd=str(tmp_path), env=runner)
    if not runner:
        house.ok("memory", "edit", "1", f"{text} twice", cwd=str(tmp_path))
    assert find_traces(house, PLANTED, KEY) == []
    written_texts = [path.read_text() for path in tmp_path.rglob("*") if path.is_file()]
    assert [text for text in written_texts if KEY in text or PLANTED in text] == []
    (memory,) = house.ok("memory", "list", "--json", cwd=str(tmp_path)).json()
    assert "[redacted:github]" in memory["text"]
