"""Starts a program in a network of its own, with nothing in it but loopback.

    loopback.py own|shared FD PROGRAM ARG…

A socket belongs to the network it was made in, whoever holds it. So this process, already inside, opens the
listening socket, hands it out over FD and becomes the program: the model server stays outside, in the test,
and the program can reach that and nothing else. Where it listens is in the environment, under each name that an
agent knows, and in place of `{MODEL_URL}` in an argument. `shared` keeps the machine's network, for systems that refuse
it another; `own` without more is the question whether they do.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import socket
import struct
import subprocess
import sys

CLONE_NEWUSER, CLONE_NEWNET = 0x10000000, 0x40000000
SIOCSIFFLAGS, IFF_UP = 0x8914, 1
NAMES = ("ANTHROPIC_BASE_URL", "GOOGLE_GEMINI_BASE_URL", "MODEL_URL")


def find_refusal() -> str:
    """Return why programs get no network of their own here, or an empty string. A child tries, because leaving is final."""
    attempt = subprocess.run([sys.executable, "-I", "-S", __file__, "own"], stderr=subprocess.PIPE, text=True)
    return attempt.stderr.strip().rpartition("\n")[2] if attempt.returncode else ""


def leave_network() -> None:
    """Leave the network; without root this needs a user namespace with the same ids inside as outside."""
    user, group, root = os.geteuid(), os.getegid(), os.geteuid() == 0
    if ctypes.CDLL(None, use_errno=True).unshare(CLONE_NEWNET if root else CLONE_NEWNET | CLONE_NEWUSER):
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    if not root:
        maps = {"setgroups": "deny", "uid_map": f"{user} {user} 1", "gid_map": f"{group} {group} 1"}
        for name, line in maps.items():
            with open(f"/proc/self/{name}", "w") as out:
                out.write(line)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        fcntl.ioctl(any_socket, SIOCSIFFLAGS, struct.pack("16sh22x", b"lo", IFF_UP))


def main(network: str, channel: str = "", *command: str) -> None:
    if network == "own":
        leave_network()
    if not channel:
        return
    listener = socket.create_server(("127.0.0.1", 0))
    with socket.socket(fileno=int(channel)) as out:
        socket.send_fds(out, [b"listening"], [listener.fileno()])
    url = f"http://127.0.0.1:{listener.getsockname()[1]}"
    os.environ.update(dict.fromkeys(NAMES, url))
    os.execv(command[0], [word.replace("{MODEL_URL}", url) for word in command])


if __name__ == "__main__":
    main(*sys.argv[1:])
