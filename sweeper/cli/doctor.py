"""`sweeper doctor`: the machine as the product sees it, and how much trials disturb each other."""

from __future__ import annotations

from dataclasses import asdict, dataclass

from sweeper.cli.machine import Finding, look_around
from sweeper.cli.printing import print_json

SIGNS = {"ok": "ok    ", "note": "note  ", "broken": "BROKEN"}


def examine(*, db: str, as_json: bool, interference: bool, seconds: float) -> int:
    """Print a line for each finding; returns the exit code: 1 if something is broken."""
    findings: list[Finding] = []
    for finding in look_around(db):
        findings.append(finding)
        if not as_json:
            _print(finding)
    measured = None
    if interference and not any(finding.verdict == "broken" for finding in findings):
        measured = _interference(seconds)
        findings.append(measured.finding())
        if not as_json:
            _print(findings[-1])
    if as_json:
        print_json(
            {
                "findings": [asdict(finding) for finding in findings],
                "interference": None if measured is None else asdict(measured),
            }
        )
    return 1 if any(finding.verdict == "broken" for finding in findings) else 0


def _print(finding: Finding) -> None:
    print(f"{SIGNS[finding.verdict]}  {finding.subject + ':':15} {finding.finding}", flush=True)
    if finding.remedy:
        print(f"{'':8}{'':15} -> {finding.remedy}", flush=True)


@dataclass(frozen=True, slots=True)
class Interference:
    """The same trial alone, and as many at once as there are cores."""

    alone_steps_per_second: float
    together_steps_per_second: tuple[float, ...]

    @property
    def ratio(self) -> float:
        """Mean speed together / speed alone."""
        together = self.together_steps_per_second
        return sum(together) / len(together) / self.alone_steps_per_second

    def finding(self) -> Finding:
        """As a line of the doctor's."""
        n = len(self.together_steps_per_second)
        words = (
            f"a trial alone {self.alone_steps_per_second:,.0f} env steps/s, each of {n} at once "
            f"{self.ratio:.0%} of that"
        )
        if self.ratio >= 0.95:
            return Finding("interference", "ok", words)
        return Finding(
            "interference",
            "note",
            words,
            "cores share caches, memory and clock: compare speeds of trials that ran at the same "
            "`concurrency` only, or lower it",
        )


def _interference(seconds: float) -> Interference:
    """Measured by the very workers that run a study's trials."""
    from sweeper.core.records import RunResult, RunStatus  # noqa: PLC0415 - with torch and ray
    from sweeper.study.ray_executor import RayExecutor  # noqa: PLC0415
    from sweeper.trial.spec import TrialSpec  # noqa: PLC0415

    spec = TrialSpec.model_validate(
        {
            "env": {"id": "CartPole-v1"},
            "algorithm": {"kind": "ppo", "n_steps": 128, "n_minibatches": 4, "n_epochs": 4},
            "parallelism": {"n_envs": 8},
            "budget": {"seconds": seconds},
            "evaluation": {"episodes": 1, "max_seconds": 1.0},
        }
    )
    executor = RayExecutor("local")

    def speeds(n: int) -> tuple[float, ...]:
        for run_id in range(n):
            executor.submit(run_id, spec)
        results: list[RunResult] = []
        while len(results) < n:
            events = executor.events(timeout_seconds=1.0)
            results += [event for _, event in events if isinstance(event, RunResult)]
        for result in results:
            if result.status is not RunStatus.COMPLETED:
                raise RuntimeError(f"a trial ended as {result.status}: {result.reason}")
        return tuple(result.steps_per_second or 0.0 for result in results)

    try:
        together = speeds(executor.total_cores)  # the first also starts the workers
        together = speeds(executor.total_cores)
        return Interference(speeds(1)[0], together)
    finally:
        executor.close()
