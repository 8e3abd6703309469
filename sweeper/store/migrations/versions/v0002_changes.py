"""Trials know when they changed, so that a reader of many fetches only what is new."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"

_CHANGE_COUNT = "The study's change_count when this trial last changed."
_COMMENTS = {
    "algorithm": "ppo | a2c | acktr.",
    "optimizer": "adam | adamw | rmsprop | sgd | kfac.",
}


def upgrade() -> None:
    """Add the column, with the index that finds what is new."""
    op.add_column(
        "trials",
        sa.Column(
            "change_count",
            sa.BigInteger(),
            nullable=False,
            server_default="0",
            comment=_CHANGE_COUNT,
        ),
    )
    op.create_index("ix_trials_study_id_change_count", "trials", ["study_id", "change_count"])
    if op.get_bind().dialect.name == "postgresql":  # SQLite keeps no comments
        for column, comment in _COMMENTS.items():
            op.alter_column("trials", column, comment=comment)
