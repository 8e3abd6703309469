from __future__ import annotations

import httpx
import pytest

PAGES = ["/", "/hosts", "/query", "/api/studies", "/static/dashboard.css", "/nothing"]


@pytest.mark.parametrize("path", PAGES)
def test_every_answer_carries_the_security_headers(filled, path):
    headers = filled.get(path).headers
    policy = headers["content-security-policy"]
    assert "default-src 'self'" in policy
    assert "unsafe" not in policy
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["x-frame-options"] == "DENY"
    assert headers["referrer-policy"] == "no-referrer"


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("localhost", 200),
        ("LOCALHOST:80", 200),
        ("127.0.0.1:8321", 200),
        ("[::1]:8321", 200),
        ("attacker.example", 400),
        ("localhost.attacker.example", 400),
        ("", 400),
    ],
)
def test_only_loopback_names_are_answered(filled, host, status):
    answer = filled.get("/", headers={"host": host})
    assert answer.status_code == status
    if status == 400:
        assert "sweeper" not in answer.text
        assert "localhost" in answer.text


def test_configured_name_is_answered_too(recorder, serve):
    with serve(recorder.url, host="Lab-7") as running:
        headers = {"host": "lab-7:8321"}
        assert httpx.get(running.address, headers=headers).status_code == 200


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE", "OPTIONS"])
def test_nothing_but_reading_exists(filled, method):
    answer = filled.request(method, "/query")
    assert answer.status_code == 405
    assert answer.headers["allow"] == "GET, HEAD"


def test_requests_that_other_sites_cause_are_refused(filled):
    cross = {"sec-fetch-site": "cross-site"}
    assert (
        filled.get("/api/studies", headers=cross | {"sec-fetch-mode": "no-cors"}).status_code == 403
    )
    # Following a link from elsewhere is a person's own doing.
    assert filled.get("/", headers=cross | {"sec-fetch-mode": "navigate"}).status_code == 200


class TestToken:
    @pytest.fixture
    def client(self, recorder, serve):
        with (
            serve(recorder.url, token="s3cret", host="0.0.0.0") as running,
            httpx.Client(base_url=running.address) as client,
        ):
            yield client

    @pytest.mark.parametrize("path", [*PAGES, "/?token=wrong", "/?token=", "/?token=s3cret%C3%A9"])
    def test_without_it_nothing_is_shown(self, client, path):
        answer = client.get(path)
        assert answer.status_code == 401
        assert "?token=" in answer.text
        assert "s3cret" not in answer.text

    def test_first_visit_trades_it_for_a_cookie(self, client):
        answer = client.get("/query?token=s3cret&sql=select+1")
        assert answer.status_code == 303
        assert answer.headers["location"] == "/query?sql=select+1"
        cookie = answer.headers["set-cookie"].lower()
        assert "httponly" in cookie
        assert "samesite=strict" in cookie
        assert client.get("/query").status_code == 200

    def test_wrong_cookie_opens_nothing(self, client):
        client.cookies.set("sweeper_token", "s3cre")
        assert client.get("/").status_code == 401

    def test_redirect_stays_on_this_origin(self, client):
        answer = client.get(f"{client.base_url}/evil.example/?token=s3cret")
        assert answer.headers["location"] == "/evil.example/"
