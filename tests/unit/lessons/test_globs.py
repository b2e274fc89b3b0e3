"""Path globs of lessons follow gitignore's rules, compared with git itself."""

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
from hardwon.lessons.globs import compile_glob
from hardwon.lessons.matching import has_matching_glob
from hardwon.lessons.patterns import find_literal_sets
from hardwon.text.characters import fold_case
from hardwon.types import Glob, Pattern

Git = Callable[..., set[str]]


@cache
def compile_engines(pattern: Pattern) -> tuple[re.Pattern[str], regex.Pattern[str]]:
    return re.compile(*pattern.__dict__.values()), regex.compile(pattern.source, pattern.flags | regex.VERSION0)


def search_both_engines(pattern: Pattern, text: str) -> bool:
    """Search with both engines, the hook's and the worker's, which must agree."""
    re_result, regex_result = (engine.search(text) is not None for engine in compile_engines(pattern))
    assert re_result == regex_result, (pattern, text)
    return re_result


def compile_globs(globs: Sequence[str], **options: bool) -> list[Glob]:
    return [
        compiled_glob
        for compiled_glob in (compile_glob(glob, user_home="/people/me", **options) for glob in globs)
        if compiled_glob
    ]


def does_match(globs: Sequence[str] | str, path: str, **options: bool) -> bool:
    """Return whether the globs match a path, seen from /people/me/project."""
    absolute = path if path.startswith("/") else f"/people/me/project/{path}"
    inside = absolute.removeprefix("/people/me/project/")
    relative = f"..{absolute}" if inside == absolute else inside
    return has_matching_glob(
        compile_globs([globs] if isinstance(globs, str) else globs, **options), relative, absolute, search_both_engines
    )


MATCHING_PATHS = [
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
OTHER_PATHS = [
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


def test_a_glob_matches_these_paths() -> None:
    for glob, paths in MATCHING_PATHS:
        for path in paths.split("  "):
            assert does_match(glob, path), (glob, path)


def test_a_glob_does_not_match_other_paths() -> None:
    for glob, paths in OTHER_PATHS:
        for path in paths.split("  "):
            assert not does_match(glob, path), (glob, path)


def test_empty_and_invalid_globs_compile_to_nothing() -> None:
    for glob in ("", "   ", "# a comment", "/", "//", "!", "!/", "a//b", "[a", "a\\", "[[:no:]]"):
        assert compile_glob(glob, user_home="/people/me") is None, glob


def test_the_last_glob_that_matches_decides() -> None:
    assert does_match(["*.md", "!README.md"], "notes.md")
    assert not does_match(["*.md", "!README.md"], "docs/README.md")
    assert does_match(["*.md", "!README.md", "docs/README.md"], "docs/README.md")
    assert not does_match(["!README.md"], "notes.md")


def test_a_file_cannot_be_excluded_from_a_matched_folder() -> None:
    assert does_match(["build/", "!build/keep.txt"], "build/keep.txt")
    assert not does_match(["build/*", "!build/keep.txt"], "build/keep.txt")
    assert not does_match(["build/*", "!build/keep/"], "build/keep/a.txt")
    assert does_match(["build/**", "!build/keep/"], "build/keep/a.txt")


def test_globs_from_the_project_and_from_the_root_do_not_overrule_each_other() -> None:
    assert does_match(["*.md", "!/people/me/project/a.md"], "a.md")
    assert does_match(["/people/me/project/a.md", "!a.md"], "a.md")


def test_a_leading_slash_is_the_file_system_root_unlike_in_git(git: Git) -> None:
    candidate_paths = ["a", "a/é", "a/ab/ab"]
    assert not git(["a", "!/a"], candidate_paths)
    assert all(does_match(["a", "!/a"], path) for path in candidate_paths)
    assert not any(does_match(["/a", "!/a"], f"/{path}") for path in candidate_paths)


def test_no_globs_and_no_path_match_nothing() -> None:
    assert not does_match([], "a")
    assert not has_matching_glob(compile_globs(["*", "/**"]), "", "", search_both_engines)
    assert not has_matching_glob(compile_globs(["*", ".*", "**"]), "..", "/", search_both_engines)


def test_the_home_is_taken_literally_and_without_one_a_tilde_is_a_name() -> None:
    home_glob = compile_glob("!~/x/", user_home="/people/[me]*/")
    assert home_glob and (home_glob.is_include, home_glob.folders_only, home_glob.is_absolute) == (False, True, True)
    assert search_both_engines(Pattern(home_glob.source), "/people/[me]*/x") and not search_both_engines(
        Pattern(home_glob.source), "/people/me/x"
    )
    name_glob = compile_glob("~/x")
    assert name_glob and not name_glob.is_absolute and search_both_engines(Pattern(name_glob.source), "~/x")


def test_globs_can_ignore_case() -> None:
    for glob in ("*.PY", "É.py", "[É].py", "[[:upper:]é].py"):
        assert does_match(glob, "é.py" if "É" in glob or "é" in glob else "a.py", ignore_case=True)
    assert not does_match("[!a].py", "A.py", ignore_case=True)


@pytest.mark.parametrize("glob", ["*a" * 20 + "*b", "**/*a/" * 8 + "b", "a*/**/" * 8 + "**/*b", "?*" * 20 + "[b]"])
@pytest.mark.parametrize("text", ["a" * 200, "a/" * 100, "aa/" * 60 + "c"])
def test_no_glob_backtracks(glob: str, text: str) -> None:
    compiled_glob = compile_glob(glob)
    assert compiled_glob
    regex.compile(compiled_glob.source, regex.VERSION0).search(text * 100, timeout=1)  # TimeoutError if it backtracks


# The rest compares with git. It works on bytes, so paths are encoded in Latin-1, where a letter is one byte.


@pytest.fixture(scope="module")
def git(tmp_path_factory: pytest.TempPathFactory) -> Git:
    """Return a function that lists which paths git ignores; the paths do not exist."""
    root = str(tmp_path_factory.mktemp("git"))
    env = {"PATH": os.environ["PATH"], "HOME": root, "GIT_CONFIG_NOSYSTEM": "1", "LC_ALL": "C"}
    subprocess.run(["git", "init", "-q", root], check=True, env=env)

    def list_ignored(globs: Sequence[str], paths: Sequence[str], *, ignore_case: bool = False) -> set[str]:
        with open(os.path.join(root, ".git", "info", "exclude"), "wb") as out:
            out.write("".join(f"{glob}\n" for glob in globs).encode("latin-1"))
        process = subprocess.run(
            ["git", "-c", f"core.ignorecase={ignore_case}", "check-ignore", "--no-index", "--stdin", "-z"],
            input="".join(f"{path}\0" for path in paths).encode("latin-1"),
            capture_output=True,
            cwd=root,
            env=env,
        )
        assert process.returncode in (0, 1), process.stderr
        return set(process.stdout.decode("latin-1").split("\0")) - {""}

    return list_ignored


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


def triggers_git_bug(glob: str) -> bool:
    """Return whether git misreads the glob: it cuts the literal prefix, so `a**/b` becomes `a` and `**/b`."""
    return "/" in glob and re.match(r"!?/?[^*?[\\]*[^*?[\\/]\*\*", glob) is not None


@st.composite
def draw_globs(draw: st.DrawFn, root: str = "") -> list[str]:
    """Draw one to four globs, all from the root or none."""
    drawn = draw(st.lists(st.tuples(st.sampled_from(["", "", "!"]), bodies), min_size=1, max_size=4))
    globs = [sign + root + body.lstrip("/") for sign, body in drawn]
    return [
        glob for glob in globs if not triggers_git_bug(glob) and glob.removeprefix("!").startswith("/") == bool(root)
    ]


slow_settings = settings(suppress_health_check=[HealthCheck.too_slow])


@slow_settings
@example(globs=["a/", "!a/b", "**", "!b"], more_paths=[])
@example(globs=["*/b/**/a/**", "!**/ab/"], more_paths=["a/b/a/a"])
@given(globs=draw_globs(), more_paths=st.lists(paths, max_size=8))
def test_git_ignores_the_same_files(git: Git, globs: list[str], more_paths: list[str]) -> None:
    compiled_globs = [glob for glob in map(compile_glob, globs) if glob]
    candidate_paths = [*PATHS, *more_paths]
    assert {
        path
        for path in candidate_paths
        if has_matching_glob(compiled_globs, path, f"/root/{path}", search_both_engines)
    } == git(globs, candidate_paths)


@slow_settings
@given(globs=draw_globs(root="/"), more_paths=st.lists(paths, max_size=8))
def test_git_ignores_the_same_files_below_a_root(git: Git, globs: list[str], more_paths: list[str]) -> None:
    compiled_globs = [glob for glob in map(compile_glob, globs) if glob]
    candidate_paths = [*PATHS, *more_paths]
    assert {
        path
        for path in candidate_paths
        if has_matching_glob(compiled_globs, f"../{path}", f"/{path}", search_both_engines)
    } == git(globs, candidate_paths)


@slow_settings
@given(globs=draw_globs(), data=st.data())
def test_git_ignores_the_same_files_without_regard_to_case(git: Git, globs: list[str], data: st.DataObject) -> None:
    globs = [glob for glob in globs if glob.isascii()]
    if not any(sign in glob for glob in globs for sign in "\\["):  # there git forgets to fold the glob
        globs = [data.draw(st.sampled_from([glob, glob.upper()])) for glob in globs]
    candidate_paths = [path for path in PATHS[:60] if path.isascii()]
    candidate_paths += [path.upper() for path in candidate_paths]
    compiled_globs = [glob for glob in (compile_glob(glob, ignore_case=True) for glob in globs) if glob]
    assert {
        path for path in candidate_paths if has_matching_glob(compiled_globs, path, "", search_both_engines)
    } == git(globs, candidate_paths, ignore_case=True)


@pytest.mark.parametrize("kind", [*KINDS, "cntrl", "space"])
@pytest.mark.parametrize("sign", ["", "!"])
def test_git_has_the_same_character_classes(git: Git, kind: str, sign: str) -> None:
    glob = f"x[{sign}[:{kind}:]]"
    compiled_glob = compile_glob(glob)
    candidate_paths = [f"x{chr(code)}" for code in range(1, 256) if chr(code) != "/"]
    assert compiled_glob and {
        path for path in candidate_paths if has_matching_glob([compiled_glob], path, "", search_both_engines)
    } == git([glob], candidate_paths)


def test_two_stars_after_text_are_one_star_unlike_in_git(git: Git) -> None:
    candidate_paths = ["ab", "a/b", "ax/b", "ax/y/b"]
    assert git(["a**/b"], candidate_paths) == set(candidate_paths)
    assert {path for path in candidate_paths if does_match("a**/b", path)} == {"a/b", "ax/b"}


# The index considers a lesson only where one of its literals occurs, so a glob must not match without it.


@slow_settings
@given(
    globs=draw_globs() | draw_globs(root="/people/"),
    more_paths=st.lists(st.text("aKsSſiıİIkKσςΣéÉ/.", min_size=1).filter(lambda path: "//" not in path), max_size=8),
    ignore_case=st.booleans(),
)
def test_every_matched_path_contains_a_literal_of_the_glob(
    globs: list[str], more_paths: list[str], ignore_case: bool
) -> None:
    for glob in compile_globs([*globs, *(path for path in more_paths if path.isalnum())], ignore_case=ignore_case):
        literal_sets = find_literal_sets(glob.source, glob.flags)
        for path in [*PATHS[::7], *more_paths] if glob.is_include and literal_sets else ():
            for absolute, relative in ((f"/people/{path}", path), (f"/people/{path}", f"../people/{path}")):
                if has_matching_glob([glob], relative, absolute, search_both_engines):
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
