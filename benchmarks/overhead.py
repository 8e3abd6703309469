"""How much of the machine a study uses for what it is there for: time inside budgets.

    python benchmarks/overhead.py                    40 trials of CartPole, 10 s each
    python benchmarks/overhead.py --seconds 60

    share = sum over runs of (elapsed seconds x cores) / (wall-clock of `launch` x usable cores)

The wall-clock is that of the whole command, from its first process to its last: starting Ray and
the workers, set-up and evaluation of every trial, writing results, drawing the front. The
claims: at least 90% with trials of 10 s, 97% with 60 s.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from pathlib import Path

from harness import Row, options_of, parser, print_host, report
from ruamel.yaml import YAML

from sweeper.store.queries import open_reader
from sweeper.store.sql import run_sql
from sweeper.trial.cores import usable_cores

STUDY = {
    "study": "overhead",
    "sampler": {"kind": "tpe"},
    "replicate": {"share": 0},
    "search": {
        "parallelism.n_envs": {"kind": "pow2", "low": 4, "high": 32},
        "algorithm.n_steps": {"kind": "pow2", "low": 32, "high": 256},
        "algorithm.optimizer.learning_rate": {
            "kind": "float",
            "low": 1e-4,
            "high": 1e-2,
            "log": True,
        },
    },
}
TRIAL = {
    "env": {"id": "CartPole-v1"},
    "algorithm": {"kind": "ppo", "n_steps": 128, "n_minibatches": 4, "n_epochs": 4},
}


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--trials", type=int, default=40)
    options.add_argument("--seconds", type=float, default=10.0, help="budget of a trial")
    arguments = options.parse_args()
    shared = options_of(arguments)
    trials, seconds = (4, 2.0) if shared.quick else (arguments.trials, arguments.seconds)
    print_host()
    with tempfile.TemporaryDirectory(prefix="sweeper-overhead-") as folder:
        row = measure(Path(folder), trials=trials, seconds=seconds)
    report([row], shared)


def measure(folder: Path, *, trials: int, seconds: float) -> Row:
    trial = TRIAL | {"budget": {"seconds": seconds}}
    with (folder / "study.yaml").open("w") as file:
        YAML(typ="safe", pure=True).dump(STUDY | {"stop": {"trials": trials}, "trial": trial}, file)
    url = f"sqlite:///{folder / 'results.db'}"
    command = [str(Path(sys.executable).parent / "sweeper"), "launch", "study.yaml", "--db", url]
    begun = time.perf_counter()
    subprocess.run(command, cwd=folder, check=True, stdout=subprocess.DEVNULL)
    wall, cores = time.perf_counter() - begun, len(usable_cores())
    reader = open_reader(url)
    query = (
        "SELECT sum(core_seconds), sum(setup_seconds * cores), sum(evaluate_seconds * cores), "
        "count(*) FROM runs JOIN trials USING (trial_id)"
    )
    ((inside, set_up, evaluating, runs),) = run_sql(reader, query).rows
    reader.dispose()
    there_was = wall * cores
    other = there_was - inside - set_up - evaluating
    print(f"\n{runs} runs of {seconds:g} s on {cores} cores in {wall:.1f} s")
    parts = {"budgets": inside, "set-up": set_up, "evaluation": evaluating, "the rest": other}
    for name, part in parts.items():
        print(f"{name:10} {part:8.1f} core-seconds {part / there_was:7.1%}")
    case = f"{trials} trials of {seconds:g} s"
    return Row(
        case, "share inside budgets", inside / wall, 0.0, inside / there_was, (inside / wall,)
    )


if __name__ == "__main__":
    main()
