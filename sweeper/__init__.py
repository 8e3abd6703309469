"""Hyperparameter and parallelism sweeps for reinforcement learning, under wall-clock budgets.

Nothing is imported eagerly here: environment processes import this package, and they must
start without torch, ray or optuna.
"""

__version__ = "0.1.0"
