"""What an agent may not do to hardwon itself, whatever its environment says: approve, lift a guard, edit our files.

A determined agent has other ways (it runs programs of its own choice); this stops the plain ones and says who may.
"""

from __future__ import annotations

import os

from hardwon.core.match import EDITS, OURSELVES, SHELL
from hardwon.core.shell import look

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from hardwon.core.shell import Simple
    from hardwon.words import Event

# What agents set for the commands they run. People set CODEX_HOME, CODEX_API_KEY and the like for themselves.
MARKS = (
    "CLAUDECODE", "CLAUDE_CODE_ENTRYPOINT", "AI_AGENT", "GEMINI_CLI", "OPENCODE", "CURSOR_AGENT", "CODEX_SANDBOX",
    "CODEX_SANDBOX_NETWORK_DISABLED", "CODEX_THREAD_ID", "CODEX_CI", "CODEX_MANAGED_BY_NPM", "CODEX_MANAGED_BY_BUN",
)  # fmt: skip
_KEPT = frozenset((*MARKS, "HARDWON_HOME"))  # what must stay as it is around our commands
_SETTERS = ("unset", "export", "declare", "typeset", "readonly", "local")

# A verb decides, or it does with one of these words; with one of the others it only shows or proposes.
_DECIDING = {
    "pause": (), "trust": (), "install": (), "uninstall": (), "accept": (), "reject": (), "allow": (), "review": (),
    "config": ("set",), "lessons": ("edit", "retire", "restore", "import"), "up": ("--yes",),
    "scan": ("promote", "--yes"), "sessions": ("delete",), "import": ("jsonl", "claude-mem"),
    "purge": (), "restore": (), "view": (), "memory": ("approve", "reject", "retire", "edit"),
    "handoff": ("ratify", "discard"), "reflect": ("--undo",), "jobs": ("retry", "cancel"),
    "unpause": (), "ratify": (), "discard": (), "approve": (),  # as a person types them to an agent
}  # fmt: skip
_SHOWING = {
    "trust": ("--list",), "install": ("--print",), "review": ("--json", "--judge"), "purge": ("--dry-run",),
}  # fmt: skip
_WITHOUT_OPTIONS = ("lessons", "config", "memory", "handoff", "jobs")  # no option with a value comes before the verb
_INTERPRETERS = ("python", "pypy")
_SHELLS = ("sh", "bash", "dash", "ksh", "zsh", ".", "source")
_DOOR = "door.sh"  # of our plugins: it becomes the hook
HOSTS = ("claude-code", "codex", "gemini", "opencode")
_GIVEN = tuple((name,) for name in HOSTS)
_LAUNCHERS = (
    "uv", "uvx", "pipx", "poetry", "pdm", "hatch", "pixi", "conda", "script", "tmux", "screen", "unbuffer", "expect",
    "strace", "flock", "parallel",
)  # fmt: skip
_SOURCES = ("lessons.json", "config.json")
_LONGEST = 50_000  # characters; a longer command is not read as a shell does, which would take a hook's time twice
_REACH, _MOST = 400, 2_000  # in one that is longer: characters from our name on, and how often it may stand there
_UNQUOTED = str.maketrans(";&|()`#", "\n" * 7, "'\"\\")


def forbidden(event: Event, home: str) -> str:
    """Why this call is a person's to make, or nothing."""
    if event.tool in EDITS and event.path and _is_ours(os.path.join(event.cwd, event.path), home):
        return f"The files in {home} are a person's to edit; propose a lesson with: hardwon lessons add"
    if event.tool != SHELL or (OURSELVES not in event.command and _DOOR not in event.command):
        return ""
    simple = _simple(event.command) if len(event.command) <= _LONGEST else None
    if simple is None:
        return _at_a_glance(event.command)
    if any(map(_runs_hook, simple)):
        return "hardwon's hook is run by the agent program, never by a command"
    given = [words for one in simple for words in _given(one)]
    if given and any(map(_hides, simple)):
        return "hardwon tells by CLAUDECODE, HARDWON_HOME and the like who runs it and where; leave them as they are"
    return next((_for_a_person(words) for words in given if _decides(words)), "")


def _for_a_person(given: Sequence[str]) -> str:
    from shlex import join  # it brings in `re`, which only a refusal pays for

    return f"This is for a person to decide. Ask them to type it in their own terminal: {join([OURSELVES, *given])}"


def _simple(command: str) -> list[Simple] | None:
    """The simple commands, with those in a string that a launcher is given; None if there are too many."""
    seen = look(command)
    if seen is None:
        return None
    found = list(seen[0])
    for one in seen[0]:
        for word in one.words[1:] if one.program in _LAUNCHERS else ():
            if (OURSELVES in word or _DOOR in word) and " " in word:
                found += _simple(word) or ()
    return found


def _given(one: Simple) -> Iterator[Sequence[str]]:
    """What hardwon is given by this command; where a launcher starts it, behind each word that may be its name."""
    if one.program.startswith(_INTERPRETERS):
        script = _script(one.words)
        if script and _names_us(script[0]):
            yield script[1:]
    elif one.program == OURSELVES or one.program in _LAUNCHERS or one.program[:1] == "-":
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
    return name.startswith(OURSELVES) and name[len(OURSELVES) :][:1] in ("", *"@=[<>~!")


def _decides(given: Sequence[str]) -> bool:
    verb, *more = [word for word in given if not word.startswith("-")] or [""]
    options = {word.partition("=")[0] for word in given if word.startswith("-")}
    if verb not in _DECIDING or options in ({"--help"}, {"-h"}) or options.intersection(_SHOWING.get(verb, ())):
        return False
    wanted = _DECIDING[verb]
    told = more[:1] if verb in _WITHOUT_OPTIONS else given
    return not wanted or any(word.partition("=")[0] in wanted for word in told)


def _hides(one: Simple) -> bool:
    """Whether what runs in it or after it no longer sees who runs it, or another home."""
    through = [word.rpartition("/")[2] for word in one.before]
    told = one.before if one.program not in (*_SETTERS, "env") and one.program[:1] != "-" else one.words
    names = {word.removeprefix("--unset=").removeprefix("-u").partition("=")[0] for word in " ".join(told).split()}
    emptied = "env" in through and any(
        word in ("-", "--ignore-environment") or (word[:1] == "-" != word[1:2] and "i" in word) for word in told
    )
    return emptied or "sudo" in through or "doas" in through or not names.isdisjoint(_KEPT)


def _runs_hook(one: Simple) -> bool:
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
        path.endswith((f"{OURSELVES}/hook.py", f"{OURSELVES}.hook"))
        or (path.rpartition("/")[2] == "hook.py" and len(words) > 3)
        or (OURSELVES in path and path.endswith(f"/{_DOOR}"))
    )


def _at_a_glance(command: str) -> str:
    """The same for a command that is too long to be read as a shell does; what is quoted counts too."""
    hides = any(name in command for name in _KEPT)
    hits, at = 0, command.find(OURSELVES)
    while at >= 0 and hits < _MOST:
        words = command[at : at + _REACH].translate(_UNQUOTED).partition("\n")[0].split()
        if _names_us(words[0]) and (hides or _decides(words[1:])):
            return _for_a_person(words[1:])
        if words[0].startswith(f"{OURSELVES}/hook.py") or words[0].endswith(f"/{_DOOR}"):
            return "hardwon's hook is run by the agent program, never by a command"
        hits, at = hits + 1, command.find(OURSELVES, at + 1)
    return "hardwon stands in this command too often for it to be read" if hits == _MOST else ""


def _is_ours(path: str, home: str) -> bool:
    """Whether it is a file of ours by its name, by where its links lead, or because one of ours is a link to it."""
    try:
        real = os.path.realpath(path)
        if real in [os.path.realpath(os.path.join(home, name)) for name in _SOURCES]:
            return True
        homes = tuple(place.rstrip("/") + "/" for place in (home, os.path.realpath(home)))
        return real.startswith(homes) or os.path.normpath(path).startswith(homes)
    except ValueError:  # no file can have such a name
        return False
