"""Trials on Ray: the only import of ray.

A worker is an actor that runs one trial after another, so that torch is imported once and
not once a trial. Its CPUs are Ray's bookkeeping; the trial itself leases and pins the real
ones. Ray restarts and retries nothing: a lost run is a row with a reason, and trying again is
the launcher's decision.
"""

from __future__ import annotations

import logging
import os
import sys
import tempfile
import time
import uuid
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import ray
from ray.exceptions import GetTimeoutError, OutOfMemoryError, RayError
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from sweeper.core.clock import StopSignal
from sweeper.core.errors import InputError, SweeperError
from sweeper.core.records import Evaluation, Measurement, RunResult, RunStatus, TrialEvent
from sweeper.study.executor import RunEvent, lost_result
from sweeper.study.reaper import FILE, Mark, marking, start_reaper
from sweeper.trial.cores import usable_cores
from sweeper.trial.run import run_trial
from sweeper.trial.spec import TrialSpec
from sweeper.trial.watchdog import Watchdog

SINGLE_THREADED = dict.fromkeys(
    ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMEXPR_NUM_THREADS"), "1"
)
"""Set before a worker's libraries load; a trial raises its own count to `torch_threads`."""
SEND_SECONDS = 1.0
"""Measurements travel together, so often: what carries them uses the cores that are measured."""
NOTE_SECONDS = 20.0
"""For asking the node of a lost worker whether the watchdog killed it."""
NODE_SECONDS = 5.0
"""While nothing happens, how often to see whether there is a node left."""


class ClusterLostError(SweeperError):
    """No node of the Ray cluster is left."""


class _TrialWorker:
    """Runs trials on one thread while another takes the word to stop."""

    def __init__(self, import_path: list[str]) -> None:
        """import_path: the launcher's; what a study names by dotted path is found by it."""
        sys.path.extend(path for path in import_path if path not in sys.path)
        # By run, since the word may come before its run begins, or after it has ended.
        self._stops: defaultdict[int, StopSignal] = defaultdict(StopSignal)
        self._watchdog = Watchdog(own_group=True)

    def run(self, run_id: int, spec: TrialSpec, note: str) -> Iterator[list[TrialEvent]]:
        self._watchdog.note = Path(note)
        try:
            unsent: list[TrialEvent] = []
            quiet_until = 0.0  # the first measurement shows at once that all goes well
            for event in run_trial(spec, stop=self._stops[run_id], watchdog=self._watchdog):
                unsent.append(event)
                may_wait = isinstance(event, Measurement | Evaluation)
                if may_wait and time.monotonic() < quiet_until:
                    continue
                yield unsent
                unsent = []
                if may_wait:
                    quiet_until = time.monotonic() + SEND_SECONDS
        finally:
            del self._stops[run_id]

    def stop(self, run_id: int) -> None:
        self._stops[run_id].requested = True

    def prune(self, run_id: int, reason: str) -> None:
        stop = self._stops[run_id]
        stop.requested, stop.pruned = True, reason

    def pid(self) -> int:
        return os.getpid()

    def node(self) -> str:
        return str(ray.get_runtime_context().get_node_id())


_TRIAL_WORKER = ray.remote(max_restarts=0, max_task_retries=0, max_concurrency=2)(_TrialWorker)


@dataclass(slots=True)
class _Running:
    run_id: int
    cores: int
    worker: Any
    stream: Any
    """ObjectRefGenerator of the trial's events."""
    node: Any
    """ObjectRef of the id of the node that it runs on."""
    note: str
    """Where, on that node, the watchdog says why it ended the trial."""


class RayExecutor:
    """Trials on the workers of a Ray cluster, or of a local Ray that starts here.

    Raises InputError when the address cannot be joined, and from `events` ClusterLostError
    once all of its nodes are dead.
    """

    def __init__(self, address: str = "local") -> None:
        mark = Mark.mine()
        self._reaper = start_reaper(mark)
        _connect(address, mark)
        sizes = [int(n["Resources"].get("CPU", 0)) for n in ray.nodes() if n["Alive"]]
        self.total_cores, self.largest_node_cores = sum(sizes), max(sizes)
        self._free_cores = self.total_cores
        self._idle: dict[int, list[Any]] = defaultdict(list)
        self._running: list[_Running] = []
        self._nodes_seen_at = time.monotonic()

    def fits(self, spec: TrialSpec) -> bool:
        """See Executor."""
        cores = spec.parallelism.cores
        idle = sum(size * len(workers) for size, workers in self._idle.items())
        return cores <= self._free_cores + idle

    def submit(self, run_id: int, spec: TrialSpec) -> None:
        """See Executor."""
        cores = spec.parallelism.cores
        worker = self._idle[cores].pop() if self._idle[cores] else self._make_room(cores)
        node = worker.node.remote()
        note = str(Path(tempfile.gettempdir()) / f"sweeper-timeout-{uuid.uuid4().hex}")
        stream = worker.run.options(num_returns="streaming").remote(run_id, spec, note)
        self._running.append(_Running(run_id, cores, worker, stream, node, note))

    def events(self, timeout_seconds: float) -> list[RunEvent]:
        """See Executor."""
        if not self._running:
            return []
        by_stream = {running.stream: running for running in self._running}
        ready, _ = ray.wait(
            list(by_stream), num_returns=1, timeout=timeout_seconds, fetch_local=False
        )
        events: list[RunEvent] = []
        if not ready:
            self._look_for_nodes()
        while ready:
            for stream in ready:
                events += self._next(by_stream[stream])
            alive = [running.stream for running in self._running]
            if not alive:
                break
            ready, _ = ray.wait(alive, num_returns=len(alive), timeout=0, fetch_local=False)
        return events

    def stop(self) -> None:
        """See Executor."""
        for running in self._running:
            running.worker.stop.remote(running.run_id)

    def prune(self, run_id: int, reason: str) -> None:
        """See Executor."""
        for running in self._running:
            if running.run_id == run_id:
                running.worker.prune.remote(run_id, reason)

    def worker_pids(self) -> list[int]:
        """Processes of the workers that run a trial now."""
        pids: list[int] = ray.get([running.worker.pid.remote() for running in self._running])
        return pids

    def close(self) -> None:
        """See Executor."""
        busy = [running.worker for running in self._running]
        for worker in chain(busy, *self._idle.values()):
            ray.kill(worker, no_restart=True)
        self._running.clear()
        self._idle.clear()
        ray.shutdown()
        assert self._reaper.stdin is not None
        self._reaper.stdin.close()
        self._reaper.wait()

    def _look_for_nodes(self) -> None:
        """A worker that is yet to start would otherwise be waited for, with no node to start on."""
        now = time.monotonic()
        if now - self._nodes_seen_at < NODE_SECONDS:
            return
        self._nodes_seen_at = now
        if not any(node["Alive"] for node in ray.nodes()):
            raise ClusterLostError("Ray has died under the study; launch again to continue it")

    def _next(self, running: _Running) -> list[RunEvent]:
        try:
            sent: list[TrialEvent] = ray.get(next(running.stream))
        except OutOfMemoryError as error:
            return [self._lost(running, RunStatus.OOM, error)]
        except RayError as error:
            return [self._lost(running, RunStatus.LOST, error)]
        except StopIteration:
            silence = RuntimeError("it ended without a result")
            return [self._lost(running, RunStatus.LOST, silence)]
        if isinstance(sent[-1], RunResult):
            self._running.remove(running)
            self._idle[running.cores].append(running.worker)
        return [RunEvent(running.run_id, event) for event in sent]

    def _lost(self, running: _Running, status: RunStatus, error: Exception) -> RunEvent:
        self._running.remove(running)
        ray.kill(running.worker, no_restart=True)
        self._free_cores += running.cores
        if (timeout := _watchdogs_word(running)) is not None:
            return RunEvent(running.run_id, lost_result(RunStatus.TIMEOUT, timeout))
        reason = f"the worker was lost: {type(error).__name__}: {str(error).splitlines()[0]}"
        return RunEvent(running.run_id, lost_result(status, reason))

    def _make_room(self, cores: int) -> Any:
        """A new worker, ending idle ones of other sizes if their cores are needed."""
        for size, workers in self._idle.items():
            while self._free_cores < cores and workers:
                ray.kill(workers.pop(), no_restart=True)
                self._free_cores += size
        return self._new_worker(cores)

    def _new_worker(self, cores: int) -> Any:
        self._free_cores -= cores
        return _TRIAL_WORKER.options(num_cpus=cores).remote(sys.path)


def _watchdogs_word(running: _Running) -> str | None:
    """Why the trial's watchdog killed its worker; None if it was not the watchdog."""
    try:
        node = ray.get(running.node, timeout=NOTE_SECONDS)
        if node == ray.get_runtime_context().get_node_id():
            return _take_note(running.note)
        there = NodeAffinitySchedulingStrategy(node, soft=False)
        task = ray.remote(num_cpus=0, max_retries=0, scheduling_strategy=there)(_take_note)
        word: str | None = ray.get(task.remote(running.note), timeout=NOTE_SECONDS)
    except (RayError, GetTimeoutError):  # the node is gone as well
        return None
    return word


def _take_note(path: str) -> str | None:
    note = Path(path)
    try:
        text = note.read_text(encoding="utf-8")
    except FileNotFoundError:
        return None
    note.unlink()
    return text


def _connect(address: str, mark: Mark) -> None:
    """Join the cluster at `address`, or start a Ray of our own for `local`."""
    if address == "auto":
        # Ray's own `auto` joins any Ray of this machine: another launcher's, which ends with it.
        address = os.environ.get("RAY_ADDRESS") or "local"
    # Both are read by Ray's own processes: no metrics agent on a laptop, no usage report.
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    common: dict[str, Any] = {
        "logging_level": logging.ERROR,
        "log_to_driver": False,
        "runtime_env": {"env_vars": SINGLE_THREADED},
        "namespace": f"sweeper-{os.getpid()}-{time.time_ns()}",
    }
    if address != "local":
        try:
            ray.init(address=address, **common)
            return
        except ConnectionError as error:
            raise InputError(f"ray: no cluster answers at {address!r}: {error}") from error
    with marking(mark):
        context = ray.init(
            address="local", num_cpus=len(usable_cores()), include_dashboard=False, **common
        )
    Path(context.address_info["session_dir"], FILE).write_text(str(mark), encoding="utf-8")
