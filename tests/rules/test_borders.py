"""SQL stays in `store/` and `data/`, and only three files catch every exception."""

from __future__ import annotations

import ast

from tests.rules.tree import Source, assert_rule, find_imports, get_callee_name, get_last_name, python_files

SQL_CALLS = frozenset(
    {"execute", "executemany", "executescript", "fetch_column", "fetch_dicts", "fetch_value", "insert_row"}
)
BROAD = frozenset({"Exception", "BaseException"})

# Where an agent calls in: an exception there would disturb the agent or stop the worker.
MAY_CATCH_ALL = ("src/hardwon/hook.py", "src/hardwon/fallback/answering.py", "src/hardwon/worker/hook_responder.py")


# Our tables, their export and import, opencode's database and the team server's tables.
MAY_USE_SQL = ("hardwon.store.", "hardwon.data.", "hardwon.agents.opencode.database", "hardwon.team.postgres")


def find_sql_uses(source: Source) -> list[str]:
    """Return each use of SQL in a source that may not use it."""
    if source.module.startswith(MAY_USE_SQL) or not any(word in source.text for word in (*SQL_CALLS, "sqlite3")):
        return []
    calls = [
        f"{source.path}:{node.lineno}: calls {get_callee_name(node)}("
        for node in source.nodes
        if isinstance(node, ast.Call) and get_callee_name(node) in SQL_CALLS
    ]
    return calls + [
        f"{source.path}:{statement.line}: imports sqlite3"
        for statement in find_imports(source, ())
        if statement.target.split(".")[0] == "sqlite3"
    ]


def find_catch_alls(source: Source) -> list[str]:
    """Return each `except` that catches every exception without raising it again, `contextlib.suppress` included."""
    breaches: list[str] = []
    if "except" not in source.text and "suppress" not in source.text:
        return breaches
    for node in source.nodes:
        exception_types: list[ast.expr] = []
        if isinstance(node, ast.ExceptHandler) and not is_reraising(node):
            if node.type is None:
                breaches.append(f"{source.path}:{node.lineno}: except:")
            else:
                exception_types = node.type.elts if isinstance(node.type, ast.Tuple) else [node.type]
        elif isinstance(node, ast.Call) and get_callee_name(node) == "suppress":
            exception_types = node.args
        names = [(exception_type.lineno, get_last_name(exception_type)) for exception_type in exception_types]
        breaches += [f"{source.path}:{line}: catches {name}" for line, name in names if name in BROAD]
    return breaches


def is_reraising(node: ast.ExceptHandler) -> bool:
    """Return whether the handler ends by raising the error again, as a rollback does."""
    last = node.body[-1]
    return isinstance(last, ast.Raise) and last.exc is None


def test_sql_is_only_in_the_store() -> None:
    assert_rule(
        "SQL is visible, hand-written, and only in store/, data/, the reader of opencode's database and the team server's tables",
        (breach for source in python_files("src/hardwon") for breach in find_sql_uses(source)),
        "add a function to the store and call it",
    )


def test_only_the_listed_files_catch_every_exception() -> None:
    assert_rule(
        f"only {', '.join(MAY_CATCH_ALL)} may catch everything",
        (
            breach
            for source in python_files("src/hardwon")
            if source.path not in MAY_CATCH_ALL
            for breach in find_catch_alls(source)
        ),
        "name the errors that can occur there, or let the caller handle them",
    )


def test_at_most_three_files_may_catch_every_exception() -> None:
    assert len(MAY_CATCH_ALL) <= 3


def test_sql_outside_the_store_is_found() -> None:
    text = "import sqlite3\ndef f(db):\n    db.cursor().execute('select 1')\n    db.executescript('')\n"
    sql_uses = find_sql_uses(Source("src/hardwon/search/search.py", "hardwon.search.search", text))
    assert {line.rpartition(": ")[2] for line in sql_uses} == {
        "calls execute(",
        "calls executescript(",
        "imports sqlite3",
    }
    assert find_sql_uses(Source("src/hardwon/store/db.py", "hardwon.store.db", text)) == []


def test_each_way_to_catch_everything_is_found() -> None:
    catch_all_clauses = ["except:", "except Exception:", "except (OSError, builtins.BaseException) as error:"]
    for clause in catch_all_clauses:
        assert len(find_catch_alls(Source("a.py", "a", f"try:\n    f()\n{clause}\n    pass\n"))) == 1, clause
    assert len(find_catch_alls(Source("a.py", "a", "with contextlib.suppress(Exception):\n    f()\n"))) == 1
    allowed_clauses = ["except (OSError, ValueError):\n    pass", "except BaseException:\n    rollback()\n    raise"]
    for clause in allowed_clauses:
        assert find_catch_alls(Source("a.py", "a", f"try:\n    f()\n{clause}\n")) == [], clause
