"""Lessons name their files by gitignore's rules, and git itself is asked what those are."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable, Sequence
from functools import cache
from itertools import product

import pytest
import regex
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

import hardwon
from hardwon.lessons.matching import compile_glob, has_matching_glob
from hardwon.lessons.pattern_check import find_literal_sets
from hardwon.text.characters import fold_case
from hardwon.types import Glob, Pattern

Git = Callable[..., set[str]]


@cache
def engines(pattern: Pattern) -> tuple[re.Pattern[str], regex.Pattern[str]]:
    return re.compile(*pattern.__dict__.values()), regex.compile(pattern.source, pattern.flags | regex.VERSION0)


def search(pattern: Pattern, text: str) -> bool:
    """By both engines, the hook's and the worker's, which must agree."""
    cold, warm = (engine.search(text) is not None for engine in engines(pattern))
    assert cold == warm, (pattern, text)
    return cold


def compiled(globs: Sequence[str], **how: bool) -> list[Glob]:
    return [one for one in (compile_glob(glob, user_home="/people/me", **how) for glob in globs) if one]


def taken(globs: Sequence[str] | str, path: str, **how: bool) -> bool:
    """Whether a lesson with these globs is about a path, seen from /people/me/project."""
    absolute = path if path.startswith("/") else f"/people/me/project/{path}"
    inside = absolute.removeprefix("/people/me/project/")
    relative = f"..{absolute}" if inside == absolute else inside
    return has_matching_glob(compiled([globs] if isinstance(globs, str) else globs, **how), relative, absolute, search)


TAKEN = [
    ("*.py", "setup.py  src/a.py  a/b/.py  pkg.py/readme"),
    ("docs", "docs  docs/a.md  a/docs/b/c.md"),
    ("docs/", "docs/a.md  a/docs/b/c.md"),
    ("src/*.py", "src/a.py"),
    ("src/**/*.py", "src/a.py  src/b/a.py  src/b/c/d/a.py"),
    ("src/**", "src/a  src/b/c"),
    ("**/secret", "secret  a/b/secret  secret/key"),
    ("**/a/b", "a/b  x/y/a/b/c"),
    ("a/**/**/b", "a/b  a/x/b  a/x/y/b"),
    ("a**b", "ab  axxb  x/a.b"),
    ("**", "a  a/b"),
    ("?.c", "a.c  é.c  x/b.c"),
    ("[!a-c]x", "dx  éx"),
    ("[]-]", "]  -"),
    (r"[\]-_]", "]  ^  _"),
    ("[[:a]", "[  :  a"),
    ("[[:digit:]_].log", "3.log  _.log"),
    (r"\!important", "!important"),
    (r"\#notes", "#notes"),
    (r"name\ ", "name "),
    ("name   ", "name"),
    ("~backup", "~backup"),
    ("*~", "a.py~"),
    ("/etc/hosts", "/etc/hosts"),
    ("/etc/*.d/", "/etc/cron.d/daily"),
    ("/**/ssh", "/ssh  /etc/ssh/config"),
    ("~/.ssh/", "/people/me/.ssh/id_rsa"),
    ("~", "/people/me/a  x"),
    (".env", "/srv/app/.env  .env"),
    ("**/app/.env", "/srv/app/.env"),
]
LEFT = [
    ("*.py", "a.pyc  py  a/b.txt"),
    ("docs", "docs2  a/mydocs"),
    ("docs/", "docs  a/docs"),
    ("src/*.py", "src/b/a.py  a/src/a.py"),
    ("src/**", "src  a/src/b"),
    ("a**b", "a/b"),
    ("?.c", ".c  ab.c"),
    (r"[\a]", "\\"),
    ("[[:a]", "b"),
    ("a[/]b", "a/b"),
    ("a[!x]b", "a/b"),
    ("a[+-9]b", "a/b"),
    ("/etc/hosts", "etc/hosts  /srv/etc/hosts  /etc/hosts.d"),
    ("/*.py", "a.py"),
    ("~/x", "~/x  /people/you/x"),
    ("a/b", "/a/b  /srv/a/b"),
    ("*/app", "/app"),
    (".*", "/srv/app"),
    ("**/*/app", "/app"),
    ("..", "/srv/app"),
    ("../srv", "/srv"),
    ("*.PY", "a.py"),
]


def test_a_glob_takes_in() -> None:
    for glob, paths in TAKEN:
        for path in paths.split("  "):
            assert taken(glob, path), (glob, path)


def test_a_glob_leaves_out() -> None:
    for glob, paths in LEFT:
        for path in paths.split("  "):
            assert not taken(glob, path), (glob, path)


def test_what_gitignore_reads_as_nothing_compiles_to_nothing() -> None:
    for glob in ("", "   ", "# a comment", "/", "//", "!", "!/", "a//b", "[a", "a\\", "[[:no:]]"):
        assert compile_glob(glob, user_home="/people/me") is None, glob


def test_the_last_glob_that_matches_decides() -> None:
    assert taken(["*.md", "!README.md"], "notes.md")
    assert not taken(["*.md", "!README.md"], "docs/README.md")
    assert taken(["*.md", "!README.md", "docs/README.md"], "docs/README.md")
    assert not taken(["!README.md"], "notes.md")


def test_nothing_can_be_taken_out_of_a_folder_that_is_in() -> None:
    assert taken(["build/", "!build/keep.txt"], "build/keep.txt")
    assert not taken(["build/*", "!build/keep.txt"], "build/keep.txt")
    assert not taken(["build/*", "!build/keep/"], "build/keep/a.txt")
    assert taken(["build/**", "!build/keep/"], "build/keep/a.txt")


def test_globs_from_the_project_and_from_the_root_do_not_overrule_each_other() -> None:
    assert taken(["*.md", "!/people/me/project/a.md"], "a.md")
    assert taken(["/people/me/project/a.md", "!a.md"], "a.md")


def test_a_leading_slash_is_the_root_of_the_file_system_though_for_git_it_is_that_of_the_project(git: Git) -> None:
    asked = ["a", "a/é", "a/ab/ab"]
    assert not git(["a", "!/a"], asked)
    assert all(taken(["a", "!/a"], path) for path in asked)
    assert not any(taken(["/a", "!/a"], f"/{path}") for path in asked)


def test_no_globs_and_no_path_match_nothing() -> None:
    assert not taken([], "a")
    assert not has_matching_glob(compiled(["*", "/**"]), "", "", search)
    assert not has_matching_glob(compiled(["*", ".*", "**"]), "..", "/", search)


def test_a_home_is_no_glob_and_without_one_a_tilde_is_a_name() -> None:
    odd = compile_glob("!~/x/", user_home="/people/[me]*/")
    assert odd and (odd.is_include, odd.folders_only, odd.is_absolute) == (False, True, True)
    assert search(Pattern(odd.source), "/people/[me]*/x") and not search(Pattern(odd.source), "/people/me/x")
    named = compile_glob("~/x")
    assert named and not named.is_absolute and search(Pattern(named.source), "~/x")


def test_where_the_file_system_ignores_case_so_do_globs() -> None:
    for glob in ("*.PY", "É.py", "[É].py", "[[:upper:]é].py"):
        assert taken(glob, "é.py" if "É" in glob or "é" in glob else "a.py", ignore_case=True)
    assert not taken("[!a].py", "A.py", ignore_case=True)


@pytest.mark.parametrize("glob", ["*a" * 20 + "*b", "**/*a/" * 8 + "b", "a*/**/" * 8 + "**/*b", "?*" * 20 + "[b]"])
@pytest.mark.parametrize("text", ["a" * 200, "a/" * 100, "aa/" * 60 + "c"])
def test_no_glob_takes_more_than_a_few_steps_for_each_letter(glob: str, text: str) -> None:
    one = compile_glob(glob)
    assert one
    regex.compile(one.source, regex.VERSION0).search(text * 100, timeout=1)  # TimeoutError if it backtracks


# What follows is asked of git. It compares bytes, so it is spoken to in Latin-1, where a letter is one byte.


@pytest.fixture(scope="module")
def git(tmp_path_factory: pytest.TempPathFactory) -> Git:
    """Which of these paths the globs ignore, by git's own account; no file but the list of globs exists."""
    root = str(tmp_path_factory.mktemp("git"))
    env = {"PATH": os.environ["PATH"], "HOME": root, "GIT_CONFIG_NOSYSTEM": "1", "LC_ALL": "C"}
    subprocess.run(["git", "init", "-q", root], check=True, env=env)

    def ignored(globs: Sequence[str], paths: Sequence[str], *, ignore_case: bool = False) -> set[str]:
        with open(os.path.join(root, ".git", "info", "exclude"), "wb") as out:
            out.write("".join(f"{glob}\n" for glob in globs).encode("latin-1"))
        asked = subprocess.run(
            ["git", "-c", f"core.ignorecase={ignore_case}", "check-ignore", "--no-index", "--stdin", "-z"],
            input="".join(f"{path}\0" for path in paths).encode("latin-1"),
            capture_output=True,
            cwd=root,
            env=env,
        )
        assert asked.returncode in (0, 1), asked.stderr
        return set(asked.stdout.decode("latin-1").split("\0")) - {""}

    return ignored


names = st.text("abé.[]- !*\\", min_size=1, max_size=3).filter(lambda name: name not in (".", ".."))
paths = st.lists(st.sampled_from(["a", "b", "ab"]) | names, min_size=1, max_size=4).map("/".join)
NAMES = ["a", "b", "ab", ".a", "a b", "é", "]"]
PATHS = ["/".join(path) for depth in (1, 2, 3) for path in product(NAMES, repeat=depth)]
PATHS += ["a/b/a/b", "a/b/ab/b/a", "b/b/b/b", "a/a/a/a", ".a/é/a b/]"]

classes = st.builds("[{}{}]".format, st.sampled_from(["", "!", "^"]), st.text("abcé]-[:\\!^/ ", min_size=1, max_size=5))
KINDS = ["alnum", "alpha", "blank", "digit", "graph", "lower", "print", "punct", "upper", "xdigit"]
posix = st.sampled_from([*KINDS, "?", ""])
pieces = (
    st.sampled_from(["a", "b", "a", "b", "*", "?", "**", ".", "é", " ", "]", "~", "!", "#", "-"])
    | st.sampled_from(
        ["[ab]", "[!a]", "[^b.]", "[a-c]", "[]a]", "[b-a]", "[", "[a", "\\a", "\\*", "\\[", "\\ ", "\\\\"]
    )
    | classes
    | posix.map("[[:{}:]]".format)
)
segments = st.sampled_from(["a", "b", "*", "**", "ab"]) | st.lists(pieces, min_size=1, max_size=4).map("".join)
ends = st.sampled_from(["", "", "", "/", "/", " ", "  ", "\\ ", "\\", "/ ", "//"])
bodies = st.builds(lambda parts, end: "/".join(parts) + end, st.lists(segments, min_size=1, max_size=4), ends)


def slips(glob: str) -> bool:
    """Git cuts off the text before the first wildcard, and then takes `a**/b` for `a` and `**/b`."""
    return "/" in glob and re.match(r"!?/?[^*?[\\]*[^*?[\\/]\*\*", glob) is not None


@st.composite
def lists_of_globs(draw: st.DrawFn, root: str = "") -> list[str]:
    """One to four globs, all from the root or none."""
    drawn = draw(st.lists(st.tuples(st.sampled_from(["", "", "!"]), bodies), min_size=1, max_size=4))
    globs = [sign + root + body.lstrip("/") for sign, body in drawn]
    return [glob for glob in globs if not slips(glob) and glob.removeprefix("!").startswith("/") == bool(root)]


many = settings(suppress_health_check=[HealthCheck.too_slow])


@many
@example(globs=["a/", "!a/b", "**", "!b"], more=[])
@example(globs=["*/b/**/a/**", "!**/ab/"], more=["a/b/a/a"])
@given(globs=lists_of_globs(), more=st.lists(paths, max_size=8))
def test_git_ignores_the_same_files(git: Git, globs: list[str], more: list[str]) -> None:
    ours = [glob for glob in map(compile_glob, globs) if glob]
    asked = [*PATHS, *more]
    assert {path for path in asked if has_matching_glob(ours, path, f"/root/{path}", search)} == git(globs, asked)


@many
@given(globs=lists_of_globs(root="/"), more=st.lists(paths, max_size=8))
def test_git_ignores_the_same_files_below_a_root(git: Git, globs: list[str], more: list[str]) -> None:
    ours = [glob for glob in map(compile_glob, globs) if glob]
    asked = [*PATHS, *more]
    assert {path for path in asked if has_matching_glob(ours, f"../{path}", f"/{path}", search)} == git(globs, asked)


@many
@given(globs=lists_of_globs(), data=st.data())
def test_git_ignores_the_same_files_without_regard_to_case(git: Git, globs: list[str], data: st.DataObject) -> None:
    globs = [glob for glob in globs if glob.isascii()]
    if not any(sign in glob for glob in globs for sign in "\\["):  # there git forgets to fold the glob
        globs = [data.draw(st.sampled_from([glob, glob.upper()])) for glob in globs]
    asked = [path for path in PATHS[:60] if path.isascii()]
    asked += [path.upper() for path in asked]
    ours = [glob for glob in (compile_glob(glob, ignore_case=True) for glob in globs) if glob]
    assert {path for path in asked if has_matching_glob(ours, path, "", search)} == git(globs, asked, ignore_case=True)


@pytest.mark.parametrize("kind", [*KINDS, "cntrl", "space"])
@pytest.mark.parametrize("sign", ["", "!"])
def test_git_knows_the_same_letters(git: Git, kind: str, sign: str) -> None:
    glob = f"x[{sign}[:{kind}:]]"
    one = compile_glob(glob)
    asked = [f"x{chr(code)}" for code in range(1, 256) if chr(code) != "/"]
    assert one and {path for path in asked if has_matching_glob([one], path, "", search)} == git([glob], asked)


def test_two_stars_after_a_text_are_one_star_though_git_slips_here(git: Git) -> None:
    asked = ["ab", "a/b", "ax/b", "ax/y/b"]
    assert git(["a**/b"], asked) == set(asked)
    assert {path for path in asked if taken("a**/b", path)} == {"a/b", "ax/b"}


# The index asks a lesson only where one of its literals occurs, so a glob must not match without.


@many
@given(
    globs=lists_of_globs() | lists_of_globs(root="/people/"),
    more=st.lists(st.text("aKsSſiıİIkKσςΣéÉ/.", min_size=1).filter(lambda path: "//" not in path), max_size=8),
    ignore_case=st.booleans(),
)
def test_a_literal_of_the_glob_occurs_in_each_path_it_takes_in(
    globs: list[str], more: list[str], ignore_case: bool
) -> None:
    for glob in compiled([*globs, *(path for path in more if path.isalnum())], ignore_case=ignore_case):
        literal_sets = find_literal_sets(glob.source, glob.flags)
        for path in [*PATHS[::7], *more] if glob.is_include and literal_sets else ():
            for absolute, relative in ((f"/people/{path}", path), (f"/people/{path}", f"../people/{path}")):
                if has_matching_glob([glob], relative, absolute, search):
                    folded_path = fold_case(absolute)
                    for literals in literal_sets:
                        assert any(literal in folded_path for literal in literals), (glob, absolute)


def test_globs_are_evaluated_without_re() -> None:
    source = os.path.dirname(os.path.dirname(os.path.abspath(hardwon.__file__)))
    code = (
        f"import sys; sys.path.append({source!r}); import hardwon.lessons.matching as matching; "
        "matching.has_matching_glob([], 'a', '/a', None); print('re' in sys.modules)"
    )
    # Without site-packages, as the hook runs: `make coverage` loads itself from there, and `re` with it.
    result = subprocess.run([sys.executable, "-I", "-S", "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout == "False\n"
