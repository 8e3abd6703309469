"""The words that owner and workers exchange at every step, at the front of shared memory."""

from __future__ import annotations

import numpy as np

from sweeper.envs.arrays import Carver
from sweeper.envs.semaphore import SIZE, Semaphore

IDLE, STEP, RESET, CLOSE = range(4)


class Control:
    """Commands, wake-ups, completions and cursors of all workers.

    A worker serves each of its groups by a command word of its own, so that two groups can
    be under way at once. A word is written by the owner while its group is idle and cleared
    by the worker before it answers; the last word of a worker is CLOSE's alone, so that
    closing cannot overwrite, or be lost to, a step in flight.
    """

    def __init__(self, carver: Carver, *, n_workers: int, n_groups: int) -> None:
        semaphores = carver.array((n_workers, 1 + n_groups, SIZE), np.uint8)
        words = carver.array((n_workers, n_groups + 1), np.int32)
        cursors = carver.array((n_workers,), np.int32)
        self.commands: list[memoryview] = [row.data for row in words]
        """[worker][group], and [worker][n_groups] for CLOSE."""
        self.cursors = cursors.data
        """[worker]: index of the environment that it works on."""
        self.wake = [Semaphore(row[0].ctypes.data) for row in semaphores]
        """[worker]: posted once a command."""
        self.done = [[Semaphore(cell.ctypes.data) for cell in row[1:]] for row in semaphores]
        """[worker][group]: posted once a command is carried out."""
        # An address does not keep the mapping alive.
        self._memory = semaphores

    def initialize(self) -> None:
        """Set all semaphores to zero; by the owner, before a worker looks."""
        for wake, done in zip(self.wake, self.done, strict=True):
            for semaphore in (wake, *done):
                semaphore.initialize()
