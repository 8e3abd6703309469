"""Floor 7: the command line, the door to everything.

Exit codes: 0 done, 1 failed, 2 bad input, 130 interrupted. Bad input is one line on standard
error, never a traceback. Imports that are slow (torch, ray, optuna) happen in the command
that needs them.
"""

from __future__ import annotations

import sys
from typing import Any

import typer
from typer.main import get_command

from sweeper.cli.commands import app
from sweeper.core.errors import InputError, SweeperError

_UsageError: Any = typer.BadParameter.__mro__[1]
"""The parent of all that a command line can have wrong; typer does not export it."""
DONE, FAILED, BAD_INPUT, INTERRUPTED = 0, 1, 2, 130


def main() -> None:
    """Entry point of the `sweeper` command."""
    sys.exit(run(sys.argv[1:]))


def run(arguments: list[str]) -> int:
    """Run one command line; returns the exit code."""
    try:
        code = get_command(app).main(arguments, prog_name="sweeper", standalone_mode=False)
    except _UsageError as error:
        error.show()
        return BAD_INPUT
    except (typer.Abort, KeyboardInterrupt):
        return INTERRUPTED
    except BrokenPipeError:  # the reader of a pipe (`| head`) has seen enough
        sys.stderr.close()
        return DONE
    except InputError as error:
        print(f"sweeper: {error}", file=sys.stderr)
        return BAD_INPUT
    except SweeperError as error:
        print(f"sweeper: {error}", file=sys.stderr)
        return FAILED
    return code if isinstance(code, int) else DONE
