from __future__ import annotations

import re
import socket
import subprocess
import sys

import pytest

from sweeper.core.errors import InputError
from sweeper.study.names import name_fault
from sweeper.web.app import create_app, serve


def test_dashboard_starts_without_the_training_wing():
    code = (
        "import sys, sweeper.web.app, sweeper.report.render;"
        "print([m for m in ('torch', 'ray', 'optuna', 'gymnasium', 'pandas', 'kaleido')"
        " if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_busy_port_is_named(recorder):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(InputError, match=rf"127\.0\.0\.1:{port}.*in use.*--port"):
            serve(recorder.url, port=port)


def test_host_that_is_not_this_machine_is_named(recorder):
    with pytest.raises(InputError, match=r"192\.0\.2\.1"):
        serve(recorder.url, host="192.0.2.1", port=0, token="x")


def test_no_study_is_called_what_follows_the_name_of_another_in_an_address(recorder):
    paths = create_app(recorder.url).openapi()["paths"]
    tails = [tail for path in paths if (tail := path.partition("/study/{name}/")[2])]
    assert len(tails) > 10
    for tail in tails:
        assert name_fault("a/" + re.sub(r"{\w+}", "7", tail)), tail
