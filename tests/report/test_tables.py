from __future__ import annotations

from sweeper.report.confirmation import confirmation_table
from sweeper.report.tables import front_table


def test_the_front_without_confirmation_has_no_column_for_it(make_study, make_trial):
    trial = make_trial(1, final_return=10.0, steps_per_second=100.0, n_test_runs=0)
    table = front_table(make_study(), [trial])
    assert table.head[:3] == ("trial", "final return", "training speed (env steps/s)")
    assert not any("test" in name for name in table.head)


def test_test_values_stand_beside_tuning_values(make_study, make_trial):
    tested = make_trial(
        1,
        final_return=500.0,
        steps_per_second=1000.0,
        n_test_runs=5,
        test_final_return=420.0,
        test_steps_per_second=990.0,
    )
    other = make_trial(2, final_return=100.0, steps_per_second=9000.0, n_test_runs=0)
    table = front_table(make_study(), [tested, other])
    assert table.head[3:5] == ("final return, test seeds", "training speed, test seeds")
    assert table.rows[0][1:5] == ("500", "1,000", "420 (n = 5)", "990 (n = 5)")
    assert table.rows[1][3:5] == ("–", "–")


def test_a_confirmation_tells_both_means_with_intervals_and_its_budget_apart(
    make_study, make_trial, make_run
):
    def run(kind: str, value: float, budget: float = 10.0):
        return make_run(
            seed_kind=kind, final_return=value, steps_per_second=100.0, budget_seconds=budget
        )

    trials = [make_trial(1, origin="baseline"), make_trial(2), make_trial(3)]
    runs = {
        1: [run("tuning", 9.0), run("test", 5.0)],
        2: [run("tuning", 20.0), run("test", 10.0), run("test", 14.0), run("test", 1.0, 2.0)],
        3: [run("tuning", 30.0)],
    }
    table = confirmation_table(
        make_study(), trials, runs, budget_seconds=10.0, budget_env_steps=None
    )
    assert table.head[:5] == (
        "trial",
        "tuning runs",
        "test runs",
        "final return, tuning",
        "final return, test",
    )
    assert [row[:5] for row in table.rows] == [
        ("1 (baseline)", "1", "1", "9", "5"),
        ("2", "1", "2", "20", "12 [10, 14]"),
    ]
    short = confirmation_table(
        make_study(), trials, runs, budget_seconds=2.0, budget_env_steps=None
    )
    assert [row[4] for row in short.rows] == ["1"]
