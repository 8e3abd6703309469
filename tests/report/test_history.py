from __future__ import annotations

from datetime import UTC, datetime, timedelta

from sweeper.report.history import MAX_BARS, timeline_figure

START = datetime(2030, 1, 1, tzinfo=UTC)


def at(seconds):
    return START + timedelta(seconds=seconds)


def bars(figure):
    return {
        (row, base, base + length): number
        for trace in figure.data
        for row, base, length, (number,) in zip(
            trace.y, trace.base, trace.x, trace.customdata, strict=True
        )
    }


def test_run_stands_on_the_row_of_its_cores(make_study, make_slot):
    runs = [
        make_slot(number=1, started_at=at(0), ended_at=at(10), leased_cores="0,1"),
        make_slot(number=2, started_at=at(2), ended_at=at(7), leased_cores="2", status="LOST"),
        make_slot(number=3, started_at=at(12), status="RUNNING", leased_cores="0,1"),
    ]
    figure = timeline_figure(make_study(), runs, now=at(20))
    assert bars(figure) == {
        ("core 0, 1", 0.0, 10.0): 1,
        ("core 2", 2.0, 7.0): 2,
        ("core 0, 1", 12.0, 20.0): 3,
    }
    patterns = {trace.name: trace.marker.pattern.shape for trace in figure.data}
    assert len(set(patterns.values())) == 3, "told apart by more than colour"


def test_runs_without_cores_take_the_first_free_slot(make_study, make_slot):
    runs = [
        make_slot(number=1, started_at=at(0), ended_at=at(10)),
        make_slot(number=2, started_at=at(1), ended_at=at(5)),
        make_slot(number=3, started_at=at(6), ended_at=at(8)),
    ]
    rows = {
        number: row
        for (row, _, _), number in bars(timeline_figure(make_study(), runs, now=at(20))).items()
    }
    assert rows == {1: "slot 1", 2: "slot 2", 3: "slot 2"}


def test_only_the_latest_runs_are_drawn(make_study, make_slot):
    runs = [
        make_slot(number=n, started_at=at(n), ended_at=at(n + 1), leased_cores="0")
        for n in range(1, MAX_BARS + 51)
    ]
    figure = timeline_figure(make_study(), runs, now=at(999))
    assert min(bars(figure).values()) == 51
    assert f"last {MAX_BARS} runs" in figure.layout.xaxis.title.text
