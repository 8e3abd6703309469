"""What it costs to account for every second: training with the phase timer, and without.

    python benchmarks/phase_timer.py
    python benchmarks/phase_timer.py --rounds 21

The claim: below 1% of the loop. CartPole on one serial VecEnv is the hardest case, since its
vector steps are the shortest; there is no benchmark below the noise of one machine, so quote
the ratio with its spread.
"""

from __future__ import annotations

from contextlib import ExitStack, nullcontext
from dataclasses import replace
from typing import Any

import torch
from harness import Contestant, compete, options_of, parser, print_host, report
from threadpoolctl import threadpool_limits
from training import CASES, ours

from sweeper.core.clock import MonotonicClock
from sweeper.core.timing import PhaseTimer

WITHOUT = "without"


class NoTimer(PhaseTimer):
    """Phases that are entered and left, and not timed."""

    def __call__(self, name: str) -> Any:
        """A `with` block that does nothing."""
        del name
        return _NOTHING


_NOTHING = nullcontext()


def main() -> None:
    options = options_of(parser(__doc__).parse_args())
    torch.set_num_threads(1)
    threadpool_limits(1)
    print_host()
    case = CASES["cartpole"]
    case = replace(case, rollouts=2 if options.quick else 2 * case.rollouts)
    with ExitStack() as stack:
        rows = compete(
            str(case),
            [
                Contestant("with", ours(stack, case, workers=0)),
                Contestant(WITHOUT, ours(stack, case, workers=0, timer=NoTimer(MonotonicClock()))),
            ],
            reference=WITHOUT,
            options=options,
        )
    report(rows, options)


if __name__ == "__main__":
    main()
