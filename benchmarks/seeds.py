"""Many runs with budgets of env steps, several at once, each kept as it finishes.

A benchmark gives `play` a function and its jobs (tuples of JSON values). A finished job is a
line of the file: running again does only what is not there, so that hours of runs survive.
Nothing here is timed, so the machine may be busy with other things.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
from harness import print_host
from scipy import stats

LEVEL = 0.95
Job = tuple[str | int, ...]


def parser(description: str | None, cases: Sequence[str]) -> argparse.ArgumentParser:
    """The options that these benchmarks have."""
    options = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("--case", default=",".join(cases), help="some of them, by comma")
    options.add_argument("--out", type=Path, required=True, metavar="FILE", help="JSON lines")
    options.add_argument("--processes", type=int, default=len(os.sched_getaffinity(0)))
    options.add_argument("--table", action="store_true", help="print what FILE holds, run nothing")
    return options


def play(
    function: Callable[..., dict[str, Any]],
    jobs: Sequence[Job],
    arguments: argparse.Namespace,
    *,
    jobs_per_process: int | None = 1,
) -> dict[Job, dict[str, Any]]:
    """What `function(*job)` returned for each job, now or in an earlier run.

    Each job has a fresh process, unless more are said, or None for all. With `--table`, only
    what there is.
    """
    path: Path = arguments.out
    lines = path.read_text().splitlines() if path.exists() else []
    results = {tuple(record.pop("job")): record for record in map(json.loads, lines)}
    wanted = [] if arguments.table else [job for job in jobs if job not in results]
    if wanted:
        print_host()
    context = get_context("spawn")
    with (
        path.open("a") as file,
        ProcessPoolExecutor(
            arguments.processes, context, max_tasks_per_child=jobs_per_process
        ) as pool,
    ):
        futures = {pool.submit(function, *job): job for job in wanted}
        for n_done, future in enumerate(as_completed(futures), start=1):
            job = futures[future]
            results[job] = future.result()
            file.write(json.dumps({"job": job, **results[job]}) + "\n")
            file.flush()
            told = {k: v for k, v in results[job].items() if not isinstance(v, list | tuple)}
            print(f"[{n_done}/{len(wanted)}] {job}: {told}", file=sys.stderr)
    return results


def mean(values: Sequence[float], digits: int = 0) -> str:
    """Mean, its 95% interval (Student's t) and the number of seeds."""
    if len(values) < 2:
        return f"{values[0]:,.{digits}f} (1)" if values else "-"
    center, error = float(np.mean(values)), max(float(stats.sem(values)), 1e-12)
    low, high = stats.t.interval(LEVEL, len(values) - 1, center, error)
    return f"{center:,.{digits}f} [{low:,.{digits}f}, {high:,.{digits}f}] ({len(values)})"


def difference(ours: Sequence[float], theirs: Sequence[float]) -> str:
    """Mean of ours less theirs, with its 95% interval (Welch)."""
    if min(len(ours), len(theirs)) < 2:
        return "-"
    center = float(np.mean(ours) - np.mean(theirs))
    if np.ptp(ours) == np.ptp(theirs) == 0:
        return f"{center:+,.0f}"
    low, high = stats.ttest_ind(ours, theirs, equal_var=False).confidence_interval(LEVEL)
    return f"{center:+,.0f} [{low:+,.0f}, {high:+,.0f}]"
