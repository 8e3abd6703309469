"""`sweeper export`: a trial or a whole study, for sweeper itself and for others."""

from __future__ import annotations

import io
import sys
from pathlib import Path

from sweeper.cli.reading import reading
from sweeper.core.errors import InputError
from sweeper.report.export import study_json, study_table, trial_yaml, write_csv, write_parquet
from sweeper.report.peers import PEERS, peer_steps
from sweeper.store import queries
from sweeper.trial.spec import TrialSpec

TRIAL_FORMATS = ("yaml", *PEERS)
STUDY_FORMATS = ("json", "csv", "parquet", "optuna")


def export_trial(study: str, *, number: int, db: str, form: str = "yaml") -> None:
    """Print a trial's resolved configuration: as YAML for `sweeper run`, or for a peer."""
    if form not in TRIAL_FORMATS:
        raise InputError(f"a trial is exported as one of {', '.join(TRIAL_FORMATS)}, got {form!r}")
    with reading(db) as engine:
        row = queries.study(engine, study)
        trial = queries.trial(engine, row.study_id, number)
    if form == "yaml":
        print(trial_yaml(row, trial), end="")
    else:
        spec = TrialSpec.model_validate_json(trial.config_json)
        print(PEERS[form](spec, env_steps=peer_steps(trial)), end="")


def export_study(study: str, *, db: str, form: str, out: str | None) -> None:
    """Write a study: JSON and CSV to standard output or a file, Parquet to a file, and for
    Optuna to a storage that `out` names by its URL."""
    if form not in STUDY_FORMATS:
        raise InputError(f"a study is exported as one of {', '.join(STUDY_FORMATS)}, got {form!r}")
    if form in ("parquet", "optuna") and out is None:
        name = "FILE" if form == "parquet" else "sqlite:///FILE"
        raise InputError(f"--as {form} needs --out {name}")
    with reading(db) as engine:
        row = queries.study(engine, study)
        trials = queries.trials(engine, row.study_id)
        runs = queries.study_runs(engine, row.study_id) if form == "json" else []
    if form == "optuna":
        from sweeper.study.export_optuna import export_optuna  # noqa: PLC0415 - a second

        assert out is not None
        print(f"wrote {export_optuna(row, trials, out)} trials to {out}")
    elif form == "parquet":
        assert out is not None
        write_parquet(Path(out), study_table(trials))
        print(f"wrote {out}")
    elif form == "csv":
        text = io.StringIO(newline="")
        write_csv(text, study_table(trials))
        _write(text.getvalue(), out)
    else:
        _write(study_json(row, trials, runs) + "\n", out)


def _write(text: str, out: str | None) -> None:
    if out is None:
        sys.stdout.write(text)
        return
    try:
        Path(out).write_text(text, encoding="utf-8", newline="")
    except OSError as error:
        raise InputError(f"{out} cannot be written: {error.strerror}") from error
    print(f"wrote {out}")
