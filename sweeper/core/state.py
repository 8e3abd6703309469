"""Where this user's programs keep what outlives them and is nobody's document."""

from __future__ import annotations

import os
from pathlib import Path


def state_folder() -> Path:
    """`sweeper` in $XDG_STATE_HOME, else in ~/.local/state; perhaps not there yet."""
    home = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return Path(home).absolute() / "sweeper"
