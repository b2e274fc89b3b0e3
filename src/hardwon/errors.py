"""What goes wrong in a way a person can mend."""

from __future__ import annotations


class UserError(Exception):
    """The fact with the wrong value, then the command that mends it; said once, at the border of the program."""

    def __init__(self, message: str, fix: str = "") -> None:
        super().__init__(message)
        self.say = message
        self.fix = fix
