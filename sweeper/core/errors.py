"""Every exception that sweeper raises on purpose.

::

    SweeperError
     ├── InputError            exit code 2: the user can fix it
     │    ├── SpecError        a study file or an override; carries file and line
     │    ├── DatabaseError    a database that cannot be opened, read or written
     │    │    └── DatabaseAwayError   which may do it later: stopped, locked, full, read-only
     │    ├── StudyChangedError    (store) a study's file is not the one it was launched with
     │    ├── LauncherBusyError    (store) another launcher works on the study
     │    └── LabelsError      (study) no node has the labels that are asked for
     ├── EnvError              the environment failed
     │    ├── EnvWorkerError   an exception inside an environment; index, seed, traceback
     │    │    └── EnvMemoryError   there was no memory left for it
     │    ├── EnvTimeoutError  a step or reset outlived its limit
     │    └── EnvLostError     an environment process died without a word
     ├── LeaseLostError        (store) another launcher took this one for dead
     ├── ClusterLostError      (study) no node is left to run trials on
     ├── LimitError            a trial outlived a limit other than its budget
     └── DivergedError         NaN or infinity in observations, loss or parameters
"""

from __future__ import annotations


class SweeperError(Exception):
    """Root of the tree; its message is one line that a user can act on."""


class InputError(SweeperError):
    """What was given cannot be used: says what, what is allowed, and where."""


class SpecError(InputError):
    """A study file, trial section or override that does not validate."""


class DatabaseError(InputError):
    """A results database that cannot be opened, read or written."""


class DatabaseAwayError(DatabaseError):
    """A database that does not answer now, or takes no writes, and may do so later."""


class EnvError(SweeperError):
    """The environment, not the learner, failed."""


class EnvWorkerError(EnvError):
    """An environment raised: the message carries its index, seed and traceback."""


class EnvMemoryError(EnvWorkerError):
    """An environment could have no more memory."""


class EnvTimeoutError(EnvError):
    """A step or reset took longer than its limit."""


class EnvLostError(EnvError):
    """An environment process died without reporting (killed, `os._exit`, out of memory)."""


class LimitError(SweeperError):
    """A trial took longer over something than it may."""


class DivergedError(SweeperError):
    """NaN or infinity met while training: the message says where and at which step."""
