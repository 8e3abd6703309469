"""`sweeper bench envs`: the speed of each layout of an environment, and which one to use."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict
from pathlib import Path
from time import perf_counter
from typing import Any

from rich.console import Console
from rich.progress import Progress

from sweeper.cli.printing import print_json
from sweeper.cli.table import print_table
from sweeper.core.errors import InputError
from sweeper.core.records import HostRecord
from sweeper.envs.bare import bare_processes, count_calls, draw_actions
from sweeper.envs.make import check_native, describe, env_factory, make_vec_env
from sweeper.envs.spec import EnvSpec, VectorSpec
from sweeper.report.layouts import (
    Bare,
    Layout,
    LayoutReport,
    Measured,
    layout_figure,
    layout_table,
    recommend,
)
from sweeper.report.render import write_html, write_png
from sweeper.trial.cores import CoresTaken, try_lease, usable_cores
from sweeper.trial.host import this_host
from sweeper.trial.pinning import pinned_to

REPEATS = 3
"""Layouts take turns: each is measured once before any is measured again."""
BATCH, MINIBATCHES = 2048, 32
"""Of the training that is measured: PPO, the same batch whatever the number of environments."""


def bench_envs(
    env_id: str,
    *,
    n_envs: str,
    workers: str | None,
    seconds: float,
    train: bool,
    html: Path | None,
    png: Path | None,
    as_json: bool,
) -> None:
    """Measure, show and recommend. Raises InputError for what cannot be measured."""
    spec = EnvSpec(id=env_id)
    describe(spec)
    n_cores = len(usable_cores())
    counts = _numbers("--n-envs", n_envs)
    shares = _numbers("--workers", workers) if workers else _powers_of_two(n_cores)
    if shares[-1] > n_cores:
        raise InputError(f"--workers: {shares[-1]} asked for, {n_cores} cores usable here")
    layouts = list(_layouts(spec, counts, shares, n_cores))
    report = measure(spec, layouts, n_cores=n_cores, seconds=seconds, train=train)
    best = recommend(report)
    title = f"{env_id}: environments and workers"
    if html is not None:
        write_html(layout_figure(report), html, title=title, table=layout_table(report))
    if png is not None:
        write_png(layout_figure(report), png, width=1400 if train else 900)
    if as_json:
        print_json(_record(report, this_host(), seconds) | {"recommended": asdict(best)})
        return
    table = layout_table(report)
    print_table(table.head, table.rows)
    print(f"\nrecommended: {best.layout.name}, {best.layout.n_envs} envs\n  {best.why}")
    print(f"\n{best.layout.yaml}")
    for path in (html, png):
        if path is not None:
            print(f"\nwrote {path}")


def measure(
    spec: EnvSpec, layouts: Sequence[Layout], *, n_cores: int, seconds: float, train: bool
) -> LayoutReport:
    """Every layout and the bare environments, REPEATS times `seconds` each, in turn; with
    `train` whole trainings of `seconds` after that. No other trial runs meanwhile."""
    processes = sorted({1, n_cores})
    turns = REPEATS * (len(processes) + len(layouts) * (2 if train else 1))
    bare: dict[int, list[float]] = {count: [] for count in processes}
    rates: dict[Layout, list[float]] = {layout: [] for layout in layouts}
    trained: dict[Layout, list[tuple[float, float]]] = {layout: [] for layout in layouts}
    with ExitStack() as stack:
        advance = stack.enter_context(_progress(turns, seconds))
        lease = try_lease(n_cores)
        if isinstance(lease, CoresTaken):
            raise InputError(f"a bench needs all cores to itself: {', '.join(lease.holders)}")
        stack.callback(lease.release)
        for repeat in range(REPEATS):
            for count in processes:
                advance(f"bare, {count} processes")
                bare[count].append(_bare_rate(spec, lease.cpus[:count], seconds))
            for layout in layouts:
                advance(f"{layout.name}, {layout.n_envs} envs")
                rates[layout].append(_rate(spec, layout, lease.cpus, seconds, repeat))
        lease.release()  # each training takes its own
        for seed in range(REPEATS if train else 0):
            for layout in layouts:
                advance(f"training on {layout.name}, {layout.n_envs} envs")
                trained[layout].append(_train(spec, layout, seconds, seed))
    return LayoutReport(
        spec.name,
        tuple(Bare(count, tuple(values)) for count, values in bare.items()),
        tuple(
            Measured(
                layout,
                tuple(rates[layout]),
                tuple(rate for rate, _ in trained[layout]),
                tuple(value for _, value in trained[layout]),
            )
            for layout in layouts
        ),
    )


def _layouts(spec: EnvSpec, counts: list[int], shares: list[int], n_cores: int) -> Iterator[Layout]:
    natives: list[Layout] = []
    for vector, cores in ((None, 1), ("envpool", n_cores)):
        try:
            check_native(_with_vector(spec, vector))
        except InputError:
            continue  # it has none, or it is not installed
        natives.append(Layout("gymnasium", 1, 0, cores, vector))
    for count in counts:
        yield Layout("serial", count, 0, 1)
        for n_workers in shares:
            if n_workers <= count:
                yield Layout("subproc", count, n_workers, n_workers)
        for native in natives:
            yield Layout("gymnasium", count, 0, native.cores, native.vector)


def _with_vector(spec: EnvSpec, vector: str | None) -> EnvSpec:
    return spec.model_copy(update={"vector": VectorSpec(make=vector)})


def _bare_rate(spec: EnvSpec, cpus: Sequence[int], seconds: float) -> float:
    with bare_processes(env_factory(spec), cpus) as steps:
        steps(seconds / 10)
        begun = perf_counter()
        return steps(seconds) / (perf_counter() - begun)


def _rate(spec: EnvSpec, layout: Layout, cpus: Sequence[int], seconds: float, seed: int) -> float:
    """Env steps a second, on cores as a trial of this layout would have them."""
    mine = cpus[: layout.cores]
    with (
        pinned_to(mine),
        make_vec_env(
            _with_vector(spec, layout.vector),
            vec_env=layout.vec_env,
            n_envs=layout.n_envs,
            envs_per_worker=layout.envs_per_worker,
            seed=seed,
            cpus=mine,
        ) as env,
    ):
        env.reset()
        actions = draw_actions(env.single_action_space, layout.n_envs)
        count_calls(env.step, actions, seconds / 10)
        begun = perf_counter()
        calls = count_calls(env.step, actions, seconds)
        return calls * layout.n_envs / (perf_counter() - begun)


def _train(spec: EnvSpec, layout: Layout, seconds: float, seed: int) -> tuple[float, float]:
    """Env steps a second and final return of a PPO training of `seconds`."""
    from sweeper.core.clock import BudgetSpec  # noqa: PLC0415 - torch, only for --train
    from sweeper.core.records import RunResult  # noqa: PLC0415
    from sweeper.rl.spec import PPOSpec  # noqa: PLC0415
    from sweeper.trial.run import run_trial  # noqa: PLC0415
    from sweeper.trial.spec import ParallelismSpec, TrialSpec  # noqa: PLC0415

    # A multiple of the minibatches, so that they divide the batch.
    n_steps = max(MINIBATCHES, BATCH // layout.n_envs // MINIBATCHES * MINIBATCHES)
    trial = TrialSpec(
        env=_with_vector(spec, layout.vector),
        algorithm=PPOSpec(n_steps=n_steps, n_minibatches=MINIBATCHES),
        parallelism=ParallelismSpec(
            vec_env=layout.vec_env,
            n_envs=layout.n_envs,
            envs_per_worker=layout.envs_per_worker,
            cores=layout.cores,
        ),
        budget=BudgetSpec(seconds=seconds),
        seed=seed,
    )
    for event in run_trial(trial):
        if isinstance(event, RunResult):
            result = event
    if result.steps_per_second is None or result.final_return is None:
        raise InputError(f"training on {layout.name} ended as {result.status}: {result.reason}")
    return result.steps_per_second, result.final_return


@contextmanager
def _progress(turns: int, seconds: float) -> Iterator[Callable[[str], None]]:
    """Show on standard error which turn it is; lines where that is not a terminal."""
    console = Console(stderr=True)
    done = 0
    with Progress(console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task("", total=turns)

        def advance(what: str) -> None:
            nonlocal done
            progress.update(task, completed=done, description=what)
            done += 1
            if not console.is_terminal:
                print(f"{done}/{turns} {what}, {seconds:g} s", file=sys.stderr, flush=True)

        yield advance


def _record(report: LayoutReport, host: HostRecord, seconds: float) -> dict[str, Any]:
    return {
        "environment": report.env,
        "host": asdict(host),
        "seconds": seconds,
        "bare": [asdict(one) | {"steps_per_second": one.rate} for one in report.bare],
        "layouts": [
            asdict(one.layout)
            | {
                "steps_per_second": one.rate,
                "rates": one.rates,
                "share_of_limit": one.rate / report.limit,
                "training_steps_per_second": one.training_rate,
                "training_rates": one.training_rates,
                "final_return": one.final_return,
                "final_returns": one.returns,
            }
            for one in report.measured
        ],
    }


def _numbers(option: str, text: str) -> list[int]:
    """Rising whole numbers of a comma-separated list. Raises InputError."""
    try:
        numbers = sorted({int(part) for part in text.split(",")})
    except ValueError:
        numbers = [0]
    if numbers[0] < 1:
        raise InputError(f"{option} must be whole numbers of at least 1, like 1,2,4; got {text!r}")
    return numbers


def _powers_of_two(most: int) -> list[int]:
    return sorted({1 << k for k in range(most.bit_length()) if 1 << k <= most} | {most})
