from __future__ import annotations

import json
import math
from datetime import UTC, datetime
from decimal import Decimal

from sweeper.cli.printing import json_line, plain


def test_what_json_cannot_say_is_null() -> None:
    assert plain([math.nan, math.inf, -math.inf, 1.5]) == [None, None, None, 1.5]
    assert plain({"a": {"b": (math.nan,)}}) == {"a": {"b": [None]}}


def test_what_a_database_may_answer_is_plain() -> None:
    moment = datetime(2030, 1, 2, tzinfo=UTC)
    answer = (1, True, None, "x", b"\xff", Decimal("2.5"), Decimal("NaN"), moment)
    assert plain(answer) == [1, True, None, "x", "ff", 2.5, None, "2030-01-02T00:00:00+00:00"]


def test_a_record_is_one_line() -> None:
    line = json_line({"reason": "one\ntwo"})
    assert line.count("\n") == 1
    assert json.loads(line) == {"reason": "one\ntwo"}
