"""Records are found by words, names, paths and characters of any script, within their project."""

from __future__ import annotations

import json
import os
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hardwon.actions.approvals import open_decider
from hardwon.actions.lessons import approve_waiting_changes
from hardwon.errors import UserError
from hardwon.lessons.manifest import find_waiting_changes
from hardwon.search import indexing, query_scope, vectors
from hardwon.search.records import fetch_records
from hardwon.search.search import LEXICAL_ONLY_NOTE, SearchResult, search_records
from hardwon.search.timeline import build_timeline
from hardwon.store import db, documents, events, purge, retention
from hardwon.store.approvals import COMMAND_LINE
from hardwon.text import traces
from tests.support.library import BOAT, DAY, KITE, NOW, Library

MANY = 2_100  # enough documents to make a word that all of them have too frequent


# A title and a query that must find it.
TITLES_AND_QUERIES = [
    ("getUserById returns None for deleted accounts", "getUserById"),
    ("user_by_id is cached for a minute", "user_by_id"),
    ("parseHTTPResponse drops the trailing header", "parse_http_response"),
    ("parse_query_string keeps empty values", "parseQueryString"),
    ("MAX_RETRY_COUNT is read before the settings", "MAX_RETRY_COUNT"),
    ("maxUploadSize is in bytes, not in megabytes", "max_upload_size"),
    ("XMLHttpRequest is stubbed by the runner", "XMLHttpRequest"),
    ("useLayoutEffect fires before the paint", "layout effect"),
    ("the flag --no-verify skips the gate", "--no-verify"),
    ("kebab-case-selector loses against the id", "kebab-case-selector"),
    ("std::unique_ptr was moved twice", "unique_ptr"),
    ("os.path.realpath follows the link", "os.path.realpath"),
    ("numpy.linalg.norm wants an axis", "linalg.norm"),
    ("ERR_CONNECTION_REFUSED came from the proxy", "ERR_CONNECTION_REFUSED"),
    ("SQLSTATE23505 means a duplicate key", "SQLSTATE23505"),
    ("sha256sum differs between the mirrors", "sha256sum"),
    ("commit 9f8e7d6c5b4a broke the schema", "9f8e7d6c5b4a"),
    ("__init__ ran before the fixture", "__init__"),
    ("ThreadPoolExecutor leaks on shutdown", "thread pool executor"),
    ("@app.route needs the slash", "app.route"),
    ("src/auth/token.py refreshes too late", "src/auth/token.py"),
    ("the bug was in lib/net/socket_pool.rs", "lib/net/socket_pool.rs"),
    ("web/components/DatePicker.tsx re-renders", "DatePicker.tsx"),
    ("internal/billing/invoice_test.go is flaky", "billing/invoice_test.go"),
    ("config/webpack.prod.js splits chunks", "webpack.prod.js"),
    ("docs/adr/0007-queues.md explains it", "0007-queues"),
    ("Dockerfile.alpine misses a locale", "Dockerfile.alpine"),
    (".github/workflows/release.yml pins the runner", "workflows/release.yml"),
    ("/etc/systemd/system/kite.service restarts", "/etc/systemd/system/kite.service"),
    ("scripts\\deploy\\rollout.ps1 wants a tag", "rollout.ps1"),
    ("認証トークンの更新に失敗した", "認証トークン"),
    ("データベース接続がタイムアウトする", "接続 タイムアウト"),
    ("設定ファイルを読み込めない", "設定ファイル"),
    ("登录接口返回空的用户信息", "登录接口"),
    ("缓存失效导致页面很慢", "缓存失效"),
    ("数据库迁移需要停机", "迁移"),
    ("결제 서비스가 응답하지 않는다", "결제 서비스"),
    ("로그인세션이 만료되었다", "세션"),
    ("鍵を失くした", "鍵"),
    ("テストが遅い原因はネットワーク", "ネットワーク"),
]


def test_there_are_forty_names_paths_and_signs() -> None:
    assert len(TITLES_AND_QUERIES) == 40


@pytest.fixture(params=["by words", "by meaning too"])
def model(request: pytest.FixtureRequest) -> vectors.Model | None:
    return vectors.load_model() if request.param == "by meaning too" else None


def test_every_identifier_path_and_sign_is_among_the_first_three(library: Library, model: vectors.Model | None) -> None:
    generator = random.Random(1)
    common_words = [
        "user",
        "token",
        "path",
        "config",
        "test",
        "error",
        "file",
        "query",
        "retry",
        "cache",
        "page",
        "session",
    ]
    expected_ids = {}
    for number, (title, query) in enumerate(TITLES_AND_QUERIES):
        expected_ids[query] = library.observe(title, session=f"s{number}")
        for other in range(5):
            library.observe(" ".join(generator.sample(common_words, 6)), session=f"n{number}-{other}")
    library.refresh(model)
    found_ids = {query: library.ids(query, model=model)[:3] for query in expected_ids}
    assert {query: ids for query, ids in found_ids.items() if expected_ids[query] not in ids} == {}


def test_two_projects_never_see_each_other_and_each_finds_its_own(
    library: Library, model: vectors.Model | None
) -> None:
    ids_by_number = {
        (project, number): library.observe(
            f"alpha{number} shared words about caching", project=project, session=f"{project} {number}"
        )
        for project in (KITE, BOAT)
        for number in range(30)
    }
    library.refresh(model)
    ids_by_project = {
        project: {record_id for (its_project, _), record_id in ids_by_number.items() if its_project == project}
        for project in (KITE, BOAT)
    }
    for project, other in ((KITE, BOAT), (BOAT, KITE)):
        for number in range(30):
            hits = library.find(f"alpha{number} caching", project=project, limit=200, model=model).hits
            assert hits[0].id == ids_by_number[project, number]
            assert {hit.project for hit in hits} == {project}
            assert not {hit.id for hit in hits} & ids_by_project[other]
    assert {hit.project for hit in library.find("alpha7", project="", model=model).hits} == {KITE, BOAT}


def test_an_id_of_another_project_is_not_shown_unless_all_are_asked_for(library: Library) -> None:
    record_id = library.observe("a secret of the boat", project=BOAT, session="b")
    library.observe("the kite's own", session="k")
    assert library.ids(record_id) == []
    assert library.ids(record_id, project="") == [record_id]
    assert library.find(record_id, project="").hits[0].why == ("exact id",)


def test_a_query_of_only_an_id_finds_that_record(library: Library) -> None:
    ids = [library.observe(f"number {number}", session=f"s{number}") for number in range(3)]
    upload = library.observe("the upload to the bucket fails", session="upload")
    for query in (ids[2], ids[2].lower(), f" {ids[2]} ", f"{ids[2]}, {ids[1]}"):
        assert library.ids(query)[0] == ids[2]
    assert library.ids(f"{ids[2]} bucket upload fails")[0] == upload
    assert library.ids(ids[2], kinds=("prompt",)) == []
    assert library.ids(ids[2], kinds=("O",)) == [ids[2]]


HOSTILE = [
    '"',
    '""',
    "'",
    "*",
    "a*",
    "AND",
    "OR OR",
    "NOT x",
    "NEAR(a b)",
    "a NEAR/2 b",
    "words:token",
    "^token",
    "(",
    ")((",
    "-token",
    "+token",
    "token OR",
    '"unbalanced',
    "{a b}",
    "col : x",
    "\0",
    "a\0b",
    "%",
    ";drop table documents;--",
    "\\",
    "\ud800",
    "🙂",
    "²",
    "…",
    "0kO",
    "a" * 100_000,
    "x " * 5_000,
    "\n\t",
    "￿",
    "ﷺ",
    "a.b.c.d.e/f/g/h/i/j",
    "O",
    "O99999999999999999999",
    "L:",
    "L:../../etc",
    "\u19b0ab\u19b0cd\u19c9",
    "a\u1cf2b c\u1cf3d.py",
]


@pytest.mark.parametrize("query", HOSTILE, ids=range(len(HOSTILE)))
def test_a_hostile_query_is_plain_text(library: Library, query: str) -> None:
    library.observe("the token was refreshed")
    for filters in (
        {},
        {"project": ""},
        {"type": query},
        {"file": query},
        {"concept": query},
        {"kinds": ("observation",)},
    ):
        assert isinstance(library.find(query, **filters), SearchResult)


@given(st.text(max_size=60))
def test_no_text_makes_the_index_fail(text: str) -> None:
    connection = db.connect(os.path.join(os.environ["HARDWON_HOME"], "any"))
    try:
        search_records(connection, os.environ["HARDWON_HOME"], text, project="", now=NOW)
    finally:
        connection.close()


def test_several_words_are_no_phrase_and_the_best_match_is_first(library: Library) -> None:
    far = library.observe("the refresh came late, and so did every token", session="a")
    library.observe("tokens are kept in a cookie", session="b")
    assert library.ids("token refresh")[0] == far


def test_one_word_that_the_answer_lacks_does_not_outweigh_the_others(library: Library) -> None:
    library.observe_many([f"harbour {word} {number}" for number in range(5) for word in ("lights", "buoys chained")])
    answer = library.observe("the harbour lights and buoys are chained to the pier")
    assert library.ids("are the harbour lights chained to the buoys at dusk")[0] == answer


def test_neighbours_of_a_hit_are_found(library: Library) -> None:
    prompt_id = library.prompt("where is the lighthouse?", session="a")
    next_id = library.prompt("behind the second bridge", session="a")
    library.prompt("something else entirely", session="b")
    hits = library.find("lighthouse").hits
    assert [hit.id for hit in hits] == [prompt_id, next_id]
    assert hits[1].why == (f"neighbour of {prompt_id}",)


def test_the_newer_of_two_equals_comes_first(library: Library) -> None:
    old = library.prompt("rotate the certificates", session="a", at=NOW - 400 * DAY)
    new = library.prompt("rotate the certificates", session="b", at=NOW - DAY)
    assert library.ids("certificates") == [new]
    assert library.find("certificates").hits[0].alike == 1
    library.prompt("rotate the certificates of the proxy before spring", session="c", at=NOW - 300 * DAY)
    assert library.ids(f"{old}") == [old]


def test_the_current_project_ranks_first_across_projects(library: Library) -> None:
    for project in (KITE, BOAT):
        library.prompt("rotate the certificates", project=project, session=project, at=NOW - DAY)
    for current_project in (KITE, BOAT):
        assert (
            library.find("certificates", project="", current_project=current_project).hits[0].project == current_project
        )


def test_filters_exclude_other_records(library: Library) -> None:
    bug = library.observe("pool exhausted", type="bugfix", files=("src/db/pool.py",), concepts='["gotcha"]')
    library.observe("pool resized", type="decision", files=("src/db/other_pool.py",))
    library.prompt("the pool is too small")
    for filters, expected_ids in (
        ({"type": "bugfix"}, [bug]),
        ({"concept": "gotcha"}, [bug]),
        ({"file": "pool.py"}, [bug]),
        ({"file": "db/pool.py", "kinds": ("observation",)}, [bug]),
        ({"kinds": ("summary",)}, []),
        ({"host": "codex"}, []),
        ({"since": NOW}, []),
        ({"until": NOW - 300 * DAY}, []),
    ):
        assert library.ids("pool", **filters) == expected_ids, filters
    assert library.ids("", type="bugfix") == [bug]


def test_a_file_that_is_named_comes_first(library: Library) -> None:
    record_id = library.observe("reads the clock twice", session="a", files=("/home/dev/kite/src/auth/token.py",))
    library.observe("src auth token py src auth token py", session="b")
    first = library.find("src/auth/token.py").hits[0]
    assert (first.id, first.why[0]) == (record_id, "file: src/auth/token.py")
    assert "file: src/auth/token.py" in library.find("who reads (src/auth/token.py).").hits[0].why
    assert "file: token.py" in library.find("is it token.py?").hits[0].why


def test_a_word_too_long_for_a_path_names_no_file(library: Library) -> None:
    path = "deep/" * 70 + "down.py"
    library.observe("reads the clock twice", files=(path,))
    assert not any(reason.startswith("file:") for hit in library.find(path).hits for reason in hit.why)
    assert library.find("/" * 4_000).hits == ()


def test_without_a_question_the_latest_come_first_however_they_were_stored(library: Library) -> None:
    ids = library.observe_many([f"step {number}" for number in range(1_100)], type="bugfix")
    library.connection.execute("update observations set at = ? where id = ?", (NOW - DAY, int(ids[3][1:])))
    assert library.ids("", type="bugfix", limit=2) == [ids[3], ids[-1]]
    assert library.ids("", type="bugfix", limit=2, project="") == [ids[3], ids[-1]]
    assert library.ids("", type="bugfix", until=NOW - 9 * DAY + 2) == [ids[1], ids[0]]
    assert library.ids("", kinds=("prompt",), limit=2)[0][0] == "P"


def test_a_similar_type_does_not_pass_the_filter(library: Library) -> None:
    matching_id = library.observe("mended", type="bugfix", session="a")
    library.observe_many(["mended"] * 30, type="bug-fix")
    assert library.ids("", type="bugfix", limit=3) == [matching_id]


def test_an_unknown_kind_is_refused_by_name(library: Library) -> None:
    for query in ("", "token"):
        with pytest.raises(UserError, match="there is no kind 'foo'"):
            library.find(query, kinds=("foo",))


def test_letters_that_fts_treats_as_separators_are_found(library: Library) -> None:
    record_id = library.observe("about \u1985\u19b1\u1986\u19c9\u1987 alone", files=("src/a\u1cf2b.py",), session="a")
    library.observe("\u1985 \u1986 \u1987", session="b")
    assert library.ids("\u1985\u19b1\u1986\u19c9\u1987") == [record_id]
    assert library.ids("", file="a\u1cf2b.py") == [record_id]


def test_a_project_name_with_nul_is_refused(library: Library) -> None:
    for project_name in ("ki\0te", "/home/\0/kite"):
        with pytest.raises(UserError, match="NUL"):
            query_scope.resolve_project(library.connection, project_name, "/")


def test_a_query_without_match_finds_nothing(library: Library) -> None:
    library.observe("authentication was rewritten")
    assert library.find("authentication").note == LEXICAL_ONLY_NOTE
    for query in ("authentikation", "zzzzqqq"):
        assert library.find(query) == SearchResult((), unmatched=(query,))
    assert library.find("authentication", type="bugfix") == SearchResult(())


def test_deleted_text_is_removed_from_the_index(library: Library) -> None:
    library.observe("the password was swordfish", session="a")
    library.observe("nothing of the kind", session="b")
    library.refresh()
    library.connection.execute("delete from sessions where session = 'a'")
    assert library.find("swordfish") == SearchResult((), unmatched=("swordfish",))
    documents.rebuild_word_index(library.connection)
    retention.rebuild_database(library.connection)
    library.connection.execute("pragma wal_checkpoint(truncate)").fetchall()
    with open(os.path.join(library.home, "hardwon.db"), "rb") as file:
        assert b"swordfish" not in file.read()


def test_purging_a_text_keeps_records_with_similar_words(library: Library) -> None:
    purged_id = library.observe("a token refresh every hour", session="a")
    kept_id = library.observe("the token was not refreshed", session="b")
    assert set(library.ids("token refresh")) == {purged_id, kept_id}
    pieces = traces.split_into_pieces("token refresh")
    purge.purge_target(library.connection, purge.PurgeTarget(text_pieces=pieces), [], NOW)
    rows = library.connection.execute("select words from documents").fetchall()
    assert not any(traces.has_any_piece(words, pieces) for (words,) in rows)
    assert library.ids("token refresh") == [kept_id]


def test_vectors_of_deleted_records_are_not_found_or_reused(library: Library) -> None:
    model = vectors.load_model()

    def find_nearest(text: str, limit: int) -> list[int]:
        library.refresh(model)
        projects = documents.find_project_numbers(library.connection, KITE)
        return vectors.find_nearest(
            library.connection, library.home, vectors.MODEL_VERSION, projects, model.embed([text])[0], limit
        )

    def get_document_number(record_id: str) -> int:
        document = documents.find_by_source(library.connection, "O", int(record_id[1:]), "")
        assert document
        return int(document["id"])

    kept_id = library.observe("kubernetes pod evicted")
    library.observe_many(["the login token has expired"] * 40)
    library.refresh(model)
    assert get_document_number(kept_id) not in find_nearest("the login token has expired", 20)
    library.connection.execute("delete from observations where id != ?", (int(kept_id[1:]),))
    assert get_document_number(kept_id) in find_nearest("the login token has expired", 20)
    last_id = library.observe("the login token has expired", session="b", at=NOW)
    assert find_nearest("the login token has expired", 1) == [get_document_number(last_id)]
    reused_number = get_document_number(last_id)
    library.connection.execute("delete from sessions where session = 'b'")
    new_id = library.observe("the font seems too small", session="c", at=NOW)
    library.refresh(model)
    assert get_document_number(new_id) == reused_number
    assert reused_number not in find_nearest("the login token has expired", 1)
    assert sorted(find_nearest("the login token has expired", 9)) == sorted(
        [*list_prompt_documents(library), get_document_number(kept_id), reused_number]
    )


def list_prompt_documents(library: Library) -> list[int]:
    rows = library.connection.execute("select id from documents where kind = 'P'").fetchall()
    return [record_id for (record_id,) in rows]


def test_a_changed_record_is_found_by_its_new_words_only(library: Library) -> None:
    record_id = library.observe("first wording")
    assert library.ids("wording") == [record_id]
    library.connection.execute("update observations set title = 'other phrase' where id = ?", (int(record_id[1:]),))
    assert (library.ids("phrase"), library.ids("wording")) == ([record_id], [])


def test_a_session_that_turns_out_to_be_of_another_project_moves_there(library: Library) -> None:
    record_id = library.observe("about the rudder")
    assert library.ids("rudder") == [record_id]
    with db.transaction(library.connection):
        boat = events.find_or_create_project(library.connection, BOAT, "", NOW)
        library.connection.execute("update sessions set project = ?", (boat,))
    assert (library.ids("rudder"), library.ids("rudder", project=BOAT)) == ([], [record_id])


def approve_by_hand(library: Library) -> None:
    """Approve what was written into lessons.json, as `hardwon lessons build` does."""
    decider = open_decider(library.home, library.connection, COMMAND_LINE)
    approve_waiting_changes(decider, find_waiting_changes(library.home))


def test_lessons_are_found_and_read_again_when_the_file_is_edited(library: Library) -> None:
    def write_lessons(*summaries: str) -> None:
        lessons = [
            {
                "id": f"id{at}",
                "slug": f"slug-{at}",
                "summary": text,
                "problem": "it fails",
                "solution": "do not",
                "triggers": {},
            }
            for at, text in enumerate(summaries)
        ]
        with open(os.path.join(library.home, "lessons.json"), "w", encoding="utf-8") as file:
            json.dump({"version": 1, "lessons": lessons}, file)
        approve_by_hand(library)

    write_lessons("umbrellas turn inside out", "keep the anchor dry")
    assert library.ids("umbrella") == ["L:slug-0"]
    assert fetch_records(library.connection, library.home, ["L:slug-0"])[0]["solution"] == "do not"
    write_lessons("parasols are no better")
    assert (library.ids("umbrella"), library.ids("parasol"), library.ids("anchor")) == ([], ["L:slug-0"], [])


def test_many_global_lessons_do_not_hide_records_by_meaning(library: Library) -> None:
    lessons = [
        {
            "id": f"id{at}",
            "slug": f"slug-{at}",
            "summary": "the login token has expired",
            "problem": "the login token",
            "solution": "has expired",
            "triggers": {},
        }
        for at in range(40)
    ]
    with open(os.path.join(library.home, "lessons.json"), "w", encoding="utf-8") as file:
        json.dump({"version": 1, "lessons": lessons}, file)
    approve_by_hand(library)
    record_id, model = library.observe("authentication failed"), vectors.load_model()
    library.refresh(model)
    for project in (KITE, ""):
        assert library.ids("the login token has expired", project=project, model=model, kinds=("O",)) == [record_id]


def test_a_question_after_a_long_log_is_found(library: Library) -> None:
    log = "".join(f"frame{number} at lib/part{number}.py\n" for number in range(1_000))
    long_id, dense_id = (
        library.prompt(f"{log}why does the zeppelin drift"),
        library.prompt(f"{log[:7_000]}who moors the dirigible"),
    )
    assert (library.ids("zeppelin drift")[:1], library.ids("dirigible")[:1]) == ([long_id], [dense_id])
    assert {long_id, dense_id} <= set(library.ids("frame1"))


def test_a_new_index_version_reindexes_records(library: Library) -> None:
    record_id = library.prompt("the zeppelin drifts")
    library.refresh()
    with db.transaction(library.connection):  # as another version would have left it
        documents.write_document(
            library.connection, documents.Document("P", int(record_id[1:]), "", 1, 1, NOW, ("0kp", "airship"))
        )
    assert library.ids("zeppelin") == []
    documents.ensure_index_version(library.connection, "another")
    assert library.ids("zeppelin") == [record_id]


def test_an_interrupted_refresh_continues(library: Library) -> None:
    ids = {library.observe(f"number {number}", session=f"s{number}") for number in range(20)}
    indexing.refresh_index(library.connection, library.home, model=None, should_continue=lambda: False)
    assert library.ids("number", limit=40) != []
    assert set(library.ids("number", limit=40)) == ids
    assert documents.count_backlog(library.connection)[0] == 0


def test_a_frequent_word_finds_the_latest_records(library: Library) -> None:
    ids = library.observe_many([f"deploy the common thing x{number}" for number in range(MANY)])
    hits = library.find("deploying").hits
    assert len(hits) == 10 and {hit.id for hit in hits} <= set(ids[-60:])
    assert {hit.why for hit in hits} == {("words: deploying",)}
    assert set(library.ids("deploy things", until=NOW - 9 * DAY + 5)) == set(ids[:5])
    assert library.find("deploy thing x7").hits[0].title == "deploy the common thing x7"
    assert library.ids("deploy x7", until=NOW - 9 * DAY + 5) == []


def test_frequent_words_find_the_latest_of_each_and_records_with_all(library: Library) -> None:
    titles = [f"{'deploy' if number % 2 else 'revert'} x{number}" for number in range(2 * MANY)]
    id_with_both = library.observe_many([*titles[:3_000], "deploy, then revert", *titles[3_000:]])[3_000]
    first_words = {hit.id: hit.title.split()[0] for hit in library.find("deploy revert").hits}
    assert id_with_both in first_words and set(first_words.values()) == {"deploy,", "deploy", "revert"}


def test_a_query_of_frequent_words_finds_records_with_all_of_them(library: Library) -> None:
    library.observe_many([f"deploy {'server' if number < MANY * 9 // 10 else 'x'} n{number}" for number in range(MANY)])
    library.refresh()
    hits = library.find("deploy server").hits
    assert len(hits) == 10 and all(hit.why == ("words: deploy, server",) for hit in hits)


def test_every_word_of_a_scope_is_counted_in_that_scope_alone(library: Library) -> None:
    library.observe("rare here", session="a")
    for number in range(5):
        library.observe("rare there", project=BOAT, session=f"b{number}")
    library.refresh()
    scope = documents.build_scope(documents.find_project_numbers(library.connection, KITE))
    assert len(documents.find_matches(library.connection, documents.build_match_query(["rare"]), scope, 100)) == 1


def test_a_timeline_shows_neighbouring_records_of_its_project_in_order(library: Library) -> None:
    ids = [library.observe(f"step {number}", type="bugfix" if number % 2 else "change") for number in range(7)]
    library.observe("elsewhere", project=BOAT, session="b")
    library.refresh()
    timeline = build_timeline(
        library.connection, library.home, anchor=ids[3], depth_before=2, depth_after=2, record_type="bugfix", now=NOW
    )
    assert [record["id"] for record in timeline.records] == [ids[1], ids[3], ids[5]]
    timeline = build_timeline(
        library.connection, library.home, query="step 3", depth_before=1, depth_after=1, project=KITE, now=NOW
    )
    assert timeline.anchor == ids[3] and len(timeline.records) == 3
    assert build_timeline(library.connection, library.home, anchor=ids[3], project=BOAT, now=NOW).records == ()


def test_a_timeline_of_a_type_goes_back_as_far_as_there_is_one(library: Library) -> None:
    decision_id = library.observe("keel before mast", type="decision")
    for number in range(250):
        library.observe(f"step {number}", type="change")
    library.refresh()
    timeline = build_timeline(library.connection, library.home, record_type="Decision", project=KITE, now=NOW)
    assert [record["id"] for record in timeline.records] == [decision_id]
    empty_timeline = build_timeline(library.connection, library.home, record_type="decisoin", project=KITE, now=NOW)
    assert empty_timeline.note == "nothing of type 'decisoin' is recorded here"


def test_a_timeline_can_be_anchored_at_an_unindexed_event(library: Library) -> None:
    earlier_id, later_id = library.observe("the keel"), library.observe("the mast")
    library.connection.execute(
        "insert into events select 1, 'e1', session, 'SessionStart', at + 0.5, 1, '', '', '', '', '', '', '', 0, '', null"
        " from observations where id = ?",
        (int(earlier_id[1:]),),
    )
    library.refresh()
    timeline = build_timeline(
        library.connection, library.home, anchor="E1", record_type="discovery", project=KITE, now=NOW
    )
    assert [record["id"] for record in timeline.records] == [earlier_id, "E1", later_id]
    assert build_timeline(library.connection, library.home, anchor="E1", project=BOAT, now=NOW).records == ()


def test_records_are_fetched_in_order_and_missing_ones_are_reported(library: Library) -> None:
    first, second = library.observe("one", facts='["a fact"]'), library.prompt("two")
    records = fetch_records(library.connection, library.home, [second, "O999", first, "rubbish"])
    assert [record["id"] for record in records] == [second, "O999", first, "rubbish"]
    assert records[1]["error"] == "there is no O999" and "not an id" in records[3]["error"]
    assert (records[2]["facts"], records[2]["session"], records[2]["project"]) == (["a fact"], "s1", KITE)


def test_identical_observations_are_shown_once(library: Library) -> None:
    alike = [library.observe("ran the anemometer tests", session=f"s{number}") for number in range(4)]
    other = library.observe("the anemometer tests hang on port 4000")
    hits = library.find("anemometer tests").hits
    (merged_hit,) = (hit for hit in hits if hit.id != other)
    assert len(hits) == 2 and merged_hit.id in alike and merged_hit.alike == 3
    assert [hit.id for hit in library.find(" ".join(alike)).hits] == alike


def test_a_title_has_no_markup_and_ends_with_a_word(library: Library) -> None:
    library.prompt("## Kite\n\nMake the **kite** fly [higher](https://example.test/kite)")
    library.prompt("kite " + "description " * 20, session="s2")
    titles = sorted(hit.title for hit in library.find("kite").hits)
    assert titles == ["Kite Make the kite fly higher", f"kite {'description ' * 9}…"]
