"""Floor 7: the command line, the door to everything.

Exit codes: 0 done, 1 failed, 2 bad input, 130 interrupted, 141 when the reader of its output
has gone (`| head`), as for any program that a SIGPIPE ends. Bad input is one line on standard
error, never a traceback. Imports that are slow (torch, ray, optuna) happen in the command
that needs them.
"""

from __future__ import annotations

import io
import os
import sys
from typing import Any

import typer
from typer.main import get_command

from sweeper.cli.commands import app
from sweeper.core.errors import InputError, SweeperError

_UsageError: Any = typer.BadParameter.__mro__[1]
"""The parent of all that a command line can have wrong; typer does not export it."""
DONE, FAILED, BAD_INPUT, INTERRUPTED, UNREAD = 0, 1, 2, 130, 141


def main() -> None:
    """Entry point of the `sweeper` command."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a locale that lacks a character is no failure
    code = run(sys.argv[1:])
    try:
        sys.stdout.flush()
    except BrokenPipeError:  # the reader of a pipe has seen enough
        code = UNREAD
    if code == UNREAD:
        _discard_output()
    sys.exit(code)


def run(arguments: list[str]) -> int:
    """Run one command line; returns the exit code."""
    command = get_command(app)
    try:
        code = command.main(arguments or ["--help"], prog_name="sweeper", standalone_mode=False)
    except _UsageError as error:
        where = error.ctx.command_path if error.ctx else "sweeper"
        print(f"sweeper: {error.format_message()} (see `{where} --help`)", file=sys.stderr)
        return BAD_INPUT
    except (typer.Abort, KeyboardInterrupt):
        return INTERRUPTED
    except InputError as error:
        print(f"sweeper: {error}", file=sys.stderr)
        return BAD_INPUT
    except SweeperError as error:
        print(f"sweeper: {error}", file=sys.stderr)
        return FAILED
    except SystemExit as exit_:  # typer's own answer to a broken pipe, which it reports as 1
        if isinstance(exit_.__context__, BrokenPipeError):
            return UNREAD
        raise
    return code if isinstance(code, int) else DONE


def _discard_output() -> None:
    """What is still buffered goes nowhere, or the interpreter complains of the pipe as it ends."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)
