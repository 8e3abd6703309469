"""The commands that read results, and those that look after the database."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from sweeper.cli.options import DEFAULT_DB, Db, Json, StudyName

app = typer.Typer()
db_app = typer.Typer(help="Look after the results database.")
app.add_typer(db_app, name="db")


@app.command()
def status(study: StudyName = None, db: Db = DEFAULT_DB, as_json: Json = False) -> None:
    """How far the studies of the database are."""
    from sweeper.cli.status import show_status

    show_status(study, db=db, as_json=as_json)


@app.command()
def pareto(
    study: StudyName = None,
    db: Db = DEFAULT_DB,
    html: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write a plot that opens offline.")
    ] = None,
    png: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write an image (needs Chrome).")
    ] = None,
    hardware: Annotated[
        str | None,
        typer.Option(metavar="WORDS", help="Only trials of the hardware whose name has them."),
    ] = None,
    as_json: Json = False,
) -> None:
    """The front of a study: what no other trial beats."""
    from sweeper.cli.front import show_pareto

    show_pareto(study, db=db, html=html, png=png, hardware=hardware, as_json=as_json)


@app.command()
def speedup(
    study: StudyName = None,
    trial: Annotated[
        int | None,
        typer.Option("--trial", min=1, metavar="N", help="Not the quickest, but this one."),
    ] = None,
    db: Db = DEFAULT_DB,
    as_json: Json = False,
) -> None:
    """How much sooner a trial is as good as the baseline: before, after, factor."""
    from sweeper.cli.speedup import show_speedup

    show_speedup(study, number=trial, db=db, as_json=as_json)


@app.command()
def query(
    sql: Annotated[
        str | None,
        typer.Argument(
            metavar="SQL", help="One SELECT, or the name of a query; `-` reads it from stdin."
        ),
    ] = None,
    file: Annotated[
        Path | None, typer.Option("--file", "-f", metavar="FILE", help="Read the SELECT from it.")
    ] = None,
    db: Db = DEFAULT_DB,
    named: Annotated[bool, typer.Option("--list", help="List the named queries.")] = False,
    as_csv: Annotated[bool, typer.Option("--csv", help="Print CSV.")] = False,
    parquet: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write Parquet (needs sweeper[parquet]).")
    ] = None,
    as_json: Json = False,
) -> None:
    """Ask the results database, read-only."""
    from sweeper.cli.query import list_questions, read_sql, run_query

    if named:
        list_questions(as_json=as_json)
    else:
        run_query(read_sql(sql, file), db=db, as_csv=as_csv, as_json=as_json, parquet=parquet)


@app.command()
def export(
    study: Annotated[str, typer.Argument(metavar="STUDY", help="Its name.")],
    trial: Annotated[
        int | None,
        typer.Option("--trial", min=1, metavar="N", help="Number of one trial to export."),
    ] = None,
    form: Annotated[
        str | None,
        typer.Option(
            "--as",
            metavar="FORMAT",
            help="A trial: yaml, sb3, zoo, cleanrl. A study: json, csv, parquet, optuna.",
        ),
    ] = None,
    out: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="Where a study goes; for optuna, a storage URL."),
    ] = None,
    db: Db = DEFAULT_DB,
) -> None:
    """A trial as YAML, which `sweeper run` takes, or for others; or a whole study."""
    from sweeper.cli.export import export_study, export_trial

    if trial is None:
        export_study(study, db=db, form=form or "json", out=out)
    else:
        export_trial(study, number=trial, db=db, form=form or "yaml")


@app.command()
def dashboard(
    db: Db = DEFAULT_DB,
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[
        int, typer.Option(min=0, max=65535, help="Port to listen on; 0 is any free one.")
    ] = 8321,
) -> None:
    """Show studies in the browser, live. The environment variable SWEEPER_TOKEN is the token that
    it demands; on loopback it demands none without one."""
    from sweeper.cli.dashboard import serve_dashboard

    serve_dashboard(db, host=host, port=port, given=os.environ.get("SWEEPER_TOKEN") or None)


@db_app.command("upgrade")
def db_upgrade(db: Db = DEFAULT_DB) -> None:
    """Bring the database to this release's schema."""
    from sweeper.cli.database import upgrade_database

    upgrade_database(db)


@db_app.command("current")
def db_current(db: Db = DEFAULT_DB, as_json: Json = False) -> None:
    """The schema that the database has."""
    from sweeper.cli.database import show_revision

    show_revision(db, as_json=as_json)


@db_app.command("check")
def db_check(db: Db = DEFAULT_DB, as_json: Json = False) -> int:
    """Whether the database is sound."""
    from sweeper.cli.database import check_database

    return check_database(db, as_json=as_json)


@db_app.command("grant-reader")
def db_grant_reader(
    role: Annotated[str, typer.Argument(metavar="ROLE", help="Its name.")],
    db: Db = DEFAULT_DB,
) -> None:
    """Make a PostgreSQL role that may only read; prints the URL to read with, once."""
    from sweeper.store.grants import grant_reader

    print(grant_reader(db, role))
