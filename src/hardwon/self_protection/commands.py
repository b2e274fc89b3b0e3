"""Refuse calls by which an agent would approve something, lift a guard or edit hardwon's files.

A determined agent can still write a program that does it; this stops the plain ways and says who may do it. The agent's
environment variables are not trusted.
"""

from __future__ import annotations

import os
from itertools import pairwise

from hardwon import paths, projects
from hardwon.agents import AGENT_NAMES
from hardwon.types import EDIT_TOOLS, PROGRAM_NAME, SHELL_TOOL, replace

TYPE_CHECKING = False  # importing it from `typing` would slow down the hook
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from hardwon.shell.parsing import ParsedCommand, SimpleCommand
    from hardwon.types import Event

# Variables that agents set for the commands they run. CODEX_HOME, CODEX_API_KEY and the like are missing here because
# people set those themselves.
_AGENT_VARIABLES = tuple(
    """
    CLAUDECODE CLAUDE_CODE_ENTRYPOINT AI_AGENT GEMINI_CLI OPENCODE CURSOR_AGENT CODEX_SANDBOX
    CODEX_SANDBOX_NETWORK_DISABLED CODEX_THREAD_ID CODEX_CI CODEX_MANAGED_BY_NPM CODEX_MANAGED_BY_BUN
    COPILOT_CLI COPILOT_AGENT COPILOT_AGENT_SESSION_ID QWEN_CODE KILO GROK_AGENT
    """.split()
)
_GUARDED_VARIABLES = frozenset((*_AGENT_VARIABLES, "HARDWON_HOME"))  # a command must not change these for hardwon
_SETTERS = ("unset", "export", "declare", "typeset", "readonly", "local")

# Commands that only a person may run: always if the tuple is empty, else only with one of its words. With an option of
# `_SHOWING_OPTIONS` a command only shows or proposes, so an agent may run it. `hardwon data VERB` is the same as
# `hardwon VERB`.
_DECIDING_VERBS = {
    "pause": (),
    "trust": (),
    "install": (),
    "uninstall": (),
    "accept": (),
    "reject": (),
    "undo": (),
    "allow": (),
    "review": (),
    "config": ("set",),
    "lessons": ("edit", "retire", "restore", "import"),
    "up": ("--yes",),
    "scan": ("promote", "--yes"),
    "sessions": ("delete",),
    "import": ("jsonl", "claude-mem"),
    "purge": (),
    "restore": (),
    "view": (),
    "proof": ("--measure", "--stop", "--undo"),
    "memory": ("approve", "reject", "retire", "edit"),
    "handoff": ("ratify", "discard"),
    "reflect": ("--undo",),
    "jobs": ("retry", "cancel"),
    "team": tuple(
        "init propose serve join leave invite role revoke share mute unmute retire erase rollback token".split()
    ),
    "backup": (),
    "unpause": (),
    "ratify": (),
    "discard": (),
    "approve": (),  # `ratify`, `discard` and `approve` exist only as prompts that a person types to an agent
}
_SHOWING_OPTIONS = {
    "trust": ("--list",),
    "install": ("--print",),
    "review": ("--json", "--judge"),
    "purge": ("--dry-run", "--log"),
}
# No option with a value precedes their subcommands.
_WITHOUT_OPTIONS = ("lessons", "config", "memory", "handoff", "jobs", "team")
_INTERPRETERS = ("python", "pypy")
_SHELLS = ("sh", "bash", "dash", "ksh", "zsh", "fish", ".", "source")
_PRINTING_PROGRAMS = ("echo", "printf")  # what they print may be piped to a shell
_LOOKUP_PROGRAMS = ("which", "command", "type", "whence", "where", "realpath", "readlink")
_SCHEDULERS = ("at", "batch", "crontab")  # run what they read, without the agent's variables
_HOOK_LAUNCHER = "door.sh"  # the script of hardwon's plugins that starts the hook
_CLEARING_LAUNCHERS = ("systemd-run", "su", "runuser", "machinectl", "launchctl")  # without the agent's variables
_LAUNCHERS = (
    *"uv uvx pipx poetry pdm hatch pixi conda script tmux screen unbuffer expect strace flock parallel".split(),
    *"trap chroot fish".split(),
    *_CLEARING_LAUNCHERS,
)
DEFAULT_BACKUP_COUNT = 5  # keeping fewer deletes backups, which only a person may do
_TYPED_TO_AGENTS = ("accept", "reject", "undo", "allow", "ratify", "discard", "approve", "handoff", "memory")
_AGENT_PROGRAMS = (*AGENT_NAMES, "claude", "dcode", "cursor-agent")
_REMOVAL_VERBS = ("disable", "uninstall", "remove")

# Every call that writes hardwon's files or an agent's settings contains one of these; other calls skip the checks.
_HINTS = tuple(
    f"""
    {PROGRAM_NAME} .hard HARDWON lessons.json config.json settings hooks.json config.toml
    .claude .codex .gemini opencode .copilot .qwen kilo .grok .factory .vibe .deepagents .cursor .cline
    ToolUse.sh TaskStart.sh TaskComplete.sh SessionShutdown.sh
    COPILOT_HOME CLINE_DIR CLAUDE_CONFIG_DIR CODEX_HOME
    """.split()
)
_real_homes: dict[str, str] = {}  # cached, since a worker asks for the same home on every call
_MCP_PREFIX = "mcp__"
_COMMAND_FIELDS = ("command", "cmd", "script", "argv")
_MAX_LAUNCH_DEPTH = 3  # of commands in strings that launchers run
_MAX_COMMAND_CHARS = 50_000  # a longer command is not parsed, because that would take twice the time a hook has


def find_agent_variable(environment: Mapping[str, str]) -> str:
    """Return the variable that reveals an agent, or an empty string for a person, who alone may approve."""
    for name in _AGENT_VARIABLES:
        if environment.get(name):
            return name
    return ""


def judge_call(event: Event, home: str) -> str:
    """Return why only a person may make this call; empty if an agent may."""
    if event.tool == SHELL_TOOL:
        return _judge_command(event.command, event, home)
    if event.tool in EDIT_TOOLS and event.path and _can_edit_own_files(event, home):
        from hardwon.self_protection.files import judge_edit

        return judge_edit(event, home)
    if event.tool.startswith(_MCP_PREFIX):
        return _judge_mcp_call(event, home)
    # Other tools run commands too: Claude Code's Monitor and PowerShell.
    if isinstance(event.input, dict) and "command" in event.input and event.tool not in EDIT_TOOLS:
        return _judge_command_fields(event, home)
    return ""


def _judge_command(command: str, event: Event, home: str) -> str:
    """Return why an agent may not run this shell command; empty if it may."""
    # Two searches in the text rule out almost every call, so parsing comes after them.
    unbroken = command.replace("\\\n", "")  # a line may go on within a name
    mentions_hardwon = PROGRAM_NAME in unbroken or _HOOK_LAUNCHER in unbroken
    can_write = _can_write_own_files(unbroken, event.cwd, home)
    if not mentions_hardwon and not can_write:
        return ""
    parsed = _parse_nested(command) if len(command) <= _MAX_COMMAND_CHARS else None
    if parsed is None:
        from hardwon.self_protection.files import judge_long_command

        if mentions_hardwon and (reason := _scan_long_command(command)):
            return reason
        return judge_long_command(command, home)
    if mentions_hardwon and (reason := _judge_own_commands(parsed.simple_commands)):
        return reason
    if not can_write or _is_only_hardwon(parsed):
        return ""
    from hardwon.self_protection.files import judge_writes

    return judge_writes(parsed, command, event, home)


def _is_only_hardwon(parsed: ParsedCommand) -> bool:
    """Return whether a command only runs hardwon and writes no file, as most commands that name hardwon do."""
    if parsed.redirections:
        return False
    for simple in parsed.simple_commands:
        if simple.program != PROGRAM_NAME:
            return False
        if any(word.startswith("--out") for word in simple.words):
            return False  # --out names a file to write
    return True


def _judge_mcp_call(event: Event, home: str) -> str:
    """Return why an MCP tool may not run this hardwon command or write these files; empty if it may."""
    if event.tool.startswith(f"{_MCP_PREFIX}{PROGRAM_NAME}__") or not isinstance(event.input, dict):
        return ""
    if reason := _judge_command_fields(event, home):
        return reason
    if not _can_write_own_files(event.content, event.cwd, home):  # all strings that it is given
        return ""
    from hardwon.self_protection.files import judge_mcp_call

    return judge_mcp_call(event, home)


def _judge_command_fields(event: Event, home: str) -> str:
    """Judge the commands in a tool's input: a string, a list of words, or a program beside its `args`."""
    arguments = event.input.get("args")
    argument_words = []
    if isinstance(arguments, list):
        argument_words = [word for word in arguments if isinstance(word, str)]
    for field in _COMMAND_FIELDS:
        command = event.input.get(field)
        if isinstance(command, str):
            text = " ".join([command, *map(_quote, argument_words)])
        elif isinstance(command, list):
            text = " ".join(_quote(word) for word in command if isinstance(word, str))
        else:
            continue
        if reason := _judge_command(text, event, home):
            return reason
    return ""


def _quote(word: str) -> str:
    return "'" + word.replace("'", "'\\''") + "'"


def _judge_own_commands(simples: Sequence[SimpleCommand]) -> str:
    """Return why one of these commands is only for a person, or pretends to come from one; empty if none is."""
    if any(map(_is_hook_run, simples)):
        return "hardwon's hook is run by the agent program, never by a command"
    argument_lists: list[Sequence[str]] = []
    for simple in simples:
        argument_lists += _iter_arguments(simple)
    if any(map(_looks_up_hardwon, simples)):  # `$(which hardwon) accept 3`
        argument_lists += [simple.words[1:] for simple in simples if simple.program.startswith("$")]
    if argument_lists and any(map(_is_hiding_caller, simples)):
        return "hardwon tells by CLAUDECODE, HARDWON_HOME and the like who runs it and where; leave them as they are"
    for words in argument_lists:
        if _is_decision(words):
            return _format_decision_refusal(words)
    for simple in simples:
        if _is_plugin_removal(simple):
            return _format_user_refusal(simple.full_text)
    return ""


def _is_plugin_removal(simple: SimpleCommand) -> bool:
    """Return whether this removes hardwon's plugin from an agent, such as `claude plugin disable hardwon`."""
    if simple.program not in _AGENT_PROGRAMS or not any(word in simple.words for word in _REMOVAL_VERBS):
        return False
    return any(_is_own_name(word) for word in simple.words)


def _can_write_own_files(text: str, cwd: str, home: str) -> bool:
    """Return, by a cheap check that rules out most calls, whether a call may write hardwon's files."""
    for hint in _HINTS:
        if hint in text:
            return True
    if home not in _real_homes:
        _real_homes[home] = os.path.realpath(home)
    home_name = home.rpartition("/")[2]  # a person may have put the home under another name than .hardwon
    return home_name in text or cwd.startswith((home, _real_homes[home]))


def _can_edit_own_files(event: Event, home: str) -> bool:
    """Check an edit like `_can_write_own_files`, and follow links that lead to hardwon's files by another name."""
    if _can_write_own_files(event.path, event.cwd, home):
        return True
    path = os.path.join(event.cwd, event.path)
    if len(path) > projects.MAX_PATH_LENGTH or "\0" in path:
        return False
    try:
        real_path = os.path.realpath(path)
    except ValueError:  # a null byte or a lone surrogate in the path
        return False
    if _can_write_own_files(text="", cwd=real_path, home=home):
        return True
    # People link these to their dotfiles.
    for name in (paths.LESSONS, paths.CONFIG):
        source = os.path.join(home, name)
        if os.path.islink(source) and os.path.realpath(source) == real_path:
            return True
    return False


def _format_decision_refusal(arguments: Sequence[str]) -> str:
    """Return the refusal of a command that only the person may run, and where they can type it."""
    from shlex import join  # imports `re`, which only a refusal needs

    command = join([PROGRAM_NAME, *arguments])
    is_answered_as_prompt = bool(arguments) and arguments[0] in _TYPED_TO_AGENTS
    return _format_user_refusal(command, "as a prompt or in a terminal" if is_answered_as_prompt else "")


def _format_user_refusal(command: str, where: str = "") -> str:
    from hardwon.self_protection.files import shorten_command

    location = f", {where}" if where else " in a terminal"
    return f"Only the user can do this. Ask them to type{location}: {shorten_command(command)}"


def _parse_nested(command: str, depth: int = 0) -> ParsedCommand | None:
    """Parse a command, including commands in strings that launchers run; None if there are too many."""
    from hardwon.shell.parsing import ParsedCommand, parse_command  # imported here because few calls get this far

    parsed = parse_command(command)
    if parsed is None:
        return None
    simples = list(parsed.simple_commands)
    redirections = list(parsed.redirections)
    loop_words = list(parsed.loop_words)
    scripts = _find_scripts(parsed.simple_commands) if depth < _MAX_LAUNCH_DEPTH else []
    for script in scripts:
        inner = _parse_nested(script, depth + 1)
        if inner is not None:
            simples += inner.simple_commands
            redirections += [replace(redirection, start=len(command)) for redirection in inner.redirections]
            loop_words += inner.loop_words
    return ParsedCommand(tuple(simples), tuple(redirections), tuple(loop_words))


def _find_scripts(simples: Sequence[SimpleCommand]) -> list[str]:
    """Return the strings in which other commands stand that these commands run."""
    scripts = []
    has_input_reader = any(map(_runs_its_input, simples))
    for simple in simples:
        if has_input_reader and simple.program in _PRINTING_PROGRAMS:  # `echo 'hardwon accept 3' | sh`
            scripts.append(" ".join(simple.words[1:]).replace("\\n", "\n"))
        if simple.program in _LAUNCHERS:  # `tmux send-keys 'hardwon accept 3'`
            scripts += [word for word in simple.words[1:] if " " in word]
    return scripts


def _runs_its_input(simple: SimpleCommand) -> bool:
    """Return whether a program runs the commands that it reads from its input.

    A shell does so without a script to run, and with `-s` even beside operands.
    """
    if simple.program in _SCHEDULERS:
        return True
    if simple.program not in _SHELLS or "-c" in simple.words:
        return False
    operands = [word for word in simple.words[1:] if not word.startswith("-")]
    return not operands or "-s" in simple.words


def _iter_arguments(simple: SimpleCommand) -> Iterator[Sequence[str]]:
    """Yield the arguments that this command passes to hardwon.

    Options of launchers are not known, so after a launcher every word that may be hardwon's name counts.
    """
    if simple.program.startswith(_INTERPRETERS):
        script = _find_script(simple.words)
        if script and _is_own_name(script[0]):
            yield script[1:]
    elif simple.program == PROGRAM_NAME or simple.program in _LAUNCHERS or simple.program[:1] == "-":
        for position, word in enumerate(simple.words):
            if _is_own_name(word):
                yield simple.words[position + 1 :]


def _looks_up_hardwon(simple: SimpleCommand) -> bool:
    return simple.program in _LOOKUP_PROGRAMS and any(_is_own_name(word) for word in simple.words[1:])


def _find_launched_script(words: Sequence[str]) -> Sequence[str]:
    """Return the script that a launcher runs, followed by its arguments: `hook.py` of `uv run python hook.py`.

    Empty if the launcher has neither `run` nor an interpreter among its words.
    """
    # The last of them, as in the example, stands before the script and its options.
    for position in reversed(range(len(words))):
        if words[position] == "run" or words[position].startswith(_INTERPRETERS):
            return _find_script(words[position:])
    return ()


def _find_script(words: Sequence[str]) -> Sequence[str]:
    """Return the file or module that an interpreter runs, followed by its arguments."""
    rest = list(words[1:])
    while rest and rest[0].startswith("-"):
        option = rest.pop(0)
        # `-m MODULE` and `-c CODE` end the options, also as the last of several letters: `-Im hardwon`.
        if not option.startswith("--") and option[-1] in "mc":
            break
        if option in ("-W", "-X"):  # their value is the next word
            del rest[:1]
    return rest


def _is_own_name(word: str) -> bool:
    """Return whether a word is hardwon's program, module or package, such as `bin/hardwon` or `hardwon[mcp]==0.1`."""
    name = word.removesuffix("/__main__.py").removesuffix(".__main__").rpartition("/")[2]
    if not name.startswith(PROGRAM_NAME):
        return False
    following = name[len(PROGRAM_NAME) :][:1]
    return following in ("", *"@=[<>~!")


def _is_decision(arguments: Sequence[str]) -> bool:
    """Return whether hardwon with these arguments does something that only a person may do."""
    # `hardwon data purge` is `hardwon purge`, and `hardwon worker jobs` is `hardwon jobs`.
    if arguments and arguments[0] in ("data", "worker"):
        arguments = arguments[1:]
    verb, *operands = [word for word in arguments if not word.startswith("-")] or [""]
    options = {word.partition("=")[0] for word in arguments if word.startswith("-")}
    if verb not in _DECIDING_VERBS:
        return False
    is_help = options in ({"--help"}, {"-h"})
    if is_help or options.intersection(_SHOWING_OPTIONS.get(verb, ())):
        return False
    if verb == "backup":
        return _is_backup_reduction(arguments)
    deciding_words = _DECIDING_VERBS[verb]
    # The value of an option could be taken for the subcommand, so elsewhere every word counts.
    checked_words = operands[:1] if verb in _WITHOUT_OPTIONS else arguments
    return not deciding_words or any(word.partition("=")[0] in deciding_words for word in checked_words)


def _is_backup_reduction(arguments: Sequence[str]) -> bool:
    """Return whether `--keep` is below the default, or not a plain number, such as a variable."""
    for position, argument in enumerate(arguments):
        option, equals, value = argument.partition("=")
        if option == "--keep":
            number = value if equals else "".join(arguments[position + 1 : position + 2])
            return not number.isdecimal() or int(number[:9]) < DEFAULT_BACKUP_COUNT
    return False


def _is_hiding_caller(simple: SimpleCommand) -> bool:
    """Return whether a command changes the variables that show an agent runs hardwon, or the home it uses."""
    wrappers = [word.rpartition("/")[2] for word in simple.prefix_words]
    if "sudo" in wrappers or "doas" in wrappers or simple.program in _CLEARING_LAUNCHERS:
        return True
    sets_variables = simple.program in (*_SETTERS, "env") or simple.program.startswith("-")
    words = simple.words if sets_variables else simple.prefix_words
    if "env" in wrappers and any(map(_is_clearing_option, words)):
        return True
    # `NAME=value`, `-uNAME`, `--unset=NAME`; a word may hold several of them in quotes.
    for word in " ".join(words).split():
        name, _, _ = word.removeprefix("--unset=").removeprefix("-u").partition("=")
        if name in _GUARDED_VARIABLES:
            return True
    return False


def _is_clearing_option(word: str) -> bool:
    """Return whether this option makes env start with an empty environment: `-`, `-i`, also among other letters."""
    if word.startswith("--"):
        return word == "--ignore-environment"
    return word == "-" or (word.startswith("-") and "i" in word)


def _is_hook_run(simple: SimpleCommand) -> bool:
    """Return whether a command runs hardwon's hook, directly or by an interpreter, a shell or a launcher."""
    words = simple.words
    for word, next_word in pairwise(words):
        if word.rpartition("/")[2] == _HOOK_LAUNCHER and next_word in AGENT_NAMES:
            return True
    if simple.program in _LAUNCHERS:
        return _is_hook(_find_launched_script(words))
    if simple.program in _SHELLS and "-n" in words:  # which only checks the syntax
        return False
    if simple.program in _SHELLS or simple.program.startswith(_INTERPRETERS):
        return _is_hook(_find_script(words))
    return _is_hook(words)


def _is_hook(words: Sequence[str]) -> bool:
    """Return whether these words run hardwon's hook.

    Run from its own folder it is just `hook.py`, which counts only with three or more arguments.
    """
    path = words[0] if words else ""
    if path.endswith((f"{PROGRAM_NAME}/hook.py", f"{PROGRAM_NAME}.hook")):
        return True
    if path.endswith(f"/{_HOOK_LAUNCHER}"):
        return PROGRAM_NAME in path
    return path.rpartition("/")[2] == "hook.py" and len(words) > 3


def _scan_long_command(command: str) -> str:
    """Return why a command that is too long to parse is refused, else ""; quoted text counts too."""
    from hardwon.self_protection.files import MAX_MENTIONS, SCANNED_CHARS, iter_mentions, unquote_part

    sets_guarded_variable = any(name in command for name in _GUARDED_VARIABLES)
    for position in iter_mentions(command, PROGRAM_NAME):
        # From the name on, so there is at least one word.
        words = unquote_part(command[position : position + SCANNED_CHARS]).partition("\n")[0].split()
        if _is_own_name(words[0]) and (sets_guarded_variable or _is_decision(words[1:])):
            return _format_decision_refusal(words[1:])
        if words[0].startswith(f"{PROGRAM_NAME}/hook.py") or words[0].endswith(f"/{_HOOK_LAUNCHER}"):
            return "hardwon's hook is run by the agent program, never by a command"
    if command.count(PROGRAM_NAME) >= MAX_MENTIONS:
        return "hardwon stands in this command too often for it to be read"
    return ""
