"""Toy environments are loaded by workers, so they need a module that can be imported."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
