from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from sweeper.core.errors import InputError
from sweeper.study.cluster import find_cluster

SETTINGS = bytes([0, 0, 6, 4, 0, 0, 0, 0, 0])
"""The head of an HTTP/2 frame of type 4 with one setting: what a gRPC server says first."""


@contextmanager
def server(words: bytes) -> Iterator[str]:
    """Reads a greeting and says `words`; yields its address."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def answer() -> None:
            connection, _ = listener.accept()
            with connection:
                connection.recv(24)
                connection.sendall(words)

        thread = threading.Thread(target=answer)
        thread.start()
        yield f"127.0.0.1:{listener.getsockname()[1]}"
        thread.join()


@pytest.fixture(autouse=True)
def no_cluster_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RAY_ADDRESS", raising=False)


@pytest.mark.parametrize("address", ["auto", "local"])
def test_without_a_name_a_local_ray_is_started(address: str) -> None:
    assert find_cluster(address) is None


def test_who_speaks_http_2_is_a_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    with server(SETTINGS) as address:
        assert find_cluster(address) == address
    with server(SETTINGS) as address:
        assert find_cluster(f"ray://{address}") == f"ray://{address}"
    with server(SETTINGS) as address:
        monkeypatch.setenv("RAY_ADDRESS", address)
        assert find_cluster("auto") == address


@pytest.mark.parametrize("words", [b"HTTP/1.1 400 Bad Request\r\n\r\n", b"hi", b""])
def test_who_speaks_anything_else_is_not(words: bytes) -> None:
    with server(words) as address, pytest.raises(InputError) as refused:
        find_cluster(address)
    assert "no Ray cluster answers at" in str(refused.value)


@pytest.mark.parametrize("address", ["host", "host:port", ":1", "127.0.0.1:99999", "x.invalid:1"])
def test_an_address_that_is_none_is_an_input_error(
    monkeypatch: pytest.MonkeyPatch, address: str
) -> None:
    monkeypatch.setenv("RAY_ADDRESS", address)
    with pytest.raises(InputError, match=f"no Ray cluster answers at RAY_ADDRESS={address}: "):
        find_cluster("auto")


def test_a_local_ray_may_be_named_by_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAY_ADDRESS", "local")
    assert find_cluster("auto") is None
