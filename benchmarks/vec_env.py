"""Env steps per second of the vector layer alone: ours, SB3's, Gymnasium's, and the limit.

    python benchmarks/vec_env.py --env CartPole-v1 --n-envs 8,32
    python benchmarks/vec_env.py --startup

The limit is two processes that each step one environment in a bare loop; beside it the same
over as many environments as there are in all, which no cache may hold. Everybody steps
the same environments (`sweeper.envs.factory`) with the same actions, drawn beforehand, and
nobody does anything with what comes back. Native implementations (Gymnasium's, EnvPool's)
are other programs of the same environments. Workers of the one-process-an-env kinds are
forked, which only shortens their start. `Pong` is ALE's, with the standard preprocessing.

`--startup` times the making and first reset of 64 environments in 2 workers, each time from
a fresh interpreter, and weighs what a worker holds beside its environments.
"""

from __future__ import annotations

import multiprocessing
import os
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from multiprocessing.connection import Connection
from typing import Any

import gymnasium
import psutil
from harness import Contestant, Options, Row, compete, options_of, parser, print_host, report
from stable_baselines3.common.vec_env import DummyVecEnv
from stable_baselines3.common.vec_env import SubprocVecEnv as SB3SubprocVecEnv

from sweeper.core.errors import InputError
from sweeper.envs.bare import bare_loop, bare_processes, count_calls, draw_actions
from sweeper.envs.make import check_native, describe, env_factory, make_vec_env
from sweeper.envs.serial import SerialVecEnv
from sweeper.envs.spec import EnvSpec
from sweeper.envs.subproc import SubprocVecEnv

LIMIT = "bare loop x 2 processes"
SERIAL = "sweeper serial"
SUBPROC = "sweeper subproc"

PONG: dict[str, Any] = {
    "id": "ale_py:ALE/Pong-v5",
    "kwargs": {"frameskip": 1},
    "wrappers": [
        {"wrapper": "gymnasium.wrappers:AtariPreprocessing"},
        {"wrapper": "gymnasium.wrappers:FrameStackObservation", "kwargs": {"stack_size": 4}},
    ],
}
LIMIT_TARGETS = {
    ("Hopper-v5", 16): 0.92,
    ("Humanoid-v5", 16): 0.92,
    ("Pong", 8): 0.92,
    ("CartPole-v1", 32): 0.70,
}
"""(environment, n_envs) -> the share of the limit that SubprocVecEnv is to reach."""
STARTUP_ENVS, STARTUP_SECONDS, STARTUP_MB = 64, 3.0, 60.0


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--env", default="CartPole-v1,Hopper-v5,Humanoid-v5,Pong", help="ids")
    options.add_argument("--n-envs", default="1,2,4,8,16,32")
    options.add_argument("--workers", type=int, default=2, help="of ours")
    options.add_argument("--seconds", type=float, default=1.0, help="of a turn")
    options.add_argument("--startup", action="store_true", help="time the start instead")
    arguments = options.parse_args()
    shared = options_of(arguments)
    print_host()
    if arguments.startup:
        startup("Hopper-v5" if "," in arguments.env else arguments.env, shared)
        return
    seconds = 0.1 if shared.quick else arguments.seconds
    rows: list[Row] = []
    verdicts: list[str] = []
    for name in arguments.env.split(","):
        spec = spec_of(name)
        if spec is None:
            continue
        for n_envs in map(int, arguments.n_envs.split(",")):
            with ExitStack() as stack:
                contestants = line_up(stack, spec, n_envs, min(arguments.workers, n_envs), seconds)
                case = f"{name}, n_envs {n_envs}"
                found = compete(case, contestants, reference=LIMIT, options=shared)
            rows += found
            verdicts += judge(name, n_envs, found)
    print("\ntargets")
    print("\n".join(verdicts))
    report(rows, shared)


def spec_of(name: str) -> EnvSpec | None:
    """The environment; None, with a word, when its package is not installed."""
    given = PONG if name == "Pong" else {"id": name}
    spec = EnvSpec.model_validate({**given, "action": "none"})
    try:
        describe(spec)
    except InputError as error:
        print(f"{name} is left out: {error}")
        return None
    return spec


def line_up(
    stack: ExitStack, spec: EnvSpec, n_envs: int, n_workers: int, seconds: float
) -> list[Contestant]:
    """Everybody, started and reset; `stack` closes them."""
    factory = env_factory(spec)
    actions = draw_actions(describe(spec).action_space, n_envs)
    fns = [factory] * n_envs
    cores = sorted(os.sched_getaffinity(0))

    def contestant(name: str, env: Any) -> Contestant:
        stack.callback(env.close)
        env.reset()
        return Contestant(name, lambda: count_calls(env.step, actions, seconds) * n_envs)

    def ours(cpus: list[int] | None) -> SubprocVecEnv:
        return SubprocVecEnv(fns, envs_per_worker=-(-n_envs // n_workers), cpus=cpus)

    def halves() -> Contestant:
        env = SubprocVecEnv(fns, envs_per_worker=-(-n_envs // n_workers), cpus=cores, n_groups=2)
        stack.callback(env.close)
        env.reset()
        first, second = env.groups

        def step(action: Any) -> None:
            env.step_async(action[first], 0)
            env.step_wait(1)
            env.step_async(action[second], 1)
            env.step_wait(0)

        def work() -> int:
            env.step_async(actions[0][second], 1)
            calls = count_calls(step, actions, seconds)
            env.step_wait(1)
            return calls * n_envs

        return Contestant(f"{SUBPROC}, halves apart", work)

    same_step = gymnasium.vector.AutoresetMode.SAME_STEP
    one, limit = bare_loop(factory), stack.enter_context(bare_processes(factory, cores[:2]))
    many = stack.enter_context(bare_processes(factory, cores[:2], n_envs=-(-n_envs // 2)))
    return [
        Contestant("bare loop", lambda: one(seconds)),
        Contestant(LIMIT, lambda: limit(seconds)),
        Contestant("the same, over all envs", lambda: many(seconds)),
        contestant(SERIAL, SerialVecEnv(fns)),
        contestant(f"{SUBPROC}, {n_workers} workers", ours(None)),
        contestant(f"{SUBPROC}, on cores of their own", ours(cores)),
        *([halves()] if n_envs > 1 else []),
        *(contestant(f"sweeper {name}", env) for name, env in natives(spec, n_envs)),
        contestant("sb3 dummy", DummyVecEnv(fns)),
        contestant("sb3 subproc", SB3SubprocVecEnv(fns, start_method="fork")),
        contestant("gymnasium sync", gymnasium.vector.SyncVectorEnv(fns, autoreset_mode=same_step)),
        contestant(
            "gymnasium async",
            gymnasium.vector.AsyncVectorEnv(fns, context="fork", autoreset_mode=same_step),
        ),
    ]


def natives(spec: EnvSpec, n_envs: int) -> Iterator[tuple[str, Any]]:
    """The native implementations that there are, by `NativeVecEnv`."""
    for name, vector in (("gymnasium", {}), ("envpool", {"make": "envpool", "kwargs": {}})):
        native = EnvSpec.model_validate({**spec.model_dump(), "vector": vector})
        try:
            check_native(native)
        except InputError:
            continue
        yield name, make_vec_env(native, vec_env="gymnasium", n_envs=n_envs, seed=0)


def judge(name: str, n_envs: int, rows: list[Row]) -> Iterator[str]:
    """A line on each target of this case: reached or not, by the medians of the ratios. Native
    implementations are no contestants here: nobody else steps those."""

    def best(*prefixes: str) -> Row:
        return max((row for row in rows if row.name.startswith(prefixes)), key=lambda r: r.ratio)

    subproc, ours, theirs = best(SUBPROC), best(SUBPROC, SERIAL), best("sb3", "gymnasium")

    def line(what: str, value: float, target: float) -> str:
        verdict = "reached" if value >= target else "NOT REACHED"
        return f"{name:12} {n_envs:3}  {what:44} {value:6.2f} of {target:.2f}  {verdict}"

    target = LIMIT_TARGETS.get((name, n_envs))
    if target is not None:
        yield line("subproc / limit", subproc.ratio, target)
    if (name, n_envs) == ("CartPole-v1", 32):
        yield line("subproc / serial", subproc.ratio / best(SERIAL).ratio, 1.0)
    what = f"{ours.name.removeprefix('sweeper ')} / {theirs.name}"
    yield line(what, ours.ratio / theirs.ratio, 1.0)


def startup(env_id: str, options: Options) -> None:
    """Time and weigh, by each start method."""
    spec = EnvSpec(id=env_id, action="none")
    own = _fresh(_own_bytes, spec, STARTUP_ENVS // 2)[0] / 1e6
    print(f"\n{STARTUP_ENVS} {env_id} in 2 workers; half of them weigh {own:.0f} MB by themselves")
    for method in ("forkserver", "spawn"):
        rounds = [_fresh(_start, spec, method) for _ in range(options.rounds)]
        seconds = statistics.median(found[0] for found in rounds)
        private = max(max(found[1:]) for found in rounds) / 1e6 - own
        print(
            f"{method:12} {seconds:6.2f} s of {STARTUP_SECONDS:g}  "
            f"{'reached' if seconds < STARTUP_SECONDS else 'NOT REACHED'}   "
            f"{private:6.1f} MB a worker beyond that, of {STARTUP_MB:g}  "
            f"{'reached' if private < STARTUP_MB else 'NOT REACHED'}"
        )


def _fresh(work: Callable[..., None], *arguments: Any) -> list[float]:
    """What `work(connection, *arguments)` sends from a new interpreter."""
    context = multiprocessing.get_context("spawn")
    mine, theirs = context.Pipe(duplex=False)
    process = context.Process(target=work, args=(theirs, *arguments))
    process.start()
    theirs.close()
    found: list[float] = mine.recv()
    process.join()
    return found


def _start(end: Connection, spec: EnvSpec, method: Any) -> None:
    """Send the seconds until the first observations, and the private bytes of each worker."""
    cpus = sorted(os.sched_getaffinity(0))[:2]
    begun = time.perf_counter()
    with SubprocVecEnv(
        [env_factory(spec)] * STARTUP_ENVS,
        envs_per_worker=STARTUP_ENVS // 2,
        start_method=method,
        cpus=cpus,
    ) as env:
        env.reset()
        seconds = time.perf_counter() - begun
        end.send([seconds, *(_private_bytes(pid) for pid in env.worker_pids)])


def _own_bytes(end: Connection, spec: EnvSpec, n_envs: int) -> None:
    """Send by how much environments make a process grow that has Gymnasium loaded."""
    before = _private_bytes(os.getpid())
    envs = [env_factory(spec)() for _ in range(n_envs)]
    for env in envs:
        env.reset()
    end.send([_private_bytes(os.getpid()) - before])


def _private_bytes(pid: int) -> float:
    return float(psutil.Process(pid).memory_full_info().uss)


if __name__ == "__main__":
    main()
