"""What every benchmark here shares: contestants take turns, and the host is named.

A benchmark gives `compete` its contestants (a name, and a function that works for a while and
returns how many units it did). Each is warmed up; then they take turns for a number of
rounds. Printed are the median rate of each, its spread (interquartile range, as a share of
the median), and the median over the rounds of its ratio to a reference. Turns are what makes
ratios worth quoting: what disturbs the machine disturbs everybody.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import sys
import time
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

WATCHED_PACKAGES = ("sweeper", "numpy", "gymnasium", "torch", "stable-baselines3", "mujoco")


@dataclass(frozen=True)
class Contestant:
    """Something that does units of work, measured in turn with others."""

    name: str
    work: Callable[[], int]
    """One turn; returns the number of units done in it (env steps, say)."""


@dataclass(frozen=True)
class Row:
    """A contestant's result in one case."""

    case: str
    name: str
    median: float
    """Units per second."""
    spread: float
    """Interquartile range / median."""
    ratio: float
    """Median over rounds of this rate / the reference's in the same round."""
    rates: tuple[float, ...]


@dataclass(frozen=True)
class Options:
    """How long to measure and where to write."""

    rounds: int
    quick: bool
    json: Path | None


def parser(description: str | None) -> argparse.ArgumentParser:
    """The options that all benchmarks have; add your own to it."""
    options = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("--rounds", type=int, default=9, help="turns of each contestant")
    options.add_argument("--quick", action="store_true", help="3 short rounds: does it run?")
    options.add_argument("--json", type=Path, metavar="FILE", help="write all rates and the host")
    return options


def options_of(arguments: argparse.Namespace) -> Options:
    """The shared options as parsed."""
    return Options(3 if arguments.quick else arguments.rounds, arguments.quick, arguments.json)


def compete(
    case: str, contestants: list[Contestant], *, reference: str, options: Options
) -> list[Row]:
    """Warm each up, then let them take turns; prints and returns a row each.

    Every other round runs in reverse, so that nobody always follows the same neighbour.
    """
    rates: dict[str, list[float]] = {each.name: [] for each in contestants}
    for each in contestants:
        each.work()
    for round_number in range(options.rounds):
        for each in contestants[:: 1 if round_number % 2 == 0 else -1]:
            begun = time.perf_counter()
            units = each.work()
            rates[each.name].append(units / (time.perf_counter() - begun))
    rows = [_row(case, name, values, rates[reference]) for name, values in rates.items()]
    _print_table(case, rows, reference)
    return rows


def report(rows: Iterable[Row], options: Options) -> None:
    """Write the rows and the host to `--json FILE`, if it was given."""
    if options.json is not None:
        document = {"host": host(), "rows": [asdict(row) for row in rows]}
        options.json.write_text(json.dumps(document, indent=2) + "\n")


def host() -> dict[str, str | int]:
    """What a figure must be quoted with."""
    versions: dict[str, str | int] = {}
    for package in WATCHED_PACKAGES:
        try:
            versions[package] = version(package)
        except PackageNotFoundError:
            continue
    return {
        "cpu": _cpu_model(),
        "usable_cores": len(os.sched_getaffinity(0)),
        "kernel": platform.release(),
        "python": platform.python_version(),
        **versions,
    }


def print_host() -> None:
    """One line on the machine and the versions."""
    print(", ".join(f"{key} {value}" for key, value in host().items()), file=sys.stderr)


def _row(case: str, name: str, rates: list[float], reference: list[float]) -> Row:
    low, median, high = statistics.quantiles(rates, n=4, method="inclusive")
    ratio = statistics.median(a / b for a, b in zip(rates, reference, strict=True))
    return Row(case, name, median, (high - low) / median, ratio, tuple(rates))


def _print_table(case: str, rows: list[Row], reference: str) -> None:
    width = max(len(row.name) for row in rows)
    print(f"\n{case}\n{'':{width}}  {'median/s':>12}  {'spread':>6}  x {reference}")
    for row in rows:
        print(f"{row.name:{width}}  {row.median:12,.0f}  {row.spread:6.1%}  {row.ratio:.3f}")


def _cpu_model() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()
