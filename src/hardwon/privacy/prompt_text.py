"""Extract from a prompt what a person wrote to their agent.

Agents also send notifications, the output of local commands and reminders as prompts. People type hardwon's commands
there, such as `hardwon accept 3`, and `#lesson` blocks, which are not recorded as work. The hook imports this module
when no worker runs, so it uses the standard library without `re`.
"""

from __future__ import annotations

TYPE_CHECKING = False  # importing it from `typing` would slow down the hook
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


# Elements that agents add to a person's words, each at the start of a line.
_BESIDE_TAGS = ("system-reminder", "ide_opened_file", "ide_selection", "ide_diagnostics", "hook_prompt", "hook_context")
# Elements that begin a prompt written entirely by the agent. Its own words may follow them, such as "Full transcript
# available at: …".
_PROGRAM_TAGS = (
    "task-notification",
    "local-command-caveat",
    "local-command-stdout",
    "local-command-stderr",
    "command-name",
    "command-message",
    "command-args",
    "command-contents",
    "bash-input",
    "bash-stdout",
    "bash-stderr",
    "teammate-message",
    "user-memory-input",
    "user-prompt-submit-hook",
)
# How an element of these tags begins, with or without attributes.
_PROGRAM_ELEMENTS = tuple(f"<{tag}{sign}" for tag in _PROGRAM_TAGS for sign in "> \n")
# Beginnings of other prompts written entirely by the agent.
_PROGRAM_OPENINGS = (
    "Caveat: The messages below were generated",
    "[Request interrupted by user",
    "[SYSTEM NOTIFICATION",
    "Stop hook feedback:",
    "This session is being continued from a previous conversation",
    "System: Please continue.",
)
_OUR_COMMANDS = ("/lessons:", "/hardwon:")
# Every command by its name, with the commands below it; the first ones are short forms that the command line hides.
_COMMANDS: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(("approve", "ratify", "discard", "retire", "promote", "allow"), ()),
    **dict.fromkeys(("up", "demo", "install", "uninstall", "doctor", "review", "accept", "reject", "undo"), ()),
    **dict.fromkeys(("status", "view", "search", "brief", "proof", "pause", "unpause", "show", "timeline", "why"), ()),
    **dict.fromkeys(("deliveries", "blame", "approvals", "trust", "reflect", "resume", "mcp", "completion", "dev"), ()),
    **dict.fromkeys(("backup", "restore", "purge", "rebuild", "start", "stop", "restart", "logs", "cost"), ()),
    "config": ("get", "set"),
    "data": ("export", "import", "backup", "restore", "purge", "rebuild"),
    "export": ("notes",),
    "handoff": ("list", "show", "ratify", "amend", "discard", "write", "resume", "undo"),
    "import": ("transcripts", "jsonl", "claude-mem", "notes"),
    "jobs": ("list", "retry", "cancel"),
    "lessons": ("list", "show", "add", "edit", "import", "restore", "retire", "build", "check"),
    "memory": ("list", "show", "add", "edit", "approve", "reject", "retire", "check", "undo"),
    "scan": ("candidates", "promote", "state"),
    "sessions": ("list", "show", "delete"),
    "team": (
        *("check", "erase", "init", "invite", "join", "leave", "list", "members", "mute", "policy", "propose", "pull"),
        *("retire", "review", "revoke", "role", "rollback", "serve", "share", "show", "status", "sync", "token"),
        "unmute",
    ),
    "worker": ("start", "stop", "restart", "logs", "jobs", "cost"),
}
_TEXT_COMMANDS = (("handoff", "write"), ("memory", "add"), ("memory", "edit"))  # followed by free text
_MAX_LOOKBACK_CHARS = 200  # characters before an element


def extract_agent_prompt(prompt: str) -> str:
    """Return the part of a prompt that a person wrote to the agent; may be empty."""
    text = _strip_program_text(prompt)
    if is_only_for_hardwon(text):
        return ""
    return strip_lesson_blocks(text).strip()


def is_only_for_hardwon(prompt: str) -> bool:
    """Return whether a prompt is for hardwon alone: one of its commands, typed or with a slash, or only lessons.

    A prompt in which the person wrote nothing is for nobody, so not for hardwon.
    """
    text = _strip_program_text(prompt)
    if not text:
        return False
    first_word, *_ = text.split(maxsplit=1)
    if first_word.lower().startswith(_OUR_COMMANDS) or first_word.lower() == "/hardwon":
        return True
    if first_word == "hardwon":
        # No command has more words, and a prompt may be a whole file.
        words_after_name = _strip_quoted(text).split(maxsplit=40)[1:]
        if _is_command(words_after_name):
            return True
    return not strip_lesson_blocks(text).strip()


def _is_command(words: Sequence[str]) -> bool:
    """Return whether the words after `hardwon` are a command, not a sentence such as "hardwon search is slow"."""
    if not words or words[0] not in _COMMANDS:
        return False
    if tuple(words[:2]) in _TEXT_COMMANDS:
        return True
    has_command_below = len(words) > 1 and words[1] in _COMMANDS[words[0]]
    arguments = words[2:] if has_command_below else words[1:]
    return all(map(_is_argument, arguments))


def _is_argument(word: str) -> bool:
    """Return whether a word is an option, a number, an id, a slug, a path or a setting: no sentence has it."""
    bare = word.strip(",")
    _, _, after_colon = bare.partition(":")  # `L:3`
    bare = after_colon or bare
    number = bare[1:] if bare[:1].isalpha() else bare  # `L3`
    is_slug = len(bare) > 5 and "-" in bare[1:-1]
    if number.isdigit() or is_slug or bare in ("all", "true", "false"):
        return True
    is_option = word.startswith("-") and word.strip("-") != ""
    is_setting = word.isalnum() and word[0].islower() and word != word.lower()  # in camel case
    is_path = "/" in word or "." in word[:-1] or "_" in word
    return is_option or is_setting or is_path


def _strip_quoted(text: str) -> str:
    """Return a command without its quoted arguments."""
    for quote in "\"'":
        parts = text.split(quote)
        has_pairs_only = len(parts) % 2 == 1
        if has_pairs_only:
            text = "".join(parts[::2])  # every second part is inside a pair
    return text


def _strip_program_text(prompt: str) -> str:
    """Return the prompt without the elements that agents add beside a person's words.

    An unclosed element extends to the end. Empty if the agent wrote the whole prompt, as its beginning shows.
    """
    text = prompt
    if "<" in text:
        for tag in _BESIDE_TAGS:
            text = _strip_element(text, tag)
    text = text.lstrip()
    if text.startswith(_PROGRAM_OPENINGS) or text.startswith(_PROGRAM_ELEMENTS):
        return ""
    return text.rstrip()


def _strip_element(text: str, tag: str) -> str:
    """Return the text without the elements of this tag that begin a line; an unclosed one extends to the end."""
    opening = f"<{tag}"
    closing = f"</{tag}>"
    parts = []
    read_to = 0
    position = text.find(opening)
    while position >= 0:
        after_name = position + len(opening)
        has_whole_name = text[after_name : after_name + 1] in (">", " ", "\n", "\t")
        if not has_whole_name or not _is_at_line_start(text, position, read_to):
            position = text.find(opening, after_name)
            continue
        parts.append(text[read_to:position])
        end = text.find(closing, after_name)
        if end < 0:
            return "".join(parts)
        read_to = end + len(closing)
        position = text.find(opening, read_to)
    return "".join([*parts, text[read_to:]])


def _is_at_line_start(text: str, position: int, read_to: int) -> bool:
    """Return whether an element starts a line or directly follows another element.

    Elsewhere it is probably a person's mention of the element in a sentence.
    """
    preceding = text[max(read_to, position - _MAX_LOOKBACK_CHARS) : position]
    line_start = preceding.rpartition("\n")[2].rstrip()
    return line_start == "" or line_start.endswith(">")


def strip_lesson_blocks(text: str) -> str:
    """Return the text without `#lesson` blocks."""
    if "#lesson" not in text.lower():
        return text
    from hardwon.text.lesson_tags import find_lesson_blocks  # imports `re`, and few prompts hold a lesson

    for block in reversed(find_lesson_blocks(text)):
        text = f"{text[: block.start]}\n{text[block.end :]}"
    return text


def has_sensitive_word(texts: Iterable[str], sensitive_words: Sequence[str]) -> bool:
    """Return whether a text contains one of the words as a whole word, ignoring case."""
    import re  # no hook comes here

    alternatives = "|".join(re.escape(word.strip()) for word in sensitive_words if word.strip())
    if not alternatives:
        return False
    # A tag begins with a character such as `#` that is not part of a word, so \b does not work.
    pattern = re.compile(rf"(?<![\w#])(?:{alternatives})(?!\w)", re.I)
    return any(pattern.search(text) for text in texts)
