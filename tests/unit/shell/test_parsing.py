"""A command is split into its simple commands, and text that is no code is removed."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from types import FrameType
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from hardwon.shell.parsing import extract_code, parse_simple_commands, remove_spans

if TYPE_CHECKING:
    from _typeshed import TraceFunction


def list_programs(command: str) -> list[str]:
    return [simple.program for simple in parse_simple_commands(command)]


def list_codes(command: str) -> list[str]:
    return [simple.code for simple in parse_simple_commands(command)]


SEPARATORS = [
    ("git stash", "git"),
    ("cd x && git stash || echo no; ls", "cd git echo ls"),
    ("git log | head |& tee log & wait", "git head tee wait"),
    ("git stash\nls\n\n\npwd", "git ls pwd"),
    ("a&&b||c;d|e&f", "a b c d e f"),
    ("(cd x; git stash) && { ls; pwd; }", "cd git ls pwd"),
    ("((a);(b))|(c)", "b c"),  # as bash does: `((` would be arithmetic
    ("", ""),
    (" ;;; && ", ""),
    ("git stash;", "git"),
]
GRAMMAR = [
    ("if git stash; then ls; elif a; then b; else pwd; fi", "git ls a b pwd"),
    ("while git fetch; do git pull; done < in", "git git"),
    ("until a; do b; done &> log", "a b"),
    ("for f in $(git ls-files); do rm $f; done", "git rm"),
    ("for f in git stash\ndo rm $f\ndone", "rm"),
    ("for ((i=0; i<3; i++)); do a; done", "a"),
    ("for f do rm $f; done", "rm"),
    ("select x in a b; do c; done", "c"),
    ("case $(a) in b|c) d;; (e) f ;& *) g;;& h) ;; esac; i", "a d f g i"),
    ("case x\nin\ny) if z; then case 1 in 1) w;; esac; fi;;\nesac | v", "z w v"),
    ("! git stash", "git"),
    ("time git stash", "git"),
    ("time -p git stash", "git"),
    ("time { git stash; }; time (ls)", "git ls"),
    ("deploy() { git push; }; function undeploy { git stash; }; deploy", "git git deploy"),
    ("[[ -f a && ( b < c || $(d) ) ]] && git stash", "[[ d git"),
    ("[ -f a ] && git stash", "[ git"),
    ("(( i << 2, j = (1 + 2) )); git stash", "git"),
    ("echo if then do git", "echo"),
    ("git if; 'if' x", "git if"),
]
REDIRECTIONS = [
    ("git stash > out 2>&1", "git"),
    ("git stash &> out && ls", "git ls"),
    ("git stash &>> out; a >&2 b <&- >| c 3<> d", "git a"),
    ("> out git stash", "git"),
    ("2>/dev/null sudo git stash", "git"),
    ("> out", ""),
    ("a >b&c", "a c"),
    ("echo 2 >x", "echo"),
    ("cat <<< 'git stash'", "cat"),
    ("cat <<< git", "cat"),
]
QUOTING = [
    ("echo 'a; git stash'", "echo"),
    ('echo "a; git stash \\" && ls"', "echo"),
    ("echo $'it\\'s; git stash' $\"b; c\"", "echo"),
    ("echo a\\;git stash \\&\\& b", "echo"),
    ('"git" stash', "git"),
    ("'g'it stash", "git"),
    ("g\\it stash", "git"),
    ("/usr/bin/git stash", "git"),
    ('"$HOME/bin/git" stash', "git"),
    ("${HOME}/bin/git stash", "git"),
    ("gi\\\nt stash", "git"),
    ("git \\\n  stash && \\\n ls", "git ls"),
    ("git stash # ; ls\npwd # `", "git pwd"),
    ("echo a#b; ls", "echo ls"),
    ("#!/bin/sh\ngit stash", "git"),
    ("echo 'unbalanced; git stash", "echo"),
    ('echo "unbalanced; git stash', "echo"),
    ("a=(1 'b; c' $(d) e) f", "f d"),
    ("rm @(a|b) +(c); ls", "rm ls"),
    ("git stash\\", "git"),
]
SUBSTITUTIONS = [
    ("echo $(git stash; ls)", "echo git ls"),
    ("echo `git stash | wc`", "echo git wc"),
    ('echo "at $(git rev-parse HEAD) `date`"', "echo git date"),
    ("echo '$(git stash) `ls`'", "echo"),
    ('echo "\\$(git stash)"', "echo"),
    ("diff <(git show a) <(b) > >(tee c)", "diff git b tee"),
    ('echo "$(a "$(b "c; d")" `e`)"', "echo a b e"),
    ("echo ${x:-git stash} $((1 << 2)); ls", "echo ls"),
    ('echo "${x:-"a; b"}" "$((1 << 2))"; ls', "echo ls"),
    ('echo ${x:-$(git stash)} "${y:-$(ls)}"', "echo git ls"),
    ("x=$(git stash)", " git"),
    ("$(which git) stash", "$() which"),
    ("echo $(case x in x) a;; esac) b; c", "echo a c"),
    ("echo $( (a) ) $(b # )\n) c", "echo a b"),
    ("x=`a # b`; c", " a c"),
    ("echo $ $x $1 $$ $? $# ; ls", "echo ls"),
]
HEREDOCS = [
    ("cat <<EOF\ngit stash\nEOF\nls", "cat ls"),
    ("cat <<'EOF' | grep x && pwd\ngit stash\nEOF\nls", "cat grep pwd ls"),
    ("cat <<-EOF\n\tgit stash\n\tEOF\nls", "cat ls"),
    ("cat <<-EOF\n\tgit stash\n EOF\nls", "cat"),
    ('a <<A; b << "B"\ngit stash\nA\n$(c)\nB\nd', "a b d"),
    ("cat <<EOF\nunbalanced ' and \"\nEOF\ngit stash", "cat git"),
    ("git commit -m \"$(cat <<'EOF'\nfeat: ls; rm\nEOF\n)\" && git push", "git cat git"),
    ("bash <<EOF\ngit stash; 'x'\nEOF\nls", "bash git x ls"),
    ("sudo sh -s a b <<'EOF'\ngit stash\nEOF", "sh git"),
    ("bash -ex <<-E | tee log\n\tcat <<F\nrm\nF\n\tE\nls", "bash tee cat ls"),
    ("bash script.sh <<EOF\ngit stash\nEOF", "bash"),
    ("bash -c ls <<EOF\ngit stash\nEOF", "bash ls"),
    ("bash <<< 'git stash; ls'", "bash git ls"),
    ("cat <<EOF\ngit stash", "cat"),
    ("while read x; do a; done <<EOF\ngit stash\nEOF\nb", "read a b"),
]
WRAPPERS = [
    ("sudo git stash", "git"),
    ("sudo -u bob -E -n -- FOO=1 git stash", "git"),
    ("sudo -nu bob --group=wheel --user bob git stash", "git"),
    ("doas -u bob git stash", "git"),
    ("env -i -u HOME X=1 Y='a b' git stash", "git"),
    ("env -S 'git stash' x", "env git"),
    ('FOO=1 BAR="x y" a[0]=2 p+=3 git stash', "git"),
    ("/usr/bin/time -f '%e' -o out git stash", "git"),
    ("nice -n 5 ionice -c2 -n 7 nohup setsid git stash", "git"),
    ("stdbuf -oL -e 0 git stash", "git"),
    ("timeout 10 git stash", "git"),
    ("timeout -s KILL --kill-after=5 -k 3 10s git stash", "git"),
    ("git ls-files | xargs -0 -n 1 -P4 -I {} -r git add {}", "git git"),
    ("xargs -0rI {} git add {}", "git"),
    ("command git stash; builtin cd x; exec -a y git stash", "git cd git"),
    ("command -v git", "command"),
    ("busybox sh -c 'git stash'", "sh git"),
    ("watch -n 5 git status", "git"),
    ("watch -d 'git status | head'", "watch git head"),
    ("caffeinate -i -t 60 git stash", "git"),
    ("sudo env FOO=1 timeout 5 nice git stash", "git"),
    ("sudo", "sudo"),
    ("sudo -l git", "sudo"),
    ("exec > log", "exec"),
    ("FOO=1", ""),
    ("find . -name x -exec git stash {} \\; -print", "find git"),
    ("find . -execdir sh -c 'a; b' _ {} + -ok rm {} ';'", "find sh a b rm"),
    ("sudo find . -exec sudo -u bob git stash {} +", "find git"),
]
STRINGS = [
    ("bash -c 'git stash; ls'", "bash git ls"),
    ('sh -c "git stash"', "sh git"),
    ("bash -lc 'git stash' && zsh -ec ls; dash -c a; ksh -c b", "bash git zsh ls dash a ksh b"),
    ("bash --norc -euo pipefail -c 'git stash' x y", "bash git"),
    ('bash -c "bash -c \'git \\"stash\\"\'"', "bash bash git"),
    ("bash script.sh -c 'git stash'", "bash"),
    ("eval \"git stash\" '&&' ls", "eval git ls"),
    ('eval "git $(ls)"', "eval git ls"),
    ("su - bob -c 'git stash'", "su git"),
    ("ssh -p 22 -i key bob@host 'cd x && git stash' -u", "ssh cd git"),
    ("ssh host", "ssh"),
    ("bash -c $'git stash\\nls'", "bash git ls"),
    ("echo bash -c 'git stash'", "echo"),
]
OURSELVES = [
    ("hardwon accept 3", "hardwon"),
    ("~/.local/bin/hardwon accept 3", "hardwon"),
    ("python -m hardwon --json list", "hardwon"),
    ("python3.12 -I -X dev -m hardwon", "hardwon"),
    ("uv run hardwon accept", "hardwon"),
    ("uv run --with rich python -m hardwon", "hardwon"),
    ("uvx hardwon@latest accept", "hardwon"),
    ("uvx --from hardwon hardwon accept", "hardwon"),
    ("pipx run hardwon", "hardwon"),
    ("npx hardwon", "npx"),
    ("python -m pytest hardwon", "python"),
    ("python hardwon", "python"),
    ("uv run --with hardwon git stash", "uv"),
    ("uv pip hardwon", "uv"),
    ("git hardwon", "git"),
]
TABLES = {
    "separators": SEPARATORS,
    "grammar": GRAMMAR,
    "redirections": REDIRECTIONS,
    "quoting": QUOTING,
    "substitutions": SUBSTITUTIONS,
    "heredocs": HEREDOCS,
    "wrappers": WRAPPERS,
    "strings": STRINGS,
    "ourselves": OURSELVES,
}


def test_the_programs_of_a_command_are_found() -> None:
    for name, cases in TABLES.items():
        for command, expected in cases:
            assert " ".join(list_programs(command)) == expected, f"{name}: {command}"


CODE_AND_FULL_TEXT = [
    ("git commit -m 'never git stash'", "git commit -m ''", "git commit -m 'never git stash'"),
    ('git commit -m "a $x b"', 'git commit -m ""', 'git commit -m "a $x b"'),
    ('git commit -m "on $(date "+%s") b"', 'git commit -m "$(date "")"', 'git commit -m "on $(date "+%s") b"'),
    ("git commit -m $'a\\n' $\"b\"", "git commit -m '' \"\"", "git commit -m $'a\\n' $\"b\""),
    ("git commit --message='a'b", "git commit --message=''b", "git commit --message='a'b"),
    ("sudo -u bob 'git' stash", "git stash", "'git' stash"),
    ("FOO=1 /usr/bin/gi\\t stash", "/usr/bin/git stash", "/usr/bin/gi\\t stash"),
    ("git stash > 'a b' 2>&1", "git stash > '' 2>&1", "git stash > 'a b' 2>&1"),
    ("  git   stash  ", "git   stash", "git   stash"),
    ("git \\\n    stash -\\\nu", "git stash -u", "git stash -u"),
    ("git stash # not 'this'", "git stash", "git stash"),
    ("cat <<'EOF' -n\ngit stash\nEOF\n", "cat <<'EOF' -n", "cat <<'EOF' -n"),
    ("grep x <<< 'git stash'", "grep x <<< ''", "grep x <<< 'git stash'"),
    ('FOO="a b"', 'FOO=""', 'FOO="a b"'),
    ("${GIT:-git} stash", "${GIT:-git} stash", "${GIT:-git} stash"),
    ("[[ $a == 'x' && b ]]", "[[ $a == '' && b ]]", "[[ $a == 'x' && b ]]"),
    ("echo $((1 << 2)) ${a:-b}", "echo $((1 << 2)) ${a:-b}", "echo $((1 << 2)) ${a:-b}"),
]


def test_a_simple_command_is_given_as_code_and_in_full() -> None:
    for command, code, full_text in CODE_AND_FULL_TEXT:
        first = parse_simple_commands(command)[0]
        assert (first.code, first.full_text) == (code, full_text), command


CODE = [
    ("a 'b' && c \"d\"", "a '' && c \"\""),
    ('a "b $(c "d") `e \'f\'` g"', 'a "$(c "")`e \'\'`"'),
    ("a 'it''s' # why\nb", "a '''' \nb"),
    ("cat <<EOF | b\ngit stash\nEOF\nc", "cat <<EOF | b\nEOF\nc"),
    ("cat <<A <<-'B'\n1\nA\n\t2\n\tB\n", "cat <<A <<-'B'\nA\n\tB\n"),
    ("sh <<EOF\ngit 'stash'\nEOF\n", "sh <<EOF\ngit ''\nEOF\n"),
    ("a \\\n  b", "a b"),
    ("a 'unbalanced", "a '"),
    ('if [ -n "$x" ]; then (y); fi', 'if [ -n "" ]; then (y); fi'),
]


def test_the_code_of_a_command_lacks_the_text_of_quotes_and_heredocs() -> None:
    for command, code in CODE:
        assert extract_code(command) == code, command


def test_an_enclosing_command_keeps_what_it_substitutes() -> None:
    assert list_codes("echo \"a $(git log --format='%H') b\"") == [
        "echo \"$(git log --format='')\"",
        "git log --format=''",
    ]


def test_a_span_covers_the_wrappers_and_not_its_neighbours() -> None:
    command = "cd x && FOO=1 sudo git stash -u >/dev/null; ls"
    assert [command[s.start : s.end] for s in parse_simple_commands(command)] == [
        "cd x",
        "FOO=1 sudo git stash -u >/dev/null",
        "ls",
    ]


def test_a_span_of_a_substitution_or_heredoc_is_its_place_in_the_command() -> None:
    command = 'echo "$(sudo git stash)"\nsh <<E\nls -l; pwd\nE\n'
    assert [command[s.start : s.end] for s in parse_simple_commands(command)] == [
        'echo "$(sudo git stash)"',
        "sudo git stash",
        "sh <<E",
        "ls -l",
        "pwd",
    ]


def test_a_command_in_a_string_has_the_span_of_the_one_that_runs_it() -> None:
    for command in ("a; sudo bash -c 'git stash; ls'", 'a; eval "git stash; ls"', "a; ssh h 'b; c'"):
        spans = {command[simple.start : simple.end] for simple in parse_simple_commands(command)[1:]}
        assert spans == {command[3:]}, command


def remove_program(command: str, program: str) -> str:
    return remove_spans(command, [(s.start, s.end) for s in parse_simple_commands(command) if s.program == program])


WITHOUT_HARDWON = [
    ("hardwon accept 3", ""),
    ("sudo hardwon accept 'git stash' && git stash", " && git stash"),
    ("git stash; hardwon add; python -m hardwon list | cat", "git stash; ;  | cat"),
    ("hardwon add <<EOF && git stash\nnever\nEOF\nls", " && git stash\n\nls"),
    ("cat <<EOF | hardwon add\nnever\nEOF\nls", "cat <<EOF | \nnever\nEOF\nls"),
    ('echo "$(hardwon list)" `hardwon list`', 'echo "$()" ``'),
    ("bash <<E\nhardwon list\ngit stash\nE\n", "bash <<E\n\ngit stash\nE\n"),
    ("git stash", "git stash"),
]


def test_our_own_commands_are_left_out_with_their_heredocs() -> None:
    for command, remainder in WITHOUT_HARDWON:
        assert remove_program(command, "hardwon") == remainder, command


def test_spans_to_leave_out_may_overlap_and_reach_outside() -> None:
    assert remove_spans("abcdef", [(4, 99), (1, 3), (2, 3), (-5, -1), (3, 3), (5, 2)]) == "ad"


def test_commands_nested_too_deep_are_text() -> None:
    assert list_programs("echo $(" * 9 + "git stash" + ")" * 9) == ["echo"] * 9 + ["git"]
    assert "git" not in list_programs("echo $(" * 30 + "git stash" + ")" * 30)
    assert set(list_programs("eval " * 30 + "git stash")) == {"eval"}


# Text that is hard to read: any characters, and pieces of shell in any order.
PIECES = [
    *(
        "'",
        '"',
        "`",
        "$(",
        "$((",
        "((",
        "${",
        "}",
        ")",
        "(",
        "<(",
        "\\",
        "\n",
        "\\\n",
        "#",
        " ",
        ";",
        ";;",
        "&",
        "|",
        ">",
    ),
    *("<<E", "<<-'E'", "<<<", "E\n", "\tE\n", "&>", "2>&1", "$'", '$"', "$", "=", "a=(", "[[", "]]", "{", "if", "for"),
    *("case", "in", "esac", "function", "time", "find ", "-exec ", "bash", " -c ", " -s ", "eval ", "ssh h ", "sudo "),
    *("-u", "env ", "-S ", "watch ", "uv run ", "python ", "-m ", "hardwon", "su ", "git", "\0", "\ud800", "é", "\r"),
]
ANY_TEXT = st.text(st.characters(exclude_categories=()), max_size=60)
SOUP = st.lists(st.one_of(st.sampled_from(PIECES), ANY_TEXT), max_size=40).map("".join)


@given(SOUP)
@example("<<")
@example("\\")
@example("a <<E\\\n")
@example("sh <<E\nE")
@example("sh <<E\n'E")
def test_any_text_is_parsed_and_every_span_is_within_it(command: str) -> None:
    for simple in parse_simple_commands(command):
        assert 0 <= simple.start < simple.end <= len(command)
    assert len(extract_code(command)) <= len(command)
    spans = [(simple.start, simple.end) for simple in parse_simple_commands(command)]
    assert len(remove_spans(command, spans)) <= len(command)


def count_executed_lines(function: Callable[[], object]) -> int:
    """Count the lines of Python that run: a measure that no other process affects."""
    count = 0

    def count_line(frame: FrameType, event: str, arg: Any) -> TraceFunction:
        nonlocal count
        count += 1
        return count_line

    previous_trace = sys.gettrace()
    sys.settrace(count_line)
    try:
        function()
    finally:
        sys.settrace(previous_trace)
    return count


def test_parsing_takes_linear_time() -> None:
    for piece in (*PIECES, "a ", "a;", '"$(', "`#", "bash <<E\n", "bash -c ", "find -exec "):
        work = {times: count_executed_lines(partial(parse_simple_commands, piece * times)) for times in (100, 200, 400)}
        assert work[400] - work[200] < 2.5 * (work[200] - work[100]) + 500, piece


@given(st.lists(st.sampled_from(PIECES), min_size=1, max_size=4).map("".join))
def test_parsing_any_repeated_text_takes_linear_time(pieces: str) -> None:
    def count_work(times: int) -> int:
        return count_executed_lines(lambda: parse_simple_commands(pieces * times))

    assert count_work(160) - count_work(80) < 2.5 * (count_work(80) - count_work(40)) + 2000


# Scripts generated with the programs they start, in reading order. `never` occurs only where nothing runs it.
Script = tuple[str, list[str]]
TEXTS = ["never", "a; never", "b && never", "(never)", "`never`", "$(never)", "#never", "it is", "x | never", "<<E", ""]


def double_quote(text: str) -> str:
    return '"' + "".join("\\" + c if c in '$`"\\' else c for c in text) + '"'


def escape_characters(text: str) -> str:
    return "".join("\\" + c if not c.isalnum() else c for c in text) or "''"


STYLES: list[Callable[[str], str]] = [
    lambda text: f"'{text}'",
    double_quote,
    lambda text: f"$'{text}'",
    escape_characters,
]
PLAIN = [
    "-x",
    "--long=1",
    "file.txt",
    "if",
    "a#b",
    "{a,b}",
    "$HOME",
    "${x:-y}",
    "$((1 << 2))",
    '"${x:-"a; never"}"',
    "@",
]
TARGETS = ["2>&1", ">/dev/null", "2> /dev/null", "&>/dev/null", "<<< 'a; never'", "</dev/null", ">&2"]
PREFIXES = [
    "",
    "",
    "",
    "X=1 ",
    "X='a; never' Y=\"$HOME\" ",
    "env -u Z X=1 ",
    "nice -n 1 ",
    "timeout -k 5 60 ",
    "command ",
]
AFTER = {"": "", "'": "'", '"': '"'}


@st.composite
def draw_simple_script(draw: st.DrawFn, depth: int) -> Script:
    name = draw(st.sampled_from(["one", "two", "three"]))
    quote = draw(st.sampled_from(["", "", "", "'", '"']))
    text = f"{draw(st.sampled_from(PREFIXES))}{quote}{name}{quote}"
    started_programs = [name]
    for kind in draw(st.lists(st.sampled_from(["plain", "text", "target", "inside"]), max_size=3)):
        if kind == "plain":
            text += " " + draw(st.sampled_from(PLAIN))
        elif kind == "text":
            text += " " + draw(st.sampled_from(STYLES))(draw(st.sampled_from(TEXTS)))
        elif kind == "target":
            text += " " + draw(st.sampled_from(TARGETS))
        elif depth:
            # bash 5.2 misreads what follows a heredoc in a substitution
            inner, programs_inside = draw(
                draw_scripts(depth - 1).filter(lambda script_and_programs: "<<" not in script_and_programs[0])
            )
            form = draw(st.sampled_from(["$( {}\n)", '"it\'s $( {}\n) x"', "<( {}\n)", 'x"${{y:-$( {}\n)}}"']))
            text += " " + form.format(inner)
            started_programs += programs_inside
    return text, started_programs


@st.composite
def draw_compound(draw: st.DrawFn, depth: int) -> Script:
    form = draw(
        st.sampled_from(
            [
                ("( {}\n)", []),
                ("{{ {}\n}}", []),
                ("if {}\nthen {}\nfi", []),
                ("for i in never; do {}\ndone", []),
                ("case x in never|n) ;; (x) {}\n;; esac", []),
                ("{{ f() {{ {}\n}}\nf\n}}", ["f"]),
                ("while {}\ndo {}\nbreak\ndone", ["break"]),
                ("{{ ! {{ {}\n}} || {}\n}}", []),
                ("[[ never < x && ( a ) ]] && {}", ["[["]),
                ("(( 1 << 2 )) && {}", []),
            ]
        )
    )
    shape, others = form
    inner = [draw(draw_scripts(depth - 1)) for _ in range(shape.count("{}"))]
    started_programs = [name for _, names in inner for name in names]
    return shape.format(*(text for text, _ in inner)), others[:1] * (shape[0] == "[") + started_programs + others * (
        shape[0] != "["
    )


@st.composite
def draw_nested_script(draw: st.DrawFn, depth: int) -> Script:
    text, started_programs = draw(draw_scripts(depth - 1))
    form = draw(
        st.sampled_from(["bash -c {}", "bash -euc {} x y", "eval {}", "bash <<'E{}'\n", "find", "xargs", "comment"])
    )
    if form == "find":
        return "find / -maxdepth 0 -exec env one {} \\; -exec two {} +", ["find", "one", "two"]
    if form == "xargs":
        return "echo never | xargs -I {} three {}", ["echo", "three"]
    if form == "comment":
        return f"{text} # it's; never `\n", started_programs
    if form.startswith("bash <<"):
        return f"bash <<'E{depth}'\n{text}\nE{depth}\n", ["bash", *started_programs]
    return form.format(shlex.quote(text)), [form.partition(" ")[0], *started_programs]


def build_heredoc(name: str, body: str) -> Script:
    return f"{name} <<EOF -x 2>&1 <<-'E 2'\n{body}\nEOF\n\tnever\n\tE 2\n", [name]


@st.composite
def draw_scripts(draw: st.DrawFn, depth: int = 2) -> Script:
    """Draw lines of commands; one that ends in a newline needs no separator."""
    parts = [
        draw_simple_script(depth),
        st.builds(build_heredoc, st.just("one"), st.sampled_from(["never", "it's", '"'])),
    ]
    if depth:
        parts += [draw_compound(depth), draw_nested_script(depth)]
    text, started_programs = "", list[str]()
    for part_text, names in draw(st.lists(st.one_of(parts), min_size=1, max_size=3)):
        if text and not text.endswith("\n"):
            others = [] if "<<" in text else ["; ", ";", " & "]
            text += draw(st.sampled_from([" && ", "\n", " | ", " |& ", "&&", " && \\\n  ", *others]))
        text += part_text
        started_programs += names
    return text, started_programs


@given(draw_scripts())
@settings(suppress_health_check=[HealthCheck.too_slow])
def test_the_programs_of_a_generated_script_are_found(script: Script) -> None:
    text, started_programs = script
    assert list_programs(text) == started_programs


@pytest.fixture(scope="module")
def logger_path(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Create programs that write their own name to descriptor 9, and return a PATH with them."""
    folder = tmp_path_factory.mktemp("bin")
    for name in ("one", "two", "three", "never"):
        (folder / name).write_text('#!/bin/sh\necho "${0##*/}" >&9\n')
        (folder / name).chmod(0o755)
    return f"{folder}:{os.defpath}"


def run_in_bash(script: str, path: str) -> list[str]:
    """Return the programs that bash starts; its output ends with the last one, background or not."""
    process = subprocess.run(
        ["bash", "-c", f"exec 9>&1 >/dev/null\n{script}"],
        env={"PATH": path, "HOME": "/nowhere"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
    )
    assert "syntax error" not in process.stderr, process.stderr
    return process.stdout.split()


@given(script=draw_scripts())
@settings(suppress_health_check=[HealthCheck.too_slow])
def test_bash_starts_the_programs_that_are_found(logger_path: str, script: Script) -> None:
    logged_programs = [name for name in list_programs(script[0]) if name in ("one", "two", "three", "never")]
    assert sorted(run_in_bash(script[0], logger_path)) == sorted(logged_programs)
