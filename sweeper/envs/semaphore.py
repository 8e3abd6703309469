"""POSIX semaphores inside shared memory: one wakes a worker, one tells that it is done.

A semaphore costs a system call only when somebody sleeps on it, orders memory on every
architecture (a bare flag would not), and being plain bytes of an anonymous mapping leaves
nothing behind when its owners are killed. `multiprocessing.Semaphore` is the same thing
under a name in /dev/shm. Reached through ctypes, so that nobody needs a C compiler.
"""

from __future__ import annotations

import ctypes
import os
import time
from typing import Any

SIZE = 64
"""Bytes to leave for each: a sem_t has at most 32, and a cache line is not to be shared."""

_libc = ctypes.CDLL(None, use_errno=True)


def _function(name: str, *argtypes: Any) -> Any:
    function = getattr(_libc, name)
    function.argtypes = argtypes
    return function


class _Timespec(ctypes.Structure):
    _fields_ = (("seconds", ctypes.c_long), ("nanoseconds", ctypes.c_long))


_init = _function("sem_init", ctypes.c_void_p, ctypes.c_int, ctypes.c_uint)
_post = _function("sem_post", ctypes.c_void_p)
_wait = _function("sem_wait", ctypes.c_void_p)
_trywait = _function("sem_trywait", ctypes.c_void_p)

if hasattr(_libc, "sem_clockwait"):
    _CLOCK = time.CLOCK_MONOTONIC
    _clockwait = _function(
        "sem_clockwait", ctypes.c_void_p, ctypes.c_int, ctypes.POINTER(_Timespec)
    )
else:  # musl, and glibc before 2.30: a wall clock set back makes one wait longer
    _CLOCK = time.CLOCK_REALTIME
    _timedwait = _function("sem_timedwait", ctypes.c_void_p, ctypes.POINTER(_Timespec))

    def _clockwait(address: int, clock: int, until: Any) -> int:
        del clock
        return int(_timedwait(address, until))


class Semaphore:
    """The semaphore at `address`, shared by every process that has the memory mapped."""

    __slots__ = ("_address",)

    def __init__(self, address: int) -> None:
        self._address = address

    def initialize(self) -> None:
        """Set to 0; once, by one process, before the others use it."""
        if _init(self._address, 1, 0):
            error = ctypes.get_errno()
            raise OSError(error, os.strerror(error))

    def post(self) -> None:
        """Add one and wake a sleeper if there is one."""
        _post(self._address)

    def wait(self, *, spin_seconds: float = 0.0) -> None:
        """Take one, trying again and again for `spin_seconds`, then sleeping until there is one."""
        if not self._spin(spin_seconds):
            while _wait(self._address):  # interrupted by a signal
                pass

    def wait_for(self, seconds: float, *, spin_seconds: float = 0.0) -> bool:
        """Take one, trying again and again for `spin_seconds`, then sleeping at most
        `seconds`; False if there was none, or at a signal."""
        if self._spin(spin_seconds):
            return True
        until = time.clock_gettime(_CLOCK) + seconds
        whole = int(until)
        moment = _Timespec(whole, int((until - whole) * 1e9))
        return not _clockwait(self._address, _CLOCK, moment)

    def _spin(self, seconds: float) -> bool:
        """Whether there was one to take, at once or within `seconds`."""
        if not _trywait(self._address):
            return True
        if seconds:
            enough = time.perf_counter() + seconds
            while time.perf_counter() < enough:
                if not _trywait(self._address):
                    return True
        return False
