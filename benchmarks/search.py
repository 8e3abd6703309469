"""Which searcher finds the better front, sooner? Whole studies, replayed in simulated time.

A surrogate made from recorded runs (record_search.py) stands for the trials; everything else is
the product: the launcher, the store, the samplers. Eight simulated workers, a ManualClock, the
same wall-clock for everybody. What counts is what a study would recommend: at every moment the
front of its observed means, and of those configurations the hypervolume of their *true* means,
as a share of the best that the whole space can do. A lucky return is worth nothing here.

    python benchmarks/search.py --out search.jsonl --png search.png --markdown search.md
    python benchmarks/search.py --out shares.jsonl --shares     what share of re-runs is best
    python benchmarks/search.py --out quick.jsonl --quick

A replay that is done is a line of `--out`: running again continues, and `--table` only prints.
On two cores, all of it takes about an hour, most of it the Gaussian processes' own.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import plotly.graph_objects as go
from plotly.subplots import make_subplots
from record_search import BUDGETS, DATA
from searchers import searchers, shares
from seeds import Job, parser, play
from surrogate import Floats, SimulatedExecutor, Surrogate, load

from sweeper.core.clock import ManualClock
from sweeper.report.pareto import hypervolume, non_dominated
from sweeper.report.render import write_png
from sweeper.store import queries
from sweeper.store.store import Store
from sweeper.study.claim import claim_study
from sweeper.study.document import document_of
from sweeper.study.spec import study_of

WORKERS = 8
ROUNDS = 16
"""A study lasts as long as so many trials one after another."""
MOMENTS = 64
BEGAN = datetime(2026, 1, 1, tzinfo=UTC)
BOTH = [True, True]
RIVAL = "TPE"
COLORS = ("#d62728", "#ff9896", "#1f77b4", "#2ca02c", "#9467bd", "#bcbd22", "#7f7f7f", "#17becf")
LEVELS = [0.5, 1.03]
"""Of the chart: below is only the first round of trials."""


Curves = dict[tuple[str, str], list[list[float]]]
"""(environment, searcher) -> [repeats][MOMENTS]: the quality of what a study would recommend, as
its true hypervolume / that of the true front, at equally spaced moments."""


def replay(data: Path, env_id: str, name: str, repeat: int, rounds: int) -> dict[str, Any]:
    """Launch a study on the surrogate, and look at what it would have recommended when."""
    searcher = {each.name: each for each in (*searchers(), *shares())}[name]
    surrogate = _surrogate(data, env_id)
    hours = rounds * surrogate.budget_seconds * 1.3 / 3600
    text = json.dumps(
        {
            "study": "replay",
            "stop": {"hours": hours},
            "trial": {**surrogate.trial, "seed": repeat},
            "search": surrogate.search,
            **searcher.changes,
            "sampler": {**searcher.changes.get("sampler", {}), "seed": repeat},
        }
    )
    loaded = study_of(document_of(text, "replay"))
    clock = ManualClock()
    executor = SimulatedExecutor(surrogate, clock, workers=WORKERS)
    with tempfile.TemporaryDirectory(dir=_memory()) as folder:
        url = f"sqlite:///{folder}/replay.db"
        with (
            Store.open(url, now=lambda: BEGAN + timedelta(seconds=clock.now())) as store,
            claim_study(store, loaded, target_trials=None) as claim,
        ):
            reader = queries.open_reader(url)
            searcher.launcher(
                loaded, claim, store, reader, executor, target_trials=None, clock=clock
            ).run()
            trials = queries.trials(reader, claim.study.study_id)
            runs = queries.study_runs(reader, claim.study.study_id)
            reader.dispose()
    shown = [
        ((run.ended_at - BEGAN).total_seconds(), run.number, run.final_return, run.steps_per_second)
        for run in runs
        if run.status == "COMPLETED" and run.ended_at
    ]
    truths = {trial.number: surrogate.truth(trial.params) for trial in trials}
    true = {n: (truth.final_return, truth.steps_per_second) for n, truth in truths.items()}
    quality = _quality(np.array(shown, dtype=float), true, surrogate, hours * 3600)
    return {"quality": quality, "final": quality[-1], "runs": len(runs)}


def _quality(
    shown: Floats, true: dict[int, tuple[float, float]], surrogate: Surrogate, seconds: float
) -> tuple[float, ...]:
    """shown: [runs, (ended, trial, return, speed)], over MOMENTS of the study's time."""
    reachable = surrogate.true_front()
    corner = np.array([reachable[:, 0].min(), 0.0])
    best = hypervolume(reachable, corner, BOTH)
    values: list[float] = []
    for moment in np.linspace(0.0, seconds, MOMENTS + 1)[1:]:
        known = shown[shown[:, 0] <= moment]
        if not len(known):
            values.append(0.0)
            continue
        numbers = np.unique(known[:, 1])
        means = np.array([known[known[:, 1] == number, 2:].mean(axis=0) for number in numbers])
        recommended = numbers[non_dominated(means, BOTH)]
        values.append(hypervolume([true[int(n)] for n in recommended], corner, BOTH) / best)
    return tuple(values)


@cache
def _surrogate(data: Path, env_id: str) -> Surrogate:
    """Fitted once in each process."""
    return Surrogate(load(data), env_id)


def _memory() -> str | None:
    """A folder in memory, where there is one: thousands of small databases."""
    return "/dev/shm" if Path("/dev/shm").is_dir() else None


def seconds_share(curves: Floats, level: float) -> float:
    """Share of the time after which the median of curves [repeats, MOMENTS] is at `level` for
    good; infinite if never."""
    reached = np.median(curves, axis=0) >= level
    if not reached[-1]:
        return float("inf")
    below = np.flatnonzero(~reached)
    first = 0 if not len(below) else int(below[-1]) + 1
    return float((first + 1) / curves.shape[1])


def interval(finals: Floats) -> tuple[float, float, float]:
    """Median, and its 95% bootstrap interval."""
    random = np.random.default_rng(0)
    drawn = np.median(random.choice(finals, (4000, len(finals))), axis=1)
    low, high = np.quantile(drawn, (0.025, 0.975))
    return float(np.median(finals)), float(low), float(high)


def means(curves: Curves) -> Curves:
    """The mean over environments, for searchers that were replayed on all of them."""
    env_ids = {env_id for env_id, _ in curves}
    found: Curves = {}
    for name in dict.fromkeys(name for _, name in curves):
        of_each = [curves[env_id, name] for env_id in env_ids if (env_id, name) in curves]
        if len(of_each) == len(env_ids) > 1:
            repeats = min(map(len, of_each))
            mean = np.mean([qualities[:repeats] for qualities in of_each], axis=0)
            found["mean", name] = mean.tolist()
    return found


def table(curves: Curves, names: Sequence[str], rival: str) -> str:
    """One row a searcher: final quality on each environment, and when it was as good as the
    rival ends up, as a share of the rival's time."""
    env_ids = list(dict.fromkeys(env_id for env_id, _ in curves))
    lines = [
        "| searcher | " + " | ".join(f"{e}: final | {e}: time" for e in env_ids) + " |",
        "|---|" + "---|---|" * len(env_ids),
    ]
    for name in names:
        cells: list[str] = []
        for env_id in env_ids:
            if (env_id, name) not in curves:
                cells += ["", ""]
                continue
            qualities = np.array(curves[env_id, name])
            median, low, high = interval(qualities[:, -1])
            share = float("inf")
            if (env_id, rival) in curves:
                level = float(np.median(np.array(curves[env_id, rival])[:, -1]))
                share = seconds_share(qualities, level)
            cells += [
                f"{median:.3f} [{low:.3f}, {high:.3f}] ({len(qualities)})",
                "never" if np.isinf(share) else f"{share:.0%}",
            ]
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def chart(curves: Curves, names: Sequence[str]) -> go.Figure:
    """Median quality over time; of ours and the rival with the middle half of the repeats."""
    env_ids = list(dict.fromkeys(env_id for env_id, _ in curves))
    titles = ["mean of them" if env_id == "mean" else env_id for env_id in env_ids]
    figure = make_subplots(
        rows=-(-len(env_ids) // 2), cols=2, subplot_titles=titles, horizontal_spacing=0.06
    )
    moments = np.arange(1, MOMENTS + 1) / MOMENTS * 100.0
    for panel, env_id in enumerate(env_ids):
        place = {"row": panel // 2 + 1, "col": panel % 2 + 1}
        for name, color in reversed(list(zip(names, COLORS, strict=False))):  # ours on top
            if (env_id, name) not in curves:
                continue
            low, middle, high = np.quantile(curves[env_id, name], (0.25, 0.5, 0.75), axis=0)
            band = {"mode": "lines", "line": {"width": 0}, "hoverinfo": "skip", "showlegend": False}
            if name in (names[0], RIVAL):
                figure.add_scatter(x=moments, y=high, **band, **place)
                faint = _faint(color)
                figure.add_scatter(
                    x=moments, y=low, fill="tonexty", fillcolor=faint, **band, **place
                )
            figure.add_scatter(
                x=moments,
                y=middle,
                name=name,
                line={"color": color, "width": 3 if name == names[0] else 1.5},
                showlegend=panel == 0,
                **place,
            )
        figure.update_xaxes(title="share of the study's time (%)", **place)
        title = "true hypervolume" if place["col"] == 1 else None
        figure.update_yaxes(range=LEVELS, title=title, **place)
    figure.update_layout(template="plotly_white", legend_traceorder="reversed", margin_t=40)
    return figure


def _faint(color: str) -> str:
    red, green, blue = (int(color[i : i + 2], 16) for i in (1, 3, 5))
    return f"rgba({red},{green},{blue},0.15)"


def main() -> None:
    options = parser(__doc__, list(BUDGETS))
    options.add_argument("--data", type=Path, default=DATA, metavar="FILE")
    options.add_argument("--repeats", type=int, default=10)
    options.add_argument(
        "--only", action="append", metavar="NAME", help="this searcher; repeatable"
    )
    options.add_argument("--shares", action="store_true", help="ours alone, with other shares")
    options.add_argument("--quick", action="store_true", help="2 short repeats: does it run?")
    options.add_argument("--png", type=Path, metavar="FILE")
    options.add_argument("--markdown", type=Path, metavar="FILE")
    arguments = options.parse_args()
    repeats, rounds = (2, 4) if arguments.quick else (arguments.repeats, ROUNDS)
    competing = {each.name: each for each in (shares() if arguments.shares else searchers())}
    names = arguments.only or list(competing)
    jobs: list[Job] = [
        (env_id, name, repeat, rounds)
        for env_id in arguments.case.split(",")
        for name in names
        for repeat in range(repeats)
    ]
    # One thread each: the jobs share the cores, and Optuna's GP would start threads of torch.
    os.environ.update(dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS"), "1"))
    results = play(partial(replay, arguments.data), jobs, arguments, jobs_per_process=None)
    curves: Curves = {}
    for (env_id, name, _, of_rounds), result in sorted(results.items()):
        if name in competing and of_rounds == rounds:
            curves.setdefault((str(env_id), str(name)), []).append(result["quality"])
    curves |= means(curves)
    text = table(curves, [*competing], RIVAL if RIVAL in competing else names[0])
    print(text)
    if arguments.markdown:
        arguments.markdown.write_text(text + "\n")
    if arguments.png:
        write_png(chart(curves, [*competing]), arguments.png, width=1100, height=700)


if __name__ == "__main__":
    main()
