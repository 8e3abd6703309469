"""The training return over time, as it comes in."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass
class Curve:
    """Its mean over time, and when it first reached the threshold of the environment."""

    threshold: float | None
    seconds_to_threshold: float | None = None
    _area: float = 0.0
    _seconds: float = 0.0
    _last: tuple[float, float] | None = None

    def add(self, seconds: float, mean_return: float | None, *, is_full: bool) -> None:
        """A point of the curve; `is_full` once the mean is over a hundred episodes."""
        if mean_return is None:
            return
        if self._last is not None:
            width = seconds - self._last[0]
            self._area += width * (mean_return + self._last[1]) / 2.0
            self._seconds += width
        self._last = (seconds, mean_return)
        reached = self.threshold is not None and is_full and mean_return >= self.threshold
        if reached and self.seconds_to_threshold is None:
            self.seconds_to_threshold = seconds

    @property
    def mean(self) -> float | None:
        """Mean of the training return over the time that it is known for."""
        return self._area / self._seconds if self._seconds > 0 else None
