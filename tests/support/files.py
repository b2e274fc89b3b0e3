"""A file's text as it is, its line ends too."""

from __future__ import annotations


def content(path: str) -> str:
    with open(path, newline="") as file:
        return file.read()


def put(path: str, text: str) -> None:
    with open(path, "w", newline="") as file:
        file.write(text)
