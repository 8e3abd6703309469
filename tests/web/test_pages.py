from __future__ import annotations

import re
from urllib.parse import quote

import pytest

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
    assert "cartpole CartPole-v1 10 s 8 / 16 1 2 trial 2 : final return 500" in page
    (study,) = filled.get("/api/studies").json()
    assert (study["name"], study["status_counts"]["COMPLETED"]) == ("cartpole", 5)


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
    assert record["speed_up"]["baseline_seconds"] > record["speed_up"]["seconds"]


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
    for path in ("/", "/study/cartpole", "/study/cartpole/trial/2", "/hosts", "/query"):
        page = filled.get(path).text
        assert not re.search(r"<style|\sstyle=|\son\w+=|<script(?![^>]*\ssrc=)", page)
