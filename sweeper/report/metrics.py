"""What each measured quantity is called, its unit, which way is better, and how it is written."""

from __future__ import annotations

import math
from dataclasses import dataclass

from sweeper.store.rows import ParamValue, SlotRow, TrialRow


@dataclass(frozen=True, slots=True)
class Metric:
    """A measured quantity of a trial: the name is its column."""

    name: str
    title: str
    unit: str
    """Empty for a return, which is in the environment's own reward."""
    maximize: bool
    """Which way is better where the study does not say."""
    relative: bool = True
    """Whether its noise is a share of its value (a speed) or an amount (a return)."""

    @property
    def label(self) -> str:
        """Title with unit, for an axis or a table head."""
        return f"{self.title} ({self.unit})" if self.unit else self.title


METRICS: dict[str, Metric] = {
    metric.name: metric
    for metric in (
        Metric("final_return", "final return", "", True, relative=False),
        Metric("steps_per_second", "training speed", "env steps/s", True),
        Metric("training_return", "training return", "", True, relative=False),
        Metric(
            "final_return_stochastic", "final return, stochastic policy", "", True, relative=False
        ),
        Metric("return_area", "mean return over time", "", True, relative=False),
        Metric("seconds_to_threshold", "time to threshold", "s", False),
        Metric("env_steps", "env steps", "", True),
        Metric("updates", "updates", "", True),
        Metric("elapsed_seconds", "elapsed time", "s", False),
        Metric("core_seconds", "core time", "core-seconds", False),
        Metric(
            "cpu_utilization", "CPU utilization", "share of reserved cores", True, relative=False
        ),
        Metric("peak_rss_bytes", "peak memory", "bytes", False),
    )
}
"""In the order in which they are offered as axes."""


def value_of(row: TrialRow | SlotRow, metric: str) -> float | None:
    """The value of a metric of a trial or run, None where it was not measured."""
    value: float | None = getattr(row, metric)
    return value


def format_number(value: float | None, digits: int = 3) -> str:
    """`digits` significant digits, thousands apart, no exponent between 1e-4 and 1e15."""
    if value is None:
        return "–"
    if not math.isfinite(value):
        return str(value)
    if value == 0:
        return "0"
    magnitude = math.floor(math.log10(abs(value)))
    if magnitude < -4 or magnitude >= 15:
        mantissa, exponent = f"{value:.{digits - 1}e}".split("e")
        return f"{mantissa.rstrip('0').rstrip('.')}e{int(exponent)}"
    rounded = round(value, digits - 1 - magnitude)
    if magnitude >= digits - 1:
        return f"{rounded:,.0f}".replace("-", "−")
    text = f"{rounded:,.{digits - 1 - magnitude}f}"
    return text.rstrip("0").rstrip(".").replace("-", "−")


def format_seconds(seconds: float | None) -> str:
    """A duration for people: `8.2 s`, `11 min`, `2 h 5 min`, `3 d 4 h`."""
    if seconds is None:
        return "–"
    if seconds < 100:
        return f"{format_number(seconds)} s"
    minutes = round(seconds / 60)
    if minutes < 60:
        return f"{minutes} min"
    hours, minutes = divmod(minutes, 60)
    if hours < 24:
        return f"{hours} h {minutes} min" if minutes else f"{hours} h"
    days, hours = divmod(hours, 24)
    return f"{days} d {hours} h" if hours else f"{days} d"


def format_bytes(size: float | None) -> str:
    """Decimal units: `412 MB`, `1.9 GB`."""
    if size is None:
        return "–"
    for unit, scale in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if size >= scale:
            return f"{format_number(size / scale)} {unit}"
    return f"{size:.0f} B"


def format_metric(metric: str, value: float | None) -> str:
    """A metric's value as tables show it (the unit stands in the head)."""
    return format_bytes(value) if metric.endswith("_bytes") else format_number(value)


def format_param(value: ParamValue) -> str:
    """A searched parameter's value; whole numbers stay whole."""
    match value:
        case bool():
            return "yes" if value else "no"
        case int():
            return str(value)
        case float():
            return format_number(value)
        case None:
            return "null"
        case _:
            return str(value)


def short_names(paths: list[str]) -> dict[str, str]:
    """Dotted path -> the fewest last parts that tell it from the others.

    A path that ends in `kind` keeps the part before it: `optimizer.kind` says more than `kind`.
    """
    parts = {path: path.split(".") for path in paths}
    short = {path: 2 if names[-1] == "kind" else 1 for path, names in parts.items()}
    for path, names in parts.items():
        while short[path] < len(names) and any(
            other != path and parts[other][-short[path] :] == names[-short[path] :]
            for other in paths
        ):
            short[path] += 1
    return {path: ".".join(names[-short[path] :]) for path, names in parts.items()}
