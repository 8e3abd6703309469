"""The copy for Optuna, read back by Optuna."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import optuna
import pytest

from sweeper.core.clock import BudgetSpec
from sweeper.core.errors import InputError
from sweeper.core.records import PhaseSeconds, RunResult, RunStatus
from sweeper.store import queries
from sweeper.store.store import Store
from sweeper.study.export_optuna import export_optuna
from sweeper.trial.spec import TrialSpec

START = datetime(2030, 1, 1, tzinfo=UTC)


@pytest.fixture
def study(tmp_path):
    """Study and trials of a database with a trial of every kind of end."""
    url = f"sqlite:///{tmp_path / 'sweeper.db'}"
    now = START
    config = TrialSpec.model_validate(
        {
            "env": {"id": "CartPole-v1"},
            "algorithm": {"kind": "ppo", "n_steps": 64, "n_minibatches": 4},
            "budget": {"seconds": 10},
        }
    )
    with Store.open(url, now=lambda: now) as store:
        ref = store.ensure_study(
            "speed",
            env="CartPole-v1",
            spec_yaml="",
            spec_sha256="",
            objectives={"final_return": "maximize", "core_seconds": "minimize"},
            constraints={},
            budget=BudgetSpec(seconds=10),
        )
        statuses = (RunStatus.COMPLETED, RunStatus.COMPLETED, RunStatus.DIVERGED, RunStatus.PRUNED)
        for i, status in enumerate(statuses):
            params = {"n_envs": 4**i, "rate": 1e-4 * 10**i, "kind": "adam" if i else None}
            trial = store.add_trial(
                ref, origin="sampler", sampler="tpe", config=config, params=params
            )
            run_id = store.add_run(
                trial.trial_id,
                kind="first",
                attempt=1,
                seed=0,
                seed_kind="tuning",
                host=None,
                budget=BudgetSpec(seconds=10),
            )
            now += timedelta(seconds=10)
            result = RunResult(
                status=status,
                reason="why" if i > 1 else None,
                setup_seconds=0,
                elapsed_seconds=10,
                overshoot_seconds=0,
                env_steps=1,
                episodes=1,
                updates=20,
                steps_per_second=1.0,
                final_return=None if i == 1 else 100.0,
                final_return_stochastic=None,
                training_return=None,
                seconds_to_threshold=None,
                return_area=None,
                phases=PhaseSeconds(),
                evaluate_seconds=0,
                cpu_seconds=None,
                core_seconds=10.0,
                cpu_utilization=None,
                peak_rss_bytes=None,
                involuntary_switches=None,
            )
            store.finish_run(run_id, result, feasible=True)
        store.add_trial(ref, origin="sampler", sampler="tpe", config=config, params={"n_envs": 2})
    reader = queries.open_reader(url)
    row = queries.study(reader, "speed")
    yield row, queries.trials(reader, row.study_id)
    reader.dispose()


def test_optuna_reads_the_copy_with_values_states_and_real_parameters(study, tmp_path):
    storage = f"sqlite:///{tmp_path / 'optuna.db'}"
    assert export_optuna(*study, storage) == 5
    copy = optuna.load_study(study_name="speed", storage=storage)
    assert [d.name for d in copy.directions] == ["MAXIMIZE", "MINIMIZE"]
    assert copy.metric_names == ["final_return", "core_seconds"]
    assert [t.state.name for t in copy.trials] == ["COMPLETE", "FAIL", "FAIL", "PRUNED", "WAITING"]
    first = copy.trials[0]
    assert first.values == [100.0, 10.0]
    assert first.params == {"n_envs": 1, "rate": 1e-4, "kind": "None"}
    assert first.datetime_start == START.replace(tzinfo=None)
    assert first.duration == timedelta(seconds=10)
    assert first.user_attrs["sweeper.number"] == 1
    assert copy.trials[2].user_attrs["sweeper.reason"] == "why"
    assert copy.trials[1].distributions["n_envs"].log
    assert [t.number for t in copy.best_trials] == [0]


def test_taken_name_is_refused(study, tmp_path):
    storage = f"sqlite:///{tmp_path / 'optuna.db'}"
    export_optuna(*study, storage)
    with pytest.raises(InputError, match="holds a study 'speed' already"):
        export_optuna(*study, storage)


def test_storage_that_is_none_is_refused_in_one_line(study, tmp_path):
    for storage in ("nonsense://x", f"sqlite:///{tmp_path}/no/folder.db"):
        with pytest.raises(InputError, match="cannot be used") as caught:
            export_optuna(*study, storage)
        assert "\n" not in str(caught.value)


def test_sweepers_own_database_is_left_alone(study, tmp_path):
    url = f"sqlite:///{tmp_path / 'sweeper.db'}"
    with pytest.raises(InputError, match="cannot be used"):
        export_optuna(*study, url)
    assert queries.study(queries.open_reader(url), "speed").n_trials == 5
