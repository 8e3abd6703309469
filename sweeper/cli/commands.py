"""`sweeper`: the commands that run something, in the order in which a user meets them. Those
that read results are in `result_commands`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from sweeper import __version__
from sweeper.cli import result_commands
from sweeper.cli.options import DEFAULT_DB, Db, Json, NoWait, Set, StudyFile, StudyName
from sweeper.core.errors import InputError

app = typer.Typer(
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    help="Hyperparameter and parallelism sweeps for reinforcement learning, "
    "under wall-clock budgets.",
)


def _version(value: bool) -> None:
    if value:
        typer.echo(f"sweeper {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_version, is_eager=True, help="Print the version."),
    ] = False,
) -> None:
    del version


@app.command()
def launch(
    file: StudyFile,
    db: Db = DEFAULT_DB,
    overrides: Set = None,
    trials: Annotated[
        int | None,
        typer.Option("--trials", min=1, metavar="N", help="Trials in all, instead of stop.trials."),
    ] = None,
    new_version: Annotated[
        bool,
        typer.Option("--new-version", help="Accept a changed file as a new version of the study."),
    ] = False,
    ray_address: Annotated[
        str | None,
        typer.Option(
            "--ray-address", metavar="ADDRESS", help="auto, local or host:port of a cluster."
        ),
    ] = None,
    no_wait: NoWait = False,
    detached: Annotated[
        bool, typer.Option("--detach", help="Leave it running, with a log; see `sweeper logs`.")
    ] = False,
) -> int:
    """Search: launch a study, or continue it."""
    if detached:
        from sweeper.cli.detach import detach, launch_arguments
        from sweeper.study.spec import load_study

        arguments = launch_arguments(
            file,
            overrides=overrides or [],
            trials=trials,
            new_version=new_version,
            ray_address=ray_address,
            no_wait=no_wait,
        )
        name = load_study(file, overrides=overrides or []).spec.study
        return detach(name, arguments, db=db)
    from sweeper.cli.preflight import plan_launch

    plan = plan_launch(
        file, overrides=overrides or [], ray_address=ray_address, may_wait=not no_wait
    )
    from sweeper.cli.launch import launch_study  # torch and ray: not for a misspelt key

    return launch_study(
        plan, file, db=db, overrides=overrides or [], trials=trials, new_version=new_version
    )


@app.command()
def run(
    file: Annotated[
        Path | None,
        typer.Argument(metavar="FILE", help="A study file (YAML); not needed with --resume."),
    ] = None,
    overrides: Set = None,
    no_wait: NoWait = False,
    checkpoint: Annotated[
        Path | None,
        typer.Option("--checkpoint", metavar="PATH", help="Save what was trained."),
    ] = None,
    resume: Annotated[
        Path | None,
        typer.Option("--resume", metavar="PATH", help="Go on from a checkpoint."),
    ] = None,
) -> int:
    """Run the file's `trial` once, here: no Ray, no database. JSON lines on a pipe."""
    from sweeper.cli.preflight import check_writable, plan_run
    from sweeper.study.document import read_document

    if checkpoint is not None:
        check_writable(checkpoint)
    document, begin = None if file is None else read_document(file), None
    if resume is not None:
        from sweeper.cli.resume import document_in, load, plan_resume  # torch

        begin = load(resume)
        document = document or document_in(begin, resume)
    if document is None:
        raise InputError("run needs a study file, or --resume with a checkpoint")
    spec = plan_run(document, overrides=overrides or [], may_wait=not no_wait)
    if begin is not None:
        plan_resume(begin, spec, str(resume))
    from sweeper.cli.run import run_once  # torch

    return run_once(spec, resume=begin, checkpoint=checkpoint)


@app.command()
def evaluate(
    checkpoint: Annotated[Path, typer.Argument(metavar="CHECKPOINT", help="Of `sweeper run`.")],
    episodes: Annotated[
        int | None, typer.Option("--episodes", min=1, metavar="N", help="Instead of the trial's.")
    ] = None,
    seed: Annotated[
        int | None, typer.Option("--seed", min=0, metavar="N", help="Of the episodes, likewise.")
    ] = None,
    stochastic: Annotated[
        bool, typer.Option("--stochastic", help="Draw actions; their mode is taken otherwise.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Play episodes with what `sweeper run --checkpoint` saved."""
    from sweeper.cli.evaluate import evaluate_checkpoint  # torch

    evaluate_checkpoint(
        checkpoint, episodes=episodes, seed=seed, deterministic=not stochastic, as_json=as_json
    )


@app.command()
def check(file: StudyFile, overrides: Set = None, as_json: Json = False) -> None:
    """Validate a study file; show its space and duration."""
    from sweeper.cli.check import check_study

    check_study(file, overrides=overrides or [], as_json=as_json)


@app.command()
def doctor(
    db: Db = DEFAULT_DB,
    interference: Annotated[
        bool,
        typer.Option("--interference", help="Also measure a trial alone and with all slots full."),
    ] = False,
    seconds: Annotated[
        float, typer.Option(min=1, help="Budget of each trial of --interference.")
    ] = 10.0,
    as_json: Json = False,
) -> int:
    """Whether this machine is fit to measure on, and what to do about it."""
    from sweeper.cli.doctor import examine

    return examine(db=db, as_json=as_json, interference=interference, seconds=seconds)


@app.command()
def init(
    env_id: Annotated[str, typer.Argument(metavar="ENV_ID", help="A registered Gymnasium id.")],
    hours: Annotated[
        float | None, typer.Option(min=0.01, metavar="H", help="For how long to search.")
    ] = None,
) -> None:
    """Print a study of an environment, good enough to launch as it is."""
    from sweeper.study.starter import look, starter_study
    from sweeper.trial.cores import usable_cores

    typer.echo(starter_study(look(env_id, cores=len(usable_cores())), hours=hours), nl=False)


@app.command()
def schema() -> None:
    """Print the JSON Schema of study files: editors complete and check by it."""
    from sweeper.cli.printing import print_json
    from sweeper.study.spec import study_schema

    print_json(study_schema())


@app.command()
def confirm(
    study: Annotated[str, typer.Argument(metavar="STUDY", help="Its name.")],
    db: Db = DEFAULT_DB,
    top: Annotated[
        int | None, typer.Option(min=1, max=100, metavar="K", help="Trials of the front.")
    ] = None,
    seeds: Annotated[
        int | None, typer.Option(min=1, max=100, metavar="S", help="Test seeds for each.")
    ] = None,
    budget: Annotated[
        str | None,
        typer.Option(metavar="BUDGET", help="10s or 20000steps, instead of the trials' own."),
    ] = None,
) -> int:
    """Run the front again on seeds that the search never saw, one trial at a time."""
    from sweeper.cli.confirm import confirm_study

    return confirm_study(study, db=db, top=top, seeds=seeds, budget=budget)


@app.command()
def stop(
    study: Annotated[str, typer.Argument(metavar="STUDY", help="Its name.")],
    db: Db = DEFAULT_DB,
    now: Annotated[
        bool, typer.Option("--now", help="Give up at once what runs, as a second Ctrl-C does.")
    ] = False,
    no_wait: Annotated[
        bool, typer.Option("--no-wait", help="Ask, and do not wait until it has stopped.")
    ] = False,
    as_json: Json = False,
) -> int:
    """End a launch, wherever it runs, as Ctrl-C does there."""
    from sweeper.cli.stop import stop_study

    how: Literal["stop", "stop_now"] = "stop_now" if now else "stop"
    return stop_study(study, db=db, how=how, wait=not no_wait, as_json=as_json)


@app.command()
def logs(
    study: StudyName = None,
    db: Db = DEFAULT_DB,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Go on until the launch ends.")
    ] = False,
    lines: Annotated[
        int | None, typer.Option("--lines", "-n", min=0, metavar="N", help="The last N alone.")
    ] = None,
) -> None:
    """What a launch says that was detached."""
    from sweeper.cli.logs import show_log

    show_log(study, db=db, lines=lines, follow=follow)


@app.command()
def retry(
    study: Annotated[str, typer.Argument(metavar="STUDY", help="Its name.")],
    statuses: Annotated[
        str,
        typer.Option("--status", metavar="S,...", help="Some of LOST, OOM, ERROR, TIMEOUT."),
    ],
    db: Db = DEFAULT_DB,
    as_json: Json = False,
) -> None:
    """Have the next launch, or confirmation, make runs again that ended so."""
    from sweeper.cli.retry import retry_runs

    retry_runs(study, db=db, statuses=statuses, as_json=as_json)


@app.command()
def reap(
    db: Db = DEFAULT_DB,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="List what would be ended, and end nothing.")
    ] = False,
    as_json: Json = False,
) -> None:
    """End what is left of launchers that are dead: processes, Ray sessions, unfinished runs."""
    from sweeper.cli.reap import reap

    is_there = db != DEFAULT_DB or Path("sweeper.db").exists()
    reap(db if is_there else None, dry_run=dry_run, as_json=as_json)


app.add_typer(result_commands.app)
bench_app = typer.Typer(no_args_is_help=True, help="Measure before you search.")
app.add_typer(bench_app, name="bench")


@bench_app.command("envs")
def bench_envs(
    env: Annotated[str, typer.Option("--env", metavar="ID", help="A registered environment.")],
    n_envs: Annotated[
        str, typer.Option("--n-envs", metavar="N,...", help="Environments stepped together.")
    ] = "1,2,4,8,16,32",
    workers: Annotated[
        str | None,
        typer.Option("--workers", metavar="N,...", help="Worker processes; up to one a core."),
    ] = None,
    seconds: Annotated[
        float, typer.Option(min=0.05, help="Of each of the 3 measurements of a layout.")
    ] = 2.0,
    train: Annotated[
        bool, typer.Option("--train", help="Also train for as long, and compare returns.")
    ] = False,
    html: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write a plot that opens offline.")
    ] = None,
    png: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write an image (needs Chrome).")
    ] = None,
    as_json: Json = False,
) -> None:
    """Find how many environments and workers are fastest here."""
    from sweeper.cli.bench import bench_envs

    bench_envs(
        env,
        n_envs=n_envs,
        workers=workers,
        seconds=seconds,
        train=train,
        html=html,
        png=png,
        as_json=as_json,
    )
