"""The hook: pass stdin to the worker and print its answer, both unchanged. The exit code is always 0.
Scripts are not byte-compiled, so every line costs time at every tool call."""

import _socket
import posix
import sys

# The agent waits for the answer to these; the other events, 0.25 s, are only reported.
SECONDS = {"SessionStart": 3.0, "UserPromptSubmit": 0.5, "PreToolUse": 0.5, "SubagentStart": 0.5}


def ask(host: str, event: str, home: str, event_id: str, payload: bytes) -> bytes | None:
    """Return the worker's answer, or None if it is not running, too slow, or died early."""
    try:
        sock = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
        sock.settimeout(SECONDS.get(event, 0.25))
        sock.connect(posix.readlink(home + "/socket"))
        sock.sendall(f"hardwon 1 {host} {event} {event_id}\n".encode() + payload)
        sock.shutdown(_socket.SHUT_WR)
        answer = b""
        while chunk := sock.recv(65536):
            answer += chunk
        # The newline says that the answer is whole; a worker that ends sends none.
        return answer[:-1] if answer[-1:] == b"\n" else None
    except OSError:
        return None


try:
    host, event, home = sys.argv[1:4]
    payload, event_id = sys.stdin.buffer.read(), posix.urandom(16).hex()
    answer = None
    is_off = posix.environ.get(b"HARDWON_OFF", b"0") not in (b"", b"0")
    # Set for the commands that an agent runs: one that calls the hook, or that starts another agent, is no person.
    if is_off or posix.environ.get(b"AI_AGENT", b"").endswith(b"_agent"):
        answer = b"{}"
    elif not posix.access(home + "/paused", 0):  # the fallback finds out whether the pause holds here
        answer = ask(host, event, home, event_id, payload)
    if answer is None:
        sys.path.append(__file__.rsplit("/", 2)[0])
        from hardwon.fallback import answering

        answer = answering.answer_event(host, event, home, event_id, payload, ask)
    posix.write(1, answer)
finally:
    posix._exit(0)
