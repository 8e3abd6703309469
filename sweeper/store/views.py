"""The views: what people and notebooks query.

Views hold no data, so they are not migrated: `create_views` replaces them all whenever the
tables are upgraded, and this file is their only definition.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import (
    ColumnElement,
    Connection,
    Double,
    FromClause,
    Integer,
    Select,
    Text,
    and_,
    case,
    cast,
    column,
    exists,
    func,
    inspect,
    or_,
    select,
    table,
    text,
    true,
)
from sqlalchemy.sql.ddl import CreateView

from sweeper.core.records import RunStatus
from sweeper.store.schema import (
    hosts,
    measurements,
    runs,
    studies,
    study_versions,
    trial_params,
    trials,
)

_RUN_MEANS = (
    "final_return",
    "final_return_stochastic",
    "training_return",
    "steps_per_second",
    "seconds_to_threshold",
    "return_area",
    "env_steps",
    "updates",
    "episodes",
    "setup_seconds",
    "elapsed_seconds",
    "overshoot_seconds",
    "rollout_seconds",
    "inference_seconds",
    "env_wait_seconds",
    "update_seconds",
    "optimizer_seconds",
    "normalize_seconds",
    "other_seconds",
    "evaluate_seconds",
    "cpu_seconds",
    "core_seconds",
    "cpu_utilization",
    "peak_rss_bytes",
)
OBJECTIVES = (
    "final_return",
    "final_return_stochastic",
    "training_return",
    "steps_per_second",
    "seconds_to_threshold",
    "return_area",
    "core_seconds",
    "cpu_utilization",
    "peak_rss_bytes",
    "elapsed_seconds",
    "env_steps",
    "updates",
)
"""Metrics that may be objectives of a study; the view `pareto_front` knows them."""

_latest_version = (
    select(study_versions.c.study_id, func.max(study_versions.c.version_id).label("version_id"))
    .group_by(study_versions.c.study_id)
    .cte("latest_version")
)


def _usable(seed_kind: str) -> ColumnElement[bool]:
    """Runs whose figures stand for their trial: COMPLETED, and not contended unless all are."""
    other = runs.alias("uncontended")
    measured_alone = exists().where(
        other.c.trial_id == runs.c.trial_id,
        other.c.seed_kind == runs.c.seed_kind,
        other.c.status == RunStatus.COMPLETED.value,
        other.c.contended.is_not(true()),
    )
    return and_(
        runs.c.status == RunStatus.COMPLETED.value,
        runs.c.seed_kind == seed_kind,
        or_(runs.c.contended.is_not(true()), ~measured_alone),
    )


def has_budget_of_trial() -> ColumnElement[bool]:
    """Runs that trained as long as their trial says: a confirmation may train for less."""
    return and_(
        runs.c.budget_seconds.is_not_distinct_from(trials.c.budget_seconds),
        runs.c.budget_env_steps.is_not_distinct_from(trials.c.budget_env_steps),
    )


def _trial_results() -> Select[Any]:
    completed = (
        select(
            runs.c.trial_id,
            func.count().label("n_runs"),
            (func.max(case((runs.c.contended.is_(true()), 1), else_=0)) == 1).label("contended"),
            *(cast(func.avg(runs.c[name]), Double).label(name) for name in _RUN_MEANS),
        )
        .where(_usable("tuning"))
        .group_by(runs.c.trial_id)
        .cte("completed")
    )
    tested = (
        select(
            runs.c.trial_id,
            func.count().label("n_test_runs"),
            *(
                cast(func.avg(runs.c[name]), Double).label(f"test_{name}")
                for name in ("final_return", "steps_per_second")
            ),
        )
        .join(trials, trials.c.trial_id == runs.c.trial_id)
        .where(_usable("test"), has_budget_of_trial())
        .group_by(runs.c.trial_id)
        .cte("tested")
    )
    ends = (
        select(
            runs.c.trial_id,
            func.max(runs.c.run_id).label("run_id"),
            func.max(runs.c.ended_at).label("ended_at"),
        )
        .where(runs.c.seed_kind == "tuning")
        .group_by(runs.c.trial_id)
        .cte("ends")
    )
    last = runs.alias("last_run")
    params = (
        select(
            trial_params.c.trial_id,
            func.aggregate_strings(
                trial_params.c.path + "=" + func.coalesce(trial_params.c.value_text, "null"), ", "
            ).label("params"),
        )
        .group_by(trial_params.c.trial_id)
        .cte("params")
    )
    return (
        select(
            studies.c.name.label("study"),
            study_versions.c.number.label("study_version"),
            study_versions.c.env,
            *(column for column in trials.c if column.name not in ("version_id", "change_count")),
            params.c.params,
            func.coalesce(completed.c.n_runs, 0).label("n_runs"),
            *(completed.c[name] for name in _RUN_MEANS),
            completed.c.contended,
            func.coalesce(tested.c.n_test_runs, 0).label("n_test_runs"),
            tested.c.test_final_return,
            tested.c.test_steps_per_second,
            ends.c.ended_at,
            last.c.reason,
            last.c.bottleneck,
            last.c.advice,
        )
        .select_from(trials)
        .join(studies, studies.c.study_id == trials.c.study_id)
        .join(study_versions, study_versions.c.version_id == trials.c.version_id)
        .outerjoin(params, params.c.trial_id == trials.c.trial_id)
        .outerjoin(completed, completed.c.trial_id == trials.c.trial_id)
        .outerjoin(tested, tested.c.trial_id == trials.c.trial_id)
        .outerjoin(ends, ends.c.trial_id == trials.c.trial_id)
        .outerjoin(last, last.c.run_id == ends.c.run_id)
    )


_create_trial_results = CreateView(_trial_results(), "trial_results")
trial_results = _create_trial_results.table
"""A trial a row: its configuration, and the means over its COMPLETED tuning runs."""

study_objectives = table(
    "study_objectives",
    column("version_id", Integer),
    column("position", Integer),
    column("metric", Text),
    column("direction", Text),
)
"""The objectives of each study version, one a row, in the order of the study file. The one
view whose SQL differs: each database unpacks JSON in its own words.
"""
_STUDY_OBJECTIVES = {
    "sqlite": """
        CREATE VIEW study_objectives AS
        SELECT v.version_id AS version_id,
               row_number() OVER (PARTITION BY v.version_id ORDER BY o.id) AS position,
               o.key AS metric, o.value AS direction
        FROM study_versions AS v, json_each(v.objectives) AS o""",
    "postgresql": """
        CREATE VIEW study_objectives AS
        SELECT v.version_id, o.position::integer AS position, o.metric, o.direction
        FROM study_versions AS v, json_each_text(v.objectives::json)
             WITH ORDINALITY AS o (metric, direction, position)""",
}


def _pareto_front() -> Select[Any]:
    """Feasible COMPLETED trials of the study's budget that no other such trial dominates.

    Contended ones stand aside unless all of them are.

    Each objective becomes a loss (less is better); a study with fewer than three has zeros
    for the rest, which never decide. Ties stand side by side. The objectives and the budget
    are those of the latest version of the study.
    """
    result = trial_results
    objectives = [study_objectives.alias(f"objective_{position}") for position in (1, 2, 3)]
    candidates = (
        select(
            result.c.study_id,
            result.c.trial_id,
            result.c.contended,
            *(
                _loss(objective).label(f"loss_{position}")
                for position, objective in enumerate(objectives, start=1)
            ),
        )
        .select_from(result)
        .join(_latest_version, _latest_version.c.study_id == result.c.study_id)
        .join(study_versions, study_versions.c.version_id == _latest_version.c.version_id)
        .where(
            result.c.status == RunStatus.COMPLETED.value,
            result.c.feasible.is_(true()),
            result.c.budget_seconds.is_not_distinct_from(study_versions.c.budget_seconds),
            result.c.budget_env_steps.is_not_distinct_from(study_versions.c.budget_env_steps),
        )
    )
    for position, objective in enumerate(objectives, start=1):
        candidates = candidates.outerjoin(
            objective,
            and_(
                objective.c.version_id == _latest_version.c.version_id,
                objective.c.position == position,
            ),
        ).where(_loss(objective).is_not(None))
    able = candidates.cte("able")
    undisturbed = able.alias("undisturbed")
    any_is_undisturbed = exists().where(
        undisturbed.c.study_id == able.c.study_id, undisturbed.c.contended.is_not(true())
    )
    mine = (
        select(able)
        .where(or_(able.c.contended.is_not(true()), ~any_is_undisturbed))
        .cte("candidates")
    )
    other = mine.alias("other")
    losses = [(other.c[name], mine.c[name]) for name in ("loss_1", "loss_2", "loss_3")]
    dominated = exists().where(
        other.c.study_id == mine.c.study_id,
        *(theirs <= ours for theirs, ours in losses),
        or_(*(theirs < ours for theirs, ours in losses)),
    )
    return select(result).join(mine, mine.c.trial_id == result.c.trial_id).where(~dominated)


def _loss(objective: FromClause) -> ColumnElement[float]:
    """The trial's value of this objective, negated if it is maximized; 0 if there is none."""
    value = case({name: trial_results.c[name] for name in OBJECTIVES}, value=objective.c.metric)
    return case(
        (objective.c.metric.is_(None), 0.0),
        (objective.c.direction == "minimize", value),
        else_=-value,
    )


def _of_runs(*columns: ColumnElement[Any]) -> Select[Any]:
    """Columns of runs, with what people call the study and the trial."""
    return (
        select(
            studies.c.name.label("study"),
            trials.c.number.label("trial"),
            trials.c.trial_id,
            *columns,
        )
        .select_from(runs)
        .join(trials, trials.c.trial_id == runs.c.trial_id)
        .join(studies, studies.c.study_id == trials.c.study_id)
    )


def _run_spreads() -> Select[Any]:
    """One row a trial and kind of seed: mean over its runs, and how far they lie apart."""
    return (
        _of_runs(
            runs.c.seed_kind,
            func.count().label("n_runs"),
            *(
                column
                for name in ("final_return", "training_return", "steps_per_second")
                for column in (
                    cast(func.avg(runs.c[name]), Double).label(name),
                    cast(func.min(runs.c[name]), Double).label(f"{name}_lowest"),
                    cast(func.max(runs.c[name]), Double).label(f"{name}_highest"),
                    _variance(runs.c[name]).label(f"{name}_variance"),
                )
            ),
        )
        .where(runs.c.status == RunStatus.COMPLETED.value, has_budget_of_trial())
        .group_by(studies.c.study_id, trials.c.trial_id, runs.c.seed_kind)
    )


def _variance(value: ColumnElement[Any]) -> ColumnElement[float]:
    """Unbiased; NULL for a single value. In words that both databases know."""
    n, total = func.count(value), func.sum(value)
    return cast((func.sum(value * value) - total * total / n) / func.nullif(n - 1, 0), Double)


def _learning_curves() -> Select[Any]:
    return _of_runs(runs.c.kind, runs.c.seed, runs.c.status, *measurements.c).join(
        measurements, measurements.c.run_id == runs.c.run_id
    )


def _time_to_threshold() -> Select[Any]:
    """One row a COMPLETED run; a run that never got there is censored at its end."""
    return _of_runs(
        runs.c.run_id,
        runs.c.seed,
        runs.c.budget_seconds,
        runs.c.elapsed_seconds,
        runs.c.seconds_to_threshold,
        runs.c.seconds_to_threshold.is_not(None).label("reached"),
    ).where(runs.c.status == RunStatus.COMPLETED.value)


def _host_speeds() -> Select[Any]:
    """One row a trial and host, so that one configuration can be compared across machines."""
    return (
        _of_runs(
            hosts.c.host_id,
            hosts.c.hostname,
            hosts.c.hardware_class,
            hosts.c.cpu_model,
            hosts.c.usable_cores,
            func.count().label("n_runs"),
            cast(func.avg(runs.c.steps_per_second), Double).label("steps_per_second"),
            cast(func.avg(runs.c.cpu_utilization), Double).label("cpu_utilization"),
        )
        .join(hosts, hosts.c.host_id == runs.c.host_id)
        .where(runs.c.status == RunStatus.COMPLETED.value)
        .group_by(studies.c.study_id, trials.c.trial_id, hosts.c.host_id)
    )


_VIEWS = (
    _create_trial_results,
    CreateView(_pareto_front(), "pareto_front"),
    CreateView(_run_spreads(), "run_spreads"),
    CreateView(_learning_curves(), "learning_curves"),
    CreateView(_time_to_threshold(), "time_to_threshold"),
    CreateView(_host_speeds(), "host_speeds"),
)
VIEW_COLUMNS: dict[str, tuple[str, ...]] = {
    "study_objectives": tuple(study_objectives.c.keys()),
    **{view.table.name: tuple(view.table.c.keys()) for view in _VIEWS},
}
"""View -> its columns, for whoever documents or lists them."""


def create_views(connection: Connection) -> None:
    """Create every view of this file; none may exist."""
    connection.execute(text(_STUDY_OBJECTIVES[connection.dialect.name]))
    for view in _VIEWS:
        connection.execute(view)


def drop_views(connection: Connection) -> None:
    """Drop what `create_views` of this or an older release has made."""
    present = set(inspect(connection).get_view_names())
    for name in reversed(VIEW_COLUMNS):
        if name in present:
            connection.execute(text(f"DROP VIEW {name}"))
