"""What the address of a study's page says: axes, filter, sort order, brushed box, page."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, field_validator

from sweeper.report.metrics import METRICS
from sweeper.store.rows import StudyRow
from sweeper.web.trial_table import Box


def _known_metric(name: str) -> str:
    if name not in METRICS:
        raise ValueError(f"must be one of {', '.join(METRICS)}, got {name!r}")
    return name


MetricName = Annotated[str, AfterValidator(_known_metric), Field(max_length=100)]


class StudyState(BaseModel):
    """Query parameters of a study's page, its JSON twin, its figures and its CSV."""

    model_config = ConfigDict(frozen=True, use_attribute_docstrings=True)

    x: MetricName | None = None
    """Metric of the horizontal axis; the second objective by default."""
    y: MetricName | None = None
    """Metric of the vertical axis; the first objective by default."""
    log: tuple[Literal["x", "y"], ...] = ()
    """Axes with a logarithmic scale."""
    sort: str = Field(default="", max_length=200)
    """Column to sort by; `-column` descends."""
    filter: str = Field(default="", max_length=1000)
    """Words and comparisons that must hold, apart by spaces."""
    box: str = Field(default="", pattern=r"^$|^[-+.eE\d]+(,[-+.eE\d]+){3}$", max_length=200)
    """Brushed rectangle `x0,x1,y0,y1`, in the units of the axes."""
    columns: str = Field(default="", max_length=2000)
    """Columns of the table, apart by commas; empty for the usual ones."""
    selected: str = Field(default="", pattern=r"^$|^\d{1,9}(,\d{1,9})*$", max_length=200)
    """Numbers of the trials marked to be compared."""
    page: int = Field(default=1, ge=1, le=1_000_000)
    """Page of the table."""

    @field_validator("x", "y", mode="before")
    @classmethod
    def _empty_is_default(cls, value: Any) -> Any:
        return value or None

    @field_validator("box")
    @classmethod
    def _four_numbers(cls, value: str) -> str:
        for part in value.split(",") if value else ():
            float(part)
        return value

    @property
    def marked(self) -> frozenset[int]:
        """The trials marked to be compared."""
        return frozenset(int(part) for part in self.selected.split(",") if part)

    @property
    def chosen_columns(self) -> tuple[str, ...]:
        """Keys of the chosen columns; empty for the usual ones."""
        return tuple(dict.fromkeys(filter(None, self.columns.split(","))))

    def axes(self, study: StudyRow) -> tuple[str, str]:
        """The two metrics, with the study's objectives in place of what is not said."""
        objectives = list(study.objectives)
        y = self.y or next(m for m in (*objectives, *METRICS) if m != self.x)
        x = self.x or next(m for m in (*reversed(objectives), *METRICS) if m != y)
        return x, y

    def brushed(self, study: StudyRow) -> Box | None:
        """The brushed rectangle, if there is one."""
        if not self.box:
            return None
        x0, x1, y0, y1 = map(float, self.box.split(","))
        x, y = self.axes(study)
        return Box(x, y, (min(x0, x1), max(x0, x1)), (min(y0, y1), max(y0, y1)))
