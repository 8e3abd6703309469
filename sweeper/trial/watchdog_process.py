"""What a `Watchdog` runs: `python -I -S watchdog_process.py OWNER group|tree [TIED_TO]`.

Imports as little as it can. It reads commands from its standard input, a line each:
`SECONDS<tab>NOTE<tab>REASON` arms it, `disarm` and `close` do what they say. End-of-file
means that its owner has died. The owner dies with the process TIED_TO, if one is given.
"""

from __future__ import annotations

import os
import select
import sys
import time

_DAY = 86_400.0
_SIGKILL = 9  # importing `signal` would take longer than all the rest


def watch(owner: int, *, owns_group: bool, tied_to: int | None = None) -> None:
    """Serve the owner until it closes, dies, or is put to death."""
    limit: tuple[float, str, str] | None = None
    commands = select.poll()
    commands.register(0, select.POLLIN)
    if tied_to is not None and hasattr(os, "pidfd_open"):  # Linux
        try:
            commands.register(os.pidfd_open(tied_to), select.POLLIN)
        except ProcessLookupError:
            kill(owner, owns_group=owns_group)
            return
    unread = b""
    while True:
        left = _DAY if limit is None else limit[0] - time.monotonic()
        if left <= 0:
            assert limit is not None
            _, note, reason = limit
            strike(owner, owns_group=owns_group, note=note, reason=reason)
            return
        ready = commands.poll(min(left, _DAY) * 1000)
        if not ready:
            continue
        if all(descriptor != 0 for descriptor, _ in ready):
            kill(owner, owns_group=owns_group)
            return
        data = os.read(0, 65_536)
        if not data:
            if owns_group:  # what the dead has left behind
                _kill_group(owner)
            return
        *lines, unread = (unread + data).split(b"\n")
        for line in lines:
            words = line.decode().split("\t")
            if words == ["close"]:
                return
            limit = None
            if len(words) == 3:
                limit = (time.monotonic() + float(words[0]), words[1], words[2])


def strike(owner: int, *, owns_group: bool, note: str, reason: str) -> None:
    """Say why, then kill."""
    if note:
        with open(note, "x", encoding="utf-8") as file:
            file.write(reason)
    sys.stderr.write(f"sweeper: TIMEOUT: {reason}\n")
    sys.stderr.flush()
    kill(owner, owns_group=owns_group)


def kill(owner: int, *, owns_group: bool) -> None:
    """End the owner and all that it started."""
    descendants = [pid for pid in _descendants(owner) if pid != os.getpid()]
    for pid in (owner, *descendants):
        try:
            os.kill(pid, _SIGKILL)
        except ProcessLookupError:
            continue
    if owns_group:
        _kill_group(owner)


def _kill_group(leader: int) -> None:
    try:
        os.killpg(leader, _SIGKILL)
    except ProcessLookupError:
        return


def _descendants(owner: int) -> list[int]:
    """Children of `owner`, theirs, and so on: also those that have left its group."""
    children: dict[int, list[int]] = {}
    try:
        pids = [int(name) for name in os.listdir("/proc") if name.isdigit()]
    except OSError:  # macOS: the group has to do
        return []
    for pid in pids:
        try:
            with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
                # The name, in parentheses, may hold anything; the parent is the second after.
                parent = int(file.read().rpartition(")")[2].split()[1])
        except (OSError, ValueError, IndexError):  # ended meanwhile
            continue
        children.setdefault(parent, []).append(pid)
    found, unvisited = [], [owner]
    while unvisited:
        of_this = children.get(unvisited.pop(), [])
        found += of_this
        unvisited += of_this
    return found


if __name__ == "__main__":
    _tied_to = int(sys.argv[3]) if len(sys.argv) > 3 else None
    watch(int(sys.argv[1]), owns_group=sys.argv[2] == "group", tied_to=_tied_to)
