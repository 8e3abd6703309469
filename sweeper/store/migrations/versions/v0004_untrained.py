"""What a policy that was not trained returns: a trial must beat it to stand on the front."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"

_COMMENT = "Of the policy before training; NULL until measured."


def upgrade() -> None:
    """Add the column."""
    op.add_column("study_versions", sa.Column("untrained_return", sa.Double(), comment=_COMMENT))
