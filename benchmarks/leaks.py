"""What a long study costs besides its trials: how the memory and the open files of its launcher and
of its workers, and the shared memory of both, grow from trial to trial.

    python benchmarks/leaks.py             300 trials through one launcher
    python benchmarks/leaks.py --trials 60
"""

from __future__ import annotations

import contextlib
import os
import sys
import tempfile
import time
from argparse import ArgumentParser, RawDescriptionHelpFormatter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import psutil
from harness import print_host

TESTS = str(Path(__file__).parents[1] / "tests")
sys.path.insert(0, TESTS)
os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [TESTS, os.environ.get("PYTHONPATH")]))

from system.launching import World  # noqa: E402

MIB = 2**20
WARM_UP_SHARE = 0.2
"""Of the trials: what a process loads once is no leak."""
EVERY_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class Sample:
    """The study at one moment."""

    trials: int
    """That have ended."""
    launcher_mib: float
    launcher_files: int
    workers_mib: float
    """Of the largest worker."""
    worker_files: int
    """Of the worker that has most."""
    worker_children: int
    """Processes that workers have left, or have now."""
    shared_files: int
    """In /dev/shm, mapped by a process of the study."""


QUANTITIES = {
    "launcher_mib": "launcher, resident MiB",
    "launcher_files": "launcher, open files",
    "workers_mib": "largest worker, resident MiB",
    "worker_files": "worker, open files",
    "worker_children": "workers' processes",
    "shared_files": "files in /dev/shm",
}


def sample(world: World, launcher: psutil.Process) -> Sample:
    """Look at all of the study's processes."""
    workers = world.trial_workers()
    mib, files, children = [0.0], [0], 0
    for worker in workers:
        with contextlib.suppress(psutil.NoSuchProcess):
            mib.append(worker.memory_info().rss / MIB)
            files.append(worker.num_fds())
            children += len(worker.children(recursive=True))
    ((trials,),) = world.sql("SELECT count(*) FROM runs WHERE ended_at IS NOT NULL")
    return Sample(
        trials=trials,
        launcher_mib=launcher.memory_info().rss / MIB,
        launcher_files=launcher.num_fds(),
        workers_mib=max(mib),
        worker_files=max(files),
        worker_children=children,
        shared_files=len(world.shared_memory()),
    )


def slope(samples: Sequence[Sample], quantity: str) -> tuple[float, float]:
    """(growth per 100 trials after warming up, median) by Theil and Sen: the median of the slopes
    between all pairs, which a few samples of the moment in which a trial starts do not move."""
    x = np.array([s.trials for s in samples], float)
    y = np.array([getattr(s, quantity) for s in samples], float)
    i, j = np.triu_indices(len(x), 1)
    apart = x[j] != x[i]
    slopes = (y[j] - y[i])[apart] / (x[j] - x[i])[apart]
    return 100.0 * float(np.median(slopes)) if len(slopes) else float("nan"), float(np.median(y))


def main() -> None:
    options = ArgumentParser(description=__doc__, formatter_class=RawDescriptionHelpFormatter)
    options.add_argument("--trials", type=int, default=300)
    n_trials = options.parse_args().trials
    print_host()
    samples: list[Sample] = []
    with tempfile.TemporaryDirectory(prefix="leaks-") as folder:
        world = World(Path(folder), f"sqlite:///{Path(folder) / 'results.db'}")
        world.study(stop={"trials": n_trials}, trial={"budget": {"env_steps": 640}})
        launch = world.launch()
        process = psutil.Process(launch.pid)
        with contextlib.suppress(psutil.NoSuchProcess):
            while launch.process.poll() is None:
                time.sleep(EVERY_SECONDS)
                if world.count("COMPLETED") and world.trial_workers():
                    samples.append(sample(world, process))
        if launch.wait() != 0:
            sys.exit(launch.text)
        world.assert_complete(n_trials)
    warm = [s for s in samples if s.trials >= WARM_UP_SHARE * n_trials]
    print(f"{n_trials} trials; growth per 100 of them after the first {WARM_UP_SHARE:.0%}")
    for quantity, title in QUANTITIES.items():
        growth, median = slope(warm, quantity)
        print(f"{title:30} {growth:+8.2f}   (median {median:,.0f})")


if __name__ == "__main__":
    main()
