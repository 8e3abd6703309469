"""docs/queries.md shows every named query, word for word."""

from __future__ import annotations

import re
from pathlib import Path

from sweeper.store.questions import all_questions

DOCUMENT = (Path(__file__).parents[2] / "docs" / "queries.md").read_text("utf-8")


def test_document_holds_the_named_queries_and_no_other():
    sections = re.findall(r"^## ([\w-]+)\n\n(.+?)\n\n```sql\n(.*?)\n```", DOCUMENT, re.M | re.S)
    assert sections == [(each.name, each.question, each.sql) for each in all_questions()]


def test_every_query_is_shown_with_an_answer():
    answers = re.findall(r"```\n\n```\n(.*?)\n```", DOCUMENT, re.S)
    assert len(answers) == len(all_questions())
    empty = sum(answer == "(no rows)" for answer in answers)
    assert empty <= len(answers) // 4
