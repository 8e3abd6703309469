from __future__ import annotations

from rich.cells import cell_len

from sweeper.cli.table import table_lines

HEAD = ("trial", "final return", "training speed (env steps/s)", "optimizer.learning_rate", "kind")
ROWS = [
    ("3", "500", "28,900", "0.001", "adam"),
    ("12", "−42.5", "1,062,900", "", "rmsprop"),
]


def test_numbers_stand_to_the_right_and_words_to_the_left() -> None:
    assert table_lines(("n", "name", "speed"), [("1", "a", "9"), ("10", "bc", "1,000")]) == [
        " n  name  speed",
        "──  ────  ─────",
        " 1  a         9",
        "10  bc    1,000",
    ]


def test_no_line_ends_in_spaces() -> None:
    assert not [line for line in table_lines(HEAD, ROWS) if line != line.rstrip()]


def test_a_pipe_has_no_width() -> None:
    lines = table_lines(("a", "b"), [("x" * 5000, "y" * 5000)])
    assert lines[-1] == f"{'x' * 5000}  {'y' * 5000}"


def test_heads_are_broken_before_anything_else_is() -> None:
    whole = table_lines(HEAD, ROWS)
    narrow = table_lines(HEAD, ROWS, width=60)
    assert max(map(len, whole)) > 60
    assert max(map(len, narrow)) <= 60
    assert len(narrow) > len(whole)
    for row in ROWS:
        line = next(line for line in narrow if line.split()[:1] == [row[0]])
        assert line.split() == [cell for cell in row if cell]


def test_a_head_is_not_broken_where_it_fits() -> None:
    assert len(table_lines(HEAD, ROWS, width=200)) == 2 + len(ROWS)


def test_a_row_becomes_a_list_where_its_cells_do_not_fit() -> None:
    assert table_lines(("trial", "n"), [("1", "a" * 30), ("2", "b")], width=20) == [
        "trial  1",
        f"n      {'a' * 30}",
        "─────",
        "trial  2",
        "n      b",
    ]


def test_every_width_shows_every_cell() -> None:
    for width in range(1, 120):
        text = "\n".join(table_lines(HEAD, ROWS, width=width))
        assert all(cell in text for row in ROWS for cell in row)


def test_what_an_environment_printed_says_nothing_to_the_terminal() -> None:
    lines = table_lines(("reason",), [("a\nb\x1b[2J",)])
    assert lines[-1] == r"a\nb\x1b[2J"


def test_wide_characters_take_two_columns() -> None:
    lines = table_lines(("study", "x"), [("試行", "a"), ("s", "b")])
    assert cell_len(lines[-2].removesuffix("a")) == cell_len(lines[-1].removesuffix("b"))


def test_an_empty_table_is_its_head() -> None:
    assert table_lines(("a", "bc"), []) == ["a  bc", "─  ──"]
