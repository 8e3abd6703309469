"""Arguments and options that several commands take."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

StudyFile = Annotated[Path, typer.Argument(metavar="FILE", help="A study file (YAML).")]
StudyName = Annotated[
    str | None, typer.Argument(metavar="STUDY", help="Its name; the last launched if left out.")
]
Db = Annotated[
    str, typer.Option("--db", envvar="SWEEPER_DB", metavar="URL", help="The results database.")
]
Set = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="PATH=VALUE", help="Override a key of the file; repeatable."),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
NoWait = Annotated[
    bool, typer.Option("--no-wait", help="Fail, and do not wait, if others hold the cores.")
]
DEFAULT_DB = "sqlite:///sweeper.db"
