"""`sweeper.open(url)`: a results database for notebooks, as pandas frames and Plotly figures."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

from sweeper.core.errors import InputError
from sweeper.report.export import study_table
from sweeper.report.figures import pareto_figure
from sweeper.report.pareto import study_front
from sweeper.store import queries
from sweeper.store.rows import StudyRow, TrialRow
from sweeper.store.sql import run_sql

if TYPE_CHECKING:
    import pandas
    import plotly.graph_objects as go


def open_results(url: str = "sqlite:///sweeper.db") -> ResultsDatabase:
    """Open a results database to read it.

    Raises DatabaseError for a database that cannot be read, InputError without pandas.
    """
    _pandas()
    return ResultsDatabase(url)


class ResultsDatabase:
    """Frames of the tables and views of docs/schema.md. Only ever reads; close it, or use `with`.

    A study is named, or the last launched one is meant.
    """

    def __init__(self, url: str) -> None:
        self._engine = queries.open_reader(url)

    def studies(self) -> pandas.DataFrame:
        """A study a row, the last launched first."""
        return self.sql(
            "SELECT s.name AS study, v.env, v.number AS version, v.budget_seconds, "
            "v.budget_env_steps, s.target_trials, s.created_at, s.launched_at "
            "FROM studies AS s JOIN study_versions AS v ON v.study_id = s.study_id "
            "WHERE v.version_id = (SELECT max(version_id) FROM study_versions AS latest "
            "WHERE latest.study_id = s.study_id) ORDER BY s.launched_at DESC, s.study_id DESC"
        )

    def trials(self, study: str | None = None) -> pandas.DataFrame:
        """A trial a row, indexed by its number: the view `trial_results`, with a column for each
        searched parameter in place of `params`."""
        return _frame(self._trials(study)[1])

    def front(self, study: str | None = None) -> pandas.DataFrame:
        """The trials on the front, the best of the first objective first."""
        return _frame(study_front(*self._trials(study)))

    def curves(self, study: str | None = None, trial: int | None = None) -> pandas.DataFrame:
        """A measurement a row: the view `learning_curves`, of one trial if it is given."""
        row = queries.study(self._engine, study)
        chosen = f"t.study_id = {row.study_id}"
        if trial is not None:
            chosen += f" AND t.number = {int(trial)}"
        return self.sql(
            "SELECT c.* FROM learning_curves AS c JOIN trials AS t ON t.trial_id = c.trial_id "  # noqa: S608 - whole numbers
            f"WHERE {chosen} ORDER BY c.trial, c.run_id, c.env_steps"
        )

    def sql(self, query: str) -> pandas.DataFrame:
        """The answer to one SELECT. Raises InputError, in the database's words, for any other."""
        result = run_sql(self._engine, query)
        return _pandas().DataFrame.from_records(list(result.rows), columns=list(result.columns))

    def pareto(self, study: str | None = None, **options: Any) -> go.Figure:
        """The figure of the dashboard and of `sweeper pareto`; options of `pareto_figure`."""
        return pareto_figure(*self._trials(study), **options)

    def close(self) -> None:
        """Give up all connections; safe to call twice."""
        self._engine.dispose()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    def _trials(self, study: str | None) -> tuple[StudyRow, list[TrialRow]]:
        row = queries.study(self._engine, study)
        return row, queries.trials(self._engine, row.study_id)


def _frame(trials: list[TrialRow] | tuple[TrialRow, ...]) -> pandas.DataFrame:
    return _pandas().DataFrame(study_table(trials)).set_index("number")


def _pandas() -> Any:
    try:
        import pandas  # noqa: PLC0415 - optional, and a second to import
    except ModuleNotFoundError:
        raise InputError("frames need pandas; type `pip install 'sweeper[notebook]'`") from None
    return pandas
