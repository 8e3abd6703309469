"""Trials on Ray: the only import of ray.

A worker is an actor (`TrialWorker`) that runs one trial after another. It is placed by us, on a
node of the `Fleet`. Its CPUs and memory are Ray's bookkeeping, by which launchers share a cluster,
and the trial itself leases and pins the real cores; its GPUs are those that Ray gives it, and it
sees no others. Ray restarts and retries nothing: a lost run is a row with a reason, and trying
again is the launcher's decision.
"""

from __future__ import annotations

import logging
import os
import sys
import tempfile
import time
import uuid
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import ray
from ray.exceptions import (
    GetTimeoutError,
    LocalRayletDiedError,
    NodeDiedError,
    OutOfMemoryError,
    RayError,
    TaskUnschedulableError,
)
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from sweeper.core.errors import InputError
from sweeper.core.records import HostRecord, RunResult, RunStatus, TrainingStarted, TrialEvent
from sweeper.study.compatible import differences
from sweeper.study.executor import ClusterLostError, LabelsError, Notice, RunEvent, lost_result
from sweeper.study.fleet import Fleet, Node
from sweeper.study.reaper import FILE, Mark, marking, start_reaper
from sweeper.study.resources import Hold, Need, Resources, need_of
from sweeper.study.trial_worker import TrialWorker, introduce, take_note
from sweeper.trial.cores import usable_cores
from sweeper.trial.host import this_host
from sweeper.trial.spec import TrialSpec

SINGLE_THREADED = dict.fromkeys(
    ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMEXPR_NUM_THREADS"), "1"
)
"""Set before a worker's libraries load; a trial raises its own count to `torch_threads`."""
NO_OTHER_GPUS = {"RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "1"}
"""Has Ray hide all GPUs from who reserves none: it would use, or measure, those of another."""
NOTE_SECONDS = 20.0
"""For asking the node of a lost worker whether the watchdog killed it."""
NODE_SECONDS = 5.0
"""How often to see which nodes there are."""
JOIN_SECONDS = 60.0
"""For all nodes to introduce themselves; who takes longer joins later."""
FIRST_SECONDS = 600.0
"""For the first, where none has: what `ray.pip` names may have to be installed."""


_TRIAL_WORKER = ray.remote(max_restarts=0, max_task_retries=0, max_concurrency=2)(TrialWorker)
_JOIN_HINT = "; if it asks for a token, set RAY_AUTH_MODE=token here as well"
"""`ray start --head` asks for one by itself where an earlier Ray has left one (since Ray 2.59);
who joins by address sends none unasked, and is not told why it is refused."""
_INTRODUCE = ray.remote(num_cpus=0, max_retries=0)(introduce)


class _Worker(NamedTuple):
    actor: Any
    hold: Hold
    """What it keeps of its node, also between two trials."""


@dataclass(slots=True)
class _Running:
    run_id: int
    node: Node
    worker: _Worker
    stream: Any
    """ObjectRefGenerator of the trial's events."""
    note: str
    """Where, on that node, the watchdog says why it ended the trial."""
    has_begun: bool = False
    """Whether its training has."""


class RayExecutor:
    """Trials on the workers of a Ray cluster, or of a local Ray that starts here.

    Raises InputError when the address cannot be joined or no node there can run trials, LabelsError
    when none has the labels, and from `events` ClusterLostError once all of its nodes are dead.
    """

    def __init__(
        self,
        address: str = "local",
        *,
        labels: Mapping[str, str] | None = None,
        memory_bytes: float | None = None,
        runtime_env: Mapping[str, Any] | None = None,
    ) -> None:
        """labels: of the nodes of a cluster that may have trials. memory_bytes: that each trial
        reserves. runtime_env: what the nodes of a cluster are given, in Ray's words."""
        self._labels = dict(labels or {})
        self._memory_bytes = memory_bytes
        mark = Mark.mine()
        self._reaper = start_reaper(mark)
        is_own = _connect(address, mark, runtime_env or {})
        self._fleet = Fleet()
        self._notices: list[Notice] = []
        self._strangers: dict[Any, dict[str, Any]] = {}
        """ObjectRef of its introduction -> a node that is not yet known."""
        self._seen: set[str] = set()
        self._idle: dict[str, list[_Worker]] = defaultdict(list)
        """Node -> workers there that run no trial."""
        self._running: list[_Running] = []
        self._seen_at = time.monotonic()
        if is_own:
            (node,) = ray.nodes()
            self._seen = {node["NodeID"]}
            self._admit(node, this_host().hostname, cores=len(usable_cores()))
        else:
            self._meet()

    @property
    def total_cores(self) -> int:
        """See Executor."""
        return self._fleet.total_cores

    @property
    def largest_node_cores(self) -> int:
        """Most cores that a trial can have."""
        return self._fleet.largest_node_cores

    def fits(self, spec: TrialSpec) -> bool:
        """See Executor."""
        return self._fleet.place(self._need(spec)) is not None

    def lacking(self, spec: TrialSpec) -> Resources | None:
        """See Executor."""
        return self._fleet.lacking(self._need(spec))

    def submit(self, run_id: int, spec: TrialSpec, *, untrained: bool = False) -> None:
        """See Executor."""
        need = self._need(spec)
        node = self._fleet.place(need)
        assert node is not None, "submitted what does not fit"
        worker = self._worker_on(node, need)
        node.held.append(worker.hold)
        note = str(Path(tempfile.gettempdir()) / f"sweeper-timeout-{uuid.uuid4().hex}")
        streaming = worker.actor.run.options(num_returns="streaming")
        stream = streaming.remote(run_id, spec, note, untrained)
        self._running.append(_Running(run_id, node, worker, stream, note))

    def events(self, timeout_seconds: float) -> list[RunEvent]:
        """See Executor."""
        if time.monotonic() - self._seen_at >= NODE_SECONDS:
            self._look_for_nodes()
        if not self._running:
            return []
        by_stream = {running.stream: running for running in self._running}
        ready, _ = ray.wait(
            list(by_stream), num_returns=1, timeout=timeout_seconds, fetch_local=False
        )
        events: list[RunEvent] = []
        while ready:
            for stream in ready:
                events += self._next(by_stream[stream])
            alive = [running.stream for running in self._running]
            if not alive:
                break
            ready, _ = ray.wait(alive, num_returns=len(alive), timeout=0, fetch_local=False)
        return events

    def notices(self) -> list[Notice]:
        """See Executor."""
        told, self._notices = self._notices, []
        return told

    def stop(self) -> None:
        """See Executor."""
        for running in self._running:
            running.worker.actor.stop.remote(running.run_id)

    def prune(self, run_id: int, reason: str) -> None:
        """See Executor."""
        for running in self._running:
            if running.run_id == run_id:
                running.worker.actor.prune.remote(run_id, reason)

    def worker_pids(self) -> list[int]:
        """Processes of the workers that run a trial now."""
        pids: list[int] = ray.get([running.worker.actor.pid.remote() for running in self._running])
        return pids

    def close(self) -> None:
        """See Executor."""
        for running in self._running:
            ray.kill(running.worker.actor, no_restart=True)
        for node_id in list(self._idle):
            self._dismiss(node_id)
        self._running.clear()
        ray.shutdown()
        assert self._reaper.stdin is not None
        self._reaper.stdin.close()
        self._reaper.wait()

    def _meet(self) -> None:
        """Learn to know the nodes of a cluster. Raises InputError where none can be used."""
        self._look_for_nodes()
        began_at = time.monotonic()
        while self._strangers:
            waited = time.monotonic() - began_at
            if waited > (JOIN_SECONDS if self._fleet.nodes else FIRST_SECONDS):
                break
            ray.wait(list(self._strangers), num_returns=1, timeout=1.0)
            self._welcome()
        if self._fleet.nodes:
            return
        if self._labels and not self._notices:
            asked = ", ".join(f"{key}={value}" for key, value in self._labels.items())
            raise LabelsError(f"no node with a CPU has {asked}; `ray start --labels` gives them")
        reasons = "; ".join(notice.detail for notice in self._notices)
        raise InputError(f"no node can run trials: {reasons or 'none has a CPU'}")

    def _look_for_nodes(self) -> None:
        """Let go those that have died, and greet those that are new."""
        self._seen_at = time.monotonic()
        alive = {node["NodeID"]: node for node in ray.nodes() if node["Alive"]}
        if not alive:  # a worker that is yet to start would otherwise be waited for
            raise ClusterLostError("Ray has died under the study; launch again to continue it")
        for node_id in self._fleet.nodes.keys() - alive.keys():
            node = self._fleet.nodes.pop(node_id)
            self._idle.pop(node_id, None)
            self._tell("node_lost", f"{node.name} is gone, and its {node.has.cores} cores with it")
        for node_id in alive.keys() - self._seen:
            self._seen.add(node_id)
            newcomer = alive[node_id]
            is_asked = self._labels.items() <= newcomer["Labels"].items()
            if is_asked and newcomer["Resources"].get("CPU", 0) >= 1:
                there = NodeAffinitySchedulingStrategy(node_id, soft=False)
                word = _INTRODUCE.options(scheduling_strategy=there).remote()
                self._strangers[word] = newcomer
        self._welcome()

    def _welcome(self) -> None:
        """Let those in who have introduced themselves and speak our language."""
        if not self._strangers:
            return
        words = list(self._strangers)
        ready, _ = ray.wait(words, num_returns=len(words), timeout=0)
        for word in ready:
            stranger = self._strangers.pop(word)
            name = _name(stranger)
            try:
                host: HostRecord = ray.get(word)
            except (TaskUnschedulableError, NodeDiedError, LocalRayletDiedError):
                self._seen.discard(stranger["NodeID"])  # dying, or not quite there: asked again
                continue
            except RayError as error:
                reason = str(error).strip().splitlines()[-1]
                self._tell("node_refused", f"{name} gets no trials: sweeper fails there: {reason}")
                continue
            if other := differences(this_host(), host):
                self._tell("node_refused", f"{name} gets no trials: it has {other}")
                continue
            # Ray counts hyperthreads, and what it was told; a trial leases physical cores.
            cores = min(int(stranger["Resources"]["CPU"]), host.usable_cores)
            self._admit(stranger, name, cores=cores)

    def _admit(self, node: Mapping[str, Any], name: str, *, cores: int) -> None:
        """Let a node of `ray.nodes()` have trials; its GPUs and its memory are Ray's to count."""
        node_id, counted = node["NodeID"], node["Resources"]
        has = Resources(cores, counted.get("GPU", 0), int(counted.get("memory", 0)))
        self._fleet.nodes[node_id] = Node(node_id, name, has)

    def _need(self, spec: TrialSpec) -> Need:
        return need_of(spec, memory_bytes=self._memory_bytes)

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
        running.has_begun |= any(isinstance(event, TrainingStarted) for event in sent)
        if isinstance(sent[-1], RunResult):
            self._end(running, sent[-1])
            self._idle[running.node.node_id].append(running.worker)
        return [RunEvent(running.run_id, event) for event in sent]

    def _lost(self, running: _Running, status: RunStatus, error: Exception) -> RunEvent:
        ray.kill(running.worker.actor, no_restart=True)
        where = running.node.name
        reason = f"the worker was lost on {where}: {type(error).__name__}: "
        result = lost_result(status, reason + str(error).splitlines()[0])
        if (timeout := _watchdogs_word(running)) is not None:
            result = lost_result(RunStatus.TIMEOUT, timeout)
        self._end(running, result)
        self._look_for_nodes()  # before the next trial is sent where there is nobody
        return RunEvent(running.run_id, result)

    def _end(self, running: _Running, result: RunResult) -> None:
        """Free what it held, and note what it says about its node."""
        self._running.remove(running)
        node, status = running.node, result.status
        node.held.remove(running.worker.hold)
        is_setup = status is RunStatus.TIMEOUT and not running.has_begun
        if is_setup or status in (RunStatus.ERROR, RunStatus.LOST):
            failure = (result.reason or status.value).splitlines()[0]
        elif status in (RunStatus.COMPLETED, RunStatus.PRUNED, RunStatus.DIVERGED):
            failure = None
        else:
            return  # nobody's fault
        for culprit in self._fleet.note(node, failure=failure):
            self._dismiss(culprit.node_id)
            self._tell(
                "quarantined",
                f"{culprit.name} gets no more trials: {culprit.failed_in_a_row} in a row failed "
                f"there, while others succeed elsewhere; the last: {culprit.failure}",
            )

    def _tell(self, kind: str, detail: str) -> None:
        self._notices.append(Notice(kind, detail))

    def _dismiss(self, node_id: str) -> None:
        """End the idle workers of a node."""
        for worker in self._idle.pop(node_id, []):
            ray.kill(worker.actor, no_restart=True)

    def _worker_on(self, node: Node, need: Need) -> _Worker:
        """An idle worker that holds just that, or a new one, ending idle ones as far as what
        they hold is needed."""
        idle = self._idle[node.node_id]
        for i, worker in enumerate(idle):
            if worker.hold.of == need.on(node.has):
                return idle.pop(i)
        while (hold := node.room_for(need, beside=[worker.hold for worker in idle])) is None:
            ray.kill(idle.pop().actor, no_restart=True)
        actor = _TRIAL_WORKER.options(
            num_cpus=hold.of.cores,
            num_gpus=hold.of.gpus,
            memory=hold.of.memory_bytes,
            scheduling_strategy=NodeAffinitySchedulingStrategy(node.node_id, soft=False),
        ).remote(sys.path)
        return _Worker(actor, hold)


def _name(node: Mapping[str, Any]) -> str:
    """What people call a node of `ray.nodes()`, and by what of its id Ray's own words do."""
    hostname, named = node["NodeManagerHostname"], node.get("NodeName")
    called = hostname if named in (None, "", node["NodeManagerAddress"]) else named
    return f"node {called} ({node['NodeID'][:8]})"


def _watchdogs_word(running: _Running) -> str | None:
    """Why the trial's watchdog killed its worker; None if it was not the watchdog."""
    node_id = running.node.node_id
    if node_id == ray.get_runtime_context().get_node_id():
        return take_note(running.note)
    there = NodeAffinitySchedulingStrategy(node_id, soft=False)
    task = ray.remote(num_cpus=0, max_retries=0, scheduling_strategy=there)(take_note)
    try:
        word: str | None = ray.get(task.remote(running.note), timeout=NOTE_SECONDS)
    except (RayError, GetTimeoutError):  # the node is gone as well
        return None
    return word


def _connect(address: str, mark: Mark, runtime_env: Mapping[str, Any]) -> bool:
    """Join the cluster at `address`, or start a Ray of our own for `local`; returns whether it
    is our own."""
    if address == "auto":
        # Ray's own `auto` joins any Ray of this machine: another launcher's, which ends with it.
        address = os.environ.get("RAY_ADDRESS") or "local"
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # read by Ray's own processes
    common: dict[str, Any] = {
        "logging_level": logging.ERROR,
        "log_to_driver": False,
        "runtime_env": {**runtime_env, "env_vars": SINGLE_THREADED | NO_OTHER_GPUS},
        "namespace": f"sweeper-{os.getpid()}-{time.time_ns()}",
    }
    if address != "local":
        try:
            ray.init(address=address, **common)
        except (ConnectionError, RuntimeError) as error:  # RuntimeError: another Ray or Python
            hint = "" if "RAY_AUTH_MODE" in os.environ else _JOIN_HINT
            raise InputError(
                f"ray: cannot join the cluster at {address!r}: {error}{hint}"
            ) from error
        return False
    with marking(mark):
        context = ray.init(
            address="local", num_cpus=len(usable_cores()), include_dashboard=False, **common
        )
    Path(context.address_info["session_dir"], FILE).write_text(str(mark), encoding="utf-8")
    return True
