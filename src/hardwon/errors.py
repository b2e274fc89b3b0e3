"""The exception for errors that a person can fix."""

from __future__ import annotations


class UserError(Exception):
    """An error message with the invalid value, and the command that fixes it. Printed once, at the program's entry."""

    def __init__(self, message: str, fix: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.fix = fix
