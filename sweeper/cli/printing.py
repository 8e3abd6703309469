"""JSON, for programs."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from datetime import datetime
from decimal import Decimal
from typing import Any


def print_json(value: Any) -> None:
    """One JSON document on standard output."""
    print(json.dumps(plain(value), indent=2, allow_nan=False))


def json_line(value: Any) -> str:
    """One JSON document on a line of its own."""
    return json.dumps(plain(value), allow_nan=False) + "\n"


def plain(value: Any) -> Any:
    """What JSON can say: NaN and infinity are null, timestamps ISO 8601, bytes hexadecimal."""
    match value:
        case None | bool() | int() | str():
            return value
        case float():
            return value if math.isfinite(value) else None
        case Decimal():  # PostgreSQL's sums and means of whole numbers
            return plain(float(value))
        case datetime():
            return value.isoformat()
        case bytes() | memoryview():
            return value.hex()
        case Mapping():
            return {str(key): plain(item) for key, item in value.items()}
        case list() | tuple():
            return [plain(item) for item in value]
        case _:
            return str(value)
