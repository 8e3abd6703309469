"""A user's own SQL: it answers, streams, and can do no harm."""

from __future__ import annotations

import pytest

from sweeper.core.errors import InputError
from sweeper.store.sql import run_sql


@pytest.fixture
def trials(store, example):
    ref = example.study(store, "100%")
    for _ in range(3):
        example.trial(store, ref, params={"path": "value"})


def answer(reader, sql, **options):
    result = run_sql(reader, sql, **options)
    return result.columns, list(result.rows)


def test_a_query_answers_with_columns_and_rows(trials, reader):
    columns, rows = answer(reader, "SELECT number, status FROM trials ORDER BY number;")
    assert columns == ("number", "status")
    assert rows == [(1, "QUEUED"), (2, "QUEUED"), (3, "QUEUED")]


def test_percent_signs_and_colons_are_the_users_own(trials, reader):
    sql = "SELECT name || ':a' AS x FROM studies WHERE name LIKE '100%' -- done"
    assert answer(reader, sql) == (("x",), [("100%:a",)])


def test_no_more_than_max_rows_are_read_of_an_endless_answer(trials, reader):
    endless = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i FROM n"
    assert answer(reader, endless, max_rows=3)[1] == [(1,), (2,), (3,)]


def test_views_are_read_as_tables_are(trials, reader):
    for view in ("trial_results", "pareto_front", "study_objectives", "learning_curves"):
        columns, _ = answer(reader, f"SELECT * FROM {view}")
        assert columns


@pytest.mark.parametrize(
    "sql",
    [
        "INSERT INTO studies (name) VALUES ('x')",
        "UPDATE trials SET number = 9",
        "DELETE FROM trials",
        "DROP TABLE trials",
        "CREATE TABLE mine (a INTEGER)",
        "CREATE TEMP TABLE mine (a INTEGER)",
        "SELECT 1; DELETE FROM trial_params",
        "COMMIT",
        "COMMIT; DELETE FROM trial_params",
        "WITH gone AS (DELETE FROM trial_params RETURNING path) SELECT * FROM gone",
        "SELECT FROM WHERE",
        "SELECT nothing_such FROM trials",
        "",
        "  -- nothing",
        "SELECT '\0'",
        "SELECT '\ud800'",
    ],
)
def test_anything_but_one_select_is_refused_in_one_line(trials, reader, sql):
    with pytest.raises(InputError) as caught:
        answer(reader, sql)
    assert "\n" not in str(caught.value)
    assert answer(reader, "SELECT count(*) FROM trial_params")[1] == [(3,)]


@pytest.mark.parametrize("statement", ["PRAGMA writable_schema = ON", "PRAGMA query_only = OFF"])
def test_sqlite_refuses_pragmas(sqlite_reader, statement):
    with pytest.raises(InputError, match="only one SELECT"):
        answer(sqlite_reader, statement)


def test_sqlite_attaches_no_other_file(sqlite_reader, tmp_path):
    target = tmp_path / "other.db"
    with pytest.raises(InputError, match="only one SELECT"):
        answer(sqlite_reader, f"ATTACH DATABASE '{target}' AS other")
    with pytest.raises(InputError):
        answer(sqlite_reader, f"VACUUM INTO '{target}'")
    assert not target.exists()


def test_sqlite_loads_no_extension(sqlite_reader):
    with pytest.raises(InputError, match="load_extension"):
        answer(sqlite_reader, "SELECT load_extension('/tmp/x.so')")


def test_sqlite_makes_no_value_that_fills_the_memory(sqlite_reader):
    with pytest.raises(InputError, match="too big"):
        answer(sqlite_reader, "SELECT zeroblob(1000000000)")


@pytest.mark.system
@pytest.mark.parametrize(
    "sql",
    [
        "COPY (SELECT 1) TO PROGRAM 'touch {file}'",
        "COPY (SELECT 1) TO '{file}'",
        "SELECT 1; COPY (SELECT 1) TO '{file}'",
        "DO $$ BEGIN COPY (SELECT 1) TO '{file}'; END $$",
        "SET TRANSACTION READ WRITE",
        "EXPLAIN ANALYZE DELETE FROM trials",
        "SELECT set_config('transaction_read_only', 'off', false)",
        "SELECT nextval('studies_study_id_seq')",
        "SELECT * INTO mine FROM trials",
        "SELECT * FROM trials FOR UPDATE",
    ],
)
def test_postgresql_runs_no_command_even_for_a_superuser(postgres_reader, tmp_path, sql):
    target = tmp_path / "written"
    tmp_path.chmod(0o777)
    with pytest.raises(InputError):
        answer(postgres_reader, sql.format(file=target))
    assert not target.exists()


def test_a_query_that_takes_too_long_is_ended(trials, reader):
    slow = (
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 1000000000) "
        "SELECT count(*) FROM n"
    )
    with pytest.raises(InputError, match=r"longer than 0\.2 s"):
        answer(reader, slow, timeout_seconds=0.2)
    assert answer(reader, "SELECT 1 AS one") == (("one",), [(1,)])


def test_an_answer_that_is_not_read_to_its_end_gives_its_connection_back(trials, reader):
    for _ in range(40):  # more than the pool holds
        result = run_sql(reader, "SELECT path FROM trial_params")
        next(result.rows)
        result.rows.close()
    assert reader.pool.checkedout() == 0


def test_the_engine_serves_other_queries_while_an_answer_is_read(trials, reader):
    result = run_sql(reader, "SELECT number FROM trials")
    assert answer(reader, "SELECT count(*) FROM trials")[1] == [(3,)]
    assert len(list(result.rows)) == 3


def test_postgresql_plans_for_the_whole_answer_and_not_for_its_first_rows(postgres_reader):
    _, rows = answer(postgres_reader, "SELECT current_setting('cursor_tuple_fraction')")
    assert rows == [("1",)]
