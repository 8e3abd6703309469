"""A study that is killed piece by piece, at random, until it is complete; and then everything is
counted."""

from __future__ import annotations

import contextlib
import random
import signal
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
from postgresql import crash
from system.launching import Command, World

VICTIMS = {"launcher": 1, "worker": 2, "environment": 2}
"""What is killed -> how often, in shares."""
OUTAGE_SECONDS = 8.0
"""At most, after the PostgreSQL was killed; a launcher looks every two whether it is back."""


class Soak:
    """`trials` short trials; until they are done, something dies every few seconds."""

    def __init__(
        self,
        world: World,
        *,
        seed: int,
        trials: int,
        most_kills: int,
        most_launcher_kills: int,
        postgres: Any = None,
        tell: Callable[[str], None] = print,
    ) -> None:
        """Both bound how long it takes, a launcher's death the most. `postgres`: the server of
        the world's database, to be killed as well: the first of all, and as often as a launcher.
        """
        self.world = world
        self.trials = trials
        self.killed: Counter[str] = Counter()
        self.launches = 0
        self._random = random.Random(seed)
        self._postgres = postgres
        self._back_at: float | None = None
        """When the server is to be started again, while it is dead."""
        self._was_away = False
        """Whether it was dead at some moment of this launch."""
        self._next: list[str] = ["postgres"] if postgres else []
        """What is to be killed, from the end."""
        self._most_kills = most_kills
        self._most_launcher_kills = most_launcher_kills
        self._tell = tell
        self._shared_memory: set[str] = set()
        tell(f"seed {seed}")

    def run(self) -> None:
        """Launch again and again until a launcher completes the study; then once more in peace,
        with what was lost more often than it is retried by itself."""
        self.world.study(stop={"trials": self.trials}, trial={"budget": {"seconds": 1}})
        while self._launch(killing=True) != 0:
            pass
        if self._back_at is not None:
            self._start_postgres()
        if self.world.sql("SELECT 1 FROM trials WHERE status = 'LOST'"):
            retry = self.world.start("retry", "matching", "--status", "LOST")
            assert retry.wait() == 0, retry.text
            assert self._launch(killing=False) == 0

    def _launch(self, *, killing: bool) -> int:
        """One launcher's life; returns its exit code."""
        launch = self.world.launch()
        self.launches += 1
        self._was_away = self._back_at is not None
        while launch.process.poll() is None:
            time.sleep(self._random.uniform(0.2, 2.0))  # the moments are what is tried out
            self._was_away |= self._back_at is not None
            if self._back_at is not None and (not killing or time.monotonic() > self._back_at):
                self._start_postgres()
            if killing and self.killed.total() < self._most_kills:
                self._kill(launch)
        code = launch.wait()
        self._tell(f"launch {self.launches}: code {code}, killed so far: {dict(self.killed)}")
        gave_up = code == 2 and self._was_away and "Traceback" not in launch.text
        assert gave_up or code in (0, -signal.SIGKILL, 128 + signal.SIGKILL), launch.text
        return code

    def _kill(self, launch: Command) -> None:
        self._shared_memory |= self.world.shared_memory()
        if not self._next:  # in no order, but each of them before long
            shares = VICTIMS | ({"postgres": 1} if self._postgres else {})
            self._next = [kind for kind, n in shares.items() for _ in range(n)]
            self._random.shuffle(self._next)
        if self._next[-1] == "postgres":
            if self._back_at is None and self.world.env_workers():  # amid something
                crash(self._postgres, signal.SIGKILL)
                self._back_at = time.monotonic() + self._random.uniform(0.0, OUTAGE_SECONDS)
                self.killed[self._next.pop()] += 1
            return
        victims = self._victims(self._next[-1], launch)
        if victims:
            with contextlib.suppress(psutil.NoSuchProcess):
                self._random.choice(victims).kill()
                self.killed[self._next.pop()] += 1

    def _start_postgres(self) -> None:
        self._postgres.ensure_postgres_running()
        self._back_at = None

    def _victims(self, kind: str, launch: Command) -> list[psutil.Process]:
        if kind == "worker":
            return self.world.trial_workers()
        if kind == "environment":
            return self.world.env_workers()
        if self.killed[kind] == self._most_launcher_kills:
            self._next.pop()
            return []
        return [psutil.Process(launch.pid)] if launch.process.poll() is None else []

    def assert_nothing_is_lost_twice_or_left(self) -> None:
        """Each trial has one completed run, whole; each attempt is a row with a reason; nobody
        and nothing is left."""
        world = self.world
        world.assert_complete(self.trials)
        attempts: dict[int, list[int]] = {}
        for trial_id, attempt in world.sql("SELECT trial_id, attempt FROM runs ORDER BY run_id"):
            attempts.setdefault(trial_id, []).append(attempt)
        assert all(made == list(range(1, len(made) + 1)) for made in attempts.values()), attempts
        unsaid = "SELECT status FROM runs WHERE status NOT IN ('COMPLETED', 'LOST') OR "
        assert world.sql(f"{unsaid} (status = 'LOST' AND reason IS NULL)") == []
        episodes = "SELECT run_id, count(*) FROM evaluations JOIN runs USING (run_id)"
        assert [
            count for _, count in world.sql(f"{episodes} WHERE status = 'COMPLETED' GROUP BY 1")
        ] == [4] * self.trials
        twice = "SELECT 1 FROM measurements GROUP BY run_id, env_steps HAVING count(*) > 1"
        assert world.sql(twice) == []
        assert world.spooled == ""
        assert not [path for path in self._shared_memory if Path(path).exists()]
