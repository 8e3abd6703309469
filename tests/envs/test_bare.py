import os

import psutil
import pytest

from sweeper.envs.bare import bare_loop, bare_processes, count_calls
from sweeper.envs.make import env_factory
from sweeper.envs.spec import EnvSpec

CLOCKWORK = env_factory(EnvSpec(make="toys:clockwork"))
ECHO = env_factory(EnvSpec(make="toys:Echo"))


def test_calls_go_round_the_actions_and_are_counted():
    seen = []
    calls = count_calls(seen.append, ["a", "b"], 1e-3)
    assert calls == len(seen)
    assert seen == [("a", "b")[k % 2] for k in range(calls)]


@pytest.mark.parametrize("factory", [CLOCKWORK, ECHO])
@pytest.mark.parametrize("n_envs", [1, 3])
def test_a_bare_loop_steps_each_environment_as_often(factory, n_envs):
    steps = bare_loop(factory, n_envs=n_envs)(1e-3)
    assert steps > 0
    assert steps % n_envs == 0


def test_bare_processes_step_again_and_again_and_leave_nothing():
    cpu = min(os.sched_getaffinity(0))
    before = set(psutil.Process().children())
    with bare_processes(CLOCKWORK, [cpu, cpu], n_envs=2) as steps:
        children = set(psutil.Process().children()) - before
        assert len(children) == 2
        assert all(child.cpu_affinity() == [cpu] for child in children)
        assert steps(1e-3) >= 4
        assert steps(1e-3) >= 4
    assert set(psutil.Process().children()) == before
