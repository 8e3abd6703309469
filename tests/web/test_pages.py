from __future__ import annotations

import re
from dataclasses import replace
from urllib.parse import quote

import pytest
from web.conftest import HOST

HOSTILE = "<script>alert('a/b')</script> & \"quoted\" %2F?#"


def text_of(html: str) -> str:
    return " ".join(re.sub(r"<[^>]+>", " ", html).split())


def test_empty_database_says_what_to_do(client):
    page = client.get("/")
    assert page.status_code == 200
    assert "no study yet" in page.text
    assert "sweeper launch" in page.text
    assert client.get("/api/studies").json() == []
    assert "No run has named its host" in client.get("/hosts").text


def test_studies_page_and_its_twin(filled):
    page = text_of(filled.get("/").text)
    assert "cartpole running CartPole-v1 10 s 7 / 16 1 2 trial 2 : final return 500" in page
    assert "1 study, 1 running now." in page
    (row,) = filled.get("/api/studies").json()
    study = row["study"]
    assert (study["name"], study["status_counts"]["COMPLETED"]) == ("cartpole", 5)
    assert (row["state"], row["front"], row["best"]["number"]) == ("running", [2, 3], 2)


def test_dead_launcher_is_shown_as_such_and_what_it_left(client, recorder):
    ref = recorder.study()
    recorder.start(ref)
    recorder.hold(ref, pid=2**22 - 1)  # beyond any process of this host
    assert "its launcher died" in client.get("/").text
    record = client.get("/api/study/cartpole").json()
    assert record["state"] == "its launcher died"
    assert (record["progress"]["running"], record["progress"]["abandoned"]) == (0, 1)
    page = client.get("/study/cartpole").text
    assert "Type <code>sweeper launch</code>" in page
    assert "left unfinished" in page
    recorder.hold(ref)
    assert client.get("/api/study/cartpole").json()["state"] == "running"


def test_finished_and_stopped_studies_are_told_apart(client, recorder):
    done, stopped = recorder.study("done", target=1), recorder.study("stopped", target=2)
    recorder.trial(done)
    recorder.trial(stopped)
    states = {row["study"]["name"]: row["state"] for row in client.get("/api/studies").json()}
    assert states == {"done": "finished", "stopped": "stopped"}


def test_study_page_and_its_twin(filled):
    page = filled.get("/study/cartpole").text
    record = filled.get("/api/study/cartpole").json()
    assert record["front"] == [2, 3]
    assert record["headline"] in page
    assert record["progress"]["finished"] == 7
    assert record["progress"]["running"] == 1
    assert record["progress"]["others"] == [["diverged", 1], ["lost", 1]]
    assert [trial["number"] for trial in record["table"]["trials"]] == [2, 3, 1, 4, 5, 6, 7, 8]
    assert re.findall(r'<tr data-number="(\d+)"', page) == list("23145678")
    assert "× </span> diverged" in page.replace("×</span>", "× </span>")
    assert "NaN in the loss at update 12" in page


def test_headline_is_the_speed_up_at_equal_return(filled):
    record = filled.get("/api/study/cartpole").json()
    # Time constants of 10 s / 4 and 1 s / 4: trial 3 is soonest as good as the baseline.
    assert record["best"]["number"] == 3
    assert record["headline"].startswith("As good as the baseline in 1/")
    assert record["headline"].endswith("(1 tuning seed, so without an interval)")
    assert record["evidence"].startswith("Trial 3 reaches a training return of ")
    assert record["speed_up"]["baseline_seconds"] > record["speed_up"]["seconds"]


def test_headline_has_its_interval_and_prefers_seeds_the_search_has_not_seen(client, recorder):
    ref = recorder.study()
    baseline = recorder.trial(ref, 300.0, 9_000.0, origin="baseline", learning_seconds=10.0)
    recorder.again(baseline, 300.0, 9_000.0, seed=1, learning_seconds=11.0)
    lucky = recorder.trial(ref, 350.0, 24_000.0, n_envs=16, learning_seconds=0.2)
    tested = recorder.trial(ref, 400.0, 12_000.0, n_envs=4, learning_seconds=2.0)
    for seed, seconds in enumerate((1.0, 2.0, 3.0)):
        recorder.again(
            tested, 400.0, 12_000.0, seed=seed, seed_kind="test", learning_seconds=seconds
        )
    record = client.get("/api/study/cartpole").json()
    assert record["best"]["number"] == tested != lucky
    found = record["speed_up"]
    assert found["n_runs"] == 3
    assert found["low"] < found["ratio"] < found["high"]
    assert record["headline"].endswith(", 3 test seeds)")


def test_trial_with_several_seeds_has_intervals_in_the_table_and_a_chance(client, recorder):
    ref = recorder.study()
    number = recorder.trial(ref, 400.0, 10_000.0)
    recorder.again(number, 480.0, 12_000.0, seed=8)
    recorder.trial(ref, 430.0, 10_900.0, n_envs=2)
    record = client.get("/api/study/cartpole").json()
    interval = record["intervals"][f"{number}"]["final_return"]
    assert (interval["low"], interval["value"], interval["high"]) == (400.0, 440.0, 480.0)
    assert "400 to 480" in client.get("/study/cartpole").text
    figure = client.get("/api/study/cartpole/pareto").text
    assert "P(non-dominated)" in figure


def test_diagnosis_of_the_study_counts_bottlenecks_and_leads_to_the_trials(client, recorder):
    ref = recorder.study()
    for bottleneck in ("learner", "learner", "per-call overhead"):
        recorder.trial(ref, bottleneck=bottleneck)
    record = client.get("/api/study/cartpole").json()
    assert [(row["bottleneck"], row["n_trials"]) for row in record["limits"]] == [
        ("learner", 2),
        ("per-call overhead", 1),
    ]
    page = client.get("/study/cartpole").text
    assert "What limits the trials: learner 67% , per-call overhead 33%" in text_of(page)
    found = client.get("/api/study/cartpole", params={"filter": "bottleneck=per-call_overhead"})
    assert [t["number"] for t in found.json()["table"]["trials"]] == [3]


def test_trial_page_says_what_limited_it_and_one_change_to_try(client, recorder):
    advice = "smaller parallelism.n_envs x algorithm.n_steps than 8 x 64"
    number = recorder.trial(recorder.study(), bottleneck="too_coarse", advice=advice)
    page = text_of(client.get(f"/study/cartpole/trial/{number}").text)
    assert f"Limited by: too coarse . Try: {advice}" in page
    assert "Bottleneck:" not in page  # of each run, where there are several
    recorder.again(number, 400.0, 10_000.0, seed=8, bottleneck="learner", advice="fewer epochs")
    page = text_of(client.get(f"/study/cartpole/trial/{number}").text)
    assert "Limited by: learner . Try: fewer epochs" in page  # the last run's
    assert f"Bottleneck: too coarse . Try {advice}." in page
    assert "Bottleneck: learner . Try fewer epochs." in page
    trial = client.get(f"/api/study/cartpole/trial/{number}").json()["trial"]
    assert (trial["bottleneck"], trial["advice"]) == ("learner", "fewer epochs")


def test_a_trial_that_is_no_better_than_untrained_says_so(client, recorder):
    study = recorder.study()
    number = recorder.trial(study, 20.0)
    assert "untrained policy" not in text_of(client.get("/study/cartpole").text)
    recorder.store.note_untrained_return(study, 22.25)
    recorder.store.judge_trial(
        study.study_id,
        recorder._added[number].trial_id,
        feasible=False,
        violations={"updates.min": -90.0, "final_return.untrained": 2.25},
    )
    assert "untrained policy 22.2" in text_of(client.get("/study/cartpole").text)
    words = (
        "It may not stand on the front. "
        "Its final return of 20 does not beat the untrained policy's 22.2."
    )
    page = client.get(f"/study/cartpole/trial/{number}").text
    assert words in text_of(page).replace("&#39;", "'")
    twin = client.get(f"/api/study/cartpole/trial/{number}").json()
    assert twin["shortfalls"] == [words.partition("front. ")[2]]


def test_curves_of_test_seeds_are_named_as_such(client, recorder):
    number = recorder.trial(recorder.study())
    recorder.again(number, 400.0, 10_000.0, seed=99, seed_kind="test")
    figure = client.get(f"/api/study/cartpole/trial/{number}/curve").json()
    assert [trace["name"] for trace in figure["data"]] == ["seed 7", "test seed 99"]


def test_columns_can_be_chosen(filled):
    page = filled.get("/study/cartpole", params={"columns": "updates,final_return,batch_size"}).text
    heads = re.findall(r'title="([\w.]+)">', page.partition("<thead>")[2].partition("</thead>")[0])
    assert heads == ["number", "status", "final_return", "updates", "batch_size"]
    assert 'data-column="updates" checked' in page
    assert "did you mean" in filled.get("/study/cartpole", params={"columns": "update"}).text


def test_study_whose_trials_were_all_disturbed_says_so(client, recorder):
    ref = recorder.study()
    recorder.trial(ref)
    with recorder.store._transaction() as connection:
        connection.exec_driver_sql("UPDATE runs SET contended = 1")
    headline = client.get("/api/study/cartpole").json()["headline"]
    assert headline.startswith("1 configuration of 1 on the front")
    assert "disturbed every trial" in headline
    assert "contended" in client.get("/study/cartpole").text


def test_study_that_compares_different_hardware_says_so(client, recorder):
    ref = recorder.study()
    recorder.trial(ref)
    recorder.trial(ref, n_envs=16)
    assert client.get("/api/study/cartpole").json()["hardware"] == ""
    other = recorder.store.record_host(replace(HOST, hardware_class="Xeon x 2"))
    with recorder.store._transaction() as connection:
        connection.exec_driver_sql(f"UPDATE runs SET host_id = {other} WHERE trial_id = 2")
    recorder.trial(ref)
    said = client.get("/api/study/cartpole").json()["hardware"]
    assert "2 on EPYC x 2, 1 on Xeon x 2" in said
    assert said[1:] in client.get("/study/cartpole").text


def test_headline_compares_with_the_baseline_on_its_own_hardware_only(client, recorder):
    ref = recorder.study()
    recorder.trial(ref, 300.0, 9_000.0, origin="baseline", learning_seconds=10.0)
    near = recorder.trial(ref, 350.0, 12_000.0, n_envs=4, learning_seconds=2.0)
    other = replace(HOST, hardware_class="Xeon x 2")
    recorder.trial(ref, 400.0, 50_000.0, n_envs=16, host=other, learning_seconds=0.1)
    record = client.get("/api/study/cartpole").json()
    assert record["best"]["number"] == near
    assert "both on EPYC x 2. 1 trial was not compared with the baseline" in record["evidence"]
    assert record["evidence"] in client.get("/study/cartpole").text


def test_events_are_listed_with_their_trials(client, recorder):
    ref = recorder.study()
    trial, _ = recorder.start(ref)
    recorder.store.add_event("lost", study_id=ref.study_id, trial_id=trial.trial_id, detail="gone")
    page = text_of(client.get("/study/cartpole").text)
    assert "lost 1 gone" in page


def test_compare_page_and_its_twin(filled):
    page = filled.get("/study/cartpole/compare?trials=2,3").text
    twin = filled.get("/api/study/cartpole/compare?trials=2,3").json()
    assert [trial["number"] for trial in twin["trials"]] == [2, 3]
    assert twin["headline"] in page
    assert twin["headline"].startswith("Trial 2 has the best final return, 500; trial 3 has")
    differing = {row["path"]: row["values"] for row in twin["differences"]}
    assert differing == {"parallelism.n_envs": ["4", "16"]}
    returns = next(row for row in twin["measured"] if row["metric"] == "final_return")
    assert (returns["values"], returns["best"]) == (["500", "350"], [True, False])
    for path in ("curves", "phases"):
        figure = filled.get(f"/api/study/cartpole/compare/{path}?trials=2&trials=3").json()
        assert figure["data"]


@pytest.mark.parametrize(
    ("trials", "status", "words"),
    [
        ("2", 400, "two to 6 trials can be compared, 1 were given"),
        ("1,2,3,4,5,6,7", 400, "two to 6"),
        ("2,99", 404, "no trial 99"),
        ("2,x", 422, "trials"),
    ],
)
def test_comparison_that_makes_no_sense_is_explained(filled, trials, status, words):
    for prefix in ("", "/api"):
        answer = filled.get(f"{prefix}/study/cartpole/compare?trials={trials}")
        assert answer.status_code == status
        assert words in answer.text


def test_documentation_of_the_api_lists_every_address_and_needs_nothing_else(filled):
    page = filled.get("/api/docs").text
    for path in filled.get("/api").json()["paths"]:
        assert f"GET {path}<" in page
    assert not re.search(r'(src|href)="https?:', page)


def test_headline_without_a_baseline_names_the_front(client, recorder):
    ref = recorder.study()
    recorder.trial(ref, 500.0, 12_345.0)
    assert client.get("/api/study/cartpole").json()["headline"] == (
        "1 configuration of 1 on the front; trial 1 leads it: final return 500, "
        "training speed 12,300 env steps/s"
    )


def test_study_without_trials_has_words_and_a_next_step(client, recorder):
    recorder.study()
    page = client.get("/study/cartpole").text
    assert "No trial has been asked for yet" in page
    assert "sweeper launch" in page


def test_address_holds_the_whole_state_of_the_page(filled):
    state = {
        "x": "core_seconds",
        "y": "final_return",
        "log": ["x"],
        "filter": "n_envs<=8",
        "sort": "-number",
        "box": "0,20,250,600",
    }
    page = filled.get("/study/cartpole", params=state).text
    assert '<option value="core_seconds" selected>core time' in page
    assert 'value="n_envs&lt;=8"' in page
    assert re.findall(r'<tr data-number="(\d+)"', page) == ["2", "1"]
    assert "clear the brush" in page
    assert "log=x" in page


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ("x=nonsense", "x: must be one of final_return"),
        ("log=z", "log: Input should be"),
        ("box=1,2,3", "box: "),
        ("box=1,2,3,e", "box: "),
        ("page=0", "page: "),
    ],
)
def test_address_that_makes_no_sense_is_explained(client, recorder, query, words):
    recorder.study()
    page = client.get(f"/study/cartpole?{query}")
    assert page.status_code == 422
    assert words in page.text
    assert words in client.get(f"/api/study/cartpole?{query}").json()["detail"]


def test_trial_page_and_its_twin(filled):
    page = filled.get("/study/cartpole/trial/2").text
    record = filled.get("/api/study/cartpole/trial/2").json()
    assert record["on_front"] is True
    assert record["headline"] == "final return 500, training speed 12,000 env steps/s"
    assert record["headline"] in page
    assert record["config_yaml"].startswith("# study: cartpole\n# trial: 2 ")
    assert "n_envs: 4" in page
    assert record["command"] == (
        "sweeper export cartpole --trial 2 > trial-2.yaml && sweeper run trial-2.yaml"
    )
    deterministic, stochastic = record["evaluations"]
    assert deterministic["interval"]["value"] == 498.0
    assert (deterministic["n_truncated"], stochastic["deterministic"]) == (1, False)
    assert "412 MB" in page


def test_trial_that_failed_says_why(filled):
    page = filled.get("/study/cartpole/trial/6").text
    assert "diverged: NaN in the loss at update 12" in page
    assert "Nothing has been measured yet" in filled.get("/study/cartpole/trial/8").text


def test_hosts_page_and_its_twin(filled):
    assert "node-1 EPYC x 2 AMD EPYC 2 16 GB" in text_of(filled.get("/hosts").text)
    (host,) = filled.get("/api/hosts").json()
    assert host["memory_bytes"] == 16_000_000_000


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("/study/cartpol", "there is no study 'cartpol'; did you mean 'cartpole'?"),
        ("/study/a%00b", "there is no study"),
        ("/study/cartpole/trial/99", "the study has no trial 99; it has 1 to 8"),
    ],
)
def test_unknown_study_or_trial_is_a_page_of_words(filled, path, words):
    page = filled.get(path)
    assert page.status_code == 404
    assert words in page.text.replace("&#39;", "'")
    twin = filled.get(f"/api{path}")
    assert twin.status_code == 404
    assert words in twin.json()["detail"]


def test_unknown_page_leads_back(client):
    page = client.get("/nothing")
    assert page.status_code == 404
    assert 'href="/"' in page.text


def test_hostile_name_is_escaped_and_found_everywhere(client, recorder, fill):
    fill(recorder, HOSTILE)
    link = re.search(r'href="(/study/[^"]+)"', client.get("/").text)[1]
    assert link == f"/study/{quote(HOSTILE, safe='')}"
    for path in (link, f"{link}/trial/1"):
        page = client.get(path)
        assert page.status_code == 200
        assert "<script>alert" not in page.text
        assert "&lt;script&gt;alert" in page.text
        assert client.get(f"/api{path}").json()["study"]["name"] == HOSTILE
        for address in re.findall(r'data-figure="([^"]+)"', page.text):
            assert client.get(address).status_code == 200
    assert "<script>alert" not in client.get("/study/%3Cscript%3Ealert").text


def test_no_page_holds_inline_script_or_style(filled):
    compare = "/study/cartpole/compare?trials=1,2"
    trial = "/study/cartpole/trial/2"
    for path in ("/", "/study/cartpole", trial, compare, "/hosts", "/query", "/api/docs"):
        page = filled.get(path).text
        assert not re.search(r"<style|\sstyle=|\son\w+=|<script(?![^>]*\ssrc=)", page)
