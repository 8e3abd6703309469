"""The watchdog on real processes that hang, and stand-ins for shells that must not die."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from sweeper.trial import watchdog

pytestmark = pytest.mark.system

HANG = """
import ctypes, subprocess, sys
from pathlib import Path
from sweeper.trial.watchdog import Watchdog
watchdog = Watchdog(own_group={own_group}, tied_to={tied_to})
watchdog.note = Path(sys.argv[1])
child = subprocess.Popen(["sleep", "1000"], start_new_session={child_escapes})
print(child.pid, watchdog._process.pid, flush=True)
{before}
ctypes.PyDLL(None).pause()  # in C, with the interpreter's lock held
"""


class Hung:
    """A program that hangs after `before`, in the group of a shell that waits for it."""

    def __init__(
        self,
        folder: Path,
        before: str,
        *,
        own_group: bool,
        escapes: bool,
        tied_to: int | None = None,
    ) -> None:
        program = HANG.format(
            own_group=own_group, child_escapes=escapes, before=before, tied_to=tied_to
        )
        self.note = folder / "note"
        # The shell is the leader of the group, as an interactive one or a script's is.
        self.shell = subprocess.Popen(
            ["sh", "-c", '"$@"; echo "code $?"', "sh", sys.executable, "-c", program, self.note],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
            text=True,
        )
        assert self.shell.stdout is not None
        pids = map(int, self.shell.stdout.readline().split())
        self.child, self.watchdog = map(psutil.Process, pids)
        self.owner = psutil.Process(self.watchdog.ppid())

    def end(self) -> tuple[str, str]:
        """What the shell said at last, and standard error."""
        out, err = self.shell.communicate(timeout=60)
        _, alive = psutil.wait_procs([self.child, self.watchdog], timeout=30)
        for process in alive:
            process.kill()
        assert not alive
        return out, err


@pytest.mark.parametrize("own_group", [True, False])
@pytest.mark.parametrize("escapes", [True, False])
def test_a_hang_in_c_code_is_ended_with_its_children_and_nothing_else(
    tmp_path: Path, own_group: bool, escapes: bool
) -> None:
    hung = Hung(tmp_path, "watchdog.arm(0.1, 'too long')", own_group=own_group, escapes=escapes)
    out, err = hung.end()
    assert out == "code 137\n"  # the shell lives, and sees a SIGKILL
    assert "sweeper: TIMEOUT: too long" in err
    assert hung.note.read_text() == "too long"


def test_a_limit_that_is_replaced_or_disarmed_does_not_strike(tmp_path: Path) -> None:
    before = """
watchdog.arm(1000.0, 'first')
watchdog.disarm()
watchdog.arm(0.1, 'second')
"""
    hung = Hung(tmp_path, before, own_group=True, escapes=False)
    hung.end()
    assert hung.note.read_text() == "second"


@pytest.mark.parametrize("own_group", [True, False])
def test_it_ends_with_its_owner_and_takes_along_what_is_left_of_the_group(
    tmp_path: Path, own_group: bool
) -> None:
    hung = Hung(tmp_path, "", own_group=own_group, escapes=False)
    hung.owner.kill()
    psutil.wait_procs([hung.watchdog], timeout=30)
    if not own_group:
        hung.child.kill()
    hung.end()
    assert not hung.note.exists()


@pytest.mark.parametrize("own_group", [True, False])
def test_it_ends_its_owner_with_the_process_that_it_is_tied_to(
    tmp_path: Path, own_group: bool
) -> None:
    with subprocess.Popen(["sleep", "1000"]) as other:
        hung = Hung(tmp_path, "", own_group=own_group, escapes=True, tied_to=other.pid)
        assert hung.owner.is_running()
        other.kill()
    out, _ = hung.end()
    assert out == "code 137\n"
    assert not hung.note.exists()


def test_an_owner_that_is_tied_to_nobody_is_ended() -> None:
    program = """
import ctypes, subprocess
from sweeper.trial.watchdog import Watchdog
with subprocess.Popen(["true"]) as other:
    pass
watchdog = Watchdog(own_group=True, tied_to=other.pid)
ctypes.PyDLL(None).pause()
"""
    done = subprocess.run([sys.executable, "-c", program], check=False, timeout=60)
    assert done.returncode == -signal.SIGKILL


def test_an_owner_that_closes_it_lives_on() -> None:
    program = """
import os
from sweeper.trial.watchdog import Watchdog
watchdog = Watchdog(own_group=True)
assert os.getpgrp() == os.getpid()
watchdog.arm(1000.0, "too long")
watchdog.close()
watchdog.close()
assert watchdog._process.returncode == 0
print("alive")
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout == "alive\n"


def test_a_watchdog_that_was_killed_is_replaced(tmp_path: Path) -> None:
    before = """
watchdog._process.kill()
watchdog._process.wait()
watchdog.arm(0.1, 'too long')
"""
    hung = Hung(tmp_path, before, own_group=True, escapes=False)
    out, _ = hung.end()
    assert out == "code 137\n"
    assert hung.note.read_text() == "too long"


def test_a_hung_trial_of_the_command_line_is_ended_and_its_shell_lives(tmp_path: Path) -> None:
    study = tmp_path / "trial.yaml"
    study.write_text("""
trial:
  env: {make: "worlds:Hanging"}
  algorithm: {kind: ppo, n_steps: 8, n_minibatches: 2}
  parallelism: {vec_env: serial, n_envs: 2}
  budget: {seconds: 1}
  limits: {grace_seconds: 1}
""")
    command = str(Path(sys.executable).parent / "sweeper")
    done = subprocess.run(
        ["sh", "-c", '"$@"; echo "code $?"', "sh", command, "run", str(study)],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    assert done.stdout.endswith("code 137\n")
    assert '"event": "result"' not in done.stdout
    assert "sweeper: TIMEOUT: training did not end within limits.grace_seconds" in done.stderr


def test_it_imports_nothing_that_takes_long() -> None:
    program = (
        "import sys; before = {*sys.modules}; "
        f"exec(open({str(watchdog._PROGRAM)!r}).read(), {{'__name__': 'program'}}); "
        "print(*sorted({*sys.modules} - before))"
    )
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", program], capture_output=True, text=True, check=True
    )
    heavy = {"signal", "enum", "re", "subprocess", "typing", "numpy", "torch"}
    assert not heavy & set(done.stdout.split())
