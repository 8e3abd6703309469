from __future__ import annotations

import csv
import io

import httpx
import pytest

from sweeper.core.errors import DatabaseError
from sweeper.web.app import create_app


def test_description_lists_every_twin(filled):
    paths = filled.get("/api").json()["paths"]
    assert {"/api/studies", "/api/hosts", "/api/query", "/api/study/{name}"} <= set(paths)
    assert all(set(operations) == {"get"} for operations in paths.values())


def test_pareto_figure_has_the_chosen_axes_and_theme(filled):
    figure = filled.get(
        "/api/study/cartpole/pareto", params={"x": "core_seconds", "log": "x", "theme": "dark"}
    ).json()
    assert figure["layout"]["xaxis"]["title"]["text"] == "core time (core-seconds)"
    assert figure["layout"]["xaxis"]["type"] == "log"
    assert figure["layout"]["paper_bgcolor"] == "#14181c"
    numbers = {point[0] for trace in figure["data"] for point in trace.get("customdata", ())}
    assert numbers == {1, 2, 3, 4, 5, 6, 7}  # the eighth is running


def test_curve_and_phase_figures(filled):
    seconds = filled.get("/api/study/cartpole/trial/2/curve").json()
    steps = filled.get("/api/study/cartpole/trial/2/curve?x=steps").json()
    assert seconds["layout"]["xaxis"]["title"]["text"] == "training time (s)"
    assert steps["layout"]["xaxis"]["title"]["text"] == "env steps"
    run_id = filled.get("/api/study/cartpole/trial/2").json()["runs"][0]["run_id"]
    phases = filled.get(f"/api/study/cartpole/trial/2/phases/{run_id}").json()
    assert phases["data"][1]["name"] == "env wait 30%"
    assert filled.get("/api/study/cartpole/trial/2/phases/999").status_code == 404


def test_timeline_has_a_bar_a_run(filled):
    figure = filled.get("/api/study/cartpole/timeline").json()
    bars = {t["name"]: [n for (n,) in t["customdata"]] for t in figure["data"]}
    assert bars == {
        "completed (5)": [1, 2, 3, 4, 5],
        "running (1)": [8],
        "ended badly (2)": [6, 7],
    }


def test_anytime_figure_tells_who_leads_after_how_long(filled):
    figure = filled.get("/api/study/cartpole/anytime").json()
    leaders = [number for (number,) in figure["data"][1]["customdata"]]
    assert leaders == [3, 2]  # trial 3 learns at once, trial 2 ends higher


def test_parallel_coordinates_mark_the_front_and_what_the_filter_chose(filled):
    record = filled.get("/api/study/cartpole/parallel", params={"filter": "n_envs>=8"}).json()
    assert [axis["key"] for axis in record["axes"]] == [
        "parallelism.n_envs",
        "final_return",
        "steps_per_second",
    ]
    assert record["axes"][0]["log"] is True
    lines = {line["number"]: line for line in record["lines"]}
    assert {n for n, line in lines.items() if line["front"]} == {2, 3}
    assert {n for n, line in lines.items() if line["chosen"]} == {3, 4, 5}
    assert lines[1]["positions"][0] == 0.0
    assert lines[2]["positions"][0] == pytest.approx(0.4)  # 4 of 1 to 32, on a log axis


def test_importances_are_drawn_once_there_are_any(client, recorder):
    recorder.study()
    figure = client.get("/api/study/cartpole/importances").json()
    assert "Not known yet" in figure["layout"]["annotations"][0]["text"]


def test_curve_of_any_quantity(filled):
    address = "/api/study/cartpole/trial/2/curve"
    figure = filled.get(address, params={"y": "learning_rate"}).json()
    assert figure["layout"]["yaxis"]["title"]["text"] == "learning rate"
    assert filled.get(address, params={"y": "nonsense"}).status_code == 422


def test_whole_study_as_json(filled):
    document = filled.get("/api/study/cartpole/export.json").json()
    assert document["study"]["name"] == "cartpole"
    assert len(document["trials"]) == len(document["runs"]) == 8
    assert document["trials"][1]["config_json"]["parallelism"]["n_envs"] == 4


def test_named_queries_are_offered_and_answered(filled):
    page = filled.get("/query").text
    for question in filled.get("/api/questions").json():
        assert filled.get("/api/query", params={"sql": question["sql"]}).status_code == 200
        assert question["name"] in page


def test_stream_of_all_studies_tells_of_a_new_one(client, recorder):
    with client.stream("GET", "/api/changes", timeout=30) as stream:
        tokens = (line for line in stream.iter_lines() if line.startswith("data: "))
        first = next(tokens)
        recorder.study("another")
        assert next(tokens) != first


def test_change_is_read_without_reading_all_trials_again(client, recorder):
    ref = recorder.study()
    recorder.trial(ref)
    assert client.get("/api/study/cartpole").json()["front"] == [1]
    recorder.trial(ref, 450.0, n_envs=2)
    record = client.get("/api/study/cartpole").json()
    assert (record["front"], record["table"]["n_matching"]) == ([2], 2)


def test_hypervolume_figure(filled):
    figure = filled.get("/api/study/cartpole/hypervolume").json()
    assert figure["layout"]["yaxis"]["title"]["text"] == "hypervolume"


def test_trials_csv_follows_the_filter_and_is_not_rounded(client, recorder):
    ref = recorder.study()
    recorder.trial(ref, 123.456789, 10_000.0)
    recorder.trial(ref, 50.0, 10_000.0, n_envs=2)
    answer = client.get("/api/study/cartpole/trials.csv", params={"filter": "n_envs=8"})
    assert answer.headers["content-type"].startswith("text/csv")
    (row,) = csv.DictReader(io.StringIO(answer.text))
    assert (row["number"], row["final_return"], row["parallelism.n_envs"]) == (
        "1",
        "123.456789",
        "8",
    )


def test_query_page_its_twin_and_its_csv(filled):
    sql = "SELECT number, status, final_return FROM trial_results WHERE number IN (2, 7)"
    page = filled.get("/query", params={"sql": sql})
    assert page.status_code == 200
    assert "2 rows." in page.text
    twin = filled.get("/api/query", params={"sql": sql}).json()
    assert twin["columns"] == ["number", "status", "final_return"]
    assert twin["rows"] == [[2, "COMPLETED", 500.0], [7, "LOST", None]]
    lines = filled.get("/api/query.csv", params={"sql": sql}).text.splitlines()
    assert lines == ["number,status,final_return", "2,COMPLETED,500.0", "7,LOST,"]


def test_query_page_shows_the_schema(client):
    page = client.get("/query").text
    assert "pareto_front" in page
    assert "steps_per_second" in page


@pytest.mark.parametrize(
    "sql",
    [
        "DELETE FROM trials",
        "INSERT INTO studies (name) VALUES ('x')",
        "PRAGMA writable_schema = 1",
        "ATTACH ':memory:' AS other",
        "SELECT 1; SELECT 2",
        "SELEC",
    ],
)
def test_query_that_is_no_single_select_is_refused_in_words(client, recorder, sql):
    recorder.study()
    page = client.get("/query", params={"sql": sql})
    assert page.status_code == 400
    assert 'role="alert"' in page.text
    assert client.get("/api/query", params={"sql": sql}).status_code == 400
    assert client.get("/api/query.csv", params={"sql": sql}).status_code == 400
    assert len(client.get("/api/studies").json()) == 1


def test_long_answer_is_cut_and_says_so(client):
    sql = (
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i FROM n LIMIT 1500"
    )
    assert "The first 1000 rows." in client.get("/query", params={"sql": sql}).text
    assert client.get("/api/query", params={"sql": sql}).json()["truncated"] is True
    assert len(client.get("/api/query.csv", params={"sql": sql}).text.splitlines()) == 1501


@pytest.mark.parametrize(
    ("expression", "in_json", "in_csv"),
    [
        ("x'00ff'", "x'00ff'", "x'00ff'"),
        ("9e999", None, "inf"),
        ("NULL", None, '""'),
        ("'a,<b>'", "a,<b>", '"a,<b>"'),
        ("9223372036854775807", 9223372036854775807, "9223372036854775807"),
    ],
)
def test_any_value_can_be_answered(filled, expression, in_json, in_csv):
    sql = {"sql": f"SELECT {expression} AS value"}
    assert filled.get("/api/query", params=sql).json()["rows"] == [[in_json]]
    assert filled.get("/api/query.csv", params=sql).text.splitlines() == ["value", in_csv]
    page = filled.get("/query", params=sql)
    assert page.status_code == 200
    assert "<b>" not in page.text


@pytest.mark.parametrize("sql", ["", " ", "SELECT '\0'", "SELECT '\ud7ff'", "--", "SELECT ?", "%s"])
def test_odd_sql_is_no_failure_of_the_server(filled, sql):
    for path in ("/query", "/api/query", "/api/query.csv"):
        assert filled.get(path, params={"sql": sql}).status_code in (200, 400)


def test_one_given_axis_is_not_drawn_against_itself(filled):
    figure = filled.get("/api/study/cartpole/pareto?x=final_return").json()
    assert figure["layout"]["yaxis"]["title"]["text"] == "training speed (env steps/s)"


def test_stream_tells_of_a_change(client, recorder):
    ref = recorder.study()
    with client.stream("GET", "/api/study/cartpole/changes", timeout=30) as stream:
        assert stream.headers["content-type"].startswith("text/event-stream")
        tokens = (line for line in stream.iter_lines() if line.startswith("data: "))
        first = next(tokens)
        recorder.trial(ref)
        assert next(tokens) != first


def test_stream_of_an_unknown_study_is_not_found(client):
    assert client.get("/api/study/nothing/changes").status_code == 404


def test_plotly_is_served_from_here_for_ever(client):
    answer = client.get("/static/plotly.min.js")
    assert "immutable" in answer.headers["cache-control"]
    assert "plotly.js v" in answer.text[:100]


def test_missing_database_is_refused_at_the_start(tmp_path):
    path = tmp_path / "nothing.db"
    with pytest.raises(DatabaseError, match=r"nothing\.db"):
        create_app(f"sqlite:///{path}")
    assert not path.exists()


@pytest.mark.system
def test_same_pages_on_postgresql(postgres_url, fill, serve, recorder):
    from sweeper.store.store import Store

    with Store.open(postgres_url, now=lambda: recorder.now) as store:
        recorder.store = store
        fill(recorder)
        with (
            serve(postgres_url) as running,
            httpx.Client(base_url=running.address, timeout=60) as client,
        ):
            for path in ("/", "/study/cartpole", "/study/cartpole/trial/2", "/hosts", "/query"):
                assert client.get(path).status_code == 200
            assert client.get("/study/a%00b").status_code == 404
            assert client.get("/api/study/cartpole").json()["front"] == [2, 3]
            sql = {"sql": "SELECT count(*) FROM trials"}
            assert client.get("/api/query.csv", params=sql).text.split() == ["count", "8"]
