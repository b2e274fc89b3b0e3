"""Read and write text without changing its line endings."""

from __future__ import annotations


def read_text(path: str) -> str:
    with open(path, newline="") as file:
        return file.read()


def write_text(path: str, text: str) -> None:
    with open(path, "w", newline="") as file:
        file.write(text)
