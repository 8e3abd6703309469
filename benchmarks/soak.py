"""Kills at random what belongs to a study (its launcher, a Ray worker, an environment's process)
every few seconds until it is complete, and counts: nothing lost, nothing twice, nothing left.

    python benchmarks/soak.py                     200 trials, until they are done
    python benchmarks/soak.py --seed 7 --trials 50
    python benchmarks/soak.py --postgres          and the PostgreSQL that holds the results
"""

from __future__ import annotations

import os
import random
import sys
import tempfile
import time
from argparse import ArgumentParser, RawDescriptionHelpFormatter
from contextlib import nullcontext
from pathlib import Path

TESTS = str(Path(__file__).parents[1] / "tests")
sys.path.insert(0, TESTS)
os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [TESTS, os.environ.get("PYTHONPATH")]))

from postgresql import running_postgres  # noqa: E402
from system.launching import World  # noqa: E402
from system.soaking import Soak  # noqa: E402


def main() -> None:
    options = ArgumentParser(description=__doc__, formatter_class=RawDescriptionHelpFormatter)
    options.add_argument("--seed", type=int, default=random.SystemRandom().randrange(10**6))
    options.add_argument("--trials", type=int, default=200)
    options.add_argument("--kills", type=int, default=1_000, help="at most so many")
    options.add_argument("--launcher-kills", type=int, default=40, help="of the launcher")
    options.add_argument("--postgres", action="store_true", help="results in one that is killed")
    arguments = options.parse_args()
    began_at = time.monotonic()
    with (
        tempfile.TemporaryDirectory(prefix="soak-") as folder,
        running_postgres() if arguments.postgres else nullcontext() as postgres,
    ):
        sqlite = f"sqlite:///{Path(folder) / 'results.db'}"
        world = World(Path(folder), postgres.get_uri("postgres") if postgres else sqlite)
        soak = Soak(
            world,
            seed=arguments.seed,
            trials=arguments.trials,
            most_kills=arguments.kills,
            most_launcher_kills=arguments.launcher_kills,
            postgres=postgres,
        )
        try:
            soak.run()
            soak.assert_nothing_is_lost_twice_or_left()
            (runs,) = world.sql("SELECT count(*), max(attempt) FROM runs")
        finally:
            for process in world.processes():
                process.kill()
    print(
        f"{arguments.trials} trials complete in {time.monotonic() - began_at:,.0f} s, "
        f"{soak.launches} launches and {runs[0]} runs (at most {runs[1]} of one): "
        "nothing lost, nothing twice, nothing left"
    )


if __name__ == "__main__":
    main()
