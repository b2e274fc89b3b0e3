"""SQL stays in `store/` and `data/`, and an error is said once, at a named border."""

from __future__ import annotations

import ast

from tests.rules.tree import Source, callee, imports, last_name, python_files, uphold

SQL_CALLS = frozenset(
    {"execute", "executemany", "executescript", "fetch_column", "fetch_dicts", "fetch_value", "insert_row"}
)
BROAD = frozenset({"Exception", "BaseException"})

# The borders: whatever happens inside, the agent must not be hurt, and the worker must live on.
MAY_CATCH_ALL = ("src/hardwon/hook.py", "src/hardwon/fallback/answering.py", "src/hardwon/worker/hook_responder.py")


# Our tables, what goes into and out of them as a whole, and another program's database.
MAY_USE_SQL = ("hardwon.store.", "hardwon.data.", "hardwon.agents.opencode.database", "hardwon.team.postgres")


def sql(source: Source) -> list[str]:
    """Return each use of SQL in a source that may not use it."""
    if source.module.startswith(MAY_USE_SQL) or not any(word in source.text for word in (*SQL_CALLS, "sqlite3")):
        return []
    calls = [
        f"{source.place}:{node.lineno}: calls {callee(node)}("
        for node in source.nodes
        if isinstance(node, ast.Call) and callee(node) in SQL_CALLS
    ]
    return calls + [
        f"{source.place}:{each.line}: imports sqlite3"
        for each in imports(source, ())
        if each.target.split(".")[0] == "sqlite3"
    ]


def catch_alls(source: Source) -> list[str]:
    """Each `except` that takes whatever comes and keeps it, `contextlib.suppress` included."""
    wrong: list[str] = []
    if "except" not in source.text and "suppress" not in source.text:
        return wrong
    for node in source.nodes:
        kinds: list[ast.expr] = []
        if isinstance(node, ast.ExceptHandler) and not passes_on(node):
            if node.type is None:
                wrong.append(f"{source.place}:{node.lineno}: except:")
            else:
                kinds = node.type.elts if isinstance(node.type, ast.Tuple) else [node.type]
        elif isinstance(node, ast.Call) and callee(node) == "suppress":
            kinds = node.args
        names = [(kind.lineno, last_name(kind)) for kind in kinds]
        wrong += [f"{source.place}:{line}: catches {name}" for line, name in names if name in BROAD]
    return wrong


def passes_on(node: ast.ExceptHandler) -> bool:
    """It tidies up and lets the error go on, as a transaction does that rolls back."""
    last = node.body[-1]
    return isinstance(last, ast.Raise) and last.exc is None


def test_sql_is_only_in_the_store() -> None:
    uphold(
        "SQL is visible, hand-written, and only in store/, data/, the reader of opencode's database and the team server's tables",
        (breach for source in python_files("src/hardwon") for breach in sql(source)),
        "give the store a function that says what is wanted, and call that",
    )


def test_only_the_borders_catch_everything() -> None:
    uphold(
        f"only {', '.join(MAY_CATCH_ALL)} may catch everything",
        (
            breach
            for source in python_files("src/hardwon")
            if source.place not in MAY_CATCH_ALL
            for breach in catch_alls(source)
        ),
        "name the errors that can happen there, or let it rise to the border",
    )


def test_there_are_three_borders_at_most() -> None:
    assert len(MAY_CATCH_ALL) <= 3


def test_sql_outside_the_store_is_found() -> None:
    text = "import sqlite3\ndef f(db):\n    db.cursor().execute('select 1')\n    db.executescript('')\n"
    found = sql(Source("src/hardwon/search/search.py", "hardwon.search.search", text))
    assert {line.rpartition(": ")[2] for line in found} == {
        "calls execute(",
        "calls executescript(",
        "imports sqlite3",
    }
    assert sql(Source("src/hardwon/store/db.py", "hardwon.store.db", text)) == []


def test_each_way_to_catch_everything_is_found() -> None:
    bodies = ["except:", "except Exception:", "except (OSError, builtins.BaseException) as error:"]
    for line in bodies:
        assert len(catch_alls(Source("a.py", "a", f"try:\n    f()\n{line}\n    pass\n"))) == 1, line
    assert len(catch_alls(Source("a.py", "a", "with contextlib.suppress(Exception):\n    f()\n"))) == 1
    good = ["except (OSError, ValueError):\n    pass", "except BaseException:\n    rollback()\n    raise"]
    for line in good:
        assert catch_alls(Source("a.py", "a", f"try:\n    f()\n{line}\n")) == [], line
