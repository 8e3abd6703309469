"""`sweeper retry`: have runs that failed made again."""

from __future__ import annotations

from collections.abc import Sequence

from sweeper.cli.printing import print_json
from sweeper.cli.reading import reading
from sweeper.core.errors import InputError
from sweeper.core.records import RunStatus
from sweeper.store import launches, queries
from sweeper.store.rows import RETRY, AttemptRow
from sweeper.store.store import Store
from sweeper.study.attempts import MOST_ATTEMPTS, NEVER, ON_REQUEST


def retry_runs(name: str, *, db: str, statuses: str, as_json: bool) -> None:
    """Ask for another attempt at each run whose last one ended in one of the `statuses`
    (`LOST,OOM`), within MOST_ATTEMPTS: by the next launch, or the next confirmation."""
    wanted = parse_statuses(statuses)
    with reading(db) as engine:
        study = queries.study(engine, name)
        found = [a for a in launches.last_attempts(engine, study.study_id) if a.status in wanted]
    spent = [attempt for attempt in found if attempt.n_attempts >= MOST_ATTEMPTS]
    asked = [attempt for attempt in found if attempt.n_attempts < MOST_ATTEMPTS]
    with Store.open(db) as store:
        for attempt in asked:
            if not attempt.is_asked:
                store.add_event(
                    RETRY,
                    study_id=study.study_id,
                    trial_id=attempt.trial_id,
                    run_id=attempt.run_id,
                    detail=f"after {attempt.status}",
                )
    if as_json:
        print_json({"study": name, "retried": _plain(asked), "spent": _plain(spent)})
        return
    if not found:
        print(f"no run of {name!r} has ended as {' or '.join(wanted)}")
    searched = [attempt for attempt in asked if attempt.seed_kind == "tuning"]
    confirmed = [attempt for attempt in asked if attempt.seed_kind == "test"]
    if searched:
        print(f"run again by the next launch of {name!r}: {named(searched)}")
    if confirmed:
        print(f"run again by the next confirmation, on their budget: {named(confirmed)}")
    if spent:
        print(f"not again, after {MOST_ATTEMPTS} attempts: {named(spent)}")


def parse_statuses(text: str) -> list[RunStatus]:
    """`LOST,OOM`. Raises InputError that says why another is not made again."""
    chosen: list[RunStatus] = []
    for word in map(str.strip, text.upper().split(",")):
        status = RunStatus(word) if word in set(RunStatus) else None
        if status is None or status in NEVER:
            why = "" if status is None else f": what is {word} {NEVER[status]}"
            allowed = ", ".join(ON_REQUEST)
            raise InputError(f"--status must be some of {allowed}, got {word!r}{why}")
        chosen.append(status)
    return chosen


def named(attempts: Sequence[AttemptRow]) -> str:
    """Their trials, and how they ended."""
    return ", ".join(f"trial {attempt.number} ({attempt.status})" for attempt in attempts)


def _plain(attempts: Sequence[AttemptRow]) -> list[dict[str, object]]:
    return [
        {
            "trial": attempt.number,
            "seed": attempt.seed,
            "seed_kind": attempt.seed_kind,
            "run_id": attempt.run_id,
            "status": attempt.status,
            "attempts": attempt.n_attempts,
        }
        for attempt in attempts
    ]
