"""The models of bench-prevention: what they read of a session, and how they choose the next command.

No policy knows the arm or the product. The tiny model and real ones read the rendered session and nothing else.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import random
import re
import urllib.request
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from prevention_traps import OTHER_COMMANDS, Trap

Turn = tuple[str, str]  # role and text

SYSTEM = "You work as a coding agent in a repository. Answer with one shell command: the next one to run."
# Reminders with which Claude Code 2.1 describes itself and the machine. They are the same in every arm, they would fill
# the context of a tiny model, and dates and token counts in them change; everything else is passed on word for word.
CLIENT_REMINDERS = (
    "# Environment\n",
    "You are powered by the model",
    "The following deferred tools are",
    "Available agent types for",
    "The following skills are available",
    "<total_tokens>",
    "As you answer the user's questions, you can use the following context:\n# gitStatus",
    "Today's date is",
    "Attribution for git commits",
    "The task tools haven't been used recently",  # after ten calls
)
_REMINDER = re.compile(r"\n*<system-reminder>\n(.*?)\n?</system-reminder>\n*", re.DOTALL)


def build_turns(messages: Sequence[dict[str, Any]]) -> list[Turn]:
    """Return what the model reads: every text, call and result of the session, without the client's own reminders."""
    turns = []
    for message in messages:
        texts = [text for text in _iter_texts(message["content"]) if text]
        turns.append((str(message["role"]), "\n".join(texts)))
    return turns


def _iter_texts(content: Any) -> Iterator[str]:
    blocks: list[dict[str, Any]] = [{"type": "text", "text": content}] if isinstance(content, str) else content
    for block in blocks:
        if block["type"] == "tool_use":
            yield f"$ {block['input']['command']}"
        elif block["type"] == "tool_result":
            inner = block.get("content") or ""
            text = inner if isinstance(inner, str) else "\n".join(part.get("text", "") for part in inner)
            yield _drop_client_reminders(text)
        elif block["type"] == "text":
            yield _drop_client_reminders(block["text"])


def _drop_client_reminders(text: str) -> str:
    def replace_reminder(match: re.Match[str]) -> str:
        return "" if match[1].startswith(CLIENT_REMINDERS) else match[0]

    return _REMINDER.sub(replace_reminder, text).strip("\n")


class Policy(Protocol):
    name: str
    is_repeatable: bool  # whether the same text and seed give the same choice

    def choose(self, turns: Sequence[Turn], trap: Trap, seed: str) -> str: ...


def draw_command(commands: Sequence[str], weights: Sequence[float], seed: str) -> str:
    """Draw a command; the same seed draws the same one on every machine."""
    generator = random.Random(hashlib.sha256(seed.encode()).digest())
    return generator.choices(commands, weights)[0]


@dataclass(frozen=True, slots=True)
class ScriptedPolicy:
    """Follows a habit that differs by trap, and heeds the fix with a stated probability once it was really received."""

    heed: float = 0.7
    name: str = "scripted"
    is_repeatable: bool = True

    def get_habit(self, trap: Trap) -> float:
        """Return how likely the wrong command is when no fix is heeded: 0.8 to 0.95.

        A weaker habit would be prevented by any hold, because the policy draws anew after it.
        """
        return 0.8 + 0.15 * hashlib.sha256(trap.name.encode()).digest()[0] / 255

    def choose(self, turns: Sequence[Turn], trap: Trap, seed: str) -> str:
        has_received = any(role == "user" and trap.lesson.solution in text for role, text in turns)
        heeded = self.heed if has_received else 0.0
        habit = (1 - heeded) * self.get_habit(trap)
        commands = (trap.right, trap.wrong, OTHER_COMMANDS[0])
        return draw_command(commands, (heeded, habit, 1 - heeded - habit), seed)

    def expect_failure(self, trap: Trap, *, is_told: bool, is_held: bool, teaches: bool, calls: int) -> float:
        """Return the probability that the failing command runs among some calls that run.

        `is_told`: the fix is in the session already. `is_held`: the next wrong command is held, and if it `teaches`,
        the fix comes with that. This is worked out from the rates alone, so that the sessions can be checked with it.
        """
        if calls == 0:
            return 0.0
        heeded = self.heed if is_told else 0.0
        wrong = (1 - heeded) * self.get_habit(trap)
        other = 1 - heeded - wrong
        after_other = self.expect_failure(trap, is_told=is_told, is_held=is_held, teaches=teaches, calls=calls - 1)
        after_wrong = 1.0
        if is_held:
            after_wrong = self.expect_failure(
                trap, is_told=is_told or teaches, is_held=False, teaches=False, calls=calls
            )
        return wrong * after_wrong + other * after_other


class TinyPolicy:
    """SmolLM2-135M in NumPy: chooses among a trap's commands by their likelihood after the session."""

    # Chosen without memory at work; at 1 the model nearly always takes its first choice, so that runs tell little more.
    temperature = 2.0

    def __init__(self) -> None:
        import prevention_smol

        self.name = "SmolLM2-135M-Instruct"
        self.is_repeatable = True
        self._model = prevention_smol.load_model()
        self._probabilities: dict[str, list[float]] = {}

    def choose(self, turns: Sequence[Turn], trap: Trap, seed: str) -> str:
        return draw_command(trap.commands, self.rate_commands(turns, trap), seed)

    def rate_commands(self, turns: Sequence[Turn], trap: Trap) -> list[float]:
        """Return the probability of each of the trap's commands."""
        parts = [f"<|im_start|>system\n{SYSTEM}<|im_end|>\n"]
        for role, text in turns:
            # Tokens of the chat format inside a text would end the turn.
            parts.append(f"<|im_start|>{role}\n{text.replace('<|im_', '<| im_')}<|im_end|>\n")
        prompt = "".join(parts) + "<|im_start|>assistant\n$"
        key = hashlib.sha256(json.dumps([prompt, trap.commands]).encode()).hexdigest()
        if key not in self._probabilities:
            scores = self._model.score(prompt, [f" {command}<|im_end|>" for command in trap.commands])
            best = max(scores)
            weights = [math.exp((score - best) / self.temperature) for score in scores]
            self._probabilities[key] = [weight / sum(weights) for weight in weights]
        return self._probabilities[key]


class RemotePolicy:
    """A real model behind an OpenAI-compatible address; it writes its command freely, without a list to choose from."""

    def __init__(self) -> None:
        self._url = os.environ["MODEL_URL"].rstrip("/") + "/chat/completions"
        self._key = os.environ.get("MODEL_KEY", "")
        self.name = os.environ["MODEL_NAME"]
        self.is_repeatable = False

    def choose(self, turns: Sequence[Turn], trap: Trap, seed: str) -> str:
        messages = [{"role": "system", "content": SYSTEM}]
        messages += [{"role": role, "content": text} for role, text in turns]
        body = {"model": self.name, "messages": messages, "max_tokens": 200}
        request = urllib.request.Request(
            self._url,
            json.dumps(body).encode(),
            {"content-type": "application/json", "authorization": f"Bearer {self._key}"},
        )
        with urllib.request.urlopen(request, timeout=120) as response:
            answer = json.load(response)
        return read_command(answer["choices"][0]["message"]["content"] or "")


def read_command(answer: str) -> str:
    """Return the command in a model's answer: its first line that is not the frame of a code block."""
    for line in answer.splitlines():
        command = line.strip().removeprefix("$").strip().strip("`").strip()
        if command and not line.strip().startswith("```"):
            return command
    return "true"


POLICIES = {"scripted": ScriptedPolicy, "tiny": TinyPolicy, "remote": RemotePolicy}
