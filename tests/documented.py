"""The files that docs/learners.md shows."""

from __future__ import annotations

import re
from pathlib import Path

PAGE = Path(__file__).parents[1] / "docs" / "learners.md"


def write_example(folder: Path) -> None:
    """`cross_entropy.py` and `study.yaml`, to the letter."""
    text = PAGE.read_text(encoding="utf-8")
    (code,) = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    (study,) = re.findall(r"```yaml\n(study:.*?)```", text, re.DOTALL)
    (folder / "cross_entropy.py").write_text(code, encoding="utf-8")
    (folder / "study.yaml").write_text(study, encoding="utf-8")
