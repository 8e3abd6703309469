"""Seeds of runs: drawn, since streams of neighbouring seeds may be alike."""

from __future__ import annotations

import numpy as np


def run_seed(base: int, *indices: int) -> int:
    """The seed of a trial's first run (its number), or of a re-run (and how many came before)."""
    return int(np.random.SeedSequence([base, *indices]).generate_state(1)[0] >> 1)
