"""`sweeper doctor`: the machine as the product sees it, and how much trials disturb each other."""

from __future__ import annotations

from dataclasses import asdict

from sweeper.cli.machine import Finding, look_around
from sweeper.cli.printing import print_json
from sweeper.core.errors import SweeperError

SIGNS = {"ok": "ok    ", "note": "note  ", "broken": "BROKEN"}


def examine(*, db: str, as_json: bool, interference: bool, seconds: float) -> int:
    """Print a line for each finding; returns the exit code: 1 if something is broken."""
    findings: list[Finding] = []

    def find(finding: Finding) -> None:
        findings.append(finding)
        if not as_json:
            _print(finding)

    for finding in look_around(db):
        find(finding)
    measured = None
    if interference and not _broken(findings):
        from sweeper.cli.interference import measure_interference  # noqa: PLC0415 - ray, torch

        try:
            measured = measure_interference(seconds)
        except SweeperError as error:
            words = str(error).splitlines()[0]
            find(Finding("interference", "broken", words, "look into that first"))
        else:
            for finding in measured.findings():
                find(finding)
    if as_json:
        print_json(
            {
                "findings": [asdict(finding) for finding in findings],
                "interference": None if measured is None else measured.record(),
            }
        )
    return 1 if _broken(findings) else 0


def _broken(findings: list[Finding]) -> bool:
    return any(finding.verdict == "broken" for finding in findings)


def _print(finding: Finding) -> None:
    print(f"{SIGNS[finding.verdict]}  {finding.subject + ':':15} {finding.finding}", flush=True)
    if finding.remedy:
        print(f"{'':8}{'':15} -> {finding.remedy}", flush=True)
