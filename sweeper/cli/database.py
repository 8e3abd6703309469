"""`sweeper db`: the schema of a results database, and whether it is sound."""

from __future__ import annotations

from sweeper.cli.printing import print_json
from sweeper.store.connect import open_read_only, schema_revision
from sweeper.store.migrate import upgrade
from sweeper.store.schema import REVISION
from sweeper.store.soundness import find_faults


def upgrade_database(db: str) -> None:
    """Bring an existing database to this release's schema."""
    open_read_only(db).dispose()  # a misspelt name makes no new file
    before, after = upgrade(db)
    print(f"{before or 'empty'} -> {after}" if before != after else f"{after}, as it was")


def show_revision(db: str, *, as_json: bool) -> None:
    """Print the schema that the database has, and the one that this release needs."""
    engine = open_read_only(db)
    try:
        with engine.connect() as connection:
            revision = schema_revision(connection)
    finally:
        engine.dispose()
    if as_json:
        print_json({"revision": revision, "needed": REVISION})
    else:
        advice = "" if revision == REVISION else f", {REVISION} is needed: `sweeper db upgrade`"
        print(f"{revision or 'empty'}{advice}")


def check_database(db: str, *, as_json: bool) -> int:
    """Print what is wrong with the database; returns the exit code."""
    faults = find_faults(db)
    if as_json:
        print_json({"faults": faults})
    else:
        print("\n".join(faults) if faults else "sound")
    return 1 if faults else 0
