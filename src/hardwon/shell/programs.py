"""Which program the words of a simple command start, past the wrappers before it, and what it gives a shell to run."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

_SHELLS = frozenset(("bash", "sh", "zsh", "dash", "ksh"))
# The options that take a value, for what starts a program named among its arguments.
_WRAPPERS = {
    "sudo": "-u -g -h -p -C -D -R -T -U -r -t --user --group --host --prompt --chdir --chroot",
    "doas": "-u -C",
    "env": "-u -C --unset --chdir",
    "time": "-f -o --format --output",
    "nice": "-n --adjustment",
    "ionice": "-c -n -p -P -u --class --classdata",
    "stdbuf": "-i -o -e --input --output --error",
    "timeout": "-s -k --signal --kill-after",
    "xargs": "-n -I -P -L -s -d -E -a --max-args --max-procs --max-chars --delimiter --arg-file",
    "exec": "-a",
    "watch": "-n -q --interval --equexit",
    "caffeinate": "-t -w",
    **dict.fromkeys(("nohup", "setsid", "command", "builtin", "busybox"), ""),
}
_FINAL_OPTIONS = {"command": ("-v", "-V"), "env": ("-S", "--split-string"), "sudo": ("-l", "-e", "-v", "--list")}
_SSH_VALUE_OPTIONS = "-B -b -c -D -E -e -F -I -i -J -L -l -m -O -o -p -Q -R -S -W -w"
_LAUNCHER_VALUE_OPTIONS = "-p -w --with --from --spec --python --project --directory --extra --group"


def _skip_options(values: Sequence[str], i: int, value_options: str, final_options: tuple[str, ...] = ()) -> int:
    """Past the options at `i` and the values of those that take one; the end if one is `final_options`."""
    takers = value_options.split()
    while i < len(values) and (option := values[i]).startswith("-"):
        if option.startswith(final_options):
            return len(values)
        # Of letters run together, the first that takes a value has the rest as its value, or the next word.
        taker = [k for k, letter in enumerate(option) if "-" + letter in takers][:1]
        i += 2 if option in takers or (option[1:2] != "-" and taker == [len(option) - 1]) else 1
        if option == "--":
            break
    return i


def find_program_index(values: Sequence[str]) -> int:
    """The index of the program, past assignments and wrappers; a wrapper of nothing is the program."""
    i, name, program_index = 0, "", len(values)
    while i < len(values) and not (name == "watch" and " " in values[i]):
        key, equals, _ = values[i].partition("=")
        if equals and key.rstrip("+").partition("[")[0].isidentifier():
            i += 1
            continue
        program_index, name = i, values[i].rpartition("/")[2]
        if name not in _WRAPPERS:
            break
        i = _skip_options(values, i + 1, _WRAPPERS[name], _FINAL_OPTIONS.get(name, ())) + (name == "timeout")
    return program_index


def get_program_name(values: Sequence[str]) -> str:
    """The program's name; hardwon's own however it was started."""
    name = rest = values[0].rpartition("/")[2] if values else ""
    if name == "uvx" or (name in ("uv", "pipx") and values[1:2] == ["run"]):
        values = values[_skip_options(values, 1 if name == "uvx" else 2, _LAUNCHER_VALUE_OPTIONS) :]
        rest = values[0].rpartition("/")[2].partition("@")[0] if values else ""
    if rest.startswith("python"):
        module_index = _skip_options(values, 1, "-W -X")
        rest = "".join(values[module_index : module_index + 1]) if values[module_index - 1].endswith("m") else ""
    return "hardwon" if rest == "hardwon" else name


def find_shell_script(program: str, args: Sequence[str]) -> tuple[str, bool]:
    """The string that the program gives to a shell, and whether it is a shell that reads its input."""
    if program in _SHELLS:
        i = _skip_options(args, 0, "-o -O --rcfile --init-file")
        letters = "".join(arg for arg in args[:i] if arg[:1] == "-" != arg[1:2])
        return ("".join(args[i : i + 1]), False) if "c" in letters else ("", i >= len(args) or "s" in letters)
    if program in ("su", "env"):
        option = "-c" if program == "su" else "-S"
        return "".join(args[args.index(option) + 1 :][:1]) if option in args else "", False
    if program == "ssh":
        return " ".join(args[_skip_options(args, 0, _SSH_VALUE_OPTIONS) + 1 :]), False
    if program == "watch":
        return " ".join(args[_skip_options(args, 0, _WRAPPERS["watch"]) :]), False
    return " ".join(args) if program == "eval" else "", False
