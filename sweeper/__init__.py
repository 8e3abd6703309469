"""Hyperparameter and parallelism sweeps for reinforcement learning, under wall-clock budgets.

Nothing is imported eagerly here: environment processes import this package, and they must
start without torch, ray or optuna. `sweeper.open(url)` gives notebooks a results database as
pandas frames.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sweeper.report.notebook import open_results as open  # noqa: A004, F401

__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    if name == "open":
        from sweeper.report.notebook import open_results  # noqa: PLC0415

        return open_results
    raise AttributeError(f"module 'sweeper' has no attribute {name!r}")
