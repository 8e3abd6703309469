from __future__ import annotations

import os
import re
import stat
import struct

import pytest

from sweeper.core.errors import InputError
from sweeper.report.figures import pareto_figure
from sweeper.report.render import write_html, write_png
from sweeper.report.tables import Table, front_table


@pytest.fixture
def trials(make_trial):
    return [
        make_trial(1, final_return=200.0, steps_per_second=9_000.0),
        make_trial(2, final_return=500.0, steps_per_second=4_000.0, params={"env.id": "</script>"}),
    ]


def test_front_table_has_a_row_a_trial_and_a_column_a_parameter(make_study, trials):
    table = front_table(make_study(), trials)
    assert table.head == (
        "trial",
        "final return",
        "training speed (env steps/s)",
        "id",
        "n_envs",
        "learning_rate",
    )
    assert table.rows == (
        ("2", "500", "4,000", "</script>", "", ""),
        ("1", "200", "9,000", "", "2", "0.0003"),
    )


def test_html_is_one_file_that_names_no_other(tmp_path, make_study, trials):
    path = tmp_path / "front.html"
    study = make_study()
    write_html(pareto_figure(study, trials), path, title="a <b>", table=front_table(study, trials))
    page = path.read_text()
    assert "a &lt;b&gt;" in page
    assert "&lt;/script&gt;" in page
    assert not re.search(r"""<(script|link|img)[^>]*(src|href)=""", page)
    assert "plotly.js v" in page
    assert [p.name for p in tmp_path.iterdir()] == ["front.html"]


def test_file_has_the_mode_that_the_umask_allows(tmp_path, make_study):
    before = os.umask(0o027)
    try:
        write_html(pareto_figure(make_study(), []), tmp_path / "f.html", title="")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "f.html").stat().st_mode) == 0o640


def test_path_that_cannot_be_written_is_an_input_error(tmp_path, make_study):
    with pytest.raises(InputError, match=r"nowhere.*cannot be written: No such file"):
        write_html(
            pareto_figure(make_study(), []),
            tmp_path / "nowhere" / "f.html",
            title="",
            table=Table((), ()),
        )


@pytest.mark.browser
def test_png_has_the_size_that_was_asked_for(tmp_path, make_study, trials):
    path = tmp_path / "front.png"
    write_png(pareto_figure(make_study(), trials), path, width=600, height=400, scale=2)
    content = path.read_bytes()
    assert content[:8] == b"\x89PNG\r\n\x1a\n"
    assert struct.unpack(">II", content[16:24]) == (1200, 800)


@pytest.mark.browser
def test_missing_browser_is_an_input_error_that_says_what_to_install(
    tmp_path, make_study, monkeypatch
):
    monkeypatch.setenv("BROWSER_PATH", str(tmp_path / "no-chrome"))
    with pytest.raises(InputError, match="install"):
        write_png(pareto_figure(make_study(), []), tmp_path / "front.png")
