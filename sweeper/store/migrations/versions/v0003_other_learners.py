"""Learners that have no rollouts, minibatches or discount: NULL in their columns. The memory
of a GPU that a run held."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"

_COLUMNS: dict[str, Any] = {
    "optimizer": sa.Text(),
    "schedule": sa.Text(),
    "learning_rate": sa.Double(),
    "n_steps": sa.BigInteger(),
    "n_minibatches": sa.BigInteger(),
    "n_epochs": sa.BigInteger(),
    "batch_size": sa.BigInteger(),
    "minibatch_size": sa.BigInteger(),
    "gamma": sa.Double(),
    "gae_lambda": sa.Double(),
    "entropy_coef": sa.Double(),
}
_GPU_MEMORY = "Most memory in use on the GPU, by whomever."
_COMMENTS = {
    "vec_env": "serial | subproc | gymnasium.",
    "algorithm": "ppo | a2c | acktr | sb3 | module:Learner.",
    "optimizer": "adam | adamw | rmsprop | sgd | kfac; NULL, as below, for module:Learner.",
}


def upgrade() -> None:
    """Let the columns be NULL, and add the new one."""
    op.add_column("runs", sa.Column("gpu_memory_bytes", sa.BigInteger(), comment=_GPU_MEMORY))
    if op.get_bind().dialect.name == "postgresql":
        for name in _COLUMNS:
            op.alter_column("trials", name, nullable=True)
        for name, comment in _COMMENTS.items():
            op.alter_column("trials", name, comment=comment)
        return
    # SQLite cannot change a column; a copy of the table would break what refers to it.
    for name, kind in _COLUMNS.items():
        op.add_column("trials", sa.Column(f"{name}_or_null", kind))
    copied = ", ".join(f"{name}_or_null = {name}" for name in _COLUMNS)
    op.execute(f"UPDATE trials SET {copied}")  # noqa: S608 - of the names above
    for name in _COLUMNS:
        op.execute(f"ALTER TABLE trials DROP COLUMN {name}")
        op.execute(f"ALTER TABLE trials RENAME COLUMN {name}_or_null TO {name}")
