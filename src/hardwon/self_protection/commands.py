"""What an agent may not do to hardwon itself, whatever its environment says: approve, lift a guard, edit our files.

A determined agent has other ways (it runs programs of its own choice); this stops the plain ones and says who may.
"""

from __future__ import annotations

import os

from hardwon.shell.parsing import ParsedCommand, parse_command
from hardwon.types import EDIT_TOOLS, PROGRAM_NAME, SHELL_TOOL

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from hardwon.shell.parsing import SimpleCommand
    from hardwon.types import Event

# What agents set for the commands they run. People set CODEX_HOME, CODEX_API_KEY and the like for themselves.
AGENT_VARIABLES = (
    "CLAUDECODE",
    "CLAUDE_CODE_ENTRYPOINT",
    "AI_AGENT",
    "GEMINI_CLI",
    "OPENCODE",
    "CURSOR_AGENT",
    "CODEX_SANDBOX",
    "CODEX_SANDBOX_NETWORK_DISABLED",
    "CODEX_THREAD_ID",
    "CODEX_CI",
    "CODEX_MANAGED_BY_NPM",
    "CODEX_MANAGED_BY_BUN",
)
_KEPT = frozenset((*AGENT_VARIABLES, "HARDWON_HOME"))  # what must stay as it is around our commands
_SETTERS = ("unset", "export", "declare", "typeset", "readonly", "local")

# A verb decides, or it does with one of these words; with one of the others it only shows or proposes.
_DECIDING = {
    "pause": (),
    "trust": (),
    "install": (),
    "uninstall": (),
    "accept": (),
    "reject": (),
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
    "approvals": ("undo",),
    "memory": ("approve", "reject", "retire", "edit"),
    "handoff": ("ratify", "discard"),
    "reflect": ("--undo",),
    "jobs": ("retry", "cancel"),
    "backup": (),
    "unpause": (),
    "ratify": (),
    "discard": (),
    "approve": (),  # as a person types them to an agent
}
_SHOWING = {
    "trust": ("--list",),
    "install": ("--print",),
    "review": ("--json", "--judge"),
    "purge": ("--dry-run", "--log"),
}
_WITHOUT_OPTIONS = ("lessons", "config", "memory", "handoff", "jobs")  # no option with a value comes before the verb
_INTERPRETERS = ("python", "pypy")
_SHELLS = ("sh", "bash", "dash", "ksh", "zsh", ".", "source")
_DOOR = "door.sh"  # of our plugins: it becomes the hook
AGENTS = ("claude-code", "codex", "gemini", "opencode")
_GIVEN = tuple((name,) for name in AGENTS)
_LAUNCHERS = (
    "uv",
    "uvx",
    "pipx",
    "poetry",
    "pdm",
    "hatch",
    "pixi",
    "conda",
    "script",
    "tmux",
    "screen",
    "unbuffer",
    "expect",
    "strace",
    "flock",
    "parallel",
)
DEFAULT_BACKUP_COUNT = 5  # by default; to keep fewer is to delete some
_TYPED_TO_AGENTS = ("accept", "reject", "allow", "ratify", "discard", "approve", "handoff", "memory")
_AGENT_PROGRAMS = ("claude", "codex", "gemini", "opencode")
_TAKING_OUT = ("disable", "uninstall", "remove")

# One of these stands in a command or in the fields of a tool that writes our files or an agent's settings.
_HINTS = (
    PROGRAM_NAME,
    ".hard",
    "HARDWON",
    "lessons.json",
    "config.json",
    "settings",
    "hooks.json",
    "config.toml",
    ".claude",
    ".codex",
    ".gemini",
    "opencode",
    "CLAUDE_CONFIG_DIR",
    "CODEX_HOME",
)
_real_homes: dict[str, str] = {}  # a worker is asked about the same home again and again
_MCP = "mcp__"
_SOURCES = ("lessons.json", "config.json")  # which people link to their dotfiles
_LONGEST_PATH = 4096  # PATH_MAX; the system takes no longer one
_DEEPEST_LAUNCH = 3  # strings in strings that launchers are given
_LONGEST = 50_000  # characters; a longer command is not read as a shell does, which would take a hook's time twice
_REACH, _MOST = 400, 2_000  # in one that is longer: characters from our name on, and how often it may stand there
_UNQUOTED = str.maketrans(";&|()`#", "\n" * 7, "'\"\\")


def judge_call(event: Event, home: str) -> str:
    """Why this call is a person's to make, or nothing."""
    if event.tool == SHELL_TOOL:
        return _judge_command(event.command, event, home)
    if event.tool in EDIT_TOOLS and event.path and _may_edit_ours(event, home):
        from hardwon.self_protection.files import judge_edit

        return judge_edit(event, home)
    return _judge_mcp_call(event, home) if event.tool.startswith(_MCP) else ""


def _judge_command(command: str, event: Event, home: str) -> str:
    names_us = PROGRAM_NAME in command or _DOOR in command
    may_write = _may_concern(command, event.cwd, home)
    if not names_us and not may_write:
        return ""
    parsed = _parse_all(command) if len(command) <= _LONGEST else None
    if parsed is None:
        from hardwon.self_protection.files import judge_long_command

        return (_at_a_glance(command) if names_us else "") or judge_long_command(command, home)
    why = _judge_own_commands(parsed.simple_commands) if names_us else ""
    if why or not may_write or _is_only_ours(parsed):
        return why
    from hardwon.self_protection.files import judge_writes

    return judge_writes(parsed, command, event, home)


def _is_only_ours(parsed: ParsedCommand) -> bool:
    """Tell whether nothing but hardwon is run, and told no file to write: most commands that name us are such."""
    if parsed.redirections or not all(simple.program == PROGRAM_NAME for simple in parsed.simple_commands):
        return False
    return not any(word.startswith("--out") for simple in parsed.simple_commands for word in simple.words)


def _judge_mcp_call(event: Event, home: str) -> str:
    """Return why a tool of an MCP server may not do what it is asked to: run a command of ours, or write our files."""
    if event.tool.startswith(f"{_MCP}{PROGRAM_NAME}__") or not isinstance(event.input, dict):
        return ""
    for field in ("command", "cmd"):
        command = event.input.get(field)
        if isinstance(command, str) and (why := _judge_command(command, event, home)):
            return why
    if not _may_concern(event.content, event.cwd, home):  # all strings that it is given
        return ""
    from hardwon.self_protection.files import judge_mcp_call

    return judge_mcp_call(event, home)


def _judge_own_commands(simples: Sequence[SimpleCommand]) -> str:
    """Return why one of these decides what a person decides, or pretends to be one."""
    if any(map(_runs_hook, simples)):
        return "hardwon's hook is run by the agent program, never by a command"
    given = [words for simple in simples for words in _given(simple)]
    if given and any(map(_hides, simples)):
        return "hardwon tells by CLAUDECODE, HARDWON_HOME and the like who runs it and where; leave them as they are"
    for words in given:
        if _decides(words):
            return _for_a_person(words)
    for simple in simples:
        if _takes_plugin_out(simple):
            return _only_the_user(simple.full_text)
    return ""


def _takes_plugin_out(simple: SimpleCommand) -> bool:
    """Tell whether an agent's own command takes our plugin or extension out: `claude plugin disable hardwon`."""
    if simple.program not in _AGENT_PROGRAMS or not any(each in simple.words for each in _TAKING_OUT):
        return False
    return any(_names_us(each) for each in simple.words)


def _may_concern(text: str, cwd: str, home: str) -> bool:
    """Tell cheaply whether a call may write a file of ours; most calls end here."""
    for hint in _HINTS:
        if hint in text:
            return True
    if home not in _real_homes:
        _real_homes[home] = os.path.realpath(home)
    return cwd.startswith((home, _real_homes[home])) or home.rpartition("/")[2] in text


def _may_edit_ours(event: Event, home: str) -> bool:
    """Tell the same of an edit, whose path may lead to our files by a link that has another name."""
    if _may_concern(event.path, event.cwd, home):
        return True
    path = os.path.join(event.cwd, event.path)
    if len(path) > _LONGEST_PATH or "\0" in path:
        return False
    try:
        real_path = os.path.realpath(path)
    except ValueError:  # no file can have such a name
        return False
    if _may_concern("", real_path, home):
        return True
    sources = [os.path.join(home, name) for name in _SOURCES]
    return any(os.path.realpath(source) == real_path for source in sources if os.path.islink(source))


def _for_a_person(given: Sequence[str]) -> str:
    from shlex import join  # it brings in `re`, which only a refusal pays for

    command = join([PROGRAM_NAME, *given])
    is_answered_as_prompt = bool(given) and given[0] in _TYPED_TO_AGENTS
    return _only_the_user(command, "as a prompt or in a terminal" if is_answered_as_prompt else "")


def _only_the_user(command: str, where: str = "") -> str:
    from hardwon.self_protection.files import shorten_command

    how = f", {where}" if where else " in a terminal"
    return f"Only the user can do this. Ask them to type{how}: {shorten_command(command)}"


def _parse_all(command: str, depth: int = 0) -> ParsedCommand | None:
    """The simple commands, with those in a string that a launcher is given; None if there are too many."""
    parsed = parse_command(command)
    if parsed is None:
        return None
    simples, redirections, loop_words = list(parsed.simple_commands), list(parsed.redirections), list(parsed.loop_words)
    for simple in parsed.simple_commands:
        for each in simple.words[1:] if simple.program in _LAUNCHERS and depth < _DEEPEST_LAUNCH else ():
            inner = _parse_all(each, depth + 1) if " " in each else None
            if inner is not None:
                simples += inner.simple_commands
                redirections += [(len(command), file) for _, file in inner.redirections]
                loop_words += inner.loop_words
    return ParsedCommand(tuple(simples), tuple(redirections), tuple(loop_words))


def _given(one: SimpleCommand) -> Iterator[Sequence[str]]:
    """What hardwon is given by this command; where a launcher starts it, behind each word that may be its name."""
    if one.program.startswith(_INTERPRETERS):
        script = _script(one.words)
        if script and _names_us(script[0]):
            yield script[1:]
    elif one.program == PROGRAM_NAME or one.program in _LAUNCHERS or one.program[:1] == "-":
        yield from (one.words[place + 1 :] for place, word in enumerate(one.words) if _names_us(word))


def _script(words: Sequence[str]) -> Sequence[str]:
    """What an interpreter runs, a file or a module, and what it gives it."""
    rest = list(words[1:])
    while rest and rest[0].startswith("-"):
        option = rest.pop(0)
        if option[1:2] != "-" and option[-1] in "mc":
            break
        if option in ("-W", "-X"):
            del rest[:1]
    return rest


def _names_us(word: str) -> bool:
    name = word.removesuffix("/__main__.py").removesuffix(".__main__").rpartition("/")[2]
    return name.startswith(PROGRAM_NAME) and name[len(PROGRAM_NAME) :][:1] in ("", *"@=[<>~!")


def _decides(given: Sequence[str]) -> bool:
    verb, *more = [word for word in given if not word.startswith("-")] or [""]
    options = {word.partition("=")[0] for word in given if word.startswith("-")}
    if verb not in _DECIDING or options in ({"--help"}, {"-h"}) or options.intersection(_SHOWING.get(verb, ())):
        return False
    if verb == "backup":
        return _keeps_fewer_backups(given)
    wanted = _DECIDING[verb]
    told = more[:1] if verb in _WITHOUT_OPTIONS else given
    return not wanted or any(word.partition("=")[0] in wanted for word in told)


def _keeps_fewer_backups(given: Sequence[str]) -> bool:
    """Tell whether `--keep` is below the default, or is no number that could be read here."""
    for place, each in enumerate(given):
        option, equals, value = each.partition("=")
        if option == "--keep":
            number = value if equals else "".join(given[place + 1 : place + 2])
            return not number.isdecimal() or int(number[:9]) < DEFAULT_BACKUP_COUNT
    return False


def _hides(one: SimpleCommand) -> bool:
    """Whether what runs in it or after it no longer sees who runs it, or another home."""
    through = [word.rpartition("/")[2] for word in one.prefix_words]
    told = one.prefix_words if one.program not in (*_SETTERS, "env") and one.program[:1] != "-" else one.words
    names = {word.removeprefix("--unset=").removeprefix("-u").partition("=")[0] for word in " ".join(told).split()}
    emptied = "env" in through and any(
        word in ("-", "--ignore-environment") or (word[:1] == "-" != word[1:2] and "i" in word) for word in told
    )
    return emptied or "sudo" in through or "doas" in through or not names.isdisjoint(_KEPT)


def _runs_hook(one: SimpleCommand) -> bool:
    words = one.words
    if any(word.rpartition("/")[2] == _DOOR and words[at + 1 : at + 2] in _GIVEN for at, word in enumerate(words)):
        return True
    if one.program in _LAUNCHERS:
        starts = [place for place, word in enumerate(words) if word == "run" or word.startswith(_INTERPRETERS)]
        return bool(starts) and _is_hook(_script(words[starts[-1] :]))
    if one.program in _SHELLS and "-n" in words:
        return False
    return _is_hook(_script(words) if one.program.startswith(_INTERPRETERS) or one.program in _SHELLS else words)


def _is_hook(words: Sequence[str]) -> bool:
    """Whether these are our hook and what it is given; in its own folder it has no more of a name than any other."""
    path = words[0] if words else ""
    return (
        path.endswith((f"{PROGRAM_NAME}/hook.py", f"{PROGRAM_NAME}.hook"))
        or (path.rpartition("/")[2] == "hook.py" and len(words) > 3)
        or (PROGRAM_NAME in path and path.endswith(f"/{_DOOR}"))
    )


def _at_a_glance(command: str) -> str:
    """The same for a command that is too long to be read as a shell does; what is quoted counts too."""
    hides = any(name in command for name in _KEPT)
    hits, at = 0, command.find(PROGRAM_NAME)
    while at >= 0 and hits < _MOST:
        words = command[at : at + _REACH].translate(_UNQUOTED).partition("\n")[0].split()
        if _names_us(words[0]) and (hides or _decides(words[1:])):
            return _for_a_person(words[1:])
        if words[0].startswith(f"{PROGRAM_NAME}/hook.py") or words[0].endswith(f"/{_DOOR}"):
            return "hardwon's hook is run by the agent program, never by a command"
        hits, at = hits + 1, command.find(PROGRAM_NAME, at + 1)
    return "hardwon stands in this command too often for it to be read" if hits == _MOST else ""
