"""How long a suggestion takes when thousands of trials are stored: what a launcher does between a
free core and the next trial (read what has changed, tell the sampler, ask it).

    python benchmarks/ask.py            5,000 trials, 12 parameters
    python benchmarks/ask.py --quick
"""

from __future__ import annotations

import statistics
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from harness import options_of, parser, print_host
from record_search import SEARCH, study

from sweeper.core.records import RunStatus
from sweeper.store import queries
from sweeper.store.store import Store
from sweeper.store.versions import StudyRef
from sweeper.study.agenda import Again, Agenda
from sweeper.study.claim import claim_study
from sweeper.study.designs import random_point
from sweeper.study.document import document_of, dump
from sweeper.study.executor import lost_result
from sweeper.study.known import KnownTrials
from sweeper.study.outcome import Requirements
from sweeper.study.sampler import Suggestion
from sweeper.study.spec import LoadedStudy, study_of

N_TRIALS, N_QUICK = 5_000, 200


def main() -> None:
    options = options_of(parser(__doc__).parse_args())
    print_host()
    n_trials = N_QUICK if options.quick else N_TRIALS
    data: dict[str, Any] = {
        **study("CartPole-v1", budget=10.0, trials=10 * n_trials, seed=0),
        "sampler": {"kind": "tpe"},
        "replicate": {"share": 0.25},
        "search": SEARCH,
    }
    loaded = study_of(document_of(dump(data), "benchmark"))
    memory = "/dev/shm" if Path("/dev/shm").is_dir() else None  # thousands of transactions
    with tempfile.TemporaryDirectory(dir=memory) as folder:
        url = f"sqlite:///{Path(folder) / 'ask.db'}"
        with Store.open(url) as store, claim_study(store, loaded, target_trials=None) as claim:
            for number in range(n_trials):
                finish(store, claim.study, loaded, number)
            reader = queries.open_reader(url)
            measure(KnownTrials(reader, claim.study.study_id, loaded.spec), store, claim.study,
                    loaded, rounds=options.rounds)  # fmt: skip
            reader.dispose()


def measure(
    known: KnownTrials, store: Store, ref: StudyRef, loaded: LoadedStudy, *, rounds: int
) -> None:
    """Print the seconds of the first question of a launch, which translates every trial, and of
    those that follow; and of the CPU alone, for a machine that is busy."""
    agenda = Agenda(loaded, target_trials=None, at_once=8)
    seconds, cpu_seconds = [], []
    for index in range(rounds + 1):
        began_at, cpu_began_at = time.perf_counter(), time.process_time()
        known.refresh()
        n_repeats = len(known.trials)  # re-runs have had their share: the sampler is asked
        chosen = agenda.next(
            list(known.trials.values()),
            n_repeats=n_repeats,
            repeated=known.repeated,
            busy=(),
            requirements=Requirements(),
        )
        seconds.append(time.perf_counter() - began_at)
        cpu_seconds.append(time.process_time() - cpu_began_at)
        assert isinstance(chosen, Suggestion | Again)
        finish(store, ref, loaded, len(known.trials) + index)
    first, *later = seconds
    print(
        f"{len(known.trials):,} trials: first {first:.3f} s, "
        f"then median {statistics.median(later):.3f} s, most {max(later):.3f} s"
    )
    print(
        f"CPU: first {cpu_seconds[0]:.3f} s, then median {statistics.median(cpu_seconds[1:]):.3f} s"
    )


def finish(store: Store, ref: StudyRef, loaded: LoadedStudy, number: int) -> None:
    """A trial with a made-up outcome."""
    params = loaded.space.repair(random_point(loaded.space, seed=1, index=number))
    trial = loaded.space.resolve(params)
    random = np.random.default_rng(number)
    row = store.add_trial(ref, origin="sampler", sampler="tpe", config=trial, params=params)
    run_id = store.add_run(
        row.trial_id,
        kind="first",
        attempt=1,
        seed=number,
        seed_kind="tuning",
        host=None,
        budget=trial.budget,
    )
    result = replace(
        lost_result(RunStatus.LOST, ""),
        status=RunStatus.COMPLETED,
        reason=None,
        updates=100,
        final_return=float(random.normal(300.0, 80.0)),
        steps_per_second=float(random.lognormal(9.0, 0.5)),
    )
    store.finish_run(run_id, result, feasible=True)


if __name__ == "__main__":
    main()
