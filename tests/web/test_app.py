from __future__ import annotations

import socket
import subprocess
import sys

import pytest

from sweeper.core.errors import InputError
from sweeper.web.app import serve


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
